//! Statements of Parse and of SQL's PREPARE, which share PostgreSQL's one name space.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use executor::{Description, ReportedParameters};
use pgerror::{PgError, Result, SqlState};
use planner::Statement;

/// A statement prepared by Parse or by PREPARE.
pub(crate) struct Prepared {
    /// `None` for an empty query string.
    pub(crate) statement: Option<Statement>,
    /// The beginning of the client's text; empty if SQL's PREPARE has made it.
    pub(crate) text: Box<[u8]>,
    pub(crate) description: Arc<Description>,
    /// The schema's when it was described.
    pub(crate) schema_version: u64,
    /// Fingerprint of what the session's names depended on then.
    pub(crate) path: u64,
    /// The session's settings then, if its constants are to be read by them.
    pub(crate) reported: Option<ReportedParameters>,
}

/// Those of a session, by name; the unnamed one has the empty name.
#[derive(Default)]
pub(crate) struct PreparedStatements(HashMap<Bytes, Arc<Prepared>>);

impl PreparedStatements {
    /// Keeps a statement under a name that must be new, unless it is empty. PostgreSQL looks at the statement first.
    pub(crate) fn keep(&mut self, name: Bytes, prepared: Prepared) -> Result<()> {
        if !name.is_empty() && self.0.contains_key(&name) {
            let message = format!("prepared statement \"{}\" already exists", String::from_utf8_lossy(&name));
            return Err(PgError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        self.0.insert(name, Arc::new(prepared));
        Ok(())
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<Prepared>> {
        self.0.get(name)
    }

    /// The statement, or PostgreSQL's error.
    pub(crate) fn find(&self, name: &[u8]) -> Result<Arc<Prepared>> {
        self.0.get(name).cloned().ok_or_else(|| {
            let name = String::from_utf8_lossy(name).into_owned();
            let message = match name.is_empty() {
                true => "unnamed prepared statement does not exist".to_owned(),
                false => format!("prepared statement \"{name}\" does not exist"),
            };
            PgError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    pub(crate) fn forget(&mut self, name: &[u8]) {
        self.0.remove(name);
    }

    /// Forgets all that have a name.
    pub(crate) fn clear(&mut self) {
        self.0.retain(|name, _| name.is_empty());
    }
}
