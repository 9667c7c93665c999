//! What losses really were, and what their senders took them for: kept beside the network, which alone knows. A sender
//! says what it believes, and is told only if its law is a yardstick that asks for it (the oracle of `lda`).

use std::collections::HashMap;

use lasthop_cc::LossKind;
use lasthop_core::packet::Cause;
use lasthop_core::time::Time;

/// How often a sender took a loss for what, and what it was: the confusion matrix of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// `counts[truth][belief]`: rows congestion, wireless, nothing lost; columns congestion, wireless.
    pub counts: [[u64; 2]; 3],
}

/// The losses of one flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truths {
    /// When a segment was lost and what that was, ascending in time, by the first byte of the segment. Links tell ahead
    /// of the clock.
    lost: HashMap<u64, Vec<(Time, LossKind)>>,
    verdicts: Verdicts,
}

impl Truths {
    /// The segment at `seq` is lost at `at`, which may lie ahead.
    pub(crate) fn lose(&mut self, seq: u64, cause: Cause, at: Time) {
        let kind = match cause {
            Cause::QueueOverflow | Cause::EarlyDrop | Cause::Policed => LossKind::Congestion,
            Cause::ChannelError | Cause::Outage | Cause::LinkGaveUp | Cause::RouteChanged => {
                LossKind::Wireless
            }
            // The other end has it, or will get it.
            Cause::Withheld => return,
        };
        let losses = self.lost.entry(seq).or_default();
        let place = losses.partition_point(|&(earlier, _)| earlier <= at);
        losses.insert(place, (at, kind));
    }

    /// The sender takes the loss of the segment at `seq` for `belief`, now.
    pub(crate) fn judge(&mut self, seq: u64, belief: LossKind, now: Time) {
        let column = |kind| usize::from(kind == LossKind::Wireless);
        let row = self.of(seq, now).map_or(2, column);
        self.verdicts.counts[row][column(belief)] += 1;
    }

    /// What the last loss of the segment at `seq` was by now.
    pub(crate) fn of(&self, seq: u64, now: Time) -> Option<LossKind> {
        let losses = self.lost.get(&seq)?;
        losses.iter().rev().find(|&&(at, _)| at <= now).map(|&(_, kind)| kind)
    }

    /// How often it was right.
    pub(crate) fn verdicts(&self) -> Verdicts {
        self.verdicts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment that was lost twice counts for its last loss, and one that never was has a row of its own.
    #[test]
    fn beliefs_are_held_against_the_last_loss() {
        let mut truths = Truths::default();
        truths.lose(1, Cause::QueueOverflow, Time(10));
        truths.judge(1, LossKind::Wireless, Time(20));
        truths.lose(1, Cause::Outage, Time(30));
        truths.judge(1, LossKind::Wireless, Time(40));
        truths.judge(1001, LossKind::Congestion, Time(40));
        assert_eq!(truths.verdicts().counts, [[0, 1], [0, 1], [1, 0]]);
    }

    /// A loss that lies ahead has not happened yet.
    #[test]
    fn only_losses_that_have_happened_count() {
        let mut truths = Truths::default();
        truths.lose(1, Cause::Outage, Time(50));
        truths.judge(1, LossKind::Congestion, Time(40));
        truths.lose(1, Cause::QueueOverflow, Time(45));
        truths.judge(1, LossKind::Congestion, Time(48));
        assert_eq!(truths.verdicts().counts, [[1, 0], [0, 0], [1, 0]]);
    }
}
