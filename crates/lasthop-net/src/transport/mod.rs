//! Transport endpoints: TCP with all its variants, rate-based transports, and UDP.

pub mod extra;
pub mod rate;
pub mod tcp;
pub mod udp;
