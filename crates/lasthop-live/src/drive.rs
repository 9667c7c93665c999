//! The loop that drives a world by the real clock: packets come from the hosts, the world lets everything happen that
//! is due, each thing at its own time, and what has crossed it goes to the other host.
//!
//! Because everything happens at the time for which it was planned, however late we look, lateness does not add up over
//! links, and rates are exact. How late packets left is measured and reported.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::trace::Recorded;
use lasthop_net::transport::codec::MAX_PACKET;
use lasthop_net::transport::outside::Departure;
use lasthop_net::world::World;
use lasthop_sim::run::Progress;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::clock::{Clock, Lateness};
use crate::passage::Passage;
use crate::record::Keeper;
use crate::site::Site;

/// Packets taken from one host before it is the next one's turn.
const BATCH: usize = 64;
/// How long the loop sleeps at most: it has to see that it shall stop.
const NAP: Duration = Duration::from_millis(20);
/// With a faster path the loop would need so much of a core that the kernel throttled its real-time priority.
const FAST: u64 = 250_000_000;

/// What the loop leaves behind.
pub(crate) struct Driven {
    pub(crate) world: World,
    /// What was recorded, if anything should be.
    pub(crate) recorded: Recorded,
    pub(crate) passage: Passage,
    pub(crate) lateness: Lateness,
    /// Share of a core that the loop took in its busiest second.
    pub(crate) busiest_second: f64,
    /// How it was scheduled.
    pub(crate) scheduling: &'static str,
    /// Packets that the kernel would not take from us.
    pub(crate) refused_by_kernel: u64,
}

/// The loop and its state.
struct Driver<'a> {
    driven: Driven,
    sites: &'a [Site],
    /// The sites of the source and of the sink of each flow.
    ends: Vec<(usize, usize)>,
    left: Vec<Departure>,
    clock: Clock,
    keeper: Option<Keeper>,
}

/// Drives `world`, whose fastest path has this `rate`, from now on until `end`, or until it is told to `stop`.
pub(crate) fn drive(
    (world, passage, keeper): (World, Passage, Option<Keeper>),
    (sites, ends): (&[Site], Vec<(usize, usize)>),
    (clock, end, rate): (Clock, Time, Rate),
    stop: &AtomicBool,
    progress: &Progress,
) -> io::Result<Driven> {
    let scheduling = take_priority(rate.0 > FAST);
    let driven = Driven {
        world,
        recorded: Recorded::default(),
        passage,
        lateness: Lateness::default(),
        busiest_second: 0.0,
        scheduling,
        refused_by_kernel: 0,
    };
    let mut driver = Driver { driven, sites, ends, left: Vec::with_capacity(BATCH), clock, keeper };
    driver.run(end, stop, progress)?;
    let Driver { mut driven, keeper, .. } = driver;
    driven.world.cut_short();
    driven.world.finish();
    if let Some(keeper) = keeper {
        driven.recorded = keeper.end(&mut driven.world, &mut driven.passage)?;
    }
    Ok(driven)
}

impl Driver<'_> {
    fn run(&mut self, end: Time, stop: &AtomicBool, progress: &Progress) -> io::Result<()> {
        let mut place = vec![0; MAX_PACKET];
        let devices: Vec<BorrowedFd<'_>> = self.sites.iter().map(Site::device).collect();
        let mut second = (Time::ZERO, cpu_time());
        loop {
            let now = self.clock.now();
            self.advance(now.min(end));
            if now >= end || stop.load(Ordering::Relaxed) || progress.is_cancelled() {
                return Ok(());
            }
            if now.since(second.0) >= Span::from_secs(1) {
                let cpu = cpu_time();
                let share = cpu.saturating_sub(second.1).as_secs_f64() / now.since(second.0).seconds();
                self.driven.busiest_second = self.driven.busiest_second.max(share);
                second = (now, cpu);
                progress.note(&self.driven.world);
            }
            let mut next = self.driven.world.next_time().map_or(end, |next| next.min(end));
            if let Some(keeper) = &mut self.keeper {
                keeper.look(&mut self.driven.world, &mut self.driven.passage, now)?;
                next = next.min(keeper.next());
            }
            let wait = self.clock.until(next).min(NAP);
            let mut ready: Vec<PollFd<'_>> =
                devices.iter().map(|&device| PollFd::new(device, PollFlags::POLLIN)).collect();
            match ppoll(&mut ready, Some(TimeSpec::from_duration(wait)), None) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            for (host, ready) in ready.iter().enumerate() {
                if ready.any() == Some(true) {
                    self.take(host, &mut place)?;
                }
            }
        }
    }

    /// Takes what a host sends.
    fn take(&mut self, host: usize, place: &mut [u8]) -> io::Result<()> {
        for _ in 0..BATCH {
            let Some(length) = self.sites[host].take(place)? else { return Ok(()) };
            let now = self.clock.now();
            self.advance(now);
            let Driven { world, passage, .. } = &mut self.driven;
            let window = world.network.window();
            let Ok(admitted) = passage.admit(&place[..length], now, &window) else { continue };
            let stats = &mut world.network.flows[admitted.flow];
            if admitted.packet.note.back {
                stats.acks_sent += u64::from(window.contains(now));
                stats.deliver(now, admitted.delivered, &window);
            }
            world.inject(admitted.flow, admitted.packet, Some(admitted.extra));
        }
        Ok(())
    }

    /// Lets everything happen that is due, and hands out what has left.
    fn advance(&mut self, now: Time) {
        let Driven { world, passage, lateness, refused_by_kernel, .. } = &mut self.driven;
        world.step_until(now);
        self.left.clear();
        for pair in 0..passage.pairs().len() {
            for flow in passage.flows_of(pair) {
                let first = self.left.len();
                world.depart(flow, &mut self.left);
                for left in &self.left[first..] {
                    let window = world.network.window();
                    let stats = &mut world.network.flows[flow];
                    let (source, sink) = self.ends[flow];
                    let to = if left.packet.note.back { source } else { sink };
                    if let Some(bytes) = passage.release(flow, left, stats, &window) {
                        *refused_by_kernel += u64::from(self.sites[to].give(bytes).is_err());
                        lateness.add(Span(self.clock.now().0.saturating_sub(left.at.0)));
                    }
                }
            }
        }
    }
}

/// Time that this thread has taken of a processor.
fn cpu_time() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// Asks for punctuality: timers without slack, and a priority that suits the work, if we may. Returns which. It is that
/// of this thread alone and ends with it.
pub(crate) fn take_priority(fast: bool) -> &'static str {
    const PRIORITY: i32 = 10;
    #[expect(unsafe_code, reason = "system calls on the calling thread, with a structure that lives")]
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1u64);
        let parameters = libc::sched_param { sched_priority: PRIORITY };
        let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
        if !fast && libc::sched_setscheduler(0, policy, &raw const parameters) == 0 {
            return "real-time priority 10";
        }
        let thread = libc::gettid() as libc::id_t;
        if libc::setpriority(libc::PRIO_PROCESS, thread, -20) == 0 { "nice -20" } else { "default priority" }
    }
}
