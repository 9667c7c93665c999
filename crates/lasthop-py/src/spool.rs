//! Files that a run writes while it goes on: its large tables as Parquet and its trace as a capture, so that a run of
//! any length needs little memory.
//!
//! `run` with a folder calls [`Spool`]; Python gives each run a folder of its own, which is thrown away if the run does
//! not reach its end, and puts the tables of finished runs together with [`join_tables`].

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader, UInt64Array};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use lasthop_net::plan::Plan;
use lasthop_net::trace::{
    FlowInterval, FrameRecord, Frames, HelperInterval, HopRecord, LinkInterval, RadioInterval, Recording,
    Sink, WindowRecord,
};
use lasthop_sim::air::AirCapture;
use lasthop_sim::columns;
use lasthop_sim::columns::tables::exists;
use lasthop_sim::pcapng::{self, Capture, Vantage};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, write_csv};
use crate::tables;

/// Rows that are made into columns at a time: as many as fit into the caches.
const BATCH_ROWS: usize = 1 << 12;
/// Bytes of a capture that are written at a time.
const CAPTURE_BUFFER: usize = 1 << 20;
/// Rows of a row group: what a reader loads at a time, and what is held here in encoded form.
const GROUP_ROWS: usize = 1 << 19;
/// Before the other columns.
const SEED: &str = "seed";

/// Everything that a run records, on its way into files.
pub(crate) struct Spool<'a> {
    plan: &'a Plan,
    /// Of both directions of each link.
    names: Vec<String>,
    series: Option<Series>,
    trace: Option<Trace>,
    captures: Vec<Capture<'a, BufWriter<File>>>,
    air: Vec<AirCapture<'a, BufWriter<File>>>,
    folder: &'a Path,
}

/// What a run shall write.
pub(crate) struct Wanted<'a> {
    pub(crate) seed: u64,
    pub(crate) series: bool,
    pub(crate) trace: bool,
    /// Places to capture at, and the names of the files.
    pub(crate) captures: Vec<(String, String)>,
    /// The scenario as JSON.
    pub(crate) scenario: &'a str,
}

impl Wanted<'_> {
    /// What the engine must record for it.
    pub(crate) fn recording(&self) -> Recording {
        let trace = self.trace || !self.captures.is_empty();
        Recording { series: self.series, trace, frames: if trace { Frames::All } else { Frames::None } }
    }
}

struct Series {
    flows: Table<FlowInterval>,
    links: Table<LinkInterval>,
    radios: Option<Table<RadioInterval>>,
    helpers: Option<Table<HelperInterval>>,
}

struct Trace {
    hops: Table<HopRecord>,
    windows: Table<WindowRecord>,
    frames: Option<Table<FrameRecord>>,
}

impl<'a> Spool<'a> {
    /// Starts the files of a run in `folder`.
    pub(crate) fn new(folder: &'a Path, plan: &'a Plan, wanted: &Wanted<'_>) -> io::Result<Spool<'a>> {
        let seed = wanted.seed;
        let names = tables::direction_names(plan);
        let (captures, air) = (Vec::new(), Vec::new());
        let mut spool = Spool { plan, names, series: None, trace: None, captures, air, folder };
        if wanted.series {
            let flows = Table::new(folder, "flow_series", seed)?;
            let links = Table::new(folder, "link_series", seed)?;
            let radios = exists("radio_series", plan).then(|| Table::new(folder, "radio_series", seed));
            let helpers = exists("helper_series", plan).then(|| Table::new(folder, "helper_series", seed));
            let (radios, helpers) = (radios.transpose()?, helpers.transpose()?);
            spool.series = Some(Series { flows, links, radios, helpers });
        }
        if wanted.trace {
            let hops = Table::new(folder, "hops", seed)?;
            let windows = Table::new(folder, "windows", seed)?;
            let frames = exists("frames", plan).then(|| Table::new(folder, "frames", seed)).transpose()?;
            spool.trace = Some(Trace { hops, windows, frames });
        }
        for (place, name) in &wanted.captures {
            let vantage = Vantage::named(plan, place).map_err(io::Error::other)?;
            let file = BufWriter::with_capacity(CAPTURE_BUFFER, File::create(folder.join(name))?);
            let comments = pcapng::about(wanted.scenario, seed, place);
            if vantage == Vantage::Air {
                spool.air.push(AirCapture::new(file, plan, &comments).map_err(io::Error::other)?);
                continue;
            }
            let capture = Capture::new(file, plan, vantage, &comments).map_err(io::Error::other)?;
            spool.captures.push(capture);
        }
        Ok(spool)
    }

    /// Completes the files.
    pub(crate) fn finish(self) -> io::Result<()> {
        let (plan, names) = (self.plan, &self.names);
        if let Some(Series { flows, links, radios, helpers }) = self.series {
            if let Some(helpers) = helpers {
                helpers.finish(|rows| tables::helper_series(names, rows))?;
            }
            if let Some(radios) = radios {
                radios.finish(|rows| tables::radio_series(names, rows))?;
            }
            flows.finish(|rows| tables::flow_series(plan, rows))?;
            links.finish(|rows| tables::link_series(plan, names, rows))?;
        }
        for capture in self.air {
            capture.finish().map_err(io::Error::other)?;
        }
        if let Some(Trace { hops, windows, frames }) = self.trace {
            if let Some(frames) = frames {
                frames.finish(|rows| tables::frame_table(plan, rows))?;
            }
            hops.finish(|rows| tables::hops(plan, names, rows))?;
            windows.finish(|rows| tables::windows(plan, rows))?;
        }
        for capture in self.captures {
            capture.finish().map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl Sink for Spool<'_> {
    fn hop(&mut self, record: &HopRecord) -> io::Result<()> {
        for capture in &mut self.captures {
            capture.hop(record)?;
        }
        let Some(Trace { hops, .. }) = &mut self.trace else { return Ok(()) };
        hops.add(*record, |rows| tables::hops(self.plan, &self.names, rows))
    }

    fn window(&mut self, record: &WindowRecord) -> io::Result<()> {
        let Some(Trace { windows, .. }) = &mut self.trace else { return Ok(()) };
        windows.add(*record, |rows| tables::windows(self.plan, rows))
    }

    fn flow(&mut self, interval: &FlowInterval) -> io::Result<()> {
        let Some(Series { flows, .. }) = &mut self.series else { return Ok(()) };
        flows.add(*interval, |rows| tables::flow_series(self.plan, rows))
    }

    fn link(&mut self, interval: &LinkInterval) -> io::Result<()> {
        let Some(Series { links, .. }) = &mut self.series else { return Ok(()) };
        links.add(*interval, |rows| tables::link_series(self.plan, &self.names, rows))
    }

    fn radio(&mut self, interval: &RadioInterval) -> io::Result<()> {
        let Some(Series { radios: Some(radios), .. }) = &mut self.series else { return Ok(()) };
        radios.add(*interval, |rows| tables::radio_series(&self.names, rows))
    }

    fn helper(&mut self, interval: &HelperInterval) -> io::Result<()> {
        let Some(Series { helpers: Some(helpers), .. }) = &mut self.series else { return Ok(()) };
        helpers.add(interval.clone(), |rows| tables::helper_series(&self.names, rows))
    }

    fn frame(&mut self, record: &FrameRecord) -> io::Result<()> {
        for capture in &mut self.air {
            capture.frame(record)?;
        }
        let Some(Trace { frames: Some(frames), .. }) = &mut self.trace else { return Ok(()) };
        frames.add(*record, |rows| tables::frame_table(self.plan, rows))
    }

    fn keeps_logs(&self) -> bool {
        self.trace.is_some()
    }

    fn log(&mut self, flow: u32, part: &[u8]) -> io::Result<()> {
        // Thousands of flows may have one: more than a process may have files open.
        let mut file =
            OpenOptions::new().create(true).append(true).open(self.folder.join(format!("log-{flow}")))?;
        file.write_all(part)
    }
}

/// A table on its way into a file: rows that are no columns yet, and the file.
struct Table<T> {
    seed: u64,
    rows: Vec<T>,
    schema: SchemaRef,
    file: ArrowWriter<File>,
}

impl<T> Table<T> {
    fn new(folder: &Path, name: &str, seed: u64) -> io::Result<Table<T>> {
        let mut fields = vec![Arc::new(Field::new(SEED, DataType::UInt64, true))];
        fields.extend(tables::fields(&columns::tables::of(name)));
        let file = File::create(folder.join(format!("{name}.parquet")))?;
        let schema = Arc::new(Schema::new(fields));
        let properties = properties(&schema.fields, Vec::new());
        let file = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties))?;
        Ok(Table { seed, rows: Vec::with_capacity(BATCH_ROWS), schema, file })
    }

    /// Adds a row; `make` makes columns of rows.
    fn add(&mut self, row: T, make: impl FnOnce(&[T]) -> PyResult<ArrowTable>) -> io::Result<()> {
        self.rows.push(row);
        if self.rows.len() < BATCH_ROWS {
            return Ok(());
        }
        self.write(make)
    }

    fn write(&mut self, make: impl FnOnce(&[T]) -> PyResult<ArrowTable>) -> io::Result<()> {
        let made = make(&self.rows).and_then(|table| table.whole()).map_err(io::Error::other)?;
        let seeds: ArrayRef = Arc::new(UInt64Array::from_value(self.seed, self.rows.len()));
        let columns = [seeds].into_iter().chain(made.columns().iter().cloned()).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(io::Error::other)?;
        self.file.write(&batch)?;
        self.rows.clear();
        Ok(())
    }

    fn finish(mut self, make: impl FnOnce(&[T]) -> PyResult<ArrowTable>) -> io::Result<()> {
        self.write(make)?;
        self.file.close()?;
        Ok(())
    }
}

/// How files are written. Counts and times grow slowly from row to row, so their differences are small.
fn properties(fields: &[FieldRef], metadata: Vec<KeyValue>) -> WriterProperties {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata(Some(metadata));
    let whole = fields.iter().filter(|field| *field.data_type() == DataType::UInt64);
    let differences = whole.fold(properties, |properties, field| {
        let column = ColumnPath::from(field.name().as_str());
        properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED)
    });
    differences.build()
}

/// Writes the rows of Parquet files of the same columns one behind the other into `target`, as `parquet` with
/// `metadata` about the whole, as `csv` or as `arrow`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a list from Python arrives as a vector of its own")]
pub(crate) fn join_tables(
    py: Python<'_>,
    parts: Vec<PathBuf>,
    target: PathBuf,
    table_format: &str,
    metadata: BTreeMap<String, String>,
) -> PyResult<()> {
    let joined = py.detach(|| match table_format {
        "csv" => join_csv(&parts, &target),
        "arrow" => join_arrow(&parts, &target),
        _ => join(&parts, &target, metadata),
    });
    joined.map_err(|error| PyOSError::new_err(format!("{}: {error}", target.display())))
}

/// The rows of a part, a batch at a time.
fn batches_of(part: &Path) -> io::Result<ParquetRecordBatchReader> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(part)?)?;
    Ok(builder.with_batch_size(BATCH_ROWS).build()?)
}

fn join_csv(parts: &[PathBuf], target: &Path) -> io::Result<()> {
    let mut file = csv::Writer::from_path(target)?;
    for (part, number) in parts.iter().zip(0..) {
        let batches = batches_of(part)?;
        if number == 0 {
            file.write_record(batches.schema().fields().iter().map(|field| field.name()))?;
        }
        for batch in batches {
            write_csv(&mut file, &batch.map_err(io::Error::other)?)?;
        }
    }
    file.flush()
}

fn join_arrow(parts: &[PathBuf], target: &Path) -> io::Result<()> {
    let schema = batches_of(&parts[0])?.schema();
    let mut file = FileWriter::try_new_buffered(File::create(target)?, &schema).map_err(io::Error::other)?;
    for part in parts {
        for batch in batches_of(part)? {
            file.write(&batch.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
    }
    file.finish().map_err(io::Error::other)
}

/// Pages are copied as they are.
fn join(parts: &[PathBuf], target: &Path, metadata: BTreeMap<String, String>) -> io::Result<()> {
    let first = parts.first().ok_or_else(|| io::Error::other("there is nothing to join"))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(first)?)?;
    let arrow_schema = Arc::clone(builder.schema());
    let schema = builder.metadata().file_metadata().schema_descr().root_schema_ptr();
    // Arrow's own description of the columns, with what each of them means, is one of the keys of a file.
    let described = builder.metadata().file_metadata().key_value_metadata().cloned().unwrap_or_default();
    let said = metadata.into_iter().map(|(key, value)| KeyValue::new(key, value));
    let properties = properties(&arrow_schema.fields, said.chain(described).collect());
    let mut file = SerializedFileWriter::new(File::create(target)?, schema, Arc::new(properties))?;
    for part in parts {
        let source = File::open(part)?;
        let reader = SerializedFileReader::new(source.try_clone()?)?;
        for group in reader.metadata().row_groups() {
            let mut copy = file.next_row_group()?;
            for column in group.columns() {
                let (_, bytes) = column.byte_range();
                let close = parquet::column::writer::ColumnCloseResult {
                    bytes_written: bytes,
                    rows_written: group.num_rows() as u64,
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                copy.append_column(&source, close)?;
            }
            copy.close()?;
        }
    }
    file.close()?;
    Ok(())
}
