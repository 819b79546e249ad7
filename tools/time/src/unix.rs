//! Unix seconds and milliseconds.

use jiff::Timestamp;

const LAST_SECOND: i128 = 253_402_207_200;

/// `Some` if the text is a Unix time, and the instant unless it is out of range. Four, six, seven or eight digits are not:
/// they can be an ISO 8601 year, month or date, and a fraction (`20240619.0`) makes them Unix seconds.
pub fn unix(text: &str) -> Option<Option<Timestamp>> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let numeric = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !numeric(whole) || !numeric(fraction) || is_date_like(text) {
        return None;
    }
    let nanoseconds = format!("{fraction:0<9.9}").parse::<i128>().ok();
    let total = whole.parse::<i64>().ok().zip(nanoseconds).map(|(s, n)| i128::from(s) * 1_000_000_000 + n);
    // Seconds beyond the last year are milliseconds.
    let scaled = total.map(|total| if total > LAST_SECOND * 1_000_000_000 { total / 1000 } else { total });
    let signed = scaled.map(|total| if text.starts_with('-') { -total } else { total });
    Some(signed.and_then(|total| Timestamp::from_nanosecond(total).ok()))
}

pub fn is_date_like(text: &str) -> bool {
    matches!(text.len(), 4 | 6 | 7 | 8) && text.bytes().all(|byte| byte.is_ascii_digit())
}
