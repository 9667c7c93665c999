//! ELN: the sender's reaction to explicit loss notification (Balakrishnan, Katz, Globecom 1998).
//!
//! *What it does.* A duplicate ACK that carries the notification means that the loss happened on the wireless link:
//! the sender retransmits the segment once, after `eln` such duplicates, and neither reduces its window nor counts
//! them towards a fast retransmission.
//!
//! A negative acknowledgement of a base station (Balakrishnan, Seshan, Katz, 1995) names a hole by SACK blocks on both
//! sides of it: the sender retransmits that data at once, independent of its window.
//!
//! *Reacts to* `flag::ELN` on ACKs; with a SACK block that begins with the ACK's own number it is a negative
//! acknowledgement, which no receiver would write.
//!
//! *Differs from the paper:* nothing known. As in ns-2, a segment is retransmitted once, and a second loss of it is
//! left to the timer.
//!
//! *Validation:* hand-made ACKs below.
//!
//! *Limitations:* SACK blocks on other ACKs with the notification are ignored.
//!
//! *Kernel counterpart:* none.
//!
//! *References:* Balakrishnan and Katz (1998).

use lasthop_core::packet::{Packet, flag};
use lasthop_core::time::Time;

use super::Connection;
use super::recovery::RecoveryEngine;
use crate::transport::extra::Extra;
use crate::transport::wire::Wire;

/// Duplicates with the notification so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Eln {
    /// What they ask for, and how many have.
    asked: (u64, u32),
    /// Everything below has been repeated for them.
    repeated: u64,
}

impl Eln {
    /// A duplicate with the notification asks for the segment at `una`; whether it is to be repeated now.
    pub(super) fn asks_for(&mut self, una: u64, threshold: u32) -> bool {
        let count = if self.asked.0 == una { self.asked.1 + 1 } else { 1 };
        self.asked = (una, count);
        let repeat = count >= threshold && self.repeated <= una;
        if repeat {
            self.repeated = una + 1;
        }
        repeat
    }
}

impl Connection {
    /// Repeats what a negative acknowledgement names; `false` if it is none.
    pub(super) fn take_nack<E: RecoveryEngine, W: Wire>(
        &mut self,
        engine: &mut E,
        packet: &Packet,
        extra: Option<&Extra>,
        now: Time,
        wire: &mut W,
    ) -> bool {
        let Some([(end, _), .., (own, start)]) = extra.map(|extra| extra.sack.as_slice()) else {
            return false;
        };
        if !packet.has(flag::ELN) || *own != packet.seq {
            return false;
        }
        let (mut seq, end) = ((*start).max(self.una).max(self.eln.repeated), *end);
        while seq < end
            && let Some(index) = self.segments.find(seq)
        {
            seq = self.retransmit_index(engine, index, now, wire);
        }
        self.eln.repeated = self.eln.repeated.max(seq);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Rig;
    use crate::transport::extra::Extra;
    use crate::transport::profile::Profile;
    use crate::transport::sack::SackBlocks;
    use crate::transport::tcp::config::{Recovery, TcpConfig};
    use crate::transport::tcp::mobility::Mobility;
    use lasthop_cc::ControllerConfig;
    use lasthop_core::packet::{Kind, Note, Packet, flag};

    fn rig(threshold: u32) -> Rig {
        Rig::new(&TcpConfig {
            limited_transmit: false,
            timestamps: false,
            delayed_ack: None,
            packet_size: 1040,
            mobility: Mobility { eln: Some(threshold), ..Mobility::default() },
            ..TcpConfig::new(Profile::Rfc, ControllerConfig::by_name("reno").unwrap(), Recovery::NewReno)
        })
        .ten_outstanding()
    }

    fn duplicate(rig: &mut Rig, number: u64) -> Vec<u64> {
        let seq = (number - 1) * 1000 + 1;
        let window = rig.sender.own_window;
        let packet =
            Packet { seq, window, kind: Kind::Ack, flags: flag::ELN, note: Note::BACK, ..Packet::default() };
        rig.sender.on_ack(&packet, None, rig.now, &mut rig.tape);
        std::mem::take(&mut rig.tape.sent)
    }

    /// One retransmission, no cut, and the window is as it was after the repair.
    #[test]
    fn a_wireless_loss_costs_no_window() {
        let mut rig = rig(1);
        assert_eq!(duplicate(&mut rig, 11), [11]);
        for _ in 0..8 {
            assert!(duplicate(&mut rig, 11).is_empty());
        }
        assert_eq!(rig.window(), (10.0, 5.0));
        assert_eq!(rig.ack(21).len(), 10);
        assert_eq!(rig.sender.stats.fast_recoveries, 0);
    }

    #[test]
    fn the_threshold_counts_marked_duplicates() {
        let mut rig = rig(3);
        let sent: Vec<Vec<u64>> = (0..4).map(|_| duplicate(&mut rig, 11)).collect();
        assert_eq!(sent, [vec![], vec![], vec![11], vec![]]);
    }

    /// A negative acknowledgement names the twelfth segment: it is repeated once, and duplicates that are marked for
    /// the hole do not repeat it again.
    #[test]
    fn a_hole_is_repeated_at_once() {
        let mut rig = rig(1);
        let window = rig.sender.own_window;
        let told = |rig: &mut Rig| {
            let mut sack = SackBlocks::default();
            sack.push(12_001, 13_001);
            sack.push(10_001, 11_001);
            let packet = Packet {
                seq: 10_001,
                window,
                kind: Kind::Ack,
                flags: flag::ELN,
                note: Note::BACK,
                ..Packet::default()
            };
            let extra = Extra { sack, ..Extra::default() };
            rig.sender.on_ack(&packet, Some(&extra), rig.now, &mut rig.tape);
            std::mem::take(&mut rig.tape.sent)
        };
        assert_eq!(told(&mut rig), [12]);
        assert!(told(&mut rig).is_empty(), "once");
        assert_eq!(rig.window(), (10.0, 5.0));
        rig.ack(12);
        assert!(duplicate(&mut rig, 12).is_empty());
        assert_eq!(rig.sender.stats.fast_recoveries, 0);
    }

    /// A congestion loss is answered as ever.
    #[test]
    fn unmarked_duplicates_mean_congestion() {
        let mut rig = rig(1);
        let sent: Vec<Vec<u64>> = (0..3).map(|_| rig.ack(11)).collect();
        assert_eq!(sent[2], [11]);
        assert_eq!(rig.window(), (8.0, 5.0));
    }
}
