//! Transport endpoints.
pub mod tcp;
