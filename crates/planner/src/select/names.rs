//! Names within one query: does a sub-select refer to anything outside itself, is a row named as a whole, and what are the output columns called?

use std::collections::HashSet;

use pg_query::Node;
use pg_query::protobuf::{ColumnRef, List, ResTarget, SelectStmt};
use pgerror::Result;

use crate::context::Context;
use crate::tree::{self, Ask, Get, Ref, Walk};

/// Does every name in `select` lead to something in it? PostgreSQL prints a column without its table only where that is the only one
/// of the level, or where a join has merged the column.
pub(crate) fn is_closed(ctx: &Context<'_>, select: &SelectStmt) -> Result<bool> {
    closed(select, &HashSet::new(), ctx.analysis.is_some())
}

fn closed<'s>(select: &'s SelectStmt, outer: &HashSet<&'s str>, is_printed: bool) -> Result<bool> {
    let mut visible = outer.clone();
    select.from_clause.walk(&mut |node| {
        match node {
            Ref::RangeVar(name) => drop(visible.insert(tree::alias_of(name))),
            Ref::Alias(alias) => drop(visible.insert(&alias.aliasname)),
            _ => {}
        }
        Ok(!matches!(node, Ref::SelectStmt(_)))
    })?;
    let is_own = |column: &ColumnRef| match column.fields.as_slice() {
        [_] => is_printed && !select.from_clause.is_empty(),
        [.., table, _] => tree::text_of(table).is_some_and(|table| visible.contains(table)),
        [] => false,
    };
    let (mut inner, mut is_closed) = (Vec::new(), true);
    select.walk(&mut |node| {
        match node {
            Ref::SelectStmt(sub) if !std::ptr::eq(sub, select) => {
                inner.push(sub);
                return Ok(false);
            }
            Ref::ColumnRef(column) => is_closed &= is_own(column),
            _ => {}
        }
        Ok(is_closed)
    })?;
    for sub in inner {
        is_closed = is_closed && closed(sub, &visible, is_printed)?;
    }
    Ok(is_closed)
}

/// Is the row of such a table named as a whole? PostgreSQL prints `t.*`; before that it may have been `t`, or a column.
pub(crate) fn names_row(tree: &impl Walk, is_such: impl Fn(&str) -> bool) -> Result<bool> {
    tree.any(|node| match node {
        Ref::ColumnRef(column) => match column.fields.as_slice() {
            [name] => tree::text_of(name).is_none_or(&is_such),
            [table, ..] => tree::is_star(&column.fields) && tree::text_of(table).is_some_and(&is_such),
            [] => false,
        },
        _ => false,
    })
}

/// Names of the output columns, if known.
pub(crate) fn outputs(select: &SelectStmt) -> Option<Vec<String>> {
    let first = tree::leftmost(select);
    if let Some(row) = first.values_lists.first().and_then(|row| row.get::<List>()) {
        return Some((1..=row.items.len()).map(|i| format!("column{i}")).collect());
    }
    let name = |target: &Node| target.get::<ResTarget>().map(tree::output_name);
    (!first.target_list.iter().any(tree::shows_star)).then(|| first.target_list.iter().filter_map(name).collect())
}
