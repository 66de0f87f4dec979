//! Text spellings whose value depends on no setting of the session, read without asking PostgreSQL.
//!
//! Every function returns `None` for "ask PostgreSQL": the text may be wrong, or right in a spelling we leave to it.
//! A `Some` is exactly what the type's input function gives, with no type modifier applied.

mod date;
mod interval;

pub use date::date;
use date::two_digits;
pub use interval::interval;

/// `USECS_PER_DAY` of PostgreSQL's `datatype/timestamp.h`.
pub const USECS_PER_DAY: i64 = 86_400_000_000;
const USECS_PER_SEC: i64 = 1_000_000;

/// Signed decimal integer, with the blanks around it that PostgreSQL's `pg_strtoint64` allows.
#[inline]
pub fn int8(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 19 {
        return int8_with_blanks(text);
    }
    let mut value: u64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return int8_with_blanks(text);
        }
        value = value * 10 + u64::from(digit);
    }
    match negative {
        false => i64::try_from(value).ok(),
        true => 0i64.checked_sub_unsigned(value),
    }
}

#[cold]
fn int8_with_blanks(text: &[u8]) -> Option<i64> {
    let trimmed = trim(text);
    if trimmed.len() == text.len() { None } else { int8(trimmed) }
}

/// `int4in`.
#[inline]
pub fn int4(text: &[u8]) -> Option<i32> {
    int8(text)?.try_into().ok()
}

/// `int2in`.
#[inline]
pub fn int2(text: &[u8]) -> Option<i16> {
    int8(text)?.try_into().ok()
}

/// `oidin`, unsigned spellings only.
pub fn oid(text: &[u8]) -> Option<u32> {
    text.first()?.is_ascii_digit().then(|| int8(text))??.try_into().ok()
}

/// `boolin`: the whole words and their usual one-letter forms.
pub fn boolean(text: &[u8]) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
    if is(&["t", "f"]) {
        return Some(text[0].eq_ignore_ascii_case(&b't'));
    }
    if is(&["1", "true", "y", "yes", "on"]) {
        return Some(true);
    }
    is(&["0", "false", "n", "no", "off"]).then_some(false)
}

/// `charin` for the type `"char"`: one ASCII character, or nothing for a zero byte.
pub fn char(text: &[u8]) -> Option<u8> {
    match text {
        [] => Some(0),
        [byte] if byte.is_ascii() => Some(*byte),
        _ => None,
    }
}

/// `float8in`: a finite decimal number in range, `NaN` or `[-]Infinity`.
pub fn float8(text: &[u8]) -> Option<f64> {
    if let Some(special) = special_float(text) {
        return Some(special);
    }
    let value: f64 = plain_float(text)?.parse().ok()?;
    // Overflow and underflow are errors in PostgreSQL; a zero may be the underflow of something small.
    (value.is_normal() || is_written_zero(text)).then_some(value)
}

/// `float4in`; see [`float8`].
pub fn float4(text: &[u8]) -> Option<f32> {
    if let Some(special) = special_float(text) {
        return Some(special as f32);
    }
    let value: f32 = plain_float(text)?.parse().ok()?;
    (value.is_normal() || is_written_zero(text)).then_some(value)
}

fn special_float(text: &[u8]) -> Option<f64> {
    match text {
        b"NaN" => Some(f64::NAN),
        b"Infinity" => Some(f64::INFINITY),
        b"-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Lets only decimal digits, one point, one exponent and signs through to Rust's (correctly rounding) parser.
fn plain_float(text: &[u8]) -> Option<&str> {
    let plain = text.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E'));
    if plain { std::str::from_utf8(text).ok() } else { None }
}

fn is_written_zero(text: &[u8]) -> bool {
    text.iter().take_while(|b| !matches!(b, b'e' | b'E')).all(|b| matches!(b, b'0' | b'.' | b'-' | b'+'))
}

#[inline]
fn two(tens: u8, ones: u8) -> Option<u32> {
    two_digits([tens, ones]).map(u32::from)
}

/// `time_in` for `hh:mm[:ss[.ffffff]]`: microseconds since midnight.
pub fn time(text: &[u8]) -> Option<i64> {
    let (hour, minute) = (two(*text.first()?, *text.get(1)?)?, two(*text.get(3)?, *text.get(4)?)?);
    if text[2] != b':' || hour > 23 || minute > 59 {
        return None;
    }
    let minutes = i64::from(hour * 60 + minute);
    let (second, fraction) = match &text[5..] {
        [] => (0, 0),
        [b':', tens, ones] => (two(*tens, *ones)?, 0),
        [b':', tens, ones, b'.', fraction @ ..] => (two(*tens, *ones)?, microseconds(fraction)?),
        _ => return None,
    };
    (second <= 59).then_some((minutes * 60 + i64::from(second)) * USECS_PER_SEC + fraction)
}

fn microseconds(fraction: &[u8]) -> Option<i64> {
    if fraction.is_empty() || fraction.len() > 6 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some((0..6).fold(0, |sum, i| sum * 10 + i64::from(fraction.get(i).map_or(0, |b| b - b'0'))))
}

/// `timestamp_in` for `yyyy-mm-dd[(' '|'T')hh:mm[:ss[.ffffff]]]`: microseconds since 2000-01-01.
pub fn timestamp(text: &[u8]) -> Option<i64> {
    let (day, rest) = text.split_at_checked(10)?;
    let midnight = i64::from(date(day)?) * USECS_PER_DAY;
    match rest {
        [] => Some(midnight),
        [b' ' | b'T', clock @ ..] => Some(midnight + time(clock)?),
        _ => None,
    }
}

/// `timestamptz_in` for a [`timestamp`] with a clock time and a numeric offset `±hh[[:]mm]`: microseconds since
/// 2000-01-01 UTC. Without an offset the value depends on the session's TimeZone.
pub fn timestamptz(text: &[u8]) -> Option<i64> {
    let sign_at = 13 + text.get(13..)?.iter().position(|b| matches!(b, b'+' | b'-'))?;
    let (local, zone) = text.split_at(sign_at);
    let (hours, minutes) = match zone[1..] {
        [h1, h2] => (two(h1, h2)?, 0),
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => (two(h1, h2)?, two(m1, m2)?),
        _ => return None,
    };
    if hours > 14 || minutes > 59 {
        return None;
    }
    let offset = i64::from(hours * 60 + minutes) * 60 * USECS_PER_SEC;
    timestamp(local).map(|local| if zone[0] == b'-' { local + offset } else { local - offset })
}

/// `uuid_in` for 32 hexadecimal digits with or without the usual four hyphens.
pub fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    let mut plain = [0; 32];
    let digits: &[u8; 32] = match text.len() {
        32 => text.try_into().ok()?,
        36 if [8, 13, 18, 23].iter().all(|at| text[*at] == b'-') => {
            for (to, from) in [(0..8, 0..8), (8..12, 9..13), (12..16, 14..18), (16..20, 19..23), (20..32, 24..36)] {
                plain[to].copy_from_slice(&text[from]);
            }
            &plain
        }
        _ => return None,
    };
    let mut value = [0; 16];
    for (byte, pair) in value.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex(pair[0])? << 4 | hex(pair[1])?;
    }
    Some(value)
}

/// The value of a hexadecimal digit.
#[inline]
pub fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|d| d as u8)
}

/// The bytes of `byteain`'s hex form `\x…` (no blanks between the digits); `None` once a pair is not hexadecimal.
pub fn bytea(text: &[u8]) -> Option<impl Iterator<Item = Option<u8>>> {
    let digits = text.strip_prefix(b"\\x")?;
    (digits.len() % 2 == 0).then(|| digits.chunks_exact(2).map(|pair| Some(hex(pair[0])? << 4 | hex(pair[1])?)))
}

/// A plain decimal as `numeric_in` keeps it; the digits go into the caller's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decimal {
    /// Never set for zero.
    pub negative: bool,
    /// Power of 10000 of the first digit.
    pub weight: i16,
    /// Digits written after the point.
    pub display_scale: u16,
    /// Digits written before the point, leading zeros not counted.
    pub integer_digits: u32,
}

/// `numeric_in` for `[sign]digits[.digits]`: fills `digits` with base-10000 digits (no zeros at either end).
pub fn numeric(text: &[u8], digits: &mut Vec<i16>) -> Option<Decimal> {
    /// Longer numbers are rare and PostgreSQL has limits of its own; it also bounds the buffer.
    const CHARACTERS_MAX: usize = 2000;
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if unsigned.len() > CHARACTERS_MAX {
        return None;
    }
    let point = unsigned.iter().position(|b| *b == b'.').unwrap_or(unsigned.len());
    let (whole, fraction) = (&unsigned[..point], unsigned.get(point + 1..).unwrap_or_default());
    if (whole.is_empty() && fraction.is_empty()) || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    let whole = &whole[whole.iter().take_while(|b| **b == b'0').count()..];
    digits.clear();
    let group = |characters: &[u8]| characters.iter().fold(0i16, |sum, b| sum * 10 + i16::from(b - b'0'));
    let (first, groups) = whole.split_at(whole.len() % 4);
    if !first.is_empty() {
        digits.push(group(first));
    }
    digits.extend(groups.chunks_exact(4).map(group));
    let mut weight = digits.len() as i16 - 1;
    for part in fraction.chunks(4) {
        digits.push(group(part) * [1, 1000, 100, 10, 1][part.len()]);
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let leading = digits.iter().take_while(|d| **d == 0).count();
    digits.drain(..leading);
    weight = if digits.is_empty() { 0 } else { weight - leading as i16 };
    Some(Decimal {
        negative: negative && !digits.is_empty(),
        weight,
        display_scale: fraction.len() as u16,
        integer_digits: whole.len() as u32,
    })
}

/// Without the blanks that PostgreSQL's `isspace` knows in the C locale.
pub fn trim(text: &[u8]) -> &[u8] {
    let blank = |b: &u8| matches!(b, b' ' | 9..=13);
    let start = text.iter().position(|b| !blank(b)).unwrap_or(text.len());
    let end = text.iter().rposition(|b| !blank(b)).map_or(start, |last| last + 1);
    &text[start..end]
}
