//! The state of one station: what it wants to send, how long it still waits, and what it hears.
//!
//! Plain data and the arithmetic of the backoff (IEEE 802.11-2016 section 10.3.4); what a station does is in `mod.rs`,
//! because everything that it does others hear.

use std::collections::VecDeque;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::dsdv::Advert;
use super::exchange::Exchange;
use super::rules::Rules;
use crate::queue::{Discipline, Parcel, Waiting};
use crate::routing::DirectionId;

/// No station: the address of a broadcast.
pub(super) const EVERYBODY: u16 = u16::MAX;
/// No port.
pub(super) const NO_PORT: u16 = u16::MAX;
/// Never.
pub(super) const NEVER: Time = Time::MAX;

/// What a station is to transmit next, until it is acknowledged or given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Msdu {
    /// The packet; nothing for a beacon or a routing update.
    pub(super) parcel: Option<Parcel>,
    pub(super) port: u16,
    pub(super) to: u16,
    /// Bytes of the MPDU.
    pub(super) bytes: u32,
    pub(super) sequence: u16,
    /// Transmissions of the data frame so far.
    pub(super) attempts: u32,
    /// Failures of any kind, of an RTS too.
    pub(super) failures: u32,
    /// Rate of the present attempt.
    pub(super) rate: usize,
    pub(super) first_start: Time,
    pub(super) last_start: Time,
    /// The other side has it.
    pub(super) delivered: bool,
    /// Its range of the sender's stream, if it is recorded.
    pub(super) range: Option<(u64, u64)>,
}

impl Default for Msdu {
    /// No data, never sent.
    fn default() -> Self {
        Msdu {
            parcel: None,
            port: NO_PORT,
            to: EVERYBODY,
            bytes: 0,
            sequence: 0,
            attempts: 0,
            failures: 0,
            rate: 0,
            first_start: NEVER,
            last_start: NEVER,
            delivered: false,
            range: None,
        }
    }
}

/// What a station waits for after its own frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    Nothing,
    Cts,
    Ack,
    BlockAck,
    /// The data frame that its CTS has made room for, where that occupies it.
    Data,
}

/// What it sends SIFS after a frame, without looking at the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Ack {
        to: u16,
        rate: usize,
    },
    Cts {
        to: u16,
        rate: usize,
        nav: Span,
    },
    /// The data frame that its RTS or its CTS to itself has made room for.
    Data,
    /// A CF-End behind the last exchange of its opportunity.
    End,
    BlockAck {
        to: u16,
        rate: usize,
    },
}

/// The frame that the receiver is locked on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lock {
    pub(super) from: u16,
    pub(super) power: f64,
    /// The most that other frames have interfered with it.
    pub(super) interference: f64,
    /// When it ends.
    pub(super) until: Time,
    /// A stronger or equal frame has come in between.
    pub(super) lost: bool,
    /// Others have drowned out its preamble.
    pub(super) unnoticed: bool,
    /// Since when others disturb it, and until when.
    pub(super) disturbed: Time,
    pub(super) quiet: Time,
}

impl Lock {
    /// Nothing else is on the air.
    pub(super) fn undisturbed(from: u16, power: f64, until: Time) -> Lock {
        let (interference, lost, unnoticed) = (0.0, false, false);
        Lock { from, power, interference, until, lost, unnoticed, disturbed: NEVER, quiet: NEVER }
    }

    /// The same beside others of this power. While preambles are looked for, a frame that is not `noticed` times
    /// stronger is not found, and so lost, whatever could have been read of it.
    pub(super) fn beside(self, others: f64, noticed: f64) -> Lock {
        let unnoticed = self.unnoticed || self.power < others * noticed;
        let interference = self.interference.max(others);
        Lock { interference, unnoticed, lost: self.lost || unnoticed, ..self }
    }
}

/// A station.
#[derive(Clone, Debug)]
pub(super) struct Station {
    pub(super) mac: usize,
    /// Frames on the air that it senses.
    pub(super) sensed: u32,
    /// It transmits.
    pub(super) sending: bool,
    pub(super) awaited: Awaited,
    /// The last frame could not be read.
    pub(super) eifs: bool,
    /// Backoff left in slots.
    pub(super) backoff: Option<u32>,
    /// No countdown starts before: the backoff was drawn then.
    pub(super) drawn: Time,
    /// The countdown runs from here on, while `access` lies ahead.
    pub(super) count_from: Time,
    /// Since when nothing is sensed or sent.
    pub(super) idle_since: Time,
    pub(super) nav: Time,
    /// When it accesses the medium, unless another station is earlier.
    pub(super) access: Time,
    pub(super) timeout: Time,
    pub(super) answer_at: Time,
    pub(super) answer: Answer,
    /// When the next beacon is due, and whether one waits to be sent.
    pub(super) beacon: Time,
    pub(super) beacon_waits: bool,
    /// Routing updates that wait, and the one that is being sent.
    pub(super) updates: VecDeque<Vec<Advert>>,
    pub(super) update: Option<Vec<Advert>>,
    pub(super) lock: Option<Lock>,
    pub(super) current: Option<Msdu>,
    pub(super) cw: u32,
    pub(super) short_retries: u32,
    pub(super) long_retries: u32,
    pub(super) sequence: u16,
    /// Packets on their way through the link layer, when they reach the queue, and when the first does.
    pub(super) entering: VecDeque<(Time, Parcel)>,
    pub(super) enters: Time,
    pub(super) queue: Waiting,
    /// Packets that have waited for a link to come back: they go before the queue.
    pub(super) returned: VecDeque<Parcel>,
    /// When it was last done with a packet.
    pub(super) freed: Time,
    /// Where it sends aggregates, and not one frame after the other.
    pub(super) exchange: Option<Box<Exchange>>,
    /// When a packet that waits for earlier ones has waited long enough.
    pub(super) reorder: Time,
    /// The direction whose gate guards the queue: the first that starts here.
    pub(super) gate: Option<DirectionId>,
    /// The first direction that ends here, for what cannot be told apart.
    pub(super) inbound: u16,
    pub(super) slots: Stream,
    /// Flows whose receivers live here and want to hear of corrupt frames, and flows whose senders want signals.
    pub(super) receivers: Vec<u32>,
    pub(super) senders: Vec<u32>,
}

impl Station {
    /// A station of the cell `mac` at rest.
    pub(super) fn new((mac, cw): (usize, u32), beacon: Time, slots: Stream) -> Station {
        Station {
            mac,
            sensed: 0,
            sending: false,
            awaited: Awaited::Nothing,
            eifs: false,
            backoff: None,
            drawn: Time::ZERO,
            count_from: Time::ZERO,
            idle_since: Time::ZERO,
            nav: Time::ZERO,
            access: NEVER,
            timeout: NEVER,
            answer_at: NEVER,
            answer: Answer::Data,
            beacon,
            beacon_waits: false,
            updates: VecDeque::new(),
            update: None,
            lock: None,
            current: None,
            cw,
            short_retries: 0,
            long_retries: 0,
            sequence: 0,
            entering: VecDeque::new(),
            enters: NEVER,
            queue: Waiting::new(&Discipline::Fifo, "", 0),
            returned: VecDeque::new(),
            freed: Time::ZERO,
            exchange: None,
            reorder: NEVER,
            gate: None,
            inbound: NO_PORT,
            slots,
            receivers: Vec::new(),
            senders: Vec::new(),
        }
    }

    /// Whether the medium is busy for it, at `now`.
    #[inline]
    pub(super) fn is_busy(&self, now: Time) -> bool {
        self.sensed > 0 || self.sending || now < self.nav || self.awaited == Awaited::Data
    }

    /// Draws a backoff of the present contention window; its countdown starts at `from` at the earliest.
    pub(super) fn draw(&mut self, rules: &Rules, from: Time) {
        self.backoff = Some(self.slots.below(u64::from(self.cw + rules.plan.backoff_extra)) as u32);
        self.drawn = from;
    }

    /// Doubles the contention window: 31, 63, ..., 1023.
    pub(super) fn widen(&mut self, rules: &Rules) {
        self.cw = (2 * self.cw + 1).min(rules.plan.cw_max);
    }

    /// Finds out when it may access the medium, as things stand at `now`.
    #[inline]
    pub(super) fn reschedule(&mut self, rules: &Rules, now: Time) {
        self.access = NEVER;
        if self.sensed > 0 || self.sending || self.awaited != Awaited::Nothing {
            return;
        }
        if let Some(exchange) = &mut self.exchange {
            let longer = if self.eifs { rules.eifs - rules.difs } else { Span::ZERO };
            let since = (self.idle_since.max(self.nav), longer);
            self.access = exchange.functions.reschedule(since, rules.slot, now);
            return;
        }
        let space = if self.eifs { rules.eifs } else { rules.difs };
        let run_from = self.idle_since.max(self.nav) + space;
        if let Some(slots) = self.backoff {
            self.count_from = run_from.max(self.drawn);
            self.access = self.count_from + rules.slot * u64::from(slots);
        } else if self.current.is_some() {
            self.count_from = run_from;
            self.access = run_from.max(now);
        }
    }

    /// A frame begins that it senses from `at` on. What it would start at that very instant, or before it can have
    /// heard the frame, it still starts.
    pub(super) fn pause(&mut self, rules: &Rules, at: Time) {
        if self.access == NEVER || self.access <= at {
            return;
        }
        if let Some(exchange) = &mut self.exchange {
            self.access = exchange.functions.pause(rules.slot, at, &mut self.slots);
            return;
        }
        if let Some(slots) = &mut self.backoff {
            // Slots that have gone by do not come back with the next countdown.
            if at > self.count_from {
                let elapsed = (at.since(self.count_from).0 / rules.slot.0).min(u64::from(*slots)) as u32;
                *slots -= elapsed;
            }
        } else {
            // The medium turned busy while it looked whether it was idle: no immediate access any more.
            self.draw(rules, at);
        }
        self.access = NEVER;
    }

    /// A frame begins that it senses from `heard` on; whether its countdown pauses.
    #[inline]
    pub(super) fn sense(&mut self, rules: &[Rules], heard: Time) -> bool {
        self.sensed += 1;
        let pauses = self.access != NEVER && self.access > heard;
        if pauses {
            self.pause(&rules[self.mac], heard);
        }
        pauses
    }

    /// A frame for another station, undisturbed, ends `now`, and it has read it: the medium is reserved until
    /// `nav`.
    #[inline]
    pub(super) fn overhear(&mut self, (now, nav): (Time, Time)) {
        self.sensed = 0;
        self.eifs = false;
        self.nav = self.nav.max(nav);
        self.idle_since = now;
    }

    /// The data frame that its CTS has made room for has not come by `now`: the medium is as free as it is.
    pub(super) fn give_up_data(&mut self, rules: &Rules, now: Time) {
        self.awaited = Awaited::Nothing;
        self.timeout = NEVER;
        if self.sensed == 0 {
            self.idle_since = now;
        }
        self.reschedule(rules, now);
    }

    /// Whether it neither has anything to send nor counts down.
    #[inline]
    pub(super) fn is_without_work(&self) -> bool {
        let functions = self.exchange.as_ref().is_none_or(|exchange| exchange.functions.are_idle());
        self.backoff.is_none() && self.current.is_none() && self.access == NEVER && functions
    }

    /// When it acts next by itself.
    #[inline]
    pub(super) fn due(&self) -> Time {
        self.access.min(self.timeout).min(self.answer_at).min(self.beacon).min(self.enters).min(self.reorder)
    }

    /// A packet reaches the link layer, and the queue at `at`.
    pub(super) fn enter(&mut self, parcel: Parcel, at: Time) {
        self.entering.push_back((at, parcel));
        self.enters = self.enters.min(at);
    }

    /// The first packet in the link layer leaves it.
    pub(super) fn take_entering(&mut self) -> Option<Parcel> {
        let (_, parcel) = self.entering.pop_front()?;
        self.enters = self.entering.front().map_or(NEVER, |&(at, _)| at);
        Some(parcel)
    }

    /// One if a packet contends that was never sent: until then it waits.
    pub(super) fn contending(&self) -> u64 {
        let untried = self.current.as_ref().filter(|msdu| msdu.attempts == 0);
        u64::from(untried.is_some_and(|msdu| msdu.parcel.is_some()))
    }

    /// Packets and bytes that an arriving packet finds.
    pub(super) fn in_service(&self) -> Option<u32> {
        self.current.as_ref().and_then(|msdu| msdu.parcel).map(|parcel| u32::from(parcel.bytes))
    }
}
