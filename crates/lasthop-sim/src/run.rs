//! One run: a plan and a seed become a world, the world runs, and what it measured becomes a summary.
//!
//! `lasthop-py` calls [`run`], which keeps what it records, or [`run_into`], which hands it to a sink meanwhile, on as
//! many threads as it likes; a run shares nothing but its [`Progress`].

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
#[cfg(not(target_family = "wasm"))]
use std::time::Instant;

use lasthop_core::event::{MAX_EVENTS, MAX_PACKETS};
use lasthop_core::time::Span;
use lasthop_net::network::Overflow;
use lasthop_net::plan::{Plan, Transport};
use lasthop_net::trace::{Recorded, Recording, Sink};
use lasthop_net::world::{Evaluation, World};
// A browser has a clock, but the standard library cannot read it.
#[cfg(target_family = "wasm")]
use web_time::Instant;

use crate::summary::Summary;

/// Why a run did not reach its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// `limits.events` was reached. Events are counted in batches, so a short run may have come to its end by then.
    #[error(
        "the run {}: raise limits.events, or shorten duration or the number of flows",
        if reached < duration {
            format!("passed its limit of {limit} events at {reached} of {duration} simulated")
        } else {
            format!("took {events} events, and its limit is {limit}")
        }
    )]
    EventLimit {
        /// The limit.
        limit: u64,
        /// Events so far.
        events: u64,
        /// Simulated time reached.
        reached: Span,
        /// Simulated time asked for.
        duration: Span,
    },
    /// `limits.wall_time` was reached.
    #[error(
        "the run passed its limit of {limit} of wall-clock time at {reached} of {duration} simulated: raise \
         limits.wall_time, or shorten duration or the number of flows"
    )]
    WallTimeLimit {
        /// The limit.
        limit: Span,
        /// Simulated time reached.
        reached: Span,
        /// Simulated time asked for.
        duration: Span,
    },
    /// A flow that needs a kernel.
    #[error(
        "flow {flow:?} has the transport kernel:{algorithm}, which real packets alone can have: run it with \
         'lasthop emulate', or name a sender of the simulator"
    )]
    NeedsKernel {
        /// Its name.
        flow: String,
        /// The congestion control.
        algorithm: String,
    },
    /// A recording of flows that are told by class.
    #[error(
        "flow {flow:?} has results by class, and a recording tells of every flow: record nothing, or leave out results"
    )]
    ToldByClass {
        /// Its name.
        flow: String,
    },
    /// A flow that needs a stack of others.
    #[error(
        "flow {flow:?} has the transport {transport}, a real stack, which this build does not have: build lasthop from \
         its source with 'make build FEATURES=stacks', or name a sender of the simulator"
    )]
    NeedsStack {
        /// Its name.
        flow: String,
        /// The transport.
        transport: String,
    },
    /// A stack of others did what ends a run.
    #[error("flow {flow:?}: {reason}")]
    Stack {
        /// The flow that it carried.
        flow: String,
        /// What it did, when, and with which seed.
        reason: String,
    },
    /// More packets waited at once than can be told apart.
    #[error(
        "more than {MAX_PACKETS} packets waited at once at {reached} of {duration} simulated: give queues a limit, or \
         lower rates, delays or the number of flows"
    )]
    TooManyPackets {
        /// Simulated time reached.
        reached: Span,
        /// Simulated time asked for.
        duration: Span,
    },
    /// More links, devices or places on paths than can be told apart.
    #[error(
        "the network has more links, devices or places on paths than a run can tell apart: use fewer flows or links"
    )]
    TooManyPlaces,
    /// The sink could not take what was recorded.
    #[error(
        "what the run records cannot be written: {reason}; the run ended at {reached} of {duration} simulated"
    )]
    Recording {
        /// What the sink says.
        reason: String,
        /// Simulated time reached.
        reached: Span,
        /// Simulated time asked for.
        duration: Span,
    },
    /// [`Progress::cancel`] was called.
    #[error("interrupted at {reached} of {duration} simulated")]
    Interrupted {
        /// Simulated time reached.
        reached: Span,
        /// Simulated time asked for.
        duration: Span,
    },
}

/// Shared between the thread that runs and the one that watches.
#[derive(Debug, Default)]
pub struct Progress {
    simulated: AtomicU64,
    packet_hops: AtomicU64,
    events: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    /// Asks the run to stop soon.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Simulated time so far.
    pub fn simulated(&self) -> Span {
        Span(self.simulated.load(Ordering::Relaxed))
    }

    /// Packets times links so far.
    pub fn packet_hops(&self) -> u64 {
        self.packet_hops.load(Ordering::Relaxed)
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Whether the run has been asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Notes the progress of a run for its observer.
    pub fn note(&self, world: &World) {
        let standing = world.standing();
        self.simulated.store(standing.now.0, Ordering::Relaxed);
        self.packet_hops.store(standing.packet_hops, Ordering::Relaxed);
        self.events.store(standing.events, Ordering::Relaxed);
    }
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it measured.
    pub summary: Summary,
    /// The world at its end.
    pub world: World,
    /// Series and traces; empty unless they were recorded and kept.
    pub recorded: Recorded,
}

/// Runs `plan` with `seed` and keeps what is recorded.
pub fn run(plan: &Plan, seed: u64, recording: Recording, progress: &Progress) -> Result<Run, RunError> {
    run_evaluated(plan, seed, (recording, Evaluation::Eager), progress)
}

/// The same with a choice of how links and receivers are evaluated.
pub fn run_evaluated(
    plan: &Plan,
    seed: u64,
    how: (Recording, Evaluation),
    progress: &Progress,
) -> Result<Run, RunError> {
    let mut recorded = Recorded::default();
    let run = run_into(plan, seed, how, &mut recorded, progress)?;
    Ok(Run { recorded, ..run })
}

/// Runs `plan` with `seed` and hands what is recorded to `sink` while the run goes on.
pub fn run_into(
    plan: &Plan,
    seed: u64,
    (recording, evaluation): (Recording, Evaluation),
    sink: &mut dyn Sink,
    progress: &Progress,
) -> Result<Run, RunError> {
    if let Some((flow, config)) = plan.flows.iter().find_map(|flow| match &flow.transport {
        Transport::Outside(config) if config.stack.is_some() => Some((flow, config)),
        _ => None,
    }) {
        return Err(RunError::NeedsStack { flow: flow.name.clone(), transport: config.name.clone() });
    }
    let limits = Within::new(plan, recording, progress)?;
    let mut world = World::evaluated(plan, seed, recording, evaluation);
    let set_up = limits.elapsed();
    world.run(|world| limits.check(world, sink))?;
    let summary = Summary::new(plan, seed, &world, set_up, limits.elapsed());
    Ok(Run { summary, world, recorded: Recorded::default() })
}

/// What every driver of a world asks now and then: whether the run may go on, and to whom what it recorded goes.
#[derive(Debug)]
pub struct Within<'a> {
    plan: &'a Plan,
    progress: &'a Progress,
    started: Instant,
}

impl<'a> Within<'a> {
    /// The run begins now. An error says that a flow needs a kernel, or that flows to be recorded are told by class.
    pub fn new(plan: &'a Plan, recording: Recording, progress: &'a Progress) -> Result<Within<'a>, RunError> {
        for flow in &plan.flows {
            if recording != Recording::default() && flow.class.is_some() {
                return Err(RunError::ToldByClass { flow: flow.name.clone() });
            }
            if let Transport::Tcp(config) = &flow.transport
                && let Some(algorithm) = config.kernel()
            {
                return Err(RunError::NeedsKernel {
                    flow: flow.name.clone(),
                    algorithm: algorithm.to_owned(),
                });
            }
        }
        Ok(Within { plan, progress, started: Instant::now() })
    }

    /// How long it has run by the wall clock.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Notes how far the run has come, refuses to go on beyond its limits, and hands over what was recorded.
    pub fn check(&self, world: &mut World, sink: &mut dyn Sink) -> Result<(), RunError> {
        // Half of the numbers are for timers of receivers, and an event may set more than one.
        let limit = self.plan.limits.events.min(MAX_EVENTS / 4);
        let wall_limit = Duration::from_nanos(self.plan.limits.wall_time.0);
        let duration = self.plan.duration;
        self.progress.note(world);
        let standing = world.standing();
        let reached = Span(standing.now.0);
        match standing.overflow {
            Some(Overflow::Packets) => return Err(RunError::TooManyPackets { reached, duration }),
            Some(Overflow::Places) => return Err(RunError::TooManyPlaces),
            None => {}
        }
        if standing.events > limit {
            return Err(RunError::EventLimit { limit, events: standing.events, reached, duration });
        }
        if self.elapsed() > wall_limit {
            let limit = self.plan.limits.wall_time;
            return Err(RunError::WallTimeLimit { limit, reached, duration });
        }
        if self.progress.is_cancelled() {
            return Err(RunError::Interrupted { reached, duration });
        }
        let handed_over = world.hand_over(sink);
        handed_over.map_err(|error| self.unwritten(world, &error))
    }

    /// The error of a run whose records the sink could not take.
    pub fn unwritten(&self, world: &World, error: &io::Error) -> RunError {
        let reached = Span(world.standing().now.0);
        RunError::Recording { reason: error.to_string(), reached, duration: self.plan.duration }
    }
}
