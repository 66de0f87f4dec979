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
    /// How many were bound before it.
    number: u64,
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

/// Those of a session, by name. All end with their transaction, and those bound since a savepoint when it is gone back to.
#[derive(Default)]
pub(crate) struct Portals {
    all: HashMap<Bytes, Portal>,
    /// How many have been bound.
    bound: u64,
    /// Open savepoints, and how many had been bound then.
    savepoints: Vec<(String, u64)>,
}

impl Portals {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Portal> {
        self.all.get(name)
    }

    /// The portal, or PostgreSQL's error.
    pub(crate) fn find(&self, name: &[u8]) -> Result<&Portal> {
        self.all.get(name).ok_or_else(|| unknown(name))
    }

    /// Takes the portal out while it runs.
    pub(crate) fn take(&mut self, name: &[u8]) -> Result<Portal> {
        self.all.remove(name).ok_or_else(|| unknown(name))
    }

    /// Makes one of a prepared statement.
    pub(crate) fn bind(&mut self, name: Bytes, prepared: Arc<Prepared>, call: Call) {
        self.bound += 1;
        self.put(name, Portal { prepared, call, suspended: None, number: self.bound });
    }

    /// Puts one back that was taken out.
    pub(crate) fn put(&mut self, name: Bytes, portal: Portal) {
        self.all.insert(name, portal);
    }

    /// A named portal that SQL may call by this name.
    pub(crate) fn called(&self, name: &str) -> Option<Bytes> {
        self.all.get_key_value(name.as_bytes()).map(|(name, _)| name.clone()).filter(|name| !name.is_empty())
    }

    pub(crate) fn close(&mut self, name: &[u8]) {
        self.all.remove(name);
    }

    /// CLOSE ALL.
    pub(crate) fn close_all(&mut self) {
        self.all.clear();
    }

    /// The transaction has ended.
    pub(crate) fn clear(&mut self) {
        self.close_all();
        self.savepoints.clear();
    }

    pub(crate) fn savepoint(&mut self, name: &str) {
        self.savepoints.push((name.to_owned(), self.bound));
    }

    pub(crate) fn released(&mut self, name: &str) {
        if let Some(at) = self.savepoint_called(name) {
            self.savepoints.truncate(at);
        }
    }

    /// `AtSubAbort_Portals` in PostgreSQL's `portalmem.c`.
    pub(crate) fn rolled_back_to(&mut self, name: &str) {
        if let Some(at) = self.savepoint_called(name) {
            let bound = self.savepoints[at].1;
            self.all.retain(|_, portal| portal.number <= bound);
            self.savepoints.truncate(at + 1);
        }
    }

    fn savepoint_called(&self, name: &str) -> Option<usize> {
        self.savepoints.iter().rposition(|(known, _)| known == name)
    }
}

fn unknown(name: &[u8]) -> PgError {
    PgError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{}\" does not exist", String::from_utf8_lossy(name)))
}
