//! Rows of a table that go from one datanode to another as they are: a COPY on one link feeds a COPY on another.

use catalog::{Generated, Relation, quote_identifier};
use pgerror::{PgError, Result};
use pgproto::{backend, frontend};

use crate::backend::call::travels_in_binary;
use crate::backend::leased::LeasedConnection;
use crate::backend::request::Event;
use crate::backend::slot::Slot;
use crate::block::Mode;
use crate::session::Session;

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

    /// The same of rows that are deleted.
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

impl Passed {
    pub(super) fn add(&mut self, more: Passed) {
        self.rows += more.rows;
        self.bytes += more.bytes;
    }
}

impl Session {
    /// Runs both COPYs within the block, and has the rows of the first go into the second.
    pub(crate) async fn pass_rows(
        &mut self,
        (from, out): (impl Into<Slot>, &str),
        (to, into): (impl Into<Slot>, &str),
    ) -> Result<Passed> {
        let (from, to) = (from.into(), to.into());
        for slot in [from, to] {
            self.acquire(slot, Mode::InBlock).await?;
            self.causality.touch(slot.node());
        }
        self.links.link(from)?.link.connection.query(out.as_bytes());
        self.links.link(to)?.link.connection.query(into.as_bytes());
        let mut links = self.links.take(&[from, to])?;
        let [(_, source), (_, target)] = links.as_mut_slice() else {
            return Err(PgError::internal("rows that pass need two links"));
        };
        let passed = pass(source, target).await;
        self.links.put_back(links);
        passed
    }
}

/// Both links are drained afterwards, or broken.
async fn pass(source: &mut LeasedConnection, target: &mut LeasedConnection) -> Result<Passed> {
    source.flush().await?;
    target.flush().await?;
    let refused = match target.next().await {
        Ok(Event::CopyIn(_)) => None,
        Ok(other) => Some(PgError::protocol(format!("unexpected answer {other:?} to COPY"))),
        Err(error) => Some(error),
    };
    if let Some(error) = refused {
        stop(source).await;
        return Err(error);
    }
    let sent = send(source, target).await;
    match sent {
        Ok(_) => frontend::copy_done(target.link.connection.out()),
        Err(_) => {
            stop(source).await;
            frontend::copy_fail(target.link.connection.out(), b"the rows did not come to their end");
        }
    }
    target.flush().await?;
    let written = target.read_copied().await;
    let passed = sent?;
    let rows = written?.and_then(|tag| backend::split_command_tag(&tag).1).unwrap_or(0);
    match rows == passed.rows {
        true => Ok(passed),
        false => Err(PgError::internal(format!("{} rows were read, and {rows} written", passed.rows))),
    }
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

/// The source's frames are what the target wants: both are CopyData.
async fn send(source: &mut LeasedConnection, target: &mut LeasedConnection) -> Result<Passed> {
    let mut passed = Passed::default();
    loop {
        match source.next().await? {
            Event::CopyOut(_) => {}
            Event::CopyData(run) => {
                passed.bytes += run.len() as u64;
                target.link.connection.write_through(&run).await?;
            }
            Event::Complete(tag) => passed.rows += backend::split_command_tag(&tag).1.unwrap_or(0),
            Event::Done => return Ok(passed),
            other => return Err(PgError::protocol(format!("unexpected {other:?} in COPY"))),
        }
    }
}
