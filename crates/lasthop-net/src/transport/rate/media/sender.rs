//! The sending end of media, between `rate/sender.rs`, which has the queue and the spacing, and a controller.
//!
//! Keeps what was sent until a report tells of it, turns reports into outcomes, and tells the encoder what it may send.

use std::collections::VecDeque;

use lasthop_core::packet::Packet;
use lasthop_core::time::{Span, Time};

use super::super::config::RateConfig;
use super::super::receiver::FeedbackHeader;
use super::fec::{self, Content, Parity, Protector};
use super::log::Heard;
use super::nack::NackHeader;
use super::{Common, Control, Controller, Fate, HEADER, Outcome, Report, common};
use crate::traffic::Demand;
use crate::transport::wire::Wire;

/// Gain of the RTT filter, and of the share of payload.
const GAIN: f64 = 0.125;
/// What was sent is kept so long for requests, or three RTTs, or as long as the receiver may ask.
const KEPT: Span = Span::from_secs(1);
/// The number of the original, in front of what a retransmission carries (RFC 4588 section 4).
pub(super) const ORIGINAL_NUMBER: u32 = 2;

/// What is known of a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Arrived,
    Lost,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Its first byte.
    pub seq: u64,
    /// Its bytes.
    pub payload: u32,
    /// Headers, and whatever else is not payload.
    pub header: u32,
    /// Its number among those that were sent for the first time.
    pub media: u64,
    /// When that was.
    pub first_sent: Time,
    /// It is sent again.
    pub again: bool,
}

impl Load {
    /// A packet of its own, sent for the first time `now`.
    pub fn new(media: u64, (seq, payload): (u64, u32), now: Time) -> Load {
        Load { seq, payload, header: HEADER, media, first_sent: now, again: false }
    }

    /// Bytes on the wire.
    pub fn bytes(&self) -> u32 {
        self.payload + self.header
    }
}

/// What was sent and may be asked for.
#[derive(Clone, Copy, Debug)]
struct Kept {
    load: Load,
    /// When it was repeated last.
    repeated: Option<Time>,
    /// It waits to be repeated.
    waits: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Time,
    load: Load,
    state: State,
}

/// One sender of media.
#[derive(Clone, Debug)]
pub struct MediaSender {
    control: Controller,
    common: Common,
    /// What was sent, from this number on.
    sent: VecDeque<Sent>,
    first: u64,
    flight: u64,
    rtt: Option<f64>,
    /// Payload over bytes on the wire.
    payload_share: f64,
    /// When the newest lost packet was sent.
    lost: Option<Time>,
    /// What is lost and shall be sent again, oldest first.
    again: VecDeque<Load>,
    /// What may be asked for, from the packet with this number on.
    kept: VecDeque<Kept>,
    kept_from: u64,
    /// What makes parities, if any are made.
    protector: Option<Box<Protector>>,
    silence: Time,
    heard: Vec<Heard>,
    outcomes: Vec<Outcome>,
}

impl MediaSender {
    /// A sender that has not sent yet; `None` if the protocol is not one for media.
    pub(in super::super) fn new(config: &RateConfig) -> Option<MediaSender> {
        let payload = f64::from(config.payload());
        let common = common(&config.protocol)?;
        Some(MediaSender {
            control: Controller::of(&config.protocol)?,
            protector: Protector::new(&common).map(Box::new),
            common,
            sent: VecDeque::new(),
            first: 0,
            flight: 0,
            rtt: None,
            payload_share: payload / (payload + f64::from(HEADER)),
            lost: None,
            again: VecDeque::new(),
            kept: VecDeque::new(),
            kept_from: 0,
            silence: Time::MAX,
            heard: Vec::new(),
            outcomes: Vec::new(),
        })
    }

    /// The target rate in payload bytes per second.
    pub(in super::super) fn rate(&self) -> f64 {
        self.control.target() / 8.0 * self.payload_share
    }

    pub(in super::super) fn rtt_s(&self) -> Option<f64> {
        self.rtt
    }

    /// Packets that are sent and not reported.
    pub(in super::super) fn packets_in_flight(&self) -> u32 {
        self.sent.iter().filter(|sent| sent.state == State::Waiting).count() as u32
    }

    /// Time that a packet with this payload takes at the pace of now.
    pub(in super::super) fn interval_s(&self, payload: u32, waiting: u64) -> f64 {
        f64::from(payload + HEADER) * 8.0 / self.control.pacing(waiting).max(1.0)
    }

    /// Whether the window has room for a packet. With nothing under way there always is.
    pub(in super::super) fn may_send(&self) -> bool {
        self.flight == 0 || (self.flight as f64) < self.control.window()
    }

    /// Whether something lost shall be sent again, or a parity.
    pub(in super::super) fn has_repairs(&self) -> bool {
        !self.again.is_empty() || self.protector.as_ref().is_some_and(|protector| protector.is_ready())
    }

    /// Takes a parity that is to be sent now, and what it is as a packet.
    pub(in super::super) fn take_parity(&mut self, now: Time) -> Option<(Parity, Load)> {
        let parity = self.protector.as_mut()?.take()?;
        let header = HEADER + fec::HEADER;
        let load = Load {
            seq: 0,
            payload: parity.longest,
            header,
            media: parity.base,
            first_sent: now,
            again: true,
        };
        Some((parity, load))
    }

    /// When a block of packets ends, full or not.
    pub(in super::super) fn block_due(&self) -> Time {
        self.protector.as_ref().map_or(Time::MAX, |protector| protector.due())
    }

    /// It is time for that.
    pub(in super::super) fn end_block(&mut self, now: Time) {
        if let Some(protector) = &mut self.protector {
            protector.on_timer(now);
        }
    }

    /// Takes what is to be sent again now. What can no longer arrive in time is given up.
    pub(in super::super) fn take_lost(&mut self, now: Time) -> Option<Load> {
        while let Some(load) = self.again.pop_front() {
            if self.common.nack {
                // The receiver knows until when it wants it.
                let Some(kept) = self.kept_mut(load.media) else { continue };
                (kept.waits, kept.repeated) = (false, Some(now));
                return Some(load);
            }
            if self.in_time(&load, now) {
                return Some(load);
            }
            self.give_up(load.first_sent);
        }
        None
    }

    /// Whether a packet that is sent now arrives in time, half an RTT later.
    fn in_time(&self, load: &Load, now: Time) -> bool {
        let age = now.since(load.first_sent).seconds() + self.rtt.unwrap_or(0.0) / 2.0;
        age <= self.common.resend_within_s
    }

    /// What was sent first at `first_sent` will not arrive: the encoder hears of it.
    fn give_up(&mut self, first_sent: Time) {
        self.lost = self.lost.max(Some(first_sent));
    }

    fn kept_mut(&mut self, media: u64) -> Option<&mut Kept> {
        let index = media.checked_sub(self.kept_from)?;
        self.kept.get_mut(usize::try_from(index).ok()?)
    }

    /// The receiver asks. What has been repeated within an RTT is on its way.
    pub(in super::super) fn on_nack(&mut self, nack: &NackHeader, now: Time) {
        let rtt = Span::from_seconds(self.rtt.unwrap_or(0.0));
        if let Some(number) = nack.given_up {
            // One that is not kept any more lies before all that are.
            let oldest = self.kept.front().map(|kept| kept.load.first_sent);
            let sent = self.kept_mut(number).map(|kept| kept.load.first_sent);
            self.lost = self.lost.max(sent.or(oldest));
        }
        for number in nack.numbers() {
            let Some(kept) = self.kept_mut(number) else { continue };
            let under_way = kept.repeated.is_some_and(|repeated| now.since(repeated) < rtt);
            if kept.waits || under_way {
                continue;
            }
            kept.waits = true;
            let header = kept.load.header + ORIGINAL_NUMBER;
            let load = Load { header, again: true, ..kept.load };
            self.again.push_back(load);
        }
    }

    /// Keeps a new packet for requests, and forgets those that are too old for them.
    fn keep(&mut self, load: Load, now: Time) {
        if self.kept.is_empty() {
            self.kept_from = load.media;
        }
        self.kept.push_back(Kept { load, repeated: None, waits: false });
        let rtt = self.rtt.unwrap_or(0.0);
        let asked = Span::from_seconds((3.0 * rtt).max(rtt + self.common.nack_within_s));
        while self.kept.front().is_some_and(|kept| now.since(kept.load.first_sent) > KEPT.max(asked)) {
            self.kept.pop_front();
            self.kept_from += 1;
        }
    }

    /// A packet leaves.
    pub(in super::super) fn on_sent(&mut self, load: Load, now: Time) {
        let bytes = load.bytes();
        // What is repeated takes room from what is new.
        let payload = if load.again { 0 } else { load.payload };
        self.payload_share += GAIN / 8.0 * (f64::from(payload) / f64::from(bytes) - self.payload_share);
        if !load.again {
            if self.common.repairs() {
                self.keep(load, now);
            }
            if let Some(protector) = &mut self.protector {
                let content = Content { seq: load.seq, payload: load.payload, sent: load.first_sent.0 };
                protector.on_sent(load.media, content, now);
            }
        }
        self.sent.push_back(Sent { at: now, load, state: State::Waiting });
        self.flight += u64::from(bytes);
        if self.silence == Time::MAX {
            self.silence = now + self.patience();
        }
        self.control.on_sent(bytes, now);
    }

    /// How long no report must come for a reaction.
    fn patience(&self) -> Span {
        Span::from_seconds(self.common.silence_s.max(2.0 * self.rtt.unwrap_or(0.0)))
    }

    /// When the silence is too long.
    pub(in super::super) fn due(&self) -> Time {
        self.silence
    }

    /// It is. Returns whether the rate fell.
    pub(in super::super) fn on_timer(&mut self, now: Time) -> bool {
        // What is under way will not be reported any more: it must not hold the window.
        self.flight = 0;
        self.first += self.sent.len() as u64;
        self.sent.clear();
        self.again.clear();
        self.kept.clear();
        if let Some(protector) = &mut self.protector {
            protector.clear();
        }
        // Until the next packet leaves.
        self.silence = Time::MAX;
        self.control.on_silence(now)
    }

    /// A report arrives. Returns the RTT sample.
    pub(in super::super) fn on_report<W: Wire>(
        &mut self,
        packet: &Packet,
        feedback: &FeedbackHeader,
        now: Time,
        wire: &W,
    ) -> Span {
        let sample = now.since(packet.echo) - feedback.delay;
        let seconds = sample.seconds();
        let rtt = self.rtt.map_or(seconds, |rtt| rtt + GAIN * (seconds - rtt));
        self.rtt = Some(rtt);
        self.silence = now + self.patience();
        let mut heard = std::mem::take(&mut self.heard);
        heard.clear();
        wire.heard((feedback.highest, feedback.count), packet.stamp, &mut heard);
        let before = self.flight;
        self.outcomes.clear();
        let highest = heard.iter().rev().find(|heard| heard.at.is_some()).map_or(0, |heard| heard.number);
        for told in &heard {
            self.take(told, highest, now);
        }
        self.heard = heard;
        self.forget_below((feedback.highest + 1).saturating_sub(feedback.count.into()));
        if self.flight == 0 {
            // Everything is known: a pause of the application is no silence of the receiver.
            self.silence = Time::MAX;
        }
        if !self.outcomes.is_empty() {
            let flight = (before, self.flight);
            self.control.on_report(&Report { now, rtt_s: rtt, outcomes: &self.outcomes, flight });
        }
        sample
    }

    /// Takes what a report says of one packet, if it is news.
    fn take(&mut self, told: &Heard, highest: u64, now: Time) {
        let Some(index) = told.number.checked_sub(self.first) else { return };
        let Some(sent) = self.sent.get_mut(index as usize).filter(|sent| sent.state == State::Waiting) else {
            return;
        };
        let fate = match told.at {
            Some(at) => {
                sent.state = State::Arrived;
                Fate::Arrived { at, marked: told.marked }
            }
            None if told.number + self.common.loss_packets <= highest => {
                sent.state = State::Lost;
                Fate::Lost
            }
            None => return,
        };
        let Sent { at: sent, load, .. } = *sent;
        let bytes = load.bytes();
        self.flight -= u64::from(bytes);
        self.outcomes.push(Outcome { number: told.number, sent, bytes, fate });
        if let Some(protector) = &mut self.protector {
            protector.on_outcome(fate == Fate::Lost);
        }
        // Where repairs may come, the receiver says when the picture is not whole.
        if fate != Fate::Lost || self.common.repairs() {
            return;
        }
        if self.in_time(&load, now) {
            self.again.push_back(Load { again: true, ..load });
        } else {
            self.give_up(load.first_sent);
        }
    }

    /// Of packets below `first` no report will tell: what became of those that are left is not known.
    fn forget_below(&mut self, first: u64) {
        while self.first < first
            && let Some(sent) = self.sent.pop_front()
        {
            if sent.state == State::Waiting {
                self.flight -= u64::from(sent.load.bytes());
            }
            self.first += 1;
        }
        // All of them are known: reports may go on to name the last, and nothing comes of it.
        if self.sent.iter().all(|sent| sent.state != State::Waiting) && self.sent.len() > 4096 {
            self.first += self.sent.len() as u64;
            self.sent.clear();
        }
    }

    /// What the encoder shall do while `waiting` bytes wait.
    pub(in super::super) fn demand(&self, waiting: u64) -> Demand {
        let repeats: u64 = self.again.iter().map(|load| u64::from(load.payload)).sum();
        let repairs = repeats + self.protector.as_ref().map_or(0, |protector| protector.waiting());
        let rate = self.control.encoder_rate(waiting) * self.payload_share;
        Demand { rate: Some(rate), waiting: waiting + repairs, lost: self.lost, room: None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::Protocol;
    use super::*;
    use crate::plan::Profile;

    /// A wire whose receiver has got these packets.
    struct Line(Vec<(u64, Option<u64>)>);

    impl Wire for Line {
        fn send(&mut self, _: Packet, _: Time) {}
        fn wake(&mut self, _: Time) {}
        fn heard(&self, (highest, count): (u64, u16), _: Time, into: &mut Vec<Heard>) {
            let within = |number: u64| number <= highest && number + u64::from(count) > highest;
            let told = self.0.iter().filter(|(number, _)| within(*number));
            into.extend(told.map(|&(number, millis)| Heard { number, at: millis.map(at), marked: false }));
        }
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn load(number: u64) -> Load {
        Load::new(number, (1200 * number, 1200), at(10 * number))
    }

    fn sender() -> MediaSender {
        let config = RateConfig::new("nada", Profile::Rfc).unwrap();
        let mut sender = MediaSender::new(&config).unwrap();
        (0..5).for_each(|number| sender.on_sent(load(number), at(10 * number)));
        sender
    }

    fn report(sender: &mut MediaSender, line: &Line, highest: u64, count: u16) -> Span {
        let packet = Packet { echo: at(40), stamp: at(100), ..Packet::default() };
        let feedback =
            FeedbackHeader { highest, count, delay: Span::from_millis(10), ..FeedbackHeader::default() };
        sender.on_report(&packet, &feedback, at(150), line)
    }

    #[test]
    fn outcomes_are_told_once() {
        let mut sender = sender();
        assert_eq!(sender.flight, 5 * 1240);
        let line = Line(vec![(0, Some(50)), (1, None), (2, Some(70)), (3, None)]);
        assert_eq!(report(&mut sender, &line, 3, 4), Span::from_millis(100));
        let fates: Vec<_> = sender.outcomes.iter().map(|one| (one.number, one.fate)).collect();
        let arrived = |millis| Fate::Arrived { at: at(millis), marked: false };
        assert_eq!(fates, [(0, arrived(50)), (1, Fate::Lost), (2, arrived(70))], "3 may still come");
        assert_eq!((sender.flight, sender.lost), (2 * 1240, Some(at(10))));
        report(&mut sender, &line, 3, 4);
        assert!(sender.outcomes.is_empty());
    }

    /// Reports were lost: what they told is not known, and holds no window.
    #[test]
    fn what_no_report_names_is_forgotten() {
        let mut sender = sender();
        report(&mut sender, &Line(vec![(3, Some(80))]), 3, 1);
        assert_eq!((sender.flight, sender.first, sender.lost), (1240, 3, None));
        assert_eq!(sender.packets_in_flight(), 1);
    }

    /// Number 1 was sent at 10 ms; with an RTT of 100 ms it still arrives in time at 150 ms, within 200 ms. Its
    /// retransmission is lost as well, and then it is too late: the encoder hears of it.
    #[test]
    fn what_is_lost_is_sent_again_in_time() {
        let mut sender = sender();
        sender.common.resend_within_s = 0.2;
        report(&mut sender, &Line(vec![(0, Some(50)), (1, None), (2, Some(70))]), 2, 3);
        assert_eq!((sender.has_repairs(), sender.lost), (true, None));
        let again = sender.take_lost(at(150)).unwrap();
        assert_eq!((again.media, again.seq, again.first_sent), (1, 1200, at(10)));
        sender.on_sent(again, at(150));
        sender.on_sent(load(5), at(151));
        let line = Line(vec![(3, Some(80)), (4, Some(90)), (5, None), (6, Some(240))]);
        let packet = Packet { echo: at(151), stamp: at(260), ..Packet::default() };
        let feedback = FeedbackHeader { highest: 6, count: 4, ..FeedbackHeader::default() };
        sender.on_report(&packet, &feedback, at(310), &line);
        assert_eq!((sender.has_repairs(), sender.lost), (false, Some(at(10))));
    }

    /// A pause of the application is no silence of the receiver.
    #[test]
    fn nothing_is_waited_for_when_all_is_known() {
        let mut sender = sender();
        report(&mut sender, &Line((0..5).map(|number| (number, Some(50 + 10 * number))).collect()), 4, 5);
        assert_eq!((sender.flight, sender.due()), (0, Time::MAX));
        sender.on_sent(load(5), at(9000));
        assert_eq!(sender.due(), at(10_000));
    }

    #[test]
    fn silence_lowers_the_rate_and_frees_the_window() {
        let mut sender = sender();
        assert_eq!(sender.due(), at(1000));
        let mut params = Protocol::by_name("nada").unwrap();
        params.set("start_rate", 1e6).unwrap();
        let config = RateConfig { protocol: params, ..RateConfig::new("nada", Profile::Rfc).unwrap() };
        sender = MediaSender::new(&config).unwrap();
        sender.on_sent(load(0), at(0));
        assert!(sender.on_timer(at(1000)));
        assert_eq!((sender.control.target(), sender.flight), (500_000.0, 0));
    }
}
