//! Checks of names: the header line, and the columns that options name.

use pgerror::{PgError, Result, SqlState, field};

use super::{Column, Conversion, Current, Progress, Router};
use crate::CopyOptions;
use crate::fields::Fields;
use crate::lines::context::{self, Place};
use crate::options::{ForceColumns, Header};
use crate::scan::bad_format;
use crate::utf8::Encoding;

const TEXT_OID: u32 = 25;

impl Router {
    /// The first line has been found, and it is the header.
    pub(super) fn read_header(&mut self, current: Current) -> Result<Progress> {
        if self.encoding == Encoding::Other && !self.line_of(&current).is_ascii() {
            self.current = Some(current);
            return Ok(Progress::Row);
        }
        self.check_header(&current, None)?;
        self.input.leave(current.at);
        Ok(Progress::Other)
    }

    /// A header that the server has to read first: gives what to ask, or checks the answer.
    pub(super) fn take_header(&mut self, current: &mut Current) -> Result<Option<Conversion>> {
        if let Some(text) = self.header_text.take() {
            self.current = None;
            self.check_header(current, Some(&text))?;
            self.input.leave(current.at);
            return Ok(None);
        }
        current.waiting = true;
        self.current = Some(*current);
        Ok(Some(Conversion {
            column: 0,
            type_oid: TEXT_OID,
            type_modifier: -1,
            value: Some(self.line_of(current).to_vec()),
            is_check: false,
            is_binary: false,
            is_foreign: true,
        }))
    }

    /// Fields of a line that are looked at, where the rest is the datanode's to read.
    pub(super) fn fields_needed(&self) -> usize {
        self.clockless.last().map_or(0, |last| last + 1).max(self.placer.columns_needed())
    }

    /// No word like `now` is in a column that must not have one.
    pub(super) fn check_clockless(&self, current: &Current) -> Result<()> {
        for index in &self.clockless {
            let value = self.text_value(*index, self.line_of(current));
            if value.is_some_and(reads_clock) {
                let name = &self.columns[*index].name;
                let what = "COPY of a word like \"now\" or \"today\" into a table with copies";
                let error = PgError::unsupported(what).hint("Write the time itself, or use INSERT.");
                return Err(context::add(error, &self.relation, self.line, Place::Value(name, value)));
            }
        }
        Ok(())
    }

    /// `converted`: the line in the server's encoding, if that is another one.
    fn check_header(&self, current: &Current, converted: Option<&[u8]>) -> Result<()> {
        if self.options.header != Header::Match {
            return Ok(());
        }
        let line = self.line_of(current);
        self.compare_header(line, converted).map_err(|e| context::add(e, &self.relation, self.line, Place::Text(line)))
    }

    fn compare_header(&self, line: &[u8], converted: Option<&[u8]>) -> Result<()> {
        let (mut fields, mut names) = (Fields::default(), Fields::default());
        fields.split(line, &self.options, self.encoding, usize::MAX)?;
        let encoding = if self.encoding == Encoding::Other { Encoding::Utf8 } else { self.encoding };
        names.split(converted.unwrap_or(line), &self.options, encoding, usize::MAX)?;
        let (count, expected) = (names.len(), self.columns.len());
        if count != expected {
            return Err(bad_format(format!("wrong number of fields in header line: got {count}, expected {expected}")));
        }
        let differs = |index: usize, name: &str| names.get(index, converted.unwrap_or(line)) != Some(name.as_bytes());
        match self.columns.iter().enumerate().find(|(index, column)| differs(*index, &column.name)) {
            Some((index, column)) => Err(self.other_name(index, &column.name, fields.get(index, line))),
            None => Ok(()),
        }
    }

    fn other_name(&self, index: usize, name: &str, got: Option<&[u8]>) -> PgError {
        let mut message = format!("column name mismatch in header line field {}: got ", index + 1).into_bytes();
        match got {
            Some(got) => message.extend([b"\"", got, b"\""].concat()),
            None => message.extend_from_slice(format!("null value (\"{}\")", self.options.null).as_bytes()),
        }
        message.extend_from_slice(format!(", expected \"{name}\"").as_bytes());
        bad_format("").with(field::MESSAGE, message)
    }
}

/// `BeginCopyFrom`: FORCE_NULL and FORCE_NOT_NULL name columns of the COPY.
pub(super) fn forced_columns(options: &CopyOptions, columns: &[Column]) -> Result<()> {
    let names = |forced: &ForceColumns| match forced {
        ForceColumns::Columns(names) => names.clone(),
        _ => Vec::new(),
    };
    for (option, forced) in [("FORCE_NOT_NULL", &options.force_not_null), ("FORCE_NULL", &options.force_null)] {
        let missing = names(forced).into_iter().find(|name| columns.iter().all(|column| column.name != *name));
        if let Some(name) = missing {
            let message = format!("{option} column \"{name}\" not referenced by COPY");
            return Err(PgError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
    }
    Ok(())
}

/// Would an input function of PostgreSQL's ask the clock for this text of a date or a time, or of an array or range of these, where quotes
/// and backslashes may stand inside a word? (`datetktbl` in PostgreSQL's `datetime.c`)
pub fn reads_clock(text: &[u8]) -> bool {
    const WORDS: [&[u8]; 4] = [b"now", b"today", b"tomorrow", b"yesterday"];
    const LETTERS_MAX: usize = 9;
    let (mut word, mut letters) = ([0; LETTERS_MAX], 0);
    text.iter().chain(b" ").any(|byte| match byte {
        b'"' | b'\\' => false,
        byte if byte.is_ascii_alphabetic() => {
            if let Some(place) = word.get_mut(letters) {
                *place = byte.to_ascii_lowercase();
            }
            letters += 1;
            false
        }
        _ => {
            let is_one = word.get(..letters).is_some_and(|word| WORDS.contains(&word));
            letters = 0;
            is_one
        }
    })
}
