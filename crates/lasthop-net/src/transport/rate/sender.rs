//! The sending end of a rate-based flow: the queue of what the application wrote, the spacing of packets, and for
//! WTCP what is outstanding. How fast it may send is the protocol's business.
//!
//! `world.rs` calls it at the current time, in order.

use std::collections::VecDeque;

use lasthop_core::packet::{Kind, NONE, Note, Packet, flag};
use lasthop_core::time::{Span, Time};

use super::config::{Protocol, RateConfig};
use super::media::fec::Parity;
use super::media::nack::NackHeader;
use super::media::sender::{Load, MediaSender};
use super::receiver::{DataHeader, FeedbackHeader, ParityHeader, RateHeader};
use super::ssvp::{self, SsvpSender};
use super::tfrc::{Common, Report, Sizing, TfrcSender};
use super::tfrc_ns2::Ns2Sender;
use super::wtcp_rate::WtcpSender;
use crate::measure::{Durations, Window};
use crate::plan::Percentiles;
use crate::traffic::Demand;
use crate::transport::extra::Extra;
use crate::transport::wire::Wire;

/// What the sender counted within the measurement window.
#[derive(Clone, Debug)]
pub struct RateStats {
    /// Packets sent again (WTCP, media).
    pub retransmitted: u64,
    /// Bytes on the wire, and those of them that repair (media).
    pub sent_bytes: u64,
    /// See `sent_bytes`.
    pub repair_bytes: u64,
    /// Times that silence of the receiver lowered the rate or began a blackout.
    pub timeouts: u64,
    /// Packets that the sender dropped itself: past their deadline, or the queue was full.
    pub expired: u64,
    /// One sample per report.
    pub rtt: Durations,
    /// Sum and number of the loss event rates that were reported.
    pub loss_rates: (f64, u64),
    /// Allowed rate times time, in bytes.
    allowed: f64,
    /// When everything was acknowledged.
    pub completed: Option<Time>,
    /// The application stopped before all that it had to send was sent.
    pub withdrawn: bool,
}

/// What the application has written and the sender has not sent.
#[derive(Clone, Debug, Default)]
struct Queue {
    /// There is always more.
    endless: bool,
    /// Time and bytes of each write, and the number of its first byte; a packet never spans two.
    writes: VecDeque<(Time, u64, u64)>,
    /// Bytes that the application has written, refused ones included and withdrawn ones not.
    written: u64,
}

impl Queue {
    fn is_empty(&self) -> bool {
        !self.endless && self.writes.is_empty()
    }

    /// Bytes that are not sent yet.
    fn waiting(&self) -> u64 {
        self.writes.iter().map(|&(_, bytes, _)| bytes).sum()
    }

    /// Takes the next packet: the number of its first byte, and its payload. An endless file goes on at `next`.
    fn take(&mut self, next: u64, most: u32) -> Option<(u64, u32)> {
        if self.endless {
            return Some((next, most));
        }
        let (_, bytes, first) = self.writes.front_mut()?;
        let (seq, payload) = (*first, (*bytes).min(u64::from(most)) as u32);
        *first += u64::from(payload);
        *bytes -= u64::from(payload);
        if *bytes == 0 {
            self.writes.pop_front();
        }
        Some((seq, payload))
    }
}

/// What WTCP has sent and has not got acknowledged in order.
#[derive(Clone, Debug, Default)]
struct Flight {
    packets: VecDeque<Outstanding>,
    /// How many of them are lost, and below which index there is none.
    lost: usize,
    first_lost: usize,
}

/// A packet that WTCP has sent and that is not acknowledged in order.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    seq: u64,
    payload: u32,
    first_sent: Time,
    /// Number of the last transmission.
    number: u64,
    arrived: bool,
    lost: bool,
}

#[derive(Clone, Debug)]
enum Law {
    Tfrc(TfrcSender),
    Ns2(Ns2Sender),
    Ssvp(SsvpSender),
    Wtcp(WtcpSender, Flight),
    Media(Box<MediaSender>),
}

/// One rate-based sender.
#[derive(Clone, Debug)]
pub struct RateSender {
    law: Law,
    queue: Queue,
    queue_limit: usize,
    deadline: Option<Span>,
    /// The application writes no more.
    closed: bool,
    /// Number of the next transmission; its first byte if it is new, and its number among those that are (media).
    number: u64,
    seq: u64,
    media: u64,
    started: bool,
    /// When the last packet left by the spacing, and its payload; the next one is due an interval later.
    last_departure: Time,
    last_payload: u32,
    /// When the spacing allows the next packet; never while there is nothing to send.
    due: Time,
    last_transmission: Time,
    /// Earliest wake-up that is pending.
    armed: Time,
    payload: u32,
    header: u16,
    ecn: bool,
    measured: Window,
    /// Since when the present rate has been allowed, and the rate.
    allowed_since: (Time, f64),
    loss_rate: f64,
    /// Packets that the receiver has missed, and when the packet was sent that showed the newest of them.
    missed: (u32, Option<Time>),
    /// Mean payload of the packets sent lately.
    mean_payload: f64,
    /// Counters of the measurement window.
    pub stats: RateStats,
}

impl RateSender {
    /// A sender that has not sent yet.
    pub fn new(config: &RateConfig, measured: Window, percentiles: Percentiles) -> RateSender {
        let payload = config.payload();
        let size = f64::from(payload);
        let tfrc = |common: Common, sizing| {
            if config.is_ns2_tfrc() {
                Law::Ns2(Ns2Sender::new(common, sizing, size))
            } else {
                Law::Tfrc(TfrcSender::new(common, sizing, size))
            }
        };
        let law = match &config.protocol {
            Protocol::Tfrc(params) => tfrc(params.common(), Sizing::Own),
            Protocol::TfrcSp(params) => tfrc(params.common(), params.sizing()),
            Protocol::TfrcPs(params) => tfrc(params.common(), Sizing::Nominal(params.nominal_size)),
            Protocol::Ssvp(params) => Law::Ssvp(SsvpSender::new(params)),
            Protocol::Wtcp(params) => Law::Wtcp(WtcpSender::new(params), Flight::default()),
            _ => match MediaSender::new(config) {
                Some(sender) => Law::Media(Box::new(sender)),
                None => unreachable!("every other protocol is named above"),
            },
        };
        RateSender {
            law,
            queue: Queue::default(),
            queue_limit: config.queue as usize,
            deadline: config.deadline,
            closed: false,
            number: 0,
            seq: 0,
            media: 0,
            started: false,
            last_departure: Time::ZERO,
            last_payload: payload,
            due: Time::MAX,
            last_transmission: Time::ZERO,
            armed: Time::MAX,
            payload,
            header: config.data_header() as u16,
            ecn: config.ecn,
            measured,
            allowed_since: (Time::ZERO, 0.0),
            loss_rate: 0.0,
            missed: (0, None),
            mean_payload: size,
            stats: RateStats {
                retransmitted: 0,
                sent_bytes: 0,
                repair_bytes: 0,
                timeouts: 0,
                expired: 0,
                rtt: Durations::new(percentiles),
                loss_rates: (0.0, 0),
                allowed: 0.0,
                completed: None,
                withdrawn: false,
            },
        }
    }

    /// The allowed rate in payload bytes per second.
    pub fn rate(&self) -> f64 {
        match &self.law {
            Law::Tfrc(sender) => sender.rate(),
            Law::Ns2(sender) => sender.rate(),
            Law::Ssvp(sender) => f64::from(self.last_payload) / sender.gap_s(),
            Law::Wtcp(sender, _) => f64::from(self.last_payload) / sender.interval_s(),
            Law::Media(sender) => sender.rate(),
        }
    }

    /// What an encoder may send. Protocols that count packets are taken to send packets of the mean size of lately.
    pub fn demand(&self) -> Demand {
        let waiting = self.queue.waiting();
        let rate = match &self.law {
            Law::Media(sender) => return sender.demand(waiting),
            Law::Tfrc(_) | Law::Ns2(_) => self.rate(),
            Law::Ssvp(sender) => self.mean_payload / sender.gap_s(),
            Law::Wtcp(sender, _) => self.mean_payload / sender.interval_s(),
        };
        // Before the first report a protocol has only its start to go by.
        let known = self.rtt_s() > 0.0;
        Demand { rate: known.then_some(rate * 8.0), waiting, lost: self.missed.1, room: None }
    }

    /// Smoothed RTT; zero before the first report.
    pub fn srtt(&self) -> Span {
        Span::from_seconds(self.rtt_s())
    }

    /// Packets that are sent and not acknowledged (WTCP).
    pub fn flight(&self) -> u32 {
        match &self.law {
            Law::Wtcp(_, flight) => flight.packets.len() as u32,
            Law::Media(sender) => sender.packets_in_flight(),
            _ => 0,
        }
    }

    /// Mean allowed rate of the measurement window up to now, in payload bytes per second.
    pub fn mean_rate(&self) -> f64 {
        let (since, rate) = self.allowed_since;
        let rest = self.measured.overlap(since, self.measured.to) as f64 / 1e9 * rate;
        (self.stats.allowed + rest) / self.measured.length().seconds()
    }

    /// Mean loss event rate of the reports; `None` for protocols without one.
    pub fn mean_loss_rate(&self) -> Option<f64> {
        let (sum, count) = self.stats.loss_rates;
        (matches!(self.law, Law::Tfrc(_) | Law::Ns2(_)) && count > 0).then(|| sum / count as f64)
    }

    fn rtt_s(&self) -> f64 {
        let rtt = match &self.law {
            Law::Tfrc(sender) => sender.rtt_s(),
            Law::Ns2(sender) => sender.rtt_s(),
            Law::Ssvp(sender) => sender.rtt_s(),
            Law::Wtcp(sender, _) => sender.rtt_s(),
            Law::Media(sender) => sender.rtt_s(),
        };
        rtt.unwrap_or(0.0)
    }

    /// The application writes `bytes`; `None` is a file without end.
    pub fn on_data<W: Wire>(&mut self, bytes: Option<u64>, now: Time, wire: &mut W) {
        let first = self.queue.written;
        self.queue.written += bytes.unwrap_or(0);
        match bytes {
            None => self.queue.endless = true,
            Some(0) => return,
            Some(bytes) if self.queue.writes.len() >= self.queue_limit => {
                self.count_expired(bytes, now);
                return;
            }
            Some(bytes) => self.queue.writes.push_back((now, bytes, first)),
        }
        if let Law::Ns2(sender) = &mut self.law
            && self.started
        {
            // Its opportunities go on while there is nothing to send; a write that missed one leaves at once.
            if sender.on_data(now) {
                self.send_new(now, wire);
            }
        } else if self.due == Time::MAX {
            self.due = if self.started { self.next_departure().max(now) } else { now };
        }
        self.go_on(now, wire);
    }

    /// Packets that the application's data fill and that were not sent: what waits and what was dropped here. `None`
    /// for a file without end.
    pub fn unsent_packets(&self) -> Option<u64> {
        let packets = |&(_, bytes, _): &(Time, u64, u64)| bytes.div_ceil(u64::from(self.payload));
        let waiting = self.queue.writes.iter().map(packets).sum::<u64>();
        (!self.queue.endless).then_some(waiting + self.stats.expired)
    }

    /// Whether the bytes that it numbers are those that the application wrote: WTCP leaves out what it drops.
    pub fn numbers_are_whole(&self) -> bool {
        !matches!(self.law, Law::Wtcp(..)) || self.seq + self.queue.waiting() >= self.queue.written
    }

    /// The application writes no more; `at_once` also withdraws what has not been sent.
    pub fn on_close<W: Wire>(&mut self, at_once: bool, now: Time, wire: &mut W) {
        self.closed = true;
        if at_once {
            // What was dropped before stays known.
            let written = self.queue.written - self.queue.waiting();
            self.queue = Queue { written, ..Queue::default() };
        }
        self.complete(now);
        self.go_on(now, wire);
    }

    /// A report arrives.
    pub fn on_feedback<W: Wire>(&mut self, packet: &Packet, extra: Option<&Extra>, now: Time, wire: &mut W) {
        let feedback = match extra.and_then(|extra| extra.rate) {
            Some(RateHeader::Feedback(feedback)) => feedback,
            Some(RateHeader::Nack(nack)) => return self.on_nack(&nack, now, wire),
            _ => return,
        };
        let report = Report {
            sent: packet.echo,
            delay: feedback.delay,
            receive_rate: feedback.rate,
            loss_rate: feedback.loss_rate,
        };
        let mut at_once = false;
        let sample = match &mut self.law {
            Law::Tfrc(sender) => sender.on_report(&report, now),
            Law::Ns2(sender) => {
                let (sample, send) = sender.on_report(&report, now);
                at_once = send;
                sample
            }
            Law::Ssvp(sender) => sender.on_report(
                &ssvp::Report { sent: packet.echo, delay: feedback.delay, lost: feedback.lost },
                now,
            ),
            Law::Media(sender) => sender.on_report(packet, &feedback, now, wire),
            Law::Wtcp(sender, flight) => {
                flight.acknowledge(packet.seq, &feedback, sender.loss_packets());
                let sample = sender.on_report(packet.echo, feedback.delay, feedback.rate, now);
                if flight.packets.is_empty() {
                    sender.on_all_acknowledged();
                }
                sample
            }
        };
        if feedback.missed > self.missed.0 {
            self.missed = (feedback.missed, Some(packet.echo));
        }
        self.loss_rate = feedback.loss_rate;
        if self.measured.contains(now) {
            self.stats.rtt.add(sample);
            self.stats.loss_rates.0 += feedback.loss_rate;
            self.stats.loss_rates.1 += 1;
        }
        self.note_rate(now);
        self.complete(now);
        if at_once && !self.has_ended() {
            self.opportunity(now, wire);
        } else if !matches!(self.law, Law::Ns2(_)) && self.has_something() {
            // The new rate holds from the last departure on.
            self.due = self.next_departure().max(now);
        }
        self.go_on(now, wire);
    }

    /// A receiver of media asks for what it misses.
    fn on_nack<W: Wire>(&mut self, nack: &NackHeader, now: Time, wire: &mut W) {
        let Law::Media(sender) = &mut self.law else { return };
        sender.on_nack(nack, now);
        if self.due == Time::MAX && self.has_something() {
            self.due = self.next_departure().max(now);
        }
        self.go_on(now, wire);
    }

    /// A timer of the sender, or several.
    pub fn on_timer<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if now < self.armed {
            // A wake-up that an earlier one made superfluous. One that comes late still counts.
            return;
        }
        self.armed = Time::MAX;
        if let Law::Media(sender) = &mut self.law {
            sender.end_block(now);
            if sender.has_repairs() && self.due == Time::MAX && self.has_something() {
                self.due = self.next_departure().max(now);
            }
        }
        if self.law_due() <= now && !self.has_ended() {
            self.on_silence(now, wire);
        }
        self.go_on(now, wire);
    }

    /// The receiver has been silent for too long.
    fn on_silence<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let mut probe = false;
        let mut at_once = false;
        let lowered = match &mut self.law {
            Law::Tfrc(sender) => sender.on_timer(now),
            Law::Ns2(sender) => {
                at_once = true;
                sender.on_timer(now)
            }
            Law::Ssvp(sender) => sender.on_timer(now),
            Law::Media(sender) => sender.on_timer(now),
            Law::Wtcp(sender, _) => {
                let begins = !sender.is_blacked_out();
                sender.on_timer(now);
                probe = true;
                begins
            }
        };
        self.stats.timeouts += u64::from(lowered && self.measured.contains(now));
        self.note_rate(now);
        if probe {
            self.transmit(Kind::Probe, self.seq, 0, None, now, wire);
        } else if at_once {
            self.opportunity(now, wire);
        } else if self.due != Time::MAX || self.has_something() {
            self.due = self.next_departure().max(now);
        }
    }

    /// Sends what the spacing allows and asks to be woken for the rest.
    fn go_on<W: Wire>(&mut self, now: Time, wire: &mut W) {
        while self.due <= now {
            self.opportunity(now, wire);
        }
        let next = if self.has_ended() { self.due } else { self.due.min(self.law_due()) };
        let next = if let Law::Media(sender) = &self.law { next.min(sender.block_due()) } else { next };
        if next < self.armed {
            self.armed = next;
            wire.wake(next);
        }
    }

    /// A packet may leave now.
    fn opportunity<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let sent = self.send_again(now, wire) || self.send_new(now, wire);
        if let Law::Ns2(sender) = &mut self.law {
            if !sent {
                sender.on_empty();
            }
            let interval = Span::from_seconds(sender.next_interval_s());
            self.due = if self.has_ended() { Time::MAX } else { now + interval.max(Span(1)) };
            return;
        }
        if !sent {
            self.due = Time::MAX;
            return;
        }
        // Late only after a pause, which earns no credit.
        self.last_departure = now;
        self.due = self.next_departure();
        if self.has_something() {
            match &mut self.law {
                Law::Tfrc(sender) => sender.on_backlog(now),
                Law::Ssvp(sender) => sender.on_backlog(),
                Law::Ns2(_) | Law::Wtcp(..) | Law::Media(_) => {}
            }
        } else {
            self.due = Time::MAX;
        }
    }

    /// When the packet after the last one may leave.
    fn next_departure(&self) -> Time {
        let interval = match &self.law {
            Law::Tfrc(sender) => sender.interval_s(self.last_payload),
            Law::Ssvp(sender) => sender.gap_s(),
            // The first two packets are a pair.
            Law::Wtcp(sender, _) => {
                if self.number == 1 {
                    0.0
                } else {
                    sender.interval_s()
                }
            }
            Law::Media(sender) => sender.interval_s(self.last_payload, self.queue.waiting()),
            Law::Ns2(_) => return self.due,
        };
        // At least a nanosecond, so that time goes on.
        self.last_departure + Span::from_seconds(interval).max(Span(u64::from(self.number > 1)))
    }

    fn law_due(&self) -> Time {
        match &self.law {
            Law::Tfrc(sender) => sender.due(),
            Law::Ns2(sender) => sender.due(),
            Law::Ssvp(sender) => sender.due(),
            Law::Wtcp(sender, _) => sender.due(),
            Law::Media(sender) => sender.due(),
        }
    }

    /// Whether a packet could leave if the spacing allowed it.
    fn has_something(&self) -> bool {
        match &self.law {
            Law::Wtcp(sender, flight) => {
                let fresh = !self.queue.is_empty() && flight.packets.len() < sender.window();
                !sender.is_blacked_out() && (flight.lost > 0 || fresh)
            }
            Law::Media(sender) => sender.may_send() && (sender.has_repairs() || !self.queue.is_empty()),
            _ => !self.queue.is_empty(),
        }
    }

    /// Whether nothing will ever be sent again.
    fn has_ended(&self) -> bool {
        let nothing_outstanding = match &self.law {
            Law::Wtcp(_, flight) => flight.packets.is_empty(),
            _ => true,
        };
        self.closed && self.queue.is_empty() && nothing_outstanding
    }

    fn complete(&mut self, now: Time) {
        if matches!(self.law, Law::Wtcp(..)) && self.has_ended() {
            self.stats.completed.get_or_insert(now);
        }
    }

    fn count_expired(&mut self, bytes: u64, now: Time) {
        if self.measured.contains(now) {
            self.stats.expired += bytes.div_ceil(u64::from(self.payload));
        }
    }

    fn note_rate(&mut self, now: Time) {
        let (since, rate) = self.allowed_since;
        self.stats.allowed += self.measured.overlap(since, now) as f64 / 1e9 * rate;
        self.allowed_since = (now, self.rate());
    }

    /// Sends the first packet that is lost, if one is.
    fn send_again<W: Wire>(&mut self, now: Time, wire: &mut W) -> bool {
        if let Law::Media(sender) = &mut self.law
            && sender.may_send()
            && let Some(lost) = sender.take_lost(now)
        {
            sender.on_sent(lost, now);
            self.stats.retransmitted += u64::from(self.measured.contains(now));
            self.transmit_media(&lost, now, wire);
            return true;
        }
        if let Law::Media(sender) = &mut self.law
            && sender.may_send()
            && let Some((parity, load)) = sender.take_parity(now)
        {
            sender.on_sent(load, now);
            self.transmit_parity(parity, &load, now, wire);
            return true;
        }
        let Law::Wtcp(sender, flight) = &mut self.law else { return false };
        if sender.is_blacked_out() {
            return false;
        }
        let Some(packet) = flight.take_lost() else { return false };
        packet.number = self.number;
        let Outstanding { seq, payload, first_sent, .. } = *packet;
        sender.on_sent(now);
        self.stats.retransmitted += u64::from(self.measured.contains(now));
        self.transmit(Kind::Udp, seq, payload, Some(first_sent), now, wire);
        true
    }

    /// Sends the next packet of the queue, if there is one.
    fn send_new<W: Wire>(&mut self, now: Time, wire: &mut W) -> bool {
        while let Some(deadline) = self.deadline
            && let Some(&(written, bytes, _)) = self.queue.writes.front()
            && now.since(written) > deadline
        {
            self.queue.writes.pop_front();
            self.count_expired(bytes, now);
        }
        if let Law::Wtcp(sender, flight) = &self.law
            && (sender.is_blacked_out() || flight.packets.len() >= sender.window())
        {
            return false;
        }
        if let Law::Media(sender) = &self.law
            && !sender.may_send()
        {
            return false;
        }
        let Some((mut seq, payload)) = self.queue.take(self.seq, self.payload) else { return false };
        if matches!(self.law, Law::Wtcp(..)) {
            // It delivers in order, so it numbers what it sends; the others leave a gap for what they dropped.
            seq = self.seq;
        }
        let number = self.number;
        self.seq = seq + u64::from(payload);
        self.last_payload = payload;
        self.mean_payload += (f64::from(payload) - self.mean_payload) / 64.0;
        let first = !std::mem::replace(&mut self.started, true);
        match &mut self.law {
            Law::Tfrc(sender) => sender.on_sent(payload, now),
            Law::Ns2(sender) => {
                if first {
                    sender.on_start(now);
                }
            }
            Law::Ssvp(sender) => sender.on_sent(now),
            Law::Media(sender) => {
                let load = Load::new(self.media, (seq, payload), now);
                self.media += 1;
                sender.on_sent(load, now);
                if first {
                    self.note_rate(now);
                }
                self.transmit_media(&load, now, wire);
                return true;
            }
            Law::Wtcp(sender, flight) => {
                sender.on_sent(now);
                flight.packets.push_back(Outstanding {
                    seq,
                    payload,
                    first_sent: now,
                    number,
                    arrived: false,
                    lost: false,
                });
            }
        }
        if first {
            self.note_rate(now);
        }
        self.transmit(Kind::Udp, seq, payload, None, now, wire);
        true
    }

    /// Sends a packet of media.
    fn transmit_media<W: Wire>(&mut self, load: &Load, now: Time, wire: &mut W) {
        self.count_media(load, now);
        let first_sent = load.again.then_some(load.first_sent);
        let header = DataHeader { media: load.media, ..DataHeader::default() };
        self.transmit_as(Kind::Udp, header, (load.seq, load.payload, load.header), first_sent, now, wire);
    }

    /// Sends a parity: what it carries is no payload of the application.
    fn transmit_parity<W: Wire>(&mut self, parity: Parity, load: &Load, now: Time, wire: &mut W) {
        self.count_media(load, now);
        let header = ParityHeader { number: self.number, parity };
        self.number += 1;
        self.last_transmission = now;
        let extra = wire.attach(Extra { rate: Some(RateHeader::Parity(header)), ..Extra::default() });
        let packet = Packet {
            stamp: now,
            bytes: load.bytes() as u16,
            extra,
            kind: Kind::Udp,
            flags: if self.ecn { flag::ECT } else { 0 },
            ..Packet::default()
        };
        wire.send(packet, now);
    }

    fn count_media(&mut self, load: &Load, now: Time) {
        self.last_payload = load.bytes() - u32::from(self.header);
        if self.measured.contains(now) {
            self.stats.sent_bytes += u64::from(load.bytes());
            self.stats.repair_bytes += if load.again { u64::from(load.bytes()) } else { 0 };
        }
    }

    fn transmit<W: Wire>(
        &mut self,
        kind: Kind,
        seq: u64,
        payload: u32,
        first_sent: Option<Time>,
        now: Time,
        wire: &mut W,
    ) {
        let sizes = (seq, payload, u32::from(self.header));
        self.transmit_as(kind, DataHeader::default(), sizes, first_sent, now, wire);
    }

    /// Sends `payload` bytes from `seq` on behind `header` bytes, with `told` in them and what all packets say.
    fn transmit_as<W: Wire>(
        &mut self,
        kind: Kind,
        told: DataHeader,
        (seq, payload, header): (u64, u32, u32),
        first_sent: Option<Time>,
        now: Time,
        wire: &mut W,
    ) {
        let mut told = DataHeader {
            number: self.number,
            rtt_s: self.rtt_s(),
            gap: if self.number == 0 { Span::ZERO } else { now.since(self.last_transmission) },
            ..told
        };
        if let Law::Ns2(sender) = &self.law {
            (told.rtt_s, told.rto_s, told.round, told.urgent) = sender.header();
        }
        self.number += 1;
        self.last_transmission = now;
        let rate = Some(RateHeader::Data(told));
        let extra = wire.attach(Extra { rate, first_sent, ..Extra::default() });
        debug_assert!(extra != NONE || cfg!(test));
        let packet = Packet {
            seq,
            stamp: now,
            bytes: (payload + header) as u16,
            payload: payload as u16,
            extra,
            kind,
            flags: if self.ecn { flag::ECT } else { 0 },
            note: Note::new(false, first_sent.is_some()),
            ..Packet::default()
        };
        wire.send(packet, now);
    }
}

impl Flight {
    /// Takes a report: everything below `ack` has arrived, and of the transmissions those in the report's bits.
    fn acknowledge(&mut self, ack: u64, feedback: &FeedbackHeader, threshold: u64) {
        // Nothing was sent between a probe and its answer, so whatever has not arrived before a probe is lost.
        let threshold = if feedback.probe { 1 } else { threshold };
        for (packet, index) in self.packets.iter_mut().zip(0..) {
            let Some(behind) = feedback.highest.checked_sub(packet.number) else { continue };
            let bit = u32::try_from(behind).ok().and_then(|behind| 1u128.checked_shl(behind));
            let arrived = bit.is_some_and(|bit| feedback.received & bit != 0) || packet.seq < ack;
            if arrived {
                packet.arrived = true;
                self.lost -= usize::from(std::mem::replace(&mut packet.lost, false));
            } else if behind >= threshold && !packet.arrived && !packet.lost {
                packet.lost = true;
                self.lost += 1;
                self.first_lost = self.first_lost.min(index);
            }
        }
        while let Some(first) = self.packets.front()
            && (first.arrived || first.seq < ack)
        {
            self.lost -= usize::from(first.lost);
            self.packets.pop_front();
            self.first_lost = self.first_lost.saturating_sub(1);
        }
    }

    /// The first lost packet, which is about to be sent again.
    fn take_lost(&mut self) -> Option<&mut Outstanding> {
        if self.lost == 0 {
            return None;
        }
        let lost = self.packets.iter().skip(self.first_lost).position(|packet| packet.lost)?;
        self.first_lost += lost;
        self.lost -= 1;
        let packet = &mut self.packets[self.first_lost];
        packet.lost = false;
        Some(packet)
    }
}

#[cfg(test)]
mod tests;
