//! From a distribution clause, or from nothing, to a [`Placement`].

use std::sync::Arc;

use catalog::{Distribution, MapId, NodeId, Relation};
use pgerror::{PgError, Result, SqlState};
use placement::{BucketMap, KeyType};

use super::auto_replicate;
use super::constraints::{self, NewColumn, NewTable};
use crate::context::Context;
use crate::parse::{DistributeBy, DistributionKind, NodeSelection};
use crate::plan::{MapRequest, Placement, Redistribute};

/// The placement of a table that exists, for a table that shall be like it.
pub(super) fn placement_of(relation: &Relation) -> Option<Placement> {
    let name = |number| relation.column_at(number).map(|c| c.name.clone());
    Some(match &relation.distribution {
        Distribution::Hash { columns, map_id, .. } => Placement::Hash {
            columns: columns.iter().map(|k| name(k.number)).collect::<Option<_>>()?,
            map: MapRequest::Existing(*map_id),
        },
        Distribution::Modulo { column, map_id, .. } => {
            Placement::Modulo { column: name(column.number)?, map: MapRequest::Existing(*map_id) }
        }
        Distribution::Replicated { nodes } => Placement::Replicated { nodes: nodes.clone() },
        Distribution::RoundRobin { nodes } => Placement::RoundRobin { nodes: nodes.clone() },
        Distribution::CatalogNode | Distribution::Temporary | Distribution::View | Distribution::Broken(_) => {
            return None;
        }
    })
}

/// The nodes that TO NODE or TO GROUP names; all datanodes without.
pub(super) fn nodes_of(ctx: &Context<'_>, selection: Option<&NodeSelection>) -> Result<Vec<NodeId>> {
    let nodes = match selection {
        None => ctx.catalog.all_nodes(),
        Some(NodeSelection::Nodes(names)) => names.iter().map(|n| node_named(ctx, n)).collect::<Result<Vec<_>>>()?,
        Some(NodeSelection::Group(name)) => {
            let group = ctx.catalog.groups().iter().find(|g| g.name == *name);
            let missing = || PgError::new(SqlState::UNDEFINED_OBJECT, format!("node group \"{name}\" does not exist"));
            group.ok_or_else(missing)?.members.clone()
        }
    };
    some_in_order(nodes)
}

/// A table's nodes in order, each once. There must be some.
pub(super) fn some_in_order(mut nodes: Vec<NodeId>) -> Result<Vec<NodeId>> {
    nodes.sort_unstable();
    nodes.dedup();
    match nodes.is_empty() {
        true => Err(PgError::new(SqlState::INVALID_TABLE_DEFINITION, "a table needs at least one datanode")),
        false => Ok(nodes),
    }
}

pub(super) fn node_named(ctx: &Context<'_>, name: &str) -> Result<NodeId> {
    let missing = || PgError::new(SqlState::UNDEFINED_OBJECT, format!("PGXC Node {name}: object not defined"));
    ctx.catalog.node_by_name(name).map(|n| n.id).ok_or_else(missing)
}

/// A clause with a kind.
pub(super) fn explicit(kind: &DistributionKind, nodes: Vec<NodeId>, map: &MapRequest) -> Option<Placement> {
    let map = || map.clone();
    Some(match kind {
        DistributionKind::Hash(columns) => Placement::Hash { columns: columns.clone(), map: map() },
        DistributionKind::Modulo(column) => Placement::Modulo { column: column.clone(), map: map() },
        DistributionKind::Replication => Placement::Replicated { nodes },
        DistributionKind::RoundRobin => Placement::RoundRobin { nodes },
        DistributionKind::Default => return None,
    })
}

/// The bucket map of a table over these nodes. Without a choice of nodes it is the cluster's, which may not have reached a node
/// that has just been added: tables that were made before and after go together all the same.
pub(super) fn map_over(ctx: &Context<'_>, selection: Option<&NodeSelection>, nodes: &[NodeId]) -> MapRequest {
    let is_partial = |map: &Arc<BucketMap>| map.nodes().len() < nodes.len();
    match ctx.catalog.map(MapId::OF_ALL).filter(|map| selection.is_none() && is_partial(map)) {
        Some(_) => MapRequest::Existing(MapId::OF_ALL),
        None => MapRequest::Over(nodes.to_vec()),
    }
}

/// Where a new table's rows go.
pub(super) struct Decision {
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
pub(super) fn decide(
    ctx: &Context<'_>,
    table: &NewTable,
    clause: Option<&DistributeBy>,
    like: Option<&Arc<Relation>>,
) -> Result<Decision> {
    let selection = clause.and_then(|c| c.nodes.as_ref());
    let nodes = nodes_of(ctx, selection)?;
    let map = map_over(ctx, selection, &nodes);
    if let Some(placement) = clause.and_then(|c| c.kind.as_ref()).and_then(|kind| explicit(kind, nodes.clone(), &map)) {
        let moves = auto_replicate::check(ctx, table, &placement)?;
        return Ok(Decision { moves, ..Decision::chosen(placement) });
    }
    if let Some(placement) = like.and_then(|relation| placement_of(relation)) {
        let placement = if selection.is_some() { moved(placement, &nodes) } else { placement };
        let moves = auto_replicate::check(ctx, table, &placement)?;
        return Ok(Decision { moves, ..Decision::chosen(placement) });
    }
    let candidates = defaults(ctx, table, &nodes, &map, selection.is_some())?;
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
fn defaults(
    ctx: &Context<'_>,
    table: &NewTable,
    nodes: &[NodeId],
    map: &MapRequest,
    nodes_given: bool,
) -> Result<Vec<Placement>> {
    let hash = |column: &str| Placement::Hash { columns: vec![column.to_owned()], map: map.clone() };
    let mut candidates = Vec::new();
    if table.foreign_keys.iter().any(|f| f.is_self) {
        candidates.push(Placement::Replicated { nodes: nodes.to_vec() });
    }
    if !nodes_given {
        for foreign_key in &table.foreign_keys {
            candidates.extend(constraints::colocated_with_referenced(ctx, foreign_key)?);
        }
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
    Ok(candidates)
}

/// A column that may be chosen unasked. Postgres-XL has no floating-point keys.
fn is_good_key(column: &NewColumn) -> bool {
    let is_float = matches!(column.key_type, Some(KeyType::Float4 | KeyType::Float8));
    column.key_type.is_some() && column.unfit.is_none() && !is_float
}

/// Do rows of both tables with the same values lie on the same nodes?
pub(super) fn are_alike(a: &Relation, b: &Relation) -> bool {
    match (&a.distribution, &b.distribution) {
        (Distribution::Hash { map_id: of_a, .. }, Distribution::Hash { map_id: of_b, .. })
        | (Distribution::Modulo { map_id: of_a, .. }, Distribution::Modulo { map_id: of_b, .. }) => {
            of_a == of_b && a.key_names() == b.key_names()
        }
        (Distribution::Replicated { nodes: of_a }, Distribution::Replicated { nodes: of_b })
        | (Distribution::RoundRobin { nodes: of_a }, Distribution::RoundRobin { nodes: of_b }) => of_a == of_b,
        _ => false,
    }
}

/// The same kind of distribution on other nodes.
pub(super) fn moved(placement: Placement, nodes: &[NodeId]) -> Placement {
    let map = MapRequest::Over(nodes.to_vec());
    match placement {
        Placement::Hash { columns, .. } => Placement::Hash { columns, map },
        Placement::Modulo { column, .. } => Placement::Modulo { column, map },
        Placement::Replicated { .. } => Placement::Replicated { nodes: nodes.to_vec() },
        Placement::RoundRobin { .. } => Placement::RoundRobin { nodes: nodes.to_vec() },
    }
}

/// The nodes a placement uses.
pub(super) fn nodes(ctx: &Context<'_>, placement: &Placement) -> Vec<NodeId> {
    match placement {
        Placement::Hash { map, .. } | Placement::Modulo { map, .. } => match map {
            MapRequest::Over(nodes) => nodes.clone(),
            MapRequest::Existing(id) => {
                ctx.catalog.map(*id).map(|m| m.nodes().iter().copied().map(NodeId).collect()).unwrap_or_default()
            }
        },
        Placement::Replicated { nodes } | Placement::RoundRobin { nodes } => nodes.clone(),
    }
}

/// Does the request mean this very map?
pub(super) fn is_map(ctx: &Context<'_>, request: &MapRequest, map: &BucketMap) -> bool {
    match request {
        MapRequest::Existing(id) => ctx.catalog.map(*id).is_some_and(|m| **m == *map),
        MapRequest::Over(nodes) => {
            let is_over = |map: &BucketMap| map.nodes().iter().copied().eq(nodes.iter().map(|node| node.0));
            let reaches = |id: MapId| id != MapId::OF_ALL || nodes.len() == ctx.catalog.nodes().len();
            let known =
                ctx.catalog.maps().filter(|(id, known)| reaches(*id) && is_over(known)).min_by_key(|(id, _)| *id);
            known.is_some_and(|(_, known)| **known == *map)
        }
    }
}

/// Can a column of this type be a MODULO key?
pub(super) fn is_modulo_type(key_type: KeyType) -> bool {
    key_type.sql_modulo_bucket("x").is_some()
}
