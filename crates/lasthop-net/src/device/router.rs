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
    pub(crate) path: usize,
    /// Whether the packet has only just been sent.
    pub(crate) at_source: bool,
    /// The place from which it goes on, by the path in force; `None` where there is no way.
    pub(crate) onward: Vec<Option<u32>>,
}

/// The router of one flow.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    /// When which path comes into force, and what becomes of packets on others.
    changes: Vec<(Time, usize, UnderWay)>,
    /// This many changes have come.
    passed: usize,
    /// The path in force, and what becomes of packets on others.
    path: usize,
    under_way: UnderWay,
    /// Packets that a host has left behind come back here.
    pub(crate) turns: bool,
    stops: Vec<Stop>,
}

impl Router {
    pub(crate) fn new(changes: Vec<(Time, usize, UnderWay)>, turns: bool) -> Router {
        Router { changes, passed: 0, path: 0, under_way: UnderWay::Divert, turns, stops: Vec::new() }
    }

    /// Its ports, in order.
    pub(crate) fn set_stops(&mut self, stops: Vec<Stop>) {
        self.stops = stops;
    }

    /// Puts the path into force that is due.
    fn advance(&mut self, now: Time) {
        while let Some(&(at, path, under_way)) = self.changes.get(self.passed)
            && at <= now
        {
            (self.path, self.under_way) = (path, under_way);
            self.passed += 1;
        }
    }
}

impl Element for Router {
    fn receive(&mut self, parcel: Parcel, port: u32, cx: &mut Cx<'_>) {
        self.advance(cx.now);
        let stop = &self.stops[port as usize];
        let lost = stop.path != self.path && !stop.at_source && self.under_way == UnderWay::Lose;
        match stop.onward[self.path].filter(|_| !lost) {
            Some(hop) => cx.effects.push(Effect::Divert { parcel, hop, at: cx.now }),
            None => cx.drop(parcel, Cause::RouteChanged),
        }
    }
}
