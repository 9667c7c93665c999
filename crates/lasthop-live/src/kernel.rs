//! The flows of a scenario with sockets of the kernel: what its applications would send, by its TCP.
//!
//! Each flow has a thread at its source, which sends, and one at its sink, which takes. Both are in the namespaces of
//! their hosts. Bytes are zeros.

use std::ffi::CString;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lasthop_core::time::Time;
use lasthop_net::plan::{FlowPlan, Transport};
use lasthop_net::traffic::video::Packing;
use lasthop_net::traffic::{Source, stream_of};
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrIn, setsockopt, sockopt};

use crate::signals::Signals;
use crate::site::{Site, enter};

/// The first port at which sinks listen: that of flow 0.
const FIRST_PORT: u16 = 20_000;
/// How long a connection may take to open before it is tried anew.
const UNTIL_CONNECTED: Duration = Duration::from_secs(5);
/// A receive buffer that the kernel grows to by itself. What a scenario sets below it is set.
const USUAL_BUFFER: u32 = 4 << 20;
/// Whether connections that begin in a namespace ask for ECN.
const ASK_FOR_ECN: &str = "/proc/sys/net/ipv4/tcp_ecn";
/// Bytes of one write.
const CHUNK: usize = 1 << 16;

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
#[derive(Clone)]
struct Task {
    to: SocketAddrV4,
    algorithm: String,
    start: Time,
    stop: Time,
    /// Bytes in all, of a transfer whose completion is told.
    bytes: Option<u64>,
    /// The application, as a simulation has it.
    source: Source,
    /// It writes now and then: what it writes is sent at once.
    is_timed: bool,
}

/// Why a flow cannot be carried: its traffic.
pub(crate) fn refusal(flow: &FlowPlan) -> Option<&'static str> {
    match &flow.transport {
        Transport::Rate(_) => Some("a rate-based transport, which the kernel does not have"),
        _ if flow.traffic.offered().connections().is_some() => Some("requests and answers"),
        Transport::Outside(_) => Some("a stack in simulated time, which the kernel does not have"),
        _ if flow.traffic.offered().encoder().is_some() => Some("an encoder that follows its transport"),
        Transport::Udp(_) if flow.traffic.offered().video().is_some() => Some("video in datagrams"),
        _ => None,
    }
}

impl KernelFlow {
    /// Starts the threads of flow number `index`, whose application starts at `start`; its sink listens when this
    /// returns.
    pub(crate) fn start(
        (flow, index, start): (&FlowPlan, usize, Time),
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
        let source = Source::new(&flow.traffic, Packing::of(&flow.transport), stream_of(seed, &flow.name));
        let task = Task {
            to,
            algorithm: algorithm.to_owned(),
            start,
            stop: flow.stop.map_or(end, |stop| stop.min(end)),
            bytes: source.length(),
            source,
            is_timed: flow.traffic.offered().is_timed(),
        };
        let (near, far) = (route.source.namespace().try_clone_to_owned()?, route.sink.namespace());
        let listening = if is_tcp {
            let law = algorithm.to_owned();
            let listener = within(far.try_clone_to_owned()?, move || {
                let listener = TcpListener::bind(to)?;
                // DCTCP's receivers echo marks in a way of their own.
                choose(&listener, &law)?;
                if let Some(buffer) = buffer {
                    limit_buffer(&listener, buffer)?;
                }
                listener.set_nonblocking(true)?;
                Ok(listener)
            })?;
            let signals = signals.clone();
            thread::spawn(move || take_stream(&listener, &signals))
        } else {
            let socket = within(far.try_clone_to_owned()?, move || {
                let socket = UdpSocket::bind(to)?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            })?;
            let signals = signals.clone();
            thread::spawn(move || take_datagrams(&socket, &signals))
        };
        let signals = signals.clone();
        let asks_for_marks = matches!(&flow.transport, Transport::Tcp(config) if config.uses_ecn());
        let source = thread::spawn(move || {
            enter(near.as_fd())?;
            if asks_for_marks {
                fs::write(ASK_FOR_ECN, "1")?;
            }
            if is_tcp { send_stream(task, &signals) } else { send_datagrams(task, &signals) }
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
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
        if !signals.wait(listener.as_fd(), PollFlags::POLLIN, None)? {
            return Ok(());
        }
    };
    stream.set_nonblocking(true)?;
    let mut place = vec![0; CHUNK];
    while signals.wait(stream.as_fd(), PollFlags::POLLIN, None)? {
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
    let mut place = vec![0; CHUNK];
    while signals.wait(socket.as_fd(), PollFlags::POLLIN, None)? {
        match socket.recv(&mut place) {
            Err(error) if !is_pause(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn send_stream(task: Task, signals: &Signals) -> io::Result<Option<Time>> {
    let Some(mut stream) = connect(&task, signals)? else { return Ok(None) };
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
        match open(task, signals) {
            Ok(stream) => break stream,
            Err(_) if signals.is_over() => return Ok(None),
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
    };
    if let Ok(mut sockets) = signals.sockets.lock() {
        sockets.insert(task.to.port(), stream.try_clone()?);
    }
    Ok(Some(stream))
}

/// Opens a connection with the congestion control of the task. It is chosen before there is a connection: one that
/// begins under another keeps what that has left behind. Where BBR is the default of the kernel, whatever follows it is
/// paced.
fn open(task: &Task, signals: &Signals) -> io::Result<TcpStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let stream = TcpStream::from(socket::socket(AddressFamily::Inet, SockType::Stream, flags, None)?);
    choose(&stream, &task.algorithm)?;
    stream.set_nodelay(task.is_timed)?;
    match socket::connect(stream.as_raw_fd(), &SockaddrIn::from(task.to)) {
        Ok(()) => return Ok(stream),
        Err(Errno::EINPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    signals.wait(stream.as_fd(), PollFlags::POLLOUT, Some(UNTIL_CONNECTED))?;
    match stream.take_error()? {
        Some(error) => Err(error),
        // Neither: it has taken too long.
        None if stream.peer_addr().is_err() => Err(ErrorKind::TimedOut.into()),
        None => Ok(stream),
    }
}

/// Writes what the application has whenever there is room for it; its times do not wait for the socket.
fn send_through(stream: &mut TcpStream, task: Task, signals: &Signals) -> io::Result<Option<Time>> {
    let Task { mut source, start, stop, bytes, .. } = task;
    let zeros = vec![0; CHUNK];
    let (mut written, mut waiting) = (0u64, 0u64);
    let mut due = Some(start);
    while !signals.is_over() && signals.now() < stop {
        if let Some(at) = due.filter(|&at| at <= signals.now()) {
            let offer =
                if at == start && written + waiting == 0 { source.start(at) } else { source.next(at) };
            waiting = offer.bytes.map_or(u64::MAX, |bytes| waiting.saturating_add(bytes));
            due = offer.next;
            continue;
        }
        if waiting == 0 {
            let Some(at) = due else { break };
            if !signals.sleep_until(at.min(stop)) {
                break;
            }
            continue;
        }
        match stream.write(&zeros[..waiting.min(CHUNK as u64) as usize]) {
            Ok(count) => {
                written += count as u64;
                waiting -= if waiting == u64::MAX { 0 } else { count as u64 };
            }
            Err(error) if is_pause(&error) => {
                let next = due.map_or(stop, |at| at.min(stop));
                signals.wait(stream.as_fd(), PollFlags::POLLOUT, signals.until(next))?;
            }
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
    while signals.wait(stream.as_fd(), PollFlags::POLLIN, None)? {
        match stream.read(&mut place) {
            Ok(0) => return Ok(Some(signals.now()).filter(|_| bytes == Some(written))),
            Err(error) if is_pause(&error) => {}
            _ => break,
        }
    }
    Ok(None)
}

fn send_datagrams(task: Task, signals: &Signals) -> io::Result<Option<Time>> {
    let Task { to, mut source, start, stop, .. } = task;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    let zeros = vec![0; CHUNK];
    if !signals.sleep_until(start) {
        return Ok(None);
    }
    let mut offer = source.start(start);
    loop {
        let size = offer.bytes.unwrap_or(0).min(CHUNK as u64) as usize;
        if size > 0 {
            match socket.send(&zeros[..size]) {
                // The sink has gone, or there is no room: datagrams may get lost.
                Ok(_) => {}
                Err(_) if signals.is_over() => break,
                Err(error) if is_pause(&error) || error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
        let Some(next) = offer.next.filter(|&next| next < stop) else { break };
        if !signals.sleep_until(next) {
            break;
        }
        offer = source.next(next);
    }
    Ok(None)
}

/// Chooses the congestion control of a socket.
pub(crate) fn choose(socket: &impl AsRawFd, algorithm: &str) -> io::Result<()> {
    let name = CString::new(algorithm).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
    #[expect(unsafe_code, reason = "the kernel reads this many bytes of a string that lives")]
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
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
