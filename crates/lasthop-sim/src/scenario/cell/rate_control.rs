//! How stations choose their rates: the key `rate_control`.

use lasthop_core::time::Span;
use lasthop_net::device::wlan::minstrel_ht::MinstrelHtPlan;
use lasthop_net::device::wlan::rate_adaptation::{Arf, Minstrel, RatePlan};

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::keys::{Kind, SOME_TIME, Table, Tagged, Variant};
use super::super::reader::Reader;

pub(super) static RATE_CONTROL: Tagged = Tagged {
    title: "rate control",
    doc: "How stations choose their rates.",
    variants: &[
        Variant { name: "fixed", table: &FIXED_RATE, bare: true },
        Variant { name: "arf", table: &ARF, bare: true },
        Variant { name: "minstrel", table: &MINSTREL, bare: true },
        Variant { name: "minstrel-ht", table: &MINSTREL_HT, bare: true },
        Variant { name: "ideal", table: &IDEAL_RATE, bare: true },
    ],
};

static FIXED_RATE: Table =
    Table { title: "fixed rate", doc: "Always the same rate.", groups: &[], partial: false };

table! {
    /// A faster rate after consecutive acknowledgements, a slower one after consecutive failures (Kamerman and Monteban
    /// 1997).
    static ARF = "ARF";
    struct ArfKeys {
        /// Acknowledgements in a row before a faster rate.
        up_after: u32 = Kind::Integer { min: 1, max: 1_000 }, default("10");
        /// Failures in a row before a slower rate.
        down_after: u32 = Kind::Integer { min: 1, max: 1_000 }, default("2");
    }
}

table! {
    /// Statistics of every rate, in the manner of Minstrel of the Linux kernel.
    static MINSTREL = "minstrel";
    struct MinstrelKeys {
        /// Time between two evaluations.
        interval: Span = SOME_TIME, default("\"100 ms\"");
        /// Weight of the past in the average.
        weight: f64 = Kind::Number { min: 0.0, max: 0.999 }, default("0.75");
        /// Share of frames that try another rate first.
        sampling: f64 = Kind::Probability, default("0.1");
    }
}

table! {
    /// From 802.11n on: rate selection as in Linux since 5.12, by statistics of each mode, probes, and a retry chain.
    /// It chooses among all modes up to the cell's width and number of streams whose guard interval is no shorter than
    /// the cell's.
    static MINSTREL_HT = "minstrel-ht";
    struct MinstrelHtKeys {
        /// Minimum time between two evaluations of the statistics.
        interval: Span = Kind::Duration { min: Span::from_millis(1), max: Span::from_secs(100) }, default("\"50 ms\"");
        /// Minimum time between two probes, which are single MPDUs with another mode.
        sampling: Span = Kind::Duration { min: Span::from_millis(1), max: Span::from_secs(100) }, default("\"20 ms\"");
        /// Number of modes in the retry chain of a frame: those with the highest throughput, and last the most reliable
        /// one.
        chain: usize = Kind::Integer { min: 1, max: 4 }, default("4");
        /// Maximum number of transmissions with each mode of the chain.
        tries: u32 = Kind::Integer { min: 2, max: 255 }, default("7");
    }
}

static IDEAL_RATE: Table = Table {
    title: "ideal",
    doc: "From 802.11n on, with noise_figure: the mode with the highest goodput at the signal of the last response.",
    groups: &[],
    partial: false,
};

/// The choice that `kind` and its table describe; `fixed` is the rate if there is none.
pub(super) fn read(kind: &str, control: &Reader<'_>, fixed: usize) -> Result<RatePlan, ScenarioError> {
    Ok(match kind {
        "arf" => {
            let ArfKeys { up_after, down_after } = ArfKeys::read(control)?;
            RatePlan::Arf(Arf { up_after, down_after })
        }
        "minstrel" => {
            let MinstrelKeys { interval, weight, sampling } = MinstrelKeys::read(control)?;
            RatePlan::Minstrel(Minstrel { interval, weight, sampling })
        }
        "minstrel-ht" => {
            let MinstrelHtKeys { interval, sampling, chain, tries } = MinstrelHtKeys::read(control)?;
            RatePlan::MinstrelHt(MinstrelHtPlan { interval, sampling, chain, tries })
        }
        "ideal" => RatePlan::Ideal,
        _ => RatePlan::Fixed(fixed),
    })
}
