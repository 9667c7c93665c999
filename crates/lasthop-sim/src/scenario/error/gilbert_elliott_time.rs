//! `gilbert-elliott-time`: a chain of two states, in time.

use lasthop_core::time::Span;
use lasthop_net::plan::{ErrorModel, GilbertElliottTime, StateErrors};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::Kind;
use super::super::reader::Reader;
use super::gilbert_elliott::Losses;
use super::{A_STATE, Count, Judged};

pub(super) const NAME: &str = "gilbert-elliott-time";
pub(super) const BARE: bool = false;

table! {
    /// A good and a bad state for times of exponential length. The state at the start of its transmission decides on a
    /// packet; with bit error rates, the states during its transmission.
    pub(super) static TABLE = "Gilbert-Elliott error model in time";
    struct Keys {
        /// Mean length of a good time.
        good: Span = A_STATE, required_or("add good = \"1 s\"");
        /// Mean length of a bad one.
        bad: Span = A_STATE, required_or("add bad = \"50 ms\"");
        /// Probability that a bit sent in the good state is wrong; in place of loss_good and loss_bad.
        bit_error_rate_good: Option<f64> = Kind::Probability;
        /// The same in the bad state; both bit error rates go together.
        bit_error_rate_bad: Option<f64> = Kind::Probability;
        ..losses: Losses;
        ..judged: Judged;
    }
}

pub(super) fn read(model: &Reader<'_>, _: Count<'_>) -> Result<(ErrorModel, Judged), ScenarioError> {
    let keys = Keys::read(model)?;
    let errors = errors(model, &keys)?;
    let plan = GilbertElliottTime { good: keys.good, bad: keys.bad, errors };
    Ok((ErrorModel::GilbertElliottTime(plan), keys.judged))
}

fn errors(model: &Reader<'_>, keys: &Keys) -> Result<StateErrors, ScenarioError> {
    let given = ["loss_good", "loss_bad"].into_iter().find(|key| model.has(key));
    match (keys.bit_error_rate_good, keys.bit_error_rate_bad, given) {
        (None, None, _) => Ok(StateErrors::PerFrame(keys.losses.plan())),
        (Some(good), Some(bad), None) => Ok(StateErrors::PerBit([good, bad])),
        (_, _, Some(key)) => {
            let message = format!("{key} and bit error rates exclude each other");
            Err(model.error(key, message, "keep one of them"))
        }
        (good, _, None) => {
            let missing = if good.is_none() { "bit_error_rate_good" } else { "bit_error_rate_bad" };
            Err(model.missing(model.table.key(missing)))
        }
    }
}
