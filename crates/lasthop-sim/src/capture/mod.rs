//! Captures of real packets as input: what is in them, and a first estimate of the path that they took.
//!
//! `lasthop from-capture` and the page call it. `read` reads the formats and `frame` the headers below IP,
//! `follow` follows one TCP connection, `estimate` puts all of them together and `said` puts that into words;
//! `over_time` is what the page draws of a connection, and `simulated` captures a simulation at the same place.

pub mod estimate;
mod follow;
mod frame;
pub mod over_time;
pub mod read;
pub mod said;
pub mod simulated;
