//! Fewer ACKs, for a receiver: no more of them in a round trip than is asked for (TACK), and none for every packet
//! that comes out of order (QUIC's ACK frequency).
//!
//! TACK acknowledges when L segments have come *and* a share of the minimum RTT has passed since the last ACK, so that
//! there are `min(rate/(L MSS), beta/RTT_min)` ACKs a second (Li et al., SIGCOMM 2020). The receiver measures the RTT
//! by timestamps: how long ago it sent the ACK whose time a segment echoes.
//!
//! Out of order, an ACK is sent at once when the lowest segment that is missing, and that no ACK has shown to be so,
//! lies a threshold below the highest that has come (draft-ietf-quic-ack-frequency, section 6.2). A threshold of 1 is
//! what TCP does anyway; 0 ignores order. The receiver asks; this file keeps what it must remember.

use lasthop_core::time::{Span, Time};

use super::config::TcpConfig;
use super::segments::Ranges;

/// What a receiver with fewer ACKs remembers.
#[derive(Clone, Debug)]
pub(super) struct AckFrequency {
    /// ACKs in the minimum RTT; 0 for any number.
    per_rtt: u32,
    /// How far out of order calls for an ACK at once; 0 for no distance.
    reordering: u64,
    mss: u64,
    least_rtt: Option<Span>,
    /// When the last ACK was sent, and the highest segment that had come then.
    sent: Time,
    told: Option<u64>,
}

impl AckFrequency {
    /// For a receiver with this configuration, if it asks for any of it.
    pub(super) fn new(config: &TcpConfig) -> Option<Box<AckFrequency>> {
        let delayed = config.delayed_ack?;
        // Without timestamps there is no RTT to go by.
        let per_rtt = if config.timestamps { delayed.per_rtt } else { 0 };
        (per_rtt > 0 || delayed.reordering != 1).then(|| {
            Box::new(AckFrequency {
                per_rtt,
                reordering: delayed.reordering.into(),
                mss: config.mss().into(),
                least_rtt: None,
                sent: Time::ZERO,
                told: None,
            })
        })
    }

    /// Whether order matters less than in TCP.
    pub(super) fn bears_disorder(&self) -> bool {
        self.reordering != 1
    }

    /// A segment has come at `now` that echoes the time of an ACK.
    pub(super) fn measure(&mut self, echo: Time, now: Time) {
        if echo > Time::ZERO {
            let rtt = now.since(echo);
            self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
        }
    }

    /// No ACK that may wait is sent before this.
    pub(super) fn earliest(&self) -> Time {
        match self.least_rtt {
            Some(rtt) if self.per_rtt > 0 => self.sent + Span(rtt.0 / u64::from(self.per_rtt)),
            _ => Time::ZERO,
        }
    }

    /// Whether what is missing now is to be told at once. `next` is the first byte that is missing, `pending` are the
    /// data beyond it.
    pub(super) fn reports(&self, next: u64, pending: &Ranges) -> bool {
        let Some((_, end)) = pending.last().filter(|_| self.reordering > 0) else { return false };
        let highest = self.segment(end - 1);
        // What is lower has been shown to be missing: the ACK before said enough to take it for lost.
        let unreported = self.told.map_or(0, |told| (told + 1).saturating_sub(self.reordering));
        let mut missing = next.max(1 + unreported * self.mss);
        if let Some((_, held)) = pending.containing(missing) {
            missing = held;
        }
        missing < end && highest - self.segment(missing) >= self.reordering
    }

    /// An ACK is sent.
    pub(super) fn on_ack(&mut self, next: u64, pending: &Ranges, now: Time) {
        self.sent = now;
        let end = pending.last().map_or(next, |(_, end)| end.max(next));
        self.told = (end > 1).then(|| self.segment(end - 1));
    }

    /// Number of the segment that holds a byte; data begin at 1.
    fn segment(&self, seq: u64) -> u64 {
        seq.saturating_sub(1) / self.mss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequency(reordering: u64) -> AckFrequency {
        AckFrequency { per_rtt: 4, reordering, mss: 1000, least_rtt: None, sent: Time::ZERO, told: None }
    }

    /// The segments of `arrivals` that call for an ACK at once, where nothing else does.
    fn answered(reordering: u64, arrivals: &[u64]) -> Vec<u64> {
        let mut frequency = frequency(reordering);
        let (mut next, mut pending) = (1, Ranges::default());
        let mut answered = Vec::new();
        for &number in arrivals {
            pending.insert(1 + 1000 * number, 1001 + 1000 * number);
            while let Some((_, end)) = pending.take_first_at(next) {
                next = end;
            }
            if frequency.reports(next, &pending) {
                frequency.on_ack(next, &pending, Time::ZERO);
                answered.push(number);
            }
        }
        answered
    }

    /// TV-33.1: the examples of the draft, section 6.2.1.
    #[test]
    fn the_examples_of_the_draft() {
        assert_eq!(answered(3, &[0, 1, 3, 4, 5, 8, 9, 10]), [5, 9, 10]);
        assert_eq!(answered(5, &[0, 1, 3, 5, 6, 7, 8, 9]), [7, 9]);
        assert_eq!(answered(0, &[0, 1, 3, 4, 5, 8, 9, 10, 20, 40]), [0; 0]);
        // Filled in time, a gap calls for nothing.
        assert_eq!(answered(3, &[0, 2, 1, 4, 3, 7, 6, 5]), [0; 0]);
    }

    /// TV-33.2: four ACKs in the minimum RTT of 40 ms are 10 ms apart.
    #[test]
    fn a_share_of_the_least_rtt() {
        let millis = |value| Time::ZERO + Span::from_millis(value);
        let mut frequency = frequency(1);
        frequency.on_ack(1001, &Ranges::default(), millis(100));
        assert_eq!(frequency.earliest(), Time::ZERO);
        frequency.measure(Time::ZERO, millis(120));
        for (echo, now) in [(80, 130), (100, 140), (95, 145)] {
            frequency.measure(millis(echo), millis(now));
        }
        assert_eq!(frequency.earliest(), millis(110));
        assert_eq!(AckFrequency { per_rtt: 0, ..frequency }.earliest(), Time::ZERO);
    }
}
