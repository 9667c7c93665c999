//! Marks by a threshold: an ECN-capable packet that finds so much in the queue is marked (RFC 8257 §3.1).

use super::{Arrival, Found, Rule, Verdict};

/// An arriving packet is marked if it finds at least this much in the queue, the packet in service included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkThreshold {
    /// This many packets.
    Packets(u32),
    /// This many bytes.
    Bytes(u64),
}

/// The rule at work: it has no memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Threshold(MarkThreshold);

impl Threshold {
    pub(super) fn new(plan: &MarkThreshold, _name: &str, _seed: u64) -> Threshold {
        Threshold(*plan)
    }
}

impl Rule for Threshold {
    fn judge(&mut self, arrival: &Arrival, found: &Found) -> Verdict {
        let reached = match self.0 {
            MarkThreshold::Packets(threshold) => found.packets >= u64::from(threshold),
            MarkThreshold::Bytes(threshold) => found.bytes >= threshold,
        };
        if reached && arrival.ect { Verdict::Mark } else { Verdict::Admit }
    }
}
