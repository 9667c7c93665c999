//! Captures of real packets as input: what is in them, and a first estimate of the path that they took.
//!
//! `lasthop from-capture` calls it. [`read`] reads the formats, [`follow`] follows one TCP connection, [`estimate`]
//! puts all of them together.

pub mod estimate;
mod follow;
pub mod read;
