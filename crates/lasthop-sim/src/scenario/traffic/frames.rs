//! `frames`: video whose frames are listed, and what all sources of frames have.
//!
//! Files of sizes are read by `frame_file.rs`.

use std::sync::Arc;

use lasthop_core::units::Rate;
use lasthop_net::frames::FrameKind;
use lasthop_net::plan::{FramePlan, Traffic};
use lasthop_net::traffic::video::{ListPlan, Sizes};

use super::super::declare::{keys, table};
use super::super::diagnostic::{ScenarioError, quoted};
use super::super::input_file::InputFiles;
use super::super::keys::{Kind, MOST_FRAMES};
use super::super::reader::Reader;

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "frames";
pub(super) const BARE: bool = false;

table! {
    /// Frames whose sizes are listed, such as the trace of a film.
    pub(super) static TABLE = "frames traffic";
    struct Keys {
        /// The list, relative to the scenario file: a size per line; or a type (I, P, B) and a size; or at least four
        /// columns of which the second or third is the type and the fourth the size. # begins a comment; the first line
        /// may be a heading.
        file: Option<String> = Kind::File;
        /// The list, in place.
        sizes: Option<Vec<u64>> = Kind::List(&Kind::Size { min: 0, max: 1_000_000_000 });
        /// What the sizes in the file count.
        unit: &'static str = Kind::Choice(|| vec!["bytes", "bits"]), default("\"bytes\"");
        /// Types of the frames in turn, such as "IBBPBBPBBPBB", where the list has none.
        gop: Option<String> = Kind::Text;
        /// Begin again at the end of the list; otherwise the flow ends there.
        repeat: bool = Kind::Switch, default("true");
        /// Frame to begin with, from 0.
        offset: u64 = Kind::Integer { min: 0, max: MOST_FRAMES }, default("0");
        /// Draw the frame to begin with for each flow.
        random_offset: bool = Kind::Switch, default("false");
        ..frame: FrameKeys;
    }
}

keys! {
    /// What all sources of frames have.
    pub(super) struct FrameKeys {
        /// Mean payload rate: the sizes of all frames are scaled to it, their times are not. Default: no scaling.
        rate: Option<Rate> = Kind::Rate;
        /// Frames per second.
        frame_rate: f64 = Kind::Number { min: 0.001, max: 1000.0 }, default("25");
        /// Hand the packets of a frame over at equal intervals until the next frame, not all at once.
        spread: bool = Kind::Switch, default("false");
        /// Over TCP in the profile ns2, whose segments are all full: up rounds each frame up to whole segments, as
        /// ns-2's sendmsg does; carry leaves the rest to the next frame.
        rounding: &'static str = Kind::Choice(|| vec!["up", "carry"]), default("\"up\"");
    }
}

pub(super) fn read(table: &Reader<'_>, files: &mut InputFiles<'_>) -> Result<Traffic> {
    Ok(Traffic::Frames(Arc::new(listed(table, files)?)))
}

/// A list of sizes.
fn listed(table: &Reader<'_>, files: &mut InputFiles<'_>) -> Result<FramePlan> {
    let keys = Keys::read(table)?;
    let frames = match (&keys.file, &keys.sizes) {
        (Some(_), Some(_)) => {
            let message = "the frames have both a file and sizes".to_owned();
            return Err(table.error("sizes", message, "leave one of them out"));
        }
        (None, None) => {
            let message = "missing key \"file\" in frames traffic".to_owned();
            let remedy = "add file = \"film.txt\", or sizes = [\"4 kB\", \"1 kB\"]";
            return Err(table.source.error(table.place, message, remedy));
        }
        (Some(file), None) => files.frames(table, file, keys.unit == "bits")?,
        (None, Some(sizes)) => in_place(table, sizes)?,
    };
    let frames = match &keys.gop {
        Some(text) => with_types(table, text, &frames)?,
        None => frames,
    };
    let Keys { offset, random_offset, repeat, .. } = keys;
    if offset >= frames.len() as u64 {
        let message = format!("the list has {} frames: none has the number {offset}", frames.len());
        return Err(table.error("offset", message, &format!("write at most {}", frames.len() - 1)));
    }
    if random_offset && table.has("offset") {
        let message = "the first frame is both given and drawn".to_owned();
        return Err(table.error("offset", message, "leave out offset or random_offset"));
    }
    let list = ListPlan { frames, offset: offset as usize, random_offset, repeat };
    Ok(keys.frame.scaled(Sizes::Listed(list)))
}

impl FrameKeys {
    /// A source of frames of these sizes.
    pub(super) fn scaled(&self, sizes: Sizes) -> FramePlan {
        let carry = self.rounding == "carry";
        let unscaled =
            FramePlan { frame_rate: self.frame_rate, spread: self.spread, carry, sizes, scale: 1.0 };
        let scale = self.rate.map_or(1.0, |rate| rate.0 as f64 / unscaled.mean_rate());
        FramePlan { scale, ..unscaled }
    }
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

fn in_place(table: &Reader<'_>, sizes: &[u64]) -> Result<Arc<[(u32, FrameKind)]>> {
    if table.has("unit") {
        let message = "unit is for a file".to_owned();
        return Err(table.error("unit", message, "leave it out: sizes have units of their own"));
    }
    let frames: Arc<[(u32, FrameKind)]> = sizes.iter().map(|&bytes| (bytes as u32, FrameKind::Any)).collect();
    if frames.iter().all(|&(bytes, _)| bytes == 0) {
        let message = "all frames are empty".to_owned();
        return Err(table.error("sizes", message, "write at least one size above 0 B"));
    }
    Ok(frames)
}
