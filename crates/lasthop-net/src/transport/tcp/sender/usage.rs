//! How far the window was used: whether an ACK may open it further (RFC 7661; Linux's `tcp_cwnd_validate`).
//!
//! What counts is what was outstanding when data was sent, over one window of data, not what waits to be sent when an
//! ACK arrives: a sender whose application writes what the window takes, and nothing more, uses its window as well as
//! one with an endless file.

use super::Connection;

/// What was outstanding in the present window of data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// The window was full, or the pace of the law held data back.
    full: bool,
    /// The most segments that were outstanding, while it was not full.
    most: u32,
    /// What is sent beyond this belongs to the next window of data.
    end: u64,
    /// The present ACK does not open the window, whatever was sent before it.
    pub(super) barred: bool,
}

impl Connection {
    /// Data was sent, or would have been but for the window: `pipe` segments are in the network now. `paced`: it is the
    /// pace that held data back.
    #[inline]
    pub(super) fn note_usage(&mut self, pipe: u32, paced: bool) {
        let full = paced || pipe >= self.host.window.cwnd as u32;
        let out = self.segments.len() as u32;
        let usage = &mut self.usage;
        if full || self.una >= usage.end || (!usage.full && out > usage.most) {
            *usage = Usage { full, most: out, end: self.max_sent, barred: usage.barred };
        }
    }

    /// Whether what was sent has used the window enough for it to grow: in slow start Linux lets it reach twice
    /// what was outstanding; RFC 7661 §4.2 asks for half of it.
    #[inline]
    pub(super) fn uses_window(&self) -> bool {
        let usage = &self.usage;
        let window = self.host.window;
        let twice = 2 * usage.most;
        !usage.barred
            && (usage.full
                || if self.linux {
                    window.in_slow_start() && (window.cwnd as u32) < twice
                } else {
                    window.cwnd as u32 <= twice
                })
    }
}
