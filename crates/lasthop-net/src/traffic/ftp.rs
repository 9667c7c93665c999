//! A file that is handed to the transport at the start; its length is given, drawn, or without end.

use std::sync::Arc;

use lasthop_core::random::Stream;
use lasthop_core::time::Time;

use super::size::Size;
use super::video::Packing;
use super::{Generate, Likeness, Offer, Offered};

/// A file of given length, or without end.
#[derive(Clone, Debug, PartialEq)]
pub struct Ftp {
    /// Length of the transfer; `None` never ends.
    pub bytes: Option<u64>,
}

/// A file whose length is drawn for each flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Where the length comes from.
    pub size: Arc<Size>,
}

impl Offered for Ftp {
    fn mean_length(&self) -> Option<f64> {
        self.bytes.map(|bytes| bytes as f64)
    }

    fn likeness(&self) -> Option<Likeness> {
        Some(Likeness { kind: "ftp", bytes: self.bytes })
    }
}

/// Of different lengths: what each gets in the measured time is not a share.
impl Offered for Transfer {
    fn mean_length(&self) -> Option<f64> {
        Some(self.size.mean())
    }
}

/// The file at work.
#[derive(Clone, Debug)]
pub(super) struct File {
    bytes: Option<u64>,
}

impl File {
    pub(super) fn new(plan: &Ftp, _: Packing, _: Stream) -> File {
        File { bytes: plan.bytes }
    }

    pub(super) fn drawn(plan: &Transfer, _: Packing, mut stream: Stream) -> File {
        File { bytes: Some(plan.size.draw(&mut stream)) }
    }
}

impl Generate for File {
    fn next(&mut self, _: Time) -> Offer {
        Offer { bytes: self.bytes, next: None }
    }

    fn length(&self) -> Option<u64> {
        self.bytes
    }
}
