//! Places for flows that come and go: which of them are free, one more, and another flow in one.
//!
//! `world/classes.rs` calls these. The ways of a place stay as they were laid; only its flow is another.

use lasthop_core::event::{Event, MAX_EVENTS, Target};
use lasthop_core::time::Time;

use super::path::{Hop, Ways, name_number};
use super::{Network, event_kind};
use crate::measure::FlowStats;
use crate::plan::Percentiles;
use crate::transport::endpoint::Endpoint;

impl Network {
    /// Takes `count` places among the events of the application, in the order in which they are scheduled now, for
    /// events that are known when others have passed; the number of the first.
    pub(crate) fn reserve(&mut self, count: u64) -> u64 {
        self.order += count;
        self.order - count + 1
    }

    /// Schedules something in a place that was reserved.
    pub(crate) fn schedule_reserved(&mut self, time: Time, number: u64, target: Target) {
        self.timers.push(Event::new(time, MAX_EVENTS / 2 + number, target));
    }

    /// How much there is to look through for [`Network::may_act`].
    pub(crate) fn pending(&self) -> usize {
        self.timers.len() + self.packets.most()
    }

    /// For each flow whether anything can happen to it yet: a packet of it is under way, or a timer of it set.
    pub(crate) fn may_act(&self) -> Vec<bool> {
        let mut may = vec![false; self.ways.len()];
        for packet in self.packets.iter() {
            may[self.hops[packet.wait.hop as usize].flow() as usize] = true;
        }
        for target in self.timers.iter().map(Event::target) {
            let index = target.index();
            match target.kind() {
                event_kind::SENDER | event_kind::RECEIVER | event_kind::TRAFFIC | event_kind::STOP => {
                    may[index] = true;
                }
                event_kind::SIGNAL => may[self.signals[index].0 as usize] = true,
                _ => {}
            }
        }
        may
    }

    /// Gives a flow another receiver.
    pub(crate) fn replace_receiver(&mut self, flow: usize, receiver: Endpoint) {
        self.receivers[flow] = receiver;
    }

    /// Adds `count` places with the ways of the flow `like`, behind all others.
    pub(crate) fn add_places_like(&mut self, like: usize, count: usize) {
        let Ways { forward, back } = self.ways[like];
        let way_back = self.hops[back as usize..].iter().position(|hop| hop.is_sender());
        let end =
            back as usize + way_back.unwrap_or_else(|| unreachable!("every way ends at its sender")) + 1;
        let ways = self.hops[forward as usize..end].to_vec();
        for _ in 0..count {
            let (flow, first) = (self.ways.len() as u32, self.hops.len() as u32);
            self.hops.extend(ways.iter().map(|hop| Hop::new(flow, hop.place(), hop.waits())));
            self.ways.push(Ways { forward: first, back: first + back - forward });
            self.receivers.push(Endpoint::Outside(None));
            self.flows.push(FlowStats::new(Percentiles::Sketch));
            self.truths.push(None);
        }
        self.known.add_like(like, count);
        self.know_flows();
    }

    /// Puts a flow of this name into a place that is free.
    pub(crate) fn take_place(
        &mut self,
        place: u32,
        name: &str,
        (receiver, stats): (Endpoint, FlowStats),
        classifies: bool,
    ) {
        self.receivers[place as usize] = receiver;
        self.flows[place as usize] = stats;
        self.truths[place as usize] = None;
        if classifies {
            self.keep_truths(place as usize);
        }
        let name = name_number(name);
        self.known.rename(place, name);
        for slot in &mut self.devices {
            if let Some(queue) = slot.device.queue() {
                queue.rename_flow(place, name);
            }
        }
    }
}
