//! Where a line ends: `CopyReadLineText` of PostgreSQL's `copyfromparse.c`, resumable at any byte.

use memchr::memchr3;
use pgerror::{PgError, SqlState};

use crate::CopyOptions;
use crate::options::Format;

/// The end-of-line style, fixed by the first line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Eol {
    Unknown,
    Lf,
    Cr,
    CrLf,
}

impl Eol {
    /// The bytes that end a row sent on; before any line end was seen it may be chosen freely.
    pub fn bytes(self) -> &'static [u8] {
        match self {
            Eol::Unknown | Eol::Lf => b"\n",
            Eol::Cr => b"\r",
            Eol::CrLf => b"\r\n",
        }
    }
}

/// What a scan over the bytes of one line found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// The line is `..content`; the next one starts at `next`.
    #[allow(missing_docs)]
    Line { content: usize, next: usize },
    /// Like `Line`, but an end-of-copy marker `\.` stood behind the content.
    #[allow(missing_docs)]
    Marker { content: usize, next: usize },
    /// All data is used up; what is left is the last line (or nothing).
    Last,
    /// The line's end is not here yet.
    More,
}

/// Bytes that are looked at together.
const BLOCK_BYTES: usize = 64;

/// Finds line ends. Keeps its place within a line between calls, so no byte is scanned twice.
pub struct LineScanner {
    csv: bool,
    quote: u8,
    /// Only if it is not the quote.
    escape: Option<u8>,
    /// PostgreSQL 18: `\.` is data in CSV and must be alone in text.
    strict_marker: bool,
    pub(crate) eol: Eol,
    at: usize,
    in_quote: bool,
    last_was_escape: bool,
    /// Line feeds and carriage returns inside quotes of this line.
    pub(crate) quoted_lf: u32,
    pub(crate) quoted_cr: u32,
}

impl LineScanner {
    /// A scanner at the start of a stream.
    pub fn new(options: &CopyOptions, server_version: u32) -> Self {
        let escape = (options.escape != options.quote).then_some(options.escape);
        LineScanner {
            csv: options.format == Format::Csv,
            quote: options.quote,
            escape,
            strict_marker: server_version >= 180_000,
            eol: Eol::Unknown,
            at: 0,
            in_quote: false,
            last_was_escape: false,
            quoted_lf: 0,
            quoted_cr: 0,
        }
    }

    /// A scanner for bytes from the middle of a stream, whose line ends are known by then; the first of its lines may lack
    /// its beginning, which may be in quotes. No escape may stand directly before the bytes.
    pub fn amid(options: &CopyOptions, server_version: u32, eol: Eol, in_quote: bool) -> Self {
        LineScanner { eol, in_quote, ..LineScanner::new(options, server_version) }
    }

    /// Lines that the quoted newlines add to PostgreSQL's line counter, under the style known when the line began.
    pub fn quoted_lines(&self, eol: Eol) -> u32 {
        if eol == Eol::Lf { self.quoted_lf } else { self.quoted_cr }
    }

    /// Bytes of the current line before the place that was looked at last.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The style of the lines so far.
    pub fn eol(&self) -> Eol {
        self.eol
    }

    /// Begins a new line.
    pub fn reset(&mut self) {
        self.at = 0;
        self.in_quote = false;
        self.last_was_escape = false;
        self.quoted_lf = 0;
        self.quoted_cr = 0;
    }

    /// `line` starts where the line starts and grows from call to call; `eof` says that nothing follows it.
    pub fn scan(&mut self, line: &[u8], eof: bool) -> Result<Scan, PgError> {
        self.skip_blocks(line);
        while let Some(at) = self.next_special(line) {
            self.at = at;
            let found = match line[at] {
                b'\n' if !self.in_quote => Some(self.line_feed(at)?),
                b'\r' if !self.in_quote => self.carriage_return(line, eof)?,
                b'\\' if !self.csv || (at == 0 && !self.strict_marker) => self.backslash(line, eof)?,
                // In CSV PostgreSQL fetches the byte behind it first, and that may be a wrong one.
                b'\r' if at + 1 == line.len() && !eof => return Ok(Scan::More),
                byte => {
                    self.quoted(byte);
                    self.at += 1;
                    if byte != self.quote {
                        self.skip_blocks(line);
                    }
                    continue;
                }
            };
            match found {
                Some(scan) => return Ok(scan),
                // Something was skipped.
                None if self.at > at => {}
                None => return Ok(Scan::More),
            }
        }
        self.at = line.len();
        Ok(if eof { Scan::Last } else { Scan::More })
    }

    /// Goes over whole blocks of CSV without a newline, of which only the number of quotes matters: documents are full of them.
    fn skip_blocks(&mut self, line: &[u8]) {
        let may_be_marker = self.at == 0 && line.first() == Some(&b'\\');
        if !self.csv || self.escape.is_some() || may_be_marker {
            return;
        }
        while let Some(block) = line.get(self.at..).and_then(<[u8]>::first_chunk::<BLOCK_BYTES>) {
            let count =
                |is_wanted: fn(u8, u8) -> bool| block.iter().map(|b| u8::from(is_wanted(*b, self.quote))).sum::<u8>();
            if count(|byte, _| byte == b'\n' || byte == b'\r') > 0 {
                return;
            }
            self.in_quote ^= count(|byte, quote| byte == quote) % 2 == 1;
            self.at += BLOCK_BYTES;
        }
    }

    #[inline]
    fn next_special(&self, line: &[u8]) -> Option<usize> {
        let rest = line.get(self.at..)?;
        if self.csv && self.at == 0 && rest.first() == Some(&b'\\') {
            return Some(0);
        }
        let found = match (self.csv, self.escape) {
            (false, _) => memchr3(b'\n', b'\r', b'\\', rest),
            (true, None) => memchr3(b'\n', b'\r', self.quote, rest),
            // The escape is special only in quotes, and any other byte ends its effect.
            (true, Some(_)) if self.in_quote => (!rest.is_empty()).then_some(0),
            (true, Some(_)) => memchr3(b'\n', b'\r', self.quote, rest),
        };
        found.map(|offset| self.at + offset)
    }

    /// The CSV quote state after a byte that does not end the line.
    fn quoted(&mut self, byte: u8) {
        let is_escape = self.escape == Some(byte);
        if self.in_quote && is_escape {
            self.last_was_escape = !self.last_was_escape;
        }
        if byte == self.quote && !self.last_was_escape && self.csv {
            self.in_quote = !self.in_quote;
        }
        if !is_escape {
            self.last_was_escape = false;
        }
        if self.in_quote {
            self.quoted_lf += u32::from(byte == b'\n');
            self.quoted_cr += u32::from(byte == b'\r');
        }
    }

    fn line_feed(&mut self, at: usize) -> Result<Scan, PgError> {
        if matches!(self.eol, Eol::Cr | Eol::CrLf) {
            return Err(self.mixed_newlines("newline", "\\n"));
        }
        self.eol = Eol::Lf;
        Ok(Scan::Line { content: at, next: at + 1 })
    }

    fn carriage_return(&mut self, line: &[u8], eof: bool) -> Result<Option<Scan>, PgError> {
        let at = self.at;
        // In CSV PostgreSQL fetches the next byte first, and it may be a wrong one.
        if self.csv && at + 1 == line.len() && !eof {
            return Ok(None);
        }
        if self.eol == Eol::Lf {
            return Err(self.mixed_newlines("carriage return", "\\r"));
        }
        if self.eol == Eol::Cr {
            return Ok(Some(Scan::Line { content: at, next: at + 1 }));
        }
        match line.get(at + 1) {
            None if !eof => return Ok(None),
            Some(b'\n') => {
                self.eol = Eol::CrLf;
                return Ok(Some(Scan::Line { content: at, next: at + 2 }));
            }
            _ if self.eol == Eol::CrLf => return Err(self.mixed_newlines("carriage return", "\\r")),
            _ => {}
        }
        self.eol = Eol::Cr;
        Ok(Some(Scan::Line { content: at, next: at + 1 }))
    }

    /// A backslash in text, or one that begins a CSV line: perhaps the end-of-copy marker. `None` with `self.at`
    /// unmoved asks for more input.
    fn backslash(&mut self, line: &[u8], eof: bool) -> Result<Option<Scan>, PgError> {
        let at = self.at;
        match line.get(at + 1) {
            None if eof => {
                self.at += 1;
                return Ok(None);
            }
            None => return Ok(None),
            Some(b'.') => {}
            Some(_) => return Ok(self.not_a_marker()),
        }
        let mut end = at + 2;
        if self.eol == Eol::CrLf {
            match line.get(end) {
                None if !eof => return Ok(None),
                Some(b'\r') => end += 1,
                _ if self.csv => return Ok(self.not_a_marker()),
                Some(b'\n') => return Err(bad_format("end-of-copy marker does not match previous newline style")),
                _ => return Err(self.marker_not_alone()),
            }
        }
        match (line.get(end), self.eol) {
            (None, _) if !eof => return Ok(None),
            (Some(b'\n'), Eol::Lf | Eol::CrLf | Eol::Unknown) | (Some(b'\r'), Eol::Cr | Eol::Unknown) => {}
            (Some(b'\n' | b'\r'), _) => {
                return Err(bad_format("end-of-copy marker does not match previous newline style"));
            }
            _ if self.csv => return Ok(self.not_a_marker()),
            _ => return Err(self.marker_not_alone()),
        }
        if self.strict_marker && at > 0 {
            return Err(self.marker_not_alone());
        }
        Ok(Some(Scan::Marker { content: at, next: end + 1 }))
    }

    /// In text the byte behind the backslash is data whatever it is; in CSV the backslash itself is.
    fn not_a_marker(&mut self) -> Option<Scan> {
        if self.csv {
            self.quoted(b'\\');
            self.at += 1;
        } else {
            self.at += 2;
        }
        None
    }

    fn marker_not_alone(&self) -> PgError {
        bad_format(match self.strict_marker {
            true => "end-of-copy marker is not alone on its line",
            false => "end-of-copy marker corrupt",
        })
    }

    fn mixed_newlines(&self, what: &str, escape: &str) -> PgError {
        match self.csv {
            true => bad_format(format!("unquoted {what} found in data"))
                .hint(format!("Use quoted CSV field to represent {what}.")),
            false => bad_format(format!("literal {what} found in data"))
                .hint(format!("Use \"{escape}\" to represent {what}.")),
        }
    }
}

pub(crate) fn bad_format(message: impl Into<String>) -> PgError {
    PgError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}
