//! Calls of functions of schema `loxo` in the session's own backends, which want a proof that a coordinator makes them.

use bytes::Bytes;
use pgerror::Result;
use pgproto::Connection;
use txn::seal::Seal;

use crate::backend::leased::LeasedConnection;

/// A call of `loxo.<function>(proof, <arguments>)`; the proof is another one in each backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnCall {
    pub(crate) function: &'static str,
    /// In SQL, separated by commas.
    pub(crate) arguments: String,
}

impl OwnCall {
    pub(crate) fn new(function: &'static str, arguments: impl Into<String>) -> Self {
        Self { function, arguments: arguments.into() }
    }

    /// About a table, by its name in SQL; `more` arguments follow, with their comma.
    pub(crate) fn about(function: &'static str, table: &str, more: &str) -> Self {
        let name = catalog::quote_literal(table);
        // What the user's own search path finds is open to him.
        match names_schema(table) {
            true => Self::new(function, format!("loxo.relation({name}){more}")),
            false => Self::new(function, format!("{name}::pg_catalog.regclass{more}")),
        }
    }

    fn sql(&self) -> String {
        let separator = if self.arguments.is_empty() { "" } else { ", " };
        format!("SELECT loxo.{}($1{separator}{})", self.function, self.arguments)
    }

    /// The answer is read by [`answers`].
    pub(crate) fn queue(&self, seal: &Seal, connection: &mut Connection) {
        seal.queue(connection, self.function, &self.sql());
    }
}

/// Has a name in SQL a dot that is no part of a quoted one?
fn names_schema(name: &str) -> bool {
    name.split('"').step_by(2).any(|outside| outside.contains('.'))
}

/// Reads the answers to calls, and returns the last one's value.
pub(crate) async fn answers(leased: &mut LeasedConnection, calls: usize) -> Result<Option<Bytes>> {
    leased.link.connection.flush().await?;
    leased.skip_preamble().await?;
    let mut outcome = Ok(None);
    for _ in 0..calls {
        let rows = match txn::seal::answer(&mut leased.link.connection).await {
            Ok(rows) => rows,
            // Later calls fail because this one has.
            Err(error) => {
                outcome = outcome.and(Err(error));
                continue;
            }
        };
        outcome = outcome.map(|_| rows.into_iter().flatten().next().flatten());
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_told_from_a_dot_in_a_name() {
        let with = ["s.t", "\"s.x\".t", "s.\"t.u\"", "\"a\"\"b\".\"c\""];
        let without = ["t", "\"s.t\"", "\"a\"\".b\""];
        assert!(with.iter().all(|name| names_schema(name)));
        assert!(!without.iter().any(|name| names_schema(name)));
    }
}
