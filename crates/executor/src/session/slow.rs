//! Slow statements in the log: `loxo.log_min_duration`, as PostgreSQL's `log_min_duration_statement`; and what the present statement has
//! cost so far, for [`statement_figures`](crate::backend::statement_figures).
//!
//! A line of the log has the time, the client's text and the plan. Texts of commands are left out, for passwords stand in some, and so are
//! parameters, but with `loxo.log_parameters`, which shows them beside errors too. The last few are kept for the coordinator's page
//! ([`recent_slow_statements`]).

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState};
use planner::Plan;

use crate::backend::call::{Call, Parameters};
use crate::backend::settings::duration;
use crate::session::Session;
use crate::shared::figures::count_statement;

/// Statements that take longer are logged; 0: all, -1: none.
pub const LOG_MIN_DURATION: &str = "loxo.log_min_duration";
const NEVER: &str = "-1";
/// Are parameters logged?
pub const LOG_PARAMETERS: &str = "loxo.log_parameters";

/// Number of slow statements that are kept, and bytes of each.
const KEPT_MAX: usize = 50;
const TEXT_BYTES_KEPT: usize = 4_000;
const PLAN_BYTES_KEPT: usize = 16_000;
/// So much of each parameter is logged, and of so many.
const PARAMETER_BYTES_MAX: usize = 200;
const PARAMETERS_MAX: usize = 100;

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
static DEFAULT_OF_PARAMETERS: OnceLock<bool> = OnceLock::new();

/// What `loxo.log_parameters` is unless it is set. Only the first call counts.
pub fn default_log_parameters(are_logged: bool) {
    DEFAULT_OF_PARAMETERS.get_or_init(|| are_logged);
}

pub(super) fn default_of_parameters() -> &'static str {
    switch(DEFAULT_OF_PARAMETERS.get().copied().unwrap_or_default())
}

fn switch(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// `on` or `off`, for what PostgreSQL takes for a truth value in full.
pub(super) fn check_switch(value: &str) -> Result<String> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(switch(true).to_owned()),
        "off" | "false" | "no" | "0" => Ok(switch(false).to_owned()),
        _ => {
            let message = format!("parameter \"{LOG_PARAMETERS}\" requires a Boolean value");
            Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// As PostgreSQL's log has them; those in binary form in hexadecimal digits.
fn in_words(parameters: &Parameters) -> String {
    let word = |(at, value): (usize, &Option<Bytes>)| {
        let Some(value) = value else { return format!("${} = NULL", at + 1) };
        let mut text = match parameters.format_of(at) {
            0 => String::from_utf8_lossy(&value[..value.len().min(PARAMETER_BYTES_MAX + 4)]).into_owned(),
            _ => {
                value.iter().take(PARAMETER_BYTES_MAX).fold("\\x".to_owned(), |hex, byte| hex + &format!("{byte:02x}"))
            }
        };
        let is_cut = text.len() > PARAMETER_BYTES_MAX;
        cut(&mut text, PARAMETER_BYTES_MAX);
        format!("${} = '{}{}'", at + 1, text.replace('\'', "''"), if is_cut { "..." } else { "" })
    };
    let words: Vec<String> = parameters.values.iter().enumerate().take(PARAMETERS_MAX).map(word).collect();
    words.join(", ")
}

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
    pub(super) async fn may_set_log(&mut self, name: &str) -> Result<()> {
        let asks = "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user";
        let rows = self.rows_on(self.home, asks).await?;
        match rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"t") {
            true => Ok(()),
            false => {
                let message = format!("permission denied to set parameter \"{name}\"");
                Err(PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
            }
        }
    }

    /// A statement has been run: is it to be logged?
    pub(crate) fn log_run(&self, plan: &Plan, call: &Call, took: Duration, error: Option<&PgError>) {
        let is_slow = self.own_setting(LOG_MIN_DURATION).and_then(limit).is_some_and(|limit| took >= limit);
        if !is_slow && error.is_none() {
            return;
        }
        let is_command =
            matches!(plan, Plan::Ddl(_) | Plan::Cluster(_) | Plan::Redistribute(_) | Plan::AutoReplicate(_));
        let logs_parameters = !is_command && self.own_setting(LOG_PARAMETERS) == Some("on");
        let parameters = call.parameters.as_deref().filter(|_| logs_parameters).map(in_words).unwrap_or_default();
        let code = error.map(|error| error.code().as_str().to_owned()).unwrap_or_default();
        // Beside the line of the error, where the client is told of it.
        if error.is_some() && !parameters.is_empty() {
            tracing::debug!(target: "coordinator", code, parameters, "parameters of a statement that failed");
        }
        if !is_slow {
            return;
        }
        let (text, plan) = match is_command {
            true => ("(a command)".to_owned(), String::new()),
            false => (self.links.cancel().activity().text(), plan.to_string()),
        };
        let (ms, user) = (took.as_secs_f64() * 1e3, &self.identity().user);
        match parameters.as_str() {
            "" => tracing::info!(target: "slow", duration_ms = ms, user, text, plan, code, "slow statement"),
            _ => tracing::info!(target: "slow", duration_ms = ms, user, text, parameters, plan, code, "slow statement"),
        }
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
    fn parameters_are_cut() {
        let values = [Some("it's"), None, Some(&*"é".repeat(200)), Some("\0\u{1}")];
        let values = values.map(|value| value.map(|text| Bytes::copy_from_slice(text.as_bytes()))).to_vec();
        let words = in_words(&Parameters { types: vec![], formats: vec![0, 0, 0, 1], values });
        assert_eq!(words, format!("$1 = 'it''s', $2 = NULL, $3 = '{}...', $4 = '\\x0001'", "é".repeat(100)));
        assert_eq!(check_switch("TRUE").unwrap(), "on");
        assert_eq!(check_switch("some").unwrap_err().code(), SqlState::INVALID_PARAMETER_VALUE);
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
