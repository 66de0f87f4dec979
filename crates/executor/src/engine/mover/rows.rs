//! The bytes of rows: DataRow bodies, and what COPY makes of them.
//!
//! A DataRow whose columns are all binary is, byte for byte, a tuple of binary COPY, so only the frames around it change. Nothing is
//! allocated for a row.

use bytes::{BufMut, Bytes, BytesMut};
use copyfmt::{BINARY_HEADER, BINARY_TRAILER};
use pgerror::{PgError, Result};
use pgproto::frontend;

use crate::backend::leased::LeasedConnection;
use crate::backend::request::{Event, frame_bodies};
use crate::engine::spool::Spool;

/// Bytes of rows sent in one CopyData, about.
pub(crate) const FRAME_BYTES: usize = 128 * 1024;
/// Rows of a spool sent in one CopyData.
const SPOOL_ROWS: usize = 1000;

/// The values of a DataRow body.
pub(crate) struct Values<'b> {
    rest: &'b [u8],
    left: u16,
}

impl<'b> Values<'b> {
    pub(crate) fn of(body: &'b [u8]) -> Self {
        match body.split_first_chunk() {
            Some((count, rest)) => Self { rest, left: u16::from_be_bytes(*count) },
            None => Self { rest: body, left: 1 },
        }
    }

    fn value(&mut self) -> Option<Option<&'b [u8]>> {
        let (length, rest) = self.rest.split_first_chunk()?;
        let (value, rest) = match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(length) => (Some(rest.get(..length)?), &rest[length..]),
            Err(_) => (None, rest),
        };
        self.rest = rest;
        Some(value)
    }
}

impl<'b> Iterator for Values<'b> {
    type Item = Result<Option<&'b [u8]>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let value = self.value();
        if value.is_none() {
            self.left = 0;
        }
        Some(value.ok_or_else(|| PgError::protocol("a row has fewer columns than expected")))
    }
}

/// Cuts DataRow bodies apart that follow each other.
pub(crate) fn split_bodies(bodies: Bytes) -> Result<Vec<Bytes>> {
    let (mut rows, mut rest) = (Vec::new(), &bodies[..]);
    while !rest.is_empty() {
        let mut values = Values::of(rest);
        values.by_ref().try_for_each(|value| value.map(drop))?;
        let (row, later) = rest.split_at(rest.len() - values.rest.len());
        rows.push(bodies.slice_ref(row));
        rest = later;
    }
    Ok(rows)
}

/// Adds a row, which comes as a DataRow body, to the input of a COPY.
pub(crate) fn put_row(body: &[u8], binary: bool, out: &mut BytesMut) -> Result<()> {
    match binary {
        true => out.put_slice(body),
        false => text_line(body, out)?,
    }
    Ok(())
}

/// Writes a DataRow of text values as a line of COPY text.
fn text_line(body: &[u8], out: &mut BytesMut) -> Result<()> {
    for (at, value) in Values::of(body).enumerate() {
        if at > 0 {
            out.put_u8(b'\t');
        }
        let Some(value) = value? else {
            out.put_slice(b"\\N");
            continue;
        };
        for byte in value {
            match byte {
                b'\\' => out.put_slice(b"\\\\"),
                b'\t' => out.put_slice(b"\\t"),
                b'\n' => out.put_slice(b"\\n"),
                b'\r' => out.put_slice(b"\\r"),
                other => out.put_u8(*other),
            }
        }
    }
    out.put_u8(b'\n');
    Ok(())
}

/// `COPY … FROM STDIN` into a temp table, whose name is quoted.
pub(crate) fn copy_into(table: &str, binary: bool) -> String {
    let format = if binary { "binary" } else { "text" };
    format!("COPY pg_temp.{table} FROM STDIN (FORMAT {format})")
}

/// A COPY into a datanode. Rows may follow before the node has answered: one that refuses the COPY drops them.
impl LeasedConnection {
    /// Queues the COPY and what comes before its first row.
    pub(crate) fn begin_copy(&mut self, copy: &str, binary: bool) {
        self.link.connection.query(copy.as_bytes());
        if binary {
            self.queue_copied(&BINARY_HEADER);
        }
    }

    /// Sends rows, [`FRAME_BYTES`] in a message.
    pub(crate) async fn copy_rows(&mut self, rows: &[u8]) -> Result<()> {
        for frame in rows.chunks(FRAME_BYTES) {
            self.link.connection.out().put_slice(&frontend::copy_data_header(frame.len()));
            self.link.connection.write_through(frame).await?;
        }
        Ok(())
    }

    /// Queues the end of the rows.
    pub(crate) fn end_copy(&mut self, binary: bool) {
        if binary {
            self.queue_copied(&BINARY_TRAILER);
        }
        frontend::copy_done(self.link.connection.out());
    }

    fn queue_copied(&mut self, bytes: &[u8]) {
        let out = self.link.connection.out();
        out.put_slice(&frontend::copy_data_header(bytes.len()));
        out.put_slice(bytes);
    }

    /// Reads the answer to a COPY whose end is sent; gives its command tag.
    pub(crate) async fn read_copied(&mut self) -> Result<Option<String>> {
        let mut command_tag = None;
        loop {
            match self.next().await? {
                Event::CopyIn(_) => {}
                Event::Complete(tag) => command_tag = Some(tag),
                Event::Done => return Ok(command_tag),
                other => return Err(PgError::protocol(format!("unexpected answer {other:?} to COPY"))),
            }
        }
    }

    /// A COPY of these rows alone.
    pub(crate) async fn copy_whole(&mut self, copy: &str, rows: &[u8], binary: bool) -> Result<Option<String>> {
        self.begin_copy(copy, binary);
        self.copy_rows(rows).await?;
        self.end_copy(binary);
        self.flush().await?;
        self.read_copied().await
    }

    /// A COPY of all rows of a spool.
    pub(crate) async fn copy_spool(&mut self, copy: &str, mut spool: Spool, binary: bool) -> Result<()> {
        self.begin_copy(copy, binary);
        let (mut frames, mut rows) = (BytesMut::new(), BytesMut::new());
        loop {
            let (_, more) = spool.take(SPOOL_ROWS, &mut frames)?;
            let run: Bytes = frames.split().freeze();
            frame_bodies(&run).try_for_each(|body| put_row(body, binary, &mut rows))?;
            self.copy_rows(&rows).await?;
            rows.clear();
            if !more {
                break;
            }
        }
        self.end_copy(binary);
        self.flush().await?;
        self.read_copied().await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[Option<&[u8]>]) -> BytesMut {
        let mut row = BytesMut::new();
        pgproto::backend::data_row(&mut row, values.iter().copied());
        row.split_off(5)
    }

    #[test]
    fn text_lines_are_escaped() {
        let mut line = BytesMut::new();
        text_line(&row(&[Some(b"a\tb\\\n"), None, Some(b"")]), &mut line).unwrap();
        assert_eq!(&line[..], b"a\\tb\\\\\\n\t\\N\t\n");
    }

    #[test]
    fn bodies_are_cut_where_their_last_value_ends() {
        let rows = [row(&[Some(b"ab"), None]), row(&[]), row(&[Some(b"")])];
        let all = Bytes::from(rows.concat());
        assert_eq!(split_bodies(all.clone()).unwrap(), rows);
        assert!(split_bodies(all.slice(..all.len() - 1)).is_err());
        assert!(Values::of(b"").next().unwrap().is_err());
    }
}
