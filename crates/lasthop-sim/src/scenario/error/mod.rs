//! The error models of a link: the key `error`, and one file for each kind. Called by `link.rs`.
//!
//! To add a model: its file in `lasthop-net/src/channel/`, then `error/<name>.rs` here with its `NAME`, its keys
//! (`TABLE`, which end with `..judged: Judged`), whether the bare name says enough (`BARE`) and `read`, and its line in
//! `models!` below. From that follow the key, its checks and messages, and its part of the reference.

mod bernoulli;
mod bit_errors;
mod exponential;
mod gilbert_elliott;
mod gilbert_elliott_time;
mod list;
mod periodic;
mod two_state;
mod two_state_packets;

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{ErrorModel, ErrorPosition, ErrorScope};

use super::declare::{choice, keys};
use super::diagnostic::ScenarioError;
use super::keys::{ANY_TIME, Kind, LONGEST, PACKET, SOME_TIME, Table, Tagged, Variant};
use super::reader::Reader;

type Result<T> = std::result::Result<T, ScenarioError>;

/// Counts the entries of a list, the key of a table, before they are copied.
type Count<'f> = &'f mut dyn FnMut(&Reader<'_>, &str, u64) -> Result<()>;

/// How long a state lasts.
const A_STATE: Kind = Kind::Duration { min: Span::from_nanos(10_000), max: LONGEST };

/// Makes the registry: `module` has `NAME`, `TABLE`, `BARE` and `read`.
macro_rules! models {
    ($($module:ident),* $(,)?) => {
        /// The kinds of the key `error`.
        pub(super) static ERROR: Tagged = Tagged {
            title: "error model",
            doc: "What loses packets on a link.",
            variants: &[
                Variant { name: "none", table: &NONE, bare: true },
                $(Variant { name: $module::NAME, table: &$module::TABLE, bare: $module::BARE },)*
            ],
        };

        /// The model that the key `error` of `table` describes, where it sits and what it judges.
        pub(super) fn read(
            table: &Reader<'_>,
            count: Count<'_>,
        ) -> Result<(ErrorModel, ErrorPosition, ErrorScope)> {
            let (kind, model) = table.tagged("error")?;
            let (plan, judged) = match kind {
                $($module::NAME => $module::read(&model, count)?,)*
                _ => return Ok((ErrorModel::None, ErrorPosition::AfterTransmission, ErrorScope::EVERYTHING)),
            };
            Ok((plan, judged.position, judged.scope(&model)?))
        }
    };
}

models! {
    bernoulli,
    list,
    periodic,
    bit_errors,
    exponential,
    two_state,
    two_state_packets,
    gilbert_elliott,
    gilbert_elliott_time,
}

static NONE: Table =
    Table { title: "error model none", doc: "No packet is lost.", groups: &[], partial: false };

choice! {
    const POSITION: ErrorPosition = "after-transmission" => ErrorPosition::AfterTransmission,
        "before-queue" => ErrorPosition::BeforeQueue, "after-arq" => ErrorPosition::AfterArq
}

keys! {
    /// What all error models have: which packets they judge, and where.
    struct Judged {
        /// Where packets are lost: after they have used their airtime (each attempt, on a link with arq), before they
        /// enter the queue, or after the link's retransmissions.
        position: ErrorPosition = POSITION, default("\"after-transmission\"");
        /// Time from which packets can be lost.
        from: Span = ANY_TIME, default("\"0 s\"");
        /// Time until which packets can be lost. Default: the end of the run.
        until: Option<Span> = SOME_TIME;
        /// Minimum size of an IP packet that can be lost; the model skips smaller ones, such as ACKs. Default: none is
        /// skipped.
        at_least: Option<u32> = PACKET;
    }
}

impl Judged {
    fn scope(&self, model: &Reader<'_>) -> Result<ErrorScope> {
        let from = Time(self.from.0);
        let until = self.until.map_or(Time::MAX, |until| Time(until.0));
        if until <= from {
            let message =
                format!("the error period is empty: it ends at {until}, before it starts at {from}");
            return Err(model.error("until", message, "let until be later than from"));
        }
        Ok(ErrorScope { from, until, at_least: self.at_least.unwrap_or(0) })
    }
}
