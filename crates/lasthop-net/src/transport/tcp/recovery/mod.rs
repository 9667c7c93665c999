//! Loss recovery: how losses are found and repaired. How far the window falls is the controller's business.
//!
//! Each engine is an `impl` block of the sender in a file of its own: `duplicate.rs` (Tahoe, Reno and NewReno, which
//! count duplicate ACKs), `sack.rs` (RFC 6675), `sack1.rs` (ns-2's) and `vegas.rs` (the fine-grained timer).

mod duplicate;
pub(super) mod sack;
pub(super) mod sack1;
pub(super) mod vegas;
