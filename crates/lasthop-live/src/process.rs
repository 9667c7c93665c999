//! Programs at hosts: unmodified processes in the namespace of their host.
//!
//! A program ends with us whatever ends us: the kernel kills it when the thread that started it dies. Programs that it
//! has started itself are found by the mark in their environment (`lasthop emulate --clean`).

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::io::Write;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::plan::Host;

/// The variable that marks everything that a run has started.
pub(crate) const MARK: &str = "LASTHOP_RUN";
/// How long a program may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// Where names of hosts are written.
const NAMES: &str = "/etc/hosts";

/// The names of hosts, as `/etc/hosts` has them. Those that a run around us has written are there still, unless a host
/// of ours is nearer; the `gateway` is called as it is there.
pub(crate) fn names(hosts: &[Host], gateway: Option<usize>) -> String {
    let around = gateway.map(|_| fs::read_to_string(NAMES).unwrap_or_default()).unwrap_or_default();
    join_names(hosts, gateway, &around)
}

fn join_names(hosts: &[Host], gateway: Option<usize>, around: &str) -> String {
    let mut names = String::from("127.0.0.1 localhost\n");
    let mut known = vec!["localhost".to_owned()];
    let mut add = |address: &str, name: &str| {
        if !known.iter().any(|one| one == name) {
            let _ = writeln!(names, "{address} {name}");
            known.push(name.to_owned());
        }
    };
    let ours = |is_gateway: bool| {
        let all = hosts.iter().enumerate();
        all.filter(move |(place, _)| (gateway == Some(*place)) == is_gateway).map(|(_, host)| host)
    };
    for host in ours(false) {
        add(&host.address.to_string(), &host.name);
    }
    for line in around.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        if let Some(address) = words.next() {
            words.for_each(|name| add(address, name));
        }
    }
    for host in ours(true) {
        add(&host.address.to_string(), &host.name);
    }
    names
}

/// Starts `words` at `host`, whose namespace is given, among hosts with these `names`.
pub(crate) fn start(
    words: &[String],
    (host, namespace): (&Host, BorrowedFd<'_>),
    names: &str,
    mark: &str,
) -> io::Result<Child> {
    let (program, arguments) = words.split_first().ok_or_else(|| io::Error::other("no program"))?;
    let [names, resolver] = [Passing::new(names)?, Passing::new(RESOLVER)?];
    let paths = [(names.path.clone(), NAMES), (resolver.path.clone(), "/etc/resolv.conf")];
    let namespace = namespace.as_raw_fd();
    let mut command = Command::new(program);
    command.args(arguments).env(MARK, mark).env("LASTHOP_HOST", &host.name);
    let parent = std::process::id();
    #[expect(unsafe_code, reason = "between fork and exec: system calls alone, and no allocation")]
    unsafe {
        command.pre_exec(move || {
            begin(parent, Some(namespace))?;
            // Names of hosts, for this program alone: a mount that nobody else sees.
            unshare(CloneFlags::CLONE_NEWNS)?;
            let nothing: Option<&str> = None;
            mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
            // Where there are no such files, addresses have to do.
            for (path, place) in &paths {
                let _ = mount(Some(path.as_path()), *place, nothing, MsFlags::MS_BIND, nothing);
            }
            Ok(())
        });
    }
    // The files may go when the program has them.
    command.spawn()
}

/// Starts `words` with the name of a congestion control in `LASTHOP_CC`: in a namespace, or where we are.
pub(crate) fn start_steered(
    words: &[String],
    namespace: Option<&fs::File>,
    (mark, algorithm): (&str, &str),
) -> io::Result<Child> {
    let (program, arguments) = words.split_first().ok_or_else(|| io::Error::other("no program"))?;
    let mut command = Command::new(program);
    command.args(arguments).env(MARK, mark).env("LASTHOP_CC", algorithm);
    let namespace = namespace.map(AsRawFd::as_raw_fd);
    let parent = std::process::id();
    #[expect(unsafe_code, reason = "between fork and exec: system calls alone, and no allocation")]
    unsafe {
        command.pre_exec(move || begin(parent, namespace));
    }
    command.spawn()
}

/// What a program does before it is one, between fork and exec: whoever ends us, its `parent`, ends it, even without
/// asking; and it goes into its namespace.
fn begin(parent: u32, namespace: Option<RawFd>) -> io::Result<()> {
    #[expect(unsafe_code, reason = "system calls alone")]
    let begun = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0
            && libc::getppid() as u32 == parent
            && namespace.is_none_or(|namespace| libc::setns(namespace, libc::CLONE_NEWNET) == 0)
    };
    if begun { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// There is nobody to ask for other names: to know that at once is better than to wait for an answer.
const RESOLVER: &str = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";

/// A file that goes when it is dropped.
struct Passing {
    path: PathBuf,
}

impl Passing {
    fn new(text: &str) -> io::Result<Passing> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lasthop-{}-{number}", std::process::id()));
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
        let passing = Passing { path };
        file.write_all(text.as_bytes())?;
        Ok(passing)
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Waits until a server has a socket that waits for others, but no longer than `most`, nor when it has ended.
pub(crate) fn wait_for_server(child: &mut Child, most: Duration) {
    let began = Instant::now();
    while began.elapsed() < most && matches!(child.try_wait(), Ok(None)) {
        if listens(child.id()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether anything in the namespace of a process waits for connections or datagrams.
fn listens(process: u32) -> bool {
    let lines = |name: &str| fs::read_to_string(format!("/proc/{process}/net/{name}")).unwrap_or_default();
    let waits = |line: &str| line.split_ascii_whitespace().nth(3) == Some("0A");
    ["tcp", "tcp6"].iter().any(|name| lines(name).lines().skip(1).any(waits))
        || ["udp", "udp6"].iter().any(|name| lines(name).lines().count() > 1)
}

/// Ends a program: asks it first.
pub(crate) fn end(child: &mut Child) {
    let Ok(None) = child.try_wait() else { return };
    let process = Pid::from_raw(child.id() as i32);
    let _ = kill(process, Signal::SIGTERM);
    let asked = Instant::now();
    while asked.elapsed() < GRACE {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn names_of_the_run_around_us_stay_unless_ours_are_nearer() {
        let host = |node: usize, name: &str| Host {
            node,
            name: name.to_owned(),
            address: Ipv4Addr::new(10, 1, 0, node as u8 + 1),
        };
        let ours = [host(0, "server"), host(2, "phone")];
        let around = "127.0.0.1 localhost\n10.0.0.1 server web # both\n\n10.0.0.3 phone\n";
        let all = join_names(&ours, Some(0), around);
        assert_eq!(all, "127.0.0.1 localhost\n10.1.0.3 phone\n10.0.0.1 server\n10.0.0.1 web\n");
        assert_eq!(join_names(&ours, Some(0), ""), "127.0.0.1 localhost\n10.1.0.3 phone\n10.1.0.1 server\n");
    }
}
