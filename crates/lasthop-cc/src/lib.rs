//! Congestion controllers: how much a sender may have in flight.
//!
//! A controller sees what its sender sees (ACKs, losses, timeouts, ECN echoes) and answers with a window. It has no
//! clock, no randomness and no I/O; time comes in with each event. The same code therefore runs in simulation, in
//! emulation and against a real kernel. How losses are *found and repaired* is another question, answered by the
//! recovery engines in `lasthop-net`; any controller combines with any of them.
//!
//! To add a controller: write `src/<name>.rs` (a `Params`, a state, `impl CongestionControl`, tests) and add its two
//! lines below (`mod` and one in `controllers!`). Lookup by name, the scenario keys with their ranges, `lasthop
//! transports` and the conformance tests follow from that line.
//!
//! Windows are real numbers of segments, as in the papers: many laws add fractions.

mod cubic;
mod params;
mod registry;
mod reno;
#[cfg(test)]
mod testing;
mod vegas;

use lasthop_core::time::{Span, Time};

pub use params::{Param, ParamError};
registry::controllers! {
    "reno" => reno::Reno,
    "vegas" => vegas::Vegas,
    "cubic" => cubic::Cubic,
}

/// The window of a sender, in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Congestion window; the sender uses its integer part. At least 1.
    pub cwnd: f64,
    /// Slow start threshold.
    pub ssthresh: f64,
}

impl Window {
    /// Slow start for an ACK of `acked` segments, of which at most `limit` count. Growth stops at ssthresh;
    /// what is left over is returned for congestion avoidance. With a limit of one segment it may overshoot
    /// by less than one (RFC 5681).
    #[inline]
    pub fn slow_start(&mut self, acked: f64, limit: f64) -> f64 {
        if !self.in_slow_start() {
            return acked;
        }
        let counted = acked.min(limit);
        let grown = if limit > 1.0 { counted.min((self.ssthresh - self.cwnd).max(1.0)) } else { counted };
        self.cwnd += grown;
        if self.in_slow_start() { 0.0 } else { counted - grown }
    }

    /// Whether the sender is in slow start.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// What one ACK of new data told the sender.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Arrival of the ACK.
    pub now: Time,
    /// Time since the first segment of the connection was sent.
    pub elapsed: Span,
    /// Time from the transmission of the newest acknowledged segment to this ACK, if that segment was sent just once
    /// (Karn's rule).
    pub rtt: Option<Span>,
    /// Smoothed RTT including this ACK; zero before the first sample.
    pub srtt: Span,
    /// Segments newly delivered: covered for the first time, and not SACKed before.
    pub acked: u32,
    /// First unacknowledged byte after this ACK.
    pub una: u64,
    /// Next byte to be sent.
    pub next: u64,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Whether the window may grow: not in recovery, no ECN echo, and the sender was limited by its window.
    pub may_grow: bool,
}

impl AckSample {
    /// Segments in flight just before the window moved: those still outstanding after this ACK and the one it freed.
    #[inline]
    pub fn flight(&self) -> u32 {
        ((self.next - self.una) as u32).div_ceil(self.mss) + 1
    }
}

/// What a sender knows when it must reduce.
#[derive(Clone, Copy, Debug)]
pub struct LossSample {
    /// Time of the reduction.
    pub now: Time,
    /// Segments that the reduction starts from: `FlightSize` (RFC 5681), or the usable window in the `ns2` profile.
    pub flight: f64,
    /// Whether the lost segment had been sent more than once.
    pub retransmitted: bool,
}

/// A controller's answer to a loss. The sender applies it, with the floors of its profile (ssthresh 2, cwnd 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// New slow start threshold.
    pub ssthresh: f64,
    /// New congestion window; after a timeout the sender restarts from one segment regardless.
    pub cwnd: f64,
}

/// The law by which a window moves.
pub trait CongestionControl {
    /// New data was acknowledged: measure, and move `window` if `ack.may_grow` (a delay-based law may also
    /// shrink it).
    fn on_ack(&mut self, ack: &AckSample, window: &mut Window);

    /// A loss was found by duplicate ACKs or SACK; called once per recovery episode.
    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction;

    /// The retransmission timer expired.
    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction;

    /// An ECN echo arrived, at most once per window (RFC 3168). A mark is never a wireless error.
    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.on_loss(loss, window)
    }

    /// The sender starts again after sending nothing for `idle`.
    fn on_idle(&mut self, idle: Span) {
        let _ = idle;
    }
}
