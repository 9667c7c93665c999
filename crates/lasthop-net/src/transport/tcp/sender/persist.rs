//! Freeze-TCP: the mobile host closes its window before an outage (Goff, Moronski, Phatak, Gupta, INFOCOM 2000).
//!
//! *What it does.* This file is the sender: persist mode. While the receiver's window is closed it sends only probes,
//! at intervals that start at the retransmission timeout and double up to 60 s; the retransmission timer is stopped,
//! and cwnd, ssthresh, srtt and the timeout stay as they are. When the window opens the sender continues where it
//! stopped. The receiver's part is in `mobile_receiver.rs`. A sender that is itself on the mobile host stops between
//! the warning and the return of its link, without probes.
//!
//! *Reacts to* zero windows and window openings on ACKs, and `LinkFading` and `LinkUp` of the own link.
//!
//! *Differs from the paper:* the paper leaves open how three opening ACKs count as duplicates, when RFC 5681 says that
//! an ACK which changes the window is none; `opening_ack_counts` counts the first, so that three copies make the
//! sender retransmit the first unacknowledged segment. With `keeps_window` that repair does not change cwnd and
//! ssthresh, since an announced outage is not congestion. If nothing is outstanding when the window opens, the sender
//! ignores duplicates that arrive before data sent since could be acknowledged (after the minimum RTT by timestamps,
//! or half of the usual one): three copies, or two and the answer to a probe, would look like a loss. Probes carry no
//! data, as those of Linux do. All copies and switches are keys of `freeze`.
//!
//! *Validation:* TV-10.1 and NV-5.6; in simulation against NewReno through announced outages (`tests/mobility.rs`).
//!
//! *Limitations:* after a late warning the ordinary timeout occurs; an early one costs idle time. NewReno repairs the
//! losses of the outage one segment per round trip, SACK at once. If everything was acknowledged before the outage,
//! the whole window leaves in one burst afterwards, as in the paper. With a buffer of one bandwidth-delay product or
//! less Freeze-TCP carries less than NewReno: the thawed window overflows a short one, and between warning and outage
//! the link stands idle. Measured over 10 Mbit/s and 40 ms (33 packets) with ten outages of 1 s in 100 s, a warning of
//! 100 ms, 20 seeds: 6.11 Mbit/s against 6.71 of NewReno with a buffer of 7 packets, 8.12 against 8.17 with 33, and
//! 8.53 against 8.39 with 167, where NewReno retransmits 1.3 % of its packets and Freeze-TCP 0.3 %. A warning of 250
//! ms leaves the link idle for longer: 8.01 with 33 packets, but 8.57 with 167, because that queue takes 200 ms to
//! drain.
//!
//! *Kernel counterpart:* the persist mode of any TCP; the receiver's part needs a kernel change or raw ACKs.
//!
//! *References:* Goff et al. (2000); RFC 9293 §3.8.6.1; RFC 5681 §2.

use lasthop_cc::Window;
use lasthop_core::packet::{Kind, Packet};
use lasthop_core::time::{Span, Time};

use super::alarms::Alarm;
use super::recovery::RecoveryEngine;
use super::{Action, Connection};
use crate::transport::extra::Extra;
use crate::transport::tcp::mobility::Freeze;
use crate::transport::wire::Wire;

/// State of a sender that knows zero windows.
#[derive(Clone, Debug)]
pub(super) struct Persist {
    config: Freeze,
    /// The receiver's window when it was last open, in bytes.
    open_window: u32,
    /// The receiver has closed its window.
    closed: bool,
    /// The own link is down or about to be.
    halted: bool,
    /// The segment that opening ACKs ask for, and how many have.
    asked: Option<(u64, u32)>,
    /// The repair of an outage, while it lasts.
    kept: Option<Kept>,
    /// The window opened with nothing outstanding: what the ACKs of then expect, and until when they cannot be about
    /// what was sent since.
    opened: Option<(u64, Time)>,
    /// The least round trip by timestamps.
    least: Option<Span>,
}

/// A repair that leaves the window alone.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// The window to leave it with.
    window: Window,
    /// What ends it when acknowledged.
    end: u64,
    /// When it began.
    began: Time,
}

impl Persist {
    pub(super) fn new(config: Freeze) -> Persist {
        Persist {
            config,
            open_window: 0,
            closed: false,
            halted: false,
            asked: None,
            kept: None,
            opened: None,
            least: None,
        }
    }

    fn is_frozen(&self) -> bool {
        self.closed || self.halted
    }
}

impl Connection {
    /// Whether the sender rests because of a zero window or a fading link.
    pub(super) fn is_frozen(&self) -> bool {
        self.persist.as_ref().is_some_and(|persist| persist.is_frozen())
    }

    /// Looks at the window of an ACK; `true` if that was all there is to do about it.
    pub(super) fn take_window<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        extra: Option<&Extra>,
        now: Time,
        wire: &mut W,
    ) -> bool {
        let una = self.una;
        // An ACK that was overtaken does not bring its window back.
        let fresh = self.is_newest(packet);
        self.peer_stamp = self.peer_stamp.max(packet.stamp);
        if packet.kind == Kind::SynAck {
            self.take_answer(packet, extra);
        }
        let opening = una == 0 || packet.kind == Kind::FinAck;
        let closed = packet.window == 0;
        let moved = fresh && packet.window != self.peer.bytes && !self.is_frozen() && (opening || !closed);
        if moved {
            self.set_peer_window(packet.window, now);
        }
        let Some(persist) = &mut self.persist else { return false };
        if fresh && !closed {
            persist.open_window = packet.window;
        }
        if opening {
            return false;
        }
        if fresh {
            if closed && !persist.closed {
                persist.closed = true;
                self.freeze(true, now, wire);
            } else if !closed && persist.closed {
                persist.closed = false;
                if !persist.halted {
                    self.thaw(engine, now, wire);
                    if packet.seq > self.una {
                        return false;
                    }
                    let counts =
                        self.persist.as_ref().is_some_and(|persist| persist.config.opening_ack_counts);
                    if counts {
                        self.count_opening_ack(engine, now, wire);
                    }
                    return packet.seq == self.una;
                }
            }
        }
        if self.is_frozen() {
            self.note_while_frozen(engine, packet, now);
            return true;
        }
        if self.stems_from_the_outage(packet, now) {
            return true;
        }
        let kept = self.persist.as_ref().and_then(|persist| persist.kept);
        if let Some(kept) = kept.filter(|_| self.timestamps && packet.seq > una)
            && packet.echo < kept.began
        {
            self.find_nothing_lost(engine, kept.window);
            return false;
        }
        let asked = self.persist.as_ref().and_then(|persist| persist.asked);
        match asked {
            Some((segment, _)) if packet.seq == segment && segment == self.una => {
                self.count_opening_ack(engine, now, wire);
                true
            }
            Some((segment, _)) if packet.seq > segment => {
                if let Some(persist) = &mut self.persist {
                    persist.asked = None;
                }
                false
            }
            // A receiver that reads slowly: its window was short, not closed, and no data are out that would ask.
            _ if moved && packet.seq == self.una && self.una == self.max_sent => {
                self.alarms.cancel(Alarm::Persist);
                engine.fill(self, now, wire);
                true
            }
            _ => false,
        }
    }

    /// Whether a duplicate ACK came too early to be about what was sent since the window opened: a copy of the ACK that
    /// opened it, or the answer to a probe. Three of them are no loss. Learns the least round trip on the way.
    fn stems_from_the_outage(&mut self, packet: &Packet, now: Time) -> bool {
        let (una, timestamps) = (self.una, self.timestamps);
        let Some(persist) = &mut self.persist else { return false };
        if timestamps && packet.seq > una {
            let rtt = now.since(packet.echo);
            persist.least = Some(persist.least.map_or(rtt, |least| least.min(rtt)));
        }
        persist.opened = persist.opened.filter(|&(asked, until)| una == asked && now < until);
        packet.seq == una && persist.opened.is_some()
    }

    /// What opening ACKs asked for had arrived before it was sent again: the outage has only held packets up, and the
    /// ACKs of those that follow are no partial ones.
    fn find_nothing_lost<E: RecoveryEngine>(&mut self, engine: &mut E, window: Window) {
        if let Some(persist) = &mut self.persist {
            persist.kept = None;
        }
        self.host.recover = self.una;
        self.dup_acks = 0;
        self.inflation = 0;
        self.first_partial = false;
        if self.action == Action::DuplicateAcks {
            self.action = Action::Exited;
        }
        engine.leave_recovery(self);
        self.host.window = window;
    }

    /// What a cumulative ACK covers is done with, frozen or not; nothing else happens.
    fn note_while_frozen<E: RecoveryEngine>(&mut self, engine: &mut E, packet: &Packet, now: Time) {
        if packet.seq > self.una {
            engine.forget_below(packet.seq);
            self.advance(engine, packet, now, true);
            self.dup_acks = 0;
        }
        self.timer = None;
    }

    /// The sender comes to rest.
    fn freeze<W: Wire>(&mut self, probes: bool, now: Time, wire: &mut W) {
        // Nothing fits into a window of nothing.
        self.set_peer_window(0, now);
        self.timer = None;
        if let Some(persist) = &mut self.persist {
            persist.asked = None;
        }
        if probes {
            self.begin_persisting(now, wire);
        }
    }

    /// The sender goes on with the window that it had.
    fn thaw<E: RecoveryEngine, W: Wire>(&mut self, engine: &mut E, now: Time, wire: &mut W) {
        let outstanding = self.una < self.max_sent;
        let una = self.una;
        // Half of what is usual, where no timestamps tell the least.
        let usual = Span(self.srtt().0 / 2);
        let Some(persist) = &mut self.persist else { return };
        persist.asked = outstanding.then_some((una, 0));
        persist.opened = (!outstanding).then_some((una, now + persist.least.unwrap_or(usual)));
        let open = persist.open_window;
        self.set_peer_window(open, now);
        self.alarms.cancel(Alarm::Persist);
        self.rtt.end_backoff();
        if outstanding {
            self.set_timer(now, wire);
        }
        engine.fill(self, now, wire);
    }

    /// One more ACK asks for the segment at `una` since the window opened.
    fn count_opening_ack<E: RecoveryEngine, W: Wire>(&mut self, engine: &mut E, now: Time, wire: &mut W) {
        let threshold = self.dup_threshold;
        let before = self.host.window;
        let Some(persist) = &mut self.persist else { return };
        let Some((_, count)) = &mut persist.asked else { return };
        *count += 1;
        if *count < threshold {
            return;
        }
        persist.asked = None;
        let keeps = persist.config.keeps_window;
        if !keeps {
            self.fast_retransmit_now(engine, true, now, wire);
            return;
        }
        if !E::ENDS_RECOVERY {
            // Its recovery has no end that could give the window back.
            self.retransmit_una(engine, now, wire);
            return;
        }
        persist.kept = Some(Kept { window: before, end: self.max_sent, began: now });
        // Opening ACKs do not stand for segments that have left the network.
        self.fast_retransmit_now(engine, false, now, wire);
        self.host.window = before;
    }

    /// The window that the repair of an outage is to leave alone, if one is under way.
    pub(super) fn kept_window(&mut self) -> Option<Window> {
        let una = self.una;
        let persist = self.persist.as_mut()?;
        // A later loss is none of that outage.
        persist.kept = persist.kept.filter(|kept| una < kept.end);
        persist.kept.map(|kept| kept.window)
    }

    /// Recovery is over, or a timeout has begun another: the window that was to be kept, if there was one.
    pub(super) fn end_kept_window(&mut self) -> Option<Window> {
        self.persist.as_mut().and_then(|persist| persist.kept.take()).map(|kept| kept.window)
    }

    /// The persist timer: asks for the window, without data (as Linux does), and asks again later.
    pub(super) fn probe_window<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if self.persist.as_ref().is_none_or(|persist| !persist.closed) {
            return;
        }
        self.probe_closed_window(now, wire);
    }

    /// The link of this host is about to go down: a mobile sender stops.
    pub(super) fn on_link_fading<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let una = self.una;
        let Some(persist) = &mut self.persist else { return };
        if una == 0 || persist.halted {
            return;
        }
        persist.halted = true;
        if !persist.closed {
            self.freeze(false, now, wire);
        }
        self.alarms.cancel(Alarm::Persist);
    }

    /// It is back.
    pub(super) fn on_link_up<E: RecoveryEngine, W: Wire>(&mut self, engine: &mut E, now: Time, wire: &mut W) {
        let Some(persist) = &mut self.persist else { return };
        if !std::mem::replace(&mut persist.halted, false) {
            return;
        }
        if persist.closed {
            self.probe_window(now, wire);
        } else {
            self.thaw(engine, now, wire);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Rig;
    use lasthop_core::packet::Note;

    use super::*;
    use crate::transport::profile::Profile;
    use crate::transport::tcp::config::{Recovery, TcpConfig};
    use crate::transport::tcp::mobility::Mobility;
    use lasthop_cc::{ControllerConfig, Signal};

    /// Windows.
    const CLOSED: u32 = 0;
    const OPEN: u32 = u32::MAX;

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    /// W = 20, T = 12, rto = 0.4 s, twenty segments outstanding at 9.9 s.
    fn rig(recovery: Recovery, freeze: Freeze) -> Rig {
        let mut config = TcpConfig {
            limited_transmit: false,
            timestamps: false,
            delayed_ack: None,
            packet_size: 1040,
            initial_window: 20.0,
            mobility: Mobility { freeze: Some(freeze), ..Mobility::default() },
            ..TcpConfig::new(Profile::Rfc, ControllerConfig::by_name("reno").unwrap(), recovery)
        };
        // The timeout is its floor.
        config.rto.min = Span::from_millis(400);
        config.rto.initial = Span::from_millis(400);
        let mut rig = Rig::new(&config);
        rig.sender.on_data(None, rig.now, &mut rig.tape);
        for number in 1..=11 {
            rig.ack(number);
            rig.sender.host.window = Window { cwnd: 20.0, ssthresh: 12.0 };
        }
        assert_eq!((rig.sender.una, rig.sender.max_sent), (10_001, 30_001));
        rig.now = millis(9_900);
        rig.sender.set_timer(rig.now, &mut rig.tape);
        rig.tape.packets.clear();
        rig
    }

    /// An ACK that expects segment `number`, sent and received at `at`; what the sender sends.
    fn ack(rig: &mut Rig, number: u64, at: Time, window: u32) -> Vec<u64> {
        rig.now = at;
        let packet = Packet {
            seq: (number - 1) * 1000 + 1,
            stamp: at,
            window: window.min(rig.sender.own_window),
            kind: Kind::Ack,
            note: Note::BACK,
            ..Packet::default()
        };
        rig.tape.sent.clear();
        rig.sender.on_ack(&packet, None, at, &mut rig.tape);
        std::mem::take(&mut rig.tape.sent)
    }

    /// When probes leave until `end`.
    fn probes(rig: &mut Rig, end: Time) -> Vec<u64> {
        let mut times = Vec::new();
        while rig.sender.armed < end {
            rig.now = rig.sender.armed;
            rig.tape.packets.clear();
            rig.sender.on_timer(rig.now, &mut rig.tape);
            times.extend(rig.tape.packets.iter().map(|_| rig.now.0 / 1_000_000));
            assert!(rig.tape.packets.iter().all(|packet| packet.payload == 0));
        }
        times
    }

    const ALL: [Recovery; 5] =
        [Recovery::Reno, Recovery::NewReno, Recovery::Sack, Recovery::Sack1, Recovery::Vegas];

    /// TV-10.1.
    #[test]
    fn a_frozen_sender_probes_and_goes_on_as_it_was() {
        for recovery in ALL {
            let mut rig = rig(recovery, Freeze::default());
            for _ in 0..2 {
                assert_eq!(ack(&mut rig, 11, millis(10_000), CLOSED), [0; 0], "{recovery:?}");
            }
            assert_eq!(rig.sender.timer, None);
            assert_eq!(probes(&mut rig, millis(12_900)), [10_400, 11_200, 12_800], "{recovery:?}");
            assert_eq!(ack(&mut rig, 11, millis(13_000), OPEN), [0; 0], "{recovery:?}: W is full");
            assert_eq!(rig.sender.timer, Some(millis(13_400)), "{recovery:?}");
            assert_eq!(ack(&mut rig, 11, millis(13_000), OPEN), [0; 0], "{recovery:?}");
            assert_eq!(ack(&mut rig, 11, millis(13_000), OPEN), [11], "{recovery:?}: the third");
            assert_eq!(rig.sender.host.window, Window { cwnd: 20.0, ssthresh: 12.0 }, "{recovery:?}");
            assert_eq!(rig.sender.stats.timeouts, 0);
        }
    }

    /// The fourth probe of TV-10.1, and the ceiling.
    #[test]
    fn probes_double_up_to_a_minute() {
        let mut rig = rig(Recovery::NewReno, Freeze::default());
        ack(&mut rig, 11, millis(10_000), CLOSED);
        let times = probes(&mut rig, millis(300_000));
        assert_eq!(times[..4], [10_400, 11_200, 12_800, 16_000]);
        assert!(times.windows(2).any(|pair| pair[1] - pair[0] == 60_000), "{times:?}");
    }

    /// What was lost in the outage is repaired, and W and T are there again afterwards.
    #[test]
    fn the_repair_leaves_the_window_alone() {
        let mut rig = rig(Recovery::NewReno, Freeze::default());
        ack(&mut rig, 11, millis(10_000), CLOSED);
        (0..3).for_each(|_| drop(ack(&mut rig, 11, millis(13_000), OPEN)));
        // Segments 11 to 30 are all gone: one partial ACK per round trip.
        for number in 12..=30 {
            assert!(ack(&mut rig, number, millis(13_000 + 100 * number), OPEN).contains(&number));
        }
        ack(&mut rig, 40, millis(17_000), OPEN);
        let Window { cwnd, ssthresh } = rig.sender.host.window;
        assert!((20.0..22.0).contains(&cwnd) && ssthresh == 12.0, "{cwnd} {ssthresh}");
        assert_eq!(rig.sender.stats.timeouts, 0);
    }

    /// A link that held packets back while it was down: the ACK of the segment that was asked for echoes a time before
    /// it was sent again, so nothing was lost, and the ACKs behind it are no partial ones.
    #[test]
    fn what_was_only_held_up_is_not_sent_again() {
        for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack, Recovery::Sack1] {
            let mut rig = rig(recovery, Freeze::default());
            rig.sender.timestamps = true;
            ack(&mut rig, 11, millis(10_000), CLOSED);
            let sent: Vec<u64> = (0..3).flat_map(|_| ack(&mut rig, 11, millis(13_000), OPEN)).collect();
            assert_eq!(sent, [11], "{recovery:?}: asked for");
            let mut sent = Vec::new();
            for number in 12..=31 {
                rig.now = millis(13_010 + number);
                let packet = Packet {
                    seq: (number - 1) * 1000 + 1,
                    stamp: rig.now,
                    echo: millis(9_900),
                    window: rig.sender.own_window,
                    kind: Kind::Ack,
                    note: Note::BACK,
                    ..Packet::default()
                };
                rig.tape.sent.clear();
                rig.sender.on_ack(&packet, None, rig.now, &mut rig.tape);
                sent.append(&mut rig.tape.sent);
            }
            assert!(sent.iter().all(|&number| number > 30), "{recovery:?}: {sent:?}");
            assert!(rig.sender.host.window.cwnd >= 20.0, "{recovery:?}: {:?}", rig.sender.host.window);
        }
    }

    /// Nothing was outstanding when the window opened: its copies and the answer to a probe say nothing about what
    /// was sent at once, until a round trip has passed.
    #[test]
    fn copies_of_the_opening_ack_ask_for_nothing_new() {
        for recovery in ALL {
            let mut rig = rig(recovery, Freeze::default());
            ack(&mut rig, 31, millis(10_000), CLOSED);
            assert_eq!(rig.sender.una, rig.sender.max_sent);
            assert_eq!(ack(&mut rig, 31, millis(13_000), OPEN).len(), 20, "{recovery:?}");
            let early = rig.sender.srtt().0 / 2_000_000 - 1;
            for later in [0, 0, 0, 0, early] {
                assert_eq!(ack(&mut rig, 31, millis(13_000 + later), OPEN), [0; 0], "{recovery:?}");
            }
            // Those of RFC 6675 ask for blocks as well.
            let counts = matches!(recovery, Recovery::Reno | Recovery::NewReno | Recovery::Vegas);
            let late: Vec<u64> = (1..=3)
                .flat_map(|number| ack(&mut rig, 31, millis(13_000 + 2 * early + number), OPEN))
                .collect();
            assert!(late.contains(&31) || !counts, "{recovery:?}: {late:?}");
        }
    }

    /// By RFC 5681 the first opening ACK is no duplicate, and without `keeps_window` the repair halves.
    #[test]
    fn the_switches_switch() {
        let freeze = Freeze { opening_ack_counts: false, keeps_window: false, ..Freeze::default() };
        let mut rig = rig(Recovery::NewReno, freeze);
        ack(&mut rig, 11, millis(10_000), CLOSED);
        let sent: Vec<Vec<u64>> = (0..4).map(|_| ack(&mut rig, 11, millis(13_000), OPEN)).collect();
        assert_eq!(sent, [vec![], vec![], vec![], vec![11]]);
        assert_eq!(rig.window(), (13.0, 10.0));
    }

    /// A closing ACK that overtook an older one is not undone by it.
    #[test]
    fn an_overtaken_ack_does_not_open_the_window() {
        let mut rig = rig(Recovery::NewReno, Freeze::default());
        ack(&mut rig, 12, millis(10_000), CLOSED);
        assert_eq!(rig.sender.una, 11_001);
        let window = rig.sender.own_window;
        let older =
            Packet { seq: 12_001, stamp: millis(9_950), window, kind: Kind::Ack, ..Packet::default() };
        rig.sender.timestamps = true;
        rig.tape.sent.clear();
        rig.sender.on_ack(&older, None, millis(10_010), &mut rig.tape);
        assert!(rig.tape.sent.is_empty() && rig.sender.is_frozen());
        assert_eq!(rig.sender.una, 12_001, "what it acknowledges counts");
        assert_eq!(rig.sender.timer, None);
        // The window opens: the two places that ACKs have freed are filled.
        assert_eq!(ack(&mut rig, 13, millis(13_000), OPEN), [31, 32]);
    }

    /// A sender on the mobile host stops by itself, and does not probe a link that is down.
    #[test]
    fn a_mobile_sender_stops() {
        let mut rig = rig(Recovery::NewReno, Freeze::default());
        let warning = Span::from_millis(100);
        rig.sender.on_signal(&Signal::LinkFading { warning }, millis(10_000), &mut rig.tape);
        assert!(ack(&mut rig, 15, millis(10_010), OPEN).is_empty());
        assert!(probes(&mut rig, millis(13_000)).is_empty());
        rig.tape.sent.clear();
        rig.sender.on_signal(&Signal::LinkUp, millis(13_000), &mut rig.tape);
        assert_eq!(rig.tape.sent, [31, 32, 33, 34]);
        assert_eq!(rig.sender.timer, Some(millis(13_400)));
        assert_eq!(rig.sender.host.window, Window { cwnd: 20.0, ssthresh: 12.0 });
    }
}
