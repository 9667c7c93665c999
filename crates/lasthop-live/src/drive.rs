//! The loop that drives a world by the real clock: packets come from the hosts, the world lets everything happen that
//! is due, each thing at its own time, and what has crossed it goes to the other host.
//!
//! Because everything happens at the time for which it was planned, however late we look, lateness does not add up over
//! links, and rates are exact. How late packets left is measured and reported.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use lasthop_core::packet::{Note, Packet};
use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::trace::Recorded;
use lasthop_net::transport::codec::MAX_PACKET;
use lasthop_net::transport::outside::Departure;
use lasthop_net::world::World;
use lasthop_sim::pcapng::Direction;
use lasthop_sim::run::Progress;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::capture::Recorder;
use crate::clock::{Clock, Lateness};
use crate::passage::Passage;
use crate::plan::Host;
use crate::proxy::{Outbox, Proxy, Sent};
use crate::record::Keeper;
use crate::signals::Signals;
use crate::site::Site;

/// Packets taken from one host before it is the next one's turn.
const BATCH: usize = 64;
/// How long the loop sleeps at most: it says how far it is.
const NAP: Duration = Duration::from_secs(1);
/// With a faster path the loop would need so much of a core that the kernel throttled its real-time priority.
const FAST: u64 = 250_000_000;

/// What the loop leaves behind.
pub(crate) struct Driven {
    pub(crate) world: World,
    /// What was recorded, if anything should be.
    pub(crate) recorded: Recorded,
    pub(crate) passage: Passage,
    pub(crate) proxies: Proxies,
    pub(crate) lateness: Lateness,
    /// Share of a core that the loop took in its busiest second.
    pub(crate) busiest_second: f64,
    /// How it was scheduled.
    pub(crate) scheduling: &'static str,
    /// Packets that the kernel would not take from us.
    pub(crate) refused_by_kernel: u64,
}

/// Where a packet is that has left the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At the host of this site.
    Host(usize),
    /// At a proxy, from the side of the source (0) or of the sink (1).
    Proxy(usize, usize),
}

/// The proxies of a run, and what they have to send.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    /// Each with the pair before it; the pair behind it is the next.
    pub(crate) all: Vec<(usize, Proxy)>,
    out: Outbox,
    /// A packet on its way through one.
    packet: Vec<u8>,
}

impl Proxies {
    pub(crate) fn new(all: Vec<(usize, Proxy)>) -> Proxies {
        Proxies { all, ..Proxies::default() }
    }

    fn due(&self) -> Option<Time> {
        self.all.iter().filter_map(|(_, proxy)| proxy.due()).min()
    }
}

/// The loop and its state.
struct Driver<'a> {
    driven: Driven,
    sites: &'a [Site],
    /// Addresses of the hosts at them.
    addresses: Vec<Ipv4Addr>,
    /// Where the packets of each flow are that have reached its source, and its sink.
    ends: Vec<(Place, Place)>,
    left: Vec<Departure>,
    clock: Clock,
    keeper: Option<Keeper>,
    recorder: Option<Recorder>,
}

/// Drives `world`, whose fastest path has this `rate`, from now on until `end`, or until the run is over.
pub(crate) fn drive(
    (world, passage, proxies): (World, Passage, Proxies),
    (keeper, recorder): (Option<Keeper>, Option<Recorder>),
    (hosts, sites, ends): (&[Host], &[Site], Vec<(Place, Place)>),
    (clock, end, rate): (Clock, Time, Rate),
    (signals, progress): (&Signals, &Progress),
) -> io::Result<Driven> {
    let scheduling = take_priority(rate.0 > FAST);
    let _awake = stay_awake();
    let driven = Driven {
        world,
        recorded: Recorded::default(),
        passage,
        proxies,
        lateness: Lateness::default(),
        busiest_second: 0.0,
        scheduling,
        refused_by_kernel: 0,
    };
    let addresses = hosts.iter().map(|host| host.address).collect();
    let mut driver =
        Driver { driven, sites, addresses, ends, left: Vec::with_capacity(BATCH), clock, keeper, recorder };
    driver.run(end, signals, progress)?;
    let Driver { mut driven, keeper, .. } = driver;
    driven.world.cut_short();
    driven.world.finish();
    if let Some(keeper) = keeper {
        driven.recorded = keeper.end(&mut driven.world, &mut driven.passage)?;
    }
    Ok(driven)
}

impl Driver<'_> {
    fn run(&mut self, end: Time, signals: &Signals, progress: &Progress) -> io::Result<()> {
        let mut place = vec![0; MAX_PACKET];
        let devices: Vec<BorrowedFd<'_>> = self.sites.iter().map(Site::device).collect();
        let mut second = (Time::ZERO, cpu_time());
        loop {
            let now = self.clock.now();
            self.advance(now.min(end));
            if now >= end || signals.is_over() {
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
            next = self.driven.proxies.due().map_or(next, |due| due.min(next));
            if let Some(keeper) = &mut self.keeper {
                keeper.look(&mut self.driven.world, &mut self.driven.passage, now)?;
                next = next.min(keeper.next());
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.look(now);
            }
            let wait = self.clock.until(next).min(NAP);
            let mut ready: Vec<PollFd<'_>> =
                devices.iter().map(|&device| PollFd::new(device, PollFlags::POLLIN)).collect();
            ready.push(signals.ending());
            match ppoll(&mut ready, Some(TimeSpec::from_duration(wait)), None) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            for (host, ready) in ready[..devices.len()].iter().enumerate() {
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
            let from = From::Host(self.addresses[host]);
            let entered = enter((world, passage), (from, None), &place[..length], now);
            if let Some((gateway, run)) = passage.new_run()
                && let Some(site) = self.addresses.iter().position(|&address| address == gateway)
            {
                self.sites[site].lead_to(run)?;
            }
            if let Some(recorder) = &mut self.recorder {
                let is_source = entered.is_some_and(|note| !note.back);
                recorder.note((host, is_source), (now, Direction::Outbound), &place[..length]);
            }
        }
        Ok(())
    }

    /// Lets everything happen that is due.
    fn advance(&mut self, now: Time) {
        if !self.driven.proxies.all.is_empty() {
            self.advance_with_proxies(now);
        }
        self.driven.world.step_until(now);
        self.hand_out();
    }

    /// The same where what leaves the world may enter it again at once: each thing at its own time.
    fn advance_with_proxies(&mut self, now: Time) {
        loop {
            let due = self.driven.proxies.due();
            let next = self.driven.world.next_time().into_iter().chain(due).min();
            let Some(next) = next.filter(|&next| next <= now) else { return };
            self.driven.world.step_until(next);
            self.hand_out();
            if due.is_some_and(|due| due <= next) {
                for proxy in 0..self.driven.proxies.all.len() {
                    let Proxies { all, out, .. } = &mut self.driven.proxies;
                    all[proxy].1.on_timer(next, out);
                    self.send_on(proxy, next);
                }
            }
        }
    }

    /// Lets a proxy look at the packet that has reached it from a side.
    fn pass(&mut self, (proxy, side): (usize, usize), left: &Departure) {
        let Departure { at: now, packet: Packet { stamp, note, .. }, extra, .. } = left;
        let (sent, now) =
            (extra.and_then(|extra| extra.first_sent).or((!note.again()).then_some(*stamp)), *now);
        let Driven { world, passage, proxies: Proxies { all, out, packet }, .. } = &mut self.driven;
        let (pair, this) = &mut all[proxy];
        if this.take(packet, (side, sent), now, out) {
            self.send_on(proxy, now);
        } else {
            // It goes on to the other side.
            enter((world, passage), (From::Proxy(*pair + 1 - side), sent), packet, now);
        }
    }

    /// Sends what a proxy has written.
    fn send_on(&mut self, proxy: usize, now: Time) {
        let Driven { world, passage, proxies: Proxies { all, out, .. }, .. } = &mut self.driven;
        for (side, sent, bytes) in out.packets() {
            enter((&mut *world, &mut *passage), (From::Proxy(all[proxy].0 + side), sent), bytes, now);
        }
        out.clear();
    }

    /// Hands out what has left the world.
    fn hand_out(&mut self) {
        let mut left = std::mem::take(&mut self.left);
        left.clear();
        self.driven.world.depart(&mut left);
        for departure in &left {
            self.hand_to(departure);
        }
        self.left = left;
    }

    fn hand_to(&mut self, left: &Departure) {
        let flow = left.flow as usize;
        let Driven { world, passage, proxies, lateness, refused_by_kernel, .. } = &mut self.driven;
        let window = world.network.window();
        let stats = &mut world.network.flows[flow];
        let (source, sink) = self.ends[flow];
        let Some(bytes) = passage.release(flow, left, stats, &window) else { return };
        match if left.packet.note.back { source } else { sink } {
            Place::Host(site) => {
                let is_refused = self.sites[site].give(bytes).is_err();
                *refused_by_kernel += u64::from(is_refused);
                let given = self.clock.now();
                lateness.add(Span(given.0.saturating_sub(left.at.0)));
                if let Some(recorder) = self.recorder.as_mut().filter(|_| !is_refused) {
                    recorder.note((site, left.packet.note.back), (given, Direction::Inbound), bytes);
                }
            }
            Place::Proxy(proxy, side) => {
                proxies.packet.clear();
                proxies.packet.extend_from_slice(bytes);
                self.pass((proxy, side), left);
            }
        }
    }
}

/// What sends a packet into the world.
enum From {
    /// The host with this address.
    Host(Ipv4Addr),
    /// A proxy, into the part of the path that this pair is.
    Proxy(usize),
}

/// A packet enters the world; its data were `sent` first then, if not now. Returns what it is there; nothing if it may
/// not enter.
fn enter(
    (world, passage): (&mut World, &mut Passage),
    (from, sent): (From, Sent),
    bytes: &[u8],
    now: Time,
) -> Option<Note> {
    let window = world.network.window();
    let admitted = match from {
        From::Host(address) => passage.admit(address, bytes, now, &window),
        From::Proxy(pair) => passage.admit_to(pair, bytes, now, &window),
    };
    let mut admitted = admitted.ok()?;
    admitted.extra.first_sent = sent.or(admitted.extra.first_sent);
    // What comes from the sink acknowledges what the source has sent, and the other way round.
    if admitted.packet.note.back {
        world.network.flows[admitted.flow].deliver(now, admitted.delivered, &window);
    } else if let Some(connection) = passage.connection_mut(admitted.flow) {
        connection.deliver_back(now, admitted.delivered, &window);
    }
    world.inject(admitted.flow, admitted.packet, Some(admitted.extra));
    Some(admitted.packet.note)
}

/// Time that this thread has taken of a processor.
fn cpu_time() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// Asks the kernel for processors that wake at once while the file is open, if we may: one that sleeps may need longer
/// than a packet may be late (`Documentation/power/pm_qos_interface.rst` of Linux).
fn stay_awake() -> Option<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
    file.write_all(&0_i32.to_ne_bytes()).ok()?;
    Some(file)
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
