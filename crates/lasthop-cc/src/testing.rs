//! Samples for the unit tests of the controllers.

use lasthop_core::time::{Span, Time};

use crate::{AckSample, LossSample};

/// An ACK of `acked` segments that may grow the window.
pub(crate) fn ack(acked: u32) -> AckSample {
    AckSample {
        now: Time::ZERO,
        elapsed: Span::ZERO,
        rtt: None,
        srtt: Span::ZERO,
        acked,
        una: 1,
        next: 1,
        mss: 1000,
        may_grow: true,
    }
}

/// An ACK of one segment at `seconds` on a path with a smoothed RTT of `srtt` seconds.
pub(crate) fn ack_at(seconds: f64, srtt: f64) -> AckSample {
    AckSample { now: Time::ZERO + Span::from_seconds(seconds), srtt: Span::from_seconds(srtt), ..ack(1) }
}

/// A first loss with `flight` segments outstanding.
pub(crate) fn loss(flight: f64) -> LossSample {
    LossSample { now: Time::ZERO, flight, retransmitted: false }
}
