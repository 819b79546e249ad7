//! Reads timestamps, one on each line, with UTC or the zone after " @ " for local times, and writes the instants that
//! chrono and chrono-tz read.

use std::io::{self, BufRead};

use chrono::{DateTime, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, SecondsFormat, TimeZone, Utc};
use chrono_tz::Tz;

const TIMES: [&str; 10] = [
    "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y%m%dT%H%M%S%.f",
    "%Y%m%dT%H%M", "%G-W%V-%uT%H:%M:%S%.f", "%GW%V%uT%H%M%S", "%Y-%jT%H:%M:%S%.f", "%Y%jT%H%M%S",
];
const DATES: [&str; 6] = ["%Y-%m-%d", "%Y%m%d", "%G-W%V-%u", "%GW%V%u", "%Y-%j", "%Y%j"];
const OFFSETS: [&str; 4] = ["%Y-%m-%dT%H:%M%:z", "%Y-%m-%d %H:%M:%S%.f%:z", "%Y%m%dT%H%M%S%.f%#z", "%G-W%V-%uT%H:%M:%S%:z"];

fn main() {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let (text, zone) = line.split_once(" @ ").unwrap_or((&line, "UTC"));
        println!("{}", instants(text, zone).unwrap_or_else(|| "refused".into()));
    }
}

fn instants(text: &str, zone: &str) -> Option<String> {
    let with_offset = DateTime::parse_from_rfc3339(text).or_else(|_| DateTime::parse_from_rfc2822(text)).ok();
    if let Some(at) = with_offset.or_else(|| OFFSETS.iter().find_map(|f| DateTime::parse_from_str(text, f).ok())) {
        return Some(written(&at));
    }
    let zone: Tz = zone.parse().ok()?;
    let dates = || DATES.iter().find_map(|f| NaiveDate::parse_from_str(text, f).ok());
    let local = TIMES.iter().find_map(|f| NaiveDateTime::parse_from_str(text, f).ok());
    match zone.from_local_datetime(&local.or_else(|| Some(dates()?.and_time(NaiveTime::MIN)))?) {
        MappedLocalTime::Single(at) => Some(written(&at)),
        MappedLocalTime::Ambiguous(a, b) => Some(format!("{} and {}", written(&a), written(&b))),
        MappedLocalTime::None => None,
    }
}

fn written<Z: TimeZone>(at: &DateTime<Z>) -> String {
    let text = at.with_timezone(&Utc).to_rfc3339_opts(SecondsFormat::Nanos, true);
    let (seconds, fraction) = text.trim_end_matches('Z').split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { format!("{seconds}Z") } else { format!("{seconds}.{fraction}Z") }
}
