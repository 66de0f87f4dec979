use super::USECS_PER_SEC;

/// Months, days and microseconds of an interval as PostgreSQL prints it under `IntervalStyle = iso_8601`: `P1Y2M-3DT4H5M6.5S`, `PT0S`.
/// It reads that alike under every style. Each part is an integer with its own sign, but for the seconds.
pub fn interval(text: &[u8]) -> Option<(i32, i32, i64)> {
    let (mut rest, mut units, mut in_time) = (text.strip_prefix(b"P")?, &b"YMD"[..], false);
    let (mut months, mut days, mut time) = (0i64, 0i64, 0i64);
    let mut is_empty = true;
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix(b"T").filter(|_| !in_time) {
            (rest, units, in_time, is_empty) = (behind, &b"HMS"[..], true, true);
            continue;
        }
        let end = rest.iter().position(u8::is_ascii_alphabetic)?;
        let (number, unit) = (rest.get(..end)?, *rest.get(end)?);
        // Parts come in their order, and none comes twice.
        units = units.get(units.iter().position(|known| *known == unit)? + 1..)?;
        rest = rest.get(end + 1..)?;
        match (in_time, unit) {
            (false, b'Y') => months = integer(number)?.checked_mul(12)?,
            (false, b'M') => months = months.checked_add(integer(number)?)?,
            (false, _) => days = integer(number)?,
            (true, b'H') => time = integer(number)?.checked_mul(3600 * USECS_PER_SEC)?,
            (true, b'M') => time = time.checked_add(integer(number)?.checked_mul(60 * USECS_PER_SEC)?)?,
            (true, _) => time = time.checked_add(seconds(number)?)?,
        }
        is_empty = false;
    }
    (!is_empty).then_some(())?;
    Some((months.try_into().ok()?, days.try_into().ok()?, time))
}

fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let is_number = !digits.is_empty() && digits.len() <= 10 && digits.iter().all(u8::is_ascii_digit);
    if !is_number {
        return None;
    }
    let value = digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    Some(if is_negative { -value } else { value })
}

/// Seconds of less than a minute, to the microsecond.
fn seconds(text: &[u8]) -> Option<i64> {
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (whole, fraction) = text.split_at(point);
    let is_negative = whole.starts_with(b"-");
    let whole = integer(whole).filter(|whole| whole.abs() < 60)? * USECS_PER_SEC;
    let fraction = match fraction {
        [] => 0,
        [_, digits @ ..] if !digits.is_empty() && digits.len() <= 6 && digits.iter().all(u8::is_ascii_digit) => {
            integer(digits)? * 10i64.pow(6 - u32::try_from(digits.len()).ok()?)
        }
        _ => return None,
    };
    Some(if is_negative { whole - fraction } else { whole + fraction })
}
