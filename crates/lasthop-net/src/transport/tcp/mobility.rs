//! The switches of the endpoint mechanisms for mobile hosts, as a scenario sets them: Freeze-TCP (`persist.rs`,
//! `mobile_receiver.rs`), EBSN (`ebsn.rs`), fast retransmission after a handoff (`fast_handoff.rs`) and ELN (`eln.rs`).
//!
//! Both ends of a connection read the same record.

/// Freeze-TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// Copies of the ACK that closes the window when the link fades.
    pub closing_acks: u32,
    /// Copies of the ACK that opens it when the link is back.
    pub opening_acks: u32,
    /// Whether the first opening ACK counts as a duplicate, although it changes the window.
    pub opening_ack_counts: bool,
    /// Whether the retransmission that opening ACKs trigger leaves the window alone.
    pub keeps_window: bool,
}

impl Freeze {
    /// What is usual.
    const USUAL: Freeze =
        Freeze { closing_acks: 2, opening_acks: 3, opening_ack_counts: true, keeps_window: true };
}

impl Default for Freeze {
    fn default() -> Self {
        Freeze::USUAL
    }
}

/// Fast retransmission after a handoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastHandoff {
    /// Duplicate ACKs that a receiver sends when its handoff is complete.
    pub acks: u32,
    /// Whether a sender falls back to a window of one, as 4.3BSD-Tahoe did.
    pub tahoe: bool,
}

impl Default for FastHandoff {
    fn default() -> Self {
        FastHandoff { acks: 4, tahoe: false }
    }
}

/// What a connection does about mobility and wireless losses beyond its controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mobility {
    /// Freeze-TCP.
    pub freeze: Option<Freeze>,
    /// The retransmission timer is restarted by notices of a bad state.
    pub ebsn: bool,
    /// Fast retransmission after a handoff.
    pub fast_handoff: Option<FastHandoff>,
    /// Duplicate ACKs with explicit loss notification that make the sender repeat a segment.
    pub eln: Option<u32>,
}

impl Mobility {
    /// The receiver closes its window while the link is down, and nothing else.
    pub(crate) const CLOSES_WINDOW: Mobility =
        Mobility { freeze: Some(Freeze::USUAL), ebsn: false, fast_handoff: None, eln: None };

    /// Whether nothing is switched on.
    pub fn is_plain(&self) -> bool {
        *self == Mobility::default()
    }

    /// Whether an end acts on what its host learns of the link.
    pub fn watches_link(&self) -> bool {
        self.freeze.is_some() || self.fast_handoff.is_some()
    }
}
