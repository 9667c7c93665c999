//! FQ-CoDel: every flow has a queue of its own under CoDel, and they take turns (RFC 8290).

use lasthop_core::packet::Cause;

use super::codel::{CoDel, Controlled};
use super::fair::{Control, Turns};
use super::{Service, Shed, Verdict};

/// Parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCoDel {
    /// What controls each queue.
    pub codel: CoDel,
    /// How they take turns.
    pub turns: Turns,
}

/// Most packets that are thrown away at once when there is no more room (RFC 8290, §4.1.3).
const BATCH: usize = 64;

impl Control for Controlled {
    type Plan = FqCoDel;

    fn turns(plan: &FqCoDel) -> &Turns {
        &plan.turns
    }

    /// CoDel draws nothing.
    fn empty(plan: &FqCoDel, _name: &str, _seed: u64, _number: u32) -> Controlled {
        Controlled::of(plan.codel)
    }

    fn at_limit() -> Verdict {
        Verdict::Admit
    }

    /// Half of the queue is thrown away at its head, but no more than a batch (RFC 8290, §4.1.3).
    fn shorten(&mut self, shed: &mut Vec<Shed>) {
        let half = self.bytes() / 2;
        let (mut taken, before) = (0, shed.len());
        while shed.len() < before + BATCH
            && (taken < half || shed.len() == before)
            && let Some(parcel) = self.take_first()
        {
            taken += u64::from(parcel.bytes);
            shed.push(Shed { parcel, cause: Cause::QueueOverflow });
        }
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::{Span, Time};

    use super::*;
    use crate::queue::fair::FairQueues;
    use crate::queue::{Ecn, Parcel};

    type Queues = FairQueues<Controlled>;

    const CODEL: CoDel = CoDel {
        target: Span::from_millis(5),
        interval: Span::from_millis(100),
        mtu: 1514,
        ecn: true,
        threshold: None,
    };
    const TURNS: Turns = Turns { queues: 1024, quantum: 1514, limit: 10_240, memory: 32 << 20 };
    const PLAN: FqCoDel = FqCoDel { codel: CODEL, turns: TURNS };

    fn turns(turns: Turns) -> FqCoDel {
        FqCoDel { turns, ..PLAN }
    }

    fn queues(plan: &FqCoDel) -> Queues {
        Queues::new(plan, "test", 1)
    }

    fn parcel(flow: u32, packet: u32, bytes: u16) -> Parcel {
        Parcel { packet, hop: 0, flow, bytes, ecn: Ecn::Incapable, ahead: false, since: Time::ZERO }
    }

    fn push(queues: &mut Queues, parcels: impl IntoIterator<Item = Parcel>) -> Vec<u32> {
        let mut shed = Vec::new();
        parcels.into_iter().for_each(|parcel| assert_eq!(queues.push(parcel, &mut shed), Verdict::Admit));
        shed.iter().map(|shed| shed.parcel.packet).collect()
    }

    /// The flows of the next packets, all served at time zero.
    fn served(queues: &mut Queues, number: usize) -> Vec<u32> {
        let mut shed = Vec::new();
        let next = (0..number).map(|_| queues.pop(Time::ZERO, &mut shed).unwrap().parcel.flow).collect();
        assert!(shed.is_empty());
        next
    }

    /// NV-1.6 in whole bytes: packets of 1514 B against 378 B; a round is 1 packet of one and 4 of the other, and the
    /// 2 B that those leave over let a fifth follow in the first round.
    #[test]
    fn two_flows_share_by_bytes() {
        let mut queues = queues(&PLAN);
        push(&mut queues, (0..100).map(|number| parcel(1, number, 1514)));
        push(&mut queues, (0..400).map(|number| parcel(2, number, 378)));
        let order = served(&mut queues, 1 + 5 + 1 + 4 + 1 + 4 + 1 + 4);
        let runs = order.chunk_by(|left, right| left == right).map(|run| (run[0], run.len()));
        let expected = [(1, 1), (2, 5), (1, 1), (2, 4), (1, 1), (2, 4), (1, 1), (2, 4)];
        assert_eq!(runs.collect::<Vec<_>>(), expected);
        let rest = served(&mut queues, 300);
        let bytes = |flow, size| rest.iter().filter(|&&one| one == flow).count() * size;
        assert!(bytes(1, 1514).abs_diff(bytes(2, 378)) <= 2 * 1514);
    }

    /// A flow that comes new is served before those that were there, but only for its quantum.
    #[test]
    fn new_flows_go_first_once() {
        let mut queues = queues(&PLAN);
        push(&mut queues, (0..20).flat_map(|number| [parcel(1, number, 1514), parcel(2, number, 1514)]));
        assert_eq!(served(&mut queues, 4), [1, 2, 1, 2]);
        push(&mut queues, (0..3).map(|number| parcel(3, number, 1000)));
        // Two of 1000 B begin within 1514 B. Then it is the turn of flow 1, as flow 2 has used up its credit.
        assert_eq!(served(&mut queues, 5), [3, 3, 1, 3, 2]);
    }

    /// A flow that runs empty waits for its turn behind the old ones before it counts as new again (§4.2).
    #[test]
    fn no_flow_stays_new_by_sending_little() {
        let mut queues = queues(&PLAN);
        push(&mut queues, (0..20).map(|number| parcel(1, number, 1514)));
        assert_eq!(served(&mut queues, 2), [1, 1]);
        push(&mut queues, [parcel(2, 0, 100)]);
        assert_eq!(served(&mut queues, 2), [2, 1]);
        push(&mut queues, [parcel(2, 1, 100)]);
        // It has been moved behind flow 1, whose credit is used up.
        assert_eq!(served(&mut queues, 3), [2, 1, 1]);
    }

    /// Beyond the limit the longest queue loses half of its bytes at its head, 64 packets at most.
    #[test]
    fn the_longest_queue_makes_room() {
        let mut queues = queues(&turns(Turns { limit: 100, ..TURNS }));
        push(&mut queues, (0..20).map(|number| parcel(1, number, 1000)));
        let shed = push(&mut queues, (100..181).map(|number| parcel(2, number, 1000)));
        assert_eq!(shed, (100..141).collect::<Vec<_>>(), "40.5 of 81");
        assert_eq!((queues.packets(), queues.bytes()), (60, 60_000));
        let mut many = Queues::new(&turns(Turns { limit: 500, ..TURNS }), "test", 1);
        assert_eq!(push(&mut many, (0..501).map(|number| parcel(1, number, 1000))).len(), 64);
        let mut fat = Queues::new(&turns(Turns { memory: 9999, ..TURNS }), "test", 1);
        assert_eq!(push(&mut fat, (0..10).map(|number| parcel(1, number, 1000))), [0, 1, 2, 3, 4]);
    }

    /// Each queue is under its own control: the one that stands is marked, the other is not.
    #[test]
    fn control_is_by_flow() {
        let mut queues = queues(&PLAN);
        let standing = |number| Parcel { ecn: Ecn::Capable, ..parcel(1, number, 1514) };
        push(&mut queues, (0..500).map(standing));
        let (mut shed, mut marks) = (Vec::new(), [0, 0]);
        for millis in 0..400 {
            let now = Time::ZERO + Span::from_millis(millis);
            push(&mut queues, [Parcel { since: now, ecn: Ecn::Capable, ..parcel(2, 1000, 100) }]);
            for _ in 0..2 {
                let served = queues.pop(now, &mut shed).unwrap();
                marks[served.parcel.flow as usize - 1] += u32::from(served.marked);
            }
        }
        // At 100 ms (the first packet is late at once), then 200, 270.7, 328.4, 378.4: NV-1.5.
        assert_eq!((marks, shed.len()), ([5, 0], 0));
    }

    /// Flows share queues in another way with another seed, and few do among many queues.
    #[test]
    fn hashes_spread() {
        let used = |seed| {
            let mut queues = Queues::new(&PLAN, "test", seed);
            push(&mut queues, (0..100).map(|flow| parcel(flow, 0, 100)));
            (queues.flows.len(), (0..100).map(|flow| queues.queue_of(flow)).collect::<Vec<_>>())
        };
        let ((first, chosen), (second, others)) = (used(1), used(7));
        // 100 of 1024: 95.3 are expected to be used.
        assert!((88..=100).contains(&first) && (88..=100).contains(&second), "{first} and {second}");
        assert!(first < 100 || second < 100 || chosen == others);
    }
}
