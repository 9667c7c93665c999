//! WSC-TCP: NewReno that listens to its own link layer and to the past of the path (Srinivasan, MS thesis, UC Santa
//! Cruz).
//!
//! *What it does.* The window law is Reno's. Four mechanisms around it, each behind a switch, keep link-layer
//! retransmissions from looking like congestion: (1) RTT samples are corrected by the delay of the link's
//! retransmissions, and the timer is extended by what was taken away; (2) the number of duplicate ACKs that mean a loss
//! rises with the segments that overtook one the link is still repeating; (3) a new connection starts from the windows
//! that earlier ones kept on this path at this time of day; (4) RTT samples are clustered, clusters at multiples of the
//! link's delay are moved back, and lone samples are dropped. `wsc_delay` instead holds every fast retransmission back
//! for `link_delay`, which is what the published ns-2 runs did.
//! *Reacts to* loss and ECN as Reno; to the signals `LinkAck`, `LinkRetry`, `LinkDrop` and `LinkTimeout`.
//! *Differs from the paper:* The thesis corrects the RTT, which shortens the timeout, and at the same time wants the
//! timeout longer than the inflated RTT; here the estimator learns from corrected samples and the armed timer is
//! extended by `LL_RTO * max(n_pending, n_recent)` (never by less than what was taken from recent samples). An exact
//! delay from the link, if it tells one, replaces `n * LL_RTO`; no corrected sample falls below the least RTT seen. The
//! threshold is the listing of the thesis with the updates of `L_ack_cum` that it forgets (`threshold = "listing"`).
//! `"pending"` is the closed form that it seems to mean, 3 + number of link-acknowledged segments above the first
//! pending one; `"overtakers"` is an addition of this program: a segment keeps the threshold that it had when the link
//! delivered it, because the duplicates that its overtakers provoke come a round trip later, when the printed threshold
//! has long fallen back to 3. To the listing a segment that was lost before the link, in the queue of its own host, is
//! one whose link ACK is pending: the threshold rises with every segment behind it, and each overflow waits for the
//! timer, which left 0.50 and 0.70 of a lone link of 10 Mbit/s and 40 ms with buffers of 7 and 33 packets (NewReno:
//! 0.84 and 1.00 of what headers leave). The thesis does not speak of it. Here three duplicates mean a loss again when
//! the link has been silent on the segment for its timeout after it delivered a later one, for a failed attempt would
//! be known by then (`link_silence`). The "proactive transmissions due to wireless-link-layer failures" of §4.2 are not
//! described. Here a segment that the link gave up is sent again at once, the window stays as it is, for the loss is
//! known to be none of congestion, and the duplicates of what was sent behind it are not taken for another loss
//! (`on_link_drop`; `"first-duplicate"` waits for the first duplicate ACK). Best start begins with the median of the
//! stored windows (`best_factor = 0.5` is more careful), paced over the round trip of the handshake, and falls back to
//! the initial window at a loss in that first window. The clustering is a deterministic one-dimensional k-means.
//! *Validation:* TV-7.1 to TV-7.5, worked by hand from the thesis's listings; runs over links that repeat frames out of
//! order against NewReno on the same channel (`crates/lasthop-sim/tests/wsc.rs`); what it takes losses for in
//! `docs/reference/classifiers.md`.
//! *Limitations:* By its own listing the threshold gains little on a link that is quicker than the path, as it falls
//! back before the duplicates arrive; what is gained there with `threshold = "overtakers"` is no gain of the thesis. A
//! link whose timeout exceeds the sender's reports a failed attempt when the timer has expired already; only `n_recent`
//! can then help. Signals come from the sender's own first link; on a wired sender the first two mechanisms rest.
//! Thresholds and holding back act in the engines that count duplicates and in `sack`, not in `sack1` and `vegas`.
//! *Kernel counterpart:* none.
//! *References:* R. Srinivasan, MS thesis, University of California, Santa Cruz, §3.1-3.4 and §4; RFC 9040 (what a host
//! remembers of a path); RFC 4653 (duplicate ACKs under reordering).

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
    /// Retransmission timeout of the link in seconds, if the link does not tell it
    link_timeout: f64 = 0.0, 0.0..=60.0;
    /// Subtract the delay that the link measured, if it tells one, instead of n times its timeout
    exact_delay: bool = true, 0.0..=1.0;
    /// Mechanism 2: raise the duplicate ACK threshold while the link repeats a segment
    link_threshold: bool = true, 0.0..=1.0;
    /// That threshold: by the listing of the thesis, by what is pending, or by what has overtaken the segment
    threshold: Threshold = Threshold::Listing, 0.0..=2.0;
    /// A segment on which the link has been silent for its timeout while it delivered later ones was lost before it
    link_silence: bool = true, 0.0..=1.0;
    /// A segment that the link gave up is sent again at once, at the first duplicate ACK, or like any other
    on_link_drop: OnLinkDrop = OnLinkDrop::Resend, 0.0..=2.0;
    /// Mechanism 3: start from the windows of earlier connections, if a history of the path is kept
    best_start: bool = true, 0.0..=1.0;
    /// Share of the median of those windows to start with
    best_factor: f64 = 1.0, 0.01..=1.0;
    /// Fewest samples to start from
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
            history: params.best_start.then_some(params.best_samples.ceil() as u32),
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{ack, loss};

    const MSS: u64 = 1000;

    /// Segment `number` is the bytes `(number - 1) * MSS + 1 ..= number * MSS`.
    fn start_of(number: u64) -> u64 {
        (number - 1) * MSS + 1
    }

    fn start(history: &[f64]) -> Start<'_> {
        Start { now: Time::ZERO, history, handshake: Span::from_millis(50), mss: MSS as u32 }
    }

    /// A connection that has just opened with a window of 10.
    fn open(params: &Params, history: &[f64]) -> (Wsc, Window) {
        let mut wsc = Wsc::new(params);
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        wsc.on_start(&start(history), &mut window);
        (wsc, window)
    }

    fn tell(wsc: &mut Wsc, signal: Signal) {
        wsc.on_signal(&signal, Time::ZERO);
    }

    fn link_ack(wsc: &mut Wsc, number: u64, retransmissions: u32, delay_ms: u64) {
        let (seq, end) = (start_of(number), start_of(number + 1));
        tell(wsc, Signal::LinkAck { seq, end, retransmissions, delay: Span::from_millis(delay_ms) });
    }

    fn link_retry(wsc: &mut Wsc, number: u64, attempts: u32) {
        tell(wsc, Signal::LinkRetry { seq: start_of(number), end: start_of(number + 1), attempts });
    }

    fn link_drop(wsc: &mut Wsc, number: u64) {
        tell(wsc, Signal::LinkDrop { seq: start_of(number), end: start_of(number + 1), attempts: 4 });
    }

    /// An ACK arrives that expects segment `number` next.
    fn arrive(wsc: &mut Wsc, before: u64, number: u64) {
        let arrival = Arrival {
            now: Time::ZERO,
            una: start_of(before),
            ack: start_of(number),
            next: start_of(100),
            mss: MSS as u32,
            srtt: Span::ZERO,
            ece: false,
            marked: 0,
            times: None,
            discards: None,
            report: None,
        };
        wsc.on_arrival(&arrival, &mut Window { cwnd: 10.0, ssthresh: 5.0 });
    }

    /// The threshold after each of these link ACKs, and the last segment below which the link has nothing to do.
    fn thresholds(params: &Params, numbers: &[u64]) -> (Vec<u32>, u64) {
        let (mut wsc, _) = open(params, &[]);
        let mut list = Vec::new();
        for &number in numbers {
            link_ack(&mut wsc, number, 0, 0);
            // Of a segment of which the link has said nothing.
            list.push(wsc.dup_threshold(start_of(50), 3));
        }
        (list, wsc.link.settled / MSS)
    }

    fn with(threshold: Threshold) -> Params {
        Params { threshold, ..Params::default() }
    }

    /// TV-7.1 and TV-7.2.
    #[test]
    fn the_threshold_counts_what_overtook_the_first_pending_segment() {
        for params in [Threshold::Listing, Threshold::Pending, Threshold::Overtakers].map(with) {
            let one_hole = thresholds(&params, &[1, 2, 3, 5, 6, 7, 4]);
            assert_eq!(one_hole, (vec![3, 3, 3, 4, 5, 6, 3], 7));
            let two_holes = thresholds(&params, &[1, 2, 3, 5, 7, 4]);
            assert_eq!(two_holes, (vec![3, 3, 3, 4, 5, 4], 5));
            let filled = thresholds(&params, &[1, 2, 3, 5, 7, 4, 6]);
            assert_eq!(filled, (vec![3, 3, 3, 4, 5, 4, 3], 7));
        }
    }

    /// TV-7.3: the listing counts pending segments among the overtakers.
    #[test]
    fn the_listing_counts_other_holes_too() {
        let numbers = [1, 2, 3, 5, 9, 4];
        assert_eq!(thresholds(&Params::default(), &numbers).0[3..], [4, 5, 6], "the default is the thesis'");
        assert_eq!(thresholds(&with(Threshold::Pending), &numbers).0[3..], [4, 5, 4]);
    }

    /// 4 is repeated while 5 to 8 pass: their duplicates come a round trip later.
    #[test]
    fn a_delivered_segment_keeps_its_threshold() {
        for (threshold, expected) in
            [(Threshold::Overtakers, 7), (Threshold::Pending, 3), (Threshold::Listing, 3)]
        {
            let (mut wsc, _) = open(&with(threshold), &[]);
            for number in [1, 2, 3, 5, 6, 7, 8] {
                link_ack(&mut wsc, number, 0, 0);
            }
            assert_eq!(wsc.dup_threshold(start_of(4), 3), 7, "while the link repeats it");
            link_ack(&mut wsc, 4, 1, 0);
            assert_eq!(wsc.dup_threshold(start_of(4), 3), expected);
            assert_eq!(wsc.dup_threshold(start_of(9), 3), 3, "nothing else was overtaken");
        }
    }

    /// 4 never came to the link: a failed attempt would be known 10 ms after the link has delivered 5. A segment that
    /// the link repeats is one on which it has spoken.
    #[test]
    fn a_segment_that_the_link_passes_over_in_silence_was_lost_before_it() {
        for threshold in [Threshold::Listing, Threshold::Pending, Threshold::Overtakers] {
            for (link_silence, retried, later) in [(true, false, 3), (true, true, 6), (false, false, 6)] {
                let params = Params { link_timeout: 0.01, link_silence, ..with(threshold) };
                let (mut wsc, _) = open(&params, &[]);
                for number in [1, 2, 3, 5, 6, 7] {
                    link_ack(&mut wsc, number, 0, 0);
                }
                if retried {
                    link_retry(&mut wsc, 4, 1);
                }
                wsc.now = Time::ZERO + Span::from_millis(10);
                assert_eq!(wsc.dup_threshold(start_of(4), 3), 6, "it may have failed");
                wsc.now += Span::from_millis(1);
                assert_eq!(wsc.dup_threshold(start_of(4), 3), later, "{threshold:?}");
                // TCP sends it again, the link delivers it; the next hole is another one.
                link_ack(&mut wsc, 4, 0, 0);
                link_ack(&mut wsc, 9, 0, 0);
                let last = wsc.dup_threshold(start_of(8), 3);
                assert!(last >= 4, "{threshold:?}: {last}");
            }
        }
    }

    #[test]
    fn a_dropped_segment_is_lost_at_the_first_duplicate() {
        let params = Params { on_link_drop: OnLinkDrop::FirstDuplicate, ..with(Threshold::Overtakers) };
        let (mut wsc, window) = open(&params, &[]);
        for number in [1, 2, 3, 5, 6, 7] {
            link_ack(&mut wsc, number, 0, 0);
        }
        link_drop(&mut wsc, 4);
        assert_eq!(wsc.dup_threshold(start_of(4), 3), 1);
        assert_eq!(wsc.dup_threshold(start_of(8), 3), 3);
        arrive(&mut wsc, 1, 4);
        let kept = Reduction::none(&window, f64::INFINITY).taken_for(LossKind::Wireless);
        assert_eq!(wsc.on_loss(&loss(10.0), &window), kept, "the link said what it was");
        // TCP sends it again and the link delivers it.
        link_ack(&mut wsc, 4, 0, 0);
        assert_eq!(wsc.dup_threshold(start_of(4), 3), 6, "three had overtaken it");
        assert_eq!(wsc.on_loss(&loss(10.0), &window).taken_for, Some(LossKind::Congestion));
    }

    /// By default it is sent again at once, and the duplicates of the 96 segments behind it say nothing new.
    #[test]
    fn a_dropped_segment_is_sent_again_at_once() {
        let (mut wsc, window) = open(&Params::default(), &[]);
        arrive(&mut wsc, 1, 3);
        link_drop(&mut wsc, 3);
        assert!(wsc.resends_given_up());
        let kept = Reduction::none(&window, f64::INFINITY).taken_for(LossKind::Wireless);
        assert_eq!(wsc.on_loss(&loss(10.0), &window), kept);
        for number in [4, 5, 6, 7, 3] {
            link_ack(&mut wsc, number, 0, 0);
        }
        assert_eq!(wsc.dup_threshold(start_of(3), 3), 3 + 96);
        assert_eq!(wsc.on_loss(&loss(10.0), &window).taken_for, Some(LossKind::Congestion), "another loss");
        let off = Params { on_link_drop: OnLinkDrop::Nothing, ..Params::default() };
        let (mut wsc, window) = open(&off, &[]);
        link_drop(&mut wsc, 1);
        assert_eq!(wsc.dup_threshold(start_of(1), 3), 3);
        assert_eq!(wsc.on_loss(&loss(10.0), &window).taken_for, Some(LossKind::Congestion));
    }

    #[test]
    fn without_the_switch_the_threshold_stays() {
        let (mut wsc, _) = open(&Params { link_threshold: false, ..Params::default() }, &[]);
        for number in [2, 3, 4] {
            link_ack(&mut wsc, number, 0, 0);
        }
        link_drop(&mut wsc, 1);
        assert_eq!(wsc.dup_threshold(start_of(1), 3), 3);
    }

    fn ms(span: Option<Span>) -> Option<u64> {
        span.map(|span| span.0 / 1_000_000)
    }

    fn first_mechanism() -> Params {
        Params { clusters: false, link_threshold: false, ..Params::default() }
    }

    /// 40 ms of path and 10 ms a retransmission: 60 - 2 * 10 = 40; the exact delay of 17 ms leaves 43; and what
    /// would leave less than the least RTT seen is stopped there.
    #[test]
    fn samples_are_corrected() {
        let (mut wsc, _) = open(&first_mechanism(), &[]);
        tell(&mut wsc, Signal::LinkTimeout { timeout: Span::from_millis(10) });
        let mut sample = |number: u64, n: u32, delay: u64, rtt: u64| {
            arrive(&mut wsc, number, number + 1);
            link_ack_before(&mut wsc, number, n, delay);
            ms(wsc.filter_rtt(Span::from_millis(rtt), start_of(number + 1), Time::ZERO))
        };
        assert_eq!(sample(1, 0, 0, 40), Some(40));
        assert_eq!(sample(2, 2, 0, 60), Some(40));
        assert_eq!(sample(3, 2, 17, 60), Some(43));
        assert_eq!(sample(4, 3, 0, 45), Some(40), "not below the least RTT");
        assert_eq!(sample(5, 0, 0, 55), Some(55), "congestion stays");
    }

    /// A report that came before the ACK of its segment.
    fn link_ack_before(wsc: &mut Wsc, number: u64, retransmissions: u32, delay_ms: u64) {
        let una = std::mem::take(&mut wsc.una);
        link_ack(wsc, number, retransmissions, delay_ms);
        wsc.una = una;
    }

    /// One ACK for 1 to 3, of which the link repeated 2: the sample is that of one of them, and only what its own
    /// repetitions took is taken from it.
    #[test]
    fn the_delay_is_that_of_the_segment_that_was_timed() {
        let (mut wsc, _) = open(&Params { link_timeout: 0.01, ..first_mechanism() }, &[]);
        assert_eq!(ms(wsc.filter_rtt(Span::from_millis(30), 1, Time::ZERO)), Some(30));
        for (number, n) in [(1, 0), (2, 2), (3, 0), (4, 5)] {
            link_ack(&mut wsc, number, n, 0);
        }
        arrive(&mut wsc, 1, 4);
        for (number, expected) in [(1, 60), (2, 40), (3, 60)] {
            let end = start_of(number + 1);
            assert_eq!(
                ms(wsc.filter_rtt(Span::from_millis(60), end, Time::ZERO)),
                Some(expected),
                "{number}"
            );
        }
    }

    /// The armed timer is longer by 10 ms for each retransmission: of the oldest segment while it is pending, of any
    /// in this round trip and the last.
    #[test]
    fn the_timer_is_extended() {
        let (mut wsc, mut window) = open(&Params { link_timeout: 0.01, ..first_mechanism() }, &[]);
        let extension = |wsc: &Wsc| wsc.timer_extension().0 / 1_000_000;
        assert_eq!(extension(&wsc), 0);
        link_retry(&mut wsc, 2, 1);
        assert_eq!(extension(&wsc), 0, "not the oldest");
        link_retry(&mut wsc, 1, 1);
        link_retry(&mut wsc, 1, 2);
        assert_eq!(extension(&wsc), 20);
        link_ack(&mut wsc, 1, 3, 0);
        assert_eq!(extension(&wsc), 30, "recent");
        for (una, expected) in [(2, 30), (5, 30), (20, 0)] {
            let sample = AckSample { una: start_of(una), next: start_of(4 * una), ..ack(1) };
            wsc.on_ack(&sample, &mut window);
            if una == 20 {
                wsc.link.forget(start_of(una));
            }
            assert_eq!(extension(&wsc), expected, "una {una}");
        }
    }

    /// TV-7.4, and the default: all of the median.
    #[test]
    fn a_best_start_takes_the_median_or_half_of_it() {
        let history = [18.0, 22.0, 20.0, 40.0];
        let (wsc, window) = open(&Params { best_factor: 0.5, ..Params::default() }, &history);
        assert_eq!(window, Window { cwnd: 10.0, ssthresh: 21.0 });
        assert_eq!(wsc.pacing_rate(), Some(200.0), "ten segments in 50 ms");
        let (wsc, window) = open(&Params::default(), &[]);
        assert_eq!((window.cwnd, window.ssthresh, wsc.pacing_rate()), (10.0, f64::INFINITY, None));
        let (_, window) = open(&Params::default(), &history[..2]);
        assert_eq!(window.ssthresh, f64::INFINITY, "two are too few");
        let (_, window) = open(&Params::default(), &history);
        assert_eq!(window, Window { cwnd: 21.0, ssthresh: 21.0 });
        let (_, window) = open(&Params::default(), &[500.0; 3]);
        assert_eq!(window, Window { cwnd: 65.0, ssthresh: 500.0 }, "64 KB");
        let (_, window) = open(&Params { best_start: false, ..Params::default() }, &history);
        assert_eq!(window.ssthresh, f64::INFINITY);
    }

    /// W0 = 40 of which 36 are out: T = 18, W = 10. After the first window a loss halves as ever.
    #[test]
    fn a_loss_in_the_first_window_retreats() {
        let (mut wsc, window) = open(&Params::default(), &[40.0; 3]);
        let mut later = wsc.clone();
        let congestion = LossKind::Congestion;
        assert_eq!(wsc.on_loss(&loss(36.0), &window), Reduction::to(18.0, 10.0).taken_for(congestion));
        assert_eq!(wsc.pacing_rate(), None);
        let mut grown = window;
        let sample = |una, next| AckSample { una: start_of(una), next: start_of(next), ..ack(1) };
        later.on_ack(&sample(2, 40), &mut grown);
        assert!(later.pacing_rate().is_some(), "segment 40 has not been sent");
        later.on_ack(&sample(40, 41), &mut grown);
        assert_eq!(later.pacing_rate(), None);
        assert!(later.first_window.is_some(), "segment 40 is still out");
        later.on_ack(&sample(41, 80), &mut grown);
        assert_eq!(later.on_loss(&loss(36.0), &grown), Reduction::to(18.0, 18.0).taken_for(congestion));
    }

    const VECTOR: [u64; 15] = [100, 102, 98, 101, 99, 100, 600, 605, 598, 603, 350, 101, 99, 1102, 1098];

    /// TV-7.5.
    #[test]
    fn clusters_at_multiples_of_the_link_delay_are_moved_back() {
        let mut clusters = Clusters::new(0.5);
        for sample in VECTOR {
            assert_eq!(clusters.add(sample as f64 / 1000.0), Verdict::Keep, "too few to cluster");
        }
        clusters.cluster();
        let found: Vec<(f64, u32)> = (0..clusters.count)
            .map(|index| ((clusters.centroids[index] * 1e4).round() / 10.0, clusters.sizes[index]))
            .collect();
        assert_eq!(found, [(100.0, 8), (350.0, 1), (601.5, 4), (1100.0, 2)]);
        let verdicts: Vec<Verdict> = (0..clusters.count).map(|index| clusters.judge(index)).collect();
        let expected =
            [Verdict::Keep, Verdict::Drop, Verdict::Retransmitted(1.0), Verdict::Retransmitted(2.0)];
        assert_eq!(verdicts, expected);
    }

    /// The same through the whole filter: with the sixteenth sample on, 603 ms count as 103 and 350 ms not at all.
    #[test]
    fn the_filter_uses_the_clusters() {
        let (mut wsc, _) = open(&Params::default(), &[]);
        let mut filter = |rtt: u64| ms(wsc.filter_rtt(Span::from_millis(rtt), 1, Time::ZERO));
        assert!(VECTOR.iter().all(|&rtt| filter(rtt) == Some(rtt)));
        assert_eq!(filter(603), Some(103));
        assert_eq!(filter(350), None, "a transient");
        assert_eq!(filter(1098), Some(98));
        assert_eq!(filter(101), Some(101));
        assert_eq!(filter(360), Some(360), "three of them are a level");
        assert_eq!(filter(1700), None, "alone");
        assert_eq!(wsc.timer_extension(), Span::from_millis(1000), "what was taken is added to the timer");
    }

    #[test]
    fn holding_back_is_a_mode() {
        let (wsc, _) = open(&Params { wsc_delay: true, ..Params::default() }, &[]);
        assert_eq!(wsc.retransmit_delay(), Some(Span::from_millis(500)));
        assert_eq!(open(&Params::default(), &[]).0.retransmit_delay(), None);
    }

    #[test]
    fn nothing_is_asked_for_when_all_is_off() {
        let off = Params {
            link_rtt: false,
            link_threshold: false,
            best_start: false,
            clusters: false,
            ..Params::default()
        };
        assert!(Wsc::new(&off).needs().is_plain());
    }

    proptest! {
        /// Whatever the link says, the closed form agrees with a count over all segments, memory stays bounded, and
        /// nothing overflows.
        #[test]
        fn the_count_agrees_with_a_plain_one(
            steps in prop::collection::vec((0u8..5, 1u64..40, 0u32..5), 1..200), listing in any::<bool>(),
        ) {
            let threshold = if listing { Threshold::Listing } else { Threshold::Pending };
            let (mut wsc, _) = open(&with(threshold), &[]);
            // The link's last word on each segment: delivered, dropped or neither.
            let mut last = [State::Pending; 60];
            let mut una = 1;
            for (kind, number, n) in steps {
                let heard = number >= una;
                match kind {
                    0 | 1 => {
                        link_ack(&mut wsc, number, n, 0);
                        if heard {
                            last[number as usize] = State::Delivered;
                        }
                    }
                    2 => link_retry(&mut wsc, number, n),
                    3 if last[number as usize] != State::Delivered => {
                        link_drop(&mut wsc, number);
                        if heard {
                            last[number as usize] = State::Dropped;
                        }
                    }
                    4 if number > una => {
                        arrive(&mut wsc, una, number);
                        una = number;
                    }
                    _ => {}
                }
                let settled = wsc.link.settled;
                prop_assert!(settled >= start_of(una));
                let above = (1..60).filter(|&number| {
                    last[number as usize] == State::Delivered && start_of(number) >= settled
                });
                prop_assert_eq!(wsc.link.above, above.count() as u32);
                prop_assert!(wsc.dup_threshold(start_of(una), 3) >= 1);
                prop_assert!(wsc.link.reports.len() <= 40);
                prop_assert!(wsc.filter_rtt(Span::from_millis(50), start_of(una), Time::ZERO).is_some());
            }
        }

        /// Samples of any kind: the filter never makes an RTT longer, nor shorter than the least.
        #[test]
        fn the_filter_stays_between_the_least_and_the_sample(
            samples in prop::collection::vec(1u64..3_000_000_000, 1..300),
        ) {
            let (mut wsc, _) = open(&Params::default(), &[]);
            let mut least = u64::MAX;
            for sample in samples {
                least = least.min(sample);
                if let Some(rtt) = wsc.filter_rtt(Span(sample), 1, Time::ZERO) {
                    prop_assert!((least..=sample).contains(&rtt.0));
                }
            }
        }
    }

    /// A link that reports and a receiver that never answers: the memory has a bound.
    #[test]
    #[cfg_attr(miri, ignore = "20,000 reports take minutes")]
    fn memory_is_bounded() {
        let (mut wsc, _) = open(&Params::default(), &[]);
        for number in 0..20_000 {
            link_ack(&mut wsc, 2 * number + 2, 0, 0);
        }
        assert_eq!(wsc.link.reports.len(), MOST_REPORTS);
    }

    #[test]
    fn median_of_even_and_odd() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[40.0, 18.0, 22.0, 20.0]), 21.0);
    }
}
