//! Scripts against the TCP of the kernel: a socket in a namespace of its own, and the other end of its connection in
//! the packets of a TUN device.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{Recovery, TcpConfig};
use lasthop_net::transport::codec::MAX_PACKET;
use lasthop_sim::script::{Examined, Outcome, RECEIVER, SENDER, Script, Stack, State};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockType, SockaddrIn, sockopt};
use nix::sys::time::TimeSpec;

use crate::clock::Clock;
use crate::drive::take_priority;
use crate::kernel::{algorithms, choose};
use crate::live_error::LiveError;
use crate::site::Site;

/// By how much times may differ at least: timers of the kernel count in ticks of up to 10 ms, and we have to be woken.
const TOLERANCE: Span = Span::from_millis(15);
/// What the largest packets of a device may be at least (RFC 791), and at most.
const SMALLEST_MTU: u32 = 68;
const LARGEST_MTU: u32 = 65_535;
/// What writes of a script may amount to.
const SEND_BUFFER: usize = 4 << 20;
/// Bytes of one write.
const CHUNK: usize = 1 << 16;
/// Asks for what a socket has not sent (linux/sockios.h).
const SIOCOUTQNSD: libc::Ioctl = 0x894b;
/// The kernel's sign for a threshold that is not known.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Runs a script against the kernel; `None` if it says that the kernel does something else.
pub fn run_script(script: &Script) -> Result<Option<Outcome>, LiveError> {
    let Some(algorithm) = &script.head.kernel else { return Ok(None) };
    let known = algorithms();
    if !known.contains(algorithm) {
        return Err(LiveError::Algorithm { name: algorithm.clone(), known: known.join(", ") });
    }
    let kernel = |step| move |error| LiveError::Kernel { step, error };
    let address = match script.head.end {
        Examined::Sender => SENDER,
        Examined::Receiver => RECEIVER,
    };
    // It is what the MSS of the kernel's SYN comes from.
    let mtu = script.config.packet_size.clamp(SMALLEST_MTU, LARGEST_MTU) as usize;
    let site = Site::new(*address.ip(), mtu).map_err(|(step, error)| LiveError::Kernel { step, error })?;
    let config = script.config.clone();
    let set = site.within(move || configure(&config)).and_then(|done| done);
    set.map_err(kernel("setting up the TCP of the namespace"))?;
    let run = || -> io::Result<Outcome> {
        // A thread of its own, since its priority is.
        thread::scope(|scope| {
            let run = scope.spawn(|| {
                take_priority(false);
                script.run(&mut KernelStack::new(&site, script, algorithm)?)
            });
            run.join().unwrap_or_else(|_| Err(io::Error::other("a thread ended early")))
        })
    };
    run().map(Some).map_err(kernel("running the script"))
}

/// Gives the namespace that the thread is in the abilities of a configuration.
fn configure(config: &TcpConfig) -> io::Result<()> {
    let rack = config.recovery == Recovery::Rack;
    let settings = [
        ("tcp_timestamps", u32::from(config.timestamps)),
        ("tcp_sack", u32::from(config.recovery.uses_sack())),
        ("tcp_dsack", u32::from(config.dsack)),
        // 1 asks for it; 0 does not even agree to it.
        ("tcp_ecn", u32::from(config.uses_ecn())),
        ("tcp_recovery", u32::from(rack)),
        ("tcp_early_retrans", if config.tlp { 3 } else { 0 }),
        ("tcp_slow_start_after_idle", u32::from(config.idle_restart)),
        ("tcp_frto", if config.spurious.frto { 2 } else { 0 }),
        // The first timeouts of a SYN are not all alike.
        ("tcp_syn_linear_timeouts", 0),
    ];
    for (name, value) in settings {
        match fs::write(format!("/proc/sys/net/ipv4/{name}"), value.to_string()) {
            // Kernels before 6.5 know no linear timeouts.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            written => written?,
        }
    }
    Ok(())
}

/// A socket of the kernel, and what its application does.
struct KernelStack<'a> {
    site: &'a Site,
    clock: Clock,
    stream: Option<TcpStream>,
    listener: Option<TcpListener>,
    opened: bool,
    /// Bytes that are still to be written.
    unwritten: u64,
    /// Bytes of a segment that has been begun, and waits.
    begun: u64,
    /// Nothing follows them.
    closing: bool,
    delivered: u64,
    place: Vec<u8>,
}

impl<'a> KernelStack<'a> {
    fn new(site: &'a Site, script: &Script, algorithm: &str) -> io::Result<KernelStack<'a>> {
        let (mut stream, mut listener) = (None, None);
        let receiver = script.head.end == Examined::Receiver;
        let made = site.within(move || bound(if receiver { RECEIVER } else { SENDER }))??;
        if receiver {
            socket::listen(&made, socket::Backlog::new(1)?)?;
            listener = Some(TcpListener::from(made));
        } else {
            socket::setsockopt(&made, sockopt::SndBufForce, &SEND_BUFFER)?;
            let made = TcpStream::from(made);
            made.set_nodelay(true)?;
            choose(&made, algorithm)?;
            stream = Some(made);
        }
        Ok(KernelStack {
            site,
            clock: Clock::start(),
            stream,
            listener,
            opened: false,
            unwritten: 0,
            begun: 0,
            closing: false,
            delivered: 0,
            place: vec![0; MAX_PACKET.max(CHUNK)],
        })
    }

    /// Lets the application do what it can do now.
    fn serve(&mut self) -> io::Result<()> {
        if let Some(listener) = &self.listener
            && self.stream.is_none()
        {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    self.stream = Some(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        let Some(stream) = &mut self.stream else { return Ok(()) };
        if self.listener.is_some() {
            // It ends, or the other end has reset it: what that one gets to see is told by packets.
            while let Ok(count @ 1..) = stream.read(&mut self.place[..CHUNK]) {
                self.delivered += count as u64;
            }
            return Ok(());
        }
        while self.opened && self.unwritten > 0 {
            // A record for each segment: what is written at once the kernel may hold back, to send it in one piece.
            let segment = u64::from(information(stream)?.tcpi_snd_mss.max(1));
            if unsent(stream)? == 0 {
                // What is written now begins a segment.
                self.begun = 0;
            }
            let free = segment.saturating_sub(self.begun).max(1);
            let room = self.unwritten.min(free).min(CHUNK as u64);
            let record = if room == free { MsgFlags::MSG_EOR } else { MsgFlags::empty() };
            match socket::send(stream.as_raw_fd(), &self.place[..room as usize], record) {
                Ok(count) => {
                    self.unwritten -= count as u64;
                    self.begun = (self.begun + count as u64) % segment;
                }
                // Not connected, no room, or reset.
                Err(_) => return Ok(()),
            }
        }
        if self.opened && self.closing && self.unwritten == 0 && stream.shutdown(Shutdown::Write).is_ok() {
            self.closing = false;
        }
        Ok(())
    }
}

/// A socket that does not wait, at this address.
fn bound(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let made = socket::socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    socket::bind(made.as_raw_fd(), &SockaddrIn::from(address))?;
    Ok(made)
}

impl Stack for KernelStack<'_> {
    /// Timers of the kernel are late by up to an eighth of what they measure.
    fn tolerance(&self, after: Span) -> Span {
        TOLERANCE + Span(after.0 / 8)
    }

    fn next(&mut self, until: Time) -> io::Result<Option<(Time, Vec<u8>)>> {
        loop {
            self.serve()?;
            if let Some(length) = self.site.take(&mut self.place)? {
                return Ok(Some((self.clock.now(), self.place[..length].to_vec())));
            }
            let wait = self.clock.until(until);
            if wait.is_zero() {
                return Ok(None);
            }
            let mut ready = vec![PollFd::new(self.site.device(), PollFlags::POLLIN)];
            let waiting: Option<(BorrowedFd<'_>, PollFlags)> = match (&self.stream, &self.listener) {
                (None, Some(listener)) => Some((listener.as_fd(), PollFlags::POLLIN)),
                (Some(stream), Some(_)) => Some((stream.as_fd(), PollFlags::POLLIN)),
                (Some(stream), None) if self.opened && (self.unwritten > 0 || self.closing) => {
                    Some((stream.as_fd(), PollFlags::POLLOUT))
                }
                _ => None,
            };
            ready.extend(waiting.map(|(descriptor, events)| PollFd::new(descriptor, events)));
            // An end that the other has closed stays readable.
            let wait = if self.listener.is_some() { wait.min(Duration::from_millis(1)) } else { wait };
            match ppoll(&mut ready, Some(TimeSpec::from_duration(wait)), None) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn put(&mut self, packet: &[u8]) -> io::Result<()> {
        self.site.give(packet)?;
        self.serve()
    }

    fn write(&mut self, bytes: u64) -> io::Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        if !self.opened {
            match socket::connect(stream.as_raw_fd(), &SockaddrIn::from(RECEIVER)) {
                Ok(()) | Err(Errno::EINPROGRESS) => self.opened = true,
                Err(error) => return Err(error.into()),
            }
        }
        self.unwritten += bytes;
        self.serve()
    }

    fn close(&mut self) -> io::Result<()> {
        self.closing = true;
        self.serve()
    }

    fn state(&mut self) -> io::Result<State> {
        self.serve()?;
        if self.listener.is_some() {
            return Ok(State { delivered: Some(self.delivered), ..State::default() });
        }
        let Some(stream) = &self.stream else { return Ok(State::default()) };
        let info = information(stream)?;
        let threshold = info.tcpi_snd_ssthresh;
        let ssthresh = if threshold >= NO_THRESHOLD { f64::INFINITY } else { f64::from(threshold) };
        Ok(State {
            cwnd: Some(f64::from(info.tcpi_snd_cwnd)),
            ssthresh: Some(ssthresh),
            srtt_ms: Some(f64::from(info.tcpi_rtt) / 1e3),
            delivered: None,
        })
    }
}

/// Bytes that the kernel has taken and not sent.
fn unsent(stream: &TcpStream) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    #[expect(unsafe_code, reason = "the kernel writes one integer, which lives")]
    let done = unsafe { libc::ioctl(stream.as_raw_fd(), SIOCOUTQNSD, &raw mut bytes) };
    if done == 0 { Ok(bytes.unsigned_abs()) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel tells of a connection.
fn information(stream: &TcpStream) -> io::Result<libc::tcp_info> {
    #[expect(unsafe_code, reason = "the kernel writes at most this many bytes of a structure of integers")]
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        let done = libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        );
        if done == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
    }
}
