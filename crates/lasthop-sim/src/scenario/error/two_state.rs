//! `two-state`: good and bad times.

use lasthop_core::time::Span;
use lasthop_net::plan::{ErrorModel, TwoState};

use super::super::declare::{keys, table};
use super::super::diagnostic::ScenarioError;
use super::super::keys::Kind;
use super::super::reader::Reader;
use super::{A_STATE, Count, Judged};

pub(super) const NAME: &str = "two-state";
pub(super) const BARE: bool = false;

table! {
    /// The channel alternates between good and bad times of exponential length. A packet that is in the air during a
    /// bad time, even in part, is lost.
    pub(super) static TABLE = "two-state error model";
    struct Keys {
        /// Share of the time that is bad; in place of good.
        packet_error_rate: Option<f64> = Kind::Probability;
        /// Mean length of a good time; in place of packet_error_rate.
        good: Option<Span> = A_STATE;
        /// Mean length of a bad one.
        bad: Span = A_STATE, default("\"50 ms\"");
        ..first: First;
        ..judged: Judged;
    }
}

keys! {
    /// How a model with two states begins.
    pub(super) struct First {
        /// The first state: drawn in proportion to the mean lengths, or good, as in ns-2.
        begin: &'static str = Kind::Choice(|| vec!["stationary", "good"]), default("\"stationary\"");
    }
}

impl First {
    /// Whether it is drawn.
    pub(super) fn is_stationary(&self) -> bool {
        self.begin == "stationary"
    }
}

pub(super) fn read(model: &Reader<'_>, _: Count<'_>) -> Result<(ErrorModel, Judged), ScenarioError> {
    let Keys { packet_error_rate, good, bad, first, judged } = Keys::read(model)?;
    let good = match (packet_error_rate, good) {
        (None, Some(good)) => good,
        (Some(rate), None) if rate > 0.0 && rate < 1.0 => {
            Span::from_seconds(bad.seconds() * (1.0 - rate) / rate)
        }
        (Some(rate), None) => {
            let message = format!("a packet_error_rate of {rate} has no good and bad times");
            let remedy = "write one between 0 and 1, or use bernoulli";
            return Err(model.error("packet_error_rate", message, remedy));
        }
        (Some(_), Some(_)) => {
            let message = "good and packet_error_rate exclude each other".to_owned();
            return Err(model.error("good", message, "keep one of them"));
        }
        (None, None) => {
            let message = "missing key \"good\" or \"packet_error_rate\" in two-state error model".to_owned();
            let remedy = "add packet_error_rate = 0.05, or good = \"1 s\"";
            return Err(model.source.error(model.place, message, remedy));
        }
    };
    Ok((ErrorModel::TwoState(TwoState { good, bad, stationary: first.is_stationary() }), judged))
}
