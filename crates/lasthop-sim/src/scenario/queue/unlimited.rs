//! `unlimited`: first in, first out, without a limit.

use lasthop_net::plan::QueuePlan;

use super::super::diagnostic::ScenarioError;
use super::super::keys::Table;
use super::super::reader::Reader;
use super::LinkFacts;

pub(super) const NAME: &str = "unlimited";
pub(super) const BARE: bool = true;

pub(super) static TABLE: Table =
    Table { title: "unlimited queue", doc: "A queue without limit.", groups: &[], partial: false };

#[expect(clippy::unnecessary_wraps, reason = "as all queues are read")]
pub(super) fn read(_: &Reader<'_>, _: &LinkFacts) -> Result<QueuePlan, ScenarioError> {
    Ok(QueuePlan::default())
}
