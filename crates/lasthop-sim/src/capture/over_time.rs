//! One way of a connection of a capture over time, as the page draws it: segments and what was acknowledged, blocks of
//! selective acknowledgement, the window, and round trips.
//!
//! Round trips are those that the estimate is made of. Places in the stream are counted from its first byte; datagrams
//! have none, and stand at the bytes that were sent before them.

use super::estimate::loaded;
use super::follow::{Numbers, follow};
use super::read::{Capture, Packet, Tcp};

/// Payload: when, its first byte and the one behind its last, and whether later bytes had been seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    at_ns: u64,
    begin: u64,
    end: u64,
    again: bool,
}

/// An acknowledgement: when, the next byte expected, and the end of the window, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ack {
    at_ns: u64,
    next: u64,
    limit: Option<u64>,
}

/// A column of a table: its name and its values, a row each.
pub type Column = (&'static str, Vec<f64>);

/// One way of a connection over time; times count from the first packet of the capture.
#[derive(Clone, Debug, Default)]
pub struct Way {
    origin_ns: u64,
    segments: Vec<Segment>,
    acks: Vec<Ack>,
    /// When, and the block.
    sacks: Vec<(u64, u64, u64)>,
    /// When it ended, and how long it was.
    trips: Vec<(u64, u64)>,
}

impl Way {
    /// The payload that the connection number `flow` carried the way of its first packet, or against it.
    pub fn of(capture: &Capture, flow: u32, forward: bool) -> Way {
        let origin_ns = capture.packets.first().map_or(0, |packet| packet.at_ns);
        let mut way = Way { origin_ns, ..Way::default() };
        let packets = || capture.packets.iter().filter(|packet| packet.flow == flow);
        if capture.flows.get(flow as usize).is_none_or(|ends| !ends.tcp) {
            way.take_datagrams(packets().filter(|packet| packet.forward == forward));
            return way;
        }
        way.take_segments(packets(), forward);
        // The other side of the place of capture is a part of the path too.
        let (samples, other) = loaded(&[follow(packets(), forward)]);
        way.trips = samples.iter().map(|one| (one.at_ns, one.rtt_ns + other)).collect();
        way
    }

    fn take_datagrams<'p>(&mut self, packets: impl Iterator<Item = &'p Packet>) {
        let mut begin = 0;
        for packet in packets {
            let end = begin + u64::from(packet.payload);
            self.segments.push(Segment { at_ns: packet.at_ns, begin, end, again: false });
            begin = end;
        }
    }

    fn take_segments<'p>(&mut self, packets: impl Iterator<Item = &'p Packet>, forward: bool) {
        let mut numbers = Numbers::default();
        let (mut highest, mut acked) = (0, 0);
        // The shift of the receiver, and whether both ends want one (RFC 7323).
        let mut shifts: [Option<Option<u8>>; 2] = [None; 2];
        for packet in packets {
            let Some(tcp) = packet.tcp else { continue };
            let is_data = packet.forward == forward;
            if tcp.syn {
                shifts[usize::from(!is_data)] = Some(tcp.scale);
                if is_data {
                    numbers.begin(tcp.seq.wrapping_add(1));
                }
            } else if is_data && packet.payload > 0 {
                let begin = numbers.offset(tcp.seq, highest);
                let end = begin + u64::from(packet.payload);
                self.segments.push(Segment { at_ns: packet.at_ns, begin, end, again: begin < highest });
                highest = highest.max(end);
            } else if !is_data && tcp.has_ack {
                let shift = match shifts {
                    [Some(own), Some(other)] => Some(own.and(other).unwrap_or(0)),
                    _ => None,
                };
                acked = self.take_ack((packet.at_ns, tcp), shift, &mut numbers, acked);
            }
        }
    }

    /// Returns the highest acknowledgement.
    fn take_ack(
        &mut self,
        (at_ns, tcp): (u64, Tcp),
        shift: Option<u8>,
        numbers: &mut Numbers,
        acked: u64,
    ) -> u64 {
        // The SYN has a number too.
        let ack = numbers.offset(tcp.ack, acked.max(1)).max(acked);
        if let Some((begin, end)) = tcp.sacked {
            let (begin, end) = (numbers.offset(begin, ack), numbers.offset(end, ack));
            if end > begin {
                self.sacks.push((at_ns, begin, end));
            }
        }
        let limit = shift.map(|shift| ack + (u64::from(tcp.window) << shift.min(14)));
        if self.acks.last().is_none_or(|last| (last.next, last.limit) != (ack, limit)) {
            self.acks.push(Ack { at_ns, next: ack, limit });
        }
        ack
    }

    /// The tables of the way with their columns; times in seconds, NaN where there is nothing.
    pub fn tables(&self) -> [(&'static str, Vec<Column>); 4] {
        let seconds = |at_ns: u64| (at_ns - self.origin_ns) as f64 / 1e9;
        let segments = vec![
            column("time_s", &self.segments, |one| seconds(one.at_ns)),
            column("begin", &self.segments, |one| one.begin as f64),
            column("end", &self.segments, |one| one.end as f64),
            column("again", &self.segments, |one| f64::from(u8::from(one.again))),
        ];
        let acks = vec![
            column("time_s", &self.acks, |one| seconds(one.at_ns)),
            column("ack", &self.acks, |one| one.next as f64),
            column("limit", &self.acks, |one| one.limit.map_or(f64::NAN, |limit| limit as f64)),
        ];
        let sacks = vec![
            column("time_s", &self.sacks, |one| seconds(one.0)),
            column("begin", &self.sacks, |one| one.1 as f64),
            column("end", &self.sacks, |one| one.2 as f64),
        ];
        let trips = vec![
            column("time_s", &self.trips, |one| seconds(one.0)),
            column("rtt_s", &self.trips, |one| one.1 as f64 / 1e9),
        ];
        [("segments", segments), ("acks", acks), ("sacks", sacks), ("trips", trips)]
    }
}

fn column<T>(name: &'static str, rows: &[T], of: impl Fn(&T) -> f64) -> Column {
    (name, rows.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::super::follow::tests::{SEGMENT, packet};
    use super::super::read::Ends;
    use super::*;

    fn tcp(seq: u32, ack: u32) -> Tcp {
        Tcp { seq, ack, window: 100, ..SEGMENT }
    }

    /// Numbers that wrap: a handshake, four segments of which the second is lost behind the place of capture, the
    /// acknowledgement of the first, a SACK of the third, the retransmission, and the ACK of all. By hand.
    fn capture() -> Capture {
        let first = u32::MAX - 999;
        let at = |offset: u32| first.wrapping_add(1).wrapping_add(offset);
        let syn = |scale, seq, has_ack| Tcp { syn: true, has_ack, scale: Some(scale), ..tcp(seq, 0) };
        let sacked = Tcp { sacked: Some((at(2000), at(3000))), ..tcp(8, at(1000)) };
        let packets = vec![
            packet(10, true, 0, syn(2, first, false)),
            packet(60, false, 0, syn(3, 7, true)),
            packet(60, true, 1000, tcp(at(0), 8)),
            packet(61, true, 1000, tcp(at(1000), 8)),
            packet(62, true, 1000, tcp(at(2000), 8)),
            packet(110, false, 0, tcp(8, at(1000))),
            packet(112, false, 0, sacked),
            packet(113, true, 1000, tcp(at(1000), 8)),
            packet(163, false, 0, tcp(8, at(3000))),
        ];
        let ends = |port| (std::net::IpAddr::from([10, 0, 0, 1]), port);
        Capture { packets, flows: vec![Ends { from: ends(1), to: ends(2), tcp: true }], ..Capture::default() }
    }

    fn values(way: &Way, table: &str, column: &str) -> Vec<f64> {
        let tables = way.tables();
        let (_, columns) = tables.iter().find(|(name, _)| *name == table).unwrap();
        columns.iter().find(|(name, _)| *name == column).unwrap().1.clone()
    }

    #[test]
    fn segments_and_acknowledgements() {
        let way = Way::of(&capture(), 0, true);
        assert_eq!(values(&way, "segments", "time_s"), [0.05, 0.051, 0.052, 0.103]);
        assert_eq!(values(&way, "segments", "begin"), [0.0, 1000.0, 2000.0, 1000.0]);
        assert_eq!(values(&way, "segments", "again"), [0.0, 0.0, 0.0, 1.0]);
        assert_eq!(values(&way, "acks", "ack"), [1000.0, 3000.0]);
        // 100 in units of 2^3 bytes, as the receiver's SYN has it.
        assert_eq!(values(&way, "acks", "limit"), [1800.0, 3800.0]);
        assert_eq!(
            (values(&way, "sacks", "begin"), values(&way, "sacks", "end")),
            (vec![2000.0], vec![3000.0])
        );
        // The handshake to the receiver and the first segment; what was repeated tells none (Karn). The SYN-ACK was
        // answered at once, so the sender is here.
        assert_eq!(values(&way, "trips", "rtt_s"), [0.05, 0.05]);
    }

    /// The other way carries nothing, and datagrams stand one behind the other.
    #[test]
    fn what_has_no_numbers() {
        let mut capture = capture();
        assert_eq!(values(&Way::of(&capture, 0, false), "segments", "begin"), [0.0; 0]);
        capture.flows[0].tcp = false;
        let way = Way::of(&capture, 0, true);
        assert_eq!(values(&way, "segments", "end"), [0.0, 1000.0, 2000.0, 3000.0, 4000.0]);
        assert_eq!(values(&way, "acks", "ack"), [0.0; 0]);
    }
}
