//! SET, RESET and what follows from them: all nodes of the block are told, and those that join later.

use std::collections::HashMap;

use pgerror::Result;

use crate::backend::isolation::Isolation;
use crate::backend::settings::Settings;
use crate::backend::slot::Slot;
use crate::block::{Mode, Replay};
use crate::session::Session;
use crate::session::own_settings::{self, STATEMENT_TIMEOUT};

impl Session {
    /// ParameterStatus values of the home node's backend, if one is held.
    pub fn home_parameters(&self) -> Option<HashMap<String, String>> {
        self.links.get(self.home).map(|leased| leased.link.connection.parameters().clone())
    }

    /// `SET name …`, checked by the home node.
    pub async fn set(&mut self, name: &str, sql: &str) -> Result<()> {
        self.change_settings(sql, |settings| settings.set(name, sql.to_owned())).await?;
        self.default_isolation_may_have_changed(name).await
    }

    /// `RESET name` or `SET name TO DEFAULT`; all of them for `None`.
    pub async fn reset(&mut self, name: Option<&str>, sql: &str) -> Result<()> {
        let sql = self.settings().reset_sql(name, sql);
        self.change_settings(&sql, |settings| match name {
            Some(name) => settings.reset(name),
            None => settings.reset_all(),
        })
        .await?;
        if name.is_none() {
            own_settings::NAMES.into_iter().for_each(|own| self.reset_own(own, true));
            self.note_own_setting(STATEMENT_TIMEOUT, None);
        }
        self.default_isolation_may_have_changed(name.unwrap_or("transaction_isolation")).await
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
        Ok(())
    }

    /// After a committed block: links carry the session's new settings already.
    pub(crate) fn settings_committed(&mut self) {
        self.links.begun().into_iter().for_each(|node| self.links.has_settings(node));
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

    async fn change_settings(&mut self, sql: &str, change: impl FnOnce(&mut Settings)) -> Result<()> {
        let mode = self.mode();
        self.command_in(self.home, mode, sql).await?;
        if mode == Mode::InBlock {
            self.set_everywhere(sql).await?;
        }
        change(self.settings_mut());
        self.note_default_read_only();
        if mode == Mode::Autocommit {
            self.links.has_settings(self.home);
        }
        Ok(())
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
    /// Of the home node.
    pub async fn discard_sequences(&mut self) -> Result<()> {
        let discarded = match self.links.drawn().are_there() || self.links.is_pinned(self.home) {
            true => self.command_on(self.home, "DISCARD SEQUENCES").await,
            false => Ok(()),
        };
        self.links.forget_drawn();
        discarded
    }
}
