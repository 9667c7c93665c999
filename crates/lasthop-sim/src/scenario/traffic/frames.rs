//! `frames`: video whose frames are listed, and what all sources of frames have.
//!
//! Files of sizes are read by `frame_file.rs`.

use std::sync::Arc;

use lasthop_net::frames::FrameKind;
use lasthop_net::plan::{FramePlan, Traffic};
use lasthop_net::traffic::video::{ListPlan, Sizes};

use super::super::diagnostic::{ScenarioError, quoted};
use super::super::input_file::InputFiles;
use super::super::keys::{Key, Kind, MOST_FRAMES, Table};
use super::super::reader::{Checked, Item, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "frames";
pub(super) const BARE: bool = false;

pub(super) static TABLE: Table = Table {
    title: "frames traffic",
    doc: "Frames whose sizes are listed, such as the trace of a film.",
    groups: &[
        &[
            Key::new(
                "file",
                Kind::File,
                "The list, relative to the scenario file: a size per line; or a type (I, P, B) and a size; or at \
                 least four columns of which the second or third is the type and the fourth the size. # begins a \
                 comment; the first line may be a heading.",
            ),
            Key::new("sizes", Kind::List(&Kind::Size { min: 0, max: 1_000_000_000 }), "The list, in place."),
            Key::new("unit", Kind::Choice(|| vec!["bytes", "bits"]), "What the sizes in the file count.")
                .default("\"bytes\""),
            Key::new(
                "gop",
                Kind::Text,
                "Types of the frames in turn, such as \"IBBPBBPBBPBB\", where the list has none.",
            ),
            Key::new(
                "repeat",
                Kind::Switch,
                "Begin again at the end of the list; otherwise the flow ends there.",
            )
            .default("true"),
            Key::new("offset", Kind::Integer { min: 0, max: MOST_FRAMES }, "Frame to begin with, from 0.")
                .default("0"),
            Key::new("random_offset", Kind::Switch, "Draw the frame to begin with for each flow.")
                .default("false"),
        ],
        FRAME_KEYS,
    ],
    partial: false,
};

/// What all sources of frames have.
pub(super) const FRAME_KEYS: &[Key] = &[
    Key::new(
        "rate",
        Kind::Rate,
        "Mean payload rate: the sizes of all frames are scaled to it, their times are not. Default: no scaling.",
    ),
    Key::new("frame_rate", Kind::Number { min: 0.001, max: 1000.0 }, "Frames per second.").default("25"),
    Key::new(
        "spread",
        Kind::Switch,
        "Hand the packets of a frame over at equal intervals until the next frame, not all at once.",
    )
    .default("false"),
    Key::new(
        "rounding",
        Kind::Choice(|| vec!["up", "carry"]),
        "Over TCP in the profile ns2, whose segments are all full: up rounds each frame up to whole segments, as \
         ns-2's sendmsg does; carry leaves the rest to the next frame.",
    )
    .default("\"up\""),
];

pub(super) fn read(table: &Reader<'_>, files: &mut InputFiles<'_>) -> Result<Traffic> {
    Ok(Traffic::Frames(Arc::new(listed(table, files)?)))
}

/// A list of sizes.
fn listed(table: &Reader<'_>, files: &mut InputFiles<'_>) -> Result<FramePlan> {
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
pub(super) fn scaled(table: &Reader<'_>, sizes: Sizes) -> Result<FramePlan> {
    let (frame_rate, spread) = (table.number("frame_rate")?, table.switch("spread")?);
    let carry = table.name("rounding")? == "carry";
    let unscaled = FramePlan { frame_rate, spread, carry, sizes, scale: 1.0 };
    let scale = table.rate_if("rate")?.map_or(1.0, |rate| rate.0 as f64 / unscaled.mean_rate());
    Ok(FramePlan { scale, ..unscaled })
}

/// The types of a group of pictures.
pub(super) fn gop(table: &Reader<'_>, text: &str) -> Result<Vec<FrameKind>> {
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
