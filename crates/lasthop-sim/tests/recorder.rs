//! What a run records does not depend on how often it is handed over, and comes in the order of time.

use std::io;

use crate::testkit::{EVERYTHING, Scene};
use lasthop_core::time::{Span, Time};
use lasthop_net::plan::Plan;
use lasthop_net::trace::{DecisionRecord, HopRecord, Recorded, Sink, WindowRecord};
use lasthop_net::world::{Evaluation, World};
use lasthop_sim::run::{Progress, RunError, run_into};

/// Links that decide at once, that hold packets, retransmit them, go down and throw their queues away.
fn network(duration: &str) -> Plan {
    Scene::lasting(duration)
        .chain(
            ["server", "router", "base", "phone"],
            &[
                "rate = \"20 Mbit/s\"\ndelay = \"10 ms\"",
                "rate = \"8 Mbit/s\"\ndelay = \"5 ms\"\nqueue = { kind = \"codel\", limit = \"200 packets\" }",
                "rate = \"6 Mbit/s\"\ndelay = \"2 ms\"\narq = {}\n\
                 error = { kind = \"bernoulli\", packet_error_rate = 0.1 }\n\
                 handoff = { outage = \"600 ms\", count = 10 }",
            ],
        )
        .between("server", "phone", "count = 2\ntransport = \"sack\"")
        .between("phone", "server", "transport = \"cubic\"")
        .plan()
}

fn world(plan: &Plan, evaluation: Evaluation) -> World {
    World::evaluated(plan, 1, EVERYTHING, evaluation)
}

/// All at once, when the run is over.
fn at_the_end(plan: &Plan, evaluation: Evaluation) -> Recorded {
    let mut world = world(plan, evaluation);
    let mut recorded = Recorded::default();
    world.run(|_| Ok::<(), ()>(())).unwrap();
    world.hand_over(&mut recorded).unwrap();
    recorded
}

fn assert_ordered(recorded: &Recorded) {
    assert!(recorded.hops.is_sorted_by_key(|hop| hop.enqueued));
    assert!(recorded.windows.is_sorted_by_key(|window| window.time));
    assert!(recorded.flows.is_sorted_by_key(|row| (row.sample.time, row.sample.flow)));
    assert!(recorded.links.is_sorted_by_key(|row| (row.time, row.direction)));
}

#[test]
fn how_often_it_is_handed_over_does_not_matter() {
    let plan = network("40 s");
    let expected = at_the_end(&plan, Evaluation::Eager);
    assert_ordered(&expected);
    assert!(expected.hops.len() > 70_000, "{}", expected.hops.len());
    assert_eq!(expected.links.len(), 6 * 400);
    for evaluation in [Evaluation::Eager, Evaluation::Clocked] {
        let mut world = world(&plan, evaluation);
        let mut recorded = Recorded::default();
        let mut soonest = usize::MAX;
        for tick in 1..=4000 {
            world.step_until(Time::ZERO + Span::from_millis(10 * tick));
            world.hand_over(&mut recorded).unwrap();
            if !recorded.hops.is_empty() {
                soonest = soonest.min(tick as usize);
            }
        }
        assert!(soonest < 3000, "records come while the run goes on");
        assert!(recorded.links.len() > 6 * 300, "and so do rows of links");
        world.finish();
        world.hand_over(&mut recorded).unwrap();
        assert_ordered(&recorded);
        assert_eq!(recorded.windows, expected.windows);
        // What a sender does not have is no number, and equals nothing.
        assert!(format!("{:?}", recorded.flows) == format!("{:?}", expected.flows), "{evaluation:?}");
        assert_eq!(recorded.links, expected.links, "{evaluation:?}");
        if evaluation == Evaluation::Eager {
            assert_eq!(recorded.hops, expected.hops);
            continue;
        }
        // Answers are numbered when they are computed, and what comes to two links in one instant is settled then.
        let sorted = |recorded: &Recorded| {
            let hops = recorded.hops.iter().map(|hop| HopRecord { packet: 0, ..*hop });
            let mut hops: Vec<HopRecord> = hops.collect();
            hops.sort_by_key(|hop| (hop.enqueued, hop.direction, hop.flow, hop.seq, hop.ack));
            hops
        };
        assert!(sorted(&recorded) == sorted(&expected));
    }
}

/// What is not handed over yet.
#[derive(Default)]
struct Full(u64);

impl Sink for Full {
    fn hop(&mut self, _: &HopRecord) -> io::Result<()> {
        self.0 += 1;
        if self.0 < 40_000 { Ok(()) } else { Err(io::Error::other("no space left")) }
    }
}

#[test]
fn a_sink_that_is_full_ends_the_run() {
    let plan = network("60 s");
    let how = (EVERYTHING, Evaluation::Eager);
    let error = run_into(&plan, 1, how, &mut Full::default(), &Progress::default()).unwrap_err();
    assert!(
        matches!(&error, RunError::Recording { reached, .. } if *reached < Span::from_secs(30)),
        "{error:?}"
    );
    assert!(
        error.to_string().starts_with("what the run records cannot be written: no space left; "),
        "{error}"
    );
}

/// Wants what happens from 10 to 12 seconds, and looks at that alone.
#[derive(Default)]
struct Windowed {
    recorded: Recorded,
    others: usize,
}

const FROM: Time = Time(10_000_000_000);
const TO: Time = Time(12_000_000_000);

fn is_wanted(hop: &HopRecord) -> bool {
    hop.lost.is_some() || (hop.enqueued <= TO && hop.arrived.is_none_or(|arrived| arrived >= FROM))
}

impl Sink for Windowed {
    fn wants(&mut self, _: Time) -> (Time, Time) {
        (FROM, TO)
    }

    fn hop(&mut self, record: &HopRecord) -> io::Result<()> {
        if is_wanted(record) {
            return self.recorded.hop(record);
        }
        self.others += 1;
        Ok(())
    }

    fn window(&mut self, record: &WindowRecord) -> io::Result<()> {
        if (FROM..=TO).contains(&record.time) { self.recorded.window(record) } else { Ok(()) }
    }

    fn decision(&mut self, record: &DecisionRecord) -> io::Result<()> {
        self.recorded.decision(record)
    }
}

#[test]
fn a_sink_that_wants_a_window_gets_it_and_every_loss() {
    let plan = network("40 s");
    for evaluation in [Evaluation::Eager, Evaluation::Clocked] {
        let mut all = Recorded::default();
        let whole = run_into(&plan, 1, (EVERYTHING, evaluation), &mut all, &Progress::default()).unwrap();
        let mut sink = Windowed::default();
        let run = run_into(&plan, 1, (EVERYTHING, evaluation), &mut sink, &Progress::default()).unwrap();
        assert_eq!(run.summary.fingerprint, whole.summary.fingerprint);
        let hops: Vec<HopRecord> = all.hops.iter().copied().filter(is_wanted).collect();
        let losses = hops.iter().filter(|hop| hop.lost.is_some()).count();
        assert!(hops.len() > 2000 && losses > 100, "{} with {losses} losses", hops.len());
        assert!(sink.recorded.hops == hops, "{evaluation:?}");
        let windows = all.windows.iter().copied().filter(|row| (FROM..=TO).contains(&row.time));
        assert!(sink.recorded.windows == windows.collect::<Vec<_>>());
        assert_eq!(sink.recorded.decisions, all.decisions);
        // What came before the first look at the sink is there as well, and hardly anything else.
        assert!(sink.others < all.hops.len() / 3, "{} of {}", sink.others, all.hops.len());
    }
}
