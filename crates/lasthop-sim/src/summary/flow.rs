//! What one flow did: its columns, and how they are filled in for a flow, a class of flows, and a browser.

use lasthop_core::time::Span;
use lasthop_net::measure::{ClassStats, FlowStats};
use lasthop_net::network::truth::{SignsSeen, Verdicts};
use lasthop_net::plan::{FlowPlan, Plan, Transport};
use lasthop_net::traffic::client::Outcome;
use lasthop_net::transport::endpoint::Endpoint;
use lasthop_net::world::{Sent, World};

use super::{RealtimeSummary, SplitSummary, sum_of};
use crate::applications::{ClassSummary, PlayerSummary, VoiceSummary, WebSummary};
use crate::call::CallSummary;
use crate::columns;
use crate::columns::{About, Causes};
use crate::draws::FlowDraws;
use crate::repair::RepairSummary;

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
        /// bytes on the wire that reached the receiver, headers and retransmissions included, over the measured time
        throughput_bit_s: f64 = About::new("bit/s", "throughput").sum();
        /// bytes handed to the application
        bytes_delivered: u64 = About::new("bytes", "bytes delivered").higher().sum();
        /// packets from sender to receiver, retransmissions included
        packets_sent: u64 = About::new("packets", "packets sent").sum();
        /// packets from receiver to sender
        acks_sent: u64 = About::new("packets", "ACKs sent").sum();
        /// packets from sender to receiver that were lost
        packets_lost: Causes = About::new("packets", "packets lost").called("lost_{}_packets").sum();
        /// packets from receiver to sender that were lost
        acks_lost: Causes = About::new("packets", "ACKs lost").called("lost_{}_acks").sum();
        /// data packets that were retransmitted; null for senders that never retransmit, such as those of datagrams
        retransmitted_packets: Option<u64> =
            About::new("packets", "retransmissions").sum().shown("retransmitted");
        /// expiries of the retransmission timer; for rate-based senders, silences of the receiver that lowered the rate
        /// or began a blackout; null for datagrams, and for real stacks, which do not report them
        timeouts: Option<u64> = About::new("", "timeouts").sum().shown("timeouts");
        /// recovery episodes started by duplicate ACKs or SACK; null for senders without fast recovery
        fast_recoveries: Option<u64> = About::new("", "fast recoveries").sum();
        /// What losses were taken for, if the sender tells them apart.
        loss_verdicts: Option<LossVerdicts> = About::group("{}", "{}");
        /// What the law had counted when it judged losses, if it counts signs of their causes.
        #[serde(skip_serializing_if = "Option::is_none")]
        loss_signs: Option<Box<SignsAtLosses>> = About::group("at_losses_{}", "at losses: {}");
        /// window reductions that were undone because nothing had been lost (F-RTO, Eifel, DSACK); null for all but
        /// TCP
        undone_reductions: Option<u64> = About::new("", "undone reductions").sum();
        /// only with `reader`: how often the receiver closed its window
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
        /// from the first transmission to the last ACK of a transfer of given length; null if it did not finish,
        /// or if the transport does not retransmit until all has arrived
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

columns! {
    /// Signs of the causes of losses, as a law that counts them had them at the losses that it judged.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct SignsAtLosses {
        /// what decides, theta of XJTCP: above 1 for the channel, below 1 for congestion; mean over the losses
        theta_mean: f64 = About::new("", "mean theta").mean();
        /// least theta
        theta_least: f64 = About::new("", "least theta").mean();
        /// greatest theta
        theta_greatest: f64 = About::new("", "greatest theta").mean();
        /// smoothed number of signs of a bad channel, N of XJTCP; mean over the losses
        channel_signs_mean: f64 = About::new("", "mean N, signs of a bad channel").mean();
        /// smoothed number of signs of congestion, C of XJTCP; mean over the losses
        congestion_signs_mean: f64 = About::new("", "mean C, signs of congestion").mean();
    }
}

impl SignsAtLosses {
    pub(super) fn of(verdicts: &Verdicts) -> Option<Box<SignsAtLosses>> {
        let SignsSeen { losses, theta, least_theta, greatest_theta, channel, congestion } = verdicts.signs?;
        let mean = |sum: f64| sum / losses as f64;
        Some(Box::new(SignsAtLosses {
            theta_mean: mean(theta),
            theta_least: least_theta,
            theta_greatest: greatest_theta,
            channel_signs_mean: mean(channel),
            congestion_signs_mean: mean(congestion),
        }))
    }
}

impl LossVerdicts {
    pub(super) fn new(verdicts: &Verdicts) -> LossVerdicts {
        let [congestion, wireless, nothing] =
            verdicts.counts.map(|[congestion, wireless]| Beliefs { congestion, wireless });
        LossVerdicts { congestion, wireless, nothing }
    }
}

impl FlowSummary {
    pub(super) fn new(
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
            loss_signs: None,
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
    pub(super) fn of_class(flow: &FlowPlan, class: &ClassStats, measured: Span) -> FlowSummary {
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
            loss_signs: class.verdicts.as_ref().and_then(SignsAtLosses::of),
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
            class: Some(Box::new(ClassSummary::new(class, flow.transport.is_reliable()))),
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

    /// Takes what the connections of a browser say, if the flow with the number `lead` stands for one.
    pub(super) fn join_connections(&mut self, plan: &Plan, world: &World, lead: usize, measured: Span) {
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
