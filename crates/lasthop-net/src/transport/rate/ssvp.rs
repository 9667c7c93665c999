//! SSVP: the Scalable Streaming Video Protocol (Papadimitriou & Tsaoussidis, Computer Networks 51, 2007). As built here
//! it is **not fair to a TCP in the same queue**: it takes 2 to 7 times what SACK gets, and 4 to 140 times what Reno
//! gets.
//!
//! *What it does.* A sender of video over UDP that adapts the gap between its packets by additive increase and
//! multiplicative decrease of the rate. The pair (0.31, 0.875) is that of a window which is fair to TCP and smoother:
//! a round trip without loss adds `alpha` packets per RTT to the rate, a loss removes an eighth. There are no
//! retransmissions; data past its deadline (`deadline` of the transport) is dropped before it is sent.
//! *Reacts to* gaps in the received sequence numbers, silence of the receiver. ECN is refused: behind a queue of
//! 1 Mbit/s that marks and does not drop, an eighth less per RTT left a delay of 8.7 s.
//! *Differs from the paper:* a reconstruction; the paper was not available. Start, feedback format and the reaction to
//! silence are our own, and every constant is a parameter. The rate grows only in rounds in which it was fully used.
//! Whether the paper's own sender agrees on these points, including its unfairness to TCP, is open, and no figure of
//! the paper is compared here.
//! *Validation:* TV-9.6; its share beside SACK TCP is tested on three paths, and beside Reno, SACK and `gaimd`'s over
//! five buffers (`crates/lasthop-sim/tests/rate_laws.rs`).
//! *Limitations:* no layered coding; of the sources only `video-call` adapts to the rate. The overshoot of the start
//! is reduced by an eighth per RTT while the queue, and with it the RTT, grows: with a buffer of many RTTs that takes
//! minutes. A rate without a window does not fall when the queue lengthens the RTT, and a window does: on 10 Mbit/s
//! and 40 ms, in buffers of 8, 20, 33, 100 and 300 packets, it carries 7.1, 4.9, 3.9, 3.4 and 1.7 times as much as one
//! SACK TCP (100 s after 20 s, five seeds). It continues to send while the queue is full, so TCP loses several
//! segments of a window, which older recovery engines repair by timeouts: beside one NewReno it carries 15, 10, 13, 10
//! and 2.9 times as much, and beside one Reno, which times out up to 61 times in 100 s, 76, 111, 137, 62 and 3.8
//! times. `gaimd` with the same pair, which has a window, carries 0.9 to 5.4 times as much as Reno.
//! *Kernel counterpart:* none.
//! *References:* Papadimitriou & Tsaoussidis, Computer Networks 51, 2007; Yang & Lam, ICNP 2000.

use lasthop_cc::params::params;
use lasthop_core::time::{Span, Time};

pub(crate) const SUMMARY: &str =
    "AIMD of the gap between packets, for video (Papadimitriou & Tsaoussidis 2007)";

params! {
    /// Packets per RTT that a round without loss adds to the rate
    alpha: f64 = 0.31, 0.0..=100.0;
    /// Share of the rate that a loss leaves
    beta: f64 = 0.875, 0.01..=1.0;
    /// Later packets that mean a loss
    loss_packets: f64 = 3.0, 1.0..=100.0;
    /// Gain of the RTT filter
    rtt_gain: f64 = 0.125, 0.001..=1.0;
    /// Interval of reports, in RTTs; 0 reports every packet
    feedback_rtts: f64 = 0.0, 0.0..=100.0;
    /// Packets per RTT when the first RTT is known
    initial_packets: f64 = 2.0, 0.1..=100.0;
    /// RTTs of silence that double the gap
    silence_rtts: f64 = 4.0, 1.0..=100.0;
    /// Longest gap, in seconds
    longest_gap_s: f64 = 1.0, 0.001..=100.0;
    /// Shortest gap, in seconds: the fastest that the codec needs
    shortest_gap_s: f64 = 0.0, 0.0..=100.0;
}

/// What a report says to an SSVP sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// When the packet that triggered it was sent.
    pub(super) sent: Time,
    /// How long the receiver held it.
    pub(super) delay: Span,
    /// Packets lost so far.
    pub(super) lost: u64,
}

/// The sender: everything but queue and spacing.
#[derive(Clone, Debug)]
pub(super) struct SsvpSender {
    params: Params,
    /// Gap between packets, in seconds.
    gap: f64,
    rtt: Option<f64>,
    lost: u64,
    /// Doubling the rate, until the first loss.
    starting: bool,
    round_start: Time,
    /// Losses of packets sent before this have been answered.
    answered: Time,
    /// The spacing has held a packet back in this round.
    backlog: bool,
    silence: Time,
}

impl SsvpSender {
    pub(super) fn new(params: &Params) -> SsvpSender {
        SsvpSender {
            params: params.clone(),
            gap: params.longest_gap_s,
            rtt: None,
            lost: 0,
            starting: true,
            round_start: Time::ZERO,
            answered: Time::ZERO,
            backlog: false,
            silence: Time::MAX,
        }
    }

    pub(super) fn gap_s(&self) -> f64 {
        self.gap
    }

    pub(super) fn rtt_s(&self) -> Option<f64> {
        self.rtt
    }

    pub(super) fn due(&self) -> Time {
        self.silence
    }

    /// A packet left.
    pub(super) fn on_sent(&mut self, now: Time) {
        if self.silence == Time::MAX {
            self.set_timer(now);
        }
    }

    /// More data is waiting than may leave.
    pub(super) fn on_backlog(&mut self) {
        self.backlog = true;
    }

    fn set_timer(&mut self, now: Time) {
        let rtts = self.params.silence_rtts * self.rtt.unwrap_or(0.0);
        self.silence = now + Span::from_seconds(rtts.max(2.0 * self.gap));
    }

    fn set_gap(&mut self, gap: f64) {
        let shortest = self.params.shortest_gap_s.max(1e-7);
        self.gap = gap.min(self.params.longest_gap_s).max(shortest);
    }

    /// A report arrived. Returns the RTT sample.
    pub(super) fn on_report(&mut self, report: &Report, now: Time) -> Span {
        let sample = now.since(report.sent) - report.delay;
        let seconds = sample.seconds().max(1e-9);
        let rtt = match self.rtt {
            None => {
                self.set_gap(seconds / self.params.initial_packets);
                self.round_start = now;
                seconds
            }
            Some(rtt) => rtt + self.params.rtt_gain * (seconds - rtt),
        };
        self.rtt = Some(rtt);
        let loss = report.lost > self.lost;
        self.lost = self.lost.max(report.lost);
        if loss {
            self.starting = false;
            // At most one reaction per RTT.
            if report.sent >= self.answered {
                self.answered = now;
                self.set_gap(self.gap / self.params.beta);
            }
            self.begin_round(now);
        } else if now.since(self.round_start).seconds() >= rtt {
            if self.backlog {
                let grown = self.gap * rtt / (rtt + self.params.alpha * self.gap);
                self.set_gap(if self.starting { self.gap / 2.0 } else { grown });
            }
            self.begin_round(now);
        }
        self.set_timer(now);
        sample
    }

    fn begin_round(&mut self, now: Time) {
        self.round_start = now;
        self.backlog = false;
    }

    /// Nothing has been heard for long. Returns whether the gap grew.
    pub(super) fn on_timer(&mut self, now: Time) -> bool {
        let before = self.gap;
        self.set_gap(self.gap * 2.0);
        self.begin_round(now);
        self.set_timer(now);
        self.gap > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn sender() -> SsvpSender {
        let mut sender = SsvpSender::new(&Params::default());
        sender.on_sent(at(0));
        sender.on_report(&Report { sent: at(0), delay: Span::ZERO, lost: 0 }, at(100));
        sender
    }

    /// A busy round of 100 ms that ends at `millis`.
    fn round(sender: &mut SsvpSender, millis: u64, lost: u64) -> f64 {
        sender.on_backlog();
        sender.on_report(&Report { sent: at(millis - 100), delay: Span::ZERO, lost }, at(millis));
        sender.gap_s()
    }

    /// TV-9.6.
    #[test]
    fn gaps_of_known_rounds() {
        let mut sender = sender();
        sender.starting = false;
        sender.gap = 0.01;
        assert!((round(&mut sender, 200, 0) - 0.009_699_321_0).abs() < 5e-11);
        sender.gap = 0.01;
        assert!((round(&mut sender, 300, 1) - 0.011_428_571_4).abs() < 5e-11);
    }

    #[test]
    fn it_starts_with_two_packets_per_rtt_and_doubles() {
        let mut sender = sender();
        assert!((sender.gap_s() - 0.05).abs() < 1e-12);
        assert!((round(&mut sender, 200, 0) - 0.025).abs() < 1e-12);
        assert!((round(&mut sender, 300, 0) - 0.0125).abs() < 1e-12);
        assert!((round(&mut sender, 400, 3) - 0.0125 / 0.875).abs() < 1e-12);
        let grown = round(&mut sender, 500, 3);
        assert!(grown < 0.0125 / 0.875 && grown > 0.0125, "additive from now on: {grown}");
    }

    #[test]
    fn losses_of_one_rtt_are_answered_once() {
        let mut sender = sender();
        round(&mut sender, 200, 0);
        let once = round(&mut sender, 300, 1);
        sender.on_report(&Report { sent: at(250), delay: Span::ZERO, lost: 2 }, at(350));
        assert_eq!(sender.gap_s(), once);
        sender.on_report(&Report { sent: at(310), delay: Span::ZERO, lost: 3 }, at(410));
        assert!(sender.gap_s() > once);
    }

    #[test]
    fn an_application_that_sends_less_gains_nothing() {
        let mut sender = sender();
        sender.on_report(&Report { sent: at(110), delay: Span::ZERO, lost: 0 }, at(210));
        assert!((sender.gap_s() - 0.05).abs() < 1e-12);
    }

    #[test]
    fn silence_doubles_the_gap_up_to_a_second() {
        let mut sender = sender();
        assert_eq!(sender.due(), at(500), "four RTTs");
        for expected in [0.1, 0.2, 0.4, 0.8, 1.0] {
            let due = sender.due();
            sender.on_timer(due);
            assert!((sender.gap_s() - expected).abs() < 1e-12);
        }
        assert!(!sender.on_timer(sender.due()));
    }
}
