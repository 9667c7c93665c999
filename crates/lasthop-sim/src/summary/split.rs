//! What the proxies of a split connection did, and how it joins the row of the flow that they split.
//!
//! [`Summary::new`](super::Summary::new) calls `join_halves` for the first half; all other halves have no row.

use lasthop_core::time::Span;
use lasthop_net::plan::{Plan, Transport};
use lasthop_net::world::World;

use super::FlowSummary;
use crate::columns;
use crate::columns::About;

columns! {
    /// The proxies of a split connection and the halves that begin at them, within the measured time; several count
    /// together.
    #[derive(Clone, Debug)]
    pub struct SplitSummary {
        /// senders of a split connection's proxies, joined by `+`
        transport: String = About::new("", "senders of the proxies");
        /// packets that the proxies of a split connection sent, retransmissions included
        packets_sent: u64 = About::new("packets", "packets sent").sum();
        /// packets sent by the proxies of a split connection that were lost
        packets_lost: u64 = About::new("packets", "packets lost").sum();
        /// packets that the proxies of a split connection retransmitted
        retransmitted_packets: u64 = About::new("packets", "retransmissions").sum().shown("proxy retransmitted");
        /// expiries of the retransmission timer at the proxies of a split connection
        timeouts: u64 = About::new("", "timeouts").sum();
        /// mean RTT beyond the last proxy of a split connection, of segments that were sent once
        rtt_mean_s: Option<f64> = About::new("s", "mean RTT").lower().mean();
        /// bytes that the first proxy of a split connection accepted in order, over the measured time
        accepted_bit_s: f64 = About::new("bit/s", "rate accepted").sum();
        /// time average of the data that the proxies of a split connection held, data in flight from them included
        avg_held_bytes: f64 = About::new("bytes", "bytes held").mean();
        /// most data that a proxy of a split connection held at once
        max_held_bytes: u64 = About::new("bytes", "maximum bytes held").mean();
        /// bytes that were acknowledged to the source and had not reached the sink at the end of the run
        acked_not_delivered_bytes: u64 = About::new("bytes", "acknowledged, not delivered").lower().sum()
            .shown("acked, not there");
        /// how often the state of a split connection moved to another proxy
        moves: u64 = About::new("", "moves").sum();
        /// bytes that moved with the state of a split connection
        moved_bytes: u64 = About::new("bytes", "bytes moved").sum();
        /// time during which the state of a split connection moved and the connection stood still
        halted_s: f64 = About::new("s", "time halted").lower().sum();
        /// connections that a proxy aborted because the other half timed out or was reset, or because the state was
        /// lost
        resets: u64 = About::new("", "connections reset").lower().sum();
        /// bytes held by proxies for connections whose state was lost when their host moved
        lost_bytes: u64 = About::new("bytes", "bytes lost with the state").lower().sum();
    }
}

impl FlowSummary {
    /// Takes what the halves of a split connection behind the one with the number `first` say.
    pub(super) fn join_halves(&mut self, plan: &Plan, world: &World, first: usize, measured: Span) {
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
