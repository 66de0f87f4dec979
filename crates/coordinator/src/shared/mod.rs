//! What the sessions of one coordinator share.
//!
//! * [`Shared`]: cancel keys, whether the coordinator is about to end.
//! * [`admission`]: how many clients there may be, and how many connections that have not said who they are.
//! * [`failed_logins`]: logins that have failed, and what comes of it for the next ones.
//! * [`databases`]: the executor's context of each database.
//! * [`tls`]: the certificate, and how a client's connection is encrypted.
//! * [`figures`]: what is counted, and told when asked for.
//! * [`caches`]: parsed texts and descriptions of statements.
//!
//! Invariant: nothing here outlives the coordinator. No session waits for another's statement here, but for long texts of others to be read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use executor::{Apart, CancelSet, Context};
use pgproto::hba::Rules;
use tokio::sync::watch;

use self::admission::Admission;
use self::caches::{DescriptionCache, StatementCache};
use self::databases::Databases;
use self::failed_logins::{FailedLogins, LoginLimits};
use self::tls::Tls;

pub(crate) mod admission;
pub(crate) mod caches;
pub(crate) mod databases;
pub(crate) mod failed_logins;
pub(crate) mod figures;
pub(crate) mod tls;

/// How clients prove who they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Authentication {
    /// Not at all. For loopback only.
    Trust,
    /// SCRAM-SHA-256 against the datanodes' own verifiers.
    Scram,
    /// As the first of these that fits a client has it.
    Rules(Rules),
}

/// Process ids of sessions are a coordinator's number and, in so many bits, the session's: no two coordinators give the same.
const SESSION_BITS: u32 = 22;
const SESSION_MASK: i32 = (1 << SESSION_BITS) - 1;
const COORDINATORS_MAX: u16 = 1 << (31 - SESSION_BITS);

/// Process id and secret of a session, by which another connection cancels its statement.
pub(crate) type CancelKey = (i32, i32);

/// See the page.
pub(crate) struct Shared {
    /// The coordinator's.
    name: Arc<str>,
    databases: Arc<Databases>,
    authentication: RwLock<Arc<Authentication>>,
    tls: Option<Tls>,
    admission: Arc<Admission>,
    failed_logins: FailedLogins,
    descriptions: DescriptionCache,
    statements: StatementCache,
    apart: Apart,
    cancels: Mutex<HashMap<CancelKey, Arc<CancelSet>>>,
    /// Added to the session's number.
    first_process_id: i32,
    started: Instant,
    next_session: AtomicI32,
    /// True from the moment when the coordinator is told to end.
    stopping: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn new(
        name: &str,
        context: Context,
        authentication: Authentication,
        tls: Option<Tls>,
        clients_max: usize,
        login_limits: LoginLimits,
        number: u16,
    ) -> Self {
        let name: Arc<str> = name.into();
        Self {
            databases: Databases::new(name.clone(), Arc::new(context)),
            name,
            authentication: RwLock::new(Arc::new(authentication)),
            tls,
            admission: Arc::new(Admission::new(clients_max)),
            failed_logins: FailedLogins::new(login_limits),
            descriptions: DescriptionCache::default(),
            statements: StatementCache::default(),
            apart: Apart::default(),
            cancels: Mutex::default(),
            first_process_id: i32::from(number % COORDINATORS_MAX) << SESSION_BITS,
            started: Instant::now(),
            next_session: AtomicI32::new(1),
            stopping: watch::Sender::new(false),
        }
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    /// How long the coordinator has been there.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn databases(&self) -> &Arc<Databases> {
        &self.databases
    }

    /// The context of the cluster's first database.
    pub(crate) fn context(&self) -> &Arc<Context> {
        self.databases.first()
    }

    pub(crate) fn authentication(&self) -> Arc<Authentication> {
        self.authentication.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// For clients to come.
    pub(crate) fn set_authentication(&self, authentication: Authentication) {
        *self.authentication.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(authentication);
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    pub(crate) fn admission(&self) -> &Arc<Admission> {
        &self.admission
    }

    pub(crate) fn failed_logins(&self) -> &FailedLogins {
        &self.failed_logins
    }

    pub(crate) fn descriptions(&self) -> &DescriptionCache {
        &self.descriptions
    }

    pub(crate) fn statements(&self) -> &StatementCache {
        &self.statements
    }

    /// Where long texts are parsed.
    pub(crate) fn apart(&self) -> &Apart {
        &self.apart
    }

    /// A key under which this session can be cancelled.
    pub(crate) fn register(&self, cancel: Arc<CancelSet>, secret: i32) -> CancelKey {
        let mut cancels = self.cancels();
        loop {
            let session = self.next_session.fetch_add(1, Ordering::Relaxed) & SESSION_MASK;
            let key = (self.first_process_id + session, secret);
            // The numbers begin again some day.
            if session != 0 && cancels.keys().all(|(process_id, _)| *process_id != key.0) {
                cancels.insert(key, cancel);
                return key;
            }
        }
    }

    /// The session has ended.
    pub(crate) fn forget(&self, key: CancelKey) {
        self.cancels().remove(&key);
    }

    /// Cancels what the session with this key runs; another key does nothing.
    pub(crate) async fn cancel(&self, key: CancelKey) {
        let cancel = self.cancels().get(&key).cloned();
        if let Some(cancel) = cancel {
            cancel.cancel().await;
        }
    }

    /// Ends all sessions, and returns when they are gone.
    pub(crate) async fn end_all(&self) {
        let sessions: Vec<_> = self.cancels().values().cloned().collect();
        sessions.into_iter().for_each(|session| drop(tokio::spawn(async move { session.end().await })));
        self.admission.all_gone().await;
    }

    /// From now on sessions end as soon as they are idle.
    pub(crate) fn begin_to_stop(&self) {
        self.stopping.send_replace(true);
    }

    /// True once the coordinator is told to end.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    fn cancels(&self) -> MutexGuard<'_, HashMap<CancelKey, Arc<CancelSet>>> {
        self.cancels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
