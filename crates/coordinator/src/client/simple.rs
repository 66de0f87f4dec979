//! The simple query protocol.

use std::time::Instant;

use bytes::Bytes;
use executor::Call;
use pgerror::{PgError, Result};
use pgproto::{backend, frontend};
use planner::parse::{Statement, StatementKind, Transaction};

use super::connection::Client;
use crate::query_id;
use crate::statements::Quickly;

impl Client {
    /// Answers one Query message, ReadyForQuery included.
    pub(crate) async fn query(&mut self, body: Bytes) -> Result<()> {
        self.own().session.statement_begins().await;
        let outcome = match frontend::decode_query(body) {
            Ok(sql) => {
                self.own().session.activity().works(&sql);
                self.query_text(&sql).await
            }
            Err(error) => self.not_understood(error).await,
        };
        self.own().is_one_of_several = false;
        // It ends the transaction of what the client has sent before, without Sync, too.
        if let (Ok(()), Err(error)) = (&outcome, self.own().end_implicit_block().await) {
            self.own().socket.send_error(error, 0);
        }
        self.own().session.statement_ends().await;
        if !self.own().session.in_block() {
            self.own().portals.clear();
        }
        self.answered(outcome).await
    }

    async fn query_text(&mut self, sql: &[u8]) -> Result<(), (PgError, usize)> {
        self.own().prepared.forget(&[]);
        if let Some(outcome) = self.query_quickly(sql).await {
            self.own().portals.close(&[]);
            return outcome;
        }
        match self.statements.parsed(sql).await {
            Ok(statements) if statements.is_empty() => {
                backend::bare(self.own().socket.buffer(), backend::tag::EMPTY_QUERY);
                Ok(())
            }
            Ok(statements) => {
                if self.own().session.status() != b'E' {
                    self.own().portals.close(&[]);
                }
                self.statements(&statements).await
            }
            Err(error) => self.not_understood(error).await,
        }
    }

    /// Answers a message that could not be read: it fails the block, as a statement's error does.
    pub(super) async fn not_understood(&mut self, error: PgError) -> Result<(), (PgError, usize)> {
        self.own().session.fail();
        self.own().session.give_up_locks().await;
        Err((error, 0))
    }

    /// The end of the answer: an error, if there was one, and ReadyForQuery.
    async fn answered(&mut self, outcome: Result<(), (PgError, usize)>) -> Result<()> {
        match outcome {
            Err((error, _)) if error.is_fatal() => return Err(error),
            Err((error, offset)) => self.own().socket.send_error(error, offset),
            Ok(()) => {}
        }
        self.own().socket.in_step()?;
        self.statements.deliver_notifications().await?;
        self.ready();
        Ok(())
    }

    /// A single statement of which one like it was planned before: neither parsed nor planned again.
    async fn query_quickly(&mut self, sql: &[u8]) -> Option<Result<(), (PgError, usize)>> {
        let sql = std::str::from_utf8(sql).ok()?;
        if !sql.is_ascii() && self.own().session.foreign_encoding().is_some() {
            return None;
        }
        let statement = sql.trim_ascii_start();
        let offset = sql.len() - statement.len();
        let statement = statement.trim_ascii_end();
        let statement = statement.strip_suffix(';').unwrap_or(statement).trim_ascii_end();
        let began = Instant::now();
        let Quickly::Ended(result) = self.statements.execute_quickly(statement, &Call::simple()).await else {
            return None;
        };
        self.own().session.statement_ended(Some(statement), began.elapsed(), &result);
        Some(result.map(|completion| self.own().socket.send_completion(&completion)).map_err(|error| (error, offset)))
    }

    /// Several statements in one string are one transaction, unless they say otherwise themselves.
    async fn statements(&mut self, statements: &[Statement]) -> Result<(), (PgError, usize)> {
        let several = statements.len() > 1;
        self.own().is_one_of_several = several;
        for (at, statement) in statements.iter().enumerate() {
            if at > 0 {
                query_id::next();
            }
            let needs_block =
                several && !controls_transaction(statement) || self.own().is_serializable_autocommit(statement);
            if needs_block && !self.own().session.in_block() {
                self.own().begin_implicit_block();
            }
            // The time of the first goes on since its text was read.
            if at > 0 {
                self.own().session.statement_begins().await;
            }
            match self.statements.execute_for_client(statement, &Call::simple(), None).await {
                Ok(completion) => self.own().socket.send_completion(&completion),
                Err(error) => return Err((error, statement.offset)),
            }
        }
        Ok(())
    }
}

fn controls_transaction(statement: &Statement) -> bool {
    matches!(statement.kind, StatementKind::Transaction(Transaction::Begin(_)))
}
