//! FQ-CoDel: every flow has a queue of its own under CoDel, and they take turns (RFC 8290).
//!
//! A hash of the flow chooses one of many queues. Those that have just become active are served first, once each;
//! the others share the link by deficit round robin, in bytes. So a flow that sends little does not wait, and one
//! that sends much waits for itself. Section numbers in the comments are those of RFC 8290.

use std::sync::Arc;

use lasthop_core::packet::Cause;
use lasthop_core::random::Stream;
use lasthop_core::time::Time;

use super::codel::{CoDel, Controlled};
use super::{Parcel, Served, Service, Shed, Verdict};

/// Parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCoDel {
    /// What controls each queue.
    pub codel: CoDel,
    /// Number of queues that flows are hashed to.
    pub queues: u32,
    /// Bytes that a queue may send in a round.
    pub quantum: u32,
    /// Most packets that wait in all queues together.
    pub limit: u64,
    /// Most bytes that wait in all queues together.
    pub memory: u64,
}

/// Most packets that are thrown away at once when there is no more room (§4.1.3).
const BATCH: usize = 64;

/// In which list a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In none: it holds nothing.
    Idle,
    New,
    Old,
}

/// The queue of the flows that share a hash.
#[derive(Clone, Debug)]
struct Flow {
    queue: Controlled,
    /// Bytes that it may still send in this round.
    credit: i64,
    state: State,
    /// The next queue in its list.
    next: u32,
}

/// No queue.
const NOBODY: u32 = u32::MAX;

/// Queues in the order of their service, linked by [`Flow::next`].
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: List = List { first: NOBODY, last: NOBODY };

    fn append(&mut self, flows: &mut [Flow], index: u32) {
        flows[index as usize].next = NOBODY;
        if self.first == NOBODY {
            self.first = index;
        } else {
            flows[self.last as usize].next = index;
        }
        self.last = index;
    }

    fn take_first(&mut self, flows: &[Flow]) {
        self.first = flows[self.first as usize].next;
    }
}

/// FQ-CoDel at work.
#[derive(Clone, Debug)]
pub(crate) struct FairQueues {
    plan: FqCoDel,
    /// Makes flows share a queue in another way in every run.
    salt: u64,
    /// The number of each flow, made of its name: the index of a flow changes with others in the scenario.
    names: Arc<[u32]>,
    /// For each hash the index of its queue; [`NOBODY`] until a packet has come.
    by_hash: Box<[u32]>,
    flows: Vec<Flow>,
    new: List,
    old: List,
    packets: u64,
    bytes: u64,
}

impl FairQueues {
    pub(super) fn new(plan: &FqCoDel, name: &str, seed: u64) -> FairQueues {
        FairQueues {
            plan: *plan,
            salt: Stream::new(seed, &format!("hash of {name}")).below(u64::MAX),
            names: Arc::default(),
            by_hash: vec![NOBODY; plan.queues as usize].into(),
            flows: Vec::new(),
            new: List::EMPTY,
            old: List::EMPTY,
            packets: 0,
            bytes: 0,
        }
    }

    /// Flows are known by their names from now on.
    pub(super) fn name_flows(&mut self, names: &Arc<[u32]>) {
        self.names = Arc::clone(names);
    }

    /// The queue of a flow. A flow stands for addresses, ports and protocol (§4.1.1).
    fn queue_of(&mut self, flow: u32) -> u32 {
        let name = self.names.get(flow as usize).copied().unwrap_or(flow);
        let slot =
            &mut self.by_hash[(mix(u64::from(name) ^ self.salt) % u64::from(self.plan.queues)) as usize];
        if *slot == NOBODY {
            *slot = self.flows.len() as u32;
            let queue = Controlled::of(self.plan.codel);
            self.flows.push(Flow { queue, credit: 0, state: State::Idle, next: NOBODY });
        }
        *slot
    }

    /// A packet has left, one way or another.
    fn count_out(&mut self, bytes: u16) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
    }

    /// Makes room at the head of the longest queue: half of it, but no more than a batch (§4.1.3).
    fn make_room(&mut self, shed: &mut Vec<Shed>) {
        let longest = self.flows.iter_mut().max_by_key(|flow| flow.queue.bytes());
        let Some(Flow { queue, .. }) = longest else { return };
        let half = queue.bytes() / 2;
        let mut taken = 0;
        let before = shed.len();
        while shed.len() < before + BATCH
            && (taken < half || shed.len() == before)
            && let Some(parcel) = queue.take_first()
        {
            taken += u64::from(parcel.bytes);
            shed.push(Shed { parcel, cause: Cause::QueueOverflow });
        }
        for Shed { parcel, .. } in &shed[before..] {
            self.packets -= 1;
            self.bytes -= u64::from(parcel.bytes);
        }
    }
}

impl Service for FairQueues {
    fn push(&mut self, parcel: Parcel, shed: &mut Vec<Shed>) -> Verdict {
        let index = self.queue_of(parcel.flow);
        let flow = &mut self.flows[index as usize];
        flow.queue.push(parcel, shed);
        if flow.state == State::Idle {
            flow.state = State::New;
            flow.credit = self.plan.quantum.into();
            self.new.append(&mut self.flows, index);
        }
        self.packets += 1;
        self.bytes += u64::from(parcel.bytes);
        if self.packets > self.plan.limit || self.bytes > self.plan.memory {
            self.make_room(shed);
        }
        Verdict::Admit
    }

    /// §4.2.
    fn pop(&mut self, now: Time, shed: &mut Vec<Shed>) -> Option<Served> {
        loop {
            let from_new = self.new.first != NOBODY;
            let list = if from_new { &mut self.new } else { &mut self.old };
            let index = list.first;
            if index == NOBODY {
                return None;
            }
            let flow = &mut self.flows[index as usize];
            if flow.credit <= 0 {
                flow.credit += i64::from(self.plan.quantum);
                flow.state = State::Old;
                list.take_first(&self.flows);
                self.old.append(&mut self.flows, index);
                continue;
            }
            let before = shed.len();
            let served = flow.queue.pop(now, shed);
            for Shed { parcel, .. } in &shed[before..] {
                self.count_out(parcel.bytes);
            }
            if let Some(served) = served {
                self.flows[index as usize].credit -= i64::from(served.parcel.bytes);
                self.count_out(served.parcel.bytes);
                return Some(served);
            }
            // A queue that runs empty while it is new still waits for its turn among the old: otherwise a flow that
            // sends a packet whenever it has none there would always be new.
            list_of(from_new, &mut self.new, &mut self.old).take_first(&self.flows);
            if from_new && self.old.first != NOBODY {
                self.flows[index as usize].state = State::Old;
                self.old.append(&mut self.flows, index);
            } else {
                self.flows[index as usize].state = State::Idle;
            }
        }
    }

    #[inline]
    fn packets(&self) -> u64 {
        self.packets
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn list_of<'a>(is_new: bool, new: &'a mut List, old: &'a mut List) -> &'a mut List {
    if is_new { new } else { old }
}

/// Spreads the bits of a number (the finaliser of `SplitMix64`, Steele, Lea and Flood 2014).
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::Span;

    use super::*;
    use crate::queue::Ecn;

    const CODEL: CoDel =
        CoDel { target: Span::from_millis(5), interval: Span::from_millis(100), mtu: 1514, ecn: true };
    const PLAN: FqCoDel =
        FqCoDel { codel: CODEL, queues: 1024, quantum: 1514, limit: 10_240, memory: 32 << 20 };

    fn queues(plan: &FqCoDel) -> FairQueues {
        FairQueues::new(plan, "test", 1)
    }

    fn parcel(flow: u32, packet: u32, bytes: u16) -> Parcel {
        Parcel { packet, hop: 0, flow, bytes, ecn: Ecn::Incapable, ahead: false, since: Time::ZERO }
    }

    fn push(queues: &mut FairQueues, parcels: impl IntoIterator<Item = Parcel>) -> Vec<u32> {
        let mut shed = Vec::new();
        parcels.into_iter().for_each(|parcel| assert_eq!(queues.push(parcel, &mut shed), Verdict::Admit));
        shed.iter().map(|shed| shed.parcel.packet).collect()
    }

    /// The flows of the next packets, all served at time zero.
    fn served(queues: &mut FairQueues, number: usize) -> Vec<u32> {
        let mut shed = Vec::new();
        let next = (0..number).map(|_| queues.pop(Time::ZERO, &mut shed).unwrap().parcel.flow).collect();
        assert!(shed.is_empty());
        next
    }

    /// TV-1.6 in whole bytes: packets of 1514 B against 378 B; a round is 1 packet of one and 4 of the other, and the
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
    fn nobody_stays_new_by_sending_little() {
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
        let mut queues = queues(&FqCoDel { limit: 100, ..PLAN });
        push(&mut queues, (0..20).map(|number| parcel(1, number, 1000)));
        let shed = push(&mut queues, (100..181).map(|number| parcel(2, number, 1000)));
        assert_eq!(shed, (100..141).collect::<Vec<_>>(), "40.5 of 81");
        assert_eq!((queues.packets(), queues.bytes()), (60, 60_000));
        let mut many = FairQueues::new(&FqCoDel { limit: 500, ..PLAN }, "test", 1);
        assert_eq!(push(&mut many, (0..501).map(|number| parcel(1, number, 1000))).len(), 64);
        let mut fat = FairQueues::new(&FqCoDel { memory: 9999, ..PLAN }, "test", 1);
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
        // At 100 ms (the first packet is late at once), then 200, 270.7, 328.4, 378.4: TV-1.5.
        assert_eq!((marks, shed.len()), ([5, 0], 0));
    }

    /// Flows share queues in another way with another seed, and few do among many queues.
    #[test]
    fn hashes_spread() {
        let used = |seed| {
            let mut queues = FairQueues::new(&PLAN, "test", seed);
            push(&mut queues, (0..100).map(|flow| parcel(flow, 0, 100)));
            (queues.flows.len(), (0..100).map(|flow| queues.queue_of(flow)).collect::<Vec<_>>())
        };
        let ((first, chosen), (second, others)) = (used(1), used(7));
        // 100 of 1024: 95.3 are expected to be used.
        assert!((88..=100).contains(&first) && (88..=100).contains(&second), "{first} and {second}");
        assert!(first < 100 || second < 100 || chosen == others);
    }
}
