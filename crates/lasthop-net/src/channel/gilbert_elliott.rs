//! Gilbert and Elliott's channel: losses that are rare in a good state and frequent in a bad one (Gilbert 1960, Elliott
//! 1963), stepped by packets or running in time.

use lasthop_core::random::Stream;
use lasthop_core::time::Span;

use super::ber::loses_bits;
use super::sojourns::Sojourns;
use super::{ErrorProcess, Frame};

/// A chain that makes a step after each packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability that a good state is followed by a bad one.
    pub to_bad: f64,
    /// Probability that a bad state is followed by a good one.
    pub to_good: f64,
    /// Probability of a loss in the good and in the bad state.
    pub loss: [f64; 2],
}

/// The model at work.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    plan: GilbertElliott,
    steps: Stream,
    losses: Stream,
    bad: bool,
}

impl Chain {
    /// In a state drawn by how often the chain is in either.
    pub(super) fn new(plan: GilbertElliott, mut stream: Stream) -> Chain {
        let losses = stream.branch();
        let moves = plan.to_bad + plan.to_good;
        let bad = stream.uniform() * moves < plan.to_bad;
        Chain { plan, steps: stream, losses, bad }
    }
}

impl ErrorProcess for Chain {
    fn corrupts(&mut self, _frame: &Frame) -> bool {
        let lost = self.losses.uniform() < self.plan.loss[usize::from(self.bad)];
        let leaves = if self.bad { self.plan.to_good } else { self.plan.to_bad };
        self.bad ^= self.steps.uniform() < leaves;
        lost
    }

    fn mean_loss(&self, _bytes: u32) -> Option<f64> {
        let bad = self.plan.to_bad / (self.plan.to_bad + self.plan.to_good);
        Some(self.plan.loss[0] * (1.0 - bad) + self.plan.loss[1] * bad)
    }
}

/// A chain in continuous time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliottTime {
    /// Mean length of a good time.
    pub good: Span,
    /// Mean length of a bad one.
    pub bad: Span,
    /// What it does to a frame in either state.
    pub errors: StateErrors,
}

/// What the states do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StateErrors {
    /// Probability that a frame is lost which begins in the good, or in the bad state.
    PerFrame([f64; 2]),
    /// Probability that a bit is wrong which is sent in the good, or in the bad state.
    PerBit([f64; 2]),
}

/// The model at work.
#[derive(Clone, Debug)]
pub(super) struct TimedChain {
    errors: StateErrors,
    sojourns: Sojourns,
    losses: Stream,
}

impl TimedChain {
    pub(super) fn new(plan: GilbertElliottTime, mut stream: Stream) -> TimedChain {
        let losses = stream.branch();
        let sojourns = Sojourns::new(plan.good, plan.bad, true, stream);
        TimedChain { errors: plan.errors, sojourns, losses }
    }
}

impl ErrorProcess for TimedChain {
    fn corrupts(&mut self, frame: &Frame) -> bool {
        let chance = self.losses.uniform();
        let rates = match self.errors {
            StateErrors::PerFrame(loss) => {
                return chance < loss[usize::from(self.sojourns.is_bad_at(frame.start))];
            }
            StateErrors::PerBit(rates) => rates,
        };
        // Bits are sent at an even pace; those of a frame that takes no time are all sent in one state.
        let bits = 8.0 * f64::from(frame.bytes);
        let whole = frame.end.since(frame.start).0 as f64;
        let mut survives = 1.0;
        self.sojourns.walk(frame.start, frame.end, |bad, part| {
            let share = if whole > 0.0 { part.0 as f64 / whole } else { 1.0 };
            survives *= 1.0 - loses_bits(rates[usize::from(bad)], bits * share);
        });
        chance < 1.0 - survives
    }

    fn mean_loss(&self, _bytes: u32) -> Option<f64> {
        let StateErrors::PerFrame(loss) = self.errors else { return None };
        let bad = self.sojourns.bad_share();
        Some(loss[0] * (1.0 - bad) + loss[1] * bad)
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::time::Time;

    use super::super::testing::losses;
    use super::*;

    fn stream() -> Stream {
        Stream::new(1, "errors")
    }

    /// NV-2.2 and NV-2.3: rate and mean burst.
    #[test]
    fn by_packets() {
        let plan = GilbertElliott { to_bad: 0.0125, to_good: 0.25, loss: [0.0, 1.0] };
        let (rate, run) = losses(Chain::new(plan, stream()), 2_000_000, Span::from_millis(1));
        assert!((rate - 0.047_619_0).abs() < 0.001 && (run - 4.0).abs() < 0.1, "{rate}, {run}");
        let plan = GilbertElliott { to_bad: 0.005, to_good: 0.1, loss: [0.001, 0.5] };
        let (rate, _) = losses(Chain::new(plan, stream()), 2_000_000, Span::from_millis(1));
        assert!((rate - 0.024_761_9).abs() < 0.000_7, "{rate}");
    }

    /// In time: 400 ms good, 100 ms bad; a frame is lost with 0.01 and 0.6. Stationary: 0.8 * 0.01 + 0.2 * 0.6.
    #[test]
    fn by_time() {
        let plan = GilbertElliottTime {
            good: Span::from_millis(400),
            bad: Span::from_millis(100),
            errors: StateErrors::PerFrame([0.01, 0.6]),
        };
        let (rate, _) = losses(TimedChain::new(plan, stream()), 4_000_000, Span::from_millis(1));
        assert!((rate - 0.128).abs() < 0.003, "{rate}");
    }

    /// By bits, states much longer than frames: 1e-6 and 1e-4 of 8000 bits are 0.00797 and 0.55067, half of each.
    #[test]
    fn by_bits() {
        let second = Span::from_secs(1);
        let errors = StateErrors::PerBit([1e-6, 1e-4]);
        let plan = GilbertElliottTime { good: second, bad: second, errors };
        let (rate, _) = losses(TimedChain::new(plan, stream()), 4_000_000, Span::from_millis(1));
        assert!((rate - f64::midpoint(0.007_968, 0.550_671)).abs() < 0.008, "{rate}");
        // States much shorter than a frame: every frame has half of its bits in either, 1 - exp(-0.4040).
        let short = Span::from_nanos(100_000);
        let plan = GilbertElliottTime { good: short, bad: short, errors };
        let mut chain = TimedChain::new(plan, stream());
        let frame = |number: u64| Frame {
            start: Time(number * 100_000_000),
            end: Time(number * 100_000_000 + 100_000_000),
            bytes: 1000,
        };
        let lost = (0..20_000).filter(|&number| chain.corrupts(&frame(number))).count();
        let rate = lost as f64 / 20_000.0;
        assert!((rate - 0.332_4).abs() < 0.012, "{rate}");
    }
}
