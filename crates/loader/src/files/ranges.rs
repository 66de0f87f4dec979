//! One large file in the hands of several readers.
//!
//! ```text
//!  file   ├──── range 0 ────┼──── range 1 ────┼──── range 2 ────┤
//!  survey   1 quote flips,     0 flips, …        (each by the reader that takes the range, at the same time)
//!  chain  out of quotes ───▶ in quotes ──────▶ in quotes        line by line of the chain, when its surveys are in
//!  cut      rows that begin    rows that begin   …
//! ```
//!
//! Whether a newline ends a row depends on all quotes before it. So a reader first surveys its range: what it does to the quote
//! state, and how many lines it has. As soon as all ranges before it are surveyed too, the state at its start is known
//! exactly, and the range is cut: nothing is guessed. A range owns the rows that begin in it.
//!
//! Ranges begin where the bytes around do not matter: behind no backslash, escape or carriage return. Where data may end before
//! the file does (`\.`), the range takes all the rest.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Condvar, Mutex, MutexGuard};

use copyfmt::{CopyOptions, Eol, Format, LineScanner, Scan};
use memchr::{memchr, memchr_iter, memchr2, memmem};
use pgerror::Result;

use crate::files::cut::Done;

/// Bytes of one range; smaller ones cost more in the rows that cross their ends.
pub(crate) const RANGE_BYTES: u64 = 8 * 1024 * 1024;
/// The first row, which decides about line ends, and the place where a range begins are looked for in so many bytes.
const FIRST_ROW_BYTES: usize = 1024 * 1024;
const START_BYTES: usize = 4096;
const SURVEY_BYTES: usize = 1024 * 1024;

/// What the cutter knows of a range before it reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: u64,
    /// Rows that begin here or later are another's.
    pub(crate) end: u64,
    pub(crate) eol: Eol,
    pub(crate) in_quote: bool,
    /// The first bytes are the rest of a row that began before.
    pub(crate) begins_inside_row: bool,
    /// Lines that end before `start`.
    pub(crate) lines_before: u64,
}

/// Where a range may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Start {
    at: u64,
    /// A row begins here unless the line end is in quotes.
    is_behind_line_end: bool,
}

/// What a range does to what comes behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Survey {
    /// In quotes behind it, if outside and if inside before it.
    leaves_quote: [bool; 2],
    lines: u64,
    may_end_data: bool,
}

/// The ranges of one file.
pub(crate) struct Ranges {
    starts: Vec<Start>,
    eol: Eol,
    format: Format,
    quote: u8,
    escape: u8,
    /// An end-of-copy marker is looked for.
    has_marker: bool,
    /// The file's first line end is not known when its first row is counted: its lines may be others than those surveyed.
    first_row_surplus: i64,
    chain: Mutex<Chain>,
    grown: Condvar,
}

#[derive(Debug)]
struct Chain {
    surveys: Vec<Option<Survey>>,
    /// In quotes, and lines before, at the starts of the first ranges.
    states: Vec<(bool, u64)>,
    /// This range takes all the rest.
    last: usize,
    has_failed: bool,
}

impl Ranges {
    /// `None`: the file is better cut by one reader.
    pub(crate) fn plan(
        file: &File,
        range_bytes: u64,
        options: &CopyOptions,
        server_version: u32,
        done: &[Done],
    ) -> io::Result<Option<Self>> {
        let bytes = file.metadata()?.len();
        if options.format == Format::Binary || bytes < 2 * range_bytes {
            return Ok(None);
        }
        let Some((eol, first_row_surplus)) = first_row(file, options, server_version)? else { return Ok(None) };
        let csv = options.format == Format::Csv;
        let mut ranges = Self {
            starts: vec![Start { at: 0, is_behind_line_end: true }],
            eol,
            format: options.format,
            quote: options.quote,
            escape: options.escape,
            has_marker: !csv || server_version < 180_000,
            first_row_surplus,
            chain: Mutex::new(Chain { surveys: Vec::new(), states: vec![(false, 0)], last: 0, has_failed: false }),
            grown: Condvar::new(),
        };
        for wanted in (1..bytes / range_bytes).map(|number| number * range_bytes) {
            let last = ranges.starts.last().map_or(0, |start| start.at);
            if let Some(start) = ranges.start_near(file, wanted, done)?.filter(|start| start.at > last) {
                ranges.starts.push(start);
            }
        }
        let count = ranges.starts.len();
        let mut chain = ranges.chain();
        chain.surveys = vec![None; count];
        chain.last = count - 1;
        drop(chain);
        Ok(Some(ranges))
    }

    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }

    fn chain(&self) -> MutexGuard<'_, Chain> {
        self.chain.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn start_near(&self, file: &File, wanted: u64, done: &[Done]) -> io::Result<Option<Start>> {
        // A range that was loaded before is compared as a whole, by the reader in whose range it begins.
        let behind = done.partition_point(|done| done.start < wanted);
        let loaded_end = done[..behind].last().map(|done| done.end).filter(|end| *end > wanted);
        let (wanted, places) = loaded_end.map_or((wanted, START_BYTES), |end| (end, 1));
        let mut bytes = vec![0; places + 2];
        let count = read_at_most(file, &mut bytes, wanted - 2)?;
        let escape = (self.format == Format::Csv && self.escape != self.quote).then_some(self.escape);
        let is_plain = |byte: &u8| *byte != b'\\' && Some(*byte) != escape;
        let splits_line_end = |byte: u8| byte == b'\r' && self.eol != Eol::Cr;
        let found = bytes[..count].windows(3).position(|near| near.iter().all(is_plain) && !splits_line_end(near[1]));
        Ok(found.map(|offset| {
            let is_behind_line_end = bytes[offset + 1] == if self.eol == Eol::Cr { b'\r' } else { b'\n' };
            Start { at: wanted + offset as u64, is_behind_line_end }
        }))
    }

    /// Surveys a range and waits until those before it are surveyed too. `None`: an earlier range takes its rows, or one
    /// could not be read.
    pub(crate) fn part(&self, file: &File, number: usize) -> io::Result<Option<Part>> {
        match self.survey(file, number) {
            Ok(survey) => self.chain().put(number, survey),
            Err(error) => {
                self.chain().has_failed = true;
                self.grown.notify_all();
                return Err(error);
            }
        }
        self.grown.notify_all();
        let mut chain = self.chain();
        while chain.states.len() <= number && chain.last >= number && !chain.has_failed {
            chain = self.grown.wait(chain).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        if chain.last < number || chain.has_failed {
            return Ok(None);
        }
        let (in_quote, lines) = chain.states[number];
        let start = self.starts[number];
        let surplus = if number == 0 { 0 } else { self.first_row_surplus };
        Ok(Some(Part {
            start: start.at,
            end: if number == chain.last { u64::MAX } else { self.starts[number + 1].at },
            eol: if number == 0 { Eol::Unknown } else { self.eol },
            in_quote,
            begins_inside_row: in_quote || !start.is_behind_line_end,
            lines_before: lines.saturating_add_signed(surplus),
        }))
    }

    fn survey(&self, file: &File, number: usize) -> io::Result<Survey> {
        let start = self.starts[number].at;
        let end = self.starts.get(number + 1).map_or(u64::MAX, |next| next.at);
        let mut surveyor = Surveyor::new(self);
        let mut buffer = vec![0; SURVEY_BYTES];
        let mut at = start;
        while at < end {
            let wanted = usize::try_from(end - at).map_or(SURVEY_BYTES, |left| left.min(SURVEY_BYTES));
            let count = read_at_most(file, &mut buffer[..wanted], at)?;
            if count == 0 {
                break;
            }
            surveyor.add(&buffer[..count]);
            at += count as u64;
        }
        Ok(surveyor.survey)
    }
}

impl Chain {
    fn put(&mut self, number: usize, survey: Survey) {
        self.surveys[number] = Some(survey);
        if survey.may_end_data {
            self.last = self.last.min(number);
        }
        while let Some(Some(survey)) = self.states.len().checked_sub(1).and_then(|at| self.surveys.get(at)) {
            let (in_quote, lines) = self.states[self.states.len() - 1];
            self.states.push((survey.leaves_quote[usize::from(in_quote)], lines + survey.lines));
        }
    }
}

/// Bytes of one range, in order.
struct Surveyor<'a> {
    ranges: &'a Ranges,
    survey: Survey,
    /// The last byte so far; a line end before the range's first, so that a marker there is not missed.
    before: u8,
    /// The next byte is escaped: in text, and in CSV if the range began outside or inside quotes.
    escaped: [bool; 2],
}

impl<'a> Surveyor<'a> {
    fn new(ranges: &'a Ranges) -> Self {
        let survey = Survey { leaves_quote: [false, true], ..Survey::default() };
        Self { ranges, survey, before: b'\n', escaped: [false; 2] }
    }

    fn add(&mut self, bytes: &[u8]) {
        let eol = if self.ranges.eol == Eol::Lf { b'\n' } else { b'\r' };
        match self.ranges.format {
            Format::Csv => {
                // In PostgreSQL's counting newlines in quotes are lines too.
                self.survey.lines += memchr_iter(eol, bytes).count() as u64;
                self.find_csv_marker(bytes);
                self.quotes(bytes);
            }
            _ => self.text(bytes, eol),
        }
        self.before = bytes.last().copied().unwrap_or(self.before);
    }

    /// `\.` behind what may be a line end; if it is in quotes, time is lost and nothing else.
    fn find_csv_marker(&mut self, bytes: &[u8]) {
        if !self.ranges.has_marker || self.survey.may_end_data {
            return;
        }
        let is_line_end = |byte: u8| byte == b'\n' || byte == b'\r';
        let inside = memmem::find_iter(bytes, b"\\.").any(|at| at == 0 || is_line_end(bytes[at - 1]));
        // Cut in two by the end of what was read before.
        let across = self.before == b'\\' && bytes.first() == Some(&b'.');
        self.survey.may_end_data = inside || across;
    }

    fn quotes(&mut self, bytes: &[u8]) {
        let (quote, escape) = (self.ranges.quote, self.ranges.escape);
        if quote == escape {
            let flips = memchr_iter(quote, bytes).count() % 2 == 1;
            self.survey.leaves_quote = self.survey.leaves_quote.map(|inside| inside != flips);
            return;
        }
        for (inside, escaped) in self.survey.leaves_quote.iter_mut().zip(&mut self.escaped) {
            let mut at = 0;
            while at < bytes.len() {
                // Only a quote and an escape can be escaped; behind an escape any other byte is what it always is.
                if std::mem::take(escaped) && (bytes[at] == quote || bytes[at] == escape) {
                    at += 1;
                    continue;
                }
                let rest = &bytes[at..];
                let found = if *inside { memchr2(quote, escape, rest) } else { memchr(quote, rest) };
                let Some(offset) = found else { break };
                match rest[offset] == quote {
                    true => *inside = !*inside,
                    false => *escaped = true,
                }
                at += offset + 1;
            }
        }
    }

    fn text(&mut self, bytes: &[u8], eol: u8) {
        let mut at = 0;
        while at < bytes.len() {
            if std::mem::take(&mut self.escaped[0]) {
                self.survey.may_end_data |= bytes[at] == b'.';
                at += 1;
                continue;
            }
            let Some(offset) = memchr2(eol, b'\\', &bytes[at..]) else { break };
            match bytes[at + offset] == eol {
                true => self.survey.lines += 1,
                false => self.escaped[0] = true,
            }
            at += offset + 1;
        }
    }
}

/// The style of line ends, and by how many lines the first row counts more because it is not known there yet.
fn first_row(file: &File, options: &CopyOptions, server_version: u32) -> io::Result<Option<(Eol, i64)>> {
    let mut bytes = vec![0; FIRST_ROW_BYTES];
    let count = read_at_most(file, &mut bytes, 0)?;
    let mut scanner = LineScanner::new(options, server_version);
    let found: Result<Scan> = scanner.scan(&bytes[..count], false);
    if !matches!(found, Ok(Scan::Line { .. })) {
        return Ok(None);
    }
    let lines = |eol| i64::from(scanner.quoted_lines(eol));
    Ok(Some((scanner.eol(), lines(Eol::Unknown) - lines(scanner.eol()))))
}

/// Fills the buffer, or as much of it as the file has.
fn read_at_most(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], at + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(count)
}

/// A file from a place on.
pub(crate) struct Tail {
    pub(crate) file: std::sync::Arc<File>,
    pub(crate) at: u64,
}

impl Read for Tail {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::cut::{Cutter, Limits, Piece};
    use copyfmt::OptionValue;
    use std::sync::Arc;

    const RANGE: u64 = 50;

    /// Bytes as bad as they come, the same for the same seed.
    fn random_text(alphabet: &[&str], seed: u64, bytes: usize) -> String {
        let (mut text, mut state) = (String::new(), seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        while text.len() < bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text.push_str(alphabet[(state >> 33) as usize % alphabet.len()]);
        }
        text
    }

    fn file_of(text: &str) -> Arc<File> {
        let path = std::env::temp_dir().join(format!("loxo-ranges-{}-{:p}", std::process::id(), text));
        std::fs::write(&path, text).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        Arc::new(file)
    }

    struct Setting {
        options: CopyOptions,
        version: u32,
        rows: u64,
    }

    impl Setting {
        fn cut(&self, file: &Arc<File>, part: Option<Part>, done: &[Done]) -> Result<Vec<Piece>> {
            let cutter = Cutter {
                file: 0,
                name: "f",
                options: &self.options,
                server_version: self.version,
                header: true,
                limits: Limits { rows: self.rows, bytes: u64::MAX },
                block_bytes: 16,
                done,
                part,
            };
            let mut pieces = Vec::new();
            let mut input = Tail { file: Arc::clone(file), at: part.map_or(0, |part| part.start) };
            cutter.run(&mut input, &mut |piece| {
                pieces.push(piece);
                true
            })?;
            Ok(pieces)
        }

        /// By several threads, as a load does it. `None`: it has no ranges.
        fn cut_ranges(&self, file: &Arc<File>, done: &[Done]) -> Option<Result<Vec<Piece>>> {
            let ranges = Ranges::plan(file, RANGE, &self.options, self.version, done).unwrap()?;
            let results: Vec<Result<Vec<Piece>>> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..ranges.count())
                    .map(|number| {
                        let ranges = &ranges;
                        scope.spawn(move || {
                            let Some(part) = ranges.part(file, number).unwrap() else { return Ok(Vec::new()) };
                            let begin = |place| done.partition_point(|done| done.start < place);
                            self.cut(file, Some(part), &done[begin(part.start)..begin(part.end)])
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            Some(results.into_iter().collect::<Result<Vec<_>>>().map(|pieces| pieces.concat()))
        }
    }

    /// Place, bytes, line.
    fn told(pieces: &[Piece]) -> Vec<(u64, String, u64)> {
        let one = |p: &Piece| (p.start, String::from_utf8(p.blocks.concat()).unwrap(), p.span.lines_before);
        pieces.iter().map(one).collect()
    }

    fn options(format: &str, more: &[(&str, &str)]) -> CopyOptions {
        let pairs = [&[("format", format)], more].concat();
        let pairs: Vec<_> =
            pairs.iter().map(|(name, value)| (name.to_string(), OptionValue::Text(value.to_string()))).collect();
        CopyOptions::from_pairs(&pairs, true, 150_000).unwrap()
    }

    #[test]
    fn ranges_are_cut_as_the_whole_file_is() {
        let csv: &[&str] = &["a", ",", "\"", "\"\"", "\"x\ny\"", "\n", "\n", "\\", "\"\n", "é", "\r\n"];
        let crlf: &[&str] = &["a", ",", "\"", "\"\"", "\"\r\n", "\r\n", "\r\n", "\"\n\"", "\\", "\"\r\""];
        let cr: &[&str] = &["a", "\"", "\"\"", "\"\n\"", "\r", "\r", "\\"];
        let escaped: &[&str] = &["a", "'", "\\'", "\\\\", "\\", "'\n'", "\n", "''"];
        let tilde: &[&str] = &["a", "\"", "~\"", "~~", "~", "\"\n\"", "\n", "\"\""];
        let text: &[&str] = &["a", "\t", "\\\n", "\\", "\\\\", "\n", "\n", "\\N", "."];
        let marker: &[&str] = &["abcdefghijklmnopq", ",", "\n", "\n", "\"\n", "\"", "\\.\n", "\\."];
        let cases = [
            (options("csv", &[]), csv, "\n"),
            (options("csv", &[]), crlf, "\r\n"),
            (options("csv", &[]), cr, "\r"),
            (options("csv", &[("quote", "'"), ("escape", "\\")]), escaped, "\n"),
            (options("csv", &[("escape", "~")]), tilde, "\n"),
            (options("text", &[]), text, "\n"),
            (options("csv", &[]), marker, "\n"),
            (options("text", &[]), marker, "\n"),
        ];
        let (mut compared, mut failed) = (0, 0);
        for (index, (options, alphabet, eol)) in cases.iter().enumerate() {
            for seed in 0..150 {
                let version = if seed % 2 == 0 { 150_000 } else { 180_000 };
                let setting = Setting { options: options.clone(), version, rows: 1 };
                let data = format!("head{eol}{}", random_text(alphabet, seed + 1, 600));
                let file = file_of(&data);
                let Some(ranges) = setting.cut_ranges(&file, &[]) else { panic!("no ranges: {data:?}") };
                match (setting.cut(&file, None, &[]), ranges) {
                    (Ok(whole), Ok(ranges)) => {
                        assert_eq!(told(&ranges), told(&whole), "{index} {seed} {data:?}");
                        compared += 1;
                    }
                    (Err(whole), Err(ranges)) => {
                        assert_eq!(ranges.message(), whole.message(), "{index} {seed} {data:?}");
                        failed += 1;
                    }
                    (whole, ranges) => panic!("{index} {seed} {data:?}: {:?} {:?}", whole.err(), ranges.err()),
                }
            }
        }
        assert!(compared > 300 && failed > 100, "{compared} {failed}");
    }

    #[test]
    fn what_was_loaded_before_moves_the_ranges() {
        let alphabet = ["a", ",", "\"x\ny\"", "\n", "\n", "\"\n\"\"\""];
        for seed in 1..100 {
            let data = format!("head\n{}", random_text(&alphabet, seed, 600));
            let file = file_of(&data);
            let setting = |rows| Setting { options: options("csv", &[]), version: 150_000, rows };
            let batches = setting(seed % 20 + 1).cut(&file, None, &[]).unwrap();
            let done: Vec<Done> = batches
                .iter()
                .filter(|piece| (piece.start + seed) % 3 != 0)
                .map(|piece| Done { start: piece.start, end: piece.end, checksum: piece.checksum })
                .collect();
            let rest = setting(1).cut_ranges(&file, &done).unwrap().unwrap();
            assert_eq!(told(&rest), told(&setting(1).cut(&file, None, &done).unwrap()), "{seed} {data:?}");
            if let Some(first) = done.first() {
                let wrong = [&[Done { checksum: !first.checksum, ..*first }], &done[1..]].concat();
                assert!(setting(1).cut_ranges(&file, &wrong).unwrap().is_err(), "{seed} {data:?}");
            }
        }
    }
}
