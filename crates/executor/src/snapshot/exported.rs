//! Snapshots that other sessions take over, through whatever coordinator: `pg_export_snapshot()` and SET TRANSACTION SNAPSHOT, by which
//! `pg_dump -j` reads one state of the data over several connections.
//!
//! Each datanode exports the snapshot that the block has there. Their ids together, and the version of the catalog that says where the
//! rows of that snapshot are, are the id of the whole, so nobody has to remember anything:
//!
//! ```text
//!  loxo-57/1-00000003-0000001B-1/2-00000004-00000015-1      version 57; datanode 1, its snapshot; datanode 2, its snapshot
//! ```
//!
//! Invariant: a session that imports a snapshot plans by the catalog that counted when it was taken, or is refused (40001).

use catalog::{NodeId, quote_literal};
use pgerror::{PgError, Result, SqlState};

use crate::backend::isolation::Isolation;
use crate::block::{GlobalSnapshot, Mode};
use crate::session::Session;

const PREFIX: &str = "loxo-";

/// What an id says.
#[derive(Debug, PartialEq, Eq)]
struct Exported {
    version: u64,
    /// In ascending order of the nodes.
    parts: Vec<(NodeId, String)>,
}

impl Exported {
    fn id(&self) -> String {
        let parts = self.parts.iter().map(|(node, id)| format!("/{}-{id}", node.0));
        format!("{PREFIX}{}{}", self.version, parts.collect::<String>())
    }

    fn read(id: &str) -> Option<Self> {
        let mut parts = id.strip_prefix(PREFIX)?.split('/');
        let version = parts.next()?.parse().ok()?;
        let part = |part: &str| {
            let (node, id) = part.split_once('-')?;
            Some((NodeId(node.parse().ok()?), id.to_owned()))
        };
        Some(Self { version, parts: parts.map(part).collect::<Option<_>>()? })
    }
}

impl Session {
    /// What `pg_export_snapshot()` gives.
    pub(crate) async fn export_snapshot(&mut self) -> Result<String> {
        if self.isolation() != Some(Isolation::RepeatableRead) {
            return Err(PgError::unsupported("pg_export_snapshot() outside of a REPEATABLE READ transaction")
                .hint("BEGIN ISOLATION LEVEL REPEATABLE READ."));
        }
        if self.has_savepoints() {
            let message = "cannot export a snapshot from a subtransaction";
            return Err(PgError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let mut nodes = self.context.nodes();
        nodes.sort_unstable();
        self.acquire(self.home, Mode::InBlock).await?;
        let taken = self.block.as_ref().filter(|block| block.global_snapshot == GlobalSnapshot::Taken);
        let version = match (taken.and_then(|block| block.first_catalog.as_ref()), nodes.as_slice()) {
            (Some(catalog), _) => catalog.catalog.version(),
            (None, [_]) => self.catalog().await?.catalog.version(),
            (None, _) => {
                return Err(PgError::unsupported("pg_export_snapshot() under loxo.snapshot = 'local'")
                    .hint("SET loxo.snapshot = 'consistent' before the transaction."));
            }
        };
        let mut parts = Vec::with_capacity(nodes.len());
        for node in nodes {
            let rows = self.rows_on(node, "SELECT pg_catalog.pg_export_snapshot()").await?;
            let id = rows.into_iter().flatten().flatten().next().unwrap_or_default();
            parts.push((node, String::from_utf8_lossy(&id).into_owned()));
        }
        Ok(Exported { version, parts }.id())
    }

    /// SET TRANSACTION SNAPSHOT: all that the transaction reads is as of that snapshot.
    ///
    /// # Errors
    /// Those of PostgreSQL; 40001 if schema or placement have changed since.
    pub async fn import_snapshot(&mut self, id: &str) -> Result<()> {
        let refuse = |code, message: &str| Err(PgError::new(code, message));
        let not_kept = "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ";
        let Some(block) = &self.block else { return refuse(SqlState::FEATURE_NOT_SUPPORTED, not_kept) };
        if block.has_queried || block.global_snapshot != GlobalSnapshot::Pending || self.has_savepoints() {
            let message = "SET TRANSACTION SNAPSHOT must be called before any query";
            return refuse(SqlState::ACTIVE_SQL_TRANSACTION, message);
        }
        match block.isolation {
            Isolation::RepeatableRead => {}
            Isolation::Serializable => {
                return Err(PgError::unsupported("SET TRANSACTION SNAPSHOT in a SERIALIZABLE transaction")
                    .hint("BEGIN ISOLATION LEVEL REPEATABLE READ."));
            }
            _ => return refuse(SqlState::FEATURE_NOT_SUPPORTED, not_kept),
        }
        let unknown = || {
            let message = format!("invalid snapshot identifier: \"{id}\"");
            PgError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        let exported = Exported::read(id).ok_or_else(unknown)?;
        let mut nodes = self.context.nodes();
        nodes.sort_unstable();
        let catalog = self.catalog().await?;
        let is_over_these = exported.parts.iter().map(|(node, _)| node).eq(&nodes);
        if catalog.catalog.version() != exported.version || !is_over_these {
            let message = "the schema, or where rows lie, has changed since the snapshot was exported";
            return Err(PgError::new(SqlState::SERIALIZATION_FAILURE, message).hint("Export a new one."));
        }
        self.open_on(&nodes).await?;
        if let Some(block) = &mut self.block {
            (block.global_snapshot, block.first_catalog) = (GlobalSnapshot::Taken, Some(catalog));
        }
        for (node, part) in &exported.parts {
            let sql = format!("SET TRANSACTION SNAPSHOT {}", quote_literal(part));
            self.run_on(*node, &sql).await.map_err(|error| match error.code() {
                SqlState::INVALID_PARAMETER_VALUE => unknown(),
                _ => error,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written() {
        let parts = vec![(NodeId(1), "00000003-0000001B-1".to_owned()), (NodeId(12), "00000004-00000015-2".to_owned())];
        let exported = Exported { version: 57, parts };
        assert_eq!(exported.id(), "loxo-57/1-00000003-0000001B-1/12-00000004-00000015-2");
        assert_eq!(Exported::read(&exported.id()), Some(exported));
        for other in ["00000003-0000001B-1", "loxo-", "loxo-x/1-0", "loxo-57/x-0", "loxo-57/1"] {
            assert_eq!(Exported::read(other), None, "{other}");
        }
    }
}
