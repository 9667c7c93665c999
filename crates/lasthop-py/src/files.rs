//! Files that people bring, for Python: what `lasthop trace` shows and converts.

use std::path::PathBuf;

use lasthop_core::time::Span;
use lasthop_sim::capture;
use lasthop_sim::json::text;
use lasthop_sim::link_trace::{LinkTrace as Read, Target};
use lasthop_sim::scenario::Way;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::json;

use crate::scenario_error;

/// A file of what a link did over time.
#[pyclass(frozen)]
pub(crate) struct LinkTrace {
    read: Read,
}

#[pymethods]
impl LinkTrace {
    /// What the file says, as JSON.
    fn summary(&self) -> String {
        text(self.read.summary())
    }

    /// Mean rates in bit/s of intervals of `width_s`; `None` without rates, or with too many intervals.
    fn bins(&self, width_s: f64) -> Option<Vec<f64>> {
        self.read.bins(span_of(width_s))
    }

    /// The same in another format.
    fn convert(&self, py: Python<'_>, target: &str, width_s: f64) -> PyResult<String> {
        let Some(target) = Target::by_name(target) else {
            let known = Target::NAMES.join(", ");
            return Err(PyValueError::new_err(format!("unknown format {target:?}: use one of {known}")));
        };
        py.detach(|| self.read.convert(target, span_of(width_s))).map_err(PyValueError::new_err)
    }
}

/// Reads the file at `path`; `way` says which of two rates is meant.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "the form that Python's arguments take")]
pub(crate) fn read_link_trace(py: Python<'_>, path: PathBuf, way: &str) -> PyResult<LinkTrace> {
    let Some(way) = Way::by_name(way) else {
        let known = Way::NAMES.join(", ");
        return Err(PyValueError::new_err(format!("unknown direction {way:?}: use one of {known}")));
    };
    let read = py.detach(|| Read::read(&path, way)).map_err(|error| scenario_error(&error))?;
    Ok(LinkTrace { read })
}

/// At least a nanosecond.
fn span_of(seconds: f64) -> Span {
    Span(((seconds * 1e9) as u64).max(1))
}

/// What a capture holds, and a first estimate of its path, as JSON: what was `found`, the `figures` in words and the
/// `scenario`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "the form that Python's arguments take")]
#[pyo3(signature = (path, only=None))]
pub(crate) fn read_capture(py: Python<'_>, path: PathBuf, only: Option<String>) -> PyResult<String> {
    let found = py
        .detach(|| capture::read::read(&path, only.as_deref()).map(|read| capture::estimate::estimate(&read)))
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (figures, scenario) = (capture::said::figures(&found), capture::said::scenario(&found, &name));
    Ok(text(json!({ "found": found, "figures": figures, "scenario": scenario })))
}
