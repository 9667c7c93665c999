//! The receiving end of a rate-based flow: takes packets, measures, and says when a report is due.
//!
//! `network.rs` calls it like a TCP receiver, possibly ahead of the clock: `overdue` before each arrival at or after
//! the time that a report was due, then `receive`, then `acknowledge` and `extra` for what is to be sent.

use std::collections::VecDeque;

use lasthop_core::packet::{Kind, NONE, Note, Packet, flag};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::config::{Protocol, RateConfig};
use super::history::{Rules, Unit};
use super::media::fec::{Content, Parity, Recoverer};
use super::media::nack::{self, Arrived, NackHeader, RepairCounts, Wanted, Way};
use super::media::{self, log::ArrivalLog, log::Heard};
use super::tfrc::{Common, Report, Sizing};
use super::tfrc_ns2::{Ns2Arrival, Ns2Sink};
use super::tfrc_ps::Counting;
use super::tfrc_receiver::{Arrival, TfrcReceiver};
use super::wtcp_rate::RateControl;
use crate::measure::{FlowStats, Window};
use crate::transport::extra::{Extra, first_sent};
use crate::transport::tcp::segments::Ranges;

/// WTCP: a report follows this many packets at the latest, half of what a report can acknowledge one by one.
const MOST_UNREPORTED: u32 = 64;

/// What the packets of a rate-based flow carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateHeader {
    /// Sender to receiver.
    Data(DataHeader),
    /// Sender to receiver: the XOR of packets of media.
    Parity(ParityHeader),
    /// Receiver to sender.
    Feedback(FeedbackHeader),
    /// Receiver to sender: what a receiver of media asks for.
    Nack(NackHeader),
}

/// The header of a data packet or a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DataHeader {
    /// Number of the transmission, from 0 on.
    pub number: u64,
    /// Media: number of what it carries among what was sent for the first time, as its RTP sequence number, or the
    /// original one of a retransmission (RFC 4588 section 4).
    pub media: u64,
    /// The sender's RTT in seconds; 0 before its first sample.
    pub rtt_s: f64,
    /// Its timeout in seconds (ns-2's TFRC).
    pub rto_s: f64,
    /// Its round (ns-2's TFRC).
    pub round: u32,
    /// It asks for a report at once (ns-2's TFRC).
    pub urgent: bool,
    /// Time since the transmission before (WTCP).
    pub gap: Span,
}

/// The header of a parity of media.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ParityHeader {
    /// Number of the transmission.
    pub number: u64,
    /// What it covers, and the XOR of it.
    pub parity: Parity,
}

/// A report; the echoed sending time is in the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FeedbackHeader {
    /// How long the receiver held the packet whose sending time it echoes.
    pub delay: Span,
    /// TFRC: receive rate in bytes per second. WTCP: the rate to send at, in packets per second.
    pub rate: f64,
    /// Loss event rate (TFRC).
    pub loss_rate: f64,
    /// Packets lost so far (SSVP).
    pub lost: u64,
    /// Highest transmission number that has arrived (WTCP, media), and for the 128 up to it which have: bit 0 is the
    /// highest (WTCP).
    pub highest: u64,
    /// See `highest`.
    pub received: u128,
    /// It answers a probe.
    pub probe: bool,
    /// Number of packets up to `highest` that a report on media describes; what it says about them stands in the
    /// receiver's log ([`RateReceiver::heard`]).
    pub count: u16,
    /// Packets that were missing so far when a later one came, those excepted that came after all: a viewer asks for
    /// a whole picture (RFC 4585 section 6.3.1).
    pub missed: u32,
}

/// Counts what is missing behind enough later packets.
#[derive(Clone, Debug)]
struct Gaps {
    /// Later packets that mean a loss.
    threshold: u32,
    next: u64,
    /// Missing numbers and how many later ones have arrived.
    missing: VecDeque<(u64, u32)>,
    lost: u64,
}

impl Gaps {
    fn new(threshold: f64) -> Gaps {
        Gaps { threshold: threshold as u32, next: 0, missing: VecDeque::new(), lost: 0 }
    }

    /// Number `number` arrives; returns how many losses that shows.
    fn arrive(&mut self, number: u64, marked: bool) -> u64 {
        let before = self.lost;
        if number < self.next {
            let late = self.missing.iter().position(|&(missing, _)| missing == number);
            let Some(index) = late else { return 0 };
            self.missing.remove(index);
        } else {
            self.missing.extend((self.next..number).map(|missing| (missing, 0)));
            self.next = number + 1;
        }
        for (_, later) in self.missing.iter_mut().take_while(|(missing, _)| *missing < number) {
            *later += 1;
        }
        while self.missing.front().is_some_and(|&(_, later)| later >= self.threshold) {
            self.missing.pop_front();
            self.lost += 1;
        }
        self.lost += u64::from(marked);
        self.lost - before
    }
}

/// Ranges of missing packets that are remembered.
const MOST_MISSING: usize = 1024;

/// Which packets have not arrived, whatever the protocol takes for lost: one that comes after it was given up still
/// reaches the application.
#[derive(Clone, Debug, Default)]
struct Unseen {
    next: u64,
    /// Ranges below `next`, ascending.
    missing: VecDeque<(u64, u64)>,
    /// Packets that were missing when a later one came, less those that came late.
    missed: u64,
}

impl Unseen {
    /// Number `number` arrives; returns whether for the first time.
    #[inline]
    fn take(&mut self, number: u64) -> bool {
        if number < self.next {
            return self.take_late(number);
        }
        if number > self.next {
            self.missed += number - self.next;
            self.missing.push_back((self.next, number));
            if self.missing.len() > MOST_MISSING {
                self.missing.pop_front();
            }
        }
        self.next = number + 1;
        true
    }

    #[cold]
    fn take_late(&mut self, number: u64) -> bool {
        let index = self.missing.partition_point(|&(_, end)| end <= number);
        let Some(&(start, end)) = self.missing.get(index).filter(|&&(start, _)| start <= number) else {
            return false;
        };
        self.missing.remove(index);
        self.missed -= 1;
        for range in [(number + 1, end), (start, number)] {
            if range.0 < range.1 {
                self.missing.insert(index, range);
            }
        }
        true
    }
}

/// Reports of the protocols without a measurement of their own rhythm.
#[derive(Clone, Debug)]
struct Beat {
    /// RTTs between reports; 0 reports every packet.
    rtts: f64,
    rtt: Span,
    next: Time,
    /// Packets since the last report.
    packets: u32,
    last: Time,
    /// Sending time and arrival of the newest packet.
    newest: (Time, Time),
}

impl Beat {
    fn new(rtts: f64) -> Beat {
        Beat {
            rtts,
            rtt: Span::ZERO,
            next: Time::ZERO,
            packets: 0,
            last: Time::ZERO,
            newest: (Time::ZERO, Time::ZERO),
        }
    }

    /// A packet arrives; whether it is reported at once.
    fn arrive(&mut self, sent: Time, rtt_s: f64, now: Time) -> bool {
        self.newest = (sent, now);
        self.packets += 1;
        if rtt_s > 0.0 {
            self.rtt = Span::from_seconds(rtt_s);
        }
        let at_once = self.rtts == 0.0 || self.rtt == Span::ZERO || self.next <= now;
        at_once || self.packets >= MOST_UNREPORTED
    }

    fn due(&self) -> Option<Time> {
        (self.packets > 0 && self.rtts > 0.0).then_some(self.next)
    }

    /// A report leaves; returns the packets per second since the last one.
    fn report(&mut self, now: Time) -> f64 {
        let elapsed = now.since(self.last).seconds();
        let rate = if elapsed > 0.0 { f64::from(self.packets) / elapsed } else { 0.0 };
        self.packets = 0;
        self.last = now;
        self.next = now + Span::from_seconds(self.rtts * self.rtt.seconds());
        rate
    }
}

/// Reassembly and rate of WTCP.
#[derive(Clone, Debug)]
struct WtcpReceiver {
    control: RateControl,
    gaps: Gaps,
    /// Next byte in order, and data beyond gaps.
    next: u64,
    pending: Ranges,
    highest: u64,
    received: u128,
    probe: bool,
}

#[derive(Clone, Debug)]
enum Measure {
    Tfrc(Box<TfrcReceiver>),
    Ns2(Box<Ns2Sink>, Option<f64>),
    Ssvp(Gaps, Beat),
    Wtcp(Box<WtcpReceiver>, Beat),
    Media(ArrivalLog, Option<Box<Mending>>),
}

/// What a receiver of media does about what is missing.
#[derive(Clone, Debug)]
struct Mending {
    wanted: Wanted,
    recoverer: Option<Recoverer>,
}

impl Mending {
    fn new(common: &media::Common) -> Option<Box<Mending>> {
        let wanted = Wanted::new(common)?;
        Some(Box::new(Mending { wanted, recoverer: Recoverer::new(common) }))
    }
}

/// The receiver of one rate-based flow.
#[derive(Clone, Debug)]
pub struct RateReceiver {
    measure: Measure,
    unseen: Unseen,
    /// Earliest timer event that is pending in the queue.
    pub(crate) armed: Time,
    feedback_size: u16,
    /// What was said last, for [`RateReceiver::extra`].
    said: RateHeader,
}

fn tfrc(common: Common, sizing: Sizing, unit: Unit, short_intervals: bool) -> Measure {
    let rules = Rules {
        loss_packets: common.loss_packets,
        intervals: common.intervals,
        discount_floor: common.discount_floor,
        short_intervals,
        unit,
    };
    Measure::Tfrc(Box::new(TfrcReceiver::new(rules, sizing, common.feedback_rtts)))
}

impl RateReceiver {
    /// A receiver for a sender with this configuration; `stream` is for sampling packets.
    pub fn new(config: &RateConfig, stream: Stream) -> RateReceiver {
        let measure = match &config.protocol {
            Protocol::Tfrc(params) if config.is_ns2_tfrc() => {
                Measure::Ns2(Box::new(Ns2Sink::new(params.common(), Sizing::Own)), None)
            }
            Protocol::TfrcSp(params) if config.is_ns2_tfrc() => {
                Measure::Ns2(Box::new(Ns2Sink::new(params.common(), params.sizing())), None)
            }
            Protocol::Tfrc(params) => tfrc(params.common(), Sizing::Own, Unit::Packets, false),
            Protocol::TfrcSp(params) => tfrc(params.common(), params.sizing(), Unit::Packets, true),
            Protocol::TfrcPs(params) => {
                let size = params.nominal_size as u64;
                let unit = match params.counting {
                    Counting::Virtual => Unit::Virtual(size),
                    Counting::Sampled => Unit::Sampled(size, Box::new(stream)),
                };
                tfrc(params.common(), Sizing::Nominal(params.nominal_size), unit, false)
            }
            Protocol::Ssvp(params) => {
                Measure::Ssvp(Gaps::new(params.loss_packets), Beat::new(params.feedback_rtts))
            }
            Protocol::Wtcp(params) => {
                let receiver = WtcpReceiver {
                    control: RateControl::new(params),
                    gaps: Gaps::new(params.loss_packets),
                    next: 0,
                    pending: Ranges::default(),
                    highest: 0,
                    received: 0,
                    probe: false,
                };
                Measure::Wtcp(Box::new(receiver), Beat::new(params.feedback_rtts))
            }
            protocol => match media::common(protocol) {
                Some(common) => Measure::Media(ArrivalLog::new(&common), Mending::new(&common)),
                None => unreachable!("every other protocol is named above"),
            },
        };
        RateReceiver {
            measure,
            unseen: Unseen::default(),
            armed: Time::MAX,
            feedback_size: config.feedback_size() as u16,
            said: RateHeader::Feedback(FeedbackHeader::default()),
        }
    }

    /// Takes a packet that arrives at `now`; returns whether a report must go out at once.
    pub fn receive(
        &mut self,
        packet: &Packet,
        extra: Option<&Extra>,
        now: Time,
        stats: &mut FlowStats,
        window: &Window,
    ) -> Option<Kind> {
        let marked = packet.has(flag::CE);
        let header = match extra.and_then(|extra| extra.rate)? {
            RateHeader::Data(header) => header,
            RateHeader::Parity(header) => return self.on_parity(packet, &header, now, stats, window),
            RateHeader::Feedback(_) | RateHeader::Nack(_) => return None,
        };
        let payload = u32::from(packet.payload);
        // Retransmissions of media have numbers of their own.
        let is_media = matches!(self.measure, Measure::Media(..));
        let mut fresh = self.unseen.take(if is_media { header.media } else { header.number });
        let report = match &mut self.measure {
            Measure::Tfrc(receiver) => {
                let arrival = Arrival {
                    number: header.number,
                    seq: packet.seq,
                    payload,
                    marked,
                    sent: packet.stamp,
                    rtt_s: header.rtt_s,
                };
                receiver.on_packet(&arrival, now)
            }
            Measure::Ns2(sink, first) => {
                let arrival = Ns2Arrival {
                    number: header.number,
                    payload,
                    marked,
                    sent: packet.stamp,
                    rtt_s: header.rtt_s,
                    rto_s: header.rto_s,
                    round: header.round,
                    urgent: header.urgent,
                };
                let taken = sink.on_packet(&arrival, now);
                *first = taken.first.filter(|_| taken.at_once);
                taken.at_once
            }
            Measure::Ssvp(gaps, beat) => {
                let losses = gaps.arrive(header.number, false);
                beat.arrive(packet.stamp, header.rtt_s, now) || losses > 0
            }
            Measure::Media(log, mending) => {
                if let Some(mending) = mending {
                    let DataHeader { media: number, rtt_s, .. } = header;
                    let way = if packet.note.again() { Way::Repeated } else { Way::Alone };
                    mending.wanted.arrive(Arrived { number, way, rtt_s }, now, window);
                    if let Some(recoverer) = &mut mending.recoverer {
                        let sent = first_sent(packet, extra).0;
                        recoverer.arrive(number, Content { seq: packet.seq, payload, sent });
                        mending.wanted.settle_below(recoverer.passed(), now);
                    }
                }
                log.arrive(header.number, (packet.stamp, packet.bytes), marked, now)
            }
            Measure::Wtcp(receiver, beat) => {
                let at_once = beat.arrive(packet.stamp, header.rtt_s, now);
                // Retransmissions have numbers of their own.
                fresh = receiver.on_packet(packet, &header, now, stats, window);
                at_once || receiver.probe
            }
        };
        if packet.kind != Kind::Probe {
            if fresh && !matches!(self.measure, Measure::Wtcp(..)) {
                stats.deliver(now, u64::from(payload), window);
            }
            stats.arrive(now, packet, first_sent(packet, extra), fresh, window);
        }
        self.take_recovered(now, stats, window);
        report.then_some(Kind::Feedback)
    }

    /// A parity of media arrives.
    fn on_parity(
        &mut self,
        packet: &Packet,
        header: &ParityHeader,
        now: Time,
        stats: &mut FlowStats,
        window: &Window,
    ) -> Option<Kind> {
        let Measure::Media(log, mending) = &mut self.measure else { return None };
        let marked = packet.has(flag::CE);
        let report = log.arrive(header.number, (packet.stamp, packet.bytes), marked, now);
        stats.arrive(now, packet, packet.stamp, false, window);
        if let Some(mending) = mending
            && let Some(recoverer) = &mut mending.recoverer
        {
            // What it covers was sent before it.
            mending.wanted.reach(header.parity.end(), now, window);
            recoverer.on_parity(header.parity);
            mending.wanted.settle_below(recoverer.passed(), now);
            for number in recoverer.settled_by(&header.parity) {
                mending.wanted.settle_one(number, now);
            }
        }
        self.take_recovered(now, stats, window);
        report.then_some(Kind::Feedback)
    }

    /// Hands on what was made of parities.
    #[inline]
    fn take_recovered(&mut self, now: Time, stats: &mut FlowStats, window: &Window) {
        let Measure::Media(_, Some(mending)) = &mut self.measure else { return };
        let Mending { wanted, recoverer: Some(recoverer) } = &mut **mending else { return };
        while let Some((number, content)) = recoverer.take() {
            wanted.arrive(Arrived { number, way: Way::Recovered, rtt_s: 0.0 }, now, window);
            if !self.unseen.take(number) {
                continue;
            }
            let (seq, payload, sent) = (content.seq, content.payload as u16, Time(content.sent));
            stats.deliver(now, u64::from(payload), window);
            if window.contains(now) {
                stats.delay.add(now.since(sent));
            }
            stats.unpack(now, &Packet { seq, payload, stamp: sent, ..Packet::default() }, sent, true);
        }
    }

    /// When the next report is due.
    #[inline]
    pub fn due(&self) -> Option<Time> {
        match &self.measure {
            Measure::Tfrc(receiver) => receiver.due(),
            Measure::Ns2(sink, _) => sink.due(),
            Measure::Ssvp(_, beat) | Measure::Wtcp(_, beat) => beat.due(),
            Measure::Media(log, None) => log.due(),
            Measure::Media(log, Some(mending)) => {
                [log.due(), mending.wanted.due()].into_iter().flatten().min()
            }
        }
    }

    /// The report that is due at or before `now`, and when it was due.
    pub fn overdue(&mut self, now: Time) -> Option<(Kind, Time)> {
        self.due().filter(|&due| due <= now).map(|due| (Kind::Feedback, due))
    }

    /// Makes the report; [`RateReceiver::extra`] belongs to it.
    pub fn acknowledge(&mut self, kind: Kind, now: Time) -> Packet {
        let mut seq = 0;
        let mut bytes = self.feedback_size;
        let (sent, feedback) = match &mut self.measure {
            Measure::Tfrc(receiver) => of_tfrc(receiver.report(now)),
            Measure::Ns2(sink, first) => of_tfrc(Some(sink.report(now, first.take()))),
            Measure::Ssvp(gaps, beat) => {
                beat.report(now);
                let (sent, arrived) = beat.newest;
                let delay = now.since(arrived);
                (sent, FeedbackHeader { delay, lost: gaps.lost, ..FeedbackHeader::default() })
            }
            Measure::Media(log, Some(mending)) if !log.is_due(now) => {
                let (header, bytes) = mending.wanted.ask(now);
                self.said = RateHeader::Nack(header);
                return nack::packet(bytes, now);
            }
            Measure::Media(log, _) => {
                let (sent, delay) = log.newest(now);
                let cover = log.report(now);
                bytes = cover.bytes;
                (
                    sent,
                    FeedbackHeader {
                        delay,
                        highest: cover.highest,
                        count: cover.count,
                        ..FeedbackHeader::default()
                    },
                )
            }
            Measure::Wtcp(receiver, beat) => {
                let received = beat.report(now);
                let (sent, arrived) = beat.newest;
                seq = receiver.next;
                let feedback = FeedbackHeader {
                    delay: now.since(arrived),
                    rate: receiver.control.decide(beat.rtt.seconds(), received),
                    highest: receiver.highest,
                    received: receiver.received,
                    probe: std::mem::take(&mut receiver.probe),
                    ..FeedbackHeader::default()
                };
                (sent, feedback)
            }
        };
        let feedback = FeedbackHeader { missed: self.unseen.missed as u32, ..feedback };
        self.said = RateHeader::Feedback(feedback);
        Packet {
            seq,
            stamp: now,
            echo: sent,
            bytes,
            extra: NONE,
            kind,
            note: Note::BACK,
            ..Packet::default()
        }
    }

    /// What the report over `range` (the last packet and how many up to it), made at `until`, says of each: appended to
    /// `into`.
    pub fn heard(&self, range: (u64, u16), until: Time, into: &mut Vec<Heard>) {
        if let Measure::Media(log, _) = &self.measure {
            log.read(range, until, into);
        }
    }

    /// What the report made last carries.
    pub fn extra(&self) -> Extra {
        Extra { rate: Some(self.said), ..Extra::default() }
    }

    /// What became of the packets that were missing; `None` if the transport does not repair.
    pub fn repairs(&self) -> Option<RepairCounts> {
        let Measure::Media(_, mending) = &self.measure else { return None };
        mending.as_ref().map(|mending| mending.wanted.counts())
    }
}

fn of_tfrc(report: Option<Report>) -> (Time, FeedbackHeader) {
    let Some(report) = report else { return (Time::ZERO, FeedbackHeader::default()) };
    let feedback = FeedbackHeader {
        delay: report.delay,
        rate: report.receive_rate,
        loss_rate: report.loss_rate,
        ..FeedbackHeader::default()
    };
    (report.sent, feedback)
}

impl WtcpReceiver {
    /// Returns whether the data is new.
    fn on_packet(
        &mut self,
        packet: &Packet,
        header: &DataHeader,
        now: Time,
        stats: &mut FlowStats,
        window: &Window,
    ) -> bool {
        let losses = self.gaps.arrive(header.number, packet.has(flag::CE));
        self.control.on_loss(losses);
        let ahead = header.number.saturating_sub(self.highest);
        if ahead > 0 {
            self.received =
                self.received.checked_shl(u32::try_from(ahead).unwrap_or(u32::MAX)).unwrap_or(0) | 1;
            self.highest = header.number;
        } else if let Some(bit) = 1u128.checked_shl((self.highest - header.number).min(1000) as u32) {
            self.received |= bit;
        }
        if packet.kind == Kind::Probe {
            self.probe = true;
            return false;
        }
        self.control.on_packet(header.number, header.gap, now);
        let end = packet.seq + u64::from(packet.payload);
        if end <= self.next {
            return false;
        }
        let fresh = self.pending.insert(packet.seq, end);
        let before = self.next;
        while let Some((_, later)) = self.pending.take_first_at(self.next) {
            self.next = self.next.max(later);
        }
        stats.deliver(now, self.next - before, window);
        fresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_losses_after_three_later_packets() {
        let mut gaps = Gaps::new(3.0);
        let losses: Vec<u64> =
            [0, 1, 3, 5, 6, 4, 7, 8].into_iter().map(|number| gaps.arrive(number, false)).collect();
        // 2 is lost when 6 arrives; 4 is only late.
        assert_eq!(losses, [0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!([gaps.arrive(9, true), gaps.arrive(9, false)], [1, 0]);
    }

    #[test]
    fn a_packet_that_comes_after_it_was_given_up_is_new_and_its_copy_is_not() {
        let mut unseen = Unseen::default();
        let arrivals = [0, 5, 6, 7, 3, 3, 1, 4, 5, 2, 2];
        let fresh = arrivals.map(|number| unseen.take(number));
        assert_eq!(fresh, [true, true, true, true, true, false, true, true, false, true, false]);
        assert!(unseen.missing.is_empty());
    }

    #[test]
    fn reports_follow_their_beat() {
        let mut beat = Beat::new(1.0);
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        assert!(beat.arrive(at(0), 0.0, at(50)), "no RTT is known yet");
        beat.report(at(50));
        assert!(beat.arrive(at(100), 0.1, at(150)));
        beat.report(at(150));
        assert!(!beat.arrive(at(110), 0.1, at(160)));
        assert_eq!(beat.due(), Some(at(250)));
        assert!((beat.report(at(250)) - 10.0).abs() < 1e-9);
        assert_eq!(beat.due(), None);
    }
}
