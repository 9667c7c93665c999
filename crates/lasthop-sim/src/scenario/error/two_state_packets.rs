//! `two-state-packets`: good and bad lengths in packets.

use lasthop_net::plan::{ErrorModel, TwoStatePackets};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::Kind;
use super::super::reader::Reader;
use super::two_state::First;
use super::{Count, Judged};

pub(super) const NAME: &str = "two-state-packets";
pub(super) const BARE: bool = false;

const LENGTH: Kind = Kind::Number { min: 0.001, max: 1e9 };

table! {
    /// As two-state, with lengths in packets: ns-2's ErrorModel/Expo. A packet that a bad length touches is lost, so
    /// the share of lost packets is about (bad + 1) / (good + bad).
    pub(super) static TABLE = "two-state error model in packets";
    struct Keys {
        /// Mean length of a good state in packets.
        good: f64 = LENGTH, required_or("add good = 99");
        /// Mean length of a bad one.
        bad: f64 = LENGTH, required_or("add bad = 1");
        ..first: First;
        ..judged: Judged;
    }
}

pub(super) fn read(model: &Reader<'_>, _: Count<'_>) -> Result<(ErrorModel, Judged), ScenarioError> {
    let Keys { good, bad, first, judged } = Keys::read(model)?;
    let plan = TwoStatePackets { good, bad, stationary: first.is_stationary() };
    Ok((ErrorModel::TwoStatePackets(plan), judged))
}
