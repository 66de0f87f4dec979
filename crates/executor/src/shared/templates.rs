//! Templates of plans that are kept, by the shape of their statements: see [`by_shape`](crate::plan_cache::by_shape).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use planner::{ManyRows, Shape, Template};

/// The cache is emptied when it has grown to this.
const SHAPES_MAX: usize = 4096;

/// Templates, shared by all sessions of a coordinator.
#[derive(Default)]
pub(crate) struct TemplateCache {
    entries: Mutex<(u64, HashMap<Vec<u8>, Entry>)>,
}

#[derive(Clone)]
pub(crate) enum Entry {
    /// Once: most texts of ad-hoc queries never come again.
    Seen,
    /// It has to be planned each time.
    Never,
    Known(Arc<Template>),
}

impl TemplateCache {
    pub(crate) fn get(&self, catalog_version: u64, key: &[u8]) -> Option<Entry> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.0 == catalog_version { entries.1.get(key).cloned() } else { None }
    }

    pub(crate) fn insert(&self, catalog_version: u64, key: Vec<u8>, entry: Entry) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.0 != catalog_version || entries.1.len() >= SHAPES_MAX {
            entries.1.clear();
            entries.0 = catalog_version;
        }
        entries.1.insert(key, entry);
    }
}

/// A session's buffers, kept for the next statement.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) shape: Shape,
    pub(crate) rows: ManyRows,
    pub(crate) key: Vec<u8>,
}

/// A statement whose shape is to be learned.
#[derive(Debug)]
pub(crate) struct Lesson {
    pub(crate) sql: String,
    /// Of one row of an INSERT of many: the statement with that row twice.
    pub(crate) twice: Option<String>,
    pub(crate) shape: Shape,
    pub(crate) key: Vec<u8>,
}
