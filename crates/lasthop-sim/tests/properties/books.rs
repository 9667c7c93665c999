//! What must hold at the end of any run: the books balance, and every application got its stream. The trace is held
//! against a receiver as simple as can be.

use std::collections::BTreeMap;

use lasthop_core::packet::{Cause, Kind};
use lasthop_core::time::{Span, Time};
use lasthop_net::device::Middlebox;
use lasthop_net::plan::{Plan, Profile, Transport};
use lasthop_net::trace::HopRecord;
use lasthop_net::transport::endpoint::Endpoint;
use lasthop_sim::run::Run;

/// A receiver as simple as can be: which bytes are there, and the first that is missing. The SYN is byte 0.
#[derive(Default)]
struct Model {
    next: u64,
    /// Ranges beyond `next`, start to end.
    ahead: BTreeMap<u64, u64>,
    /// One past the FIN.
    fin: Option<u64>,
    /// Payload handed to the application within the measured time.
    delivered: u64,
}

impl Model {
    fn take(&mut self, record: &HopRecord, counts: bool) {
        // A SYN and a FIN take a sequence number each.
        let (syn, fin) = (record.kind == Kind::Syn, record.kind == Kind::Fin);
        let end = record.seq + u64::from(record.payload) + u64::from(syn) + u64::from(fin);
        if fin {
            self.fin = Some(end);
        }
        if end > self.next {
            let known = self.ahead.entry(record.seq).or_insert(end);
            *known = end.max(*known);
        }
        let before = self.next;
        while let Some((&start, &end)) = self.ahead.first_key_value()
            && start <= self.next
        {
            self.next = self.next.max(end);
            self.ahead.remove(&start);
        }
        if counts {
            let no_data = u64::from(before == 0 && self.next > 0)
                + u64::from(before < self.next && self.fin == Some(self.next));
            self.delivered += self.next - before - no_data;
        }
    }

    /// Whether every byte of the range is here.
    fn has(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        if at < self.next {
            at = self.next;
        }
        for (&start, &end) in &self.ahead {
            if start <= at {
                at = at.max(end);
            }
        }
        at >= end
    }
}

/// Frames follow each other in time and in the stream, and nothing is sent before or beyond what was written.
fn check_frames(plan: &Plan, run: &Run, flow: usize, trace: &[HopRecord]) {
    let offered = plan.flows[flow].traffic.offered();
    if offered.video().is_none() && offered.encoder().is_none() {
        return;
    }
    let (name, frames) = (&plan.flows[flow].name, run.world.frames(flow));
    for pair in frames.windows(2) {
        assert!(pair[0].end <= pair[1].end && pair[0].at < pair[1].at, "{name}: {pair:?}");
    }
    // Bytes of TCP are numbered from 1, those of others from 0.
    let first = u64::from(matches!(run.world.senders[flow], Endpoint::TcpSender(_)));
    let is_data = |record: &&HopRecord| matches!(record.kind, Kind::Data | Kind::Fin | Kind::Udp);
    for record in trace.iter().filter(|record| record.flow as usize == flow).filter(is_data) {
        let end = record.seq + u64::from(record.payload) - first;
        let written = frames.partition_point(|frame| frame.at <= record.enqueued);
        let written = written.checked_sub(1).map_or(0, |last| frames[last].end);
        assert!(end <= written, "{name}: byte {end} sent at {}, but {written} written", record.enqueued);
    }
}

/// When each frame with bytes has come completely, by the trace: in ascending order, without those that have not.
fn completions(plan: &Plan, run: &Run, flow: usize, trace: &[HopRecord]) -> Vec<Time> {
    let sink = plan.flows[flow].sink;
    let first = u64::from(matches!(run.world.senders[flow], Endpoint::TcpSender(_)));
    let comes = |record: &&HopRecord| {
        let link = &plan.links[record.direction as usize / 2];
        let end = if record.direction & 1 == 0 { link.to } else { link.from };
        record.flow as usize == flow && !record.back && record.payload > 0 && end == sink
    };
    let mut arrivals: Vec<(Time, u64, u64)> = (trace.iter().filter(comes))
        .filter_map(|record| {
            let start = record.seq.saturating_sub(first);
            Some((record.arrived?, start, start + u64::from(record.payload)))
        })
        .collect();
    arrivals.sort_unstable();
    let frames = run.world.frames(flow);
    let start_of = |frame: usize| frame.checked_sub(1).map_or(0, |before| frames[before].end);
    let mut missing: Vec<u64> = (0..frames.len()).map(|frame| frames[frame].end - start_of(frame)).collect();
    // Bytes that are here, start to end, apart from each other.
    let mut here: BTreeMap<u64, u64> = BTreeMap::new();
    let mut complete = Vec::new();
    for (at, start, end) in arrivals {
        let mut from = start;
        while from < end {
            let known = here.range(..=from).next_back().map_or(0, |(_, &end)| end);
            if known > from {
                from = known;
                continue;
            }
            let to = here.range(from..).next().map_or(end, |(&start, _)| start.min(end));
            here.insert(from, to);
            let mut frame = frames.partition_point(|frame| frame.end <= from);
            while frame < frames.len() && start_of(frame) < to {
                let new = frames[frame].end.min(to) - start_of(frame).max(from);
                missing[frame] =
                    missing[frame].checked_sub(new).expect("a byte comes for the first time once");
                if missing[frame] == 0 {
                    complete.push(at);
                }
                frame += 1;
            }
            from = to;
        }
    }
    complete
}

/// The viewer of a call has every frame at most once, and none before all of it has come.
fn check_shown(plan: &Plan, run: &Run, flow: usize, trace: &[HopRecord]) {
    if plan.flows[flow].traffic.offered().encoder().is_none() || !run.world.numbers_are_whole(flow) {
        return;
    }
    let name = &plan.flows[flow].name;
    // They are counted within the measured time alone.
    let rebuilds = (run.world.network.repairs(flow))
        .is_some_and(|counts| plan.warmup > Span::ZERO || counts.recovered + counts.late > 0);
    let frames = run.world.frames(flow);
    let written = |now: Time| {
        let mut start = 0;
        let made = frames.iter().take_while(|frame| frame.at <= now);
        made.filter(|frame| std::mem::replace(&mut start, frame.end) < frame.end).count()
    };
    let complete = completions(plan, run, flow, trace);
    let mut shown = 0;
    for row in run.recorded.flows.iter().filter(|row| row.sample.flow as usize == flow) {
        let viewed = row.sample.viewed.unwrap();
        shown += viewed.shown.unwrap();
        let now = row.sample.time;
        // What FEC rebuilds arrives, and no trace has it.
        let most = if rebuilds { written(now) } else { complete.partition_point(|&at| at <= now) };
        assert!(shown <= most as u64, "{name}: {shown} frames shown at {now}, {most} had come");
    }
}

/// Whether something stands between a node and the links that leave it. A trace knows links only: what leaves the node
/// then is not what passes there.
pub(super) fn has_middleboxes(plan: &Plan, node: usize) -> bool {
    let ends = plan.links.iter().flat_map(|link| [(link.from, &link.forward), (link.to, &link.reverse)]);
    ends.into_iter().any(|(from, direction)| from == node && !direction.middleboxes.is_empty())
}

/// What a packet that has crossed a link still takes through the link layers of agents at its far end.
fn behind_link(plan: &Plan, record: &HopRecord) -> Span {
    let link = &plan.links[record.direction as usize / 2];
    let back = if record.direction & 1 == 0 { &link.reverse } else { &link.forward };
    back.middleboxes.iter().fold(Span::ZERO, |sum, middlebox| match middlebox {
        Middlebox::Snoop(agent) => sum + agent.link_layer_delay,
        _ => sum,
    })
}

/// The trace against the model: every ACK says what has arrived, and what was counted as delivered is the
/// stream, once.
fn check_flow(plan: &Plan, run: &Run, flow: usize, trace: &[HopRecord]) {
    let end = Time::ZERO + plan.duration;
    let from = Time::ZERO + plan.warmup;
    let name = &plan.flows[flow].name;
    let sink = plan.flows[flow].sink;
    // Where the direction of a record starts and where it ends.
    let ends = |record: &HopRecord| {
        let link = &plan.links[record.direction as usize / 2];
        if record.direction & 1 == 0 { (link.from, link.to) } else { (link.to, link.from) }
    };
    let is_answer = |record: &&HopRecord| record.back && ends(record).0 == sink;
    let of_flow = || trace.iter().filter(|record| record.flow as usize == flow);
    let mut arrivals: Vec<&HopRecord> = of_flow()
        .filter(|record| matches!(record.kind, Kind::Syn | Kind::Data | Kind::Fin) && ends(record).1 == sink)
        .filter(|record| record.arrived.is_some())
        .collect();
    arrivals.sort_by_key(|record| record.arrived);
    if may_refuse(plan, flow, &arrivals) {
        return check_frames(plan, run, flow, trace);
    }
    let mut answers: Vec<&HopRecord> = of_flow().filter(is_answer).collect();
    // What is under way to a host that changes its access point turns, and may pass the sink once more.
    let turns = plan.roaming.iter().any(|roaming| [sink, plan.flows[flow].source].contains(&roaming.host));
    if has_middleboxes(plan, sink) || turns {
        answers.clear();
    }
    answers.sort_by_key(|record| (record.enqueued, record.packet));

    let mut model = Model::default();
    // What had arrived in order at some time of this instant: a delayed ACK may be due before the packets that come,
    // and a link that keeps order hands over several together.
    let (mut instant, mut reached) = (Time::ZERO, vec![0]);
    let mut arrivals = arrivals.into_iter().peekable();
    for answer in answers {
        if answer.enqueued > instant {
            instant = answer.enqueued;
            reached = vec![model.next];
        }
        while let Some(record) = arrivals.next_if(|record| record.arrived <= Some(instant)) {
            model.take(record, record.arrived >= Some(from) && record.arrived < Some(end));
            if record.arrived < Some(instant) {
                reached.clear();
            }
            reached.push(model.next);
        }
        let ack = answer.ack;
        assert!(reached.contains(&ack), "{name}: ACK {ack}, but {reached:?} has arrived");
        for &(start, end) in answer.sack.as_slice() {
            assert!(start < end && model.has(start, end), "{name}: SACK of {start}..{end} without data");
        }
        reached.retain(|&next| next >= ack);
    }
    for record in arrivals {
        let at = record.arrived.map(|at| at + behind_link(plan, record));
        model.take(record, at >= Some(from) && at < Some(end));
    }
    let delivered = run.world.network.flows[flow].bytes_delivered;
    assert_eq!(delivered, model.delivered, "{name}: bytes that the application got");

    check_frames(plan, run, flow, trace);
    let Endpoint::TcpSender(sender) = &run.world.senders[flow] else { return };
    let Some(written) = plan.flows[flow].traffic.given_length() else { return };
    for record in of_flow().filter(|record| matches!(record.kind, Kind::Data | Kind::Fin)) {
        let last = record.seq + u64::from(record.payload);
        assert!(last <= 1 + written, "{name}: byte {last} of {written} sent");
    }
    if sender.stats.completed.is_some() && plan.flows[flow].stop.is_none() {
        assert!(model.next > written, "{name}: complete, but only {} of {written} arrived", model.next);
    }
}

fn has(plan: &Plan, is_meant: impl Fn(&Middlebox) -> bool) -> bool {
    let directions = plan.links.iter().flat_map(|link| [&link.forward, &link.reverse]);
    directions.flat_map(|direction| &direction.middleboxes).any(is_meant)
}

/// Everything that holds at the end of any run recorded with [`EVERYTHING`].
pub(super) fn check(plan: &Plan, run: &Run) {
    let network = &run.world.network;
    assert!(network.ledger.balances(), "{:?}", network.ledger);
    for record in &run.recorded.windows {
        // Half a segment after a fast retransmission in ns-2, and none in its Vegas, until the timer expires.
        let transport = &plan.flows[record.flow as usize].transport;
        let ns2 = matches!(transport, Transport::Tcp(config) if config.profile == Profile::Ns2);
        let least = if ns2 { 0.0 } else { 1.0 };
        assert!(record.cwnd >= least && record.cwnd.is_finite(), "{record:?}");
        assert!(record.ssthresh >= 1.0, "{record:?}");
    }
    let trace = &run.recorded.hops;
    let lost = |cause: Cause| trace.iter().filter(|record| record.lost == Some(cause)).count() as u64;
    for cause in
        [Cause::QueueOverflow, Cause::ChannelError, Cause::Outage, Cause::LinkGaveUp, Cause::EarlyDrop]
    {
        let dropped = network.ledger.dropped[cause as usize];
        // WTCP has a buffer of its own.
        let may_be_elsewhere = match cause {
            Cause::QueueOverflow => has(plan, |one| matches!(one, Middlebox::Wtcp(_))),
            _ => false,
        };
        let elsewhere = if may_be_elsewhere { dropped.saturating_sub(lost(cause)) } else { 0 };
        assert_eq!(lost(cause) + elsewhere, dropped, "{}", cause.name());
    }
    // What turns at an access point that its host has left has crossed nothing.
    assert!(trace.len() as u64 <= network.packet_hops);
    assert!(trace.len() as u64 == network.packet_hops || !plan.roaming.is_empty());
    for (flow, sender) in run.world.senders.iter().enumerate() {
        if matches!(sender, Endpoint::TcpSender(_)) {
            check_flow(plan, run, flow, trace);
        }
        check_shown(plan, run, flow, trace);
    }
    let summary = &run.summary;
    for link in &summary.links {
        assert!((0.0..=1.000_001).contains(&link.utilisation), "{}: {}", link.name, link.utilisation);
        assert!(link.avg_queue_packets.is_none_or(|queue| queue >= 0.0 && queue.is_finite()));
    }
    assert!(summary.totals.jain_index.is_none_or(|index| (0.0..=1.000_001).contains(&index)));
    // No flow receives more than the links to its sink can carry beside what they held when the measurement began: what
    // was on the way, and the window of a link that retransmits.
    for (flow, planned) in summary.flows.iter().zip(&plan.flows) {
        let ends = plan.links.iter().flat_map(|link| [(link.to, &link.forward), (link.from, &link.reverse)]);
        let into = ends.filter(|&(end, _)| end == planned.sink).map(|(_, direction)| direction);
        let (mut capacity, mut held) = (0.0, 0.0);
        for direction in into {
            let rates = direction.rate_changes.iter().map(|change| change.1.0).chain([direction.rate.0]);
            let rate = rates.max().unwrap_or_default() as f64;
            let frames = direction.arq.as_ref().map_or(1, |arq| arq.window);
            capacity += rate;
            held += rate * direction.delay.seconds() + 8.0 * f64::from(frames) * f64::from(direction.mtu);
        }
        let measured = (plan.duration - plan.warmup).seconds();
        let received = flow.throughput_bit_s * measured;
        assert!(received <= capacity * measured + held, "{}: {received} bits at {capacity} bit/s", flow.name);
    }
}

/// Whether a receiver of Linux may have thrown a segment away, because one that was sent more than a tick of the
/// timestamps later had come before (RFC 7323 section 5.3, R1). The models take whatever arrives.
pub(super) fn may_refuse(plan: &Plan, flow: usize, arrivals: &[&HopRecord]) -> bool {
    let Transport::Tcp(config) = &plan.flows[flow].transport else { return false };
    let mut latest = Time::ZERO;
    config.profile == Profile::Linux
        && config.timestamps
        && arrivals.iter().any(|record| {
            latest = latest.max(record.stamp);
            record.stamp + Span::from_millis(1) < latest
        })
}
