//! CONNECTION LIMIT of roles and databases. A session that begins has the sessions of all coordinators counted, itself among them.
//!
//! A datanode would count pooled connections, so it has limits that it never meets (`planner::for_nodes`).

use pgerror::{PgError, Result, SqlState};

use crate::backend::cancel::Question;
use crate::session::Session;

impl Session {
    /// To be called for a role that is no superuser, once its session has started.
    ///
    /// # Errors
    /// 53300 if it is one too many; 57P03 while not all coordinators can be asked.
    pub async fn check_connection_limits(&mut self) -> Result<()> {
        let limits = self.links.login().await?.limits;
        if limits.of_role < 0 && limits.in_database < 0 {
            return Ok(());
        }
        let identity = self.links.identity();
        let (user, database) = (identity.user.clone(), identity.database.clone());
        let asked = Question::Count { user: user.clone(), database: database.clone() };
        let (mut of_role, mut in_database) = (0, 0);
        for answer in self.ask_coordinators(&asked).await? {
            let counts: (i64, i64) = serde_json::from_slice(&answer)
                .map_err(|_| PgError::protocol("another coordinator is not understood"))?;
            of_role += counts.0;
            in_database += counts.1;
        }
        let is_full = |limit: i32, count: i64| limit >= 0 && count > i64::from(limit);
        let too_many =
            |of: String| Err(PgError::fatal(SqlState::TOO_MANY_CONNECTIONS, format!("too many connections for {of}")));
        if is_full(limits.of_role, of_role) {
            return too_many(format!("role \"{user}\""));
        }
        if is_full(limits.in_database, in_database) {
            return too_many(format!("database \"{database}\""));
        }
        Ok(())
    }
}
