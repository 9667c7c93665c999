//! Sources of frames: from the keys of `mpeg4` and `frames` traffic to a [`FramePlan`].
//!
//! `flows.rs` calls it. Files of sizes are read by `frame_file.rs`.

use std::sync::Arc;

use lasthop_net::frames::FrameKind;
use lasthop_net::plan::FramePlan;
use lasthop_net::traffic::video::{Distribution, JURASSIC_PARK, ListPlan, Sizes, TesModel, TesPlan};

use super::diagnostic::{ScenarioError, quoted};
use super::input_file::InputFiles;
use super::reader::{Checked, Item, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Three TES models.
pub(super) fn mpeg4(table: &Reader<'_>) -> Result<FramePlan> {
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

/// A list of sizes.
pub(super) fn listed(table: &Reader<'_>, files: &mut InputFiles<'_>) -> Result<FramePlan> {
    let frames = match (table.text_if("file")?, table.list_if("sizes")?) {
        (Some(_), Some(_)) => {
            let message = "the frames have both a file and sizes".to_owned();
            return Err(table.error("sizes", message, "leave one of them out"));
        }
        (None, None) => {
            let message = "missing key \"file\" in frames traffic".to_owned();
            let remedy = "add file = \"film.txt\", or sizes = [\"4 kB\", \"1 kB\"]";
            return Err(table.source.error(table.place, message, remedy));
        }
        (Some(file), None) => files.frames(table, file, table.name("unit")? == "bits")?,
        (None, Some(sizes)) => in_place(table, &sizes)?,
    };
    let frames = match table.text_if("gop")? {
        Some(text) => with_types(table, text, &frames)?,
        None => frames,
    };
    let offset = table.integer("offset")?;
    if offset >= frames.len() as u64 {
        let message = format!("the list has {} frames: none has the number {offset}", frames.len());
        return Err(table.error("offset", message, &format!("write at most {}", frames.len() - 1)));
    }
    let random_offset = table.switch("random_offset")?;
    if random_offset && table.has("offset") {
        let message = "the first frame is both given and drawn".to_owned();
        return Err(table.error("offset", message, "leave out offset or random_offset"));
    }
    let repeat = table.switch("repeat")?;
    scaled(table, Sizes::Listed(ListPlan { frames, offset: offset as usize, random_offset, repeat }))
}

/// What all sources of frames have.
fn scaled(table: &Reader<'_>, sizes: Sizes) -> Result<FramePlan> {
    let (frame_rate, spread) = (table.number("frame_rate")?, table.switch("spread")?);
    let carry = table.name("rounding")? == "carry";
    let unscaled = FramePlan { frame_rate, spread, carry, sizes, scale: 1.0 };
    let scale = table.rate_if("rate")?.map_or(1.0, |rate| rate.0 as f64 / unscaled.mean_rate());
    Ok(FramePlan { scale, ..unscaled })
}

/// The types of a group of pictures.
fn gop(table: &Reader<'_>, text: &str) -> Result<Vec<FrameKind>> {
    let kinds: Option<Vec<FrameKind>> = text.chars().map(FrameKind::by_letter).collect();
    match kinds {
        Some(kinds) if kinds[0] == FrameKind::I => Ok(kinds),
        _ => {
            let message = format!("gop is not a group of pictures: {}", quoted(text));
            let remedy = "write the types I, P and B of its frames, an I first, such as \"IBBPBBPBBPBB\"";
            Err(table.error("gop", message, remedy))
        }
    }
}

/// The same sizes with types in turn.
fn with_types(
    table: &Reader<'_>,
    text: &str,
    frames: &[(u32, FrameKind)],
) -> Result<Arc<[(u32, FrameKind)]>> {
    let gop = gop(table, text)?;
    if frames.iter().any(|&(_, kind)| kind != FrameKind::Any) {
        let message = "the frames have types of their own".to_owned();
        return Err(table.error("gop", message, "leave gop out"));
    }
    Ok(frames.iter().zip(gop.iter().cycle()).map(|(&(bytes, _), &kind)| (bytes, kind)).collect())
}

fn in_place(table: &Reader<'_>, sizes: &[Item<'_>]) -> Result<Arc<[(u32, FrameKind)]>> {
    if table.has("unit") {
        let message = "unit is for a file".to_owned();
        return Err(table.error("unit", message, "leave it out: sizes have units of their own"));
    }
    let size = |item: &Item<'_>| match item.value {
        Checked::Size(bytes) => (bytes as u32, FrameKind::Any),
        _ => panic!("`sizes` is declared as a list of sizes"),
    };
    let frames: Arc<[(u32, FrameKind)]> = sizes.iter().map(size).collect();
    if frames.iter().all(|&(bytes, _)| bytes == 0) {
        let message = "all frames are empty".to_owned();
        return Err(table.error("sizes", message, "write at least one size above 0 B"));
    }
    Ok(frames)
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
