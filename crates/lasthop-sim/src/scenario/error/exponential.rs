//! `exponential`: one reading of "exponential losses" in papers.

use lasthop_net::plan::{Bernoulli, ErrorModel};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::Kind;
use super::super::reader::Reader;
use super::{Count, Judged};

pub(super) const NAME: &str = "exponential";
pub(super) const BARE: bool = false;

table! {
    /// Each packet is lost independently if an exponential draw of mean 1 is below the rate: with 1 - exp(-rate). One
    /// of three readings of "exponential losses" in papers with ns-2; the others come in bursts, two-state and
    /// two-state-packets.
    pub(super) static TABLE = "exponential error model";
    struct Keys {
        /// The rate.
        rate: f64 = Kind::Number { min: 0.0, max: 1e3 }, required();
        ..judged: Judged;
    }
}

pub(super) fn read(model: &Reader<'_>, _: Count<'_>) -> Result<(ErrorModel, Judged), ScenarioError> {
    let Keys { rate, judged } = Keys::read(model)?;
    Ok((ErrorModel::Bernoulli(Bernoulli::of_exponential(rate)), judged))
}
