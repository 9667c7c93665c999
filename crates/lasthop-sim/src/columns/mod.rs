//! What is measured, declared once: for every column its type, unit, label, meaning, which direction is better, and how
//! the rows of a run become one figure.
//!
//! The structures of [`crate::summary`] are declared with `columns!`, what devices count in [`devices`]; the larger
//! tables, whose rows are made while they are handed on, in [`tables`]. From the declarations come the JSON of
//! `lasthop run --json`, the Arrow tables with their metadata, the tables and axes that people see, the names that a
//! study may use, and docs/reference/results.md. Nothing else may list columns, units, labels or causes of loss.

pub mod devices;
pub mod tables;

use std::sync::LazyLock;

use lasthop_core::packet::{Cause, Drops};
use serde::Serialize;

use crate::summary::{FlowSummary, HistorySummary, LinkSummary, Summary};

/// Columns of the table with a row per run, sums over its flows included.
pub static RUNS: LazyLock<Vec<Column>> = LazyLock::new(|| columns_of::<Summary>("runs"));
/// Columns of the table with a row per flow.
pub static FLOWS: LazyLock<Vec<Column>> = LazyLock::new(|| columns_of::<FlowSummary>("flows"));
/// Columns of the table with a row per link and direction.
pub static LINKS: LazyLock<Vec<Column>> = LazyLock::new(|| columns_of::<LinkSummary>("links"));

/// Every column of every table; the sums over the flows of a run are called those of a table `totals`.
pub fn all() -> Vec<Column> {
    let runs = RUNS.iter().cloned().map(|mut column| {
        if column.path.len() > 1 {
            column.table = "totals";
            column.path.remove(0);
        }
        column
    });
    let rows = FLOWS.iter().chain(LINKS.iter()).cloned();
    let history = columns_of::<HistorySummary>("history");
    runs.chain(rows).chain(history).chain(tables::columns()).collect()
}

/// In which multiples of the SI a unit is shown to people, the largest first: the first that is not above the value.
/// Units that are not here are shown as they are, and shares in per cent.
pub const STEPS: [(&str, &[(f64, &str)]); 2] = [
    ("bit/s", &[(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")]),
    ("s", &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]),
];

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A whole number that is computed with.
    Count,
    /// A whole number of 64 bits without sign.
    Unsigned,
    /// A whole number of 32 bits without sign.
    Short,
    /// A real number.
    Number,
    /// Text.
    Text,
    /// True or false.
    Flag,
}

/// How the rows of one run become one figure, unless a study says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// There is no such figure.
    Nothing,
    /// Their sum.
    Sum,
    /// Their mean: every row counts alike.
    Mean,
    /// The row of the bottleneck.
    Bottleneck,
}

/// What the declaration of a field says beside its name, type and meaning.
#[derive(Clone, Copy, Debug)]
pub struct About {
    unit: &'static str,
    label: &'static str,
    heading: Option<&'static str>,
    name: Option<&'static str>,
    higher_is_better: Option<bool>,
    over: Over,
    share: bool,
    unsigned: bool,
    rare: bool,
    beside: Option<&'static str>,
    shown: bool,
    compared: bool,
    inline: bool,
    says: Option<(&'static str, &'static str)>,
    times: &'static str,
    whole: &'static str,
}

impl About {
    /// A column with this unit (of the SI, or empty) and label.
    pub const fn new(unit: &'static str, label: &'static str) -> About {
        About {
            unit,
            label,
            heading: None,
            name: None,
            higher_is_better: None,
            over: Over::Nothing,
            share: false,
            unsigned: false,
            rare: false,
            beside: None,
            shown: false,
            compared: false,
            inline: false,
            says: None,
            times: "",
            whole: "",
        }
    }

    /// A fraction from 0 to 1, which tables show in per cent.
    pub const fn share(label: &'static str) -> About {
        About { share: true, ..About::new("", label) }
    }

    /// A structure of columns; `{}` in both texts stands for the name and the label of one of them.
    pub const fn group(name: &'static str, label: &'static str) -> About {
        About { name: Some(name), ..About::new("", label) }
    }

    /// A structure whose columns go by their own names and labels, as if they stood in its place (serde's `flatten`).
    pub const fn inline() -> About {
        About { inline: true, ..About::new("", "") }
    }

    /// A number with all 64 bits.
    #[must_use]
    pub const fn unsigned(self) -> About {
        About { unsigned: true, ..self }
    }

    /// Not there at all where no row has a value.
    #[must_use]
    pub const fn rare(self) -> About {
        About { rare: true, ..self }
    }

    /// There where some row has a value of this other field.
    #[must_use]
    pub const fn beside(self, field: &'static str) -> About {
        About { beside: Some(field), ..self }
    }

    /// Called otherwise in tables than in JSON; `{}` stands for what the field's own type adds.
    #[must_use]
    pub const fn called(self, name: &'static str) -> About {
        About { name: Some(name), ..self }
    }

    /// Higher is better.
    #[must_use]
    pub const fn higher(self) -> About {
        About { higher_is_better: Some(true), ..self }
    }

    /// Lower is better.
    #[must_use]
    pub const fn lower(self) -> About {
        About { higher_is_better: Some(false), ..self }
    }

    /// Added over the rows of a run.
    #[must_use]
    pub const fn sum(self) -> About {
        About { over: Over::Sum, ..self }
    }

    /// Averaged over the rows of a run.
    #[must_use]
    pub const fn mean(self) -> About {
        About { over: Over::Mean, ..self }
    }

    /// That of the bottleneck counts.
    #[must_use]
    pub const fn bottleneck(self) -> About {
        About { over: Over::Bottleneck, ..self }
    }

    /// Shown in the tables of a run, under a short heading.
    #[must_use]
    pub const fn shown(self, heading: &'static str) -> About {
        About { shown: true, heading: Some(heading), ..self }
    }

    /// Compared where transports are, unless others are asked for.
    #[must_use]
    pub const fn compared(self) -> About {
        About { compared: true, ..self }
    }

    /// How to say that one transport is above or below another by `{}`.
    #[must_use]
    pub const fn says(self, more: &'static str, less: &'static str) -> About {
        About { says: Some((more, less)), ..self }
    }

    /// How to say that one transport has `{}` times what another has, from twice as much on.
    #[must_use]
    pub const fn times(self, words: &'static str) -> About {
        About { times: words, ..self }
    }

    /// How many there are of what is counted here: a column of the same table.
    #[must_use]
    pub const fn part_of(self, column: &'static str) -> About {
        About { whole: column, ..self }
    }
}

/// One column of a table of results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Column {
    /// Its table.
    pub table: &'static str,
    /// Its name, which ends in the unit.
    pub name: String,
    /// The name with `<cause>` or `<x>` in the place of what differs among its siblings; empty for most.
    pub pattern: String,
    /// The keys that lead to it in the JSON object of a row.
    pub path: Vec<String>,
    /// The first of these keys, if not every row has it: a table in which no row has it lacks the column.
    pub group: Option<String>,
    /// Its type.
    pub kind: Kind,
    /// Unit of the values; empty for a plain number.
    pub unit: &'static str,
    /// Whether it is a fraction from 0 to 1.
    pub share: bool,
    /// Name for people.
    pub label: String,
    /// The same for the head of a narrow column.
    pub heading: String,
    /// What it is.
    pub help: String,
    /// Which direction is good, if any.
    pub higher_is_better: Option<bool>,
    /// How the rows of a run become one figure.
    pub over: Over,
    /// Whether the tables of a run show it.
    pub shown: bool,
    /// Whether transports are compared by it unless others are asked for.
    pub compared: bool,
    /// How to say that one is above another by `{}`.
    pub more: String,
    /// How to say that one is below another by `{}`.
    pub less: String,
    /// How to say that one is `{}` times another, from twice as much on; empty where nothing is said so.
    pub times: &'static str,
    /// The column that says how many there are of what is counted here; empty for most.
    pub whole: &'static str,
}

/// Where a field is declared: what comes before and around its name.
#[derive(Clone, Debug)]
pub struct Context {
    table: &'static str,
    path: Vec<String>,
    /// The next structure inside is not in every row.
    optional: bool,
    group: Option<String>,
    name: String,
    label: String,
}

impl Context {
    /// The rows of a table themselves.
    pub fn table(table: &'static str) -> Context {
        Context {
            table,
            path: Vec::new(),
            optional: false,
            group: None,
            name: "{}".into(),
            label: "{}".into(),
        }
    }

    /// Inside the field `field`.
    #[must_use]
    pub fn within(&self, field: &str, about: &About) -> Context {
        if about.inline {
            return self.clone();
        }
        let name = about.name.unwrap_or("{}");
        Context {
            path: self.path.iter().cloned().chain([field.to_owned()]).collect(),
            name: self.name.replace("{}", name),
            label: self.label.replace("{}", about.label),
            group: self.group.clone().or_else(|| self.optional.then(|| field.to_owned())),
            optional: false,
            table: self.table,
        }
    }

    /// The column of a field.
    pub fn column(&self, field: &str, about: &About, kind: Kind, help: &str) -> Column {
        let name = self.name.replace("{}", &about.name.unwrap_or(field).replace("_{}", ""));
        let label = self.label.replace("{}", about.label);
        let path: Vec<String> = self.path.iter().cloned().chain([field.to_owned()]).collect();
        let (more, less) = about.says.map_or_else(
            || (format!("has {{}} more in {label}"), format!("has {{}} less in {label}")),
            |(more, less)| (more.to_owned(), less.to_owned()),
        );
        Column {
            table: self.table,
            pattern: if name.contains('<') { name.clone() } else { String::new() },
            name,
            group: (self.group.clone())
                .or_else(|| about.beside.map(str::to_owned))
                .or_else(|| about.rare.then(|| field.to_owned())),
            path,
            kind: if about.unsigned { Kind::Unsigned } else { kind },
            unit: about.unit,
            share: about.share,
            heading: about.heading.map_or_else(|| label.clone(), str::to_owned),
            label,
            help: help.trim().to_owned(),
            higher_is_better: about.higher_is_better,
            over: about.over,
            shown: about.shown,
            compared: about.compared,
            more,
            less,
            times: about.times,
            whole: about.whole,
        }
    }
}

/// The value of one column in one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// There is none.
    Nothing,
    /// Of [`Kind::Count`], [`Kind::Unsigned`] and [`Kind::Short`].
    Whole(u64),
    /// Of [`Kind::Number`].
    Number(f64),
    /// Of [`Kind::Text`].
    Text(String),
    /// Of [`Kind::Flag`].
    Flag(bool),
    /// Of a column that stands for several: what takes the place of `<x>`, and the value.
    Several(Vec<(String, Option<f64>)>),
}

/// What may be a field of a declared structure.
pub trait Field {
    /// How many columns that is.
    const WIDTH: usize;

    /// Adds the columns of a field of this type.
    fn declare(context: &Context, field: &str, about: &About, help: &str, out: &mut Vec<Column>);

    /// Adds the values of those columns, in the same order.
    fn values(&self, out: &mut Vec<Value>);
}

macro_rules! scalar {
    ($($type:ty, $kind:ident, |$value:ident| $into:expr;)*) => {$(
        impl Field for $type {
            const WIDTH: usize = 1;

            fn declare(context: &Context, field: &str, about: &About, help: &str, out: &mut Vec<Column>) {
                out.push(context.column(field, about, Kind::$kind, help));
            }

            fn values(&self, out: &mut Vec<Value>) {
                let $value = self;
                out.push($into);
            }
        }
    )*};
}

scalar! {
    f64, Number, |value| if value.is_finite() { Value::Number(*value) } else { Value::Nothing };
    u64, Count, |value| Value::Whole(*value);
    u32, Count, |value| Value::Whole(u64::from(*value));
    u8, Count, |value| Value::Whole(u64::from(*value));
    usize, Count, |value| Value::Whole(*value as u64);
    String, Text, |value| Value::Text(value.clone());
}

impl<T: Field> Field for Option<T> {
    const WIDTH: usize = T::WIDTH;

    fn declare(context: &Context, field: &str, about: &About, help: &str, out: &mut Vec<Column>) {
        T::declare(&Context { optional: true, ..context.clone() }, field, about, help, out);
    }

    fn values(&self, out: &mut Vec<Value>) {
        match self {
            Some(value) => value.values(out),
            None => out.extend(std::iter::repeat_n(Value::Nothing, T::WIDTH)),
        }
    }
}

/// A structure that few rows have.
impl<T: Field> Field for Box<T> {
    const WIDTH: usize = T::WIDTH;

    fn declare(context: &Context, field: &str, about: &About, help: &str, out: &mut Vec<Column>) {
        T::declare(context, field, about, help, out);
    }

    fn values(&self, out: &mut Vec<Value>) {
        (**self).values(out);
    }
}

/// Rows of a table of their own: no columns here.
impl<T> Field for Vec<T> {
    const WIDTH: usize = 0;

    fn declare(_: &Context, _: &str, _: &About, _: &str, _: &mut Vec<Column>) {}

    fn values(&self, _: &mut Vec<Value>) {}
}

/// Counts by cause of loss. In JSON and by index they go by the names of the causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes(pub Drops);

impl Causes {
    /// The counts.
    pub fn values(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }
}

impl std::ops::AddAssign for Causes {
    fn add_assign(&mut self, other: Causes) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }
}

impl std::ops::Index<&str> for Causes {
    type Output = u64;

    /// The count of the cause of this name.
    fn index(&self, name: &str) -> &u64 {
        match Cause::NAMES.iter().position(|&cause| cause == name) {
            Some(cause) => &self.0[cause],
            None => panic!("no cause of loss is called {name}"),
        }
    }
}

impl serde::Serialize for Causes {
    /// An object, its names in alphabetical order.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut causes: Vec<(&str, u64)> = Cause::NAMES.into_iter().zip(self.0).collect();
        causes.sort_unstable();
        serializer.collect_map(causes)
    }
}

/// What stands for a cause in a pattern.
const CAUSE: &str = "<cause>";

/// Their sum, and a column for each cause.
impl Field for Causes {
    const WIDTH: usize = 1 + Cause::COUNT;

    fn declare(context: &Context, field: &str, about: &About, help: &str, out: &mut Vec<Column>) {
        out.push(context.column(field, about, Kind::Count, help));
        let template = about.name.unwrap_or(field);
        for (cause, meaning) in Cause::NAMES.iter().zip(Cause::HELP) {
            let about =
                About { shown: false, heading: None, compared: false, says: None, times: "", ..*about };
            let mut column = context.within(field, &About::new("", "{}")).column(
                cause,
                &About { name: None, ..about },
                Kind::Count,
                &format!("{}: {meaning}", help.trim()),
            );
            column.name = context.name.replace("{}", &template.replace("{}", &cause.replace('-', "_")));
            column.pattern = context.name.replace("{}", &template.replace("{}", CAUSE));
            column.label = format!("{}: {}", column.label, cause.replace('-', " "));
            column.heading.clone_from(&column.label);
            column.more = format!("has {{}} more {}", column.label);
            column.less = format!("has {{}} fewer {}", column.label);
            out.push(column);
        }
    }

    fn values(&self, out: &mut Vec<Value>) {
        out.push(Value::Whole(self.values().sum()));
        out.extend(self.0.iter().copied().map(Value::Whole));
    }
}

/// Declares a structure whose fields are columns: what `///` says of a field is its meaning wherever it is shown,
/// behind
/// `=` stands the rest. A field of another declared structure, or of an `Option` of one, takes in all of its columns.
#[macro_export]
macro_rules! columns {
    (
        $(#[$outer:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $help:literal])+
                $(#[serde($($serde:tt)*)])?
                $field:ident: $type:ty = $about:expr;
            )*
        }
    ) => {
        $(#[$outer])*
        #[derive(serde::Serialize)]
        pub struct $name {
            $(
                $(#[doc = $help])+
                $(#[serde($($serde)*)])?
                pub $field: $type,
            )*
        }

        impl $crate::columns::Field for $name {
            const WIDTH: usize = 0 $(+ <$type as $crate::columns::Field>::WIDTH)*;

            fn declare(
                context: &$crate::columns::Context,
                field: &str,
                about: &$crate::columns::About,
                _: &str,
                out: &mut Vec<$crate::columns::Column>,
            ) {
                let inside =
                    if field.is_empty() { context.clone() } else { context.within(field, about) };
                $(
                    <$type as $crate::columns::Field>::declare(
                        &inside,
                        stringify!($field),
                        &$about,
                        concat!($($help),+),
                        out,
                    );
                )*
            }

            fn values(&self, out: &mut Vec<$crate::columns::Value>) {
                $($crate::columns::Field::values(&self.$field, out);)*
            }
        }
    };
}

/// The columns of a declared structure as those of a table.
pub fn columns_of<T: Field>(table: &'static str) -> Vec<Column> {
    let mut columns = Vec::new();
    T::declare(&Context::table(table), "", &About::new("", ""), "", &mut columns);
    columns
}

/// The values of a row, one per column of its structure.
pub fn values_of<T: Field>(row: &T) -> Vec<Value> {
    let mut values = Vec::with_capacity(T::WIDTH);
    row.values(&mut values);
    values
}
