//! The recorder of a world: gathers records as they are made and hands them on in the order of time.
//!
//! A link that is evaluated ahead of the clock makes records that lie in the future; one whose packets a device holds
//! makes them when they leave, long after they came. So a record is handed on as soon as the clock has passed it *and*
//! no device holds an older packet. Between two calls of [`Recorder::hand_over`] it keeps what the run has made since
//! then, and what is not settled yet.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use lasthop_core::time::{Span, Time};

use super::{
    Bins, DecisionRecord, FlowInterval, FlowSample, FrameRecord, Frames, HelperInterval, HopRecord,
    LinkInterval, RadioInterval, Recording, Sink, Timely, WindowRecord,
};
use super::{flow_column, link_column};
use crate::link::Link;
use crate::measure::FlowStats;

/// Records of packets are put into order this many at a time.
const BATCH: usize = 1 << 15;

/// What a world has recorded and not handed on yet.
#[derive(Clone, Debug)]
pub struct Recorder {
    recording: Recording,
    interval: Span,
    /// In the order in which they were made; what an earlier call left comes first, in order.
    hops: Vec<HopRecord>,
    /// How many of them an earlier call left.
    left: usize,
    /// Room in which they are put into order: when each came to its link and its number, and those that are left.
    order: Vec<(Time, u32)>,
    rest: Vec<HopRecord>,
    windows: Vec<WindowRecord>,
    decisions: Vec<DecisionRecord>,
    samples: Vec<FlowSample>,
    radios: Vec<RadioInterval>,
    helpers: Vec<HelperInterval>,
    /// What devices had counted at the last sample, direction by direction.
    counted: BTreeMap<(u32, &'static str), u64>,
    frames: Vec<FrameRecord>,
    /// Number of the interval of each direction that is handed on next.
    next_interval: u64,
    /// Intervals in all.
    intervals: u64,
    /// When the packets that devices hold at the heads of links came there, and how many at each time.
    held: VecDeque<(Time, u32)>,
    /// From when to when its sink wants packets and windows.
    wanted: (Time, Time),
}

impl Recorder {
    /// Of a run of `duration`; `None` if nothing is to be recorded.
    pub(crate) fn new(recording: Recording, interval: Span, duration: Span) -> Option<Box<Recorder>> {
        (recording.series || recording.trace).then(|| {
            Box::new(Recorder {
                recording,
                interval,
                hops: Vec::new(),
                left: 0,
                order: Vec::new(),
                rest: Vec::new(),
                windows: Vec::new(),
                decisions: Vec::new(),
                samples: Vec::new(),
                radios: Vec::new(),
                helpers: Vec::new(),
                counted: BTreeMap::new(),
                frames: Vec::new(),
                next_interval: 0,
                intervals: if recording.series { duration.0 / interval.0 } else { 0 },
                held: VecDeque::new(),
                wanted: (Time::ZERO, Time::MAX),
            })
        })
    }

    /// Whether it wants time series.
    pub(crate) fn has_series(&self) -> bool {
        self.recording.series
    }

    /// Whether it wants every packet.
    pub(crate) fn traces(&self) -> bool {
        self.recording.trace
    }

    /// Which frames on the air it wants.
    pub(crate) fn frames(&self) -> Frames {
        if self.recording.trace { self.recording.frames } else { Frames::None }
    }

    /// A device at the head of a link has got a packet at `now`.
    pub(crate) fn hold(&mut self, now: Time) {
        match self.held.back_mut() {
            Some((time, count)) if *time == now => *count += 1,
            _ => self.held.push_back((now, 1)),
        }
    }

    /// A device at the head of a link has let go of a packet that it had got at `since`.
    pub(crate) fn let_go(&mut self, since: Time) {
        if let Ok(place) = self.held.binary_search_by_key(&since, |&(time, _)| time) {
            self.held[place].1 -= 1;
        }
        while self.held.front().is_some_and(|&(_, count)| count == 0) {
            self.held.pop_front();
        }
    }

    /// Whether the sink wants a packet that came to a link at `enqueued`, and was lost or arrived, if either.
    #[inline]
    pub(crate) fn wants_hop(&self, enqueued: Time, arrived: Option<Time>, is_lost: bool) -> bool {
        let (from, to) = self.wanted;
        is_lost || (enqueued <= to && arrived.is_none_or(|arrived| arrived >= from))
    }

    /// Records what became of a packet on a link.
    pub(crate) fn add_hop(&mut self, record: HopRecord) {
        if self.recording.trace {
            self.hops.push(record);
        }
    }

    /// Records a change of a window; they come in the order of time.
    pub(crate) fn add_window(&mut self, record: WindowRecord) {
        let (from, to) = self.wanted;
        if self.recording.trace && (from..=to).contains(&record.time) {
            self.windows.push(record);
        }
    }

    /// Records a decision of a sender; they come in the order of time.
    pub(crate) fn add_decision(&mut self, record: DecisionRecord) {
        if self.recording.trace {
            self.decisions.push(record);
        }
    }

    /// Records the state of a sender at the end of an interval; they come in the order of time.
    pub(crate) fn add_sample(&mut self, sample: FlowSample) {
        self.samples.push(sample);
    }

    /// Records what the MACs of a radio direction counted in an interval; they come in the order of time.
    pub(crate) fn add_radio(&mut self, interval: RadioInterval) {
        self.radios.push(interval);
    }

    /// Records what the devices at the near end of a direction have counted up to `time` and what they hold; calls come
    /// in the order of time. What is the most of anything stays what it is.
    pub(crate) fn add_helpers(
        &mut self,
        time: Time,
        direction: u32,
        counted: Vec<(&'static str, u64)>,
        holdings: Vec<(&'static str, u64)>,
    ) {
        let mut counters = holdings;
        for (name, count) in counted {
            let before = self.counted.insert((direction, name), count).unwrap_or(0);
            counters.push((name, if name.contains("_most_") { count } else { count.saturating_sub(before) }));
        }
        self.helpers.push(HelperInterval { time, direction, counters });
    }

    /// Records a frame at a station; they come in the order of their ends.
    pub(crate) fn add_frame(&mut self, record: &FrameRecord) {
        self.frames.push(*record);
    }

    /// The frame that was recorded last, unless it has been handed on.
    pub(crate) fn last_frame(&self) -> Option<&FrameRecord> {
        self.frames.last()
    }

    /// Hands on all that is settled when the clock stands at `now`; everything is when it stands at [`Time::MAX`].
    pub(crate) fn hand_over(
        &mut self,
        now: Time,
        (links, flows): (&mut [Link], &mut [FlowStats]),
        sink: &mut dyn Sink,
    ) -> io::Result<()> {
        debug_assert!(now < Time::MAX || self.held.is_empty(), "a device let go of a packet unseen");
        let settled = match self.held.front() {
            Some(&(since, _)) if now < Time::MAX => now.min(since),
            _ => now,
        };
        for record in self.windows.drain(..) {
            sink.window(&record)?;
        }
        for record in self.decisions.drain(..) {
            sink.decision(&record)?;
        }
        for record in self.frames.drain(..) {
            sink.frame(&record)?;
        }
        for interval in self.radios.drain(..) {
            sink.radio(&interval)?;
        }
        for interval in self.helpers.drain(..) {
            sink.helper(&interval)?;
        }
        self.hand_over_flows(flows, sink)?;
        self.hand_over_links(settled, links, sink)?;
        self.hand_over_hops(settled, sink)?;
        self.wanted = sink.wants(now);
        Ok(())
    }

    /// Receivers are never behind the clock: at the time of a sample its interval is over.
    fn hand_over_flows(&mut self, flows: &mut [FlowStats], sink: &mut dyn Sink) -> io::Result<()> {
        for sample in self.samples.drain(..) {
            let stats = &mut flows[sample.flow as usize];
            let row = stats.bins_mut().map_or_else(Default::default, Bins::take);
            let (received, delivered) = (row[flow_column::RECEIVED], row[flow_column::DELIVERED]);
            let (arrived, lost) = (row[flow_column::ARRIVED], row[flow_column::LOST]);
            let delay = row[flow_column::DELAY].checked_div(arrived).map(Span);
            let [sent, timely, settled] =
                [flow_column::SENT, flow_column::TIMELY, flow_column::SETTLED].map(|column| row[column]);
            let timely = stats.realtime().map(|_| Timely { sent, arrived: timely, settled });
            sink.flow(&FlowInterval { sample, received, delivered, arrived, delay, lost, timely })?;
        }
        Ok(())
    }

    /// A packet that a device holds may still turn out to have waited in an interval that is over.
    fn hand_over_links(&mut self, settled: Time, links: &mut [Link], sink: &mut dyn Sink) -> io::Result<()> {
        let over = (settled.0 / self.interval.0).min(self.intervals);
        while self.next_interval < over {
            self.next_interval += 1;
            let time = Time::ZERO + self.interval * self.next_interval;
            for (link, direction) in links.iter_mut().zip(0u32..) {
                let Some(bins) = &mut link.bins else { continue };
                let row = bins.take();
                sink.link(&LinkInterval {
                    time,
                    direction,
                    waiting: row[link_column::WAITING],
                    busy: row[link_column::BUSY],
                    bytes: row[link_column::BYTES],
                })?;
            }
        }
        Ok(())
    }

    fn hand_over_hops(&mut self, settled: Time, sink: &mut dyn Sink) -> io::Result<()> {
        // What is left is sorted again each time: that pays when there is as much that is new.
        if settled < Time::MAX && self.hops.len() - self.left < BATCH.max(self.left) {
            return Ok(());
        }
        // The records stay where they are, because they are large. Their numbers keep those of one instant in the order
        // in which they were made.
        self.order.clear();
        self.order.extend(self.hops.iter().map(|record| record.enqueued).zip(0u32..));
        self.order.sort();
        let count = self.order.partition_point(|&(enqueued, _)| enqueued <= settled);
        let (over, ahead) = self.order.split_at(count);
        for &(_, number) in over {
            sink.hop(&self.hops[number as usize])?;
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend(ahead.iter().map(|&(_, number)| self.hops[number as usize]));
        self.left = rest.len();
        self.rest = std::mem::replace(&mut self.hops, rest);
        self.rest.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::packet::Kind;

    use super::*;
    use crate::trace::Recorded;

    const TRACE: Recording = Recording { series: false, trace: true, frames: Frames::All };

    fn recorder() -> Box<Recorder> {
        Recorder::new(TRACE, Span(10), Span(100)).unwrap()
    }

    /// The record of the packet with this number.
    fn hop(packet: u32, enqueued: u64) -> HopRecord {
        HopRecord {
            packet,
            flow: 0,
            direction: 0,
            kind: Kind::Data,
            flags: 0,
            window: 0,
            back: false,
            again: false,
            seq: 0,
            ack: 0,
            payload: 0,
            bytes: 40,
            stamp: Time::ZERO,
            echo: Time::ZERO,
            sack: crate::transport::sack::SackBlocks::default(),
            measured: crate::transport::codec::Measured::default(),
            enqueued: Time(enqueued),
            transmitted: None,
            arrived: None,
            lost: None,
        }
    }

    #[test]
    fn records_of_one_instant_stay_in_their_order() {
        let mut recorder = recorder();
        for (packet, enqueued) in [(0, 7), (1, 3), (2, 7), (3, 3), (4, 5)] {
            recorder.add_hop(hop(packet, enqueued));
        }
        let mut sink = Recorded::default();
        recorder.hand_over(Time::MAX, (&mut [], &mut []), &mut sink).unwrap();
        assert_eq!(sink.hops.iter().map(|record| record.packet).collect::<Vec<_>>(), [1, 3, 4, 0, 2]);
    }

    /// A batch at a time: what lies ahead of the clock, or behind a packet that a device holds, waits.
    #[test]
    fn only_what_is_settled_is_handed_over() {
        let mut recorder = recorder();
        let count = BATCH as u32;
        (0..count).for_each(|packet| recorder.add_hop(hop(packet, u64::from(packet))));
        recorder.hold(Time(100));
        recorder.hold(Time(100));
        recorder.hold(Time(200));
        let mut sink = Recorded::default();
        let over = |recorder: &mut Recorder, now, sink: &mut Recorded| {
            recorder.hand_over(Time(now), (&mut [], &mut []), sink).unwrap();
            sink.hops.len()
        };
        assert_eq!(over(&mut recorder, 50, &mut sink), 51, "the clock has passed that number");
        recorder.let_go(Time(100));
        // The rest is looked at again when as much has come as was left.
        (0..count).for_each(|packet| recorder.add_hop(hop(count + packet, u64::from(count + packet))));
        assert_eq!(over(&mut recorder, 5000, &mut sink), 101, "one is still held");
        recorder.let_go(Time(100));
        recorder.add_hop(hop(7777, 100));
        (0..2 * count).for_each(|packet| recorder.add_hop(hop(0, u64::from(2 * count + packet))));
        assert_eq!(over(&mut recorder, 5000, &mut sink), 202);
        assert_eq!(
            sink.hops[100..103].iter().map(|record| record.packet).collect::<Vec<_>>(),
            [100, 7777, 101]
        );
        recorder.let_go(Time(200));
        let all = 4 * BATCH + 1;
        recorder.hand_over(Time::MAX, (&mut [], &mut []), &mut sink).unwrap();
        assert_eq!(sink.hops.len(), all);
        assert!(sink.hops.is_sorted_by_key(|record| record.enqueued));
    }
}
