//! `ALTER TABLE t DISTRIBUTE BY … | TO NODE … | TO GROUP … | ADD NODE … | DELETE NODE …`.

use pgerror::{PgError, Result, SqlState};

use super::constraints::{self, NewTable, NewUnique};
use super::decide;
use crate::context::{Context, Named};
use crate::parse::Redistribution;
use crate::plan::{Plan, Redistribute};
use crate::tree;

/// The complete new placement of a table, checked against its constraints.
pub(crate) fn redistribute(ctx: &Context<'_>, statement: &Redistribution) -> Result<Plan> {
    let name = tree::table(statement.schema.as_deref().unwrap_or_default(), &statement.name, None);
    let Named::Distributed(target) = ctx.resolve(&name)? else {
        let message = format!("\"{}\" is not a distributed table", statement.name);
        return Err(PgError::new(SqlState::WRONG_OBJECT_TYPE, message));
    };
    if target.is_partition || target.has_children || target.parent.is_some() {
        return Err(PgError::unsupported("redistribution of a partition or of a table with children")
            .hint("Create a new table, INSERT … SELECT, and rename."));
    }
    let Some(current) = decide::placement_of(&target) else {
        return Err(PgError::internal("a table without a placement"));
    };
    let mut nodes = match &statement.clause.nodes {
        Some(selection) => decide::nodes_of(ctx, Some(selection))?,
        None => decide::nodes(ctx, &current),
    };
    for name in &statement.add {
        nodes.push(decide::node_named(ctx, name)?);
    }
    for name in &statement.delete {
        let gone = decide::node_named(ctx, name)?;
        nodes.retain(|n| *n != gone);
    }
    nodes.sort_unstable();
    nodes.dedup();
    if nodes.is_empty() {
        return Err(PgError::new(SqlState::INVALID_TABLE_DEFINITION, "a table needs at least one datanode"));
    }
    let explicit = statement.clause.kind.as_ref().and_then(|kind| decide::explicit(kind, nodes.clone()));
    let placement = explicit.unwrap_or_else(|| decide::moved(current, &nodes));
    let mut table = NewTable::existing(ctx, &target);
    table.unique = target
        .unique_keys
        .iter()
        .map(|k| NewUnique {
            columns: k.columns.iter().filter_map(|n| target.column_at(*n)).map(|c| c.name.clone()).collect(),
            primary: k.primary,
        })
        .collect();
    constraints::check(ctx, &table, &placement)?;
    let is_referenced = || ctx.catalog.relations().any(|r| r.foreign_keys.iter().any(|f| f.referenced == target.oid));
    if !target.foreign_keys.is_empty() || is_referenced() {
        return Err(PgError::unsupported("redistribution of a table with foreign keys")
            .hint("Drop the foreign keys, redistribute the tables, and add them again."));
    }
    Ok(Plan::Redistribute(Box::new(Redistribute { target, placement, by_default: false })))
}
