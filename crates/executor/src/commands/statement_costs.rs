//! A statement of the client's is over: what it has cost is counted ([`statement_figures`](crate::backend::statement_figures)).

use std::time::Duration;

use pgerror::Result;
use pgproto::backend::split_command_tag;

use crate::backend::statement_figures::{Cost, Of};
use crate::engine::run::Completion;
use crate::session::Session;

impl Session {
    /// A statement of the client's is over. `sql` is its text, unless that may hold a password.
    pub fn statement_ended(&mut self, sql: Option<&str>, took: Duration, result: &Result<Completion>) {
        let cost = match result {
            Ok(completion) => Cost { calls: 1, took, rows: completion.rows().unwrap_or(0), ..Cost::default() },
            Err(_) => Cost { errors: 1, ..Cost::default() },
        };
        match (sql, result) {
            (Some(sql), _) => self.statements_ended(sql, cost),
            (None, Ok(Completion::Tag(tag))) => self.statements_ended(split_command_tag(tag).0, cost),
            (None, _) => {
                self.links.cancel().interrupt().take_gate_wait();
                self.spent.forget();
            }
        }
    }

    /// Executions of one INSERT that were run together.
    pub fn batch_ended(&mut self, sql: &str, cost: Cost) {
        self.spent.plan.get_or_insert("forward");
        self.statements_ended(sql, cost);
    }

    fn statements_ended(&mut self, sql: &str, cost: Cost) {
        let (rows_moved, settle_wait) = (self.spent.rows_moved, self.spent.settle_wait);
        let gate_wait = self.links.cancel().interrupt().take_gate_wait();
        let cost = Cost { rows_moved, gate_wait, settle_wait, ..cost };
        let identity = self.links.identity();
        let of = Of { user: &identity.user, database: &identity.database, plan: self.spent.plan.unwrap_or("session") };
        self.context.first().sessions().statements().count(sql, of, cost, &mut self.spent.note);
        self.spent.forget();
    }
}
