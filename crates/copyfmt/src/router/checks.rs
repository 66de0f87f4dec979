//! Checks of names: the header line, and the columns that options name.

use pgerror::{PgError, Result, SqlState};

use super::{Column, Current, Router};
use crate::CopyOptions;
use crate::context::{self, Place};
use crate::fields::Fields;
use crate::options::{ForceColumns, Header};
use crate::scan::bad_format;

impl Router {
    pub(super) fn check_header(&mut self, current: &Current) -> Result<()> {
        if self.options.header != Header::Match {
            return Ok(());
        }
        let mut fields = std::mem::take(&mut self.fields);
        let line = self.line_of(current);
        let result = fields
            .split(line, &self.options, self.encoding, usize::MAX)
            .and_then(|()| self.compare_header(&fields, line))
            .map_err(|e| context::add(e, &self.relation, self.line, Place::Text(line)));
        self.fields = fields;
        result
    }

    fn compare_header(&self, fields: &Fields, line: &[u8]) -> Result<()> {
        let (count, expected) = (fields.len(), self.columns.len());
        if count != expected {
            return Err(bad_format(format!("wrong number of fields in header line: got {count}, expected {expected}")));
        }
        for (index, column) in self.columns.iter().enumerate() {
            let got = fields.get(index, line);
            if got == Some(column.name.as_bytes()) {
                continue;
            }
            let got = match got {
                Some(name) => format!("got \"{}\"", String::from_utf8_lossy(name)),
                None => format!("got null value (\"{}\")", self.options.null),
            };
            let (number, name) = (index + 1, &column.name);
            return Err(bad_format(format!(
                "column name mismatch in header line field {number}: {got}, expected \"{name}\""
            )));
        }
        Ok(())
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
