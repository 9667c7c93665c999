//! `fq-codel`, and how the queues of a scheduler take turns.

use lasthop_net::plan::{Discipline, FqCoDel, QueuePlan, Turns};

use super::super::declare::{keys, table};
use super::super::diagnostic::ScenarioError;
use super::super::keys::{Kind, PACKET, TRANSFER};
use super::super::reader::Reader;
use super::{LinkFacts, codel};

pub(super) const NAME: &str = "fq-codel";
pub(super) const BARE: bool = true;

table! {
    /// Gives every flow its own queue under CoDel, served by deficit round robin (RFC 8290).
    pub(super) static TABLE = "FQ-CoDel queue";
    struct Keys {
        /// Maximum number of packets in all queues together; beyond it, the longest queue drops half of its bytes, but
        /// at most 64 packets.
        limit: u64 = Kind::Integer { min: 1, max: 10_000_000 }, default("10_240");
        ..turns: TurnKeys;
        ..control: codel::Control;
    }
}

keys! {
    /// How the queues of a scheduler take turns.
    pub(super) struct TurnKeys {
        /// Maximum number of bytes in all queues together.
        memory: u64 = TRANSFER, default("\"32 MB\"");
        /// Number of queues. A hash of the name of the flow, which differs from seed to seed, chooses one.
        queues: u32 = Kind::Integer { min: 1, max: 65_536 }, default("1024");
        /// Bytes that each queue may send in a round.
        quantum: u32 = PACKET, default("\"1514 B\"");
    }
}

impl TurnKeys {
    /// Turns of queues that hold at most `limit` packets together.
    pub(super) fn plan(&self, limit: u64) -> Turns {
        Turns { queues: self.queues, quantum: self.quantum, limit, memory: self.memory }
    }
}

pub(super) fn read(queue: &Reader<'_>, link: &LinkFacts) -> Result<QueuePlan, ScenarioError> {
    let keys = Keys::read(queue)?;
    let codel = keys.control.plan(queue, link)?;
    let discipline = Discipline::FqCoDel(FqCoDel { codel, turns: keys.turns.plan(keys.limit) });
    Ok(QueuePlan { discipline, ..QueuePlan::default() })
}
