//! Figures as people read them; `lasthop.tables` and `lasthop.comparison` call it. The page has the same functions.

use lasthop_sim::shown::{self, Difference, Estimate, Words};
use pyo3::prelude::*;

/// Mean, ends of the interval, number of seeds.
type Given = (f64, Option<f64>, Option<f64>, usize);
/// Label, unit, whether it is a share, and the words for more, less and several times as much.
type GivenWords = (String, String, bool, String, String, String);

fn estimate((mean, low, high, n): Given) -> Estimate {
    Estimate { mean, low, high, n }
}

/// The factor and the multiple of the unit in which a quantity of this size reads well.
#[pyfunction]
pub(crate) fn multiple(size: f64, unit: &str) -> (f64, String) {
    let (factor, name) = shown::multiple(size, unit);
    (factor, name.to_owned())
}

/// A number with three significant digits.
#[pyfunction]
pub(crate) fn number(value: f64) -> String {
    shown::number(value)
}

/// A mean and half the width of its interval.
#[pyfunction]
pub(crate) fn mean(of: Given, factor: f64) -> (String, Option<String>) {
    shown::mean(&estimate(of), factor)
}

/// A difference in words, and its interval alone.
#[pyfunction]
pub(crate) fn verdict(
    words: GivenWords,
    names: (String, String),
    difference: Option<Given>,
    relative: Option<Given>,
    same: bool,
) -> (String, String) {
    let (label, unit, share, more, less, times) = words;
    let (sender, baseline) = names;
    let words = Words { label, unit, share, more, less, times };
    let (estimate, relative) = (difference.map(estimate), relative.map(estimate));
    let difference = Difference { words, sender, baseline, estimate, relative, same };
    (difference.verdict(), difference.interval())
}
