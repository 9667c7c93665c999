//! What stations of 802.11n and later send: by category the access, in it aggregates of what waits for one receiver,
//! and what follows from their acknowledgements (IEEE 802.11-2016 sections 10.22.2, 10.24).
//!
//! `access.rs` and `air.rs` come here where a station aggregates; the path of single frames stays as it is there. The
//! state of each end is in `edca.rs`, `aggregate.rs` and `reorder.rs`; what arrives is in `burst.rs`.

use lasthop_cc::Signal;
use lasthop_core::packet::{Cause, flag};
use lasthop_core::time::{Span, Time};

use super::aggregate::{Bounds, DELIMITER, Mpdu, Originator, Slice};
use super::edca::{AccessPlan, BEACONS, CATEGORIES, Category, Function, Functions};
use super::frame::FrameKind;
use super::mode::Format;
use super::plan::{AggregationPlan, Discards, MacPlan, Queues};
use super::rate_adaptation::{RateAdaptation, RatePlan, Take};
use super::reorder::Recipient;
use super::rules::{AnswerTimes, END_BYTES};
use super::station::{Answer, Awaited, EVERYBODY, NEVER, NO_PORT};
use super::{Medium, OnAir, range_of, told};
use crate::device::arq::mark;
use crate::device::{Crossing, Cx, Effect, Parcel};
use crate::plan::ErrorPosition;
use crate::queue::{Arrival, Served, Verdict, Waiting};

/// aRxPHYStartDelay with what a receiver takes to notice: an answer has begun by SIFS, a slot and this long behind the
/// frame, or does not come (10.3.2.9).
const NOTICE: Span = Span::from_nanos(20_000);
/// Bytes of a BlockAckReq.
const REQUEST_BYTES: u32 = 24;
/// By which beacons take their turns: before everything else.
const BEACON_ACCESS: AccessPlan = AccessPlan { aifsn: 1, cw_min: 0, cw_max: 0, txop: Span::ZERO };

/// Both ends of a BlockAck agreement.
#[derive(Clone, Debug)]
pub(super) struct Agreement {
    pub(super) originator: Originator,
    /// Where packets wait that have a queue of their own for each receiver; made when the first comes.
    pub(super) queue: Option<Box<Waiting>>,
    pub(super) account: Account,
    /// The air that its packets in the driver will take, by estimate.
    pub(super) charged: Span,
    /// It is in the list of those that ask the driver to take something.
    pub(super) asks: bool,
    pub(super) recipient: Recipient,
}

impl Agreement {
    /// In force from the start, with this window.
    pub(super) fn new(window: u16) -> Agreement {
        let (originator, recipient) = (Originator::default(), Recipient::new(window));
        let account = Account::default();
        Agreement { originator, queue: None, account, charged: Span::ZERO, asks: false, recipient }
    }

    /// Whether there is anything to send; `from_queue`: straight from its queue, too.
    fn has_work(&self, from_queue: bool) -> bool {
        let waits = |queue: &Waiting| queue.packets() > 0;
        self.originator.has_work() || from_queue && self.queue.as_deref().is_some_and(waits)
    }
}

/// The air that a receiver may still use before others have their turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Nanoseconds; below zero it has used more than its share.
    pub(super) left: i64,
    /// When it last used any.
    pub(super) used: Time,
}

impl Account {
    /// Whether a receiver that has something to send again goes before the others, who have this much more in each
    /// round: what comes back with air left does.
    pub(super) fn comes_first(&mut self, weight: Option<Span>, now: Time) -> bool {
        let Some(weight) = weight else { return false };
        if now.since(self.used) >= FORGOTTEN {
            self.left = weight.0 as i64;
        }
        self.left >= 0
    }
}

/// An account that has not been used for this long begins anew.
pub(super) const FORGOTTEN: Span = Span::from_millis(100);

/// What a station transmits next, or has just transmitted.
#[derive(Clone, Debug)]
pub(super) struct Burst {
    pub(super) port: u16,
    /// Index of the category.
    pub(super) category: usize,
    /// Index of the mode.
    pub(super) mode: usize,
    /// MPDUs; none in a BlockAckReq.
    pub(super) slices: Vec<Slice>,
    /// Octets of the PSDU.
    pub(super) octets: u32,
    pub(super) airtime: Span,
    /// Of all on its channel.
    pub(super) number: u32,
    /// An RTS goes before it.
    shielded: bool,
    /// If not, a CTS to its sender does, which older stations can read.
    protected: bool,
}

impl Burst {
    fn nothing() -> Burst {
        Burst {
            port: NO_PORT,
            category: 0,
            mode: 0,
            slices: Vec::new(),
            octets: 0,
            airtime: Span::ZERO,
            number: 0,
            shielded: false,
            protected: false,
        }
    }
}

/// What answers an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Ack,
    BlockAck,
    /// Nothing.
    Missed,
}

/// What a station has that sends aggregates.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) functions: Functions,
    pub(super) burst: Burst,
    /// The end of the transmission opportunity, if more than one exchange is allowed.
    limit: Time,
    /// It is the first of its opportunity.
    first: bool,
    /// An answer that has begun is over by then.
    patience: Time,
    /// The air that all packets in the driver will take, by estimate.
    pub(super) charged: Span,
}

impl Exchange {
    /// What an opportunity reserves behind an aggregate that ends at `done`: all that is left of it, if a CF-End
    /// gives back what is not used (multiple protection, 9.2.5.2).
    fn reserved(&self, plan: &AggregationPlan, done: Time) -> Span {
        if plan.ends { Span(self.limit.0.saturating_sub(done.0)) } else { Span::ZERO }
    }

    /// Of a station of the cell, if that aggregates; `queue` is what each category has.
    pub(super) fn new(mac: &MacPlan, queue: &Waiting) -> Option<Box<Exchange>> {
        let aggregation = mac.aggregation.as_ref()?;
        let beacons = mac.beacon.map(|_| BEACON_ACCESS);
        let times = (mac.sifs, mac.slot);
        let plans = aggregation.access.into_iter().chain(beacons);
        let list = plans.map(|plan| Function::new(plan, times, queue.clone())).collect();
        let burst = Burst::nothing();
        let functions = Functions { list };
        let charged = Span::ZERO;
        Some(Box::new(Exchange { functions, burst, limit: NEVER, first: true, patience: NEVER, charged }))
    }
}

impl AggregationPlan {
    /// The time after which the MAC repeats an MPDU that carries `bytes` alone, on average.
    pub(super) fn link_timeout(&self, mac: &MacPlan, bytes: u32) -> Span {
        let index = if let RatePlan::Fixed(mode) = mac.rate { mode } else { self.common - 1 };
        let access = self.access[Category::BestEffort as usize];
        let slots = mac.slot * u64::from(2 * access.aifsn + access.cw_min);
        let data = self.modes[index].airtime(mac.mpdu(bytes), &self.habits);
        mac.sifs * 2 + Span(slots.0 / 2) + data + mac.slot + NOTICE
    }
}

impl Medium {
    /// The plan of aggregation of a station that has an exchange.
    pub(super) fn aggregation_of(&self, index: usize) -> Option<&AggregationPlan> {
        self.rules[self.stations[index].mac].plan.aggregation.as_deref()
    }

    /// The category of the packets of a flow at a station.
    pub(super) fn category_of(&self, index: usize, flow: u32) -> usize {
        let categories = self.categories.get(self.stations[index].mac);
        let category = categories.and_then(|categories| categories.get(flow as usize));
        category.map_or(Category::BestEffort as usize, |&category| category.into())
    }

    /// Whether each receiver and category has a queue of its own.
    pub(super) fn has_fair_queues(&self, index: usize) -> bool {
        self.aggregation_of(index).is_some_and(|plan| matches!(plan.queues, Queues::Fair { .. }))
    }

    /// Packets that have left a queue and were not sent yet, of all categories: what the driver holds, and what is
    /// behind an RTS. Where each receiver has a queue of its own, those for `port`.
    fn held_for_sending(&self, index: usize, port: u16, fair: bool) -> u64 {
        let Some(exchange) = &self.stations[index].exchange else { return 0 };
        let of_port = |port: u16| self.agreements[usize::from(port)].iter().map(|one| &one.originator);
        if fair {
            return of_port(port).map(|one| one.staged.len() as u64 + one.untried()).sum();
        }
        let driver: usize = exchange.functions.list.iter().map(|function| function.staged).sum();
        let burst = &exchange.burst;
        let behind: u64 =
            if burst.slices.is_empty() { 0 } else { of_port(burst.port).map(Originator::untried).sum() };
        driver as u64 + behind
    }

    /// Packets that wait in the queues of a station, of all categories; where each receiver has its own, in those for
    /// `port`.
    fn queued(&self, index: usize, port: u16, fair: bool) -> u64 {
        if fair {
            let queues = self.agreements[usize::from(port)].iter().filter_map(|one| one.queue.as_deref());
            return queues.map(Waiting::packets).sum();
        }
        let exchange = self.stations[index].exchange.as_ref();
        exchange.map_or(0, |exchange| exchange.functions.list.iter().map(|one| one.queue.packets()).sum())
    }

    /// A packet has passed the link layer of a station and reaches the queue of its category.
    pub(super) fn enqueue_category(&mut self, index: usize, parcel: Parcel, cx: &mut Cx<'_>) {
        let (now, window) = (cx.now, cx.window);
        let bytes = u32::from(parcel.bytes);
        let category = self.category_of(index, parcel.flow);
        let number = self.places[parcel.hop as usize];
        if self.roams && !self.ports[usize::from(number)].absence.is_open() {
            return self.set_aside(number, parcel, None, cx);
        }
        let direction = self.ports[usize::from(number)].direction;
        let fair = self.has_fair_queues(index);
        let held = self.held_for_sending(index, number, fair);
        let station = &mut self.stations[index];
        let gate = if fair { direction } else { station.gate.unwrap_or(direction) };
        let Some(exchange) = &mut station.exchange else { return };
        let function = &mut exchange.functions.list[category];
        let queue = if fair {
            let own = &mut self.agreements[usize::from(number)][category].queue;
            &mut **own.get_or_insert_with(|| Box::new(function.queue.clone()))
        } else {
            &mut function.queue
        };
        let found = queue.found(None, function.freed);
        let refused = if cx.link(direction).corrupts(ErrorPosition::BeforeQueue, now, bytes) {
            Some(Cause::ChannelError)
        } else {
            let gate = &mut cx.link(gate).gate;
            gate.note_freed(function.freed, now);
            gate.found_beyond(held, now, &window);
            match gate.judge(&Arrival { at: now, bytes, ect: parcel.ecn.can_be_marked() }, &found, &window) {
                Verdict::Admit => None,
                Verdict::Mark => {
                    cx.packets.get_mut(parcel.packet).flags |= flag::CE;
                    None
                }
                Verdict::Refuse(cause) => Some(cause),
            }
        };
        let refused = refused.or_else(|| match queue.push(parcel, cx.packets, &mut self.shed) {
            Verdict::Admit => None,
            Verdict::Mark => {
                mark(parcel, gate, cx);
                None
            }
            Verdict::Refuse(cause) => Some(cause),
        });
        self.lose_shed(cx);
        if let Some(cause) = refused {
            cx.link(direction).count_drop(cause, now, &window);
            let crossing = Some(Crossing { direction, started: None });
            cx.effects.push(Effect::Drop { parcel, cause, at: now, crossing });
            return;
        }
        if !fair {
            self.stage(index, category, cx);
        } else if let Some(driver) = self.driver_of(index) {
            self.ask(index, (number, category), now);
            self.hand_over(index, category, driver, cx);
        } else {
            self.list(index, (number, category), now);
        }
        let Some(exchange) = &self.stations[index].exchange else { return };
        let own = self.agreements[usize::from(number)][category].queue.as_deref();
        let queue = own.unwrap_or(&exchange.functions.list[category].queue);
        let found = queue.found(None, now);
        let waiting = self.queued(index, number, fair) + self.held_for_sending(index, number, fair);
        let gate = &mut cx.link(gate).gate;
        gate.note_held(&found);
        gate.note_waiting(waiting, now, &window);
    }

    /// The driver takes what it has room for from the queue of a category.
    fn stage(&mut self, index: usize, category: usize, cx: &mut Cx<'_>) {
        let Some(Queues::Driver(room)) = self.aggregation_of(index).map(|plan| plan.queues) else { return };
        let Some(gate) = self.stations[index].gate else { return };
        loop {
            let station = &mut self.stations[index];
            let Some(exchange) = &mut station.exchange else { return };
            let function = &mut exchange.functions.list[category];
            if function.staged >= room {
                break;
            }
            let Some(Served { parcel, marked }) = function.queue.pop(cx.now, &mut self.shed) else { break };
            if marked {
                mark(parcel, gate, cx);
            }
            let number = self.places[parcel.hop as usize];
            if self.roams && !self.ports[usize::from(number)].absence.is_open() {
                self.lose_shed(cx);
                self.set_aside(number, parcel, None, cx);
                continue;
            }
            function.staged += 1;
            self.agreements[usize::from(number)][category].originator.staged.push_back(parcel);
            self.list(index, (number, category), cx.now);
        }
        self.lose_shed(cx);
    }

    /// A port has something to send in a category: it takes its turns, and its station contends.
    pub(super) fn list(&mut self, index: usize, (port, category): (u16, usize), now: Time) {
        let originator = &mut self.agreements[usize::from(port)][category].originator;
        if std::mem::replace(&mut originator.listed, true) {
            return;
        }
        let weight = self.weight_of(index);
        let sparse = self.agreements[usize::from(port)][category].account.comes_first(weight, now);
        let Some(exchange) = &mut self.stations[index].exchange else { return };
        let turns = &mut exchange.functions.list[category].turns;
        // What comes back with air left goes first.
        if sparse {
            turns.push_front(port);
        } else {
            turns.push_back(port);
        }
        self.want(index, category, now);
    }

    /// A function has something to send: immediate access, or a backoff.
    fn want(&mut self, index: usize, category: usize, now: Time) {
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        let busy = station.is_busy(now);
        let Some(exchange) = &mut station.exchange else { return };
        let function = &mut exchange.functions.list[category];
        if function.backoff.is_none() && (busy || !rules.plan.immediate_access) {
            function.draw(&mut station.slots, now);
        }
        station.reschedule(rules, now);
    }

    /// A beacon is due.
    pub(super) fn want_beacon(&mut self, index: usize, now: Time) {
        let Some(exchange) = &mut self.stations[index].exchange else { return };
        exchange.functions.list[BEACONS].beacon = true;
        self.want(index, BEACONS, now);
    }

    /// A station's own beacon is over.
    pub(super) fn end_beacon(&mut self, index: usize, now: Time) {
        let station = &mut self.stations[index];
        if let Some(exchange) = &mut station.exchange {
            exchange.functions.list[BEACONS].beacon = false;
        }
        station.reschedule(&self.rules[station.mac], now);
    }

    /// The countdown of at least one function is over.
    pub(super) fn contend(&mut self, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now;
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        let Some(exchange) = &mut station.exchange else { return };
        let limit = rules.plan.short_retry;
        let Some(winner) = exchange.functions.contend(now, limit, &mut station.slots) else {
            return station.reschedule(rules, now);
        };
        exchange.functions.pause(rules.slot, now, &mut station.slots);
        if winner == BEACONS {
            let (bytes, rate) = (rules.plan.beacon_bytes, rules.plan.lowest_basic());
            self.transmit(index, FrameKind::Beacon, (EVERYBODY, rate, bytes, Span::ZERO), now);
            return;
        }
        let txop = exchange.functions.list[winner].plan.txop;
        exchange.limit = if txop == Span::ZERO { now } else { now + txop };
        exchange.first = true;
        if self.prepare(index, winner, now, cx) {
            self.open(index, cx);
        } else {
            let station = &mut self.stations[index];
            station.reschedule(&self.rules[station.mac], now);
        }
    }

    /// How much air a receiver gets in a round, where aggregates are made by that. A driver makes one for each in turn.
    fn weight_of(&self, index: usize) -> Option<Span> {
        match self.aggregation_of(index)?.queues {
            Queues::Fair { weight, driver: None } => weight,
            _ => None,
        }
    }

    /// How much air a receiver gets in a round, where they share it by that.
    pub(super) fn share_of(&self, index: usize) -> Option<Span> {
        match self.aggregation_of(index)?.queues {
            Queues::Fair { weight, .. } => weight,
            Queues::Driver(_) => None,
        }
    }

    /// A PPDU to or from the other end of a port has taken this long.
    pub(super) fn charge(&mut self, (port, category): (u16, usize), airtime: Span, now: Time) {
        let Some(agreement) = self.agreements.get_mut(usize::from(port)) else { return };
        let account = &mut agreement[category].account;
        account.left -= airtime.0 as i64;
        account.used = now;
    }

    /// Takes what the next aggregate of a port can hold at most from its own queue.
    fn fill(&mut self, (number, category): (u16, usize), bounds: &Bounds, cx: &mut Cx<'_>) {
        let agreement = &mut self.agreements[usize::from(number)][category];
        let Some(queue) = &mut agreement.queue else { return };
        let staged = &mut agreement.originator.staged;
        let (header, llc) = bounds.headers;
        let overhead = header + llc + DELIMITER;
        let mut octets: u32 = staged.iter().map(|parcel| u32::from(parcel.bytes) + overhead).sum();
        while octets < bounds.octets && staged.len() < usize::from(bounds.window).min(bounds.mpdus) {
            let Some(Served { parcel, marked }) = queue.pop(cx.now, &mut self.shed) else { break };
            if marked {
                mark(parcel, self.ports[usize::from(number)].direction, cx);
            }
            octets += u32::from(parcel.bytes) + overhead;
            staged.push_back(parcel);
        }
        self.lose_shed(cx);
    }

    /// The port whose turn it is in a category, if there is anything to send.
    fn take_turn(&mut self, index: usize, category: usize) -> Option<u16> {
        let (weight, from_queue) = (self.weight_of(index), self.driver_of(index).is_none());
        let exchange = self.stations[index].exchange.as_mut()?;
        let turns = &mut exchange.functions.list[category].turns;
        while let Some(port) = turns.pop_front() {
            let agreement = &mut self.agreements[usize::from(port)][category];
            if !agreement.has_work(from_queue) {
                agreement.originator.listed = false;
                continue;
            }
            match weight {
                Some(weight) if agreement.account.left < 0 => {
                    agreement.account.left += weight.0 as i64;
                    turns.push_back(port);
                }
                Some(_) => {
                    turns.push_front(port);
                    return Some(port);
                }
                None => {
                    turns.push_back(port);
                    return Some(port);
                }
            }
        }
        None
    }

    /// Makes up what goes out from `at` on: a BlockAckReq that is owed, or an aggregate. Nothing if there is nothing,
    /// or if it would not be over before the opportunity is.
    fn prepare(&mut self, index: usize, category: usize, at: Time, cx: &mut Cx<'_>) -> bool {
        let Some(number) = self.take_turn(index, category) else { return false };
        let recipient = &self.agreements[usize::from(number)][category].recipient;
        let (long, window) = (usize::from(recipient.is_long()), recipient.window());
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        let (Some(exchange), Some(plan)) = (&mut station.exchange, &rules.plan.aggregation) else {
            return false;
        };
        let port = &mut self.ports[usize::from(number)];
        let originator = &mut self.agreements[usize::from(number)][category].originator;
        let attempts = originator.tries();
        let burst = &mut exchange.burst;
        let take = if originator.owes_request {
            Take { rate: port.rate.rate(attempts, at), alone: false, shielded: false }
        } else {
            port.rate.take(attempts, at)
        };
        burst.mode = take.rate;
        port.last_mode = take.rate as u16;
        let (times, mode) = (rules.modes[burst.mode], plan.modes[burst.mode]);
        let answer = rules.answer(times.reference);
        (burst.port, burst.category) = (number, category);
        (burst.shielded, burst.protected) = (false, false);
        let left = Span(exchange.limit.since(at).0.saturating_sub((rules.sifs + answer.block_ack[long]).0));
        let (sole, limited) = (exchange.first, left > Span::ZERO || !exchange.first);
        if originator.owes_request {
            burst.slices.clear();
            (burst.octets, burst.airtime) = (REQUEST_BYTES, rules.plan.airtime(REQUEST_BYTES, answer.rate));
            return sole || burst.airtime <= left;
        }
        let within = if limited { mode.octets_within(left, &plan.habits) } else { times.octets };
        let older = mode.format() == Format::Legacy;
        let bounds = Bounds {
            octets: within.min(times.octets),
            mpdus: if take.alone || older { 1 } else { plan.mpdus },
            spacing: times.spacing,
            window,
            always_delimited: mode.format() > Format::Ht,
            headers: (rules.plan.header, rules.plan.llc),
            amsdu: if older { 0 } else { plan.amsdu },
        };
        if self.driver_of(index).is_none() {
            self.fill((number, category), &bounds, cx);
        }
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        let (Some(exchange), Some(plan)) = (&mut station.exchange, &rules.plan.aggregation) else {
            return false;
        };
        let (port, burst) = (&self.ports[usize::from(number)], &mut exchange.burst);
        let originator = &mut self.agreements[usize::from(number)][category].originator;
        let before = originator.staged.len();
        let listened = port.is_listened();
        let range = |parcel| if listened { range_of(parcel, cx) } else { None };
        burst.octets = originator.build(&bounds, range, &mut burst.slices);
        let staged = &mut exchange.functions.list[category].staged;
        *staged = staged.saturating_sub(before - originator.staged.len());
        burst.airtime = mode.airtime(burst.octets, &plan.habits);
        burst.shielded = (take.shielded || burst.octets > rules.plan.rts_threshold) && sole;
        burst.protected = rules.plan.protection && !older && !burst.shielded && sole;
        !burst.slices.is_empty() && (sole || burst.airtime <= left)
    }

    /// Begins an exchange that is prepared: with an RTS, or at once.
    fn open(&mut self, index: usize, cx: &mut Cx<'_>) {
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        let Some(exchange) = &mut station.exchange else { return };
        let burst = &exchange.burst;
        if !burst.shielded && !burst.protected {
            return self.launch(index, cx);
        }
        let protected = burst.protected;
        let answer = rules.answer(rules.modes[burst.mode].reference);
        let long = self.agreements[usize::from(burst.port)][burst.category].recipient.is_long();
        let rest = burst.airtime + rules.sifs + answer_time(burst, answer, long);
        if protected {
            let (nav, bytes) = (rules.sifs + rest, rules.plan.cts_bytes);
            self.transmit(index, FrameKind::Cts, (EVERYBODY, answer.rate, bytes, nav), cx.now);
            return;
        }
        let nav = rules.sifs * 2 + answer.cts + rest;
        let to = self.ports[usize::from(burst.port)].to;
        let slack = rules.sifs + rules.slot + NOTICE;
        let (cts, sifs) = (answer.cts, rules.sifs);
        let bytes = rules.plan.rts_bytes;
        let done = self.transmit(index, FrameKind::Rts, (to, answer.rate, bytes, nav), cx.now);
        self.wait(index, Awaited::Cts, done + slack, done + sifs + cts + NOTICE);
    }

    /// Waits for an answer that begins by `begun` and ends by `over`.
    fn wait(&mut self, index: usize, awaited: Awaited, begun: Time, over: Time) {
        let flight = self.plan.flight * 2;
        let station = &mut self.stations[index];
        station.awaited = awaited;
        station.timeout = begun + flight;
        if let Some(exchange) = &mut station.exchange {
            exchange.patience = over + flight;
        }
    }

    /// Transmits what is prepared.
    pub(super) fn launch(&mut self, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now;
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        let Some(exchange) = &mut station.exchange else { return };
        let burst = &exchange.burst;
        let (port, rate) = (usize::from(burst.port), rules.modes[burst.mode].reference);
        let answer = rules.answer(rate);
        let (to, sifs) = (self.ports[port].to, rules.sifs);
        let long = self.agreements[port][burst.category].recipient.is_long();
        let expected = answer_time(burst, answer, long);
        let awaited = if burst.slices.len() == 1 { Awaited::Ack } else { Awaited::BlockAck };
        let end = now + burst.airtime;
        let held = rules.plan.aggregation.as_ref().map_or(Span::ZERO, |plan| exchange.reserved(plan, end));
        let nav = (sifs + expected).max(held);
        let slack = sifs + rules.slot + NOTICE;
        let done = if burst.slices.is_empty() {
            let octets = burst.octets;
            self.transmit(index, FrameKind::BlockAckRequest, (to, answer.rate, octets, nav), now)
        } else {
            let (bytes, airtime) = (burst.octets, burst.airtime);
            let (sequence, retry) = (burst.slices[0].sequence, false);
            self.note_tries(index, cx);
            self.bursts += 1;
            if let Some(exchange) = &mut self.stations[index].exchange {
                exchange.burst.number = self.bursts;
            }
            let kind = FrameKind::Data;
            let frame = OnAir { kind, to, rate, bytes, nav, sequence, retry, start: now, burst: true };
            self.transmit_for(index, airtime, frame)
        };
        self.wait(index, awaited, done + slack, done + sifs + expected + NOTICE);
    }

    /// The MPDUs of an aggregate are sent: counts them and the time that each of them takes.
    fn note_tries(&mut self, index: usize, cx: &mut Cx<'_>) {
        let (now, window) = (cx.now, cx.window);
        let Some(exchange) = &self.stations[index].exchange else { return };
        let burst = &exchange.burst;
        let (number, count) = (burst.port, burst.slices.len() as u64);
        let port = &self.ports[usize::from(number)];
        let originator = &mut self.agreements[usize::from(number)][burst.category].originator;
        let share = |octet: u32| burst.airtime.0 * u64::from(octet) / u64::from(burst.octets.max(1));
        let link = cx.link(port.direction);
        let mut from = now;
        let mut repetitions = 0;
        for slice in &burst.slices {
            let Some(mpdu) = originator.try_again(slice.sequence, now) else { continue };
            repetitions += u64::from(mpdu.tries > 1);
            let until = now + Span(share(slice.to));
            for carried in originator.packets_of(slice.sequence) {
                let parcel = carried.parcel;
                let since = if mpdu.tries == 1 { parcel.since } else { now };
                link.occupy_until(since, (from.max(since), until), parcel.bytes.into(), &window);
                from = until;
            }
        }
        let (category, airtime) = (burst.category, burst.airtime);
        self.charge((number, category), airtime, now);
        self.count(number, cx, |stats| {
            stats.attempts += count;
            stats.repetitions += repetitions;
            stats.ppdus += 1;
        });
    }

    /// An expected answer has not come. One that has begun may still be read.
    pub(super) fn miss_answer(&mut self, index: usize, cx: &mut Cx<'_>) {
        let station = &mut self.stations[index];
        let Some(exchange) = &station.exchange else { return };
        if cx.now < exchange.patience {
            if station.sensed > 0 {
                station.timeout = exchange.patience;
                return;
            }
            // AIFS follows the wait for the answer, not the frame (802.11-2020, 10.23.2.4).
            station.idle_since = cx.now;
        }
        self.end_exchange(index, Answered::Missed, cx);
    }

    /// An exchange is over: draws the consequences for its MPDUs and the window, and goes on.
    pub(super) fn end_exchange(&mut self, index: usize, answered: Answered, cx: &mut Cx<'_>) {
        let now = cx.now;
        let station = &mut self.stations[index];
        station.timeout = NEVER;
        let without_cts = std::mem::replace(&mut station.awaited, Awaited::Nothing) == Awaited::Cts;
        let Some(exchange) = &mut station.exchange else { return };
        let mut burst = std::mem::replace(&mut exchange.burst, Burst::nothing());
        let rules = &self.rules[station.mac];
        let limit = rules.plan.short_retry;
        let plan = rules.plan.aggregation.as_ref();
        let asks = plan.is_some_and(|plan| plan.request);
        let endless = plan.is_some_and(|plan| plan.tries == u32::MAX);
        let function = &mut exchange.functions.list[burst.category];
        let mut given_up = false;
        if answered != Answered::Missed {
            function.rest();
        } else if exchange.first {
            function.widen(limit);
            // MPDUs have limits of their own.
            given_up = function.failures == limit && (without_cts || burst.slices.is_empty()) && !endless;
            if given_up {
                function.rest();
            }
        }
        let number = usize::from(burst.port);
        let originator = &mut self.agreements[number][burst.category].originator;
        if burst.slices.is_empty() {
            originator.owes_request = answered == Answered::Missed && !given_up;
            self.settle_request(&burst, answered, cx);
        } else if !without_cts {
            originator.owes_request |= answered == Answered::Missed && asks && burst.slices.len() > 1;
            self.settle(index, &burst, answered, cx);
        } else {
            self.count(burst.port, cx, |stats| stats.rts_failures += 1);
            if given_up {
                self.give_up_first(index, &burst, cx);
            }
        }
        self.agreements[number][burst.category].originator.advance();
        if self.roams && !self.ports[number].absence.is_open() {
            self.forget_agreements(index, burst.port, cx);
        }
        let category = burst.category;
        burst.slices.clear();
        let Some(exchange) = &mut self.stations[index].exchange else { return };
        exchange.burst = burst;
        match self.driver_of(index) {
            None => self.stage(index, category, cx),
            // What is done in one category makes room below the limit of all.
            Some(driver) => (0..CATEGORIES).rev().for_each(|other| self.hand_over(index, other, driver, cx)),
        }
        self.go_on(index, (category, answered), now, cx);
    }

    /// Another exchange of the same opportunity, or the backoff behind it.
    fn go_on(&mut self, index: usize, (category, answered): (usize, Answered), now: Time, cx: &mut Cx<'_>) {
        let station = &mut self.stations[index];
        let sifs = self.rules[station.mac].sifs;
        let Some(exchange) = &mut station.exchange else { return };
        exchange.first = false;
        let limit = exchange.limit;
        let is_open = answered != Answered::Missed && limit > now + sifs;
        let next = if is_open && self.prepare(index, category, now + sifs, cx) {
            Answer::Data
        } else if is_open && self.ends_by(index, limit, now + sifs) {
            Answer::End
        } else {
            return self.leave(index, now);
        };
        let station = &mut self.stations[index];
        (station.answer, station.answer_at) = (next, now + sifs);
    }

    /// Whether a CF-End from `at` on is to be sent, and over by the end of the opportunity.
    fn ends_by(&self, index: usize, limit: Time, at: Time) -> bool {
        let plan = &self.rules[self.stations[index].mac].plan;
        let ends = plan.aggregation.as_ref().is_some_and(|plan| plan.ends);
        ends && at + plan.airtime(END_BYTES, plan.lowest_basic()) <= limit
    }

    /// The backoff behind an opportunity.
    pub(super) fn leave(&mut self, index: usize, now: Time) {
        let station = &mut self.stations[index];
        let Some(exchange) = &mut station.exchange else { return };
        let function = &mut exchange.functions.list[exchange.burst.category];
        function.freed = now;
        function.draw(&mut station.slots, now);
        station.reschedule(&self.rules[station.mac], now);
    }

    /// What a BlockAck after a request says of outstanding MPDUs.
    fn settle_request(&mut self, burst: &Burst, answered: Answered, cx: &mut Cx<'_>) {
        if answered != Answered::BlockAck {
            return;
        }
        let mut sequences = Vec::new();
        let agreement = &mut self.agreements[usize::from(burst.port)][burst.category];
        agreement.originator.outstanding(&mut sequences);
        for sequence in sequences {
            self.settle_mpdu(burst, sequence, true, cx);
        }
    }

    /// What an answer says of the MPDUs of a burst, or that there is none.
    fn settle(&mut self, index: usize, burst: &Burst, answered: Answered, cx: &mut Cx<'_>) {
        let rules = &self.rules[self.stations[index].mac];
        let tries = rules.plan.aggregation.as_ref().map_or(0, |plan| plan.tries);
        let mut acknowledged = 0;
        for slice in &burst.slices {
            let arrived = match answered {
                Answered::Ack => true,
                Answered::BlockAck => {
                    self.agreements[usize::from(burst.port)][burst.category].recipient.has(slice.sequence)
                }
                Answered::Missed => false,
            };
            if arrived {
                acknowledged += 1;
                self.settle_mpdu(burst, slice.sequence, false, cx);
            } else {
                self.fail_mpdu(index, burst, slice.sequence, tries, cx);
            }
        }
        if answered == Answered::Missed {
            self.count(burst.port, cx, |stats| stats.ack_failures += 1);
        }
        let port = &mut self.ports[usize::from(burst.port)];
        let counts = (burst.slices.len() as u32, acknowledged);
        port.rate.report_burst(burst.mode, counts, (answered != Answered::Missed, cx.now));
    }

    /// An MPDU is done if the receiver has it; `asked` looks that up.
    fn settle_mpdu(&mut self, burst: &Burst, sequence: u16, asked: bool, cx: &mut Cx<'_>) {
        let agreement = &mut self.agreements[usize::from(burst.port)][burst.category];
        if asked && !agreement.recipient.has(sequence) {
            return;
        }
        let Some(mpdu) = agreement.originator.get_mut(sequence) else { return };
        mpdu.done = true;
        let Mpdu { tries, packets, first_start, last_start, .. } = *mpdu;
        self.lift_charge((burst.port, burst.category), sequence);
        let agreement = &self.agreements[usize::from(burst.port)][burst.category];
        let port = &self.ports[usize::from(burst.port)];
        if port.is_listened() {
            for carried in agreement.originator.packets_of(sequence) {
                port.tell_agent(carried.parcel.flow, carried.range, cx);
                if let (Some((seq, end)), Some(told)) =
                    (carried.range, told(&port.listeners, carried.parcel.flow))
                {
                    let (retransmissions, delay) = (tries.saturating_sub(1), last_start.since(first_start));
                    let signal = Signal::LinkAck { seq, end, retransmissions, delay };
                    cx.signal(carried.parcel.flow, signal, told);
                }
            }
        }
        self.count(burst.port, cx, |stats| {
            stats.transmitted_fragments += 1;
            stats.transmitted_frames += u64::from(packets);
            stats.retries += u64::from(tries >= 2);
            stats.multiple_retries += u64::from(tries >= 3);
        });
    }

    /// An MPDU has not arrived: it is sent again, or given up.
    fn fail_mpdu(&mut self, index: usize, burst: &Burst, sequence: u16, most: u32, cx: &mut Cx<'_>) {
        let agreement = &mut self.agreements[usize::from(burst.port)][burst.category];
        let Some(mpdu) = agreement.originator.get_mut(sequence) else { return };
        let given_up = mpdu.tries >= most;
        mpdu.done = given_up;
        let Mpdu { tries, delivered, first_start, .. } = *mpdu;
        agreement.originator.owes_request |= given_up;
        if given_up {
            self.lift_charge((burst.port, burst.category), sequence);
        }
        let agreement = &self.agreements[usize::from(burst.port)][burst.category];
        let discards = self.rules[self.stations[index].mac].plan.discards;
        let port = &self.ports[usize::from(burst.port)];
        let (now, window, direction) = (cx.now, cx.window, port.direction);
        for carried in agreement.originator.packets_of(sequence) {
            let parcel = carried.parcel;
            if let (Some((seq, end)), Some(told)) = (carried.range, told(&port.listeners, parcel.flow)) {
                let discarded = match discards {
                    Discards::Attempts => true,
                    Discards::Frames => given_up,
                    Discards::Received | Discards::RateEstimate { .. } => false,
                };
                if discarded {
                    cx.signal(parcel.flow, Signal::MacDiscard { count: 1 }, told);
                }
                let attempts = tries;
                let drop = Signal::LinkDrop { seq, end, attempts };
                let retry = Signal::LinkRetry { seq, end, attempts };
                cx.signal(parcel.flow, if given_up { drop } else { retry }, told);
            }
            if given_up && !delivered {
                cx.link(direction).count_drop(Cause::LinkGaveUp, now, &window);
                let crossing = Some(Crossing { direction, started: Some(first_start) });
                cx.effects.push(Effect::Drop { parcel, cause: Cause::LinkGaveUp, at: now, crossing });
            }
        }
        self.count(burst.port, cx, |stats| stats.failed += u64::from(given_up));
    }

    /// As many RTS as there are tries have had no answer: the first MPDU behind them is given up.
    fn give_up_first(&mut self, index: usize, burst: &Burst, cx: &mut Cx<'_>) {
        if let Some(first) = burst.slices.first() {
            self.fail_mpdu(index, burst, first.sequence, 0, cx);
        }
    }

    /// Hands over what is in queues, drivers and reorder buffers when the run ends.
    pub(super) fn close_exchanges(&mut self, cx: &mut Cx<'_>) {
        let mut held = Vec::new();
        for agreement in self.agreements.iter_mut().flatten() {
            while let Some(Served { parcel, .. }) =
                agreement.queue.as_mut().and_then(|queue| queue.pop(Time::ZERO, &mut self.shed))
            {
                held.push((parcel, None));
            }
            held.extend(agreement.originator.take());
            let arrived = agreement.recipient.take();
            held.extend(arrived.into_iter().map(|arrived| (arrived.parcel, Some(arrived.started))));
        }
        for station in &mut self.stations {
            let Some(exchange) = &mut station.exchange else { continue };
            for function in &mut exchange.functions.list {
                // The order of service does not matter any more, and neither does what would have been thrown away.
                while let Some(Served { parcel, .. }) = function.queue.pop(Time::ZERO, &mut self.shed) {
                    held.push((parcel, None));
                }
            }
        }
        held.extend(self.shed.drain(..).map(|shed| (shed.parcel, None)));
        self.keep(held, cx);
    }
}

/// How long the answer to a burst lasts: an ACK behind a single MPDU, a BlockAck otherwise.
fn answer_time(burst: &Burst, answer: AnswerTimes, long: bool) -> Span {
    if burst.slices.len() == 1 { answer.ack } else { answer.block_ack[usize::from(long)] }
}
