//! What must hold of real-time metrics, whatever their options: counts against the trace, Algorithm 1 word for word.

use std::collections::BTreeMap;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::device::Middlebox;
use lasthop_net::plan::{Plan, RealtimePlan, Transport};
use lasthop_net::realtime::plan::{ArrivalPoint, DelayedOver, Duplicates, Missing, SentCount};
use lasthop_net::trace::{HopRecord, Recording};
use lasthop_sim::run::Run;
use proptest::prelude::*;

use super::books::{has_middleboxes, may_refuse};
use super::networks::scenario;
use super::{cases, run_of};
use crate::testkit::{EVERYTHING, plan_of};

/// Options of real-time metrics: threshold in ms and the choices.
fn realtime_options() -> impl Strategy<Value = RealtimePlan> {
    let choices = (0..Missing::NAMES.len(), any::<bool>(), any::<bool>(), any::<bool>());
    (1u64..300, choices, prop::option::of(1u64..4_000_000)).prop_map(|(threshold_ms, choices, target)| {
        let (missing, at_application, counted, generated) = choices;
        RealtimePlan {
            threshold: Span::from_millis(threshold_ms),
            missing: Missing::named(Missing::NAMES[missing]).unwrap(),
            arrival: if at_application { ArrivalPoint::Application } else { ArrivalPoint::Transport },
            duplicates: if counted { Duplicates::Counted } else { Duplicates::Ignored },
            sent: if generated { SentCount::Generated } else { SentCount::Transmitted },
            delayed_over: DelayedOver::Sent,
            success: vec![1, 50, 100],
            target: target.map(Rate),
            slot: Span::from_millis(200),
            playout: Span::from_millis(300),
            rebuffer: Span::from_millis(100),
        }
    })
}

/// What arrived at the sink of `flow` and when: first and last byte, first and present transmission.
fn data_arrivals<'a>(plan: &'a Plan, run: &'a Run, flow: usize) -> Vec<&'a HopRecord> {
    let sink = plan.flows[flow].sink;
    let end_of = |record: &HopRecord| {
        let link = &plan.links[record.direction as usize / 2];
        if record.direction & 1 == 0 { link.to } else { link.from }
    };
    let trace = &run.recorded.hops;
    let mut arrivals: Vec<&HopRecord> = trace
        .iter()
        .filter(|record| record.flow as usize == flow && !record.back && record.payload > 0)
        .filter(|record| record.arrived.is_some() && end_of(record) == sink)
        .collect();
    arrivals.sort_by_key(|record| record.arrived);
    arrivals
}

/// Algorithm 1 word for word over a trace, at the transport and without duplicates: received and delayed packets.
/// `None` where segments overlap in part, as those have no numbers, and where the receiver may not have taken all.
fn delayed_by_trace(plan: &Plan, run: &Run, flow: usize, options: &RealtimePlan) -> Option<(u64, u64)> {
    let (from, end) = (Time::ZERO + plan.warmup, Time::ZERO + plan.duration);
    let first_byte = plan.flows[flow].transport.first_byte();
    let mut times: BTreeMap<u64, (u64, Time)> = BTreeMap::new();
    let mut first_sent: BTreeMap<u64, Time> = BTreeMap::new();
    let trace = &run.recorded.hops;
    let is_data = |record: &&HopRecord| !record.back && record.payload > 0;
    for record in trace.iter().filter(|record| record.flow as usize == flow).filter(is_data) {
        let sent = first_sent.entry(record.seq).or_insert(record.stamp);
        *sent = record.stamp.min(*sent);
    }
    let (mut received, mut delayed, mut last) = (0, 0, None);
    let arrivals = data_arrivals(plan, run, flow);
    if may_refuse(plan, flow, &arrivals) {
        return None;
    }
    for record in arrivals {
        let (start, behind, now) = (record.seq, record.seq + u64::from(record.payload), record.arrived?);
        if now >= end {
            continue;
        }
        match times.get(&start) {
            Some(&(known, _)) if known == behind => continue,
            Some(_) => return None,
            None => {}
        }
        let below = times.range(..start).next_back().map(|(_, &lower)| lower);
        if below.is_some_and(|(lower_end, _)| lower_end > start)
            || times.range(start..behind).next().is_some()
        {
            return None;
        }
        let predecessor = below.filter(|&(lower_end, _)| lower_end == start).map(|(_, time)| time);
        let neighbour = predecessor.or(match options.missing {
            Missing::NextLower => below.map(|(_, time)| time),
            Missing::Literal => Some(Time::ZERO),
            Missing::LastArrival => last,
        });
        let is_late =
            start != first_byte && neighbour.is_some_and(|then| now.0 - then.0 > options.threshold.0);
        if (from..end).contains(&first_sent[&start]) {
            received += 1;
            delayed += u64::from(is_late);
        }
        times.insert(start, (behind, now));
        last = Some(now);
    }
    Some((received, delayed))
}

/// What real-time metrics promise, with any options.
fn check_realtime(plan: &Plan, run: &Run, options: &RealtimePlan) {
    for (index, (flow, planned)) in run.summary.flows.iter().zip(&plan.flows).enumerate() {
        let found = flow.realtime.as_ref().unwrap();
        let name = &flow.name;
        assert_eq!(found.timely_packets + found.delayed_packets, found.received_packets, "{name}");
        // Interval by interval, what is in time is a part of what is known.
        let rows = run.recorded.flows.iter();
        for row in rows.filter(|row| row.sample.flow as usize == index) {
            let timely = row.timely.unwrap();
            assert!(timely.arrived <= timely.settled, "{name}: {row:?}");
        }
        assert!(found.transmitted_packets <= found.transmissions, "{name}: {found:?}");
        // Of a packet that a middlebox doubles or repeats, one may be lost and the other arrive.
        let is_doubled = plan.links.iter().flat_map(|link| [&link.forward, &link.reverse]).any(|direction| {
            let doubles = |middlebox: &Middlebox| match middlebox {
                Middlebox::Impair(one) => one.duplicate > 0.0,
                Middlebox::Snoop(_) | Middlebox::Wtcp(_) | Middlebox::FastAck(_) => true,
                _ => false,
            };
            direction.middleboxes.iter().any(doubles)
        });
        assert!(is_doubled || found.lost_transmissions <= found.transmissions, "{name}: {found:?}");
        assert!(found.generated_packets.is_none_or(|count| count >= found.transmitted_packets), "{name}");
        for share in found.success.0.iter().filter_map(|&(_, share)| share) {
            assert!((0.0..=100.0).contains(&share), "{name}: {found:?}");
        }
        if let Some(call) = &flow.call {
            let delays = [call.frame_delay_p50_s, call.frame_delay_p95_s, call.frame_delay_p99_s];
            assert!(delays.is_sorted() && call.frames_lost <= Some(call.frames), "{name}: {call:?}");
            let shown = call.frames_lost.map(|lost| call.frames - lost);
            assert_eq!(shown.is_some_and(|shown| shown > 0), delays[0].is_some(), "{name}: {call:?}");
            assert!(call.freeze_s.is_none_or(|time| time <= run.summary.measured_s), "{name}: {call:?}");
        }
        if let Some(repair) = run.summary.flows[index].repair.as_deref() {
            let known = repair.overtaken_packets
                + repair.repeated_packets
                + repair.recovered_packets
                + repair.given_up_packets;
            assert!(known <= repair.missing_packets, "{name}: {repair:?}");
            assert!(repair.late_packets <= repair.given_up_packets, "{name}: {repair:?}");
        }
        if options.duplicates == Duplicates::Counted {
            continue;
        }
        assert!(found.received_packets <= found.transmitted_packets, "{name}: {found:?}");
        assert!(found.realtime_index.is_none_or(|index| index <= 1.0), "{name}: {found:?}");
        // What FEC makes arrives, and no trace has it.
        let recovers =
            flow.repair.as_ref().is_some_and(|repair| repair.recovered_packets + repair.late_packets > 0);
        if options.arrival == ArrivalPoint::Transport
            && !recovers
            && !(0..plan.nodes.len()).any(|node| has_middleboxes(plan, node))
            && let Some(counts) = delayed_by_trace(plan, run, index, options)
        {
            assert_eq!((found.received_packets, found.delayed_packets), counts, "{name}: Algorithm 1");
        }
        if matches!(planned.transport, Transport::Udp(_)) && !is_doubled {
            let settled = found.received_packets + found.lost_transmissions;
            assert!(settled <= found.transmitted_packets, "{name}: {found:?}");
            if run.world.network.ledger.in_flight == 0 {
                // The window ends before the moment at which the run does.
                let end = Time::ZERO + plan.duration;
                let arrivals = data_arrivals(plan, run, index);
                let at_the_end = arrivals.iter().filter(|record| record.arrived == Some(end)).count() as u64;
                assert_eq!(settled + at_the_end, found.transmitted_packets, "{name}: {found:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Real-time metrics are right whatever their options, and measuring them changes nothing.
    #[test]
    fn what_holds_of_real_time_metrics(text in scenario(), options in realtime_options()) {
        let mut plan = plan_of(&text);
        let before = run_of(&plan, Recording::default());
        for flow in &mut plan.flows {
            flow.realtime = Some(Box::new(options.clone()));
        }
        let run = run_of(&plan, EVERYTHING);
        prop_assert_eq!(&run.summary.fingerprint, &before.summary.fingerprint);
        check_realtime(&plan, &run, &options);
    }
}
