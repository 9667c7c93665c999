//! `impair`: delays, reordering and duplicates, as netem has them.

use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_net::plan::{Impair, Middlebox, Shape};

use super::super::declare::{Field, table};
use super::super::diagnostic::ScenarioError;
use super::super::keys::{ANY_TIME, Kind, MOST_LISTED};
use super::super::reader::{Checked, Item, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "impair";
pub(super) const BARE: bool = false;

table! {
    /// Delays, reorders and duplicates packets at random, as Linux netem does.
    pub(super) static TABLE = "impairments";
    struct Keys<'n> {
        /// Constant delay of each packet.
        delay: Span = ANY_TIME, default("\"0 s\"");
        /// How much delays vary: uniform, from delay to delay + jitter; else the standard deviation around delay.
        jitter: Span = ANY_TIME, default("\"0 s\"");
        /// Distribution of delays: uniform, normal (less than 0 is 0), Pareto with the tail index 3, as in netem, or a
        /// table.
        distribution: Shape = Kind::Choice(|| Shape::NAMES.to_vec()), default("\"uniform\"");
        /// Delays added to delay, such as measured ones; each interval between two neighbours is equally likely.
        table: Option<Vec<Item<'n>>> = Kind::List(&ANY_TIME);
        /// Correlation of a packet's delay with that of the packet before, taken between the normal variables from
        /// which both are made; the distribution of each stays the same.
        correlation: f64 = Kind::Probability, default("0");
        /// Whether packets may overtake those that were delayed for longer.
        reorder: bool = Kind::Switch, default("false");
        /// Probability that a packet is not delayed and overtakes those that are: netem's reorder.
        ahead: f64 = Kind::Probability, default("0");
        /// Correlation of this choice with that of the previous packet.
        ahead_correlation: f64 = Kind::Probability, default("0");
        /// Only one packet of this many may go ahead.
        ahead_gap: u64 = Kind::Integer { min: 1, max: 1_000_000 }, default("1");
        /// Probability that a packet is duplicated.
        duplicate: f64 = Kind::Probability, default("0");
    }
}

impl Field<'_> for Shape {
    fn of(checked: Checked<'_>) -> Option<Self> {
        let Checked::Name(name) = checked else { return None };
        Shape::by_name(name)
    }
}

pub(super) fn read(device: &Reader<'_>, _mtu: u64) -> Result<Middlebox> {
    let keys = Keys::read(device)?;
    let impair = Impair {
        delay: keys.delay,
        jitter: keys.jitter,
        shape: keys.distribution,
        table: table_of(device, keys.distribution, keys.table)?,
        correlation: keys.correlation,
        ahead: keys.ahead,
        ahead_correlation: keys.ahead_correlation,
        ahead_gap: keys.ahead_gap,
        reorder: keys.reorder,
        duplicate: keys.duplicate,
    };
    let jitters = impair.shape != Shape::Table;
    let unused = [
        (
            "distribution",
            jitters && impair.shape != Shape::Uniform && impair.jitter == Span::ZERO,
            "jitter = \"5 ms\"",
        ),
        (
            "correlation",
            jitters && impair.correlation > 0.0 && impair.jitter == Span::ZERO,
            "jitter = \"5 ms\"",
        ),
        (
            "ahead",
            jitters && impair.ahead > 0.0 && impair.delay + impair.jitter == Span::ZERO,
            "delay = \"10 ms\"",
        ),
        ("ahead_correlation", impair.ahead_correlation > 0.0 && impair.ahead == 0.0, "ahead = 0.25"),
        ("ahead_gap", impair.ahead_gap > 1 && impair.ahead == 0.0, "ahead = 1"),
    ];
    if let Some((key, _, missing)) = unused.iter().find(|(_, useless, _)| *useless) {
        let message = format!("{key} changes nothing here");
        return Err(device.error(key, message, &format!("add {missing}, or leave {key} out")));
    }
    Ok(Middlebox::Impair(impair))
}

/// The delays of a table, ascending; none if they have another distribution.
fn table_of(device: &Reader<'_>, shape: Shape, listed: Option<Vec<Item<'_>>>) -> Result<Arc<[Span]>> {
    match (shape, &listed) {
        (Shape::Table, None) => {
            let message = "delays of a table without one".to_owned();
            let remedy = "add table = [\"10 ms\", \"12 ms\", \"40 ms\"]";
            return Err(device.error("distribution", message, remedy));
        }
        (Shape::Table, Some(_)) if device.has("jitter") => {
            let message = "a table says how much delays vary".to_owned();
            return Err(device.error("jitter", message, "leave out jitter"));
        }
        (Shape::Table, Some(_)) => {}
        (_, Some(_)) => {
            let message = "a table of delays that have another distribution".to_owned();
            return Err(device.error("table", message, "write distribution = \"table\""));
        }
        _ => {}
    }
    let mut delays: Vec<Span> = Vec::new();
    for item in listed.unwrap_or_default() {
        if let Checked::Span(delay) = item.value {
            delays.push(delay);
        }
    }
    if delays.len() == 1 {
        let message = "a table of one delay".to_owned();
        return Err(device.error("table", message, "write two or more, or delay = \"10 ms\""));
    }
    if delays.len() as u64 > MOST_LISTED {
        let message = format!("more than {MOST_LISTED} delays");
        return Err(device.error("table", message, "list fewer"));
    }
    delays.sort_unstable();
    Ok(delays.into())
}
