//! WSC-TCP: NewReno with signals of its own link layer and a history of the path (Srinivasan, MS thesis, UC Santa
//! Cruz).
//!
//! *What it does.* The window follows Reno. Four mechanisms, each behind a switch, keep link-layer retransmissions
//! from looking like congestion. (1) RTT samples are corrected by the delay of link retransmissions, and the timer is
//! extended by the same amount. (2) The duplicate ACK threshold rises with the number of segments that overtook one
//! which the link is still retransmitting. (3) A new connection starts from the windows of earlier connections on this
//! path at this time of day. (4) RTT samples are clustered, clusters at multiples of the link's delay are moved back,
//! and single samples are dropped. `wsc_delay` instead delays every fast retransmission by `link_delay`, as in the
//! published ns-2 runs.
//!
//! *Reacts to* loss and ECN as Reno; to the signals `LinkAck`, `LinkRetry`, `LinkDrop` and `LinkTimeout`.
//!
//! *Differs from the paper:* the thesis corrects the RTT, which shortens the timeout, and at the same time wants the
//! timeout longer than the inflated RTT. Here the estimator uses corrected samples, and the running timer is extended
//! by `LL_RTO * max(n_pending, n_recent)` (never by less than the correction of recent samples). An exact delay from
//! the link, if reported, replaces `n * LL_RTO`; no corrected sample falls below the minimum RTT.
//!
//! The threshold is the listing of the thesis with the missing updates of `L_ack_cum` (`threshold = "listing"`).
//! `"pending"` is the closed form that it seems to mean: 3 plus the number of link-acknowledged segments above the
//! first pending one. `"overtakers"` is an addition of lasthop: a segment keeps the threshold that it had when the
//! link delivered it, because the duplicate ACKs caused by overtaking come a round trip later, when the threshold of
//! the listing has already fallen back to 3.
//!
//! In the listing, a segment that was dropped before the link, in the queue of its own host, counts as pending: the
//! threshold rises with every later segment, and each overflow waits for the timer, which left 0.50 and 0.70 of a
//! single link of 10 Mbit/s and 40 ms with buffers of 7 and 33 packets (NewReno: 0.84 and 1.00 of the maximum
//! goodput). The thesis does not discuss this. Here the threshold is 3 again if the link has not reported the segment
//! within its timeout after delivering a later one, because a failed attempt would have been reported by then
//! (`link_silence`).
//!
//! The "proactive transmissions due to wireless-link-layer failures" of §4.2 are not described. Here a segment that
//! the link gave up is retransmitted at once, the window stays because the loss is not congestion, and duplicate ACKs
//! of later segments do not count as another loss (`on_link_drop`; `"first-duplicate"` waits for the first duplicate
//! ACK). Best start begins with the median of the stored windows (`best_factor = 0.5` is more careful), paced over the
//! round trip of the handshake, and falls back to the initial window at a loss in that first window. The clustering is
//! a deterministic one-dimensional k-means.
//!
//! *Validation:* TV-7.1 to TV-7.5, worked by hand from the thesis's listings; runs over links that retransmit frames
//! out of order against NewReno on the same channel (`crates/lasthop-sim/tests/wsc.rs`); its classification of losses
//! in `docs/reference/classifiers.md`.
//!
//! *Limitations:* with the listing, the threshold gains little on a link that is faster than the path, because it
//! falls back before the duplicate ACKs arrive; the gain of `threshold = "overtakers"` is not a result of the thesis.
//! A link whose timeout exceeds the sender's reports a failed attempt after the timer has expired; only `n_recent` can
//! then help. Signals come from the sender's own first link; on a wired sender the first two mechanisms have no
//! effect. Threshold and delayed retransmission work in the engines that count duplicate ACKs and in `sack`, not in
//! `sack1` and `vegas`.
//!
//! *Kernel counterpart:* none.
//!
//! *References:* R. Srinivasan, MS thesis, University of California, Santa Cruz, §3.1-3.4 and §4; RFC 9040 (what a
//! host remembers of a path); RFC 4653 (duplicate ACKs under reordering).

use std::collections::VecDeque;

use lasthop_core::time::{Span, Time};

use crate::params::{choice, params};
use crate::{
    AckSample, Arrival, CongestionControl, GrowthStyle, LossKind, LossSample, Needs, Reduction, Signal,
    Start, Window,
};

pub(crate) const SUMMARY: &str =
    "Reno that uses signals of its link layer and the history of the path (Srinivasan)";

choice! {
    /// How many duplicate ACKs mean a loss while the link repeats segments.
    Threshold {
        /// As the listing of the thesis computes it.
        Listing = "listing",
        /// Three, and the delivered segments above the first pending one.
        Pending = "pending",
        /// The same, and a segment keeps it after the link has delivered it.
        Overtakers = "overtakers",
    }
}

choice! {
    /// What happens to a segment that the link gave up.
    OnLinkDrop {
        /// It is sent again at once.
        Resend = "resend",
        /// It is sent again at the first duplicate ACK.
        FirstDuplicate = "first-duplicate",
        /// What happens to any other.
        Nothing = "nothing",
    }
}

params! {
    /// Mechanism 1: take link retransmissions out of RTT samples, and extend the timer by them
    link_rtt: bool = true, 0.0..=1.0;
    /// Retransmission timeout of the link in seconds, if the link does not report it
    link_timeout: f64 = 0.0, 0.0..=60.0;
    /// Subtract the delay that the link measured, if it is reported, instead of n times its timeout
    exact_delay: bool = true, 0.0..=1.0;
    /// Mechanism 2: raise the duplicate ACK threshold while the link retransmits a segment
    link_threshold: bool = true, 0.0..=1.0;
    /// How mechanism 2 sets the threshold: by the listing of the thesis, by what is pending, or by what has overtaken
    /// the segment
    threshold: Threshold = Threshold::Listing, 0.0..=2.0;
    /// Treat a segment as lost before the link if the link reports nothing of it for its timeout while it delivers
    /// later ones
    link_silence: bool = true, 0.0..=1.0;
    /// A segment that the link gave up is retransmitted at once, at the first duplicate ACK, or like any other
    on_link_drop: OnLinkDrop = OnLinkDrop::Resend, 0.0..=2.0;
    /// Mechanism 3: start from the windows of earlier connections, if a history of the path is kept
    best_start: bool = true, 0.0..=1.0;
    /// Share of the median window of earlier connections to start with
    best_factor: f64 = 1.0, 0.01..=1.0;
    /// Minimum number of samples to start from
    best_samples: f64 = 3.0, 1.0..=1000.0;
    /// Mechanism 4: cluster RTT samples, and take multiples of link_delay out of them
    clusters: bool = true, 0.0..=1.0;
    /// Extra delay of one link retransmission in seconds, for the clusters and for wsc_delay
    link_delay: f64 = 0.5, 0.0001..=60.0;
    /// Hold every fast retransmission back for link_delay, as the published runs did
    wsc_delay: bool = false, 0.0..=1.0;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
}

/// Largest first window in bytes.
const LARGEST_START: f64 = 65_536.0;
/// Most segments of which the link's reports are kept.
const MOST_REPORTS: usize = 8192;

/// What the link has done with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Delivered,
    Dropped,
}

/// What the link has said about one segment.
#[derive(Clone, Copy, Debug)]
struct Report {
    seq: u64,
    end: u64,
    state: State,
    /// Link retransmissions so far, and the delay they added if the link told it.
    retransmissions: u32,
    delay: Span,
    /// Segments above that the link had delivered when it delivered this one.
    overtakers: u32,
    /// It was given up and sent again when this many segments behind it were on their way: this many duplicates
    /// are no further loss.
    behind: Option<u32>,
}

/// The link's reports on what is in flight.
#[derive(Clone, Debug, Default)]
struct Link {
    /// In the order of the stream.
    reports: VecDeque<Report>,
    /// The link has nothing to do below this any more (`L_ack_cum` + 1).
    settled: u64,
    /// Delivered segments above the first pending one.
    above: u32,
    /// Start of the highest delivered segment (`L_ack_max`), and the length of the longest segment.
    highest: Option<u64>,
    longest: u64,
    /// The threshold of the listing, above its default of 3.
    listing: u32,
    /// A segment on which the link had said nothing yet when it delivered a later one, and when that was.
    passed_over: Option<(u64, Time)>,
}

impl Link {
    fn find(&self, seq: u64) -> Result<usize, usize> {
        let index = self.reports.partition_point(|report| report.seq < seq);
        match self.reports.get(index) {
            Some(report) if report.seq == seq => Ok(index),
            _ => Err(index),
        }
    }

    /// The report on the segment that holds `seq`.
    fn at(&self, seq: u64) -> Option<&Report> {
        let index = self.reports.partition_point(|report| report.end <= seq);
        self.reports.get(index).filter(|report| report.seq <= seq)
    }

    /// The report on `[seq, end)`, made if need be. `None` if there is no room.
    fn entry(&mut self, seq: u64, end: u64) -> Option<usize> {
        match self.find(seq) {
            Ok(index) => Some(index),
            Err(_) if self.reports.len() >= MOST_REPORTS => None,
            Err(index) => {
                let report = Report {
                    seq,
                    end,
                    state: State::Pending,
                    retransmissions: 0,
                    delay: Span::ZERO,
                    overtakers: 0,
                    behind: None,
                };
                self.reports.insert(index, report);
                self.longest = self.longest.max(end - seq);
                Some(index)
            }
        }
    }

    /// Remembers when the link first delivered something behind the first pending segment without a word on it.
    fn note_silence(&mut self, now: Time) {
        let before = self.passed_over.filter(|(seq, _)| *seq == self.settled);
        let silent = self.above > 0 && self.at(self.settled).is_none();
        self.passed_over = silent.then(|| before.unwrap_or((self.settled, now)));
    }

    /// Whether the first pending segment never came to the link: what it delivered first was sent later, and a failed
    /// attempt would have been known within `timeout` of that.
    fn has_lost_before(&self, timeout: Span, now: Time) -> bool {
        let silent = |&(seq, since): &(u64, Time)| {
            seq == self.settled && self.at(seq).is_none() && now.since(since) > timeout
        };
        self.passed_over.as_ref().is_some_and(silent)
    }

    /// Everything below `una` has reached the receiver, so the link has nothing to do there.
    fn settle(&mut self, una: u64) {
        let before = self.settled;
        self.settled = self.settled.max(una);
        let first = self.reports.partition_point(|report| report.seq < before);
        for report in self.reports.iter().skip(first) {
            if report.seq > self.settled || (report.state == State::Pending && report.end > self.settled) {
                break;
            }
            self.above -= u32::from(report.state == State::Delivered);
            self.settled = self.settled.max(report.end);
        }
    }

    /// Forgets what lies below `una`.
    fn forget(&mut self, una: u64) {
        self.settle(una);
        while self.reports.front().is_some_and(|report| report.end <= una) {
            self.reports.pop_front();
        }
    }

    fn delivered(&mut self, seq: u64, end: u64, retransmissions: u32, delay: Span) {
        let Some(index) = self.entry(seq, end) else { return };
        let fresh = self.reports[index].state != State::Delivered;
        let overtakers = self.reports.iter().skip(index + 1);
        let overtakers = overtakers.filter(|report| report.state == State::Delivered).count() as u32;
        let report = &mut self.reports[index];
        report.retransmissions = retransmissions;
        report.delay = delay;
        report.state = State::Delivered;
        if !fresh {
            return;
        }
        report.overtakers = overtakers;
        let first_pending = seq <= self.settled;
        let newest = self.highest.is_none_or(|highest| seq > highest);
        self.above += u32::from(seq >= self.settled);
        self.settle(0);
        // The listing: DupAck_Compute and DupAck_Compute_successful_LL_Retransmission.
        if newest {
            self.highest = Some(seq);
            self.listing = if first_pending { 0 } else { self.listing + 1 };
        } else if first_pending {
            let highest = self.highest.unwrap_or(seq);
            self.listing = (highest.saturating_sub(self.settled)).div_ceil(self.longest.max(1)) as u32;
        }
    }

    fn retried(&mut self, seq: u64, end: u64, attempts: u32) {
        let Some(index) = self.entry(seq, end) else { return };
        let report = &mut self.reports[index];
        report.retransmissions = attempts;
        if report.state == State::Dropped {
            // TCP has sent it again.
            report.state = State::Pending;
        }
    }

    /// The link gave up. `resent_before`: TCP sends the segment again, behind everything below this.
    fn dropped(&mut self, seq: u64, end: u64, attempts: u32, resent_before: Option<u64>) {
        let Some(index) = self.entry(seq, end) else { return };
        let longest = self.longest.max(1);
        let report = &mut self.reports[index];
        if report.state == State::Delivered {
            return;
        }
        report.state = State::Dropped;
        report.retransmissions = attempts.saturating_sub(1);
        report.behind = resent_before.map(|next| next.saturating_sub(end).div_ceil(longest) as u32);
        self.listing = 0;
        self.settle(0);
    }
}

/// Samples in the buffer, new ones between two clusterings, and the fewest to cluster.
const SAMPLES: usize = 64;
const EVERY: u32 = 16;

/// Mechanism 4: groups of RTT samples, in seconds.
#[derive(Clone, Debug)]
struct Clusters {
    /// The newest samples, as a ring, and how many there have been.
    samples: [f64; SAMPLES],
    taken: u64,
    /// Centroids in ascending order until new ones come between two clusterings, with their sizes.
    centroids: [f64; SAMPLES],
    sizes: [u32; SAMPLES],
    count: usize,
    /// Delay of one link retransmission.
    delay: f64,
}

/// What a sample stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// Congestion or nothing: use it as it is.
    Keep,
    /// This many link retransmissions.
    Retransmitted(f64),
    /// A transient: drop it.
    Drop,
}

impl Clusters {
    fn new(delay: f64) -> Clusters {
        Clusters {
            samples: [0.0; SAMPLES],
            taken: 0,
            centroids: [0.0; SAMPLES],
            sizes: [0; SAMPLES],
            count: 0,
            delay,
        }
    }

    /// Takes a sample and says what it stands for.
    fn add(&mut self, sample: f64) -> Verdict {
        self.samples[(self.taken % SAMPLES as u64) as usize] = sample;
        self.taken += 1;
        if self.taken < u64::from(EVERY) {
            return Verdict::Keep;
        }
        if self.taken.is_multiple_of(u64::from(EVERY)) {
            self.cluster();
            return self.judge(self.nearest(sample));
        }
        let nearest = self.nearest(sample);
        if (self.centroids[nearest] - sample).abs() <= self.gap() {
            self.sizes[nearest] = self.sizes[nearest].saturating_add(1);
            return self.judge(nearest);
        }
        if self.count == SAMPLES {
            return Verdict::Drop;
        }
        // Something new: alone it is a transient, and no longer when others follow.
        self.centroids[self.count] = sample;
        self.sizes[self.count] = 1;
        self.count += 1;
        self.judge(self.count - 1)
    }

    /// Largest difference of neighbours in one group.
    fn gap(&self) -> f64 {
        self.delay / 4.0
    }

    /// Groups the buffer: gaps give the first centroids, Lloyd's iteration the last.
    fn cluster(&mut self) {
        let length = self.taken.min(SAMPLES as u64) as usize;
        let mut sorted = self.samples;
        let sorted = &mut sorted[..length];
        sorted.sort_unstable_by(f64::total_cmp);
        // Group `g` is `sorted[starts[g]..starts[g + 1]]`: in one dimension groups are intervals.
        let mut starts = [0; SAMPLES + 1];
        let mut count = 1;
        for index in 1..length {
            if sorted[index] - sorted[index - 1] > self.gap() {
                starts[count] = index;
                count += 1;
            }
        }
        starts[count] = length;
        let mut centroids = [0.0; SAMPLES];
        // Lloyd's iteration ends; the bound is for rounding.
        for _ in 0..SAMPLES {
            for group in 0..count {
                let members = &sorted[starts[group]..starts[group + 1]];
                if !members.is_empty() {
                    centroids[group] = members.iter().sum::<f64>() / members.len() as f64;
                }
            }
            let mut moved = false;
            for group in 1..count {
                let border = f64::midpoint(centroids[group - 1], centroids[group]);
                let start = sorted.partition_point(|&sample| sample <= border);
                moved |= start != starts[group];
                starts[group] = start;
            }
            if !moved {
                break;
            }
        }
        self.centroids = centroids;
        for group in 0..count {
            self.sizes[group] = (starts[group + 1] - starts[group]) as u32;
        }
        self.count = count;
    }

    /// The cluster whose centre is nearest; the lower of two.
    fn nearest(&self, sample: f64) -> usize {
        let distance = |index: usize| (self.centroids[index] - sample).abs();
        (1..self.count).fold(0, |best, index| if distance(index) < distance(best) { index } else { best })
    }

    fn judge(&self, cluster: usize) -> Verdict {
        let members = |index: usize| self.sizes[index];
        let significant = (0..self.count).filter(|&index| members(index) >= 3);
        let base = significant.map(|index| self.centroids[index]).fold(f64::INFINITY, f64::min);
        if base.is_infinite() {
            return Verdict::Keep;
        }
        let distance = self.centroids[cluster] - base;
        let times = (distance / self.delay).round();
        let close = (distance - times * self.delay).abs() <= 0.2 * self.delay;
        if times == 0.0 && close {
            Verdict::Keep
        } else if times >= 1.0 && close && members(cluster) >= 2 {
            Verdict::Retransmitted(times)
        } else if members(cluster) < 3 {
            Verdict::Drop
        } else {
            Verdict::Keep
        }
    }
}

/// The most of something in this round trip and in the last.
#[derive(Clone, Copy, Debug, Default)]
struct Recent<T> {
    now: T,
    before: T,
}

impl<T: Copy + Ord + Default> Recent<T> {
    fn note(&mut self, value: T) {
        self.now = self.now.max(value);
    }

    fn end_round(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    fn most(&self) -> T {
        self.now.max(self.before)
    }
}

/// State of WSC-TCP.
#[derive(Clone, Debug)]
pub struct Wsc {
    params: Params,
    link: Link,
    /// Retransmission timeout of the link.
    link_timeout: Span,
    /// When something was heard last.
    now: Time,
    clusters: Option<Box<Clusters>>,
    /// Least RTT seen, uncorrected.
    least_rtt: Span,
    /// Link retransmissions of a segment, and what was taken from a sample.
    retransmissions: Recent<u32>,
    taken: Recent<Span>,
    round_end: u64,
    una: u64,
    next: u64,
    /// The loss that is answered next is of a segment that the link gave up and that is sent again at once.
    resends: bool,
    initial_window: f64,
    /// Where the first window ends if the connection began with a best start, and the rate at which it is sent.
    first_window: Option<(u64, Option<f64>)>,
}

impl Wsc {
    pub(crate) fn new(params: &Params) -> Self {
        Wsc {
            params: params.clone(),
            link: Link::default(),
            link_timeout: Span::from_seconds(params.link_timeout),
            now: Time::ZERO,
            clusters: params.clusters.then(|| Box::new(Clusters::new(params.link_delay))),
            least_rtt: Span(u64::MAX),
            retransmissions: Recent::default(),
            taken: Recent::default(),
            round_end: 0,
            una: 0,
            next: 0,
            resends: false,
            initial_window: 1.0,
            first_window: None,
        }
    }

    fn hears_the_link(&self) -> bool {
        self.params.link_rtt || self.params.link_threshold
    }

    /// What the link's retransmissions added to the RTT of the segment that ends at `end`.
    fn delay_of(&self, end: u64) -> Span {
        let Some(report) = end.checked_sub(1).and_then(|last| self.link.at(last)) else { return Span::ZERO };
        if self.params.exact_delay && report.delay > Span::ZERO {
            report.delay
        } else {
            self.link_timeout * u64::from(report.retransmissions)
        }
    }

    /// What a loss of the segment at `una`, or of one that is just being sent again, must be.
    fn judge(&mut self) -> LossKind {
        let resends = std::mem::take(&mut self.resends);
        let dropped = self.link.at(self.una).is_some_and(|report| report.state == State::Dropped);
        let heeds = self.params.on_link_drop != OnLinkDrop::Nothing && self.params.link_threshold;
        if heeds && (resends || dropped) { LossKind::Wireless } else { LossKind::Congestion }
    }

    /// The answer to congestion.
    fn reduction(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        let half = loss.flight / 2.0;
        if self.first_window.take().is_some() {
            // The past was no guide: slow start from the initial window up to half of what did not fit.
            return Reduction::to(half.max(2.0), self.initial_window.min(window.cwnd).min(half.max(1.0)));
        }
        Reduction::to(half, half)
    }
}

/// Median of the samples; at least one.
fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

impl CongestionControl for Wsc {
    fn needs(&self) -> Needs {
        let params = &self.params;
        Needs {
            arrivals: self.hears_the_link(),
            signals: self.hears_the_link(),
            timing: self.hears_the_link() || params.clusters || params.wsc_delay,
            history: params.best_start.then_some(params.best_samples.ceil() as u16),
            pacing: params.best_start,
            classifies: true,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, start: &Start<'_>, window: &mut Window) {
        self.una = self.una.max(1);
        self.link.settle(1);
        self.initial_window = window.cwnd;
        let enough = start.history.len() as f64 >= self.params.best_samples;
        if !self.params.best_start || start.history.is_empty() || !enough {
            return;
        }
        let median = median(start.history);
        let least = window.cwnd;
        let most = (LARGEST_START / f64::from(start.mss.max(1))).max(least);
        let first = (self.params.best_factor * median).clamp(least, most).floor();
        window.cwnd = first;
        window.ssthresh = median.max(2.0);
        let round_trip = start.handshake.seconds();
        let rate = (round_trip > 0.0).then(|| first / round_trip);
        self.first_window = Some((1 + (first * f64::from(start.mss)) as u64, rate));
    }

    fn on_arrival(&mut self, arrival: &Arrival, _window: &mut Window) {
        self.now = arrival.now;
        // What earlier ACKs covered has served its RTT sample.
        self.link.forget(arrival.una);
        self.una = self.una.max(arrival.ack);
        self.next = self.next.max(arrival.next);
        self.link.settle(self.una);
    }

    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        self.una = ack.una;
        self.next = ack.next;
        self.resends = false;
        if ack.una > self.round_end {
            self.round_end = ack.next;
            self.retransmissions.end_round();
            self.taken.end_round();
        }
        if let Some((end, rate)) = &mut self.first_window {
            if ack.next >= *end {
                // All of it is out; from here on the ACK clock spaces what is sent.
                *rate = None;
            }
            if ack.una >= *end {
                self.first_window = None;
            }
        }
        if ack.may_grow {
            let Params { byte_counting, slow_start_limit, .. } = self.params;
            window.grow(ack.acked, 1.0, GrowthStyle { byte_counting, slow_start_limit });
        }
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        if self.judge() == LossKind::Wireless {
            return Reduction::none(window, f64::INFINITY).taken_for(LossKind::Wireless);
        }
        self.reduction(loss, window).taken_for(LossKind::Congestion)
    }

    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.reduction(loss, window)
    }

    /// The window falls as Reno's whatever was lost.
    fn on_timeout(&mut self, loss: &LossSample, _window: &Window) -> Reduction {
        self.first_window = None;
        let kind = self.judge();
        Reduction::to(loss.flight / 2.0, 1.0).taken_for(kind)
    }

    fn on_signal(&mut self, signal: &Signal, now: Time) {
        self.now = now;
        match *signal {
            Signal::LinkAck { seq, end, retransmissions, delay } if end > self.una && end > seq => {
                self.link.delivered(seq, end, retransmissions, delay);
                self.link.note_silence(now);
                self.retransmissions.note(retransmissions);
            }
            Signal::LinkRetry { seq, end, attempts } if end > self.una && end > seq => {
                self.link.retried(seq, end, attempts);
            }
            Signal::LinkDrop { seq, end, attempts } if end > self.una && end > seq => {
                self.resends = self.resends_given_up();
                let resent_before = self.resends.then_some(self.next);
                self.link.dropped(seq, end, attempts, resent_before);
            }
            Signal::LinkTimeout { timeout } if self.params.link_timeout == 0.0 => {
                self.link_timeout = timeout;
            }
            _ => {}
        }
    }

    /// In the first window of a best start; the rest of the connection follows the ACK clock.
    fn pacing_rate(&self) -> Option<f64> {
        self.first_window.and_then(|(_, rate)| rate)
    }

    fn filter_rtt(&mut self, rtt: Span, end: u64, _now: Time) -> Option<Span> {
        self.least_rtt = self.least_rtt.min(rtt);
        let mut corrected = rtt;
        if self.params.link_rtt {
            let delay = self.delay_of(end);
            corrected = Span(rtt.0.saturating_sub(delay.0)).max(self.least_rtt);
        }
        if let Some(clusters) = &mut self.clusters {
            match clusters.add(corrected.seconds()) {
                Verdict::Keep => {}
                Verdict::Retransmitted(times) => {
                    let delay = Span::from_seconds(times * self.params.link_delay);
                    corrected = Span(corrected.0.saturating_sub(delay.0)).max(self.least_rtt);
                }
                Verdict::Drop => return None,
            }
        }
        self.taken.note(Span(rtt.0 - corrected.0));
        Some(corrected)
    }

    fn timer_extension(&self) -> Span {
        let pending = match self.link.at(self.una) {
            Some(report) if self.params.link_rtt && report.state == State::Pending => report.retransmissions,
            _ => 0,
        };
        let recent = if self.params.link_rtt { self.retransmissions.most() } else { 0 };
        (self.link_timeout * u64::from(pending.max(recent))).max(self.taken.most())
    }

    fn retry_extension(&self) -> Span {
        if self.params.link_rtt { self.link_timeout } else { Span::ZERO }
    }

    fn resends_given_up(&self) -> bool {
        self.params.link_threshold && self.params.on_link_drop == OnLinkDrop::Resend
    }

    fn dup_threshold(&self, una: u64, usual: u32) -> u32 {
        if !self.params.link_threshold {
            return usual;
        }
        let report = self.link.at(una);
        if let Some(behind) = report.and_then(|report| report.behind) {
            return usual.saturating_add(behind);
        }
        let waits_for_one = self.params.on_link_drop == OnLinkDrop::FirstDuplicate;
        if waits_for_one && report.is_some_and(|report| report.state == State::Dropped) {
            return 1;
        }
        let heeds_silence = self.params.link_silence;
        let more = match (self.params.threshold, report) {
            (Threshold::Overtakers, Some(report)) if report.state == State::Delivered => report.overtakers,
            _ if heeds_silence && self.link.has_lost_before(self.link_timeout, self.now) => 0,
            (Threshold::Listing, _) => self.link.listing,
            (Threshold::Pending | Threshold::Overtakers, _) => self.link.above,
        };
        usual.saturating_add(more)
    }

    fn retransmit_delay(&self) -> Option<Span> {
        self.params.wsc_delay.then(|| Span::from_seconds(self.params.link_delay))
    }
}

#[cfg(test)]
mod tests;
