//! What a receiver measures and echoes for a sender that asked for it (`Needs` in `lasthop-cc`): receive times,
//! discarded frames, wave rates, bytes by ECN field. `receiver.rs` feeds it every segment and attaches the result to
//! every ACK.

use std::collections::VecDeque;

use lasthop_cc::{Needs, ReceiveTime, WaveReport};
use lasthop_core::packet::Packet;
use lasthop_core::time::{Span, Time};

use super::accurate::Bytes;
use super::config::TcpConfig;
use crate::transport::extra::{ByteCounts, Extra, Wave};

/// The measuring part of a receiver.
#[derive(Clone, Debug)]
pub(crate) struct ReceiverOptions {
    needs: Needs,
    times: Option<ReceiveTime>,
    /// Frames discarded by the MAC of this host, modulo 2^32.
    discards: u32,
    /// When the next ones will be: links tell ahead of the clock.
    noise: VecDeque<Time>,
    /// The wave that is arriving.
    arriving: Option<Arriving>,
    /// The newest wave that is complete.
    report: Option<WaveReport>,
    /// Bytes by ECN field, if they are counted, and how long the option of the next ACK is.
    bytes: Option<Bytes>,
    room: u16,
    /// A SYN-ACK has had the option: one that is sent again is without it (RFC 9768 section 3.2.3.2.2).
    opened: bool,
}

/// A wave of which something has arrived.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    wave: Wave,
    segments: u16,
    first: Time,
    last: Time,
    /// Payload behind the first segment.
    bytes: u64,
    /// It has been reported: what still arrives of it does not count.
    closed: bool,
}

impl Arriving {
    fn report(&self) -> WaveReport {
        let took = self.last.since(self.first);
        let rate = (took > Span::ZERO).then(|| self.bytes as f64 / took.seconds());
        WaveReport { id: self.wave.id, rate, segments: self.segments }
    }
}

impl ReceiverOptions {
    /// `None` if nothing is to be measured.
    pub(crate) fn new(config: &TcpConfig) -> Option<Box<ReceiverOptions>> {
        let needs = config.needs();
        let counts = config.asks_for_bytes();
        let any = needs.receive_times || needs.discards || needs.waves || counts;
        any.then(|| {
            Box::new(ReceiverOptions {
                needs,
                times: None,
                discards: 0,
                noise: VecDeque::new(),
                arriving: None,
                report: None,
                bytes: counts.then(Bytes::new),
                room: 0,
                opened: false,
            })
        })
    }

    /// A segment has arrived.
    pub(crate) fn on_segment(&mut self, packet: &Packet, extra: Option<&Extra>, now: Time) {
        // The handshake is shorter than data, and so would be its time on the way.
        if packet.payload == 0 {
            return;
        }
        if self.needs.receive_times {
            self.times = Some(ReceiveTime { sent: packet.stamp, received: now });
        }
        if let Some(wave) = extra.and_then(|extra| extra.wave) {
            self.on_wave(wave, packet.payload, now);
        }
    }

    /// A new segment of `wave` has arrived. A wave is complete when all of it is there, when a segment of a later one
    /// arrives, or when a round trip has passed since its first segment.
    fn on_wave(&mut self, wave: Wave, payload: u16, now: Time) {
        let mut present = match self.arriving {
            Some(present) if present.wave.id == wave.id => Arriving {
                segments: present.segments.saturating_add(1),
                last: now,
                bytes: present.bytes + u64::from(payload),
                ..present
            },
            Some(present) if wave.id.wrapping_sub(present.wave.id) > u16::MAX / 2 => return,
            before => {
                if let Some(before) = before.filter(|before| !before.closed) {
                    self.report = Some(before.report());
                }
                Arriving { wave, segments: 1, first: now, last: now, bytes: 0, closed: false }
            }
        };
        let is_late = wave.rtt > Span::ZERO && now.since(present.first) >= wave.rtt;
        if !present.closed && (present.segments >= wave.size || is_late) {
            present.closed = true;
            self.report = Some(present.report());
        }
        self.arriving = Some(present);
    }

    /// The MAC of this host discards a corrupt frame at `at`, which may lie ahead; calls come in the order of `at`.
    pub(crate) fn on_discard(&mut self, at: Time) {
        if self.needs.discards {
            self.noise.push_back(at);
        }
    }

    /// Counts the bytes of a packet on a connection that has agreed to it.
    pub(crate) fn count_bytes(&mut self, packet: &Packet) {
        if let Some(bytes) = &mut self.bytes {
            bytes.take(packet);
        }
    }

    /// The option that the next ACK is to have, that of a SYN-ACK if `opens`.
    pub(crate) fn counts_due(&self, opens: bool) -> Option<ByteCounts> {
        let bytes = self.bytes.as_ref()?;
        if opens { Some(bytes.whole()).filter(|_| !self.opened) } else { bytes.due() }
    }

    /// There is room for it: `room` bytes.
    pub(crate) fn tell(&mut self, room: u16) {
        (self.room, self.opened) = (room, true);
        if let Some(bytes) = &mut self.bytes {
            bytes.told();
        }
    }

    /// It was not sent after all.
    pub(crate) fn tell_again(&mut self) {
        (self.room, self.opened) = (0, false);
        if let Some(bytes) = &mut self.bytes {
            bytes.tell_again();
        }
    }

    /// What the ACK that is made is longer by.
    pub(crate) fn take_room(&mut self) -> u16 {
        std::mem::take(&mut self.room)
    }

    /// Puts the measurements up to `now` onto an ACK.
    pub(crate) fn fill(&mut self, extra: &mut Extra, now: Time) {
        while self.noise.front().is_some_and(|&at| at <= now) {
            self.noise.pop_front();
            self.discards = self.discards.wrapping_add(1);
        }
        extra.times = self.times;
        extra.discards = self.needs.discards.then_some(self.discards);
        extra.report = self.report;
    }
}

#[cfg(test)]
mod tests {
    use lasthop_core::packet::Kind;

    use super::*;
    use crate::transport::profile::Profile;

    fn options(preset: &str) -> ReceiverOptions {
        *ReceiverOptions::new(&TcpConfig::preset(preset, Profile::Rfc).unwrap()).unwrap()
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn data(sent_ms: u64) -> Packet {
        Packet { payload: 1000, stamp: at(sent_ms), kind: Kind::Data, ..Packet::default() }
    }

    fn filled(options: &mut ReceiverOptions) -> Extra {
        let mut extra = Extra::default();
        options.fill(&mut extra, Time::ZERO);
        extra
    }

    /// Segments of waves, as (wave, arrival in ms); waves have four segments and the RTT is 100 ms.
    fn reports(arrivals: &[(u16, u64)]) -> Vec<Option<(u16, u16, Option<f64>)>> {
        let mut options = options("tcp-real");
        let mut seen = Vec::new();
        for &(id, millis) in arrivals {
            let wave = Some(Wave { id, size: 4, rtt: Span::from_millis(100) });
            options.on_segment(&data(0), Some(&Extra { wave, ..Extra::default() }), at(millis));
            let report = filled(&mut options).report;
            seen.push(report.map(|report| (report.id, report.segments, report.rate)));
        }
        seen
    }

    #[test]
    fn a_wave_is_reported_when_it_is_complete() {
        // Three segments behind the first in 30 ms: 100 kB/s.
        let whole = Some((1, 4, Some(100_000.0)));
        assert_eq!(reports(&[(1, 10), (1, 20), (1, 30), (1, 40), (2, 50)]), [None, None, None, whole, whole]);
    }

    #[test]
    fn a_wave_with_a_loss_ends_with_the_next() {
        let rest = Some((1, 3, Some(100_000.0)));
        assert_eq!(reports(&[(1, 10), (1, 20), (1, 30), (2, 90), (1, 95)]), [None, None, None, rest, rest]);
    }

    #[test]
    fn a_slow_wave_ends_after_a_round_trip() {
        let late = Some((1, 3, Some(20_000.0)));
        assert_eq!(
            reports(&[(1, 10), (1, 60), (1, 110), (1, 160), (2, 170)]),
            [None, None, late, late, late]
        );
    }

    #[test]
    fn a_wave_of_one_or_all_at_once_has_no_rate() {
        assert_eq!(reports(&[(1, 10), (2, 20)])[1], Some((1, 1, None)));
        assert_eq!(reports(&[(1, 10), (1, 10), (1, 10), (1, 10)])[3], Some((1, 4, None)));
    }

    #[test]
    fn times_are_those_of_the_segment_that_called_for_the_ack() {
        let mut options = options("jtcp");
        options.on_segment(&Packet { kind: Kind::Syn, ..Packet::default() }, None, at(5));
        assert_eq!(filled(&mut options).times, None, "a SYN is no data");
        options.on_segment(&data(10), None, at(60));
        options.on_segment(&data(20), None, at(75));
        assert_eq!(filled(&mut options).times, Some(ReceiveTime { sent: at(20), received: at(75) }));
        assert_eq!(filled(&mut options).discards, None, "not asked for");
    }
}
