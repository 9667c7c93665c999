//! WSC-TCP over links that retransmit, and the history of paths, in whole runs.
//!
//! Each mechanism is run alone against plain NewReno on the same channel; what is compared is what the mechanism is
//! for.

use std::fmt::Write as _;

use lasthop_net::history::HistoryEntry;
use lasthop_sim::run::Run;
use lasthop_sim::scenario::{Format, Scenario};

use crate::testkit::{SUMMARY, parse, run_plan};

/// Parameters of WSC-TCP with all four mechanisms off.
const OFF: &str = "link_rtt = false, link_threshold = false, best_start = false, clusters = false";

fn execute(scenario: &Scenario, seed: u64) -> Run {
    run_plan(scenario.plan(), seed, SUMMARY)
}

/// An upload over a wireless first hop of 5 Mbit/s that repeats lost frames after `timeout` and lets others pass
/// meanwhile, and then 20 ms of wire.
fn upload(transport: &str, timeout: &str, attempts: u32) -> Scenario {
    parse(&format!(
        "duration = \"30 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"phone\", \"ap\", \"server\"]\n\
         [[topology.links]]\nfrom = \"phone\"\nto = \"ap\"\nrate = \"5 Mbit/s\"\ndelay = \"1 ms\"\n\
         error = {{ kind = \"bernoulli\", packet_error_rate = 0.05 }}\nreverse = {{ error = \"none\" }}\n\
         arq = {{ order = \"out-of-order\", timeout = \"{timeout}\", attempts = {attempts}, window = 64 }}\n\
         queue = \"unlimited\"\n\
         [[topology.links]]\nfrom = \"ap\"\nto = \"server\"\nrate = \"100 Mbit/s\"\ndelay = \"20 ms\"\n\
         [[flows]]\nsource = \"phone\"\nsink = \"server\"\nstart = \"0 s\"\ntransport = {transport}\n\
         [tcp]\nreceiver_window = \"40 packets\"\n"
    ))
}

/// The threshold that this program adds to the thesis': what has overtaken a segment is remembered.
const OVERTAKERS: &str = "threshold = \"overtakers\"";

fn only(mechanism: &str) -> String {
    let rest: Vec<&str> = OFF.split(", ").filter(|pair| !pair.starts_with(mechanism)).collect();
    format!("{{ preset = \"wsc\", {} }}", rest.join(", "))
}

/// The second mechanism alone, with this threshold.
fn threshold(name: &str) -> String {
    only("link_threshold").replace(" }", &format!(", threshold = \"{name}\" }}"))
}

/// What six seeds give together.
#[derive(Debug, Default)]
struct Sums {
    recoveries: u64,
    timeouts: u64,
    retransmitted: u64,
    goodput: f64,
}

fn six_seeds(scenario: &Scenario) -> Sums {
    let mut sums = Sums::default();
    for seed in 1..=6 {
        let flow = &execute(scenario, seed).summary.flows[0];
        sums.recoveries += flow.fast_recoveries.unwrap();
        sums.timeouts += flow.timeouts.unwrap();
        sums.retransmitted += flow.retransmitted_packets.unwrap();
        sums.goodput += flow.goodput_bit_s / 6.0;
    }
    sums
}

/// Mechanism 2: frames overtake those that the link repeats, no packet is lost, and every fast retransmission is
/// spurious. The link's reports keep them away, whether the link takes less time than the path or more, if what has
/// overtaken a segment is remembered.
#[test]
fn overtaking_is_no_loss() {
    for timeout in ["8 ms", "15 ms", "100 ms"] {
        let newreno = six_seeds(&upload("\"newreno\"", timeout, 20));
        let wsc = six_seeds(&upload(&threshold("overtakers"), timeout, 20));
        assert!(newreno.recoveries >= 150, "{timeout}: only {} to avoid", newreno.recoveries);
        assert_eq!(wsc.recoveries, 0, "{timeout}");
        assert!(wsc.goodput > 1.5 * newreno.goodput, "{timeout}: {wsc:?} {newreno:?}");
    }
}

/// The same with the SACK engine.
#[test]
fn overtaking_is_no_loss_under_sack() {
    let transport = |cc: &str| format!("{{ cc = \"{cc}\", recovery = \"sack\" }}");
    let off = format!("{{ cc = \"wsc\", recovery = \"sack\", {OFF} }}");
    let sack = six_seeds(&upload(&transport("reno"), "15 ms", 20));
    let wsc = format!("{{ cc = \"wsc\", recovery = \"sack\", {OVERTAKERS} }}");
    let wsc = six_seeds(&upload(&wsc, "15 ms", 20));
    let without = six_seeds(&upload(&off, "15 ms", 20));
    assert!(sack.recoveries >= 150 && without.recoveries == sack.recoveries, "{sack:?} {without:?}");
    assert!(wsc.recoveries * 20 <= sack.recoveries, "{wsc:?} {sack:?}");
}

/// The threshold as printed falls back to 3 as soon as the link is done, a round trip before the duplicates arrive:
/// on a link that is quicker than the path it avoids little.
#[test]
fn the_printed_threshold_falls_too_early() {
    let newreno = six_seeds(&upload("\"newreno\"", "8 ms", 20));
    for transport in [only("link_threshold"), threshold("listing"), threshold("pending")] {
        let wsc = six_seeds(&upload(&transport, "8 ms", 20));
        assert!(wsc.recoveries * 2 > newreno.recoveries, "{transport}: {wsc:?} {newreno:?}");
    }
}

/// A link that gives up after two attempts loses one frame in four hundred for good. Sent again at once they cost
/// neither a recovery nor a share of the window; the verdicts tell them from the others.
#[test]
fn what_the_link_gives_up_is_repaired() {
    let newreno = six_seeds(&upload("\"newreno\"", "15 ms", 2));
    let resent = six_seeds(&upload(&threshold("overtakers"), "15 ms", 2));
    let waits = threshold("overtakers").replace(" }", ", on_link_drop = \"first-duplicate\" }");
    let waits = six_seeds(&upload(&waits, "15 ms", 2));
    for wsc in [&resent, &waits] {
        assert!(wsc.retransmitted < newreno.retransmitted && wsc.retransmitted > 0, "{wsc:?} {newreno:?}");
        assert!(wsc.timeouts <= newreno.timeouts, "{wsc:?} {newreno:?}");
        assert!(wsc.goodput > newreno.goodput, "{wsc:?} {newreno:?}");
    }
    assert!(resent.recoveries * 5 < waits.recoveries, "{resent:?} {waits:?}");
    assert!(resent.goodput > waits.goodput, "{resent:?} {waits:?}");
}

/// Most of what the link gave up is known for what it is (not a repair that it gives up again within a recovery), and
/// nothing else: overflows of the queue are congestion.
#[test]
fn losses_that_the_link_reports_are_told_from_others() {
    let lossy = upload("\"wsc\"", "15 ms", 2);
    let verdicts = (1..=6).map(|seed| execute(&lossy, seed).summary.flows[0].loss_verdicts.unwrap().wireless);
    let (known, missed) =
        verdicts.fold((0, 0), |(known, missed), row| (known + row.wireless, missed + row.congestion));
    assert!(known > 50 && missed * 6 <= known, "{known} known, {missed} not");
    let scenario = transfers("", &[0], "\"wsc\"");
    let congested = execute(&scenario, 1).summary.flows[0].loss_verdicts.unwrap();
    assert!(congested.congestion.congestion > 0 && congested.congestion.wireless == 0, "{congested:?}");
}

/// An overflow of its own host's queue never comes to the link, and no link ACK will ever settle it. Taken for one that
/// the link is repeating it raises the threshold with every segment behind it, until only the timer is left.
#[test]
fn a_loss_before_the_link_needs_no_timer() {
    let lone = |transport: &str| {
        let text = format!(
            r#"
            duration = "70 s"
            warmup = "10 s"

            [topology]
            kind = "graph"
            nodes = ["source", "router", "sink"]

            [[topology.links]]
            name = "air"
            from = "source"
            to = "router"
            rate = "10 Mbit/s"
            delay = "1 ms"
            queue = {{ kind = "drop-tail", limit = "33 packets" }}
            arq = {{ attempts = 2, window = 32, order = "in-order" }}

            [[topology.links]]
            name = "wire"
            from = "router"
            to = "sink"
            rate = "100 Mbit/s"
            delay = "19 ms"
            queue = "unlimited"

            [[flows]]
            source = "source"
            sink = "sink"
            transport = {transport}
            start = "0 s"
            "#
        );
        let flow = execute(&parse(&text), 1).summary.flows.remove(0);
        (flow.goodput_bit_s, flow.timeouts.unwrap())
    };
    let (goodput, timeouts) = lone(r#"{ preset = "wsc" }"#);
    assert_eq!((goodput, timeouts), lone(r#""newreno""#), "nothing is repeated, so nothing differs");
    assert_eq!(timeouts, 0);
    let (goodput, timeouts) = lone(r#"{ preset = "wsc", link_silence = false }"#);
    assert!(goodput < 7e6 && timeouts > 10, "{goodput} with {timeouts} timeouts");
}

/// Mechanism 1: a link that repeats a frame after 200 ms against a least timeout of 200 ms. Once duplicates are no
/// longer taken for losses, the timer expires without any; a timer that waits with the link does not.
#[test]
fn the_timer_waits_with_the_link() {
    let with = |transport: &str| {
        let overrides = [("tcp.rto".to_owned(), "{ min = \"200 ms\" }".to_owned())];
        let json = upload(transport, "200 ms", 20).to_json();
        let scenario = Scenario::parse(&json, Format::Json, "slow", &overrides);
        six_seeds(&scenario.unwrap_or_else(|error| panic!("{error}")))
    };
    let alone = with(&threshold("overtakers"));
    let both = with(&format!("{{ preset = \"wsc\", clusters = false, best_start = false, {OVERTAKERS} }}"));
    assert!(alone.timeouts >= 50, "{alone:?}");
    assert_eq!(both.timeouts, 0, "{both:?}");
    assert!(both.goodput > 1.2 * alone.goodput, "{both:?} {alone:?}");
}

/// With everything off WSC-TCP is NewReno, packet for packet.
#[test]
fn without_its_mechanisms_it_is_newreno() {
    for timeout in ["8 ms", "100 ms"] {
        let newreno = execute(&upload("\"newreno\"", timeout, 3), 1);
        let wsc = execute(&upload(&format!("{{ preset = \"wsc\", {OFF} }}"), timeout, 3), 1);
        assert_eq!(newreno.summary.fingerprint, wsc.summary.fingerprint);
    }
}

/// The mode of the published runs: a fast retransmission that waits 0.5 s is cancelled by the frame that was only late.
#[test]
fn holding_back_avoids_spurious_retransmissions() {
    let newreno = six_seeds(&upload("\"newreno\"", "15 ms", 20));
    let held = six_seeds(&upload(&format!("{{ preset = \"wsc\", wsc_delay = true, {OFF} }}"), "15 ms", 20));
    assert_eq!(held.recoveries, 0, "{held:?}");
    assert!(held.goodput > newreno.goodput);
}

// ---------------------------------------------------------------------------------------------------------------------
// The history of paths

/// Transfers one after the other over a bottleneck of 10 Mbit/s and 40 ms of round trip that drops some packets.
fn transfers(history: &str, starts_s: &[u32], transport: &str) -> Scenario {
    let mut flows = String::new();
    for start in starts_s {
        let _ = write!(
            flows,
            "[[flows]]\nsource = \"a\"\nsink = \"b\"\nstart = \"{start} s\"\ntransport = {transport}\n\
             traffic = {{ kind = \"ftp\", bytes = \"2 MB\" }}\n"
        );
    }
    parse(&format!(
        "duration = \"60 s\"\n{history}\n[topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\"]\n\
         [[topology.links]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mbit/s\"\ndelay = \"20 ms\"\n\
         queue = {{ kind = \"drop-tail\", limit = \"50 packets\" }}\n{flows}"
    ))
}

const HISTORY: &str = "[history]\nclock = \"2024-03-04T09:00\"";

fn samples(run: &Run) -> Vec<Option<usize>> {
    run.summary.flows.iter().map(|flow| flow.history_samples).collect()
}

/// Later transfers of a run start from what earlier ones left; three are needed.
#[test]
fn a_run_learns_from_itself() {
    let scenario = transfers(HISTORY, &[0, 10, 20, 30, 40], "\"wsc\"");
    let run = execute(&scenario, 1);
    assert_eq!(samples(&run), [Some(0), Some(0), Some(0), Some(3), Some(3)]);
    let history = run.summary.history.as_ref().unwrap();
    assert_eq!(history.len(), 3, "the others were short and had no loss");
    for entry in history {
        assert_eq!((entry.endpoint.as_str(), entry.hour, entry.weekday), ("b", 9, 0));
        assert_eq!((entry.month, entry.week), (3, 10));
        // The path holds 33 packets and the queue 50.
        assert!((20.0..100.0).contains(&entry.window_segments), "{entry:?}");
    }
    let time = |flow: usize| run.summary.flows[flow].completion_s.unwrap();
    assert!(time(3) < time(0) && time(4) < time(0), "a best start is quicker");
}

fn entries(windows: &[f64], hour: u8) -> Vec<HistoryEntry> {
    let entry =
        |&window| HistoryEntry { endpoint: "b".to_owned(), hour, weekday: 0, month: 3, window, week: 10 };
    windows.iter().map(entry).collect()
}

/// What is known before the run counts from its first connection on, and what another run adds does not.
#[test]
fn a_run_starts_from_its_snapshot() {
    let plain = transfers(HISTORY, &[0], "\"wsc\"");
    let taught = plain.with_history(entries(&[30.0, 40.0, 50.0], 9));
    assert_eq!(samples(&execute(&plain, 1)), [Some(0)]);
    let first = execute(&taught, 1);
    assert_eq!(samples(&first), [Some(3)]);
    assert_eq!(first.summary.fingerprint, execute(&taught, 1).summary.fingerprint);
    assert_ne!(first.summary.fingerprint, execute(&plain, 1).summary.fingerprint);
    let other_hour = plain.with_history(entries(&[30.0; 5], 17));
    assert_eq!(samples(&execute(&other_hour, 1)), [Some(5)], "the same host at another hour");
}

/// Senders that do not ask start as ever but teach others; without the table nothing is kept.
#[test]
fn other_senders_teach_and_do_not_learn() {
    let learn = execute(&transfers(HISTORY, &[0, 10], "\"newreno\""), 1);
    assert_eq!(samples(&learn), [Some(0), Some(0)]);
    assert_eq!(learn.summary.history.as_ref().map(Vec::len), Some(2));
    let without = execute(&transfers("", &[0, 10], "\"newreno\""), 1);
    assert_eq!((samples(&without), &without.summary.history), (vec![None, None], &None));
    assert_eq!(learn.summary.fingerprint, without.summary.fingerprint, "keeping a history changes nothing");
}

/// A connection that the end of the run cuts counts if it had time to settle.
#[test]
fn the_end_of_a_run_ends_its_connections() {
    let endless = |duration: &str| {
        let overrides =
            [("duration".to_owned(), duration.to_owned()), ("flows.0.traffic".to_owned(), "ftp".to_owned())];
        let json = transfers(HISTORY, &[0], "\"newreno\"").to_json();
        let scenario = Scenario::parse(&json, Format::Json, "cut", &overrides);
        let run = execute(&scenario.unwrap_or_else(|error| panic!("{error}")), 1);
        run.summary.history.unwrap_or_default().len()
    };
    assert_eq!(endless("30 s"), 1);
    assert_eq!(endless("300 ms"), 0, "fewer than ten round trips");
}
