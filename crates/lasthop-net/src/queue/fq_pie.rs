//! FQ-PIE: every flow has a queue of its own under PIE, and they take turns as in FQ-CoDel.
//!
//! No RFC describes it; this is the discipline of Linux (`sch_fq_pie` of 6.18), under the PIE of RFC 8033. Each queue
//! has a probability of its own. A packet that finds all queues together full is refused, whichever is the longest.
//! Linux counts packets beyond its limit of memory and takes them all the same; here they are refused.

use lasthop_core::packet::Cause;

use super::fair::{Control, Turns};
use super::pie::{Controlled, Pie};
use super::{Shed, Verdict};

/// Parameters of FQ-PIE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FqPie {
    /// What controls each queue.
    pub pie: Pie,
    /// How they take turns.
    pub turns: Turns,
}

impl Control for Controlled {
    type Plan = FqPie;

    fn turns(plan: &FqPie) -> &Turns {
        &plan.turns
    }

    fn empty(plan: &FqPie, name: &str, seed: u64, number: u32) -> Controlled {
        Controlled::new(&plan.pie, &format!("{name}, queue {number}"), seed)
    }

    fn at_limit() -> Verdict {
        Verdict::Refuse(Cause::QueueOverflow)
    }

    /// Nothing was taken beyond the limit.
    fn shorten(&mut self, _shed: &mut Vec<Shed>) {}
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::{Span, Time};

    use super::*;
    use crate::queue::fair::FairQueues;
    use crate::queue::{Ecn, Parcel, Service};

    const PIE: Pie = Pie {
        target: Span::from_millis(15),
        update: Span::from_millis(15),
        burst: Span::from_millis(150),
        mtu: 1514,
        ecn: true,
        mark_below: 0.1,
    };
    const TURNS: Turns = Turns { queues: 1024, quantum: 1514, limit: 10_240, memory: 32 << 20 };

    fn queues(turns: Turns) -> FairQueues<Controlled> {
        FairQueues::new(&FqPie { pie: PIE, turns }, "test", 1)
    }

    fn parcel(flow: u32, bytes: u16, since: Time) -> Parcel {
        Parcel { packet: 0, hop: 0, flow, bytes, ecn: Ecn::Incapable, ahead: false, since }
    }

    /// The first flow fills its queue at three times the rate of the link for five seconds, the second sends a tenth of
    /// the link: PIE drops of the first alone, and about two thirds of it; the second waits for a quantum at most.
    #[test]
    fn control_is_by_flow() {
        let mut queues = queues(TURNS);
        let mut shed = Vec::new();
        let (mut offered, mut refused, mut longest) = ([0_u32; 2], [0_u32; 2], Span::ZERO);
        for tick in 0..5000_u64 {
            let now = Time::ZERO + Span::from_millis(tick);
            let mut push = |flow: u32| {
                offered[flow as usize] += 1;
                let verdict = queues.push(parcel(flow, 1000, now), &mut shed);
                refused[flow as usize] += u32::from(verdict == Verdict::Refuse(Cause::EarlyDrop));
            };
            (0..3).for_each(|_| push(0));
            if tick % 10 == 0 {
                push(1);
            }
            let served = queues.pop(now, &mut shed).unwrap().parcel;
            if served.flow == 1 {
                longest = longest.max(now.since(served.since));
            }
        }
        assert!(shed.is_empty());
        assert_eq!(refused[1], 0);
        assert!(longest <= Span::from_millis(2), "{longest}");
        // 0.9 of 3 packets per millisecond can leave: 70 % are lost once the probability has risen.
        let lost = f64::from(refused[0]) / f64::from(offered[0]);
        assert!((0.55..0.7).contains(&lost), "{lost}");
        assert!(queues.packets() < 500, "{}", queues.packets());
    }

    /// A packet that arrives at a full queue is refused, also one of a flow that has nothing there.
    #[test]
    fn a_full_queue_refuses() {
        let overflow = Verdict::Refuse(Cause::QueueOverflow);
        for turns in [Turns { limit: 20, ..TURNS }, Turns { memory: 20_500, ..TURNS }] {
            let mut queues = queues(turns);
            let mut push = |flow| queues.push(parcel(flow, 1000, Time::ZERO), &mut Vec::new());
            assert!((0..20).all(|_| push(0) == Verdict::Admit));
            assert_eq!((push(0), push(1)), (overflow, overflow));
            assert_eq!((queues.packets(), queues.bytes()), (20, 20_000));
        }
    }
}
