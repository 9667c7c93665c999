//! One link: rate, queue, errors, outages, retransmission and what stands at its ends, from tables that may override
//! one another.

use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::plan::{
    Direction, Discipline, ErrorModel, ErrorPosition, ErrorScope, OutagePolicy, OutageSchedule, QueueLimit,
    RulePlan, Split, TimedLoss,
};

use super::arq::{self, ARQ};
use super::declare::table;
use super::diagnostic::ScenarioError;
use super::error::{self, ERROR};
use super::helpers;
use super::input_file::InputFiles;
use super::keys::{ANY_TIME, Key, Kind, LARGEST_PACKET, MOST_LISTED, NONE, SOME_TIME, Table};
use super::middlebox::{self, A_MIDDLEBOX};
use super::outages::HANDOFF;
use super::queue::{self, LinkFacts, QUEUE};
use super::reader::{Checked, Reader};
use super::trace::{TRACE, Trace};
use super::transport::Shared;

type Result<T> = std::result::Result<T, ScenarioError>;

/// What each direction of a link has.
const DIRECTION: &[Key] = &[
    Key::new("rate", Kind::Rate, "Transmission rate. Every link needs one, unless its trace has it."),
    Key::new(
        "trace",
        Kind::Tagged(&TRACE),
        "A recording of the link over time. It replaces rate, and delay and error if it contains them.",
    ),
    Key::new(
        "rate_changes",
        Kind::AnyList(&A_RATE_CHANGE),
        "Later rates, in order of time; a packet that is being transmitted continues at the new rate. A rate of a more \
         specific table, such as reverse, replaces them. Default: none.",
    ),
    Key::new("delay", ANY_TIME, "Propagation delay. Every link needs one, unless its trace has it.")
        .or("add delay = \"10 ms\""),
    Key::new("queue", Kind::Tagged(&QUEUE), "Room for packets at the head of the link.")
        .default("{ kind = \"drop-tail\", limit = \"50 packets\" }"),
    Key::new(
        "mark",
        Kind::Room,
        "ECN-capable packets are marked if they find at least this much in the queue. Default: none is marked.",
    ),
    // 68 B is what every IPv4 link must carry (RFC 791).
    Key::new("mtu", Kind::Size { min: 68, max: LARGEST_PACKET }, "Largest IP packet.").default("\"1500 B\""),
    Key::new("error", Kind::Tagged(&ERROR), "What loses packets on the link.").default("\"none\""),
    Key::new("handoff", Kind::OrTable(&NONE, &HANDOFF), "When the link is down.").default("\"none\""),
    Key::new("arq", Kind::OrTable(&NONE, &ARQ), "Retransmission by the link itself.").default("\"none\""),
    Key::new(
        "middleboxes",
        Kind::AnyList(&A_MIDDLEBOX),
        "Middleboxes at the head of the link, in the order in which departing packets pass them. Default: none.",
    ),
];

static A_RATE_CHANGE: Kind = Kind::Table(&RATE_CHANGE);

const REVERSED: &[Key] = &[Key::new(
    "reverse",
    Kind::Table(&REVERSE),
    "Overrides for the other direction; without it both directions are equal.",
)];

pub(super) static LINK: Table =
    Table { title: "link", doc: "A full-duplex link.", groups: &[DIRECTION, REVERSED], partial: false };

pub(super) static ACCESS: Table = Table {
    title: "access link",
    doc: "An access link; rate and delay may come from `access` or from the table of the side.",
    groups: &[DIRECTION, REVERSED],
    partial: true,
};

static REVERSE: Table =
    Table { title: "reverse", doc: "The other direction of a link.", groups: &[DIRECTION], partial: true };

pub(super) static GRAPH_LINK: Table = Table {
    title: "graph link",
    doc: "A full-duplex link between two nodes.",
    groups: &[
        &[
            Key::new("from", Kind::Text, "The node at which the forward direction starts.").required(),
            Key::new("to", Kind::Text, "The node at which the forward direction ends.").required(),
            Key::new("name", Kind::Text, "Unique name. Default: the names of both nodes with a hyphen."),
        ],
        DIRECTION,
        REVERSED,
    ],
    partial: false,
};

table! {
    /// A rate and the time from which it holds.
    static RATE_CHANGE = "rate change";
    struct RateChange {
        /// From when on.
        at: Span = SOME_TIME, required();
        /// The new rate.
        rate: Rate = Kind::Rate, required();
    }
}

/// Reads links; keeps count of what they list, so that a small file cannot ask for a large plan.
pub(super) struct LinkReader<'f, 'i> {
    pub(super) duration: Span,
    pub(super) listed: u64,
    pub(super) files: &'f mut InputFiles<'i>,
    pub(super) shared: &'f Shared<'f>,
    /// What is said of each proxy that splits connections if none passes it.
    pub(super) splits: Vec<ScenarioError>,
}

/// Both directions of a link.
pub(super) type Sides = (Arc<Direction>, Arc<Direction>);

impl LinkReader<'_, '_> {
    /// Both directions of a link that stands for `copies`. `tables` may override one another, the most
    /// specific last; `parent` and `name` say where a missing key belongs.
    pub(super) fn both(
        &mut self,
        tables: &[Reader<'_>],
        copies: u64,
        parent: &Reader<'_>,
        name: &str,
    ) -> Result<Sides> {
        let known = self.splits.len();
        let forward = self.direction(tables, copies, parent, name)?;
        // Table by table: inside a table `reverse` wins, but a more specific table wins over both.
        let mut reversed = Vec::with_capacity(2 * tables.len());
        for table in tables {
            reversed.push(*table);
            if table.table.keys().any(|key| key.name == "reverse") {
                reversed.extend(table.sub_if("reverse")?);
            }
        }
        let mut reverse = self.direction(&reversed, copies, parent, name)?;
        if let Some(split) = &mut reverse.split
            && split.number > known
        {
            // Both ends of one link: one of them splits what passes.
            split.number = known;
            self.splits.truncate(known + 1);
        }
        Ok((forward.into(), reverse.into()))
    }

    fn direction(
        &mut self,
        tables: &[Reader<'_>],
        copies: u64,
        parent: &Reader<'_>,
        name: &str,
    ) -> Result<Direction> {
        let of = |key: &str| tables.iter().rev().find(|table| table.has(key)).copied();
        let full = tables.iter().find(|table| table.table.keys().any(|known| known.name == "rate"));
        let required = |key: &str| {
            of(key).ok_or_else(|| {
                let Some(table) = full else { return no_table(parent, name) };
                table.missing(table.table.key(key))
            })
        };
        let depth = |key: &str| tables.iter().rposition(|table| table.has(key));
        let trace = match of("trace") {
            // A more specific table that has a rate of its own takes its place.
            Some(table) if depth("trace") >= depth("rate") => self.trace(&table, copies)?,
            _ => Trace::default(),
        };
        for (key, has) in [("rate", trace.rate.is_some()), ("delay", trace.delay.is_some())] {
            if has
                && depth(key) == depth("trace")
                && let Some(table) = of(key)
            {
                return Err(of_trace(&table, key));
            }
        }
        let rate = match trace.rate {
            Some(rate) => rate,
            None => required("rate")?.rate("rate")?,
        };
        let delay = match trace.delay {
            Some(delay) if depth("trace") > depth("delay") => delay,
            _ => required("delay")?.span("delay")?,
        };
        // A table that has the key, or any that knows its default.
        let or_default = |key: &str| of(key).or(full.copied()).map_or_else(|| required(key), Ok);
        let mtu = or_default("mtu")?.size("mtu")?;
        let is_plain = !matches!(or_default("arq")?.value("arq")?, Checked::Table(_));
        let mut queue = queue::read(&or_default("queue")?, &LinkFacts { rate, delay, mtu, is_plain })?;
        // A more specific table that only shortens the queue takes the marks with it; that is no mistake.
        if let Some(table) = of("mark")
            && (queue.rule == RulePlan::None || depth("mark") >= depth("queue"))
        {
            if queue.rule != RulePlan::None {
                let message = "a queue that marks by its average does not mark by a threshold too".to_owned();
                return Err(table.error("mark", message, "leave out mark, or write another kind of queue"));
            }
            let known = if depth("mark") >= depth("queue") { queue.limit } else { QueueLimit::Unlimited };
            queue.rule = RulePlan::Threshold(queue::mark(&table, known)?);
        }
        let errors = or_default("error")?;
        let (mut error, error_position, error_scope) = self.error_model(&errors, copies)?;
        if let Some(rates) = trace.loss {
            if error != ErrorModel::None {
                return Err(of_trace(&errors, "error"));
            }
            error = ErrorModel::TimedLoss(TimedLoss { rates: rates.into() });
        }
        let handoff = or_default("handoff")?;
        let outages = self.outages(&handoff, copies)?;
        let table = or_default("arq")?;
        let arq = arq::of_link(&table, |arq| arq.timeout_for(rate, delay, mtu))?;
        if arq.is_some()
            && outages.schedule != OutageSchedule::None
            && outages.policy != OutagePolicy::DropAir
        {
            let message = "a link with arq keeps retransmitting through an outage".to_owned();
            return Err(table.error("arq", message, "write policy = \"drop-air\" in handoff"));
        }
        if arq.is_none() && error_position == ErrorPosition::AfterArq {
            let message = "errors after the retransmissions of a link that makes none".to_owned();
            let remedy = "add arq = {}, or write position = \"after-transmission\"";
            return Err(errors.error("error", message, remedy));
        }
        // As with a trace: a rate of its own, such as that of `reverse`, has no part in the changes of another.
        let rated = depth("rate").max(depth("trace").filter(|_| trace.rate.is_some()));
        let rate_changes = match of("rate_changes").filter(|_| depth("rate_changes") >= rated) {
            Some(table) if trace.rate.is_some() => return Err(of_trace(&table, "rate_changes")),
            Some(table) => self.rate_changes(&table, copies)?,
            None => trace.rate_changes,
        };
        let pauses = trace.opportunities.is_some() || rate_changes.iter().any(|change| change.1.0 == 0);
        if arq.is_some() && pauses {
            let message = "a link with arq cannot wait for opportunities, or through a rate of 0".to_owned();
            let remedy = "leave out arq: a trace of deliveries has the retransmissions of its link in it";
            return Err(table.error("arq", message, remedy));
        }
        let (split, middleboxes) = match of("middleboxes") {
            Some(table) => (self.split(&table)?, middlebox::read(&table, mtu)?),
            None => (None, Vec::new()),
        };
        let direction = Direction {
            rate_changes,
            opportunities: trace.opportunities,
            delay_changes: if depth("trace") > depth("delay") { trace.delay_changes } else { Vec::new() },
            mtu: mtu as u32,
            queue,
            error,
            error_position,
            error_scope,
            outages,
            arq,
            split,
            middleboxes,
            ..Direction::plain(rate, delay)
        };
        check_flush(&direction, &handoff)?;
        Ok(direction)
    }

    /// A direction of the radio links of a cell, which has the table `cell`; both directions of this many
    /// `links` are alike.
    pub(super) fn radio(
        &mut self,
        cell: &Reader<'_>,
        links: u64,
        (rate, flight): (Rate, Span),
    ) -> Result<Direction> {
        let copies = 2 * links;
        let mtu = cell.size("mtu")?;
        let queue = queue::read(cell, &LinkFacts { rate, delay: flight, mtu, is_plain: false })?;
        let (error, error_position, error_scope) = self.error_model(cell, copies)?;
        let outages = self.outages(cell, copies)?;
        if outages.schedule != OutageSchedule::None && outages.policy != OutagePolicy::DropAir {
            let message = "stations of a cell go on trying through an outage".to_owned();
            return Err(cell.error("handoff", message, "write policy = \"drop-air\" in handoff"));
        }
        Ok(Direction {
            mtu: mtu as u32,
            queue,
            error,
            error_position,
            error_scope,
            outages,
            ..Direction::plain(rate, flight)
        })
    }

    /// The proxy that splits connections at the near end of a link, if one is among its middleboxes.
    fn split(&mut self, table: &Reader<'_>) -> Result<Option<Split>> {
        let mut split = None;
        for (item, number) in table.list("middleboxes")?.into_iter().zip(0..) {
            let Checked::Tagged("split", device) = item.value else { continue };
            if number > 0 {
                let message =
                    "a split ends connections at the node, before anything else on the link".to_owned();
                let remedy =
                    "write it once, and first: what follows stands on the way of the second connection";
                return Err(table.source.error(item.place, message, remedy));
            }
            split = Some(helpers::read_split(&device, self.shared, &mut self.splits)?);
        }
        Ok(split)
    }

    /// The rates that follow the first, in the order of time.
    fn rate_changes(&mut self, table: &Reader<'_>, copies: u64) -> Result<Vec<(Time, Rate)>> {
        let listed = table.list("rate_changes")?;
        self.count(table, "rate_changes", listed.len() as u64, copies)?;
        let mut changes: Vec<(Time, Rate)> = Vec::with_capacity(listed.len());
        for item in listed {
            let Checked::Table(change) = item.value else { continue };
            let later = RateChange::read(&change)?;
            let at = Time(later.at.0);
            if let Some(&(before, _)) = changes.last()
                && at <= before
            {
                let message = format!("the change at {at} does not come after the one at {before}");
                return Err(change.error("at", message, "write the changes in the order of time"));
            }
            changes.push((at, later.rate));
        }
        Ok(changes)
    }

    /// Counts `entries` of a list that is copied to `copies` links, before anything is copied.
    pub(super) fn count(&mut self, table: &Reader<'_>, key: &str, entries: u64, copies: u64) -> Result<()> {
        self.listed = self.listed.saturating_add(entries.saturating_mul(copies));
        if self.listed <= MOST_LISTED {
            return Ok(());
        }
        let message = format!(
            "more than {MOST_LISTED} outages, changes of rate and listed packets on all links together"
        );
        Err(table.error(key, message, "list fewer, or use fewer links"))
    }

    /// The error model, where it sits and what it judges.
    fn error_model(
        &mut self,
        table: &Reader<'_>,
        copies: u64,
    ) -> Result<(ErrorModel, ErrorPosition, ErrorScope)> {
        error::read(table, &mut |model, key, entries| self.count(model, key, entries, copies))
    }
}

/// The error for a key that a recording has too.
fn of_trace(table: &Reader<'_>, key: &str) -> ScenarioError {
    table.error(
        key,
        format!("the trace of the link has its own {key}"),
        &format!("leave out {key}, or trace"),
    )
}

/// The error for a link of which no table says anything.
fn no_table(parent: &Reader<'_>, name: &str) -> ScenarioError {
    let message = format!("missing key \"{name}\" in {}", parent.table.title);
    let remedy = format!("add {name} = {{ rate = \"10 Mbit/s\", delay = \"10 ms\" }}");
    parent.source.error(parent.place, message, &remedy)
}

/// Refuses outages that would empty a queue which lies in a device.
fn check_flush(direction: &Direction, handoff: &Reader<'_>) -> Result<()> {
    if helpers::flushes_what_it_holds(direction) {
        let message = if direction.queue.discipline == Discipline::Fifo {
            "an outage cannot empty a queue whose packets a snoop overtakes"
        } else {
            "an outage cannot empty a queue that decides when packets leave"
        };
        let remedy = "write policy = \"drop-air\" or \"hold\"";
        return Err(handoff.error("handoff", message.to_owned(), remedy));
    }
    Ok(())
}
