//! Rate-based transports over UDP: TFRC and its relatives, SSVP, the rate-based WTCP, and real-time media.
//!
//! A sender spaces its packets evenly and changes the spacing when the receiver reports. [`sender::RateSender`] does
//! what all of them share (queue, spacing, measuring); [`receiver::RateReceiver`] likewise. Each protocol is a file
//! with a pure state machine for either end, and one line in [`config`]. `world.rs` and `network.rs` drive them.

pub mod config;
mod history;
pub mod media;
pub mod receiver;
pub mod sender;
mod ssvp;
mod tfrc;
mod tfrc_ns2;
mod tfrc_ps;
mod tfrc_receiver;
mod tfrc_sp;
mod wtcp_rate;
