//! COBALT: CoDel and BLUE side by side over one queue (Høiland-Jørgensen, Täht and Morton 2018, section III-D).
//!
//! CoDel tells senders that answer signals when their queue stands; BLUE thins out those that do not, by a probability
//! that rises when the queue overflows and falls when it runs empty. CoDel is written so that one time serves as the
//! delay before the first signal, as the spacing of signals and as the time in which what it knows fades. Called by
//! `cake.rs`; it holds no packets.

use lasthop_core::random::Stream;
use lasthop_core::time::{Span, Time};

use super::codel::spacing;

/// What COBALT goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The standing delay that is acceptable, and the least time between two steps of BLUE.
    pub(super) target: Span,
    /// From the first packet beyond the target to the first signal.
    pub(super) interval: Span,
    /// No packet is late that has waited no longer than this, four of full size.
    pub(super) grace: Span,
}

/// What becomes of a packet that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    None,
    Mark,
    Drop,
}

/// COBALT at work on one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Cobalt {
    /// Signals of CoDel, less those that have faded.
    count: u32,
    /// When the next signal is due, or when one fades.
    next: Time,
    /// The last packet was late.
    late: bool,
    /// BLUE's probability of a drop, of 2^32.
    probability: u32,
    /// When it last changed.
    changed: Option<Time>,
}

/// What an overflow adds to the probability: 1/256.
const RISE: u32 = 1 << 24;
/// What an empty queue takes from it: 1/4096.
const FALL: u32 = 1 << 20;

impl Cobalt {
    /// A packet leaves at `now` after `waited`.
    #[inline]
    pub(super) fn judge(
        &mut self,
        (now, waited): (Time, Span),
        can_be_marked: bool,
        bounds: &Bounds,
        dice: &mut Stream,
    ) -> Signal {
        let is_due = self.count > 0 && now >= self.next;
        let mut is_behind = now > self.next;
        let is_late = waited > bounds.target && waited > bounds.grace;
        if is_late {
            if !self.late {
                self.next = now + spacing(bounds.interval, self.count);
            }
            self.count = self.count.max(1);
        }
        self.late = is_late;
        let mut signal = Signal::None;
        if is_due && is_late {
            signal = if can_be_marked { Signal::Mark } else { Signal::Drop };
            self.count = self.count.saturating_add(1);
            self.next += spacing(bounds.interval, self.count);
            is_behind = now > self.next;
        } else if is_due {
            while self.count > 0 && now >= self.next {
                self.count -= 1;
                self.next += spacing(bounds.interval, self.count);
            }
            is_behind = now > self.next;
        }
        // BLUE never marks: it is there for those that do not listen.
        if self.probability > 0 && dice.below(1 << 32) < u64::from(self.probability) {
            signal = Signal::Drop;
        }
        if self.count == 0 {
            self.next = now + bounds.interval;
        } else if is_behind && signal != Signal::Drop {
            self.next = now;
        }
        signal
    }

    /// A packet of the queue was dropped at `now`, because there was no more room.
    pub(super) fn overflow(&mut self, now: Time, bounds: &Bounds) {
        if self.may_change(now, bounds) {
            self.probability = self.probability.saturating_add(RISE);
            self.changed = Some(now);
        }
        self.late = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    /// It was the turn of the queue at `now`, and there was nothing in it.
    pub(super) fn empty(&mut self, now: Time, bounds: &Bounds) {
        if self.probability > 0 && self.may_change(now, bounds) {
            self.probability = self.probability.saturating_sub(FALL);
            self.changed = Some(now);
        }
        self.late = false;
        if self.count > 0 && now >= self.next {
            self.count -= 1;
            self.next += spacing(bounds.interval, self.count);
        }
    }

    /// Whether nothing is left that would fade.
    pub(super) fn is_at_rest(&self, now: Time) -> bool {
        self.probability == 0 && self.count == 0 && now >= self.next
    }

    /// Whether BLUE may take a step.
    fn may_change(&self, now: Time, bounds: &Bounds) -> bool {
        self.changed.is_none_or(|changed| now.since(changed) > bounds.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        target: Span::from_millis(5),
        interval: Span::from_millis(100),
        grace: Span::from_millis(4),
    };

    fn millis(value: u64) -> Time {
        Time::ZERO + Span::from_millis(value)
    }

    fn dice() -> Stream {
        Stream::new(1, "test")
    }

    /// A packet leaves in every whole millisecond of `times`, late or not: when signals come.
    fn signals(cobalt: &mut Cobalt, times: std::ops::Range<u64>, late: bool, ecn: bool) -> Vec<u64> {
        let waited = Span::from_millis(if late { 6 } else { 1 });
        let expected = if ecn { Signal::Mark } else { Signal::Drop };
        times
            .filter(|&at| {
                let signal = cobalt.judge((millis(at), waited), ecn, &BOUNDS, &mut dice());
                assert!(signal == Signal::None || signal == expected);
                signal != Signal::None
            })
            .collect()
    }

    /// By hand: late from 10 ms on, so the first signal at 110; then 100 / sqrt(k) apart for k = 2, 3, 4, 5: 180.71,
    /// 238.45, 288.45, 333.17 ms, each with the first packet from then on. These are the spacings of CoDel (RFC 8289,
    /// section 5.4), of which CoDel itself has one of 100 ms more between its first two.
    #[test]
    fn signals_follow_the_square_root() {
        for ecn in [false, true] {
            let mut cobalt = Cobalt::default();
            assert_eq!(signals(&mut cobalt, 0..10, false, ecn), []);
            assert_eq!(signals(&mut cobalt, 10..340, true, ecn), [110, 181, 239, 289, 334]);
        }
    }

    /// Below the target, or with no more than four packets of full size before it, there is no signal: as CoDel has it.
    #[test]
    fn no_signal_without_a_standing_queue() {
        let mut cobalt = Cobalt::default();
        assert_eq!(signals(&mut cobalt, 0..2000, false, false), []);
        let slow = Bounds { grace: Span::from_millis(50), ..BOUNDS };
        for at in 2000..4000 {
            let packet = (millis(at), Span::from_millis(50));
            assert_eq!(cobalt.judge(packet, false, &slow, &mut dice()), Signal::None);
        }
        // A late packet now and then does not make a standing queue either.
        for at in 4000..5000 {
            let packet = (millis(at), Span::from_millis(if at % 50 == 0 { 60 } else { 1 }));
            assert_eq!(cobalt.judge(packet, false, &BOUNDS, &mut dice()), Signal::None);
        }
    }

    /// Signals that are no longer needed fade one by one, 100 / sqrt(k) ms before the one that leaves k.
    #[test]
    fn what_it_knows_fades() {
        let mut cobalt = Cobalt::default();
        signals(&mut cobalt, 0..10, false, false);
        assert_eq!(signals(&mut cobalt, 10..290, true, false), [110, 181, 239, 289]);
        assert_eq!(cobalt.count, 5);
        // The next would have been at 288.45 + 44.72 = 333.17 ms. Then: 4 are left, the next goes 50 ms later.
        signals(&mut cobalt, 290..335, false, false);
        assert_eq!(cobalt.count, 4);
        signals(&mut cobalt, 335..900, false, false);
        assert_eq!(cobalt.count, 0);
        assert_eq!(signals(&mut cobalt, 900..1010, true, false), [1000]);
    }

    /// By hand: an overflow adds 1/256, at most once in 5 ms; an empty queue takes 1/4096, as seldom.
    #[test]
    fn blue_rises_with_overflows_and_falls_when_idle() {
        let mut cobalt = Cobalt::default();
        let share = |cobalt: &Cobalt| f64::from(cobalt.probability) / 2f64.powi(32) * 4096.0;
        for at in [0, 1, 5, 6, 12] {
            cobalt.overflow(millis(at), &BOUNDS);
        }
        assert_eq!(share(&cobalt), 48.0, "at 0, 6 and 12 ms");
        assert!(!cobalt.is_at_rest(millis(500)));
        for at in 13..1000 {
            cobalt.empty(millis(at), &BOUNDS);
        }
        assert!(cobalt.probability == 0, "48 steps of 6 ms have passed");
        assert!(cobalt.is_at_rest(millis(1000)));
        // Then nothing is left to take away.
        cobalt.empty(millis(2000), &BOUNDS);
        assert_eq!(cobalt.probability, 0);
    }

    /// With a probability of 48/4096 BLUE drops 117 of 10,000 packets on average, ECN-capable or not, and not those
    /// alone that are late.
    #[test]
    fn blue_drops_by_chance() {
        let (mut cobalt, mut dice, mut drops) = (Cobalt::default(), dice(), 0);
        for at in [0, 6, 12] {
            cobalt.overflow(millis(at), &BOUNDS);
        }
        for at in 20..10_020 {
            let signal = cobalt.judge((millis(at), Span::ZERO), true, &BOUNDS, &mut dice);
            drops += u32::from(signal == Signal::Drop);
        }
        // Four standard deviations of 10.8.
        assert!((74..=160).contains(&drops), "{drops}");
    }
}
