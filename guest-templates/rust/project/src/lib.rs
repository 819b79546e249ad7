//! {{name}}: returns the temperature at a place. Change `run`, its params and its schema; keep the rest.

mod crash;

use serde::Deserialize;
use serde_json::{json, Value};

wit_bindgen::generate!({ path: "wit", world: "tool" });

use exports::wasmrt::tool::provider::{Annotations, Guest, Tool};
use wasmrt::tool::types::{Failure, FailureKind};
use wasmrt::tool::{http, log, progress, workspace};

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "place": { "type": "string", "description": "A place listed in weather/places.txt" },
    "unit": { "type": "string", "enum": ["celsius", "fahrenheit"], "description": "Default: celsius" }
  },
  "required": ["place"],
  "additionalProperties": false
}"#;

#[derive(Deserialize)]
struct Params {
    place: String,
    #[serde(default)]
    unit: Unit,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Unit {
    #[default]
    Celsius,
    Fahrenheit,
}

#[derive(Deserialize)]
struct Forecast {
    current: Current,
}

#[derive(Deserialize)]
struct Current {
    temperature_2m: f64,
}

fn run(params: Params) -> Result<Value, Failure> {
    let (latitude, longitude) = coordinates(&params.place)?;
    progress::report(1, Some(2), Some("found the place"));

    let unit = match params.unit {
        Unit::Celsius => "celsius",
        Unit::Fahrenheit => "fahrenheit",
    };
    let forecast: Forecast = get(&format!(
        "https://api.open-meteo.com/v1/forecast?latitude={latitude}&longitude={longitude}\
         &current=temperature_2m&temperature_unit={unit}"
    ))?;
    progress::report(2, Some(2), None);
    Ok(json!({ "place": params.place, "temperature": forecast.current.temperature_2m, "unit": unit }))
}

/// Each line of the file is a name, a latitude and a longitude.
fn coordinates(place: &str) -> Result<(String, String), Failure> {
    // A refused or missing file is the host's failure, which `?` passes on.
    let file = workspace::read("weather/places.txt")?;
    let text = String::from_utf8_lossy(&file);
    let mut known = Vec::new();
    for line in text.lines() {
        if let [name, latitude, longitude] = line.split_whitespace().collect::<Vec<_>>()[..] {
            if name == place {
                return Ok((latitude.into(), longitude.into()));
            }
            known.push(name);
        }
    }
    let message = format!("there is no place {place:?}, only {}", known.join(", "));
    Err(failure(FailureKind::Input, "unknown-place", message))
}

fn get<T: for<'de> Deserialize<'de>>(url: &str) -> Result<T, Failure> {
    log::log(log::Level::Info, &format!("GET {url}"));
    let response = http::fetch(&http::Request {
        method: http::Method::Get,
        url: url.into(),
        headers: vec![http::Header { name: "accept".into(), value: "application/json".into() }],
        body: None,
        timeout_ms: Some(10_000),
    })?;
    if response.status != 200 {
        let message = format!("the API answered with status {}", response.status);
        return Err(failure(FailureKind::OperationFailed, "bad-status", message));
    }
    serde_json::from_slice(&response.body)
        .map_err(|error| failure(FailureKind::OperationFailed, "bad-answer", error.to_string()))
}

fn failure(kind: FailureKind, code: &str, message: String) -> Failure {
    Failure { kind, code: Some(code.into()), message }
}

struct Provider;

impl Guest for Provider {
    fn describe() -> Vec<Tool> {
        vec![Tool {
            name: "{{name}}".into(),
            description: "Tells how warm it is at a place.".into(),
            schema: SCHEMA.into(),
            annotations: Annotations { read_only: true, destructive: false, network: true },
        }]
    }

    fn call(_name: String, params: String, _context: Option<String>) -> Result<String, Failure> {
        crash::tell();
        let params = serde_json::from_str(&params)
            .map_err(|error| failure(FailureKind::Input, "invalid-params", error.to_string()))?;
        run(params).map(|answer| answer.to_string())
    }
}

export!(Provider);
