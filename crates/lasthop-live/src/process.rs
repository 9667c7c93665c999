//! Programs at hosts: unmodified processes in the namespace of their host.
//!
//! A program ends with us whatever ends us, and with it all that it has started: see the keeper. What escapes that is
//! found by the mark in its environment (`lasthop emulate --clean`).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use tempfile::NamedTempFile;

use crate::keeper::Running;
use crate::order::Outside;
use crate::plan::Host;

/// The variable that marks everything that a run has started.
pub(crate) const MARK: &str = "LASTHOP_RUN";
/// The variable that says in which network namespace a program was started, by the number of its inode.
pub(crate) const PLACE: &str = "LASTHOP_NETNS";

/// Where names of hosts are written.
const NAMES: &str = "/etc/hosts";

/// The names of hosts, as `/etc/hosts` has them. Those that a run around us has written are there still, unless a host
/// of ours is nearer; the `gateway` is called as it is there.
fn names(hosts: &[Host], gateway: Option<usize>) -> String {
    let around = gateway.map(|_| fs::read_to_string(NAMES).unwrap_or_default()).unwrap_or_default();
    join_names(hosts, gateway, &around)
}

/// How programs find names: a text for `/etc/hosts`, and one for `/etc/resolv.conf`.
pub(crate) struct Names {
    hosts: String,
    resolver: String,
}

impl Names {
    /// Those of these hosts, and of the servers that are asked for others if there is a way out.
    pub(crate) fn new(hosts: &[Host], gateway: Option<usize>, outside: Option<&Outside>) -> Names {
        let resolver = outside.map_or_else(
            || RESOLVER.to_owned(),
            |outside| {
                outside
                    .dns
                    .iter()
                    .fold(String::new(), |text, server| text + &format!("nameserver {server}\n"))
            },
        );
        Names { hosts: names(hosts, gateway), resolver }
    }
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

/// The number of a network namespace.
fn number_of(namespace: &fs::File) -> io::Result<u64> {
    namespace.metadata().map(|found| found.ino())
}

/// Whether we were started at a host of a run, and are in its network namespace still. Not to know that is an error:
/// what is done elsewhere would not be what was meant.
pub(crate) fn is_at_a_host() -> io::Result<bool> {
    let Some(place) = std::env::var_os(PLACE) else { return Ok(false) };
    let here = number_of(&fs::File::open("/proc/thread-self/ns/net")?)?;
    Ok(place.to_str() == Some(here.to_string().as_str()))
}

/// Starts `words` at `host`, whose namespace is given, among hosts with these `names`.
pub(crate) fn start(
    words: &[String],
    (host, namespace): (&Host, BorrowedFd<'_>),
    names: &Names,
    mark: &str,
) -> io::Result<Running> {
    let (program, arguments) = words.split_first().ok_or_else(|| io::Error::other("no program"))?;
    let [names, resolver] = [passing(&names.hosts)?, passing(&names.resolver)?];
    let paths = [(names.path().to_owned(), NAMES), (resolver.path().to_owned(), "/etc/resolv.conf")];
    let namespace = fs::File::from(namespace.try_clone_to_owned()?);
    let place = number_of(&namespace)?;
    let mut command = Command::new(program);
    command.args(arguments).env(MARK, mark).env("LASTHOP_HOST", &host.name).env(PLACE, place.to_string());
    Running::start(command, move || {
        setns(&namespace, CloneFlags::CLONE_NEWNET)?;
        // Names of hosts, for this program alone: a private mount.
        unshare(CloneFlags::CLONE_NEWNS)?;
        let nothing: Option<&str> = None;
        mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
        // Where there are no such files, addresses have to do.
        for (path, place) in &paths {
            let _ = mount(Some(path.as_path()), *place, nothing, MsFlags::MS_BIND, nothing);
        }
        Ok(())
    })
    // The files may go when the program has them.
}

/// Starts `words` with the name of a congestion control in `LASTHOP_CC`: in a namespace, or where we are.
pub(crate) fn start_steered(
    words: &[String],
    namespace: Option<&fs::File>,
    (mark, algorithm): (&str, &str),
) -> io::Result<Running> {
    let (program, arguments) = words.split_first().ok_or_else(|| io::Error::other("no program"))?;
    let mut command = Command::new(program);
    command.args(arguments).env(MARK, mark).env("LASTHOP_CC", algorithm);
    let namespace = namespace.map(fs::File::try_clone).transpose()?;
    Running::start(command, move || {
        namespace.as_ref().map_or(Ok(()), |namespace| setns(namespace, CloneFlags::CLONE_NEWNET))?;
        Ok(())
    })
}

/// There is no DNS server for other names: to fail at once is better than to wait for an answer.
const RESOLVER: &str = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";

/// A file that programs of every user may read, and that goes when it is dropped. Its name cannot be guessed: in a
/// shared folder another user could take it before.
fn passing(text: &str) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("lasthop-").tempfile()?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
    Ok(file)
}

/// Sockets of a namespace that were there before a server was started there.
pub(crate) struct Before(BTreeSet<u64>);

impl Before {
    /// Those in the namespace of the calling thread.
    pub(crate) fn here() -> Before {
        Before(waiting("thread-self"))
    }
}

/// Waits until a server has a socket that others can reach, but no longer than `most`, nor when the run is `over` or
/// nothing of it runs: one that has gone into the background does. Returns whether it has one. Sockets that were there
/// `before`, and those of ours, are not the server's.
pub(crate) fn wait_for_server(
    program: &mut Running,
    before: &Before,
    most: Duration,
    over: impl Fn() -> bool,
) -> bool {
    let began = Instant::now();
    while began.elapsed() < most && !over() && program.runs() {
        let fresh: Vec<u64> =
            waiting(&program.process().to_string()).difference(&before.0).copied().collect();
        if !fresh.is_empty() {
            let ours = own_sockets();
            if fresh.iter().any(|socket| !ours.contains(socket)) {
                return true;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Sockets in the namespace of a process that wait for connections or datagrams, where others can reach them.
fn waiting(process: &str) -> BTreeSet<u64> {
    let text = |name: &str| fs::read_to_string(format!("/proc/{process}/net/{name}")).unwrap_or_default();
    let names = ["tcp", "tcp6", "udp", "udp6"];
    names.iter().flat_map(|name| waiting_of(&text(name))).collect()
}

/// The same of a table of sockets in `/proc/net`.
fn waiting_of(table: &str) -> Vec<u64> {
    /// A TCP socket that listens, and any other that has no peer.
    const WAITS: [&str; 2] = ["0A", "07"];
    let of = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let (near, far, state) = (columns.get(1)?, columns.get(2)?, columns.get(3)?);
        // 127.0.0.0/8, and ::1: a server there is one for its own host alone.
        let (address, _) = near.split_once(':')?;
        let is_own = match address.len() {
            8 => address.ends_with("7F"),
            _ => address == "00000000000000000000000001000000",
        };
        let has_peer = !far.bytes().all(|byte| matches!(byte, b'0' | b':'));
        let waits = WAITS.contains(state) && !has_peer && !is_own;
        waits.then(|| columns.get(9)?.parse().ok()).flatten()
    };
    table.lines().skip(1).filter_map(of).collect()
}

/// The sockets that we have ourselves.
fn own_sockets() -> BTreeSet<u64> {
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else { return BTreeSet::new() };
    let of = |place: fs::DirEntry| {
        let target = fs::read_link(place.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    descriptors.flatten().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn sockets_that_wait_are_told_from_others() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 71 1 0\n\
            1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 72 1 0\n\
            2: 0300000A:C001 0100000A:1F90 01 00000000:00000000 00:00000000 00000000     0        0 73 1 0\n\
            3: 00000000:01BB 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 74 2 0\n\
            4: 0300000A:01BC 0100000A:0035 07 00000000:00000000 00:00000000 00000000     0        0 75 2 0\n";
        assert_eq!(waiting_of(table), [71, 74]);
        assert!(waiting_of("").is_empty());
    }

    #[test]
    fn our_own_sockets_are_known() {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
        let waits = waiting("self");
        assert!(waits.intersection(&own_sockets()).next().is_some(), "{waits:?}");
        drop(socket);
    }

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
