//! Functions that no node can run by itself, called once for each row.
//!
//! The coordinator gets the rows first, runs the calls for one row after the other, and has the statement finished over what came of them:
//!
//! ```text
//! SELECT f(t.x) + 1, t.y FROM t WHERE t.y > 2
//!   rows   SELECT t.x, t.y FROM t WHERE t.y > 2
//!   each   SELECT f($1)
//!   then   SELECT c3 + 1, c2 FROM ROWS FROM (unnest($2), unnest($3)) AS loxo_r (c2, c3)
//! ```
//!
//! Values travel as texts between the three, in *slots*: columns of the rows first, then those that calls give. Each text is a
//! statement of its own, so the rest may have calls left: a query has them taken out in rounds, from the inside out.
//!
//! - Calls are made in PostgreSQL's order: rows as they come, in each row from left to right, and only where the expression
//!   around them gets there (CASE, COALESCE, AND, OR; WHERE comes before the select list).
//! - A VOLATILE function sees what its own statement has changed so far. Where it may use the table that is changed, rows are
//!   changed one by one, or the statement is left to be refused.
//! - What is not taken apart here is left to be refused.

mod change;
mod effects;
mod expression;
mod from;
mod having;
mod join;
mod lift;
mod returning;
mod select;
mod slots;
mod values;

use pg_query::NodeEnum;
use pg_query::protobuf::{InsertStmt, MergeStmt, SelectStmt};
use pgerror::{PgError, Result};

use crate::context::Context;
use crate::parse::{Statement, StatementKind};
use crate::plan::{Plan, Routine};
use crate::tree::{self, Get, Syntax};
use slots::Draft;

pub(crate) use effects::{called, change_what_is_read, may_touch, outdate, read_only, sees_changes, writers};
pub(crate) use returning::sub_selects;

/// An INSERT whose rows are all made before the first is stored, though a VOLATILE function may read the table: it is called row
/// by row, or the statement is refused.
pub(crate) fn of_filled(ctx: &Context<'_>, statement: &Statement, plan: &Plan) -> Result<Option<Routine>> {
    if !matches!(plan.change(), Plan::InsertStaged(_)) {
        return Ok(None);
    }
    let Some((mut draft, insert)) = filled_by_readers(ctx, statement)? else { return Ok(None) };
    if let Some(rows) = values::row_by_row(&draft, statement, insert)? {
        return Ok(Some(Routine::Each(rows)));
    }
    let split = if statement.is_rewritten { None } else { change::insert(&mut draft, insert)? };
    match split {
        Some((rows, rest)) if !draft.fails => draft.finish(rows, rest).map(|plan| Some(Routine::PerRow(plan))),
        _ => Err(PgError::unsupported("an INSERT of rows from a VOLATILE function that may read the table")
            .detail("In PostgreSQL it sees the rows that are there before its own.")
            .hint("Declare the function STABLE if it is, or insert the rows one by one.")),
    }
}

/// Is it an INSERT of several rows that VOLATILE functions make, which may read the table?
pub(crate) fn is_filled_by_readers(ctx: &Context<'_>, statement: &Statement) -> Result<bool> {
    Ok(filled_by_readers(ctx, statement)?.is_some())
}

fn filled_by_readers<'a, 's>(
    ctx: &'a Context<'a>,
    statement: &'s Statement,
) -> Result<Option<(Draft<'a>, &'s InsertStmt)>> {
    let Some(NodeEnum::InsertStmt(insert)) = statement.node() else { return Ok(None) };
    let (Some(target), true) = (&insert.relation, ctx.analysis.is_some()) else { return Ok(None) };
    if has_one_row(insert) {
        return Ok(None);
    }
    let mut draft = Draft::new(ctx, statement.parameters);
    draft.filled = Some(target.clone());
    Ok(draft.calls_in(&insert.select_stmt)?.then_some((draft, insert)))
}

/// One row of VALUES, or of defaults.
fn has_one_row(insert: &InsertStmt) -> bool {
    insert.select_stmt.get::<SelectStmt>().is_none_or(|select| {
        select.values_lists.len() == 1 || (select.values_lists.is_empty() && select.from_clause.is_empty())
    })
}

/// A MERGE from a sub-select with calls, which is run first. A VOLATILE function sees what the rows before have changed, and the
/// coordinator does not come to actions in between.
pub(crate) fn of_merge(ctx: &Context<'_>, statement: &Statement, merge: &MergeStmt) -> Result<Option<Routine>> {
    let draft = Draft::new(ctx, statement.parameters);
    let (Some(tree), Some(target), true) = (statement.node(), &merge.relation, ctx.analysis.is_some()) else {
        return Ok(None);
    };
    let called = draft.functions_in(&merge.source_relation)?;
    let others = SelectStmt { where_clause: merge.join_condition.clone(), ..tree::empty_select() };
    let calls_elsewhere = draft.calls_in(&merge.merge_when_clauses)? || draft.calls_in(&others)?;
    if called.is_empty() || calls_elsewhere || may_touch(ctx, &called, target)? {
        return Ok(None);
    }
    Ok(lift::lifted(ctx, statement, tree)?.map(Routine::Lifted))
}

/// Do all functions that a query calls, and that the coordinator has to run, surely do nothing but read?
pub(crate) fn only_reads(ctx: &Context<'_>, query: &NodeEnum) -> Result<bool> {
    let functions = Draft::new(ctx, 0).functions_in(query)?;
    Ok(!functions.is_empty() && read_only(ctx, &functions)?)
}

/// Is one of these functions VOLATILE?
pub(crate) fn calls_volatile(ctx: &Context<'_>, query: &NodeEnum) -> Result<bool> {
    let functions = Draft::new(ctx, 0).functions_in(query)?;
    Ok(functions.is_empty() || functions.iter().any(|function| function.volatility == 'v'))
}

/// How the statement is run if it calls functions for its rows; `None` if it does not, or is not taken apart.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Routine>> {
    let (Some(tree), true) = (statement.node(), ctx.analysis.is_some()) else { return Ok(None) };
    let mut draft = Draft::new(ctx, statement.parameters);
    let called = draft.functions_in(tree)?;
    if called.is_empty() {
        return Ok(None);
    }
    draft.writers = writers(ctx, called)?;
    if let NodeEnum::InsertStmt(insert) = tree
        && let Some(rows) = values::row_by_row(&draft, statement, insert)?
    {
        return Ok(Some(Routine::Each(rows)));
    }
    if let Some(lifted) = lift::lifted(ctx, statement, tree)? {
        return Ok(Some(Routine::Lifted(lifted)));
    }
    let split = match (&statement.kind, tree) {
        (StatementKind::Select, NodeEnum::SelectStmt(query)) => {
            select::split(&mut draft, query)?.map(|(rows, rest)| (rows.into_tree(), rest.into_tree()))
        }
        // Its rules have been followed already.
        _ if statement.is_rewritten => None,
        (StatementKind::Insert, NodeEnum::InsertStmt(insert)) => change::insert(&mut draft, insert)?,
        (StatementKind::Update, NodeEnum::UpdateStmt(update)) => change::update(&mut draft, update)?,
        (StatementKind::Delete, NodeEnum::DeleteStmt(delete)) => change::delete(&mut draft, delete)?,
        _ => None,
    };
    match split {
        Some((rows, rest)) if !draft.fails && !changes_too_much(&draft, tree, &rest)? => {
            draft.finish(rows, rest).map(|plan| Some(Routine::PerRow(plan)))
        }
        _ => Ok(None),
    }
}

/// Are calls made that change rows, of which a LIMIT would have spared PostgreSQL some? It makes those in FROM and of sets while rows are
/// wanted; what is in WHERE is called before rows are sorted. Nor may they change what a sub-select reads.
fn changes_too_much(draft: &Draft<'_>, tree: &NodeEnum, rest: &NodeEnum) -> Result<bool> {
    // What is left runs after the calls, and STABLE functions in it would see what these have changed.
    if effects::outdate(draft.ctx, &draft.functions, &called(draft.ctx, rest)?)? {
        return Ok(true);
    }
    let once = draft.calls.iter().filter(|call| call.once).flat_map(|call| call.query.target_list.clone());
    if effects::change_tables_read(draft.ctx, &draft.functions, &once.collect::<Vec<_>>())? {
        return Ok(true);
    }
    let is_cut = tree::rows_of(rest).is_some_and(|query| query.limit_count.is_some());
    let (true, None, Some(query)) = (is_cut, &draft.enough, tree::rows_of(tree)) else { return Ok(false) };
    let stops = draft.calls.iter().any(|call| call.is_set) || draft.calls_in(&query.from_clause)?;
    Ok(stops && effects::change_rows(draft.ctx, &draft.functions)?)
}
