//! What the caller answers to a conversion: a value, or that there is none.

use pgerror::{PgError, SqlState, field};

use super::{Conversion, Current, Router};
use crate::lines::context::{self, Place};
use crate::options::Format;
use crate::scan::Eol;
use crate::spec::Output;

/// Spellings remembered for each column; a date in words often comes again.
const REMEMBERED_MAX: usize = 4096;
/// Bytes of the longest one of them.
const REMEMBERED_BYTES_MAX: usize = 256;

impl Router {
    /// The converted value of `Step::Convert` in the type's send format; `None` for NULL.
    pub fn supply(&mut self, value: Option<&[u8]>) {
        self.remember(value);
        let Some(current) = &mut self.current else { return };
        debug_assert!(current.waiting, "a value was supplied that nobody asked for");
        if current.is_header {
            current.waiting = false;
            self.header_text = Some(value.unwrap_or_default().to_vec());
            return;
        }
        let column = &self.columns[current.column];
        current.waiting = false;
        current.column += 1;
        let start = self.row.len() + 4;
        match value {
            Some(bytes) => {
                self.row.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                self.row.extend_from_slice(bytes);
            }
            None => self.row.extend_from_slice(&[0xFF; 4]),
        }
        if let Some((part, _)) = column.key {
            self.placer.spans[part] = value.map(|_| (start, self.row.len()));
        }
    }

    /// Keeps a conversion of a text for the next time.
    fn remember(&mut self, value: Option<&[u8]>) {
        let Some(current) = self.current else { return };
        if self.options.format == Format::Binary || current.is_header {
            return;
        }
        let Some(text) = self.text_value(current.column, self.line_of(&current)).map(<[u8]>::to_vec) else {
            self.columns[current.column].takes_null = true;
            return;
        };
        let Some(value) = value.filter(|_| text.len() <= REMEMBERED_BYTES_MAX) else { return };
        let remembered = &mut self.columns[current.column].remembered;
        if remembered.len() == REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(text, value.to_vec());
    }

    /// PostgreSQL's notice about the row that [`Router::skip_row`] leaves out.
    pub fn skip_notice(&self) -> PgError {
        let mut message = b"skipping row due to data type incompatibility".to_vec();
        if let Some(current) = self.current {
            let name = &self.columns[current.column].name;
            message.extend_from_slice(format!(" at line {} for column \"{name}\"", self.line).as_bytes());
            context::quote(&mut message, self.text_value(current.column, self.line_of(&current)));
        }
        PgError::with_severity("NOTICE", SqlState::SUCCESSFUL_COMPLETION, "")
            .with(field::MESSAGE, message)
            .context(format!("COPY {}", self.relation))
    }

    /// Instead of [`Router::supply`]: leave this row out (`ON_ERROR ignore`).
    pub fn skip_row(&mut self) {
        if let Some(current) = self.current.take() {
            self.input.leave(current.at);
            self.skipped += 1;
        }
    }

    /// Instead of [`Router::supply`]: PostgreSQL refused the value. Gives its error with the CONTEXT that COPY has.
    /// Afterwards treat it as an error of [`Router::step`].
    pub fn refuse(&mut self, error: PgError, outputs: &mut [Vec<u8>]) -> PgError {
        let Some(current) = self.current else { return error };
        let error = self.at_value(error, &current);
        self.forward_refused(outputs);
        error
    }

    /// Instead of [`Router::skip_row`]: this row would be one too many.
    pub fn too_many_skipped(&self, limit: u64) -> PgError {
        let message = format!("skipped more than REJECT_LIMIT ({limit}) rows due to data type incompatibility");
        let error = PgError::new(SqlState::INVALID_TEXT_REPRESENTATION, message);
        match &self.current {
            Some(current) => self.at_value(error, current),
            None => error,
        }
    }

    /// Adds the CONTEXT of the value being converted.
    fn at_value(&self, error: PgError, current: &Current) -> PgError {
        let name = || &self.columns[current.column].name;
        let place = match self.options.format {
            _ if current.is_header => Place::Line,
            Format::Binary => Place::Column(name()),
            _ => Place::Value(name(), self.text_value(current.column, self.line_of(current))),
        };
        let own = context::describe(&self.relation, self.line, place);
        let inner = error.get(field::WHERE).map(|w| [w, b"\n"].concat()).unwrap_or_default();
        error.with(field::WHERE, [inner, own].concat())
    }

    /// A row with a bad key that is forwarded as it came may have an error that PostgreSQL would have met before (an earlier
    /// column, a quote that is not closed): a datanode gets the row, so that its word can go first.
    pub(super) fn forward_refused(&mut self, outputs: &mut [Vec<u8>]) {
        let current = self.current.filter(|current| !current.is_header);
        match (self.options.format, self.output, current) {
            (Format::Binary, _, Some(current)) => self.forward_tuple(&current, outputs),
            (Format::Binary, _, None) => self.forward_cut(outputs),
            (_, Output::Raw, Some(current)) => self.append_raw(0, &current, outputs),
            _ => return,
        }
        self.current = None;
    }

    /// The line as it came. The datanode counts quoted newlines as we do, but for its first line it does not know the
    /// newline style yet.
    pub(super) fn append_raw(&mut self, dest: usize, current: &Current, outputs: &mut [Vec<u8>]) {
        outputs[dest].extend_from_slice(self.line_of(current));
        // The last line of the input may have no newline; then it is the last for its datanode too.
        if current.at.next > current.at.content {
            outputs[dest].extend_from_slice(self.scanner.eol.bytes());
        }
        let knows_eol = self.scanner.eol == Eol::Lf && self.log.lines_sent(dest) > 0;
        let quoted = if knows_eol { current.quoted_lf } else { current.quoted_cr };
        for before_last in (0..=u64::from(quoted)).rev() {
            self.log.add(dest, self.line.saturating_sub(before_last));
        }
    }

    /// Values of the refused row that nobody has read and PostgreSQL would have read before it met the error: if one of them is
    /// wrong, [`Router::refuse_earlier`] has the error to report.
    pub fn unread(&self) -> Vec<Conversion> {
        let Some(current) = self.current.filter(|_| self.output == Output::Binary) else { return Vec::new() };
        let earlier = (0..current.column).filter(|column| self.columns[*column].codec.is_unread());
        earlier.map(|column| self.conversion(&Current { column, ..current })).filter(|c| c.value.is_some()).collect()
    }

    /// PostgreSQL refused a value that was [`Router::unread`].
    pub fn refuse_earlier(&self, error: PgError, conversion: &Conversion) -> PgError {
        match self.current {
            Some(current) => self.at_value(error, &Current { column: conversion.column, ..current }),
            None => error,
        }
    }
}
