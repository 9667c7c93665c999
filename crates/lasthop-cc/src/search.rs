//! SEARCH: slow start ends when ever less of what was sent a round trip ago arrives (draft-chung-ccwg-search-09).
//!
//! *What it does.* Time is cut into bins, ten of which are 3.5 times the first RTT. At the end of each it compares what
//! was delivered in the last ten bins with what had been sent in ten bins one RTT earlier: over a path that is not full
//! both are alike, beyond that the link's rate bounds the one and not the other. A quarter less ends slow start.
//! *Reacts to* bytes sent and acknowledged, and to the RTT, as a setting of CUBIC: `hystart = "search"`.
//! *Differs from the draft:* between two bins it interpolates to the earlier one, as an author of an implementation
//! says that it must be; the draft's step down to the estimated product of rate and delay, which is optional, is not
//! there.
//! *Validation:* TV-30.5 and TV-30.6 by hand; a run in `tests/laws_of_today.rs` of `lasthop-sim`.
//! *References:* Chung, Kachooei, Li & Claypool, draft-chung-ccwg-search-09.

use lasthop_core::time::{Span, Time};

use crate::AckSample;

/// Bins of the window that is compared.
const WINDOW: u64 = 10;
/// The first RTTs that the window is long.
const WINDOW_RTTS: f64 = 3.5;
/// How many bins an RTT may grow to before nothing is compared.
const EXTRA: u64 = 15;
/// Share of what was sent that must be missing.
const MISSING: f64 = 0.26;

const ACKED: usize = WINDOW as usize + 1;
const SENT: usize = (WINDOW + EXTRA) as usize + 1;

/// The detector of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// Length of a bin, and the end of the present one.
    bin: Span,
    end: Time,
    /// Number of the last bin that has ended, and bytes acknowledged and sent up to the end of each.
    index: u64,
    acked: [u64; ACKED],
    sent: [u64; SENT],
}

impl Search {
    /// Begins with the first RTT.
    pub(crate) fn new(ack: &AckSample, rtt: Span) -> Search {
        let bin = Span::from_seconds(rtt.seconds() * WINDOW_RTTS / WINDOW as f64).max(Span(1));
        let mut search = Search { bin, end: ack.now, index: 0, acked: [0; ACKED], sent: [0; SENT] };
        search.restart(ack);
        search
    }

    fn restart(&mut self, ack: &AckSample) {
        self.end = ack.now + self.bin;
        self.index = 0;
        self.note(ack);
    }

    fn note(&mut self, ack: &AckSample) {
        self.acked[(self.index % ACKED as u64) as usize] = ack.una;
        self.sent[(self.index % SENT as u64) as usize] = ack.next;
    }

    /// Takes an ACK of slow start with its RTT; whether slow start is to end.
    pub(crate) fn is_full(&mut self, ack: &AckSample, rtt: Span) -> bool {
        if ack.now <= self.end {
            return false;
        }
        let ended = ack.now.since(self.end).0.div_ceil(self.bin.0);
        if ended > WINDOW {
            self.restart(ack);
            return false;
        }
        let (acked, sent) = (self.acked_until(self.index), self.sent_until(self.index));
        for _ in 1..ended {
            self.index += 1;
            self.acked[(self.index % ACKED as u64) as usize] = acked;
            self.sent[(self.index % SENT as u64) as usize] = sent;
        }
        self.index += 1;
        self.end += Span(ended * self.bin.0);
        self.note(ack);
        self.compares(rtt)
    }

    fn compares(&self, rtt: Span) -> bool {
        let back = rtt.0 / self.bin.0;
        if back >= EXTRA || self.index <= back + WINDOW {
            return false;
        }
        let before = self.index - back;
        let fraction = (rtt.0 % self.bin.0) as f64 / self.bin.0 as f64;
        // After a timeout a sender may go back to what it has sent before.
        let sent_to = |bin: u64| self.sent_until(bin).saturating_sub(self.sent_until(bin - WINDOW)) as f64;
        let sent = sent_to(before) * (1.0 - fraction) + sent_to(before - 1) * fraction;
        let delivered = (self.acked_until(self.index) - self.acked_until(self.index - WINDOW)) as f64;
        sent > 0.0 && (sent - delivered) / sent >= MISSING
    }

    fn acked_until(&self, bin: u64) -> u64 {
        self.acked[(bin % ACKED as u64) as usize]
    }

    fn sent_until(&self, bin: u64) -> u64 {
        self.sent[(bin % SENT as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ack;

    /// ACKs just behind the end of each bin of 35 ms; a bin delivers 100 kB, and from bin 21 on twice that is sent.
    /// Returns the bin with which slow start ends.
    fn ends(rtt_ms: u64) -> Option<u64> {
        let rtt = Span::from_millis(rtt_ms);
        let at = |bin: u64| {
            let now = Time::ZERO + Span(Span::from_millis(35).0 * bin + bin.min(1));
            AckSample { now, una: bin * 100_000, next: (bin + bin.saturating_sub(20)) * 100_000, ..ack(1) }
        };
        let mut search = Search::new(&at(0), Span::from_millis(100));
        (1..60).find(|bin| search.is_full(&at(*bin), rtt))
    }

    /// TV-30.5: an RTT of two bins. With n bins of 200 kB in the window, 100n/(1000 + 100n) is missing: 0.231 for 3,
    /// 0.286 for 4, whose last is bin 24, sent two bins before 26.
    #[test]
    fn a_quarter_that_is_missing_ends_slow_start() {
        assert_eq!(ends(70), Some(26));
    }

    /// TV-30.6: an RTT of two and a half bins, half of each: 350/1350 is 0.259, 450/1450 is 0.310: one bin later.
    #[test]
    fn between_bins_it_interpolates() {
        assert_eq!(ends(87), Some(26), "0.486 of the earlier: 351.4/1351.4 is 0.26003");
        assert_eq!(ends(88), Some(27), "0.514 of the earlier: 348.6/1348.6 is 0.2585");
        assert_eq!(ends(35 * 15), None, "an RTT of fifteen bins is compared with nothing");
    }

    /// After more than a window without an ACK nothing is known.
    #[test]
    fn a_pause_begins_anew() {
        let at =
            |millis: u64| AckSample { now: Time::ZERO + Span::from_millis(millis), next: millis, ..ack(1) };
        let mut search = Search::new(&at(0), Span::from_millis(100));
        assert!(!search.is_full(&at(36), Span::from_millis(100)));
        assert_eq!(search.index, 1);
        assert!(!search.is_full(&at(36 + 105), Span::from_millis(100)));
        assert_eq!((search.index, search.sent_until(3)), (4, 36), "bins without an ACK have what there was");
        assert!(!search.is_full(&at(1000), Span::from_millis(100)));
        assert_eq!(search.index, 0);
    }
}
