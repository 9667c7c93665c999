//! TFRC as ns-2.35 has it (`Agent/TFRC`, `Agent/TFRCSink`): what the profile `ns2` runs in place of RFC 5348.
//!
//! ns-2's TFRC is older than RFC 5348 and differs from it throughout, so it is a machine of its own, written from its
//! behaviour. Where it differs:
//!
//! - The sender starts with 300 B/s, then 2, 3 or 4 packets per RTT by their size (RFC 3390); slow start doubles once
//!   per RTT up to twice the receive rate, and approaches the new rate packet by packet. Each report in slow start and
//!   each expiry of the nofeedback timer sends a packet at once.
//! - After slow start the rate grows by a packet per RTT for each RTT since the last change, two at most, up to the
//!   equation and twice the receive rate. The timeout in the equation comes from TCP's estimator with 100 ms ticks,
//!   and the equation is capped: min(1, 3 sqrt(3p/8)).
//! - The spacing is always corrected by the square root of the RTT.
//! - The receiver declares a loss with the first later packet; a new loss event must also belong to a later round of
//!   the sender than the last one. Times of losses are interpolated sending times.
//! - Reports follow arrivals at least an RTT apart; a timer of 1.5 RTT covers silence. The loss event rate averages
//!   one interval more than RFC 5348 (`smooth_`), the first interval takes the whole receive rate and the equation is
//!   inverted within 5 %.
//!
//! `sender.rs` and `receiver.rs` drive both ends.

use std::collections::VecDeque;

use lasthop_cc::model::{self, Path};
use lasthop_core::time::{Span, Time};

use super::tfrc::{Common, Report, Sizing};

/// Highest rate that the equation gives, in bytes per second.
const MOST_RATE: f64 = 25e6;
/// Tick of the clock that times the RTT for the timeout, in seconds.
const TICK_S: f64 = 0.1;
/// What counts as no difference between rates.
const SMALL: f64 = 1e-7;
/// Most packets that the sink remembers.
const MOST_PACKETS: usize = 100_000;
/// Arrays of loss intervals: the open one, eight, the smoothing one, and one to spare.
const SLOTS: usize = 34;

/// ns-2's response function in bytes per second.
fn equation(p: f64, rtt_s: f64, rto_s: f64, size: f64) -> f64 {
    let path = Path { rtt_s, rto_s, segments_per_ack: 1.0 };
    let rate = if p > 0.0 { model::padhye(&path, p) * size } else { MOST_RATE };
    if rate.is_finite() { rate.min(MOST_RATE) } else { MOST_RATE }
}

/// ns-2's inverse: bisection that stops within 5 % of `rate`.
fn inverse(rate: f64, rtt_s: f64, rto_s: f64, size: f64) -> f64 {
    let (mut p, mut step) = (0.5, 0.25);
    for _ in 0..=30 {
        let found = equation(p, rtt_s, rto_s, size);
        if found > 0.95 * rate && found < 1.05 * rate {
            break;
        }
        p += if found > rate { step } else { -step };
        step /= 2.0;
    }
    p
}

/// What ns-2's sender is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    /// The first loss was reported; the rate is the equation's.
    Left,
    Increase,
    Decrease,
}

/// The sender.
#[derive(Clone, Debug)]
pub(super) struct Ns2Sender {
    common: Common,
    sizing: Sizing,
    size: f64,
    rate: f64,
    /// Rate before the last doubling, and what each packet adds to it.
    old_rate: f64,
    delta: f64,
    phase: Phase,
    equation: f64,
    /// Twice the receive rate, 0 if unknown.
    max_rate: f64,
    rtt: f64,
    last_rtt: f64,
    mean_root: f64,
    rto: f64,
    srtt8: i64,
    rttvar4: i64,
    last_change: Time,
    nofeedback: Time,
    round: u32,
    urgent: bool,
    reported: bool,
    /// Nothing to send at the last opportunity, and since the nofeedback timer was set.
    data_limited: bool,
    all_idle: bool,
    last_limited: Time,
}

impl Ns2Sender {
    pub(super) fn new(common: Common, sizing: Sizing, size: f64) -> Ns2Sender {
        Ns2Sender {
            common,
            sizing,
            size,
            rate: common.initial_rate,
            old_rate: common.initial_rate,
            delta: 0.0,
            phase: Phase::SlowStart,
            equation: 0.0,
            max_rate: 0.0,
            rtt: 0.0,
            last_rtt: 1.0,
            mean_root: 1.0,
            rto: 0.0,
            srtt8: 0,
            rttvar4: 480,
            last_change: Time::ZERO,
            nofeedback: Time::MAX,
            round: 0,
            urgent: true,
            reported: false,
            data_limited: false,
            all_idle: false,
            last_limited: Time::ZERO,
        }
    }

    /// The first packet leaves.
    pub(super) fn on_start(&mut self, now: Time) {
        self.nofeedback = now + self.two_packets();
    }

    /// The time of two packets, rounded like the spacing of one: with two spaces the timer is due at the same instant,
    /// and then comes first.
    fn two_packets(&self) -> Span {
        Span::from_seconds(self.size / self.rate) * 2
    }

    /// RTT and timeout in seconds, round and urgency, for the header of a packet.
    pub(super) fn header(&self) -> (f64, f64, u32, bool) {
        (self.rtt, self.rto, self.round, self.urgent)
    }

    /// The time to the next opportunity to send. Each call is one step of slow start's gradual increase.
    pub(super) fn next_interval_s(&mut self) -> f64 {
        let rate = if self.round > 2 && self.phase == Phase::SlowStart && self.old_rate + SMALL < self.rate {
            self.old_rate += self.delta;
            self.old_rate
        } else if self.common.oscillation_control {
            self.rate * self.mean_root / self.last_rtt.sqrt()
        } else {
            self.rate
        };
        let interval = self.size / rate;
        match self.sizing {
            Sizing::Small { min_interval_s, .. } => interval.max(min_interval_s),
            _ => interval.max(SMALL),
        }
    }

    /// There was nothing to send at an opportunity.
    pub(super) fn on_empty(&mut self) {
        self.data_limited = true;
    }

    /// The application wrote; whether a packet leaves at once, outside the spacing.
    pub(super) fn on_data(&mut self, now: Time) -> bool {
        let limited = std::mem::replace(&mut self.data_limited, false);
        if limited {
            self.last_limited = now;
            self.all_idle = false;
        }
        limited
    }

    /// The allowed rate in bytes per second.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) fn rtt_s(&self) -> Option<f64> {
        (self.rtt > 0.0).then_some(self.rtt)
    }

    pub(super) fn due(&self) -> Time {
        self.nofeedback
    }

    /// Packets per RTT at the start (RFC 3390).
    fn initial_packets(&self) -> f64 {
        if self.size <= 1095.0 {
            4.0
        } else if self.size < 2190.0 {
            3.0
        } else {
            2.0
        }
    }

    /// A report arrived. Returns the RTT sample, and whether a packet leaves at once.
    pub(super) fn on_report(&mut self, report: &Report, now: Time) -> (Span, bool) {
        self.round += 1;
        self.urgent = false;
        self.max_rate =
            if self.round > 1 && report.receive_rate > 0.0 { 2.0 * report.receive_rate } else { 0.0 };
        let sample = now.since(report.sent) - report.delay;
        self.update_rtt(sample.seconds().max(1e-9));
        let (size, share) = self.sizing.of(self.size);
        self.equation = equation(report.loss_rate, self.rtt, self.rto, size) * share;
        self.set_timer(now);
        if !self.reported || self.phase == Phase::SlowStart && report.loss_rate <= 0.0 {
            self.reported = true;
            self.slow_start(now);
            return (sample, true);
        }
        if self.phase == Phase::SlowStart {
            self.phase = Phase::Left;
            self.old_rate = self.equation;
            self.rate = self.equation;
        } else if self.equation > self.rate {
            self.increase(now);
        } else {
            self.decrease(now);
        }
        (sample, false)
    }

    fn update_rtt(&mut self, sample: f64) {
        let ticks = ((sample / TICK_S + 0.5) as i64).max(1);
        if self.srtt8 == 0 {
            self.srtt8 = ticks << 3;
            self.rttvar4 = ticks << 1;
        } else {
            let error = ticks - (self.srtt8 >> 3);
            self.srtt8 = (self.srtt8 + error).max(1);
            self.rttvar4 = (self.rttvar4 + error.abs() - (self.rttvar4 >> 2)).max(1);
        }
        self.rto = (((self.rttvar4 << 3) + self.srtt8) >> 3) as f64 * TICK_S;
        if self.rtt > 0.0 {
            // Written as ns-2 adds it up: what follows compares times with it.
            let keep = 1.0 - self.common.rtt_gain;
            self.rtt = keep * self.rtt + (1.0 - keep) * sample;
            self.mean_root = keep * self.mean_root + (1.0 - keep) * sample.sqrt();
        } else {
            self.rtt = sample;
            self.mean_root = sample.sqrt();
        }
        self.last_rtt = sample;
    }

    fn set_timer(&mut self, now: Time) {
        self.nofeedback = now + Span::from_seconds(2.0 * self.rtt).max(self.two_packets());
    }

    /// What each packet of the coming RTT adds to the rate.
    fn spread_increase(&mut self) {
        self.delta = (self.rate - self.old_rate) / (self.rate * self.rtt / self.size);
    }

    fn was_limited(&self, now: Time) -> bool {
        self.data_limited || self.last_limited.seconds() > now.seconds() - 1.5 * self.rtt
    }

    fn slow_start(&mut self, now: Time) {
        let initial = self.initial_packets() * self.size / self.rtt;
        let restart = self.was_limited(now) && self.max_rate < initial;
        if self.round <= 2 || self.max_rate > 0.0 && restart {
            self.old_rate = self.rate;
            self.rate = self.rate.max(initial);
            self.spread_increase();
        } else if self.max_rate <= 0.0 {
            self.old_rate = self.rate;
            self.rate = self.size / self.rtt;
            self.delta = 0.0;
        } else if self.rate < self.max_rate && now.since(self.last_change).seconds() > self.rtt {
            self.old_rate = self.rate;
            self.rate = (2.0 * self.rate).min(self.max_rate).max(self.size / self.rtt);
            self.spread_increase();
        } else if self.rate > self.max_rate {
            self.rate = self.max_rate / 2.0;
            self.old_rate = self.rate;
            self.delta = 0.0;
        } else {
            return;
        }
        self.last_change = now;
    }

    fn increase(&mut self, now: Time) {
        let packet = self.size / self.rtt;
        let rtts = (now.since(self.last_change).seconds() / self.rtt).min(2.0);
        let least = if self.was_limited(now) { self.initial_packets() * packet } else { packet };
        self.rate = (self.rate + packet * rtts).min(self.max_rate.max(least).min(self.equation));
        self.phase = Phase::Increase;
        self.last_change = now;
    }

    fn decrease(&mut self, now: Time) {
        self.rate = self.equation.min(self.max_rate.max(self.size / self.rtt));
        self.phase = Phase::Decrease;
        self.last_change = now;
    }

    /// The nofeedback timer expired: a packet leaves at once. Returns whether the rate was lowered.
    pub(super) fn on_timer(&mut self, now: Time) -> bool {
        let before = self.rate;
        if self.phase != Phase::SlowStart {
            self.phase = Phase::Decrease;
        }
        if !self.all_idle && !self.data_limited {
            self.rate *= 0.5;
        } else if self.rtt > 0.0 {
            let initial = self.initial_packets() * self.size / self.rtt;
            if self.rate > 2.0 * initial {
                self.rate *= 0.5;
            } else if self.rate > initial {
                self.rate = initial;
            }
        }
        self.urgent = true;
        self.round += 1;
        self.set_timer(now);
        self.all_idle |= self.data_limited;
        self.rate < before
    }
}

/// What the sink stores about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    Received,
    /// Marked, within a known loss event.
    Marked,
    /// Lost or marked, and the first of a loss event.
    Event,
    /// Lost, within a known loss event.
    Lost,
}

/// A packet in the sink's memory; times in seconds, as ns-2 compares them.
#[derive(Clone, Copy, Debug)]
struct Known {
    state: State,
    arrived: f64,
    sent: f64,
}

/// A packet as the sink sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ns2Arrival {
    pub(super) number: u64,
    pub(super) payload: u32,
    pub(super) marked: bool,
    pub(super) sent: Time,
    pub(super) rtt_s: f64,
    pub(super) rto_s: f64,
    pub(super) round: u32,
    pub(super) urgent: bool,
}

/// What a packet that arrived calls for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// A report must go out at once.
    pub(super) at_once: bool,
    /// The first loss event rate, if the history has just begun; it goes into that report.
    pub(super) first: Option<f64>,
}

/// The receiver.
#[derive(Clone, Debug)]
pub(super) struct Ns2Sink {
    common: Common,
    sizing: Sizing,
    short_intervals: bool,
    /// Packets from number `base` on.
    packets: VecDeque<Known>,
    base: i64,
    /// Highest number, and the highest up to which losses have been judged.
    highest: i64,
    judged: i64,
    out_of_order: u32,
    rtt: f64,
    rto: f64,
    size: f64,
    round: i64,
    last_sent: Time,
    last_arrival: Time,
    last_report: Time,
    received: u64,
    loss_seen: bool,
    last_loss: f64,
    last_loss_round: i64,
    timer: Time,
    // The weighted average of loss intervals; index 0 is the open one.
    slots: usize,
    samples: [f64; SLOTS],
    losses: [f64; SLOTS],
    short: [bool; SLOTS],
    discounts: [f64; SLOTS],
    discount: f64,
    count: usize,
    next_sample: i64,
}

impl Ns2Sink {
    pub(super) fn new(common: Common, sizing: Sizing) -> Ns2Sink {
        Ns2Sink {
            slots: (common.intervals + usize::from(common.smooth)).min(SLOTS - 1),
            short_intervals: matches!(sizing, Sizing::Small { .. }),
            common,
            sizing,
            packets: VecDeque::new(),
            base: 0,
            highest: -1,
            judged: -1,
            out_of_order: 0,
            rtt: 0.0,
            rto: 0.0,
            size: 0.0,
            round: 0,
            last_sent: Time::ZERO,
            last_arrival: Time::ZERO,
            last_report: Time::ZERO,
            received: 0,
            loss_seen: false,
            last_loss: 0.0,
            last_loss_round: -1,
            timer: Time::MAX,
            samples: [0.0; SLOTS],
            losses: [0.0; SLOTS],
            short: [false; SLOTS],
            discounts: [1.0; SLOTS],
            discount: 1.0,
            count: 1,
            next_sample: 0,
        }
    }

    fn known(&mut self, number: i64) -> Option<&mut Known> {
        self.packets.get_mut(usize::try_from(number - self.base).ok()?)
    }

    fn sent_at(&mut self, number: i64) -> f64 {
        self.known(number).map_or(-1.0, |known| known.sent)
    }

    /// Makes room up to `number`.
    fn extend(&mut self, number: i64) {
        if self.packets.is_empty() {
            self.base = number;
        }
        while self.base + (self.packets.len() as i64) <= number {
            self.packets.push_back(Known { state: State::Unknown, arrived: -1.0, sent: -1.0 });
        }
        while self.packets.len() > MOST_PACKETS {
            self.packets.pop_front();
            self.base += 1;
        }
    }

    /// Whether a loss sent at `sent` begins a loss event.
    fn begins_event(&mut self, sent: f64) -> bool {
        let elapsed = sent - self.last_loss;
        if elapsed <= self.rtt || self.common.round_ids && self.round <= self.last_loss_round {
            return false;
        }
        self.last_loss = sent;
        self.last_loss_round = self.round;
        if elapsed < 2.0 * self.rtt {
            self.short[0] = true;
        }
        true
    }

    /// A packet arrives.
    pub(super) fn on_packet(&mut self, packet: &Ns2Arrival, now: Time) -> Taken {
        let number = packet.number as i64;
        self.received += 1;
        if self.highest < 0 && self.packets.is_empty() {
            self.highest = number - 1;
            self.judged = number;
        }
        let before = self.highest;
        let missing =
            number > self.judged && self.known(number).is_some_and(|known| known.state == State::Unknown);
        let (mut urgent, mut event) = (false, false);
        self.pass_silence(now);
        if number > before || missing {
            self.extend(number);
            self.out_of_order += u32::from(number > self.judged + 1);
            urgent = packet.urgent;
            self.round = i64::from(packet.round);
            self.rtt = packet.rtt_s;
            self.rto = packet.rto_s;
            self.size = f64::from(packet.payload);
            self.last_arrival = now;
            self.last_sent = packet.sent;
            let sent = packet.sent.seconds();
            let mut state = State::Received;
            if packet.marked {
                event = self.begins_event(sent);
                state = if event { State::Event } else { State::Marked };
                self.losses[0] += 1.0;
            }
            if let Some(known) = self.known(number) {
                *known = Known { state, arrived: now.seconds(), sent };
            }
        }
        let marked_event = event;
        let since_judged = {
            let judged = self.judged;
            packet.sent.seconds() - self.sent_at(judged)
        };
        if number > self.judged
            && (event || self.out_of_order >= self.common.loss_packets || since_judged > self.rtt)
        {
            event |= self.judge(before, number, now);
            self.judged = number;
            self.out_of_order = 0;
        } else if number == self.judged + 1 {
            self.judged = number;
            self.out_of_order = 0;
        }
        let mut first = None;
        if number > before {
            self.highest = number;
            if !self.loss_seen && (number - before > 1 || marked_event) {
                urgent = true;
                self.loss_seen = true;
                first = Some(self.begin_history(packet.sent.seconds(), now));
            }
            urgent |= self.rtt > SMALL && now.since(self.last_report).seconds() >= self.rtt;
        }
        Taken { at_once: urgent || event, first }
    }

    /// Gives up everything unknown up to `number`; whether a loss event began.
    fn judge(&mut self, before: i64, number: i64, now: Time) -> bool {
        let mut event = false;
        let (from, to) = (self.sent_at(before), self.sent_at(number));
        for missing in self.judged..number {
            if self.known(missing).is_none_or(|known| known.state != State::Unknown) {
                continue;
            }
            let step = (to - from) / (number - before) as f64;
            let sent = from + (missing - before) as f64 * step;
            let begins = self.begins_event(sent);
            if let Some(known) = self.known(missing) {
                let state = if begins { State::Event } else { State::Lost };
                *known = Known { state, arrived: now.seconds(), sent };
            }
            self.losses[0] += 1.0;
            event |= begins;
        }
        event
    }

    /// The first loss: the history begins with the interval that the receive rate stands for.
    fn begin_history(&mut self, sent: f64, now: Time) -> f64 {
        for known in &mut self.packets {
            if known.state == State::Event {
                known.state = State::Lost;
            }
        }
        self.last_loss = sent;
        self.last_loss_round = self.round;
        // The share of headers is left out here (`b_to_p` of the sink).
        let (size, _) = self.sizing.of(self.size);
        let p = inverse(self.receive_rate(now) * self.size, self.rtt, self.rto, size);
        self.samples[1] = (1.0 / p).trunc();
        self.samples[0] = 0.0;
        self.losses[0] = 1.0;
        self.losses[1] = 0.0;
        self.short[0] = false;
        self.short[1] = false;
        self.count += 1;
        p
    }

    /// Packets per second since the last report, or over the last RTT.
    fn receive_rate(&self, now: Time) -> f64 {
        let elapsed = now.since(self.last_report).seconds();
        if self.rtt > 0.0 && elapsed >= self.rtt {
            return if self.received > 0 { self.received as f64 / elapsed } else { 1.0 };
        }
        if self.rtt <= 0.0 {
            return 1.0;
        }
        let Some(last) = self.packets.get((self.highest - self.base) as usize) else { return 1.0 };
        // Packet 0 is never counted.
        let first = usize::from(self.base == 0);
        let recent = self.packets.range(first..=(self.highest - self.base) as usize).rev();
        let received = recent
            .take_while(|known| known.state != State::Received || known.arrived + self.rtt > last.arrived)
            .filter(|known| known.state == State::Received)
            .count();
        if received > 0 { received as f64 / self.rtt } else { 1.0 }
    }

    fn period(&self) -> Span {
        Span::from_seconds(self.common.feedback_rtts * self.rtt)
    }

    /// The timer goes on where nothing has arrived, and reports nothing: what comes now is reported at its next turn.
    fn pass_silence(&mut self, now: Time) {
        let period = self.period();
        if self.timer < now && period > Span::ZERO {
            let turns = now.since(self.timer).0.div_ceil(period.0);
            self.timer += Span(turns * period.0);
        }
    }

    /// When the silence timer is due; it reports only what has arrived since the last report.
    pub(super) fn due(&self) -> Option<Time> {
        (self.timer < Time::MAX && self.last_arrival >= self.last_report).then_some(self.timer)
    }

    /// Makes a report; `first` is the loss event rate of the first loss.
    pub(super) fn report(&mut self, now: Time, first: Option<f64>) -> Report {
        let loss_rate = first.unwrap_or_else(|| self.loss_event_rate(now));
        let receive_rate = self.receive_rate(now) * self.size;
        self.last_report = now;
        self.received = 0;
        if self.rtt > 0.0 {
            self.timer = now + self.period();
        }
        Report { sent: self.last_sent, delay: now.since(self.last_arrival), receive_rate, loss_rate }
    }

    fn weight(&self, index: usize) -> f64 {
        let middle = self.slots / 2;
        if index < middle {
            return 1.0;
        }
        let beyond = (index - middle) as f64 + if self.common.smooth { 0.0 } else { 1.0 };
        1.0 - beyond / (middle as f64 + 1.0)
    }

    /// The length of an interval, which RFC 4828 shortens.
    fn length(&self, index: usize) -> f64 {
        if self.short_intervals && self.short[index] && self.losses[index] > 0.0 {
            (self.samples[index] / self.losses[index]).trunc()
        } else {
            self.samples[index]
        }
    }

    /// The weighted mean of the intervals from `start` on.
    fn mean(&self, start: usize, mut end: usize, discount: f64) -> f64 {
        let shift = usize::from(self.common.smooth && start == 0);
        if shift == 1 && end == self.slots + 1 {
            end -= 1;
        }
        let weight = |index: usize| {
            self.discounts[index] * self.weight(index + shift) * if index == 0 { 1.0 } else { discount }
        };
        let weights: f64 = (start..end).map(weight).sum();
        (start..end).map(|index| weight(index) * self.length(index) / weights).sum()
    }

    fn loss_event_rate(&mut self, now: Time) -> f64 {
        while self.next_sample <= self.highest {
            self.samples[0] += 1.0;
            let number = self.next_sample;
            if self.known(number).is_some_and(|known| known.state == State::Event) {
                self.count += 1;
                let last = self.slots;
                self.samples.copy_within(0..last, 1);
                self.losses.copy_within(0..last, 1);
                self.short.copy_within(0..last, 1);
                self.discounts[1..=last].iter_mut().for_each(|discount| *discount *= self.discount);
                self.discounts.copy_within(0..last, 1);
                self.samples[0] = 0.0;
                self.losses[0] = 1.0;
                self.short[0] = true;
                self.discounts[0] = 1.0;
                self.discount = 1.0;
            }
            self.next_sample += 1;
        }
        if now.seconds() - self.last_loss > 2.0 * self.rtt {
            self.short[0] = false;
        }
        if self.count == 1 {
            return 0.0;
        }
        let end = self.count.min(self.slots + 1);
        if self.common.discount_floor < 1.0 && self.samples[0] > 0.0 {
            let ratio = 2.0 * self.mean(1, end, 1.0) / self.samples[0];
            if ratio < 1.0 {
                self.discount = ratio.max(self.common.discount_floor);
            }
        }
        let with_open = self.mean(0, end, self.discount);
        1.0 / with_open.max(self.mean(1, end, self.discount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::rate::tfrc;

    fn common() -> Common {
        let mut params = tfrc::Params::default();
        for &(name, value) in tfrc::NS2_DEFAULTS {
            let _ = params.set(name, value);
        }
        params.common()
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn the_inverse_ends_within_five_percent() {
        for packets in [20.0, 100.0, 400.0] {
            let rate = packets * 1000.0;
            let p = inverse(rate, 0.1, 0.4, 1000.0);
            let found = equation(p, 0.1, 0.4, 1000.0);
            assert!((found / rate - 1.0).abs() < 0.05, "{packets}: {found}");
        }
        assert_eq!(equation(0.0, 0.1, 0.4, 1000.0), MOST_RATE);
    }

    /// The weights of `smooth_`: eight intervals, the first of them the open one, or nine without it.
    #[test]
    fn the_smoothed_average_has_nine_weights() {
        let sink = Ns2Sink::new(common(), Sizing::Own);
        let weights: Vec<f64> = (0..10).map(|index| (sink.weight(index) * 10.0).round() / 10.0).collect();
        assert_eq!(weights, [1.0, 1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2, 0.0]);
    }

    #[test]
    fn slow_start_doubles_up_to_twice_the_receive_rate() {
        let mut sender = Ns2Sender::new(common(), Sizing::Own, 1000.0);
        sender.on_start(Time::ZERO);
        assert_eq!(sender.due(), Time::ZERO + Span::from_seconds(1000.0 / 300.0) * 2);
        let mut report = Report { sent: at(0), delay: Span::ZERO, receive_rate: 1000.0, loss_rate: 0.0 };
        assert!(sender.on_report(&report, at(100)).1);
        assert!((sender.rate() - 40_000.0).abs() < 1e-6);
        report = Report { sent: at(101), receive_rate: 30_000.0, ..report };
        sender.on_report(&report, at(202));
        assert!((sender.rate() - 40_000.0).abs() < 1e3, "the second report is too early to tell");
        report = Report { sent: at(205), receive_rate: 38_000.0, ..report };
        sender.on_report(&report, at(306));
        assert!((sender.rate() - 76_000.0).abs() < 1e-6, "{}", sender.rate());
        // A loss ends slow start at the rate of the equation.
        report = Report { sent: at(310), loss_rate: 0.01, ..report };
        assert!(!sender.on_report(&report, at(410)).1);
        assert_eq!(sender.phase, Phase::Left);
    }

    #[test]
    fn a_loss_is_judged_by_the_next_packet_and_events_need_a_new_round() {
        let mut sink = Ns2Sink::new(common(), Sizing::Own);
        let mut arrive = |number: u64, round: u32| {
            let packet = Ns2Arrival {
                number,
                payload: 1000,
                marked: false,
                sent: at(number * 10),
                rtt_s: 0.1,
                rto_s: 0.4,
                round,
                urgent: false,
            };
            let Taken { at_once, first } = sink.on_packet(&packet, at(number * 10 + 50));
            at_once.then(|| sink.report(at(number * 10 + 50), first).loss_rate)
        };
        for number in 0..100 {
            arrive(number, 1);
        }
        let first = arrive(101, 2).unwrap();
        assert!(first > 0.0, "reported at once");
        (102..130).for_each(|number| assert!(arrive(number, 2).is_none_or(|rate| rate <= first)));
        // 130 is 300 ms later, but still in round 2.
        let same = arrive(131, 2).unwrap_or(0.0);
        let next = (132..160).filter_map(|number| arrive(number, 3)).last().unwrap();
        assert!(same <= first && next <= first);
        assert!(arrive(161, 4).is_some(), "a new event in a new round");
        // The loss of 130 was no event. The history began with what came after the report on packet 95.
        assert_eq!((sink.count, sink.samples[1]), (3, 65.0));
    }
}
