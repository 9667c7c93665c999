//! The link's part of a plan: rate, delay, queue, what the air does, and what stands at its ends.

use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

use crate::channel::ErrorModel;
use crate::device::Middlebox;
use crate::device::two_loads::LightLoad;
use crate::link::Opportunities;
use crate::queue::QueuePlan;
use crate::transport::tcp::config::TcpConfig;

/// A full-duplex point-to-point link: two independent directions.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// Unique name; the directions are shown as `name` and `name (reverse)`.
    pub name: String,
    /// The node at which the forward direction starts.
    pub from: usize,
    /// The node at which the forward direction ends.
    pub to: usize,
    /// `from` -> `to`. Equal links share it, as they do the other.
    pub forward: Arc<Direction>,
    /// `to` -> `from`.
    pub reverse: Arc<Direction>,
}

impl LinkPlan {
    /// The name of a direction: even numbers run forward.
    pub fn direction_name(&self, direction: u32) -> String {
        if direction.is_multiple_of(2) { self.name.clone() } else { format!("{} (reverse)", self.name) }
    }
}

/// A proxy at a node that ends every TCP connection there and opens one of its own beyond (I-TCP; RFC 3135).
#[derive(Clone, Debug)]
pub struct Split {
    /// Which of the scenario's proxies it is.
    pub number: usize,
    /// Bytes that it holds for each connection, of either direction: what is free is the window that it advertises.
    pub buffer: u64,
    /// It answers a SYN only when the connection beyond it is open.
    pub late: bool,
    /// Its sender over the link at whose near end it stands.
    pub to_wireless: Arc<TcpConfig>,
    /// Its sender for what has come over that link.
    pub to_wired: Arc<TcpConfig>,
    /// State goes to the proxy of a later path at this rate.
    pub backhaul: Rate,
    /// And takes so long beside.
    pub transfer: Span,
    /// Unless it does not move at all: then connections end where the path of a flow leads over another proxy.
    pub moves: bool,
    /// It closes the window of the sender towards the wireless host while that host's link fades or is down (M-TCP).
    pub zero_windows: bool,
}

impl PartialEq for Split {
    fn eq(&self, other: &Split) -> bool {
        self.number == other.number
    }
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Transmission rate at the start of the run, never zero.
    pub rate: Rate,
    /// From when on it is another, ascending. A rate of zero is a pause.
    pub rate_changes: Vec<(Time, Rate)>,
    /// When the link may send, if that is recorded: in place of a rate, which then is the mean.
    pub opportunities: Option<Opportunities>,
    /// Propagation delay.
    pub delay: Span,
    /// From when on it is another, ascending. Packets keep their order.
    pub delay_changes: Vec<(Time, Span)>,
    /// Largest packet in bytes; larger ones are refused when the plan is checked.
    pub mtu: u32,
    /// What packets wait in at the head of the link.
    pub queue: QueuePlan,
    /// What corrupts packets in the air.
    pub error: ErrorModel,
    /// Where it judges them.
    pub error_position: ErrorPosition,
    /// Which ones.
    pub error_scope: ErrorScope,
    /// Times at which the link is down.
    pub outages: Outages,
    /// Retransmission by the link itself, if it does that.
    pub arq: Option<Arq>,
    /// A proxy at the near end of the link that splits connections. It makes two flows of one, each of which has a plan
    /// of its own; the world does not look here.
    pub split: Option<Split>,
    /// What stands at the near end of the link, in the order in which departing packets meet it; packets that arrive
    /// from the other direction meet it in the opposite order.
    pub middleboxes: Vec<Middlebox>,
}

impl Direction {
    /// A direction of this rate and delay without anything else: no limit, no losses.
    pub fn plain(rate: Rate, delay: Span) -> Direction {
        Direction {
            rate,
            rate_changes: Vec::new(),
            opportunities: None,
            delay,
            delay_changes: Vec::new(),
            mtu: 1500,
            queue: QueuePlan::default(),
            error: ErrorModel::None,
            error_position: ErrorPosition::AfterTransmission,
            error_scope: ErrorScope::EVERYTHING,
            outages: Outages { schedule: OutageSchedule::None, policy: OutagePolicy::DropAir, warning: None },
            arq: None,
            split: None,
            middleboxes: Vec::new(),
        }
    }

    /// Whether the packets that wait lie in a device, which decides when they leave, instead of being on their way
    /// already.
    pub fn holds_packets(&self) -> bool {
        !self.queue.decides_at_arrival()
            || self.middleboxes.iter().any(Middlebox::goes_ahead)
            || self.light().is_some()
    }

    /// What the link does while it is not full, if a recording says it.
    pub fn light(&self) -> Option<&Arc<LightLoad>> {
        self.opportunities.as_ref()?.light.as_ref()
    }
}

/// Link-layer retransmission (ARQ) on one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Arq {
    /// Maximum number of frames that are neither acknowledged nor given up; 1 is stop-and-wait.
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
    /// What is sent again is parity, and the far end keeps what has come (type II); `None` sends the frame again.
    pub hybrid: Option<Hybrid>,
}

/// Frames in pieces, and parity in place of retransmissions (type-II hybrid ARQ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hybrid {
    /// Pieces of a frame, each judged by the error model on its own: any of that number of those sent rebuild it.
    pub pieces: u32,
    /// Pieces of parity in every transmission beyond the first.
    pub parity: u32,
}

impl Hybrid {
    /// What a scenario gets that says no more than that it wants parity.
    pub const USUAL: Hybrid = Hybrid { pieces: 8, parity: 2 };
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
    /// No sender.
    Off,
    /// Senders at the link's own near end.
    Local,
    /// These at once, and the senders of all other flows after the unloaded delay of the reverse path.
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

/// Where on the link the error model sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPosition {
    /// After transmission: a lost packet has used its air time. On a link with retransmission each attempt is judged.
    /// The default.
    AfterTransmission,
    /// At the head of the link: a lost packet uses neither buffer nor air time.
    BeforeQueue,
    /// Behind the retransmissions of the link: what leaves it is judged once, and not repeated.
    AfterArq,
}

/// Which packets the error model judges; others are never lost, and are not counted in lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorScope {
    /// Judged are packets from this time on,
    pub from: Time,
    /// until this time,
    pub until: Time,
    /// of this many bytes at least.
    pub at_least: u32,
}

impl ErrorScope {
    /// All of them.
    pub const EVERYTHING: ErrorScope = ErrorScope { from: Time::ZERO, until: Time::MAX, at_least: 0 };
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
