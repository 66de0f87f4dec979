//! Statements that are the session's own business: transactions, settings, cursors, PREPARE, COPY, LISTEN.
//!
//! * [`ClientSession`]: what a client has in its session: the socket, the executor's session, and what has a name.
//! * [`transaction`]: BEGIN to COMMIT, and blocks that are opened for a client; [`settings`] and [`set_config`]: SET and the like.
//! * [`cursors`], [`current_of`], [`prepare`], [`copy`]: DECLARE to CLOSE, WHERE CURRENT OF, PREPARE and descriptions of statements, COPY.
//!
//! Invariant: none of them runs a statement of the user's by another way than its plan; one that needs more than a plan (EXECUTE,
//! a cursor over calls of functions) is put together by [`crate::statements`], which knows these and not the other way round.

mod client_session;
mod copy;
mod current_of;
mod cursors;
mod prepare;
mod set_config;
mod settings;
mod transaction;

use executor::{Call, Completion};
use pgerror::Result;
use planner::parse::{Statement, StatementKind, Transaction};

pub(crate) use client_session::ClientSession;
pub(crate) use cursors::Declared;

impl ClientSession {
    /// Runs the statement if it is one of the session's own; `None` if it has to be planned.
    pub(crate) async fn command(&mut self, statement: &Statement, call: &Call) -> Result<Option<Completion>> {
        Ok(Some(match &statement.kind {
            StatementKind::Transaction(transaction @ Transaction::Begin(_)) if statement.is_start_transaction() => {
                self.transaction(transaction).await?;
                Completion::tag("START TRANSACTION")
            }
            StatementKind::Transaction(transaction) => self.transaction(transaction).await?,
            StatementKind::Copy(copy) => {
                self.may_copy(copy).await?;
                self.refuse_merge(copy, statement).await?;
                return Ok(None);
            }
            StatementKind::Lock => {
                self.require_block_or_several("LOCK TABLE")?;
                return Ok(None);
            }
            StatementKind::Set(set) => self.set(set, statement).await?,
            StatementKind::Show(name) => self.show(name, statement, call).await?,
            StatementKind::Select | StatementKind::Insert | StatementKind::Update | StatementKind::Delete => {
                return self.set_config(statement, call).await;
            }
            StatementKind::Constraints => {
                self.session.set_constraints(&statement.sql).await?;
                Completion::tag("SET CONSTRAINTS")
            }
            StatementKind::Discard(what) => self.discard(*what).await?,
            StatementKind::Prepare { name, types, inner } => self.prepare_named(name, types, inner).await?,
            StatementKind::Deallocate(name) => self.deallocate(name.as_deref())?,
            StatementKind::Fetch(fetch) => self.fetch(fetch, statement, call).await?,
            StatementKind::CloseCursor(name) => self.close_cursor(name.as_deref()).await?,
            StatementKind::Listen(channel) => {
                self.session.listen(channel).await?;
                Completion::tag("LISTEN")
            }
            StatementKind::Unlisten(channel) => {
                self.session.unlisten(channel.as_deref());
                Completion::tag("UNLISTEN")
            }
            StatementKind::Notify { .. } => {
                self.session.notify(&statement.sql).await?;
                Completion::tag("NOTIFY")
            }
            _ => return Ok(None),
        }))
    }
}
