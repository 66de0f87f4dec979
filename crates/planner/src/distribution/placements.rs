//! Placements: what a clause or a table says, and which nodes they mean.

use std::sync::Arc;

use catalog::{Distribution, MapId, NodeId, Relation};
use pgerror::{PgError, Result, SqlState};
use placement::BucketMap;

use crate::context::Context;
use crate::parse::{DistributionKind, NodeSelection};
use crate::plan::{MapRequest, Placement};

/// The placement of a table that exists, for a table that shall be like it.
pub(crate) fn placement_of(relation: &Relation) -> Option<Placement> {
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
pub(crate) fn nodes_of(ctx: &Context<'_>, selection: Option<&NodeSelection>) -> Result<Vec<NodeId>> {
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
pub(crate) fn some_in_order(mut nodes: Vec<NodeId>) -> Result<Vec<NodeId>> {
    nodes.sort_unstable();
    nodes.dedup();
    match nodes.is_empty() {
        true => Err(PgError::new(SqlState::INVALID_TABLE_DEFINITION, "a table needs at least one datanode")),
        false => Ok(nodes),
    }
}

pub(crate) fn node_named(ctx: &Context<'_>, name: &str) -> Result<NodeId> {
    let missing = || PgError::new(SqlState::UNDEFINED_OBJECT, format!("PGXC Node {name}: object not defined"));
    ctx.catalog.node_by_name(name).map(|n| n.id).ok_or_else(missing)
}

/// A clause with a kind.
pub(crate) fn explicit(kind: &DistributionKind, nodes: Vec<NodeId>, map: &MapRequest) -> Option<Placement> {
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
pub(crate) fn map_over(ctx: &Context<'_>, selection: Option<&NodeSelection>, nodes: &[NodeId]) -> MapRequest {
    let is_partial = |map: &Arc<BucketMap>| map.nodes().len() < nodes.len();
    match ctx.catalog.map(MapId::OF_ALL).filter(|map| selection.is_none() && is_partial(map)) {
        Some(_) => MapRequest::Existing(MapId::OF_ALL),
        None => MapRequest::Over(nodes.to_vec()),
    }
}

/// Do rows of both tables with the same values lie on the same nodes?
pub(crate) fn are_alike(a: &Relation, b: &Relation) -> bool {
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

/// This kind of distribution on other nodes.
pub(crate) fn moved(placement: Placement, nodes: &[NodeId]) -> Placement {
    let map = MapRequest::Over(nodes.to_vec());
    match placement {
        Placement::Hash { columns, .. } => Placement::Hash { columns, map },
        Placement::Modulo { column, .. } => Placement::Modulo { column, map },
        Placement::Replicated { .. } => Placement::Replicated { nodes: nodes.to_vec() },
        Placement::RoundRobin { .. } => Placement::RoundRobin { nodes: nodes.to_vec() },
    }
}

/// The nodes a placement uses.
pub(crate) fn nodes(ctx: &Context<'_>, placement: &Placement) -> Vec<NodeId> {
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
pub(crate) fn is_map(ctx: &Context<'_>, request: &MapRequest, map: &BucketMap) -> bool {
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
