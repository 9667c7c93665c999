//! Trains: what Linux hands to the offload of its device at once, and cuts into segments there (`tcp_write_xmit`).
//!
//! A train has as many segments as leave in a millisecond at the pacing rate, two at the least (`tcp_tso_autosize`),
//! and at most half of the window. It matters in three ways even where no device offloads anything: a paced sender
//! sends a train at once and then waits for as long as all of it takes; with room for a part of a train a sender may
//! wait for more, if it has just sent and the next ACK is near or overdue (`tcp_tso_should_defer`); and the last
//! segment of a train carries PSH, which receivers acknowledge at once.
//!
//! `send.rs` and the engine of the profile `linux` ask before each new segment. Other profiles send segment by segment.

use lasthop_cc::{CongestionControl, train};
use lasthop_core::time::{Span, Time};

use super::Connection;
use super::recovery::RecoveryEngine;

/// A train is not sent for less than this share of a window while more may come (`tcp_tso_win_divisor`).
const SHARE: u32 = 3;
/// A sender that has not sent for longer does not wait for more, nor does one whose next ACK will take longer.
const RECENT: Span = Span::from_millis(1);
/// Bytes of written data in one buffer: 64 kB less room for headers (`tcp_xmit_size_goal`).
const BUFFER: u64 = 65_215;
/// Longest train: 64 kB.
const MOST_BYTES: f64 = 65_536.0;

/// The train that is leaving.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Train {
    /// When.
    at: Time,
    /// Segments of it that have not left yet.
    left: u32,
    /// It began with more than one.
    is_long: bool,
    /// The application writes each segment as a record of its own (`MSG_EOR`): there are no trains.
    records: bool,
}

impl Train {
    /// Whether more of it may leave at `now`.
    #[inline]
    pub(super) fn is_leaving(self, now: Time) -> bool {
        self.left > 0 && self.at == now
    }

    /// Segment by segment, whatever the window has room for.
    pub(super) const fn of_records() -> Train {
        Train { at: Time::ZERO, left: 0, is_long: false, records: true }
    }

    /// A new segment leaves at `now`; whether it is the last of a train of several.
    #[inline]
    pub(super) fn step(&mut self, now: Time) -> bool {
        if !self.is_leaving(now) {
            return false;
        }
        self.left -= 1;
        self.left == 0 && self.is_long
    }
}

impl Connection {
    /// Whether the sender waits until it can send more at once than fits now, with `flight` segments in the network.
    /// Otherwise a train begins, if none is leaving.
    pub(super) fn awaits_train<E: RecoveryEngine>(&mut self, engine: &E, flight: u32, now: Time) -> bool {
        if !self.linux || self.train.records || self.train.is_leaving(now) {
            return false;
        }
        let window = self.usable();
        let room = window.saturating_sub(flight);
        let longest = self.longest_train(engine);
        let mss = u64::from(self.mss);
        // What the application has written lies in buffers of whole segments, and no train goes beyond one.
        let buffer = (BUFFER / mss).max(1) * mss;
        let rest = buffer - self.next.saturating_sub(1) % buffer;
        let written = self.data_end.saturating_sub(self.next);
        // The last buffer may grow as well, but is sent as far as it fits.
        let may_wait = room < longest && (self.needs.pacing || written > rest);
        if may_wait && self.may_wait_for_more(engine, room, window, now) {
            self.note_usage(flight, true);
            return true;
        }
        let data = written.min(rest).div_ceil(mss).min(u64::from(longest));
        let left = longest.min(room).min((window / 2).max(1)).min(data as u32).max(1);
        self.train = Train { at: now, left, is_long: left > 1, records: false };
        false
    }

    /// Segments of the longest train.
    fn longest_train<E: RecoveryEngine>(&self, engine: &E) -> u32 {
        if let Some(segments) = self.host.law().longest_train() {
            return segments as u32;
        }
        let mss = f64::from(self.mss);
        let srtt = self.rtt.srtt().seconds();
        let paced = self.needs.pacing.then(|| self.host.law().pacing_rate()).flatten();
        let window = self.host.window;
        let rate = match paced {
            Some(rate) => rate * mss,
            None if srtt <= 0.0 => f64::INFINITY,
            None => {
                // `tcp_update_pacing_rate`
                let ratio = if window.cwnd < window.ssthresh / 2.0 { 2.0 } else { 1.2 };
                ratio * window.cwnd.max(self.segments.len() as f64) * mss / srtt
            }
        };
        let shortest = if paced.is_some() { train::shortest(rate * 8.0) } else { 2.0 };
        // Nearby a train may be longer (`tcp_tso_rtt_log`).
        let halvings = engine.least_rtt().map_or(u64::MAX, |rtt| rtt.0 / 512_000);
        let nearby = if halvings < 32 { MOST_BYTES / (1_u64 << halvings) as f64 } else { 0.0 };
        let bytes = (rate / train::PER_SECOND + nearby).min(MOST_BYTES);
        (bytes / mss).floor().max(shortest) as u32
    }

    /// Whether it is worth the while to wait for room for more than `room` segments.
    fn may_wait_for_more<E: RecoveryEngine>(&self, engine: &E, room: u32, window: u32, now: Time) -> bool {
        let repairing = engine.is_in_recovery(self) || self.una < self.timeout_recover;
        if room == 0
            || repairing
            || now > self.pace.next().max(self.last_sent) + RECENT
            || room >= window / SHARE
        {
            return false;
        }
        // Data that ends before does not wait for more.
        if self.data_end.saturating_sub(self.next) <= u64::from(room) * u64::from(self.mss) {
            return false;
        }
        // Nor does anything if the next ACK is not likely to come soon.
        let srtt = self.rtt.srtt();
        if srtt == Span::ZERO {
            return false;
        }
        let soon = RECENT.min(Span(srtt.0 / 2));
        self.segments.first().is_some_and(|oldest| (oldest.last_sent + srtt).since(now) <= soon)
    }
}

#[cfg(test)]
mod tests {
    use lasthop_cc::{ControllerConfig, Window};

    use super::super::testing::Rig;
    use super::*;
    use crate::transport::profile::Profile;
    use crate::transport::tcp::config::{Recovery, TcpConfig};

    /// A round trip of 20 ms. The first ACK of data covers three segments of a window of ten, just when it is expected:
    /// two leave as a train, and the third waits for the next ACK to leave with another. What ends within the last
    /// buffer does not wait, nor does anything while the next ACK is 2 ms away.
    #[test]
    fn a_part_of_a_train_waits_for_more() {
        let sent = |bytes: Option<u64>, early_ms: u64, records: bool| {
            let reno = ControllerConfig::by_name("reno").unwrap();
            let mut rig = Rig::new(&TcpConfig {
                timestamps: false,
                delayed_ack: None,
                packet_size: 1040,
                ..TcpConfig::new(Profile::Linux, reno, Recovery::Rack)
            });
            if records {
                rig.sender.write_records();
            }
            rig.sender.on_data(bytes, rig.now, &mut rig.tape);
            rig.now += Span::from_millis(19);
            rig.ack(1);
            rig.sender.host.window = Window { cwnd: 10.0, ssthresh: 5.0 };
            rig.now += Span::from_millis(19 - early_ms);
            (rig.ack(4), rig.ack(5))
        };
        assert_eq!(sent(None, 0, false), (vec![11, 12], vec![13, 14]));
        assert_eq!(sent(Some(50_000), 0, false), (vec![11, 12, 13], vec![14]));
        assert_eq!(sent(None, 4, false).0, [11, 12, 13]);
        assert_eq!(sent(None, 0, true), (vec![11, 12, 13], vec![14]), "records are not put together");
    }
}
