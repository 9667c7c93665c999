//! `transfer`: a file whose length is drawn, and the distributions that lengths are drawn from.

use std::sync::Arc;

use lasthop_net::plan::{Size, Traffic, Transfer};
use lasthop_net::traffic::size::PUBLISHED;

use super::super::declare::table;
use super::super::diagnostic::ScenarioError;
use super::super::input_file::InputFiles;
use super::super::keys::{Kind, TRANSFER, Table, Tagged, Variant};
use super::super::reader::Reader;

pub(super) const NAME: &str = "transfer";
pub(super) const BARE: bool = false;

table! {
    /// A file handed to TCP at the start; its length is drawn for each flow.
    pub(super) static TABLE = "transfer traffic";
    struct Keys<'n> {
        /// Distribution of lengths.
        size: (&'static str, Reader<'n>) = Kind::Tagged(&LENGTH),
            required_or("add size = { kind = \"pareto\", mean = \"50 kB\", shape = 1.2 }, or size = \"web-search\"");
    }
}

pub(super) fn read(table: &Reader<'_>, files: &mut InputFiles<'_>) -> Result<Traffic, ScenarioError> {
    let (kind, size) = Keys::read(table)?.size;
    Ok(Traffic::Transfer(Transfer { size: Arc::new(length(kind, &size, files)?) }))
}

/// The key `size`.
pub(super) static LENGTH: Tagged = Tagged {
    title: "size",
    doc: "The distribution of the lengths of transfers.",
    variants: &[
        Variant { name: "constant", table: &CONSTANT_LENGTH, bare: false },
        Variant { name: "exponential", table: &EXPONENTIAL_LENGTH, bare: false },
        Variant { name: "pareto", table: &PARETO_LENGTH, bare: false },
        Variant { name: "log-normal", table: &LOG_NORMAL_LENGTH, bare: false },
        Variant { name: "measured", table: &MEASURED_LENGTH, bare: false },
        Variant { name: "web-search", table: &WEB_SEARCH_LENGTH, bare: true },
        Variant { name: "data-mining", table: &DATA_MINING_LENGTH, bare: true },
    ],
};

table! {
    /// All transfers have the same length.
    static CONSTANT_LENGTH = "constant size";
    struct Constant {
        /// Length of each.
        bytes: u64 = TRANSFER, required_or("add bytes = \"500 kB\"");
    }
}

table! {
    /// Exponential.
    static EXPONENTIAL_LENGTH = "exponential size";
    struct Exponential {
        /// Mean length.
        mean: u64 = TRANSFER, required();
    }
}

table! {
    /// Pareto: few transfers carry most bytes. The shortest has `mean * (shape - 1) / shape`.
    static PARETO_LENGTH = "pareto size";
    struct Pareto {
        /// Mean length.
        mean: u64 = TRANSFER, required();
        /// Tail index, more than 1.
        shape: f64 = Kind::Number { min: 0.001, max: 1000.0 }, required_or("add shape = 1.2");
    }
}

table! {
    /// Log-normal.
    static LOG_NORMAL_LENGTH = "log-normal size";
    struct LogNormal {
        /// Median length.
        median: u64 = TRANSFER, required();
        /// Standard deviation of the natural logarithm.
        sigma: f64 = Kind::Number { min: 0.001, max: 20.0 }, required_or("add sigma = 1.5");
    }
}

table! {
    /// A distribution from a file.
    static MEASURED_LENGTH = "measured size";
    struct Measured {
        /// The file, relative to the scenario file. Each line has a length in bytes and the share of transfers that are
        /// no longer, with shares that rise to 1 and are interpolated linearly; or each line has a length, all equally
        /// likely. # begins a comment; the first line may be a heading.
        file: String = Kind::File, required_or("add file = \"lengths.txt\"");
    }
}

static WEB_SEARCH_LENGTH: Table = Table {
    title: "web-search size",
    doc: "Flows of a web search cluster, 1.7 MB on average (Alizadeh et al., SIGCOMM 2010, background traffic).",
    groups: &[&[]],
    partial: false,
};

static DATA_MINING_LENGTH: Table = Table {
    title: "data-mining size",
    doc: "Flows of a data mining cluster, 7.5 MB on average and half of them one packet (Greenberg et al., SIGCOMM \
          2009, as Alizadeh et al., SIGCOMM 2013, simulate it).",
    groups: &[&[]],
    partial: false,
};

/// The distribution of the lengths of transfers.
pub(super) fn length(
    kind: &str,
    table: &Reader<'_>,
    files: &mut InputFiles<'_>,
) -> Result<Size, ScenarioError> {
    Ok(match kind {
        "constant" => Size::Constant(Constant::read(table)?.bytes),
        "exponential" => Size::Exponential { mean: Exponential::read(table)?.mean as f64 },
        "pareto" => {
            let Pareto { mean, shape } = Pareto::read(table)?;
            if shape <= 1.0 {
                let message = format!("a Pareto distribution with shape {shape} has no mean");
                return Err(table.error("shape", message, "write more than 1, such as 1.2"));
            }
            Size::Pareto { scale: mean as f64 * (shape - 1.0) / shape, shape }
        }
        "log-normal" => {
            let LogNormal { median, sigma } = LogNormal::read(table)?;
            Size::LogNormal { median: median as f64, sigma }
        }
        "measured" => Size::Measured(files.lengths(table, &Measured::read(table)?.file)?),
        kind => {
            let published = PUBLISHED.iter().find(|(name, _)| *name == kind);
            let (_, points) = published.unwrap_or_else(|| panic!("no reader for lengths `{kind}`"));
            Size::Measured(Arc::from(*points))
        }
    })
}
