//! When the flows of a table start.
//!
//! `flows.rs` calls it. How often flows must arrive to load a link depends on their lengths, and how many they are on
//! that.

use std::collections::BTreeMap;
use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{Arrivals, Spacing, Start, Traffic, Transport};

use super::arrival_file::{Arrival, Listed};
use super::class;
use super::declare::table;
use super::diagnostic::{ScenarioError, quoted};
use super::flows::{Keys, Table};
use super::input_file::InputFiles;
use super::keys::{ANY_TIME, Kind, SOME_TIME};
use super::paths::largest_packet;
use super::reader::{Checked, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Bursts without an arrival for each with one.
const MOST_IDLE: f64 = 1000.0;

table! {
    /// Start times: drawn for each flow, or arrivals one after another.
    pub(super) static START = "start";
    pub(super) struct StartKeys {
        /// Earliest and latest time, for each flow on its own.
        uniform: Option<Vec<Span>> = Kind::List(&ANY_TIME);
        /// Flows of this table arrive one after another: as a Poisson process, after equal gaps, as a Poisson process
        /// that is on and off in turn, or at the times of a file. Without count, as many flows as arrive on average
        /// until the end (or stop); with it, flows that would arrive later are left out.
        arrivals: Option<&'static str> = Kind::Choice(|| vec!["poisson", "periodic", "on-off", "listed"]);
        /// File of listed arrivals, relative to the scenario file. Each line has a time in seconds after `from`, in
        /// ascending order, and optionally a length in bytes; with lengths each flow is a transfer of that length, and
        /// traffic is left out. # begins a comment; the first line may be a heading.
        file: Option<String> = Kind::File;
        /// Mean time between two arrivals.
        every: Option<Span> = SOME_TIME;
        /// In place of every: arrivals at the rate that fills this share of the slowest link on their path, headers of
        /// full packets included.
        load: Option<f64> = Kind::Number { min: 1e-6, max: 1000.0 };
        /// Flows arrive from this time on.
        from: Span = ANY_TIME, default("\"0 s\"");
        /// With on-off: mean of the exponential times with arrivals, which then follow each other faster than every.
        on: Option<Span> = SOME_TIME, or("add on = \"2 s\" and off = \"8 s\"");
        /// With on-off: mean of the exponential times without arrivals.
        off: Option<Span> = SOME_TIME, or("add on = \"2 s\" and off = \"8 s\"");
    }
}

/// Whether the flows of a table arrive one after another.
pub(super) fn arrive(keys: &Keys<'_>) -> bool {
    matches!(&keys.start, Checked::Table(start) if start.has("arrivals"))
}

/// How many flows come before those of a table, as their numbers count them.
pub(super) fn earlier_flows<'k>(
    keys: &'k Keys<'_>,
    count: usize,
    arrived: &mut BTreeMap<&'k str, usize>,
    flows: usize,
) -> usize {
    // Flows that arrive draw their lengths from streams of their names: a class in front must not change these.
    if !arrive(keys) {
        return flows;
    }
    let all = arrived.entry(&keys.name).or_insert(0);
    *all += count;
    *all - count
}

/// When flows start, when they stop, and how many there are, if the table does not say.
pub(super) struct Times {
    pub(super) start: Start,
    pub(super) stop: Option<Time>,
    pub(super) count: Option<u64>,
    /// The arrivals that a file lists, in place of `start`.
    pub(super) listed: Option<Listed>,
}

/// What the load of arriving flows depends on.
pub(super) struct Load<'a> {
    pub(super) transport: &'a Transport,
    pub(super) traffic: &'a Traffic,
    /// Name of the slowest link between their ends and its rate in bit/s.
    pub(super) slowest: (&'a str, f64),
}

/// The times of a table, for a run of `duration`.
pub(super) fn times(
    (table, keys): Table<'_, '_>,
    duration: Span,
    load: &Load<'_>,
    files: &mut InputFiles<'_>,
) -> Result<Times> {
    let stop = keys.stop.map(|stop| Time(stop.0));
    let start = match &keys.start {
        Checked::Span(start) => Start::At(Time(start.0)),
        Checked::Table(start) => {
            let own = StartKeys::read(start)?;
            let end = Time(stop.map_or(duration.0, |stop| stop.0.min(duration.0)));
            match own.arrivals {
                None => uniform(start, &own)?,
                Some("listed") => return listed((table, keys), (start, &own), (end, stop), files),
                Some(kind) => {
                    let (start, count) = arriving((table, keys), (start, &own), kind, end, load)?;
                    return Ok(Times { start, stop, count: Some(count), listed: None });
                }
            }
        }
        _ => panic!("`start` is declared as a time or a table"),
    };
    let latest = match start {
        Start::Uniform(_, to) => to,
        _ => start.earliest(),
    };
    if table.has("start") && latest.0 > duration.0 || matches!(start, Start::At(at) if at.0 == duration.0) {
        let message = format!("the flow starts at {latest}, after the run of {duration}");
        return Err(table.error("start", message, "start it earlier, or raise duration"));
    }
    match stop {
        Some(stop) if stop <= latest => {
            let message = format!("the flow stops at {stop}, before it starts at {latest}");
            Err(table.error("stop", message, &format!("write more than {latest}")))
        }
        _ => Ok(Times { start, stop, count: None, listed: None }),
    }
}

fn uniform(table: &Reader<'_>, keys: &StartKeys) -> Result<Start> {
    if let Some(key) = ["every", "load", "from", "on", "off", "file"].into_iter().find(|key| table.has(key)) {
        let message = format!("{key} is for flows that arrive one after another");
        return Err(table.error(key, message, "add arrivals = \"poisson\", or leave it out"));
    }
    let Some(times) = &keys.uniform else {
        let message = "missing key \"uniform\" or \"arrivals\" in start".to_owned();
        let remedy = "add uniform = [\"0 s\", \"1 s\"], or arrivals = \"poisson\" and every = \"50 ms\"";
        return Err(table.source.error(table.place, message, remedy));
    };
    let [from, to] = times[..] else {
        let message = format!("uniform needs two times, not {}", times.len());
        return Err(table.error("uniform", message, "write [\"0 s\", \"1 s\"]"));
    };
    if from >= to {
        let message = format!("the first time, {from}, is not before the second, {to}");
        return Err(table.error("uniform", message, "write the earlier time first"));
    }
    Ok(Start::Uniform(Time(from.0), Time(to.0)))
}

/// Flows that arrive at the times of a file, until `end`.
fn listed(
    (table, keys): Table<'_, '_>,
    (start, own): (&Reader<'_>, &StartKeys),
    (end, stop): (Time, Option<Time>),
    files: &mut InputFiles<'_>,
) -> Result<Times> {
    if let Some(key) = ["uniform", "every", "load", "on", "off"].into_iter().find(|key| start.has(key)) {
        let message = format!("{key} says when flows arrive, and so does the file");
        return Err(start.error(key, message, "leave it out"));
    }
    let Some(file) = &own.file else {
        let message = "missing key \"file\" in start".to_owned();
        return Err(start.source.error(start.place, message, "add file = \"arrivals.txt\""));
    };
    let listed = files.arrivals(start, file)?;
    if listed[0].bytes.is_some() && table.has("traffic") {
        let message = "the file says how long transfers are, and traffic says what they send".to_owned();
        return Err(table.error("traffic", message, "leave out traffic, or the lengths in the file"));
    }
    let from = Time(own.from.0);
    let fitting = listed.partition_point(|arrival| from + arrival.after < end) as u64;
    if fitting == 0 {
        let message = format!("no flow arrives before {end}: the first would at {}", from + listed[0].after);
        return Err(start.error("file", message, "lower from, or raise duration or stop"));
    }
    let count = match keys.count {
        Some(count) if count > fitting => {
            let message = format!("{count} flows, and {fitting} arrive until {end}");
            let remedy = format!("write count = {fitting} or less, or leave it out");
            return Err(table.error("count", message, &remedy));
        }
        count => count.unwrap_or(fitting),
    };
    let first = listed.iter().take(count as usize);
    let listed: Vec<Arrival> = first.map(|one| Arrival { after: one.after + Span(from.0), ..*one }).collect();
    Ok(Times {
        start: Start::At(Time(listed[0].after.0)),
        stop,
        count: Some(count),
        listed: Some(listed.into()),
    })
}

/// Flows that arrive one after another until `end`, and how many they are.
fn arriving(
    (table, keys): Table<'_, '_>,
    (start, own): (&Reader<'_>, &StartKeys),
    kind: &str,
    end: Time,
    load: &Load<'_>,
) -> Result<(Start, u64)> {
    if start.has("file") {
        let message = "a file lists arrivals, and these are drawn".to_owned();
        return Err(start.error("file", message, "write arrivals = \"listed\", or leave it out"));
    }
    if let Some(key) = ["on", "off"].into_iter().find(|key| start.has(key))
        && kind != "on-off"
    {
        let message = format!("{key} is for arrivals in bursts");
        return Err(start.error(key, message, "write arrivals = \"on-off\", or leave it out"));
    }
    if start.has("uniform") {
        let message = "uniform and arrivals exclude each other".to_owned();
        return Err(start.error("uniform", message, "keep one of them"));
    }
    let from = Time(own.from.0);
    if from >= end {
        let message = format!("no flow can arrive: arrivals begin at {from} and end at {end}");
        return Err(start.error("from", message, "let them arrive earlier, or raise duration or stop"));
    }
    let gap = match (own.every, own.load) {
        (Some(every), None) => every.seconds(),
        (None, Some(share)) => gap_of(table, start, share, load)?,
        (Some(_), Some(_)) => {
            let message = "every and load exclude each other".to_owned();
            return Err(start.error("load", message, "keep one of them"));
        }
        (None, None) => {
            let message = "missing key \"every\" or \"load\" in start".to_owned();
            return Err(start.source.error(start.place, message, "add every = \"50 ms\", or load = 0.5"));
        }
    };
    let is_random = kind != "periodic";
    let time = end.since(from).seconds();
    // Of equal gaps the first flow comes at once, and none at the end.
    let fitting = if is_random { (time / gap).round() } else { (time / gap).ceil() };
    let count = match keys.count {
        Some(count) if count as f64 > fitting.max(1.0) => {
            let last = from + Span::from_seconds(gap * count as f64);
            let message =
                format!("{count} flows, one in {}, arrive until about {last}", Span::from_seconds(gap));
            let remedy = format!(
                "write count = {fitting} or less, or leave it out: then as many arrive as there is time for, until \
                 {end}"
            );
            return Err(table.error("count", message, &remedy));
        }
        Some(count) => count,
        None if fitting > class::most_of(keys) as f64 => {
            let message = format!("{fitting:.0} flows would arrive until {end}");
            let (most, remedy) = (class::most_of(keys), class::remedy(keys));
            return Err(start.error(
                "arrivals",
                message,
                &format!("at most {most} are allowed: write count{remedy}"),
            ));
        }
        None => fitting.max(1.0) as u64,
    };
    let name = keys.name.clone();
    let spacing = match (is_random, keys.count) {
        (false, _) => Spacing::Equal(gap),
        _ if kind == "on-off" => interrupted(start, (own.on, own.off), gap)?,
        (true, Some(_)) => Spacing::Exponential(gap),
        (true, None) => Spacing::Uniform { count, end },
    };
    Ok((Start::After(Arc::new(Arrivals { name, from, spacing })), count))
}

/// Arrivals with this mean gap that come in bursts.
fn interrupted(start: &Reader<'_>, (on, off): (Option<Span>, Option<Span>), gap: f64) -> Result<Spacing> {
    let needed = |key, time: Option<Span>| time.ok_or_else(|| start.missing(start.table.key(key)));
    let (on, off) = (needed("on", on)?.seconds(), needed("off", off)?.seconds());
    let gap = gap * on / (on + off);
    if gap > on * MOST_IDLE {
        let message = format!("only one burst in {:.0} has an arrival", gap / on);
        return Err(start.error("on", message, "lengthen on, or let flows arrive more often"));
    }
    Ok(Spacing::OnOff { gap, on, off })
}

/// Mean seconds between two arrivals that load the slowest link with this share of its rate, headers included.
fn gap_of(table: &Reader<'_>, start: &Reader<'_>, share: f64, load: &Load<'_>) -> Result<f64> {
    let Some(mean) = load.traffic.offered().mean_length() else {
        let message = "a load needs traffic with a length".to_owned();
        let remedy = "write traffic = { kind = \"ftp\", bytes = \"50 kB\" }, or every in place of load";
        return Err(start.error("load", message, remedy));
    };
    let (name, rate) = load.slowest;
    let payload = f64::from(load.transport.payload());
    let packet = match load.transport {
        // What it may send first is shorter.
        Transport::Outside(config) => config.datagram + config.header,
        transport => largest_packet(transport, load.traffic),
    };
    let on_the_wire = mean * f64::from(packet) / payload;
    let gap = on_the_wire * 8.0 / (share * rate);
    if gap < 1e-9 {
        let message = format!("more than one flow in a nanosecond to load link {}", quoted(name));
        return Err(table.error("traffic", message, "lower load, or let transfers be longer"));
    }
    Ok(gap)
}
