//! One tree for both formats: TOML and JSON become [`Node`]s that remember where they were written.
//!
//! The readers see only this tree, so a scenario means the same whichever way it came in.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Place, ScenarioError, Source, Step, clip, quoted};

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) place: Place,
    /// If the value was drawn: what else it might have been.
    pub(super) extremes: Option<Arc<Extremes>>,
}

impl Node {
    /// A value that was written, not drawn.
    pub(super) fn new(value: Value, place: Place) -> Node {
        Node { value, place, extremes: None }
    }
}

/// What a value might have been.
#[derive(Debug)]
pub(super) struct Extremes {
    /// The least and the most, or all values of a choice.
    pub(super) nodes: Vec<Node>,
    /// Whether only whole numbers are drawn.
    pub(super) is_whole: bool,
    /// What to do where one of them is refused.
    pub(super) remedy: &'static str,
}

/// What TOML and JSON have in common.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// JSON only.
    Null,
    Switch(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    /// TOML only; no key takes one.
    Date(String),
    List(Vec<Node>),
    Map(Map),
}

/// Keys in the order of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Map {
    pub(super) entries: Vec<Entry>,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_place: Place,
    pub(super) node: Node,
}

impl Map {
    /// The entry of `key`.
    pub(super) fn find(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

impl Value {
    /// What the value is, for "expected a table, found ...".
    pub(super) fn describe(&self) -> String {
        match self {
            Value::Null => "null".to_owned(),
            Value::Switch(switch) => switch.to_string(),
            Value::Integer(integer) => integer.to_string(),
            Value::Float(float) => float.to_string(),
            Value::Text(text) => quoted(text),
            Value::Date(date) => format!("the date {}", clip(date)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a table".to_owned(),
        }
    }
}

/// Reads a TOML document.
pub(super) fn from_toml(source: &Source<'_>) -> Result<Node, ScenarioError> {
    if let Some(start) = deep_key(source.text) {
        let place = Place::Bytes { start, end: start + 1 };
        return Err(source.error(
            &place,
            format!("a key of more than {MOST_PARTS} parts"),
            "no key has that many",
        ));
    }
    let document = DeTable::parse(source.text).map_err(|error| syntax_error(source, &error))?;
    // The document has no header to point at: its first character stands for it.
    let value = toml_table(document.get_ref(), &|start, end| Place::Bytes { start, end }, source)?;
    Ok(Node::new(value, Place::Bytes { start: 0, end: 0 }))
}

/// Parts that a dotted key may have: the parser takes the square of their number.
const MOST_PARTS: usize = 100;

/// Where a key begins that has more parts.
fn deep_key(text: &str) -> Option<usize> {
    let (mut start, mut parts, mut before, mut is_spaced) = (0, 1, b'\n', false);
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            b'.' if before != b'.' => parts += 1,
            b' ' | b'\t' => {
                is_spaced = true;
                continue;
            }
            // Blanks may stand around a dot; those between two names, or numbers, end a key.
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'"' | b'\'' => {
                if is_spaced && before != b'.' {
                    (start, parts) = (place, 1);
                }
            }
            _ => (start, parts) = (place + 1, 1),
        }
        is_spaced = false;
        if parts > MOST_PARTS {
            return Some(start);
        }
        before = byte;
    }
    None
}

/// The parser's error, in the words of this module for the two slips that happen to everybody.
fn syntax_error(source: &Source<'_>, error: &toml::de::Error) -> ScenarioError {
    let span = error.span().unwrap_or(0..0);
    let (start, end) = (span.start, span.end);
    let place = Place::Bytes { start, end };
    let found = source.text.get(span).unwrap_or_default();
    match error.message() {
        "duplicate key" => {
            let line = source.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
            let is_list = source.text[line..].trim_start().starts_with("[[");
            let remedy = if is_list {
                format!("{found} = [...] stands before: write all entries of the list in one of both ways")
            } else {
                "keep one of them".to_owned()
            };
            source.error(&place, format!("duplicate key {}", quoted(found)), &remedy)
        }
        message if message.starts_with("string values must be quoted") => {
            let message = "a text without quotes, or no value".to_owned();
            source.error(&place, message, "write texts and quantities in quotes, such as \"60 s\"")
        }
        message => {
            source.error(&place, format!("not valid TOML: {message}"), "correct the file at this place")
        }
    }
}

/// Reads a single TOML value, such as the right-hand side of an override. `None` if it is none.
pub(super) fn toml_fragment(text: &str, place: &Place) -> Option<Node> {
    let value = DeValue::parse(text).ok()?;
    let source = Source { file: None, text: "", overrides: &[] };
    toml_value(value.get_ref(), place.clone(), &|_, _| place.clone(), &source).ok()
}

type Places<'a> = &'a dyn Fn(usize, usize) -> Place;

fn toml_table(table: &DeTable<'_>, places: Places<'_>, source: &Source<'_>) -> Result<Value, ScenarioError> {
    let mut found: Vec<_> = table.iter().collect();
    // The parser's map may sort by name; mistakes are reported in the order of the file.
    found.sort_by_key(|(key, _)| key.span().start);
    let mut entries = Vec::with_capacity(found.len());
    for (key, value) in found {
        let node = toml_value(value.get_ref(), places(value.span().start, value.span().end), places, source)?;
        let key_place = places(key.span().start, key.span().end);
        entries.push(Entry { key: key.get_ref().to_string(), key_place, node });
    }
    Ok(Value::Map(Map { entries }))
}

fn toml_value(
    value: &DeValue<'_>,
    place: Place,
    places: Places<'_>,
    source: &Source<'_>,
) -> Result<Node, ScenarioError> {
    let value = match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Boolean(switch) => Value::Switch(*switch),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Float(float) => match float.as_str().parse() {
            Ok(float) => Value::Float(float),
            Err(_) => return Err(unreadable(float.as_str(), &place, source)),
        },
        DeValue::Integer(integer) => match i128::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(integer) => Value::Integer(integer),
            Err(_) => return Err(unreadable(integer.as_str(), &place, source)),
        },
        DeValue::Array(array) => {
            let items = array.iter().map(|item| {
                toml_value(item.get_ref(), places(item.span().start, item.span().end), places, source)
            });
            Value::List(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => toml_table(table, places, source)?,
    };
    Ok(Node::new(value, place))
}

fn unreadable(text: &str, place: &Place, source: &Source<'_>) -> ScenarioError {
    source.error(place, format!("the number {} cannot be represented", clip(text)), "write a smaller number")
}

/// Reads a JSON document.
pub(super) fn from_json(text: &str, source: &Source<'_>) -> Result<Node, ScenarioError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Json(None).deserialize(&mut deserializer).and_then(|node| deserializer.end().map(|()| node));
    read.map_err(|error| {
        let place = Place::Keys(None);
        source.error(&place, format!("not valid JSON: {error}"), "correct the file at this place")
    })
}

/// Reads one JSON value at this path. Not `serde_json::Value`, which sorts the keys and keeps the last of two
/// equal ones.
struct Json(Option<Arc<Step>>);

impl Json {
    fn node(self, value: Value) -> Node {
        Node::new(value, Place::Keys(self.0))
    }

    fn child(&self, key: String) -> Arc<Step> {
        Arc::new(Step { parent: self.0.clone(), key })
    }
}

impl<'de> DeserializeSeed<'de> for Json {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Json {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(self.node(Value::Null))
    }

    fn visit_bool<E>(self, switch: bool) -> Result<Node, E> {
        Ok(self.node(Value::Switch(switch)))
    }

    fn visit_i64<E>(self, integer: i64) -> Result<Node, E> {
        Ok(self.node(Value::Integer(integer.into())))
    }

    fn visit_u64<E>(self, integer: u64) -> Result<Node, E> {
        Ok(self.node(Value::Integer(integer.into())))
    }

    fn visit_f64<E>(self, float: f64) -> Result<Node, E> {
        Ok(self.node(Value::Float(float)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(self.node(Value::Text(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = items.next_element_seed(Json(Some(self.child(list.len().to_string()))))? {
            list.push(node);
        }
        Ok(self.node(Value::List(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut map = Map::default();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(key) = items.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format!("duplicate key {}", quoted(&key))));
            }
            let step = Some(self.child(key.clone()));
            let node = items.next_value_seed(Json(step.clone()))?;
            map.entries.push(Entry { key, key_place: Place::Keys(step), node });
        }
        Ok(self.node(Value::Map(map)))
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Null => serializer.serialize_unit(),
            Value::Switch(switch) => serializer.serialize_bool(*switch),
            // Every integer key fits 64 bits; the wider type exists to report those that do not.
            Value::Integer(integer) => match i64::try_from(*integer) {
                Ok(integer) => serializer.serialize_i64(integer),
                Err(_) => serializer.serialize_u64(u64::try_from(*integer).unwrap_or(u64::MAX)),
            },
            Value::Float(float) => serializer.serialize_f64(*float),
            Value::Text(text) | Value::Date(text) => serializer.serialize_str(text),
            Value::List(list) => {
                let mut sequence = serializer.serialize_seq(Some(list.len()))?;
                for node in list {
                    sequence.serialize_element(node)?;
                }
                sequence.end()
            }
            Value::Map(map) => {
                let mut object = serializer.serialize_map(Some(map.entries.len()))?;
                for entry in &map.entries {
                    object.serialize_entry(&entry.key, &entry.node)?;
                }
                object.end()
            }
        }
    }
}
