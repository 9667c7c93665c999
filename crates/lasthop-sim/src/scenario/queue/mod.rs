//! The queue of a link: the keys `queue` and `mark`, and one file for each kind. Called by `link.rs`.
//!
//! To add a queue: its file in `lasthop-net/src/queue/`, then `queue/<name>.rs` here with its `NAME`, its keys
//! (`TABLE`), whether the bare name says enough (`BARE`) and `read`, and its line in `queues!` below. From that follow
//! the key, its checks and messages, and its part of the reference.

mod cake;
mod codel;
mod drop_tail;
mod dual_pi2;
mod fq_codel;
mod fq_pie;
mod pie;
mod red;
mod unlimited;

use lasthop_core::time::Span;
use lasthop_core::units::Rate;
use lasthop_net::plan::{MarkThreshold, QueueLimit, QueuePlan};

use super::declare::Field;
use super::diagnostic::ScenarioError;
use super::keys::{Tagged, Variant};
use super::reader::{Checked, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Makes the registry: `module` has `NAME`, `TABLE`, `BARE` and `read`.
macro_rules! queues {
    ($($module:ident),* $(,)?) => {
        /// The kinds of the key `queue`.
        pub(super) static QUEUE: Tagged = Tagged {
            title: "queue",
            doc: "Room for packets at the head of the link.",
            variants: &[$(Variant { name: $module::NAME, table: &$module::TABLE, bare: $module::BARE },)*],
        };

        /// The queue that the key `queue` of `table` describes, without a threshold for marks.
        pub(super) fn read(table: &Reader<'_>, link: &LinkFacts) -> Result<QueuePlan> {
            match table.tagged("queue")? {
                $(($module::NAME, queue) => $module::read(&queue, link),)*
                (kind, _) => panic!("no reader for the queue `{kind}`"),
            }
        }
    };
}

queues! {
    drop_tail,
    red,
    codel,
    fq_codel,
    pie,
    fq_pie,
    dual_pi2,
    cake,
    unlimited,
}

/// The properties of the link that a queue needs.
pub(super) struct LinkFacts {
    pub(super) rate: Rate,
    pub(super) delay: Span,
    pub(super) mtu: u64,
    /// Nothing but its rate decides when it takes a packet: it has no retransmissions, turns or grants.
    pub(super) is_plain: bool,
}

impl LinkFacts {
    /// `limit`, the key of that name of a queue, if a packet has room in it.
    fn with_room(&self, queue: &Reader<'_>, limit: QueueLimit) -> Result<QueueLimit> {
        let mtu = self.mtu;
        match limit {
            QueueLimit::Bytes(bytes) if bytes < mtu => {
                let message =
                    format!("a queue of {bytes} B has no room for a packet of the link's mtu, {mtu} B");
                Err(queue.error("limit", message, &format!("raise limit to {mtu} B, or lower mtu")))
            }
            limit => Ok(limit),
        }
    }
}

/// From which queue on packets are marked, on a link with this limit. A packet that finds as much as fits is lost.
pub(super) fn mark(table: &Reader<'_>, limit: QueueLimit) -> Result<MarkThreshold> {
    let threshold = match table.value("mark")? {
        Checked::Size(bytes) => MarkThreshold::Bytes(bytes),
        Checked::Packets(packets) => MarkThreshold::Packets(packets as u32),
        _ => panic!("`mark` is declared as room"),
    };
    let beyond = match (threshold, limit) {
        (MarkThreshold::Packets(mark), QueueLimit::Packets(limit)) if mark >= limit => {
            Some((format!("{mark} packets"), format!("{limit} packets")))
        }
        (MarkThreshold::Bytes(mark), QueueLimit::Bytes(limit)) if mark >= limit => {
            Some((format!("{mark} B"), format!("{limit} B")))
        }
        _ => None,
    };
    let Some((mark, limit)) = beyond else { return Ok(threshold) };
    let message = format!("nothing would be marked at {mark}: the queue holds {limit} at most");
    Err(table.error("mark", message, "lower mark, or raise the limit of the queue"))
}

/// Room in a queue.
impl Field<'_> for QueueLimit {
    fn of(checked: Checked<'_>) -> Option<Self> {
        match checked {
            Checked::Size(bytes) => Some(QueueLimit::Bytes(bytes)),
            Checked::Packets(packets) => Some(QueueLimit::Packets(packets as u32)),
            _ => None,
        }
    }
}
