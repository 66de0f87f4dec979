//! Bound statements.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use executor::{Call, Spool};
use pgerror::{PgError, Result, SqlState};

use crate::protocol::prepared::Prepared;

/// A bound statement.
pub(crate) struct Portal {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) call: Call,
    /// Rows that wait for the next Execute, and the final command tag.
    pub(crate) suspended: Option<(Spool, String)>,
}

impl Portal {
    /// What gives no rows runs once (`MarkPortalActive` in PostgreSQL's `portalmem.c`).
    pub(crate) fn may_run(&self, name: &[u8]) -> Result<()> {
        if self.suspended.is_none() || self.prepared.description.fields.is_some() {
            return Ok(());
        }
        let message = format!("portal \"{}\" cannot be run", String::from_utf8_lossy(name));
        Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
    }
}

/// Those of a session, by name. All end with their transaction.
#[derive(Default)]
pub(crate) struct Portals(HashMap<Bytes, Portal>);

impl Portals {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Portal> {
        self.0.get(name)
    }

    /// The portal, or PostgreSQL's error.
    pub(crate) fn find(&self, name: &[u8]) -> Result<&Portal> {
        self.0.get(name).ok_or_else(|| unknown(name))
    }

    /// Takes the portal out while it runs.
    pub(crate) fn take(&mut self, name: &[u8]) -> Result<Portal> {
        self.0.remove(name).ok_or_else(|| unknown(name))
    }

    pub(crate) fn put(&mut self, name: Bytes, portal: Portal) {
        self.0.insert(name, portal);
    }

    /// A named portal that SQL may call by this name.
    pub(crate) fn called(&self, name: &str) -> Option<Bytes> {
        self.0.get_key_value(name.as_bytes()).map(|(name, _)| name.clone()).filter(|name| !name.is_empty())
    }

    pub(crate) fn close(&mut self, name: &[u8]) {
        self.0.remove(name);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

fn unknown(name: &[u8]) -> PgError {
    PgError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{}\" does not exist", String::from_utf8_lossy(name)))
}
