//! Frames by name, for those who record them.

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Carries a packet.
    Data,
    /// Acknowledges data.
    Ack,
    /// Clears to send; as a broadcast it protects what follows.
    Cts,
    /// Requests to send.
    Rts,
    /// Of an access point.
    Beacon,
    /// Says which MPDUs have arrived.
    BlockAck,
    /// Asks for that, and says which are not sent again.
    BlockAckRequest,
    /// Gives back the rest of a transmission opportunity.
    End,
}

impl FrameKind {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            FrameKind::Data => "data",
            FrameKind::Ack => "ack",
            FrameKind::Cts => "cts",
            FrameKind::Rts => "rts",
            FrameKind::Beacon => "beacon",
            FrameKind::BlockAck => "block-ack",
            FrameKind::BlockAckRequest => "block-ack-request",
            FrameKind::End => "cf-end",
        }
    }
}

/// What became of a frame at a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameOutcome {
    /// The station sent it.
    Sent,
    /// It was read.
    Read,
    /// It was too weak to be read.
    TooWeak,
    /// It met another frame.
    Collided,
    /// Noise or the error model corrupted it.
    Corrupt,
}

impl FrameOutcome {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            FrameOutcome::Sent => "sent",
            FrameOutcome::Read => "read",
            FrameOutcome::TooWeak => "too-weak",
            FrameOutcome::Collided => "collided",
            FrameOutcome::Corrupt => "corrupt",
        }
    }
}
