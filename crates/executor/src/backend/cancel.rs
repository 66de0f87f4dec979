//! Which backends work for a session, so that it can be stopped from outside: a cancel request on another connection, a
//! client that hangs up, the gtm that has found a deadlock.
//!
//! A deadlock is broken in this order (see `txn::deadlock` for how it is found):
//!
//! 1. The *breaker*, a task of its own, takes the session's judgment lock, then looks whether the backend is still the session's.
//! 2. On a connection of its own (the pool's may all be in the circle) it cancels the backend if the wait that the gtm saw is
//!    still on, and leaves the error for the client in the lock.
//! 3. The session takes that lock after each statement, those of bodies too ([`CancelSet::judge`]): it waits for a breaker at work,
//!    then finds the error. A link is given back to the pool only while no breaker has the lock; otherwise it is closed.
//!
//! `statement_timeout` works the same way: at the end of the time a task takes the lock, raises the session's interrupt for what
//! waits in the coordinator, cancels what runs on datanodes, and leaves the error. Each datanode counts for itself too; this one
//! counts the client's statement as a whole, with all that bodies of functions, procedures and triggers run for it: the timer is put
//! away by [`CancelSet::statement_ends`] only, which the statements of a body never call. A body may catch the error; then it goes on
//! without a limit, for PostgreSQL's timer fires once, too.
//!
//! A cancel request of the client's is sent under the same lock, which is held until the datanodes' servers have closed the
//! connections that brought it.
//!
//! Invariant: between 1 and the end of 2 neither can the session start its next statement nor another session get the backend,
//! so the cancel can hit nothing but the statement that was in the circle.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState};
use pgproto::{CancelKey, ConnectOptions, Connection};
use serde::{Deserialize, Serialize};
use txn::deadlock::{Backend, DeadlockVictim, Owner, Sessions, cancel_if_waiting};
use txn::{Datanodes, Interrupt};

use crate::backend::activity::{Activity, Told};
use crate::backend::slot::Slot;
use crate::backend::statement_figures::StatementFigures;

/// A breaker that has no connection by then gives up; the gtm will ask again.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// How long after `statement_timeout` a datanode may take to end what it has been told to cancel.
const OBEY_MAX: Duration = Duration::from_secs(2);

/// The error of a statement whose time is up, as PostgreSQL words it.
const TIMED_OUT: &str = "canceling statement due to statement timeout";

/// A backend while a session holds it.
struct Working {
    key: CancelKey,
    /// The session's transaction is open on it.
    in_transaction: bool,
    /// Another backend works for the session on the same node meanwhile.
    is_suspended: bool,
    /// A cancel request may be under way to it.
    may_be_cancelled: bool,
}

impl Working {
    fn new(key: &CancelKey, in_transaction: bool) -> Self {
        Self { key: key.clone(), in_transaction, is_suspended: false, may_be_cancelled: false }
    }
}

/// Where a backend works, and its process id: while some are suspended a session has several on a node.
type Place = (Slot, i32);

/// See the module's page.
pub struct CancelSet {
    working: Mutex<BTreeMap<Place, Working>>,
    /// In µs since 1970.
    began_us: AtomicU64,
    /// The statement under way is a transaction by itself, and could be run again.
    is_alone: AtomicBool,
    /// What the statement waits for is asked for again after a deadlock.
    gives_way: AtomicBool,
    /// Locked while a breaker is at work; what it leaves is the error of a statement that had to give way.
    judgment: tokio::sync::Mutex<Option<PgError>>,
    /// For what waits in the coordinator itself.
    interrupt: Interrupt,
    /// Counts statements, for the timeout of one not to hit another.
    statement: AtomicU64,
    /// The time of the statement under way is up.
    has_fired: AtomicBool,
    timer: Mutex<Option<tokio::task::AbortHandle>>,
    /// What the session does.
    activity: Activity,
}

impl CancelSet {
    pub(crate) fn new() -> Self {
        Self {
            working: Mutex::default(),
            began_us: AtomicU64::new(0),
            is_alone: AtomicBool::new(false),
            gives_way: AtomicBool::new(false),
            judgment: Default::default(),
            interrupt: Interrupt::new(),
            statement: AtomicU64::new(0),
            has_fired: AtomicBool::new(false),
            timer: Mutex::default(),
            activity: Activity::new(),
        }
    }

    /// What the session tells of itself.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    fn told(&self) -> Option<Told> {
        let backends = self.lock().keys().map(|(slot, pid)| (slot.node().0, *pid)).collect();
        self.activity.told(backends)
    }

    /// The present statement takes from, or gives to, the client what it could not take or give again.
    pub(crate) fn cannot_be_repeated(&self) {
        self.is_alone.store(false, Ordering::Relaxed);
    }

    /// Is a deadlock to be broken here, of whatever age the transaction is? The statement then asks again for what it has waited for.
    pub(crate) fn prefer_as_deadlock_victim(&self, gives_way: bool) {
        self.gives_way.store(gives_way, Ordering::Relaxed);
    }

    /// Takes the judgment that the present statement had to give way, if there is one.
    pub(crate) async fn deadlock(&self) -> Option<PgError> {
        let is_deadlock = |chosen: &mut PgError| chosen.code() == SqlState::DEADLOCK_DETECTED;
        self.judgment.lock().await.take_if(is_deadlock)
    }

    /// No cancel of what has just ended, the statement or one of a body's, can be under way any more; gives the judgment on what has
    /// failed. The time may have been up too late for what has not: then the next step of the body meets the interrupt.
    pub(crate) async fn judge(&self, has_failed: bool) -> Option<PgError> {
        let mut judgment = self.judgment.lock().await;
        match has_failed {
            true => judgment.take(),
            false => judgment.take_if(|chosen| chosen.code() != SqlState::QUERY_CANCELED),
        }
    }

    /// The client's statement is over: its timer counts no more. Under the judgment lock, so that no timer is at work.
    pub(crate) async fn statement_ends(&self) {
        let mut judgment = self.judgment.lock().await;
        *judgment = None;
        self.statement.fetch_add(1, Ordering::Relaxed);
        self.has_fired.store(false, Ordering::Relaxed);
        self.set_timer(None);
    }

    /// A body has caught the error of a cancel, and goes on. A timer that has not fired yet still counts.
    pub(crate) async fn cancel_caught(&self, error: &PgError) {
        let mut judgment = self.judgment.lock().await;
        *judgment = None;
        // A datanode's timer may be the first to fire: that is the end of ours, too.
        if self.has_fired.load(Ordering::Relaxed) || error.message() == TIMED_OUT {
            self.set_timer(None);
        }
        self.clear_interrupt();
    }

    /// Cancels whatever runs. Nodes are asked at the same time; the answer comes through the statement itself. Under the judgment
    /// lock, so that no backend is another session's when the request comes to it.
    pub async fn cancel(&self) {
        self.interrupt.raise(PgError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request"));
        let _judgment = self.judgment.lock().await;
        self.cancel_backends().await;
    }

    /// Ends the session: at once, or when its statement has ended. One that goes on, though it has been cancelled, loses its backends:
    /// PostgreSQL's FATAL cannot be caught either.
    pub async fn end(&self) {
        self.activity.end();
        let statement = self.statement.load(Ordering::Relaxed);
        self.cancel().await;
        tokio::time::sleep(OBEY_MAX).await;
        if self.statement.load(Ordering::Relaxed) == statement {
            self.lock().values().for_each(|working| working.key.give_up());
        }
    }

    /// What ends the waits of the present statement.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// A statement begins that may take so long, and that is or is not a transaction by itself.
    pub(crate) async fn statement_begins(self: &Arc<Self>, limit: Option<Duration>, is_alone: bool) {
        self.statement_ends().await;
        self.is_alone.store(is_alone, Ordering::Relaxed);
        self.clear_interrupt();
        if let Some(limit) = limit {
            let timer = tokio::spawn(self.clone().time_out(limit, self.statement.load(Ordering::Relaxed)));
            self.set_timer(Some(timer.abort_handle()));
        }
    }

    /// Whatever was to stop has stopped; an order to end the session stays.
    fn clear_interrupt(&self) {
        self.interrupt.clear();
        if *self.activity.ending().borrow() {
            self.interrupt.raise(terminated());
        }
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
        self.has_fired.store(true, Ordering::Relaxed);
        let error = PgError::new(SqlState::QUERY_CANCELED, TIMED_OUT);
        judgment.get_or_insert(error.clone());
        self.interrupt.raise(error);
        self.cancel_backends().await;
        drop(judgment);
        // A backend that has been told and does not end its statement stands still. (At the statement's end this task is aborted.)
        tokio::time::sleep(OBEY_MAX).await;
        if self.statement.load(Ordering::Relaxed) == statement {
            self.lock().values().for_each(|working| working.key.give_up());
        }
    }

    /// The lock on the judgment is held until the servers have closed the requests' connections: each has sent its signal then, or
    /// nobody knows, and the backend is nobody else's ever.
    async fn cancel_backends(&self) {
        let keys: Vec<(Place, CancelKey)> =
            self.lock().iter().map(|(place, working)| (*place, working.key.clone())).collect();
        let request = |(place, key): (Place, CancelKey)| async move { (!key.cancel().await).then_some(place) };
        let unanswered = futures_util::future::join_all(keys.into_iter().map(request)).await;
        for place in unanswered.into_iter().flatten() {
            if let Some(working) = self.lock().get_mut(&place) {
                working.may_be_cancelled = true;
            }
        }
    }

    /// The session has got a backend, not in its transaction yet.
    pub(crate) fn add(&self, slot: Slot, key: &CancelKey) {
        let mut all = self.lock();
        // One that was thrown away meanwhile.
        all.retain(|(at, _), working| *at != slot || working.is_suspended);
        all.insert((slot, key.process_id), Working::new(key, false));
    }

    /// The session's transaction is, or is no longer, open on the backend that works on the node.
    pub(crate) fn set_in_transaction(&self, slot: Slot, in_transaction: bool) {
        let mut all = self.lock();
        if let Some((_, working)) = all.iter_mut().find(|((at, _), working)| *at == slot && !working.is_suspended) {
            working.in_transaction = in_transaction;
        }
    }

    /// These backends are suspended while others work for the session on the same nodes.
    pub(crate) fn suspend<'l>(&self, links: impl Iterator<Item = (Slot, &'l CancelKey, bool)>) {
        self.set_suspended(links, true);
    }

    /// They work again.
    pub(crate) fn resume<'l>(&self, links: impl Iterator<Item = (Slot, &'l CancelKey, bool)>) {
        self.set_suspended(links, false);
    }

    fn set_suspended<'l>(&self, links: impl Iterator<Item = (Slot, &'l CancelKey, bool)>, is_suspended: bool) {
        let mut all = self.lock();
        for (slot, key, begun) in links {
            let working = all.entry((slot, key.process_id)).or_insert_with(|| Working::new(key, begun));
            working.is_suspended = is_suspended;
        }
    }

    /// The session gives the backend up that works on the node. False if a breaker is at work, or a cancel request under way: then
    /// nobody else may get it.
    #[must_use]
    pub(crate) fn remove(&self, slot: Slot) -> bool {
        let mut is_clean = true;
        self.lock().retain(|(at, _), working| {
            let is_it = *at == slot && !working.is_suspended;
            is_clean &= !(is_it && working.may_be_cancelled);
            !is_it
        });
        // A breaker that takes the lock after this does not find the backend any more.
        is_clean && self.judgment.try_lock().is_ok()
    }

    /// A transaction, or a statement by itself, begins.
    pub(crate) fn begins(&self) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.began_us.store(since.as_micros() as u64, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, Working>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backends(&self) -> Vec<(Backend, bool)> {
        let backend = |((slot, pid), working): (&Place, &Working)| {
            (Backend { node: slot.node().0, pid: *pid }, working.in_transaction)
        };
        self.lock().iter().map(backend).collect()
    }

    /// What a breaker does.
    async fn carry_out(&self, chosen: DeadlockVictim, node: ConnectOptions) -> Result<()> {
        let mut judgment = self.judgment.lock().await;
        if !self.backends().iter().any(|(backend, _)| *backend == chosen.backend) {
            return Ok(());
        }
        let connecting = tokio::time::timeout(CONNECT_MAX, Connection::connect(&node)).await;
        let mut connection =
            connecting.map_err(|_| PgError::connection("the datanode did not answer within 2 s"))??;
        // There is no limit from here on: a cancel under way must not outlive the lock. A node that hangs now has the
        // session hanging already. After an error it is not known whether the cancel was sent, so the judgment stays.
        let error = PgError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected").detail(chosen.detail.clone());
        *judgment = Some(error.hint("Repeat the transaction. The gtm's log tells which sessions they were."));
        if !cancel_if_waiting(&mut connection, &chosen).await? {
            *judgment = None;
        }
        Ok(())
    }
}

/// What a session is told that somebody has ended. Nothing catches it.
pub(crate) fn terminated() -> PgError {
    PgError::fatal(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}

/// What coordinators ask each other.
#[derive(Serialize, Deserialize)]
pub(crate) enum Question {
    /// Which sessions are there? Answered by a list of [`Told`].
    Sessions,
    /// Cancels what the session does that began then, or ends it.
    Signal { pid: i32, backend_start: Option<i64>, ends: bool },
    /// Leaves a database of the cluster if no session uses it, or, if told so, ends those that do. Answered by their number.
    Leave { database: String, ends: bool },
    /// How many sessions has this user, and how many are in this database? Answered by both numbers.
    Count { user: String, database: String },
    /// What have statements cost? Answered by a list of [`ToldStatement`](crate::backend::statement_figures::ToldStatement).
    Statements,
    /// Forgets what statements have cost.
    ForgetStatements,
}

/// Has a coordinator forget a database.
type Leave = Box<dyn Fn(&str) + Send + Sync>;

/// The sessions of a coordinator, as the gtm asks for them.
pub(crate) struct Registry {
    /// The datanodes there are, as a superuser.
    datanodes: Box<dyn Fn() -> Datanodes + Send + Sync>,
    sessions: Mutex<HashMap<u64, Weak<CancelSet>>>,
    leave: OnceLock<Leave>,
    statements: StatementFigures,
}

impl Registry {
    pub(crate) fn new(datanodes: impl Fn() -> Datanodes + Send + Sync + 'static) -> Self {
        Self {
            datanodes: Box::new(datanodes),
            sessions: Mutex::default(),
            leave: OnceLock::new(),
            statements: Default::default(),
        }
    }

    /// Enters a session until the entry is dropped.
    pub(crate) fn enter(self: &Arc<Self>, number: u64, session: &Arc<CancelSet>) -> Entry {
        self.lock().insert(number, Arc::downgrade(session));
        Entry { registry: self.clone(), number }
    }

    /// What statements have cost.
    pub(crate) fn statements(&self) -> &StatementFigures {
        &self.statements
    }

    /// What is done when a database is to be left. Counts once.
    pub(crate) fn on_leave(&self, leave: impl Fn(&str) + Send + Sync + 'static) {
        let _ = self.leave.set(Box::new(leave));
    }

    /// See [`Question::Leave`].
    fn leave(&self, database: &str, ends: bool) -> usize {
        let is_there = |session: &Arc<CancelSet>| session.activity.is_in(database);
        let there: Vec<_> = self.sessions().into_iter().filter(is_there).collect();
        let count = there.len();
        if ends || count == 0 {
            self.forget(database);
            there.into_iter().for_each(|session| drop(tokio::spawn(async move { session.end().await })));
        }
        count
    }

    /// No new session uses what is known of this database.
    pub(crate) fn forget(&self, database: &str) {
        self.leave.get().into_iter().for_each(|leave| leave(database));
    }

    fn sessions(&self) -> Vec<Arc<CancelSet>> {
        self.lock().values().filter_map(Weak::upgrade).collect()
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
            // What can be run again by itself, since it stands alone say, counts as the youngest.
            let may_repeat = [&session.is_alone, &session.gives_way].iter().any(|flag| flag.load(Ordering::Relaxed));
            let began_us = if may_repeat { u64::MAX } else { session.began_us.load(Ordering::Relaxed) };
            (!backends.is_empty()).then_some(Owner { session: *number, began_us, backends })
        };
        self.lock().iter().filter_map(owner).collect()
    }

    fn carry_out(&self, chosen: DeadlockVictim) {
        let session = self.lock().get(&chosen.session).and_then(Weak::upgrade);
        let node = (self.datanodes)().get(chosen.backend.node).cloned();
        let (Some(session), Some(node)) = (session, node) else { return };
        tokio::spawn(async move {
            let backend = chosen.backend;
            if let Err(error) = session.carry_out(chosen, node).await {
                tracing::warn!(?backend, %error, "could not break a deadlock");
            }
        });
    }

    fn answer(&self, question: &[u8]) -> Bytes {
        match serde_json::from_slice(question) {
            Ok(Question::Sessions) => {
                let all: Vec<Told> = self.sessions().iter().filter_map(|session| session.told()).collect();
                serde_json::to_vec(&all).unwrap_or_default().into()
            }
            Ok(Question::Signal { pid, backend_start, ends }) => {
                let meant = self.sessions().into_iter().filter(|session| session.activity.is(pid, backend_start));
                for session in meant {
                    match ends {
                        true => drop(tokio::spawn(async move { session.end().await })),
                        false => drop(tokio::spawn(async move { session.cancel().await })),
                    }
                }
                Bytes::new()
            }
            Ok(Question::Count { user, database }) => {
                let sessions = self.sessions();
                let count = |is: &dyn Fn(&Activity) -> bool| sessions.iter().filter(|s| is(s.activity())).count();
                let counts = (count(&|session| session.is_of(&user)), count(&|session| session.is_in(&database)));
                serde_json::to_vec(&counts).unwrap_or_default().into()
            }
            Ok(Question::Statements) => serde_json::to_vec(&self.statements.told()).unwrap_or_default().into(),
            Ok(Question::ForgetStatements) => {
                self.statements.reset();
                Bytes::new()
            }
            Ok(Question::Leave { database, ends }) => self.leave(&database, ends).to_string().into(),
            Err(error) => {
                tracing::warn!(%error, "another coordinator is not understood");
                Bytes::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use catalog::NodeId;

    use super::*;

    fn key(process_id: i32) -> CancelKey {
        CancelKey::new("127.0.0.1", 1, process_id, bytes::Bytes::new(), pgproto::Encryption::Plain)
    }

    #[test]
    fn the_gtm_is_told_of_the_sessions_that_hold_what_it_asks_for() {
        let registry = Arc::new(Registry::new(Datanodes::default));
        let (one, two) = (Arc::new(CancelSet::new()), Arc::new(CancelSet::new()));
        let _first = registry.enter(1, &one);
        let second = registry.enter(2, &two);
        one.add(NodeId(0).into(), &key(10));
        one.add(Slot::beside(NodeId(0)), &key(11));
        one.set_in_transaction(Slot::beside(NodeId(0)), true);
        two.add(NodeId(1).into(), &key(10));
        let asked = [Backend { node: 0, pid: 11 }, Backend { node: 0, pid: 10 }, Backend { node: 2, pid: 10 }];
        let answer = registry.owners(&asked);
        let expected = [(Backend { node: 0, pid: 10 }, false), (Backend { node: 0, pid: 11 }, true)];
        assert_eq!(answer.len(), 1);
        assert_eq!((answer[0].session, answer[0].backends.as_slice()), (1, expected.as_slice()));
        assert!(one.remove(NodeId(0).into()) && one.remove(Slot::beside(NodeId(0))));
        assert!(registry.owners(&asked).is_empty());
        drop(second);
        assert!(registry.owners(&[Backend { node: 1, pid: 10 }]).is_empty());
    }

    #[test]
    fn a_backend_is_not_given_away_while_a_breaker_is_at_work() {
        let session = CancelSet::new();
        session.add(NodeId(1).into(), &key(10));
        let breaker = session.judgment.try_lock().expect("nobody has the lock");
        assert!(!session.remove(NodeId(1).into()));
        drop(breaker);
        assert!(session.remove(NodeId(1).into()));
    }
}
