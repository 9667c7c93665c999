//! When an end acknowledges what it gets (RFC 9000 §13.2).

use std::collections::{BTreeMap, BTreeSet};

use lasthop::Time;

use super::wire::{Acks, Packet};
use super::{ACK_DELAY_EXPONENT, Findings, GRANULARITY, MAX_ACK_DELAY, Rule};

/// Microseconds by which a delay may be off for being cut to the unit of its field.
const DELAY_UNIT: u64 = (1 << ACK_DELAY_EXPONENT) + 1;

/// What an end has got and acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Receiver {
    /// Packets that ask for it and are not acknowledged, and when they came.
    open: BTreeMap<u64, Time>,
    /// How many of them have come since the last acknowledgement left.
    since: u32,
    /// Since when an acknowledgement should have left, for which packet, and by which rule.
    due: Option<(Time, u64, Rule)>,
    /// All that came from the lowest number on that the other end may still speak of.
    arrivals: BTreeMap<u64, Time>,
    /// The highest number that asked for it.
    highest: Option<u64>,
    /// Below the highest, numbers that have not come.
    missing: BTreeSet<u64>,
    /// The highest number that is acknowledged.
    told: Option<u64>,
}

impl Receiver {
    pub(super) fn receive(&mut self, at: Time, packet: &Packet, findings: &mut Findings) {
        self.pass(at, findings);
        let number = packet.number;
        // A copy: nothing new to say.
        if self.arrivals.contains_key(&number) || self.told.is_some_and(|told| number + KEPT <= told) {
            return;
        }
        self.arrivals.insert(number, at);
        while self.arrivals.len() as u64 > KEPT {
            self.arrivals.pop_first();
        }
        if !packet.elicits {
            self.missing.remove(&number);
            return;
        }
        let is_late = self.highest.is_some_and(|highest| number < highest);
        self.missing.remove(&number);
        if let Some(highest) = self.highest.filter(|&highest| highest < number) {
            // More than that is an end that is not QUIC's.
            let from = (highest + 1).max(number.saturating_sub(KEPT));
            self.missing.extend((from..number).filter(|between| !self.arrivals.contains_key(between)));
        }
        while self.missing.len() as u64 > KEPT {
            self.missing.pop_first();
        }
        let is_behind_gap = !is_late
            && self.highest.is_some_and(|highest| self.missing.range(highest..number).next().is_some());
        self.highest = self.highest.max(Some(number));
        self.open.insert(number, at);
        self.since += 1;
        if self.due.is_none() {
            if is_late || is_behind_gap {
                self.due = Some((at, number, Rule::AckDisorder));
            } else if self.since >= 2 {
                self.due = Some((at, number, Rule::AckSecond));
            }
        }
    }

    pub(super) fn send(&mut self, at: Time, packet: &Packet, findings: &mut Findings) {
        let Some(acks) = &packet.acks else { return };
        self.pass(at, findings);
        self.since = 0;
        if let Some((due, number, rule)) = self.due.take() {
            findings.check(due == at, (rule, at, number), || format!("waited for {}", at.since(due)));
        }
        self.delay(at, packet.number, acks, findings);
        for range in &acks.ranges {
            while let Some((&number, &came)) = self.open.range(range.clone()).next() {
                self.open.remove(&number);
                in_time(at, (number, came), findings);
            }
        }
        self.told = self.told.max(Some(*acks.ranges[0].end()));
    }

    /// The delay is that of the highest number that is acknowledged.
    fn delay(&self, at: Time, number: u64, acks: &Acks, findings: &mut Findings) {
        let Some(&came) = self.arrivals.get(acks.ranges[0].end()) else { return };
        let (told, waited) = (acks.delay << ACK_DELAY_EXPONENT, at.since(came).0 / 1000);
        findings.check(told.abs_diff(waited) <= DELAY_UNIT, (Rule::AckDelay, at, number), || {
            format!("tells a delay of {told} us, and it was {waited} us")
        });
    }

    /// What should have been acknowledged at an instant that is over, and was not.
    fn pass(&mut self, now: Time, findings: &mut Findings) {
        if let Some((due, number, rule)) = self.due.filter(|due| due.0 < now) {
            self.due = None;
            findings.check(false, (rule, due, number), || "was not acknowledged at once".to_owned());
        }
    }

    pub(super) fn finish(&mut self, at: Time, findings: &mut Findings) {
        self.pass(at, findings);
        for (&number, &came) in &self.open {
            if at.since(came) > MAX_ACK_DELAY + GRANULARITY {
                in_time(at, (number, came), findings);
            }
        }
    }
}

/// Packets that are remembered behind the highest.
const KEPT: u64 = 4096;

fn in_time(at: Time, (number, came): (u64, Time), findings: &mut Findings) {
    let waited = at.since(came);
    findings.check(waited <= MAX_ACK_DELAY + GRANULARITY, (Rule::AckInTime, at, number), || {
        format!("is not acknowledged {waited} after it came, or just now")
    });
}

#[cfg(test)]
mod tests {
    use lasthop::Span;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn data(number: u64) -> Packet {
        Packet { number, elicits: true, ..Packet::default() }
    }

    /// An acknowledgement of some numbers, with a delay in microseconds.
    fn acks(low: u64, high: u64, delay: u64) -> Packet {
        let acks = Acks { ranges: vec![low..=high], delay: delay >> ACK_DELAY_EXPONENT, marked: None };
        Packet { acks: Some(acks), ..Packet::default() }
    }

    /// What is broken when these packets come, and 0 to `high` are acknowledged at a time with a delay.
    fn broken(came: &[(u64, u64)], (high, when, delay): (u64, u64, u64)) -> Vec<Rule> {
        let (mut receiver, mut findings) = (Receiver::default(), Findings::default());
        for &(number, millis) in came {
            receiver.receive(at(millis), &data(number), &mut findings);
        }
        receiver.send(at(when), &acks(0, high, delay), &mut findings);
        receiver.finish(at(1000), &mut findings);
        findings.violations.iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn a_lone_packet_may_wait_for_25_ms_and_no_longer() {
        assert_eq!(broken(&[(0, 100)], (0, 125, 25_000)), []);
        assert_eq!(broken(&[(0, 100)], (0, 127, 27_000)), [Rule::AckInTime]);
    }

    #[test]
    fn the_second_is_acknowledged_at_once() {
        assert_eq!(broken(&[(0, 100), (1, 110)], (1, 110, 0)), []);
        assert_eq!(broken(&[(0, 100), (1, 110)], (1, 112, 2000)), [Rule::AckSecond]);
    }

    #[test]
    fn so_is_one_behind_a_gap_or_in_it() {
        assert_eq!(broken(&[(0, 100), (2, 110)], (2, 110, 0)), []);
        assert_eq!(broken(&[(0, 100), (2, 110)], (2, 112, 2000)), [Rule::AckDisorder]);
        assert_eq!(broken(&[(2, 100), (1, 110)], (2, 110, 10_000)), []);
        assert_eq!(broken(&[(2, 100), (1, 110)], (2, 112, 12_000)), [Rule::AckDisorder]);
    }

    #[test]
    fn the_delay_is_that_of_the_highest() {
        assert_eq!(broken(&[(0, 100)], (0, 120, 20_000)), []);
        assert_eq!(broken(&[(0, 100)], (0, 120, 10_000)), [Rule::AckDelay]);
    }

    #[test]
    fn what_is_never_acknowledged_is_found() {
        let (mut receiver, mut findings) = (Receiver::default(), Findings::default());
        receiver.receive(at(100), &data(0), &mut findings);
        // A copy asks for nothing.
        receiver.receive(at(101), &data(0), &mut findings);
        receiver.finish(at(120), &mut findings);
        assert_eq!(findings.violations, []);
        receiver.finish(at(200), &mut findings);
        assert_eq!(findings.broken(Rule::AckInTime), 1);
    }
}
