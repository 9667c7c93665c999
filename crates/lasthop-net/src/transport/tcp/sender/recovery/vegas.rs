//! Vegas's own retransmission: a fine-grained timeout per segment on top of Reno (Brakmo & Peterson 1995).
//!
//! A duplicate ACK, or one of the first two ACKs after a retransmission, retransmits at once if the first outstanding
//! segment is older than the fine-grained timeout. The window is cut only once for what was sent at the old rate.
//!
//! In the profile `ns2` it also has the faults of ns-2's, unless `vegas_faults = false`: whatever asks for
//! `self.faults` is one of them.

use lasthop_cc::LossSample;
use lasthop_core::packet::Packet;
use lasthop_core::time::{Span, Time};

use super::super::{Action, Connection};
use super::RecoveryEngine;
use crate::transport::sack::SackBlocks;
use crate::transport::wire::Wire;

/// The fine-grained timer. Times are seconds since the connection was opened.
#[derive(Clone, Debug)]
pub(in super::super) struct FineTimer {
    /// Smoothed RTT times 8 and its variation times 4; 0 before the handshake is answered.
    srtt8: f64,
    rttvar4: f64,
    timeout: f64,
    /// ACKs that are still to be checked after a retransmission.
    worried: u32,
    /// Window after the last cut, without inflation.
    cut_window: f64,
    /// When the window was last cut.
    cut_at: f64,
    /// The faults of ns-2's Vegas.
    faults: bool,
    /// ns-2 keeps send times and transmission counts in an array as long as the receiver window; slots of segments
    /// acknowledged across its end stay dirty. `None`: the sender's own records.
    log: Option<Vec<(f64, u32)>>,
}

impl FineTimer {
    /// `faulty_window`: the receiver window if it is to have the faults of ns-2's.
    pub(super) fn new(faulty_window: Option<u32>) -> FineTimer {
        FineTimer {
            srtt8: 0.0,
            rttvar4: 0.0,
            timeout: 1000.0,
            worried: 0,
            cut_window: 0.0,
            cut_at: 0.0,
            faults: faulty_window.is_some(),
            log: faulty_window.map(|window| vec![(-1.0, 0); window as usize]),
        }
    }

    /// Takes the send time and the number of transmissions of the segment before `ack` out of ns-2's array,
    /// and clears the slots from `una` to `ack` as ns-2 does: not across the end of the array.
    fn take_from_log(&mut self, una: u64, ack: u64, mss: u64) -> Option<(f64, u32)> {
        let log = self.log.as_mut()?;
        let number = |position: u64| position.div_ceil(mss) as usize;
        let (first, last) = (number(una), number(ack) - 1);
        let found = log[last % log.len()];
        let end = last % log.len();
        let mut slot = first % log.len();
        let mut left = last + 1 - first;
        while slot <= end && left > 0 {
            log[slot] = (-1.0, 0);
            slot += 1;
            if slot == log.len() {
                slot = 0;
            }
            left -= 1;
        }
        Some(found)
    }

    /// The timeout of the first sample, from the handshake.
    fn start(&mut self, rtt: f64) {
        self.srtt8 = rtt * 8.0;
        self.rttvar4 = rtt;
        self.timeout = f64::midpoint(self.srtt8 / 4.0, self.rttvar4);
    }

    fn sample(&mut self, rtt: f64) {
        if self.srtt8 == 0.0 {
            self.start(rtt);
            return;
        }
        let mut error = rtt - self.srtt8 / 8.0;
        self.srtt8 += error;
        error = error.abs() - self.rttvar4 / 4.0;
        self.rttvar4 += error;
        if self.rttvar4 < 1e-12 {
            // On a steady path it would decay into the denormal numbers, which are slow.
            self.rttvar4 = 0.0;
        }
        self.timeout = f64::midpoint(self.srtt8 / 4.0, self.rttvar4);
        self.timeout += self.timeout / 16.0;
    }
}

impl RecoveryEngine for FineTimer {
    const ENDS_RECOVERY: bool = false;
    const STARTS_TIMER_ANEW: bool = false;
    const FULL_SYN: bool = true;

    /// Takes an ACK under Vegas.
    fn on_ack<W: Wire>(
        &mut self,
        tcp: &mut Connection,
        packet: &Packet,
        _sack: Option<&SackBlocks>,
        now: Time,
        wire: &mut W,
    ) {
        // Karn's rule: whose SYN was repeated waits for the first data.
        if self.srtt8 == 0.0 && (self.faults || tcp.segments.at(0).is_some_and(|syn| syn.transmissions == 1))
        {
            self.start(tcp.elapsed(now).seconds());
        }
        if packet.seq > tcp.una {
            self.on_new_ack(tcp, packet, now, wire);
        } else if packet.seq == tcp.una && (self.faults || tcp.una < tcp.max_sent) {
            self.on_duplicate(tcp, now, wire);
        }
        if tcp.dup_acks == 0 || tcp.dup_acks >= tcp.dup_threshold {
            self.fill(tcp, now, wire);
        }
    }

    /// The coarse timer expired: restart from two segments. In the profile `ns2` it also expires after a pause.
    fn on_timeout<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        let outstanding = tcp.una < tcp.max_sent;
        let opens = tcp.una == 0;
        tcp.dup_acks = 0;
        if outstanding || self.faults {
            // ns-2 takes the end of a pause for a loss, with all that follows.
            tcp.host.recover = tcp.max_sent;
            tcp.timeout_recover = tcp.max_sent;
            tcp.action = Action::Timeout;
            tcp.rtt.back_off();
        }
        if opens && !self.faults {
            // RFC 5681 §3.1: a lost SYN is paid for with the initial window.
            tcp.host.pay_for_syn();
        }
        tcp.timed = None;
        tcp.set_timer(now, wire);
        tcp.next = tcp.una;
        tcp.count_timeout(outstanding, now);
        if tcp.ns2 || !opens {
            let sample = tcp.loss_sample(self, now);
            let reduction = tcp.host.answer_timeout(&sample, false);
            tcp.keep_score(reduction, now, wire);
        }
        // ns-2 sends data behind a repeated SYN.
        tcp.host.window.cwnd = if opens && !self.faults { 1.0 } else { 2.0 };
        if outstanding || self.faults {
            // In ns-2 duplicate ACKs then deflate the window to this, to zero, and nothing is sent until the timer
            // expires again.
            self.cut_window = 0.0;
            self.cut_at = tcp.elapsed(now).seconds();
        }
        if opens && self.faults {
            // The clock counts from the last SYN, but that of the cut from the one before.
            tcp.opened = Some(now);
        }
        self.fill(tcp, now, wire);
    }

    fn enter_recovery<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        self.on_duplicate(tcp, now, wire);
    }

    fn repair_first<W: Wire>(&mut self, tcp: &mut Connection, _inflate: bool, now: Time, wire: &mut W) {
        tcp.dup_acks = tcp.dup_threshold - 1;
        self.on_duplicate(tcp, now, wire);
    }

    #[inline]
    fn on_sent(&mut self, tcp: &Connection, seq: u64, _end: u64, now: Time) {
        if let Some(log) = &mut self.log {
            let slot = seq.div_ceil(u64::from(tcp.mss)) as usize % log.len();
            log[slot] = (tcp.elapsed(now).seconds(), log[slot].1 + 1);
        }
    }

    /// What was sent at the old rate is not cut for again.
    fn on_mark(&mut self, tcp: &Connection, now: Time) {
        self.cut_window = tcp.host.window.cwnd;
        self.cut_at = tcp.elapsed(now).seconds();
    }

    fn is_in_recovery(&self, tcp: &Connection) -> bool {
        tcp.answers_duplicates()
    }
}

impl FineTimer {
    /// Send time and number of transmissions of the first outstanding segment.
    fn first_outstanding(&self, tcp: &Connection) -> (f64, u32) {
        if let Some(log) = &self.log {
            return log[tcp.una.div_ceil(u64::from(tcp.mss)) as usize % log.len()];
        }
        tcp.segments.at(tcp.una).map_or((f64::INFINITY, 0), |first| {
            (tcp.elapsed(first.last_sent).seconds(), u32::from(first.transmissions))
        })
    }

    /// Whether the first outstanding segment is older than the fine-grained timeout.
    fn first_expired(&self, tcp: &Connection, now: Time) -> bool {
        let age = tcp.elapsed(now).seconds() - self.first_outstanding(tcp).0;
        age >= self.timeout
    }

    /// Sends the first outstanding segment again; `false` if nothing is outstanding. ns-2 takes the empty slot of the
    /// segment to come for an old one and sends that; as its place in the sequence does not move on, the same segment
    /// follows again. It does so even if the application has written no more, or into a window that is closed; neither
    /// is repeated here.
    fn send_first<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) -> bool {
        if tcp.una < tcp.max_sent {
            tcp.retransmit_una(self, now, wire);
            return true;
        }
        if !self.faults || !tcp.has_more() || !tcp.has_room() {
            return false;
        }
        let next = tcp.next;
        tcp.transmit_next(self, now, wire);
        tcp.next = next;
        true
    }

    fn on_new_ack<W: Wire>(&mut self, tcp: &mut Connection, packet: &Packet, now: Time, wire: &mut W) {
        // ns-2 opens the window one round trip late, with the ACK of the first data.
        let opens_at = u64::from(self.faults);
        if tcp.una == opens_at {
            tcp.host.window.cwnd = tcp.host.initial_window();
        }
        // The inflation of recovery goes with the first new ACK. ns-2 stays inflated after exactly three duplicates.
        let spared = tcp.dup_threshold + u32::from(self.faults);
        if tcp.dup_acks >= spared && tcp.host.window.cwnd > self.cut_window {
            let least = if self.faults { 0.0 } else { 1.0 };
            tcp.host.window.cwnd = self.cut_window.max(least);
            tcp.host.window.ssthresh = 2.0;
        }
        tcp.dup_acks = 0;
        let una = tcp.una;
        let (acked, own_rtt) = tcp.advance(self, packet, now, true);
        if una == 0 && !tcp.ns2 {
            tcp.rtt.end_handshake();
        }
        tcp.restart_timer(now, wire);
        let elapsed = tcp.elapsed(now).seconds();
        let mss = u64::from(tcp.mss);
        let rtt = match self.take_from_log(una, packet.seq, mss) {
            Some((sent, 1)) if sent != 0.0 => Some(Span::from_seconds(elapsed - sent)),
            Some(_) => None,
            None => own_rtt,
        };
        let may_grow = tcp.may_grow(packet);
        tcp.measure_and_grow(self, acked, rtt, may_grow, now);
        if let Some(rtt) = rtt.filter(|&rtt| rtt > Span::ZERO) {
            self.sample(rtt.seconds());
        }
        if self.worried > 0 {
            self.worried -= 1;
            if self.first_expired(tcp, now) && self.send_first(tcp, now, wire) {
                tcp.dup_acks = tcp.dup_threshold;
            } else {
                self.worried = 0;
            }
        }
    }

    fn on_duplicate<W: Wire>(&mut self, tcp: &mut Connection, now: Time, wire: &mut W) {
        tcp.dup_acks += 1;
        let expired = self.first_expired(tcp, now);
        if !expired && tcp.dup_acks != tcp.dup_threshold {
            if tcp.dup_acks > tcp.dup_threshold {
                tcp.host.window.cwnd += 1.0;
            }
            return;
        }
        if tcp.una <= tcp.host.recover && tcp.action == Action::Timeout {
            return;
        }
        let (sent, transmissions) = self.first_outstanding(tcp);
        let window = f64::from(tcp.usable());
        tcp.action = Action::DuplicateAcks;
        tcp.host.recover = tcp.max_sent;
        let outstanding = (tcp.next - tcp.una).div_ceil(u64::from(tcp.mss)) as u32 + 1;
        let elapsed = tcp.elapsed(now).seconds();
        self.worried = outstanding.min(2);
        self.timeout *= if transmissions > 1 { 2.0 } else { 1.125 };
        if self.cut_at < sent {
            let sample = LossSample {
                now,
                flight: window,
                retransmitted: transmissions > 1,
                truth: tcp.truth_of(tcp.una, wire),
            };
            let reduction = tcp.host.answer_loss(&sample);
            tcp.keep_score(reduction, now, wire);
            let cut = reduction.cwnd;
            let dup_acks = f64::from(tcp.dup_acks);
            self.cut_window = cut;
            self.cut_at = elapsed;
            tcp.host.window.cwnd = cut + dup_acks;
            tcp.count_recovery(now);
        }
        if self.faults {
            // ns-2 backs the coarse timer off as well.
            tcp.rtt.back_off();
        }
        tcp.timed = None;
        tcp.set_timer(now, wire);
        self.send_first(tcp, now, wire);
        if transmissions == 1 {
            tcp.dup_acks = tcp.dup_threshold;
        }
    }
}

#[cfg(test)]
mod tests {
    use lasthop_cc::{ControllerConfig, Window};

    use crate::transport::tcp::config::{Recovery, TcpConfig};

    use super::super::Engine;
    use super::*;
    use crate::transport::profile::Profile;
    use crate::transport::tcp::sender::testing::Rig;

    fn fine(rig: &mut Rig) -> &mut FineTimer {
        let Engine::Vegas(timer) = &mut rig.sender.engine else { panic!("not the Vegas engine") };
        timer
    }

    fn vegas() -> Rig {
        let config = TcpConfig {
            limited_transmit: false,
            timestamps: false,
            delayed_ack: None,
            packet_size: 1040,
            ..TcpConfig::new(Profile::Rfc, ControllerConfig::by_name("vegas").unwrap(), Recovery::Vegas)
        };
        let mut rig = Rig::new(&config).ten_outstanding();
        rig.sender.host.window = Window { cwnd: 20.0, ssthresh: 2.0 };
        rig.fill();
        rig.tape.sent.clear();
        rig
    }

    /// TV-3.2: W = 20, third duplicate: 15 inflated to 18, then 15.
    #[test]
    fn a_first_loss_costs_a_quarter() {
        let mut rig = vegas();
        fine(&mut rig).timeout = 1000.0;
        rig.ack(11);
        rig.ack(11);
        assert_eq!(rig.ack(11), [11]);
        assert_eq!(rig.sender.host.window.cwnd, 18.0);
        rig.ack(11);
        rig.ack(12);
        assert_eq!((fine(&mut rig).cut_window, rig.sender.host.window.ssthresh), (15.0, 2.0));
    }

    #[test]
    fn an_old_segment_is_sent_again_at_the_first_duplicate() {
        let mut rig = vegas();
        fine(&mut rig).timeout = 0.001;
        rig.now += Span::from_millis(50);
        assert_eq!(rig.ack(11), [11]);
    }

    #[test]
    fn the_fine_timer_follows_its_recurrence() {
        let mut timer = FineTimer::new(None);
        timer.start(0.1);
        assert!((timer.timeout - 0.15).abs() < 1e-12);
        timer.sample(0.1);
        // A = 0.8, D = 0.1 - 0.025: 17/16 of (A/4 + D)/2.
        assert!((timer.timeout - 1.0625 * (0.2 + 0.075) / 2.0).abs() < 1e-12);
    }

    /// The connection is opened and its SYN lost before the application has written anything.
    #[test]
    fn a_lost_syn_without_data_is_all_that_is_sent_again() {
        let config = TcpConfig::preset("vegas", Profile::Ns2).unwrap();
        let mut rig = Rig::new(&config);
        rig.sender.on_data(Some(0), rig.now, &mut rig.tape);
        rig.tape.sent.clear();
        assert_eq!(rig.time_out(), [0]);
        rig.sender.on_data(Some(10), rig.now, &mut rig.tape);
        assert_eq!(rig.tape.packets.last().map(|packet| (packet.seq, packet.payload)), Some((1, 10)));
    }

    /// The sender of `vegas_faults`, opened, with nothing lost so far.
    fn of_ns2(vegas_faults: bool) -> Rig {
        let config = TcpConfig { vegas_faults, ..TcpConfig::preset("vegas", Profile::Ns2).unwrap() };
        let mut rig = Rig::new(&config);
        rig.sender.on_data(None, rig.now, &mut rig.tape);
        rig
    }

    /// Four duplicate ACKs after a timeout: ns-2 deflates to the window of zero that the timeout has noted, and is
    /// silent until the next.
    #[test]
    fn duplicates_after_a_timeout_close_the_window_of_ns2() {
        for (faults, least) in [(true, 0.0), (false, 1.0)] {
            let mut rig = of_ns2(faults);
            for number in 1..=6 {
                rig.ack(number);
            }
            rig.time_out();
            fine(&mut rig).timeout = 1000.0;
            let una = rig.sender.una / 1000 + 1;
            (0..4).for_each(|_| drop(rig.ack(una)));
            let sent = rig.ack(una + 1);
            let window = rig.sender.host.window.cwnd;
            assert_eq!((window == 0.0, window >= least), (faults, true), "{window}");
            assert_eq!(sent, [0; 0]);
            if faults {
                let silent = rig.now;
                assert!(!rig.time_out().is_empty());
                assert!(rig.now.since(silent) >= Span::from_millis(200));
            } else {
                assert!(!rig.ack(una + 2).is_empty(), "the ACK clock goes on");
            }
        }
    }

    /// The SYN is lost and answered 100 ms after its retransmission: ns-2 takes that for the RTT, and so a fine
    /// timeout of 150 ms; Karn's rule waits for the data.
    #[test]
    fn a_repeated_syn_is_timed_from_its_repetition() {
        for (faults, timeout) in [(true, 0.15), (false, 1000.0)] {
            let mut rig = of_ns2(faults);
            assert_eq!(rig.time_out()[0], 0);
            assert_eq!(rig.now, Time::ZERO + Span::from_secs(3));
            rig.now += Span::from_millis(99);
            rig.ack(1);
            assert!((fine(&mut rig).timeout - timeout).abs() < 1e-9, "{}", fine(&mut rig).timeout);
            assert_eq!(fine(&mut rig).cut_at, 3.0, "of the clock before");
        }
    }

    /// TV-3.3: segments up to 40 outstanding, the last cut at 20. A mark cuts once a window, and no loss in that window
    /// cuts again.
    #[test]
    fn a_mark_halves_once_a_window() {
        let mut config = TcpConfig {
            limited_transmit: false,
            timestamps: false,
            delayed_ack: None,
            packet_size: 1040,
            ..TcpConfig::preset("e-vegas", Profile::Rfc).unwrap()
        };
        // Delay moves nothing here.
        config.controller.set("alpha", 0.0).unwrap();
        config.controller.set("beta", 1000.0).unwrap();
        let mut rig = Rig::new(&config).ten_outstanding();
        for number in 12..=29 {
            rig.ack(number);
            rig.sender.host.window = Window { cwnd: 12.0, ssthresh: 2.0 };
        }
        rig.sender.host.window.cwnd = 12.0;
        rig.fill();
        assert_eq!((rig.sender.una, rig.sender.max_sent), (28_001, 40_001));
        rig.sender.host.recover = 20_001;
        fine(&mut rig).timeout = 1000.0;
        rig.marked(30);
        assert_eq!(rig.window(), (6.0, 6.0));
        assert_eq!(rig.sender.host.recover, 40_001);
        rig.marked(35);
        assert_eq!(rig.window(), (6.0, 6.0), "ignored");
        assert_eq!(rig.sender.host.recover, 40_001);
        (0..3).for_each(|_| drop(rig.ack(35)));
        assert_eq!(fine(&mut rig).cut_window, 6.0, "no cut for a loss of that window");
        rig.ack(41);
        rig.sender.host.window.cwnd = 6.0;
        rig.marked(42);
        assert_eq!(rig.sender.host.window.cwnd, 3.0, "the next window");
    }

    #[test]
    fn a_timeout_restarts_from_two_segments() {
        let mut rig = vegas();
        assert_eq!(rig.time_out(), [11, 12]);
        assert_eq!(rig.sender.host.window.cwnd, 2.0);
    }
}
