//! `video-on-demand`: an adaptive player at the sink and its server at the source.

use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_core::units::Rate;
use lasthop_net::plan::{Connections, Traffic};
use lasthop_net::traffic::player::{PlayerPlan, Rule};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
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
        /// Length of video in a segment.
        segment: Span = Kind::Duration { min: Span::from_millis(10), max: LONGEST }, default("\"3 s\"");
        /// Length of the video, in whole segments. Default: it does not end.
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

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic> {
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
        segments: keys.length.map(|length| length.0.div_ceil(segment.0).max(1)),
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
