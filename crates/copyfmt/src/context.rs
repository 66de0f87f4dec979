//! The CONTEXT line of a COPY error: `CopyFromErrorCallback` of PostgreSQL's `copyfrom.c`.

use pgerror::{PgError, field};

/// Bytes of a line or value that are shown (`MAX_COPY_DATA_DISPLAY`).
const SHOWN_BYTES_MAX: usize = 100;

/// What an error is about, apart from the line number.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    /// The line could not even be read.
    Line,
    /// The line as a whole.
    Text(&'a [u8]),
    /// A column in binary format.
    Column(&'a str),
    /// A column and its text; `None` is NULL.
    Value(&'a str, Option<&'a [u8]>),
}

/// Adds `COPY t, line N…` to an error.
pub(crate) fn add(error: PgError, relation: &str, line: u64, place: Place<'_>) -> PgError {
    error.with(field::WHERE, describe(relation, line, place))
}

/// `COPY t, line N…`.
pub(crate) fn describe(relation: &str, line: u64, place: Place<'_>) -> Vec<u8> {
    let mut text = format!("COPY {relation}, line {line}").into_bytes();
    let quoted = |text: &mut Vec<u8>, value: &[u8]| {
        text.extend_from_slice(b": \"");
        text.extend_from_slice(shown(value));
        text.extend_from_slice(if value.len() > SHOWN_BYTES_MAX { b"...\"" } else { b"\"" });
    };
    match place {
        Place::Line => {}
        Place::Text(value) => quoted(&mut text, value),
        Place::Column(name) => text.extend_from_slice(format!(", column {name}").as_bytes()),
        Place::Value(name, value) => {
            text.extend_from_slice(format!(", column {name}").as_bytes());
            match value {
                Some(value) => quoted(&mut text, value),
                None => text.extend_from_slice(b": null input"),
            }
        }
    }
    text
}

/// `limit_printout_length`: cut at a character's boundary.
fn shown(value: &[u8]) -> &[u8] {
    if value.len() <= SHOWN_BYTES_MAX {
        return value;
    }
    let mut end = SHOWN_BYTES_MAX;
    while end > 0 && value[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    &value[..end]
}
