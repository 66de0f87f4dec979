//! What settings mean in a body that the coordinator runs.
//!
//! * While a SECURITY DEFINER function is under way, nobody may become another user (`GUC_NOT_WHILE_SEC_REST` in PostgreSQL's `guc.c`). A
//!   datanode does not know of the function, so the session refuses it.
//! * A new `statement_timeout` counts from the client's next statement on. A datanode would count it at once, since each statement of a
//!   body is one of its own there: the nodes are told when the client's next statement begins.

use catalog::quote_literal;
use pgerror::{PgError, Result, SqlState};

use crate::backend::settings::is_who;
use crate::block::Replay;
use crate::session::Session;
use crate::session::own_settings::STATEMENT_TIMEOUT;

/// Whose body the present statement belongs to; by default it is the client's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// A body that the coordinator runs.
    pub is_body: bool,
    /// A SECURITY DEFINER function is under way, this one or one around it.
    pub is_definer: bool,
}

/// The error of a setting that nobody may change there; `None` for any other.
pub fn refused_in_definer(name: &str) -> Option<PgError> {
    let message = || format!("cannot set parameter \"{name}\" within security-definer function");
    is_who(name).then(|| PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, message()))
}

impl Session {
    /// Where the present statement stands.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Another place from here on; gives the one before.
    pub fn enter_scope(&mut self, scope: Scope) -> Scope {
        std::mem::replace(&mut self.scope, scope)
    }

    /// May this setting be changed here?
    pub fn check_may_set(&self, name: &str) -> Result<()> {
        refused_in_definer(name).filter(|_| self.scope.is_definer).map_or(Ok(()), Err)
    }

    /// The same of what a backend turned out to have after a function that it ran by itself.
    pub(crate) fn check_was_set(&self, name: &str, value: &str) -> Result<()> {
        let is_first = match name {
            "role" => value == "none",
            _ => value == self.links.identity().user,
        };
        let made = self.block.iter().flat_map(|block| &block.replay);
        let may_be_known = |step: &Replay| matches!(step, Replay::Set(sql, _) if !sql.starts_with("SELECT"));
        if is_first || self.settings().has(name) || made.into_iter().any(may_be_known) {
            return Ok(());
        }
        self.check_may_set(name)
    }

    /// `SET [LOCAL] statement_timeout` in a body: checked and normalized by the home node, which takes it back.
    ///
    /// # Errors
    /// Of the home node, of an invalid value.
    pub async fn set_timeout_later(&mut self, value: &str, local: bool) -> Result<()> {
        let sql = format!(
            "SAVEPOINT loxo_timeout; SELECT pg_catalog.set_config('{STATEMENT_TIMEOUT}', {}, true); \
             ROLLBACK TO SAVEPOINT loxo_timeout; RELEASE SAVEPOINT loxo_timeout",
            quote_literal(value)
        );
        let value = self.rows_on(self.home, &sql).await?.into_iter().flatten().flatten().next().unwrap_or_default();
        self.statement_timeout_is(String::from_utf8_lossy(&value).into_owned(), local);
        self.timeout_is_late = true;
        Ok(())
    }

    /// The same of RESET and DEFAULT.
    pub fn reset_timeout_later(&mut self, local: bool) {
        self.reset_own(STATEMENT_TIMEOUT, local);
        self.timeout_is_late = true;
    }

    /// Tells the nodes of what a body has set, if it still holds. In a failed block they hear nothing.
    pub(crate) async fn tell_late_timeout(&mut self) -> Result<()> {
        if !self.timeout_is_late || self.status() == b'E' {
            return Ok(());
        }
        let of_session = self.settings().own(STATEMENT_TIMEOUT).map(str::to_owned);
        let now = self.own_setting(STATEMENT_TIMEOUT).map(str::to_owned);
        match &of_session {
            Some(value) => {
                let sql = format!("SET {STATEMENT_TIMEOUT} = {}", quote_literal(value));
                self.set(STATEMENT_TIMEOUT, &sql).await?;
            }
            None => self.reset(Some(STATEMENT_TIMEOUT), &format!("RESET {STATEMENT_TIMEOUT}")).await?,
        }
        if now != of_session && self.in_block() {
            let value = now.map_or_else(|| "DEFAULT".to_owned(), |value| quote_literal(&value));
            self.set_local(STATEMENT_TIMEOUT, &format!("SET LOCAL {STATEMENT_TIMEOUT} = {value}")).await?;
        }
        self.timeout_is_late = false;
        Ok(())
    }
}
