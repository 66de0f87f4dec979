//! One state of several nodes inside a READ COMMITTED block, in the block's own sessions, so that its own changes are seen.
//!
//! In READ COMMITTED every statement has a snapshot of its own, and PostgreSQL takes that of a plain SELECT when it binds the
//! portal. So: parse on all nodes, which may wait for locks; inside one closure bind all portals of the statement, on all nodes;
//! then execute them, in any order and at leisure. Named portals outlive Sync inside a transaction block.
//!
//! ```text
//!  Parse, Sync ─ all nodes ─┐          ┌─ Bind p1 … pn, generation, Sync ─ all nodes ─┐   closure valid?
//!                           └─ cut ────┘                                              └── Execute p1, Sync …
//! ```
//!
//! What a statement gathers must not go to the block's session on the home node: that one is a source itself, and making a
//! temp table from its rows would take another snapshot. It goes to a session [`BESIDE`] it, where the final text runs too; so
//! that text may read nothing but what was gathered ([`planner::reads_only`]).
//!
//! Invariants: a portal bound outside a valid closure is closed and never executed; nothing here leaves a portal behind that a
//! later statement could take for its own.

use std::collections::BTreeMap;

use bytes::Bytes;
use catalog::{NodeId, quote_identifier};
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::tag;
use pgproto::connection::unexpected;
use pgproto::frontend::{self, Bind, Target};
use planner::{FinalSql, Input, Scatter};
use tokio::time::Instant;

use crate::backend::leased::{LeasedConnection, Own};
use crate::backend::request::{Call, Parameters};
use crate::engine::fixed_text::travelling;
use crate::engine::gather::{Filled, without_position};
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::{BESIDE, CURSOR_HOLDER, Mode, Session};
use crate::snapshot::{CUT_MAX, Isolation, generation};
use crate::transaction::table_locks::Locks;

/// A SELECT that is to run on several nodes in the state of one cut.
pub(crate) struct Portal {
    nodes: Vec<NodeId>,
    sql: String,
    result_formats: Vec<i16>,
    /// Of both the statement and the portal.
    pub(crate) name: Bytes,
}

impl Portal {
    pub(crate) fn new(number: usize, nodes: &[NodeId], sql: &str, result_formats: Vec<i16>) -> Self {
        Self {
            nodes: nodes.to_vec(),
            sql: sql.to_owned(),
            result_formats,
            name: format!("loxo_portal_{number}").into(),
        }
    }
}

impl Session {
    /// Must a statement over these nodes bind its portals under a cut?
    pub(crate) fn binds(&self, nodes: &[NodeId]) -> bool {
        nodes.len() > 1 && self.is_consistent() && self.isolation() == Some(Isolation::ReadCommitted)
    }

    /// The same SELECT on several nodes, wherever the session is.
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
                && let Some(completion) = self.read_alone(&parts, tables, call, output).await?
            {
                return Ok(completion);
            }
            let read = self.begin_read_locked(nodes, &Locks::of_tables(tables)).await?;
            let result = self.scatter(Mode::InBlock, parts, call, output).await;
            self.end_read(read).await;
            return result;
        }
        let portal = Portal::new(1, nodes, sql, call.result_formats.clone());
        self.bind_portals(&[&portal], call).await?;
        for node in nodes {
            self.link(*node)?.execute_portal(&portal.name, call.describe);
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
        {
            return Ok(false);
        }
        let loaded = self.catalog().await?;
        Ok(planner::reads_only(&final_sql.text, inputs, &loaded.catalog))
    }

    /// Gathers the inputs beside the home node under one cut; gives the final text to run there. Then
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
            portals.push(Portal::new(number + 1, &input.nodes, &sql, vec![i16::from(columns.binary)]));
            filled.push(columns);
        }
        self.open_beside("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?;
        let result = self.gather_portals(inputs, &portals, &filled, final_sql, call).await;
        if result.is_err() {
            self.close_beside().await;
        }
        result
    }

    async fn gather_portals(
        &mut self,
        inputs: &[Input],
        portals: &[Portal],
        filled: &[Filled],
        final_sql: &FinalSql,
        call: &Call,
    ) -> Result<String> {
        self.bind_portals(&portals.iter().collect::<Vec<_>>(), call).await?;
        for ((input, portal), columns) in inputs.iter().zip(portals).zip(filled) {
            let created = self.create_input(BESIDE, input, columns, false, call).await;
            for node in &portal.nodes {
                self.link(*node)?.execute_portal(&portal.name, false);
                self.link(*node)?.flush().await?;
            }
            self.pump(&portal.nodes, &quote_identifier(&input.table), columns.binary, created)
                .await
                .map_err(without_position)?;
            self.finish_input(input, inputs.len() > 1).await?;
        }
        let columns: Vec<_> = filled.iter().map(|filled| filled.columns.as_slice()).collect();
        self.resolve_types(final_sql, &columns).await
    }

    /// Rows of `sql`, run beside the home node, as a new temp table of another session there: the block's own, or [`CURSOR_HOLDER`].
    pub(crate) async fn bring_from_beside(
        &mut self,
        sql: &str,
        to: NodeId,
        table: &str,
        columns: &[String],
        call: &Call,
    ) -> Result<()> {
        let input = Input {
            table: String::new(),
            nodes: Vec::new(),
            sql: sql.to_owned(),
            indexes: Vec::new(),
            exchange_plan: None,
        };
        let described = self.describe_input(BESIDE, &input, call).await?;
        let types = self.type_names(&described).await?;
        let list: Vec<String> = columns.iter().zip(types).map(|(column, of)| format!("{column} {of}")).collect();
        if to == CURSOR_HOLDER {
            self.open_cursor_holder().await?;
        }
        let created = self.create_temp(to, table, &list).await.map(|()| None);
        self.link(to)?.temp = true;
        let version = self.catalog_version;
        let beside = self.link(BESIDE)?;
        let sql = travelling(sql, described.binary);
        beside.start(&sql, &call.with_formats(vec![i16::from(described.binary)]), version);
        beside.flush().await?;
        // The pump goes to the sink: for this once that is the other one.
        self.sink = to;
        let pumped = self.pump(&[BESIDE], &quote_identifier(table), described.binary, created).await;
        self.sink = BESIDE;
        pumped.map(|_| ())
    }

    /// Binds every portal on its nodes within one valid closure.
    async fn bind_portals(&mut self, portals: &[&Portal], call: &Call) -> Result<()> {
        self.parse_portals(portals, call).await?;
        let nodes = nodes_of(portals);
        let deadline = Instant::now() + CUT_MAX;
        let parameters = call.parameters.as_deref().cloned().unwrap_or_default();
        loop {
            let cut = self.closure(&nodes, deadline).await?;
            let generations = bind_on(&mut self.leased, portals, &parameters).await?;
            if self.complete(cut, &generations) {
                return Ok(());
            }
            close_on(&mut self.leased, portals).await?;
        }
    }

    /// Has the block's sessions parse the portals' texts, which may wait for locks.
    pub(crate) async fn parse_portals(&mut self, portals: &[&Portal], call: &Call) -> Result<()> {
        let nodes = nodes_of(portals);
        for node in &nodes {
            self.acquire(*node, Mode::InBlock).await?;
            let link = self.link(*node)?;
            portals
                .iter()
                .filter(|portal| portal.nodes.contains(node))
                .for_each(|portal| link.parse_portal(portal, call));
            link.link.connection.sync();
        }
        answers(&mut self.leased, &nodes).await.map_err(without_position).map(|_| ())
    }
}

fn nodes_of(portals: &[&Portal]) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = portals.iter().flat_map(|portal| portal.nodes.clone()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Binds portals that have been parsed; gives the generations of their nodes, read after it.
pub(crate) async fn bind_on(
    leased: &mut BTreeMap<NodeId, LeasedConnection>,
    portals: &[&Portal],
    parameters: &Parameters,
) -> Result<Vec<Option<i64>>> {
    let nodes = nodes_of(portals);
    for (node, link) in leased.iter_mut().filter(|(node, _)| nodes.contains(node)) {
        portals
            .iter()
            .filter(|portal| portal.nodes.contains(node))
            .for_each(|portal| link.bind_portal(portal, parameters));
        link.bind_generation();
    }
    answers(leased, &nodes).await
}

/// Closes portals that were bound in vain.
pub(crate) async fn close_on(leased: &mut BTreeMap<NodeId, LeasedConnection>, portals: &[&Portal]) -> Result<()> {
    let nodes = nodes_of(portals);
    for (node, link) in leased.iter_mut().filter(|(node, _)| nodes.contains(node)) {
        portals.iter().filter(|portal| portal.nodes.contains(node)).for_each(|portal| link.close_portal(&portal.name));
        link.link.connection.sync();
    }
    answers(leased, &nodes).await.map(|_| ())
}

/// Sends what is queued on these links, up to a Sync each, and reads the answers; the first error wins.
pub(crate) async fn answers(
    leased: &mut BTreeMap<NodeId, LeasedConnection>,
    nodes: &[NodeId],
) -> Result<Vec<Option<i64>>> {
    let work = leased.iter_mut().filter(|(node, _)| nodes.contains(node)).map(|(_, leased)| async {
        leased.flush().await?;
        leased.portal_answers().await
    });
    futures_util::future::join_all(work).await.into_iter().collect()
}

impl LeasedConnection {
    fn parse_portal(&mut self, portal: &Portal, call: &Call) {
        let out = self.link.connection.out();
        // What an earlier statement of this name, cancelled half-way perhaps, has left.
        frontend::close(out, Target::Portal, &portal.name);
        frontend::close(out, Target::Statement, &portal.name);
        frontend::parse(out, &portal.name, portal.sql.as_bytes(), &call.fragment_types(&portal.sql));
    }

    fn bind_portal(&mut self, portal: &Portal, parameters: &Parameters) {
        let bind = Bind {
            portal: portal.name.clone(),
            statement: portal.name.clone(),
            parameter_formats: parameters.formats.clone(),
            parameters: parameters.values.clone(),
            result_formats: portal.result_formats.clone(),
        };
        frontend::bind(self.link.connection.out(), &bind);
    }

    /// After the portals: the generation read is at least as new as their snapshots.
    fn bind_generation(&mut self) {
        Own::Generation.queue(&mut self.link.connection);
        self.link.connection.sync();
    }

    fn close_portal(&mut self, name: &[u8]) {
        frontend::close(self.link.connection.out(), Target::Portal, name);
    }

    /// Queues the execution of a bound portal, which is closed at its end.
    pub(crate) fn execute_portal(&mut self, name: &[u8], describe: bool) {
        let out = self.link.connection.out();
        if describe {
            frontend::describe(out, Target::Portal, name);
        }
        frontend::execute(out, name, 0);
        frontend::close(out, Target::Portal, name);
        self.link.connection.sync();
    }

    /// Reads up to ReadyForQuery; gives the generation if it was among the answers.
    async fn portal_answers(&mut self) -> Result<Option<i64>> {
        self.skip_preamble().await?;
        let (mut read, mut failure) = (None, None);
        loop {
            let frame = self.link.connection.recv().await?;
            match frame.tag {
                tag::READY_FOR_QUERY => {
                    let Some(error) = failure else { return Ok(read) };
                    self.give_up_without_statements(&error);
                    return Err(error);
                }
                tag::DATA_ROW => {
                    let row = pgproto::backend::decode_data_row(frame.body)?;
                    read = row.first().and_then(|value| generation(value.as_deref()?));
                }
                tag::ERROR => failure = Some(PgError::decode_body(frame.body)),
                tag::PARSE_COMPLETE | tag::BIND_COMPLETE | tag::CLOSE_COMPLETE | tag::COMMAND_COMPLETE => {}
                other => return Err(unexpected(other, "the binding of portals")),
            }
        }
    }
}

/// 40001 for a stream of rows that turned out not to be of one cut.
pub(crate) fn not_one_cut() -> PgError {
    PgError::new(SqlState::SERIALIZATION_FAILURE, "the rows could not be read in one state of all datanodes")
        .hint("Run the statement again.")
}
