//! One value in COPY's text format.

use std::io::Write;

use crate::schema::Unit;

const SECONDS_A_DAY: i64 = 86_400;

/// Text, with what means something to COPY escaped.
pub(crate) fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => out.push(*other),
        }
    }
}

/// What `bytea` reads as hexadecimal digits.
pub(crate) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"\\\\x");
    hexadecimal(out, bytes);
}

pub(crate) fn hexadecimal(out: &mut Vec<u8>, bytes: &[u8]) {
    let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
    for byte in bytes {
        out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
}

/// Writing to a Vec cannot fail.
pub(crate) fn display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    let _ = write!(out, "{value}");
}

/// `shortest` is Rust's shortest text of it that gives the same value again.
pub(crate) fn float(out: &mut Vec<u8>, value: f64, shortest: impl std::fmt::Debug) {
    match value {
        _ if value.is_nan() => out.extend_from_slice(b"NaN"),
        f64::INFINITY => out.extend_from_slice(b"Infinity"),
        f64::NEG_INFINITY => out.extend_from_slice(b"-Infinity"),
        _ => {
            let _ = write!(out, "{shortest:?}");
        }
    }
}

/// A float of 16 bits: a sign, 5 bits of exponent, 10 of the fraction.
pub(crate) fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1F), f32::from(bits & 0x3FF) / 1024.0);
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-14),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction) * 2f32.powi(exponent - 15),
    };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

pub(crate) fn decimal(out: &mut Vec<u8>, unscaled: i128, scale: usize) {
    if unscaled < 0 {
        out.push(b'-');
    }
    let power = 10u128.pow(scale as u32);
    let magnitude = unscaled.unsigned_abs();
    display(out, magnitude / power);
    if scale > 0 {
        let _ = write!(out, ".{:0scale$}", magnitude % power);
    }
}

/// Two's complement with the highest byte first. `None`: it does not fit into 128 bits.
pub(crate) fn big_endian(bytes: &[u8]) -> Option<i128> {
    let sign = if bytes.first().is_some_and(|byte| *byte >= 0x80) { 0xFF } else { 0 };
    let kept = bytes.len().min(16);
    let (extra, low) = bytes.split_at(bytes.len() - kept);
    let mut wide = [sign; 16];
    wide[16 - kept..].copy_from_slice(low);
    let value = i128::from_be_bytes(wide);
    let fits = extra.iter().all(|byte| *byte == sign) && (value < 0) == (sign == 0xFF);
    fits.then_some(value)
}

/// Year, month and day; the year as astronomers count, with a year 0.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years that begin in March, in cycles of 400 years from 0000-03-01 on.
    let days = days + 719_468;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + next, month, day)
}

/// The date without its era; is it before Christ?
fn date_in_era(out: &mut Vec<u8>, days: i64) -> bool {
    let (year, month, day) = civil(days);
    let (shown, is_bc) = if year > 0 { (year, false) } else { (1 - year, true) };
    let _ = write!(out, "{shown:04}-{month:02}-{day:02}");
    is_bc
}

pub(crate) fn date(out: &mut Vec<u8>, days: i64) {
    if date_in_era(out, days) {
        out.extend_from_slice(b" BC");
    }
}

/// `value` in units since midnight.
pub(crate) fn time(out: &mut Vec<u8>, value: i64, unit: Unit) {
    let (seconds, rest) = (value.div_euclid(unit.per_second()), value.rem_euclid(unit.per_second()));
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if rest != 0 {
        let _ = write!(out, ".{rest:0digits$}", digits = unit.digits());
    }
}

/// `value` in units since 1970.
pub(crate) fn timestamp(out: &mut Vec<u8>, value: i64, unit: Unit, is_utc: bool) {
    let per_day = SECONDS_A_DAY * unit.per_second();
    instant(out, value.div_euclid(per_day), value.rem_euclid(per_day), unit, is_utc);
}

/// A day since 1970 and units since its midnight.
pub(crate) fn instant(out: &mut Vec<u8>, day: i64, of_day: i64, unit: Unit, is_utc: bool) {
    let is_bc = date_in_era(out, day);
    out.push(b' ');
    time(out, of_day, unit);
    if is_utc {
        out.extend_from_slice(b"+00");
    }
    if is_bc {
        out.extend_from_slice(b" BC");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_and_times() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (19_782, "2024-02-29"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
            (2_932_897, "10000-01-01"),
            (-719_162, "0001-01-01"),
            (-719_163, "0001-12-31 BC"),
        ] {
            assert_eq!(shown(|out| date(out, days)), expected);
        }
        let micros = |value, is_utc| shown(|out| timestamp(out, value, Unit::Micro, is_utc));
        assert_eq!(micros(-1, true), "1969-12-31 23:59:59.999999+00");
        assert_eq!(micros(1_500_000, false), "1970-01-01 00:00:01.500000");
        assert_eq!(micros(-62_135_596_800_000_001, false), "0001-12-31 23:59:59.999999 BC");
        assert_eq!(shown(|out| time(out, 86_399_999, Unit::Milli)), "23:59:59.999");
    }

    #[test]
    fn decimals() {
        assert_eq!(shown(|out| decimal(out, -5, 2)), "-0.05");
        assert_eq!(shown(|out| decimal(out, 12_345, 0)), "12345");
        assert_eq!(shown(|out| decimal(out, i128::MIN, 38)), "-1.70141183460469231731687303715884105728");
        assert_eq!(big_endian(&[0xFF, 0x38]), Some(-200));
        assert_eq!(big_endian(&[]), Some(0));
        assert_eq!(big_endian(&[[0].as_slice(), &[0xFF; 16]].concat()), None);
        assert_eq!(big_endian(&[[0xFF].as_slice(), &[0xFF; 16]].concat()), Some(-1));
    }

    #[test]
    fn half_floats() {
        for (bits, value) in
            [(0x3C00, 1.0), (0xC000, -2.0), (0x7BFF, 65_504.0), (0x0001, 5.960_464_5e-8), (0x8000, -0.0)]
        {
            assert_eq!(half(bits).to_bits(), f32::to_bits(value), "{bits:#x}");
        }
        assert_eq!(half(0xFC00), f32::NEG_INFINITY);
        assert!(half(0x7C01).is_nan());
    }

    #[test]
    fn what_copy_would_take_for_something_else_is_escaped() {
        assert_eq!(shown(|out| text(out, b"\\N\t\n\r\\.")), "\\\\N\\t\\n\\r\\\\.");
        assert_eq!(shown(|out| bytes(out, &[0, 0xAB])), "\\\\x00ab");
        assert_eq!(shown(|out| float(out, f64::from(0.1f32), 0.1f32)), "0.1");
        assert_eq!(shown(|out| float(out, 1e300, 1e300)), "1e300");
    }
}
