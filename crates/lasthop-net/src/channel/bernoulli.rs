//! Independent losses: each packet is lost with the same probability, whatever its size.

use lasthop_core::random::Stream;

use super::{ErrorProcess, Frame};

/// Each packet is lost independently of the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bernoulli {
    /// Probability of loss of each packet, in 0..=1.
    pub packet_error_rate: f64,
}

impl Bernoulli {
    /// Lost is each packet for which an exponential draw of mean 1 is below `rate`: one reading of "exponential
    /// losses".
    pub fn of_exponential(rate: f64) -> Bernoulli {
        Bernoulli { packet_error_rate: -libm::expm1(-rate) }
    }
}

/// The model at work.
#[derive(Clone, Debug)]
pub(super) struct Coin {
    stream: Stream,
    packet_error_rate: f64,
}

impl Coin {
    pub(super) fn new(plan: Bernoulli, stream: Stream) -> Coin {
        Coin { stream, packet_error_rate: plan.packet_error_rate }
    }
}

impl ErrorProcess for Coin {
    fn corrupts(&mut self, _frame: &Frame) -> bool {
        self.stream.uniform() < self.packet_error_rate
    }

    fn mean_loss(&self, _bytes: u32) -> Option<f64> {
        Some(self.packet_error_rate)
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::Time;

    use super::super::testing::frame;
    use super::*;

    /// Reading (c) of network specification 2.3: a rate of 0.05 loses 0.0488.
    #[test]
    fn exponential_losses_are_a_little_rarer() {
        let rate = Bernoulli::of_exponential(0.05).packet_error_rate;
        assert!((rate - 0.048_770_6).abs() < 5e-8, "{rate}");
    }

    /// NV-2.1.
    #[test]
    fn losses_have_their_rate() {
        let mut coin = Coin::new(Bernoulli { packet_error_rate: 0.01 }, Stream::new(1, "errors"));
        let lost = (0..1_000_000).filter(|&at| coin.corrupts(&frame(Time(at)))).count();
        assert!((9_700..=10_300).contains(&lost), "{lost}");
    }
}
