//! TFRC-SP: TFRC for small packets (Floyd & Kohler, RFC 4828).
//!
//! *What it does.* A flow of small packets, such as telephony, gets the bandwidth of a TCP with full packets instead
//! of its packet rate: the equation uses 1460 B, headers count as part of the rate, and packets have a minimum
//! distance of 10 ms. Because many small packets meet more of the losses within a round trip, an interval of at most
//! two round trips counts each of its losses, and the open interval counts only when it is longer.
//! *Reacts to* what TFRC reacts to.
//! *Differs from the paper:* the size of the packets is a running mean of their payloads with gain 1/16. The `ns2`
//! profile runs ns-2's TFRC as `voip_` does, with `ShortIntervals_` 1.
//! *Validation:* TV-9.5; the rules on intervals in the tests of `history.rs`.
//! *Limitations:* those of TFRC; it sends more packets per second than TCP where routers drop by packets.
//! *Kernel counterpart:* none.
//! *References:* RFC 4828; RFC 5348.

use lasthop_cc::params::params;

use super::tfrc::{Sizing, tfrc_params};

pub(crate) const SUMMARY: &str = "TFRC for small packets: the bandwidth of full ones (RFC 4828)";

tfrc_params! {
    /// Packet size in the equation, in bytes
    reference_size: f64 = 1460.0, 1.0..=65535.0;
    /// Bytes of headers that are taken off the rate
    header: f64 = 40.0, 0.0..=1000.0;
    /// Minimum time between packets, in seconds
    min_interval_s: f64 = 0.01, 0.0..=10.0;
}

impl Params {
    /// How the equation is used.
    pub(super) fn sizing(&self) -> Sizing {
        Sizing::Small {
            reference: self.reference_size,
            header: self.header,
            min_interval_s: self.min_interval_s,
        }
    }
}
