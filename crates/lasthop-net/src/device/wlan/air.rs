//! What happens in the air: who hears whom, when frames begin and end, and what becomes of them at each receiver.
//!
//! `access.rs` decides when a station transmits. What a receiver makes of a frame (its acknowledgement, its NAV, the
//! packet in it) is here, because it follows from what was heard.

use lasthop_cc::Signal;
use lasthop_core::packet::Cause;
use lasthop_core::time::{Span, Time};

use super::counters::RadioStats;
use super::exchange::Answered;
use super::frame::{FrameKind, FrameOutcome};
use super::mode::Mode;
use super::plan::{Discards, Interference};
use super::rate_adaptation::RateChoice;
use super::station::{Answer, Awaited, EVERYBODY, Lock, NEVER, NO_PORT};
use super::{Hearer, Medium, OnAir, REFRESH};
use crate::channel::Frame;
use crate::device::{Crossing, Cx, Effect, Parcel};
use crate::plan::ErrorPosition;
use crate::propagation::{dbm, decibels};
use crate::trace::{FrameRecord, Frames};

/// How long a receiver looks for the preamble of a frame, as long as CCA may take (17.3.6).
const DETECTION: Span = Span::from_nanos(4_000);

impl Medium {
    /// Computes the powers of all pairs.
    pub(super) fn look_around(&mut self, now: Time) {
        self.rouse_all();
        let plan = &self.plan;
        let count = plan.stations.len();
        self.refreshed = now;
        let places: Vec<_> = plan.stations.iter().map(|station| station.track.at(now)).collect();
        // Weaker frames than these add nothing to what is there anyway.
        let least = match plan.interference {
            Interference::Pairwise => plan.sense_threshold,
            Interference::Summed => plan.noise.map_or(plan.sense_threshold / 100.0, |noise| noise / 10.0),
        };
        (self.together, self.clear) = (true, vec![true; count]);
        for from in 0..count {
            self.hearers[from].clear();
            for to in 0..count {
                let index = from * count + to;
                let power =
                    plan.propagation.received(places[from].distance(places[to])) * self.shadows[index];
                self.powers[index] = power;
                let senses = power >= plan.sense_threshold;
                self.together &= senses || from == to;
                if from != to && (senses || power >= least) {
                    self.clear[from] &= senses && power >= plan.receive_threshold;
                    self.hearers[from].push(Hearer { station: to as u16, power, senses });
                }
            }
        }
    }

    fn power(&self, from: u16, to: u16) -> f64 {
        self.powers[from as usize * self.stations.len() + to as usize]
    }

    /// The interference at `station` of all who transmit, but for `wanted`.
    fn interference(&self, station: u16, wanted: u16) -> f64 {
        let powers = self.transmitting.iter().filter(|&&from| from != wanted && from != station);
        let powers = powers.map(|&from| self.power(from, station));
        match self.plan.interference {
            Interference::Pairwise => {
                let sensed = powers.filter(|&power| power >= self.plan.sense_threshold);
                sensed.fold(0.0, f64::max)
            }
            Interference::Summed => powers.sum(),
        }
    }

    /// Notes when a station acts next.
    #[inline]
    pub(super) fn note_due(&mut self, station: usize) {
        let count = self.stations.len();
        self.agenda.set(count + station, self.stations[station].due());
    }

    /// A station starts to transmit.
    pub(super) fn transmit(
        &mut self,
        from: usize,
        kind: FrameKind,
        (to, rate, bytes, nav): (u16, usize, u32, Span),
        now: Time,
    ) -> Time {
        let airtime = self.rules[self.stations[from].mac].plan.airtime(bytes, rate);
        let (sequence, retry) = self.stations[from]
            .current
            .as_ref()
            .map_or((0, false), |msdu| (msdu.sequence, msdu.attempts > 1));
        self.transmit_for(
            from,
            airtime,
            OnAir { kind, to, rate, bytes, nav, sequence, retry, start: now, burst: false },
        )
    }

    /// A station starts to transmit for this long, what `frame` says.
    pub(super) fn transmit_for(&mut self, from: usize, airtime: Span, frame: OnAir) -> Time {
        let now = frame.start;
        // A station that moves is received elsewhere; not during a transmission, so that every frame ends as it began.
        if self.moves && self.transmitting.is_empty() && now.since(self.refreshed) >= REFRESH {
            self.look_around(now);
        }
        let flight = self.plan.flight;
        // The duration field counts microseconds. Where airtimes do not (ns-2), a reservation can outlast the exchange:
        // a station that has overheard the RTS then counts later than those that took part, and finds the medium
        // taken where it would have collided with them.
        let nav = Span((frame.nav.0 + 500) / 1_000 * 1_000);
        self.write_down_locks();
        let station = &mut self.stations[from];
        let done = now + airtime;
        let end = done + flight;
        debug_assert!(!station.sending, "one frame at a time");
        station.sending = true;
        if self.rules[station.mac].plan.eifs_as_nav {
            // It goes on receiving, in vain (ns-2).
            if let Some(lock) = &mut station.lock {
                lock.lost = true;
            }
        } else {
            station.lock = None;
            // EIFS follows the frame that was damaged (10.3.2.3.7), not what comes after a frame of its own.
            station.eifs = false;
        }
        station.access = NEVER;
        self.air[from] = Some(OnAir { nav, ..frame });
        self.agenda.set(from, end);
        self.transmitting.push(from as u16);
        let heard = now + flight;
        if self.transmitting.len() == 1 {
            self.lone = Some(from as u16);
            if self.together {
                let mut next = self.resting.next_awake(0);
                while let Some(index) = next {
                    next = self.resting.next_awake(index + 1);
                    if index != from {
                        self.sense(index, heard);
                    }
                }
            } else {
                let hearers = std::mem::take(&mut self.hearers[from]);
                for hearer in hearers.iter().filter(|hearer| hearer.senses) {
                    self.sense(usize::from(hearer.station), heard);
                }
                self.hearers[from] = hearers;
            }
        } else {
            let hearers = std::mem::take(&mut self.hearers[from]);
            for &Hearer { station: index, power, senses } in &hearers {
                self.hear_start(index, from as u16, (power, senses), (heard, end));
            }
            self.hearers[from] = hearers;
        }
        done
    }

    /// A frame begins that reaches a station at `heard`. If preambles have to be found, it is sensed a little later.
    #[inline]
    fn sense(&mut self, index: usize, heard: Time) {
        let station = &mut self.stations[index];
        let sensed = if self.plan.noticed > 0.0 { heard + DETECTION } else { heard };
        if station.sense(&self.rules, sensed) {
            let due = station.due();
            self.agenda.set(self.hearers.len() + index, due);
        }
    }

    /// The frame of the only one that transmits gets company: writes down what those who hear it are locked on.
    #[inline]
    fn write_down_locks(&mut self) {
        let Some(from) = self.lone else { return };
        self.rouse_all();
        self.lone = None;
        let until = self.agenda.at(usize::from(from));
        for hearer in self.hearers[usize::from(from)].iter().filter(|hearer| hearer.senses) {
            self.stations[usize::from(hearer.station)].lock =
                Some(Lock::undisturbed(from, hearer.power, until));
        }
    }

    /// A station begins to hear a frame.
    #[inline]
    fn hear_start(
        &mut self,
        index: u16,
        from: u16,
        (power, senses): (f64, bool),
        (heard, end): (Time, Time),
    ) {
        if senses {
            self.sense(index.into(), heard);
        }
        let plan = &self.plan;
        let station = &mut self.stations[index as usize];
        // In ns-2 a station that transmits receives as well, and has lost what outlasts its own frame.
        let lost = station.sending;
        if lost && !self.rules[station.mac].plan.eifs_as_nav {
            return;
        }
        let Some(lock) = &mut station.lock else {
            if senses {
                let interference = self.interference(index, from);
                let disturbed = if lost || interference > 0.0 { Time::ZERO } else { NEVER };
                let start = Lock { lost, disturbed, ..Lock::undisturbed(from, power, end) };
                let lock = start.beside(interference, plan.noticed);
                self.stations[index as usize].lock = Some(lock);
            }
            return;
        };
        let captures = plan.capture;
        if plan.message_in_message && power >= lock.power * captures {
            let interference = self.interference(index, from);
            let start = Lock { disturbed: Time::ZERO, ..Lock::undisturbed(from, power, end) };
            self.stations[index as usize].lock = Some(start.beside(interference, plan.noticed));
            return;
        }
        let wanted = lock.from;
        let present = match plan.interference {
            Interference::Pairwise => power,
            Interference::Summed => self.interference(index, wanted),
        };
        let begun = self.air[usize::from(wanted)].map_or(NEVER, |frame| frame.start + plan.flight);
        let Some(lock) = &mut self.stations[index as usize].lock else { return };
        let noticed = if heard < begun + DETECTION { plan.noticed } else { 0.0 };
        *lock = lock.beside(present, noticed);
        lock.quiet = if lock.disturbed == NEVER { end } else { lock.quiet.max(end) };
        lock.disturbed = lock.disturbed.min(heard);
        let survives = plan.noise.is_some() || lock.power >= present * captures;
        let until = lock.until;
        if survives {
            let station = &mut self.stations[index as usize];
            let rules = &self.rules[station.mac];
            // Who is about to send, before it can have heard anything, hears the rest of neither.
            if rules.plan.eifs_as_nav && senses && station.access == NEVER {
                // What it has drowned out keeps it quiet as if it had lost it (ns-2).
                station.nav = station.nav.max(end + rules.eifs);
            }
        } else {
            lock.lost = true;
            // The longer of two frames that are lost keeps the receiver occupied; of an aggregate it has what came
            // first.
            let aggregate = self.air[usize::from(wanted)].is_some_and(|frame| frame.burst);
            if senses && end > until && !aggregate {
                let disturbed = Time::ZERO;
                let unnoticed = lock.unnoticed;
                let start = Lock::undisturbed(from, power, end);
                *lock = Lock { interference: present, lost: true, unnoticed, disturbed, ..start };
            }
        }
    }

    /// The frame of `from` ends for all who hear it.
    pub(super) fn finish(&mut self, from: usize, cx: &mut Cx<'_>) {
        let now = cx.now;
        let until = self.agenda.at(from);
        self.agenda.set(from, NEVER);
        let Some(frame) = self.air[from].take() else { return };
        if let Some(place) = self.transmitting.iter().position(|&station| usize::from(station) == from) {
            self.transmitting.swap_remove(place);
        }
        if self.traced == Frames::All {
            let sent = (from as u16, f64::NAN, FrameOutcome::Sent);
            if frame.burst {
                self.record_burst(from as u16, &frame, sent, cx);
            } else {
                self.record_frame(from as u16, &frame, sent, cx);
            }
        }
        let station = &mut self.stations[from];
        station.sending = false;
        if station.sensed == 0 {
            station.idle_since = now - self.plan.flight;
        }
        let hearers = std::mem::take(&mut self.hearers[from]);
        if self.lone.is_some() {
            self.end_lone((from as u16, until), &hearers, &frame, cx);
        } else {
            for hearer in &hearers {
                let lock = &mut self.stations[usize::from(hearer.station)].lock;
                let lock = lock.take_if(|lock| usize::from(lock.from) == from);
                self.hear_end(hearer, (from as u16, lock), &frame, cx);
            }
        }
        self.hearers[from] = hearers;
        self.after_own_frame(from, &frame, cx);
    }

    /// What a station does when its own frame is over.
    fn after_own_frame(&mut self, from: usize, frame: &OnAir, cx: &mut Cx<'_>) {
        let station = &mut self.stations[from];
        match (frame.kind, frame.to) {
            (FrameKind::Cts, EVERYBODY) => {
                // It has made room for its own data.
                station.answer = Answer::Data;
                station.answer_at = cx.now - self.plan.flight + self.rules[station.mac].sifs;
            }
            (FrameKind::End, _) => self.leave(from, cx.now - self.plan.flight),
            // No station answers.
            (FrameKind::Beacon | FrameKind::Data, EVERYBODY) if station.exchange.is_some() => {
                self.end_beacon(from, cx.now);
            }
            (FrameKind::Beacon | FrameKind::Data, EVERYBODY) => {
                self.complete(from, cx.now);
                self.fetch(from, cx);
                let station = &mut self.stations[from];
                station.reschedule(&self.rules[station.mac], cx.now);
            }
            _ => station.reschedule(&self.rules[station.mac], cx.now),
        }
        self.note_due(from);
    }

    /// A frame ends that nothing has disturbed. Where errors do not either, those for whom it is not make little of it.
    #[inline]
    fn end_lone(&mut self, (from, until): (u16, Time), hearers: &[Hearer], frame: &OnAir, cx: &mut Cx<'_>) {
        let now = cx.now;
        let is_update = (frame.kind, frame.to) == (FrameKind::Data, EVERYBODY);
        let unread = frame.burst && self.mixed;
        let simple = !unread && frame.kind != FrameKind::End;
        let plain = self.clear[usize::from(from)] && self.flawless && self.traced != Frames::All && simple;
        if !plain || is_update && self.routing.is_some() {
            self.rouse_all();
            self.lone = None;
            for hearer in hearers.iter().filter(|hearer| hearer.senses) {
                let lock = Lock::undisturbed(from, hearer.power, until);
                self.hear_end(hearer, (from, Some(lock)), frame, cx);
            }
            return;
        }
        if frame.to != EVERYBODY {
            self.rouse(usize::from(frame.to));
        }
        self.lone = None;
        if let Ok(place) = hearers.binary_search_by_key(&frame.to, |hearer| hearer.station) {
            let hearer = &hearers[place];
            let lock = Lock::undisturbed(from, hearer.power, until);
            self.hear_end(hearer, (from, Some(lock)), frame, cx);
        }
        // No station counts down where all receive the answer before they could begin to.
        let answered = self.together
            && self.stations.get(usize::from(frame.to)).is_some_and(|station| station.answer_at != NEVER);
        let heard = (now, now + frame.nav);
        if self.together {
            self.overhear_resting(heard);
            let mut next = self.resting.next_awake(0);
            while let Some(index) = next {
                next = self.resting.next_awake(index + 1);
                if index != usize::from(from) && index != usize::from(frame.to) {
                    self.overhear(index, heard, answered);
                }
            }
        } else {
            for hearer in hearers.iter().filter(|hearer| hearer.station != frame.to) {
                self.overhear(usize::from(hearer.station), heard, answered);
            }
        }
    }

    /// A frame for another station ends at a station `now`, and reserves the medium until `nav`.
    #[inline]
    fn overhear(&mut self, index: usize, (now, nav): (Time, Time), answered: bool) {
        let station = &mut self.stations[index];
        station.overhear((now, nav));
        if !answered {
            station.reschedule(&self.rules[station.mac], now);
            self.agenda.set(self.hearers.len() + index, station.due());
        }
        if self.together && self.routing.is_none() && !self.roams && station.is_without_work() {
            self.resting.add(index);
        }
    }

    /// A frame ends at one who hears it, and was perhaps locked on it.
    #[inline]
    fn hear_end(
        &mut self,
        hearer: &Hearer,
        (from, locked): (u16, Option<Lock>),
        frame: &OnAir,
        cx: &mut Cx<'_>,
    ) {
        let index = hearer.station as usize;
        let now = cx.now;
        let gain = self.faders.get(usize::from(from) * self.stations.len() + index);
        let gain = gain.map_or(1.0, |fader| fader.gain(frame.start));
        let locked = locked.map(|lock| Lock { power: lock.power * gain, ..lock });
        let station = &mut self.stations[index];
        if hearer.senses {
            station.sensed -= 1;
        }
        if let Some(lock) = locked.filter(|_| frame.burst)
            && !station.sending
        {
            self.hear_burst(hearer.station, from, &lock, frame, cx);
        } else if let Some(lock) = locked
            && !station.sending
        {
            let outcome = self.judge(hearer.station, from, &lock, frame, cx);
            let is_meant = frame.to == hearer.station;
            if self.traced == Frames::All || is_meant && self.records(outcome) {
                self.record_frame(from, frame, (hearer.station, dbm(lock.power), outcome), cx);
            }
            if outcome == FrameOutcome::Read {
                self.stations[index].eifs = false;
                self.receive_frame(hearer.station, from, lock.power, frame, cx);
            } else {
                self.miss_frame((hearer.station, from), outcome, (&lock, frame), cx);
            }
        }
        let station = &mut self.stations[index];
        if hearer.senses && station.sensed == 0 && !station.sending {
            station.idle_since = now;
            station.reschedule(&self.rules[station.mac], now);
        }
        self.agenda.set(self.hearers.len() + index, station.due());
    }

    /// What becomes of a frame at a receiver that was locked on it.
    fn judge(&mut self, at: u16, from: u16, lock: &Lock, frame: &OnAir, cx: &mut Cx<'_>) -> FrameOutcome {
        self.judge_until(at, from, lock, (frame, cx.now, None), cx)
    }

    /// The same for what ends at `end`, and is sent with `mode` if not at one of the rates of the PHY.
    #[inline]
    pub(super) fn judge_until(
        &mut self,
        at: u16,
        from: u16,
        lock: &Lock,
        (frame, end, mode): (&OnAir, Time, Option<Mode>),
        cx: &mut Cx<'_>,
    ) -> FrameOutcome {
        let plan = &self.plan;
        if self.flawless {
            let collided = lock.lost || lock.power < lock.interference * plan.capture;
            return match lock.power < plan.receive_threshold {
                true => FrameOutcome::TooWeak,
                false if collided => FrameOutcome::Collided,
                false => FrameOutcome::Read,
            };
        }
        let count = self.stations.len();
        let pair = usize::from(from) * count + usize::from(at);
        // The error model judges every frame that the receiver is locked on, so that a collision does not shift the
        // losses after it.
        let (start, bytes) = (frame.start, frame.bytes);
        let corrupt = match self.between[pair] {
            NO_PORT => self.others[pair].as_mut().is_some_and(|air| {
                air.corrupts(ErrorPosition::AfterTransmission, &Frame { start, end, bytes })
            }),
            port => {
                let direction = self.ports[port as usize].direction;
                cx.link(direction).judge_attempt(start, end, bytes).is_some()
            }
        };
        if let (Some(noise), Some(table)) = (plan.noise, &self.table) {
            if lock.power < plan.receive_threshold {
                return FrameOutcome::TooWeak;
            }
            if lock.lost {
                return FrameOutcome::Collided;
            }
            let sinr = decibels(lock.power / (noise + lock.interference));
            let mac = &plan.macs[self.stations[usize::from(from)].mac];
            let loss = match mode {
                Some(mode) => table.loss_of_mode(mode, frame.bytes, sinr),
                None => table.loss(mac.phy, frame.rate, frame.bytes, sinr),
            };
            if self.luck[pair].uniform() < loss {
                return if lock.interference > noise {
                    FrameOutcome::Collided
                } else {
                    FrameOutcome::Corrupt
                };
            }
        } else {
            if lock.power < plan.receive_threshold {
                return FrameOutcome::TooWeak;
            }
            if lock.lost || lock.power < lock.interference * plan.capture {
                return FrameOutcome::Collided;
            }
        }
        if corrupt { FrameOutcome::Corrupt } else { FrameOutcome::Read }
    }

    /// The port whose counters take what a station hears from another.
    pub(super) fn heard_port(&self, at: u16, from: u16) -> u16 {
        match self.between[usize::from(from) * self.stations.len() + usize::from(at)] {
            NO_PORT => self.stations[usize::from(at)].inbound,
            port => port,
        }
    }

    /// Whether a frame is recorded of which this came at the station that it was for.
    pub(super) fn records(&self, outcome: FrameOutcome) -> bool {
        match self.traced {
            Frames::None => false,
            Frames::Collided => outcome == FrameOutcome::Collided,
            Frames::All => true,
        }
    }

    /// Records a frame at a station.
    #[cold]
    fn record_frame(
        &self,
        from: u16,
        frame: &OnAir,
        (at, dbm, outcome): (u16, f64, FrameOutcome),
        cx: &mut Cx<'_>,
    ) {
        let node = |station: u16| self.plan.stations[usize::from(station)].node as u32;
        let sender = &self.stations[usize::from(from)];
        let msdu = sender.current.filter(|_| frame.kind == FrameKind::Data);
        // One that has been delivered is on its way elsewhere, or gone.
        let parcel = msdu.filter(|msdu| !msdu.delivered).and_then(|msdu| msdu.parcel);
        let at_sender = outcome == FrameOutcome::Sent;
        let record = Box::new(FrameRecord {
            start: frame.start,
            end: if at_sender { cx.now - self.plan.flight } else { cx.now },
            medium: self.number,
            from: node(from),
            to: (frame.to != EVERYBODY).then(|| node(frame.to)),
            at: node(at),
            kind: frame.kind,
            retry: frame.retry && frame.kind == FrameKind::Data,
            sequence: frame.sequence,
            bytes: frame.bytes,
            rate: self.plan.macs[sender.mac].phy.rates[frame.rate].rate,
            duration: frame.nav,
            dbm,
            ppdu: None,
            block: self.block_record(from, frame),
            outcome,
            packet: None,
        });
        let port = msdu.and_then(|msdu| self.ports.get(usize::from(msdu.port)));
        let direction = port.map_or(0, |port| port.direction);
        cx.effects.push(Effect::Frame { record, parcel, direction });
    }

    /// Whether the link between two stations is gone for now.
    pub(super) fn is_away(&self, at: u16, from: u16) -> bool {
        let port = self.heard_port(at, from);
        self.ports.get(usize::from(port)).is_some_and(|port| !port.absence.is_open())
    }

    /// A station could not read a frame.
    pub(super) fn miss_frame(
        &mut self,
        (at, from): (u16, u16),
        outcome: FrameOutcome,
        (lock, frame): (&Lock, &OnAir),
        cx: &mut Cx<'_>,
    ) {
        let now = cx.now;
        let station = &mut self.stations[usize::from(at)];
        let rules = &self.rules[station.mac];
        if rules.plan.eifs_as_nav {
            station.nav = station.nav.max(now + rules.eifs);
        } else {
            station.eifs = !lock.unnoticed;
        }
        let discards = rules.plan.discards;
        if self.roams && self.is_away(at, from) {
            return;
        }
        let port = self.heard_port(at, from);
        self.count(port, cx, |stats| {
            stats.fcs_errors += 1;
            stats.collisions += u64::from(outcome == FrameOutcome::Collided);
            stats.too_weak += u64::from(outcome == FrameOutcome::TooWeak);
        });
        if discards != Discards::Received || outcome == FrameOutcome::TooWeak {
            return;
        }
        if !self.plan.oracle {
            let flows = self.stations[usize::from(at)].receivers.iter();
            cx.effects.extend(flows.map(|&flow| Effect::Hear { flow, at: now }));
        } else if frame.kind == FrameKind::Data
            && frame.to == at
            && let Some(parcel) = self.stations[usize::from(from)].current.and_then(|msdu| msdu.parcel)
            && self.ends_at(parcel.hop, at)
        {
            cx.effects.push(Effect::Noise { hop: self.place_behind(parcel.hop, at), at: now });
        }
    }

    /// A station has read a frame.
    fn receive_frame(&mut self, at: u16, from: u16, power: f64, frame: &OnAir, cx: &mut Cx<'_>) {
        let now = cx.now;
        let index = usize::from(at);
        let station = &mut self.stations[index];
        if frame.to != at {
            station.nav = station.nav.max(now + frame.nav);
            if frame.kind == FrameKind::End {
                station.nav = now;
            }
            if self.routing.is_some() && (frame.kind, frame.to) == (FrameKind::Data, EVERYBODY) {
                self.hear_update(at, from, cx);
            }
            return;
        }
        if self.roams && self.is_away(at, from) {
            return;
        }
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        match frame.kind {
            FrameKind::Data => {
                let (asks, occupied) =
                    (frame.bytes > rules.plan.rts_threshold, station.awaited == Awaited::Data);
                if rules.plan.cts_occupies && asks != occupied {
                    return;
                }
                if occupied {
                    station.awaited = Awaited::Nothing;
                    station.timeout = NEVER;
                }
                station.answer = Answer::Ack { to: from, rate: rules.answer(frame.rate).rate };
                station.answer_at = now + rules.sifs;
                let processing = rules.plan.processing;
                if !self.stations[index].senders.is_empty() {
                    let signal = Signal::RxRssi { dbm: dbm(power), bytes: frame.bytes };
                    let flows = self.stations[index].senders.iter();
                    cx.effects.extend(flows.map(|&flow| Effect::Signal { flow, signal, at: now }));
                }
                self.deliver(at, from, frame, processing, cx);
            }
            FrameKind::Rts => {
                let occupied = station.awaited != Awaited::Nothing || station.answer_at != NEVER;
                if station.nav <= now && !(rules.plan.cts_occupies && occupied) {
                    let answer = rules.answer(frame.rate);
                    let nav = Span(frame.nav.0.saturating_sub((rules.sifs + answer.cts).0));
                    station.answer = Answer::Cts { to: from, rate: answer.rate, nav };
                    station.answer_at = now + rules.sifs;
                }
            }
            FrameKind::Cts => {
                if station.awaited == Awaited::Cts {
                    station.awaited = Awaited::Nothing;
                    station.timeout = NEVER;
                    station.short_retries = 0;
                    station.answer = Answer::Data;
                    station.answer_at = now + rules.sifs;
                    let port = match &station.exchange {
                        Some(exchange) => exchange.burst.port,
                        None => station.current.map_or(NO_PORT, |msdu| msdu.port),
                    };
                    self.count(port, cx, |stats| stats.rts_successes += 1);
                }
            }
            FrameKind::Ack => {
                if station.awaited == Awaited::Ack {
                    self.note_signal(index, power);
                    let station = &self.stations[index];
                    if station.exchange.is_some() {
                        self.end_exchange(index, Answered::Ack, cx);
                    } else {
                        self.succeed(index, cx);
                    }
                }
            }
            FrameKind::BlockAck => {
                if station.awaited == Awaited::BlockAck {
                    self.note_signal(index, power);
                    self.end_exchange(index, Answered::BlockAck, cx);
                }
            }
            FrameKind::BlockAckRequest => {
                station.answer = Answer::BlockAck { to: from, rate: rules.answer(frame.rate).rate };
                station.answer_at = now + rules.sifs;
                self.hear_request(at, from, cx);
            }
            FrameKind::Beacon | FrameKind::End => {}
        }
    }

    /// A station has read an answer to its aggregate, of this power: its choice of rates may go by that.
    #[inline]
    fn note_signal(&mut self, index: usize, power: f64) {
        let Some(exchange) = &self.stations[index].exchange else { return };
        let Some(port) = self.ports.get_mut(usize::from(exchange.burst.port)) else { return };
        if let (RateChoice::Ideal(ideal), Some(noise)) = (&mut port.rate, self.plan.noise) {
            ideal.hear(decibels(power / noise));
        }
    }

    /// Counts something of a port if it falls into the window.
    pub(super) fn count(&mut self, port: u16, cx: &Cx<'_>, add: impl Fn(&mut RadioStats)) {
        let Some(port) = self.ports.get_mut(usize::from(port)) else { return };
        if cx.window.contains(cx.now) {
            add(&mut port.stats);
        }
        if let Some(interval) = &mut port.interval {
            add(interval);
        }
    }

    /// A data frame has reached its station: hands the packet on, unless it was here before.
    fn deliver(&mut self, at: u16, from: u16, frame: &OnAir, processing: Span, cx: &mut Cx<'_>) {
        // What the retry bit and the sequence number tell, but for a number that comes round (every 4,096 frames).
        let current = self.stations[usize::from(from)].current.as_mut();
        let again = current.is_some_and(|msdu| std::mem::replace(&mut msdu.delivered, true));
        let port = self.between[usize::from(from) * self.stations.len() + usize::from(at)];
        self.count(port, cx, |stats| {
            stats.received_fragments += 1;
            stats.retries_received += u64::from(frame.retry);
            stats.duplicates += u64::from(again);
        });
        let Some(msdu) = self.stations[usize::from(from)].current.filter(|_| !again) else { return };
        let Some(parcel) = msdu.parcel else { return };
        let port = &mut self.ports[usize::from(msdu.port)];
        port.received_since += 1;
        let direction = port.direction;
        let crossing = Some(Crossing { direction, started: Some(msdu.first_start) });
        let parcel = Parcel { hop: self.place_behind(parcel.hop, at), ..parcel };
        let (now, window) = (cx.now, cx.window);
        let link = cx.link(direction);
        if link.corrupts(ErrorPosition::AfterArq, now, parcel.bytes.into()) {
            link.count_drop(Cause::ChannelError, now, &window);
            cx.effects.push(Effect::Drop { parcel, cause: Cause::ChannelError, at: now, crossing });
        } else {
            cx.effects.push(Effect::Forward { parcel, at: now + processing, crossing });
        }
    }
}
