//! FEC over links: residual losses against the closed form, and beside retransmission by the link.

use lasthop_net::device::fec::residual_loss;
use lasthop_sim::run::Run;

use crate::testkit::run_both_ways;

/// Runs it both ways and returns one of the two.
fn run(text: &str) -> Run {
    run_both_ways(text, 1)
}

/// A router and a phone; `link` describes the link, `flow` the rest of the one flow.
fn hop(link: &str, flow: &str) -> String {
    format!(
        r#"
duration = "100 s"
[topology]
kind = "graph"
nodes = ["router", "phone"]
[[topology.links]]
from = "router"
to = "phone"
rate = "20 Mbit/s"
delay = "5 ms"
queue = {{ kind = "drop-tail", limit = "1000 packets" }}
{link}
[[flows]]
name = "flow"
source = "router"
sink = "phone"
start = "0 s"
{flow}
"#
    )
}

/// 1000 datagrams of 1000 B a second.
const CALL: &str = "transport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"8 Mbit/s\", packet = \"1000 B\" }\nstop \
    = \"99 s\"";

fn error(p: f64) -> String {
    format!("error = {{ kind = \"bernoulli\", packet_error_rate = {p} }}\n")
}

/// NV-5.7 in simulation: the share of datagrams that stay lost is that of the closed form, as far as the number of them
/// lets it be told (four standard deviations of a binomial count; losses of a block come together, which twice the
/// variance covers), and the link carries n for k.
#[test]
fn residual_losses_are_those_of_the_closed_form() {
    for (k, n, p) in [(4, 5, 0.01), (4, 5, 0.05), (8, 10, 0.05), (10, 12, 0.01), (16, 20, 0.05)] {
        let fec = format!("{}middleboxes = [{{ kind = \"fec\", k = {k}, n = {n} }}]", error(p));
        let run = run(&hop(&fec, CALL));
        let row = &run.summary.flows[0];
        let fec = run.summary.links[0].devices.fec.as_ref().unwrap();
        let sent = row.packets_sent;
        let missing = sent - row.bytes_delivered / 1000;
        let expected = residual_loss(k, n - k, p) * sent as f64;
        let spread = 4.0 * (2.0 * expected).sqrt() + 2.0;
        assert!((missing as f64 - expected).abs() < spread, "({n},{k}) {p}: {missing} of {expected}");
        // What is missing is what was not rebuilt, but for the blocks that are not forgotten yet.
        assert!(fec.given_up.abs_diff(missing) <= 2, "{fec:?}");
        assert_eq!(fec.sources, sent);
        let lost: u64 = row.packets_lost.values().sum();
        assert_eq!(lost, fec.rebuilt + missing);
        let overhead = fec.repairs as f64 / fec.sources as f64;
        assert!((overhead - f64::from(n - k) / f64::from(k)).abs() < 0.001, "{overhead}");
        assert_eq!(run.summary.links[0].packets_sent, fec.sources + fec.repairs);
    }
}

/// A burst of four losses in a row defeats (5,4), unless four blocks are filled in turn.
#[test]
fn interleaving_spreads_bursts() {
    let missing = |interleave: u32| {
        let link = format!(
            "error = {{ kind = \"list\", packets = [100, 101, 102, 103] }}\nreverse = {{ error = \"none\" }}\n\
             middleboxes = [{{ kind = \"fec\", code = \"xor\", k = 4, n = 5, interleave = {interleave} }}]"
        );
        let run = run(&hop(&link, CALL));
        run.summary.flows[0].packets_sent - run.summary.flows[0].bytes_delivered / 1000
    };
    assert!(missing(1) >= 3);
    assert_eq!(missing(4), 0);
}

/// A file over FEC: the application gets each byte once, with fewer retransmissions by the sender than without; beside
/// retransmission by the link, and on both directions.
#[test]
fn files_are_whole() {
    let file = "transport = \"newreno\"\ntraffic = { kind = \"ftp\", bytes = \"10 MB\" }";
    let plain = run(&hop(&error(0.02), file));
    for arq in ["", "arq = { attempts = 2 }\n", "arq = { attempts = 2, order = \"out-of-order\" }\n"] {
        let run = run(&hop(&format!("{}{arq}middleboxes = [\"fec\"]", error(0.02)), file));
        let row = &run.summary.flows[0];
        assert_eq!(row.bytes_delivered, 10_000_000, "{arq}");
        assert!(row.completion_s < plain.summary.flows[0].completion_s, "{arq}: {:?}", row.completion_s);
        assert!(run.summary.links[0].devices.fec.as_ref().unwrap().rebuilt > 100 || !arq.is_empty());
        assert!(run.summary.links[1].devices.fec.as_ref().unwrap().repairs > 0, "ACKs are coded, too");
    }
}

/// In order, which is the default, a rebuilt packet is no reordering to the receiver: the sender sees fewer duplicate
/// ACKs, repeats less, and every byte arrives. Without losses nothing waits.
#[test]
fn order_spares_repetitions() {
    // So small a window never overflows the queue.
    let file = "transport = { preset = \"newreno\", receiver_window = \"60 packets\" }\n\
                traffic = { kind = \"ftp\", bytes = \"10 MB\" }";
    let over = |p: f64, order: &str| {
        let fec = format!("middleboxes = [{{ kind = \"fec\", order = \"{order}\" }}]");
        run(&hop(&(error(p) + &fec), file))
    };
    let (mixed, sorted) = (over(0.02, "out-of-order"), over(0.02, "in-order"));
    let repeated = |run: &Run| run.summary.flows[0].retransmitted_packets.unwrap();
    assert_eq!(sorted.summary.flows[0].bytes_delivered, 10_000_000);
    assert!(repeated(&sorted) * 2 < repeated(&mixed), "{} {}", repeated(&sorted), repeated(&mixed));
    assert!(sorted.summary.flows[0].completion_s < mixed.summary.flows[0].completion_s);
    let usual = run(&hop(&(error(0.02) + "middleboxes = [\"fec\"]"), file));
    assert_eq!(usual.summary.fingerprint, sorted.summary.fingerprint);
    let (mixed, sorted) = (over(0.0, "out-of-order"), over(0.0, "in-order"));
    assert_eq!(mixed.summary.fingerprint, sorted.summary.fingerprint);
}

/// Adaptive redundancy sends next to nothing over a clean link, and keeps its target over a bad one.
#[test]
fn redundancy_adapts() {
    let link = |p| format!("{}middleboxes = [{{ kind = \"fec\", k = 8, n = 16, target = 0.001 }}]", error(p));
    let clean = run(&hop(&link(0.0), CALL));
    assert_eq!(clean.summary.links[0].devices.fec.as_ref().unwrap().repairs, 0);
    let bad = run(&hop(&link(0.05), CALL));
    let fec = bad.summary.links[0].devices.fec.as_ref().unwrap();
    let residual = fec.given_up as f64 / fec.sources as f64;
    assert!(residual < 0.003, "{residual}");
    assert!(fec.repairs < fec.sources * 6 / 8, "{fec:?}");
}
