//! Overrides from the command line and from studies: `flows.0.transport=vegas`.
//!
//! They change the tree before it is checked, so a wrong value is found like any other and named as an
//! override.

use super::diagnostic::{Place, ScenarioError, Source, quoted};
use super::value::{Entry, Map, Node, Value, toml_fragment};

/// Deepest path; the format itself has no key below the fifth level.
const DEEPEST: usize = 12;

/// Applies all overrides of `source` to `root`, in order.
pub(super) fn apply(root: &mut Node, source: &Source<'_>) -> Result<(), ScenarioError> {
    for (number, (path, text)) in source.overrides.iter().enumerate() {
        let place = Place::Override(number);
        let keys: Vec<&str> = path.split('.').map(str::trim).collect();
        if keys.len() > DEEPEST || keys.iter().any(|key| key.is_empty()) {
            let message = format!("{} is not a path of keys", quoted(path));
            return Err(source.error(&place, message, "write keys and dots, such as flows.0.transport"));
        }
        // What is no TOML value is taken as text: `vegas` and `5 Mbit/s` need no quotes.
        let value = toml_fragment(text, &place)
            .unwrap_or_else(|| Node::new(Value::Text(text.trim().to_owned()), place.clone()));
        let target = find(root, &keys, &place, source)?;
        *target = value;
    }
    Ok(())
}

/// The node at `keys`; tables on the way are made where they are missing.
fn find<'n>(
    root: &'n mut Node,
    keys: &[&str],
    place: &Place,
    source: &Source<'_>,
) -> Result<&'n mut Node, ScenarioError> {
    let mut node = root;
    for (depth, key) in keys.iter().enumerate() {
        let so_far = keys[..depth].join(".");
        expand_short_form(node, &so_far);
        node = match &mut node.value {
            Value::Map(map) => child(map, key, place),
            Value::List(list) => {
                let elements = list.len();
                let index: Option<usize> = key.parse().ok();
                index
                    .and_then(|index| list.get_mut(index))
                    .ok_or_else(|| no_element(source, place, &so_far, key, elements))?
            }
            value => {
                let message = format!("{so_far} is {}, not a table", value.describe());
                return Err(source.error(place, message, &format!("override {so_far} as a whole")));
            }
        };
    }
    Ok(node)
}

fn no_element(source: &Source<'_>, place: &Place, list: &str, key: &str, elements: usize) -> ScenarioError {
    let remedy = match elements {
        0 => format!("{list} is empty"),
        1 => format!("its only element is {list}.0"),
        _ => format!("its elements are {list}.0 to {list}.{}", elements - 1),
    };
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
