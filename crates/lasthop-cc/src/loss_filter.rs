//! Decides which losses cause a reduction: those at a time when many packets are lost, as in picoquic.
//!
//! The loss rate is smoothed per packet: it falls by a sixteenth with each sent packet, and rises by a sixteenth of
//! its distance to 1 with each lost one. A single loss raises it to a sixteenth, three in a row to 0.166. In place of
//! picoquic's packet numbers it uses the order of sending, in which a retransmission has a number of its own. CUBIC
//! uses it (`loss_filter`).

use crate::LostSegment;

/// How fast the share follows.
const FACTOR: f64 = 1.0 / 16.0;
/// It falls by no more packets than these between two losses.
const SCOPE: u64 = 32;

/// The share and what it was reckoned from.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossFilter {
    share: f64,
    /// Place of the newest packet that was lost.
    last: u64,
    /// Segments found lost.
    lost: u64,
}

impl LossFilter {
    /// A segment has been found lost.
    pub(crate) fn on_lost(&mut self, segment: &LostSegment) {
        self.lost += 1;
        let lost_before = self.lost.saturating_sub(segment.lost_since.into());
        self.count(segment.prior_delivered + u64::from(segment.tx_in_flight) + lost_before);
    }

    /// The packet at this place is lost. What comes late of earlier ones says nothing.
    fn count(&mut self, place: u64) {
        if place <= self.last {
            return;
        }
        for _ in 0..(place - self.last).min(SCOPE) {
            self.share *= 1.0 - FACTOR;
        }
        self.share += (1.0 - self.share) * FACTOR;
        self.last = place;
    }

    /// The share of packets lost of late, as of the newest loss.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::Time;

    use super::*;
    use crate::testing::close;

    fn shares(distance: u64, losses: u64) -> Vec<f64> {
        let mut filter = LossFilter::default();
        let after = |number| {
            filter.count(100 + distance * number);
            filter.share()
        };
        (0..losses).map(after).collect()
    }

    /// TV-34.1: in a row 1/16, then 1/16 (15/16) + (1 - 0.05859)/16 = 0.11743, then 0.16571. Every second packet:
    /// 0.06250, 0.11400, 0.15643.
    #[test]
    fn losses_add_up() {
        for (distance, expected) in [(1, [0.0625, 0.11743, 0.16571]), (2, [0.0625, 0.11400, 0.15643])] {
            for (share, expected) in shares(distance, 3).into_iter().zip(expected) {
                close(share, expected, 5);
            }
        }
    }

    /// TV-34.2: a loss in every d-th packet leads to 1/16 / (1 - (15/16)^(d + 1)): 0.15498 for 7, 0.14186 for 8. More
    /// than 32 packets count as 32.
    #[test]
    fn a_loss_now_and_then_has_a_bound() {
        for (distance, bound) in [(7, 0.15498), (8, 0.14186), (32, 0.07093), (999, 0.07093)] {
            let last = *shares(distance, 400).last().expect("some");
            close(last, bound, 5);
        }
    }

    /// The place in the order of sending: of 10 segments sent, 7 were delivered or lost when the next one left as the
    /// fourth in flight, so it is the eleventh. What is older, or told twice, says nothing.
    #[test]
    fn places_are_those_of_sending() {
        let lost = |prior_delivered, tx_in_flight, lost_since| LostSegment {
            now: Time::ZERO,
            seq: 1,
            end: 2,
            tx_in_flight,
            lost_since,
            prior_delivered,
            delivered: 0,
            app_limited: false,
            selective: true,
        };
        let mut filter = LossFilter { lost: 2, ..LossFilter::default() };
        filter.on_lost(&lost(5, 4, 1));
        assert_eq!((filter.last, filter.share()), (11, 0.0625));
        filter.on_lost(&lost(5, 3, 2));
        assert_eq!((filter.last, filter.share()), (11, 0.0625));
    }
}
