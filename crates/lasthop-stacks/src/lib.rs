//! Transport stacks of others, unchanged, in the simulated networks of [`lasthop`].
//!
//! A stack is whatever implements [`Stack`]: four calls that a transport without sockets has anyway, and a report. A
//! [`Run`] drives any number of connections over a [`lasthop::Network`], beside the flows that the scenario has itself.
//! It fixes the order within an instant, catches what panics in a stack, and ends a stack that does not let time pass.
//!
//! [`quinn`] is QUIC by quinn-proto, [`noq`] by its fork noq-proto, and [`smoltcp`] is TCP by smoltcp. Their entropy
//! comes from the run's streams, so that one seed gives the same times, lengths and ECN bits each time;
//! `docs/reference/stacks.md` says what differs.
//! [`judge`] reads the datagrams of QUIC and holds them against RFC 9002.
//!
//! ```
//! use lasthop::{Link, Network, Path, Time};
//! use lasthop_stacks::{Run, quinn};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = Path::new(["server", "phone"]).link(Link::new(10_000_000).delay_ms(20).queue_packets(50));
//! let network = Network::new(&path, 1)?;
//! let mut run = Run::new(network, 1);
//! let settings = quinn::Settings { bytes: Some(1_000_000), ..quinn::Settings::default() };
//! let connection = run.connect("server", "phone", |ends| quinn::pair(&settings, ends))?;
//! run.until(Time(10_000_000_000));
//! let receiver = run.report(connection.receiver);
//! assert_eq!(receiver.delivered_bytes, 1_000_000);
//! assert!(receiver.finished.is_some());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod certificate;
pub mod controller;
mod delivery;
mod end;
mod entropy;
pub mod judge;
mod log;
pub mod noq;
mod plain;
mod quic;
pub mod quinn;
#[cfg(unix)]
pub mod real;
mod run;
pub mod scenario;
pub mod smoltcp;
mod stack;

pub use end::{Ends, Failure, Reason};
pub use log::Log;
pub use run::{Connection, EndId, Run, Seen};
pub use stack::{Carried, Report, Stack};
