//! What a client has in its session.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use executor::{Call, Completion, Session};
use pgerror::{PgError, Result, SqlState};

use super::cursors::Cursor;
use crate::protocol::portals::Portals;
use crate::protocol::prepared::PreparedStatements;
use crate::protocol::socket::Socket;
use crate::shared::Shared;

/// See the page.
pub(crate) struct ClientSession {
    pub(crate) socket: Socket,
    pub(crate) session: Box<Session>,
    pub(crate) prepared: PreparedStatements,
    pub(crate) portals: Portals,
    pub(super) shared: Arc<Shared>,
    /// SQL cursors, by name: where they live.
    pub(super) cursors: HashMap<String, Cursor>,
    /// The open block was opened by us, for the statements of one Query or up to the next Sync.
    pub(super) implicit_block: bool,
    /// The statement is one of several in a Query message: some that ask for a block are content with the one of these.
    pub(crate) is_one_of_several: bool,
}

const APPLICATION: &str = "application_name";

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
            is_one_of_several: false,
        }
    }

    /// Runs a statement as it is on the home node and passes its rows on.
    pub(crate) async fn forward_home(&mut self, sql: &str, call: &Call) -> Result<Completion> {
        let cancel = self.session.cancel_set();
        let (watch, mut output) = self.socket.split(None);
        watch.during(&cancel, pin!(self.session.forward_home(sql, call, &mut output))).await
    }

    /// To be called before ReadyForQuery: tells the client which of its reported settings have another value now.
    pub(crate) fn report_settings(&mut self) {
        let Some(current) = self.session.reported() else { return };
        let new = self.socket.report(current);
        if let Some((_, name)) = new.into_iter().find(|(name, _)| *name == APPLICATION) {
            self.session.activity().is_of_application(name);
        }
    }

    /// Rows go to the client, and no block that we opened is left, unless it has failed.
    pub(crate) fn is_between_statements(&self) -> bool {
        self.socket.rows_go_to_client() && (!self.implicit_block || self.session.status() == b'E')
    }

    pub(super) fn warn(&mut self, code: SqlState, message: &str) {
        self.session.notice(&PgError::with_severity("WARNING", code, message));
    }
}
