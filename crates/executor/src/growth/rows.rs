//! Rows of a table that go from one datanode to another as they are: a COPY on one link feeds a COPY on another.
//!
//! ```text
//!  source   COPY TO … ─ rows ─▶ COPY TO … ─ rows ─▶ …
//!                        │ at most AHEAD_BYTES         │
//!  target               COPY FROM … ─ question ─▶ COPY FROM … ─ question
//! ```
//!
//! Rows go in [`Part`]s. While the target is asked about one part, the source reads the next one ahead.

use std::sync::Arc;

use bytes::Bytes;
use catalog::{Generated, Relation, quote_identifier};
use pgerror::{PgError, Result};
use pgproto::{backend, frontend};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::backend::call::travels_in_binary;
use crate::backend::leased::LeasedConnection;
use crate::backend::request::Event;
use crate::backend::slot::Slot;
use crate::block::Mode;
use crate::session::Session;
use crate::shared::catalog_load::Row;

/// The source is at most so far ahead of the target, or a row if that is larger.
const AHEAD_BYTES: usize = 4 << 20;

/// What both ends of a COPY are told first. No trigger of a user's fires, no foreign key is looked at, and no value is written in
/// words that depend on a setting.
pub(crate) const ENDS: &str = "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL session_replication_role = replica; \
     SET LOCAL row_security = off; SET LOCAL statement_timeout = 0; SET LOCAL DateStyle = 'ISO'; \
     SET LOCAL IntervalStyle = 'iso_8601'; SET LOCAL extra_float_digits = 3; SET LOCAL bytea_output = 'hex'; SET LOCAL jit = off; \
     SET LOCAL array_nulls = on; SET LOCAL xmloption = 'content'";

/// How a table's rows travel.
pub(crate) struct Travel {
    /// Quoted, without those that are computed.
    pub(crate) columns: String,
    format: &'static str,
}

impl Travel {
    pub(crate) fn of(table: &Relation) -> Self {
        let is_computed = |generated| matches!(generated, Generated::Stored | Generated::Virtual);
        let stored: Vec<_> = table.columns.iter().filter(|column| !is_computed(column.generated)).collect();
        let names: Vec<String> = stored.iter().map(|column| quote_identifier(&column.name)).collect();
        let binary = stored.iter().all(|column| travels_in_binary(column.type_oid));
        Self { columns: names.join(", "), format: if binary { "binary" } else { "text" } }
    }

    /// `COPY … TO STDOUT` of a query or table.
    pub(crate) fn copy_out(&self, what: &str) -> String {
        format!("COPY {what} TO STDOUT (FORMAT {})", self.format)
    }

    /// A COPY TO STDOUT of rows that it deletes.
    pub(crate) fn copy_deleted(&self, table: &str, condition: &str) -> String {
        let delete = format!("DELETE FROM ONLY {table} WHERE {condition}");
        self.copy_out(&match self.columns.is_empty() {
            true => format!("(WITH gone AS ({delete} RETURNING 1) SELECT FROM gone)"),
            false => format!("({delete} RETURNING {})", self.columns),
        })
    }

    pub(crate) fn copy_in(&self, table: &str) -> String {
        match self.columns.is_empty() {
            true => format!("COPY {table} FROM STDIN (FORMAT {})", self.format),
            false => format!("COPY {table} ({}) FROM STDIN (FORMAT {})", self.columns, self.format),
        }
    }
}

/// How much has gone from one node to another.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

impl std::iter::Sum for Passed {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self { rows: sum.rows + one.rows, bytes: sum.bytes + one.bytes })
    }
}

/// Rows that travel one table after the other, and what is asked about them then.
pub(crate) struct Part {
    /// COPY TO of the source, COPY FROM of the target.
    pub(crate) copies: Vec<(String, String)>,
    /// Asked of the target, which has the rows.
    pub(crate) question: Option<String>,
}

/// What has become of a part.
pub(crate) struct Arrived {
    /// What each copy has passed.
    pub(crate) passed: Vec<Passed>,
    pub(crate) answer: Vec<Row>,
}

impl Session {
    /// Runs both COPYs within the block, and has the rows of the first go into the second.
    pub(crate) async fn pass_rows(
        &mut self,
        (from, out): (impl Into<Slot>, &str),
        (to, into): (impl Into<Slot>, &str),
    ) -> Result<Passed> {
        let part = Part { copies: vec![(out.to_owned(), into.to_owned())], question: None };
        let arrived = self.pass_parts((from.into(), to.into()), &[part]).await?;
        Ok(arrived.iter().flat_map(|part| &part.passed).copied().sum())
    }

    /// Runs the COPYs of all parts within the block.
    pub(crate) async fn pass_parts(&mut self, (from, to): (Slot, Slot), parts: &[Part]) -> Result<Vec<Arrived>> {
        for slot in [from, to] {
            self.acquire(slot, Mode::InBlock).await?;
            self.causality.touch(slot.node());
        }
        let mut links = self.links.take(&[from, to])?;
        let [(_, source), (_, target)] = links.as_mut_slice() else {
            return Err(PgError::internal("rows that pass need two links"));
        };
        let (rows, arriving) = unbounded_channel();
        let outgoing = Outgoing { rows, room: Arc::new(Semaphore::new(AHEAD_BYTES)) };
        let (read, written) = tokio::join!(read(source, parts, outgoing), write(target, parts, arriving));
        self.links.put_back(links);
        read.and(written)
    }
}

enum Travelling {
    /// CopyData frames.
    Rows(Bytes, OwnedSemaphorePermit),
    /// The end of one COPY.
    End { rows: u64 },
}

struct Outgoing {
    rows: UnboundedSender<Travelling>,
    room: Arc<Semaphore>,
}

impl Outgoing {
    /// Waits while the target is too far behind. False: it wants no more.
    async fn send(&self, run: Bytes) -> bool {
        let bytes = run.len().min(AHEAD_BYTES) as u32;
        tokio::select! {
            permit = self.room.clone().acquire_many_owned(bytes) => match permit {
                Ok(permit) => self.rows.send(Travelling::Rows(run, permit)).is_ok(),
                Err(_) => false,
            },
            () = self.rows.closed() => false,
        }
    }
}

/// The source's part. The link is drained afterwards, or broken.
async fn read(source: &mut LeasedConnection, parts: &[Part], outgoing: Outgoing) -> Result<()> {
    for (out, _) in parts.iter().flat_map(|part| &part.copies) {
        source.link.connection.query(out.as_bytes());
        source.flush().await?;
        let mut rows = 0;
        loop {
            match source.next().await? {
                Event::CopyOut(_) => {}
                Event::CopyData(run) => {
                    if !outgoing.send(run).await {
                        // The target says why.
                        stop(source).await;
                        return Ok(());
                    }
                }
                Event::Complete(tag) => rows += backend::split_command_tag(&tag).1.unwrap_or(0),
                Event::Done => break,
                other => {
                    stop(source).await;
                    return Err(PgError::protocol(format!("unexpected {other:?} in COPY")));
                }
            }
        }
        if outgoing.rows.send(Travelling::End { rows }).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Has a COPY TO that nobody wants any more end.
async fn stop(source: &mut LeasedConnection) {
    let connection = &source.link.connection;
    if !connection.is_drained() && !connection.is_broken() {
        connection.cancel_key().cancel().await;
        // What it says is of no use; a link that does not answer is broken then.
        let _ = source.finish().await;
    }
}

/// The target's part. The link is drained afterwards, or broken.
async fn write(
    target: &mut LeasedConnection,
    parts: &[Part],
    mut arriving: UnboundedReceiver<Travelling>,
) -> Result<Vec<Arrived>> {
    let mut arrived = Vec::new();
    for part in parts {
        let mut passed = Vec::new();
        for (_, into) in &part.copies {
            passed.push(write_table(target, into, &mut arriving).await?);
        }
        let answer = match &part.question {
            Some(question) => target.link.connection.query_rows(question).await?,
            None => Vec::new(),
        };
        arrived.push(Arrived { passed, answer });
    }
    Ok(arrived)
}

/// The source's frames are what the target wants: both are CopyData.
async fn write_table(
    target: &mut LeasedConnection,
    into: &str,
    arriving: &mut UnboundedReceiver<Travelling>,
) -> Result<Passed> {
    target.link.connection.query(into.as_bytes());
    target.flush().await?;
    match target.next().await? {
        Event::CopyIn(_) => {}
        other => return Err(PgError::protocol(format!("unexpected answer {other:?} to COPY"))),
    }
    let mut passed = Passed::default();
    let read = loop {
        match arriving.recv().await {
            Some(Travelling::Rows(run, _room)) => {
                passed.bytes += run.len() as u64;
                target.link.connection.write_through(&run).await?;
            }
            Some(Travelling::End { rows }) => break Some(rows),
            None => break None,
        }
    };
    match read {
        Some(_) => frontend::copy_done(target.link.connection.out()),
        None => frontend::copy_fail(target.link.connection.out(), b"the rows did not come to their end"),
    }
    target.flush().await?;
    let written = target.read_copied().await?.and_then(|tag| backend::split_command_tag(&tag).1).unwrap_or(0);
    passed.rows = written;
    match read {
        Some(read) if read != written => {
            Err(PgError::internal(format!("{read} rows were read, and {written} written")))
        }
        _ => Ok(passed),
    }
}
