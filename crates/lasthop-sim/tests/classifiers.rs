//! Senders that tell losses apart, over a whole network: everything arrives, the wire carries what they measure, and
//! the confusion matrix knows what the losses were.

use std::collections::BTreeSet;

use lasthop_core::packet::Kind;
use lasthop_net::trace::{HopRecord, Recording};
use lasthop_sim::run::{Progress, Run, run};
use lasthop_sim::scenario::{Format, Scenario};
use lasthop_sim::summary::LossVerdicts;

/// Two flows over a dumbbell. `queue` is that of its bottleneck; the last hops lose this share of the packets.
fn dumbbell(transport: &str, queue: u32, error_rate: f64, traffic: &str) -> Run {
    let text = format!(
        "duration = \"120 s\"\n[topology]\nkind = \"dumbbell\"\n\
         bottleneck = {{ rate = \"4 Mbit/s\", delay = \"20 ms\", queue = {{ kind = \"drop-tail\", \
         limit = \"{queue} packets\" }} }}\n\
         access = {{ rate = \"20 Mbit/s\", delay = \"5 ms\", queue = {{ kind = \"drop-tail\", \
         limit = \"5000 packets\" }} }}\n\
         [channel]\nerror = {{ kind = \"bernoulli\", packet_error_rate = {error_rate} }}\n\
         [tcp]\nreceiver_window = \"200 packets\"\n\
         [[flows]]\ncount = 2\nstart = \"0 s\"\ntransport = {transport}\ntraffic = {traffic}\n"
    );
    let plan = Scenario::parse(&text, Format::Toml, "classifiers", &[])
        .unwrap_or_else(|error| panic!("{error}"))
        .into_plan();
    run(&plan, 1, Recording { series: false, trace: true }, &Progress::default()).unwrap()
}

const FTP: &str = "{ kind = \"ftp\" }";

fn hops(run: &Run) -> &[HopRecord] {
    run.world.network.trace.as_deref().unwrap()
}

/// What packets of this kind have on the wire beyond payload and the 40 bytes of headers.
fn options(run: &Run, kind: Kind) -> BTreeSet<u16> {
    hops(run).iter().filter(|hop| hop.kind == kind).map(|hop| hop.bytes - hop.payload - 40).collect()
}

fn sizes(values: &[u16]) -> BTreeSet<u16> {
    values.iter().copied().collect()
}

const SENDERS: [&str; 13] = [
    "\"jtcp\"",
    "{ preset = \"jtcp\", profile = \"ns2\" }",
    "{ cc = \"jtcp\", recovery = \"sack\" }",
    "{ cc = \"jtcp\", echo = \"timestamps\", delayed_ack = false }",
    "\"xjtcp\"",
    "{ cc = \"xjtcp\", discard_source = \"receiver\", theta = \"latched\", ewma = \"recursive\" }",
    "\"tcp-real\"",
    "{ cc = \"tcp-real\", recovery = \"sack\" }",
    "{ cc = \"tcp-real\", recovery = \"reno\" }",
    "\"probing\"",
    "{ cc = \"probing\", recovery = \"sack\" }",
    "{ cc = \"probing\", recovery = \"sack1\", profile = \"ns2\" }",
    "{ cc = \"probing\", recovery = \"reno\", ecn = true }",
];

#[test]
fn everything_arrives_in_order() {
    for transport in SENDERS {
        let run = dumbbell(transport, 30, 0.02, "{ kind = \"ftp\", bytes = \"2 MB\" }");
        assert_eq!(run.summary.totals.packets_in_flight, 0, "{transport}");
        for flow in &run.summary.flows {
            assert_eq!(flow.bytes_delivered, 2_000_000, "{transport}");
            assert!(flow.completion_s.is_some(), "{transport}");
            assert!(flow.packets_lost["channel-error"] > 10, "{transport}");
        }
    }
}

/// Timestamps take 12 bytes; RFC 6994's experimental options come on top of them.
#[test]
fn what_is_measured_is_paid_for_on_the_wire() {
    let short = "{ kind = \"ftp\", bytes = \"500 kB\" }";
    for (transport, data, acks) in [
        ("\"newreno\"", 12, 12),
        ("\"jtcp\"", 12, 24),
        ("{ cc = \"jtcp\", echo = \"timestamps\" }", 12, 12),
        ("\"xjtcp\"", 12, 24),
        ("{ cc = \"xjtcp\", discard_source = \"receiver\" }", 12, 32),
        ("\"tcp-real\"", 20, 24),
        ("\"probing\"", 12, 12),
    ] {
        let run = dumbbell(transport, 30, 0.02, short);
        assert_eq!(options(&run, Kind::Data), sizes(&[data]), "{transport}");
        assert_eq!(options(&run, Kind::Ack), sizes(&[acks]), "{transport}");
    }
    let probing = dumbbell("\"probing\"", 30, 0.02, short);
    for kind in [Kind::Probe, Kind::ProbeAnswer] {
        assert_eq!(options(&probing, kind), sizes(&[20]), "{kind:?}");
    }
    // Of the 40 bytes for options 16 are left: room for one SACK block.
    let sack = dumbbell("{ cc = \"jtcp\", recovery = \"sack\" }", 30, 0.02, short);
    assert_eq!(options(&sack, Kind::Ack), sizes(&[24, 36]));
}

/// The matrix of both flows together: congestion, wireless, nothing by taken for congestion, wireless.
fn matrix(run: &Run) -> [[u64; 2]; 3] {
    let mut sums = [[0; 2]; 3];
    for flow in &run.summary.flows {
        let LossVerdicts { congestion, wireless, nothing } = flow.loss_verdicts.unwrap();
        for (sum, row) in sums.iter_mut().zip([congestion, wireless, nothing]) {
            sum[0] += row.congestion;
            sum[1] += row.wireless;
        }
        let answers = flow.timeouts + flow.fast_recoveries;
        let verdicts: u64 =
            [congestion, wireless, nothing].iter().map(|row| row.congestion + row.wireless).sum();
        assert_eq!(verdicts, answers, "every answer is judged once: {flow:?}");
    }
    sums
}

#[test]
fn losses_are_what_the_network_knows_them_to_be() {
    for transport in ["\"jtcp\"", "\"xjtcp\"", "\"tcp-real\"", "\"probing\""] {
        let radio = matrix(&dumbbell(transport, 5000, 0.01, FTP));
        let congested = matrix(&dumbbell(transport, 20, 0.0, FTP));
        assert_eq!(radio[0], [0, 0], "{transport}: no queue overflows");
        assert!(radio[1].iter().sum::<u64>() > 50, "{transport}: {radio:?}");
        assert_eq!(congested[1], [0, 0], "{transport}: nothing is lost in the air");
        assert!(congested[0].iter().sum::<u64>() > 20, "{transport}: {congested:?}");
    }
}

/// Those that do not judge have no matrix.
#[test]
fn no_verdicts_without_a_judge() {
    let run = dumbbell("\"newreno\"", 20, 0.01, "{ kind = \"ftp\", bytes = \"100 kB\" }");
    assert!(run.summary.flows.iter().all(|flow| flow.loss_verdicts.is_none()));
}
