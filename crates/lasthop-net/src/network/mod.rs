//! Packets on their way: the walk of a packet from one place to the next, and what devices want done.
//!
//! A link that is fed by a single upstream sees its packets in order whenever they are computed, so it is evaluated
//! as soon as the upstream has decided when a packet arrives. Receivers are fed by one path, so they too are
//! evaluated ahead of the clock, and their ACKs start on the reverse path at once. Only three things must wait for
//! the clock, in the calendar: a packet that arrives at a link which others feed as well, one that arrives at a
//! device, and one that arrives at a sender. A data packet and its ACK over a dumbbell cross six links with three
//! waits.

pub(crate) mod extras;
mod growth;
mod path;
mod places;
mod prepare;
mod record;
mod reroute;
pub mod truth;

use lasthop_cc::{LossKind, LossSigns, Signal};
use lasthop_core::calendar::Calendar;
use lasthop_core::event::{Event, EventQueue, MAX_EVENTS, MAX_INDEX, Target, arrival_order};
use lasthop_core::fingerprint::Fingerprint;
use lasthop_core::packet::{Cause, Kind, Ledger, Measured, NONE, Packet, PacketArena, flag};
use lasthop_core::time::{Span, Time};

use self::truth::{Truths, Verdicts};
use crate::device::arq::{ArqMachine, Listener, NOTICE_BYTES};
use crate::device::wlan::Medium;
use crate::device::wlan::counters::RadioStats;
use crate::device::{Crossing, Cx, Device, DeviceId, Effect, Element, Parcel, Slot};
use crate::handoff::HostEvent;
use crate::link::{Link, Transit};
use crate::measure::{FlowStats, Window};
use crate::plan::{Plan, Report};
use crate::queue::{Ecn, KnownFlows};
use crate::roaming::Journey;
use crate::routing::{DirectionId, Routes, opposite};
use crate::trace::Recorder;
use crate::transport::endpoint::Endpoint;
use crate::transport::extra::Extra;
use crate::transport::outside::{Departure, Loss};
use crate::transport::rate::media::nack::RepairCounts;
use crate::transport::tcp::mobility::Mobility;
use extras::ExtraArena;
use growth::Growth;
use path::known_flows;
pub(crate) use path::{Hop, Place, Ways, name_number};
pub(crate) use reroute::Paths;

/// Kinds of events beside the arrivals of packets.
pub(crate) mod event_kind {
    /// A flow of a class arrives, or the class stops.
    pub(crate) const CLASS: u32 = 0;
    /// A sender's timer.
    pub(crate) const SENDER: u32 = 1;
    /// A receiver's timer.
    pub(crate) const RECEIVER: u32 = 2;
    /// An application's next write.
    pub(crate) const TRAFFIC: u32 = 3;
    /// An application stops.
    pub(crate) const STOP: u32 = 4;
    /// A sample of the time series.
    pub(crate) const SAMPLE: u32 = 5;
    /// A cross-layer signal reaches a sender.
    pub(crate) const SIGNAL: u32 = 6;
    /// A device has something to do.
    pub(crate) const DEVICE: u32 = 7;
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// A packet reaches the place that it waited for.
    Arrival(Event),
    /// Anything else.
    Timer(Event),
}

/// What a run has more of than can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Packets that wait at the same time: [`lasthop_core::event::MAX_PACKETS`] are the most.
    Packets,
    /// Links, devices or places on paths.
    Places,
}

/// Everything that packets meet between two senders' decisions.
#[derive(Clone, Debug)]
pub struct Network {
    /// Directions of links: forward of link 0, reverse of link 0, forward of link 1, ...
    pub links: Vec<Link>,
    pub(crate) hops: Vec<Hop>,
    packets: PacketArena,
    extras: ExtraArena,
    /// Signals on their way to senders, by the index of their event.
    signals: Vec<(u32, Signal)>,
    free_signals: Vec<u32>,
    /// What the last loss of each data segment was, for the flows whose senders judge losses.
    truths: Vec<Option<Box<Truths>>>,
    /// Arrivals of packets.
    calendar: Calendar,
    /// Everything else that is to happen.
    timers: EventQueue,
    /// Insertion number of the last of them.
    order: u64,
    pub(crate) receivers: Vec<Endpoint>,
    /// Where the ways of each flow begin.
    ways: Vec<Ways>,
    devices: Vec<Slot>,
    /// What stands in place of the head of each direction; [`NONE`] where nothing does.
    heads: Vec<DeviceId>,
    /// The port at which packets enter it, as an index into the table of ports.
    head_ports: Vec<u32>,
    /// Numbers made of the names of devices: by these they draw lots, as flows do by theirs.
    device_names: Vec<u32>,
    known: KnownFlows,
    /// Ports of devices: whose, and which of them.
    ports: Vec<(DeviceId, u32)>,
    /// What the device that acts wants done; its room is used again.
    effects: Vec<Effect>,
    /// What receivers and links counted per flow.
    pub flows: Vec<FlowStats>,
    /// Where every packet of the run went.
    pub ledger: Ledger,
    /// Where those of the measured time went.
    pub measured: Measured,
    /// Hash of everything that happened on links.
    pub fingerprint: Fingerprint,
    /// Packets times links.
    pub packet_hops: u64,
    pub(crate) window: Window,
    end: Time,
    /// Serial numbers of the packets by slot, if a trace is recorded: nothing else needs them.
    serials: Vec<u32>,
    /// What is recorded beside what is counted, if anything.
    pub(crate) recorder: Option<Box<Recorder>>,
    /// Whether every packet on every link is.
    traced: bool,
    /// Packets that have left for ends outside, in the order in which they did.
    pub(crate) departed: Vec<Departure>,
    /// Tickets that were lost, if they are tracked.
    pub(crate) losses: Vec<Loss>,
    /// What is needed to add flows later, if any may be.
    growth: Option<Box<Growth>>,
}

impl Network {
    /// The network of a plan; `paths[flow]` lists the directions from the sender to the receiver, now and later; the
    /// way back is the same reversed. If `clocked`, every packet waits for the clock before every place; what happens
    /// is the same. If it `grows`, flows may join later ([`Network::add_flow`]).
    pub(crate) fn new(
        (plan, seed): (&Plan, u64),
        links: Vec<Link>,
        (paths, routes, journeys): (&[Paths], &mut Routes, &[Journey]),
        (receivers, flows): (Vec<Endpoint>, Vec<FlowStats>),
        window: Window,
        (clocked, grows): (bool, bool),
    ) -> Network {
        let mut network = Network {
            links,
            hops: Vec::new(),
            packets: PacketArena::default(),
            extras: ExtraArena::default(),
            signals: Vec::new(),
            free_signals: Vec::new(),
            truths: vec![None; paths.len()],
            calendar: Calendar::default(),
            timers: EventQueue::default(),
            order: 0,
            receivers,
            ways: Vec::with_capacity(paths.len()),
            devices: Vec::new(),
            heads: Vec::new(),
            head_ports: Vec::new(),
            device_names: Vec::new(),
            known: known_flows(&plan.flows),
            ports: Vec::new(),
            effects: Vec::new(),
            flows,
            ledger: Ledger::default(),
            measured: Measured::default(),
            fingerprint: Fingerprint::default(),
            packet_hops: 0,
            window,
            end: window.to,
            serials: Vec::new(),
            recorder: None,
            traced: false,
            departed: Vec::new(),
            losses: Vec::new(),
            growth: None,
        };
        let mut wiring = network.place_devices(plan, seed, journeys);
        network.tell_agents(plan);
        for (paths, index) in paths.iter().zip(0u32..) {
            if paths.changes.is_empty() {
                network.add_ways(&wiring, index, &paths.all[0]);
            } else {
                let wiring = (&mut wiring, &mut *routes);
                network.add_changing_ways(wiring, &plan.links, index, paths);
            }
        }
        let (mut relayed, mut heard) = (vec![false; plan.flows.len()], Vec::new());
        for relay in plan.flows.iter().filter_map(|flow| flow.relay) {
            relayed[relay.of] = true;
        }
        // Applications at both ends act when something arrives.
        for (flow, _) in plan.flows.iter().enumerate().filter(|(_, flow)| flow.exchange.is_some()) {
            let last = if relayed[flow] { plan.halves_of(flow).last() } else { None };
            heard.push(last.unwrap_or(flow));
        }
        for flow in heard {
            relayed[flow] = true;
        }
        network.know_flows();
        network.mark_flows(plan);
        network.settle_waits(clocked, plan.processing_time > Span::ZERO, &relayed);
        network.tell_media(0);
        if grows {
            // Any of them may get one feeder more.
            network.links.iter_mut().for_each(|link| link.contested = true);
            network.growth = Some(Box::new(Growth {
                wiring,
                routes: routes.clone(),
                links: plan.links.as_slice().into(),
                journeys: journeys.to_vec(),
            }));
        }
        for device in 0..network.devices.len() as DeviceId {
            // Stations that speak by themselves do not wait for a packet to begin.
            if matches!(&network.devices[device as usize].device, Device::Medium(medium) if medium.begins()) {
                network.with_device(device, Time::ZERO, Element::on_timer);
            }
        }
        network
    }

    /// What the network has more of than its indices can name, if anything.
    pub(crate) fn overflow(&self) -> Option<Overflow> {
        if self.packets.is_exhausted() {
            return Some(Overflow::Packets);
        }
        let devices = self.devices.len() > MAX_INDEX as usize;
        let ports = self.ports.len() > Hop::MOST as usize || self.links.len() > Hop::MOST as usize;
        (devices || ports || self.hops.len() > u32::MAX as usize).then_some(Overflow::Places)
    }

    /// The measurement window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// The run ends at `now`, and with it the measurement window.
    pub(crate) fn cut_short(&mut self, now: Time) {
        self.end = now;
        self.window.to = now.max(self.window.from);
    }

    /// The first place of the way of `flow` from its sender.
    pub(crate) fn first_place(&self, flow: usize) -> u32 {
        self.ways[flow].forward
    }

    /// Schedules something other than an arrival, after everything of its kind that is already scheduled for `time`:
    /// the timers of receivers come before all else, and the others follow each other (decision 0013).
    pub(crate) fn schedule(&mut self, time: Time, target: Target) {
        let timer = self.timer(time, target);
        self.timers.push(timer);
    }

    /// What `schedule` adds to the list.
    fn timer(&mut self, time: Time, target: Target) -> Event {
        self.order += 1;
        let later = u64::from(target.kind() != event_kind::RECEIVER) * (MAX_EVENTS / 2);
        Event::new(time, later + self.order, target)
    }

    /// What happens next.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<Next> {
        let timer = self.timers.peek();
        match (self.calendar.peek(&mut self.packets), timer) {
            // Of one instant the timers of receivers come first, then arrivals (decision 0013).
            (Some(arrival), Some(timer))
                if timer.time() < arrival.time()
                    || (timer.time() == arrival.time() && timer.target().kind() == event_kind::RECEIVER) =>
            {
                Some(Next::Timer(timer))
            }
            (Some(arrival), _) => Some(Next::Arrival(arrival)),
            (None, timer) => timer.map(Next::Timer),
        }
    }

    /// Takes the timer that happens next off the list.
    pub(crate) fn take_timer(&mut self) {
        self.timers.pop();
    }

    /// Takes the arrival that happens next off the calendar and returns the packet and the place it has reached.
    #[inline]
    pub(crate) fn take_arrival(&mut self) -> Option<(u32, u32, Hop)> {
        let index = self.calendar.pop()?;
        let next = self.packets.get(index).wait.hop;
        Some((index, next, self.hops[next as usize]))
    }

    /// Lets a packet that has just been taken off the calendar reach its place at `at` instead.
    pub(crate) fn postpone(&mut self, index: u32, at: Time) {
        let hop = self.packets.get(index).wait.hop;
        // The first place that forwards it is its feeder still: the order of arrival stays.
        let feeder = hop.checked_sub(1).map_or(0, |before| self.feeder(self.hops[before as usize]));
        self.wait(index, (hop, self.hops[hop as usize]), at, feeder);
    }

    /// A packet of the calendar, and what it carries beyond its header.
    pub(crate) fn look_at(&self, index: u32) -> (&Packet, Option<&Extra>) {
        let packet = self.packets.get(index);
        (packet, self.extras.get(packet.extra))
    }

    /// Notes that the range of a packet, whose extra lies at `index`, was sent for the first time at `at`; the index of
    /// the extra from now on.
    pub(crate) fn note_first_sent(&mut self, index: u32, at: Time) -> u32 {
        if let Some(extra) = self.extras.get_mut(index) {
            extra.first_sent = Some(at);
            return index;
        }
        self.extras.insert(&Extra { first_sent: Some(at), ..Extra::default() })
    }

    /// The receiver of `flow` answers the SYN that it has withheld its answer from.
    pub(crate) fn answer_withheld(&mut self, flow: u32, now: Time) {
        let Endpoint::TcpReceiver(receiver) = &mut self.receivers[flow as usize] else { return };
        if !receiver.answer_withheld() {
            return;
        }
        let index = self.answer(flow, Kind::SynAck, now);
        let first = self.ways[flow as usize].back;
        let feeder = self.feeder(self.hops[first as usize - 1]);
        self.send_on(index, first, now, feeder);
        self.arm_receiver(flow);
    }

    /// The other half of the proxy at the receiver of `flow` is over: so is this one, which the sender is told.
    pub(crate) fn reset_relayed(&mut self, flow: u32, now: Time) {
        let Endpoint::TcpReceiver(receiver) = &mut self.receivers[flow as usize] else { return };
        if receiver.is_reset() {
            return;
        }
        receiver.reset(true);
        if receiver.in_order().1 {
            let index = self.answer(flow, Kind::Reset, now);
            let first = self.ways[flow as usize].back;
            let feeder = self.feeder(self.hops[first as usize - 1]);
            self.send_on(index, first, now, feeder);
        }
    }

    /// The proxy at the receiver of `flow` knows nothing of it any more, and says so to whatever comes.
    pub(crate) fn forget_relayed(&mut self, flow: u32) {
        if let Endpoint::TcpReceiver(receiver) = &mut self.receivers[flow as usize] {
            receiver.reset(true);
        }
    }

    /// The other half of the proxy at the receiver of `flow` has got rid of the first `count` bytes.
    pub(crate) fn take_relayed(&mut self, flow: u32, count: u64, now: Time) {
        if let Endpoint::TcpReceiver(receiver) = &mut self.receivers[flow as usize] {
            receiver.take(count, now);
        }
        self.arm_receiver(flow);
    }

    /// Takes a packet into the network.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "see `PacketArena::insert`")]
    fn enter(&mut self, packet: Packet, at: Time) -> u32 {
        let index = self.packets.insert(packet);
        self.note_entry(index, at);
        index
    }

    /// There is one packet more, from `at` on.
    #[inline]
    fn note_entry(&mut self, index: u32, at: Time) {
        if self.traced {
            self.number(index);
        }
        self.ledger.created += 1;
        self.measured.created += u64::from(self.window.contains(at));
        self.measured.carried_over += u64::from(at < self.window.from);
    }

    /// A packet has reached its end at `at`.
    #[inline]
    fn note_delivery(&mut self, at: Time) {
        self.ledger.delivered += 1;
        self.measured.delivered += u64::from(self.window.contains(at));
        self.measured.carried_over -= u64::from(at < self.window.from);
    }

    /// A sender hands a packet to the first place of its path.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "see `PacketArena::insert`")]
    pub(crate) fn launch(&mut self, packet: Packet, first: u32, now: Time) {
        let index = self.enter(packet, now);
        self.walk(index, (first, self.hops[first as usize]), now);
    }

    /// The same for a packet that leaves its host at `at`, which may lie ahead.
    pub(crate) fn launch_later(&mut self, packet: Packet, first: u32, at: Time) {
        let index = self.enter(packet, at);
        let feeder = !self.known.names[self.hops[first as usize].flow() as usize];
        self.send_on(index, first, at, feeder);
    }

    /// A packet from outside enters the path of `flow` at the end from which it comes, `at` a time that may lie ahead.
    pub(crate) fn inject(&mut self, flow: usize, packet: Packet, extra: Option<&Extra>, at: Time) {
        let Ways { forward, back } = self.ways[flow];
        let first = if packet.is_forward() { forward } else { back };
        let extra = extra.map_or(NONE, |extra| self.extras.insert(extra));
        let packet = Packet { extra, ..packet };
        let ahead = self.hops[first as usize];
        if ahead.waits() {
            let index = self.enter(packet, at);
            // Its host hands it on, as one hands on what a sender or a receiver inside makes.
            let name = self.known.names[flow];
            self.wait(index, (first, ahead), at, if packet.is_forward() { !name } else { name });
        } else {
            self.launch(packet, first, at);
        }
    }

    /// Moves the packet at `index` on from its place `next`, where it arrives at `at`, as far as it gets without
    /// waiting for the clock, and the receiver's answer likewise. A packet stays in its slot all the way.
    #[inline]
    pub(crate) fn walk(&mut self, mut index: u32, (mut next, mut hop): (u32, Hop), mut at: Time) {
        let mut bytes = u32::from(self.packets.get(index).bytes);
        loop {
            // Over links on which nothing out of the ordinary happens.
            let Network { hops, links, fingerprint, packet_hops, window, .. } = self;
            let link = loop {
                let Some(direction) = hop.link() else { break None };
                *packet_hops += 1;
                let link = &mut links[direction as usize];
                let Some(arrival) = link.pass(at, bytes, window) else { break Some(direction) };
                fingerprint.add(arrival.0, u64::from(direction) << 2);
                at = arrival;
                next += 1;
                hop = hops[next as usize];
                if hop.waits() {
                    let feeder = link.number;
                    self.wait(index, (next, hop), at, feeder);
                    return;
                }
            };
            let here = hop;
            if let Some(direction) = link {
                let Some(arrival) = self.cross(direction, next, index, bytes, at) else { return };
                at = arrival;
            } else if hop.is_receiver() {
                let Some(answer) = self.deliver(hop.flow(), index, at) else { return };
                index = answer;
                bytes = u32::from(self.packets.get(index).bytes);
            } else {
                let Place::Port(port) = hop.place() else {
                    unreachable!("a packet waits before it meets a sender")
                };
                self.enter_device(port, index, next, at);
                return;
            }
            next += 1;
            hop = self.hops[next as usize];
            if hop.waits() {
                self.wait_behind(index, (next, hop), at, here);
                return;
            }
        }
    }

    /// Sends a packet over a link on which anything may happen; returns its arrival at the far end, or `None` if it is
    /// lost or still on its way when the run ends. `hop`: the link's place on the packet's path.
    #[inline(never)]
    fn cross(&mut self, direction: DirectionId, hop: u32, index: u32, bytes: u32, at: Time) -> Option<Time> {
        let flow = self.hops[hop as usize].flow();
        let link = &mut self.links[direction as usize];
        let ect = link.has_rule() && self.packets.get(index).has(flag::ECT);
        let transit = link.transit(at, bytes, ect, &self.window);
        if ect && let Transit::Arrives { marked: true, .. } = transit {
            self.packets.get_mut(index).flags |= flag::CE;
        }
        if self.traced {
            self.record_transit(direction, flow, index, at, transit);
        }
        match transit {
            Transit::Arrives { at, .. } => {
                self.fingerprint.add(at.0, u64::from(direction) << 2);
                if at > self.end {
                    self.ledger.in_flight += 1;
                    self.discard(index);
                    return None;
                }
                Some(at)
            }
            Transit::Lost { cause, at: lost_at, start } => {
                self.fingerprint.add(at.0, u64::from(direction) << 2 | (cause as u64 + 1));
                if cause == Cause::ChannelError
                    && start.is_some()
                    && lost_at <= self.end
                    && self.packets.get(index).is_forward()
                {
                    let arrives = lost_at + self.links[direction as usize].delay;
                    self.hear_noise(hop, arrives);
                }
                self.lose(flow, index, lost_at, cause);
                None
            }
        }
    }

    /// A packet is lost at `at`; if that lies beyond the run, so does its fate.
    #[cold]
    fn lose(&mut self, flow: u32, index: u32, at: Time, cause: Cause) {
        if at > self.end {
            self.ledger.in_flight += 1;
            self.discard(index);
            return;
        }
        self.ledger.dropped[cause as usize] += 1;
        self.measured.dropped[cause as usize] += u64::from(self.window.contains(at));
        self.measured.carried_over -= u64::from(at < self.window.from);
        let forward = self.packets.get(index).is_forward();
        if self.extras.tracks_tickets() {
            self.note_loss(index, at, cause);
        }
        let packet = self.packets.get(index);
        // What devices send for themselves is no loss of a flow.
        let is_foreign = matches!(packet.kind, Kind::BadState | Kind::Repair);
        if forward && !is_foreign {
            self.flows[flow as usize].lose(at, packet, cause);
        }
        // Probes carry no data that could be lost.
        if forward
            && !is_foreign
            && packet.kind != Kind::Probe
            && let Some(truths) = &mut self.truths[flow as usize]
        {
            truths.lose(packet.seq, cause, at);
        }
        self.discard(index);
        if self.window.contains(at) && !is_foreign {
            let stats = &mut self.flows[flow as usize];
            let lost = if forward { &mut stats.lost } else { &mut stats.acks_lost };
            lost[cause as usize] += 1;
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Devices

    /// A packet has reached a port of a device.
    #[cold]
    fn enter_device(&mut self, port: u32, index: u32, hop: u32, now: Time) {
        let (device, port) = self.ports[port as usize];
        let flow = self.hops[hop as usize].flow();
        let packet = self.packets.get_mut(index);
        packet.wait.hop = hop;
        let (bytes, ecn) = (packet.bytes, Ecn::of(packet.flags));
        let mut parcel = Parcel { packet: index, hop, flow, bytes, ecn, ahead: false, since: now };
        if self.devices[device as usize].device.is_head() {
            self.packet_hops += 1;
            parcel.ahead = self.packets.get_mut(index).note.take_ahead();
            if let Some(recorder) = &mut self.recorder {
                recorder.hold(now);
            }
        }
        self.with_device(device, now, |device, cx| device.receive(parcel, port, cx));
    }

    /// The timer of a device. Timers are lazy: one that was superseded by an earlier one finds nothing to do, unless it
    /// has become the next again. Returns when the device acts next, if that is by `until` and nothing else happens
    /// before it: then there is no timer for it, and the clock may go there at once.
    pub(crate) fn on_device_timer(&mut self, device: DeviceId, now: Time, until: Time) -> Option<Time> {
        let slot = &mut self.devices[device as usize];
        if slot.superseded <= now {
            slot.superseded = Time::MAX;
        }
        if now < slot.armed {
            return None;
        }
        slot.armed = Time::MAX;
        let timer = self.let_act(device, now, Element::on_timer)?;
        let at = timer.time();
        let is_next = match self.next_event() {
            Some(Next::Arrival(event) | Next::Timer(event)) => at < event.time(),
            None => true,
        };
        if is_next && at <= until {
            return Some(at);
        }
        self.timers.push(timer);
        None
    }

    /// Lets a device act, then does what it wants done.
    fn with_device(&mut self, device: DeviceId, now: Time, act: impl FnOnce(&mut Device, &mut Cx<'_>)) {
        if let Some(timer) = self.let_act(device, now, act) {
            self.timers.push(timer);
        }
    }

    /// The same; returns the timer that the device needs now, which its place among those of one instant belongs to.
    #[inline]
    fn let_act(
        &mut self,
        device: DeviceId,
        now: Time,
        act: impl FnOnce(&mut Device, &mut Cx<'_>),
    ) -> Option<Event> {
        let mut effects = std::mem::take(&mut self.effects);
        let slot = &mut self.devices[device as usize];
        let mut cx = Cx {
            now,
            window: self.window,
            packets: &mut self.packets,
            extras: &mut self.extras,
            links: &mut self.links,
            effects: &mut effects,
            wake: Time::MAX,
        };
        act(&mut slot.device, &mut cx);
        debug_assert!(cx.wake >= now, "a device wants to act in the past");
        let wake = cx.wake.max(now);
        let mut timer = None;
        if wake < slot.armed {
            // A timer that an earlier one superseded may come into its own again; not within this instant, where it
            // would come before what has been scheduled since.
            let pending = wake == slot.superseded && wake > now;
            slot.superseded = if pending { slot.armed } else { slot.superseded.min(slot.armed) };
            slot.armed = wake;
            if !pending {
                timer = Some(self.timer(wake, Target::new(event_kind::DEVICE, device)));
            }
        }
        if !effects.is_empty() {
            for effect in effects.drain(..) {
                self.apply(device, effect, now);
            }
        }
        self.effects = effects;
        timer
    }

    /// Does what a device that acts at `now` wants done.
    fn apply(&mut self, device: DeviceId, effect: Effect, now: Time) {
        match effect {
            Effect::Forward { parcel, at, crossing } => {
                if let Some(Crossing { direction, started }) = crossing {
                    let arrived = (at <= self.end).then_some(at);
                    self.record(direction, parcel, (started, arrived, None));
                    self.fingerprint.add(at.0, u64::from(direction) << 2);
                }
                let feeder = self.feeder(self.hops[parcel.hop as usize]);
                self.send_on(parcel.packet, parcel.hop + 1, at, feeder);
            }
            Effect::Divert { parcel, hop, at } => {
                self.let_go_unrecorded(device, parcel);
                let feeder = self.feeder(self.hops[parcel.hop as usize]);
                self.send_on(parcel.packet, hop, at, feeder);
            }
            Effect::Drop { parcel, cause, at, crossing } => {
                if let Some(Crossing { direction, started }) = crossing {
                    let lost = (at <= self.end).then_some(cause);
                    self.record(direction, parcel, (started, None, lost));
                    self.fingerprint.add(at.0, u64::from(direction) << 3 | (cause as u64 + 1));
                } else {
                    self.let_go_unrecorded(device, parcel);
                }
                self.lose(parcel.flow, parcel.packet, at, cause);
            }
            Effect::Emit { packet, extra, hop, at } => {
                let extra = extra.map_or(NONE, |extra| self.extras.insert(&extra));
                let index = self.enter(Packet { extra, ..packet }, at);
                // Right behind itself it is the feeder that forwards; elsewhere it is one of its own, unlike any place.
                let before = self.hops[hop as usize - 1];
                let forwards =
                    matches!(before.place(), Place::Port(port) if self.ports[port as usize].0 == device);
                let feeder = if forwards { self.feeder(before) } else { !self.device_names[device as usize] };
                self.send_on(index, hop, at, feeder);
            }
            Effect::Return { parcel, packet, extra, at } => {
                let slot = &self.devices[device as usize];
                let hop = if slot.device.is_head() {
                    self.way_back_from(parcel.flow, slot.direction)
                } else {
                    self.behind_other_port(device, parcel.hop)
                };
                if let Some(hop) = hop {
                    self.apply(device, Effect::Emit { packet, extra, hop, at }, now);
                }
            }
            Effect::Signal { flow, signal, at } => self.signal(flow, signal, at),
            Effect::Noise { hop, at } => self.hear_noise(hop, at),
            Effect::Hear { flow, at } => self.receivers[flow as usize].hear_noise(at),
            Effect::Frame { record, parcel, direction } => self.record_frame(*record, parcel, direction),
            Effect::Absorb { parcel } => {
                self.note_delivery(now);
                self.discard(parcel.packet);
            }
            Effect::Hand { to, flow, handed, at } => {
                self.with_device(to, at, |device, cx| device.take_over(flow, handed, cx));
            }
            Effect::Keep { parcel, crossing } => {
                self.ledger.in_flight += 1;
                if let Some(Crossing { direction, started }) = crossing {
                    self.record(direction, parcel, (started, None, None));
                } else {
                    self.let_go_unrecorded(device, parcel);
                }
            }
        }
    }

    /// A device has let go of a packet that crossed no link: the recorder waits for it no longer.
    fn let_go_unrecorded(&mut self, device: DeviceId, parcel: Parcel) {
        if self.devices[device as usize].device.is_head()
            && let Some(recorder) = &mut self.recorder
        {
            recorder.let_go(parcel.since);
        }
    }

    /// Lets a packet reach the place `hop` at `at`, perhaps ahead of the clock.
    fn send_on(&mut self, index: u32, hop: u32, at: Time, feeder: u32) {
        let ahead = self.hops[hop as usize];
        if at > self.end {
            self.ledger.in_flight += 1;
            self.discard(index);
        } else if ahead.waits() {
            self.wait(index, (hop, ahead), at, feeder);
        } else {
            self.walk(index, (hop, ahead), at);
        }
    }

    /// The MAC at the far end of the link at place `hop` throws a corrupt frame away at `at`. A real one cannot know
    /// whose it was; the receiver of the flow that the frame belonged to hears of it, if it is there.
    #[cold]
    fn hear_noise(&mut self, hop: u32, at: Time) {
        let flow = self.hops[hop as usize].flow();
        if self.ends_at_receiver(hop) {
            self.receivers[flow as usize].hear_noise(at);
        }
    }

    /// The retransmission of a direction, if it has any.
    pub fn arq(&self, direction: DirectionId) -> Option<&ArqMachine> {
        match &self.devices.get(self.heads[direction as usize] as usize)?.device {
            Device::Arq(arq) => Some(arq),
            _ => None,
        }
    }

    /// The same, to be changed.
    fn arq_mut(&mut self, direction: DirectionId) -> Option<&mut ArqMachine> {
        match &mut self.devices.get_mut(self.heads[direction as usize] as usize)?.device {
            Device::Arq(arq) => Some(arq),
            _ => None,
        }
    }

    /// The radio channel that serves a direction, if any does.
    pub(crate) fn medium(&self, direction: DirectionId) -> Option<&Medium> {
        match &self.devices.get(self.heads[direction as usize] as usize)?.device {
            Device::Medium(medium) => Some(medium),
            _ => None,
        }
    }

    /// The same, to be changed.
    fn medium_mut(&mut self, direction: DirectionId) -> Option<&mut Medium> {
        match &mut self.devices.get_mut(self.heads[direction as usize] as usize)?.device {
            Device::Medium(medium) => Some(medium),
            _ => None,
        }
    }

    /// What the MACs at both ends of a radio direction counted.
    pub fn radio(&self, direction: DirectionId) -> Option<&RadioStats> {
        self.medium(direction)?.stats(direction)
    }

    /// The direction whose row tells of the queue in which packets of `direction` wait, if a station has one queue for
    /// several of its links.
    pub fn queue_of(&self, direction: DirectionId) -> DirectionId {
        self.medium(direction).and_then(|medium| medium.guard_of(direction)).unwrap_or(direction)
    }

    /// What became of the packets of media that a flow missed, if its transport repairs.
    pub fn repairs(&self, flow: usize) -> Option<RepairCounts> {
        self.receivers[flow].repairs()
    }

    /// What the devices at the near end of each direction counted, by the names of their columns.
    pub fn device_counters(&self) -> Vec<(DirectionId, &'static str, u64)> {
        let counters = |slot: &Slot| {
            let direction = slot.direction;
            let cell = if let Device::Cellular(cell) = &slot.device {
                cell.counts(&self.window())
            } else {
                Vec::new()
            };
            let counters = slot.device.counters().into_iter();
            counters.map(move |(name, count)| (direction, name, count)).chain(cell)
        };
        self.devices.iter().flat_map(counters).collect()
    }

    /// Retransmissions within the measurement window by helpers in paths, and by links; `None` where none can
    /// make any.
    pub fn local_repairs(&self) -> (Option<u64>, Option<u64>) {
        let (mut helpers, mut links) = (None, None);
        for slot in &self.devices {
            if let Some(count) = slot.device.repairs() {
                *if slot.device.is_head() { &mut links } else { &mut helpers }.get_or_insert(0) += count;
            }
        }
        (helpers, links)
    }

    /// Makes the sender of `flow` listen to the links with retransmission on its path. Flows come in ascending order.
    /// `signals`: its controller asked for them; `notices`: it understands EBSN.
    pub(crate) fn listen(&mut self, flow: u32, path: &[DirectionId], signals: bool, notices: bool) {
        // The delay of the way from the near end of each link to the sender, for a message of the size of a notice.
        let mut back = Span::ZERO;
        for (&direction, passed) in path.iter().zip(0u32..) {
            if let Some(arq) = self.arq_mut(direction)
                && arq.listener(flow).is_none()
            {
                let told = match arq.plan().report {
                    Report::Off => false,
                    Report::Local => passed == 0,
                    Report::Proxy => true,
                };
                let signals = (signals && told).then_some(back);
                let notices = notices && arq.plan().ebsn.is_some();
                if signals.is_some() || notices {
                    arq.add_listener(Listener { flow, signals, notices, last_notice: None });
                }
            }
            // A station knows what its own MAC does at once; access points report only by `rate-estimate`.
            if signals && let Some(medium) = self.medium_mut(direction) {
                medium.listen(direction, flow, passed == 0, back);
            }
            let link = &self.links[opposite(direction) as usize];
            back = back + link.delay + link.rate_at(Time::ZERO).serialisation(NOTICE_BYTES.into());
        }
    }

    /// Lets the receiver of `flow`, at the end of `path`, hear what a radio there cannot read.
    pub(crate) fn overhear(&mut self, flow: u32, path: &[DirectionId]) {
        if let Some(&last) = path.last()
            && let Some(medium) = self.medium_mut(last)
        {
            medium.add_receiver(last, flow);
        }
    }

    /// Tells the receiver of `flow` what will happen to the link of its host.
    pub(crate) fn watch_link(&mut self, flow: u32, mobility: Mobility, events: Vec<(Time, HostEvent)>) {
        self.receivers[flow as usize].watch_link(mobility, events);
        self.arm_receiver(flow);
    }

    /// The retransmission timeout of the first link of `path` that reports to the sender, for a frame of `bytes`, and
    /// how long the sender waits for the news.
    pub(crate) fn link_timeout(
        &mut self,
        flow: u32,
        path: &[DirectionId],
        bytes: u32,
    ) -> Option<(Span, Span)> {
        path.iter().find_map(|&direction| {
            if let Some(medium) = self.medium(direction) {
                return medium.link_timeout(direction, flow, bytes);
            }
            let link = &self.links[direction as usize];
            let (rate, one_way) = (link.rate_at(Time::ZERO), link.delay);
            let arq = self.arq_mut(direction)?;
            let told = arq.listener(flow)?.signals?;
            Some((arq.plan().timeout_for(rate, one_way, bytes.into()), told))
        })
    }

    // -----------------------------------------------------------------------------------------------------------------

    /// Frees the slot of a packet and of what hangs off it.
    #[inline]
    fn discard(&mut self, index: u32) {
        let extra = self.packets.get(index).extra;
        if extra != NONE {
            self.extras.remove(extra);
        }
        self.packets.remove(index);
    }

    /// Gives a packet to the receiver of its flow; returns the answer, for the place behind the receiver.
    #[inline]
    fn deliver(&mut self, flow: u32, index: u32, at: Time) -> Option<u32> {
        self.note_delivery(at);
        // The usual case with one look at the receiver; the answer takes the slot of the packet.
        let Endpoint::TcpReceiver(receiver) = &mut self.receivers[flow as usize] else {
            return self.deliver_otherwise(flow, index, at);
        };
        let packet = self.packets.get_mut(index);
        if receiver.owes(packet, at) {
            return self.deliver_otherwise(flow, index, at);
        }
        let stats = &mut self.flows[flow as usize];
        let carried = packet.extra;
        let extra = if carried == NONE { None } else { self.extras.get(carried) };
        let answer = receiver.receive(packet, extra, at, stats, &self.window);
        if carried != NONE {
            self.extras.remove(carried);
        }
        if let Some(kind) = answer {
            stats.acks_sent += u64::from(self.window.contains(at));
            let extra = receiver.extra(kind, at).map_or(NONE, |extra| self.extras.insert(&extra));
            *packet = Packet { extra, ..receiver.acknowledge(kind, at) };
        }
        let due = receiver.rearm();
        if answer.is_some() {
            self.note_entry(index, at);
        } else {
            self.packets.remove(index);
        }
        if let Some(due) = due {
            self.schedule(due, Target::new(event_kind::RECEIVER, flow));
        }
        answer.map(|_| index)
    }

    /// Gives a packet to a receiver of another kind, or to one that has something else to send before.
    #[cold]
    fn deliver_otherwise(&mut self, flow: u32, index: u32, at: Time) -> Option<u32> {
        if self.receivers[flow as usize].is_outside() {
            let packet = *self.packets.get(index);
            let extra = self.extras.get(packet.extra).copied();
            self.discard(index);
            self.departed.push(Departure { flow, at, packet, extra });
            return None;
        }
        if self.receivers[flow as usize].owes(self.packets.get(index), at) {
            self.answer_overdue(flow, at);
        }
        let packet = self.packets.get(index);
        let stats = &mut self.flows[flow as usize];
        let extra = self.extras.get(packet.extra);
        let answer = self.receivers[flow as usize].receive(packet, extra, at, stats, &self.window);
        self.discard(index);
        let answer = answer.map(|kind| self.answer(flow, kind, at));
        // Only now: an answer moves the time of the next one.
        self.arm_receiver(flow);
        answer
    }

    /// Asks for a call when the next answer of a receiver is due without another packet, unless an earlier one is
    /// pending.
    #[inline]
    fn arm_receiver(&mut self, flow: u32) {
        if let Some((Some(due), armed)) = self.receivers[flow as usize].timer()
            && due < *armed
        {
            *armed = due;
            self.schedule(due, Target::new(event_kind::RECEIVER, flow));
        }
    }

    /// Makes the receiver's answer; it is before the first place of the reverse path.
    #[inline]
    fn answer(&mut self, flow: u32, kind: Kind, at: Time) -> u32 {
        self.flows[flow as usize].acks_sent += u64::from(self.window.contains(at));
        let receiver = &mut self.receivers[flow as usize];
        let extra = receiver.extra(kind, at).map_or(NONE, |extra| self.extras.insert(&extra));
        let packet = receiver.acknowledge(kind, at);
        let index = self.enter(Packet { extra, ..packet }, at);
        if let Some(statement) = self.receivers[flow as usize].statement() {
            self.packets.get_mut(index).extra = self.extras.insert(&statement);
        }
        index
    }

    /// Sends what a receiver has delayed beyond `now`.
    #[cold]
    fn answer_overdue(&mut self, flow: u32, now: Time) {
        while let Some((kind, due)) = self.receivers[flow as usize].overdue(now) {
            let index = self.answer(flow, kind, due);
            let first = self.ways[flow as usize].back;
            let feeder = self.feeder(self.hops[first as usize - 1]);
            self.send_on(index, first, due, feeder);
        }
    }

    /// A receiver's timer. It is lazy like a sender's.
    pub(crate) fn on_receiver_timer(&mut self, flow: u32, now: Time) {
        match self.receivers[flow as usize].timer() {
            // One that a real clock brings late is still due; one that an earlier one made superfluous is not.
            Some((_, armed)) if *armed <= now => *armed = Time::MAX,
            _ => return,
        }
        self.answer_overdue(flow, now);
        self.arm_receiver(flow);
    }

    /// Who hands on what leaves a place, as a number: a link, a device, or the receiver of a flow.
    #[inline]
    fn feeder(&self, hop: Hop) -> u32 {
        if let Some(direction) = hop.link() {
            return self.links[direction as usize].number;
        }
        if let Place::Port(port) = hop.place() {
            let (device, port) = self.ports[port as usize];
            let number = self.device_names[device as usize];
            // What a router sends on leaves it in the order in which it came, by whichever of its ports, and what a
            // cellular cell does in the order of service.
            let one = matches!(self.devices[device as usize].device, Device::Router(_) | Device::Cellular(_));
            return if one { number } else { number.wrapping_add(port) };
        }
        self.known.names[hop.flow() as usize]
    }

    /// Lets a packet wait for the place `hop`, to which what stands at the place `here` hands it.
    #[inline(never)]
    fn wait_behind(&mut self, index: u32, hop: (u32, Hop), at: Time, here: Hop) {
        self.wait(index, hop, at, self.feeder(here));
    }

    /// Lets a packet wait until `at` for the place `hop`, to which `feeder` hands it.
    #[inline]
    fn wait(&mut self, index: u32, (hop, place): (u32, Hop), at: Time, feeder: u32) {
        let order = arrival_order(at, feeder, place.is_receiver());
        let wait = &mut self.packets.get_mut(index).wait;
        wait.hop = hop;
        wait.at = at;
        wait.order = order;
        self.calendar.schedule(&mut self.packets, index);
    }

    /// A packet has reached its sender: takes it out of the network; [`Network::take_extra`] has the rest.
    #[inline]
    pub(crate) fn receive_at_sender(&mut self, index: u32, now: Time) -> Packet {
        self.note_delivery(now);
        let packet = *self.packets.get(index);
        self.packets.remove(index);
        packet
    }

    /// What it carries beyond its header.
    pub(crate) fn take_extra(&mut self, index: u32) -> Option<Extra> {
        let extra = self.extras.get(index).copied();
        self.extras.remove(index);
        extra
    }

    /// A sender whose flow has real-time metrics sends a packet.
    pub(crate) fn note_sent(&mut self, flow: u32, packet: &Packet, now: Time) {
        self.flows[flow as usize].send(now, packet);
    }

    /// Stores what a packet carries beyond its header; the index goes into `Packet::extra`.
    pub(crate) fn attach(&mut self, extra: &Extra) -> u32 {
        self.extras.insert(extra)
    }

    /// A signal that reaches the sender of `flow` at `at`, not before the present.
    pub(crate) fn signal(&mut self, flow: u32, signal: Signal, at: Time) {
        let index = if let Some(index) = self.free_signals.pop() {
            self.signals[index as usize] = (flow, signal);
            index
        } else {
            self.signals.push((flow, signal));
            (self.signals.len() - 1) as u32
        };
        self.schedule(at, Target::new(event_kind::SIGNAL, index));
    }

    /// The signal of an event and the flow that it is meant for.
    pub(crate) fn take_signal(&mut self, index: usize) -> (u32, Signal) {
        self.free_signals.push(index as u32);
        self.signals[index]
    }

    /// Remembers from now on what the losses of `flow` are.
    pub(crate) fn keep_truths(&mut self, flow: usize) {
        self.truths[flow] = Some(Box::default());
    }

    /// What the last loss of the segment at `seq` was, if the truths of `flow` are kept and there was one.
    pub(crate) fn truth(&self, flow: u32, seq: u64, now: Time) -> Option<LossKind> {
        self.truths[flow as usize].as_deref().and_then(|truths| truths.of(seq, now))
    }

    /// The sender of `flow` takes the loss of the segment at `seq` for `belief`; `signs` are what its law has counted.
    pub(crate) fn judge(
        &mut self,
        flow: u32,
        seq: u64,
        belief: LossKind,
        signs: Option<LossSigns>,
        now: Time,
    ) {
        if let Some(truths) = &mut self.truths[flow as usize] {
            truths.judge(seq, belief, signs, now);
        }
    }

    /// How often the sender of `flow` was right about losses, if it tells kinds of them apart.
    pub fn verdicts(&self, flow: usize) -> Option<Verdicts> {
        self.truths[flow].as_deref().map(Truths::verdicts)
    }

    /// Counts what is still waiting when the run ends.
    pub(crate) fn close_ledger(&mut self) {
        self.ledger.in_flight += self.calendar.remaining(&self.packets).len() as u64;
        for device in 0..self.devices.len() as DeviceId {
            self.with_device(device, self.end, Element::close);
        }
        // Packets in flight are not needed any more; results take room as well.
        self.packets = PacketArena::default();
        self.extras = ExtraArena::default();
        self.calendar = Calendar::default();
        self.timers = EventQueue::default();
        self.links.iter_mut().for_each(Link::forget_departures);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::channel::{ErrorModel, List};
    use crate::device::Middlebox;
    use crate::device::testing::Mirror;
    use crate::plan::testing::{datagrams, link, plan, transfer};
    use crate::plan::{Arq, DiscardUnit};
    use crate::trace::{Recorded, Recording};
    use crate::world::{Evaluation, World};

    /// The places that the packets of a flow meet there and back, and whether they wait before them.
    fn places(network: &Network, flow: usize) -> Vec<(Place, bool)> {
        let first = network.ways[flow].forward as usize;
        let hops = network.hops[first..].iter().map(|hop| (hop.place(), hop.waits()));
        let mut all: Vec<(Place, bool)> = Vec::new();
        for place in hops {
            all.push(place);
            if place.0 == Place::Sender {
                break;
            }
        }
        all
    }

    fn network(plan: &Plan, evaluation: Evaluation) -> Network {
        World::evaluated(plan, 1, Recording::default(), evaluation).network
    }

    /// Packets of one flow come to each link in order, and only the sender acts by the clock.
    #[test]
    fn a_flow_alone_waits_for_its_sender_only() {
        let plan = plan(3, vec![link(0, 1), link(1, 2)], vec![transfer(0, 2)]);
        let expected =
            [Place::Link(0), Place::Link(2), Place::Receiver, Place::Link(3), Place::Link(1), Place::Sender];
        let eager = places(&network(&plan, Evaluation::Eager), 0);
        assert_eq!(eager.iter().map(|place| place.0).collect::<Vec<_>>(), expected);
        assert_eq!(
            eager.iter().map(|place| place.1).collect::<Vec<_>>(),
            [false, false, false, false, false, true]
        );
        let clocked = places(&network(&plan, Evaluation::Clocked), 0);
        assert_eq!(
            clocked.iter().map(|place| place.1).collect::<Vec<_>>(),
            [false, true, true, true, true, true]
        );
    }

    /// The link from node 1 to node 2 takes packets from a link and from a sender, and its other direction from
    /// two receivers: the first to arrive must be first.
    #[test]
    fn who_shares_a_link_waits_before_it() {
        let plan = plan(3, vec![link(0, 1), link(1, 2)], vec![transfer(0, 2), transfer(1, 2)]);
        let network = network(&plan, Evaluation::Eager);
        let waiting = |flow| {
            places(&network, flow)
                .into_iter()
                .filter(|place| place.1)
                .map(|place| place.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(waiting(0), [Place::Link(2), Place::Link(3), Place::Sender]);
        assert_eq!(waiting(1), [Place::Link(3), Place::Sender], "a sender acts at the present time anyway");
    }

    /// A device sees both directions in the order of the clock.
    #[test]
    fn packets_wait_before_devices() {
        let mut radio = link(1, 2);
        Arc::make_mut(&mut radio.forward).arq = Some(Arq {
            window: 4,
            attempts: 3,
            timeout: None,
            in_order: true,
            ack_size: 14,
            ack_error_rate: 0.0,
            report: Report::Off,
            discards: DiscardUnit::Attempt,
            ebsn: None,
            hybrid: None,
        });
        let plan = plan(3, vec![link(0, 1), radio], vec![transfer(0, 2)]);
        let places = places(&network(&plan, Evaluation::Eager), 0);
        assert!(matches!(places[1], (Place::Port(_), true)), "{places:?}");
        assert_eq!(places[0], (Place::Link(0), false));
        assert_eq!(places[3], (Place::Link(3), false));
    }

    fn datagram() -> Packet {
        Packet { bytes: 1000, payload: 972, kind: Kind::Udp, extra: NONE, ..Packet::default() }
    }

    /// 1 ms of transmission and 10 ms of propagation on each of two links; the second datagram waits for the first.
    #[test]
    fn a_walk_takes_the_time_that_it_takes() {
        for evaluation in [Evaluation::Eager, Evaluation::Clocked] {
            let plan = plan(3, vec![link(0, 1), link(1, 2)], vec![datagrams(0, 2)]);
            let mut world =
                World::evaluated(&plan, 1, Recording { trace: true, ..Recording::default() }, evaluation);
            world.inject(0, datagram(), None);
            world.inject(0, datagram(), None);
            world.step_until(Time::MAX);
            world.finish();
            let mut recorded = Recorded::default();
            world.hand_over(&mut recorded).unwrap();
            let mut arrivals: Vec<(u32, u32, u64)> = (recorded.hops.iter())
                .map(|hop| (hop.packet, hop.direction, hop.arrived.unwrap().0 / 1_000_000))
                .collect();
            arrivals.sort_unstable();
            assert_eq!(arrivals, [(0, 0, 11), (0, 2, 22), (1, 0, 12), (1, 2, 23)], "{evaluation:?}");
            assert_eq!(world.network.flows[0].bytes_delivered, 2 * 972);
            assert_eq!(world.network.packet_hops, 4);
            let ledger = Ledger { created: 2, delivered: 2, ..Ledger::default() };
            assert_eq!(world.network.ledger, ledger, "{evaluation:?}");
        }
    }

    /// A packet that the channel loses stops there and is booked there.
    #[test]
    fn a_walk_may_end_on_a_link() {
        for evaluation in [Evaluation::Eager, Evaluation::Clocked] {
            let mut second = link(1, 2);
            Arc::make_mut(&mut second.forward).error = ErrorModel::List(List { packets: vec![1] });
            let plan = plan(3, vec![link(0, 1), second], vec![datagrams(0, 2)]);
            let mut world = World::evaluated(&plan, 1, Recording::default(), evaluation);
            (0..3).for_each(|_| world.inject(0, datagram(), None));
            world.step_until(Time::MAX);
            let ledger = world.network.ledger;
            assert_eq!((ledger.created, ledger.delivered), (3, 2), "{evaluation:?}");
            assert_eq!(ledger.dropped[Cause::ChannelError as usize], 1);
            assert_eq!(world.network.flows[0].lost[Cause::ChannelError as usize], 1);
            assert!(ledger.balances());
        }
    }

    /// What has not arrived when the run ends is on its way, whether the walk has been computed or not.
    #[test]
    fn a_walk_ends_with_the_run() {
        for (evaluation, duration_ms, expected) in [
            (Evaluation::Eager, 21, (0, 1)),
            (Evaluation::Clocked, 21, (0, 1)),
            (Evaluation::Eager, 22, (1, 0)),
            (Evaluation::Clocked, 22, (1, 0)),
        ] {
            let mut plan = plan(3, vec![link(0, 1), link(1, 2)], vec![datagrams(0, 2)]);
            plan.duration = Span::from_millis(duration_ms);
            let mut world = World::evaluated(&plan, 1, Recording::default(), evaluation);
            world.inject(0, datagram(), None);
            world.run(|_| Ok::<(), ()>(())).unwrap();
            let ledger = world.network.ledger;
            assert_eq!((ledger.delivered, ledger.in_flight), expected, "{evaluation:?} {duration_ms}");
        }
    }

    /// A middlebox that answers sends along the other way of the same flow, whichever way it was asked from.
    #[test]
    fn middleboxes_answer_both_ways() {
        for evaluation in [Evaluation::Eager, Evaluation::Clocked] {
            let mut middle = link(1, 2);
            Arc::make_mut(&mut middle.forward).middleboxes = vec![Middlebox::Mirror(Mirror { every: 2 })];
            let flows = vec![datagrams(0, 3), datagrams(3, 0)];
            let plan = plan(4, vec![link(0, 1), middle, link(2, 3)], flows);
            let trace = Recording { trace: true, ..Recording::default() };
            let mut world = World::evaluated(&plan, 1, trace, evaluation);
            // What comes over the reverse direction of the link enters by the other port, and is not answered.
            (0..4).for_each(|_| world.inject(0, datagram(), None));
            (0..3).for_each(|_| world.inject(1, datagram(), None));
            world.run(|_| Ok::<(), ()>(())).unwrap();
            let mut recorded = Recorded::default();
            world.hand_over(&mut recorded).unwrap();
            let answers = recorded.hops.iter().filter(|hop| hop.bytes == 40);
            let answers: Vec<(u32, u32, u64)> =
                answers.map(|hop| (hop.flow, hop.direction, hop.enqueued.0 / 1_000_000)).collect();
            // The second and the fourth datagram are there after 2 and 4 ms of transmission and 10 of propagation.
            assert_eq!(answers, [(0, 1, 12), (0, 1, 14)], "{evaluation:?}");
            assert_eq!(world.network.ledger.created, 9);
            assert_eq!(world.network.ledger.delivered, 9);
            assert!(world.network.ledger.balances());
        }
    }
}
