//! The receiver of TFRC (RFC 5348 §6): measures the loss event rate and the receive rate, and says when to report.
//!
//! `receiver.rs` feeds it with arrivals and sends the reports.

use std::collections::VecDeque;

use lasthop_core::time::{Span, Time};

use super::history::{LossHistory, Outcome, Rules};
use super::tfrc::{Report, Sizing};

/// Most arrivals that are remembered; it bounds the memory of a flow, not its rate.
const MOST_ARRIVALS: usize = 1 << 16;

/// A packet as the receiver sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Number of the packet.
    pub(super) number: u64,
    /// First byte.
    pub(super) seq: u64,
    pub(super) payload: u32,
    /// Marked by a router.
    pub(super) marked: bool,
    /// When it was sent.
    pub(super) sent: Time,
    /// The sender's RTT in seconds; 0 before its first report.
    pub(super) rtt_s: f64,
}

/// The measuring end of a TFRC flow.
#[derive(Clone, Debug)]
pub(super) struct TfrcReceiver {
    history: LossHistory,
    sizing: Sizing,
    feedback_rtts: f64,
    rtt: Span,
    /// Sending time and arrival of the newest packet.
    newest: Option<(Time, Time)>,
    first_arrival: Time,
    /// Times and payloads of the arrivals of the last RTT.
    arrivals: VecDeque<(Time, u32)>,
    /// Bytes since the last report.
    bytes: u64,
    last_report: Time,
    /// Receive rate and loss event rate of the last report.
    receive_rate: f64,
    loss_rate: f64,
    next_report: Time,
}

impl TfrcReceiver {
    pub(super) fn new(rules: Rules, sizing: Sizing, feedback_rtts: f64) -> TfrcReceiver {
        TfrcReceiver {
            history: LossHistory::new(rules),
            sizing,
            feedback_rtts,
            rtt: Span::ZERO,
            newest: None,
            first_arrival: Time::ZERO,
            arrivals: VecDeque::new(),
            bytes: 0,
            last_report: Time::ZERO,
            receive_rate: 0.0,
            loss_rate: 0.0,
            next_report: Time::MAX,
        }
    }

    /// A packet arrives. Says whether a report must go out at once.
    pub(super) fn on_packet(&mut self, packet: &Arrival, now: Time) -> bool {
        let first = self.newest.is_none();
        let rtt = Span::from_seconds(packet.rtt_s);
        let first_rtt = self.rtt == Span::ZERO && rtt > Span::ZERO;
        self.rtt = if rtt > Span::ZERO { rtt } else { self.rtt };
        if first {
            self.first_arrival = now;
        } else if self.bytes == 0 && self.next_report < now && self.rtt > Span::ZERO {
            // The timer has run on without anything to report (RFC 5348 §6.2).
            let step = self.interval().0.max(1);
            let missed = now.since(self.next_report).0 / step + 1;
            self.next_report += Span(step) * missed;
        }
        let seq = packet.seq;
        let bytes = (seq, seq + u64::from(packet.payload));
        let (rtt_s, sizing) = (self.rtt.seconds(), self.sizing);
        let target = self.target_rate(now, packet.payload);
        let size = f64::from(packet.payload);
        let first_interval = || sizing.interval(size, if rtt_s > 0.0 { rtt_s } else { 1.0 }, target);
        let Outcome { fresh, new_event } =
            self.history.arrive(packet.number, bytes, packet.marked, now, self.rtt, first_interval);
        if !fresh {
            return false;
        }
        self.bytes += u64::from(packet.payload);
        self.arrivals.push_back((now, packet.payload));
        while self.arrivals.front().is_some_and(|&(time, _)| now.since(time) > self.rtt * 2)
            || self.arrivals.len() > MOST_ARRIVALS
        {
            self.arrivals.pop_front();
        }
        if self.newest.is_none_or(|(sent, _)| sent <= packet.sent) {
            self.newest = Some((packet.sent, now));
        }
        // RFC 5348 §6.1: the first packet, the first that tells the RTT, and whatever raises p.
        first || first_rtt || new_event && self.history.loss_event_rate(now, self.rtt) > self.loss_rate
    }

    fn interval(&self) -> Span {
        Span::from_seconds(self.rtt.seconds() * self.feedback_rtts)
    }

    /// Bytes per second over the RTT before `now`.
    fn rate_of_last_rtt(&self, now: Time) -> f64 {
        if self.rtt == Span::ZERO {
            return 0.0;
        }
        let recent = self.arrivals.iter().rev().take_while(|&&(time, _)| now.since(time) < self.rtt);
        recent.map(|&(_, payload)| f64::from(payload)).sum::<f64>() / self.rtt.seconds()
    }

    /// The rate that the first loss interval shall stand for (RFC 5348 §6.3.1).
    fn target_rate(&self, now: Time, payload: u32) -> f64 {
        if self.loss_rate > 0.0 {
            return 0.0;
        }
        let half_a_packet =
            0.5 * f64::from(payload) / if self.rtt == Span::ZERO { 1.0 } else { self.rtt.seconds() };
        if self.rtt == Span::ZERO || now.since(self.first_arrival) < self.rtt {
            return half_a_packet;
        }
        self.rate_of_last_rtt(now).max(self.receive_rate).max(half_a_packet)
    }

    /// When the next report is due, if anything.
    pub(super) fn due(&self) -> Option<Time> {
        (self.bytes > 0 && self.next_report < Time::MAX).then_some(self.next_report)
    }

    /// Makes the report; nothing before the first packet.
    pub(super) fn report(&mut self, now: Time) -> Option<Report> {
        let (sent, arrived) = self.newest?;
        let elapsed = now.since(self.last_report);
        if self.rtt > Span::ZERO {
            self.receive_rate = if elapsed >= self.rtt {
                self.bytes as f64 / elapsed.seconds()
            } else {
                self.rate_of_last_rtt(now)
            };
            self.next_report = now + self.interval();
        }
        self.loss_rate = self.history.loss_event_rate(now, self.rtt);
        self.bytes = 0;
        self.last_report = now;
        Some(Report {
            sent,
            delay: now.since(arrived),
            receive_rate: self.receive_rate,
            loss_rate: self.loss_rate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::rate::history::Unit;

    fn receiver() -> TfrcReceiver {
        let rules = Rules {
            loss_packets: 3,
            intervals: 8,
            discount_floor: 1.0,
            short_intervals: false,
            unit: Unit::Packets,
        };
        TfrcReceiver::new(rules, Sizing::Own, 1.0)
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    /// Packet `number` of 1000 B, sent at its number in ms, arrives 50 ms later.
    fn arrive(receiver: &mut TfrcReceiver, number: u64, rtt_s: f64) -> bool {
        let packet =
            Arrival { number, seq: number * 1000, payload: 1000, marked: false, sent: at(number), rtt_s };
        receiver.on_packet(&packet, at(number + 50))
    }

    #[test]
    fn the_first_packet_and_the_first_rtt_are_reported_at_once() {
        let mut receiver = receiver();
        assert!(arrive(&mut receiver, 0, 0.0));
        let report = receiver.report(at(50)).unwrap();
        assert_eq!((report.sent, report.delay, report.receive_rate), (at(0), Span::ZERO, 0.0));
        assert_eq!(receiver.due(), None);
        assert!(!arrive(&mut receiver, 1, 0.0));
        assert!(arrive(&mut receiver, 2, 0.1));
        receiver.report(at(52));
        assert!(!arrive(&mut receiver, 3, 0.1));
        assert_eq!(receiver.due(), Some(at(152)));
    }

    #[test]
    fn reports_carry_the_receive_rate_of_at_least_an_rtt() {
        let mut receiver = receiver();
        for number in 0..=300 {
            if arrive(&mut receiver, number, 0.1) || receiver.due().is_some_and(|due| due <= at(number + 50))
            {
                receiver.report(at(number + 50));
            }
        }
        let regular = receiver.report(at(350)).unwrap();
        assert!((regular.receive_rate - 1e6).abs() < 2e4, "{regular:?}");
        // A loss 20 ms later is reported at once, over the last RTT all the same.
        (301..320).for_each(|number| assert!(!arrive(&mut receiver, number, 0.1)));
        assert!(!arrive(&mut receiver, 321, 0.1) && !arrive(&mut receiver, 322, 0.1));
        assert!(arrive(&mut receiver, 323, 0.1));
        let urgent = receiver.report(at(373)).unwrap();
        assert!((urgent.receive_rate - 1e6).abs() < 2e4, "{urgent:?}");
        // The first interval stands for the receive rate: 100 packets per RTT.
        let fair = Sizing::Own.rate(1000.0, 0.1, urgent.loss_rate);
        assert!((fair / 1e6 - 1.0).abs() < 0.05, "{fair}");
    }

    #[test]
    fn a_silent_receiver_keeps_its_rhythm() {
        let mut receiver = receiver();
        arrive(&mut receiver, 0, 0.1);
        receiver.report(at(50));
        assert_eq!(receiver.due(), None, "nothing to report");
        assert!(!arrive(&mut receiver, 1000, 0.1) || receiver.loss_rate == 0.0);
        assert_eq!(receiver.due(), Some(at(1150)), "1050 is a beat, the next one is 1150");
    }
}
