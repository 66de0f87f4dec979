//! Which input line was the n-th line sent to a datanode: so that a datanode's `COPY t, line 7` becomes the user's line.

use bytes::Bytes;

use crate::CopyOptions;
use crate::input::Input;
use crate::options::Header;
use crate::parallel::Run;
use crate::scan::{LineScanner, Scan};
use crate::utf8::Encoding;

/// Entries after which the older half is forgotten: at rows of 64 bytes and more, the last 64 MiB sent stay known.
const GENERATION_ENTRIES: usize = 1 << 20;

/// Lines of the rows of a CSV input that somebody else reads. No byte of a character looks like a newline or like the usual
/// quotes, whatever the encoding.
pub struct RowLines {
    input: Input,
    scanner: LineScanner,
    skips_header: bool,
    is_over: bool,
    line: u64,
    log: LineLog,
}

impl RowLines {
    /// At the start of the input.
    pub fn new(options: &CopyOptions, server_version: u32) -> Self {
        RowLines {
            input: Input::new(Some(Encoding::Other)),
            scanner: LineScanner::new(options, server_version),
            skips_header: options.header != Header::No,
            is_over: false,
            line: 0,
            log: LineLog::new(1),
        }
    }

    /// The next bytes.
    pub fn push(&mut self, chunk: Bytes) {
        if !self.is_over {
            self.input.push(chunk);
            self.count();
        }
    }

    /// The line of the `row`-th row (from 1), once it has been read; `None` if it is unknown or forgotten.
    pub fn line(&self, row: u64) -> Option<u64> {
        // The last row may have no line end.
        let behind_last = row == self.log.lines_sent(0) + 1 && self.input.unread_bytes() > 0;
        if behind_last { Some(self.line + 1 + self.quoted()) } else { self.log.input_line(0, row) }
    }

    fn quoted(&self) -> u64 {
        u64::from(self.scanner.quoted_lines(self.scanner.eol))
    }

    fn count(&mut self) {
        loop {
            let eol = self.scanner.eol;
            let at = match self.input.scan_line(&mut self.scanner) {
                Ok((Scan::Line { .. }, at)) => at,
                Ok((Scan::More, _)) => return,
                // The end; what is wrong the reader of the rows will say.
                _ => {
                    self.is_over = true;
                    return;
                }
            };
            self.line += 1 + u64::from(self.scanner.quoted_lines(eol));
            self.scanner.reset();
            self.input.leave(at);
            if !std::mem::take(&mut self.skips_header) {
                self.log.add(0, self.line);
            }
        }
    }
}

/// One destination's log: one varint (the distance to the line before) for each line the datanode counts.
#[derive(Default)]
struct Log {
    current: Generation,
    previous: Generation,
    last_line: u64,
}

#[derive(Default)]
struct Generation {
    deltas: Vec<u8>,
    /// Lines sent, and the input line of the last of them, before the first delta.
    sent_before: u64,
    line_before: u64,
    entries: usize,
}

/// Maps lines sent, per destination, to input lines.
pub struct LineLog {
    logs: Vec<Log>,
}

impl LineLog {
    pub(crate) fn new(destinations: usize) -> Self {
        LineLog { logs: (0..destinations).map(|_| Log::default()).collect() }
    }

    /// One more line was sent to `destination`; it was input line `line` (never less than the one before).
    #[inline]
    pub(crate) fn add(&mut self, destination: usize, line: u64) {
        let log = &mut self.logs[destination];
        put_distance(&mut log.current.deltas, line - log.last_line);
        log.last_line = line;
        log.current.entries += 1;
        if log.current.entries >= GENERATION_ENTRIES {
            log.turn();
        }
    }

    /// The rows of a stretch, `line_before` lines on in the input.
    pub(crate) fn add_run(&mut self, destination: usize, line_before: u64, run: &Run, distances: &[u8]) {
        if run.rows == 0 {
            return;
        }
        self.add(destination, line_before + run.first);
        let log = &mut self.logs[destination];
        log.current.deltas.extend_from_slice(distances);
        log.current.entries += run.rows - 1;
        log.last_line = line_before + run.last;
    }

    /// Lines sent to a destination so far.
    pub fn lines_sent(&self, destination: usize) -> u64 {
        let current = &self.logs[destination].current;
        current.sent_before + current.entries as u64
    }

    /// The input line of the `sent`-th line (from 1) of a destination; `None` if it is unknown or forgotten.
    pub fn input_line(&self, destination: usize, sent: u64) -> Option<u64> {
        let log = self.logs.get(destination)?;
        log.current.find(sent).or_else(|| log.previous.find(sent))
    }
}

/// Appends a varint.
#[inline]
pub(crate) fn put_distance(distances: &mut Vec<u8>, mut distance: u64) {
    while distance >= 0x80 {
        distances.push(distance as u8 | 0x80);
        distance >>= 7;
    }
    distances.push(distance as u8);
}

impl Log {
    #[cold]
    fn turn(&mut self) {
        let sent_before = self.current.sent_before + self.current.entries as u64;
        let mut next = std::mem::take(&mut self.previous);
        next.deltas.clear();
        next = Generation { sent_before, line_before: self.last_line, entries: 0, deltas: next.deltas };
        self.previous = std::mem::replace(&mut self.current, next);
    }
}

impl Generation {
    fn find(&self, sent: u64) -> Option<u64> {
        let index = sent.checked_sub(self.sent_before + 1)? as usize;
        if index >= self.entries {
            return None;
        }
        let mut line = self.line_before;
        let mut bytes = self.deltas.iter();
        for _ in 0..=index {
            let mut shift = 0;
            loop {
                let byte = *bytes.next()?;
                line += u64::from(byte & 0x7F) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_until_they_are_forgotten() {
        let mut log = LineLog::new(2);
        let line_of = |n: u64| n * 3 + n / 1000 * 100_000;
        let total = GENERATION_ENTRIES as u64 * 2 + 500;
        for n in 1..=total {
            log.add(1, line_of(n));
        }
        assert_eq!(log.lines_sent(1), total);
        for n in [total, total - 1, total - 500, total - GENERATION_ENTRIES as u64] {
            assert_eq!(log.input_line(1, n), Some(line_of(n)), "{n}");
        }
        assert_eq!(log.input_line(1, 1), None);
        assert_eq!(log.input_line(1, total + 1), None);
        assert_eq!(log.input_line(0, 1), None);
    }
}
