//! Drives stacks over a network: what arrives goes to its end, timers fire, datagrams leave.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use lasthop::{Datagram, Error, HostId, Network, Results, SendError, Time, Wake};

use crate::end::{End, LONGEST};
use crate::{Ends, Failure, Reason, Report, Stack};

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

/// Connections of stacks over a network.
pub struct Run {
    network: Network,
    seed: u64,
    ends: Vec<End>,
    /// The host of each end.
    hosts: Vec<HostId>,
    /// The end of each host of the network, by its number; none of hosts that others have attached.
    by_host: Vec<Option<usize>>,
    failures: Vec<Failure>,
    /// Ends at which something has happened in this instant.
    touched: Vec<usize>,
    buffer: Vec<u8>,
    times: u64,
    /// Of each connection.
    watches: Vec<Option<Watch>>,
}

/// A datagram that an end has sent, or that has come to it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// When.
    pub at: Time,
    /// Of which connection.
    pub connection: Connection,
    /// At which of its ends.
    pub end: EndId,
    /// Whether that end has sent it.
    pub is_sent: bool,
    /// The datagram.
    pub data: &'a [u8],
    /// What the stack at that end says of itself, once it has sent or read the datagram.
    pub report: &'a Report,
}

type Watch = Box<dyn FnMut(&Seen<'_>)>;

/// The connection of an end.
fn connection_of(end: usize) -> Connection {
    Connection { sender: EndId(end & !1), receiver: EndId(end | 1) }
}

impl Run {
    /// A run over this network, which was made with this seed.
    pub fn new(network: Network, seed: u64) -> Run {
        Run {
            network,
            seed,
            ends: Vec::new(),
            hosts: Vec::new(),
            by_host: Vec::new(),
            failures: Vec::new(),
            touched: Vec::new(),
            buffer: Vec::with_capacity(2048),
            times: FNV_BASIS,
            watches: Vec::new(),
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
            at: self.network.now(),
            sender: SocketAddr::new(sender, SENDER_PORT),
            receiver: SocketAddr::new(receiver, RECEIVER_PORT),
            longest: LONGEST,
            sender_entropy: self.network.entropy(sender_host, "stack"),
            receiver_entropy: self.network.entropy(receiver_host, "stack"),
        };
        let (name, sender, receiver) = make(&ends);
        self.add(&name, sender_host, (ends.sender, ends.receiver), sender);
        self.add(&name, receiver_host, (ends.receiver, ends.sender), receiver);
        self.watches.push(None);
        Ok(connection_of(first))
    }

    /// From now on `watch` is told of every datagram that the ends of a connection send or get.
    pub fn watch(&mut self, connection: Connection, watch: impl FnMut(&Seen<'_>) + 'static) {
        self.watches[connection.sender.0 / 2] = Some(Box::new(watch));
    }

    fn add(&mut self, name: &str, host: HostId, ends: (SocketAddr, SocketAddr), stack: Box<dyn Stack>) {
        self.by_host.resize(host.number() as usize + 1, None);
        self.by_host[host.number() as usize] = Some(self.ends.len());
        self.ends.push(End::new(name, ends, stack));
        self.hosts.push(host);
        self.touch(self.ends.len() - 1);
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
        if !std::mem::replace(&mut self.ends[end].touched, true) {
            self.touched.push(end);
        }
    }

    /// All that arrives at this instant, before any timer.
    fn receive(&mut self) {
        while let Some(arrival) = self.network.recv() {
            let Some(&Some(number)) = self.by_host.get(arrival.host.number() as usize) else { continue };
            let end = &mut self.ends[number];
            // What others send to another port of its host is not for it.
            if end.failed || end.address != arrival.to {
                continue;
            }
            let at = arrival.at;
            let watch = &mut self.watches[number / 2];
            // The stack may change what it gets.
            let copy = watch.is_some().then(|| arrival.data.to_vec());
            if let Err(reason) = end.receive(at, arrival.ecn, arrival.data) {
                self.failures.push(end.fail((self.seed, at), reason));
            }
            if let (Some(watch), Some(data)) = (watch, &copy) {
                let (connection, report) = (connection_of(number), &end.report());
                watch(&Seen { at, connection, end: EndId(number), is_sent: false, data, report });
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
            self.ends[number].touched = false;
            if !self.ends[number].failed
                && let Err(reason) = self.serve_end(number)
            {
                let at = self.network.now();
                self.failures.push(self.ends[number].fail((self.seed, at), reason));
            }
        }
        self.touched = touched;
        self.touched.clear();
    }

    fn serve_end(&mut self, number: usize) -> Result<(), Reason> {
        let now = self.network.now();
        let (network, times, host) = (&mut self.network, &mut self.times, self.hosts[number]);
        let watch = &mut self.watches[number / 2];
        let timer = self.ends[number].serve(now, &mut self.buffer, |end, ecn, data| {
            if now >= network.end() {
                return Ok(false);
            }
            let datagram = Datagram { ecn, ..Datagram::new(end.address.port(), end.peer, data) };
            match network.send(host, datagram) {
                // A probe for a longer packet: it must not be cut, and is lost.
                Ok(_) | Err(SendError::TooLong { .. }) => {}
                Err(refused) => return Err(Reason::Refused(refused)),
            }
            let what = (data.len() as u64) << 32 | (number as u64) << 2 | u64::from(ecn.bits());
            *times = fold(fold(*times, now.0), what);
            if let Some(watch) = watch {
                let (connection, report) = (connection_of(number), &end.report());
                watch(&Seen { at: now, connection, end: EndId(number), is_sent: true, data, report });
            }
            Ok(true)
        })?;
        if timer != self.ends[number].timer {
            self.ends[number].timer = timer;
            self.network.set_timer(host, number as u64, timer);
        }
        Ok(())
    }

    /// What a stack says of itself.
    pub fn report(&mut self, end: EndId) -> Report {
        self.ends[end.0].report()
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

        fn write(&mut self, _: Time, _: u64, _: bool) {}

        fn stop(&mut self, _: Time) {}

        fn report(&mut self) -> Report {
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
