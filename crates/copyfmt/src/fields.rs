//! A line's fields: `CopyReadAttributesText` and `CopyReadAttributesCSV` of PostgreSQL's `copyfromparse.c`.

use memchr::{memchr, memchr2};
use pgerror::PgError;

use crate::CopyOptions;
use crate::options::Format;
use crate::scan::bad_format;
use crate::utf8::Encoding;

/// One field; its bytes are in the line, or in [`Fields::scratch`] if something had to be unescaped.
#[derive(Clone, Copy, Debug)]
struct Field {
    start: usize,
    end: usize,
    in_scratch: bool,
    /// Equals the NULL string (CSV: and has no quote).
    is_null: bool,
}

/// The fields of the current line.
#[derive(Default)]
pub(crate) struct Fields {
    fields: Vec<Field>,
    scratch: Vec<u8>,
}

/// All fields of one line without its line end; `None` is NULL. For a line here and there: a router splits many.
///
/// # Errors
/// A quote that is not closed.
pub fn fields_of(line: &[u8], options: &CopyOptions) -> Result<Vec<Option<Vec<u8>>>, PgError> {
    let mut fields = Fields::default();
    fields.split(line, options, Encoding::Other, usize::MAX)?;
    Ok((0..fields.len()).map(|index| fields.get(index, line).map(<[u8]>::to_vec)).collect())
}

impl Fields {
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The unescaped value; `None` for NULL.
    pub(crate) fn get<'a>(&'a self, index: usize, line: &'a [u8]) -> Option<&'a [u8]> {
        let field = self.fields.get(index)?;
        match (field.is_null, field.in_scratch) {
            (true, _) => None,
            (false, true) => Some(&self.scratch[field.start..field.end]),
            (false, false) => Some(&line[field.start..field.end]),
        }
    }

    /// Splits a line; stops after `wanted` fields.
    pub(crate) fn split(
        &mut self,
        line: &[u8],
        options: &CopyOptions,
        encoding: Encoding,
        wanted: usize,
    ) -> Result<(), PgError> {
        self.fields.clear();
        self.scratch.clear();
        let mut at = 0;
        while self.fields.len() < wanted {
            let end = match options.format {
                Format::Csv => self.csv_field(line, at, options)?,
                _ => self.text_field(line, at, options, encoding)?,
            };
            if end == line.len() {
                break;
            }
            at = end + 1;
        }
        Ok(())
    }

    /// Reads the field at `start`; returns where its delimiter (or the line's end) is.
    fn text_field(
        &mut self,
        line: &[u8],
        start: usize,
        options: &CopyOptions,
        encoding: Encoding,
    ) -> Result<usize, PgError> {
        let mut field = Field { start, end: line.len(), in_scratch: false, is_null: false };
        let end = match memchr2(options.delimiter, b'\\', &line[start..]) {
            Some(offset) if line[start + offset] == b'\\' => {
                let scratch_start = self.scratch.len();
                let (end, suspicious) = self.unescape_text(line, start, start + offset, options.delimiter);
                // A backslash that ends the line is dropped, and does not count for the comparison with NULL.
                let dangling = usize::from(end > line.len());
                let end = end - dangling;
                field.is_null = &line[start..end - dangling] == options.null.as_bytes();
                if suspicious && !field.is_null {
                    encoding.check(&self.scratch[scratch_start..])?;
                }
                (field.in_scratch, field.start, field.end) = (true, scratch_start, self.scratch.len());
                end
            }
            found => {
                field.end = found.map_or(line.len(), |offset| start + offset);
                field.is_null = &line[start..field.end] == options.null.as_bytes();
                field.end
            }
        };
        self.fields.push(field);
        Ok(end)
    }

    /// Unescapes into the scratch from `start`, the first backslash being at `at`. Returns the field's end (one past
    /// the line's end if a backslash with nothing behind it was dropped), and whether an escape made a byte that may
    /// not be valid in the encoding.
    fn unescape_text(&mut self, line: &[u8], start: usize, mut at: usize, delimiter: u8) -> (usize, bool) {
        self.scratch.extend_from_slice(&line[start..at]);
        let mut suspicious = false;
        while at < line.len() && line[at] != delimiter {
            if line[at] != b'\\' {
                self.scratch.push(line[at]);
                at += 1;
                continue;
            }
            if at + 1 == line.len() {
                return (line.len() + 1, suspicious);
            }
            let (byte, used) = escape_sequence(&line[at + 1..]);
            suspicious |= byte == 0 || (used > 1 && byte >= 0x80);
            self.scratch.push(byte);
            at += 1 + used;
        }
        (at, suspicious)
    }

    fn csv_field(&mut self, line: &[u8], start: usize, options: &CopyOptions) -> Result<usize, PgError> {
        let mut field = Field { start, end: line.len(), in_scratch: false, is_null: false };
        let end = match memchr2(options.delimiter, options.quote, &line[start..]) {
            Some(offset) if line[start + offset] == options.quote => {
                let scratch_start = self.scratch.len();
                let end = self.unquote(line, start, options)?;
                (field.in_scratch, field.start, field.end) = (true, scratch_start, self.scratch.len());
                end
            }
            found => {
                field.end = found.map_or(line.len(), |offset| start + offset);
                field.is_null = &line[start..field.end] == options.null.as_bytes();
                field.end
            }
        };
        self.fields.push(field);
        Ok(end)
    }

    /// Appends the field without its quotes and escapes to the scratch; returns its end in the line.
    fn unquote(&mut self, line: &[u8], start: usize, options: &CopyOptions) -> Result<usize, PgError> {
        let (quote, escape) = (options.quote, options.escape);
        let mut at = start;
        loop {
            let Some(offset) = memchr2(options.delimiter, quote, &line[at..]) else {
                self.scratch.extend_from_slice(&line[at..]);
                return Ok(line.len());
            };
            self.scratch.extend_from_slice(&line[at..at + offset]);
            at += offset;
            if line[at] != quote {
                return Ok(at);
            }
            at += 1;
            loop {
                let special =
                    if quote == escape { memchr(quote, &line[at..]) } else { memchr2(quote, escape, &line[at..]) };
                let offset = special.ok_or_else(|| bad_format("unterminated CSV quoted field"))?;
                self.scratch.extend_from_slice(&line[at..at + offset]);
                at += offset;
                let byte = line[at];
                let next = line.get(at + 1).copied();
                match next {
                    Some(next) if byte == escape && (next == escape || next == quote) => {
                        self.scratch.push(next);
                        at += 2;
                    }
                    _ if byte == quote => {
                        at += 1;
                        break;
                    }
                    _ => {
                        self.scratch.push(byte);
                        at += 1;
                    }
                }
            }
        }
    }
}

/// What the bytes behind a backslash stand for in text format, and how many of them are used.
fn escape_sequence(rest: &[u8]) -> (u8, usize) {
    let digits = |from: usize, max: usize, radix: u32| {
        let digit = |b: &u8| char::from(*b).to_digit(radix);
        rest[from..]
            .iter()
            .take(max)
            .map_while(digit)
            .fold((0u32, from), |(value, used), d| (value * radix + d, used + 1))
    };
    match rest[0] {
        b'0'..=b'7' => {
            let (value, used) = digits(0, 3, 8);
            (value as u8, used)
        }
        b'x' => match digits(1, 2, 16) {
            (_, 1) => (b'x', 1),
            (value, used) => (value as u8, used),
        },
        b'b' => (8, 1),
        b'f' => (12, 1),
        b'n' => (b'\n', 1),
        b'r' => (b'\r', 1),
        b't' => (b'\t', 1),
        b'v' => (11, 1),
        other => (other, 1),
    }
}
