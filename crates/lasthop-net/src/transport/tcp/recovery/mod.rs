//! Loss recovery: how losses are found and repaired. How far the window falls is the controller's business.
//!
//! Each engine is an `impl` block of the sender in a file of its own: `duplicate.rs` (Tahoe, Reno and NewReno, which
//! count duplicate ACKs), `sack.rs` (RFC 6675), `rack.rs` (RFC 8985), `sack1.rs` (ns-2's) and `vegas.rs` (the
//! fine-grained timer). `prr.rs` spreads the reductions of `sack.rs` and `rack.rs` over a round trip.

mod duplicate;
pub(super) mod prr;
pub(super) mod rack;
pub(super) mod sack;
pub(super) mod sack1;
pub(super) mod vegas;
