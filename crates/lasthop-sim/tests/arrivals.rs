//! Flows that arrive one after another with lengths of their own: against the theory of queues, and against the rule
//! that a class leaves the others alone.

use std::collections::BTreeMap;

use crate::testkit::{SUMMARY, plan_of, run_plan, run_text};
use lasthop_core::time::{Span, Time};
use lasthop_net::transport::endpoint::Endpoint;
use lasthop_net::transport::tcp::sender::TcpSender;
use lasthop_net::world::{Evaluation, World};
use lasthop_sim::run::{Progress, Run, run_evaluated};
use lasthop_sim::scenario::{Files, Format, Scenario};

/// Transfers over a fair queue of 1 Mbit/s, with next to no delay beside it.
fn fair(duration: u32, flows: &str) -> String {
    format!(
        r#"
duration = "{duration} s"
[topology]
kind = "dumbbell"
access = {{ rate = "1 Gbit/s", delay = "10 us" }}
[topology.bottleneck]
rate = "1 Mbit/s"
delay = "1 ms"
queue = {{ kind = "fq-codel", limit = 10000, target = "100 s", interval = "1000 s" }}
{flows}
"#
    )
}

fn web(size: &str, start: &str) -> String {
    format!(
        "[[flows]]\nname = \"web\"\ntransport = \"cubic\"\ntraffic = {{ kind = \"transfer\", size = {size} }}\n\
         start = {{ arrivals = \"poisson\", {start} }}\n"
    )
}

/// Starts and completion times of the flows whose names begin so; bytes delivered.
fn transfers(run: &Run, name: &str) -> Vec<(Option<f64>, Option<f64>, u64)> {
    let rows = run.summary.flows.iter().filter(|flow| flow.name.starts_with(name));
    rows.map(|flow| (flow.start_s, flow.completion_s, flow.bytes_delivered)).collect()
}

/// In an M/G/1 queue that shares the processor a transfer takes `S / (1 - rho)` in the mean, whatever the distribution
/// of lengths (Kleinrock, Queueing Systems II, section 4.4). What opening a connection adds is far below 1 %.
#[test]
fn a_fair_queue_shares_as_theory_says() {
    const MEAN: f64 = 100e3;
    for size in [
        r#"{ kind = "constant", bytes = "100 kB" }"#,
        r#"{ kind = "exponential", mean = "100 kB" }"#,
        r#"{ kind = "pareto", mean = "100 kB", shape = 2.5 }"#,
    ] {
        let text = fair(4000, &web(size, "load = 0.5"));
        let mut times = Vec::new();
        for seed in 1..=10 {
            let run = run_text(&text, seed, SUMMARY);
            times.extend(transfers(&run, "web").into_iter().filter_map(|(_, completion, _)| completion));
        }
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let theory = MEAN * 1500.0 / 1448.0 * 8.0 / 1e6 / (1.0 - 0.5);
        assert!((mean / theory - 1.0).abs() < 0.03, "{size}: {mean} s, and {theory} s by theory");
    }
}

/// A load is what it says, on the link that is slowest.
#[test]
fn the_load_is_that_of_the_slowest_link() {
    let size = r#"{ kind = "exponential", mean = "20 kB" }"#;
    let text = fair(2000, &web(size, "load = 0.4"));
    let utilisation: f64 =
        (1..=4).map(|seed| run_text(&text, seed, SUMMARY).summary.links[0].utilisation).sum::<f64>() / 4.0;
    assert!((utilisation - 0.4).abs() < 0.02, "{utilisation}");
}

/// As many flows as the time allows; or as many as `count` says, of which one that would arrive after the end takes no
/// part.
#[test]
fn as_many_as_there_is_time_for() {
    let size = r#"{ kind = "exponential", mean = "1 kB" }"#;
    let arriving = |count: &str| {
        let flows = web(size, "every = \"100 ms\"") + count;
        (1..=10).map(move |seed| {
            let run = run_text(&fair(10, &flows), seed, SUMMARY).summary;
            assert_eq!(run.flows.len(), 100);
            let started = run.flows.iter().filter(|flow| flow.start_s.is_some()).count() as u64;
            assert_eq!(run.totals.transfers, Some(started));
            started
        })
    };
    assert!(arriving("").all(|started| started == 100));
    let late: u64 = arriving("count = 100\n").map(|started| 100 - started).sum();
    // The hundredth arrival lies on either side of the end as often; by as many as a standard deviation of 10.
    assert!((10..80).contains(&late), "{late}");
    let periodic = web(size, "every = \"100 ms\", from = \"5 s\"").replace("poisson", "periodic");
    let rows = run_text(&fair(10, &periodic), 2, SUMMARY);
    let starts: Vec<f64> = transfers(&rows, "web").iter().filter_map(|row| row.0).collect();
    assert_eq!(starts.len(), 50);
    assert_eq!((starts[0], starts[49]), (5.0, 9.9));
}

/// Bursts: as many flows as the load asks for, in a fifth of the time. Of 4000 s some 400 cycles of 10 s are left to
/// chance.
#[test]
fn bursts_bring_the_same_load() {
    let size = r#"{ kind = "constant", bytes = "10 kB" }"#;
    let start = "load = 0.3, on = \"2 s\", off = \"8 s\"";
    let text = fair(4000, &web(size, start)).replace("\"poisson\"", "\"on-off\"");
    let scenario = Scenario::parse(&text, Format::Toml, "test", &[]).unwrap();
    let asked = scenario.plan().flows.len() as f64;
    let per_flow = 10_000.0 * 1500.0 / 1448.0 * 8.0;
    assert!((asked - 0.3 * 4000.0 * 1e6 / per_flow).abs() < 1.0, "{asked}");
    let mut starts: Vec<f64> = transfers(&run_plan(scenario.plan(), 1, SUMMARY), "web")
        .into_iter()
        .filter_map(|row| row.0)
        .collect();
    starts.sort_by(f64::total_cmp);
    // Those beyond the end take no part.
    assert!((starts.len() as f64 / asked - 1.0).abs() < 0.15, "{} of {asked}", starts.len());
    // Four in five seconds are quiet, and a few of the others.
    let busy: std::collections::BTreeSet<u64> = starts.iter().map(|start| *start as u64).collect();
    assert!((800..1400).contains(&busy.len()), "{}", busy.len());
}

/// Another class, before or behind, changes neither the arrivals nor the lengths of the first.
#[test]
fn a_class_leaves_the_others_alone() {
    let size = r#"{ kind = "log-normal", median = "3 kB", sigma = 1.0 }"#;
    let mail = web(size, "every = \"1 s\"").replace("web", "mail");
    let own = web(size, "every = \"2 s\"");
    let offered = |flows: &str| -> Vec<(Option<f64>, u64)> {
        let rows = transfers(&run_text(&fair(60, flows), 5, SUMMARY), "web");
        rows.iter().map(|row| (row.0, row.2)).collect()
    };
    let alone = offered(&own);
    assert_eq!(alone, offered(&format!("{own}{mail}")));
    assert_eq!(alone, offered(&format!("{mail}{own}")));
}

/// Ends are there for flows that are: of 3,000 that come one after another, only those under way have any, and those
/// that ended since the world last looked. One that is over keeps nothing of what it sent.
#[test]
fn flows_that_are_over_keep_nothing() {
    let size = r#"{ kind = "pareto", mean = "10 kB", shape = 1.5 }"#;
    for transport in ["cubic", "newreno", "bbr"] {
        let text = fair(400, &web(size, "every = \"100 ms\""))
            .replace("1 Mbit/s", "10 Mbit/s")
            .replace("\"cubic\"", &format!("\"{transport}\""))
            .replace("[[flows]]", "[[flows]]\ncount = 3000");
        let plan = plan_of(&text);
        let mut world = World::new(&plan, 1, SUMMARY);
        for second in 1..=400 {
            world.step_until(Time::ZERO + Span::from_secs(second));
            let senders = || world.senders.iter().filter_map(Endpoint::tcp_sender);
            let open =
                senders().filter(|sender| sender.stats.completed.is_none() && sender.room() > 0).count();
            assert!(open < 30, "{transport}: {open} flows are under way at {second} s");
            assert!(senders().count() < 300, "{transport}: {} ends at {second} s", senders().count());
            let over = senders().filter(|sender| sender.stats.completed.is_some());
            assert_eq!(over.map(TcpSender::room).sum::<usize>(), 0, "{transport}: at {second} s");
        }
        world.finish();
        assert_eq!(world.senders.iter().filter_map(Endpoint::tcp_sender).count(), 0, "{transport}");
        let completed = world.senders.iter().filter(|sender| sender.report().completed.is_some());
        assert_eq!(completed.count(), 3000, "{transport}");
    }
}

/// What is told of flows whose ends come and go is what is told of those that keep theirs: with losses, with calls and
/// files beside them, with flows that stop and some that never begin.
#[test]
fn ends_that_come_and_go_change_nothing() {
    let size = r#"{ kind = "log-normal", median = "5 kB", sigma = 1.0 }"#;
    let own = |name: &str, transport: &str, more: &str| {
        let table = web(size, "every = \"50 ms\"").replace("\"web\"", &format!("\"{name}\""));
        table.replace("\"cubic\"", &format!("\"{transport}\"")) + more + "\n"
    };
    let flows = [
        own("web", "cubic", "count = 500"),
        own("mail", "newreno", "stop = \"9 s\""),
        own("far", "bbr3", "hosts = 2\ncount = 400"),
        "[[flows]]\nname = \"bulk\"\ntransport = \"cubic\"\ncount = 2\n".to_owned(),
        "[[flows]]\nname = \"call\"\ntransport = \"udp\"\ntraffic = \"voice\"\n".to_owned(),
        "[[flows]]\nname = \"late\"\ntransport = \"reno\"\ncount = 300\n\
         start = { uniform = [\"5 s\", \"40 s\"] }\n"
            .to_owned(),
    ];
    let queue = r#"queue = { kind = "drop-tail", limit = "20 packets" }"#;
    let text = fair(30, &flows.join("\n")).replace("1 Mbit/s", "3 Mbit/s");
    let line = text.lines().find(|line| line.starts_with("queue")).unwrap();
    let text = text.replace(line, queue).replace("\"40 s\"", "\"30 s\"");
    let plan = plan_of(&text);
    assert!(plan.flows.len() > 1200, "{}", plan.flows.len());
    let told = |evaluation| {
        let run = run_evaluated(&plan, 3, (SUMMARY, evaluation), &Progress::default())
            .unwrap_or_else(|error| panic!("{error}"));
        let mut summary = run.summary.clone();
        (summary.wall_s, summary.set_up_s, summary.events) = (0.0, 0.0, 0);
        let kept = run.world.senders.iter().filter(|sender| sender.tcp_sender().is_some()).count();
        (serde_json::to_string_pretty(&summary).unwrap(), kept)
    };
    let (coming, none) = told(Evaluation::Eager);
    let (staying, all) = told(Evaluation::Open);
    assert_eq!((none, all), (0, plan.flows.len() - 1));
    for (one, other) in coming.lines().zip(staying.lines()) {
        assert_eq!(one, other);
    }
    assert_eq!(coming, staying);
}

/// Flows of a table take the hosts in turn.
#[test]
fn hosts_take_turns() {
    let size = r#"{ kind = "exponential", mean = "10 kB" }"#;
    let flows = web(size, "every = \"100 ms\"") + "hosts = 3\n";
    let run = run_text(&fair(10, &flows), 1, SUMMARY).summary;
    assert_eq!(run.links.iter().filter(|link| link.name.starts_with("source-access")).count(), 6);
    assert!(run.links.iter().all(|link| link.utilisation > 0.0));
}

/// Flows of one dumbbell with round trips of their own: 2 x (delay + 1 ms + 10 us) and what packets take.
#[test]
fn round_trips_differ() {
    let of = |name: &str, more: &str| {
        format!(
            "[[flows]]\nname = \"{name}\"\ntransport = \"cubic\"\nstart = \"0 s\"\n\
             traffic = {{ kind = \"ftp\", bytes = \"100 B\" }}\n{more}\n"
        )
    };
    let flows = [
        of("near", ""),
        of("far", "delay = \"49 ms\""),
        of("back", "delay = \"9 ms\"\ndirection = \"reverse\""),
    ]
    .join("\n");
    let run = run_text(&fair(5, &flows), 1, SUMMARY).summary;
    let rtt_ms: Vec<f64> = run.flows.iter().map(|flow| 1e3 * flow.rtt_mean_s.unwrap_or_default()).collect();
    for (rtt, expected) in rtt_ms.iter().zip([2.04, 100.02, 20.02]) {
        assert!((expected..expected + 3.0).contains(rtt), "{rtt_ms:?}");
    }
}

/// Transfers at the times of a file, with its lengths: those that fit the time, and none of another class changes them.
#[test]
fn arrivals_come_from_a_file() {
    let files = BTreeMap::from([(
        "pages.txt".to_owned(),
        "seconds bytes\n0 3000\n0.5 20000\n0.5 700\n9.5 100\n12 5\n".to_owned(),
    )]);
    let run = |flows: &str| {
        let text = fair(10, flows);
        let given = Files::Given(&files);
        let scenario = Scenario::parse_with(&text, Format::Toml, ("test", given), &[], &[]);
        run_plan(&scenario.unwrap_or_else(|error| panic!("{error}\n{text}")).into_plan(), 1, SUMMARY)
    };
    let listed = |more: &str| {
        format!(
            "[[flows]]\nname = \"web\"\ntransport = \"cubic\"\n\
             start = {{ arrivals = \"listed\", file = \"pages.txt\"{more} }}\n"
        )
    };
    let mail = web(r#"{ kind = "exponential", mean = "1 kB" }"#, "every = \"1 s\"").replace("web", "mail");
    let rows = |flows: &str| -> Vec<(Option<f64>, Option<u64>)> {
        let found = run(flows).summary.flows;
        let own = found.iter().filter(|flow| flow.name.starts_with("web"));
        own.map(|flow| (flow.start_s, flow.transfer_bytes)).collect()
    };
    let expected =
        [(0.0, 3000), (0.5, 20000), (0.5, 700), (9.5, 100)].map(|(at, bytes)| (Some(at), Some(bytes)));
    assert_eq!(rows(&listed("")), expected);
    assert_eq!(rows(&(mail + &listed(""))), expected);
    let later =
        expected[..3].iter().map(|&(at, bytes)| (at.map(|at: f64| at + 1.0), bytes)).collect::<Vec<_>>();
    assert_eq!(rows(&listed(", from = \"1 s\"")), later);
    assert_eq!(rows(&(listed("") + "count = 2\n")), expected[..2]);
    assert_eq!(run(&listed("")).summary.totals.transfers, Some(4));
}
