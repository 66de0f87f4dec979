//! What is kept of statements that come again: templates by [their shape](crate::plan_cache::by_shape), plans
//! [by their text](crate::plan_cache::by_text).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use planner::{BY_ESTIMATE, BY_VALUE, ManyRows, Plan, Shape};

use crate::shared::estimates;

/// From here on versions of the catalog are numbers of our own: no datanode's catalog has come so far.
pub(crate) const OWN_VERSIONS_FIRST: u64 = 1 << 63;

/// Plans of longer texts are not kept, nor what these do: they are rarely sent twice.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;

/// What is kept under one version of the catalog, for all sessions of a coordinator.
pub(crate) struct Kept<V> {
    entries: Mutex<(u64, HashMap<Vec<u8>, V>)>,
    /// All is forgotten when it has grown to this.
    most: usize,
}

pub(crate) enum Entry<T> {
    /// Once: most texts of ad-hoc queries never come again.
    Seen,
    /// It has to be planned each time.
    Never,
    Known(Arc<T>),
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Seen => Self::Seen,
            Self::Never => Self::Never,
            Self::Known(kept) => Self::Known(kept.clone()),
        }
    }
}

impl<V: Clone> Kept<V> {
    pub(crate) fn of(most: usize) -> Self {
        Self { entries: Mutex::default(), most }
    }

    pub(crate) fn get(&self, catalog_version: u64, key: &[u8]) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.0 == catalog_version { entries.1.get(key).cloned() } else { None }
    }

    pub(crate) fn insert(&self, catalog_version: u64, key: Vec<u8>, entry: V) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.0 != catalog_version || entries.1.len() >= self.most {
            entries.1.clear();
            entries.0 = catalog_version;
        }
        entries.1.insert(key, entry);
    }

    /// What is kept for a text, or is found out now.
    pub(crate) fn get_or(&self, catalog_version: u64, key: &[u8], find: impl FnOnce() -> V) -> V {
        self.get(catalog_version, key).unwrap_or_else(|| {
            let found = find();
            if key.len() <= TEXT_BYTES_MAX && catalog_version < OWN_VERSIONS_FIRST {
                self.insert(catalog_version, key.to_vec(), found.clone());
            }
            found
        })
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
    /// For one row of an INSERT of many: the statement with that row twice.
    pub(crate) twice: Option<String>,
    pub(crate) shape: Shape,
    pub(crate) key: Vec<u8>,
}

/// For which executions of its statement a plan holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holds {
    /// It was made by the value of a parameter, or by what only the present statement can know.
    Once,
    /// It was made by estimates.
    ForAWhile,
    Always,
}

impl Holds {
    /// See [`SessionFacts::depends`](planner::SessionFacts).
    pub(crate) fn of(depends: u8) -> Self {
        match (depends & BY_VALUE, depends & BY_ESTIMATE) {
            (0, 0) => Self::Always,
            (0, _) => Self::ForAWhile,
            _ => Self::Once,
        }
    }
}

/// What has come of planning.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) holds: Holds,
}

impl Planned {
    pub(crate) fn once(plan: Plan) -> Self {
        Self { plan, holds: Holds::Once }
    }
}

/// A plan of a query that reads.
pub(crate) struct KeptPlan {
    pub(crate) plan: Plan,
    pub(crate) holds: Holds,
    since: Instant,
}

impl KeptPlan {
    pub(crate) fn new(plan: &Plan, holds: Holds) -> Self {
        Self { plan: plan.clone(), holds, since: Instant::now() }
    }

    pub(crate) fn is_of_use(&self) -> bool {
        self.holds == Holds::Always || self.since.elapsed() < estimates::AGE_MAX
    }
}
