//! What the air does to packets: error models, and the times at which a link is down.
//!
//! A link owns one `Air` per direction and asks it about every packet, with the time and the size. To add an error
//! model: write `channel/<name>.rs` (what a plan says of it, its state, `impl ErrorProcess`, tests), add its line to
//! `channels!` below, and its keys to the scenario (`lasthop-sim/src/scenario/error/<name>.rs`). Where on the link a
//! model sits is one key for all of them and no concern of theirs.

mod ber;
mod bernoulli;
mod gilbert_elliott;
mod list;
mod outage;
mod periodic;
mod sojourns;
mod timed;
mod two_state;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

pub use gilbert_elliott::StateErrors;
pub(crate) use outage::OutageCursor;

use crate::plan::{Direction, ErrorPosition, ErrorScope, OutagePolicy};

/// A packet as an error model sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// When its transmission begins and ends; twice the same instant where the model sits before the queue, or behind
    /// the link's retransmissions.
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) bytes: u32,
}

/// A model of errors in one direction of a link.
pub(crate) trait ErrorProcess {
    /// Whether the next packet is lost. Calls come in the order of time.
    fn corrupts(&mut self, frame: &Frame) -> bool;

    /// The share of packets of `bytes` that are lost in the long run, for the laws of studies; `None` where the model
    /// has no such number, or one that depends on what is sent.
    fn mean_loss(&self, bytes: u32) -> Option<f64> {
        let _ = bytes;
        None
    }
}

/// Makes the two enums of error models from one line each: `Name(plan) => state`.
macro_rules! channels {
    ($($name:ident($module:ident::$plan:ident) => $state:ty),* $(,)?) => {
        $(pub use $module::$plan;)*

        /// What loses packets on a link.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ErrorModel {
            /// Nothing.
            None,
            $(
                #[doc = concat!("See [`", stringify!($plan), "`].")]
                $name($plan),
            )*
        }

        /// The models at work.
        #[derive(Clone, Debug)]
        enum Errors {
            None,
            $($name($state),)*
        }

        impl Errors {
            /// The model of the direction called `name`; its random numbers are the direction's own.
            fn new(model: &ErrorModel, name: &str, seed: u64) -> Errors {
                match model {
                    ErrorModel::None => Errors::None,
                    $(ErrorModel::$name(plan) => {
                        let stream = Stream::new(seed, &format!("error model of {name}"));
                        Errors::$name(<$state>::new(plan.clone(), stream))
                    })*
                }
            }

            fn corrupts(&mut self, frame: &Frame) -> bool {
                match self {
                    Errors::None => false,
                    $(Errors::$name(model) => model.corrupts(frame),)*
                }
            }

            fn mean_loss(&self, bytes: u32) -> Option<f64> {
                match self {
                    Errors::None => Some(0.0),
                    $(Errors::$name(model) => model.mean_loss(bytes),)*
                }
            }
        }
    };
}

channels! {
    Bernoulli(bernoulli::Bernoulli) => bernoulli::Coin,
    List(list::List) => list::Listed,
    Periodic(periodic::Periodic) => periodic::Comb,
    BitErrorRate(ber::BitErrorRate) => ber::Bits,
    TwoState(two_state::TwoState) => two_state::Bursts,
    TwoStatePackets(two_state::TwoStatePackets) => two_state::PacketBursts,
    GilbertElliott(gilbert_elliott::GilbertElliott) => gilbert_elliott::Chain,
    GilbertElliottTime(gilbert_elliott::GilbertElliottTime) => gilbert_elliott::TimedChain,
    TimedLoss(timed::TimedLoss) => timed::Steps,
}

impl ErrorModel {
    /// The share of packets of `bytes` that it loses in the long run; `None` where that is not a number.
    pub fn mean_loss(&self, bytes: u32) -> Option<f64> {
        Errors::new(self, "", 0).mean_loss(bytes)
    }
}

/// What happens to packets in the air of one direction: losses and outages.
#[derive(Clone, Debug)]
pub(crate) struct Air {
    errors: Errors,
    scope: ErrorScope,
    pub(crate) position: ErrorPosition,
    pub(crate) policy: OutagePolicy,
    /// Outages as seen by arriving packets, and as seen by the transmitter: two clocks, each moving forward only.
    pub(crate) arrivals: OutageCursor,
    pub(crate) served: OutageCursor,
    /// Start of the last outage that emptied the queue.
    pub(crate) flushed: Option<Time>,
}

impl Air {
    /// `None` if nothing can happen to a packet on this link. `duration` bounds random outages.
    pub(crate) fn new(plan: &Direction, name: &str, seed: u64, duration: Span) -> Option<Box<Air>> {
        let errors = Errors::new(&plan.error, name, seed);
        let cursor = OutageCursor::new(&plan.outages.schedule, name, seed, duration);
        if matches!(errors, Errors::None) && cursor.all().is_empty() {
            return None;
        }
        Some(Box::new(Air {
            errors,
            scope: plan.error_scope,
            position: plan.error_position,
            policy: plan.outages.policy,
            arrivals: cursor.clone(),
            served: cursor,
            flushed: None,
        }))
    }

    /// Whether it only takes packets that have been transmitted, and changes nothing before.
    pub(crate) fn only_judges(&self) -> bool {
        self.position != ErrorPosition::BeforeQueue
            && (self.policy == OutagePolicy::DropAir || self.served.all().is_empty())
    }

    /// Judges the next packet if the model sits at `position` and is concerned with such a packet at all.
    pub(crate) fn corrupts(&mut self, position: ErrorPosition, frame: &Frame) -> bool {
        let ErrorScope { from, until, at_least } = self.scope;
        let concerned =
            self.position == position && (from..until).contains(&frame.end) && frame.bytes >= at_least;
        concerned && self.errors.corrupts(frame)
    }
}

/// What the tests of error models share.
#[cfg(test)]
mod testing {
    use super::*;

    /// A packet of 1000 B that takes no time.
    pub(super) fn frame(at: Time) -> Frame {
        Frame { start: at, end: at, bytes: 1000 }
    }

    /// Share of lost packets, and the mean number of them in a row, among this many that follow one another.
    pub(super) fn losses(mut model: impl ErrorProcess, packets: u64, each: Span) -> (f64, f64) {
        let (mut lost, mut runs, mut before) = (0u32, 0u32, false);
        for number in 0..packets {
            let start = Time::ZERO + each * number;
            let hit = model.corrupts(&Frame { start, end: start + each, bytes: 1000 });
            lost += u32::from(hit);
            runs += u32::from(hit && !before);
            before = hit;
        }
        (f64::from(lost) / packets as f64, f64::from(lost) / f64::from(runs))
    }
}

#[cfg(test)]
mod tests {
    use super::testing::frame;
    use super::*;

    /// What a model says that it loses in the long run is what it loses.
    #[test]
    fn mean_losses_are_those_of_the_models() {
        let (good, bad) = (Span::from_millis(40), Span::from_millis(10));
        let models = [
            ErrorModel::Bernoulli(Bernoulli { packet_error_rate: 0.05 }),
            ErrorModel::BitErrorRate(BitErrorRate { bit_error_rate: 1e-5, overhead: 24 }),
            ErrorModel::Periodic(Periodic { every: 20, first: 3, burst: 2 }),
            ErrorModel::GilbertElliott(GilbertElliott { to_bad: 0.05, to_good: 0.5, loss: [0.01, 0.8] }),
            ErrorModel::GilbertElliottTime(GilbertElliottTime {
                good,
                bad,
                errors: StateErrors::PerFrame([0.01, 0.6]),
            }),
            ErrorModel::TwoStatePackets(TwoStatePackets { good: 40.0, bad: 5.0, stationary: true }),
        ];
        for model in models {
            let mut errors = Errors::new(&model, "link", 1);
            let packets = 400_000u32;
            let lost =
                (0..packets).filter(|&k| errors.corrupts(&frame(Time(u64::from(k) * 1_000_000)))).count();
            let (seen, said) = (lost as f64 / f64::from(packets), model.mean_loss(1000).unwrap());
            assert!((seen / said - 1.0).abs() < 0.03, "{model:?}: {seen}, said {said}");
        }
        assert_eq!(ErrorModel::List(List { packets: vec![1] }).mean_loss(1000), None);
        assert_eq!(ErrorModel::None.mean_loss(1000), Some(0.0));
    }
}
