//! `mpeg4`: video as three TES models.

use std::sync::Arc;

use lasthop_net::plan::{FramePlan, Traffic};
use lasthop_net::traffic::video::{Distribution, JURASSIC_PARK, Sizes, TesModel, TesPlan};

use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{Key, Kind, Table};
use super::super::reader::{Checked, Item, Reader};
use super::frames::{FRAME_KEYS, gop, scaled};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "mpeg4";
pub(super) const BARE: bool = true;

const SHARE: Kind = Kind::Number { min: 0.0, max: 1.0 };

/// Probability and bytes of each quantile.
const QUANTILES: Kind = Kind::List(&Kind::List(&Kind::Number { min: 0.0, max: 1e9 }));

pub(super) static TABLE: Table = Table {
    title: "mpeg4 traffic",
    doc: "Video: the sizes of I, P and B frames are three TES models with the autocorrelation and the distributions \
          of a public MPEG-4 trace (\"Jurassic Park I\", high quality), 768.3 kbit/s unless scaled.",
    groups: &[
        FRAME_KEYS,
        &[
            Key::new(
                "gop",
                Kind::Text,
                "Types of the frames of a group of pictures, in the order of transmission.",
            )
            .default("\"IBBPBBPBBPBB\""),
            Key::new(
                "background",
                Kind::Choice(|| vec!["independent", "shared"]),
                "Each model has a background of its own, or one that advances with every frame serves all.",
            )
            .default("\"independent\""),
            Key::new("alpha_i", SHARE, "Width of the innovation of I frames.").default("0.15"),
            Key::new("alpha_p", SHARE, "Width of the innovation of P frames.").default("0.1"),
            Key::new("alpha_b", SHARE, "Width of the innovation of B frames.").default("0.056"),
            Key::new("alpha_shared", SHARE, "Width of the innovation of the shared background.")
                .default("0.046"),
            Key::new(
                "phi",
                Kind::Number { min: -1.0, max: 1.0 },
                "Asymmetry of the innovations: 0 is symmetric, 1 only rises, -1 only falls.",
            )
            .default("0"),
            Key::new(
                "stitching",
                SHARE,
                "Parameter xi of the stitching: where the background is at its top.",
            )
            .default("0.5"),
            Key::new(
                "tes",
                Kind::Choice(|| vec!["plus", "minus"]),
                "TES+, or TES-: every other value of the background is mirrored.",
            )
            .default("\"plus\""),
            Key::new(
                "initial",
                SHARE,
                "First value of every background. Default: drawn at random for each flow and model.",
            ),
            Key::new(
                "i",
                QUANTILES,
                "Distribution of I frames: pairs of probability and bytes, rising from 0 to 1, linear in between. \
                 Default: that of the trace.",
            ),
            Key::new("p", QUANTILES, "The same of P frames."),
            Key::new("b", QUANTILES, "The same of B frames."),
        ],
    ],
    partial: false,
};

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic> {
    Ok(Traffic::Frames(Arc::new(models(table)?)))
}

/// Three TES models.
fn models(table: &Reader<'_>) -> Result<FramePlan> {
    let gop = gop(table, table.text("gop")?)?;
    let model = |number: usize, alpha, distribution| -> Result<TesModel> {
        let own = quantiles(table, distribution)?;
        let distribution = own.unwrap_or_else(|| Arc::clone(&JURASSIC_PARK[number]));
        Ok(TesModel { alpha: table.number(alpha)?, distribution })
    };
    let shared = table.name("background")? == "shared";
    let (unused, other): (&[&str], &str) = if shared {
        (&["alpha_i", "alpha_p", "alpha_b"], "alpha_shared")
    } else {
        (&["alpha_shared"], "alpha_i, alpha_p and alpha_b")
    };
    if let Some(key) = unused.iter().find(|key| table.has(key)) {
        let message = format!("{key} has no effect: the background is {}", table.name("background")?);
        return Err(table.error(key, message, &format!("leave it out: the widths are those of {other}")));
    }
    let alpha_shared = table.number("alpha_shared")?;
    let tes = TesPlan {
        gop,
        models: [model(0, "alpha_i", "i")?, model(1, "alpha_p", "p")?, model(2, "alpha_b", "b")?],
        shared: shared.then_some(alpha_shared),
        phi: table.number("phi")?,
        stitching: table.number("stitching")?,
        minus: table.name("tes")? == "minus",
        first: table.number_if("initial")?,
    };
    scaled(table, Sizes::Tes(tes))
}

/// A distribution of the user's own.
fn quantiles(table: &Reader<'_>, key: &str) -> Result<Option<Arc<Distribution>>> {
    let Some(knots) = table.list_if(key)? else { return Ok(None) };
    let pair = |item: &Item<'_>| match &item.value {
        Checked::List(pair) => match pair[..] {
            [Item { value: Checked::Number(p), .. }, Item { value: Checked::Number(bytes), .. }] => {
                Some((p, bytes))
            }
            _ => None,
        },
        _ => None,
    };
    let distribution = knots.iter().map(pair).collect::<Option<Vec<_>>>().and_then(Distribution::new);
    if let Some(distribution) = distribution {
        return Ok(Some(Arc::new(distribution)));
    }
    let message = format!("{key} is not a distribution");
    let remedy = "write pairs of probability and bytes that rise, the first of 0 and the last of 1: \
                  [[0, 500], [0.5, 4000], [1, 9000]]";
    Err(table.error(key, message, remedy))
}
