//! What the air does to packets: error models, and the times at which a link is down.
//!
//! A link owns one [`Air`] per direction and asks it about every packet, with the time and the size. To add an error
//! model: write `channel/<name>.rs` (what a plan says of it, its state, `impl ErrorProcess`, tests), add its line to
//! `channels!` below, and its keys to the scenario (`lasthop-sim/src/scenario/keys.rs` and `link.rs`). Where on the
//! link a model sits is one key for all of them and no concern of theirs.

mod bernoulli;
mod list;
mod outage;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

pub use bernoulli::Bernoulli;
pub use list::List;
pub(crate) use outage::OutageCursor;

use crate::plan::{Direction, ErrorPosition, OutagePolicy};

/// A model of errors in one direction of a link.
pub(crate) trait ErrorProcess {
    /// Whether the next packet, of `bytes`, is lost. `at` is when the model sees it: the end of its transmission, or
    /// its arrival where the model sits before the queue. Calls come in the order of `at`.
    fn corrupts(&mut self, at: Time, bytes: u32) -> bool;
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

            fn corrupts(&mut self, at: Time, bytes: u32) -> bool {
                match self {
                    Errors::None => false,
                    $(Errors::$name(model) => model.corrupts(at, bytes),)*
                }
            }
        }
    };
}

channels! {
    Bernoulli => bernoulli::Coin,
    List => list::Listed,
}

/// What happens to packets in the air of one direction: losses and outages.
#[derive(Clone, Debug)]
pub(crate) struct Air {
    errors: Errors,
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
            position: plan.error_position,
            policy: plan.outages.policy,
            arrivals: cursor.clone(),
            served: cursor,
            flushed: None,
        }))
    }

    /// Judges the next packet if the model sits at `position`.
    pub(crate) fn corrupts(&mut self, position: ErrorPosition, at: Time, bytes: u32) -> bool {
        self.position == position && self.errors.corrupts(at, bytes)
    }
}
