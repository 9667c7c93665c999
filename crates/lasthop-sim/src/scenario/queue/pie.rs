//! `pie`, and the keys of PIE that `fq-pie` has too.

use lasthop_core::time::Span;
use lasthop_net::plan::{Discipline, Pie, QueueLimit, QueuePlan};

use super::super::declare::{keys, table};
use super::super::diagnostic::ScenarioError;
use super::super::keys::{ANY_TIME, Kind, LONGEST, SOME_TIME};
use super::super::reader::Reader;
use super::LinkFacts;

pub(super) const NAME: &str = "pie";
pub(super) const BARE: bool = true;

table! {
    /// Keeps the delay of the queue near a target by dropping or marking arriving packets with a probability that a
    /// controller sets (RFC 8033).
    pub(super) static TABLE = "PIE queue";
    struct Keys {
        /// Maximum number of packets or bytes in the queue, counting the packet in service.
        limit: QueueLimit = Kind::Room, default("\"1000 packets\"");
        ..control: Control;
    }
}

keys! {
    /// What PIE has, alone or for each flow.
    pub(super) struct Control {
        /// Target delay.
        target: Span = SOME_TIME, default("\"15 ms\"");
        /// Time between two updates of the probability.
        update: Span = Kind::Duration { min: Span::from_nanos(10_000), max: LONGEST }, default("\"15 ms\"");
        /// Time for which a burst may fill the queue before anything is dropped.
        burst: Span = ANY_TIME, default("\"150 ms\"");
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = Kind::Switch, default("true");
        /// Packets are marked while the probability is below this, and dropped beyond.
        mark_p: f64 = Kind::Probability, default("0.1");
    }
}

impl Control {
    /// The plan, on a link like this.
    pub(super) fn plan(&self, link: &LinkFacts) -> Pie {
        let Control { target, update, burst, ecn, mark_p } = *self;
        Pie { target, update, burst, mtu: link.mtu as u32, ecn, mark_below: mark_p }
    }
}

pub(super) fn read(queue: &Reader<'_>, link: &LinkFacts) -> Result<QueuePlan, ScenarioError> {
    let keys = Keys::read(queue)?;
    let discipline = Discipline::Pie(keys.control.plan(link));
    Ok(QueuePlan { limit: link.with_room(queue, keys.limit)?, discipline, ..QueuePlan::default() })
}
