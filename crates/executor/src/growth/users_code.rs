//! Code of users that would run with the cluster's own rights while rows move.
//!
//! Rows are moved by the service user, a superuser: nobody else may write tables of all owners past their triggers and
//! policies. But COPY also evaluates CHECKs, checks of domains, generated columns, keys of partitions and expressions of indexes.
//! What a function of somebody's does in these it would do as a superuser. So a table stays where it is as long as such a function
//! belongs to another role than a superuser. (PostgreSQL has the same choice to make for a superuser's own COPY, and leaves it to him.)
//!
//! Functions of PostgreSQL's own can be led to users' code, too, or do what the role that wrote the expression may not: `to_json()`
//! looks for a cast, `query_to_xml()` runs a text, `pg_read_file()` asks for the caller. `pg_depend` knows nothing of them, but the
//! stored expressions name them. In what another role than a superuser has made, functions are left that are IMMUTABLE, or
//! PostgreSQL's own, STABLE, PARALLEL SAFE and of arguments whose types say what is done with them; and that this role may execute.

use catalog::Relation;
use pgerror::{PgError, Result, SqlState};

use crate::engine::temp::users_code;
use crate::session::Session;
use crate::shared::catalog_load::text;

impl Session {
    /// To be called under a lock that keeps changes of the tables' schema away.
    ///
    /// # Errors
    /// 0A000 with the first such function.
    pub(crate) async fn refuse_users_code(&mut self, tables: &[&Relation]) -> Result<()> {
        let rows = self.rows_on(self.home, &planner::own_text(&users_code::of_tables(tables))?).await?;
        let Some(row) = rows.first() else { return Ok(()) };
        let (function, role, is_own) = (text(row, 0)?, text(row, 1)?, text(row, 2)? == "t");
        if !is_own {
            let what = format!(
                "{function} in an expression of role \"{role}\" would run as a superuser if rows of a table with it moved"
            );
            return Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, what).hint(
                "Take the constraint away, or have a superuser own the table, or the domain, if it is to be trusted.",
            ));
        }
        let what = format!(
            "function {function} of role \"{role}\" would run as a superuser if rows of a table that calls it moved"
        );
        Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, what)
            .hint(format!("If it is to be trusted: ALTER FUNCTION {function} OWNER TO a superuser.")))
    }
}
