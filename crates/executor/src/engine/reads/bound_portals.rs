//! One state of several nodes inside a READ COMMITTED block, in the block's own sessions, so that its own changes are seen.
//!
//! In READ COMMITTED every statement has a snapshot of its own, and PostgreSQL takes that of a plain SELECT when it binds the
//! portal. So: parse on all nodes, which may wait for locks; inside one barrier bind all portals of the statement, on all nodes;
//! then execute them, in any order and at leisure. Named portals outlive Sync inside a transaction block.
//!
//! ```text
//!  Parse, Sync ─ all nodes ─┐          ┌─ Bind p1 … pn, generation, Sync ─ all nodes ─┐   barrier valid?
//!                           └─ global snapshot ────┘                                              └── Execute p1, Sync …
//! ```
//!
//! What a statement gathers must not go to the block's session on the home node: that one is a source itself, and making a
//! temp table from its rows would take another snapshot. It goes to a session beside it, where the final text runs too; so
//! that text may read nothing but what was gathered ([`planner::reads_only`]).
//!
//! Invariants: a portal bound outside a valid barrier is closed and never executed; nothing here leaves a portal behind that a
//! later statement could take for its own.

use catalog::{NodeId, quote_identifier};
use pgerror::{PgError, Result, SqlState};
use planner::{FinalSql, Input, Scatter, Statement};
use tokio::time::Instant;

use crate::backend::call::Call;
use crate::backend::isolation::Isolation;
use crate::backend::portals::{Portal, nodes_of};
use crate::backend::slot::Slot;
use crate::block::Mode;
use crate::block::table_locks::Locks;
use crate::engine::fixed_text::travelling;
use crate::engine::gather::{Filled, without_position};
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;
use crate::snapshot::SNAPSHOT_WAIT_MAX;

/// Portals of one statement whose statements are kept: a backend keeps some hundreds.
const KEPT_MAX: usize = 64;

const BEGIN_BESIDE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

impl Session {
    /// Must a statement over these nodes bind its portals under a global snapshot?
    pub(crate) fn binds(&self, nodes: &[NodeId]) -> bool {
        nodes.len() > 1 && self.is_consistent() && self.isolation().is_some_and(Isolation::renews_snapshot)
    }

    /// A SELECT as one text on several nodes, wherever the session is.
    pub(crate) async fn read_several_nodes(
        &mut self,
        scatter: &Scatter,
        parts: Vec<(NodeId, String)>,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let Scatter { nodes, sql, tables, .. } = scatter;
        if !self.binds(nodes) {
            if !self.in_block()
                && self.is_consistent()
                && let Some(completion) = self.read_optimistically(&parts, tables, call, output).await?
            {
                return Ok(completion);
            }
            let read = self.begin_read_locked(nodes, &Locks::of_tables(tables)).await?;
            let result = self.scatter(Mode::InBlock, parts, call, output).await;
            self.end_read(read).await;
            return result;
        }
        let portal = Portal::new(1, nodes, sql, call.result_formats.clone()).kept(call.may_come_again());
        self.bind_portals(&[&portal], call).await?;
        let version = self.schema_version;
        for node in nodes {
            let leased = self.links.link(*node)?;
            let describes = leased.describes(call, version);
            leased.execute_portal(&portal.name, describes);
        }
        self.answers_on(nodes, call, output).await
    }

    /// May this gather run through portals and a session beside the home node?
    pub(crate) async fn gathers_beside(&mut self, inputs: &[Input], final_sql: &FinalSql) -> Result<bool> {
        let nodes = self.gathered_nodes(inputs);
        let has_ddl = self.block.as_ref().is_some_and(|block| block.ran_ddl);
        if has_ddl
            || self.sink != self.home
            || !self.binds(&nodes)
            || inputs.iter().any(|input| input.exchange_plan.is_some())
            || self.reads_own_temp(inputs).await?
            || self.names_own_temp(&final_sql.text).await?
        {
            return Ok(false);
        }
        self.reads_only_inputs(inputs, final_sql).await
    }

    /// See [`planner::reads_only`].
    pub(super) async fn reads_only_inputs(&mut self, inputs: &[Input], final_sql: &FinalSql) -> Result<bool> {
        let loaded = self.catalog().await?;
        let mut key = format!("only {}", final_sql.text);
        inputs.iter().for_each(|input| key.extend(["\0", &input.table]));
        let judge = || planner::reads_only(&final_sql.text, inputs, &loaded.catalog);
        Ok(self.context.judged.get_or(loaded.catalog.version(), key.as_bytes(), judge))
    }

    /// Does an input read a temp table of the user's, which no session but the block's own can describe?
    async fn reads_own_temp(&mut self, inputs: &[Input]) -> Result<bool> {
        let own: Vec<String> = self.temp_relations().await?.all.iter().map(|name| quote_identifier(name)).collect();
        for input in inputs.iter().filter(|_| !own.is_empty()) {
            let read = planner::Tables::in_text(&input.sql)?.read;
            if read.iter().any(|name| own.iter().any(|own| own == name.strip_prefix("pg_temp.").unwrap_or(name))) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does a text name types of the user's in `pg_temp`, which no session but the block's own has?
    async fn names_own_temp(&mut self, sql: &str) -> Result<bool> {
        let temporary = self.temp_relations().await?;
        let names = |statement: &Statement| statement.names_temporary(&temporary.bare());
        Ok(!temporary.is_empty() && planner::parse(sql)?.iter().any(names))
    }

    /// Gathers the inputs beside the home node under one global snapshot; gives the final text to run there. Then
    /// [`Session::close_beside`] must follow.
    pub(crate) async fn gather_beside(
        &mut self,
        inputs: &[Input],
        final_sql: &FinalSql,
        call: &Call,
    ) -> Result<String> {
        let mut filled = Vec::with_capacity(inputs.len());
        let mut portals = Vec::with_capacity(inputs.len());
        for (number, input) in inputs.iter().enumerate() {
            let columns = self.describe_input(self.home, input, call).await?;
            let sql = travelling(&input.sql, columns.binary);
            let portal = Portal::new(number + 1, &input.nodes, &sql, vec![i16::from(columns.binary)]);
            portals.push(portal.kept(call.may_come_again()));
            filled.push(columns);
        }
        let has_locks = self.open_beside_with_locks(inputs).await?;
        let result = self.gather_portals(inputs, &portals, (&filled, has_locks), final_sql, call).await;
        if result.is_err() {
            self.close_beside().await;
        }
        result
    }

    async fn gather_portals(
        &mut self,
        inputs: &[Input],
        portals: &[Portal],
        (filled, has_locks): (&[Filled], bool),
        final_sql: &FinalSql,
        call: &Call,
    ) -> Result<String> {
        self.bind_portals(&portals.iter().collect::<Vec<_>>(), call).await?;
        let beside = self.beside_home();
        for ((input, portal), columns) in inputs.iter().zip(portals).zip(filled) {
            let created = match has_locks {
                true => self.create_input(beside, input, columns, false, call).await,
                false => self.create_input_like(self.home, beside, input, columns, call).await.map(|()| None),
            };
            for node in &portal.nodes {
                self.links.link(*node)?.execute_portal(&portal.name, false);
                self.links.link(*node)?.flush().await?;
            }
            self.pump(&portal.nodes, &quote_identifier(&input.table), columns.binary, created)
                .await
                .map_err(without_position)?;
            self.finish_input(input, inputs.len() > 1).await?;
        }
        let columns: Vec<_> = filled.iter().map(|filled| filled.columns.as_slice()).collect();
        self.resolve_types(final_sql, &columns).await
    }

    /// The session beside the home node reads the texts of fragments, for what their columns are. With somebody in line for all of a table
    /// that this block has read, it would wait for a session that waits for this block. So it takes the tables' locks at once, or
    /// never: false, and the block's own session says what the columns are.
    pub(super) async fn open_beside_with_locks(&mut self, inputs: &[Input]) -> Result<bool> {
        let locks = self.locks_to_read(inputs.iter().map(|input| input.sql.as_str())).commands(" NOWAIT");
        let begin = std::iter::once(BEGIN_BESIDE.to_owned()).chain(locks).collect::<Vec<_>>().join("; ");
        let Err(error) = self.open_beside(&begin).await else { return Ok(true) };
        self.close_beside().await;
        let has_locks = match error.code() {
            SqlState::LOCK_NOT_AVAILABLE => false,
            // Rights on some columns only, a materialized view: LOCK TABLE cannot, the text may.
            SqlState::INSUFFICIENT_PRIVILEGE | SqlState::WRONG_OBJECT_TYPE | SqlState::UNDEFINED_TABLE => true,
            _ => return Err(error),
        };
        self.open_beside(BEGIN_BESIDE).await.map(|()| has_locks)
    }

    /// Rows of `sql`, run beside the home node, as a new temp table of another session there: the block's own, or the cursor holder.
    pub(crate) async fn bring_from_beside(
        &mut self,
        sql: &str,
        to: Slot,
        table: &str,
        columns: &[String],
        call: &Call,
    ) -> Result<()> {
        let beside = self.beside_home();
        let input = Input {
            table: String::new(),
            nodes: Vec::new(),
            sql: sql.to_owned(),
            indexes: Vec::new(),
            exchange_plan: None,
        };
        let described = self.describe_input(beside, &input, call).await?;
        let types = self.type_names(&described).await?;
        let list: Vec<String> = columns.iter().zip(types).map(|(column, of)| format!("{column} {of}")).collect();
        if to.is_cursor_holder() {
            self.open_cursor_holder().await?;
        }
        let created = self.create_temp(to, table, &list).await.map(|()| None);
        self.links.link(to)?.temp = true;
        let version = self.schema_version;
        let leased = self.links.link(beside)?;
        let sql = travelling(sql, described.binary);
        leased.start(&sql, &call.with_formats(vec![i16::from(described.binary)]), version);
        leased.flush().await?;
        // The pump goes to the sink: for this once that is the other one.
        self.sink = to;
        let pumped = self.pump(&[beside], &quote_identifier(table), described.binary, created).await;
        self.sink = beside;
        pumped.map(|_| ())
    }

    /// Binds every portal on its nodes within one valid barrier.
    pub(super) async fn bind_portals(&mut self, portals: &[&Portal], call: &Call) -> Result<()> {
        self.parse_portals(portals, call).await?;
        let nodes = nodes_of(portals);
        let deadline = Instant::now() + SNAPSHOT_WAIT_MAX;
        let parameters = call.parameters.as_deref().cloned().unwrap_or_default();
        loop {
            let snapshot = self.barrier(&nodes, deadline).await?;
            let generations = self.links.bind_portals(portals, &parameters).await?;
            if self.complete(snapshot, &generations) {
                return Ok(());
            }
            self.links.close_portals(portals).await?;
        }
    }

    /// Has the block's sessions parse the portals' texts, which may wait for locks.
    pub(crate) async fn parse_portals(&mut self, portals: &[&Portal], call: &Call) -> Result<()> {
        let may_keep = portals.len() <= KEPT_MAX && portals.iter().any(|portal| portal.is_kept);
        let keeps = may_keep && self.plan_is_untouched();
        self.parse_all(portals, call, keeps).await?;
        // What is kept may have other columns by now.
        match !keeps || self.plan_is_untouched() {
            true => Ok(()),
            false => self.parse_all(portals, call, false).await,
        }
    }

    async fn parse_all(&mut self, portals: &[&Portal], call: &Call, keeps: bool) -> Result<()> {
        let (nodes, version) = (nodes_of(portals), self.schema_version);
        self.connect_to(&nodes).await?;
        for node in &nodes {
            self.acquire(*node, Mode::InBlock).await?;
            for portal in portals.iter().filter(|portal| portal.nodes.contains(node)) {
                let kept = (keeps && portal.is_kept).then(|| (self.locking_text(&portal.sql), version));
                self.links.link(*node)?.parse_portal(portal, call, kept);
            }
            self.links.link(*node)?.link.connection.sync();
        }
        let answered = self.links.portal_answers(&nodes).await;
        // What could not be parsed is not there.
        self.links.of(&nodes).for_each(|(_, link)| link.forget_unanswered());
        answered.map_err(without_position).map(|_| ())
    }

    /// What takes the locks of a text's tables and is parsed sooner; `None`: nothing but the text itself is sure to. A bare name may
    /// be that of a WITH item, or of a table elsewhere in the text.
    fn locking_text(&self, sql: &str) -> Option<String> {
        let tables = self.tables_read_by(sql);
        let list: Vec<String> = tables.iter().enumerate().map(|(at, table)| format!("{table} AS t{at}")).collect();
        let are_sure = !list.is_empty() && tables.iter().all(|table| table.contains('.'));
        are_sure.then(|| format!("SELECT FROM {}", list.join(", ")))
    }
}

/// 40001 for a stream of rows that turned out not to be of one global snapshot.
pub(crate) fn not_one_snapshot() -> PgError {
    PgError::new(SqlState::SERIALIZATION_FAILURE, "the rows could not be read in one state of all datanodes")
        .hint("Run the statement again.")
}
