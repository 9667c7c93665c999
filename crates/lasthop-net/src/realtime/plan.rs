//! The definitions of the real-time measurements, as a scenario chooses them. Made by `lasthop-sim`.
//!
//! Tsaoussidis and others leave several points of their Algorithm 1 open; each is an option here, and its name is what
//! results show.

use lasthop_core::time::Span;
use lasthop_core::units::Rate;

/// All options, resolved for one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct RealtimePlan {
    /// A packet that comes later than this after its neighbour is delayed. Never zero.
    pub threshold: Span,
    /// The neighbour of a packet whose predecessor has not arrived.
    pub missing: Missing,
    /// Where packets arrive.
    pub arrival: ArrivalPoint,
    /// What becomes of packets that arrive again.
    pub duplicates: Duplicates,
    /// Which packets were sent.
    pub sent: SentCount,
    /// What the rate of delayed packets is over.
    pub delayed_over: DelayedOver,
    /// The x of the x % Application Success Percentages; 1 to 100, ascending, each once.
    pub success: Vec<u32>,
    /// The rate that a slot is compared with; `None` where there is none.
    pub target: Option<Rate>,
    /// Length of a slot. Never zero.
    pub slot: Span,
    /// Media that a player buffers before it starts.
    pub playout: Span,
    /// Media that it buffers before it goes on after a stall.
    pub rebuffer: Span,
}

/// An option: its variants and their names.
macro_rules! option {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// The names in scenarios and results; the first is the default.
            pub const NAMES: &'static [&'static str] = &[$($text),*];

            /// The option called `name`.
            pub fn named(name: &str) -> Option<$name> {
                match name {
                    $($text => Some($name::$variant),)*
                    _ => None,
                }
            }

            /// The name in scenarios and results.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }
    };
}

option! {
    /// The neighbour of a packet whose predecessor has not arrived.
    Missing {
        /// The highest packet below it that has arrived; without one it is timely.
        NextLower = "next-lower",
        /// None: its time was never set and reads as the start of the run.
        Literal = "literal",
        /// Whatever arrived last.
        LastArrival = "last-arrival",
    }
}

option! {
    /// Where packets arrive.
    ArrivalPoint {
        /// At the receiving transport, before it puts them in order.
        Transport = "transport",
        /// At the application: over a reliable transport in order.
        Application = "application",
    }
}

option! {
    /// What becomes of packets that arrive again.
    Duplicates {
        /// Only the first arrival counts.
        Ignored = "ignored",
        /// Each arrival counts, and is the time of the packet from then on.
        Counted = "counted",
    }
}

option! {
    /// Which packets were sent.
    SentCount {
        /// Those that left the sender at least once.
        Transmitted = "transmitted",
        /// Those and what still waits at the sender when the run ends.
        Generated = "generated",
    }
}

option! {
    /// What the rate of delayed packets is over.
    DelayedOver {
        /// Packets sent.
        Sent = "sent",
        /// Packets received.
        Received = "received",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_options() {
        assert!(Missing::NAMES.iter().all(|name| Missing::named(name).map(Missing::name) == Some(name)));
        assert_eq!(SentCount::named("generated"), Some(SentCount::Generated));
        assert_eq!(DelayedOver::named("neither"), None);
    }
}
