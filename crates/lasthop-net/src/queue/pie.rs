//! PIE: a controller that looks at the queueing delay at regular times sets the probability with which arriving packets
//! are dropped or marked (RFC 8033, Pan et al.).
//!
//! The delay is that of the packet that left last, by its time stamp (§4.3). Of the optional parts it has ECN (§5.1),
//! derandomised drops (§5.4) and the cap on the rise (§5.5); it is never inactive. It needs no timer: between two
//! packets nothing changes that an update looks at, so updates are made up for when the next packet comes or goes.
//! Section numbers are those of RFC 8033.

use lasthop_core::packet::Cause;
use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::fifo::Fifo;
use super::{Parcel, Served, Service, Shed, Verdict};

/// Parameters of PIE; the RFC's are 15 ms, 15 ms, 150 ms, and marks below 0.1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pie {
    /// Delay that it aims at (`QDELAY_REF`).
    pub target: Span,
    /// Time between two updates of the probability (`T_UPDATE`).
    pub update: Span,
    /// A burst may fill the queue for so long before anything is dropped (`MAX_BURST`).
    pub burst: Span,
    /// A queue of no more than two packets of this many bytes is left alone.
    pub mtu: u32,
    /// Mark ECN-capable packets instead of dropping them, while the probability is below `mark_below`.
    pub ecn: bool,
    /// See `ecn`.
    pub mark_below: f64,
}

/// Weights of the delay's distance from the target and of its rise, per second (§4.2).
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;

/// From this delay on the probability rises by 0.02 more with each update, as in `sch_pie` of Linux.
const LONG: Span = Span::from_millis(250);

/// PIE at work.
#[derive(Clone, Debug)]
pub(crate) struct Controlled {
    plan: Pie,
    fifo: Fifo,
    stream: Stream,
    probability: f64,
    /// Probabilities of the packets since the last drop, added up.
    accumulated: f64,
    /// Delay of the packet that left last, and what it was at the last update.
    delay: Span,
    delay_before: Span,
    /// How long a burst may still be.
    burst_left: Span,
    next_update: Time,
}

impl Controlled {
    pub(super) fn new(plan: &Pie, name: &str, seed: u64) -> Controlled {
        Controlled {
            plan: *plan,
            fifo: Fifo::default(),
            stream: Stream::new(seed, &format!("PIE of {name}")),
            probability: 0.0,
            accumulated: 0.0,
            delay: Span::ZERO,
            delay_before: Span::ZERO,
            burst_left: plan.burst,
            next_update: Time::ZERO + plan.update,
        }
    }

    /// The updates that were due by `now`.
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            self.update();
            self.next_update += self.plan.update;
            let at_rest =
                self.probability == 0.0 && self.delay == Span::ZERO && self.delay_before == Span::ZERO;
            if at_rest && self.next_update <= now {
                // The rest of them change nothing more.
                let missed = now.since(self.next_update).0 / self.plan.update.0 + 1;
                self.next_update += self.plan.update * missed;
            }
        }
    }

    /// One update (§4.2, and §4.4 on bursts).
    fn update(&mut self) {
        let (delay, before) = (self.delay.seconds(), self.delay_before.seconds());
        let mut change = ALPHA * (delay - self.plan.target.seconds()) + BETA * (delay - before);
        // Small probabilities move in small steps, or they would swing.
        change /= match self.probability {
            low if low < 0.000_001 => 2048.0,
            low if low < 0.000_01 => 512.0,
            low if low < 0.000_1 => 128.0,
            low if low < 0.001 => 32.0,
            low if low < 0.01 => 8.0,
            low if low < 0.1 => 2.0,
            _ => 1.0,
        };
        if self.probability >= 0.1 {
            change = change.min(0.02);
        }
        // A queue as long as that is beyond what the law was made for.
        if self.delay > LONG {
            change += 0.02;
        }
        self.probability = (self.probability + change).clamp(0.0, 1.0);
        if self.delay == Span::ZERO && self.delay_before == Span::ZERO {
            self.probability *= 0.98;
        }
        let low = self.low();
        self.burst_left = self.burst_left - self.plan.update;
        if self.probability == 0.0 && self.delay < low && self.delay_before < low {
            self.burst_left = self.plan.burst;
        }
        self.delay_before = self.delay;
    }

    /// A delay that needs nothing to be done.
    fn low(&self) -> Span {
        Span(self.plan.target.0 / 2)
    }

    /// Whether chance drops the packet that arrives (§4.1, §5.4).
    fn drops(&mut self) -> bool {
        let calm = self.delay_before < self.low() && self.probability < 0.2;
        let short = self.fifo.bytes() <= 2 * u64::from(self.plan.mtu);
        if self.burst_left > Span::ZERO || calm || short {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        if self.accumulated < 0.85 {
            return false;
        }
        let drops = self.accumulated >= 8.5 || self.stream.uniform() < self.probability;
        if drops {
            self.accumulated = 0.0;
        }
        drops
    }
}

impl Service for Controlled {
    fn push(&mut self, parcel: Parcel, shed: &mut Vec<Shed>) -> Verdict {
        self.catch_up(parcel.since);
        let drops = self.drops();
        let marks =
            drops && self.plan.ecn && parcel.ecn.can_be_marked() && self.probability < self.plan.mark_below;
        if drops && !marks {
            return Verdict::Refuse(Cause::EarlyDrop);
        }
        self.fifo.push(parcel, shed);
        if marks { Verdict::Mark } else { Verdict::Admit }
    }

    fn pop(&mut self, now: Time, _shed: &mut Vec<Shed>) -> Option<Served> {
        self.catch_up(now);
        let parcel = self.fifo.take_first()?;
        // No packet waits behind it: the queue is over, whatever this one has waited.
        let over = self.fifo.packets() == 0;
        self.delay = if over { Span::ZERO } else { now.since(parcel.since) };
        Some(Served { parcel, marked: false })
    }

    fn packets(&self) -> u64 {
        self.fifo.packets()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Ecn;

    const PLAN: Pie = Pie {
        target: Span::from_millis(15),
        update: Span::from_millis(15),
        burst: Span::from_millis(150),
        mtu: 1500,
        ecn: true,
        mark_below: 0.1,
    };

    fn pie() -> Controlled {
        Controlled::new(&PLAN, "test", 1)
    }

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    fn parcel(since: Time, ect: bool) -> Parcel {
        let ecn = if ect { Ecn::Capable } else { Ecn::Incapable };
        Parcel { packet: 0, hop: 0, flow: 0, bytes: 1000, ecn, ahead: false, since }
    }

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() <= 1e-9 * right.abs()
    }

    /// TV-28.4, the law by hand. From nothing to 55 ms: 0.125 * 0.04 + 1.25 * 0.055 = 0.07375, divided by 2048; again
    /// with the delay as it is 0.005, divided by 128 as the probability is 3.6e-5.
    #[test]
    fn the_law_by_hand() {
        let mut pie = pie();
        pie.delay = Span::from_millis(55);
        pie.update();
        assert!(close(pie.probability, 0.073_75 / 2048.0), "{}", pie.probability);
        pie.update();
        assert!(close(pie.probability, 0.073_75 / 2048.0 + 0.005 / 128.0), "{}", pie.probability);
        for (probability, divisor) in
            [(0.000_005, 512.0), (0.000_5, 32.0), (0.005, 8.0), (0.05, 2.0), (0.5, 1.0)]
        {
            pie.probability = probability;
            pie.update();
            assert!(close(pie.probability, probability + 0.005 / divisor), "{probability}");
        }
        // A rise of more than 0.02 is cut once the probability is 0.1.
        (pie.probability, pie.delay) = (0.1, Span::from_millis(250));
        pie.update();
        assert!(close(pie.probability, 0.12), "{}", pie.probability);
        // Beyond 250 ms there is 0.02 more: 0.125 * 0.24 + 1.25 * 0.005 is cut to 0.02.
        pie.delay = Span::from_millis(255);
        pie.update();
        assert!(close(pie.probability, 0.16), "{}", pie.probability);
        // Below the target it falls: 0.125 * -0.015 + 1.25 * -0.255; and no further than to nothing.
        pie.delay = Span::ZERO;
        pie.update();
        assert_eq!(pie.probability, 0.0);
    }

    /// With the queue gone for two updates the probability also decays by a fiftieth each time.
    #[test]
    fn the_probability_decays() {
        let mut pie = pie();
        pie.probability = 0.5;
        pie.update();
        assert!(close(pie.probability, (0.5 - 0.001_875) * 0.98), "{}", pie.probability);
    }

    /// A burst of 150 ms passes whatever the probability; it is allowed anew once the queue has been short.
    #[test]
    fn bursts_pass() {
        let mut pie = pie();
        (pie.delay, pie.probability) = (Span::from_millis(100), 1.0);
        (0..10).for_each(|_| {
            pie.push(parcel(Time::ZERO, false), &mut Vec::new());
        });
        for at in (0..150).step_by(10) {
            pie.probability = 1.0;
            assert_eq!(pie.push(parcel(millis(at), false), &mut Vec::new()), Verdict::Admit, "{at} ms");
        }
        pie.probability = 1.0;
        assert_eq!(pie.push(parcel(millis(151), false), &mut Vec::new()), Verdict::Refuse(Cause::EarlyDrop));
        (pie.probability, pie.delay, pie.delay_before) = (0.0, Span::ZERO, Span::ZERO);
        pie.catch_up(millis(10_000));
        assert_eq!((pie.burst_left, pie.next_update), (PLAN.burst, millis(10_005)));
    }

    /// TV-28.5: at p = 1/16 no packet is dropped before the 14th, when the sum passes 0.85, and none passes as the
    /// 136th.
    #[test]
    fn drops_are_spread() {
        let mut pie = pie();
        (pie.burst_left, pie.delay_before, pie.probability) = (Span::ZERO, PLAN.target, 0.0625);
        (0..5).for_each(|_| {
            pie.fifo.push(parcel(Time::ZERO, false), &mut Vec::new());
        });
        let mut gaps = Vec::new();
        let mut gap = 0;
        for _ in 0..100_000 {
            gap += 1;
            if pie.drops() {
                gaps.push(gap);
                gap = 0;
            }
        }
        assert!(gaps.iter().all(|gap| (14..=136).contains(gap)));
        // 13 that never are, and then a geometric mean of 16.
        let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
        assert!((mean - 29.0).abs() < 1.0, "{mean}");
    }

    /// Marks in place of drops, but not when the probability is high; short queues are left alone.
    #[test]
    fn marks_and_short_queues() {
        let verdict = |probability, ect, packets| {
            let mut pie = pie();
            (pie.burst_left, pie.delay_before, pie.accumulated) = (Span::ZERO, PLAN.target, 9.0);
            pie.probability = probability;
            (0..packets).for_each(|_| {
                pie.fifo.push(parcel(Time::ZERO, false), &mut Vec::new());
            });
            pie.push(parcel(Time::ZERO, ect), &mut Vec::new())
        };
        assert_eq!(verdict(0.05, true, 5), Verdict::Mark);
        assert_eq!(verdict(0.05, false, 5), Verdict::Refuse(Cause::EarlyDrop));
        assert_eq!(verdict(0.15, true, 5), Verdict::Refuse(Cause::EarlyDrop));
        assert_eq!(verdict(0.05, true, 3), Verdict::Admit);
    }
}
