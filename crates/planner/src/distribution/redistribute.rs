//! `ALTER TABLE t DISTRIBUTE BY … | TO NODE … | TO GROUP … | ADD NODE … | DELETE NODE …`.

use std::sync::Arc;

use catalog::{Relation, quote_identifier};
use pgerror::{PgError, Result, SqlState};

use super::constraints::{self, NewTable};
use super::placements;
use crate::context::{Context, Named};
use crate::parse::Redistribution;
use crate::plan::{Forward, Placement, Plan, Redistribute};
use crate::tree;

/// The complete new placement of a table, checked against its constraints.
pub(crate) fn redistribute(ctx: &Context<'_>, statement: &Redistribution) -> Result<Plan> {
    let name = tree::table(statement.schema.as_deref().unwrap_or_default(), &statement.name, None);
    let target = match ctx.resolve(&name)? {
        Named::Distributed(target) => target,
        Named::Home(None) => return Ok(unknown(ctx, statement)),
        _ => {
            let message = format!("\"{}\" is not a distributed table", statement.name);
            return Err(PgError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
    };
    if !target.parents.is_empty() {
        return Err(PgError::unsupported("redistribution of a partition or child").hint("Redistribute its parent."));
    }
    let Some(current) = placements::placement_of(&target) else {
        return Err(PgError::internal("a table without a placement"));
    };
    let mut nodes = match &statement.clause.nodes {
        Some(selection) => placements::nodes_of(ctx, Some(selection))?,
        None => placements::nodes(ctx, &current),
    };
    for name in &statement.add {
        nodes.push(placements::node_named(ctx, name)?);
    }
    for name in &statement.delete {
        let gone = placements::node_named(ctx, name)?;
        nodes.retain(|n| *n != gone);
    }
    let nodes = placements::some_in_order(nodes)?;
    let explicit = statement.clause.kind.as_ref().and_then(|kind| {
        let map = placements::map_over(ctx, statement.clause.nodes.as_ref(), &nodes);
        placements::explicit(kind, nodes.clone(), &map)
    });
    let placement = explicit.unwrap_or_else(|| placements::moved(current, &nodes));
    Ok(Plan::Redistribute(moved(ctx, &target, &placement, false)?))
}

/// No table, or a system's: PostgreSQL says so, or skips it under IF EXISTS.
fn unknown(ctx: &Context<'_>, statement: &Redistribution) -> Plan {
    Plan::Forward(Forward {
        nodes: vec![ctx.home()],
        sql: as_alter_table(statement),
        writes: true,
        is_snapshot_independent: false,
    })
}

/// What PostgreSQL refuses of an ALTER TABLE of this table, it refuses of this. No relation has such a column.
pub(crate) fn as_alter_table(statement: &Redistribution) -> String {
    let schema = statement.schema.as_deref().map(|schema| format!("{}.", quote_identifier(schema))).unwrap_or_default();
    let (if_exists, name) = (if statement.if_exists { "IF EXISTS " } else { "" }, quote_identifier(&statement.name));
    format!("ALTER TABLE {if_exists}{schema}{name} DROP COLUMN \"loxo:\"")
}

/// A table and all below it, on their way to another placement, if constraints allow that. What is below comes first: a
/// parent is never moved with rows whose places differ.
pub(crate) fn moved(
    ctx: &Context<'_>,
    table: &Arc<Relation>,
    placement: &Placement,
    by_default: bool,
) -> Result<Vec<Redistribute>> {
    let mut moves = Vec::new();
    for target in ctx.family(table).into_iter().rev() {
        constraints::check(ctx, &NewTable::with_constraints(ctx, &target), placement)?;
        let others = ctx.catalog.relations().filter(|table| table.oid != target.oid);
        if others.flat_map(|table| &table.foreign_keys).any(|key| key.referenced == target.oid) {
            return Err(PgError::unsupported("redistribution of a table to which foreign keys refer")
                .hint("Drop the foreign keys, redistribute the tables, and add them again."));
        }
        moves.push(Redistribute { target, placement: placement.clone(), by_default });
    }
    Ok(moves)
}
