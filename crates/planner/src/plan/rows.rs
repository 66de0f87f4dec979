//! Rows in flight, and which nodes get them.

use std::sync::Arc;

use catalog::{NodeId, Oid};
use placement::{BucketMap, KeyType};

/// A column of a row in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RowColumn {
    pub name: String,
    pub type_oid: Oid,
    pub type_modifier: i32,
    /// Ready to be put after `::`.
    pub type_name: String,
}

/// Names as SQL, with commas between.
pub(crate) fn names_list<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    names.into_iter().map(|name| catalog::quote_identifier(name)).collect::<Vec<_>>().join(", ")
}

pub(crate) fn column_list(columns: &[RowColumn]) -> String {
    names_list(columns.iter().map(|column| &column.name))
}

/// Which node gets a row.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Route {
    /// `map.node(hash(key) & 4095)`.
    Hash { key: Vec<(KeySource, KeyType)>, map: Arc<BucketMap>, nodes: Vec<NodeId> },
    /// `map.node(value & 4095)`.
    Modulo { key: (KeySource, KeyType), map: Arc<BucketMap>, nodes: Vec<NodeId> },
    /// Any node, evenly; the executor chooses where to start.
    RoundRobin { nodes: Vec<NodeId> },
    /// Every node.
    Replicated { nodes: Vec<NodeId> },
    /// One node, whatever the row.
    Single { node: NodeId },
}

impl Route {
    /// Positions of the columns that say where a row goes.
    pub fn key_columns(&self) -> Vec<usize> {
        let position = |(source, _): &(KeySource, KeyType)| match source {
            KeySource::Column(at) => Some(*at),
            KeySource::Null => None,
        };
        match self {
            Route::Hash { key, .. } => key.iter().filter_map(position).collect(),
            Route::Modulo { key, .. } => position(key).into_iter().collect(),
            Route::RoundRobin { .. } | Route::Replicated { .. } | Route::Single { .. } => Vec::new(),
        }
    }

    /// Does it bring every row to the same places?
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Route::Hash { key, map, nodes }, Route::Hash { key: k, map: m, nodes: n }) => {
                key == k && Arc::ptr_eq(map, m) && nodes == n
            }
            (Route::Replicated { nodes }, Route::Replicated { nodes: other }) => nodes == other,
            (Route::Single { node }, Route::Single { node: other }) => node == other,
            _ => false,
        }
    }
}

/// Where a key value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// 0-based position in the row.
    Column(usize),
    /// The column is not in the row and has no default.
    Null,
}
