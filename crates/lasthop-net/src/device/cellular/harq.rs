//! HARQ: a transport block that could not be decoded is sent again, and the receiver adds up what it has of it.
//!
//! It is synchronous, as in the uplink of LTE: a block is sent again after a fixed time, on as many resource blocks,
//! and its user gets no new one in that TTI. So there are as many processes as TTIs in that time.

use std::sync::Arc;

use super::channel::efficiency;
use super::rlc::Carried;

/// How a cell repairs its transport blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Harq {
    /// Of each transmission of a block, the first included, the probability that it fails although the channel is as
    /// good as its CQI. There are no more transmissions than these.
    pub errors: Arc<[f64]>,
    /// TTIs from one transmission of a block to the next.
    pub ttis: u32,
}

/// A transport block on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) carried: Carried,
    /// Resource blocks that each transmission takes.
    pub(super) resource_blocks: u32,
    /// The CQI for which it was made.
    cqi: u8,
    /// What its transmissions have brought, in units of efficiency.
    gained: u32,
    transmissions: u32,
}

/// What became of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Decoded,
    Again,
    GivenUp,
}

impl Block {
    pub(super) fn new(carried: Carried, resource_blocks: u32, cqi: u8) -> Block {
        Block { carried, resource_blocks, cqi, gained: 0, transmissions: 0 }
    }

    /// One more transmission over a channel of this CQI. With incremental redundancy the receiver has the sum of what
    /// all of them brought; `draw` is uniform.
    pub(super) fn transmit(&mut self, cqi: u8, harq: &Harq, draw: impl FnOnce() -> f64) -> Outcome {
        let chance = harq.errors[self.transmissions as usize];
        self.transmissions += 1;
        self.gained += efficiency(cqi);
        if self.gained >= efficiency(self.cqi) && (chance == 0.0 || draw() >= chance) {
            Outcome::Decoded
        } else if (self.transmissions as usize) < harq.errors.len() {
            Outcome::Again
        } else {
            Outcome::GivenUp
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(errors: &[f64], made_for: u8, channels: &[u8], draw: f64) -> Vec<Outcome> {
        let harq = Harq { errors: errors.into(), ttis: 8 };
        let mut block = Block::new(Carried { number: 0, bytes: 100, polls: false }, 1, made_for);
        channels.iter().map(|&cqi| block.transmit(cqi, &harq, || draw)).collect()
    }

    #[test]
    fn a_block_fails_by_chance() {
        use Outcome::{Again, Decoded, GivenUp};
        assert_eq!(outcomes(&[0.1, 0.1], 9, &[9], 0.1), [Decoded]);
        assert_eq!(outcomes(&[0.1, 0.1], 9, &[9, 9], 0.09), [Again, GivenUp]);
        assert_eq!(outcomes(&[0.0], 9, &[9], 0.0), [Decoded]);
    }

    /// Made for CQI 10 (2.7305 bit per symbol) and sent over CQI 7 (1.4766): two transmissions are enough. CQI 6 has
    /// 1.1758, of which three are.
    #[test]
    fn redundancy_adds_up() {
        use Outcome::{Again, Decoded, GivenUp};
        assert_eq!(outcomes(&[0.0; 4], 10, &[7, 7], 0.5), [Again, Decoded]);
        assert_eq!(outcomes(&[0.0; 4], 10, &[6, 6, 6], 0.5), [Again, Again, Decoded]);
        assert_eq!(outcomes(&[0.0; 4], 10, &[0, 1, 1, 15], 0.5), [Again, Again, Again, Decoded]);
        assert_eq!(outcomes(&[0.0; 2], 10, &[1, 2], 0.5), [Again, GivenUp]);
    }
}
