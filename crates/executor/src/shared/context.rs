//! What all sessions of one coordinator share: the pool, the catalog, the gtm client.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use catalog::{NodeId, Oid, quote_literal};
use futures_util::future::BoxFuture;
use pgerror::{PgError, Result, SqlState};
use planner::Template;
use txn::gtm::{CatalogState, GtmClient};

use crate::backend::pool::cluster::Cluster;
use crate::backend::pool::members::Configured;
use crate::backend::pool::{Identity, Pool};
use crate::backend::type_ids::{NodeTypes, TypesOfNodes, USER_TYPES};
use crate::shared::analyses::Analyses;
use crate::shared::catalog_load::{self, Known, Loaded};
use crate::shared::cores::Cores;
use crate::shared::definitions::Definitions;
use crate::shared::estimates::Estimates;
use crate::shared::few_rows::FewRows;
use crate::shared::search_paths::SearchPaths;
use crate::shared::templates::{Entry, Kept, KeptPlan, OWN_VERSIONS_FIRST};

/// Longest wait for a database that all coordinators are asked to leave, and between two looks.
const LEAVE_MAX: Duration = Duration::from_secs(10);
const LEAVE_LOOK: Duration = Duration::from_millis(20);

/// Kept templates, and plans of queries over several nodes, which are some ten times as large.
const TEMPLATES_MAX: usize = 4096;
const PLANS_MAX: usize = 1024;

/// Times that a load is tried again.
const LOAD_RETRIES: usize = 2;

/// See the module's page.
pub struct Context {
    cluster: Arc<Cluster>,
    cached: Mutex<Option<Arc<Loaded>>>,
    loading: tokio::sync::Mutex<()>,
    own_versions: AtomicU64,
    types: Mutex<(u64, HashMap<NodeId, Arc<NodeTypes>>)>,
    pub(crate) templates: Kept<Entry<Template>>,
    pub(crate) plans: Kept<Entry<KeptPlan>>,
    /// What texts of plans are found to do.
    pub(crate) judged: Kept<bool>,
    pub(crate) tables_read: Kept<Arc<[String]>>,
    pub(crate) analyses: Analyses,
    pub(crate) builtin_types: tokio::sync::OnceCell<HashMap<Oid, String>>,
    pub(crate) search_paths: SearchPaths,
    pub(crate) estimates: Estimates,
    pub(crate) few_rows: FewRows,
    pub(crate) cores: Arc<Cores>,
    capture_token: tokio::sync::OnceCell<Bytes>,
    /// What is PostgreSQL's own.
    pub(crate) builtins: Arc<tokio::sync::OnceCell<Arc<catalog::Builtins>>>,
    pub(crate) definitions: Arc<Definitions>,
}

impl TypesOfNodes for Context {
    fn home(&self) -> NodeId {
        self.cluster.home()
    }

    fn on(&self, node: NodeId, schema_version: u64) -> BoxFuture<'_, Result<Arc<NodeTypes>>> {
        Box::pin(self.types_on(node, schema_version))
    }
}

impl Deref for Context {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Context {
    /// `datanodes` as the configuration has them; `service` is the superuser that reads the metadata.
    /// `metadata`: what makes schema `loxo` in a new database.
    pub fn new(
        datanodes: Vec<Configured>,
        primary: NodeId,
        service: Identity,
        pool: Pool,
        gtm: GtmClient,
        metadata: &'static str,
    ) -> Self {
        Self::over(Arc::new(Cluster::new(datanodes, primary, service, pool, gtm, metadata)), Arc::default())
    }

    /// In another database of the cluster, for the coordinator of this name.
    #[must_use]
    pub fn in_database(first: &Self, coordinator: &str, database: &txn::Database) -> Self {
        Self::over(Arc::new(Cluster::in_database(&first.cluster, coordinator, database)), first.builtins.clone())
    }

    fn over(cluster: Arc<Cluster>, builtins: Arc<tokio::sync::OnceCell<Arc<catalog::Builtins>>>) -> Self {
        Self {
            cluster,
            cached: Mutex::default(),
            loading: Default::default(),
            own_versions: AtomicU64::new(OWN_VERSIONS_FIRST),
            types: Mutex::default(),
            templates: Kept::of(TEMPLATES_MAX),
            plans: Kept::of(PLANS_MAX),
            judged: Kept::of(PLANS_MAX),
            tables_read: Kept::of(PLANS_MAX),
            analyses: Analyses::default(),
            builtin_types: Default::default(),
            search_paths: SearchPaths::default(),
            estimates: Estimates::default(),
            few_rows: FewRows::default(),
            cores: Arc::default(),
            capture_token: Default::default(),
            builtins,
            definitions: Arc::default(),
        }
    }

    /// The database of this name that clients may connect to, if there is one beside the first, which this is.
    pub async fn find_database(&self, name: &str) -> Result<Option<txn::Database>> {
        let sql = format!(
            "SELECT d.id, d.state FROM loxo.database AS d WHERE d.name OPERATOR(pg_catalog.=) {}",
            quote_literal(name)
        );
        let patience = tokio::time::Instant::now() + LEAVE_MAX;
        loop {
            let found = self.query_as_service(self.home(), &sql).await?.into_iter().next();
            let mut found =
                found.into_iter().flatten().flatten().map(|text| String::from_utf8_lossy(&text).into_owned());
            let (id, state) = (found.next(), found.next());
            match state.as_deref() {
                Some("ready") => return Ok(id.map(|id| txn::Database::new(name, id))),
                // The session that wants to drop or rename it finds out whether anybody uses it.
                Some("leaving" | "renaming") if tokio::time::Instant::now() < patience => {
                    tokio::time::sleep(LEAVE_LOOK).await
                }
                _ => return Ok(None),
            }
        }
    }

    /// What a coordinator does when it has to leave a database. Counts once.
    pub fn on_leave(&self, leave: impl Fn(&str) + Send + Sync + 'static) {
        self.sessions().on_leave(leave);
    }

    /// No new session will use this database of the cluster.
    pub fn leave(&self, database: &txn::Database) {
        self.pool.leave(&database.name);
        self.pool.roster().leave(database);
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// A version for a catalog that only one transaction sees, which no other catalog ever has.
    pub(crate) fn next_own_version(&self) -> u64 {
        self.own_versions.fetch_add(1, Ordering::Relaxed)
    }

    /// A datanode's name, as far as the catalog read last knows it.
    pub(crate) fn node_name(&self, node: NodeId) -> String {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cached.as_ref().and_then(|loaded| loaded.catalog.nodes().iter().find(|known| known.id == node));
        known.map_or_else(|| format!("datanode {}", node.0), |node| node.name.clone())
    }

    /// The user-defined types of a datanode. Read once for each version of the schema.
    pub(crate) async fn types_on(&self, node: NodeId, schema_version: u64) -> Result<Arc<NodeTypes>> {
        {
            let known = self.types.lock().unwrap_or_else(PoisonError::into_inner);
            if let (true, Some(types)) = (known.0 == schema_version, known.1.get(&node)) {
                return Ok(types.clone());
            }
        }
        let here = self.query_as_service(self.home(), USER_TYPES).await?;
        let types = Arc::new(NodeTypes::of_rows(self.query_as_service(node, USER_TYPES).await?, here));
        let mut known = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != schema_version {
            *known = (schema_version, HashMap::new());
        }
        known.1.insert(node, types.clone());
        Ok(types)
    }

    /// What the messages of `loxo.capture()` prove themselves by. It never changes.
    pub(crate) async fn capture_token(&self) -> Result<Bytes> {
        let read = async || {
            let rows = self.query_as_service(self.home(), "SELECT token FROM loxo.capture_token").await?;
            let token = rows.into_iter().flatten().next().flatten();
            token.ok_or_else(|| PgError::internal("loxo.capture_token is empty"))
        };
        self.capture_token.get_or_try_init(read).await.cloned()
    }

    /// The current catalog: from memory as long as the gtm vouches for it, else read (or at least compared by version)
    /// on the primary datanode.
    pub async fn catalog(&self) -> Result<Arc<Loaded>> {
        loop {
            match self.gtm.catalog_state() {
                CatalogState::Valid { epoch } => {
                    if let Some(loaded) = self.cached_at(Some(epoch)) {
                        return Ok(loaded);
                    }
                    let _one_at_a_time = self.loading.lock().await;
                    if self.cached_at(Some(epoch)).is_none() {
                        self.load(Some(epoch)).await?;
                    }
                }
                CatalogState::Pending => self.schema_changes_resolved().await?,
                CatalogState::Disconnected => return self.without_gtm().await,
            }
        }
    }

    /// Was a rebalance under way when the catalog was read last?
    pub(crate) fn rows_move(&self) -> bool {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().is_some_and(|loaded| loaded.catalog.rows_move())
    }

    /// The version of the schema that was read last.
    pub(crate) fn known_schema_version(&self) -> Option<u64> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().map(|loaded| loaded.catalog.schema_version())
    }

    /// The current catalog if the gtm vouches for the one in memory.
    pub(crate) fn current_catalog(&self) -> Option<Arc<Loaded>> {
        self.epoch().and_then(|epoch| self.cached_at(Some(epoch)))
    }

    /// Nobody tells us of changes: ask the primary datanode before and after each statement. It may be the last that is told of
    /// a commit, so a schema change on its way there is waited for.
    async fn without_gtm(&self) -> Result<Arc<Loaded>> {
        let _one_at_a_time = self.loading.lock().await;
        let rows = self.query_as_service(self.home(), catalog_load::VISIBLE_VERSION).await?;
        let version =
            rows.last().and_then(|row| row.first()?.as_deref()).and_then(|v| std::str::from_utf8(v).ok()?.parse().ok());
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match cached {
            Some(loaded) if Some(loaded.catalog.version()) == version => Ok(loaded),
            _ => self.load(None).await,
        }
    }

    async fn load(&self, epoch: Option<u64>) -> Result<Arc<Loaded>> {
        let mut link = self.service_link(self.home()).await?;
        let before = self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before = before.as_ref().map(|loaded| &*loaded.catalog);
        let known = Known { builtins: &self.builtins, definitions: &self.definitions, before };
        let mut result = catalog_load::load(&mut link.connection, None, &known).await;
        // Functions that print definitions look at the present, not at the snapshot: an object dropped meanwhile makes them fail.
        for _ in 0..LOAD_RETRIES {
            match &result {
                Err(error) if is_worth_a_retry(error) && link.connection.is_idle() => {
                    result = catalog_load::load(&mut link.connection, None, &known).await;
                }
                _ => break,
            }
        }
        self.pool.give_back(link);
        let loaded = Arc::new(Loaded { catalog: Arc::new(result?), epoch });
        self.members().follow(loaded.catalog.nodes());
        // The first database notes gtms when they come and go.
        if self.is_first() {
            self.gtm.know(loaded.catalog.gtms().iter().map(|gtm| format!("{}:{}", gtm.host, gtm.port)));
        }
        self.doubt_moved_places(&loaded.catalog);
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = Some(loaded.clone());
        Ok(loaded)
    }

    /// A catalog may be read before its change is visible on all nodes, if the coordinator that made it is dead: rows that have
    /// moved would be on no node yet. So each connection passes a read barrier before a plan by the new catalog reads through it.
    fn doubt_moved_places(&self, new: &catalog::Catalog) {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if cached.is_some_and(|before| !before.catalog.places_as(new)) {
            self.nodes().into_iter().for_each(|node| self.raise_doubt(node));
        }
    }

    fn cached_at(&self, epoch: Option<u64>) -> Option<Arc<Loaded>> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|loaded| loaded.epoch == epoch).cloned()
    }
}

fn is_worth_a_retry(error: &PgError) -> bool {
    ![SqlState::CONNECTION_FAILURE, SqlState::LOCK_NOT_AVAILABLE].contains(&error.code())
}
