//! Slow statements in the log: `loxo.log_min_duration`, as PostgreSQL's `log_min_duration_statement`; and what the present statement has
//! cost so far, for [`statement_figures`](crate::backend::statement_figures).
//!
//! A line of the log has the time, the client's text and the plan. Texts of commands are left out, for passwords stand in some, and so are
//! parameters. The last few are kept for the coordinator's page ([`recent_slow_statements`]).

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use pgerror::{PgError, Result, SqlState};
use planner::Plan;

use crate::backend::settings::duration;
use crate::session::Session;
use crate::shared::figures::count_statement;

/// Statements that take longer are logged; 0: all, -1: none.
pub const LOG_MIN_DURATION: &str = "loxo.log_min_duration";
const NEVER: &str = "-1";

/// Number of slow statements that are kept, and bytes of each.
const KEPT_MAX: usize = 50;
const TEXT_BYTES_KEPT: usize = 4_000;
const PLAN_BYTES_KEPT: usize = 16_000;

/// A statement that took longer than its session's limit.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct SlowStatement {
    pub ended: SystemTime,
    pub took: Duration,
    pub user: String,
    pub text: String,
    /// An indented tree; empty for commands.
    pub plan: String,
    /// SQLSTATE if it failed.
    pub code: String,
}

/// Written by slow statements only, so nobody waits for it.
static RECENT: Mutex<VecDeque<SlowStatement>> = Mutex::new(VecDeque::new());

/// The last slow statements of this process, the latest first. They are for their users and those who may read all statistics.
pub fn recent_slow_statements() -> Vec<SlowStatement> {
    RECENT.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
}

fn keep(mut statement: SlowStatement) {
    cut(&mut statement.text, TEXT_BYTES_KEPT);
    cut(&mut statement.plan, PLAN_BYTES_KEPT);
    let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    if recent.len() == KEPT_MAX {
        recent.pop_front();
    }
    recent.push_back(statement);
}

fn cut(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.shrink_to_fit();
    }
}

/// The value for sessions that do not say.
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
        keep(SlowStatement { ended: SystemTime::now(), took, user: user.clone(), text, plan, code });
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

    #[test]
    fn the_last_ones_are_kept() {
        let statement = |number: usize| SlowStatement {
            ended: SystemTime::now(),
            took: Duration::from_secs(1),
            user: "u".to_owned(),
            text: format!("{number} {}", "é".repeat(TEXT_BYTES_KEPT)),
            plan: String::new(),
            code: String::new(),
        };
        (0..KEPT_MAX + 5).for_each(|number| keep(statement(number)));
        let kept = recent_slow_statements();
        assert_eq!(kept.len(), KEPT_MAX);
        assert!(kept[0].text.starts_with("54 ") && kept[KEPT_MAX - 1].text.starts_with("5 "));
        assert!(kept.iter().all(|one| one.text.len() <= TEXT_BYTES_KEPT));
    }
}
