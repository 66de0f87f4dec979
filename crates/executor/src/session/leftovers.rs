//! What statements leave in backends, and what becomes of it.
//!
//! The planner says what a statement may leave ([`Leavings`]); each link that it runs on is marked with that. Most statements
//! leave nothing. After one that may, the backends are asked, when the statement or the transaction block is over:
//!
//! * Settings that a function has made are the session's from then on, on all nodes, and channels it listens to too.
//! * A backend with temporary objects, cursors, prepared statements or locks stays with the session until its end, and so
//!   does one that keeps something nobody can ask for. One with values of sequences does not: page [`sequence_values`](crate::backend::pool::sequence_values).
//! * Any other goes back to the pool with a note whose it was: for everybody else it is reset before its next use.
//!
//! Invariant: no link gets to the pool that has not been asked ([`Links::give_back`](crate::backend::links::Links::give_back) closes it instead).

use std::collections::HashMap;

use catalog::{Asks, Leavings, quote_literal};
use pgerror::{PgError, Result};
use pgproto::TransactionStatus;
use planner::Statement;

use crate::backend::settings::CONFORMING_STRINGS;
use crate::backend::slot::Slot;
use crate::block::Replay;
use crate::session::Session;
use crate::session::own_settings::{STATEMENT_TIMEOUT, own_setting_name};
use crate::session::set::other_constants;

/// Whether the backend has what only this backend can have.
const STATE: &str = "SELECT 's', NULL, NULL WHERE EXISTS (SELECT FROM pg_catalog.pg_depend \
       WHERE refclassid OPERATOR(pg_catalog.=) 2615 AND refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()) \
     OR EXISTS (SELECT FROM pg_catalog.pg_cursors WHERE is_holdable) \
     OR EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE from_sql) \
     OR EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory' \
       AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()) \
     UNION ALL SELECT 'c', channel, NULL FROM pg_catalog.pg_listening_channels() channel";

/// A backend's answer.
#[derive(Default)]
struct Answer {
    keeps_state: bool,
    channels: Vec<String>,
    settings: Vec<(String, String)>,
}

impl Session {
    /// Notes what the statement that is about to run may leave; several notes of one statement add up.
    pub(crate) fn note_leavings(&mut self, statement: &Statement, catalog: &catalog::Catalog) {
        self.leaves.add(&planner::leavings(statement, catalog));
    }

    /// Notes what a text may leave that is not planned.
    pub(crate) fn note_leavings_of(&mut self, sql: &str) {
        let unknown = Leavings { any_setting: true, ..Leavings::told() };
        let (Ok(statements), Some(loaded)) = (planner::parse(sql), self.context.current_catalog()) else {
            return self.leaves.add(&unknown);
        };
        statements.iter().for_each(|statement| self.note_leavings(statement, &loaded.catalog));
    }

    /// A held link is to run the statement.
    pub(crate) fn mark_left(&mut self, slot: impl Into<Slot>) {
        if self.leaves.is_nothing() {
            return;
        }
        let slot = slot.into();
        let is_home = slot == self.home;
        if self.leaves.drawn && is_home {
            self.links.note_drawn(slot);
        }
        let at_home = self.leaves.at_home && is_home;
        let leaves = Leavings {
            at_home,
            drawn: false,
            reads_drawn: false,
            notifies: false,
            asks: Asks::default(),
            ..self.leaves.clone()
        };
        if leaves.is_nothing() {
            return;
        }
        if (leaves.at_home || leaves.hidden) && slot.is_main() {
            self.links.pin(slot);
        }
        let number = self.links.number();
        if let Some(leased) = self.links.get_mut(slot) {
            leased.asks_settings |= leaves.any_setting || !leaves.settings.is_empty();
            leased.left.add(&leaves);
            leased.link.left_by = Some(number);
        }
    }

    /// Asks the backends that may hold something. To be called after each statement and each block. An error ends the statement
    /// that has left what cannot be kept.
    pub async fn ask_left(&mut self) -> Result<()> {
        if self.links.iter().any(|(_, leased)| !leased.left.is_nothing()) {
            match self.in_block() {
                true => self.copy_left_settings().await?,
                false => self.ask_outside_block().await?,
            }
        }
        self.note_reported().await
    }

    /// Inside a block: a setting that a function has made there holds on all its nodes. Whether it outlives the block is seen at
    /// its end.
    async fn copy_left_settings(&mut self) -> Result<()> {
        let is_open = |status| status == TransactionStatus::InTransaction;
        // A node that has failed takes no settings. They are copied when it has gone back to its savepoint.
        if self.links.iter().any(|(_, leased)| leased.link.connection.status() == TransactionStatus::Failed) {
            return Ok(());
        }
        let asked = self.links.nodes_where(|leased| {
            let connection = &leased.link.connection;
            leased.asks_settings && leased.begun && connection.is_drained() && is_open(connection.status())
        });
        let counts = self.whose_settings_count(&asked);
        for node in asked {
            let leased = self.links.link(node)?;
            leased.asks_settings = false;
            let Some(sql) = settings_sql(&leased.left).filter(|_| counts.contains(&node)) else { continue };
            leased.skip_preamble().await?;
            let answer = Answer::of(leased.link.connection.query_rows(&sql).await?);
            for (name, value) in answer.settings {
                self.set_on_others(node, &name, &value).await?;
            }
        }
        Ok(())
    }

    async fn set_on_others(&mut self, from: Slot, name: &str, value: &str) -> Result<()> {
        self.check_was_set(from, name, value).await?;
        check_constants(name, value)?;
        if name == STATEMENT_TIMEOUT && self.timeout_is_late {
            return Ok(());
        }
        self.settings_mut().heard_of(name);
        let command = set_command(name, value, true);
        let of_name = set_prefix(name);
        let made = self.block.iter().flat_map(|block| block.replay.iter().rev()).find_map(|step| match step {
            Replay::Set(known, _) if known.starts_with(&of_name) => Some(known),
            _ => None,
        });
        if made == Some(&command) || own_setting_name(name).is_some() {
            return Ok(());
        }
        let others: Vec<Slot> = self.links.begun().into_iter().filter(|node| *node != from).collect();
        self.links.broadcast(&others, &command).await?;
        if let Some(block) = &mut self.block {
            block.replay.push(Replay::set(command));
        }
        self.setting_was_left(name, value, true).await
    }

    /// The settings on the home node that the present statement may change; none if it changes none.
    pub(crate) async fn settings_before_filling(&mut self) -> Result<HashMap<String, String>> {
        self.settings_it_may_leave(self.home.into()).await
    }

    /// To be called when a materialized view is filled. PostgreSQL then takes back what its query has set, and lets it set no role.
    /// A transaction of our own that is over has the session's settings again; within the client's they would stay.
    ///
    /// # Errors
    /// 0A000 with what cannot be taken back.
    pub(crate) async fn forget_settings_of_filling(&mut self, before: &HashMap<String, String>) -> Result<()> {
        let is_own = self.block.as_ref().is_some_and(|block| block.is_own) && !self.scope().is_body;
        for slot in self.links.begun() {
            let after = self.settings_it_may_leave(slot).await?;
            let is_who = |name: &str| matches!(name, "role" | "session_authorization");
            let counts = |name: &String| is_who(name) || !is_own && self.leaves.settings.contains(name);
            // A setting that a backend has not heard of is an empty one in others.
            let had = |name: &String| before.get(name).map_or("", String::as_str);
            let mut changed = after.iter().filter(|(name, value)| had(name) != value.as_str() && counts(name));
            if let Some((name, _)) = changed.next() {
                return Err(PgError::unsupported(format!(
                    "setting \"{name}\" that a function changes while a materialized view over several datanodes is filled"
                ))
                .hint("Take the change out of the function, or give the function a SET clause."));
            }
            let leased = self.links.link(slot)?;
            leased.forgets_settings = is_own && !leased.left.is_nothing();
        }
        Ok(())
    }

    async fn settings_it_may_leave(&mut self, slot: Slot) -> Result<HashMap<String, String>> {
        let Some(sql) = settings_sql(&self.leaves) else { return Ok(HashMap::new()) };
        Ok(Answer::of(self.rows_on(slot, &sql).await?).settings.into_iter().collect())
    }

    /// Outside a block.
    async fn ask_outside_block(&mut self) -> Result<()> {
        let asked: Vec<Slot> = self.links.nodes_where(|leased| !leased.left.is_nothing());
        let counts = self.whose_settings_count(&asked);
        let mut result = Ok(());
        for node in asked {
            let asked_one = self.ask_one(node, counts.contains(&node)).await;
            if asked_one.is_err() {
                // Its state is not known: it ends here.
                self.links.close(node);
            }
            result = result.and(asked_one);
        }
        if result.is_ok() {
            // While the links are held.
            result = self.note_reported().await;
        }
        self.release();
        result
    }

    /// What sets something runs on the home node, if that has a part in the statement: the others have what was before.
    fn whose_settings_count(&self, asked: &[Slot]) -> Vec<Slot> {
        if asked.contains(&self.home.into()) { vec![self.home.into()] } else { asked.to_vec() }
    }

    async fn ask_one(&mut self, node: Slot, settings_count: bool) -> Result<()> {
        let leased = self.links.link(node)?;
        if !leased.link.connection.is_idle() {
            return Err(PgError::internal("a link that is to be asked what it holds is not idle"));
        }
        leased.asks_settings = false;
        let settings_count = !std::mem::take(&mut leased.forgets_settings) && settings_count;
        let left = std::mem::take(&mut leased.left);
        let asks = Leavings { at_home: false, ..left.clone() };
        if asks.is_nothing() {
            return Ok(());
        }
        let sql = settings_sql(&left).map_or(STATE.to_owned(), |settings| format!("{STATE} UNION ALL {settings}"));
        let answer = Answer::of(leased.link.connection.query_rows(&sql).await?);
        if answer.keeps_state {
            self.links.pin(node);
            self.names_changed();
        }
        if !answer.channels.is_empty() {
            self.links.link(node)?.link.connection.execute("UNLISTEN *").await?;
        }
        for channel in &answer.channels {
            self.listen(channel).await?;
        }
        for (name, value) in answer.settings {
            self.settings_mut().heard_of(&name);
            match settings_count {
                true => self.adopt(node, &name, &value).await?,
                // Whatever it has, it gets the session's before its next use.
                false => self.links.link(node)?.link.applied_settings = u64::MAX,
            }
        }
        Ok(())
    }

    /// A setting that is there in a backend is the session's.
    async fn adopt(&mut self, node: Slot, name: &str, value: &str) -> Result<()> {
        if name == STATEMENT_TIMEOUT && self.timeout_is_late {
            return Ok(());
        }
        if own_setting_name(name).is_some() {
            // The coordinator counts the time, not a node.
            self.links.link(node)?.link.applied_settings = u64::MAX;
            return Ok(());
        }
        check_constants(name, value)?;
        let is_start = match name {
            "role" => value == "none",
            "session_authorization" => self.links.is_login_name(node, value)?,
            _ => false,
        };
        let command = set_command(name, value, false);
        let known = self.settings().command(name);
        if known == Some(command.as_str()) || (known.is_none() && is_start) {
            return Ok(());
        }
        self.settings_mut().adopt(name, command);
        self.links.has_settings(node);
        self.setting_was_left(name, value, false).await
    }

    /// What the session must know of a setting beside its value.
    async fn setting_was_left(&mut self, name: &str, value: &str, local: bool) -> Result<()> {
        match name {
            "search_path" | "role" | "session_authorization" => self.search_path_changed(),
            STATEMENT_TIMEOUT => self.statement_timeout_is(value.to_owned(), local),
            "default_transaction_read_only" => self.note_default_read_only(),
            "default_transaction_isolation" if !local => self.default_isolation_may_have_changed(name).await?,
            _ => {}
        }
        Ok(())
    }
}

impl Answer {
    fn of(rows: Vec<Vec<Option<bytes::Bytes>>>) -> Self {
        let mut answer = Self::default();
        for row in rows {
            let mut values = row.into_iter().map(|value| value.map(|v| String::from_utf8_lossy(&v).into_owned()));
            let mut next = || values.next().flatten();
            match (next().as_deref(), next(), next()) {
                (Some("s"), ..) => answer.keeps_state = true,
                (Some("c"), Some(channel), _) => answer.channels.push(channel),
                (Some("v"), Some(name), Some(value)) => answer.settings.push((name, value)),
                // A setting that has never been set.
                _ => {}
            }
        }
        answer
    }
}

/// Names and values of the settings that may have been left. A name with a dot in it may be one that PostgreSQL does not list.
fn settings_sql(left: &Leavings) -> Option<String> {
    const LISTED: &str = "SELECT 'v', pg_catalog.lower(s.name), pg_catalog.current_setting(s.name) \
        FROM pg_catalog.pg_settings s WHERE s.source OPERATOR(pg_catalog.=) 'session' AND s.name OPERATOR(pg_catalog.!~) '^transaction_'";
    let mut names: Vec<&str> = left.settings.iter().map(String::as_str).collect();
    if left.any_setting {
        names.extend(["role", "session_authorization"]);
    }
    names.retain(|name| !name.starts_with("transaction_"));
    let is_unlisted = |name: &&str| name.contains('.') || matches!(*name, "role" | "session_authorization");
    let (unlisted, listed): (Vec<&str>, Vec<&str>) = names.into_iter().partition(is_unlisted);
    let list = |names: Vec<&str>| names.into_iter().map(quote_literal).collect::<Vec<_>>().join(", ");
    let mut parts = Vec::new();
    if !unlisted.is_empty() {
        let names = list(unlisted);
        parts.push(format!(
            "SELECT 'v', n, pg_catalog.current_setting(n, true) FROM pg_catalog.unnest(ARRAY[{names}]) n"
        ));
    }
    if left.any_setting {
        parts.push(LISTED.to_owned());
    } else if !listed.is_empty() {
        parts.push(format!(
            "{LISTED} AND pg_catalog.lower(s.name) OPERATOR(pg_catalog.=) ANY (ARRAY[{}])",
            list(listed)
        ));
    }
    (!parts.is_empty()).then(|| parts.join(" UNION ALL "))
}

fn check_constants(name: &str, value: &str) -> Result<()> {
    if name == CONFORMING_STRINGS && value != "on" { Err(other_constants()) } else { Ok(()) }
}

fn set_prefix(name: &str) -> String {
    format!("SELECT pg_catalog.set_config({}, ", quote_literal(name))
}

/// A session that has become another user may not set all that is set, and need not.
fn set_command(name: &str, value: &str, local: bool) -> String {
    let (prefix, name, value) = (set_prefix(name), quote_literal(name), quote_literal(value));
    format!(
        "{prefix}{value}, {local}) WHERE \
         (pg_catalog.current_setting({name}, true) OPERATOR(pg_catalog.=) {value}) IS NOT TRUE"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_have_been_set_is_asked_for() {
        let of = |names: &[&str], any_setting| {
            let settings = names.iter().map(|name| (*name).to_owned()).collect();
            settings_sql(&Leavings { settings, any_setting, ..Leavings::default() })
        };
        assert_eq!(of(&[], false), None);
        assert_eq!(of(&["transaction_isolation"], false), None);
        assert!(of(&["app.x"], false).is_some_and(|sql| !sql.contains("pg_settings") && sql.contains("'app.x'")));
        assert!(of(&["work_mem"], false).is_some_and(|sql| sql.contains("ANY (ARRAY['work_mem'])")));
        assert!(of(&["app.x"], true).is_some_and(|sql| sql.contains("'role'") && sql.contains("pg_settings")));
    }
}
