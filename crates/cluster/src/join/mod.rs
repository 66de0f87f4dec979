//! `loxo node add`: an empty server gets everything that the datanodes have in common, and then becomes one of them.
//!
//! ```text
//!   server: check, empty ─▶ metadata ─▶ roles ─▶ schema ─▶ distribution ─▶ shape: compare ─▶ CREATE NODE
//!      ▲                                                                        │                │
//!      └────────────── the cluster's schema has changed since it was read ──────┴────────────────┘
//! ```
//!
//! In: a configuration and the address of an empty PostgreSQL server. Out: a datanode without rows. Roles and the schema
//! come from the primary datanode by PostgreSQL's own pg_dumpall and pg_dump, and go in by psql.
//!
//! Several databases are all made on the server first, since what cannot be copied is to show while everything can be taken back.
//! Then the server becomes a datanode of the first database, and of each other one after that. A call that ends in between is taken
//! up by another one, which finds the server among the datanodes of the first database.
//!
//! Invariants:
//! - Nothing is locked while the server is prepared but what pg_dump locks (ACCESS SHARE). What was read is right only if
//!   `loxo.catalog_version` is still the same afterwards, and CREATE NODE looks once more under the cluster's locks.
//! - A server is emptied only if it carries this cluster's id, is not one of its datanodes, and its tables hold no rows. That holds for
//!   each database by itself.
//! - On failure the server is as empty as it was, unless it is a datanode of the first database, or nobody knows whether it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pgerror::{PgError, Result, SqlState};

use crate::config::{Config, Datanode};
use crate::membership;
use crate::progress::Progress;
use crate::sql::Session;

mod database;
mod distribution;
mod metadata;
mod one_database;
pub(crate) mod programs;
mod roles;
mod schema;
mod server;
mod shape;
mod strays;

use one_database::{OneDatabase, State};
use programs::Programs;
use strays::Server;

/// Schema changes that may come in between.
const ATTEMPTS_MAX: usize = 5;

/// A server that is prepared.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    /// Id of the datanode that it can become.
    pub id: u16,
    /// The version of the catalog that it was prepared from.
    pub catalog_version: i64,
}

/// One server on its way into a cluster.
pub struct Join<'a> {
    config: &'a Config,
    new: &'a Datanode,
    programs: Programs,
    progress: Progress,
    /// In the first database.
    primary: Session,
    /// Roles that were not on the new server before.
    roles_made: Mutex<Vec<String>>,
    /// Databases that are made on the server, and from what.
    filled: Mutex<BTreeMap<String, State>>,
    /// From here on the server is to be emptied on failure.
    is_touched: AtomicBool,
    /// From here on the server is a datanode of the first database, or nobody knows whether it is.
    is_sent: AtomicBool,
}

impl<'a> Join<'a> {
    /// Finds the programs, and reaches the primary datanode.
    pub async fn new(config: &'a Config, new: &'a Datanode, progress: &Progress) -> Result<Self> {
        let primary = membership::primary(config).await?;
        let pg_bin = config.local.as_ref().map(|local| local.pg_bin.as_path());
        let major = primary.value("SELECT current_setting('server_version_num')::int / 10000").await?;
        let programs = Programs::find(pg_bin, major.and_then(|major| major.parse().ok()).unwrap_or(0))?;
        let (is_touched, is_sent) = (AtomicBool::new(false), AtomicBool::new(false));
        let (progress, roles_made, filled) = (*progress, Mutex::default(), Mutex::default());
        Ok(Self { config, new, programs, progress, primary, roles_made, filled, is_touched, is_sent })
    }

    /// Prepares the server; it is not a datanode yet.
    pub async fn prepare(&self) -> Result<Prepared> {
        let first = OneDatabase::connect(self, self.config.clone()).await?;
        let id = self.until_unchanged(|| self.attempt(&first)).await?;
        let catalog_version = self.filled_from(&first).map_or(0, |state| state.version);
        Ok(Prepared { id, catalog_version })
    }

    /// Prepares the server and makes it a datanode of all databases; gives its id. If it is one of some databases, of the others.
    pub async fn add(&self) -> Result<u16> {
        let id = match self.id_in_first().await? {
            Some(id) if membership::lacking(self.config, id).await?.is_empty() => {
                let text = format!("{} is a datanode already", self.new.name);
                return Err(PgError::new(SqlState::DUPLICATE_OBJECT, text));
            }
            Some(id) => {
                self.sent(true);
                id
            }
            None => self.add_to_first().await?,
        };
        self.drop_strays().await?;
        for config in membership::lacking(self.config, id).await? {
            txn::control_point!("node-joins-another-database");
            self.add_to(config, id).await?;
        }
        self.drop_roles().await.map(|()| id)
    }

    /// After an error or an interruption of [`Self::add`]: the id, if the server has become a datanode all the same; or the
    /// error, if it has not, and the server is empty again. 40003: nobody knows, and the server was left as it is.
    pub async fn left_after(&self, error: PgError) -> Result<u16> {
        if !self.is_sent() {
            if self.is_touched.load(Ordering::Acquire)
                && let Err(trouble) = self.undo().await
            {
                self.progress.line(&format!("could not clean up: {trouble}"));
            }
            return Err(error);
        }
        let members = membership::members(self.config).await.unwrap_or_default();
        let member = members.into_iter().find(|member| member.name == self.new.name);
        member.map(|member| member.id).ok_or_else(|| {
            let text = format!("nobody knows whether {} has become a datanode: {}", self.new.name, error.message());
            PgError::new(SqlState::STATEMENT_COMPLETION_UNKNOWN, text)
                .detail("Its server was left as it is.")
                .hint("\"loxo node list\" shows it if it has; if not, run the same command again.")
        })
    }

    /// After [`Self::left_after`] has found that the server is a datanode: an error if it is not one of every database.
    pub async fn check_complete(&self, id: u16, cause: &PgError) -> Result<()> {
        let lacking = membership::lacking(self.config, id).await?;
        let names: Vec<&str> = lacking.iter().map(|config| config.cluster.database.as_str()).collect();
        if names.is_empty() {
            return Ok(());
        }
        let (new, names) = (&self.new.name, names.join(", "));
        let text = format!("{new} is a datanode, but not yet of every database; it lacks: {names}");
        Err(PgError::new(cause.code(), text)
            .detail(cause.message().into_owned())
            .hint("Run the same command again: it goes on with those. Until then roles cannot be changed there."))
    }

    /// Id of the new server, if it is a datanode of the first database.
    async fn id_in_first(&self) -> Result<Option<u16>> {
        let new = self.new;
        let is_it =
            |member: &membership::Member| (&member.name, &member.host, member.port) == (&new.name, &new.host, new.port);
        let members = membership::read_members(self.config, &self.primary).await?;
        Ok(members.into_iter().find(is_it).map(|member| member.id))
    }

    async fn add_to_first(&self) -> Result<u16> {
        let first = OneDatabase::connect(self, self.config.clone()).await?;
        let added = self.until_unchanged(async || {
            let id = self.attempt(&first).await?;
            first.create_node().await.map(|()| id)
        });
        added.await
    }

    /// Adds the server to a database. If it was prepared for that, only what may have changed since is copied once more.
    async fn add_to(&self, config: Config, id: u16) -> Result<()> {
        let database = match OneDatabase::connect(self, config.clone()).await {
            // It has been dropped.
            Err(error) if error.code() == SqlState::INVALID_CATALOG_NAME => return Ok(()),
            connected => connected?,
        };
        let added = self.until_unchanged(async || {
            match self.is_filled(&database).await? {
                true => database.copy_properties_again().await?,
                false => self.fill(&database, id).await?,
            }
            database.create_node().await
        });
        let outcome = added.await;
        let is_lacking =
            membership::lacking(self.config, id).await?.iter().any(|one| one.cluster.database == database.database());
        if is_lacking { outcome } else { Ok(()) }
    }

    /// Databases that were dropped while they were made on the server: from now on their names may be given again.
    async fn drop_strays(&self) -> Result<()> {
        let known = async || strays::known(&self.primary).await;
        strays::drop_all_but(known, (&self.primary, self.config), self.new, Server::Member).await
    }

    /// Likewise, when nothing on the server may depend on them any more.
    async fn drop_roles(&self) -> Result<()> {
        let first = OneDatabase::connect(self, self.config.clone()).await?;
        roles::drop_unwanted(self, &self.primary, &first.connect_to(self.new).await?).await
    }

    /// Takes back what was done to the server.
    async fn undo(&self) -> Result<()> {
        let server = server::emptied(self.config, &self.primary, self.new).await?;
        let none = async || Ok(BTreeSet::new());
        strays::drop_all_but(none, (&self.primary, self.config), self.new, Server::Stranger).await?;
        roles::drop_made(&server, &self.take_roles_made(), &[]).await
    }

    /// Runs `work` again if it fails because the schema has changed meanwhile, or a new gtm leads, or tables are locked.
    async fn until_unchanged<T>(&self, work: impl AsyncFn() -> Result<T>) -> Result<T> {
        for _ in 1..ATTEMPTS_MAX {
            match work().await {
                Err(error) if error.code() == SqlState::SERIALIZATION_FAILURE => {
                    self.progress.line("the cluster has changed meanwhile: preparing the server again");
                }
                // CREATE NODE has waited too long for writers of replicated tables.
                Err(error) if error.code() == SqlState::LOCK_NOT_AVAILABLE => {
                    self.progress.line(&format!("{}: trying again", error.message()));
                }
                outcome => return outcome,
            }
        }
        work().await
    }

    /// Has every database be on the server as it is now on the primary datanode; gives the id that the server is to have. Roles that have
    /// changed meanwhile CREATE NODE notices, and databases that have come are made on the server after that.
    async fn attempt(&self, first: &OneDatabase<'_>) -> Result<u16> {
        let before = self.shared_state().await?;
        let outcome = self.attempt_once(first).await;
        match self.shared_state().await? {
            // They may make an error of anything.
            after if outcome.is_err() && after != before => {
                Err(PgError::new(SqlState::SERIALIZATION_FAILURE, "the cluster's roles or databases keep changing")
                    .hint("Add the datanode when fewer of them are made."))
            }
            _ => outcome,
        }
    }

    async fn attempt_once(&self, first: &OneDatabase<'_>) -> Result<u16> {
        let id = server::next_id(&self.primary).await?;
        let (mut others, mut kept) = (Vec::new(), BTreeSet::new());
        for config in membership::other_databases(self.config).await? {
            let database = OneDatabase::connect(self, config).await?;
            match self.is_filled(&database).await? {
                true => _ = kept.insert((database.state().await?.id, database.database().to_owned())),
                false => others.push(database),
            }
        }
        // Roles that were dropped meanwhile may own something in them.
        strays::drop_all_but(async || Ok(kept), (&self.primary, self.config), self.new, Server::Stranger).await?;
        match self.is_filled(first).await? {
            // Roles may have changed from another database.
            true => first.copy_properties_again().await?,
            false => self.fill(first, id).await?,
        }
        for database in &others {
            self.fill(database, id).await?;
        }
        Ok(id)
    }

    async fn fill(&self, database: &OneDatabase<'_>, id: u16) -> Result<()> {
        self.filled().remove(database.database());
        let from = database.fill(id).await?;
        self.filled().insert(database.database().to_owned(), from);
        Ok(())
    }

    /// Is the database on the server as it is now?
    async fn is_filled(&self, database: &OneDatabase<'_>) -> Result<bool> {
        let now = database.state().await?;
        Ok(self.filled_from(database).is_some_and(|from| from == now))
    }

    fn filled_from(&self, database: &OneDatabase<'_>) -> Option<State> {
        self.filled().get(database.database()).cloned()
    }

    /// What databases share: which there are, and the roles.
    async fn shared_state(&self) -> Result<Vec<Vec<Option<String>>>> {
        let mut state = self.primary.rows("SELECT id, name, state FROM loxo.database ORDER BY id").await?;
        state.extend(roles::state(&self.primary).await?);
        Ok(state)
    }

    fn filled(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.filled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_roles_made(&self) -> Vec<String> {
        std::mem::take(&mut *self.roles_made.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note_roles_made(&self, names: impl IntoIterator<Item = String>) {
        self.roles_made.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    fn touched(&self) {
        self.is_touched.store(true, Ordering::Release);
    }

    fn is_sent(&self) -> bool {
        self.is_sent.load(Ordering::Acquire)
    }

    fn sent(&self, is_sent: bool) {
        self.is_sent.store(is_sent, Ordering::Release);
    }
}
