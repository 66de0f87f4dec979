//! What a datanode's error does not tell of a line, which it got in binary.

use std::ops::Range;

use pgerror::{PgError, field};

use super::{Column, Router};
use crate::fields::Fields;
use crate::lines::context::{self, Place};
use crate::options::Format;
use crate::spec::Output;

/// Where a CONTEXT speaks of a line that it does not quote.
struct Unquoted<'a> {
    line: u64,
    at: Range<usize>,
    /// The error is about the text of this column.
    column: Option<(usize, &'a Column)>,
}

impl Router {
    /// The line that a datanode's error is about, if PostgreSQL's own CONTEXT would quote it and this one cannot.
    pub fn unquoted_line(&self, error: &PgError) -> Option<u64> {
        if self.output == Output::Raw || self.options.format == Format::Binary {
            return None;
        }
        self.unquoted(error.get(field::WHERE)?).map(|unquoted| unquoted.line)
    }

    fn unquoted(&self, context: &[u8]) -> Option<Unquoted<'_>> {
        let (line, number) = context::line_number(context, &self.relation)?;
        let start = number.start - format!("COPY {}, line ", self.relation).len();
        let ends = |at: usize| matches!(context.get(at), None | Some(b'\n'));
        if ends(number.end) {
            return Some(Unquoted { line, at: start..number.end, column: None });
        }
        let unread = self.columns.iter().enumerate().filter(|(_, column)| column.codec.is_unread());
        for (index, column) in unread {
            let name = format!(", column {}", column.name);
            let end = number.end + name.len();
            if context[number.end..].starts_with(name.as_bytes()) && ends(end) {
                return Some(Unquoted { line, at: start..end, column: Some((index, column)) });
            }
        }
        None
    }

    /// Puts a line's text, or that of the column it is about, into an error that [`Router::unquoted_line`] is true of.
    pub fn quote_line(&self, error: PgError, line: u64, text: &[u8]) -> PgError {
        let before = error.get(field::WHERE).unwrap_or_default();
        let Some(Unquoted { at, column, .. }) = self.unquoted(before) else { return error };
        let mut fields = Fields::default();
        let place = match column {
            None => Place::Text(text),
            // The line was split before.
            Some(_) if fields.split(text, &self.options, self.encoding, usize::MAX).is_err() => return error,
            Some((index, column)) => Place::Value(&column.name, self.value_in(&fields, index, text)),
        };
        let own = context::describe(&self.relation, line, place);
        let context = [&before[..at.start], &own, &before[at.end..]].concat();
        error.with(field::WHERE, context)
    }
}
