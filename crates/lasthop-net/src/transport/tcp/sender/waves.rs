//! The sending side of waves (TCP-Real): which wave a new segment belongs to.
//!
//! `send.rs` asks for the header of every new segment if the controller wants waves; `receiver_options.rs` measures
//! them. A wave is what one round trip sends: it begins with the first new segment after the first one of the wave
//! before has been acknowledged. Counting off windows instead would cut the stream anywhere: a window that begins in
//! the middle of one burst and ends in the middle of the next holds the pause between them, and seems slow although
//! nothing on the path has changed. Retransmissions belong to none.

use lasthop_core::time::Span;

use crate::transport::extra::Wave;

/// The wave that is being sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waves {
    id: u16,
    /// As many segments as the window held when it began. What a growing window adds to them is not measured.
    size: u16,
    /// Where its first segment begins.
    first: u64,
}

impl Waves {
    /// The wave of the new segment at `seq`, when everything below `una` is acknowledged and the window holds `window`
    /// segments.
    pub(super) fn next(&mut self, seq: u64, una: u64, window: u32, rtt: Span) -> Wave {
        if una > self.first {
            self.first = seq;
            self.size = window.clamp(1, u16::MAX.into()) as u16;
            self.id = self.id.wrapping_add(1);
        }
        Wave { id: self.id, size: self.size, rtt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The waves of segments, given as (number, first one that is not acknowledged, window), as (id, size).
    fn waves_of(segments: &[(u64, u64, u32)]) -> Vec<(u16, u16)> {
        let mut waves = Waves::default();
        let sequence = |number: u64| (number - 1) * 1000 + 1;
        let headers = segments
            .iter()
            .map(|&(number, una, window)| waves.next(sequence(number), sequence(una), window, Span::ZERO));
        headers.map(|wave| (wave.id, wave.size)).collect()
    }

    #[test]
    fn a_wave_is_what_a_round_trip_sends() {
        // Two segments, their ACKs one by one in slow start, then the first ACK of the second round.
        let sent = [(1, 1, 2), (2, 1, 2), (3, 2, 3), (4, 2, 3), (5, 3, 4), (6, 3, 4), (7, 4, 5)];
        assert_eq!(waves_of(&sent), [(1, 2), (1, 2), (2, 3), (2, 3), (2, 3), (2, 3), (3, 5)]);
    }

    /// Delayed ACKs grow the window by half in a round: the fifteen segments of the second are one wave.
    #[test]
    fn a_wave_does_not_end_within_a_burst() {
        let first = (1..=10).map(|number| (number, 1, 10));
        let second = (0..5u64)
            .flat_map(|ack| (0..3).map(move |more| (11 + 3 * ack + more, 3 + 2 * ack, 11 + ack as u32)));
        let third = (26..=28).map(|number| (number, 13, 16));
        let sent: Vec<_> = first.chain(second).chain(third).collect();
        let expected: Vec<(u16, u16)> = [vec![(1, 10); 10], vec![(2, 11); 15], vec![(3, 16); 3]].concat();
        assert_eq!(waves_of(&sent), expected);
    }

    /// After an idle time a sender begins a new wave, however few segments there were.
    #[test]
    fn a_pause_ends_a_wave() {
        assert_eq!(waves_of(&[(1, 1, 10), (2, 1, 10), (3, 3, 10)]), [(1, 10), (1, 10), (2, 10)]);
    }

    #[test]
    fn wave_numbers_wrap() {
        let mut waves = Waves { id: u16::MAX, size: 1, first: 0 };
        assert_eq!(waves.next(1, 1, 1, Span::ZERO).id, 0);
    }
}
