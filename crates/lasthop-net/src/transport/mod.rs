//! Transport endpoints: TCP with all its variants, and UDP.

pub mod tcp;
pub mod udp;
