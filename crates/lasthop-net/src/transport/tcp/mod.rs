//! TCP: sender, receiver, timer, and the loss recovery engines.
//!
//! One engine serves the profiles `rfc`, `ns2` and `linux`; where they differ, the difference is a field of
//! [`config::TcpConfig`] or a comment that names it.

mod alarms;
pub mod config;
mod ebsn;
mod eln;
mod fast_handoff;
mod mobile_receiver;
pub mod mobility;
mod pacing;
mod persist;
mod probing;
mod rate;
pub mod receiver;
mod receiver_options;
mod recovery;
mod rtt;
pub(super) mod segments;
pub mod sender;
mod timing;
mod undo;
mod waves;
