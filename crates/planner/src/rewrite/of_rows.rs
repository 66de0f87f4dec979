//! Statements that do something with the rows of a query, where the coordinator has to run the query itself: COPY … TO, CREATE
//! TABLE AS, SELECT INTO, materialized views, cursors.
//!
//! ```text
//! COPY (SELECT f(k) FROM t) TO STDOUT
//!   first   SELECT f(k) FROM t
//!   then    COPY (SELECT CAST(v.v0 AS int) AS f FROM ROWS FROM (unnest('{…}'::text[])) AS v (v0)) TO STDOUT
//! ```
//!
//! The query is a statement of its own, with all of its steps; its rows stand as constants in what comes after it. What is a
//! change of rows with RETURNING can be copied in the same way.

use pg_query::NodeEnum;
use pgerror::{PgError, Result};

use crate::context::Context;
use crate::copy;
use crate::facts::functions::facts;
use crate::parse::{self, CopySubject, DeclareCursor, Statement, StatementKind};
use crate::plan::{DdlPlan, OfRows, Plan, Routine};
use crate::rewrite::{inline, per_row};
use crate::tree;
use crate::with;

impl OfRows {
    /// A COPY of the rows that this query gives.
    pub fn copied(statement: &Statement, rows: &str) -> Result<Statement> {
        let mut over = Statement { analysis: None, ..statement.clone() };
        if let StatementKind::Copy(copy) = &mut over.kind {
            copy.subject = CopySubject::Query(Box::new(only_statement(rows)?));
        }
        Ok(over)
    }

    /// The plan that makes a table and fills it with the rows that this query gives.
    pub fn filled(plan: &DdlPlan, rows: &str) -> DdlPlan {
        DdlPlan { follow_up: plan.fills_by.as_ref().map(|insert| format!("{insert} {rows}")), ..plan.clone() }
    }
}

fn only_statement(sql: &str) -> Result<Statement> {
    parse::parse(sql)?.into_iter().next().ok_or_else(|| PgError::internal("a query that is none"))
}

/// `None`: as any other statement.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Result<Option<OfRows>> {
    if let StatementKind::Copy(copy) = &statement.kind {
        return match &copy.subject {
            CopySubject::Query(query) if !copy.is_from => {
                copy::check_query(query)?;
                if !is_kept(ctx, query)? {
                    return Ok(None);
                }
                let is_volatile = query.node().map_or(Ok(true), |node| per_row::calls_volatile(ctx, node))?;
                Ok(Some(OfRows { query: query.sql.to_string(), fills: None, is_volatile, may_write: true }))
            }
            _ => Ok(None),
        };
    }
    let Some((query, plan)) = filled(ctx, statement, |query| calls_here(ctx, query))? else { return Ok(None) };
    let is_volatile = per_row::calls_volatile(ctx, &query)?;
    Ok(Some(OfRows { query: tree::deparse(&query)?, fills: Some(Box::new(plan)), is_volatile, may_write: true }))
}

/// How a query is run that reads views [with their owners' rights](crate::rewrite::owner_reads).
pub(crate) fn over_views(ctx: &Context<'_>, statement: &Statement) -> Result<Option<OfRows>> {
    // What the views themselves call is not VOLATILE, or they are not read so.
    let is_volatile = |query: &NodeEnum| Ok::<_, PgError>(facts(ctx, query)?.volatile.is_some());
    let read = match &statement.kind {
        StatementKind::Copy(copy) => match &copy.subject {
            CopySubject::Query(query) => query,
            CopySubject::Relation { .. } => return Ok(None),
        },
        StatementKind::DeclareCursor(declare) => &declare.inner,
        _ => {
            let Some((query, plan)) = filled(ctx, statement, |_| Ok(true))? else { return Ok(None) };
            let (is_volatile, fills) = (is_volatile(&query)?, Some(Box::new(plan)));
            return Ok(Some(OfRows { query: tree::deparse(&query)?, fills, is_volatile, may_write: false }));
        }
    };
    let is_volatile = read.node().map_or(Ok(true), is_volatile)?;
    Ok(Some(OfRows { query: read.sql.to_string(), fills: None, is_volatile, may_write: false }))
}

/// The query that fills a table or materialized view, if it is one that is `meant`, and the plan that makes what it fills.
fn filled(
    ctx: &Context<'_>,
    statement: &Statement,
    is_meant: impl Fn(&NodeEnum) -> Result<bool>,
) -> Result<Option<(NodeEnum, DdlPlan)>> {
    match (&statement.kind, statement.node()) {
        (StatementKind::CreateTableAs, Some(node)) => {
            let create = crate::ddl::normal_form(node)?;
            let is_filled = create.into.as_ref().is_some_and(|into| !into.skip_data);
            match create.query.as_deref().and_then(|query| query.node.as_ref()).filter(|_| is_filled) {
                Some(query) if is_meant(query)? => {
                    Ok(crate::ddl::filled_apart(ctx, statement, node)?.map(|plan| (query.clone(), plan)))
                }
                _ => Ok(None),
            }
        }
        (StatementKind::RefreshMaterializedView, Some(NodeEnum::RefreshMatViewStmt(refresh))) => {
            match crate::ddl::refreshed_query(ctx, refresh)? {
                Some(query) if is_meant(&query)? => match crate::ddl::plan(ctx, statement)? {
                    Plan::Ddl(plan) => Ok(Some((query, *plan))),
                    _ => Ok(None),
                },
                _ => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// Does the coordinator have to run a function that the query calls, or a view in it?
fn calls_here(ctx: &Context<'_>, query: &NodeEnum) -> Result<bool> {
    Ok(facts(ctx, query)?.refused.is_some() || inline::calls_any(ctx, query, true)?)
}

/// Is it a query, or change with RETURNING, that the nodes cannot give the rows of as it stands?
fn is_kept(ctx: &Context<'_>, query: &Statement) -> Result<bool> {
    let is_query = matches!(query.node(), Some(NodeEnum::SelectStmt(_))) && !with::changes_rows(query);
    if is_query || query.kind.row_command().is_none() || query.only_changes() {
        return is_run_here(ctx, query);
    }
    Ok(match ctx.planner.plan_as_it_stands(ctx, query) {
        Ok(Plan::Forward(_)) | Err(_) => false,
        Ok(Plan::Scatter(scatter)) => scatter.writes && scatter.nodes.len() > 1,
        Ok(Plan::Routine(routine)) => !matches!(*routine, Routine::Rewritten(_)),
        Ok(_) => true,
    })
}

/// Is it a statement that the coordinator runs in steps, as one whose rows can be kept until all are there?
fn is_run_here(ctx: &Context<'_>, query: &Statement) -> Result<bool> {
    let changes_rows = matches!(
        query.kind,
        StatementKind::Insert | StatementKind::Update | StatementKind::Delete | StatementKind::Merge
    );
    let may_be = match query.node() {
        Some(node) if query.kind == StatementKind::Select => with::changes_rows(query) || calls_here(ctx, node)?,
        _ => changes_rows,
    };
    Ok(may_be && ctx.planner.plan_in_steps(ctx, query).is_some())
}

/// How a cursor is declared whose rows are then computed.
pub(crate) fn of_cursor(ctx: &Context<'_>, declare: &DeclareCursor) -> Result<Option<OfRows>> {
    let Some(query) = declare.inner.node() else { return Ok(None) };
    if !calls_here(ctx, query)? || !is_run_here(ctx, &declare.inner)? {
        return Ok(None);
    }
    let is_volatile = per_row::calls_volatile(ctx, query)?;
    let may_write = !per_row::only_reads(ctx, query)?;
    Ok(Some(OfRows { query: declare.inner.sql.to_string(), fills: None, is_volatile, may_write }))
}
