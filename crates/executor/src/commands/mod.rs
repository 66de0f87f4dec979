//! Commands of the session, and planning: what needs all the folders below.
//!
//! * [`plan`]: planning with the session's catalog.
//! * [`given_moments`]: parameters like `now`.
//! * [`cursors`]: DECLARE and what it keeps; [`cluster_command`]: EXECUTE DIRECT, [`node_groups`].
//! * [`databases`]: CREATE and DROP DATABASE; [`rename_database`]: another name.
//! * [`code_behind`]: code of users that views lead to.
//! * [`connection_limits`]: CONNECTION LIMIT of roles and databases.
//! * [`all_sessions`]: statements that ask for sessions, sizes and statistics of the whole cluster.
//! * [`statement_costs`]: what a statement has cost.
//! * Here: the start and the end of a session, SHOW, DISCARD, evaluation of arguments.

pub(crate) mod all_sessions;
pub(crate) mod cluster_command;
mod code_behind;
mod connection_limits;
pub(crate) mod cursors;
mod databases;
mod given_moments;
mod node_groups;
pub(crate) mod plan;
mod rename_database;
mod statement_costs;
mod statistics;

use std::collections::HashMap;

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState, field};
use pgproto::frontend::{self, Target};
use planner::{Plan, Statement};

use crate::backend::call::Call;
use crate::backend::slot::Slot;
use crate::block::Mode;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;
use crate::session::own_settings::STATEMENT_TIMEOUT;
use crate::shared::catalog_load::number;

/// No client may come in.
pub fn closed_to_clients(database: &str) -> PgError {
    let text = format!("database \"{database}\" is not currently accepting connections");
    PgError::fatal(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
}

impl Session {
    /// [`Session::start`] for a client that comes, unless the database is closed to clients.
    ///
    /// # Errors
    /// 55000 if it is; those of the start.
    pub async fn come_in(&mut self, is_own: bool) -> Result<HashMap<String, String>> {
        if !is_own && self.links.login().await?.limits.is_closed {
            return Err(closed_to_clients(&self.links.identity().database));
        }
        self.start().await
    }

    /// Connects to the home node, which checks user and settings; gives the parameters a client is told at its start.
    pub async fn start(&mut self) -> Result<HashMap<String, String>> {
        self.acquire(self.home, Mode::Autocommit).await?;
        let parameters = self.home_parameters().unwrap_or_default();
        self.reported_at_start();
        let link = &self.links.link(self.home)?.link;
        (self.server_isolation, self.server_timeout) = (link.isolation, link.statement_timeout);
        self.note_default_read_only();
        self.note_defaults().await?;
        if let Some(loaded) = self.context.current_catalog() {
            self.search_path(&loaded.catalog).await?;
        }
        if self.settings().has(STATEMENT_TIMEOUT) {
            self.statement_timeout_changed(false).await?;
        }
        if self.settings().has("default_transaction_isolation") {
            self.default_isolation_may_have_changed("default_transaction_isolation").await?;
        }
        self.release();
        Ok(parameters)
    }

    /// Ends the session: what is open is rolled back, pinned links are closed.
    pub async fn end(&mut self) {
        if self.links.iter().any(|(_, leased)| !leased.link.connection.is_drained() && !leased.has_preamble()) {
            self.cancel_set().cancel().await;
            self.block = None;
        }
        if self.in_block() {
            self.rollback().await;
        }
        self.unpin_all();
    }

    /// SHOW.
    pub async fn show(&mut self, sql: &str, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        self.set_snapshotless(true);
        let result = self.forward_home(sql, call, output).await;
        self.set_snapshotless(false);
        result
    }

    /// Runs a text as it is on the home node and passes its rows on.
    pub async fn forward_home(&mut self, sql: &str, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        self.forward_to(self.home, sql, call, output).await
    }

    /// Runs a text as it is on a node and passes its rows on.
    pub async fn forward_to(
        &mut self,
        slot: impl Into<Slot>,
        sql: &str,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        self.note_leavings_of(sql);
        let result = self.scatter(self.mode(), vec![(slot, sql.to_owned())], call, output).await;
        self.release();
        result
    }

    /// Object ids of type names as written after PREPARE.
    pub async fn type_oids(&mut self, names: &[String]) -> Result<Vec<u32>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        // For errors with their places; of a domain the columns have the type below it.
        let casts: Vec<String> = names.iter().map(|name| format!("NULL::{name}")).collect();
        let described = self.describe_on(self.home, &format!("SELECT {}", casts.join(", "))).await;
        let oid = |name: &String| format!("{}::pg_catalog.regtype::pg_catalog.oid", catalog::quote_literal(name));
        let oids: Vec<String> = names.iter().map(oid).collect();
        let rows = match described {
            Ok(_) => self.rows_on(self.home, &format!("SELECT {}", oids.join(", "))).await,
            Err(error) => Err(error),
        };
        self.release();
        let row = rows?.into_iter().next().unwrap_or_default();
        (0..names.len()).map(|place| number(&row, place)).collect()
    }

    /// Can the home node work out by itself what a SELECT without tables gives? It cannot if functions of the user's read rows of
    /// several nodes.
    pub async fn is_for_home(&mut self, statement: &Statement) -> Result<bool> {
        let loaded = self.catalog().await?;
        if statement.is_plain(&loaded.catalog) {
            return Ok(true);
        }
        match self.plan(statement, &Call::default(), None).await {
            Ok(plan) => Ok(matches!(plan, Plan::Forward(forward) if forward.nodes.contains(&self.home))),
            Err(error) if error.code() == SqlState::FEATURE_NOT_SUPPORTED => Err(error),
            // It will say so itself.
            Err(_) => Ok(true),
        }
    }

    /// Text values of SQL expressions, each assigned to a type by an EXECUTE of the home node: what may stand there it knows.
    pub async fn evaluate(&mut self, expressions: &[String], types: &[u32]) -> Result<Vec<Option<Bytes>>> {
        const NAME: &[u8] = b"loxo_arguments";
        const BEFORE: &str = "EXECUTE loxo_arguments(";
        if expressions.is_empty() {
            return Ok(Vec::new());
        }
        let list = expressions.join(", ");
        self.note_leavings_of(&format!("SELECT {list}"));
        self.acquire_to_ask(self.home).await?;
        self.mark_left(self.home);
        let parameters: Vec<String> = (1..=types.len()).map(|number| format!("${number}")).collect();
        let leased = self.links.link(self.home)?;
        let out = leased.link.connection.out();
        frontend::close(out, Target::Statement, NAME);
        frontend::parse(out, NAME, format!("SELECT {}", parameters.join(", ")).as_bytes(), types);
        leased.link.connection.sync();
        leased.link.connection.query(format!("{BEFORE}{list})").as_bytes());
        frontend::close(leased.link.connection.out(), Target::Statement, NAME);
        leased.link.connection.sync();
        leased.flush().await?;
        leased.skip_preamble().await?;
        let known = leased.link.connection.read_rows().await;
        let evaluated = leased.link.connection.read_rows().await;
        let forgotten = leased.link.connection.read_rows().await;
        self.release();
        let in_list = |error: PgError| match error.text(field::POSITION).parse::<usize>() {
            Ok(position) if position > BEFORE.len() => error.position(position - BEFORE.len()),
            _ => error.without(field::POSITION),
        };
        let (rows, _) = known.and(evaluated.map_err(in_list))?;
        forgotten?;
        rows.into_iter().next().ok_or_else(|| PgError::internal("the arguments gave no row"))
    }

    /// Values as constants in SQL, each of its type.
    pub async fn constants(&mut self, values: &[Option<Bytes>], types: &[u32]) -> Result<Vec<String>> {
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.names_of_types(types).await?;
        let constant = |(value, name): (&Option<Bytes>, &String)| match value {
            Some(value) => format!("{}::{name}", catalog::quote_literal(&String::from_utf8_lossy(value))),
            None => format!("NULL::{name}"),
        };
        Ok(values.iter().zip(&names).map(constant).collect())
    }

    async fn names_of_types(&mut self, types: &[u32]) -> Result<Vec<String>> {
        let calls: Vec<String> = types.iter().map(|oid| format!("pg_catalog.format_type({oid}, -1)")).collect();
        let rows = self.rows_on(self.home, &format!("SELECT {}", calls.join(", "))).await?;
        let names = rows.into_iter().flatten();
        Ok(names.map(|name| String::from_utf8_lossy(name.as_deref().unwrap_or(b"text")).into_owned()).collect())
    }

    /// DISCARD ALL: everything the session left in backends is gone.
    pub async fn discard_all(&mut self) -> Result<()> {
        self.discard_sequences().await?;
        self.unpin_all();
        self.unlisten(None);
        self.settings_mut().clear();
        self.search_path_changed();
        self.start().await.map(|_| ())
    }

    /// DISCARD TEMP, if the session has a backend of its own there.
    pub async fn discard_temp(&mut self) -> Result<()> {
        self.names_changed();
        match self.links.is_pinned(self.home) {
            true => self.command_on(self.home, "DISCARD TEMP").await,
            false => Ok(()),
        }
    }
}
