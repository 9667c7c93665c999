//! What a station sends and when: packets from its queue, backoffs, answers, retransmissions, beacons (IEEE
//! 802.11-2016 sections 10.3.3 and 10.3.4).

use lasthop_cc::Signal;
use lasthop_core::packet::{Cause, flag};
use lasthop_core::time::{Span, Time};

use super::frame::FrameKind;
use super::plan::Discards;
use super::rate_adaptation::RateAdaptation;
use super::rules::{BLOCK_ACK_BYTES, END_BYTES};
use super::station::{Answer, Awaited, EVERYBODY, Msdu, NEVER};
use super::{Medium, range_of, told};
use crate::device::arq::mark;
use crate::device::{Crossing, Cx, Effect, Parcel};
use crate::plan::ErrorPosition;
use crate::queue::{Arrival, Served, Shed, Verdict};

impl Medium {
    /// The present MSDU is done with: post-backoff, and the next.
    pub(super) fn complete(&mut self, index: usize, now: Time) {
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        station.current = None;
        station.update = None;
        station.freed = now;
        station.awaited = Awaited::Nothing;
        station.timeout = NEVER;
        station.short_retries = 0;
        station.long_retries = 0;
        station.cw = rules.plan.cw_min;
        let from = if rules.plan.difs_after_timeout { now + rules.difs } else { now };
        station.draw(rules, from);
    }

    /// An acknowledgement has come.
    pub(super) fn succeed(&mut self, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now;
        let Some(msdu) = self.stations[index].current else { return };
        self.count(msdu.port, cx, |stats| {
            stats.transmitted_fragments += 1;
            stats.transmitted_frames += 1;
            stats.retries += u64::from(msdu.failures >= 1);
            stats.multiple_retries += u64::from(msdu.failures >= 2);
        });
        if let Some(port) = self.ports.get_mut(usize::from(msdu.port)) {
            port.rate.report(msdu.rate, true, now);
            if let Some(parcel) = msdu.parcel {
                port.tell_agent(parcel.flow, msdu.range, cx);
            }
            if let (Some((seq, end)), Some(parcel)) = (msdu.range, msdu.parcel)
                && let Some(told) = told(&port.listeners, parcel.flow)
            {
                let delay = msdu.last_start.since(msdu.first_start);
                let signal = Signal::LinkAck { seq, end, retransmissions: msdu.failures, delay };
                cx.signal(parcel.flow, signal, told);
            }
        }
        self.complete(index, now);
        // The medium is busy until the acknowledgement is over, which is now: the countdown starts DIFS later anyway.
        self.stations[index].drawn = now;
        self.fetch(index, cx);
    }

    /// An answer has not come.
    pub(super) fn fail(&mut self, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now;
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        if station.awaited == Awaited::Data {
            return station.give_up_data(rules, now);
        }
        if station.exchange.is_some() {
            return self.miss_answer(index, cx);
        }
        let mac = &rules.plan;
        let discards = mac.discards;
        station.timeout = NEVER;
        let awaited = std::mem::replace(&mut station.awaited, Awaited::Nothing);
        let Some(msdu) = &mut station.current else { return };
        msdu.failures += 1;
        let with_rts = msdu.bytes > mac.rts_threshold;
        let given_up = if awaited == Awaited::Ack && with_rts {
            station.long_retries += 1;
            station.long_retries >= mac.long_retry
        } else {
            station.short_retries += 1;
            station.short_retries >= mac.short_retry
        };
        let msdu = *msdu;
        self.count(msdu.port, cx, |stats| {
            if awaited == Awaited::Cts {
                stats.rts_failures += 1;
            } else {
                stats.ack_failures += 1;
            }
            stats.failed += u64::from(given_up);
        });
        if let Some(port) = self.ports.get_mut(usize::from(msdu.port)) {
            if awaited == Awaited::Ack {
                port.rate.report(msdu.rate, false, now);
            }
            if let (Some((seq, end)), Some(parcel)) = (msdu.range, msdu.parcel)
                && let Some(told) = told(&port.listeners, parcel.flow)
            {
                let attempts = msdu.failures;
                let discarded = match discards {
                    Discards::Attempts => awaited == Awaited::Ack,
                    Discards::Frames => given_up,
                    Discards::Received | Discards::RateEstimate { .. } => false,
                };
                if discarded {
                    cx.signal(parcel.flow, Signal::MacDiscard { count: 1 }, told);
                }
                let signal = if given_up {
                    Signal::LinkDrop { seq, end, attempts }
                } else {
                    Signal::LinkRetry { seq, end, attempts }
                };
                cx.signal(parcel.flow, signal, told);
            }
        }
        let is_gone = self.ports.get(usize::from(msdu.port)).is_some_and(|port| !port.absence.is_open());
        if given_up || is_gone {
            if let Some(parcel) = msdu.parcel.filter(|_| !msdu.delivered) {
                if is_gone {
                    self.set_aside(
                        msdu.port,
                        parcel,
                        Some(msdu.first_start).filter(|_| msdu.attempts > 0),
                        cx,
                    );
                } else {
                    let direction = self.ports[usize::from(msdu.port)].direction;
                    let window = cx.window;
                    cx.link(direction).count_drop(Cause::LinkGaveUp, now, &window);
                    let crossing = Some(Crossing { direction, started: Some(msdu.first_start) });
                    cx.effects.push(Effect::Drop { parcel, cause: Cause::LinkGaveUp, at: now, crossing });
                }
            }
            self.complete(index, now);
            self.fetch(index, cx);
        } else {
            let station = &mut self.stations[index];
            let rules = &self.rules[station.mac];
            station.widen(rules);
            let from = if rules.plan.difs_after_timeout { now + rules.difs } else { now };
            station.draw(rules, from);
        }
        let station = &mut self.stations[index];
        station.reschedule(&self.rules[station.mac], now);
    }

    /// Takes the next packet from the queue, if the station has nothing to send.
    pub(super) fn fetch(&mut self, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now;
        let station = &mut self.stations[index];
        if station.current.is_some() {
            return;
        }
        if std::mem::take(&mut station.beacon_waits) {
            let bytes = self.plan.macs[station.mac].beacon_bytes;
            station.current = Some(Msdu { to: EVERYBODY, bytes, ..Msdu::default() });
            return self.defer(index, now);
        }
        if self.routing.is_some() && self.fetch_update(index, cx) {
            return self.defer(index, now);
        }
        let Some((parcel, number)) = self.next_packet(index, cx) else { return };
        let station = &mut self.stations[index];
        let port = &self.ports[usize::from(number)];
        let mac = &self.plan.macs[station.mac];
        let range = if port.is_listened() { range_of(parcel, cx) } else { None };
        station.sequence = station.sequence.wrapping_add(1) & 0xfff;
        station.current = Some(Msdu {
            parcel: Some(parcel),
            port: number,
            to: port.to,
            bytes: mac.mpdu(parcel.bytes.into()),
            sequence: station.sequence,
            range,
            ..Msdu::default()
        });
        self.defer(index, now);
    }

    /// The next packet of a station that can be sent, and its port.
    fn next_packet(&mut self, index: usize, cx: &mut Cx<'_>) -> Option<(Parcel, u16)> {
        let gate = self.stations[index].gate?;
        loop {
            let station = &mut self.stations[index];
            let parcel = if let Some(parcel) = station.returned.pop_front() {
                parcel
            } else {
                let served = station.queue.pop(cx.now, &mut self.shed);
                self.lose_shed(cx);
                let found = self.stations[index].queue.found(None, cx.now);
                cx.link(gate).gate.note_held(&found);
                let Served { parcel, marked } = served?;
                if marked {
                    mark(parcel, gate, cx);
                }
                parcel
            };
            let number = self.places[parcel.hop as usize];
            if self.ports[usize::from(number)].absence.is_open() {
                return Some((parcel, number));
            }
            self.set_aside(number, parcel, None, cx);
        }
    }

    /// Packets that a queue has thrown away just now.
    #[inline]
    pub(super) fn lose_shed(&mut self, cx: &mut Cx<'_>) {
        if self.shed.is_empty() {
            return;
        }
        let (now, window) = (cx.now, cx.window);
        for Shed { parcel, cause } in self.shed.drain(..) {
            let direction = self.ports[usize::from(self.places[parcel.hop as usize])].direction;
            // It has taken room until now.
            cx.link(direction).count_left(parcel.since, now, &window);
            cx.link(direction).count_drop(cause, now, &window);
            let crossing = Some(Crossing { direction, started: None });
            cx.effects.push(Effect::Drop { parcel, cause, at: now, crossing });
        }
    }

    /// A station has something new to send: immediate access, or a backoff.
    fn defer(&mut self, index: usize, now: Time) {
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        if station.backoff.is_none() {
            if station.is_busy(now) {
                station.draw(rules, now);
            } else if !rules.plan.immediate_access {
                station.draw(rules, now + rules.difs);
            }
        }
    }

    /// The countdown is over: transmits what there is.
    pub(super) fn access(&mut self, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now;
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        let mac = &rules.plan;
        debug_assert!(station.nav <= now && !station.sending, "it waits until the medium is free");
        station.access = NEVER;
        if station.exchange.is_some() {
            return self.contend(index, cx);
        }
        station.backoff = None;
        let Some(msdu) = &mut station.current else { return };
        let (to, bytes) = (msdu.to, msdu.bytes);
        if to == EVERYBODY {
            let rate = mac.lowest_basic();
            let kind = if station.update.is_some() { FrameKind::Data } else { FrameKind::Beacon };
            self.transmit(index, kind, (EVERYBODY, rate, bytes, Span::ZERO), now);
            return;
        }
        let rate = self.ports[usize::from(msdu.port)].rate.rate(msdu.attempts, now);
        msdu.rate = rate;
        let shielded = mac.protection && mac.phy.rates[rate].modulation.is_ofdm();
        let with_rts = bytes > mac.rts_threshold;
        if !with_rts && !shielded {
            return self.send_data(index, cx);
        }
        let control = if shielded { mac.protection_rate() } else { rules.answer(rate).rate };
        let cts = rules.answer(control).cts;
        let data = mac.airtime(bytes, rate);
        let rest = data + rules.sifs + rules.answer(rate).ack;
        if with_rts {
            let (nav, timeout) = (rules.sifs * 2 + cts + rest, rules.sifs + cts + mac.answer_slack);
            let done = self.transmit(index, FrameKind::Rts, (to, control, mac.rts_bytes, nav), now);
            let station = &mut self.stations[index];
            station.awaited = Awaited::Cts;
            station.timeout = done + timeout;
        } else {
            let nav = rules.sifs + rest;
            self.transmit(index, FrameKind::Cts, (EVERYBODY, control, mac.cts_bytes, nav), now);
        }
    }

    /// Transmits the present MSDU.
    fn send_data(&mut self, index: usize, cx: &mut Cx<'_>) {
        let (now, window) = (cx.now, cx.window);
        let station = &mut self.stations[index];
        let rules = &self.rules[station.mac];
        let Some(msdu) = &mut station.current else { return };
        msdu.attempts += 1;
        if msdu.attempts == 1 {
            msdu.first_start = now;
        }
        msdu.last_start = now;
        let msdu = *msdu;
        let nav = rules.sifs + rules.answer(msdu.rate).ack;
        let timeout = nav + rules.plan.answer_slack;
        let done = self.transmit(index, FrameKind::Data, (msdu.to, msdu.rate, msdu.bytes, nav), now);
        let station = &mut self.stations[index];
        station.awaited = Awaited::Ack;
        station.timeout = done + timeout;
        self.count(msdu.port, cx, |stats| {
            stats.attempts += 1;
            stats.repetitions += u64::from(msdu.attempts > 1);
            stats.ppdus += 1;
        });
        if let Some(parcel) = msdu.parcel {
            // A packet waits until its first transmission.
            let since = if msdu.attempts == 1 { parcel.since } else { now };
            let link = cx.link(self.ports[usize::from(msdu.port)].direction);
            link.occupy_until(since, (now, done), parcel.bytes.into(), &window);
        }
    }

    /// Sends what is owed SIFS after a frame.
    pub(super) fn answer(&mut self, index: usize, cx: &mut Cx<'_>) {
        let station = &mut self.stations[index];
        station.answer_at = NEVER;
        if station.sending {
            return;
        }
        let mac = &self.plan.macs[station.mac];
        match station.answer {
            Answer::Ack { to, rate } => {
                let bytes = mac.ack_bytes;
                self.transmit(index, FrameKind::Ack, (to, rate, bytes, Span::ZERO), cx.now);
            }
            Answer::Cts { to, rate, nav } => {
                let (bytes, occupies) = (mac.cts_bytes, mac.cts_occupies);
                let behind = mac.sifs + mac.airtime(mac.ack_bytes, rate);
                let slack = mac.answer_slack;
                let done = self.transmit(index, FrameKind::Cts, (to, rate, bytes, nav), cx.now);
                if occupies {
                    let station = &mut self.stations[index];
                    station.awaited = Awaited::Data;
                    station.timeout = done + Span(nav.0.saturating_sub(behind.0)) + slack;
                }
            }
            Answer::BlockAck { to, rate } => {
                let number = self.between[usize::from(to) * self.stations.len() + index];
                let agreement = self.agreements.get(usize::from(number));
                let long = agreement.is_some_and(|agreement| agreement[0].recipient.is_long());
                let bytes = BLOCK_ACK_BYTES[usize::from(long)];
                self.transmit(index, FrameKind::BlockAck, (to, rate, bytes, Span::ZERO), cx.now);
            }
            Answer::Data if station.exchange.is_some() => self.launch(index, cx),
            Answer::Data => self.send_data(index, cx),
            Answer::End => {
                let end = (EVERYBODY, mac.lowest_basic(), END_BYTES, Span::ZERO);
                self.transmit(index, FrameKind::End, end, cx.now);
            }
        }
    }

    /// A beacon is due: it goes before what waits, once what is being sent is done.
    pub(super) fn beacon(&mut self, index: usize, cx: &mut Cx<'_>) {
        let station = &mut self.stations[index];
        let mac = &self.plan.macs[station.mac];
        let Some(every) = mac.beacon else { return };
        station.beacon += every;
        if station.exchange.is_some() {
            return self.want_beacon(index, cx.now);
        }
        station.beacon_waits = true;
        if station.current.is_none() {
            self.fetch(index, cx);
            let station = &mut self.stations[index];
            station.reschedule(&self.rules[station.mac], cx.now);
        }
    }

    /// What access points miss by the rates that stations have announced.
    pub(super) fn estimate(&mut self, cx: &mut Cx<'_>) {
        self.agenda.set(2 * self.stations.len(), NEVER);
        for port in &mut self.ports {
            let mac = &self.plan.macs[self.stations[usize::from(port.from)].mac];
            let Discards::RateEstimate { interval, rate, bytes } = mac.discards else { continue };
            if !port.absence.is_open() {
                continue;
            }
            let expected = (interval.seconds() * rate.0 as f64 / (8.0 * f64::from(bytes))).round() as u64;
            let received = std::mem::take(&mut port.received_since);
            if expected > received {
                let signal = Signal::MacDiscard { count: (expected - received) as u32 };
                for &(flow, told) in &port.estimates {
                    cx.signal(flow, signal, told);
                }
            }
            self.agenda.set(2 * self.stations.len(), cx.now + interval);
        }
    }

    /// A packet has passed the link layer and reaches the queue.
    pub(super) fn enqueue(&mut self, index: usize, parcel: Parcel, cx: &mut Cx<'_>) {
        let (now, window) = (cx.now, cx.window);
        let bytes = u32::from(parcel.bytes);
        if self.stations[index].exchange.is_some() {
            return self.enqueue_category(index, parcel, cx);
        }
        let number = self.places[parcel.hop as usize];
        let direction = self.ports[usize::from(number)].direction;
        let station = &mut self.stations[index];
        let found = station.queue.found(station.in_service(), station.freed);
        let gate = station.gate.unwrap_or(direction);
        let refused = if cx.link(direction).corrupts(ErrorPosition::BeforeQueue, now, bytes) {
            Some(Cause::ChannelError)
        } else {
            let contending = station.contending();
            let gate = &mut cx.link(gate).gate;
            gate.note_freed(station.freed, now);
            gate.found_beyond(contending, now, &window);
            match gate.judge(&Arrival { at: now, bytes, ect: parcel.ecn.can_be_marked() }, &found, &window) {
                Verdict::Admit => None,
                Verdict::Mark => {
                    cx.packets.get_mut(parcel.packet).flags |= flag::CE;
                    None
                }
                Verdict::Refuse(cause) => Some(cause),
            }
        };
        let refused =
            refused.or_else(|| match self.stations[index].queue.push(parcel, cx.packets, &mut self.shed) {
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
        if self.stations[index].current.is_none() {
            self.fetch(index, cx);
            let station = &mut self.stations[index];
            station.reschedule(&self.rules[station.mac], now);
        }
        let station = &self.stations[index];
        let found = station.queue.found(station.in_service(), station.freed);
        let waiting = station.queue.packets() + station.contending();
        let gate = &mut cx.link(gate).gate;
        gate.note_held(&found);
        gate.note_waiting(waiting, now, &window);
    }
}
