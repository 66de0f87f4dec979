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
//! Invariants:
//! - Nothing is locked while the server is prepared but what pg_dump locks (ACCESS SHARE). What was read is right only if
//!   `loxo.catalog_version` is still the same afterwards, and CREATE NODE looks once more under the cluster's locks.
//! - A server is emptied only if it carries this cluster's id, is not one of its datanodes, and its tables hold no rows.
//! - On failure the server is as empty as it was, unless nobody knows whether CREATE NODE was carried out.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use pgerror::{PgError, Result, SqlState};

use crate::config::{Config, Datanode};
use crate::membership;
use crate::progress::Progress;
use crate::sql::{Session, identifier, literal};

mod database;
mod distribution;
mod metadata;
pub(crate) mod programs;
mod roles;
mod schema;
mod server;
mod shape;

use programs::Programs;

/// So many schema changes may come in between.
const ATTEMPTS_MAX: usize = 5;

/// A server that is prepared.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    /// Of the datanode that it can become.
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
    primary: Session,
    /// Roles that were not on the new server before.
    roles_made: Mutex<Vec<String>>,
    /// From here on the server is to be emptied on failure.
    is_touched: AtomicBool,
    /// From here on the outcome may be unknown.
    is_sent: AtomicBool,
}

impl<'a> Join<'a> {
    /// Finds the programs, and reaches the primary datanode.
    pub async fn new(config: &'a Config, new: &'a Datanode, progress: &Progress) -> Result<Self> {
        let node = config.primary();
        let primary = Session::connect(&config.endpoint(&node.host, node.port)?).await;
        let primary = primary.map_err(|e| crate::init::at(node, e))?;
        membership::refuse_several_databases(&primary).await?;
        let pg_bin = config.local.as_ref().map(|local| local.pg_bin.as_path());
        let major = primary.value("SELECT current_setting('server_version_num')::int / 10000").await?;
        let programs = Programs::find(pg_bin, major.and_then(|major| major.parse().ok()).unwrap_or(0))?;
        let (is_touched, is_sent) = (AtomicBool::new(false), AtomicBool::new(false));
        let (progress, roles_made) = (*progress, Mutex::default());
        Ok(Self { config, new, programs, progress, primary, roles_made, is_touched, is_sent })
    }

    /// Prepares the server; it is not a datanode yet.
    pub async fn prepare(&self) -> Result<Prepared> {
        self.until_unchanged(|| self.attempt()).await
    }

    /// Prepares the server and makes it a datanode; gives its id.
    pub async fn add(&self) -> Result<u16> {
        let added = self.until_unchanged(async || {
            let prepared = self.attempt().await?;
            let label = format!("waiting for CREATE NODE {}", self.new.name);
            self.progress.step(&label, self.create_node()).await.map(|()| prepared.id)
        });
        added.await
    }

    /// After an error or an interruption of [`Self::add`]: the id, if the server has become a datanode all the same; or the
    /// error, if it has not, and the server is empty again. 40003: nobody knows, and the server was left as it is.
    pub async fn left_after(&self, error: PgError) -> Result<u16> {
        if !self.is_sent.load(Ordering::Acquire) {
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

    /// Takes back what was done to the server.
    async fn undo(&self) -> Result<()> {
        let server = server::emptied(self.config, &self.primary, self.new).await?;
        roles::drop_made(&server, &self.take_roles_made(), &[]).await
    }

    /// Runs `work` again if it fails because the schema has changed meanwhile, or a new gtm leads, or tables are locked.
    async fn until_unchanged<T>(&self, work: impl AsyncFn() -> Result<T>) -> Result<T> {
        for _ in 1..ATTEMPTS_MAX {
            match work().await {
                Err(error) if error.code() == SqlState::SERIALIZATION_FAILURE => {
                    self.progress.line("the cluster has changed meanwhile: preparing the server again");
                }
                // Of those who write replicated tables, in CREATE NODE.
                Err(error) if error.code() == SqlState::LOCK_NOT_AVAILABLE => {
                    self.progress.line(&format!("{}: trying again", error.message()));
                }
                outcome => return outcome,
            }
        }
        work().await
    }

    async fn attempt(&self) -> Result<Prepared> {
        let before = self.version().await?;
        let outcome = self.fill().await;
        // A schema that changes while it is read may make an error of anything.
        match self.version().await? {
            after if after == before => outcome.map(|id| Prepared { id, catalog_version: before }),
            _ => Err(PgError::new(SqlState::SERIALIZATION_FAILURE, "the cluster's schema keeps changing")
                .hint("Add the datanode when fewer schema changes are made.")),
        }
    }

    async fn fill(&self) -> Result<u16> {
        let (config, new, primary) = (self.config, self.new, &self.primary);
        let id = server::next_id(primary).await?;
        let made = server::emptied(config, primary, new);
        let server = self.progress.step("emptying the server", made).await?;
        server::check(config, primary, new, &server, &self.progress).await?;
        self.is_touched.store(true, Ordering::Release);
        metadata::copy(primary, &server, id).await?;
        let roles = roles::copy(self, &server);
        self.progress.step("copying the roles", roles).await?;
        database::copy(primary, &server).await?;
        self.progress.step("copying the schema", schema::copy(self)).await?;
        // Settings of roles and of the database, copied just now, count for new sessions.
        let server = self.connect().await?;
        distribution::copy(primary, &server).await?;
        shape::compare(&self.connect_to(config.primary()).await?, &server).await?;
        Ok(id)
    }

    async fn create_node(&self) -> Result<()> {
        let Datanode { name, host, port, .. } = self.new;
        let coordinator = membership::coordinator(self.config).await?;
        let generation = self.generation().await?;
        self.connect().await?.run(&format!("SELECT setval('loxo.generation', {generation})")).await?;
        self.is_sent.store(true, Ordering::Release);
        let node = format!("{} WITH (TYPE = 'datanode', HOST = {}, PORT = {port})", identifier(name), literal(host));
        let Err(error) = coordinator.run(&format!("CREATE NODE {node}")).await else { return Ok(()) };
        if is_doubtful(&error) {
            return Err(error);
        }
        self.is_sent.store(false, Ordering::Release);
        // A server that is behind the others is an old copy of a datanode to them, and this one is behind since just now.
        match self.generation().await? == generation {
            true => Err(error),
            false => Err(PgError::new(SqlState::SERIALIZATION_FAILURE, error.message())),
        }
    }

    async fn generation(&self) -> Result<i64> {
        let generation = self.primary.value("SELECT last_value FROM loxo.generation").await?;
        generation.and_then(|value| value.parse().ok()).ok_or_else(|| PgError::internal("no generation"))
    }

    async fn version(&self) -> Result<i64> {
        let version = self.primary.value("SELECT version FROM loxo.catalog_version").await?;
        version.and_then(|version| version.parse().ok()).ok_or_else(|| PgError::internal("no version of the catalog"))
    }

    async fn connect(&self) -> Result<Session> {
        self.connect_to(self.new).await
    }

    async fn connect_to(&self, node: &Datanode) -> Result<Session> {
        let session = Session::connect(&self.config.endpoint(&node.host, node.port)?).await;
        session.map_err(|e| crate::init::at(node, e))
    }

    fn take_roles_made(&self) -> Vec<String> {
        std::mem::take(&mut *self.roles_made.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Does the error leave open whether the statement was carried out? The coordinator may have gone, or was told to.
fn is_doubtful(error: &PgError) -> bool {
    let code = error.code();
    code == SqlState::STATEMENT_COMPLETION_UNKNOWN || [&b"08"[..], b"57"].iter().any(|c| code.as_bytes().starts_with(c))
}
