//! How useful a flow is to a viewer or listener, and the definitions behind the figures.

use lasthop_core::time::Span;
use lasthop_net::realtime::plan::DelayedOver;
use lasthop_net::realtime::{Realtime, RealtimeReport};
use serde::{Serialize, Serializer};

use crate::columns;
use crate::columns::{About, Column, Context, Field, Kind, Value};

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
        /// packets that were transmitted, those that the data still waiting at the sender at the end would fill, and
        /// those that a rate-based sender dropped; data withdrawn when the application stops does not count. Null for
        /// a file without end and for a real stack
        generated_packets: Option<u64> = About::new("packets", "packets generated").sum();
        /// packets with data that left the sender at least once
        transmitted_packets: u64 = About::new("packets", "packets transmitted").sum();
        /// transmissions of packets with data, retransmissions included
        transmissions: u64 = About::new("packets", "transmissions").sum();
        /// transmissions that the network lost, including those of copies that helpers such as Snoop sent; losses that
        /// a link repairs itself do not count
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
    pub(super) fn new(realtime: &Realtime, unsent: Option<u64>, whole: bool) -> RealtimeSummary {
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
