//! The record of every packet on every link, if a trace is asked for.

use lasthop_core::packet::Cause;
use lasthop_core::time::Time;

use super::Network;
use crate::device::Parcel;
use crate::link::{Link, Transit};
use crate::routing::DirectionId;
use crate::trace::HopRecord;
use crate::transport::codec::Measured;

impl Network {
    /// Records every packet on every link from now on.
    pub(crate) fn start_trace(&mut self) {
        self.links.iter_mut().for_each(Link::watch);
        self.trace = Some(Vec::new());
    }

    /// Gives the packet in a slot its serial number.
    #[cold]
    pub(super) fn number(&mut self, index: u32) {
        let slots = self.serials.len().max(index as usize + 1);
        self.serials.resize(slots, 0);
        self.serials[index as usize] = self.ledger.created as u32;
    }

    /// Records what became of a packet on a plain link.
    #[cold]
    pub(super) fn record_transit(
        &mut self,
        direction: DirectionId,
        flow: u32,
        index: u32,
        at: Time,
        transit: Transit,
    ) {
        let (transmitted, arrived, lost) = match transit {
            Transit::Arrives { start, at, .. } => {
                ((start <= self.end).then_some(start), (at <= self.end).then_some(at), None)
            }
            Transit::Lost { cause, start, at } => {
                (start.filter(|&start| start <= self.end), None, (at <= self.end).then_some(cause))
            }
        };
        self.push_record(direction, flow, index, at, (transmitted, arrived, lost));
    }

    /// Records what became of a packet on a link that a device serves.
    pub(super) fn record(
        &mut self,
        direction: DirectionId,
        parcel: Parcel,
        fate: (Option<Time>, Option<Time>, Option<Cause>),
    ) {
        if self.trace.is_some() {
            self.push_record(direction, parcel.flow, parcel.packet, parcel.since, fate);
        }
    }

    /// Adds a record: when the packet reached the link, when it was first transmitted, when it left the link at the far
    /// end, why it was lost.
    fn push_record(
        &mut self,
        direction: DirectionId,
        flow: u32,
        index: u32,
        enqueued: Time,
        (transmitted, arrived, lost): (Option<Time>, Option<Time>, Option<Cause>),
    ) {
        let packet = self.packets.get(index);
        let extra = self.extras.get(packet.extra);
        let back = !packet.is_forward();
        let record = HopRecord {
            packet: self.serials[index as usize],
            flow,
            direction,
            kind: packet.kind,
            flags: packet.flags,
            window: packet.window,
            back,
            again: packet.note.again,
            seq: if back { 0 } else { packet.seq },
            ack: if back { packet.seq } else { 0 },
            payload: packet.payload,
            bytes: packet.bytes,
            stamp: packet.stamp,
            echo: packet.echo,
            sack: extra.map_or_else(Default::default, |extra| extra.sack),
            measured: Measured::of(packet, extra),
            enqueued,
            transmitted,
            arrived,
            lost,
        };
        if let Some(trace) = &mut self.trace {
            trace.push(record);
        }
    }
}
