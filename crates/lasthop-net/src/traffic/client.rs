//! Clients: applications that ask over connections they keep, and act on what comes back.
//!
//! A `Client` knows requests, answers and the time, no transport: the world (`world/exchange.rs`) sends what it asks
//! for and tells it how many bytes of answers have come over which connection. To add a client: its plan with
//! `impl Offered` and `impl Client` for its state in `traffic/<name>.rs`, its line in `clients!`, and the same for its
//! keys as for every source.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::player::{Player, Screen};
use super::video::Packing;
use super::web::{PageTimes, Web};
use super::{Generate, Offer, Traffic};

/// A request, and the answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Over which of its lines; a connection that is not open is opened first.
    pub(crate) connection: usize,
    /// Bytes of the request.
    pub(crate) request: u64,
    /// Bytes of the answer.
    pub(crate) answer: u64,
}

/// What a client wants done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Acts {
    /// Requests, in the order in which they leave.
    pub(crate) asks: Vec<Ask>,
    /// When it wants to be woken.
    pub(crate) wake: Option<Time>,
}

/// What a plan says of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// How many it may open.
    pub most: u32,
    /// How many lines each has: streams of which none waits for another, and each of which carries one request and
    /// then its answer. With 1 all that a connection carries is in one order.
    pub streams: u32,
    /// How long its server thinks about a request.
    pub server_time: Span,
}

/// A client at work.
pub(crate) trait Client {
    /// The application starts.
    fn start(&mut self, now: Time, acts: &mut Acts);

    /// `bytes` of answers have come in all over the line `connection`, in order.
    fn arrive(&mut self, connection: usize, bytes: u64, now: Time, acts: &mut Acts);

    /// The time has come that it asked for.
    fn wake(&mut self, now: Time, acts: &mut Acts);
}

/// The source of a flow of a client: what is sent, the world writes for the client and its server.
#[derive(Clone, Debug)]
pub(super) struct Silent;

impl Silent {
    pub(super) fn new<T>(_: &T, _: Packing, _: Stream) -> Silent {
        Silent
    }
}

impl Generate for Silent {
    fn next(&mut self, _: Time) -> Offer {
        Offer { bytes: Some(0), next: None }
    }
}

/// What came of a client.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// What a viewer has seen.
    Screen(&'a Screen),
    /// Pages of a browser.
    Pages(&'a PageTimes),
}

/// Makes the enum of clients from one line each: `Name(what a plan says) => state`.
macro_rules! clients {
    ($($name:ident => $state:ty;)*) => {
        /// The clients at work.
        #[derive(Clone, Debug)]
        pub(crate) enum Running {
            $($name(Box<$state>),)*
        }

        impl Running {
            /// The client of a flow with this traffic, if one asks for it. It begins nothing after `until`.
            pub(crate) fn new(traffic: &Traffic, stream: Stream, until: Time) -> Option<Running> {
                match traffic {
                    $(Traffic::$name(plan) => Some(Running::$name(Box::new(<$state>::new(plan, stream, until)))),)*
                    _ => None,
                }
            }

            /// What has come of it.
            pub(crate) fn outcome(&self) -> Outcome<'_> {
                match self {
                    $(Running::$name(client) => client.outcome(),)*
                }
            }
        }

        impl Client for Running {
            fn start(&mut self, now: Time, acts: &mut Acts) {
                match self {
                    $(Running::$name(client) => client.start(now, acts),)*
                }
            }

            fn arrive(&mut self, connection: usize, bytes: u64, now: Time, acts: &mut Acts) {
                match self {
                    $(Running::$name(client) => client.arrive(connection, bytes, now, acts),)*
                }
            }

            fn wake(&mut self, now: Time, acts: &mut Acts) {
                match self {
                    $(Running::$name(client) => client.wake(now, acts),)*
                }
            }
        }
    };
}

clients! {
    Player => Player;
    Web => Web;
}
