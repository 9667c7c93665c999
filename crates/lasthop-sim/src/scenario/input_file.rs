//! Files that a scenario names and that decide what a run does: found, read and checked for being text, each once.
//!
//! `frame_file.rs` and `trace_file.rs` say what is in them; `mod.rs` asks which ones there were.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::diagnostic::{Place, ScenarioError, Source, clip};
use super::frame_file::Frames;
use super::reader::Reader;
use super::trace_file::{Instants, Recording};

type Result<T> = std::result::Result<T, ScenarioError>;

/// Longest file in bytes. Two hours of film at 60 frames/s in verbose form have 20 MB.
const LONGEST_FILE: u64 = 256 << 20;

/// Where the files are that a scenario names.
#[derive(Clone, Copy, Debug)]
pub enum Files<'a> {
    /// In this folder; their paths are relative to it.
    In(&'a Path),
    /// Here, by the names that the scenario gives them: a browser has no folders.
    Given(&'a BTreeMap<String, String>),
}

impl<'a> From<&'a Path> for Files<'a> {
    fn from(folder: &'a Path) -> Files<'a> {
        Files::In(folder)
    }
}

/// The files of one scenario.
pub(super) struct InputFiles<'a> {
    /// Where they are.
    files: Files<'a>,
    pub(super) frames: BTreeMap<(PathBuf, bool), Frames>,
    pub(super) instants: BTreeMap<PathBuf, Instants>,
    pub(super) recordings: BTreeMap<PathBuf, Recording>,
}

impl InputFiles<'_> {
    /// None read yet.
    pub(super) fn new(files: Files<'_>) -> InputFiles<'_> {
        InputFiles { files, frames: BTreeMap::new(), instants: BTreeMap::new(), recordings: BTreeMap::new() }
    }

    /// The path of the file that a scenario calls `file`.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        match self.files {
            Files::In(folder) => folder.join(file),
            Files::Given(_) => PathBuf::from(file),
        }
    }

    /// What `parse` makes of the file at `path`, which the key `file` of `table` names; `what` it holds is for
    /// messages.
    pub(super) fn parsed<T>(
        &self,
        table: &Reader<'_>,
        path: &Path,
        what: &str,
        parse: impl FnOnce(&Source<'_>) -> Result<T>,
    ) -> Result<T> {
        let read;
        let text = match self.files {
            Files::In(_) => {
                read = text_of(table, path, what)?;
                &read
            }
            Files::Given(texts) => {
                let Some(text) = path.to_str().and_then(|name| texts.get(name)) else {
                    let message = format!("{what} cannot be read from {}: it was not given", clip_path(path));
                    return Err(table.error("file", message, "add the file beside the scenario"));
                };
                text
            }
        };
        let shown = path.display().to_string();
        // A byte order mark would make a heading of the first line.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        parse(&Source { file: Some(&shown), text, overrides: &[] })
    }

    /// The files that were read, each once.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let frames = self.frames.keys().map(|(path, _)| path);
        let mut paths: Vec<PathBuf> =
            frames.chain(self.instants.keys()).chain(self.recordings.keys()).cloned().collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

/// The text of the file at `path`.
fn text_of(table: &Reader<'_>, path: &Path, what: &str) -> Result<String> {
    let shown = clip_path(path);
    let refuse = |problem: &str, remedy: &str| {
        Err(table.error("file", format!("{what} cannot be read from {shown}: {problem}"), remedy))
    };
    let unreadable = |error: &std::io::Error| {
        let message = format!("{what} cannot be read from {shown}: {}", super::reason(error));
        table.error("file", message, "check the path and its permissions")
    };
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return refuse("there is no such file", "paths are relative to the scenario file");
        }
        Err(error) => return Err(unreadable(&error)),
    };
    // Pipes and devices could make the program wait, and every run of a study must see the same frames.
    if !metadata.is_file() {
        return refuse("it is not a regular file", "name a text file");
    }
    if metadata.len() > LONGEST_FILE {
        return refuse(
            &format!("it is too large, {} bytes", metadata.len()),
            &format!("{LONGEST_FILE} bytes are the most"),
        );
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(&error))?;
    file.take(LONGEST_FILE).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    let position = match String::from_utf8(bytes) {
        Ok(text) => match text.find('\0') {
            Some(position) => position,
            None => return Ok(text),
        },
        Err(error) => error.utf8_error().valid_up_to(),
    };
    refuse(&format!("it is not a text file, see byte {position}"), "name a text file in UTF-8")
}

fn clip_path(path: &Path) -> String {
    let shown = path.display().to_string();
    // A long path differs from its neighbours at its end.
    if shown.chars().count() <= 200 { shown } else { clip(&shown) }
}

/// What is wrong with a line.
pub(super) struct Wrong<'t> {
    /// The piece of the text that is meant.
    piece: &'t str,
    message: String,
    remedy: String,
}

impl Wrong<'_> {
    pub(super) fn at(piece: &str, message: String, remedy: impl Into<String>) -> Wrong<'_> {
        Wrong { piece, message, remedy: remedy.into() }
    }

    /// The error that the user reads; the piece lies in the source's text.
    pub(super) fn in_source(self, source: &Source<'_>) -> ScenarioError {
        let start = self.piece.as_ptr() as usize - source.text.as_ptr() as usize;
        let place = Place::Bytes { start, end: start + self.piece.len() };
        source.error(&place, self.message, &self.remedy)
    }
}
