//! How power falls with distance, and how gains change with time: the keys `propagation` and `fading`.

use lasthop_net::device::wlan::fading::FadingPlan;
use lasthop_net::propagation::Fading;

use super::super::declare::{keys, table};
use super::super::diagnostic::ScenarioError;
use super::super::keys::{Kind, Table, Tagged, Variant};
use super::super::reader::Reader;

type Result<T> = std::result::Result<T, ScenarioError>;

pub(super) static PROPAGATION: Tagged = Tagged {
    title: "propagation",
    doc: "How power falls with distance.",
    variants: &[
        Variant { name: "friis", table: &FRIIS, bare: true },
        Variant { name: "two-ray-ground", table: &TWO_RAY_GROUND, bare: true },
        Variant { name: "log-distance", table: &LOG_DISTANCE, bare: true },
    ],
};

static FRIIS: Table = Table { title: "friis", doc: "Free space.", groups: &[], partial: false };

table! {
    /// Free space, and beyond a distance a second ray that the ground reflects.
    static TWO_RAY_GROUND = "two-ray ground";
    struct TwoRayGround {
        /// Height of the antennas in metres.
        height: f64 = Kind::Measured { min: 0.01, max: 10_000.0, unit: "m" }, default("1.5");
    }
}

table! {
    /// Free space up to a reference distance, a power law beyond it, and shadowing drawn for each pair of stations.
    static LOG_DISTANCE = "log-distance";
    struct LogDistance {
        /// Exponent of the distance.
        exponent: f64 = Kind::Number { min: 1.0, max: 10.0 }, default("3");
        /// Reference distance in metres.
        reference: f64 = Kind::Measured { min: 0.01, max: 1e6, unit: "m" }, default("1");
        /// Standard deviation of the shadowing in dB.
        shadowing: f64 = Kind::Measured { min: 0.0, max: 50.0, unit: "dB" }, default("0");
    }
}

pub(super) static FLAT_FADING: Tagged = Tagged {
    title: "fading",
    doc: "Small-scale fading: how the gain between two stations varies as one of them moves among reflections. It is \
          flat over the channel and equal in both directions. Carrier sense and interference use the mean power.",
    variants: &[
        Variant { name: "none", table: &NO_FADING, bare: true },
        Variant { name: "rayleigh", table: &RAYLEIGH, bare: true },
        Variant { name: "rician", table: &RICIAN, bare: true },
    ],
};

static NO_FADING: Table =
    Table { title: "no fading", doc: "Gains do not change.", groups: &[], partial: false };

keys! {
    struct Motion {
        /// Speed of the motion in m/s; 1.5 is a walk.
        speed: f64 = Kind::Measured { min: 0.0, max: 1_000.0, unit: "m/s" }, default("1.5");
    }
}

static RAYLEIGH: Table = Table {
    title: "rayleigh",
    doc: "Reflections alone, with Jakes' spectrum.",
    groups: &[Motion::KEYS],
    partial: false,
};

table! {
    /// Reflections and a direct path.
    static RICIAN = "rician";
    struct Rician {
        use motion: Motion;
        /// K factor: power of the direct path over that of all reflections, in dB.
        direct: f64 = Kind::Measured { min: -30.0, max: 60.0, unit: "dB" }, default("6");
    }
}

/// How power falls with distance.
pub(super) fn read(table: &Reader<'_>) -> Result<Fading> {
    let (kind, fading) = table.tagged("propagation")?;
    Ok(match kind {
        "friis" => Fading::Friis,
        "log-distance" => {
            let LogDistance { exponent, reference, shadowing } = LogDistance::read(&fading)?;
            Fading::LogDistance { exponent, reference, shadowing }
        }
        _ => Fading::TwoRayGround { height: TwoRayGround::read(&fading)?.height },
    })
}

/// How gains change with time, if they do.
pub(super) fn flat_fading(table: &Reader<'_>) -> Result<Option<FadingPlan>> {
    let (kind, fading) = table.tagged("fading")?;
    Ok(match kind {
        "rayleigh" => Some(FadingPlan { speed: Motion::read(&fading)?.speed, direct: None }),
        "rician" => {
            let Rician { motion, direct } = Rician::read(&fading)?;
            Some(FadingPlan { speed: motion.speed, direct: Some(direct) })
        }
        _ => None,
    })
}
