//! Drives stacks over a network: what arrives goes to its end, timers fire, datagrams leave.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};

use lasthop::{Datagram, Error, HostId, Network, Results, Stream, Time, Wake};

use crate::{Report, Stack};

/// Rounds of timeouts that an end may have at one instant. One whose timer lies in the past would never let time pass.
const MOST_ROUNDS: u32 = 10_000;
/// Ports of senders and receivers. Each end has an address of its own.
const SENDER_PORT: u16 = 1000;
const RECEIVER_PORT: u16 = 443;

/// One end of a connection in a [`Run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndId(usize);

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The end that opens the connection and sends.
    pub sender: EndId,
    /// The end that receives.
    pub receiver: EndId,
}

/// What a pair of stacks is made of.
#[derive(Clone, Debug)]
pub struct Ends {
    /// Address and port of the end that opens the connection.
    pub sender: SocketAddr,
    /// Address and port of the other.
    pub receiver: SocketAddr,
    /// Randomness for the first.
    pub sender_entropy: Stream,
    /// Randomness for the second.
    pub receiver_entropy: Stream,
}

/// Why a run has ended a stack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// It panicked.
    #[error("panicked: {0}")]
    Panicked(String),
    /// Its timeout is never in the future.
    #[error("wants a timeout at the same instant for the {MOST_ROUNDS}th time")]
    Spins,
    /// It sent what the network does not take.
    #[error("sent what the network refuses: {0}")]
    Refused(lasthop::SendError),
}

/// A stack that was ended, with what is needed to see it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{stack} at {end} with seed {seed} after {at}: {reason}")]
pub struct Failure {
    /// Its name.
    pub stack: String,
    /// Its end of the connection.
    pub end: SocketAddr,
    /// The seed of the run.
    pub seed: u64,
    /// When.
    pub at: Time,
    /// Why.
    pub reason: Reason,
}

struct End {
    name: String,
    host: HostId,
    address: SocketAddr,
    peer: SocketAddr,
    stack: Box<dyn Stack>,
    failed: bool,
    /// What the network's timer is set to.
    timer: Option<Time>,
    /// The instant of the last timeout, and how many it had.
    rounds: (Time, u32),
    /// What was sent.
    datagrams: u64,
    bytes: u64,
}

/// Connections of stacks over a network.
pub struct Run {
    network: Network,
    seed: u64,
    ends: Vec<End>,
    by_address: BTreeMap<SocketAddr, usize>,
    failures: Vec<Failure>,
    /// Ends at which something has happened in this instant.
    touched: Vec<usize>,
    buffer: Vec<u8>,
    times: u64,
}

impl Run {
    /// A run over this network, which was made with this seed.
    pub fn new(network: Network, seed: u64) -> Run {
        Run {
            network,
            seed,
            ends: Vec::new(),
            by_address: BTreeMap::new(),
            failures: Vec::new(),
            touched: Vec::new(),
            buffer: Vec::with_capacity(2048),
            times: FNV_BASIS,
        }
    }

    /// The network, to damage datagrams or to ask what became of them.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Connects two nodes of the scenario by the stacks that `make` returns: a name, the end at `from`, which opens the
    /// connection and sends, and the end at `to`.
    pub fn connect(
        &mut self,
        from: &str,
        to: &str,
        make: impl FnOnce(&Ends) -> (String, Box<dyn Stack>, Box<dyn Stack>),
    ) -> Result<Connection, Error> {
        let first = self.ends.len();
        let address = |number: usize| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0001 + number as u32));
        let (sender, receiver) = (address(first), address(first + 1));
        let (sender_host, receiver_host) =
            (self.network.attach(from, sender)?, self.network.attach(to, receiver)?);
        let ends = Ends {
            sender: SocketAddr::new(sender, SENDER_PORT),
            receiver: SocketAddr::new(receiver, RECEIVER_PORT),
            sender_entropy: self.network.entropy(sender_host, "stack"),
            receiver_entropy: self.network.entropy(receiver_host, "stack"),
        };
        let (name, sender, receiver) = make(&ends);
        self.add(&name, sender_host, (ends.sender, ends.receiver), sender);
        self.add(&name, receiver_host, (ends.receiver, ends.sender), receiver);
        Ok(Connection { sender: EndId(first), receiver: EndId(first + 1) })
    }

    fn add(&mut self, name: &str, host: HostId, ends: (SocketAddr, SocketAddr), stack: Box<dyn Stack>) {
        let (address, peer) = ends;
        self.by_address.insert(address, self.ends.len());
        self.touched.push(self.ends.len());
        self.ends.push(End {
            name: name.to_owned(),
            host,
            address,
            peer,
            stack,
            failed: false,
            timer: None,
            rounds: (Time::ZERO, 0),
            datagrams: 0,
            bytes: 0,
        });
    }

    /// Runs until this time or the end of the scenario, or until no stack has anything more to do.
    pub fn until(&mut self, until: Time) {
        loop {
            self.serve();
            match self.network.next_event(until) {
                Wake::Arrivals => self.receive(),
                Wake::Timer { token, .. } => {
                    let end = token as usize;
                    self.ends[end].timer = None;
                    self.touch(end);
                }
                Wake::Until | Wake::End => return,
            }
        }
    }

    fn touch(&mut self, end: usize) {
        if !self.touched.contains(&end) {
            self.touched.push(end);
        }
    }

    /// All that arrives at this instant, before any timer.
    fn receive(&mut self) {
        while let Some(arrival) = self.network.recv() {
            let Some(&number) = self.by_address.get(&arrival.to) else { continue };
            let end = &mut self.ends[number];
            if end.failed {
                continue;
            }
            let (at, ecn) = (arrival.at, arrival.ecn);
            if let Err(reason) = guarded(|| end.stack.receive(at, ecn, arrival.data)) {
                fail(&mut self.failures, end, (self.seed, at), reason);
            }
            self.touch(number);
        }
    }

    /// Timers that are due, and what wants to be sent, at every end where something has happened.
    fn serve(&mut self) {
        // In the order of the ends, whatever the order of events.
        self.touched.sort_unstable();
        let touched = std::mem::take(&mut self.touched);
        for &number in &touched {
            if !self.ends[number].failed
                && let Err(reason) = self.serve_end(number)
            {
                let at = self.network.now();
                fail(&mut self.failures, &mut self.ends[number], (self.seed, at), reason);
            }
        }
        self.touched = touched;
        self.touched.clear();
    }

    fn serve_end(&mut self, number: usize) -> Result<(), Reason> {
        let now = self.network.now();
        let end = &mut self.ends[number];
        loop {
            let due = guarded(|| {
                let due = end.stack.next_timeout().is_some_and(|at| at <= now);
                if due {
                    end.stack.handle_timeout(now);
                }
                due
            })?;
            loop {
                self.buffer.clear();
                let Some(ecn) = guarded(|| end.stack.transmit(now, &mut self.buffer))? else { break };
                if now >= self.network.end() {
                    return Ok(());
                }
                let datagram = Datagram { ecn, ..Datagram::new(end.address.port(), end.peer, &self.buffer) };
                self.network.send(end.host, datagram).map_err(Reason::Refused)?;
                end.datagrams += 1;
                end.bytes += self.buffer.len() as u64;
                let what = (self.buffer.len() as u64) << 32 | (number as u64) << 2 | u64::from(ecn.bits());
                self.times = fold(fold(self.times, now.0), what);
            }
            if !due {
                break;
            }
            end.rounds = if end.rounds.0 == now { (now, end.rounds.1 + 1) } else { (now, 1) };
            if end.rounds.1 >= MOST_ROUNDS {
                return Err(Reason::Spins);
            }
        }
        let timer = guarded(|| end.stack.next_timeout())?;
        if timer != end.timer {
            end.timer = timer;
            self.network.set_timer(end.host, number as u64, timer);
        }
        Ok(())
    }

    /// What a stack says of itself.
    pub fn report(&self, end: EndId) -> Report {
        self.ends[end.0].stack.report()
    }

    /// Datagrams that an end has sent, and their bytes.
    pub fn sent(&self, end: EndId) -> (u64, u64) {
        (self.ends[end.0].datagrams, self.ends[end.0].bytes)
    }

    /// Stacks that were ended.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// A hash of time, length, ECN bits and end of every datagram that was sent.
    pub fn times(&self) -> u64 {
        self.times
    }

    /// Ends the run and returns what the network measured.
    pub fn finish(self) -> Results {
        self.network.finish()
    }
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a by words.
fn fold(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
}

fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, Reason> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| Reason::Panicked(said(&*panic)))
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without words").to_owned()
}

fn fail(failures: &mut Vec<Failure>, end: &mut End, (seed, at): (u64, Time), reason: Reason) {
    end.failed = true;
    failures.push(Failure { stack: end.name.clone(), end: end.address, seed, at, reason });
}

#[cfg(test)]
mod tests {
    use lasthop::{Ecn, Link, Path, Span};

    use super::*;

    /// A stack that panics, or whose timer lies in the past.
    struct Faulty {
        panics: bool,
    }

    impl Stack for Faulty {
        fn next_timeout(&mut self) -> Option<Time> {
            Some(Time(5))
        }

        fn handle_timeout(&mut self, _: Time) {
            assert!(!self.panics, "a fault on purpose");
        }

        fn receive(&mut self, _: Time, _: Ecn, _: &mut [u8]) {}

        fn transmit(&mut self, _: Time, _: &mut Vec<u8>) -> Option<Ecn> {
            None
        }

        fn report(&self) -> Report {
            Report::default()
        }
    }

    #[test]
    fn a_faulty_stack_is_named_and_the_run_goes_on() {
        let path = Path::new(["a", "b"]).link(Link::new(1_000_000).delay_ms(1));
        let mut run = Run::new(Network::new(&path, 9).unwrap(), 9);
        let faulty = |panics| Box::new(Faulty { panics });
        run.connect("a", "b", |_| ("faulty".to_owned(), faulty(true), faulty(false))).unwrap();
        run.until(Time::ZERO + Span::from_secs(1));
        let said = run.failures().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(said.len(), 2);
        assert!(said[0].contains("faulty at 10.0.0.1:1000 with seed 9 after"), "{}", said[0]);
        assert!(said[0].ends_with("panicked: a fault on purpose"), "{}", said[0]);
        assert_eq!(run.failures()[1].reason, Reason::Spins);
        assert_eq!(run.network().now(), Time::ZERO + Span::from_secs(1));
    }
}
