//! What one direction of a link did: its queue, its losses, and the MACs of a radio link.

use std::collections::BTreeMap;

use lasthop_core::time::Span;
use lasthop_net::device::wlan::counters::RadioStats;
use lasthop_net::link::Link;
use lasthop_net::network::Network;

use crate::columns;
use crate::columns::devices::{Counters, DeviceSummary};
use crate::columns::{About, Causes};

columns! {
    /// One direction of a link, within the measured time.
    #[derive(Clone, Debug)]
    pub struct LinkSummary {
        /// name of the link; `(reverse)` behind it stands for the direction from its second node to its first
        name: String = About::new("", "link");
        /// only where a station has one queue for several links: the link whose row tells of it; the four columns of
        /// the queue are empty in the rows of the others
        #[serde(skip_serializing_if = "Option::is_none")]
        queue_of: Option<Box<String>> = About::new("", "queue counted at").rare();
        /// time average of the packets waiting, without the one in transmission
        avg_queue_packets: Option<f64> = About::new("packets", "mean queue").lower().bottleneck().shown("mean queue")
            .compared().says("keeps the queue at {link} {} longer", "keeps the queue at {link} {} shorter")
            .times("keeps the queue at {link} {} times as long");
        /// the same with the one in transmission
        avg_system_packets: Option<f64> = About::new("packets", "mean number in queue and transmission")
            .lower().bottleneck();
        /// mean number of waiting packets that arriving packets found, those without room included
        avg_queue_found_packets: Option<f64> = About::new("packets", "mean queue found").lower().bottleneck();
        /// maximum number of packets waiting
        max_queue_packets: Option<u32> = About::new("packets", "maximum queue")
            .lower().bottleneck().shown("max queue");
        /// share of the measured time in which the link transmitted
        utilisation: f64 = About::share("utilisation").higher().bottleneck().shown("utilisation");
        /// packets transmitted; with retransmission on the link, transmissions
        packets_sent: u64 = About::new("packets", "packets transmitted").sum();
        /// bytes of those
        bytes_sent: u64 = About::new("bytes", "bytes transmitted").sum();
        /// packets lost here
        drops: Causes = About::new("packets", "packets dropped").called("dropped_{}_packets").lower().sum()
            .shown("drops");
        /// packets dropped because another packet took the last place in the queue at the same instant; a hash
        /// decides such ties
        tied_drops: u64 = About::new("packets", "drops that a tie decided").lower().sum();
        /// packets that arrived in the instant in which another left the queue; the departure comes first, so the
        /// queue is one packet shorter than in the other order. Counted at managed queues (RED, PIE, CoDel and the
        /// like, `mark`); in a radio cell a packet leaves when its station is done with it
        tied_arrivals: Option<u32> = About::new("packets", "arrivals that met a departure").lower().sum();
        /// ECN-capable packets that were marked, on a link with `mark`
        marks: u64 = About::new("packets", "packets marked").sum();
        /// What the MACs at both ends of a radio link counted.
        #[serde(skip_serializing_if = "Option::is_none")]
        radio: Option<Box<RadioSummary>> = About::group("radio_{}", "radio: {}");
        /// What the devices at the near end counted.
        #[serde(flatten)]
        devices: DeviceSummary = About::inline();
    }
}

// There are four for each flow of a dumbbell, while all of the world is still there: what few links have is boxed. It
// has room for what one more device counts.
const _: () = assert!(size_of::<LinkSummary>() <= 304, "the summary of a link is small");

columns! {
    /// One direction of a radio link of IEEE 802.11, within the measured time: what the station at its near end counted
    /// of frames to the other, and then what that one counted of frames from it, by the names of `dot11CountersTable`.
    /// Frames that a receiver heard from a station to which it has no link count at its first link.
    #[derive(Clone, Copy, Debug)]
    pub struct RadioSummary {
        /// MPDUs acknowledged (`TransmittedFragmentCount`)
        transmitted_fragments: u64 = About::new("frames", "MPDUs acknowledged").sum();
        /// MSDUs acknowledged (`TransmittedFrameCount`)
        transmitted_frames: u64 = About::new("frames", "MSDUs acknowledged").sum();
        /// MSDUs given up because a retry limit was reached (`FailedCount`)
        failed: u64 = About::new("frames", "MSDUs given up").lower().sum().shown("MAC gave up");
        /// MSDUs acknowledged after one retransmission or more (`RetryCount`)
        retries: u64 = About::new("frames", "MSDUs retried").lower().sum();
        /// MSDUs acknowledged after two retransmissions or more (`MultipleRetryCount`)
        multiple_retries: u64 = About::new("frames", "MSDUs retried more than once").lower().sum();
        /// RTS that were answered by a CTS (`RTSSuccessCount`)
        rts_successes: u64 = About::new("frames", "RTS answered").sum();
        /// RTS that were not answered (`RTSFailureCount`)
        rts_failures: u64 = About::new("frames", "RTS not answered").lower().sum();
        /// acknowledgements that were expected and did not come (`ACKFailureCount`)
        ack_failures: u64 = About::new("frames", "acknowledgements missed").lower().sum().shown("MAC retries");
        /// transmissions of data frames, retransmissions included
        attempts: u64 = About::new("frames", "data frames transmitted").sum();
        /// transmissions of PPDUs with data, retransmissions included; from 802.11n on a PPDU carries several frames
        ppdus: u64 = About::new("PPDUs", "PPDUs with data").sum();
        /// mean number of data frames in a PPDU
        aggregate_mean: Option<f64> = About::new("frames", "mean aggregate").mean();
        /// packets that waited in the reorder buffer of the receiver for earlier ones, from 802.11n on
        reordered: u64 = About::new("packets", "packets held for order").lower().sum();
        /// mean time for which they waited
        reorder_wait_mean_s: Option<f64> = About::new("s", "mean wait for order").lower().mean();
        /// data frames received again, by sequence control (`FrameDuplicateCount`)
        duplicates: u64 = About::new("frames", "duplicates received").sum();
        /// data frames received correctly, duplicates included (`ReceivedFragmentCount`)
        received_fragments: u64 = About::new("frames", "data frames received").sum();
        /// those that were marked as a retransmission (`QosRetriesReceivedCount`)
        retries_received: u64 = About::new("frames", "retries received").sum();
        /// frames of any kind that the receiver detected and could not decode (`FCSErrorCount`)
        fcs_errors: u64 = About::new("frames", "frames not decoded").lower().sum();
        /// those of them that collided with another frame
        collisions: u64 = About::new("frames", "frames that collided").lower().sum();
        /// those of them that were too weak
        too_weak: u64 = About::new("frames", "frames too weak").sum();
        /// routing updates that the near end broadcast, counted at the first link of the station
        updates: u64 = About::new("packets", "routing updates").sum();
        /// their bytes as IP packets
        update_bytes: u64 = About::new("bytes", "bytes of routing updates").sum();
        /// routing updates of the near end that the far end received
        updates_received: u64 = About::new("packets", "routing updates received").sum();
    }
}

impl LinkSummary {
    pub(super) fn new(name: String, link: &Link, counters: &Counters, measured: Span) -> LinkSummary {
        let stats = &link.stats;
        let length = measured.0 as f64;
        LinkSummary {
            name,
            queue_of: None,
            avg_queue_packets: Some(stats.waiting as f64 / length),
            avg_system_packets: Some((stats.waiting + stats.busy) as f64 / length),
            avg_queue_found_packets: link.mean_found_waiting(),
            max_queue_packets: Some(link.max_waiting()),
            utilisation: stats.busy as f64 / length,
            packets_sent: stats.packets,
            bytes_sent: stats.bytes,
            drops: Causes(link.drops()),
            tied_drops: link.tied_drops(),
            tied_arrivals: link.tied_arrivals().map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
            marks: link.marks(),
            radio: None,
            devices: DeviceSummary::of(counters),
        }
    }
}

impl RadioSummary {
    /// What was counted.
    pub fn new(stats: &RadioStats) -> RadioSummary {
        RadioSummary {
            transmitted_fragments: stats.transmitted_fragments,
            transmitted_frames: stats.transmitted_frames,
            failed: stats.failed,
            retries: stats.retries,
            multiple_retries: stats.multiple_retries,
            rts_successes: stats.rts_successes,
            rts_failures: stats.rts_failures,
            ack_failures: stats.ack_failures,
            attempts: stats.attempts,
            ppdus: stats.ppdus,
            aggregate_mean: (stats.ppdus > 0).then(|| stats.attempts as f64 / stats.ppdus as f64),
            reordered: stats.reordered,
            reorder_wait_mean_s: (stats.reordered > 0)
                .then(|| stats.reorder_wait as f64 / 1e9 / stats.reordered as f64),
            duplicates: stats.duplicates,
            received_fragments: stats.received_fragments,
            retries_received: stats.retries_received,
            fcs_errors: stats.fcs_errors,
            collisions: stats.collisions,
            too_weak: stats.too_weak,
            updates: stats.updates,
            update_bytes: stats.update_bytes,
            updates_received: stats.updates_received,
        }
    }
}

/// A station has one queue for all of its links: the row of the first tells of it, those of the others of none.
pub(super) fn tell_shared_queues_once(links: &mut [LinkSummary], network: &Network, measured: Span) {
    let mut sharing: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for direction in 0..links.len() as u32 {
        sharing.entry(network.queue_of(direction)).or_default().push(direction);
    }
    for (first, directions) in sharing.into_iter().filter(|(_, directions)| directions.len() > 1) {
        let name = links[first as usize].name.clone();
        let of_each = || directions.iter().map(|&direction| &network.links[direction as usize]);
        let mean = |time: u64| Some(time as f64 / measured.0 as f64);
        let (waiting, busy) =
            (of_each().map(|link| link.stats.waiting), of_each().map(|link| link.stats.busy));
        let (waiting, busy): (u64, u64) = (waiting.sum(), busy.sum());
        let found = network.links[first as usize].mean_found_by(of_each().map(Link::arrived).sum());
        for &direction in &directions {
            let tells = direction == first;
            let row = &mut links[direction as usize];
            row.queue_of = (!tells).then(|| Box::new(name.clone()));
            row.avg_queue_packets = mean(waiting).filter(|_| tells);
            row.avg_system_packets = mean(waiting + busy).filter(|_| tells);
            row.avg_queue_found_packets = found.filter(|_| tells);
            row.max_queue_packets = row.max_queue_packets.filter(|_| tells);
        }
    }
}
