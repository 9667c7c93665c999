//! When flows start: at a time, at random, or one after another.
//!
//! The world, and the driver of real sockets, ask for the starts of all flows of a plan at once: an arrival depends on
//! those before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use crate::plan::FlowPlan;

/// When a flow starts.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// At this time.
    At(Time),
    /// Uniformly in `[from, to)`, drawn from the flow's own stream.
    Uniform(Time, Time),
    /// A gap after the flow before it that has the same arrivals.
    After(Arc<Arrivals>),
}

/// Flows that arrive one after another.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    /// Name of their random stream; of several with one name the later ones have a number too.
    pub name: String,
    /// When the first gap begins.
    pub from: Time,
    /// How they follow each other.
    pub spacing: Spacing,
}

/// How arrivals follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spacing {
    /// By gaps of this length in seconds, the first at once.
    Equal(f64),
    /// By gaps of exponential length with this mean in seconds, the first after one: a Poisson process.
    Exponential(f64),
    /// A Poisson process that is interrupted: on and off in turn, for times of exponential length.
    OnOff {
        /// Mean gap while it is on, in seconds.
        gap: f64,
        /// Mean length of a time in which it is on, in seconds.
        on: f64,
        /// The same of the times between them.
        off: f64,
    },
    /// A Poisson process that has `count` arrivals before `end`: they are uniform there, in order.
    Uniform {
        /// Number of arrivals.
        count: u64,
        /// No flow arrives at this time or later.
        end: Time,
    },
}

impl Start {
    /// The earliest time at which the flow may start.
    pub fn earliest(&self) -> Time {
        match self {
            Start::At(time) | Start::Uniform(time, _) => *time,
            Start::After(arrivals) => arrivals.from,
        }
    }
}

/// When each flow of a plan starts in a run with this seed, in the order of the flows.
pub fn starts(flows: &[FlowPlan], seed: u64) -> Vec<Time> {
    let mut processes: BTreeMap<*const Arrivals, Process> = BTreeMap::new();
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    let mut starts = Vec::with_capacity(flows.len());
    for flow in flows {
        starts.push(match &flow.start {
            Start::At(time) => *time,
            Start::Uniform(from, to) => {
                let mut stream = Stream::new(seed, &format!("start of {}", flow.name));
                *from + Span(stream.below(to.since(*from).0))
            }
            Start::After(arrivals) => {
                let process = processes.entry(Arc::as_ptr(arrivals)).or_insert_with(|| {
                    let before = named.entry(&arrivals.name).or_default();
                    *before += 1;
                    Process::new(arrivals, *before, seed)
                });
                process.next()
            }
        });
    }
    starts
}

/// A stream of arrivals so far.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    stream: Stream,
    arrivals: Arrivals,
    /// How many came.
    number: u64,
    /// Seconds from `from` to the last of them.
    elapsed: f64,
    /// Seconds that the process stays on.
    left: f64,
}

impl Process {
    fn new(arrivals: &Arrivals, number: usize, seed: u64) -> Process {
        let stream = match number {
            1 => Stream::new(seed, &format!("arrivals of {}", arrivals.name)),
            _ => Stream::new(seed, &format!("arrivals of {} ({number})", arrivals.name)),
        };
        Process { stream, arrivals: arrivals.clone(), number: 0, elapsed: 0.0, left: 0.0 }
    }

    /// That of the flow at `index`, of its own.
    pub(crate) fn of(flows: &[FlowPlan], index: usize, seed: u64) -> Option<Process> {
        let after = |flow: &FlowPlan| {
            if let Start::After(arrivals) = &flow.start { Some(Arc::clone(arrivals)) } else { None }
        };
        let own = after(&flows[index])?;
        let mut namesakes: Vec<_> = flows[..index].iter().filter_map(after).collect();
        namesakes.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let before = namesakes.iter().filter(|other| other.name == own.name).count();
        Some(Process::new(&own, before + 1, seed))
    }

    /// When the next flow arrives.
    pub(crate) fn next(&mut self) -> Time {
        let from = self.arrivals.from;
        match self.arrivals.spacing {
            Spacing::Equal(gap) => self.elapsed = gap * self.number as f64,
            Spacing::Exponential(mean) => self.elapsed += self.stream.exponential(mean),
            Spacing::OnOff { gap, on, off } => {
                if self.number == 0 {
                    let begins_off = self.stream.uniform() * (on + off) >= on;
                    self.elapsed = if begins_off { self.stream.exponential(off) } else { 0.0 };
                    self.left = self.stream.exponential(on);
                }
                let mut wait = self.stream.exponential(gap);
                while wait >= self.left {
                    wait -= self.left;
                    self.elapsed += self.left + self.stream.exponential(off);
                    self.left = self.stream.exponential(on);
                }
                self.elapsed += wait;
                self.left -= wait;
            }
            Spacing::Uniform { count, end } => {
                // The least of the uniform variables that are left, in what is left of the time.
                let least = 1.0 - libm::pow(1.0 - self.stream.uniform(), 1.0 / (count - self.number) as f64);
                self.elapsed += (end.since(from).seconds() - self.elapsed) * least;
            }
        }
        self.number += 1;
        from + Span::from_seconds(self.elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::transfer;

    const EXPONENTIAL: Spacing = Spacing::Exponential(0.05);

    fn arriving(name: &str, spacing: Spacing, count: usize) -> Vec<FlowPlan> {
        let from = Time::ZERO + Span::from_secs(1);
        let arrivals = Arc::new(Arrivals { name: name.to_owned(), from, spacing });
        let flow = FlowPlan { start: Start::After(arrivals), ..transfer(0, 1) };
        vec![flow; count]
    }

    #[test]
    fn equal_gaps() {
        let millis = |at| Time::ZERO + Span::from_millis(at);
        assert_eq!(starts(&arriving("web", Spacing::Equal(0.05), 3), 1), [1000, 1050, 1100].map(millis));
    }

    /// Gaps of a Poisson process: exponential (Kolmogorov and Smirnov), and as many in any second as the rate says
    /// (their variance is their mean). With a given number of arrivals too, all of which then come in time.
    #[test]
    fn a_poisson_process() {
        let end = Time::ZERO + Span::from_secs(1001);
        for (seed, spacing) in
            (1..=5).flat_map(|seed| [(seed, EXPONENTIAL), (seed, Spacing::Uniform { count: 20_000, end })])
        {
            let times = starts(&arriving("web", spacing, 20_000), seed);
            assert!(spacing == EXPONENTIAL || times.iter().all(|&time| time < end));
            assert!(times.is_sorted());
            let mut gaps: Vec<f64> = times.windows(2).map(|pair| pair[1].since(pair[0]).seconds()).collect();
            gaps.sort_by(f64::total_cmp);
            let number = gaps.len() as f64;
            let distance = gaps.iter().zip(0..).fold(0.0_f64, |most, (gap, rank)| {
                most.max((1.0 - (-gap / 0.05).exp() - f64::from(rank) / number).abs())
            });
            assert!(distance < 1.63 / number.sqrt(), "seed {seed}, {spacing:?}: {distance}");
            let mut counts = vec![0.0_f64; 900];
            for time in &times {
                if let Some(count) = counts.get_mut(time.seconds() as usize - 1) {
                    *count += 1.0;
                }
            }
            let mean = counts.iter().sum::<f64>() / 900.0;
            let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 899.0;
            assert!((mean - 20.0).abs() < 0.6, "seed {seed}, {spacing:?}: {mean}");
            assert!(
                (0.82..1.18).contains(&(variance / mean)),
                "seed {seed}, {spacing:?}: {variance} of {mean}"
            );
        }
    }

    /// An interrupted Poisson process has gaps as if drawn from one of two exponential distributions (Kuczura, *The
    /// interrupted Poisson process as an overflow process*, BSTJ 1973, eq. 2 to 4), here with 100 arrivals a second
    /// while it is on, for 0.2 s, and off for 0.8 s on average: 20 a second in all.
    #[test]
    fn a_process_that_is_interrupted() {
        let (rate, leave, enter) = (100.0_f64, 5.0_f64, 1.25_f64);
        let sum = rate + leave + enter;
        let root = (sum * sum - 4.0 * rate * enter).sqrt();
        let (fast, slow) = (0.5 * (sum + root), 0.5 * (sum - root));
        let share = (rate - slow) / (fast - slow);
        let mut second_halves = 0.0;
        for seed in 1..=5 {
            let spacing = Spacing::OnOff { gap: 0.01, on: 0.2, off: 0.8 };
            let times = starts(&arriving("web", spacing, 20_000), seed);
            assert!(times.is_sorted());
            let mut gaps: Vec<f64> = times.windows(2).map(|pair| pair[1].since(pair[0]).seconds()).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            assert!((mean * 20.0 - 1.0).abs() < 0.1, "seed {seed}: {mean}");
            // What it is between two arrivals says nothing of the next two.
            second_halves += gaps.iter().skip(1).step_by(2).sum::<f64>() / gaps.iter().sum::<f64>() / 5.0;
            gaps.sort_by(f64::total_cmp);
            let number = gaps.len() as f64;
            let distance = gaps.iter().zip(0..).fold(0.0_f64, |most, (gap, rank)| {
                let below = 1.0 - share * (-fast * gap).exp() - (1.0 - share) * (-slow * gap).exp();
                most.max((below - f64::from(rank) / number).abs())
            });
            assert!(distance < 1.63 / number.sqrt(), "seed {seed}: {distance}");
        }
        assert!((second_halves - 0.5).abs() < 0.02, "{second_halves}");
    }

    /// Another class leaves the arrivals of the first alone, wherever it stands in the file.
    #[test]
    fn classes_do_not_meet() {
        let alone = starts(&arriving("web", EXPONENTIAL, 10), 3);
        let mut both = arriving("mail", EXPONENTIAL, 5);
        both.extend(arriving("web", EXPONENTIAL, 10));
        assert_eq!(starts(&both, 3)[5..], alone);
        assert_ne!(starts(&both, 4)[5..], alone);
        let namesakes: Vec<FlowPlan> =
            [arriving("web", EXPONENTIAL, 10), arriving("web", EXPONENTIAL, 10)].concat();
        assert_eq!(starts(&namesakes, 3)[..10], alone);
        assert_ne!(starts(&namesakes, 3)[10..], alone);
    }
}
