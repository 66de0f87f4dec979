//! How the rows of a relation are spread over the datanodes.

use std::sync::Arc;

use placement::{BucketMap, KeyType};

use crate::{AttNum, NodeId, Relation};

/// Identifies a bucket map in the metadata. Tables are co-located when map and key types are the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct MapId(pub i32);

impl MapId {
    /// The map over all datanodes, but for those that were added since it was spread last.
    pub const OF_ALL: Self = Self(1);
}

/// A column of a distribution key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct KeyColumn {
    pub number: AttNum,
    pub key_type: KeyType,
}

/// Where rows live.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Distribution {
    /// `DISTRIBUTE BY HASH (a [, b …])`: bucket = hash & 4095, bucket map says the node.
    Hash { columns: Vec<KeyColumn>, map_id: MapId, map: Arc<BucketMap> },
    /// `DISTRIBUTE BY MODULO (a)`: bucket = unsigned value mod 4096.
    Modulo { column: KeyColumn, map_id: MapId, map: Arc<BucketMap> },
    /// Every row on every listed node.
    Replicated { nodes: Vec<NodeId> },
    /// A row is on one of the nodes, which one nobody can tell.
    RoundRobin { nodes: Vec<NodeId> },
    /// Lives on the catalog node alone: system catalogs, sequences, and relations that were made behind our back.
    CatalogNode,
    /// Lives on the session's home node in `pg_temp`.
    Temporary,
    /// A view: it is where the relations of its definition are.
    View,
    /// The metadata and the table disagree, as the text says: the table can only be dropped.
    Broken(String),
}

impl Distribution {
    /// The letter of `pgxc_class.pclocatortype`, if it is a distributed table.
    pub fn letter(&self) -> Option<char> {
        match self {
            Distribution::Hash { .. } => Some('H'),
            Distribution::Modulo { .. } => Some('M'),
            Distribution::Replicated { .. } => Some('R'),
            Distribution::RoundRobin { .. } => Some('N'),
            Distribution::CatalogNode | Distribution::Temporary | Distribution::View | Distribution::Broken(_) => None,
        }
    }

    /// The distribution key, empty if rows are not placed by value.
    pub fn key(&self) -> &[KeyColumn] {
        match self {
            Distribution::Hash { columns, .. } => columns,
            Distribution::Modulo { column, .. } => std::slice::from_ref(column),
            _ => &[],
        }
    }

    /// Are the keys of both the same columns, of the same types?
    fn has_key_of(&self, other: &Distribution) -> bool {
        let key = |distribution: &Distribution| -> Vec<_> {
            distribution.key().iter().map(|column| (column.number, column.key_type)).collect()
        };
        key(self) == key(other)
    }

    /// May rows only have gone to other nodes, so that a reader by this one under a snapshot of its time finds them all? Is it by
    /// the same key over the same bucket map, wherever that has its buckets by now, or by none?
    pub fn differs_in_nodes(&self, other: &Distribution) -> bool {
        use Distribution::{Hash, Modulo, RoundRobin};
        match (self, other) {
            (Hash { map_id, .. }, Hash { map_id: others, .. })
            | (Modulo { map_id, .. }, Modulo { map_id: others, .. }) => map_id == others && self.has_key_of(other),
            (RoundRobin { .. }, RoundRobin { .. }) => true,
            _ => false,
        }
    }

    /// Is every row where it would be under the other one?
    pub fn places_like(&self, other: &Distribution) -> bool {
        use Distribution::{Broken, CatalogNode, Hash, Modulo, Replicated, RoundRobin, Temporary, View};
        match (self, other) {
            (Hash { map, .. }, Hash { map: others, .. }) | (Modulo { map, .. }, Modulo { map: others, .. }) => {
                map == others && self.has_key_of(other)
            }
            (Replicated { nodes }, Replicated { nodes: others })
            | (RoundRobin { nodes }, RoundRobin { nodes: others }) => nodes == others,
            (CatalogNode, CatalogNode) | (Temporary, Temporary) | (View, View) => true,
            (Broken(_) | Hash { .. } | Modulo { .. } | Replicated { .. }, _)
            | (RoundRobin { .. } | CatalogNode | Temporary | View, _) => false,
        }
    }

    /// The nodes that hold rows, in id order. Empty for what is not a distributed table.
    pub fn nodes(&self) -> Vec<NodeId> {
        match self {
            Distribution::Hash { map, .. } | Distribution::Modulo { map, .. } => {
                map.nodes().iter().copied().map(NodeId).collect()
            }
            Distribution::Replicated { nodes } | Distribution::RoundRobin { nodes } => nodes.clone(),
            Distribution::CatalogNode | Distribution::Temporary | Distribution::View | Distribution::Broken(_) => {
                Vec::new()
            }
        }
    }

    /// Is every row on exactly one of several nodes?
    pub fn is_partitioned(&self) -> bool {
        matches!(self, Distribution::Hash { .. } | Distribution::Modulo { .. } | Distribution::RoundRobin { .. })
    }
}

impl Relation {
    /// Names of the distribution key's columns.
    pub fn key_names(&self) -> Vec<&str> {
        let columns = self.distribution.key().iter().filter_map(|key| self.column_at(key.number));
        columns.map(|column| column.name.as_str()).collect()
    }
}
