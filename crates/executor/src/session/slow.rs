//! Slow statements in the log: `loxo.log_min_duration`, as PostgreSQL's `log_min_duration_statement`; and what the present statement has
//! cost so far, for [`statement_figures`](crate::backend::statement_figures).
//!
//! A line of the log has the time, the client's text and the plan. Texts of commands are left out, for passwords stand in some, and so are
//! parameters.

use std::sync::OnceLock;
use std::time::Duration;

use pgerror::{PgError, Result, SqlState};
use planner::Plan;

use crate::backend::settings::duration;
use crate::backend::statement_figures::Note;
use crate::session::Session;
use crate::shared::figures::count_statement;

/// Statements that take longer are logged; 0: all, -1: none.
pub const LOG_MIN_DURATION: &str = "loxo.log_min_duration";
const NEVER: &str = "-1";

/// Of sessions that do not say.
static DEFAULT: OnceLock<String> = OnceLock::new();

/// What `loxo.log_min_duration` is unless it is set. Only the first call counts.
///
/// # Errors
/// 22023 if it is no time.
pub fn default_log_min_duration(value: &str) -> Result<()> {
    check(value)?;
    DEFAULT.get_or_init(|| value.to_owned());
    Ok(())
}

pub(super) fn default() -> &'static str {
    DEFAULT.get().map_or(NEVER, String::as_str)
}

pub(super) fn check(value: &str) -> Result<()> {
    if [NEVER, "0"].contains(&value) || duration(value).is_some() {
        return Ok(());
    }
    let message = format!("invalid value for parameter \"{LOG_MIN_DURATION}\": \"{value}\"");
    Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        .hint("Valid units for this parameter are \"ms\", \"s\", \"min\", \"h\", and \"d\"; -1 is none, 0 all."))
}

fn limit(value: &str) -> Option<Duration> {
    if value == "0" { Some(Duration::ZERO) } else { duration(value) }
}

/// Of a statement of the client's, with those of the bodies that it runs.
#[derive(Default)]
pub(crate) struct Spent {
    /// The kind of its plan, which is the first that is run.
    pub(crate) plan: Option<&'static str>,
    pub(crate) rows_moved: u64,
    pub(crate) note: Note,
}

impl Spent {
    pub(crate) fn forget(&mut self) {
        (self.plan, self.rows_moved) = (None, 0);
    }
}

impl Session {
    /// A statement is run by this plan.
    pub fn count_statement(&mut self, plan: &Plan) {
        self.spent.plan.get_or_insert(count_statement(plan));
    }

    /// PostgreSQL lets superusers set what is logged.
    pub(super) async fn may_set_log(&mut self) -> Result<()> {
        let asks = "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user";
        let rows = self.rows_on(self.home, asks).await?;
        match rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"t") {
            true => Ok(()),
            false => {
                let message = format!("permission denied to set parameter \"{LOG_MIN_DURATION}\"");
                Err(PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
            }
        }
    }

    pub(crate) fn log_if_slow(&self, plan: &Plan, took: Duration, error: Option<&PgError>) {
        let is_slow = self.own_setting(LOG_MIN_DURATION).and_then(limit).is_some_and(|limit| took >= limit);
        if !is_slow {
            return;
        }
        let activity = self.links.cancel().activity();
        let is_command =
            matches!(plan, Plan::Ddl(_) | Plan::Cluster(_) | Plan::Redistribute(_) | Plan::AutoReplicate(_));
        let (text, plan) = match is_command {
            true => ("(a command)".to_owned(), String::new()),
            false => (activity.text(), plan.to_string()),
        };
        let (ms, user) = (took.as_secs_f64() * 1e3, &self.identity().user);
        let code = error.map(|error| error.code().as_str().to_owned()).unwrap_or_default();
        tracing::info!(target: "slow", duration_ms = ms, user, text, plan, code, "slow statement");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(
            (limit("-1"), limit("0"), limit("250ms")),
            (None, Some(Duration::ZERO), Some(Duration::from_millis(250)))
        );
        assert!(check("1s").is_ok() && check("-1").is_ok() && check("soon").is_err());
    }
}
