//! Where IP lies in a frame of a capture: behind Ethernet, tags, labels, PPP and the headers of 802.11, and within
//! tunnels. [`super::read`] calls it for every frame.
//!
//! Of a tunnel (GTP-U, VXLAN, GRE, IP in IP) the packet inside counts: it is that of the connection.

use std::collections::BTreeMap;

/// Headers within headers of a frame. No real one has more, and a false one must end.
const DEEPEST: u32 = 8;
/// A repeat of 802.11 comes within this time of the frame; 4,096 numbers are used again later.
const REPEATED_NS: u64 = 500_000_000;
/// Frames that are remembered for their repeats.
const MOST_HEARD: usize = 65_536;

const ETHERNET: u32 = 1;
const WLAN: u32 = 105;
const RADIOTAP: u32 = 127;
const PPI: u32 = 192;

/// What the frames of a capture hold that was not packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Frames of 802.11 that are repeats of one that was captured.
    pub repeats: u64,
    /// Frames of 802.11 that are encrypted.
    pub encrypted: u64,
    /// A link type that is not read, if there is one.
    pub unread: Option<u32>,
}

/// Opens frames; it remembers those of 802.11 that may be repeated.
#[derive(Default)]
pub(super) struct Frames {
    pub(super) passed: Passed,
    /// Addresses, traffic identifier and number of a frame, and when it was captured.
    heard: BTreeMap<([u8; 12], u8, u16), u64>,
    /// Begin and end of the IP packets of the last frame.
    found: Vec<(usize, usize)>,
}

impl Frames {
    /// Begin and end of each IP packet in a frame of an interface of the type `link`, which was captured at `at_ns`.
    pub(super) fn open(&mut self, link: u32, at_ns: u64, data: &[u8]) -> &[(usize, usize)] {
        self.found.clear();
        let head = match link {
            RADIOTAP => radiotap(data).map(|(at, padded)| (WLAN, at, padded)),
            PPI => per_packet(data).map(|(link, at)| (link, at, false)),
            _ => Some((link, 0, false)),
        };
        match head {
            Some((WLAN, at, padded)) => drop(self.wlan(data, at, at_ns, padded)),
            Some((link, at, _)) if is_read(link) => {
                self.found.extend(Frame(data).link(link, at).map(|start| (start, data.len())));
            }
            Some((link, ..)) => self.passed.unread = Some(link),
            None => {}
        }
        &self.found
    }

    /// A data frame of 802.11 (IEEE 802.11-2020, 9.3.2), whose header ends at a multiple of four if it is `padded`.
    fn wlan(&mut self, data: &[u8], at: usize, at_ns: u64, padded: bool) -> Option<()> {
        let frame = Frame(data);
        let (kind, flags) = (frame.byte(at)?, frame.byte(at + 1)?);
        // A subtype with the bit 4 has no payload.
        if kind & 0x4f != 0x08 {
            return None;
        }
        let (has_four, has_qos) = (flags & 3 == 3, kind & 0x80 != 0);
        let mut end = at + if has_four { 30 } else { 24 };
        let qos = if has_qos { frame.byte(end)? } else { 16 };
        end += if has_qos { 2 } else { 0 };
        end += if has_qos && flags & 0x80 != 0 { 4 } else { 0 };
        end += if padded { (4 - (end - at) % 4) % 4 } else { 0 };
        let number = u16::from_le_bytes([frame.byte(at + 22)?, frame.byte(at + 23)?]);
        let mut ends = [0; 12];
        ends.copy_from_slice(data.get(at + 4..at + 16)?);
        if self.is_repeat((ends, qos & 0x1f, number), at_ns, flags & 8 != 0) {
            self.passed.repeats += 1;
            return None;
        }
        // A frame that the card has decrypted keeps its bit.
        if flags & 0x40 != 0 && !frame.is_snap(end) {
            self.passed.encrypted += 1;
            return None;
        }
        // Later fragments have no header of IP.
        if number & 0xf != 0 {
            return None;
        }
        if !has_qos || qos & 0x80 == 0 {
            self.found.push((frame.snap(end)?, data.len()));
            return Some(());
        }
        // An A-MSDU: addresses and a length before each, and up to three bytes behind it.
        while let Some(length) = frame.word(end + 12) {
            let next = end + 14 + usize::from(length);
            if let Some(start) = frame.snap(end + 14) {
                self.found.push((start, next.min(data.len())));
            }
            end += (next - end).next_multiple_of(4);
        }
        Some(())
    }

    /// Whether a frame was captured before, and is now sent once more.
    fn is_repeat(&mut self, key: ([u8; 12], u8, u16), at_ns: u64, is_retry: bool) -> bool {
        if self.heard.len() == MOST_HEARD {
            self.heard.clear();
        }
        let before = self.heard.insert(key, at_ns);
        is_retry && before.is_some_and(|before| at_ns.abs_diff(before) < REPEATED_NS)
    }
}

/// Whether frames of the type `link` are read, beside those of 802.11.
fn is_read(link: u32) -> bool {
    matches!(link, 0 | ETHERNET | 9 | 12 | 14 | 50 | 51 | 101 | 104 | 108 | 113 | 204 | 228 | 229 | 276)
}

/// Where the frame begins behind a radiotap header, and whether its header is padded; `None` if it arrived damaged.
fn radiotap(data: &[u8]) -> Option<(usize, bool)> {
    let length = usize::from(u16::from_le_bytes([*data.get(2)?, *data.get(3)?]));
    // A word of bits says which fields there are; the highest, that there is another word.
    let mut at = 8;
    while data.get(at - 1)? & 0x80 != 0 {
        at += 4;
    }
    let (has_time, has_flags) = (data[4] & 1 != 0, data[4] & 2 != 0);
    let place = if has_time { at.next_multiple_of(8) + 8 } else { at };
    let flags = if has_flags { *data.get(place)? } else { 0 };
    (flags & 0x40 == 0).then_some((length, flags & 0x20 != 0))
}

/// The type of a frame behind a per-packet information header, and where it begins.
fn per_packet(data: &[u8]) -> Option<(u32, usize)> {
    let length = u16::from_le_bytes([*data.get(2)?, *data.get(3)?]);
    let link = u32::from_le_bytes(data.get(4..8)?.try_into().ok()?);
    (link != PPI && link != RADIOTAP).then_some((link, usize::from(length)))
}

/// The bytes of a frame. Each function returns where IP begins behind what it reads, if it does.
#[derive(Clone, Copy)]
struct Frame<'d>(&'d [u8]);

impl Frame<'_> {
    fn byte(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn word(self, at: usize) -> Option<u16> {
        Some(u16::from_be_bytes([self.byte(at)?, self.byte(at + 1)?]))
    }

    fn link(self, link: u32, at: usize) -> Option<usize> {
        match link {
            ETHERNET => self.ethernet(at, 0),
            204 => self.ppp(at + 1, 0),
            // Either PPP or Cisco's HDLC.
            50 | 104 if matches!(self.byte(at)?, 0x0f | 0x8f) => self.network(self.word(at + 2)?, at + 4, 0),
            9 | 50 | 104 => self.ppp(at, 0),
            51 => self.ppp(at + 6, 0),
            // Linux cooked, versions 1 and 2.
            113 => self.network(self.word(at + 14)?, at + 16, 0),
            276 => self.network(self.word(at)?, at + 20, 0),
            // Loopback: a family of addresses in four bytes.
            0 | 108 => self.ip(at + 4, 0),
            // Raw IP, under all its numbers.
            _ => self.ip(at, 0),
        }
    }

    fn ethernet(self, at: usize, depth: u32) -> Option<usize> {
        match self.word(at + 12)? {
            // A length: LLC follows.
            0..=1_500 => self.snap(at + 14),
            kind => self.network(kind, at + 14, depth),
        }
    }

    fn is_snap(self, at: usize) -> bool {
        self.0.get(at..at + 3) == Some(&[0xaa, 0xaa, 3])
    }

    fn snap(self, at: usize) -> Option<usize> {
        self.is_snap(at).then_some(())?;
        self.network(self.word(at + 6)?, at + 8, 0)
    }

    /// What an Ethernet frame of this type holds.
    fn network(self, kind: u16, at: usize, depth: u32) -> Option<usize> {
        if depth == DEEPEST {
            return None;
        }
        match kind {
            0x0800 | 0x86dd => self.ip(at, depth),
            // Tags of VLANs (802.1Q, 802.1ad).
            0x8100 | 0x88a8 | 0x9100 => self.network(self.word(at + 2)?, at + 4, depth + 1),
            // A session of PPPoE.
            0x8864 => self.ppp(at + 6, depth),
            0x8847 | 0x8848 => self.labelled(at, depth),
            _ => None,
        }
    }

    fn ppp(self, at: usize, depth: u32) -> Option<usize> {
        let at = if self.word(at)? == 0xff03 { at + 2 } else { at };
        // The first byte of a number may be left out; the last one is odd (RFC 1661).
        let is_short = self.byte(at)? & 1 != 0;
        let kind = if is_short { u16::from(self.byte(at)?) } else { self.word(at)? };
        let at = at + if is_short { 1 } else { 2 };
        match kind {
            0x0021 | 0x0057 => self.ip(at, depth),
            0x0281 | 0x0283 => self.labelled(at, depth),
            _ => None,
        }
    }

    /// Behind the labels of MPLS: IP, or Ethernet with or without a control word.
    fn labelled(self, mut at: usize, depth: u32) -> Option<usize> {
        while self.byte(at + 2)? & 1 == 0 {
            at += 4;
        }
        at += 4;
        let ethernet = |at: usize| self.ethernet(at, depth + 1);
        self.ip(at, depth).or_else(|| ethernet(at + 4)).or_else(|| ethernet(at))
    }

    /// IP at this place, or the packet that is in a tunnel within it.
    fn ip(self, at: usize, depth: u32) -> Option<usize> {
        let version = self.byte(at)? >> 4;
        if depth == DEEPEST || !matches!(version, 4 | 6) {
            return None;
        }
        Some(self.tunnel(at, version, depth + 1).unwrap_or(at))
    }

    fn tunnel(self, at: usize, version: u8, depth: u32) -> Option<usize> {
        let (protocol, next) = match version {
            4 if self.word(at + 6)? & 0x1fff != 0 => return None,
            4 => (self.byte(at + 9)?, at + usize::from(self.byte(at)? & 0xf) * 4),
            _ => (self.byte(at + 6)?, at + 40),
        };
        match (protocol, self.word(next + 2)?) {
            (4 | 41, _) => self.ip(next, depth),
            (47, kind) => self.gre(kind, next, depth),
            (17, 2_152) => self.gtp(next + 8, depth),
            // VXLAN says that it has a number (RFC 7348).
            (17, 4_789) if self.byte(next + 8)? == 8 => self.ethernet(next + 16, depth),
            _ => None,
        }
    }

    /// GRE (RFC 2784, RFC 2890), version 0.
    fn gre(self, kind: u16, at: usize, depth: u32) -> Option<usize> {
        let flags = self.word(at)?;
        if flags & 7 != 0 {
            return None;
        }
        let fields = [0x8000, 0x2000, 0x1000].iter().filter(|bit| flags & **bit != 0).count();
        let next = at + 4 + 4 * fields;
        if kind == 0x6558 { self.ethernet(next, depth) } else { self.network(kind, next, depth) }
    }

    /// A user's packet in GTP-U (3GPP TS 29.281, 5.1 and 5.2).
    fn gtp(self, at: usize, depth: u32) -> Option<usize> {
        let flags = self.byte(at)?;
        if flags & 0xf0 != 0x30 || self.byte(at + 1)? != 255 {
            return None;
        }
        let mut next = at + 8 + if flags.trailing_zeros() < 3 { 4 } else { 0 };
        let mut extension = if flags & 4 == 0 { 0 } else { self.byte(next - 1)? };
        while extension != 0 {
            // Its length in fours; one of none would have no end.
            next += 4 * usize::from(self.byte(next).filter(|length| *length > 0)?);
            extension = self.byte(next - 1)?;
        }
        self.ip(next, depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first bytes of IPv4 with 20 bytes in all, of the protocol `kind`, before what it holds.
    fn ip(kind: u8, inside: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 20, 0, 1, 0, 0, 64, kind, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend(inside);
        bytes
    }

    /// Where IP begins in a frame that is a header and a packet of TCP.
    fn behind(link: u32, head: &[u8]) -> Option<usize> {
        let data = [head, &ip(6, &[0; 20])].concat();
        Frames::default().open(link, 0, &data).first().map(|found| found.0)
    }

    /// Header by header; each is followed by IP, which is where the header ends.
    #[test]
    fn headers_of_links_and_tunnels() {
        let mac = [0; 12];
        let udp = |port: u16, rest: &[u8]| [&[0, 9], &port.to_be_bytes()[..], &[0; 4], rest].concat();
        let ethernet = |rest: &[u8]| [&mac[..], rest].concat();
        for (link, head) in [
            (1, ethernet(&[0x08, 0])),
            (1, ethernet(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x08, 0])),
            (1, ethernet(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0, 0x21])),
            (1, ethernet(&[0x81, 0, 0, 7, 0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0x21])),
            (1, ethernet(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64])),
            (1, ethernet(&[[0x88, 0x47, 0, 2, 1, 64, 0, 0, 0, 0].as_slice(), &mac, &[0x08, 0]].concat())),
            (1, ethernet(&[0, 28, 0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0])),
            (9, vec![0xff, 3, 0, 0x21]),
            (50, vec![0xff, 3, 0, 0x21]),
            (51, vec![0x11, 0, 0, 1, 0, 42, 0, 0x21]),
            (104, vec![0x0f, 0, 0x08, 0]),
            (204, vec![1, 0xff, 3, 0, 0x21]),
            (101, ip(17, &udp(2_152, &[0x30, 255, 0, 40, 0, 0, 0, 1]))),
            (101, ip(17, &udp(2_152, &[0x34, 255, 0, 48, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0]))),
            (101, ip(17, &udp(4_789, &[&[8, 0, 0, 0, 0, 0, 7, 0], &mac[..], &[8, 0]].concat()))),
            (101, ip(47, &[0x20, 0, 8, 0, 0, 0, 0, 7])),
            (101, ip(4, &[])),
            (192, [&[0, 0, 8, 0, 1, 0, 0, 0], &mac[..], &[8, 0]].concat()),
        ] {
            assert_eq!(behind(link, &head), Some(head.len()), "{link} {head:x?}");
        }
        // What looks like a tunnel and is none stays what it is: a datagram to that port, an echo request of GTP.
        assert_eq!(behind(101, &ip(17, &udp(2_152, &[7; 8]))), Some(0));
        assert_eq!(behind(101, &ip(17, &udp(2_152, &[0x32, 1, 0, 4, 0, 0, 0, 0]))), Some(0));
        // Tags without end.
        assert_eq!(behind(1, &ethernet(&[0x81, 0, 0, 7].repeat(400))), None);
    }

    /// A frame of 802.11 to the access point with this kind, these flags and this number.
    fn wlan(kind: u8, flags: u8, number: u16, rest: &[u8]) -> Vec<u8> {
        let mut head = vec![kind, flags | 1, 0, 0];
        head.extend([3; 18]);
        head.extend((number << 4).to_le_bytes());
        head.extend(rest);
        head
    }

    const SNAP: [u8; 8] = [0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0];

    #[test]
    fn frames_of_802_11() {
        let plain = wlan(0x08, 0, 1, &SNAP);
        assert_eq!(behind(105, &plain), Some(32));
        assert_eq!(behind(105, &wlan(0x88, 0, 1, &[&[0, 0], &SNAP[..]].concat())), Some(34));
        // With four addresses, and with a control field of HT.
        assert_eq!(behind(105, &wlan(0x08, 3, 1, &[&[0; 6], &SNAP[..]].concat())), Some(38));
        assert_eq!(behind(105, &wlan(0x88, 0x80, 1, &[&[0; 6], &SNAP[..]].concat())), Some(38));
        // No data; a beacon; a later fragment.
        assert_eq!(behind(105, &wlan(0x48, 0, 1, &SNAP)), None);
        assert_eq!(behind(105, &wlan(0x80, 0, 1, &SNAP)), None);
        let mut fragment = plain.clone();
        fragment[22] |= 1;
        assert_eq!(behind(105, &fragment), None);
        // Behind radiotap with a time, then flags: none; a padded header; a damaged frame.
        for (flags, pad, expected) in [(0x10, 0, Some(58)), (0x20, 2, Some(60)), (0x40, 0, None)] {
            let head = [0, 0, 24, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, flags, 0, 0, 0, 0, 0, 0, 0];
            let qos = wlan(0x88, 0, 1, &[&[0; 2], &[0; 2][..pad], &SNAP[..]].concat());
            assert_eq!(behind(127, &[&head[..], &qos].concat()), expected, "{flags:x}");
        }
    }

    /// Both packets of an A-MSDU, of which the second is cut off; repeats and encrypted frames are counted.
    #[test]
    fn frames_with_several_packets_and_none() {
        let part = |length: u8| [&[1; 12][..], &[0, length], &SNAP, &ip(6, &[0; 21])].concat();
        let data = [wlan(0x88, 0, 1, &[0x80, 0]), part(49), vec![0; 1], part(99)].concat();
        let mut frames = Frames::default();
        assert_eq!(frames.open(105, 0, &data), [(48, 89), (112, 153)]);
        let frame = |flags: u8, rest: &[u8]| [wlan(0x08, flags, 9, rest), ip(6, &[0; 20])].concat();
        assert_eq!(frames.open(105, 1_000, &frame(8, &SNAP)).len(), 1, "the first was not captured");
        assert_eq!(frames.open(105, 2_000, &frame(8, &SNAP)).len(), 0);
        assert_eq!(frames.open(105, 900_000_000, &frame(0, &SNAP)).len(), 1, "the number is used again");
        assert_eq!(frames.open(105, 3_000_000_000, &frame(0x40, &[1; 8])).len(), 0);
        assert_eq!(frames.open(105, 5_000_000_000, &frame(0x40, &SNAP)).len(), 1, "decrypted by the card");
        assert_eq!(frames.open(147, 0, &[0; 90]).len(), 0);
        assert_eq!(frames.passed, Passed { repeats: 1, encrypted: 1, unread: Some(147) });
    }
}
