//! Reads a timestamp: ISO 8601 with the suffixes of RFC 9557, RFC 2822, and Unix time.

use jiff::civil::{DateTime, Time};
use jiff::fmt::rfc2822;
use jiff::fmt::temporal::{Pieces, TimeZoneAnnotationKind};
use jiff::tz::{Offset, TimeZone};
use jiff::Timestamp;
use kit::{input, Failure};

use crate::date::date;
use crate::unix::{is_date_like, unix};
use crate::zone;

/// The instants of a timestamp: two if it is a local time that occurs twice.
pub struct Reading {
    pub instants: Vec<Timestamp>,
    /// The zone in the timestamp's brackets.
    pub zone: Option<TimeZone>,
}

/// Reads a timestamp. A date without a time is its midnight; a time without an offset is in `default`, or UTC.
pub fn read(text: &str, field: &str, default: Option<&TimeZone>) -> Result<Reading, Failure> {
    let at = |instant| Reading { instants: vec![instant], zone: None };
    let found = match (unix(text), canonical(text)) {
        (Some(instant), _) => instant.map(at),
        (None, Some(iso)) => return iso_8601(&iso, default).map_err(|detail| detail.unwrap_or_else(|| invalid(text, field))),
        (None, None) => rfc_2822(text).map(at),
    };
    found.ok_or_else(|| invalid(text, field))
}

fn invalid(text: &str, field: &str) -> Failure {
    let wanted = "an ISO 8601 timestamp such as 2024-06-19T15:22:45Z, an RFC 2822 date, or Unix seconds";
    let hint = if is_date_like(text) { format!("; write Unix seconds of this length as {text}.0") } else { String::new() };
    input("invalid-timestamp", format!("{field} must be {wanted}, not {text:?}{hint}"))
}

fn rfc_2822(text: &str) -> Option<Timestamp> {
    let read = rfc2822::DateTimeParser::new().parse_zoned(without_comments(text)?.as_str()).ok()?;
    zone::is_valid(read.offset()).then(|| read.timestamp())
}

/// Removes comments, folds and the spaces around colons, which RFC 5322 allows in old dates.
fn without_comments(text: &str) -> Option<String> {
    let (mut kept, mut depth, mut escaped) = (String::new(), 0_usize, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if depth > 0 => escaped = true,
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ if depth == 0 => kept.push(c),
            _ => {}
        }
    }
    let words: Vec<&str> = kept.split_whitespace().collect();
    (depth == 0).then(|| words.join(" ").replace(" :", ":").replace(": ", ":"))
}

/// Rewrites ISO 8601 with a calendar date and an hour below 24, or returns None if the text does not begin with a date.
fn canonical(text: &str) -> Option<String> {
    let (day, rest) = text.split_at(text.find(['T', 't', ' ', '[']).unwrap_or(text.len()));
    let day = date(day)?;
    let Some(rest) = rest.strip_prefix(['T', 't', ' ']) else {
        return Some(format!("{day}{rest}"));
    };
    let (clock, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && !":.,".contains(c)).unwrap_or(rest.len()));
    let rest = rest.trim_start();
    let suffix = rest.strip_prefix("UTC").or_else(|| rest.strip_prefix("GMT")).map(|after| format!("Z{after}"));
    let is_end_of_day = clock.strip_prefix("24").is_some_and(|after| after.bytes().all(|c| b"0:.,".contains(&c)));
    let (day, hour) = if is_end_of_day { (day.tomorrow().ok()?, "00") } else { (day, clock.get(..2)?) };
    Some(format!("{day}T{hour}{}{}", &clock[2..], suffix.as_deref().unwrap_or(rest)))
}

/// Fails with None if the text is not ISO 8601.
fn iso_8601(text: &str, default: Option<&TimeZone>) -> Result<Reading, Option<Failure>> {
    let pieces = Pieces::parse(text).map_err(|_| None)?;
    let zone = match pieces.time_zone_annotation().map(|named| named.kind()) {
        Some(TimeZoneAnnotationKind::Named(name)) => Some(zone::find(name.as_str())?),
        Some(TimeZoneAnnotationKind::Offset(offset)) => Some(TimeZone::fixed(*offset)),
        _ => None,
    };
    let valid = |offset: Option<Offset>| offset.map_or(true, zone::is_valid);
    if !valid(pieces.to_numeric_offset()) || !valid(zone.as_ref().and_then(|zone| zone.to_fixed_offset().ok())) {
        return Err(None);
    }
    let local = DateTime::from_parts(pieces.date(), pieces.time().unwrap_or(Time::midnight()));
    let instants = match pieces.offset() {
        Some(_) if pieces.time().is_none() => return Err(None),
        Some(offset) => vec![zone::instant(offset, zone.as_ref(), local)?],
        None => zone::instants(zone.as_ref().or(default).unwrap_or(&TimeZone::UTC), local)?,
    };
    Ok(Reading { instants, zone })
}
