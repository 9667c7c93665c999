//! What lies between a sender and everything else: where its packets go and how it is woken. `world.rs` implements it
//! over the simulated network, tests by a record of what was sent.

use lasthop_cc::{LossKind, LossSigns};
use lasthop_core::packet::{NONE, Packet};
use lasthop_core::time::Time;

use super::extra::Extra;
use super::rate::media::log::Heard;

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
    /// What a report on media over `range` (the last packet and how many up to it), made at `until`, says of each:
    /// appended to `into`.
    fn heard(&self, range: (u64, u16), until: Time, into: &mut Vec<Heard>) {
        let _ = (range, until, into);
    }
    /// What the last loss of the segment at `seq` was, for those that ask for the truth.
    fn truth(&self, seq: u64) -> Option<LossKind> {
        let _ = seq;
        None
    }
    /// The sender takes the loss of the segment at `seq` for `belief`; `signs` are what its law has counted. For
    /// measurement: nothing comes back.
    fn judged(&mut self, seq: u64, belief: LossKind, signs: Option<LossSigns>) {
        let _ = (seq, belief, signs);
    }
}
