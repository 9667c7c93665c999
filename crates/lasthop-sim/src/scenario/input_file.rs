//! Files that a scenario names and that decide what a run does: found, read and checked for being text, each once.
//!
//! `frame_file.rs`, `size_file.rs`, `arrival_file.rs` and `trace_file.rs` say what is in them; `mod.rs` asks
//! which ones there were.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::arrival_file::Listed;
use super::cqi_file::Qualities;
use super::diagnostic::{Place, ScenarioError, Source, clip, line_feeds, quoted};
use super::frame_file::Frames;
use super::reader::Reader;
use super::size_file::Points;
use super::trace_file::{Deliveries, Recording, Way};
use super::traffic::capture::Shared;

type Result<T> = std::result::Result<T, ScenarioError>;

/// Longest file in bytes. Two hours of film at 60 frames/s in verbose form have 20 MB.
pub(crate) const LONGEST_FILE: u64 = 256 << 20;

/// Where the files are that a scenario names.
#[derive(Clone, Copy, Debug)]
pub enum Files<'a> {
    /// In this folder; their paths are relative to it.
    In(&'a Path),
    /// Likewise, and nowhere else but below it or the current folder: the scenario is not trusted. The keys are those
    /// of overrides that the user asked for, which may name any file.
    Below(&'a Path, &'a [String]),
    /// Here, by the names that the scenario gives them: a browser has no folders.
    Given(&'a BTreeMap<String, String>),
}

impl<'a> From<&'a Path> for Files<'a> {
    fn from(folder: &'a Path) -> Files<'a> {
        Files::In(folder)
    }
}

/// The same, kept with a scenario.
#[derive(Debug)]
pub(super) enum Kept {
    In(PathBuf),
    Below(PathBuf, Vec<String>),
    Given(BTreeMap<String, String>),
}

impl Kept {
    pub(super) fn new(files: Files<'_>) -> Kept {
        match files {
            Files::In(folder) => Kept::In(folder.to_owned()),
            Files::Below(folder, asked) => Kept::Below(folder.to_owned(), asked.to_vec()),
            Files::Given(texts) => Kept::Given(texts.clone()),
        }
    }

    pub(super) fn files(&self) -> Files<'_> {
        match self {
            Kept::In(folder) => Files::In(folder),
            Kept::Below(folder, asked) => Files::Below(folder, asked),
            Kept::Given(texts) => Files::Given(texts),
        }
    }
}

/// The files of one scenario.
pub(super) struct InputFiles<'a> {
    /// Where they are.
    files: Files<'a>,
    pub(super) frames: BTreeMap<(PathBuf, bool), Frames>,
    pub(super) lengths: BTreeMap<PathBuf, Points>,
    pub(super) arrivals: BTreeMap<PathBuf, Listed>,
    pub(super) qualities: BTreeMap<PathBuf, Qualities>,
    captures: BTreeMap<PathBuf, Shared>,
    pub(super) deliveries: BTreeMap<PathBuf, Deliveries>,
    /// By their file, whether it has the layout of another tool, and the way.
    pub(super) recordings: BTreeMap<(PathBuf, bool, Way), Recording>,
    /// Those that were read, of whatever kind.
    read: RefCell<BTreeSet<PathBuf>>,
}

impl InputFiles<'_> {
    /// None read yet.
    pub(super) fn new(files: Files<'_>) -> InputFiles<'_> {
        InputFiles {
            files,
            frames: BTreeMap::new(),
            lengths: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            qualities: BTreeMap::new(),
            captures: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            recordings: BTreeMap::new(),
            read: RefCell::default(),
        }
    }

    /// The path of the file that the key `file` of `table` names.
    pub(super) fn path(&self, table: &Reader<'_>, file: &str) -> Result<PathBuf> {
        self.path_at(table, "file", file)
    }

    /// The same for another `key`.
    pub(super) fn path_at(&self, table: &Reader<'_>, key: &str, file: &str) -> Result<PathBuf> {
        let (folder, asked) = match self.files {
            Files::In(folder) => return Ok(folder.join(file)),
            Files::Given(_) => return Ok(PathBuf::from(file)),
            Files::Below(folder, asked) => (folder, asked),
        };
        let path = folder.join(file);
        let is_asked = match table.place_of(key) {
            Place::Override(number) => asked.contains(&table.source.overrides[*number].0),
            _ => false,
        };
        let real = |folder: &Path| {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            folder.canonicalize()
        };
        // Links are followed: they may have come with the scenario. What is not there is not read.
        let Ok(place) = path.canonicalize() else { return Ok(path) };
        let is_below = |folder: &Path| real(folder).is_ok_and(|folder| place.starts_with(folder));
        if is_asked || is_below(folder) || is_below(Path::new(".")) {
            return Ok(path);
        }
        let message = format!("{} lies outside of the scenario's folder, and is not read", clip_path(&path));
        let remedy =
            "if you trust it, add --trust (trust=True in Python), or copy the file beside the scenario";
        Err(table.error(key, message, remedy))
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
        self.parsed_at((table, "file"), path, what, parse)
    }

    /// The same for another key of the table.
    pub(super) fn parsed_at<T>(
        &self,
        (table, key): (&Reader<'_>, &str),
        path: &Path,
        what: &str,
        parse: impl FnOnce(&Source<'_>) -> Result<T>,
    ) -> Result<T> {
        self.read.borrow_mut().insert(path.to_owned());
        let read;
        let text = match self.files {
            Files::In(_) | Files::Below(..) => {
                read = text_of((table, key), path, what)?;
                &read
            }
            Files::Given(texts) => {
                let Some(text) = path.to_str().and_then(|name| texts.get(name)) else {
                    let message = format!("{what} cannot be read from {}: it was not given", clip_path(path));
                    return Err(table.error(key, message, "add the file beside the scenario"));
                };
                text
            }
        };
        let shown = path.display().to_string();
        // A byte order mark would make a heading of the first line.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let source = Source { file: Some(&shown), text, overrides: &[] };
        check_lines(&source)?;
        parse(&source)
    }

    /// The capture that the key `file` of `table` names.
    pub(super) fn capture(&mut self, table: &Reader<'_>, file: &str) -> Result<Shared> {
        let path = self.path(table, file)?;
        if let Some(known) = self.captures.get(&path) {
            return Ok(Shared::clone(known));
        }
        let refuse = |problem: &str, remedy: &str| {
            let message = format!("the capture cannot be read from {}: {problem}", clip_path(&path));
            Err(table.error("file", message, remedy))
        };
        if matches!(self.files, Files::Given(_)) {
            return refuse("it is no text, and a browser gives texts only", "run it with the command");
        }
        match crate::capture::read::read(&path, None) {
            Ok(capture) => {
                self.read.borrow_mut().insert(path.clone());
                let capture = Shared::new(capture);
                self.captures.insert(path, Shared::clone(&capture));
                Ok(capture)
            }
            Err(error) => {
                refuse(&error.to_string(), "name a pcap or pcapng file, relative to the scenario file")
            }
        }
    }

    /// The files that were read, each once.
    pub(super) fn paths(self) -> Vec<PathBuf> {
        self.read.into_inner().into_iter().collect()
    }
}

/// The text of the file at `path`, which the key `file` of `table` names.
fn text_of((table, key): (&Reader<'_>, &str), path: &Path, what: &str) -> Result<String> {
    read_file(path).map_err(|(problem, remedy)| {
        let message = format!("{what} cannot be read from {}: {problem}", clip_path(path));
        table.error(key, message, &remedy)
    })
}

/// The text of the file at `path`, or what is wrong with it and what to do.
pub(super) fn read_file(path: &Path) -> std::result::Result<String, (String, String)> {
    let refuse = |problem: &str, remedy: &str| Err((problem.to_owned(), remedy.to_owned()));
    let unreadable =
        |error: &std::io::Error| (super::reason(error), "check the path and its permissions".to_owned());
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
            &format!("at most {LONGEST_FILE} bytes are allowed"),
        );
    }
    // Room for all of it at once; a byte more, so that reading sees the end without more room.
    let mut bytes = Vec::with_capacity(metadata.len() as usize + 1);
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

/// Lines that a file has at most: no kind of file has as many rows, and those without any cost time, too.
const MOST_LINES: usize = 60_000_000;
/// Fields of a line that are told apart; no kind of file has more than a few.
pub(super) const MOST_FIELDS: usize = 1_000;

/// Refuses more lines than any kind of file has, before they are looked at one by one.
pub(super) fn check_lines(source: &Source<'_>) -> Result<()> {
    if line_feeds(source.text) <= MOST_LINES {
        return Ok(());
    }
    let line = source.text.split('\n').nth(MOST_LINES).unwrap_or_default();
    Err(Wrong::at(line, format!("more than {MOST_LINES} lines"), "shorten the file").in_source(source))
}

/// What a byte is in a file of fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Field,
    Separator,
    Comment,
    End,
    /// A part of a character that may be a blank of Unicode.
    Beyond,
}

/// The sort of each byte.
const SORTS: [Sort; 256] = {
    let mut sorts = [Sort::Field; 256];
    let mut byte = 0;
    while byte < 256 {
        sorts[byte] = match byte as u8 {
            b'\n' => Sort::End,
            b'\t'..=b'\r' | b' ' | b',' | b';' => Sort::Separator,
            b'#' => Sort::Comment,
            0x80.. => Sort::Beyond,
            _ => Sort::Field,
        };
        byte += 1;
    }
    sorts
};

/// Puts the fields of the first line of `text` into `fields`: numbers and names; commas and semicolons separate as
/// blanks do, `#` begins a comment. Where the next line begins.
///
/// Every byte is looked at once: a wrong file of a quarter of a gigabyte is to be refused at once.
pub(super) fn split_line<'t>(text: &'t str, fields: &mut Vec<&'t str>) -> usize {
    let bytes = text.as_bytes();
    let sort_at = |at: usize| bytes.get(at).map_or(Sort::End, |&byte| SORTS[usize::from(byte)]);
    let end_of = |at: usize| text[at..].find('\n').map_or(text.len(), |length| at + length);
    fields.clear();
    let mut at = 0;
    loop {
        let begin = at;
        while sort_at(at) == Sort::Field {
            at += 1;
        }
        let sort = sort_at(at);
        if sort == Sort::Beyond {
            let end = end_of(at);
            split_beyond(&text[..end], fields);
            return end + 1;
        }
        if at > begin && fields.len() < MOST_FIELDS {
            fields.push(&text[begin..at]);
        }
        match sort {
            Sort::End => return at + 1,
            Sort::Comment => return end_of(at) + 1,
            _ => at += 1,
        }
    }
}

/// The same of a line with characters beyond ASCII.
fn split_beyond<'t>(line: &'t str, fields: &mut Vec<&'t str>) {
    let line = line.split('#').next().unwrap_or_default();
    let separates = |character: char| character.is_whitespace() || matches!(character, ',' | ';');
    fields.clear();
    fields.extend(line.split(separates).filter(|field| !field.is_empty()).take(MOST_FIELDS));
}

/// How many columns a line has, for messages.
pub(super) fn columns_of(fields: &[&str]) -> String {
    match fields.len() {
        1 => "1 column".to_owned(),
        MOST_FIELDS.. => format!("{MOST_FIELDS} columns or more"),
        number => format!("{number} columns"),
    }
}

/// Whether a first line with these fields is a heading.
fn is_heading(fields: &[&str]) -> bool {
    fields.iter().all(|field| field.parse::<f64>().is_err())
}

/// The fields of the heading of a file; none if there is none.
pub(super) fn heading<'t>(source: &Source<'t>) -> Vec<&'t str> {
    let (mut fields, mut at) = (Vec::new(), 0);
    while at < source.text.len() && fields.is_empty() {
        at += split_line(&source.text[at..], &mut fields);
    }
    if is_heading(&fields) { fields } else { Vec::new() }
}

/// Hands the fields of each line that is not empty to `take`, behind a heading if there is one.
pub(super) fn each_line<'t>(
    source: &Source<'t>,
    mut take: impl FnMut(&[&'t str]) -> std::result::Result<(), Wrong<'t>>,
) -> Result<()> {
    let (mut fields, mut is_first) = (Vec::new(), true);
    let mut at = 0;
    while at < source.text.len() {
        at += split_line(&source.text[at..], &mut fields);
        if fields.is_empty() {
            continue;
        }
        if !(std::mem::take(&mut is_first) && is_heading(&fields)) {
            take(&fields).map_err(|wrong| wrong.in_source(source))?;
        }
    }
    Ok(())
}

/// The rows of a file, a line each, behind a heading if there is one. `one` reads a line behind the row before; `what`
/// are the rows, of which there is one at least and `most` at most, and `form` says what a line holds.
pub(super) fn rows_of<'t, R: Copy>(
    source: &Source<'t>,
    (what, most, form): (&str, u64, &str),
    one: impl Fn(&[&'t str], Option<R>) -> std::result::Result<R, Wrong<'t>>,
) -> std::result::Result<Vec<R>, ScenarioError> {
    let mut rows = Vec::new();
    each_line(source, |fields| {
        let row = one(fields, rows.last().copied())?;
        if rows.len() as u64 == most {
            return Err(Wrong::at(fields[0], format!("more than {most} lines"), "shorten the file"));
        }
        rows.push(row);
        Ok(())
    })?;
    if rows.is_empty() {
        let (file, message) = (source.file.unwrap_or_default(), format!("the file holds no {what}"));
        return Err(ScenarioError::of_file(file, message, &format!("expected {form}")));
    }
    Ok(rows)
}

/// A number of a line, from 0 to `most`; `form` says what such a line holds.
pub(super) fn number<'t>(
    field: &'t str,
    what: &str,
    most: f64,
    form: &str,
) -> std::result::Result<f64, Wrong<'t>> {
    match field.parse::<f64>() {
        Ok(number) if (0.0..=most).contains(&number) => Ok(number),
        Ok(_) => Err(Wrong::at(field, format!("{what} of {field}"), format!("expected 0 to {most}"))),
        Err(_) => {
            Err(Wrong::at(field, format!("{} is not {what}", quoted(field)), format!("expected {form}")))
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Vec<&str> {
        let mut fields = Vec::new();
        split_line(line, &mut fields);
        fields
    }

    /// All blanks of Unicode separate, those of ASCII on a way of their own; a long line is not kept whole.
    #[test]
    fn fields_of_lines() {
        for line in
            ["1;2,\t3 # 4", "1\u{a0}2\u{3000}3#4", " 1,,2\u{b}3\r", "1,2 3#\u{a0}4\n5", "1 2\u{a0}3\n4"]
        {
            assert_eq!(fields(line), ["1", "2", "3"], "{line:?}");
        }
        for line in ["7 ", "7\u{a0}"] {
            let line = line.repeat(3 * MOST_FIELDS);
            assert_eq!(fields(&line).len(), MOST_FIELDS);
            assert_eq!(columns_of(&fields(&line)), "1000 columns or more");
        }
        assert_eq!(columns_of(&["7"]), "1 column");
    }

    /// Lines are those between line feeds, with or without one at the end.
    #[test]
    fn lines_of_files() {
        for text in
            ["a b\n1\n\n#\n2 3\r\n4", "1\n2;3\n# \u{e4}\n4\n\n", "\u{e4}\n1\u{a0}\n2 3 # 5\n\u{3000}\n4"]
        {
            let mut lines = Vec::new();
            let source = Source { file: None, text, overrides: &[] };
            each_line(&source, |fields| {
                lines.push(fields.join(" "));
                Ok(())
            })
            .unwrap();
            assert_eq!(lines, ["1", "2 3", "4"], "{text:?}");
        }
    }
}
