//! Queues by flow that take turns, each under a control of its own (RFC 8290): the scheduler of FQ-CoDel and FQ-PIE.
//!
//! A hash of the flow chooses one of many queues. Those that have just become active are served first, once each;
//! the others share the link by deficit round robin, in bytes. So a flow that sends little does not wait, and one
//! that sends much waits for itself. Section numbers in the comments are those of RFC 8290.

use lasthop_core::random::Stream;
use lasthop_core::time::Time;

use super::{KnownFlows, Parcel, Served, Service, Shed, Verdict};

/// How queues are told apart and take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Number of queues that flows are hashed to.
    pub queues: u32,
    /// Bytes that a queue may send in a round.
    pub quantum: u32,
    /// Most packets that wait in all queues together.
    pub limit: u64,
    /// Maximum number of bytes in all queues together.
    pub memory: u64,
}

/// What controls the queue of one flow, and what happens when all of them together are full.
pub(crate) trait Control: Service + Sized {
    /// Its parameters, those of the scheduler among them.
    type Plan: Copy;

    fn turns(plan: &Self::Plan) -> &Turns;

    /// An empty queue, the `number`-th of the direction called `name`; with `seed` they key its random stream.
    fn empty(plan: &Self::Plan, name: &str, seed: u64, number: u32) -> Self;

    /// What becomes of a packet that arrives while there is no room. [`Verdict::Admit`]: it is taken, and
    /// [`Control::shorten`] makes room.
    fn at_limit() -> Verdict;

    /// Throws packets of the longest queue away.
    fn shorten(&mut self, shed: &mut Vec<Shed>);
}

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
pub(super) struct Flow<C> {
    queue: C,
    /// Bytes that it may still send in this round.
    credit: i64,
    state: State,
    /// The next queue in its list.
    next: u32,
}

/// No queue.
const NONE: u32 = u32::MAX;

/// Queues in the order of their service, linked by [`Flow::next`].
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: List = List { first: NONE, last: NONE };

    fn append<C>(&mut self, flows: &mut [Flow<C>], index: u32) {
        flows[index as usize].next = NONE;
        if self.first == NONE {
            self.first = index;
        } else {
            flows[self.last as usize].next = index;
        }
        self.last = index;
    }

    fn take_first<C>(&mut self, flows: &[Flow<C>]) {
        self.first = flows[self.first as usize].next;
    }
}

/// The scheduler at work.
#[derive(Clone, Debug)]
pub(crate) struct FairQueues<C: Control> {
    plan: C::Plan,
    /// What the random streams of queues are named after, and the seed.
    name: Box<str>,
    seed: u64,
    /// Makes flows share a queue in another way in every run.
    salt: u64,
    known: KnownFlows,
    /// For each hash the index of its queue; [`NONE`] until a packet has come.
    by_hash: Box<[u32]>,
    pub(super) flows: Vec<Flow<C>>,
    new: List,
    old: List,
    packets: u64,
    bytes: u64,
}

impl<C: Control> FairQueues<C> {
    pub(super) fn new(plan: &C::Plan, name: &str, seed: u64) -> FairQueues<C> {
        FairQueues {
            plan: *plan,
            name: name.into(),
            seed,
            salt: Stream::new(seed, &format!("hash of {name}")).below(u64::MAX),
            known: KnownFlows::default(),
            by_hash: vec![NONE; C::turns(plan).queues as usize].into(),
            flows: Vec::new(),
            new: List::EMPTY,
            old: List::EMPTY,
            packets: 0,
            bytes: 0,
        }
    }

    /// Flows are known by their names from now on.
    pub(super) fn know_flows(&mut self, known: &KnownFlows) {
        self.known = known.clone();
    }

    /// The same, to be changed.
    pub(super) fn known(&mut self) -> &mut KnownFlows {
        &mut self.known
    }

    /// The queue of a flow. A flow stands for addresses, ports and protocol (§4.1.1).
    pub(super) fn queue_of(&mut self, flow: u32) -> u32 {
        let name = self.known.name(flow);
        let hash = (mix(u64::from(name) ^ self.salt) % self.by_hash.len() as u64) as u32;
        let slot = &mut self.by_hash[hash as usize];
        if *slot == NONE {
            *slot = self.flows.len() as u32;
            let queue = C::empty(&self.plan, &self.name, self.seed, hash);
            self.flows.push(Flow { queue, credit: 0, state: State::Idle, next: NONE });
        }
        *slot
    }

    /// A packet has left, one way or another.
    fn count_out(&mut self, bytes: u16) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
    }

    /// Makes room in the longest queue.
    #[cold]
    fn make_room(&mut self, shed: &mut Vec<Shed>) {
        let longest = self.flows.iter_mut().max_by_key(|flow| flow.queue.bytes());
        let Some(Flow { queue, .. }) = longest else { return };
        let before = shed.len();
        queue.shorten(shed);
        for Shed { parcel, .. } in &shed[before..] {
            self.packets -= 1;
            self.bytes -= u64::from(parcel.bytes);
        }
    }
}

impl<C: Control> Service for FairQueues<C> {
    fn push(&mut self, parcel: Parcel, shed: &mut Vec<Shed>) -> Verdict {
        let &Turns { quantum, limit, memory, .. } = C::turns(&self.plan);
        let bytes = u64::from(parcel.bytes);
        let is_full = self.packets + 1 > limit || self.bytes + bytes > memory;
        if is_full && let refused @ Verdict::Refuse(_) = C::at_limit() {
            return refused;
        }
        let index = self.queue_of(parcel.flow);
        let flow = &mut self.flows[index as usize];
        let verdict = flow.queue.push(parcel, shed);
        if let Verdict::Refuse(_) = verdict {
            return verdict;
        }
        if flow.state == State::Idle {
            flow.state = State::New;
            flow.credit = quantum.into();
            self.new.append(&mut self.flows, index);
        }
        self.packets += 1;
        self.bytes += bytes;
        if is_full {
            self.make_room(shed);
        }
        verdict
    }

    /// §4.2.
    fn pop(&mut self, now: Time, shed: &mut Vec<Shed>) -> Option<Served> {
        loop {
            let from_new = self.new.first != NONE;
            let list = if from_new { &mut self.new } else { &mut self.old };
            let index = list.first;
            if index == NONE {
                return None;
            }
            let flow = &mut self.flows[index as usize];
            if flow.credit <= 0 {
                flow.credit += i64::from(C::turns(&self.plan).quantum);
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
            if from_new && self.old.first != NONE {
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
pub(super) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
