//! What packets meet on their way: queues, links, channels, transport endpoints and traffic.
//!
//! [`world::World`] is built from a checked [`plan::Plan`] and runs it. Nothing here reads a file, the wall clock or
//! a random number that does not belong to a named stream.

#![forbid(unsafe_code)]

pub mod channel;
pub mod device;
pub mod frames;
pub mod handoff;
pub mod history;
pub mod link;
pub mod measure;
pub mod network;
pub mod plan;
pub mod propagation;
pub mod queue;
pub mod realtime;
pub mod roaming;
pub mod routing;
pub mod trace;
pub mod traffic;
pub mod transport;
pub mod world;
