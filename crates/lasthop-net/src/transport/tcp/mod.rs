//! TCP: sender, receiver, timer, and the loss recovery engines.
//!
//! One engine serves the profiles `rfc`, `ns2` and `linux`; where they differ, the difference is a field of
//! [`config::TcpConfig`] or a comment that names it.

pub(crate) mod accurate;
mod ack_frequency;
mod autotuning;
pub mod config;
mod mobile_receiver;
pub mod mobility;
mod reader;
pub mod receiver;
mod receiver_options;
mod rtt;
pub(super) mod segments;
pub mod sender;
pub mod window;
