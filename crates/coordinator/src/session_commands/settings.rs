//! SET, RESET, SHOW and DISCARD.

use std::pin::pin;

use executor::{Call, Completion, SNAPSHOT, STATEMENT_TIMEOUT, SnapshotMode, own_setting_name};
use pgerror::{PgError, Result, SqlState};
use planner::parse::{Discard, SetStatement, Statement};

use super::client_session::ClientSession;

/// Settings of Postgres-XL and Postgres-XC that scripts set and that have nothing to decide here.
const POSTGRES_XL_SETTINGS: &[&str] = &[
    "enable_fast_query_shipping",
    "network_byte_cost",
    "remote_query_cost",
    "pgxl_remote_fetch_size",
    "sequence_range",
    "loose_constraints",
    "max_datanodes",
    "max_coordinators",
    "max_pool_size",
    "pooler_port",
    "pool_conn_keepalive",
    "pool_maintenance_timeout",
    "persistent_datanode_connections",
    "shared_queues",
    "shared_queue_size",
    "gtm_host",
    "gtm_port",
    "pgxc_node_name",
    "gtm_backup_barrier",
    "xc_maintenance_mode",
    "global_snapshot_source",
    "log_gtm_stats",
    "log_remotesubplan_stats",
    "enable_datanode_row_triggers",
    "enable_remotelimit",
    "enable_remotejoin",
    "enable_remotegroup",
    "enable_remotesort",
    "enforce_two_phase_commit",
    "strict_statement_checking",
    "strict_select_checking",
    "require_replicated_table_pkey",
];

/// What the coordinator tells of itself; nobody sets it.
const VERSION: &str = "loxo.version";
const UPTIME: &str = "loxo.uptime";

impl ClientSession {
    pub(super) async fn set(&mut self, set: &SetStatement, statement: &Statement) -> Result<Completion> {
        let tag = match set {
            SetStatement::Reset(_) | SetStatement::ResetAll => "RESET",
            _ => "SET",
        };
        if let SetStatement::Value { name, .. } | SetStatement::Default { name, .. } | SetStatement::Reset(name) = set {
            self.session.check_may_set(name)?;
            if [VERSION, UPTIME].contains(&name.as_str()) {
                let message = format!("parameter \"{name}\" cannot be changed");
                return Err(PgError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
            }
        }
        if self.session.scope().is_body && self.set_timeout_in_body(set).await? {
            return Ok(Completion::tag(tag));
        }
        match set {
            SetStatement::Value { name, .. } | SetStatement::Default { name, .. } | SetStatement::Reset(name)
                if POSTGRES_XL_SETTINGS.contains(&name.as_str()) =>
            {
                return Ok(Completion::tag(tag));
            }
            SetStatement::Value { name, values, local } if name == SNAPSHOT => {
                self.set_snapshot(SnapshotMode::named(values.first().map_or("", String::as_str))?, *local);
                return Ok(Completion::tag(tag));
            }
            SetStatement::Default { name, local } if name == SNAPSHOT => {
                let mode = self.session.settings_mut().snapshot_at_start();
                self.set_snapshot(mode, *local);
                return Ok(Completion::tag(tag));
            }
            SetStatement::Reset(name) if name == SNAPSHOT => {
                let mode = self.session.settings_mut().snapshot_at_start();
                self.set_snapshot(mode, false);
                return Ok(Completion::tag(tag));
            }
            SetStatement::Value { name, values, .. }
                if executor::reads_constants_otherwise(name, values.first().map(String::as_str)) =>
            {
                return Err(executor::other_constants());
            }
            SetStatement::Value { name, local, .. } if let Some(own) = own_setting_name(name) => {
                self.session.set_own(own, &statement.sql, *local).await?;
            }
            SetStatement::Default { name, local } if let Some(own) = own_setting_name(name) => {
                self.session.reset_own(own, *local);
            }
            SetStatement::Reset(name) if let Some(own) = own_setting_name(name) => {
                self.session.reset_own(own, false);
            }
            SetStatement::Snapshot(id) => self.import_snapshot(id).await?,
            SetStatement::Transaction(modes) => self.set_transaction(&statement.sql, modes).await?,
            SetStatement::Value { name, .. } | SetStatement::Default { name, .. }
                if name == "transaction_isolation" =>
            {
                self.session.set_in_block(&statement.sql).await?;
                self.session.isolation_may_have_changed().await?;
            }
            SetStatement::Value { name, .. } | SetStatement::Default { name, .. }
                if name == "transaction_read_only" =>
            {
                self.session.set_in_block(&statement.sql).await?;
                self.session.read_only_may_have_changed().await?;
            }
            SetStatement::Value { name, local: true, .. } => self.session.set_local(name, &statement.sql).await?,
            SetStatement::Default { name, local: true } => {
                self.session.reset_in_block(name, &statement.sql).await?;
            }
            SetStatement::Value { name, .. } => self.session.set(name, &statement.sql).await?,
            SetStatement::SessionCharacteristics(_) => {
                self.session.set(&format!("session characteristics {}", statement.sql), &statement.sql).await?;
            }
            SetStatement::Default { name, .. } | SetStatement::Reset(name) => {
                self.session.reset(Some(name), &statement.sql).await?;
            }
            SetStatement::ResetAll => self.session.reset(None, &statement.sql).await?,
        }
        if let SetStatement::Value { name, .. } | SetStatement::Default { name, .. } | SetStatement::Reset(name) = set
            && matches!(name.as_str(), "search_path" | "role" | "session_authorization")
        {
            self.session.search_path_changed();
        }
        match set {
            SetStatement::Value { name, local, .. } | SetStatement::Default { name, local }
                if name == STATEMENT_TIMEOUT =>
            {
                self.session.statement_timeout_changed(*local).await?;
            }
            SetStatement::Reset(name) if name == STATEMENT_TIMEOUT => {
                self.session.statement_timeout_changed(false).await?;
            }
            SetStatement::ResetAll => self.session.search_path_changed(),
            _ => {}
        }
        self.session.note_reported().await?;
        self.session.release();
        Ok(Completion::tag(tag))
    }

    /// `statement_timeout` counts from the client's next statement on; `false` if it is another setting.
    async fn set_timeout_in_body(&mut self, set: &SetStatement) -> Result<bool> {
        match set {
            SetStatement::Value { name, values, local } if name == STATEMENT_TIMEOUT => {
                let [value] = values.as_slice() else {
                    let message = format!("SET {STATEMENT_TIMEOUT} takes only one argument");
                    return Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                };
                self.session.set_timeout_later(value, *local).await?;
            }
            SetStatement::Default { name, local } if name == STATEMENT_TIMEOUT => {
                self.session.reset_timeout_later(*local);
            }
            SetStatement::Reset(name) if name == STATEMENT_TIMEOUT => self.session.reset_timeout_later(false),
            _ => return Ok(false),
        }
        self.session.release();
        Ok(true)
    }

    async fn import_snapshot(&mut self, id: &str) -> Result<()> {
        if !self.session.in_block() {
            let message = "SET TRANSACTION can only be used in transaction blocks";
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
        }
        let cancel = self.session.cancel_set();
        self.socket.watch().during(&cancel, pin!(self.session.import_snapshot(id))).await
    }

    fn set_snapshot(&mut self, mode: SnapshotMode, local: bool) {
        if local && !self.session.in_block() {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "SET LOCAL can only be used in transaction blocks");
            return;
        }
        self.session.settings_mut().set_snapshot(mode, local);
    }

    pub(super) async fn show(&mut self, name: &str, statement: &Statement, call: &Call) -> Result<Completion> {
        if let Some(sql) = self.show_own(name) {
            self.forward_home(&sql, call).await?;
            return Ok(Completion::tag("SHOW"));
        }
        if POSTGRES_XL_SETTINGS.contains(&name) {
            return Err(PgError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("\"{name}\" is a setting of Postgres-XL that is accepted and ignored"),
            ));
        }
        let (_, mut output) = self.socket.split(None);
        self.session.show(&statement.sql, call, &mut output).await
    }

    /// What answers SHOW of a setting that no datanode knows the value of.
    pub(super) fn show_own(&mut self, name: &str) -> Option<String> {
        let value = match name {
            SNAPSHOT => self.session.settings_mut().snapshot().name().to_owned(),
            VERSION => env!("CARGO_PKG_VERSION").to_owned(),
            UPTIME => format!("{}s", self.shared.uptime().as_secs()),
            _ => self.session.own_setting(name)?.to_owned(),
        };
        Some(format!(
            "SELECT {}::pg_catalog.text AS {}",
            catalog::quote_literal(&value),
            catalog::quote_identifier(name)
        ))
    }

    pub(super) async fn discard(&mut self, what: Discard) -> Result<Completion> {
        if what == Discard::All && self.session.in_block() {
            return Err(PgError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "DISCARD ALL cannot run inside a transaction block",
            ));
        }
        let word = match what {
            Discard::All => {
                self.prepared.clear();
                self.portals.clear();
                self.cursors.clear();
                self.session.discard_all().await?;
                "DISCARD ALL"
            }
            Discard::Plans => "DISCARD PLANS",
            Discard::Sequences => {
                self.session.discard_sequences().await?;
                "DISCARD SEQUENCES"
            }
            Discard::Temp => {
                self.session.discard_temp().await?;
                "DISCARD TEMP"
            }
        };
        Ok(Completion::tag(word))
    }
}
