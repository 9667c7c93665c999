//! CAKE: a shaper, classes, hosts and flows that share alike, and COBALT on every flow, in one queue
//! (Høiland-Jørgensen, Täht and Morton 2018, arXiv 1804.07617; constants and details as in Linux' `sch_cake`).
//!
//! A virtual clock says when the next packet may go, so that the queue stands here and not in what follows. The code
//! point of a packet chooses a tin, its flow a queue in it: one of 1024, in sets of eight, so that few flows share one.
//! Queues take turns by deficit round robin, those first that send little, and a queue has the less of a round the
//! more queues of its host are busy.
//!
//! *Differs from Linux:* hosts are told apart exactly; fractions of a quantum are kept, not rounded by lot; every
//! packet takes the memory of a datagram of Linux' own, whatever brought it; an ACK that carries SACK blocks is never
//! filtered. There is no ingress mode and no measured bandwidth. A queue of Linux that has never signalled takes its
//! first interval for zero; here it is an interval.

use lasthop_core::packet::{Cause, Kind, NONE as NOTHING, Packet, PacketArena, flag};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use super::cobalt::{Bounds, Cobalt, Signal};
use super::fair::mix;
use super::fifo::Fifo;
use super::{FlowHeader, KnownFlows, Parcel, Served, Service, Shed, Verdict};

/// Parameters of CAKE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cake {
    /// What the shaper lets through; `None` leaves that to the link.
    pub bandwidth: Option<Rate>,
    /// Bytes that the shaper counts beside each packet.
    pub overhead: u32,
    /// It counts no packet, with those, for less than this many bytes.
    pub least: u32,
    /// What the line beyond makes of them.
    pub framing: Framing,
    /// Who shares alike.
    pub isolation: Isolation,
    /// Classes of code points.
    pub tins: Tins,
    /// RTT for which it is set: CoDel's interval, of which a twentieth is its target.
    pub rtt: Span,
    /// Maximum number of bytes that all queues together take in memory.
    pub memory: u64,
    /// Which ACKs a newer one replaces.
    pub ack_filter: AckFiltering,
    /// Largest packet of the link.
    pub mtu: u32,
}

impl Cake {
    /// What memory holds if nothing is said: four times bandwidth and RTT, but 4 MiB at least and 10,240 packets of
    /// full size at most, which is all that an unlimited one goes by.
    pub fn usual_memory(bandwidth: Option<Rate>, rtt: Span, mtu: u32) -> u64 {
        let most = 10_240 * u64::from(mtu);
        let Some(Rate(bits)) = bandwidth else { return most };
        let wanted = u128::from(bits / 8) * u128::from(rtt.0) * 4 / 1_000_000_000;
        u64::try_from(wanted).unwrap_or(u64::MAX).max(4 << 20).min(most)
    }
}

/// Bytes that a packet takes in the memory of Linux: its description, and a power of two that holds the packet with
/// room before it and an account of its parts behind it. Measured for datagrams of 40 to 1500 bytes that Linux 6.1
/// sends itself (x86-64); what a network card has received takes what its driver says.
fn in_memory(bytes: u16) -> u64 {
    const DESCRIPTION: u64 = 256;
    const AROUND: u64 = 351;
    DESCRIPTION + (u64::from(bytes) + AROUND).next_power_of_two()
}

/// How a line beyond the shaper wraps packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// It adds nothing.
    None,
    /// In cells of 53 bytes that carry 48, the last one filled up (ATM: ADSL).
    Atm,
    /// With a byte for every 64 that have begun (PTM: VDSL2).
    Ptm,
}

/// Who shares alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// One queue for all.
    None,
    /// Flows.
    Flows,
    /// Hosts from which packets come, and the flows of each.
    Sources,
    /// Hosts to which they go, and the flows of each.
    Sinks,
    /// Both: a queue goes by the busier one of its hosts.
    Triple,
}

/// Classes of code points, and what each is sure of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tins {
    /// One for all.
    BestEffort,
    /// Best effort, bulk, voice.
    Three,
    /// Best effort, bulk, video, voice.
    Four,
}

impl Tins {
    /// The tin of a code point.
    #[inline]
    fn of(self, dscp: u8) -> usize {
        match self {
            Tins::BestEffort => 0,
            // VA, EF, CS6, CS7, and the old bit for low delay.
            Tins::Three if matches!(dscp, 4 | 44 | 46 | 48 | 56) => 2,
            // CS4, CS5, and the same without that bit.
            Tins::Four if matches!(dscp, 32 | 40 | 44 | 46 | 48 | 56) => 3,
            // CS2, CS3, AF2x, AF3x, AF4x, and that bit.
            Tins::Four if matches!(dscp, 4 | 16..=38) && dscp.is_multiple_of(2) => 2,
            // LE and CS1.
            _ => usize::from(matches!(dscp, 1 | 8)),
        }
    }

    /// For each tin how often its share of the bandwidth has been halved.
    fn halvings(self) -> &'static [u32] {
        match self {
            Tins::BestEffort => &[0],
            Tins::Three => &[0, 4, 2],
            Tins::Four => &[0, 4, 1, 2],
        }
    }
}

/// Which ACKs that wait a newer one replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckFiltering {
    /// None.
    Off,
    /// The first of three.
    Conservative,
    /// The first of three, or the last one.
    Aggressive,
}

/// No queue.
const NONE: u32 = u32::MAX;
/// Queues of a tin.
const SLOTS: usize = 1024;
/// Queues among which a flow finds its own.
const WAYS: usize = 8;
/// Credit is counted in parts of a byte, so that a share of a quantum has no rest.
const PARTS: i64 = 1 << 16;
/// Bytes of a round of tins: of the first of several, and of a single one.
const ROUND: i64 = 1024;
const ALONE: i64 = 65_535;

/// Where a queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In no list: free for another flow.
    Idle,
    /// Among those that send little.
    Sparse,
    /// Among the busy ones to pay back, but it was empty when it got there.
    Paying,
    /// Among the busy ones.
    Bulk,
    /// Empty, until what its COBALT knows has faded.
    Decaying,
}

/// The queue of a flow.
#[derive(Clone, Debug)]
struct Queue {
    fifo: Fifo,
    cobalt: Cobalt,
    /// What it may still send in this round, in parts of a byte.
    credit: i64,
    /// Whose it is.
    tag: u64,
    /// Its hosts, as nodes.
    ends: (u32, u32),
    tin: u8,
    state: State,
    /// Its neighbours in the list.
    previous: u32,
    next: u32,
}

/// Queues in the order of service.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: List = List { first: NONE, last: NONE };

    fn append(&mut self, queues: &mut [Queue], index: u32) {
        let queue = &mut queues[index as usize];
        (queue.previous, queue.next) = (self.last, NONE);
        match self.last {
            NONE => self.first = index,
            last => queues[last as usize].next = index,
        }
        self.last = index;
    }

    fn remove(&mut self, queues: &mut [Queue], index: u32) {
        let Queue { previous, next, .. } = queues[index as usize];
        match previous {
            NONE => self.first = next,
            previous => queues[previous as usize].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => queues[next as usize].previous = previous,
        }
    }
}

/// Busy queues of a node, as source and as sink of packets.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    from: u32,
    to: u32,
}

/// A class.
#[derive(Clone, Debug)]
struct Tin {
    /// The queue of each slot; [`NONE`] until a packet has come.
    slots: Box<[u32]>,
    /// Its share of the bandwidth.
    rate: Option<Rate>,
    /// What a queue may send in a round, if it is the only one of its hosts.
    quantum: i64,
    bounds: Bounds,
    /// By node.
    busy: Vec<Busy>,
    /// Queues whose turn comes, without those that decay.
    active: u32,
    new: List,
    old: List,
    decaying: List,
    packets: u64,
    /// It has had its share until then.
    next: Time,
    /// What the tin may send in a round of tins, without a bandwidth, and what it still may.
    weight: i64,
    credit: i64,
}

impl Tin {
    fn new(plan: &Cake, halvings: u32) -> Tin {
        let rate = plan.bandwidth.map(|Rate(bits)| Rate((bits >> halvings).max(1)));
        let target = Span(plan.rtt.0 / 20);
        let packet = rate.map_or(Span::ZERO, |rate| rate.serialisation(plan.mtu.into()));
        // Where a packet takes long, the target is one and a half of it, and the interval grows as much.
        let wide = target.max(Span(packet.0.saturating_mul(3) / 2));
        Tin {
            slots: vec![NONE; SLOTS].into(),
            rate,
            quantum: rate.map_or(1514, |Rate(bits)| (bits as i64 / 8 / 4096).clamp(300, 1514)),
            bounds: Bounds {
                target: wide,
                interval: (plan.rtt + (wide - target)).max(wide * 2),
                grace: packet * 4,
            },
            busy: Vec::new(),
            active: 0,
            new: List::EMPTY,
            old: List::EMPTY,
            decaying: List::EMPTY,
            packets: 0,
            next: Time::ZERO,
            weight: if plan.tins == Tins::BestEffort { ALONE } else { ROUND >> halvings },
            credit: 0,
        }
    }

    /// The list of queues in this state, which is none if it is idle.
    fn list(&mut self, state: State) -> &mut List {
        match state {
            State::Sparse => &mut self.new,
            State::Paying | State::Bulk => &mut self.old,
            State::Idle | State::Decaying => &mut self.decaying,
        }
    }

    /// Counts a busy queue with these ends in, or out.
    fn count_busy(&mut self, (from, to): (u32, u32), more: bool) {
        let most = from.max(to) as usize;
        if self.busy.len() <= most {
            self.busy.resize(most + 1, Busy::default());
        }
        let step = |count: u32| if more { count + 1 } else { count - 1 };
        self.busy[from as usize].from = step(self.busy[from as usize].from);
        self.busy[to as usize].to = step(self.busy[to as usize].to);
    }
}

/// CAKE at work.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    plan: Cake,
    /// Makes flows share a queue in another way in every run.
    salt: u64,
    dice: Stream,
    known: KnownFlows,
    tins: Vec<Tin>,
    /// Those that have been used, of all tins.
    used: Vec<Queue>,
    packets: u64,
    bytes: u64,
    /// What these packets take in memory.
    memory: u64,
    /// The shaper lets the next packet go then; and what of its time is not a whole nanosecond.
    next: Time,
    rest: u64,
    /// The tin whose turn it is, without a bandwidth.
    current: usize,
}

impl Queues {
    pub(super) fn new(plan: &Cake, name: &str, seed: u64) -> Queues {
        Queues {
            plan: *plan,
            salt: Stream::new(seed, &format!("hash of {name}")).below(u64::MAX),
            dice: Stream::new(seed, &format!("queue of {name}")),
            known: KnownFlows::default(),
            tins: plan.tins.halvings().iter().map(|&halvings| Tin::new(plan, halvings)).collect(),
            used: Vec::new(),
            packets: 0,
            bytes: 0,
            memory: 0,
            next: Time::ZERO,
            rest: 0,
            current: 0,
        }
    }

    /// What its packets say of a flow, from now on.
    pub(super) fn know_flows(&mut self, known: &KnownFlows) {
        self.known = known.clone();
    }

    /// The same, to be changed.
    pub(super) fn known(&mut self) -> &mut KnownFlows {
        &mut self.known
    }

    /// When the shaper lets the next packet go.
    #[inline]
    pub(super) fn ready(&self) -> Time {
        if self.plan.bandwidth.is_some() && self.packets > 0 { self.next } else { Time::ZERO }
    }

    /// Takes a packet. `packets` holds its header and those of the others.
    pub(super) fn arrive(&mut self, parcel: Parcel, packets: &PacketArena, shed: &mut Vec<Shed>) -> Verdict {
        let index = self.take(parcel, packets.get(parcel.packet).note.back);
        if self.plan.ack_filter != AckFiltering::Off
            && let Some(place) = self.replaced(index, packets)
            && let Some(parcel) = self.used[index as usize].fifo.take(place)
        {
            self.count_out(index, parcel.bytes);
            shed.push(Shed { parcel, cause: Cause::Withheld });
        }
        while self.memory > self.plan.memory {
            self.make_room(parcel.since, shed);
        }
        Verdict::Admit
    }

    /// Puts a packet on its way back or forth into its queue.
    fn take(&mut self, parcel: Parcel, back: bool) -> u32 {
        let FlowHeader { source, sink, dscp } = self.known.header(parcel.flow);
        let number = self.plan.tins.of(dscp);
        let ends = if back { (sink, source) } else { (source, sink) };
        let index = self.queue_of(number, self.known.name(parcel.flow), ends);
        if self.packets == 0 && self.next < parcel.since {
            (self.next, self.rest) = (parcel.since, 0);
        }
        self.packets += 1;
        self.bytes += u64::from(parcel.bytes);
        self.memory += in_memory(parcel.bytes);
        let (tin, queue) = (&mut self.tins[number], &mut self.used[index as usize]);
        // What a tin did not use while it had nothing to send is lost.
        if tin.packets == 0 {
            tin.next = tin.next.max(parcel.since);
        }
        tin.packets += 1;
        queue.fifo.push(parcel, &mut Vec::new());
        match queue.state {
            State::Idle | State::Decaying => {
                tin.active += 1;
                if queue.state == State::Decaying {
                    tin.decaying.remove(&mut self.used, index);
                }
                self.enter(index, State::Sparse);
                self.used[index as usize].credit = self.share(index);
            }
            State::Paying => {
                queue.state = State::Bulk;
                tin.count_busy(queue.ends, true);
            }
            State::Sparse | State::Bulk => {}
        }
        index
    }

    /// The queue of a flow in a tin.
    #[inline]
    fn queue_of(&mut self, number: usize, name: u32, ends: (u32, u32)) -> u32 {
        let tag = if self.plan.isolation == Isolation::None {
            0
        } else {
            mix((u64::from(name) | (number as u64) << 32) ^ self.salt)
        };
        let slot = (tag % SLOTS as u64) as usize;
        let direct = self.tins[number].slots[slot];
        match self.used.get(direct as usize) {
            Some(queue) if queue.tag == tag && queue.state != State::Idle => direct,
            _ => self.find_queue(number, (slot, tag), ends),
        }
    }

    /// The queue of a flow that does not have the one of its hash already.
    fn find_queue(&mut self, number: usize, (slot, tag): (usize, u64), ends: (u32, u32)) -> u32 {
        let (set, way) = (slot - slot % WAYS, slot % WAYS);
        let slots = (0..WAYS).map(|step| set + (way + step) % WAYS);
        let at = |slot: usize| self.used.get(self.tins[number].slots[slot] as usize);
        let own = slots.clone().find(|&slot| at(slot).is_some_and(|queue| queue.tag == tag));
        let free = || slots.clone().find(|&slot| at(slot).is_none_or(|queue| queue.state == State::Idle));
        // Where all eight are taken, two flows share the queue.
        let slot = own.or_else(free).unwrap_or(slot);
        let tin = &mut self.tins[number];
        let index = tin.slots[slot];
        if index == NONE {
            let index = self.used.len() as u32;
            tin.slots[slot] = index;
            self.used.push(Queue {
                fifo: Fifo::default(),
                cobalt: Cobalt::default(),
                credit: 0,
                tag,
                ends,
                tin: number as u8,
                state: State::Idle,
                previous: NONE,
                next: NONE,
            });
            return index;
        }
        let queue = &mut self.used[index as usize];
        queue.tag = tag;
        let old = std::mem::replace(&mut queue.ends, ends);
        if queue.state == State::Bulk && old != ends {
            tin.count_busy(old, false);
            tin.count_busy(ends, true);
        }
        index
    }

    /// Enters a queue at the end of the list of this state.
    fn enter(&mut self, index: u32, state: State) {
        let queue = &mut self.used[index as usize];
        queue.state = state;
        self.tins[usize::from(queue.tin)].list(state).append(&mut self.used, index);
    }

    /// What a queue may send in a round: a quantum, divided among the busy queues of its host.
    fn share(&self, index: u32) -> i64 {
        let Queue { tin, ends: (from, to), .. } = self.used[index as usize];
        let tin = &self.tins[usize::from(tin)];
        let at = |node: u32| tin.busy.get(node as usize).copied().unwrap_or_default();
        let queues = match self.plan.isolation {
            Isolation::None | Isolation::Flows => 1,
            Isolation::Sources => at(from).from,
            Isolation::Sinks => at(to).to,
            Isolation::Triple => at(from).from.max(at(to).to),
        };
        tin.quantum * PARTS / i64::from(queues.max(1))
    }

    /// A packet has left its queue, one way or another.
    fn count_out(&mut self, index: u32, bytes: u16) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
        self.memory -= in_memory(bytes);
        self.tins[usize::from(self.used[index as usize].tin)].packets -= 1;
    }

    /// Throws the first packet of the longest queue away.
    #[cold]
    fn make_room(&mut self, now: Time, shed: &mut Vec<Shed>) {
        let longest = (0..self.used.len()).max_by_key(|&index| self.used[index].fifo.bytes());
        let Some(index) = longest else { return };
        let queue = &mut self.used[index];
        let Some(parcel) = queue.fifo.take_first() else { return };
        queue.cobalt.overflow(now, &self.tins[usize::from(queue.tin)].bounds);
        shed.push(Shed { parcel, cause: Cause::QueueOverflow });
        self.count_out(index as u32, parcel.bytes);
    }

    /// The place in its queue of an ACK that the newest packet there replaces.
    fn replaced(&self, index: u32, packets: &PacketArena) -> Option<usize> {
        let waiting = &self.used[index as usize].fifo;
        let before = waiting.iter().len().checked_sub(1).filter(|&before| before > 0)?;
        let new = waiting.iter().next_back()?;
        let newest = packets.get(new.packet);
        if newest.kind != Kind::Ack || newest.is_forward() {
            return None;
        }
        let mut first: Option<(usize, u8)> = None;
        for (place, parcel) in waiting.iter().take(before).enumerate() {
            if parcel.flow != new.flow {
                continue;
            }
            let old = packets.get(parcel.packet);
            // The last ACK with other marks than the next one tells of them alone.
            first = first.filter(|&(_, marks)| marks == old.flags & flag::ACE);
            if !is_superfluous(old, newest) {
                continue;
            }
            if let Some((place, _)) = first {
                return Some(place);
            }
            first = Some((place, old.flags & flag::ACE));
        }
        let (place, marks) = first?;
        let is_last = place + 1 == before && marks == newest.flags & flag::ACE;
        (self.plan.ack_filter == AckFiltering::Aggressive && is_last).then_some(place)
    }

    /// The tin to be served at `now`, one with a queue whose turn comes.
    #[inline]
    fn choose_tin(&mut self, now: Time) -> usize {
        if self.tins.len() == 1 {
            return 0;
        }
        if self.plan.bandwidth.is_some() {
            // The last of those that have not had their share, else the one that had it first.
            let waiting = || (0..self.tins.len()).filter(|&number| self.tins[number].active > 0);
            let due = waiting().rfind(|&number| self.tins[number].next <= now);
            let first = || waiting().rev().min_by_key(|&number| self.tins[number].next);
            return due.or_else(first).unwrap_or(0);
        }
        loop {
            let tin = &mut self.tins[self.current];
            if tin.active > 0 && tin.credit >= 0 {
                return self.current;
            }
            if tin.credit <= 0 {
                tin.credit += tin.weight;
            }
            self.current = (self.current + 1) % self.tins.len();
        }
    }

    /// Bytes that a packet takes behind the shaper.
    #[inline]
    fn on_the_line(&self, bytes: u16) -> u64 {
        let bytes = u64::from((u32::from(bytes) + self.plan.overhead).max(self.plan.least));
        match self.plan.framing {
            Framing::None => bytes,
            Framing::Atm => bytes.div_ceil(48) * 53,
            Framing::Ptm => bytes + bytes.div_ceil(64),
        }
    }

    /// A packet of the queue goes at `now`: the shaper, the tin and the queue pay for it.
    #[inline]
    fn pay(&mut self, index: u32, bytes: u16, now: Time) {
        let line = self.on_the_line(bytes);
        let queue = &mut self.used[index as usize];
        queue.credit -= line as i64 * PARTS;
        let tin = &mut self.tins[usize::from(queue.tin)];
        tin.credit -= line as i64;
        let (Some(Rate(all)), Some(share)) = (self.plan.bandwidth, tin.rate) else { return };
        let span = share.serialisation(line);
        if tin.next < now {
            tin.next += span;
        } else {
            tin.next = tin.next.max(now + span);
        }
        let bits = line * 8 * 1_000_000_000 + self.rest;
        self.next += Span(bits / all);
        self.rest = bits % all;
    }

    /// Serves a tin: a packet, or `None` if the queue whose turn it is turns out to be empty. `first`: nothing has been
    /// looked at before, so that what decays is looked at once.
    #[inline]
    fn serve(&mut self, number: usize, now: Time, first: bool, shed: &mut Vec<Shed>) -> Option<Served> {
        let tin = &self.tins[number];
        let mut index = if first { tin.decaying.first } else { NONE };
        loop {
            if index == NONE {
                let tin = &self.tins[number];
                index = if tin.new.first == NONE { tin.old.first } else { tin.new.first };
                if index == NONE {
                    return None;
                }
            }
            let queue = &mut self.used[index as usize];
            if queue.credit > 0 {
                return self.serve_queue(index, now, shed);
            }
            let (before, ends, is_empty) = (queue.state, queue.ends, queue.fifo.packets() == 0);
            let tin = &mut self.tins[number];
            tin.list(before).remove(&mut self.used, index);
            let state = match before {
                State::Sparse if is_empty => State::Paying,
                State::Sparse => {
                    tin.count_busy(ends, true);
                    State::Bulk
                }
                state => state,
            };
            self.enter(index, state);
            let share = self.share(index);
            self.used[index as usize].credit += share;
            index = NONE;
        }
    }

    /// The next packet of a queue whose turn it is.
    #[inline]
    fn serve_queue(&mut self, index: u32, now: Time, shed: &mut Vec<Shed>) -> Option<Served> {
        loop {
            let queue = &mut self.used[index as usize];
            let bounds = &self.tins[usize::from(queue.tin)].bounds;
            let Some(parcel) = queue.fifo.take_first() else {
                queue.cobalt.empty(now, bounds);
                self.retire(index, now);
                return None;
            };
            let packet = (now, now.since(parcel.since));
            let signal = queue.cobalt.judge(packet, parcel.ecn.can_be_marked(), bounds, &mut self.dice);
            // The last packet of a queue may be marked, but is never dropped.
            let is_last = queue.fifo.packets() == 0;
            self.count_out(index, parcel.bytes);
            if signal != Signal::Drop || is_last {
                self.pay(index, parcel.bytes, now);
                return Some(Served { parcel, marked: signal == Signal::Mark });
            }
            shed.push(Shed { parcel, cause: Cause::EarlyDrop });
        }
    }

    /// An empty queue leaves the turns, at once if its COBALT is at rest.
    fn retire(&mut self, index: u32, now: Time) {
        let queue = &mut self.used[index as usize];
        let (before, ends) = (queue.state, queue.ends);
        let rests = queue.cobalt.is_at_rest(now);
        let tin = &mut self.tins[usize::from(queue.tin)];
        if before == State::Bulk {
            tin.count_busy(ends, false);
        }
        if before != State::Decaying {
            tin.active -= 1;
        }
        tin.list(before).remove(&mut self.used, index);
        if rests {
            self.used[index as usize].state = State::Idle;
        } else {
            self.enter(index, State::Decaying);
        }
    }
}

impl Service for Queues {
    /// Without its header it is a packet on its way forth, and no ACK; `Waiting` calls [`Queues::arrive`].
    fn push(&mut self, parcel: Parcel, shed: &mut Vec<Shed>) -> Verdict {
        self.take(parcel, false);
        while self.memory > self.plan.memory {
            self.make_room(parcel.since, shed);
        }
        Verdict::Admit
    }

    fn pop(&mut self, now: Time, shed: &mut Vec<Shed>) -> Option<Served> {
        let mut first = true;
        while self.packets > 0 {
            let number = self.choose_tin(now);
            if let Some(served) = self.serve(number, now, first, shed) {
                return Some(served);
            }
            first = false;
        }
        None
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

/// Whether `new` says all that `old` does: a pure ACK of less, without anything else in it.
fn is_superfluous(old: &Packet, new: &Packet) -> bool {
    old.kind == Kind::Ack
        && !old.is_forward()
        && old.payload == 0
        && old.extra == NOTHING
        && !old.has(flag::ELN)
        && old.seq < new.seq
        && old.stamp <= new.stamp
        && old.echo <= new.echo
}

#[cfg(test)]
mod tests;
