//! The summary of a run: per flow, per link and in total, a file for each. Every number has its unit in its name.
//!
//! These are the objects of `lasthop run --json`, whose field names are a promise to users, and the columns of the
//! tables of a run: what is declared here with `columns!` is all that is known of them anywhere. To measure something
//! more is a field and the line that fills it in, both in one file; what a kind of device counts stands in
//! [`crate::columns::devices`] alone.

use std::collections::BTreeMap;
use std::time::Duration;

use lasthop_net::history::HistoryEntry;
use lasthop_net::plan::Plan;
use lasthop_net::world::World;

use self::link::tell_shared_queues_once;
use crate::columns;
use crate::columns::About;
use crate::columns::devices::Counters;

pub use self::flow::{Beliefs, FlowSummary, LossVerdicts, SignsAtLosses};
pub use self::link::{LinkSummary, RadioSummary};
pub use self::realtime::{RealtimeOptions, RealtimeSummary, Success};
pub use self::split::SplitSummary;
pub use self::totals::{Totals, jain_index};
pub use crate::applications::{ClassSummary, PlayerSummary, SizeClass, VoiceSummary, WebSummary};
pub use crate::call::CallSummary;
pub use crate::columns::Causes;
pub use crate::draws::{FlowDraws, RunDraws};
pub use crate::repair::RepairSummary;

mod flow;
mod link;
mod realtime;
mod split;
mod totals;

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
                let verdicts = network.verdicts(index);
                summary.loss_verdicts = verdicts.as_ref().map(LossVerdicts::new);
                summary.loss_signs = verdicts.as_ref().and_then(SignsAtLosses::of);
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
                LinkSummary { radio, ..LinkSummary::new(name, link, &Counters(counters), measured) }
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

impl HistorySummary {
    fn new(entry: &HistoryEntry) -> HistorySummary {
        let HistoryEntry { endpoint, hour, weekday, month, window, week } = entry.clone();
        HistorySummary { endpoint, hour, weekday, month, window_segments: window, week }
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
