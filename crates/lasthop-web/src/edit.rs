//! Changes single values in the text of a scenario and leaves everything else as its author wrote it, comments and
//! order included. Called when a control of the page is moved.

use toml_edit::{DocumentMut, InlineTable, Item, Table, Value};

/// Sets the value at `path`, keys and numbers of list elements separated by dots as in `--set`, to `value`, written as
/// TOML; what is no TOML is taken as text. Tables that are missing on the way are made.
pub fn set(text: &str, path: &str, value: &str) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let value = value.parse::<Value>().unwrap_or_else(|_| Value::from(value));
    let keys: Vec<&str> = path.split('.').collect();
    let Some((last, way)) = keys.split_last() else { return Err("no key is named".to_owned()) };
    let mut place = document.as_item_mut();
    for key in way {
        place = descend(place, key)?;
    }
    put(place, last, value)?;
    Ok(document.to_string())
}

/// Takes the key at `path` out of the text, if it is there.
pub fn remove(text: &str, path: &str) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let keys: Vec<&str> = path.split('.').collect();
    let Some((last, way)) = keys.split_last() else { return Err("no key is named".to_owned()) };
    let mut place = document.as_item_mut();
    for key in way {
        place = descend(place, key)?;
    }
    match (last.parse::<usize>(), place) {
        (Ok(number), Item::ArrayOfTables(tables)) if number < tables.len() => {
            tables.remove(number);
        }
        (_, place) => {
            if let Some(table) = place.as_table_like_mut() {
                table.remove(last);
            }
        }
    }
    Ok(document.to_string())
}

fn descend<'d>(place: &'d mut Item, key: &str) -> Result<&'d mut Item, String> {
    if let Ok(number) = key.parse::<usize>() {
        return place.get_mut(number).ok_or_else(|| format!("there is no element {number}"));
    }
    let inline = place.is_inline_table();
    let Some(table) = place.as_table_like_mut() else { return Err(format!("{key} is not in a table")) };
    if table.get(key).is_none() {
        let made = if inline { Item::Value(InlineTable::new().into()) } else { Item::Table(Table::new()) };
        insert(place, key, made);
    }
    let Some(table) = place.as_table_like_mut() else { return Err(format!("{key} is not in a table")) };
    table.get_mut(key).ok_or_else(|| format!("there is no key {key}"))
}

/// Adds a key to a table; one within a line is spaced evenly again.
fn insert(place: &mut Item, key: &str, item: Item) {
    if let Some(table) = place.as_table_like_mut() {
        table.insert(key, item);
    }
    if let Some(table) = place.as_inline_table_mut() {
        table.fmt();
    }
}

fn put(place: &mut Item, key: &str, mut value: Value) -> Result<(), String> {
    if let Ok(number) = key.parse::<usize>() {
        let array = place.as_array_mut().filter(|array| number < array.len());
        let Some(array) = array else { return Err(format!("there is no element {number}")) };
        array.replace(number, value);
        return Ok(());
    }
    let Some(table) = place.as_table_like_mut() else { return Err(format!("{key} is not in a table")) };
    match table.get_mut(key) {
        // What stands around a value, such as a comment behind it, stays.
        Some(Item::Value(before)) => {
            *value.decor_mut() = before.decor().clone();
            *before = value;
        }
        _ => insert(place, key, Item::Value(value)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "duration = \"60 s\" # long\n\n[topology]\nbottleneck = { rate = \"1 Mbit/s\", delay = \
                        \"2 ms\" }\n\n# the flows\n[[flows]]\ntransport = \"reno\"\n";

    #[test]
    fn the_rest_of_the_text_stays() {
        let changed = set(TEXT, "duration", "\"5 s\"").unwrap();
        assert_eq!(changed, TEXT.replace("60 s", "5 s"));
        let changed = set(TEXT, "topology.bottleneck.rate", "\"9 Mbit/s\"").unwrap();
        assert_eq!(changed, TEXT.replace("1 Mbit/s", "9 Mbit/s"));
        let changed = set(TEXT, "flows.0.transport", "vegas").unwrap();
        assert_eq!(changed, TEXT.replace("reno", "vegas"));
    }

    #[test]
    fn what_is_missing_is_made() {
        let changed = set(TEXT, "flows.0.count", "3").unwrap();
        assert_eq!(changed, TEXT.replace("\"reno\"\n", "\"reno\"\ncount = 3\n"));
        let changed = set(TEXT, "topology.bottleneck.queue.kind", "pie").unwrap();
        assert!(changed.contains("delay = \"2 ms\", queue = { kind = \"pie\" } }"), "{changed}");
        let changed = set(TEXT, "channel.error.packet_error_rate", "0.01").unwrap();
        assert!(changed.contains("[channel.error]\npacket_error_rate = 0.01"), "{changed}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(set("a = [", "a", "1").is_err());
        assert!(set(TEXT, "flows.7.transport", "vegas").is_err());
        assert!(set(TEXT, "duration.rate", "1").is_err());
    }

    #[test]
    fn a_key_is_taken_out() {
        assert_eq!(remove(TEXT, "flows.0.transport").unwrap(), TEXT.replace("transport = \"reno\"\n", ""));
        assert_eq!(remove(TEXT, "no.such").unwrap(), format!("{TEXT}\n[no]\n"));
    }
}
