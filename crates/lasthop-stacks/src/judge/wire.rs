//! What a datagram of QUIC says, by the secrets that its TLS gave away: packets with a short header alone, which are
//! those behind the handshake.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use ring::aead::quic::{AES_256, HeaderProtectionKey};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA384, KeyType, Prk};

/// The secrets of a connection, as TLS tells them to who keeps a log (draft-ietf-tls-keylogfile).
#[derive(Clone, Debug, Default)]
pub struct Secrets(Arc<Mutex<[Option<Vec<u8>>; 2]>>);

impl Secrets {
    /// What protects packets of the client (0) or the server (1), if the handshake has come so far.
    pub fn of(&self, side: usize) -> Option<Keys> {
        let secrets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Keys::new(secrets[side].as_deref()?)
    }
}

impl rustls::KeyLog for Secrets {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        let side = match label {
            "CLIENT_TRAFFIC_SECRET_0" => 0,
            "SERVER_TRAFFIC_SECRET_0" => 1,
            _ => return,
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[side] = Some(secret.to_vec());
    }
}

/// How many bytes HKDF is to make.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label (RFC 8446 §7.1) without context.
fn expand(secret: &Prk, label: &[u8], into: &mut [u8]) -> Option<()> {
    let length = (into.len() as u16).to_be_bytes();
    let parts: [&[u8]; 5] = [&length, &[6 + label.len() as u8], b"tls13 ", label, &[0]];
    secret.expand(&parts, Length(into.len())).ok()?.fill(into).ok()
}

/// Keys of one direction (RFC 9001 §5), for TLS_AES_256_GCM_SHA384.
pub struct Keys {
    header: HeaderProtectionKey,
    /// The phase that its sender is in (RFC 9001 §6), and what protects the packets before it, in it, and behind it.
    phase: bool,
    before: Option<Phase>,
    now: Phase,
    next: Phase,
}

/// What protects the packets of a phase.
struct Phase {
    secret: Vec<u8>,
    key: LessSafeKey,
    nonce: [u8; 12],
}

impl Phase {
    fn new(secret: Vec<u8>) -> Option<Phase> {
        let (mut key, mut nonce) = ([0; 32], [0; 12]);
        let prk = Prk::new_less_safe(HKDF_SHA384, &secret);
        expand(&prk, b"quic key", &mut key)?;
        expand(&prk, b"quic iv", &mut nonce)?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).ok()?);
        Some(Phase { secret, key, nonce })
    }

    fn next(&self) -> Option<Phase> {
        let mut secret = vec![0; self.secret.len()];
        expand(&Prk::new_less_safe(HKDF_SHA384, &self.secret), b"quic ku", &mut secret)?;
        Phase::new(secret)
    }

    /// The payload behind a header.
    fn open(&self, number: u64, header: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = self.nonce;
        for (byte, number) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        let mut payload = payload.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let length = self.key.open_in_place(nonce, Aad::from(header), &mut payload).ok()?.len();
        payload.truncate(length);
        Some(payload)
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Keys {
    fn new(secret: &[u8]) -> Option<Keys> {
        let mut header = [0; 32];
        expand(&Prk::new_less_safe(HKDF_SHA384, secret), b"quic hp", &mut header)?;
        let header = HeaderProtectionKey::new(&AES_256, &header).ok()?;
        let now = Phase::new(secret.to_vec())?;
        Some(Keys { header, phase: false, before: None, next: now.next()?, now })
    }

    /// The payload of a packet, by the phase that its header tells.
    fn payload(&mut self, number: u64, header: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
        let phase = header[0] & 0x04 != 0;
        if phase == self.phase {
            return self.now.open(number, header, payload);
        }
        if let Some(opened) = self.before.as_ref().and_then(|before| before.open(number, header, payload)) {
            return Some(opened);
        }
        let opened = self.next.open(number, header, payload)?;
        let next = self.next.next()?;
        self.before = Some(std::mem::replace(&mut self.now, std::mem::replace(&mut self.next, next)));
        self.phase = phase;
        Some(opened)
    }

    /// Reads a packet with a short header and a destination id of this length. `newest` is the highest number that this
    /// direction has had.
    pub fn open(&mut self, packet: &[u8], id_bytes: usize, newest: Option<u64>) -> Option<Packet> {
        let (mut bytes, bytes_of) = (packet.to_vec(), packet.len() as u64);
        let at = 1 + id_bytes;
        // RFC 9001 §5.4: the sample begins where a number of four bytes would end.
        if bytes.len() < at + 20 {
            return None;
        }
        let mask = self.header.new_mask(bytes.get(at + 4..at + 20)?).ok()?;
        bytes[0] ^= mask[0] & 0x1f;
        let length = usize::from(bytes[0] & 3) + 1;
        for (byte, mask) in bytes[at..at + length].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
        }
        let truncated = bytes[at..at + length].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        let number = full(newest, truncated, length);
        let (header, payload) = bytes.split_at(at + length);
        let payload = self.payload(number, header, payload)?;
        let mut packet = Packet { number, bytes: bytes_of, is_empty: true, ..Packet::default() };
        packet.read(&payload)?;
        Some(packet)
    }
}

/// The packet with a short header at the end of a datagram, behind those of the handshake (RFC 9000 §17.2); `None` if
/// there is none.
pub fn short(datagram: &[u8]) -> Option<&[u8]> {
    let mut rest = Frames(datagram);
    while rest.0.first()? & 0x80 != 0 {
        let is_initial = rest.0[0] & 0x30 == 0;
        rest.skip(5)?;
        for _ in 0..2 {
            let length = u64::from(*rest.0.first()?);
            rest.skip(1 + length)?;
        }
        if is_initial {
            rest.with_length()?;
        }
        rest.with_length()?;
    }
    Some(rest.0)
}

/// RFC 9000, appendix A.3.
fn full(newest: Option<u64>, truncated: u64, bytes: usize) -> u64 {
    let expected = newest.map_or(0, |newest| newest + 1);
    let window = 1 << (8 * bytes);
    let candidate = (expected & !(window - 1)) | truncated;
    if candidate + window / 2 <= expected {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// What a packet says, as far as loss recovery goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Its number.
    pub number: u64,
    /// Its length, header and tag included.
    pub bytes: u64,
    /// It must be acknowledged (RFC 9002 §2).
    pub elicits: bool,
    /// It counts as in flight (RFC 9002 §2): it must be acknowledged, or has padding.
    pub in_flight: bool,
    /// Nothing of it would have to be sent again: PING, padding and acknowledgements alone, as in probes for longer
    /// packets (RFC 9000 §14.4).
    pub is_empty: bool,
    /// It ends the connection.
    pub closes: bool,
    /// What it acknowledges.
    pub acks: Option<Acks>,
    /// Data of streams that it carries.
    pub data: Vec<Piece>,
    /// It carries data in datagrams (RFC 9221).
    pub has_datagrams: bool,
}

/// Data of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which stream.
    pub stream: u64,
    /// Offset of its first byte.
    pub from: u64,
    /// Offset behind its last one.
    pub to: u64,
}

/// An ACK frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acks {
    /// Numbers, the highest first.
    pub ranges: Vec<RangeInclusive<u64>>,
    /// What its delay field says: microseconds, shifted by the exponent of its sender.
    pub delay: u64,
    /// How many packets it has counted as marked by the network (RFC 9000 §19.3.2).
    pub marked: Option<u64>,
}

/// A reader of frames.
struct Frames<'a>(&'a [u8]);

impl Frames<'_> {
    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    /// RFC 9000 §16.
    fn number(&mut self) -> Option<u64> {
        let first = *self.0.first()?;
        let bytes = 1 << (first >> 6);
        let rest = self.0.get(1..bytes)?;
        let number = rest.iter().fold(u64::from(first & 0x3f), |sum, &byte| sum << 8 | u64::from(byte));
        self.skip(bytes as u64)?;
        Some(number)
    }

    fn numbers(&mut self, count: usize) -> Option<()> {
        (0..count).try_for_each(|_| self.number().map(|_| ()))
    }

    fn with_length(&mut self) -> Option<()> {
        let length = self.number()?;
        self.skip(length)
    }

    /// RFC 9000 §19.3.
    fn acks(&mut self, counts_marks: bool) -> Option<Acks> {
        let (largest, delay, count) = (self.number()?, self.number()?, self.number()?);
        let mut low = largest.checked_sub(self.number()?)?;
        let mut ranges = vec![low..=largest];
        for _ in 0..count {
            let high = low.checked_sub(self.number()?)?.checked_sub(2)?;
            low = high.checked_sub(self.number()?)?;
            ranges.push(low..=high);
        }
        let mut marked = None;
        if counts_marks {
            self.numbers(2)?;
            marked = Some(self.number()?);
        }
        Some(Acks { ranges, delay, marked })
    }
}

impl Packet {
    /// Reads its frames (RFC 9000 §19, RFC 9221, draft-ietf-quic-ack-frequency); `None` for one that is not known.
    pub(crate) fn read(&mut self, payload: &[u8]) -> Option<()> {
        let mut frames = Frames(payload);
        while !frames.0.is_empty() {
            let kind = frames.number()?;
            self.elicits |= !matches!(kind, 0x00 | 0x02 | 0x03 | 0x1c | 0x1d);
            self.in_flight |= !matches!(kind, 0x02 | 0x03 | 0x1c | 0x1d);
            self.is_empty &= matches!(kind, 0x00..=0x03 | 0x1f);
            self.closes |= matches!(kind, 0x1c | 0x1d);
            self.has_datagrams |= matches!(kind, 0x30 | 0x31);
            match kind {
                // PADDING, PING, HANDSHAKE_DONE, IMMEDIATE_ACK
                0x00 | 0x01 | 0x1e | 0x1f => {}
                0x02 | 0x03 => self.acks = Some(frames.acks(kind == 0x03)?),
                // RESET_STREAM
                0x04 => frames.numbers(3)?,
                // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED
                0x05 | 0x11 | 0x15 => frames.numbers(2)?,
                // CRYPTO
                0x06 => {
                    frames.number()?;
                    frames.with_length()?;
                }
                // NEW_TOKEN, and DATAGRAM with a length
                0x07 | 0x31 => frames.with_length()?,
                // STREAM: bit 2 has an offset, bit 1 a length
                0x08..=0x0f => {
                    let stream = frames.number()?;
                    let from = if kind & 4 != 0 { frames.number()? } else { 0 };
                    let length = if kind & 2 != 0 { frames.number()? } else { frames.0.len() as u64 };
                    self.data.push(Piece { stream, from, to: from.checked_add(length)? });
                    frames.skip(length)?;
                }
                // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID
                0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => frames.numbers(1)?,
                // NEW_CONNECTION_ID
                0x18 => {
                    frames.numbers(2)?;
                    let length = u64::from(*frames.0.first()?);
                    frames.skip(1 + length + 16)?;
                }
                // PATH_CHALLENGE, PATH_RESPONSE
                0x1a | 0x1b => frames.skip(8)?,
                // CONNECTION_CLOSE
                0x1c | 0x1d => {
                    frames.numbers(1 + usize::from(kind == 0x1c))?;
                    frames.with_length()?;
                }
                // DATAGRAM to the end of the packet
                0x30 => return Some(()),
                // ACK_FREQUENCY
                0xaf => frames.numbers(4)?,
                _ => return None,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000, appendix A.3: the example.
    #[test]
    fn numbers_are_completed() {
        assert_eq!(full(Some(0xa82f_30ea), 0x9b32, 2), 0xa82f_9b32);
    }

    /// RFC 9000, appendix A.1: the four examples.
    #[test]
    fn integers_of_each_length_are_read() {
        let read = |bytes: &[u8]| Frames(bytes).number();
        assert_eq!(read(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]), Some(151_288_809_941_952_652));
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d]), Some(494_878_333));
        assert_eq!(read(&[0x7b, 0xbd]), Some(15_293));
        assert_eq!(read(&[0x25]), Some(37));
        assert_eq!(read(&[0x7b]), None);
    }

    /// By hand: 10 and 9, a gap of two (8, 7), then 6 to 4; PADDING and PING behind it; counts of ECN, three marked.
    #[test]
    fn acknowledgements_are_read() {
        let read = |payload: &[u8]| {
            let mut packet = Packet::default();
            packet.read(payload).map(|()| packet)
        };
        let packet = read(&[0x02, 10, 5, 1, 1, 1, 2, 0x00]).unwrap();
        assert_eq!(packet.acks, Some(Acks { ranges: vec![9..=10, 4..=6], delay: 5, marked: None }));
        assert!(!packet.elicits && packet.in_flight);
        assert!(read(&[0x02, 10, 5, 0, 1, 0x01]).unwrap().elicits);
        assert_eq!(read(&[0x03, 1, 0, 0, 0, 7, 8, 3]).unwrap().acks.unwrap().marked, Some(3));
        assert_eq!(read(&[0x02, 1, 0, 0, 2]), None);
    }

    /// By hand: stream 2 from 64 on, with a length of 3; stream 6 from 0 on, to the end of the packet.
    #[test]
    fn data_of_streams_is_read() {
        let mut packet = Packet::default();
        packet.read(&[0x0e, 2, 0x40, 64, 3, 1, 2, 3, 0x08, 6, 1, 2]).unwrap();
        let pieces = [Piece { stream: 2, from: 64, to: 67 }, Piece { stream: 6, from: 0, to: 2 }];
        assert_eq!(packet.data, pieces);
        assert_eq!(Packet::default().read(&[0x0e, 2, 0x40, 64, 3, 1]), None);
    }

    /// By hand: an Initial packet with ids of 1 and 0 bytes, a token of 1 and a payload of 2, a Handshake packet
    /// without ids and a payload of 1, and one with a short header.
    #[test]
    fn packets_of_the_handshake_are_passed_over() {
        let initial = [0xc0, 0, 0, 0, 1, 1, 0xaa, 0, 1, 0xbb, 2, 1, 2];
        let handshake = [0xe0, 0, 0, 0, 1, 0, 0, 1, 3];
        let datagram = [&initial[..], &handshake, &[0x40, 9]].concat();
        assert_eq!(short(&datagram), Some(&[0x40, 9][..]));
        assert_eq!(short(&datagram[..initial.len()]), None);
        assert_eq!(short(&datagram[..5]), None);
    }
}
