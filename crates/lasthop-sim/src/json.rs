//! JSON as text that is the same in every build.

use serde_json::Value;

/// The text of a value, with the keys of objects sorted. `serde_json` sorts them by itself, but not in a build one of
/// whose libraries asks it to keep their order, as that of qlog does.
pub fn text(mut value: Value) -> String {
    value.sort_all_objects();
    value.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn keys_are_sorted() {
        let value = json!({ "b": [{ "d": 1, "c": 2 }], "a": null });
        assert_eq!(super::text(value), r#"{"a":null,"b":[{"c":2,"d":1}]}"#);
    }
}
