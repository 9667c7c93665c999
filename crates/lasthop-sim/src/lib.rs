//! A run: from a scenario file to a checked plan, a world, and what it measured.
//!
//! [`scenario`] reads and checks, [`run`] runs, [`summary`] reports. Terminals and plots are the Python front's
//! business.

#![forbid(unsafe_code)]

pub mod advice;
pub mod air;
mod applications;
mod call;
pub mod capture;
pub mod columns;
pub mod datagrams;
mod draws;
pub mod json;
pub mod link_trace;
pub mod pcapng;
mod repair;
pub mod run;
pub mod scenario;
pub mod script;
pub mod shown;
pub mod summary;
pub mod way;
