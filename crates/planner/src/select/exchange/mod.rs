//! Queries that need rows of other nodes: which rows to move where, so that the rest is local.
//!
//! A plan without movement needs a proof (see [`locality`](super::locality)). Where there is none, rows of some tables are
//! moved into temp tables first, placed so that the proof holds: on every node (broadcast), by the hash of a column
//! (repartition), or on the home node. Then the very same analysis is asked about the query over those tables.
//!
//! ```text
//! few rows in all? not our business: they come to one node
//! best(query) ─┬─ local already?                                 done
//!              ├─ a set operation over many rows: those of its branches sent by their hash
//!              ├─ sub-selects of one row that refer to nothing outside: computed first, then best(query over them)
//!              ├─ moves: each table stays, is broadcast or is repartitioned; cheapest first, the first that is local wins
//!              ├─ for each sub-select that refers to nothing outside: best(sub-select), its rows broadcast or brought home,
//!              │  then best(query over them)
//!              ├─ a table of which only sums are wanted: added up on each node before it is repartitioned
//!              └─ a condition about partitioned rows that every node can decide for its own: keys of the rows that passed
//!                 broadcast or brought home, then best(query over them)
//! ```
//!
//! Invariants: a temp table holds the rows of the table or sub-select it stands for, all that the query can use; what
//! is left out early was left out by a condition that every row must fulfil. So the query over temp tables is the user's
//! own, and that it is computed rightly is for [`locality`](super::locality) to prove, not for this module.

mod blocks;
mod branches;
mod eager_aggregation;
mod estimate;
mod fragments;
mod local_copies;
mod moves;
mod partners;
mod predicate_elimination;
mod repartitioned_aggregation;
mod semi_join_reduction;
mod unit;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::{Column, Distribution, Generated, KeyColumn, NodeId, Relation};
use pg_query::NodeEnum;
use pg_query::protobuf::SelectStmt;
use pgerror::Result;

use super::locality::Not;
use super::{levels, local_plan, two_phase};
use crate::context::{Context, Named};
use crate::facts::Facts;
use crate::plan::{Exchange, ExchangePlan, FinalSql, Plan, Route, Scatter, Tables};
use crate::session::{Exchanges, SessionFacts};
use crate::tree::{self, Ask, Ref, Syntax, Walk};

use blocks::BLOCKS_MAX;
use local_copies::LocalCopy;

/// Most arrangements of tables that are tried for one statement of up to [`FEW_TABLES`].
const ARRANGEMENTS_MAX: usize = 800;
/// Most queries, each with some sub-selects replaced, that are looked at for such a statement: their number doubles with each sub-select.
const QUERIES_MAX: usize = 400;
/// Each look at a statement of more tables takes longer, so there are fewer.
const FEW_TABLES: usize = 16;

/// Plans a query that is not local; `None` if this module cannot, or need not: few rows are best brought to one node.
pub(super) fn plan(ctx: &Context<'_>, query: &SelectStmt, facts: &Facts) -> Result<Option<ExchangePlan>> {
    arranged(ctx, query, facts, true)
}

fn arranged(
    ctx: &Context<'_>,
    query: &SelectStmt,
    facts: &Facts,
    may_be_gathered: bool,
) -> Result<Option<ExchangePlan>> {
    if !is_plain(facts) {
        return Ok(None);
    }
    let mut numbered = query.clone().into_tree();
    if !has_only_tables(ctx, &numbered)? {
        return Ok(None);
    }
    let size = levels::number_tables(&mut numbered)?.div_ceil(FEW_TABLES).max(1);
    let Some(local_copies) = local_copies::make(ctx, &mut numbered)? else { return Ok(None) };
    let NodeEnum::SelectStmt(query) = numbered else { return Ok(None) };
    if two_phase::has_pseudo_types(ctx) {
        return Ok(None);
    }
    // What PostgreSQL said of the statement's columns does not hold for its sub-selects.
    let session = SessionFacts { describe: None, ..ctx.session.clone() };
    let search = Search {
        ctx: &Context { session: &session, is_orderless: facts.order_sensitive.is_none(), ..*ctx },
        facts,
        nodes: ctx.catalog.all_nodes(),
        local_copies: &local_copies,
        wanted: RefCell::default(),
        left: Cell::new(ARRANGEMENTS_MAX / size),
        queries_left: Cell::new(QUERIES_MAX / size),
    };
    let start =
        State { tables: local_copies.iter().map(|local_copy| local_copy.table.clone()).collect(), ..State::default() };
    if may_be_gathered && local_copies.is_empty() && search.has_few_rows(&query, &start)? {
        return Ok(None);
    }
    let Some(found) = search.best(&query, &start, &[])? else { return Ok(None) };
    Ok(Some(ExchangePlan {
        nodes: search.nodes.clone(),
        local_copies: local_copies.iter().map(|local_copy| local_copy.input.clone()).collect(),
        exchanges: found.state.exchanges,
        last: found.last,
        last_types: found.markers.types,
        last_inputs: found.markers.inputs,
        estimates_wanted: search.wanted.into_inner().into_iter().collect(),
    }))
}

/// A better plan of a query that is local but for its last step, if that may have many rows to work on.
pub(super) fn repartitioned(ctx: &Context<'_>, query: &SelectStmt, facts: &Facts) -> Result<Option<Plan>> {
    if repartitioned_aggregation::rows_at_most(ctx, query)? < estimate::ROWS_MIN {
        return Ok(None);
    }
    let Some(exchange_plan) = arranged(ctx, query, facts, false)? else { return Ok(None) };
    // To copy tables that the transaction has changed would be more work than is saved.
    Ok(match exchange_plan.local_copies.is_empty() {
        // Without exchanges it still may say what should be estimated.
        true if exchange_plan.exchanges.is_empty() && exchange_plan.estimates_wanted.is_empty() => {
            Some(exchange_plan.last)
        }
        true => Some(Plan::ExchangePlan(Box::new(exchange_plan))),
        false => None,
    })
}

/// A query that each node runs for itself as one whose rows can be sent on, if sessions beside the statement's own, whose work is
/// undone, read the same rows.
pub(super) fn of_scatter(ctx: &Context<'_>, facts: &Facts, scatter: &Scatter) -> Option<ExchangePlan> {
    let sees = matches!(ctx.session.exchanges, Exchanges::Seeing | Exchanges::SeeingBut([]));
    (sees && is_plain(facts)).then(|| ExchangePlan {
        nodes: scatter.nodes.clone(),
        local_copies: Vec::new(),
        exchanges: Vec::new(),
        last: Plan::Scatter(scatter.clone()),
        last_types: Vec::new(),
        last_inputs: Vec::new(),
        estimates_wanted: Vec::new(),
    })
}

/// Nothing in the statement cares where or how often it is evaluated.
fn is_plain(facts: &Facts) -> bool {
    facts.home.is_none()
        && facts.volatile.is_none()
        && facts.moving.is_none()
        && facts.system_column.is_none()
        && facts.function_nodes.is_none()
        && !(facts.writes || facts.locking || facts.sample || facts.modifying_cte)
}

/// Does it read distributed tables only, by names that stay clear when they are replaced?
fn has_only_tables(ctx: &Context<'_>, query: &NodeEnum) -> Result<bool> {
    let ctes = query.with_names()?;
    let mut plain = true;
    query.walk(&mut |node| {
        match node {
            Ref::RangeVar(name) => {
                let is_table = matches!(ctx.resolve(name)?, Named::Distributed(_));
                let is_cte = name.schemaname.is_empty() && ctes.contains(&name.relname);
                plain &= is_table != is_cte;
            }
            Ref::ColumnRef(column) => plain &= column.fields.len() <= 2,
            Ref::WithClause(with) => plain &= !with.recursive,
            _ => {}
        }
        Ok(plain)
    })?;
    Ok(plain)
}

struct Search<'a> {
    ctx: &'a Context<'a>,
    facts: &'a Facts,
    nodes: Vec<NodeId>,
    local_copies: &'a [LocalCopy],
    wanted: RefCell<BTreeSet<String>>,
    /// Arrangements that may still be tried.
    left: Cell<usize>,
    /// Queries that may still be looked at.
    queries_left: Cell<usize>,
}

/// What has been decided so far.
#[derive(Clone, Default)]
struct State {
    exchanges: Vec<Exchange>,
    /// The local copies and their tables, as the analysis sees them.
    tables: Vec<Arc<Relation>>,
    /// Sub-selects that have been replaced: text and table.
    made: Vec<(String, Arc<Relation>)>,
    /// Rows moved, weighted by their width.
    cost: f64,
}

impl State {
    /// An exchange into the next table. Its rows need none of the others' and are analysed where they come, if nothing else is said.
    fn exchange(&self, columns: &[Column], nodes: Vec<NodeId>, sql: FinalSql, route: Route) -> Exchange {
        Exchange {
            table: format!("loxo_x{}", self.exchanges.len() + 1),
            columns: columns.iter().map(|column| column.name.clone()).collect(),
            nodes,
            sql,
            inputs: Vec::new(),
            route,
            indexes: Vec::new(),
            is_analysed: true,
        }
    }

    fn add(&mut self, exchange: Exchange, columns: Vec<Column>, distribution: Distribution) -> Arc<Relation> {
        let table = exchanged_table(None, exchange.table.clone(), columns, distribution);
        self.add_as(exchange, table)
    }

    /// Adds an exchange into a table of which more is known.
    fn add_as(&mut self, exchange: Exchange, table: Relation) -> Arc<Relation> {
        let table = Arc::new(table);
        self.exchanges.push(exchange);
        self.tables.push(table.clone());
        table
    }
}

struct Found {
    state: State,
    last: Plan,
    markers: Markers,
}

/// Type markers in the texts of a last step that nodes run, and the exchanges (0-based) they are about.
#[derive(Clone, Default)]
struct Markers {
    types: Vec<(usize, usize)>,
    inputs: Vec<usize>,
}

impl Search<'_> {
    /// The cheapest plan of a query; `passed_over` are sub-selects that another branch of the search replaces.
    fn best(&self, query: &SelectStmt, state: &State, passed_over: &[String]) -> Result<Option<Found>> {
        match self.queries_left.get() {
            0 => return Ok(None),
            left => self.queries_left.set(left - 1),
        }
        if let Some(found) = self.found(query, state)? {
            return Ok(Some(found));
        }
        if let Some(found) = self.branches(query, state)? {
            return Ok(Some(found));
        }
        let mut blocks = self.blocks(query, state)?;
        if let Some((query, state)) = self.with_singles(query, &blocks, state)? {
            return self.best(&query, &state, passed_over);
        }
        blocks.truncate(BLOCKS_MAX);
        let mut best = self.moves(query, state)?;
        for (i, block) in blocks.iter().enumerate() {
            if passed_over.contains(&block.text) || self.left.get() == 0 {
                continue;
            }
            let passed: Vec<String> =
                passed_over.iter().cloned().chain(blocks[..i].iter().map(|b| b.text.clone())).collect();
            for (query, state) in self.replaced(query, block, state)? {
                if best.as_ref().is_some_and(|best| best.state.cost <= state.cost) {
                    continue;
                }
                keep_cheaper(&mut best, self.best(&query, &state, &passed)?);
            }
        }
        let others = self.eager_aggregates(query, state)?.into_iter().chain(self.semi_join_reductions(query, state)?);
        for (query, state) in others {
            if best.as_ref().is_none_or(|best| best.state.cost > state.cost) {
                keep_cheaper(&mut best, self.best(&query, &state, passed_over)?);
            }
        }
        Ok(best)
    }

    /// A query that needs no further movement, but perhaps to spread the work of its last step.
    fn found(&self, query: &SelectStmt, state: &State) -> Result<Option<Found>> {
        let Some(last) = self.local(query, state)? else { return Ok(None) };
        let repartitioned = if let Plan::Gather(_) = last { self.repartitioned(query, state)? } else { None };
        Ok(Some(repartitioned.unwrap_or_else(|| Found { state: state.clone(), last, markers: Markers::default() })))
    }

    /// The plan of a query that needs no further movement.
    fn local(&self, query: &SelectStmt, state: &State) -> Result<Option<Plan>> {
        let ctx = self.context(state);
        let node = query.clone().into_tree();
        let statement = crate::parse::build("", node)?;
        match local_plan(&ctx, &statement, query, self.facts) {
            Ok(plan) => with_text(plan, query).map(Some),
            // What is refused over moved rows may still be gathered.
            Err(Not::Local(_) | Not::Refused(_)) => Ok(None),
        }
    }

    /// Is it a table that an exchange has made?
    fn is_made(&self, state: &State, relation: &Relation) -> bool {
        let mut made = state.tables.iter().skip(self.local_copies.len());
        made.any(|made| made.name == relation.name && made.oid == relation.oid)
    }

    /// The column as one of a key, if rows can be told apart by what it holds.
    fn key(&self, column: &Column) -> Option<KeyColumn> {
        let key_type = self.ctx.catalog.key_type(column.type_oid).filter(|_| column.deterministic)?;
        Some(KeyColumn { number: column.number, key_type })
    }

    fn context<'s>(&'s self, state: &'s State) -> Context<'s> {
        Context { exchanged: &state.tables, ..self.ctx.afresh() }
    }
}

fn keep_cheaper(best: &mut Option<Found>, other: Option<Found>) {
    let Some(other) = other else { return };
    if best.as_ref().is_none_or(|best| other.state.cost < best.state.cost) {
        *best = Some(other);
    }
}

fn with_text(plan: Plan, query: &SelectStmt) -> Result<Plan> {
    Ok(match plan {
        Plan::Forward(mut forward) => {
            forward.sql = tree::deparse_select(query)?;
            Plan::Forward(forward)
        }
        Plan::Scatter(mut scatter) => {
            let query = query.clone().into_tree();
            (scatter.sql, scatter.tables) = (tree::deparse(&query)?, Arc::new(Tables::of(&query)?));
            Plan::Scatter(scatter)
        }
        other => other,
    })
}

/// `SELECT columns AS names FROM table`.
fn select_of_table(names: &[String], columns: &[Column], table: &str) -> SelectStmt {
    let target = |(name, column): (&String, &Column)| tree::target(tree::column(&[&column.name]), Some(name));
    let from = vec![tree::node(NodeEnum::RangeVar(tree::table("", table, None)))];
    tree::select_from(names.iter().zip(columns).map(target).collect(), from)
}

/// A table as an exchange makes it.
fn exchanged_table(of: Option<&Relation>, name: String, columns: Vec<Column>, distribution: Distribution) -> Relation {
    Relation {
        oid: 0,
        schema: String::new(),
        name,
        kind: catalog::RelationKind::Table,
        persistence: catalog::Persistence::Temporary,
        columns,
        distribution,
        by_default: false,
        view_definition: None,
        hides_operator: false,
        is_barrier: false,
        check_option: false,
        unique_keys: of.map(|relation| relation.unique_keys.clone()).unwrap_or_default(),
        other_unique: Vec::new(),
        exclusions: Vec::new(),
        foreign_keys: Vec::new(),
        parents: Vec::new(),
        is_partition: false,
        has_children: false,
        has_triggers: false,
        has_other_triggers: false,
        captured: Vec::new(),
        rules: Vec::new(),
        code: None,
        rows: 0.0,
    }
}

/// A column of which only the name is known: it is equal to nothing we could prove.
fn unknown_column() -> Column {
    Column {
        number: 0,
        name: String::new(),
        type_oid: 0,
        type_modifier: -1,
        type_name: String::new(),
        not_null: false,
        default: None,
        default_is_stable: true,
        generated: Generated::No,
        deterministic: false,
        default_collation: false,
        bytewise: false,
    }
}
