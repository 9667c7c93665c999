//! The results of connections that ran in parts: where proxies split them, each part of the path has flows of its own.
//!
//! As in a simulation there is one row for a direction of a connection. Arrivals are those at its far end, the sender's
//! side is that at its near end, and what the proxies did has columns of its own. `rows.rs` calls it at the end of a
//! run.

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::plan::{Plan, Relay};
use lasthop_sim::summary::{FlowSummary, SplitSummary, Summary};

use crate::drive::Proxies;
use crate::passage::Passage;
use crate::proxy::JointReport;

/// A direction of a flow of the world: 0 from its source, 1 from its sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) flow: usize,
    pub(crate) way: usize,
}

/// Joins `rows` of `summary` and of `plan`, of which the first `whole` begin at hosts, the others at proxies.
pub(crate) fn join(
    summary: &mut Summary,
    plan: &mut Plan,
    (rows, whole): (&[Row], usize),
    (passage, proxies): (&Passage, &mut Proxies),
) {
    let now = Time::ZERO + plan.duration;
    let measured = plan.duration - plan.warmup;
    let parts = summary.flows.split_off(whole);
    let pairs = passage.pairs();
    for (number, row) in summary.flows.iter_mut().enumerate() {
        let Row { flow, way } = rows[number];
        let Some(first) = pairs.iter().position(|pair| pair.flows.contains(&flow)) else { continue };
        let Some(connection) = passage.connection(flow) else { continue };
        let mut before = number;
        for pair in (first + 1..pairs.len()).take_while(|&pair| pairs[pair].part.0 > 0) {
            let flow = if connection.is_rest {
                pairs[pair].flows.end - 1
            } else {
                let Some(flow) = passage.flow_in(pair, &connection.tuple) else { break };
                flow
            };
            let Some(part) = rows[whole..].iter().position(|&other| other == Row { flow, way }) else {
                break;
            };
            plan.flows[whole + part].relay = Some(passing_on(before));
            plan.flows[whole + part].name =
                format!("{}@{}", row.name, plan.nodes[plan.flows[whole + part].source]);
            before = whole + part;
            if way == 0 {
                take_arrivals(row, &parts[part]);
            } else {
                // What goes from the sink to the source enters at the last part.
                take_departures(row, &parts[part]);
            }
            let proxy = proxies.all.iter_mut().find(|(before, _)| before + 1 == pair);
            let Some((_, proxy)) = proxy else { continue };
            if let Some([forward, back]) = proxy.report(&connection.tuple, now) {
                let report = if way == 0 { forward } else { back };
                // The sender of a proxy that sends on what goes back is that of the part before it.
                let own = if way == 0 { &parts[part] } else { &*row };
                let split = split_of((&report, proxy.transport(way)), own, row.split.clone(), measured);
                row.split = Some(split);
            }
        }
    }
}

/// What makes a flow of the results the part behind the flow `of`. Nothing runs by it any more.
fn passing_on(of: usize) -> Relay {
    Relay {
        of,
        late: false,
        backhaul: Rate(0),
        transfer: Span::ZERO,
        moves: false,
        zero_windows: false,
        split: (0, false),
    }
}

/// What is sent, is sent at the beginning of this part.
fn take_departures(row: &mut FlowSummary, first: &FlowSummary) {
    row.packets_sent = first.packets_sent;
    row.packets_lost = first.packets_lost;
    row.retransmitted_packets = first.retransmitted_packets;
    row.rtt_mean_s = first.rtt_mean_s;
    row.rtt_p50_s = first.rtt_p50_s;
    row.rtt_p95_s = first.rtt_p95_s;
    row.rtt_p99_s = first.rtt_p99_s;
    row.start_s = first.start_s;
}

/// What arrives, arrives at the end of the last part.
fn take_arrivals(row: &mut FlowSummary, last: &FlowSummary) {
    row.goodput_bit_s = last.goodput_bit_s;
    row.throughput_bit_s = last.throughput_bit_s;
    row.bytes_delivered = last.bytes_delivered;
    row.acks_sent = last.acks_sent;
    row.acks_lost = last.acks_lost;
    row.delay_mean_s = last.delay_mean_s;
    row.delay_p50_s = last.delay_p50_s;
    row.delay_p95_s = last.delay_p95_s;
    row.delay_p99_s = last.delay_p99_s;
    row.jitter_s = last.jitter_s;
    row.jitter_rfc3550_s = last.jitter_rfc3550_s;
}

/// What a proxy did, together with those before it.
fn split_of(
    (report, transport): (&JointReport, &str),
    part: &FlowSummary,
    before: Option<SplitSummary>,
    measured: Span,
) -> SplitSummary {
    let accepted_bit_s = report.pipe.relayed as f64 * 8.0 / measured.seconds();
    let own = SplitSummary {
        transport: transport.to_owned(),
        packets_sent: part.packets_sent,
        packets_lost: part.packets_lost.values().sum(),
        retransmitted_packets: part.retransmitted_packets.unwrap_or(0),
        timeouts: report.timeouts,
        rtt_mean_s: part.rtt_mean_s,
        accepted_bit_s,
        avg_held_bytes: report.pipe.held_time as f64 / measured.0.max(1) as f64,
        max_held_bytes: report.pipe.most_held,
        acked_not_delivered_bytes: report.acked_not_delivered,
        moves: 0,
        moved_bytes: 0,
        halted_s: 0.0,
        resets: u64::from(report.is_reset),
        lost_bytes: 0,
    };
    let Some(before) = before else { return own };
    SplitSummary {
        transport: format!("{}+{}", before.transport, own.transport),
        packets_sent: before.packets_sent + own.packets_sent,
        packets_lost: before.packets_lost + own.packets_lost,
        retransmitted_packets: before.retransmitted_packets + own.retransmitted_packets,
        timeouts: before.timeouts + own.timeouts,
        accepted_bit_s: before.accepted_bit_s,
        avg_held_bytes: before.avg_held_bytes + own.avg_held_bytes,
        max_held_bytes: before.max_held_bytes.max(own.max_held_bytes),
        acked_not_delivered_bytes: before.acked_not_delivered_bytes + own.acked_not_delivered_bytes,
        resets: before.resets.max(own.resets),
        ..own
    }
}
