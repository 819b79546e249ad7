//! Dates of ISO 8601: calendar, ordinal and week dates, basic and extended, also with reduced precision.

use jiff::civil::{Date, ISOWeekDate, Weekday};

/// Returns the date, or the first day of the year, month or week.
pub fn date(text: &str) -> Option<Date> {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let number = |from: usize, to: usize| digits[from..to].parse::<i16>().ok();
    let calendar = |month: i16, day: i16| Date::new(number(0, 4)?, month as i8, day as i8).ok();
    let week = |day: i16| {
        let weekday = Weekday::from_monday_one_offset(day as i8).ok()?;
        ISOWeekDate::new(number(0, 4)?, number(4, 6)? as i8, weekday).ok().map(Date::from)
    };
    match shape.as_str() {
        "0000" => calendar(1, 1),
        "0000-00" => calendar(number(4, 6)?, 1),
        "0000-00-00" | "00000000" => calendar(number(4, 6)?, number(6, 8)?),
        "0000-000" | "0000000" => calendar(1, 1)?.with().day_of_year(number(4, 7)?).build().ok(),
        "0000-W00" | "0000W00" => week(1),
        "0000-W00-0" | "0000W000" => week(number(6, 7)?),
        "+000000-00-00" | "-000000-00-00" => text.parse().ok(),
        _ => None,
    }
}
