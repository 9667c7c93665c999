//! `video-on-demand`: an adaptive player at the sink and its server at the source.

use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_core::units::Rate;
use lasthop_net::plan::{Connections, Traffic};
use lasthop_net::traffic::player::{PlayerPlan, Rule};

use super::super::declare::table;
use super::super::diagnostic::{ScenarioError, Source, quoted};
use super::super::input_file::{InputFiles, Wrong, columns_of, each_line};
use super::super::keys::{ANY_TIME, Kind, LONGEST, SOME_TIME};
use super::super::reader::Reader;

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "video-on-demand";
pub(super) const BARE: bool = true;

/// Bit rates of "Big Buck Bunny" in the paper on BOLA.
const LADDER: [u64; 10] =
    [230_000, 331_000, 477_000, 688_000, 991_000, 1_427_000, 2_056_000, 2_962_000, 5_027_000, 6_000_000];

table! {
    /// A player at the flow's sink requests segments from a server at its source, one after another over one
    /// connection, and chooses the bit rate of each.
    pub(super) static TABLE = "video-on-demand traffic";
    struct Keys {
        /// Bit rates, rising. Default: ten from 230 kbit/s to 6 Mbit/s, those of "Big Buck Bunny" in the paper on BOLA.
        ladder: Option<Vec<Rate>> = Kind::List(&Kind::Rate);
        /// A file with the size of each segment, a line for each, in bytes at each bit rate of the ladder in its order:
        /// what encoders at a variable rate make. The video has as many segments, or begins again if length is given.
        sizes: Option<String> = Kind::File;
        /// Length of video in a segment.
        segment: Span = Kind::Duration { min: Span::from_millis(10), max: LONGEST }, default("\"3 s\"");
        /// Length of the video, in whole segments. Default: it does not end, or it is that of sizes.
        length: Option<Span> = SOME_TIME;
        /// How the bit rate is chosen: bola by the buffer (BOLA-BASIC), throughput by the rate of the last four
        /// segments, fixed always the highest of the ladder.
        rule: &'static str = Kind::Choice(|| vec!["bola", "throughput", "fixed"]), default("\"bola\"");
        /// BOLA's parameter gamma p. Default: 5.
        gp: Option<f64> = Kind::Number { min: 0.001, max: 1000.0 };
        /// Maximum length of video in the buffer, at least two segments.
        buffer: Span = SOME_TIME, default("\"25 s\"");
        /// Video in the buffer when playing starts. Default: one segment.
        startup: Option<Span> = SOME_TIME;
        /// Video in the buffer when playing goes on after a stall. Default: one segment.
        rebuffer: Option<Span> = SOME_TIME;
        /// Size of a request.
        request: u64 = Kind::Size { min: 1, max: 1_000_000 }, default("\"400 B\"");
        /// Processing time of the server for each request.
        server_time: Span = ANY_TIME, default("\"0 s\"");
    }
}

pub(super) fn read(table: &Reader<'_>, files: &mut InputFiles<'_>) -> Result<Traffic> {
    let keys = Keys::read(table)?;
    let Keys { segment, buffer, .. } = keys;
    if buffer < segment + segment {
        let message = format!("a buffer of {buffer} has no room for two segments of {segment}");
        return Err(table.error("buffer", message, "raise it, or shorten segment"));
    }
    let enough = |key, given: Option<Span>| -> Result<Span> {
        let video = given.unwrap_or(segment);
        if video > buffer {
            let message = format!("{key} waits for {video} of video, and the buffer holds {buffer}");
            return Err(table.error(key, message, "lower it, or raise buffer"));
        }
        Ok(video)
    };
    let ladder = ladder(table, keys.ladder)?;
    let sizes: Arc<[u32]> = match &keys.sizes {
        None => Arc::default(),
        Some(file) => {
            let path = files.path_at(table, "sizes", file)?;
            files
                .parsed_at((table, "sizes"), &path, "the segments", |source| sizes_of(source, ladder.len()))?
                .into()
        }
    };
    let listed = (!sizes.is_empty()).then_some((sizes.len() / ladder.len()) as u64);
    let rule = match keys.rule {
        "bola" => Rule::Bola { gp: keys.gp.unwrap_or(5.0) },
        rule if keys.gp.is_some() => {
            let message = format!("gp is for BOLA, and the rule is {rule}");
            return Err(table.error("gp", message, "leave it out"));
        }
        "throughput" => Rule::Throughput,
        _ => Rule::Fixed(ladder.len() - 1),
    };
    Ok(Traffic::Player(Arc::new(PlayerPlan {
        ladder,
        segment,
        segments: keys.length.map(|length| length.0.div_ceil(segment.0).max(1)).or(listed),
        sizes,
        rule,
        buffer,
        startup: enough("startup", keys.startup)?,
        rebuffer: enough("rebuffer", keys.rebuffer)?,
        request: keys.request,
        connections: Connections { most: 1, streams: 1, server_time: keys.server_time },
    })))
}

fn ladder(table: &Reader<'_>, listed: Option<Vec<Rate>>) -> Result<Arc<[u64]>> {
    let Some(listed) = listed else { return Ok(Arc::from(LADDER)) };
    let rates: Vec<u64> = listed.iter().map(|rate| rate.0).collect();
    if let Some(at) = rates.windows(2).position(|pair| pair[0] >= pair[1]) {
        let message = format!("bit rate {} of the ladder is not above the one before it", at + 2);
        return Err(table.error("ladder", message, "write them rising, each once"));
    }
    Ok(rates.into())
}

/// Most segments of a list: a day of segments of two seconds.
const MOST_SEGMENTS: usize = 43_200;
const SIZES: &str = "bytes of a segment at each bit rate of the ladder, by line";

/// The sizes of a list, segment by segment, `rates` of each.
fn sizes_of(source: &Source<'_>, rates: usize) -> Result<Vec<u32>> {
    let mut sizes = Vec::new();
    each_line(source, |fields| {
        if fields.len() != rates {
            let message = format!("{}, and the ladder has {rates} bit rates", columns_of(fields));
            return Err(Wrong::at(fields[0], message, format!("expected {SIZES}")));
        }
        if sizes.len() >= MOST_SEGMENTS * rates {
            let message = format!("more than {MOST_SEGMENTS} segments");
            return Err(Wrong::at(fields[0], message, "shorten the file"));
        }
        for field in fields {
            match field.parse::<u32>() {
                Ok(bytes) if (1..=LARGEST_SEGMENT).contains(&bytes) => sizes.push(bytes),
                _ => {
                    let message = format!("no size of a segment: {}", quoted(field));
                    let expected = format!("expected a whole number of bytes, 1 to {LARGEST_SEGMENT}");
                    return Err(Wrong::at(field, message, expected));
                }
            }
        }
        Ok(())
    })?;
    if sizes.is_empty() {
        let file = source.file.unwrap_or_default();
        let message = "the file holds no segment".to_owned();
        return Err(ScenarioError::of_file(file, message, &format!("expected {SIZES}")));
    }
    Ok(sizes)
}

/// Most bytes of a segment.
const LARGEST_SEGMENT: u32 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<Vec<u32>, String> {
        let source = Source { file: Some("bunny.txt"), text, overrides: &[] };
        sizes_of(&source, 2).map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_by_segment() {
        assert_eq!(read("low high\r\n100 200\r\n\n300,400 # the end\r\n"), Ok(vec![100, 200, 300, 400]));
        for (text, place, message) in [
            ("100 200\n300\n", ":2:1", "1 column, and the ladder has 2 bit rates"),
            ("100 200 300\n", ":1:1", "3 columns, and the ladder has 2 bit rates"),
            ("100 -200\n", ":1:5", "no size of a segment: \"-200\""),
            ("100 2.5\n", ":1:5", "no size of a segment: \"2.5\""),
            ("100 0\n", ":1:5", "no size of a segment: \"0\""),
            ("100 1000000001\n", ":1:5", "no size of a segment"),
            ("", "", "the file holds no segment"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(message) && error.contains(&format!("at bunny.txt{place}")), "{error}");
        }
    }
}
