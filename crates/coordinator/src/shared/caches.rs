//! What PostgreSQL and the parser have said of statement texts.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use executor::Description;
use pgerror::Result;
use planner::{Shape, Statement};

use super::figures::{KNOWN_TEXTS, NEW_TEXTS};

/// Parsed texts that come again: those without constants (BEGIN, COMMIT, statements with parameters) at once, others when they are
/// met a second time. Shared by all sessions of a coordinator.
#[derive(Default)]
pub(crate) struct StatementCache {
    entries: Mutex<Texts>,
}

#[derive(Default)]
struct Texts {
    parsed: HashMap<Box<str>, Arc<Vec<Statement>>>,
    /// Hashes of texts with constants that were met once. Most of them never come again.
    met: HashSet<u64>,
    hasher: RandomState,
}

/// The cache is emptied when it has grown to this.
const STATEMENTS_MAX: usize = 1024;
/// Hashes remembered; about 128 KiB.
const MET_MAX: usize = 8192;
/// A longer text with constants is not kept.
const TEXT_BYTES_MAX: usize = 16 << 10;

impl StatementCache {
    pub(crate) fn parse(&self, sql: &str) -> Result<Arc<Vec<Statement>>> {
        let known = self.lock().parsed.get(sql).cloned();
        if let Some(statements) = known {
            KNOWN_TEXTS.count();
            return Ok(statements);
        }
        NEW_TEXTS.count();
        let statements = Arc::new(planner::parse(sql)?);
        let mut shape = Shape::default();
        let is_constant_free = shape.scan(sql.trim_ascii().trim_end_matches(';')) && shape.is_constant_free();
        self.lock().keep(sql, &statements, is_constant_free);
        Ok(statements)
    }

    fn lock(&self) -> MutexGuard<'_, Texts> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Texts {
    fn keep(&mut self, sql: &str, statements: &Arc<Vec<Statement>>, is_constant_free: bool) {
        if !is_constant_free {
            if sql.len() > TEXT_BYTES_MAX {
                return;
            }
            if self.met.len() >= MET_MAX {
                self.met.clear();
            }
            let hash = self.hasher.hash_one(sql);
            if self.met.insert(hash) {
                return;
            }
        }
        if self.parsed.len() >= STATEMENTS_MAX {
            self.parsed.clear();
        }
        self.parsed.insert(sql.into(), statements.clone());
    }
}

/// What a description depends on besides the catalog.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct DescriptionKey {
    pub(crate) sql: Arc<str>,
    pub(crate) types: Vec<u32>,
    pub(crate) user: String,
    pub(crate) settings: u64,
}

/// Descriptions of one database, by its id.
type Descriptions = (u64, HashMap<DescriptionKey, Arc<Description>>);

/// Descriptions of statement texts, shared by all sessions of a coordinator. Drivers parse the same few texts over and over.
#[derive(Default)]
pub(crate) struct DescriptionCache {
    entries: Mutex<HashMap<String, Descriptions>>,
}

/// The cache is emptied when it has grown to this.
const DESCRIPTIONS_MAX: usize = 4096;
const DATABASES_MAX: usize = 16;

impl DescriptionCache {
    pub(crate) fn get(&self, database: &str, schema_version: u64, key: &DescriptionKey) -> Option<Arc<Description>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, descriptions) = entries.get(database)?;
        if *version == schema_version { descriptions.get(key).cloned() } else { None }
    }

    pub(crate) fn insert(
        &self,
        database: &str,
        schema_version: u64,
        key: DescriptionKey,
        description: Arc<Description>,
    ) {
        let mut all = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= DATABASES_MAX && !all.contains_key(database) {
            all.clear();
        }
        let entries = all.entry(database.to_owned()).or_default();
        if entries.0 != schema_version || entries.1.len() >= DESCRIPTIONS_MAX {
            entries.1.clear();
            entries.0 = schema_version;
        }
        entries.1.insert(key, description);
    }
}
