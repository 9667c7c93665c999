//! TCP-Real: the receiver measures the rate at which waves of data arrive, and the sender follows it (Zhang &
//! Tsaoussidis, NOSSDAV 2001).
//!
//! *What it does.* The sender marks the segments of one window as a wave; the receiver measures the rate of each wave
//! and reports it on its ACKs. Once per wave the sender computes `q`, the ratio of the rate to that of the wave
//! before. If the rate holds, `q >= 1 - e0`, the window grows by `alpha` segments; at a small decrease it stays; below
//! `1 - e1` congestion is building up, and the window is reduced by the share `gamma`. A loss at a healthy rate is
//! repaired without a change of window or timer; any other loss leaves `beta` of the window. The rate is healthy if it
//! has not fallen, `q >= 1 - e1`, and is sufficient: at this rate the wave arrives within the minimum RTT, and the
//! shortest RTT of the wave is near the minimum, both within the share `e1`.
//!
//! *Reacts to* the receiving rate; to loss, classified by that rate; to ECN by keeping `beta`.
//!
//! *Differs from the paper:* the paper and its successors give alpha, beta and gamma, and call the thresholds only
//! "small". `e0`, `e1`, the format of a wave and the rule at a loss are a reconstruction. In the paper the receiver
//! decides the window; here it reports the rate and the sender applies the rule, with the same effect.
//!
//! A wave is one round trip of data, measured over as many segments as the window held when it began, so that it never
//! contains the pause between two bursts. Waves below `min_wave` segments are too noisy to compare; the window then
//! grows as Reno's, because otherwise it would stay that small. Rates may be averaged over `smooth` waves before they
//! are compared. Without a report for `silence` seconds and two RTTs the sender behaves as Reno. `adaptive_gamma`
//! reduces the window by the share by which the rate has fallen, between 1/16 and 1/2: the successors say that gamma
//! "can be adaptive", but not how.
//!
//! Beta and the half after a timeout are shares of the window and not of the data in flight, which is far smaller if
//! the application sends less. After a timeout at a healthy rate the segment at `una` is sent first and the rest as
//! ACKs return, up to the window before, because the burst of a whole window would be lost again. A loss in the first
//! slow start ends slow start.
//!
//! Rates are not compared across a timeout by congestion (`fresh_start`): gamma adjusts the window "during congestion
//! avoidance" (Papadimitriou & Tsaoussidis). The first wave of the next slow start is spread over a round trip by
//! repairs and their ACKs, so its rate is a fraction of that of the burst before. Compared with it, slow start would
//! end there, and the window would grow by `alpha` per round trip: a single flow over SACK (50 Mbit/s, 90 ms, 167
//! packets of buffer) then uses 0.70 of its link in the first minute instead of 0.90. Elsewhere the key changes little
//! (2 % over the handoffs below).
//!
//! The authors leave out adjustments when the rate "indicates sufficient availability of bandwidth" (the words of
//! Papadimitriou & Tsaoussidis), and do not say which rate is sufficient. A steady rate alone does not show it
//! (`healthy = "steady"`): behind a drop-tail queue the rate is that of the link at any queue length, so every
//! overflow passes for an error, the window stays too large, and a single flow uses 0.42, 0.65 and 0.94 of its link
//! with buffers of 0.2, 1 and 5 bandwidth-delay products. A wave that takes longer than the minimum RTT shows a queue,
//! and a flow with a queue of its own has no bandwidth to spare (`sufficient`): 0.77, 0.99 and 0.99. With competing
//! flows that is not enough: segments of a wave that stay adjacent in the queue arrive at the rate of the link, which
//! seems sufficient for half of a bandwidth-delay product. Two flows then take 47 % (7 packets of buffer) and 31 %
//! (33) of their overflows for errors and reach 0.77 and 0.95 of Reno's goodput, and four classify no better than
//! chance. The RTT shows the queue of others, so the default (`unqueued`) also requires a short RTT of some segment of
//! the wave: 24 and 0 %, 0.85 and 0.99, but a quarter fewer errors are recognised on a path with both kinds.
//!
//! *Validation:* TV-8.2, worked by hand; recall and precision in `docs/reference/classifiers.md`; goodput and
//! retransmissions over handoffs against Reno's (`crates/lasthop-sim/tests/classifiers.rs`).
//!
//! *Limitations:* a wave that is clocked by ACKs measures the rate of the bottleneck, which stays constant while a
//! queue grows; behind drop-tail queues gamma is therefore rarely used. A queue below `e1` of the minimum RTT is not
//! detected. A longer queue makes every loss count as congestion, including errors; where both occur, goodput is below
//! that of `healthy = "steady"`, but above Reno's. The segment of a wave is sent at once and its loss is detected a
//! round trip later, so an overflow costs two segments: 0.77 of the link with a buffer of a fifth of the path, where
//! Reno uses 0.83.
//!
//! Over handoffs of 0.2, 1 and 4 s (10 Mbit/s, 40 ms; one, two, five and ten flows; packets dropped or held) it
//! reaches 0.96 to 1.68 of Reno's goodput with buffers of 33 and 167 packets, and 0.88 to 1.33 with 7, where a queue
//! of others is seldom long enough to be detected; it retransmits at most 1.6 times as much. A link that retransmits
//! frames makes the rates of single waves vary by more than `e1`, so that gamma is used without congestion. With a
//! frame error rate of 0.1, seven attempts, delivery in order and 167 packets of buffer (10 Mbit/s, 40 ms), it carries
//! 2.2 Mbit/s alone, where NewReno carries 8.7, and 0.5 beside a NewReno that carries 8.2. `gamma = 0` gives 8.6 and
//! 4.2; `smooth = 3` helps with a competitor (1.2) but not alone (1.2).
//!
//! *Kernel counterpart:* none.
//!
//! *References:* Zhang & Tsaoussidis, NOSSDAV 2001; Tsaoussidis & Zhang, Computer Networks 40(4), 2002; RFC 6994.

use lasthop_core::time::{Span, Time};

use crate::params::{choice, params};
use crate::{AckSample, Arrival, CongestionControl, LossKind, LossSample, Needs, Reduction, Start, Window};

pub(crate) const SUMMARY: &str = "Follows the rate that the receiver measures (Zhang & Tsaoussidis 2001)";

choice! {
    /// What the receiving rate must be for a loss to be an error of the channel.
    Healthy {
        /// It has not fallen, carries a wave within the best RTT, and the wave's shortest RTT is near the best, too.
        Unqueued = "unqueued",
        /// It has not fallen, and carries a wave within the best RTT.
        Sufficient = "sufficient",
        /// It has not fallen.
        Steady = "steady",
    }
}

params! {
    /// Segments added per wave while the receiving rate holds
    alpha: f64 = 1.0, 0.001..=1000.0;
    /// Share of the window kept after a loss by congestion
    beta: f64 = 0.5, 0.01..=0.99;
    /// Share of the window taken away when the receiving rate falls
    gamma: f64 = 0.125, 0.0..=0.99;
    /// Reduce by the share by which the rate has fallen, from 1/16 to 1/2, instead of gamma
    adaptive_gamma: bool = false, 0.0..=1.0;
    /// Waves over which the rate is averaged before it is compared
    smooth: f64 = 1.0, 1.0..=100.0;
    /// The rate holds if it falls by no more than this share
    e0: f64 = 0.01, 0.0..=1.0;
    /// It has fallen if it falls by more than this share
    e1: f64 = 0.1, 0.0..=1.0;
    /// When a loss counts as a channel error: if the rate has not fallen, and the wave met no queue of its own or of
    /// others
    healthy: Healthy = Healthy::Unqueued, 0.0..=2.0;
    /// Waves of fewer segments are not compared
    min_wave: f64 = 4.0, 2.0..=1000.0;
    /// Forget the receiving rate at a timeout by congestion, so that the first wave after it is compared with none
    fresh_start: bool = true, 0.0..=1.0;
    /// After this many seconds and two RTTs without a report: behave as Reno
    silence: f64 = 1.0, 0.0..=1000.0;
    /// Maximum number of segments that one ACK adds in slow start (RFC 5681: 1; RFC 3465: 2)
    slow_start_limit: f64 = crate::SLOW_START_LIMIT, 1.0..=1e9;
}

/// Bounds of an adaptive gamma.
const LEAST_GAMMA: f64 = 1.0 / 16.0;
const MOST_GAMMA: f64 = 0.5;

/// What a comparison of two waves says about the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trend {
    Holds,
    Declines,
    Falls,
}

/// State of TCP-Real.
#[derive(Clone, Debug)]
pub struct TcpReal {
    params: Params,
    /// The newest report that was taken.
    wave: Option<u16>,
    /// Rate of the last wave that was compared, averaged.
    rate: Option<f64>,
    trend: Trend,
    reported: Option<Time>,
    srtt: Span,
    /// The shortest RTT so far: that of a path without queues.
    best_rtt: Option<Span>,
    /// The shortest RTT since the last report: what others have in the queue, without the burst of its own.
    least_rtt: Option<Span>,
    /// The same of the wave before it.
    wave_rtt: Span,
    mss: u32,
    /// What has arrived of the last wave that was compared.
    segments: u16,
    /// The last wave was too small to compare.
    small: bool,
    /// A wave's growth that waits for an ACK which may grow the window.
    due: bool,
    /// Reports leave the window alone until this is acknowledged: a loss of this window has been answered.
    answered_to: u64,
    /// That loss was a timeout by congestion.
    restarted: bool,
    next: u64,
    /// The threshold before any loss, which says nothing about the path.
    unknown_ssthresh: f64,
}

impl TcpReal {
    pub(crate) fn new(params: &Params) -> Self {
        TcpReal {
            params: params.clone(),
            wave: None,
            rate: None,
            trend: Trend::Holds,
            reported: None,
            srtt: Span::ZERO,
            best_rtt: None,
            least_rtt: None,
            wave_rtt: Span::ZERO,
            mss: 1,
            segments: 0,
            small: false,
            due: false,
            answered_to: 0,
            restarted: false,
            next: 0,
            unknown_ssthresh: f64::INFINITY,
        }
    }

    /// Whether the last report is younger than `age`.
    fn is_fresh(&self, age: Span, now: Time) -> bool {
        self.reported.is_some_and(|reported| now.since(reported) < age)
    }

    /// Whether reports come in.
    fn is_followed(&self, now: Time) -> bool {
        self.is_fresh(Span::from_seconds(self.params.silence).max(self.srtt * 2), now)
    }

    /// Whether the receiving rate leaves room for what is sent, so that a loss is no overflow of its own making.
    fn is_healthy(&self) -> bool {
        if self.trend == Trend::Falls {
            return false;
        }
        if self.params.healthy == Healthy::Steady {
            return true;
        }
        let (Some(rate), Some(best)) = (self.rate, self.best_rtt) else { return false };
        let share = 1.0 - self.params.e1;
        let carried = rate * best.seconds() / f64::from(self.mss);
        // The queue of others shows in the RTT alone: segments that stay side by side in it come at the link's rate.
        let unqueued = best.seconds() >= share * self.wave_rtt.seconds();
        carried >= share * f64::from(self.segments) && (unqueued || self.params.healthy != Healthy::Unqueued)
    }

    /// A wave has been measured: compares it with the one before.
    fn compare(&mut self, rate: f64, window: &mut Window, may_reduce: bool) {
        let before = self.rate.unwrap_or(rate);
        let averaged = before + (rate - before) / self.params.smooth;
        self.rate = Some(averaged);
        let quotient = averaged / before;
        self.trend = if quotient >= 1.0 - self.params.e0 {
            Trend::Holds
        } else if quotient >= 1.0 - self.params.e1 {
            Trend::Declines
        } else {
            Trend::Falls
        };
        self.due = self.trend == Trend::Holds;
        if !may_reduce && self.restarted {
            // A wave from before the timeout: it must not hold slow start up.
            self.trend = Trend::Holds;
        }
        if self.trend == Trend::Falls && may_reduce {
            let share = if self.params.adaptive_gamma {
                (1.0 - quotient).clamp(LEAST_GAMMA, MOST_GAMMA)
            } else {
                self.params.gamma
            };
            let reduced = ((1.0 - share) * window.cwnd).max(2.0);
            window.cwnd = window.cwnd.min(reduced);
            window.ssthresh = reduced;
        }
    }

    fn note_answer(&mut self) {
        self.answered_to = self.next;
        self.due = false;
        self.restarted = false;
    }

    fn cut(&self, window: &Window) -> Reduction {
        let kept = (self.params.beta * window.cwnd).max(2.0);
        Reduction::to(kept, kept)
    }
}

impl CongestionControl for TcpReal {
    fn needs(&self) -> Needs {
        Needs { arrivals: true, waves: true, classifies: true, ..Needs::default() }
    }

    fn on_start(&mut self, _start: &Start<'_>, window: &mut Window) {
        self.unknown_ssthresh = window.ssthresh;
    }

    fn on_arrival(&mut self, arrival: &Arrival, window: &mut Window) {
        self.next = arrival.next;
        self.mss = arrival.mss;
        self.srtt = arrival.srtt;
        let Some(report) = arrival.report.filter(|report| self.wave != Some(report.id)) else { return };
        self.wave = Some(report.id);
        self.reported = Some(arrival.now);
        self.wave_rtt = self.least_rtt.take().unwrap_or(self.wave_rtt);
        self.small = f64::from(report.segments) < self.params.min_wave;
        let answered = arrival.una < self.answered_to;
        // Waves from before the timeout must not bring back what was forgotten at it.
        let outdated = answered && self.restarted && self.params.fresh_start;
        if let Some(rate) = report.rate.filter(|&rate| rate > 0.0 && !self.small && !outdated) {
            self.segments = report.segments;
            self.compare(rate, window, !answered);
        }
    }

    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        let due = std::mem::take(&mut self.due);
        self.best_rtt = ack.rtt.into_iter().chain(self.best_rtt).min();
        self.least_rtt = ack.rtt.into_iter().chain(self.least_rtt).min();
        if !ack.may_grow {
            return;
        }
        let as_reno = self.small || !self.is_followed(ack.now);
        if window.in_slow_start() {
            if as_reno || self.trend == Trend::Holds {
                window.slow_start(f64::from(ack.acked), self.params.slow_start_limit);
            }
        } else if as_reno {
            window.cwnd += self.params.alpha / window.cwnd;
        } else if due {
            window.cwnd += self.params.alpha;
        }
    }

    fn on_loss(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.note_answer();
        if self.is_followed(loss.now) && self.is_healthy() {
            return Reduction::none(window, self.unknown_ssthresh).taken_for(LossKind::Wireless);
        }
        self.cut(window).taken_for(LossKind::Congestion)
    }

    fn on_timeout(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        self.note_answer();
        if self.is_fresh(self.srtt * 2, loss.now) && self.is_healthy() {
            return Reduction::none(window, self.unknown_ssthresh)
                .clocked_by_acks()
                .taken_for(LossKind::Wireless)
                .without_backoff();
        }
        // What is sent again belongs to no wave, so for a while nothing new is heard about the rate.
        self.trend = Trend::Holds;
        self.rate = self.rate.filter(|_| !self.params.fresh_start);
        self.restarted = true;
        Reduction::to((window.cwnd / 2.0).max(2.0), 1.0).taken_for(LossKind::Congestion)
    }

    fn on_ecn(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        self.note_answer();
        self.cut(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WaveReport;
    use crate::testing::{ack_at, loss, plain_arrival};

    /// A wave of `segments` that arrived at `rate` kB/s, the `id`th.
    fn report(real: &mut TcpReal, window: &mut Window, id: u16, rate: f64, segments: u16) {
        let report = WaveReport { id, rate: Some(rate * 1000.0), segments };
        let now = Time::ZERO + Span::from_millis(u64::from(id) * 100);
        let srtt = Span::from_millis(100);
        real.on_arrival(
            &Arrival { now, srtt, report: Some(report), next: 17_001, ..plain_arrival() },
            window,
        );
        real.on_ack(&AckSample { rtt: Some(BEST), ..ack_at(now.seconds(), 0.1) }, window);
    }

    /// Waves of 16 segments of 1000 B that come at 98 kB/s fit into it.
    const BEST: Span = Span::from_millis(164);

    /// W = 16 in congestion avoidance, and waves with these rates.
    fn after(rates: [f64; 2]) -> (TcpReal, Window) {
        let mut real = TcpReal::new(&Params::default());
        let mut window = Window { cwnd: 16.0, ssthresh: 10.0 };
        report(&mut real, &mut window, 1, rates[0], 16);
        window.cwnd = 16.0;
        report(&mut real, &mut window, 2, rates[1], 16);
        (real, window)
    }

    fn lost() -> LossSample {
        LossSample { now: Time::ZERO + Span::from_millis(250), ..loss(16.0) }
    }

    /// TV-8.2: W = 16 and waves of 100 kB/s and then of 101, 95 and 80.
    #[test]
    fn the_window_follows_the_rate() {
        assert_eq!(after([100.0, 101.0]).1, Window { cwnd: 17.0, ssthresh: 10.0 });
        assert_eq!(after([100.0, 95.0]).1, Window { cwnd: 16.0, ssthresh: 10.0 });
        assert_eq!(after([100.0, 80.0]).1, Window { cwnd: 14.0, ssthresh: 14.0 });
    }

    /// TV-8.2: a third duplicate ACK at W = 16.
    #[test]
    fn a_loss_at_a_healthy_rate_costs_nothing() {
        let window = Window { cwnd: 16.0, ssthresh: 10.0 };
        let (mut fallen, _) = after([100.0, 80.0]);
        let congestion = Reduction::to(8.0, 8.0).taken_for(LossKind::Congestion);
        assert_eq!(fallen.on_loss(&lost(), &window), congestion);
        let (mut healthy, _) = after([100.0, 98.0]);
        let wireless = Reduction::to(16.0, 16.0).taken_for(LossKind::Wireless);
        assert_eq!(healthy.on_loss(&lost(), &window), wireless);
        let repaired = Reduction { cwnd: 2.0, ..wireless.without_backoff() };
        assert_eq!(healthy.on_timeout(&lost(), &window), repaired, "una first, then as ACKs return");
        assert_eq!(healthy.on_ecn(&lost(), &window), Reduction::to(8.0, 8.0));
    }

    /// A rate that holds does not suffice if the wave takes longer than the best RTT: 16 kB at 98 kB/s take 163 ms.
    #[test]
    fn a_loss_behind_a_queue_is_congestion() {
        let window = Window { cwnd: 16.0, ssthresh: 10.0 };
        for (best_ms, healthy, taken_for) in [
            (147, Healthy::Sufficient, LossKind::Wireless),
            (146, Healthy::Sufficient, LossKind::Congestion),
            (146, Healthy::Steady, LossKind::Wireless),
        ] {
            let (mut real, _) = after([100.0, 98.0]);
            real.params.healthy = healthy;
            real.best_rtt = Some(Span::from_millis(best_ms));
            assert_eq!(real.on_loss(&lost(), &window).taken_for, Some(taken_for), "{best_ms} ms");
            assert_eq!(real.on_timeout(&lost(), &window).taken_for, Some(taken_for), "{best_ms} ms");
        }
    }

    /// A wave that suffices for its own sixteen segments of 1 kB has stood behind those of others: its shortest RTT is
    /// 185 ms where the best is 165.
    #[test]
    fn a_queue_of_others_may_count() {
        let window = Window { cwnd: 16.0, ssthresh: 10.0 };
        for (wave_ms, healthy, taken_for) in [
            (185, Healthy::Sufficient, LossKind::Wireless),
            (185, Healthy::Unqueued, LossKind::Congestion),
            (180, Healthy::Unqueued, LossKind::Wireless),
        ] {
            let (mut real, _) = after([100.0, 98.0]);
            real.params.healthy = healthy;
            real.best_rtt = Some(Span::from_millis(165));
            real.wave_rtt = Span::from_millis(wave_ms);
            assert_eq!(real.on_loss(&lost(), &window).taken_for, Some(taken_for), "{wave_ms} ms");
        }
    }

    /// What is sent again after a timeout belongs to no wave: the last wave before it must not hold slow start up.
    #[test]
    fn a_fall_before_a_timeout_does_not_hold_slow_start_up() {
        let (mut real, _) = after([100.0, 80.0]);
        real.on_timeout(&lost(), &Window { cwnd: 16.0, ssthresh: 16.0 });
        let mut window = Window { cwnd: 4.0, ssthresh: 8.0 };
        real.on_ack(&ack_at(0.3, 0.1), &mut window);
        assert_eq!(window.cwnd, 5.0);
        report(&mut real, &mut window, 3, 40.0, 16);
        assert_eq!(window.cwnd, 6.0, "a wave that was sent before");
    }

    /// After a timeout the segments of a wave are spread by repairs and their ACKs: compared with the burst before it
    /// the rate has fallen, and slow start ends.
    #[test]
    fn a_fresh_start_compares_nothing_across_a_timeout() {
        for (fresh_start, ssthresh) in [(false, 21.0), (true, 64.0)] {
            let (mut real, _) = after([100.0, 98.0]);
            real.params.fresh_start = fresh_start;
            real.trend = Trend::Falls;
            let timeout = real.on_timeout(&lost(), &Window { cwnd: 128.0, ssthresh: 128.0 });
            assert_eq!(timeout.taken_for, Some(LossKind::Congestion));
            let mut window = Window { cwnd: 24.0, ssthresh: timeout.ssthresh };
            report(&mut real, &mut window, 3, 98.0, 16);
            assert_eq!(real.rate.is_none(), fresh_start, "that wave was sent before");
            window = Window { cwnd: 24.0, ssthresh: timeout.ssthresh };
            real.answered_to = 0;
            report(&mut real, &mut window, 4, 20.0, 16);
            assert_eq!(window.ssthresh, ssthresh);
            report(&mut real, &mut window, 5, 10.0, 16);
            assert!(window.ssthresh < ssthresh.min(25.0), "the next is compared: {window:?}");
        }
    }

    /// An application that sends less than the window allows: half of the window goes, not half of the four in
    /// flight.
    #[test]
    fn shares_are_those_of_the_window() {
        let window = Window { cwnd: 16.0, ssthresh: 10.0 };
        let few = LossSample { flight: 4.0, ..lost() };
        let (mut fallen, _) = after([100.0, 80.0]);
        assert_eq!(fallen.clone().on_ecn(&few, &window), Reduction::to(8.0, 8.0));
        assert_eq!(fallen.clone().on_loss(&few, &window).cwnd, 8.0);
        assert_eq!(fallen.on_timeout(&few, &window).ssthresh, 8.0);
    }

    /// W = 16: a rate that falls by 30 % takes 30 %, one that falls by 90 % half.
    #[test]
    fn gamma_may_adapt() {
        for (rate, cwnd) in [(70.0, 11.2), (10.0, 8.0)] {
            let mut real = TcpReal::new(&Params { adaptive_gamma: true, ..Params::default() });
            let mut window = Window { cwnd: 16.0, ssthresh: 10.0 };
            report(&mut real, &mut window, 1, 100.0, 16);
            window.cwnd = 16.0;
            report(&mut real, &mut window, 2, rate, 16);
            assert!((window.cwnd - cwnd).abs() < 1e-12, "{}", window.cwnd);
        }
    }

    /// Averaged over three waves a single one that is a quarter slower takes a twelfth off the rate: a hold.
    #[test]
    fn averaged_rates_pass_over_single_waves() {
        for (smooth, trend) in [(1.0, Trend::Falls), (3.0, Trend::Declines)] {
            let mut real = TcpReal::new(&Params { smooth, ..Params::default() });
            let mut window = Window { cwnd: 16.0, ssthresh: 10.0 };
            report(&mut real, &mut window, 1, 100.0, 16);
            report(&mut real, &mut window, 2, 75.0, 16);
            assert_eq!(real.trend, trend);
        }
    }

    #[test]
    fn the_first_loss_ends_slow_start() {
        for unknown in [f64::INFINITY, 64.0] {
            let (mut healthy, _) = after([100.0, 98.0]);
            healthy.unknown_ssthresh = unknown;
            let window = Window { cwnd: 16.0, ssthresh: unknown };
            assert_eq!(healthy.clone().on_loss(&lost(), &window).ssthresh, 16.0);
            assert_eq!(healthy.on_timeout(&lost(), &window).ssthresh, 16.0);
        }
    }

    #[test]
    fn without_recent_reports_it_is_reno() {
        let window = Window { cwnd: 16.0, ssthresh: 10.0 };
        let late = LossSample { now: Time::ZERO + Span::from_secs(2), ..loss(16.0) };
        let congestion = Some(LossKind::Congestion);
        let (mut real, _) = after([100.0, 101.0]);
        assert_eq!(
            real.on_timeout(&late, &window),
            Reduction { taken_for: congestion, ..Reduction::to(8.0, 1.0) }
        );
        assert_eq!(real.on_loss(&late, &window).taken_for, congestion);
        assert_eq!(TcpReal::new(&Params::default()).on_loss(&lost(), &window).taken_for, congestion);
        let mut grown = Window { cwnd: 16.0, ssthresh: 10.0 };
        real.on_ack(&ack_at(2.0, 0.1), &mut grown);
        assert_eq!(grown.cwnd, 16.0625);
    }

    /// After a timeout the window passes through waves that are too small to compare.
    #[test]
    fn small_waves_do_not_stop_the_window() {
        let (mut real, mut window) = after([100.0, 80.0]);
        window = Window { cwnd: 2.0, ssthresh: window.ssthresh };
        report(&mut real, &mut window, 3, 1.0, 2);
        assert_eq!(window.cwnd, 3.0, "slow start");
        assert_eq!(real.rate, Some(80_000.0));
        window = Window { cwnd: 2.0, ssthresh: 2.0 };
        report(&mut real, &mut window, 4, 1.0, 2);
        assert_eq!(window.cwnd, 2.5, "congestion avoidance");
    }

    #[test]
    fn one_report_counts_once_and_not_against_an_answered_loss() {
        let (mut real, mut window) = after([100.0, 101.0]);
        report(&mut real, &mut window, 2, 50.0, 16);
        assert_eq!(window.cwnd, 17.0, "wave 2 was taken before");
        real.on_loss(&lost(), &window);
        report(&mut real, &mut window, 3, 50.0, 16);
        assert_eq!(window.cwnd, 17.0, "the loss has been answered");
        assert_eq!(real.rate, Some(50_000.0));
    }
}
