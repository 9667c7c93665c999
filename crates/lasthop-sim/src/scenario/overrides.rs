//! Overrides from the command line and from studies: `flows.0.transport=vegas`.
//!
//! They change the tree before it is checked, so a wrong value is found like any other and named as an
//! override.

use super::diagnostic::{Place, ScenarioError, Source, listed, nearest, quoted};
use super::renamed::Names;
use super::value::{Entry, Map, Node, Value, toml_fragment};

/// Deepest path; the format itself has no key below the fifth level.
const DEEPEST: usize = 12;

/// Applies all overrides of `source` to `root`, in order.
pub(super) fn apply(root: &mut Node, source: &Source<'_>, names: &mut Names) -> Result<(), ScenarioError> {
    for (number, (path, text)) in source.overrides.iter().enumerate() {
        let place = Place::Override(number);
        let keys: Vec<&str> = path.split('.').map(str::trim).collect();
        if keys.len() > DEEPEST || keys.iter().any(|key| key.is_empty()) {
            let message = format!("{} is not a path of keys", quoted(path));
            return Err(source.error(&place, message, "write keys and dots, such as flows.0.transport"));
        }
        // What is no TOML value is taken as text: `vegas` and `5 Mbit/s` need no quotes.
        let mut value = toml_fragment(text, &place)
            .unwrap_or_else(|| Node::new(Value::Text(text.trim().to_owned()), place.clone()));
        names.renew(&mut value, source)?;
        let target = find(root, &keys, &place, (source, names))?;
        *target = value;
    }
    Ok(())
}

/// The node at `keys`; tables on the way are made where they are missing.
fn find<'n>(
    root: &'n mut Node,
    keys: &[&str],
    place: &Place,
    (source, names): (&Source<'_>, &mut Names),
) -> Result<&'n mut Node, ScenarioError> {
    let mut node = root;
    for (depth, key) in keys.iter().enumerate() {
        let so_far = keys[..depth].join(".");
        expand_short_form(node, &so_far);
        node = match &mut node.value {
            Value::Map(map) => child(map, names.of(key), place),
            Value::List(list) => {
                let index = key.parse().ok().filter(|&index: &usize| index < list.len());
                let index = index.or_else(|| only_named(list, key));
                match index {
                    Some(index) => &mut list[index],
                    None => return Err(no_element(source, place, &so_far, key, list)),
                }
            }
            value => {
                let message = format!("{so_far} is {}, not a table", value.describe());
                return Err(source.error(place, message, &format!("override {so_far} as a whole")));
            }
        };
    }
    Ok(node)
}

/// What an element of a list is called: by its `name`, a link without one by its ends, a cell, a user, a host or a
/// station by its node.
fn name_of(element: &Node) -> Option<String> {
    let Value::Map(map) = &element.value else { return None };
    let text = |key: &str| {
        let entry = map.entries.iter().find(|entry| entry.key == key)?;
        if let Value::Text(text) = &entry.node.value { Some(text.clone()) } else { None }
    };
    let ends = || Some(format!("{}-{}", text("from")?, text("to")?));
    let nodes = || ["node", "base", "access_point", "host"].into_iter().find_map(text);
    text("name").or_else(ends).or_else(nodes)
}

/// The place of the element of this name, if there is one and no more.
fn only_named(list: &[Node], name: &str) -> Option<usize> {
    let mut named = (0..list.len()).filter(|&index| name_of(&list[index]).is_some_and(|one| one == name));
    named.next().filter(|_| named.next().is_none())
}

fn no_element(source: &Source<'_>, place: &Place, list: &str, key: &str, elements: &[Node]) -> ScenarioError {
    let names: Vec<String> = elements.iter().filter_map(name_of).collect();
    if names.iter().filter(|name| *name == key).count() > 1 {
        let message = format!("{list} has several elements {}", quoted(key));
        return source.error(place, message, &format!("write its number, such as {list}.0"));
    }
    let numbers = match elements.len() {
        0 => format!("{list} is empty"),
        1 => format!("its only element is {list}.0"),
        more => format!("its elements are {list}.0 to {list}.{}", more - 1),
    };
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let near = nearest(key, &known).map_or_else(String::new, |name| format!("did you mean {list}.{name}? "));
    let names = if known.is_empty() { String::new() } else { format!(", or by name: {}", listed(&known)) };
    let remedy = format!("{near}{numbers}{names}");
    source.error(place, format!("{list} has no element {}", quoted(key)), &remedy)
}

fn child<'n>(map: &'n mut Map, key: &str, place: &Place) -> &'n mut Node {
    let index = map.entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
        let node = Node::new(Value::Map(Map::default()), place.clone());
        map.entries.push(Entry { key: key.to_owned(), key_place: place.clone(), node });
        map.entries.len() - 1
    });
    &mut map.entries[index].node
}

/// `transport = "vegas"` is short for `{ preset = "vegas" }`, and `traffic = "ftp"` for `{ kind = "ftp" }`:
/// so that `flows.0.transport.alpha=2` works on both.
fn expand_short_form(node: &mut Node, path: &str) {
    let key = match path.rsplit('.').next() {
        Some("transport") => "preset",
        Some("traffic" | "queue" | "error") => "kind",
        _ => return,
    };
    if !matches!(node.value, Value::Text(_)) {
        return;
    }
    let inner = node.clone();
    let entry = Entry { key: key.to_owned(), key_place: node.place.clone(), node: inner };
    node.value = Value::Map(Map { entries: vec![entry] });
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Format, Scenario};

    const PATH: &str = r#"
duration = "1 s"
[topology]
kind = "graph"
nodes = ["a", "b", "c"]
[[topology.links]]
from = "a"
to = "b"
rate = "1 Mbit/s"
delay = "1 ms"
[[topology.links]]
name = "radio"
from = "b"
to = "c"
rate = "2 Mbit/s"
delay = "1 ms"
[[flows]]
name = "call"
source = "a"
sink = "c"
transport = "reno"
[[flows]]
name = "back"
source = "c"
sink = "a"
transport = "reno"
"#;

    fn with(key: &str, value: &str) -> Result<Scenario, String> {
        read(PATH, key, value)
    }

    fn read(text: &str, key: &str, value: &str) -> Result<Scenario, String> {
        let overrides = [(key.to_owned(), value.to_owned())];
        Scenario::parse(text, Format::Toml, "test", &overrides).map_err(|error| error.to_string())
    }

    /// A link without a name of its own goes by its ends, as in the tables.
    #[test]
    fn elements_go_by_their_names() {
        let rates = |key: &str| {
            let scenario = with(key, "5 Mbit/s").unwrap();
            [0, 1].map(|link: usize| scenario.plan().links[link].forward.rate.0 / 1_000_000)
        };
        assert_eq!(rates("topology.links.radio.rate"), [1, 5]);
        assert_eq!(rates("topology.links.a-b.rate"), [5, 2]);
        assert_eq!(rates("topology.links.1.rate"), [1, 5]);
    }

    #[test]
    fn a_name_that_is_none_or_of_several_is_refused() {
        let said = with("topology.links.radi.rate", "5 Mbit/s").unwrap_err();
        assert!(said.contains("topology.links has no element \"radi\""), "{said}");
        let remedy = "did you mean topology.links.radio? its elements are topology.links.0 to topology.links.1, \
                      or by name: a-b, radio";
        assert!(said.contains(remedy), "{said}");
        let alike = PATH.replace("\"back\"", "\"call\"");
        let said = read(&alike, "flows.call.transport", "vegas").unwrap_err();
        assert!(said.contains("flows has several elements \"call\""), "{said}");
    }
}
