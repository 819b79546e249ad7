//! `time`: the host's clock, and arithmetic on timestamps in IANA time zones. There is no other clock in the sandbox.

use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use kit::{input, Failure, Pure};
use serde::Deserialize;
use serde_json::{json, Number, Value};

mod date;
mod read;
mod unix;
mod zone;

use read::{read, Reading};

struct Time;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Now,
    Parse,
    Format,
    Diff,
    Convert,
}

#[derive(Deserialize)]
struct Params {
    operation: Operation,
    timestamp: Option<String>,
    format: Option<String>,
    timestamp2: Option<String>,
    timezone: Option<String>,
    from_timezone: Option<String>,
    to_timezone: Option<String>,
}

impl Pure for Time {
    const NAME: &'static str = "time";
    const DESCRIPTION: &'static str = "Dates and times, in UTC and in a 'timezone'. 'now' and 'parse' answer {iso, unix, unix_millis}, \
        and {local, timezone} in a zone; 'convert' answers the same in 'to_timezone'; 'format' writes 'timestamp' with a strftime \
        'format'; 'diff' answers the seconds from 'timestamp' to 'timestamp2'. A local time that occurs twice has both answers in \
        'ambiguous'.";
    const SCHEMA: &'static str = include_str!("schema.json");
    type Params = Params;

    fn run(params: Params) -> Result<Value, Failure> {
        let zone = optional_zone(params.timezone.as_deref())?;
        let source = optional_zone(params.from_timezone.as_deref())?.or_else(|| zone.clone());
        let first = || reading(params.timestamp.as_deref(), "timestamp", source.as_ref());
        match params.operation {
            Operation::Now => Ok(each_way(now()?, zone.as_ref())),
            Operation::Parse => {
                let Reading { instants, zone: named } = first()?;
                let shown = zone.or(named).or(source);
                Ok(one_or_all(instants.into_iter().map(|at| each_way(at, shown.as_ref())).collect()))
            }
            Operation::Convert => {
                let target = zone::find(required(params.to_timezone.as_deref(), "to_timezone")?)?;
                Ok(one_or_all(first()?.instants.into_iter().map(|at| each_way(at, Some(&target))).collect()))
            }
            Operation::Format => {
                let (read, pattern) = (first()?, required(params.format.as_deref(), "format")?);
                let shown = zone.unwrap_or(TimeZone::UTC);
                let answers = read.instants.into_iter().map(|at| format(&at.to_zoned(shown.clone()), pattern));
                answers.collect::<Result<_, _>>().map(one_or_all)
            }
            Operation::Diff => {
                let (from, to) = (first()?, reading(params.timestamp2.as_deref(), "timestamp2", source.as_ref())?);
                let pairs = from.instants.iter().flat_map(|a| to.instants.iter().map(|b| difference(*a, *b)));
                Ok(one_or_all(pairs.collect()))
            }
        }
    }
}

/// Models write an empty string for a parameter that they do not use.
fn optional_zone(name: Option<&str>) -> Result<Option<TimeZone>, Failure> {
    name.filter(|name| !name.is_empty()).map(zone::find).transpose()
}

/// A local time that occurs twice has two answers, and a difference of two such times has up to four.
fn one_or_all(answers: Vec<Value>) -> Value {
    let mut answers = answers.into_iter().fold(Vec::new(), |mut unique, answer| {
        if !unique.contains(&answer) {
            unique.push(answer);
        }
        unique
    });
    if answers.len() == 1 { answers.remove(0) } else { json!({ "ambiguous": answers }) }
}

fn now() -> Result<Timestamp, Failure> {
    i64::try_from(kit::clock::now())
        .ok()
        .and_then(|millis| Timestamp::from_millisecond(millis).ok())
        .ok_or_else(|| input("clock-out-of-range", "the host's clock is outside the years this tool knows"))
}

fn each_way(at: Timestamp, zone: Option<&TimeZone>) -> Value {
    let mut answer = json!({
        "iso": at.to_string(),
        "unix": at.as_millisecond().div_euclid(1000),
        "unix_millis": at.as_nanosecond().div_euclid(1_000_000) as i64,
    });
    if let Some(zone) = zone {
        let local = at.to_zoned(zone.clone());
        answer["local"] = local.strftime("%FT%T%.f%:z").to_string().into();
        answer["timezone"] = local.strftime("%:Q").to_string().into();
    }
    answer
}

fn format(at: &Zoned, pattern: &str) -> Result<Value, Failure> {
    strtime::format(pattern, at)
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

fn reading(text: Option<&str>, field: &str, zone: Option<&TimeZone>) -> Result<Reading, Failure> {
    read(required(text, field)?.trim(), field, zone)
}

fn required<'a>(value: Option<&'a str>, field: &str) -> Result<&'a str, Failure> {
    value.ok_or_else(|| input("missing-param", format!("{field} is required for this operation")))
}

kit::provide!(Time);
