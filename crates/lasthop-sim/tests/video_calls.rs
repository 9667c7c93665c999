//! Video calls over a path: the encoder follows its transport, whichever it is, and the viewer sees what arrived.

use lasthop_net::transport::rate::config::Protocol;
use lasthop_sim::run::Run;
use lasthop_sim::summary::CallSummary;

use crate::testkit::{SERIES, run_both_ways, run_text};

/// A call from a to b over a bottleneck.
fn call(transport: &str, link: &str, traffic: &str, rest: &str) -> String {
    format!(
        r#"
        duration = "60 s"
        warmup = "20 s"
        [topology]
        kind = "graph"
        nodes = ["a", "b"]
        links = [{{ from = "a", to = "b", delay = "50 ms", {link} }}]
        [[flows]]
        name = "call"
        source = "a"
        sink = "b"
        transport = {transport}
        traffic = {{ kind = "video-call", {traffic} }}
        start = "0 s"
        {rest}"#
    )
}

const MEDIA: [&str; 3] = ["nada", "gcc", "scream"];
const MEGABIT: &str = r#"rate = "1 Mbit/s", queue = { kind = "drop-tail", limit = "37500 B" }"#;
const PLAIN: &str = r#"model = "rfc8867""#;

fn seen(run: &Run) -> &CallSummary {
    run.summary.flows[0].call.as_deref().unwrap()
}

/// Alone on 1 Mbit/s each controller fills the link without filling its queue of 300 ms, and the viewer sees it all.
#[test]
fn each_controller_follows_the_link() {
    for name in MEDIA {
        let run = run_both_ways(&call(&format!("\"{name}\""), MEGABIT, PLAIN, ""), 1);
        let (flow, link) = (&run.summary.flows[0], &run.summary.links[0]);
        let call = seen(&run);
        assert!(link.utilisation > 0.7, "{name}: {}", link.utilisation);
        assert!(call.rate_bit_s > 600_000.0 && call.rate_bit_s < 1e6, "{name}: {call:?}");
        assert!(call.frame_delay_p95_s < Some(0.4), "{name}: {call:?}");
        assert!(call.frames_lost_share < Some(0.02), "{name}: {call:?}");
        assert!(flow.goodput_bit_s < 1e6, "{name}");
    }
}

/// A link of 5 Mbit/s is more than the encoder has: it sends its highest rate and is not held up.
#[test]
fn each_controller_reaches_the_highest_rate() {
    for name in MEDIA {
        let wide = r#"rate = "5 Mbit/s", queue = { kind = "drop-tail", limit = "150 kB" }"#;
        let run = run_both_ways(&call(&format!("\"{name}\""), wide, PLAIN, ""), 2);
        let call = seen(&run);
        // The highest target is 1.5 Mbit/s with headers. GCC needs half a minute to it, at 8 % in a second.
        assert!(call.rate_bit_s > 1.3e6, "{name}: {call:?}");
        assert_eq!((call.frames_lost, call.freezes), (Some(0), Some(0)), "{name}: {call:?}");
        assert!(call.frame_delay_p99_s < Some(0.15), "{name}: {call:?}");
    }
}

/// Every other sender drives the same encoder: those with a rate by their rate, a TCP by window and RTT. None of them
/// leaves it at the rate that it started with.
#[test]
fn every_sender_drives_the_encoder() {
    let names = Protocol::NAMES.iter().copied().chain(["newreno", "cubic", "tcp-real", "bbr"]);
    for name in names {
        let run = run_both_ways(&call(&format!("\"{name}\""), MEGABIT, PLAIN, ""), 3);
        let call = seen(&run);
        assert!(call.rate_bit_s > 300_000.0, "{name}: {call:?}");
        assert!(call.frames > 500, "{name}: {call:?}");
    }
}

/// Where no frame comes there are no freezes to count, and no zero that looks like a steady picture.
#[test]
fn a_picture_that_never_came_has_not_frozen() {
    let dead = r#"rate = "1 Mbit/s", error = { kind = "bernoulli", packet_error_rate = 1 }"#;
    let run = run_both_ways(&call("\"gcc\"", dead, PLAIN, ""), 1);
    let call = seen(&run);
    assert_eq!(call.frames_lost_share, Some(1.0), "{call:?}");
    assert_eq!((call.freezes, call.freeze_s), (None, None), "{call:?}");
}

/// Datagrams alone say nothing: the encoder stays where it was, and without key frames a loss stops the picture.
#[test]
fn nothing_leads_the_encoder_over_udp() {
    let fixed = r#"model = "rfc8867", start_rate = "500 kbit/s", burst = "2083 B", transient = 1"#;
    let clear = run_both_ways(&call("\"udp\"", MEGABIT, fixed, ""), 4);
    assert!((seen(&clear).rate_bit_s - 500_000.0).abs() < 15_000.0, "{:?}", seen(&clear));
    assert_eq!(seen(&clear).key_frames, 1);
    let lossy = format!(r#"{MEGABIT}, error = {{ kind = "list", packets = [2000] }}"#);
    let run = run_both_ways(&call("\"udp\"", &lossy, fixed, ""), 4);
    assert_eq!(seen(&run).freezes, Some(1));
    let keys = format!("{fixed}, key_interval = \"2 s\"");
    let run = run_both_ways(&call("\"udp\"", &lossy, &keys, ""), 4);
    assert!(seen(&run).freeze_s < Some(2.2) && seen(&run).key_frames > 25, "{:?}", seen(&run));
}

/// A loss is answered by a key frame one round trip and a report later, so the picture stands for less than a second.
#[test]
fn a_loss_calls_for_a_key_frame() {
    for name in ["nada", "ssvp", "tfrc"] {
        let lossy = r#"rate = "5 Mbit/s", error = { kind = "list", packets = [5000] }"#;
        let run = run_both_ways(&call(&format!("\"{name}\""), lossy, PLAIN, ""), 5);
        let call = seen(&run);
        assert_eq!((call.freezes, call.key_frames), (Some(1), 2), "{name}: {call:?}");
        assert!(call.freeze_s < Some(0.6), "{name}: {call:?}");
        assert!(call.frames_lost < Some(18), "{name}: {call:?}");
    }
}

/// One packet in fifty is lost in the air: sent again within 400 ms nearly all of them come in time, so that hardly a
/// key frame is needed, and the application gets nothing twice.
#[test]
fn what_is_lost_may_be_sent_again() {
    let lossy = r#"rate = "5 Mbit/s", error = { kind = "bernoulli", packet_error_rate = 0.02 }"#;
    let run = |within: &str| {
        let transport = format!("{{ rate = \"gcc\", resend_within_s = {within} }}");
        run_both_ways(&call(&transport, lossy, PLAIN, ""), 10)
    };
    let (without, with) = (run("0"), run("0.4"));
    let (bare, repaired) = (seen(&without), seen(&with));
    assert!(bare.key_frames > 40 && repaired.key_frames < 6, "{bare:?} {repaired:?}");
    assert!(repaired.frames_lost_share < Some(0.01) && bare.frames_lost_share > Some(0.1), "{repaired:?}");
    let flow = &with.summary.flows[0];
    assert!(
        flow.retransmitted_packets.unwrap() > 50 && without.summary.flows[0].retransmitted_packets.is_none()
    );
    assert!(flow.goodput_bit_s <= repaired.rate_bit_s * 1.01, "{flow:?}");
}

/// Where all that is lost is sent again in time nothing is missing, and the dozen packets that are under way at the end
/// are not lost: G.1070's opinion of 1 Mbit/s and 30 frames/s is 3.80, as if nothing had been lost.
#[test]
fn what_is_under_way_at_the_end_is_not_lost() {
    let fixed = r#"model = "rfc8867", size_scale = 0, burst = "10 B", transient = 1, min_rate = "1 Mbit/s",
        start_rate = "1 Mbit/s", max_rate = "1 Mbit/s""#
        .replace('\n', " ");
    let lossy = r#"rate = "5 Mbit/s", error = { kind = "bernoulli", packet_error_rate = 0.01 }"#;
    let transport = r#"{ rate = "gcc", resend_within_s = 5, start_rate = 1.4e6 }"#;
    let text = call(transport, lossy, &fixed, "").replace("60 s", "40 s").replace("50 ms", "100 ms");
    let run = run_both_ways(&text, 10);
    let opinion = seen(&run).opinion.unwrap();
    assert!(run.summary.flows[0].retransmitted_packets.unwrap() > 10);
    assert!((opinion - 3.80).abs() < 0.05, "{opinion}");
}

/// Reports that are lost move nothing for the worse but time: with half of them gone the call goes on.
#[test]
fn lost_reports_are_no_lost_packets() {
    for name in MEDIA {
        let reverse = r#"reverse = { error = { kind = "bernoulli", packet_error_rate = 0.5 } }"#;
        let path = format!("{MEGABIT}, {reverse}");
        let run = run_both_ways(&call(&format!("\"{name}\""), &path, PLAIN, ""), 6);
        let call = seen(&run);
        assert!(call.rate_bit_s > 500_000.0, "{name}: {call:?}");
        assert!(call.frames_lost_share < Some(0.05), "{name}: {call:?}");
    }
}

/// Nothing comes back: the rate falls to the lowest, and the sender neither stops nor floods.
#[test]
fn silence_leaves_the_lowest_rate() {
    for name in MEDIA {
        let reverse = r#"reverse = { error = { kind = "bernoulli", packet_error_rate = 1.0 } }"#;
        let path = format!("{MEGABIT}, {reverse}");
        let fast = format!("{{ rate = \"{name}\", start_rate = 1e6 }}");
        let run = run_both_ways(&call(&fast, &path, r#"model = "rfc8867", start_rate = "1 Mbit/s""#, ""), 7);
        let flow = &run.summary.flows[0];
        assert!(flow.throughput_bit_s > 10_000.0 && flow.throughput_bit_s < 200_000.0, "{name}: {flow:?}");
    }
}

/// A file without end may use these senders too.
#[test]
fn a_file_may_be_sent_at_the_target_rate() {
    for name in MEDIA {
        let text =
            call(&format!("\"{name}\""), MEGABIT, "", "").replace("{ kind = \"video-call\",  }", "\"ftp\"");
        let run = run_both_ways(&text, 8);
        assert!(run.summary.links[0].utilisation > 0.7, "{name}: {}", run.summary.links[0].utilisation);
        assert!(run.summary.flows[0].call.is_none());
    }
}

/// A call that pauses for 20 of 60 s has two thirds of the frames, and the pause is one freeze.
#[test]
fn a_pause_sends_nothing() {
    let text = call("\"nada\"", MEGABIT, r#"model = "rfc8867", pause = ["30 s", "50 s"]"#, "");
    let run = run_text(&text, 9, SERIES);
    let call = seen(&run);
    assert!((590..=605).contains(&call.frames), "{call:?}");
    assert_eq!(call.freezes, Some(1));
    assert!((call.freeze_s.unwrap() - 20.0).abs() < 0.3, "{call:?}");
}

/// G.1070's opinion of 1 Mbit/s and 30 frames/s is 3.80; where packets are lost for good, what lies above 1 falls by e
/// for each 2.69 percent; where NACK repairs them, or TCP brings them late, it does not, and below 400 kbit/s there is
/// none.
#[test]
fn the_opinion_is_that_of_g_1070() {
    let lossy = r#"rate = "5 Mbit/s", error = { kind = "bernoulli", packet_error_rate = 0.01 }"#;
    let run = |transport: &str, link: &str, rate: &str| {
        let fixed = format!(
            r#"model = "rfc8867", size_scale = 0, burst = "10 B", transient = 1, min_rate = "{rate}",
            start_rate = "{rate}", max_rate = "{rate}""#
        );
        run_both_ways(&call(transport, link, &fixed.replace('\n', " "), ""), 11)
    };
    let opinion = |run: &Run| seen(run).opinion.unwrap();
    let clear = opinion(&run("\"udp\"", r#"rate = "5 Mbit/s""#, "1 Mbit/s"));
    assert!((clear - 3.80).abs() < 0.01, "{clear}");
    let lost = run("\"udp\"", lossy, "1 Mbit/s");
    let counts = lost.summary.flows[0].realtime.as_ref().unwrap();
    let percent = 100.0 * counts.lost_transmissions as f64 / counts.transmitted_packets as f64;
    let expected = 1.0 + 2.80 * (-percent / 2.69).exp();
    assert!((opinion(&lost) - expected).abs() < 0.01 && expected < 3.2, "{} {expected}", opinion(&lost));
    let repaired = opinion(&run("{ rate = \"gcc\", nack = true, start_rate = 1.4e6 }", lossy, "1 Mbit/s"));
    assert!((repaired - 3.80).abs() < 0.01, "{repaired}");
    let late = opinion(&run("\"cubic\"", lossy, "1 Mbit/s"));
    assert!((late - 3.80).abs() < 0.05, "{late}");
    assert_eq!(seen(&run("\"udp\"", lossy, "300 kbit/s")).opinion, None);
}
