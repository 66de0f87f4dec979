//! Rows of a table that go from one datanode to another as they are: a COPY on one link feeds a COPY on another.
//!
//! ```text
//!  source   COPY TO … ─ rows ─▶ COPY TO … ─ rows ─▶ …
//!                        │ at most AHEAD_BYTES         │
//!  target               COPY FROM … ─ question ─▶ COPY FROM … ─ question
//! ```
//!
//! Rows go in [`Part`]s. While the target is asked about one part, the source reads the next one ahead. Where it is wanted a hash
//! follows each row on its way here ([`Hashes`]), and goes no further.

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
use crate::growth::sums::Hashes;
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

/// Of a COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Binary,
    Text,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Text => "text",
        }
    }
}

/// How a table's rows travel.
pub(crate) struct Travel {
    /// Quoted, without those that are computed.
    pub(crate) columns: String,
    format: Format,
}

impl Travel {
    pub(crate) fn of(table: &Relation) -> Self {
        let is_computed = |generated| matches!(generated, Generated::Stored | Generated::Virtual);
        let stored: Vec<_> = table.columns.iter().filter(|column| !is_computed(column.generated)).collect();
        let names: Vec<String> = stored.iter().map(|column| quote_identifier(&column.name)).collect();
        let binary = stored.iter().all(|column| travels_in_binary(column.type_oid));
        Self { columns: names.join(", "), format: if binary { Format::Binary } else { Format::Text } }
    }

    /// `COPY … TO STDOUT` of a query or table.
    pub(crate) fn copy_out(&self, what: &str) -> String {
        format!("COPY {what} TO STDOUT (FORMAT {})", self.format.name())
    }

    /// A COPY TO STDOUT of rows that it deletes.
    pub(crate) fn copy_deleted(&self, table: &str, condition: &str) -> String {
        let delete = format!("DELETE FROM ONLY {table} WHERE {condition}");
        self.copy_out(&match self.columns.is_empty() {
            true => format!("(WITH gone AS ({delete} RETURNING 1) SELECT FROM gone)"),
            false => format!("({delete} RETURNING {})", self.columns),
        })
    }

    /// The rows for which the condition is true are deleted, and go into the table of this name elsewhere; `hash` of each, an
    /// expression over `loxo_row`, is added up.
    pub(crate) fn passage(&self, table: &str, condition: &str, hash: &str) -> Passage {
        let comma = if self.columns.is_empty() { "" } else { ", " };
        let deleted =
            format!("(DELETE FROM ONLY {table} AS loxo_row WHERE {condition} RETURNING {}{comma}{hash})", self.columns);
        Passage { out: self.copy_out(&deleted), into: self.copy_in(table), hashed: Some(self.format) }
    }

    pub(crate) fn copy_in(&self, table: &str) -> String {
        match self.columns.is_empty() {
            true => format!("COPY {table} FROM STDIN (FORMAT {})", self.format.name()),
            false => format!("COPY {table} ({}) FROM STDIN (FORMAT {})", self.columns, self.format.name()),
        }
    }
}

/// A COPY TO of the source, and the COPY FROM of the target for the same rows.
pub(crate) struct Passage {
    out: String,
    into: String,
    /// The last column that is read is a hash (int8), which is not written.
    hashed: Option<Format>,
}

/// How much has gone from one node to another.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Sum of the hashes that came with the rows; 0 if none did.
    pub(crate) hashes: i128,
}

impl std::iter::Sum for Passed {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            rows: sum.rows + one.rows,
            bytes: sum.bytes + one.bytes,
            hashes: sum.hashes + one.hashes,
        })
    }
}

/// Rows that travel one table after the other, and what is asked about them then.
pub(crate) struct Part {
    pub(crate) passages: Vec<Passage>,
    /// Asked of the target, which has the rows.
    pub(crate) question: Option<String>,
}

/// What has become of a part.
pub(crate) struct Arrived {
    /// What has gone by each passage.
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
        let passage = Passage { out: out.to_owned(), into: into.to_owned(), hashed: None };
        self.pass(from.into(), to.into(), passage).await
    }

    pub(crate) async fn pass(&mut self, from: Slot, to: Slot, passage: Passage) -> Result<Passed> {
        let part = Part { passages: vec![passage], question: None };
        let arrived = self.pass_parts((from, to), &[part]).await?;
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
    /// The end of one COPY, with the sum of its rows' hashes.
    End { rows: u64, hashes: i128 },
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
    for passage in parts.iter().flat_map(|part| &part.passages) {
        source.link.connection.query(passage.out.as_bytes());
        source.flush().await?;
        let (mut rows, mut hashes) = (0, passage.hashed.map(Hashes::new));
        loop {
            match source.next().await? {
                Event::CopyOut(_) => {}
                Event::CopyData(run) => {
                    let run = match &mut hashes {
                        None => run,
                        Some(hashes) => match hashes.take(run) {
                            Ok(rest) => rest,
                            Err(error) => {
                                stop(source).await;
                                return Err(error);
                            }
                        },
                    };
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
        let hashes = hashes.map_or(0, |hashes| hashes.sum());
        if outgoing.rows.send(Travelling::End { rows, hashes }).is_err() {
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
        for Passage { into, .. } in &part.passages {
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
            Some(Travelling::End { rows, hashes }) => {
                passed.hashes = hashes;
                break Some(rows);
            }
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
