//! Aggregates that stand in a sub-select but belong to a query around it, since all columns of their arguments do:
//! `SELECT (SELECT max(o.x)) FROM o` gives one row.

use std::collections::HashSet;

use pg_query::protobuf::{ColumnRef, FuncCall, SelectStmt};
use pgerror::Result;

use super::shape;
use crate::context::Context;
use crate::tree::{self, Ask, Ref, Walk};

/// Is there one below the level? It may belong further up still, where the same is asked. To a set operation belongs none.
pub(super) fn any(ctx: &Context<'_>, select: &SelectStmt) -> Result<bool> {
    if tree::is_operation(select) {
        return Ok(false);
    }
    let below = select.collect(|node| match node {
        Ref::SelectStmt(inner) if !std::ptr::eq(inner, select) => Some(inner),
        _ => None,
    })?;
    crate::try_any(below, |inner| {
        let names = table_names(&inner.from_clause)?;
        let calls = shape::aggregates(ctx, inner)?;
        crate::try_any(calls, |call| is_foreign(call, &names, inner.from_clause.is_empty()))
    })
}

/// Do all columns of the call come from outside its level, whose tables have these names? Columns without a table's name
/// count as the level's own if it has tables.
fn is_foreign(call: &FuncCall, names: &HashSet<String>, no_tables: bool) -> Result<bool> {
    let inner_names = table_names(call)?;
    let (mut own, mut foreign) = (0, 0);
    let mut count = |column: &ColumnRef, nested: bool| {
        let fields: Vec<&str> = column.fields.iter().filter_map(tree::text_of).collect();
        match fields.as_slice() {
            [.., table, _] if inner_names.contains(*table) => {}
            [.., table, _] if names.contains(*table) => own += 1,
            [_] if nested => {}
            [_] if !no_tables => own += 1,
            _ => foreign += 1,
        }
    };
    call.walk(&mut |node| {
        match node {
            Ref::SelectStmt(select) => {
                select.each(|node| {
                    if let Ref::ColumnRef(column) = node {
                        count(column, true);
                    }
                })?;
                return Ok(false);
            }
            Ref::ColumnRef(column) => count(column, false),
            _ => {}
        }
        Ok(true)
    })?;
    Ok(own == 0 && foreign > 0)
}

/// Names of tables, and all aliases, at and below some nodes.
fn table_names(nodes: &impl Walk) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    nodes.each(|node| match node {
        Ref::RangeVar(table) if table.alias.is_none() => drop(names.insert(table.relname.clone())),
        Ref::Alias(alias) => drop(names.insert(alias.aliasname.clone())),
        _ => {}
    })?;
    Ok(names)
}
