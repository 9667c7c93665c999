//! What a live run records, as a simulation does: packets on links, and flows, links and helpers over time.
//!
//! The loop that moves packets hands rows to a thread of their own, a few times a second, so that no growing table
//! makes packets late. What a simulated sender would say of itself is seen from outside (flight, RTT), and asked of the
//! kernel where its sockets are ours (window, threshold, smoothed RTT).

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use lasthop_core::packet::Kind;
use lasthop_core::time::{Span, Time};
use lasthop_net::trace::{HopRecord, Recorded, Recording};
use lasthop_net::transport::sack::SackBlocks;
use lasthop_net::world::World;

use crate::passage::Passage;

/// A threshold that was never set.
const NO_THRESHOLD: u32 = i32::MAX as u32;

/// Sockets of the kernel that carry flows, by the ports of their sinks.
pub(crate) type Sockets = Arc<Mutex<BTreeMap<u16, TcpStream>>>;

/// Takes rows from the world while it is driven.
pub(crate) struct Keeper {
    interval: Span,
    next: Time,
    sockets: Sockets,
    rows: Sender<Recorded>,
    thread: JoinHandle<Recorded>,
}

impl Keeper {
    /// Of a run with this interval of series; `None` if nothing is to be recorded.
    pub(crate) fn start(recording: Recording, interval: Span, sockets: &Sockets) -> Option<Keeper> {
        if !recording.series && !recording.trace {
            return None;
        }
        let (rows, taken) = channel::<Recorded>();
        let thread = thread::spawn(move || {
            let mut all = Recorded::default();
            for mut some in taken {
                all.append(&mut some);
            }
            all
        });
        Some(Keeper { interval, next: Time::ZERO + interval, sockets: Arc::clone(sockets), rows, thread })
    }

    /// When it wants to look again.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// Takes what is settled, if an interval is over.
    pub(crate) fn look(&mut self, world: &mut World, passage: &mut Passage, now: Time) -> io::Result<()> {
        if now < self.next {
            return Ok(());
        }
        while self.next <= now {
            self.next += self.interval;
        }
        self.take(world, passage)
    }

    fn take(&self, world: &mut World, passage: &mut Passage) -> io::Result<()> {
        let mut rows = Recorded::default();
        world.hand_over(&mut rows)?;
        // Flows that are not in use yet have no rows.
        rows.flows.retain_mut(|row| {
            let flow = row.sample.flow as usize;
            let Some(connection) = passage.connection_mut(flow) else { return false };
            let (flight, rtt) = connection.observe();
            (row.sample.flight, row.sample.rtt) = (flight, rtt);
            let (source, sink) = (connection.tuple.source.1, connection.tuple.sink.1);
            if let Some(told) = self.ask(sink).or_else(|| self.ask(source)) {
                row.sample.cwnd = f64::from(told.tcpi_snd_cwnd);
                if told.tcpi_snd_ssthresh < NO_THRESHOLD {
                    row.sample.ssthresh = f64::from(told.tcpi_snd_ssthresh);
                }
                row.sample.srtt = Span::from_nanos(1_000 * u64::from(told.tcpi_rtt));
            }
            true
        });
        // Their consumer lives until `end`.
        let _ = self.rows.send(rows);
        Ok(())
    }

    /// What the kernel says of the socket that carries a flow, if one of ours does.
    fn ask(&self, port: u16) -> Option<libc::tcp_info> {
        let sockets = self.sockets.try_lock().ok()?;
        let socket = sockets.get(&port)?;
        let mut told = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        #[expect(
            unsafe_code,
            reason = "the kernel writes at most this many bytes of a structure of numbers that lives"
        )]
        unsafe {
            let place = told.as_mut_ptr().cast();
            let done = libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                place,
                &raw mut length,
            );
            (done == 0).then(|| told.assume_init())
        }
    }

    /// The run is over: returns all that was recorded.
    pub(crate) fn end(self, world: &mut World, passage: &mut Passage) -> io::Result<Recorded> {
        self.take(world, passage)?;
        let Keeper { rows, thread, .. } = self;
        drop(rows);
        thread.join().map_err(|_| io::Error::other("the thread that keeps what is recorded ended early"))
    }
}

/// Gives flows the numbers that they have in results, `numbers` by those that they had in the world; rows of others go.
/// Sequence numbers begin at 0 with the SYN, as in simulations: real connections begin anywhere.
pub(crate) fn renumber(recorded: &mut Recorded, numbers: &BTreeMap<u32, u32>) {
    let keep = |flow: &mut u32| numbers.get(flow).map(|&number| *flow = number).is_some();
    recorded.flows.retain_mut(|row| keep(&mut row.sample.flow));
    let mut first: BTreeMap<u32, u64> = BTreeMap::new();
    recorded.hops.retain_mut(|row| {
        if row.kind == Kind::Syn && !row.back {
            first.insert(row.flow, row.seq);
        }
        let since = first.get(&row.flow).copied().unwrap_or(0);
        from_zero(row, since);
        keep(&mut row.flow)
    });
    for frame in &mut recorded.frames {
        frame.packet = frame.packet.take().and_then(|mut packet| {
            let since = first.get(&packet.flow).copied().unwrap_or(0);
            from_zero(&mut packet, since);
            keep(&mut packet.flow).then_some(packet)
        });
    }
}

fn from_zero(row: &mut HopRecord, first: u64) {
    row.seq = row.seq.saturating_sub(first);
    row.ack = row.ack.saturating_sub(first);
    let mut blocks = SackBlocks::default();
    for &(start, end) in row.sack.as_slice() {
        blocks.push(start.saturating_sub(first), end.saturating_sub(first));
    }
    row.sack = blocks;
}
