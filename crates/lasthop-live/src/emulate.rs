//! A live run from beginning to end: namespaces, programs and flows of the kernel, the loop, and what it measured.

use std::collections::BTreeMap;
use std::io::{self, PipeReader};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::measure::Window;
use lasthop_net::plan::{FlowPlan, Plan, Transport};
use lasthop_net::traffic::arrival;
use lasthop_net::transport::outside::End;
use lasthop_net::world::{Evaluation, World};
use lasthop_sim::run::Progress;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::capture::Captures;
use crate::clock::Clock;
use crate::drive::{Place, Proxies, drive};
use crate::keeper::Running;
use crate::kernel::{KernelFlow, Route, algorithms, refusal};
use crate::live_error::LiveError;
use crate::order::{Connect, Emulated, Ending, LiveReport, Order, Program};
use crate::passage::{Pair, Passage};
use crate::plan::{Host, LivePlan, without_halves};
use crate::process::{self, Names};
use crate::proxy::Proxy;
use crate::record::Keeper;
use crate::rows::{Naming, conclude};
use crate::signals::{EndsRun, Signals};
use crate::site::Site;
use crate::steer::{Decider, Decisions, SteerError};
use crate::store::Store;

/// How long servers have until they listen.
const UNTIL_LISTENING: Duration = Duration::from_secs(10);
/// How often it is looked whether the run is to be interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the network of `scenario` between namespaces. The thread that calls this must live until it returns: programs
/// end with it.
pub fn emulate(
    scenario: &Plan,
    order: &Order,
    connect: Connect<'_>,
    progress: &Progress,
) -> Result<Emulated, LiveError> {
    let began = Instant::now();
    let mut live = LivePlan::new(scenario)?;
    order.nested.map_or(Ok(()), |block| live.move_to(block))?;
    let scenario = &without_halves(scenario);
    let algorithms = algorithms_of(scenario, order);
    let deciders = deciders_of(&algorithms)?;
    let carries = algorithms.iter().any(Option::is_some);
    if !carries {
        // Of a program everything counts: its warm-up is unknown.
        live.plan.warmup = Span::ZERO;
    }
    check_kernel(scenario, &algorithms, &deciders)?;
    let places = order.main.iter().chain(&order.others).map(|program| place_of(&live.hosts, &program.node));
    let places = places.collect::<Result<Vec<usize>, LiveError>>()?;
    let (recorder, captures) = Captures::start(&order.captures, (&live.hosts, &live.pairs))?.unzip();
    let main = order.main.as_ref().map(|_| live.hosts[places[0]].node);
    let gateway = order.nested.and(scenario.flows.first()).map(|flow| live.gateway(flow, main));
    let sites = sites_of((&live, gateway), scenario, carries)?;
    let exit = lead_out((&live.hosts, &sites), order, connect)?;
    let names = Names::new(&live.hosts, gateway, order.outside.as_ref());
    let mut world = World::evaluated(&live.plan, order.seed, order.recording, Evaluation::Clocked);
    for flow in 0..live.plan.flows.len() {
        world.open_end(flow, End::Sender);
        world.open_end(flow, End::Receiver);
    }
    let set_up = began.elapsed();
    let signals = Signals::new().map_err(|error| LiveError::Kernel { step: "making a pipe", error })?;
    let _ends = EndsRun(&signals);
    let end = Time::ZERO + scenario.duration;
    let chosen: Vec<Option<&str>> = algorithms
        .iter()
        .map(|name| name.map(|name| deciders.get(name).map_or(name, Decider::name)))
        .collect();
    let carried = carry(scenario, (&chosen, order.seed), (&live.hosts, &sites), &signals)?;
    let ports: Vec<(u16, usize)> = carried.iter().map(|(index, flow)| (flow.port, *index)).collect();
    let mut children = Children::default();
    let (main_place, other_places) = places.split_at(usize::from(order.main.is_some()));
    let beside =
        order.others.iter().zip(other_places.iter().map(|&place| (&live.hosts[place], &sites[place])));
    let silent = children.start_all_beside(beside, &names, (order, progress))?;
    let mut passage = Passage::new(live.pairs.clone(), Store::default());
    if let Some(place) = gateway {
        passage.set_gateway(live.hosts[place].address);
    }
    if let Some(place) = exit {
        passage.set_exit(live.hosts[place].address);
    }
    let ends = ends_of(&live);
    let window = world.network.window();
    let proxies = proxies_of(&live, order.seed, window);
    let rate = live.pairs.iter().map(|pair| pair.rate).max().unwrap_or(Rate(0));
    if let (Some(program), Some(&place)) = (&order.main, main_place.first()) {
        children.main = Some(start(program, (&live.hosts[place], &sites[place]), &names, &order.mark)?);
    }
    let clock = Clock::start();
    signals.start(clock);
    let keeper = Keeper::start(order.recording, live.plan.series_interval, &signals.sockets);
    let driven = thread::scope(|scope| {
        let (signals, hosts, sites) = (&signals, &live.hosts[..], &sites[..]);
        let (finished, finishes) = io::pipe()?;
        let driver = scope.spawn(move || {
            let world = (world, passage, proxies);
            let driven = drive(
                world,
                (keeper, recorder),
                (hosts, sites, ends),
                (clock, end, rate),
                (signals, progress),
            );
            drop(finishes);
            driven
        });
        let status = watch(&finished, children.main.as_mut(), signals, progress);
        signals.end();
        let driven =
            driver.join().unwrap_or_else(|_| Err(io::Error::other("the emulator's thread ended early")));
        driven.map(|driven| (driven, status))
    });
    let tun_dropped: u64 = sites.iter().map(|site| site.dropped().unwrap_or(0)).sum();
    children.end();
    let captured = captures.map_or(Ok(Vec::new()), Captures::end);
    let (driven, status) = driven.map_err(|error| LiveError::Kernel { step: "moving packets", error })?;
    let completed = completed_of(scenario, carried)?;
    let done = deciders.into_values().map(Decider::end).collect::<Result<Vec<Decisions>, SteerError>>()?;
    let steered = done.into_iter().filter_map(Decisions::session).collect();
    let ended_by = match status {
        _ if progress.is_cancelled() => Ending::Interrupted,
        Some(_) => Ending::Program,
        None => Ending::Scenario,
    };
    let naming = Naming { scenario, ports: &ports, completed: &completed, algorithms: &algorithms };
    let mut emulated =
        conclude(&mut live, driven, (order, status, tun_dropped), &naming, (set_up, began.elapsed()));
    (emulated.report.steered, emulated.report.captures) = (steered, captured?);
    (emulated.report.ended_by, emulated.report.not_listening) = (ended_by, silent);
    Ok(emulated)
}

/// Opens the way out, if there is one; returns the host at which it is.
fn lead_out(
    (hosts, sites): (&[Host], &[Site]),
    order: &Order,
    connect: Connect<'_>,
) -> Result<Option<usize>, LiveError> {
    let Some(outside) = &order.outside else { return Ok(None) };
    let exit = place_of(hosts, &outside.node)?;
    for (place, site) in sites.iter().enumerate() {
        let led = if place == exit { site.pass_on() } else { site.lead_out() };
        led.map_err(|error| LiveError::Kernel { step: "setting up the way out", error })?;
    }
    connect(sites[exit].namespace()).map_err(LiveError::Outside)?;
    Ok(Some(exit))
}

/// Waits for the sockets of the flows; returns when the last byte of each was acknowledged, if it was.
fn completed_of(
    scenario: &Plan,
    carried: Vec<(usize, KernelFlow)>,
) -> Result<BTreeMap<usize, Time>, LiveError> {
    let mut completed = BTreeMap::new();
    for (index, flow) in carried {
        let failed = |error| LiveError::Sockets { flow: scenario.flows[index].name.clone(), error };
        completed.extend(flow.join().map_err(failed)?.map(|at| (index, at)));
    }
    Ok(completed)
}

/// Does what every run does first, and takes it away again: a network namespace with a TUN device, and a program in it
/// with names of its own.
///
/// # Errors
///
/// If the kernel refuses a step.
pub fn rehearse() -> Result<(), LiveError> {
    let host = Host { node: 0, name: "rehearsal".to_owned(), address: Ipv4Addr::new(10, 0, 0, 1) };
    let site = Site::new(host.address, 1500).map_err(|(step, error)| LiveError::Kernel { step, error })?;
    let names = Names::new(std::slice::from_ref(&host), None, None);
    let program = Program { node: host.name.clone(), words: vec!["true".to_owned()] };
    let mut child = start(&program, (&host, &site), &names, "rehearsal")?;
    let failed = |error| LiveError::Kernel { step: "starting a program in the namespace", error };
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(failed(io::Error::other(status.to_string()))) }
}

/// Waits until the driver has `finished`; ends the run with its program, or when it is to be interrupted.
/// Returns how the program ended.
fn watch(
    finished: &PipeReader,
    mut main: Option<&mut Running>,
    signals: &Signals,
    progress: &Progress,
) -> Option<i32> {
    let mut status = None;
    loop {
        let mut ready = vec![PollFd::new(finished.as_fd(), PollFlags::POLLIN)];
        let waits = main.iter().filter(|_| status.is_none());
        ready.extend(waits.map(|program| PollFd::new(program.as_fd(), PollFlags::POLLIN)));
        let waited = ppoll(&mut ready, Some(TimeSpec::from_duration(LOOK)), None);
        if !matches!(waited, Ok(_) | Err(Errno::EINTR)) || ready[0].any() == Some(true) {
            return status;
        }
        if status.is_none()
            && let Some(ended) = main.as_mut().and_then(|program| program.ended())
        {
            status = Some(code_of(ended));
            signals.end();
        }
        if progress.is_cancelled() {
            signals.end();
        }
    }
}

/// Makes the places of all hosts; that of the `gateway` is where we are.
fn sites_of(
    (live, gateway): (&LivePlan, Option<usize>),
    scenario: &Plan,
    carries: bool,
) -> Result<Vec<Site>, LiveError> {
    let sites = live.hosts.iter().enumerate().map(|(place, host)| {
        let mtu = live.mtu_of(host).min(longest_packet(scenario, host, carries));
        let site = if gateway == Some(place) {
            Site::of_caller(host.address, mtu)
        } else {
            Site::new(host.address, mtu)
        };
        site.map_err(|(step, error)| LiveError::Kernel { step, error })
    });
    sites.collect()
}

/// The proxies of a run.
fn proxies_of(live: &LivePlan, seed: u64, window: Window) -> Proxies {
    let proxies = live.proxies.iter().enumerate().map(|(index, (pair, plan))| {
        let numbers = Stream::new(seed, &format!("initial sequence numbers of proxy {index}"));
        (*pair, Proxy::new(plan.clone(), window, numbers))
    });
    Proxies::new(proxies.collect())
}

/// Those who decide instead of the kernel's own algorithms, by what they are called in the order.
fn deciders_of<'a>(algorithms: &[Option<&'a str>]) -> Result<BTreeMap<&'a str, Decider>, LiveError> {
    let mut deciders = BTreeMap::new();
    for algorithm in algorithms.iter().flatten() {
        if !deciders.contains_key(algorithm)
            && let Some(decider) = Decider::of(algorithm)?
        {
            deciders.insert(*algorithm, decider);
        }
    }
    Ok(deciders)
}

/// Programs that are running. Whatever happens, they end.
#[derive(Default)]
struct Children {
    main: Option<Running>,
    others: Vec<Running>,
}

impl Children {
    /// Starts the programs beside the main one, one after the other; returns those that do not listen.
    fn start_all_beside<'a>(
        &mut self,
        programs: impl Iterator<Item = (&'a Program, (&'a Host, &'a Site))>,
        names: &Names,
        (order, progress): (&Order, &Progress),
    ) -> Result<Vec<String>, LiveError> {
        let mut silent = Vec::new();
        for (program, place) in programs {
            if !self.start_beside(program, place, names, (order, progress))? {
                silent.push(format!("{}: {}", program.node, program.words.join(" ")));
            }
        }
        Ok(silent)
    }

    /// Starts a program beside the main one and waits until it listens; returns whether it does.
    fn start_beside(
        &mut self,
        program: &Program,
        (host, site): (&Host, &Site),
        names: &Names,
        (order, progress): (&Order, &Progress),
    ) -> Result<bool, LiveError> {
        let failed = |error| LiveError::Kernel { step: "looking at the sockets of a host", error };
        let before = site.within(process::Before::here).map_err(failed)?;
        let mut child = start(program, (host, site), names, &order.mark)?;
        let listens =
            process::wait_for_server(&mut child, &before, UNTIL_LISTENING, || progress.is_cancelled());
        self.others.push(child);
        Ok(listens)
    }

    fn end(&mut self) {
        self.main = None;
        self.others.clear();
    }
}

fn start(
    program: &Program,
    (host, site): (&Host, &Site),
    names: &Names,
    mark: &str,
) -> Result<Running, LiveError> {
    process::start(&program.words, (host, site.namespace()), names, mark).map_err(|error| {
        let program = program.words.first().cloned().unwrap_or_default();
        LiveError::Program { program, error }
    })
}

/// Exit status of a program, negative if a signal ended it.
pub(crate) fn code_of(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| -status.signal().unwrap_or(0))
}

fn place_of(hosts: &[Host], name: &str) -> Result<usize, LiveError> {
    hosts.iter().position(|host| host.name == name).ok_or_else(|| {
        let known: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        LiveError::NoHost { name: name.to_owned(), known: known.join(", ") }
    })
}

/// The longest packet of the flows at a host whose size the scenario sets; of programs, whatever the links take.
fn longest_packet(scenario: &Plan, host: &Host, kernel: bool) -> usize {
    let own = scenario.flows.iter().filter(|flow| flow.source == host.node || flow.sink == host.node);
    let sizes = own.filter_map(|flow| match &flow.transport {
        Transport::Tcp(config) if kernel => Some((config.mss() + config.data_header()) as usize),
        _ => None,
    });
    sizes.max().unwrap_or(usize::MAX).max(576)
}

/// The places of the source and the sink of each flow.
fn ends_of(live: &LivePlan) -> Vec<(Place, Place)> {
    let host = |address| Place::Host(live.hosts.iter().position(|host| host.address == address).unwrap_or(0));
    let at = |pair: usize, side| {
        let proxy = live.proxies.iter().position(|&(before, _)| before + side == pair);
        proxy.map(|proxy| Place::Proxy(proxy, side))
    };
    let of = |(index, pair): (usize, &Pair)| {
        // Data reach a proxy from the side of the source, and what comes back from that of the sink.
        let ends = (at(index, 1).unwrap_or(host(pair.source)), at(index, 0).unwrap_or(host(pair.sink)));
        vec![ends; pair.flows.len()]
    };
    live.pairs.iter().enumerate().flat_map(of).collect()
}

/// The congestion control with which sockets of the kernel carry each flow, if they do; empty for datagrams, which go
/// with the others.
fn algorithms_of<'a>(scenario: &'a Plan, order: &'a Order) -> Vec<Option<&'a str>> {
    let chosen = order.kernel.as_deref();
    let own = |flow: &'a FlowPlan| match &flow.transport {
        Transport::Tcp(config) => config.kernel(),
        _ => None,
    };
    let any = chosen.is_some() || scenario.flows.iter().any(|flow| own(flow).is_some());
    let of = |flow: &'a FlowPlan| match &flow.transport {
        Transport::Udp(_) => any.then_some(""),
        _ => chosen.or_else(|| own(flow)),
    };
    scenario.flows.iter().map(of).collect()
}

fn check_kernel(
    scenario: &Plan,
    wanted: &[Option<&str>],
    deciders: &BTreeMap<&str, Decider>,
) -> Result<(), LiveError> {
    let known = algorithms();
    for (flow, algorithm) in scenario.flows.iter().zip(wanted) {
        let Some(algorithm) = algorithm else { continue };
        let is_known = algorithm.is_empty() || deciders.contains_key(algorithm);
        if !is_known && !known.iter().any(|name| name == algorithm) {
            return Err(LiveError::Algorithm { name: (*algorithm).to_owned(), known: known.join(", ") });
        }
        if let Some(what) = refusal(flow) {
            return Err(LiveError::Flow { flow: flow.name.clone(), what });
        }
    }
    Ok(())
}

/// Lets the kernel carry the flows of the scenario that it shall.
fn carry(
    scenario: &Plan,
    (algorithms, seed): (&[Option<&str>], u64),
    (hosts, sites): (&[Host], &[Site]),
    signals: &Signals,
) -> Result<Vec<(usize, KernelFlow)>, LiveError> {
    let end = Time::ZERO + scenario.duration;
    let mut carried = Vec::new();
    let starts = arrival::starts(&scenario.flows, seed);
    for (index, ((flow, algorithm), start)) in scenario.flows.iter().zip(algorithms).zip(starts).enumerate() {
        let Some(algorithm) = algorithm else { continue };
        let place = |node: usize| hosts.iter().position(|host| host.node == node);
        let (Some(source), Some(sink)) = (place(flow.source), place(flow.sink)) else { continue };
        let route = Route { source: &sites[source], sink: &sites[sink], sink_address: hosts[sink].address };
        let started = KernelFlow::start((flow, index, start), &route, (algorithm, seed, end), signals);
        let started =
            started.map_err(|error| LiveError::Kernel { step: "opening the sockets of a flow", error })?;
        carried.push((index, started));
    }
    Ok(carried)
}

impl LiveReport {
    /// Says whether the run is worth anything.
    pub(crate) fn judge(&mut self) {
        let millis = |seconds: f64| seconds * 1e3;
        if let Some(late) = self.late_p99_s.filter(|&late| late > self.budget_s) {
            self.invalid_because.push(format!(
                "1 % of the packets left more than {:.3} ms late, {:.3} ms are allowed",
                millis(late),
                millis(self.budget_s)
            ));
        }
        for (count, what) in [
            (
                self.tun_dropped,
                "packets were dropped by the kernel because the emulator was not there to take them",
            ),
            (self.overrun, "packets lost their bytes because too many were on their way"),
        ] {
            if count > 0 {
                self.invalid_because.push(format!("{count} {what}"));
            }
        }
        self.valid = self.invalid_because.is_empty();
    }
}
