//! Which rate the next attempt uses: fixed, ARF, by statistics in the manner of Minstrel; among modes of 802.11n and
//! later Minstrel-HT (`minstrel_ht.rs`), or the best by the signal of the last answer.
//!
//! The medium keeps one `RateChoice` per pair of station and neighbour, asks it before every attempt, and tells it
//! how each ended. To add one: a file or a state here with `impl RateAdaptation`, a line in `choices!`, and its keys.

use std::sync::Arc;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::errors::ErrorTable;
use super::minstrel_ht::{MinstrelHt, MinstrelHtPlan};
use super::mode::Mode;

/// What an aggregate is sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Take {
    /// Index of the mode.
    pub(crate) rate: usize,
    /// It has a single MPDU.
    pub(crate) alone: bool,
    /// An RTS goes before it.
    pub(crate) shielded: bool,
}

/// Chooses among the rates of a PHY, given as indices from 0 (slow) to the last (fast).
pub(crate) trait RateAdaptation {
    /// The rate of attempt number `attempt` at a frame, 0 for the first.
    fn rate(&mut self, attempt: u32, now: Time) -> usize;

    /// An attempt at `rate` was acknowledged, or not.
    fn report(&mut self, rate: usize, acknowledged: bool, now: Time);

    /// What the next aggregate is sent with; its oldest MPDU has been sent `tries` times.
    fn take(&mut self, tries: u32, now: Time) -> Take {
        Take { rate: self.rate(tries, now), alone: false, shielded: false }
    }

    /// How many of the MPDUs sent at `rate` arrived, as an answer said, or that no answer came.
    fn report_burst(&mut self, rate: usize, (sent, arrived): (u32, u32), (_answered, now): (bool, Time)) {
        for number in 0..sent {
            self.report(rate, number < arrived, now);
        }
    }
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
    /// Minstrel-HT, among modes.
    MinstrelHt(MinstrelHtPlan),
    /// The mode of most goodput at the signal of the last answer; the first before there is one.
    Ideal,
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
    /// Time between two evaluations.
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

/// The best mode by the signal of the last answer.
#[derive(Clone, Debug)]
pub(crate) struct Ideal {
    /// By tenths of a decibel from [`LEAST_DB`] on.
    best: Arc<[u16]>,
    /// Index of the first mode.
    first: usize,
    present: usize,
}

const LEAST_DB: i32 = -15;
const MOST_DB: i32 = 60;
/// The MPDU by which modes are compared: that of a packet of 1500 B.
const USUAL_MPDU: u32 = 1_538;

impl Ideal {
    /// Among these modes, the first of which has this index, with losses by this table.
    pub(crate) fn new((first, modes): (usize, &[Mode]), table: &ErrorTable) -> Ideal {
        let goodput = |mode: Mode, decibels: f64| {
            mode.rate().0 as f64 * (1.0 - table.loss_of_mode(mode, USUAL_MPDU, decibels))
        };
        let best = (10 * LEAST_DB..=10 * MOST_DB).map(|tenths| {
            let decibels = f64::from(tenths) / 10.0;
            let mut best = (0, goodput(modes[0], decibels));
            for (&mode, index) in modes.iter().zip(0..) {
                let reached = goodput(mode, decibels);
                if reached > best.1 {
                    best = (index, reached);
                }
            }
            best.0
        });
        Ideal { best: best.collect(), first, present: first }
    }

    /// An answer was read, with its level in dB above the noise of 20 MHz.
    pub(crate) fn hear(&mut self, decibels: f64) {
        let place = (10.0 * (decibels - f64::from(LEAST_DB))).clamp(0.0, (self.best.len() - 1) as f64);
        self.present = self.first + usize::from(self.best[place as usize]);
    }
}

impl RateAdaptation for Ideal {
    fn rate(&mut self, _attempt: u32, _now: Time) -> usize {
        self.present
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

            fn take(&mut self, tries: u32, now: Time) -> Take {
                match self {
                    $(RateChoice::$name(choice) => choice.take(tries, now),)*
                }
            }

            fn report_burst(&mut self, rate: usize, counts: (u32, u32), when: (bool, Time)) {
                match self {
                    $(RateChoice::$name(choice) => choice.report_burst(rate, counts, when),)*
                }
            }
        }
    };
}

choices! {
    Constant(Constant),
    Fallback(Fallback),
    Statistics(Box<Statistics>),
    MinstrelHt(Box<MinstrelHt>),
    Ideal(Ideal),
}

impl<T: RateAdaptation> RateAdaptation for Box<T> {
    fn rate(&mut self, attempt: u32, now: Time) -> usize {
        (**self).rate(attempt, now)
    }

    fn report(&mut self, rate: usize, acknowledged: bool, now: Time) {
        (**self).report(rate, acknowledged, now);
    }

    fn take(&mut self, tries: u32, now: Time) -> Take {
        (**self).take(tries, now)
    }

    fn report_burst(&mut self, rate: usize, counts: (u32, u32), when: (bool, Time)) {
        (**self).report_burst(rate, counts, when);
    }
}

/// What there is to choose from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choices<'a> {
    /// Indices of rates, ascending, with the time that a full frame takes at each.
    pub(crate) rates: &'a [(usize, Span)],
    /// Modes, from 802.11n on, and the index of the first.
    pub(crate) modes: &'a [Mode],
    pub(crate) first: usize,
    /// What noise does to them, if there is any.
    pub(crate) table: Option<&'a ErrorTable>,
}

impl RateChoice {
    /// The choice of a plan; `name` and `seed` key its random numbers. Among rates it starts at the fastest, among
    /// modes at the slowest.
    pub(crate) fn new(plan: &RatePlan, choices: Choices<'_>, (name, seed): (&str, u64)) -> RateChoice {
        let Choices { rates, modes, first, table } = choices;
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
            RatePlan::MinstrelHt(plan) => {
                let mut stream = Stream::new(seed, &format!("rate samples of {name}"));
                RateChoice::MinstrelHt(Box::new(MinstrelHt::new(plan, (first, modes), &mut stream)))
            }
            // Without noise all modes are as good as any: the fastest.
            RatePlan::Ideal => table.map_or(RateChoice::Constant(Constant(last)), |table| {
                RateChoice::Ideal(Ideal::new((first, modes), table))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [(usize, Span); 4] =
        [(0, Span(8_000_000)), (1, Span(4_000_000)), (2, Span(1_700_000)), (3, Span(1_000_000))];
    const CHOICES: Choices<'_> = Choices { rates: &RATES, modes: &[], first: 0, table: None };

    /// Two failures take a rate down, ten acknowledgements up, and a failure right after going up takes it down again.
    #[test]
    fn arf_follows_runs_of_luck() {
        let plan = RatePlan::Arf(Arf { up_after: 10, down_after: 2 });
        let mut choice = RateChoice::new(&plan, CHOICES, ("a", 1));
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
        let mut choice = RateChoice::new(&RatePlan::Minstrel(plan), CHOICES, ("a", 1));
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

    /// Just above the point where MCS 7 loses a tenth (23.794 dB at 20 MHz) it is better than MCS 6, and at 10 dB
    /// MCS 2 is the best, as MCS 3 needs 13.5.
    #[test]
    fn the_ideal_follows_the_signal() {
        use crate::device::wlan::mode::Format;
        use crate::device::wlan::phy::Phy;
        let modes: Vec<Mode> =
            (0..8).map(|mcs| Mode::new(Format::Ht, (20, 800), (1, mcs)).unwrap()).collect();
        let table = ErrorTable::new(Phy::named("802.11n").unwrap());
        let mut ideal = Ideal::new((0, &modes), &table);
        let mut at = |decibels: f64| {
            ideal.hear(decibels);
            ideal.rate(0, Time::ZERO)
        };
        assert_eq!([at(-10.0), at(4.5), at(10.2), at(17.0), at(24.0), at(100.0)], [0, 0, 2, 4, 7, 7]);
    }
}
