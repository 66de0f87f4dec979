//! Rows that are kept until somebody asks for them: in memory up to `loxo.work_mem`, the rest in a file that has no name.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;

use bytes::{BufMut, Bytes, BytesMut};
use pgerror::{PgError, Result, SqlState, field};
use pgproto::backend::{self, Field};

use crate::backend::request::frame_bodies;
use crate::session::own_settings::WORK_MEM_BYTES;

/// Most bytes of rows that a PL/pgSQL body can be given at once.
const ROWS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Runs of whole DataRow frames, first in, first out.
pub struct Spool {
    /// The oldest ones.
    runs: VecDeque<(Bytes, usize)>,
    /// Bytes of `runs`.
    bytes: usize,
    memory_max: usize,
    /// All that came after `runs`.
    spilled: Option<Spilled>,
    rows: usize,
    /// Their description, if it is wanted.
    fields: Option<Vec<Field>>,
    pub(crate) describes: bool,
    /// How many columns the client was told of.
    told: Option<usize>,
}

/// Columns, and rows of values.
pub type Rows = (Option<Vec<Field>>, Vec<Vec<Option<Bytes>>>);

/// Has the first of these DataRow frames as many columns as the client was told of?
pub(crate) fn check_columns(run: &[u8], told: Option<usize>) -> Result<()> {
    let given = run.get(5..7).map(|count| usize::from(u16::from_be_bytes([count[0], count[1]])));
    match told.is_none() || given.is_none() || told == given {
        true => Ok(()),
        false => Err(changed_result()),
    }
}

/// The error for a statement whose result has got other columns since the client was told of them.
pub fn changed_result() -> PgError {
    PgError::new(SqlState::FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
        // Drivers know by the routine that they may prepare it again.
        .with(field::ROUTINE, "RevalidateCachedQuery")
}

/// May a statement keep so many bytes of rows in memory, all at once?
///
/// # Errors
/// 54000 if they are more than 256 MiB.
pub fn check_memory(bytes: usize) -> Result<()> {
    if bytes <= ROWS_BYTES_MAX {
        return Ok(());
    }
    let message = "the rows that a statement of a function has to keep exceed 256 MiB";
    Err(PgError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        .hint("Read them in smaller pieces, or change them by one statement."))
}

impl Default for Spool {
    fn default() -> Self {
        Self::of(WORK_MEM_BYTES)
    }
}

impl Spool {
    /// One that keeps so many bytes in memory.
    pub fn of(memory_max: usize) -> Self {
        Self {
            runs: VecDeque::new(),
            bytes: 0,
            memory_max,
            spilled: None,
            rows: 0,
            fields: None,
            describes: false,
            told: None,
        }
    }

    /// One that keeps the description of its rows too.
    pub fn described(self) -> Self {
        Self { describes: true, ..self }
    }

    /// One for a client that was told of so many columns.
    pub fn told(self, columns: Option<usize>) -> Self {
        Self { told: columns, ..self }
    }

    /// The description and the rows, all in memory.
    ///
    /// # Errors
    /// 54000 if they are more than 256 MiB.
    pub fn into_rows(mut self) -> Result<Rows> {
        check_memory(self.bytes + self.spilled.as_ref().map_or(0, Spilled::bytes))?;
        let mut rows = Vec::with_capacity(self.rows);
        while let Some((run, _)) = self.next_run()? {
            for body in frame_bodies(&run) {
                rows.push(backend::decode_data_row(run.slice_ref(body))?);
            }
        }
        Ok((self.fields, rows))
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    pub(crate) fn describe(&mut self, fields: &[Field]) {
        self.fields = Some(fields.to_vec());
    }

    /// Takes the description, if one was kept.
    pub(crate) fn take_fields(&mut self) -> Option<Vec<Field>> {
        self.fields.take()
    }

    /// Adds a run of `count` rows at the end.
    ///
    /// # Errors
    /// 53100 or 58030 if the file cannot take it; 0A000 if they have other columns than the client was told of.
    pub(crate) fn push(&mut self, run: Bytes, count: usize) -> Result<()> {
        if self.rows == 0 {
            check_columns(&run, self.told)?;
        }
        self.rows += count;
        if self.spilled.is_none() && self.bytes + run.len() <= self.memory_max {
            self.bytes += run.len();
            self.runs.push_back((run, count));
            return Ok(());
        }
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            empty => empty.insert(Spilled::new()?),
        };
        spilled.push(&run, count)
    }

    /// Takes at most `rows_max` rows off the front; `true` if some are left.
    ///
    /// # Errors
    /// 58030 if the file cannot be read.
    pub fn take(&mut self, rows_max: usize, out: &mut BytesMut) -> Result<(usize, bool)> {
        let mut taken = 0;
        while taken < rows_max {
            let Some((mut run, count)) = self.next_run()? else { break };
            if taken + count <= rows_max {
                taken += count;
                out.put_slice(&run);
                continue;
            }
            let wanted = rows_max - taken;
            let end = frames_end(&run, wanted);
            out.put_slice(&run.split_to(end));
            self.bytes += run.len();
            self.runs.push_front((run, count - wanted));
            taken = rows_max;
        }
        self.rows -= taken;
        Ok((taken, self.rows > 0))
    }

    fn next_run(&mut self) -> Result<Option<(Bytes, usize)>> {
        if let Some((run, count)) = self.runs.pop_front() {
            self.bytes -= run.len();
            return Ok(Some((run, count)));
        }
        let Some(spilled) = &mut self.spilled else { return Ok(None) };
        let next = spilled.pop()?;
        if next.is_none() {
            self.spilled = None;
        }
        Ok(next)
    }
}

/// Runs in a file: the lengths of a run, then its bytes. It goes to the page cache, so nothing here waits for a disk for long.
struct Spilled {
    file: File,
    read: u64,
    written: u64,
}

/// Bytes of a run and of its count.
const LENGTHS: usize = 16;

impl Spilled {
    fn new() -> Result<Self> {
        Ok(Self { file: file_without_name().map_err(|error| failed(&error))?, read: 0, written: 0 })
    }

    fn bytes(&self) -> usize {
        (self.written - self.read) as usize
    }

    fn push(&mut self, run: &[u8], count: usize) -> Result<()> {
        let mut lengths = [0; LENGTHS];
        lengths[..8].copy_from_slice(&(run.len() as u64).to_le_bytes());
        lengths[8..].copy_from_slice(&(count as u64).to_le_bytes());
        self.write(&lengths)?;
        self.write(run)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, self.written).map_err(|error| failed(&error))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn pop(&mut self) -> Result<Option<(Bytes, usize)>> {
        if self.read == self.written {
            return Ok(None);
        }
        let mut lengths = [0; LENGTHS];
        self.read(&mut lengths)?;
        let number =
            |at: usize| lengths[at..at + 8].iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte));
        let mut run = BytesMut::zeroed(number(0));
        self.read(&mut run)?;
        Ok(Some((run.freeze(), number(8))))
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, self.read).map_err(|error| failed(&error))?;
        self.read += bytes.len() as u64;
        Ok(())
    }
}

/// In TMPDIR, or where every program may make files if that is somebody else's.
fn file_without_name() -> std::io::Result<File> {
    tempfile::tempfile().or_else(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::NotFound => tempfile::tempfile_in("/var/tmp"),
        _ => Err(error),
    })
}

fn failed(error: &std::io::Error) -> PgError {
    let code = match error.kind() {
        std::io::ErrorKind::StorageFull => SqlState::DISK_FULL,
        _ => SqlState::IO_ERROR,
    };
    PgError::new(code, format!("could not keep rows in a temporary file: {error}"))
        .hint("Make room where TMPDIR points to, or raise loxo.work_mem.")
}

/// Where the first `count` frames of a run end.
fn frames_end(run: &[u8], count: usize) -> usize {
    (0..count).fold(0, |at, _| {
        let length = u32::from_be_bytes([run[at + 1], run[at + 2], run[at + 3], run[at + 4]]) as usize;
        at + 1 + length
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> BytesMut {
        let mut out = BytesMut::new();
        backend::data_row(&mut out, [Some(text.as_bytes())].into_iter());
        out
    }

    /// Three rows, one run for each of the first and the rest.
    fn fill(spool: &mut Spool) {
        spool.push(row("a").freeze(), 1).unwrap();
        let mut run = row("bb");
        run.extend_from_slice(&row("c"));
        spool.push(run.freeze(), 2).unwrap();
    }

    #[test]
    fn rows_come_in_pieces_whether_they_fit_into_memory_or_not() {
        for memory_max in [1000, row("a").len(), 0] {
            let mut spool = Spool::of(memory_max);
            fill(&mut spool);
            let mut first = BytesMut::new();
            assert_eq!(spool.take(2, &mut first).unwrap(), (2, true));
            fill(&mut spool);
            assert_eq!(spool.len(), 4);
            let mut rest = BytesMut::new();
            assert_eq!(spool.take(9, &mut rest).unwrap(), (4, false));
            assert_eq!(frame_bodies(&first.freeze()).count(), 2);
            let expected: Vec<u8> = ["c", "a", "bb", "c"].iter().flat_map(|text| row(text)).collect();
            assert_eq!(rest, expected);
            fill(&mut spool);
            let values = |row: &Vec<Option<Bytes>>| row[0].clone().unwrap();
            let (_, rows) = spool.into_rows().unwrap();
            assert_eq!(rows.iter().map(values).collect::<Vec<_>>(), ["a", "bb", "c"]);
        }
    }
}
