//! The sending side of waves (TCP-Real): which wave a new segment belongs to.
//!
//! `sender.rs` asks for the header of every new segment if the controller wants waves; `receiver_options.rs` measures
//! them. A wave is as many new segments as the window holds when its first is sent. Retransmissions belong to none.

use lasthop_core::time::Span;

use super::sender::{TcpSender, Wire};
use crate::transport::extra::{Extra, Wave};

/// The wave that is being sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waves {
    id: u16,
    size: u16,
    /// Segments of it that have not been sent yet.
    left: u16,
}

impl Waves {
    /// The wave of the next new segment, when the window holds `window` segments.
    fn next(&mut self, window: u32, rtt: Span) -> Wave {
        if self.left == 0 {
            self.size = window.clamp(1, u16::MAX.into()) as u16;
            self.left = self.size;
            self.id = self.id.wrapping_add(1);
        }
        self.left -= 1;
        Wave { id: self.id, size: self.size, rtt }
    }
}

impl TcpSender {
    /// Stores the wave header of a new segment; the index goes into `Packet::extra`.
    pub(super) fn attach_wave<W: Wire>(&mut self, wire: &mut W) -> u32 {
        let window = (self.window.cwnd as u32).min(self.receiver_window);
        let wave = self.waves.next(window, self.rtt.srtt());
        wire.attach(Extra { wave: Some(wave), ..Extra::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_is_a_window_of_new_segments() {
        let mut waves = Waves::default();
        let windows = [2, 3, 3, 3, 4, 1, 0];
        let sent: Vec<(u16, u16)> = windows
            .iter()
            .map(|&window| {
                let wave = waves.next(window, Span::ZERO);
                (wave.id, wave.size)
            })
            .collect();
        assert_eq!(sent, [(1, 2), (1, 2), (2, 3), (2, 3), (2, 3), (3, 1), (4, 1)]);
    }

    #[test]
    fn wave_numbers_wrap() {
        let mut waves = Waves { id: u16::MAX, size: 1, left: 0 };
        assert_eq!(waves.next(1, Span::ZERO).id, 0);
    }
}
