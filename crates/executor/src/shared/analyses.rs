//! Analyses that are kept: by the text of their statement, or by that of all statements which differ in their constants only.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use catalog::Oid;
use planner::Analysis;

/// Analyses that are kept, and the bytes of their texts.
const KEPT_MAX: usize = 4096;
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Analyses of one version of the schema, shared by all sessions of a coordinator.
#[derive(Default)]
pub(crate) struct Analyses {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    schema_version: u64,
    bytes: usize,
    by_key: HashMap<Key, Analysis>,
    /// By the text in which every constant that can be is marked: those that must not be.
    pinned: HashMap<Key, Pins>,
}

/// What is known of statements that differ in their constants only: see [`planner::Marked`].
#[derive(Clone)]
pub(crate) enum Pins {
    /// There was one. Most texts of ad-hoc queries never come again.
    Seen,
    /// Each has to be analysed for itself.
    All,
    These(Vec<bool>),
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) sql: String,
    pub(crate) user: String,
    pub(crate) search_path: Vec<String>,
    pub(crate) settings: u64,
    pub(crate) types: Vec<Oid>,
}

impl Analyses {
    pub(crate) fn get(&self, schema_version: u64, key: &Key) -> Option<Analysis> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.schema_version == schema_version { kept.by_key.get(key).cloned() } else { None }
    }

    pub(crate) fn insert(&self, schema_version: u64, key: Key, analysis: Analysis) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.make_room(schema_version, &key);
        kept.by_key.insert(key, analysis);
    }

    /// Which constants of a statement with these are pinned; `None` if this is the first such statement.
    pub(crate) fn pins(&self, schema_version: u64, key: &Key) -> Option<Pins> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.schema_version == schema_version
            && let Some(pins) = kept.pinned.get(key)
        {
            return Some(pins.clone());
        }
        kept.make_room(schema_version, key);
        kept.pinned.insert(key.clone(), Pins::Seen);
        None
    }

    pub(crate) fn pin(&self, schema_version: u64, key: Key, pins: Pins) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.make_room(schema_version, &key);
        kept.pinned.insert(key, pins);
    }
}

impl Kept {
    /// Everything goes when it is too much, or of another version of the schema.
    fn make_room(&mut self, schema_version: u64, key: &Key) {
        let is_full = self.by_key.len() + self.pinned.len() >= KEPT_MAX || self.bytes + key.sql.len() > KEPT_BYTES_MAX;
        if self.schema_version != schema_version || is_full {
            *self = Self { schema_version, ..Self::default() };
        }
        self.bytes += key.sql.len();
    }
}
