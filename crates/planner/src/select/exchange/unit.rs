//! The tables of a query, as they may be moved.

use std::sync::Arc;

use catalog::{Column, Distribution, KeyColumn, MapId, NodeId, Relation};
use pg_query::Node;
use pg_query::protobuf::RangeVar;
use placement::BucketMap;

/// A table reference that may be moved.
#[derive(Clone)]
pub(super) struct Unit {
    pub level: usize,
    pub number: i32,
    pub name: RangeVar,
    pub alias: String,
    pub relation: Arc<Relation>,
    pub keeps: bool,
    pub filter: Vec<Node>,
    /// Columns that travel.
    pub columns: Vec<Column>,
    /// Rows of the table.
    pub rows_all: f64,
    /// Rows that pass its own conditions.
    pub rows_filtered: f64,
    /// What a node pays to find those.
    pub cost: f64,
    /// Rows that also find a partner in tables with fewer rows.
    pub rows: f64,
    /// Equalities with other units.
    pub partners: Vec<Partner>,
    pub options: Vec<Choice>,
}

/// A move, its cost, and the table as the analysis sees it then.
#[derive(Clone)]
pub(super) struct Choice {
    pub what: Move,
    pub cost: f64,
    pub table: Arc<Relation>,
}

/// `own = other's column`.
#[derive(Clone)]
pub(super) struct Partner {
    pub unit: usize,
    pub own: String,
    pub other: String,
}

/// What happens to a table.
#[derive(Clone, Debug)]
pub(super) enum Move {
    Stay,
    Broadcast,
    Hash { key: KeyColumn, map_id: MapId, map: Arc<BucketMap> },
    Home,
}

impl Move {
    pub fn distribution(&self, nodes: &[NodeId]) -> Option<Distribution> {
        match self {
            Move::Stay => None,
            Move::Broadcast => Some(Distribution::Replicated { nodes: nodes.to_vec() }),
            Move::Hash { key, map_id, map } => {
                Some(Distribution::Hash { columns: vec![*key], map_id: *map_id, map: map.clone() })
            }
            Move::Home => Some(Distribution::Temporary),
        }
    }
}
