//! A world and what lies outside of it: packets that enter and leave, flows that join, and what becomes of
//! tickets.
//!
//! The driver of the world (real packets, the library's `Network`) calls these between steps.

use lasthop_cc::LossKind;
use lasthop_core::event::Target;
use lasthop_core::packet::Packet;
use lasthop_core::time::Time;

use super::{Sent, World, paths_of};
use crate::measure::{FlowStats, Observers};
use crate::network::{Next, event_kind};
use crate::plan::{Percentiles, Plan};
use crate::realtime::Realtime;
use crate::routing::DirectionId;
use crate::trace::Bins;
use crate::traffic::video::Packing;
use crate::traffic::{Demand, Offer, Source, stream_of};
use crate::transport::endpoint::Endpoint;
use crate::transport::extra::Extra;
pub use crate::transport::outside::End;
use crate::transport::outside::{Departure, Loss, Told};

/// What an application at an end outside the world does now; the driver of the world does it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The source of a flow is due: [`World::offer`].
    Write {
        /// The flow.
        flow: usize,
    },
    /// A client or its server hands over bytes.
    Exchange {
        /// The flow of the connection.
        flow: usize,
        /// The server is at the end that sends, the client at the other.
        by: End,
        /// Over which of the streams of the connection.
        stream: u32,
        /// How many.
        bytes: u64,
    },
}

impl World {
    /// Puts an end of `flow` outside of the world, before anything happened: what reaches it waits for
    /// [`World::depart`], and what it sends comes by [`World::inject`]. Meant for evaluation by the clock; with the
    /// other packets may leave ahead of it.
    pub fn open_end(&mut self, flow: usize, end: End) {
        let place = match end {
            End::Sender => &mut self.senders[flow],
            End::Receiver => &mut self.network.receivers[flow],
        };
        *place = Endpoint::Outside(None);
    }

    /// What is told of the sender of `flow`, to be filled in by its driver: summary and series have it. `None` if that
    /// sender does not lie outside.
    pub fn told_of(&mut self, flow: usize, percentiles: Percentiles) -> Option<&mut Told> {
        match &mut self.senders[flow] {
            Endpoint::Outside(told) => Some(told.get_or_insert_with(|| Box::new(Told::new(percentiles)))),
            _ => None,
        }
    }

    /// A packet from outside enters the path of `flow` now, at the end from which its direction starts.
    pub fn inject(&mut self, flow: usize, packet: Packet, extra: Option<Extra>) {
        self.inject_at(flow, packet, extra, self.now);
    }

    /// The same at a time that may lie ahead; one that has passed is now.
    pub fn inject_at(&mut self, flow: usize, packet: Packet, extra: Option<Extra>, at: Time) {
        let at = at.max(self.now);
        let sent = &mut self.sent[flow];
        if packet.is_forward() {
            sent.packets += u64::from(self.network.window.contains(at));
        }
        // Of a client's connections the first packet is the client's.
        if packet.is_forward() || self.exchanges.has(flow) {
            sent.first.get_or_insert(at);
        }
        self.network.inject(flow, packet, extra.as_ref(), at);
    }

    /// Remembers from now on what losses of `flow` are, to hold against them what its sender takes them for.
    pub fn keep_truths(&mut self, flow: usize) {
        self.network.keep_truths(flow);
    }

    /// The sender of `flow` takes the loss of one of the packets that begin with these bytes for `belief`, now: the
    /// last of them that was lost, or the last of all.
    pub fn judge(
        &mut self,
        flow: usize,
        packets: impl DoubleEndedIterator<Item = u64> + Clone,
        belief: LossKind,
    ) {
        let (index, now) = (flow as u32, self.now);
        let lost = packets.clone().rev().find(|&seq| self.network.truth(index, seq, now).is_some());
        if let Some(seq) = lost.or(packets.last()) {
            self.network.judge(index, seq, belief, None, now);
        }
    }

    /// Takes the packets that have left the world since the last call, appended to `all` in the order in which they
    /// left.
    pub fn depart(&mut self, all: &mut Vec<Departure>) {
        all.append(&mut self.network.departed);
    }

    /// Takes what applications at ends outside do now, since the last call, appended to `all`.
    pub fn acts(&mut self, all: &mut Vec<Act>) {
        all.append(&mut self.acts);
    }

    /// The source of a flow whose sender lies outside hears what that says, and writes; it is due again when it says
    /// so.
    pub fn offer(&mut self, flow: usize, demand: Demand) -> Offer {
        let offer = self.ask_source(flow, Some(demand));
        if let Some(next) = offer.next {
            self.network.schedule(next, Target::new(event_kind::TRAFFIC, flow as u32));
        }
        offer
    }

    /// Whether the source of `flow` has handed over all that it has, if it has an end.
    pub fn is_exhausted(&self, flow: usize) -> bool {
        self.sources[flow].is_exhausted()
    }

    /// Like [`World::step_until`], but it stops behind the first instant at which a packet has left, or an application
    /// outside does something. Returns whether that was so.
    pub fn step_until_departure(&mut self, now: Time) -> bool {
        let until = now.min(self.end);
        let has_left = |world: &World| !world.network.departed.is_empty() || !world.acts.is_empty();
        while !has_left(self) {
            if !self.step(until) {
                self.now = self.now.max(until);
                return false;
            }
            self.events += 1;
        }
        // What else happens at this instant.
        let now = self.now;
        while self.step(now) {
            self.events += 1;
        }
        true
    }

    /// Whether something is due at this very instant: a packet that was put in, for one.
    pub fn is_due(&mut self) -> bool {
        matches!(self.network.next_event(), Some(Next::Arrival(event) | Next::Timer(event))
            if event.time() <= self.now && event.time() <= self.end)
    }

    /// The last flow of `plan` joins a world that was built with [`super::Evaluation::Open`] from the plan without it;
    /// its transport lies outside. Returns its index and the longest packet that every link of its paths takes, or
    /// `None` if no path joins its ends.
    pub fn add_flow(&mut self, plan: &Plan, seed: u64) -> Option<(usize, u32)> {
        let index = self.senders.len();
        let flow = plan.flows.last()?;
        let (routes, journeys) = self.network.routes()?;
        routes.path(flow.source, flow.sink)?;
        let paths = paths_of(flow, plan, routes, journeys);
        let window = self.network.window();
        let (sender, receiver) = Endpoint::pair(flow, seed, window, plan.percentiles);
        let mut stats = FlowStats::new(plan.percentiles);
        let records_series = self.network.recorder.as_ref().is_some_and(|recorder| recorder.has_series());
        if records_series || flow.realtime.is_some() {
            let measure = |plan| Realtime::new(plan, (&flow.traffic, &flow.transport), window, flow.stop);
            stats.observe(Observers {
                bins: records_series.then(|| Bins::new(plan.series_interval, plan.duration)),
                realtime: flow.realtime.as_deref().map(measure),
            });
        }
        let mtu_of = |&direction: &DirectionId| {
            let link = &plan.links[direction as usize / 2];
            if direction.is_multiple_of(2) { link.forward.mtu } else { link.reverse.mtu }
        };
        let mtu = paths.all.iter().flatten().map(mtu_of).min()?;
        self.network.add_flow(&plan.flows, &paths, (receiver, stats));
        self.senders.push(sender);
        self.sources.push(Source::new(
            &flow.traffic,
            Packing::of(&flow.transport),
            stream_of(seed, &flow.name),
        ));
        self.sent.push(Sent { first_hop: self.network.first_place(index), ..Sent::default() });
        self.started.push(false);
        self.stopped.push(false);
        self.last_rtt.push((0, 0));
        Some((index, mtu))
    }

    /// Counts by ticket ([`Extra::bytes_at`]) what becomes of packets from outside, from now on: [`World::losses`] and
    /// [`World::gone_tickets`] tell.
    pub fn track_tickets(&mut self) {
        self.network.track_tickets();
    }

    /// Takes the tickets that were lost since the last call, appended to `all`.
    pub fn losses(&mut self, all: &mut Vec<Loss>) {
        all.append(&mut self.network.losses);
    }

    /// Whether a packet carries the ticket.
    pub fn is_carried(&self, ticket: u32) -> bool {
        self.network.is_carried(ticket)
    }

    /// Takes the tickets that no packet carries any more, appended to `all`: what they stand for is needed no longer
    /// but by departures that have not been taken, and by erasure codes, which may make a lost packet anew.
    pub fn gone_tickets(&mut self, all: &mut Vec<u32>) {
        self.network.gone_tickets(all);
    }
}
