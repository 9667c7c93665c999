//! Routes that change while the run goes on: one router per flow that changes its path, with a port at every node at
//! which the flow may turn.
//!
//! `network/reroute.rs` builds it. Packets reach a port when they reach a node, in the order of the clock, and go on by
//! the path that is in force then. Those that the change finds at a node of the old path are diverted, from where they
//! stand, or lost, as the plan says; those that stand at the source, or before the old and the new path part, have
//! nothing to notice.

use lasthop_core::packet::Cause;
use lasthop_core::time::Time;

use super::{Cx, Effect, Element, Parcel};
use crate::plan::UnderWay;

/// A node at which a flow may turn, on one of its paths.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    /// The path that the stop lies on: 0 is the first.
    pub(crate) epoch: usize,
    /// Whether the packet has only just been sent.
    pub(crate) at_source: bool,
    /// The place from which it goes on, by the path in force; `None` where there is no way.
    pub(crate) onward: Vec<Option<u32>>,
}

/// The router of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    /// When each path but the first comes into force, and what becomes of packets on the one before.
    changes: Vec<(Time, UnderWay)>,
    /// The path in force.
    epoch: usize,
    stops: Vec<Stop>,
}

impl Router {
    pub(crate) fn new(changes: Vec<(Time, UnderWay)>) -> Router {
        Router { changes, epoch: 0, stops: Vec::new() }
    }

    /// Its ports, in order.
    pub(crate) fn set_stops(&mut self, stops: Vec<Stop>) {
        self.stops = stops;
    }

    /// When the next path comes into force.
    pub(crate) fn next_change(&self) -> Option<Time> {
        self.changes.get(self.epoch).map(|&(at, _)| at)
    }

    /// Puts the path into force that is due.
    fn advance(&mut self, now: Time) {
        while self.next_change().is_some_and(|at| at <= now) {
            self.epoch += 1;
        }
    }
}

impl Element for Router {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        self.advance(cx.now);
        let stop = &self.stops[port as usize];
        let lost =
            stop.epoch != self.epoch && !stop.at_source && self.changes[self.epoch - 1].1 == UnderWay::Lose;
        match stop.onward[self.epoch].filter(|_| !lost) {
            Some(hop) => cx.effects.push(Effect::Divert { parcel, hop, at: cx.now }),
            None => cx.drop(parcel, Cause::RouteChanged),
        }
    }
}
