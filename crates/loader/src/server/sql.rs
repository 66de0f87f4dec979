//! Names in SQL, and values of answers.

use bytes::Bytes;
use pgerror::{PgError, Result};

/// A quoted name.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(crate) fn text(row: &[Option<Bytes>], index: usize) -> Result<String> {
    let value = row.get(index).and_then(Option::as_ref);
    let value = value.ok_or_else(|| PgError::protocol("a field is NULL that never is"))?;
    Ok(String::from_utf8_lossy(value).into_owned())
}

pub(crate) fn number<N: std::str::FromStr>(row: &[Option<Bytes>], index: usize) -> Result<N> {
    let text = text(row, index)?;
    text.parse().map_err(|_| PgError::protocol(format!("\"{text}\" is not the number that was asked for")))
}
