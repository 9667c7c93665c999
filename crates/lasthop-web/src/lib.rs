//! The bridge from lasthop to a browser. Thin on purpose: scenario text and files in; summaries as the JSON of
//! `lasthop run --json`, series and windows of the trace as arrays of numbers out.
//!
//! `web/` calls what `bindings` exports from a worker, one call at a time: a run goes on until its end, and to cancel
//! one is to end its worker. The rest is ordinary Rust, which native tests cover; nothing here knows how a packet
//! moves.

#![forbid(unsafe_code)]

#[cfg(target_family = "wasm")]
pub mod bindings;
pub mod describe;
pub mod edit;
pub mod replay;
pub mod series;
