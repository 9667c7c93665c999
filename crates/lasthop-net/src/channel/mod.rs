//! What the air does to packets: error models, and the times at which a link is down.
//!
//! A link owns one [`Air`] per direction and asks it about every packet, with the time and the size. To add an error
//! model: write `channel/<name>.rs` (what a plan says of it, its state, `impl ErrorProcess`, tests), add its line to
//! `channels!` below, and its keys to the scenario (`lasthop-sim/src/scenario/keys.rs` and `error.rs`). Where on the
//! link a model sits is one key for all of them and no concern of theirs.

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

pub use ber::BitErrorRate;
pub use bernoulli::Bernoulli;
pub use gilbert_elliott::{GilbertElliott, GilbertElliottTime, StateErrors};
pub use list::List;
pub(crate) use outage::OutageCursor;
pub use periodic::Periodic;
pub use timed::TimedLoss;
pub use two_state::{TwoState, TwoStatePackets};

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
}

/// Makes the two enums of error models from one line each: `Name, state`.
macro_rules! channels {
    ($($name:ident => $state:ty),* $(,)?) => {
        /// What loses packets on a link.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ErrorModel {
            /// Nothing.
            None,
            $(
                #[doc = concat!("See [`", stringify!($name), "`].")]
                $name($name),
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
        }
    };
}

channels! {
    Bernoulli => bernoulli::Coin,
    List => list::Listed,
    Periodic => periodic::Comb,
    BitErrorRate => ber::Bits,
    TwoState => two_state::Bursts,
    TwoStatePackets => two_state::PacketBursts,
    GilbertElliott => gilbert_elliott::Chain,
    GilbertElliottTime => gilbert_elliott::TimedChain,
    TimedLoss => timed::Steps,
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

    /// Share of lost packets, and the mean number of them in a row, among so many that follow one another.
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
