//! `dual-pi2`.

use lasthop_core::time::Span;
use lasthop_net::plan::{Discipline, DualPi2, QueueLimit, QueuePlan};

use super::super::declare::{keys, table};
use super::super::diagnostic::ScenarioError;
use super::super::keys::{ANY_TIME, Kind, LONGEST, SOME_TIME};
use super::super::reader::Reader;
use super::LinkFacts;

pub(super) const NAME: &str = "dual-pi2";
pub(super) const BARE: bool = true;

keys! {
    /// The law of both queues.
    struct Law {
        /// Target delay of the classic queue.
        target: Span = SOME_TIME, default("\"15 ms\"");
        /// Time between two updates of the probability.
        update: Span = Kind::Duration { min: Span::from_nanos(10_000), max: LONGEST }, default("\"16 ms\"");
        /// What an update adds to the probability for each second above the target.
        alpha: f64 = Kind::Number { min: 0.0001, max: 100.0 }, default("0.16");
        /// What an update adds to the probability for each second by which the delay has risen.
        beta: f64 = Kind::Number { min: 0.0001, max: 1000.0 }, default("3.2");
        /// k of RFC 9332: the short queue is marked with k times the probability whose square drops from the classic
        /// one.
        coupling: f64 = Kind::Number { min: 1.0, max: 16.0 }, default("2");
    }
}

keys! {
    /// What is the short queue's, and what is left to the other.
    struct Ramps {
        /// Delay of the short queue at which marking by its own delay begins.
        ramp_from: Span = ANY_TIME, default("\"0.8 ms\"");
        /// Delay above ramp_from at which every packet of the short queue is marked.
        ramp: Span = SOME_TIME, default("\"0.4 ms\"");
        /// Share of the link for the classic queue while both have packets.
        classic_share: f64 = Kind::Number { min: 0.001, max: 0.5 }, default("0.0625");
    }
}

table! {
    /// Two queues with coupled marks and drops: a short one for ECT(1), and one for all other packets (RFC 9332).
    pub(super) static TABLE = "DualPI2 queue";
    struct Keys {
        /// Maximum number of packets or bytes in both queues, counting the packet in service.
        limit: QueueLimit = Kind::Room, default("\"10000 packets\"");
        ..law: Law;
        ..ramps: Ramps;
    }
}

pub(super) fn read(queue: &Reader<'_>, link: &LinkFacts) -> Result<QueuePlan, ScenarioError> {
    let keys = Keys::read(queue)?;
    let limit = link.with_room(queue, keys.limit)?;
    let Law { target, update, alpha, beta, coupling } = keys.law;
    let Ramps { ramp_from, ramp, classic_share } = keys.ramps;
    let mtu = link.mtu as u32;
    let plan = DualPi2 { target, update, alpha, beta, coupling, ramp_from, ramp, classic_share, mtu };
    Ok(QueuePlan { limit, discipline: Discipline::DualPi2(plan), ..QueuePlan::default() })
}
