//! Files with the sizes of frames: the traces of films that people publish, and what they write themselves.
//!
//! `video.rs` asks for a file; one that several flows use is read once. The columns are those of the common formats:
//! one size per line (the terse traces of Arizona State University and TU Berlin), a type and a size, and `number type
//! time size` or `number time type size` with more behind (their verbose traces).

use std::sync::Arc;

use lasthop_net::frames::FrameKind;

use super::diagnostic::{ScenarioError, Source, quoted};
use super::input_file::{InputFiles, Wrong, columns_of, each_line, heading};
use super::keys::MOST_FRAMES;
use super::reader::Reader;

type Result<T> = std::result::Result<T, ScenarioError>;
pub(super) type Frames = Arc<[(u32, FrameKind)]>;

/// Largest frame in bytes.
const LARGEST_FRAME: u64 = 1_000_000_000;

impl InputFiles<'_> {
    /// The frames of the file that the key `file` of `table` names; `bits` is what its sizes count.
    pub(super) fn frames(&mut self, table: &Reader<'_>, file: &str, bits: bool) -> Result<Frames> {
        let key = (self.path(table, file)?, bits);
        if let Some(frames) = self.frames.get(&key) {
            return Ok(Arc::clone(frames));
        }
        let frames = self.parsed(table, &key.0, "the frames", |source| parse(source, bits))?;
        self.frames.insert(key, Arc::clone(&frames));
        Ok(frames)
    }
}

/// Where the columns are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    number: usize,
    kind: Option<usize>,
    size: usize,
}

/// What each line begins with that `ffprobe -show_entries frame=pkt_size,pict_type -of csv` writes.
const FFPROBE: &str = "frame";

const FORMS: &str = "a size per line; a type (I, P, B) and a size; or at least four columns of which the second or \
                     third is the type and the fourth the size";

impl Columns {
    /// The columns of a file that begins with these fields.
    fn of(fields: &[&str]) -> Option<Columns> {
        let number = fields.len();
        let kind = |column: usize| fields.get(column).is_some_and(|field| kind_of(field).is_some());
        let (kind, size) = match number {
            1 => (None, 0),
            2 if kind(0) => (Some(0), 1),
            2 if kind(1) => (Some(1), 0),
            3 if fields[0] == FFPROBE && kind(2) => (Some(2), 1),
            4.. if kind(1) => (Some(1), 3),
            4.. if kind(2) => (Some(2), 3),
            _ => return None,
        };
        Some(Columns { number, kind, size })
    }

    /// The same if a heading says in which column the size is.
    fn below(heading: &[&str], fields: &[&str]) -> Option<Columns> {
        let names_size = |name: &&str| {
            let name = name.to_ascii_lowercase();
            SIZES.iter().any(|&size| name.starts_with(size))
        };
        let mut sizes = (0..).zip(heading).filter(|(_, name)| names_size(name)).map(|(column, _)| column);
        let (Some(size), None) = (sizes.next(), sizes.next()) else { return None };
        let kind = fields.iter().position(|field| kind_of(field).is_some());
        (fields.len() == heading.len()).then_some(Columns { number: fields.len(), kind, size })
    }
}

/// How a heading calls the column of sizes, or begins to.
const SIZES: [&str; 8] =
    ["size", "frame_size", "framesize", "pkt_size", "length", "frame_length", "framelength", "bytes"];

/// The type of a frame by its name: the letters I, P, B of either case, SI and SP (H.264), IDR, and the NAL unit types
/// of H.265. There only IRAP pictures (IDR, CRA, BLA) can be decoded alone, and what ends in `_N` is no reference for
/// others, as a B frame.
fn kind_of(field: &str) -> Option<FrameKind> {
    if let &[letter] = field.as_bytes() {
        return FrameKind::by_letter(letter.into());
    }
    let (stem, ending) = field.split_at_checked(field.len().saturating_sub(4))?;
    let field = if ending.eq_ignore_ascii_case("_NUT") { stem } else { field };
    NAMES.iter().find(|(name, _)| field.eq_ignore_ascii_case(name)).map(|&(_, kind)| kind)
}

/// The types of pictures that have more than a letter.
const NAMES: [(&str, FrameKind); 19] = [
    ("IDR", FrameKind::I),
    ("SI", FrameKind::I),
    ("SP", FrameKind::P),
    ("CRA", FrameKind::I),
    ("IDR_W_RADL", FrameKind::I),
    ("IDR_N_LP", FrameKind::I),
    ("BLA_W_LP", FrameKind::I),
    ("BLA_W_RADL", FrameKind::I),
    ("BLA_N_LP", FrameKind::I),
    ("TRAIL_R", FrameKind::P),
    ("TRAIL_N", FrameKind::B),
    ("TSA_R", FrameKind::P),
    ("TSA_N", FrameKind::B),
    ("STSA_R", FrameKind::P),
    ("STSA_N", FrameKind::B),
    ("RADL_R", FrameKind::P),
    ("RADL_N", FrameKind::B),
    ("RASL_R", FrameKind::P),
    ("RASL_N", FrameKind::B),
];

/// Size and type of the frame of a line.
fn frame_of<'t>(
    fields: &[&'t str],
    form: Columns,
    bits: bool,
) -> std::result::Result<(u32, FrameKind), Wrong<'t>> {
    if fields.len() != form.number {
        let message = format!("{}, and {} in the lines before", columns_of(fields), form.number);
        return Err(Wrong::at(fields[0], message, "every line has the same columns"));
    }
    let kind = match form.kind {
        None => FrameKind::Any,
        Some(column) => kind_of(fields[column]).ok_or_else(|| {
            let message = format!("no type of a frame: {}", quoted(fields[column]));
            Wrong::at(fields[column], message, "expected I, P or B, or a type of H.264 or H.265 such as IDR")
        })?,
    };
    let field = fields[form.size];
    let size: u64 = field.parse().map_err(|_| {
        let unit = if bits { "bits" } else { "bytes" };
        let message = format!("no size of a frame: {}", quoted(field));
        Wrong::at(field, message, format!("expected a whole number of {unit}"))
    })?;
    let bytes = if bits { size.div_ceil(8) } else { size };
    if bytes > LARGEST_FRAME {
        return Err(Wrong::at(
            field,
            format!("a frame of {bytes} B"),
            format!("at most {LARGEST_FRAME} B are allowed"),
        ));
    }
    Ok((bytes as u32, kind))
}

/// The frames of a text.
fn parse(source: &Source<'_>, bits: bool) -> Result<Frames> {
    let mut frames = Vec::new();
    let mut columns: Option<Columns> = None;
    let heading = heading(source);
    each_line(source, |fields| {
        let known = columns.or_else(|| Columns::below(&heading, fields)).or_else(|| Columns::of(fields));
        let Some(form) = known else {
            let message = format!("these are no columns of a frame trace: {}", quoted(&fields.join(" ")));
            return Err(Wrong::at(fields[0], message, format!("expected {FORMS}")));
        };
        columns = Some(form);
        frames.push(frame_of(fields, form, bits)?);
        if frames.len() as u64 > MOST_FRAMES {
            return Err(Wrong::at(fields[0], format!("more than {MOST_FRAMES} frames"), "shorten the file"));
        }
        Ok(())
    })?;
    if frames.iter().all(|&(bytes, _)| bytes == 0) {
        let file = source.file.unwrap_or_default();
        let message = if frames.is_empty() { "the file holds no frame" } else { "all frames are empty" };
        return Err(ScenarioError::of_file(file, message.to_owned(), &format!("expected {FORMS}")));
    }
    Ok(frames.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use FrameKind::{Any, B, I, P};

    fn frames(text: &str) -> Vec<(u32, FrameKind)> {
        let source = Source { file: Some("film.txt"), text, overrides: &[] };
        parse(&source, false).unwrap_or_else(|error| panic!("{error}")).to_vec()
    }

    fn error(text: &str) -> String {
        let source = Source { file: Some("film.txt"), text, overrides: &[] };
        parse(&source, false).unwrap_err().to_string()
    }

    #[test]
    fn the_common_formats() {
        assert_eq!(frames("1000\n0\n 500 # last\n"), [(1000, Any), (0, Any), (500, Any)]);
        assert_eq!(frames("# a film\n\nI 7000\nb 300"), [(7000, I), (300, B)]);
        assert_eq!(frames("size,type\n7000,I\n4000,P\n"), [(7000, I), (4000, P)]);
        assert_eq!(frames("frame,9000,I\nframe,300,B\n"), [(9000, I), (300, B)]);
        let verbose = "FrameNo FrameType Time[ms] Length[byte]\r\n0\tI\t0\t534\r\n1\tP\t120\t1542\r\n";
        assert_eq!(frames(verbose), [(534, I), (1542, P)]);
        // A heading may name another column than the fourth, and one without a type.
        assert_eq!(frames("time type size psnr\n0 I 5000 40\n1 P 300 38\n"), [(5000, I), (300, P)]);
        assert_eq!(frames("frame,type,pkt_size\n1,I,5000\n"), [(5000, I)]);
        assert_eq!(frames("time bytes\n0 70\n1 80\n"), [(70, Any), (80, Any)]);
        let quality = "0 0.0 I 4480 35.1 40.2 41.3\n1 33.3 B 120 34.0 40.0 41.0\n";
        assert_eq!(frames(quality), [(4480, I), (120, B)]);
    }

    /// Types as encoders of H.264 and H.265 name them: `b` is no reference, IDR begins anew.
    #[test]
    fn types_of_later_codecs() {
        assert_eq!(
            frames("1 IDR 0 1000\n2 P 40 400\n3 b 80 200\n4 B 120 210\n"),
            [(1000, I), (400, P), (200, B), (210, B)]
        );
        let hevc =
            "IDR_W_RADL 9000\nTRAIL_R 700\nTRAIL_N 300\nCRA_NUT 8000\nRASL_N 100\nBLA_W_LP 7000\nTSA_R 5\n";
        let kinds: Vec<FrameKind> = frames(hevc).iter().map(|frame| frame.1).collect();
        assert_eq!(kinds, [I, P, B, I, B, I, P]);
        assert!(error("IDR 5\nIDX 6\n").contains("no type of a frame: \"IDX\""));
    }

    #[test]
    fn bits_are_rounded_up_to_bytes() {
        let source = Source { file: None, text: "8\n9\n", overrides: &[] };
        assert_eq!(parse(&source, true).unwrap().to_vec(), [(1, Any), (2, Any)]);
    }

    #[test]
    fn wrong_lines_are_shown() {
        assert_eq!(
            error("1000\n-5\n"),
            "scenario error: no size of a frame: \"-5\"\n  at film.txt:2:1\n2 | -5\n  | ^^ expected a whole number of \
             bytes"
        );
        assert_eq!(
            error("# x\n1 I 0 534\n2 X 40 100\n"),
            "scenario error: no type of a frame: \"X\"\n  at film.txt:3:3\n3 | 2 X 40 100\n  |   ^ expected I, P or B, \
             or a type of H.264 or H.265 such as IDR"
        );
        assert_eq!(
            error("1 I 0 534\n2 P 40\n"),
            "scenario error: 3 columns, and 4 in the lines before\n  at film.txt:2:1\n2 | 2 P 40\n  | ^ every line has \
             the same columns"
        );
        assert_eq!(
            error("1 2 3\n"),
            format!(
                "scenario error: these are no columns of a frame trace: \"1 2 3\"\n  at film.txt:1:1\n1 | 1 2 3\n  | ^ \
                 expected {FORMS}"
            )
        );
        assert!(error("2000000000\n").contains("a frame of 2000000000 B"));
        assert!(error("12.5\n").contains("expected a whole number of bytes"));
    }

    #[test]
    fn a_file_without_frames() {
        for (text, message) in [
            ("", "the file holds no frame"),
            ("abc\n", "the file holds no frame"),
            ("0\n0\n", "all frames are empty"),
        ] {
            let promised = format!("scenario error: {message}\n  at film.txt\n     expected {FORMS}");
            assert_eq!(error(text), promised);
        }
    }
}
