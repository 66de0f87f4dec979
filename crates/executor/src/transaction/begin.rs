//! How the session's transaction begins: its isolation level, and what nodes that join it are told; its savepoints.

use std::collections::HashMap;

use pgerror::{PgError, Result, SqlState};

use crate::backend::isolation::Isolation;
use crate::backend::leased::LeasedConnection;
use crate::block::Block;
use crate::block::GlobalSnapshot;
use crate::block::Replay;
use crate::session::Session;

impl Session {
    /// Opens a block; `modes` are those of BEGIN other than the isolation level, as nodes will get them.
    pub fn begin(&mut self, isolation: Option<Isolation>, modes: &str, read_only: Option<bool>) {
        let read_only = read_only.unwrap_or(self.settings().default_read_only());
        let isolation = isolation.unwrap_or_else(|| self.default_isolation());
        self.open_block(modes.to_owned(), isolation, read_only, Vec::new(), false);
    }

    /// Opens a block for one statement of a session that has none. One that reads may make temp tables for it, whatever
    /// `default_transaction_read_only` says; a write is to be refused by that.
    pub(crate) fn begin_own(&mut self, isolation: Isolation, replay: Vec<Replay>, reads: bool) {
        let modes = if reads { " READ WRITE" } else { "" };
        self.open_block(modes.to_owned(), isolation, false, replay, true);
    }

    fn open_block(&mut self, modes: String, isolation: Isolation, read_only: bool, replay: Vec<Replay>, is_own: bool) {
        debug_assert!(self.block.is_none());
        let node_span = self.node_span_of(isolation);
        self.links.cancel().begins();
        self.block = Some(Block {
            begin: format!("{}{modes}", isolation.begin()),
            modes,
            replay,
            settings_at_begin: self.settings().clone(),
            catalog: None,
            own_types: HashMap::new(),
            schema_changed: false,
            names_changed: false,
            temp_changed: false,
            path_changed: false,
            failed: false,
            is_own,
            is_torn: false,
            first_catalog: None,
            changed_on: None,
            constraints_set: false,
            version_raised: false,
            read_only,
            isolation,
            global_snapshot: GlobalSnapshot::Pending,
            node_span,
            wrote: false,
            snapshotless: false,
            has_queried: false,
            locked: false,
            lacks_locks: false,
            ran_ddl: false,
            ran_ddl_before: false,
            fills_table: false,
            exported: None,
            clock: None,
        });
    }

    /// The isolation level of a transaction that does not say.
    pub(crate) fn default_isolation(&self) -> Isolation {
        self.settings().default_isolation().unwrap_or(self.server_isolation)
    }

    /// Isolation level and other modes of the open block, and whether it is read-only.
    pub fn modes(&self) -> Option<(Isolation, String, bool)> {
        self.block.as_ref().map(|block| (block.isolation, block.modes.clone(), block.read_only))
    }

    /// Is something to be checked when the transaction commits?
    pub(crate) fn defers_constraints(&self) -> bool {
        self.catalog_defers || self.block.as_ref().is_some_and(|block| block.constraints_set)
    }

    /// The block's isolation level, if one is open.
    pub(crate) fn isolation(&self) -> Option<Isolation> {
        self.block.as_ref().map(|block| block.isolation)
    }

    /// Does an open block see one state of the data all along?
    pub fn keeps_snapshot(&self) -> bool {
        self.isolation().is_some_and(Isolation::keeps_snapshot)
    }

    /// From here on the block's own sessions must be asked: others do not see its changes and wait for its locks.
    pub(crate) fn note_write(&mut self, writes: bool) {
        if let Some(block) = &mut self.block {
            block.wrote |= writes;
        }
    }

    /// Are nodes to pass read barriers before they are read? Not for snapshots of a global snapshot.
    pub(crate) fn uses_read_barriers(&self) -> bool {
        let snapshot = self
            .block
            .as_ref()
            .is_some_and(|block| block.is_under_snapshot() && block.global_snapshot != GlobalSnapshot::Unneeded);
        !snapshot && self.is_consistent()
    }

    /// SAVEPOINT.
    pub async fn savepoint(&mut self, name: &str) -> Result<()> {
        let sql = format!("SAVEPOINT {}", catalog::quote_identifier(name));
        let begun = self.links.begun();
        self.links.broadcast(&begun, &sql).await?;
        let settings = self.settings().clone();
        if let Some(block) = &mut self.block {
            block.replay.push(Replay::Savepoint(name.to_owned(), settings));
        }
        Ok(())
    }

    /// RELEASE SAVEPOINT.
    pub async fn release_savepoint(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint(name)?;
        let sql = format!("RELEASE SAVEPOINT {}", catalog::quote_identifier(name));
        let begun = self.links.begun();
        self.links.broadcast(&begun, &sql).await?;
        if let Some(block) = &mut self.block {
            // The savepoints from there on are gone, the settings made since then stay.
            let tail = block.replay.split_off(at);
            block.replay.extend(tail.into_iter().filter(|step| !matches!(step, Replay::Savepoint(..))));
        }
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT: also revives a failed block.
    pub async fn rollback_to(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint(name)?;
        if self.is_torn() {
            return Err(PgError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "a datanode was lost in this transaction, which can only be rolled back as a whole",
            ));
        }
        let sql = format!("ROLLBACK TO SAVEPOINT {}", catalog::quote_identifier(name));
        let begun = self.links.begun();
        self.links.broadcast(&begun, &sql).await?;
        self.unsettle_cursor_holder();
        let mut settings = None;
        if let Some(block) = &mut self.block {
            block.replay.truncate(at + 1);
            if let Some(Replay::Savepoint(_, then)) = block.replay.last() {
                settings = Some(then.clone());
            }
            block.failed = false;
            // DDL since the savepoint is undone: read the catalog again when it is needed.
            block.catalog = None;
        }
        if let Some(settings) = settings {
            self.links.settings_mut().become_again(settings);
        }
        self.names_restored();
        Ok(())
    }

    /// Is a part of the block's transaction lost?
    pub(crate) fn is_torn(&self) -> bool {
        let is_broken = |leased: &LeasedConnection| leased.begun && leased.link.connection.is_broken();
        self.block.as_ref().is_some_and(|block| block.is_torn) || self.links.iter().any(|(_, leased)| is_broken(leased))
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        let found = self.block.as_ref().and_then(|block| {
            block.replay.iter().rposition(|step| matches!(step, Replay::Savepoint(known, _) if known == name))
        });
        found.ok_or_else(|| PgError::new(SqlState::INVALID_SAVEPOINT, format!("savepoint \"{name}\" does not exist")))
    }
}
