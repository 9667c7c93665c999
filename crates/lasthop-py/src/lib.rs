//! The bridge from lasthop to Python: `lasthop._native`, private to the package `lasthop`.
//!
//! Thin on purpose: it converts, releases the GIL around runs and maps each error to one exception. Types for
//! Python are in `python/lasthop/_native.pyi`.

#![forbid(unsafe_code)]

mod arrow;
mod cells;
mod files;
mod live;
mod network;
mod real;
mod senders;
mod shown;
mod spool;
mod statistics;
mod tables;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lasthop_cc::{ControllerConfig, Param};
use lasthop_core::packet::Cause;
use lasthop_net::history::HistoryEntry;
use lasthop_net::plan::{FlowPlan, QueueLimit, Transport};
use lasthop_net::trace::Sink;
use lasthop_net::trace::{Frames, Recorded, Recording};
use lasthop_net::transport::rate::config::Protocol;
use lasthop_net::transport::tcp::config::{Recovery, TcpConfig};
use lasthop_net::world::{Evaluation, World};
use lasthop_sim::air::AirCapture;
use lasthop_sim::columns;
use lasthop_sim::json;
use lasthop_sim::pcapng::{self, Vantage};
#[cfg(not(feature = "stacks"))]
use lasthop_sim::run as stacks;
use lasthop_sim::run::RunError as EngineError;
use lasthop_sim::scenario::{Files, Format, OwnTransport, STACKS, Scenario};
use lasthop_sim::summary::Summary;
#[cfg(feature = "stacks")]
use lasthop_stacks::scenario as stacks;
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::json;
use spool::{Spool, Wanted};

create_exception!(
    _native,
    ScenarioError,
    PyValueError,
    "A scenario that cannot be run; the text says where and why."
);
create_exception!(
    _native,
    RunError,
    PyRuntimeError,
    "A run that did not reach its end; the text names the limit."
);
create_exception!(_native, Interrupted, RunError, "A run that was cancelled.");

fn scenario_error(error: &lasthop_sim::scenario::ScenarioError) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

fn run_error(error: &EngineError) -> PyErr {
    match error {
        EngineError::Interrupted { .. } => Interrupted::new_err(error.to_string()),
        // Nothing has run: the scenario is not for this build.
        EngineError::NeedsStack { .. } => ScenarioError::new_err(error.to_string()),
        _ => RunError::new_err(error.to_string()),
    }
}

/// A checked scenario. Immutable, so threads may share it.
#[pyclass(frozen)]
struct Plan {
    scenario: Scenario,
    /// Classes that it may name as transports.
    classes: Vec<Py<senders::SenderClass>>,
}

impl Plan {
    /// Where each flow of the scenario begins and ends.
    fn all_ends(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let plan = self.scenario.plan();
        (0..plan.flows.len()).filter(|&flow| plan.flows[flow].has_row()).map(|flow| plan.ends_of(flow))
    }
}

#[pymethods]
impl Plan {
    #[getter]
    fn name(&self) -> &str {
        &self.scenario.plan().name
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.scenario.plan().seed
    }

    #[getter]
    fn duration_s(&self) -> f64 {
        self.scenario.plan().duration.seconds()
    }

    #[getter]
    fn warmup_s(&self) -> f64 {
        self.scenario.plan().warmup.seconds()
    }

    #[getter]
    fn flow_names(&self) -> Vec<&str> {
        self.scenario.plan().flows.iter().map(|flow| flow.name.as_str()).collect()
    }

    /// Names of the nodes at which each flow starts and ends.
    #[getter]
    fn ends(&self) -> Vec<(&str, &str)> {
        let plan = self.scenario.plan();
        let ends = self.all_ends();
        ends.map(|(source, sink)| (plan.nodes[source].as_str(), plan.nodes[sink].as_str())).collect()
    }

    /// Nodes at which flows start or end, and their addresses in captures and live runs.
    #[getter]
    fn hosts(&self) -> Vec<(&str, String)> {
        let plan = self.scenario.plan();
        let nodes: BTreeSet<usize> = self.all_ends().flat_map(|(source, sink)| [source, sink]).collect();
        let named = |node: usize| (plan.nodes[node].as_str(), pcapng::address(node as u32).to_string());
        nodes.into_iter().map(named).collect()
    }

    #[getter]
    fn link_names(&self) -> Vec<&str> {
        self.scenario.plan().links.iter().map(|link| link.name.as_str()).collect()
    }

    /// Transport of each flow.
    #[getter]
    fn transports(&self) -> Vec<&str> {
        let flows = self.scenario.plan().flows.iter();
        flows
            .map(|flow| match &flow.transport {
                Transport::Tcp(config) => config.name.as_str(),
                Transport::Udp(_) => "udp",
                Transport::Rate(config) => config.protocol.name(),
                Transport::Outside(config) => config.name.as_str(),
            })
            .collect()
    }

    /// The files whose contents decide what a run does, beside the scenario itself, as they were opened.
    #[getter]
    fn input_files(&self) -> Vec<OsString> {
        self.scenario.input_files().iter().map(|path| path.clone().into_os_string()).collect()
    }

    /// Frames per second of each flow; `None` for traffic without frames.
    #[getter]
    fn frame_rates(&self) -> Vec<Option<f64>> {
        let rate = |flow: &FlowPlan| flow.traffic.offered().video().map(|frames| frames.frame_rate);
        self.scenario.plan().flows.iter().map(rate).collect()
    }

    /// The first `count` frames of the flow with this number, as a run with this seed would send them.
    fn frames(
        &self,
        py: Python<'_>,
        flow: usize,
        seed: u64,
        count: usize,
    ) -> PyResult<Option<arrow::ArrowTable>> {
        let scenario = self.scenario.seeded(seed).map_err(|error| scenario_error(&error))?;
        let flows = &scenario.plan().flows;
        let flow =
            flows.get(flow).ok_or_else(|| PyValueError::new_err(format!("there is no flow {flow}")))?;
        py.detach(|| tables::frames(flow, seed, count))
    }

    /// Where the history of paths is kept, as the scenario names it.
    #[getter]
    fn history_file(&self) -> Option<&str> {
        self.scenario.plan().history.as_ref().and_then(|history| history.file.as_deref())
    }

    /// The same with what is known of the paths before the run: endpoint, hour, weekday, month, window, week.
    fn with_history(&self, py: Python<'_>, entries: Vec<(String, u8, u8, u8, f64, u8)>) -> Plan {
        let entries = entries.into_iter().map(|(endpoint, hour, weekday, month, window, week)| {
            HistoryEntry { endpoint, hour, weekday, month, window, week }
        });
        Plan {
            scenario: self.scenario.with_history(entries.collect()),
            classes: self.classes.iter().map(|class| class.clone_ref(py)).collect(),
        }
    }

    /// When which direction of a link is down in a run with this seed: name, start and end in seconds.
    fn outages(&self, py: Python<'_>, seed: u64) -> PyResult<Vec<(String, f64, f64)>> {
        let scenario = self.scenario.seeded(seed).map_err(|error| scenario_error(&error))?;
        let plan = scenario.plan();
        let world = py.detach(|| World::new(plan, seed, Recording::default()));
        let names =
            plan.links.iter().flat_map(|link| [link.name.clone(), format!("{} (reverse)", link.name)]);
        let down = names.zip(&world.network.links).flat_map(|(name, link)| {
            let spans = link.outages().iter();
            spans.map(move |(start, end)| (name.clone(), start.seconds(), end.seconds())).collect::<Vec<_>>()
        });
        Ok(down.collect())
    }

    /// Room at the head of each direction of a link, in packets; `None` for a limit in bytes, or none.
    #[getter]
    fn queue_limits(&self) -> Vec<(String, Option<u32>)> {
        let room =
            |limit: &QueueLimit| if let QueueLimit::Packets(packets) = limit { Some(*packets) } else { None };
        let links = self.scenario.plan().links.iter();
        links
            .flat_map(|link| {
                [
                    (link.name.clone(), room(&link.forward.queue.limit)),
                    (format!("{} (reverse)", link.name), room(&link.reverse.queue.limit)),
                ]
            })
            .collect()
    }

    /// Sentences on what its author may not have meant.
    #[getter]
    fn advice(&self) -> Vec<String> {
        lasthop_sim::advice::advice(&self.scenario)
    }

    /// What the way of each flow is made of, as JSON; null for flows that are not TCP.
    fn ways(&self) -> String {
        json::text(json!(lasthop_sim::way::ways(self.scenario.plan())))
    }

    /// Refuses a place at which nothing can be captured.
    fn check_place(&self, name: &str) -> PyResult<()> {
        place_named(self.scenario.plan(), name).map(drop)
    }

    fn to_json(&self) -> String {
        self.scenario.to_json()
    }
}

fn place_named(plan: &lasthop_net::plan::Plan, name: &str) -> PyResult<Vantage> {
    Vantage::named(plan, name).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Shared between the thread that runs and the one that watches.
#[pyclass(frozen)]
#[derive(Default)]
struct Progress {
    inner: Arc<lasthop_sim::run::Progress>,
}

#[pymethods]
impl Progress {
    #[new]
    fn new() -> Progress {
        Progress::default()
    }

    #[getter]
    fn simulated_s(&self) -> f64 {
        self.inner.simulated().seconds()
    }

    #[getter]
    fn packet_hops(&self) -> u64 {
        self.inner.packet_hops()
    }

    #[getter]
    fn events(&self) -> u64 {
        self.inner.events()
    }

    /// Asks the run to stop soon; it then raises `Interrupted`.
    fn cancel(&self) {
        self.inner.cancel();
    }
}

/// A finished run.
#[pyclass(frozen)]
struct RunResult {
    summary: Summary,
    /// What it recorded, unless that lies in files.
    recorded: Option<(Recording, Recorded)>,
    plan: Py<Plan>,
}

#[pymethods]
impl RunResult {
    /// Packets times links: the amount of work.
    #[getter]
    fn packet_hops(&self) -> u64 {
        self.summary.packet_hops
    }

    /// Rows of the large tables that it keeps.
    #[getter]
    fn rows_kept(&self) -> usize {
        self.recorded.as_ref().map_or(0, |(_, recorded)| recorded.rows())
    }

    /// The summary as JSON text.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.summary).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    /// Whether it keeps one of the tables of what it recorded.
    fn has(&self, name: &str) -> bool {
        if !columns::tables::exists(name, self.plan.get().scenario.plan()) {
            return false;
        }
        let recording = self.recorded.as_ref().map_or_else(Recording::default, |(recording, _)| *recording);
        match columns::tables::switch_of(name) {
            Some(columns::tables::SERIES) => recording.series,
            Some(_) if name == "frames" => recording.frames == Frames::All,
            Some(_) => recording.trace,
            None => false,
        }
    }

    /// One of the tables, or `None` if it was not recorded.
    fn table(&self, name: &str) -> PyResult<Option<arrow::ArrowTable>> {
        let plan = self.plan.get().scenario.plan();
        tables::table(name, plan, &self.summary, self.recorded.as_ref())
    }

    /// The flows whose real stacks wrote a log that it keeps.
    fn logged(&self) -> Vec<&str> {
        let kept = self.recorded.iter().flat_map(|(_, recorded)| &recorded.logs);
        let places: BTreeSet<u32> = kept.map(|(flow, _)| *flow).collect();
        let flows = &self.plan.get().scenario.plan().flows;
        places.into_iter().map(|flow| flows[flow as usize].name.as_str()).collect()
    }

    /// Writes the log of one of them.
    #[expect(clippy::needless_pass_by_value, reason = "a path from Python arrives as one of its own")]
    fn write_log(&self, py: Python<'_>, path: PathBuf, flow: &str) -> PyResult<()> {
        let flows = &self.plan.get().scenario.plan().flows;
        let kept = self.recorded.iter().flat_map(|(_, recorded)| &recorded.logs);
        let parts = kept.filter(|(of, _)| flows[*of as usize].name == flow).map(|(_, part)| part);
        let parts: Vec<_> = parts.collect();
        py.detach(|| {
            let mut file = File::create(&path)?;
            parts.iter().try_for_each(|part| file.write_all(part))
        })
        .map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())))
    }

    /// Writes the trace as a pcapng file: what passes at the node or link called `at`, at the `senders` or on all
    /// `links`.
    #[expect(clippy::needless_pass_by_value, reason = "a path from Python arrives as one of its own")]
    fn write_pcapng(&self, py: Python<'_>, path: PathBuf, at: &str) -> PyResult<()> {
        let scenario = &self.plan.get().scenario;
        let plan = scenario.plan();
        let vantage = place_named(plan, at)?;
        let comments = pcapng::about(&scenario.to_json(), self.summary.seed, at);
        let Some((Recording { trace: true, frames: whole, .. }, Recorded { hops, frames, .. })) =
            &self.recorded
        else {
            return Err(PyValueError::new_err("the run keeps no trace in memory; run it with trace=True"));
        };
        if vantage == Vantage::Air && *whole != Frames::All {
            return Err(PyValueError::new_err("the run keeps no frames in memory; run it with frames=True"));
        }
        py.detach(|| -> Result<(), String> {
            let file = File::create(&path).map_err(|error| error.to_string())?;
            let mut writer = BufWriter::new(file);
            if vantage == Vantage::Air {
                let mut air = AirCapture::new(writer, plan, &comments).map_err(|error| error.to_string())?;
                frames.iter().try_for_each(|frame| air.frame(frame)).map_err(|error| error.to_string())?;
                return air.finish().map(drop).map_err(|error| error.to_string());
            }
            pcapng::write_described(&mut writer, plan, hops, vantage, &comments)
                .map_err(|error| error.to_string())?;
            writer.flush().map_err(|error| error.to_string())
        })
        .map_err(|error| PyOSError::new_err(format!("{}: {error}", path.display())))
    }
}

fn own_transports(classes: &[Py<senders::SenderClass>]) -> Vec<OwnTransport> {
    classes.iter().map(|class| class.get().own()).collect()
}

/// Reads and checks a scenario file, which may name `classes` as transports.
#[pyfunction]
#[pyo3(signature = (path, overrides, classes, asked=None))]
#[expect(clippy::needless_pass_by_value, reason = "a list from Python arrives as a vector of its own")]
fn load_scenario(
    path: PathBuf,
    overrides: Vec<(String, String)>,
    classes: Vec<Py<senders::SenderClass>>,
    asked: Option<Vec<String>>,
) -> PyResult<Plan> {
    let own = own_transports(&classes);
    let scenario = match asked {
        None => Scenario::load_with(path, &overrides, &own),
        Some(asked) => Scenario::load_untrusted(path, &overrides, &own, &asked),
    };
    Ok(Plan { scenario: scenario.map_err(|error| scenario_error(&error))?, classes })
}

/// The format called `name`.
fn format_named(name: &str) -> PyResult<Format> {
    match name {
        "toml" => Ok(Format::Toml),
        "json" => Ok(Format::Json),
        other => Err(PyValueError::new_err(format!("unknown format {other:?}: use \"toml\" or \"json\""))),
    }
}

/// What is wrong with the TOML or JSON of a file, with the place and what to do: message and the lines below it.
#[pyfunction]
fn syntax_error(text: &str, format: &str, name: &str) -> PyResult<Option<String>> {
    let error = lasthop_sim::scenario::syntax_error(text, format_named(format)?, name);
    Ok(error.map(|error| error.to_string().replacen("scenario error: ", "", 1)))
}

/// Checks a scenario given as text; `format` is `toml` or `json`. The files that it names are relative to `folder`.
#[pyfunction]
#[pyo3(signature = (text, format, name, overrides, classes, folder=None, asked=None))]
#[expect(clippy::needless_pass_by_value, reason = "a list from Python arrives as a vector of its own")]
fn parse_scenario(
    text: &str,
    format: &str,
    name: &str,
    overrides: Vec<(String, String)>,
    classes: Vec<Py<senders::SenderClass>>,
    folder: Option<PathBuf>,
    asked: Option<Vec<String>>,
) -> PyResult<Plan> {
    let own = own_transports(&classes);
    let folder = folder.as_deref().unwrap_or(Path::new(""));
    let files = asked.as_deref().map_or(Files::In(folder), |asked| Files::Below(folder, asked));
    let scenario = Scenario::parse_with(text, format_named(format)?, (name, files), &overrides, &own)
        .map_err(|error| scenario_error(&error))?;
    Ok(Plan { scenario, classes })
}

/// The JSON schema of scenario files.
#[pyfunction]
fn schema() -> String {
    lasthop_sim::scenario::schema()
}

/// Helpers in the network with their keys, as JSON text.
#[pyfunction]
fn helpers() -> String {
    lasthop_sim::scenario::helpers()
}

/// Every column of every table of results, causes of loss, and which tables are recorded on demand, as JSON text.
#[pyfunction(name = "columns")]
fn declared_columns() -> String {
    let causes = Cause::NAMES.iter().zip(Cause::HELP);
    json::text(json!({
        "columns": columns::all(),
        "causes": causes.map(|(name, help)| json!({ "name": name, "help": help })).collect::<Vec<_>>(),
        "on_demand": columns::tables::ON_DEMAND.iter().copied().collect::<BTreeMap<_, _>>(),
    }))
}

/// Presets, controllers and recovery engines with their parameters, as JSON text.
#[pyfunction]
fn transports() -> String {
    let listed = |list: &[Param]| {
        list.iter()
            .map(|param| {
                json!({
                    "name": param.name, "help": param.help, "default": param.default,
                    "min": param.min, "max": param.max, "switch": param.switch, "choices": param.choices,
                })
            })
            .collect::<Vec<_>>()
    };
    let parameters = |config: &ControllerConfig| listed(&config.params());
    let presets = TcpConfig::PRESETS.iter().map(|preset| {
        let config = ControllerConfig::by_name(preset.controller);
        // A preset named like its law is described by the law; others by what sets them apart.
        let law = config.as_ref().filter(|law| preset.name != "reno" && law.name() == preset.name);
        let summary = law.map_or(preset.summary, ControllerConfig::summary);
        json!({
            "name": preset.name, "kind": "preset", "summary": summary, "controller": preset.controller,
            "recovery": preset.recovery.name(), "recovery_ns2": preset.ns2_recovery.name(),
            "parameters": config.as_ref().map(parameters).unwrap_or_default(),
        })
    });
    let controllers = ControllerConfig::NAMES.iter().filter_map(|name| ControllerConfig::by_name(name)).map(|config| {
        json!({
            "name": config.name(), "kind": "controller", "summary": config.summary(), "controller": config.name(),
            "recovery": null, "parameters": parameters(&config),
        })
    });
    let recoveries = Recovery::NAMES.iter().filter_map(|name| Recovery::by_name(name)).map(|recovery| {
        json!({
            "name": recovery.name(), "kind": "recovery", "summary": recovery.summary(), "controller": null,
            "recovery": recovery.name(), "parameters": [],
        })
    });
    let udp = json!({
        "name": "udp", "kind": "preset", "summary": "No congestion control", "controller": null,
        "recovery": null, "parameters": [],
    });
    let rates = Protocol::NAMES.iter().filter_map(|name| Protocol::by_name(name)).map(|protocol| {
        json!({
            "name": protocol.name(), "kind": "rate", "summary": protocol.summary(), "controller": null,
            "recovery": null, "parameters": listed(&protocol.params()),
        })
    });
    let stacks = STACKS.iter().flat_map(|stack| {
        let own =
            stack.congestion.iter().map(|congestion| ((*congestion).to_owned(), stack.summary.to_owned()));
        let ours = stack.controllers().map(|config| {
            (format!("lasthop:{}", config.name()), format!("{} in {}", config.summary(), stack.name))
        });
        let both: Vec<_> = own.chain(ours).collect();
        both.into_iter().map(move |(congestion, summary)| {
            json!({
                "name": format!("{}:{congestion}", stack.name), "kind": "stack", "summary": summary,
                "controller": null, "recovery": null, "parameters": [],
            })
        })
    });
    json::text(json!(
        presets
            .chain([udp])
            .chain(rates)
            .chain(stacks)
            .chain(controllers)
            .chain(recoveries)
            .collect::<Vec<_>>()
    ))
}

/// Runs a plan; the GIL is released meanwhile. What it records is kept in memory, or written into files in the folder
/// `spool` while the run goes on, `captures` too: places, and names of files. A trace in memory may lack its `frames`.
#[pyfunction]
#[pyo3(signature = (plan, seed, *, series=false, trace=false, frames=None, progress=None, spool=None, captures=None))]
#[expect(clippy::too_many_arguments, reason = "all but two are keywords of a Python function")]
fn run(
    py: Python<'_>,
    plan: Py<Plan>,
    seed: u64,
    series: bool,
    trace: bool,
    frames: Option<bool>,
    progress: Option<Py<Progress>>,
    spool: Option<PathBuf>,
    captures: Option<Vec<(String, String)>>,
) -> PyResult<RunResult> {
    let progress = progress.map_or_else(Arc::default, |progress| Arc::clone(&progress.get().inner));
    let recording =
        Recording { series, trace, frames: if frames.unwrap_or(trace) { Frames::All } else { Frames::None } };
    // What is random has the values of this seed, in the run and in its tables.
    let plan = match plan.get().scenario.seeded(seed).map_err(|error| scenario_error(&error))? {
        Cow::Borrowed(_) => plan,
        Cow::Owned(scenario) => {
            let classes = plan.get().classes.iter().map(|class| class.clone_ref(py)).collect();
            Py::new(py, Plan { scenario, classes })?
        }
    };
    let Plan { scenario, classes } = plan.get();
    let (watched, watch) = (!classes.is_empty())
        .then(|| senders::watched(scenario.plan(), classes, &progress))
        .map_or((None, None), |(watched, watch)| (Some(watched), Some(watch)));
    let engine_plan = watched.as_ref().unwrap_or_else(|| scenario.plan());
    let result = py.detach(|| {
        let Some(folder) = spool else {
            let run = stacks::run(engine_plan, seed, recording, &progress)?;
            return Ok((run.summary, Some((recording, run.recorded))));
        };
        let captures = captures.unwrap_or_default();
        let wanted = Wanted { seed, series, trace, captures, scenario: &scenario.to_json() };
        let mut spool = Spool::new(&folder, engine_plan, &wanted)?;
        let how = (wanted.recording(), Evaluation::Eager);
        let run = stacks::run_into(engine_plan, seed, how, &mut spool, &progress)?;
        spool.finish()?;
        Ok((run.summary, None))
    });
    if let Some(failure) = watch.and_then(|watch| watch.failure()) {
        return Err(failure);
    }
    let (summary, recorded) = result.map_err(|error: Ended| error.into_python())?;
    Ok(RunResult { summary, recorded, plan })
}

/// Why a run has no result.
enum Ended {
    Run(EngineError),
    Files(io::Error),
}

impl Ended {
    fn into_python(self) -> PyErr {
        match self {
            Ended::Run(error) => run_error(&error),
            Ended::Files(error) => {
                RunError::new_err(format!("what the run records cannot be written: {}", reason_of(&error)))
            }
        }
    }
}

/// The system's reason alone, in lower case: libraries of tables put their own words before it.
fn reason_of(error: &io::Error) -> String {
    let text = error.to_string();
    let said = text.split(" (os error").next().unwrap_or_default();
    said.rsplit(": ").next().unwrap_or_default().to_lowercase()
}

impl From<EngineError> for Ended {
    fn from(error: EngineError) -> Ended {
        Ended::Run(error)
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Files(error)
    }
}

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ScenarioError", py.get_type::<ScenarioError>())?;
    module.add("RunError", py.get_type::<RunError>())?;
    module.add("Interrupted", py.get_type::<Interrupted>())?;
    module.add_class::<Plan>()?;
    module.add_class::<Progress>()?;
    module.add_class::<network::Network>()?;
    module.add_class::<RunResult>()?;
    module.add_class::<files::LinkTrace>()?;
    module.add_function(wrap_pyfunction!(files::read_link_trace, module)?)?;
    module.add_function(wrap_pyfunction!(files::read_capture, module)?)?;
    module.add_class::<arrow::ArrowTable>()?;
    module.add_class::<senders::Sender>()?;
    module.add_class::<senders::SenderClass>()?;
    module.add_class::<senders::Ack>()?;
    module.add_class::<senders::AnyAck>()?;
    module.add_class::<senders::Loss>()?;
    module.add_class::<senders::Rate>()?;
    module.add_class::<senders::Signal>()?;
    module.add_function(wrap_pyfunction!(load_scenario, module)?)?;
    module.add_function(wrap_pyfunction!(syntax_error, module)?)?;
    module.add_function(wrap_pyfunction!(parse_scenario, module)?)?;
    module.add_function(wrap_pyfunction!(declared_columns, module)?)?;
    module.add_function(wrap_pyfunction!(statistics::student_t_quantile, module)?)?;
    module.add_function(wrap_pyfunction!(shown::multiple, module)?)?;
    module.add_function(wrap_pyfunction!(shown::number, module)?)?;
    module.add_function(wrap_pyfunction!(shown::mean, module)?)?;
    module.add_function(wrap_pyfunction!(shown::verdict, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)?;
    module.add_function(wrap_pyfunction!(transports, module)?)?;
    module.add_function(wrap_pyfunction!(helpers, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(spool::join_tables, module)?)?;
    module.add("HAS_LIVE", live::IS_THERE)?;
    module.add("HAS_STACKS", cfg!(feature = "stacks"))?;
    module.add_class::<real::CarriedEnd>()?;
    module.add_function(wrap_pyfunction!(real::carry_stack, module)?)?;
    module.add_function(wrap_pyfunction!(live::emulate, module)?)?;
    module.add_function(wrap_pyfunction!(live::run_script, module)?)?;
    module.add_function(wrap_pyfunction!(live::check_script, module)?)?;
    module.add_function(wrap_pyfunction!(live::play_situation, module)?)?;
    module.add_function(wrap_pyfunction!(live::script_inputs, module)?)?;
    module.add_function(wrap_pyfunction!(live::replay_script, module)?)?;
    module.add_function(wrap_pyfunction!(live::check_live, module)?)?;
    module.add_function(wrap_pyfunction!(live::check_steer, module)?)?;
    module.add_function(wrap_pyfunction!(live::rehearse_live, module)?)?;
    module.add_function(wrap_pyfunction!(live::steer, module)?)?;
    module.add_function(wrap_pyfunction!(live::steer_sessions, module)?)?;
    module.add_function(wrap_pyfunction!(live::steer_twins, module)?)?;
    module.add_function(wrap_pyfunction!(live::steer_clean, module)?)?;
    module.add_function(wrap_pyfunction!(live::steer_place, module)?)?;
    Ok(())
}
