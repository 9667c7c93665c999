//! What a run records on request: every packet on every link, every change of a window, and binned time series.
//!
//! Links are evaluated ahead of the clock, so records carry their own times and are sorted at the end.

use lasthop_core::packet::{Cause, Kind};
use lasthop_core::time::{Span, Time};

use crate::transport::codec::Measured;
use crate::transport::sack::SackBlocks;

/// What to record beside the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Time series of flows and links.
    pub series: bool,
    /// Every packet on every link, and every change of a window.
    pub trace: bool,
}

/// One packet on one link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HopRecord {
    /// Serial number of the packet.
    pub packet: u32,
    /// Flow.
    pub flow: u32,
    /// Direction: twice the link's index, plus one for the reverse.
    pub direction: u32,
    /// What it carries.
    pub kind: Kind,
    /// Flags of `lasthop_core::packet::flag`.
    pub flags: u8,
    /// Receiver window in bytes.
    pub window: u32,
    /// It was on its way from the receiver to the sender.
    pub back: bool,
    /// Its range had been sent before.
    pub again: bool,
    /// First byte of the payload, or the sender's position for an ACK.
    pub seq: u64,
    /// Cumulative acknowledgement of ACKs; 0 otherwise.
    pub ack: u64,
    /// Payload bytes.
    pub payload: u16,
    /// Wire bytes.
    pub bytes: u16,
    /// Timestamp option: value and echo.
    pub stamp: Time,
    /// The newest timestamp of the other end.
    pub echo: Time,
    /// SACK blocks of ACKs.
    pub sack: SackBlocks,
    /// What experimental options of the TCP header carry.
    pub measured: Measured,
    /// Arrival at the queue.
    pub enqueued: Time,
    /// Start of transmission.
    pub transmitted: Option<Time>,
    /// Arrival at the far end.
    pub arrived: Option<Time>,
    /// Why it was lost.
    pub lost: Option<Cause>,
}

/// A window after it changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowRecord {
    /// When.
    pub time: Time,
    /// Flow.
    pub flow: u32,
    /// Congestion window in segments.
    pub cwnd: f64,
    /// Slow start threshold in segments.
    pub ssthresh: f64,
}

/// A sender at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowSample {
    /// End of the interval.
    pub time: Time,
    /// Flow.
    pub flow: u32,
    /// Congestion window in segments; NaN for UDP.
    pub cwnd: f64,
    /// Slow start threshold in segments; NaN for UDP.
    pub ssthresh: f64,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Span,
    /// Mean RTT of the samples of the interval.
    pub rtt: Option<Span>,
    /// Outstanding segments.
    pub flight: u32,
    /// Allowed rate of a rate-based sender in payload bytes per second; NaN for others.
    pub rate: f64,
}

/// Sums over the intervals of a run; occurrences are added in any order.
#[derive(Clone, Debug)]
pub struct Bins<const N: usize> {
    interval: u64,
    bins: Vec<[u64; N]>,
}

impl<const N: usize> Bins<N> {
    /// Bins of `interval` that cover `duration`; a shorter rest at the end is dropped.
    pub fn new(interval: Span, duration: Span) -> Bins<N> {
        Bins { interval: interval.0, bins: vec![[0; N]; (duration.0 / interval.0) as usize] }
    }

    /// Adds `amount` to column `column` at `time`.
    pub fn add(&mut self, time: Time, column: usize, amount: u64) {
        if let Some(bin) = self.bins.get_mut((time.0 / self.interval) as usize) {
            bin[column] += amount;
        }
    }

    /// Adds the nanoseconds of `[start, end)` to the bins that they fall into.
    pub fn add_span(&mut self, start: Time, end: Time, column: usize) {
        let mut at = start.0;
        while at < end.0 {
            let index = at / self.interval;
            let until = ((index + 1) * self.interval).min(end.0);
            let Some(bin) = self.bins.get_mut(index as usize) else { return };
            bin[column] += until - at;
            at = until;
        }
    }

    /// The sums, one row per interval.
    pub fn rows(&self) -> &[[u64; N]] {
        &self.bins
    }
}

/// Columns of a link's bins.
pub mod link_column {
    /// Packet-nanoseconds of waiting.
    pub const WAITING: usize = 0;
    /// Nanoseconds of transmission.
    pub const BUSY: usize = 1;
    /// Bytes whose transmission started.
    pub const BYTES: usize = 2;
}

/// Columns of a flow's bins.
pub mod flow_column {
    /// Wire bytes that arrived.
    pub const RECEIVED: usize = 0;
    /// Payload bytes delivered in order.
    pub const DELIVERED: usize = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_spread_over_their_bins() {
        let mut bins: Bins<1> = Bins::new(Span(10), Span(35));
        bins.add_span(Time(5), Time(27), 0);
        bins.add_span(Time(28), Time(90), 0);
        assert_eq!(bins.rows(), [[5], [10], [9]], "the rest beyond the last full interval is dropped");
        bins.add(Time(12), 0, 100);
        bins.add(Time(31), 0, 100);
        assert_eq!(bins.rows()[1], [110]);
    }
}
