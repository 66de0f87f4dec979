//! Sub-selects in RETURNING and ON CONFLICT that no node can compute where it changes its rows.
//!
//! One that refers to nothing outside itself is run before the change. One that refers to the row is computed when all rows are
//! changed, over what the change has returned:
//!
//! ```text
//! UPDATE t SET a = 1 RETURNING k, (SELECT n FROM u WHERE u.k = t.k)
//!   rows   UPDATE t SET a = 1 RETURNING k
//!   then   SELECT c0, (SELECT n FROM u WHERE u.k = c0) FROM ROWS FROM (unnest($1)) AS loxo_r (c0)
//! ```
//!
//! In PostgreSQL both see what was there before the statement, so the second may read nothing that the change, a trigger or
//! the action of a foreign key may have touched.

use std::collections::HashSet;

use catalog::{Oid, Relation};
use pg_query::protobuf::{RangeVar, ReturningClause, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::effects::{called, may_touch, meet};
use super::from::to_slots;
use super::slots::{Draft, rows_item};
use crate::context::{Context, Named};
use crate::facts::functions::facts;
use crate::parse::Statement;
use crate::plan::{Lifted, Routine};
use crate::rewrite::lifted;
use crate::select::names::is_closed;
use crate::tree::{self, Ask, Get, Syntax, Walk, aliases};

/// The change with its sub-selects taken out; `None` if it has none, or if it is not certain that they give the same.
pub(crate) fn sub_selects(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Routine>> {
    let (Some(tree), true) = (statement.node(), ctx.analysis.is_some() && !statement.is_rewritten) else {
        return Ok(None);
    };
    if see_change(ctx, tree)? {
        return Ok(None);
    }
    let mut tree = tree.clone();
    let (returned, met) = closed(ctx, &mut tree)?;
    if !returned.is_empty() || met > 0 {
        let lifted = lifted::of_parts(returned, &tree, statement.parameters)?;
        return Ok(lifted.map(|lifted| Routine::Lifted(Lifted { may_be_unwanted: met > 0, ..lifted })));
    }
    let Some((clause, target, mut names)) = parts_of(&mut tree)? else { return Ok(None) };
    if !only_reads_others(ctx, clause, &target)? {
        return Ok(None);
    }
    names.insert(tree::alias_of(&target).to_owned());
    let mut draft = Draft::new(ctx, statement.parameters);
    let mut rest = tree::select_from(clause.exprs.clone(), vec![rows_item()]);
    rest.target_list.iter_mut().for_each(tree::name_output);
    to_slots(&mut draft, &mut rest, &names, true)?;
    draft.changes_first = true;
    clause.exprs = draft.targets();
    match draft.fails {
        true => Ok(None),
        false => draft.finish(tree, rest.into_tree()).map(|plan| Some(Routine::PerRow(plan))),
    }
}

/// Do calls beside or in its sub-selects see what the change does, or others of its calls?
pub(super) fn see_change(ctx: &Context<'_>, tree: &NodeEnum) -> Result<bool> {
    let clause = tree::returning_of(tree).filter(|clause| clause.has_sub_select().unwrap_or(true));
    let (Some(clause), Some(target)) = (clause, tree::target_of(tree)) else { return Ok(false) };
    let returned = called(ctx, clause)?;
    Ok(may_touch(ctx, &returned, target)? || meet(ctx, &returned, &called(ctx, tree)?)?)
}

/// RETURNING, the table that is changed, and the names of others that RETURNING may refer to.
fn parts_of(tree: &mut NodeEnum) -> Result<Option<(&mut ReturningClause, RangeVar, HashSet<String>)>> {
    let from = match &*tree {
        NodeEnum::InsertStmt(_) => &[][..],
        NodeEnum::UpdateStmt(update) => update.from_clause.as_slice(),
        NodeEnum::DeleteStmt(delete) => delete.using_clause.as_slice(),
        _ => return Ok(None),
    };
    let (names, target) = (aliases(from)?, tree::target_of(tree).cloned());
    let clause = tree::returning_mut(tree).and_then(Option::as_mut).filter(|clause| clause.options.is_empty());
    Ok(clause.zip(target).map(|(clause, target)| (clause, target, names)))
}

/// Takes out sub-selects that read tables and refer to nothing outside themselves. Gives them, and how many are of ON CONFLICT:
/// PostgreSQL computes these if a row is met, so none that calls functions of users, or does more than compute, is taken.
fn closed(ctx: &Context<'_>, tree: &mut NodeEnum) -> Result<(Vec<SelectStmt>, usize)> {
    let mut parts = Vec::new();
    if let NodeEnum::InsertStmt(insert) = &mut *tree {
        let may = |select: &SelectStmt| Ok(facts(ctx, select)?.home.is_none() && called(ctx, select)?.is_empty());
        take_closed(ctx, &mut insert.on_conflict_clause, &mut parts, may)?;
    }
    let met = parts.len();
    if let Some((clause, ..)) = parts_of(tree)? {
        take_closed(ctx, clause, &mut parts, |_| Ok(true))?;
    }
    Ok((parts, met))
}

fn take_closed(
    ctx: &Context<'_>,
    clause: &mut impl Walk,
    parts: &mut Vec<SelectStmt>,
    may: impl Fn(&SelectStmt) -> Result<bool>,
) -> Result<()> {
    clause.rewrite(&mut |node: &mut Node| {
        let Some(select) = node.get_mut::<SelectStmt>() else { return Ok(true) };
        if !select.tables()?.is_empty() && is_closed(ctx, select)? && may(select)? {
            let rows = tree::parse_select(&Lifted::marker(parts.len()))?;
            parts.push(std::mem::replace(select, rows));
        }
        Ok(false)
    })
}

/// Is all that it reads in tables which the change leaves alone?
fn only_reads_others(ctx: &Context<'_>, clause: &ReturningClause, target: &RangeVar) -> Result<bool> {
    let Named::Distributed(changed) = ctx.resolve(target)? else { return Ok(false) };
    if changed.has_triggers || !changed.captured.is_empty() || !changed.rules.is_empty() {
        return Ok(false);
    }
    let family: HashSet<Oid> = ctx.family(&changed).iter().map(|table| table.oid).collect();
    let names = clause.tables()?;
    for name in &names {
        let is_other = |table: &Relation| {
            !family.contains(&table.oid)
                && !table.parents.iter().any(|parent| family.contains(parent))
                && !table.has_children
                && !table.foreign_keys.iter().any(|key| key.acts)
        };
        match ctx.resolve(name)? {
            Named::Distributed(table) if is_other(&table) && !changed.parents.contains(&table.oid) => {}
            _ => return Ok(false),
        }
    }
    Ok(!names.is_empty())
}
