//! The text of an input line, found again for the CONTEXT of an error that a datanode reports when the line is long gone.
//!
//! [`LineFinder`] reads input from the start of any line and counts lines as the router does. Input of a client cannot be
//! read again, so [`History`] keeps its last chunks: they are shared with the reader, not copied, unless they are so small
//! that their handles would need more memory than they do.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::input::Input;
use crate::scan::{Eol, LineScanner, Scan};
use crate::utf8::Encoding;

/// Most bytes that [`History`] keeps; more than what is on its way to datanodes.
const HISTORY_BYTES_MAX: usize = 16 << 20;

/// Chunks smaller than this are copied together.
const SMALL_BYTES: usize = 1024;
/// Bytes of the chunks copied together.
const GROUP_BYTES_MAX: usize = 64 * 1024;

/// Counts lines until it has the wanted one.
pub struct LineFinder {
    input: Input,
    scanner: LineScanner,
    line: u64,
    wanted: u64,
    is_over: bool,
}

impl LineFinder {
    /// `line` lines were read before the bytes to come.
    pub(crate) fn new(encoding: Encoding, scanner: LineScanner, line: u64, wanted: u64) -> Self {
        LineFinder { input: Input::new(Some(encoding)), scanner, line, wanted, is_over: false }
    }

    /// The text of the line, its line end left out, once the input has it all. `None`: go on with the next chunk, unless
    /// [`LineFinder::is_over`].
    pub fn push(&mut self, chunk: Bytes) -> Option<Vec<u8>> {
        if self.is_over {
            return None;
        }
        self.input.push(chunk);
        self.find()
    }

    /// No more input comes: the wanted line may be the one without a line end.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        self.input.finish();
        self.find()
    }

    /// The line is not in this input.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn find(&mut self) -> Option<Vec<u8>> {
        while !self.is_over {
            let eol = self.scanner.eol;
            let Ok((scan, at)) = self.input.scan_line(&mut self.scanner) else {
                self.is_over = true;
                return None;
            };
            if scan == Scan::More {
                return None;
            }
            self.line += 1 + u64::from(self.scanner.quoted_lines(eol));
            self.scanner.reset();
            if self.line >= self.wanted {
                self.is_over = true;
                return (self.line == self.wanted).then(|| self.input.bytes(at).to_vec());
            }
            self.is_over = scan == Scan::Last;
            self.input.leave(at);
        }
        None
    }
}

/// The last chunks of an input.
#[derive(Default)]
pub(crate) struct History {
    chunks: VecDeque<Kept>,
    bytes: usize,
}

struct Kept {
    bytes: Stored,
    /// Lines that had ended before this chunk, and the bytes of the unfinished one.
    lines_before: u64,
    unfinished: usize,
    eol: Eol,
}

enum Stored {
    Shared(Bytes),
    Copied(Vec<u8>),
}

impl Stored {
    fn len(&self) -> usize {
        match self {
            Stored::Shared(bytes) => bytes.len(),
            Stored::Copied(bytes) => bytes.len(),
        }
    }

    fn from(&self, start: usize) -> Bytes {
        match self {
            Stored::Shared(bytes) => bytes.slice(start..),
            Stored::Copied(bytes) => Bytes::copy_from_slice(&bytes[start..]),
        }
    }
}

impl History {
    pub(crate) fn keep(&mut self, chunk: Bytes, lines_before: u64, unfinished: usize, eol: Eol) {
        self.bytes += chunk.len();
        let is_small = chunk.len() < SMALL_BYTES;
        match self.chunks.back_mut() {
            Some(Kept { bytes: Stored::Copied(group), .. }) if is_small && group.len() < GROUP_BYTES_MAX => {
                group.extend_from_slice(&chunk);
            }
            _ => {
                let bytes = if is_small { Stored::Copied(chunk.to_vec()) } else { Stored::Shared(chunk) };
                self.chunks.push_back(Kept { bytes, lines_before, unfinished, eol });
            }
        }
        while self.bytes > HISTORY_BYTES_MAX && self.chunks.len() > 1 {
            self.bytes -= self.chunks.pop_front().map_or(0, |kept| kept.bytes.len());
        }
    }

    /// The text of a line, if it is still here. `scanner` makes a scanner that knows this line end style.
    pub(crate) fn line(
        &self,
        wanted: u64,
        encoding: Encoding,
        scanner: impl Fn(Eol) -> LineScanner,
    ) -> Option<Vec<u8>> {
        // The line ended in the last chunk that began before its end.
        let last = self.chunks.partition_point(|kept| kept.lines_before < wanted).checked_sub(1)?;
        let Kept { lines_before, unfinished, eol, .. } = self.chunks[last];
        let (mut first, mut missing) = (last, unfinished);
        while missing > 0 {
            first = first.checked_sub(1)?;
            let here = missing.min(self.chunks[first].bytes.len());
            missing -= here;
            if missing == 0 {
                let start = self.chunks[first].bytes.len() - here;
                return self.read(first, start, last, LineFinder::new(encoding, scanner(eol), lines_before, wanted));
            }
        }
        self.read(first, 0, last, LineFinder::new(encoding, scanner(eol), lines_before, wanted))
    }

    fn read(&self, first: usize, start: usize, last: usize, mut finder: LineFinder) -> Option<Vec<u8>> {
        for (index, kept) in self.chunks.range(first..=last).enumerate() {
            if let Some(text) = finder.push(kept.bytes.from(if index == 0 { start } else { 0 })) {
                return Some(text);
            }
        }
        finder.finish()
    }
}
