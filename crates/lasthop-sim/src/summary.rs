//! The summary of a run: per flow, per link and in total. Every number has its unit in its name.
//!
//! These are the objects of `lasthop run --json`; the field names are a promise to users.

use std::collections::BTreeMap;
use std::time::Duration;

use lasthop_core::packet::{Cause, Drops};
use lasthop_core::time::Span;
use lasthop_net::history::HistoryEntry;
use lasthop_net::link::Link;
use lasthop_net::measure::FlowStats;
use lasthop_net::plan::{FlowPlan, Plan, Transport};
use lasthop_net::realtime::plan::DelayedOver;
use lasthop_net::realtime::{Realtime, RealtimeReport};
use lasthop_net::transport::tcp::sender::Verdicts;
use lasthop_net::world::{Sender, Sent, World};
use serde::{Serialize, Serializer};

/// Counts by cause.
pub type Causes = BTreeMap<&'static str, u64>;

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Seed of the run.
    pub seed: u64,
    /// Hash of everything that happened on links, as 16 hexadecimal digits.
    pub fingerprint: String,
    /// Wall-clock time of the run, set-up included.
    pub wall_s: f64,
    /// The part of it that set-up took.
    pub set_up_s: f64,
    /// Packets times links.
    pub packet_hops: u64,
    /// Events of the queue.
    pub events: u64,
    /// Simulated time.
    pub duration_s: f64,
    /// Simulated time that was measured.
    pub measured_s: f64,
    /// Sums over flows.
    pub totals: Totals,
    /// One entry per flow.
    pub flows: Vec<FlowSummary>,
    /// Two entries per link: forward and reverse.
    pub links: Vec<LinkSummary>,
    /// What the run has added to the history of paths, if it keeps one; of the whole run, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<HistorySummary>>,
}

/// A connection that has ended, for the history of paths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistorySummary {
    /// The node at the other end.
    pub endpoint: String,
    /// Hour of the day at which the connection opened, 0 to 23.
    pub hour: u8,
    /// Day of the week, 0 for Monday to 6.
    pub weekday: u8,
    /// Month, 1 to 12.
    pub month: u8,
    /// Time average of the congestion window over the second half of the connection.
    pub window_segments: f64,
}

/// Sums over flows. The ledger (`packets_*`) covers the whole run, the rest the measured time.
#[derive(Clone, Debug, Serialize)]
pub struct Totals {
    /// Payload delivered in order, once.
    pub goodput_bit_s: f64,
    /// Wire bits that arrived at receivers.
    pub throughput_bit_s: f64,
    /// Jain's index over the goodput of all flows; 1 if nothing was delivered.
    pub jain_index: f64,
    /// Segments sent again.
    pub retransmitted_packets: u64,
    /// Expiries of retransmission timers.
    pub timeouts: u64,
    /// Packets handed to the network, in both directions.
    pub packets_sent: u64,
    /// Packets that reached an endpoint.
    pub packets_delivered: u64,
    /// Packets lost, by cause.
    pub packets_lost: Causes,
    /// Packets under way at the end.
    pub packets_in_flight: u64,
    /// Mean of the flows' Real-Time Performance Indices, over those that have one.
    pub realtime_index: Option<f64>,
    /// Mean of their rates of delayed packets.
    pub delayed_rate: Option<f64>,
    /// Mean of their losses over packets sent.
    pub loss_over_sent: Option<f64>,
    /// Mean of the shares of time in which playing stood still.
    pub stall_share: Option<f64>,
}

/// One flow, within the measured time.
#[derive(Clone, Debug, Serialize)]
pub struct FlowSummary {
    /// Name of the flow.
    pub name: String,
    /// Preset or combination.
    pub transport: String,
    /// Payload delivered in order, once.
    pub goodput_bit_s: f64,
    /// Wire bits that arrived at the receiver.
    pub throughput_bit_s: f64,
    /// Payload delivered in order.
    pub bytes_delivered: u64,
    /// Packets sent from sender to receiver.
    pub packets_sent: u64,
    /// Packets sent from receiver to sender.
    pub acks_sent: u64,
    /// Packets from sender to receiver that were lost.
    pub packets_lost: Causes,
    /// Packets from receiver to sender that were lost.
    pub acks_lost: Causes,
    /// Segments sent again.
    pub retransmitted_packets: u64,
    /// Expiries of the retransmission timer; for rate-based senders, silences of the receiver that lowered the rate or
    /// began a blackout.
    pub timeouts: u64,
    /// Recovery episodes begun by duplicate ACKs or SACK.
    pub fast_recoveries: u64,
    /// What losses were taken for, if the sender tells them apart.
    pub loss_verdicts: Option<LossVerdicts>,
    /// Reductions of the window that were undone, because nothing had been lost.
    pub undone_reductions: u64,
    /// RTT of segments sent once.
    pub rtt_mean_s: Option<f64>,
    /// Median.
    pub rtt_p50_s: Option<f64>,
    /// 95th percentile.
    pub rtt_p95_s: Option<f64>,
    /// 99th percentile.
    pub rtt_p99_s: Option<f64>,
    /// First transmission to first arrival of each packet.
    pub delay_mean_s: Option<f64>,
    /// Median.
    pub delay_p50_s: Option<f64>,
    /// 95th percentile.
    pub delay_p95_s: Option<f64>,
    /// 99th percentile.
    pub delay_p99_s: Option<f64>,
    /// Mean difference of the transit times of consecutive arrivals.
    pub jitter_s: Option<f64>,
    /// Running value of RFC 3550 at the end.
    pub jitter_rfc3550_s: Option<f64>,
    /// First transmission.
    pub start_s: Option<f64>,
    /// First transmission to the last acknowledgement of a bounded transfer.
    pub completion_s: Option<f64>,
    /// Time average of the rate that a rate-based sender allowed itself, in bits of payload.
    pub allowed_rate_bit_s: Option<f64>,
    /// Mean of the loss event rates that were reported to a TFRC sender.
    pub loss_event_rate: Option<f64>,
    /// Packets that a rate-based sender dropped itself: past their deadline, or its queue was full.
    pub expired_packets: u64,
    /// Real-time metrics, if the flow is measured so.
    pub realtime: Option<RealtimeSummary>,
    /// Windows of earlier connections that the flow could start from, if the run keeps a history of paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_samples: Option<usize>,
}

/// The confusion matrix of a sender that tells losses apart: what its reactions answered, by what that really was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LossVerdicts {
    /// A queue had overflowed.
    pub congestion: Beliefs,
    /// The packet had been lost in the air: an error, an outage, a link that gave up.
    pub wireless: Beliefs,
    /// Nothing had been lost: a spurious timeout, or packets out of order.
    pub nothing: Beliefs,
}

/// What the sender took it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Beliefs {
    /// For congestion.
    pub congestion: u64,
    /// For a loss in the air.
    pub wireless: u64,
}

impl LossVerdicts {
    fn new(verdicts: &Verdicts) -> LossVerdicts {
        let [congestion, wireless, nothing] =
            verdicts.counts.map(|[congestion, wireless]| Beliefs { congestion, wireless });
        LossVerdicts { congestion, wireless, nothing }
    }
}

/// How useful a flow is to a viewer or listener, within the measured time, and by which definitions. A packet counts if
/// it was first transmitted in that time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RealtimeSummary {
    /// Packets that arrived, without the delayed ones.
    pub timely_packets: u64,
    /// Packets that arrived more than the threshold after their neighbour.
    pub delayed_packets: u64,
    /// Packets that arrived.
    pub received_packets: u64,
    /// Packets that the application's data fill; `None` for a file without end.
    pub generated_packets: Option<u64>,
    /// Packets that were transmitted at least once.
    pub transmitted_packets: u64,
    /// Transmissions of packets with data, repetitions included.
    pub transmissions: u64,
    /// Transmissions that the network lost.
    pub lost_transmissions: u64,
    /// Real-Time Performance Index: timely packets over packets sent.
    pub realtime_index: Option<f64>,
    /// Delayed packets, over what `delayed_over` says.
    pub delayed_rate: Option<f64>,
    /// Delayed packets over packets sent.
    pub delayed_over_sent: Option<f64>,
    /// Delayed packets over packets received.
    pub delayed_over_received: Option<f64>,
    /// Lost transmissions over packets generated.
    pub loss_over_generated: Option<f64>,
    /// Lost transmissions over all transmissions.
    pub loss_over_sent: Option<f64>,
    /// `success_<x>_percent`: percentage of slots in which at least x % of the target arrived.
    #[serde(flatten)]
    pub success: Success,
    /// Video: from the first frame's generation to the start of playing.
    pub startup_s: Option<f64>,
    /// Video over a reliable transport: how often playing stopped for want of a frame.
    pub stalls: Option<u64>,
    /// For how long it stood still.
    pub stall_s: Option<f64>,
    /// That time over itself and the time of playing.
    pub stall_share: Option<f64>,
    /// Video over an unreliable transport: frames that could be decoded in time over all that were due.
    pub decodable_share: Option<f64>,
    /// The definitions in force.
    pub options: RealtimeOptions,
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

/// One direction of a link, within the measured time.
#[derive(Clone, Debug, Serialize)]
pub struct LinkSummary {
    /// Name of the direction.
    pub name: String,
    /// Time average of waiting packets, without the one in service.
    pub avg_queue_packets: f64,
    /// Time average of waiting packets and the one in service.
    pub avg_system_packets: f64,
    /// Mean number of waiting packets that arriving packets found; `None` if none arrived.
    pub avg_queue_found_packets: Option<f64>,
    /// Most waiting packets.
    pub max_queue_packets: u32,
    /// Share of the time spent transmitting.
    pub utilisation: f64,
    /// Transmissions.
    pub packets_sent: u64,
    /// Bytes of those.
    pub bytes_sent: u64,
    /// Packets lost, by cause.
    pub drops: Causes,
    /// Packets marked (ECN).
    pub marks: u64,
    /// What link-layer retransmission did, on a link that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arq: Option<ArqSummary>,
}

/// Link-layer retransmission on one direction of a link, within the measured time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ArqSummary {
    /// Transmissions beyond the first of each frame; `packets_sent` of the link counts all.
    pub retransmissions: u64,
    /// Frames given up by the sending side, lost or not.
    pub given_up: u64,
    /// Link acknowledgements lost.
    pub acks_lost: u64,
}

impl Summary {
    /// Reads a finished world.
    pub(crate) fn new(plan: &Plan, seed: u64, world: &World, set_up: Duration, wall: Duration) -> Summary {
        let measured = plan.duration - plan.warmup;
        let network = &world.network;
        let mut flows: Vec<FlowSummary> = plan
            .flows
            .iter()
            .zip(&network.flows)
            .zip(world.senders.iter().zip(&world.sent))
            .map(|((flow, stats), (sender, sent))| {
                let mut summary = FlowSummary::new(flow, stats, sender, sent, measured);
                if let (Some(_), Sender::Tcp(sender)) = (&plan.history, sender) {
                    summary.history_samples = Some(sender.history_samples());
                }
                summary
            })
            .collect();
        for (index, (flow, stats)) in flows.iter_mut().zip(&network.flows).enumerate() {
            flow.realtime = stats.realtime().map(|realtime| {
                RealtimeSummary::new(realtime, world.unsent_packets(index), world.numbers_are_whole(index))
            });
        }
        let links = plan
            .links
            .iter()
            .flat_map(|link| [link.name.clone(), format!("{} (reverse)", link.name)])
            .zip(&network.links)
            .map(|(name, link)| LinkSummary::new(name, link, measured))
            .collect();
        let goodputs: Vec<f64> = flows.iter().map(|flow| flow.goodput_bit_s).collect();
        let totals = Totals {
            goodput_bit_s: goodputs.iter().sum(),
            throughput_bit_s: flows.iter().map(|flow| flow.throughput_bit_s).sum(),
            jain_index: jain_index(&goodputs),
            retransmitted_packets: flows.iter().map(|flow| flow.retransmitted_packets).sum(),
            timeouts: flows.iter().map(|flow| flow.timeouts).sum(),
            packets_sent: network.ledger.created,
            packets_delivered: network.ledger.delivered,
            packets_lost: causes(&network.ledger.dropped),
            packets_in_flight: network.ledger.in_flight,
            realtime_index: mean(&flows, |realtime| realtime.realtime_index),
            delayed_rate: mean(&flows, |realtime| realtime.delayed_rate),
            loss_over_sent: mean(&flows, |realtime| realtime.loss_over_sent),
            stall_share: mean(&flows, |realtime| realtime.stall_share),
        };
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
        let HistoryEntry { endpoint, hour, weekday, month, window } = entry.clone();
        HistorySummary { endpoint, hour, weekday, month, window_segments: window }
    }
}

impl FlowSummary {
    fn new(flow: &FlowPlan, stats: &FlowStats, sender: &Sender, sent: &Sent, measured: Span) -> FlowSummary {
        let per_second = |bytes: u64| bytes as f64 * 8.0 / measured.seconds();
        let percents = [50.0, 95.0, 99.0];
        let delay = stats.delay.percentiles_seconds(&percents);
        let tcp = match sender {
            Sender::Tcp(sender) => Some(&sender.stats),
            Sender::Udp(_) | Sender::Rate(_) => None,
        };
        let paced = match sender {
            Sender::Rate(sender) => Some(sender),
            Sender::Tcp(_) | Sender::Udp(_) => None,
        };
        let samples = tcp.map(|tcp| &tcp.rtt).or(paced.map(|paced| &paced.stats.rtt));
        let rtt = samples.map_or_else(|| vec![None; 3], |samples| samples.percentiles_seconds(&percents));
        let completed = tcp
            .map(|tcp| (tcp.completed, tcp.withdrawn))
            .or(paced.map(|paced| (paced.stats.completed, paced.stats.withdrawn)))
            .and_then(|(completed, withdrawn)| completed.filter(|_| !withdrawn))
            .filter(|_| World::is_bounded(&flow.traffic));
        FlowSummary {
            name: flow.name.clone(),
            transport: match &flow.transport {
                Transport::Tcp(config) => config.name.clone(),
                Transport::Udp(_) => "udp".to_owned(),
                Transport::Rate(config) => config.protocol.name().to_owned(),
            },
            goodput_bit_s: per_second(stats.bytes_delivered),
            throughput_bit_s: per_second(stats.bytes_received),
            bytes_delivered: stats.bytes_delivered,
            packets_sent: sent.packets,
            acks_sent: stats.acks_sent,
            packets_lost: causes(&stats.lost),
            acks_lost: causes(&stats.acks_lost),
            retransmitted_packets: tcp
                .map(|tcp| tcp.retransmitted)
                .or(paced.map(|paced| paced.stats.retransmitted))
                .unwrap_or(0),
            timeouts: tcp.map(|tcp| tcp.timeouts).or(paced.map(|paced| paced.stats.timeouts)).unwrap_or(0),
            fast_recoveries: tcp.map_or(0, |tcp| tcp.fast_recoveries),
            loss_verdicts: match &flow.transport {
                Transport::Tcp(config) if config.needs().classifies => {
                    tcp.map(|tcp| LossVerdicts::new(&tcp.verdicts))
                }
                _ => None,
            },
            undone_reductions: tcp.map_or(0, |tcp| tcp.undone_reductions),
            rtt_mean_s: samples.and_then(lasthop_net::measure::Durations::mean_seconds),
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
            realtime: None,
            history_samples: None,
            completion_s: completed.zip(sent.first).map(|(end, start)| end.since(start).seconds()),
            allowed_rate_bit_s: paced.map(|paced| paced.mean_rate() * 8.0),
            loss_event_rate: paced.and_then(|paced| paced.mean_loss_rate()),
            expired_packets: paced.map_or(0, |paced| paced.stats.expired),
        }
    }
}

impl LinkSummary {
    fn new(name: String, link: &Link, measured: Span) -> LinkSummary {
        let stats = &link.stats;
        let length = measured.0 as f64;
        LinkSummary {
            name,
            avg_queue_packets: stats.waiting as f64 / length,
            avg_system_packets: (stats.waiting + stats.busy) as f64 / length,
            avg_queue_found_packets: link.mean_found_waiting(),
            max_queue_packets: link.max_waiting,
            utilisation: stats.busy as f64 / length,
            packets_sent: stats.packets,
            bytes_sent: stats.bytes,
            drops: causes(&link.drops),
            marks: link.marks,
            arq: link.arq.as_ref().map(|arq| ArqSummary {
                retransmissions: arq.stats.retransmissions,
                given_up: arq.stats.given_up,
                acks_lost: arq.stats.acks_lost,
            }),
        }
    }
}

fn causes(drops: &Drops) -> Causes {
    Cause::NAMES.into_iter().zip(drops.iter().copied()).collect()
}

/// Mean of a real-time metric over the flows that have it.
fn mean(flows: &[FlowSummary], metric: impl Fn(&RealtimeSummary) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = flows.iter().filter_map(|flow| metric(flow.realtime.as_ref()?)).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Jain's fairness index (Jain, Chiu & Hawe 1984); all zero gives 1 by convention.
pub fn jain_index(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    if squares == 0.0 {
        return 1.0;
    }
    sum * sum / (values.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NV-8.2.
    #[test]
    fn jain_index_of_known_values() {
        assert!((jain_index(&[1.0, 2.0, 3.0]) - 0.857_142_857).abs() < 1e-9);
        assert_eq!(jain_index(&[1.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain_index(&[0.0, 0.0]), 1.0);
    }
}
