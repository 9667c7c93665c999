//! Live runs for Python; in a build without them, or on another system, an error that says so.

use std::sync::Arc;

use lasthop_sim::script::{Outcome, Script};
use pyo3::prelude::*;

use crate::{Plan, Progress, RunError};

/// Whether this build can run real packets.
pub(crate) const IS_THERE: bool = cfg!(all(feature = "live", target_os = "linux"));

/// A program at a host: the name of the host, and the words of the command.
type Words = (String, Vec<String>);

/// Runs the network of a plan between namespaces; returns the summary and the report on time as JSON text. The GIL is
/// released meanwhile.
#[pyfunction]
#[pyo3(signature = (plan, seed, *, main=None, others=None, kernel=None, budget_s, mark, progress=None))]
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
    progress: Option<Py<Progress>>,
) -> PyResult<String> {
    let progress = progress.map_or_else(Arc::default, |progress| Arc::clone(&progress.get().inner));
    let wanted = Wanted { seed, main, others: others.unwrap_or_default(), kernel, budget_s, mark };
    let scenario = plan.get().scenario.plan();
    py.detach(|| run(scenario, wanted, &progress))
}

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
    let head = &script.head;
    let told = serde_json::json!({
        "title": head.title,
        "sources": head.sources,
        "not_on_kernel": head.not_on_kernel,
        "ran": outcome.is_some(),
        "failure": outcome.as_ref().and_then(|outcome| outcome.failure.as_ref()),
        "log": outcome.as_ref().map(|outcome| &outcome.log),
    });
    serde_json::to_string(&told).map_err(|error| RunError::new_err(error.to_string()))
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
}

#[cfg(all(feature = "live", target_os = "linux"))]
fn run(
    scenario: &lasthop_net::plan::Plan,
    wanted: Wanted,
    progress: &lasthop_sim::run::Progress,
) -> PyResult<String> {
    use lasthop_core::time::Span;
    use lasthop_live::{Emulated, LiveError, Order, Program, emulate};

    let program = |(node, words): Words| Program { node, words };
    let order = Order {
        seed: wanted.seed,
        main: wanted.main.map(program),
        others: wanted.others.into_iter().map(program).collect(),
        kernel: wanted.kernel,
        budget: Span::from_seconds(wanted.budget_s),
        mark: wanted.mark,
    };
    let Emulated { summary, report } = emulate(scenario, &order, progress).map_err(|error| {
        let text = error.to_string();
        match error {
            LiveError::Interrupted(_) => crate::Interrupted::new_err(text),
            LiveError::Plan(_)
            | LiveError::NoHost { .. }
            | LiveError::Flow { .. }
            | LiveError::Algorithm { .. } => crate::ScenarioError::new_err(text),
            _ => RunError::new_err(text),
        }
    })?;
    serde_json::to_string(&serde_json::json!({ "summary": summary, "live": report }))
        .map_err(|error| RunError::new_err(error.to_string()))
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn run(_: &lasthop_net::plan::Plan, wanted: Wanted, _: &lasthop_sim::run::Progress) -> PyResult<String> {
    let Wanted { seed: _, main: _, others: _, kernel: _, budget_s: _, mark: _ } = wanted;
    Err(RunError::new_err(WITHOUT))
}

/// What a build says that cannot.
#[cfg(not(all(feature = "live", target_os = "linux")))]
const WITHOUT: &str = if cfg!(target_os = "linux") {
    "this build of lasthop has no live part: build it with the feature 'live', which is on by default"
} else {
    "real packets need Linux: its namespaces, and its TUN device"
};
