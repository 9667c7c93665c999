//! `ArrowTable`: results as columns, which Python reads, puts together and writes without any further package.
//!
//! Made from a run by `tables`, from Python's values, or read from a file. Any library that speaks the Arrow C stream
//! interface (Polars, PyArrow, DuckDB, pandas) takes one without copying. Called by `lasthop.results`,
//! `lasthop.output` and the store of studies.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Cursor, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{LargeListBuilder, LargeStringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, LargeStringArray, RecordBatch,
    RecordBatchIterator, RecordBatchOptions, RecordBatchReader, UInt32Array, UInt64Array, new_null_array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;
use parquet::arrow::arrow_reader::{
    ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowFilter,
};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, PageIndexPolicy};
use parquet::file::properties::WriterProperties;
use pyo3::exceptions::{PyKeyError, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList};

/// Rows that are read at once.
const BATCH_ROWS: usize = 1 << 16;

/// One table; any library that speaks the Arrow C stream interface reads it.
#[pyclass(frozen)]
pub(crate) struct ArrowTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl From<RecordBatch> for ArrowTable {
    fn from(batch: RecordBatch) -> Self {
        ArrowTable { schema: batch.schema(), batches: vec![batch] }
    }
}

pub(crate) fn arrow_error(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// What Polars calls a type that these tables have.
fn name_of(kind: &DataType) -> String {
    match kind {
        DataType::LargeUtf8 => "String".to_owned(),
        DataType::LargeList(inside) => format!("List({})", name_of(inside.data_type())),
        other => other.to_string(),
    }
}

fn list_of_text() -> DataType {
    DataType::LargeList(list_item())
}

fn list_item() -> FieldRef {
    Arc::new(Field::new("element", DataType::LargeUtf8, true))
}

/// Puts columns of one height together.
fn batch_of(fields: Vec<FieldRef>, arrays: Vec<ArrayRef>, height: usize) -> PyResult<RecordBatch> {
    // A table without columns has a height as well.
    let options = RecordBatchOptions::new().with_row_count(Some(height));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| arrow_error(&error))
}

impl ArrowTable {
    fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn index_of(&self, name: &str) -> PyResult<usize> {
        self.schema.index_of(name).map_err(|_| {
            let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
            PyKeyError::new_err(format!("no column {name:?}: there are {}", names.join(", ")))
        })
    }

    fn text(&self, batch: &RecordBatch, name: &str) -> PyResult<LargeStringArray> {
        let array = batch.column(self.index_of(name)?);
        array.as_string_opt::<i64>().cloned().ok_or_else(|| {
            PyTypeError::new_err(format!("column {name:?} holds no text but {}", array.data_type()))
        })
    }

    /// The same table in one piece.
    pub(crate) fn whole(&self) -> PyResult<RecordBatch> {
        match self.batches.as_slice() {
            [only] => Ok(only.clone()),
            batches => concat_batches(&self.schema, batches).map_err(|error| arrow_error(&error)),
        }
    }

    /// The schema with what is said of some columns in place of what they carry.
    fn saying(&self, said: &HashMap<String, HashMap<String, String>>) -> SchemaRef {
        let field = |field: &FieldRef| match said.get(field.name()) {
            Some(words) => Arc::new(field.as_ref().clone().with_metadata(words.clone())),
            None => Arc::clone(field),
        };
        Arc::new(Schema::new(self.schema.fields().iter().map(field).collect::<Vec<_>>()))
    }

    /// Parquet, compressed with Zstandard.
    fn parquet(
        &self,
        said: &HashMap<String, HashMap<String, String>>,
        metadata: HashMap<String, String>,
    ) -> Result<Vec<u8>, ParquetError> {
        let mut words: Vec<KeyValue> =
            metadata.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect();
        words.sort_by(|a, b| a.key.cmp(&b.key));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(words))
            .build();
        let schema = self.saying(said);
        let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties))?;
        for batch in &self.batches {
            writer.write(&RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec())?)?;
        }
        writer.into_inner()
    }

    fn ipc(&self, compression: Option<CompressionType>) -> Result<Vec<u8>, ArrowError> {
        let options = IpcWriteOptions::default().try_with_compression(compression)?;
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &self.schema, options)?;
        for batch in &self.batches {
            writer.write(batch)?;
        }
        writer.into_inner()
    }

    fn csv(&self) -> Result<Vec<u8>, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(self.schema.fields().iter().map(|field| field.name()))?;
        self.batches.iter().try_for_each(|batch| write_csv(&mut writer, batch))?;
        writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))
    }
}

/// Adds rows to a file of comma-separated values.
pub(crate) fn write_csv<W: Write>(
    writer: &mut csv::Writer<W>,
    batch: &RecordBatch,
) -> Result<(), csv::Error> {
    let cells: Vec<Cell> = batch.columns().iter().map(Cell::of).collect();
    let mut number = ryu::Buffer::new();
    for row in 0..batch.num_rows() {
        for (cell, array) in cells.iter().zip(batch.columns()) {
            if array.is_null(row) {
                writer.write_field("")?;
                continue;
            }
            match cell {
                Cell::Flag(values) => writer.write_field(values.value(row).to_string())?,
                Cell::Signed(values) => writer.write_field(values.value(row).to_string())?,
                Cell::Short(values) => writer.write_field(values.value(row).to_string())?,
                Cell::Unsigned(values) => writer.write_field(values.value(row).to_string())?,
                Cell::Number(values) => writer.write_field(number.format(values.value(row)))?,
                Cell::Text(values) => writer.write_field(values.value(row))?,
                Cell::Other => {
                    let why = format!("a column of {} is no text", array.data_type());
                    return Err(std::io::Error::other(why).into());
                }
            }
        }
        writer.write_record(None::<&[u8]>)?;
    }
    Ok(())
}

/// A column of a type that these tables have.
enum Cell<'a> {
    Flag(&'a BooleanArray),
    Signed(&'a Int64Array),
    Short(&'a UInt32Array),
    Unsigned(&'a UInt64Array),
    Number(&'a Float64Array),
    Text(&'a LargeStringArray),
    Other,
}

impl<'a> Cell<'a> {
    fn of(array: &'a ArrayRef) -> Cell<'a> {
        match array.data_type() {
            DataType::Boolean => Cell::Flag(array.as_boolean()),
            DataType::Int64 => Cell::Signed(array.as_primitive::<Int64Type>()),
            DataType::UInt32 => Cell::Short(array.as_primitive::<UInt32Type>()),
            DataType::UInt64 => Cell::Unsigned(array.as_primitive::<UInt64Type>()),
            DataType::Float64 => Cell::Number(array.as_primitive::<Float64Type>()),
            DataType::LargeUtf8 => Cell::Text(array.as_string()),
            _ => Cell::Other,
        }
    }

    /// The value as a number; of text, what it reads as.
    fn number(&self, row: usize) -> Option<f64> {
        match self {
            Cell::Flag(values) => Some(f64::from(u8::from(values.value(row)))),
            Cell::Signed(values) => Some(values.value(row) as f64),
            Cell::Short(values) => Some(f64::from(values.value(row))),
            Cell::Unsigned(values) => Some(values.value(row) as f64),
            Cell::Number(values) => Some(values.value(row)),
            Cell::Text(values) => values.value(row).parse().ok(),
            Cell::Other => None,
        }
    }

    fn append_to(&self, list: &Bound<'_, PyList>, row: usize) -> PyResult<()> {
        match self {
            Cell::Flag(values) => list.append(values.value(row)),
            Cell::Signed(values) => list.append(values.value(row)),
            Cell::Short(values) => list.append(values.value(row)),
            Cell::Unsigned(values) => list.append(values.value(row)),
            Cell::Number(values) => list.append(values.value(row)),
            Cell::Text(values) => list.append(values.value(row)),
            Cell::Other => list.append(list.py().None()),
        }
    }
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
        let batches: Vec<_> = self.batches.iter().cloned().map(Ok::<_, ArrowError>).collect();
        let batches = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    /// Makes a table of columns: name, type as Polars calls it, values.
    #[staticmethod]
    fn from_columns(columns: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<ArrowTable> {
        let mut fields: Vec<FieldRef> = Vec::with_capacity(columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for (name, kind, values) in columns {
            let array: ArrayRef = match kind.as_str() {
                "Boolean" => Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?)),
                "Int64" => Arc::new(Int64Array::from(values.extract::<Vec<Option<i64>>>()?)),
                "UInt32" => Arc::new(UInt32Array::from(values.extract::<Vec<Option<u32>>>()?)),
                "UInt64" => Arc::new(UInt64Array::from(values.extract::<Vec<Option<u64>>>()?)),
                "Float64" => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
                "String" => Arc::new(LargeStringArray::from(values.extract::<Vec<Option<String>>>()?)),
                "List(String)" => {
                    let mut builder =
                        LargeListBuilder::new(LargeStringBuilder::new()).with_field(list_item());
                    for row in values.extract::<Vec<Vec<String>>>()? {
                        builder.append_value(row.into_iter().map(Some));
                    }
                    Arc::new(builder.finish())
                }
                other => {
                    return Err(PyValueError::new_err(format!(
                        "column {name:?} has the unknown type {other}"
                    )));
                }
            };
            fields.push(Arc::new(Field::new(name, array.data_type().clone(), true)));
            arrays.push(array);
        }
        let height = arrays.first().map_or(0, Array::len);
        batch_of(fields, arrays, height).map(ArrowTable::from)
    }

    /// Puts tables below each other; what one of them lacks is missing in its rows.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "a list from Python arrives as a vector of its own")]
    fn concat(tables: Vec<PyRef<'_, ArrowTable>>) -> PyResult<ArrowTable> {
        let mut fields: Vec<FieldRef> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for field in tables.iter().flat_map(|table| table.schema.fields()) {
            match known.get(field.name()) {
                None => {
                    known.insert(field.name().clone(), fields.len());
                    fields.push(Arc::clone(field));
                }
                Some(place) if fields[*place].data_type() != field.data_type() => {
                    let [one, other] = [fields[*place].data_type(), field.data_type()].map(name_of);
                    return Err(PyTypeError::new_err(format!(
                        "column {:?} is {one} in one table and {other} in another",
                        field.name()
                    )));
                }
                Some(_) => {}
            }
        }
        let mut batches = Vec::new();
        for batch in tables.iter().flat_map(|table| &table.batches) {
            let column = |field: &FieldRef| {
                let height = batch.num_rows();
                let there = batch.column_by_name(field.name()).cloned();
                there.unwrap_or_else(|| new_null_array(field.data_type(), height))
            };
            batches.push(batch_of(fields.clone(), fields.iter().map(column).collect(), batch.num_rows())?);
        }
        Ok(ArrowTable { schema: Arc::new(Schema::new(fields)), batches })
    }

    /// Reads a Parquet file: all columns or those of the names that are there, all rows or those whose `run` is given.
    #[staticmethod]
    #[pyo3(signature = (path, columns=None, runs=None))]
    #[expect(clippy::needless_pass_by_value, reason = "a list from Python arrives as a vector of its own")]
    fn read_parquet(
        py: Python<'_>,
        path: PathBuf,
        columns: Option<Vec<String>>,
        runs: Option<HashSet<String>>,
    ) -> PyResult<ArrowTable> {
        let table = py.detach(|| {
            // A damaged file may trip the library.
            catch_unwind(AssertUnwindSafe(|| read(&path, columns.as_deref(), runs.as_ref())))
        });
        table.unwrap_or_else(|_| Err(PyOSError::new_err("its content contradicts itself")))
    }

    /// The number of rows of a Parquet file and what it says of itself; reads only its end.
    #[staticmethod]
    fn parquet_footer(path: PathBuf) -> PyResult<(i64, HashMap<String, String>)> {
        let file = File::open(path)?;
        let footer = catch_unwind(AssertUnwindSafe(|| {
            ArrowReaderMetadata::load(&file, ArrowReaderOptions::default())
        }));
        let footer = footer
            .map_err(|_| PyOSError::new_err("its end contradicts itself"))?
            .map_err(|error| parquet_error(&error))?;
        let words = footer.metadata().file_metadata();
        let said = words.key_value_metadata().into_iter().flatten();
        let said = said.filter_map(|word| word.value.clone().map(|value| (word.key.clone(), value)));
        Ok((words.num_rows(), said.collect()))
    }

    /// Reads what `to_ipc` gave.
    #[staticmethod]
    fn from_ipc(content: &[u8]) -> PyResult<ArrowTable> {
        let reader = FileReader::try_new(Cursor::new(content), None).map_err(|error| arrow_error(&error))?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|error| arrow_error(&error))?;
        Ok(ArrowTable { schema, batches })
    }

    /// How many rows there are.
    #[getter]
    fn height(&self) -> usize {
        self.rows()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The type of each column as Polars calls it.
    #[getter]
    fn types(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| name_of(field.data_type())).collect()
    }

    /// The values of a column; `None` where one is missing.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let place = self.index_of(name)?;
        let list = PyList::empty(py);
        for batch in &self.batches {
            let array = batch.column(place);
            let cell = Cell::of(array);
            for row in 0..array.len() {
                if array.is_null(row) {
                    list.append(py.None())?;
                } else if array.data_type() == &list_of_text() {
                    let inner = array.as_list::<i64>().value(row);
                    list.append(inner.as_string::<i64>().iter().collect::<Vec<_>>())?;
                } else if matches!(cell, Cell::Other) {
                    return Err(PyTypeError::new_err(format!("column {name:?} is {}", array.data_type())));
                } else {
                    cell.append_to(&list, row)?;
                }
            }
        }
        Ok(list)
    }

    /// Some columns, in the order given.
    #[expect(clippy::needless_pass_by_value, reason = "a list from Python arrives as a vector of its own")]
    fn select(&self, names: Vec<String>) -> PyResult<ArrowTable> {
        let places = names.iter().map(|name| self.index_of(name)).collect::<PyResult<Vec<usize>>>()?;
        let part = |batch: &RecordBatch| batch.project(&places).map_err(|error| arrow_error(&error));
        let schema = self.schema.project(&places).map_err(|error| arrow_error(&error))?;
        let batches = self.batches.iter().map(part).collect::<PyResult<Vec<_>>>()?;
        Ok(ArrowTable { schema: Arc::new(schema), batches })
    }

    /// The rows at some places, in the order given; `None` stands for a row of missing values.
    fn take(&self, places: Vec<Option<u64>>) -> PyResult<ArrowTable> {
        let whole = self.whole()?;
        let height = places.len();
        let places = UInt64Array::from(places);
        let column = |array: &ArrayRef| take(array, &places, None).map_err(|error| arrow_error(&error));
        let arrays = whole.columns().iter().map(column).collect::<PyResult<Vec<_>>>()?;
        batch_of(self.schema.fields().to_vec(), arrays, height).map(ArrowTable::from)
    }

    /// The different texts in a column, in the order in which they come.
    fn unique(&self, name: &str) -> PyResult<Vec<String>> {
        let mut known: HashSet<String> = HashSet::new();
        let mut unique = Vec::new();
        for batch in &self.batches {
            for text in self.text(batch, name)?.iter().flatten() {
                if !known.contains(text) {
                    known.insert(text.to_owned());
                    unique.push(text.to_owned());
                }
            }
        }
        Ok(unique)
    }

    /// The rows in which a column of text has one of some values.
    #[expect(clippy::needless_pass_by_value, reason = "a set from Python arrives as one of its own")]
    fn matching(&self, name: &str, values: HashSet<String>) -> PyResult<ArrowTable> {
        let part = |batch: &RecordBatch| {
            filter_record_batch(batch, &is_among(&self.text(batch, name)?, &values))
                .map_err(|error| arrow_error(&error))
        };
        let batches = self.batches.iter().map(part).collect::<PyResult<Vec<_>>>()?;
        Ok(ArrowTable { schema: Arc::clone(&self.schema), batches })
    }

    /// The table behind a first column that has one value, a text or a whole number, in every row.
    fn led_by(&self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<ArrowTable> {
        let (number, text) = (value.extract::<u64>().ok(), value.extract::<String>().ok());
        let array = |height: usize| -> PyResult<ArrayRef> {
            match (number, &text) {
                (Some(number), _) => Ok(Arc::new(UInt64Array::from_value(number, height))),
                (_, Some(text)) => {
                    Ok(Arc::new(LargeStringArray::from_iter_values(std::iter::repeat_n(text, height))))
                }
                _ => Err(PyTypeError::new_err("a text or a whole number is needed")),
            }
        };
        let mut fields = vec![Arc::new(Field::new(name, array(0)?.data_type().clone(), true))];
        fields.extend(self.schema.fields().iter().cloned());
        let part = |batch: &RecordBatch| {
            let arrays = [array(batch.num_rows())?].into_iter().chain(batch.columns().iter().cloned());
            batch_of(fields.clone(), arrays.collect(), batch.num_rows())
        };
        let batches = self.batches.iter().map(part).collect::<PyResult<Vec<_>>>()?;
        Ok(ArrowTable { schema: Arc::new(Schema::new(fields)), batches })
    }

    /// The table with the columns of another beside it, which has as many rows.
    fn beside(&self, other: &ArrowTable) -> PyResult<ArrowTable> {
        let (left, right) = (self.whole()?, other.whole()?);
        let fields = self.schema.fields().iter().chain(other.schema.fields()).cloned();
        let arrays = left.columns().iter().chain(right.columns()).cloned();
        batch_of(fields.collect(), arrays.collect(), left.num_rows()).map(ArrowTable::from)
    }

    /// The numbers in a column for each text in another, in the order in which these come; missing ones are left out.
    fn groups(&self, key: &str, name: &str) -> PyResult<Vec<(String, Vec<f64>)>> {
        let place = self.index_of(name)?;
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut groups: Vec<(String, Vec<f64>)> = Vec::new();
        let mut group = 0;
        for batch in &self.batches {
            let keys = self.text(batch, key)?;
            let array = batch.column(place);
            let cell = Cell::of(array);
            for row in 0..array.len() {
                let text = keys.value(row);
                // Rows of a run follow each other.
                if groups.get(group).is_none_or(|(last, _)| last != text) {
                    group = *known.entry(text.to_owned()).or_insert_with(|| {
                        groups.push((text.to_owned(), Vec::new()));
                        groups.len() - 1
                    });
                }
                if !array.is_null(row) {
                    groups[group].1.extend(cell.number(row));
                }
            }
        }
        Ok(groups)
    }

    /// A Parquet file; its columns carry what is said of them, and the file the metadata.
    #[pyo3(signature = (said, metadata))]
    #[expect(clippy::needless_pass_by_value, reason = "a mapping from Python arrives as one of its own")]
    fn to_parquet<'py>(
        &self,
        py: Python<'py>,
        said: HashMap<String, HashMap<String, String>>,
        metadata: HashMap<String, String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let content = py.detach(|| self.parquet(&said, metadata));
        let content = content.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(PyBytes::new(py, &content))
    }

    /// An Arrow file, compressed with Zstandard if asked for.
    #[pyo3(signature = (*, compressed=false))]
    fn to_ipc<'py>(&self, py: Python<'py>, compressed: bool) -> PyResult<Bound<'py, PyBytes>> {
        let content = py.detach(|| self.ipc(compressed.then_some(CompressionType::ZSTD)));
        Ok(PyBytes::new(py, &content.map_err(|error| arrow_error(&error))?))
    }

    /// A file of comma-separated values with a line of names first; a missing value is an empty field.
    fn to_csv<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let content = py.detach(|| self.csv()).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(PyBytes::new(py, &content))
    }
}

fn parquet_error(error: &ParquetError) -> PyErr {
    // The caller adds that it is an error, and of what.
    let text = error.to_string();
    PyOSError::new_err(text.strip_prefix("Parquet error: ").unwrap_or(&text).to_owned())
}

fn is_among(texts: &LargeStringArray, values: &HashSet<String>) -> BooleanArray {
    texts.iter().map(|text| Some(text.is_some_and(|text| values.contains(text)))).collect()
}

/// Reads a Parquet file: some columns, and the rows of some runs. Of what belongs to other runs no more is decoded than
/// whose it is, page by page.
fn read(path: &Path, columns: Option<&[String]>, runs: Option<&HashSet<String>>) -> PyResult<ArrowTable> {
    let file = File::open(path)?;
    let options = ArrowReaderOptions::default().with_offset_index_policy(PageIndexPolicy::Optional);
    let mut builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
        .map_err(|error| parquet_error(&error))?;
    if let Some(columns) = columns {
        // The rows of some runs need their names.
        let names = columns.iter().map(String::as_str).chain(runs.map(|_| "run"));
        let mask = ProjectionMask::columns(builder.parquet_schema(), names);
        builder = builder.with_projection(mask);
    }
    if let Some(runs) = runs {
        let whole = ArrowTable { schema: Arc::clone(builder.schema()), batches: Vec::new() };
        whole.text(&RecordBatch::new_empty(Arc::clone(builder.schema())), "run")?;
        let (names, runs) = (ProjectionMask::columns(builder.parquet_schema(), ["run"]), runs.clone());
        let of_them = ArrowPredicateFn::new(names, move |names| {
            Ok(is_among(names.column(0).as_string::<i64>(), &runs))
        });
        builder = builder.with_row_filter(RowFilter::new(vec![Box::new(of_them)]));
    }
    let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(|error| parquet_error(&error))?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<_, _>>().map_err(|error| PyOSError::new_err(error.to_string()))?;
    Ok(ArrowTable { schema, batches })
}
