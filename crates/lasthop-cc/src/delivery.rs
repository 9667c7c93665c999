//! Delivery-rate samples, for controllers that ask for them (`Needs::rate`): how fast segments arrive, measured
//! between two ACKs over whichever is longer, the time it took to send them or the time it took to acknowledge them.
//!
//! A sender that keeps its own segments holds one of these beside its [`Host`](crate::host::Host) and feeds what it
//! finds into `Host::sampled`; a kernel takes such samples itself. What a segment knew when it was sent lies in a
//! ring in the order of the sender's segments, so that senders without a sampler do not carry it. A sample begins
//! when an ACK arrives; the sender says what the ACK delivered and what it showed to be lost, and finishes it. A
//! sender without SACK learns of a delivery only when it is acknowledged cumulatively.
//!
//! *References:* Cheng, Cardwell, Hassas Yeganeh & Jacobson, draft-cheng-iccrg-delivery-rate-estimation; the
//! rate samples of Linux (`tcp_rate.c`) behave alike.

use std::collections::VecDeque;

use lasthop_core::time::{Span, Time};

use crate::{LostSegment, RateSample, RecoveryKind};

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
    /// Segments found lost by then.
    lost: u64,
    /// Segments in flight with this one.
    in_flight: u32,
}

/// What only the sender can tell of an ACK that has been processed.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Segments in the network.
    pub flight: u32,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Span,
    /// How long pacing still holds back the next segment.
    pub held_back: Span,
    /// What is being repaired.
    pub recovery: Option<RecoveryKind>,
    /// Payload of a full segment in bytes.
    pub mss: u32,
}

/// The sampler of one connection.
#[derive(Clone, Debug, Default)]
pub struct DeliverySampler {
    /// One entry for each outstanding segment, in the order of the sender's.
    snapshots: VecDeque<Snapshot>,
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    /// Segments found lost so far.
    lost_ever: u64,
    /// Whether the window was full in this window of deliveries, which ends after `usage_end` of them.
    window_limited: bool,
    usage_end: u64,
    selective: bool,
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

impl DeliverySampler {
    /// Something is sent with which `in_flight` segments are in the network, of `allowed`.
    fn snapshot(&mut self, in_flight: u32, allowed: u32, now: Time) -> Snapshot {
        let full = in_flight >= allowed;
        if full || self.delivered >= self.usage_end {
            self.window_limited = full;
            self.usage_end = self.delivered + u64::from(in_flight);
        }
        Snapshot {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            sent: now,
            app_limited: self.app_limited_until > 0,
            lost: self.lost_ever,
            in_flight,
        }
    }

    /// A new segment is sent, with which `in_flight` segments are in the network, of `allowed`; `idle`: nothing was
    /// outstanding.
    pub fn on_send(&mut self, idle: bool, in_flight: u32, allowed: u32, now: Time) {
        if idle {
            self.first_sent = now;
            self.delivered_at = now;
        }
        let snapshot = self.snapshot(in_flight, allowed, now);
        self.snapshots.push_back(snapshot);
    }

    /// The outstanding segment at `index` is sent again.
    pub fn on_send_again(&mut self, index: usize, in_flight: u32, allowed: u32, now: Time) {
        let snapshot = self.snapshot(in_flight, allowed, now);
        if let Some(slot) = self.snapshots.get_mut(index) {
            *slot = snapshot;
        }
    }

    /// The outstanding segment at `index` was delivered. `rtt` since it was sent, if that was once.
    pub fn on_delivered(&mut self, index: usize, rtt: bool) {
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

    /// A copy of something that had been delivered before was delivered.
    pub fn on_repeated(&mut self) {
        self.delivered += 1;
        self.delivered_at = self.now;
        self.acked += 1;
    }

    /// [`DeliverySampler::on_delivered`] by a cumulative ACK; `short`: it was no full segment.
    pub fn on_covered(&mut self, index: usize, once: bool, short: bool) {
        self.on_delivered(index, once);
        self.maybe_delayed = short;
    }

    /// The sender forgets its first `count` segments, which one ACK has covered.
    pub fn forget(&mut self, count: usize) {
        // A lone short segment may have waited for the receiver's delayed ACK.
        self.maybe_delayed &= count == 1;
        self.snapshots.drain(..count.min(self.snapshots.len()));
    }

    /// The outstanding segment at `index`, with the bytes from `seq` to `end`, was found lost. What is to be told of
    /// it.
    pub fn on_lost(&mut self, index: usize, (seq, end): (u64, u64), now: Time) -> Option<LostSegment> {
        self.lost += 1;
        self.lost_ever += 1;
        let sent = self.snapshots.get(index)?;
        Some(LostSegment {
            now,
            seq,
            end,
            tx_in_flight: sent.in_flight,
            lost_since: (self.lost_ever - sent.lost) as u32,
            prior_delivered: sent.delivered,
            delivered: self.delivered,
            app_limited: sent.app_limited,
            selective: self.selective,
        })
    }

    /// An ACK has arrived with `prior_flight` segments in the network: its sample begins. `selective`: losses are told
    /// apart within a window of data.
    pub fn begin(&mut self, prior_flight: u32, selective: bool, now: Time) {
        self.now = now;
        self.selective = selective;
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
        // Less than the minimum RTT: an ACK answered the first transmission of what was sent again since.
        let plausible = interval > Span::ZERO && self.least_rtt.is_none_or(|least| interval >= least);
        plausible.then(|| (self.delivered - newest.delivered, interval))
    }

    /// The ACK has been processed: its sample.
    pub fn finish(&mut self, around: Around) -> RateSample {
        let Around { flight, srtt, held_back, recovery, mss } = around;
        RateSample {
            now: self.now,
            rate: self.rate(),
            app_limited: self.newest.is_some_and(|newest| newest.app_limited),
            prior_delivered: self.newest.map_or(0, |newest| newest.delivered),
            delivered: self.delivered,
            acked: self.acked,
            lost: self.lost,
            prior_flight: self.prior_flight,
            flight,
            rtt: self.rtt,
            maybe_delayed: self.maybe_delayed,
            srtt,
            recovery,
            mss,
            tx_in_flight: self.newest.map_or(0, |newest| newest.in_flight),
            lost_since: self.newest.map_or(0, |newest| (self.lost_ever - newest.lost) as u32),
            held_back,
            window_limited: self.window_limited,
            selective: self.selective,
        }
    }

    /// The sender has nothing to send: the `flight` segments in the network measure the application, not the path.
    pub fn limit_by_application(&mut self, flight: u32) {
        self.app_limited_until = (self.delivered + u64::from(flight)).max(1);
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
        let mut sampler = DeliverySampler::default();
        for number in 0..10 {
            sampler.on_send(number == 0, 1, 10, millis(0));
        }
        for number in 1..=10u64 {
            sampler.begin(10, true, millis(100 + 10 * number));
            sampler.on_delivered(0, true);
            sampler.forget(1);
            assert_eq!(sampler.rate(), Some((number, Span::from_millis(100 + 10 * number))));
            // What the ACK clock sends now.
            sampler.on_send(false, 1, 10, millis(100 + 10 * number));
        }
        // The second round: ten deliveries since the ACK that released the segment.
        sampler.begin(10, true, millis(210));
        sampler.on_delivered(0, true);
        assert_eq!(sampler.rate(), Some((10, Span::from_millis(110))), "the burst was sent 110 ms before");
    }

    /// A compressed ACK that covers five segments does not inflate the rate beyond that at which they were sent.
    #[test]
    fn compressed_acks_are_bounded_by_the_send_rate() {
        let mut sampler = DeliverySampler::default();
        for number in 0..5 {
            sampler.on_send(number == 0, 1, 10, millis(20 * number));
        }
        sampler.begin(5, true, millis(200));
        (0..5).for_each(|index| sampler.on_delivered(index, true));
        assert_eq!(sampler.rate(), Some((5, Span::from_millis(200))));
        assert_eq!((sampler.acked, sampler.delivered), (5, 5));
    }

    /// A copy counts as a delivery, and measures no time (Linux, `tcp_dsack_seen`).
    #[test]
    fn a_copy_is_delivered_too() {
        let mut sampler = DeliverySampler::default();
        sampler.on_send(true, 1, 10, millis(0));
        sampler.on_send(false, 2, 10, millis(0));
        sampler.begin(2, true, millis(100));
        sampler.on_delivered(0, true);
        sampler.on_repeated();
        assert_eq!(sampler.rate(), Some((2, Span::from_millis(100))));
        sampler.begin(1, true, millis(110));
        sampler.on_repeated();
        assert_eq!((sampler.rate(), sampler.acked, sampler.delivered), (None, 1, 3));
    }

    /// What is faster than light is not believed.
    #[test]
    fn an_interval_below_the_least_rtt_is_no_sample() {
        let mut sampler = DeliverySampler::default();
        sampler.on_send(true, 1, 10, millis(0));
        sampler.begin(1, true, millis(100));
        sampler.on_delivered(0, true);
        assert!(sampler.rate().is_some());
        sampler.forget(1);
        sampler.on_send(true, 1, 10, millis(100));
        sampler.on_send_again(0, 1, 10, millis(195));
        sampler.begin(1, true, millis(200));
        sampler.on_delivered(0, false);
        assert_eq!(sampler.rate(), Some((1, Span::from_millis(100))), "acknowledged over 100 ms");
        sampler.forget(1);
        sampler.on_send(true, 1, 10, millis(200));
        sampler.begin(1, true, millis(250));
        sampler.on_delivered(0, false);
        assert_eq!(sampler.rate(), None, "50 ms");
    }

    #[test]
    fn samples_are_app_limited_until_the_gap_has_been_delivered() {
        let mut sampler = DeliverySampler::default();
        sampler.on_send(true, 1, 10, millis(0));
        sampler.app_limited_until = 1;
        sampler.on_send(false, 1, 10, millis(50));
        sampler.begin(2, true, millis(100));
        sampler.on_delivered(0, true);
        assert!(!sampler.newest.unwrap().app_limited, "sent before the gap");
        sampler.forget(1);
        sampler.rate();
        assert_eq!(sampler.app_limited_until, 1);
        sampler.begin(1, true, millis(150));
        sampler.on_delivered(0, true);
        assert!(sampler.newest.unwrap().app_limited);
        sampler.rate();
        assert_eq!(sampler.app_limited_until, 0, "the gap has passed");
    }
}
