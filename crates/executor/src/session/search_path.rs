//! The effective search path of a session: where unqualified names are looked up.
//!
//! It depends on the user, on what ALTER ROLE and ALTER DATABASE have set, on the session's own SETs of the path and the
//! role, and on which schemas there are that the role may use. The home node is asked, once for each of these under one
//! version of the catalog: the answer serves all sessions of the coordinator. A transaction that has changed the path or the
//! schema asks for itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use catalog::Catalog;
use pgerror::Result;

use crate::backend::login::SERVICE;
use crate::session::{BESIDE, Mode, Session};

/// The cache is emptied when it has grown to this.
const PATHS_MAX: usize = 1024;

const EFFECTIVE: &str = "SELECT pg_catalog.unnest(pg_catalog.current_schemas(false))";

/// Schemas in the order of the path; without `pg_catalog` and `pg_temp`.
pub(crate) type Path = Arc<[String]>;

/// What a path depends on beside the catalog.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    user: String,
    login: u64,
    settings: u64,
}

/// Paths under one version of the catalog, shared by all sessions of a coordinator.
#[derive(Default)]
pub(crate) struct SearchPaths {
    known: Mutex<(u64, HashMap<Key, Path>)>,
}

impl SearchPaths {
    fn get(&self, version: u64, key: &Key) -> Option<Path> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 == version { known.1.get(key).cloned() } else { None }
    }

    fn put(&self, version: u64, key: Key, path: Path) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != version || known.1.len() >= PATHS_MAX {
            *known = (version, HashMap::new());
        }
        known.1.insert(key, path);
    }
}

impl Session {
    /// To be called when anything may have changed what unqualified names mean.
    pub fn search_path_changed(&mut self) {
        self.search_path = None;
        if let Some(block) = &mut self.block {
            block.path_changed = true;
        }
        self.names_changed();
    }

    /// Schemas that unqualified names are looked up in, as the home node sees them.
    pub(crate) async fn search_path(&mut self, catalog: &Catalog) -> Result<Path> {
        if let Some(path) = self.known_search_path(catalog) {
            return Ok(path);
        }
        let version = catalog.version();
        match self.shares_path() {
            true => {
                self.login().await?;
                let path = self.ask_search_path(self.in_block()).await?;
                let key = self.path_key();
                self.context.search_paths.put(version, key, path.clone());
                Ok(path)
            }
            false => {
                let path = self.ask_search_path(false).await?;
                self.search_path = Some((version, path.clone()));
                Ok(path)
            }
        }
    }

    /// The same if nobody need be asked.
    pub(crate) fn known_search_path(&self, catalog: &Catalog) -> Option<Path> {
        match self.shares_path() {
            true => self.context.search_paths.get(catalog.version(), &self.path_key()),
            false => self
                .search_path
                .as_ref()
                .filter(|(version, _)| *version == catalog.version())
                .map(|(_, path)| path.clone()),
        }
    }

    /// Has the open transaction nothing that would make its path another than that of its fellows?
    fn shares_path(&self) -> bool {
        self.block.as_ref().is_none_or(|block| !block.path_changed && !block.schema_changed)
    }

    fn path_key(&self) -> Key {
        let login = self.login.as_ref().map_or(SERVICE, |login| login.stamp);
        Key { user: self.identity.user.clone(), login, settings: self.settings().path_fingerprint() }
    }

    /// An open transaction is not to get to the home node for this alone.
    async fn ask_search_path(&mut self, beside: bool) -> Result<Path> {
        let rows = match beside {
            true => {
                let asked = self.ask_path_beside().await;
                self.close_beside().await;
                asked?
            }
            false => self.rows_on(self.home, EFFECTIVE).await?,
        };
        let names = rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
        let names = names.map(|name| String::from_utf8_lossy(&name).into_owned());
        Ok(names.filter(|name| !name.starts_with("pg_temp") && name != "pg_catalog").collect())
    }

    async fn ask_path_beside(&mut self) -> Result<Vec<Vec<Option<bytes::Bytes>>>> {
        self.acquire_as_is(BESIDE, Mode::Autocommit).await?;
        let leased = self.link(BESIDE)?;
        leased.link.connection.query_rows(EFFECTIVE).await
    }
}
