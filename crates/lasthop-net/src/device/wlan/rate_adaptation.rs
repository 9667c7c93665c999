//! Which rate the next attempt uses: fixed, ARF, or by statistics in the manner of Minstrel.
//!
//! The medium keeps one [`RateChoice`] per pair of station and neighbour, asks it before every attempt, and tells it
//! how each ended. To add one: a file or a state here with `impl RateAdaptation`, a line in `choices!`, and its keys.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

/// Chooses among the rates of a PHY, given as indices from 0 (slow) to the last (fast).
pub(crate) trait RateAdaptation {
    /// The rate of attempt number `attempt` at a frame, 0 for the first.
    fn rate(&mut self, attempt: u32, now: Time) -> usize;

    /// An attempt at `rate` was acknowledged, or not.
    fn report(&mut self, rate: usize, acknowledged: bool, now: Time);
}

/// How a station chooses its rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RatePlan {
    /// Always the one with this index.
    Fixed(usize),
    /// See [`Arf`].
    Arf(Arf),
    /// See [`Minstrel`].
    Minstrel(Minstrel),
}

/// Auto Rate Fallback (Kamerman and Monteban, *WaveLAN-II*, 1997): up after this many acknowledgements in a row
/// or a time without trying, down after two failures in a row, and at once if the first frame at a new rate
/// fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arf {
    /// Acknowledgements in a row after which it goes up.
    pub up_after: u32,
    /// Failures in a row after which it goes down.
    pub down_after: u32,
}

/// Statistics of every rate, and a share of frames that tries others: in the manner of Minstrel of the Linux kernel, as
/// its documentation describes it. Every interval the probability of success of each rate is averaged; the rate of most
/// throughput goes first, then the second, then the most reliable, then the slowest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Minstrel {
    /// Between two evaluations.
    pub interval: Span,
    /// Weight of the past in the average, in 0..1.
    pub weight: f64,
    /// Share of frames that try another rate: a faster one first, a slower one second.
    pub sampling: f64,
}

/// Always the same.
#[derive(Clone, Debug)]
pub(crate) struct Constant(usize);

impl RateAdaptation for Constant {
    fn rate(&mut self, _attempt: u32, _now: Time) -> usize {
        self.0
    }

    fn report(&mut self, _rate: usize, _acknowledged: bool, _now: Time) {}
}

/// The state of ARF.
#[derive(Clone, Debug)]
pub(crate) struct Fallback {
    plan: Arf,
    rates: Vec<usize>,
    /// Index into `rates`.
    present: usize,
    acknowledged: u32,
    failed: u32,
    /// The next attempt is the first at a higher rate.
    probing: bool,
}

impl RateAdaptation for Fallback {
    fn rate(&mut self, _attempt: u32, _now: Time) -> usize {
        self.rates[self.present]
    }

    fn report(&mut self, _rate: usize, acknowledged: bool, _now: Time) {
        let probing = std::mem::replace(&mut self.probing, false);
        if acknowledged {
            self.failed = 0;
            self.acknowledged += 1;
            if self.acknowledged >= self.plan.up_after && self.present + 1 < self.rates.len() {
                self.present += 1;
                self.acknowledged = 0;
                self.probing = true;
            }
            return;
        }
        self.acknowledged = 0;
        self.failed += 1;
        if (probing || self.failed >= self.plan.down_after) && self.present > 0 {
            self.present -= 1;
            self.failed = 0;
        }
    }
}

/// What Minstrel stores about a rate.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    attempts: u32,
    successes: u32,
    /// Averaged probability of success; `None` before the first sample.
    probability: Option<f64>,
}

/// The state of Minstrel.
#[derive(Clone, Debug)]
pub(crate) struct Statistics {
    plan: Minstrel,
    rates: Vec<usize>,
    /// Frames per second of each rate if nothing is lost.
    speeds: Vec<f64>,
    known: Vec<Known>,
    /// Positions in `rates` of the best throughput, the second, and the best probability.
    chain: [usize; 3],
    evaluated: Time,
    /// The rate that the present frame tries first, if it is a sample.
    sample: Option<usize>,
    stream: Stream,
}

impl Statistics {
    fn evaluate(&mut self, now: Time) {
        self.evaluated = now;
        for known in &mut self.known {
            if known.attempts > 0 {
                let fresh = f64::from(known.successes) / f64::from(known.attempts);
                let weight = self.plan.weight;
                known.probability =
                    Some(known.probability.map_or(fresh, |old| old * weight + fresh * (1.0 - weight)));
            }
            (known.attempts, known.successes) = (0, 0);
        }
        let throughput = |place: usize| {
            // Below one in ten a rate is of no use, whatever it would carry.
            let probability = self.known[place].probability.unwrap_or(0.0);
            if probability < 0.1 { 0.0 } else { probability * self.speeds[place] }
        };
        let best = |except: usize| {
            (0..self.rates.len())
                .filter(|&place| place != except)
                .max_by(|&one, &other| throughput(one).total_cmp(&throughput(other)))
                .unwrap_or(0)
        };
        let first = best(usize::MAX);
        let reliable = (0..self.rates.len())
            .max_by(|&one, &other| {
                let of = |place: usize| self.known[place].probability.unwrap_or(0.0);
                of(one).total_cmp(&of(other))
            })
            .unwrap_or(0);
        self.chain = [first, best(first), reliable];
    }
}

impl RateAdaptation for Statistics {
    fn rate(&mut self, attempt: u32, now: Time) -> usize {
        if attempt == 0 {
            if now.since(self.evaluated) >= self.plan.interval {
                self.evaluate(now);
            }
            let sampled = self.stream.uniform() < self.plan.sampling;
            let other = self.stream.below(self.rates.len() as u64) as usize;
            self.sample = (sampled && other != self.chain[0]).then_some(other);
        }
        // Two attempts each, as most drivers configure it. A faster rate is tried first, a slower one only if the best
        // has failed.
        let faster = |sample: usize| self.speeds[sample] > self.speeds[self.chain[0]];
        let place = match (attempt, self.sample) {
            (0, Some(sample)) if faster(sample) => sample,
            (1, Some(sample)) if !faster(sample) => sample,
            (0 | 1, _) => self.chain[0],
            (2 | 3, _) => self.chain[1],
            (4 | 5, _) => self.chain[2],
            _ => 0,
        };
        self.rates[place]
    }

    fn report(&mut self, rate: usize, acknowledged: bool, _now: Time) {
        if let Some(place) = self.rates.iter().position(|&known| known == rate) {
            self.known[place].attempts += 1;
            self.known[place].successes += u32::from(acknowledged);
        }
    }
}

/// Makes the enum of all choices and its dispatch.
macro_rules! choices {
    ($($name:ident($state:ty)),* $(,)?) => {
        /// A choice at work.
        #[derive(Clone, Debug)]
        pub(crate) enum RateChoice {
            $($name($state),)*
        }

        impl RateAdaptation for RateChoice {
            fn rate(&mut self, attempt: u32, now: Time) -> usize {
                match self {
                    $(RateChoice::$name(choice) => choice.rate(attempt, now),)*
                }
            }

            fn report(&mut self, rate: usize, acknowledged: bool, now: Time) {
                match self {
                    $(RateChoice::$name(choice) => choice.report(rate, acknowledged, now),)*
                }
            }
        }
    };
}

choices! {
    Constant(Constant),
    Fallback(Fallback),
    Statistics(Box<Statistics>),
}

impl RateAdaptation for Box<Statistics> {
    fn rate(&mut self, attempt: u32, now: Time) -> usize {
        (**self).rate(attempt, now)
    }

    fn report(&mut self, rate: usize, acknowledged: bool, now: Time) {
        (**self).report(rate, acknowledged, now);
    }
}

impl RateChoice {
    /// The choice of a plan among `rates`, ascending, with the time that a full frame takes at each; `name` and `seed`
    /// key its random numbers. It starts at the fastest.
    pub(crate) fn new(plan: &RatePlan, rates: &[(usize, Span)], (name, seed): (&str, u64)) -> RateChoice {
        let indices = || rates.iter().map(|&(rate, _)| rate).collect::<Vec<_>>();
        let last = rates.len().saturating_sub(1);
        match *plan {
            RatePlan::Fixed(rate) => RateChoice::Constant(Constant(rate)),
            RatePlan::Arf(plan) => RateChoice::Fallback(Fallback {
                plan,
                rates: indices(),
                present: last,
                acknowledged: 0,
                failed: 0,
                probing: false,
            }),
            RatePlan::Minstrel(plan) => RateChoice::Statistics(Box::new(Statistics {
                plan,
                rates: indices(),
                speeds: rates.iter().map(|(_, airtime)| 1.0 / airtime.seconds()).collect(),
                known: vec![Known::default(); rates.len()],
                chain: [last, last.saturating_sub(1), 0],
                evaluated: Time::ZERO,
                sample: None,
                stream: Stream::new(seed, &format!("rate samples of {name}")),
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [(usize, Span); 4] =
        [(0, Span(8_000_000)), (1, Span(4_000_000)), (2, Span(1_700_000)), (3, Span(1_000_000))];

    /// Two failures take a rate down, ten acknowledgements up, and a failure right after going up takes it down again.
    #[test]
    fn arf_follows_runs_of_luck() {
        let plan = RatePlan::Arf(Arf { up_after: 10, down_after: 2 });
        let mut choice = RateChoice::new(&plan, &RATES, ("a", 1));
        let mut told = |outcomes: &[bool]| {
            for &outcome in outcomes {
                let rate = choice.rate(0, Time::ZERO);
                choice.report(rate, outcome, Time::ZERO);
            }
            choice.rate(0, Time::ZERO)
        };
        assert_eq!(told(&[]), 3);
        assert_eq!(told(&[false]), 3);
        assert_eq!(told(&[false]), 2);
        assert_eq!(told(&[true; 9]), 2);
        assert_eq!(told(&[true]), 3);
        assert_eq!(told(&[false]), 2, "the first at a new rate");
        assert_eq!(told(&[false, true, false, true, false]), 2);
        assert_eq!(told(&[false; 8]), 0);
        assert_eq!(told(&[false; 8]), 0);
    }

    /// The fastest rate fails always, the next half the time, the two slow ones never: half of 1 / 1.7 ms is more than
    /// 1 / 4 ms.
    #[test]
    fn minstrel_finds_the_rate_of_most_throughput() {
        let plan = Minstrel { interval: Span::from_millis(100), weight: 0.75, sampling: 0.1 };
        let mut choice = RateChoice::new(&RatePlan::Minstrel(plan), &RATES, ("a", 1));
        let mut luck = Stream::new(1, "luck");
        let mut used = [0; 4];
        for frame in 0..5_000_u64 {
            let now = Time(frame * 2_000_000);
            for attempt in 0..7 {
                let rate = choice.rate(attempt, now);
                let acknowledged = luck.uniform() < [1.0, 1.0, 0.5, 0.0][rate];
                choice.report(rate, acknowledged, now);
                if attempt == 0 && frame > 1_000 {
                    used[rate] += 1;
                }
                if acknowledged {
                    break;
                }
            }
        }
        assert!(used[2] > 3_500, "{used:?}");
    }
}
