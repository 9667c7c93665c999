//! `fq-pie`.

use lasthop_net::plan::{Discipline, FqPie, QueuePlan};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::Kind;
use super::super::reader::Reader;
use super::fq_codel::TurnKeys;
use super::{LinkFacts, pie};

pub(super) const NAME: &str = "fq-pie";
pub(super) const BARE: bool = true;

table! {
    /// Gives every flow its own queue under PIE, served by deficit round robin, as in Linux.
    pub(super) static TABLE = "FQ-PIE queue";
    struct Keys {
        /// Maximum number of packets in all queues together; beyond it, the packet that arrives is lost.
        limit: u64 = Kind::Integer { min: 1, max: 10_000_000 }, default("10_240");
        ..turns: TurnKeys;
        ..control: pie::Control;
    }
}

pub(super) fn read(queue: &Reader<'_>, link: &LinkFacts) -> Result<QueuePlan, ScenarioError> {
    let keys = Keys::read(queue)?;
    let turns = keys.turns.plan(keys.limit);
    let discipline = Discipline::FqPie(FqPie { pie: keys.control.plan(link), turns });
    Ok(QueuePlan { discipline, ..QueuePlan::default() })
}
