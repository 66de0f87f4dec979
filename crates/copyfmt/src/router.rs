//! The state machine that drives one COPY FROM.

use std::collections::HashMap;

use bytes::Bytes;
use pgerror::{PgError, Result};
use placement::KeyType;

use crate::CopyOptions;
use crate::binary::BinarySplitter;
use crate::convert::{Codec, Outcome};
use crate::fast::{FastLane, Shape, Tuple};
use crate::fields::Fields;
use crate::input::{Input, RowAt};
use crate::lines::batches::Batches;
use crate::lines::context::{self, Place};
use crate::lines::history::{History, LineFinder};
use crate::lines::linelog::LineLog;
use crate::options::{Format, Header, OnError};
use crate::parallel::ParallelParse;
use crate::place::Placer;
use crate::scan::{Eol, LineScanner, Scan, bad_format};
use crate::spec::{Output, RouterSpec, Source};
use crate::utf8::Encoding;

mod answers;
pub(crate) mod checks;
mod quotes;
mod takeover;
mod tuples;

/// What the caller must do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// [`Router::push`] more input, or [`Router::finish`].
    NeedInput,
    /// Take `outputs[dest]` and put an empty buffer in its place.
    Full {
        /// The destination.
        dest: usize,
    },
    /// Let a datanode convert a value, then [`Router::supply`] it (or [`Router::skip_row`]).
    Convert(Conversion),
    /// All rows are in the outputs. Input that follows is ignored, as PostgreSQL does.
    End,
}

/// A value that PostgreSQL must read: `SELECT $1::type`, the result wanted in binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Index into the columns of the COPY.
    pub column: usize,
    /// The type to convert to.
    pub type_oid: u32,
    /// Its `atttypmod`.
    pub type_modifier: i32,
    /// The value: text in the input's encoding, or the type's send format. NULL only if that is checked.
    pub value: Option<Vec<u8>>,
    /// Only whether the type takes the value is asked (`ON_ERROR ignore`).
    pub is_check: bool,
    /// The value is binary (a binary COPY whose key has a type modifier, or is a text in another encoding).
    pub is_binary: bool,
    /// A text in another encoding than the server's, wanted in the server's: that is what is hashed.
    pub is_foreign: bool,
}

/// A column as the row loops need it.
pub(crate) struct Column {
    name: String,
    type_oid: u32,
    type_modifier: i32,
    codec: Codec,
    /// The part of the distribution key that this column is.
    key: Option<(usize, KeyType)>,
    force_null: bool,
    force_not_null: bool,
    /// What PostgreSQL made of texts in this COPY. Input functions are stable: within a transaction the same text gives
    /// the same value.
    remembered: HashMap<Vec<u8>, Vec<u8>>,
    /// The type has been found to take NULL (a domain may not).
    takes_null: bool,
}

impl Column {
    fn shape(&self) -> Shape {
        let Column { codec, force_null, force_not_null, .. } = *self;
        Shape { codec, key: self.key.map(|(part, _)| part), force_null, force_not_null }
    }
}

/// The row being worked on, if it could not be done in one go.
#[derive(Clone, Copy)]
struct Current {
    at: RowAt,
    /// The next column to convert.
    column: usize,
    /// A conversion is out.
    waiting: bool,
    /// The header line: PostgreSQL must say whether it is right in its encoding.
    is_header: bool,
    /// Line feeds and carriage returns in quotes.
    quoted_lf: u32,
    quoted_cr: u32,
}

/// What looking for the next row gave.
enum Progress {
    /// A row is current.
    Row,
    /// Something else was read, e.g. a header.
    Other,
    NeedInput,
}

/// Routes the rows of one COPY FROM. See the crate's page for the picture.
pub struct Router {
    relation: String,
    columns: Vec<Column>,
    options: CopyOptions,
    encoding: Encoding,
    source: Source,
    output: Output,
    frame_bytes: usize,
    clockless: Vec<usize>,
    timezone_is_utc: bool,
    fast: Option<(FastLane, Tuple)>,
    scanner: LineScanner,
    splitter: BinarySplitter,
    fields: Fields,
    placer: Placer,
    log: LineLog,
    batches: Batches,
    /// Only of input that cannot be read again.
    history: Option<History>,
    server_version: u32,
    input: Input,
    /// Rows of the current chunk that were converted ahead.
    parsed: Option<Box<ParallelParse>>,
    /// Destinations that have got theirs of the stretch being taken over.
    taken_over: usize,
    rows_in_parallel: u64,
    /// The binary tuple, or the key values, of the current row.
    row: Vec<u8>,
    current: Option<Current>,
    /// The header line in the server's encoding.
    header_text: Option<Vec<u8>>,
    /// A datanode has got the start of a row that ends before its time.
    is_cut: bool,
    /// Lines read (`cur_lineno`).
    line: u64,
    rows: u64,
    skipped: u64,
    trailer_seen: bool,
    done: bool,
}

impl Router {
    /// Checks the spec. Errors: 0A000 for what cannot be routed (encodings that cannot be split, types that cannot be
    /// transcoded), 42P10 for FORCE_… columns that are not in the COPY.
    pub fn new(spec: RouterSpec) -> Result<Self> {
        let options = spec.options;
        let encoding = options.input_encoding(&spec.client_encoding)?;
        let placer = Placer::new(spec.routing, spec.columns.len())?;
        let is_text = options.format != Format::Binary;
        let transcodes = spec.output == Output::Binary && is_text;
        if transcodes && (encoding == Encoding::Other || options.default.is_some()) {
            return Err(PgError::internal(
                "this COPY must be routed raw: its encoding, or DEFAULT, needs the text form",
            ));
        }
        if !is_text && spec.output == Output::Raw {
            return Err(PgError::internal("a binary COPY is routed as binary"));
        }
        let mut columns = Vec::with_capacity(spec.columns.len());
        for (index, column) in spec.columns.into_iter().enumerate() {
            let byte_is_character = transcodes && encoding == Encoding::SqlAscii;
            let codec = Codec::new(column.type_oid, column.type_modifier, byte_is_character);
            if transcodes && codec == Codec::Unknown {
                return Err(PgError::internal(format!("column {} cannot be transcoded", column.name)));
            }
            columns.push(Column {
                codec,
                key: placer.part_of(index),
                force_null: options.force_null.contains(&column.name),
                force_not_null: options.force_not_null.contains(&column.name),
                remembered: HashMap::new(),
                takes_null: false,
                name: column.name,
                type_oid: column.type_oid,
                type_modifier: column.type_modifier,
            });
        }
        checks::forced_columns(&options, &columns)?;
        let has_fields = transcodes && !columns.is_empty();
        let shapes = || columns.iter().map(Column::shape).collect();
        let fast = if has_fields { FastLane::new(&options, shapes(), spec.timezone_is_utc) } else { None };
        let fast = fast.map(|fast| (fast, Tuple::new()));
        Ok(Router {
            relation: spec.relation,
            fast,
            scanner: LineScanner::new(&options, spec.server_version),
            columns,
            options,
            encoding,
            source: spec.source,
            output: spec.output,
            frame_bytes: spec.frame_bytes,
            clockless: spec.clockless,
            timezone_is_utc: spec.timezone_is_utc,
            splitter: BinarySplitter::new(),
            fields: Fields::default(),
            log: LineLog::new(placer.destinations()),
            batches: Batches::default(),
            history: (transcodes && spec.source == Source::Client).then(History::default),
            server_version: spec.server_version,
            placer,
            input: Input::new(is_text.then_some(encoding)),
            parsed: None,
            taken_over: 0,
            rows_in_parallel: 0,
            row: Vec::new(),
            current: None,
            header_text: None,
            is_cut: false,
            line: 0,
            rows: 0,
            skipped: 0,
            trailer_seen: false,
            done: false,
        })
    }

    /// How many outputs [`Router::step`] needs.
    pub fn destinations(&self) -> usize {
        self.placer.destinations()
    }

    /// Rows put into outputs so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows given up by [`Router::skip_row`].
    pub fn rows_skipped(&self) -> u64 {
        self.skipped
    }

    /// Which input line was the n-th sent to a destination.
    pub fn line_log(&self) -> &LineLog {
        &self.log
    }

    /// Batches of rows that one PostgreSQL would have stored so far.
    pub fn batches(&self) -> u64 {
        self.batches.count()
    }

    /// Would one PostgreSQL have stored the row at `line`, and so have found its key taken, before it read line `later`? As
    /// if WHERE left no row out.
    pub fn is_stored_before(&self, line: u64, later: u64) -> bool {
        self.batches.is_stored_before(line, later)
    }

    /// The text of a line read not long ago, line end left out; `None` if it is forgotten, or the source is a file, which
    /// can be read again with a [`Router::line_finder`].
    pub fn recent_line(&self, line: u64) -> Option<Vec<u8>> {
        self.history.as_ref()?.line(line, self.encoding, |eol| self.fresh_scanner(eol))
    }

    /// Finds a line's text in the same input when that is read again from its start.
    pub fn line_finder(&self, line: u64) -> LineFinder {
        LineFinder::new(self.encoding, self.fresh_scanner(Eol::Unknown), 0, line)
    }

    fn fresh_scanner(&self, eol: Eol) -> LineScanner {
        let mut scanner = LineScanner::new(&self.options, self.server_version);
        scanner.eol = eol;
        scanner
    }

    /// The input failed before its end: gives the error the CONTEXT that PostgreSQL has then, unless the connection is lost.
    pub fn while_reading(&mut self, error: PgError, outputs: &mut [Vec<u8>]) -> PgError {
        if error.is_fatal() {
            return error;
        }
        // Behind an end-of-copy marker PostgreSQL still reads, as a part of the marker's line.
        let is_text = self.options.format != Format::Binary;
        match (is_text, self.done) {
            (true, false) => self.at_unread_line(error, self.scanner.eol),
            (true, true) => context::add(error, &self.relation, self.line, Place::Line),
            (false, _) => self.while_reading_tuple(error, outputs),
        }
    }

    /// The line that an error's CONTEXT names.
    pub fn line_of_error(&self, error: &PgError) -> Option<u64> {
        context::line_of(error, &self.relation)
    }

    /// A datanode counts the lines it got: puts the input's line number into its error.
    pub fn with_input_line(&self, error: PgError, destination: usize) -> PgError {
        context::renumber(error, &self.relation, |sent| self.log.input_line(destination, sent))
    }

    /// More input; only after [`Step::NeedInput`] (or at the start).
    pub fn push(&mut self, chunk: Bytes) {
        self.push_checked(chunk, false);
    }

    fn push_checked(&mut self, chunk: Bytes, is_valid: bool) {
        if self.done {
            return;
        }
        if let Some(history) = &mut self.history {
            history.keep(chunk.clone(), self.line, self.input.unfinished_bytes(), self.scanner.eol);
        }
        self.parsed = None;
        self.input.push_checked(chunk, is_valid);
    }

    /// No more input will come.
    pub fn finish(&mut self) {
        self.input.finish();
    }

    /// Works until something is wanted of the caller. `outputs` has [`Router::destinations`] buffers.
    ///
    /// An error is about the line being read; the rows before it are in the outputs. PostgreSQL would have reported an
    /// error in one of those first, so: send what is left in the outputs, end the datanodes' COPYs, and if one of them
    /// fails, that error (with its line rewritten by the [`LineLog`]) is the one to report.
    pub fn step(&mut self, outputs: &mut [Vec<u8>]) -> Result<Step> {
        let result = self.run(outputs);
        if result.is_err() {
            self.forward_refused(outputs);
        }
        result
    }

    fn run(&mut self, outputs: &mut [Vec<u8>]) -> Result<Step> {
        debug_assert!(outputs.len() >= self.destinations(), "an output is missing");
        loop {
            if let Some(current) = self.current {
                debug_assert!(!current.waiting, "step while a conversion is out");
                if let Some(conversion) = self.convert_row()? {
                    return Ok(Step::Convert(conversion));
                }
                if let Some(dest) = self.finish_row(outputs)? {
                    return Ok(Step::Full { dest });
                }
            }
            if self.done {
                return Ok(Step::End);
            }
            if let Some(dest) = self.take_over(outputs) {
                return Ok(Step::Full { dest });
            }
            if let Some(dest) = self.fast_rows(outputs)? {
                return Ok(Step::Full { dest });
            }
            let progress = match self.options.format {
                Format::Binary => self.next_tuple()?,
                _ => self.next_line()?,
            };
            if let Progress::NeedInput = progress {
                return Ok(Step::NeedInput);
            }
        }
    }

    /// Takes as many rows through the fast lane as it can; gives the output that is full.
    fn fast_rows(&mut self, outputs: &mut [Vec<u8>]) -> Result<Option<usize>> {
        let Some((fast, tuple)) = &mut self.fast else { return Ok(None) };
        if !fast.knows(self.scanner.eol, self.options.header, self.line) {
            return Ok(None);
        }
        let Some(input) = self.input.in_place() else { return Ok(None) };
        let crlf = self.scanner.eol == Eol::CrLf;
        let mut at = 0;
        let mut full = None;
        while let Some((next, length)) = fast.row(input, at, crlf, tuple, &mut self.placer.spans) {
            self.line += 1;
            self.rows += 1;
            self.batches.add(self.line, next - at - 1 - usize::from(crlf));
            at = next;
            let dest = self.placer.place(tuple.get(length))?;
            let output = &mut outputs[dest];
            tuple.append_to(output, length);
            self.log.add(dest, self.line);
            if output.len() >= self.frame_bytes {
                full = Some(dest);
                break;
            }
        }
        self.input.advance(at);
        Ok(full)
    }

    /// Finds the next line and splits it.
    fn next_line(&mut self) -> Result<Progress> {
        let eol_before = self.scanner.eol;
        let found = self.input.scan_line(&mut self.scanner);
        let (scan, at) = found.map_err(|e| self.at_unread_line(e, eol_before))?;
        let is_header = self.line == 0 && self.options.header != Header::No;
        let ends = match scan {
            Scan::More => return Ok(Progress::NeedInput),
            Scan::Line { .. } => false,
            // From a file PostgreSQL goes on behind a marker that ends a line with data.
            Scan::Marker { .. } => is_header || self.source == Source::Client || at.content == 0,
            Scan::Last => true,
        };
        self.line += 1 + u64::from(self.scanner.quoted_lines(eol_before));
        self.done = ends;
        let (quoted_lf, quoted_cr) = (self.scanner.quoted_lf, self.scanner.quoted_cr);
        self.scanner.reset();
        let current = Current { at, column: 0, waiting: false, is_header, quoted_lf, quoted_cr };
        if is_header {
            return self.read_header(current);
        }
        if at.content == 0 && !matches!(scan, Scan::Line { .. }) {
            self.done = true;
            return Ok(Progress::Other);
        }
        self.row.clear();
        self.row.extend_from_slice(&(self.columns.len() as u16).to_be_bytes());
        self.current = Some(current);
        self.split(&current)?;
        self.check_clockless(&current).map(|()| Progress::Row)
    }

    /// The error happened while the next line was read.
    fn at_unread_line(&self, error: PgError, eol: Eol) -> PgError {
        let line = self.line + 1 + u64::from(self.scanner.quoted_lines(eol));
        context::add(error, &self.relation, line, Place::Line)
    }

    fn line_of(&self, current: &Current) -> &[u8] {
        self.input.bytes(current.at)
    }

    /// Splits the current line as far as it is needed.
    fn split(&mut self, current: &Current) -> Result<()> {
        let mut fields = std::mem::take(&mut self.fields);
        let line = self.line_of(current);
        let wanted = if self.reads_keys_only() { self.fields_needed() } else { usize::MAX };
        let result = self.split_line(&mut fields, line, wanted);
        let result = result.map_err(|e| context::add(e, &self.relation, self.line, Place::Text(line)));
        self.fields = fields;
        result
    }

    fn split_line(&self, fields: &mut Fields, line: &[u8], wanted: usize) -> Result<()> {
        fields.split(line, &self.options, self.encoding, if self.columns.is_empty() { 0 } else { wanted })?;
        let too_many = if self.columns.is_empty() { !line.is_empty() } else { fields.len() > self.columns.len() };
        match too_many {
            true => Err(bad_format("extra data after last expected column")),
            false => Ok(()),
        }
    }

    /// The value of a column of the current line after NULL handling.
    fn text_value<'a>(&'a self, index: usize, line: &'a [u8]) -> Option<&'a [u8]> {
        self.value_in(&self.fields, index, line)
    }

    fn value_in<'a>(&'a self, fields: &'a Fields, index: usize, line: &'a [u8]) -> Option<&'a [u8]> {
        let column = &self.columns[index];
        match fields.get(index, line) {
            None if column.force_not_null => Some(self.options.null.as_bytes()),
            Some(text) if column.force_null && text == self.options.null.as_bytes() => None,
            value => value,
        }
    }

    /// Converts the columns of the current row that are wanted; gives a value that PostgreSQL must convert.
    fn convert_row(&mut self) -> Result<Option<Conversion>> {
        let Some(mut current) = self.current else { return Ok(None) };
        if current.is_header {
            return self.take_header(&mut current);
        }
        if self.options.format == Format::Binary {
            return self.take_binary_key(&mut current);
        }
        let wanted = if self.reads_keys_only() { self.placer.columns_needed() } else { self.columns.len() };
        let mut row = std::mem::take(&mut self.row);
        while current.column < wanted {
            let outcome = self.convert_column(&current, &mut row);
            self.row = row;
            self.current = Some(current);
            if outcome? == Outcome::Ask {
                current.waiting = true;
                self.current = Some(current);
                return Ok(Some(self.conversion(&current)));
            }
            row = std::mem::take(&mut self.row);
            current.column += 1;
        }
        self.row = row;
        self.current = Some(current);
        Ok(None)
    }

    fn convert_column(&mut self, current: &Current, row: &mut Vec<u8>) -> Result<Outcome> {
        let column = &self.columns[current.column];
        let line = self.line_of(current);
        if current.column >= self.fields.len() {
            let error = bad_format(format!("missing data for column \"{}\"", column.name));
            return Err(context::add(error, &self.relation, self.line, Place::Text(line)));
        }
        if self.reads_keys_only() && column.key.is_none() {
            return Ok(Outcome::Done);
        }
        let start = row.len() + 4;
        let value = self.text_value(current.column, line);
        let mut outcome = match value {
            Some(text) if self.encoding == Encoding::Other && !text.is_ascii() => Outcome::Ask,
            Some(_) if self.ignores_errors() && column.codec.is_unread() => Outcome::Ask,
            Some(text) => column.codec.encode(text, self.timezone_is_utc, row),
            None if self.ignores_errors() && column.codec == Codec::Unknown && !column.takes_null => Outcome::Ask,
            None => {
                row.extend_from_slice(&[0xFF; 4]);
                Outcome::Done
            }
        };
        if let (Outcome::Ask, Some(known)) = (outcome, value.and_then(|text| column.remembered.get(text))) {
            row.extend_from_slice(&(known.len() as u32).to_be_bytes());
            row.extend_from_slice(known);
            outcome = Outcome::Done;
        }
        if outcome == Outcome::TooLong && self.ignores_errors() {
            return Ok(Outcome::Ask);
        }
        if outcome == Outcome::TooLong {
            let place = Place::Value(&column.name, value);
            return Err(context::add(column.codec.too_long(), &self.relation, self.line, place));
        }
        let is_null = value.is_none();
        if let (Some((part, _)), Outcome::Done) = (column.key, outcome) {
            self.placer.spans[part] = if is_null { None } else { Some((start, row.len())) };
        }
        Ok(outcome)
    }

    fn ignores_errors(&self) -> bool {
        self.options.on_error == OnError::Ignore
    }

    /// The rest of a row is the datanode's to read.
    fn reads_keys_only(&self) -> bool {
        self.output == Output::Raw && !self.ignores_errors()
    }

    /// Is this a text whose bytes are others in the server?
    fn is_foreign(&self, column: &Column, value: &[u8]) -> bool {
        self.encoding == Encoding::Other && column.codec.is_text() && !value.is_ascii()
    }

    fn conversion(&self, current: &Current) -> Conversion {
        let column = &self.columns[current.column];
        let value = self.text_value(current.column, self.line_of(current)).map(<[u8]>::to_vec);
        Conversion {
            column: current.column,
            type_oid: column.type_oid,
            type_modifier: column.type_modifier,
            is_foreign: value.as_ref().is_some_and(|value| self.is_foreign(column, value)),
            is_check: self.output == Output::Raw && column.key.is_none(),
            value,
            is_binary: false,
        }
    }

    /// Places the current row and puts it into its output; gives the output if it is full.
    fn finish_row(&mut self, outputs: &mut [Vec<u8>]) -> Result<Option<usize>> {
        let Some(current) = self.current.take() else { return Ok(None) };
        let dest = match self.placer.place(&self.row) {
            Ok(dest) => dest,
            Err(error) => {
                if self.options.format == Format::Binary {
                    self.forward_tuple(&current, outputs);
                }
                return Err(context::add(error, &self.relation, self.line, Place::Line));
            }
        };
        if self.output == Output::Raw {
            self.append_raw(dest, &current, outputs);
        } else {
            outputs[dest].extend_from_slice(match self.options.format {
                Format::Binary => self.line_of(&current),
                _ => &self.row,
            });
            self.log.add(dest, self.line);
        }
        self.rows += 1;
        // A binary tuple has no line whose bytes PostgreSQL would count.
        let line_bytes = if self.options.format == Format::Binary { 0 } else { current.at.content };
        self.batches.add(self.line, line_bytes);
        self.input.leave(current.at);
        Ok((outputs[dest].len() >= self.frame_bytes).then_some(dest))
    }
}
