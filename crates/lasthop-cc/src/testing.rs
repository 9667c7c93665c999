//! Samples for the unit tests of the controllers.

use lasthop_core::time::{Span, Time};

use crate::{AckSample, Arrival, LossSample, LostSegment, RateSample};

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
        disordered: false,
    }
}

/// An ACK of one segment at `seconds` on a path with a smoothed RTT of `srtt` seconds.
pub(crate) fn ack_at(seconds: f64, srtt: f64) -> AckSample {
    AckSample { now: Time::ZERO + Span::from_seconds(seconds), srtt: Span::from_seconds(srtt), ..ack(1) }
}

/// A first loss with `flight` segments outstanding.
pub(crate) fn loss(flight: f64) -> LossSample {
    LossSample { now: Time::ZERO, flight, retransmitted: false, truth: None }
}

/// The segment that was sent as the `place`th is lost.
pub(crate) fn lost_segment(place: u64) -> LostSegment {
    LostSegment {
        now: Time::ZERO,
        seq: 0,
        end: 1000,
        tx_in_flight: 1,
        lost_since: u32::MAX,
        prior_delivered: place - 1,
        delivered: place,
        app_limited: false,
        selective: true,
    }
}

/// An ACK that delivers nothing.
pub(crate) fn rate_sample() -> RateSample {
    RateSample {
        now: Time::ZERO,
        rate: None,
        app_limited: false,
        prior_delivered: 0,
        delivered: 0,
        acked: 0,
        lost: 0,
        prior_flight: 0,
        flight: 0,
        rtt: None,
        maybe_delayed: false,
        srtt: Span::ZERO,
        recovery: None,
        mss: 1000,
        tx_in_flight: 0,
        lost_since: 0,
        held_back: Span::ZERO,
        window_limited: false,
        selective: true,
    }
}

/// An ACK at `seconds` that moves `una` from segment `una` to `ack`, with 100 segments of 1000 bytes outstanding
/// behind it.
pub(crate) fn arrival(seconds: f64, una: u64, ack: u64) -> Arrival {
    Arrival {
        now: Time::ZERO + Span::from_seconds(seconds),
        una: una * 1000,
        ack: ack * 1000,
        next: (una.max(ack) + 100) * 1000,
        mss: 1000,
        srtt: Span::from_millis(100),
        ece: false,
        marked: 0,
        times: None,
        first_sacked: None,
        discards: None,
        report: None,
    }
}

/// An ACK at time zero that carries nothing to measure.
pub(crate) fn plain_arrival() -> Arrival {
    Arrival { next: 1, ..arrival(0.0, 0, 0) }
}

/// Checks to half a unit of the last of `digits` decimals.
pub(crate) fn close(value: f64, expected: f64, digits: i32) {
    assert!(
        (value - expected).abs() <= 0.500_001 * 10f64.powi(-digits),
        "{value} is not {expected} to {digits} digits"
    );
}
