//! The bytes still to be read: the current chunk, and the start of a row whose end is not here yet.
//!
//! Rows are read in place. Only a row that a chunk's end cuts is put together in the carry; what was taken too much for
//! it goes back to the chunk.

use bytes::Bytes;
use memchr::memchr2;
use pgerror::{PgError, Result, SqlState};

use crate::binary::{BinaryError, BinaryItem, BinarySplitter};
use crate::scan::{LineScanner, Scan};
use crate::utf8::{Encoding, Validity};

/// `MaxAllocSize` of PostgreSQL's `memutils.h`: no line is longer.
const LINE_BYTES_MAX: usize = 0x3fff_ffff;
/// Bytes that an unfinished binary tuple grows by.
const CARRY_STEP_BYTES: usize = 8192;
/// Memory of the carry that outlives a row.
const CARRY_KEPT_BYTES: usize = 1 << 20;
/// Bytes of a wrong sequence that an error may show.
const SEQUENCE_BYTES_MAX: usize = 4;

/// Where a row is: `content` bytes at the start of the carry or of the chunk's rest, the next row `next` bytes on.
#[derive(Clone, Copy)]
pub(crate) struct RowAt {
    pub(crate) in_carry: bool,
    pub(crate) content: usize,
    pub(crate) next: usize,
}

/// The unread input.
pub(crate) struct Input {
    /// What to check; `None` for binary data.
    encoding: Option<Encoding>,
    /// `pos..valid_end` is still to be read.
    chunk: Bytes,
    pos: usize,
    valid_end: usize,
    /// The start of a row, and how much of it came from this chunk.
    carry: Vec<u8>,
    carry_from_chunk: usize,
    /// The start of a character whose rest is still to come.
    pending: Vec<u8>,
    /// A wrong byte sequence behind `valid_end`.
    invalid: Option<Vec<u8>>,
    eof: bool,
}

impl Input {
    pub(crate) fn new(encoding: Option<Encoding>) -> Self {
        Input {
            encoding,
            chunk: Bytes::new(),
            pos: 0,
            valid_end: 0,
            carry: Vec::new(),
            carry_from_chunk: 0,
            pending: Vec::new(),
            invalid: None,
            eof: false,
        }
    }

    /// The next chunk; the one before must have been used up.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.push_checked(chunk, false);
    }

    /// As [`Input::push`]; `is_valid`: what the chunk has is known to be right.
    pub(crate) fn push_checked(&mut self, chunk: Bytes, is_valid: bool) {
        debug_assert!(self.pos == self.valid_end && !self.eof, "push while input is left, or after finish");
        self.carry_from_chunk = 0;
        if let Some(sequence) = &mut self.invalid {
            sequence.extend_from_slice(&chunk[..chunk.len().min(SEQUENCE_BYTES_MAX)]);
            return;
        }
        self.chunk = chunk;
        self.pos = 0;
        self.valid_end = self.chunk.len();
        let is_known = is_valid && self.pending.is_empty();
        if let Some(encoding) = self.encoding.filter(|_| !is_known) {
            self.complete_pending(encoding);
            self.check_chunk(encoding);
        }
    }

    pub(crate) fn finish(&mut self) {
        self.eof = true;
        if !self.pending.is_empty() && self.invalid.is_none() {
            self.invalid = Some(std::mem::take(&mut self.pending));
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.eof
    }

    pub(crate) fn unread_bytes(&self) -> usize {
        self.carry.len() + self.valid_end - self.pos
    }

    /// The start of the row whose end is not here yet.
    pub(crate) fn unfinished(&self) -> &[u8] {
        if self.carry.is_empty() { self.rest() } else { &self.carry }
    }

    /// Bytes of the line whose end is not here yet, when all else is read.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        self.unread_bytes() + self.pending.len()
    }

    /// The rest of the chunk, if a row begins there. [`Input::advance`] goes on in it.
    #[inline]
    pub(crate) fn in_place(&self) -> Option<&[u8]> {
        self.carry.is_empty().then(|| self.rest())
    }

    /// Where in the chunk the next row begins, if it begins there.
    pub(crate) fn row_start(&self) -> Option<usize> {
        self.carry.is_empty().then_some(self.pos)
    }

    /// Is the chunk right up to here?
    pub(crate) fn is_valid_to(&self, end: usize) -> bool {
        end <= self.valid_end
    }

    /// Rows of so many bytes have been read in place.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: usize) {
        debug_assert!(self.carry.is_empty() && self.pos + bytes <= self.valid_end);
        self.pos += bytes;
    }

    /// The bytes of a row.
    #[inline]
    pub(crate) fn bytes(&self, at: RowAt) -> &[u8] {
        let start = if at.in_carry { &self.carry } else { &self.chunk[self.pos..] };
        &start[..at.content]
    }

    /// A row is done with: goes to the next one.
    pub(crate) fn leave(&mut self, at: RowAt) {
        if !at.in_carry {
            self.pos += at.next;
            return;
        }
        // Bytes behind the row go back to the chunk they came from, or stay as the start of the next row.
        let excess = self.carry.len() - at.next;
        if excess <= self.carry_from_chunk {
            self.pos -= excess;
            self.carry.clear();
            // A huge row's buffer is not kept for the narrow ones behind it.
            self.carry.shrink_to(CARRY_KEPT_BYTES);
        } else {
            self.carry.drain(..at.next);
        }
        self.carry_from_chunk = 0;
    }

    /// Looks for the end of the line that begins here. An unfinished line moves to the carry.
    pub(crate) fn scan_line(&mut self, scanner: &mut LineScanner) -> Result<(Scan, RowAt)> {
        let clean_eof = self.eof && self.invalid.is_none();
        loop {
            let in_carry = !self.carry.is_empty();
            let rest = self.rest();
            let line = if in_carry { &self.carry[..] } else { rest };
            let scan = scanner.scan(line, clean_eof && (!in_carry || rest.is_empty()))?;
            let (content, next) = match scan {
                Scan::Line { content, next } | Scan::Marker { content, next } => (content, next),
                Scan::Last => (line.len(), line.len()),
                Scan::More if rest.is_empty() => {
                    self.check_invalid()?;
                    (0, 0)
                }
                Scan::More => {
                    // Up to the next newline: most lines end there, and what follows stays where it is.
                    let newline = if in_carry { memchr2(b'\n', b'\r', rest) } else { None };
                    self.carry_on(newline.map_or(rest.len(), |newline| newline + 1))?;
                    continue;
                }
            };
            return Ok((scan, RowAt { in_carry, content, next }));
        }
    }

    /// Looks for the next item of a binary COPY. An unfinished tuple moves to the carry.
    pub(crate) fn next_item(
        &mut self,
        splitter: &mut BinarySplitter,
        columns: usize,
    ) -> Result<(BinaryItem, RowAt), BinaryError> {
        loop {
            let in_carry = !self.carry.is_empty();
            let rest = self.rest();
            let bytes = if in_carry { &self.carry[..] } else { rest };
            let item = splitter.next(bytes, self.eof && (!in_carry || rest.is_empty()), Some(columns))?;
            let length = match item {
                BinaryItem::Header(length) | BinaryItem::Tuple(length) => length,
                BinaryItem::Trailer(length) => length,
                BinaryItem::More if rest.is_empty() => 0,
                BinaryItem::More => {
                    // How long the tuple is nobody knows; what was taken too much goes back.
                    self.carry_on(rest.len().min(CARRY_STEP_BYTES))?;
                    continue;
                }
            };
            return Ok((item, RowAt { in_carry, content: length, next: length }));
        }
    }

    #[inline]
    fn rest(&self) -> &[u8] {
        &self.chunk[self.pos..self.valid_end]
    }

    /// Moves bytes from the chunk to the carry.
    fn carry_on(&mut self, bytes: usize) -> Result<()> {
        let length = self.carry.len();
        if length + bytes > LINE_BYTES_MAX {
            // `enlargeStringInfo` of PostgreSQL's `stringinfo.c`.
            return Err(PgError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "out of memory")
                .detail(format!("Cannot enlarge string buffer containing {length} bytes by {bytes} more bytes.")));
        }
        self.carry.extend_from_slice(&self.chunk[self.pos..self.pos + bytes]);
        self.carry_from_chunk += bytes;
        self.pos += bytes;
        Ok(())
    }

    /// All valid input is used up: reports the wrong sequence behind it, once all that the error shows of it is here.
    fn check_invalid(&self) -> Result<()> {
        match (&self.invalid, self.encoding) {
            (Some(sequence), Some(encoding)) if self.eof || sequence.len() >= SEQUENCE_BYTES_MAX => {
                Err(encoding.invalid_sequence(sequence))
            }
            _ => Ok(()),
        }
    }

    /// Puts a character together whose start came with the chunk before.
    fn complete_pending(&mut self, encoding: Encoding) {
        let Some(lead) = self.pending.first() else { return };
        let wanted = encoding.sequence_length(*lead) - self.pending.len();
        self.pos = wanted.min(self.chunk.len());
        self.pending.extend_from_slice(&self.chunk[..self.pos]);
        match encoding.validate(&self.pending) {
            Validity::Valid => self.carry.append(&mut self.pending),
            Validity::Incomplete(_) => {}
            Validity::Invalid(_) => {
                let mut sequence = std::mem::take(&mut self.pending);
                let shown_too = &self.chunk[self.pos..];
                sequence.extend_from_slice(&shown_too[..shown_too.len().min(SEQUENCE_BYTES_MAX)]);
                self.invalid = Some(sequence);
                self.valid_end = self.pos;
            }
        }
    }

    /// Sets `valid_end`, and what stands behind it.
    fn check_chunk(&mut self, encoding: Encoding) {
        let rest = self.rest();
        match encoding.validate(rest) {
            Validity::Valid => {}
            Validity::Incomplete(at) => {
                self.pending = rest[at..].to_vec();
                self.valid_end = self.pos + at;
            }
            Validity::Invalid(at) => {
                self.invalid = Some(rest[at..rest.len().min(at + SEQUENCE_BYTES_MAX)].to_vec());
                self.valid_end = self.pos + at;
            }
        }
    }
}
