//! `video-on-demand`: an adaptive player at the sink and its server at the source.

use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_net::plan::{Connections, Traffic};
use lasthop_net::traffic::player::{PlayerPlan, Rule};

use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{ANY_TIME, Key, Kind, LONGEST, SOME_TIME, Table};
use super::super::reader::{Checked, Item, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "video-on-demand";
pub(super) const BARE: bool = true;

/// Bit rates of "Big Buck Bunny" in the paper on BOLA.
const LADDER: [u64; 10] =
    [230_000, 331_000, 477_000, 688_000, 991_000, 1_427_000, 2_056_000, 2_962_000, 5_027_000, 6_000_000];

pub(super) static TABLE: Table = Table {
    title: "video-on-demand traffic",
    doc: "A player at the flow's sink that asks a server at its source for segments, one after another over one \
          connection, and chooses the bit rate of each.",
    groups: &[&[
        Key::new(
            "ladder",
            Kind::List(&Kind::Rate),
            "Bit rates, rising. Default: ten from 230 kbit/s to 6 Mbit/s, those of \"Big Buck Bunny\" in the paper on \
             BOLA.",
        ),
        Key::new(
            "segment",
            Kind::Duration { min: Span::from_millis(10), max: LONGEST },
            "Length of video in a segment.",
        )
        .default("\"3 s\""),
        Key::new("length", SOME_TIME, "Length of the video, in whole segments. Default: it does not end."),
        Key::new(
            "rule",
            Kind::Choice(|| vec!["bola", "throughput", "fixed"]),
            "How the bit rate is chosen: bola by the buffer (BOLA-BASIC), throughput by the rate of the last four \
             segments, fixed always the highest of the ladder.",
        )
        .default("\"bola\""),
        Key::new("gp", Kind::Number { min: 0.001, max: 1000.0 }, "BOLA's parameter gamma p. Default: 5."),
        Key::new("buffer", SOME_TIME, "Maximum length of video in the buffer, at least two \
            segments.").default("\"25 s\""),
        Key::new("startup", SOME_TIME, "Video in the buffer when playing starts. Default: one segment."),
        Key::new(
            "rebuffer",
            SOME_TIME,
            "Video in the buffer when playing goes on after a stall. Default: one segment.",
        ),
        Key::new("request", Kind::Size { min: 1, max: 1_000_000 }, "Size of a request.").default("\"400 B\""),
        Key::new("server_time", ANY_TIME, "Processing time of the server for each request.").default("\"0 s\""),
    ]],
    partial: false,
};

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic> {
    let (segment, buffer) = (table.span("segment")?, table.span("buffer")?);
    if buffer < segment + segment {
        let message = format!("a buffer of {buffer} has no room for two segments of {segment}");
        return Err(table.error("buffer", message, "raise it, or shorten segment"));
    }
    let enough = |key| -> Result<Span> {
        let video = table.span_if(key)?.unwrap_or(segment);
        if video > buffer {
            let message = format!("{key} waits for {video} of video, and the buffer holds {buffer}");
            return Err(table.error(key, message, "lower it, or raise buffer"));
        }
        Ok(video)
    };
    let ladder = ladder(table)?;
    let gp = table.number_if("gp")?;
    let rule = match table.name("rule")? {
        "bola" => Rule::Bola { gp: gp.unwrap_or(5.0) },
        rule if gp.is_some() => {
            let message = format!("gp is for BOLA, and the rule is {rule}");
            return Err(table.error("gp", message, "leave it out"));
        }
        "throughput" => Rule::Throughput,
        _ => Rule::Fixed(ladder.len() - 1),
    };
    let length = table.span_if("length")?;
    Ok(Traffic::Player(Arc::new(PlayerPlan {
        ladder,
        segment,
        segments: length.map(|length| length.0.div_ceil(segment.0).max(1)),
        rule,
        buffer,
        startup: enough("startup")?,
        rebuffer: enough("rebuffer")?,
        request: table.size("request")?,
        connections: Connections { most: 1, server_time: table.span("server_time")? },
    })))
}

fn ladder(table: &Reader<'_>) -> Result<Arc<[u64]>> {
    let Some(listed) = table.list_if("ladder")? else { return Ok(Arc::from(LADDER)) };
    let rate = |item: &Item<'_>| match item.value {
        Checked::Rate(rate) => rate.0,
        _ => panic!("`ladder` is declared as a list of rates"),
    };
    let rates: Vec<u64> = listed.iter().map(rate).collect();
    if let Some(at) = rates.windows(2).position(|pair| pair[0] >= pair[1]) {
        let message = format!("bit rate {} of the ladder is not above the one before it", at + 2);
        return Err(table.error("ladder", message, "write them rising, each once"));
    }
    Ok(rates.into())
}
