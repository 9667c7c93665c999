//! Recovery for a peer without SACK, as in Linux: duplicate ACKs count as SACKed segments.
//!
//! *What it does.* Each duplicate ACK counts any one outstanding segment as SACKed, so that the data in flight falls
//! and PRR counts a delivery. An ACK of new data fills one hole; the other segments that it covers were counted
//! before. The first segment is lost when the count reaches the reordering degree, and again with each partial ACK.
//! State, repairs and windows are those of `rack.rs`; its clock finds no loss here, and there are no tail loss probes.
//!
//! *Reacts to* duplicate ACKs and ACKs of new data.
//!
//! *Differs from the RFC:* (RFC 6582) the window is not inflated, since the data in flight is known; a recovery
//! spreads its reduction (RFC 9937 §5 estimates deliveries in the same way).
//!
//! *Validation:* hand-worked episodes below; random scripts without SACK against Linux.
//!
//! *Limitations:* a recovery that timestamps undo ends at once, also where Linux holds it until the next ACK.
//!
//! *Kernel counterpart:* `tcp_add_reno_sack`, `tcp_remove_reno_sacks`, `tcp_check_reno_reordering` and
//! `tcp_newreno_mark_lost`.
//!
//! *References:* RFC 6582 §3.2; RFC 9937 §5.

use lasthop_core::time::Time;

use super::super::Connection;
use super::rack::{MOST_REORDERING, Rack};

/// Whether and what duplicates are counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Counting {
    pub(super) on: bool,
    /// Segments that the present ACK covers.
    pub(super) covered: u32,
}

impl Rack {
    /// The peer does without SACK.
    #[cold]
    pub(super) fn count_duplicates(&mut self) {
        self.counting.on = true;
        self.probing = false;
    }

    /// The present ACK covers one more segment: the first of them was the hole, the others were counted before.
    #[inline]
    pub(super) fn take_from_count(&mut self) {
        self.counting.covered += 1;
        if self.counting.covered > 1 {
            self.board.sacked_count = self.board.sacked_count.saturating_sub(1);
        }
    }

    /// An ACK that advances nothing: one segment has arrived, as long as one is missing. After a timeout only segments
    /// that were sent since provoke duplicates that count.
    pub(super) fn count_duplicate(&mut self, tcp: &Connection) {
        let outstanding = tcp.segments.len();
        let repeats = tcp.una < tcp.timeout_recover && tcp.max_sent <= tcp.timeout_recover;
        if outstanding == 0 || repeats || self.holds_state(tcp) {
            return;
        }
        self.board.sacked_count += 1;
        self.limit_count(outstanding, 0);
    }

    /// An ACK of new data has been taken: outside a recovery the count begins anew.
    pub(super) fn settle_count(&mut self, tcp: &Connection) {
        let covered = std::mem::take(&mut self.counting.covered) as usize;
        self.limit_count(tcp.segments.len(), covered);
        if !self.board.in_recovery || self.holds_state(tcp) {
            self.board.sacked_count = 0;
        }
    }

    /// Up to where segments may have arrived when an ACK up to `ack` has been taken: anywhere, if more are counted than
    /// it covers.
    pub(super) fn end_of_count(&self, tcp: &Connection, ack: u64) -> u64 {
        let covered = tcp.segments.iter().take_while(|segment| segment.end() <= ack).count();
        if self.board.sacked_count >= covered { tcp.max_sent } else { ack }
    }

    /// At least one segment is missing. If more seem to have arrived, the path reorders.
    fn limit_count(&mut self, outstanding: usize, covered: usize) {
        let holes = self.board.lost_count.max(1).min(outstanding);
        if self.board.sacked_count + holes > outstanding {
            self.board.sacked_count = outstanding - holes;
            self.reordering = ((outstanding + covered) as u32).min(MOST_REORDERING);
        }
    }

    /// The end of a recovery or of the data of a timeout is reached exactly: duplicates may stem from what was
    /// repeated in vain, and mean nothing until something new is acknowledged (RFC 6582 §3.2).
    pub(super) fn holds_state(&self, tcp: &Connection) -> bool {
        let end = if self.board.in_recovery { tcp.host.recover } else { tcp.timeout_recover };
        tcp.una == end && end > 1
    }

    /// Marks the first segment if it is lost by now; returns whether it is and was not known to be.
    pub(super) fn find_by_count(&mut self, tcp: &mut Connection, advances: bool, now: Time) -> bool {
        let threshold = self.reordering.max(tcp.dup_threshold) as usize;
        let due = if self.board.in_recovery { advances } else { self.board.sacked_count >= threshold };
        if !due || tcp.una < tcp.timeout_recover || self.holds_state(tcp) {
            return false;
        }
        if tcp.segments.first().is_none_or(|first| first.lost) {
            return false;
        }
        self.mark_first(tcp, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use lasthop_cc::{ControllerConfig, Window};

    use super::super::Engine;
    use crate::transport::profile::Profile;
    use crate::transport::tcp::config::{Recovery, TcpConfig};
    use crate::transport::tcp::sender::testing::Rig;

    /// Segments 2 to 11 outstanding towards a peer without SACK, W = 10 in congestion avoidance.
    fn ten_outstanding() -> Rig {
        let reno = ControllerConfig::by_name("reno").unwrap();
        let mut rig = Rig::new(&TcpConfig {
            timestamps: false,
            delayed_ack: None,
            packet_size: 1040,
            ..TcpConfig::new(Profile::Linux, reno, Recovery::Rack)
        });
        rig.sender.engine.go_without_sack(true);
        // What is left over of a train would wait.
        rig.sender.write_records();
        rig.sender.on_data(None, rig.now, &mut rig.tape);
        assert_eq!(rig.ack(1)[2..], (1..=10).collect::<Vec<u64>>(), "behind both segments of the handshake");
        rig.sender.host.window = Window { cwnd: 10.0, ssthresh: 5.0 };
        assert_eq!(rig.ack(2), [11]);
        rig
    }

    /// 2 is lost: two duplicates clock out new data, the third means the loss, and PRR sends on every other one
    /// until the flight has fallen from 10 to 5 segments. The ACK of all that was outstanding does not end the
    /// episode, the next does.
    #[test]
    fn duplicates_count_as_sacked_segments() {
        let mut rig = ten_outstanding();
        let sent: Vec<Vec<u64>> = (0..10).map(|_| rig.ack(2)).collect();
        let expected =
            [vec![12], vec![13], vec![2], vec![], vec![14], vec![], vec![15], vec![], vec![], vec![16]];
        assert_eq!(sent, expected);
        rig.ack(14);
        assert_eq!(rig.sender.stats.fast_recoveries, 1);
        assert!(
            (0..4).all(|_| !rig.ack(14).contains(&14)),
            "duplicates at the end of an episode mean nothing"
        );
        rig.ack(15);
        assert_eq!(rig.window(), (5.0, 5.0));
        assert_eq!((rig.sender.stats.fast_recoveries, rig.sender.stats.timeouts), (1, 0));
    }

    /// 2 and 4 are lost: the partial ACK means the second loss.
    #[test]
    fn a_partial_ack_means_the_next_hole() {
        let mut rig = ten_outstanding();
        (0..8).for_each(|_| drop(rig.ack(2)));
        assert!(rig.ack(4).contains(&4));
        assert_eq!(rig.sender.stats.retransmitted, 2);
    }

    /// Ten segments can provoke nine duplicates at most. If there are more the path reorders, and three duplicates
    /// mean nothing any more.
    #[test]
    fn too_many_duplicates_raise_the_threshold() {
        let mut rig = ten_outstanding();
        rig.sender.on_close(true, rig.now, &mut rig.tape);
        (0..14).for_each(|_| drop(rig.ack(2)));
        let Engine::Rack(rack) = &rig.sender.engine else { panic!("not the RACK engine") };
        assert!(rack.reordering >= 10, "{}", rack.reordering);
    }

    /// After a timeout duplicates of what was repeated are not counted: each ACK of new data repeats more.
    #[test]
    fn a_timeout_forgets_the_count() {
        let mut rig = ten_outstanding();
        (0..2).for_each(|_| drop(rig.ack(2)));
        assert_eq!(rig.time_out(), [2]);
        assert_eq!(rig.sender.stats.fast_recoveries, 0);
        (0..5).for_each(|_| drop(rig.ack(2)));
        assert_eq!(rig.sender.stats.fast_recoveries, 0);
        assert!(rig.ack(3).contains(&3));
    }
}
