//! One link: rate, queue, errors, outages, retransmission and what stands at its ends, from tables that may override
//! one another.

use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::plan::{
    Arq, Direction, DiscardUnit, Discipline, ErrorModel, ErrorPosition, ErrorScope, Hybrid, Opportunities,
    OutagePolicy, OutageSchedule, Outages, QueueLimit, Report, RulePlan, Split, TimedLoss, Warning,
};

use crate::link_trace;

use super::diagnostic::{Place, ScenarioError};
use super::error;
use super::helpers;
use super::input_file::InputFiles;
use super::keys::MOST_LISTED;
use super::middlebox;
use super::queue::{self, LinkFacts};
use super::reader::{Checked, Reader};
use super::trace_file::{self, Way};
use super::transport::Shared;

type Result<T> = std::result::Result<T, ScenarioError>;

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
        let arq = arq(&table, |arq| arq.timeout_for(rate, delay, mtu))?;
        if arq.is_some()
            && outages.schedule != OutageSchedule::None
            && outages.policy != OutagePolicy::DropAir
        {
            let message = "a link with arq keeps retransmitting through an outage".to_owned();
            return Err(table.error("arq", message, "write policy = \"drop-air\" in handoff"));
        }
        if arq.is_none() && error_position == ErrorPosition::AfterArq {
            let message = "errors behind the retransmissions of a link that makes none".to_owned();
            let remedy = "add arq = {}, or write position = \"after-transmission\"";
            return Err(errors.error("error", message, remedy));
        }
        let rate_changes = match of("rate_changes") {
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

    /// The recording that the key `trace` of `table` names.
    fn trace(&mut self, table: &Reader<'_>, copies: u64) -> Result<Trace> {
        let (kind, trace) = table.tagged("trace")?;
        let (file, repeat) = (trace.text("file")?, trace.switch("repeat")?);
        if kind == "mahimahi" {
            let read = self.files.opportunities(&trace, file)?;
            let bytes = match trace.size_if("opportunity")? {
                Some(bytes) => bytes as u32,
                None => read.bytes.unwrap_or(link_trace::OPPORTUNITY),
            };
            let opportunities = Opportunities { times: read.times, repeat, bytes };
            let rate = Some(opportunities.mean_rate());
            return Ok(Trace { rate, opportunities: Some(opportunities), ..Trace::default() });
        }
        let recording = if kind == "rates" {
            let way = Way::by_name(trace.name("direction")?).unwrap_or_default();
            self.files.rates(&trace, file, way)?
        } else {
            self.files.recording(&trace, file)?
        };
        self.count(&trace, "file", trace_file::number_until(&recording, repeat, self.duration), copies)?;
        let first = recording[0];
        let rows = || trace_file::rows_until(&recording, repeat, self.duration);
        let later = || rows().skip(1);
        // A link has a rate: one that begins with a pause has its first, and the pause is a change at 0.
        let paused = first.rate == Some(Rate(0));
        let above = recording.iter().find_map(|row| row.rate.filter(|rate| rate.0 > 0));
        if paused && above.is_none() {
            let message = "all rates of the trace are 0".to_owned();
            return Err(trace.error("file", message, "let one of its rows have a rate"));
        }
        Ok(Trace {
            rate: above,
            rate_changes: rows()
                .skip(usize::from(!paused))
                .filter_map(|row| Some((row.at, row.rate?)))
                .collect(),
            opportunities: None,
            delay: first.delay,
            delay_changes: later().filter_map(|row| Some((row.at, row.delay?))).collect(),
            loss: first.loss.map(|_| rows().filter_map(|row| Some((row.at, row.loss?))).collect()),
        })
    }

    /// The rates that follow the first, in the order of time.
    fn rate_changes(&mut self, table: &Reader<'_>, copies: u64) -> Result<Vec<(Time, Rate)>> {
        let listed = table.list("rate_changes")?;
        self.count(table, "rate_changes", listed.len() as u64, copies)?;
        let mut changes: Vec<(Time, Rate)> = Vec::with_capacity(listed.len());
        for item in listed {
            let Checked::Table(change) = item.value else { continue };
            let at = Time(change.span("at")?.0);
            if let Some(&(before, _)) = changes.last()
                && at <= before
            {
                let message = format!("the change at {at} does not come after the one at {before}");
                return Err(change.error("at", message, "write the changes in the order of time"));
            }
            changes.push((at, change.rate("rate")?));
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

    fn outages(&mut self, table: &Reader<'_>, copies: u64) -> Result<Outages> {
        let Checked::Table(handoff) = table.value("handoff")? else {
            return Ok(Outages {
                schedule: OutageSchedule::None,
                policy: OutagePolicy::DropAir,
                warning: None,
            });
        };
        let policy = match handoff.name("policy")? {
            "drop" => OutagePolicy::Drop,
            "hold" => OutagePolicy::Hold,
            _ => OutagePolicy::DropAir,
        };
        let length = handoff.span("outage")?;
        let schedule = match (handoff.integer_if("count")?, handoff.list_if("at")?) {
            (Some(_), Some(_)) => {
                let message = "count and at exclude each other".to_owned();
                return Err(handoff.error("at", message, "keep one of them"));
            }
            (None, None) => {
                let message = "missing key \"count\" or \"at\" in handoff".to_owned();
                return Err(handoff.source.error(
                    handoff.place,
                    message,
                    "add count = 5, or at = [\"10 s\"]",
                ));
            }
            (Some(count), None) => self.counted(&handoff, count, length, copies)?,
            (None, Some(at)) => {
                if handoff.has("placement") {
                    let message = "placement goes with count, not with at".to_owned();
                    return Err(handoff.error("placement", message, "leave it out"));
                }
                self.count(&handoff, "at", at.len() as u64, copies)?;
                let mut starts = Vec::with_capacity(at.len());
                for item in at {
                    if let Checked::Span(start) = item.value {
                        starts.push((Time(start.0), item.place));
                    }
                }
                starts.sort_by_key(|start| start.0);
                self.listed_at(&handoff, &starts, length)?
            }
        };
        Ok(Outages { schedule, policy, warning: warning(&handoff)? })
    }

    fn counted(
        &mut self,
        handoff: &Reader<'_>,
        count: u64,
        length: Span,
        copies: u64,
    ) -> Result<OutageSchedule> {
        if count == 0 {
            return Ok(OutageSchedule::None);
        }
        let random = handoff.name_if("placement")? == Some("random");
        // Evenly placed outages start at k * duration / (count + 1); the last must end within the run.
        let room = if random { self.duration.0 / count } else { self.duration.0 / (count + 1) };
        if length.0 > room {
            let message = format!("{count} outages of {length} do not fit a run of {}", self.duration);
            let remedy = format!("each may last {} at most", Span(room));
            return Err(handoff.error("outage", message, &remedy));
        }
        if random {
            return Ok(OutageSchedule::Random { count: count as u32, length });
        }
        self.count(handoff, "count", count, copies)?;
        let start = |number: u64| {
            // 128 bits: 10^15 ns times 10^4 outages.
            let nanos = u128::from(number) * u128::from(self.duration.0) / u128::from(count + 1);
            Time(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        Ok(OutageSchedule::Listed((1..=count).map(|number| (start(number), length)).collect()))
    }

    fn listed_at(
        &self,
        handoff: &Reader<'_>,
        starts: &[(Time, &Place)],
        length: Span,
    ) -> Result<OutageSchedule> {
        let mut schedule: Vec<(Time, Span)> = Vec::with_capacity(starts.len());
        for &(start, place) in starts {
            let end = start + length;
            if end.0 > self.duration.0 {
                let message =
                    format!("the outage at {start} ends at {end}, after the run of {}", self.duration);
                return Err(handoff.source.error(place, message, "start it earlier, or make it shorter"));
            }
            if let Some(&(before, _)) = schedule.last()
                && start < before + length
            {
                let message = format!("the outage at {start} begins before the one at {before} ends");
                let remedy = format!("leave at least {length} between starting times");
                return Err(handoff.source.error(place, message, &remedy));
            }
            schedule.push((start, length));
        }
        Ok(OutageSchedule::Listed(schedule))
    }
}

/// What a recording says of a link.
#[derive(Default)]
struct Trace {
    rate: Option<Rate>,
    rate_changes: Vec<(Time, Rate)>,
    opportunities: Option<Opportunities>,
    delay: Option<Span>,
    delay_changes: Vec<(Time, Span)>,
    loss: Option<Vec<(Time, f64)>>,
}

/// The error for a key that a recording has too.
fn of_trace(table: &Reader<'_>, key: &str) -> ScenarioError {
    table.error(
        key,
        format!("the trace of the link has its own {key}"),
        &format!("leave out {key}, or trace"),
    )
}

/// How outages are announced.
fn warning(handoff: &Reader<'_>) -> Result<Option<Warning>> {
    let Some(lead) = handoff.span_if("warning")? else {
        let stray = ["miss", "false_alarms"].into_iter().find(|key| handoff.has(key));
        return match stray {
            Some(key) => {
                let message = format!("{key} without a warning");
                Err(handoff.error(key, message, "add warning = \"100 ms\""))
            }
            None => Ok(None),
        };
    };
    Ok(Some(Warning {
        lead,
        miss: handoff.number_if("miss")?.unwrap_or(0.0),
        false_alarms: handoff.integer_if("false_alarms")?.unwrap_or(0) as u32,
    }))
}

/// Retransmission by the link; `timeout` is that of a full frame.
fn arq(table: &Reader<'_>, timeout: impl Fn(&Arq) -> Span) -> Result<Option<Arq>> {
    let Checked::Table(table) = table.value("arq")? else { return Ok(None) };
    arq_of(&table, timeout).map(Some)
}

/// What a table says of it.
pub(super) fn arq_of(table: &Reader<'_>, timeout: impl Fn(&Arq) -> Span) -> Result<Arq> {
    let mut arq = Arq {
        window: table.integer("window")? as u32,
        attempts: table.integer("attempts")? as u32,
        timeout: table.span_if("timeout")?,
        in_order: table.name("order")? == "in-order",
        ack_size: table.size("ack_size")? as u32,
        ack_error_rate: table.number("ack_error_rate")?,
        report: match table.name("report")? {
            "off" => Report::Off,
            "proxy" => Report::Proxy,
            _ => Report::Local,
        },
        discards: match table.name("discards")? {
            "frames" => DiscardUnit::Frame,
            _ => DiscardUnit::Attempt,
        },
        ebsn: None,
        hybrid: match table.value("hybrid")? {
            Checked::Table(hybrid) => Some(Hybrid {
                pieces: hybrid.integer("pieces")? as u32,
                parity: hybrid.integer("parity")? as u32,
            }),
            Checked::Switch(true) => Some(Hybrid::USUAL),
            _ => None,
        },
    };
    arq.ebsn = match table.value("ebsn")? {
        Checked::Table(ebsn) => Some(ebsn.span_if("gap")?.unwrap_or_else(|| timeout(&arq))),
        Checked::Switch(true) => Some(timeout(&arq)),
        _ => None,
    };
    Ok(arq)
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
