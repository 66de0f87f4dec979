//! One database of the cluster on the new server: made like that of the primary datanode, and then CREATE NODE, through a coordinator
//! that is connected to this database.

use pgerror::{PgError, Result, SqlState};

use super::{Join, database, distribution, metadata, roles, schema, server, shape};
use crate::config::{Config, Datanode};
use crate::membership;
use crate::progress::Progress;
use crate::sql::{Session, identifier, literal};

/// Which database it is, and the version of its catalog. What was read is right as long as neither changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct State {
    pub(super) id: String,
    pub(super) version: i64,
}

const STATE_SQL: &str = "SELECT i.cluster_id, v.version FROM loxo.identity AS i, loxo.catalog_version AS v";

/// See the module's page.
pub(super) struct OneDatabase<'j> {
    join: &'j Join<'j>,
    /// In this database.
    config: Config,
    primary: Session,
    pub(super) is_first: bool,
}

impl<'j> OneDatabase<'j> {
    pub(super) async fn connect(join: &'j Join<'j>, config: Config) -> Result<Self> {
        let is_first = config.cluster.database == join.config.cluster.database;
        let primary = membership::primary(&config).await?;
        Ok(Self { join, config, primary, is_first })
    }

    pub(super) fn database(&self) -> &str {
        &self.config.cluster.database
    }

    pub(super) async fn state(&self) -> Result<State> {
        let row = self.primary.rows(STATE_SQL).await?.into_iter().next().unwrap_or_default();
        let mut row = row.into_iter().flatten();
        let (id, version) = (row.next(), row.next().and_then(|version| version.parse().ok()));
        id.zip(version)
            .map(|(id, version)| State { id, version })
            .ok_or_else(|| PgError::internal("no version of the catalog"))
    }

    /// Makes it on the server, without rows, for a datanode of this id; what it was made from.
    pub(super) async fn fill(&self, id: u16) -> Result<State> {
        let before = self.state().await?;
        let outcome = self.fill_once(id).await;
        // A schema that changes while it is read may make an error of anything.
        match self.state().await? {
            after if after == before => outcome.map(|()| before),
            _ => Err(PgError::new(SqlState::SERIALIZATION_FAILURE, "the cluster's schema keeps changing")
                .hint("Add the datanode when fewer schema changes are made.")),
        }
    }

    async fn fill_once(&self, id: u16) -> Result<()> {
        let Self { join, config, primary, .. } = self;
        let (new, progress) = (join.new, join.progress);
        let server = progress.step(&self.label("emptying the server"), server::emptied(config, primary, new)).await?;
        // What is said of the server is said once.
        let told = if self.is_first { progress } else { Progress::quiet() };
        server::check(config, primary, new, &server, &told).await?;
        join.touched();
        metadata::copy(primary, &server, id).await?;
        self.copy_properties(&server).await?;
        let schema = schema::copy(&join.programs, config, new);
        progress.step(&self.label("copying the schema"), schema).await?;
        // Settings of roles and of the database, copied just now, count for new sessions.
        let server = self.connect_to(new).await?;
        distribution::copy(primary, &server).await?;
        shape::compare(&self.connect_to(config.primary()).await?, &server).await
    }

    /// What belongs to the database as a whole, and in the first one the roles. Says nothing of rows and tables, so it can be done again.
    pub(super) async fn copy_properties(&self, server: &Session) -> Result<()> {
        if self.is_first {
            let roles = roles::copy(self.join, server);
            self.join.progress.step("copying the roles", roles).await?;
        }
        database::copy(&self.primary, server, self.is_first).await
    }

    /// [`Self::copy_properties`] on the server as it is now.
    pub(super) async fn copy_properties_again(&self) -> Result<()> {
        self.copy_properties(&self.connect_to(self.join.new).await?).await
    }

    pub(super) async fn create_node(&self) -> Result<()> {
        let label = format!("waiting for CREATE NODE {}", self.join.new.name);
        self.join.progress.step(&self.label(&label), self.create_node_once()).await
    }

    async fn create_node_once(&self) -> Result<()> {
        let Datanode { name, host, port, .. } = self.join.new;
        let coordinator = membership::coordinator(&self.config).await?;
        let generation = self.generation().await?;
        let server = self.connect_to(self.join.new).await?;
        server.run(&format!("SELECT setval('loxo.generation', {generation})")).await?;
        let before = self.join.is_sent();
        self.join.sent(true);
        let node = format!("{} WITH (TYPE = 'datanode', HOST = {}, PORT = {port})", identifier(name), literal(host));
        let Err(error) = coordinator.run(&format!("CREATE NODE {node}")).await else { return Ok(()) };
        if is_doubtful(&error) {
            return Err(error);
        }
        self.join.sent(before);
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

    pub(super) async fn connect_to(&self, node: &Datanode) -> Result<Session> {
        let session = Session::connect(&self.config.endpoint(&node.host, node.port)?).await;
        session.map_err(|e| crate::init::at(node, e))
    }

    fn label(&self, what: &str) -> String {
        match self.is_first {
            true => what.to_owned(),
            false => format!("database {}: {what}", self.database()),
        }
    }
}

/// Does the error leave open whether the statement was carried out? The coordinator may have gone, or was told to.
fn is_doubtful(error: &PgError) -> bool {
    let code = error.code();
    code == SqlState::STATEMENT_COMPLETION_UNKNOWN || [&b"08"[..], b"57"].iter().any(|c| code.as_bytes().starts_with(c))
}
