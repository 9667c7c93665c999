//! What radiotap says of PPDUs of 802.11n, ac and ax (radiotap.org), and what BlockAcks contain.

use lasthop_net::device::wlan::mode::{Coding, Format, Habits, Mode};
use lasthop_net::trace::{BlockRecord, PpduRecord};

use super::align;

/// Bits of the fields that are present.
const MCS: u32 = 1 << 19;
const AMPDU: u32 = 1 << 20;
const VHT: u32 = 1 << 21;
const HE: u32 = 1 << 23;

/// Writes the mode of an MPDU and its place in an A-MPDU behind the other fields of the header that begins at `head`.
/// The bits of the fields that it has written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "habits are passed on alike everywhere")]
pub(super) fn write(ppdu: &PpduRecord, habits: &Habits, bytes: &mut Vec<u8>, head: usize) -> u32 {
    let mode = ppdu.mode;
    let ldpc = mode.coding(habits) == Coding::Ldpc;
    let mut present = 0;
    if mode.format() == Format::Ht {
        present |= MCS;
        let flags = u8::from(mode.width() == 40) | if mode.guard() == 400 { 0x04 } else { 0 };
        let index = mode.mcs() + 8 * (mode.streams() - 1);
        // Known: width, index, guard interval, format and coding.
        bytes.extend_from_slice(&[0x1f, flags | if ldpc { 0x10 } else { 0 }, index]);
    }
    if let Some(last) = ppdu.place {
        present |= AMPDU;
        align(bytes, head, 4);
        bytes.extend_from_slice(&ppdu.number.to_le_bytes());
        let flags: u16 = 0x0004 | if last { 0x0008 } else { 0 };
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&[0, 0]);
    }
    match mode.format() {
        Format::Legacy | Format::Ht => present,
        Format::Vht => {
            align(bytes, head, 2);
            bytes.extend_from_slice(&vht(mode, ldpc));
            present | VHT
        }
        Format::He => {
            align(bytes, head, 2);
            for word in he(mode, habits, ldpc) {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            present | HE
        }
    }
}

/// The VHT field: guard interval and width are known.
fn vht(mode: Mode, ldpc: bool) -> [u8; 12] {
    let width = match mode.width() {
        20 => 0,
        40 => 1,
        80 => 4,
        _ => 11,
    };
    let mut field = [0; 12];
    (field[0], field[2], field[3]) = (0x44, if mode.guard() == 400 { 0x04 } else { 0 }, width);
    (field[4], field[8]) = (mode.mcs() << 4 | mode.streams(), u8::from(ldpc));
    field
}

/// The HE field of a PPDU for one user: MCS, coding, width, guard interval and training symbols are known.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "habits are passed on alike everywhere")]
fn he(mode: Mode, habits: &Habits, ldpc: bool) -> [u16; 6] {
    let width = match mode.width() {
        20 => 0,
        40 => 1,
        80 => 2,
        _ => 3,
    };
    let (guard, usual) = match mode.guard() {
        800 => (0, 2),
        1600 => (1, 2),
        _ => (2, 4),
    };
    let ltf = match habits.he_ltf.unwrap_or(usual) {
        1 => 1,
        2 => 2,
        _ => 3,
    };
    let coding = if ldpc { 0x2000 } else { 0 };
    [
        0x40a0,
        0x0006,
        u16::from(mode.mcs()) << 8 | coding,
        0,
        width | guard << 4 | ltf << 6,
        u16::from(mode.streams()),
    ]
}

/// The control field, the starting sequence number and, in a BlockAck, the bitmap (802.11-2016 9.3.1.8, 9.3.1.9).
pub(super) fn write_block(block: &BlockRecord, is_answer: bool, bytes: &mut Vec<u8>) {
    // Compressed, and what the fragment number stands for: a bitmap of 256.
    let control = 0x0004 | u16::from(block.tid) << 12;
    let long = block.length > 64;
    let start = block.start << 4 | if long && is_answer { 4 } else { 0 };
    bytes.extend_from_slice(&control.to_le_bytes());
    bytes.extend_from_slice(&start.to_le_bytes());
    if is_answer {
        let words = if long { 4 } else { 1 };
        for word in &block.bits[..words] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_net::device::wlan::mode::Band;

    /// As tshark decodes them: 40 MHz, short guard interval, MCS 7: 150 Mbit/s; VHT 80 MHz, short, MCS 9, two streams:
    /// 866.7; HE, MCS 11, LDPC, 80 MHz, 0.8 us, two streams: 1201.
    #[test]
    fn fields_are_those_that_tshark_decodes() {
        let ppdu = |format, width, guard, streams, mcs| PpduRecord {
            mode: Mode::new(format, (width, guard), (streams, mcs)).unwrap(),
            tid: 0,
            packets: 1,
            number: 0,
            place: None,
        };
        let written = |ppdu: PpduRecord| {
            let mut bytes = Vec::new();
            write(&ppdu, &Habits::usual(Band::Five), &mut bytes, 0);
            bytes
        };
        assert_eq!(written(ppdu(Format::Ht, 40, 400, 1, 7)), [0x1f, 5, 7]);
        assert_eq!(written(ppdu(Format::Vht, 80, 400, 2, 9)), [0x44, 0, 4, 4, 0x92, 0, 0, 0, 0, 0, 0, 0]);
        let he = [0xa0, 0x40, 6, 0, 0, 0x2b, 0, 0, 0x82, 0, 2, 0];
        assert_eq!(written(ppdu(Format::He, 80, 800, 2, 11)), he);
    }
}
