//! Declarations of the larger tables: what changes over time, and every packet. Their rows are not kept as structures;
//! `lasthop-py` makes each column of the world at the end, and is refused if it does not make those declared here.

use lasthop_net::plan::{Direction, Plan};

use super::devices::HelperSummary;
use super::{About, Column, Context, Field, Kind};
use crate::summary::RadioSummary;

/// Switch of a run that records a table.
pub const SERIES: &str = "series";
/// The same for packets.
pub const TRACE: &str = "trace";

/// The tables that a run records on demand, and the switch.
pub const ON_DEMAND: [(&str, &str); 7] = [
    ("flow_series", SERIES),
    ("link_series", SERIES),
    ("radio_series", SERIES),
    ("helper_series", SERIES),
    ("hops", TRACE),
    ("windows", TRACE),
    ("frames", TRACE),
];
/// Those that only runs with radio channels have.
pub const OF_RADIOS: [&str; 2] = ["radio_series", "frames"];
/// That which only runs with devices at links have.
pub const OF_HELPERS: &str = "helper_series";

/// Whether a run of this plan has the table called `name`, once it is recorded.
pub fn exists(name: &str, plan: &Plan) -> bool {
    let has_devices = |direction: &Direction| direction.arq.is_some() || !direction.middleboxes.is_empty();
    let has_helpers =
        || plan.links.iter().any(|link| has_devices(&link.forward) || has_devices(&link.reverse));
    !(OF_RADIOS.contains(&name) && plan.media.is_empty() || name == OF_HELPERS && !has_helpers())
}

/// The switch of the table called `name`, if it is one of them.
pub fn switch_of(name: &str) -> Option<&'static str> {
    ON_DEMAND.iter().find(|(table, _)| *table == name).map(|(_, switch)| *switch)
}

type Declared = (&'static str, Kind, About, &'static str);

const TIME: Declared = ("time_s", Kind::Number, About::new("s", "time"), "end of the interval");
const FLOW: Declared = ("flow", Kind::Text, About::new("", "flow"), "name of the flow");
const LINK: Declared = ("link", Kind::Text, About::new("", "link"), "name of the link, with its direction");

const THETA: Declared = (
    "theta",
    Kind::Number,
    About::new("", "theta"),
    "of a sender that counts signs of the causes of losses, what decides between them: above 1 for the channel, below \
     1 for congestion; this and the two following columns are null for others",
);
const CHANNEL_SIGNS: Declared = (
    "channel_signs",
    Kind::Number,
    About::new("", "signs of the channel"),
    "smoothed number of signs of a bad channel (N of XJTCP)",
);
const CONGESTION_SIGNS: Declared = (
    "congestion_signs",
    Kind::Number,
    About::new("", "signs of congestion"),
    "smoothed number of signs of congestion (C of XJTCP)",
);

const FLOW_SERIES: [Declared; 25] = [
    TIME,
    FLOW,
    (
        "cwnd_segments",
        Kind::Number,
        About::new("segments", "cwnd"),
        "congestion window at that time; null for senders without one",
    ),
    (
        "ssthresh_segments",
        Kind::Number,
        About::new("segments", "ssthresh"),
        "slow start threshold at that time; null while there is none",
    ),
    ("srtt_s", Kind::Number, About::new("s", "smoothed RTT"), "smoothed RTT; null before the first sample"),
    (
        "rtt_s",
        Kind::Number,
        About::new("s", "RTT"),
        "mean of the RTT samples of the interval; null without one",
    ),
    (
        "flight_segments",
        Kind::Short,
        About::new("segments", "in flight"),
        "segments outstanding at that time",
    ),
    (
        "allowed_rate_bit_s",
        Kind::Number,
        About::new("bit/s", "allowed rate"),
        "payload rate of a rate-based sender; null for others",
    ),
    (
        "throughput_bit_s",
        Kind::Number,
        About::new("bit/s", "throughput"),
        "bytes on the wire that reached the receiver in the interval",
    ),
    (
        "goodput_bit_s",
        Kind::Number,
        About::new("bit/s", "goodput"),
        "bytes handed in order to the application in the interval",
    ),
    (
        "arrived_packets",
        Kind::Unsigned,
        About::new("packets", "packets that arrived"),
        "packets that arrived in the interval, each once",
    ),
    (
        "delay_s",
        Kind::Number,
        About::new("s", "one-way delay"),
        "mean time from their first transmission to this arrival; null without one",
    ),
    (
        "lost_packets",
        Kind::Unsigned,
        About::new("packets", "packets lost"),
        "packets from the sender that the network lost in the interval, retransmissions included",
    ),
    THETA,
    CHANNEL_SIGNS,
    CONGESTION_SIGNS,
    (
        "split_held_bytes",
        Kind::Unsigned,
        About::new("bytes", "bytes held"),
        "only of the half of a split connection that a proxy sends: bytes that the proxy holds at that time, those in \
         flight included; null for others",
    ),
    (
        "first_sent_packets",
        Kind::Unsigned,
        About::new("packets", "packets sent"),
        "packets of a flow with real-time metrics that were sent for the first time in the interval; null for \
         others",
    ),
    (
        "timely_packets",
        Kind::Unsigned,
        About::new("packets", "packets in time"),
        "packets of such a flow that arrived in the interval and were not delayed; null for others",
    ),
    (
        "settled_packets",
        Kind::Unsigned,
        About::new("packets", "packets settled"),
        "packets of such a flow that arrived in the interval or, if nothing retransmits them, were lost in it; \
         `timely_packets` is a part of them; null for others",
    ),
    (
        "stall_s",
        Kind::Number,
        About::new("s", "stall time"),
        "total time of stalls so far, without the wait before the start; null for flows without a player that stalls \
         for missing data",
    ),
    (
        "video_rate_bit_s",
        Kind::Number,
        About::new("bit/s", "video rate"),
        "of a flow with frames, the rate encoded in the interval; of a player of segments, the bit rate of the newest \
         segment, null before the first; null for others",
    ),
    (
        "frame_delay_s",
        Kind::Number,
        About::new("s", "frame delay"),
        "from the generation to the display of the frame that was shown last, the wait in the playout buffer \
         included; null before the first, and for flows without frames",
    ),
    (
        "video_buffer_s",
        Kind::Number,
        About::new("s", "video buffer"),
        "playing time of the video that the viewer has and has not shown yet, at that time; null for flows without \
         video",
    ),
    (
        "shown_frames",
        Kind::Unsigned,
        About::new("frames", "frames shown"),
        "frames that were shown in the interval, of a film those that could be decoded in time; null for flows without \
         frames",
    ),
];

const LINK_SERIES: [Declared; 5] = [
    TIME,
    LINK,
    (
        "queue_packets",
        Kind::Number,
        About::new("packets", "queue"),
        "time average of the packets waiting in the interval, without the one in transmission; its mean over the run \
         is `avg_queue_packets`",
    ),
    (
        "throughput_bit_s",
        Kind::Number,
        About::new("bit/s", "throughput"),
        "bits transmitted in the interval, over its length",
    ),
    (
        "utilisation",
        Kind::Number,
        About::share("utilisation"),
        "share of the interval in which the link transmitted",
    ),
];

const HOPS: [Declared; 13] = [
    (
        "packet",
        Kind::Unsigned,
        About::new("", "packet"),
        "number of the packet, the same on each link of its way",
    ),
    FLOW,
    LINK,
    (
        "kind",
        Kind::Text,
        About::new("", "kind"),
        "`syn`, `syn-ack`, `data`, `ack`, `fin`, `fin-ack`, `udp`, `probe`, `probe-answer`, `feedback` (of a \
         rate-based receiver), `bad-state` (EBSN), `repair` (FEC) or `reset` (RST)",
    ),
    (
        "seq",
        Kind::Unsigned,
        About::new("bytes", "sequence number"),
        "first byte carried; the SYN is 0, data start at 1",
    ),
    ("ack", Kind::Unsigned, About::new("bytes", "acknowledgement"), "next byte expected"),
    ("payload_bytes", Kind::Short, About::new("bytes", "payload"), "size without headers"),
    ("wire_bytes", Kind::Short, About::new("bytes", "size"), "size with headers"),
    ("retransmission", Kind::Flag, About::new("", "retransmission"), "whether this range was sent before"),
    ("enqueue_ns", Kind::Unsigned, About::new("ns", "arrival at the link"), "when it reached the link"),
    (
        "transmit_ns",
        Kind::Unsigned,
        About::new("ns", "start of transmission"),
        "when its transmission began; null if it never did",
    ),
    (
        "arrive_ns",
        Kind::Unsigned,
        About::new("ns", "arrival"),
        "when it reached the other end; null if it did not",
    ),
    ("outcome", Kind::Text, About::new("", "outcome"), "`delivered`, `in-flight`, or a cause of loss"),
];

const WINDOWS: [Declared; 24] = [
    (
        "time_ns",
        Kind::Unsigned,
        About::new("ns", "time"),
        "when the window, or the controller's model, changed",
    ),
    FLOW,
    ("cwnd_segments", Kind::Number, About::new("segments", "cwnd"), "congestion window after the change"),
    (
        "ssthresh_segments",
        Kind::Number,
        About::new("segments", "ssthresh"),
        "slow start threshold after the change",
    ),
    (
        "state",
        Kind::Text,
        About::new("", "state"),
        "state of a controller with a model of the path; this and the following columns are null for others",
    ),
    ("round", Kind::Unsigned, About::new("", "round"), "round trips so far, as the controller counts them"),
    (
        "pacing_segments_s",
        Kind::Number,
        About::new("segments/s", "pacing rate"),
        "pacing rate of the controller",
    ),
    ("pacing_gain", Kind::Number, About::new("", "pacing gain"), "gain in that rate"),
    ("cwnd_gain", Kind::Number, About::new("", "cwnd gain"), "gain in the window"),
    (
        "greatest_rate_segments_s",
        Kind::Number,
        About::new("segments/s", "maximum rate"),
        "maximum delivery rate within the filter's window",
    ),
    (
        "short_term_rate_segments_s",
        Kind::Number,
        About::new("segments/s", "short-term rate"),
        "bound of the rate that losses have set for a while; infinite without one",
    ),
    ("least_rtt_s", Kind::Number, About::new("s", "minimum RTT"), "minimum RTT within the filter's window"),
    (
        "target_segments",
        Kind::Number,
        About::new("segments", "target"),
        "bandwidth-delay product by these estimates",
    ),
    (
        "flight_segments",
        Kind::Number,
        About::new("segments", "in flight"),
        "segments in flight at the last ACK",
    ),
    (
        "long_term_flight_segments",
        Kind::Number,
        About::new("segments", "long-term bound in flight"),
        "bound of the data in flight that probes have found; infinite without one",
    ),
    (
        "short_term_flight_segments",
        Kind::Number,
        About::new("segments", "short-term bound in flight"),
        "bound of the data in flight that losses have set for a while; infinite without one",
    ),
    (
        "extra_acked_segments",
        Kind::Number,
        About::new("segments", "excess of ACKs"),
        "addition to the window for ACKs that arrive in bursts",
    ),
    (
        "full_rounds",
        Kind::Short,
        About::new("", "rounds without growth"),
        "round trips without growth of the rate",
    ),
    ("is_full", Kind::Flag, About::new("", "pipe full"), "whether the pipe counts as full"),
    (
        "restarts_from_idle",
        Kind::Flag,
        About::new("", "restart from idle"),
        "whether the sender was idle and nothing has been delivered since",
    ),
    (
        "is_app_limited",
        Kind::Flag,
        About::new("", "application-limited"),
        "whether the data acknowledged last had been limited by the application",
    ),
    THETA,
    CHANNEL_SIGNS,
    CONGESTION_SIGNS,
];

const FRAMES: [Declared; 15] = [
    ("start_ns", Kind::Unsigned, About::new("ns", "start"), "when its first bit was sent"),
    ("end_ns", Kind::Unsigned, About::new("ns", "end"), "when its last bit had been sent, or had arrived"),
    ("channel", Kind::Text, About::new("", "channel"), "name of the first cell of its channel"),
    ("from", Kind::Text, About::new("", "sender"), "node that sent it"),
    ("to", Kind::Text, About::new("", "addressee"), "node that it was sent to; null for a broadcast"),
    (
        "at",
        Kind::Text,
        About::new("", "seen at"),
        "node at which it was seen: its sender, or a node that detected it",
    ),
    (
        "kind",
        Kind::Text,
        About::new("", "kind"),
        "`data`, `ack`, `rts`, `cts`, `beacon`, `block-ack`, `block-ack-request` or `cf-end`",
    ),
    ("retry", Kind::Flag, About::new("", "retry"), "whether it was sent before"),
    (
        "sequence",
        Kind::Short,
        About::new("", "sequence number"),
        "12 bits, the same for retransmissions; of data",
    ),
    (
        "ppdu",
        Kind::Unsigned,
        About::new("", "PPDU"),
        "number of the PPDU of 802.11n or later that it was part of; null for other frames",
    ),
    ("bytes", Kind::Short, About::new("bytes", "size"), "size of the MPDU, its check sequence included"),
    ("rate_bit_s", Kind::Number, About::new("bit/s", "rate"), "rate at which it was sent"),
    ("duration_s", Kind::Number, About::new("s", "duration"), "time for which it reserves the medium (NAV)"),
    (
        "rssi_dbm",
        Kind::Number,
        About::new("dBm", "power"),
        "power at which it was received; null at the sender",
    ),
    (
        "outcome",
        Kind::Text,
        About::new("", "outcome"),
        "`sent` at its sender; elsewhere `read`, `too-weak`, `collided` or `corrupt`",
    ),
];

/// The columns of all of them.
pub(super) fn columns() -> Vec<Column> {
    ON_DEMAND.iter().flat_map(|(table, _)| of(table)).collect()
}

/// The columns of one of them; none for other names.
pub fn of(table: &str) -> Vec<Column> {
    let (name, declared): (&'static str, &[Declared]) = match table {
        "flow_series" => ("flow_series", &FLOW_SERIES),
        "link_series" => ("link_series", &LINK_SERIES),
        "hops" => ("hops", &HOPS),
        "windows" => ("windows", &WINDOWS),
        "frames" => ("frames", &FRAMES),
        "radio_series" => return counters_over_time::<RadioSummary>("radio_series"),
        "helper_series" => return counters_over_time::<HelperSummary>("helper_series"),
        _ => return Vec::new(),
    };
    let context = Context::table(name);
    declared.iter().map(|(field, kind, about, help)| context.column(field, about, *kind, help)).collect()
}

/// Time, link, and the columns of a declared structure.
fn counters_over_time<T: Field>(table: &'static str) -> Vec<Column> {
    let context = Context::table(table);
    let heads = [TIME, LINK].map(|(field, kind, about, help)| context.column(field, &about, kind, help));
    heads.into_iter().chain(super::columns_of::<T>(table)).collect()
}
