//! The summary of a run: per flow, per link and in total. Every number has its unit in its name.
//!
//! These are the objects of `lasthop run --json`, whose field names are a promise to users, and the columns of the
//! tables of a run: what is declared here with `columns!` is all that is known of them anywhere. To measure something
//! more is a field here and the line below that fills it in; what a kind of device counts stands in
//! [`crate::columns::devices`] alone.

use std::collections::BTreeMap;
use std::time::Duration;

use lasthop_core::time::Span;
use lasthop_net::device::wlan::counters::RadioStats;
use lasthop_net::history::HistoryEntry;
use lasthop_net::link::Link;
use lasthop_net::measure::{ClassStats, FlowStats};
use lasthop_net::network::Network;
use lasthop_net::network::truth::Verdicts;
use lasthop_net::plan::{FlowPlan, Plan, Start, Transport};
use lasthop_net::realtime::plan::DelayedOver;
use lasthop_net::realtime::{Realtime, RealtimeReport};
use lasthop_net::traffic::Likeness;
use lasthop_net::traffic::client::Outcome;
use lasthop_net::transport::endpoint::Endpoint;
use lasthop_net::world::{Sent, World};
use serde::{Serialize, Serializer};

pub use crate::applications::{ClassSummary, PlayerSummary, SizeClass, VoiceSummary, WebSummary};
use crate::applications::{Times, pages_within};
pub use crate::call::CallSummary;
use crate::columns;
pub use crate::columns::Causes;
use crate::columns::devices::{Counters, DeviceSummary};
use crate::columns::{About, Column, Context, Field, Kind, Value};
pub use crate::draws::{FlowDraws, RunDraws};
pub use crate::repair::RepairSummary;

columns! {
    /// One run.
    #[derive(Clone, Debug)]
    pub struct Summary {
        /// seed of the run
        seed: u64 = About::new("", "seed").unsigned();
        /// hash over everything that happened on links, in order, as 16 hexadecimal digits; equal fingerprints mean
        /// equal runs
        fingerprint: String = About::new("", "fingerprint");
        /// wall-clock time that the run took
        wall_s: f64 = About::new("s", "wall-clock time");
        /// the part of it before the first event
        set_up_s: f64 = About::new("s", "set-up time");
        /// packets times links that they entered: the amount of work
        packet_hops: u64 = About::new("", "packet-hops");
        /// events that were processed
        events: u64 = About::new("", "events");
        /// simulated time
        duration_s: f64 = About::new("s", "simulated time");
        /// simulated time that counts: the duration less the warm-up
        measured_s: f64 = About::new("s", "measured time");
        /// Sums over flows.
        totals: Totals = About::group("{}", "{}");
        /// One entry per flow.
        flows: Vec<FlowSummary> = About::new("", "");
        /// Two entries per link: forward and reverse.
        links: Vec<LinkSummary> = About::new("", "");
        /// What the run has added to the history of paths, if it keeps one; of the whole run, oldest first.
        #[serde(skip_serializing_if = "Option::is_none")]
        history: Option<Vec<HistorySummary>> = About::new("", "");
    }
}

columns! {
    /// A connection that has ended, for the history of paths.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HistorySummary {
        /// the node at the other end
        endpoint: String = About::new("", "endpoint");
        /// hour of the day at which the connection opened, 0 to 23
        hour: u8 = About::new("", "hour");
        /// day of the week, 0 for Monday to 6
        weekday: u8 = About::new("", "day of the week");
        /// month, 1 to 12
        month: u8 = About::new("", "month");
        /// time average of the congestion window over the second half of the connection
        window_segments: f64 = About::new("segments", "window");
        /// week of the year, 1 to 53 (ISO 8601)
        week: u8 = About::new("", "week");
    }
}

columns! {
    /// Sums over flows, within the measured time.
    #[derive(Clone, Debug, Default)]
    pub struct Totals {
        /// sum of the flows' goodput
        goodput_bit_s: f64 = About::new("bit/s", "goodput")
            .higher().shown("goodput").compared().says("carries {} more", "carries {} less")
            .times("carries {} times as much");
        /// sum of the flows' throughput
        throughput_bit_s: f64 = About::new("bit/s", "throughput").shown("throughput");
        /// Jain's fairness index of the flows' goodput, `(sum x)^2 / (n * sum x^2)`, 1 when all are equal; null unless
        /// all flows are of one kind (they all react to losses or none does, and carry traffic of the same kind, rate
        /// and length), or if nothing was delivered
        jain_index: Option<f64> = About::new("", "Jain index")
            .higher().shown("Jain index").compared().says("shares {} more evenly", "shares {} less evenly");
        /// only if some traffic has an end: flows of which it has one
        #[serde(skip_serializing_if = "Option::is_none")]
        transfers: Option<u64> = About::new("", "transfers").rare();
        /// those of them that finished
        #[serde(skip_serializing_if = "Option::is_none")]
        finished_transfers: Option<u64> = About::new("", "finished transfers")
            .beside("transfers").higher().part_of("transfers").shown("finished").compared()
            .says("finishes {} more transfers", "finishes {} fewer transfers");
        /// median of the completion times of all transfers; null if it falls among those that did not finish
        completion_p50_s: Option<f64> = About::new("s", "median completion time")
            .beside("transfers").lower().shown("median completion").compared()
            .says("has a median completion time {} longer", "has a median completion time {} shorter")
            .times("has a median completion time {} times as long");
        /// 95th percentile of the completion times of all transfers (nearest rank); null if it falls among those that
        /// did not finish
        completion_p95_s: Option<f64> = About::new("s", "p95 completion time")
            .beside("transfers").lower().shown("p95 completion").compared()
            .says("has a p95 completion time {} longer", "has a p95 completion time {} shorter")
            .times("has a p95 completion time {} times as long");
        /// 99th percentile, likewise
        completion_p99_s: Option<f64> = About::new("s", "p99 completion time")
            .beside("transfers").lower().shown("p99 completion").compared()
            .says("has a p99 completion time {} longer", "has a p99 completion time {} shorter")
            .times("has a p99 completion time {} times as long");
        /// Transfers of at most 100 kB, if transfers of several classes take part.
        #[serde(skip_serializing_if = "Option::is_none")]
        small: Option<Box<SizeClass>> = About::group("small_{}", "small transfers: {}");
        /// Transfers of more than 100 kB and at most 1 MB, likewise.
        #[serde(skip_serializing_if = "Option::is_none")]
        middle: Option<Box<SizeClass>> = About::group("middle_{}", "middle transfers: {}");
        /// Transfers of more than 1 MB, likewise.
        #[serde(skip_serializing_if = "Option::is_none")]
        large: Option<Box<SizeClass>> = About::group("large_{}", "large transfers: {}");
        /// only with web traffic: pages that were requested within the measured time
        #[serde(skip_serializing_if = "Option::is_none")]
        pages: Option<u64> = About::new("", "pages").rare();
        /// those of them that were completed
        #[serde(skip_serializing_if = "Option::is_none")]
        finished_pages: Option<u64> = About::new("", "finished pages")
            .beside("pages").higher().part_of("pages").shown("pages").compared()
            .says("finishes {} more pages", "finishes {} fewer pages");
        /// median of the times of all pages, from the click to the last byte of the last object; null if it falls among
        /// those that were not completed
        page_time_p50_s: Option<f64> = About::new("s", "median page time")
            .beside("pages").lower().shown("median page").compared()
            .says("has a median page time {} longer", "has a median page time {} shorter")
            .times("has a median page time {} times as long");
        /// 95th percentile of the times of all pages (nearest rank); null if it falls among those that were not
        /// completed
        page_time_p95_s: Option<f64> = About::new("s", "p95 page time")
            .beside("pages").lower().shown("p95 page").compared()
            .says("has a p95 page time {} longer", "has a p95 page time {} shorter")
            .times("has a p95 page time {} times as long");
        /// 99th percentile, likewise
        page_time_p99_s: Option<f64> = About::new("s", "p99 page time")
            .beside("pages").lower().shown("p99 page").compared()
            .says("has a p99 page time {} longer", "has a p99 page time {} shorter")
            .times("has a p99 page time {} times as long");
        /// data packets sent again; transports are compared by the share of these, because the count grows
        /// with the load; null where no sender sends again, as with datagrams
        retransmitted_packets: Option<u64> = About::new("packets", "retransmissions").shown("retransmitted");
        /// data packets sent again over data packets sent
        retransmitted_share: Option<f64> = About::share("retransmissions per packet")
            .lower().compared().says("retransmits {} more per packet", "retransmits {} less per packet")
            .times("retransmits {} times as much per packet");
        /// expiries of the retransmission timer; transports are compared by those per packet; null where no sender
        /// has one
        timeouts: Option<u64> = About::new("", "timeouts").shown("timeouts");
        /// expiries of the retransmission timer over data packets sent
        timeout_share: Option<f64> = About::share("timeouts per packet")
            .lower().compared().says("has {} more timeouts per packet", "has {} fewer timeouts per packet")
            .times("has {} times as many timeouts per packet");
        /// packets that helpers in the network sent again; only where one can
        #[serde(skip_serializing_if = "Option::is_none")]
        helper_retransmissions: Option<u64> = About::new("packets", "retransmissions by helpers")
            .rare().shown("by helpers");
        /// the same over packets of all kinds sent
        #[serde(skip_serializing_if = "Option::is_none")]
        helper_retransmission_share: Option<f64> = About::share("retransmissions by helpers per packet")
            .rare().compared()
            .says("has {} more repeated by helpers per packet", "has {} less repeated by helpers per packet")
            .times("has {} times as much repeated by helpers per packet");
        /// transmissions of frames beyond their first, by links and MACs; only where one retransmits
        #[serde(skip_serializing_if = "Option::is_none")]
        link_retransmissions: Option<u64> = About::new("packets", "retransmissions by links")
            .rare().shown("by links");
        /// the same over packets of all kinds sent
        #[serde(skip_serializing_if = "Option::is_none")]
        link_retransmission_share: Option<f64> = About::share("retransmissions by links per packet")
            .rare().compared()
            .says("has {} more repeated by links per packet", "has {} less repeated by links per packet")
            .times("has {} times as much repeated by links per packet");
        /// packets of all kinds in flight when the measured time began; with those sent it is what was delivered,
        /// lost, or is in flight at the end
        packets_carried_over: u64 = About::new("packets", "packets carried over");
        /// packets of all kinds handed to the network, ACKs included
        packets_sent: u64 = About::new("packets", "packets sent");
        /// packets of all kinds that reached an endpoint
        packets_delivered: u64 = About::new("packets", "packets delivered");
        /// packets of all kinds that were lost
        packets_lost: Causes = About::new("packets", "packets lost").called("lost_{}_packets").shown("lost");
        /// packets of all kinds that were lost over those sent
        loss_share: Option<f64> = About::share("losses per packet").lower();
        /// packets in flight when the measured time ended
        packets_in_flight: u64 = About::new("packets", "packets in flight");
        /// mean of the flows' Real-Time Performance Indices, over those that have one
        realtime_index: Option<f64> = About::share("real-time index").higher();
        /// mean of their rates of delayed packets
        delayed_rate: Option<f64> = About::share("delayed packets rate").lower();
        /// mean of their losses over packets sent
        loss_over_sent: Option<f64> = About::share("packet loss rate, share of sent").lower();
        /// mean of the shares of time spent in stalls
        stall_share: Option<f64> = About::share("share of time stalled").lower();
        /// random value: the number drawn for the run at this path of keys, which ends with the unit
        #[serde(flatten)]
        drawn: RunDraws = About::new("", "drawn: <x>").rare();
    }
}

columns! {
    /// One flow, within the measured time.
    #[derive(Clone, Debug)]
    pub struct FlowSummary {
        /// name of the flow
        name: String = About::new("", "flow");
        /// preset, or `controller/recovery`
        transport: String = About::new("", "transport");
        /// bytes handed in order to the receiving application, once, over the measured time; what had arrived out of
        /// order during the warm-up counts when the gap before it is filled, so a short measurement may show more
        /// goodput than throughput
        goodput_bit_s: f64 = About::new("bit/s", "goodput").higher().sum().shown("goodput");
        /// bytes on the wire that reached the receiver, headers and repetitions included, over the measured time
        throughput_bit_s: f64 = About::new("bit/s", "throughput").sum();
        /// bytes handed to the application
        bytes_delivered: u64 = About::new("bytes", "bytes delivered").higher().sum();
        /// packets from sender to receiver, repetitions included
        packets_sent: u64 = About::new("packets", "packets sent").sum();
        /// packets from receiver to sender
        acks_sent: u64 = About::new("packets", "ACKs sent").sum();
        /// packets from sender to receiver that were lost
        packets_lost: Causes = About::new("packets", "packets lost").called("lost_{}_packets").sum();
        /// packets from receiver to sender that were lost
        acks_lost: Causes = About::new("packets", "ACKs lost").called("lost_{}_acks").sum();
        /// data packets sent again; null for a sender that never does, as of datagrams
        retransmitted_packets: Option<u64> =
            About::new("packets", "retransmissions").sum().shown("retransmitted");
        /// expiries of the retransmission timer; for rate-based senders, silences of the receiver that lowered the rate
        /// or began a blackout; null for datagrams, and for real stacks, which do not report them
        timeouts: Option<u64> = About::new("", "timeouts").sum().shown("timeouts");
        /// recovery episodes that duplicate ACKs or SACK began; null for senders that have none
        fast_recoveries: Option<u64> = About::new("", "fast recoveries").sum();
        /// What losses were taken for, if the sender tells them apart.
        loss_verdicts: Option<LossVerdicts> = About::group("{}", "{}");
        /// reductions of the window that were undone, because nothing had been lost (F-RTO, Eifel, DSACK); null for
        /// all but TCP
        undone_reductions: Option<u64> = About::new("", "undone reductions").sum();
        /// only with `reader`: times that the receiver closed its window
        #[serde(skip_serializing_if = "Option::is_none")]
        zero_windows: Option<u64> = About::new("", "zero windows").sum().rare();
        /// only with `reader`: time during which the sender knew the window to be closed
        #[serde(skip_serializing_if = "Option::is_none")]
        zero_window_s: Option<f64> = About::new("s", "time with a closed window").sum().rare();
        /// RTT of segments that were sent once, mean
        rtt_mean_s: Option<f64> = About::new("s", "mean RTT").lower().mean().shown("mean RTT")
            .compared().says("has a mean RTT {} longer", "has a mean RTT {} shorter")
            .times("has a mean RTT {} times as long");
        /// RTT of segments that were sent once, median
        rtt_p50_s: Option<f64> = About::new("s", "median RTT").lower().mean();
        /// RTT of segments that were sent once, 95th percentile
        rtt_p95_s: Option<f64> = About::new("s", "p95 RTT").lower().mean();
        /// RTT of segments that were sent once, 99th percentile
        rtt_p99_s: Option<f64> = About::new("s", "p99 RTT").lower().mean();
        /// one-way delay, from the first transmission of a range of data to its first arrival, mean
        delay_mean_s: Option<f64> = About::new("s", "mean one-way delay").lower().mean();
        /// one-way delay, median
        delay_p50_s: Option<f64> = About::new("s", "median one-way delay").lower().mean();
        /// one-way delay, 95th percentile
        delay_p95_s: Option<f64> = About::new("s", "p95 one-way delay").lower().mean().shown("p95 delay")
            .compared().says("has a p95 delay {} longer", "has a p95 delay {} shorter")
            .times("has a p95 delay {} times as long");
        /// one-way delay, 99th percentile
        delay_p99_s: Option<f64> = About::new("s", "p99 one-way delay").lower().mean();
        /// mean absolute difference of the one-way delays of consecutive arrivals
        jitter_s: Option<f64> = About::new("s", "jitter").lower().mean();
        /// running jitter of RFC 3550, at the end
        jitter_rfc3550_s: Option<f64> = About::new("s", "jitter (RFC 3550)").lower().mean();
        /// first transmission
        start_s: Option<f64> = About::new("s", "first transmission").mean();
        /// from the first transmission to the last ACK of a transfer of given length; null if it did not finish
        completion_s: Option<f64> = About::new("s", "completion time").lower().mean().shown("completion");
        /// only of a transfer of given or drawn length: its bytes
        #[serde(skip_serializing_if = "Option::is_none")]
        transfer_bytes: Option<u64> = About::new("bytes", "length of the transfer").mean().rare();
        /// when the sender aborted its connection (`give_up`) or received its reset, from the start of the run
        #[serde(skip_serializing_if = "Option::is_none")]
        reset_s: Option<f64> = About::new("s", "connection reset").mean().rare();
        /// time average of the allowed payload rate of a rate-based sender; null for others
        allowed_rate_bit_s: Option<f64> = About::new("bit/s", "allowed rate").mean();
        /// mean of the loss event rates reported to a sender of the TFRC family; null for others
        loss_event_rate: Option<f64> = About::share("loss event rate").mean();
        /// packets that a rate-based sender dropped itself: past their deadline, or its queue was full
        expired_packets: u64 = About::new("packets", "expired packets").lower().sum();
        /// The flows for which the row stands, if it is of a class (`results`). Then what it says of counts is their
        /// sum, and all else the mean over those of them that have it.
        #[serde(skip_serializing_if = "Option::is_none")]
        class: Option<Box<ClassSummary>> = About::group("class_{}", "class: {}");
        /// The pages, if the flow is web traffic. Then what the row says of packets, losses, retransmissions and
        /// timeouts is of all connections of the browser and of both their directions, what it says of bytes is of all
        /// answers, and RTT and delays are those of answers over the first connection.
        #[serde(skip_serializing_if = "Option::is_none")]
        web: Option<Box<WebSummary>> = About::group("{}", "{}");
        /// What the viewer of video on demand had, over the whole run.
        #[serde(skip_serializing_if = "Option::is_none")]
        player: Option<Box<PlayerSummary>> = About::group("player_{}", "player: {}");
        /// The quality of the call, if the flow is voice.
        #[serde(skip_serializing_if = "Option::is_none")]
        voice: Option<Box<VoiceSummary>> = About::group("{}", "{}");
        /// What the other side of a video call saw.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<Box<CallSummary>> = About::group("call_{}", "call: {}");
        /// What NACK and FEC repaired, if one of them is on.
        #[serde(skip_serializing_if = "Option::is_none")]
        repair: Option<Box<RepairSummary>> = About::group("repair_{}", "repair: {}");
        /// Real-time metrics, if the flow is measured so.
        realtime: Option<Box<RealtimeSummary>> = About::group("{}", "{}");
        /// What the proxies that split the connection did, if any does. Then what the row says of arrivals (goodput,
        /// throughput, delays, ACKs sent, completion) is of the last receiver, and what it says of the sender (packets,
        /// losses, retransmissions, timeouts, RTT) is of the first half.
        #[serde(skip_serializing_if = "Option::is_none")]
        split: Option<SplitSummary> = About::group("split_{}", "split: {}");
        /// only with a table `[history]`: windows of earlier connections that the flow could start from
        #[serde(skip_serializing_if = "Option::is_none")]
        history_samples: Option<usize> = About::new("", "windows in the history").sum().rare();
        /// random value: the number drawn for this flow at this path of keys, which ends with the unit
        #[serde(flatten)]
        drawn: FlowDraws = About::new("", "drawn for the flow: <x>").mean().rare();
    }
}

columns! {
    /// The confusion matrix of a sender that tells losses apart: what its reactions answered, by what that really was.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LossVerdicts {
        /// A queue had overflowed.
        congestion: Beliefs = About::group("congestion_taken_for_{}_losses", "losses by congestion taken for {}");
        /// The packet had been lost in the air: an error, an outage, a link that gave up.
        wireless: Beliefs = About::group("wireless_taken_for_{}_losses", "losses in the air taken for {}");
        /// Nothing had been lost: a spurious timeout, or packets out of order.
        nothing: Beliefs = About::group("nothing_taken_for_{}_losses", "spurious signs of loss taken for {}");
    }
}

columns! {
    /// What the sender took it for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Beliefs {
        /// responses of the sender as to congestion
        congestion: u64 = About::new("", "congestion").sum();
        /// responses of the sender as to a wireless loss
        wireless: u64 = About::new("", "wireless").sum();
    }
}

impl LossVerdicts {
    fn new(verdicts: &Verdicts) -> LossVerdicts {
        let [congestion, wireless, nothing] =
            verdicts.counts.map(|[congestion, wireless]| Beliefs { congestion, wireless });
        LossVerdicts { congestion, wireless, nothing }
    }
}

columns! {
    /// How useful a flow is to a viewer or listener, within the measured time, and by which definitions. A packet
    /// counts if it was first transmitted in that time.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RealtimeSummary {
        /// packets with data that arrived, without the delayed ones
        timely_packets: u64 = About::new("packets", "timely packets").higher().sum();
        /// packets with data that arrived more than `threshold` after their neighbour
        delayed_packets: u64 = About::new("packets", "delayed packets").lower().sum();
        /// packets with data that arrived
        received_packets: u64 = About::new("packets", "packets received").sum();
        /// packets that were transmitted, and what the data still waiting at the sender at the end would fill, or what
        /// a rate-based sender dropped, but not what is withdrawn when the application stops; null for a file without
        /// end and for a real stack
        generated_packets: Option<u64> = About::new("packets", "packets generated").sum();
        /// packets with data that left the sender at least once
        transmitted_packets: u64 = About::new("packets", "packets transmitted").sum();
        /// transmissions of packets with data, repetitions included
        transmissions: u64 = About::new("packets", "transmissions").sum();
        /// how many of these the network lost, and copies of them that helpers such as Snoop sent; what a link repairs
        /// by itself is not lost
        lost_transmissions: u64 = About::new("packets", "transmissions lost").lower().sum();
        /// Real-Time Performance Index: timely packets over packets sent (`sent`)
        realtime_index: Option<f64> = About::share("real-time index").higher().mean().shown("timely")
            .compared().says("delivers {} more packets in time", "delivers {} fewer packets in time");
        /// Delayed Packets Rate, over what `delayed_over` says
        delayed_rate: Option<f64> = About::share("delayed packets rate").lower().mean().shown("delayed");
        /// Delayed Packets Rate: delayed packets over packets sent
        delayed_over_sent: Option<f64> = About::share("delayed packets, share of sent").lower().mean();
        /// Delayed Packets Rate: delayed packets over packets received
        delayed_over_received: Option<f64> = About::share("delayed packets, share of received").lower().mean();
        /// Packet Loss Rate by what the application sent: lost transmissions over packets generated; may exceed 1
        loss_over_generated: Option<f64> = About::share("packet loss rate, share of generated").lower().mean();
        /// Packet Loss Rate by what the protocol sent: lost transmissions over transmissions
        loss_over_sent: Option<f64> = About::share("packet loss rate, share of sent").lower().mean().shown("lost");
        /// x % Application Success Percentage: full slots in which goodput was at least x % of `target`; null without
        /// a target or a full slot
        #[serde(flatten)]
        success: Success = About::new("%", "<x> % application success").called("success_<x>_percent").higher().mean();
        /// video: from the generation of the first frame to the start of playing; null if playing never started, and
        /// so are the next four
        startup_s: Option<f64> = About::new("s", "start-up delay").lower().mean().shown("start-up");
        /// video over a reliable transport: number of stalls: playing stopped because a frame was missing
        stalls: Option<u64> = About::new("", "stalls").lower().mean().shown("stalls");
        /// total time of the stalls
        stall_s: Option<f64> = About::new("s", "stall time").lower().mean();
        /// `stall_s` over itself and the time of playing
        stall_share: Option<f64> = About::share("share of time stalled").lower().mean().shown("stalled")
            .compared().says("stands still {} longer", "stands still {} shorter");
        /// video over an unreliable transport: frames that could be decoded in time over frames that were due
        decodable_share: Option<f64> = About::share("share of frames decodable").higher().mean().shown("decodable");
        /// the definitions in force, as a JSON object
        options: RealtimeOptions = About::new("", "definitions").called("realtime_options");
    }
}

/// Application Success Percentages by x, in the order of x.
#[derive(Clone, Debug, PartialEq)]
pub struct Success(pub Vec<(u32, Option<f64>)>);

impl Serialize for Success {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.0.iter();
        serializer.collect_map(entries.map(|(percent, share)| (format!("success_{percent}_percent"), share)))
    }
}

/// One column that stands for one per x.
impl Field for Success {
    const WIDTH: usize = 1;

    fn declare(context: &Context, _: &str, about: &About, help: &str, out: &mut Vec<Column>) {
        out.push(context.column("success_<x>_percent", about, Kind::Number, help));
    }

    fn values(&self, out: &mut Vec<Value>) {
        let known = self.0.iter().map(|(percent, share)| (percent.to_string(), *share));
        out.push(Value::Several(known.collect()));
    }
}

/// The definitions behind a [`RealtimeSummary`], as in the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RealtimeOptions {
    /// What arrives later than this after its neighbour is delayed.
    pub threshold_s: f64,
    /// Neighbour of a packet whose predecessor has not arrived.
    pub missing: &'static str,
    /// Where packets arrive.
    pub arrival: &'static str,
    /// Whether packets that arrive again count.
    pub duplicates: &'static str,
    /// Which packets were sent.
    pub sent: &'static str,
    /// What `delayed_rate` is over.
    pub delayed_over: &'static str,
    /// The rate that slots are compared with.
    pub target_bit_s: Option<u64>,
    /// Length of a slot.
    pub slot_s: f64,
    /// Video that a player buffers before it starts; of flows that carry video.
    pub playout_s: Option<f64>,
    /// Video that it buffers before it goes on after a stall.
    pub rebuffer_s: Option<f64>,
}

/// A table has no place for definitions but as text.
impl Field for RealtimeOptions {
    const WIDTH: usize = 1;

    fn declare(context: &Context, field: &str, about: &About, help: &str, out: &mut Vec<Column>) {
        out.push(context.column(field, about, Kind::Text, help));
    }

    fn values(&self, out: &mut Vec<Value>) {
        out.push(serde_json::to_string(self).map_or(Value::Nothing, Value::Text));
    }
}

impl RealtimeSummary {
    fn new(realtime: &Realtime, unsent: Option<u64>, whole: bool) -> RealtimeSummary {
        let plan = realtime.plan();
        let RealtimeReport {
            timely,
            delayed,
            received,
            generated,
            transmitted,
            transmissions,
            lost,
            index,
            delayed_over_sent,
            delayed_over_received,
            loss_over_generated,
            loss_over_sent,
            success,
            playback,
        } = realtime.report(unsent, whole);
        RealtimeSummary {
            timely_packets: timely,
            delayed_packets: delayed,
            received_packets: received,
            generated_packets: generated,
            transmitted_packets: transmitted,
            transmissions,
            lost_transmissions: lost,
            realtime_index: index,
            delayed_rate: match plan.delayed_over {
                DelayedOver::Sent => delayed_over_sent,
                DelayedOver::Received => delayed_over_received,
            },
            delayed_over_sent,
            delayed_over_received,
            loss_over_generated,
            loss_over_sent,
            success: Success(success),
            startup_s: playback.startup.map(Span::seconds),
            stalls: playback.stalls,
            stall_s: playback.stalled.map(Span::seconds),
            stall_share: playback.stall_share,
            decodable_share: playback.decodable_share,
            options: RealtimeOptions {
                threshold_s: plan.threshold.seconds(),
                missing: plan.missing.name(),
                arrival: plan.arrival.name(),
                duplicates: plan.duplicates.name(),
                sent: plan.sent.name(),
                delayed_over: plan.delayed_over.name(),
                target_bit_s: plan.target.map(|target| target.0),
                slot_s: plan.slot.seconds(),
                playout_s: realtime.has_frames().then(|| plan.playout.seconds()),
                rebuffer_s: realtime.has_frames().then(|| plan.rebuffer.seconds()),
            },
        }
    }
}

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
        /// packets that arrived in the same instant in which another left the queue; departures go first, so that a
        /// queue is a packet shorter then than if they went second. Counted at queues that are managed (RED, PIE, CoDel
        /// and the like, `mark`) and whose link neither repeats nor is a radio channel
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

// There are four for each flow of a dumbbell, while all of the world is still there: what few links have is boxed.
const _: () = assert!(size_of::<LinkSummary>() <= 296, "the summary of a link is small");

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
        /// transmissions of data frames, repetitions included
        attempts: u64 = About::new("frames", "data frames transmitted").sum();
        /// transmissions of PPDUs with data, repetitions included: from 802.11n on a PPDU carries several frames
        ppdus: u64 = About::new("PPDUs", "PPDUs with data").sum();
        /// data frames of a PPDU, mean
        aggregate_mean: Option<f64> = About::new("frames", "mean aggregate").mean();
        /// packets that waited in the reorder buffer of the receiver for earlier ones, from 802.11n on
        reordered: u64 = About::new("packets", "packets held for order").lower().sum();
        /// how long they waited, mean
        reorder_wait_mean_s: Option<f64> = About::new("s", "mean wait for order").lower().mean();
        /// data frames received again, by sequence control (`FrameDuplicateCount`)
        duplicates: u64 = About::new("frames", "duplicates received").sum();
        /// data frames received correctly, duplicates included (`ReceivedFragmentCount`)
        received_fragments: u64 = About::new("frames", "data frames received").sum();
        /// those that were marked as a retransmission (`QosRetriesReceivedCount`)
        retries_received: u64 = About::new("frames", "retries received").sum();
        /// frames of any kind that the receiver detected and could not decode (`FCSErrorCount`)
        fcs_errors: u64 = About::new("frames", "frames not decoded").lower().sum();
        /// those of them that met another frame
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

columns! {
    /// The proxies of a split connection and the halves that begin at them, within the measured time; several count
    /// together.
    #[derive(Clone, Debug)]
    pub struct SplitSummary {
        /// senders of a split connection's proxies, joined by `+`
        transport: String = About::new("", "senders of the proxies");
        /// packets that the proxies of a split connection sent on, repetitions included
        packets_sent: u64 = About::new("packets", "packets sent").sum();
        /// packets from the proxies of a split connection that were lost
        packets_lost: u64 = About::new("packets", "packets lost").sum();
        /// packets that the proxies of a split connection sent again
        retransmitted_packets: u64 = About::new("packets", "retransmissions").sum().shown("proxy resent");
        /// expiries of the retransmission timer at the proxies of a split connection
        timeouts: u64 = About::new("", "timeouts").sum();
        /// mean RTT beyond the last proxy of a split connection, of segments that were sent once
        rtt_mean_s: Option<f64> = About::new("s", "mean RTT").lower().mean();
        /// bytes that the first proxy of a split connection took in order, over the measured time
        accepted_bit_s: f64 = About::new("bit/s", "rate accepted").sum();
        /// time average of what the proxies of a split connection held, what was under way from them included
        avg_held_bytes: f64 = About::new("bytes", "bytes held").mean();
        /// maximum that a proxy of a split connection held
        max_held_bytes: u64 = About::new("bytes", "maximum bytes held").mean();
        /// at the end of the run, bytes that the source knows to be acknowledged and the sink does not have
        acked_not_delivered_bytes: u64 = About::new("bytes", "acknowledged, not delivered").lower().sum()
            .shown("acked, not there");
        /// times that the state of a split connection moved to another proxy
        moves: u64 = About::new("", "moves").sum();
        /// bytes that moved with the state of a split connection
        moved_bytes: u64 = About::new("bytes", "bytes moved").sum();
        /// time during which the state of a split connection was moving and nothing passed
        halted_s: f64 = About::new("s", "time halted").lower().sum();
        /// connections that a proxy ended before their time: the other half timed out or was reset, or the state was
        /// lost
        resets: u64 = About::new("", "connections reset").lower().sum();
        /// bytes that proxies held of connections whose state was lost when their host moved
        lost_bytes: u64 = About::new("bytes", "bytes lost with the state").lower().sum();
    }
}

impl Summary {
    /// Reads a finished world that was built from `plan`; a run that was cut short has the `duration` that it had.
    pub fn new(plan: &Plan, seed: u64, world: &World, set_up: Duration, wall: Duration) -> Summary {
        let measured = plan.duration - plan.warmup;
        let network = &world.network;
        let mut flows: Vec<FlowSummary> = plan
            .flows
            .iter()
            .zip(&network.flows)
            .zip(world.senders.iter().zip(&world.sent))
            .enumerate()
            .filter(|(_, ((flow, _), _))| flow.has_row())
            .map(|(index, ((flow, stats), (sender, sent)))| {
                if let Some(class) = world.class_of(index) {
                    return FlowSummary::of_class(flow, class, measured);
                }
                let mut summary = FlowSummary::new(flow, stats, sender, sent, measured);
                summary.join_halves(plan, world, index, measured);
                summary.join_connections(plan, world, index, measured);
                summary.transfer_bytes = world.length_of(index);
                summary.history_samples = plan.history.as_ref().and(sender.report().history_samples);
                summary.drawn = FlowDraws(plan.drawn.flows.get(&index).cloned().unwrap_or_default());
                summary.loss_verdicts = network.verdicts(index).as_ref().map(LossVerdicts::new);
                summary
            })
            .collect();
        for (index, (flow, stats)) in flows.iter_mut().zip(&network.flows).enumerate() {
            flow.realtime = stats.realtime().map(|realtime| {
                let (unsent, whole) = (world.unsent_packets(index), world.numbers_are_whole(index));
                Box::new(RealtimeSummary::new(realtime, unsent, whole))
            });
            flow.call = CallSummary::of(world, index).map(Box::new);
            flow.repair = RepairSummary::of(world, index).map(Box::new);
        }
        let mut counters: BTreeMap<u32, Vec<(&'static str, u64)>> = BTreeMap::new();
        for (direction, name, count) in network.device_counters() {
            counters.entry(direction).or_default().push((name, count));
        }
        let mut links: Vec<LinkSummary> = plan
            .links
            .iter()
            .flat_map(|link| [link.name.clone(), format!("{} (reverse)", link.name)])
            .zip(network.links.iter().zip(0u32..))
            .map(|(name, (link, direction))| {
                let counters = counters.remove(&direction).unwrap_or_default();
                let radio = network.radio(direction).map(RadioSummary::new).map(Box::new);
                let tied_arrivals =
                    network.tied_arrivals(direction).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
                let summary = LinkSummary::new(name, link, &Counters(counters), measured);
                LinkSummary { tied_arrivals, radio, ..summary }
            })
            .collect();
        tell_shared_queues_once(&mut links, network, measured);
        let (by_helpers, by_links) = network.local_repairs();
        let ledger = network.measured;
        let mut totals = Totals {
            helper_retransmissions: by_helpers,
            helper_retransmission_share: by_helpers.and_then(|count| share(count, ledger.created)),
            link_retransmissions: by_links,
            link_retransmission_share: by_links.and_then(|count| share(count, ledger.created)),
            packets_carried_over: ledger.carried_over,
            packets_sent: ledger.created,
            packets_delivered: ledger.delivered,
            packets_lost: Causes(ledger.dropped),
            loss_share: share(ledger.dropped.iter().sum(), ledger.created),
            packets_in_flight: ledger.in_flight(),
            realtime_index: mean(&flows, |realtime| realtime.realtime_index),
            delayed_rate: mean(&flows, |realtime| realtime.delayed_rate),
            loss_over_sent: mean(&flows, |realtime| realtime.loss_over_sent),
            stall_share: mean(&flows, |realtime| realtime.stall_share),
            drawn: RunDraws(plan.drawn.run.clone()),
            ..Totals::default()
        };
        totals.add_up(plan, &flows, world);
        totals.count_pages(world, flows.len());
        Summary {
            seed,
            fingerprint: format!("{:016x}", network.fingerprint.value()),
            wall_s: wall.as_secs_f64(),
            set_up_s: set_up.as_secs_f64(),
            packet_hops: network.packet_hops,
            events: world.standing().events,
            duration_s: plan.duration.seconds(),
            measured_s: measured.seconds(),
            totals,
            flows,
            links,
            history: world.new_history().map(|entries| entries.iter().map(HistorySummary::new).collect()),
        }
    }
}

impl Totals {
    /// Fills in what is made of the rows of the flows alone; `flows` are those of the plan that are no halves of split
    /// connections.
    fn add_up(&mut self, plan: &Plan, flows: &[FlowSummary], world: &World) {
        self.goodput_bit_s = flows.iter().map(|flow| flow.goodput_bit_s).sum();
        self.throughput_bit_s = flows.iter().map(|flow| flow.throughput_bit_s).sum();
        self.jain_index = fairness(plan, flows, world);
        let transfers = transfers(plan, flows, world);
        if !transfers.is_empty() {
            let all = Times::new(transfers.iter().map(|transfer| transfer.1).collect());
            self.transfers = Some(all.count());
            self.finished_transfers = Some(all.finished());
            self.completion_p50_s = all.percentile(50);
            self.completion_p95_s = all.percentile(95);
            self.completion_p99_s = all.percentile(99);
            [self.small, self.middle, self.large] = SizeClass::of(&transfers);
        }
        self.count_repeats(flows);
    }

    /// Fills in the times of all pages; `rows`: how many flows have one.
    fn count_pages(&mut self, world: &World, rows: usize) {
        let window = world.network.window();
        let mut times = Vec::new();
        for flow in 0..rows {
            if let Some(Outcome::Pages(pages)) = world.outcome_of(flow) {
                times.extend(pages_within(pages, &window));
            }
        }
        if times.is_empty() {
            return;
        }
        let all = Times::new(times);
        self.pages = Some(all.count());
        self.finished_pages = Some(all.finished());
        self.page_time_p50_s = all.percentile(50);
        self.page_time_p95_s = all.percentile(95);
        self.page_time_p99_s = all.percentile(99);
    }

    /// Fills in retransmissions and timeouts of the flows, and their shares of what was sent.
    pub fn count_repeats(&mut self, flows: &[FlowSummary]) {
        let sent: u64 = flows.iter().map(|flow| flow.packets_sent).sum();
        let total = |of: fn(&FlowSummary) -> Option<u64>| flows.iter().map(of).reduce(sum_of).flatten();
        self.retransmitted_packets = total(|flow| flow.retransmitted_packets);
        self.retransmitted_share = self.retransmitted_packets.and_then(|count| share(count, sent));
        self.timeouts = total(|flow| flow.timeouts);
        self.timeout_share = self.timeouts.and_then(|count| share(count, sent));
    }
}

impl HistorySummary {
    fn new(entry: &HistoryEntry) -> HistorySummary {
        let HistoryEntry { endpoint, hour, weekday, month, window, week } = entry.clone();
        HistorySummary { endpoint, hour, weekday, month, window_segments: window, week }
    }
}

impl FlowSummary {
    fn new(
        flow: &FlowPlan,
        stats: &FlowStats,
        sender: &Endpoint,
        sent: &Sent,
        measured: Span,
    ) -> FlowSummary {
        let per_second = |bytes: u64| bytes as f64 * 8.0 / measured.seconds();
        let percents = [50.0, 95.0, 99.0];
        let delay = stats.delay.percentiles_seconds(&percents);
        let report = sender.report();
        let rtt = report.rtt.map_or_else(|| vec![None; 3], |samples| samples.percentiles_seconds(&percents));
        let slow_reader = matches!(&flow.transport, Transport::Tcp(config) if config.reader.is_some());
        let completed = report.completed.filter(|_| flow.traffic.offered().is_bounded());
        let can = Ability::of(&flow.transport);
        FlowSummary {
            name: flow.name.clone(),
            transport: transport_of(flow),
            goodput_bit_s: per_second(stats.bytes_delivered),
            throughput_bit_s: per_second(stats.bytes_received),
            bytes_delivered: stats.bytes_delivered,
            packets_sent: sent.packets,
            acks_sent: stats.acks_sent,
            packets_lost: Causes(stats.lost),
            acks_lost: Causes(stats.acks_lost),
            retransmitted_packets: can.send_again.then_some(report.retransmitted),
            timeouts: can.time_out.then_some(report.timeouts),
            fast_recoveries: can.recover.then_some(report.fast_recoveries),
            loss_verdicts: None,
            undone_reductions: can.undo.then_some(report.undone_reductions),
            zero_windows: slow_reader.then_some(report.zero_windows),
            zero_window_s: slow_reader.then(|| report.zero_window_time.seconds()),
            rtt_mean_s: report.rtt.and_then(lasthop_net::measure::Durations::mean_seconds),
            rtt_p50_s: rtt[0],
            rtt_p95_s: rtt[1],
            rtt_p99_s: rtt[2],
            delay_mean_s: stats.delay.mean_seconds(),
            delay_p50_s: delay[0],
            delay_p95_s: delay[1],
            delay_p99_s: delay[2],
            jitter_s: stats.jitter.mean_seconds(),
            jitter_rfc3550_s: stats.jitter.rfc3550_seconds(),
            start_s: sent.first.map(lasthop_core::time::Time::seconds),
            class: None,
            call: None,
            repair: None,
            realtime: None,
            split: None,
            voice: VoiceSummary::of(flow, stats, report.call).map(Box::new),
            player: None,
            web: None,
            history_samples: None,
            drawn: FlowDraws::default(),
            completion_s: completed.zip(sent.first).map(|(end, start)| end.since(start).seconds()),
            transfer_bytes: None,
            reset_s: report.reset.map(lasthop_core::time::Time::seconds),
            allowed_rate_bit_s: report.allowed_rate.map(|rate| rate * 8.0),
            loss_event_rate: report.loss_event_rate,
            expired_packets: report.expired,
        }
    }
}

/// What a sender can do, and tells of: the count of anything else is no zero, but absent.
struct Ability {
    send_again: bool,
    time_out: bool,
    recover: bool,
    undo: bool,
}

impl Ability {
    fn of(transport: &Transport) -> Ability {
        let [send_again, time_out, recover, undo] = match transport {
            Transport::Tcp(_) => [true; 4],
            Transport::Rate(config) => [config.sends_again(), true, false, false],
            Transport::Outside(_) => [true, false, true, false],
            Transport::Udp(_) => [false; 4],
        };
        Ability { send_again, time_out, recover, undo }
    }
}

/// What the transport of a flow is called.
fn transport_of(flow: &FlowPlan) -> String {
    match &flow.transport {
        Transport::Tcp(config) => config.name.clone(),
        Transport::Udp(_) => "udp".to_owned(),
        Transport::Rate(config) => config.protocol.name().to_owned(),
        Transport::Outside(config) => config.name.clone(),
    }
}

impl FlowSummary {
    /// The row of a class.
    fn of_class(flow: &FlowPlan, class: &ClassStats, measured: Span) -> FlowSummary {
        let per_second = |bytes: u64| bytes as f64 * 8.0 / measured.seconds();
        let slow_reader = matches!(&flow.transport, Transport::Tcp(config) if config.reader.is_some());
        let (rtt, delay) = (
            class.rtt.percentiles.map(|mean| mean.value()),
            class.delay.percentiles.map(|mean| mean.value()),
        );
        let can = Ability::of(&flow.transport);
        FlowSummary {
            name: flow.name.clone(),
            transport: transport_of(flow),
            goodput_bit_s: per_second(class.bytes_delivered),
            throughput_bit_s: per_second(class.bytes_received),
            bytes_delivered: class.bytes_delivered,
            packets_sent: class.packets_sent,
            acks_sent: class.acks_sent,
            packets_lost: Causes(class.lost),
            acks_lost: Causes(class.acks_lost),
            retransmitted_packets: can.send_again.then_some(class.retransmitted),
            timeouts: can.time_out.then_some(class.timeouts),
            fast_recoveries: can.recover.then_some(class.fast_recoveries),
            loss_verdicts: class.verdicts.as_ref().map(LossVerdicts::new),
            undone_reductions: can.undo.then_some(class.undone_reductions),
            zero_windows: slow_reader.then_some(class.zero_windows),
            zero_window_s: slow_reader.then(|| Span(class.zero_window_time).seconds()),
            rtt_mean_s: class.rtt.mean.value(),
            rtt_p50_s: rtt[0],
            rtt_p95_s: rtt[1],
            rtt_p99_s: rtt[2],
            delay_mean_s: class.delay.mean.value(),
            delay_p50_s: delay[0],
            delay_p95_s: delay[1],
            delay_p99_s: delay[2],
            jitter_s: class.jitter.value(),
            jitter_rfc3550_s: class.jitter_rfc3550.value(),
            start_s: class.start.value(),
            class: Some(Box::new(ClassSummary::new(class))),
            call: None,
            repair: None,
            realtime: None,
            split: None,
            voice: None,
            player: None,
            web: None,
            history_samples: None,
            drawn: FlowDraws::default(),
            completion_s: class.completion.value(),
            transfer_bytes: class.length.value().map(|bytes| bytes.round() as u64),
            reset_s: class.reset.value(),
            allowed_rate_bit_s: class.allowed_rate.value().map(|rate| rate * 8.0),
            loss_event_rate: class.loss_event_rate.value(),
            expired_packets: class.expired,
        }
    }

    /// Takes what the halves of a split connection behind the one with the number `first` say.
    fn join_halves(&mut self, plan: &Plan, world: &World, first: usize, measured: Span) {
        let mut halves = Vec::new();
        let mut last = first;
        while let Some((to, half)) = world.half_after(last) {
            halves.push((to, half));
            last = to;
        }
        let Some((_, proxy)) = halves.first() else { return };
        let accepted_bit_s = proxy.stats.relayed as f64 * 8.0 / measured.seconds();
        let end = FlowSummary::new(
            &plan.flows[last],
            &world.network.flows[last],
            &world.senders[last],
            &world.sent[last],
            measured,
        );
        let reports: Vec<_> = halves.iter().map(|&(to, _)| world.senders[to].report()).collect();
        let stats = || halves.iter().map(|(_, half)| half.stats);
        let flows = || halves.iter().map(|&(to, _)| &world.network.flows[to]);
        let transports = halves.iter().map(|&(to, _)| match &plan.flows[to].transport {
            Transport::Tcp(config) => config.name.as_str(),
            _ => "",
        });
        self.split = Some(SplitSummary {
            transport: transports.collect::<Vec<_>>().join("+"),
            packets_sent: halves.iter().map(|&(to, _)| world.sent[to].packets).sum(),
            packets_lost: flows().map(|flow| flow.lost.iter().sum::<u64>()).sum(),
            retransmitted_packets: reports.iter().map(|report| report.retransmitted).sum(),
            timeouts: reports.iter().map(|report| report.timeouts).sum(),
            rtt_mean_s: end.rtt_mean_s,
            accepted_bit_s,
            avg_held_bytes: stats().map(|stats| stats.mean_held(world.network.window())).sum(),
            max_held_bytes: stats().map(|stats| stats.most_held).max().unwrap_or(0),
            acked_not_delivered_bytes: world.acked_not_delivered(first, last),
            moves: stats().map(|stats| stats.moves).sum(),
            moved_bytes: stats().map(|stats| stats.moved).sum(),
            halted_s: stats().map(|stats| stats.halted.seconds()).sum(),
            resets: stats().map(|stats| stats.resets).sum(),
            lost_bytes: stats().map(|stats| stats.lost).sum(),
        });
        let completed = world.senders[last].report().completed.filter(|_| self.completion_s.is_some());
        self.completion_s =
            completed.zip(world.sent[first].first).map(|(end, start)| end.since(start).seconds());
        self.goodput_bit_s = end.goodput_bit_s;
        self.throughput_bit_s = end.throughput_bit_s;
        self.bytes_delivered = end.bytes_delivered;
        self.acks_sent = end.acks_sent;
        self.acks_lost = end.acks_lost;
        self.delay_mean_s = end.delay_mean_s;
        self.delay_p50_s = end.delay_p50_s;
        self.delay_p95_s = end.delay_p95_s;
        self.delay_p99_s = end.delay_p99_s;
        self.jitter_s = end.jitter_s;
        self.jitter_rfc3550_s = end.jitter_rfc3550_s;
    }
}

impl FlowSummary {
    /// Takes what the connections of a browser say, if the flow with the number `lead` stands for one.
    fn join_connections(&mut self, plan: &Plan, world: &World, lead: usize, measured: Span) {
        let Some(outcome) = world.outcome_of(lead) else { return };
        let (mut delivered, mut received) = (0, 0);
        for (number, (down, down_end, up)) in world.connections_of(lead).enumerate() {
            let came = &world.network.flows[down_end];
            delivered += came.bytes_delivered;
            received += came.bytes_received;
            // The first connection's answers are in the row; outside one flow has requests too.
            let further = [down, up].into_iter().skip(usize::from(number == 0));
            for flow in further.take(if up == down { usize::from(number > 0) } else { 2 }) {
                let stats = &world.network.flows[flow];
                let row = FlowSummary::new(
                    &plan.flows[flow],
                    stats,
                    &world.senders[flow],
                    &world.sent[flow],
                    measured,
                );
                self.packets_sent += row.packets_sent;
                self.acks_sent += row.acks_sent;
                self.packets_lost += row.packets_lost;
                self.acks_lost += row.acks_lost;
                self.retransmitted_packets = sum_of(self.retransmitted_packets, row.retransmitted_packets);
                self.timeouts = sum_of(self.timeouts, row.timeouts);
                self.fast_recoveries = sum_of(self.fast_recoveries, row.fast_recoveries);
                self.undone_reductions = sum_of(self.undone_reductions, row.undone_reductions);
                self.start_s = [self.start_s, row.start_s].into_iter().flatten().reduce(f64::min);
            }
        }
        let per_second = |bytes: u64| bytes as f64 * 8.0 / measured.seconds();
        self.bytes_delivered = delivered;
        self.goodput_bit_s = per_second(delivered);
        self.throughput_bit_s = per_second(received);
        match outcome {
            Outcome::Screen(screen) => {
                self.player = Some(Box::new(PlayerSummary::new(screen, world.network.window().to)));
            }
            Outcome::Pages(times) => {
                self.web = Some(Box::new(WebSummary::new(times, &world.network.window())));
            }
        }
    }
}

impl LinkSummary {
    fn new(name: String, link: &Link, counters: &Counters, measured: Span) -> LinkSummary {
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
            tied_arrivals: None,
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

/// Mean of a real-time metric over the flows that have it.
fn mean(flows: &[FlowSummary], metric: impl Fn(&RealtimeSummary) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = flows.iter().filter_map(|flow| metric(flow.realtime.as_ref()?)).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// What is counted over what there is; `None` of nothing.
fn share(count: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| count as f64 / of as f64)
}

/// The sum of two counts; none if neither is known.
fn sum_of(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).reduce(|one, other| one + other)
}

/// A station has one queue for all of its links: the row of the first tells of it, those of the others of none.
fn tell_shared_queues_once(links: &mut [LinkSummary], network: &Network, measured: Span) {
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

/// Lengths and completion times of the flows whose traffic has an end. `flows` are those of the plan that have a row.
fn transfers(plan: &Plan, flows: &[FlowSummary], world: &World) -> Vec<(u64, Option<f64>)> {
    let planned = plan.flows.iter().filter(|flow| flow.has_row());
    let classes = (0..flows.len()).filter_map(|index| world.class_of(index));
    // A flow that would have arrived after the end took no part.
    let took_part =
        |flow: &FlowPlan, row: &FlowSummary| !matches!(flow.start, Start::After(_)) || row.start_s.is_some();
    let alone = (planned.zip(flows)).filter(|(_, row)| row.class.is_none());
    alone
        .filter(|(flow, row)| flow.traffic.offered().is_bounded() && took_part(flow, row))
        .map(|(_, row)| (row.transfer_bytes.unwrap_or(0), row.completion_s))
        .chain(classes.flat_map(|class| class.transfers.iter().copied()))
        .collect()
}

/// What a flow offers and whether it yields: only what is alike in both can share fairly. `None` can share with none.
fn kind_of(flow: &FlowPlan) -> Option<(bool, Likeness, Option<u64>)> {
    let yields = !matches!(flow.transport, Transport::Udp(_));
    let offered = flow.traffic.offered();
    Some((yields, offered.likeness()?, offered.nominal_rate().map(|rate| rate.0)))
}

/// Jain's index of the goodput of the flows of a plan (`flows`: without halves of split connections), if all are of
/// one kind.
fn fairness(plan: &Plan, flows: &[FlowSummary], world: &World) -> Option<f64> {
    let kinds: Vec<_> = plan.flows.iter().filter(|flow| flow.has_row()).map(kind_of).collect();
    let is_one_kind =
        kinds.first().is_none_or(Option::is_some) && kinds.windows(2).all(|pair| pair[0] == pair[1]);
    if kinds.len() != flows.len() || !is_one_kind {
        return None;
    }
    // By class: as if each of its flows had a row.
    let mut all = (0.0, 0.0, 0);
    for (index, (flow, row)) in plan.flows.iter().zip(flows).enumerate() {
        let (squares, count) = match (&flow.class, world.class_of(index)) {
            (Some(plan), Some(class)) if class.bytes_delivered > 0 => {
                let per_byte = row.goodput_bit_s / class.bytes_delivered as f64;
                (class.squares * per_byte * per_byte, plan.count)
            }
            (Some(plan), _) => (0.0, plan.count),
            _ => (row.goodput_bit_s.powi(2), 1),
        };
        all = (all.0 + row.goodput_bit_s, all.1 + squares, all.2 + count);
    }
    index_of(all)
}

/// Jain's fairness index (Jain, Chiu & Hawe 1984); of nothing there is none.
pub fn jain_index(values: &[f64]) -> Option<f64> {
    let squares = values.iter().map(|value| value * value).sum();
    index_of((values.iter().sum(), squares, values.len() as u64))
}

/// The same of `count` values, by their sum and the sum of their squares.
fn index_of((sum, squares, count): (f64, f64, u64)) -> Option<f64> {
    (squares > 0.0).then(|| sum * sum / (count as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NV-8.2.
    #[test]
    fn jain_index_of_known_values() {
        assert!((jain_index(&[1.0, 2.0, 3.0]).unwrap() - 0.857_142_857).abs() < 1e-9);
        assert_eq!(jain_index(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[0.0, 0.0]), None);
    }
}
