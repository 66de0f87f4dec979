//! A client that has authenticated.

use std::sync::Arc;

use executor::Session;
use pgproto::backend;
use tokio::sync::watch;

use super::insert_batches::Waiting;
use crate::protocol::socket::Socket;
use crate::session_commands::ClientSession;
use crate::shared::{CancelKey, Shared};
use crate::statements::Statements;

/// See the page.
pub(crate) struct Client {
    pub(super) statements: Statements,
    /// After an error in the extended protocol messages are skipped up to Sync.
    pub(super) skip_to_sync: bool,
    /// True once the coordinator is told to end.
    pub(super) stopping: watch::Receiver<bool>,
    /// … or the session is.
    pub(super) ending: watch::Receiver<bool>,
    /// Executions that wait for more of their kind.
    pub(super) waiting: Waiting,
}

impl Client {
    pub(crate) fn new(
        shared: Arc<Shared>,
        mut socket: Socket,
        session: Box<Session>,
        is_dump: bool,
        key: CancelKey,
    ) -> Self {
        if let Some(reported) = session.reported() {
            socket.has_reported(reported.clone());
        }
        backend::backend_key_data(socket.buffer(), key.0, key.1);
        socket.send_ready(b'I');
        Self {
            stopping: shared.stopping(),
            ending: session.activity().ending(),
            statements: Statements::new(shared, socket, session, is_dump),
            skip_to_sync: false,
            waiting: Waiting::default(),
        }
    }

    pub(super) fn own(&mut self) -> &mut ClientSession {
        &mut self.statements.own
    }

    /// ReadyForQuery, and before it what has changed of the reported settings.
    pub(super) fn ready(&mut self) {
        let own = &mut self.statements.own;
        debug_assert!(self.waiting.is_empty(), "every execution has been answered");
        debug_assert!(own.is_between_statements(), "nothing of a statement outlives it");
        own.report_settings();
        own.session.activity().rests(own.session.status());
        own.socket.send_ready(own.session.status());
    }
}
