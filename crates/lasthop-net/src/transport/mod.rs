//! Transport endpoints: TCP with all its variants, and UDP.

pub mod extra;
pub mod tcp;
pub mod udp;
