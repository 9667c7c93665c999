//! What a run records on request: every packet on every link, every change of a window, and time series.
//!
//! A world's [`Recorder`] keeps records until the clock has settled their order; the driver of the world hands them
//! to a [`Sink`] now and then (`World::hand_over`), so that a run holds little of them however long it is. Nothing
//! here knows a file format.

mod bins;
mod recorder;

use std::io;

use lasthop_cc::{Estimates, LossKind, LossSigns};
use lasthop_core::packet::{Cause, Kind};
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

pub use crate::device::wlan::counters::RadioStats;
pub use crate::device::wlan::frame::{FrameKind, FrameOutcome};
use crate::device::wlan::mode::Mode;
use crate::transport::codec::Measured;
use crate::transport::sack::SackBlocks;
pub use bins::Bins;
pub use recorder::Recorder;

/// What to record beside the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Time series of flows and links.
    pub series: bool,
    /// Every packet on every link, and every change of a window.
    pub trace: bool,
    /// With the trace: frames of radio channels.
    pub frames: Frames,
}

/// Which frames of radio channels to record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// None.
    #[default]
    None,
    /// Those that met another at the station that they were for: the rest of the channel is worked out as without.
    Collided,
    /// Each at every station, which are ten times as many as packets.
    All,
}

/// One packet on one link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HopRecord {
    /// Serial number of the packet.
    pub packet: u32,
    /// Flow.
    pub flow: u32,
    /// Direction: twice the link's index, plus one for the reverse.
    pub direction: u32,
    /// What it carries.
    pub kind: Kind,
    /// Flags of `lasthop_core::packet::flag`.
    pub flags: u8,
    /// Receiver window in bytes.
    pub window: u32,
    /// It was on its way from the receiver to the sender.
    pub back: bool,
    /// Its range had been sent before.
    pub again: bool,
    /// First byte of the payload, or the sender's position for an ACK.
    pub seq: u64,
    /// Cumulative acknowledgement of ACKs; 0 otherwise.
    pub ack: u64,
    /// Payload bytes.
    pub payload: u16,
    /// Wire bytes.
    pub bytes: u16,
    /// Timestamp option: value and echo.
    pub stamp: Time,
    /// The newest timestamp of the other end.
    pub echo: Time,
    /// SACK blocks of ACKs.
    pub sack: SackBlocks,
    /// What experimental options of the TCP header carry.
    pub measured: Measured,
    /// Arrival at the queue.
    pub enqueued: Time,
    /// Start of transmission.
    pub transmitted: Option<Time>,
    /// Arrival at the far end.
    pub arrived: Option<Time>,
    /// Why it was lost.
    pub lost: Option<Cause>,
}

/// A window, or the model behind it, after it changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowRecord {
    /// When.
    pub time: Time,
    /// Flow.
    pub flow: u32,
    /// Congestion window in segments.
    pub cwnd: f64,
    /// Slow start threshold in segments.
    pub ssthresh: f64,
    /// What its law holds for true of the path.
    pub estimates: Option<Estimates>,
    /// What speaks in it for each cause of losses.
    pub signs: Option<LossSigns>,
}

/// What made a sender act beyond the course of its ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Duplicate ACKs or SACK said that a segment is lost: a recovery began.
    FastRecovery,
    /// The retransmission timer expired with data outstanding.
    Timeout,
    /// A reduction was undone, because nothing had been lost.
    Undone,
}

/// A decision of a sender, recorded with the packets from the end of the warm-up on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecisionRecord {
    /// When.
    pub time: Time,
    /// Flow.
    pub flow: u32,
    /// What it decided.
    pub decision: Decision,
    /// First byte that was not acknowledged then: that of the segment which is held to be lost.
    pub seq: u64,
    /// What the loss was taken for, by a sender that tells losses apart.
    pub belief: Option<LossKind>,
    /// Congestion window in segments before.
    pub before: f64,
    /// Congestion window in segments after.
    pub after: f64,
}

/// A sender at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowSample {
    /// End of the interval.
    pub time: Time,
    /// Flow.
    pub flow: u32,
    /// Congestion window in segments; NaN for UDP.
    pub cwnd: f64,
    /// Slow start threshold in segments; NaN for UDP.
    pub ssthresh: f64,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Span,
    /// Mean RTT of the samples of the interval.
    pub rtt: Option<Span>,
    /// Outstanding segments.
    pub flight: u32,
    /// Allowed rate of a rate-based sender in payload bytes per second; NaN for others.
    pub rate: f64,
    /// What speaks for each cause of losses, if its law counts it.
    pub signs: Option<LossSigns>,
    /// Bytes that the proxy holds whose sender it is, what is under way from it included.
    pub held: Option<u64>,
    /// How long playing has stood still so far, after it began; of a player that waits for what has not come.
    pub stalled: Option<Span>,
    /// What a viewer of the flow has.
    pub viewed: Option<Viewed>,
}

/// Video at its viewer at the end of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Viewed {
    /// What the encoder made in the interval, or the newest segment of a player has, in bit/s; none before the first.
    pub rate: Option<f64>,
    /// How old the newest frame was when it was shown; none before the first, and for a player of segments.
    pub frame_delay: Option<Span>,
    /// Playing time of what is there and was not shown.
    pub buffered: Span,
    /// Frames that were shown in the interval; none for a player of segments.
    pub shown: Option<u64>,
}

/// A flow in an interval: its sender at the end, and what its receiver saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowInterval {
    /// The sender at the end of the interval.
    pub sample: FlowSample,
    /// Wire bytes that arrived in the interval.
    pub received: u64,
    /// Payload bytes delivered in order.
    pub delivered: u64,
    /// Packets that arrived, of each range the first.
    pub arrived: u64,
    /// Mean time from the first transmission to that arrival.
    pub delay: Option<Span>,
    /// Packets of the sender that the network lost.
    pub lost: u64,
    /// Packets of a flow that is measured as a viewer or listener has it.
    pub timely: Option<Timely>,
}

/// Packets in an interval, of those that [`crate::realtime`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timely {
    /// Those that left the sender for the first time.
    pub sent: u64,
    /// Those that arrived in time.
    pub arrived: u64,
    /// Those of which it turned out whether they are in time: that arrived, or were lost for good.
    pub settled: u64,
}

/// A direction of a link in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInterval {
    /// End of the interval.
    pub time: Time,
    /// Direction: twice the link's index, plus one for the reverse.
    pub direction: u32,
    /// Packet-nanoseconds of waiting.
    pub waiting: u64,
    /// Nanoseconds of transmission.
    pub busy: u64,
    /// Bytes whose transmission started.
    pub bytes: u64,
}

/// What the MACs at both ends of a radio direction counted in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadioInterval {
    /// End of the interval.
    pub time: Time,
    /// Direction: twice the link's index, plus one for the reverse.
    pub direction: u32,
    /// The counts of the interval alone.
    pub stats: RadioStats,
}

/// The devices at the near end of a direction in an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperInterval {
    /// End of the interval.
    pub time: Time,
    /// Direction: twice the link's index, plus one for the reverse.
    pub direction: u32,
    /// What they counted in the interval alone, and what they hold at its end, by the names of their columns.
    pub counters: Vec<(&'static str, u64)>,
}

/// The PPDU that an MPDU of 802.11n or later is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PpduRecord {
    /// How it was sent.
    pub mode: Mode,
    /// Traffic identifier.
    pub tid: u8,
    /// Packets in the MPDU.
    pub packets: u16,
    /// Number of the PPDU on its channel.
    pub number: u32,
    /// Whether it is an A-MPDU, and this the last of its MPDUs.
    pub place: Option<IsLast>,
}

/// Whether an MPDU is the last of its A-MPDU.
pub type IsLast = bool;

/// What a BlockAck says, or a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRecord {
    /// Traffic identifier.
    pub tid: u8,
    /// Starting sequence number.
    pub start: u16,
    /// Bits of the bitmap: 64 or 256.
    pub length: u16,
    /// Which MPDUs have arrived, from `start` on, the lowest bit first.
    pub bits: [u64; 4],
}

/// A frame of a radio channel, as one station sent it or had it in its receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameRecord {
    /// When its first bit was sent.
    pub start: Time,
    /// When its last bit was there.
    pub end: Time,
    /// Index of the channel in the plan.
    pub medium: u32,
    /// Node that sent it.
    pub from: u32,
    /// Node that it was sent to; `None` for a broadcast.
    pub to: Option<u32>,
    /// Node at which it was seen: the sender itself, or one that received it.
    pub at: u32,
    /// What it is.
    pub kind: FrameKind,
    /// Whether it was sent before.
    pub retry: bool,
    /// Sequence number of data.
    pub sequence: u16,
    /// Bytes of the MPDU.
    pub bytes: u32,
    /// Rate at which it was sent.
    pub rate: Rate,
    /// How long the medium is reserved behind it.
    pub duration: Span,
    /// Power at which it was received, in dBm; NaN at the sender.
    pub dbm: f64,
    /// How it was sent, if it is data of 802.11n or later.
    pub ppdu: Option<PpduRecord>,
    /// What it says, if it is a BlockAck or a request for one.
    pub block: Option<BlockRecord>,
    /// What became of it there.
    pub outcome: FrameOutcome,
    /// The packet in it, as it left its host, if it is still on its way.
    pub packet: Option<HopRecord>,
}

/// Where records go. Those of one kind come in the order of time: packets by their arrival at the link, and those of
/// one instant in the order in which they were settled. An error ends the run.
pub trait Sink {
    /// The clock stands at `now`, [`Time::MAX`] at the end, and what is settled has been handed on. The answer is from
    /// when to when packets on links and windows are wanted from now on: to leave out the others makes a run as fast as
    /// one without a trace. Packets that are lost come whenever that is.
    fn wants(&mut self, now: Time) -> (Time, Time) {
        let _ = now;
        (Time::ZERO, Time::MAX)
    }

    /// A packet on a link.
    fn hop(&mut self, record: &HopRecord) -> io::Result<()> {
        let _ = record;
        Ok(())
    }

    /// A window that has changed.
    fn window(&mut self, record: &WindowRecord) -> io::Result<()> {
        let _ = record;
        Ok(())
    }

    /// What a sender decided.
    fn decision(&mut self, record: &DecisionRecord) -> io::Result<()> {
        let _ = record;
        Ok(())
    }

    /// A flow in an interval; all flows of an interval come one after the other.
    fn flow(&mut self, interval: &FlowInterval) -> io::Result<()> {
        let _ = interval;
        Ok(())
    }

    /// A link in an interval; all links of an interval come one after the other.
    fn link(&mut self, interval: &LinkInterval) -> io::Result<()> {
        let _ = interval;
        Ok(())
    }

    /// A direction of a radio link in an interval; all of an interval come one after the other.
    fn radio(&mut self, interval: &RadioInterval) -> io::Result<()> {
        let _ = interval;
        Ok(())
    }

    /// Devices of a direction in an interval; all of an interval come one after the other.
    fn helper(&mut self, interval: &HelperInterval) -> io::Result<()> {
        let _ = interval;
        Ok(())
    }

    /// A frame of a radio channel at a station; they come in the order of their ends.
    fn frame(&mut self, record: &FrameRecord) -> io::Result<()> {
        let _ = record;
        Ok(())
    }

    /// Whether logs that real stacks write of themselves are wanted.
    fn keeps_logs(&self) -> bool {
        false
    }

    /// The next part of the log of a flow's stack.
    fn log(&mut self, flow: u32, part: &[u8]) -> io::Result<()> {
        let _ = (flow, part);
        Ok(())
    }
}

/// The sink of those who want everything in memory: tests, and Python's data frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// Every packet on every link.
    pub hops: Vec<HopRecord>,
    /// Every change of a window.
    pub windows: Vec<WindowRecord>,
    /// Every decision of a sender.
    pub decisions: Vec<DecisionRecord>,
    /// Every flow in every interval.
    pub flows: Vec<FlowInterval>,
    /// Every direction of a link in every interval.
    pub links: Vec<LinkInterval>,
    /// Every direction of a radio link in every interval.
    pub radios: Vec<RadioInterval>,
    /// The devices of every direction that has any, in every interval.
    pub helpers: Vec<HelperInterval>,
    /// Every frame of radio channels at every station.
    pub frames: Vec<FrameRecord>,
    /// What real stacks wrote of themselves: a flow, and a part of its log.
    pub logs: Vec<(u32, Vec<u8>)>,
}

impl Recorded {
    /// Takes all rows of another, which come later.
    pub fn append(&mut self, other: &mut Recorded) {
        self.hops.append(&mut other.hops);
        self.windows.append(&mut other.windows);
        self.decisions.append(&mut other.decisions);
        self.flows.append(&mut other.flows);
        self.links.append(&mut other.links);
        self.radios.append(&mut other.radios);
        self.helpers.append(&mut other.helpers);
        self.frames.append(&mut other.frames);
        self.logs.append(&mut other.logs);
    }

    /// Rows of all its tables.
    pub fn rows(&self) -> usize {
        let Recorded { hops, windows, decisions, flows, links, radios, helpers, frames, logs: _ } = self;
        let packets = hops.len() + windows.len() + decisions.len() + frames.len();
        packets + flows.len() + links.len() + radios.len() + helpers.len()
    }
}

impl Sink for Recorded {
    fn hop(&mut self, record: &HopRecord) -> io::Result<()> {
        self.hops.push(*record);
        Ok(())
    }

    fn window(&mut self, record: &WindowRecord) -> io::Result<()> {
        self.windows.push(*record);
        Ok(())
    }

    fn decision(&mut self, record: &DecisionRecord) -> io::Result<()> {
        self.decisions.push(*record);
        Ok(())
    }

    fn flow(&mut self, interval: &FlowInterval) -> io::Result<()> {
        self.flows.push(*interval);
        Ok(())
    }

    fn link(&mut self, interval: &LinkInterval) -> io::Result<()> {
        self.links.push(*interval);
        Ok(())
    }

    fn radio(&mut self, interval: &RadioInterval) -> io::Result<()> {
        self.radios.push(*interval);
        Ok(())
    }

    fn helper(&mut self, interval: &HelperInterval) -> io::Result<()> {
        self.helpers.push(interval.clone());
        Ok(())
    }

    fn frame(&mut self, record: &FrameRecord) -> io::Result<()> {
        self.frames.push(*record);
        Ok(())
    }

    fn keeps_logs(&self) -> bool {
        true
    }

    fn log(&mut self, flow: u32, part: &[u8]) -> io::Result<()> {
        self.logs.push((flow, part.to_vec()));
        Ok(())
    }
}

/// Columns of a link's bins.
pub mod link_column {
    /// Packet-nanoseconds of waiting.
    pub const WAITING: usize = 0;
    /// Nanoseconds of transmission.
    pub const BUSY: usize = 1;
    /// Bytes whose transmission started.
    pub const BYTES: usize = 2;
}

/// Columns of a flow's bins.
pub mod flow_column {
    /// Wire bytes that arrived.
    pub const RECEIVED: usize = 0;
    /// Payload bytes delivered in order.
    pub const DELIVERED: usize = 1;
    /// Packets sent for the first time that count for a viewer or listener.
    pub const SENT: usize = 2;
    /// Those of them that arrived in time.
    pub const TIMELY: usize = 3;
    /// Those that arrived or were lost for good.
    pub const SETTLED: usize = 4;
    /// Packets that arrived, of each range the first.
    pub const ARRIVED: usize = 5;
    /// Nanoseconds from their first transmission to this arrival.
    pub const DELAY: usize = 6;
    /// Packets of the sender that were lost.
    pub const LOST: usize = 7;
    /// How many there are.
    pub const COUNT: usize = 8;
}
