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
    /// A condition in SQL under which it is not made.
    pub(crate) unless: Option<String>,
    /// One without which it is not made. The answer is then false if that is why it was not, else true.
    pub(crate) only_if: Option<String>,
}

impl OwnCall {
    pub(crate) fn new(function: &'static str, arguments: impl Into<String>) -> Self {
        Self { function, arguments: arguments.into(), unless: None, only_if: None }
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

    /// Not made if the transaction has a lock of a writer, or a stronger one, on a table of this qualified name.
    pub(crate) fn unless_locked(self, table: &str) -> Self {
        let unless = format!(
            "EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() \
             AND l.relation OPERATOR(pg_catalog.=) loxo.relation({})::pg_catalog.oid AND l.granted \
             AND l.mode OPERATOR(pg_catalog.<>) ALL ('{{AccessShareLock,RowShareLock}}'::pg_catalog.text[]))",
            catalog::quote_literal(table)
        );
        Self { unless: Some(unless), ..self }
    }

    /// Only made if the user may lock rows of the table of this qualified name by a right of his own.
    pub(crate) fn if_may_lock_rows(self, table: &str) -> Self {
        let name = catalog::quote_literal(table);
        let may = format!("pg_catalog.has_any_column_privilege(loxo.relation({name})::pg_catalog.oid, 'UPDATE')");
        Self { only_if: Some(may), ..self }
    }

    fn sql(&self) -> String {
        let separator = if self.arguments.is_empty() { "" } else { ", " };
        let call = format!("loxo.{}($1{separator}{})", self.function, self.arguments);
        match (&self.unless, &self.only_if) {
            (None, None) => format!("SELECT {call}"),
            (Some(unless), None) => format!("SELECT {call} WHERE NOT {unless}"),
            (unless, Some(only_if)) => {
                let unless = unless.iter().map(|condition| format!("WHEN {condition} THEN true ")).collect::<String>();
                format!("SELECT CASE {unless}WHEN {only_if} THEN {call} IS NOT NULL ELSE false END")
            }
        }
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

    #[test]
    fn a_condition_comes_behind_the_call() {
        let call = OwnCall::about("keep_writers_off", "s.t", ", true");
        assert_eq!(call.sql(), "SELECT loxo.keep_writers_off($1, loxo.relation('s.t'), true)");
        let start = format!("{} WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE ", call.sql());
        assert!(call.unless_locked("s.t").sql().starts_with(&start));
    }

    #[test]
    fn a_call_that_wants_a_right_tells_whether_it_was_there() {
        let call = OwnCall::about("keep_writers_off", "s.t", ", true").if_may_lock_rows("s.t");
        let sql = "SELECT CASE WHEN pg_catalog.has_any_column_privilege(loxo.relation('s.t')::pg_catalog.oid, 'UPDATE') \
                   THEN loxo.keep_writers_off($1, loxo.relation('s.t'), true) IS NOT NULL ELSE false END";
        assert_eq!(call.sql(), sql);
        let locked = call.unless_locked("s.t").sql();
        assert!(locked.starts_with("SELECT CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE "));
        assert!(locked.contains(") THEN true WHEN pg_catalog.has_any_column_privilege("));
    }
}
