//! `video-call`: an encoder that follows the rate that its transport allows.

use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_core::units::Rate;
use lasthop_net::plan::Traffic;
use lasthop_net::traffic::encoder::{Deviation, EncoderPlan};

use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{ANY_TIME, Key, Kind, LONGEST, SOME_TIME, Table};
use super::super::reader::{Checked, Item, Reader};

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "video-call";
pub(super) const BARE: bool = true;

const SCALE: Kind = Kind::Number { min: 0.0, max: 1.0 };

pub(super) static TABLE: Table = Table {
    title: "video-call traffic",
    doc: "Video of a call: an encoder that follows the rate that its transport allows (RFC 8593). It suits the \
          transports nada, gcc and scream, and works over all others.",
    groups: &[&[
        Key::new(
            "model",
            Kind::Choice(|| vec!["rfc8593", "rfc8867"]),
            "How frames deviate: Laplace deviations and a burst after each change of the rate (RFC 8593 section 5), or \
             a rate within 5 % for each second (RFC 8867 section 5).",
        )
        .default("\"rfc8593\""),
        Key::new("min_rate", Kind::Rate, "Lowest rate of the encoder.").default("\"150 kbit/s\""),
        Key::new("max_rate", Kind::Rate, "Highest rate of the encoder.").default("\"1.5 Mbit/s\""),
        Key::new("start_rate", Kind::Rate, "Rate of the encoder at the start. Default: the lowest."),
        Key::new("frame_rate", Kind::Number { min: 1.0, max: 1000.0 }, "Frames per second.").default("30"),
        Key::new(
            "reaction",
            ANY_TIME,
            "Shortest time between two changes of the rate. Default: 200 ms (rfc8593), 100 ms (rfc8867).",
        ),
        Key::new("size_scale", SCALE, "Scale of the deviation of sizes; of rfc8867 the share to either side. \
             Default: 0.15 (rfc8593), 0.05 (rfc8867)."),
        Key::new("interval_scale", SCALE, "Scale of the deviation of intervals, of rfc8593. Default: 0.15."),
        Key::new(
            "burst",
            Kind::Size { min: 10, max: 100_000_000 },
            "Size of a key frame and of the first frame after a change.",
        )
        .default("\"13.5 kB\""),
        Key::new("transient", Kind::Integer { min: 1, max: 1000 }, "Number of frames over which a burst is made up \
            for: the frames after it are smaller, so that the mean is kept.")
        .default("8"),
        Key::new(
            "ladder",
            Kind::List(&Kind::Rate),
            "Minimum rates of the resolutions above the lowest, rising; a change of resolution starts with a key \
             frame. Default: one resolution.",
        ),
        Key::new("key_interval", SOME_TIME, "Maximum time between two key frames. Default: a key frame is sent only \
            when it is needed."),
        Key::new(
            "patience",
            Kind::Duration { min: Span::from_millis(1), max: LONGEST },
            "Frames are skipped while the sender's queue would take longer than this to send.",
        )
        .default("\"200 ms\""),
        Key::new(
            "pause",
            Kind::List(&SOME_TIME),
            "Times since the start of the flow at which the video stops and goes on again, in turn.",
        ),
    ]],
    partial: false,
};

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic> {
    let rate = |key| -> Result<Rate> {
        match table.value(key)? {
            Checked::Rate(rate) => Ok(rate),
            _ => panic!("`{key}` is declared as a rate"),
        }
    };
    let (least, most) = (rate("min_rate")?, rate("max_rate")?);
    if least > most {
        let message = format!("min_rate, {least}, exceeds max_rate, {most}");
        return Err(table.error("min_rate", message, "lower min_rate, or raise max_rate"));
    }
    let start = table.rate_if("start_rate")?.unwrap_or(least);
    if start < least || start > most {
        let message = format!("start_rate, {start}, does not lie between {least} and {most}");
        return Err(table.error("start_rate", message, "write a rate between min_rate and max_rate"));
    }
    let laplace = table.name("model")? == "rfc8593";
    if !laplace && table.has("interval_scale") {
        let message =
            "interval_scale has no effect: frames of model rfc8867 come at equal intervals".to_owned();
        return Err(table.error("interval_scale", message, "leave it out"));
    }
    let size = table.number_if("size_scale")?;
    let deviation = if laplace {
        let interval = table.number_if("interval_scale")?.unwrap_or(0.15);
        Deviation::Laplace { size: size.unwrap_or(0.15), interval }
    } else {
        Deviation::PerSecond { share: size.unwrap_or(0.05) }
    };
    let reaction = Span::from_millis(if laplace { 200 } else { 100 });
    Ok(Traffic::Encoder(Arc::new(EncoderPlan {
        frame_rate: table.number("frame_rate")?,
        least,
        most,
        start,
        reaction: table.span_if("reaction")?.unwrap_or(reaction),
        deviation,
        burst: table.size("burst")? as f64,
        transient: table.integer("transient")? as u32,
        ladder: ladder(table)?,
        key_interval: table.span_if("key_interval")?,
        patience: table.span("patience")?,
        pauses: pauses(table)?,
    })))
}

fn ladder(table: &Reader<'_>) -> Result<Vec<Rate>> {
    let Some(listed) = table.list_if("ladder")? else { return Ok(Vec::new()) };
    let rate = |item: &Item<'_>| match item.value {
        Checked::Rate(rate) => rate,
        _ => panic!("`ladder` is declared as a list of rates"),
    };
    let rates: Vec<Rate> = listed.iter().map(rate).collect();
    if let Some(at) = rates.windows(2).position(|pair| pair[0] >= pair[1]) {
        let message = format!("rate {} of the ladder is not above the one before it", at + 2);
        return Err(table.error("ladder", message, "write them rising, each once"));
    }
    Ok(rates)
}

/// Pairs of times: the video stops, and goes on.
fn pauses(table: &Reader<'_>) -> Result<Vec<(Span, Span)>> {
    let Some(listed) = table.list_if("pause")? else { return Ok(Vec::new()) };
    let time = |item: &Item<'_>| match item.value {
        Checked::Span(span) => span,
        _ => panic!("`pause` is declared as a list of times"),
    };
    let times: Vec<Span> = listed.iter().map(time).collect();
    let rises = times.windows(2).all(|pair| pair[0] < pair[1]);
    if !rises || !times.len().is_multiple_of(2) {
        let message = "pause is not a list of times to stop and to go on".to_owned();
        return Err(table.error("pause", message, "write rising times in pairs: [\"40 s\", \"60 s\"]"));
    }
    Ok(times.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}
