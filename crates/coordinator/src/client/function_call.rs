//! The function call protocol, which libpq and the JDBC driver use for large objects: each call becomes a SELECT.
//!
//! As in PostgreSQL a call is a statement of its own, answered up to ReadyForQuery, and no Sync follows.

use std::sync::Arc;

use bytes::Bytes;
use executor::{Call, Parameters, Spool};
use pgerror::{PgError, Result};
use pgproto::{backend, frontend};

use super::connection::Client;

/// The functions on large objects, which bear the same numbers on every server (PostgreSQL's pg_proc.dat), with their types.
const FUNCTIONS: [(u32, &str, &[&str]); 13] = [
    (715, "lo_create", &["oid"]),
    (952, "lo_open", &["oid", "int4"]),
    (953, "lo_close", &["int4"]),
    (954, "loread", &["int4", "int4"]),
    (955, "lowrite", &["int4", "bytea"]),
    (956, "lo_lseek", &["int4", "int4", "int4"]),
    (957, "lo_creat", &["int4"]),
    (958, "lo_tell", &["int4"]),
    (964, "lo_unlink", &["oid"]),
    (1004, "lo_truncate", &["int4", "int4"]),
    (3170, "lo_lseek64", &["int4", "int8", "int4"]),
    (3171, "lo_tell64", &["int4"]),
    (3172, "lo_truncate64", &["int4", "int8"]),
];

impl Client {
    /// Answers one FunctionCall message.
    pub(crate) async fn function_call(&mut self, body: Bytes) -> Result<()> {
        self.own().session.statement_begins().await;
        self.own().session.activity().works(b"<FASTPATH> function call");
        let value = self.value_of(body).await;
        if value.is_err() {
            // Also where the call was not even begun.
            self.own().session.fail();
            self.own().session.give_up_locks().await;
        }
        // What came before it without a Sync ends with it, whatever became of it.
        let ended = self.own().end_implicit_block().await;
        self.own().session.statement_ends().await;
        if !self.own().session.in_block() {
            self.own().portals.clear();
        }
        let answer = value.and_then(|value| ended.map(|()| value));
        match answer {
            Ok(value) => backend::function_call_response(self.own().socket.buffer(), value.as_deref()),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => self.own().socket.send_error(error, 0),
        }
        self.statements.deliver_notifications().await?;
        self.ready();
        Ok(())
    }

    async fn value_of(&mut self, body: Bytes) -> Result<Option<Bytes>> {
        let called = frontend::decode_called_function(body.clone()).and_then(known);
        let (name, types) = match called {
            Ok(called) => called,
            Err(error) => return self.own().session.judged(Err(error)).await,
        };
        let frontend::FunctionCall { formats, arguments, result_format, .. } = frontend::decode_function_call(body)?;
        if arguments.len() != types.len() {
            let (count, expected) = (arguments.len(), types.len());
            return Err(PgError::protocol(format!(
                "function call message contains {count} arguments but function requires {expected}"
            )));
        }
        let sql = select(name, types);
        let parameters = Parameters { types: vec![0; arguments.len()], formats, values: arguments };
        let call =
            Call { parameters: Some(Arc::new(parameters)), result_formats: vec![result_format], ..Call::default() };
        let mut spool = Spool::of(self.own().session.work_mem());
        for statement in self.statements.parsed(sql.as_bytes()).await?.iter() {
            self.statements.execute_for_client(statement, &call, Some(&mut spool)).await?;
        }
        let (_, rows) = spool.into_rows()?;
        Ok(rows.into_iter().flatten().next().flatten())
    }
}

/// Name of a function, and types of its arguments.
fn known(function: u32) -> Result<(&'static str, &'static [&'static str])> {
    let known = FUNCTIONS.iter().find(|(oid, ..)| *oid == function);
    known.map(|(_, name, types)| (*name, *types)).ok_or_else(|| {
        PgError::unsupported("a function call message for other functions than those on large objects")
            .hint("Call the function with SELECT.")
    })
}

/// `SELECT function($1::type, …)`.
fn select(name: &str, types: &[&str]) -> String {
    let arguments: Vec<String> = types.iter().enumerate().map(|(i, of)| format!("${}::{of}", i + 1)).collect();
    format!("SELECT pg_catalog.{name}({})", arguments.join(", "))
}
