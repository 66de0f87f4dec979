//! What is asked for.

use std::path::PathBuf;

use copyfmt::{CopyOptions, Format, OptionValue};
use pgerror::{PgError, Result};

/// A batch is kept in memory until it is committed, so that it can be sent again: it ends here if not before.
pub const BATCH_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// When a batch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// After so many rows.
    pub rows: u64,
    /// After the row that reaches so many bytes.
    pub bytes: u64,
}

impl Batch {
    /// `100000` (rows), or bytes with a unit: `8MB`, `64MiB`, `500kB`.
    ///
    /// # Errors
    /// A text that is neither, zero, or more bytes than [`BATCH_BYTES_MAX`].
    pub fn parse(text: &str) -> Result<Self, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| "write rows (100000) or bytes (16MB)".to_owned())?;
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" if number > 0 => return Ok(Self { rows: number, bytes: BATCH_BYTES_MAX }),
            "kb" => 1000,
            "kib" => 1024,
            "mb" => 1_000_000,
            "mib" => 1024 * 1024,
            _ => return Err("write rows (100000) or bytes with a unit (500kB, 16MB, 64MiB)".to_owned()),
        };
        match number.checked_mul(factor) {
            Some(bytes @ 1..=BATCH_BYTES_MAX) => Ok(Self { rows: u64::MAX, bytes }),
            _ => Err("a batch has between 1 row and 64 MiB".to_owned()),
        }
    }
}

/// COPY's options as given; `None` is PostgreSQL's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Copy {
    /// `csv`, `text` or `binary`; `None` goes by the files' names.
    pub format: Option<String>,
    /// The first line of every file is not data.
    pub header: bool,
    pub delimiter: Option<String>,
    pub null: Option<String>,
    pub quote: Option<String>,
    pub escape: Option<String>,
    pub encoding: Option<String>,
}

impl Copy {
    /// Checked as PostgreSQL does.
    pub(crate) fn checked(&self, server_version: u32, is_from: bool) -> Result<CopyOptions> {
        let given = [
            ("format", &self.format),
            ("delimiter", &self.delimiter),
            ("null", &self.null),
            ("quote", &self.quote),
            ("escape", &self.escape),
            ("encoding", &self.encoding),
        ];
        let mut pairs: Vec<(String, OptionValue)> = given
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), OptionValue::Text(value.clone()?))))
            .collect();
        if self.header {
            pairs.push(("header".to_owned(), OptionValue::Boolean(true)));
        }
        let options = CopyOptions::from_pairs(&pairs, is_from, server_version)?;
        match &options.encoding {
            Some(encoding) if options.format != Format::Binary && !copyfmt::can_split(encoding) => {
                Err(PgError::unsupported(format_args!("\"loxo load\" of files in encoding \"{encoding}\""))
                    .hint("Convert the files to UTF8 first, for example with iconv, or use psql's \\copy."))
            }
            _ => Ok(options),
        }
    }
}

/// The option list of a COPY statement, without HEADER.
pub(crate) fn sql(options: &CopyOptions) -> String {
    let list = options.to_sql();
    match &options.encoding {
        None => list,
        Some(encoding) => format!("{}, ENCODING {})", list.strip_suffix(')').unwrap_or(&list), literal(encoding)),
    }
}

/// A string constant, right under both settings of `standard_conforming_strings`.
pub(crate) fn literal(text: &str) -> String {
    let prefix = if text.contains('\\') { "E" } else { "" };
    format!("{prefix}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// What `loxo load` is asked to do.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The table as SQL names it.
    pub table: String,
    /// Columns of the files, in order; empty means the table's.
    pub columns: Vec<String>,
    /// Paths, patterns, or `-` for stdin.
    pub files: Vec<String>,
    /// Connection URIs of coordinators; streams take them by turns.
    pub to: Vec<String>,
    /// COPY's options.
    pub copy: Copy,
    /// Concurrent COPYs; `None` chooses.
    pub streams: Option<usize>,
    /// Commit batch by batch; `None` commits everything at once.
    pub batch: Option<Batch>,
    /// Under which name the progress of batches is kept; `None` is the table's with the files' names.
    pub name: Option<String>,
    /// Drop indexes that check nothing, and make them again after the load?
    pub drop_indexes: bool,
    /// Leave bad rows out and write them here.
    pub rejects: Option<PathBuf>,
    /// Bad rows at most.
    pub reject_limit: u64,
    /// Show progress on stderr?
    pub progress: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_rows_or_bytes() {
        assert_eq!(Batch::parse("1000"), Ok(Batch { rows: 1000, bytes: BATCH_BYTES_MAX }));
        assert_eq!(Batch::parse("2MB"), Ok(Batch { rows: u64::MAX, bytes: 2_000_000 }));
        for wrong in ["", "0", "x", "1GB", "65MiB", "-1", "0MB", "99999999999999999999MB"] {
            assert!(Batch::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_encoding_follows_the_other_options() {
        let copy = Copy {
            format: Some("csv".into()),
            null: Some("(x)".into()),
            encoding: Some("latin1".into()),
            ..Copy::default()
        };
        assert_eq!(sql(&copy.checked(150_000, true).unwrap()), "(FORMAT csv, NULL '(x)', ENCODING 'latin1')");
        let sjis = Copy { encoding: Some("sjis".into()), ..Copy::default() };
        assert_eq!(sjis.checked(150_000, true).unwrap_err().code(), pgerror::SqlState::FEATURE_NOT_SUPPORTED);
    }
}
