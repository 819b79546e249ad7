//! {{name}}: returns the temperature at a place. Change `forecast` and its WIT in wit/tool.wit; keep the rest.

mod crash;

use serde::Deserialize;

wit_bindgen::generate!({ path: "wit", world: "tool", generate_all });

use exports::local::tool::weather::{Guest, Report, Unit};
use wasmrt::tool::types::{Failure, FailureKind};
use wasmrt::tool::{http, log, progress, workspace};

#[derive(Deserialize)]
struct Forecast {
    current: Current,
}

#[derive(Deserialize)]
struct Current {
    temperature_2m: f64,
}

struct Tool;

impl Guest for Tool {
    fn forecast(place: String, unit: Option<Unit>) -> Result<Report, Failure> {
        crash::tell();
        let (latitude, longitude) = coordinates(&place)?;
        progress::report(1, Some(2), Some("found the place"));

        let unit = unit.unwrap_or(Unit::Celsius);
        let name = match unit {
            Unit::Celsius => "celsius",
            Unit::Fahrenheit => "fahrenheit",
        };
        let forecast: Forecast = get(&format!(
            "https://api.open-meteo.com/v1/forecast?latitude={latitude}&longitude={longitude}\
             &current=temperature_2m&temperature_unit={name}"
        ))?;
        progress::report(2, Some(2), None);
        Ok(Report { place, temperature: forecast.current.temperature_2m, unit })
    }
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

export!(Tool);
