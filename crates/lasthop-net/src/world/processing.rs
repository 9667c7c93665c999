//! The time that a sending host takes for a packet: random, so that packets of different hosts do not fall into step
//! (Floyd & Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways", 1992).
//!
//! Asked by the port of a sender for each packet, if the plan has such a time at all. Senders of the profile `ns2` keep
//! to that of ns-2 themselves (`transport/tcp/sender/processing.rs`).

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use crate::plan::{FlowPlan, Plan};
use crate::transport::endpoint::Endpoint;

/// The host of one flow's sender.
#[derive(Clone, Debug)]
pub(super) struct Processing {
    stream: Stream,
    longest: Span,
    /// When the last packet left.
    left: Time,
}

impl Processing {
    /// The hosts of all flows, those of `senders` that do not care for their time themselves; empty if they take none.
    pub(super) fn of(plan: &Plan, seed: u64, senders: &mut [Endpoint]) -> Vec<Option<Processing>> {
        let longest = plan.processing_time;
        if longest == Span::ZERO {
            return Vec::new();
        }
        let host =
            |(flow, sender): (&FlowPlan, &mut Endpoint)| Processing::new(&flow.name, seed, longest, sender);
        plan.flows.iter().zip(senders).map(host).collect()
    }

    /// The host of the flow of this name, unless its sender cares for the time itself.
    pub(super) fn new(flow: &str, seed: u64, longest: Span, sender: &mut Endpoint) -> Option<Processing> {
        let stream = Stream::new(seed, &format!("processing time of {flow}"));
        let own = sender.take_time(stream.clone(), longest);
        (!own).then_some(Processing { stream, longest, left: Time::ZERO })
    }

    /// When a packet leaves that is ready `now`: a uniform time later, and not before the last.
    pub(super) fn leave(&mut self, now: Time) -> Time {
        let span = Span(self.stream.below(self.longest.0));
        self.left = self.left.max(now + span);
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_late_and_in_order() {
        let longest = Span::from_millis(1);
        let mut host = Processing { stream: Stream::new(1, "host"), longest, left: Time::ZERO };
        let mut last = Time::ZERO;
        for ready in 0..1000u64 {
            let ready = Time::ZERO + Span(ready * 250_000);
            let leaves = host.leave(ready);
            assert!(leaves >= last && leaves >= ready && leaves < ready + longest, "{leaves:?}");
            last = leaves;
        }
    }
}
