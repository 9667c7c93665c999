//! `mpeg4`: video as three TES models.

use std::sync::Arc;

use lasthop_net::plan::{FramePlan, Traffic};
use lasthop_net::traffic::video::{Distribution, JURASSIC_PARK, Sizes, TesModel, TesPlan};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::Kind;
use super::super::reader::Reader;
use super::frames::{FrameKeys, gop};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "mpeg4";
pub(super) const BARE: bool = true;

const SHARE: Kind = Kind::Number { min: 0.0, max: 1.0 };

/// Probability and bytes of each quantile.
const QUANTILES: Kind = Kind::List(&Kind::List(&Kind::Number { min: 0.0, max: 1e9 }));

table! {
    /// Video: the sizes of I, P and B frames are three TES models with the autocorrelation and the distributions of a
    /// public MPEG-4 trace ("Jurassic Park I", high quality), 768.3 kbit/s unless scaled.
    pub(super) static TABLE = "mpeg4 traffic";
    struct Keys {
        use frame: FrameKeys;
        /// Types of the frames of a group of pictures, in the order of transmission.
        gop: String = Kind::Text, default("\"IBBPBBPBBPBB\"");
        /// Each model has a background of its own, or one that advances with every frame serves all.
        background: &'static str = Kind::Choice(|| vec!["independent", "shared"]), default("\"independent\"");
        /// Width of the innovation of I frames.
        alpha_i: f64 = SHARE, default("0.15");
        /// Width of the innovation of P frames.
        alpha_p: f64 = SHARE, default("0.1");
        /// Width of the innovation of B frames.
        alpha_b: f64 = SHARE, default("0.056");
        /// Width of the innovation of the shared background.
        alpha_shared: f64 = SHARE, default("0.046");
        /// Asymmetry of the innovations: 0 is symmetric, 1 only rises, -1 only falls.
        phi: f64 = Kind::Number { min: -1.0, max: 1.0 }, default("0");
        /// Parameter xi of the stitching: where the background is at its top.
        stitching: f64 = SHARE, default("0.5");
        /// TES+, or TES-: every other value of the background is mirrored.
        tes: &'static str = Kind::Choice(|| vec!["plus", "minus"]), default("\"plus\"");
        /// First value of every background. Default: drawn at random for each flow and model.
        initial: Option<f64> = SHARE;
        /// Distribution of I frames: pairs of probability and bytes, rising from 0 to 1, linear in between. Default:
        /// that of the trace.
        i: Option<Vec<Vec<f64>>> = QUANTILES;
        /// The same of P frames.
        p: Option<Vec<Vec<f64>>> = QUANTILES;
        /// The same of B frames.
        b: Option<Vec<Vec<f64>>> = QUANTILES;
    }
}

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic> {
    Ok(Traffic::Frames(Arc::new(models(table)?)))
}

/// Three TES models.
fn models(table: &Reader<'_>) -> Result<FramePlan> {
    let keys = Keys::read(table)?;
    let gop = gop(table, &keys.gop)?;
    let model = |number: usize, alpha, (key, knots): (&str, &Option<Vec<Vec<f64>>>)| -> Result<TesModel> {
        let own = knots.as_ref().map(|knots| quantiles(table, key, knots)).transpose()?;
        let distribution = own.unwrap_or_else(|| Arc::clone(&JURASSIC_PARK[number]));
        Ok(TesModel { alpha, distribution })
    };
    let shared = keys.background == "shared";
    let (unused, other): (&[&str], &str) = if shared {
        (&["alpha_i", "alpha_p", "alpha_b"], "alpha_shared")
    } else {
        (&["alpha_shared"], "alpha_i, alpha_p and alpha_b")
    };
    if let Some(key) = unused.iter().find(|key| table.has(key)) {
        let message = format!("{key} has no effect: the background is {}", keys.background);
        return Err(table.error(key, message, &format!("leave it out: the widths are those of {other}")));
    }
    let models = [
        model(0, keys.alpha_i, ("i", &keys.i))?,
        model(1, keys.alpha_p, ("p", &keys.p))?,
        model(2, keys.alpha_b, ("b", &keys.b))?,
    ];
    let tes = TesPlan {
        gop,
        models,
        shared: shared.then_some(keys.alpha_shared),
        phi: keys.phi,
        stitching: keys.stitching,
        minus: keys.tes == "minus",
        first: keys.initial,
    };
    Ok(keys.frame.scaled(Sizes::Tes(tes)))
}

/// The distribution of the user's own that `key` gives.
fn quantiles(table: &Reader<'_>, key: &str, knots: &[Vec<f64>]) -> Result<Arc<Distribution>> {
    let pair = |pair: &Vec<f64>| <[f64; 2]>::try_from(&pair[..]).ok().map(|[p, bytes]| (p, bytes));
    let distribution = knots.iter().map(pair).collect::<Option<Vec<_>>>().and_then(Distribution::new);
    if let Some(distribution) = distribution {
        return Ok(Arc::new(distribution));
    }
    let message = format!("{key} is not a distribution");
    let remedy = "write pairs of probability and bytes that rise, the first of 0 and the last of 1: \
                  [[0, 500], [0.5, 4000], [1, 9000]]";
    Err(table.error(key, message, remedy))
}
