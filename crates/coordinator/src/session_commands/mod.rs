//! Statements that are the session's own business.

pub(crate) mod copy;
pub(crate) mod cursors;
pub(crate) mod set_config;

use std::sync::Arc;

use bytes::Bytes;
use executor::{Call, Completion, End, Isolation, Parameters, STATEMENT_TIMEOUT, SnapshotMode, own_setting_name};
use pgerror::{PgError, Result, SqlState};
use pgproto::backend;
use planner::parse::{CopyEndpoint, Discard, SetStatement, Statement, StatementKind, Transaction, TransactionModes};

use crate::protocol::client::{Client, finished, keeps_columns, output, watched};
use crate::protocol::prepared::Prepared;

/// Settings of Postgres-XL that scripts set and that have nothing to decide here.
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
];

/// Our own setting.
pub(crate) const SNAPSHOT: &str = "loxo.snapshot";

impl Client {
    /// Runs the statement if it is one of the session's own; `None` if it has to be planned.
    pub(crate) async fn command(&mut self, statement: &Statement, call: &Call) -> Result<Option<Completion>> {
        if let Some(executed) = statement.executed()? {
            let (prepared, arguments) = self.arguments_of(&executed.name, &executed.arguments).await?;
            let Some(query) = &prepared.statement else { return Ok(None) };
            let constants = self.session.constants(&arguments, &prepared.description.parameters).await?;
            let statement = statement.with_executed(query, &constants)?;
            let done = Box::pin(self.execute_inner(&statement, call)).await?;
            // PostgreSQL counts the rows of an EXECUTE that gives none.
            let counts = matches!(&done, Completion::Tag(tag) if tag == "CREATE TABLE AS" && statement.skips_data());
            return Ok(Some(if counts { Completion::tag("SELECT 0") } else { done }));
        }
        Ok(Some(match &statement.kind {
            StatementKind::Transaction(transaction @ Transaction::Begin(_)) if statement.is_start_transaction() => {
                self.transaction(transaction).await?;
                Completion::tag("START TRANSACTION")
            }
            StatementKind::Transaction(transaction) => self.transaction(transaction).await?,
            StatementKind::Lock => {
                self.require_block("LOCK TABLE")?;
                return Ok(None);
            }
            StatementKind::Set(set) => self.set(set, statement).await?,
            StatementKind::Show { name } => self.show(name, statement, call).await?,
            StatementKind::Select | StatementKind::Insert | StatementKind::Update | StatementKind::Delete => {
                return self.set_config(statement, call).await;
            }
            StatementKind::Constraints => {
                self.session.set_constraints(&statement.sql).await?;
                Completion::tag("SET CONSTRAINTS")
            }
            StatementKind::Discard(what) => self.discard(*what).await?,
            StatementKind::Prepare { name, types, inner } => self.prepare_named(name, types, inner).await?,
            StatementKind::Execute { name, arguments } => self.execute_named(name, arguments, call).await?,
            StatementKind::Deallocate { name } => self.deallocate(name.as_deref())?,
            StatementKind::DeclareCursor(declare) => self.declare_cursor(declare, statement, call).await?,
            StatementKind::Fetch(fetch) => self.fetch(fetch, statement, call).await?,
            StatementKind::CloseCursor { name } => self.close_cursor(name.as_deref()).await?,
            StatementKind::Listen { channel } => {
                self.session.listen(channel).await?;
                Completion::tag("LISTEN")
            }
            StatementKind::Unlisten { channel } => {
                self.session.unlisten(channel.as_deref());
                Completion::tag("UNLISTEN")
            }
            StatementKind::Notify { .. } => {
                self.session.notify(&statement.sql).await?;
                Completion::tag("NOTIFY")
            }
            _ => return Ok(None),
        }))
    }

    pub(crate) async fn transaction(&mut self, transaction: &Transaction) -> Result<Completion> {
        match transaction {
            Transaction::Begin(modes) => {
                let is_open = self.session.in_block();
                if is_open && !std::mem::take(&mut self.implicit_block) {
                    self.warn(SqlState::ACTIVE_SQL_TRANSACTION, "there is already a transaction in progress");
                }
                match is_open {
                    true => self.set_modes(modes).await?,
                    false => self.begin(modes),
                }
                Ok(Completion::tag("BEGIN"))
            }
            Transaction::Commit { chain } => self.end_transaction(true, *chain).await,
            Transaction::Rollback { chain } => self.end_transaction(false, *chain).await,
            Transaction::Savepoint { name } => {
                self.require_block("SAVEPOINT")?;
                self.session.savepoint(name).await?;
                Ok(Completion::tag("SAVEPOINT"))
            }
            Transaction::Release { name } => {
                self.require_block("RELEASE SAVEPOINT")?;
                self.session.release_savepoint(name).await?;
                Ok(Completion::tag("RELEASE"))
            }
            Transaction::RollbackTo { name } => {
                self.require_block("ROLLBACK TO SAVEPOINT")?;
                self.session.rollback_to(name).await?;
                self.forget_lost_cursors().await?;
                self.report_settings();
                Ok(Completion::tag("ROLLBACK"))
            }
            Transaction::Prepare { gid } => self.prepare_transaction(gid).await,
            Transaction::CommitPrepared { gid } => self.finish_prepared(gid, End::Commit).await,
            Transaction::RollbackPrepared { gid } => self.finish_prepared(gid, End::Rollback).await,
        }
    }

    fn begin(&mut self, modes: &TransactionModes) {
        let isolation = modes.isolation.as_deref().map(Isolation::named);
        let mut sql = String::new();
        match modes.read_only {
            Some(true) => sql.push_str(" READ ONLY"),
            Some(false) => sql.push_str(" READ WRITE"),
            None => {}
        }
        if modes.deferrable == Some(true) {
            sql.push_str(" DEFERRABLE");
        }
        self.session.begin(isolation, &sql, modes.read_only);
    }

    /// The modes of a BEGIN inside a block are those of SET TRANSACTION.
    async fn set_modes(&mut self, modes: &TransactionModes) -> Result<()> {
        let mut words: Vec<String> = modes.isolation.iter().map(|level| format!("ISOLATION LEVEL {level}")).collect();
        words.extend(modes.read_only.map(|only| format!("READ {}", if only { "ONLY" } else { "WRITE" })));
        words.extend(modes.deferrable.map(|may| format!("{}DEFERRABLE", if may { "" } else { "NOT " })));
        match words.is_empty() {
            true => Ok(()),
            false => self.set_transaction(&format!("SET TRANSACTION {}", words.join(", ")), modes).await,
        }
    }

    async fn set_transaction(&mut self, sql: &str, modes: &TransactionModes) -> Result<()> {
        self.session.check_modes(modes.read_only, modes.isolation.as_deref(), modes.deferrable.is_some())?;
        self.session.set_in_block(sql).await?;
        self.session.isolation_may_have_changed().await?;
        if let Some(read_only) = modes.read_only {
            self.session.set_read_only(read_only);
        }
        Ok(())
    }

    async fn end_transaction(&mut self, commit: bool, chain: bool) -> Result<Completion> {
        let word = if commit { "COMMIT" } else { "ROLLBACK" };
        if chain && (!self.session.in_block() || self.implicit_block) {
            return Err(PgError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                format!("{word} AND CHAIN can only be used in transaction blocks"),
            ));
        }
        if !self.session.in_block() {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
            return Ok(Completion::tag(word));
        }
        if std::mem::take(&mut self.implicit_block) {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        let modes = self.session.modes();
        self.portals.clear();
        let ended = if commit {
            self.commit().await
        } else {
            self.session.rollback().await;
            Ok("ROLLBACK")
        };
        self.transaction_ended(matches!(ended, Ok("COMMIT")));
        let tag = ended?;
        self.report_settings();
        if let (true, Some((isolation, modes, read_only))) = (chain, modes) {
            self.session.begin(Some(isolation), &modes, Some(read_only));
        }
        Ok(Completion::tag(tag))
    }

    async fn prepare_transaction(&mut self, name: &str) -> Result<Completion> {
        if !self.session.in_block() {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
            return Ok(Completion::tag("ROLLBACK"));
        }
        if std::mem::take(&mut self.implicit_block) {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        }
        self.portals.clear();
        let cancel = self.session.cancel_set();
        let prepared = finished(&mut self.reader, &cancel, self.session.prepare_transaction(name)).await;
        self.transaction_ended(false);
        let tag = prepared?;
        self.report_settings();
        Ok(Completion::tag(tag))
    }

    async fn finish_prepared(&mut self, name: &str, end: End) -> Result<Completion> {
        let words = match end {
            End::Commit => "COMMIT PREPARED",
            End::Rollback => "ROLLBACK PREPARED",
        };
        if self.session.in_block() {
            return Err(PgError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{words} cannot run inside a transaction block"),
            ));
        }
        let cancel = self.session.cancel_set();
        finished(&mut self.reader, &cancel, self.session.finish_prepared(name, end)).await?;
        Ok(Completion::tag(words))
    }

    fn require_block(&self, what: &str) -> Result<()> {
        if self.session.in_block() && !self.implicit_block {
            return Ok(());
        }
        Err(PgError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, format!("{what} can only be used in transaction blocks")))
    }

    fn warn(&mut self, code: SqlState, message: &str) {
        self.session.notice(&PgError::with_severity("WARNING", code, message));
    }

    async fn set(&mut self, set: &SetStatement, statement: &Statement) -> Result<Completion> {
        let tag = match set {
            SetStatement::Reset { .. } | SetStatement::ResetAll => "RESET",
            _ => "SET",
        };
        match set {
            SetStatement::Value { name, .. } | SetStatement::Default { name, .. } | SetStatement::Reset { name }
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
            SetStatement::Reset { name } if name == SNAPSHOT => {
                let mode = self.session.settings_mut().snapshot_at_start();
                self.set_snapshot(mode, false);
                return Ok(Completion::tag(tag));
            }
            SetStatement::Value { name, values, .. }
                if name == "standard_conforming_strings"
                    && values.first().is_none_or(|value| {
                        !matches!(value.to_ascii_lowercase().as_str(), "on" | "true" | "yes" | "1")
                    }) =>
            {
                return Err(PgError::unsupported("standard_conforming_strings = off")
                    .hint("Write strings with backslash escapes as E'…'."));
            }
            SetStatement::Value { name, local, .. } if let Some(own) = own_setting_name(name) => {
                self.session.set_own(own, &statement.sql, *local).await?;
            }
            SetStatement::Default { name, local } if let Some(own) = own_setting_name(name) => {
                self.session.reset_own(own, *local);
            }
            SetStatement::Reset { name } if let Some(own) = own_setting_name(name) => {
                self.session.reset_own(own, false);
            }
            SetStatement::Snapshot { .. } => {
                return Err(PgError::unsupported("SET TRANSACTION SNAPSHOT")
                    .hint("A snapshot is exported by one datanode and means nothing on another."));
            }
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
            SetStatement::Value { local: true, .. } => self.session.set_in_block(&statement.sql).await?,
            SetStatement::Default { name, local: true } => {
                self.session.reset_in_block(name, &statement.sql).await?;
            }
            SetStatement::Value { name, .. } => self.session.set(name, &statement.sql).await?,
            SetStatement::SessionCharacteristics(_) => {
                self.session.set(&format!("session characteristics {}", statement.sql), &statement.sql).await?;
            }
            SetStatement::Default { name, .. } | SetStatement::Reset { name } => {
                self.session.reset(Some(name), &statement.sql).await?;
            }
            SetStatement::ResetAll => self.session.reset(None, &statement.sql).await?,
        }
        if let SetStatement::Value { name, .. } | SetStatement::Default { name, .. } | SetStatement::Reset { name } =
            set
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
            SetStatement::Reset { name } if name == STATEMENT_TIMEOUT => {
                self.session.statement_timeout_changed(false).await?;
            }
            SetStatement::ResetAll => self.session.search_path_changed(),
            _ => {}
        }
        self.report_settings();
        self.session.release();
        Ok(Completion::tag(tag))
    }

    fn set_snapshot(&mut self, mode: SnapshotMode, local: bool) {
        if local && !self.session.in_block() {
            self.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "SET LOCAL can only be used in transaction blocks");
            return;
        }
        self.session.settings_mut().set_snapshot(mode, local);
    }

    async fn show(&mut self, name: &str, statement: &Statement, call: &Call) -> Result<Completion> {
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
        let mut output = output(&mut self.capture, &mut self.writer);
        self.session.show(&statement.sql, call, &mut output).await
    }

    /// What answers SHOW of a setting that no datanode knows the value of.
    pub(crate) fn show_own(&mut self, name: &str) -> Option<String> {
        let value = match name == SNAPSHOT {
            true => self.session.settings_mut().snapshot().name().to_owned(),
            false => self.session.own_setting(name)?.to_owned(),
        };
        Some(format!(
            "SELECT {}::pg_catalog.text AS {}",
            catalog::quote_literal(&value),
            catalog::quote_identifier(name)
        ))
    }

    /// Tells the client which of its reported settings have another value now.
    pub(crate) fn report_settings(&mut self) {
        let Some(current) = self.session.home_parameters() else { return };
        for (name, value) in current {
            if self.reported.get(&name) != Some(&value) {
                backend::parameter_status(self.writer.buffer(), &name, &value);
                self.reported.insert(name, value);
            }
        }
    }

    /// Runs a statement as it is on the home node and passes its rows on.
    pub(crate) async fn forward_home(&mut self, sql: &str, call: &Call) -> Result<Completion> {
        let cancel = self.session.cancel_set();
        let mut output = output(&mut self.capture, &mut self.writer);
        watched(&mut self.reader, &cancel, self.session.forward_home(sql, call, &mut output)).await
    }

    async fn discard(&mut self, what: Discard) -> Result<Completion> {
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
                self.report_settings();
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

    async fn prepare_named(&mut self, name: &str, types: &[String], inner: &Statement) -> Result<Completion> {
        let mut oids = self.session.type_oids(types).await?;
        // PostgreSQL takes such a parameter for one without a type; as a column of a SELECT it would be text.
        let names = oids.iter_mut().zip(types);
        names.filter(|(_, name)| name.trim_start_matches("pg_catalog.") == "unknown").for_each(|(oid, _)| *oid = 0);
        let prepared = self.prepare(Some(inner.clone()), oids).await?;
        self.keep_prepared(Bytes::from(name.to_owned()), prepared)?;
        Ok(Completion::tag("PREPARE"))
    }

    pub(crate) fn named_statement(&self, name: &str) -> Result<Arc<Prepared>> {
        self.prepared_statement(&Bytes::from(name.to_owned()))
    }

    async fn execute_named(&mut self, name: &str, arguments: &[String], call: &Call) -> Result<Completion> {
        let (prepared, values) = self.arguments_of(name, arguments).await?;
        let Some(statement) = prepared.statement.clone() else { return Ok(Completion::Empty) };
        self.refuse_changed_result(&prepared).await?;
        let types = prepared.description.parameters.clone();
        let parameters = Parameters { types, formats: Vec::new(), values };
        let call = Call { parameters: Some(Arc::new(parameters)), ..call.clone() };
        Box::pin(self.execute_inner(&statement, &call)).await
    }

    /// A prepared statement with the values of its arguments.
    async fn arguments_of(&mut self, name: &str, arguments: &[String]) -> Result<(Arc<Prepared>, Vec<Option<Bytes>>)> {
        let prepared = self.named_statement(name)?;
        let types = &prepared.description.parameters;
        // PostgreSQL looks at arguments only if there are parameters.
        let arguments = if types.is_empty() { &[] } else { arguments };
        if arguments.len() != types.len() {
            return Err(PgError::new(
                SqlState::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .detail(format!("Expected {} parameters but got {}.", types.len(), arguments.len())));
        }
        let arguments = self.for_home(arguments).await?;
        let values = self.session.evaluate(&arguments, types).await?;
        Ok((prepared, values))
    }

    /// Arguments that the home node can work out: what it cannot is run as a statement, and becomes constants.
    async fn for_home(&mut self, arguments: &[String]) -> Result<Vec<String>> {
        let sql = format!("SELECT {}", arguments.join(", "));
        let is_for_home = match planner::parse(&sql)?.as_slice() {
            [statement] => self.session.is_for_home(statement).await?,
            _ => true,
        };
        if is_for_home {
            return Ok(arguments.to_vec());
        }
        let (_, (fields, rows)) = self.captured(&sql, &Call::simple()).await?;
        let types: Vec<u32> = fields.iter().flatten().map(|field| field.type_oid).collect();
        self.session.constants(&rows.into_iter().next().unwrap_or_default(), &types).await
    }

    async fn execute_inner(&mut self, statement: &Statement, call: &Call) -> Result<Completion> {
        if let StatementKind::Copy(copy) = &statement.kind
            && copy.source == CopyEndpoint::Client
        {
            return Err(PgError::unsupported("COPY inside EXECUTE").hint("Send the COPY itself."));
        }
        let plan = self.session.plan(statement, call, None).await?;
        match self.run_plan(&plan, statement, call, None).await {
            Err(_) if self.session.gathers() => self.run_anew(statement, call, None).await,
            Err(_) if !self.session.in_block() && self.session.must_replan() && keeps_columns(statement, call) => {
                self.run_anew(statement, call, None).await
            }
            result => result,
        }
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<Completion> {
        match name {
            None => {
                self.prepared.clear();
                Ok(Completion::tag("DEALLOCATE ALL"))
            }
            Some(name) => {
                self.named_statement(name)?;
                self.prepared.remove(&Bytes::from(name.to_owned()));
                Ok(Completion::tag("DEALLOCATE"))
            }
        }
    }
}
