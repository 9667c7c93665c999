//! UDP: no connection, no congestion control (RFC 768).
//!
//! The sender cuts what the application writes into datagrams; the receiver counts.

use lasthop_core::packet::{Kind, NONE, Packet};
use lasthop_core::time::Time;

use super::wire::Wire;
use crate::measure::{FlowStats, Window};
use crate::plan::UdpConfig;

/// The sending end.
#[derive(Clone, Debug)]
pub struct UdpSender {
    config: UdpConfig,
    /// Payload bytes sent so far.
    next: u64,
}

impl UdpSender {
    /// A sender with this configuration.
    pub fn new(config: UdpConfig) -> UdpSender {
        UdpSender { config, next: 0 }
    }

    /// The application writes `bytes`, which leave at once.
    pub fn on_data<W: Wire>(&mut self, bytes: u64, now: Time, wire: &mut W) {
        let end = self.next + bytes;
        while self.next < end {
            let payload = (end - self.next).min(u64::from(self.config.payload));
            let packet = Packet {
                seq: self.next,
                stamp: now,
                bytes: (payload + u64::from(self.config.header)) as u16,
                payload: payload as u16,
                extra: NONE,
                kind: Kind::Udp,
                ..Packet::default()
            };
            wire.send(packet, now);
            self.next += payload;
        }
    }
}

/// A datagram arrived.
pub fn receive(packet: &Packet, now: Time, stats: &mut FlowStats, window: &Window) {
    stats.deliver(now, u64::from(packet.payload), window);
    stats.arrive(now, packet, packet.stamp, true, window);
}
