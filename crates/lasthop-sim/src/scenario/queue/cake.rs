//! `cake`.

use lasthop_core::time::Span;
use lasthop_core::units::Rate;
use lasthop_net::plan::{AckFiltering, Cake, Discipline, Framing, Isolation, QueuePlan, Tins};

use super::super::declare::{choice, table};
use super::super::diagnostic::ScenarioError;
use super::super::keys::{Kind, LONGEST, TRANSFER};
use super::super::reader::Reader;
use super::LinkFacts;

pub(super) const NAME: &str = "cake";
pub(super) const BARE: bool = true;

choice! {
    const ISOLATION: Isolation = "triple-isolate" => Isolation::Triple, "dual-srchost" => Isolation::Sources,
        "dual-dsthost" => Isolation::Sinks, "flows" => Isolation::Flows, "none" => Isolation::None
}
choice! {
    const TINS: Tins = "diffserv3" => Tins::Three, "diffserv4" => Tins::Four, "besteffort" => Tins::BestEffort
}
choice! {
    const FILTERS: AckFiltering = "off" => AckFiltering::Off, "conservative" => AckFiltering::Conservative,
        "aggressive" => AckFiltering::Aggressive
}
choice! {
    const FRAMING: Framing = "none" => Framing::None, "atm" => Framing::Atm, "ptm" => Framing::Ptm
}

table! {
    /// CAKE as in Linux (arXiv 1804.07617): a shaper, fairness among hosts and their flows, priority for sparse flows,
    /// and COBALT on every flow.
    pub(super) static TABLE = "CAKE queue";
    struct Keys {
        /// Rate of the shaper. Slightly less than the narrowest link that follows keeps the queue here. Only on a link
        /// without arq. Default: no shaper; the link sets the rate.
        bandwidth: Option<Rate> = Kind::Rate;
        /// Assumed RTT: a delay that lasts this long is a standing queue; the target is a twentieth of it.
        rtt: Span = Kind::Duration { min: Span::from_nanos(20_000), max: LONGEST }, default("\"100 ms\"");
        /// What shares the link fairly. triple-isolate: the hosts at both ends, and the flows of each; a flow counts
        /// towards the host with more busy flows of its two. dual-srchost: source hosts. dual-dsthost: destination
        /// hosts. flows: flows alone. none: a single queue.
        isolation: Isolation = ISOLATION, default("\"triple-isolate\"");
        /// Classes, chosen by the dscp of a flow. diffserv3: best effort; bulk (CS1, LE), guaranteed a sixteenth; voice
        /// (EF, VA, CS6, CS7), guaranteed a quarter. diffserv4: also video (AF2x to AF4x, CS2, CS3), guaranteed a half;
        /// CS4 and CS5 are voice. besteffort: one for all.
        tins: Tins = TINS, default("\"diffserv3\"");
        /// Whether queued pure ACKs are dropped when newer ones make them redundant. conservative: keeps two.
        /// aggressive: keeps one.
        ack_filter: AckFiltering = FILTERS, default("\"off\"");
        /// Bytes that the shaper counts beside each IP packet.
        overhead: u32 = Kind::Integer { min: 0, max: 256 }, default("0");
        /// Minimum size with which a packet is counted, overhead included, in bytes.
        mpu: u32 = Kind::Integer { min: 0, max: 256 }, default("0");
        /// Link framing that the shaper counts. atm: whole cells of 53 bytes that carry 48, as in ADSL. ptm: one byte
        /// for every 64 bytes or part of them, as in VDSL2.
        framing: Framing = FRAMING, default("\"none\"");
        /// Maximum number of bytes that all queues together take in memory, as Linux counts them: 2304 for a packet of
        /// 674 to 1500 bytes; beyond it, the longest queue drops its first packet. Default: four times bandwidth and
        /// rtt, but 4 MiB at least, and 10,240 packets of the mtu at most, which is also the default without a
        /// bandwidth.
        memory: Option<u64> = TRANSFER;
    }
}

pub(super) fn read(queue: &Reader<'_>, link: &LinkFacts) -> Result<QueuePlan, ScenarioError> {
    let keys = Keys::read(queue)?;
    let (bandwidth, rtt, mtu) = (keys.bandwidth, keys.rtt, link.mtu as u32);
    if bandwidth.is_some() && !link.is_plain {
        let message = "a link that retransmits or schedules packets itself cannot be shaped".to_owned();
        let remedy = "leave out bandwidth: this link decides when a packet leaves";
        return Err(queue.error("bandwidth", message, remedy));
    }
    let discipline = Discipline::Cake(Cake {
        bandwidth,
        overhead: keys.overhead,
        least: keys.mpu,
        framing: keys.framing,
        isolation: keys.isolation,
        tins: keys.tins,
        rtt,
        memory: keys.memory.unwrap_or_else(|| Cake::usual_memory(bandwidth, rtt, mtu)),
        ack_filter: keys.ack_filter,
        mtu,
    });
    Ok(QueuePlan { discipline, ..QueuePlan::default() })
}
