//! Runs scenarios whose flows say that a stack carries them, beside the scenario's other flows: [`run_into`] stands in
//! for that of `lasthop-sim`.
//!
//! A flow of a stack is a flow of the world whose two ends lie outside. What its sender sends takes the flow's path,
//! what its receiver sends the way back, and what both do stands in the flow's row of the results. Its applications are
//! the world's: they are asked for what they write, or say what client and server hand over. A client is the receiver
//! of its flow, and opens the connection.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::ops::Range;

use lasthop::{Ecn, Stream, Time};
use lasthop_cc::LossKind;
use lasthop_core::packet::{Kind, NONE, Note, Packet};
use lasthop_core::time::Span;
use lasthop_net::measure::{Durations, Window};
use lasthop_net::plan::{FlowPlan, Plan, Transport};
use lasthop_net::routing::Routes;
use lasthop_net::trace::{Recorded, Recording, Sink};
use lasthop_net::traffic::{Demand, Offer, Traffic, arrival};
use lasthop_net::transport::extra::Extra;
use lasthop_net::transport::outside::Departure;
use lasthop_net::world::{Evaluation, World, outside};
use lasthop_sim::datagrams::Store;
use lasthop_sim::pcapng::address;
use lasthop_sim::run::{Progress, Run, RunError, Within};
use lasthop_sim::summary::Summary;

use crate::controller::Ours;
use crate::end::{End, LONGEST};
use crate::quic::{Congestion, Settings};
use crate::{Carried, Ends, Failure, Log, Report, Stack, noq, quinn, smoltcp};

/// Ports of ends that answer, and of the one that opens the connection of the flow with the number 0.
const RECEIVER_PORT: u16 = 443;
const SENDER_PORT: u16 = 49_152;
const SENDER_PORTS: u16 = 16_384;
/// Headers of IPv4 and UDP.
const DATAGRAM_HEADER: u16 = 28;
/// Simulated time between two looks at the limits of a run, while no stack has anything to do.
const LOOK: Span = Span::from_millis(20);
/// Events between two looks.
const EVENTS_PER_LOOK: u64 = 65_536;

/// Runs `plan` with `seed` and keeps what is recorded.
pub fn run(plan: &Plan, seed: u64, recording: Recording, progress: &Progress) -> Result<Run, RunError> {
    let mut recorded = Recorded::default();
    let run = run_into(plan, seed, (recording, Evaluation::Eager), &mut recorded, progress)?;
    Ok(Run { recorded, ..run })
}

/// Runs `plan` with `seed` and hands what is recorded to `sink` while the run goes on. A plan without stacks runs as
/// `lasthop-sim` runs it; where there are some, nothing is evaluated ahead of the clock, and what happens is the same.
pub fn run_into(
    plan: &Plan,
    seed: u64,
    (recording, evaluation): (Recording, Evaluation),
    sink: &mut dyn Sink,
    progress: &Progress,
) -> Result<Run, RunError> {
    if plan.flows.iter().all(|flow| flow.transport.stack().is_none()) {
        return lasthop_sim::run::run_into(plan, seed, (recording, evaluation), sink, progress);
    }
    let within = Within::new(plan, recording, progress)?;
    let mut world = World::evaluated(plan, seed, recording, Evaluation::Clocked);
    world.track_tickets();
    let set_up = within.elapsed();
    let mut driver = Driver::new(plan, seed, &mut world);
    let logs = if recording.trace && sink.keeps_logs() { driver.log() } else { Vec::new() };
    let mut check = |world: &mut World| {
        for (flow, log) in &logs {
            let part = log.take();
            if !part.is_empty() {
                sink.log(*flow, &part).map_err(|error| within.unwritten(world, &error))?;
            }
        }
        within.check(world, sink)
    };
    driver.run(&mut world, &mut check)?;
    driver.tell_calls(&mut world);
    world.finish();
    check(&mut world)?;
    let summary = Summary::new(plan, seed, &world, set_up, within.elapsed());
    Ok(Run { summary, world, recorded: Recorded::default() })
}

/// The stacks of both ends of a flow, that which opens the connection first; an error names what is not there.
pub(crate) fn pair(
    flow: &FlowPlan,
    bytes: Option<u64>,
    ends: &Ends,
    log: Option<&Log>,
) -> Result<Pair, String> {
    let Some(config) = flow.transport.stack() else { return Err("it names no stack".to_owned()) };
    let (timed, measured) =
        (is_timed(flow), flow.realtime.is_some() || flow.traffic.offered().codec().is_some());
    let exchange = flow.exchange.is_some();
    match config.name {
        quinn::NAME | noq::NAME => {
            let congestion = match &config.controller {
                Some(controller) => Congestion::Ours(Ours::new(controller.clone())),
                None => Congestion::by_name(config.name, &config.congestion)?,
            };
            let (early_data, datagrams) = (config.early_data, config.datagrams);
            let settings = Settings {
                congestion,
                bytes,
                early_data,
                timed,
                datagrams,
                exchange,
                measured,
                log: log.cloned(),
                ..Settings::default()
            };
            let pair = if config.name == noq::NAME { noq::pair } else { quinn::pair };
            Ok(pair(&settings, ends))
        }
        "smoltcp" => {
            let congestion = smoltcp::Congestion::by_name(&config.congestion);
            let congestion = congestion.ok_or_else(|| format!("smoltcp has no {}", config.congestion))?;
            let settings = smoltcp::Settings { congestion, bytes, timed, exchange, measured };
            Ok(smoltcp::pair(&settings, ends))
        }
        name => Err(format!("this build has no stack {name}")),
    }
}

/// What both ends of a flow are made of, if it starts at a time.
pub(crate) fn ends(plan: &Plan, index: usize, seed: u64, at: Time) -> Ends {
    let flow = &plan.flows[index];
    let entropy = |end: &str| Stream::new(seed, &format!("stack of {}, {end}", flow.name));
    let port = SENDER_PORT + (index % usize::from(SENDER_PORTS)) as u16;
    let (opens, answers) =
        if flow.exchange.is_some() { (flow.sink, flow.source) } else { (flow.source, flow.sink) };
    Ends {
        at,
        sender: SocketAddr::new(address(opens as u32).into(), port),
        receiver: SocketAddr::new(address(answers as u32).into(), RECEIVER_PORT),
        longest: LONGEST,
        sender_entropy: entropy("sender"),
        receiver_entropy: entropy("receiver"),
    }
}

/// Whether the application of a flow writes by a clock of its own.
pub(crate) fn is_timed(flow: &FlowPlan) -> bool {
    !matches!(flow.traffic, Traffic::Ftp(_) | Traffic::Transfer(_))
}

type Pair = (String, Box<dyn Stack>, Box<dyn Stack>);

/// What the application of a flow does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Start,
    Stop,
}

/// A flow of a stack.
struct Flow {
    /// Its number in the plan.
    index: usize,
    /// Sender and receiver, once it has started.
    ends: Option<[End; 2]>,
    /// Packets that each end has sent.
    sent: [u64; 2],
    /// The longest packet that its links take.
    mtu: u32,
    /// Headers below the stack.
    header: u32,
    /// What its sender had counted when the measured time began: packets lost, reductions.
    before: Option<(u64, u64)>,
    /// Its application writes by a clock of its own.
    is_timed: bool,
    /// It has real-time metrics.
    is_realtime: bool,
    call: Option<Call>,
    /// When each packet of the sender left, if its controller tells kinds of losses apart.
    times: Option<Vec<Time>>,
    /// Where its sender's stack writes what it does, if somewhere.
    log: Option<Log>,
    stopped: bool,
    /// It was stopped in the midst of its work.
    withdrawn: bool,
}

/// The datagrams of a call, each as long as the codec makes it.
struct Call {
    bytes: u64,
    /// When each was written, while it has not come.
    written: Vec<Option<Time>>,
    delays: Durations,
    /// Behind the last that has come.
    come: usize,
}

impl Call {
    /// Datagrams that did not come, though one behind them has; of those written in the window.
    fn lost(&self, window: &Window) -> u64 {
        let missing = self.written[..self.come].iter().flatten();
        missing.filter(|&&at| window.contains(at)).count() as u64
    }

    fn arrive(&mut self, now: Time, range: &Range<u64>, window: &Window) {
        let number = (range.start / self.bytes) as usize;
        if let Some(written) = self.written.get_mut(number).and_then(Option::take)
            && window.contains(now)
        {
            self.delays.add(now.since(written));
        }
        self.come = self.come.max(number + 1);
    }
}

struct Driver<'a> {
    plan: &'a Plan,
    seed: u64,
    flows: Vec<Flow>,
    /// The place in `flows` of a flow of the plan. Only looked up.
    by_index: HashMap<usize, usize>,
    /// What applications will do, in order, and the place of the flow.
    acts: BTreeSet<(Time, Act, usize)>,
    /// When which end wants a timeout: twice the place of its flow, one more for a receiver.
    timers: BTreeSet<(Time, usize)>,
    touched: Vec<usize>,
    store: Store<Ecn>,
    left: Vec<Departure>,
    datagram: Vec<u8>,
    arrived: Vec<u8>,
    ranges: Vec<Range<u64>>,
    done: Vec<outside::Act>,
    heard: Vec<(u32, u64)>,
    beliefs: Vec<(Time, LossKind)>,
}

impl<'a> Driver<'a> {
    fn new(plan: &'a Plan, seed: u64, world: &mut World) -> Driver<'a> {
        let mut routes = Routes::new(plan.nodes.len(), &plan.links);
        let (mut flows, mut acts) = (Vec::new(), BTreeSet::new());
        for ((index, flow), start) in plan.flows.iter().enumerate().zip(arrival::starts(&plan.flows, seed)) {
            if flow.transport.stack().is_none() {
                continue;
            }
            // Its row of the results is that of a sender, even if it never starts.
            world.told_of(index, plan.percentiles);
            // A client opens its connections when it asks over them, and begins nothing after `stop`.
            if flow.exchange.is_none() {
                acts.insert((start, Act::Start, flows.len()));
                acts.extend(flow.stop.map(|stop| (stop, Act::Stop, flows.len())));
            }
            let header = match &flow.transport {
                Transport::Outside(config) => config.header,
                _ => 0,
            };
            let controller = flow.transport.stack().and_then(|stack| stack.controller.as_ref());
            let times = controller.filter(|config| config.needs().classifies).map(|_| Vec::new());
            if times.is_some() {
                world.keep_truths(index);
            }
            let mtu = mtu(plan, flow, &mut routes);
            let call = flow.traffic.offered().codec().map(|_| Call {
                bytes: flow.traffic.offered().largest_write().unwrap_or(1).max(1),
                written: Vec::new(),
                delays: Durations::new(plan.percentiles),
                come: 0,
            });
            flows.push(Flow {
                index,
                ends: None,
                sent: [0; 2],
                mtu,
                header,
                before: None,
                is_timed: is_timed(flow),
                is_realtime: flow.realtime.is_some(),
                call,
                times,
                log: None,
                stopped: false,
                withdrawn: false,
            });
        }
        Driver {
            plan,
            seed,
            by_index: flows.iter().enumerate().map(|(place, flow)| (flow.index, place)).collect(),
            flows,
            acts,
            timers: BTreeSet::new(),
            touched: Vec::new(),
            store: Store::new(plan),
            left: Vec::new(),
            datagram: Vec::with_capacity(2048),
            arrived: Vec::with_capacity(2048),
            ranges: Vec::new(),
            done: Vec::new(),
            heard: Vec::new(),
            beliefs: Vec::new(),
        }
    }

    /// From now on the stack of every flow writes a log, if it can: the flow, and its log.
    fn log(&mut self) -> Vec<(u32, Log)> {
        let (plan, seed) = (self.plan, self.seed);
        let logged = self.flows.iter_mut().filter_map(|flow| {
            let FlowPlan { name, transport: Transport::Outside(config), .. } = &plan.flows[flow.index] else {
                return None;
            };
            let title = format!("{name} ({}), seed {seed}", config.name);
            let version = env!("CARGO_PKG_VERSION");
            let mut log =
                Log::new(title, format!("The sender's own log in simulated time, lasthop {version}"));
            log.answers = plan.flows[flow.index].exchange.is_some();
            Some((flow.index as u32, flow.log.insert(log).clone()))
        });
        logged.collect()
    }

    /// Runs to the end. `go_on` is asked now and then; its error stops the run.
    fn run(
        &mut self,
        world: &mut World,
        mut go_on: impl FnMut(&mut World) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let end = Time(self.plan.duration.0);
        let mut looked = 0;
        loop {
            let now = world.standing().now;
            let act = self.acts.first().map(|act| act.0);
            let timer = self.timers.first().map(|timer| timer.0);
            let next = act.into_iter().chain(timer).fold(end, Time::min);
            // Never far at once, so that limits are seen, but no steps through a time in which nothing happens.
            let look = world.next_time().unwrap_or(end).max(now + LOOK);
            let has_left = world.step_until_departure(next.min(look));
            let now = world.standing().now;
            if has_left {
                self.receive(world)?;
            }
            while let Some(&(at, act, place)) = self.acts.first()
                && at <= now
            {
                self.acts.pop_first();
                self.act(world, act, place)?;
            }
            self.hand_over(world)?;
            while let Some(&(at, end)) = self.timers.first()
                && at <= now
            {
                self.timers.pop_first();
                self.flows[end / 2].end_mut(end % 2).timer = None;
                self.touch(end);
            }
            self.serve(world)?;
            self.store.settle(world, |_| {});
            let events = world.standing().events;
            if events >= looked + EVENTS_PER_LOOK {
                looked = events;
                go_on(world)?;
            }
            if now >= end && !world.is_due() {
                return Ok(());
            }
        }
    }

    fn touch(&mut self, end: usize) {
        if !std::mem::replace(&mut self.flows[end / 2].end_mut(end % 2).touched, true) {
            self.touched.push(end);
        }
    }

    /// An application starts or stops.
    fn act(&mut self, world: &mut World, act: Act, place: usize) -> Result<(), RunError> {
        let (seed, now) = (self.seed, world.standing().now);
        let flow = &mut self.flows[place];
        let plan = &self.plan.flows[flow.index];
        if act == Act::Stop {
            flow.stopped = true;
            let Some([sender, _]) = &mut flow.ends else { return Ok(()) };
            // What has been written goes on its way, if the source could have stopped by itself there.
            flow.withdrawn = !(flow.is_timed && world.is_exhausted(flow.index));
            let stopped = if flow.withdrawn { sender.stop(now) } else { sender.write(now, 0, true) };
            stopped.map_err(|reason| ended(plan, &sender.fail((seed, now), reason)))?;
            self.touch(2 * place);
            return Ok(());
        }
        if flow.stopped { Ok(()) } else { self.open(world, place) }
    }

    /// Both ends of a flow begin.
    fn open(&mut self, world: &World, place: usize) -> Result<(), RunError> {
        let (seed, now) = (self.seed, world.standing().now);
        let flow = &mut self.flows[place];
        let plan = &self.plan.flows[flow.index];
        let ends = Ends { longest: flow.mtu - flow.header, ..ends(self.plan, flow.index, seed, now) };
        let (name, opening, answering) = pair(plan, world.length_of(flow.index), &ends, flow.log.as_ref())
            .map_err(|reason| RunError::Stack { flow: plan.name.clone(), reason })?;
        let mut both = [
            End::new(&name, (ends.sender, ends.receiver), opening),
            End::new(&name, (ends.receiver, ends.sender), answering),
        ];
        if plan.exchange.is_some() {
            both.reverse();
        }
        flow.ends = Some(both);
        self.touch(2 * place);
        self.touch(2 * place + 1);
        Ok(())
    }

    /// What applications hand over.
    fn hand_over(&mut self, world: &mut World) -> Result<(), RunError> {
        let mut done = std::mem::take(&mut self.done);
        done.clear();
        world.acts(&mut done);
        for &act in &done {
            match act {
                outside::Act::Write { flow } => self.write(world, self.by_index[&flow])?,
                outside::Act::Exchange { flow, by, stream, bytes } => {
                    self.exchange(world, self.by_index[&flow], by, (stream, bytes))?;
                }
            }
        }
        self.done = done;
        Ok(())
    }

    /// A client or its server hands over bytes on a stream of a connection, which the client opens if it is not there.
    fn exchange(
        &mut self,
        world: &World,
        place: usize,
        by: outside::End,
        (stream, bytes): (u32, u64),
    ) -> Result<(), RunError> {
        if self.flows[place].ends.is_none() {
            self.open(world, place)?;
        }
        let (seed, now) = (self.seed, world.standing().now);
        let side = usize::from(by == outside::End::Receiver);
        let flow = &mut self.flows[place];
        let end = flow.end_mut(side);
        if let Err(reason) = end.exchange(now, stream, bytes) {
            let failure = end.fail((seed, now), reason);
            return Err(ended(&self.plan.flows[flow.index], &failure));
        }
        self.touch(2 * place + side);
        Ok(())
    }

    /// The application of a flow writes, and says when it does so again.
    fn write(&mut self, world: &mut World, place: usize) -> Result<(), RunError> {
        let now = world.standing().now;
        let flow = &mut self.flows[place];
        let Some([sender, _]) = flow.ends.as_mut().filter(|_| !flow.stopped) else { return Ok(()) };
        let demand = if flow.is_timed { sender.demand() } else { Demand::default() };
        let Offer { bytes, next } = world.offer(flow.index, demand);
        if !flow.is_timed {
            // A file is handed over when the connection is made.
            return Ok(());
        }
        if let Some(call) = &mut flow.call {
            call.written.push(Some(now));
        }
        let plan = &self.plan.flows[flow.index];
        let written = sender.write(now, bytes.unwrap_or(0), next.is_none());
        written.map_err(|reason| ended(plan, &sender.fail((self.seed, now), reason)))?;
        self.touch(2 * place);
        Ok(())
    }

    /// All that has left the world.
    fn receive(&mut self, world: &mut World) -> Result<(), RunError> {
        let mut left = std::mem::take(&mut self.left);
        left.clear();
        world.depart(&mut left);
        for departure in &left {
            self.receive_one(world, departure)?;
        }
        self.left = left;
        Ok(())
    }

    fn receive_one(&mut self, world: &mut World, departure: &Departure) -> Result<(), RunError> {
        let &Departure { flow: index, at, packet, extra } = departure;
        let (Some(ticket), Some(&place)) =
            (extra.and_then(|extra| extra.bytes_at), self.by_index.get(&(index as usize)))
        else {
            return Ok(());
        };
        let window = world.network.window();
        let stats = &mut world.network.flows[index as usize];
        let slot = self.store.get_mut(ticket);
        let is_first = slot.copies == 0;
        slot.copies += 1;
        // A copy of it may come later: the receiver changes its own.
        self.arrived.clear();
        self.arrived.extend_from_slice(&slot.bytes);
        let side = usize::from(!packet.note.back);
        if side == 1 {
            stats.arrive_sealed(at, &packet, is_first, &window);
        }
        let end = self.flows[place].end_mut(side);
        let before = end.delivered();
        if let Err(reason) = end.receive(at, Ecn::of_flags(packet.flags), &mut self.arrived) {
            let failure = end.fail((self.seed, at), reason);
            return Err(ended(&self.plan.flows[index as usize], &failure));
        }
        self.heard.clear();
        end.heard(&mut self.heard);
        if side == 1 {
            stats.deliver(at, end.delivered() - before, &window);
            self.ranges.clear();
            end.arrived(&mut self.ranges);
            if let Some(call) = &mut self.flows[place].call {
                self.ranges.iter().for_each(|range| call.arrive(at, range, &window));
            }
            for ranges in self.ranges.chunk_by(|one, next| one.end == next.start) {
                let (start, end) = (ranges[0].start, ranges[ranges.len() - 1].end);
                let whole = Packet { seq: start, payload: (end - start) as u16, ..packet };
                stats.unpack(at, &whole, packet.stamp, true);
            }
        }
        let by = if side == 1 { outside::End::Receiver } else { outside::End::Sender };
        for &(stream, bytes) in &self.heard {
            world.bring(index as usize, by, stream, bytes);
        }
        self.touch(2 * place + side);
        Ok(())
    }

    /// Timeouts that are due, and what wants to be sent, at every end where something has happened, in the order of the
    /// flows.
    fn serve(&mut self, world: &mut World) -> Result<(), RunError> {
        self.touched.sort_unstable();
        let mut touched = std::mem::take(&mut self.touched);
        for &number in &touched {
            self.serve_end(world, number)?;
        }
        touched.clear();
        self.touched = touched;
        Ok(())
    }

    fn serve_end(&mut self, world: &mut World, number: usize) -> Result<(), RunError> {
        let now = world.standing().now;
        let (place, side) = (number / 2, number % 2);
        let Flow { index, ends, sent, mtu, header, is_realtime, times, .. } = &mut self.flows[place];
        let Some(end) = ends.as_mut().map(|ends| &mut ends[side]) else { return Ok(()) };
        end.touched = false;
        let (store, is_over) = (&mut self.store, now >= Time(self.plan.duration.0));
        let served = end.serve(now, &mut self.datagram, |end, ecn, data| {
            if is_over {
                return Ok(false);
            }
            let bytes = data.len() + *header as usize;
            // It must not be cut, and the host cannot send it: a stack that probes for longer packets learns so.
            if bytes <= *mtu as usize {
                let carried = if side == 0 && *is_realtime { Some(end.carried()) } else { None };
                let (again, bare) = (carried == Some(Carried::Again), carried == Some(Carried::Nothing));
                let note = Note::new(side == 1, again);
                let note = if bare { note.bare() } else { note };
                send(world, store, (*index, note, sent[side]), (ecn, data), bytes);
                sent[side] += 1;
                if let (0, Some(times)) = (side, times.as_mut()) {
                    times.push(now);
                }
            }
            Ok(true)
        });
        let timer = match served {
            Ok(timer) => timer,
            Err(reason) => {
                return Err(ended(&self.plan.flows[*index], &end.fail((self.seed, now), reason)));
            }
        };
        if timer != end.timer {
            end.timer.map(|before| self.timers.remove(&(before, number)));
            self.timers.extend(timer.map(|at| (at, number)));
            end.timer = timer;
        }
        if side == 0 {
            self.judge(world, place);
            self.tell(world, place);
        }
        Ok(())
    }

    /// Holds what the controller of a sender took losses for against what they were.
    fn judge(&mut self, world: &mut World, place: usize) {
        let Flow { index, ends: Some([sender, _]), times: Some(times), .. } = &mut self.flows[place] else {
            return;
        };
        self.beliefs.clear();
        sender.beliefs(&mut self.beliefs);
        for &(sent, kind) in &self.beliefs {
            // Several packets may leave at once.
            let from = times.partition_point(|&time| time < sent) as u64;
            let to = times.partition_point(|&time| time <= sent) as u64;
            world.judge(*index, from..to, kind);
        }
    }

    /// Tells the world what came of calls.
    fn tell_calls(&mut self, world: &mut World) {
        let window = world.network.window();
        for flow in &mut self.flows {
            if let (Some(call), Some(told)) =
                (flow.call.take(), world.told_of(flow.index, self.plan.percentiles))
            {
                let lost = call.lost(&window);
                told.call = Some((call.delays, lost));
            }
        }
    }

    /// Tells the world what a sender says of itself.
    fn tell(&mut self, world: &mut World, place: usize) {
        let (window, now) = (world.network.window(), world.standing().now);
        let flow = &mut self.flows[place];
        let (Some([sender, receiver]), Some(told)) =
            (&mut flow.ends, world.told_of(flow.index, self.plan.percentiles))
        else {
            return;
        };
        let report = sender.report();
        let counted =
            |report: &Report| (report.lost_packets.unwrap_or(0), report.congestion_events.unwrap_or(0));
        let mut counts = counted(&report);
        if self.plan.flows[flow.index].exchange.is_some() {
            let client = counted(&receiver.report());
            counts = (counts.0 + client.0, counts.1 + client.1);
        }
        let is_measured = now >= window.from;
        if let Some(rtt) = report.rtt {
            if is_measured && (rtt != told.srtt || told.rtt.count() == 0) {
                told.rtt.add(rtt);
            }
            told.srtt = rtt;
        }
        if let (Some(cwnd), Some(packet @ 1..)) = (report.cwnd_bytes, report.packet_bytes) {
            told.cwnd = cwnd as f64 / packet as f64;
        }
        // What it had counted at the last call before the measured time.
        if !is_measured || flow.before.is_none() {
            flow.before = Some(if is_measured { (0, 0) } else { counts });
        }
        let before = flow.before.unwrap_or_default();
        if is_measured {
            told.retransmitted = counts.0 - before.0;
            told.fast_recoveries = counts.1 - before.1;
        }
        told.completed = report.finished.filter(|_| !flow.withdrawn);
        told.reset = report.closed.map(|(at, _)| at).filter(|_| report.finished.is_none() && !flow.withdrawn);
    }
}

impl Flow {
    /// The sender (0) or the receiver (1), which has started: it has sent, been sent to, or been touched.
    fn end_mut(&mut self, side: usize) -> &mut End {
        match &mut self.ends {
            Some(ends) => &mut ends[side],
            None => unreachable!("a flow has ends before anything happens at them"),
        }
    }
}

/// Puts a datagram on its way. `number`: how many its end has sent before.
fn send(
    world: &mut World,
    store: &mut Store<Ecn>,
    (flow, note, number): (usize, Note, u64),
    (ecn, data): (Ecn, &[u8]),
    bytes: usize,
) {
    let now = world.standing().now;
    let ticket = store.keep(ecn, data);
    let packet = Packet {
        seq: number,
        stamp: now,
        extra: NONE,
        bytes: bytes as u16,
        // What captures show behind headers of IP and UDP.
        payload: (bytes as u16).saturating_sub(DATAGRAM_HEADER),
        kind: Kind::Udp,
        flags: ecn.flags(),
        note,
        ..Packet::default()
    };
    let counts = world.network.window().contains(now);
    let stats = &mut world.network.flows[flow];
    if note.back {
        stats.acks_sent += u64::from(counts);
    } else {
        stats.send(now, &packet);
    }
    world.inject(flow, packet, Some(Extra { bytes_at: Some(ticket), ..Extra::default() }));
}

fn ended(flow: &FlowPlan, failure: &Failure) -> RunError {
    RunError::Stack { flow: flow.name.clone(), reason: failure.to_string() }
}

/// The longest packet that every link takes on any path of a flow; of hosts that choose access points, every link there
/// is.
fn mtu(plan: &Plan, flow: &FlowPlan, routes: &mut Routes) -> u32 {
    let mut directions: Vec<_> = routes.path(flow.source, flow.sink).unwrap_or_default();
    for reroute in &flow.reroutes {
        directions.extend(routes.along(&reroute.nodes).unwrap_or_default());
    }
    let both = |link: usize| plan.links[link].forward.mtu.min(plan.links[link].reverse.mtu);
    let on_paths = directions.into_iter().map(|direction| direction as usize / 2).map(both);
    let all = (0..plan.links.len()).map(both);
    let least = if plan.roaming.is_empty() { on_paths.min() } else { all.min() };
    least.unwrap_or(u32::MAX).min(u16::MAX.into())
}
