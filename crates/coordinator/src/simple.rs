//! The simple query protocol.

use bytes::Bytes;
use executor::Call;
use pgerror::{PgError, Result, SqlState};
use pgproto::{backend, frontend};
use planner::parse::{Statement, StatementKind, Transaction};

use crate::client::Client;

impl Client {
    /// Answers one Query message, ReadyForQuery included.
    pub(crate) async fn query(&mut self, body: Bytes) -> Result<()> {
        let sql = frontend::decode_query(body)?;
        self.prepared.remove(&Bytes::new());
        self.portals.remove(&Bytes::new());
        let outcome = match text(&sql).and_then(planner::parse) {
            Ok(statements) if statements.is_empty() => {
                backend::bare(self.writer.buffer(), backend::tag::EMPTY_QUERY);
                Ok(())
            }
            Ok(statements) => self.statements(&statements).await,
            Err(error) => {
                self.session.fail();
                Err((error, 0))
            }
        };
        let ended = self.end_implicit_block().await;
        match (outcome, ended) {
            (Err((error, _)), _) if error.is_fatal() => return Err(error),
            (Err((error, offset)), _) => self.send_error(error, offset),
            (Ok(()), Err(error)) => self.send_error(error, 0),
            (Ok(()), Ok(())) => {}
        }
        self.ready();
        Ok(())
    }

    /// Several statements in one string are one transaction, unless they say otherwise themselves.
    async fn statements(&mut self, statements: &[Statement]) -> Result<(), (PgError, usize)> {
        let several = statements.len() > 1;
        for statement in statements {
            if several && !self.session.in_block() && !controls_transaction(statement) {
                self.session.begin(None, "", false);
                self.implicit_block = true;
            }
            match self.execute(statement, &Call::simple(), None).await {
                Ok(completion) => self.send_completion(&completion),
                Err(error) => return Err((error, statement.offset)),
            }
        }
        Ok(())
    }
}

fn controls_transaction(statement: &Statement) -> bool {
    matches!(
        statement.kind,
        StatementKind::Transaction(
            Transaction::Begin(_) | Transaction::CommitPrepared { .. } | Transaction::RollbackPrepared { .. }
        )
    )
}

/// Statement text as UTF-8. Bytes of another client encoding cannot be parsed here.
pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let bad = bytes[error.valid_up_to()];
        PgError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, format!("invalid byte sequence for encoding \"UTF8\": 0x{bad:02x}"))
            .hint("A coordinator reads statements in UTF-8: SET client_encoding TO 'UTF8', or use COPY with ENCODING for other data.")
    })
}
