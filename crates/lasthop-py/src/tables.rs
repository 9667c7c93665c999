//! Tables of a run as Arrow, handed to Python through the Arrow C stream interface without copying.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt32Array,
    UInt64Array,
};
use arrow_schema::{ArrowError, Schema};
use lasthop_core::packet::{Cause, flag};
use lasthop_core::time::{Span, Time};
use lasthop_net::frames::FrameKind;
use lasthop_net::plan::{FlowPlan, Plan};
use lasthop_net::trace::{flow_column, link_column};
use lasthop_net::traffic::video::{FrameSizes, Packing};
use lasthop_sim::run::Run;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// One table; any library that speaks the Arrow C stream interface reads it.
#[pyclass(frozen)]
pub(crate) struct ArrowTable {
    batch: RecordBatch,
}

#[pymethods]
impl ArrowTable {
    /// The table as a capsule named `arrow_array_stream`; a requested schema is not honoured, as the protocol allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let schema = self.batch.schema();
        let batches = vec![Ok::<_, ArrowError>(self.batch.clone())];
        let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new(batches, schema)));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

fn build(columns: Vec<(&str, ArrayRef)>) -> PyResult<ArrowTable> {
    let batch = RecordBatch::try_from_iter(columns).or_else(|error| match error {
        // A run without a single row still has its columns.
        ArrowError::InvalidArgumentError(_) => Ok(RecordBatch::new_empty(Arc::new(Schema::empty()))),
        other => Err(other),
    });
    batch.map(|batch| ArrowTable { batch }).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

fn floats(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

fn optional_floats(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

fn strings<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn integers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn optional_times(values: impl Iterator<Item = Option<Time>>) -> ArrayRef {
    Arc::new(values.map(|time| time.map(|time| time.0)).collect::<UInt64Array>())
}

/// The table called `name`, or `None` if it was not recorded.
pub(crate) fn table(name: &str, plan: &Plan, run: &Run) -> PyResult<Option<ArrowTable>> {
    match name {
        "flow_series" => flow_series(plan, run),
        "link_series" => link_series(plan, run),
        "hops" => hops(plan, run),
        "windows" => windows(plan, run),
        _ => Err(PyValueError::new_err(format!(
            "unknown table {name:?}: use flow_series, link_series, hops or windows"
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

fn flow_series(plan: &Plan, run: &Run) -> PyResult<Option<ArrowTable>> {
    let flows = &run.world.network.flows;
    if flows.iter().all(|flow| flow.bins().is_none()) {
        return Ok(None);
    }
    let interval = plan.series_interval;
    let bit_s = |flow: u32, time: Time, column: usize| {
        let row = (time.0 / interval.0) as usize - 1;
        let bins = flows[flow as usize].bins();
        let bytes = bins.and_then(|bins| bins.rows().get(row)).map_or(0, |row| row[column]);
        bytes as f64 * 8.0 / interval.seconds()
    };
    let samples = || run.world.samples.iter();
    build(vec![
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
        ("flight_segments", Arc::new(UInt32Array::from_iter_values(samples().map(|sample| sample.flight)))),
        ("allowed_rate_bit_s", optional_floats(samples().map(|sample| present(8.0 * sample.rate)))),
        (
            "throughput_bit_s",
            floats(samples().map(|sample| bit_s(sample.flow, sample.time, flow_column::RECEIVED))),
        ),
        (
            "goodput_bit_s",
            floats(samples().map(|sample| bit_s(sample.flow, sample.time, flow_column::DELIVERED))),
        ),
    ])
    .map(Some)
}

fn link_series(plan: &Plan, run: &Run) -> PyResult<Option<ArrowTable>> {
    let links = &run.world.network.links;
    if links.iter().all(|link| link.bins.is_none()) {
        return Ok(None);
    }
    let interval = plan.series_interval;
    let names: Vec<String> =
        plan.links.iter().flat_map(|link| [link.name.clone(), format!("{} (reverse)", link.name)]).collect();
    let rows = || {
        names.iter().zip(links).flat_map(|(name, link)| {
            let bins = link.bins.iter().flat_map(|bins| bins.rows().iter().zip(1u64..));
            bins.map(move |(row, number)| (name.as_str(), interval * number, row))
        })
    };
    let length = interval.0 as f64;
    build(vec![
        ("time_s", floats(rows().map(|(_, end, _)| end.seconds()))),
        ("link", strings(rows().map(|(name, _, _)| name))),
        ("queue_packets", floats(rows().map(|(_, _, row)| row[link_column::WAITING] as f64 / length))),
        (
            "throughput_bit_s",
            floats(rows().map(|(_, _, row)| row[link_column::BYTES] as f64 * 8.0 / interval.seconds())),
        ),
        ("utilisation", floats(rows().map(|(_, _, row)| row[link_column::BUSY] as f64 / length))),
    ])
    .map(Some)
}

fn hops(plan: &Plan, run: &Run) -> PyResult<Option<ArrowTable>> {
    let Some(trace) = &run.world.network.trace else { return Ok(None) };
    // Links are evaluated ahead of the clock; readers expect the order of time.
    let mut order: Vec<usize> = (0..trace.len()).collect();
    order.sort_by_key(|&index| trace[index].enqueued);
    let names: Vec<String> =
        plan.links.iter().flat_map(|link| [link.name.clone(), format!("{} (reverse)", link.name)]).collect();
    let rows = || order.iter().map(|&index| &trace[index]);
    build(vec![
        ("packet", integers(rows().map(|row| u64::from(row.packet)))),
        ("flow", strings(rows().map(|row| plan.flows[row.flow as usize].name.as_str()))),
        ("link", strings(rows().map(|row| names[row.direction as usize].as_str()))),
        ("kind", strings(rows().map(|row| row.kind.name()))),
        ("seq", integers(rows().map(|row| row.seq))),
        ("ack", integers(rows().map(|row| row.ack))),
        ("payload_bytes", Arc::new(UInt32Array::from_iter_values(rows().map(|row| u32::from(row.payload))))),
        ("wire_bytes", Arc::new(UInt32Array::from_iter_values(rows().map(|row| u32::from(row.bytes))))),
        (
            "retransmission",
            Arc::new(rows().map(|row| Some(row.flags & flag::RETRANSMISSION != 0)).collect::<BooleanArray>()),
        ),
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
    ])
    .map(Some)
}

fn windows(plan: &Plan, run: &Run) -> PyResult<Option<ArrowTable>> {
    let Some(windows) = &run.world.windows else { return Ok(None) };
    let rows = || windows.iter();
    build(vec![
        ("time_ns", integers(rows().map(|row| row.time.0))),
        ("flow", strings(rows().map(|row| plan.flows[row.flow as usize].name.as_str()))),
        ("cwnd_segments", floats(rows().map(|row| row.cwnd))),
        ("ssthresh_segments", floats(rows().map(|row| row.ssthresh))),
    ])
    .map(Some)
}
