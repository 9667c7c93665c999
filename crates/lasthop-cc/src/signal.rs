//! Signals of other layers to a sender: the link layer, the radio, the mobile host, the base station.
//!
//! One typed enum, produced in `lasthop-net` (links with link-layer retransmission, handoffs) and consumed by senders
//! and controllers. A controller that does not know a signal ignores it.

use lasthop_core::time::Span;

/// A cross-layer signal. Sequence ranges are bytes of the sender's stream, `[seq, end)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Signal {
    /// The link has delivered the frame that carried this range.
    LinkAck {
        /// First byte of the segment.
        seq: u64,
        /// One past its last byte.
        end: u64,
        /// Link retransmissions it took.
        retransmissions: u32,
        /// Time that those retransmissions added.
        delay: Span,
    },
    /// One more attempt to deliver this range over the link has failed; the link goes on trying.
    LinkRetry {
        /// First byte of the segment.
        seq: u64,
        /// One past its last byte.
        end: u64,
        /// Attempts so far.
        attempts: u32,
    },
    /// The link has given up on this range.
    LinkDrop {
        /// First byte of the segment.
        seq: u64,
        /// One past its last byte.
        end: u64,
        /// Attempts made.
        attempts: u32,
    },
    /// The retransmission timeout of the link, told once when the connection starts.
    LinkTimeout {
        /// The timeout.
        timeout: Span,
    },
    /// Frames discarded by a MAC: a failed attempt of the own MAC, or a corrupt frame that it received.
    MacDiscard {
        /// Number of frames.
        count: u32,
    },
    /// A frame was received with this strength.
    RxRssi {
        /// Received power.
        dbm: f64,
        /// Length of the frame.
        bytes: u32,
    },
    /// The link is about to go down.
    LinkFading {
        /// Time left.
        warning: Span,
    },
    /// The link is back.
    LinkUp,
    /// A handoff is complete.
    HandoffDone,
    /// The base station could not deliver a packet of this sender just now (EBSN).
    Ebsn {
        /// First byte of that packet.
        seq: u64,
    },
    /// A snoop agent marked an ACK: the loss it reports happened on the wireless link (ELN).
    Eln,
}
