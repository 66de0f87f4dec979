//! The binary COPY format (PostgreSQL documentation, "COPY", Binary Format): header, tuples, trailer.

use pgerror::{PgError, Result, SqlState};

use crate::scan::bad_format;

/// Signature, flags 0, no header extension.
pub const BINARY_HEADER: [u8; 19] = *b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The end of a binary COPY.
pub const BINARY_TRAILER: [u8; 2] = [0xFF, 0xFF];

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// A tuple's field count that no tuple has: the trailer.
const END_OF_DATA: i16 = -1;

/// `MaxAllocSize` of PostgreSQL's `memutils.h`: a value must be shorter.
const VALUE_BYTES_LIMIT: i32 = 0x3fff_ffff;

/// What `enlargeStringInfo` (`stringinfo.c`) says of a value that cannot be held.
fn value_too_long(size: i32) -> PgError {
    let detail = format!("Cannot enlarge string buffer containing 0 bytes by {size} more bytes.");
    PgError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "out of memory").detail(detail)
}

/// Finds header, tuples and trailer in a stream of binary COPY. Keeps its place within a tuple between calls.
#[derive(Default)]
pub struct BinarySplitter {
    header_done: bool,
    /// Offset of the next length word in the tuple, and fields still to come.
    at: usize,
    fields_left: usize,
    fields: usize,
}

/// What stands at the start of the bytes given to [`BinarySplitter::next`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryItem {
    /// The header of this length.
    Header(usize),
    /// A tuple of this length (field count, then length words and values).
    Tuple(usize),
    /// The trailer, or the end of data in its place, of this length.
    Trailer(usize),
    /// More bytes are needed.
    More,
}

/// An error in binary data, with the 0-based column it is about.
#[derive(Debug)]
pub struct BinaryError {
    /// PostgreSQL's error, without CONTEXT.
    pub error: PgError,
    /// The column whose value could not be read.
    pub column: Option<usize>,
}

impl BinaryError {
    fn new(message: impl Into<String>) -> Self {
        BinaryError { error: bad_format(message), column: None }
    }
}

impl From<PgError> for BinaryError {
    fn from(error: PgError) -> Self {
        BinaryError { error, column: None }
    }
}

impl From<BinaryError> for PgError {
    fn from(error: BinaryError) -> Self {
        error.error
    }
}

impl BinarySplitter {
    /// A splitter at the start of a stream, which begins with a header.
    pub fn new() -> Self {
        Self::default()
    }

    /// Has the header been read?
    pub fn is_in_tuples(&self) -> bool {
        self.header_done
    }

    /// Whole values of the tuple being read, and the bytes that they take with its count of fields.
    pub(crate) fn values_read(&self) -> (usize, usize) {
        if self.at == 0 { (0, 0) } else { (self.fields - self.fields_left, self.at) }
    }

    /// What stands at the start of `bytes`. Until it is complete, call again with the same bytes and more behind them;
    /// `eof` says that nothing follows. A `columns` of `None` accepts any count of fields.
    pub fn next(&mut self, bytes: &[u8], eof: bool, columns: Option<usize>) -> Result<BinaryItem, BinaryError> {
        if !self.header_done {
            return self.header(bytes, eof);
        }
        if self.at == 0 {
            let Some(word) = bytes.first_chunk() else {
                // End of data instead of a trailer, even in the middle of the count, ends the COPY.
                return Ok(if eof { BinaryItem::Trailer(bytes.len()) } else { BinaryItem::More });
            };
            let count = i16::from_be_bytes(*word);
            if count == END_OF_DATA {
                return Ok(BinaryItem::Trailer(BINARY_TRAILER.len()));
            }
            match (usize::try_from(count), columns) {
                (Ok(count), None) => self.fields = count,
                (Ok(count), Some(expected)) if count == expected => self.fields = count,
                (_, expected) => {
                    let expected = expected.unwrap_or(0);
                    return Err(BinaryError::new(format!("row field count is {count}, expected {expected}")));
                }
            }
            (self.at, self.fields_left) = (2, self.fields);
        }
        self.tuple(bytes, eof)
    }

    fn header(&mut self, bytes: &[u8], eof: bool) -> Result<BinaryItem, BinaryError> {
        if bytes.len() < SIGNATURE.len() && !eof {
            return Ok(BinaryItem::More);
        }
        if !bytes.starts_with(SIGNATURE) {
            return Err(BinaryError::new("COPY file signature not recognized"));
        }
        let word =
            |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|word| i32::from_be_bytes(*word));
        let Some(flags) = word(11) else { return self.missing(eof, "invalid COPY file header (missing flags)") };
        if flags & 1 << 16 != 0 {
            return Err(BinaryError::new("invalid COPY file header (WITH OIDS)"));
        }
        if flags >> 16 != 0 {
            return Err(BinaryError::new("unrecognized critical flags in COPY file header"));
        }
        let missing_length = "invalid COPY file header (missing length)";
        let Some(extension) = word(15) else { return self.missing(eof, missing_length) };
        let Ok(extension) = usize::try_from(extension) else { return Err(BinaryError::new(missing_length)) };
        let length = BINARY_HEADER.len() + extension;
        if bytes.len() < length {
            return self.missing(eof, "invalid COPY file header (wrong length)");
        }
        self.header_done = true;
        Ok(BinaryItem::Header(length))
    }

    fn missing(&self, eof: bool, message: &str) -> Result<BinaryItem, BinaryError> {
        if eof { Err(BinaryError::new(message)) } else { Ok(BinaryItem::More) }
    }

    fn tuple(&mut self, bytes: &[u8], eof: bool) -> Result<BinaryItem, BinaryError> {
        let column = |left: usize, fields: usize| Some(fields - left);
        while self.fields_left > 0 {
            let word = bytes.get(self.at..).and_then(|rest| rest.first_chunk());
            let size = word.map(|word| i32::from_be_bytes(*word));
            let here = column(self.fields_left, self.fields);
            let next = match size {
                Some(-1) => Some(self.at + 4),
                Some(size) if size < 0 => {
                    return Err(BinaryError { column: here, ..BinaryError::new("invalid field size") });
                }
                Some(size) if size >= VALUE_BYTES_LIMIT => {
                    return Err(BinaryError { error: value_too_long(size), column: here });
                }
                Some(size) => Some(self.at + 4 + size as usize).filter(|next| *next <= bytes.len()),
                None => None,
            };
            let Some(next) = next else {
                return match eof {
                    true => Err(BinaryError { column: here, ..BinaryError::new("unexpected EOF in COPY data") }),
                    false => Ok(BinaryItem::More),
                };
            };
            self.at = next;
            self.fields_left -= 1;
        }
        let length = self.at;
        self.at = 0;
        Ok(BinaryItem::Tuple(length))
    }
}

/// The values of a tuple, or of a DataRow's body with all columns binary, which is the same; `None` is NULL. Ends early
/// if the bytes do.
pub fn tuple_fields(tuple: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = tuple.get(2..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (word, behind) = rest.split_first_chunk()?;
        match usize::try_from(i32::from_be_bytes(*word)) {
            Ok(size) => {
                let (value, behind) = behind.split_at_checked(size)?;
                rest = behind;
                Some(Some(value))
            }
            Err(_) => {
                rest = behind;
                Some(None)
            }
        }
    })
}
