//! RFC 9535's `match` and `search`, on a small regex engine: the full one would make the component six times as large.
//! It knows no Unicode classes (`\p{L}`), so a path that holds one is refused before it would quietly find nothing.

use serde_json::Value;
use serde_json_path::functions::{LogicalType, ValueType};

pub fn unsupported(path: &str) -> bool {
    path.contains("\\p{") || path.contains("\\P{")
}

#[serde_json_path::function(name = "match")]
fn whole(value: ValueType, pattern: ValueType) -> LogicalType {
    found(&value, &pattern, |pattern| format!("^(?:{pattern})$"))
}

#[serde_json_path::function]
fn search(value: ValueType, pattern: ValueType) -> LogicalType {
    found(&value, &pattern, str::to_owned)
}

/// What is no string, or no pattern, matches nothing: so says the RFC.
fn found(value: &ValueType, pattern: &ValueType, spell: fn(&str) -> String) -> LogicalType {
    let (Some(Value::String(text)), Some(Value::String(pattern))) = (value.as_value(), pattern.as_value()) else {
        return LogicalType::False;
    };
    match regex_lite::RegexBuilder::new(&spell(pattern)).crlf(true).build() {
        Ok(pattern) if pattern.is_match(text) => LogicalType::True,
        _ => LogicalType::False,
    }
}
