//! Losses by number: exactly the listed packets are lost, as in vectors and in comparisons with other simulators.

use lasthop_core::random::Stream;

use super::{ErrorProcess, Frame};

/// The packets with these numbers are lost: 0 is the first packet that is judged in this direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// Numbers of the lost packets, ascending, each once.
    pub packets: Vec<u64>,
}

/// The model at work.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    packets: Vec<u64>,
    judged: u64,
    next: usize,
}

impl Listed {
    pub(super) fn new(plan: List, _stream: Stream) -> Listed {
        Listed { packets: plan.packets, judged: 0, next: 0 }
    }
}

impl ErrorProcess for Listed {
    fn corrupts(&mut self, _frame: &Frame) -> bool {
        let hit = self.packets.get(self.next) == Some(&self.judged);
        self.next += usize::from(hit);
        self.judged += 1;
        hit
    }
}
