//! `loxo_load_progress`: what is committed, kept in the table's own schema and changed in the transactions that load.
//!
//! A row of a batch: load name, file, the range of bytes, rows, checksum. Its key makes the second of two transactions that load
//! the same range wait for the first, and fail if that committed. A row of a load that commits at once is its
//! decision ([`crate::commit::atomic`]): no file, and `rows` of -1 if it was given up.

use std::collections::HashMap;

use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;

use crate::files::cut::{Done, Piece};
use crate::options::literal;
use crate::server::session;
use crate::server::sql::{identifier, number, text};

const TABLE: &str = "loxo_load_progress";

/// The journal of one load.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    /// Schema and table, quoted.
    table: String,
    load: String,
}

/// What the journal says of a load that commits at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Commit,
    GiveUp,
}

impl Decision {
    fn rows(self, rows: u64) -> i64 {
        match self {
            Decision::Commit => rows as i64,
            Decision::GiveUp => -1,
        }
    }
}

impl Journal {
    /// The journal of the load of this name, in this schema; makes the table if it is missing.
    pub(crate) async fn open(connection: &mut Connection, schema: &str, load: String) -> Result<Self> {
        let journal = Self::named(schema, load);
        if journal.exists(connection).await? {
            return Ok(journal);
        }
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {} (load pg_catalog.text, file pg_catalog.text, start_byte bigint, end_byte bigint NOT NULL, \
             rows bigint NOT NULL, checksum bigint NOT NULL, PRIMARY KEY (load, file, start_byte))",
            journal.table
        );
        match connection.execute(&create).await {
            // Another load made it at the same moment.
            Err(error) if journal.exists(connection).await.is_ok_and(|exists| exists) => drop(error),
            made => drop(made?),
        }
        Ok(journal)
    }

    /// The journal of the load of this name, in this schema; the table may be missing.
    pub(crate) fn named(schema: &str, load: String) -> Self {
        Self { table: format!("{}.{TABLE}", identifier(schema)), load }
    }

    pub(crate) async fn exists(&self, connection: &mut Connection) -> Result<bool> {
        let sql = format!("SELECT to_regclass({}) IS NOT NULL", literal(&self.table));
        Ok(session::value(connection, &sql).await? == "t")
    }

    /// The load's name.
    pub(crate) fn load(&self) -> &str {
        &self.load
    }

    /// What is loaded of each file, in order, and the rows of all.
    pub(crate) async fn done(&self, connection: &mut Connection) -> Result<(HashMap<String, Vec<Done>>, u64)> {
        let sql = format!(
            "SELECT file, start_byte, end_byte, checksum, rows FROM {} WHERE load OPERATOR(pg_catalog.=) {} ORDER BY file, start_byte",
            self.table,
            literal(&self.load)
        );
        let (mut files, mut rows) = (HashMap::<String, Vec<Done>>::new(), 0);
        for row in connection.query_rows(&sql).await? {
            let done = Done { start: number(&row, 1)?, end: number(&row, 2)?, checksum: number(&row, 3)? };
            rows += number::<u64>(&row, 4)?;
            files.entry(text(&row, 0)?).or_default().push(done);
        }
        Ok((files, rows))
    }

    /// Notes a batch, in the transaction that loads it.
    pub(crate) async fn note(&self, connection: &mut Connection, file: &str, piece: &Piece, rows: u64) -> Result<()> {
        let values = [literal(&self.load), literal(file), piece.start.to_string(), piece.end.to_string()];
        let sql = format!("INSERT INTO {} VALUES ({}, {rows}, {})", self.table, values.join(", "), piece.checksum);
        connection.execute(&sql).await.map(drop)
    }

    /// The rows of this batch if it is committed, by whomever.
    pub(crate) async fn rows_of(&self, connection: &mut Connection, file: &str, piece: &Piece) -> Result<Option<u64>> {
        let sql = format!(
            "SELECT end_byte, checksum, rows FROM {} WHERE load OPERATOR(pg_catalog.=) {} AND file OPERATOR(pg_catalog.=) {} AND start_byte OPERATOR(pg_catalog.=) {}",
            self.table,
            literal(&self.load),
            literal(file),
            piece.start
        );
        match connection.query_rows(&sql).await?.first() {
            None => Ok(None),
            Some(row) if number::<u64>(row, 0)? == piece.end && number::<u32>(row, 1)? == piece.checksum => {
                number(row, 2).map(Some)
            }
            Some(_) => Err(PgError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("another load named \"{}\" is loading other batches of \"{file}\"", self.load),
            )
            .hint("Wait for its end, or give this one another name with --name.")),
        }
    }

    /// Decides about a load that commits at once; a unique violation if that is done.
    pub(crate) async fn decide(&self, connection: &mut Connection, decision: Decision, rows: u64) -> Result<()> {
        let load = literal(&self.load);
        let sql = format!("INSERT INTO {} VALUES ({load}, '', 0, 0, {}, 0)", self.table, decision.rows(rows));
        connection.execute(&sql).await.map(drop)
    }

    pub(crate) async fn decision(&self, connection: &mut Connection) -> Result<Option<Decision>> {
        let sql = format!(
            "SELECT rows FROM {} WHERE load OPERATOR(pg_catalog.=) {} AND file OPERATOR(pg_catalog.=) ''",
            self.table,
            literal(&self.load)
        );
        match connection.query_rows(&sql).await?.first() {
            None => Ok(None),
            Some(row) if number::<i64>(row, 0)? < 0 => Ok(Some(Decision::GiveUp)),
            Some(_) => Ok(Some(Decision::Commit)),
        }
    }
}
