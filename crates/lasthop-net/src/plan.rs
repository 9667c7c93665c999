//! A checked description of one run: what `lasthop-sim` makes of a scenario file and `World::new` builds from.
//!
//! Everything here is resolved: no defaults left open, every name replaced by an index, every value in range. The
//! constructor of the world may rely on that; user mistakes end before this point.

use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

pub use crate::history::HistoryPlan;
pub use crate::realtime::plan::RealtimePlan;
pub use crate::traffic::video::FramePlan;
pub use crate::transport::rate::config::RateConfig;
pub use crate::transport::tcp::config::{Profile, Recovery, TcpConfig};

/// One run, ready to be built. Node and link references are indices into `nodes` and `links`.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name shown in results; the file's stem unless the scenario says otherwise.
    pub name: String,
    /// Simulated length of the run.
    pub duration: Span,
    /// Measurements start here; everything before runs but does not count.
    pub warmup: Span,
    /// Seed of the run when the caller gives none.
    pub seed: u64,
    /// Limits after which the run ends with a named error instead of going on.
    pub limits: Limits,
    /// Interval of the optional time series.
    pub series_interval: Span,
    /// How delay and RTT percentiles are kept.
    pub percentiles: Percentiles,
    /// Node names, each once.
    pub nodes: Vec<String>,
    /// Full-duplex links.
    pub links: Vec<LinkPlan>,
    /// Flows, each with its own transport.
    pub flows: Vec<FlowPlan>,
    /// The history of paths, if the run keeps one.
    pub history: Option<HistoryPlan>,
}

/// A limit on everything: a run that passes one stops with an error that names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Most events of one run.
    pub events: u64,
    /// Most wall-clock time of one run.
    pub wall_time: Span,
}

/// How percentiles of delay and RTT are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percentiles {
    /// Every sample is kept: exact, 4 bytes a sample.
    Exact,
    /// Exact below 256 samples a flow, then a histogram with a relative error below 0.4 %.
    Sketch,
}

/// A full-duplex point-to-point link: two independent directions.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// Unique name; the directions are shown as `name` and `name (reverse)`.
    pub name: String,
    /// The node at which the forward direction starts.
    pub from: usize,
    /// The node at which the forward direction ends.
    pub to: usize,
    /// `from` -> `to`.
    pub forward: Direction,
    /// `to` -> `from`.
    pub reverse: Direction,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Transmission rate, never zero.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Span,
    /// Largest packet in bytes; larger ones are refused when the plan is checked.
    pub mtu: u32,
    /// Room for packets at the head of the link.
    pub queue: QueueLimit,
    /// From which queue on ECN-capable packets are marked, if they are.
    pub mark: Option<MarkThreshold>,
    /// Packet losses in the air.
    pub error: ErrorModel,
    /// Times at which the link is down.
    pub outages: Outages,
    /// Retransmission by the link itself, if it does that.
    pub arq: Option<Arq>,
}

/// Link-layer retransmission (ARQ) on one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Arq {
    /// Most frames that are neither acknowledged nor given up; 1 is stop-and-wait.
    pub window: u32,
    /// Most transmissions of a frame, at least 1.
    pub attempts: u32,
    /// Time from the start of a transmission to the next attempt; `None`: long enough for the frame and its
    /// acknowledgement, and 1 ms.
    pub timeout: Option<Span>,
    /// Whether frames above a gap wait until it is filled or skipped.
    pub in_order: bool,
    /// Bytes of a link acknowledgement.
    pub ack_size: u32,
    /// Probability that a link acknowledgement is lost.
    pub ack_error_rate: f64,
    /// Who learns what the link does.
    pub report: Report,
    /// What one `MacDiscard` of the sending MAC stands for.
    pub discards: DiscardUnit,
    /// Least time between two notices of a bad state (EBSN) to the same sender; `None` sends none.
    pub ebsn: Option<Span>,
}

impl Arq {
    /// From the start of a transmission of `bytes` at `rate` to the next attempt.
    pub fn timeout_for(&self, rate: Rate, delay: Span, bytes: u64) -> Span {
        const SLACK: Span = Span::from_millis(1);
        let usual =
            || delay * 2 + rate.serialisation(bytes) + rate.serialisation(self.ack_size.into()) + SLACK;
        self.timeout.unwrap_or_else(usual)
    }
}

/// Who is told of acknowledgements, retries and losses of a link with retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Nobody.
    Off,
    /// Senders at the link's own near end.
    Local,
    /// These at once, and the senders of all other flows after the unloaded delay of the way back.
    Proxy,
}

/// What one `MacDiscard` of the sending MAC stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardUnit {
    /// A failed attempt (`ACKFailureCount` of IEEE 802.11).
    Attempt,
    /// A frame given up (`FailedCount`).
    Frame,
}

/// Drop-tail limit. It counts the waiting packets **and** the one in service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// At most so many packets, at least 1.
    Packets(u32),
    /// At most so many bytes.
    Bytes(u64),
    /// No limit.
    Unlimited,
}

/// An arriving packet is marked if it finds at least this much in the queue, the packet in service included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkThreshold {
    /// So many packets.
    Packets(u32),
    /// So many bytes.
    Bytes(u64),
}

/// What loses packets on a link, judged after the packet has used the link or before the queue.
#[derive(Clone, Debug, PartialEq)]
pub enum ErrorModel {
    /// Nothing is lost.
    None,
    /// Each packet is lost independently with probability `packet_error_rate`, in 0..=1.
    Bernoulli {
        /// Probability of loss of each packet.
        packet_error_rate: f64,
        /// Where the packet is judged.
        position: ErrorPosition,
    },
    /// The packets with these numbers are lost: 0 is the first packet that is judged in this direction.
    /// Sorted, unique.
    List {
        /// Numbers of the lost packets.
        packets: Vec<u64>,
        /// Where the packet is judged.
        position: ErrorPosition,
    },
}

/// Where on the link the error model sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPosition {
    /// After transmission: a lost packet has used its air time. The default.
    AfterTransmission,
    /// At the head of the link: a lost packet uses neither buffer nor air time.
    BeforeQueue,
}

/// When a link is down, and what becomes of packets then.
#[derive(Clone, Debug, PartialEq)]
pub struct Outages {
    /// The times.
    pub schedule: OutageSchedule,
    /// What becomes of packets.
    pub policy: OutagePolicy,
    /// Whether the hosts at both ends see an outage coming.
    pub warning: Option<Warning>,
}

/// How outages are announced to the hosts at the ends of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warning {
    /// So long before they begin.
    pub lead: Span,
    /// Probability that an outage comes without a warning.
    pub miss: f64,
    /// Warnings in the run that no outage follows.
    pub false_alarms: u32,
}

/// The times at which a link is down.
#[derive(Clone, Debug, PartialEq)]
pub enum OutageSchedule {
    /// Never.
    None,
    /// Explicit `(start, length)` pairs, sorted, not overlapping.
    Listed(Vec<(Time, Span)>),
    /// `count` outages of `length`, uniform and not overlapping over the run, drawn per link from the seed.
    Random {
        /// Number of outages in the run.
        count: u32,
        /// Length of each.
        length: Span,
    },
}

/// What becomes of packets while the link is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutagePolicy {
    /// The link keeps draining; whatever it transmits during the outage is lost. The default.
    DropAir,
    /// Arriving packets are dropped, the queue is flushed and packets in flight are lost.
    Drop,
    /// Packets wait in the queue until the link returns; those already in flight arrive.
    Hold,
}

/// One flow: a sender at `source`, a receiver at `sink`.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Unique name.
    pub name: String,
    /// Index of the sending node.
    pub source: usize,
    /// Index of the receiving node.
    pub sink: usize,
    /// The transport, with all its parameters.
    pub transport: Transport,
    /// What the application offers.
    pub traffic: Traffic,
    /// When the application starts.
    pub start: Start,
    /// When the application stops offering data, if ever.
    pub stop: Option<Time>,
    /// How real-time metrics are measured, if they are.
    pub realtime: Option<Box<RealtimePlan>>,
}

/// When a flow starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At this time.
    At(Time),
    /// Uniformly in `[from, to)`, drawn from the flow's own stream.
    Uniform(Time, Time),
}

/// The transport of a flow.
#[derive(Clone, Debug)]
pub enum Transport {
    /// TCP, all variants.
    Tcp(Box<TcpConfig>),
    /// UDP: no congestion control.
    Udp(UdpConfig),
    /// A rate-based transport over UDP.
    Rate(Box<RateConfig>),
}

impl Transport {
    /// Whether the application gets everything, in order.
    pub fn is_reliable(&self) -> bool {
        match self {
            Transport::Tcp(_) => true,
            Transport::Udp(_) => false,
            Transport::Rate(config) => config.is_reliable(),
        }
    }

    /// Number of the first byte of data: a SYN takes one before it.
    pub fn first_byte(&self) -> u64 {
        u64::from(matches!(self, Transport::Tcp(_)))
    }

    /// Most payload of a packet.
    pub fn payload(&self) -> u32 {
        match self {
            Transport::Tcp(config) => config.mss(),
            Transport::Udp(config) => config.payload,
            Transport::Rate(config) => config.payload(),
        }
    }
}

/// UDP parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpConfig {
    /// Bytes added to each datagram on the wire: 28 (IP and UDP), 0 in the `ns2` profile.
    pub header: u32,
    /// Largest payload of one datagram in bytes; larger application writes are split.
    pub payload: u32,
}

/// What the application offers. Sizes are payload bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// A file of `bytes` (or without end) handed to the transport at the start.
    Ftp {
        /// Length of the transfer; `None` never ends.
        bytes: Option<u64>,
    },
    /// `write` bytes every `interval`; TCP queues without bound what it cannot send.
    PacedFtp {
        /// Bytes of one write.
        write: u32,
        /// Time between writes.
        interval: Span,
        /// Total length; `None` never ends.
        bytes: Option<u64>,
    },
    /// Constant bit rate: one packet of `packet` bytes every `8 * packet / rate`.
    Cbr {
        /// Payload rate.
        rate: Rate,
        /// Bytes of one packet.
        packet: u32,
        /// Multiply every gap by U(0.5, 1.5).
        random: bool,
    },
    /// Exponential on/off as ns-2's `Application/Traffic/Exponential`.
    OnOff {
        /// Payload rate while on.
        rate: Rate,
        /// Bytes of one packet.
        packet: u32,
        /// Mean length of a burst.
        on: Span,
        /// Mean length of a pause.
        off: Span,
    },
    /// Frames at equal intervals, such as video.
    Frames(Arc<FramePlan>),
}

impl Traffic {
    /// Whether the bytes are pictures, so that real-time metrics are measured unasked.
    pub fn is_video(&self) -> bool {
        matches!(self, Traffic::Frames(_))
    }

    /// The payload rate that the source is set to, averaged over its pauses; a file has none.
    pub fn nominal_rate(&self) -> Option<Rate> {
        match *self {
            Traffic::Ftp { .. } => None,
            Traffic::PacedFtp { write, interval, .. } => {
                Some(Rate((f64::from(write) * 8.0 / interval.seconds()).round() as u64))
            }
            Traffic::Cbr { rate, .. } => Some(rate),
            Traffic::OnOff { rate, on, off, .. } => {
                let active = on.seconds() / (on.seconds() + off.seconds());
                Some(Rate((rate.0 as f64 * active).round() as u64))
            }
            Traffic::Frames(ref frames) => Some(Rate(frames.mean_rate().round() as u64)),
        }
    }
}
