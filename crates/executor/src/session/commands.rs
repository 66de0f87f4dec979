//! Commands of the session that PostgreSQL carries out on one backend: SET, SHOW, FETCH, evaluation of arguments.

use std::collections::HashMap;

use bytes::Bytes;
use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::Field;
use pgproto::frontend::{self, Target};
use planner::{FinalSql, Gather, Input, Plan, Statement};

use crate::backend::own_temp::TempAs;
use crate::backend::request::Call;
use crate::engine::gather::Filled;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::engine::spool::Spool;
use crate::session::catalog_load::travels_in_binary;
use crate::session::own_settings::{self, STATEMENT_TIMEOUT};
use crate::session::{CURSOR_HOLDER, Mode, Replay, Session};
use crate::snapshot::Isolation;

impl Session {
    /// Connects to the home node, which checks user and settings; gives the parameters a client is told at its start.
    pub async fn start(&mut self) -> Result<HashMap<String, String>> {
        self.acquire(self.home, Mode::Autocommit).await?;
        let parameters = self.home_parameters().unwrap_or_default();
        let link = &self.link(self.home)?.link;
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
        if self.leased.values().any(|leased| !leased.link.connection.is_settled() && leased.preamble == 0) {
            self.cancel_set().cancel().await;
            self.block = None;
        }
        if self.in_block() {
            self.rollback().await;
        }
        self.unpin_all();
    }

    /// ParameterStatus values of the home node's backend, if one is held.
    pub fn home_parameters(&self) -> Option<HashMap<String, String>> {
        self.leased.get(&self.home).map(|leased| leased.link.connection.parameters().clone())
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
        let others: Vec<NodeId> = self.begun().into_iter().filter(|node| *node != self.home).collect();
        self.broadcast(&others, sql).await?;
        if let Some(block) = &mut self.block {
            block.replay.push(Replay::set(sql.to_owned()));
        }
        Ok(())
    }

    /// After a committed block: links carry the session's new settings already.
    pub(crate) fn settings_committed(&mut self) {
        self.begun().into_iter().for_each(|node| self.has_settings(node));
    }

    /// After a rolled back block: settings go back to where they were.
    pub(crate) fn settings_rolled_back(&mut self) {
        if let Some(block) = &self.block {
            self.settings = block.settings_at_begin.clone();
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
        let leased = self.link(self.home)?;
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

    /// The same after `SET transaction_read_only`.
    pub async fn read_only_may_have_changed(&mut self) -> Result<()> {
        if self.in_block() {
            let read_only = self.show_on_home("transaction_read_only").await? == "on";
            self.set_read_only(read_only);
        }
        Ok(())
    }

    /// What the home node's backend reports.
    pub(crate) fn note_default_read_only(&mut self) {
        let home = self.leased.get(&self.home).map(|leased| leased.link.connection.parameters());
        let value = home.and_then(|parameters| parameters.get("default_transaction_read_only"));
        if let Some(read_only) = value.map(|value| value == "on") {
            self.settings_mut().set_default_read_only(read_only);
        }
    }

    /// SHOW.
    pub async fn show(&mut self, sql: &str, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        self.set_snapshotless(true);
        let result = self.forward_home(sql, call, output).await;
        self.set_snapshotless(false);
        result
    }

    async fn change_settings(&mut self, sql: &str, change: impl FnOnce(&mut crate::Settings)) -> Result<()> {
        let mode = self.mode();
        self.command_in(self.home, mode, sql).await?;
        if mode == Mode::InBlock {
            self.set_everywhere(sql).await?;
        }
        change(self.settings_mut());
        self.note_default_read_only();
        if mode == Mode::Autocommit {
            self.has_settings(self.home);
        }
        Ok(())
    }

    /// A SET that lasts for the block only (`SET LOCAL`, `SET TRANSACTION`, `SET CONSTRAINTS`). Outside a block PostgreSQL
    /// warns and nothing stays.
    pub async fn set_in_block(&mut self, sql: &str) -> Result<()> {
        let mode = self.mode();
        self.command_in(self.home, mode, sql).await?;
        if mode == Mode::InBlock {
            self.set_everywhere(sql).await?;
        }
        self.release();
        Ok(())
    }

    /// `SET LOCAL name TO DEFAULT`.
    pub async fn reset_in_block(&mut self, name: &str, sql: &str) -> Result<()> {
        let started = self.settings().reset_sql(Some(name), sql);
        match started.strip_prefix("SET ").filter(|_| started != sql) {
            Some(assignment) => self.set_in_block(&format!("SET LOCAL {assignment}")).await,
            None => self.set_in_block(sql).await,
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

    /// A command that takes no snapshot.
    async fn command_in(&mut self, node: NodeId, mode: Mode, sql: &str) -> Result<()> {
        self.acquire_as_is(node, mode).await?;
        let leased = self.link(node)?;
        leased.link.connection.query(sql.as_bytes());
        leased.flush().await?;
        leased.finish().await.map(|_| ())
    }

    /// Runs a command without rows on a node that the session works with.
    pub async fn command_on(&mut self, node: NodeId, sql: &str) -> Result<()> {
        self.acquire(node, self.mode()).await?;
        self.command_in(node, self.mode(), sql).await
    }

    /// Runs a text as it is on the home node and passes its rows on.
    pub async fn forward_home(&mut self, sql: &str, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        self.forward_to(self.home, sql, call, output).await
    }

    /// Runs a text as it is on a node and passes its rows on.
    pub async fn forward_to(
        &mut self,
        node: NodeId,
        sql: &str,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        self.note_leavings_of(sql);
        let result = self.scatter(self.mode(), vec![(node, sql.to_owned())], call, output).await;
        self.release();
        result
    }

    /// Result columns of a text on a node.
    pub async fn describe_on(&mut self, node: NodeId, sql: &str) -> Result<Option<Vec<Field>>> {
        self.acquire_to_ask(node).await?;
        let leased = self.link(node)?;
        leased.start_describe(sql, &[]);
        leased.flush().await?;
        let (_, fields) = leased.read_description().await?;
        Ok(fields)
    }

    /// Declares a cursor over a query that one of `nodes` can answer; gives the node.
    pub async fn declare_on_node(&mut self, nodes: &[NodeId], sql: &str, call: &Call) -> Result<NodeId> {
        let node = self.choose(nodes);
        let version = self.catalog_version;
        self.acquire(node, Mode::InBlock).await?;
        self.sight.touch(node);
        let leased = self.link(node)?;
        leased.start(sql, &Call { describe: false, result_formats: Vec::new(), ..call.clone() }, version);
        leased.flush().await?;
        leased.finish().await?;
        Ok(node)
    }

    /// A cursor WITH HOLD was made there: its backend stays with the session, and cannot be prepared in this transaction.
    pub fn keep_cursor(&mut self, node: NodeId) {
        self.pin(node);
        if let Some(leased) = self.leased.get_mut(&node) {
            leased.temp = leased.begun;
        }
    }

    /// The cursors that the session's backend on a node has open.
    pub async fn cursor_names(&mut self, node: NodeId) -> Result<Vec<String>> {
        let rows = self.rows_on(node, "SELECT name FROM pg_catalog.pg_cursors").await?;
        let names = rows.into_iter().flatten().flatten();
        Ok(names.map(|name| String::from_utf8_lossy(&name).into_owned()).collect())
    }

    /// The node of the block on which a function has opened a cursor of this name.
    pub async fn node_of_cursor(&mut self, name: &str) -> Result<Option<NodeId>> {
        for node in self.begun() {
            if self.cursor_names(node).await?.iter().any(|open| open == name) {
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    /// Gathers the result of `query` into a temp table on the home node and declares a cursor over that; gives the session
    /// there that has it.
    #[allow(clippy::too_many_arguments)]
    pub async fn declare_gathered(
        &mut self,
        inputs: &[Input],
        final_sql: &FinalSql,
        declaration: &str,
        cursor: &str,
        query: &str,
        hold: bool,
        call: &Call,
    ) -> Result<NodeId> {
        self.reach_for_several().await?;
        // The next cursor of this name, or the next gathered table, may have other columns.
        let call = &Call { one_off: true, ..call.clone() };
        let is_read_only = self.is_read_only();
        // PostgreSQL keeps the rows of one WITH HOLD in the session's own backend.
        let may_keep = !hold && self.stays_clean();
        let gather = Gather {
            node: self.home,
            inputs: inputs.to_vec(),
            final_sql: final_sql.clone(),
            writes: false,
            merge: None,
            lent: Vec::new(),
        };
        let is_apart = may_keep && self.goes_apart(&Plan::Gather(gather)).await?;
        let place = if is_read_only || is_apart { CURSOR_HOLDER } else { self.home };
        let fields = self.describe(query, &call.fragment_types(query)).await?.fields.unwrap_or_default();
        let table = format!("loxo_cursor_{cursor}");
        // The columns of a query may share a name, those of a table may not.
        let columns: Vec<String> = (1..=fields.len()).map(|i| format!("loxo_c{i}")).collect();
        let outputs: Vec<String> = fields
            .iter()
            .zip(&columns)
            .map(|(field, column)| {
                let name = String::from_utf8_lossy(&field.name).into_owned();
                format!("{column} AS {}", catalog::quote_identifier(&name))
            })
            .collect();
        if self.gathers_beside(inputs, final_sql).await? {
            let sql = self.gather_beside(inputs, final_sql, call).await?;
            let brought = self.bring_from_beside(&sql, place, &table, &columns, call).await;
            self.close_beside().await;
            brought?;
        } else if is_apart {
            let keep = async |this: &mut Self| {
                let sql = this.fill_all(inputs, final_sql, call).await?;
                this.bring_from_beside(&sql, place, &table, &columns, call).await
            };
            self.beside_it(keep).await?;
        } else if is_read_only {
            self.refuse_temp_tables_beside(final_sql).await?;
            let keep = async |this: &mut Self| {
                let sql = this.fill_all(inputs, final_sql, call).await?;
                this.bring_from_beside(&sql, place, &table, &columns, call).await
            };
            self.beside(keep).await?;
        } else {
            let sql = self.fill_all(inputs, final_sql, call).await?;
            let made = TempAs { table: &table, columns, fields: &fields, sql: &sql, indexes: &[] };
            self.link(place)?.temp = true;
            self.create_temp_as(place, &made, true, call).await?;
            self.drop_inputs(inputs).await?;
        }
        let table = catalog::quote_identifier(&table);
        self.command_on(place, &format!("{declaration}SELECT {} FROM pg_temp.{table}", outputs.join(", "))).await?;
        Ok(place)
    }

    /// Keeps the rows of a plan in a temp table and declares a cursor over that; gives the session there that has it.
    pub async fn declare_rows(
        &mut self,
        plan: &Plan,
        declaration: &str,
        cursor: &str,
        query: &str,
        call: &Call,
    ) -> Result<NodeId> {
        let place = if self.is_read_only() || self.stays_clean() { CURSOR_HOLDER } else { self.home };
        let fields = self.describe(query, &call.fragment_types(query)).await?.fields.unwrap_or_default();
        let binary = fields.iter().all(|field| travels_in_binary(field.type_oid));
        let mut spool = Spool::of(self.work_mem());
        self.note_write(true);
        let call = Call { one_off: true, ..call.with_formats(vec![i16::from(binary)]) };
        self.run_plan(plan, &call, &mut Output::spool(&mut spool)).await?;
        let outputs: Vec<String> = fields
            .iter()
            .enumerate()
            .map(|(at, field)| {
                let name = String::from_utf8_lossy(&field.name).into_owned();
                format!("loxo_c{} AS {}", at + 1, catalog::quote_identifier(&name))
            })
            .collect();
        let types = self.type_names(&Filled { columns: fields, binary }).await?;
        let columns: Vec<String> = types.iter().enumerate().map(|(at, of)| format!("loxo_c{} {of}", at + 1)).collect();
        if place == CURSOR_HOLDER {
            self.open_cursor_holder().await?;
        }
        let table = format!("loxo_cursor_{cursor}");
        self.create_temp(place, &table, &columns).await?;
        let table = catalog::quote_identifier(&table);
        let link = self.link(place)?;
        (link.temp, link.gathered) = (true, true);
        let sink = std::mem::replace(&mut self.sink, place);
        let put = self.put_rows(&table, spool, binary).await;
        self.sink = sink;
        put?;
        self.command_on(place, &format!("{declaration}SELECT {} FROM pg_temp.{table}", outputs.join(", "))).await?;
        Ok(place)
    }

    /// Drops what [`Session::declare_gathered`] made for a cursor that is closed.
    pub async fn drop_cursor_table(&mut self, place: NodeId, cursor: &str) -> Result<()> {
        let table = catalog::quote_identifier(&format!("loxo_cursor_{cursor}"));
        self.command_on(place, &format!("DROP TABLE IF EXISTS pg_temp.{table}")).await
    }

    /// Object ids of type names as written after PREPARE.
    pub async fn type_oids(&mut self, names: &[String]) -> Result<Vec<u32>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let casts: Vec<String> = names.iter().map(|name| format!("NULL::{name}")).collect();
        let fields = self.describe_on(self.home, &format!("SELECT {}", casts.join(", "))).await;
        self.release();
        Ok(fields?.unwrap_or_default().iter().map(|field| field.type_oid).collect())
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
        if expressions.is_empty() {
            return Ok(Vec::new());
        }
        let list = expressions.join(", ");
        self.note_leavings_of(&format!("SELECT {list}"));
        self.acquire_to_ask(self.home).await?;
        self.mark_left(self.home);
        let parameters: Vec<String> = (1..=types.len()).map(|number| format!("${number}")).collect();
        let leased = self.link(self.home)?;
        let out = leased.link.connection.out();
        frontend::close(out, Target::Statement, NAME);
        frontend::parse(out, NAME, format!("SELECT {}", parameters.join(", ")).as_bytes(), types);
        leased.link.connection.sync();
        leased.link.connection.query(format!("EXECUTE loxo_arguments({list})").as_bytes());
        frontend::close(leased.link.connection.out(), Target::Statement, NAME);
        leased.link.connection.sync();
        leased.flush().await?;
        leased.skip_preamble().await?;
        let known = leased.link.connection.read_rows().await;
        let evaluated = leased.link.connection.read_rows().await;
        let forgotten = leased.link.connection.read_rows().await;
        self.release();
        let (rows, _) = known.and(evaluated)?;
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
        match self.is_pinned(self.home) {
            true => self.command_on(self.home, "DISCARD TEMP").await,
            false => Ok(()),
        }
    }
}
