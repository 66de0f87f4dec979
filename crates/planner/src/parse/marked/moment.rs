//! Dates and times among the constants of a statement, and marks for them ([`Marked`](super::Marked)).
//!
//! Only those are marked that every setting reads alike, with year, month and day in this order, and that PostgreSQL takes: its
//! calendar is looked at here. What type they get is found out by the analysis: a text, a `date`, a `timestamp` or, in UTC, which has
//! no summer time, a `timestamptz`.

/// How all marks begin: a year of which no statement speaks.
pub(crate) const COMMON: &str = "2986-0";
/// In a constant of type `bytea`, as PostgreSQL prints it.
pub(super) const COMMON_IN_HEX: &str = "323938362d30";
/// All that is left of a mark in a constant of type `"char"`.
pub(super) const FIRST: &str = "2";

/// What PostgreSQL prints behind the date of a mark as a `timestamp`, and as a `timestamptz` of UTC.
const MIDNIGHT: &str = " 00:00:00";
const OF_UTC: &str = "+00";

/// The years that are marked.
const YEARS: std::ops::RangeInclusive<u32> = 1000..=9999;

/// The mark with this number, below 128.
pub(crate) fn mark(nth: u32) -> String {
    format!("2986-{:02}-{:02}", 1 + nth / 28, 1 + nth % 28)
}

/// The date in what may be a printed mark; what is behind the time, if there is a time.
pub(super) fn printed(text: &str, in_utc: bool) -> Option<(&str, Option<&str>)> {
    if !text.starts_with(COMMON) {
        return None;
    }
    let (date, rest) = text.split_at_checked(10)?;
    match rest.strip_prefix(MIDNIGHT) {
        None => rest.is_empty().then_some((date, None)),
        Some("") => Some((date, Some(""))),
        Some(OF_UTC) if in_utc => Some((date, Some(OF_UTC))),
        Some(_) => None,
    }
}

/// `2024-02-29`, `2024-02-29 10:00`, `2024-02-29T10:00:00.5`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Moment {
    text: String,
    /// As a `timestamp` is printed.
    time: String,
}

impl Moment {
    pub(super) fn of(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        if !is_date(date) {
            return None;
        }
        let clock = match rest.strip_prefix([' ', 'T']) {
            Some(clock) => clock_of(clock)?,
            None if rest.is_empty() => "00:00:00".to_owned(),
            None => return None,
        };
        Some(Self { text: text.to_owned(), time: format!("{date} {clock}") })
    }

    /// As it is written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// As a `date` is printed.
    pub(super) fn date(&self) -> &str {
        &self.text[..10]
    }

    /// As a `timestamp` is printed.
    pub(super) fn time(&self) -> &str {
        &self.time
    }
}

fn digits(text: &str, count: usize) -> Option<u32> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn is_date(date: &str) -> bool {
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    YEARS.contains(&year) && (1..=days).contains(&day)
}

/// `10:00`, `10:00:00`, `10:00:00.5`, as PostgreSQL prints them.
fn clock_of(text: &str) -> Option<String> {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let parts: Vec<&str> = whole.split(':').collect();
    let (hour, minute, second) = match parts.as_slice() {
        [hour, minute] if fraction.is_none() => (hour, minute, &"00"),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let is_time = digits(hour, 2)? < 24 && digits(minute, 2)? < 60 && digits(second, 2)? < 60;
    let fraction = match fraction {
        None => "",
        Some(fraction) => {
            digits(fraction, fraction.len()).filter(|_| (1..=6).contains(&fraction.len()))?;
            fraction.trim_end_matches('0')
        }
    };
    let dot = if fraction.is_empty() { "" } else { "." };
    is_time.then(|| format!("{hour}:{minute}:{second}{dot}{fraction}"))
}
