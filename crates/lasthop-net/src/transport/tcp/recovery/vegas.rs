//! Vegas's own retransmission: a fine-grained timeout per segment on top of Reno (Brakmo & Peterson 1995).
//!
//! A duplicate ACK, or one of the first two ACKs after a retransmission, retransmits at once if the first outstanding
//! segment is older than the fine-grained timeout. The window is cut only once for what was sent at the old rate.

use lasthop_cc::{CongestionControl, LossSample};
use lasthop_core::packet::Packet;
use lasthop_core::time::{Span, Time};

use super::super::sender::{Action, Engine, TcpSender, Wire};

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
    /// ns-2 keeps send times and transmission counts in an array as long as the receiver window; slots of segments
    /// acknowledged across its end stay dirty. `None`: the sender's own records.
    log: Option<Vec<(f64, u32)>>,
}

impl FineTimer {
    /// `ns2_window`: the receiver window in the `ns2` profile.
    pub(in super::super) fn new(ns2_window: Option<u32>) -> FineTimer {
        FineTimer {
            srtt8: 0.0,
            rttvar4: 0.0,
            timeout: 1000.0,
            worried: 0,
            cut_window: 0.0,
            cut_at: 0.0,
            log: ns2_window.map(|window| vec![(-1.0, 0); window as usize]),
        }
    }

    /// The segment at `seq` is being sent.
    pub(in super::super) fn on_send(&mut self, seq: u64, mss: u64, elapsed: Span) {
        if let Some(log) = &mut self.log {
            let slot = seq.div_ceil(mss) as usize % log.len();
            log[slot] = (elapsed.seconds(), log[slot].1 + 1);
        }
    }

    /// The window fell to `window` for a mark: what was sent at the old rate is not cut for again.
    pub(in super::super) fn on_mark(&mut self, window: f64, elapsed: Span) {
        self.cut_window = window;
        self.cut_at = elapsed.seconds();
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

impl TcpSender {
    fn fine(&mut self) -> &mut FineTimer {
        match &mut self.engine {
            Engine::Vegas(timer) => timer,
            _ => unreachable!("called for the Vegas engine only"),
        }
    }

    fn elapsed(&self, now: Time) -> f64 {
        now.since(self.opened().unwrap_or(now)).seconds()
    }

    /// Send time and number of transmissions of the first outstanding segment.
    fn first_outstanding(&self) -> (f64, u32) {
        let Engine::Vegas(timer) = &self.engine else { return (0.0, 0) };
        if let Some(log) = &timer.log {
            return log[self.una.div_ceil(u64::from(self.mss)) as usize % log.len()];
        }
        self.segments.at(self.una).map_or((f64::INFINITY, 0), |first| {
            (self.elapsed(first.last_sent), u32::from(first.transmissions))
        })
    }

    /// Whether the first outstanding segment is older than the fine-grained timeout.
    fn first_expired(&mut self, now: Time) -> bool {
        let age = self.elapsed(now) - self.first_outstanding().0;
        age >= self.fine().timeout
    }

    /// Takes an ACK under Vegas.
    pub(in super::super) fn vegas_on_ack<W: Wire>(&mut self, packet: &Packet, now: Time, wire: &mut W) {
        let elapsed = self.elapsed(now);
        if self.fine().srtt8 == 0.0 {
            self.fine().start(elapsed);
        }
        if packet.seq > self.una {
            self.vegas_on_new_ack(packet, now, wire);
        } else if packet.seq == self.una && (self.ns2 || self.una < self.max_sent) {
            self.vegas_on_duplicate(now, wire);
        }
        if self.dup_acks == 0 || self.dup_acks >= self.dup_threshold {
            self.fill_window(now, wire);
        }
    }

    fn vegas_on_new_ack<W: Wire>(&mut self, packet: &Packet, now: Time, wire: &mut W) {
        // ns-2 opens the window one round trip late, with the ACK of the first data.
        let opens_at = u64::from(self.ns2);
        if self.una == opens_at {
            self.window.cwnd = self.initial_window;
        }
        // The inflation of recovery goes with the first new ACK. ns-2 stays inflated after exactly three duplicates.
        let inflated =
            if self.ns2 { self.dup_acks > self.dup_threshold } else { self.dup_acks >= self.dup_threshold };
        let cut_window = self.fine().cut_window;
        if inflated && self.window.cwnd > cut_window {
            self.window.cwnd = cut_window.max(1.0);
            self.window.ssthresh = 2.0;
        }
        self.dup_acks = 0;
        let una = self.una;
        let (acked, own_rtt) = self.advance(packet, now, true);
        if una == 0 && !self.ns2 {
            self.rtt.end_handshake();
        }
        self.restart_timer(now, wire);
        let elapsed = self.elapsed(now);
        let mss = u64::from(self.mss);
        let rtt = match self.fine().take_from_log(una, packet.seq, mss) {
            Some((sent, 1)) if sent != 0.0 => Some(Span::from_seconds(elapsed - sent)),
            Some(_) => None,
            None => own_rtt,
        };
        let may_grow = self.may_grow(packet);
        self.measure_and_grow(acked, rtt, may_grow, now);
        if let Some(rtt) = rtt.filter(|&rtt| rtt > Span::ZERO) {
            self.fine().sample(rtt.seconds());
        }
        if self.fine().worried > 0 {
            self.fine().worried -= 1;
            if self.una < self.max_sent && self.first_expired(now) {
                self.dup_acks = self.dup_threshold;
                self.retransmit_una(now, wire);
            } else if self.ns2 && self.una == self.max_sent && self.first_expired(now) && self.has_more() {
                // ns-2 takes the empty slot of the segment to come for an old one and sends it; as its place in the
                // sequence does not move on, the same segment follows again.
                self.dup_acks = self.dup_threshold;
                let next = self.next;
                self.transmit_next(now, wire);
                self.next = next;
            } else {
                self.fine().worried = 0;
            }
        }
    }

    pub(in super::super) fn vegas_on_duplicate<W: Wire>(&mut self, now: Time, wire: &mut W) {
        self.dup_acks += 1;
        let expired = self.first_expired(now);
        if !expired && self.dup_acks != self.dup_threshold {
            if self.dup_acks > self.dup_threshold {
                self.window.cwnd += 1.0;
            }
            return;
        }
        if self.una <= self.recover && self.action == Action::Timeout {
            return;
        }
        let (sent, transmissions) = self.first_outstanding();
        let window = f64::from(self.usable());
        self.action = Action::DuplicateAcks;
        self.recover = self.max_sent;
        let outstanding = (self.next - self.una).div_ceil(u64::from(self.mss)) as u32 + 1;
        let elapsed = self.elapsed(now);
        let fine = self.fine();
        fine.worried = outstanding.min(2);
        fine.timeout *= if transmissions > 1 { 2.0 } else { 1.125 };
        if fine.cut_at < sent {
            let sample = LossSample { now, flight: window, retransmitted: transmissions > 1 };
            let reduction = self.controller.on_loss(&sample, &self.window);
            self.keep_score(reduction, now, wire);
            let cut = reduction.cwnd;
            let dup_acks = f64::from(self.dup_acks);
            let fine = self.fine();
            fine.cut_window = cut;
            fine.cut_at = elapsed;
            self.window.cwnd = cut + dup_acks;
            self.count_recovery(now);
        }
        if self.ns2 {
            // ns-2 backs the coarse timer off as well.
            self.rtt.back_off();
        }
        self.timed = None;
        self.set_timer(now, wire);
        self.retransmit_una(now, wire);
        if transmissions == 1 {
            self.dup_acks = self.dup_threshold;
        }
    }

    /// The coarse timer expired: restart from two segments.
    pub(in super::super) fn vegas_on_timeout<W: Wire>(&mut self, now: Time, wire: &mut W) {
        let outstanding = self.una < self.max_sent;
        self.dup_acks = 0;
        self.recover = self.max_sent;
        self.timeout_recover = self.max_sent;
        self.action = Action::Timeout;
        if self.una == 0 && !self.ns2 {
            // RFC 5681 §3.1: a lost SYN is paid for with the initial window.
            self.initial_window = 1.0;
        }
        self.rtt.back_off();
        self.timed = None;
        self.set_timer(now, wire);
        self.next = self.una;
        self.count_timeout(outstanding, now);
        if self.ns2 || self.una > 0 {
            let sample = self.loss_sample(now);
            let reduction = self.controller.on_timeout(&sample, &self.window);
            self.keep_score(reduction, now, wire);
            self.lower_ssthresh(reduction);
        }
        self.window.cwnd = 2.0;
        let elapsed = self.elapsed(now);
        let fine = self.fine();
        fine.cut_window = 0.0;
        fine.cut_at = elapsed;
        self.fill_window(now, wire);
    }
}

#[cfg(test)]
mod tests {
    use lasthop_cc::{ControllerConfig, Window};

    use super::super::super::config::{Profile, Recovery, TcpConfig};
    use super::super::super::sender::testing::Rig;
    use super::*;

    fn vegas() -> Rig {
        let config = TcpConfig {
            limited_transmit: false,
            timestamps: false,
            delayed_ack: None,
            packet_size: 1040,
            ..TcpConfig::new(Profile::Rfc, ControllerConfig::by_name("vegas").unwrap(), Recovery::Vegas)
        };
        let mut rig = Rig::new(&config).ten_outstanding();
        rig.sender.window = Window { cwnd: 20.0, ssthresh: 2.0 };
        rig.sender.fill_window(rig.now, &mut rig.tape);
        rig.tape.sent.clear();
        rig
    }

    /// TV-3.2: W = 20, third duplicate: 15 inflated to 18, then 15.
    #[test]
    fn a_first_loss_costs_a_quarter() {
        let mut rig = vegas();
        rig.sender.fine().timeout = 1000.0;
        rig.ack(11);
        rig.ack(11);
        assert_eq!(rig.ack(11), [11]);
        assert_eq!(rig.sender.window.cwnd, 18.0);
        rig.ack(11);
        rig.ack(12);
        assert_eq!((rig.sender.fine().cut_window, rig.sender.window.ssthresh), (15.0, 2.0));
    }

    #[test]
    fn an_old_segment_is_sent_again_at_the_first_duplicate() {
        let mut rig = vegas();
        rig.sender.fine().timeout = 0.001;
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
            rig.sender.window = Window { cwnd: 12.0, ssthresh: 2.0 };
        }
        rig.sender.window.cwnd = 12.0;
        rig.sender.fill_window(rig.now, &mut rig.tape);
        assert_eq!((rig.sender.una, rig.sender.max_sent), (28_001, 40_001));
        rig.sender.recover = 20_001;
        rig.sender.fine().timeout = 1000.0;
        rig.marked(30);
        assert_eq!(rig.window(), (6.0, 6.0));
        assert_eq!(rig.sender.recover, 40_001);
        rig.marked(35);
        assert_eq!(rig.window(), (6.0, 6.0), "ignored");
        assert_eq!(rig.sender.recover, 40_001);
        (0..3).for_each(|_| drop(rig.ack(35)));
        assert_eq!(rig.sender.fine().cut_window, 6.0, "no cut for a loss of that window");
        rig.ack(41);
        rig.sender.window.cwnd = 6.0;
        rig.marked(42);
        assert_eq!(rig.sender.window.cwnd, 3.0, "the next window");
    }

    #[test]
    fn a_timeout_restarts_from_two_segments() {
        let mut rig = vegas();
        assert_eq!(rig.time_out(), [11, 12]);
        assert_eq!(rig.sender.window.cwnd, 2.0);
    }
}
