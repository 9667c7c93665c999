//! What a transport has to offer to be driven in simulated time.

use std::ops::Range;
use std::time::Duration;

use lasthop::{Ecn, Span, Time};
use lasthop_cc::LossKind;

/// One end of a connection, without sockets, threads and clock. [`crate::Run`] calls it.
///
/// Within an instant the order is: all that arrives, then the timeout if it is due, then datagrams until there are no
/// more. The time of a call is never before that of an earlier one.
pub trait Stack {
    /// When [`Stack::handle_timeout`] wants to be called; `None` if it need not be.
    fn next_timeout(&mut self) -> Option<Time>;

    /// The time of [`Stack::next_timeout`] has come. It is never called before.
    fn handle_timeout(&mut self, now: Time);

    /// A datagram has arrived. The stack may decrypt it in place. What the application reads, it reads in this call:
    /// reading opens windows, and they are announced in the same instant.
    fn receive(&mut self, now: Time, ecn: Ecn, data: &mut [u8]);

    /// Writes the next datagram into `datagram`, which is empty, and returns its ECN bits; `None` if nothing is to be
    /// sent now.
    fn transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> Option<Ecn>;

    /// The application of a sender writes; `is_last` if it never will again. Only for connections that were told so
    /// when they were made.
    fn write(&mut self, now: Time, bytes: u64, is_last: bool);

    /// A client or its server hands over bytes on one of the streams of the connection, numbered from 0 as the client
    /// takes them. Only for connections that were told so when they were made.
    fn exchange(&mut self, now: Time, stream: u32, bytes: u64) {
        let _ = (now, stream, bytes);
    }

    /// Takes the streams of a client's connection on which something has come since the last call, each with all that
    /// has come on it, in order.
    fn heard(&mut self, all: &mut Vec<(u32, u64)>) {
        let _ = all;
    }

    /// The application of a sender stops in the midst of its work: what has not arrived is not sent again.
    fn stop(&mut self, now: Time);

    /// What the stack says of itself.
    fn report(&mut self) -> Report;

    /// Payload that the application of this end has read.
    fn delivered(&mut self) -> u64 {
        self.report().delivered_bytes
    }

    /// Most data of the application that a datagram takes from now on, in bytes, if that is known.
    fn room(&mut self) -> Option<u32> {
        None
    }

    /// Bytes that the application has written and that have not left, of connections that were told to say so.
    fn waiting(&mut self) -> u64 {
        0
    }

    /// When the newest of the packets was sent that are lost with what they carried, if that is known.
    fn lost(&self) -> Option<Time> {
        None
    }

    /// What the datagram of the last call to [`Stack::transmit`] carries, of connections that were told to say so.
    fn carried(&mut self) -> Carried {
        Carried::Nothing
    }

    /// Takes what the controller has taken losses for since the last call: when the newest of the packets had been
    /// sent, and the kind.
    fn beliefs(&mut self, all: &mut Vec<(Time, LossKind)>) {
        let _ = all;
    }

    /// Takes the ranges of data that have come since the last call, in the order in which they came, of connections
    /// that were told to say so. They are counted from the first byte that the application of the sender has written.
    fn arrived(&mut self, all: &mut Vec<Range<u64>>) {
        let _ = all;
    }
}

/// What a datagram carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carried {
    /// No data of the application.
    #[default]
    Nothing,
    /// Data that leaves for the first time.
    New,
    /// Data that has left before.
    Again,
}

/// What a stack says of itself, as far as it does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// When the connection was set up at this end.
    pub connected: Option<Time>,
    /// Payload that the application of this end has read.
    pub delivered_bytes: u64,
    /// When the application of this end had read all or, at a sender, when all of it was acknowledged.
    pub finished: Option<Time>,
    /// Congestion window.
    pub cwnd_bytes: Option<u64>,
    /// Length of a full packet, without the headers below it.
    pub packet_bytes: Option<u64>,
    /// Smoothed round-trip time.
    pub rtt: Option<Span>,
    /// Least round-trip time.
    pub min_rtt: Option<Span>,
    /// Packets that the stack took for lost.
    pub lost_packets: Option<u64>,
    /// Their bytes.
    pub lost_bytes: Option<u64>,
    /// Reductions of the window.
    pub congestion_events: Option<u64>,
    /// When the connection ended, if it has, and why.
    pub closed: Option<(Time, String)>,
}

/// The span of a duration; the longest there is for one that is longer.
pub(crate) fn span(duration: Duration) -> Span {
    Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
