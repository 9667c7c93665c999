//! Figures that say what they mean: one window for all counts of a table, fairness among equals, transfers that do not
//! finish, queues that several links share, and FEC in one direction.

use crate::testkit::{SUMMARY, run_text};
use lasthop_sim::run::Run;

fn run(text: &str) -> Run {
    run_text(text, 1, SUMMARY)
}

/// A dumbbell with a bottleneck of 10 Mbit/s and these flows.
fn dumbbell(warmup: &str, flows: &str) -> Run {
    run(&format!(
        r#"
duration = "20 s"
warmup = "{warmup}"
[topology]
kind = "dumbbell"
bottleneck = {{ rate = "10 Mbit/s", delay = "10 ms", queue = {{ kind = "drop-tail", limit = "25 packets" }} }}
access = {{ rate = "50 Mbit/s", delay = "10 ms" }}
[tcp]
profile = "linux"
{flows}
"#
    ))
}

const BBR: &str = "[[flows]]\ntransport = \"bbr\"\nstart = \"0 s\"";
const CUBIC: &str = "[[flows]]\ntransport = \"cubic\"\nstart = \"0 s\"";
const CALL: &str =
    "[[flows]]\ntransport = \"udp\"\ntraffic = { kind = \"cbr\", rate = \"1 Mbit/s\", packet = \"500 B\" }";

/// The start of BBR loses hundreds of packets, all in the warm-up: what is lost is counted over the same time
/// as what is sent again, in the totals as in the rows of the flows, and nothing is unaccounted for.
#[test]
fn counts_of_the_totals_share_the_window_of_the_flows() {
    for (warmup, flows) in [("0 s", BBR), ("5 s", BBR), ("5 s", CUBIC), ("3 s", &format!("{CUBIC}\n{CALL}"))]
    {
        let run = dumbbell(warmup, flows);
        let totals = &run.summary.totals;
        let rows = &run.summary.flows;
        let lost: u64 = totals.packets_lost.values().sum();
        let of_flows = |row: &lasthop_sim::summary::FlowSummary| {
            row.packets_lost.values().sum::<u64>() + row.acks_lost.values().sum::<u64>()
        };
        assert_eq!(lost, rows.iter().map(of_flows).sum::<u64>(), "{warmup} {flows}");
        let sent: u64 = rows.iter().map(|row| row.packets_sent + row.acks_sent).sum();
        assert_eq!(totals.packets_sent, sent, "{warmup} {flows}");
        assert_eq!(
            totals.packets_carried_over + totals.packets_sent,
            totals.packets_delivered + lost + totals.packets_in_flight,
            "{warmup} {flows}"
        );
        assert_eq!(totals.packets_carried_over > 0, warmup != "0 s");
    }
    let late = dumbbell("5 s", BBR).summary.totals;
    assert_eq!((late.packets_lost.values().sum::<u64>(), late.retransmitted_packets.unwrap()), (0, 0));
}

/// A sender that never sends again has no count of retransmissions, and no zero: neither a row nor a total of such
/// rows.
#[test]
fn what_cannot_happen_is_not_counted() {
    let counts = |flows: &str| {
        let summary = dumbbell("2 s", flows).summary;
        let rows = summary.flows.iter().map(|row| {
            let counts =
                [row.retransmitted_packets, row.timeouts, row.fast_recoveries, row.undone_reductions];
            counts.map(|count| count.is_some())
        });
        let totals = &summary.totals;
        assert_eq!(totals.retransmitted_share.is_some(), totals.retransmitted_packets.is_some());
        assert_eq!(totals.timeout_share.is_some(), totals.timeouts.is_some());
        (
            rows.collect::<Vec<_>>(),
            [totals.retransmitted_packets, totals.timeouts].map(|total| total.is_some()),
        )
    };
    let tfrc = CUBIC.replace("cubic", "tfrc");
    let wtcp = CUBIC.replace("cubic", "wtcp-rate");
    assert_eq!(counts(CALL), (vec![[false; 4]], [false, false]));
    assert_eq!(counts(&tfrc), (vec![[false, true, false, false]], [false, true]));
    assert_eq!(counts(&wtcp), (vec![[true, true, false, false]], [true, true]));
    assert_eq!(counts(&format!("{CALL}\n{CUBIC}")), (vec![[false; 4], [true; 4]], [true, true]));
}

/// Jain's index is one of flows that could share alike.
#[test]
fn fairness_is_of_flows_of_one_kind() {
    let index = |flows: &str| dumbbell("5 s", flows).summary.totals.jain_index;
    assert!(index(&format!("{CUBIC}\n{BBR}")).is_some(), "both carry what they can");
    assert!(index(&format!("{CALL}\n{CALL}")).is_some_and(|index| index > 0.99));
    assert_eq!(index(&format!("{CUBIC}\n{CALL}")), None, "a call takes what it needs");
    assert_eq!(
        index(&format!("{CALL}\n{}", CALL.replace('1', "2"))),
        None,
        "by design one has twice the other"
    );
    let file = format!("{CUBIC}\ntraffic = {{ kind = \"ftp\", bytes = \"1 MB\" }}");
    assert_eq!(index(&format!("{CUBIC}\n{file}")), None, "a file of 1 MB needs no more");
    assert_eq!(index(&format!("{CUBIC}\n").replace("\"0 s\"", "\"19.99 s\"")), None, "nothing was carried");
}

/// Ten files of which the last cannot finish: they are counted, and it is the longest of all.
#[test]
fn transfers_that_do_not_finish_count() {
    let file = |bytes: &str, start: &str| {
        format!(
            "[[flows]]\ntransport = \"cubic\"\nstart = \"{start}\"\n\
             traffic = {{ kind = \"ftp\", bytes = \"{bytes}\" }}\n"
        )
    };
    let files: String = (0..9).map(|place| file("100 kB", &format!("{place} s"))).collect();
    let totals = dumbbell("0 s", &(files + &file("1 GB", "10 s"))).summary.totals;
    assert_eq!((totals.transfers, totals.finished_transfers), (Some(10), Some(9)));
    assert!(totals.completion_p50_s.is_some_and(|time| (0.1..1.0).contains(&time)), "{totals:?}");
    assert_eq!((totals.completion_p95_s, totals.completion_p99_s), (None, None));
    assert_eq!(dumbbell("0 s", CUBIC).summary.totals.transfers, None, "no traffic has an end");
}

/// An access point has one queue for its five stations: one row tells of it, and the largest queue is no
/// shorter than the mean one.
#[test]
fn a_queue_that_links_share_is_told_once() {
    let run = run(
        "duration = \"10 s\"\nwarmup = \"2 s\"\n[topology]\nkind = \"wlan\"\nstations = 5\nradius = 10\n\
         wire = { rate = \"100 Mbit/s\", delay = \"10 ms\", \
         queue = { kind = \"drop-tail\", limit = \"100 packets\" } }\n\
         [topology.cell]\nphy = \"802.11b\"\n[[flows]]\ncount = 5\ntransport = \"newreno\"\n",
    );
    let links = &run.summary.links;
    let told: Vec<&str> =
        (links.iter().filter(|link| link.name.starts_with("radio") && link.queue_of.is_none()))
            .map(|link| link.name.as_str())
            .collect();
    let first = "radio-1 (reverse)";
    assert_eq!(told, ["radio-1", first, "radio-2", "radio-3", "radio-4", "radio-5"]);
    for link in links {
        if let Some(at) = &link.queue_of {
            assert_eq!(at.as_str(), first);
            let told = [link.avg_queue_packets, link.avg_system_packets, link.avg_queue_found_packets];
            assert_eq!((told, link.max_queue_packets), ([None; 3], None), "{}", link.name);
            assert!(link.packets_sent > 0);
            continue;
        }
        let most = f64::from(link.max_queue_packets.unwrap());
        assert!(link.avg_queue_packets.unwrap() <= most, "{link:?}");
        assert!(link.avg_queue_found_packets.is_none_or(|found| found <= most), "{link:?}");
    }
}

/// Wherever packets wait, in a queue, in the driver or behind an RTS: the largest queue is no shorter than the mean
/// one, nor than the one that packets found. Where each receiver has a queue of its own, each row tells of one.
#[test]
fn the_largest_queue_of_a_cell_is_no_shorter_than_the_mean_one() {
    for cell in [
        "phy = \"802.11b\"",
        "phy = \"802.11b\"\nrts_threshold = \"0 B\"",
        "phy = \"802.11n\"",
        "phy = \"802.11ac\"\nqueues = \"fair\"",
        "phy = \"802.11ax\"\nqueues = \"airtime\"",
        "phy = \"802.11n\"\nrts_threshold = \"0 B\"",
        "phy = \"802.11ac\"\nqueues = \"fair\"\nrts_threshold = \"0 B\"",
    ] {
        for direction in ["forward", "reverse"] {
            let run = run(&format!(
                "duration = \"3 s\"\n[topology]\nkind = \"wlan\"\nstations = 3\nradius = 10\n\
                 wire = {{ rate = \"500 Mbit/s\", delay = \"10 ms\" }}\n\
                 [topology.cell]\n{cell}\n\
                 [[flows]]\ncount = 3\ntransport = \"cubic\"\ndirection = \"{direction}\"\n",
            ));
            let told = run.summary.links.iter().filter(|link| link.queue_of.is_none());
            for link in told.clone() {
                let most = f64::from(link.max_queue_packets.unwrap());
                assert!(link.avg_queue_packets.unwrap() <= most, "{cell}, {direction}: {link:?}");
                assert!(link.avg_queue_found_packets.is_none_or(|found| found <= most), "{cell}: {link:?}");
            }
            let own = cell.contains("queues");
            assert_eq!(told.count(), if own { 8 } else { 6 }, "{cell}");
        }
    }
}

/// FEC protects the direction that it is asked to, and a block that is not full gets its share of the repairs.
#[test]
fn fec_may_stand_in_one_direction() {
    let repairs = |direction: &str| {
        let run = run(&format!(
            r#"
duration = "10 s"
helpers = [{{ kind = "fec", at = "wifi", direction = "{direction}" }}]
[topology]
kind = "graph"
nodes = ["server", "router", "phone"]
[[topology.links]]
name = "wire"
from = "server"
to = "router"
rate = "100 Mbit/s"
delay = "5 ms"
[[topology.links]]
name = "wifi"
from = "router"
to = "phone"
rate = "20 Mbit/s"
delay = "5 ms"
error = {{ kind = "bernoulli", packet_error_rate = 0.01 }}
[[flows]]
source = "server"
sink = "phone"
transport = "cubic"
"#
        ));
        let of = |place: usize| run.summary.links[place].devices.fec.as_ref().map(|fec| fec.repairs > 0);
        (of(2), of(3))
    };
    assert_eq!(repairs("both"), (Some(true), Some(true)));
    assert_eq!(repairs("down"), (Some(true), None));
    assert_eq!(repairs("up"), (None, Some(true)));
}
