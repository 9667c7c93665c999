//! `video-call`: an encoder that follows the rate that its transport allows.

use std::sync::Arc;

use lasthop_core::time::Span;
use lasthop_core::units::Rate;
use lasthop_net::plan::Traffic;
use lasthop_net::traffic::encoder::{Deviation, EncoderPlan};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{ANY_TIME, Kind, LONGEST, SOME_TIME};
use super::super::reader::Reader;

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) const NAME: &str = "video-call";
pub(super) const BARE: bool = true;

const SCALE: Kind = Kind::Number { min: 0.0, max: 1.0 };

table! {
    /// Video of a call: an encoder that follows the rate that its transport allows (RFC 8593). It suits the transports
    /// nada, gcc and scream, and works over all others.
    pub(super) static TABLE = "video-call traffic";
    struct Keys {
        /// How frames deviate: Laplace deviations and a burst after each change of the rate (RFC 8593 section 5), or a
        /// rate within 5 % for each second (RFC 8867 section 5).
        model: &'static str = Kind::Choice(|| vec!["rfc8593", "rfc8867"]), default("\"rfc8593\"");
        /// Lowest rate of the encoder.
        min_rate: Rate = Kind::Rate, default("\"150 kbit/s\"");
        /// Highest rate of the encoder.
        max_rate: Rate = Kind::Rate, default("\"1.5 Mbit/s\"");
        /// Rate of the encoder at the start. Default: the lowest.
        start_rate: Option<Rate> = Kind::Rate;
        /// Frames per second.
        frame_rate: f64 = Kind::Number { min: 1.0, max: 1000.0 }, default("30");
        /// Shortest time between two changes of the rate. Default: 200 ms (rfc8593), 100 ms (rfc8867).
        reaction: Option<Span> = ANY_TIME;
        /// Scale of the deviation of sizes; of rfc8867 the share to either side. Default: 0.15 (rfc8593), 0.05
        /// (rfc8867).
        size_scale: Option<f64> = SCALE;
        /// Scale of the deviation of intervals, of rfc8593. Default: 0.15.
        interval_scale: Option<f64> = SCALE;
        /// Size of a key frame and of the first frame after a change.
        burst: u64 = Kind::Size { min: 10, max: 100_000_000 }, default("\"13.5 kB\"");
        /// Number of frames over which a burst is made up for: the frames after it are smaller, so that the mean is
        /// kept.
        transient: u32 = Kind::Integer { min: 1, max: 1000 }, default("8");
        /// Minimum rates of the resolutions above the lowest, rising; a change of resolution starts with a key frame.
        /// Default: one resolution.
        ladder: Option<Vec<Rate>> = Kind::List(&Kind::Rate);
        /// Maximum time between two key frames. Default: a key frame is sent only when it is needed.
        key_interval: Option<Span> = SOME_TIME;
        /// Frames are skipped while the sender's queue would take longer than this to send.
        patience: Span = Kind::Duration { min: Span::from_millis(1), max: LONGEST }, default("\"200 ms\"");
        /// Times since the start of the flow at which the video stops and goes on again, in turn.
        pause: Option<Vec<Span>> = Kind::List(&SOME_TIME);
    }
}

pub(super) fn read(table: &Reader<'_>, _: &mut InputFiles<'_>) -> Result<Traffic> {
    let keys = Keys::read(table)?;
    let (least, most) = (keys.min_rate, keys.max_rate);
    if least > most {
        let message = format!("min_rate, {least}, exceeds max_rate, {most}");
        return Err(table.error("min_rate", message, "lower min_rate, or raise max_rate"));
    }
    let start = keys.start_rate.unwrap_or(least);
    if start < least || start > most {
        let message = format!("start_rate, {start}, does not lie between {least} and {most}");
        return Err(table.error("start_rate", message, "write a rate between min_rate and max_rate"));
    }
    let ladder = ladder(table, keys.ladder.unwrap_or_default())?;
    if let Some(rung) = ladder.iter().find(|rung| !(least..=most).contains(rung)) {
        let message = format!("a rung of the ladder, {rung}, does not lie between {least} and {most}");
        return Err(table.error("ladder", message, "write rates between min_rate and max_rate"));
    }
    let laplace = keys.model == "rfc8593";
    if !laplace && keys.interval_scale.is_some() {
        let message =
            "interval_scale has no effect: frames of model rfc8867 come at equal intervals".to_owned();
        return Err(table.error("interval_scale", message, "leave it out"));
    }
    let deviation = if laplace {
        let interval = keys.interval_scale.unwrap_or(0.15);
        Deviation::Laplace { size: keys.size_scale.unwrap_or(0.15), interval }
    } else {
        Deviation::PerSecond { share: keys.size_scale.unwrap_or(0.05) }
    };
    let reaction = Span::from_millis(if laplace { 200 } else { 100 });
    Ok(Traffic::Encoder(Arc::new(EncoderPlan {
        frame_rate: keys.frame_rate,
        least,
        most,
        start,
        reaction: keys.reaction.unwrap_or(reaction),
        deviation,
        burst: keys.burst as f64,
        transient: keys.transient,
        ladder,
        key_interval: keys.key_interval,
        patience: keys.patience,
        pauses: pauses(table, &keys.pause.unwrap_or_default())?,
    })))
}

fn ladder(table: &Reader<'_>, rates: Vec<Rate>) -> Result<Vec<Rate>> {
    if let Some(at) = rates.windows(2).position(|pair| pair[0] >= pair[1]) {
        let message = format!("rate {} of the ladder is not above the one before it", at + 2);
        return Err(table.error("ladder", message, "write them rising, each once"));
    }
    Ok(rates)
}

/// Pairs of times: the video stops, and goes on.
fn pauses(table: &Reader<'_>, times: &[Span]) -> Result<Vec<(Span, Span)>> {
    let rises = times.windows(2).all(|pair| pair[0] < pair[1]);
    if !rises || !times.len().is_multiple_of(2) {
        let message = "pause is not a list of times to stop and to go on".to_owned();
        return Err(table.error("pause", message, "write rising times in pairs: [\"40 s\", \"60 s\"]"));
    }
    Ok(times.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}
