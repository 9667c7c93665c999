//! One end of a connection as a driver sees it: calls of its stack are guarded, and a stack that does not let time pass
//! is ended.

use std::net::SocketAddr;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lasthop::{Ecn, Span, Stream, Time};
use lasthop_cc::LossKind;
use lasthop_net::traffic::Demand;

use crate::{Carried, Report, Stack};

/// Rounds of timeouts that an end may have at one instant. One whose timer lies in the past would never let time pass.
const MOST_ROUNDS: u32 = 10_000;

/// What an Ethernet leaves of a packet behind IP and UDP. Links that take less lose what is longer.
pub(crate) const LONGEST: u32 = 1472;

/// What a pair of stacks is made of.
#[derive(Clone, Debug)]
pub struct Ends {
    /// When the connection is opened.
    pub at: Time,
    /// Address and port of the end that opens the connection.
    pub sender: SocketAddr,
    /// Address and port of the other.
    pub receiver: SocketAddr,
    /// The longest datagram that the path takes.
    pub longest: u32,
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

/// An end that is driven.
pub(crate) struct End {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) peer: SocketAddr,
    stack: Box<dyn Stack>,
    pub(crate) failed: bool,
    /// What the driver's timer for it is set to.
    pub(crate) timer: Option<Time>,
    /// It is in the driver's list of ends at which something has happened.
    pub(crate) touched: bool,
    /// The instant of the last timeout, and how many it had.
    rounds: (Time, u32),
    /// What was sent.
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
}

impl End {
    /// The end at the first of two addresses.
    pub(crate) fn new(name: &str, (address, peer): (SocketAddr, SocketAddr), stack: Box<dyn Stack>) -> End {
        End {
            name: name.to_owned(),
            address,
            peer,
            stack,
            failed: false,
            timer: None,
            touched: false,
            rounds: (Time::ZERO, 0),
            datagrams: 0,
            bytes: 0,
        }
    }

    /// What the stack says of itself.
    pub(crate) fn report(&mut self) -> Report {
        self.stack.report()
    }

    /// Payload that the application of this end has read.
    pub(crate) fn delivered(&mut self) -> u64 {
        self.stack.delivered()
    }

    /// A datagram arrives.
    pub(crate) fn receive(&mut self, now: Time, ecn: Ecn, data: &mut [u8]) -> Result<(), Reason> {
        guarded(|| self.stack.receive(now, ecn, data))
    }

    /// The application writes.
    pub(crate) fn write(&mut self, now: Time, bytes: u64, is_last: bool) -> Result<(), Reason> {
        guarded(|| self.stack.write(now, bytes, is_last))
    }

    /// A client or its server hands over bytes on a stream.
    pub(crate) fn exchange(&mut self, now: Time, stream: u32, bytes: u64) -> Result<(), Reason> {
        guarded(|| self.stack.exchange(now, stream, bytes))
    }

    /// Takes the streams on which something has come.
    pub(crate) fn heard(&mut self, all: &mut Vec<(u32, u64)>) {
        self.stack.heard(all);
    }

    /// What the stack says to an application that writes by a clock. The rate is a window in each round trip, as our
    /// own TCP says it to an encoder, of which data is the share of a full packet.
    pub(crate) fn demand(&mut self) -> Demand {
        let (room, report) = (self.stack.room(), self.stack.report());
        let rate = match (report.connected, report.cwnd_bytes, report.rtt, report.packet_bytes, room) {
            (Some(_), Some(cwnd), Some(rtt), Some(packet @ 1..), Some(room)) if rtt > Span::ZERO => {
                Some(cwnd as f64 * 8.0 / rtt.seconds() * (f64::from(room) / packet as f64))
            }
            _ => None,
        };
        Demand { rate, waiting: self.stack.waiting(), lost: self.stack.lost(), room }
    }

    /// What the last datagram carries.
    pub(crate) fn carried(&mut self) -> Carried {
        self.stack.carried()
    }

    /// Takes what the controller has taken losses for.
    pub(crate) fn beliefs(&mut self, all: &mut Vec<(Time, LossKind)>) {
        self.stack.beliefs(all);
    }

    /// Takes the ranges of data that have come.
    pub(crate) fn arrived(&mut self, all: &mut Vec<Range<u64>>) {
        self.stack.arrived(all);
    }

    /// The application stops.
    pub(crate) fn stop(&mut self, now: Time) -> Result<(), Reason> {
        guarded(|| self.stack.stop(now))
    }

    /// Timeouts that are due, then all that wants to be sent, which `send` gets with this end, as long as there is
    /// some. Returns when the stack wants its next timeout; `None` of `send` ends the call.
    pub(crate) fn serve(
        &mut self,
        now: Time,
        datagram: &mut Vec<u8>,
        mut send: impl FnMut(&mut End, Ecn, &[u8]) -> Result<bool, Reason>,
    ) -> Result<Option<Time>, Reason> {
        loop {
            let due = guarded(|| {
                let due = self.stack.next_timeout().is_some_and(|at| at <= now);
                if due {
                    self.stack.handle_timeout(now);
                }
                due
            })?;
            loop {
                datagram.clear();
                let Some(ecn) = guarded(|| self.stack.transmit(now, datagram))? else { break };
                if !send(self, ecn, datagram)? {
                    return Ok(None);
                }
                self.datagrams += 1;
                self.bytes += datagram.len() as u64;
            }
            if !due {
                break;
            }
            self.rounds = if self.rounds.0 == now { (now, self.rounds.1 + 1) } else { (now, 1) };
            if self.rounds.1 >= MOST_ROUNDS {
                return Err(Reason::Spins);
            }
        }
        guarded(|| self.stack.next_timeout())
    }

    /// The stack is not called any more.
    pub(crate) fn fail(&mut self, (seed, at): (u64, Time), reason: Reason) -> Failure {
        self.failed = true;
        Failure { stack: self.name.clone(), end: self.address, seed, at, reason }
    }
}

fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, Reason> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| Reason::Panicked(said(&*panic)))
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without words").to_owned()
}
