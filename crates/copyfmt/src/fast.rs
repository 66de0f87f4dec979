//! The fast lane: one pass over a row that splits and converts together.
//!
//! It knows the plain shape of a row only: fields without escapes, quotes (CSV) around a whole field, perhaps doubled in a text, spellings
//! of the conversion table, the newline that the first line had. At anything else it gives the row up (`None`), nothing has
//! happened, and the slow lane, which knows every rule, reads the row again. So the fast lane holds no rule of its own:
//! what it accepts is a subset.
//!
//! The tuple is written into a buffer of fixed length, in blocks of fixed size of which the last bytes may not count: nothing
//! grows, and where the next field goes stays in a register.

use placement::parse;

use crate::CopyOptions;
use crate::convert::{Codec, Outcome, ShortDecimal};
use crate::options::{Format, Header};
use crate::place::Span;
use crate::scan::Eol;
use crate::stops::{BLOCK, marks};

/// Bytes that must be readable behind the start of each field; less than that is left to the slow lane.
const MARGIN: usize = BLOCK;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// A column as the fast lane needs it.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) codec: Codec,
    /// The part of the distribution key that this column is.
    pub(crate) key: Option<usize>,
    pub(crate) force_null: bool,
    pub(crate) force_not_null: bool,
}

/// Options and columns as the fast lane needs them.
#[derive(Clone)]
pub(crate) struct FastLane {
    columns: Vec<Shape>,
    csv: bool,
    delimiter: u8,
    quote: u8,
    escape: u8,
    null: Vec<u8>,
    timezone_is_utc: bool,
}

impl FastLane {
    /// `None` if the options are out of the ordinary.
    pub(crate) fn new(options: &CopyOptions, columns: Vec<Shape>, timezone_is_utc: bool) -> Option<Self> {
        let csv = options.format == Format::Csv;
        let ordinary =
            |byte: u8| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'+' | b'.' | b'\\' | b'\n' | b'\r');
        if options.format == Format::Binary || !ordinary(options.delimiter) || (csv && !ordinary(options.quote)) {
            return None;
        }
        Some(FastLane {
            columns,
            csv,
            delimiter: options.delimiter,
            quote: options.quote,
            escape: options.escape,
            null: options.null.as_bytes().to_vec(),
            timezone_is_utc,
        })
    }

    /// Does the fast lane know this end-of-line style?
    pub(crate) fn knows(&self, eol: Eol, header: Header, line: u64) -> bool {
        matches!(eol, Eol::Lf | Eol::CrLf) && (header == Header::No || line > 0)
    }

    /// Bytes that the input must have behind its last row, so that this row is not left to the slow lane.
    pub(crate) fn margin(&self) -> usize {
        MARGIN + self.null.len()
    }

    /// Converts the row at `start` into a tuple; gives where the next row starts, and the tuple's length.
    #[inline]
    pub(crate) fn row(
        &self,
        input: &[u8],
        start: usize,
        crlf: bool,
        tuple: &mut Tuple,
        spans: &mut [Span],
    ) -> Option<(usize, usize)> {
        let mut at = start;
        if *input.get(at)? == b'\\' && self.csv {
            return None;
        }
        let mut to = put(&mut tuple.bytes, 0, (self.columns.len() as u16).to_be_bytes())?;
        for (index, column) in self.columns.iter().enumerate() {
            let field = to;
            (at, to) = self.field(input, at, column, tuple, to)?;
            if let Some(part) = column.key {
                let is_null = to == field + 4 && tuple.bytes[field] == 0xFF;
                spans[part] = if is_null { None } else { Some((field + 4, to)) };
            }
            let byte = *input.get(at)?;
            if index + 1 < self.columns.len() {
                if byte != self.delimiter {
                    return None;
                }
                at += 1;
            } else if crlf {
                if byte != b'\r' || *input.get(at + 1)? != b'\n' {
                    return None;
                }
                at += 2;
            } else {
                if byte != b'\n' {
                    return None;
                }
                at += 1;
            }
        }
        Some((at, to))
    }

    /// Converts one field; gives where it ends, in the input and in the tuple.
    #[inline(always)]
    fn field(&self, input: &[u8], at: usize, column: &Shape, tuple: &mut Tuple, to: usize) -> Option<(usize, usize)> {
        if at + self.margin() > input.len() {
            return None;
        }
        let after_null = at + self.null.len();
        if self.ends(input[after_null]) && input[at..after_null] == self.null[..] {
            if column.force_not_null {
                return None;
            }
            return Some((after_null, put(&mut tuple.bytes, to, [0xFF; 4])?));
        }
        match column.codec {
            Codec::Int8 => {
                let (value, end) = integer(input, at)?;
                Some((end, sized(&mut tuple.bytes, to, value.to_be_bytes())?))
            }
            Codec::Int4 => {
                let (value, end) = integer(input, at)?;
                Some((end, sized(&mut tuple.bytes, to, i32::try_from(value).ok()?.to_be_bytes())?))
            }
            Codec::Date => {
                let days = parse::date(&input[at..at + 10])?;
                Some((at + 10, sized(&mut tuple.bytes, to, days.to_be_bytes())?))
            }
            Codec::Numeric(modifier) => match decimal(input, at) {
                Some((decimal, end)) => {
                    let (block, length) = decimal.encode(modifier)?;
                    put(&mut tuple.bytes, to, block)?;
                    Some((end, to + length))
                }
                None => self.text(input, at, column, tuple, to),
            },
            _ => self.text(input, at, column, tuple, to),
        }
    }

    #[inline]
    fn ends(&self, byte: u8) -> bool {
        byte == self.delimiter || byte == b'\n' || byte == b'\r'
    }

    /// A field of any other type: find its end, then convert.
    #[inline]
    fn text(&self, input: &[u8], at: usize, column: &Shape, tuple: &mut Tuple, to: usize) -> Option<(usize, usize)> {
        let (start, stop, end) = if self.csv && input[at] == self.quote {
            if column.force_null {
                return None;
            }
            let close = find(input, at + 1, [self.quote, self.escape])?;
            let behind = *input.get(close + 1)?;
            if input[close] == self.quote && behind == self.quote && self.escape == self.quote {
                return self.unquote(input, at + 1, column.codec, &mut tuple.bytes, to);
            }
            // An escape or a quoted newline makes it the slow lane's.
            if input[close] != self.quote || !self.ends(behind) {
                return None;
            }
            (at + 1, close, close + 1)
        } else {
            let stop = if self.csv { self.quote } else { b'\\' };
            let end = find(input, at, [self.delimiter, stop])?;
            if !self.ends(input[end]) {
                return None;
            }
            (at, end, end)
        };
        let to = match column.codec {
            Codec::Text => text(&mut tuple.bytes, to, input, start, stop)?,
            Codec::Bpchar(limit) | Codec::Varchar(limit) if limit.fits(stop - start) => {
                text(&mut tuple.bytes, to, input, start, stop)?
            }
            codec => tuple.encode(to, codec, &input[start..stop], self.timezone_is_utc)?,
        };
        Some((end, to))
    }

    /// A text in quotes, of which some are doubled, from behind the first.
    fn unquote(
        &self,
        input: &[u8],
        mut from: usize,
        codec: Codec,
        tuple: &mut [u8],
        field: usize,
    ) -> Option<(usize, usize)> {
        let prefix = codec.text_prefix()?;
        let start = field + 4;
        let mut to = start + prefix.len();
        tuple.get_mut(start..to)?.copy_from_slice(prefix);
        loop {
            let quote = find(input, from, [self.quote; 2])?;
            if input[quote] != self.quote {
                return None;
            }
            let is_doubled = *input.get(quote + 1)? == self.quote;
            to = copy(tuple, to, input, from, quote + usize::from(is_doubled))?;
            if !is_doubled {
                let fits = self.ends(input[quote + 1]) && codec.fits(to - start);
                put(tuple, field, ((to - start) as u32).to_be_bytes())?;
                return fits.then_some((quote + 1, to));
            }
            from = quote + 2;
        }
    }
}

/// Where a row becomes a tuple.
pub(crate) struct Tuple {
    bytes: Box<[u8]>,
    /// A value on its way, of the types whose conversion wants a buffer that grows.
    value: Vec<u8>,
}

impl Tuple {
    /// Longer tuples are the slow lane's.
    const BYTES_MAX: usize = 16 * 1024;

    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; Self::BYTES_MAX].into(), value: Vec::new() }
    }

    /// The tuple, of this length.
    #[inline(always)]
    pub(crate) fn get(&self, length: usize) -> &[u8] {
        &self.bytes[..length]
    }

    /// Appends the tuple, of this length. A short one is copied as a block of fixed size, which needs no call.
    #[inline(always)]
    pub(crate) fn append_to(&self, output: &mut Vec<u8>, length: usize) {
        const SHORT: usize = 128;
        match self.bytes.first_chunk::<SHORT>() {
            Some(block) if length <= SHORT => {
                let end = output.len() + length;
                output.extend_from_slice(block);
                output.truncate(end);
            }
            _ => output.extend_from_slice(self.get(length)),
        }
    }

    fn encode(&mut self, to: usize, codec: Codec, text: &[u8], timezone_is_utc: bool) -> Option<usize> {
        self.value.clear();
        if codec.encode(text, timezone_is_utc, &mut self.value) != Outcome::Done {
            return None;
        }
        let end = to + self.value.len();
        self.bytes.get_mut(to..end)?.copy_from_slice(&self.value);
        Some(end)
    }
}

/// Writes a block; gives where it ends.
#[inline(always)]
fn put<const N: usize>(tuple: &mut [u8], to: usize, block: [u8; N]) -> Option<usize> {
    *tuple.get_mut(to..)?.first_chunk_mut()? = block;
    Some(to + N)
}

/// A value with its length word; gives where it ends.
#[inline(always)]
fn sized<const N: usize>(tuple: &mut [u8], to: usize, value: [u8; N]) -> Option<usize> {
    let mut block = [0; 16];
    block[..4].copy_from_slice(&(N as u32).to_be_bytes());
    block[4..4 + N].copy_from_slice(&value);
    put(tuple, to, block)?;
    Some(to + 4 + N)
}

/// A text with its length word; gives where it ends.
#[inline(always)]
fn text(tuple: &mut [u8], to: usize, input: &[u8], start: usize, stop: usize) -> Option<usize> {
    let to = put(tuple, to, ((stop - start) as u32).to_be_bytes())?;
    copy(tuple, to, input, start, stop)
}

/// Copies a part of the input; gives where it ends. A short one is copied as a block of fixed size, which needs no call.
#[inline(always)]
fn copy(tuple: &mut [u8], to: usize, input: &[u8], start: usize, stop: usize) -> Option<usize> {
    let length = stop - start;
    match input[start..].first_chunk::<BLOCK>() {
        Some(block) if length <= BLOCK => {
            put(tuple, to, *block)?;
        }
        _ => tuple.get_mut(to..to + length)?.copy_from_slice(&input[start..stop]),
    }
    Some(to + length)
}

#[inline(always)]
fn load(input: &[u8], at: usize) -> Option<u64> {
    input.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// A decimal integer of up to 16 digits; the byte behind it is the caller's to check.
#[inline(always)]
fn integer(input: &[u8], at: usize) -> Option<(i64, usize)> {
    let negative = input[at] == b'-';
    let start = at + usize::from(negative);
    let (value, digits) = eight_digits(load(input, start)?);
    if digits == 0 {
        return None;
    }
    let (value, digits) = match digits {
        8 => {
            const POWERS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
            let (low, more) = eight_digits(load(input, start + 8)?);
            if more == 8 {
                return None;
            }
            (value * POWERS[more] + low, 8 + more)
        }
        _ => (value, digits),
    };
    let value = value as i64;
    Some((if negative { -value } else { value }, start + digits))
}

/// A decimal number of up to 7 digits before the point and behind it; the byte behind it is the caller's to check.
#[inline(always)]
fn decimal(input: &[u8], at: usize) -> Option<(ShortDecimal, usize)> {
    let negative = input[at] == b'-';
    let start = at + usize::from(negative);
    let (whole, whole_digits) = eight_digits(load(input, start)?);
    let point = start + whole_digits;
    if whole_digits == 8 || *input.get(point)? != b'.' {
        // Without a point it ends here.
        return (1..8).contains(&whole_digits).then(|| (ShortDecimal::new(negative, whole, 0, 0), point));
    }
    let (fraction, digits) = eight_digits(load(input, point + 1)?);
    let is_short = digits < 8 && whole_digits + digits > 0;
    is_short.then(|| (ShortDecimal::new(negative, whole, fraction as u32, digits), point + 1 + digits))
}

/// The decimal number at the low end of a word, and its count of digits (up to 8).
#[inline(always)]
fn eight_digits(word: u64) -> (u64, usize) {
    // A digit becomes 0 to 9, everything else has a high bit somewhere in its byte after the sum.
    let digits = word ^ 0x3030_3030_3030_3030;
    let others = (digits | digits.wrapping_add(0x7676_7676_7676_7676)) & HIGH;
    let count = (others.trailing_zeros() / 8) as usize;
    if count == 0 {
        return (0, 0);
    }
    // Zeros in front: the first digit moves up so that the last one is in the top byte.
    let aligned = digits << (64 - 8 * count);
    let pairs = (aligned & 0x0F0F_0F0F_0F0F_0F0F).wrapping_mul(10 << 8 | 1) >> 8;
    let quads = (pairs & 0x00FF_00FF_00FF_00FF).wrapping_mul(100 << 16 | 1) >> 16;
    let value = (quads & 0x0000_FFFF_0000_FFFF).wrapping_mul(10_000 << 32 | 1) >> 32;
    (value, count)
}

/// The first of these bytes, or the first carriage return or line feed, from `at` on.
#[inline(always)]
fn find(input: &[u8], mut at: usize, stops: [u8; 2]) -> Option<usize> {
    loop {
        let marks = marks(input.get(at..)?.first_chunk()?, stops);
        if marks != 0 {
            return Some(at + marks.trailing_zeros() as usize);
        }
        at += BLOCK;
    }
}
