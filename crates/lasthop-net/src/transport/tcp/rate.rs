//! Delivery-rate samples, for controllers that ask for them (`Needs::rate`): how fast segments arrive, measured
//! between two ACKs over whichever is longer, the time it took to send them or the time it took to acknowledge them.
//!
//! What a segment knew when it was sent lies in a ring beside the sender's segments, one entry each, so that senders
//! without a sampler do not carry it. The sender begins a sample when an ACK arrives, the engines say what it
//! delivered and what it showed to be lost, and the controller sees the sample before the window is filled.
//! Engines without SACK know of a delivery only when it is acknowledged cumulatively.
//!
//! *References:* Cheng, Cardwell, Hassas Yeganeh & Jacobson, draft-cheng-iccrg-delivery-rate-estimation; the
//! rate samples of Linux (`tcp_rate.c`) behave alike.

use std::collections::VecDeque;

use lasthop_cc::{CongestionControl, RateSample, RecoveryKind};
use lasthop_core::time::{Span, Time};

use super::sender::{Action, Engine, TcpSender, Wire};

/// The connection at the last transmission of a segment.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    /// Segments delivered by then, and when the last of them was.
    delivered: u64,
    delivered_at: Time,
    /// When the segment was sent that was delivered last.
    first_sent: Time,
    /// When this one was sent.
    sent: Time,
    app_limited: bool,
}

/// The sampler of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct RateSampler {
    /// One entry for each outstanding segment, in the order of the sender's.
    snapshots: VecDeque<Snapshot>,
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    /// While not zero the application has left the path idle; samples are full again when more than this has been
    /// delivered.
    app_limited_until: u64,
    least_rtt: Option<Span>,
    // The ACK that is being processed.
    now: Time,
    /// The snapshot of the newest segment that it delivers.
    newest: Option<Snapshot>,
    acked: u32,
    lost: u32,
    rtt: Option<Span>,
    prior_flight: u32,
    maybe_delayed: bool,
}

impl RateSampler {
    fn snapshot(&self, now: Time) -> Snapshot {
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            sent: now,
            app_limited: self.app_limited_until > 0,
        }
    }

    /// A new segment is sent; `idle`: nothing was outstanding.
    fn on_send(&mut self, idle: bool, now: Time) {
        if idle {
            self.first_sent = now;
            self.delivered_at = now;
        }
        self.snapshots.push_back(self.snapshot(now));
    }

    /// The outstanding segment at `index` is sent again.
    fn on_send_again(&mut self, index: usize, now: Time) {
        let snapshot = self.snapshot(now);
        if let Some(slot) = self.snapshots.get_mut(index) {
            *slot = snapshot;
        }
    }

    /// The outstanding segment at `index` was delivered. `rtt` since it was sent, if that was once.
    pub(super) fn on_delivered(&mut self, index: usize, rtt: bool) {
        let Some(&snapshot) = self.snapshots.get(index) else { return };
        self.delivered += 1;
        self.delivered_at = self.now;
        self.acked += 1;
        if rtt {
            let rtt = self.now.since(snapshot.sent);
            self.rtt = Some(self.rtt.map_or(rtt, |known| known.min(rtt)));
        }
        let newer = |than: &Snapshot| (snapshot.delivered, snapshot.sent) >= (than.delivered, than.sent);
        if self.newest.as_ref().is_none_or(newer) {
            self.newest = Some(snapshot);
            self.first_sent = snapshot.sent;
        }
    }

    /// The sender forgets its first segment.
    fn forget_first(&mut self) {
        self.snapshots.pop_front();
    }

    /// So many segments were found lost on this ACK.
    pub(super) fn on_lost(&mut self, segments: u32) {
        self.lost += segments;
    }

    fn begin(&mut self, prior_flight: u32, now: Time) {
        self.now = now;
        self.newest = None;
        self.acked = 0;
        self.lost = 0;
        self.rtt = None;
        self.prior_flight = prior_flight;
        self.maybe_delayed = false;
    }

    /// Segments and interval of the sample, if one can be taken.
    fn rate(&mut self) -> Option<(u64, Span)> {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        if let Some(rtt) = self.rtt {
            self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let newest = self.newest?;
        let send = newest.sent.since(newest.first_sent);
        let acknowledge = self.delivered_at.since(newest.delivered_at);
        let interval = send.max(acknowledge);
        // Less than the least RTT: an ACK answered the first transmission of what was sent again since.
        let plausible = interval > Span::ZERO && self.least_rtt.is_none_or(|least| interval >= least);
        plausible.then(|| (self.delivered - newest.delivered, interval))
    }
}

impl TcpSender {
    /// Segments believed to be in the network, as far as the engine can tell.
    fn segments_in_network(&mut self) -> u32 {
        match self.engine {
            Engine::Sack(_) => return self.pipe() as u32,
            Engine::Rack(_) => return self.rack_pipe() as u32,
            _ => {}
        }
        ((self.next - self.una) as u32).div_ceil(self.mss)
    }

    /// What the sender is repairing.
    fn repairing(&self) -> Option<RecoveryKind> {
        if self.una < self.timeout_recover {
            return Some(RecoveryKind::Timeout);
        }
        let fast = match &self.engine {
            Engine::Sack(scoreboard) => scoreboard.is_in_recovery(),
            Engine::Rack(rack) => rack.in_recovery(),
            _ => self.action == Action::DuplicateAcks && self.una < self.recover,
        };
        fast.then_some(RecoveryKind::Fast)
    }

    /// A segment leaves, new or again (then `index` is its place among the outstanding).
    pub(super) fn sample_send(&mut self, again: Option<usize>, idle: bool, now: Time) {
        let Some(sampler) = &mut self.sampler else { return };
        match again {
            Some(index) => sampler.on_send_again(index, now),
            None => sampler.on_send(idle, now),
        }
    }

    /// An ACK has arrived: begins its sample. The engines' fill paths hold until [`TcpSender::finish_rate_sample`].
    pub(super) fn begin_rate_sample(&mut self, now: Time) {
        if self.sampler.is_none() {
            return;
        }
        let prior_flight = self.segments_in_network();
        let Some(sampler) = &mut self.sampler else { return };
        sampler.begin(prior_flight, now);
        self.hold = true;
    }

    /// `una` is about to move to `ack`: notes what that delivers.
    pub(super) fn sample_cumulative(&mut self, ack: u64) {
        let Some(sampler) = &mut self.sampler else { return };
        let data = self.una > 0;
        let mut covered = 0;
        while let Some(segment) = self.segments.get(covered)
            && segment.end() <= ack
        {
            if !segment.sacked && data {
                sampler.on_delivered(covered, segment.transmissions == 1);
                sampler.maybe_delayed = u64::from(segment.len) < u64::from(self.mss);
            }
            covered += 1;
        }
        // A lone short segment may have waited for the receiver's delayed ACK.
        sampler.maybe_delayed &= covered == 1;
        (0..covered).for_each(|_| sampler.forget_first());
    }

    /// The ACK has been processed: gives the sample to the controller, and then fills the window.
    pub(super) fn finish_rate_sample<W: Wire>(&mut self, now: Time, wire: &mut W) {
        if self.sampler.is_none() {
            return;
        }
        self.hold = false;
        let flight = self.segments_in_network();
        let recovery = self.repairing();
        let Some(sampler) = &mut self.sampler else { return };
        let sample = RateSample {
            now,
            rate: sampler.rate(),
            app_limited: sampler.newest.is_some_and(|newest| newest.app_limited),
            prior_delivered: sampler.newest.map_or(0, |newest| newest.delivered),
            delivered: sampler.delivered,
            acked: sampler.acked,
            lost: sampler.lost,
            prior_flight: sampler.prior_flight,
            flight,
            rtt: sampler.rtt,
            maybe_delayed: sampler.maybe_delayed,
            srtt: self.rtt.srtt(),
            recovery,
            mss: self.mss,
        };
        self.controller.on_rate(&sample, &mut self.window);
        self.fill_window(now, wire);
        self.note_app_limited(now);
    }

    /// If there is room in the window and nothing to send, what is in the network now measures the application.
    pub(super) fn note_app_limited(&mut self, now: Time) {
        if self.sampler.is_none() || self.has_more() || self.paced_until > now {
            return;
        }
        let flight = self.segments_in_network();
        if flight >= self.usable() {
            return;
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.app_limited_until = (sampler.delivered + u64::from(flight)).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    /// Ten segments in a burst over a path of 100 ms that delivers one every 10 ms: 100 segments/s, however the ACKs
    /// come.
    #[test]
    fn the_rate_is_that_of_the_deliveries() {
        let mut sampler = RateSampler::default();
        for number in 0..10 {
            sampler.on_send(number == 0, millis(0));
        }
        for number in 1..=10u64 {
            sampler.begin(10, millis(100 + 10 * number));
            sampler.on_delivered(0, true);
            sampler.forget_first();
            assert_eq!(sampler.rate(), Some((number, Span::from_millis(100 + 10 * number))));
            // What the ACK clock sends now.
            sampler.on_send(false, millis(100 + 10 * number));
        }
        // The second round: ten deliveries since the ACK that released the segment.
        sampler.begin(10, millis(210));
        sampler.on_delivered(0, true);
        assert_eq!(sampler.rate(), Some((10, Span::from_millis(110))), "the burst was sent 110 ms before");
    }

    /// A compressed ACK that covers five segments does not inflate the rate beyond that at which they were sent.
    #[test]
    fn compressed_acks_are_bounded_by_the_send_rate() {
        let mut sampler = RateSampler::default();
        for number in 0..5 {
            sampler.on_send(number == 0, millis(20 * number));
        }
        sampler.begin(5, millis(200));
        (0..5).for_each(|index| sampler.on_delivered(index, true));
        assert_eq!(sampler.rate(), Some((5, Span::from_millis(200))));
        assert_eq!((sampler.acked, sampler.delivered), (5, 5));
    }

    /// What is faster than light is not believed.
    #[test]
    fn an_interval_below_the_least_rtt_is_no_sample() {
        let mut sampler = RateSampler::default();
        sampler.on_send(true, millis(0));
        sampler.begin(1, millis(100));
        sampler.on_delivered(0, true);
        assert!(sampler.rate().is_some());
        sampler.forget_first();
        sampler.on_send(true, millis(100));
        sampler.on_send_again(0, millis(195));
        sampler.begin(1, millis(200));
        sampler.on_delivered(0, false);
        assert_eq!(sampler.rate(), Some((1, Span::from_millis(100))), "acknowledged over 100 ms");
        sampler.forget_first();
        sampler.on_send(true, millis(200));
        sampler.begin(1, millis(250));
        sampler.on_delivered(0, false);
        assert_eq!(sampler.rate(), None, "50 ms");
    }

    #[test]
    fn samples_are_app_limited_until_the_gap_has_been_delivered() {
        let mut sampler = RateSampler::default();
        sampler.on_send(true, millis(0));
        sampler.app_limited_until = 1;
        sampler.on_send(false, millis(50));
        sampler.begin(2, millis(100));
        sampler.on_delivered(0, true);
        assert!(!sampler.newest.unwrap().app_limited, "sent before the gap");
        sampler.forget_first();
        sampler.rate();
        assert_eq!(sampler.app_limited_until, 1);
        sampler.begin(1, millis(150));
        sampler.on_delivered(0, true);
        assert!(sampler.newest.unwrap().app_limited);
        sampler.rate();
        assert_eq!(sampler.app_limited_until, 0, "the gap has passed");
    }
}
