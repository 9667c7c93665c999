//! Losses whose rate changes at given times, as a recording of a link has them.

use std::sync::Arc;

use lasthop_core::random::Stream;
use lasthop_core::time::Time;

use super::{ErrorProcess, Frame};

/// Independent losses with a rate that is a function of time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedLoss {
    /// From when on packets are lost with which probability, in the order of time; before the first nothing is lost.
    pub rates: Arc<[(Time, f64)]>,
}

/// The model at work.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    rates: Arc<[(Time, f64)]>,
    /// Rates that have come into force.
    begun: usize,
    stream: Stream,
}

impl Steps {
    pub(super) fn new(plan: TimedLoss, stream: Stream) -> Steps {
        Steps { rates: plan.rates, begun: 0, stream }
    }
}

impl ErrorProcess for Steps {
    fn corrupts(&mut self, frame: &Frame) -> bool {
        while self.rates.get(self.begun).is_some_and(|&(from, _)| from <= frame.end) {
            self.begun += 1;
        }
        let rate = self.begun.checked_sub(1).map_or(0.0, |index| self.rates[index].1);
        self.stream.uniform() < rate
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::frame;
    use super::*;

    #[test]
    fn each_time_has_its_rate() {
        let rates = Arc::new([(Time(100), 1.0), (Time(200), 0.0), (Time(300), 1.0)]);
        let mut steps = Steps::new(TimedLoss { rates }, Stream::new(1, "errors"));
        let lost: Vec<bool> =
            [0, 99, 100, 199, 200, 299, 300].map(|at| steps.corrupts(&frame(Time(at)))).into();
        assert_eq!(lost, [false, false, true, true, false, false, true]);
    }
}
