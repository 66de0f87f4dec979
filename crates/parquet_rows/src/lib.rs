//! Parquet files as rows of COPY's text format.
//!
//! In: the path of a file. Out: its columns with the types that PostgreSQL would give them, its row groups, and each
//! group's rows as text that `COPY … FROM` reads with its defaults. PostgreSQL's own input functions make values of it, so
//! a column may have any type that takes the text.
//!
//! * [`schema`](self): which columns there are, and what a value of each means.
//! * [`rows`](self): a row group column by column, a batch of rows at a time, into lines.
//! * [`text`](self): one value.
//!
//! Invariants: nothing is allocated per row; a batch of [`rows::BATCH_ROWS`](self) rows is in memory, and the pages it is from.
//! What has no plain column in SQL (lists, maps, structs, intervals) is refused by name.

mod rows;
mod schema;
mod text;

use std::fs::File;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use pgerror::{PgError, Result, SqlState};

pub use rows::GroupRows;
pub use schema::Column;

/// The first bytes of every Parquet file.
pub const MAGIC: &[u8; 4] = b"PAR1";

/// What a file has.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Contents {
    pub columns: Vec<Column>,
    pub groups: Vec<Group>,
}

/// Rows that are stored together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    #[allow(missing_docs)]
    pub rows: u64,
    /// Rows of all groups before it.
    pub rows_before: u64,
    /// On the disk.
    pub bytes: u64,
}

/// Reads what a file says of itself.
///
/// # Errors
/// A file that cannot be read, or has columns that cannot be rows of a table (0A000).
pub fn contents(path: &Path) -> Result<Contents> {
    let reader = open(path)?;
    let columns = schema::columns(reader.metadata().file_metadata().schema_descr())?;
    let (mut groups, mut rows_before) = (Vec::new(), 0);
    for group in reader.metadata().row_groups() {
        let count = |number: i64| u64::try_from(number).map_err(|_| wrong(path, "a row group has a negative size"));
        let (rows, bytes) = (count(group.num_rows())?, count(group.compressed_size())?);
        groups.push(Group { rows, rows_before, bytes });
        rows_before += rows;
    }
    Ok(Contents { columns, groups })
}

/// The rows of one group. Every call opens the file anew: readers that share a descriptor would move each other's place.
///
/// # Errors
/// A file that cannot be read.
pub fn rows(path: &Path, group: usize) -> Result<GroupRows> {
    let reader = open(path)?;
    let columns = schema::columns(reader.metadata().file_metadata().schema_descr())?;
    if group >= reader.num_row_groups() {
        return Err(wrong(path, "a row group is gone"));
    }
    GroupRows::new(&reader, group, columns).map_err(|e| wrong(path, e))
}

fn open(path: &Path) -> Result<SerializedFileReader<File>> {
    let file = File::open(path).map_err(|e| wrong(path, e))?;
    SerializedFileReader::new(file).map_err(|e| wrong(path, e))
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> PgError {
    PgError::new(SqlState::IO_ERROR, format!("could not read \"{}\": {why}", path.display()))
}
