//! What PostgreSQL and the parser have said of statement texts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use executor::Description;
use pgerror::Result;
use planner::{Shape, Statement};

/// Parsed texts without constants (BEGIN, COMMIT, statements with parameters), shared by all sessions of a coordinator.
#[derive(Default)]
pub(crate) struct StatementCache {
    entries: Mutex<HashMap<Box<str>, Arc<Vec<Statement>>>>,
}

/// The cache is emptied when it has grown to this.
const STATEMENTS_MAX: usize = 1024;

impl StatementCache {
    pub(crate) fn parse(&self, sql: &str) -> Result<Arc<Vec<Statement>>> {
        let known = self.lock().get(sql).cloned();
        if let Some(statements) = known {
            return Ok(statements);
        }
        let statements = Arc::new(planner::parse(sql)?);
        let mut shape = Shape::default();
        if shape.scan(sql.trim_ascii().trim_end_matches(';')) && shape.is_constant_free() {
            let mut entries = self.lock();
            if entries.len() >= STATEMENTS_MAX {
                entries.clear();
            }
            entries.insert(sql.into(), statements.clone());
        }
        Ok(statements)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Vec<Statement>>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Descriptions of statement texts, shared by all sessions of a coordinator. Drivers parse the same few texts over and over.
#[derive(Default)]
pub(crate) struct DescriptionCache {
    entries: Mutex<(u64, HashMap<DescriptionKey, Arc<Description>>)>,
}

/// The cache is emptied when it has grown to this.
const DESCRIPTIONS_MAX: usize = 4096;

impl DescriptionCache {
    pub(crate) fn get(&self, catalog_version: u64, key: &DescriptionKey) -> Option<Arc<Description>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.0 == catalog_version { entries.1.get(key).cloned() } else { None }
    }

    pub(crate) fn insert(&self, catalog_version: u64, key: DescriptionKey, description: Arc<Description>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.0 != catalog_version || entries.1.len() >= DESCRIPTIONS_MAX {
            entries.1.clear();
            entries.0 = catalog_version;
        }
        entries.1.insert(key, description);
    }
}
