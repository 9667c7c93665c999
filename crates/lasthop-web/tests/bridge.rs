//! What a page gets of a run: the same run, whatever is recorded of it, and columns that fit together.

use std::collections::BTreeMap;

use lasthop_core::time::{Span, Time};
use lasthop_net::trace::{Frames, Recording};
use lasthop_net::world::Evaluation;
use lasthop_sim::run::{self, Progress, Run};
use lasthop_sim::scenario::{Files, Format, Scenario, ScenarioError};
use lasthop_web::replay::Replay;
use lasthop_web::series::{Rows, Series};

const LOSSY: &str = r#"
duration = "20 s"
warmup = "2 s"
[topology]
kind = "dumbbell"
bottleneck = { rate = "4 Mbit/s", delay = "20 ms", queue = { kind = "drop-tail", limit = "15 packets" } }
access = { rate = "10 Mbit/s", delay = "5 ms" }
[channel]
error = { kind = "bernoulli", packet_error_rate = 0.01 }
handoff = { count = 2, outage = "1 s" }
[[flows]]
count = 3
transport = "veno"
"#;

fn lossy() -> Scenario {
    Scenario::parse(LOSSY, Format::Toml, "lossy", &[]).unwrap()
}

fn bare(scenario: &Scenario) -> Run {
    run::run(scenario.plan(), 1, Recording::default(), &Progress::default()).unwrap()
}

/// The summary does not depend on what is recorded, the number of events included.
#[test]
fn series_are_of_the_same_run() {
    let scenario = lossy();
    let plan = scenario.plan();
    let mut heard = Vec::new();
    let mut seen = 0;
    let mut tell = |seconds: f64, rows: &Rows| {
        heard.push(seconds);
        // What is there so far is whole intervals of every flow and every direction.
        let (flows, links) =
            (rows.of_flows("cwnd_segments").unwrap(), rows.of_links("queue_packets").unwrap());
        assert_eq!((flows.len() % 3, links.len() % (2 * plan.links.len())), (0, 0));
        assert!(flows.len() > seen);
        seen = flows.len();
    };
    let mut series = Series::new(plan, &mut tell);
    let how = (Recording { series: true, trace: false, frames: Frames::None }, Evaluation::Eager);
    let with = run::run_into(plan, 1, how, &mut series, &Progress::default()).unwrap().summary;
    let series = series.finish();
    let without = bare(&scenario).summary;
    assert_eq!((with.fingerprint, with.events), (without.fingerprint, without.events));
    assert_eq!(series.of_flows("cwnd_segments").unwrap().len(), 3 * 200);
    assert_eq!(series.of_links("queue_packets").unwrap().len(), 2 * plan.links.len() * 200);
    assert_eq!(series.of_flows("no_such_column"), None);
    let sent: f64 = series.of_flows("goodput_bit_s").unwrap().iter().sum::<f64>() * 0.1;
    assert!(sent > 0.0);
    assert!(
        heard.is_sorted() && heard.len() >= 90,
        "progress is told about a hundred times: {}",
        heard.len()
    );
}

/// Every decision that the summary counts is recorded, with the segment that it answers.
#[test]
fn decisions_and_losses_are_those_that_are_counted() {
    let scenario = lossy();
    let mut plan = scenario.plan().clone();
    plan.warmup = Span::ZERO;
    let mut tell = |_: f64, _: &Replay<'_>| {};
    let mut replay = Replay::new((Time(5_000_000_000), Time(6_000_000_000)), 1_000_000, None, &mut tell);
    let how = (Recording { series: false, trace: true, frames: Frames::All }, Evaluation::Eager);
    let summary = run::run_into(&plan, 1, how, &mut replay, &Progress::default()).unwrap().summary;
    let replay = replay.finish();
    assert_eq!(summary.fingerprint, bare(&scenario).summary.fingerprint);
    let kinds = replay.of_decisions("decision").unwrap();
    let count = |wanted: f64| kinds.iter().filter(|&&kind| kind == wanted).count() as u64;
    let flows = || summary.flows.iter();
    assert_eq!(count(0.0), flows().map(|flow| flow.fast_recoveries.unwrap()).sum::<u64>());
    assert_eq!(count(1.0), flows().map(|flow| flow.timeouts.unwrap()).sum::<u64>());
    assert!(count(0.0) > 10 && count(1.0) > 2);
    // Veno says what it takes a loss for; the network knows what it was.
    let beliefs = replay.of_decisions("belief").unwrap();
    let truths = replay.of_decisions("truth").unwrap();
    let recoveries = kinds.iter().zip(beliefs.iter().zip(&truths)).filter(|(kind, _)| **kind == 0.0);
    let known = recoveries.filter(|(_, (belief, truth))| **belief > 0.0 && **truth > 0.0).count() as u64;
    assert_eq!(known, count(0.0));
    let enqueued = replay.of_hops("enqueue_s").unwrap();
    assert!(enqueued.is_sorted() && enqueued.iter().all(|&time| time <= 6.0) && enqueued.len() > 100);
}

/// What is known of a window while the run goes on stays: the first rows of the whole, all up to the time that is said.
#[test]
fn a_window_is_seen_while_the_run_goes_on() {
    let scenario = lossy();
    let mut plan = scenario.plan().clone();
    plan.duration = Span::from_secs(200);
    let mut seen = Vec::new();
    let mut decided = Vec::new();
    let of_decisions = |replay: &Replay<'_>| {
        let column = |name: &str| replay.of_decisions(name).unwrap();
        column("time_s").into_iter().zip(column("truth")).collect::<Vec<_>>()
    };
    let mut watch = |seconds: f64, begun: &Replay<'_>| {
        decided.push(of_decisions(begun));
        assert_eq!(begun.has_decisions(), !decided.last().unwrap().is_empty());
        if begun.has_packets() {
            let column = |name: &str| begun.of_hops(name).unwrap();
            seen.push((seconds, begun.known_s(), column("packet"), column("enqueue_s")));
        }
    };
    let mut replay = Replay::new((Time::ZERO, Time::MAX), 5_000, None, &mut watch);
    let how = (Recording { series: false, trace: true, frames: Frames::None }, Evaluation::Eager);
    run::run_into(&plan, 1, how, &mut replay, &Progress::default()).unwrap();
    let whole = replay.finish();
    let (packets, enqueued) = (whole.of_hops("packet").unwrap(), whole.of_hops("enqueue_s").unwrap());
    assert!(seen.len() > 3 && packets.len() == 5_000, "{} looks, {} packets", seen.len(), packets.len());
    for (seconds, known, begun, times) in &seen {
        assert!(known <= seconds);
        assert_eq!(packets[..begun.len()], *begun);
        let of_whole = enqueued.iter().filter(|&time| time < known).count();
        assert_eq!(times.iter().filter(|&time| time < known).count(), of_whole);
    }
    // A decision comes with what it answered, not before: nothing of it is taken back.
    let truths = of_decisions(&whole);
    assert!(decided.iter().any(|begun| begun.len() > 10) && truths.len() > 20);
    for begun in &decided {
        assert_eq!(truths[..begun.len()], *begun);
    }
}

/// Files are found by the names that the scenario gives them, and nowhere else.
#[test]
fn files_that_are_given_take_the_place_of_a_folder() {
    let text = r#"
duration = "2 s"
[topology]
kind = "graph"
nodes = ["a", "b"]
[[topology.links]]
from = "a"
to = "b"
delay = "5 ms"
trace = { kind = "mahimahi", file = "lab/up.txt" }
[[flows]]
source = "a"
sink = "b"
transport = "reno"
"#;
    let read = |files: &BTreeMap<String, String>| -> Result<Scenario, ScenarioError> {
        Scenario::parse_with(text, Format::Toml, ("lab.toml", Files::Given(files)), &[], &[])
    };
    let given = BTreeMap::from([("lab/up.txt".to_owned(), "\u{feff}1\n2\n5\n".to_owned())]);
    assert_eq!(read(&given).unwrap().input_files().len(), 1);
    let error = read(&BTreeMap::new()).unwrap_err().to_string();
    assert!(error.contains("the trace cannot be read from lab/up.txt: it was not given"), "{error}");
    assert!(error.ends_with("add the file beside the scenario"), "{error}");
}
