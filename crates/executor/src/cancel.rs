//! Which backends work for a session, for those who must stop it from outside: a cancel request on another connection, a
//! client that hangs up, the gtm that has found a deadlock.
//!
//! A deadlock is broken in this order (see `txn::deadlock` for how it is found):
//!
//! 1. The *breaker*, a task of its own, takes the session's judgment lock, then looks whether the backend is still the session's.
//! 2. On a connection of its own (the pool's may all be in the circle) it cancels the backend if the wait that the gtm saw is
//!    still on, and leaves the error for the client in the lock.
//! 3. The session takes that lock after each statement ([`Session::judged`]): it waits for a breaker at work, then
//!    finds the error. A link is given back to the pool only while no breaker has the lock; otherwise it is closed.
//!
//! `statement_timeout` works the same way: at the end of the time a task takes the lock, raises the session's interrupt for what
//! waits in the coordinator, cancels what runs on datanodes, and leaves the error. Each datanode counts for itself too; this one
//! counts the statement as a whole.
//!
//! Invariant: between 1 and the end of 2 neither can the session start its next statement nor another session get the backend,
//! so the cancel can hit nothing but the statement that was in the circle.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use catalog::NodeId;
use pgerror::{PgError, Result, SqlState, field};
use pgproto::{CancelKey, ConnectOptions, Connection};
use txn::Interrupt;
use txn::deadlock::{Backend, Owner, Sessions, Verdict, cancel_if_waiting};

use crate::held::Held;
use crate::session::{BESIDE, KEEPER, Session};

/// A breaker that has no connection by then gives up; the gtm will ask again.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Marks the backend of a node that rests while another one works there.
const RESTING: u16 = 1 << 14;

fn resting(node: NodeId) -> NodeId {
    NodeId(node.0 ^ RESTING)
}

/// A backend while a session holds it.
struct Working {
    key: CancelKey,
    /// The session's transaction is open on it.
    in_transaction: bool,
}

/// See the module's page.
pub struct CancelSet {
    home: NodeId,
    working: Mutex<BTreeMap<NodeId, Working>>,
    /// In µs since 1970.
    began_us: AtomicU64,
    /// Locked while a breaker is at work; what it leaves is the error of a statement that had to give way.
    judgment: tokio::sync::Mutex<Option<PgError>>,
    /// For what waits in the coordinator itself.
    interrupt: Interrupt,
    /// Counts statements, for the timeout of one not to hit another.
    statement: AtomicU64,
    timer: Mutex<Option<tokio::task::AbortHandle>>,
}

impl CancelSet {
    pub(crate) fn new(home: NodeId) -> Self {
        Self {
            home,
            working: Mutex::default(),
            began_us: AtomicU64::new(0),
            judgment: Default::default(),
            interrupt: Interrupt::new(),
            statement: AtomicU64::new(0),
            timer: Mutex::default(),
        }
    }

    /// Cancels whatever runs. Nodes are asked at the same time; the answer comes through the statement itself.
    pub async fn cancel(&self) {
        self.interrupt.raise(PgError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request"));
        self.cancel_backends().await;
    }

    /// What ends the waits of the present statement.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    fn statement_begins(self: &Arc<Self>, limit: Option<Duration>) {
        self.interrupt.clear();
        if let Some(limit) = limit {
            let timer = tokio::spawn(self.clone().time_out(limit, self.statement.load(Ordering::Relaxed)));
            self.set_timer(Some(timer.abort_handle()));
        }
    }

    /// Under the judgment lock, so that no timer is at work.
    fn statement_ends(&self) {
        self.statement.fetch_add(1, Ordering::Relaxed);
        self.set_timer(None);
    }

    fn set_timer(&self, timer: Option<tokio::task::AbortHandle>) {
        let before = std::mem::replace(&mut *self.timer.lock().unwrap_or_else(PoisonError::into_inner), timer);
        if let Some(before) = before {
            before.abort();
        }
    }

    async fn time_out(self: Arc<Self>, limit: Duration, statement: u64) {
        tokio::time::sleep(limit).await;
        let mut judgment = self.judgment.lock().await;
        if self.statement.load(Ordering::Relaxed) != statement {
            return;
        }
        let error = PgError::new(SqlState::QUERY_CANCELED, "canceling statement due to statement timeout");
        judgment.get_or_insert(error.clone());
        self.interrupt.raise(error);
        self.cancel_backends().await;
    }

    async fn cancel_backends(&self) {
        let keys: Vec<CancelKey> = self.lock().values().map(|working| working.key.clone()).collect();
        let requests = keys.iter().map(CancelKey::send);
        futures_util::future::join_all(requests).await;
    }

    /// The session has got a backend, not in its transaction yet.
    pub(crate) fn add(&self, node: NodeId, key: &CancelKey) {
        self.lock().insert(node, Working { key: key.clone(), in_transaction: false });
    }

    /// The session's transaction is, or is no longer, open on the backend.
    pub(crate) fn set_in_transaction(&self, node: NodeId, in_transaction: bool) {
        if let Some(working) = self.lock().get_mut(&node) {
            working.in_transaction = in_transaction;
        }
    }

    /// These backends rest, or no longer do, while others work for the session on the same nodes.
    pub(crate) fn rest(&self, held: &BTreeMap<NodeId, Held>) {
        for (node, held) in held {
            let working = Working { key: held.link.connection.cancel_key().clone(), in_transaction: held.begun };
            let mut all = self.lock();
            all.remove(node);
            all.insert(resting(*node), working);
        }
    }

    pub(crate) fn wake(&self, held: &BTreeMap<NodeId, Held>) {
        for node in held.keys() {
            let mut all = self.lock();
            if let Some(working) = all.remove(&resting(*node)) {
                all.insert(*node, working);
            }
        }
    }

    /// The session gives the backend up. False if a breaker is at work: then nobody else may get it.
    #[must_use]
    pub(crate) fn remove(&self, node: NodeId) -> bool {
        self.lock().remove(&node);
        // A breaker that takes the lock after this does not find the backend any more.
        self.judgment.try_lock().is_ok()
    }

    /// A transaction, or a statement by itself, begins.
    pub(crate) fn begins(&self) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.began_us.store(since.as_micros() as u64, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Working>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backends(&self) -> Vec<(Backend, bool)> {
        let place = |node: NodeId| match NodeId(node.0 & !RESTING) {
            node if [BESIDE, KEEPER].map(|node| node.0 & !RESTING).contains(&node.0) => self.home.0,
            node => node.0,
        };
        let backend = |(node, working): (&NodeId, &Working)| {
            (Backend { node: place(*node), pid: working.key.process_id }, working.in_transaction)
        };
        self.lock().iter().map(backend).collect()
    }

    /// What a breaker does.
    async fn carry_out(&self, verdict: Verdict, node: ConnectOptions) -> Result<()> {
        let mut judgment = self.judgment.lock().await;
        if !self.backends().iter().any(|(backend, _)| *backend == verdict.backend) {
            return Ok(());
        }
        let connecting = tokio::time::timeout(CONNECT_MAX, Connection::connect(&node)).await;
        let mut connection =
            connecting.map_err(|_| PgError::connection("the datanode did not answer within 2 s"))??;
        // There is no limit from here on: a cancel under way must not outlive the lock. A node that hangs now has the
        // session hanging already. After an error it is not known whether the cancel was sent, so the judgment stays.
        let error = PgError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").detail(verdict.detail.clone());
        *judgment = Some(error.hint("Repeat the transaction. The gtm's log tells which sessions they were."));
        if !cancel_if_waiting(&mut connection, &verdict).await? {
            *judgment = None;
        }
        Ok(())
    }
}

impl Session {
    /// To be called before each statement: whatever was to stop was an earlier one.
    pub fn statement_begins(&mut self) {
        self.forget_plan();
        self.leaves = Default::default();
        self.cancel.statement_begins(self.statement_timeout());
    }

    /// The result of a statement, once no cancel of it can be under way any more: of one that had to give way to break a
    /// deadlock, or that took too long, the error says so. To be called after each statement, before anything else is sent for the session.
    pub async fn judged<T>(&self, result: Result<T>) -> Result<T> {
        let judgment = {
            let mut judgment = self.cancel.judgment.lock().await;
            self.cancel.statement_ends();
            judgment.take()
        };
        match (result, judgment) {
            // The node says where it was, but not why it was cancelled.
            (Err(error), Some(verdict)) if error.code() == verdict.code() => {
                Err(error.with(field::MESSAGE, verdict.message().into_owned()))
            }
            (Err(error), Some(verdict)) if error.code() == SqlState::QUERY_CANCELED => Err(verdict),
            (result, _) => result,
        }
    }
}

/// The sessions of a coordinator, as the gtm asks for them.
pub(crate) struct Registry {
    /// By node id, as a superuser.
    datanodes: Vec<ConnectOptions>,
    sessions: Mutex<HashMap<u64, Weak<CancelSet>>>,
}

impl Registry {
    pub(crate) fn new(datanodes: Vec<ConnectOptions>) -> Self {
        Self { datanodes, sessions: Mutex::default() }
    }

    /// Enters a session until the entry is dropped.
    pub(crate) fn enter(self: &Arc<Self>, number: u64, session: &Arc<CancelSet>) -> Entry {
        self.lock().insert(number, Arc::downgrade(session));
        Entry { registry: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Weak<CancelSet>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's place in the [`Registry`].
pub(crate) struct Entry {
    registry: Arc<Registry>,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.registry.lock().remove(&self.number);
    }
}

impl Sessions for Registry {
    fn owners(&self, asked: &[Backend]) -> Vec<Owner> {
        let asked: std::collections::HashSet<Backend> = asked.iter().copied().collect();
        let owner = |(number, session): (&u64, &Weak<CancelSet>)| {
            let session = session.upgrade()?;
            let mut backends = session.backends();
            backends.retain(|(backend, _)| asked.contains(backend));
            let began_us = session.began_us.load(Ordering::Relaxed);
            (!backends.is_empty()).then_some(Owner { session: *number, began_us, backends })
        };
        self.lock().iter().filter_map(owner).collect()
    }

    fn carry_out(&self, verdict: Verdict) {
        let session = self.lock().get(&verdict.session).and_then(Weak::upgrade);
        let node = self.datanodes.get(usize::from(verdict.backend.node)).cloned();
        let (Some(session), Some(node)) = (session, node) else { return };
        tokio::spawn(async move {
            let backend = verdict.backend;
            if let Err(error) = session.carry_out(verdict, node).await {
                tracing::warn!(?backend, %error, "could not break a deadlock");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(process_id: i32) -> CancelKey {
        CancelKey { host: "127.0.0.1".into(), port: 1, process_id, secret: bytes::Bytes::new() }
    }

    #[test]
    fn the_gtm_is_told_of_the_sessions_that_hold_what_it_asks_for() {
        let registry = Arc::new(Registry::new(Vec::new()));
        let (one, two) = (Arc::new(CancelSet::new(NodeId(0))), Arc::new(CancelSet::new(NodeId(0))));
        let _first = registry.enter(1, &one);
        let second = registry.enter(2, &two);
        one.add(NodeId(0), &key(10));
        one.add(BESIDE, &key(11));
        one.set_in_transaction(BESIDE, true);
        two.add(NodeId(1), &key(10));
        let asked = [Backend { node: 0, pid: 11 }, Backend { node: 0, pid: 10 }, Backend { node: 2, pid: 10 }];
        let answer = registry.owners(&asked);
        let expected = [(Backend { node: 0, pid: 10 }, false), (Backend { node: 0, pid: 11 }, true)];
        assert_eq!(answer.len(), 1);
        assert_eq!((answer[0].session, answer[0].backends.as_slice()), (1, expected.as_slice()));
        assert!(one.remove(NodeId(0)) && one.remove(BESIDE));
        assert!(registry.owners(&asked).is_empty());
        drop(second);
        assert!(registry.owners(&[Backend { node: 1, pid: 10 }]).is_empty());
    }

    #[test]
    fn a_backend_is_not_given_away_while_a_breaker_is_at_work() {
        let session = CancelSet::new(NodeId(0));
        session.add(NodeId(1), &key(10));
        let breaker = session.judgment.try_lock().expect("nobody has the lock");
        assert!(!session.remove(NodeId(1)));
        drop(breaker);
        assert!(session.remove(NodeId(1)));
    }
}
