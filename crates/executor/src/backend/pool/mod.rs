//! Connections to datanodes, shared by all sessions of a coordinator.
//!
//! A session takes a [`Link`] when a statement needs that node and gives it back when nothing ties the two together any
//! more (no transaction, no temp table, no cursor). Links of one user and database are interchangeable: each remembers
//! which session settings were applied to its backend, and [`crate::Session`] brings it to its own before use.
//!
//! A link is also known by the [`Login`] that it was opened under, and says whether its backend may hold something of the
//! session that had it last ([`Link::left_by`]). Settings of applications are the one thing that no RESET takes out of a backend:
//! a session gets no link that has heard of one that the session has not set itself.
//!
//! Invariants: an idle link is drained, outside a transaction and alive as far as the socket tells; there are never more
//! than [`Pool::connections_max`] links to a node, a tenth more for the moment (see [`crate::backend::pool::admission`]), and who waits longer than [`CHECKOUT_TIMEOUT`] for one gets 53300.

pub(crate) mod admission;
pub(crate) mod cluster;
pub(crate) mod login;
pub(crate) mod members;
mod permits;
pub(crate) mod sequence_values;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use pgproto::{ConnectOptions, Connection, Encryption, scram};
use tokio::sync::Notify;
use txn::Roster;

use crate::backend::isolation::Isolation;
use crate::backend::own_statements::Own;
use crate::backend::pool::login::{Login, SERVICE};
use crate::backend::pool::permits::{Permit, Permits};
use crate::backend::pool::sequence_values::{Drawn, DrawnHere};
use crate::backend::settings::{CONFORMING_STRINGS, Placeholders, Settings, duration};

/// Longest wait for a free connection to a node.
const CHECKOUT_TIMEOUT: Duration = Duration::from_secs(30);

/// For each so many connections to a node there is one more that sessions' first ones do not count against, and one for all.
const PER_EXTRA: usize = 10;

/// Prepared statements kept on one connection.
const STATEMENTS_MAX: usize = 256;

/// The user for whom a connection acts.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Identity {
    pub user: String,
    pub database: String,
    pub secret: Option<scram::Secret>,
}

/// Address of a datanode.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

/// The connections to one node.
struct Server {
    address: Address,
    permits: Arc<Permits>,
    /// A link has become idle.
    returned: Notify,
    idle: Mutex<Idle>,
}

/// Links in the order in which they were given back: no more than a node may have, so a search looks at each. In boxes, for
/// each statement takes one and gives it back, and a link is large.
type Idle = Vec<Box<Link>>;

/// The server and the user that links belong to.
#[derive(Clone, Copy)]
struct Key<'a> {
    address: &'a Address,
    identity: &'a Identity,
    /// [`Login::stamp`].
    login: u64,
}

/// What [`Pool::place`] finds.
pub(crate) enum Place {
    Idle(Box<Link>),
    /// A new connection may be opened.
    Free(Permit),
}

/// One connection to a datanode with what the session must know of its backend.
pub struct Link {
    /// The connection itself.
    pub connection: Connection,
    /// Which settings the backend has; 0 is a fresh backend.
    pub(crate) applied_settings: u64,
    /// The session whose statements may have left settings or the values of sequences in the backend.
    pub(crate) left_by: Option<usize>,
    /// The session that had it last.
    pub(crate) used_by: usize,
    /// Others have had it since plans were discarded. PL/pgSQL keeps what a constant of a body meant when it was first read: that is
    /// another session's if that session read otherwise.
    pub(crate) has_others_plans: bool,
    /// [`Connection::readings`] when plans were last discarded.
    pub(crate) planned_at: u64,
    /// The session whose values of sequences the backend has.
    pub(crate) drawn: Option<DrawnHere>,
    /// What the backend started with.
    pub(crate) login: Arc<Login>,
    pub(crate) statements: StatementCache,
    /// What the backend may have heard of.
    placeholders: Placeholders,
    /// Which doubts about the node ([`crate::Context`]) were over when this connection passed its last read barrier; 0 if it passed none.
    pub(crate) read_barrier_at: u64,
    /// `default_transaction_isolation` as the backend started.
    pub(crate) isolation: Isolation,
    /// `statement_timeout` as the backend started.
    pub(crate) statement_timeout: Option<Duration>,
    node: NodeId,
    /// For the log.
    node_name: Arc<str>,
    user: String,
    database: String,
    address: Address,
    _permit: Permit,
}

impl Link {
    /// May a body have constants that another session has read otherwise?
    pub(crate) fn reads_otherwise(&self) -> bool {
        self.has_others_plans && self.connection.readings() != self.planned_at
    }
}

/// Statements prepared on one backend, by text, parameter types and settings: under another search path the same text may
/// have another result type, which PostgreSQL does not allow a prepared statement.
#[derive(Default)]
pub(crate) struct StatementCache {
    names: HashMap<StatementKey, (Bytes, u64)>,
    clock: u64,
    /// `None`: what they return may have other columns by now.
    schema_version: Option<u64>,
}

/// What makes a prepared statement.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct StatementKey {
    pub(crate) sql: Bytes,
    pub(crate) types: Vec<u32>,
    /// [`Link::applied_settings`].
    pub(crate) settings: u64,
}

impl StatementCache {
    /// Name of the statement on this backend, if it is prepared there.
    pub(crate) fn get(&mut self, key: &StatementKey) -> Option<Bytes> {
        self.clock += 1;
        let clock = self.clock;
        self.names.get_mut(key).map(|(name, used)| {
            *used = clock;
            name.clone()
        })
    }

    /// A name for a new statement, and the name of one to close if there are too many.
    pub(crate) fn insert(&mut self, key: StatementKey) -> (Bytes, Option<Bytes>) {
        self.clock += 1;
        let evicted = (self.names.len() >= STATEMENTS_MAX)
            .then(|| self.names.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone()))
            .flatten()
            .and_then(|key| self.names.remove(&key))
            .map(|(name, _)| name);
        let name = Bytes::from(format!("loxo_{}", self.clock));
        self.names.insert(key, (name.clone(), self.clock));
        (name, evicted)
    }

    /// Forgets one statement whose Parse failed.
    pub(crate) fn remove(&mut self, key: &StatementKey) {
        self.names.remove(key);
    }

    /// Names in `pg_temp`, of which the catalog's version tells nothing, mean something else now.
    pub(crate) fn temp_names_changed(&mut self) {
        self.schema_version = None;
    }

    /// Forgets all if the catalog is another one than before (a result type may have changed); gives the names to close.
    pub(crate) fn expire(&mut self, schema_version: u64) -> Vec<Bytes> {
        if self.schema_version == Some(schema_version) {
            return Vec::new();
        }
        self.schema_version = Some(schema_version);
        self.names.drain().map(|(_, (name, _))| name).collect()
    }
}

impl Link {
    /// Which datanode it leads to.
    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// The backend may have heard of all that these have.
    pub(crate) fn hears_of(&mut self, settings: &Settings) {
        let unheard = settings.placeholders().difference(&self.placeholders).cloned().collect::<Vec<_>>();
        self.placeholders.extend(unheard);
    }

    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// Whom its backend has logged in, by the name that he had then.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// The link, for another session than the one whose values of sequences it has: that gets them first, also if the other one does not
    /// wait so long. `None` if it cannot be used any more.
    async fn without_drawn(mut self: Box<Self>) -> Option<Box<Self>> {
        let Some(here) = self.drawn.take().filter(DrawnHere::has_owner) else { return Some(self) };
        let handed_over = tokio::spawn(async move {
            let handed_over = here.hand_over(&mut self.connection).await;
            handed_over.is_ok().then_some(self)
        });
        handed_over.await.ok().flatten()
    }

    /// Was it opened for such a session, and has heard of no other settings than that?
    fn may_serve(&self, key: Key<'_>, heard_of: &Placeholders) -> bool {
        self.login.stamp == key.login && self.is_of(key) && self.placeholders.is_subset(heard_of)
    }

    /// Are the values of sequences in its backend nobody's?
    fn has_no_owner(&self) -> bool {
        !self.drawn.as_ref().is_some_and(DrawnHere::has_owner)
    }

    /// A span of the log for what the node is given to do.
    pub(crate) fn fragment(&self) -> tracing::Span {
        tracing::debug_span!("fragment", datanode = &*self.node_name)
    }

    /// Writes an error of the node into the log: its code and not its message, which may quote values of rows or parameters.
    pub(crate) fn has_refused(&self, error: &PgError) {
        tracing::debug!(datanode = &*self.node_name, code = error.code().as_str(), "error of a datanode");
    }

    /// But for the login.
    fn is_of(&self, key: Key<'_>) -> bool {
        self.user == key.identity.user && self.database == key.identity.database && self.address == *key.address
    }
}

/// See the module's page.
pub struct Pool {
    servers: Mutex<HashMap<Address, Arc<Server>>>,
    connections_max: AtomicUsize,
    roster: Arc<Roster>,
    encryption: Encryption,
}

impl Pool {
    /// A pool that opens at most `connections_max` connections to each node, to no servers but those of this roster.
    pub fn new(connections_max: usize, roster: Arc<Roster>, encryption: Encryption) -> Self {
        Self { servers: Mutex::default(), connections_max: connections_max.into(), roster, encryption }
    }

    /// Encryption of all connections to datanodes.
    pub(crate) fn encryption(&self) -> &Encryption {
        &self.encryption
    }

    /// Which servers the datanodes are.
    pub(crate) fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }

    /// Most connections to one node.
    pub fn connections_max(&self) -> usize {
        self.connections_max.load(Ordering::Relaxed)
    }

    /// So many from here on. Connections that are too many are closed as soon as nobody uses them.
    pub(crate) async fn resize(&self, connections_max: usize) {
        {
            // A server that somebody adds just now has either number before this, and the new one after it.
            let servers = self.lock();
            self.connections_max.store(connections_max, Ordering::Relaxed);
            servers.values().for_each(|server| server.permits.resize(self.most()));
        }
        for server in self.all() {
            while server.permits.are_too_many()
                && let Some(link) = server.pop_any()
            {
                drop(link.without_drawn().await);
            }
        }
    }

    /// A connection for the coordinator's own needs. Its search path is none of the user's.
    pub(crate) async fn checkout_for_service(
        &self,
        (node, name): (NodeId, Arc<str>),
        address: &Address,
        identity: &Identity,
    ) -> Result<Box<Link>> {
        match self.place(node, address, identity, SERVICE, &Placeholders::new(), None).await? {
            Place::Idle(link) => Ok(link),
            Place::Free(permit) => self.open((node, name), address, identity, Arc::default(), permit).await,
        }
    }

    /// An idle connection that was opened under this login and has heard of no settings but these, or the right to open one. If it can be the one that has the session's values
    /// of sequences, and not one that has another session's.
    pub(crate) async fn place(
        &self,
        node: NodeId,
        address: &Address,
        identity: &Identity,
        login: u64,
        heard_of: &Placeholders,
        drawn: Option<&Arc<Drawn>>,
    ) -> Result<Place> {
        let key = Key { address, identity, login };
        let found = tokio::time::timeout(CHECKOUT_TIMEOUT, self.wait_for_place(key, heard_of, drawn)).await;
        found.map_err(|_| {
            PgError::new(
                SqlState::TOO_MANY_CONNECTIONS,
                format!("all {} connections to datanode {} are in use", self.connections_max(), node.0),
            )
            .hint("Raise max_connections of the datanodes and pool_size of the coordinators, or use fewer clients.")
        })
    }

    /// What [`Pool::place`] looks for first.
    pub(crate) fn idle_link(
        &self,
        address: &Address,
        identity: &Identity,
        login: u64,
        heard_of: &Placeholders,
        drawn: Option<&Arc<Drawn>>,
    ) -> Option<Box<Link>> {
        let key = Key { address, identity, login };
        self.server(address).pop_idle(key, heard_of, drawn)
    }

    async fn wait_for_place(&self, key: Key<'_>, heard_of: &Placeholders, drawn: Option<&Arc<Drawn>>) -> Place {
        let server = self.server(key.address);
        loop {
            let returned = server.returned.notified();
            tokio::pin!(returned);
            returned.as_mut().enable();
            if let Some(link) = server.pop_idle(key, heard_of, drawn) {
                return Place::Idle(link);
            }
            if let Some(permit) = server.permits.try_acquire() {
                return Place::Free(permit);
            }
            // The one that was given back first.
            let given_first = |idle: &Idle| idle.iter().position(|link| link.may_serve(key, heard_of));
            if let Some(link) = server.pop_alive(given_first) {
                match link.without_drawn().await {
                    Some(link) => return Place::Idle(link),
                    None => continue,
                }
            }
            // Idle links of other users, and those that know too much, count too: close one of them rather than wait.
            if let Some(link) = server.pop_any() {
                drop(link.without_drawn().await);
                continue;
            }
            tokio::select! {
                permit = server.permits.acquire() => return Place::Free(permit),
                () = returned => {}
            }
        }
    }

    /// Opens a connection.
    pub(crate) async fn open(
        &self,
        (node, node_name): (NodeId, Arc<str>),
        address: &Address,
        identity: &Identity,
        login: Arc<Login>,
        permit: Permit,
    ) -> Result<Box<Link>> {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let parameters = match login.stamp == SERVICE {
            true => txn::own_parameters("loxo"),
            false => [("application_name", "loxo"), (CONFORMING_STRINGS, "on"), txn::LIVELY].map(owned).to_vec(),
        };
        let options = ConnectOptions {
            host: address.host.clone(),
            port: address.port,
            user: identity.user.clone(),
            database: identity.database.clone(),
            secret: identity.secret.clone(),
            parameters,
            encryption: self.encryption.clone(),
            proof: Some(self.roster.proof(node.0)),
        };
        let prepare = |connection: &mut Connection| {
            Own::prepare_all(connection);
            // A role or a database can have its own.
            connection.query(b"SHOW default_transaction_isolation; SHOW statement_timeout");
        };
        let mut connection = Connection::connect_and(&options, prepare).await.map_err(PgError::of_a_statement)?;
        connection.read_rows().await?;
        let (rows, _) = connection.read_rows().await?;
        let mut values = rows.into_iter().map(|row| row.into_iter().next().flatten().unwrap_or_default());
        let mut value = || String::from_utf8_lossy(&values.next().unwrap_or_default()).into_owned();
        let (isolation, statement_timeout) = (Isolation::named(&value()), duration(&value()));
        let statements = StatementCache::default();
        Ok(Box::new(Link {
            connection,
            applied_settings: 0,
            left_by: None,
            used_by: 0,
            has_others_plans: false,
            planned_at: 0,
            drawn: None,
            statements,
            placeholders: Placeholders::new(),
            read_barrier_at: 0,
            isolation,
            statement_timeout,
            node,
            node_name,
            user: options.user,
            database: options.database,
            address: address.clone(),
            login,
            _permit: permit,
        }))
    }

    /// Takes a link back, without notices that nobody has heard; one that is not idle is closed.
    pub fn give_back(&self, mut link: Box<Link>) {
        if link.connection.is_idle() {
            link.connection.take_notices();
            let server = self.server(&link.address);
            if server.permits.are_too_many() && link.has_no_owner() {
                return;
            }
            server.lock().push(link);
            server.returned.notify_one();
        }
    }

    /// Closes all idle connections (on `CLEAN CONNECTION`).
    pub async fn clear(&self) {
        for server in self.all() {
            let idle = std::mem::take(&mut *server.lock());
            for link in idle {
                drop(link.without_drawn().await);
            }
        }
    }

    /// Closes the idle connections to a database.
    pub(crate) fn leave(&self, database: &str) {
        for server in self.all() {
            server.lock().retain(|link| link.database != database);
        }
    }

    /// How many connections are used and idle, by address.
    pub(crate) fn use_by_address(&self) -> HashMap<Address, (usize, usize)> {
        let of_server = |server: Arc<Server>| {
            let idle = server.lock().len();
            (server.address.clone(), (server.permits.given().saturating_sub(idle), idle))
        };
        self.all().into_iter().map(of_server).collect()
    }

    /// To one address.
    fn most(&self) -> usize {
        self.connections_max() + self.connections_max() / PER_EXTRA + 1
    }

    fn server(&self, address: &Address) -> Arc<Server> {
        let mut servers = self.lock();
        if let Some(server) = servers.get(address) {
            return server.clone();
        }
        let server = Arc::new(Server {
            address: address.clone(),
            permits: Permits::new(self.most()),
            returned: Notify::new(),
            idle: Mutex::default(),
        });
        servers.insert(address.clone(), server.clone());
        server
    }

    fn all(&self) -> Vec<Arc<Server>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Address, Arc<Server>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session wants the values in a backend whose link may rest here, and not the link.
    pub(crate) async fn tell_drawn(&self, drawn: &Arc<Drawn>) {
        if let Some(link) = self.all().iter().find_map(|server| server.pop_own(drawn, |_| true))
            && let Some(link) = link.without_drawn().await
        {
            self.give_back(link);
        }
    }
}

impl Server {
    fn pop_idle(&self, key: Key<'_>, heard_of: &Placeholders, drawn: Option<&Arc<Drawn>>) -> Option<Box<Link>> {
        let fits = |link: &Link| link.may_serve(key, heard_of) && link.has_no_owner();
        let own = drawn.and_then(|drawn| self.pop_own(drawn, |link| link.is_of(key)));
        own.or_else(|| self.pop_alive(|idle| idle.iter().rposition(|link| fits(link))))
    }

    /// The link with the session's values. It may have been opened under another login.
    fn pop_own(&self, drawn: &Arc<Drawn>, is_meant: impl Fn(&Link) -> bool) -> Option<Box<Link>> {
        let is_own = |link: &Link| link.drawn.as_ref().is_some_and(|here| here.is_of(Some(drawn))) && is_meant(link);
        self.pop_alive(|idle| idle.iter().rposition(|link| is_own(link)))
    }

    fn pop_any(&self) -> Option<Box<Link>> {
        self.lock().pop()
    }

    fn pop_alive(&self, choose: impl Fn(&Idle) -> Option<usize>) -> Option<Box<Link>> {
        loop {
            let mut link = {
                let mut idle = self.lock();
                let at = choose(&idle)?;
                idle.remove(at)
            };
            if link.connection.looks_alive() {
                return Some(link);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
