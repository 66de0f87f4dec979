//! Rows converted ahead of the router, so that one COPY can use several processor cores.
//!
//! ```text
//!  chunks ─▶ Cutter ─▶ block ─▶ ParallelParse::work  (any thread) ─┐
//!                      block ─▶ ParallelParse::work  (any thread) ─┴─▶ Router::push_parsed, in their order
//! ```
//!
//! Only the fast lane's work is done ahead: what it makes of a row depends on nothing but the row. A [`Stretch`] is a series of
//! such rows. The router comes to the block as to any other chunk; where it stands at the start of a row and a stretch begins at that
//! very byte, it takes the stretch over instead of reading it. All else it reads itself: so errors, line numbers, conversions
//! and ends of data have one place, and a cut that was guessed wrong costs time only.

use bytes::Bytes;
use memchr::{memchr_iter, memrchr};

use crate::CopyOptions;
use crate::fast::{FastLane, Tuple};
use crate::lines::linelog;
use crate::options::Format;
use crate::place::Placer;
use crate::scan::{Eol, LineScanner, Scan};
use crate::utf8::{Encoding, Validity};

/// Bytes of a block: enough that handing it over is little beside working on it.
pub const BLOCK_BYTES: usize = 256 * 1024;
/// Stretches of a block, at most; where more rows than that are out of the ordinary, the router reads the rest.
const STRETCHES_MAX: usize = 1024;
/// What a stretch has for a destination, at most, and one row more: it goes into the output as one, which must not outgrow its frame.
const RUN_BYTES_MAX: usize = 32 * 1024;
/// Bytes of a usual row, and of what becomes of it. Memory for such blocks is there from the start, from the COPY's own thread:
/// what helpers' threads allocate stays with their heaps.
const ROW_BYTES: usize = 32;
const TUPLE_BYTES: usize = 80;
/// Runs for all destinations together: there are fewer stretches if they are many.
const RUNS_MAX: usize = 16 * 1024;

/// Cuts input into blocks that begin and end where rows do, as far as that can be told at a glance.
pub struct Cutter {
    /// Quotes, if newlines in them do not end a row.
    quote: Option<u8>,
    block_bytes: usize,
    pieces: Vec<Bytes>,
    bytes: usize,
    in_quotes: bool,
}

impl Cutter {
    /// At the start of a row. `None` if the format's rows cannot be found without reading them.
    pub fn new(options: &CopyOptions, block_bytes: usize) -> Option<Self> {
        let quote = match options.format {
            Format::Text => None,
            Format::Csv if options.escape == options.quote => Some(options.quote),
            Format::Csv | Format::Binary => return None,
        };
        Some(Cutter { quote, block_bytes, pieces: Vec::new(), bytes: 0, in_quotes: false })
    }

    /// The next bytes; gives a block once there is one.
    pub fn push(&mut self, chunk: Bytes) -> Option<Vec<Bytes>> {
        let quotes = self.quote.map_or(0, |quote| memchr_iter(quote, &chunk).count());
        self.in_quotes ^= quotes % 2 == 1;
        self.bytes += chunk.len();
        let full = self.bytes >= self.block_bytes;
        let cut = if full { self.last_row_end(&chunk) } else { None };
        let Some(cut) = cut else {
            self.pieces.push(chunk);
            return None;
        };
        let mut block = std::mem::take(&mut self.pieces);
        block.push(chunk.slice(..cut));
        self.bytes = chunk.len() - cut;
        if self.bytes > 0 {
            self.pieces.push(chunk.slice(cut..));
        }
        Some(block)
    }

    /// Is a row so long that its end should not be waited for?
    pub fn is_stuck(&self) -> bool {
        self.bytes >= 4 * self.block_bytes
    }

    /// The bytes behind the last block. What comes next must begin at the start of a row.
    pub fn rest(&mut self) -> Vec<Bytes> {
        (self.bytes, self.in_quotes) = (0, false);
        std::mem::take(&mut self.pieces)
    }

    /// Behind the last newline that seems to end a row.
    fn last_row_end(&self, chunk: &[u8]) -> Option<usize> {
        let mut end = chunk.len();
        let mut in_data = self.in_quotes;
        while let Some(newline) = memrchr(b'\n', &chunk[..end]) {
            match self.quote {
                // An escaped newline is data.
                None => in_data = chunk[..newline].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1,
                Some(quote) => in_data ^= memchr_iter(quote, &chunk[newline..end]).count() % 2 == 1,
            }
            if !in_data {
                return Some(newline + 1);
            }
            end = newline;
        }
        None
    }
}

/// Rows of the fast lane, one after the other.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stretch {
    /// Their bytes in the block.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Their numbers among the rows of all stretches.
    pub(crate) first_row: usize,
    pub(crate) rows_end: usize,
}

/// Where a stretch ended: at a row that is not the fast lane's, unless it was long enough.
struct Converted {
    end: usize,
    is_long: bool,
}

/// What a stretch has for one destination, behind what those before it have.
#[derive(Clone, Copy, Default)]
pub(crate) struct Run {
    /// Where its tuples and the distances of its lines end.
    tuples_end: usize,
    distances_end: usize,
    pub(crate) rows: usize,
    /// Lines of the first and the last row, counted from 1 at the stretch's start.
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// One destination's part of a block.
#[derive(Default)]
struct Part {
    tuples: Vec<u8>,
    /// For each row of a stretch but the first one: lines since the row before, as the line log keeps them.
    distances: Vec<u8>,
    /// One for each stretch.
    runs: Vec<Run>,
    /// That of the stretch being worked on, and where its tuples begin.
    run: Run,
    run_start: usize,
}

impl Part {
    /// With room for its part of a usual block.
    fn for_one_of(destinations: usize) -> Self {
        let rows = BLOCK_BYTES / ROW_BYTES / destinations.max(1);
        Part { tuples: Vec::with_capacity(rows * TUPLE_BYTES), distances: Vec::with_capacity(rows), ..Part::default() }
    }

    #[inline]
    fn add(&mut self, tuple: &Tuple, length: usize, line: u64) {
        tuple.append_to(&mut self.tuples, length);
        match self.run.rows {
            0 => self.run.first = line,
            _ => linelog::put_distance(&mut self.distances, line - self.run.last),
        }
        self.run.last = line;
        self.run.rows += 1;
    }

    #[inline]
    fn run_is_long(&self) -> bool {
        self.tuples.len() - self.run_start >= RUN_BYTES_MAX
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        self.runs.push(Run { tuples_end: self.tuples.len(), distances_end: self.distances.len(), ..run });
        self.run_start = self.tuples.len();
    }

    fn clear(&mut self) {
        self.tuples.clear();
        self.distances.clear();
        self.runs.clear();
        self.run_start = 0;
    }
}

/// Works on one block after another; any thread may do it.
pub struct ParallelParse {
    lane: FastLane,
    tuple: Tuple,
    placer: Placer,
    scanner: LineScanner,
    encoding: Encoding,
    crlf: bool,
    block: Bytes,
    is_valid: bool,
    stretches: Vec<Stretch>,
    parts: Vec<Part>,
    /// For each row: bytes of it and of all rows before, line ends left out.
    contents: Vec<u32>,
}

impl ParallelParse {
    /// `scanner` knows the line ends.
    pub(crate) fn new(lane: FastLane, placer: Placer, scanner: LineScanner, encoding: Encoding) -> Self {
        ParallelParse {
            lane,
            tuple: Tuple::new(),
            parts: (0..placer.destinations()).map(|_| Part::for_one_of(placer.destinations())).collect(),
            placer,
            crlf: scanner.eol() == Eol::CrLf,
            scanner,
            encoding,
            block: Bytes::from(Vec::with_capacity(BLOCK_BYTES + BLOCK_BYTES / 4)),
            is_valid: false,
            stretches: Vec::new(),
            contents: Vec::with_capacity(BLOCK_BYTES / ROW_BYTES),
        }
    }

    /// Converts the rows of a block.
    pub fn work(&mut self, pieces: &[Bytes]) {
        self.stretches.clear();
        self.contents.clear();
        self.parts.iter_mut().for_each(Part::clear);
        let length = pieces.iter().map(Bytes::len).sum();
        // The fast lane reads a little behind the last row.
        let mut block = self.empty_buffer();
        block.reserve(length + self.lane.margin());
        pieces.iter().for_each(|piece| block.extend_from_slice(piece));
        block.resize(length + self.lane.margin(), 0);
        self.is_valid = matches!(self.encoding.validate(&block[..length]), Validity::Valid);
        if self.is_valid {
            self.convert(&block, length);
        }
        self.block = Bytes::from(block).slice(..length);
    }

    /// The buffer of the block before, if nothing keeps it any more.
    fn empty_buffer(&mut self) -> Vec<u8> {
        let before = std::mem::take(&mut self.block);
        let mut buffer = if before.is_unique() { Vec::from(before) } else { Vec::new() };
        buffer.clear();
        buffer
    }

    /// Bytes of the block.
    pub fn bytes(&self) -> usize {
        self.block.len()
    }

    /// The block, to be read like any chunk, and whether it is known to be valid in its encoding.
    pub(crate) fn block(&self) -> (Bytes, bool) {
        (self.block.clone(), self.is_valid)
    }

    pub(crate) fn destinations(&self) -> usize {
        self.parts.len()
    }

    /// The stretch that begins at this byte, and its number.
    pub(crate) fn stretch_at(&self, start: usize) -> Option<(usize, Stretch)> {
        let number = self.stretches.binary_search_by_key(&start, |stretch| stretch.start).ok()?;
        Some((number, self.stretches[number]))
    }

    /// What a stretch has for a destination: tuples, distances of lines.
    pub(crate) fn run(&self, stretch: usize, dest: usize) -> (&[u8], &[u8], &Run) {
        let part = &self.parts[dest];
        let before = stretch.checked_sub(1).map_or(Run::default(), |before| part.runs[before]);
        let run = &part.runs[stretch];
        let tuples = &part.tuples[before.tuples_end..run.tuples_end];
        (tuples, &part.distances[before.distances_end..run.distances_end], run)
    }

    /// Bytes of the rows before a stretch, then with each of its rows.
    pub(crate) fn contents(&self, stretch: Stretch) -> (u32, &[u32]) {
        let before = stretch.first_row.checked_sub(1).map_or(0, |row| self.contents[row]);
        (before, &self.contents[stretch.first_row..stretch.rows_end])
    }

    fn convert(&mut self, input: &[u8], end: usize) {
        let stretches_max = STRETCHES_MAX.min(RUNS_MAX / self.parts.len().max(1));
        let mut at = 0;
        while at < end && self.stretches.len() < stretches_max {
            let stretch = self.stretch(input, at, end);
            at = stretch.end;
            if stretch.is_long {
                continue;
            }
            // The row that ended the stretch is the router's.
            self.scanner.reset();
            match self.scanner.scan(&input[at..end], false) {
                Ok(Scan::Line { next, .. }) => at += next,
                _ => return,
            }
        }
    }

    /// Converts rows until one is not the fast lane's, or there are many.
    fn stretch(&mut self, input: &[u8], start: usize, end: usize) -> Converted {
        let first_row = self.contents.len();
        let mut content = self.contents.last().copied().unwrap_or(0);
        let (mut at, mut line, mut is_long) = (start, 0, false);
        self.placer.begin_turn();
        while at < end && !is_long {
            let row = self.lane.row(input, at, self.crlf, &mut self.tuple, &mut self.placer.spans);
            let Some((next, length)) = row else { break };
            debug_assert!(next <= end, "a row ends in the bytes behind its block");
            let Ok(dest) = self.placer.place(self.tuple.get(length)) else { break };
            line += 1;
            self.parts[dest].add(&self.tuple, length, line);
            is_long = self.parts[dest].run_is_long();
            content += (next - at - 1 - usize::from(self.crlf)) as u32;
            self.contents.push(content);
            at = next;
        }
        if line > 0 {
            self.stretches.push(Stretch { start, end: at, first_row, rows_end: self.contents.len() });
            self.parts.iter_mut().for_each(Part::end_run);
        }
        Converted { end: at, is_long }
    }
}
