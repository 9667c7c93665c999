//! WTCP: a reliable rate-based transport for wireless wide-area networks (Sinha, Nandagopal, Venkitaraman, Sivakumar &
//! Bharghavan, MobiCom 1999). Not the base-station scheme of the same name (Ratnam & Matta).
//!
//! *What it does.* The receiver decides. It compares the spacing of packets at arrival with that at departure: a ratio
//! above 1, over a short and a long average, shows that a queue is building, and the requested rate falls; near 1 the
//! rate grows by a constant; in between it is constant. Losses count as congestion only when a report has more of them
//! than usual for the path: more than the running mean plus its mean deviation. Lost packets are detected by selective
//! acknowledgement and retransmitted; there is no retransmission timer. When reports cease, the sender stops and
//! probes until an answer arrives, then continues at the old rate.
//! *Reacts to* the spacing of packets, loss beyond the usual, silence (probes).
//! *Differs from the paper:* a reconstruction from its abstract and from papers that cite it; the paper was not
//! available. The structure follows it; every constant is our own and is a parameter. ECN marks count as losses. The
//! averages change only with packets, but reports come once per RTT: a rate below one packet per RTT would fall by a
//! tenth with each report on the same measurement, down to the minimum for good. It is therefore reduced for the
//! spacing only once per number of packets that the short average covers (`1 / short_gain`), which at four packets per
//! RTT and more is every report. The start by packet pairs and the constants are open, and the gains over TCP in the
//! paper are not compared here.
//! *Validation:* the decisions against sequences worked by hand; conservation and reliability by properties. Averages
//! between 1 + `low` and 1 + `high` keep the rate, and a rate that stays above that of the link fills the buffer: the
//! band is narrower than a step of the rate on paths that hold fewer than fifty packets.
//! *Limitations:* no flow control beyond `window`; the application is assumed to read at once. The queue of other
//! flows increases the spacing as its own does, so it yields to buffer-filling senders, as Vegas does: beside a SACK
//! TCP it reaches 0.2 to 0.3 of that flow's goodput in a buffer of one bandwidth-delay product (Vegas 0.1 to 0.4), and
//! 0.55 with a buffer of 10 packets, where there is hardly a queue (`crates/lasthop-sim/tests/rate_laws.rs`). A link
//! that repeats frames and keeps their order may hand over the first two packets together: such a pair promises any
//! rate. Beside a Reno over 10 Mbit/s with a tenth of the frames lost and a round trip of 40 ms, 23 of 60 seeds then
//! retransmit more than 1,000 packets in two minutes, and two carry 0.035 Mbit/s. To begin with ten packets per RTT
//! and to double from there was tried: others starve then.
//! *Kernel counterpart:* none.
//! *References:* Sinha et al., MobiCom 1999 and Wireless Networks 8, 2002.

use lasthop_cc::params::params;
use lasthop_core::time::{Span, Time};

pub(crate) const SUMMARY: &str =
    "Reliable, the receiver sets the rate by the spacing of packets (Sinha et al. 1999)";

params! {
    /// Rate before the first report, in packets per second
    initial_rate: f64 = 1.0, 0.001..=1e6;
    /// Initial rate, as a share of the rate at which the first two packets arrived
    start_share: f64 = 0.5, 0.001..=1.0;
    /// Gain of the short-term average of the spacing
    short_gain: f64 = 0.25, 0.001..=1.0;
    /// Gain of the long-term average of the spacing
    long_gain: f64 = 0.0625, 0.001..=1.0;
    /// Both averages above 1 + this: shrink
    high: f64 = 0.02, 0.0..=10.0;
    /// Both averages below 1 + this: grow
    low: f64 = 0.01, 0.0..=10.0;
    /// Packets per RTT that a report adds
    increase: f64 = 1.0, 0.0..=100.0;
    /// Factor of the rate of arrivals up to which the rate grows
    headroom: f64 = 2.0, 1.0..=100.0;
    /// Share of the rate that a report takes off
    decrease: f64 = 0.1, 0.0..=0.99;
    /// Share that congestive loss takes off
    loss_decrease: f64 = 0.5, 0.0..=0.99;
    /// Gain of the mean number of losses per report and of its deviation
    loss_gain: f64 = 0.125, 0.001..=1.0;
    /// Mean deviations above the mean that make losses congestive
    loss_deviations: f64 = 1.0, 0.0..=100.0;
    /// Later transmissions that mean a loss
    loss_packets: f64 = 3.0, 1.0..=100.0;
    /// Interval of reports, in RTTs
    feedback_rtts: f64 = 1.0, 0.05..=100.0;
    /// RTTs of silence that begin a blackout
    blackout_rtts: f64 = 4.0, 1.0..=100.0;
    /// Minimum silence that begins a blackout, in seconds
    blackout_s: f64 = 0.5, 0.0..=100.0;
    /// Time to the second probe in seconds; it doubles from probe to probe
    probe_s: f64 = 0.5, 0.001..=100.0;
    /// Longest time between probes, in seconds
    longest_probe_s: f64 = 8.0, 0.001..=1000.0;
    /// Maximum number of packets in flight
    window: f64 = 10000.0, 1.0..=1e6;
}

/// What the receiver makes of the spacing of packets and of losses: the rate that it asks for.
#[derive(Clone, Debug)]
pub(super) struct RateControl {
    params: Params,
    /// Packets per second; 0 until the first two packets are there.
    rate: f64,
    short: f64,
    long: f64,
    measured: bool,
    /// Quotients since the rate fell for the spacing.
    fresh: u32,
    /// Losses since the last report, their mean per report and its deviation.
    losses: u64,
    loss_mean: f64,
    loss_deviation: f64,
    reports: u64,
    last: Option<(u64, Time)>,
}

impl RateControl {
    pub(super) fn new(params: &Params) -> RateControl {
        RateControl {
            params: params.clone(),
            rate: 0.0,
            short: 1.0,
            long: 1.0,
            measured: false,
            fresh: 0,
            losses: 0,
            loss_mean: 0.0,
            loss_deviation: 0.0,
            reports: 0,
            last: None,
        }
    }

    /// Transmission `number`, which left `gap` after the one before it, arrives.
    pub(super) fn on_packet(&mut self, number: u64, gap: Span, now: Time) {
        let last = self.last.replace((number, now));
        let Some((before, arrived)) = last else { return };
        if number != before + 1 {
            // Only neighbours can be compared.
            return;
        }
        let spacing = now.since(arrived).seconds();
        if self.rate == 0.0 {
            self.rate = self.params.start_share / spacing.max(1e-6);
            return;
        }
        if gap == Span::ZERO {
            // Simultaneous departures have no quotient.
            return;
        }
        let quotient = spacing / gap.seconds();
        self.fresh = self.fresh.saturating_add(1);
        if !self.measured {
            self.measured = true;
            self.short = quotient;
            self.long = quotient;
            return;
        }
        self.short += self.params.short_gain * (quotient - self.short);
        self.long += self.params.long_gain * (quotient - self.long);
    }

    /// Transmissions were lost or marked.
    pub(super) fn on_loss(&mut self, losses: u64) {
        self.losses += losses;
    }

    /// Decides the rate for the next report; `received` packets per second arrived since the last one.
    pub(super) fn decide(&mut self, rtt_s: f64, received: f64) -> f64 {
        let losses = self.losses as f64;
        self.losses = 0;
        let usual = self.loss_mean + self.params.loss_deviations * self.loss_deviation;
        let congestive = losses > usual && losses > 0.0 && self.reports > 0;
        let error = losses - self.loss_mean;
        self.loss_mean += self.params.loss_gain * error;
        self.loss_deviation += self.params.loss_gain * (error.abs() - self.loss_deviation);
        self.reports += 1;
        if self.rate == 0.0 || rtt_s <= 0.0 {
            return self.rate;
        }
        if congestive {
            self.rate *= 1.0 - self.params.loss_decrease;
        } else if self.short.min(self.long) > 1.0 + self.params.high {
            if f64::from(self.fresh) * self.params.short_gain >= 1.0 {
                self.rate *= 1.0 - self.params.decrease;
                self.fresh = 0;
            }
        } else if self.short.max(self.long) < 1.0 + self.params.low {
            // A sender that does not use its rate does not gain any.
            let most = self.rate.max(self.params.headroom * received);
            self.rate = (self.rate + self.params.increase / rtt_s).min(most);
        }
        // A packet per ten seconds keeps the measurement alive.
        self.rate = self.rate.max(0.1);
        self.rate
    }
}

/// The sender's clock, RTT and blackouts.
#[derive(Clone, Debug)]
pub(super) struct WtcpSender {
    params: Params,
    /// Packets per second.
    rate: f64,
    rtt: Option<f64>,
    /// When silence becomes a blackout, or the next probe is due; never while nothing is outstanding.
    due: Time,
    /// Probes since the last report.
    probes: u32,
}

impl WtcpSender {
    pub(super) fn new(params: &Params) -> WtcpSender {
        WtcpSender { params: params.clone(), rate: params.initial_rate, rtt: None, due: Time::MAX, probes: 0 }
    }

    pub(super) fn interval_s(&self) -> f64 {
        1.0 / self.rate
    }

    pub(super) fn rtt_s(&self) -> Option<f64> {
        self.rtt
    }

    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// No data leaves during a blackout.
    pub(super) fn is_blacked_out(&self) -> bool {
        self.probes > 0
    }

    pub(super) fn window(&self) -> usize {
        self.params.window as usize
    }

    pub(super) fn loss_packets(&self) -> u64 {
        self.params.loss_packets as u64
    }

    fn silence(&self) -> Span {
        let rtts = self.params.blackout_rtts * self.rtt.unwrap_or(0.0);
        Span::from_seconds(rtts.max(self.params.blackout_s).max(2.0 * self.interval_s()))
    }

    /// Data left.
    pub(super) fn on_sent(&mut self, now: Time) {
        if self.due == Time::MAX {
            self.due = now + self.silence();
        }
    }

    /// A report for something sent at `sent` arrived. Returns the RTT sample.
    pub(super) fn on_report(&mut self, sent: Time, delay: Span, rate: f64, now: Time) -> Span {
        let sample = now.since(sent) - delay;
        let seconds = sample.seconds().max(1e-9);
        self.rtt = Some(self.rtt.map_or(seconds, |rtt| rtt + (seconds - rtt) / 8.0));
        self.probes = 0;
        if rate > 0.0 {
            self.rate = rate;
        }
        self.due = now + self.silence();
        sample
    }

    /// Everything is acknowledged: silence is what is to be expected.
    pub(super) fn on_all_acknowledged(&mut self) {
        self.due = Time::MAX;
    }

    /// Silence for too long: a probe is to be sent.
    pub(super) fn on_timer(&mut self, now: Time) {
        let wait = self.params.probe_s * f64::from(1u32 << self.probes.min(20));
        self.due = now + Span::from_seconds(wait.min(self.params.longest_probe_s));
        self.probes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// A control that has seen 100 packets, sent 10 ms and received `spacing` ms apart; the RTT is 100 ms.
    fn after(spacing: u64) -> RateControl {
        let mut control = RateControl::new(&Params::default());
        for number in 0..100 {
            control.on_packet(number, Span::from_millis(10), at(number * spacing));
        }
        control.rate = 100.0;
        control
    }

    #[test]
    fn the_first_pair_gives_the_first_rate() {
        let mut control = RateControl::new(&Params::default());
        control.on_packet(0, Span::ZERO, at(0));
        assert_eq!(control.decide(0.0, 0.0), 0.0);
        control.on_packet(1, Span::from_millis(1), at(10));
        assert!(
            (control.decide(0.1, 100.0) - 60.0).abs() < 1e-9,
            "half of 100 packets per second, and 1 per RTT"
        );
    }

    #[test]
    fn spacing_decides() {
        assert!((after(10).decide(0.1, 100.0) - 110.0).abs() < 1e-9, "as sent: grow");
        assert!((after(11).decide(0.1, 100.0) - 90.0).abs() < 1e-9, "stretched: shrink");
        let mut between = after(10);
        (between.short, between.long) = (1.03, 1.0);
        assert!((between.decide(0.1, 100.0) - 100.0).abs() < 1e-9, "in between: hold");
    }

    /// Four packets renew the short average, of which a quarter is the newest.
    #[test]
    fn one_measurement_shrinks_the_rate_once() {
        let mut control = after(11);
        assert!((control.decide(0.1, 100.0) - 90.0).abs() < 1e-9);
        for (number, rate) in (100..104).zip([90.0, 90.0, 90.0, 81.0]) {
            control.on_packet(number, Span::from_millis(10), at(number * 11));
            assert!((control.decide(0.1, 100.0) - rate).abs() < 1e-9, "packet {number}");
        }
    }

    #[test]
    fn only_unusual_loss_is_congestion() {
        let mut control = after(10);
        let mut rate = 100.0;
        // Two losses in every report: unusual at first, usual later.
        let decisions: Vec<bool> = (0..40)
            .map(|_| {
                control.on_loss(2);
                let next = control.decide(0.1, 100.0);
                std::mem::replace(&mut rate, next) > next
            })
            .collect();
        assert!(decisions[1], "the second report is the first to be judged");
        assert!(decisions[20..].iter().all(|&cut| !cut));
        control.on_loss(10);
        assert!(control.decide(0.1, 100.0) < rate);
    }

    #[test]
    fn silence_begins_a_blackout_and_a_report_ends_it() {
        let mut sender = WtcpSender::new(&Params::default());
        sender.on_sent(at(0));
        sender.on_report(at(0), Span::ZERO, 50.0, at(100));
        assert_eq!(sender.due(), at(600));
        for (probe, due) in
            [(600, 1100), (1100, 2100), (2100, 4100), (4100, 8100), (8100, 16_100), (16_100, 24_100)]
        {
            sender.on_timer(at(probe));
            assert!(sender.is_blacked_out());
            assert_eq!(sender.due(), at(due));
        }
        sender.on_report(at(24_000), Span::ZERO, 0.0, at(24_100));
        assert!(!sender.is_blacked_out());
        assert!((sender.interval_s() - 0.02).abs() < 1e-12, "the old rate");
    }
}
