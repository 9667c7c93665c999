//! Sums over flows: totals, completion times of transfers and pages, fairness.

use lasthop_net::plan::{FlowPlan, Plan, Start, Transport};
use lasthop_net::traffic::Likeness;
use lasthop_net::traffic::client::Outcome;
use lasthop_net::world::World;

use super::{FlowSummary, share, sum_of};
use crate::applications::{SizeClass, Times, pages_within};
use crate::columns;
use crate::columns::{About, Causes};
use crate::draws::RunDraws;

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
        /// only if some traffic has an end, over a transport that retransmits until all has arrived: flows of which it
        /// has one
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
        /// data packets that were retransmitted; comparisons use the share, because the count grows with the load;
        /// null where no sender retransmits, as with datagrams
        retransmitted_packets: Option<u64> = About::new("packets", "retransmissions").shown("retransmitted");
        /// retransmitted data packets over data packets sent
        retransmitted_share: Option<f64> = About::share("retransmissions per packet")
            .lower().compared().says("retransmits {} more per packet", "retransmits {} less per packet")
            .times("retransmits {} times as much per packet");
        /// expiries of the retransmission timer; comparisons use the share; null where no sender has such a timer
        timeouts: Option<u64> = About::new("", "timeouts").shown("timeouts");
        /// expiries of the retransmission timer over data packets sent
        timeout_share: Option<f64> = About::share("timeouts per packet")
            .lower().compared().says("has {} more timeouts per packet", "has {} fewer timeouts per packet")
            .times("has {} times as many timeouts per packet");
        /// packets that helpers in the network retransmitted; only where a helper can
        #[serde(skip_serializing_if = "Option::is_none")]
        helper_retransmissions: Option<u64> = About::new("packets", "retransmissions by helpers")
            .rare().shown("by helpers");
        /// the same over packets of all kinds sent
        #[serde(skip_serializing_if = "Option::is_none")]
        helper_retransmission_share: Option<f64> = About::share("retransmissions by helpers per packet")
            .rare().compared()
            .says(
                "has {} more retransmissions by helpers per packet",
                "has {} fewer retransmissions by helpers per packet",
            )
            .times("has {} times as many retransmissions by helpers per packet");
        /// retransmissions of frames by links and MACs; only where one can retransmit
        #[serde(skip_serializing_if = "Option::is_none")]
        link_retransmissions: Option<u64> = About::new("packets", "retransmissions by links")
            .rare().shown("by links");
        /// the same over packets of all kinds sent
        #[serde(skip_serializing_if = "Option::is_none")]
        link_retransmission_share: Option<f64> = About::share("retransmissions by links per packet")
            .rare().compared()
            .says(
                "has {} more retransmissions by links per packet",
                "has {} fewer retransmissions by links per packet",
            )
            .times("has {} times as many retransmissions by links per packet");
        /// packets of all kinds in flight when the measured time began; with those sent it is what was delivered,
        /// lost, or is in flight at the end
        packets_carried_over: u64 = About::new("packets", "packets carried over");
        /// packets of all kinds handed to the network, ACKs included
        packets_sent: u64 = About::new("packets", "packets sent");
        /// packets of all kinds that reached an endpoint
        packets_delivered: u64 = About::new("packets", "packets delivered");
        /// packets of all kinds that were lost
        packets_lost: Causes = About::new("packets", "packets lost").called("lost_{}_packets").shown("lost");
        /// lost packets of all kinds over packets of all kinds sent
        loss_share: Option<f64> = About::share("losses per packet").lower();
        /// packets in flight when the measured time ended
        packets_in_flight: u64 = About::new("packets", "packets in flight");
        /// mean of the flows' Real-Time Performance Indices, over those that have one
        realtime_index: Option<f64> = About::share("real-time index").higher();
        /// mean of the flows' Delayed Packets Rates
        delayed_rate: Option<f64> = About::share("delayed packets rate").lower();
        /// mean of the flows' Packet Loss Rates by what the protocol sent
        loss_over_sent: Option<f64> = About::share("packet loss rate, share of sent").lower();
        /// mean of the flows' shares of time spent in stalls
        stall_share: Option<f64> = About::share("share of time stalled").lower();
        /// random value: the number drawn for the run at this path of keys, which ends with the unit
        #[serde(flatten)]
        drawn: RunDraws = About::new("", "drawn: <x>").rare();
    }
}

impl Totals {
    /// Fills in what is made of the rows of the flows alone; `flows` are those of the plan that are no halves of split
    /// connections.
    pub(super) fn add_up(&mut self, plan: &Plan, flows: &[FlowSummary], world: &World) {
        // A sum of nothing is -0.0.
        self.goodput_bit_s = 0.0 + flows.iter().map(|flow| flow.goodput_bit_s).sum::<f64>();
        self.throughput_bit_s = 0.0 + flows.iter().map(|flow| flow.throughput_bit_s).sum::<f64>();
        self.jain_index = fairness(plan, flows, world);
        self.count_transfers(&transfers(plan, flows, world));
        self.count_repeats(flows);
    }

    /// Counts transfers, given by bytes and seconds, or `None` if they did not finish. Bytes that are not known are 0
    /// for all.
    pub fn count_transfers(&mut self, transfers: &[(u64, Option<f64>)]) {
        if transfers.is_empty() {
            return;
        }
        let all = Times::new(transfers.iter().map(|transfer| transfer.1).collect());
        self.transfers = Some(all.count());
        self.finished_transfers = Some(all.finished());
        self.completion_p50_s = all.percentile(50);
        self.completion_p95_s = all.percentile(95);
        self.completion_p99_s = all.percentile(99);
        [self.small, self.middle, self.large] = SizeClass::of(transfers);
    }

    /// Fills in the times of all pages; `rows`: how many flows have one.
    pub(super) fn count_pages(&mut self, world: &World, rows: usize) {
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

/// Lengths and completion times of the flows whose traffic has an end, over a transport that retransmits until then.
/// `flows` are those of the plan that have a row.
fn transfers(plan: &Plan, flows: &[FlowSummary], world: &World) -> Vec<(u64, Option<f64>)> {
    let planned = plan.flows.iter().filter(|flow| flow.has_row());
    // A flow that would have arrived after the end took no part.
    let took_part =
        |flow: &FlowPlan, row: &FlowSummary| !matches!(flow.start, Start::After(_)) || row.start_s.is_some();
    let mut found = Vec::new();
    for (index, (flow, row)) in
        planned.zip(flows).enumerate().filter(|(_, (flow, _))| flow.transport.is_reliable())
    {
        match world.class_of(index) {
            Some(class) => found.extend_from_slice(&class.transfers),
            None if flow.traffic.offered().is_bounded() && took_part(flow, row) => {
                found.push((row.transfer_bytes.unwrap_or(0), row.completion_s));
            }
            None => {}
        }
    }
    found
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
