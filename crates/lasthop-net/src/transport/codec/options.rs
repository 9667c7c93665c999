//! The options of a TCP header, to bytes and back.
//!
//! **Experimental options** (RFC 6994, kind 253) carry what our receivers and senders tell each other beyond the
//! standard. Their identifiers are not registered:
//!
//! | identifier | length | content |
//! | --- | --- | --- |
//! | `LW` | 8 | data: number and size of the wave (TCP-Real) |
//! | `LT` | 12 | ACK: when the segment was sent and received, in microseconds |
//! | `LD` | 8 | ACK: frames that the receiver's MAC has discarded |
//! | `LR` | 12 | ACK: wave, segments of it that arrived, bytes per second (0: unknown) |
//! | `LP` | 5 | probe (0) or its answer (1) (TCP Probing) |

use super::super::extra::ByteCounts;
use super::{Blocks, MAX_BLOCKS, MAX_OPTIONS, Measured, Options, ParseError, Probe, Report, WriteError};

/// Kinds of options.
pub(super) mod kind {
    pub(in super::super) const END: u8 = 0;
    pub(in super::super) const NO_OPERATION: u8 = 1;
    pub(in super::super) const MSS: u8 = 2;
    pub(in super::super) const WINDOW_SCALE: u8 = 3;
    pub(in super::super) const SACK_PERMITTED: u8 = 4;
    pub(in super::super) const SACK: u8 = 5;
    pub(in super::super) const TIMESTAMPS: u8 = 8;
    /// Accurate ECN, ECT(0) or ECT(1) first.
    pub(in super::super) const BYTES_ECT0: u8 = 172;
    pub(in super::super) const BYTES_ECT1: u8 = 174;
    pub(in super::super) const EXPERIMENT: u8 = 253;
}

/// Identifiers of our experimental options.
mod experiment {
    pub(super) const WAVE: [u8; 2] = *b"LW";
    pub(super) const TIMES: [u8; 2] = *b"LT";
    pub(super) const DISCARDS: [u8; 2] = *b"LD";
    pub(super) const REPORT: [u8; 2] = *b"LR";
    pub(super) const PROBE: [u8; 2] = *b"LP";
}

/// Reads the options of a TCP header. Kinds that are not ours are passed over.
pub(super) fn parse(bytes: &[u8]) -> Result<Options, ParseError> {
    let mut options = Options { length: bytes.len() as u8, ..Options::default() };
    let mut rest = bytes;
    while let Some(&kind) = rest.first() {
        match kind {
            kind::END => break,
            kind::NO_OPERATION => {
                rest = &rest[1..];
                continue;
            }
            _ => {}
        }
        let length = rest.get(1).copied().unwrap_or_default();
        let wrong = ParseError::Option { kind, length };
        let content = rest.get(2..usize::from(length)).ok_or(wrong)?;
        take_option(&mut options, kind, content).ok_or(wrong)?;
        rest = &rest[usize::from(length)..];
    }
    Ok(options)
}

/// Notes what an option says; `None` if its content does not have the size that it must have.
fn take_option(options: &mut Options, kind: u8, content: &[u8]) -> Option<()> {
    match kind {
        kind::MSS => options.mss = Some(u16::from_be_bytes(content.try_into().ok()?)),
        kind::WINDOW_SCALE => options.window_scale = Some(u8::from_be_bytes(content.try_into().ok()?)),
        kind::SACK_PERMITTED if content.is_empty() => options.sack_permitted = true,
        kind::SACK_PERMITTED => return None,
        kind::SACK => {
            if content.is_empty() || content.len() > 8 * MAX_BLOCKS {
                return None;
            }
            options.sack = Blocks::default();
            for block in content.chunks(8) {
                options.sack.push(two_words(block)?);
            }
        }
        kind::TIMESTAMPS => options.timestamps = Some(two_words(content)?),
        kind::BYTES_ECT0 | kind::BYTES_ECT1 => {
            // Of another length it is read as far as whole fields go (RFC 9768 section 3.2.3).
            let mut counts = ByteCounts { ect1_first: kind == kind::BYTES_ECT1, present: 0, fields: [0; 3] };
            for (slot, field) in counts.fields.iter_mut().zip(content.chunks_exact(3)) {
                *slot = field.iter().fold(0, |value, &byte| value << 8 | u32::from(byte));
                counts.present += 1;
            }
            options.measured.byte_counts = Some(counts);
        }
        kind::EXPERIMENT => {
            // Without room for an identifier it belongs to another experiment (RFC 6994 section 3).
            let Some((&identifier, content)) = content.split_first_chunk::<2>() else { return Some(()) };
            take_experiment(&mut options.measured, identifier, content)?;
        }
        _ => {}
    }
    Some(())
}

fn take_experiment(measured: &mut Measured, identifier: [u8; 2], content: &[u8]) -> Option<()> {
    match identifier {
        experiment::WAVE => {
            let [a, b, c, d] = content.try_into().ok()?;
            measured.wave = Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
        }
        experiment::TIMES => measured.times = Some(two_words(content)?),
        experiment::DISCARDS => measured.discards = Some(u32::from_be_bytes(content.try_into().ok()?)),
        experiment::REPORT => {
            let (first, rate) = two_words(content)?;
            measured.report = Some(Report { wave: (first >> 16) as u16, segments: first as u16, rate });
        }
        experiment::PROBE => {
            measured.probe = Some(match content {
                [0] => Probe::Request,
                [1] => Probe::Answer,
                _ => return None,
            });
        }
        _ => {}
    }
    Some(())
}

fn two_words(bytes: &[u8]) -> Option<(u32, u32)> {
    let (first, second) = bytes.split_at_checked(4)?;
    Some((u32::from_be_bytes(first.try_into().ok()?), u32::from_be_bytes(second.try_into().ok()?)))
}

impl Options {
    /// SACK blocks for which there is room beside the other options.
    pub fn block_room(&self) -> usize {
        let others = Options { sack: Blocks::default(), length: 0, ..*self };
        let taken = OptionWriter::of(&others).map_or(MAX_OPTIONS, |writer| writer.length);
        // Kind and length of the option, and two bytes of padding.
        MAX_OPTIONS.saturating_sub(taken + 4) / 8
    }
}

/// Collects the options of a header.
pub(super) struct OptionWriter {
    bytes: [u8; MAX_OPTIONS],
    pub(super) length: usize,
}

impl OptionWriter {
    /// The options in the order of Linux, aligned to 4 bytes. All of them together would not fit.
    pub(super) fn of(options: &Options) -> Result<OptionWriter, WriteError> {
        let mut writer = OptionWriter { bytes: [0; MAX_OPTIONS], length: 0 };
        if let Some(mss) = options.mss {
            writer.put(kind::MSS, &[], &[&mss.to_be_bytes()]);
        }
        // Beside timestamps the two bytes take the place of the padding.
        if options.sack_permitted {
            if options.timestamps.is_none() {
                writer.align(2);
            }
            writer.put(kind::SACK_PERMITTED, &[], &[]);
        }
        if let Some((value, echo)) = options.timestamps {
            if !options.sack_permitted {
                writer.align(2);
            }
            writer.put(kind::TIMESTAMPS, &[], &[&value.to_be_bytes(), &echo.to_be_bytes()]);
        }
        if let Some(shift) = options.window_scale {
            writer.align(1);
            writer.put(kind::WINDOW_SCALE, &[], &[&[shift]]);
        }
        writer.put_blocks(options.sack.as_slice());
        writer.put_measured(&options.measured);
        let length = writer.length.next_multiple_of(4).max(usize::from(options.length).next_multiple_of(4));
        if length > MAX_OPTIONS {
            return Err(WriteError::Options(length));
        }
        writer.length = length;
        Ok(writer)
    }

    fn put_blocks(&mut self, blocks: &[(u32, u32)]) {
        if blocks.is_empty() {
            return;
        }
        self.align(2);
        self.byte(kind::SACK);
        self.byte(2 + 8 * blocks.len() as u8);
        for &(start, end) in blocks {
            start.to_be_bytes().into_iter().chain(end.to_be_bytes()).for_each(|byte| self.byte(byte));
        }
    }

    fn put_measured(&mut self, measured: &Measured) {
        if let Some((number, size)) = measured.wave {
            self.put(kind::EXPERIMENT, &experiment::WAVE, &[&number.to_be_bytes(), &size.to_be_bytes()]);
        }
        if let Some((sent, received)) = measured.times {
            self.put(kind::EXPERIMENT, &experiment::TIMES, &[&sent.to_be_bytes(), &received.to_be_bytes()]);
        }
        if let Some(count) = measured.discards {
            self.put(kind::EXPERIMENT, &experiment::DISCARDS, &[&count.to_be_bytes()]);
        }
        if let Some(Report { wave, segments, rate }) = measured.report {
            let content: [&[u8]; 3] = [&wave.to_be_bytes(), &segments.to_be_bytes(), &rate.to_be_bytes()];
            self.put(kind::EXPERIMENT, &experiment::REPORT, &content);
        }
        if let Some(counts) = measured.byte_counts {
            let kind = if counts.ect1_first { kind::BYTES_ECT1 } else { kind::BYTES_ECT0 };
            let [a, b, c] = counts.fields.map(u32::to_be_bytes);
            let fields = [&a[1..], &b[1..], &c[1..]];
            self.put(kind, &[], &fields[..usize::from(counts.present.min(3))]);
        }
        if let Some(probe) = measured.probe {
            self.put(kind::EXPERIMENT, &experiment::PROBE, &[&[u8::from(probe == Probe::Answer)]]);
        }
    }

    /// Adds a byte; what does not fit is counted and lost.
    fn byte(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.length) {
            *slot = byte;
        }
        self.length += 1;
    }

    fn align(&mut self, padding: usize) {
        (0..padding).for_each(|_| self.byte(kind::NO_OPERATION));
    }

    fn put(&mut self, kind: u8, identifier: &[u8], content: &[&[u8]]) {
        let length: usize = 2 + identifier.len() + content.iter().map(|part| part.len()).sum::<usize>();
        self.byte(kind);
        self.byte(length as u8);
        identifier.iter().chain(content.iter().copied().flatten()).for_each(|&byte| self.byte(byte));
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
