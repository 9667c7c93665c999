//! `codel`, and the keys of CoDel that `fq-codel` has too.

use lasthop_core::time::Span;
use lasthop_net::plan::{CeThreshold, CoDel, Discipline, QueueLimit, QueuePlan};

use super::super::declare::{keys, table};
use super::super::diagnostic::ScenarioError;
use super::super::keys::{Kind, SOME_TIME};
use super::super::reader::Reader;
use super::LinkFacts;

pub(super) const NAME: &str = "codel";
pub(super) const BARE: bool = true;

table! {
    /// Keeps the delay of the queue low by dropping or marking at its head (RFC 8289).
    pub(super) static TABLE = "CoDel queue";
    struct Keys {
        /// Maximum number of packets or bytes in the queue, counting the packet in service.
        limit: QueueLimit = Kind::Room, default("\"1000 packets\"");
        ..control: Control;
    }
}

keys! {
    /// What CoDel has, alone or for each flow.
    pub(super) struct Control {
        /// Target: the standing delay that is acceptable.
        target: Span = SOME_TIME, default("\"5 ms\"");
        /// A delay that lasts this long is a standing queue: about the largest usual RTT.
        interval: Span = SOME_TIME, default("\"100 ms\"");
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool = Kind::Switch, default("true");
        /// Mark every ECN-capable packet that has waited longer than this; 1 ms is usual for L4S. Default: none.
        ce_threshold: Option<Span> = SOME_TIME;
        /// Which packets ce_threshold marks. all: every ECN-capable one. ect1: those that carry ECT(1).
        ce_threshold_for: &'static str = Kind::Choice(|| vec!["all", "ect1"]), default("\"all\"");
    }
}

impl Control {
    /// The plan, on a link like this.
    pub(super) fn plan(&self, queue: &Reader<'_>, link: &LinkFacts) -> Result<CoDel, ScenarioError> {
        let (target, interval) = (self.target, self.interval);
        if target >= interval {
            let message = format!("a target of {target} is not below the interval of {interval}");
            return Err(queue.error("target", message, "a twentieth of interval is usual"));
        }
        if self.ce_threshold.is_none() && queue.has("ce_threshold_for") {
            let message = "ce_threshold_for says which packets, but there is no ce_threshold".to_owned();
            let remedy = "add ce_threshold = \"1 ms\", or leave it out";
            return Err(queue.error("ce_threshold_for", message, remedy));
        }
        let scalable_only = self.ce_threshold_for == "ect1";
        let threshold = self.ce_threshold.map(|delay| CeThreshold { delay, scalable_only });
        Ok(CoDel { target, interval, mtu: link.mtu as u32, ecn: self.ecn, threshold })
    }
}

pub(super) fn read(queue: &Reader<'_>, link: &LinkFacts) -> Result<QueuePlan, ScenarioError> {
    let keys = Keys::read(queue)?;
    let discipline = Discipline::CoDel(keys.control.plan(queue, link)?);
    Ok(QueuePlan { limit: link.with_room(queue, keys.limit)?, discipline, ..QueuePlan::default() })
}
