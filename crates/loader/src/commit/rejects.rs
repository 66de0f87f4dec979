//! `--rejects`: rows that the server refuses are left out and written to a file.
//!
//! A row counts as bad only if the server has refused it alone, behind all good rows before it: so whatever PostgreSQL checks a
//! row for (values, columns, constraints, triggers) works on every version, and the reason is PostgreSQL's own. Each COPY
//! is a savepoint; one that fails is done again in parts, without the row that the error names, or halved if it names none.
//!
//! Records are on the disk before their batch is committed. A batch that is loaded again after a kill meets
//! the same rows again; records that are there already are not repeated.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{Cursor, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use copyfmt::{CopyOptions, Eol, Format};
use pgerror::{PgError, Result, SqlState, field};
use pgproto::Connection;

use crate::files::cut::{BLOCK_BYTES, Cutter, Limits, Piece};
use crate::files::input;
use crate::files::lines;
use crate::files::ranges::Part;
use crate::server::session::{CopyIn, CopyTarget, Refusal};

const HEADER: &[u8] = b"file,line,sqlstate,message,detail,row\n";
/// Rows of a COPY after a bad row; doubled with every one that succeeds.
const ROWS_AFTER_FAILURE: usize = 64;

/// The file of bad rows.
pub(crate) struct Rejects {
    path: PathBuf,
    limit: u64,
    sink: Mutex<Sink>,
}

struct Sink {
    file: File,
    /// Hashes of the records in the file, and of those of this run.
    known: HashSet<u64>,
    seen: HashSet<u64>,
}

/// One bad row as the file tells it.
pub(crate) type Record = Vec<u8>;

impl Rejects {
    /// Makes the file, or continues it if the load may have begun before.
    pub(crate) fn open(path: &Path, limit: u64, may_continue: bool) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).read(true);
        match may_continue {
            true => options.create(true),
            false => options.create_new(true),
        };
        let mut file = options.open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                let message = format!("\"{}\" exists", path.display());
                PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                    .hint("Remove it, or write the rejected rows to another file.")
            }
            _ => unwritable(path, &error),
        })?;
        check_header(&file, path)?;
        let known = known_records(&mut file, path)?;
        if file.metadata().map_err(|e| unwritable(path, &e))?.len() == 0 {
            file.write_all(HEADER).map_err(|e| unwritable(path, &e))?;
        }
        Ok(Self { path: path.to_owned(), limit, sink: Mutex::new(Sink { file, known, seen: HashSet::new() }) })
    }

    fn sink(&self) -> std::sync::MutexGuard<'_, Sink> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows that this run has left out.
    pub(crate) fn count(&self) -> u64 {
        self.sink().seen.len() as u64
    }

    /// Puts the records onto the disk. Call it before their rows' batch is committed.
    pub(crate) fn write(&self, records: &[Record]) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let mut sink = self.sink();
        sink.seen.extend(records.iter().map(|record| hash(record)));
        let new: Vec<u8> = records.iter().filter(|record| sink.known.insert(hash(record))).flatten().copied().collect();
        sink.file.write_all(&new).and_then(|()| sink.file.sync_data()).map_err(|e| unwritable(&self.path, &e))
    }

    /// Is one more too many? Then why the load fails.
    fn check_limit(&self, found: usize, last: &PgError) -> Result<()> {
        if self.count() + found as u64 <= self.limit {
            return Ok(());
        }
        let message = format!("more than {} rows were refused; the last: {}", self.limit, last.message());
        Err(last.clone().with(field::MESSAGE, message).hint("--reject-limit allows more."))
    }
}

fn hash(record: &[u8]) -> u64 {
    // It need not be equal in all runs, only in all of this one.
    BuildHasherDefault::<DefaultHasher>::default().hash_one(record)
}

/// Some other file must not be continued.
fn check_header(file: &File, path: &Path) -> Result<()> {
    let mut start = [0; HEADER.len()];
    let count = file.read_at(&mut start, 0).map_err(|e| input::unreadable(&path.display().to_string(), &e))?;
    match count == 0 || start == HEADER {
        true => Ok(()),
        false => {
            let message = format!("\"{}\" is not a file of rejected rows", path.display());
            Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .hint("Write the rejected rows to another file."))
        }
    }
}

fn known_records(file: &mut File, path: &Path) -> Result<HashSet<u64>> {
    let options = CopyOptions::new(Format::Csv);
    let name = path.display().to_string();
    let cutter = Cutter {
        file: 0,
        name: &name,
        options: &options,
        // No marker ends it.
        server_version: 180_000,
        header: true,
        limits: Limits { rows: 1, bytes: u64::MAX },
        block_bytes: BLOCK_BYTES,
        done: &[],
        part: None,
    };
    // A record that was not written to its end is written again.
    let (mut known, mut torn) = (HashSet::new(), None);
    cutter.run(file, &mut |piece| {
        match piece.unterminated {
            false => drop(known.insert(hash(&piece.blocks.concat()))),
            true => torn = Some(piece.start),
        }
        true
    })?;
    match torn {
        Some(start) => file.set_len(start).map_err(|e| unwritable(path, &e)).map(|()| known),
        None => Ok(known),
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> PgError {
    PgError::new(SqlState::IO_ERROR, format!("could not write \"{}\": {error}", path.display()))
}

/// Copies what the server takes of a piece, in the open transaction. Gives the rows taken and the records of the others.
pub(crate) async fn copy(
    connection: &mut Connection,
    target: &CopyTarget,
    piece: &Piece,
    rejects: &Rejects,
) -> Result<(u64, Vec<Record>)> {
    let refusal = match copy_under_savepoint(connection, target, piece).await? {
        Ok(rows) => return Ok((rows, Vec::new())),
        Err(refusal) => refusal,
    };
    let rows = Rows::of(piece, target)?;
    let (mut taken, mut records) = (0, Vec::new());
    let mut step = ROWS_AFTER_FAILURE;
    // The next one is the last.
    let mut parts = rows.without(0..rows.count(), &refusal);
    while let Some(part) = parts.pop() {
        let now = part.start..part.end.min(part.start + step);
        if now.end < part.end {
            parts.push(now.end..part.end);
        }
        match copy_under_savepoint(connection, target, &rows.joined(now.clone())).await? {
            Ok(count) => {
                taken += count;
                step = (step * 2).min(rows.count());
            }
            Err(refusal) if now.len() == 1 => {
                let line = rows.line(now.start);
                let name = &target.sources[piece.file].name;
                rejects.check_limit(records.len() + 1, &lines::locate(refusal.error.clone(), name, line))?;
                records.push(record(name, line, &refusal.error, rows.bytes(now.start)));
            }
            Err(refusal) => {
                step = ROWS_AFTER_FAILURE;
                parts.extend(rows.without(now, &refusal));
            }
        }
    }
    Ok((taken, records))
}

/// The outer error ends the load.
async fn copy_under_savepoint(
    connection: &mut Connection,
    target: &CopyTarget,
    piece: &Piece,
) -> Result<Result<u64, Refusal>> {
    connection.execute("SAVEPOINT loxo_load").await?;
    let mut copy = CopyIn::begin(connection, target).await?;
    let copied = match copy.send(connection, piece).await {
        Ok(()) => copy.finish(connection).await,
        Err(error) => Err(error),
    };
    let refused = match copied {
        Ok(rows) => Ok(rows),
        Err(error) if connection.is_broken() || !is_about_a_row(&error) => return Err(error),
        Err(error) => Err(copy.into_refusal().ok_or(error)?),
    };
    if refused.is_err() {
        if !connection.is_drained() {
            connection.drain().await?;
        }
        connection.execute("ROLLBACK TO SAVEPOINT loxo_load").await?;
    }
    connection.execute("RELEASE SAVEPOINT loxo_load").await?;
    Ok(refused)
}

/// Data exceptions, constraints, views with a check option, rows too large, and what triggers raise.
fn is_about_a_row(error: &PgError) -> bool {
    let code = error.code();
    ["22", "23", "44", "54"].iter().any(|class| code.as_str().starts_with(class)) || code.as_str() == "P0001"
}

/// The rows of a piece one by one.
struct Rows {
    whole: Piece,
    bytes: Bytes,
    rows: Vec<Piece>,
}

impl Rows {
    fn of(piece: &Piece, target: &CopyTarget) -> Result<Self> {
        let bytes = Bytes::from(piece.blocks.concat());
        let part = Part {
            start: piece.start,
            end: u64::MAX,
            // PostgreSQL does not know it at a file's first row either.
            eol: if piece.start == 0 { Eol::Unknown } else { piece.eol },
            in_quote: false,
            begins_inside_row: false,
            lines_before: piece.span.lines_before,
        };
        let cutter = Cutter {
            file: piece.file,
            name: &target.sources[piece.file].name,
            options: &target.options,
            server_version: target.server_version,
            header: false,
            limits: Limits { rows: 1, bytes: u64::MAX },
            block_bytes: BLOCK_BYTES,
            done: &[],
            part: Some(part),
        };
        let mut rows = Vec::new();
        cutter.run(&mut Cursor::new(bytes.clone()), &mut |row| {
            rows.push(Piece { blocks: Vec::new(), ..row });
            true
        })?;
        match rows.len() as u64 == piece.rows {
            true => Ok(Self { whole: piece.clone(), bytes, rows }),
            false => Err(PgError::internal("a piece has other rows when it is cut again")),
        }
    }

    fn count(&self) -> usize {
        self.rows.len()
    }

    fn line(&self, row: usize) -> u64 {
        self.rows[row].span.lines_before + self.rows[row].span.first_row[0]
    }

    fn bytes(&self, row: usize) -> Bytes {
        self.slice(&(row..row + 1))
    }

    fn slice(&self, rows: &std::ops::Range<usize>) -> Bytes {
        let place = |at: u64| (at - self.whole.start) as usize;
        self.bytes.slice(place(self.rows[rows.start].start)..place(self.rows[rows.end - 1].end))
    }

    fn joined(&self, rows: std::ops::Range<usize>) -> Piece {
        let (first, last) = (&self.rows[rows.start], &self.rows[rows.end - 1]);
        let mut span = first.span;
        span.more_lines = self.rows[rows.start + 1..rows.end].iter().map(|row| row.span.first_row[2]).sum();
        Piece {
            end: last.end,
            rows: rows.len() as u64,
            blocks: vec![self.slice(&rows)],
            span,
            eol: self.whole.eol,
            unterminated: last.unterminated,
            ..first.clone()
        }
    }

    /// What is left to try of rows that were refused together, the last first: before, the suspect alone, and behind it.
    fn without(&self, rows: std::ops::Range<usize>, refusal: &Refusal) -> Vec<std::ops::Range<usize>> {
        let suspect = refusal.line.map(|line| {
            let of_line = self.rows.partition_point(|row| row.span.lines_before + row.span.first_row[0] < line);
            of_line.clamp(rows.start, rows.end - 1)
        });
        let cuts = match suspect {
            Some(row) => vec![row + 1..rows.end, row..row + 1, rows.start..row],
            // Not less than one row, and never all of several.
            None => {
                let middle = rows.start + rows.len().div_ceil(2);
                vec![middle..rows.end, rows.start..middle]
            }
        };
        cuts.into_iter().filter(|cut| !cut.is_empty()).collect()
    }
}

fn record(name: &str, line: u64, error: &PgError, row: Bytes) -> Record {
    let mut record = Vec::with_capacity(row.len() + 256);
    let context = error.text(field::WHERE);
    let detail: Vec<_> = [error.text(field::DETAIL), context].into_iter().filter(|text| !text.is_empty()).collect();
    field_of(&mut record, name.as_bytes());
    record.extend_from_slice(format!(",{line},{},", error.code()).as_bytes());
    field_of(&mut record, error.message().as_bytes());
    record.push(b',');
    field_of(&mut record, detail.join("\n").as_bytes());
    record.push(b',');
    let text = row.strip_suffix(b"\n").unwrap_or(&row);
    field_of(&mut record, text.strip_suffix(b"\r").unwrap_or(text));
    record.push(b'\n');
    record
}

/// In quotes whatever it is, so that an empty row is one.
fn field_of(record: &mut Record, text: &[u8]) {
    record.push(b'"');
    for byte in text {
        record.extend_from_slice(if *byte == b'"' { b"\"\"" } else { std::slice::from_ref(byte) });
    }
    record.push(b'"');
}
