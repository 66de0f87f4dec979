//! The fast lane: one pass over a row that splits and converts together.
//!
//! It knows the plain shape of a row only: fields without escapes, quotes (CSV) around a whole field, perhaps doubled in a text, spellings
//! of the conversion table, the newline that the first line had. At anything else it gives the row up (`None`), nothing has
//! happened, and the slow lane, which knows every rule, reads the row again. So the fast lane holds no rule of its own:
//! what it accepts is a subset.
//!
//! The tuple is written into a buffer of fixed length, in blocks of fixed size of which the last bytes may not count: nothing
//! grows, and where the next field goes stays in a register.

use std::ops::Range;

use placement::parse;

use crate::CopyOptions;
use crate::convert::{Codec, Outcome, ShortDecimal};
use crate::options::{Format, Header};
use crate::place::Span;
use crate::scan::Eol;
use crate::stops::{BLOCK, Ends, WINDOW, find};

/// Bytes that must be readable from the start of a row's last window on; less than that is left to the slow lane.
const MARGIN: usize = WINDOW;
const ZEROS: u64 = 0x3030_3030_3030_3030;
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
    /// NULL's spelling may have a backslash, which is looked for as the start of an escape.
    null_is_plain: bool,
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
            null_is_plain: csv || !options.null.contains('\\'),
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
        let (last, others) = self.columns.split_last()?;
        let stop = if self.csv { self.quote } else { b'\\' };
        let ends = Ends::new(input, start, [self.delimiter, stop])?;
        if input[start] == b'\\' && self.csv {
            return None;
        }
        let to = put(&mut tuple.bytes, 0, (self.columns.len() as u16).to_be_bytes())?;
        let mut row = Row { input, ends, at: start, to };
        for column in others {
            row = self.field(column, self.delimiter, row, tuple, spans)?;
        }
        row = self.field(last, if crlf { b'\r' } else { b'\n' }, row, tuple, spans)?;
        if crlf {
            if *input.get(row.at)? != b'\n' {
                return None;
            }
            row.at += 1;
        }
        Some((row.at, row.to))
    }

    /// Converts one field, behind which there must be this byte.
    #[inline(always)]
    fn field<'a>(
        &self,
        column: &Shape,
        separator: u8,
        Row { input, mut ends, at, to: start }: Row<'a>,
        tuple: &mut Tuple,
        spans: &mut [Span],
    ) -> Option<Row<'a>> {
        let end = ends.next()?;
        let (end, to) = if input[end] == separator {
            (end, self.plain(input, at..end, column, tuple, start)?)
        } else {
            let (end, to) = self.marked(input, at..end, column, tuple, start)?;
            if *input.get(end)? != separator {
                return None;
            }
            ends.go_to(end)?;
            (end, to)
        };
        if let Some(part) = column.key {
            let is_null = to == start + 4 && tuple.bytes[start] == 0xFF;
            spans[part] = if is_null { None } else { Some((start + 4, to)) };
        }
        ends.pass();
        Some(Row { input, ends, at: end + 1, to })
    }

    /// Converts a field without quotes and escapes; gives where its value ends.
    #[inline(always)]
    fn plain(&self, input: &[u8], field: Range<usize>, column: &Shape, tuple: &mut Tuple, to: usize) -> Option<usize> {
        if self.null_is_plain && field.len() == self.null.len() && input[field.clone()] == self.null[..] {
            return null(column, tuple, to);
        }
        match column.codec {
            Codec::Int8 => sized(&mut tuple.bytes, to, integer(input, field)?.to_be_bytes()),
            Codec::Int4 => sized(&mut tuple.bytes, to, i32::try_from(integer(input, field)?).ok()?.to_be_bytes()),
            Codec::Date => sized(&mut tuple.bytes, to, parse::date(&input[field])?.to_be_bytes()),
            Codec::Numeric(modifier) => match decimal(input, field.clone()) {
                Some(decimal) => {
                    let (block, length) = decimal.encode(modifier)?;
                    put(&mut tuple.bytes, to, block)?;
                    Some(to + length)
                }
                None => self.text(input, field, column, tuple, to),
            },
            _ => self.text(input, field, column, tuple, to),
        }
    }

    /// A field with a quote or a backslash behind what is `before`: NULL, or a text in quotes. Gives where it ends, in the input and
    /// in the tuple.
    #[inline]
    fn marked(
        &self,
        input: &[u8],
        before: Range<usize>,
        column: &Shape,
        tuple: &mut Tuple,
        to: usize,
    ) -> Option<(usize, usize)> {
        let at = before.start;
        if !before.is_empty() {
            return None;
        }
        if !self.csv {
            let end = at + self.null.len();
            return (input.get(at..end)? == self.null).then_some((end, null(column, tuple, to)?));
        }
        if input[at] != self.quote || column.force_null {
            return None;
        }
        let close = find(input, at + 1, [self.quote, self.escape])?;
        let behind = *input.get(close + 1)?;
        if input[close] == self.quote && behind == self.quote && self.escape == self.quote {
            return self.unquote(input, at + 1, column.codec, &mut tuple.bytes, to);
        }
        // An escape or a quoted newline makes it the slow lane's.
        if input[close] != self.quote {
            return None;
        }
        Some((close + 1, self.text(input, at + 1..close, column, tuple, to)?))
    }

    /// A value of any other type, or in quotes; gives where it ends in the tuple.
    #[inline]
    fn text(&self, input: &[u8], value: Range<usize>, column: &Shape, tuple: &mut Tuple, to: usize) -> Option<usize> {
        match column.codec {
            Codec::Text => text(&mut tuple.bytes, to, input, value),
            Codec::Bpchar(limit) | Codec::Varchar(limit) if limit.fits(value.len()) => {
                text(&mut tuple.bytes, to, input, value)
            }
            codec => tuple.encode(to, codec, &input[value], self.timezone_is_utc),
        }
    }

    /// A text in quotes, of which some are doubled, from behind the first.
    fn unquote(
        &self,
        input: &[u8],
        mut from: usize,
        codec: Codec,
        tuple: &mut TupleBytes,
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
            to = copy(tuple, to, input, from..quote + usize::from(is_doubled))?;
            if !is_doubled {
                put(tuple, field, ((to - start) as u32).to_be_bytes())?;
                return codec.fits(to - start).then_some((quote + 1, to));
            }
            from = quote + 2;
        }
    }
}

/// How far a row has been read, and its tuple written.
struct Row<'a> {
    input: &'a [u8],
    ends: Ends<'a>,
    at: usize,
    to: usize,
}

/// A tuple's buffer, of a length that the compiler knows.
type TupleBytes = [u8; Tuple::BYTES_MAX];

/// Where a row becomes a tuple.
pub(crate) struct Tuple {
    bytes: Box<TupleBytes>,
    /// A value on its way, of the types whose conversion wants a buffer that grows.
    value: Vec<u8>,
}

impl Tuple {
    /// Longer tuples are the slow lane's.
    const BYTES_MAX: usize = 16 * 1024;

    pub(crate) fn new() -> Self {
        Self { bytes: Box::new([0; Self::BYTES_MAX]), value: Vec::new() }
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
fn put<const N: usize>(tuple: &mut TupleBytes, to: usize, block: [u8; N]) -> Option<usize> {
    *tuple.get_mut(to..)?.first_chunk_mut()? = block;
    Some(to + N)
}

/// A value with its length word; gives where it ends.
#[inline(always)]
fn sized<const N: usize>(tuple: &mut TupleBytes, to: usize, value: [u8; N]) -> Option<usize> {
    let (length, rest) = tuple.get_mut(to..)?.split_first_chunk_mut()?;
    *length = (N as u32).to_be_bytes();
    *rest.first_chunk_mut()? = value;
    Some(to + 4 + N)
}

/// NULL in place of a value; gives where it ends.
#[inline]
fn null(column: &Shape, tuple: &mut Tuple, to: usize) -> Option<usize> {
    if column.force_not_null {
        return None;
    }
    put(&mut tuple.bytes, to, [0xFF; 4])
}

/// A text with its length word; gives where it ends.
#[inline(always)]
fn text(tuple: &mut TupleBytes, to: usize, input: &[u8], value: Range<usize>) -> Option<usize> {
    let to = put(tuple, to, (value.len() as u32).to_be_bytes())?;
    copy(tuple, to, input, value)
}

/// Copies a part of the input; gives where it ends. A short one is copied as a block of fixed size, which needs no call.
#[inline(always)]
fn copy(tuple: &mut TupleBytes, to: usize, input: &[u8], part: Range<usize>) -> Option<usize> {
    let length = part.len();
    match input[part.start..].first_chunk::<BLOCK>() {
        Some(block) if length <= BLOCK => {
            put(tuple, to, *block)?;
        }
        _ => tuple.get_mut(to..to + length)?.copy_from_slice(&input[part]),
    }
    Some(to + length)
}

#[inline(always)]
fn load(input: &[u8], at: usize) -> Option<u64> {
    input.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// A decimal integer of up to 16 digits.
#[inline(always)]
fn integer(input: &[u8], field: Range<usize>) -> Option<i64> {
    const POWERS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    let negative = input[field.start] == b'-';
    let start = field.start + usize::from(negative);
    let value = match field.end - start {
        digits @ 1..=8 => number(load(input, start)?, digits)?,
        digits @ 9..=16 => {
            let low = number(load(input, start + 8)?, digits - 8)?;
            number(load(input, start)?, 8)? * POWERS[digits - 8] + low
        }
        _ => return None,
    } as i64;
    Some(if negative { -value } else { value })
}

/// A decimal number of up to 7 digits before the point and behind it.
#[inline(always)]
fn decimal(input: &[u8], field: Range<usize>) -> Option<ShortDecimal> {
    let negative = input[field.start] == b'-';
    let start = field.start + usize::from(negative);
    let word = load(input, start)?;
    let whole_digits = leading_digits(word);
    let point = start + whole_digits;
    if whole_digits == 8 || point > field.end {
        return None;
    }
    let whole = if whole_digits == 0 { 0 } else { number(word, whole_digits)? };
    if point == field.end {
        return (whole_digits > 0).then(|| ShortDecimal::new(negative, whole, 0, 0));
    }
    let digits = field.end - point - 1;
    if input[point] != b'.' || digits > 7 || whole_digits + digits == 0 {
        return None;
    }
    let fraction = if digits == 0 { 0 } else { number(load(input, point + 1)?, digits)? };
    Some(ShortDecimal::new(negative, whole, fraction as u32, digits))
}

/// How many bytes at the low end of a word are decimal digits.
#[inline(always)]
fn leading_digits(word: u64) -> usize {
    let values = word ^ ZEROS;
    (above_nine(values).trailing_zeros() / 8) as usize
}

/// The decimal number of so many digits, 1 to 8, at the low end of a word (D. Lemire, "Quickly parsing eight digits").
#[inline(always)]
fn number(word: u64, digits: usize) -> Option<u64> {
    // Zeros in front: the first digit moves up so that the last one is in the top byte.
    let values = (word ^ ZEROS) << (64 - 8 * digits);
    if above_nine(values) != 0 {
        return None;
    }
    let pairs = values.wrapping_mul(10 << 8 | 1) >> 8;
    let quads = (pairs & 0x00FF_00FF_00FF_00FF).wrapping_mul(100 << 16 | 1) >> 16;
    Some((quads & 0x0000_FFFF_0000_FFFF).wrapping_mul(10_000 << 32 | 1) >> 32)
}

/// The high bits of the bytes that are no values of digits; exact up to the lowest.
#[inline(always)]
fn above_nine(values: u64) -> u64 {
    (values | values.wrapping_add(0x7676_7676_7676_7676)) & HIGH
}
