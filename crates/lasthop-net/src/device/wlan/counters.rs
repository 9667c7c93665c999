//! What the MACs at both ends of a radio direction counted, by the names of `dot11CountersTable` (IEEE 802.11-2016
//! annex C), and some that only a simulator can know.
//!
//! The medium counts; `lasthop-sim` shows the counts of each direction. A station's own table is the sum over its
//! directions.

/// Counters of one direction within the measurement window. What the sending end counts comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RadioStats {
    /// MPDUs acknowledged (`TransmittedFragmentCount`).
    pub transmitted_fragments: u64,
    /// MSDUs acknowledged (`TransmittedFrameCount`).
    pub transmitted_frames: u64,
    /// MSDUs given up at a retry limit (`FailedCount`).
    pub failed: u64,
    /// MSDUs that were acknowledged after at least one retransmission (`RetryCount`).
    pub retries: u64,
    /// After at least two (`MultipleRetryCount`).
    pub multiple_retries: u64,
    /// RTS that were answered (`RTSSuccessCount`).
    pub rts_successes: u64,
    /// RTS that were not (`RTSFailureCount`).
    pub rts_failures: u64,
    /// Expected acknowledgements that did not come (`ACKFailureCount`).
    pub ack_failures: u64,
    /// Transmissions of data frames, retransmissions included.
    pub attempts: u64,
    /// How many of them were retransmissions.
    pub repetitions: u64,
    /// Transmissions of PPDUs with data: fewer where frames are aggregated.
    pub ppdus: u64,
    /// Packets that waited in the reorder buffer for earlier ones.
    pub reordered: u64,
    /// How long they waited, in nanoseconds.
    pub reorder_wait: u64,
    /// Frames received again, by sequence control (`FrameDuplicateCount`).
    pub duplicates: u64,
    /// Data frames received correctly (`ReceivedFragmentCount`).
    pub received_fragments: u64,
    /// Those with the retry bit (`QosRetriesReceivedCount`).
    pub retries_received: u64,
    /// Frames that the receiving end heard and could not read (`FCSErrorCount`), of whatever kind.
    pub fcs_errors: u64,
    /// Those that met another frame.
    pub collisions: u64,
    /// Those too weak to be read.
    pub too_weak: u64,
    /// Routing updates that the station at the near end broadcast; at the first of its directions.
    pub updates: u64,
    /// Their bytes as IP packets.
    pub update_bytes: u64,
    /// Those of them that the station at the far end read.
    pub updates_received: u64,
}
