//! Named random streams: one independent PCG64 DXSM generator per consumer, seeded from (run seed, stream name).
//!
//! Adding a flow or a link leaves every other stream as it was, so that compared protocols meet the same
//! channel (common random numbers). The samplers are our own and their values are pinned by tests: libraries
//! may change theirs.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Dxsm;
use sha2::{Digest, Sha256};

/// A stream of random numbers that belongs to one consumer.
#[derive(Clone, Debug)]
pub struct Stream {
    generator: Pcg64Dxsm,
}

impl Stream {
    /// The stream called `name` of the run with this seed, e.g. `error model of bottleneck`.
    pub fn new(seed: u64, name: &str) -> Stream {
        let mut hash = Sha256::new();
        hash.update(b"lasthop stream v1\0");
        hash.update(seed.to_le_bytes());
        hash.update(name.as_bytes());
        Stream { generator: Pcg64Dxsm::from_seed(hash.finalize().into()) }
    }

    /// A stream of its own for another purpose of the same consumer, so that neither depends on how often the other
    /// draws. Takes one number of this one.
    #[must_use]
    pub fn branch(&mut self) -> Stream {
        Stream::new(self.generator.next_u64(), "branch")
    }

    /// Fills `bytes` with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.generator.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// Uniform in `[0, 1)`, on a grid of 2^-53.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        (self.generator.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform integer in `[0, bound)`; 0 when `bound` is 0. The bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.generator.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Exponential with this mean, by inversion.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - u lies in (0, 1], so the logarithm is finite. The portable `libm` rounds alike everywhere.
        -mean * libm::log(1.0 - self.uniform())
    }

    /// A standard normal variable (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(1.0 - self.uniform())).sqrt();
        radius * libm::cos(2.0 * std::f64::consts::PI * self.uniform())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These values are the contract: a change here changes every published result.
    #[test]
    fn values_are_pinned() {
        let mut stream = Stream::new(1, "error model of bottleneck");
        let drawn: Vec<u64> = (0..3).map(|_| stream.below(1_000_000)).collect();
        assert_eq!(drawn, PINNED);
    }

    const PINNED: [u64; 3] = [112_576, 700_763, 371_826];

    #[test]
    fn streams_differ_by_name_and_seed() {
        let first = Stream::new(1, "a").uniform();
        assert_ne!(first, Stream::new(1, "b").uniform());
        assert_ne!(first, Stream::new(2, "a").uniform());
        assert_eq!(first, Stream::new(1, "a").uniform());
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut stream = Stream::new(7, "mean");
        let mean = (0..100_000).map(|_| stream.exponential(2.0)).sum::<f64>() / 100_000.0;
        assert!((mean - 2.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn below_stays_below() {
        let mut stream = Stream::new(7, "below");
        assert!((0..1000).all(|_| stream.below(10) < 10));
        assert_eq!(stream.below(0), 0);
    }
}
