//! The rules of a cell with the times that follow from them, computed once: stations ask for them at every frame.

use lasthop_core::time::Span;

use super::plan::MacPlan;

/// What answers a frame at some rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerTimes {
    /// The rate of the answer.
    pub(super) rate: usize,
    /// An acknowledgement.
    pub(super) ack: Span,
    /// A CTS.
    pub(super) cts: Span,
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
}

impl Rules {
    pub(super) fn new(plan: &MacPlan) -> Rules {
        let answers = (0..plan.phy.rates.len()).map(|rate| {
            let rate = plan.answer_rate(rate);
            AnswerTimes {
                rate,
                ack: plan.airtime(plan.ack_bytes, rate),
                cts: plan.airtime(plan.cts_bytes, rate),
            }
        });
        Rules {
            slot: plan.slot,
            sifs: plan.sifs,
            difs: plan.difs(),
            eifs: plan.eifs(),
            answers: answers.collect(),
            plan: plan.clone(),
        }
    }

    /// What answers a frame at `rate`.
    pub(super) fn answer(&self, rate: usize) -> AnswerTimes {
        self.answers[rate]
    }
}
