//! BEGIN, COMMIT, savepoints, PREPARE TRANSACTION, and blocks that are opened for a client which asked for none.

use std::pin::pin;

use executor::{Completion, End, Isolation};
use pgerror::{PgError, Result, SqlState};
use planner::parse::{Statement, StatementKind, Transaction, TransactionModes};

use super::client_session::ClientSession;

impl ClientSession {
    pub(crate) async fn transaction(&mut self, transaction: &Transaction) -> Result<Completion> {
        match transaction {
            Transaction::Begin(modes) => {
                if !self.session.in_block() {
                    self.begin(modes);
                    return Ok(Completion::tag("BEGIN"));
                }
                if !self.implicit_block {
                    self.warn(SqlState::ACTIVE_SQL_TRANSACTION, "there is already a transaction in progress");
                }
                // A block that has failed to begin is none.
                self.set_modes(modes).await?;
                self.implicit_block = false;
                Ok(Completion::tag("BEGIN"))
            }
            Transaction::Commit { chain } => self.end_transaction(true, *chain).await,
            Transaction::Rollback { chain } => self.end_transaction(false, *chain).await,
            Transaction::Savepoint(name) => {
                self.require_block("SAVEPOINT")?;
                self.session.savepoint(name).await?;
                self.portals.savepoint(name);
                Ok(Completion::tag("SAVEPOINT"))
            }
            Transaction::Release(name) => {
                self.require_block("RELEASE SAVEPOINT")?;
                self.session.release_savepoint(name).await?;
                self.portals.released(name);
                Ok(Completion::tag("RELEASE"))
            }
            Transaction::RollbackTo(name) => {
                self.require_block("ROLLBACK TO SAVEPOINT")?;
                self.session.rollback_to(name).await?;
                self.portals.rolled_back_to(name);
                self.forget_lost_cursors().await?;
                Ok(Completion::tag("ROLLBACK"))
            }
            Transaction::Prepare(gid) => self.prepare_transaction(gid).await,
            Transaction::CommitPrepared(gid) => self.finish_prepared(gid, End::Commit).await,
            Transaction::RollbackPrepared(gid) => self.finish_prepared(gid, End::Rollback).await,
        }
    }

    fn begin(&mut self, modes: &TransactionModes) {
        let isolation = modes.isolation.as_deref().map(Isolation::named);
        let mut sql = String::new();
        match modes.read_only {
            Some(true) => sql.push_str(" READ ONLY"),
            Some(false) => sql.push_str(" READ WRITE"),
            None => {}
        }
        if modes.deferrable == Some(true) {
            sql.push_str(" DEFERRABLE");
        }
        self.session.begin(isolation, &sql, modes.read_only);
    }

    /// The modes of a BEGIN inside a block are those of SET TRANSACTION.
    async fn set_modes(&mut self, modes: &TransactionModes) -> Result<()> {
        let mut words: Vec<String> = modes.isolation.iter().map(|level| format!("ISOLATION LEVEL {level}")).collect();
        words.extend(modes.read_only.map(|only| format!("READ {}", if only { "ONLY" } else { "WRITE" })));
        words.extend(modes.deferrable.map(|may| format!("{}DEFERRABLE", if may { "" } else { "NOT " })));
        match words.is_empty() {
            true => Ok(()),
            false => self.set_transaction(&format!("SET TRANSACTION {}", words.join(", ")), modes).await,
        }
    }

    pub(super) async fn set_transaction(&mut self, sql: &str, modes: &TransactionModes) -> Result<()> {
        self.session.check_modes(modes.read_only, modes.isolation.as_deref(), modes.deferrable.is_some())?;
        self.session.set_in_block(sql).await?;
        self.session.isolation_may_have_changed().await?;
        if let Some(read_only) = modes.read_only {
            self.session.set_read_only(read_only);
        }
        Ok(())
    }

    async fn end_transaction(&mut self, commit: bool, chain: bool) -> Result<Completion> {
        let word = if commit { "COMMIT" } else { "ROLLBACK" };
        if chain && (!self.session.in_block() || self.implicit_block) {
            return Err(PgError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                format!("{word} AND CHAIN can only be used in transaction blocks"),
            ));
        }
        if !self.session.in_block() {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
            return Ok(Completion::tag(word));
        }
        if std::mem::take(&mut self.implicit_block) {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        let modes = self.session.modes();
        self.portals.clear();
        let ended = if commit {
            self.commit().await
        } else {
            self.session.rollback().await;
            Ok("ROLLBACK")
        };
        self.transaction_ended(matches!(ended, Ok("COMMIT")));
        let tag = ended?;
        if let (true, Some((isolation, modes, read_only))) = (chain, modes) {
            self.session.begin(Some(isolation), &modes, Some(read_only));
        }
        Ok(Completion::tag(tag))
    }

    async fn prepare_transaction(&mut self, name: &str) -> Result<Completion> {
        if !self.session.in_block() {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
            return Ok(Completion::tag("ROLLBACK"));
        }
        if std::mem::take(&mut self.implicit_block) {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        self.portals.clear();
        let cancel = self.session.cancel_set();
        let prepared = self.socket.watch().finishing(&cancel, pin!(self.session.prepare_transaction(name))).await;
        self.transaction_ended(false);
        let tag = prepared?;
        Ok(Completion::tag(tag))
    }

    async fn finish_prepared(&mut self, name: &str, end: End) -> Result<Completion> {
        let words = match end {
            End::Commit => "COMMIT PREPARED",
            End::Rollback => "ROLLBACK PREPARED",
        };
        if self.session.in_block() {
            return Err(PgError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{words} cannot run inside a transaction block"),
            ));
        }
        let cancel = self.session.cancel_set();
        self.socket.watch().finishing(&cancel, pin!(self.session.finish_prepared(name, end))).await?;
        Ok(Completion::tag(words))
    }

    pub(super) fn require_block(&self, what: &str) -> Result<()> {
        if self.session.in_block() && !self.implicit_block {
            return Ok(());
        }
        Err(PgError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, format!("{what} can only be used in transaction blocks")))
    }

    /// 25P01 outside a block for LOCK TABLE and DECLARE CURSOR, which PostgreSQL runs among several statements of one message too.
    pub(super) fn require_block_or_several(&self, what: &str) -> Result<()> {
        if self.is_one_of_several { Ok(()) } else { self.require_block(what) }
    }

    pub(crate) fn refuse_in_failed_block(&self, kind: &StatementKind) -> Result<()> {
        use Transaction::{Commit, Prepare, Rollback, RollbackTo};
        let ends =
            matches!(kind, StatementKind::Transaction(Commit { .. } | Rollback { .. } | RollbackTo(_) | Prepare(_)));
        if self.session.status() == b'E' && !ends {
            return Err(PgError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        Ok(())
    }

    /// Ends the transaction of a statement that was none of a block.
    pub(crate) async fn end_autocommit(&mut self, outcome: Result<Completion>) -> Result<Completion> {
        let ended = match &outcome {
            Ok(_) => self.commit().await.map(|_| ()),
            Err(_) => {
                self.session.fail();
                self.session.rollback().await;
                Ok(())
            }
        };
        self.transaction_ended(outcome.is_ok() && ended.is_ok());
        ended.and(outcome)
    }

    /// COMMIT. A client that hangs up meanwhile ends its waits, not what is decided.
    pub(crate) async fn commit(&mut self) -> Result<&'static str> {
        let cancel = self.session.cancel_set();
        self.socket.watch().finishing(&cancel, pin!(self.session.commit())).await
    }

    /// Is the statement, standing alone, a SERIALIZABLE transaction over rows? It gets a block.
    pub(crate) fn is_serializable_autocommit(&self, statement: &Statement) -> bool {
        use StatementKind::{Copy, CreateTableAs, Delete, Execute, Explain, Insert, Merge, Select, Update};
        let has_rows = matches!(
            statement.kind,
            Select | Insert | Update | Delete | Merge | Copy(_) | Explain(_) | Execute { .. } | CreateTableAs
        );
        has_rows && self.session.autocommit_is_serializable()
    }

    /// Opens a block for statements that the client opened none for.
    pub(crate) fn begin_implicit_block(&mut self) {
        self.session.begin(None, "", None);
        self.implicit_block = true;
    }

    /// Ends the block that we opened ourselves.
    pub(crate) async fn end_implicit_block(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.implicit_block) || !self.session.in_block() {
            return Ok(());
        }
        self.portals.clear();
        if self.session.status() == b'E' {
            self.session.rollback().await;
            self.transaction_ended(false);
            return Ok(());
        }
        self.session.statement_begins().await;
        let result = self.commit().await.map(|_| ());
        self.transaction_ended(result.is_ok());
        let result = self.session.judged(result).await;
        self.session.statement_ends().await;
        result
    }
}
