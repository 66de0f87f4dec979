//! What all sessions of one coordinator share: the pool, the catalog, the gtm client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use catalog::{NodeId, Oid};
use pgerror::{PgError, Result, SqlState};
use txn::gtm::{CatalogState, GtmClient};

use crate::backend::admission::Admission;
use crate::backend::cancel::Registry;
use crate::backend::login::Logins;
use crate::backend::pool::{Address, Identity, Link, Pool};
use crate::copy::cores::Cores;
use crate::engine::estimates::Estimates;
use crate::plan_cache::analysis::Analyses;
use crate::plan_cache::by_shape::TemplateCache;
use crate::session::catalog_load::{self, Loaded};
use crate::session::search_path::SearchPaths;

/// Longest wait for a DDL statement of another session to be settled.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

/// No datanode's catalog has come so far.
const OWN_VERSIONS_FIRST: u64 = 1 << 63;

/// Times that a load is tried again.
const LOAD_RETRIES: usize = 2;

/// See the module's page.
pub struct Context {
    pub(crate) pool: Pool,
    pub(crate) admission: Arc<Admission>,
    pub(crate) gids: txn::GidSource,
    pub(crate) gtm: GtmClient,
    datanodes: Vec<Address>,
    primary: NodeId,
    service: Identity,
    registry: Arc<Registry>,
    cached: Mutex<Option<Arc<Loaded>>>,
    loading: tokio::sync::Mutex<()>,
    sessions: AtomicUsize,
    own_versions: AtomicU64,
    /// For each node: how often this coordinator has left a committed transaction unresolved there, from 1.
    doubts: Vec<AtomicU64>,
    types: Mutex<(u64, HashMap<NodeId, Arc<TypeMap>>)>,
    pub(crate) templates: TemplateCache,
    pub(crate) analyses: Analyses,
    pub(crate) builtin_types: tokio::sync::OnceCell<HashMap<Oid, String>>,
    pub(crate) logins: Logins,
    pub(crate) search_paths: SearchPaths,
    pub(crate) estimates: Estimates,
    pub(crate) cores: Arc<Cores>,
    capture_token: tokio::sync::OnceCell<Bytes>,
    /// What is PostgreSQL's own.
    pub(crate) builtins: Arc<tokio::sync::OnceCell<Arc<catalog::Builtins>>>,
    seal: tokio::sync::OnceCell<Arc<txn::Seal>>,
}

/// Object ids of user-defined types on a datanode → on the home node.
pub(crate) type TypeMap = HashMap<Oid, Oid>;

impl Context {
    /// `datanodes` in node id order; `service` is the superuser that reads the metadata.
    pub fn new(
        datanodes: Vec<Address>,
        primary: NodeId,
        service: Identity,
        pool: Pool,
        gtm: GtmClient,
        gids: txn::GidSource,
    ) -> Self {
        let doubts = datanodes.iter().map(|_| AtomicU64::new(1)).collect();
        let registry = Arc::new(Registry::new(own_options(&datanodes, &service, pool.roster())));
        gtm.set_sessions(registry.clone());
        pool.roster().follow(gtm.clone());
        Self {
            admission: Admission::new(pool.connections_max()),
            pool,
            gids,
            doubts,
            gtm,
            datanodes,
            primary,
            service,
            registry,
            cached: Mutex::default(),
            loading: Default::default(),
            sessions: AtomicUsize::new(0),
            own_versions: AtomicU64::new(OWN_VERSIONS_FIRST),
            types: Mutex::default(),
            templates: TemplateCache::default(),
            analyses: Analyses::default(),
            builtin_types: Default::default(),
            logins: Logins::default(),
            search_paths: SearchPaths::default(),
            estimates: Estimates::default(),
            cores: Arc::default(),
            capture_token: Default::default(),
            builtins: Arc::default(),
            seal: Default::default(),
        }
    }

    /// The node of system catalogs, sequences and final fragments.
    pub fn home(&self) -> NodeId {
        self.primary
    }

    /// All datanodes, in id order.
    pub fn nodes(&self) -> Vec<NodeId> {
        (0..self.datanodes.len()).map(|id| NodeId(id as u16)).collect()
    }

    /// A connection to `node` that settled at an earlier value than this has to settle again.
    pub(crate) fn doubt(&self, node: NodeId) -> u64 {
        self.doubts.get(usize::from(node.0)).map_or(1, |doubts| doubts.load(Ordering::Acquire))
    }

    /// A committed transaction could not be finished on `node`.
    pub(crate) fn raise_doubt(&self, node: NodeId) {
        if let Some(doubts) = self.doubts.get(usize::from(node.0)) {
            doubts.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Counts sessions, so that each begins its turns at another node.
    pub(crate) fn next_session_number(&self) -> usize {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// A version for a catalog that only one transaction sees, which no other catalog ever has.
    pub(crate) fn next_own_version(&self) -> u64 {
        self.own_versions.fetch_add(1, Ordering::Relaxed)
    }

    /// All sessions, as the gtm asks for them.
    pub(crate) fn sessions(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// A datanode's name, as far as the catalog read last knows it.
    pub(crate) fn node_name(&self, node: NodeId) -> String {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cached.as_ref().and_then(|loaded| loaded.catalog.nodes().get(usize::from(node.0)));
        known.map_or_else(|| format!("datanode {}", node.0), |node| node.name.clone())
    }

    /// The superuser the coordinator itself connects as.
    pub fn service(&self) -> &Identity {
        &self.service
    }

    /// The pool of datanode connections.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn address(&self, node: NodeId) -> Result<Address> {
        let address = self.datanodes.get(usize::from(node.0)).cloned();
        address.ok_or_else(|| {
            PgError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("datanode {} is not in this coordinator's configuration", node.0),
            )
            .hint("Restart the coordinator with a configuration that lists all datanodes.")
        })
    }

    /// The user-defined types of a datanode, by name. Read once for each catalog version.
    pub(crate) async fn types_on(&self, node: NodeId, catalog_version: u64) -> Result<Arc<TypeMap>> {
        {
            let known = self.types.lock().unwrap_or_else(PoisonError::into_inner);
            if let (true, Some(map)) = (known.0 == catalog_version, known.1.get(&node)) {
                return Ok(map.clone());
            }
        }
        let (there, here) = (self.type_names(node).await?, self.type_names(self.primary).await?);
        let here: HashMap<&str, Oid> = here.iter().map(|(oid, name)| (name.as_str(), *oid)).collect();
        let map: TypeMap = there.iter().filter_map(|(oid, name)| Some((*oid, *here.get(name.as_str())?))).collect();
        let map = Arc::new(map);
        let mut known = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != catalog_version {
            *known = (catalog_version, HashMap::new());
        }
        known.1.insert(node, map.clone());
        Ok(map)
    }

    async fn type_names(&self, node: NodeId) -> Result<Vec<(Oid, String)>> {
        let sql = "SELECT t.oid, pg_catalog.concat(pg_catalog.quote_ident(n.nspname), '.', t.typname) \
                   FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
                   WHERE t.oid >= 16384";
        let rows = self.query_as_service(node, sql).await?;
        let text = |value: Option<Bytes>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        let pair = |row: Vec<Option<Bytes>>| {
            let mut values = row.into_iter();
            let oid = text(values.next().flatten()).parse().unwrap_or(0);
            (oid, text(values.next().flatten()))
        };
        Ok(rows.into_iter().map(pair).collect())
    }

    /// How to reach every datanode as somebody.
    pub(crate) fn connect_options(&self, identity: &Identity) -> Vec<pgproto::ConnectOptions> {
        connect_options(&self.datanodes, identity, self.pool.roster())
    }

    /// How to reach every datanode for statements of our own.
    pub(crate) fn own_options(&self) -> Vec<pgproto::ConnectOptions> {
        own_options(&self.datanodes, &self.service, self.pool.roster())
    }

    /// A link of the service user for statements of our own. No session ever gets it, not even one of the same user.
    pub(crate) async fn service_link(&self, node: NodeId) -> Result<Link> {
        self.pool.checkout_for_service(node, &self.address(node)?, &self.service).await
    }

    /// Runs a query as the service user on a node, outside any session.
    pub async fn query_as_service(&self, node: NodeId, sql: &str) -> Result<Vec<Vec<Option<Bytes>>>> {
        let mut link = self.service_link(node).await?;
        let result = link.connection.query_rows(sql).await;
        self.pool.give_back(link);
        result
    }

    /// What the messages of `loxo.capture()` prove themselves by. It never changes.
    pub(crate) async fn capture_token(&self) -> Result<Bytes> {
        let read = async || {
            let rows = self.query_as_service(self.primary, "SELECT token FROM loxo.capture_token").await?;
            let token = rows.into_iter().flatten().next().flatten();
            token.ok_or_else(|| PgError::internal("loxo.capture_token is empty"))
        };
        self.capture_token.get_or_try_init(read).await.cloned()
    }

    /// The keys of the proofs that calls of our own functions bring. They never change.
    pub async fn seal(&self) -> Result<Arc<txn::Seal>> {
        let read = async || {
            let rows = self.query_as_service(self.primary, txn::SEAL_SQL).await?;
            txn::Seal::read(&rows).map(Arc::new)
        };
        self.seal.get_or_try_init(read).await.cloned()
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
                CatalogState::Pending => self.schema_settled().await?,
                CatalogState::Disconnected => return self.without_gtm().await,
            }
        }
    }

    /// The gtm's epoch, if no schema change is under way.
    pub(crate) fn epoch(&self) -> Option<u64> {
        match self.gtm.catalog_state() {
            CatalogState::Valid { epoch } => Some(epoch),
            CatalogState::Pending | CatalogState::Disconnected => None,
        }
    }

    /// Waits for the schema change that was announced.
    pub(crate) async fn schema_settled(&self) -> Result<()> {
        let settled = tokio::time::timeout(SETTLE_TIMEOUT, self.gtm.settled()).await;
        settled.map_err(|_| {
            PgError::new(SqlState::CANNOT_CONNECT_NOW, "a schema change of another session has not ended within 30 s")
        })
    }

    /// The current catalog if the gtm vouches for the one in memory.
    pub(crate) fn current_catalog(&self) -> Option<Arc<Loaded>> {
        self.epoch().and_then(|epoch| self.cached_at(Some(epoch)))
    }

    /// Nobody tells us of changes: ask the primary datanode before and after each statement. It may be the last that is told of
    /// a commit, so a schema change on its way there is waited for.
    async fn without_gtm(&self) -> Result<Arc<Loaded>> {
        let _one_at_a_time = self.loading.lock().await;
        let rows = self.query_as_service(self.primary, catalog_load::SETTLED_VERSION).await?;
        let version =
            rows.last().and_then(|row| row.first()?.as_deref()).and_then(|v| std::str::from_utf8(v).ok()?.parse().ok());
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match cached {
            Some(loaded) if Some(loaded.catalog.version()) == version => Ok(loaded),
            _ => self.load(None).await,
        }
    }

    async fn load(&self, epoch: Option<u64>) -> Result<Arc<Loaded>> {
        let mut link = self.service_link(self.primary).await?;
        let mut result = catalog_load::load(&mut link.connection, None, &self.builtins).await;
        // Functions that print definitions look at the present, not at the snapshot: an object dropped meanwhile makes them fail.
        for _ in 0..LOAD_RETRIES {
            match &result {
                Err(error) if is_worth_a_retry(error) && link.connection.is_idle() => {
                    result = catalog_load::load(&mut link.connection, None, &self.builtins).await;
                }
                _ => break,
            }
        }
        self.pool.give_back(link);
        let loaded = Arc::new(Loaded { catalog: Arc::new(result?), epoch });
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = Some(loaded.clone());
        Ok(loaded)
    }

    fn cached_at(&self, epoch: Option<u64>) -> Option<Arc<Loaded>> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|loaded| loaded.epoch == epoch).cloned()
    }
}

fn is_worth_a_retry(error: &PgError) -> bool {
    ![SqlState::CONNECTION_FAILURE, SqlState::LOCK_NOT_AVAILABLE].contains(&error.code())
}

/// By node id, for statements of our own.
pub fn own_options(
    datanodes: &[Address],
    service: &Identity,
    roster: &Arc<txn::Roster>,
) -> Vec<pgproto::ConnectOptions> {
    let mut options = connect_options(datanodes, service, roster);
    options.iter_mut().for_each(|node| node.parameters = txn::own_parameters("loxo"));
    options
}

/// By node id.
fn connect_options(
    datanodes: &[Address],
    identity: &Identity,
    roster: &Arc<txn::Roster>,
) -> Vec<pgproto::ConnectOptions> {
    let options = |(node, address): (usize, &Address)| pgproto::ConnectOptions {
        host: address.host.clone(),
        port: address.port,
        user: identity.user.clone(),
        database: identity.database.clone(),
        secret: identity.secret.clone(),
        parameters: Vec::new(),
        proof: Some(roster.proof(node as u16)),
    };
    datanodes.iter().enumerate().map(options).collect()
}
