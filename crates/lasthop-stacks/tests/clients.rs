//! Pages, video on demand and video calls over stacks, over links whose answer is known by hand, and beside our own
//! TCP.

use lasthop_net::trace::Recording;
use lasthop_sim::run::{Progress, Run};
use lasthop_sim::scenario::{Format, Scenario};
use lasthop_sim::summary::FlowSummary;
use lasthop_stacks::scenario;

/// A scenario over 10 Mbit/s, 20 ms each way and 100 packets with these keys of the link; the sink asks the source.
fn parsed(seconds: u32, keys: &str, flow: &str) -> Result<Scenario, String> {
    let text = format!(
        "duration = \"{seconds} s\"\n[topology]\nkind = \"graph\"\nnodes = [\"server\", \"phone\"]\nlinks = [{{ from \
         = \"server\", to = \"phone\", rate = \"10 Mbit/s\", delay = \"20 ms\", queue = {{ kind = \"drop-tail\", limit \
         = \"100 packets\" }}{keys} }}]\n[[flows]]\nsource = \"server\"\nsink = \"phone\"\n{flow}\n"
    );
    Scenario::parse(&text, Format::Toml, "test", &[]).map_err(|error| error.to_string())
}

fn ran(seconds: u32, keys: &str, flow: &str, seed: u64) -> Run {
    let recording = Recording { trace: true, ..Recording::default() };
    let scenario = parsed(seconds, keys, flow).unwrap();
    scenario::run(scenario.plan(), seed, recording, &Progress::default()).unwrap()
}

fn row(seconds: u32, keys: &str, flow: &str) -> FlowSummary {
    ran(seconds, keys, flow, 1).summary.flows.remove(0)
}

fn page(transport: &str, traffic: &str) -> FlowSummary {
    row(20, "", &format!("transport = {transport}\ntraffic = {{ kind = \"web\", {traffic} }}"))
}

/// Time on the wire of these bytes, in seconds.
fn wire(bytes: u32) -> f64 {
    f64::from(bytes) * 8.0 / 10e6
}

fn page_time(transport: &str, traffic: &str) -> f64 {
    let web = page(transport, traffic).web.unwrap();
    assert_eq!((web.pages_asked, web.pages_read), (1, 1), "{transport}, {traffic}");
    web.page_mean_s.unwrap()
}

const ONE: &str = "objects = [{ size = \"1 kB\" }], pages = 1";
const A_CHAIN: &str = "objects = [{ size = \"1 kB\" }, { size = \"1 kB\", after = 1 }, { size = \"1 kB\", after = 2 \
                       }], pages = 1";
/// Headers of IP and UDP, and datagrams with an Initial packet: padded to 1200 B (RFC 9000 section 14.1).
const INITIAL: u32 = 1228;

/// An object of 1 kB by hand. QUIC: an Initial each way, a third with the request behind it, then the answer and what a
/// server says at the beginning (less than 300 B); 0-RTT: the request is with the first and the answer with the second.
/// Each further object takes a round trip, 400 B and 1 kB, and less than 100 B of headers for each of these. TCP opens
/// with two packets of 40 B and options in place of three Initials; in ours a third stands before the answer, which
/// opens the direction of the server.
#[test]
fn page_times_by_hand() {
    let one = page_time("\"quinn\"", ONE);
    let least = 0.08 + wire(3 * INITIAL + 1000);
    assert!(one > least && one < least + wire(300), "{one} s, at least {least} s");
    let early = page_time("{ stack = \"quinn\", early_data = true }", ONE);
    let least = 0.04 + wire(INITIAL + 1000);
    assert!(early > least && early < least + wire(INITIAL + 300), "{early} s, at least {least} s");
    let least_step = 0.04 + wire(1400);
    for transport in ["\"quinn\"", "{ stack = \"quinn\", early_data = true }", "\"smoltcp\"", "\"cubic\""] {
        let step = (page_time(transport, A_CHAIN) - page_time(transport, ONE)) / 2.0;
        // What probes for a longer packet have before them waits for these.
        let most_step = least_step + wire(200) + if transport.contains("early") { wire(2960) } else { 0.0 };
        assert!(step > least_step && step < most_step, "{transport}: {step} s, at least {least_step} s");
    }
    for transport in ["\"smoltcp\"", "\"cubic\""] {
        let one = page_time(transport, ONE);
        let least = 0.08 + wire(2 * 40 + 440 + 1040);
        assert!(one > least && one < least + wire(200), "{transport}: {one} s, at least {least} s");
    }
    // A server at work: what it says at the beginning is gone by then.
    let slow = page_time("\"quinn\"", &format!("{ONE}, server_time = \"50 ms\""));
    let least = 0.13 + wire(3 * INITIAL + 1000);
    assert!(slow > least && slow < least + wire(100), "{slow} s, at least {least} s");
}

/// A page of 1.7 MB takes no less than its bytes on the wire, and over quinn at most a tenth more than over our TCP.
/// What came is what was asked for, however it came.
#[test]
fn a_whole_page() {
    let whole = |transport: &str| page(transport, "page = \"home-mobile\", pages = 1");
    let (quic, early, tcp) =
        (whole("\"quinn\""), whole("{ stack = \"quinn\", early_data = true }"), whole("\"cubic\""));
    for flow in [&quic, &early, &tcp] {
        assert_eq!(flow.bytes_delivered, 1_699_832, "{}", flow.transport);
    }
    let time = |flow: &FlowSummary| flow.web.as_ref().unwrap().page_mean_s.unwrap();
    assert!(time(&quic) > wire(1_699_832) * 1480.0 / 1417.0, "{}", time(&quic));
    assert!(time(&quic) < 1.1 * time(&tcp), "{} and {}", time(&quic), time(&tcp));
    assert_eq!(quic.start_s, tcp.start_s, "the client's first packet");
    // A slow start of smoltcp ends in losses, which it repairs one by one; its six connections start with two packets.
    for protocol in ["http/1.1", "http/2"] {
        let flow =
            page("\"smoltcp\"", &format!("protocol = \"{protocol}\", page = \"home-mobile\", pages = 1"));
        assert_eq!(flow.bytes_delivered, 1_699_832, "{protocol}");
        assert_eq!(flow.web.unwrap().pages_read, 1, "{protocol}");
    }
}

/// Pages one after another over a connection that is kept, over losses, and the same twice; none begins after `stop`.
#[test]
fn readers_read_on() {
    let lossy = ", error = { kind = \"bernoulli\", packet_error_rate = 0.02 }";
    let traffic = "traffic = { kind = \"web\", objects = [{ size = \"5 kB\" }, { size = \"8 kB\", count = 120, after = \
                   1 }], think = \"1 s\" }\nstop = \"40 s\"";
    for transport in ["\"quinn\"", "\"quinn:lasthop:veno\"", "\"noq\"", "\"smoltcp:reno\""] {
        let text = format!("transport = {transport}\n{traffic}");
        let flow = row(60, lossy, &text);
        let web = flow.web.as_ref().unwrap();
        assert!(web.pages_asked >= 3 && web.pages_read == web.pages_asked, "{transport}: {web:?}");
        assert_eq!(flow.bytes_delivered, web.pages_read * (5_000 + 120 * 8_000), "{transport}");
        assert!(flow.retransmitted_packets.unwrap() > 10, "{transport}");
        let again = row(60, lossy, &text).web.unwrap();
        assert_eq!((again.pages_read, again.page_mean_s), (web.pages_read, web.page_mean_s), "{transport}");
    }
}

/// quinn ends a connection after 30 s without a packet; what was asked for by then never comes, and the row says so.
#[test]
fn a_connection_that_ends_is_told() {
    let gone = ", handoff = { at = [\"5 s\"], outage = \"70 s\" }";
    let page = "kind = \"web\", objects = [{ size = \"5 kB\" }], think = \"0.1 s\"";
    let text = &format!("transport = \"quinn\"\ntraffic = {{ {page} }}");
    let flow = row(80, gone, text);
    let web = flow.web.unwrap();
    assert_eq!(web.pages_asked, web.pages_read + 1);
    assert!((30.0..45.0).contains(&flow.reset_s.unwrap()), "{:?}", flow.reset_s);
}

/// Over a clean link the player chooses and plays the same over quinn as over our TCP. The first segment of 230 kbit/s
/// and 3 s is 86 kB: a handshake, a request, and at least three windows that double from 12 kB.
#[test]
fn video_is_played() {
    let played = |transport: &str| {
        let flow = row(60, "", &format!("transport = {transport}\ntraffic = \"video-on-demand\""));
        (flow.player.unwrap(), flow.bytes_delivered)
    };
    let (tcp, bytes) = played("\"cubic\"");
    for transport in ["\"quinn\"", "\"quinn:newreno\"", "\"quinn:bbr\"", "\"noq\"", "\"smoltcp:reno\""] {
        let (player, came) = played(transport);
        assert_eq!(player.stalls, 0, "{transport}");
        let startup = player.startup_s.unwrap();
        assert!(startup > 0.08 + wire(3 * INITIAL + 86_250), "{transport}: {startup} s");
        if !transport.starts_with("\"smoltcp") {
            assert_eq!(
                (player.segments, player.bit_rate_bit_s),
                (tcp.segments, tcp.bit_rate_bit_s),
                "{transport}"
            );
            assert!(came.abs_diff(bytes) < 3_000_000, "{transport}: {came} and {bytes}");
            assert!(startup < tcp.startup_s.unwrap() + 0.04, "{transport}: {startup} s");
        }
    }
}

const LOSSY: &str =
    ", error = { kind = \"bernoulli\", packet_error_rate = 0.01 }, reverse = { error = \"none\" }";

/// A call over quinn has the rate, the opinion and, but for headers, the delays that it has over our TCP. In datagrams
/// a lost packet costs a key frame and the frames up to it: the one that it is of, and those of some 60 ms, until quinn
/// has found the loss.
#[test]
fn calls_are_held() {
    let call = |transport: &str, keys: &str| {
        let flow = row(60, keys, &format!("transport = {transport}\ntraffic = \"video-call\""));
        (flow.call.unwrap(), flow.packets_lost.0.iter().sum::<u64>())
    };
    let (tcp, _) = call("\"cubic\"", "");
    for transport in [
        "\"quinn\"",
        "\"quinn:bbr\"",
        "\"quinn+datagrams\"",
        "\"quinn:bbr+datagrams\"",
        "\"noq\"",
        "\"noq+datagrams\"",
    ] {
        let (held, _) = call(transport, "");
        assert_eq!((held.rate_bit_s, held.opinion, held.frames_lost), (tcp.rate_bit_s, tcp.opinion, Some(0)));
        let differ = held.frame_delay_p50_s.unwrap() - tcp.frame_delay_p50_s.unwrap();
        assert!(differ.abs() < 0.0005, "{transport}: {differ} s");
    }
    let (held, _) = call("\"quinn\"", LOSSY);
    assert_eq!((held.frames_lost, held.key_frames), (Some(0), 1), "a stream repeats");
    for transport in ["\"quinn:bbr+datagrams\"", "\"quinn+datagrams\"", "\"noq+datagrams\""] {
        let (held, lost) = call(transport, LOSSY);
        let frames = held.frames_lost.unwrap();
        assert!(frames >= lost && frames <= 3 * lost, "{transport}: {frames} frames by {lost} packets");
        // Two packets of one frame, or of two between two key frames, cost one.
        assert!(held.key_frames > lost / 2 && held.key_frames <= lost + 1, "{transport}: {held:?}");
    }
    // Too little for the encoder's least rate: frames are skipped, and do not pile up.
    let narrow = row(
        30,
        "",
        "transport = \"quinn+datagrams\"\ntraffic = { kind = \"video-call\", min_rate = \"12 Mbit/s\", \
                              max_rate = \"12 Mbit/s\" }",
    );
    let held = narrow.call.unwrap();
    assert!(held.skipped_frames > 20, "{held:?}");
    assert!(held.frame_delay_p95_s.unwrap() < 1.0, "{held:?}");
}

/// The log is that of the server, which has the data.
#[test]
fn the_log_of_a_page() {
    let run = ran(5, "", &format!("transport = \"quinn\"\ntraffic = {{ kind = \"web\", {ONE} }}"), 1);
    let text: Vec<u8> = run.recorded.logs.iter().flat_map(|(_, part)| part.clone()).collect();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(r#""vantage_point":{"name":"sender","type":"server"}"#), "{text}");
    assert!(text.contains("transport:packet_sent"), "{text}");
}
