//! What repairs did for a flow of media: a part of the rows of [`crate::summary`], which fills it in.

use lasthop_net::world::World;

use crate::columns;
use crate::columns::About;

columns! {
    /// The repair of what a flow of media lost. Of the packets that were found missing in the measured time, those that
    /// were overtaken, repaired or given up, and those whose fate was open at the end, make up all.
    #[derive(Clone, Copy, Debug)]
    pub struct RepairSummary {
        /// packets that were missing at the receiver when a later one arrived
        missing_packets: u64 = About::new("packets", "packets missing").sum().shown("missing");
        /// those of them that arrived out of order, before they were given up
        overtaken_packets: u64 = About::new("packets", "packets overtaken").sum();
        /// requests for a missing packet (NACK), repeated ones included
        asked_packets: u64 = About::new("packets", "packets requested").sum();
        /// missing packets that a retransmission brought before they were given up
        repeated_packets: u64 = About::new("packets", "packets repaired by retransmission").sum()
            .shown("retransmitted");
        /// missing packets that FEC rebuilt before they were given up
        recovered_packets: u64 = About::new("packets", "packets repaired by FEC").sum().shown("rebuilt by FEC");
        /// missing packets that the receiver gave up: it requested a key frame instead
        given_up_packets: u64 = About::new("packets", "packets given up").lower().sum().shown("given up");
        /// those of them that still arrived, too late
        late_packets: u64 = About::new("packets", "packets repaired too late").lower().sum();
        /// bytes of repairs over all bytes that the sender sent, headers included
        overhead_share: Option<f64> = About::share("repairs, of the bytes sent").lower().mean()
            .shown("of bytes sent");
    }
}

impl RepairSummary {
    /// That of a flow; `None` if its transport does not repair.
    pub(crate) fn of(world: &World, flow: usize) -> Option<RepairSummary> {
        let counts = world.network.repairs(flow)?;
        let (repairs, sent) = world.senders[flow].report().repair_bytes;
        Some(RepairSummary {
            missing_packets: counts.missing,
            overtaken_packets: counts.overtaken,
            asked_packets: counts.asked,
            repeated_packets: counts.repeated,
            recovered_packets: counts.recovered,
            given_up_packets: counts.given_up,
            late_packets: counts.late,
            overhead_share: (sent > 0).then(|| repairs as f64 / sent as f64),
        })
    }
}
