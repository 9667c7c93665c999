//! The rules of a cell with the times that follow from them, computed once: stations ask for them at every frame.

use lasthop_core::time::Span;
use lasthop_core::units::Rate;

use super::mode::Mode;
use super::plan::{AggregationPlan, MacPlan};

/// Bytes of a BlockAck with a bitmap of 64 bits, and of 256.
pub(super) const BLOCK_ACK_BYTES: [u32; 2] = [32, 56];

/// Bytes of a CF-End.
pub(super) const END_BYTES: u32 = 20;

/// What answers a frame at some rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerTimes {
    /// The rate of the answer.
    pub(super) rate: usize,
    /// An acknowledgement.
    pub(super) ack: Span,
    /// A CTS.
    pub(super) cts: Span,
    /// A BlockAck, if there are any, by whether its bitmap is long.
    pub(super) block_ack: [Span; 2],
}

/// The rules at work.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) plan: MacPlan,
    pub(super) slot: Span,
    pub(super) sifs: Span,
    pub(super) difs: Span,
    pub(super) eifs: Span,
    /// By the rate of the frame that is answered.
    answers: Vec<AnswerTimes>,
    /// What follows from each mode, by its index.
    pub(super) modes: Vec<ModeTimes>,
}

/// What follows from a mode.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModeTimes {
    /// Index of the non-HT rate that answers follow.
    pub(super) reference: usize,
    /// The most octets of a PSDU without a limit of the transmission opportunity.
    pub(super) octets: u32,
    /// Least octets from one MPDU of an A-MPDU to the next.
    pub(super) spacing: u32,
}

impl Rules {
    pub(super) fn new(plan: &MacPlan) -> Rules {
        let answers = (0..plan.phy.rates.len()).map(|rate| {
            let rate = plan.answer_rate(rate);
            AnswerTimes {
                rate,
                ack: plan.airtime(plan.ack_bytes, rate),
                cts: plan.airtime(plan.cts_bytes, rate),
                block_ack: BLOCK_ACK_BYTES.map(|bytes| plan.airtime(bytes, rate)),
            }
        });
        Rules {
            slot: plan.slot,
            sifs: plan.sifs,
            difs: plan.difs(),
            eifs: plan.eifs(),
            answers: answers.collect(),
            modes: plan.aggregation.as_ref().map_or(Vec::new(), |it| ModeTimes::all(plan, it)),
            plan: plan.clone(),
        }
    }

    /// What answers a frame at `rate`.
    pub(super) fn answer(&self, rate: usize) -> AnswerTimes {
        self.answers[rate]
    }
}

impl ModeTimes {
    /// Of all modes of a cell.
    fn all(plan: &MacPlan, aggregation: &AggregationPlan) -> Vec<ModeTimes> {
        let times = |&mode: &Mode| {
            let reference = Rate(mode.reference() * 1_000_000);
            let within = mode.octets_within(aggregation.longest, &aggregation.habits);
            let spacing = u128::from(mode.rate().0) * u128::from(aggregation.spacing.0);
            ModeTimes {
                reference: plan.phy.rate_index(reference).unwrap_or(0),
                octets: within.min(aggregation.octets),
                spacing: spacing.div_ceil(8_000_000_000) as u32,
            }
        };
        aggregation.modes.iter().map(times).collect()
    }
}
