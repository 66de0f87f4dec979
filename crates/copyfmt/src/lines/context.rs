//! The CONTEXT line of a COPY error: `CopyFromErrorCallback` of PostgreSQL's `copyfrom.c`.

use std::ops::Range;

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
    match place {
        Place::Line => {}
        Place::Text(value) => quote(&mut text, Some(value)),
        Place::Column(name) => text.extend_from_slice(format!(", column {name}").as_bytes()),
        Place::Value(name, value) => {
            text.extend_from_slice(format!(", column {name}").as_bytes());
            quote(&mut text, value);
        }
    }
    text
}

/// Adds a value, or the start of it.
pub(crate) fn quote(text: &mut Vec<u8>, value: Option<&[u8]>) {
    let Some(value) = value else { return text.extend_from_slice(b": null input") };
    text.extend_from_slice(b": \"");
    text.extend_from_slice(shown(value));
    text.extend_from_slice(if value.len() > SHOWN_BYTES_MAX { b"...\"" } else { b"\"" });
}

/// Gives the line number in an error's CONTEXT another value; the error stays as it is if it has none or `line` knows none.
pub fn renumber(error: PgError, relation: &str, line: impl FnOnce(u64) -> Option<u64>) -> PgError {
    let context = error.get(field::WHERE).unwrap_or_default();
    let Some((number, at)) = line_number(context, relation) else { return error };
    let Some(number) = line(number) else { return error };
    let context = [&context[..at.start], number.to_string().as_bytes(), &context[at.end..]].concat();
    error.with(field::WHERE, context)
}

/// The line that an error's CONTEXT names.
pub fn line_of(error: &PgError, relation: &str) -> Option<u64> {
    line_number(error.get(field::WHERE)?, relation).map(|(line, _)| line)
}

/// Where the line number stands in a CONTEXT. The functions that COPY called come before its own line; a quoted row is
/// the last thing in that.
pub(crate) fn line_number(context: &[u8], relation: &str) -> Option<(u64, Range<usize>)> {
    let mark = format!("COPY {relation}, line ").into_bytes();
    let starts_line = |at: usize| at == 0 || context[at - 1] == b'\n';
    let at = memchr::memmem::find_iter(context, &mark).find(|at| starts_line(*at))?;
    let start = at + mark.len();
    let digits = context[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&context[start..start + digits]).ok()?.parse().ok()?;
    Some((number, start..start + digits))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_number_of_a_context_is_found() {
        let cases: &[(&str, Option<u64>)] = &[
            ("COPY t, line 2, column a: \"x, line 1\"", Some(2)),
            ("PL/pgSQL function f() line 2 at RAISE\nCOPY t, line 7", Some(7)),
            ("COPY t, line 3: \"a\nCOPY t, line 9\"", Some(3)),
            ("PL/pgSQL function f() line 2", None),
            ("COPY other, line 2", None),
        ];
        for (text, line) in cases {
            assert_eq!(line_number(text.as_bytes(), "t").map(|(line, _)| line), *line, "{text}");
        }
    }
}
