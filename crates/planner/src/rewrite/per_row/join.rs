//! Calls in ON of inner joins: PostgreSQL takes such a condition as one of WHERE.
//!
//! How often it makes the call is a matter of its plan, so that is done only with functions that do nothing but read.

use pg_query::Node;
use pg_query::protobuf::{JoinExpr, JoinType, SelectStmt};
use pgerror::Result;

use super::effects::read_only;
use super::select::split_conditions;
use super::slots::Draft;
use crate::tree::{self, Get};

/// Takes conditions with calls out of ON.
pub(super) fn by_where(draft: &Draft<'_>, query: &mut SelectStmt) -> Result<()> {
    let mut taken = Vec::new();
    let mut items = query.from_clause.clone();
    items.iter_mut().try_for_each(|item| take(draft, item, &mut taken))?;
    if taken.is_empty() || !read_only(draft.ctx, &draft.functions_in(&taken)?)? {
        return Ok(());
    }
    query.from_clause = items;
    let conditions = tree::conjuncts(query.where_clause.as_deref()).into_iter().cloned();
    query.where_clause = tree::conjunction(conditions.chain(taken).collect()).map(Box::new);
    Ok(())
}

/// A join's own conditions, and those of joins under it whose rows all come through.
fn take(draft: &Draft<'_>, item: &mut Node, taken: &mut Vec<Node>) -> Result<()> {
    let Some(join) = item.get_mut::<JoinExpr>() else { return Ok(()) };
    if join.alias.is_some() {
        return Ok(());
    }
    let left = matches!(join.jointype(), JoinType::JoinInner | JoinType::JoinLeft);
    let right = matches!(join.jointype(), JoinType::JoinInner | JoinType::JoinRight);
    let is_inner = left && right;
    if let (true, Some(side)) = (left, join.larg.as_deref_mut()) {
        take(draft, side, taken)?;
    }
    if let (true, Some(side)) = (right, join.rarg.as_deref_mut()) {
        take(draft, side, taken)?;
    }
    if is_inner { own(draft, join, taken) } else { Ok(()) }
}

fn own(draft: &Draft<'_>, join: &mut JoinExpr, taken: &mut Vec<Node>) -> Result<()> {
    if !draft.calls_in(&join.quals)? {
        return Ok(());
    }
    let (kept, late) = split_conditions(draft, join.quals.as_deref())?;
    join.quals = Some(Box::new(tree::conjunction(kept).unwrap_or_else(|| tree::boolean(true))));
    taken.extend(late);
    Ok(())
}
