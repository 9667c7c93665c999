//! A network in simulated time for programs that speak a transport protocol of their own.
//!
//! A [`Network`] is a scenario of the simulator without its transports: links, queues, radio channels, helpers, and the
//! simulator's own flows beside yours if the scenario has any. Your program attaches hosts to nodes, sends datagrams,
//! and asks for the next event. Datagrams are opaque bytes between addresses of IPv4 or IPv6, with ECN bits; what
//! happens to them is what the path does.
//!
//! - **Time moves only in [`Network::next_event`].** There is no thread, no socket, and no clock.
//! - **A run is a function of scenario, seed, and what you send.** Randomness for your own code comes from
//!   [`Network::entropy`], in streams by name: one more draw here shifts nothing there.
//! - **Ground truth.** [`Network::fate`] says what became of a datagram, and [`Network::finish`] measures what every
//!   run measures: rates, delays, queues, drops by cause, time series, traces, captures.
//!
//! ```
//! use lasthop::{Datagram, Link, Network, Path, Time, Wake};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // 10 Mbit/s, 20 ms each way, a queue of 50 packets; one datagram in a hundred is lost.
//! let path = Path::new(["server", "phone"]).link(Link::new(10_000_000).delay_ms(20).queue_packets(50).loss(0.01));
//! let mut network = Network::new(&path, 1)?;
//! let server = network.attach("server", "10.0.0.1".parse()?)?;
//! let phone = network.attach("phone", "10.0.0.2".parse()?)?;
//!
//! network.send(server, Datagram::new(443, "10.0.0.2:1000".parse()?, b"ping"))?;
//! let mut answered = None;
//! loop {
//!     match network.next_event(Time::MAX) {
//!         Wake::Arrivals => {}
//!         Wake::Timer { .. } | Wake::Until => continue,
//!         Wake::End => break,
//!     }
//!     let mut answers = Vec::new();
//!     while let Some(arrival) = network.recv() {
//!         if arrival.host == phone {
//!             answers.push(arrival.from);
//!         } else {
//!             answered = Some(arrival.at);
//!         }
//!     }
//!     for to in answers {
//!         network.send(phone, Datagram::new(1000, to, b"pong"))?;
//!     }
//! }
//! // Twice 20 ms and twice 32 bytes (4 and the headers of IP and UDP) at 10 Mbit/s.
//! assert_eq!(answered, Some(Time(40_051_200)));
//! # Ok(())
//! # }
//! ```
//!
//! The order within an instant is fixed: what arrives comes first, in the order in which the network delivers it, then
//! timers in the order in which they were set. So a host that reads all arrivals of [`Wake::Arrivals`], lets its
//! transport work and sends what that wants to send behaves the same in every run.
//!
//! `docs/reference/scenario.md` of the source tree describes the files of scenarios, with every kind of link, and
//! `docs/how-to/replace-your-toy-simulator.md` how to put this network in the place of one of your own.

#![forbid(unsafe_code)]

mod clock;
mod error;
mod fate;
mod network;
mod path;
mod results;
mod timers;

pub use clock::Clock;
pub use error::{Error, SendError};
pub use fate::Fate;
pub use lasthop_core::packet::Cause;
pub use lasthop_core::random::Stream;
pub use lasthop_core::time::{Span, Time};
pub use lasthop_net::trace::{Frames, Recorded, Recording};
pub use lasthop_sim::summary::{FlowSummary, LinkSummary, Summary};
pub use network::{Arrival, Datagram, DatagramId, Ecn, HostId, Network, Wake};
pub use path::{Link, Path};
pub use results::Results;
