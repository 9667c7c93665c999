//! Steering: the TCP of the running kernel with a law of ours.
//!
//! The kernel's half (`bpf/steer.bpf.c`) is a congestion control of the kernel, registered under a name that
//! nothing else has (`lh_` and eight digits). It tells what ACKs said, and this half answers through [`Host`], the
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
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::JoinHandle;
use std::time::Duration;

use lasthop_cc::host::{Decision, Floors, Host, KERNEL, Memory, unwrap32};
use lasthop_cc::{AckSample, Arrival, ControllerConfig, LossSample, RateSample, RecoveryKind, Start, Window};
use lasthop_core::time::{Span, Time};
use lasthop_net::plan::Profile;
use lasthop_net::plan::TcpConfig;
use lasthop_net::transport::tcp::config::Recovery;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use thiserror::Error;

use crate::bpf::{Map, Ring, Shared, maps};
use crate::clock::Lateness;
use crate::kernel::algorithms;
use crate::registration::{MARK, has_maker, load, new_id};
use crate::twin::{TWIN, Twin, TwinReport};

/// The kernel's half, compiled: `make steer-object`.
const OBJECT: &[u8] = include_bytes!("../bpf/steer.bpf.o");
/// What congestion controls of sessions begin with.
pub(crate) const PREFIX: &str = "lh_";
/// Begins the name of a law that shall steer, where otherwise a congestion control of the kernel is named.
const STEERED: &str = "steer:";
/// A record is told after an eighth of an RTT, but no later than this after the one before.
const COALESCE: Duration = Duration::from_millis(5);
/// How often the kernel's half hears that we live; it waits for 200 ms.
const BEAT_MS: u8 = 40;
/// Connections that can be steered at a time; the rest are Reno's.
const SLOTS: usize = 4096;
const RING: usize = 1 << 22;
/// Fractions of a segment in windows that the kernel is told.
const WHOLE: f64 = 65_536.0;
/// A threshold that is not known, for the kernel.
const UNKNOWN_SSTHRESH: u32 = 0x7fff_ffff;

/// Places in `struct control`.
mod control {
    pub(super) const HEARTBEAT: usize = 0;
    pub(super) const COALESCE: usize = 8;
    pub(super) const PROCESS: usize = 16;
    pub(super) const DECIDES_ALONE: usize = 20;
    pub(super) const LAW: usize = 24;
    pub(super) const LAW_LENGTH: usize = 24;
    pub(super) const CONNECTIONS: usize = 48;
    pub(super) const APPLIED: usize = 56;
    pub(super) const ON_ITS_OWN: usize = 64;
    pub(super) const STALE: usize = 72;
    pub(super) const RECORDS: usize = 80;
    pub(super) const MISSED: usize = 88;
    pub(super) const LENGTH: usize = 128;
}

/// Places in `struct slot`.
mod slot {
    pub(super) const OWNER: usize = 0;
    pub(super) const SEQUENCE: usize = 32;
    pub(super) const EPOCH: usize = 36;
    pub(super) const CWND: usize = 40;
    pub(super) const SLOPE: usize = 48;
    pub(super) const GROWN_AT: usize = 56;
    pub(super) const SSTHRESH: usize = 60;
    pub(super) const SHARE: usize = 64;
    pub(super) const PACING: usize = 72;
    pub(super) const LENGTH: usize = 112;
}

/// Why a session did not come about.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SteerError {
    /// No law of this name.
    #[error("no controller {0:?}: 'lasthop transports' lists them")]
    Unknown(String),
    /// A law that the kernel cannot serve.
    #[error("{law} cannot steer the TCP of the kernel: it needs {needs}, which the kernel does not have")]
    Unmet {
        /// Its name.
        law: String,
        /// What is missing.
        needs: String,
    },
    /// A law that is not there in the kernel.
    #[error(
        "{law} has no twin in the kernel: {known} have one; without it, any that the kernel serves can steer"
    )]
    NoTwin {
        /// Its name.
        law: String,
        /// Those that are.
        known: String,
    },
    /// There is no such session, or it lives.
    #[error("no session {name:?} to resume: {state}")]
    Session {
        /// What was asked for.
        name: String,
        /// Why it cannot be had.
        state: String,
    },
    /// The object could not be loaded.
    #[error("the kernel did not take the congestion control: {0}; 'lasthop doctor' says what steering needs")]
    Load(String),
    /// The kernel refused something.
    #[error("{step} failed: {error}; 'lasthop doctor' says what steering needs")]
    Kernel {
        /// What was to be done.
        step: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

pub(crate) fn failed(step: &'static str) -> impl Fn(io::Error) -> SteerError {
    move |error| SteerError::Kernel { step, error }
}

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
            control: Shared::new(&control, (0, control::LENGTH), true)?,
            slots: Shared::new(&slots, (0, SLOTS * slot::LENGTH), true)?,
            ring: Ring::new(ring, RING)?,
            registration,
        }))
    }

    fn process(&self) -> u32 {
        self.control.word(control::PROCESS).load(Ordering::Relaxed)
    }

    fn law(&self) -> String {
        let words = (0..control::LAW_LENGTH / 8).flat_map(|index| {
            self.control.number(control::LAW + 8 * index).load(Ordering::Relaxed).to_ne_bytes()
        });
        words.take_while(|&byte| byte != 0).map(char::from).collect()
    }

    fn report(&self, decided: &Lateness) -> SessionReport {
        let count = |at: usize| self.control.number(at).load(Ordering::Relaxed);
        let open = |place: &usize| {
            self.slots.number(place * slot::LENGTH + slot::OWNER).load(Ordering::Relaxed) != 0
        };
        let [decided_p50_s, decided_p99_s, _] = decided.percentiles_s();
        SessionReport {
            name: format!("{PREFIX}{}", self.id),
            law: self.law(),
            process: self.process(),
            alive: self.is_alive(),
            connections: count(control::CONNECTIONS),
            open: (0..SLOTS).filter(open).count() as u64,
            applied: count(control::APPLIED),
            on_its_own: count(control::ON_ITS_OWN),
            stale: count(control::STALE),
            records: count(control::RECORDS),
            missed: count(control::MISSED),
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
        let mut name = [0; control::LAW_LENGTH];
        for (place, byte) in name.iter_mut().zip(law.name().bytes().take(control::LAW_LENGTH - 1)) {
            *place = byte;
        }
        for (index, word) in name.as_chunks::<8>().0.iter().enumerate() {
            let place = maps.control.number(control::LAW + 8 * index);
            place.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        maps.control.number(control::COALESCE).store(COALESCE.as_nanos() as u64, Ordering::Relaxed);
        let alone = u32::from(law.needs().rate);
        maps.control.word(control::DECIDES_ALONE).store(alone, Ordering::Relaxed);
        maps.control.word(control::PROCESS).store(std::process::id(), Ordering::Relaxed);
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
        self.maps.control.number(control::HEARTBEAT).store(monotonic(), Ordering::Release);
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
                    write(&maps.slots, &record, &decision);
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

// ---------------------------------------------------------------------------------------------------------------------
// One connection

/// What the kernel's half tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Opened,
    Acked,
    Lost,
    TimedOut,
    Marked,
    Recovered,
    Undone,
    Restarted,
    Closed,
}

/// `struct record`. Sequence numbers are those of the kernel, which wrap.
#[derive(Clone, Copy, Debug)]
struct Record {
    id: u64,
    at: Time,
    slot: usize,
    kind: Kind,
    epoch: u32,
    acked: u32,
    acks: u32,
    grown: u32,
    /// Segments of those that were acknowledged while the window was the limit.
    limited: u32,
    rtt: Option<Span>,
    srtt: Span,
    cwnd: u32,
    ssthresh: f64,
    in_flight: u32,
    mss: u32,
    una: u32,
    next: u32,
    delivered: u32,
    rate: Option<(u64, Span)>,
    prior_in_flight: u32,
    losses: u32,
    app_limited: bool,
    prior_delivered: u32,
}

impl Record {
    const WORDS: usize = 30;

    fn read(words: &[u32]) -> Option<Record> {
        let [id, id_high, at, at_high, slot, kind, epoch, acked, acks, grown, limited, rtt, rest @ ..] =
            words
        else {
            return None;
        };
        let [srtt, cwnd, ssthresh, in_flight, mss, una, next, delivered, rest @ ..] = rest else {
            return None;
        };
        let [rate_delivered, interval, prior_in_flight, losses, app_limited, prior_delivered, ..] = rest
        else {
            return None;
        };
        let long = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let micros = |count: u32| Span::from_nanos(u64::from(count) * 1000);
        let kind = match kind {
            1 => Kind::Opened,
            2 => Kind::Acked,
            3 => Kind::Lost,
            4 => Kind::TimedOut,
            5 => Kind::Marked,
            6 => Kind::Recovered,
            7 => Kind::Undone,
            8 => Kind::Restarted,
            9 => Kind::Closed,
            _ => return None,
        };
        let is_rate = rate_delivered.cast_signed() > 0 && interval.cast_signed() > 0;
        Some(Record {
            id: long(*id, *id_high),
            at: Time(long(*at, *at_high)),
            slot: *slot as usize,
            kind,
            epoch: *epoch,
            acked: *acked,
            acks: *acks,
            grown: *grown,
            limited: *limited,
            rtt: (*rtt > 0).then(|| micros(*rtt)),
            srtt: micros(*srtt),
            cwnd: *cwnd,
            ssthresh: if *ssthresh < UNKNOWN_SSTHRESH { f64::from(*ssthresh) } else { f64::INFINITY },
            in_flight: *in_flight,
            mss: (*mss).max(1),
            una: *una,
            next: *next,
            delivered: *delivered,
            rate: is_rate.then(|| (u64::from(*rate_delivered), micros(*interval))),
            prior_in_flight: *prior_in_flight,
            losses: *losses,
            app_limited: *app_limited != 0,
            prior_delivered: *prior_delivered,
        })
    }
}

/// What a connection is to do until it is told otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Decided {
    /// Segments, with fractions.
    cwnd: f64,
    /// Segments by which it grows with each further one that is acknowledged.
    slope: f64,
    ssthresh: u32,
    /// What of the window is left when something is lost.
    share: f64,
    /// Bytes per second; 0 leaves it to the window.
    pacing: u64,
}

/// A connection that is steered.
#[derive(Debug)]
struct Flow {
    host: Host,
    opened: Time,
    last: Time,
    una: u64,
    next: u64,
    delivered: u64,
    slope: f64,
    learnt: Learnt,
    before: Option<Memory>,
    recovery: Option<RecoveryKind>,
}

/// By how much the window has grown, with how many segments, since the slope was last learnt.
#[derive(Clone, Copy, Debug, Default)]
struct Learnt {
    grown: f64,
    segments: u32,
    /// Of a whole window, by a law that is past slow start.
    settled: bool,
}

impl Flow {
    fn new(law: &ControllerConfig, record: &Record) -> Flow {
        let window = Window { cwnd: f64::from(record.cwnd.max(1)), ssthresh: record.ssthresh };
        let mut host = Host::new(law, Floors::Rfc, window);
        host.start(&Start { now: record.at, history: &[], handshake: record.srtt, mss: record.mss });
        // Numbers that lie behind the first one seen stay above zero.
        let una = 1 << 32 | u64::from(record.una);
        Flow {
            host,
            opened: record.at,
            last: record.at,
            una,
            next: unwrap32(una, record.next),
            delivered: 1 << 32 | u64::from(record.delivered),
            slope: if window.in_slow_start() { 1.0 } else { 0.0 },
            learnt: Learnt::default(),
            before: None,
            recovery: None,
        }
    }

    fn follow(&mut self, record: &Record) -> Decided {
        let una = unwrap32(self.una, record.una);
        let next = unwrap32(self.next, record.next);
        self.delivered = unwrap32(self.delivered, record.delivered);
        self.acked(record, una, next);
        // Linux asks its controllers for a share of cwnd, whether the application fills it or not. When a loss is told
        // the kernel's has begun to fall, and the law's has not; at a timeout it is what recovery has left.
        let flight =
            if record.kind == Kind::TimedOut { f64::from(record.cwnd) } else { self.host.window.cwnd };
        let loss = LossSample { now: record.at, flight: flight.max(1.0), retransmitted: false };
        match record.kind {
            Kind::Lost => {
                self.before = Some(self.host.remember());
                let reduction = self.host.answer_loss(&loss);
                self.host.reduce(reduction);
                self.recovery = Some(RecoveryKind::Fast);
            }
            Kind::TimedOut => {
                self.before = Some(self.host.remember());
                self.host.timed_out(&loss, false, next);
                self.recovery = Some(RecoveryKind::Timeout);
            }
            Kind::Marked => {
                self.before = Some(self.host.remember());
                self.host.answer_mark(&loss, next);
                self.recovery = Some(RecoveryKind::Fast);
            }
            Kind::Undone => {
                if let Some(before) = self.before.take() {
                    self.host.undo(before);
                }
            }
            Kind::Recovered => {
                (self.recovery, self.before) = (None, None);
                if !self.host.needs().rate {
                    // The kernel's threshold is whole. Without the fraction of the law's the window would end below it,
                    // in slow start.
                    let (goal, whole) = (self.host.window.ssthresh, f64::from(record.cwnd.max(1)));
                    self.host.window.cwnd = if goal.floor() == whole { goal } else { whole };
                }
            }
            Kind::Restarted => {
                self.host.idle(record.at.since(self.last), Span::ZERO);
                self.host.window.cwnd = f64::from(record.cwnd.max(1));
            }
            Kind::Opened | Kind::Acked | Kind::Closed => {}
        }
        (self.una, self.next, self.last) = (una, next, record.at);
        self.decided(&loss, record.mss)
    }

    /// What the ACKs of a record said: as many samples as there were ACKs, since laws count both.
    fn acked(&mut self, record: &Record, una: u64, next: u64) {
        let needs = self.host.needs();
        if needs.arrivals && record.acks > 0 {
            self.arrived(record, una, next);
        }
        let before = self.host.window;
        let may_grow = self.recovery.is_none() && record.limited > 0;
        let mut handed = 0;
        for index in 0..record.acks.min(record.acked) {
            let acked = record.acked / record.acks + u32::from(index < record.acked % record.acks);
            let share = u64::from(index + 1) * (una - self.una) / u64::from(record.acks.max(1));
            self.host.grow(&AckSample {
                now: record.at,
                elapsed: record.at.since(self.opened),
                rtt: record.rtt,
                srtt: record.srtt,
                acked,
                una: self.una + share,
                next,
                mss: record.mss,
                // Segments that were SACKed, or did not fill the window, do not make it grow.
                may_grow: may_grow && handed < record.limited,
            });
            handed += acked;
        }
        if may_grow {
            self.learn_slope(before, record.limited);
        }
        if needs.rate && record.acks > 0 {
            self.host.rate(&RateSample {
                now: record.at,
                rate: record.rate,
                app_limited: record.app_limited,
                prior_delivered: unwrap32(self.delivered, record.prior_delivered),
                delivered: self.delivered,
                acked: record.acked,
                lost: record.losses,
                prior_flight: record.prior_in_flight,
                flight: record.in_flight,
                rtt: record.rtt,
                maybe_delayed: false,
                srtt: record.srtt,
                recovery: self.recovery,
                mss: record.mss,
            });
        }
    }

    /// Every ACK of a record arrives, at even distances, as far as can be told: laws that measure the bandwidth count
    /// them, and repetitions among them.
    fn arrived(&mut self, record: &Record, una: u64, next: u64) {
        let count = u64::from(record.acks);
        let span = record.at.since(self.last).min(Span::from_nanos(COALESCE.as_nanos() as u64));
        // In whole segments: two that share three are not two each.
        let mss = u64::from(record.mss);
        let segments = (una - self.una).div_ceil(mss);
        let covered = |index: u64| (self.una + index * segments / count * mss).min(una);
        for index in 0..count {
            self.host.arrive(&Arrival {
                now: record.at - Span(span.0 * (count - 1 - index) / count),
                una: covered(index),
                ack: if index + 1 < count { covered(index + 1) } else { una },
                next,
                mss: record.mss,
                srtt: record.srtt,
                ece: false,
                times: None,
                discards: None,
                report: None,
            });
        }
    }

    /// By how much the window grows with a segment. A law that grows in steps, such as by a segment per RTT, shows that
    /// over a whole window alone; in slow start, and until a window has passed after it, what was seen last counts.
    fn learn_slope(&mut self, before: Window, segments: u32) {
        let window = self.host.window;
        let Learnt { grown, segments: counted, settled } = &mut self.learnt;
        // A step to what the path holds is not how the law grows.
        *grown += (window.cwnd - before.cwnd).clamp(0.0, f64::from(segments));
        *counted += segments;
        let is_whole = f64::from(*counted) >= window.cwnd;
        if before.in_slow_start() {
            self.slope = ((window.cwnd - before.cwnd) / f64::from(segments)).clamp(0.0, 1.0);
            self.learnt = Learnt::default();
        } else if is_whole || !*settled {
            self.slope = (*grown / f64::from(*counted)).clamp(0.0, 1.0);
            if is_whole {
                self.learnt = Learnt { settled: true, ..Learnt::default() };
            }
        }
    }

    /// What it says to the kernel. What would be left after a loss is asked of a copy, beforehand.
    fn decided(&self, loss: &LossSample, mss: u32) -> Decided {
        let Decision { cwnd: _, ssthresh, pacing } = self.host.decision();
        let flight = self.host.window.cwnd.max(1.0);
        let reduction = self.host.clone().answer_loss(&LossSample { flight, ..*loss });
        Decided {
            cwnd: self.host.window.cwnd.clamp(1.0, 1e9),
            slope: if self.host.needs().rate { 0.0 } else { self.slope },
            ssthresh: ssthresh.clamp(2, UNKNOWN_SSTHRESH),
            share: (reduction.ssthresh / flight).clamp(0.0, 1.0),
            pacing: pacing.map_or(0, |segments| (segments * f64::from(mss)) as u64),
        }
    }
}

/// The connections by their slots, with what the kernel's half calls them: no more than there are slots, even if a
/// record was missed that told of an end.
type Flows = BTreeMap<usize, (u64, Flow)>;

/// Tells a connection of a record; what it decides, unless it has gone.
fn follow(flows: &mut Flows, law: &ControllerConfig, record: &Record) -> Option<Decided> {
    if record.slot >= SLOTS {
        return None;
    }
    if record.kind == Kind::Closed {
        if flows.get(&record.slot).is_some_and(|(id, _)| *id == record.id) {
            flows.remove(&record.slot);
        }
        return None;
    }
    let (id, flow) = flows.entry(record.slot).or_insert_with(|| (record.id, Flow::new(law, record)));
    if *id != record.id {
        (*id, *flow) = (record.id, Flow::new(law, record));
    }
    Some(flow.follow(record))
}

/// Writes a decision into the slot of its connection. Its number is odd meanwhile.
fn write(slots: &Shared, record: &Record, decided: &Decided) {
    let at = record.slot * slot::LENGTH;
    if slots.number(at + slot::OWNER).load(Ordering::Relaxed) != record.id {
        return;
    }
    let sequence = slots.word(at + slot::SEQUENCE);
    let number = sequence.load(Ordering::Relaxed) | 1;
    sequence.store(number, Ordering::Relaxed);
    fence(Ordering::Release);
    slots.word(at + slot::EPOCH).store(record.epoch, Ordering::Relaxed);
    slots.number(at + slot::CWND).store((decided.cwnd * WHOLE) as u64, Ordering::Relaxed);
    slots.number(at + slot::SLOPE).store((decided.slope * WHOLE) as u64, Ordering::Relaxed);
    slots.word(at + slot::GROWN_AT).store(record.grown, Ordering::Relaxed);
    slots.word(at + slot::SSTHRESH).store(decided.ssthresh, Ordering::Relaxed);
    // Upwards, so that nine of eleven segments are nine.
    slots.word(at + slot::SHARE).store((decided.share * WHOLE).ceil() as u32, Ordering::Relaxed);
    slots.number(at + slot::PACING).store(decided.pacing, Ordering::Relaxed);
    sequence.store(number.wrapping_add(1), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    /// A connection by this law with these windows, and what its first record said.
    fn flow(name: &str, cwnd: u32, ssthresh: f64) -> (Flow, Record) {
        let opened = Record {
            id: 1,
            at: Time(1_000_000_000),
            slot: 0,
            kind: Kind::Opened,
            epoch: 1,
            acked: 0,
            acks: 0,
            grown: 0,
            limited: 0,
            rtt: None,
            srtt: Span::from_millis(100),
            cwnd,
            ssthresh,
            in_flight: 0,
            mss: MSS,
            una: 1,
            next: 1,
            delivered: 0,
            rate: None,
            prior_in_flight: 0,
            losses: 0,
            app_limited: false,
            prior_delivered: 0,
        };
        (Flow::new(&law(name).unwrap(), &opened), opened)
    }

    /// The next record: this many segments acknowledged by as many ACKs, 10 ms later.
    fn acked(last: &Record, segments: u32) -> Record {
        Record {
            kind: Kind::Acked,
            at: last.at + Span::from_millis(10),
            acked: segments,
            acks: segments,
            limited: segments,
            rtt: Some(Span::from_millis(100)),
            una: last.una + segments * MSS,
            next: last.una + (segments + 10) * MSS,
            ..*last
        }
    }

    /// By hand: 10.9 segments are halved to 5.45, of which the kernel has 5; above its threshold it must not start
    /// slowly again.
    #[test]
    fn the_fraction_of_a_reduction_outlives_the_recovery() {
        let (mut flow, opened) = flow("reno", 10, 5.0);
        let grown = acked(&opened, 9);
        flow.follow(&grown);
        let window = flow.host.window.cwnd;
        assert!((10.8..10.9).contains(&window), "{window}");
        let lost = Record { kind: Kind::Lost, acked: 0, acks: 0, limited: 0, cwnd: 9, ..grown };
        assert_eq!(flow.follow(&lost).ssthresh, 5);
        let recovered = flow.follow(&Record { kind: Kind::Recovered, cwnd: 5, ..lost });
        assert!((recovered.cwnd - window / 2.0).abs() < 1e-9 && !flow.host.window.in_slow_start());
        let cut_short = Record { kind: Kind::Recovered, cwnd: 4, ..lost };
        assert_eq!(flow.follow(&cut_short).cwnd, 4.0, "what the kernel has, where it has less");
    }

    /// By hand: two ACKs every 10 ms are 200 segments a second, which is 20 per RTT of 100 ms, whether they cover new
    /// data or not.
    #[test]
    fn every_acknowledgement_of_a_record_counts() {
        let (mut flow, mut record) = flow("westwood+", 40, 5.0);
        record.next = 40 * MSS;
        for _ in 0..400 {
            record = Record { una: record.una, next: record.next, ..acked(&record, 2) };
            let repeated = Record { una: 1, next: 40 * MSS, limited: 0, ..record };
            flow.follow(&repeated);
            record.una = 1;
        }
        let share = flow.follow(&Record { acks: 0, acked: 0, ..record }).share;
        let left = share * flow.host.window.cwnd;
        assert!((18.0..=21.0).contains(&left), "{left}");
    }

    /// Veno adds one segment per window: the slope is learnt over one, not over the records between two steps.
    #[test]
    fn the_slope_of_a_law_that_grows_in_steps_is_that_of_a_window() {
        let (mut flow, mut record) = flow("veno", 10, 5.0);
        let slopes: Vec<f64> = (0..20)
            .map(|_| {
                record = acked(&record, 2);
                flow.follow(&record).slope
            })
            .collect();
        assert!(slopes[6..].iter().all(|&slope| slope > 0.05 && slope < 0.15), "{slopes:?}");
        assert!(slopes[0] == 0.0, "{slopes:?}");
    }
}
