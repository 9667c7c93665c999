//! One end of a connection in real time: a process of its own, with a UDP socket in place of the simulated network.
//!
//! The stack is the one that [`crate::scenario`] runs, made of the same scenario and seed, so that what differs between
//! simulated and real time is the clock, the sockets and the network.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use lasthop::{Ecn, Span, Time};
use lasthop_net::plan::{FlowPlan, Plan, Transport};
use lasthop_net::trace::Recording;
use lasthop_net::traffic::arrival;
use lasthop_net::world::{Evaluation, World};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::end::{End, Reason};
use crate::{Report, scenario};

/// The longest datagram that can come.
const LONGEST: usize = 65_536;
/// IPv4 and UDP.
const HEADERS: u16 = 28;

/// What a process is to do.
#[derive(Debug)]
pub struct Order<'a> {
    /// The scenario.
    pub plan: &'a Plan,
    /// Its seed.
    pub seed: u64,
    /// The number of the flow.
    pub flow: usize,
    /// Whether this is the end that opens the connection and sends.
    pub is_sender: bool,
    /// Where the other end is; the receiver learns it from what arrives.
    pub peer: Option<SocketAddr>,
    /// When it ends, from the call on.
    pub lasts: Span,
}

/// What has become of it.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// What the stack says at the end.
    pub report: Report,
    /// Mean of its smoothed RTTs, each new one counting once.
    pub rtt_mean: Option<Span>,
    /// Datagrams that were sent, and that arrived.
    pub datagrams: (u64, u64),
}

/// Why an end was not carried.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// The flow is none of a stack over UDP.
    #[error("flow {flow}: {reason}")]
    Flow {
        /// Its name.
        flow: String,
        /// What is the matter.
        reason: String,
    },
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Socket(#[from] io::Error),
    /// The stack did.
    #[error("the stack {0}")]
    Stack(#[from] Reason),
}

/// Carries one end of a flow over `socket` until its time is over.
pub fn carry(order: &Order<'_>, socket: &UdpSocket) -> Result<Carried, RealError> {
    let Order { plan, seed, flow: index, .. } = *order;
    let flow = plan.flows.get(index).ok_or_else(|| RealError::Flow {
        flow: index.to_string(),
        reason: format!("the scenario has {}", plan.flows.len()),
    })?;
    check(flow)?;
    let world = World::evaluated(plan, seed, Recording::default(), Evaluation::Clocked);
    // A receiver waits for what comes.
    let starts = arrival::starts(&plan.flows, seed).into_iter().nth(index);
    let begins = starts.filter(|_| order.is_sender).unwrap_or(Time::ZERO);
    let wire = Wire::new(socket, order.peer)?;
    std::thread::sleep(Duration::from_nanos(begins.0.saturating_sub(wire.now().0)));
    let ends = scenario::ends(plan, index, seed, begins);
    let (name, sender, receiver) = scenario::pair(flow, world.length_of(index), &ends, None)
        .map_err(|reason| RealError::Flow { flow: flow.name.clone(), reason })?;
    let (addresses, stack) = if order.is_sender {
        ((ends.sender, ends.receiver), sender)
    } else {
        ((ends.receiver, ends.sender), receiver)
    };
    let stop = flow.stop.filter(|_| order.is_sender);
    Carrier { wire, end: End::new(&name, addresses, stack), rtts: Rtts::default(), received: 0, stop }
        .run(Time(order.lasts.0))
}

/// Refuses what is no stack over UDP.
fn check(flow: &FlowPlan) -> Result<(), RealError> {
    let reason = match &flow.transport {
        Transport::Outside(config) if config.stack.is_some() && config.header == u32::from(HEADERS) => {
            if !scenario::is_timed(flow) {
                return Ok(());
            }
            "over sockets a stack carries files alone: traffic = \"ftp\" or \"transfer\""
        }
        Transport::Outside(config) if config.stack.is_some() => "its stack does not run over UDP",
        _ => "no stack carries it",
    };
    Err(RealError::Flow { flow: flow.name.clone(), reason: reason.to_owned() })
}

/// The socket and the clock.
struct Wire<'a> {
    socket: &'a UdpSocket,
    state: UdpSocketState,
    peer: Option<SocketAddr>,
    began: Instant,
}

impl<'a> Wire<'a> {
    fn new(socket: &'a UdpSocket, peer: Option<SocketAddr>) -> io::Result<Wire<'a>> {
        // It also forbids to cut datagrams, as the probes of a path's MTU want it.
        Ok(Wire { socket, state: UdpSocketState::new(socket.into())?, peer, began: Instant::now() })
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Waits for a datagram, or until a time.
    fn wait(&self, until: Time) -> io::Result<()> {
        let left = Duration::from_nanos(until.0.saturating_sub(self.now().0));
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(self.socket, PollFlags::IN)], Some(&timeout)) {
            Err(Errno::INTR) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn send(&self, ecn: Ecn, data: &[u8]) -> io::Result<()> {
        let Some(destination) = self.peer else { return Ok(()) };
        let ecn = EcnCodepoint::from_bits(ecn.bits());
        let transmit = Transmit { destination, ecn, contents: data, segment_size: None, src_ip: None };
        match self.state.try_send(self.socket.into(), &transmit) {
            // A full buffer loses it, as a full queue does; the stack finds out.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            // It probed for a longer packet than the link takes.
            Err(error) if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) => Ok(()),
            // The other end is not there yet, or no longer.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            other => other,
        }
    }
}

/// Mean of what a stack says of its RTT.
#[derive(Default)]
struct Rtts {
    last: Option<Span>,
    sum: f64,
    count: u64,
}

impl Rtts {
    fn take(&mut self, rtt: Option<Span>) {
        if rtt == self.last {
            return;
        }
        self.last = rtt;
        if let Some(rtt) = rtt {
            self.sum += rtt.seconds();
            self.count += 1;
        }
    }
}

struct Carrier<'a> {
    wire: Wire<'a>,
    end: End,
    rtts: Rtts,
    received: u64,
    stop: Option<Time>,
}

impl Carrier<'_> {
    fn run(mut self, until: Time) -> Result<Carried, RealError> {
        let mut buffer = vec![0; LONGEST];
        let mut datagram = Vec::with_capacity(2048);
        loop {
            let now = self.wire.now();
            if now >= until {
                break;
            }
            if self.stop.is_some_and(|at| at <= now) {
                self.stop = None;
                self.end.stop(now)?;
            }
            let wire = &self.wire;
            let mut failed = None;
            let timer = self.end.serve(now, &mut datagram, |_, ecn, data| {
                failed = wire.send(ecn, data).err();
                Ok(failed.is_none())
            })?;
            if let Some(error) = failed {
                return Err(error.into());
            }
            self.rtts.take(self.end.report().rtt);
            let next = timer.into_iter().chain(self.stop).fold(until, Time::min);
            self.wire.wait(next)?;
            self.receive(&mut buffer)?;
        }
        let rtt_mean =
            (self.rtts.count > 0).then(|| Span::from_seconds(self.rtts.sum / self.rtts.count as f64));
        Ok(Carried { report: self.end.report(), rtt_mean, datagrams: (self.end.datagrams, self.received) })
    }

    /// All that waits at the socket, at one instant: what is read at once has come at once for a stack, as the drivers
    /// have it that come with them.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<(), RealError> {
        let now = self.wire.now();
        loop {
            let mut meta = [RecvMeta::default()];
            let received =
                self.wire.state.recv(self.wire.socket.into(), &mut [IoSliceMut::new(buffer)], &mut meta);
            let meta = match received {
                Ok(_) => meta[0],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            self.wire.peer = self.wire.peer.or(Some(meta.addr));
            let ecn = Ecn::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8));
            // Several of one length may come as one (GRO).
            for data in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                self.received += 1;
                self.end.receive(now, ecn, data)?;
            }
        }
    }
}
