//! A policer: a token bucket that drops what exceeds a rate and a burst, and delays nothing (RFC 2697, one colour).
//!
//! Operators police access links so; a sender meets losses without ever seeing a queue grow. It looks at departing
//! packets only: what comes back passes.

use lasthop_core::packet::Cause;
use lasthop_core::time::Time;
use lasthop_core::units::Rate;

use super::{Cx, Element, OUTBOUND, Parcel};

/// What the bucket allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Bytes on the wire that it allows in the long run.
    pub rate: Rate,
    /// Bytes that it lets pass at once after a rest.
    pub burst: u64,
}

/// The bucket at work. Tokens are counted in nanobits (bits times 10^9), so that no fraction is ever lost.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    depth: u128,
    tokens: u128,
    /// When the tokens were last counted.
    counted: Time,
    passed: u64,
    dropped: u64,
}

const NANOBITS_PER_BYTE: u128 = 8 * 1_000_000_000;

impl Bucket {
    pub(super) fn new(plan: &Policer, _name: &str, _seed: u64) -> Bucket {
        let depth = u128::from(plan.burst) * NANOBITS_PER_BYTE;
        Bucket { rate: plan.rate, depth, tokens: depth, counted: Time::ZERO, passed: 0, dropped: 0 }
    }

    /// Takes tokens for `bytes` at `now`, if there are enough.
    fn takes(&mut self, bytes: u16, now: Time) -> bool {
        let fresh = u128::from(now.since(self.counted).0) * u128::from(self.rate.0);
        self.tokens = (self.tokens + fresh).min(self.depth);
        self.counted = now;
        let cost = u128::from(bytes) * NANOBITS_PER_BYTE;
        let enough = self.tokens >= cost;
        if enough {
            self.tokens -= cost;
        }
        enough
    }
}

impl Element for Bucket {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        if port != OUTBOUND {
            return cx.forward(parcel);
        }
        let counts = u64::from(cx.window.contains(cx.now));
        if self.takes(parcel.bytes, cx.now) {
            self.passed += counts;
            cx.forward(parcel);
        } else {
            self.dropped += counts;
            cx.drop(parcel, Cause::Policed);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("policer_passed", self.passed), ("policer_dropped", self.dropped)]
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::Span;

    use super::super::INBOUND;
    use super::super::testing::Bench;
    use super::*;

    /// 8 Mbit/s are 1 byte per microsecond; a bucket of 3000 bytes.
    #[test]
    fn tokens_by_hand() {
        let mut bucket = Bucket::new(&Policer { rate: Rate(8_000_000), burst: 3000 }, "p", 1);
        let mut takes =
            |micros: u64, bytes| bucket.takes(bytes, Time::ZERO + Span::from_nanos(micros * 1000));
        assert!(takes(0, 1500) && takes(0, 1500), "the burst");
        assert!(!takes(0, 1), "and no byte more");
        assert!(!takes(999, 1000) && takes(1000, 1000), "a byte a microsecond");
        assert!(takes(1_000_000, 1500) && takes(1_000_000, 1500), "full again after a rest");
        assert!(!takes(1_000_000, 1500), "but no fuller than the bucket");
    }

    /// In the long run exactly the rate passes: 1000-byte packets offered at twice the rate for a second.
    #[test]
    fn the_rate_holds() {
        let mut bucket = Bucket::new(&Policer { rate: Rate(8_000_000), burst: 2000 }, "p", 1);
        let passed = (0..2_000u64).filter(|number| bucket.takes(1000, Time(number * 500_000))).count();
        assert_eq!(passed, 2 + 999, "two of the burst, then one per millisecond");
    }

    /// Three packets leave at once and one comes back: the third finds no tokens, and what comes back needs none.
    #[test]
    fn it_polices_one_direction() {
        let mut bench = Bench::new(Bucket::new(&Policer { rate: Rate(8_000_000), burst: 3000 }, "p", 1));
        for port in [OUTBOUND, OUTBOUND, OUTBOUND, INBOUND] {
            bench.offer(port, 1500, Time::ZERO);
        }
        assert_eq!(bench.forwarded(), [(0, Time::ZERO), (1, Time::ZERO), (3, Time::ZERO)]);
        assert_eq!(bench.dropped(), [(2, Cause::Policed)]);
        assert_eq!(bench.device.counters(), [("policer_passed", 2), ("policer_dropped", 1)]);
    }
}
