//! What JavaScript calls. Errors are JSON texts: `kind`, `message`, and for scenarios `place` and `text`, as the
//! command line prints it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Read};

use js_sys::{Float64Array, Function, Object, Reflect, Uint8Array};
use lasthop_core::time::Time;
use lasthop_net::trace::{Frames, Recording};
use lasthop_net::world::Evaluation;
use lasthop_sim::capture::over_time::Way;
use lasthop_sim::capture::{estimate, read, said, simulated};
use lasthop_sim::run::{self, Progress};
use lasthop_sim::scenario::{self, Files, Format};
use lasthop_sim::shown;
use lasthop_sim::summary::Summary;
use serde_json::json;
use statrs::distribution::{ContinuousCDF, StudentsT};
use wasm_bindgen::prelude::*;

use crate::series::{Rows, Series};
use crate::{describe, edit, replay};

fn refused(kind: &str, message: impl std::fmt::Display) -> JsValue {
    json!({ "kind": kind, "message": message.to_string(), "text": message.to_string() }).to_string().into()
}

/// The version of the engine.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// The JSON schema of scenarios.
#[wasm_bindgen]
pub fn schema() -> String {
    // A form has fields for values, and none for distributions.
    scenario::plain_schema()
}

/// Every helper in the network with its keys, as JSON.
#[wasm_bindgen]
pub fn helpers() -> String {
    scenario::helpers()
}

/// Columns of results, causes of loss and kinds of packets as JSON.
#[wasm_bindgen]
pub fn declarations() -> String {
    describe::declarations().to_string()
}

/// Quantile of Student's t distribution; NaN where there is none.
#[wasm_bindgen(js_name = studentT)]
pub fn student_t(probability: f64, degrees_of_freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees_of_freedom).map_or(f64::NAN, |law| law.inverse_cdf(probability))
}

/// The factor and the multiple of the unit in which a quantity of this size reads well.
#[wasm_bindgen]
pub fn multiple(size: f64, unit: &str) -> Vec<JsValue> {
    let (factor, name) = shown::multiple(size, unit);
    vec![factor.into(), name.into()]
}

/// A mean and half the width of its interval, if it has one; `NaN` stands for an end that is not there.
#[wasm_bindgen(js_name = meanTexts)]
pub fn mean_texts(mean: f64, high: f64, n: usize, factor: f64) -> Vec<String> {
    let high = (!high.is_nan()).then_some(high);
    let of = shown::Estimate { mean, low: high, high, n };
    let (text, half) = shown::mean(&of, factor);
    [text].into_iter().chain(half).collect()
}

/// A difference in words, and its interval alone; `given` is JSON with the fields of `Difference`.
#[wasm_bindgen]
pub fn verdict(given: &str) -> Result<Vec<String>, JsValue> {
    let difference: shown::Difference =
        serde_json::from_str(given).map_err(|error| refused("call", error))?;
    Ok(vec![difference.verdict(), difference.interval()])
}

/// The text of a scenario with another value at `path`.
#[wasm_bindgen(js_name = setValue)]
pub fn set_value(text: &str, path: &str, value: &str) -> Result<String, JsValue> {
    edit::set(text, path, value).map_err(|error| refused("edit", error))
}

/// The text of a scenario without the key at `path`.
#[wasm_bindgen(js_name = removeValue)]
pub fn remove_value(text: &str, path: &str) -> Result<String, JsValue> {
    edit::remove(text, path).map_err(|error| refused("edit", error))
}

/// A checked scenario.
#[wasm_bindgen]
pub struct Scenario {
    inner: scenario::Scenario,
}

#[wasm_bindgen]
impl Scenario {
    /// Reads TOML (JSON if `json`). `overrides` is a JSON list of pairs, `files` a JSON object of texts by name.
    #[wasm_bindgen(constructor)]
    pub fn new(
        text: &str,
        json: bool,
        name: &str,
        overrides: &str,
        files: &str,
    ) -> Result<Scenario, JsValue> {
        let overrides: Vec<(String, String)> =
            serde_json::from_str(overrides).map_err(|error| refused("call", error))?;
        let files: BTreeMap<String, String> =
            serde_json::from_str(files).map_err(|error| refused("call", error))?;
        let format = if json { Format::Json } else { Format::Toml };
        let read =
            scenario::Scenario::parse_with(text, format, (name, Files::Given(&files)), &overrides, &[]);
        match read {
            Ok(inner) => Ok(Scenario { inner }),
            Err(error) => Err(describe::error(&error).to_string().into()),
        }
    }

    /// The scenario of a run with this seed; where that is refused, the run says why.
    fn seeded(&self, seed: u64) -> Cow<'_, scenario::Scenario> {
        self.inner.seeded(seed).unwrap_or(Cow::Borrowed(&self.inner))
    }

    /// The network and the flows as JSON.
    pub fn describe(&self) -> String {
        describe::scenario(&self.inner).to_string()
    }

    /// The scenario after overrides as JSON.
    #[wasm_bindgen(js_name = toJson)]
    pub fn to_json(&self) -> String {
        self.inner.to_json()
    }

    /// When which direction is down in a run with this seed, as JSON.
    pub fn outages(&self, seed: u64) -> String {
        describe::outages(self.seeded(seed).plan(), seed).to_string()
    }

    /// When which host changes its access point in a run with this seed, as JSON.
    pub fn handoffs(&self, seed: u64) -> String {
        describe::handoffs(self.seeded(seed).plan(), seed).to_string()
    }

    /// Runs it and keeps series. `told` hears the simulated seconds now and then; if it answers with something true, it
    /// hears them again with the series so far, an object of the columns named of the tables `flows` and `links`.
    pub fn run(
        &self,
        seed: u64,
        told: &Function,
        flow_columns: Vec<String>,
        link_columns: Vec<String>,
    ) -> Result<Run, JsValue> {
        let scenario = self.inner.seeded(seed).map_err(|error| refused("run", error))?;
        let plan = scenario.plan();
        let mut tell = |seconds: f64, rows: &Rows| {
            // What a page throws at news of progress does not concern the run.
            if told.call1(&JsValue::NULL, &seconds.into()).is_ok_and(|answer| answer.is_truthy()) {
                let tables = Object::new();
                put(&tables, "flows", &columns(&flow_columns, |name| rows.of_flows(name)));
                put(&tables, "links", &columns(&link_columns, |name| rows.of_links(name)));
                drop(told.call2(&JsValue::NULL, &seconds.into(), &tables));
            }
        };
        let mut series = Series::new(plan, &mut tell);
        let how = (Recording { series: true, trace: false, frames: Frames::None }, Evaluation::Eager);
        let run = run::run_into(plan, seed, how, &mut series, &Progress::default());
        let run = run.map_err(|error| refused("run", error))?;
        Ok(Run { summary: run.summary, series: series.finish() })
    }

    /// Runs it and captures what a node sends and receives.
    pub fn capture(&self, seed: u64, node: &str) -> Result<Capture, JsValue> {
        let scenario = self.inner.seeded(seed).map_err(|error| refused("run", error))?;
        let made = simulated::simulate(scenario.plan(), seed, node);
        made.map(Capture::of).map_err(|error| refused("run", error))
    }

    /// Runs it and keeps the packets on links between two times, `most` of them at most. Losses and decisions are those
    /// from the beginning of the run on, whatever the warm-up; so are marks, repairs and collisions if `looks_at_all`.
    /// Without it there are none of these three. `told` hears the simulated seconds now and then. If it answers 1 once
    /// a sender has decided on anything, or 2 once there is a packet, it hears them again with the window so far:
    /// where that ends, and an object of the columns named of each table.
    pub fn replay(
        &self,
        seed: u64,
        from_s: f64,
        to_s: f64,
        most: usize,
        looks_at_all: bool,
        told: &Function,
        tables: &str,
    ) -> Result<Replay, JsValue> {
        let scenario = self.inner.seeded(seed).map_err(|error| refused("run", error))?;
        let mut plan = scenario.plan().clone();
        plan.warmup = lasthop_core::time::Span::ZERO;
        let at = |seconds: f64| Time((seconds.max(0.0) * 1e9) as u64);
        let wanted: BTreeMap<String, Vec<String>> =
            serde_json::from_str(tables).map_err(|error| refused("call", error))?;
        let mut tell = |seconds: f64, window: &replay::Replay<'_>| {
            // What a page throws at news of progress does not concern the run.
            let answer = told.call1(&JsValue::NULL, &seconds.into()).ok().and_then(|answer| answer.as_f64());
            let is_due = match answer {
                Some(1.0) => window.has_decisions(),
                Some(2.0) => window.has_packets(),
                _ => false,
            };
            if is_due {
                let begun = Object::new();
                for (table, names) in &wanted {
                    put(&begun, table, &columns(names, |name| window.column(table, name)));
                }
                drop(told.call3(&JsValue::NULL, &seconds.into(), &window.known_s().into(), &begun));
            }
        };
        let moments = looks_at_all.then(|| replay::Moments::of(&plan));
        let mut window = replay::Replay::new((at(from_s), at(to_s)), most, moments, &mut tell);
        let frames = if looks_at_all { Frames::Collided } else { Frames::None };
        let how = (Recording { series: false, trace: true, frames }, Evaluation::Eager);
        let run = run::run_into(&plan, seed, how, &mut window, &Progress::default());
        let run = run.map_err(|error| refused("run", error))?;
        let Summary { fingerprint, packet_hops, .. } = run.summary;
        Ok(Replay { fingerprint, seen: packet_hops, inner: window.finish() })
    }
}

fn put(object: &Object, name: &str, value: &JsValue) {
    // A plain object takes every property.
    drop(Reflect::set(object, &name.into(), value));
}

fn columns(names: &[String], of: impl Fn(&str) -> Option<Vec<f64>>) -> JsValue {
    let table = Object::new();
    for name in names {
        put(&table, name, &Float64Array::from(of(name).unwrap_or_default().as_slice()));
    }
    table.into()
}

/// A file that the page hands over piece by piece: `read` returns bytes from a place on, at most as many as it is told.
struct Pieces<'a> {
    read: &'a Function,
    at: f64,
    piece: Vec<u8>,
    used: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        const PIECE: f64 = (4 << 20) as f64;
        if self.used == self.piece.len() {
            let found = self.read.call2(&JsValue::NULL, &self.at.into(), &PIECE.into());
            let found = found.map_err(|error| {
                io::Error::other(error.as_string().unwrap_or_else(|| "the browser cannot read it".to_owned()))
            })?;
            self.piece = Uint8Array::new(&found).to_vec();
            self.at += self.piece.len() as f64;
            self.used = 0;
        }
        let rest = &self.piece[self.used..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.used += count;
        Ok(count)
    }
}

/// A capture of packets: real ones, or those of a simulation.
#[wasm_bindgen]
pub struct Capture {
    inner: read::Capture,
    found: serde_json::Value,
}

#[wasm_bindgen]
impl Capture {
    /// Reads a pcap or pcapng file by `read`, which returns the bytes from a place on; of one interface if `only` names
    /// it.
    #[wasm_bindgen(constructor)]
    pub fn new(read: &Function, only: Option<u32>) -> Result<Capture, JsValue> {
        let only = only.map(|number| number.to_string());
        let pieces = Pieces { read, at: 0.0, piece: Vec::new(), used: 0 };
        let inner = read::read_from(pieces, only.as_deref()).map_err(|error| refused("capture", error))?;
        Ok(Capture::of(inner))
    }

    fn of(inner: read::Capture) -> Capture {
        let found = estimate::estimate(&inner);
        Capture { inner, found }
    }

    /// What `lasthop from-capture --json` prints.
    pub fn found(&self) -> String {
        self.found.to_string()
    }

    /// The figures of the path in words, as JSON.
    pub fn figures(&self) -> String {
        json!(said::figures(&self.found)).to_string()
    }

    /// A scenario of the path, as JSON: the text, the connections of its flows, and the node where it was captured.
    pub fn scenario(&self, name: &str) -> String {
        json!(said::scenario(&self.found, name)).to_string()
    }

    /// The connection of a simulation that is this flow of its scenario, and whether its data go the way of the
    /// connection's first packet: two numbers, or none.
    #[wasm_bindgen(js_name = flowOf)]
    pub fn flow_of(&self, flow: u32) -> Vec<u32> {
        let found = simulated::flow_of(&self.inner, flow);
        found.map_or_else(Vec::new, |(number, forward)| vec![number, u32::from(forward)])
    }

    /// One way of a connection over time: an object of tables, each of columns.
    pub fn way(&self, flow: u32, forward: bool) -> JsValue {
        let tables = Object::new();
        for (name, of_table) in Way::of(&self.inner, flow, forward).tables() {
            let table = Object::new();
            for (name, values) in of_table {
                put(&table, name, &Float64Array::from(values.as_slice()));
            }
            put(&tables, name, &table);
        }
        tables.into()
    }
}

/// The figures of two captures beside each other, as JSON; both are what `found` returns.
#[wasm_bindgen]
pub fn beside(first: &str, second: &str) -> Result<String, JsValue> {
    let read = |text: &str| serde_json::from_str(text).map_err(|error| refused("call", error));
    Ok(json!(said::beside(&read(first)?, &read(second)?)).to_string())
}

/// A finished run.
#[wasm_bindgen]
pub struct Run {
    summary: Summary,
    series: Rows,
}

#[wasm_bindgen]
impl Run {
    /// The summary as JSON, as in `runs` of `lasthop run --json`.
    pub fn summary(&self) -> Result<String, JsValue> {
        serde_json::to_string(&self.summary).map_err(|error| refused("run", error))
    }

    /// A column of `flow_series`.
    #[wasm_bindgen(js_name = flowSeries)]
    pub fn flow_series(&self, column: &str) -> Option<Vec<f64>> {
        self.series.of_flows(column)
    }

    /// A column of `radio_series`: all directions of an interval that are radio links, one after the other.
    #[wasm_bindgen(js_name = radioSeries)]
    pub fn radio_series(&self, column: &str) -> Option<Vec<f64>> {
        self.series.of_radios(column)
    }

    /// What devices counted, by the names of their columns, over all directions, interval by interval.
    #[wasm_bindgen(js_name = helperSeries)]
    pub fn helper_series(&self) -> JsValue {
        let table = Object::new();
        for (name, values) in self.series.of_helpers() {
            put(&table, name, &Float64Array::from(values.as_slice()));
        }
        table.into()
    }

    /// A column of `link_series`.
    #[wasm_bindgen(js_name = linkSeries)]
    pub fn link_series(&self, column: &str) -> Option<Vec<f64>> {
        self.series.of_links(column)
    }
}

/// A window of the trace.
#[wasm_bindgen]
pub struct Replay {
    fingerprint: String,
    seen: u64,
    inner: replay::Replay<'static>,
}

#[wasm_bindgen]
impl Replay {
    /// The fingerprint of the run: that of the run without a trace.
    #[wasm_bindgen(getter)]
    pub fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    /// Where the window ends, in seconds.
    #[wasm_bindgen(getter, js_name = endS)]
    pub fn end_s(&self) -> f64 {
        self.inner.end_s()
    }

    /// Packets on links in the whole run.
    #[wasm_bindgen(getter)]
    pub fn seen(&self) -> f64 {
        self.seen as f64
    }

    /// A column of one of the tables `hops`, `sacks`, `windows`, `losses`, `decisions`, `collisions`, `marks` and
    /// `repairs`.
    pub fn column(&self, table: &str, column: &str) -> Option<Vec<f64>> {
        self.inner.column(table, column)
    }
}
