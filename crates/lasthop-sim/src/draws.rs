//! What a run says of the numbers that its scenario left to chance: columns by their names.
//!
//! `summary/` fills them in from the plan; `scenario/random.rs` draws.

use serde::{Serialize, Serializer};

use crate::columns::{About, Column, Context, Field, Kind, Value};

/// Numbers that were drawn for a run, by what they are called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunDraws(pub Vec<(String, f64)>);

/// Those that were drawn for a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowDraws(pub Vec<(String, f64)>);

macro_rules! draws {
    ($($type:ident, $column:literal;)*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_map(self.0.iter().map(|(name, value)| ($column.replace("<x>", name), value)))
            }
        }

        /// One column that stands for one per name.
        impl Field for $type {
            const WIDTH: usize = 1;

            fn declare(context: &Context, _: &str, about: &About, help: &str, out: &mut Vec<Column>) {
                out.push(context.column($column, about, Kind::Number, help));
            }

            fn values(&self, out: &mut Vec<Value>) {
                let known = self.0.iter().map(|(name, value)| (name.clone(), Some(*value)));
                out.push(if self.0.is_empty() { Value::Nothing } else { Value::Several(known.collect()) });
            }
        }
    )*};
}

draws! {
    RunDraws, "drawn_<x>";
    FlowDraws, "drawn_flow_<x>";
}
