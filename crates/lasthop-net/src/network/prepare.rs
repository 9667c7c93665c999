//! Brings what a packet will meet into the caches before it arrives. The world calls each step a while after the one
//! before it, when the memory that the earlier step asked for is there to be read.
//!
//! Nothing here changes a result; whatever is left out is merely slower.

use lasthop_core::large_pages::pages_of;
use lasthop_core::prefetch::prefetch;

use super::{Hop, Network, Place};
use crate::transport::endpoint::Endpoint;

impl Network {
    /// Where everything lies that packets meet, and meet often.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = usize> {
        let counters = self.flows.iter().filter_map(|flow| flow.delay.address());
        pages_of(&self.links)
            .chain(pages_of(&self.hops))
            .chain(pages_of(&self.flows))
            .chain(pages_of(&self.receivers))
            .chain(self.packets.pages())
            .chain(self.receivers.iter().flat_map(Endpoint::addresses))
            .chain(counters)
    }

    /// A packet that arrives soon, if it pays to prepare for it; asks for its place on its path.
    #[inline]
    pub(crate) fn upcoming(&mut self) -> Option<u32> {
        let index = self.calendar.upcoming(&self.packets)?;
        prefetch(&self.hops[self.packets.get(index).wait.hop as usize]);
        Some(index)
    }

    /// The place that a packet waits for.
    pub(crate) fn awaited(&self, index: u32) -> Hop {
        self.hops[self.packets.get(index).wait.hop as usize]
    }

    /// Asks for the links and the receiver on the way of a packet until it waits again.
    pub(crate) fn prepare_way(&self, index: u32) {
        for hop in &self.hops[self.packets.get(index).wait.hop as usize..] {
            match hop.place() {
                Place::Link(direction) => prefetch(&self.links[direction as usize]),
                Place::Receiver => {
                    prefetch(&self.receivers[hop.flow() as usize]);
                    self.flows[hop.flow() as usize].prepare();
                }
                Place::Port(_) | Place::Sender => return,
            }
        }
    }

    /// Asks for the state of a receiver and for the counters of its delays. A packet for the bottleneck of a dumbbell
    /// will be there soon, so will one that has come back from there; asking for the other's costs little.
    pub(crate) fn prepare_receiver(&self, flow: u32) {
        self.receivers[flow as usize].prepare_receiver();
        self.flows[flow as usize].delay.prepare();
    }

    /// Asks for the link at a place.
    pub(crate) fn prepare_link(&self, hop: u32) {
        if let Place::Link(direction) = self.hops[hop as usize].place() {
            prefetch(&self.links[direction as usize]);
        }
    }

    /// Asks for a place on a path.
    pub(crate) fn prepare_place(&self, hop: u32) {
        prefetch(&self.hops[hop as usize]);
    }
}
