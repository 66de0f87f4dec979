//! The effective search path of a session: where unqualified names are looked up.
//!
//! It depends on the user, on what ALTER ROLE and ALTER DATABASE have set, on the session's own SETs of the path and the
//! role, and on which schemas there are that the role may use. The home node is asked, once for each of these under one
//! version of the catalog: the answer serves all sessions of the coordinator. A transaction that has changed the path or the
//! schema asks for itself.

use catalog::{Catalog, FIRST_USER_OID, quote_identifier, quote_literal};
use pgerror::Result;

use crate::backend::pool::login::SERVICE;
use crate::block::Mode;
use crate::session::Session;
use crate::shared::search_paths::{Key, Path};

const EFFECTIVE: &str = "SELECT pg_catalog.unnest(pg_catalog.current_schemas(false))";

impl Session {
    /// The bare names of a text that mean users' tables, though PostgreSQL has catalogs of these names: by the search path, which may
    /// name `pg_catalog` behind other schemas, or because they are temporary. PostgreSQL is asked what it finds.
    ///
    /// # Errors
    /// Those of the nodes.
    pub async fn hidden_catalogs(&mut self, sql: &str) -> Result<Vec<String>> {
        // No statement is run where none can be asked about.
        if self.status() == b'E' || self.hides_no_catalog() {
            return Ok(Vec::new());
        }
        let mut names = planner::bare_system_views(sql);
        // Nobody is asked about a text that has none, be it COMMIT.
        if names.is_empty() {
            return Ok(names);
        }
        let (known, temporary) = (self.catalog().await?, self.temp_relations().await?);
        names.retain(|name| temporary.all.contains(name) || known.catalog.is_system_name(name));
        if names.is_empty() {
            return Ok(names);
        }
        let list: Vec<String> = names.iter().map(|name| quote_literal(&quote_identifier(name))).collect();
        let asked = format!(
            "SELECT n FROM unnest(ARRAY[{}]) AS u (n) WHERE pg_catalog.to_regclass(n)::oid::bigint >= {FIRST_USER_OID}",
            list.join(", ")
        );
        let rows = self.rows_on(self.home, &planner::own_text(&asked)?).await?;
        let found: Vec<_> = rows.iter().filter_map(|row| row.first()?.as_deref()).collect();
        names.retain(|name| found.contains(&quote_identifier(name).as_bytes()));
        Ok(names)
    }

    /// Is it known without asking that no bare name of a catalog means a user's table?
    fn hides_no_catalog(&self) -> bool {
        let has_own = self.links.is_pinned(self.home) || self.block.as_ref().is_some_and(|block| block.schema_changed);
        !has_own && self.context.current_catalog().is_some_and(|known| !known.catalog.has_system_names())
    }

    /// To be called when anything may have changed what unqualified names mean.
    pub fn search_path_changed(&mut self) {
        self.search_path = None;
        if let Some(block) = &mut self.block {
            block.path_changed = true;
        }
        self.names_shown_otherwise();
    }

    /// Schemas that unqualified names are looked up in, as the home node sees them.
    pub(crate) async fn search_path(&mut self, catalog: &Catalog) -> Result<Path> {
        if let Some(path) = self.known_search_path(catalog) {
            return Ok(path);
        }
        let version = catalog.schema_version();
        match self.shares_path() {
            true => {
                self.links.login().await?;
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

    /// [`Session::search_path`] if nobody need be asked.
    pub(crate) fn known_search_path(&self, catalog: &Catalog) -> Option<Path> {
        match self.shares_path() {
            true => self.context.search_paths.get(catalog.schema_version(), &self.path_key()),
            false => self
                .search_path
                .as_ref()
                .filter(|(version, _)| *version == catalog.schema_version())
                .map(|(_, path)| path.clone()),
        }
    }

    /// Has the open transaction nothing that would make its path another than that of its fellows?
    fn shares_path(&self) -> bool {
        self.block.as_ref().is_none_or(|block| !block.path_changed && !block.schema_changed)
    }

    pub(crate) fn path_key(&self) -> Key {
        let login = self.links.known_login().map_or(SERVICE, |login| login.stamp);
        Key { user: self.links.identity().user.clone(), login, settings: self.settings().path_fingerprint() }
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
        let beside = self.beside_home();
        self.acquire_as_is(beside, Mode::Autocommit).await?;
        let leased = self.links.link(beside)?;
        leased.link.connection.query_rows(EFFECTIVE).await
    }
}
