//! Tables of a run as Arrow, made of its counters and samples; `ArrowTable` hands them to Python.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, LargeStringArray, RecordBatch, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use lasthop_core::packet::Cause;
use lasthop_core::time::{Span, Time};
use lasthop_net::frames::FrameKind;
use lasthop_net::plan::{FlowPlan, Plan};
use lasthop_net::trace::{
    FlowInterval, FrameRecord, Frames, HelperInterval, HopRecord, LinkInterval, RadioInterval, Recorded,
    Recording, Timely, WindowRecord,
};
use lasthop_net::traffic::video::{FrameSizes, Packing};
use lasthop_sim::columns::devices::HelperSummary;
use lasthop_sim::columns::{self, Column, Kind};
use lasthop_sim::summary::{RadioSummary, Summary};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow::{ArrowTable, arrow_error};
use crate::cells::{Made, columns_of};

/// The fields of declared columns, in Arrow's terms; unit, label and meaning go along.
pub(crate) fn fields(columns: &[Column]) -> Vec<FieldRef> {
    let field = |column: &Column| {
        let kind = match column.kind {
            Kind::Count => DataType::Int64,
            Kind::Unsigned => DataType::UInt64,
            Kind::Short => DataType::UInt32,
            Kind::Number => DataType::Float64,
            Kind::Text => DataType::LargeUtf8,
            Kind::Flag => DataType::Boolean,
        };
        let metadata = [("unit", column.unit), ("label", &column.label), ("help", &column.help)];
        let metadata = metadata.into_iter().filter(|(_, text)| !text.is_empty());
        let metadata: HashMap<_, _> = metadata.map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
        Arc::new(Field::new(&column.name, kind, true).with_metadata(metadata))
    };
    columns.iter().map(field).collect()
}

static RUN_FIELDS: LazyLock<Vec<FieldRef>> = LazyLock::new(|| fields(&columns::RUNS));
static FLOW_FIELDS: LazyLock<Vec<FieldRef>> = LazyLock::new(|| fields(&columns::FLOWS));
static LINK_FIELDS: LazyLock<Vec<FieldRef>> = LazyLock::new(|| fields(&columns::LINKS));

/// Makes a table of rows whose structure is declared.
fn rows<T: columns::Field>(declared: &[Column], fields: &[FieldRef], rows: &[T]) -> PyResult<ArrowTable> {
    let columns = columns_of::<T, _>(declared, rows.iter());
    // A group that no row has is left out as a whole.
    let present: HashSet<&String> = (declared.iter().zip(&columns))
        .filter(|(_, (_, has_any))| *has_any)
        .filter_map(|(column, _)| column.group.as_ref())
        .collect();
    let mut made: Vec<(FieldRef, ArrayRef)> = Vec::with_capacity(declared.len());
    for ((column, field), (cells, _)) in declared.iter().zip(fields).zip(columns) {
        if column.group.as_ref().is_some_and(|group| !present.contains(group)) {
            continue;
        }
        match cells {
            Made::One(array) => made.push((Arc::clone(field), array)),
            Made::Several(several) => {
                let named = |name| Arc::new(field.as_ref().clone().with_name(name));
                made.extend(several.into_iter().map(|(name, array)| (named(name), array)));
            }
        }
    }
    let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) = made.into_iter().unzip();
    finish(fields, arrays)
}

/// Makes one of the tables whose columns are declared by name: these must be those, and all of one length.
fn declared(table: &str, made: Vec<(&str, ArrayRef)>) -> PyResult<ArrowTable> {
    let declared = columns::tables::of(table);
    let names = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
    if !declared.iter().map(|column| column.name.as_str()).eq(made.iter().map(|(name, _)| *name)) {
        return Err(PyRuntimeError::new_err(format!(
            "{table} declares the columns {}, but {} were made",
            names(&mut declared.iter().map(|column| column.name.as_str())),
            names(&mut made.iter().map(|(name, _)| *name)),
        )));
    }
    finish(fields(&declared), made.into_iter().map(|(_, array)| array).collect())
}

fn build(made: Vec<(&str, ArrayRef)>) -> PyResult<ArrowTable> {
    let field =
        |(name, array): &(&str, ArrayRef)| Arc::new(Field::new(*name, array.data_type().clone(), true));
    finish(made.iter().map(field).collect(), made.into_iter().map(|(_, array)| array).collect())
}

/// Puts columns together; those of unequal length, or of another type than said, are named.
fn finish(fields: Vec<FieldRef>, arrays: Vec<ArrayRef>) -> PyResult<ArrowTable> {
    let height = arrays.first().map_or(0, arrow_array::Array::len);
    for (field, array) in fields.iter().zip(&arrays) {
        if array.len() != height {
            return Err(PyRuntimeError::new_err(format!(
                "column {} has {} rows, {} has {height}",
                field.name(),
                array.len(),
                fields[0].name(),
            )));
        }
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
    batch.map(ArrowTable::from).map_err(|error| arrow_error(&error))
}

fn floats(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

fn optional_floats(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

fn strings<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(LargeStringArray::from_iter_values(values))
}

fn integers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn optional_times(values: impl Iterator<Item = Option<Time>>) -> ArrayRef {
    Arc::new(values.map(|time| time.map(|time| time.0)).collect::<UInt64Array>())
}

/// The table called `name`, or `None` if the run did not record it or keeps it elsewhere.
pub(crate) fn table(
    name: &str,
    plan: &Plan,
    summary: &Summary,
    recorded: Option<&(Recording, Recorded)>,
) -> PyResult<Option<ArrowTable>> {
    let names = || direction_names(plan);
    let series = recorded.filter(|(recording, _)| recording.series).map(|(_, recorded)| recorded);
    let trace = recorded.filter(|(recording, _)| recording.trace).map(|(_, recorded)| recorded);
    match name {
        "runs" => rows(&columns::RUNS, &RUN_FIELDS, std::slice::from_ref(summary)).map(Some),
        "flows" => rows(&columns::FLOWS, &FLOW_FIELDS, &summary.flows).map(Some),
        "links" => rows(&columns::LINKS, &LINK_FIELDS, &summary.links).map(Some),
        "flow_series" => series.map(|recorded| flow_series(plan, &recorded.flows)).transpose(),
        "link_series" => series.map(|recorded| link_series(plan, &names(), &recorded.links)).transpose(),
        _ if !columns::tables::exists(name, plan) => Ok(None),
        "radio_series" => series.map(|recorded| radio_series(&names(), &recorded.radios)).transpose(),
        "helper_series" => series.map(|recorded| helper_series(&names(), &recorded.helpers)).transpose(),
        "frames" => trace
            .filter(|_| recorded.is_some_and(|(recording, _)| recording.frames == Frames::All))
            .map(|recorded| frame_table(plan, &recorded.frames))
            .transpose(),
        "hops" => trace.map(|recorded| hops(plan, &names(), &recorded.hops)).transpose(),
        "windows" => trace.map(|recorded| windows(plan, &recorded.windows)).transpose(),
        _ => Err(PyValueError::new_err(format!(
            "unknown table {name:?}: use runs, flows, links, flow_series, link_series, radio_series, \
             helper_series, hops, windows or frames"
        ))),
    }
}

/// The first `count` frames that `flow` will have with this seed; `None` if its traffic is no frames.
pub(crate) fn frames(flow: &FlowPlan, seed: u64, count: usize) -> PyResult<Option<ArrowTable>> {
    let Some(sizes) = FrameSizes::of(flow, seed) else { return Ok(None) };
    let (packing, frame_rate) = (Packing::of(&flow.transport), sizes.frame_rate());
    let carries = sizes.carries();
    let frames: Vec<(u64, FrameKind)> = sizes.take(count).collect();
    let numbers = || 0..frames.len() as u64;
    build(vec![
        ("frame", integers(numbers())),
        ("time_s", floats(numbers().map(|number| number as f64 / frame_rate))),
        ("kind", strings(frames.iter().map(|frame| frame.1.name()))),
        ("bytes", integers(frames.iter().map(|frame| frame.0))),
        (
            "carried_bytes",
            integers(frames.iter().map(|frame| if carries { frame.0 } else { packing.carried(frame.0) })),
        ),
    ])
    .map(Some)
}

fn present(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}

/// Names of both directions of every link.
pub(crate) fn direction_names(plan: &Plan) -> Vec<String> {
    plan.links.iter().flat_map(|link| [link.name.clone(), format!("{} (reverse)", link.name)]).collect()
}

pub(crate) fn flow_series(plan: &Plan, rows: &[FlowInterval]) -> PyResult<ArrowTable> {
    let bit_s = |bytes: u64| bytes as f64 * 8.0 / plan.series_interval.seconds();
    let samples = || rows.iter().map(|row| row.sample);
    let timely = |of: fn(Timely) -> u64| -> ArrayRef {
        Arc::new(rows.iter().map(|row| row.timely.map(of)).collect::<UInt64Array>())
    };
    declared(
        "flow_series",
        vec![
            ("time_s", floats(samples().map(|sample| sample.time.seconds()))),
            ("flow", strings(samples().map(|sample| plan.flows[sample.flow as usize].name.as_str()))),
            ("cwnd_segments", optional_floats(samples().map(|sample| present(sample.cwnd)))),
            (
                "ssthresh_segments",
                optional_floats(
                    samples().map(|sample| present(sample.ssthresh).filter(|value| value.is_finite())),
                ),
            ),
            (
                "srtt_s",
                optional_floats(samples().map(|sample| (sample.srtt.0 > 0).then(|| sample.srtt.seconds()))),
            ),
            ("rtt_s", optional_floats(samples().map(|sample| sample.rtt.map(Span::seconds)))),
            (
                "flight_segments",
                Arc::new(UInt32Array::from_iter_values(samples().map(|sample| sample.flight))),
            ),
            ("allowed_rate_bit_s", optional_floats(samples().map(|sample| present(8.0 * sample.rate)))),
            ("throughput_bit_s", floats(rows.iter().map(|row| bit_s(row.received)))),
            ("goodput_bit_s", floats(rows.iter().map(|row| bit_s(row.delivered)))),
            ("arrived_packets", Arc::new(rows.iter().map(|row| row.arrived).collect::<UInt64Array>())),
            ("delay_s", optional_floats(rows.iter().map(|row| row.delay.map(Span::seconds)))),
            ("lost_packets", Arc::new(rows.iter().map(|row| row.lost).collect::<UInt64Array>())),
            ("theta", optional_floats(samples().map(|sample| Some(sample.signs?.theta)))),
            ("channel_signs", optional_floats(samples().map(|sample| Some(sample.signs?.channel)))),
            ("congestion_signs", optional_floats(samples().map(|sample| Some(sample.signs?.congestion)))),
            ("split_held_bytes", Arc::new(samples().map(|sample| sample.held).collect::<UInt64Array>())),
            ("first_sent_packets", timely(|timely| timely.sent)),
            ("timely_packets", timely(|timely| timely.arrived)),
            ("settled_packets", timely(|timely| timely.settled)),
            ("stall_s", optional_floats(samples().map(|sample| sample.stalled.map(Span::seconds)))),
            ("video_rate_bit_s", optional_floats(samples().map(|sample| sample.viewed?.rate))),
            (
                "frame_delay_s",
                optional_floats(samples().map(|sample| sample.viewed?.frame_delay.map(Span::seconds))),
            ),
            (
                "video_buffer_s",
                optional_floats(samples().map(|sample| Some(sample.viewed?.buffered.seconds()))),
            ),
            ("shown_frames", Arc::new(samples().map(|sample| sample.viewed?.shown).collect::<UInt64Array>())),
        ],
    )
}

pub(crate) fn link_series(plan: &Plan, names: &[String], rows: &[LinkInterval]) -> PyResult<ArrowTable> {
    let length = plan.series_interval.0 as f64;
    let seconds = plan.series_interval.seconds();
    declared(
        "link_series",
        vec![
            ("time_s", floats(rows.iter().map(|row| row.time.seconds()))),
            ("link", strings(rows.iter().map(|row| names[row.direction as usize].as_str()))),
            ("queue_packets", floats(rows.iter().map(|row| row.waiting as f64 / length))),
            ("throughput_bit_s", floats(rows.iter().map(|row| row.bytes as f64 * 8.0 / seconds))),
            ("utilisation", floats(rows.iter().map(|row| row.busy as f64 / length))),
        ],
    )
}

pub(crate) fn radio_series(names: &[String], rows: &[RadioInterval]) -> PyResult<ArrowTable> {
    let places = rows.iter().map(|row| (row.time, row.direction));
    let counters = rows.iter().map(|row| RadioSummary::new(&row.stats));
    counters_over_time("radio_series", names, places, counters)
}

pub(crate) fn helper_series(names: &[String], rows: &[HelperInterval]) -> PyResult<ArrowTable> {
    let places = rows.iter().map(|row| (row.time, row.direction));
    counters_over_time("helper_series", names, places, rows.iter().map(HelperSummary::new))
}

/// Times and directions, and the counters of each.
fn counters_over_time<T: columns::Field>(
    table: &str,
    names: &[String],
    places: impl Iterator<Item = (Time, u32)> + Clone,
    counters: impl Iterator<Item = T>,
) -> PyResult<ArrowTable> {
    let declared = columns::tables::of(table);
    let mut made: Vec<ArrayRef> = vec![
        floats(places.clone().map(|(time, _)| time.seconds())),
        strings(places.map(|(_, direction)| names[direction as usize].as_str())),
    ];
    let of_counters = columns_of::<T, _>(&declared[made.len()..], counters);
    made.extend(of_counters.into_iter().filter_map(|(cells, _)| match cells {
        Made::One(array) => Some(array),
        // None is declared over time.
        Made::Several(_) => None,
    }));
    finish(fields(&declared), made)
}

pub(crate) fn frame_table(plan: &Plan, rows: &[FrameRecord]) -> PyResult<ArrowTable> {
    let rows = || rows.iter();
    let node = |node: u32| plan.nodes[node as usize].as_str();
    let short = |value: fn(&FrameRecord) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(rows().map(value)))
    };
    declared(
        "frames",
        vec![
            ("start_ns", integers(rows().map(|row| row.start.0))),
            ("end_ns", integers(rows().map(|row| row.end.0))),
            ("channel", strings(rows().map(|row| plan.media[row.medium as usize].name.as_str()))),
            ("from", strings(rows().map(|row| node(row.from)))),
            ("to", Arc::new(rows().map(|row| row.to.map(node)).collect::<LargeStringArray>())),
            ("at", strings(rows().map(|row| node(row.at)))),
            ("kind", strings(rows().map(|row| row.kind.name()))),
            ("retry", Arc::new(rows().map(|row| Some(row.retry)).collect::<BooleanArray>())),
            ("sequence", short(|row| row.sequence.into())),
            (
                "ppdu",
                Arc::new(
                    rows().map(|row| row.ppdu.map(|ppdu| u64::from(ppdu.number))).collect::<UInt64Array>(),
                ),
            ),
            ("bytes", short(|row| row.bytes)),
            ("rate_bit_s", floats(rows().map(|row| row.rate.0 as f64))),
            ("duration_s", floats(rows().map(|row| row.duration.seconds()))),
            ("rssi_dbm", optional_floats(rows().map(|row| present(row.dbm)))),
            ("outcome", strings(rows().map(|row| row.outcome.name()))),
        ],
    )
}

pub(crate) fn hops(plan: &Plan, names: &[String], rows: &[HopRecord]) -> PyResult<ArrowTable> {
    let rows = || rows.iter();
    declared(
        "hops",
        vec![
            ("packet", integers(rows().map(|row| u64::from(row.packet)))),
            ("flow", strings(rows().map(|row| plan.flows[row.flow as usize].name.as_str()))),
            ("link", strings(rows().map(|row| names[row.direction as usize].as_str()))),
            ("kind", strings(rows().map(|row| row.kind.name()))),
            ("seq", integers(rows().map(|row| row.seq))),
            ("ack", integers(rows().map(|row| row.ack))),
            (
                "payload_bytes",
                Arc::new(UInt32Array::from_iter_values(rows().map(|row| u32::from(row.payload)))),
            ),
            ("wire_bytes", Arc::new(UInt32Array::from_iter_values(rows().map(|row| u32::from(row.bytes))))),
            ("retransmission", Arc::new(rows().map(|row| Some(row.again)).collect::<BooleanArray>())),
            ("enqueue_ns", integers(rows().map(|row| row.enqueued.0))),
            ("transmit_ns", optional_times(rows().map(|row| row.transmitted))),
            ("arrive_ns", optional_times(rows().map(|row| row.arrived))),
            (
                "outcome",
                strings(rows().map(|row| match (row.lost, row.arrived) {
                    (Some(cause), _) => Cause::name(cause),
                    (None, Some(_)) => "delivered",
                    (None, None) => "in-flight",
                })),
            ),
        ],
    )
}

pub(crate) fn windows(plan: &Plan, rows: &[WindowRecord]) -> PyResult<ArrowTable> {
    let rows = || rows.iter();
    let known = || rows().map(|row| row.estimates);
    declared(
        "windows",
        vec![
            ("time_ns", integers(rows().map(|row| row.time.0))),
            ("flow", strings(rows().map(|row| plan.flows[row.flow as usize].name.as_str()))),
            ("cwnd_segments", floats(rows().map(|row| row.cwnd))),
            ("ssthresh_segments", floats(rows().map(|row| row.ssthresh))),
            ("state", Arc::new(known().map(|known| known.map(|it| it.state)).collect::<LargeStringArray>())),
            ("round", Arc::new(known().map(|known| known.map(|it| it.round)).collect::<UInt64Array>())),
            ("pacing_segments_s", optional_floats(known().map(|known| known.map(|it| it.pacing)))),
            ("pacing_gain", optional_floats(known().map(|known| known.map(|it| it.pacing_gain)))),
            ("cwnd_gain", optional_floats(known().map(|known| known.map(|it| it.cwnd_gain)))),
            (
                "greatest_rate_segments_s",
                optional_floats(known().map(|known| known.map(|it| it.greatest_rate))),
            ),
            (
                "short_term_rate_segments_s",
                optional_floats(known().map(|known| known.map(|it| it.short_term_rate))),
            ),
            ("least_rtt_s", optional_floats(known().map(|known| known.map(|it| it.least_rtt)))),
            ("target_segments", optional_floats(known().map(|known| known.map(|it| it.target)))),
            ("flight_segments", optional_floats(known().map(|known| known.map(|it| it.flight)))),
            (
                "long_term_flight_segments",
                optional_floats(known().map(|known| known.map(|it| it.long_term_flight))),
            ),
            (
                "short_term_flight_segments",
                optional_floats(known().map(|known| known.map(|it| it.short_term_flight))),
            ),
            ("extra_acked_segments", optional_floats(known().map(|known| known.map(|it| it.extra_acked)))),
            (
                "full_rounds",
                Arc::new(known().map(|known| known.map(|it| it.full_rounds)).collect::<UInt32Array>()),
            ),
            ("is_full", Arc::new(known().map(|known| known.map(|it| it.full)).collect::<BooleanArray>())),
            (
                "restarts_from_idle",
                Arc::new(known().map(|known| known.map(|it| it.restarts)).collect::<BooleanArray>()),
            ),
            (
                "is_app_limited",
                Arc::new(known().map(|known| known.map(|it| it.app_limited)).collect::<BooleanArray>()),
            ),
            ("theta", optional_floats(rows().map(|row| Some(row.signs?.theta)))),
            ("channel_signs", optional_floats(rows().map(|row| Some(row.signs?.channel)))),
            ("congestion_signs", optional_floats(rows().map(|row| Some(row.signs?.congestion)))),
        ],
    )
}
