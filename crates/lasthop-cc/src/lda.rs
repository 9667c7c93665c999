//! End-to-end loss differentiation: Reno that keeps its window at losses that a rule of the literature classifies as
//! errors (Biaz & Vaidya 1998 and 1999; Cen, Cosman & Voelker 2003).
//!
//! *What it does.* All rules share one response, so two runs differ only in the rule. A loss found by duplicate ACKs
//! that the `rule` takes for congestion is answered as in Reno; one that it takes for an error is repaired without a
//! change of the window. Timeouts count as congestion, because no later packet gives information about them. Three
//! rules use RTT and window once per round trip (Biaz & Vaidya 1998, a "negative result"): `vegas` estimates the
//! queued segments, `W (1 - RTT_min / RTT)`, with congestion above `vegas_bound`; `ntg` is the normalised throughput
//! gradient (Wang & Crowcroft), congestion below `ntg_bound`; `ndg` the normalised delay gradient (Jain), congestion
//! above `ndg_bound`. Four use the packet that arrives after a hole of n losses. `biaz`: an error if it comes T after
//! the one before the hole and `(n + 1) T_min <= T < (n + 2) T_min`; `mbiaz` has 1.25 instead of 2. `spike`: relative
//! one-way times above `rott_min + spike_start (rott_max - rott_min)` begin a spike, below the same with `spike_end`
//! it is over, and losses in a spike are congestion. `zigzag`: an error if the one-way time is less than the mean and
//! a number of deviations that depends on n: -1, -1/2, 0, and `many` for more than three. Four are baselines:
//! `congestion`, `wireless`, `coin`, and `oracle`, which knows the truth and exists only in simulation.
//!
//! *Reacts to* loss, classified by the rule; to ECN by halving.
//!
//! *Differs from the paper:* in the papers the receiver decides, and Cen et al. use TFRC; here the sender decides,
//! from arrival times that every ACK echoes (12 bytes) and from the first SACK block, which names the segment that
//! triggered the ACK and so gives the size of the hole; `recovery = "sack"` is the default, and without SACK every
//! hole counts as one segment. Where the receiver delays ACKs, the time between two echoes is divided by the segments
//! that they cover. For more than three losses public implementations disagree on the sign of the half deviation;
//! `many` sets it. The gradients of 1998 keep their value while the window is constant.
//!
//! *Validation:* vectors worked by hand from the rules, TV-6.7; constants from public implementations, because the
//! papers were not available. Recall, precision, goodput and cost to a rival in `docs/reference/classifiers.md`.
//!
//! *Limitations:* `biaz` and `mbiaz` assume that the last hop is the slowest and carries one flow: packets of other
//! flows increase T, and a burst after a faster hop makes T_min too low: on an uplink that is followed by a wire of
//! 100 Mbit/s they take every loss for congestion. `spike` needs a queue that sometimes empties. The mean of `zigzag`
//! adapts to a full queue within 32 packets, and the packets after an overflow are then below it. Only one SACK block
//! fits beside timestamps and the echo.
//!
//! *Kernel counterpart:* none.
//!
//! *References:* Biaz & Vaidya, IC3N 1998 and ASSET 1999; Cen, Cosman & Voelker, IEEE/ACM Transactions on Networking
//! 11(5), 2003; Tobe et al., ICC 2000 (Spike).

use lasthop_core::time::{Span, Time};

use crate::params::{choice, params};
use crate::reno::{self, Reno};
use crate::{
    AckSample, Arrival, CongestionControl, LossKind, LossSample, Needs, ReceiveTime, Reduction, Window,
};

pub(crate) const SUMMARY: &str = "Reno with a rule that classifies losses (Biaz & Vaidya, ZigZag, Spike)";

choice! {
    /// How a loss is judged.
    Rule {
        /// Biaz & Vaidya 1999.
        Biaz = "biaz",
        /// The same with a narrower interval (Cen et al. 2003).
        MBiaz = "mbiaz",
        /// Tobe et al. 2000 as Cen et al. have it.
        Spike = "spike",
        /// Cen et al. 2003.
        ZigZag = "zigzag",
        /// Biaz & Vaidya 1998: segments in the queue.
        Vegas = "vegas",
        /// Biaz & Vaidya 1998: normalised throughput gradient.
        Ntg = "ntg",
        /// Biaz & Vaidya 1998: normalised delay gradient.
        Ndg = "ndg",
        /// Every loss is congestion.
        Congestion = "congestion",
        /// None is.
        Wireless = "wireless",
        /// Heads or tails.
        Coin = "coin",
        /// What the network knows.
        Oracle = "oracle",
    }
}

params! {
    /// Rule that classifies a loss as congestion or error
    rule: Rule = Rule::ZigZag, 0.0..=10.0;
    /// Upper end of the interval of biaz and mbiaz, in T_min beyond the number of losses; 0: 2 and 1.25
    upper: f64 = 0.0, 0.0..=1000.0;
    /// Share of the range of one-way times above which a spike begins
    spike_start: f64 = 0.5, 0.0..=1.0;
    /// Share of the range of one-way times below which a spike ends
    spike_end: f64 = 0.333_333_333_333_333_3, 0.0..=1.0;
    /// Gain of the mean one-way time of zigzag; the deviation has twice this gain
    gain: f64 = 0.03125, 0.0001..=0.5;
    /// Number of deviations that zigzag adds to its threshold for more than three losses
    many: f64 = -0.5, -10.0..=10.0;
    /// Number of deviations that zigzag adds to all of its thresholds
    shift: f64 = 0.0, -100.0..=100.0;
    /// Segments in the queue above which vegas says congestion
    vegas_bound: f64 = 1.0, -1.0..=1e6;
    /// Gradient of throughput below which ntg says congestion
    ntg_bound: f64 = 0.5, -1e6..=1e6;
    /// Gradient of delay above which ndg says congestion
    ndg_bound: f64 = 0.0, -1e6..=1e6;
    /// Share of the losses that coin takes for errors
    wireless_share: f64 = 0.5, 0.0..=1.0;
    /// Count segments instead of ACKs in congestion avoidance (RFC 3465)
    byte_counting: bool = false, 0.0..=1.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
}

/// What the receiver saw last: the newest segment and when it came.
#[derive(Clone, Copy, Debug)]
struct Newest {
    /// One past its last byte.
    end: u64,
    times: ReceiveTime,
}

/// One-way times so far, in seconds and relative to nothing: the clocks of both ends need not agree.
#[derive(Clone, Copy, Debug, Default)]
struct OneWay {
    least: f64,
    most: f64,
    mean: f64,
    deviation: f64,
    is_spike: bool,
    known: bool,
}

/// RTT and window of the round before, for the rules of 1998.
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    /// When the next round begins.
    due: Time,
    least_rtt: f64,
    first_rtt: f64,
    rtt: f64,
    window: f64,
    ntg: f64,
    ndg: f64,
}

/// State of the sender that is told.
#[derive(Clone, Debug)]
pub struct Lda {
    params: Params,
    reno: Reno,
    newest: Option<Newest>,
    /// Least time between two packets, in seconds.
    least_gap: f64,
    one_way: OneWay,
    rounds: Rounds,
    una: u64,
    /// What the newest hole that is not behind `una` was taken for, and where it begins.
    hole: Option<(u64, LossKind)>,
}

impl Lda {
    pub(crate) fn new(params: &Params) -> Self {
        let Params { byte_counting, slow_start_limit, .. } = *params;
        Lda {
            params: params.clone(),
            reno: Reno::new(&reno::Params { byte_counting, slow_start_limit, ..reno::Params::default() }),
            newest: None,
            least_gap: f64::INFINITY,
            one_way: OneWay::default(),
            rounds: Rounds { ntg: f64::INFINITY, ndg: f64::NEG_INFINITY, ..Rounds::default() },
            una: 0,
            hole: None,
        }
    }

    /// The receiver has got the segment that ends at `end` at these times. Below it, behind `known`, which is all that
    /// it had got, `missing` bytes are a hole.
    fn received(&mut self, known: u64, missing: u64, end: u64, times: ReceiveTime, mss: u32) {
        let Some(before) = self.newest else {
            self.newest = Some(Newest { end, times });
            self.learn_one_way(times);
            return;
        };
        if times.received < before.times.received {
            // Something overtaken.
            return;
        }
        self.newest = Some(Newest { end, times });
        self.learn_one_way(times);
        let segments = |bytes: u64| bytes.div_ceil(u64::from(mss)) as f64;
        let covered = segments(end - before.end);
        let gap = times.received.since(before.times.received).seconds();
        if missing == 0 {
            self.least_gap = self.least_gap.min(gap / covered);
            return;
        }
        let kind = self.judge_hole(segments(missing), covered, gap, times);
        if self.hole.is_none_or(|(start, _)| start < self.una) {
            self.hole = Some((known, kind));
        }
    }

    /// Equations of Cen et al. 2003, section III.
    fn learn_one_way(&mut self, times: ReceiveTime) {
        let Params { gain, spike_start, spike_end, .. } = self.params;
        let rott = one_way(times);
        let known = &mut self.one_way;
        if !known.known {
            *known =
                OneWay { least: rott, most: rott, mean: rott, deviation: 0.0, is_spike: false, known: true };
            return;
        }
        known.least = known.least.min(rott);
        known.most = known.most.max(rott);
        known.mean = (1.0 - gain) * known.mean + gain * rott;
        known.deviation = (1.0 - 2.0 * gain) * known.deviation + 2.0 * gain * (rott - known.mean).abs();
        let share = if known.is_spike { spike_end } else { spike_start };
        let border = known.least + share * (known.most - known.least);
        known.is_spike = if known.is_spike { rott >= border } else { rott > border };
    }

    /// What a hole of `lost` segments is, behind which one arrived `gap` seconds after the last echo; the two echoes
    /// are `covered` segments apart.
    fn judge_hole(&self, lost: f64, covered: f64, gap: f64, times: ReceiveTime) -> LossKind {
        let interval = |own: f64| {
            let upper = if self.params.upper > 0.0 { self.params.upper } else { own };
            let on_time = gap >= covered * self.least_gap && gap < (covered - 1.0 + upper) * self.least_gap;
            kind_if_error(on_time)
        };
        match self.params.rule {
            Rule::Biaz => interval(2.0),
            Rule::MBiaz => interval(1.25),
            Rule::Spike => kind_if_error(!self.one_way.is_spike),
            Rule::ZigZag => {
                let deviations = match lost as u64 {
                    1 => -1.0,
                    2 => -0.5,
                    3 => 0.0,
                    _ => self.params.many,
                };
                let OneWay { mean, deviation, .. } = self.one_way;
                kind_if_error(one_way(times) < mean + (deviations + self.params.shift) * deviation)
            }
            _ => LossKind::Congestion,
        }
    }

    /// Notes window and RTT once per round.
    fn note_round(&mut self, ack: &AckSample, window: f64) {
        let Some(rtt) = ack.rtt.map(Span::seconds).filter(|rtt| *rtt > 0.0) else { return };
        let rounds = &mut self.rounds;
        if rounds.first_rtt == 0.0 {
            (rounds.first_rtt, rounds.least_rtt) = (rtt, rtt);
        }
        rounds.least_rtt = rounds.least_rtt.min(rtt);
        if ack.now < rounds.due {
            return;
        }
        rounds.due = ack.now + Span::from_seconds(rtt);
        let (before_rtt, before) = (rounds.rtt, rounds.window);
        let grown = window - before;
        (rounds.rtt, rounds.window) = (rtt, window);
        if before > 0.0 && grown != 0.0 {
            rounds.ntg = (window / rtt - before / before_rtt) / grown * rounds.first_rtt;
            rounds.ndg = (rtt - before_rtt) / (rtt + before_rtt) * (window + before) / grown;
        }
    }

    /// What a loss that duplicate ACKs have shown is taken for.
    fn judge(&self, loss: &LossSample) -> LossKind {
        let Params { vegas_bound, ntg_bound, ndg_bound, wireless_share, .. } = self.params;
        let Rounds { least_rtt, rtt, window, ntg, ndg, .. } = self.rounds;
        match self.params.rule {
            Rule::Biaz | Rule::MBiaz | Rule::Spike | Rule::ZigZag => {
                let seen = self.hole.filter(|&(start, _)| start >= self.una);
                seen.map_or(LossKind::Congestion, |(_, kind)| kind)
            }
            Rule::Vegas if rtt == 0.0 => LossKind::Congestion,
            Rule::Vegas => kind_if_error(window * (1.0 - least_rtt / rtt) <= vegas_bound),
            Rule::Ntg => kind_if_error(ntg >= ntg_bound),
            Rule::Ndg => kind_if_error(ndg <= ndg_bound),
            Rule::Congestion => LossKind::Congestion,
            Rule::Wireless => LossKind::Wireless,
            Rule::Coin => kind_if_error(toss(loss.now) < wireless_share),
            Rule::Oracle => loss.truth.unwrap_or(LossKind::Congestion),
        }
    }
}

fn kind_if_error(is_error: bool) -> LossKind {
    if is_error { LossKind::Wireless } else { LossKind::Congestion }
}

/// Time that a segment took, up to the difference of the clocks.
fn one_way(times: ReceiveTime) -> f64 {
    (times.received.0 as f64 - times.sent.0 as f64) / 1e9
}

/// A number from 0 to 1 that nothing but the instant decides (Steele et al. 2014, the finalizer of SplitMix64): a
/// controller draws nothing.
fn toss(at: Time) -> f64 {
    let mut mixed = at.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

impl CongestionControl for Lda {
    fn needs(&self) -> Needs {
        let by_echo = matches!(self.params.rule, Rule::Biaz | Rule::MBiaz | Rule::Spike | Rule::ZigZag);
        Needs {
            arrivals: by_echo,
            receive_times: by_echo,
            truth: self.params.rule == Rule::Oracle,
            classifies: true,
            ..Needs::default()
        }
    }

    #[inline]
    fn on_arrival(&mut self, arrival: &Arrival, _window: &mut Window) {
        self.una = arrival.una.max(arrival.ack);
        let Some(times) = arrival.times else { return };
        let mss = u64::from(arrival.mss);
        let newest = self.newest.map_or(0, |newest| newest.end);
        // A receiver that delays ACKs may have got more in order than the last one told, until now.
        let known = newest.max(arrival.ack);
        match arrival.first_sacked {
            // The block may have grown at its end: what triggered the ACK is its last segment.
            Some((start, end)) if end > known => {
                self.received(known, start.saturating_sub(known), end, times, arrival.mss);
            }
            _ if arrival.ack > newest => self.received(known, 0, arrival.ack, times, arrival.mss),
            // Without SACK the first duplicate is taken to lie behind a hole of one.
            None if arrival.ack == arrival.una && newest == arrival.ack => {
                self.received(known, mss, newest + 2 * mss, times, arrival.mss);
            }
            _ => {}
        }
    }

    #[inline]
    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        self.note_round(ack, window.cwnd);
        self.reno.on_ack(ack, window);
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        match self.judge(loss) {
            LossKind::Congestion => self.reno.on_loss(loss, window).taken_for(LossKind::Congestion),
            LossKind::Wireless => Reduction::to(window.cwnd, window.cwnd).taken_for(LossKind::Wireless),
        }
    }

    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.reno.on_timeout(loss, window).taken_for(LossKind::Congestion)
    }

    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.reno.on_ecn(loss, window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_at, loss, plain_arrival};

    const WINDOW: Window = Window { cwnd: 20.0, ssthresh: 10.0 };
    const MSS: u64 = 1000;

    fn lda(rule: Rule) -> Lda {
        Lda::new(&Params { rule, ..Params::default() })
    }

    fn at(ms: f64) -> Time {
        Time::ZERO + Span::from_seconds(ms / 1000.0)
    }

    /// Segments by number, with the times in milliseconds at which they were sent and received; those between are
    /// lost. The receiver has all below the first hole.
    fn after(rule: &Params, segments: &[(u64, f64, f64)]) -> Lda {
        let mut lda = Lda::new(rule);
        let (mut una, mut block) = (0, None);
        for &(number, sent, received) in segments {
            let times = Some(ReceiveTime { sent: at(sent), received: at(received) });
            let in_order = block.is_none() && number * MSS == una;
            let ack = if in_order { una + MSS } else { una };
            if !in_order {
                let start =
                    block.filter(|&(_, end)| end == number * MSS).map_or(number * MSS, |(start, _)| start);
                block = Some((start, (number + 1) * MSS));
            }
            let arrival =
                Arrival { una, ack, times, first_sacked: block, mss: MSS as u32, ..plain_arrival() };
            lda.on_arrival(&arrival, &mut WINDOW.clone());
            una = ack;
        }
        lda
    }

    fn verdict(mut lda: Lda) -> LossKind {
        lda.on_loss(&loss(20.0), &WINDOW).taken_for.unwrap()
    }

    /// Ten segments 10 ms apart, which take 50 ms; then one behind `lost` losses that is received `late_ms` after the
    /// tenth.
    fn behind(rule: &Params, lost: u64, late_ms: f64) -> LossKind {
        let before: Vec<_> = (0..10).map(|k| (k, 10.0 * k as f64, 50.0 + 10.0 * k as f64)).collect();
        let number = 10 + lost;
        let last = (number, 10.0 * number as f64, 140.0 + late_ms);
        verdict(after(rule, &[&before[..], &[last]].concat()))
    }

    /// TV-6.7, Biaz & Vaidya 1999: T_min = 10 ms, so that behind one loss 20 <= T < 30 is an error; behind three 40 to
    /// 50.
    #[test]
    fn biaz_asks_whether_the_next_packet_is_on_time() {
        let (error, congestion) = (LossKind::Wireless, LossKind::Congestion);
        let biaz = Params { rule: Rule::Biaz, ..Params::default() };
        for (lost, late, kind) in [
            (1, 19.9, congestion),
            (1, 20.0, error),
            (1, 29.9, error),
            (1, 30.1, congestion),
            (3, 39.0, congestion),
            (3, 49.0, error),
            (3, 51.0, congestion),
        ] {
            assert_eq!(behind(&biaz, lost, late), kind, "{lost} lost, {late} ms");
        }
        let narrow = Params { rule: Rule::MBiaz, ..Params::default() };
        for (lost, late, kind) in
            [(1, 22.0, error), (1, 22.6, congestion), (3, 42.0, error), (3, 42.6, congestion)]
        {
            assert_eq!(behind(&narrow, lost, late), kind, "{lost} lost, {late} ms");
        }
        assert_eq!(behind(&Params { upper: 2.0, ..narrow }, 1, 29.9), error);
    }

    /// TV-6.7, Spike: one-way times from 50 to 70 ms; a spike begins above 60 and is over below 56.67.
    #[test]
    fn spike_remembers_whether_it_began() {
        let spike = Params { rule: Rule::Spike, ..Params::default() };
        let sends = |one_way: &[f64]| {
            let mut segments: Vec<_> = one_way
                .iter()
                .zip(0u64..)
                .map(|(way, k)| (k, 100.0 * k as f64, 100.0 * k as f64 + way))
                .collect();
            segments.last_mut().unwrap().0 += 1;
            verdict(after(&spike, &segments))
        };
        assert_eq!(sends(&[50.0, 70.0, 50.0, 59.0]), LossKind::Wireless);
        assert_eq!(sends(&[50.0, 70.0, 50.0, 61.0]), LossKind::Congestion);
        assert_eq!(sends(&[50.0, 70.0, 57.0]), LossKind::Congestion);
        assert_eq!(sends(&[50.0, 70.0, 56.0]), LossKind::Wireless);
    }

    /// TV-6.7, ZigZag with a gain of 1/2: one-way times 40, 60, 40 ms have the means 40, 50, 45 and the deviations 0,
    /// 10, 5. With 44 behind the hole the mean is 44.5 and the deviation 0.5.
    #[test]
    fn zigzag_allows_more_the_more_is_lost() {
        let judged = |lost: u64, many: f64, last: f64| {
            let params = Params { rule: Rule::ZigZag, gain: 0.5, many, ..Params::default() };
            let way = [(0, 0.0, 40.0), (1, 100.0, 160.0), (2, 200.0, 240.0), (3 + lost, 300.0, 300.0 + last)];
            verdict(after(&params, &way))
        };
        let (error, congestion) = (LossKind::Wireless, LossKind::Congestion);
        // 44 < 44.5 - d * 0.5: not with d = 1, with 1/2, and with 0.
        assert_eq!(judged(1, -0.5, 44.0), congestion);
        assert_eq!(judged(2, -0.5, 44.0), error);
        assert_eq!(judged(3, -0.5, 44.0), error);
        // 46: the mean is 45.5, the deviation 0.5.
        assert_eq!(judged(3, -0.5, 46.0), congestion);
        assert_eq!(judged(4, -0.5, 46.0), congestion);
        assert_eq!(judged(4, 1.5, 46.0), error);
    }

    /// One round of 10 segments in 100 ms and one of 11 in 120.
    fn two_rounds(rule: Rule) -> Lda {
        let mut lda = lda(rule);
        for (seconds, rtt, cwnd) in [(1.0, 0.1, 10.0), (2.0, 0.12, 11.0)] {
            let mut window = Window { cwnd, ssthresh: 2.0 };
            let ack = AckSample { rtt: Some(Span::from_seconds(rtt)), ..ack_at(seconds, rtt) };
            lda.on_ack(&ack, &mut window);
        }
        lda
    }

    /// TV-6.7, Biaz & Vaidya 1998: 11 (1 - 100 / 120) = 1.83 segments wait; the gradient of throughput is
    /// (91.67 - 100) / 1 / 10 = -0.83, that of delay 20 / 220 * 21 / 1 = 1.91.
    #[test]
    fn the_predictors_of_1998() {
        let of = |rule| two_rounds(rule).rounds;
        assert!((of(Rule::Ntg).ntg + 0.833_33).abs() < 1e-4, "{:?}", of(Rule::Ntg));
        assert!((of(Rule::Ndg).ndg - 1.909_09).abs() < 1e-4, "{:?}", of(Rule::Ndg));
        for rule in [Rule::Vegas, Rule::Ntg, Rule::Ndg] {
            assert_eq!(verdict(two_rounds(rule)), LossKind::Congestion);
        }
        let mut patient = two_rounds(Rule::Vegas);
        patient.params.vegas_bound = 2.0;
        assert_eq!(verdict(patient), LossKind::Wireless);
    }

    #[test]
    fn an_error_leaves_the_window_and_congestion_halves_it() {
        let lost = loss(16.0);
        assert_eq!(lda(Rule::Wireless).on_loss(&lost, &WINDOW).cwnd, 20.0);
        assert_eq!(lda(Rule::Congestion).on_loss(&lost, &WINDOW).cwnd, 8.0);
        assert_eq!(lda(Rule::Wireless).on_timeout(&lost, &WINDOW).cwnd, 1.0);
        assert_eq!(lda(Rule::Wireless).on_ecn(&lost, &WINDOW).cwnd, 8.0);
    }

    #[test]
    fn the_oracle_is_told() {
        let mut oracle = lda(Rule::Oracle);
        for truth in [LossKind::Congestion, LossKind::Wireless] {
            let told = LossSample { truth: Some(truth), ..loss(16.0) };
            assert_eq!(oracle.on_loss(&told, &WINDOW).taken_for, Some(truth));
        }
        assert_eq!(oracle.on_loss(&loss(16.0), &WINDOW).taken_for, Some(LossKind::Congestion));
    }

    /// Of 10,000 tosses within five deviations of a binomial.
    #[test]
    fn the_coin_is_fair() {
        let params = Params { rule: Rule::Coin, wireless_share: 0.25, ..Params::default() };
        let mut coin = Lda::new(&params);
        let tosses = (0..10_000).map(|k| LossSample { now: Time(k * 1_234_567), ..loss(16.0) });
        let errors =
            tosses.filter(|lost| coin.on_loss(lost, &WINDOW).taken_for == Some(LossKind::Wireless)).count();
        assert!(errors.abs_diff(2500) < 220, "{errors}");
    }

    /// With delayed ACKs the first duplicate tells of a segment that came in order, too: segments 0 to 3 at 50 to 80
    /// ms, of which every second is acknowledged, 4 at 90, and 6 at 110, behind the loss of 5. It is on time: two
    /// segments lie between the echoes, and 30 ms.
    #[test]
    fn a_delayed_ack_is_no_part_of_the_hole() {
        let mut lda = lda(Rule::Biaz);
        let echo = |una: u64, ack: u64, number: u64, first_sacked| {
            let ms = 10.0 * number as f64;
            let times = Some(ReceiveTime { sent: at(ms), received: at(50.0 + ms) });
            Arrival {
                una: una * MSS,
                ack: ack * MSS,
                times,
                first_sacked,
                mss: MSS as u32,
                ..plain_arrival()
            }
        };
        for arrival in [
            echo(0, 2, 1, None),
            echo(2, 4, 3, None),
            echo(4, 5, 6, Some((6 * MSS, 7 * MSS))),
            echo(5, 5, 7, Some((6 * MSS, 8 * MSS))),
        ] {
            lda.on_arrival(&arrival, &mut WINDOW.clone());
        }
        assert_eq!(lda.hole, Some((5 * MSS, LossKind::Wireless)));
        assert_eq!(verdict(lda), LossKind::Wireless);
    }

    /// A second hole of the same window does not change what the first was taken for, and a repair ends both.
    #[test]
    fn the_first_hole_counts_until_it_is_repaired() {
        let biaz = Params { rule: Rule::Biaz, ..Params::default() };
        let mut segments: Vec<_> = (0..10).map(|k| (k, 10.0 * k as f64, 50.0 + 10.0 * k as f64)).collect();
        segments.push((11, 110.0, 165.0));
        segments.push((13, 130.0, 300.0));
        let mut lda = after(&biaz, &segments);
        assert_eq!(verdict(lda.clone()), LossKind::Wireless);
        let repaired = Arrival { una: 10 * MSS, ack: 14 * MSS, mss: MSS as u32, ..plain_arrival() };
        lda.on_arrival(&repaired, &mut WINDOW.clone());
        assert_eq!(verdict(lda), LossKind::Congestion);
    }
}
