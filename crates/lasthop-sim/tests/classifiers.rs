//! Senders that tell losses apart, over a whole network: everything arrives, the wire carries what they measure, and
//! the confusion matrix knows what the losses were.

use std::collections::BTreeSet;

use lasthop_core::packet::Kind;
use lasthop_sim::run::Run;
use lasthop_sim::summary::LossVerdicts;

mod testkit;

use testkit::{SUMMARY, TRACE, hops, run_text};

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
    run_text(&text, 1, TRACE)
}

const FTP: &str = "{ kind = \"ftp\" }";

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
        ("\"xjtcp\"", 12, 32),
        ("{ cc = \"xjtcp\", discard_source = \"none\" }", 12, 24),
        ("\"venoplus\"", 12, 20),
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

/// The matrix of all flows together: congestion, wireless, nothing by taken for congestion, wireless.
fn matrix_of(run: &Run) -> [[u64; 2]; 3] {
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
        // Veno's law says nothing of timeouts.
        let judged = if flow.transport.starts_with("veno") { flow.fast_recoveries } else { answers };
        assert_eq!(verdicts, judged, "every answer is judged once: {flow:?}");
    }
    sums
}

/// Share of the losses of this kind (0 congestion, 1 wireless) that are taken for it.
fn recall(matrix: &[[u64; 2]; 3], kind: usize) -> f64 {
    matrix[kind][kind] as f64 / matrix[kind].iter().sum::<u64>() as f64
}

/// Share of what is taken for this kind that is of it.
fn precision(matrix: &[[u64; 2]; 3], kind: usize) -> f64 {
    matrix[kind][kind] as f64 / matrix.iter().map(|row| row[kind]).sum::<u64>() as f64
}

/// What a classifier must reach at least on the paths below.
struct Least {
    transport: &'static str,
    /// Recall of congestion where queues overflow and nothing else is lost.
    congested: f64,
    /// Recall of errors where nothing else is lost.
    lossy: f64,
    /// Recall of congestion and of errors, and precision of the belief in errors, where both happen.
    mixed: [f64; 3],
}

/// None is tuned: what falls short of nine in ten does so by its own law. Veno and JTCP take an error for congestion
/// while their own window grows into the queue, for the queue does grow. TCP-Real sees no rate fall when a queue
/// overflows, and Probing finds the path drained by its own silence: both take most overflows for errors.
const LEAST: [Least; 6] = [
    Least { transport: "veno", congested: 0.95, lossy: 0.7, mixed: [0.95, 0.35, 0.95] },
    Least { transport: "venoplus", congested: 0.95, lossy: 0.95, mixed: [0.9, 0.95, 0.95] },
    Least { transport: "jtcp", congested: 0.95, lossy: 0.5, mixed: [0.95, 0.35, 0.95] },
    Least { transport: "xjtcp", congested: 0.95, lossy: 0.7, mixed: [0.5, 0.55, 0.7] },
    Least { transport: "tcp-real", congested: 0.4, lossy: 0.8, mixed: [0.3, 0.65, 0.5] },
    Least { transport: "probing", congested: 0.2, lossy: 0.7, mixed: [0.25, 0.7, 0.5] },
];

/// Whoever confuses the two, or believes in one of them whatever happens, falls below one of these.
#[test]
fn losses_are_taken_for_what_they_are() {
    const CONGESTION: usize = 0;
    const WIRELESS: usize = 1;
    for Least { transport, congested, lossy, mixed } in LEAST {
        let quoted = format!("\"{transport}\"");
        let matrix = matrix_of(&dumbbell(&quoted, 20, 0.0, FTP));
        assert_eq!(matrix[1], [0, 0], "{transport}: nothing is lost in the air");
        assert!(matrix[0].iter().sum::<u64>() > 20, "{transport}: {matrix:?}");
        assert!(recall(&matrix, CONGESTION) >= congested, "{transport}, congested: {matrix:?}");
        let matrix = matrix_of(&dumbbell(&quoted, 5000, 0.01, FTP));
        assert_eq!(matrix[0], [0, 0], "{transport}: no queue overflows");
        assert!(matrix[1].iter().sum::<u64>() > 50, "{transport}: {matrix:?}");
        assert!(recall(&matrix, WIRELESS) >= lossy, "{transport}, lossy: {matrix:?}");
        let matrix = matrix_of(&dumbbell(&quoted, 20, 0.005, FTP));
        let found = [recall(&matrix, CONGESTION), recall(&matrix, WIRELESS), precision(&matrix, WIRELESS)];
        let reached = found.iter().zip(mixed).all(|(found, least)| *found >= least);
        assert!(reached, "{transport}, mixed: {found:?} for {mixed:?} from {matrix:?}");
    }
}

/// One flow alone; the bottleneck takes `queue` packets and loses this share of them.
fn lone(transport: &str, queue: u32, error_rate: f64) -> Run {
    let text = format!(
        "duration = \"80 s\"\nwarmup = \"20 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"s\", \"r\", \"d\"]\n\
         [[topology.links]]\nfrom = \"s\"\nto = \"r\"\nrate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n\
         queue = \"unlimited\"\n[[topology.links]]\nfrom = \"r\"\nto = \"d\"\nrate = \"10 Mbit/s\"\n\
         delay = \"15 ms\"\nqueue = {{ kind = \"drop-tail\", limit = \"{queue} packets\" }}\n\
         error = {{ kind = \"bernoulli\", packet_error_rate = {error_rate} }}\n\
         reverse = {{ error = \"none\" }}\n\
         [tcp]\nreceiver_window = \"1000 packets\"\ninitial_ssthresh = \"unlimited\"\n\
         [[flows]]\nsource = \"s\"\nsink = \"d\"\nstart = \"0 s\"\ntransport = {transport}\n"
    );
    run_text(&text, 1, SUMMARY)
}

/// Of ten megabits, what headers and timestamps leave.
fn goodput(run: &Run) -> f64 {
    run.summary.flows[0].goodput_bit_s / 1e7
}

/// The jitter ratio sees the queue grow before it overflows, with an ACK for every segment and for every second, in
/// buffers of a fifth of the path, of the path and of five times as much; and lets most errors pass.
#[test]
fn a_single_overflow_is_congestion_to_the_jitter_ratio() {
    for name in ["jtcp", "xjtcp"] {
        for profile in ["rfc", "ns2"] {
            let transport = format!("{{ preset = \"{name}\", profile = \"{profile}\" }}");
            for queue in [7, 33, 165] {
                let run = lone(&transport, queue, 0.0);
                let matrix = matrix_of(&run);
                assert!(recall(&matrix, 0) >= 0.9, "{name} {profile} {queue}: {matrix:?}");
                if queue >= 33 {
                    assert!(goodput(&run) >= 0.9, "{name} {profile} {queue}: {}", goodput(&run));
                }
            }
            let matrix = matrix_of(&lone(&transport, 33, 0.01));
            assert!(recall(&matrix, 1) >= 0.8, "{name} {profile}: {matrix:?}");
        }
    }
}

/// Shetty et al. (2009): VenoPlus is for lightly loaded networks, where Veno takes its own backlog for congestion.
#[test]
fn venoplus_keeps_more_than_veno_on_a_lightly_loaded_lossy_path() {
    for error_rate in [0.001, 0.01] {
        let [veno, plus] = ["\"veno\"", "\"venoplus\""].map(|name| goodput(&lone(name, 33, error_rate)));
        assert!(plus > 1.03 * veno, "{error_rate}: {plus} against {veno}");
    }
    let [veno, plus] = ["\"veno\"", "\"venoplus\""].map(|name| goodput(&lone(name, 33, 0.0)));
    assert!((plus / veno - 1.0).abs() < 0.01, "without errors they are alike: {plus} against {veno}");
}

/// A receiver's MAC discards what XJTCP hears of by default: on a plain lossy last hop it is not JTCP.
#[test]
fn xjtcp_hears_the_receivers_mac() {
    let deaf = lone("{ cc = \"xjtcp\", discard_source = \"none\" }", 33, 0.01);
    let hears = lone("\"xjtcp\"", 33, 0.01);
    assert_ne!(deaf.summary.fingerprint, hears.summary.fingerprint);
    assert!(recall(&matrix_of(&hears), 1) > recall(&matrix_of(&deaf), 1));
}

/// Ten outages of a second on a path whose buffer holds three times what it does: a timeout that is judged harmless is
/// repaired without a burst. Probing pays two round trips of silence for each, and a window that is kept overflows the
/// queue sooner, so goodput stays within a tenth of Reno's.
#[test]
fn handoffs_cost_hardly_more_than_reno() {
    for policy in ["drop-air", "drop", "hold"] {
        let times: Vec<String> = (1..=10).map(|number| format!("\"{} s\"", 5 * number)).collect();
        let figures = |name: &str| {
            let text = format!(
                "duration = \"60 s\"\n[topology]\nkind = \"graph\"\nnodes = [\"s\", \"r\", \"d\"]\n\
                 [[topology.links]]\nfrom = \"s\"\nto = \"r\"\nrate = \"100 Mbit/s\"\ndelay = \"10 ms\"\n\
                 queue = \"unlimited\"\n[[topology.links]]\nfrom = \"r\"\nto = \"d\"\nrate = \"5 Mbit/s\"\n\
                 delay = \"10 ms\"\nqueue = {{ kind = \"drop-tail\", limit = \"50 packets\" }}\n\
                 handoff = {{ outage = \"1 s\", policy = \"{policy}\", at = [{}] }}\n\
                 [[flows]]\nsource = \"s\"\nsink = \"d\"\nstart = \"0 s\"\ntransport = \"{name}\"\n",
                times.join(", ")
            );
            let flow = run_text(&text, 1, SUMMARY).summary.flows.remove(0);
            (flow.goodput_bit_s, flow.retransmitted_packets)
        };
        let (reno, repeated) = figures("reno");
        for name in ["probing", "tcp-real"] {
            let (goodput, retransmitted) = figures(name);
            assert!(goodput >= 0.9 * reno, "{name}, {policy}: {goodput} against {reno}");
            assert!(retransmitted <= 2 * repeated, "{name}, {policy}: {retransmitted} against {repeated}");
        }
    }
}

/// Those that do not judge have no matrix.
#[test]
fn no_verdicts_without_a_judge() {
    let run = dumbbell("\"newreno\"", 20, 0.01, "{ kind = \"ftp\", bytes = \"100 kB\" }");
    assert!(run.summary.flows.iter().all(|flow| flow.loss_verdicts.is_none()));
}
