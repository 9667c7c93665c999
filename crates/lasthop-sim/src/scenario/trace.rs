//! What a recording says of a link: the key `trace`. Called by `link.rs`; `trace_file/` reads the files.

use std::sync::Arc;

use lasthop_core::time::{Span, Time};
use lasthop_core::units::Rate;
use lasthop_net::device::two_loads::LightLoad;
use lasthop_net::plan::Opportunities;

use crate::link_trace;

use super::declare::{Field, keys, table};
use super::diagnostic::ScenarioError;
use super::keys::{ANY_TIME, Kind, PACKET, Tagged, Variant};
use super::link::LinkReader;
use super::reader::{Checked, Reader};
use super::trace_file::{Way, number_until, rows_until};

pub(super) static TRACE: Tagged = Tagged {
    title: "trace",
    doc: "A recording of what a link does over time.",
    variants: &[
        Variant { name: "mahimahi", table: &MAHIMAHI, bare: false },
        Variant { name: "csv", table: &CSV, bare: false },
        Variant { name: "rates", table: &RATES, bare: false },
        Variant { name: "cellreplay", table: &CELLREPLAY, bare: false },
    ],
};

keys! {
    /// What all recordings have.
    struct Source {
        /// The file, relative to the scenario file.
        file: String = Kind::File, required_or("add file = \"train.down\"");
    }
}

table! {
    /// Packet delivery opportunities: each line is a millisecond at which the link may send a number of bytes that
    /// arrived before it. Files that end in .us hold microseconds. Or a log that mm-link wrote.
    static MAHIMAHI = "Mahimahi trace";
    struct Mahimahi {
        use source: Source;
        /// Start again after the last line; otherwise the link carries nothing from then on.
        repeat: bool = Kind::Switch, default("true");
        /// Bytes that may be sent at each opportunity. Mahimahi's manual says 1500 B, its program takes 1504 B.
        /// Default: what a log says, else 1500 B.
        opportunity: Option<u32> = PACKET;
    }
}

table! {
    /// A table with a heading. Each row has a time, time_s or time_ms, which starts at 0, and the values from then on:
    /// rate_bit_s, rate_kbit_s or rate_mbit_s, delay_s or delay_ms, loss. A rate of 0 is a pause.
    static CSV = "CSV trace";
    struct Csv {
        use source: Source;
        /// Begin again at the time of the last row, whose values then do not count; otherwise they hold to the end.
        repeat: bool = Kind::Switch, default("false");
    }
}

table! {
    /// A file of rates in the layout of another tool or data set, which is recognised: two columns of seconds and
    /// Mbit/s (Pensieve), one rate per second with its unit (iperf, NYU-METS), logs of G-NetTrack Pro (the Irish 4G and
    /// 5G data sets), logs of downloads (Norway, Ghent). A row holds up to its time.
    static RATES = "rates of other tools";
    struct Rates {
        use source: Source;
        /// Begin again after the last row; otherwise its rate holds to the end.
        repeat: bool = Kind::Switch, default("true");
        /// Which rate is meant where a row has both: towards the device or from it.
        direction: Way = Kind::Choice(|| Way::NAMES.to_vec()), default("\"down\"");
    }
}

table! {
    /// A recording of two loads (CellReplay, NSDI 2025): what a quiet link does to a short train of packets (light),
    /// and what it carries when it is full (file). Both begin again at their last time. The delay of the link comes on
    /// top of the base delay in the recording.
    static CELLREPLAY = "CellReplay trace";
    struct CellReplay {
        use source: Source;
        /// The light load: each line has a time, the delay of the first packet of a train, and when its packets came
        /// after the first, which is 0; all in whole milliseconds (microseconds if the name ends in .us).
        light: String = Kind::File, required_or("add light = \"train.down.light\"");
        /// Additional delay of a packet by its size: each line has a size of 100, 200 and so on, and ms, which may have
        /// decimals and be negative.
        sizes: Option<String> = Kind::File;
        /// Minimum gap after the last packet before a packet that begins a new train.
        timer: Span = ANY_TIME, default("\"0 s\"");
        /// Bytes that may be sent at each opportunity, of either load. The authors' program takes 1400 B.
        opportunity: Option<u32> = PACKET;
    }
}

impl Field<'_> for Way {
    fn of(checked: Checked<'_>) -> Option<Self> {
        let Checked::Name(name) = checked else { return None };
        Way::by_name(name)
    }
}

/// What a recording says of a link.
#[derive(Default)]
pub(super) struct Trace {
    pub(super) rate: Option<Rate>,
    pub(super) rate_changes: Vec<(Time, Rate)>,
    pub(super) opportunities: Option<Opportunities>,
    pub(super) delay: Option<Span>,
    pub(super) delay_changes: Vec<(Time, Span)>,
    pub(super) loss: Option<Vec<(Time, f64)>>,
}

/// Bytes of an opportunity in the recordings of CellReplay.
const CELLREPLAY_OPPORTUNITY: u32 = 1400;

impl Trace {
    fn of(opportunities: Opportunities) -> Trace {
        let rate = Some(opportunities.mean_rate());
        Trace { rate, opportunities: Some(opportunities), ..Trace::default() }
    }
}

impl LinkReader<'_, '_> {
    /// The recording that the key `trace` of `table` names.
    pub(super) fn trace(&mut self, table: &Reader<'_>, copies: u64) -> Result<Trace, ScenarioError> {
        let (kind, trace) = table.tagged("trace")?;
        let (recording, repeat) = match kind {
            "mahimahi" => return self.opportunities(&trace),
            "cellreplay" => return self.two_loads(&trace),
            "rates" => {
                let Rates { source, repeat, direction } = Rates::read(&trace)?;
                (self.files.rates(&trace, &source.file, direction)?, repeat)
            }
            _ => {
                let Csv { source, repeat } = Csv::read(&trace)?;
                (self.files.recording(&trace, &source.file)?, repeat)
            }
        };
        self.count(&trace, "file", number_until(&recording, repeat, self.duration), copies)?;
        let first = recording[0];
        let rows = || rows_until(&recording, repeat, self.duration);
        let later = || rows().skip(1);
        // A link has a rate: one that begins with a pause has its first, and the pause is a change at 0.
        let paused = first.rate == Some(Rate(0));
        let above = recording.iter().find_map(|row| row.rate.filter(|rate| rate.0 > 0));
        if paused && above.is_none() {
            let message = "all rates of the trace are 0".to_owned();
            return Err(trace.error("file", message, "let one of its rows have a rate"));
        }
        let changes = rows().skip(usize::from(!paused));
        Ok(Trace {
            rate: above,
            rate_changes: changes.filter_map(|row| Some((row.at, row.rate?))).collect(),
            opportunities: None,
            delay: first.delay,
            delay_changes: later().filter_map(|row| Some((row.at, row.delay?))).collect(),
            loss: first.loss.map(|_| rows().filter_map(|row| Some((row.at, row.loss?))).collect()),
        })
    }

    fn opportunities(&mut self, trace: &Reader<'_>) -> Result<Trace, ScenarioError> {
        let Mahimahi { source, repeat, opportunity } = Mahimahi::read(trace)?;
        let read = self.files.opportunities(trace, &source.file)?;
        let bytes = opportunity.or(read.bytes).unwrap_or(link_trace::OPPORTUNITY);
        Ok(Trace::of(Opportunities { times: read.times, repeat, bytes, light: None }))
    }

    fn two_loads(&mut self, trace: &Reader<'_>) -> Result<Trace, ScenarioError> {
        let CellReplay { source, light, sizes, timer, opportunity } = CellReplay::read(trace)?;
        let heavy = self.files.opportunities(trace, &source.file)?;
        let trains = self.files.trains(trace, &light)?;
        let sizes = match &sizes {
            Some(sizes) => self.files.size_offsets(trace, sizes)?,
            None => Arc::default(),
        };
        let bytes = opportunity.or(heavy.bytes).unwrap_or(CELLREPLAY_OPPORTUNITY);
        let light = Some(Arc::new(LightLoad { trains, sizes, timer }));
        Ok(Trace::of(Opportunities { times: heavy.times, repeat: true, bytes, light }))
    }
}
