//! TFRC-PS: TFRC for packets of different sizes (Widmer, Boutremans & Le Boudec, CCR 34(2), 2004).
//!
//! *What it does.* The equation uses a nominal packet size, and the loss measurement is independent of packet sizes.
//! Either the receiver collects small packets into virtual packets of the nominal size, each of which is lost if any
//! part of it is, or it samples each packet with the probability size / nominal size.
//! *Reacts to* what TFRC reacts to.
//! *Differs from the paper:* a reconstruction from its idea; the paper was not available. Virtual packets follow the
//! order of the bytes, and the bytes of a gap are shared equally among the packets that are missing in it. ns-2 has no
//! such TFRC, so the profile changes only packet sizes. Whether the paper forms virtual packets and spreads a gap in
//! this way is open, and its measurements of fairness over sizes are not compared here.
//! *Validation:* intervals against counts by hand in `history.rs`.
//! *Limitations:* those of TFRC.
//! *Kernel counterpart:* none.
//! *References:* Widmer, Boutremans & Le Boudec, CCR 34(2), 2004; RFC 5348.

use lasthop_cc::params::{choice, params};

use super::tfrc::tfrc_params;

pub(crate) const SUMMARY: &str = "TFRC for packets of different sizes (Widmer et al. 2004)";

choice! {
    /// How packets of different sizes are counted.
    Counting {
        /// Collected into packets of the nominal size.
        Virtual = "virtual",
        /// Drawn with the probability size / nominal size.
        Sampled = "sampled",
    }
}

tfrc_params! {
    /// Packet size in the equation, in bytes
    nominal_size: f64 = 1460.0, 1.0..=65535.0;
    /// How losses are counted: packets collected into virtual ones, or sampled by size
    counting: Counting = Counting::Virtual, 0.0..=1.0;
}
