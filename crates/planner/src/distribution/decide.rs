//! From a distribution clause, or from nothing, to a [`Placement`].

use std::sync::Arc;

use catalog::{NodeId, Relation};
use pgerror::{PgError, Result};
use placement::KeyType;

use super::constraints::{self, NewColumn, NewTable};
use super::{auto_replicate, placements};
use crate::context::Context;
use crate::parse::DistributeBy;
use crate::plan::{MapRequest, Placement, Redistribute};

/// Where a new table's rows go.
pub(crate) struct Decision {
    pub placement: Placement,
    /// Tables that become replicated first.
    pub moves: Vec<Redistribute>,
    pub by_default: bool,
}

impl Decision {
    pub fn chosen(placement: Placement) -> Self {
        Self { placement, moves: Vec::new(), by_default: false }
    }
}

/// Decides where a new table's rows go, and checks that its constraints can be kept there.
pub(crate) fn decide(
    ctx: &Context<'_>,
    table: &NewTable,
    clause: Option<&DistributeBy>,
    like: Option<&Arc<Relation>>,
) -> Result<Decision> {
    let selection = clause.and_then(|c| c.nodes.as_ref());
    let nodes = placements::nodes_of(ctx, selection)?;
    let map = placements::map_over(ctx, selection, &nodes);
    let chosen = clause.and_then(|c| c.kind.as_ref()).and_then(|kind| placements::explicit(kind, nodes.clone(), &map));
    let alike = || {
        let placement = placements::placement_of(like?)?;
        Some(if selection.is_some() { placements::moved(placement, &nodes) } else { placement })
    };
    if let Some(placement) = chosen.or_else(alike) {
        let moves = auto_replicate::check(ctx, table, &placement)?;
        return Ok(Decision { moves, ..Decision::chosen(placement) });
    }
    let candidates = defaults(table, &nodes, &map, selection.is_some());
    // The first rule whose result the table's own constraints allow; after that, the first for which other tables can give
    // way; the first rule's objection if there is none.
    let is_allowed = |placement: &&Placement| {
        constraints::check(ctx, table, placement).is_ok() && !constraints::may_move_rows(table, placement)
    };
    if let Some(placement) = candidates.iter().find(is_allowed) {
        return Ok(Decision { by_default: true, ..Decision::chosen(placement.clone()) });
    }
    let mut objection = None;
    for placement in candidates {
        match auto_replicate::check(ctx, table, &placement) {
            Ok(moves) => return Ok(Decision { placement, moves, by_default: true }),
            Err(error) => objection = objection.or(Some(error)),
        }
    }
    Err(objection.unwrap_or_else(|| PgError::internal("no placement")))
}

/// Postgres-XL's default rule: candidates in order, and at last what allows every constraint.
fn defaults(table: &NewTable, nodes: &[NodeId], map: &MapRequest, nodes_given: bool) -> Vec<Placement> {
    let hash = |column: &str| Placement::Hash { columns: vec![column.to_owned()], map: map.clone() };
    let mut candidates = Vec::new();
    if table.foreign_keys.iter().any(|f| f.is_self) {
        candidates.push(Placement::Replicated { nodes: nodes.to_vec() });
    }
    if !nodes_given {
        candidates.extend(table.foreign_keys.iter().filter_map(constraints::colocated_with_referenced));
    }
    let keys = table.unique.iter().filter(|u| u.primary).chain(table.unique.iter().filter(|u| !u.primary));
    for key in keys {
        let hashable = key.columns.iter().find(|c| table.column(c).is_some_and(is_good_key));
        candidates.extend(hashable.map(|column| hash(column)));
    }
    if table.unique.is_empty() {
        candidates.extend(table.columns.iter().find(|c| is_good_key(c)).map(|c| hash(&c.name)));
    }
    candidates.push(Placement::RoundRobin { nodes: nodes.to_vec() });
    candidates.push(Placement::Replicated { nodes: nodes.to_vec() });
    candidates
}

/// A column that may be chosen unasked. Postgres-XL has no floating-point keys.
fn is_good_key(column: &NewColumn) -> bool {
    let is_float = matches!(column.key_type, Some(KeyType::Float4 | KeyType::Float8));
    column.key_type.is_some() && column.unfit.is_none() && !is_float
}
