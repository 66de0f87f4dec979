//! What the sessions of one coordinator share.
//!
//! * [`Shared`]: the executor's context, cancel keys, whether the coordinator is about to end.
//! * [`admission`]: how many clients there may be, and how many connections that have not said who they are.
//! * [`tls`]: the certificate, and how a client's connection is encrypted.
//! * [`caches`]: parsed texts and descriptions of statements.
//!
//! Invariant: nothing here outlives the coordinator. No session waits for another's statement here, but for long texts of others to be read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use executor::{Apart, CancelSet, Context};
use pgproto::hba::Rules;
use tokio::sync::watch;

use self::admission::Admission;
use self::caches::{DescriptionCache, StatementCache};
use self::tls::Tls;

pub(crate) mod admission;
pub(crate) mod caches;
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

/// Process id and secret of a session, by which another connection cancels its statement.
pub(crate) type CancelKey = (i32, i32);

/// See the page.
pub(crate) struct Shared {
    /// The coordinator's.
    name: Arc<str>,
    context: Arc<Context>,
    authentication: RwLock<Arc<Authentication>>,
    tls: Option<Tls>,
    admission: Arc<Admission>,
    descriptions: DescriptionCache,
    statements: StatementCache,
    apart: Apart,
    cancels: Mutex<HashMap<CancelKey, Arc<CancelSet>>>,
    next_process_id: AtomicI32,
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
    ) -> Self {
        Self {
            name: name.into(),
            context: Arc::new(context),
            authentication: RwLock::new(Arc::new(authentication)),
            tls,
            admission: Arc::new(Admission::new(clients_max)),
            descriptions: DescriptionCache::default(),
            statements: StatementCache::default(),
            apart: Apart::default(),
            cancels: Mutex::default(),
            next_process_id: AtomicI32::new(1),
            stopping: watch::Sender::new(false),
        }
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.name.clone()
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
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
        let process_id = self.next_process_id.fetch_add(1, Ordering::Relaxed);
        self.cancels().insert((process_id, secret), cancel);
        (process_id, secret)
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

    /// Cancels what all sessions run, and returns when they are gone.
    pub(crate) async fn cancel_all(&self) {
        let cancels: Vec<_> = self.cancels().values().cloned().collect();
        for cancel in cancels {
            cancel.cancel().await;
        }
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
