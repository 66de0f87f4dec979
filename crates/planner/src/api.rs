//! What others ask of the planner with a catalog and a session.

use std::borrow::Cow;

use catalog::{Catalog, NodeId, Oid};
use pg_query::NodeEnum;
use pgerror::Result;

use crate::context::{Context, Planner};
use crate::distribution::redistribute::as_alter_table;
use crate::dml::temp_placement::{self, Late};
use crate::driver::Driver;
use crate::expanded::{self, Expanded};
use crate::facts::code::Stored;
use crate::facts::{code, functions, references};
use crate::parse::{Analysis, Shape, Statement, StatementKind};
use crate::plan::{CurrentOf, InsertStaged, LockTarget, Plan, Routine};
use crate::rewrite::inline::WantedBody;
use crate::rewrite::{inline, owner_reads};
use crate::session::{Moment, SessionFacts};
use crate::template::{Completion, ManyRows, Template};
use crate::tree::{Ask, Ref};
use crate::views;

fn context<'a>(catalog: &'a Catalog, session: &'a SessionFacts<'a>, analysis: Option<&'a Analysis>) -> Context<'a> {
    Context::new(&Driver, catalog, session, analysis)
}

fn context_of<'a>(statement: &'a Statement, catalog: &'a Catalog, session: &'a SessionFacts<'a>) -> Context<'a> {
    context(catalog, session, statement.analysis.as_ref())
}

/// Plans one statement.
///
/// Errors: 0A000 for what cannot be run correctly, with a hint; others (42P16, 42703, …) where our own clauses are wrong.
pub fn plan(statement: &Statement, catalog: &Catalog, session: &SessionFacts<'_>) -> Result<Plan> {
    Driver.plan(&context_of(statement, catalog, session), statement)
}

/// A schema change as PostgreSQL can be asked about it, where it may refuse it before anything of ours is looked at.
pub fn as_schema_change(statement: &Statement) -> Option<Cow<'_, str>> {
    match &statement.kind {
        StatementKind::CreateTable | StatementKind::AlterTable | StatementKind::CreateIndex => {
            Some(Cow::Borrowed(&statement.node_sql))
        }
        StatementKind::Redistribute(moved) => Some(Cow::Owned(as_alter_table(moved))),
        _ => None,
    }
}

/// The views of a statement that its plan replaces by their definitions, since it moves rows.
pub fn expanded_views(
    plan: &Plan,
    statement: &Statement,
    catalog: &Catalog,
    session: &SessionFacts<'_>,
) -> Result<Expanded> {
    expanded::expanded(&context_of(statement, catalog, session), plan, statement)
}

/// The materialized view that a REFRESH fills otherwise than the home node would by itself.
pub fn refreshed(statement: &Statement, catalog: &Catalog, session: &SessionFacts<'_>) -> Result<Option<Oid>> {
    crate::ddl::refreshed(&context_of(statement, catalog, session), statement)
}

/// Tables of which no row can be changed, since a trigger does what the nodes that fire it cannot do.
pub fn hindered_tables(catalog: &Catalog, session: &SessionFacts<'_>) -> Vec<Oid> {
    let ctx = context(catalog, session, None);
    catalog.relations().filter(|table| code::is_hindered(&ctx, table)).map(|table| table.oid).collect()
}

/// Refuses an expression that PostgreSQL has stored for `what`, if it calls one of these functions of PostgreSQL's and would be
/// another thing on each node.
pub fn check_stored(
    what: &str,
    stored: Stored,
    functions: &[Oid],
    catalog: &Catalog,
    session: &SessionFacts<'_>,
) -> Result<()> {
    code::check_stored(&context(catalog, session, None), what, stored, functions)
}

/// How somebody else than its owner refreshes a materialized view: as the owner, as in PostgreSQL.
///
/// Errors: 0A000 if code of users would run, which could become the caller again.
pub fn refresh_as(owner: &str, statement: &Statement, catalog: &Catalog, session: &SessionFacts<'_>) -> Result<Plan> {
    let ctx = context_of(statement, catalog, session);
    owner_reads::check_refresh(&ctx, statement)?;
    let sql = owner_reads::qualified_refresh(&ctx, statement)?;
    Ok(Plan::Routine(Box::new(Routine::As { owner: owner.to_owned(), sql })))
}

/// A plan that reads these views ahead of the statement, [as their owners](Statement::reading_as_owner); `None` if that cannot be done.
pub fn views_first(
    statement: &Statement,
    catalog: &Catalog,
    session: &SessionFacts<'_>,
    views: &[Oid],
) -> Result<Option<Plan>> {
    owner_reads::with_views_first(&context_of(statement, catalog, session), statement, views)
}

/// May the plan's temp tables be in a session beside the block's own? False in doubt.
pub fn runs_apart(plan: &Plan, catalog: &Catalog, session: &SessionFacts<'_>) -> bool {
    temp_placement::runs_apart(&context(catalog, session, None), plan)
}

/// The defaults that an INSERT into a stage leaves to be computed afterwards, if its plan [runs apart](runs_apart).
pub fn late_defaults(insert: &InsertStaged, catalog: &Catalog, session: &SessionFacts<'_>) -> Result<Late> {
    temp_placement::late_defaults(&context(catalog, session, None), insert)
}

/// All names that may mean something in the statement's FROM: columns, tables, aliases. `None` if not all of them are known.
pub fn names_in_from(
    sql: &str,
    catalog: &Catalog,
    session: &SessionFacts<'_>,
) -> Result<Option<std::collections::HashSet<String>>> {
    references::names_in_from(&context(catalog, session, None), sql)
}

/// The bodies that an analysed statement needs besides those it has.
pub fn wanted_bodies(analysis: &Analysis, catalog: &Catalog, session: &SessionFacts<'_>) -> Result<Vec<WantedBody>> {
    inline::wanted_bodies(&context(catalog, session, None), analysis)
}

/// What a statement with WHERE CURRENT OF changes; `None` if it has none at its top level, or changes a table of the home node.
pub fn changes_current(
    statement: &Statement,
    catalog: &Catalog,
    session: &SessionFacts<'_>,
) -> Result<Option<CurrentOf>> {
    crate::dml::changes_current(&context_of(statement, catalog, session), statement)
}

/// The text of a query that locks rows of this node, with columns that say where they are; and what these are about.
pub fn with_places(
    statement: &Statement,
    node: NodeId,
    catalog: &Catalog,
    session: &SessionFacts<'_>,
) -> Result<Option<(String, Vec<LockTarget>)>> {
    crate::select::with_places(&context_of(statement, catalog, session), statement, node)
}

/// The replicated tables that a statement is to lock on their first copies before it locks rows of theirs, in the order of their
/// names.
pub fn locked_copies(
    statement: &Statement,
    catalog: &Catalog,
    session: &SessionFacts<'_>,
) -> Result<Vec<(NodeId, String)>> {
    let ctx = context_of(statement, catalog, session);
    let facts = match (&statement.kind, statement.inner()) {
        (_, Some(inner)) => return locked_copies(inner, catalog, session),
        _ if locks_nothing(statement, catalog, session) => return Ok(Vec::new()),
        (StatementKind::Do, _) => functions::body_facts(&ctx, "plpgsql", &statement.sql)?,
        (kind, _) if kind.row_command().is_some() => functions::facts(&ctx, &*views::over_tables(&ctx, statement)?)?,
        _ => return Ok(Vec::new()),
    };
    let first = |nodes: Vec<NodeId>| ctx.primary_first(nodes).first().copied();
    let copies = facts.locked_copies.iter();
    let mut copies: Vec<(NodeId, String)> =
        copies.filter_map(|table| Some((first(table.distribution.nodes())?, table.qualified_name()))).collect();
    copies.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
    copies.dedup();
    Ok(copies)
}

/// Can a quick look tell that a statement locks no rows: has it no such clause, and names it neither a view nor anything that may call
/// a function of the user's?
fn locks_nothing(statement: &Statement, catalog: &Catalog, session: &SessionFacts<'_>) -> bool {
    let has_clause = |tree: &NodeEnum| tree.may_have(|node| matches!(node, Ref::LockingClause(_)));
    let calls = |analysis: &Analysis| !analysis.uses().functions.is_empty() || !analysis.uses().types.is_empty();
    statement.kind != StatementKind::Do
        && session.temp_views.is_empty()
        && session.temp_functions.is_empty()
        && !statement.node().is_none_or(has_clause)
        && !statement.analysis.as_ref().is_some_and(calls)
        && statement.is_plain(catalog)
}

impl Template {
    /// The template of a statement that has this shape, if it can have one.
    pub fn learn(sql: &str, shape: &Shape, catalog: &Catalog, session: &SessionFacts<'_>) -> Option<Self> {
        Self::learned(&context(catalog, session, None), sql, shape)
    }
}

impl ManyRows {
    /// What the rows lack, with the time of `moment`; `None` if it is nothing, or more than that.
    pub fn completion(
        &self,
        sql: &str,
        catalog: &Catalog,
        session: &SessionFacts<'_>,
        moment: &Moment,
    ) -> Option<Completion> {
        self.completion_in(&context(catalog, session, None), sql, moment)
    }
}
