//! Gathers rows of fragments into temp tables on the home node and runs the final statement there.
//!
//! A row is never decoded: a DataRow whose columns are all binary is, byte for byte, a tuple of binary COPY, so the
//! coordinator only changes the frames around it. Types whose binary form holds object ids that differ between nodes
//! (composites, arrays of user types) go as text.
//!
//! The home node's own part of a fragment never leaves it (`CREATE TEMP TABLE … AS`). The temp tables live in the home
//! node's transaction, which therefore cannot be PREPAREd: it becomes the commit point.

use bytes::{Bytes, BytesMut};
use catalog::{NodeId, quote_identifier};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pgerror::{PgError, Result, field};
use pgproto::backend::Field;
use pgproto::frontend;
use planner::{Gather, Input};

use crate::call::{Call, Event};
use crate::load::is_node_specific;
use crate::output::{Output, frame_bodies};
use crate::run::Completion;
use crate::session::{Held, Mode, Session};

/// Bytes of rows sent to the home node in one CopyData.
pub(crate) const FRAME_BYTES: usize = 128 * 1024;

/// `aclitem` has no binary form; `record` and other pseudo types cannot be columns, so they need no mention.
pub(crate) const WITHOUT_BINARY_FORM: [u32; 1] = [1033];

/// Header and trailer of binary COPY.
pub(crate) const BINARY_HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
pub(crate) const BINARY_TRAILER: [u8; 2] = [0xff, 0xff];

impl Session {
    /// See the module's page.
    pub(crate) async fn gather(&mut self, gather: &Gather, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        if self.in_block() {
            if self.is_read_only() && !gather.writes {
                return self.beside(async |this| this.gather_in_block(gather, call, output).await).await;
            }
            let completion = self.gather_in_block(gather, call, output).await?;
            self.drop_inputs(&gather.inputs).await?;
            return Ok(completion);
        }
        self.begin("BEGIN", false);
        self.read_elsewhere = !gather.writes;
        let result = self.gather_in_block(gather, call, output).await;
        self.read_elsewhere = false;
        match result {
            Ok(completion) if gather.writes => self.commit().await.map(|_| completion),
            // Nothing is to be kept: rolling back spares the home node a flush of its log.
            Ok(completion) => {
                self.rollback().await;
                Ok(completion)
            }
            Err(error) => {
                self.rollback().await;
                Err(error)
            }
        }
    }

    /// A read-only transaction may not make temp tables: a second session on the home node does, with the same
    /// snapshot (unless a savepoint is open, in which a snapshot cannot be exported).
    pub(crate) async fn beside<T>(&mut self, work: impl AsyncFnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let begin = match self.has_savepoints() {
            true => "BEGIN".to_owned(),
            false => {
                let rows = self.rows_on(self.home, "SELECT pg_catalog.pg_export_snapshot()").await?;
                let id = rows.first().and_then(|row| row.first()?.clone()).unwrap_or_default();
                let id = catalog::quote_literal(&String::from_utf8_lossy(&id));
                format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE; SET TRANSACTION SNAPSHOT {id}")
            }
        };
        self.open_beside(&begin).await?;
        let result = work(self).await;
        self.close_beside().await;
        result
    }

    pub(crate) async fn gather_in_block(
        &mut self,
        gather: &Gather,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let sql = self.fill_all(&gather.inputs, &gather.final_sql, call).await?;
        let part = vec![(self.sink, sql)];
        // The next statement's inputs bear the same names and may have other types.
        let call = Call { one_off: true, ..call.clone() };
        self.scatter(Mode::InBlock, part, &call, output).await.map_err(without_position)
    }

    /// Fills the inputs; gives the final statement with its type markers replaced.
    pub(crate) async fn fill_all(
        &mut self,
        inputs: &[Input],
        final_sql: &planner::FinalSql,
        call: &Call,
    ) -> Result<String> {
        let mut filled = Vec::with_capacity(inputs.len());
        for input in inputs {
            filled.push(self.fill(input, call, inputs.len() > 1).await.map_err(without_position)?);
        }
        let columns: Vec<&[Field]> = filled.iter().map(Vec::as_slice).collect();
        self.resolve_types(final_sql, &columns).await
    }

    /// Makes the temp table of one input and fills it from all nodes; gives its columns.
    async fn fill(&mut self, input: &Input, call: &Call, analyze: bool) -> Result<Vec<Field>> {
        let home = self.sink;
        self.hold(home, Mode::InBlock).await?;
        let held = self.link(home)?;
        held.temp = true;
        held.start_describe(&input.sql, &call.declared_types());
        held.flush().await?;
        let columns = held.read_description().await?.1.unwrap_or_default();
        let binary = columns
            .iter()
            .all(|column| !is_node_specific(column.type_oid) && !WITHOUT_BINARY_FORM.contains(&column.type_oid));

        let version = self.catalog_version;
        let remotes: Vec<NodeId> = input.nodes.iter().copied().filter(|node| *node != home).collect();
        let mode = if self.read_elsewhere { Mode::Autocommit } else { Mode::InBlock };
        for node in &remotes {
            self.hold(*node, mode).await?;
            let held = self.link(*node)?;
            held.start(&input.sql, &call.with_formats(vec![i16::from(binary)]), version);
            held.flush().await?;
        }

        let here = if input.nodes.contains(&home) { "" } else { "NO " };
        let create = format!(
            "CREATE TEMP TABLE {}{} ON COMMIT DROP AS {} WITH {here}DATA",
            quote_identifier(&input.table),
            column_list(&columns),
            input.sql
        );
        let held = self.link(home)?;
        held.start(&create, &call.with_formats(Vec::new()), version);
        held.flush().await?;
        let created = held.finish().await;
        if !remotes.is_empty() {
            self.pump(&remotes, &input.table, binary, created).await?;
        } else {
            created?;
        }
        for sql in &input.after_create {
            self.run_on(home, sql).await?;
        }
        if analyze {
            self.run_on(home, &format!("ANALYZE pg_temp.{}", quote_identifier(&input.table))).await?;
        }
        Ok(columns)
    }

    /// Moves the rows of `remotes` into the temp table. `created` is how making the table ended: after an error the remotes
    /// are still read to their end.
    async fn pump(
        &mut self,
        remotes: &[NodeId],
        table: &str,
        binary: bool,
        created: Result<Option<String>>,
    ) -> Result<()> {
        let mut sink = self.take(&[self.sink])?;
        let mut sources = self.take(remotes)?;
        let result = match (created, sink.first_mut()) {
            (Ok(_), Some((_, sink))) => copy_rows(&mut sources, sink, table, binary).await,
            (Err(error), _) => Err(error),
            (Ok(_), None) => Err(PgError::internal("the home node's link is missing")),
        };
        if result.is_err() {
            let running = sources.iter().filter(|(_, held)| !held.link.connection.is_settled());
            let cancels = running.map(|(_, held)| held.link.connection.cancel_key().send());
            futures_util::future::join_all(cancels).await;
            let rest = sources.iter_mut().filter(|(_, held)| !held.link.connection.is_settled());
            futures_util::future::join_all(rest.map(|(_, held)| held.finish())).await;
        }
        self.put_back(sink);
        self.put_back(sources);
        result
    }

    /// The temp tables of a finished gather inside a block would be in the way of the next one.
    pub(crate) async fn drop_inputs(&mut self, inputs: &[Input]) -> Result<()> {
        let tables: Vec<String> =
            inputs.iter().map(|input| format!("pg_temp.{}", quote_identifier(&input.table))).collect();
        if !tables.is_empty() {
            self.run_on(self.sink, &format!("DROP TABLE {}", tables.join(", "))).await?;
        }
        Ok(())
    }

    /// Replaces the type markers of a final statement; only a server can print a type's name.
    pub(crate) async fn resolve_types(&mut self, sql: &planner::FinalSql, inputs: &[&[Field]]) -> Result<String> {
        if sql.types.is_empty() {
            return Ok(sql.text.clone());
        }
        let wanted: Vec<String> = sql
            .types
            .iter()
            .map(|(input, column)| {
                let field = inputs.get(input - 1).and_then(|columns| columns.get(column - 1));
                let (oid, modifier) = field.map_or((0, -1), |field| (field.type_oid, field.type_modifier));
                format!("pg_catalog.format_type({oid}, {modifier})")
            })
            .collect();
        let rows = self.rows_on(self.sink, &format!("SELECT {}", wanted.join(", "))).await?;
        let names: Vec<String> = rows
            .first()
            .map(|row| {
                row.iter().map(|v| String::from_utf8_lossy(v.as_deref().unwrap_or_default()).into_owned()).collect()
            })
            .unwrap_or_default();
        Ok(sql.resolve(|input, column| {
            let at = sql.types.iter().position(|marker| *marker == (input, column)).unwrap_or(0);
            names.get(at).cloned().unwrap_or_default()
        }))
    }
}

/// A query may give several columns of one name, a table may not have them: the later ones get names of ours. Nobody refers
/// to them by name, since that would be ambiguous.
fn column_list(columns: &[Field]) -> String {
    let mut seen = std::collections::HashSet::new();
    let names: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(i, column)| match seen.insert(&column.name) {
            true => quote_identifier(&String::from_utf8_lossy(&column.name)),
            false => format!("loxo_column_{}", i + 1),
        })
        .collect();
    match seen.len() == columns.len() {
        true => String::new(),
        false => format!(" ({})", names.join(", ")),
    }
}

/// A position points into our own text, which the user never saw.
pub(crate) fn without_position(error: PgError) -> PgError {
    error.without(field::POSITION)
}

async fn copy_rows(sources: &mut [(NodeId, Held)], sink: &mut Held, table: &str, binary: bool) -> Result<()> {
    let format = if binary { "binary" } else { "text" };
    let copy = format!("COPY pg_temp.{} FROM STDIN (FORMAT {format})", quote_identifier(table));
    sink.link.connection.query(copy.as_bytes());
    sink.flush().await?;
    match sink.next().await? {
        Event::CopyIn => {}
        other => return Err(PgError::protocol(format!("unexpected answer {other:?} to COPY"))),
    }
    let mut frame = CopyFrame::new();
    if binary {
        frame.bytes.extend_from_slice(BINARY_HEADER);
    }
    let result = forward_rows(sources, sink, &mut frame, binary).await;
    match &result {
        Ok(()) => {
            if binary {
                frame.bytes.extend_from_slice(&BINARY_TRAILER);
            }
            frame.send(sink).await?;
            frontend::copy_done(sink.link.connection.out());
        }
        Err(_) => frontend::copy_fail(sink.link.connection.out(), b"a source node failed"),
    }
    sink.flush().await?;
    let ended = sink.finish().await;
    result.and(ended.map(|_| ()))
}

async fn forward_rows(
    sources: &mut [(NodeId, Held)],
    sink: &mut Held,
    frame: &mut CopyFrame,
    binary: bool,
) -> Result<()> {
    let mut steps = FuturesUnordered::new();
    for (_, held) in sources.iter_mut() {
        steps.push(next(held));
    }
    while let Some((held, event)) = steps.next().await {
        match event? {
            Event::Done => continue,
            Event::Rows(run, _) => {
                for body in frame_bodies(&run) {
                    match binary {
                        true => frame.bytes.extend_from_slice(body),
                        false => text_line(body, &mut frame.bytes)?,
                    }
                    if frame.bytes.len() >= FRAME_BYTES {
                        frame.send(sink).await?;
                    }
                }
            }
            _ => {}
        }
        steps.push(next(held));
    }
    Ok(())
}

async fn next(held: &mut Held) -> (&mut Held, Result<Event>) {
    let event = held.next().await;
    (held, event)
}

/// Rows on their way into one CopyData.
pub(crate) struct CopyFrame {
    pub(crate) bytes: BytesMut,
}

impl CopyFrame {
    pub(crate) fn new() -> Self {
        Self { bytes: BytesMut::with_capacity(FRAME_BYTES + 8192) }
    }

    pub(crate) async fn send(&mut self, sink: &mut Held) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let header = frontend::copy_data_header(self.bytes.len());
        sink.link.connection.out().extend_from_slice(&header);
        sink.link.connection.write_through(&self.bytes).await?;
        self.bytes.clear();
        Ok(())
    }
}

/// Writes a DataRow of text values as a line of COPY text.
pub(crate) fn text_line(body: &[u8], out: &mut BytesMut) -> Result<()> {
    let values = pgproto::backend::decode_data_row(Bytes::copy_from_slice(body))?;
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b"\t");
        }
        let Some(value) = value else {
            out.extend_from_slice(b"\\N");
            continue;
        };
        for byte in value {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                other => out.extend_from_slice(&[*other]),
            }
        }
    }
    out.extend_from_slice(b"\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_lines_are_escaped() {
        let mut row = BytesMut::new();
        pgproto::backend::data_row(&mut row, [Some(&b"a\tb\\\n"[..]), None, Some(&b""[..])].into_iter());
        let mut line = BytesMut::new();
        text_line(&row[5..], &mut line).unwrap();
        assert_eq!(&line[..], b"a\\tb\\\\\\n\t\\N\t\n");
    }
}
