//! A queue discipline of the kernel, and what it does with packets that come at given times.
//!
//! It stands at a TUN device in a namespace of its own. Packets are datagrams of a socket for each flow; what the
//! discipline lets go is read from the device at once, so that nothing waits behind it: it has to have a rate of its
//! own, as CAKE with a bandwidth has, and others below a token bucket.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};

use lasthop_core::time::Time;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeSpec, TimeValLike as _};

use crate::clock::Clock;
use crate::site::Site;

/// Where the packets come from and go to.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// Flow `n` has this port and `n` more at both ends.
const FIRST_PORT: u16 = 20_000;
/// Headers of IPv4 and UDP.
const HEADERS: usize = 28;
const MTU: usize = 1500;
/// Where `tc` is; the machine of `lasthop-guest` has no PATH.
const PROGRAMS: &str = "/usr/sbin:/sbin:/usr/bin:/bin";
/// A socket never waits for the discipline.
const ROOM: usize = 256 << 20;

/// A packet for the discipline.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it comes.
    pub time: Time,
    /// Its flow, from 0.
    pub flow: u16,
    /// Its DSCP.
    pub dscp: u8,
    /// Its bytes, those of the headers of IPv4 and UDP included: 32 to 1500.
    pub bytes: u16,
}

/// What became of them.
#[derive(Clone, Debug)]
pub struct Departures {
    /// Number of the arrival, and when it left, in this order.
    pub left: Vec<(u32, Time)>,
    /// By how much arrivals were late, at most, in ns.
    pub late_ns: u64,
    /// What `tc -s qdisc show` says at the end.
    pub said: String,
}

/// Sends packets through a discipline.
///
/// `commands` are arguments of `tc` that set it up, with `DEVICE` where its device is meant; `until` is when the rest
/// is given up.
///
/// # Errors
///
/// If `tc` is missing or refuses a command, or the namespace cannot be made.
pub fn run_discipline(commands: &[Vec<String>], arrivals: &[Arrival], until: Time) -> io::Result<Departures> {
    let in_words =
        |(doing, error): (&str, io::Error)| io::Error::new(error.kind(), format!("{doing}: {error}"));
    let site = Site::new(NEAR, MTU).map_err(in_words)?;
    for command in commands {
        tc(&site, command)?;
    }
    let flows = arrivals.iter().map(|arrival| arrival.flow + 1).max().unwrap_or(0);
    let sockets = site.within(move || (0..flows).map(opened).collect::<io::Result<Vec<_>>>())??;
    let mut ready = [PollFd::new(site.device(), PollFlags::POLLIN)];
    let mut departures =
        Departures { left: Vec::with_capacity(arrivals.len()), late_ns: 0, said: String::new() };
    let mut classes = vec![None; sockets.len()];
    let mut place = [0; MTU];
    let mut rest = (0u32..).zip(arrivals);
    let mut next = rest.next();
    let clock = Clock::start();
    loop {
        let wait = clock.until(next.map_or(until, |(_, arrival)| arrival.time));
        if wait.is_zero() {
            let Some((number, arrival)) = next else { break };
            let flow = usize::from(arrival.flow);
            if classes[flow].replace(arrival.dscp) != Some(arrival.dscp) {
                setsockopt(&sockets[flow], sockopt::Ipv4Tos, &(i32::from(arrival.dscp) << 2))?;
            }
            departures.late_ns = departures.late_ns.max(clock.now().since(arrival.time).0);
            let mut payload = [0; MTU];
            payload[..4].copy_from_slice(&number.to_be_bytes());
            let length = usize::from(arrival.bytes).saturating_sub(HEADERS).max(4);
            match sockets[flow].send(&payload[..length]) {
                // A discipline that drops what comes says so to the socket.
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
            next = rest.next();
        }
        let wait = if wait.is_zero() { TimeSpec::nanoseconds(0) } else { TimeSpec::from_duration(wait) };
        ppoll(&mut ready, Some(wait), None)?;
        while let Some(length) = site.take(&mut place)? {
            if let Some(number) = place[..length].get(HEADERS..).and_then(|data| data.first_chunk::<4>()) {
                departures.left.push((u32::from_be_bytes(*number), clock.now()));
            }
        }
    }
    departures.said = tc(&site, &["-s", "qdisc", "show", "dev", "DEVICE"].map(str::to_owned))?;
    Ok(departures)
}

fn opened(flow: u16) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((NEAR, FIRST_PORT + flow))?;
    socket.connect((FAR, FIRST_PORT + flow))?;
    socket.set_nonblocking(true)?;
    setsockopt(&socket, sockopt::SndBufForce, &ROOM)?;
    Ok(socket)
}

/// Runs `tc` in the namespace; gives what it prints.
fn tc(site: &Site, arguments: &[String]) -> io::Result<String> {
    let device = site.name().to_owned();
    let arguments: Vec<String> =
        arguments.iter().map(|one| if one == "DEVICE" { device.clone() } else { one.clone() }).collect();
    let shown = arguments.join(" ");
    let run = move || Command::new("tc").args(&arguments).env("PATH", PROGRAMS).stdin(Stdio::null()).output();
    let done =
        site.within(run)?.map_err(|error| io::Error::new(error.kind(), format!("starting tc: {error}")))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(io::Error::other(format!("tc {shown}: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
