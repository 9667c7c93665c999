//! Changes in packets as they are on the wire, for devices that mark them or take options away; checksums follow.

use etherparse::{IpNumber, Ipv4Header, TcpHeader};

use super::options::kind;
use super::{ELN_BIT, IP_CHECKSUM, OFFSET_BYTE, TCP_CHECKSUM};

/// Sets the ECN field of an IPv4 packet to congestion experienced, unless its transport is not capable of it. What is
/// too short to be one stays as it is.
pub fn mark_congestion(packet: &mut [u8]) {
    if packet.len() >= Ipv4Header::MIN_LEN && !matches!(packet[1] & 3, 0 | 3) {
        patch(packet, 0, IP_CHECKSUM, |word| word | 3);
    }
}

/// Sets explicit loss notification in an IPv4 packet with a TCP segment. What is none stays as it is.
pub fn mark_loss(packet: &mut [u8]) {
    let Some(&first) = packet.first() else { return };
    let start = 4 * usize::from(first & 15);
    if packet.len() >= start + TcpHeader::MIN_LEN && packet[9] == IpNumber::TCP.0 {
        patch(packet, start + OFFSET_BYTE, start + TCP_CHECKSUM, |word| word | u16::from(ELN_BIT) << 8);
    }
}

/// Leaves the first `keep` blocks in the SACK option of an IPv4 packet with a TCP segment, and no-operations in place
/// of the others. What is none stays as it is.
pub fn keep_sack_blocks(packet: &mut [u8], keep: usize) {
    let Some(&first) = packet.first() else { return };
    let start = 4 * usize::from(first & 15);
    if packet.len() < start + TcpHeader::MIN_LEN || packet[9] != IpNumber::TCP.0 {
        return;
    }
    let end = (start + 4 * usize::from(packet[start + OFFSET_BYTE] >> 4)).min(packet.len());
    let mut at = start + TcpHeader::MIN_LEN;
    while at + 1 < end {
        let (option, length) = match packet[at] {
            kind::END => return,
            kind::NO_OPERATION => (kind::NO_OPERATION, 1),
            option => (option, usize::from(packet[at + 1])),
        };
        if length == 0 || (option != kind::NO_OPERATION && length < 2) || at + length > end {
            return;
        }
        let kept = if keep == 0 { 0 } else { 2 + 8 * keep };
        if option == kind::SACK && kept < length {
            if keep > 0 {
                patch_byte(packet, (start, at + 1), kept as u8);
            }
            for byte in at + kept..at + length {
                patch_byte(packet, (start, byte), kind::NO_OPERATION);
            }
            return;
        }
        at += length;
    }
}

/// Whether the TCP segment in an IPv4 packet that [`super::parse`] has read carries an option that is not from RFC
/// 9293, 2018 or 7323: one that matters to devices that rewrite headers (multipath, authentication, data in the
/// SYN).
pub fn has_other_options(packet: &[u8]) -> bool {
    let Some(&first) = packet.first() else { return false };
    let start = 4 * usize::from(first & 15);
    let Some(&offset) = packet.get(start + OFFSET_BYTE) else { return false };
    let mut rest =
        packet.get(start + TcpHeader::MIN_LEN..start + 4 * usize::from(offset >> 4)).unwrap_or_default();
    loop {
        let length = match rest {
            [] | [kind::END, ..] => return false,
            [kind::NO_OPERATION, ..] => 1,
            [
                kind::MSS | kind::WINDOW_SCALE | kind::SACK_PERMITTED | kind::SACK | kind::TIMESTAMPS,
                length,
                ..,
            ] => usize::from(*length).max(2),
            _ => return true,
        };
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// Changes the byte at `at` of the TCP segment that starts at `start`, and its checksum.
fn patch_byte(packet: &mut [u8], (start, at): (usize, usize), value: u8) {
    let is_low = (at - start) % 2 == 1;
    patch(packet, at - usize::from(is_low), start + TCP_CHECKSUM, |word| {
        if is_low { word & 0xff00 | u16::from(value) } else { word & 0x00ff | u16::from(value) << 8 }
    });
}

/// Changes the word at `at` and brings the checksum at `sum` up to date (RFC 1624 equation 3).
fn patch(packet: &mut [u8], at: usize, sum: usize, change: impl FnOnce(u16) -> u16) {
    let word = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (before, known) = (word(packet, at), word(packet, sum));
    let after = change(before);
    let mut total = u32::from(!known) + u32::from(!before) + u32::from(after);
    while total > u32::from(u16::MAX) {
        total = (total & u32::from(u16::MAX)) + (total >> 16);
    }
    packet[at..at + 2].copy_from_slice(&after.to_be_bytes());
    packet[sum..sum + 2].copy_from_slice(&(!(total as u16)).to_be_bytes());
}
