//! Independent bit errors: the longer a packet, the more easily it is lost.

use lasthop_core::random::Stream;

use super::{ErrorProcess, Frame};

/// Every bit is wrong independently of the others; one that is makes the packet a loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BitErrorRate {
    /// Probability that a bit is wrong, in 0..=1.
    pub bit_error_rate: f64,
    /// Bytes that are protected beside the IP packet: headers and the checksum of the link.
    pub overhead: u32,
}

/// The model at work.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    plan: BitErrorRate,
    stream: Stream,
}

impl Bits {
    pub(super) fn new(plan: BitErrorRate, stream: Stream) -> Bits {
        Bits { plan, stream }
    }

    /// Probability that a packet of `bytes` is lost.
    fn loses(&self, bytes: u32) -> f64 {
        loses_bits(self.plan.bit_error_rate, 8.0 * f64::from(bytes + self.plan.overhead))
    }
}

/// Probability that not all of `bits` survive: 1 - (1 - rate)^bits.
pub(super) fn loses_bits(rate: f64, bits: f64) -> f64 {
    // Nothing is lost of nothing, even where every bit would be.
    if bits <= 0.0 { 0.0 } else { -libm::expm1(bits * libm::log1p(-rate)) }
}

impl ErrorProcess for Bits {
    fn corrupts(&mut self, frame: &Frame) -> bool {
        self.stream.uniform() < self.loses(frame.bytes)
    }

    fn mean_loss(&self, bytes: u32) -> Option<f64> {
        Some(self.loses(bytes))
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::Span;

    use super::super::testing::losses;
    use super::*;

    /// TV-2.4.
    #[test]
    fn bits_and_packets() {
        for (bytes, expected) in
            [(40, 0.003_194_9), (512, 0.040_132_7), (1024, 0.078_654_7), (1500, 0.113_080_1)]
        {
            let rate = loses_bits(1e-5, f64::from(8 * bytes));
            assert!((rate - expected).abs() < 5e-8, "{bytes}: {rate}");
        }
        assert!((loses_bits(1e-6, 8192.0) - 0.008_158_5).abs() < 5e-8);
        assert!((loses_bits(1.256_29e-6, 8000.0) - 0.01).abs() < 1e-7);
        assert_eq!((loses_bits(1.0, 8.0), loses_bits(1.0, 0.0), loses_bits(0.0, 8.0)), (1.0, 0.0, 0.0));
    }

    /// Packets of 1000 B with 24 B of the link, at 1e-5.
    #[test]
    fn overhead_counts() {
        let plan = BitErrorRate { bit_error_rate: 1e-5, overhead: 24 };
        let bits = Bits::new(plan, Stream::new(1, "errors"));
        let (rate, _) = losses(bits, 1_000_000, Span::from_millis(1));
        assert!((rate - 0.078_654_7).abs() < 0.001, "{rate}");
    }
}
