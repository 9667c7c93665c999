//! Queues, as one concept: who is admitted, who is marked, who is served next, and what is counted of it.
//!
//! Two decisions are kept apart, because they cost different things:
//!
//! - **At arrival** a `Gate` admits, marks or refuses a packet by what it finds: the limit of the queue (drop-tail)
//!   and one `Rule`. It needs no event, so a plain link decides with it ahead of the clock (`Departures` is its
//!   queue), and links with retransmission and stored queues ask it too.
//! - **At departure** a [`Discipline`] chooses the next packet and may throw others away or mark them. It holds the
//!   packets itself and follows the clock: `device/queued.rs` runs it on a link, `device/arq.rs` under retransmission.
//!
//! To add a queue: write `queue/<name>.rs` with one of the two traits, add its line to `rules!` or `disciplines!`, and
//! its keys to the scenario (`lasthop-sim/src/scenario/queue/<name>.rs`).

mod cake;
mod cobalt;
mod codel;
mod departures;
pub(crate) mod dual_pi2;
mod fair;
mod fifo;
mod fq_codel;
mod fq_pie;
mod pie;
mod red;
mod threshold;

use std::sync::Arc;

use lasthop_core::packet::{Cause, PacketArena, flag};
use lasthop_core::time::Time;

use crate::measure::Window;
pub use cake::{AckFiltering, Framing, Isolation, Tins};
pub use codel::CeThreshold;
pub(crate) use departures::Departures;
pub use fair::Turns;
pub use red::{Adaptive, Automatic, RedLimit};

/// The queue of one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuePlan {
    /// Most that it holds.
    pub limit: QueueLimit,
    /// What else happens to arriving packets.
    pub rule: RulePlan,
    /// Who is served next.
    pub discipline: Discipline,
}

impl Default for QueuePlan {
    /// First in, first out, without a limit.
    fn default() -> Self {
        QueuePlan { limit: QueueLimit::Unlimited, rule: RulePlan::None, discipline: Discipline::Fifo }
    }
}

impl QueuePlan {
    /// Drop-tail with room for this many packets.
    pub fn packets(limit: u32) -> QueuePlan {
        QueuePlan { limit: QueueLimit::Packets(limit), ..QueuePlan::default() }
    }

    /// Whether everything is decided when a packet arrives.
    pub fn decides_at_arrival(&self) -> bool {
        self.discipline == Discipline::Fifo
    }
}

/// The limit of a queue. It counts the waiting packets **and** the one in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// At most this many packets, at least 1.
    Packets(u32),
    /// At most this many bytes.
    Bytes(u64),
    /// No limit.
    Unlimited,
}

/// What the ECN field of a packet says to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ecn {
    /// It is not ECN-capable.
    Incapable,
    /// ECT(0): it may be marked instead of dropped.
    Capable,
    /// ECT(1), or CE, which may have been that: so may it, and it belongs into a queue that is kept short (RFC 9331).
    Scalable,
}

impl Ecn {
    /// Of a packet with these [`flag`]s.
    #[inline]
    pub(crate) fn of(flags: u8) -> Ecn {
        if flags & flag::ECT == 0 {
            Ecn::Incapable
        } else if flags & (flag::ECT_1 | flag::CE) == 0 {
            Ecn::Capable
        } else {
            Ecn::Scalable
        }
    }

    /// Whether it may be marked instead of dropped.
    #[inline]
    pub(crate) fn can_be_marked(self) -> bool {
        self != Ecn::Incapable
    }
}

/// A packet that waits in a queue or in a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Parcel {
    /// Its slot in the arena.
    pub(crate) packet: u32,
    /// Its place on its path.
    pub(crate) hop: u32,
    /// Its flow.
    pub(crate) flow: u32,
    /// Its size.
    pub(crate) bytes: u16,
    /// What its ECN field says.
    pub(crate) ecn: Ecn,
    /// Whether it is served before all others.
    pub(crate) ahead: bool,
    /// When it arrived here.
    pub(crate) since: Time,
}

/// What the packets of a flow say of it, on its way forth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowHeader {
    /// The node from which they come.
    pub(crate) source: u32,
    /// The node to which they go.
    pub(crate) sink: u32,
    /// Differentiated services code point.
    pub(crate) dscp: u8,
}

/// What disciplines that tell flows apart know of them, by flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownFlows {
    /// The number of each, made of its name: the index of a flow changes with others in the scenario.
    pub(crate) names: Arc<[u32]>,
    /// What its packets say.
    pub(crate) headers: Arc<[FlowHeader]>,
}

impl KnownFlows {
    /// The number made of the name of a flow.
    #[inline]
    fn name(&self, flow: u32) -> u32 {
        self.names.get(flow as usize).copied().unwrap_or(flow)
    }

    /// The number made of its name is another from now on.
    pub(crate) fn rename(&mut self, flow: u32, name: u32) {
        Arc::make_mut(&mut self.names)[flow as usize] = name;
    }

    /// Adds `count` flows whose packets say what those of this one say.
    pub(crate) fn add_like(&mut self, flow: usize, count: usize) {
        let (name, header) = (self.names[flow], self.headers[flow]);
        self.names = self.names.iter().copied().chain(std::iter::repeat_n(name, count)).collect();
        self.headers = self.headers.iter().copied().chain(std::iter::repeat_n(header, count)).collect();
    }

    #[inline]
    fn header(&self, flow: u32) -> FlowHeader {
        self.headers.get(flow as usize).copied().unwrap_or_default()
    }
}

/// An arriving packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Time,
    pub(crate) bytes: u32,
    /// Whether it may be marked instead of dropped.
    pub(crate) ect: bool,
}

/// What an arriving packet finds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Packets, the one in service included.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Packets that wait, without the one in service.
    pub(crate) waiting: u64,
    /// Their bytes.
    pub(crate) waiting_bytes: u64,
    /// If there are none: when the last one left.
    pub(crate) idle_since: Time,
}

/// What becomes of an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Admit,
    Mark,
    Refuse(Cause),
}

/// Decides about a packet when it arrives.
pub(crate) trait Rule {
    /// What becomes of a packet that the limit of the queue has room for. Calls come in the order of arrival.
    fn judge(&mut self, arrival: &Arrival, found: &Found) -> Verdict;
}

/// Makes the enums of rules: `Name(plan) => state`.
macro_rules! rules {
    ($($name:ident($module:ident::$plan:ident) => $state:ty),* $(,)?) => {
        $(pub use $module::$plan;)*

        /// What else than its limit decides about packets that arrive at a queue.
        #[derive(Clone, Debug, PartialEq)]
        pub enum RulePlan {
            /// Nothing.
            None,
            $(
                #[doc = concat!("See [`", stringify!($plan), "`].")]
                $name($plan),
            )*
        }

        #[derive(Clone, Debug)]
        enum AnyRule {
            None,
            $($name(Box<$state>),)*
        }

        impl AnyRule {
            /// The rule of a direction called `name`, which with `seed` keys its random stream, if it has one.
            fn new(plan: &RulePlan, name: &str, seed: u64) -> AnyRule {
                match plan {
                    RulePlan::None => AnyRule::None,
                    $(RulePlan::$name(plan) => AnyRule::$name(Box::new(<$state>::new(plan, name, seed))),)*
                }
            }

            fn judge(&mut self, arrival: &Arrival, found: &Found) -> Verdict {
                match self {
                    AnyRule::None => Verdict::Admit,
                    $(AnyRule::$name(rule) => rule.judge(arrival, found),)*
                }
            }
        }
    };
}

rules! {
    Threshold(threshold::MarkThreshold) => threshold::Threshold,
    Red(red::Red) => red::Early,
}

/// Holds packets and decides who leaves next.
pub(crate) trait Service {
    /// Takes a packet that was admitted, marks it or refuses it after all. Whom it throws away instead goes to `shed`.
    fn push(&mut self, parcel: Parcel, shed: &mut Vec<Shed>) -> Verdict;

    /// The packet to be transmitted at `now`. What the discipline throws away on the way goes to `shed`.
    fn pop(&mut self, now: Time, shed: &mut Vec<Shed>) -> Option<Served>;

    /// Packets that wait.
    fn packets(&self) -> u64;

    /// Their bytes.
    fn bytes(&self) -> u64;
}

/// A packet that leaves its queue for the transmitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) parcel: Parcel,
    /// It is marked now.
    pub(crate) marked: bool,
}

/// A packet that its queue throws away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shed {
    pub(crate) parcel: Parcel,
    pub(crate) cause: Cause,
}

/// Makes the enums of disciplines: `Name(plan) => state`.
macro_rules! disciplines {
    ($($name:ident($module:ident::$plan:ident) => $state:ty),* $(,)?) => {
        $(pub use $module::$plan;)*

        /// Who is served next, and what happens to the others meanwhile.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Discipline {
            /// First come, first served.
            Fifo,
            $(
                #[doc = concat!("See [`", stringify!($plan), "`].")]
                $name($plan),
            )*
        }

        /// Packets that wait, in the order of some discipline.
        #[derive(Clone, Debug)]
        enum Ordered {
            Fifo(fifo::Fifo),
            $($name(Box<$state>),)*
        }

        impl Ordered {
            /// Empty, in a direction called `name`, which with `seed` keys the random stream, if it has one.
            fn new(plan: &Discipline, name: &str, seed: u64) -> Ordered {
                match plan {
                    Discipline::Fifo => Ordered::Fifo(fifo::Fifo::default()),
                    $(Discipline::$name(plan) => Ordered::$name(Box::new(<$state>::new(plan, name, seed))),)*
                }
            }
        }

        impl Service for Ordered {
            #[inline]
            fn push(&mut self, parcel: Parcel, shed: &mut Vec<Shed>) -> Verdict {
                match self {
                    Ordered::Fifo(service) => service.push(parcel, shed),
                    $(Ordered::$name(service) => service.push(parcel, shed),)*
                }
            }

            #[inline]
            fn pop(&mut self, now: Time, shed: &mut Vec<Shed>) -> Option<Served> {
                match self {
                    Ordered::Fifo(service) => service.pop(now, shed),
                    $(Ordered::$name(service) => service.pop(now, shed),)*
                }
            }

            #[inline]
            fn packets(&self) -> u64 {
                match self {
                    Ordered::Fifo(service) => service.packets(),
                    $(Ordered::$name(service) => service.packets(),)*
                }
            }

            #[inline]
            fn bytes(&self) -> u64 {
                match self {
                    Ordered::Fifo(service) => service.bytes(),
                    $(Ordered::$name(service) => service.bytes(),)*
                }
            }
        }
    };
}

disciplines! {
    CoDel(codel::CoDel) => codel::Controlled,
    FqCoDel(fq_codel::FqCoDel) => fair::FairQueues<codel::Controlled>,
    FqPie(fq_pie::FqPie) => fair::FairQueues<pie::Controlled>,
    Pie(pie::Pie) => pie::Controlled,
    DualPi2(dual_pi2::DualPi2) => dual_pi2::Coupled,
    Cake(cake::Cake) => cake::Queues,
}

/// Packets that wait: a few that are served before all others, first come first served, and the rest in the order of
/// their discipline.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    ahead: fifo::Fifo,
    rest: Ordered,
}

impl Waiting {
    /// See [`Service::push`]; `packets` has the headers.
    #[inline]
    pub(crate) fn push(&mut self, parcel: Parcel, packets: &PacketArena, shed: &mut Vec<Shed>) -> Verdict {
        if parcel.ahead {
            return self.ahead.push(parcel, shed);
        }
        match &mut self.rest {
            Ordered::Cake(queues) => queues.arrive(parcel, packets, shed),
            rest => rest.push(parcel, shed),
        }
    }

    /// When a packet may leave, as far as the discipline is concerned: one that shapes holds it until then.
    #[inline]
    pub(crate) fn ready(&self) -> Time {
        match &self.rest {
            Ordered::Cake(queues) if self.ahead.packets() == 0 => queues.ready(),
            _ => Time::ZERO,
        }
    }

    /// See [`Service::pop`].
    #[inline]
    pub(crate) fn pop(&mut self, now: Time, shed: &mut Vec<Shed>) -> Option<Served> {
        match self.ahead.take_first() {
            Some(parcel) => Some(Served { parcel, marked: false }),
            None => self.rest.pop(now, shed),
        }
    }

    /// Packets that wait.
    #[inline]
    pub(crate) fn packets(&self) -> u64 {
        self.ahead.packets() + self.rest.packets()
    }

    /// Their bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.ahead.bytes() + self.rest.bytes()
    }

    /// Empty, in a direction called `name`, which with `seed` keys the random stream, if it has one.
    pub(crate) fn new(plan: &Discipline, name: &str, seed: u64) -> Waiting {
        Waiting { ahead: fifo::Fifo::default(), rest: Ordered::new(plan, name, seed) }
    }

    /// Tells a discipline that tells flows apart what it can know of them.
    pub(crate) fn know_flows(&mut self, known: &KnownFlows) {
        match &mut self.rest {
            Ordered::FqCoDel(queues) => queues.know_flows(known),
            Ordered::FqPie(queues) => queues.know_flows(known),
            Ordered::Cake(queues) => queues.know_flows(known),
            _ => {}
        }
    }

    /// A flow has another name from now on: what goes by its number is another flow.
    pub(crate) fn rename_flow(&mut self, flow: u32, name: u32) {
        let known = match &mut self.rest {
            Ordered::FqCoDel(queues) => queues.known(),
            Ordered::FqPie(queues) => queues.known(),
            Ordered::Cake(queues) => queues.known(),
            _ => return,
        };
        known.rename(flow, name);
    }

    /// What an arriving packet finds: those that wait, and the one of this many bytes that is being
    /// transmitted, if any. `free_at`: until when that is, or was.
    #[inline]
    pub(crate) fn found(&self, in_service: Option<u32>, free_at: Time) -> Found {
        let waiting = self.packets();
        Found {
            packets: waiting + u64::from(in_service.is_some()),
            bytes: self.bytes() + u64::from(in_service.unwrap_or(0)),
            waiting,
            waiting_bytes: self.bytes(),
            idle_since: free_at,
        }
    }
}

/// Admits, marks or refuses packets when they arrive, and counts. What a plain limit needs comes first.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Gate {
    pub(crate) packet_limit: u32,
    /// Most waiting packets that an arriving packet left behind it, itself included.
    pub(crate) max_waiting: u32,
    /// Waiting packets that each arriving packet found, summed within the measurement window.
    pub(crate) found_waiting: u64,
    /// What decides beside a number of packets, if anything does, and what only queues in devices have.
    more: Option<Box<More>>,
}

/// What decides beside a number of packets, and what only queues in devices have.
#[derive(Clone, Debug)]
struct More {
    byte_limit: u64,
    rule: AnyRule,
    /// Whether a discipline serves other than the first packet, or drops waiting ones.
    disciplined: bool,
    /// Packets marked within the measurement window.
    marks: u64,
    /// Packets within the measurement window that arrived in the instant of a departure.
    tied: u64,
    /// The last instant known in which one left.
    left: Option<Time>,
    /// Packets and bytes in a queue that a device holds, the one in service included, and the bytes without it, as it
    /// last said.
    held: (u64, u64, u64),
}

impl More {
    /// Nothing decides at arrival beside `byte_limit` and `rule`.
    fn new(byte_limit: u64, rule: AnyRule, disciplined: bool) -> More {
        More { byte_limit, rule, disciplined, marks: 0, tied: 0, left: None, held: (0, 0, 0) }
    }
}

impl Gate {
    /// The gate of a direction called `name`.
    pub(crate) fn new(plan: &QueuePlan, name: &str, seed: u64) -> Gate {
        let (packet_limit, byte_limit) = match plan.limit {
            QueueLimit::Packets(limit) => (limit, u64::MAX),
            QueueLimit::Bytes(limit) => (u32::MAX, limit),
            QueueLimit::Unlimited => (u32::MAX, u64::MAX),
        };
        let disciplined = !plan.decides_at_arrival();
        let more = byte_limit != u64::MAX || disciplined || plan.rule != RulePlan::None;
        let rule = || AnyRule::new(&plan.rule, name, seed);
        let more = more.then(|| Box::new(More::new(byte_limit, rule(), disciplined)));
        Gate { packet_limit, max_waiting: 0, found_waiting: 0, more }
    }

    /// Whether anything but a number of packets decides.
    pub(crate) fn is_special(&self) -> bool {
        self.more.is_some()
    }

    /// Whether packets are told apart by more than their size.
    pub(crate) fn has_rule(&self) -> bool {
        self.more.as_ref().is_some_and(|more| !matches!(more.rule, AnyRule::None))
    }

    /// Packets marked within the measurement window.
    pub(crate) fn marks(&self) -> u64 {
        self.more.as_ref().map_or(0, |more| more.marks)
    }

    /// Packets within the measurement window that arrived in the instant in which another left; `None` if the queue is
    /// not managed, so that nothing but its limit and its order could depend on which of the two goes first.
    pub(crate) fn tied_arrivals(&self) -> Option<u64> {
        let more = self.more.as_ref()?;
        (more.disciplined || !matches!(more.rule, AnyRule::None)).then_some(more.tied)
    }

    /// Remembers that a packet leaves at `now`.
    #[inline]
    pub(crate) fn note_departure(&mut self, now: Time) {
        if let Some(more) = &mut self.more {
            more.left = Some(now);
        }
    }

    /// The same for a station of a radio cell, which was last done with a packet at `freed`: zero before the first one.
    pub(crate) fn note_freed(&mut self, freed: Time, now: Time) {
        if freed == now && now > Time::ZERO {
            self.note_departure(now);
        }
    }

    /// Judges an arriving packet and counts what it found. Calls come in the order of arrival.
    pub(crate) fn judge(&mut self, arrival: &Arrival, found: &Found, window: &Window) -> Verdict {
        if window.contains(arrival.at) {
            self.found_waiting += found.waiting;
            if let Some(more) = &mut self.more {
                more.tied += u64::from(more.left == Some(arrival.at));
            }
        }
        if found.packets >= u64::from(self.packet_limit) {
            return Verdict::Refuse(Cause::QueueOverflow);
        }
        let Some(more) = &mut self.more else { return Verdict::Admit };
        if found.bytes + u64::from(arrival.bytes) > more.byte_limit {
            return Verdict::Refuse(Cause::QueueOverflow);
        }
        let verdict = more.rule.judge(arrival, found);
        if verdict == Verdict::Mark {
            self.count_mark(arrival.at, window);
        }
        verdict
    }

    /// Whether a packet of this many bytes would find room behind this many packets and bytes.
    pub(crate) fn has_room(&self, bytes: u64, (packets, held): (u64, u64)) -> bool {
        let byte_limit = self.more.as_ref().map_or(u64::MAX, |more| more.byte_limit);
        packets < u64::from(self.packet_limit) && held + bytes <= byte_limit
    }

    /// Whether packets are served in the order of arrival, and none that waits is dropped.
    pub(crate) fn serves_in_order(&self) -> bool {
        self.more.as_ref().is_none_or(|more| !more.disciplined)
    }

    /// Remembers what a queue holds that lies in a device.
    pub(crate) fn note_held(&mut self, found: &Found) {
        let more = self.more.get_or_insert_with(|| Box::new(More::new(u64::MAX, AnyRule::None, false)));
        more.held = (found.packets, found.bytes, found.waiting_bytes);
    }

    /// Packets and bytes in a queue that a device holds, as it last said.
    pub(crate) fn held(&self) -> (u64, u64) {
        self.more.as_ref().map_or((0, 0), |more| (more.held.0, more.held.1))
    }

    /// Bytes in a queue that a device holds, without the packet in service, as it last said.
    pub(crate) fn held_waiting(&self) -> u64 {
        self.more.as_ref().map_or(0, |more| more.held.2)
    }

    /// Counts a packet that was marked at `now`.
    pub(crate) fn count_mark(&mut self, now: Time, window: &Window) {
        if let Some(more) = &mut self.more {
            more.marks += u64::from(window.contains(now));
        }
    }

    /// Counts `held` packets that one which arrives at `now` finds beyond the queue that judges it.
    pub(crate) fn found_beyond(&mut self, held: u64, now: Time, window: &Window) {
        self.found_waiting += if window.contains(now) { held } else { 0 };
    }

    /// Remembers the longest queue: `waiting` packets wait after the arrival at `now`.
    pub(crate) fn note_waiting(&mut self, waiting: u64, now: Time, window: &Window) {
        if waiting > u64::from(self.max_waiting) && window.contains(now) {
            self.max_waiting = waiting as u32;
        }
    }
}
