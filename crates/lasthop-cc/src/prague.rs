//! Prague: a scalable sender for L4S whose rate does not depend on short RTTs (Linux tcp_prague, versions 0.6 and 0.7).
//!
//! *What it does.* The window falls by half the moving average of the share of marked bytes, as DCTCP's does, at most
//! once per virtual RTT: the RTT, or 25 ms if that is longer. Meanwhile it grows: each unmarked segment adds 1/cwnd.
//! From 500 round trips after slow start on, a flow with a shorter RTT grows as if it had 25 ms: by a window that grows
//! less (`law = "window"`, version 0.6), or by a pacing rate that gains one packet per virtual RTT in each of them,
//! from which the window follows (`law = "rate"`, version 0.7).
//! *Reacts to* marks in proportion to their number; to loss by halving.
//! *Differs from the paper:* without `accurate_ecn = true` (RFC 9768) feedback is the exact echo of DCTCP (RFC 8257):
//! an ACK reports marked or unmarked segments, not the number of each. The packet size is fixed. There is no fallback
//! to Reno when a classic AQM seems to mark: version 0.7 has none, and in 0.6 it is off.
//! *Validation:* TV-27.1 to TV-27.4, by hand and against the closed form of the steady state; runs beside CUBIC over
//! DualPI2 in `tests/dual_pi2.rs` of `lasthop-sim`.
//! *Limitations:* a queue that marks ECT(1) as it would drop makes it take more than its share.
//! *Kernel counterpart:* `tcp_prague` of L4STeam/linux, which is not part of Linux.
//! *References:* draft-briscoe-iccrg-prague-congestion-control-04; RFC 9331; `tcp_prague.c`.

use lasthop_core::time::{Span, Time};

use crate::params::{choice, params};
use crate::{AckSample, Arrival, CongestionControl, LossSample, Needs, Reduction, Start, Window};

pub(crate) const SUMMARY: &str = "Scalable sender for L4S, fair between short RTTs (Prague, 2024)";

choice! {
    /// What follows the marks when RTTs no longer count.
    Law {
        /// A pacing rate, as in version 0.7.
        Rate = "rate",
        /// The window, as in version 0.6.
        Window = "window",
    }
}

params! {
    /// Weight of the newest window in the average of marks
    g: f64 = 0.0625, 0.0001..=1.0;
    /// Minimum virtual RTT, in seconds
    virtual_rtt: f64 = 0.025, 0.0..=1.0;
    /// Number of round trips after slow start after which growth no longer depends on the RTT
    transition: f64 = 500.0, 0.0..=1e9;
    /// What the marks control after slow start: a pacing rate, or the window
    law: Law = Law::Rate, 0.0..=1.0;
}

/// Least window, and least rate in segments of 1500 bytes per second: 100 kbit/s.
const LEAST_WINDOW: f64 = 2.0;
const LEAST_RATE: f64 = 100e3 / 8.0 / 1500.0;
/// What may leave at once, in seconds of the pacing rate: 2^-12, a quarter of what Linux has otherwise.
const BURST: f64 = 1.0 / 4096.0;
/// By how much the rate is above and below in the halves of a virtual RTT.
const SWING: f64 = 4.0 / 128.0;
/// Weight of the newest RTT in the one that turns the rate into a window.
const SLOW_GAIN: f64 = 1.0 / 128.0;

/// State of Prague; windows in segments, rates in segments per second, times in seconds.
#[derive(Clone, Debug)]
pub struct Prague {
    params: Params,
    /// Moving average of the share of marked bytes, once there has been a mark.
    alpha: f64,
    saw_mark: bool,
    acked: u64,
    marked: u64,
    /// When alpha and the window were last changed for it.
    updated: Time,
    cut: Option<Time>,
    /// Round trips since slow start ended, and where the present one ends.
    rounds: f64,
    round_end: u64,
    rate: f64,
    slow_rtt: f64,
    pacing: f64,
}

impl Prague {
    pub(crate) fn new(params: &Params) -> Self {
        Prague {
            params: params.clone(),
            alpha: 1.0,
            saw_mark: false,
            acked: 0,
            marked: 0,
            updated: Time::ZERO,
            cut: None,
            rounds: 0.0,
            round_end: 0,
            rate: 0.0,
            slow_rtt: 0.0,
            pacing: 0.0,
        }
    }

    fn virtual_rtt(&self, srtt: Span) -> f64 {
        srtt.seconds().max(self.params.virtual_rtt)
    }

    /// Whether the RTT no longer counts, and the rate is what follows the marks.
    fn is_by_rate(&self) -> bool {
        self.params.law == Law::Rate && self.rounds >= self.params.transition && self.slow_rtt > 0.0
    }

    /// By how much less a short RTT grows.
    fn scale(&self, srtt: Span) -> f64 {
        if self.rounds < self.params.transition {
            return 1.0;
        }
        let ratio = srtt.seconds() / self.virtual_rtt(srtt);
        ratio * ratio
    }

    /// Takes the share of marks since the last time into the average.
    fn update(&mut self, arrival: &Arrival) {
        if self.saw_mark && self.acked > 0 {
            let share = self.marked as f64 / self.acked as f64;
            self.alpha = (self.alpha + self.params.g * (share - self.alpha)).min(1.0);
        }
        (self.acked, self.marked, self.updated) = (0, 0, arrival.now);
        let srtt = arrival.srtt.seconds();
        self.slow_rtt =
            if self.slow_rtt > 0.0 { self.slow_rtt + SLOW_GAIN * (srtt - self.slow_rtt) } else { srtt };
    }

    /// Keeps this share of the rate and of the window, and returns the window. What the rate makes of it may be more
    /// than the present one, where something held that back.
    fn reduce(&mut self, share: f64, window: &Window) -> f64 {
        self.rate = (self.rate * share).max(LEAST_RATE);
        let cwnd = if self.is_by_rate() { self.rate * self.slow_rtt } else { window.cwnd * share };
        cwnd.max(LEAST_WINDOW).min(window.cwnd)
    }
}

impl CongestionControl for Prague {
    fn needs(&self) -> Needs {
        Needs { arrivals: true, exact_marks: true, pacing: true, fractions: true, ..Needs::default() }
    }

    /// Paced from the start by the RTT of the handshake, as every sender of Linux that paces (which leaves out the
    /// first ten segments).
    fn on_start(&mut self, start: &Start<'_>, window: &mut Window) {
        if start.handshake > Span::ZERO {
            self.pacing = 2.0 * window.cwnd / start.handshake.seconds();
        }
    }

    fn on_arrival(&mut self, arrival: &Arrival, window: &mut Window) {
        let bytes = arrival.ack.saturating_sub(arrival.una);
        self.acked += bytes;
        self.marked += arrival.marked;
        self.saw_mark |= arrival.ece;
        if arrival.srtt == Span::ZERO {
            return;
        }
        let passed = arrival.now.since(self.updated).seconds();
        let round = self.virtual_rtt(arrival.srtt);
        if passed >= round {
            self.update(arrival);
        }
        if arrival.ack > self.round_end {
            self.round_end = arrival.next;
            self.rounds += f64::from(!window.in_slow_start());
        }
        if self.is_by_rate() {
            let first_half = arrival.now.since(self.updated).seconds() < round / 2.0;
            self.pacing = self.rate * if first_half { 1.0 + SWING } else { 1.0 - SWING };
        } else {
            let flight = arrival.next.saturating_sub(arrival.una) as f64 / f64::from(arrival.mss);
            let srtt = arrival.srtt.seconds();
            self.rate = window.cwnd.max(flight) / srtt;
            self.pacing = window.cwnd / srtt * if window.cwnd < window.ssthresh / 2.0 { 2.0 } else { 1.0 };
        }
    }

    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) {
        if !ack.may_grow {
            return;
        }
        let left = window.slow_start(f64::from(ack.acked), f64::INFINITY);
        if left <= 0.0 {
            return;
        }
        if self.is_by_rate() {
            let round = self.virtual_rtt(ack.srtt);
            let packet = 1500.0 / f64::from(ack.mss + 52).min(1500.0);
            self.rate += left * (packet / round) / (self.rate * round).ceil().max(1.0);
            window.cwnd = window.cwnd.max((self.rate * self.slow_rtt).min(window.cwnd + left.min(1.0)));
        } else {
            window.cwnd += left * self.scale(ack.srtt) / window.cwnd;
        }
    }

    fn on_loss(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        let kept = self.reduce(0.5, window);
        Reduction::to(kept, kept)
    }

    fn on_timeout(&mut self, _loss: &LossSample, window: &Window) -> Reduction {
        let kept = self.reduce(0.5, window);
        Reduction::to(kept, 1.0)
    }

    fn on_ecn(&mut self, loss: &LossSample, window: &Window) -> Reduction {
        let round = self.params.virtual_rtt;
        if self.cut.is_some_and(|cut| loss.now.since(cut).seconds() < round) {
            return Reduction::to(window.cwnd, window.cwnd);
        }
        self.cut = Some(loss.now);
        let kept = self.reduce(1.0 - self.alpha / 2.0, window);
        Reduction::to(kept, kept)
    }

    fn pacing_rate(&self) -> Option<f64> {
        (self.pacing > 0.0).then_some(self.pacing)
    }

    fn longest_train(&self) -> Option<f64> {
        Some((self.pacing * BURST).floor().max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ControllerConfig;
    use crate::host::{Floors, Host};
    use crate::testing::{ack_at, close, loss};

    fn arrival(at: f64, una: u64, ack: u64, cwnd: u64, srtt: f64, ece: bool) -> Arrival {
        Arrival {
            srtt: Span::from_seconds(srtt),
            ece,
            marked: if ece { 1000 * (ack - una) } else { 0 },
            next: (una + cwnd) * 1000,
            ..crate::testing::arrival(at, una, ack)
        }
    }

    /// TV-27.1: shares of 0, 0, 0.25 and 1 after the first mark.
    #[test]
    fn the_average_of_marks() {
        let mut prague = Prague::new(&Params::default());
        prague.saw_mark = true;
        for (marked, alpha) in [(0, 0.937_500), (0, 0.878_906), (250, 0.839_600), (1000, 0.849_625)] {
            (prague.acked, prague.marked) = (1000, marked);
            prague.update(&arrival(1.0, 0, 1, 10, 0.05, false));
            close(prague.alpha, alpha, 6);
        }
    }

    /// Twice the initial window in the RTT of the handshake; without one the first window is not paced.
    #[test]
    fn the_first_window_is_paced() {
        for (handshake, rate) in [(Span::ZERO, None), (Span::from_millis(50), Some(400.0))] {
            let mut prague = Prague::new(&Params::default());
            let start = Start { now: Time::ZERO, history: &[], handshake, mss: 1448 };
            prague.on_start(&start, &mut Window { cwnd: 10.0, ssthresh: f64::INFINITY });
            assert_eq!(prague.pacing_rate(), rate);
            assert_eq!(prague.longest_train(), Some(1.0), "400 segments a second leave one by one");
        }
    }

    /// TV-27.2: a window of 40 at alpha 0.25 falls to 35, and not again within 25 ms.
    #[test]
    fn a_mark_cuts_by_half_of_alpha() {
        let mut prague = Prague { alpha: 0.25, ..Prague::new(&Params::default()) };
        let window = Window { cwnd: 40.0, ssthresh: 20.0 };
        assert_eq!(prague.on_ecn(&loss(40.0), &window), Reduction::to(35.0, 35.0));
        let later = LossSample { now: Time::ZERO + Span::from_millis(24), ..loss(40.0) };
        assert_eq!(prague.on_ecn(&later, &window), Reduction::to(40.0, 40.0));
    }

    /// TV-27.3: growth at 5, 10, 25 and 40 ms, in hundredths, after 500 rounds; before, all grow alike.
    #[test]
    fn short_round_trips_grow_less() {
        let mut prague = Prague::new(&Params { law: Law::Window, ..Params::default() });
        let grown = |prague: &mut Prague, srtt: f64| {
            let mut window = Window { cwnd: 10.0, ssthresh: 5.0 };
            prague.on_ack(&ack_at(1.0, srtt), &mut window);
            (window.cwnd - 10.0) * 10.0
        };
        close(grown(&mut prague, 0.005), 1.0, 9);
        prague.rounds = 500.0;
        for (srtt, k) in [(0.005, 0.04), (0.010, 0.16), (0.025, 1.0), (0.040, 1.0)] {
            close(grown(&mut prague, srtt), k, 6);
        }
    }

    /// Every 1/p-th packet is marked, RTT 50 ms: the mean window over time.
    fn mean_window(every: u64, law: Law, start: f64) -> f64 {
        let mut prague = Prague::new(&Params { law, transition: 10.0, ..Params::default() });
        let mut window = Window { cwnd: start, ssthresh: start };
        let (mut at, mut area, mut from, mut window_end) = (0.0, 0.0, 0.0, 0);
        for packet in 0..400_000u64 {
            let step = 0.05 / window.cwnd;
            at += step;
            if packet == 200_000 {
                (area, from) = (0.0, at);
            }
            area += step * window.cwnd;
            let ece = packet % every == 0;
            let cwnd = window.cwnd as u64;
            prague.on_arrival(&arrival(at, packet, packet + 1, cwnd, 0.05, ece), &mut window);
            if ece && packet >= window_end {
                window_end = packet + cwnd;
                let sample = LossSample { now: Time::ZERO + Span::from_seconds(at), ..loss(window.cwnd) };
                let Reduction { cwnd, ssthresh, .. } = prague.on_ecn(&sample, &window);
                window = Window { cwnd, ssthresh };
            }
            if !ece {
                prague.on_ack(&AckSample { mss: 1448, ..ack_at(at, 0.05) }, &mut window);
            }
        }
        area / (at - from)
    }

    /// TV-27.4: with n marks from cut to cut the steady window is sqrt(2 n (1 - p)) / p, for n = 2 or 3 by where it
    /// starts; at 50 ms, longer than the virtual RTT, by either law.
    #[test]
    fn the_steady_window_is_that_of_the_closed_form() {
        for every in [50, 20, 10] {
            let p = 1.0 / every as f64;
            let states = [2.0, 3.0].map(|n: f64| (2.0 * n * (1.0 - p)).sqrt() / p);
            for (start, law) in [(10.0, Law::Window), (100.0, Law::Window), (100.0, Law::Rate)] {
                let found = mean_window(every, law, start);
                let off = states.map(|state| (found / state - 1.0).abs());
                assert!(off[0].min(off[1]) < 0.04, "{every}, {start}: {found}, {states:?}");
            }
        }
    }

    /// The rate may ask for more than a window that something else held back.
    #[test]
    fn a_reduction_never_raises() {
        let held = Prague { rounds: 500.0, rate: 4000.0, slow_rtt: 1.0, ..Prague::new(&Params::default()) };
        let window = Window { cwnd: 152.0, ssthresh: 100.0 };
        assert_eq!(held.clone().on_ecn(&loss(20.0), &window), Reduction::to(152.0, 152.0));
        assert_eq!(held.clone().on_loss(&loss(20.0), &window), Reduction::to(152.0, 152.0));
    }

    /// `tcp_prague` keeps the fraction of its window: in the profile `linux`, too, a cut of 2 % of 40 is one of 0.8.
    #[test]
    fn a_small_cut_is_small() {
        for floors in [Floors::Rfc, Floors::Linux] {
            let window = Window { cwnd: 40.0, ssthresh: 20.0 };
            let mut host = Host::new(&ControllerConfig::by_name("prague").unwrap(), floors, window);
            host.reduce(Reduction::to(39.2, 39.2));
            assert_eq!(host.window.cwnd, 39.2, "{floors:?}");
        }
    }

    #[test]
    fn a_loss_halves() {
        let mut prague = Prague::new(&Params::default());
        let window = Window { cwnd: 20.0, ssthresh: 10.0 };
        assert_eq!(prague.on_loss(&loss(20.0), &window), Reduction::to(10.0, 10.0));
    }
}
