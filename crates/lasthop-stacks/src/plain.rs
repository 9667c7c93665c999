//! What packets of QUIC carry, read where they are still plain: on their way into the keys of TLS.
//!
//! A stack counts frames and does not tell what is in them: whether data leaves for the first time, or whether a frame
//! has nothing but the end of its stream. It takes its keys from a session that its user brings, and that is ours here.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Carried;
use crate::judge::wire::Packet;

/// What has left. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plain(Arc<Mutex<Left>>);

#[derive(Debug, Default)]
struct Left {
    /// Behind the last byte of the stream that has left so far: there is one stream.
    until: u64,
    /// What the packets since the last question carry.
    carried: Carried,
}

impl Plain {
    /// What the packets since the last call carry: new data, if any of it is new.
    pub(crate) fn take(&self) -> Carried {
        self.with(|left| mem::take(&mut left.carried))
    }

    /// How much of the stream has left.
    pub(crate) fn until(&self) -> u64 {
        self.with(|left| left.until)
    }

    /// Another connection begins.
    pub(crate) fn reset(&self) {
        self.with(|left| *left = Left::default());
    }

    fn with<T>(&self, change: impl FnOnce(&mut Left) -> T) -> T {
        // Nothing in a change panics.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A packet leaves.
    pub(crate) fn see(&self, payload: &[u8]) {
        let mut packet = Packet::default();
        // A frame that is not known ends the reading, and those before it count.
        let _ = packet.read(payload);
        self.with(|left| {
            if packet.has_datagrams {
                left.carried = Carried::New;
            }
            for piece in packet.data.iter().filter(|piece| piece.to > piece.from) {
                if piece.to > left.until {
                    (left.until, left.carried) = (piece.to, Carried::New);
                } else if left.carried == Carried::Nothing {
                    left.carried = Carried::Again;
                }
            }
        });
    }
}

/// The configuration of a client whose packets are read.
pub(crate) struct Watched<C> {
    pub(crate) config: Arc<C>,
    pub(crate) plain: Plain,
}

/// Its session, or a key for packets that leave.
pub(crate) struct Watching<T: ?Sized> {
    pub(crate) of: Box<T>,
    pub(crate) plain: Plain,
}

/// The traits of a stack for [`Watched`] and [`Watching`]: what is the same in both, and what is its own.
macro_rules! watched {
    ($proto:ident, config { $($config:item)* } session { $($session:item)* } key { $($key:item)* }) => {
        impl<C: ClientConfig> ClientConfig for Watched<C> {
            $($config)*
        }

        impl Watching<dyn Session> {
            fn key(&self, of: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
                Box::new(Watching { of, plain: self.plain.clone() })
            }

            fn pair(&self, keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
                KeyPair { local: self.key(keys.local), remote: keys.remote }
            }
        }

        impl Session for Watching<dyn Session> {
            fn handshake_data(&self) -> Option<Box<dyn Any>> {
                self.of.handshake_data()
            }

            fn peer_identity(&self) -> Option<Box<dyn Any>> {
                self.of.peer_identity()
            }

            fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
                self.of.early_crypto().map(|(header, packet)| (header, self.key(packet)))
            }

            fn early_data_accepted(&self) -> Option<bool> {
                self.of.early_data_accepted()
            }

            fn is_handshaking(&self) -> bool {
                self.of.is_handshaking()
            }

            fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
                self.of.read_handshake(buf)
            }

            fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
                self.of.transport_parameters()
            }

            fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
                let Keys { header, packet } = self.of.write_handshake(buf)?;
                Some(Keys { header, packet: self.pair(packet) })
            }

            fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
                let keys = self.of.next_1rtt_keys()?;
                Some(self.pair(keys))
            }

            fn export_keying_material(
                &self,
                output: &mut [u8],
                label: &[u8],
                context: &[u8],
            ) -> Result<(), $proto::crypto::ExportKeyingMaterialError> {
                self.of.export_keying_material(output, label, context)
            }

            $($session)*
        }

        impl Watching<dyn PacketKey> {
            fn see(&self, buf: &[u8], header_len: usize) {
                let end = buf.len().saturating_sub(self.of.tag_len());
                self.plain.see(buf.get(header_len..end).unwrap_or_default());
            }
        }

        impl PacketKey for Watching<dyn PacketKey> {
            fn tag_len(&self) -> usize {
                self.of.tag_len()
            }

            fn confidentiality_limit(&self) -> u64 {
                self.of.confidentiality_limit()
            }

            fn integrity_limit(&self) -> u64 {
                self.of.integrity_limit()
            }

            $($key)*
        }
    };
}

pub(crate) use watched;

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand (RFC 9000 §19.8): streams with an offset and a length, and one that only ends; a datagram (RFC 9221 §4).
    #[test]
    fn frames_are_told_apart() {
        let plain = Plain::default();
        let carried = |payload: &[u8]| {
            plain.see(payload);
            plain.take()
        };
        assert_eq!(carried(&[0x0e, 2, 0, 3, 1, 2, 3]), Carried::New);
        assert_eq!(carried(&[0x0e, 2, 1, 2, 2, 3]), Carried::Again);
        assert_eq!(carried(&[0x0e, 2, 2, 2, 3, 4]), Carried::New, "a byte of it is");
        assert_eq!(carried(&[0x0e, 2, 0, 1, 1, 0x0e, 2, 4, 1, 5]), Carried::New, "one frame of it is");
        assert_eq!(carried(&[0x0f, 2, 5, 0]), Carried::Nothing, "the end alone");
        assert_eq!(carried(&[0x01, 0x00]), Carried::Nothing);
        assert_eq!(carried(&[0x31, 1, 9]), Carried::New);
        assert_eq!(plain.take(), Carried::Nothing);
    }
}
