//! Stacks as transports of a scenario's flows, over links whose answer is known.

use lasthop_net::trace::{HopRecord, Recording};
use lasthop_sim::run::{Progress, Run, RunError};
use lasthop_sim::scenario::{Format, STACKS, Scenario, Stack};
use lasthop_sim::summary::FlowSummary;
use lasthop_stacks::quinn::Congestion;
use lasthop_stacks::{scenario, smoltcp};
use qlog::events::EventData;
use qlog::reader::{Event, QlogSeqReader};

/// 10 Mbit/s, 20 ms each way, 50 packets.
const LINK: &str = "[topology]\nkind = \"graph\"\nnodes = [\"server\", \"phone\"]\nlinks = [{ from = \"server\", to \
                    = \"phone\", rate = \"10 Mbit/s\", delay = \"20 ms\", queue = { kind = \"drop-tail\", limit = \
                    \"50 packets\" }, LINK }]\n";

/// A scenario of this length over the link with these keys, and these flows between its ends.
fn plan(seconds: u32, keys: &str, flows: &[&str]) -> Scenario {
    let flow = |flow: &&str| format!("[[flows]]\nsource = \"server\"\nsink = \"phone\"\n{flow}\n");
    let flows = flows.iter().map(flow).collect::<Vec<_>>().concat();
    let text = format!("duration = \"{seconds} s\"\n{}{flows}", LINK.replace(", LINK", keys));
    Scenario::parse(&text, Format::Toml, "test", &[]).unwrap()
}

fn run(scenario: &Scenario, seed: u64) -> Run {
    scenario::run(scenario.plan(), seed, Recording::default(), &Progress::default()).unwrap()
}

fn lone(seconds: u32, keys: &str, flow: &str) -> FlowSummary {
    run(&plan(seconds, keys, &[flow]), 1).summary.flows.remove(0)
}

#[test]
fn the_scenario_knows_what_there_is() {
    let known: Vec<_> = STACKS.iter().map(|stack| stack.name).collect();
    assert_eq!(known, ["quinn", "noq", "smoltcp"]);
    assert_eq!(STACKS[2].congestion, smoltcp::Congestion::ALL.map(smoltcp::Congestion::name));
    assert_eq!(STACKS[2].congestion[0], smoltcp::Congestion::default().name());
    for stack in &STACKS[..2] {
        let own = [Congestion::Cubic, Congestion::NewReno, Congestion::Bbr];
        assert_eq!(stack.congestion, own.map(|one| one.name(stack.name)));
        assert_eq!(stack.congestion[0], Congestion::default().name(stack.name));
    }
}

/// Of a datagram of 1452 bytes about 1417 are data, and on the wire it takes 1480: 9.574 of 10 Mbit/s. Every controller
/// fills 95 % of that in 30 s, set-up and slow start included, but noq's BBR, which falls short by itself (`quic.rs`);
/// what the stack says of itself stands in the row.
#[test]
fn a_clean_link_is_filled() {
    let of = |stack: &'static Stack| stack.congestion.iter().map(|congestion| (stack.name, *congestion));
    for (stack, congestion) in STACKS[..2].iter().flat_map(of).filter(|(_, congestion)| *congestion != "bbr3")
    {
        let text = format!("transport = {{ stack = \"{stack}\", congestion = \"{congestion}\" }}");
        let flow = lone(30, "", &text);
        let ceiling = 10e6 * 1417.0 / 1480.0;
        let rate = flow.goodput_bit_s;
        assert!(rate > 0.95 * ceiling && rate < 1.001 * ceiling, "{congestion}: {rate} bit/s");
        assert_eq!(flow.transport, format!("{stack}:{congestion}"));
        let rtt = flow.rtt_mean_s.unwrap();
        assert!((0.04..0.15).contains(&rtt), "{congestion}: {rtt} s");
        assert!(flow.throughput_bit_s > rate && flow.throughput_bit_s <= 10e6);
        assert!(flow.acks_sent > flow.packets_sent / 20, "{congestion}: {} ACKs", flow.acks_sent);
        // The queue is longer than half a window, so few losses are a congestion's; none of them is counted twice.
        let lost: u64 = flow.packets_lost.0.iter().sum();
        assert!(
            flow.retransmitted_packets.unwrap() <= 2 * lost + 50,
            "{} of {lost}",
            flow.retransmitted_packets.unwrap()
        );
        assert_eq!((flow.completion_s, flow.reset_s), (None, None));
    }
}

/// Every controller of ours that a stack can drive fills a clean link to 80 %, and parameters are its own.
#[test]
fn controllers_of_ours_fill_a_clean_link() {
    let of = |stack: &'static Stack| stack.controllers().map(|config| (stack.name, config.name()));
    for (stack, name) in STACKS.iter().flat_map(of) {
        let text = format!("transport = {{ stack = \"{stack}\", congestion = \"lasthop:{name}\" }}");
        let flow = lone(20, "", &text);
        let rate = flow.goodput_bit_s;
        assert!(rate > 0.8 * 10e6 * 1417.0 / 1480.0, "{stack}:{name}: {rate} bit/s");
        assert_eq!(flow.transport, format!("{stack}:lasthop:{name}"));
    }
    let reno = |parameter: &str| {
        let lossy =
            ", error = { kind = \"bernoulli\", packet_error_rate = 0.01 }, reverse = { error = \"none\" }";
        let text = format!("transport = {{ stack = \"quinn\", congestion = \"lasthop:gaimd\"{parameter} }}");
        lone(60, lossy, &text).goodput_bit_s
    };
    // AIMD at random losses: the rate grows with the square root of alpha (Yang & Lam 2000).
    let ratio = reno(", alpha = 4.0, beta = 0.5") / reno(", alpha = 1.0, beta = 0.5");
    assert!((1.6..2.4).contains(&ratio), "{ratio}");
}

/// What Veno in quinn takes losses for stands beside what they were: errors alone where no queue overflows, overflows
/// alone where nothing else loses, and no more of them than quinn found times of loss.
#[test]
fn verdicts_are_held_against_the_truth() {
    let errors =
        ", error = { kind = \"bernoulli\", packet_error_rate = 0.01 }, reverse = { error = \"none\" }";
    let verdicts = |keys: &str| {
        let flow = lone(60, keys, "transport = \"quinn:lasthop:veno\"");
        let seen = flow.loss_verdicts.unwrap();
        let rows = [seen.congestion, seen.wireless, seen.nothing].map(|row| (row.congestion, row.wireless));
        let all: u64 = rows.iter().map(|row| row.0 + row.1).sum();
        assert!(
            (1..=flow.fast_recoveries.unwrap()).contains(&all),
            "{all} of {}",
            flow.fast_recoveries.unwrap()
        );
        rows
    };
    let [congestion, wireless, nothing] = verdicts(errors);
    assert_eq!((congestion, nothing), ((0, 0), (0, 0)));
    // Fewer than three packets wait when a packet is lost by chance.
    assert!(wireless.1 > 100 && wireless.1 > wireless.0, "{wireless:?}");
    let [congestion, wireless, nothing] = verdicts("");
    assert_eq!((wireless, nothing), ((0, 0), (0, 0)));
    assert_eq!(congestion.1, 0, "a full queue holds more than three");
    assert!(lone(5, errors, "transport = \"quinn:lasthop:reno\"").loss_verdicts.is_none());
}

/// Those that it cannot drive, and mistakes, are refused where they stand.
#[test]
fn what_cannot_run_is_refused_with_the_reason() {
    let refused = |transport: &str| {
        let text = format!(
            "duration = \"1 s\"\n{}[[flows]]\nsource = \"server\"\nsink = \"phone\"\ntransport = {transport}\n",
            LINK.replace(", LINK", "")
        );
        Scenario::parse(&text, Format::Toml, "test", &[]).unwrap_err().to_string()
    };
    let jtcp = refused("\"quinn:lasthop:jtcp\"");
    assert!(jtcp.contains("jtcp cannot run in quinn: QUIC does not carry times of arrival"), "{jtcp}");
    assert!(jtcp.contains("these run in it: reno, "), "{jtcp}");
    let table = |rest: &str| refused(&format!("{{ stack = \"quinn\", {rest} }}"));
    let cases = [
        (
            "congestion = \"lasthop:bbr\"",
            "bbr cannot run in quinn: quinn tells it no delivery rate; quinn paces",
        ),
        ("congestion = \"lasthop:venn\"", "did you mean \"lasthop:veno\"?"),
        ("congestion = \"veno\"", "unknown congestion of quinn \"veno\""),
        ("congestion = 3", "congestion of quinn cannot be 3"),
        ("congestion = \"lasthop:veno\", beta = -1", "beta"),
        ("congestion = \"cubic\", beta = 3", "unknown key \"beta\" in stack"),
    ];
    let smoltcp = refused("\"smoltcp:lasthop:veno\"");
    assert!(smoltcp.contains("smoltcp takes no controllers of ours"), "{smoltcp}");
    assert!(smoltcp.contains("choose one of its own: cubic, reno, none"), "{smoltcp}");
    let datagrams = refused("{ stack = \"smoltcp\", data = \"datagrams\" }");
    assert!(datagrams.contains("smoltcp has no datagrams"), "{datagrams}");
    assert!(datagrams.contains("leave data out, or choose quinn, noq"), "{datagrams}");
    let of_traffic = [
        ("smoltcp", "video-call", "an encoder follows window and RTT, and it reports neither"),
        (
            "smoltcp",
            "video-call",
            "capture, game, web, video-on-demand; or choose a transport of the simulator",
        ),
        ("quinn", "voice", "needs datagrams: what comes late over a reliable transport is lost to a call"),
        ("quinn+datagrams", "ftp", "a file needs a stream"),
        ("quinn+datagrams", "web", "does not run over quinn:cubic+datagrams: an answer needs a stream"),
        ("quinn+datagrams", "video-on-demand", "an answer needs a stream"),
        ("quinn+datagrams", "video-on-demand", "capture, voice, game, video-call; or choose a transport"),
        ("udp", "web", "needs TCP"),
    ];
    let of_protocols = [
        ("quinn", "http/2", "http/2 does not run over QUIC", "write protocol = \"http/3\", or leave it out"),
        ("quinn", "http/1.1", "http/1.1 does not run over QUIC", "leave it out"),
        ("smoltcp", "http/3", "http/3 runs over QUIC", "write transport = { stack = \"quinn\" }, or"),
        ("cubic", "http/3", "http/3 runs over QUIC", "protocol = \"http/2\""),
        (
            "quinn",
            "http/3\", connections = 6, page = \"home-mobile",
            "http/3 has one connection",
            "leave it out",
        ),
    ];
    for (transport, protocol, message, remedy) in of_protocols {
        let traffic = format!("{{ kind = \"web\", protocol = \"{protocol}\" }}");
        let said = refused(&format!("\"{transport}\"\ntraffic = {traffic}"));
        assert!(said.contains(message) && said.contains(remedy), "{transport}, {protocol}: {said}");
    }
    for (transport, kind, expected) in of_traffic {
        let said = refused(&format!("\"{transport}\"\ntraffic = \"{kind}\""));
        assert!(said.contains(expected), "{transport}, {kind}: {said}");
    }
    let paced = "{ kind = \"paced-ftp\", write = \"1 kB\", interval = \"1 ms\", bytes = \"1 MB\" }";
    let said = refused(&format!("\"quinn+datagrams\"\ntraffic = {paced}"));
    assert!(said.contains("what is lost of it never comes, so it has no end"), "{said}");
    assert!(said.contains("it carries paced-ftp without bytes, cbr, on-off"), "{said}");
    let early = refused("{ stack = \"smoltcp\", early_data = true }");
    assert!(early.contains("smoltcp sends no data in its first flight"), "{early}");
    for (rest, expected) in cases {
        let said = table(rest);
        assert!(said.contains(expected), "{rest}: {said}");
    }
}

/// 1 MB at 10 Mbit/s takes 0.84 s on the wire, and set-up, slow start and the last ACK some round trips of 40 ms.
#[test]
fn a_transfer_ends() {
    let flow = lone(10, "", "transport = \"quinn\"\ntraffic = { kind = \"ftp\", bytes = \"1 MB\" }");
    assert_eq!(flow.bytes_delivered, 1_000_000);
    let took = flow.completion_s.unwrap();
    assert!((0.95..1.4).contains(&took), "{took} s");
    assert_eq!(flow.reset_s, None);
}

/// A transfer by ends that have met before completes a round trip earlier, 40 ms and what a flight takes to send, less
/// the 25 ms for which its last acknowledgement may wait.
#[test]
fn early_data_is_a_key() {
    let took = |early: &str| {
        let traffic = "traffic = { kind = \"ftp\", bytes = \"2 kB\" }";
        let text = format!("transport = {{ stack = \"quinn\"{early} }}\n{traffic}");
        lone(2, "", &text).completion_s.unwrap()
    };
    let (plain, early) = (took(""), took(", early_data = true"));
    assert!((0.015..0.046).contains(&(plain - early)), "{early} s in place of {plain} s");
    assert_eq!(took(", early_data = false"), plain);
}

/// Starts and stops are those of other flows: nothing leaves before the one, and little arrives after the other.
#[test]
fn a_flow_starts_and_stops() {
    let flow = "transport = \"quinn:newreno\"\nstart = \"2 s\"\nstop = \"5 s\"";
    let one = lone(20, "", flow);
    assert_eq!(one.start_s, Some(2.0));
    let seconds = one.bytes_delivered as f64 * 8.0 / 9.574e6;
    assert!((2.7..3.1).contains(&seconds), "{seconds} s of data");
    assert_eq!((one.completion_s, one.reset_s), (None, None));
}

/// The measured time begins after a warm-up: goodput, packets and losses are those of that time.
#[test]
fn a_warm_up_is_left_out() {
    let text = |warmup: &str| {
        let lossy = ", error = { kind = \"bernoulli\", packet_error_rate = 0.01 }";
        let text = plan(20, lossy, &["transport = \"quinn:newreno\""]).to_json();
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value["warmup"] = warmup.into();
        Scenario::parse(&value.to_string(), Format::Json, "test", &[]).unwrap()
    };
    let (whole, half) = (run(&text("0 s"), 1), run(&text("10 s"), 1));
    let (whole, half) = (&whole.summary.flows[0], &half.summary.flows[0]);
    for (all, part) in [
        (whole.packets_sent, half.packets_sent),
        (whole.retransmitted_packets.unwrap(), half.retransmitted_packets.unwrap()),
        (whole.fast_recoveries.unwrap(), half.fast_recoveries.unwrap()),
        (whole.bytes_delivered, half.bytes_delivered),
    ] {
        let share = part as f64 / all as f64;
        assert!((0.2..0.8).contains(&share), "{part} of {all}");
    }
}

/// Both ends of every flow, and of those beside, do the same in every run of a seed.
#[test]
fn the_same_seed_gives_the_same_run() {
    let lossy = ", error = { kind = \"bernoulli\", packet_error_rate = 0.01 }";
    let flows = ["transport = \"quinn:bbr\"", "transport = \"quinn\"\ncount = 2", "transport = \"cubic\""];
    let scenario = plan(10, lossy, &flows);
    let print = |seed| run(&scenario, seed).summary.fingerprint;
    assert_eq!(print(3), print(3));
    assert_ne!(print(3), print(4));
    let shares: Vec<_> = run(&scenario, 3).summary.flows.iter().map(|flow| flow.goodput_bit_s).collect();
    assert_eq!(shares.len(), 4);
    assert!(shares.iter().all(|&share| share > 0.05e6), "{shares:?}");
}

/// A link that takes less than quinn's longest datagram: probes for it do not get out, and the transfer goes on.
#[test]
fn short_links_are_found_out() {
    let flow = lone(10, ", mtu = \"1300 B\"", "transport = \"quinn\"");
    assert!(flow.goodput_bit_s > 8.5e6, "{}", flow.goodput_bit_s);
    let narrow = "duration = \"1 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\"]\nlinks = [{ from = \
                  \"a\", to = \"b\", rate = \"1 Mbit/s\", delay = \"1 ms\", mtu = \"1000 B\" }]\n[[flows]]\nsource = \
                  \"a\"\nsink = \"b\"\ntransport = \"quinn\"\n";
    let error = Scenario::parse(narrow, Format::Toml, "test", &[]).unwrap_err().to_string();
    assert!(error.contains("packets of 1228 B do not pass"), "{error}");
}

/// Helpers that read TCP, and proxies that split its connections, let a stack pass as they let UDP pass.
#[test]
fn helpers_of_tcp_let_it_pass() {
    let rate = |helper: &str| {
        let text = format!(
            "duration = \"10 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"server\", \"base\", \"phone\"]\n\
             [[topology.links]]\nfrom = \"server\"\nto = \"base\"\nrate = \"100 Mbit/s\"\ndelay = \"10 ms\"\n\
             [[topology.links]]\nfrom = \"base\"\nto = \"phone\"\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
             error = {{ kind = \"bernoulli\", packet_error_rate = 0.01 }}\n{helper}\n\
             [[flows]]\nsource = \"server\"\nsink = \"phone\"\ntransport = \"quinn:bbr\"\n\
             [[flows]]\nsource = \"server\"\nsink = \"phone\"\ntransport = \"sack\"\nstart = \"9 s\"\n"
        );
        let scenario = Scenario::parse(&text, Format::Toml, "test", &[]).unwrap();
        run(&scenario, 1).summary.flows[0].goodput_bit_s
    };
    let alone = rate("");
    for helper in ["snoop", "split"] {
        let with = rate(&format!("middleboxes = [{{ kind = \"{helper}\" }}]"));
        assert!((with / alone - 1.0).abs() < 0.05, "{helper}: {with} and {alone} bit/s");
    }
}

/// quinn's log, read by the crate of qlog, has what the network saw: every byte that left, and every loss that the row
/// of the results counts, at the times of the run. It changes nothing, and does so in every run of a seed.
#[test]
fn a_log_has_what_the_network_saw() {
    let lossy = ", error = { kind = \"bernoulli\", packet_error_rate = 0.02 }";
    let quic = "transport = { stack = \"quinn\", congestion = \"bbr\", early_data = true }\nstart = \"1 s\"";
    let flows = [quic, "transport = \"sack\"", "transport = \"smoltcp\""];
    let scenario = plan(20, lossy, &flows);
    let traced = || {
        let recording = Recording { trace: true, ..Recording::default() };
        scenario::run(scenario.plan(), 1, recording, &Progress::default()).unwrap()
    };
    let logged = traced();
    assert_eq!(logged.summary.fingerprint, run(&scenario, 1).summary.fingerprint);
    assert_eq!(logged.recorded.logs, traced().recorded.logs);
    let of_quinn = |(flow, _): &&(u32, Vec<u8>)| *flow == 0;
    let parts = logged.recorded.logs.iter();
    assert_eq!(parts.clone().filter(of_quinn).count(), parts.len(), "smoltcp writes none");
    let text: Vec<u8> = parts.flat_map(|(_, part)| part.clone()).collect();
    let reader = QlogSeqReader::new(Box::new(&text[..])).unwrap();
    let title = "flow-1 (quinn:bbr), seed 1";
    assert_eq!((reader.qlog.qlog_version.as_str(), reader.qlog.title.as_deref()), ("0.3", Some(title)));
    let (mut sent, mut lost, mut got, mut last) = ((0, 0), 0, 0, 0.0);
    let (mut windows, mut least) = (Vec::new(), 0.0);
    for event in reader {
        let Event::Qlog(event) = event else { panic!("{event:?}") };
        assert!((1000.0..=20_000.0).contains(&event.time) && event.time >= last, "{} ms", event.time);
        last = event.time;
        match event.data {
            EventData::PacketSent(packet) => {
                sent = (sent.0 + 1, sent.1 + packet.raw.unwrap().length.unwrap());
            }
            EventData::PacketLost(_) => lost += 1,
            EventData::PacketReceived(_) => got += 1,
            EventData::MetricsUpdated(metrics) => {
                windows.extend(metrics.congestion_window);
                least = metrics.min_rtt.unwrap_or(least);
            }
            other => panic!("{other:?}"),
        }
    }
    let flow = &logged.summary.flows[0];
    let hops = logged.recorded.hops.iter().filter(|hop| hop.flow == 0);
    let (back, forth): (Vec<&HopRecord>, Vec<_>) = hops.partition(|hop| hop.back);
    let bytes: u64 = forth.iter().map(|hop| u64::from(hop.bytes) - 28).sum();
    assert_eq!(sent.1, bytes, "bytes of all datagrams");
    assert_eq!(forth.len() as u64, flow.packets_sent);
    // Packets of the handshake share datagrams.
    let within = |packets: u64, datagrams: usize| (datagrams as u64..datagrams as u64 + 5).contains(&packets);
    assert!(within(sent.0, forth.len()), "{sent:?} packets in {} datagrams", forth.len());
    let came = back.iter().filter(|hop| hop.arrived.is_some()).count();
    assert!(within(got, came), "{got} packets in {came} datagrams");
    assert!(lost > 50);
    assert_eq!(lost, flow.retransmitted_packets.unwrap());
    // 20 ms each way, and 1.2 ms on the wire.
    assert!((40.0..43.0).contains(&least), "{least} ms");
    assert!(windows.len() > 100 && windows.iter().all(|&window| window >= 2 * 1200));
}

/// noq's log, whose schema is a later one, has every byte that left, and every loss that the row of the results counts.
#[test]
fn a_log_of_noq_has_what_the_network_saw() {
    let lossy = ", error = { kind = \"bernoulli\", packet_error_rate = 0.02 }";
    let scenario = plan(20, lossy, &["transport = \"noq\"\nstart = \"1 s\""]);
    let recording = Recording { trace: true, ..Recording::default() };
    let logged = scenario::run(scenario.plan(), 1, recording, &Progress::default()).unwrap();
    assert_eq!(logged.summary.fingerprint, run(&scenario, 1).summary.fingerprint);
    let text: Vec<u8> = logged.recorded.logs.iter().flat_map(|(_, part)| part.clone()).collect();
    let records = text.split(|&byte| byte == 0x1e).filter(|record| !record.is_empty());
    let records: Vec<serde_json::Value> =
        records.map(|record| serde_json::from_slice(record).unwrap()).collect();
    assert_eq!(records[0]["title"], "flow (noq:cubic), seed 1");
    let of = |name: &'static str| records.iter().filter(move |record| record["name"] == name);
    let bytes: u64 = of("quic:packet_sent").map(|sent| sent["data"]["raw"]["length"].as_u64().unwrap()).sum();
    let hops = logged.recorded.hops.iter().filter(|hop| !hop.back);
    assert_eq!(bytes, hops.map(|hop| u64::from(hop.bytes) - 28).sum::<u64>(), "bytes of all datagrams");
    let lost = of("quic:packet_lost").count() as u64;
    assert!(lost > 50);
    assert_eq!(lost, logged.summary.flows[0].retransmitted_packets.unwrap());
    let rtts = of("quic:recovery_metrics_updated").filter_map(|one| one["data"]["latest_rtt"].as_f64());
    assert!(rtts.clone().count() > 100 && rtts.clone().all(|rtt| (40.0..=333.0).contains(&rtt)));
}

/// Limits hold as they do in other runs.
#[test]
fn limits_end_a_run() {
    let progress = Progress::default();
    progress.cancel();
    let scenario = plan(60, "", &["transport = \"quinn\""]);
    let ended = scenario::run(scenario.plan(), 1, Recording::default(), &progress);
    assert!(matches!(ended, Err(RunError::Interrupted { .. })), "{ended:?}");
}

/// The simulator alone says which build has it.
#[test]
fn the_simulator_alone_refuses() {
    let scenario = plan(1, "", &["transport = \"quinn:bbr\""]);
    let refused =
        lasthop_sim::run::run(scenario.plan(), 1, Recording::default(), &Progress::default()).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("has the transport quinn:bbr, a real stack, which this build does not have"),
        "{text}"
    );
    assert!(text.contains("make build FEATURES=stacks"), "{text}");
}

/// The only flow of a run of this length, with real-time metrics.
fn measured(seconds: u32, keys: &str, flow: &str) -> FlowSummary {
    let text = plan(seconds, keys, &[flow]).to_json();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["measure"] = serde_json::json!({ "realtime": {} });
    let scenario = Scenario::parse(&value.to_string(), Format::Json, "test", &[]).unwrap();
    run(&scenario, 1).summary.flows.remove(0)
}

const LOSSY: &str =
    ", error = { kind = \"bernoulli\", packet_error_rate = 0.05 }, reverse = { error = \"none\" }";

/// So much in 500 B at a time, for 60 s.
fn steady(rate: &str) -> String {
    format!(
        "traffic = {{ kind = \"cbr\", rate = \"{rate}\", packet = \"500 B\" }}\nstart = \"0 s\"\nstop = \"60 s\""
    )
}

/// A datagram is sent once, and arrives or is lost, by the count of the network; over a stream what is lost is sent
/// again, and all arrives. A write each 200 ms has a packet to itself, but for those that wait for the handshake; at
/// 1 Mbit/s two share one now and then, as the window is short.
#[test]
fn datagrams_are_never_sent_again() {
    for (congestion, rate, writes) in [
        ("cubic", "20 kbit/s", 300),
        ("newreno", "20 kbit/s", 300),
        ("bbr", "20 kbit/s", 300),
        ("cubic", "1 Mbit/s", 15_000),
    ] {
        let table = format!("{{ stack = \"quinn\", congestion = \"{congestion}\", data = \"datagrams\" }}");
        let over = |keys| measured(62, keys, &format!("transport = {table}\n{}", steady(rate)));
        let clean = over("");
        assert_eq!(
            (clean.transport.as_str(), clean.bytes_delivered),
            (&*format!("quinn:{congestion}+datagrams"), 500 * writes)
        );
        let flow = over(LOSSY);
        let seen = flow.realtime.as_ref().unwrap();
        let (lost, missing) = (seen.lost_transmissions, writes - flow.bytes_delivered / 500);
        assert_eq!(seen.transmitted_packets, seen.transmissions, "{congestion}");
        assert_eq!(seen.transmissions, seen.received_packets + lost, "{congestion}");
        assert!(seen.transmissions <= writes && lost > 0, "{congestion}: {seen:?}");
        assert!((lost..=2 * lost).contains(&missing), "{congestion}: {missing} writes in {lost} packets");
        if rate == "20 kbit/s" {
            assert_eq!(clean.realtime.as_ref().unwrap().transmissions, writes, "{congestion}");
            assert!(seen.transmissions > writes - 10, "{congestion}: {seen:?}");
        }
    }
    for stack in ["quinn", "noq", "smoltcp:reno"] {
        let clean = measured(62, "", &format!("transport = \"{stack}\"\n{}", steady("20 kbit/s")));
        // Not that which ends the stream.
        assert_eq!(clean.realtime.as_ref().unwrap().transmissions, 300, "{stack}");
        let flow = measured(65, LOSSY, &format!("transport = \"{stack}\"\n{}", steady("200 kbit/s")));
        let seen = flow.realtime.as_ref().unwrap();
        assert_eq!(flow.bytes_delivered, 1_500_000, "{stack}");
        let (again, lost) = (seen.transmissions - seen.transmitted_packets, seen.lost_transmissions);
        assert!(again > 50 && again <= 2 * lost, "{stack}: {again} for {lost}");
    }
}

/// What is written at a stop goes on its way; every kind that a stack carries arrives whole over a clean link, in time.
#[test]
fn traffic_by_a_clock_arrives() {
    let kinds = [
        "{ kind = \"cbr\", rate = \"1 Mbit/s\", packet = \"500 B\" }",
        "{ kind = \"on-off\", rate = \"1 Mbit/s\", packet = \"500 B\", on = \"1 s\", off = \"1 s\" }",
        "\"mpeg4\"",
        "{ kind = \"frames\", sizes = [\"6 kB\", \"1 kB\", \"2 kB\"] }",
        "{ kind = \"frames\", sizes = [\"6 kB\", \"1 kB\", \"2 kB\"], spread = true }",
        "{ kind = \"game\", side = \"server\" }",
        "{ kind = \"paced-ftp\", write = \"3 kB\", interval = \"20 ms\" }",
    ];
    for traffic in kinds {
        let rest = format!("traffic = {traffic}\nstop = \"10 s\"");
        let written = measured(12, "", &format!("transport = \"udp\"\n{rest}")).bytes_delivered;
        for transport in ["quinn", "quinn+datagrams", "noq", "noq+datagrams", "smoltcp"] {
            let flow = measured(12, "", &format!("transport = \"{transport}\"\n{rest}"));
            assert_eq!(flow.bytes_delivered, written, "{traffic} over {transport}");
            let seen = flow.realtime.as_ref().unwrap();
            assert!(seen.realtime_index.unwrap() > 0.98, "{traffic} over {transport}: {seen:?}");
            assert_eq!((seen.lost_transmissions, flow.reset_s), (0, None), "{traffic} over {transport}");
            if traffic == "\"mpeg4\"" || traffic.contains("frames") {
                let share = (seen.stall_share, seen.decodable_share);
                let is_lossy = transport.ends_with("datagrams");
                let expected = if is_lossy { (None, Some(1.0)) } else { (Some(0.0), None) };
                assert_eq!(share, expected, "{transport}");
            }
        }
    }
}

/// The pieces of a spread frame are what a packet takes: eight of them, or eight and 8 B more, are as many packets of
/// each of 250 frames, but for those of the first half second, in which quinn looks for what the path takes; the first
/// frame waits for the handshake and is packed anew. 1300 B are 1252 to 1272 for it, of which 43 or 46 are not data,
/// and 1260 in smoltcp.
#[test]
fn spread_frames_fill_packets() {
    let transports = [
        ("quinn", 0, 0),
        ("quinn+datagrams", 0, 1),
        ("noq", 1, 0),
        ("noq+datagrams", 1, 1),
        ("smoltcp", 2, 0),
    ];
    for (transport, stack, way) in transports {
        let full = 8 * STACKS[stack].payload[way];
        for (keys, bytes, packets) in [("", full, 8), ("", full + 8, 9), (", mtu = \"1300 B\"", full, 10)] {
            let traffic = format!("{{ kind = \"frames\", sizes = [\"{bytes} B\"], spread = true }}");
            let rest = format!("traffic = {traffic}\nstart = \"0 s\"\nstop = \"10 s\"");
            let flow = measured(12, keys, &format!("transport = \"{transport}\"\n{rest}"));
            assert_eq!(flow.bytes_delivered, 250 * u64::from(bytes), "{transport}{keys}");
            let sent = flow.realtime.as_ref().unwrap().transmissions;
            let all = 250 * packets;
            assert!((all - 10..all + 40).contains(&sent), "{transport}{keys}: {sent} packets for {all}");
        }
    }
}

/// A capture (pcap, raw IPv4) of datagrams from 10.0.0.1 to 10.0.0.2 with these payloads, 20 ms apart, headers alone.
fn pcap(payloads: &[u16]) -> Vec<u8> {
    let word = |value: u32| value.to_le_bytes();
    let mut file = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 28, 101].map(word).concat();
    for (number, payload) in (0..).zip(payloads) {
        let whole = 28 + payload;
        let time = 20_000 * number;
        file.extend([time / 1_000_000, time % 1_000_000, 28, whole.into()].map(word).concat());
        file.extend([0x4500, whole, 0, 0, 0x4011, 0, 0x0a00, 1, 0x0a00, 2].map(u16::to_be_bytes).concat());
        file.extend([5000, 6000, 8 + payload, 0].map(u16::to_be_bytes).concat());
    }
    file
}

/// Writes of 40, 47 ... 1433 B, each 20 ms, arrive whole. The first three wait for the handshake and share a packet,
/// and those that are longer than what a packet takes need two.
#[test]
fn a_capture_is_sent_again() {
    let folder = std::env::temp_dir().join(format!("lasthop-stacks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("capture.pcap");
    let payloads: Vec<u16> = (0..200).map(|number| 40 + 7 * number).collect();
    std::fs::write(&file, pcap(&payloads)).unwrap();
    let transports =
        [("udp", 2), ("quinn", 3), ("quinn+datagrams", 4), ("noq", 3), ("noq+datagrams", 4), ("smoltcp", 0)];
    for (transport, longer) in transports {
        let traffic = format!("traffic = {{ kind = \"capture\", file = {:?} }}", file.display().to_string());
        let flow = measured(6, "", &format!("transport = \"{transport}\"\n{traffic}"));
        let written: u64 = payloads.iter().copied().map(u64::from).sum();
        assert_eq!(flow.bytes_delivered, written, "{transport}");
        let seen = flow.realtime.as_ref().unwrap();
        assert_eq!(seen.transmissions, 200 - 2 + longer, "{transport}");
        assert_eq!((seen.lost_transmissions, flow.reset_s), (0, None), "{transport}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// A load is what it says: of the wire, with the headers of full packets. Set-up is in no load: some 1.5 kB of 1 MB.
#[test]
fn a_load_counts_headers() {
    let flow = "transport = \"quinn\"\nstart = { arrivals = \"periodic\", load = 0.3 }\n\
                traffic = { kind = \"transfer\", size = { kind = \"constant\", bytes = \"1 MB\" } }";
    let utilisation = run(&plan(100, "", &[flow]), 1).summary.links[0].utilisation;
    // An arrival more or less is 0.8 % of the link.
    assert!((0.285..0.315).contains(&utilisation), "{utilisation}");
}

/// A writing pause that is longer than the 30 s after which quinn ends a silent connection.
#[test]
fn silence_does_not_end_a_connection() {
    let text =
        "transport = \"quinn\"\ntraffic = { kind = \"paced-ftp\", write = \"1 kB\", interval = \"45 s\" }";
    let flow = lone(100, "", text);
    assert_eq!((flow.bytes_delivered, flow.reset_s), (3000, None));
}

/// A packet of G.711 is 172 B; around it are 8 B that say where it belongs, 3 of the frame, 26 or 27 of the packet,
/// and 28 of UDP and IP: 0.19 ms at 10 Mbit/s, behind 20 ms of speech and before 20 ms of the path.
#[test]
fn a_call_in_datagrams_has_its_delay_by_hand() {
    let flow = |keys| lone(60, keys, "transport = \"quinn+datagrams\"\ntraffic = \"voice\"");
    let clean = flow("").voice.unwrap();
    let expected = 0.04 + f64::from(172 + 8 + 3 + 26 + 28) * 8.0 / 10e6;
    assert!((clean.mouth_to_ear_s - expected).abs() < 0.1e-3, "{} for {expected}", clean.mouth_to_ear_s);
    assert!(clean.unheard_share < 0.02, "{}", clean.unheard_share);
    let lossy = flow(LOSSY).voice.unwrap();
    assert!((0.02..0.09).contains(&lossy.unheard_share), "{}", lossy.unheard_share);
    assert!(lossy.mos < clean.mos - 0.3, "{} and {}", lossy.mos, clean.mos);
}
