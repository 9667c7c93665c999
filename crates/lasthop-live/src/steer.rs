//! Steering: the TCP of the running kernel with a law of ours.
//!
//! The kernel's half (`bpf/steer.bpf.c`) is a congestion control of the kernel, registered under a name that
//! nothing else has (`lh_` and eight digits). It tells what ACKs said, and this half answers through `Host`, the
//! same code that stands around a law in a simulation: a window, by how much it grows with each further segment,
//! what is left of it when something is lost, and a pace. After 200 ms without an answer the part in the kernel
//! behaves as Reno.
//!
//! Registered is registered: a session that was killed leaves its name behind, with which connections go on.
//! Another may take it over ([`Session::resume`]), or take it away ([`clean`]). It is never a default except in
//! namespaces that we made.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use lasthop_cc::ControllerConfig;
use lasthop_cc::host::KERNEL;
use lasthop_core::time::Span;
use lasthop_net::plan::Profile;
use lasthop_net::plan::TcpConfig;
use lasthop_net::transport::tcp::config::Recovery;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;

use crate::abi::{Control, LAW_LENGTH, Record, SLOTS, Slot};
use crate::bpf::{Map, Ring, Shared, maps};
use crate::clock::Lateness;
use crate::follow::{COALESCE, Flows, follow, write};
use crate::kernel::algorithms;
use crate::registration::{MARK, has_maker, load, new_id};
pub use crate::steer_error::SteerError;
use crate::steer_error::failed;
use crate::twin::{TWIN, Twin, TwinReport};

/// The kernel's half, compiled: `make steer-object`.
const OBJECT: &[u8] = include_bytes!("../bpf/steer.bpf.o");
/// What congestion controls of sessions begin with.
pub(crate) const PREFIX: &str = "lh_";
/// Begins the name of a law that shall steer, where otherwise a congestion control of the kernel is named.
const STEERED: &str = "steer:";
/// How often the kernel's half hears that we live; it waits for 200 ms.
const BEAT_MS: u8 = 40;
const RING: usize = 1 << 22;
/// The law of this name with the habits of Linux, if the kernel can serve it.
pub fn law(name: &str) -> Result<ControllerConfig, SteerError> {
    let controller = ControllerConfig::by_name(name).ok_or_else(|| SteerError::Unknown(name.to_owned()))?;
    let unmet = controller.needs().unmet(KERNEL);
    if unmet.is_empty() {
        return Ok(TcpConfig::new(Profile::Linux, controller, Recovery::Sack).controller);
    }
    Err(SteerError::Unmet { law: name.to_owned(), needs: unmet.join(", ") })
}

/// What a session has done so far.
#[derive(Clone, Debug, Serialize)]
pub struct SessionReport {
    /// The congestion control as the kernel knows it.
    pub name: String,
    /// The law that decides.
    pub law: String,
    /// The process that decides, or did.
    pub process: u32,
    /// Whether it lives.
    pub alive: bool,
    /// Connections since the beginning, and those that are open.
    pub connections: u64,
    /// See `connections`.
    pub open: u64,
    /// ACKs that applied a decision.
    pub applied: u64,
    /// ACKs after which the kernel's half decided by itself: no decision yet, none of this epoch, or no process
    /// alive.
    pub on_its_own: u64,
    /// Those of them for which there was an older decision.
    pub stale: u64,
    /// Records told, and those for which there was no room.
    pub records: u64,
    /// See `records`.
    pub missed: u64,
    /// Time from an ACK to the decision that it led to, in seconds: median and 99th percentile. Known to the session
    /// itself alone.
    pub decided_p50_s: Option<f64>,
    /// See `decided_p50_s`.
    pub decided_p99_s: Option<f64>,
}

/// The maps of a session.
#[derive(Debug)]
struct Maps {
    id: String,
    control: Shared,
    slots: Shared,
    registration: Map,
    ring: Ring,
}

impl Maps {
    /// Those of the session of this name, without what it begins with.
    fn of(id: &str) -> io::Result<Option<Maps>> {
        let mut found: BTreeMap<String, Map> = maps(|name| name.ends_with(id))?.into_iter().collect();
        let parts = ["ctl_", "slots_", "ring_", PREFIX].map(|part| found.remove(&format!("{part}{id}")));
        let [Some(control), Some(slots), Some(ring), Some(registration)] = parts else { return Ok(None) };
        Ok(Some(Maps {
            id: id.to_owned(),
            control: Shared::new(&control, (0, size_of::<Control>()), true)?,
            slots: Shared::new(&slots, (0, SLOTS * size_of::<Slot>()), true)?,
            ring: Ring::new(ring, RING)?,
            registration,
        }))
    }

    fn control(&self) -> &Control {
        self.control.at(0)
    }

    /// The slot of this number; there is none for a connection beyond `SLOTS`.
    fn slot(&self, number: usize) -> Option<&Slot> {
        (number < SLOTS).then(|| self.slots.at(number * size_of::<Slot>()))
    }

    fn process(&self) -> u32 {
        self.control().process.load(Ordering::Relaxed)
    }

    fn law(&self) -> String {
        let words = self.control().law.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        words.take_while(|&byte| byte != 0).map(char::from).collect()
    }

    fn report(&self, decided: &Lateness) -> SessionReport {
        let control = self.control();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let is_open = |slot: &Slot| slot.owner.load(Ordering::Relaxed) != 0;
        let [decided_p50_s, decided_p99_s, _] = decided.percentiles_s();
        SessionReport {
            name: format!("{PREFIX}{}", self.id),
            law: self.law(),
            process: self.process(),
            alive: self.is_alive(),
            connections: count(&control.connections),
            open: (0..SLOTS).filter_map(|number| self.slot(number)).filter(|slot| is_open(slot)).count()
                as u64,
            applied: count(&control.applied),
            on_its_own: count(&control.on_its_own),
            stale: count(&control.stale),
            records: count(&control.records),
            missed: count(&control.missed),
            decided_p50_s,
            decided_p99_s,
        }
    }

    /// Whether the process that decides is there, be it stopped.
    fn is_alive(&self) -> bool {
        let process = self.process();
        if process == 0 {
            // No process has registered as decider yet: it is being made, if its maker is there.
            return has_maker(&self.id);
        }
        fs::metadata(format!("/proc/{process}")).is_ok() && is_ours(process)
    }
}

/// Whether a process is one that steers: numbers of processes are given again.
fn is_ours(process: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    maps.lines().any(|line| line.contains("bpf-map"))
}

/// Every session that is registered.
pub fn sessions() -> Result<Vec<SessionReport>, SteerError> {
    Ok(all()?.iter().map(|maps| maps.report(&Lateness::default())).collect())
}

fn all() -> Result<Vec<Maps>, SteerError> {
    let step = failed("looking for sessions");
    let found = maps(|name| name.starts_with(PREFIX) && name.len() == PREFIX.len() + MARK.len());
    // What was taken away stays in memory until the last of its connections has gone.
    let registered = algorithms();
    let names = found.map_err(&step)?.into_iter().map(|(name, _)| name);
    let ids = names.filter(|name| registered.contains(name)).map(|name| name[PREFIX.len()..].to_owned());
    let sessions: io::Result<Vec<Option<Maps>>> = ids.map(|id| Maps::of(&id)).collect();
    Ok(sessions.map_err(&step)?.into_iter().flatten().collect())
}

/// Takes away every session whose process has gone, and returns their names. Connections that they had go on as Reno.
pub fn clean() -> Result<Vec<String>, SteerError> {
    let mut done = Vec::new();
    for maps in all()? {
        if !maps.is_alive() && maps.registration.unregister().is_ok() {
            done.push(format!("{PREFIX}{}", maps.id));
        }
    }
    Ok(done)
}

/// A registered congestion control and the law that decides for it.
#[derive(Debug)]
pub struct Session {
    maps: Maps,
    law: ControllerConfig,
    flows: Flows,
    decided: Lateness,
}

impl Session {
    /// Registers a congestion control with this law.
    pub fn start(law: ControllerConfig) -> Result<Session, SteerError> {
        let id = new_id();
        load(OBJECT, &id)?;
        let maps = Maps::of(&id).map_err(failed("opening the maps of the congestion control"))?;
        let maps = maps.ok_or_else(|| SteerError::Load("its maps are not there".to_owned()))?;
        Ok(Session::with(maps, law))
    }

    /// Takes over the session of this name, whose process has gone; its connections are steered again.
    pub fn resume(name: &str, law: ControllerConfig) -> Result<Session, SteerError> {
        let refused = |state: &str| SteerError::Session { name: name.to_owned(), state: state.to_owned() };
        let id = name.strip_prefix(PREFIX).filter(|id| id.len() == MARK.len());
        let id = id.ok_or_else(|| refused("names of sessions are lh_ and eight digits"))?;
        let maps = all()?.into_iter().find(|maps| maps.id == id);
        let maps = maps.ok_or_else(|| refused("'lasthop steer status' lists those that there are"))?;
        if maps.is_alive() && maps.process() != std::process::id() {
            return Err(refused(&format!("process {} has it", maps.process())));
        }
        Ok(Session::with(maps, law))
    }

    fn with(maps: Maps, law: ControllerConfig) -> Session {
        let control = maps.control();
        let mut name = [0; LAW_LENGTH];
        for (place, byte) in name.iter_mut().zip(law.name().bytes().take(LAW_LENGTH - 1)) {
            *place = byte;
        }
        for (place, word) in control.law.iter().zip(name.as_chunks::<8>().0) {
            place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        control.coalesce_ns.store(COALESCE.0, Ordering::Relaxed);
        control.decides_alone.store(u32::from(law.needs().rate), Ordering::Relaxed);
        control.process.store(std::process::id(), Ordering::Relaxed);
        let session = Session { maps, law, flows: BTreeMap::new(), decided: Lateness::default() };
        session.beat();
        session
    }

    /// What programs call it: `setsockopt(TCP_CONGESTION)`.
    pub fn name(&self) -> String {
        format!("{PREFIX}{}", self.maps.id)
    }

    /// What it has done so far.
    pub fn report(&self) -> SessionReport {
        self.maps.report(&self.decided)
    }

    fn beat(&self) {
        self.maps.control().heartbeat_ns.store(monotonic(), Ordering::Release);
    }

    /// Decides until it is told to stop.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), SteerError> {
        while !stop.load(Ordering::Relaxed) {
            self.beat();
            let mut waiting = [PollFd::new(self.maps.ring.as_fd(), PollFlags::POLLIN)];
            match poll(&mut waiting, PollTimeout::from(BEAT_MS)) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(failed("waiting for records")(error.into())),
            }
            let Session { maps, law, flows, decided, .. } = self;
            let mut place = [0; Record::WORDS];
            maps.ring.drain(&mut place, |words| {
                let Some(record) = Record::read(words) else { return };
                if let Some(decision) = follow(flows, law, &record) {
                    if let Some(slot) = maps.slot(record.slot) {
                        write(slot, &record, &decision);
                    }
                    decided.add(Span(monotonic().saturating_sub(record.at.0)));
                }
            });
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.maps.registration.unregister();
    }
}

/// A session that decides in a thread of its own, at a priority of its own, and ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Steering {
    /// The name of its congestion control.
    name: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<SessionReport, SteerError>>>,
}

impl Steering {
    /// Lets a session decide from now on.
    pub(crate) fn start(mut session: Session) -> Steering {
        let name = session.name();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            session.run(&told)?;
            Ok(session.report())
        });
        Steering { name, stop, thread: Some(thread) }
    }

    /// Whether it goes on deciding.
    fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends it; what it has done.
    fn end(mut self) -> Result<SessionReport, SteerError> {
        self.stop.store(true, Ordering::Relaxed);
        let early = || SteerError::Load("the thread that decides ended early".to_owned());
        let thread = self.thread.take().ok_or_else(early)?;
        thread.join().unwrap_or_else(|_| Err(early()))
    }
}

/// Who decides for connections that are not the kernel's own.
#[derive(Debug)]
pub(crate) enum Decider {
    /// A law in a thread of this process.
    Beside(Steering),
    /// A law in the kernel.
    InKernel(Twin),
}

/// What a decider has done.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Decisions {
    /// Outside of the kernel.
    Beside(SessionReport),
    /// In the kernel, where nothing is counted.
    InKernel(TwinReport),
}

impl Decisions {
    /// Those that were counted.
    pub(crate) fn session(self) -> Option<SessionReport> {
        match self {
            Decisions::Beside(report) => Some(report),
            Decisions::InKernel(_) => None,
        }
    }
}

impl Decider {
    /// Registers what an algorithm asks for by its name, `steer:veno` or `twin:veno`; nothing for the kernel's own.
    pub(crate) fn of(algorithm: &str) -> Result<Option<Decider>, SteerError> {
        if let Some(law) = algorithm.strip_prefix(TWIN) {
            return Ok(Some(Decider::InKernel(Twin::start(law)?)));
        }
        let Some(name) = algorithm.strip_prefix(STEERED) else { return Ok(None) };
        Ok(Some(Decider::Beside(Steering::start(Session::start(law(name)?)?))))
    }

    /// What programs call it: `setsockopt(TCP_CONGESTION)`.
    pub(crate) fn name(&self) -> &str {
        match self {
            Decider::Beside(steering) => &steering.name,
            Decider::InKernel(twin) => twin.name(),
        }
    }

    /// Whether it goes on deciding.
    pub(crate) fn is_running(&self) -> bool {
        match self {
            Decider::Beside(steering) => steering.is_running(),
            Decider::InKernel(_) => true,
        }
    }

    /// Ends it; what it has done.
    pub(crate) fn end(self) -> Result<Decisions, SteerError> {
        match self {
            Decider::Beside(steering) => steering.end().map(Decisions::Beside),
            Decider::InKernel(twin) => Ok(Decisions::InKernel(twin.report())),
        }
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The clock of the kernel's half, in nanoseconds.
fn monotonic() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}
