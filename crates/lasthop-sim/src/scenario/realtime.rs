//! The table `[measure] realtime`: which flows have real-time metrics, and by which definitions.

use lasthop_core::time::Span;
use lasthop_net::plan::{FlowPlan, RealtimePlan, Traffic};
use lasthop_net::realtime::plan::{ArrivalPoint, DelayedOver, Duplicates, Missing, SentCount};

use super::diagnostic::ScenarioError;
use super::keys::{Key, Kind, LONGEST, Table};
use super::reader::{Checked, Item, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

/// A slot or a threshold.
const SOME_TIME: Kind = Kind::Duration { min: Span::from_nanos(1), max: LONGEST };

pub(super) static REALTIME: Table = Table {
    title: "realtime",
    doc: "Real-time metrics, measured for every flow if this table is given, else for flows of video and video calls. \
          A packet is delayed if it arrives more than threshold after its neighbour, the packet sent before it.",
    groups: &[&[
        Key::new("threshold", SOME_TIME, "What arrives later than this after its neighbour is delayed.")
            .default("\"100 ms\"").fixed(),
        Key::new(
            "missing",
            Kind::Choice(|| Missing::NAMES.to_vec()),
            "Neighbour of a packet whose predecessor has not arrived: the next lower one that has, none (its time \
             reads as the start of the run), or the packet that arrived last.",
        )
        .default("\"next-lower\""),
        Key::new(
            "arrival",
            Kind::Choice(|| ArrivalPoint::NAMES.to_vec()),
            "Where packets arrive: at the transport, before it puts them in order, or at the application.",
        )
        .default("\"transport\""),
        Key::new(
            "duplicates",
            Kind::Choice(|| Duplicates::NAMES.to_vec()),
            "Whether packets that arrive again count.",
        )
        .default("\"ignored\""),
        Key::new(
            "sent",
            Kind::Choice(|| SentCount::NAMES.to_vec()),
            "Packets sent: those transmitted at least once, or all that the application generated.",
        )
        .default("\"transmitted\""),
        Key::new(
            "delayed_over",
            Kind::Choice(|| DelayedOver::NAMES.to_vec()),
            "What delayed_rate is over: packets sent, or packets received.",
        )
        .default("\"sent\""),
        Key::new(
            "success",
            Kind::List(&Kind::Integer { min: 1, max: 100 }),
            "The x of the x % Application Success Percentages.",
        )
        .default("[50, 75, 90, 100]").fixed(),
        Key::new(
            "target",
            Kind::Rate,
            "The goodput that a slot should have. Default: the rate of the flow's traffic, if it has one.",
        ).fixed(),
        Key::new("slot", SOME_TIME, "Length of a slot.").default("\"1 s\"").fixed(),
        Key::new(
            "playout",
            Kind::Duration { min: Span::ZERO, max: LONGEST },
            "Video that a player buffers before it starts.",
        )
        .default("\"1 s\"").fixed(),
        Key::new(
            "rebuffer",
            Kind::Duration { min: Span::ZERO, max: LONGEST },
            "Video that it buffers before it goes on after a stall.",
        )
        .default("\"500 ms\"").fixed(),
    ]],
    partial: false,
};

/// The table of one scenario.
pub(super) struct Settings<'n> {
    table: Reader<'n>,
    /// Every flow is measured, because the user wrote the table.
    all: bool,
    /// Without a target of its own.
    plan: RealtimePlan,
}

impl<'n> Settings<'n> {
    /// Reads the table in `[measure]`.
    pub(super) fn read(measure: &Reader<'n>) -> Result<Settings<'n>> {
        let table = measure.sub("realtime")?;
        let plan = RealtimePlan {
            threshold: table.span("threshold")?,
            missing: named(Missing::named(table.name("missing")?)),
            arrival: named(ArrivalPoint::named(table.name("arrival")?)),
            duplicates: named(Duplicates::named(table.name("duplicates")?)),
            sent: named(SentCount::named(table.name("sent")?)),
            delayed_over: named(DelayedOver::named(table.name("delayed_over")?)),
            success: success(&table)?,
            target: table.rate_if("target")?,
            slot: table.span("slot")?,
            playout: table.span("playout")?,
            rebuffer: table.span("rebuffer")?,
        };
        Ok(Settings { table, all: measure.has("realtime"), plan })
    }

    /// How a flow with this traffic is measured, if it is.
    pub(super) fn of_flow(&self, traffic: &Traffic) -> Option<Box<RealtimePlan>> {
        if !self.all && traffic.offered().video().is_none() && traffic.offered().encoder().is_none() {
            return None;
        }
        let target = self.plan.target.or_else(|| traffic.offered().nominal_rate());
        Some(Box::new(RealtimePlan { target, ..self.plan.clone() }))
    }

    /// Refuses percentages that no flow can have.
    pub(super) fn check(&self, flows: &[FlowPlan]) -> Result<()> {
        let has_target = |flow: &FlowPlan| flow.realtime.as_ref().is_some_and(|plan| plan.target.is_some());
        if !self.table.has("success") || flows.iter().any(has_target) {
            return Ok(());
        }
        let message =
            "success needs a target rate: no traffic of this scenario has a rate of its own".to_owned();
        Err(self.table.error("success", message, "write target = \"1 Mbit/s\" beside it"))
    }
}

/// The names of a choice are those of its options.
fn named<T>(option: Option<T>) -> T {
    option.unwrap_or_else(|| unreachable!("the choices are the names of the options"))
}

/// The list of x: ascending, each once.
fn success(table: &Reader<'_>) -> Result<Vec<u32>> {
    let mut percents: Vec<u32> = Vec::new();
    for Item { value, place } in table.list("success")? {
        let Checked::Integer(percent) = value else { continue };
        if percents.last().is_some_and(|&last| u64::from(last) >= percent) {
            let message = format!("{percent} % does not come after the one before it");
            return Err(table.source.error(place, message, "write each percentage once, the smallest first"));
        }
        percents.push(percent as u32);
    }
    Ok(percents)
}
