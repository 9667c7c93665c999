//! When a sender acts, for controllers that move its timers and its threshold (`Needs::timing`): a timer that waits
//! with the link, a number of duplicate ACKs that changes, a fast retransmission that is held back.
//!
//! Asked by `ack.rs`, `signal.rs` and the recovery engines; nothing here happens for other senders.

use lasthop_cc::{CongestionControl, LossKind, Signal};
use lasthop_core::time::Time;

use super::Connection;
use super::alarms::Alarm;
use super::recovery::RecoveryEngine;
use crate::transport::wire::Wire;

impl Connection {
    /// The link has said something about a segment: while it goes on trying the timer waits with it, and when it has
    /// given up the segment is sent again at once, or the duplicate ACKs that are here already may be enough.
    pub(super) fn retime<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        signal: &Signal,
        now: Time,
        wire: &mut W,
    ) {
        match *signal {
            Signal::LinkRetry { seq, end, .. } if seq <= self.una && self.una < end => {
                // The timer is lazy: a wake-up that comes too early finds it moved.
                let longer = self.host.law().retry_extension();
                self.timer = self.timer.map(|due| due + longer);
            }
            Signal::LinkDrop { seq, .. } if self.una > 0 && self.host.law().resends_given_up() => {
                self.resend_given_up(engine, seq, now, wire);
            }
            Signal::LinkDrop { seq, end, .. }
                if seq <= self.una && self.una < end && self.una > 0 && self.dup_acks >= self.threshold() =>
            {
                engine.reconsider(self, now, wire);
            }
            _ => {}
        }
    }

    /// The link has given up the segment at `seq`: it will not be delivered. The controller says what the loss
    /// was; one that it takes for congestion waits for duplicate ACKs like any other.
    fn resend_given_up<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        seq: u64,
        now: Time,
        wire: &mut W,
    ) {
        let Some(index) = self.segments.find(seq.max(self.una)) else { return };
        if self.segments.get(index).is_none_or(|segment| segment.sacked || segment.seq >= self.next) {
            // It has arrived by another copy, or go-back-N will come to it.
            return;
        }
        let sample = self.loss_sample(engine, now);
        let reduction = self.answer_loss_of(seq, sample, now, wire);
        if reduction.taken_for == Some(LossKind::Wireless) {
            self.retransmit_index(engine, index, now, wire);
            self.set_timer(now, wire);
        }
    }

    /// Duplicate ACKs that mean a loss now.
    #[inline]
    pub(super) fn threshold(&self) -> u32 {
        if self.needs.timing {
            return self.host.law().dup_threshold(self.una, self.dup_threshold).max(1);
        }
        self.dup_threshold
    }

    /// Whether a fast retransmission that is due now is to wait; it then happens when the alarm rings, unless `una`
    /// advances before.
    pub(super) fn holds_back<W: Wire>(&mut self, now: Time, wire: &mut W) -> bool {
        if !self.needs.timing {
            return false;
        }
        let Some(delay) = self.host.law().retransmit_delay() else { return false };
        if !self.alarms.is_set(Alarm::Hold) {
            self.set_alarm(Alarm::Hold, now + delay, wire);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use lasthop_cc::ControllerConfig;
    use lasthop_core::time::Span;

    use crate::transport::tcp::config::{Recovery, TcpConfig};

    use super::super::testing::Rig;
    use super::*;
    use crate::transport::profile::Profile;

    const ENGINES: [Recovery; 3] = [Recovery::Reno, Recovery::NewReno, Recovery::Sack];

    /// Segments 11 to 20 are outstanding under WSC-TCP with these parameters.
    fn rig(recovery: Recovery, params: &[(&str, f64)]) -> Rig {
        let mut controller = ControllerConfig::by_name("wsc").unwrap();
        // What has overtaken a segment is remembered; what the link drops waits for a duplicate.
        controller.set("threshold", 2.0).unwrap();
        controller.set("on_link_drop", 1.0).unwrap();
        for &(name, value) in params {
            controller.set(name, value).unwrap();
        }
        let config = TcpConfig {
            limited_transmit: false,
            timestamps: false,
            delayed_ack: None,
            packet_size: 1040,
            ..TcpConfig::new(Profile::Rfc, controller, recovery)
        };
        Rig::new(&config).ten_outstanding()
    }

    fn tell(rig: &mut Rig, signal: Signal) -> Vec<u64> {
        rig.sender.on_signal(&signal, rig.now, &mut rig.tape);
        std::mem::take(&mut rig.tape.sent)
    }

    fn range(number: u64) -> (u64, u64) {
        ((number - 1) * 1000 + 1, number * 1000 + 1)
    }

    fn link_ack(rig: &mut Rig, number: u64, retransmissions: u32) {
        let (seq, end) = range(number);
        let signal = Signal::LinkAck { seq, end, retransmissions, delay: Span::ZERO };
        assert_eq!(tell(rig, signal), [0; 0]);
    }

    fn link_drop(rig: &mut Rig, number: u64) -> Vec<u64> {
        let (seq, end) = range(number);
        tell(rig, Signal::LinkDrop { seq, end, attempts: 4 })
    }

    /// A duplicate for 11 that SACKs up to `last`.
    fn duplicate(rig: &mut Rig, last: u64) -> Vec<u64> {
        rig.sack(11, &[(12, last)])
    }

    /// The link repeats 11 while 12 to 16 pass: their five duplicates are no loss, neither while it does so nor when
    /// they come after it is done. Without the signals the third is one.
    #[test]
    fn what_overtook_a_repeated_frame_is_no_loss() {
        for recovery in ENGINES {
            for late in [false, true] {
                // The link says nothing on 11 meanwhile: by the literal rule.
                let mut rig = rig(recovery, &[("link_silence", 0.0)]);
                (12..=16).for_each(|number| link_ack(&mut rig, number, 0));
                if late {
                    link_ack(&mut rig, 11, 1);
                }
                let sent: Vec<u64> = (12..=16).flat_map(|last| duplicate(&mut rig, last)).collect();
                assert_eq!(sent, [0; 0], "{recovery:?}");
                rig.ack(17);
                assert_eq!(rig.sender.stats.fast_recoveries, 0, "{recovery:?}");
                assert!(rig.sender.host.window.cwnd >= 10.0, "{recovery:?}");
            }
            let mut rig = rig(recovery, &[]);
            let sent: Vec<u64> = (12..=14).flat_map(|last| duplicate(&mut rig, last)).collect();
            assert_eq!(sent, [11], "{recovery:?} without signals");
        }
    }

    /// 11 was delivered by the link and lost beyond it: three duplicates more than its overtakers explain.
    #[test]
    fn a_loss_beyond_the_link_is_still_found() {
        for recovery in ENGINES {
            let mut rig = rig(recovery, &[]);
            (12..=14).for_each(|number| link_ack(&mut rig, number, 0));
            link_ack(&mut rig, 11, 1);
            let sent: Vec<u64> = (12..=16).flat_map(|last| duplicate(&mut rig, last)).collect();
            assert_eq!(sent, [0; 0], "{recovery:?}");
            assert_eq!(duplicate(&mut rig, 17)[0], 11, "{recovery:?}: the sixth");
            assert_eq!(rig.sender.stats.fast_recoveries, 1);
        }
    }

    #[test]
    fn what_the_link_dropped_is_sent_at_the_first_duplicate() {
        for recovery in ENGINES {
            let mut rig = rig(recovery, &[]);
            (12..=16).for_each(|number| link_ack(&mut rig, number, 0));
            assert_eq!(link_drop(&mut rig, 11), [0; 0], "{recovery:?}: no duplicate yet");
            assert_eq!(duplicate(&mut rig, 12)[0], 11, "{recovery:?}");
            assert_eq!(rig.sender.stats.fast_recoveries, 1);
        }
    }

    #[test]
    fn duplicates_that_are_here_count_when_the_link_gives_up() {
        for recovery in ENGINES {
            let mut rig = rig(recovery, &[]);
            (12..=16).for_each(|number| link_ack(&mut rig, number, 0));
            duplicate(&mut rig, 12);
            duplicate(&mut rig, 13);
            assert_eq!(link_drop(&mut rig, 11)[0], 11, "{recovery:?}");
            assert_eq!(link_drop(&mut rig, 11), [0; 0], "{recovery:?}: once");
            // The repair goes over the link and recovery ends as ever.
            link_ack(&mut rig, 11, 0);
            duplicate(&mut rig, 14);
            rig.ack(21);
            assert_eq!(rig.sender.stats.fast_recoveries, 1);
            assert_eq!(rig.sender.host.window.ssthresh, 10.0, "{recovery:?}: it was no congestion");
        }
    }

    /// The default: what the link gives up goes out again at once, wherever it lies, and neither the window falls nor
    /// do the duplicates of what follows it begin a recovery.
    #[test]
    fn what_the_link_gives_up_is_sent_again_at_once() {
        for recovery in ENGINES {
            for number in [11, 15] {
                let mut rig = rig(recovery, &[("on_link_drop", 0.0), ("threshold", 0.0)]);
                assert_eq!(link_drop(&mut rig, number), [number], "{recovery:?}");
                assert_eq!(rig.sender.stats.retransmitted, 1, "{recovery:?}");
                assert_eq!(rig.tape.beliefs, [LossKind::Wireless], "{recovery:?}: no congestion");
                if number > 11 {
                    rig.ack(number);
                }
                let sent: Vec<u64> =
                    (number + 1..=20).flat_map(|last| rig.sack(number, &[(number + 1, last)])).collect();
                assert!(!sent.contains(&number), "{recovery:?}: {sent:?}");
                rig.ack(21);
                assert_eq!(rig.sender.stats.fast_recoveries, 0, "{recovery:?}");
                assert!(rig.sender.host.window.cwnd >= 10.0, "{recovery:?}");
            }
        }
    }

    /// The running timer waits 100 ms longer for each attempt at the oldest segment, and for no other.
    #[test]
    fn the_timer_waits_with_the_link() {
        let mut rig = rig(Recovery::NewReno, &[("link_timeout", 0.1)]);
        let due = rig.sender.timer.unwrap();
        let retry = |number, attempts| {
            let (seq, end) = range(number);
            Signal::LinkRetry { seq, end, attempts }
        };
        tell(&mut rig, retry(12, 1));
        assert_eq!(rig.sender.timer, Some(due));
        tell(&mut rig, retry(11, 1));
        tell(&mut rig, retry(11, 2));
        assert_eq!(rig.sender.timer, Some(due + Span::from_millis(200)));
        assert_eq!(rig.time_out(), [11]);
        assert_eq!(rig.now, due + Span::from_millis(200), "the early wake-up did nothing");
    }

    /// The mode `wsc_delay`: the third duplicate starts a wait of 300 ms.
    #[test]
    fn a_fast_retransmission_is_held_back() {
        let params = [("wsc_delay", 1.0), ("link_delay", 0.3)];
        for recovery in [Recovery::Tahoe, Recovery::Reno, Recovery::NewReno, Recovery::Sack] {
            let mut rig = rig(recovery, &params);
            let sent: Vec<u64> = (12..=15).flat_map(|last| duplicate(&mut rig, last)).collect();
            assert_eq!(sent, [0; 0], "{recovery:?}");
            let due = rig.now + Span::from_millis(299);
            assert_eq!(rig.sender.armed, due, "{recovery:?}: from the third of four");
            let mut in_time = rig.sender.clone();
            rig.sender.on_timer(due, &mut rig.tape);
            assert_eq!(rig.tape.sent[0], 11, "{recovery:?}");
            assert_eq!(rig.sender.stats.fast_recoveries, 1);
            // The same, but the segment arrives 1 ms before the wait is over.
            std::mem::swap(&mut rig.sender, &mut in_time);
            rig.tape.sent.clear();
            rig.now = due - Span::from_millis(2);
            rig.ack(16);
            rig.tape.sent.clear();
            rig.sender.armed = due;
            rig.sender.on_timer(due, &mut rig.tape);
            assert_eq!(rig.tape.sent, [0; 0], "{recovery:?}");
            assert_eq!(rig.sender.stats.fast_recoveries, 0, "{recovery:?}");
        }
    }

    /// A best start sends its window over the round trip of the handshake, and nothing is paced afterwards.
    #[test]
    fn a_best_start_is_paced() {
        let mut controller = ControllerConfig::by_name("wsc").unwrap();
        controller.set("best_factor", 0.5).unwrap();
        let config = TcpConfig {
            timestamps: false,
            packet_size: 1040,
            ..TcpConfig::new(Profile::Rfc, controller, Recovery::NewReno)
        };
        let mut rig = Rig::new(&config);
        rig.sender.remember(vec![40.0; 3]);
        rig.sender.on_data(None, rig.now, &mut rig.tape);
        rig.tape.sent.clear();
        rig.now += Span::from_millis(39);
        assert_eq!(rig.ack(1), [1], "40 ms after the SYN");
        assert_eq!((rig.sender.host.window.cwnd, rig.sender.host.window.ssthresh), (20.0, 40.0));
        let start = rig.now;
        while rig.tape.sent.len() < 19 {
            rig.now = rig.sender.armed;
            rig.sender.on_timer(rig.now, &mut rig.tape);
        }
        assert_eq!(rig.now.since(start), Span::from_millis(38), "19 gaps of 2 ms");
        rig.tape.sent.clear();
        rig.now = start + Span::from_millis(39);
        assert_eq!(rig.ack(2), [21, 22]);
        assert_eq!(rig.ack(3), [23, 24], "by the ACK clock");
    }
}
