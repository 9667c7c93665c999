//! When a sender acts, for controllers that move its timers and its threshold (`Needs::timing`): a timer that waits
//! with the link, a number of duplicate ACKs that changes, a fast retransmission that is held back.
//!
//! Called by `sender.rs` and the recovery engines; nothing here happens for other senders.

use lasthop_cc::{CongestionControl, Signal};
use lasthop_core::time::Time;

use super::alarms::Alarm;
use super::sender::{Engine, TcpSender, Wire};

impl TcpSender {
    /// The link has said something about a segment: while it goes on trying the timer waits with it, and when it has
    /// given up the duplicate ACKs that are here already may be enough.
    pub(super) fn retime<W: Wire>(&mut self, signal: &Signal, now: Time, wire: &mut W) {
        match *signal {
            Signal::LinkRetry { seq, end, .. } if seq <= self.una && self.una < end => {
                // The timer is lazy: a wake-up that comes too early finds it moved.
                let longer = self.controller.retry_extension();
                self.timer = self.timer.map(|due| due + longer);
            }
            Signal::LinkDrop { seq, end, .. } if seq <= self.una && self.una < end && self.una > 0 => {
                self.duplicates_may_suffice(now, wire);
            }
            _ => {}
        }
    }

    /// Duplicate ACKs that mean a loss now.
    #[inline]
    pub(super) fn threshold(&self) -> u32 {
        if self.needs.timing {
            return self.controller.dup_threshold(self.una, self.dup_threshold).max(1);
        }
        self.dup_threshold
    }

    /// Whether a fast retransmission that is due now is to wait; it then happens when the alarm rings, unless `una`
    /// advances before.
    pub(super) fn holds_back<W: Wire>(&mut self, now: Time, wire: &mut W) -> bool {
        if !self.needs.timing {
            return false;
        }
        let Some(delay) = self.controller.retransmit_delay() else { return false };
        if !self.alarms.is_set(Alarm::Hold) {
            self.set_alarm(Alarm::Hold, now + delay, wire);
        }
        true
    }

    /// The fast retransmission has waited long enough.
    pub(super) fn end_hold<W: Wire>(&mut self, now: Time, wire: &mut W) {
        match self.engine {
            Engine::Sack(_) => self.sack_end_hold(now, wire),
            Engine::Tahoe | Engine::Reno | Engine::NewReno => self.duplicate_end_hold(now, wire),
            Engine::Rack(_) | Engine::Sack1(_) | Engine::Vegas(_) => {}
        }
    }

    /// The number of duplicate ACKs that mean a loss has fallen.
    fn duplicates_may_suffice<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if self.dup_acks < self.threshold() {
            return;
        }
        match self.engine {
            Engine::Sack(_) => self.sack_reconsider(now, wire),
            Engine::Tahoe | Engine::Reno | Engine::NewReno => self.duplicate_reconsider(now, wire),
            Engine::Rack(_) | Engine::Sack1(_) | Engine::Vegas(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use lasthop_cc::ControllerConfig;
    use lasthop_core::time::Span;

    use super::super::config::{Profile, Recovery, TcpConfig};
    use super::super::sender::testing::Rig;
    use super::*;

    const ENGINES: [Recovery; 3] = [Recovery::Reno, Recovery::NewReno, Recovery::Sack];

    /// Segments 11 to 20 are outstanding under WSC-TCP with these parameters.
    fn rig(recovery: Recovery, params: &[(&str, f64)]) -> Rig {
        let mut controller = ControllerConfig::by_name("wsc").unwrap();
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
                let mut rig = rig(recovery, &[]);
                (12..=16).for_each(|number| link_ack(&mut rig, number, 0));
                if late {
                    link_ack(&mut rig, 11, 1);
                }
                let sent: Vec<u64> = (12..=16).flat_map(|last| duplicate(&mut rig, last)).collect();
                assert_eq!(sent, [0; 0], "{recovery:?}");
                rig.ack(17);
                assert_eq!(rig.sender.stats.fast_recoveries, 0, "{recovery:?}");
                assert!(rig.sender.window.cwnd >= 10.0, "{recovery:?}");
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
            assert_eq!(duplicate(&mut rig, 12), [11], "{recovery:?}");
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
            let cwnd = rig.sender.window.cwnd;
            assert!(cwnd <= 5.0, "{recovery:?}: {cwnd}");
            assert_eq!(link_drop(&mut rig, 11), [0; 0], "{recovery:?}: once");
            // The repair goes over the link and recovery ends as ever.
            link_ack(&mut rig, 11, 0);
            duplicate(&mut rig, 14);
            rig.ack(21);
            assert_eq!(rig.sender.stats.fast_recoveries, 1);
            assert!(rig.sender.window.cwnd <= 5.0);
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
        let controller = ControllerConfig::by_name("wsc").unwrap();
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
        assert_eq!((rig.sender.window.cwnd, rig.sender.window.ssthresh), (20.0, 40.0));
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
