//! Flows that join a running network: their ways are laid as those of the others were, and every packet waits for the
//! clock at each place of them. And what becomes of tickets, which the driver of such a network asks for.

use std::sync::Arc;

use lasthop_core::packet::Cause;
use lasthop_core::time::Time;

use super::path::{Hop, Place, Wiring, known_flows};
use super::{Network, Paths};
use crate::measure::FlowStats;
use crate::plan::{FlowPlan, LinkPlan};
use crate::roaming::Journey;
use crate::routing::Routes;
use crate::transport::endpoint::Endpoint;
use crate::transport::outside::Loss;

/// What is needed to lay the ways of one more flow.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    pub(super) wiring: Wiring,
    pub(super) routes: Routes,
    pub(super) links: Arc<[LinkPlan]>,
    /// What hosts that choose their access points do.
    pub(super) journeys: Vec<Journey>,
}

impl Network {
    /// The routes of a network that flows may join, and what hosts do that choose their access points.
    pub(crate) fn routes(&mut self) -> Option<(&mut Routes, &[Journey])> {
        let growth = self.growth.as_mut()?;
        Some((&mut growth.routes, &growth.journeys))
    }

    /// Adds the last of these flows, with these paths. The network must have been told that flows may join.
    pub(crate) fn add_flow(
        &mut self,
        flows: &[FlowPlan],
        paths: &Paths,
        (receiver, stats): (Endpoint, FlowStats),
    ) {
        let Some(mut growth) = self.growth.take() else { unreachable!("the network may grow") };
        let flow = self.ways.len() as u32;
        let first = self.hops.len() as u32;
        self.known = known_flows(flows);
        self.receivers.push(receiver);
        self.flows.push(stats);
        self.truths.push(None);
        if paths.changes.is_empty() {
            self.add_ways(&growth.wiring, flow, &paths.all[0]);
        } else {
            let links = Arc::clone(&growth.links);
            self.add_changing_ways((&mut growth.wiring, &mut growth.routes), &links, flow, paths);
        }
        self.settle_waits_from((flow as usize, first), true, |_| true);
        self.know_flows();
        self.tell_media(first);
        self.growth = Some(growth);
    }

    /// Tickets are tracked from now on: those that are lost are in [`Network::losses`].
    pub(crate) fn track_tickets(&mut self) {
        self.extras.track_tickets();
    }

    /// Takes the tickets that no packet carries any more.
    pub(crate) fn gone_tickets(&mut self, all: &mut Vec<u32>) {
        self.extras.gone(all);
    }

    /// Whether a packet carries the ticket.
    pub(crate) fn is_carried(&self, ticket: u32) -> bool {
        self.extras.is_carried(ticket)
    }

    /// A packet is being lost.
    pub(super) fn note_loss(&mut self, index: u32, at: Time, cause: Cause) {
        let packet = self.packets.get(index);
        let Some(ticket) = self.extras.get(packet.extra).and_then(|extra| extra.bytes_at) else { return };
        let hop: Hop = self.hops[packet.wait.hop as usize];
        let direction = match hop.place() {
            Place::Link(direction) => Some(direction),
            Place::Port(port) => {
                let direction = self.devices[self.ports[port as usize].0 as usize].direction;
                ((direction as usize) < self.links.len()).then_some(direction)
            }
            Place::Receiver | Place::Sender => None,
        };
        self.losses.push(Loss { ticket, at, cause, direction });
    }
}
