//! Rows for which the coordinator has run the triggers BEFORE … FOR EACH ROW.
//!
//! The datanodes let in no others where there are such triggers: see `loxo.capture()` in `metadata.sql`.

use catalog::Relation;
use pgerror::{PgError, Result, SqlState};

use crate::backend::own_calls::OwnCall;
use crate::session::Session;

impl Session {
    /// Has the nodes of the table let such rows in, or stop that.
    pub async fn let_rows(&mut self, table: &Relation, wanted: bool) -> Result<()> {
        let call = OwnCall::about("let_rows", &table.qualified_name(), &format!(", {wanted}"));
        self.call_on_all(&table.distribution.nodes(), &call).await
    }

    /// PostgreSQL's refusal in a transaction that is READ ONLY: no datanode would say so if there is no row.
    pub fn may_change(&self, command: &str) -> Result<()> {
        match self.is_read_only() {
            false => Ok(()),
            true => {
                let message = format!("cannot execute {command} in a read-only transaction");
                Err(PgError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
            }
        }
    }
}
