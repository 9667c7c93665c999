//! What losses really were, and what their senders took them for: kept beside the network, which alone knows. A sender
//! says what it believes, and is told only if its law is a yardstick that asks for it (the oracle of `lda`).

use std::collections::HashMap;

use lasthop_cc::{LossKind, LossSigns};
use lasthop_core::packet::Cause;
use lasthop_core::time::Time;

/// How often a sender took a loss for what, and what it was: the confusion matrix of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Verdicts {
    /// `counts[truth][belief]`: rows congestion, wireless, nothing lost; columns congestion, wireless.
    pub counts: [[u64; 2]; 3],
    /// What the sender's law had counted when it judged, if it counts signs of the causes.
    pub signs: Option<SignsSeen>,
}

impl Verdicts {
    /// Adds what another flow took its losses for.
    pub(crate) fn add(&mut self, other: &Verdicts) {
        let all = self.counts.as_flattened_mut();
        all.iter_mut().zip(other.counts.as_flattened()).for_each(|(all, own)| *all += own);
        if let Some(seen) = other.signs {
            let all = self.signs.get_or_insert_default();
            all.losses += seen.losses;
            all.theta += seen.theta;
            all.least_theta = all.least_theta.min(seen.least_theta);
            all.greatest_theta = all.greatest_theta.max(seen.greatest_theta);
            all.channel += seen.channel;
            all.congestion += seen.congestion;
        }
    }
}

/// What a law that counts signs of the causes of losses (`LossSigns`) had counted when it judged each loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignsSeen {
    /// How many losses it judged.
    pub losses: u64,
    /// Sum over the losses.
    pub theta: f64,
    /// The least theta.
    pub least_theta: f64,
    /// The greatest.
    pub greatest_theta: f64,
    /// Sum over the losses of the smoothed signs of a bad channel.
    pub channel: f64,
    /// Sum over the losses of the smoothed signs of congestion.
    pub congestion: f64,
}

impl Default for SignsSeen {
    fn default() -> Self {
        let (least_theta, greatest_theta) = (f64::INFINITY, f64::NEG_INFINITY);
        SignsSeen { losses: 0, theta: 0.0, least_theta, greatest_theta, channel: 0.0, congestion: 0.0 }
    }
}

impl From<LossSigns> for SignsSeen {
    fn from(signs: LossSigns) -> Self {
        let LossSigns { theta, channel, congestion } = signs;
        SignsSeen { losses: 1, theta, least_theta: theta, greatest_theta: theta, channel, congestion }
    }
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

    /// The sender takes the loss of the segment at `seq` for `belief`, now; `signs` are what its law has counted.
    pub(crate) fn judge(&mut self, seq: u64, belief: LossKind, signs: Option<LossSigns>, now: Time) {
        let column = |kind| usize::from(kind == LossKind::Wireless);
        let row = self.of(seq, now).map_or(2, column);
        let mut one = Verdicts { signs: signs.map(SignsSeen::from), ..Verdicts::default() };
        one.counts[row][column(belief)] = 1;
        self.verdicts.add(&one);
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
        truths.judge(1, LossKind::Wireless, None, Time(20));
        truths.lose(1, Cause::Outage, Time(30));
        truths.judge(1, LossKind::Wireless, None, Time(40));
        truths.judge(1001, LossKind::Congestion, None, Time(40));
        assert_eq!(truths.verdicts().counts, [[0, 1], [0, 1], [1, 0]]);
    }

    /// Mean, least and greatest of what a law had counted are those at its judgements.
    #[test]
    fn signs_are_taken_when_a_loss_is_judged() {
        let mut truths = Truths::default();
        assert_eq!(truths.verdicts().signs, None);
        for (theta, channel, congestion) in [(1.5, 2.0, 1.0), (0.5, 0.0, 1.0)] {
            truths.judge(1, LossKind::Wireless, Some(LossSigns { theta, channel, congestion }), Time(1));
        }
        let both = SignsSeen {
            losses: 2,
            theta: 2.0,
            least_theta: 0.5,
            greatest_theta: 1.5,
            channel: 2.0,
            congestion: 2.0,
        };
        assert_eq!(truths.verdicts().signs, Some(both));
    }

    /// A loss that lies ahead has not happened yet.
    #[test]
    fn only_losses_that_have_happened_count() {
        let mut truths = Truths::default();
        truths.lose(1, Cause::Outage, Time(50));
        truths.judge(1, LossKind::Congestion, None, Time(40));
        truths.lose(1, Cause::QueueOverflow, Time(45));
        truths.judge(1, LossKind::Congestion, None, Time(48));
        assert_eq!(truths.verdicts().counts, [[1, 0], [0, 0], [1, 0]]);
    }
}
