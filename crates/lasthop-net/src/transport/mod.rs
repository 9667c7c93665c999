//! Transport endpoints: TCP with all its variants, rate-based transports, and UDP.

pub mod codec;
pub mod duplex;
pub mod endpoint;
pub mod extra;
pub mod outside;
pub mod profile;
pub mod rate;
pub mod sack;
pub mod tcp;
pub mod udp;
pub mod wire;
