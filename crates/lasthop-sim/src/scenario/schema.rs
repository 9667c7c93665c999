//! The JSON schema of scenarios, made from the declared keys: editors complete and check by it.

use lasthop_cc::{ControllerConfig, Param};
use lasthop_net::plan::{Profile, TcpConfig};
use serde_json::{Map, Value, json};

use super::diagnostic::Place;
use super::keys::{FASTEST, Key, Kind, ROOT, Table};
use super::transport::{TRANSPORT, names};
use super::units::Dimension;
use super::value::toml_fragment;

/// The JSON Schema (draft 2020-12) of scenario files.
pub fn schema() -> String {
    let mut schema = table(&ROOT);
    let root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "lasthop scenario",
    });
    if let (Value::Object(schema), Value::Object(root)) = (&mut schema, root) {
        schema.extend(root);
    }
    // A value made of strings and finite numbers always has a JSON form.
    serde_json::to_string_pretty(&schema).unwrap_or_default()
}

fn table(table: &'static Table) -> Value {
    object(table, Map::new(), &[])
}

/// A table with more properties than it declares: `kind`, or the parameters of a controller.
fn object(table: &'static Table, more: Map<String, Value>, required: &[&str]) -> Value {
    let mut properties = more;
    let mut required: Vec<Value> = required.iter().map(|name| json!(name)).collect();
    for key in table.keys() {
        properties.insert(key.name.to_owned(), property(key, table.partial));
        if key.required && !table.partial {
            required.push(json!(key.name));
        }
    }
    let mut object = json!({
        "title": table.title,
        "description": table.doc,
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        object["required"] = Value::Array(required);
    }
    object
}

/// What a key holds, with its meaning and default.
fn property(key: &'static Key, partial: bool) -> Value {
    let mut property = kind(&key.kind);
    let mut doc = key.doc.to_owned();
    if let Some(default) = key.default.filter(|_| !partial)
        && let Some(node) = toml_fragment(default, &Place::Default)
        && let Ok(default) = serde_json::to_value(&node)
    {
        property["default"] = default;
    }
    let shown = tcp_defaults(key);
    match shown.as_slice() {
        [] => {}
        [(_, first), rest @ ..] if rest.iter().all(|(_, other)| other == first) => {
            property["default"] = toml_default(key, first);
        }
        _ => {
            let list: Vec<String> =
                shown.iter().map(|(profile, value)| format!("{value} ({profile})")).collect();
            doc = format!("{doc} Default: {}.", list.join(", "));
        }
    }
    property["description"] = json!(doc);
    property
}

/// The default of a key of TCP in each profile; empty for other keys and where there is none to show.
fn tcp_defaults(key: &Key) -> Vec<(&'static str, String)> {
    let Some(tcp) = key.tcp.filter(|_| key.name != "profile") else { return Vec::new() };
    let show = |name: &'static str| {
        let config = TcpConfig::preset("reno", Profile::by_name(name)?)?;
        Some((name, (tcp.show)(&config))).filter(|(_, shown)| !shown.is_empty())
    };
    Profile::NAMES.iter().filter_map(|name| show(name)).collect()
}

fn toml_default(key: &Key, shown: &str) -> Value {
    match key.kind {
        Kind::Switch | Kind::Integer { .. } | Kind::OrTable(&Kind::Switch, _) => {
            serde_json::from_str(shown).unwrap_or_else(|_| json!(shown))
        }
        _ => json!(shown),
    }
}

fn kind(of: &'static Kind) -> Value {
    match of {
        Kind::Text => json!({ "type": "string", "minLength": 1, "maxLength": 100 }),
        Kind::Switch => json!({ "type": "boolean" }),
        Kind::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Probability => json!({ "anyOf": [
            { "type": "number", "minimum": 0, "maximum": 1 },
            quantity(of.dimensions(), &[]),
        ] }),
        Kind::Duration { min, max } => {
            with_range(quantity(of.dimensions(), &[]), &min.to_string(), &max.to_string())
        }
        Kind::Rate => with_range(
            quantity(of.dimensions(), &[]),
            "1 bit/s",
            &format!("{} Tbit/s", FASTEST / 1_000_000_000_000),
        ),
        Kind::Size { min, max } => {
            with_range(quantity(of.dimensions(), &[]), &format!("{min} B"), &format!("{max} B"))
        }
        Kind::Window { min, max, endless } => {
            let words: &[&str] = if *endless { &["unlimited"] } else { &[] };
            let window = quantity(of.dimensions(), words);
            with_range(window, &format!("{min} packets"), &format!("{max} packets"))
        }
        Kind::Room => quantity(of.dimensions(), &[]),
        Kind::Choice(names) => json!({ "enum": names() }),
        Kind::Table(of) => table(of),
        Kind::Tagged(tagged) => {
            let bare: Vec<&str> =
                tagged.variants.iter().filter(|variant| variant.bare).map(|variant| variant.name).collect();
            let mut forms = if bare.is_empty() { Vec::new() } else { vec![json!({ "enum": bare })] };
            for variant in tagged.variants {
                let mut kind = Map::new();
                kind.insert("kind".to_owned(), json!({ "const": variant.name }));
                forms.push(object(variant.table, kind, &["kind"]));
            }
            json!({ "title": tagged.title, "description": tagged.doc, "anyOf": forms })
        }
        Kind::List(element) => json!({ "type": "array", "minItems": 1, "items": kind(element) }),
        Kind::OrTable(short, long) => json!({ "anyOf": [kind(short), table(long)] }),
        Kind::Transport => transport(),
    }
}

/// A quantity in a string, or one of `words`.
fn quantity(dimensions: &[&Dimension], words: &[&str]) -> Value {
    let units: Vec<&str> =
        dimensions.iter().flat_map(|dimension| dimension.units.iter().map(|unit| unit.0)).collect();
    let number = r"[0-9][0-9_]*(\.[0-9_]*)?([eE][+-]?[0-9]+)?";
    let mut pattern = format!("{number} *({})", units.join("|"));
    for word in words {
        pattern = format!("{pattern}|{word}");
    }
    let examples: Vec<&str> = dimensions.iter().map(|dimension| dimension.example).collect();
    json!({ "type": "string", "pattern": format!("^({pattern})$"), "examples": examples })
}

fn with_range(mut quantity: Value, min: &str, max: &str) -> Value {
    quantity["$comment"] = json!(format!("from {min} to {max}"));
    quantity
}

/// A name, or for each controller a table with its presets and parameters.
fn transport() -> Value {
    let mut forms = vec![json!({ "enum": names() })];
    for name in ControllerConfig::NAMES {
        let Some(controller) = ControllerConfig::by_name(name) else { continue };
        let mut params = Map::new();
        for param in controller.params() {
            params.insert(param.name.to_owned(), parameter(&param));
        }
        let mut form = object(&TRANSPORT, params, &[]);
        form["title"] = json!(format!("TCP with {name}"));
        form["description"] = json!(controller.summary());
        let presets: Vec<&str> =
            TcpConfig::PRESETS.iter().filter(|preset| preset.1 == *name).map(|preset| preset.0).collect();
        form["properties"]["preset"]["enum"] = json!(presets);
        form["properties"]["cc"]["enum"] = json!([name]);
        form["oneOf"] = json!([
            { "required": ["preset"], "properties": { "recovery": false } },
            { "required": ["cc"] },
        ]);
        forms.push(form);
    }
    json!({ "anyOf": forms })
}

fn parameter(param: &Param) -> Value {
    if param.switch {
        return json!({ "type": "boolean", "description": param.help, "default": param.default != 0.0 });
    }
    json!({
        "type": "number",
        "description": param.help,
        "default": param.default,
        "minimum": param.min,
        "maximum": param.max,
    })
}
