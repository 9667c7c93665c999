//! What became of datagrams, for programs that ask.

use lasthop_core::packet::Cause;
use lasthop_core::time::Time;

use crate::network::Ecn;

/// What became of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is on its way, or was when the run ended.
    UnderWay,
    /// It has arrived.
    Delivered {
        /// When it did for the first time.
        at: Time,
        /// With which ECN bits.
        ecn: Ecn,
        /// How often: the path may double it.
        copies: u32,
    },
    /// It was lost. An erasure code of a link may still make it anew.
    Lost {
        /// When.
        at: Time,
        /// Why.
        cause: Cause,
        /// On which direction of which link, if on one: the name of the link, with ` (reverse)` behind it.
        link: Option<String>,
    },
}

/// The same, as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Sent before fates were kept.
    Unknown,
    UnderWay,
    Delivered {
        at: Time,
        ecn: Ecn,
        copies: u32,
    },
    Lost {
        at: Time,
        cause: Cause,
        direction: Option<u32>,
    },
}
