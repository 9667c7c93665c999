//! `bernoulli`: independent losses.

use lasthop_net::plan::{Bernoulli, ErrorModel};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::Kind;
use super::super::reader::Reader;
use super::{Count, Judged};

pub(super) const NAME: &str = "bernoulli";
pub(super) const BARE: bool = false;

table! {
    /// Each packet is lost independently.
    pub(super) static TABLE = "bernoulli error model";
    struct Keys {
        /// Probability of the loss of a packet.
        packet_error_rate: f64 = Kind::Probability, required();
        ..judged: Judged;
    }
}

pub(super) fn read(model: &Reader<'_>, _: Count<'_>) -> Result<(ErrorModel, Judged), ScenarioError> {
    let Keys { packet_error_rate, judged } = Keys::read(model)?;
    Ok((ErrorModel::Bernoulli(Bernoulli { packet_error_rate }), judged))
}
