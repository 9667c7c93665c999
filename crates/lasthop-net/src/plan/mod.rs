//! A checked description of one run: what `lasthop-sim` makes of a scenario file and `World::new` builds from.
//!
//! Everything here is resolved: no defaults left open, every name replaced by an index, every value in range. The
//! constructor of the world may rely on that; user mistakes end before this point.

mod link;
#[cfg(test)]
pub(crate) mod testing;

use std::collections::BTreeMap;
use std::sync::Arc;

use lasthop_cc::ControllerConfig;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;

pub use link::{
    Arq, Direction, DiscardUnit, ErrorPosition, ErrorScope, Hybrid, LinkPlan, OutagePolicy, OutageSchedule,
    Outages, Report, Split, Warning,
};

pub use crate::channel::*;
pub use crate::device::AtHandoff;
pub use crate::device::Middlebox;
pub use crate::device::ack_filter::AckFilter;
pub use crate::device::cellular::plan as cellular;
pub use crate::device::cellular::plan::CellularPlan;
pub use crate::device::fast_ack::FastAck;
pub use crate::device::fec::Fec;
pub use crate::device::impair::{Impair, Shape};
pub use crate::device::l4span::L4Span;
pub use crate::device::policer::Policer;
pub use crate::device::snoop::{Machine as SnoopMachine, Snoop, Timing as SnoopTiming, Upward, WhenFull};
pub use crate::device::wlan::plan::{
    AggregationPlan, AirtimeLimits, Discards, DriverPlan, Interference, MacPlan, MediumPlan, Queues,
    RadioLink, StationPlan,
};
pub use crate::device::wtcp::Wtcp;
pub use crate::device::zhuge::Zhuge;
pub use crate::history::HistoryPlan;
pub use crate::link::Opportunities;
pub use crate::queue::*;
pub use crate::realtime::plan::RealtimePlan;
pub use crate::roaming::{Choice, OldQueue, RoamingPlan};
pub use crate::traffic::arrival::{Arrivals, Spacing, Start};
pub use crate::traffic::client::Connections;
pub use crate::traffic::size::Size;
pub use crate::traffic::video::FramePlan;
pub use crate::traffic::web::{Objects, WebPlan};
pub use crate::traffic::{Cbr, Ftp, OnOff, PacedFtp, Replay, Traffic, Transfer};
pub use crate::transport::profile::Profile;
pub use crate::transport::rate::config::RateConfig;
pub use crate::transport::tcp::config::{Recovery, TcpConfig};

/// One run, ready to be built. Node and link references are indices into `nodes` and `links`.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name shown in results; the file's stem unless the scenario says otherwise.
    pub name: String,
    /// Simulated length of the run.
    pub duration: Span,
    /// Measurements start here; everything before runs but does not count.
    pub warmup: Span,
    /// The host of a sender keeps each packet for a random time of less than this.
    pub processing_time: Span,
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
    /// Radio channels, over which some of the links run.
    pub media: Vec<MediumPlan>,
    /// Cellular cells, over which others run.
    pub cellular: Vec<Arc<CellularPlan>>,
    /// Hosts that choose among access points.
    pub roaming: Vec<RoamingPlan>,
    /// Flows, each with its own transport.
    pub flows: Vec<FlowPlan>,
    /// The history of paths, if the run keeps one.
    pub history: Option<HistoryPlan>,
    /// What the scenario left to chance.
    pub drawn: Drawn,
}

/// Numbers of a plan that were drawn for its run: what each is called, with its unit (of the SI), and the value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// Once for the run.
    pub run: Vec<(String, f64)>,
    /// For a flow, by its number; only flows that have some.
    pub flows: BTreeMap<usize, Vec<(String, f64)>>,
}

impl Drawn {
    /// Whether nothing was left to chance.
    pub fn is_empty(&self) -> bool {
        self.run.is_empty() && self.flows.is_empty()
    }
}

impl Plan {
    /// The numbers of a flow and of the halves that proxies make of it, in the order in which its data pass them.
    pub fn halves_of(&self, first: usize) -> impl Iterator<Item = usize> + '_ {
        let behind = |&last: &usize| {
            self.flows.iter().position(|flow| flow.relay.is_some_and(|relay| relay.of == last))
        };
        std::iter::successors(Some(first), behind)
    }

    /// The nodes at which a flow of the scenario begins and ends, whatever splits it.
    pub fn ends_of(&self, first: usize) -> (usize, usize) {
        let last = self.halves_of(first).last().unwrap_or(first);
        (self.flows[first].source, self.flows[last].sink)
    }
}

/// A limit on everything: a run that passes one stops with an error that names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Maximum number of events in one run.
    pub events: u64,
    /// Maximum wall-clock time of one run.
    pub wall_time: Span,
}

/// How percentiles of delay and RTT are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Percentiles {
    /// Every sample is kept: exact, 4 bytes a sample (8 once one of them reaches 4.3 s).
    Exact,
    /// Exact below 256 samples a flow, then a histogram with a relative error below 0.4 %.
    Sketch,
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
    /// The nodes of its first path, if that is not just the shortest.
    pub first_path: Option<Box<[usize]>>,
    /// Paths that replace the first one while the run goes on, in the order of time. With a proxy at one of its ends
    /// the path may end at another node than before: the proxy has moved.
    pub reroutes: Vec<Reroute>,
    /// Differentiated services code point of its packets, both ways (RFC 2474).
    pub dscp: u8,
    /// It is a half of a split connection whose ends choose their access points as they go: its paths are parts of
    /// those of the whole.
    pub part: Option<Part>,
    /// Its sender is a proxy's, and passes on what another flow brings.
    pub relay: Option<Relay>,
    /// It is a direction of a connection over which a client asks and a server answers.
    pub exchange: Option<Exchange>,
    /// It stands for many flows that come and go, of which results tell as one.
    pub class: Option<Arc<ClassPlan>>,
}

/// Flows of one class: those that one [`FlowPlan`] stands for, whose arrivals it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassPlan {
    /// How many there are, more than one.
    pub count: u64,
    /// How many flows of its name come before them, as their numbers count.
    pub before: u64,
    /// Sources and sinks that they take in turn.
    pub hosts: Vec<(usize, usize)>,
}

impl FlowPlan {
    /// Whether results have a row for it: it is neither behind a proxy, nor a further connection of a client. Such
    /// flows are behind all others.
    pub fn has_row(&self) -> bool {
        self.relay.is_none() && self.exchange.is_none_or(|part| part.is_lead())
    }
}

/// Which direction of which connection of a client a flow is. The client is described by the traffic of the flow `of`,
/// which carries the answers of its first connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Index of that flow.
    pub of: usize,
    /// Number of the connection, from 0.
    pub connection: u32,
    /// It carries requests; otherwise answers.
    pub asks: bool,
}

impl Exchange {
    /// Whether it stands for the client.
    pub fn is_lead(&self) -> bool {
        self.connection == 0 && !self.asks
    }
}

/// Which part of the paths of a whole connection a half of it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Source and sink of the whole.
    pub ends: (usize, usize),
    /// The nodes at which proxies stand; every path passes equally many of them.
    pub proxies: Vec<usize>,
    /// How many proxies lie before this half.
    pub number: usize,
}

/// What makes a flow the second half of a split connection: a proxy at its source, which is also the sink of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Index of the flow that brings the data. A flow brings data to one other at most, and comes before it.
    pub of: usize,
    /// The proxy answers a SYN only when the connection beyond it is open.
    pub late: bool,
    /// When the path of this flow begins at another node, the proxy's state goes there at this rate.
    pub backhaul: Rate,
    /// And takes so long beside.
    pub transfer: Span,
    /// Otherwise what the proxy knows is lost then.
    pub moves: bool,
    /// The proxy closes the window of the first connection while the link of the sink of this one fades or is down.
    pub zero_windows: bool,
    /// The [`Split`] that says so, and whether this flow runs over the link at whose near end that stands: with the
    /// sender `to_wireless`.
    pub split: (usize, bool),
}

/// A path that a flow takes from some time on, in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reroute {
    /// From when on.
    pub at: Time,
    /// Its nodes, from the source to the sink, each joined to the next by a link.
    pub nodes: Vec<usize>,
    /// What becomes of packets that the change finds on a path that is no longer in force.
    pub under_way: UnderWay,
}

/// What becomes of packets under way when their path is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnderWay {
    /// From the next node on they take the new path, or the shortest way to it over links that no path out of force
    /// uses; lost if there is none.
    Divert,
    /// They are lost at the next node that is theirs alone.
    Lose,
}

/// The transport of a flow.
#[derive(Clone, Debug)]
pub enum Transport {
    /// TCP, all variants. Equal flows share it.
    Tcp(Arc<TcpConfig>),
    /// UDP: no congestion control.
    Udp(UdpConfig),
    /// A rate-based transport over UDP.
    Rate(Arc<RateConfig>),
    /// A transport outside of the world, whose packets are datagrams to it.
    Outside(Arc<OutsideConfig>),
}

impl Transport {
    /// Whether the application gets everything, in order.
    pub fn is_reliable(&self) -> bool {
        match self {
            Transport::Tcp(_) => true,
            Transport::Udp(_) => false,
            Transport::Rate(config) => config.is_reliable(),
            Transport::Outside(config) => config.reliable,
        }
    }

    /// The stack of others that carries it, if one does.
    pub fn stack(&self) -> Option<&StackConfig> {
        match self {
            Transport::Outside(config) => config.stack.as_ref(),
            _ => None,
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
            Transport::Outside(config) => config.payload,
        }
    }
}

/// A transport that lies outside of the world: the driver of the world runs it.
#[derive(Clone, Debug, PartialEq)]
pub struct OutsideConfig {
    /// Its name in results.
    pub name: String,
    /// Bytes added to each datagram on the wire.
    pub header: u32,
    /// Length of the longest datagram in bytes.
    pub datagram: u32,
    /// Most data of the application in one datagram, in bytes.
    pub payload: u32,
    /// Whether the application gets everything, in order.
    pub reliable: bool,
    /// The stack of others that the driver runs; `None` for a driver that brings datagrams of its own.
    pub stack: Option<StackConfig>,
}

/// A transport stack of others, as a scenario names it.
#[derive(Clone, Debug, PartialEq)]
pub struct StackConfig {
    /// Its name.
    pub name: &'static str,
    /// Its congestion control.
    pub congestion: String,
    /// The controller behind that name, if it is one of this project and not the stack's.
    pub controller: Option<ControllerConfig>,
    /// Whether both ends have met before, so that data leaves with the first flight: 0-RTT.
    pub early_data: bool,
    /// Whether data goes in datagrams, none of which is sent again (RFC 9221), and not over a stream.
    pub datagrams: bool,
}

/// UDP parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpConfig {
    /// Bytes added to each datagram on the wire: 28 (IP and UDP), 0 in the `ns2` profile.
    pub header: u32,
    /// Largest payload of one datagram in bytes; larger application writes are split.
    pub payload: u32,
}
