//! One client's connection: the message loop, and the ways to send a statement.
//!
//! * [`connection`]: [`Client`], what a connection is made of.
//! * [`simple`], [`extended`], [`function_call`]: one statement each, or several; [`insert_batches`]: executions of one INSERT that
//!   go together.
//!
//! Invariant: every message is answered as PostgreSQL would answer it, one ReadyForQuery for each Query, FunctionCall or Sync.

mod connection;
mod extended;
mod function_call;
mod insert_batches;
mod simple;

use std::time::Duration;

use bytes::Bytes;
use executor::{IDLE_IN_TRANSACTION, IDLE_SESSION};
use pgerror::{PgError, Result, SqlState};
use pgproto::frontend::tag;
use tracing::{Instrument, Span, field};

pub(crate) use self::connection::Client;
use crate::query_id;

/// The span of a message with which the session comes to a statement; of any other none.
fn span_of(message: u8) -> Span {
    let name = match message {
        tag::QUERY => "Query",
        tag::FUNCTION_CALL => "FunctionCall",
        tag::PARSE => "Parse",
        tag::EXECUTE => "Execute",
        _ => return Span::none(),
    };
    query_id::next();
    tracing::debug_span!("statement", message = name, tag = field::Empty)
}

fn stopped() -> PgError {
    PgError::fatal(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}

impl Client {
    /// Serves the client to its end; open transactions are rolled back.
    pub(crate) async fn run(mut self) -> Result<()> {
        let result = self.message_loop().await;
        let socket = &mut self.own().socket;
        // With a client out of step PostgreSQL breaks off, and what it has not sent by then it never does; but in COPY it says why.
        let tells = result.as_ref().is_err_and(|error| error.code() != SqlState::CONNECTION_FAILURE);
        // Best effort: the client may be gone. One that sent its last words at once still reads the answers.
        let _ = if socket.is_out_of_step() && !tells {
            socket.break_off().await
        } else {
            if let Err(error) = &result {
                socket.send_error(error.clone(), 0);
            }
            socket.shutdown().await
        };
        self.own().session.end().await;
        result
    }

    async fn message_loop(&mut self) -> Result<()> {
        // Has all that was asked for been answered, so that the session is idle until the next message?
        let mut answered = true;
        loop {
            let Some(frame) = self.next_frame(answered).await? else {
                if self.own().socket.is_out_of_step() {
                    tracing::warn!("invalid message length");
                }
                return Ok(());
            };
            if !self.goes_on(&frame) {
                self.depart().await?;
            }
            // After an error of the extended protocol nothing counts until Sync, whatever it is.
            let is_skipped = self.skip_to_sync;
            answered = frame.tag == tag::SYNC || matches!(frame.tag, tag::QUERY | tag::FUNCTION_CALL) && !is_skipped;
            match frame.tag {
                tag::TERMINATE => return Ok(()),
                tag::SYNC => self.sync(frame.body).await?,
                _ if is_skipped => {}
                // What is left of a COPY that failed.
                tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => {}
                message => {
                    let span = span_of(message);
                    match span.is_disabled() {
                        true => self.answer(message, frame.body).await?,
                        // A future is copied into its span as a whole, so only for those who look.
                        false => Box::pin(self.answer(message, frame.body)).instrument(span).await?,
                    }
                }
            }
        }
    }

    async fn answer(&mut self, message: u8, body: Bytes) -> Result<()> {
        match message {
            tag::QUERY => self.query(body).await,
            tag::FUNCTION_CALL => self.function_call(body).await,
            other => self.extended(other, body).await,
        }
    }

    async fn next_frame(&mut self, is_idle: bool) -> Result<Option<pgproto::Frame>> {
        let timeout = if is_idle { self.idle_timeout() } else { None };
        loop {
            if *self.stopping.borrow() || *self.ending.borrow() {
                return Err(stopped());
            }
            let own = &mut self.statements.own;
            if let Some(frame) = own.socket.try_next()? {
                return Ok(Some(frame));
            }
            if own.session.has_pipeline() {
                // Meanwhile more may have been read.
                self.depart().await?;
                continue;
            }
            own.socket.flush().await?;
            let idle = async {
                match &timeout {
                    Some((limit, error)) => {
                        tokio::time::sleep(*limit).await;
                        error.clone()
                    }
                    None => std::future::pending().await,
                }
            };
            let (stopping, ending) = (&mut self.stopping, &mut self.ending);
            let told_to_stop = async {
                tokio::select! {
                    _ = stopping.wait_for(|stops| *stops) => {}
                    _ = ending.wait_for(|ends| *ends) => {}
                }
            };
            let filled = tokio::select! {
                biased;
                filled = own.socket.fill() => filled,
                notification = own.session.next_notification() => {
                    own.socket.send_frame(&notification?);
                    continue;
                }
                error = idle => return Err(error),
                () = told_to_stop => return Err(stopped()),
            };
            if filled? == 0 {
                return Ok(None);
            }
        }
    }

    /// How long the session may be idle now, and what the client is told then.
    fn idle_timeout(&self) -> Option<(Duration, PgError)> {
        let session = &self.statements.own.session;
        let (name, code, words) = match session.status() {
            b'I' => (IDLE_SESSION, SqlState::IDLE_SESSION_TIMEOUT, "idle-session"),
            _ => (IDLE_IN_TRANSACTION, SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, "idle-in-transaction"),
        };
        let limit = executor::duration(session.own_setting(name)?)?;
        Some((limit, PgError::fatal(code, format!("terminating connection due to {words} timeout"))))
    }
}
