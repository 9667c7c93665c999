//! What must hold on every valid scenario: nothing is lost from the books, the application gets the byte
//! stream, and a run is a function of its plan and its seed.
//!
//! Scenarios are drawn as text, so that the reader of scenarios takes part. `make test-properties` runs these
//! again, optimised and with every assertion on.

use std::collections::BTreeMap;

use lasthop_core::packet::Cause;
use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{Plan, Transport};
use lasthop_net::trace::{FrameOutcome, FrameRecord, Frames, HopRecord, Recording};
use lasthop_net::world::Evaluation;
use lasthop_sim::run::{Progress, Run, RunError, run, run_evaluated};
use lasthop_sim::scenario::Scenario;
use proptest::prelude::*;

use self::books::check;
use self::flows::{arrivals, calls, flow, tcp};
use self::links::{Grain, error, one_of, plain_link};
use self::networks::{
    duration_ms, grain, graph, graph_text, head, scenario, scenario_of, standing, without_agents,
};
use crate::testkit::{EVERYTHING, TRACE, plan_of, run_plan};

mod books;
mod flows;
mod links;
mod networks;
mod realtime;

/// What a flow offers: when its first packet leaves, the length of a transfer, and of datagrams when each leaves and
/// how long it is.
type Offers = (Option<Time>, Option<u64>, Vec<(Time, u16)>);

/// What the flows of the class `name` offer.
fn offered(text: &str, name: &str) -> BTreeMap<String, Offers> {
    let plan = plan_of(text);
    let run = run_of(&plan, EVERYTHING);
    let mut found = BTreeMap::new();
    for (flow, planned) in plan.flows.iter().enumerate() {
        let class = planned.name.split(['-', '.']).next();
        if class != Some(name) {
            continue;
        }
        let leaves_source = |record: &&HopRecord| {
            let link = &plan.links[record.direction as usize / 2];
            let from = if record.direction & 1 == 0 { link.from } else { link.to };
            record.flow as usize == flow && !record.back && from == planned.source
        };
        let sent: Vec<(Time, u16)> = (run.recorded.hops.iter().filter(leaves_source))
            .map(|record| (record.enqueued, record.payload))
            .collect();
        // A client opens further connections when it needs them, which depends on the network.
        let start = if planned.exchange.is_none() { sent.iter().map(|sent| sent.0).min() } else { None };
        let datagrams = if matches!(planned.transport, Transport::Udp(_)) { sent } else { Vec::new() };
        found.insert(planned.name.clone(), (start, run.world.length_of(flow), datagrams));
    }
    found
}

fn run_of(plan: &Plan, recording: Recording) -> Run {
    run_plan(plan, plan.seed, recording)
}

/// What a frame says of itself, without the packet in it: one that has been delivered is known from the record of its
/// sender alone. Levels that were never known are no numbers, and not equal.
fn unpacked(frame: &FrameRecord) -> String {
    format!("{:?}", FrameRecord { packet: None, ..*frame })
}

/// The summary as JSON without the times that the machine took.
fn figures(run: &Run) -> String {
    let mut summary = run.summary.clone();
    (summary.wall_s, summary.set_up_s) = (0.0, 0.0);
    serde_json::to_string(&summary).unwrap()
}

fn cases(count: u32) -> ProptestConfig {
    // `PROPTEST_CASES` searches further.
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { count };
    ProptestConfig { cases, max_shrink_iters: 500, failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(cases(3000))]

    /// No panic, no hang, and everything that [`check`] asks for.
    #[test]
    fn what_holds_on_every_scenario(text in scenario()) {
        let plan = plan_of(&text);
        check(&plan, &run_of(&plan, EVERYTHING));
    }
}

/// The same run twice: links and receivers evaluated as early as possible, and each at its time.
fn check_evaluation(text: &str) {
    let plan = plan_of(text);
    let evaluated = |evaluation| {
        let mut run = run_evaluated(&plan, plan.seed, (TRACE, evaluation), &Progress::default())
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        // Waiting takes events, and nothing else.
        run.summary.events = 0;
        run
    };
    let [eager, clocked] = [Evaluation::Eager, Evaluation::Clocked].map(evaluated);
    assert_eq!(eager.world.network.ledger, clocked.world.network.ledger, "{text}");
    assert_eq!(eager.summary.fingerprint, clocked.summary.fingerprint, "{text}");
    assert_eq!(figures(&eager), figures(&clocked), "{text}");
}

proptest! {
    #![proptest_config(cases(400))]

    /// Evaluating ahead of the clock is a way to be fast and changes nothing.
    #[test]
    fn eager_evaluation_changes_nothing(text in scenario_of(Grain::Fine)) {
        check_evaluation(&text);
    }

    /// Nor does it when many things happen at the same moment.
    #[test]
    fn eager_evaluation_changes_nothing_in_ties(text in scenario_of(Grain::Coarse)) {
        check_evaluation(&text);
    }
}

proptest! {
    #![proptest_config(cases(500))]

    /// Twice in one process, on several threads, and with or without recording: the same run.
    #[test]
    fn same_seed_same_run(text in scenario()) {
        let plan = plan_of(&text);
        let first = run_of(&plan, Recording::default());
        prop_assert_eq!(figures(&first), figures(&run_of(&plan, Recording::default())));
        let recorded = run_of(&plan, Recording { series: false, trace: true, frames: Frames::All });
        prop_assert_eq!(figures(&first), figures(&recorded));
        // Collisions alone are those among all frames.
        let meant = run_of(&plan, Recording { series: false, trace: true, frames: Frames::Collided });
        prop_assert_eq!(figures(&first), figures(&meant));
        let collided = |frame: &&FrameRecord| frame.to == Some(frame.at) && frame.outcome == FrameOutcome::Collided;
        let among: Vec<_> = recorded.recorded.frames.iter().filter(collided).map(unpacked).collect();
        let alone: Vec<_> = meant.recorded.frames.iter().map(unpacked).collect();
        prop_assert_eq!(among, alone);
        let series = run_of(&plan, Recording { series: true, trace: false, frames: Frames::None });
        prop_assert_eq!(&first.summary.fingerprint, &series.summary.fingerprint);
        let on_threads: Vec<String> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..3).map(|_| scope.spawn(|| figures(&run_of(&plan, Recording::default())))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for other in on_threads {
            prop_assert_eq!(figures(&first), other);
        }
    }

    /// A flow on links of its own leaves the others as they were, packet for packet: starting times, clock phases,
    /// losses, random outages and random traffic.
    #[test]
    fn an_added_flow_elsewhere_changes_nothing(
        (duration, (nodes, links, flows), extra, first) in duration_ms().prop_flat_map(|duration| {
            let network = grain().prop_flat_map(move |grain| graph(duration, grain));
            (Just(duration), network, (flow(duration), error(0.3)), any::<bool>())
        }),
        seed in 0u64..1000,
    ) {
        let (flow, error) = extra;
        let network = head(duration, seed, 0) + &graph_text(&nodes, &links, &flows);
        let alone = standing(network.clone());
        let links = if alone == network { links } else { without_agents(&links) };
        let mut more = nodes;
        more.extend(["x".to_owned(), "y".to_owned()]);
        let link = format!(
            "[[topology.links]]\nfrom = \"x\"\nto = \"y\"\nrate = \"1 Mbit/s\"\ndelay = \"5 ms\"\nerror = {error}\n"
        );
        let flow = format!("[[flows]]\nname = \"extra\"\nsource = \"x\"\nsink = \"y\"\n{flow}");
        // In front or behind: the place in the file does not matter either.
        let together = if first {
            graph_text(&more, &(link + &links), &(flow + &flows))
        } else {
            graph_text(&more, &(links + &link), &(flows + &flow))
        };
        let together = head(duration, seed, 0) + &together;
        let occurrences = |text: &str| {
            let plan = plan_of(text);
            let run = run_of(&plan, EVERYTHING);
            let mut hops = BTreeMap::new();
            for record in &run.recorded.hops {
                let link = (plan.links[record.direction as usize / 2].name.clone(), record.direction % 2);
                let flow = &plan.flows[record.flow as usize].name;
                // Connections of a client have its name in front.
                if flow.split('.').next() != Some("extra") {
                    let what = (record.kind, record.seq, record.ack, record.enqueued, record.arrived, record.lost);
                    hops.entry((link, flow.clone())).or_insert_with(Vec::new).push(what);
                }
            }
            hops
        };
        prop_assert_eq!(occurrences(&alone), occurrences(&together));
    }

    /// A class of traffic that shares the way, in front or behind, changes nothing of what the applications of the
    /// others offer: their starts, the lengths of transfers, and the datagrams that leave by a clock of their own.
    #[test]
    fn an_added_class_leaves_what_others_offer_alone(
        (one, two) in (2000u32..6000).prop_flat_map(|duration| {
            let class = || prop_oneof![flow(duration).boxed(), arrivals(duration).boxed(), calls(duration).boxed()];
            (class(), class())
        }),
        count in 1u32..4, seed in 0u64..1000, access in plain_link(500, 5000, Grain::Fine),
    ) {
        let network = head(6000, seed, 0)
            + "[topology]\nkind = \"dumbbell\"\nbottleneck = { rate = \"2 Mbit/s\", delay = \"20 ms\" }\n"
            + &format!("access = {{ {} }}\n", access.join(", "));
        let count = if two.contains("count") { String::new() } else { format!("count = {count}\n") };
        let one = format!("[[flows]]\nname = \"one\"\n{one}");
        let two = format!("[[flows]]\nname = \"two\"\n{count}{two}");
        let alone = offered(&format!("{network}{one}"), "one");
        prop_assert!(!alone.is_empty());
        prop_assert_eq!(&alone, &offered(&format!("{network}{one}{two}"), "one"), "behind");
        prop_assert_eq!(&alone, &offered(&format!("{network}{two}{one}"), "one"), "in front");
    }

    /// A flow that shares the way changes when packets meet the channel, but not which of them, counted in order, the
    /// channel loses.
    #[test]
    fn an_added_flow_leaves_the_channel_as_it_was(
        rate in 0.001..0.3f64, seed in 0u64..1000, transport in tcp(), other in tcp(),
        position in one_of(&["after-transmission", "before-queue"]),
    ) {
        let scenario = |flows: &str| {
            format!(
                "{}[topology]\nkind = \"dumbbell\"\nbottleneck = {{ rate = \"1 Mbit/s\", delay = \"20 ms\" }}\n\
                 access = {{ rate = \"2 Mbit/s\", delay = \"1 ms\" }}\n[channel]\n\
                 error = {{ kind = \"bernoulli\", packet_error_rate = {rate:.4}, position = \"{position}\" }}\n{flows}",
                head(5000, seed, 0)
            )
        };
        let one = format!("[[flows]]\nname = \"one\"\ntransport = {transport}\n");
        let two = format!("[[flows]]\nname = \"two\"\ntransport = {other}\n");
        let judged = |text: &str| {
            let plan = plan_of(text);
            let run = run_of(&plan, EVERYTHING);
            let link = plan.links.iter().position(|link| link.name == "sink-access-1").unwrap() as u32;
            let start = run.recorded.hops.iter()
                .filter(|record| record.flow == 0).map(|record| record.enqueued).min();
            let losses = [2 * link, 2 * link + 1].map(|direction| {
                run.recorded.hops.iter()
                    .filter(|record| record.direction == direction)
                    .filter(|record| position == "before-queue" || record.lost != Some(Cause::QueueOverflow))
                    // At the end of the run the fate of the last packets is open.
                    .filter(|record| record.arrived.is_some() || record.lost.is_some())
                    .map(|record| record.lost == Some(Cause::ChannelError))
                    .collect::<Vec<bool>>()
            });
            (start, losses)
        };
        let (start, alone) = judged(&scenario(&one));
        let (same_start, together) = judged(&scenario(&(one + &two)));
        prop_assert_eq!(start, same_start);
        for (alone, together) in alone.iter().zip(&together) {
            let both = alone.len().min(together.len());
            prop_assert_eq!(&alone[..both], &together[..both]);
        }
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    /// However the channel rages below 10 %, a file gets through in the end, and both ends know it.
    #[test]
    fn a_finite_transfer_completes(
        transport in tcp(), bytes in 1u32..150_000, error in error(0.1),
        link in plain_link(200, 5000, Grain::Fine), seed in 0u64..1000,
    ) {
        let text = format!(
            "duration = \"20000 s\"\nseed = {seed}\nlimits = {{ events = 5_000_000, wall_time = \"100 s\" }}\n\
             [topology]\nkind = \"graph\"\nnodes = [\"a\", \"b\"]\n\
             links = [{{ from = \"a\", to = \"b\", {}, error = {error} }}]\n\
             [[flows]]\nsource = \"a\"\nsink = \"b\"\ntransport = {transport}\n\
             traffic = {{ kind = \"ftp\", bytes = \"{bytes} B\" }}\n",
            link.join(", ")
        );
        let plan = plan_of(&text);
        let run = run_of(&plan, Recording { series: false, trace: true, frames: Frames::All });
        check(&plan, &run);
        let flow = &run.summary.flows[0];
        prop_assert_eq!(flow.bytes_delivered, u64::from(bytes));
        prop_assert!(flow.completion_s.is_some());
        prop_assert_eq!(run.summary.totals.packets_in_flight, 0);
    }
}

/// Enough work that the run is looked after a few times.
fn long_plan(limits: &str) -> Plan {
    plan_of(&format!(
        "duration = \"60 s\"\n[limits]\n{limits}\n[topology]\nkind = \"dumbbell\"\n\
         bottleneck = {{ rate = \"20 Mbit/s\", delay = \"5 ms\" }}\n\
         access = {{ rate = \"50 Mbit/s\", delay = \"1 ms\" }}\n\
         [[flows]]\ntransport = \"reno\"\nstart = \"0 s\"\n"
    ))
}

#[test]
fn the_event_limit_names_itself() {
    let plan = long_plan("events = 20_000");
    let error = run(&plan, 1, Recording::default(), &Progress::default()).unwrap_err();
    let RunError::EventLimit { limit, reached, duration, .. } = error else { panic!("{error}") };
    assert_eq!((limit, duration), (20_000, Span::from_secs(60)));
    assert_eq!(
        error.to_string(),
        format!(
            "the run passed its limit of 20000 events at {reached} of 60 s simulated: raise limits.events, or shorten \
             duration or the number of flows"
        )
    );
}

#[test]
fn the_limit_of_wall_time_names_itself() {
    let plan = long_plan("wall_time = \"1 ns\"");
    let error = run(&plan, 1, Recording::default(), &Progress::default()).unwrap_err();
    let RunError::WallTimeLimit { limit, reached, .. } = error else { panic!("{error}") };
    assert_eq!(limit, Span(1));
    assert_eq!(
        error.to_string(),
        format!(
            "the run passed its limit of 1 ns of wall-clock time at {reached} of 60 s simulated: raise \
             limits.wall_time, or shorten duration or the number of flows"
        )
    );
}

#[test]
fn a_cancelled_run_says_how_far_it_came() {
    let progress = Progress::default();
    progress.cancel();
    let error = run(&long_plan(""), 1, Recording::default(), &progress).unwrap_err();
    let RunError::Interrupted { reached, .. } = error else { panic!("{error}") };
    assert_eq!(error.to_string(), format!("interrupted at {reached} of 60 s simulated"));
    assert_eq!(progress.simulated(), reached);
    assert!(progress.events() > 0 && progress.packet_hops() > 0);
}

/// What ready scenarios do is pinned: a build, a machine or a refactoring that changes one of these changes published
/// results. A change of behaviour on purpose changes them too, and says so in its commit.
#[test]
fn ready_scenarios_keep_their_fingerprints() {
    let fingerprint = |file: &str, transport: &str| {
        let path = format!("{}/../../scenarios/{file}", env!("CARGO_MANIFEST_DIR"));
        let settings = [("duration", "10 s"), ("flows.0.transport", transport)];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let plan = Scenario::load(path, &settings).unwrap_or_else(|error| panic!("{error}")).into_plan();
        run_of(&plan, Recording::default()).summary.fingerprint
    };
    let fingerprints = PINNED.map(|(file, transport, _)| fingerprint(file, transport));
    assert_eq!(fingerprints, PINNED.map(|pinned| pinned.2));
}

const PINNED: [(&str, &str, &str); 4] = [
    ("lossy-last-hop.toml", "newreno", "a4db5e31197b6a7d"),
    ("lossy-last-hop.toml", "vegas", "b02ee59d16b1bda4"),
    ("paced-ftp.toml", "sack", "4bdbe91d410e9bd1"),
    ("many-flows.toml", "cubic", "48845cfee254e384"),
];

/// Scenarios by which a search with other seeds found faults: each says in its first line which.
#[test]
fn what_a_search_found_stays_mended() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/found");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let plan = plan_of(&text);
        check(&plan, &run_of(&plan, EVERYTHING));
        check_evaluation(&text);
    }
}
