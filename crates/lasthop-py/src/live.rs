//! Live runs for Python; in a build without them, or on another system, an error that says so.

use std::path::PathBuf;
use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_net::trace::{Frames, Recorded, Recording};
use lasthop_sim::json;
use lasthop_sim::script::{Outcome, Script, Situation, play};
use lasthop_sim::summary::Summary;
use pyo3::prelude::*;

use crate::{Plan, Progress, RunError, RunResult};

/// Whether this build can run real packets.
pub(crate) const IS_THERE: bool = cfg!(all(feature = "live", target_os = "linux"));

/// The way out of the network: the node of its host, addresses of name servers, and what connects its
/// namespace, called with the path of that.
type WayOut = (String, Vec<[u8; 4]>, Py<PyAny>);

/// A program at a host: the name of the host, and the words of the command.
type Words = (String, Vec<String>);

/// Runs the network of a plan between namespaces; returns the summary and the report on time as JSON text, and the
/// result with what was recorded. The GIL is released meanwhile.
#[pyfunction]
#[pyo3(signature = (plan, seed, *, main=None, others=None, kernel=None, budget_s, mark, series=false, trace=false,
    captures=None, snaplen=65_535, nested=None, outside=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "all but two are keywords of a Python function")]
pub(crate) fn emulate(
    py: Python<'_>,
    plan: &Bound<'_, Plan>,
    seed: u64,
    main: Option<Words>,
    others: Option<Vec<Words>>,
    kernel: Option<String>,
    budget_s: f64,
    mark: String,
    series: bool,
    trace: bool,
    captures: Option<Vec<(String, PathBuf)>>,
    snaplen: u32,
    nested: Option<u8>,
    outside: Option<WayOut>,
    progress: Option<Py<Progress>>,
) -> PyResult<(String, RunResult)> {
    let progress = progress.map_or_else(Arc::default, |progress| Arc::clone(&progress.get().inner));
    let recording = Recording { series, trace, frames: if trace { Frames::All } else { Frames::None } };
    let (others, captures) = (others.unwrap_or_default(), captures.unwrap_or_default());
    let captures = (captures, snaplen);
    let wanted = Wanted { seed, main, others, kernel, budget_s, mark, recording, captures, nested, outside };
    let scenario = plan.get().scenario.seeded(seed).map_err(|error| crate::scenario_error(&error))?;
    let (text, summary, plan, recorded) = py.detach(|| run(&scenario, wanted, &progress))?;
    let plan = Py::new(py, Plan { scenario: scenario.with_plan(plan), classes: Vec::new() })?;
    Ok((text, RunResult { summary, recorded: Some((recording, recorded)), plan }))
}

/// What comes of a live run: text, summary, the plan that it is told by, and what was recorded.
type Outcomes = (String, Summary, lasthop_net::plan::Plan, Recorded);

/// Runs a script of one end of a connection against the engine, or against the kernel; returns what came of it as JSON
/// text. `name` stands for its file in messages.
#[pyfunction]
#[pyo3(signature = (text, name, *, kernel=false))]
pub(crate) fn run_script(py: Python<'_>, text: &str, name: &str, kernel: bool) -> PyResult<String> {
    let script =
        Script::read(text, name).map_err(|error| crate::ScenarioError::new_err(error.to_string()))?;
    let outcome = py.detach(|| {
        if kernel {
            return on_kernel(&script);
        }
        script.simulate().map(Some).map_err(|error| RunError::new_err(error.to_string()))
    })?;
    let mut told = about(&script);
    Outcome::tell(outcome.as_ref(), &mut told);
    Ok(json::text(told))
}

/// Reads a script without running it; returns what its head says, as JSON text.
#[pyfunction]
pub(crate) fn check_script(text: &str, name: &str) -> PyResult<String> {
    let script =
        Script::read(text, name).map_err(|error| crate::ScenarioError::new_err(error.to_string()))?;
    Ok(json::text(about(&script)))
}

/// What the head of a script says of it.
fn about(script: &Script) -> serde_json::Value {
    let head = &script.head;
    serde_json::json!({ "title": head.title, "sources": head.sources, "not_on_kernel": head.not_on_kernel })
}

/// Plays a random situation, given as JSON, against the engine; returns its script.
#[pyfunction]
pub(crate) fn play_situation(py: Python<'_>, text: &str) -> PyResult<String> {
    let wrong = |text: String| crate::ScenarioError::new_err(text);
    let situation: Situation = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    py.detach(|| play(&situation)).map_err(wrong)
}

/// How many things a script does to a stack.
#[pyfunction]
pub(crate) fn script_inputs(text: &str) -> PyResult<usize> {
    let script = Script::read(text, "script");
    script.map(|script| script.inputs()).map_err(|error| crate::ScenarioError::new_err(error.to_string()))
}

/// What the engine does when only these things of a script are done to it, as a script; `None` if they make no sense
/// without the others. `until_s`: where it ends, in seconds.
#[pyfunction]
pub(crate) fn replay_script(
    py: Python<'_>,
    text: &str,
    kept: Vec<usize>,
    until_s: f64,
) -> PyResult<Option<String>> {
    let script = Script::read(text, "script");
    let script = script.map_err(|error| crate::ScenarioError::new_err(error.to_string()))?;
    Ok(py.detach(move || script.replayed(&kept, Time::ZERO + Span::from_seconds(until_s))))
}

#[cfg(all(feature = "live", target_os = "linux"))]
fn on_kernel(script: &Script) -> PyResult<Option<Outcome>> {
    lasthop_live::run_script(script).map_err(|error| RunError::new_err(error.to_string()))
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn on_kernel(_: &Script) -> PyResult<Option<Outcome>> {
    Err(RunError::new_err(WITHOUT))
}

/// What Python asks for.
struct Wanted {
    seed: u64,
    main: Option<Words>,
    others: Vec<Words>,
    kernel: Option<String>,
    budget_s: f64,
    mark: String,
    recording: Recording,
    /// Places and files, and how much is stored of each packet.
    captures: (Vec<(String, PathBuf)>, u32),
    /// Where its hosts have their addresses, if it is within another run.
    nested: Option<u8>,
    /// The way out of the network.
    outside: Option<WayOut>,
}

#[cfg(all(feature = "live", target_os = "linux"))]
fn run(
    scenario: &lasthop_sim::scenario::Scenario,
    wanted: Wanted,
    progress: &lasthop_sim::run::Progress,
) -> PyResult<Outcomes> {
    use lasthop_live::steer::SteerError;
    use lasthop_live::{CaptureOrder, Emulated, LiveError, Order, Outside, Program, emulate};
    use lasthop_sim::pcapng;

    let program = |(node, words): Words| Program { node, words };
    let text = scenario.to_json();
    let (captures, snaplen) = wanted.captures;
    let captures = captures.into_iter().map(|(place, file)| {
        let comments = pcapng::about(&text, wanted.seed, &place);
        CaptureOrder { place, file, comments, snaplen }
    });
    let (outside, connect) = wanted
        .outside
        .map(|(node, dns, connect)| {
            let dns = dns.into_iter().map(Into::into).collect();
            (Outside { node, dns }, connect)
        })
        .unzip();
    let mut failure = None;
    let mut connected = |namespace: std::os::fd::BorrowedFd<'_>| {
        use std::os::fd::AsRawFd;
        let Some(connect) = &connect else { return Ok(()) };
        let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
        Python::attach(|py| connect.call1(py, (path,)).map(drop)).map_err(|error| {
            let text = error.to_string();
            failure = Some(error);
            std::io::Error::other(text)
        })
    };
    let order = Order {
        seed: wanted.seed,
        main: wanted.main.map(program),
        others: wanted.others.into_iter().map(program).collect(),
        kernel: wanted.kernel,
        budget: Span::from_seconds(wanted.budget_s),
        mark: wanted.mark,
        recording: wanted.recording,
        captures: captures.collect(),
        nested: wanted.nested,
        outside,
    };
    let done = emulate(scenario.plan(), &order, &mut connected, progress);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let done = done.map_err(|error| {
        let text = error.to_string();
        match error {
            LiveError::Plan(_)
            | LiveError::NoHost { .. }
            | LiveError::Flow { .. }
            | LiveError::Algorithm { .. }
            | LiveError::Steer(
                SteerError::Unknown(_) | SteerError::Unmet { .. } | SteerError::NoTwin { .. },
            ) => crate::ScenarioError::new_err(text),
            other => run_error(&other),
        }
    })?;
    let text = json::text(done.to_json().map_err(|error| RunError::new_err(error.to_string()))?);
    let Emulated { summary, plan, recorded, .. } = done;
    Ok((text, summary, plan, recorded))
}

/// A program that is not there, or cannot be started, has the exit code that env(1) gives it.
#[cfg(all(feature = "live", target_os = "linux"))]
fn run_error(error: &lasthop_live::LiveError) -> PyErr {
    use lasthop_live::LiveError;

    let text = error.to_string();
    match error {
        LiveError::Program { error, .. } if error.kind() == std::io::ErrorKind::NotFound => {
            RunError::new_err((text, 127))
        }
        LiveError::Program { .. } => RunError::new_err((text, 126)),
        _ => RunError::new_err(text),
    }
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn run(
    _: &lasthop_sim::scenario::Scenario,
    wanted: Wanted,
    _: &lasthop_sim::run::Progress,
) -> PyResult<Outcomes> {
    let Wanted {
        seed: _,
        main: _,
        others: _,
        kernel: _,
        budget_s: _,
        mark: _,
        recording: _,
        captures: _,
        nested: _,
        outside: _,
    } = wanted;
    Err(RunError::new_err(WITHOUT))
}

/// Refuses a plan that has no live counterpart; a build without live runs refuses none.
#[pyfunction]
pub(crate) fn check_live(plan: &Bound<'_, Plan>) -> PyResult<()> {
    counterpart(plan.get().scenario.plan())
}

#[cfg(all(feature = "live", target_os = "linux"))]
fn counterpart(plan: &lasthop_net::plan::Plan) -> PyResult<()> {
    let live = lasthop_live::plan::LivePlan::new(plan);
    live.map(|_| ()).map_err(|error| crate::ScenarioError::new_err(error.to_string()))
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as where it can refuse")]
fn counterpart(_: &lasthop_net::plan::Plan) -> PyResult<()> {
    Ok(())
}

/// Refuses a law that is none, or that the kernel cannot serve; or one that has no twin in it.
#[pyfunction]
#[pyo3(signature = (law, *, in_kernel=false))]
pub(crate) fn check_steer(law: &str, in_kernel: bool) -> PyResult<()> {
    steering::check(law, in_kernel)
}

/// Does what every live run does first, and takes it away again; the error says what the kernel refuses.
#[pyfunction]
pub(crate) fn rehearse_live(py: Python<'_>) -> PyResult<()> {
    py.detach(rehearsed)
}

#[cfg(all(feature = "live", target_os = "linux"))]
fn rehearsed() -> PyResult<()> {
    lasthop_live::rehearse().map_err(|error| RunError::new_err(error.to_string()))
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn rehearsed() -> PyResult<()> {
    Err(RunError::new_err(WITHOUT))
}

/// Lets a law decide for the kernel's TCP while a command runs; without one, until it is interrupted. `told` is called
/// with the name of the congestion control. Returns what was done and the status of the command as JSON text.
#[pyfunction]
#[pyo3(signature = (law, command, *, resume=None, in_kernel=false, mark, told, progress=None))]
#[expect(clippy::too_many_arguments, reason = "all but two are keywords of a Python function")]
pub(crate) fn steer(
    py: Python<'_>,
    law: &str,
    command: Vec<String>,
    resume: Option<String>,
    in_kernel: bool,
    mark: String,
    told: &Bound<'_, PyAny>,
    progress: Option<Py<Progress>>,
) -> PyResult<String> {
    let told = told.clone().unbind();
    let progress = progress.map_or_else(Arc::default, |progress| Arc::clone(&progress.get().inner));
    py.detach(|| steering::run((law, in_kernel), command, resume, mark, &told, &progress))
}

/// The sessions that are registered, as JSON text.
#[pyfunction]
pub(crate) fn steer_sessions() -> PyResult<String> {
    steering::sessions()
}

/// The laws that are registered to decide in the kernel, as JSON text.
#[pyfunction]
pub(crate) fn steer_twins() -> PyResult<String> {
    steering::twins()
}

/// Takes away sessions and laws whose process has gone; returns their names.
#[pyfunction]
pub(crate) fn steer_clean() -> PyResult<Vec<String>> {
    steering::clean()
}

/// Where the command of a session would run: "by name", "emulated" or "own".
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "what Python gives is ours")]
pub(crate) fn steer_place(command: Vec<String>) -> PyResult<&'static str> {
    steering::place(&command)
}

#[cfg(all(feature = "live", target_os = "linux"))]
mod steering {
    use lasthop_live::steer::{self, SteerError};
    use lasthop_live::{Law, LiveError, Place, SteerOrder, steer_command, twin};
    use pyo3::prelude::*;

    use crate::RunError;

    fn refused(error: &SteerError) -> PyErr {
        let text = error.to_string();
        match error {
            SteerError::Unknown(_)
            | SteerError::Unmet { .. }
            | SteerError::NoTwin { .. }
            | SteerError::Session { .. } => crate::ScenarioError::new_err(text),
            _ => RunError::new_err(text),
        }
    }

    pub(super) fn check(law: &str, in_kernel: bool) -> PyResult<()> {
        let checked = steer::law(law).and_then(|_| if in_kernel { twin::check(law) } else { Ok(()) });
        checked.map_err(|error| refused(&error))
    }

    pub(super) fn run(
        (law, in_kernel): (&str, bool),
        words: Vec<String>,
        resume: Option<String>,
        mark: String,
        told: &Py<PyAny>,
        progress: &lasthop_sim::run::Progress,
    ) -> PyResult<String> {
        let config = steer::law(law).map_err(|error| refused(&error))?;
        let law = match resume {
            _ if in_kernel => Law::InKernel(law.to_owned()),
            Some(name) => Law::Resumed(config, name),
            None => Law::Beside(config),
        };
        let order = SteerOrder { law, words, mark };
        let mut failure = None;
        let tell = |name: &str| {
            failure = Python::attach(|py| told.call1(py, (name,)).err());
        };
        let done = steer_command(&order, progress, tell).map_err(|error| match &error {
            LiveError::Steer(error) => refused(error),
            other => super::run_error(other),
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let (done, status) = done?;
        Ok(lasthop_sim::json::text(serde_json::json!({ "done": done, "program_status": status })))
    }

    pub(super) fn twins() -> PyResult<String> {
        let all = serde_json::to_value(twin::twins());
        all.map(lasthop_sim::json::text).map_err(|error| RunError::new_err(error.to_string()))
    }

    pub(super) fn sessions() -> PyResult<String> {
        let found = steer::sessions().map_err(|error| refused(&error))?;
        Ok(lasthop_sim::json::text(serde_json::json!(found)))
    }

    pub(super) fn clean() -> PyResult<Vec<String>> {
        let sessions = steer::clean().map_err(|error| refused(&error))?;
        let twins = twin::clean().map_err(|error| refused(&error))?;
        Ok([sessions, twins].concat())
    }

    pub(super) fn place(words: &[String]) -> PyResult<&'static str> {
        Ok(match Place::of(words).map_err(|error| RunError::new_err(error.to_string()))? {
            Place::ByName => "by name",
            Place::Emulated => "emulated",
            Place::Own => "own",
        })
    }
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
mod steering {
    use pyo3::prelude::*;

    use crate::RunError;

    fn without<T>() -> PyResult<T> {
        Err(RunError::new_err(super::WITHOUT))
    }

    pub(super) fn check(_: &str, _: bool) -> PyResult<()> {
        without()
    }

    pub(super) fn twins() -> PyResult<String> {
        without()
    }

    pub(super) fn run(
        _: (&str, bool),
        _: Vec<String>,
        _: Option<String>,
        _: String,
        _: &Py<PyAny>,
        _: &lasthop_sim::run::Progress,
    ) -> PyResult<String> {
        without()
    }

    pub(super) fn sessions() -> PyResult<String> {
        without()
    }

    pub(super) fn clean() -> PyResult<Vec<String>> {
        without()
    }

    pub(super) fn place(_: &[String]) -> PyResult<&'static str> {
        without()
    }
}

/// What a build says that cannot.
#[cfg(not(all(feature = "live", target_os = "linux")))]
const WITHOUT: &str = if cfg!(target_os = "linux") {
    "this build of lasthop has no live part: build it with the feature 'live', which is on by default"
} else {
    "real packets need Linux: its namespaces, and its TUN device"
};
