//! Losses at regular distances, such as every hundredth packet.

use lasthop_core::random::Stream;

use super::{ErrorProcess, Frame};

/// Of every `every` packets `burst` are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periodic {
    /// Packets from the beginning of a loss to that of the next, at least 1.
    pub every: u64,
    /// Number of the first lost packet; 0 is the first that is judged in this direction.
    pub first: u64,
    /// Packets that are lost in a row.
    pub burst: u64,
}

/// The model at work.
#[derive(Clone, Debug)]
pub(super) struct Comb {
    plan: Periodic,
    judged: u64,
}

impl Comb {
    pub(super) fn new(plan: Periodic, _stream: Stream) -> Comb {
        Comb { plan, judged: 0 }
    }
}

impl ErrorProcess for Comb {
    fn corrupts(&mut self, _frame: &Frame) -> bool {
        let number = self.judged;
        self.judged += 1;
        number >= self.plan.first && (number - self.plan.first) % self.plan.every < self.plan.burst
    }

    fn mean_loss(&self, _bytes: u32) -> Option<f64> {
        Some(self.plan.burst as f64 / self.plan.every as f64)
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::Time;

    use super::super::testing::frame;
    use super::*;

    #[test]
    fn two_of_five_from_the_fourth_on() {
        let mut comb = Comb::new(Periodic { every: 5, first: 3, burst: 2 }, Stream::new(1, "errors"));
        let lost: Vec<u64> = (0..15).filter(|&at| comb.corrupts(&frame(Time(at)))).collect();
        assert_eq!(lost, [3, 4, 8, 9, 13, 14]);
    }
}
