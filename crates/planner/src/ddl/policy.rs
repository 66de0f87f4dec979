//! CREATE and ALTER POLICY: each node decides about its own rows, so what a condition reads must be on all of them.

use std::sync::Arc;

use catalog::Relation;
use pg_query::Node;
use pg_query::protobuf::RangeVar;
use pgerror::{PgError, Result};

use super::{as_it_stands, everywhere};
use crate::context::{Context, Named};
use crate::distribution::auto_replicate;
use crate::facts::code::{POLICY_HINT, is_on_all_nodes};
use crate::facts::functions;
use crate::parse::Statement;
use crate::plan::{DdlKind, DdlPlan, Redistribute};
use crate::tree::Ask;

pub(super) fn plan(
    ctx: &Context<'_>,
    statement: &Statement,
    table: Option<&RangeVar>,
    conditions: [Option<&Node>; 2],
) -> Result<DdlPlan> {
    let mut plan = as_it_stands(statement, everywhere(ctx), DdlKind::Schema);
    let own = table.map(|name| ctx.distributed(name)).transpose()?.flatten().map(|table| table.oid);
    for condition in conditions.into_iter().flatten() {
        let facts = functions::facts(ctx, condition)?;
        facts.check()?;
        if facts.function_nodes.is_some() || facts.home.is_some() {
            return Err(refused("a policy whose functions read tables"));
        }
        for read in tables(ctx, condition)? {
            if Some(read.oid) == own {
                return Err(refused("a policy that reads its own table"));
            }
            plan.moves.extend(moves(ctx, &read, &plan.moves)?);
        }
    }
    Ok(plan)
}

fn refused(what: &str) -> PgError {
    PgError::unsupported(what).hint(POLICY_HINT)
}

/// What the sub-selects of a condition read.
fn tables(ctx: &Context<'_>, condition: &Node) -> Result<Vec<Arc<Relation>>> {
    let read = |name: &RangeVar| match ctx.resolve(name)? {
        Named::Distributed(table) => Ok(table),
        Named::View(view) => Err(refused(&format!("a policy that reads view \"{}\"", view.name))),
        Named::Home(_) => Err(refused(&format!("a policy that reads \"{}\"", name.relname))),
    };
    condition.tables()?.into_iter().map(read).collect()
}

/// A table whose distribution nobody chose becomes replicated.
fn moves(ctx: &Context<'_>, read: &Arc<Relation>, known: &[Redistribute]) -> Result<Vec<Redistribute>> {
    if is_on_all_nodes(ctx.catalog, read) {
        return Ok(Vec::new());
    }
    let has_all_nodes = read.distribution.nodes().len() == ctx.catalog.nodes().len();
    let moves = auto_replicate::replicated(ctx, read).filter(|_| has_all_nodes);
    let moves = moves.ok_or_else(|| refused(&format!("a policy that reads partitioned table \"{}\"", read.name)))?;
    Ok(moves.into_iter().filter(|moved| known.iter().all(|other| other.target.oid != moved.target.oid)).collect())
}
