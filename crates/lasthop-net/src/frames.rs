//! The frames of a flow: what a video source wrote, frame by frame, and where each one ends in the stream of bytes.
//!
//! `traffic/` fills the log while it writes; the metrics of viewers are computed from it at the end of the run.

use lasthop_core::time::Time;

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Intra-coded: needs no other frame.
    I,
    /// Predicted from the last I or P frame.
    P,
    /// Predicted from the I or P frames on both sides.
    B,
    /// The source does not know types.
    Any,
}

impl FrameKind {
    /// The name in tables: `I`, `P`, `B`, or `any`.
    pub fn name(self) -> &'static str {
        match self {
            FrameKind::I => "I",
            FrameKind::P => "P",
            FrameKind::B => "B",
            FrameKind::Any => "any",
        }
    }

    /// The type with this letter, of either case.
    pub fn by_letter(letter: char) -> Option<FrameKind> {
        match letter {
            'I' | 'i' => Some(FrameKind::I),
            'P' | 'p' => Some(FrameKind::P),
            'B' | 'b' => Some(FrameKind::B),
            _ => None,
        }
    }
}

/// One frame as its source handed it to the transport. It begins where the frame before it ends, the first at 0; a
/// frame without bytes was skipped by the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Payload bytes of the flow up to and including the frame's last, in what the transport really carries: after
    /// ns-2's rounding to whole segments, unless frames carry their rest to the next one. UDP and rate-based flows
    /// number their bytes from 0, so the frame's last byte is `end - 1`; TCP numbers data from 1, where it is `end`.
    /// A `wtcp-rate` flow that drops writes itself numbers only what it sends.
    pub end: u64,
    /// Its type.
    pub kind: FrameKind,
    /// When it was generated. `spread` may hand its bytes over later.
    pub at: Time,
}
