//! Dates as numbers, all of their text at a time: a date is a field of nearly every row that is loaded.

/// `date_in` for `yyyy-mm-dd`, which every DateStyle reads the same: days since 2000-01-01, PostgreSQL's zero.
#[inline]
pub fn date(text: &[u8]) -> Option<i32> {
    let (year_and_month, day) = text.split_first_chunk()?;
    let [century, years, month] = year_and_month_of(*year_and_month)?;
    let day = u32::from(two_digits(day.try_into().ok()?)?);
    let is_leap = (if years == 0 { century } else { years }) % 4 == 0;
    let month = MONTHS[usize::from(is_leap)][usize::from(month.min(NO_MONTH))];
    if day.wrapping_sub(1) >= month.days || (century | years) == 0 {
        return None;
    }
    Some(days_before_year(century, years) + (month.days_before + day) as i32 - 1 - DAYS_BEFORE_2000)
}

/// `yyyy-mm-`: century, year of it, month; the month may be up to 99.
#[inline(always)]
fn year_and_month_of(text: [u8; 8]) -> Option<[u8; 3]> {
    /// What each byte is with a value of zero.
    const SHAPE: u64 = u64::from_le_bytes(*b"0000-00-");
    /// Added to a byte's value it reaches the high bit if the value is too high: above 9 in digits, above 0 in hyphens.
    const TO_HIGH_BIT: u64 = u64::from_le_bytes([0x76, 0x76, 0x76, 0x76, 0x7F, 0x76, 0x76, 0x7F]);
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let values = u64::from_le_bytes(text) ^ SHAPE;
    if (values | values.wrapping_add(TO_HIGH_BIT)) & HIGH != 0 {
        return None;
    }
    // Each byte ten times and the one behind it: at most 99, so none runs over.
    let pairs = (values * 10 + (values >> 8)).to_le_bytes();
    Some([pairs[0], pairs[2], pairs[5]])
}

/// A number of two decimal digits.
#[inline(always)]
pub(super) fn two_digits([tens, ones]: [u8; 2]) -> Option<u8> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens <= 9 && ones <= 9).then(|| tens * 10 + ones)
}

#[derive(Clone, Copy)]
struct Month {
    days: u32,
    /// In the year before it.
    days_before: u32,
}

/// The number of something without days; so is zero.
const NO_MONTH: u8 = 13;

/// Months of years without and with a leap day, by number.
const MONTHS: [[Month; 14]; 2] = [months(28), months(29)];

const fn months(february: u32) -> [Month; 14] {
    let lengths = [0, 31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0];
    let mut months = [Month { days: 0, days_before: 0 }; 14];
    let (mut number, mut days_before) = (0, 0);
    while number < months.len() {
        months[number] = Month { days: lengths[number], days_before };
        days_before += lengths[number];
        number += 1;
    }
    months
}

const DAYS_BEFORE_2000: i32 = days_before_year(20, 0);

/// Days from 0000-01-01 to the year's first, in the proleptic Gregorian calendar.
#[inline(always)]
const fn days_before_year(century: u8, years: u8) -> i32 {
    let year = century as i32 * 100 + years as i32;
    let centuries_begun = century as i32 + (years > 0) as i32;
    year * 365 + (year + 3) / 4 - centuries_begun + (centuries_begun + 3) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every day there is, one after the other.
    #[test]
    fn days_follow_each_other() {
        let mut days = date(b"0001-01-01").expect("a date");
        let mut dates = 0;
        for year in 1..=9999 {
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let february = if is_leap { 29 } else { 28 };
            let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in (1..).zip(lengths) {
                for day in 0..=99 {
                    let text = format!("{year:04}-{month:02}-{day:02}");
                    let is_date = (1..=length).contains(&day);
                    assert_eq!(date(text.as_bytes()), is_date.then_some(days), "{text}");
                    days += i32::from(is_date);
                    dates += i32::from(is_date);
                }
            }
        }
        assert_eq!((dates, date(b"2000-01-01"), date(b"1970-01-01")), (3_652_059, Some(0), Some(-10_957)));
    }

    #[test]
    fn nothing_else_is_a_date() {
        for text in [
            "0000-01-01",
            "2024-00-10",
            "2024-13-10",
            "2024-16-01",
            "2024-17-01",
            "2024-99-01",
            "24-01-01",
            "2024-1-010",
            "",
        ] {
            assert_eq!(date(text.as_bytes()), None, "{text}");
        }
        for place in 0..10 {
            for byte in 0..=255 {
                let mut text = *b"2024-10-21";
                text[place] = byte;
                let is_date = match (place, byte) {
                    (4 | 7, _) => byte == b'-',
                    (5, _) => byte == b'1',
                    (6, _) => matches!(byte, b'0'..=b'2'),
                    (8, _) => matches!(byte, b'0'..=b'3'),
                    _ => byte.is_ascii_digit(),
                };
                assert_eq!(date(&text).is_some(), is_date, "{text:?}");
            }
        }
    }
}
