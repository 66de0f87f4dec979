//! SET, RESET and what follows from them: all nodes of the block are told, and those that join later, and so is the client.
//!
//! What a backend says by ParameterStatus is kept by the [state](crate::backend::settings::Settings::state) of the settings under which
//! it said so. COMMIT, ROLLBACK and RESET lead back to such a state, so no node is asked what they have changed.

use std::collections::HashMap;

use catalog::quote_literal;
use pgerror::{PgError, Result};
use pgproto::TransactionStatus;

use crate::backend::isolation::Isolation;
use crate::backend::settings::{CONFORMING_STRINGS, Parameters};
use crate::backend::slot::Slot;
use crate::block::{Block, Mode, Replay};
use crate::session::Session;
use crate::session::own_settings::{self, STATEMENT_TIMEOUT};

const DATE_STYLE: &str = "DateStyle";

/// The refusal of any other reading of constants.
pub fn other_constants() -> PgError {
    PgError::unsupported(format!("{CONFORMING_STRINGS} = off")).hint("Write strings with backslash escapes as E'…'.")
}

/// Would this value of the setting, if it is any that is known, be such a reading?
pub fn reads_constants_otherwise(name: &str, value: Option<&str>) -> bool {
    let begins = |word: &str, value: &str| !value.is_empty() && word.starts_with(value);
    let is_on = |value: &str| {
        let value = value.to_ascii_lowercase();
        ["on", "1"].contains(&value.as_str()) || begins("true", &value) || begins("yes", &value)
    };
    name == CONFORMING_STRINGS && !value.is_some_and(is_on)
}

/// Does the backend read them so that reports this?
pub(crate) fn reads_constants_as_we_do(reported: &HashMap<String, String>) -> bool {
    reported.get(CONFORMING_STRINGS).is_none_or(|value| value == "on")
}

impl Session {
    /// What a client of the session is to be told of its settings; `None` if that could not be found out.
    pub fn reported(&self) -> Option<&Parameters> {
        self.reported.now.1.as_ref()
    }

    /// [`Self::reported`], unless something has been set that was not looked at yet.
    pub(crate) fn reported_now(&self) -> Option<&HashMap<String, String>> {
        let values = self.reported()?;
        (self.reported.now.0 == self.settings_state()).then_some(&**values)
    }

    /// Finds out what has become of the reported settings. To be called after each statement and each block; a node is asked only after
    /// a function has set something on another one.
    ///
    /// # Errors
    /// Those of the home node.
    pub async fn note_reported(&mut self) -> Result<()> {
        let state = self.settings_state();
        if self.reported.is_at(state) || self.reported.goes_to(state) || self.status() == b'E' {
            return Ok(());
        }
        if !self.home_reports() {
            Box::pin(self.show_on_home("client_encoding")).await?;
        }
        self.keep_reported(state);
        self.reported.goes_to(state);
        self.release();
        Ok(())
    }

    fn settings_state(&self) -> u64 {
        match &self.block {
            Some(block) => block.settings_state(self.settings()),
            None => self.settings().state(std::iter::empty()),
        }
    }

    /// Has the home node's backend been told of all settings, and answered?
    fn home_reports(&self) -> bool {
        let Some(leased) = self.links.get(self.home) else { return false };
        let is_set = match self.block {
            Some(_) => leased.begun && leased.link.connection.status() == TransactionStatus::InTransaction,
            None => self.links.is_set(self.home),
        };
        is_set && leased.link.connection.is_drained() && !leased.has_preamble()
    }

    fn keep_reported(&mut self, state: u64) {
        if let Some(leased) = self.links.get(self.home) {
            self.reported.keep(state, leased.link.connection.parameters());
        }
    }

    /// After the start, when the home node's backend has the connection's first settings.
    pub(crate) fn reported_at_start(&mut self) {
        let state = self.settings_state();
        self.keep_reported(state);
        self.reported.goes_to(state);
    }

    /// ParameterStatus values of the home node's backend, if one is held.
    pub fn home_parameters(&self) -> Option<HashMap<String, String>> {
        self.links.get(self.home).map(|leased| leased.link.connection.parameters().clone())
    }

    /// `SET name …`, checked by the home node.
    pub async fn set(&mut self, name: &str, sql: &str) -> Result<()> {
        self.set_on_nodes_of_block(sql).await?;
        let command = self.command_as_reported(name).unwrap_or_else(|| sql.to_owned());
        self.settings_mut().set(name, command);
        self.settings_were_made();
        self.default_isolation_may_have_changed(name).await
    }

    /// `SET DateStyle` with the value that came of it: its words may change a part of what was set before, so that by themselves they
    /// lead elsewhere.
    fn command_as_reported(&self, name: &str) -> Option<String> {
        let reported = self.links.get(self.home)?.link.connection.parameters();
        let value = reported.get(DATE_STYLE).filter(|_| name.eq_ignore_ascii_case(DATE_STYLE))?;
        Some(format!("SET {DATE_STYLE} = {}", quote_literal(value)))
    }

    /// `RESET name` or `SET name TO DEFAULT`; all of them for `None`.
    pub async fn reset(&mut self, name: Option<&str>, sql: &str) -> Result<()> {
        let sql = self.settings().reset_sql(name, sql);
        self.set_on_nodes_of_block(&sql).await?;
        match name {
            Some(name) => self.settings_mut().reset(name),
            None => self.settings_mut().reset_all(),
        }
        self.settings_were_made();
        if name.is_none() {
            own_settings::NAMES.into_iter().for_each(|own| self.reset_own(own, true));
            self.note_own_setting(STATEMENT_TIMEOUT, None);
        }
        self.default_isolation_may_have_changed(name.unwrap_or("transaction_isolation")).await
    }

    /// The home node has all that the session remembers.
    fn settings_were_made(&mut self) {
        self.note_default_read_only();
        if self.mode() == Mode::Autocommit {
            self.links.has_settings(self.home);
        }
    }

    /// Sends a `SET` that was accepted by the home node to the other links of the block and remembers it for those
    /// that join. Outside a block nothing is to be done: the settings are replayed at the next use of each link.
    pub(crate) async fn set_everywhere(&mut self, sql: &str) -> Result<()> {
        let home = self.home;
        let others: Vec<Slot> = self.links.begun().into_iter().filter(|slot| *slot != home).collect();
        self.links.broadcast(&others, sql).await?;
        if let Some(block) = &mut self.block {
            block.replay.push(Replay::set(sql.to_owned()));
        }
        self.discard_others_plans().await
    }

    /// What others had planned on the links of the block, if it reads constants otherwise now; links that join may have the like.
    async fn discard_others_plans(&mut self) -> Result<()> {
        const DISCARD: &str = "DISCARD PLANS";
        let reads_otherwise = |slot: &Slot| self.links.get(*slot).is_some_and(|leased| leased.link.reads_otherwise());
        let slots: Vec<Slot> = self.links.begun().into_iter().filter(reads_otherwise).collect();
        let home = self.links.get(self.home).map(|leased| &leased.link);
        let is_home_changed = home.is_some_and(|link| link.connection.readings() != link.planned_at);
        self.links.broadcast(&slots, DISCARD).await?;
        for slot in slots {
            let link = &mut self.links.link(slot)?.link;
            (link.planned_at, link.has_others_plans) = (link.connection.readings(), false);
        }
        if let Some(block) = self.block.as_mut().filter(|_| is_home_changed) {
            block.replay.push(Replay::set(DISCARD.to_owned()));
        }
        Ok(())
    }

    /// After a committed block: links carry the session's new settings already.
    pub(crate) fn settings_committed(&mut self) {
        // Beside the block none was sent them.
        let main: Vec<Slot> = self.links.begun().into_iter().filter(|slot| slot.is_main()).collect();
        main.into_iter().for_each(|slot| self.links.has_settings(slot));
        let has_set = self.block.as_ref().is_some_and(Block::has_settings_of_session);
        if has_set && self.links.get(self.home).is_some_and(|leased| leased.begun && leased.link.connection.is_idle()) {
            self.keep_reported(self.settings().state(std::iter::empty()));
        }
    }

    /// After a rolled back block: settings go back to where they were.
    pub(crate) fn settings_rolled_back(&mut self) {
        if let Some(block) = &self.block {
            let before = block.settings_at_begin.clone();
            self.links.settings_mut().become_again(before);
        }
    }

    /// SHOW takes no snapshot.
    pub(crate) async fn default_isolation_may_have_changed(&mut self, setting: &str) -> Result<()> {
        if setting.contains("transaction_isolation") || setting.starts_with("session characteristics") {
            let level = self.show_isolation("default_transaction_isolation").await?;
            self.settings_mut().set_default_isolation(level);
        }
        Ok(())
    }

    async fn show_isolation(&mut self, setting: &str) -> Result<Isolation> {
        Ok(Isolation::named(&self.show_on_home(setting).await?))
    }

    pub(crate) async fn show_on_home(&mut self, setting: &str) -> Result<String> {
        self.acquire_as_is(self.home, self.mode()).await?;
        let leased = self.links.link(self.home)?;
        leased.link.connection.query(format!("SHOW {setting}").as_bytes());
        leased.flush().await?;
        leased.skip_preamble().await?;
        let (rows, _) = leased.link.connection.read_rows().await?;
        let value = rows.into_iter().flatten().next().flatten().unwrap_or_default();
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    /// To be called after `SET TRANSACTION` and the like inside a block.
    pub async fn isolation_may_have_changed(&mut self) -> Result<()> {
        if self.in_block() {
            let level = self.show_isolation("transaction_isolation").await?;
            self.isolation_is(level).await?;
        }
        Ok(())
    }

    /// To be called after `SET transaction_read_only` inside a block.
    pub async fn read_only_may_have_changed(&mut self) -> Result<()> {
        if self.in_block() {
            let read_only = self.show_on_home("transaction_read_only").await? == "on";
            self.set_read_only(read_only);
        }
        Ok(())
    }

    /// What the home node's backend reports.
    pub(crate) fn note_default_read_only(&mut self) {
        let home = self.links.get(self.home).map(|leased| leased.link.connection.parameters());
        let value = home.and_then(|parameters| parameters.get("default_transaction_read_only"));
        if let Some(read_only) = value.map(|value| value == "on") {
            self.settings_mut().set_default_read_only(read_only);
        }
    }

    /// A SET that lasts for the block only (`SET TRANSACTION`, `SET CONSTRAINTS`). Outside a block PostgreSQL warns and nothing
    /// stays.
    pub async fn set_in_block(&mut self, sql: &str) -> Result<()> {
        self.set_on_nodes_of_block(sql).await?;
        self.release();
        Ok(())
    }

    /// `SET LOCAL name …`.
    pub async fn set_local(&mut self, name: &str, sql: &str) -> Result<()> {
        self.set_on_nodes_of_block(sql).await?;
        self.settings_mut().heard_of(name);
        self.release();
        Ok(())
    }

    async fn set_on_nodes_of_block(&mut self, sql: &str) -> Result<()> {
        let mode = self.mode();
        self.command_in(self.home, mode, sql).await?;
        if let Some(leased) = self.links.get_mut(self.home)
            && !reads_constants_as_we_do(leased.link.connection.parameters())
        {
            leased.link.applied_settings = u64::MAX;
            return Err(other_constants());
        }
        match mode {
            Mode::InBlock => self.set_everywhere(sql).await,
            _ => Ok(()),
        }
    }

    /// `SET LOCAL name TO DEFAULT`.
    pub async fn reset_in_block(&mut self, name: &str, sql: &str) -> Result<()> {
        let started = self.settings().reset_sql(Some(name), sql);
        match started.strip_prefix("SET ").filter(|_| started != sql) {
            Some(assignment) => self.set_local(name, &format!("SET LOCAL {assignment}")).await,
            None => self.set_local(name, sql).await,
        }
    }

    /// SET CONSTRAINTS.
    pub async fn set_constraints(&mut self, sql: &str) -> Result<()> {
        self.set_in_block(sql).await?;
        if let Some(block) = &mut self.block {
            block.constraints_set = true;
        }
        Ok(())
    }

    /// DISCARD SEQUENCES.
    ///
    /// # Errors
    /// Those of the home node.
    pub async fn discard_sequences(&mut self) -> Result<()> {
        let discarded = match self.links.drawn().are_there() || self.links.is_pinned(self.home) {
            true => self.command_on(self.home, "DISCARD SEQUENCES").await,
            false => Ok(()),
        };
        self.links.forget_drawn();
        discarded
    }
}
