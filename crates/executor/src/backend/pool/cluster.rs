//! The datanodes, the gtm and the ways to them: what all connections of a coordinator share.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use pgproto::Encryption;
use txn::gtm::{CatalogState, GtmClient};

use crate::backend::cancel::Registry;
use crate::backend::pool::admission::Admission;
use crate::backend::pool::login::{Login, Logins, login_sql};
use crate::backend::pool::members::{Configured, Member, Members};
use crate::backend::pool::sequence_values::Drawn;
use crate::backend::pool::{Address, Identity, Link, Place, Pool};
use crate::backend::settings::Placeholders;

/// Longest wait for a DDL statement of another session to be resolved.
const SCHEMA_CHANGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Links that are opened while somebody changes the user's settings again and again.
const OPENED_MAX: usize = 5;

/// See the module's page.
pub struct Cluster {
    pub(crate) pool: Arc<Pool>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) gids: txn::GidSource,
    pub(crate) gtm: GtmClient,
    pub(crate) logins: Logins,
    /// Makes schema `loxo` in a new database.
    pub(crate) metadata: &'static str,
    members: Arc<Members>,
    primary: NodeId,
    service: Identity,
    registry: Arc<Registry>,
    sessions: Arc<AtomicUsize>,
    /// How often this coordinator has left a committed transaction unresolved on a node, from 1; of the nodes where it has.
    doubts: Mutex<HashMap<NodeId, u64>>,
    seal: tokio::sync::OnceCell<Arc<txn::Seal>>,
    /// The database's; empty of the first one.
    pub(crate) database_id: String,
    /// The cluster in its first database, if this is another one.
    first: Option<Arc<Cluster>>,
}

impl Cluster {
    pub(crate) fn new(
        datanodes: Vec<Configured>,
        primary: NodeId,
        service: Identity,
        pool: Pool,
        gtm: GtmClient,
        metadata: &'static str,
    ) -> Self {
        let members = Arc::new(Members::new(datanodes));
        let (known, user) = (members.clone(), service.clone());
        let (roster, encryption) = (pool.roster().clone(), pool.encryption().clone());
        let registry = Arc::new(Registry::new(move || own_options(&known.present(), &user, &roster, &encryption)));
        gtm.set_sessions(registry.clone());
        pool.roster().follow(&service.database, gtm.clone());
        Self {
            admission: Admission::new(pool.connections_max()),
            pool: Arc::new(pool),
            metadata,
            gids: txn::GidSource::new(),
            gtm,
            logins: Logins::default(),
            members,
            primary,
            service,
            registry,
            sessions: Arc::default(),
            doubts: Mutex::default(),
            seal: Default::default(),
            database_id: String::new(),
            first: None,
        }
    }

    /// In another database of the cluster. Connections are counted together.
    pub(crate) fn in_database(first: &Arc<Self>, coordinator: &str, database: &txn::Database) -> Self {
        let gtm = first.gtm.in_database(coordinator, database.clone());
        gtm.set_sessions(first.registry.clone());
        first.pool.roster().enter(database);
        first.pool.roster().follow(&database.name, gtm.clone());
        Self {
            admission: first.admission.clone(),
            pool: first.pool.clone(),
            metadata: first.metadata,
            gids: txn::GidSource::new(),
            gtm,
            logins: Logins::default(),
            members: Arc::new(first.members.anew()),
            primary: first.primary,
            service: Identity { database: database.name.clone(), ..first.service.clone() },
            registry: first.registry.clone(),
            sessions: first.sessions.clone(),
            doubts: Mutex::default(),
            seal: Default::default(),
            database_id: database.id.clone(),
            first: Some(first.clone()),
        }
    }

    /// That of the cluster's first database, where notes of all of them are kept. All coordinators are always connected to its gtm.
    pub(crate) fn first(&self) -> &Self {
        self.first.as_deref().unwrap_or(self)
    }

    /// Is this the cluster's first database?
    pub(crate) fn is_first(&self) -> bool {
        self.first.is_none()
    }

    /// The node of system catalogs, sequences and final fragments.
    pub fn home(&self) -> NodeId {
        self.primary
    }

    /// All datanodes, in id order.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.members.present().keys().copied().collect()
    }

    /// Is there more than one?
    pub(crate) fn has_several_nodes(&self) -> bool {
        self.members.present().len() > 1
    }

    /// Which datanodes there are.
    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// A connection to `node` that passed a read barrier at an earlier value than this has to pass a read barrier again.
    pub(crate) fn doubt(&self, node: NodeId) -> u64 {
        let doubts = self.doubts.lock().unwrap_or_else(PoisonError::into_inner);
        doubts.get(&node).copied().unwrap_or(1)
    }

    /// A committed transaction could not be finished on `node`.
    pub(crate) fn raise_doubt(&self, node: NodeId) {
        let mut doubts = self.doubts.lock().unwrap_or_else(PoisonError::into_inner);
        *doubts.entry(node).or_insert(1) += 1;
    }

    /// Counts sessions, so that each begins its turns at another node.
    pub(crate) fn next_session_number(&self) -> usize {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// All sessions, as the gtm asks for them.
    pub(crate) fn sessions(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The superuser the coordinator itself connects as.
    pub fn service(&self) -> &Identity {
        &self.service
    }

    /// So many connections to each datanode from here on; to be followed by [`Cluster::fit_pool`].
    pub fn want_connections(&self, connections_max: usize) {
        self.admission.set_slots(connections_max);
    }

    /// Gives the pool the size that was wanted last. A smaller one it gets when the sessions that were admitted by the old number
    /// have ended.
    pub async fn fit_pool(&self) {
        let _one_at_a_time = self.admission.fitting.lock().await;
        let slots = self.admission.settled().await;
        self.pool.resize(slots).await;
    }

    /// How many there are to be: those that are too many are still there while somebody uses them.
    pub fn wants_connections(&self) -> usize {
        self.admission.slots()
    }

    /// The pool of datanode connections.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn address(&self, node: NodeId) -> Result<Address> {
        self.members.address(node).ok_or_else(|| {
            PgError::new(SqlState::UNDEFINED_OBJECT, format!("there is no datanode with id {}", node.0))
                .hint("SELECT * FROM pgxc_node lists the nodes.")
        })
    }

    /// Finds out which cluster this is: see [`txn::Roster::survey`].
    ///
    /// # Errors
    /// When the datanodes of the configuration belong to different clusters.
    pub async fn survey(&self) -> Result<()> {
        self.pool.roster().survey(&self.own_options()).await
    }

    /// How to reach every datanode as somebody.
    pub(crate) fn connect_options(&self, identity: &Identity) -> txn::Datanodes {
        connect_options(&self.members.present(), identity, &[], self.pool.roster(), self.pool.encryption())
    }

    /// How to reach every datanode for statements of our own.
    pub(crate) fn own_options(&self) -> txn::Datanodes {
        own_options(&self.members.present(), &self.service, self.pool.roster(), self.pool.encryption())
    }

    /// A link of the service user for statements of our own. No session ever gets it, not even one of the same user.
    pub(crate) async fn service_link(&self, node: NodeId) -> Result<Box<Link>> {
        let named = (node, self.members.name(node));
        self.pool.checkout_for_service(named, &self.address(node)?, &self.service).await
    }

    /// Runs a query as the service user on a node, outside any session.
    pub async fn query_as_service(&self, node: NodeId, sql: &str) -> Result<Vec<Vec<Option<Bytes>>>> {
        let mut link = self.service_link(node).await?;
        let result = link.connection.query_rows(sql).await;
        self.pool.give_back(link);
        result
    }

    /// The keys of the proofs that calls of our own functions bring. They never change.
    pub async fn seal(&self) -> Result<Arc<txn::Seal>> {
        let read = async || {
            let rows = self.query_as_service(self.primary, txn::SEAL_SQL).await?;
            txn::Seal::read(&rows).map(Arc::new)
        };
        self.seal.get_or_try_init(read).await.cloned()
    }

    /// The gtm's epoch, if no schema change is under way.
    pub(crate) fn epoch(&self) -> Option<u64> {
        match self.gtm.catalog_state() {
            CatalogState::Valid { epoch } => Some(epoch),
            CatalogState::Pending | CatalogState::Disconnected => None,
        }
    }

    /// Waits for the schema change that was announced.
    pub(crate) async fn schema_changes_resolved(&self) -> Result<()> {
        let resolved = tokio::time::timeout(SCHEMA_CHANGE_TIMEOUT, self.gtm.schema_changes_resolved()).await;
        resolved.map_err(|_| {
            PgError::new(SqlState::CANNOT_CONNECT_NOW, "a schema change of another session has not ended within 30 s")
        })
    }

    /// How sessions of a user start now. Roles are the same in all databases: a change is told to the first database's gtm too.
    pub(crate) async fn login(&self, user: &str) -> Result<Arc<Login>> {
        let epochs = |one: &Self| (one.gtm.catalog_state(), one.first.as_ref().map(|first| first.gtm.catalog_state()));
        loop {
            match epochs(self) {
                known @ (CatalogState::Valid { epoch }, None | Some(CatalogState::Valid { .. })) => {
                    let of_first = if let Some(CatalogState::Valid { epoch }) = known.1 { epoch } else { 0 };
                    if let Some(known) = self.logins.get((epoch, of_first), user) {
                        return Ok(known);
                    }
                    let login = self.read_login(user).await?;
                    if epochs(self) == known {
                        return Ok(self.logins.put((epoch, of_first), user, login));
                    }
                }
                (CatalogState::Disconnected, _) | (_, Some(CatalogState::Disconnected)) => {
                    return self.read_login(user).await.map(Arc::new);
                }
                (CatalogState::Pending, _) => self.schema_changes_resolved().await?,
                (_, Some(CatalogState::Pending)) => self.first().schema_changes_resolved().await?,
            }
        }
    }

    async fn read_login(&self, user: &str) -> Result<Login> {
        let rows = self.query_as_service(self.home(), &login_sql(user)).await?;
        Ok(Login::of(rows.into_iter().next()))
    }

    /// One that [`Cluster::link_for`] would give at once.
    pub(crate) fn idle_link(
        &self,
        node: NodeId,
        identity: &Identity,
        login: &Arc<Login>,
        heard_of: &Placeholders,
        drawn: Option<&Arc<Drawn>>,
    ) -> Result<Option<Box<Link>>> {
        let address = self.address(node)?;
        Ok(self.pool.idle_link(&address, identity, login.stamp, heard_of, drawn))
    }

    /// How sessions of a role start now that has come in under this login. It may have got another name since, which its sessions go by
    /// from then on, and another role its old one.
    async fn login_by_present_name(&self, identity: &mut Cow<'_, Identity>, login: &Login) -> Result<Arc<Login>> {
        let now = self.login(&identity.user).await?;
        let (Some(role), true) = (login.role, now.role != login.role) else { return Ok(now) };
        let rows = self.query_as_service(self.home(), &role.name_sql()).await?;
        match rows.into_iter().next().and_then(|row| row.into_iter().next().flatten()) {
            Some(name) => {
                identity.to_mut().user = String::from_utf8_lossy(&name).into_owned();
                self.login(&identity.user).await
            }
            // It is gone, and another one bears its name.
            None if now.role.is_some_and(|now| now.server == role.server) => {
                Err(PgError::new(SqlState::INVALID_AUTHORIZATION, format!("role \"{}\" does not exist", identity.user)))
            }
            None => Ok(now),
        }
    }

    /// A link for a session: one that was opened under its login and knows no settings of applications but these, or else a new one.
    pub(crate) async fn link_for(
        &self,
        node: NodeId,
        identity: &Identity,
        login: &Arc<Login>,
        heard_of: &Placeholders,
        drawn: Option<&Arc<Drawn>>,
    ) -> Result<Box<Link>> {
        let address = self.address(node)?;
        let mut identity = Cow::Borrowed(identity);
        let mut place = self.pool.place(node, &address, &identity, login.stamp, heard_of, drawn).await?;
        for _ in 0..OPENED_MAX {
            let now = match place {
                Place::Idle(link) => return Ok(link),
                Place::Free(_) => self.login_by_present_name(&mut identity, login).await?,
            };
            let Place::Free(permit) = place else { break };
            let link =
                self.pool.open((node, self.members.name(node)), &address, &identity, now.clone(), permit).await?;
            // Had it been changed meanwhile, nobody could say what the backend has.
            if self.login(&identity.user).await?.stamp == now.stamp {
                return Ok(link);
            }
            drop(link);
            place = self.pool.place(node, &address, &identity, login.stamp, heard_of, drawn).await?;
        }
        Err(PgError::new(
            SqlState::CANNOT_CONNECT_NOW,
            format!("the settings of role \"{}\" keep changing", identity.user),
        ))
    }
}

/// For statements of our own.
pub(crate) fn own_options(
    datanodes: &BTreeMap<NodeId, Member>,
    service: &Identity,
    roster: &Arc<txn::Roster>,
    encryption: &Encryption,
) -> txn::Datanodes {
    connect_options(datanodes, service, &txn::own_parameters("loxo"), roster, encryption)
}

fn connect_options(
    datanodes: &BTreeMap<NodeId, Member>,
    identity: &Identity,
    parameters: &[(String, String)],
    roster: &Arc<txn::Roster>,
    encryption: &Encryption,
) -> txn::Datanodes {
    let options = |node: u16, address: &Address| pgproto::ConnectOptions {
        host: address.host.clone(),
        port: address.port,
        user: identity.user.clone(),
        database: identity.database.clone(),
        secret: identity.secret.clone(),
        parameters: parameters.to_vec(),
        encryption: encryption.clone(),
        proof: Some(roster.proof(node)),
    };
    datanodes.iter().map(|(node, member)| (node.0, options(node.0, &member.address))).collect()
}
