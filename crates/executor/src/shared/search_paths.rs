//! Search paths that the home node has told, kept for all sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The cache is emptied when it has grown to this.
const PATHS_MAX: usize = 1024;

/// Schemas in the order of the path; without `pg_catalog` and `pg_temp`.
pub(crate) type Path = Arc<[String]>;

/// What a path depends on beside the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) user: String,
    pub(crate) login: u64,
    pub(crate) settings: u64,
}

/// Paths under one version of the schema, shared by all sessions of a coordinator.
#[derive(Default)]
pub(crate) struct SearchPaths {
    known: Mutex<(u64, HashMap<Key, Path>)>,
}

impl SearchPaths {
    pub(crate) fn get(&self, version: u64, key: &Key) -> Option<Path> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 == version { known.1.get(key).cloned() } else { None }
    }

    pub(crate) fn put(&self, version: u64, key: Key, path: Path) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != version || known.1.len() >= PATHS_MAX {
            *known = (version, HashMap::new());
        }
        known.1.insert(key, path);
    }
}
