//! What PostgreSQL never computes: the output, order and groups of an EXISTS (`simplify_EXISTS_query` in its `subselect.c`).

use pg_query::protobuf::{SelectStmt, SubLink, SubLinkType};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::calls_any;
use crate::context::Context;
use crate::select::shape;
use crate::tree::{self, Ask, Get, Ref, Syntax, Walk};

/// Takes it out where it has calls of functions that no node can run. Was there any?
pub(super) fn take_out(ctx: &Context<'_>, tree: &mut NodeEnum) -> Result<bool> {
    let mut found = false;
    tree.rewrite(&mut |node| {
        if let Some(link) = node.get_mut::<SubLink>()
            && link.sub_link_type() == SubLinkType::ExistsSublink
            && let Some(select) = link.subselect.get_mut()
        {
            found |= only_exists(ctx, select)?;
        }
        Ok(true)
    })?;
    Ok(found)
}

/// Whose columns are read is still looked at, for the user's rights.
fn only_exists(ctx: &Context<'_>, select: &mut SelectStmt) -> Result<bool> {
    let rest = SelectStmt { group_clause: Vec::new(), ..select.clone() };
    let has_sets = select.group_clause.may_have(|node| matches!(node, Ref::GroupingSet(_)));
    let is_limited = select.limit_offset.is_some() || select.limit_count.as_deref().is_some_and(|n| !is_positive(n));
    let is_plain = !tree::is_operation(select) && !has_sets && !is_limited && select.locking_clause.is_empty();
    if !is_plain || shape::is_aggregated(ctx, &rest)? || !shape::windows(select)?.is_empty() {
        return Ok(false);
    }
    let unread = [&select.target_list, &select.distinct_clause, &select.group_clause, &select.sort_clause];
    let (mut columns, mut calls, mut is_set) = (Vec::new(), false, false);
    for part in unread {
        calls |= calls_any(ctx, part, false)?;
        part.walk(&mut |node| {
            is_set |= matches!(node, Ref::FuncCall(call) if shape::gives_set(ctx, call));
            columns.extend(if let Ref::ColumnRef(column) = node { Some(column.clone().into_node()) } else { None });
            Ok(!matches!(node, Ref::SelectStmt(_)))
        })?;
    }
    if calls && !is_set {
        select.target_list = columns.into_iter().map(|column| tree::target(column, None)).collect();
        select.limit_count = None;
        for unread in [&mut select.distinct_clause, &mut select.group_clause, &mut select.sort_clause] {
            unread.clear();
        }
    }
    Ok(calls && !is_set)
}

/// As PostgreSQL tells it when it plans: a constant, or no limit.
fn is_positive(count: &Node) -> bool {
    tree::integer_of(tree::under_casts(count)).is_some_and(|count| count > 0)
}
