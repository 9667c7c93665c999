//! The world of one run: senders, applications and the network between them, and the loop that moves time.
//!
//! `lasthop-sim` builds a world from a plan, runs it and reads the measurements.

use lasthop_cc::{LossKind, Signal};
use lasthop_core::event::Target;
use lasthop_core::packet::Packet;
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use crate::frames::Frame;
use crate::handoff::{HostEvent, host_events};
use crate::history::{HistoryEntry, Keeper};
use crate::link::Link;
use crate::measure::{Durations, FlowStats, Observers, Window};
use crate::network::{Network, Next, Place, Receiver, event_kind};
use crate::plan::{Plan, Start, TcpConfig, Traffic, Transport};
use crate::realtime::Realtime;
use crate::routing::{DirectionId, Routes};
use crate::trace::{Bins, FlowSample, Recording, WindowRecord};
use crate::traffic::video::Packing;
use crate::traffic::{Offer, Source, stream_of};
use crate::transport::extra::Extra;
use crate::transport::rate::receiver::RateReceiver;
use crate::transport::rate::sender::RateSender;
use crate::transport::tcp::receiver::TcpReceiver;
use crate::transport::tcp::sender::{TcpSender, Wire};
use crate::transport::udp::UdpSender;

/// What the host at an end of a flow learns of `direction`, the link that it is attached to. Empty without outages.
fn own_link_events(
    network: &Network,
    plan: &Plan,
    seed: u64,
    direction: Option<&DirectionId>,
) -> impl Iterator<Item = (Time, HostEvent)> + use<> {
    let events = direction.map(|&direction| {
        let outages = network.links[direction as usize].outages();
        let link = &plan.links[direction as usize / 2];
        let is_forward = direction.is_multiple_of(2);
        let warning = if is_forward { &link.forward } else { &link.reverse }.outages.warning;
        let suffix = if is_forward { "" } else { " (reverse)" };
        let mut stream = Stream::new(seed, &format!("warnings of {}{suffix}", link.name));
        host_events(outages, warning, plan.duration, &mut stream)
    });
    events.into_iter().flatten()
}

/// Tells both ends of a flow what they want to know of the links that they are attached to, and the sender what links
/// with retransmission report.
fn tell_of_links(
    network: &mut Network,
    plan: &Plan,
    seed: u64,
    (flow, config): (u32, &TcpConfig),
    path: &[DirectionId],
) {
    let signals = config.needs().signals;
    network.listen(flow, path, signals, config.mobility.ebsn);
    if signals || config.mobility.watches_link() {
        for (at, event) in own_link_events(network, plan, seed, path.first()) {
            let signal = match event {
                HostEvent::Fading(warning) => Signal::LinkFading { warning },
                HostEvent::Up => Signal::LinkUp,
                HostEvent::Handoff => Signal::HandoffDone,
            };
            network.signal(flow, signal, at);
        }
    }
    if config.mobility.watches_link() {
        let events = own_link_events(network, plan, seed, path.last()).collect();
        network.watch_link(flow, config.mobility, events);
    }
}

/// Mean of the samples added since `last`, the count and sum of then, which become those of now.
fn mean_since(last: &mut (u64, u64), durations: &Durations) -> Option<Span> {
    let now = (durations.count(), durations.sum());
    let then = std::mem::replace(last, now);
    (now.0 > then.0).then(|| Span((now.1 - then.1) / (now.0 - then.0)))
}

/// The loop asks whether to go on once in so many events.
const EVENTS_PER_CHECK: u64 = 1 << 15;

/// The sending end of a flow.
#[derive(Clone, Debug)]
pub enum Sender {
    /// TCP.
    Tcp(Box<TcpSender>),
    /// UDP.
    Udp(UdpSender),
    /// A rate-based transport over UDP.
    Rate(Box<RateSender>),
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Simulated time.
    pub now: Time,
    /// Events so far.
    pub events: u64,
    /// Packets times links so far.
    pub packet_hops: u64,
}

/// A world and its clock.
#[derive(Clone, Debug)]
pub struct World {
    /// Links, receivers and what they counted.
    pub network: Network,
    /// Senders by flow.
    pub senders: Vec<Sender>,
    sources: Vec<Source>,
    /// What they sent.
    pub sent: Vec<Sent>,
    started: Vec<bool>,
    stopped: Vec<bool>,
    now: Time,
    end: Time,
    events: u64,
    sample_interval: Span,
    /// Samples of the senders, if a series is recorded.
    pub samples: Vec<FlowSample>,
    /// RTT count and sum of each flow at the last sample.
    last_rtt: Vec<(u64, u64)>,
    /// Every change of a window, if a trace is recorded.
    pub windows: Option<Vec<WindowRecord>>,
    /// The history of paths, if the run keeps one.
    history: Option<Box<Keeper>>,
    /// Whether anybody looks at what a sender did: for the trace or for the history.
    watched: bool,
}

/// What a flow's transport handed to the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// First transmission of the flow.
    pub first: Option<Time>,
    /// Forward packets sent within the measurement window.
    pub packets: u64,
    /// First place of the flow's path.
    first_hop: u32,
    /// Real-time metrics count what is sent as well.
    is_realtime: bool,
}

/// A sender's access to the network.
struct Port<'a> {
    network: &'a mut Network,
    sent: &'a mut Sent,
    flow: u32,
}

impl Wire for Port<'_> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "see `PacketArena::insert`")]
    fn send(&mut self, packet: Packet, now: Time) {
        self.sent.first.get_or_insert(now);
        self.sent.packets += u64::from(self.network.window.contains(now));
        if self.sent.is_realtime {
            self.network.note_sent(self.flow, &packet, now);
        }
        self.network.launch(packet, self.sent.first_hop, now);
    }

    #[inline]
    fn wake(&mut self, at: Time) {
        self.network.schedule(at, Target::new(event_kind::SENDER, self.flow));
    }

    fn attach(&mut self, extra: Extra) -> u32 {
        self.network.attach(extra)
    }

    fn truth(&self, seq: u64) -> Option<LossKind> {
        self.network.truth(self.flow, seq)
    }
}

/// Both directions of every link.
fn links_of(plan: &Plan, seed: u64, series_interval: Option<Span>) -> Vec<Link> {
    let mut links = Vec::with_capacity(2 * plan.links.len());
    for link in &plan.links {
        let reverse_name = format!("{} (reverse)", link.name);
        for (direction, name) in [(&link.forward, &link.name), (&link.reverse, &reverse_name)] {
            links.push(Link::new(direction, name, seed, plan.duration, series_interval));
        }
    }
    links
}

impl World {
    /// Builds the world of a plan. Every random stream is keyed by `seed` and the name of its consumer.
    pub fn new(plan: &Plan, seed: u64, recording: Recording) -> World {
        let end = Time::ZERO + plan.duration;
        let window = Window { from: Time::ZERO + plan.warmup, to: end };
        let series_interval = recording.series.then_some(plan.series_interval);
        let links = links_of(plan, seed, series_interval);
        let mut routes = Routes::new(plan.nodes.len(), &plan.links);
        let mut paths = Vec::with_capacity(plan.flows.len());
        let mut receivers = Vec::with_capacity(plan.flows.len());
        let mut senders = Vec::with_capacity(plan.flows.len());
        let mut sources = Vec::with_capacity(plan.flows.len());
        let mut flows = Vec::with_capacity(plan.flows.len());
        for flow in &plan.flows {
            let Some(path) = routes.path(flow.source, flow.sink) else {
                unreachable!("the plan is checked: every sink can be reached")
            };
            paths.push(path);
            match &flow.transport {
                Transport::Tcp(config) => {
                    let mut clock = Stream::new(seed, &format!("clock of {}", flow.name));
                    receivers.push(Receiver::Tcp(Box::new(TcpReceiver::new(config))));
                    let sender = TcpSender::new(config, &mut clock, window, plan.percentiles);
                    senders.push(Sender::Tcp(Box::new(sender)));
                }
                Transport::Udp(config) => {
                    receivers.push(Receiver::Udp);
                    senders.push(Sender::Udp(UdpSender::new(*config)));
                }
                Transport::Rate(config) => {
                    let sampling = Stream::new(seed, &format!("sampling of {}", flow.name));
                    receivers.push(Receiver::Rate(Box::new(RateReceiver::new(config, sampling))));
                    let sender = RateSender::new(config, window, plan.percentiles);
                    senders.push(Sender::Rate(Box::new(sender)));
                }
            }
            let mut stats = FlowStats::new(plan.percentiles);
            if series_interval.is_some() || flow.realtime.is_some() {
                let measure = |plan| Realtime::new(plan, (&flow.traffic, &flow.transport), window, flow.stop);
                stats.observe(Observers {
                    bins: series_interval.map(|interval| Bins::new(interval, plan.duration)),
                    realtime: flow.realtime.as_deref().map(measure),
                });
            }
            flows.push(stats);
            let stream = stream_of(seed, &flow.name);
            sources.push(Source::new(&flow.traffic, Packing::of(&flow.transport), stream));
        }
        let (mut network, first_hops) = Network::new(links, &paths, receivers, flows, window);
        for (flow, index) in plan.flows.iter().zip(0u32..) {
            if let Transport::Tcp(config) = &flow.transport
                && config.needs().classifies
            {
                network.keep_truths(index as usize);
            }
            let path = &paths[index as usize];
            let start = match flow.start {
                Start::At(time) => time,
                Start::Uniform(from, to) => {
                    let mut stream = Stream::new(seed, &format!("start of {}", flow.name));
                    from + Span(stream.below(to.since(from).0))
                }
            };
            if let Transport::Tcp(config) = &flow.transport {
                tell_of_links(&mut network, plan, seed, (index, config), path);
                let bytes = config.mss() + config.data_header();
                if let Some((timeout, delay)) = network.link_timeout(index, path, bytes) {
                    network.signal(index, Signal::LinkTimeout { timeout }, start + delay);
                }
            }
            network.schedule(start, Target::new(event_kind::TRAFFIC, index));
            if let Some(stop) = flow.stop {
                network.schedule(stop, Target::new(event_kind::STOP, index));
            }
        }
        if recording.series {
            network.schedule(Time::ZERO + plan.series_interval, Target::new(event_kind::SAMPLE, 0));
        }
        if recording.trace {
            network.start_trace();
        }
        let sent = first_hops.into_iter().zip(&plan.flows).map(|(first_hop, flow)| {
            let is_realtime = flow.realtime.is_some();
            Sent { first_hop, is_realtime, ..Sent::default() }
        });
        World {
            network,
            senders,
            sources,
            sent: sent.collect(),
            started: vec![false; plan.flows.len()],
            stopped: vec![false; plan.flows.len()],
            now: Time::ZERO,
            end,
            events: 0,
            sample_interval: plan.series_interval,
            samples: Vec::new(),
            last_rtt: vec![(0, 0); plan.flows.len()],
            windows: recording.trace.then(Vec::new),
            history: Keeper::of(plan),
            watched: recording.trace || plan.history.is_some(),
        }
    }

    /// Runs to the end. `go_on` is asked now and then; its error stops the run.
    pub fn run<E>(&mut self, mut go_on: impl FnMut(Standing) -> Result<(), E>) -> Result<(), E> {
        let mut until_check = EVENTS_PER_CHECK;
        while let Some(next) = self.network.next_event() {
            let (Next::Arrival(event) | Next::Timer(event)) = next;
            if event.time() > self.end {
                break;
            }
            self.now = event.time();
            match next {
                Next::Arrival(_) => self.on_arrival(),
                Next::Timer(_) => self.on_event(event.target()),
            }
            until_check -= 1;
            if until_check == 0 {
                until_check = EVENTS_PER_CHECK;
                self.events += EVENTS_PER_CHECK;
                go_on(self.standing())?;
            }
        }
        self.events += EVENTS_PER_CHECK - until_check;
        self.now = self.end;
        self.close_connections();
        self.network.close_ledger();
        debug_assert!(self.network.ledger.balances(), "{:?}", self.network.ledger);
        go_on(self.standing())
    }

    /// How far the run has come.
    pub fn standing(&self) -> Standing {
        Standing { now: self.now, events: self.events, packet_hops: self.network.packet_hops }
    }

    /// A packet has reached the place that it waited for.
    #[inline]
    fn on_arrival(&mut self) {
        let Some((index, hop)) = self.network.take_arrival() else { return };
        if hop.place() != Place::Sender {
            self.network.walk(index, self.now);
            return;
        }
        let (packet, extra) = self.network.receive_at_sender(index);
        if let Sender::Rate(_) = &self.senders[hop.flow as usize] {
            self.with_paced(hop.flow as usize, |sender, now, port| {
                sender.on_feedback(&packet, extra.as_ref(), now, port);
            });
            return;
        }
        self.with_tcp(hop.flow as usize, |sender, now, port| {
            sender.on_ack(&packet, extra.as_ref(), now, port);
        });
    }

    /// Anything else happens.
    fn on_event(&mut self, target: Target) {
        self.network.take_timer();
        let index = target.index();
        match target.kind() {
            event_kind::SENDER => {
                self.with_tcp(index, |sender, now, port| sender.on_timer(now, port));
                self.with_paced(index, |sender, now, port| sender.on_timer(now, port));
            }
            event_kind::RECEIVER => self.network.on_receiver_timer(index as u32, self.now),
            event_kind::TRAFFIC => self.on_traffic(index),
            event_kind::STOP => {
                self.stopped[index] = true;
                let cut_short = !self.sources[index].is_exhausted();
                self.with_tcp(index, |sender, now, port| {
                    sender.stats.withdrawn |= cut_short;
                    sender.on_close(true, now, port);
                });
                self.with_paced(index, |sender, now, port| {
                    sender.stats.withdrawn |= cut_short;
                    sender.on_close(true, now, port);
                });
            }
            event_kind::SAMPLE => self.sample(),
            event_kind::LINK => self.network.run_arq(index as u32, self.now),
            event_kind::SIGNAL => {
                let (flow, signal) = self.network.take_signal(index);
                self.with_tcp(flow as usize, |sender, now, port| sender.on_signal(&signal, now, port));
            }
            kind => unreachable!("no event of kind {kind}"),
        }
    }

    /// Lets a TCP sender act now, and records its window if that changed.
    #[inline]
    fn with_tcp(&mut self, flow: usize, act: impl FnOnce(&mut TcpSender, Time, &mut Port<'_>)) {
        let Sender::Tcp(sender) = &mut self.senders[flow] else { return };
        let before = sender.window();
        let mut port = Port { network: &mut self.network, sent: &mut self.sent[flow], flow: flow as u32 };
        act(sender, self.now, &mut port);
        if self.watched {
            self.watch(flow, before);
        }
    }

    /// Notes what a sender did to its window, which was `before`, and whether its connection has ended.
    #[cold]
    fn watch(&mut self, flow: usize, before: lasthop_cc::Window) {
        let Sender::Tcp(sender) = &self.senders[flow] else { return };
        let after = sender.window();
        if after != before
            && let Some(windows) = &mut self.windows
        {
            windows.push(WindowRecord {
                time: self.now,
                flow: flow as u32,
                cwnd: after.cwnd,
                ssthresh: after.ssthresh,
            });
        }
        let Some(history) = &mut self.history else { return };
        if after != before {
            history.change(flow, self.now, sender.limited_window());
        }
        if sender.stats.completed.is_some() {
            history.close(flow, self.now, sender.srtt(), sender.has_reduced());
        }
    }

    /// A connection of `flow` is about to open: it may start from what earlier ones left.
    fn recall(&mut self, flow: usize) {
        let (Some(history), Sender::Tcp(sender)) = (&mut self.history, &mut self.senders[flow]) else {
            return;
        };
        if let Some(least) = sender.history_needed() {
            sender.remember(history.samples(flow, self.now, least));
        }
        history.open(flow, self.now, sender.limited_window());
    }

    /// The run ends, and with it every connection.
    fn close_connections(&mut self) {
        let Some(history) = &mut self.history else { return };
        for (flow, sender) in self.senders.iter().enumerate() {
            if let Sender::Tcp(sender) = sender {
                history.close(flow, self.now, sender.srtt(), sender.has_reduced());
            }
        }
    }

    /// What the run has added to the history of paths, oldest first; `None` if it keeps none.
    pub fn new_history(&self) -> Option<&[HistoryEntry]> {
        self.history.as_ref().map(|history| history.added())
    }

    /// Lets a rate-based sender act now.
    fn with_paced(&mut self, flow: usize, act: impl FnOnce(&mut RateSender, Time, &mut Port<'_>)) {
        let Sender::Rate(sender) = &mut self.senders[flow] else { return };
        let mut port = Port { network: &mut self.network, sent: &mut self.sent[flow], flow: flow as u32 };
        act(sender, self.now, &mut port);
    }

    /// An application starts or writes again.
    fn on_traffic(&mut self, flow: usize) {
        if self.stopped[flow] {
            return;
        }
        let started = std::mem::replace(&mut self.started[flow], true);
        if !started {
            self.recall(flow);
            if let Some(realtime) = self.network.flows[flow].realtime_mut() {
                realtime.begin(self.now);
            }
        }
        let source = &mut self.sources[flow];
        let Offer { bytes, next } = if started { source.next(self.now) } else { source.start(self.now) };
        let sent = &mut self.sent[flow];
        if sent.is_realtime
            && let Some(realtime) = self.network.flows[flow].realtime_mut()
        {
            // Before the transport gets the bytes: receivers may see them at once.
            realtime.note_frames(source.frames(), next.is_none());
        }
        if let Sender::Udp(sender) = &mut self.senders[flow] {
            let mut port = Port { network: &mut self.network, sent, flow: flow as u32 };
            sender.on_data(bytes.unwrap_or(0), self.now, &mut port);
        } else {
            let finished = next.is_none() && bytes.is_some();
            self.with_tcp(flow, |sender, now, port| {
                sender.on_data(bytes, now, port);
                if finished {
                    sender.on_close(false, now, port);
                }
            });
            self.with_paced(flow, |sender, now, port| {
                sender.on_data(bytes, now, port);
                if finished {
                    sender.on_close(false, now, port);
                }
            });
        }
        if let Some(next) = next {
            self.network.schedule(next, Target::new(event_kind::TRAFFIC, flow as u32));
        }
    }

    /// Samples every sender for the time series.
    fn sample(&mut self) {
        for ((sender, last_rtt), flow) in self.senders.iter().zip(&mut self.last_rtt).zip(0u32..) {
            let bare = FlowSample {
                time: self.now,
                flow,
                cwnd: f64::NAN,
                ssthresh: f64::NAN,
                srtt: Span::ZERO,
                rtt: None,
                flight: 0,
                rate: f64::NAN,
            };
            let sample = match sender {
                Sender::Udp(_) => bare,
                Sender::Rate(sender) => FlowSample {
                    srtt: sender.srtt(),
                    rtt: mean_since(last_rtt, &sender.stats.rtt),
                    flight: sender.flight(),
                    rate: sender.rate(),
                    ..bare
                },
                Sender::Tcp(sender) => FlowSample {
                    cwnd: sender.window().cwnd,
                    ssthresh: sender.window().ssthresh,
                    srtt: sender.srtt(),
                    rtt: mean_since(last_rtt, &sender.stats.rtt),
                    flight: sender.flight(),
                    ..bare
                },
            };
            self.samples.push(sample);
        }
        self.network.schedule(self.now + self.sample_interval, Target::new(event_kind::SAMPLE, 0));
    }

    /// The frames that the application of `flow` has written so far; none unless it writes frames.
    pub fn frames(&self, flow: usize) -> &[Frame] {
        self.sources[flow].frames()
    }

    /// Packets that the data still waiting at the sender of `flow` would fill; `None` for a file without end.
    pub fn unsent_packets(&self, flow: usize) -> Option<u64> {
        match &self.senders[flow] {
            Sender::Tcp(sender) => sender.unsent_packets(),
            Sender::Udp(_) => Some(0),
            Sender::Rate(sender) => sender.unsent_packets(),
        }
    }

    /// Whether the sender of `flow` numbers its bytes as the application wrote them: one that delivers in order leaves
    /// out what it drops.
    pub fn numbers_are_whole(&self, flow: usize) -> bool {
        match &self.senders[flow] {
            Sender::Tcp(_) | Sender::Udp(_) => true,
            Sender::Rate(sender) => sender.numbers_are_whole(),
        }
    }

    /// Whether a flow's traffic is a bounded transfer, whose completion can be told.
    pub fn is_bounded(traffic: &Traffic) -> bool {
        match traffic {
            Traffic::Ftp { bytes } | Traffic::PacedFtp { bytes, .. } => bytes.is_some(),
            Traffic::Cbr { .. } | Traffic::OnOff { .. } => false,
            Traffic::Frames(plan) => plan.ends(),
        }
    }
}
