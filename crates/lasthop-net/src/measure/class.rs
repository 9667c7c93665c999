//! The figures of many flows as those of one: what is left of flows that are told by class when they are gone.
//!
//! The world adds each flow when nothing can happen to it any more; the summary makes a row of it. Counts add up, and
//! of what is a mean or a percentile of a flow the mean over the flows is kept.

use lasthop_core::packet::Drops;
use lasthop_core::time::Time;

use super::FlowStats;
use crate::network::truth::Verdicts;
use crate::transport::endpoint::Report;
use crate::world::Sent;

/// The mean over those flows that have a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        self.sum += value.unwrap_or(0.0);
        self.count += u64::from(value.is_some());
    }

    /// The mean; of nothing there is none.
    pub fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// Mean and percentiles of durations in seconds, each as a mean over flows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Means {
    /// The mean.
    pub mean: Mean,
    /// The median, and the 95th and 99th percentile.
    pub percentiles: [Mean; 3],
}

impl Means {
    fn add(&mut self, durations: Option<&super::Durations>) {
        let Some(durations) = durations else { return };
        self.mean.add(durations.mean_seconds());
        for (mean, value) in
            self.percentiles.iter_mut().zip(durations.percentiles_seconds(&[50.0, 95.0, 99.0]))
        {
            mean.add(value);
        }
    }
}

/// What the flows of a class were, sums of what each counted and means of what each had.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "they are called as those of a flow")]
pub struct ClassStats {
    /// Flows that arrived.
    pub flows: u64,
    pub bytes_delivered: u64,
    pub bytes_received: u64,
    /// Sum of the squares of the bytes delivered.
    pub squares: f64,
    pub packets_sent: u64,
    pub acks_sent: u64,
    pub lost: Drops,
    pub acks_lost: Drops,
    pub retransmitted: u64,
    pub timeouts: u64,
    pub fast_recoveries: u64,
    pub undone_reductions: u64,
    pub zero_windows: u64,
    /// In nanoseconds.
    pub zero_window_time: u64,
    pub expired: u64,
    pub verdicts: Option<Verdicts>,
    pub rtt: Means,
    pub delay: Means,
    pub jitter: Mean,
    pub jitter_rfc3550: Mean,
    pub start: Mean,
    pub completion: Mean,
    pub length: Mean,
    pub reset: Mean,
    pub allowed_rate: Mean,
    pub loss_event_rate: Mean,
    /// Bytes and completion time in seconds of each transfer that began, if the traffic has an end: percentiles over
    /// flows need all of them.
    pub transfers: Vec<(u64, Option<f64>)>,
}

impl ClassStats {
    /// Adds a flow: what its ends and the network counted, what its sender says, and the bytes of its application, if
    /// it has a length (`bounded`: by its traffic).
    pub(crate) fn add(
        &mut self,
        (stats, sent): (&FlowStats, &Sent),
        report: &Report<'_>,
        verdicts: Option<Verdicts>,
        (length, bounded): (Option<u64>, bool),
    ) {
        self.flows += 1;
        self.bytes_delivered += stats.bytes_delivered;
        self.bytes_received += stats.bytes_received;
        self.squares += (stats.bytes_delivered as f64).powi(2);
        self.packets_sent += sent.packets;
        self.acks_sent += stats.acks_sent;
        for (all, own) in [(&mut self.lost, stats.lost), (&mut self.acks_lost, stats.acks_lost)] {
            all.iter_mut().zip(own).for_each(|(all, own)| *all += own);
        }
        self.retransmitted += report.retransmitted;
        self.timeouts += report.timeouts;
        self.fast_recoveries += report.fast_recoveries;
        self.undone_reductions += report.undone_reductions;
        self.zero_windows += report.zero_windows;
        self.zero_window_time += report.zero_window_time.0;
        self.expired += report.expired;
        if let Some(verdicts) = verdicts {
            self.verdicts.get_or_insert_default().add(&verdicts);
        }
        self.rtt.add(report.rtt);
        self.delay.add(Some(&stats.delay));
        self.jitter.add(stats.jitter.mean_seconds());
        self.jitter_rfc3550.add(stats.jitter.rfc3550_seconds());
        self.start.add(sent.first.map(Time::seconds));
        self.length.add(length.map(|bytes| bytes as f64));
        self.reset.add(report.reset.map(Time::seconds));
        self.allowed_rate.add(report.allowed_rate);
        self.loss_event_rate.add(report.loss_event_rate);
        let completed = report.completed.filter(|_| bounded).zip(sent.first);
        let completion = completed.map(|(end, start)| end.since(start).seconds());
        self.completion.add(completion);
        if bounded && sent.first.is_some() {
            self.transfers.push((length.unwrap_or(0), completion));
        }
    }
}
