//! The place of a host: a network namespace without a name, and in it one TUN device with the host's address.
//!
//! Within another run one host is the one at which this run was started: its namespace is there, and gets one device
//! more, over which packets go on into the network of the other run.
//!
//! A namespace is made by a thread of its own, which ends when everything is set up; what is left are two descriptors.
//! When the last process in it has ended and the descriptors are closed, the kernel takes it away with all it holds.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::thread;

use libc::{c_char, c_int, c_short, ifreq, rtentry};
use nix::sched::{CloneFlags, setns, unshare};

/// What devices are called: the kernel puts the first number that is free in its namespace.
const DEVICES: &str = "lasthop%d";
/// Packets that wait for us in the kernel: at 100 Mbit/s of full packets 1.2 s, 60 ms at 500 Mbit/s of small ones.
const QUEUE: c_int = 10_000;
/// Hosts of all runs are within 10.0.0.0/8.
const ALL: Ipv4Addr = Ipv4Addr::new(255, 0, 0, 0);
/// Those of a run within another are within 10.n.0.0/16, whatever `n` it has.
const ONE_RUN: Ipv4Addr = Ipv4Addr::new(255, 255, 0, 0);
/// Whether the namespace of the opener forwards packets from device to device.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
/// The default congestion control of the opener's namespace.
pub(crate) const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// The thread's own namespace.
const OWN: &str = "/proc/thread-self/ns/net";

mod request {
    #![allow(unsafe_code, missing_docs, clippy::missing_safety_doc, reason = "made by the macro")]
    use libc::{c_int, ifreq, rtentry};

    nix::ioctl_readwrite_bad!(attach, nix::request_code_write!(b'T', 202, size_of::<c_int>()), ifreq);
    nix::ioctl_write_ptr_bad!(set_address, libc::SIOCSIFADDR, ifreq);
    nix::ioctl_write_ptr_bad!(set_netmask, libc::SIOCSIFNETMASK, ifreq);
    nix::ioctl_write_ptr_bad!(set_mtu, libc::SIOCSIFMTU, ifreq);
    nix::ioctl_write_ptr_bad!(set_queue, libc::SIOCSIFTXQLEN, ifreq);
    nix::ioctl_write_ptr_bad!(set_flags, libc::SIOCSIFFLAGS, ifreq);
    nix::ioctl_write_ptr_bad!(add_route, libc::SIOCADDRT, rtentry);
}

/// The place of a host.
#[derive(Debug)]
pub(crate) struct Site {
    namespace: File,
    device: File,
    /// What the device is called.
    name: String,
    /// What speaks to the kernel of the settings of the namespace.
    settings: UdpSocket,
}

impl Site {
    /// Makes a place for a host of this address that sends packets of up to `mtu` bytes. The error says at which step.
    pub(crate) fn new(address: Ipv4Addr, mtu: usize) -> Result<Site, (&'static str, io::Error)> {
        let made = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|error| ("making a network namespace", error.into()))?;
            settle().map_err(|error| ("setting up the network namespace", error))?;
            Site::open((address, ALL), mtu)
        });
        made.join().unwrap_or_else(|_| Err(("starting a thread", io::Error::other("it ended early"))))
    }

    /// The same in the namespace of the caller, which is that of a host of another run.
    pub(crate) fn of_caller(address: Ipv4Addr, mtu: usize) -> Result<Site, (&'static str, io::Error)> {
        fs::write(FORWARDING, "1").map_err(|error| ("letting packets through this host", error))?;
        Site::open((address, ONE_RUN), mtu)
    }

    /// Opens a device in the namespace in which we are.
    fn open(address: (Ipv4Addr, Ipv4Addr), mtu: usize) -> Result<Site, (&'static str, io::Error)> {
        let namespace = File::open(OWN).map_err(|error| ("opening the network namespace", error))?;
        let (device, name) = open_device().map_err(|error| ("opening /dev/net/tun", error))?;
        let settings = bring_up(&name, address, mtu).map_err(|error| ("setting up the TUN device", error))?;
        Ok(Site { namespace, device, name, settings })
    }

    /// Lets the kernel know that the hosts of another run, 10.`block`.0.0/16, are behind the device.
    pub(crate) fn lead_to(&self, block: u8) -> io::Result<()> {
        self.route(Ipv4Addr::new(10, block, 0, 0), ONE_RUN)
    }

    /// Lets the kernel know that everything else is behind the device.
    pub(crate) fn lead_out(&self) -> io::Result<()> {
        self.route(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED)
    }

    /// Lets packets of others through this host.
    pub(crate) fn pass_on(&self) -> io::Result<()> {
        self.within(|| fs::write(FORWARDING, "1"))?
    }

    fn route(&self, destination: Ipv4Addr, mask: Ipv4Addr) -> io::Result<()> {
        let name: Vec<c_char> = self.name.bytes().chain([0]).map(|byte| byte as c_char).collect();
        #[expect(
            unsafe_code,
            reason = "a structure of the kernel of integers and pointers: zeros are a value"
        )]
        let mut route: rtentry = unsafe { std::mem::zeroed() };
        route.rt_dst = as_address(destination);
        route.rt_genmask = as_address(mask);
        route.rt_flags = libc::RTF_UP;
        // That of a device in this namespace whose own block it is comes first.
        route.rt_metric = 100;
        route.rt_dev = name.as_ptr().cast_mut();
        #[expect(unsafe_code, reason = "the kernel reads one structure and a name, which live")]
        match unsafe { request::add_route(self.settings.as_raw_fd(), &raw const route) } {
            Ok(_) | Err(nix::errno::Errno::EEXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What a program or a thread enters.
    pub(crate) fn namespace(&self) -> BorrowedFd<'_> {
        self.namespace.as_fd()
    }

    /// What the device is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What to wait for.
    pub(crate) fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Takes the next packet that the host sends; `None` if there is none now.
    pub(crate) fn take(&self, place: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.device).read(place) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a packet to the host.
    pub(crate) fn give(&self, packet: &[u8]) -> io::Result<()> {
        (&self.device).write(packet).map(drop)
    }

    /// Does something within the namespace, in a thread of its own.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let namespace = self.namespace.try_clone()?;
        let entered = thread::spawn(move || {
            enter(namespace.as_fd())?;
            Ok(act())
        });
        entered.join().unwrap_or_else(|_| Err(io::Error::other("a thread ended early")))
    }

    /// Packets that the kernel has dropped because they were not read in time.
    pub(crate) fn dropped(&self) -> io::Result<u64> {
        let text = self.within(|| fs::read_to_string("/proc/thread-self/net/dev"))??;
        dropped_of(&self.name, &text)
            .ok_or_else(|| io::Error::other("/proc/net/dev does not show the TUN device"))
    }
}

/// Makes a namespace that has nothing but a loopback, with this default congestion control.
pub(crate) fn loopback(algorithm: &str) -> io::Result<File> {
    let algorithm = algorithm.to_owned();
    let made = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET)?;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        set_up(socket.as_raw_fd(), "lo")?;
        fs::write(CONGESTION_CONTROL, algorithm)?;
        File::open(OWN)
    });
    made.join().unwrap_or_else(|_| Err(io::Error::other("a thread ended early")))
}

/// Moves the calling thread into a namespace.
pub(crate) fn enter(namespace: BorrowedFd<'_>) -> io::Result<()> {
    setns(namespace, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
}

/// Packets dropped on their way out by a device, according to the text of /proc/net/dev.
fn dropped_of(device: &str, text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    // Eight numbers of what came in, then bytes, packets, errors and drops of what went out.
    line.split_ascii_whitespace().nth(11)?.parse().ok()
}

/// Settings of the namespace: no IPv6 and no redirects, packets of the kernel's own that would mix with the user's, and
/// no memory of earlier connections, so that runs repeat.
fn settle() -> io::Result<()> {
    for (setting, value) in [
        ("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"),
        ("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"),
        ("/proc/sys/net/ipv4/conf/all/send_redirects", "0"),
        ("/proc/sys/net/ipv4/conf/default/send_redirects", "0"),
        ("/proc/sys/net/ipv4/tcp_no_metrics_save", "1"),
    ] {
        match fs::write(setting, value) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            written => written?,
        }
    }
    Ok(())
}

/// Makes a device, and says what it is called.
fn open_device() -> io::Result<(File, String)> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    let mut request = named(DEVICES);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as c_short;
    #[expect(unsafe_code, reason = "the kernel reads and writes one structure, which lives")]
    unsafe { request::attach(device.as_raw_fd(), &raw mut request) }?;
    let name = request.ifr_name.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char);
    Ok((device, name.collect()))
}

/// A request about a device.
fn named(device: &str) -> ifreq {
    #[expect(
        unsafe_code,
        reason = "a structure of the kernel of integers and unions of them: zeros are a value"
    )]
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *place = byte as c_char;
    }
    request
}

#[expect(unsafe_code, reason = "the kernel reads one structure, which lives")]
fn set_up(socket: c_int, device: &str) -> io::Result<()> {
    let mut request = named(device);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as c_short;
    unsafe { request::set_flags(socket, &raw const request) }?;
    Ok(())
}

#[expect(unsafe_code, reason = "the kernel reads one structure each time, which lives")]
fn bring_up(device: &str, (address, netmask): (Ipv4Addr, Ipv4Addr), mtu: usize) -> io::Result<UdpSocket> {
    let settings = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let socket = settings.as_raw_fd();
    set_up(socket, "lo")?;
    let mut request = named(device);
    request.ifr_ifru.ifru_addr = as_address(address);
    unsafe { request::set_address(socket, &raw const request) }?;
    request.ifr_ifru.ifru_addr = as_address(netmask);
    unsafe { request::set_netmask(socket, &raw const request) }?;
    request.ifr_ifru.ifru_mtu = mtu as c_int;
    unsafe { request::set_mtu(socket, &raw const request) }?;
    request.ifr_ifru.ifru_metric = QUEUE;
    match unsafe { request::set_queue(socket, &raw const request) } {
        // Who is root in a user namespace alone may not set it, and has the 500 packets of every TUN device. What is
        // dropped there is counted.
        Ok(_) | Err(nix::errno::Errno::EPERM) => {}
        Err(error) => return Err(error.into()),
    }
    set_up(socket, device)?;
    Ok(settings)
}

/// An address of IPv4 in the form of the kernel.
fn as_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (place, byte) in data[2..].iter_mut().zip(address.octets()) {
        *place = byte as c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_from_the_table_of_devices() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop\n    \
                    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0\n\
                    lasthop0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        assert_eq!(dropped_of("lasthop0", text), Some(12));
        assert_eq!(dropped_of("lasthop1", text), None);
    }
}
