//! DualPI2: two queues on one link, a short one for scalable senders and one for all others, whose marks and drops are
//! coupled so that both kinds get like rates (RFC 9332, appendix A).
//!
//! What carries ECT(1) or CE joins the low-latency queue L, the rest the classic queue C (RFC 9331 §5.1). A PI
//! controller looks at the longer of both delays at regular times and sets p'. C is dropped, or marked where it may be,
//! with p'^2; L is marked with k p', or with a ramp over its own delay if that asks for more. Beyond k p' = 1 the queue
//! is overloaded: marks no longer suffice, and both are dropped with p'^2. Probabilities are added up instead of drawn
//! (`recur` of the RFC), so that marks are spaced evenly and there is no random stream. L goes first, except for a
//! small share of the link that is C's while both wait.
//!
//! It needs no timer: between two packets nothing changes that an update looks at but the time, so updates are made up
//! for when the next packet comes or goes.

use lasthop_core::packet::Cause;
use lasthop_core::time::{Span, Time};

use super::fifo::Fifo;
use super::{Ecn, Parcel, Served, Service, Shed, Verdict};

/// Parameters of DualPI2; the RFC's are 15 ms, 16 ms, 0.16, 3.2, 2, 0.8 ms, 0.4 ms and 1/16.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2 {
    /// Delay of the classic queue that the controller aims at.
    pub target: Span,
    /// Time between two updates of the probability.
    pub update: Span,
    /// What an update adds for each second by which the delay exceeds the target.
    pub alpha: f64,
    /// What an update adds for each second by which the delay has risen.
    pub beta: f64,
    /// How many times p' marks in L.
    pub coupling: f64,
    /// Delay of L from which on its own ramp marks.
    pub ramp_from: Span,
    /// Length of that ramp, at whose end everything in L is marked.
    pub ramp: Span,
    /// Share of the link that C is served while both wait.
    pub classic_share: f64,
    /// Bytes of a full packet.
    pub mtu: u32,
}

/// Probabilities added up: true as often as the probability says, evenly spaced.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recurring(f64);

impl Recurring {
    pub(crate) fn next(&mut self, probability: f64) -> bool {
        self.0 += probability;
        let due = self.0 > 1.0;
        if due {
            self.0 -= 1.0;
        }
        due
    }
}

/// The law without the queues: probabilities, and what becomes of a packet.
#[derive(Clone, Debug)]
struct Law {
    plan: DualPi2,
    low_due: Recurring,
    classic_due: Recurring,
    /// p' of the RFC.
    base: f64,
    /// Delay at the last update, in seconds.
    delay_before: f64,
    next_update: Time,
}

/// DualPI2 at work.
#[derive(Clone, Debug)]
pub(crate) struct Coupled {
    law: Law,
    low: Fifo,
    classic: Fifo,
    /// C is served while this is positive, in bytes.
    credit: f64,
}

impl Law {
    fn new(plan: &DualPi2) -> Law {
        Law {
            plan: *plan,
            low_due: Recurring::default(),
            classic_due: Recurring::default(),
            base: 0.0,
            delay_before: 0.0,
            next_update: Time::ZERO + plan.update,
        }
    }

    /// Probability with which marks of L follow from the classic queue (p_CL).
    fn coupled(&self) -> f64 {
        (self.plan.coupling * self.base).min(1.0)
    }

    /// Probability with which C is marked or dropped (p_C).
    fn squared(&self) -> f64 {
        self.base * self.base
    }

    /// The updates that were due by `now`; `delay_at` is the delay of the longer queue at a time, in seconds, and
    /// `is_empty` says that nothing waits.
    fn catch_up(&mut self, now: Time, is_empty: bool, delay_at: impl Fn(Time) -> f64) {
        while self.next_update <= now {
            self.update(delay_at(self.next_update));
            self.next_update += self.plan.update;
            let at_rest = self.base == 0.0 && self.delay_before == 0.0 && is_empty;
            if at_rest && self.next_update <= now {
                // The rest of them change nothing more.
                let missed = now.since(self.next_update).0 / self.plan.update.0 + 1;
                self.next_update += self.plan.update * missed;
            }
        }
    }

    /// One update (`dualpi2_update`).
    fn update(&mut self, delay: f64) {
        let change = self.plan.alpha * (delay - self.plan.target.seconds())
            + self.plan.beta * (delay - self.delay_before);
        self.base = (self.base + change).clamp(0.0, 1.0);
        self.delay_before = delay;
    }

    /// Own marks of L: none while `waiting` packets, itself included, are but one (`laqm`, `Th_len`).
    fn ramp(&self, delay: Span, waiting: u64) -> f64 {
        if waiting <= 1 {
            return 0.0;
        }
        let above = delay.seconds() - self.plan.ramp_from.seconds();
        if above <= 0.0 { 0.0 } else { (above / self.plan.ramp.seconds()).min(1.0) }
    }

    /// What becomes of one of L after `delay`.
    fn fate_of_low(&mut self, delay: Span, waiting: u64) -> Fate {
        let coupled = self.coupled();
        if coupled >= 1.0 {
            // Overloaded: the squared probability drops here too.
            let squared = self.squared();
            if self.low_due.next(squared) {
                return Fate::Drop;
            }
            return Fate::Mark;
        }
        let marks = self.low_due.next(self.ramp(delay, waiting).max(coupled));
        if marks { Fate::Mark } else { Fate::Pass }
    }

    /// What becomes of one of C.
    fn fate_of_classic(&mut self, ecn: Ecn) -> Fate {
        let squared = self.squared();
        if !self.classic_due.next(squared) {
            return Fate::Pass;
        }
        let most = (1.0 / (self.plan.coupling * self.plan.coupling)).min(1.0);
        if ecn.can_be_marked() && squared < most { Fate::Mark } else { Fate::Drop }
    }
}

/// What becomes of a packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Mark,
    Drop,
}

/// L goes first.
fn first_credit(plan: &DualPi2) -> f64 {
    f64::from(plan.mtu) * (2.0 * plan.classic_share - 1.0)
}

impl Coupled {
    pub(super) fn new(plan: &DualPi2, _name: &str, _seed: u64) -> Coupled {
        let (low, classic) = (Fifo::default(), Fifo::default());
        Coupled { law: Law::new(plan), low, classic, credit: first_credit(plan) }
    }

    /// The updates that were due by `now`.
    fn catch_up(&mut self, now: Time) {
        let (low, classic) = (&self.low, &self.classic);
        let wait =
            |queue: &Fifo, at: Time| queue.first().map_or(0.0, |parcel| at.since(parcel.since).seconds());
        let is_empty = low.packets() + classic.packets() == 0;
        self.law.catch_up(now, is_empty, |at| wait(low, at).max(wait(classic, at)));
    }

    /// Whether the packet that leaves next is one of L.
    fn serves_low(&self) -> bool {
        self.low.packets() > 0 && (self.classic.packets() == 0 || self.credit <= 0.0)
    }

    /// The next packet in turn, and whether it was one of L.
    fn take(&mut self) -> Option<(Parcel, bool)> {
        let low = self.serves_low();
        let contended = self.low.packets() > 0 && self.classic.packets() > 0;
        let parcel = if low { self.low.take_first() } else { self.classic.take_first() }?;
        if contended {
            let bytes = f64::from(parcel.bytes);
            let share = self.law.plan.classic_share;
            self.credit += if low { share * bytes } else { (share - 1.0) * bytes };
        } else {
            self.credit = first_credit(&self.law.plan);
        }
        Some((parcel, low))
    }
}

impl Service for Coupled {
    fn push(&mut self, parcel: Parcel, shed: &mut Vec<Shed>) -> Verdict {
        self.catch_up(parcel.since);
        let queue = if parcel.ecn == Ecn::Scalable { &mut self.low } else { &mut self.classic };
        queue.push(parcel, shed)
    }

    fn pop(&mut self, now: Time, shed: &mut Vec<Shed>) -> Option<Served> {
        self.catch_up(now);
        loop {
            let waiting = self.low.packets();
            let (parcel, low) = self.take()?;
            let fate = if low {
                self.law.fate_of_low(now.since(parcel.since), waiting)
            } else {
                self.law.fate_of_classic(parcel.ecn)
            };
            match fate {
                Fate::Drop => shed.push(Shed { parcel, cause: Cause::EarlyDrop }),
                Fate::Mark | Fate::Pass => return Some(Served { parcel, marked: fate == Fate::Mark }),
            }
        }
    }

    #[inline]
    fn packets(&self) -> u64 {
        self.low.packets() + self.classic.packets()
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.low.bytes() + self.classic.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: DualPi2 = DualPi2 {
        target: Span::from_millis(15),
        update: Span::from_millis(16),
        alpha: 0.16,
        beta: 3.2,
        coupling: 2.0,
        ramp_from: Span::from_nanos(800_000),
        ramp: Span::from_nanos(400_000),
        classic_share: 0.0625,
        mtu: 1500,
    };

    fn queue() -> Coupled {
        Coupled::new(&PLAN, "test", 1)
    }

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    fn parcel(packet: u32, ecn: Ecn) -> Parcel {
        Parcel { packet, hop: 0, flow: 0, bytes: 1500, ecn, ahead: false, since: Time::ZERO }
    }

    fn close(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-12, "{left} {right}");
    }

    /// TV-28.1, worked from `dualpi2_update`: from 10 ms, 0.16 x -0.005 + 3.2 x 0.01 = 0.0312, and so on.
    #[test]
    fn the_law_by_hand() {
        let mut queue = queue();
        let expected = [
            (0, 0.0, 0.0),
            (10, 0.0312, 0.000_973_44),
            (20, 0.0640, 0.004_096),
            (25, 0.0816, 0.006_658_56),
            (25, 0.0832, 0.006_922_24),
            (20, 0.0680, 0.004_624),
            (15, 0.0520, 0.002_704),
            (15, 0.0520, 0.002_704),
        ];
        for (delay, base, squared) in expected {
            queue.law.update(f64::from(delay) / 1e3);
            close(queue.law.base, base);
            close(queue.law.coupled(), 2.0 * base);
            close(queue.law.squared(), squared);
        }
        queue.law.update(10.0);
        assert_eq!((queue.law.base, queue.law.coupled()), (1.0, 1.0));
        queue.law.update(0.0);
        assert_eq!(queue.law.base, 0.0);
    }

    /// TV-28.2: 0.3 from nothing is due at calls 4, 7, 11, 14 and 17.
    #[test]
    fn probabilities_recur() {
        let mut due = Recurring::default();
        let calls: Vec<u32> = (1..=17).filter(|_| due.next(0.3)).collect();
        assert_eq!(calls, [4, 7, 11, 14, 17]);
    }

    /// TV-28.3: at p' = 0.5 marks are no answer any more: C is dropped although it may be marked, and L too, as often.
    #[test]
    fn overload_drops() {
        let mut queue = queue();
        queue.law.base = 0.5;
        let fates = |queue: &mut Coupled, ecn| -> Vec<Fate> {
            (0..1001).map(|_| queue.law.fate_of_classic(ecn)).collect()
        };
        for ecn in [Ecn::Incapable, Ecn::Capable] {
            let fates = fates(&mut queue, ecn);
            assert!(fates.iter().all(|&fate| fate != Fate::Mark));
            assert_eq!(fates.iter().filter(|&&fate| fate == Fate::Drop).count(), 250, "{ecn:?}");
            queue.law.classic_due = Recurring::default();
        }
        let low: Vec<Fate> = (0..1001).map(|_| queue.law.fate_of_low(Span::ZERO, 1)).collect();
        assert_eq!(low.iter().filter(|&&fate| fate == Fate::Drop).count(), 250);
        assert_eq!(low.iter().filter(|&&fate| fate == Fate::Mark).count(), 751);
        // Just below, C is marked where it may be, and L is never dropped.
        queue.law.base = 0.49;
        let fates = fates(&mut queue, Ecn::Capable);
        assert!(fates.contains(&Fate::Mark) && !fates.contains(&Fate::Drop));
        assert!((0..1000).all(|_| queue.law.fate_of_low(Span::ZERO, 1) != Fate::Drop));
    }

    /// The ramp of L: nothing up to 0.8 ms, half at 1 ms, all from 1.2 ms on; a lone packet is left alone.
    #[test]
    fn the_ramp_of_the_short_queue() {
        let queue = queue();
        for (micros, expected) in [(0, 0.0), (800, 0.0), (1000, 0.5), (1200, 1.0), (9000, 1.0)] {
            close(queue.law.ramp(Span::from_nanos(1000 * micros), 2), expected);
            assert_eq!(queue.law.ramp(Span::from_nanos(1000 * micros), 1), 0.0);
        }
    }

    /// L goes first; while both wait, one packet in sixteen is C's.
    #[test]
    fn the_classic_queue_has_its_share() {
        let mut queue = queue();
        let mut shed = Vec::new();
        for packet in 0..160 {
            queue.push(parcel(packet, Ecn::Scalable), &mut shed);
            queue.push(parcel(1000 + packet, Ecn::Capable), &mut shed);
        }
        let served: Vec<u32> =
            (0..160).map(|_| queue.pop(Time::ZERO, &mut shed).unwrap().parcel.packet).collect();
        assert!(served[..15].iter().all(|&packet| packet < 1000));
        let classic = served.iter().filter(|&&packet| packet >= 1000).count();
        assert!((9..=10).contains(&classic), "{classic}");
        assert_eq!((queue.packets(), queue.bytes()), (160, 160 * 1500));
    }

    /// Updates are made up for: the head has waited 4, 20, 36 ms at the three that were due; an idle queue forgets.
    #[test]
    fn missed_updates_are_made_up_for() {
        let mut queue = queue();
        let mut shed = Vec::new();
        queue.push(Parcel { since: millis(12), ..parcel(0, Ecn::Incapable) }, &mut shed);
        queue.catch_up(millis(50));
        let mut expected = self::queue();
        for delay in [0.004, 0.020, 0.036] {
            expected.law.update(delay);
        }
        close(queue.law.base, expected.law.base);
        queue.pop(millis(50), &mut shed).unwrap();
        queue.catch_up(millis(100_000));
        assert_eq!(queue.law.base, 0.0);
        assert!(queue.law.next_update > millis(100_000) && queue.law.next_update <= millis(100_016));
        assert!(shed.is_empty());
    }
}
