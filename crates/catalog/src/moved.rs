//! A catalog after some rows have moved: everything else of it is as it was.

use std::sync::{Arc, OnceLock};

use placement::BucketMap;

use crate::{Catalog, Distribution, MapId, Oid, Relation};

/// A bucket map, and the transaction that wrote it.
#[allow(missing_docs)]
#[derive(Clone, Debug)]
pub struct WrittenMap {
    pub id: MapId,
    pub map: BucketMap,
    pub by: u32,
}

impl Catalog {
    /// This schema over other bucket maps, which replace all maps; `scattered`: by which transactions the rows in which tables
    /// without a key say where these are.
    #[must_use]
    pub fn with_maps(&self, version: u64, maps: Vec<WrittenMap>, scattered: Vec<(Oid, u32)>) -> Self {
        let mut moved = self.clone();
        moved.version = version;
        // Views as tables have the distributions of their tables.
        moved.shown = OnceLock::new();
        moved.scattered_by.extend(scattered);
        for WrittenMap { id, map, by } in maps {
            moved.maps_written.insert(id, by);
            if self.map(id).is_none_or(|before| **before != map) {
                moved.maps.insert(id, Arc::new(map));
            }
        }
        for relation in moved.relations.values_mut() {
            if let Some(distribution) = over(&relation.distribution, &moved.maps) {
                *relation = Arc::new(Relation { distribution, ..(**relation).clone() });
            }
        }
        moved
    }
}

/// This distribution over the present map, if that is another one.
fn over(distribution: &Distribution, maps: &std::collections::HashMap<MapId, Arc<BucketMap>>) -> Option<Distribution> {
    let other = |id: &MapId, before: &Arc<BucketMap>| maps.get(id).filter(|now| !Arc::ptr_eq(now, before)).cloned();
    match distribution {
        Distribution::Hash { columns, map_id, map } => {
            Some(Distribution::Hash { columns: columns.clone(), map_id: *map_id, map: other(map_id, map)? })
        }
        Distribution::Modulo { column, map_id, map } => {
            Some(Distribution::Modulo { column: *column, map_id: *map_id, map: other(map_id, map)? })
        }
        _ => None,
    }
}
