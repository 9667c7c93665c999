//! The world of one run: senders, applications and the network between them, and the loop that moves time.
//!
//! `lasthop-sim` builds a world from a plan, runs it and reads the measurements.

mod ahead;
mod classes;
mod comers;
mod exchange;
pub mod outside;
mod processing;
mod relay;

use std::io;

use lasthop_cc::{Estimates, LossKind, LossSigns, Signal};
use lasthop_core::event::Target;
use lasthop_core::packet::{NONE, Packet};
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use ahead::Ahead;
use classes::Classes;
use comers::Comers;
use exchange::Exchanges;
use outside::Act;
use processing::Processing;
use relay::Relays;
pub use relay::{Half, Origins, RelayStats};

use crate::frames::Frame;
use crate::handoff::{HostEvent, host_events};
use crate::history::{HistoryEntry, Keeper};
use crate::link::Link;
use crate::measure::{FlowStats, Observers, Window};
use crate::network::{Network, Next, Overflow, Paths, event_kind};
use crate::plan::{FlowPlan, Plan, TcpConfig, Transport};
use crate::realtime::Realtime;
use crate::roaming::{self, Journey};
use crate::routing::{DirectionId, Routes};
use crate::trace::{Bins, Decision, DecisionRecord, FlowSample, Recorder, Recording, Sink, WindowRecord};
use crate::traffic::client::Outcome;
use crate::traffic::encoder::EncoderCounts;
use crate::traffic::video::Packing;
use crate::traffic::{Demand, Offer, Source, arrival, stream_of};
use crate::transport::endpoint::{Endpoint, Sample};
use crate::transport::extra::Extra;
use crate::transport::outside::Departure;
use crate::transport::rate::media::log::Heard;
use crate::transport::tcp::mobility::Mobility;
use crate::transport::tcp::sender::TcpSender;
use crate::transport::wire::Wire;

/// What the host at an end of a flow learns of `direction`, the link that it is attached to. Empty without outages.
fn own_link_events(
    network: &Network,
    plan: &Plan,
    seed: u64,
    direction: Option<&DirectionId>,
    (journeys, node): (&[Journey], usize),
) -> Vec<(Time, HostEvent)> {
    let events = direction.map(|&direction| {
        let outages = network.links[direction as usize].outages();
        let link = &plan.links[direction as usize / 2];
        let is_forward = direction.is_multiple_of(2);
        let warning = if is_forward { &link.forward } else { &link.reverse }.outages.warning;
        let mut stream = Stream::new(seed, &format!("warnings of {}", link.direction_name(direction)));
        host_events(outages, warning, plan.duration, &mut stream)
    });
    let mut events: Vec<(Time, HostEvent)> = events.into_iter().flatten().collect();
    if !plan.media.is_empty() {
        events.extend(roaming::host_events(plan, seed, journeys, node));
        events.sort_by_key(|&(at, _)| at);
    }
    events
}

/// Gives both ends of a flow the properties of the links that they are attached to, and the sender what links
/// with retransmission report.
fn tell_of_links(
    network: &mut Network,
    plan: &Plan,
    seed: u64,
    (flow, config): (u32, &TcpConfig),
    paths: &[Vec<DirectionId>],
    journeys: &[Journey],
) {
    let signals = config.needs().signals;
    for path in paths {
        network.listen(flow, path, signals, config.mobility.ebsn);
        network.overhear(flow, path);
    }
    let (path, ends) = (&paths[0], &plan.flows[flow as usize]);
    if signals || config.mobility.watches_link() {
        for (at, event) in own_link_events(network, plan, seed, path.first(), (journeys, ends.source)) {
            let signal = match event {
                HostEvent::Fading(warning) => Signal::LinkFading { warning },
                HostEvent::Up => Signal::LinkUp,
                HostEvent::Handoff => Signal::HandoffDone,
            };
            network.signal(flow, signal, at);
        }
    }
    if config.mobility.watches_link() {
        let events = own_link_events(network, plan, seed, path.last(), (journeys, ends.sink));
        network.watch_link(flow, config.mobility, events);
    }
}

/// Mean of the samples added since `last`, the count and sum of then, which become those of `now`.
fn mean_since(last: &mut (u64, u64), now: (u64, u64)) -> Option<Span> {
    let then = std::mem::replace(last, now);
    (now.0 > then.0).then(|| Span((now.1 - then.1) / (now.0 - then.0)))
}

/// The loop asks whether to continue once per this number of events.
const EVENTS_PER_CHECK: u64 = 1 << 15;
/// A device acts so often at most before the loop looks around.
const EVENTS_PER_DEVICE: u32 = 64;

/// When links and receivers do their work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// As soon as it is known what reaches them, ahead of the clock: the fastest way to simulate.
    Eager,
    /// When the clock has come so far: what a world needs whose packets meet the real one, and what the tests hold the
    /// other against.
    Clocked,
    /// As `Clocked`, and flows may join while the run goes on ([`World::add_flow`]).
    Open,
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
    /// The run has more of something than can be told apart; what it did since is worth nothing.
    pub overflow: Option<Overflow>,
}

/// A world and its clock.
#[derive(Clone, Debug)]
pub struct World {
    /// Links, receivers and what they counted.
    pub network: Network,
    /// Senders by flow.
    pub senders: Vec<Endpoint>,
    sources: Vec<Source>,
    /// What they sent.
    pub sent: Vec<Sent>,
    /// The hosts of the senders, if they take time for a packet.
    hosts: Vec<Option<Processing>>,
    started: Vec<bool>,
    stopped: Vec<bool>,
    now: Time,
    end: Time,
    events: u64,
    /// Those that only took samples: a run does the same with and without a recording.
    samples: u64,
    sample_interval: Span,
    /// RTT count and sum of each flow at the last sample.
    last_rtt: Vec<(u64, u64)>,
    /// The history of paths, if the run keeps one.
    history: Option<Box<Keeper>>,
    /// Whether anybody looks at what a sender did: for the trace or for the history.
    watched: bool,
    finished: bool,
    /// The packets that are being prepared for.
    ahead: Ahead,
    /// Proxies that split connections.
    relays: Relays,
    /// Clients and servers.
    exchanges: Exchanges,
    /// What applications at ends outside do, and their driver has not taken.
    acts: Vec<Act>,
    /// Flows that come and go, and are told by class.
    classes: Classes,
    /// Ends of flows that come and go.
    comers: Comers,
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

/// How a sender stood before it acted.
struct Before {
    window: lasthop_cc::Window,
    estimates: Option<Estimates>,
    signs: Option<LossSigns>,
    first_unacknowledged: u64,
    /// What it had counted: timeouts, recoveries, reductions undone.
    counts: [u64; 3],
}

impl Before {
    fn counts(sender: &TcpSender) -> [u64; 3] {
        let stats = &sender.stats;
        [stats.timeouts, stats.fast_recoveries, stats.undone_reductions]
    }

    fn of(sender: &TcpSender) -> Before {
        Before {
            window: sender.window(),
            estimates: sender.estimates(),
            signs: sender.loss_signs(),
            first_unacknowledged: sender.first_unacknowledged(),
            counts: Before::counts(sender),
        }
    }

    /// What it has decided since, if anything.
    fn decision(&self, sender: &TcpSender) -> Option<Decision> {
        let kinds = [Decision::Timeout, Decision::FastRecovery, Decision::Undone];
        let counts = Before::counts(sender).into_iter().zip(self.counts);
        kinds.into_iter().zip(counts).find(|(_, (now, then))| now > then).map(|(kind, _)| kind)
    }
}

/// A sender's access to the network.
struct Port<'a> {
    network: &'a mut Network,
    sent: &'a mut Sent,
    host: Option<&'a mut Processing>,
    /// A proxy's sender: when its data was sent first.
    origins: Option<&'a Origins>,
    flow: u32,
    now: Time,
    /// What the sender has taken a loss for while it acted.
    belief: Option<LossKind>,
}

impl Wire for Port<'_> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "see `PacketArena::insert`")]
    fn send(&mut self, mut packet: Packet, now: Time) {
        if let Some(origins) = self.origins
            && packet.payload > 0
            && let Some(first) = origins.of(packet.seq)
        {
            packet.extra = self.network.note_first_sent(packet.extra, first);
        }
        self.sent.first.get_or_insert(now);
        self.sent.packets += u64::from(self.network.window.contains(now));
        if self.sent.is_realtime {
            self.network.note_sent(self.flow, &packet, now);
        }
        match &mut self.host {
            None => self.network.launch(packet, self.sent.first_hop, now),
            Some(host) => self.network.launch_later(packet, self.sent.first_hop, host.leave(now)),
        }
    }

    #[inline]
    fn wake(&mut self, at: Time) {
        self.network.schedule(at, Target::new(event_kind::SENDER, self.flow));
    }

    fn attach(&mut self, extra: Extra) -> u32 {
        self.network.attach(&extra)
    }

    fn heard(&self, range: (u64, u16), until: Time, into: &mut Vec<Heard>) {
        self.network.receivers[self.flow as usize].heard(range, until, into);
    }

    fn truth(&self, seq: u64) -> Option<LossKind> {
        self.network.truth(self.flow, seq, self.now)
    }

    fn judged(&mut self, seq: u64, belief: LossKind, signs: Option<LossSigns>) {
        self.belief = Some(belief);
        self.network.judge(self.flow, seq, belief, signs, self.now);
    }
}

/// The path that a flow takes first.
fn first_path(routes: &mut Routes, flow: &FlowPlan) -> Vec<DirectionId> {
    let path = match &flow.first_path {
        Some(nodes) => routes.along(nodes).ok(),
        None => routes.path(flow.source, flow.sink),
    };
    path.unwrap_or_else(|| unreachable!("the plan is checked: every sink can be reached"))
}

/// Both directions of every link.
fn links_of(plan: &Plan, seed: u64, series_interval: Option<Span>) -> Vec<Link> {
    let mut links = Vec::with_capacity(2 * plan.links.len());
    for (link, index) in plan.links.iter().zip(0u32..) {
        for (side, direction) in [(&link.forward, 2 * index), (&link.reverse, 2 * index + 1)] {
            let name = link.direction_name(direction);
            links.push(Link::new(side, &name, seed, plan.duration, series_interval));
        }
    }
    links
}

/// The paths of a flow: those that it names, or those that follow hosts from one access point to another.
fn paths_of(flow: &FlowPlan, plan: &Plan, routes: &mut Routes, journeys: &[Journey]) -> Paths {
    let (source, sink) = flow.part.as_ref().map_or((flow.source, flow.sink), |part| part.ends);
    if flow.reroutes.is_empty()
        && (flow.first_path.is_none() || flow.part.is_some())
        && !journeys.is_empty()
        && let Some((mut all, mut changes)) = roaming::ways(journeys, routes, source, sink)
    {
        if let Some(part) = &flow.part {
            (all, changes) = relay::part_of(part, &plan.links, &all, &changes);
        }
        let roaming = journeys.iter().flat_map(|journey| &journey.links).map(|&link| link as u32);
        return Paths { all, changes, roaming: roaming.collect() };
    }
    let first = first_path(routes, flow);
    let mut paths = Paths { all: vec![first], changes: Vec::new(), roaming: Vec::new() };
    for reroute in &flow.reroutes {
        let Ok(path) = routes.along(&reroute.nodes) else {
            unreachable!("the plan is checked: neighbours on a path are joined")
        };
        paths.changes.push((reroute.at, paths.all.len(), reroute.under_way));
        paths.all.push(path);
    }
    paths
}

impl World {
    /// Builds the world of a plan. Every random stream is keyed by `seed` and the name of its consumer.
    pub fn new(plan: &Plan, seed: u64, recording: Recording) -> World {
        World::evaluated(plan, seed, recording, Evaluation::Eager)
    }

    /// The same with a choice of how links and receivers are evaluated; what happens is the same.
    #[expect(clippy::too_many_lines, reason = "one part after the other, in the order of their streams")]
    pub fn evaluated(plan: &Plan, seed: u64, recording: Recording, evaluation: Evaluation) -> World {
        let planned = plan.flows.len();
        let with_places = classes::with_places(plan);
        let plan: &Plan = &with_places;
        let clocked = (evaluation != Evaluation::Eager, evaluation == Evaluation::Open);
        let end = Time::ZERO + plan.duration;
        let window = Window { from: Time::ZERO + plan.warmup, to: end };
        let series_interval = recording.series.then_some(plan.series_interval);
        let links = links_of(plan, seed, series_interval);
        let mut routes = Routes::new(plan.nodes.len(), &plan.links);
        let journeys = roaming::journeys(plan, seed);
        let mut paths = Vec::with_capacity(plan.flows.len());
        let mut receivers = Vec::with_capacity(plan.flows.len());
        let mut senders = Vec::with_capacity(plan.flows.len());
        let mut sources = Vec::with_capacity(plan.flows.len());
        let mut flows = Vec::with_capacity(plan.flows.len());
        let comers = Comers::of(plan, seed, recording, evaluation);
        for flow in &plan.flows {
            paths.push(paths_of(flow, plan, &mut routes, &journeys));
            let (sender, receiver) = comers.ends(flow, window);
            senders.push(sender);
            receivers.push(receiver);
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
        let mut network = Network::new(
            (plan, seed),
            links,
            (&paths, &mut routes, &journeys),
            (receivers, flows),
            window,
            clocked,
        );
        let starts = arrival::starts(&plan.flows, seed);
        let mut classes = Classes::of(plan, planned, seed);
        for ((flow, start), index) in plan.flows.iter().zip(starts).zip(0u32..) {
            if let Transport::Tcp(config) = &flow.transport
                && config.needs().classifies
            {
                network.keep_truths(index as usize);
            }
            let paths = &paths[index as usize].all;
            if let Transport::Tcp(config) = &flow.transport {
                tell_of_links(&mut network, plan, seed, (index, config), paths, &journeys);
                let bytes = config.mss() + config.data_header();
                if let Some((timeout, delay)) = network.link_timeout(index, &paths[0], bytes) {
                    network.signal(index, Signal::LinkTimeout { timeout }, start + delay);
                }
            }
            if let Some(relay) = &flow.relay {
                if relay.zero_windows {
                    let last = paths[0].last();
                    let events = own_link_events(&network, plan, seed, last, (&journeys, flow.sink));
                    network.watch_link(relay.of as u32, Mobility::CLOSES_WINDOW, events);
                }
                continue;
            }
            if flow.class.is_some() {
                classes.open(index as usize, &mut network);
                continue;
            }
            if let Some(part) = flow.exchange {
                // Its client begins nothing after `stop`, and its server answers what was asked before.
                if part.is_lead() {
                    network.schedule(start, Target::new(event_kind::TRAFFIC, index));
                }
                continue;
            }
            network.schedule(start, Target::new(event_kind::TRAFFIC, index));
            if let Some(stop) = flow.stop {
                network.schedule(stop, Target::new(event_kind::STOP, index));
            }
        }
        if recording.series {
            network.schedule(Time::ZERO + plan.series_interval, Target::new(event_kind::SAMPLE, 0));
        }
        if let Some(recorder) = Recorder::new(recording, plan.series_interval, plan.duration) {
            network.start_recording(recorder);
        }
        let sent = plan.flows.iter().enumerate().map(|(index, flow)| {
            let is_realtime = flow.realtime.is_some();
            Sent { first_hop: network.first_place(index), is_realtime, ..Sent::default() }
        });
        let sent = sent.collect();
        let hosts = Processing::of(plan, seed, &mut senders);
        let mut world = World {
            network,
            senders,
            sources,
            sent,
            hosts,
            started: vec![false; plan.flows.len()],
            stopped: vec![false; plan.flows.len()],
            now: Time::ZERO,
            end,
            events: 0,
            samples: 0,
            sample_interval: plan.series_interval,
            last_rtt: vec![(0, 0); plan.flows.len()],
            history: Keeper::of(plan),
            watched: recording.trace || plan.history.is_some(),
            finished: false,
            ahead: Ahead::of(plan.flows.len()),
            relays: Relays::default(),
            exchanges: Exchanges::default(),
            acts: Vec::new(),
            classes,
            comers,
        };
        world.join_halves(plan, &paths);
        world.join_exchanges(plan, seed);
        world
    }

    /// Runs to the end. `go_on` is asked now and then, and once more behind the end; its error stops the run.
    pub fn run<E>(&mut self, mut go_on: impl FnMut(&mut World) -> Result<(), E>) -> Result<(), E> {
        self.gather();
        loop {
            if self.steps(EVENTS_PER_CHECK) < EVENTS_PER_CHECK {
                break;
            }
            // Often at first, while memory is still being asked for.
            if (self.events / EVENTS_PER_CHECK).is_power_of_two() {
                self.gather();
            }
            go_on(self)?;
        }
        self.finish();
        go_on(self)
    }

    /// Hands what was recorded and is settled by now to `sink`: all of it when the run is over. A driver that
    /// never calls it keeps everything in memory.
    pub fn hand_over(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let now = if self.finished { Time::MAX } else { self.now };
        let Some(recorder) = &mut self.network.recorder else { return Ok(()) };
        recorder.hand_over(now, (&mut self.network.links, &mut self.network.flows), sink)
    }

    /// When something happens next; `None` if nothing does before the end.
    pub fn next_time(&mut self) -> Option<Time> {
        let (Next::Arrival(event) | Next::Timer(event)) = self.network.next_event()?;
        Some(event.time()).filter(|&time| time <= self.end)
    }

    /// Lets everything happen that is due by `now`, in order and each at its own time, however late it is. A driver
    /// with a real clock calls it again at [`World::next_time`].
    pub fn step_until(&mut self, now: Time) {
        let until = now.min(self.end);
        while self.step(until) {
            self.events += 1;
        }
        self.now = self.now.max(until);
    }

    /// Ends the run now instead of at its planned end, for its driver: what it measures ends here, and
    /// [`World::finish`] closes it.
    pub fn cut_short(&mut self) {
        self.end = self.now;
        self.network.cut_short(self.now);
    }

    /// The run is over: closes connections, devices and the ledger. [`World::run`] does so itself.
    pub fn finish(&mut self) {
        self.now = self.end;
        self.close_connections();
        self.close_halves();
        self.network.close_ledger();
        self.close_classes();
        self.close_all_accounts();
        // Results take room as well: what only goes on with the run is given back before they are made.
        self.senders.iter_mut().filter_map(Endpoint::tcp_sender_mut).for_each(TcpSender::forget_outstanding);
        self.finished = true;
        debug_assert!(self.network.ledger.balances(), "{:?}", self.network.ledger);
    }

    /// Lets the next things happen, `most` of them, and returns how many did: fewer only at the end of the run.
    ///
    /// A function of its own for browsers: they begin a function with quick code and have better code for its next
    /// call. One that is called once for the whole run would never have it.
    #[cfg_attr(target_family = "wasm", inline(never))]
    #[cfg_attr(not(target_family = "wasm"), inline)]
    fn steps(&mut self, most: u64) -> u64 {
        let mut left = most;
        while left > 0 && self.step(self.end) {
            left -= 1;
        }
        self.events += most - left;
        most - left
    }

    /// Lets the next thing happen if it is due by `until`.
    #[inline]
    fn step(&mut self, until: Time) -> bool {
        let Some(next) = self.network.next_event() else { return false };
        let (Next::Arrival(event) | Next::Timer(event)) = next;
        if event.time() > until {
            return false;
        }
        self.now = event.time();
        match next {
            Next::Arrival(_) => self.on_arrival(),
            Next::Timer(_) => self.on_event(event.target(), until),
        }
        true
    }

    /// How far the run has come.
    pub fn standing(&self) -> Standing {
        Standing {
            now: self.now,
            events: self.events.saturating_sub(self.samples),
            packet_hops: self.network.packet_hops,
            overflow: self.network.overflow(),
        }
    }

    /// A packet has reached the place that it waited for.
    #[inline]
    fn on_arrival(&mut self) {
        let Some((index, next, hop)) = self.network.take_arrival() else { return };
        self.look_ahead();
        if !self.relays.is_empty() && self.arrive_at_half(index, (next, hop)) {
            return;
        }
        if !hop.is_sender() {
            self.network.walk(index, (next, hop), self.now);
            if !self.exchanges.is_empty() {
                self.hear(hop);
            }
            return;
        }
        self.arrive_at_sender(index, hop.flow() as usize);
    }

    /// A packet has reached its sender.
    #[inline]
    fn arrive_at_sender(&mut self, index: u32, flow: usize) {
        let packet = self.network.receive_at_sender(index, self.now);
        let mut extra = None;
        if packet.extra != NONE {
            extra = self.network.take_extra(packet.extra);
        }
        if self.senders[flow].is_outside() {
            self.network.departed.push(Departure { flow: flow as u32, at: self.now, packet, extra });
            return;
        }
        self.with_sender(flow, |sender, now, port| {
            sender.on_packet(&packet, extra.as_ref(), now, port);
        });
    }

    /// Anything else happens.
    fn on_event(&mut self, target: Target, until: Time) {
        self.network.take_timer();
        let index = target.index();
        if !self.relays.is_empty()
            && matches!(target.kind(), event_kind::SENDER | event_kind::RECEIVER)
            && self.postpones(index, target, target.kind() == event_kind::SENDER)
        {
            return;
        }
        match target.kind() {
            event_kind::SENDER => {
                self.with_sender(index, |sender, now, port| sender.on_timer(now, port));
                if !self.relays.is_empty() {
                    self.note_given_up(index);
                }
            }
            event_kind::RECEIVER => self.network.on_receiver_timer(index as u32, self.now),
            event_kind::TRAFFIC => self.on_traffic(index),
            event_kind::STOP => self.on_stop(index),
            event_kind::CLASS => self.on_class(index),
            event_kind::SAMPLE => {
                self.samples += 1;
                self.sample();
            }
            event_kind::DEVICE => self.on_device_timer(index as u32, until),
            event_kind::SIGNAL => {
                let (flow, signal) = self.network.take_signal(index);
                self.with_sender(flow as usize, |sender, now, port| sender.on_signal(&signal, now, port));
            }
            kind => unreachable!("no event of kind {kind}"),
        }
    }

    /// A device acts, and again for as long as no other event comes in between, within limits: the world is
    /// asked now and then whether to go on.
    fn on_device_timer(&mut self, device: u32, until: Time) {
        for left in (0..EVENTS_PER_DEVICE).rev() {
            // The last one leaves a timer.
            let until = if left > 0 { until } else { Time::ZERO };
            let Some(at) = self.network.on_device_timer(device, self.now, until) else { return };
            self.now = at;
            self.events += 1;
        }
    }

    /// Lets a sender act now, and records its window if that changed.
    #[inline]
    fn with_sender(&mut self, flow: usize, act: impl FnOnce(&mut Endpoint, Time, &mut Port<'_>)) {
        let sender = &mut self.senders[flow];
        let before = sender.tcp_sender().filter(|_| self.watched).map(Before::of);
        let half = if self.relays.is_empty() { None } else { self.relays.before(flow) };
        let origins = half.map(|half| &half.origins);
        let mut port = Port {
            network: &mut self.network,
            sent: &mut self.sent[flow],
            host: self.hosts.get_mut(flow).and_then(Option::as_mut),
            origins,
            flow: flow as u32,
            now: self.now,
            belief: None,
        };
        act(sender, self.now, &mut port);
        let belief = port.belief;
        if let Some(before) = before {
            self.watch(flow, &before, belief);
        }
    }

    /// Notes what a sender did, how it stood `before`, and whether its connection has ended.
    #[cold]
    fn watch(&mut self, flow: usize, before: &Before, belief: Option<LossKind>) {
        let Some(sender) = self.senders[flow].tcp_sender() else { return };
        let after = sender.window();
        if let Some(decision) = before.decision(sender)
            && let Some(recorder) = &mut self.network.recorder
        {
            recorder.add_decision(DecisionRecord {
                time: self.now,
                flow: flow as u32,
                decision,
                seq: before.first_unacknowledged.max(sender.first_unacknowledged()),
                belief,
                before: before.window.cwnd,
                after: after.cwnd,
            });
        }
        let (estimates, signs) = (sender.estimates(), sender.loss_signs());
        let changed = estimates != before.estimates || signs != before.signs;
        let before = before.window;
        if (after != before || changed)
            && let Some(recorder) = &mut self.network.recorder
        {
            recorder.add_window(WindowRecord {
                time: self.now,
                flow: flow as u32,
                cwnd: after.cwnd,
                ssthresh: after.ssthresh,
                estimates,
                signs,
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
        let (Some(history), Some(sender)) = (&mut self.history, self.senders[flow].tcp_sender_mut()) else {
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
            if let Some(sender) = sender.tcp_sender() {
                history.close(flow, self.now, sender.srtt(), sender.has_reduced());
            }
        }
    }

    /// What the run has added to the history of paths, oldest first; `None` if it keeps none.
    pub fn new_history(&self) -> Option<&[HistoryEntry]> {
        self.history.as_ref().map(|history| history.added())
    }

    /// An application starts or writes again.
    fn on_traffic(&mut self, flow: usize) {
        if self.stopped[flow] || (!self.relays.is_empty() && self.move_half(flow)) {
            return;
        }
        if !self.exchanges.is_empty() && self.wake_exchange(flow) {
            return;
        }
        if matches!(self.senders[flow], Endpoint::Outside(Some(_))) {
            self.acts.push(Act::Write { flow });
            return;
        }
        let follows = self.started[flow] && self.sources[flow].encoder().is_some();
        let demand = follows.then(|| self.senders[flow].demand());
        let Offer { bytes, next } = self.ask_source(flow, demand);
        let finished = next.is_none() && bytes.is_some();
        self.with_sender(flow, |sender, now, port| sender.on_data(bytes, finished, now, port));
        if let Some(next) = next {
            self.network.schedule(next, Target::new(event_kind::TRAFFIC, flow as u32));
        }
    }

    /// The source of `flow` starts or writes again, when it has heard what its sender says.
    fn ask_source(&mut self, flow: usize, demand: Option<Demand>) -> Offer {
        let started = std::mem::replace(&mut self.started[flow], true);
        if !started {
            self.begin(flow);
            self.recall(flow);
            if let Some(realtime) = self.network.flows[flow].realtime_mut() {
                realtime.begin(self.now);
            }
        }
        let source = &mut self.sources[flow];
        if let Some(demand) = demand {
            source.hear(demand);
        }
        let offer = if started { source.next(self.now) } else { source.start(self.now) };
        if self.sent[flow].is_realtime
            && let Some(realtime) = self.network.flows[flow].realtime_mut()
        {
            // Before the transport gets the bytes: receivers may see them at once.
            realtime.note_frames(source.frames(), offer.next.is_none());
        }
        offer
    }

    /// The application of `flow` stops.
    fn on_stop(&mut self, flow: usize) {
        self.stopped[flow] = true;
        let cut_short = !self.sources[flow].is_exhausted();
        self.with_sender(flow, |sender, now, port| {
            if cut_short {
                sender.withdraw();
            }
            sender.on_close(true, now, port);
        });
    }

    /// Samples every sender for the time series.
    fn sample(&mut self) {
        for ((sender, last_rtt), flow) in self.senders.iter().zip(&mut self.last_rtt).zip(0u32..) {
            let Sample { cwnd, ssthresh, srtt, rtt, flight, rate, signs } = sender.sample();
            let rtt = mean_since(last_rtt, rtt);
            let held = self.relays.before(flow as usize).map(Half::held);
            let (stalled, viewed) = match self.exchanges.outcome_of(flow as usize) {
                Some(Outcome::Screen(screen)) => {
                    (Some(screen.stalled(self.now)), Some(screen.viewed(self.now)))
                }
                Some(Outcome::Pages(_)) => (None, None),
                None => (self.network.flows[flow as usize].realtime_mut())
                    .filter(|_| sender.numbers_are_whole())
                    .map_or((None, None), |realtime| {
                        (realtime.stalled(self.now), realtime.viewed(self.now, self.sample_interval))
                    }),
            };
            let time = self.now;
            let sample = FlowSample {
                time,
                flow,
                cwnd,
                ssthresh,
                srtt,
                rtt,
                flight,
                rate,
                signs,
                held,
                stalled,
                viewed,
            };
            if let Some(recorder) = &mut self.network.recorder {
                recorder.add_sample(sample);
            }
        }
        self.network.sample_radios(self.now);
        self.network.sample_helpers(self.now);
        self.network.schedule(self.now + self.sample_interval, Target::new(event_kind::SAMPLE, 0));
    }

    /// The frames that the application of `flow` has written so far; none unless it writes frames.
    pub fn frames(&self, flow: usize) -> &[Frame] {
        self.sources[flow].frames()
    }

    /// What came of the encoder of `flow`; `None` unless it is a video call.
    pub fn encoder(&self, flow: usize) -> Option<EncoderCounts> {
        self.sources[flow].encoder()
    }

    /// Bytes in all of the application of `flow`, if it has a length.
    pub fn length_of(&self, flow: usize) -> Option<u64> {
        self.sources[flow].length()
    }

    /// Packets that the data still waiting at the sender of `flow` would fill; `None` for a file without end.
    pub fn unsent_packets(&self, flow: usize) -> Option<u64> {
        self.senders[flow].unsent_packets()
    }

    /// Whether the sender of `flow` numbers its bytes as the application wrote them: one that delivers in order leaves
    /// out what it drops.
    pub fn numbers_are_whole(&self, flow: usize) -> bool {
        self.senders[flow].numbers_are_whole()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{link, plan, transfer};

    /// What a flow of a dumbbell has of its own at the least: two ends, counters, and two links.
    #[test]
    fn a_flow_is_small() {
        use crate::plan::{FlowPlan, LinkPlan};
        use crate::transport::tcp::{receiver::TcpReceiver, sender::TcpSender};
        let ends = size_of::<TcpSender>() + size_of::<TcpReceiver>() + 2 * size_of::<Endpoint>();
        let counters = size_of::<FlowStats>() + size_of::<Source>() + size_of::<Sent>();
        let links = 4 * size_of::<Link>() + 2 * size_of::<LinkPlan>();
        let bytes = ends + counters + links + size_of::<FlowPlan>();
        assert!(bytes <= 3072, "{bytes}");
    }

    /// Two files that share a link, there and back.
    fn world(evaluation: Evaluation) -> World {
        let flows = vec![transfer(0, 2), transfer(1, 2), transfer(2, 0)];
        World::evaluated(&plan(3, vec![link(0, 1), link(1, 2)], flows), 1, Recording::default(), evaluation)
    }

    /// What happened, and where the packets went.
    fn outcome(world: &World) -> (String, String, u64) {
        let network = &world.network;
        (format!("{:?}", network.fingerprint), format!("{:?}", network.ledger), network.packet_hops)
    }

    fn run_of(evaluation: Evaluation) -> World {
        let mut world = world(evaluation);
        world.run(|_| Ok::<(), ()>(())).unwrap();
        world
    }

    #[test]
    fn a_run_delivers_everything() {
        let world = run_of(Evaluation::Eager);
        let delivered: Vec<u64> = world.network.flows.iter().map(|flow| flow.bytes_delivered).collect();
        assert_eq!(delivered, [50_000; 3]);
        assert!(world.network.ledger.balances());
        assert_eq!(world.standing().now, Time::ZERO + Span::from_secs(10), "the clock stands at the end");
    }

    /// Any driver of the world, in any steps and however late, drives it through the same run.
    #[test]
    fn steps_of_any_size_make_the_same_run() {
        for evaluation in [Evaluation::Eager, Evaluation::Clocked] {
            let expected = outcome(&run_of(Evaluation::Eager));
            let mut punctual = world(evaluation);
            let mut before = Time::ZERO;
            while let Some(next) = punctual.next_time() {
                assert!(next >= before, "time goes on");
                before = next;
                punctual.step_until(next);
                assert_eq!(punctual.standing().now, next);
            }
            punctual.finish();
            assert_eq!(outcome(&punctual), expected, "{evaluation:?}");

            let mut late = world(evaluation);
            for tick in 1..=1500 {
                late.step_until(Time::ZERO + Span::from_millis(7 * tick));
            }
            assert_eq!(late.next_time(), None, "nothing happens behind the end");
            late.finish();
            assert_eq!(outcome(&late), expected, "{evaluation:?}");
        }
    }

    /// A step goes no further than it is told, and the clock stands there even if nothing happened.
    #[test]
    fn a_step_ends_when_it_is_told() {
        let mut world = world(Evaluation::Clocked);
        // The SYNs are on their way: 40 bytes and options, 10 ms.
        let until = Time::ZERO + Span::from_millis(5);
        world.step_until(until);
        assert_eq!(world.standing().now, until);
        assert!(world.next_time().is_some_and(|next| next > until));
        assert_eq!(world.network.ledger.delivered, 0);
        world.step_until(Time::ZERO);
        assert_eq!(world.standing().now, until, "the clock does not go back");
    }

    /// The observer of the run is asked at the end at the latest, and its error is that of the run.
    #[test]
    fn the_run_asks_whether_to_go_on() {
        let mut asked = 0;
        let mut world = world(Evaluation::Eager);
        let result = world.run(|world| {
            asked += 1;
            Err(world.standing().now)
        });
        assert_eq!((result, asked), (Err(Time::ZERO + Span::from_secs(10)), 1));
    }
}
