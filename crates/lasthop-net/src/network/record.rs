//! What the network tells the recorder, if there is one: every packet on every link, and what devices hold.

use std::collections::BTreeMap;

use lasthop_core::packet::Cause;
use lasthop_core::time::Time;

use super::Network;
use crate::device::{Device, Element, NOWHERE, Parcel};
use crate::link::{Link, Transit};
use crate::routing::DirectionId;
use crate::trace::{FrameRecord, HopRecord, RadioInterval, Recorder};
use crate::transport::codec::Measured;

impl Network {
    /// Records from now on.
    pub(crate) fn start_recording(&mut self, recorder: Box<Recorder>) {
        if recorder.traces() {
            self.links.iter_mut().for_each(Link::watch);
            self.traced = true;
        }
        let (series, frames) = (recorder.has_series(), recorder.frames());
        let media = self.devices.iter_mut().filter_map(|slot| match &mut slot.device {
            Device::Medium(medium) => Some(medium),
            _ => None,
        });
        for (medium, number) in media.zip(0..) {
            medium.record(number, series, frames);
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
        if self.traced {
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
        let is_wanted = |recorder: &Recorder| recorder.wants_hop(enqueued, arrived, lost.is_some());
        if !self.recorder.as_deref().is_some_and(is_wanted) {
            return;
        }
        let record = self.hop_record((direction, flow, index), enqueued, (transmitted, arrived, lost));
        if let Some(recorder) = &mut self.recorder {
            recorder.add_hop(record);
        }
    }

    /// The record of a packet on a link.
    fn hop_record(
        &self,
        (direction, flow, index): (DirectionId, u32, u32),
        enqueued: Time,
        (transmitted, arrived, lost): (Option<Time>, Option<Time>, Option<Cause>),
    ) -> HopRecord {
        let packet = self.packets.get(index);
        let extra = self.extras.get(packet.extra);
        let back = !packet.is_forward();
        HopRecord {
            packet: self.serials[index as usize],
            flow,
            direction,
            kind: packet.kind,
            flags: packet.flags,
            window: packet.window,
            back,
            again: packet.note.again(),
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
        }
    }

    /// Records a frame of a radio channel.
    #[cold]
    pub(super) fn record_frame(
        &mut self,
        mut record: FrameRecord,
        parcel: Option<Parcel>,
        direction: DirectionId,
    ) {
        let own = parcel.map(|parcel| {
            let sent = (Some(record.start), None, None);
            self.hop_record((direction, parcel.flow, parcel.packet), parcel.since, sent)
        });
        let Some(recorder) = &mut self.recorder else { return };
        // Once it has been delivered to one station it is not to be asked what the others heard: the sender's record
        // came first.
        let known =
            || recorder.last_frame().filter(|last| (last.from, last.start) == (record.from, record.start));
        record.packet = own.or_else(|| known()?.packet);
        recorder.add_frame(&record);
    }

    /// Records what devices at links have counted since the last sample, and what they hold.
    #[cold]
    pub(crate) fn sample_helpers(&mut self, now: Time) {
        let Some(recorder) = &mut self.recorder else { return };
        let mut sums: BTreeMap<DirectionId, [BTreeMap<&'static str, u64>; 2]> = BTreeMap::new();
        for slot in &self.devices {
            let (counted, holdings) = (slot.device.counters(), slot.device.holdings());
            if slot.direction == NOWHERE || counted.is_empty() {
                continue;
            }
            let [of_counters, of_holdings] = sums.entry(slot.direction).or_default();
            // Several of one kind count together.
            for (sums, found) in [(of_counters, counted), (of_holdings, holdings)] {
                for (name, count) in found {
                    *sums.entry(name).or_default() += count;
                }
            }
        }
        for (direction, [counted, holdings]) in sums {
            recorder.add_helpers(
                now,
                direction,
                counted.into_iter().collect(),
                holdings.into_iter().collect(),
            );
        }
    }

    /// Records what MACs have counted since the last sample, which was an interval ago.
    #[cold]
    pub(crate) fn sample_radios(&mut self, now: Time) {
        let Some(recorder) = &mut self.recorder else { return };
        for slot in &mut self.devices {
            let Device::Medium(medium) = &mut slot.device else { continue };
            for (direction, stats) in medium.take_interval() {
                recorder.add_radio(RadioInterval { time: now, direction, stats });
            }
        }
    }
}
