//! Time zones by name, and the local times that a zone skips.

use jiff::civil::DateTime;
use jiff::fmt::temporal::{DateTimeParser, PiecesOffset};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use kit::{input, Failure};

/// Finds a zone by its IANA name or a fixed offset.
///
/// Zones of POSIX are refused: UTC+2 would be two hours behind UTC, and users mean two hours ahead.
pub fn find(name: &str) -> Result<TimeZone, Failure> {
    DateTimeParser::new()
        .parse_time_zone_with(&TimeZoneDatabase::bundled(), name)
        .ok()
        .filter(|zone| !zone.is_unknown() && zone.to_fixed_offset().map_or(zone.iana_name().is_some(), is_valid))
        .ok_or_else(|| {
            let wanted = "an IANA name such as Europe/Berlin, or an offset such as +02:00";
            input("unknown-timezone", format!("unknown time zone {name:?}: expected {wanted}"))
        })
}

/// Hours of an offset end at 23 in ISO 8601 and RFC 3339.
pub fn is_valid(offset: Offset) -> bool {
    offset.seconds().abs() < 24 * 3600
}

/// Returns the instant of a local time with an offset, which has to be the zone's offset at this time. `Z` and `-00:00` name
/// an instant without its local offset (RFC 9557, section 2.2).
pub fn instant(offset: PiecesOffset, zone: Option<&TimeZone>, local: DateTime) -> Result<Timestamp, Failure> {
    let numeric = offset.to_numeric_offset();
    let at = numeric.to_timestamp(local).map_err(|_| out_of_range(local))?;
    let is_local = matches!(offset, PiecesOffset::Numeric(given) if !(numeric == Offset::UTC && given.is_negative()));
    match zone {
        Some(zone) if is_local && zone.to_offset(at) != numeric => {
            let (name, actual) = (zone.iana_name().unwrap_or("the time zone"), zone.to_offset(at));
            let message = format!("{local} has the offset {numeric}, but {name} has {actual} at this time; give one of both");
            Err(input("offset-conflict", message))
        }
        _ => Ok(at),
    }
}

fn out_of_range(local: DateTime) -> Failure {
    input("invalid-timestamp", format!("{local} is out of range: expected a time from -9999-01-02 to 9999-12-30T22:00:00Z"))
}

/// Returns the instants at which clocks of the zone show a local time: one, or two if clocks were set back over it.
pub fn instants(zone: &TimeZone, local: DateTime) -> Result<Vec<Timestamp>, Failure> {
    let offsets = match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => vec![offset],
        AmbiguousOffset::Fold { before, after } => vec![before, after],
        AmbiguousOffset::Gap { before, after } => return Err(gap(zone, local, before, after)),
    };
    let instants: Result<_, _> = offsets.into_iter().map(|offset| offset.to_timestamp(local)).collect();
    instants.map_err(|_| out_of_range(local))
}

fn gap(zone: &TimeZone, local: DateTime, before: Offset, after: Offset) -> Failure {
    let name = zone.iana_name().unwrap_or("this time zone");
    let skipped = before
        .to_timestamp(local)
        .and_then(|late| late.checked_add(SignedDuration::from_nanos(1)))
        .ok()
        .and_then(|late| zone.preceding(late).next())
        .map(|change| (before.to_datetime(change.timestamp()), after.to_datetime(change.timestamp())));
    let change = skipped.map(|(from, to)| format!(": clocks went from {from} ({before}) to {to} ({after})"));
    let message = format!("{local} does not exist in {name}{}; give an existing time, or an offset", change.unwrap_or_default());
    input("nonexistent-time", message)
}
