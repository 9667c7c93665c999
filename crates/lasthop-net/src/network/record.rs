//! What the network tells the recorder, if there is one: every packet on every link, and what devices hold.

use lasthop_core::packet::Cause;
use lasthop_core::time::Time;

use super::Network;
use crate::device::Parcel;
use crate::link::{Link, Transit};
use crate::routing::DirectionId;
use crate::trace::{HopRecord, Recorder};
use crate::transport::codec::Measured;

impl Network {
    /// Records from now on.
    pub(crate) fn start_recording(&mut self, recorder: Box<Recorder>) {
        if recorder.traces() {
            self.links.iter_mut().for_each(Link::watch);
            self.traced = true;
        }
        self.recorder = Some(recorder);
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

    /// Records what became of a packet on a link that a device serves, which has let go of it.
    pub(super) fn record(
        &mut self,
        direction: DirectionId,
        parcel: Parcel,
        fate: (Option<Time>, Option<Time>, Option<Cause>),
    ) {
        if self.recorder.is_some() {
            self.push_record(direction, parcel.flow, parcel.packet, parcel.since, fate);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.let_go(parcel.since);
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
        let Some(recorder) = &mut self.recorder else { return };
        let packet = self.packets.get(index);
        let extra = self.extras.get(packet.extra);
        let back = !packet.is_forward();
        recorder.add_hop(HopRecord {
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
        });
    }
}
