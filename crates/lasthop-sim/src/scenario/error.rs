//! The error models of a link from their tables. Called by `link.rs`, which reads lists of packets itself.

use lasthop_core::time::{Span, Time};
use lasthop_net::plan::{
    Bernoulli, BitErrorRate, ErrorModel, ErrorPosition, ErrorScope, GilbertElliott, GilbertElliottTime,
    Periodic, StateErrors, TwoState, TwoStatePackets,
};

use super::diagnostic::ScenarioError;
use super::reader::Reader;

type Result<T> = std::result::Result<T, ScenarioError>;

/// Which packets a model judges, and where.
#[derive(Clone, Copy)]
pub(super) struct Judged {
    pub(super) position: ErrorPosition,
    pub(super) scope: ErrorScope,
}

impl Judged {
    pub(super) const DEFAULT: Judged =
        Judged { position: ErrorPosition::AfterTransmission, scope: ErrorScope::EVERYTHING };
}

/// The keys that all models have.
pub(super) fn judged(model: &Reader<'_>) -> Result<Judged> {
    let position = match model.name("position")? {
        "before-queue" => ErrorPosition::BeforeQueue,
        "after-arq" => ErrorPosition::AfterArq,
        _ => ErrorPosition::AfterTransmission,
    };
    let from = Time(model.span("from")?.0);
    let until = model.span_if("until")?.map_or(Time::MAX, |until| Time(until.0));
    if until <= from {
        let message = format!("the error period is empty: it ends at {until}, before it starts at {from}");
        return Err(model.error("until", message, "let until be later than from"));
    }
    let at_least = model.size_if("at_least")?.unwrap_or(0) as u32;
    Ok(Judged { position, scope: ErrorScope { from, until, at_least } })
}

/// The model called `kind`.
pub(super) fn read(kind: &str, model: &Reader<'_>) -> Result<ErrorModel> {
    match kind {
        "bernoulli" => {
            let packet_error_rate = model.number("packet_error_rate")?;
            Ok(ErrorModel::Bernoulli(Bernoulli { packet_error_rate }))
        }
        "exponential" => Ok(ErrorModel::Bernoulli(Bernoulli::of_exponential(model.number("rate")?))),
        "periodic" => {
            let (every, burst) = (model.integer("every")?, model.integer("burst")?);
            if burst > every {
                let message = format!("{burst} of every {every} packets cannot be lost");
                return Err(model.error("burst", message, &format!("{every} is the most")));
            }
            let first = model.integer_if("first")?.unwrap_or(every - 1);
            Ok(ErrorModel::Periodic(Periodic { every, first, burst }))
        }
        "bit-errors" => Ok(ErrorModel::BitErrorRate(BitErrorRate {
            bit_error_rate: model.number("bit_error_rate")?,
            overhead: model.size("overhead")? as u32,
        })),
        "two-state" => two_state(model).map(ErrorModel::TwoState),
        "two-state-packets" => Ok(ErrorModel::TwoStatePackets(TwoStatePackets {
            good: model.number("good")?,
            bad: model.number("bad")?,
            stationary: model.name("begin")? == "stationary",
        })),
        "gilbert-elliott" => gilbert_elliott(model).map(ErrorModel::GilbertElliott),
        "gilbert-elliott-time" => Ok(ErrorModel::GilbertElliottTime(GilbertElliottTime {
            good: model.span("good")?,
            bad: model.span("bad")?,
            errors: state_errors(model)?,
        })),
        kind => panic!("no reader for the error model `{kind}`"),
    }
}

fn two_state(model: &Reader<'_>) -> Result<TwoState> {
    let bad = model.span("bad")?;
    let good = match (model.number_if("packet_error_rate")?, model.span_if("good")?) {
        (None, Some(good)) => good,
        (Some(rate), None) if rate > 0.0 && rate < 1.0 => {
            Span::from_seconds(bad.seconds() * (1.0 - rate) / rate)
        }
        (Some(rate), None) => {
            let message = format!("a packet_error_rate of {rate} has no good and bad times");
            let remedy = "write one between 0 and 1, or use bernoulli";
            return Err(model.error("packet_error_rate", message, remedy));
        }
        (Some(_), Some(_)) => {
            let message = "good and packet_error_rate exclude each other".to_owned();
            return Err(model.error("good", message, "keep one of them"));
        }
        (None, None) => {
            let message = "missing key \"good\" or \"packet_error_rate\" in two-state error model".to_owned();
            let remedy = "add packet_error_rate = 0.05, or good = \"1 s\"";
            return Err(model.source.error(model.place, message, remedy));
        }
    };
    Ok(TwoState { good, bad, stationary: model.name("begin")? == "stationary" })
}

/// Probability of a loss in the good and in the bad state.
fn losses(model: &Reader<'_>) -> Result<[f64; 2]> {
    Ok([model.number_if("loss_good")?.unwrap_or(0.0), model.number_if("loss_bad")?.unwrap_or(1.0)])
}

fn gilbert_elliott(model: &Reader<'_>) -> Result<GilbertElliott> {
    let fitted = ["packet_error_rate", "mean_burst"].into_iter().find(|key| model.has(key));
    let given = ["to_bad", "to_good", "loss_good", "loss_bad"].into_iter().find(|key| model.has(key));
    let (rate, burst) = match (fitted, given) {
        (None, _) => {
            let step = |key: &str| {
                let missing = || model.missing(model.table.key(key));
                model.number_if(key)?.ok_or_else(missing)
            };
            let (to_bad, to_good) = (step("to_bad")?, step("to_good")?);
            if to_bad + to_good == 0.0 {
                let message = "a channel that never changes its state has no share of either".to_owned();
                return Err(model.error("to_bad", message, "write more than 0, or use bernoulli"));
            }
            return Ok(GilbertElliott { to_bad, to_good, loss: losses(model)? });
        }
        (Some(fitted), Some(given)) => {
            let message = format!("{given} and {fitted} exclude each other");
            let remedy = "packet_error_rate and mean_burst say all of it; or write to_bad and to_good";
            return Err(model.error(given, message, remedy));
        }
        (Some(_), None) => {
            let of = |key: &str| {
                let missing = || model.missing(model.table.key(key));
                model.number_if(key)?.ok_or_else(missing)
            };
            (of("packet_error_rate")?, of("mean_burst")?)
        }
    };
    let to_good = 1.0 / burst;
    let to_bad = rate * to_good / (1.0 - rate);
    if rate >= 1.0 || to_bad > 1.0 {
        let message = format!("bursts of {burst} packets cannot make {rate} of all packets");
        let remedy = "raise mean_burst, or lower packet_error_rate";
        return Err(model.error("packet_error_rate", message, remedy));
    }
    Ok(GilbertElliott { to_bad, to_good, loss: [0.0, 1.0] })
}

fn state_errors(model: &Reader<'_>) -> Result<StateErrors> {
    let (good, bad) = (model.number_if("bit_error_rate_good")?, model.number_if("bit_error_rate_bad")?);
    let given = ["loss_good", "loss_bad"].into_iter().find(|key| model.has(key));
    match (good, bad, given) {
        (None, None, _) => Ok(StateErrors::PerFrame(losses(model)?)),
        (Some(good), Some(bad), None) => Ok(StateErrors::PerBit([good, bad])),
        (_, _, Some(key)) => {
            let message = format!("{key} and bit error rates exclude each other");
            Err(model.error(key, message, "keep one of them"))
        }
        (good, _, None) => {
            let missing = if good.is_none() { "bit_error_rate_good" } else { "bit_error_rate_bad" };
            Err(model.missing(model.table.key(missing)))
        }
    }
}
