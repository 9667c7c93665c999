//! Columns of a table that grow row by row, each in Arrow's own form: a hundred thousand rows of values would take a
//! gigabyte before the first column is made of them.
//!
//! `tables.rs` calls it for structures whose columns are declared.

use std::borrow::Borrow;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, LargeStringBuilder, UInt32Builder,
    UInt64Builder,
};
use lasthop_sim::columns::{self, Column, Kind, Value};

/// What stands for the number in the name of a column that stands for several.
const X: &str = "<x>";

/// What a column that stands for several has in one row.
type Several = Vec<(String, Option<f64>)>;

/// One declared column so far.
enum Cells {
    Count(Int64Builder),
    Unsigned(UInt64Builder),
    Short(UInt32Builder),
    Number(Float64Builder),
    Text(LargeStringBuilder),
    Flag(BooleanBuilder),
    Several(Vec<Option<Several>>),
}

/// A column of a table, or those that one declared column stands for, by their names.
pub(crate) enum Made {
    One(ArrayRef),
    Several(Vec<(String, ArrayRef)>),
}

/// A column, and whether some row has a value.
pub(crate) type Filled = (Made, bool);

/// The columns that are declared for a structure, of rows of it.
pub(crate) fn columns_of<T, R>(declared: &[Column], rows: impl Iterator<Item = R>) -> Vec<Filled>
where
    T: columns::Field,
    R: Borrow<T>,
{
    let mut cells: Vec<Cells> = declared.iter().map(Cells::new).collect();
    let mut values = Vec::with_capacity(T::WIDTH);
    for row in rows {
        row.borrow().values(&mut values);
        for (cells, value) in cells.iter_mut().zip(values.drain(..)) {
            cells.push(value);
        }
    }
    cells.into_iter().zip(declared).map(|(cells, column)| cells.finish(&column.name)).collect()
}

impl Cells {
    fn new(column: &Column) -> Cells {
        match column.kind {
            Kind::Number if column.name.contains(X) => Cells::Several(Vec::new()),
            Kind::Count => Cells::Count(Int64Builder::new()),
            Kind::Unsigned => Cells::Unsigned(UInt64Builder::new()),
            Kind::Short => Cells::Short(UInt32Builder::new()),
            Kind::Number => Cells::Number(Float64Builder::new()),
            Kind::Text => Cells::Text(LargeStringBuilder::new()),
            Kind::Flag => Cells::Flag(BooleanBuilder::new()),
        }
    }

    /// Adds a row; a value of another kind is none.
    fn push(&mut self, value: Value) {
        let whole = if let Value::Whole(whole) = value { Some(whole) } else { None };
        match self {
            Cells::Count(list) => {
                list.append_option(whole.map(|whole| i64::try_from(whole).unwrap_or(i64::MAX)));
            }
            Cells::Unsigned(list) => list.append_option(whole),
            Cells::Short(list) => {
                list.append_option(whole.map(|whole| u32::try_from(whole).unwrap_or(u32::MAX)));
            }
            Cells::Number(list) => {
                list.append_option(if let Value::Number(number) = value { Some(number) } else { None });
            }
            Cells::Text(list) => {
                list.append_option(if let Value::Text(text) = value { Some(text) } else { None });
            }
            Cells::Flag(list) => {
                list.append_option(if let Value::Flag(flag) = value { Some(flag) } else { None });
            }
            Cells::Several(list) => {
                list.push(if let Value::Several(known) = value { Some(known) } else { None });
            }
        }
    }

    fn finish(self, name: &str) -> Filled {
        let array: ArrayRef = match self {
            Cells::Several(list) => {
                let has_any = list.iter().any(Option::is_some);
                return (Made::Several(several(name, &list)), has_any);
            }
            Cells::Count(mut list) => ArrayBuilder::finish(&mut list),
            Cells::Unsigned(mut list) => ArrayBuilder::finish(&mut list),
            Cells::Short(mut list) => ArrayBuilder::finish(&mut list),
            Cells::Number(mut list) => ArrayBuilder::finish(&mut list),
            Cells::Text(mut list) => ArrayBuilder::finish(&mut list),
            Cells::Flag(mut list) => ArrayBuilder::finish(&mut list),
        };
        let has_any = array.null_count() < array.len();
        (Made::One(array), has_any)
    }
}

/// The columns that one of these stands for, in the order in which they come.
fn several(name: &str, rows: &[Option<Several>]) -> Vec<(String, ArrayRef)> {
    let mut keys: Vec<&String> = Vec::new();
    for (key, _) in rows.iter().flatten().flatten() {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let column = |key: &String| -> (String, ArrayRef) {
        let mut list = Float64Builder::with_capacity(rows.len());
        for row in rows {
            let found = row.iter().flatten().find(|(known, _)| known == key);
            list.append_option(found.and_then(|(_, value)| *value));
        }
        (name.replace(X, key), Arc::new(list.finish()))
    };
    keys.into_iter().map(column).collect()
}
