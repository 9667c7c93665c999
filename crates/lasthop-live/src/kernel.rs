//! The flows of a scenario with sockets of the kernel: what its applications would send, by its TCP.
//!
//! Each flow has a thread at its source, which sends, and one at its sink, which takes. Both are in the namespaces of
//! their hosts. Bytes are zeros.

use std::ffi::CString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{FlowPlan, Start, Traffic, Transport};
use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrIn, setsockopt, sockopt};

use crate::clock::Clock;
use crate::record::Sockets;
use crate::site::{Site, enter};

/// The first port at which sinks listen: that of flow 0.
const FIRST_PORT: u16 = 20_000;
/// How long a socket waits before its thread looks whether it shall stop.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long a connection may take to open before it is tried anew.
const UNTIL_CONNECTED: Duration = Duration::from_secs(5);
/// A receive buffer that the kernel grows to by itself. What a scenario sets below it is set.
const USUAL_BUFFER: u32 = 4 << 20;
/// Bytes of one write.
const CHUNK: usize = 1 << 16;

/// What a thread is told: when the run began, and whether it is over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signals {
    pub(crate) clock: Arc<OnceLock<Clock>>,
    pub(crate) stop: Arc<AtomicBool>,
    /// Sockets that send; their windows are read through them.
    pub(crate) sockets: Sockets,
}

impl Signals {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps until a time of the run; whether it came before the run was over.
    fn sleep_until(&self, at: Time) -> bool {
        loop {
            if self.is_over() {
                return false;
            }
            match self.clock.get() {
                None => thread::sleep(Duration::from_millis(1)),
                Some(clock) => {
                    let left = clock.until(at);
                    if left.is_zero() {
                        return true;
                    }
                    thread::sleep(left.min(PATIENCE));
                }
            }
        }
    }

    fn now(&self) -> Time {
        self.clock.get().map_or(Time::ZERO, Clock::now)
    }
}

/// A flow that sockets of the kernel carry.
pub(crate) struct KernelFlow {
    /// The port of its sink.
    pub(crate) port: u16,
    sink: JoinHandle<io::Result<()>>,
    source: JoinHandle<io::Result<Option<Time>>>,
}

/// Where a flow runs.
pub(crate) struct Route<'a> {
    pub(crate) source: &'a Site,
    pub(crate) sink: &'a Site,
    pub(crate) sink_address: Ipv4Addr,
}

/// What a source does.
#[derive(Clone, Debug)]
struct Task {
    to: SocketAddrV4,
    algorithm: String,
    start: Time,
    stop: Time,
    /// Bytes in all; none ends never.
    bytes: Option<u64>,
    /// Bytes of one write and the time between writes; none writes as fast as the socket takes it.
    pace: Option<(usize, Span)>,
}

/// Why a flow cannot be carried: its traffic.
pub(crate) fn refusal(flow: &FlowPlan) -> Option<&'static str> {
    match (&flow.transport, &flow.traffic) {
        (Transport::Rate(_), _) => Some("a rate-based transport, which the kernel does not have"),
        (_, Traffic::OnOff { .. }) => Some("on-off traffic"),
        (_, Traffic::Frames(_)) => Some("video"),
        _ => None,
    }
}

impl KernelFlow {
    /// Starts the threads of flow number `index`; its sink listens when this returns.
    pub(crate) fn start(
        (flow, index): (&FlowPlan, usize),
        route: &Route<'_>,
        (algorithm, seed, end): (&str, u64, Time),
        signals: &Signals,
    ) -> io::Result<KernelFlow> {
        let port = FIRST_PORT + index as u16;
        let to = SocketAddrV4::new(route.sink_address, port);
        let is_tcp = matches!(flow.transport, Transport::Tcp(_));
        let buffer = match &flow.transport {
            Transport::Tcp(config) => Some(config.receive_buffer()).filter(|&bytes| bytes < USUAL_BUFFER),
            _ => None,
        };
        let start = match flow.start {
            Start::At(time) => time,
            Start::Uniform(from, to) => {
                let mut stream = Stream::new(seed, &format!("start of {}", flow.name));
                from + Span(stream.below(to.since(from).0))
            }
        };
        let (bytes, pace) = match flow.traffic {
            Traffic::Ftp { bytes } => (bytes, None),
            Traffic::PacedFtp { write, interval, bytes } => (bytes, Some((write as usize, interval))),
            Traffic::Cbr { rate, packet, .. } => {
                (None, Some((packet as usize, Span::from_seconds(f64::from(packet) * 8.0 / rate.0 as f64))))
            }
            Traffic::OnOff { .. } | Traffic::Frames(_) => (Some(0), None),
        };
        let task = Task {
            to,
            algorithm: algorithm.to_owned(),
            start,
            stop: flow.stop.map_or(end, |stop| stop.min(end)),
            bytes,
            pace,
        };
        let (near, far) = (route.source.namespace().try_clone_to_owned()?, route.sink.namespace());
        let listening = if is_tcp {
            let listener = within(far.try_clone_to_owned()?, move || {
                let listener = TcpListener::bind(to)?;
                if let Some(buffer) = buffer {
                    limit_buffer(&listener, buffer)?;
                }
                listener.set_nonblocking(true)?;
                Ok(listener)
            })?;
            let signals = signals.clone();
            thread::spawn(move || take_stream(&listener, &signals))
        } else {
            let socket = within(far.try_clone_to_owned()?, move || UdpSocket::bind(to))?;
            let signals = signals.clone();
            thread::spawn(move || take_datagrams(&socket, &signals))
        };
        let signals = signals.clone();
        let source = thread::spawn(move || {
            enter(near.as_fd())?;
            if is_tcp { send_stream(&task, &signals) } else { send_datagrams(&task, &signals) }
        });
        Ok(KernelFlow { port, sink: listening, source })
    }

    /// Waits for its threads, which have been told that the run is over; when the last byte was acknowledged, if all
    /// were.
    pub(crate) fn join(self) -> io::Result<Option<Time>> {
        let early = || io::Error::other("a thread ended early");
        let completed = self.source.join().unwrap_or_else(|_| Err(early()))?;
        self.sink.join().unwrap_or_else(|_| Err(early()))?;
        Ok(completed)
    }
}

/// Does something within a namespace.
fn within<T: Send + 'static>(
    namespace: std::os::fd::OwnedFd,
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let entered = thread::spawn(move || {
        enter(namespace.as_fd())?;
        act()
    });
    entered.join().unwrap_or_else(|_| Err(io::Error::other("a thread ended early")))
}

/// Whether an error of a socket says nothing but that it took long.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn take_stream(listener: &TcpListener, signals: &Signals) -> io::Result<()> {
    let mut stream = loop {
        if signals.is_over() {
            return Ok(());
        }
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if is_pause(&error) => thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut place = vec![0; CHUNK];
    while !signals.is_over() {
        match stream.read(&mut place) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if is_pause(&error) => {}
            // The run is over for the other end.
            Err(_) => break,
        }
    }
    Ok(())
}

fn take_datagrams(socket: &UdpSocket, signals: &Signals) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut place = vec![0; CHUNK];
    while !signals.is_over() {
        match socket.recv(&mut place) {
            Err(error) if !is_pause(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn send_stream(task: &Task, signals: &Signals) -> io::Result<Option<Time>> {
    let Some(mut stream) = connect(task, signals)? else { return Ok(None) };
    let sent = send_through(&mut stream, task, signals);
    if signals.is_over() {
        // No process is left to read the rest: without this the kernel would try for minutes.
        let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
        setsockopt(&stream, sockopt::Linger, &at_once)?;
    }
    sent
}

fn connect(task: &Task, signals: &Signals) -> io::Result<Option<TcpStream>> {
    if !signals.sleep_until(task.start) {
        return Ok(None);
    }
    let stream = loop {
        match open(task) {
            Ok(stream) => break stream,
            Err(_) if signals.is_over() => return Ok(None),
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
    };
    if let Ok(mut sockets) = signals.sockets.lock() {
        sockets.insert(task.to.port(), stream.try_clone()?);
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(Some(stream))
}

/// Opens a connection with the congestion control of the task. It is chosen before there is a connection: one that
/// begins under another keeps what that has left behind. Where BBR is the default of the kernel, whatever follows it is
/// paced.
fn open(task: &Task) -> io::Result<TcpStream> {
    let (family, kind) = (AddressFamily::Inet, SockType::Stream);
    let stream = TcpStream::from(socket::socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?);
    choose(&stream, &task.algorithm)?;
    stream.set_write_timeout(Some(UNTIL_CONNECTED))?;
    match socket::connect(stream.as_raw_fd(), &SockaddrIn::from(task.to)) {
        Ok(()) => Ok(stream),
        Err(Errno::EINPROGRESS) => Err(ErrorKind::TimedOut.into()),
        Err(error) => Err(error.into()),
    }
}

fn send_through(stream: &mut TcpStream, task: &Task, signals: &Signals) -> io::Result<Option<Time>> {
    let zeros = vec![0; CHUNK];
    let (mut written, mut next) = (0u64, task.start);
    while !signals.is_over() && signals.now() < task.stop && task.bytes.is_none_or(|bytes| written < bytes) {
        let mut chunk = CHUNK;
        if let Some((write, interval)) = task.pace {
            if !signals.sleep_until(next) {
                break;
            }
            next += interval;
            chunk = write.min(CHUNK);
        }
        let room = task.bytes.map_or(chunk as u64, |bytes| (bytes - written).min(chunk as u64));
        match stream.write(&zeros[..room as usize]) {
            Ok(count) => written += count as u64,
            Err(error) if is_pause(&error) => {}
            Err(_) if signals.is_over() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    if signals.is_over() {
        return Ok(None);
    }
    stream.shutdown(Shutdown::Write)?;
    // The other end closes when it has everything.
    let mut place = [0; 1];
    while !signals.is_over() {
        match stream.read(&mut place) {
            Ok(0) => return Ok(Some(signals.now()).filter(|_| task.bytes == Some(written))),
            Err(error) if is_pause(&error) => {}
            _ => break,
        }
    }
    Ok(None)
}

fn send_datagrams(task: &Task, signals: &Signals) -> io::Result<Option<Time>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(task.to)?;
    let (size, interval) = task.pace.unwrap_or((1_000, Span::from_millis(1)));
    let zeros = vec![0; size.min(CHUNK)];
    let mut next = task.start;
    while next < task.stop && signals.sleep_until(next) {
        match socket.send(&zeros) {
            // The sink has gone, or there is no room: datagrams may get lost.
            Ok(_) => {}
            Err(_) if signals.is_over() => break,
            Err(error) if is_pause(&error) || error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
        next += interval;
    }
    Ok(None)
}

/// Chooses the congestion control of a socket.
pub(crate) fn choose(stream: &TcpStream, algorithm: &str) -> io::Result<()> {
    let name = CString::new(algorithm).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
    #[expect(unsafe_code, reason = "the kernel reads this many bytes of a string that lives")]
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            algorithm.len() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the connections of a listener a receive buffer of this many bytes, for good.
fn limit_buffer(listener: &TcpListener, bytes: u32) -> io::Result<()> {
    let bytes = bytes as libc::c_int;
    #[expect(unsafe_code, reason = "the kernel reads one number, which lives")]
    let done = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Congestion controls that the kernel has loaded.
pub(crate) fn algorithms() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    text.unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect()
}
