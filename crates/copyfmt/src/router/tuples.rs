//! Binary input: tuples instead of lines.

use pgerror::{PgError, Result, field};

use super::{Conversion, Current, Progress, Router};
use crate::binary::{BinaryError, BinaryItem, tuple_fields};
use crate::lines::context::{self, Place};
use crate::scan::bad_format;

/// A length that no value has.
const NO_SIZE: i32 = -2;

impl Router {
    /// Finds the next tuple of a binary COPY.
    pub(super) fn next_tuple(&mut self) -> Result<Progress> {
        if self.trailer_seen {
            return self.after_trailer();
        }
        let found = self.input.next_item(&mut self.splitter, self.columns.len());
        let (item, at) = found.map_err(|e| self.binary_error(e))?;
        match item {
            BinaryItem::More => return Ok(Progress::NeedInput),
            BinaryItem::Header(_) => {}
            BinaryItem::Trailer(_) => self.trailer_seen = true,
            BinaryItem::Tuple(_) => {
                self.line += 1;
                self.row.clear();
                self.current =
                    Some(Current { at, column: 0, waiting: false, is_header: false, quoted_lf: 0, quoted_cr: 0 });
                return Ok(Progress::Row);
            }
        }
        self.input.leave(at);
        Ok(Progress::Other)
    }

    /// Nothing may follow the trailer.
    fn after_trailer(&mut self) -> Result<Progress> {
        if self.input.unread_bytes() > 0 {
            let error = bad_format("received copy data after EOF marker");
            return Err(context::add(error, &self.relation, self.line + 1, Place::Line));
        }
        self.done = self.input.is_finished();
        Ok(if self.done { Progress::Other } else { Progress::NeedInput })
    }

    /// A row whose key is wrong: a datanode gets it, whose word about it goes first.
    pub(super) fn forward_tuple(&mut self, current: &Current, outputs: &mut [Vec<u8>]) {
        outputs[0].extend_from_slice(self.line_of(current));
        self.log.add(0, self.line);
    }

    /// A row that ends before its time: a datanode gets the values before that, of which one may be wrong, and then something
    /// that it refuses at the same place.
    pub(super) fn forward_cut(&mut self, outputs: &mut [Vec<u8>]) {
        let (values, bytes) = self.splitter.values_read();
        if values > 0 {
            outputs[0].extend_from_slice(&self.input.unfinished()[..bytes]);
            outputs[0].extend_from_slice(&NO_SIZE.to_be_bytes());
            self.log.add(0, self.line + 1);
            self.is_cut = true;
        }
    }

    /// Is this error, of a datanode that has read the values before `own`, only the one that [`Router::step`] gave it?
    pub fn is_of_cut(&self, error: &PgError, own: &PgError) -> bool {
        self.is_cut && error.get(field::WHERE) == own.get(field::WHERE)
    }

    /// The input failed before its end.
    pub(super) fn while_reading_tuple(&mut self, error: PgError, outputs: &mut [Vec<u8>]) -> PgError {
        if !self.splitter.is_in_tuples() {
            return error;
        }
        self.forward_cut(outputs);
        let (values, bytes) = self.splitter.values_read();
        let place = match self.columns.get(values).filter(|_| bytes > 0) {
            Some(column) => Place::Column(&column.name),
            None => Place::Line,
        };
        context::add(error, &self.relation, self.line + 1, place)
    }

    /// Errors of the header come before PostgreSQL has a context.
    fn binary_error(&self, error: BinaryError) -> PgError {
        if !self.splitter.is_in_tuples() {
            return error.error;
        }
        let place =
            error.column.and_then(|index| self.columns.get(index)).map_or(Place::Line, |c| Place::Column(&c.name));
        context::add(error.error, &self.relation, self.line + 1, place)
    }

    /// Copies the key's values of the current tuple to `row`. Where a type modifier would change one, PostgreSQL does.
    pub(super) fn take_binary_key(&mut self, current: &mut Current) -> Result<Option<Conversion>> {
        let wanted = self.placer.columns_needed();
        while current.column < wanted {
            let column = &self.columns[current.column];
            let Some((part, _)) = column.key else {
                current.column += 1;
                continue;
            };
            let mut row = std::mem::take(&mut self.row);
            let start = row.len();
            let value = tuple_fields(self.line_of(current)).nth(current.column).flatten();
            let is_foreign = value.is_some_and(|bytes| self.is_foreign(column, bytes));
            let received = value.map(|bytes| column.codec.received(bytes).filter(|_| !is_foreign));
            row.extend_from_slice(received.flatten().unwrap_or_default());
            if let (Some(bytes), Some(None)) = (value, received) {
                let (type_oid, type_modifier) = (column.type_oid, column.type_modifier);
                let value = Some(bytes.to_vec());
                current.waiting = true;
                self.row = row;
                self.current = Some(*current);
                return Ok(Some(Conversion {
                    column: current.column,
                    type_oid,
                    type_modifier,
                    value,
                    is_binary: true,
                    is_foreign,
                    is_check: false,
                }));
            }
            self.placer.spans[part] = value.map(|_| (start, row.len()));
            self.row = row;
            current.column += 1;
        }
        self.current = Some(*current);
        Ok(None)
    }
}
