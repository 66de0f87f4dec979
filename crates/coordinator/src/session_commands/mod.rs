//! Statements that are the session's own business: transactions, settings, cursors, PREPARE, COPY, LISTEN.
//!
//! * [`ClientSession`]: what a client has in its session: the socket, the executor's session, and what has a name.
//! * [`transaction`]: BEGIN to COMMIT, and blocks that are opened for a client; [`settings`] and [`set_config`]: SET and the like.
//! * [`cursors`], [`prepare`], [`copy`]: DECLARE to CLOSE, PREPARE and descriptions of statements, COPY.
//!
//! Invariant: none of them runs a statement of the user's by another way than its plan; one that needs more than a plan (EXECUTE,
//! a cursor over calls of functions) is put together by [`crate::statements`], which knows these and not the other way round.

mod copy;
mod cursors;
mod prepare;
mod set_config;
mod settings;
mod transaction;

use std::collections::HashMap;
use std::sync::Arc;

use executor::{Call, Completion, Session};
use pgerror::{PgError, Result, SqlState};
use planner::parse::{Statement, StatementKind, Transaction};

use crate::protocol::portals::Portals;
use crate::protocol::prepared::PreparedStatements;
use crate::protocol::socket::Socket;
use crate::shared::Shared;

pub(crate) use cursors::Declared;

/// See the page.
pub(crate) struct ClientSession {
    pub(crate) socket: Socket,
    pub(crate) session: Box<Session>,
    pub(crate) prepared: PreparedStatements,
    pub(crate) portals: Portals,
    shared: Arc<Shared>,
    /// SQL cursors, by name: where they live.
    cursors: HashMap<String, cursors::Cursor>,
    /// The open block was opened by us, for the statements of one Query or up to the next Sync.
    implicit_block: bool,
}

impl ClientSession {
    pub(crate) fn new(shared: Arc<Shared>, socket: Socket, session: Box<Session>) -> Self {
        Self {
            socket,
            session,
            prepared: PreparedStatements::default(),
            portals: Portals::default(),
            shared,
            cursors: HashMap::new(),
            implicit_block: false,
        }
    }

    /// Runs the statement if it is one of the session's own; `None` if it has to be planned.
    pub(crate) async fn command(&mut self, statement: &Statement, call: &Call) -> Result<Option<Completion>> {
        Ok(Some(match &statement.kind {
            StatementKind::Transaction(transaction @ Transaction::Begin(_)) if statement.is_start_transaction() => {
                self.transaction(transaction).await?;
                Completion::tag("START TRANSACTION")
            }
            StatementKind::Transaction(transaction) => self.transaction(transaction).await?,
            StatementKind::Lock => {
                self.require_block("LOCK TABLE")?;
                return Ok(None);
            }
            StatementKind::Set(set) => self.set(set, statement).await?,
            StatementKind::Show { name } => self.show(name, statement, call).await?,
            StatementKind::Select | StatementKind::Insert | StatementKind::Update | StatementKind::Delete => {
                return self.set_config(statement, call).await;
            }
            StatementKind::Constraints => {
                self.session.set_constraints(&statement.sql).await?;
                Completion::tag("SET CONSTRAINTS")
            }
            StatementKind::Discard(what) => self.discard(*what).await?,
            StatementKind::Prepare { name, types, inner } => self.prepare_named(name, types, inner).await?,
            StatementKind::Deallocate { name } => self.deallocate(name.as_deref())?,
            StatementKind::Fetch(fetch) => self.fetch(fetch, statement, call).await?,
            StatementKind::CloseCursor { name } => self.close_cursor(name.as_deref()).await?,
            StatementKind::Listen { channel } => {
                self.session.listen(channel).await?;
                Completion::tag("LISTEN")
            }
            StatementKind::Unlisten { channel } => {
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

    /// Runs a statement as it is on the home node and passes its rows on.
    pub(crate) async fn forward_home(&mut self, sql: &str, call: &Call) -> Result<Completion> {
        let cancel = self.session.cancel_set();
        let (watch, mut output) = self.socket.split(None);
        watch.over(&cancel, self.session.forward_home(sql, call, &mut output)).await
    }

    /// Tells the client which of its reported settings have another value now.
    pub(crate) fn report_settings(&mut self) {
        if let Some(current) = self.session.home_parameters() {
            self.socket.report(current);
        }
    }

    fn warn(&mut self, code: SqlState, message: &str) {
        self.session.notice(&PgError::with_severity("WARNING", code, message));
    }
}
