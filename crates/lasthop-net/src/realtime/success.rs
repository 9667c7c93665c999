//! The x % Application Success Percentage of Tsaoussidis and Zhang (2002): the share of time slots in which a flow got
//! at least x % of its target rate.

use lasthop_core::time::{Span, Time};

use super::plan::RealtimePlan;
use crate::measure::Window;

/// Goodput in slots. Deliveries come in the order of time, so only the present slot is kept.
#[derive(Clone, Debug)]
pub struct Slots {
    /// For each x: how many finished slots reached it.
    reached: Vec<(u32, u64)>,
    /// Target in bits per second; without one there are no slots.
    target: u64,
    length: Span,
    window: Window,
    /// The application has started.
    begun: bool,
    /// Number of the present slot, and the bytes that it has got.
    current: u64,
    bytes: u64,
}

impl Slots {
    /// Slots within `window`, which start with the application.
    pub fn new(plan: &RealtimePlan, window: Window) -> Slots {
        Slots {
            reached: plan.success.iter().map(|&percent| (percent, 0)).collect(),
            target: plan.target.map_or(0, |target| target.0),
            length: plan.slot,
            window,
            begun: false,
            current: 0,
            bytes: 0,
        }
    }

    /// The application starts: so does the first slot, unless the window opens later.
    pub fn begin(&mut self, now: Time) {
        self.begun = true;
        self.window.from = self.window.from.max(now);
    }

    /// `bytes` reached the application.
    pub fn deliver(&mut self, now: Time, bytes: u64) {
        if self.target == 0 || !self.window.contains(now) {
            return;
        }
        let slot = now.since(self.window.from).0 / self.length.0;
        if slot != self.current {
            for (percent, count) in &mut self.reached {
                *count += u64::from(suffices(self.bytes, *percent, self.target, self.length));
            }
            // Slots in between got nothing.
            self.current = slot;
            self.bytes = 0;
        }
        self.bytes += bytes;
    }

    /// For each x the percentage of full slots that reached it; `None` without a target or a full slot, as where the
    /// application never started.
    pub fn percentages(&self) -> Vec<(u32, Option<f64>)> {
        let slots = if self.begun { self.window.length().0 / self.length.0 } else { 0 };
        let is_full = self.current < slots;
        let percentage = |&(percent, count): &(u32, u64)| {
            let last = is_full && suffices(self.bytes, percent, self.target, self.length);
            let count = count + u64::from(last);
            let share = (slots > 0 && self.target > 0).then(|| 100.0 * count as f64 / slots as f64);
            (percent, share)
        };
        self.reached.iter().map(percentage).collect()
    }
}

/// Whether `bytes` in `length` are at least `percent` of `target` bit/s.
fn suffices(bytes: u64, percent: u32, target: u64, length: Span) -> bool {
    const NANOS: u128 = 1_000_000_000;
    u128::from(bytes) * 8 * 100 * NANOS >= u128::from(percent) * u128::from(target) * u128::from(length.0)
}

#[cfg(test)]
mod tests {
    use lasthop_core::units::Rate;

    use super::super::plan::{ArrivalPoint, DelayedOver, Duplicates, Missing, SentCount};
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn slots(target: Option<u64>, from_ms: u64, to_ms: u64) -> Slots {
        let plan = RealtimePlan {
            threshold: Span::from_millis(100),
            missing: Missing::NextLower,
            arrival: ArrivalPoint::Transport,
            duplicates: Duplicates::Ignored,
            sent: SentCount::Transmitted,
            delayed_over: DelayedOver::Sent,
            success: vec![50, 75, 90, 100],
            target: target.map(Rate),
            slot: Span::from_secs(1),
            playout: Span::from_secs(1),
            rebuffer: Span::from_millis(500),
        };
        Slots::new(&plan, Window { from: at(from_ms), to: at(to_ms) })
    }

    fn percentages(slots: &Slots) -> Vec<Option<f64>> {
        slots
            .percentages()
            .into_iter()
            .map(|(_, share)| share.map(|share| (share * 10.0).round() / 10.0))
            .collect()
    }

    /// NV-8.6: a target of 100 kbit/s and slots of 120, 90 and 40 kbit/s.
    #[test]
    fn slots_against_a_target() {
        let mut slots = slots(Some(100_000), 0, 3000);
        slots.begin(at(0));
        for (millis, bytes) in [(0, 7_500), (999, 7_500), (1000, 11_250), (2500, 5_000)] {
            slots.deliver(at(millis), bytes);
        }
        assert_eq!(percentages(&slots), [Some(66.7), Some(66.7), Some(66.7), Some(33.3)]);
    }

    #[test]
    fn slots_start_with_the_application_and_only_full_ones_count() {
        let mut slots = slots(Some(8_000), 0, 3700);
        slots.begin(at(500));
        // Slots end at 1.5, 2.5 and 3.5 s; the second is silent, and what comes after the third is no slot.
        for (millis, bytes) in [(600, 1000), (2600, 500), (2700, 400), (3600, 9000)] {
            slots.deliver(at(millis), bytes);
        }
        assert_eq!(percentages(&slots), [Some(66.7), Some(66.7), Some(66.7), Some(33.3)]);
    }

    #[test]
    fn what_lies_outside_the_window_does_not_count() {
        let mut slots = slots(Some(8_000), 2000, 4000);
        slots.begin(at(0));
        for millis in [100, 1999, 3000, 4000] {
            slots.deliver(at(millis), 1000);
        }
        assert_eq!(percentages(&slots)[3], Some(50.0));
    }

    #[test]
    fn without_a_target_or_a_full_slot_there_is_no_figure() {
        let mut aimless = slots(None, 0, 3000);
        aimless.begin(at(0));
        aimless.deliver(at(10), 1000);
        assert_eq!(percentages(&aimless), [None; 4]);
        let mut short = slots(Some(1000), 0, 900);
        short.begin(at(0));
        assert_eq!(percentages(&short), [None; 4]);
    }

    #[test]
    fn an_application_that_never_started_failed_nothing() {
        assert_eq!(percentages(&slots(Some(1000), 0, 3000)), [None; 4]);
    }
}
