//! `gilbert-elliott`: a chain of two states, packet by packet.

use lasthop_net::plan::{ErrorModel, GilbertElliott};

use super::super::declare::{keys, table};
use super::super::diagnostic::ScenarioError;
use super::super::keys::Kind;
use super::super::reader::Reader;
use super::{Count, Judged};

pub(super) const NAME: &str = "gilbert-elliott";
pub(super) const BARE: bool = false;

table! {
    /// A good and a bad state, with a transition after each packet. Give to_bad and to_good, or packet_error_rate and
    /// mean_burst for a channel that loses every packet in the bad state and none in the good one.
    pub(super) static TABLE = "Gilbert-Elliott error model";
    struct Keys {
        /// Probability that a good state is followed by a bad one.
        to_bad: Option<f64> = Kind::Probability;
        /// Probability that a bad state is followed by a good one.
        to_good: Option<f64> = Kind::Probability;
        /// Share of lost packets; with mean_burst.
        packet_error_rate: Option<f64> = Kind::Probability;
        /// Mean number of packets lost in a row; with packet_error_rate.
        mean_burst: Option<f64> = Kind::Number { min: 1.0, max: 1e9 };
        ..losses: Losses;
        ..judged: Judged;
    }
}

keys! {
    /// Loss in either state.
    pub(super) struct Losses {
        /// Probability of a loss in the good state. Default: 0.
        loss_good: Option<f64> = Kind::Probability;
        /// Probability of a loss in the bad state. Default: 1.
        loss_bad: Option<f64> = Kind::Probability;
    }
}

impl Losses {
    /// In the good and in the bad state.
    pub(super) fn plan(&self) -> [f64; 2] {
        [self.loss_good.unwrap_or(0.0), self.loss_bad.unwrap_or(1.0)]
    }
}

pub(super) fn read(model: &Reader<'_>, _: Count<'_>) -> Result<(ErrorModel, Judged), ScenarioError> {
    let keys = Keys::read(model)?;
    Ok((ErrorModel::GilbertElliott(plan(model, &keys)?), keys.judged))
}

fn plan(model: &Reader<'_>, keys: &Keys) -> Result<GilbertElliott, ScenarioError> {
    let fitted = ["packet_error_rate", "mean_burst"].into_iter().find(|key| model.has(key));
    let given = ["to_bad", "to_good", "loss_good", "loss_bad"].into_iter().find(|key| model.has(key));
    let missing = |key: &str| model.missing(model.table.key(key));
    match (fitted, given) {
        (None, _) => {
            let to_bad = keys.to_bad.ok_or_else(|| missing("to_bad"))?;
            let to_good = keys.to_good.ok_or_else(|| missing("to_good"))?;
            if to_bad + to_good == 0.0 {
                let message = "a channel that never changes its state has no share of either".to_owned();
                return Err(model.error("to_bad", message, "write more than 0, or use bernoulli"));
            }
            return Ok(GilbertElliott { to_bad, to_good, loss: keys.losses.plan() });
        }
        (Some(fitted), Some(given)) => {
            let message = format!("{given} and {fitted} exclude each other");
            let remedy = "packet_error_rate and mean_burst say all of it; or write to_bad and to_good";
            return Err(model.error(given, message, remedy));
        }
        (Some(_), None) => {}
    }
    let rate = keys.packet_error_rate.ok_or_else(|| missing("packet_error_rate"))?;
    let burst = keys.mean_burst.ok_or_else(|| missing("mean_burst"))?;
    let to_good = 1.0 / burst;
    let to_bad = rate * to_good / (1.0 - rate);
    if rate >= 1.0 || to_bad > 1.0 {
        let message = format!("bursts of {burst} packets cannot make {rate} of all packets");
        let remedy = "raise mean_burst, or lower packet_error_rate";
        return Err(model.error("packet_error_rate", message, remedy));
    }
    Ok(GilbertElliott { to_bad, to_good, loss: [0.0, 1.0] })
}
