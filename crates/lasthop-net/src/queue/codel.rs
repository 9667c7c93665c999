//! CoDel: controls the delay of a queue by dropping at its head (RFC 8289, Nichols & Jacobson 2012).
//!
//! A packet that leaves after more than `target` of waiting says little; a queue in which none has waited for less
//! during a whole `interval` is a standing one. From then on a packet is dropped (or marked, if it is ECN-capable and
//! the plan says so) now and then, the k-th one `interval / sqrt(k)` after the one before, until the delay is below
//! `target` again. Section numbers in the comments are those of RFC 8289.

use lasthop_core::packet::Cause;
use lasthop_core::time::{Span, Time};

use super::fifo::Fifo;
use super::{Ecn, Parcel, Served, Service, Shed, Verdict};

/// Parameters of CoDel; the RFC's are 5 ms and 100 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDel {
    /// Target: the standing delay that is acceptable.
    pub target: Span,
    /// A delay that lasts so long is a standing one; about the largest usual RTT.
    pub interval: Span,
    /// A queue of no more bytes than this is never controlled: the largest packet of the link.
    pub mtu: u32,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Mark every ECN-capable packet that has waited longer than this, whatever the law says (`ce_threshold` of Linux).
    pub threshold: Option<CeThreshold>,
}

/// A delay beyond which packets are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CeThreshold {
    /// The delay.
    pub delay: Span,
    /// Packets that carry ECT(1) alone, or CE, which may have been that.
    pub scalable_only: bool,
}

/// CoDel at work.
#[derive(Clone, Debug)]
pub(crate) struct Controlled {
    plan: CoDel,
    fifo: Fifo,
    /// When the delay will have been above target for an interval; `None` while it is below.
    first_above: Option<Time>,
    /// When the next packet is to be dropped, while dropping.
    drop_next: Time,
    /// Packets dropped since this state was entered, and when the last one was.
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl Controlled {
    pub(super) fn new(plan: &CoDel, _name: &str, _seed: u64) -> Controlled {
        Controlled::of(*plan)
    }

    /// CoDel draws nothing: its parameters are all that it needs.
    pub(super) fn of(plan: CoDel) -> Controlled {
        Controlled {
            plan,
            fifo: Fifo::default(),
            first_above: None,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// Takes the first packet away, past the control.
    #[inline]
    pub(super) fn take_first(&mut self) -> Option<Parcel> {
        self.fifo.take_first()
    }

    /// The next packet of the queue, and whether it may be dropped (`dodequeue`, §5.6).
    #[inline]
    fn take(&mut self, now: Time) -> Option<(Parcel, bool)> {
        let Some(parcel) = self.fifo.take_first() else {
            self.first_above = None;
            return None;
        };
        let sojourn = now.since(parcel.since);
        if sojourn < self.plan.target || self.fifo.bytes() <= u64::from(self.plan.mtu) {
            self.first_above = None;
            return Some((parcel, false));
        }
        let first_above = *self.first_above.get_or_insert(now + self.plan.interval);
        Some((parcel, now >= first_above))
    }

    /// Whether a packet is marked where another would be dropped.
    fn marks(&self, parcel: Parcel) -> bool {
        self.plan.ecn && parcel.ecn.can_be_marked()
    }

    /// The control law (§5.4): the time of the next drop after one at `from`.
    fn next_drop(&self, from: Time) -> Time {
        from + spacing(self.plan.interval, self.count)
    }
}

/// The control law (§5.4): the time between the `count`-th signal and the next.
#[inline]
pub(super) fn spacing(interval: Span, count: u32) -> Span {
    if count <= 1 {
        return interval;
    }
    Span::from_seconds(interval.seconds() / f64::from(count).sqrt())
}

impl Controlled {
    /// Whether the threshold marks a packet that leaves at `now`.
    #[inline]
    fn is_late(&self, parcel: Parcel, now: Time) -> bool {
        self.plan.threshold.is_some_and(|threshold| {
            let is_meant = if threshold.scalable_only {
                parcel.ecn == Ecn::Scalable
            } else {
                parcel.ecn.can_be_marked()
            };
            is_meant && now.since(parcel.since) > threshold.delay
        })
    }

    /// `dequeue` of §5.5.
    fn dequeue(&mut self, now: Time, shed: &mut Vec<Shed>) -> Option<Served> {
        let Some((mut parcel, mut may_drop)) = self.take(now) else {
            self.dropping = false;
            return None;
        };
        if self.dropping {
            if !may_drop {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if self.marks(parcel) {
                    self.drop_next = self.next_drop(self.drop_next);
                    return Some(Served { parcel, marked: true });
                }
                shed.push(Shed { parcel, cause: Cause::EarlyDrop });
                let Some(next) = self.take(now) else {
                    self.dropping = false;
                    return None;
                };
                (parcel, may_drop) = next;
                if may_drop {
                    self.drop_next = self.next_drop(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
            return Some(Served { parcel, marked: false });
        }
        if !may_drop {
            return Some(Served { parcel, marked: false });
        }
        self.dropping = true;
        // §5.5: soon after the last time the rate of drops that controlled the queue then is a good one to start from.
        let delta = self.count - self.last_count;
        let recent = now.since(self.drop_next) < self.plan.interval * 16;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.next_drop(now);
        self.last_count = self.count;
        if self.marks(parcel) {
            return Some(Served { parcel, marked: true });
        }
        shed.push(Shed { parcel, cause: Cause::EarlyDrop });
        let served = self.take(now);
        served.map(|(parcel, _)| Served { parcel, marked: false })
    }
}

impl Service for Controlled {
    fn push(&mut self, parcel: Parcel, shed: &mut Vec<Shed>) -> Verdict {
        self.fifo.push(parcel, shed)
    }

    fn pop(&mut self, now: Time, shed: &mut Vec<Shed>) -> Option<Served> {
        let served = self.dequeue(now, shed)?;
        Some(Served { marked: served.marked || self.is_late(served.parcel, now), ..served })
    }

    #[inline]
    fn packets(&self) -> u64 {
        self.fifo.packets()
    }

    #[inline]
    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: CoDel = CoDel {
        target: Span::from_millis(5),
        interval: Span::from_millis(100),
        mtu: 1500,
        ecn: false,
        threshold: None,
    };

    fn parcel(packet: u32, since: Time) -> Parcel {
        Parcel { packet, hop: 0, flow: 0, bytes: 1000, ecn: Ecn::Capable, ahead: false, since }
    }

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    fn push(queue: &mut Controlled, parcels: impl IntoIterator<Item = Parcel>) {
        for parcel in parcels {
            assert_eq!(queue.push(parcel, &mut Vec::new()), Verdict::Admit);
        }
    }

    /// NV-1.5, the control law of RFC 8289 §5.4 alone: drops after one at 0 that follow each other at the exact times.
    #[test]
    fn the_control_law() {
        let mut queue = Controlled { count: 1, ..Controlled::of(PLAN) };
        let mut at = queue.next_drop(Time::ZERO);
        let mut times = Vec::new();
        for count in 2..=7 {
            times.push((at.seconds() * 1e5).round() / 100.0);
            queue.count = count;
            at = queue.next_drop(at);
        }
        assert_eq!(times, [100.0, 170.71, 228.45, 278.45, 323.17, 363.99]);
    }

    /// A queue that never drains, served once a millisecond: the times at which packets are dropped.
    fn drops(plan: CoDel, length: u64) -> Vec<u64> {
        let mut queue = Controlled::of(plan);
        push(&mut queue, (0..200).map(|number| parcel(number, Time::ZERO)));
        let mut times = Vec::new();
        for at in 0..length {
            let mut shed = Vec::new();
            let served = queue.pop(millis(at), &mut shed);
            let marked = served.is_some_and(|served| served.marked);
            times.extend((0..shed.len() + usize::from(marked)).map(|_| at));
            // What has left is replaced by what has waited as long.
            push(&mut queue, (0..=shed.len()).map(|_| parcel(999, Time::ZERO)));
        }
        times
    }

    /// The control law by hand: above target from 5 ms on, the first drop an interval later, at 105 ms; then after
    /// 100 / sqrt(k) ms each: 205, 275.7, 333.4, 383.4, 428.2 ms (k = 1, 2, 3, 4, 5); service happens at whole ones.
    #[test]
    fn drops_follow_the_square_root() {
        assert_eq!(drops(PLAN, 430), [105, 205, 276, 334, 384, 429]);
    }

    /// With ECN the same packets are marked instead, at the same times.
    #[test]
    fn marks_stand_in_for_drops() {
        assert_eq!(drops(CoDel { ecn: true, ..PLAN }, 430), [105, 205, 276, 334, 384, 429]);
    }

    /// Below target, or with no more than a packet behind it, nothing is ever dropped.
    #[test]
    fn short_queues_are_left_alone() {
        let mut queue = Controlled::of(PLAN);
        let mut shed = Vec::new();
        for at in 0..1_000 {
            push(&mut queue, [parcel(1, millis(at))]);
            let served = queue.pop(millis(at + 4), &mut shed).map(|served| served.parcel.packet);
            assert_eq!(served, Some(1));
        }
        push(&mut queue, [parcel(2, Time::ZERO), parcel(3, Time::ZERO)]);
        assert!(
            queue.pop(millis(5_000), &mut shed).is_some() && queue.pop(millis(6_000), &mut shed).is_some()
        );
        assert!(shed.is_empty());
    }

    /// Back soon, with `count` drops behind it, it starts from their rate (§5.5).
    #[test]
    fn a_queue_that_comes_back_soon_is_known() {
        let mut queue =
            Controlled { count: 5, last_count: 1, drop_next: millis(900), ..Controlled::of(PLAN) };
        push(&mut queue, (0..50).map(|number| parcel(number, Time::ZERO)));
        let mut shed = Vec::new();
        queue.pop(millis(1_000), &mut shed);
        queue.pop(millis(1_100), &mut shed);
        assert_eq!((shed.len(), queue.count), (1, 4));
        assert_eq!(queue.drop_next, millis(1_150), "100 ms / sqrt(4) later");
    }

    /// Each packet that waited longer than the threshold is marked, before the law would do anything: those of ECT(1)
    /// alone, if the threshold is for them, and never one that is not ECN-capable.
    #[test]
    fn late_packets_are_marked() {
        let marked = |ecn, scalable_only, waited| {
            let threshold = Some(CeThreshold { delay: Span::from_millis(1), scalable_only });
            let mut queue = Controlled::of(CoDel { threshold, ..PLAN });
            push(&mut queue, [Parcel { ecn, ..parcel(0, Time::ZERO) }]);
            queue.pop(Time::ZERO + waited, &mut Vec::new()).unwrap().marked
        };
        let (at, beyond) = (Span::from_millis(1), Span::from_nanos(1_000_001));
        for (ecn, all, scalable) in
            [(Ecn::Incapable, false, false), (Ecn::Capable, true, false), (Ecn::Scalable, true, true)]
        {
            assert_eq!([at, beyond].map(|waited| marked(ecn, false, waited)), [false, all], "{ecn:?}");
            assert_eq!([at, beyond].map(|waited| marked(ecn, true, waited)), [false, scalable], "{ecn:?}");
        }
    }
}
