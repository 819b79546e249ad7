//! `time`: the host's clock, and arithmetic on timestamps. There is no other clock in the sandbox.

use jiff::civil::{Date, DateTime};
use jiff::fmt::strtime;
use jiff::tz::{Offset, TimeZone};
use jiff::Timestamp;
use kit::{input, Failure, Pure};
use serde::Deserialize;
use serde_json::{json, Number, Value};

struct Time;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Now,
    Parse,
    Format,
    Diff,
}

#[derive(Deserialize)]
struct Params {
    operation: Operation,
    timestamp: Option<String>,
    format: Option<String>,
    timestamp2: Option<String>,
}

impl Pure for Time {
    const NAME: &'static str = "time";
    const DESCRIPTION: &'static str = "Dates and times in UTC. 'now' and 'parse' answer {iso, unix, unix_millis}; \
        'format' writes 'timestamp' with a strftime 'format'; 'diff' answers the seconds from 'timestamp' to 'timestamp2'.";
    const SCHEMA: &'static str = include_str!("schema.json");
    type Params = Params;

    fn run(params: Params) -> Result<Value, Failure> {
        let first = || instant(params.timestamp.as_deref(), "timestamp");
        match params.operation {
            Operation::Now => now().map(three_ways),
            Operation::Parse => first().map(three_ways),
            Operation::Format => format(first()?, required(params.format.as_deref(), "format")?),
            Operation::Diff => Ok(difference(first()?, instant(params.timestamp2.as_deref(), "timestamp2")?)),
        }
    }
}

fn now() -> Result<Timestamp, Failure> {
    i64::try_from(kit::clock::now())
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .ok_or_else(|| input("clock-out-of-range", "the host's clock is outside the years this tool knows"))
}

fn three_ways(at: Timestamp) -> Value {
    json!({
        "iso": at.to_string(),
        "unix": at.as_millisecond().div_euclid(1000),
        "unix_millis": at.as_nanosecond().div_euclid(1_000_000) as i64,
    })
}

fn format(at: Timestamp, pattern: &str) -> Result<Value, Failure> {
    strtime::format(pattern, &at.to_zoned(TimeZone::UTC))
        .map(|text| json!({ "formatted": text }))
        .map_err(|error| input("invalid-format", format!("format {pattern:?}: {error}")))
}

/// Whole seconds as an integer, a fraction as a decimal: 1.5 s is 1.5.
fn difference(from: Timestamp, to: Timestamp) -> Value {
    let nanoseconds = to.as_nanosecond() - from.as_nanosecond();
    let seconds = match nanoseconds % 1_000_000_000 {
        0 => Some(Number::from((nanoseconds / 1_000_000_000) as i64)),
        _ => Number::from_f64(nanoseconds as f64 / 1e9),
    };
    json!({ "seconds": seconds })
}

fn instant(text: Option<&str>, field: &str) -> Result<Timestamp, Failure> {
    let text = required(text, field)?.trim();
    parse(text).ok_or_else(|| {
        let wanted = "an ISO 8601 timestamp such as 2024-06-19T15:22:45Z, or Unix seconds";
        input("invalid-timestamp", format!("{field} must be {wanted}, not {text:?}"))
    })
}

fn required<'a>(value: Option<&'a str>, field: &str) -> Result<&'a str, Failure> {
    value.ok_or_else(|| input("missing-param", format!("{field} is required for this operation")))
}

/// A date without a time is its midnight, a time without an offset is UTC.
fn parse(text: &str) -> Option<Timestamp> {
    if let Some(instant) = unix(text) {
        return instant;
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant);
    }
    let local = text.parse::<DateTime>().ok().or_else(|| text.parse::<Date>().ok().map(|day| day.at(0, 0, 0, 0)))?;
    Offset::UTC.to_timestamp(local).ok()
}

/// `Some` when the text is a number at all: a number out of range is not tried as a date.
fn unix(text: &str) -> Option<Option<Timestamp>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let numeric = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !numeric(whole) || !numeric(fraction) {
        return None;
    }
    let nanoseconds = format!("{:0<9.9}", fraction).parse::<i128>().ok();
    let total = whole.parse::<i64>().ok().zip(nanoseconds).map(|(s, n)| i128::from(s) * 1_000_000_000 + n);
    let signed = total.map(|total| if text.starts_with('-') { -total } else { total });
    Some(signed.and_then(|total| Timestamp::from_nanosecond(total).ok()))
}

kit::provide!(Time);
