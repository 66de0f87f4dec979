//! The bytes of one file into pieces of whole rows.
//!
//! One pass from the start finds every row's end by PostgreSQL's own rule, so the pieces are right whatever is in quotes. A piece ends with
//! the row that fills it, and where a range begins that was loaded before; such a range is read, compared with its
//! checksum and not given out. Cuts depend on the bytes alone, not on how they arrive.

use std::io::Read;

use bytes::{Bytes, BytesMut};
use copyfmt::{BinaryItem, BinarySplitter, CopyOptions, Eol, Format, LineScanner, Scan};
use pgerror::{PgError, Result, SqlState};

use crate::files::input::unreadable;
use crate::files::lines::{self, Span};
use crate::files::ranges::Part;

/// Bytes read at once, and of one CopyData message (and a row).
pub(crate) const BLOCK_BYTES: usize = 1024 * 1024;
/// PostgreSQL holds a row in one allocation of at most this size.
const ROW_BYTES_MAX: usize = 0x3fff_ffff;

/// When a piece is full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// A range of a file that was loaded before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) checksum: u32,
}

/// Whole rows of one file, next to each other.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// The file's place among the sources.
    pub(crate) file: usize,
    /// Where its rows begin and end in the file (without compression).
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) rows: u64,
    pub(crate) blocks: Vec<Bytes>,
    /// Checksum of all blocks.
    pub(crate) checksum: u32,
    /// Its lines in the file and in a COPY.
    pub(crate) span: Span,
    pub(crate) eol: Eol,
    /// No newline ends the last row: nothing may follow it in a COPY.
    pub(crate) unterminated: bool,
}

/// How to cut one file.
pub(crate) struct Cutter<'a> {
    pub(crate) file: usize,
    pub(crate) name: &'a str,
    pub(crate) options: &'a CopyOptions,
    pub(crate) server_version: u32,
    pub(crate) header: bool,
    pub(crate) limits: Limits,
    /// Read at once.
    pub(crate) block_bytes: usize,
    /// In the order of their starts.
    pub(crate) done: &'a [Done],
    /// `None` is the whole file.
    pub(crate) part: Option<Part>,
}

/// What stands at the start of the bytes at hand.
enum Item {
    More,
    /// Not data: a binary header.
    Skip(usize),
    Row {
        length: usize,
        lines: RowLines,
        terminated: bool,
    },
    /// The last row, although bytes follow it.
    LastRow {
        length: usize,
        lines: RowLines,
    },
    End,
}

/// Lines that a row takes in PostgreSQL's counting: in the file, in a COPY that begins with it, in one that does not.
#[derive(Clone, Copy, Default)]
struct RowLines {
    file: u64,
    first: u64,
    later: u64,
}

/// Finds rows in either kind of file.
enum Rows {
    Lines(Box<LineScanner>),
    Binary(BinarySplitter),
}

impl Rows {
    fn next(&mut self, bytes: &[u8], eof: bool) -> Result<Item> {
        let scanner = match self {
            Rows::Lines(scanner) => scanner,
            Rows::Binary(splitter) => return binary_item(splitter, bytes, eof),
        };
        let eol_before = scanner.eol();
        let found = scanner.scan(bytes, eof)?;
        let lines = |scanner: &LineScanner| {
            let count = |eol| u64::from(scanner.quoted_lines(eol)) + 1;
            RowLines { file: count(eol_before), first: count(Eol::Unknown), later: count(scanner.eol()) }
        };
        let item = match found {
            Scan::More => return Ok(Item::More),
            Scan::Line { next, .. } => Item::Row { length: next, lines: lines(scanner), terminated: true },
            Scan::Last if bytes.is_empty() => Item::End,
            Scan::Last => Item::Row { length: bytes.len(), lines: lines(scanner), terminated: false },
            Scan::Marker { content: 0, .. } => Item::End,
            Scan::Marker { content, .. } => Item::LastRow { length: content, lines: lines(scanner) },
        };
        scanner.reset();
        Ok(item)
    }

    /// Bytes of the line at hand before the place that the scanner has come to.
    fn line_bytes(&self) -> usize {
        match self {
            Rows::Lines(scanner) => scanner.position(),
            Rows::Binary(_) => 0,
        }
    }

    fn eol(&self) -> Eol {
        match self {
            Rows::Lines(scanner) => scanner.eol(),
            Rows::Binary(_) => Eol::Unknown,
        }
    }
}

fn binary_item(splitter: &mut BinarySplitter, bytes: &[u8], eof: bool) -> Result<Item> {
    let lines = RowLines { file: 1, first: 1, later: 1 };
    Ok(match splitter.next(bytes, eof, None)? {
        BinaryItem::More => Item::More,
        BinaryItem::Header(length) => Item::Skip(length),
        BinaryItem::Tuple(length) => Item::Row { length, lines, terminated: true },
        BinaryItem::Trailer(length) if length < bytes.len() => {
            let code = SqlState::BAD_COPY_FILE_FORMAT;
            return Err(PgError::new(code, "received copy data after EOF marker"));
        }
        BinaryItem::Trailer(_) => Item::End,
    })
}

/// The piece that grows.
struct Growing {
    start: u64,
    rows: u64,
    blocks: Vec<Bytes>,
    checksum: crc32fast::Hasher,
    span: Span,
    unterminated: bool,
}

impl Growing {
    fn new(start: u64, lines_before: u64) -> Self {
        let span = Span { lines_before, ..Span::default() };
        Self { start, rows: 0, blocks: Vec::new(), checksum: crc32fast::Hasher::new(), span, unterminated: false }
    }

    fn count(&mut self, lines: RowLines) {
        if self.rows == 0 {
            self.span.first_row = [lines.file, lines.first, lines.later];
        } else {
            self.span.more_lines += lines.later;
        }
        self.rows += 1;
    }
}

impl Cutter<'_> {
    /// Reads `input` to its end and gives the pieces to `emit` until that says `false`.
    pub(crate) fn run(&self, input: &mut dyn Read, emit: &mut dyn FnMut(Piece) -> bool) -> Result<()> {
        let (start, lines) = self.part.map_or((0, 0), |part| (part.start, part.lines_before));
        let has_header = self.header && self.options.format != Format::Binary;
        let mut state = State {
            cutter: self,
            rows: self.rows(),
            buffer: BytesMut::new(),
            // From `taken` on, bytes are of no whole row yet.
            taken: 0,
            buffer_at: start,
            end: self.part.map_or(u64::MAX, |part| part.end),
            lines,
            skip_due: if start == 0 { has_header } else { self.part.is_some_and(|part| part.begins_inside_row) },
            done: self.done,
            growing: Growing::new(start, lines),
        };
        let mut eof = false;
        loop {
            if !state.rows_at_hand(eof, emit)? {
                return Ok(());
            }
            eof = state.read(input)? == 0;
        }
    }

    fn rows(&self) -> Rows {
        let scanner = match self.part {
            _ if self.options.format == Format::Binary => return Rows::Binary(BinarySplitter::new()),
            Some(part) => LineScanner::amid(self.options, self.server_version, part.eol, part.in_quote),
            None => LineScanner::new(self.options, self.server_version),
        };
        Rows::Lines(Box::new(scanner))
    }
}

struct State<'a> {
    cutter: &'a Cutter<'a>,
    rows: Rows,
    buffer: BytesMut,
    taken: usize,
    /// The buffer's place in the file.
    buffer_at: u64,
    /// Rows that begin here or later are not wanted.
    end: u64,
    /// Lines before the row at `taken`.
    lines: u64,
    /// The first row is a header, or the rest of a row that another reader has.
    skip_due: bool,
    /// Ranges loaded before that are not behind us yet.
    done: &'a [Done],
    growing: Growing,
}

impl State<'_> {
    fn read(&mut self, input: &mut dyn Read) -> Result<usize> {
        let pending = self.buffer.len() - self.taken;
        if pending >= ROW_BYTES_MAX {
            let error = PgError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row is longer than 1 GB");
            return Err(self.locate(error));
        }
        let (old, wanted) = (self.buffer.len(), self.cutter.block_bytes);
        self.buffer.resize(old + wanted, 0);
        // Decoders and pipes give little at a time; a block is cleared once, not for each of their answers.
        let mut count = 0;
        while count < wanted {
            match input.read(&mut self.buffer[old + count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(unreadable(self.cutter.name, &e)),
            }
        }
        self.buffer.truncate(old + count);
        Ok(count)
    }

    /// Takes all whole rows of the buffer. `false`: the file's data ends here, or nobody wants more.
    fn rows_at_hand(&mut self, eof: bool, emit: &mut dyn FnMut(Piece) -> bool) -> Result<bool> {
        loop {
            let item = self.rows.next(&self.buffer[self.taken..], eof);
            if item.is_err() && self.skip_due && self.buffer_at > 0 {
                // The reader that has this row from its beginning meets the same error and knows its line.
                return Ok(false);
            }
            let item = match item {
                Ok(item) => item,
                Err(error) => {
                    let error = self.locate(self.first_of_line(error));
                    self.rows_before_error(emit)?;
                    return Err(error);
                }
            };
            match item {
                Item::More => {
                    self.close_block();
                    return Ok(true);
                }
                Item::Skip(length) => self.skip(length),
                Item::Row { length, lines, .. } if self.skip_due => {
                    self.check_header(length)?;
                    self.skip_due = false;
                    self.lines += lines.file;
                    self.skip(length);
                    if self.buffer_at >= self.end {
                        return self.end(emit);
                    }
                }
                Item::Row { length, lines, terminated } => {
                    self.growing.unterminated = !terminated;
                    if !self.row(length, lines, emit)? {
                        return Ok(false);
                    }
                }
                Item::LastRow { .. } if self.skip_due => return self.end(emit),
                Item::LastRow { length, lines } => {
                    self.growing.unterminated = true;
                    return Ok(self.row(length, lines, emit)? && self.end(emit)?);
                }
                Item::End => return self.end(emit),
            }
        }
    }

    /// Bytes before the first row.
    fn skip(&mut self, length: usize) {
        debug_assert!(self.taken == 0 && self.growing.rows == 0);
        let _ = self.buffer.split_to(length);
        self.buffer_at += length as u64;
        self.growing = Growing::new(self.buffer_at, self.lines);
    }

    fn row(&mut self, length: usize, lines: RowLines, emit: &mut dyn FnMut(Piece) -> bool) -> Result<bool> {
        self.taken += length;
        self.growing.count(lines);
        self.lines += lines.file;
        let at = self.buffer_at + self.taken as u64;
        let is_full = match self.done.first() {
            Some(done) if done.start < self.growing.start => return Err(self.changed()),
            Some(done) if done.start == self.growing.start => self.reaches(done.end, at)?,
            Some(done) => self.reaches(done.start, at)? || self.exceeds_limits(at),
            None => self.exceeds_limits(at),
        };
        if at >= self.end {
            return self.end(emit);
        }
        if is_full {
            return self.finish_piece(emit);
        }
        if self.taken >= self.cutter.block_bytes {
            self.close_block();
        }
        Ok(true)
    }

    fn exceeds_limits(&self, at: u64) -> bool {
        let limits = &self.cutter.limits;
        self.growing.rows >= limits.rows || at - self.growing.start >= limits.bytes
    }

    /// Is the row's end the place where a range loaded before begins or ends? It must not be behind it.
    fn reaches(&self, place: u64, at: u64) -> Result<bool> {
        if at > place { Err(self.changed()) } else { Ok(at == place) }
    }

    fn close_block(&mut self) {
        if self.taken == 0 {
            return;
        }
        let block = self.buffer.split_to(self.taken).freeze();
        self.buffer_at += self.taken as u64;
        self.taken = 0;
        self.growing.checksum.update(&block);
        // A range that was loaded before is only asked for its checksum.
        if self.done.first().is_none_or(|done| done.start != self.growing.start) {
            self.growing.blocks.push(block);
        }
    }

    fn finish_piece(&mut self, emit: &mut dyn FnMut(Piece) -> bool) -> Result<bool> {
        self.close_block();
        let grown = std::mem::replace(&mut self.growing, Growing::new(self.buffer_at, self.lines));
        let (checksum, end) = (grown.checksum.finalize(), self.buffer_at);
        if let Some(done) = self.done.first().filter(|done| done.start == grown.start) {
            if done.end != end || done.checksum != checksum {
                return Err(self.changed());
            }
            self.done = &self.done[1..];
            return Ok(true);
        }
        Ok(emit(Piece {
            file: self.cutter.file,
            start: grown.start,
            end,
            rows: grown.rows,
            blocks: grown.blocks,
            checksum,
            span: grown.span,
            eol: self.rows.eol(),
            unterminated: grown.unterminated,
        }))
    }

    fn end(&mut self, emit: &mut dyn FnMut(Piece) -> bool) -> Result<bool> {
        if self.growing.rows > 0 {
            self.finish_piece(emit)?;
        }
        if self.done.is_empty() { Ok(false) } else { Err(self.changed()) }
    }

    /// Gives the rows before an error: in them the server may find one that comes first.
    fn rows_before_error(&mut self, emit: &mut dyn FnMut(Piece) -> bool) -> Result<()> {
        let is_done = self.done.first().is_some_and(|done| done.start == self.growing.start);
        if self.growing.rows > 0 && !is_done {
            self.finish_piece(emit)?;
        }
        Ok(())
    }

    /// The error about the line at hand, unless bytes before its place are wrong in their encoding.
    fn first_of_line(&self, error: PgError) -> PgError {
        let line = &self.buffer[self.taken..];
        copyfmt::check_line(line, self.rows.line_bytes().min(line.len()), self.cutter.options).err().unwrap_or(error)
    }

    /// No server sees the header.
    fn check_header(&self, length: usize) -> Result<()> {
        if self.buffer_at > 0 {
            return Ok(());
        }
        copyfmt::check_line(&self.buffer, length, self.cutter.options).map_err(|error| self.locate(error))
    }

    fn locate(&self, error: PgError) -> PgError {
        lines::locate(error, self.cutter.name, self.lines + 1)
    }

    fn changed(&self) -> PgError {
        let name = self.cutter.name;
        PgError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("\"{name}\" is not the file of which a part was loaded before"),
        )
        .detail("What loxo_load_progress says of it does not fit its bytes.")
        .hint("To load another file, give the load another name with --name.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use copyfmt::OptionValue;

    fn pieces(data: &[u8], format: &str, rows: u64, done: &[Done], block_bytes: usize) -> Result<Vec<Piece>> {
        let (pieces, error) = pieces_and_error(data, format, (rows, false), done, block_bytes);
        error.map_or(Ok(pieces), Err)
    }

    /// What is given before an error too.
    fn pieces_and_error(
        data: &[u8],
        format: &str,
        (rows, header): (u64, bool),
        done: &[Done],
        block_bytes: usize,
    ) -> (Vec<Piece>, Option<PgError>) {
        let pairs = [("format".to_owned(), OptionValue::Text(format.to_owned()))];
        let options = CopyOptions::from_pairs(&pairs, true, 150_000).unwrap();
        let limits = Limits { rows, bytes: u64::MAX };
        let cutter = Cutter {
            file: 0,
            name: "f",
            options: &options,
            server_version: 150_000,
            header,
            limits,
            block_bytes,
            done,
            part: None,
        };
        let mut pieces = Vec::new();
        let result = cutter.run(&mut &data[..], &mut |piece| {
            pieces.push(piece);
            true
        });
        (pieces, result.err())
    }

    fn text(piece: &Piece) -> String {
        String::from_utf8(piece.blocks.concat()).unwrap()
    }

    const ROWS: &str = "1,\"a\r\n,\"\"\"\r\n2,b\r\n3,\"\n\n\"\r\n\r\n5,\"x\"";

    #[test]
    fn the_cuts_do_not_depend_on_how_the_bytes_come() {
        let expected = ["1,\"a\r\n,\"\"\"\r\n2,b\r\n", "3,\"\n\n\"\r\n\r\n", "5,\"x\""];
        for step in [1, 2, 3, 7, 100] {
            let pieces = pieces(ROWS.as_bytes(), "csv", 2, &[], step).unwrap();
            assert_eq!(pieces.iter().map(text).collect::<Vec<_>>(), expected, "{step}");
            assert_eq!(pieces.iter().map(|piece| piece.unterminated).collect::<Vec<_>>(), [false, false, true]);
            assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    #[test]
    fn rows_before_an_error_are_given_first() {
        for (last, message) in
            [(&b"3,c\r\n"[..], "unquoted carriage return"), (b"3,\xff\r\n", "0xff"), (b"3,\xc3\r\n", "0xc3 0x0d")]
        {
            for step in [1, 3, 100] {
                let (given, error) = pieces_and_error(&[b"1,a\n2,b\n", last].concat(), "csv", (100, false), &[], step);
                assert_eq!(given.iter().map(text).collect::<Vec<_>>(), ["1,a\n2,b\n"]);
                let error = error.unwrap();
                assert!(error.message().starts_with("f:3: ") && error.message().contains(message), "{error:?}");
            }
        }
        let (given, error) = pieces_and_error(b"k,\xff\n1,a\n", "csv", (100, true), &[], 3);
        assert!(given.is_empty() && error.unwrap().message().starts_with("f:1: invalid byte sequence"));
    }

    #[test]
    fn ranges_loaded_before_are_left_out_and_compared() {
        let all = pieces(ROWS.as_bytes(), "csv", 1, &[], 5).unwrap();
        let range = |piece: &Piece| Done { start: piece.start, end: piece.end, checksum: piece.checksum };
        let done = [range(&all[1]), range(&all[3])];
        let rest = pieces(ROWS.as_bytes(), "csv", 100, &done, 5).unwrap();
        let texts: Vec<String> = rest.iter().map(text).collect();
        assert_eq!(texts, [text(&all[0]), text(&all[2]), text(&all[4])]);
        assert_eq!(rest[2].span.lines_before, all[4].span.lines_before);
        let changes: [&dyn Fn(&mut Done); 4] =
            [&|d| d.checksum ^= 1, &|d| d.end += 1, &|d| d.start += 1, &|d| (d.start, d.end) = (1 << 40, 2 << 40)];
        for change in changes {
            let mut wrong = done;
            change(&mut wrong[1]);
            let error = pieces(ROWS.as_bytes(), "csv", 100, &wrong, 5).unwrap_err();
            assert_eq!(error.code(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "{wrong:?}");
        }
    }

    #[test]
    fn lines_are_counted_as_a_copy_of_the_whole_file_would() {
        let all = pieces(ROWS.as_bytes(), "csv", 1, &[], 100).unwrap();
        // Newlines in quotes count if they are of the file's own style, and the first row is read before it is known: \r.
        assert_eq!(all.iter().map(|piece| piece.span.lines_before).collect::<Vec<_>>(), [0, 2, 3, 4, 5]);
    }

    #[test]
    fn binary_rows_stay_whole() {
        let tuple = |value: &[u8]| [&[0, 1, 0, 0, 0, value.len() as u8], value].concat();
        let tuples = [tuple(b"a"), tuple(b""), tuple(b"ccc")];
        let mut data = copyfmt::BINARY_HEADER.to_vec();
        data.extend(tuples.concat());
        data.extend(copyfmt::BINARY_TRAILER);
        for step in [1, 4, 1000] {
            let pieces = pieces(&data, "binary", 2, &[], step).unwrap();
            let blocks: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.blocks.concat()).collect();
            assert_eq!(blocks, [tuples[..2].concat(), tuples[2].clone()]);
        }
        data.push(0);
        assert!(pieces(&data, "binary", 2, &[], 1000).unwrap_err().message().contains("after EOF marker"));
    }
}
