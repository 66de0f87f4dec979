//! Views that are read as tables: where their rows are, if each node can work them out from its own.

use std::sync::Arc;

use catalog::{Distribution, KeyColumn, Relation};
use pgerror::Result;

use super::locality::{Analyzer, Env, RowDistribution, Split};
use crate::context::Context;
use crate::facts::functions;
use crate::views;

/// The view as a table: no node shows a row that another one shows, or all show the same.
pub(crate) fn as_table(ctx: &Context<'_>, view: &Relation) -> Option<Arc<Relation>> {
    ctx.catalog.shown(view.oid, || {
        let ctx = &Context { on_first: None, ..ctx.of_body() };
        distribution(ctx, view).ok().flatten().map(|distribution| {
            Arc::new(Relation { distribution, is_barrier: false, rows: rows(ctx, view), ..view.clone() })
        })
    })
}

/// Where the rows of a view are, if each node can show its part of them and it makes no difference which node evaluates what.
fn distribution(ctx: &Context<'_>, view: &Relation) -> Result<Option<Distribution>> {
    let body = views::whole(ctx, view)?;
    let facts = functions::facts(ctx, &body)?;
    let is_alike = facts.home.is_none() && facts.volatile.is_none() && facts.clock.is_none() && !facts.writes;
    let is_own = facts.function_nodes.is_none() && facts.reads.is_none() && facts.reads_part.is_none();
    let is_plain = facts.system_column.is_none() && !facts.names_table && !facts.bare_tableoid && !facts.sizes;
    if !is_alike || !is_own || !is_plain || facts.sample || facts.locking || facts.refused.is_some() {
        return Ok(None);
    }
    let Ok(block) = Analyzer::new(ctx).block(&body, &Env::default()) else { return Ok(None) };
    Ok(match block.part {
        RowDistribution::Any | RowDistribution::Home => None,
        RowDistribution::Replicated(nodes) => Some(Distribution::Replicated { nodes }),
        RowDistribution::Partitioned(split) => {
            let by_key = ctx.tables(&body)?.iter().find_map(|table| keyed(view, table, &split));
            Some(by_key.unwrap_or_else(|| Distribution::RoundRobin { nodes: split.nodes.clone() }))
        }
    })
}

/// The view's rows are placed as those of a table under it.
fn keyed(view: &Relation, table: &Relation, split: &Split) -> Option<Distribution> {
    let columns: Option<Vec<KeyColumn>> = (0..table.distribution.key().len())
        .map(|at| {
            let key = table.distribution.key()[at];
            let column = split.output_key(at).and_then(|position| view.columns.get(position))?;
            let is_same = table.column_at(key.number).is_some_and(|of| of.type_oid == column.type_oid);
            is_same.then_some(KeyColumn { number: column.number, ..key })
        })
        .collect();
    let columns = columns.filter(|_| split.is_in_space_of(&table.distribution))?;
    match &table.distribution {
        Distribution::Hash { map_id, map, .. } => {
            Some(Distribution::Hash { columns, map_id: *map_id, map: map.clone() })
        }
        Distribution::Modulo { map_id, map, .. } => {
            Some(Distribution::Modulo { column: *columns.first()?, map_id: *map_id, map: map.clone() })
        }
        _ => None,
    }
}

/// An estimate.
fn rows(ctx: &Context<'_>, view: &Relation) -> f64 {
    let tables = views::whole(ctx, view).and_then(|body| ctx.tables(&body)).unwrap_or_default();
    tables.iter().map(|table| table.rows).fold(0.0, f64::max)
}
