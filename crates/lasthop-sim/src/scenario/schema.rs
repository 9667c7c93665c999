//! The JSON schema of scenarios, made from the declared keys: editors complete and check by it.

use lasthop_cc::{ControllerConfig, Param};
use lasthop_net::plan::{Profile, TcpConfig};
use lasthop_net::transport::rate::config::Protocol;
use serde_json::{Map, Value, json};

use super::diagnostic::Place;
use super::keys::{FASTEST, Key, Kind, ROOT, Table, Tagged};
use super::random::{RANDOM, TAG};
use super::rate::{self, RATE};
use super::stack::{self, STACK};
use super::transport::{TRANSPORT, names};
use super::units::{ALL, Dimension};
use super::value::toml_fragment;

/// The JSON Schema (draft 2020-12) of scenario files.
pub fn schema() -> String {
    schema_of(true)
}

/// The same without random values in place of numbers, for a form: what they consist of stands in it once, by itself.
pub fn plain_schema() -> String {
    schema_of(false)
}

fn schema_of(has_random: bool) -> String {
    let mut builder = Builder { definitions: Map::new(), has_random };
    let mut schema = builder.object(&ROOT, Map::new(), &[]);
    builder.random();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("lasthop scenario");
    schema["$defs"] = Value::Object(builder.definitions);
    // In every build: see `crate::json`.
    schema.sort_all_objects();
    // A value made of strings and finite numbers always has a JSON form.
    serde_json::to_string_pretty(&schema).unwrap_or_default()
}

/// Every helper in the network with its keys, as JSON text.
pub fn helpers() -> String {
    crate::json::text(super::helpers::list())
}

/// Collects the definitions: a table is described once, however often it occurs.
struct Builder {
    /// By title; no two tables share one.
    definitions: Map<String, Value>,
    /// Whether a random value may stand for a number or a quantity.
    has_random: bool,
}

impl Builder {
    /// A reference to the definition of what is called `title`; `describe` makes it the first time.
    fn reference(&mut self, title: &str, describe: impl FnOnce(&mut Builder) -> Value) -> Value {
        let name = title.replace(' ', "-");
        if !self.definitions.contains_key(&name) {
            let description = describe(self);
            self.definitions.insert(name.clone(), description);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    fn table(&mut self, table: &'static Table) -> Value {
        self.reference(table.title, |builder| builder.object(table, Map::new(), &[]))
    }

    /// A table with more properties than it declares: `kind`, or the parameters of a controller.
    fn object(&mut self, table: &'static Table, more: Map<String, Value>, required: &[&str]) -> Value {
        let mut properties = more;
        let mut required: Vec<Value> = required.iter().map(|name| json!(name)).collect();
        for key in table.keys() {
            properties.insert(key.name.to_owned(), self.property(key, table.partial));
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
    fn property(&mut self, key: &'static Key, partial: bool) -> Value {
        let mut property = self.kind(&key.kind, !key.fixed);
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

    /// What a key holds, which may be random or not.
    fn kind(&mut self, of: &'static Kind, may_vary: bool) -> Value {
        match of {
            Kind::Table(of) => self.table(of),
            Kind::Tagged(tagged) => self.reference(tagged.title, |builder| builder.variants(tagged, "kind")),
            Kind::List(element) => {
                json!({ "type": "array", "minItems": 1, "items": self.kind(element, may_vary) })
            }
            Kind::AnyList(element) => json!({ "type": "array", "items": self.kind(element, may_vary) }),
            Kind::OrTable(short, long) => {
                let table = self.table(long);
                let mut forms = self.kind(short, may_vary);
                if let Some(forms) = forms.get_mut("anyOf").and_then(Value::as_array_mut) {
                    forms.push(table);
                    return json!({ "anyOf": forms });
                }
                json!({ "anyOf": [forms, table] })
            }
            Kind::Transport => self.reference(TRANSPORT.title, Builder::transport),
            simple if may_vary && simple.is_numeric() => self.or_random(simple_kind(simple)),
            simple => simple_kind(simple),
        }
    }

    /// A number or a quantity, or a random variable in its place.
    fn or_random(&mut self, mut simple: Value) -> Value {
        if !self.has_random {
            return simple;
        }
        let random = self.random();
        if let Some(forms) = simple.get_mut("anyOf").and_then(Value::as_array_mut) {
            forms.push(random);
            return simple;
        }
        json!({ "anyOf": [simple, random] })
    }

    fn random(&mut self) -> Value {
        self.reference(RANDOM.title, |builder| builder.variants(&RANDOM, TAG))
    }

    fn parameter(&mut self, param: &Param) -> Value {
        let described = parameter(param);
        if param.switch || !param.choices.is_empty() || !self.has_random {
            return described;
        }
        let mut property = self.or_random(json!({
            "type": "number", "minimum": described["minimum"], "maximum": described["maximum"],
        }));
        property["description"] = described["description"].clone();
        property["default"] = described["default"].clone();
        property
    }

    fn variants(&mut self, tagged: &'static Tagged, tag: &str) -> Value {
        let bare: Vec<&str> =
            tagged.variants.iter().filter(|variant| variant.bare).map(|variant| variant.name).collect();
        let mut forms = if bare.is_empty() { Vec::new() } else { vec![json!({ "enum": bare })] };
        for variant in tagged.variants {
            let mut kind = Map::new();
            kind.insert(tag.to_owned(), json!({ "const": variant.name }));
            forms.push(self.object(variant.table, kind, &[tag]));
        }
        json!({ "title": tagged.title, "description": tagged.doc, "anyOf": forms })
    }

    /// A name, or for each controller a table with its presets and parameters.
    fn transport(&mut self) -> Value {
        let kernel = json!({
            "type": "string",
            "pattern": "^kernel:[A-Za-z0-9_+-]{1,15}$",
            "description": "sockets of the kernel with this congestion control, for `lasthop emulate` alone.",
        });
        let mut forms = vec![json!({ "enum": names() }), kernel];
        for name in ControllerConfig::NAMES {
            let Some(controller) = ControllerConfig::by_name(name) else { continue };
            let mut params = Map::new();
            for param in controller.params() {
                params.insert(param.name.to_owned(), self.parameter(&param));
            }
            let mut form = self.object(&TRANSPORT, params, &[]);
            form["title"] = json!(format!("TCP with {name}"));
            form["description"] = json!(controller.summary());
            let presets: Vec<&str> = TcpConfig::PRESETS
                .iter()
                .filter(|preset| preset.controller == *name)
                .map(|preset| preset.name)
                .collect();
            form["properties"]["preset"]["enum"] = json!(presets);
            form["properties"]["cc"]["enum"] = json!([name]);
            form["oneOf"] = json!([
                { "required": ["preset"], "properties": { "recovery": false } },
                { "required": ["cc"] },
            ]);
            forms.push(form);
        }
        for name in rate::names() {
            let Some(protocol) = Protocol::by_name(name) else { continue };
            let params = protocol
                .params()
                .iter()
                .map(|param| (param.name.to_owned(), self.parameter(param)))
                .collect();
            let mut form = self.object(&RATE, params, &[rate::KEY]);
            form["title"] = json!(name);
            form["description"] = json!(protocol.summary());
            form["properties"][rate::KEY]["enum"] = json!([name]);
            forms.push(form);
        }
        for one in stack::STACKS {
            let mut form = self.object(&STACK, Map::new(), &[stack::KEY]);
            form["title"] = json!(one.name);
            form["description"] = json!(one.summary);
            form["properties"][stack::KEY]["enum"] = json!([one.name]);
            let ours = one.takes_ours().then(|| form.clone());
            form["properties"][stack::CONGESTION]["enum"] = json!(one.congestion);
            let of_ours = if ours.is_some() { format!("|{}.+", stack::OURS) } else { String::new() };
            let names = one.congestion.join("|") + &of_ours;
            forms.push(json!({
                "type": "string",
                "pattern": format!("^{}(:({names}))?{}$", one.name, one.ending()),
                "description": format!("{}, for builds that have it.", one.summary),
            }));
            forms.push(form);
            let Some(mut ours) = ours else { continue };
            ours["title"] = json!(format!("{} with a controller of ours", one.name));
            ours["properties"][stack::CONGESTION]["pattern"] = json!(format!("^{}", stack::OURS));
            ours["required"] = json!([stack::KEY, stack::CONGESTION]);
            ours["additionalProperties"] = json!({ "type": ["number", "boolean", "string", "object"] });
            forms.push(ours);
        }
        json!({ "title": TRANSPORT.title, "description": TRANSPORT.doc, "anyOf": forms })
    }
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

/// A value that is no table.
fn simple_kind(of: &'static Kind) -> Value {
    match of {
        Kind::Text => json!({ "type": "string", "minLength": 1, "maxLength": 100 }),
        Kind::Moment => json!({
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?$",
            "examples": ["2024-03-04T09:30"],
        }),
        Kind::File => json!({ "type": "string", "minLength": 1, "maxLength": 4096 }),
        Kind::Switch => json!({ "type": "boolean" }),
        Kind::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        // Not a word of JSON Schema: those who read it for people show it, others pass over it.
        Kind::Measured { min, max, unit } => {
            json!({ "type": "number", "minimum": min, "maximum": max, "unit": unit })
        }
        Kind::Value => json!({ "anyOf": [{ "type": "number" }, quantity(&ALL, &[])] }),
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
        Kind::Table(_)
        | Kind::Tagged(_)
        | Kind::List(_)
        | Kind::AnyList(_)
        | Kind::OrTable(..)
        | Kind::Transport => {
            unreachable!("made of other values: see Builder::kind")
        }
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

fn parameter(param: &Param) -> Value {
    if param.switch {
        return json!({ "type": "boolean", "description": param.help, "default": param.default != 0.0 });
    }
    if let Some(default) = param.choices.get(param.default as usize) {
        return json!({ "enum": param.choices, "description": param.help, "default": default });
    }
    json!({
        "type": "number",
        "description": param.help,
        "default": param.default,
        "minimum": param.min,
        "maximum": param.max,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Definitions are found by their titles.
    #[test]
    fn titles_are_unique() {
        fn visit(table: &'static Table, seen: &mut BTreeMap<&str, *const Table>) {
            let address = std::ptr::from_ref(table);
            assert_eq!(
                *seen.entry(table.title).or_insert(address),
                address,
                "two tables are {}",
                table.title
            );
            for key in table.keys() {
                for table in key.kind.tables() {
                    visit(table, seen);
                }
            }
        }
        visit(&ROOT, &mut BTreeMap::new());
    }
}
