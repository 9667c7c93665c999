//! The rows of a live run: each direction of a connection that had data is a flow of the results.
//!
//! A packet is in exactly one row: in that of its direction or, where only the other direction had data, in that row's
//! counts of what came back. `emulate.rs` calls it at the end of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lasthop_core::time::{Span, Time};
use lasthop_net::measure::Window;
use lasthop_net::plan::{Plan, Start, TcpConfig, Transport};
use lasthop_net::transport::tcp::config::KERNEL;
use lasthop_net::world::World;
use lasthop_sim::summary::{FlowSummary, Summary, VoiceSummary, jain_index};
use serde_json::Value;

use crate::drive::Driven;
use crate::order::{Emulated, Ending, LiveReport, Order, Told};
use crate::parts::{Row, join};
use crate::passage::{Connection, Passage, Refusal, Tuple, UDP};
use crate::plan::{LivePlan, OUTSIDE};
use crate::record::renumber;

/// What the ends of connections keep to themselves.
const UNKNOWN: [&str; 3] = ["timeouts", "fast_recoveries", "undone_reductions"];

impl Emulated {
    /// Summary and report as JSON. What is not known is null there, and no zero.
    ///
    /// # Errors
    ///
    /// If a number has no place in JSON.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        let mut summary = serde_json::to_value(&self.summary)?;
        let known = self.report.connections.iter().any(|told| told.shows_repeats);
        let totals = &mut summary["totals"];
        totals["timeouts"] = Value::Null;
        if !known {
            totals["retransmitted_packets"] = Value::Null;
        }
        let flows = summary["flows"].as_array_mut().into_iter().flatten();
        for (flow, told) in flows.zip(&self.report.connections) {
            for name in UNKNOWN {
                flow[name] = Value::Null;
            }
            if !told.shows_repeats {
                flow["retransmitted_packets"] = Value::Null;
            }
            if told.packets_back.is_none() {
                flow["acks_sent"] = Value::Null;
            }
        }
        Ok(serde_json::json!({ "summary": summary, "live": self.report }))
    }
}

/// What connections are called.
pub(crate) struct Naming<'a> {
    pub(crate) scenario: &'a Plan,
    /// Ports at which sinks of the scenario's flows listen, and which flows.
    pub(crate) ports: &'a [(u16, usize)],
    pub(crate) completed: &'a BTreeMap<usize, Time>,
    /// What carries each flow of the scenario.
    pub(crate) algorithms: &'a [Option<&'a str>],
}

impl Naming<'_> {
    /// The flow of the scenario that is behind a connection, if one is, and the direction of its data.
    fn flow_of(&self, connection: &Connection) -> Option<(usize, usize)> {
        let Tuple { source, sink, .. } = connection.tuple;
        let port_of = |way: usize| if way == 0 { sink.1 } else { source.1 };
        let ports = || self.ports.iter().filter(|_| !connection.is_rest);
        (0..2)
            .find_map(|way| ports().find(|&&(port, _)| port == port_of(way)).map(|&(_, index)| (index, way)))
    }

    /// Directions of a connection that are rows of the results.
    fn rows_of(&self, flow: usize, connection: &Connection) -> Vec<Row> {
        let ways = match self.flow_of(connection) {
            Some((_, way)) => vec![way],
            None => connection.used(),
        };
        ways.into_iter().map(|way| Row { flow, way }).collect()
    }

    /// Transfers of the scenario that the kernel had, by the seconds of those that connected. Lengths are unknown.
    fn transfers(&self, seconds: &BTreeMap<usize, Option<f64>>) -> Vec<(u64, Option<f64>)> {
        let own: BTreeSet<usize> = self.ports.iter().map(|&(_, index)| index).collect();
        own.into_iter()
            .filter(|&index| {
                let flow = &self.scenario.flows[index];
                // One that would have arrived after the end took no part.
                let took_part = seconds.contains_key(&index) || !matches!(flow.start, Start::After(_));
                let finishes =
                    self.algorithms[index].is_some() && !matches!(flow.transport, Transport::Udp(_));
                finishes && flow.traffic.offered().is_bounded() && took_part
            })
            .map(|index| (0, seconds.get(&index).copied().flatten()))
            .collect()
    }

    fn name(&self, connection: &Connection, way: usize) -> String {
        let tuple = connection.tuple_from(way);
        match self.flow_of(connection) {
            Some((index, _)) => self.scenario.flows[index].name.clone(),
            None if connection.is_rest => format!("others {} - {}", tuple.source.0, tuple.sink.0),
            None => tuple.to_string(),
        }
    }

    fn transport(&self, connection: &Connection) -> String {
        match self.flow_of(connection).map(|(index, _)| self.algorithms[index]) {
            Some(_) if connection.tuple.protocol == UDP => "udp".to_owned(),
            Some(Some(algorithm)) => format!("{KERNEL}{algorithm}"),
            _ => OUTSIDE.to_owned(),
        }
    }
}

/// Makes the results of what the loop left behind.
pub(crate) fn conclude(
    live: &mut LivePlan,
    driven: Driven,
    (order, program_status, tun_dropped): (&Order, Option<i32>, u64),
    naming: &Naming<'_>,
    (set_up, wall): (Duration, Duration),
) -> Emulated {
    let Driven { mut world, mut recorded, passage, mut proxies, .. } = driven;
    let window = world.network.window();
    // As in a simulation, what begins at proxies comes behind all others.
    let pairs = || passage.pairs().iter().enumerate();
    let flows = |is_part: bool| {
        let pairs = pairs().filter(move |(_, pair)| (pair.part.0 > 0) == is_part);
        pairs.flat_map(|(index, _)| passage.flows_of(index))
    };
    let of_host = |flow: usize| passage.connection(flow).map(|found| naming.rows_of(flow, found));
    let mut rows: Vec<Row> = flows(false).filter_map(of_host).flatten().collect();
    // Flows of the scenario stand in its order, and before what programs sent.
    let place = |row: &Row| {
        let own = passage.connection(row.flow).and_then(|found| naming.flow_of(found));
        own.map_or(usize::MAX, |(index, _)| index)
    };
    rows.sort_by_key(place);
    let whole = rows.len();
    rows.extend(flows(true).flat_map(|flow| [0, 1].map(|way| Row { flow, way })));
    // The results show the flows that carried something, and the run as long as it was.
    live.plan.duration = Span(world.standing().now.0).max(live.plan.warmup + Span(1));
    tell(&rows, (&mut live.plan, &mut world), &passage, naming);
    let mut summary = Summary::new(&live.plan, order.seed, &world, set_up, wall);
    let mut seconds = BTreeMap::new();
    for ((flow, stats), row) in summary.flows.iter_mut().zip(&world.network.flows).zip(&rows) {
        let Some(connection) = passage.connection(row.flow) else { continue };
        add_ends(flow, &connection.directions[row.way]);
        // The plan of the run knows sockets; what was talked into them stands in the scenario.
        let spoken = naming.flow_of(connection).map(|(own, _)| &naming.scenario.flows[own]);
        flow.voice = spoken.and_then(|spoken| VoiceSummary::of(spoken, stats, None)).map(Box::new);
        if let Some((own, _)) = naming.flow_of(connection) {
            let completed = naming.completed.get(&own);
            flow.completion_s = completed.zip(flow.start_s).map(|(end, start)| end.seconds() - start);
            seconds.insert(own, flow.completion_s);
        }
    }
    summary.totals.count_transfers(&naming.transfers(&seconds));
    join(&mut summary, &mut live.plan, (&rows, whole), (&passage, &mut proxies));
    let end = Time::ZERO + live.plan.duration;
    let connections = sum_up(&mut summary, &rows[..whole], &passage, naming, (window, end));
    let numbers = numbers_of(&rows);
    renumber(&mut recorded, &numbers);
    let [late_p50_s, late_p99_s, late_p999_s] = driven.lateness.percentiles_s();
    let oddities = passage.oddities;
    let mut report = LiveReport {
        valid: true,
        invalid_because: Vec::new(),
        budget_s: order.budget.seconds(),
        late_p50_s,
        late_p99_s,
        late_p999_s,
        late_max_s: driven.lateness.largest().seconds(),
        packets: driven.lateness.count(),
        tun_dropped,
        kernel_refused: driven.refused_by_kernel,
        overrun: oddities.overrun,
        refused: Refusal::NAMES.into_iter().zip(oddities.refused).collect(),
        opaque: oddities.opaque,
        without_bytes: oddities.without_bytes,
        untouched_by_splits: proxies.all.iter().map(|(_, proxy)| proxy.untouched).sum(),
        busiest_second: driven.busiest_second,
        scheduling: driven.scheduling,
        program: order.main.as_ref().map(|program| program.words.clone()),
        program_status,
        ended_by: Ending::Scenario,
        not_listening: Vec::new(),
        hosts: live.hosts.iter().map(|host| (host.name.clone(), host.address)).collect(),
        connections,
        captures: Vec::new(),
        steered: Vec::new(),
    };
    report.judge();
    Emulated { summary, report, plan: live.plan.clone(), recorded }
}

/// Makes the flows of the plan and of the world those of the rows.
fn tell(rows: &[Row], (plan, world): (&mut Plan, &mut World), passage: &Passage, naming: &Naming<'_>) {
    let flow_of = |&Row { flow: index, way }: &Row| {
        let mut flow = plan.flows[index].clone();
        if let (Some(connection), Transport::Tcp(config)) = (passage.connection(index), &flow.transport) {
            let name = naming.transport(connection);
            flow.transport = Transport::Tcp(TcpConfig { name, ..(**config).clone() }.into());
            flow.name = naming.name(connection, way);
        }
        if way == 1 {
            std::mem::swap(&mut flow.source, &mut flow.sink);
        }
        flow
    };
    let flows = rows.iter().map(flow_of).collect();
    plan.flows = flows;
    let stats_of = |&Row { flow, way }: &Row| {
        let mut stats = world.network.flows[flow].clone();
        let Some(connection) = passage.connection(flow) else { return stats };
        if way == 1 {
            let lost = [stats.acks_lost, stats.lost];
            stats = connection.directions[1].arrived.clone();
            [stats.lost, stats.acks_lost] = lost;
        }
        // What came back is a row of its own if it had data.
        let is_alone = connection.directions[1 - way].payload == 0;
        stats.acks_sent = if is_alone { connection.directions[1 - way].sent } else { 0 };
        if !is_alone {
            stats.acks_lost = Default::default();
        }
        stats
    };
    let sent_of = |&Row { flow, way }: &Row| {
        let mut sent = world.sent[flow];
        if let Some(connection) = passage.connection(flow) {
            let direction = &connection.directions[way];
            (sent.packets, sent.first) = (direction.sent, direction.first);
        }
        sent
    };
    let stats = rows.iter().map(stats_of).collect();
    let sent = rows.iter().map(sent_of).collect();
    let senders = rows.iter().map(|row| world.senders[row.flow].clone()).collect();
    (world.network.flows, world.sent, world.senders) = (stats, sent, senders);
}

/// What the ends of a connection show of themselves.
fn add_ends(flow: &mut FlowSummary, direction: &crate::passage::Direction) {
    flow.retransmitted_packets = Some(direction.retransmitted);
    let rtt = direction.rtt.percentiles_seconds(&[50.0, 95.0, 99.0]);
    flow.rtt_mean_s = direction.rtt.mean_seconds();
    (flow.rtt_p50_s, flow.rtt_p95_s, flow.rtt_p99_s) = (rtt[0], rtt[1], rtt[2]);
}

/// Rates over the life of what programs sent, totals, and what is behind each row.
fn sum_up(
    summary: &mut Summary,
    rows: &[Row],
    passage: &Passage,
    naming: &Naming<'_>,
    (window, end): (Window, Time),
) -> Vec<Told> {
    let known = || {
        let connection = |row: &Row| passage.connection(row.flow).map(|found| (*row, found));
        rows.iter().filter_map(connection)
    };
    let lives = || known().filter_map(|(row, connection)| connection.directions[row.way].life);
    let whole = lives().map(|life| life.0).min().zip(lives().map(|life| life.1).max());
    let whole_s = whole.map_or(0.0, |(from, to)| to.since(from).seconds());
    let mut connections = Vec::with_capacity(rows.len());
    let mut fair = Vec::new();
    let mut kinds = BTreeSet::new();
    let mut carries = false;
    let mut sums = (0.0, 0.0);
    for (flow, (row, connection)) in summary.flows.iter_mut().zip(known()) {
        let direction = &connection.directions[row.way];
        let other = &connection.directions[1 - row.way];
        let is_own = naming.flow_of(connection).is_some();
        carries |= is_own;
        let measured = window.to.min(end).since(window.from).seconds();
        sums = (sums.0 + flow.goodput_bit_s * measured, sums.1 + flow.throughput_bit_s * measured);
        if !is_own {
            let life_s = direction.life.map_or(0.0, |(from, to)| to.since(from).seconds());
            let scale = if life_s > 0.0 { measured / life_s } else { 0.0 };
            (flow.goodput_bit_s, flow.throughput_bit_s) =
                (flow.goodput_bit_s * scale, flow.throughput_bit_s * scale);
        }
        let busy_s = direction.busy_until(end, connection.is_stream()).seconds();
        // A request is no rival of its answer.
        let is_larger =
            direction.payload > other.payload || (direction.payload == other.payload && row.way == 0);
        let in_jain_index = is_own || (is_larger && busy_s >= whole_s / 2.0);
        if in_jain_index {
            fair.push(flow.goodput_bit_s);
            kinds.insert(connection.is_stream());
        }
        let is_alone = other.payload == 0;
        connections.push(Told {
            flow: flow.name.clone(),
            tuple: connection.tuple_from(row.way).to_string(),
            packets: direction.packets,
            bytes: direction.bytes,
            packets_back: is_alone.then_some(other.packets),
            bytes_back: is_alone.then_some(other.bytes),
            payload: direction.payload,
            in_jain_index,
            shows_repeats: connection.is_stream(),
        });
    }
    let totals = &mut summary.totals;
    totals.count_repeats(&summary.flows);
    // The timers of the kernel are not seen.
    totals.timeout_share = None;
    // Only among flows of one kind: streams or datagrams, and for flows of the scenario as the simulation says.
    let of_one_kind = kinds.len() == 1 && (!carries || totals.jain_index.is_some());
    totals.jain_index = jain_index(&fair).filter(|_| of_one_kind);
    // Sums of what programs sent are over the time in which they did; flows of the scenario are measured as simulated.
    let over = |bits: f64| if whole_s > 0.0 { bits / whole_s } else { 0.0 };
    (totals.goodput_bit_s, totals.throughput_bit_s) = if carries {
        let sum = |of: fn(&FlowSummary) -> f64| summary.flows.iter().map(of).sum();
        (sum(|flow| flow.goodput_bit_s), sum(|flow| flow.throughput_bit_s))
    } else {
        (over(sums.0), over(sums.1))
    };
    connections
}

/// The rows by the flows of the world, whose recordings know no directions: the first of each.
fn numbers_of(rows: &[Row]) -> BTreeMap<u32, u32> {
    let mut seen = BTreeSet::new();
    let first = rows.iter().zip(0..).filter(|(row, _)| seen.insert(row.flow));
    first.map(|(row, number)| (row.flow as u32, number)).collect()
}
