//! Keys of ORDER BY as bytes that compare as the values do: one comparison of slices tells which of two rows comes first,
//! whatever the number of keys, their types and directions.
//!
//! ```text
//! a key:  0 or 2 for NULL, before or behind all values │ 1, then the value; DESC turns all bits of the value over
//! integer  8 bytes, the sign turned over
//! float    8 bytes: the sign turned over, of negative ones all bits; one NaN, above all; one zero
//! numeric  the sort of number, then of finite ones the weight and every digit + 1, then 0; of negative ones all bits turned over
//! bytes    0 as 0 255, then 0 0 at the end, so that no value is the beginning of another
//! ```

use pgerror::{PgError, Result};
use planner::{KeyForm, MergeKey};

/// Appends one key. `value` is what [`MergeKey::bytes_sql`] gave, `None` for NULL.
pub(crate) fn push(key: &MergeKey, value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<()> {
    let Some(value) = value else {
        out.push(if key.nulls_first { 0 } else { 2 });
        return Ok(());
    };
    out.push(1);
    let start = out.len();
    match key.form {
        KeyForm::Integer => out.extend_from_slice(&integer(value)?),
        KeyForm::Float => out.extend_from_slice(&float(value)?),
        KeyForm::Numeric => numeric(value, out)?,
        KeyForm::Bytes => bytes(value, out),
    }
    if key.descending {
        turn_over(&mut out[start..]);
    }
    Ok(())
}

fn turn_over(bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
}

fn unknown_width(what: &str, width: usize) -> PgError {
    PgError::protocol(format!("a sort key that is {what} of {width} bytes"))
}

fn integer(value: &[u8]) -> Result<[u8; 8]> {
    let wide = match *value {
        [a] => i64::from(a.cast_signed()),
        [a, b] => i64::from(i16::from_be_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => i64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => return Err(unknown_width("an integer", value.len())),
    };
    Ok((wide.cast_unsigned() ^ 1 << 63).to_be_bytes())
}

fn float(value: &[u8]) -> Result<[u8; 8]> {
    let wide = match *value {
        [a, b, c, d] => f64::from(f32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => f64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => return Err(unknown_width("a float", value.len())),
    };
    if wide.is_nan() {
        return Ok([0xff; 8]);
    }
    // -0 + 0 is 0.
    let bits = (wide + 0.0).to_bits();
    Ok(if wide < 0.0 { !bits } else { bits ^ 1 << 63 }.to_be_bytes())
}

fn bytes(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(at) = rest.iter().position(|byte| *byte == 0) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[0, 0xff]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[0, 0]);
}

/// From `numeric_send`: number of digits, weight of the first (in powers of 10000), sign, scale; then the digits, 2 bytes each.
fn numeric(value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    const NEGATIVE: u16 = 0x4000;
    const NAN: u16 = 0xc000;
    const INFINITY: u16 = 0xd000;
    const MINUS_INFINITY: u16 = 0xf000;
    let damaged = || PgError::protocol("a sort key that is no numeric");
    let [_, _, weight_high, weight_low, sign_high, sign_low, _, _, digits @ ..] = value else { return Err(damaged()) };
    let weight = i16::from_be_bytes([*weight_high, *weight_low]);
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(damaged());
    }
    let digit = |pair: &[u8; 2]| u16::from_be_bytes(*pair);
    let leading = pairs.iter().take_while(|pair| digit(pair) == 0).count();
    let trailing = pairs[leading..].iter().rev().take_while(|pair| digit(pair) == 0).count();
    let digits = &pairs[leading..pairs.len() - trailing];
    match u16::from_be_bytes([*sign_high, *sign_low]) {
        MINUS_INFINITY => out.push(0),
        INFINITY => out.push(4),
        NAN => out.push(5),
        0 | NEGATIVE if digits.is_empty() => out.push(2),
        sign @ (0 | NEGATIVE) => {
            out.push(if sign == 0 { 3 } else { 1 });
            let start = out.len();
            let weight = i32::from(weight) - leading as i32;
            out.extend_from_slice(&(weight.cast_unsigned() ^ 1 << 31).to_be_bytes());
            digits.iter().for_each(|pair| out.extend_from_slice(&digit(pair).saturating_add(1).to_be_bytes()));
            out.extend_from_slice(&[0, 0]);
            if sign == NEGATIVE {
                turn_over(&mut out[start..]);
            }
        }
        _ => return Err(damaged()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(form: KeyForm, descending: bool, nulls_first: bool) -> MergeKey {
        MergeKey { bytes_sql: String::new(), form, descending, nulls_first }
    }

    fn pushed(key: &MergeKey, value: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        push(key, value, &mut out).unwrap();
        // What follows must not matter: the next key of another row may begin with anything.
        out.push(0x80);
        out
    }

    /// Each value is above the one before it, and the other way round in descending order; NULL is where it should be.
    fn assert_ascending(form: KeyForm, values: &[Vec<u8>]) {
        for pair in values.windows(2) {
            let [less, more] = pair else { continue };
            for (descending, nulls_first) in [(false, false), (true, false), (false, true), (true, true)] {
                let key = key(form, descending, nulls_first);
                let (less, more) = (pushed(&key, Some(less)), pushed(&key, Some(more)));
                assert_eq!(less < more, !descending, "{pair:?} of {key:?}");
                assert_eq!(pushed(&key, None) < less, nulls_first);
                assert_eq!(pushed(&key, None) < more, nulls_first);
            }
        }
    }

    #[test]
    fn integers_of_any_width_compare_as_numbers() {
        let values = [i64::MIN, -70_000, -300, -1, 0, 1, 255, 256, 70_000, i64::MAX];
        assert_ascending(KeyForm::Integer, &values.map(|value| value.to_be_bytes().to_vec()));
        assert_ascending(KeyForm::Integer, &[vec![0xff], vec![0, 0], vec![0, 0, 0, 1], vec![2]]);
    }

    #[test]
    fn floats_have_nan_above_all_and_one_zero() {
        let values = [f64::NEG_INFINITY, -1e300, -1.5, -5e-324, 0.0, 5e-324, 1.5, f64::INFINITY, f64::NAN];
        assert_ascending(KeyForm::Float, &values.map(|value| value.to_be_bytes().to_vec()));
        assert_eq!(float(&(-0.0f64).to_be_bytes()).unwrap(), float(&0.0f32.to_be_bytes()).unwrap());
        assert_eq!(float(&(-f64::NAN).to_be_bytes()).unwrap(), float(&f64::NAN.to_be_bytes()).unwrap());
    }

    #[test]
    fn bytes_end_before_they_go_on() {
        let values: [&[u8]; 8] = [b"", b"\0", b"\0\0", b"\0\x01", b"\x01", b"a", b"a\0", b"ab"];
        assert_ascending(KeyForm::Bytes, &values.map(<[u8]>::to_vec));
    }

    #[test]
    fn numerics_compare_by_sign_weight_and_digits() {
        let numeric = |sign: u16, weight: i16, digits: &[u16]| {
            let head = [digits.len() as u16, weight.cast_unsigned(), sign, 0];
            head.iter().chain(digits).flat_map(|part| part.to_be_bytes()).collect::<Vec<u8>>()
        };
        let values = [
            numeric(0xf000, 0, &[]),
            numeric(0x4000, 1, &[1]),
            numeric(0x4000, 0, &[12, 5000]),
            numeric(0x4000, 0, &[12]),
            numeric(0x4000, -1, &[1]),
            numeric(0, 0, &[]),
            numeric(0, -1, &[1]),
            numeric(0, 0, &[12]),
            numeric(0, 0, &[12, 1]),
            numeric(0, 0, &[12, 5000]),
            numeric(0, 0, &[9999]),
            numeric(0, 1, &[1]),
            numeric(0xd000, 0, &[]),
            numeric(0xc000, 0, &[]),
        ];
        assert_ascending(KeyForm::Numeric, &values);
        let of = |value: Vec<u8>| pushed(&key(KeyForm::Numeric, false, false), Some(&value));
        assert_eq!(of(numeric(0, 1, &[0, 12, 0])), of(numeric(0, 0, &[12])));
    }
}
