//! What arrives of an aggregate: which of its MPDUs can be read, what goes up from the reorder buffer, and the answer.
//!
//! `air.rs` comes here at the end of a PPDU of 802.11n or later, once for all of its MPDUs; `exchange.rs` has sent it.

use lasthop_cc::Signal;
use lasthop_core::packet::Cause;
use lasthop_core::time::Span;

use super::aggregate::Slice;
use super::edca::Category;
use super::frame::{FrameKind, FrameOutcome};
use super::mode::{Format, Mode};
use super::reorder::Arrived;
use super::station::{Answer, EVERYBODY, Lock, NEVER};
use super::{Medium, OnAir};
use crate::device::{Crossing, Cx, Effect};
use crate::plan::ErrorPosition;
use crate::propagation::dbm;
use crate::trace::{BlockRecord, FrameRecord, Frames, PpduRecord};

/// Training fields and L-SIG, which all PPDUs begin with from 802.11a on (17.3.2).
const LEGACY_PREAMBLE: Span = Span(20_000);

impl Medium {
    /// A PPDU with MPDUs ends at a station that was locked on it.
    pub(super) fn hear_burst(&mut self, at: u16, from: u16, lock: &Lock, frame: &OnAir, cx: &mut Cx<'_>) {
        if frame.to == at && !(self.roams && self.is_away(at, from)) {
            return self.take_burst(at, from, lock, frame, cx);
        }
        // One MPDU that can be read is enough to know the duration field: the first stands for all.
        let Some((mode, _)) = self.sent_by(from) else { return };
        if self.older[usize::from(at)] && mode.format() > Format::Legacy {
            return self.hear_preamble(at, (from, mode), (lock, frame), cx);
        }
        let Some(first) = self.slices_of(from).first().copied() else { return };
        let outcome = self.judge_slice(at, from, lock, (frame, mode), first, cx);
        if self.traced == Frames::All {
            self.record_burst(from, frame, (at, dbm(lock.power), outcome), cx);
        }
        let station = &mut self.stations[usize::from(at)];
        if outcome == FrameOutcome::Read {
            station.eifs = false;
            station.nav = station.nav.max(cx.now + frame.nav);
        } else {
            self.miss_frame((at, from), outcome, (lock, frame), cx);
        }
    }

    /// A PPDU ends at a station whose generation reads nothing of it but the legacy preamble. By that it is busy for
    /// whole symbols of 4 us, up to 3.6 us longer than an HE PPDU lasts, and waits EIFS, as it has seen no check
    /// sequence. Where another frame has drowned out the preamble, nothing but the energy keeps it busy.
    fn hear_preamble(
        &mut self,
        at: u16,
        (from, mode): (u16, Mode),
        (lock, frame): (&Lock, &OnAir),
        cx: &Cx<'_>,
    ) {
        let Some(exchange) = &self.stations[usize::from(from)].exchange else { return };
        let airtime = exchange.burst.airtime;
        let station = &mut self.stations[usize::from(at)];
        let Some(plan) = &self.rules[station.mac].plan.aggregation else { return };
        debug_assert!(mode.format() > Format::Legacy, "it could read the rest");
        station.eifs = !lock.unnoticed;
        if !lock.lost || lock.disturbed >= frame.start + self.plan.flight + LEGACY_PREAMBLE {
            station.nav = station.nav.max(cx.now + (Mode::announced(airtime, plan.habits.band) - airtime));
        }
    }

    /// The mode of the burst that a station has sent, and its category.
    fn sent_by(&self, from: u16) -> Option<(Mode, usize)> {
        let station = &self.stations[usize::from(from)];
        let burst = &station.exchange.as_ref()?.burst;
        let plan = self.rules[station.mac].plan.aggregation.as_ref()?;
        Some((plan.modes[burst.mode], burst.category))
    }

    /// The MPDUs of the burst that a station has sent.
    fn slices_of(&self, from: u16) -> &[Slice] {
        let exchange = self.stations[usize::from(from)].exchange.as_ref();
        exchange.map_or(&[], |exchange| &exchange.burst.slices)
    }

    /// A PPDU ends at the station that it was meant for.
    fn take_burst(&mut self, at: u16, from: u16, lock: &Lock, frame: &OnAir, cx: &mut Cx<'_>) {
        let now = cx.now;
        let number = self.between[usize::from(from) * self.stations.len() + usize::from(at)];
        let Some((mode, category)) = self.sent_by(from) else { return };
        let Some(exchange) = &mut self.stations[usize::from(from)].exchange else { return };
        let slices = std::mem::take(&mut exchange.burst.slices);
        let mut worst = FrameOutcome::Read;
        let mut read = 0;
        for &slice in &slices {
            let outcome = self.judge_slice(at, from, lock, (frame, mode), slice, cx);
            if self.records(outcome) {
                self.record_mpdu(from, frame, slice, (at, dbm(lock.power), outcome), cx);
            }
            if outcome == FrameOutcome::Read {
                read += 1;
                self.take_mpdu(number, category, slice.sequence, cx);
            } else {
                worst = outcome;
            }
        }
        let single = slices.len() == 1;
        if let Some(exchange) = &mut self.stations[usize::from(from)].exchange {
            exchange.burst.slices = slices;
        }
        if read == 0 {
            return self.miss_frame((at, from), worst, (lock, frame), cx);
        }
        self.hand_up(number, category, cx);
        // What a station sends counts against what it may receive.
        let back = self.between[usize::from(at) * self.stations.len() + usize::from(from)];
        self.charge((back, category), now.since(frame.start), now);
        let station = &mut self.stations[usize::from(at)];
        let rules = &self.rules[station.mac];
        let (to, rate) = (from, rules.answer(frame.rate).rate);
        station.eifs = false;
        station.answer = if single { Answer::Ack { to, rate } } else { Answer::BlockAck { to, rate } };
        station.answer_at = now + rules.sifs;
        if !station.senders.is_empty() {
            let signal = Signal::RxRssi { dbm: dbm(lock.power), bytes: frame.bytes };
            let flows = station.senders.iter();
            cx.effects.extend(flows.map(|&flow| Effect::Signal { flow, signal, at: now }));
        }
    }

    /// What becomes of an MPDU at a receiver that was locked on its PPDU.
    fn judge_slice(
        &mut self,
        at: u16,
        from: u16,
        lock: &Lock,
        (frame, mode): (&OnAir, Mode),
        slice: Slice,
        cx: &mut Cx<'_>,
    ) -> FrameOutcome {
        let plan = &self.plan;
        if self.flawless && lock.disturbed == NEVER {
            return if lock.power < plan.receive_threshold {
                FrameOutcome::TooWeak
            } else {
                FrameOutcome::Read
            };
        }
        let habits = self.rules[self.stations[usize::from(from)].mac].plan.aggregation.as_ref();
        let preamble = habits.map_or(Span::ZERO, |plan| mode.preamble(&plan.habits));
        let data = cx.now.since(frame.start).0.saturating_sub(preamble.0);
        let place = |octet: u32| {
            frame.start + preamble + Span(data * u64::from(octet) / u64::from(frame.bytes.max(1)))
        };
        // What disturbs the preamble spoils all of a PPDU, what begins later the MPDUs that it meets.
        let (start, end) = (place(slice.from), place(slice.to));
        let is_over = lock.disturbed >= frame.start + preamble && start >= lock.quiet;
        let clear = Lock { lost: false, interference: 0.0, ..*lock };
        let lock = if end <= lock.disturbed || is_over { &clear } else { lock };
        let part = OnAir { start, bytes: slice.to - slice.from, ..*frame };
        self.judge_until(at, from, lock, (&part, end, Some(mode)), cx)
    }

    /// A station has read an MPDU.
    fn take_mpdu(&mut self, number: u16, category: usize, sequence: u16, cx: &mut Cx<'_>) {
        let now = cx.now;
        let agreement = &mut self.agreements[usize::from(number)][category];
        let Some(mpdu) = agreement.originator.get_mut(sequence) else { return };
        let delivered = std::mem::replace(&mut mpdu.delivered, true);
        let (started, tries) = (mpdu.first_start, mpdu.tries);
        let packets = agreement.originator.packets_of(sequence);
        let arrived = packets.map(|carried| Arrived { sequence, parcel: carried.parcel, started, at: now });
        let fresh = agreement.recipient.receive(sequence, arrived, &mut self.up);
        let port = &self.ports[usize::from(number)];
        if !fresh && !delivered {
            // The reorder buffer has moved past it, and hands up nothing late.
            let (window, direction) = (cx.window, port.direction);
            for carried in agreement.originator.packets_of(sequence) {
                let (parcel, cause) = (carried.parcel, Cause::LinkGaveUp);
                cx.link(direction).count_drop(cause, now, &window);
                let crossing = Some(Crossing { direction, started: Some(started) });
                cx.effects.push(Effect::Drop { parcel, cause, at: now, crossing });
            }
        }
        self.count(number, cx, |stats| {
            stats.received_fragments += 1;
            stats.retries_received += u64::from(tries > 1);
            stats.duplicates += u64::from(delivered);
        });
    }

    /// A BlockAckReq has been read: what it gives up is not waited for.
    pub(super) fn hear_request(&mut self, at: u16, from: u16, cx: &mut Cx<'_>) {
        let number = self.between[usize::from(from) * self.stations.len() + usize::from(at)];
        let Some(exchange) = &self.stations[usize::from(from)].exchange else { return };
        let category = exchange.burst.category;
        let agreement = &mut self.agreements[usize::from(number)][category];
        agreement.recipient.move_to(agreement.originator.start(), &mut self.up);
        self.hand_up(number, category, cx);
    }

    /// Packets that have waited long enough for earlier ones go up without them.
    pub(super) fn expire(&mut self, index: usize, cx: &mut Cx<'_>) {
        self.stations[index].reorder = NEVER;
        let plan = self.rules[self.stations[index].mac].plan.aggregation.as_ref();
        let Some(timeout) = plan.and_then(|plan| plan.reorder) else { return };
        for number in 0..self.ports.len() as u16 {
            if usize::from(self.ports[usize::from(number)].to) != index {
                continue;
            }
            for category in 0..self.agreements[usize::from(number)].len() {
                let recipient = &mut self.agreements[usize::from(number)][category].recipient;
                recipient.expire(cx.now, timeout, &mut self.up);
                self.hand_up(number, category, cx);
            }
        }
    }

    /// Hands on what has come out of the reorder buffer of a port, in order, and notes how long the rest waits.
    fn hand_up(&mut self, number: u16, category: usize, cx: &mut Cx<'_>) {
        let (now, window) = (cx.now, cx.window);
        let port = &mut self.ports[usize::from(number)];
        let (to, direction) = (port.to, port.direction);
        port.received_since += self.up.len() as u64;
        let station = &mut self.stations[usize::from(to)];
        let rules = &self.rules[station.mac];
        let recipient = &self.agreements[usize::from(number)][category].recipient;
        let timeout = rules.plan.aggregation.as_ref().and_then(|plan| plan.reorder);
        if recipient.held() > 0
            && let Some(due) = timeout.and_then(|timeout| recipient.due(timeout))
        {
            station.reorder = station.reorder.min(due);
        }
        let at = now + rules.plan.processing;
        let waits = self.up.iter().filter(|arrived| arrived.at < now);
        let (reordered, wait) =
            waits.fold((0, 0), |(count, wait), arrived| (count + 1, wait + now.since(arrived.at).0));
        if reordered > 0 {
            self.count(number, cx, |stats| {
                stats.reordered += reordered;
                stats.reorder_wait += wait;
            });
        }
        for Arrived { parcel, started, .. } in self.up.drain(..) {
            let crossing = Some(Crossing { direction, started: Some(started) });
            let link = cx.link(direction);
            if link.corrupts(ErrorPosition::AfterArq, now, parcel.bytes.into()) {
                link.count_drop(Cause::ChannelError, now, &window);
                cx.effects.push(Effect::Drop { parcel, cause: Cause::ChannelError, at: now, crossing });
            } else {
                cx.effects.push(Effect::Forward { parcel, at, crossing });
            }
        }
    }

    /// What a BlockAck or a request for one says, which a station has sent.
    pub(super) fn block_record(&self, from: u16, frame: &OnAir) -> Option<BlockRecord> {
        let (sender, receiver) = match frame.kind {
            FrameKind::BlockAck => (frame.to, from),
            FrameKind::BlockAckRequest => (from, frame.to),
            _ => return None,
        };
        let number = self.between[usize::from(sender) * self.stations.len() + usize::from(receiver)];
        let category = self.stations[usize::from(sender)].exchange.as_ref()?.burst.category;
        let agreement = &self.agreements.get(usize::from(number))?[category];
        let (start, bits) = agreement.recipient.bitmap();
        let asked = frame.kind == FrameKind::BlockAckRequest;
        Some(BlockRecord {
            tid: Category::ALL[category].traffic_identifier(),
            start: if asked { agreement.originator.start() } else { start },
            length: if agreement.recipient.window() <= 64 { 64 } else { 256 },
            bits,
        })
    }

    /// Records every MPDU of a burst at a station, all with the same outcome.
    #[cold]
    pub(super) fn record_burst(
        &self,
        from: u16,
        frame: &OnAir,
        seen: (u16, f64, FrameOutcome),
        cx: &mut Cx<'_>,
    ) {
        for &slice in self.slices_of(from) {
            self.record_mpdu(from, frame, slice, seen, cx);
        }
    }

    /// Records an MPDU at a station.
    #[cold]
    fn record_mpdu(
        &self,
        from: u16,
        frame: &OnAir,
        slice: Slice,
        (at, dbm, outcome): (u16, f64, FrameOutcome),
        cx: &mut Cx<'_>,
    ) {
        let node = |station: u16| self.plan.stations[usize::from(station)].node as u32;
        let Some((mode, category)) = self.sent_by(from) else { return };
        let number = self.between[usize::from(from) * self.stations.len() + usize::from(frame.to)];
        let Some(port) = self.ports.get(usize::from(number)) else { return };
        let originator = &self.agreements[usize::from(number)][category].originator;
        let mpdu = originator.get(slice.sequence);
        let Some(exchange) = &self.stations[usize::from(from)].exchange else { return };
        let burst = &exchange.burst;
        let delimited =
            mode.format() > Format::Ht || slice.to - slice.from != mpdu.map_or(0, |mpdu| mpdu.octets);
        // One that has been delivered is on its way elsewhere, or gone.
        let mut packets = originator.packets_of(slice.sequence);
        let parcel = mpdu.filter(|mpdu| !mpdu.delivered).and_then(|_| packets.next());
        let at_sender = outcome == FrameOutcome::Sent;
        let record = Box::new(FrameRecord {
            start: frame.start,
            end: if at_sender { cx.now - self.plan.flight } else { cx.now },
            medium: self.number,
            from: node(from),
            to: (frame.to != EVERYBODY).then(|| node(frame.to)),
            at: node(at),
            kind: FrameKind::Data,
            retry: mpdu.is_some_and(|mpdu| mpdu.tries > 1),
            sequence: slice.sequence,
            bytes: mpdu.map_or(slice.to - slice.from, |mpdu| mpdu.octets),
            rate: mode.rate(),
            duration: frame.nav,
            dbm,
            ppdu: Some(PpduRecord {
                mode,
                tid: Category::ALL[category].traffic_identifier(),
                packets: mpdu.map_or(1, |mpdu| mpdu.packets),
                number: burst.number,
                place: delimited.then_some(slice.to == burst.octets),
            }),
            block: None,
            outcome,
            packet: None,
        });
        let parcel = parcel.map(|carried| carried.parcel);
        cx.effects.push(Effect::Frame { record, parcel, direction: port.direction });
    }
}
