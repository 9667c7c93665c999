//! Reads a table by its declaration: unknown keys, missing keys, types, units and ranges are checked here,
//! once for all.
//!
//! A [`Reader`] stands for one table of the scenario. Asking it for a key gives a value in range, or the
//! error that the user will read.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use lasthop_core::time::Span;
use lasthop_core::units::Rate;
use lasthop_net::history::Moment;

use super::diagnostic::{Place, ScenarioError, Source, clip, nearest, quoted, suggest};
use super::keys::{FASTEST, Key, Kind, ROOT, Table, Tagged, Variant};
use super::units::{self, Misread, Unit};
use super::value::{Entry, Map, Node, Value, toml_fragment};

/// Longest path of a file in bytes.
const LONGEST_PATH: usize = 4096;
/// What other programs call keys, and what they are called here.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("mss", "packet_size"),
    ("segment_size", "packet_size"),
    ("min_rto", "rto.min"),
    ("rto_min", "rto.min"),
    ("max_rto", "rto.max"),
    ("rwnd", "receiver_window"),
    ("init_cwnd", "initial_window"),
    ("dupack_threshold", "dup_threshold"),
];

type Result<T> = std::result::Result<T, ScenarioError>;

/// A value that satisfies its declaration.
pub(super) enum Checked<'n> {
    Text(&'n str),
    Switch(bool),
    Moment(Moment),
    Integer(u64),
    Number(f64),
    Span(Span),
    Rate(Rate),
    /// Bytes.
    Size(u64),
    Packets(f64),
    Quantity(Quantity),
    /// A window without limit.
    Endless,
    /// One of the declared names.
    Name(&'static str),
    Table(Reader<'n>),
    /// The kind and its table.
    Tagged(&'static str, Reader<'n>),
    List(Vec<Item<'n>>),
    /// Not looked into yet: `transport.rs` does that.
    Transport(&'n Node),
}

/// A number, or a quantity in its base unit.
#[derive(Clone, Copy)]
pub(super) struct Quantity {
    pub(super) value: f64,
    pub(super) unit: Option<Unit>,
}

/// An element of a list, with its place.
pub(super) struct Item<'n> {
    pub(super) value: Checked<'n>,
    pub(super) place: &'n Place,
}

/// A table of the scenario whose keys are all known.
#[derive(Clone, Copy)]
pub(super) struct Reader<'n> {
    pub(super) source: &'n Source<'n>,
    pub(super) table: &'static Table,
    pub(super) place: &'n Place,
    map: &'n Map,
}

/// Gives the typed access of `Reader`: each panics if the declaration says otherwise, which every test would
/// show.
macro_rules! typed {
    ($($name:ident, $optional:ident, $variant:ident => $type:ty;)*) => {
        $(
            #[allow(dead_code, reason = "the set is complete; not every type is needed both ways")]
            pub(super) fn $name(&self, key: &str) -> Result<$type> {
                match self.value(key)? {
                    Checked::$variant(value) => Ok(value),
                    _ => panic!("`{key}` is declared as something else"),
                }
            }
            #[allow(dead_code, reason = "the set is complete; not every type is needed both ways")]
            pub(super) fn $optional(&self, key: &str) -> Result<Option<$type>> {
                match self.given(key)? {
                    Some(Checked::$variant(value)) => Ok(Some(value)),
                    Some(_) => panic!("`{key}` is declared as something else"),
                    None => Ok(None),
                }
            }
        )*
    };
}

impl<'n> Reader<'n> {
    /// Opens `node` as the table `table`; `label` is the key that holds it.
    pub(super) fn open(
        source: &'n Source<'n>,
        table: &'static Table,
        label: &str,
        node: &'n Node,
    ) -> Result<Reader<'n>> {
        let Value::Map(map) = &node.value else {
            return Err(wrong_type(source, &Kind::Table(table), label, node));
        };
        let reader = Reader { source, table, place: &node.place, map };
        reader.refuse_unknown(&[])?;
        Ok(reader)
    }

    /// Opens `map`, which may have the keys of `table` and those in `extra`.
    pub(super) fn open_with(
        source: &'n Source<'n>,
        table: &'static Table,
        (map, place): (&'n Map, &'n Place),
        extra: &[&'static str],
    ) -> Result<Reader<'n>> {
        let reader = Reader { source, table, place, map };
        reader.refuse_unknown(extra)?;
        Ok(reader)
    }

    fn refuse_unknown(&self, extra: &[&'static str]) -> Result<()> {
        let known = || self.table.keys().map(|key| key.name).chain(extra.iter().copied());
        let Some(entry) = self.map.entries.iter().find(|entry| !known().any(|name| name == entry.key)) else {
            return Ok(());
        };
        let known: Vec<&str> = known().collect();
        let message = format!("unknown key {} in {}", quoted(&entry.key), self.table.title);
        // Written under the wrong header, a key of the top level is the likeliest slip after a misspelling.
        let is_root = std::ptr::eq(self.table, &raw const ROOT);
        let belongs = ROOT.keys().any(|key| key.name == entry.key) && !is_root;
        let is_here = |name: &str| name.split('.').next().is_some_and(|first| known.contains(&first));
        let other = OTHER_NAMES.iter().find(|(other, name)| *other == entry.key && is_here(name));
        let remedy = match (other, nearest(&entry.key, &known)) {
            (Some((_, name)), _) => format!("it is called {name} here"),
            (None, None) if belongs => {
                format!("{} belongs at the top of the file, before the first [table]", entry.key)
            }
            _ => suggest(&entry.key, &known),
        };
        Err(self.source.error(&entry.key_place, message, &remedy))
    }

    /// The entry of `key` as the user wrote it.
    pub(super) fn entry(&self, key: &str) -> Option<&'n Entry> {
        self.map.find(key)
    }

    /// Whether the user wrote `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// The place of the value of `key`, or of the table.
    pub(super) fn place_of(&self, key: &str) -> &'n Place {
        self.entry(key).map_or(self.place, |entry| &entry.node.place)
    }

    /// An error at the value of `key`.
    pub(super) fn error(&self, key: &str, message: String, remedy: &str) -> ScenarioError {
        self.source.error(self.place_of(key), message, remedy)
    }

    /// The value of `key` as the user wrote it.
    pub(super) fn given(&self, key: &str) -> Result<Option<Checked<'n>>> {
        let declared = self.table.key(key);
        let Some(entry) = self.entry(key) else { return Ok(None) };
        if declared.fixed && entry.node.extremes.is_some() {
            let message = format!("{key} is never random: it says what a run is made of");
            return Err(self.source.error(
                &entry.node.place,
                message,
                &format!("write {}", declared.example()),
            ));
        }
        check(self.source, &declared.kind, key, &entry.node).map(Some)
    }

    /// The value of `key`, or its default.
    pub(super) fn value(&self, key: &str) -> Result<Checked<'n>> {
        if let Some(value) = self.given(key)? {
            return Ok(value);
        }
        let declared = self.table.key(key);
        match declared.default {
            Some(default) => check(self.source, &declared.kind, key, &DEFAULTS[default]),
            None => Err(self.missing(declared)),
        }
    }

    /// The error for a key that must be there.
    pub(super) fn missing(&self, key: &Key) -> ScenarioError {
        let message = format!("missing key \"{}\" in {}", key.name, self.table.title);
        self.source.error(self.place, message, &key.remedy())
    }

    typed! {
        text, text_if, Text => &'n str;
        switch, switch_if, Switch => bool;
        moment, moment_if, Moment => Moment;
        integer, integer_if, Integer => u64;
        number, number_if, Number => f64;
        span, span_if, Span => Span;
        rate, rate_if, Rate => Rate;
        size, size_if, Size => u64;
        name, name_if, Name => &'static str;
        sub, sub_if, Table => Reader<'n>;
        list, list_if, List => Vec<Item<'n>>;
    }

    /// The kind and the table of a tagged key.
    pub(super) fn tagged(&self, key: &str) -> Result<(&'static str, Reader<'n>)> {
        match self.value(key)? {
            Checked::Tagged(kind, table) => Ok((kind, table)),
            _ => panic!("`{key}` is not declared as tagged"),
        }
    }
}

/// Checks `node`, the value of the key `label`, against `kind`.
pub(super) fn check<'n>(
    source: &'n Source<'n>,
    kind: &'static Kind,
    label: &str,
    node: &'n Node,
) -> Result<Checked<'n>> {
    let wrong_type = || wrong_type(source, kind, label, node);
    check_extremes(source, kind, label, node)?;
    match (kind, &node.value) {
        (Kind::Text, Value::Text(text)) => name_text(source, label, node, text),
        (Kind::File, Value::Text(text)) => file_path(source, label, node, text),
        (Kind::Moment, Value::Text(text) | Value::Date(text)) => moment(source, label, node, text),
        (Kind::Switch, Value::Switch(switch)) => Ok(Checked::Switch(*switch)),
        (Kind::Integer { min, max }, value) => {
            let integer = whole(value).ok_or_else(wrong_type)?;
            match u64::try_from(integer) {
                Ok(integer) if (*min..=*max).contains(&integer) => Ok(Checked::Integer(integer)),
                _ => {
                    Err(out_of_range(source, label, node, integer as f64, &min.to_string(), &max.to_string()))
                }
            }
        }
        (Kind::Number { min, max } | Kind::Measured { min, max, .. }, value) => {
            let number = number(value).ok_or_else(wrong_type)?;
            if (*min..=*max).contains(&number) {
                return Ok(Checked::Number(number));
            }
            Err(out_of_range(source, label, node, number, &min.to_string(), &max.to_string()))
        }
        (Kind::Probability, _) => {
            let number = match number(&node.value) {
                Some(number) => number,
                None => quantity(source, kind, label, node)?.0,
            };
            if (0.0..=1.0).contains(&number) {
                return Ok(Checked::Number(number));
            }
            Err(out_of_range(source, label, node, number, "0", "1 (100 %)"))
        }
        (Kind::Duration { min, max }, _) => {
            let nanos = quantity(source, kind, label, node)?.0.round();
            if (min.0 as f64..=max.0 as f64).contains(&nanos) {
                return Ok(Checked::Span(Span(nanos as u64)));
            }
            Err(out_of_range(source, label, node, nanos, &min.to_string(), &max.to_string()))
        }
        (Kind::Value, _) => parameter(source, kind, label, node),
        (Kind::Rate, _) => {
            let rate = quantity(source, kind, label, node)?.0.round();
            if (1.0..=FASTEST as f64).contains(&rate) {
                return Ok(Checked::Rate(Rate(rate as u64)));
            }
            Err(out_of_range(source, label, node, rate, "1 bit/s", "10 Tbit/s"))
        }
        (Kind::Size { min, max }, _) => {
            let bytes = whole_bytes(source, label, node, quantity(source, kind, label, node)?.0)?;
            if (*min as f64..=*max as f64).contains(&bytes) {
                return Ok(Checked::Size(bytes as u64));
            }
            Err(out_of_range(source, label, node, bytes, &format!("{min} B"), &format!("{max} B")))
        }
        (Kind::Window { endless: true, .. }, Value::Text(text)) if text == "unlimited" => {
            Ok(Checked::Endless)
        }
        (Kind::Window { min, max, .. }, _) => match quantity(source, kind, label, node)? {
            (packets, 0) if (*min..=*max).contains(&packets) => Ok(Checked::Packets(packets)),
            (bytes, 1) if (1.0..=1e15).contains(&bytes) => Ok(Checked::Size(bytes as u64)),
            (value, _) => {
                Err(out_of_range(source, label, node, value, &min.to_string(), &format!("{max} packets")))
            }
        },
        (Kind::Room, _) => room(source, label, node, quantity(source, kind, label, node)?),
        (Kind::Choice(names), Value::Text(text)) => {
            let names = names();
            let found = names.iter().find(|name| *name == text);
            found
                .map(|name| Checked::Name(name))
                .ok_or_else(|| unknown_name(source, label, node, text, &names))
        }
        (Kind::Table(table), _) | (Kind::OrTable(_, table), Value::Map(_)) => {
            Ok(Checked::Table(Reader::open(source, table, label, node)?))
        }
        (Kind::Tagged(tagged), Value::Map(map)) => variant_table(source, tagged, map, node),
        (Kind::Tagged(tagged), _) => bare_variant(source, tagged, label, node),
        (Kind::List(element) | Kind::AnyList(element), Value::List(nodes)) => {
            // One that stands for what a caller leaves out may be empty.
            let is_written = !matches!(node.place, Place::Default);
            if nodes.is_empty() && is_written && matches!(kind, Kind::List(_)) {
                let remedy = format!("it needs at least one element: {}", element.expected());
                return Err(source.error(&node.place, format!("the list \"{label}\" is empty"), &remedy));
            }
            let label = format!("an element of {label}");
            let items = nodes.iter().map(|node| {
                check(source, element, &label, node).map(|value| Item { value, place: &node.place })
            });
            Ok(Checked::List(items.collect::<Result<_>>()?))
        }
        (Kind::OrTable(short, _), value) => match (short, value) {
            // A word or a switch is refused with the long form in mind, a quantity with its unit.
            (Kind::Duration { .. }, Value::Text(_) | Value::Integer(_) | Value::Float(_))
            | (Kind::Choice(_), Value::Text(_))
            | (Kind::Integer { .. }, Value::Integer(_))
            | (Kind::Switch, Value::Switch(_)) => check(source, short, label, node),
            _ => Err(wrong_type()),
        },
        (Kind::Transport, Value::Text(_) | Value::Map(_)) => Ok(Checked::Transport(node)),
        _ => Err(wrong_type()),
    }
}

/// Refuses a random value unless its key takes whatever may be drawn.
fn check_extremes<'n>(
    source: &'n Source<'n>,
    kind: &'static Kind,
    label: &str,
    node: &'n Node,
) -> Result<()> {
    let Some(extremes) = &node.extremes else { return Ok(()) };
    if !kind.is_numeric() {
        let message = format!("{label} is no number, and cannot be random");
        return Err(source.error(&node.place, message, &format!("expected {}", kind.expected())));
    }
    if matches!(kind, Kind::Integer { .. }) && !extremes.is_whole {
        let message = format!("{label} is a whole number, and the distribution gives others");
        let remedy = "write distribution = \"uniform\" with step = 1, or \"choice\"";
        return Err(source.error(&node.place, message, remedy));
    }
    for extreme in &extremes.nodes {
        check(source, kind, label, extreme).map_err(|refused| {
            let message = format!("{}, which may be drawn", refused.message());
            source.error(&node.place, message, &format!("{}: {}", refused.remedy(), extremes.remedy))
        })?;
    }
    Ok(())
}

/// A parameter of a random variable: a number, or a quantity of whatever kind.
fn parameter<'n>(source: &Source<'_>, kind: &Kind, label: &str, node: &Node) -> Result<Checked<'n>> {
    if let Value::Text(text) = &node.value {
        let (value, unit) = units::parse_any(text).map_err(|misread| {
            source.error(&node.place, format!("{label}: {}", misread.message), &misread.remedy)
        })?;
        return Ok(Checked::Quantity(Quantity { value, unit: Some(unit) }));
    }
    let value = number(&node.value).filter(|value| value.is_finite());
    let value = value.ok_or_else(|| wrong_type(source, kind, label, node))?;
    Ok(Checked::Quantity(Quantity { value, unit: None }))
}

fn file_path<'n>(source: &Source<'_>, label: &str, node: &Node, text: &'n str) -> Result<Checked<'n>> {
    if text.trim().is_empty() || text.chars().any(char::is_control) || text.len() > LONGEST_PATH {
        let message = format!("{label} is not the path of a file");
        return Err(source.error(&node.place, message, "write for example \"paths.sqlite\""));
    }
    Ok(Checked::Text(text))
}

fn moment<'n>(source: &Source<'_>, label: &str, node: &Node, text: &str) -> Result<Checked<'n>> {
    let Some(moment) = Moment::parse(text) else {
        let message = format!("{label} is not a date and time of day: {}", node.value.describe());
        let remedy = "write for example \"2024-03-04T09:30\", from 1970 on and without a time zone";
        return Err(source.error(&node.place, message, remedy));
    };
    Ok(Checked::Moment(moment))
}

fn name_text<'n>(source: &Source<'_>, label: &str, node: &Node, text: &'n str) -> Result<Checked<'n>> {
    let problem = if text.trim().is_empty() {
        "is empty"
    } else if text.chars().any(char::is_control) {
        "holds a control character"
    } else if text.chars().nth(100).is_some() {
        "is too long"
    } else {
        return Ok(Checked::Text(text));
    };
    Err(source.error(&node.place, format!("{label} {problem}"), "write 1 to 100 characters on one line"))
}

fn room<'n>(
    source: &Source<'_>,
    label: &str,
    node: &Node,
    (value, dimension): (f64, usize),
) -> Result<Checked<'n>> {
    if dimension == 1 {
        let bytes = whole_bytes(source, label, node, value)?;
        if (1.0..=1e15).contains(&bytes) {
            return Ok(Checked::Size(bytes as u64));
        }
        return Err(out_of_range(source, label, node, bytes, "1 B", "1000 TB"));
    }
    if !(1.0..=f64::from(u32::MAX)).contains(&value) {
        return Err(out_of_range(source, label, node, value, "1", "4294967295 packets"));
    }
    if value.fract() != 0.0 {
        let message = format!("{label} is not a whole number of packets: {}", node.value.describe());
        return Err(source.error(&node.place, message, &format!("write \"{} packets\"", value.ceil())));
    }
    Ok(Checked::Packets(value))
}

fn whole_bytes(source: &Source<'_>, label: &str, node: &Node, bytes: f64) -> Result<f64> {
    if bytes.fract() == 0.0 {
        return Ok(bytes);
    }
    let message = format!("{label} is not a whole number of bytes: {}", node.value.describe());
    Err(source.error(&node.place, message, &format!("write \"{} B\"", bytes.ceil())))
}

/// The quantity in the base unit of one of the kind's dimensions, and the number of that dimension.
fn quantity(source: &Source<'_>, kind: &Kind, label: &str, node: &Node) -> Result<(f64, usize)> {
    let dimensions = kind.dimensions();
    let refuse = |misread: Misread| {
        source.error(&node.place, format!("{label}: {}", misread.message), &misread.remedy)
    };
    match &node.value {
        Value::Text(text) => units::parse(text, dimensions).map_err(refuse),
        Value::Integer(_) | Value::Float(_) => {
            let shown = node.value.describe();
            Err(refuse(units::unitless(&shown, &shown, dimensions)))
        }
        _ => Err(wrong_type(source, kind, label, node)),
    }
}

/// A number that is whole, however it was written.
fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Integer(integer) => Some(*integer),
        Value::Float(float) if float.fract() == 0.0 && float.abs() < 1e15 => Some(*float as i128),
        _ => None,
    }
}

/// A number without a unit.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(integer) => Some(*integer as f64),
        Value::Float(float) => Some(*float),
        _ => None,
    }
}

fn variant_table<'n>(
    source: &'n Source<'n>,
    tagged: &'static Tagged,
    map: &'n Map,
    node: &'n Node,
) -> Result<Checked<'n>> {
    let names = tagged.names();
    let Some(entry) = map.find("kind") else {
        let message = format!("missing key \"kind\" in {}", tagged.title);
        let remedy = format!("add kind = \"{}\"; known: {}", names[0], names.join(", "));
        return Err(source.error(&node.place, message, &remedy));
    };
    let Value::Text(text) = &entry.node.value else {
        return Err(wrong_type(source, &Kind::Tagged(tagged), "kind", &entry.node));
    };
    let variant = find_variant(source, tagged, &entry.node, text)?;
    let reader = Reader::open_with(source, variant.table, (map, &node.place), &["kind"])?;
    Ok(Checked::Tagged(variant.name, reader))
}

fn bare_variant<'n>(
    source: &'n Source<'n>,
    tagged: &'static Tagged,
    label: &str,
    node: &'n Node,
) -> Result<Checked<'n>> {
    static NOTHING: Map = Map { entries: Vec::new() };
    let alone = || plain_value(source, tagged, label, node);
    let Value::Text(text) = &node.value else {
        return Err(alone().unwrap_or_else(|| wrong_type(source, &Kind::Tagged(tagged), label, node)));
    };
    let variant = find_variant(source, tagged, node, text).map_err(|unknown| alone().unwrap_or(unknown))?;
    if variant.bare {
        let reader = Reader { source, table: variant.table, place: &node.place, map: &NOTHING };
        return Ok(Checked::Tagged(variant.name, reader));
    }
    let mut needed: Vec<String> = variant.table.keys().filter(|key| key.required).map(Key::example).collect();
    if needed.is_empty() {
        // One of several will do; the first is the usual one.
        needed.extend(variant.table.keys().next().map(Key::example));
    }
    let message = format!("{} \"{text}\" needs its settings", tagged.title);
    let remedy = format!("write {{ kind = \"{text}\", {} }}", needed.join(", "));
    Err(source.error(&node.place, message, &remedy))
}

/// The error for a number or a quantity in the place of a table, if one of the kinds has a key that takes it and needs
/// no other.
fn plain_value(
    source: &Source<'_>,
    tagged: &'static Tagged,
    label: &str,
    node: &Node,
) -> Option<ScenarioError> {
    let shown = node.value.describe();
    let written = tagged.variants.iter().find_map(|variant| {
        let mut needed = variant.table.keys().filter(|key| key.required);
        let key = needed.next().or_else(|| variant.table.keys().next())?;
        let is_number = !key.kind.dimensions().is_empty() || matches!(key.kind, Kind::Number { .. });
        let fits = is_number && needed.next().is_none() && check(source, &key.kind, key.name, node).is_ok();
        fits.then(|| format!("write {{ kind = \"{}\", {} = {shown} }}", variant.name, key.name))
    })?;
    Some(source.error(&node.place, format!("{label} cannot be {shown} alone"), &written))
}

fn find_variant(
    source: &Source<'_>,
    tagged: &'static Tagged,
    node: &Node,
    text: &str,
) -> Result<&'static Variant> {
    let found = tagged.variants.iter().find(|variant| variant.name == text);
    found.ok_or_else(|| unknown_name(source, tagged.title, node, text, &tagged.names()))
}

/// The error for a name that is none of `known`; `what` is what it should name.
pub(super) fn unknown_name(
    source: &Source<'_>,
    what: &str,
    node: &Node,
    text: &str,
    known: &[&str],
) -> ScenarioError {
    source.error(&node.place, format!("unknown {what} {}", quoted(text)), &suggest(text, known))
}

fn wrong_type(source: &Source<'_>, kind: &Kind, label: &str, node: &Node) -> ScenarioError {
    let message = format!("{label} cannot be {}", node.value.describe());
    source.error(&node.place, message, &format!("expected {}", kind.expected()))
}

/// The error for a value outside its range.
pub(super) fn out_of_range(
    source: &Source<'_>,
    label: &str,
    node: &Node,
    value: f64,
    min: &str,
    max: &str,
) -> ScenarioError {
    let problem = if value < 0.0 {
        "is negative"
    } else if value == 0.0 {
        "is zero"
    } else {
        "is out of range"
    };
    let message = format!("{label} {problem}: {}", clip(&node.value.describe()));
    source.error(&node.place, message, &format!("it must lie between {min} and {max}"))
}

/// The defaults of all tables, parsed once.
static DEFAULTS: LazyLock<BTreeMap<&'static str, Node>> = LazyLock::new(|| {
    let mut defaults = BTreeMap::new();
    collect_defaults(&ROOT, &mut defaults);
    defaults
});

fn collect_defaults(table: &'static Table, defaults: &mut BTreeMap<&'static str, Node>) {
    for key in table.keys() {
        if let Some(default) = key.default {
            let node = toml_fragment(default, &Place::Default);
            // The declarations are ours; the test below reads every one.
            defaults.insert(default, node.unwrap_or_else(|| panic!("default of `{}`: {default}", key.name)));
        }
        for table in key.kind.tables() {
            collect_defaults(table, defaults);
        }
    }
}

impl Kind {
    /// The tables that a value may be.
    pub(super) fn tables(&self) -> Vec<&'static Table> {
        match self {
            Kind::Table(table) | Kind::OrTable(_, table) => vec![table],
            Kind::Tagged(tagged) => tagged.variants.iter().map(|variant| variant.table).collect(),
            Kind::List(kind) | Kind::AnyList(kind) => kind.tables(),
            Kind::Transport => vec![&super::transport::TRANSPORT],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every default satisfies its own declaration.
    #[test]
    fn defaults_are_valid() {
        fn visit(table: &'static Table) {
            let source = Source { file: None, text: "", overrides: &[] };
            for key in table.keys() {
                if let Some(default) = key.default {
                    let checked = check(&source, &key.kind, key.name, &DEFAULTS[default]);
                    assert!(checked.is_ok(), "{}: {}", key.name, checked.err().unwrap());
                }
                key.kind.tables().into_iter().for_each(visit);
            }
        }
        visit(&ROOT);
    }

    /// A key that is required has no default, and a table that only overrides takes neither seriously.
    #[test]
    fn required_keys_have_no_default() {
        fn visit(table: &'static Table) {
            for key in table.keys() {
                assert!(!(key.required && key.default.is_some()), "{}", key.name);
                key.kind.tables().into_iter().for_each(visit);
            }
        }
        visit(&ROOT);
    }
}
