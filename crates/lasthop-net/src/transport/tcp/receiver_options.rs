//! What a receiver measures and echoes for a sender that asked for it (`Needs` in `lasthop-cc`): receive times,
//! discarded frames, wave rates. `receiver.rs` feeds it every segment and attaches the result to every ACK.

use lasthop_cc::{Needs, ReceiveTime};
use lasthop_core::packet::Packet;
use lasthop_core::time::Time;

use super::config::TcpConfig;
use crate::transport::extra::Extra;

/// The measuring part of a receiver.
#[derive(Clone, Debug)]
pub(crate) struct ReceiverOptions {
    needs: Needs,
    times: Option<ReceiveTime>,
    /// Frames discarded by the MAC of this host, modulo 2^32.
    discards: u32,
}

impl ReceiverOptions {
    /// `None` if nothing is to be measured.
    pub(crate) fn new(config: &TcpConfig) -> Option<Box<ReceiverOptions>> {
        let needs = config.needs();
        let any = needs.receive_times || needs.discards || needs.waves;
        any.then(|| Box::new(ReceiverOptions { needs, times: None, discards: 0 }))
    }

    /// A segment has arrived.
    pub(crate) fn on_segment(&mut self, packet: &Packet, extra: Option<&Extra>, now: Time) {
        let _ = extra;
        if self.needs.receive_times {
            self.times = Some(ReceiveTime { sent: packet.stamp, received: now });
        }
    }

    /// The MAC of this host has discarded `count` frames.
    pub(crate) fn on_discard(&mut self, count: u32) {
        self.discards = self.discards.wrapping_add(count);
    }

    /// Puts the measurements onto an ACK.
    pub(crate) fn fill(&self, extra: &mut Extra) {
        extra.times = self.times;
        extra.discards = self.needs.discards.then_some(self.discards);
    }
}
