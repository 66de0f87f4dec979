//! `set_config()`: a SET in another form, which must reach all nodes.
//!
//! A SELECT that only sets runs on the home node, for the client. What it set there is then set like by SET: the session
//! remembers it, and every other node hears of it before its next statement. Any other statement is planned like all, and the
//! backend is asked afterwards what it has set.

use std::sync::Arc;

use catalog::Meaning;
use executor::{Call, Completion, STATEMENT_TIMEOUT, Spool, own_setting_name};
use pgerror::{PgError, Result};
use planner::{SettingCalls, Statement};

use super::client_session::ClientSession;

const TRANSACTION_READ_ONLY: &str = "transaction_read_only";

/// One call.
struct Setting {
    /// In lower case.
    name: String,
    is_local: bool,
    /// NULL goes back to the default.
    value: Option<String>,
    /// The call by itself, with constants.
    sql: String,
}

impl ClientSession {
    /// Runs a statement with such calls; `None` if there are none in it.
    pub(super) async fn set_config(&mut self, statement: &Statement, call: &Call) -> Result<Option<Completion>> {
        if planner::setting_calls(statement)? == SettingCalls::None {
            return Ok(None);
        }
        let read = self.session.read_by_postgresql(statement, call, Meaning::SetConfig).await?;
        let settings = match planner::setting_calls(read.as_ref().unwrap_or(statement))? {
            SettingCalls::None => return Ok(None),
            SettingCalls::Listed(arguments) => self.settings_of(&arguments, call).await?,
            // The backend is asked afterwards.
            SettingCalls::Hidden(Some(names)) => {
                names.iter().try_for_each(|name| refuse_own(name))?;
                if names.iter().any(|name| executor::reads_constants_otherwise(name, None)) {
                    return Err(executor::other_constants());
                }
                return Ok(None);
            }
            SettingCalls::Hidden(None) => {
                return Err(PgError::unsupported(
                    "set_config() of a computed name other than in the select list of a SELECT of its own",
                )
                .hint("Write the setting's name as a constant, or SELECT set_config(…) without tables."));
            }
        };
        for setting in &settings {
            refuse_own(&setting.name)?;
            if setting.value.is_some() && executor::reads_constants_otherwise(&setting.name, setting.value.as_deref()) {
                return Err(executor::other_constants());
            }
            self.session.check_may_set(&setting.name)?;
        }
        if self.session.scope().is_body && settings.iter().any(|setting| setting.name == STATEMENT_TIMEOUT) {
            return self.set_timeout_by_call(&settings, statement, call).await.map(Some);
        }
        let completion = self.forward_home(&statement.sql, call).await?;
        for setting in &settings {
            self.remember(setting).await?;
        }
        self.session.note_reported().await?;
        self.session.release();
        Ok(Some(completion))
    }

    /// In a body `statement_timeout` counts from the client's next statement on, so no node makes the call.
    async fn set_timeout_by_call(
        &mut self,
        settings: &[Setting],
        statement: &Statement,
        call: &Call,
    ) -> Result<Completion> {
        let types = call.parameters.as_ref().map(|parameters| parameters.types.clone()).unwrap_or_default();
        let fields = self.session.describe(&statement.sql, &types).await?.fields.unwrap_or_default();
        let ([setting], [field]) = (settings, fields.as_slice()) else {
            return Err(PgError::unsupported(format!(
                "set_config() of {STATEMENT_TIMEOUT} beside something else in the body of a function"
            ))
            .hint("Write one call a statement, and nothing else in its select list."));
        };
        match &setting.value {
            Some(value) => self.session.set_timeout_later(value, setting.is_local).await?,
            None => self.session.reset_timeout_later(setting.is_local),
        }
        let value = self.session.timeout_in_body().await?;
        let (value, name) =
            (catalog::quote_literal(&value), catalog::quote_identifier(&String::from_utf8_lossy(&field.name)));
        // Nothing in it is a parameter.
        let call = Call { parameters: call.parameters.as_ref().map(|_| Arc::default()), ..call.clone() };
        self.forward_home(&format!("SELECT {value}::pg_catalog.text AS {name}"), &call).await
    }

    /// The calls that a query will make, from its query of their arguments.
    async fn settings_of(&mut self, arguments: &str, call: &Call) -> Result<Vec<Setting>> {
        let call = Call { result_formats: Vec::new(), describe: false, one_off: true, ..call.clone() };
        let before = self.socket.rows_into(Some(Spool::default()));
        let ended = self.forward_home(arguments, &call).await;
        let spool = self.socket.rows_into(before).unwrap_or_default();
        ended?;
        let (_, rows) = spool.into_rows()?;
        let values: Vec<Option<String>> =
            rows.into_iter().flatten().map(|value| value.map(|v| String::from_utf8_lossy(&v).into_owned())).collect();
        Ok(values.chunks(3).filter_map(setting).collect())
    }

    async fn remember(&mut self, setting: &Setting) -> Result<()> {
        match setting.is_local || setting.name == TRANSACTION_READ_ONLY {
            true => self.session.set_local(&setting.name, &setting.sql).await?,
            false => self.session.set(&setting.name, &setting.sql).await?,
        }
        if matches!(setting.name.as_str(), "search_path" | "role" | "session_authorization") {
            self.session.search_path_changed();
        }
        if setting.name == TRANSACTION_READ_ONLY {
            self.session.read_only_may_have_changed().await?;
        }
        if setting.name == STATEMENT_TIMEOUT {
            self.session.statement_timeout_changed(setting.is_local).await?;
        }
        Ok(())
    }
}

/// No node knows those that the coordinator obeys itself.
fn refuse_own(name: &str) -> Result<()> {
    match own_setting_name(name) {
        Some(own) => Err(PgError::unsupported(format!("set_config() of {own}")).hint("Use SET.")),
        None => Ok(()),
    }
}

/// From name, value and is_local. A NULL name fails on the home node; a NULL is_local counts as false there.
fn setting(arguments: &[Option<String>]) -> Option<Setting> {
    let [Some(name), value, is_local] = arguments else { return None };
    let is_local = is_local.as_deref() == Some("t");
    let text = value.as_deref().map_or_else(|| "NULL".to_owned(), catalog::quote_literal);
    let sql = format!("SELECT pg_catalog.set_config({}, {text}, {is_local})", catalog::quote_literal(name));
    Some(Setting { name: name.to_ascii_lowercase(), is_local, value: value.clone(), sql })
}
