//! Independent losses: each packet is lost with the same probability, whatever its size.

use lasthop_core::random::Stream;
use lasthop_core::time::Time;

use super::ErrorProcess;

/// Each packet is lost independently of the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bernoulli {
    /// Probability of loss of each packet, in 0..=1.
    pub packet_error_rate: f64,
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
    fn corrupts(&mut self, _at: Time, _bytes: u32) -> bool {
        self.stream.uniform() < self.packet_error_rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NV-2.1.
    #[test]
    fn losses_have_their_rate() {
        let mut coin = Coin::new(Bernoulli { packet_error_rate: 0.01 }, Stream::new(1, "errors"));
        let lost = (0..1_000_000).filter(|&at| coin.corrupts(Time(at), 1000)).count();
        assert!((9_700..=10_300).contains(&lost), "{lost}");
    }
}
