//! What a user reads when a scenario is wrong: what was found, where, and what to write instead.
//!
//! Every check of the scenario module ends in [`Source::error`]. The first mistake is reported and nothing
//! else, so the same file always gives the same message.

use std::fmt::Write as _;
use std::sync::Arc;

/// Longest piece of a source line that is shown, in characters.
const LINE_WIDTH: usize = 120;
/// Longest value that is repeated in a message, in characters.
const VALUE_WIDTH: usize = 60;
/// Most names that are listed after "known:".
const NAMES_SHOWN: usize = 24;

/// A scenario that cannot run. `Display` gives the full text, ready to print: what is wrong, the place, the
/// line and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ScenarioError {
    message: String,
    place: String,
    remedy: String,
    text: String,
}

impl ScenarioError {
    /// What is wrong, in one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where: `file:line:column`, a key path, or the override.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What to do about it.
    pub(super) fn remedy(&self) -> &str {
        &self.remedy
    }

    /// The same of a scenario whose random values are those of a seed.
    pub(super) fn with_seed(mut self, seed: u64) -> ScenarioError {
        let _ = write!(self.text, "\n     with what the seed {seed} draws");
        self
    }

    /// An error about a whole file.
    pub(super) fn of_file(file: &str, message: String, remedy: &str) -> ScenarioError {
        ScenarioError::without_line(file.to_owned(), message, remedy)
    }

    fn without_line(place: String, message: String, remedy: &str) -> ScenarioError {
        let text = format!("scenario error: {message}\n  at {place}\n     {remedy}");
        ScenarioError { message, place, remedy: remedy.to_owned(), text }
    }
}

/// Where a value was written.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Bytes of the TOML text.
    Bytes {
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
    },
    /// Keys of a JSON document; `None` is the document itself.
    Keys(Option<Arc<Step>>),
    /// The override with this number.
    Override(usize),
    /// Nowhere: a default.
    Default,
}

/// One key on the way from the root to a value. A linked list, so that a deep document costs no more than its
/// size.
#[derive(Debug)]
pub(super) struct Step {
    /// The step before this one.
    pub(super) parent: Option<Arc<Step>>,
    /// A key, or the number of a list element.
    pub(super) key: String,
}

/// The text that a scenario came from, to show the place of a mistake.
pub(super) struct Source<'a> {
    /// The file as the user gave it, or a name for text that was not in a file.
    pub(super) file: Option<&'a str>,
    /// The TOML text; empty for JSON.
    pub(super) text: &'a str,
    /// The overrides, `(path, value)`.
    pub(super) overrides: &'a [(String, String)],
}

impl Source<'_> {
    /// The error `message` at `place`, with what to do about it.
    pub(super) fn error(&self, place: &Place, message: String, remedy: &str) -> ScenarioError {
        match place {
            Place::Bytes { start, end } => self.with_line(*start, *end, message, remedy),
            Place::Keys(step) => ScenarioError::without_line(self.key_path(step.as_deref()), message, remedy),
            Place::Override(number) => {
                let (path, value) = &self.overrides[*number];
                ScenarioError::without_line(format!("--set {}={}", clip(path), clip(value)), message, remedy)
            }
            Place::Default => ScenarioError::without_line(self.file_name().to_owned(), message, remedy),
        }
    }

    fn file_name(&self) -> &str {
        self.file.unwrap_or("the scenario")
    }

    fn key_path(&self, last: Option<&Step>) -> String {
        let Some(last) = last else { return self.file_name().to_owned() };
        let mut keys = vec![shown_key(&last.key)];
        let mut parent = &last.parent;
        while let Some(step) = parent {
            keys.push(shown_key(&step.key));
            parent = &step.parent;
        }
        keys.reverse();
        let path = keys.join(".");
        match self.file {
            Some(file) => format!("{file}: {path}"),
            None => path,
        }
    }

    fn with_line(&self, start: usize, end: usize, message: String, remedy: &str) -> ScenarioError {
        let start = floor_boundary(self.text, start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |newline| start + newline);
        let end = floor_boundary(self.text, end).clamp(start, line_end);
        let line_number = line_feeds(&self.text[..line_start]) + 1;
        let column = self.text[line_start..start].chars().count() + 1;

        let line = self.text[line_start..line_end].trim_end();
        // A very long line is shown around the mistake only.
        let first = if column > LINE_WIDTH { column - LINE_WIDTH / 2 } else { 0 };
        let mut rest = line.chars().skip(first).map(printable);
        let mut shown: String = rest.by_ref().take(LINE_WIDTH).collect();
        if rest.next().is_some() {
            shown.push_str("...");
        }
        let width = self.text[start..end].chars().take(LINE_WIDTH).count().max(1);

        let place = format!("{}:{line_number}:{column}", self.file_name());
        let number = line_number.to_string();
        let mut text = format!("scenario error: {message}\n  at {place}\n");
        let _ = writeln!(text, "{}", format!("{number} | {shown}").trim_end());
        let gutter = " ".repeat(number.len());
        let indent = " ".repeat(column - 1 - first);
        let _ = write!(text, "{gutter} | {indent}{} {remedy}", "^".repeat(width));
        ScenarioError { message, place, remedy: remedy.to_owned(), text }
    }
}

/// How many line feeds a text has. Bytes are compared many at once, which matters to very long files.
pub(super) fn line_feeds(text: &str) -> usize {
    text.bytes().map(|byte| usize::from(byte == b'\n')).sum()
}

/// The nearest character boundary at or before `index`.
fn floor_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// A terminal must not obey what a file says.
fn printable(character: char) -> char {
    match character {
        '\t' => ' ',
        character if character.is_control() => '\u{fffd}',
        character => character,
    }
}

/// `text` for a message: one line, not too long.
pub(super) fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(VALUE_WIDTH).map(printable).collect();
    if text.chars().nth(VALUE_WIDTH).is_some() {
        clipped.push_str("...");
    }
    clipped
}

/// A key of a path; the empty one would not be seen.
fn shown_key(key: &str) -> String {
    if key.is_empty() { "\"\"".to_owned() } else { clip(key) }
}

/// `text` in quotes for a message.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", clip(text))
}

/// The remedy for an unknown name: the nearest valid one, and what there is.
pub(crate) fn suggest(found: &str, known: &[&str]) -> String {
    match nearest(found, known) {
        Some(name) => format!("did you mean \"{name}\"? known: {}", listed(known)),
        None => format!("known: {}", listed(known)),
    }
}

/// `names` separated by commas, cut when there are many.
pub(super) fn listed(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_SHOWN).map(|name| clip(name)).collect();
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The name among `known` that `found` most likely meant. Jaro-Winkler favours a common beginning, so that
/// `westwod` finds `westwood-plus`. What a single slip of the hand explains goes before what begins alike: `brb` is
/// `bbr`, not `bbr3`.
pub fn nearest<'a>(found: &str, known: &[&'a str]) -> Option<&'a str> {
    const LIKELY: f64 = 0.8;
    // Comparing is quadratic in the length; a name of this length is not a typing mistake.
    if found.len() > 100 {
        return None;
    }
    let found = found.to_lowercase();
    let mut best = None;
    let mut best_score = LIKELY;
    // Of two letters most names are one slip away.
    let may_slip = found.chars().count() > 2;
    for &name in known {
        let name_in_lower_case = name.to_lowercase();
        let slips = may_slip && strsim::osa_distance(&found, &name_in_lower_case) <= 1;
        let score = strsim::jaro_winkler(&found, &name_in_lower_case) + f64::from(u8::from(slips));
        if score > best_score {
            (best, best_score) = (Some(name), score);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source<'_> {
        Source { file: Some("lab.toml"), text, overrides: &[] }
    }

    #[test]
    fn a_caret_points_at_the_value() {
        let text = "a = 1\nb = \"vegsa\"\n";
        let error = source(text).error(
            &Place::Bytes { start: 10, end: 17 },
            "unknown transport \"vegsa\"".to_owned(),
            "did you mean \"vegas\"?",
        );
        assert_eq!(
            error.to_string(),
            "scenario error: unknown transport \"vegsa\"\n  at lab.toml:2:5\n2 | b = \"vegsa\"\n  |     \
             ^^^^^^^ did you mean \"vegas\"?"
        );
    }

    #[test]
    fn columns_count_characters_and_odd_bytes_do_no_harm() {
        let text = "ä\u{1b}[31m = 1";
        let error = source(text).error(&Place::Bytes { start: 1, end: 999 }, "odd".to_owned(), "remedy");
        assert_eq!(error.place(), "lab.toml:1:1");
        assert!(!error.to_string().contains('\u{1b}'));
    }

    #[test]
    fn a_long_line_is_cut() {
        let text = format!("{}x", "a".repeat(100_000));
        let error =
            source(&text).error(&Place::Bytes { start: 100_000, end: 100_001 }, "long".to_owned(), "remedy");
        assert!(error.to_string().len() < 400);
        assert_eq!(error.place(), "lab.toml:1:100001");
    }

    #[test]
    fn the_nearest_name_is_offered() {
        assert_eq!(nearest("vegsa", &["tahoe", "vegas"]), Some("vegas"));
        assert_eq!(nearest("westwod", &["veno", "westwood-plus"]), Some("westwood-plus"));
        assert_eq!(nearest("zzz", &["tahoe", "vegas"]), None);
        // One slip: two letters change places, one is missing, one too many, another one.
        for slip in ["brb", "bbrr", "bbt", "BBE"] {
            assert_eq!(nearest(slip, &["bbr3", "bbr", "reno"]), Some("bbr"), "{slip}");
        }
        assert_eq!(nearest("brb3", &["bbr", "bbr3"]), Some("bbr3"));
    }
}
