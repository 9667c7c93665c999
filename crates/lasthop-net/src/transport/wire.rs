//! What lies between a sender and everything else: where its packets go and how it is woken. `world.rs` implements it
//! over the simulated network, tests by a record of what was sent.

use lasthop_cc::LossKind;
use lasthop_core::packet::{NONE, Packet};
use lasthop_core::time::Time;

use super::extra::Extra;

/// Where a sender puts its packets and how it asks to be woken.
pub trait Wire {
    /// Sends a packet now.
    fn send(&mut self, packet: Packet, now: Time);
    /// Calls `on_timer` at `at`.
    fn wake(&mut self, at: Time);
    /// Stores what a packet carries beyond its header; the index goes into `Packet::extra`.
    fn attach(&mut self, extra: Extra) -> u32 {
        let _ = extra;
        NONE
    }
    /// The sender takes the loss of the segment at `seq` for `belief`. For measurement: nothing comes back.
    fn judged(&mut self, seq: u64, belief: LossKind) {
        let _ = (seq, belief);
    }
}
