//! `json`: parse, query, stringify and validate, without losing a digit or the order of keys.

use kit::{input, Failure, Pure};
use serde::Deserialize;
use serde_json::{json, Value};
use serde_json_path::JsonPath;

mod patterns;

struct Json;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Parse,
    Query,
    Stringify,
    Validate,
}

#[derive(Deserialize)]
struct Params {
    operation: Operation,
    data: Value,
    path: Option<String>,
}

impl Pure for Json {
    const NAME: &'static str = "json";
    const DESCRIPTION: &'static str = "Works on JSON. 'parse' reads JSON text; 'query' answers the array of values that \
        an RFC 9535 JSONPath finds; 'stringify' writes a value as text; 'validate' tells whether a text is JSON. \
        Except for 'stringify', a string in 'data' is read as JSON text.";
    const SCHEMA: &'static str = include_str!("schema.json");
    type Params = Params;

    fn run(Params { operation, data, path }: Params) -> Result<Value, Failure> {
        match operation {
            Operation::Parse => document(data),
            Operation::Query => query(&document(data)?, path.as_deref()),
            Operation::Stringify => Ok(Value::String(data.to_string())),
            Operation::Validate => Ok(validate(&data)),
        }
    }
}

/// Models hand over text where a value is meant, so text is read; what is a value already stays.
fn document(data: Value) -> Result<Value, Failure> {
    match data {
        Value::String(text) => {
            serde_json::from_str(&text).map_err(|error| input("invalid-json", format!("data is not JSON: {error}")))
        }
        value => Ok(value),
    }
}

fn query(document: &Value, path: Option<&str>) -> Result<Value, Failure> {
    let path = path.ok_or_else(|| input("missing-param", "path is required for 'query', for example $.items[0].name"))?;
    if patterns::unsupported(path) {
        return Err(input("invalid-path", format!("path {path:?}: patterns may not use Unicode classes such as \\p{{L}}")));
    }
    let parsed = JsonPath::parse(path).map_err(|error| input("invalid-path", format!("path {path:?}: {error}")))?;
    Ok(parsed.query(document).all().into_iter().cloned().collect())
}

fn validate(data: &Value) -> Value {
    match data.as_str().map(serde_json::from_str::<Value>) {
        Some(Err(error)) => json!({ "valid": false, "error": error.to_string() }),
        _ => json!({ "valid": true }),
    }
}

kit::provide!(Json);
