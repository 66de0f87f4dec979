//! How many clients a coordinator serves at a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pgerror::{PgError, Result, SqlState};
use tokio::sync::Notify;

/// Connections that have not said who they are.
const STRANGERS_MAX: usize = 500;
/// Clients that only superusers may be, among those that may be connected (`superuser_reserved_connections`).
const SUPERUSERS_RESERVED: usize = 3;

/// Counts clients, and connections that may become clients.
pub(crate) struct Admission {
    clients: AtomicUsize,
    clients_max: usize,
    /// A client has gone.
    departed: Notify,
    strangers: Mutex<VecDeque<Arc<Notify>>>,
}

impl Admission {
    pub(super) fn new(clients_max: usize) -> Self {
        Self { clients: AtomicUsize::new(0), clients_max, departed: Notify::new(), strangers: Mutex::default() }
    }

    /// Takes in a client that has said who it is; 53300 when there are as many as allowed.
    pub(crate) fn admit(self: &Arc<Self>, is_superuser: bool) -> Result<Admitted> {
        let admitted = Admitted(self.clone());
        let before = self.clients.fetch_add(1, Ordering::Relaxed);
        let reserved = SUPERUSERS_RESERVED.min(self.clients_max / 2);
        match before {
            _ if before >= self.clients_max => Err(too_many()),
            _ if before >= self.clients_max - reserved && !is_superuser => Err(PgError::fatal(
                SqlState::TOO_MANY_CONNECTIONS,
                "remaining connection slots are reserved for roles with the SUPERUSER attribute",
            )),
            _ => Ok(admitted),
        }
    }

    /// How many there are.
    pub(super) fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Returns when no client is left.
    pub(super) async fn all_gone(&self) {
        while self.clients.load(Ordering::Acquire) > 0 {
            self.departed.notified().await;
        }
    }

    fn strangers(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_many() -> PgError {
    PgError::fatal(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already")
}

/// A connection that has not said who it is. If there are too many, the oldest has to go: a real client is known within
/// milliseconds, so connections that say nothing keep nobody out.
pub(crate) struct Stranger {
    admission: Arc<Admission>,
    sent_away: Arc<Notify>,
}

impl Stranger {
    pub(crate) fn new(admission: &Arc<Admission>) -> Self {
        let sent_away = Arc::new(Notify::new());
        let mut strangers = admission.strangers();
        strangers.push_back(sent_away.clone());
        if strangers.len() > STRANGERS_MAX
            && let Some(oldest) = strangers.pop_front()
        {
            oldest.notify_one();
        }
        drop(strangers);
        Self { admission: admission.clone(), sent_away }
    }

    /// Returns, with the error for it, when this is the oldest of too many.
    pub(crate) async fn sent_away(&self) -> PgError {
        self.sent_away.notified().await;
        too_many()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.admission.strangers().retain(|other| !Arc::ptr_eq(other, &self.sent_away));
    }
}

/// Counts a client while it lives.
pub(crate) struct Admitted(Arc<Admission>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Release);
        self.0.departed.notify_one();
    }
}
