//! Settings that the coordinator obeys itself: the idle timeouts, `loxo.work_mem`, `loxo.few_rows`, `loxo.copy_helpers`,
//! `loxo.log_min_duration`, `loxo.log_parameters`, and `statement_timeout`, which the nodes obey too.
//!
//! A backend knows only how long it has been left alone, not whether the session works on another node meanwhile. Were it
//! told, it would end a transaction whose client is not idle at all. So nobody but the coordinator counts the time, and
//! the nodes are not told. The home node only checks and normalizes a new value. `SHOW` gives what holds;
//! `current_setting()` and `pg_settings` show the datanode's own. A default that is configured in the datanodes stays theirs.
//!
//! In a body that the coordinator runs, a new `statement_timeout` counts from the client's next statement on. A datanode would count it at
//! once, since each statement of a body is one of its own there: the nodes are told when the client's next statement begins. And while a
//! SECURITY DEFINER function is under way nobody may become another user (`GUC_NOT_WHILE_SEC_REST` in PostgreSQL's `guc.c`), which a
//! datanode that does not know of the function would allow.

use std::time::Duration;

use catalog::quote_literal;
use pgerror::{PgError, Result, SqlState};
use planner::parse::{SetStatement, StatementKind};

use crate::backend::isolation::SnapshotMode;
use crate::backend::settings::{Scope, duration, refused_in_definer};
use crate::backend::slot::Slot;
use crate::block::Replay;
use crate::session::Session;
use crate::session::slow::{self, LOG_MIN_DURATION, LOG_PARAMETERS};

/// Between two statements of a block.
pub const IDLE_IN_TRANSACTION: &str = "idle_in_transaction_session_timeout";
/// Outside a block.
pub const IDLE_SESSION: &str = "idle_session_timeout";

/// Bytes of rows that a statement may keep in a coordinator's memory; the rest goes to a file.
pub const WORK_MEM: &str = "loxo.work_mem";
/// [`WORK_MEM_BYTES`] as SHOW writes it.
const WORK_MEM_DEFAULT: &str = "64MB";

/// Bytes of rows that stay in memory if `loxo.work_mem` says nothing else.
pub(crate) const WORK_MEM_BYTES: usize = 64 * 1024 * 1024;

/// What reads see that need several nodes: a [`SnapshotMode`].
pub const SNAPSHOT: &str = "loxo.snapshot";

/// So many rows, as far as can be estimated, are brought to one node rather than exchanged, and in parameters rather than temp
/// tables.
pub const FEW_ROWS: &str = "loxo.few_rows";
const FEW_ROWS_DEFAULT: &str = "20000";

/// Threads that convert rows ahead of a COPY's router: so many, or `auto`, as many as help and have a core.
pub const COPY_HELPERS: &str = "loxo.copy_helpers";
const COPY_HELPERS_DEFAULT: &str = "auto";

/// Helpers of one COPY: what the router does itself leaves no work for more.
pub(crate) const HELPERS_MAX: usize = 3;

pub(crate) const NAMES: [&str; 7] =
    [IDLE_IN_TRANSACTION, IDLE_SESSION, WORK_MEM, FEW_ROWS, COPY_HELPERS, LOG_MIN_DURATION, LOG_PARAMETERS];

/// The setting of this name, if it is one of these.
pub fn own_setting_name(name: &str) -> Option<&'static str> {
    NAMES.into_iter().find(|own| *own == name)
}

/// For the coordinator's own waits, and for statements of several steps.
pub const STATEMENT_TIMEOUT: &str = "statement_timeout";

impl Session {
    /// How long a statement may take.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        match self.own_setting(STATEMENT_TIMEOUT) {
            Some(value) => duration(value),
            None => self.server_timeout,
        }
    }

    /// To be called after anything that sets `statement_timeout` on the nodes.
    pub async fn statement_timeout_changed(&mut self, local: bool) -> Result<()> {
        if local && !self.in_block() {
            return Ok(());
        }
        let value = self.show_on_home(STATEMENT_TIMEOUT).await?;
        self.statement_timeout_is(value, local);
        Ok(())
    }

    /// [`Self::statement_timeout_changed`] if the value is known, as SHOW writes it.
    pub(crate) fn statement_timeout_is(&mut self, value: String, local: bool) {
        self.note_own_setting(STATEMENT_TIMEOUT, Some(value.clone()));
        if !local {
            self.settings_mut().set_own(STATEMENT_TIMEOUT, value);
        }
    }

    /// `SET [LOCAL] name = …`.
    pub async fn set_own(&mut self, name: &'static str, sql: &str, local: bool) -> Result<()> {
        if local && !self.in_block() {
            return self.set_in_block(sql).await;
        }
        let rows = self.rows_on(self.home, &format!("{sql}; SHOW {name}; RESET {name}")).await?;
        let value = rows.first().and_then(|row| row.first()?.clone());
        let value = value.ok_or_else(|| PgError::internal(format!("the home node did not show {name}")))?;
        let value = checked(name, &String::from_utf8_lossy(&value))?;
        if [LOG_MIN_DURATION, LOG_PARAMETERS].contains(&name) {
            self.may_set_log(name).await?;
        }
        self.note_own_setting(name, Some(value.clone()));
        if !local {
            self.settings_mut().set_own(name, value);
        }
        Ok(())
    }

    /// What ALTER ROLE and ALTER DATABASE have set of what no datanode knows, and of `loxo.snapshot`. PostgreSQL has looked at the
    /// rights of who did it. Like there a value that cannot be taken keeps nobody out.
    ///
    /// # Errors
    /// Those of the node that is asked how the user's sessions start.
    pub async fn take_given_settings(&mut self) -> Result<Option<SnapshotMode>> {
        let login = self.links.login().await?;
        let warn = |error: PgError| tracing::warn!(%error, "a setting of a role or database is passed over");
        for name in NAMES.into_iter().filter(|name| name.starts_with("loxo.")) {
            match login.setting(name).map(|value| checked(name, value)).transpose() {
                Ok(Some(value)) => self.settings_mut().set_own(name, value),
                Ok(None) => {}
                Err(error) => warn(error),
            }
        }
        let snapshot = login.setting(SNAPSHOT).map(SnapshotMode::named).transpose();
        Ok(snapshot.unwrap_or_else(|error| {
            warn(error);
            None
        }))
    }

    /// Bytes of rows that may be kept in memory.
    pub fn work_mem(&self) -> usize {
        self.own_setting(WORK_MEM).and_then(bytes).unwrap_or(WORK_MEM_BYTES)
    }

    /// See [`FEW_ROWS`].
    pub(crate) fn few_rows(&self) -> f64 {
        self.own_setting(FEW_ROWS).and_then(|rows| rows.parse().ok()).unwrap_or_default()
    }

    /// See [`COPY_HELPERS`]; `None` is `auto`.
    pub(crate) fn copy_helpers(&self) -> Option<usize> {
        self.own_setting(COPY_HELPERS).and_then(helpers)
    }

    /// Notes in the block what one of the coordinator's own settings is from here on.
    pub(crate) fn note_own_setting(&mut self, name: &'static str, value: Option<String>) {
        if let Some(block) = &mut self.block {
            block.replay.push(Replay::Own(name, value));
        }
    }

    /// Value of one of the coordinator's own settings, as SHOW writes it; `None` for the server's own.
    pub fn own_setting(&self, name: &str) -> Option<&str> {
        let in_block = self.block.iter().flat_map(|block| block.replay.iter().rev()).find_map(|step| match step {
            Replay::Own(known, value) if *known == name => Some(value.as_deref()),
            _ => None,
        });
        let value = in_block.unwrap_or_else(|| self.settings().own(name));
        value.or(match name {
            WORK_MEM => Some(WORK_MEM_DEFAULT),
            FEW_ROWS => Some(FEW_ROWS_DEFAULT),
            COPY_HELPERS => Some(COPY_HELPERS_DEFAULT),
            LOG_MIN_DURATION => Some(slow::default()),
            LOG_PARAMETERS => Some(slow::default_of_parameters()),
            _ => None,
        })
    }

    /// `RESET name` and `SET [LOCAL] name TO DEFAULT`.
    pub fn reset_own(&mut self, name: &'static str, local: bool) {
        let value = self.settings().own_at_start(name).map(str::to_owned);
        self.note_own_setting(name, value);
        if !local {
            self.settings_mut().reset_own(name);
        }
    }
}

/// The value as SHOW writes it: to the home node ours are words like any other.
fn checked(name: &str, value: &str) -> Result<String> {
    match name {
        WORK_MEM => drop(bytes(value).ok_or_else(|| invalid_work_mem(value))?),
        FEW_ROWS => drop(value.parse::<u32>().map_err(|_| invalid_few_rows(value))?),
        COPY_HELPERS => check_copy_helpers(value)?,
        LOG_MIN_DURATION => slow::check(value)?,
        LOG_PARAMETERS => return slow::check_switch(value),
        _ => {}
    }
    Ok(value.to_owned())
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

    /// May a backend have got this value by a function that it ran by itself? What the session has seen to is as it was when
    /// the SECURITY DEFINER function began, or what the coordinator needed since: anything else was set in between.
    pub(crate) async fn check_was_set(&mut self, from: Slot, name: &str, value: &str) -> Result<()> {
        let Err(refused) = self.check_may_set(name) else { return Ok(()) };
        let made = self.block.iter().flat_map(|block| block.replay.iter().rev()).find_map(|step| match step {
            Replay::Set(sql, _) => who_after(sql, name, value),
            _ => None,
        });
        let who = made.or_else(|| who_after(self.settings().command(name)?, name, value)).unwrap_or(Who::AtStart);
        let is_known = match who {
            Who::This => true,
            Who::Another => false,
            Who::AtStart if name == "role" => value == "none" || self.may_start_as(from, value).await?,
            Who::AtStart => self.links.is_login_name(from, value)?,
        };
        if is_known { Ok(()) } else { Err(refused) }
    }

    /// May ALTER ROLE or ALTER DATABASE have given a backend this role at its start?
    async fn may_start_as(&mut self, slot: Slot, role: &str) -> Result<bool> {
        let sql = format!(
            "SELECT 1 FROM pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) c \
             WHERE c OPERATOR(pg_catalog.=) {}",
            quote_literal(&format!("role={role}"))
        );
        Ok(!self.rows_on(slot, &sql).await?.is_empty())
    }

    /// `SET [LOCAL] statement_timeout` in a body: checked and normalized by the home node, which takes it back.
    ///
    /// # Errors
    /// Those of the home node, for an invalid value.
    pub async fn set_timeout_later(&mut self, value: &str, local: bool) -> Result<()> {
        let value = quote_literal(value);
        let sql = format!("SELECT pg_catalog.set_config('{STATEMENT_TIMEOUT}', {value}, true)");
        let value = self.timeout_on_home(&sql).await?;
        self.statement_timeout_is(value, local);
        self.timeout_is_late = true;
        Ok(())
    }

    /// What `statement_timeout` a body has, whatever the home node still has.
    ///
    /// # Errors
    /// Those of the home node.
    pub async fn timeout_in_body(&mut self) -> Result<String> {
        if let Some(value) = self.own_setting(STATEMENT_TIMEOUT) {
            return Ok(value.to_owned());
        }
        let reset = self.settings().reset_sql(Some(STATEMENT_TIMEOUT), &format!("RESET {STATEMENT_TIMEOUT}"));
        self.timeout_on_home(&format!("{reset}; SHOW {STATEMENT_TIMEOUT}")).await
    }

    /// What a setting there gives, as the home node writes it.
    async fn timeout_on_home(&mut self, set: &str) -> Result<String> {
        let sql = format!(
            "SAVEPOINT loxo_timeout; {set}; ROLLBACK TO SAVEPOINT loxo_timeout; RELEASE SAVEPOINT loxo_timeout"
        );
        let value = self.rows_on(self.home, &sql).await?.into_iter().flatten().flatten().next().unwrap_or_default();
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    /// A RESET or DEFAULT of `statement_timeout` in a body, which the nodes are told of later.
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

/// The role or user of a session after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    This,
    Another,
    /// As its backends start.
    AtStart,
}

/// Is the role, or the user, this one after the command? `None` if that is about something else; one that cannot be read may be right.
fn who_after(command: &str, name: &str, value: &str) -> Option<Who> {
    let Ok(statements) = planner::parse(command) else { return Some(Who::This) };
    statements.iter().rev().find_map(|statement| {
        let (set, now) = match &statement.kind {
            StatementKind::Set(SetStatement::Value { name, values, .. }) => {
                let is_this = values.first().is_none_or(|set| set == value);
                (name.clone(), if is_this { Who::This } else { Who::Another })
            }
            StatementKind::Set(SetStatement::Default { name, .. } | SetStatement::Reset(name)) => {
                (name.clone(), Who::AtStart)
            }
            _ => set_by_call(&statement.sql, value)?,
        };
        match set.as_str() {
            // Another user begins without a role.
            "session_authorization" if name == "role" => Some(Who::AtStart),
            set => (set == name).then_some(now),
        }
    })
}

/// Who the session is after `SELECT pg_catalog.set_config(…)` as it writes it, and the setting that this is about.
fn set_by_call(sql: &str, value: &str) -> Option<(String, Who)> {
    let arguments = sql.strip_prefix("SELECT pg_catalog.set_config('")?;
    let (name, rest) = arguments.split_once("', ")?;
    let now = if rest.starts_with("NULL") {
        Who::AtStart
    } else if rest.strip_prefix(&quote_literal(value)).is_some_and(|rest| rest.starts_with(", ")) {
        Who::This
    } else {
        Who::Another
    };
    Some((name.to_ascii_lowercase(), now))
}

/// An amount of memory as PostgreSQL reads it: kilobytes, or a number and its unit.
fn bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor: usize = match unit.trim() {
        "B" => 1,
        "" | "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(factor)
}

fn invalid_work_mem(value: &str) -> PgError {
    PgError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid value for parameter \"{WORK_MEM}\": \"{value}\""))
        .hint("Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".")
}

fn invalid_few_rows(value: &str) -> PgError {
    PgError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid value for parameter \"{FEW_ROWS}\": \"{value}\""))
        .hint("A number of rows, or 0.")
}

fn helpers(text: &str) -> Option<usize> {
    text.parse().ok().filter(|count| *count <= HELPERS_MAX)
}

fn check_copy_helpers(value: &str) -> Result<()> {
    if value == COPY_HELPERS_DEFAULT || helpers(value).is_some() {
        return Ok(());
    }
    let message = format!("invalid value for parameter \"{COPY_HELPERS}\": \"{value}\"");
    Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        .hint(format!("A number from 0 to {HELPERS_MAX}, or auto.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_postgresql_reads_it() {
        for (text, expected) in
            [("64", 65536), ("64kB", 65536), (WORK_MEM_DEFAULT, WORK_MEM_BYTES), ("1 GB", 1 << 30), ("0", 0)]
        {
            assert_eq!(bytes(text), Some(expected), "{text}");
        }
        for text in ["", "mb", "5mb", "-1", "99999999999999999999", "9999999999TB"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn helpers_are_a_number_or_auto() {
        for (value, is_valid) in [("auto", true), ("0", true), ("3", true), ("4", false), ("-1", false), ("on", false)]
        {
            assert_eq!(check_copy_helpers(value).is_ok(), is_valid, "{value}");
        }
        assert_eq!((helpers("auto"), helpers("2")), (None, Some(2)));
    }

    #[test]
    fn times_are_read_as_show_writes_them() {
        for (text, milliseconds) in [("7", 7), ("250ms", 250), ("5s", 5000), ("2min", 120_000), ("1d", 86_400_000)] {
            assert_eq!(duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["0", "", "5 s", "five"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn who_a_session_is_after_a_command() {
        let role = |command| who_after(command, "role", "app");
        for command in [
            "SET ROLE app",
            "SET LOCAL role = 'app'",
            "SELECT pg_catalog.set_config('ROLE', 'app', true)",
            "SELECT pg_catalog.set_config('role', 'app', false) WHERE true",
            "RESET ROLE; SET ROLE app",
        ] {
            assert_eq!(role(command), Some(Who::This), "{command}");
        }
        for command in ["SET ROLE NONE", "SELECT pg_catalog.set_config('role', 'apple', true)"] {
            assert_eq!(role(command), Some(Who::Another), "{command}");
        }
        for command in
            ["RESET ROLE", "SET SESSION AUTHORIZATION app", "SELECT pg_catalog.set_config('role', NULL, true)"]
        {
            assert_eq!(role(command), Some(Who::AtStart), "{command}");
        }
        for command in ["SET work_mem = 100", "RESET ALL", "SELECT pg_catalog.set_config('app.role', 'app', true)"] {
            assert_eq!(role(command), None, "{command}");
        }
        assert_eq!(who_after("SET SESSION AUTHORIZATION a", "session_authorization", "a"), Some(Who::This));
        assert_eq!(who_after("SET ROLE a", "session_authorization", "a"), None);
    }
}
