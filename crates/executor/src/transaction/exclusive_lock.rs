//! Locks a table on several nodes: LOCK TABLE, and what keeps other writers off.
//!
//! A writer holds locks only on the nodes of its rows, and may want another node's next. There it may run before the lock holder
//! and elsewhere behind it: each then waits for the other, a deadlock that one PostgreSQL does not have. Writers pay nothing to
//! avoid it. A session that locks a table asks for the lock on all nodes at once, so that later requests are later everywhere.
//! While it holds the lock on some nodes only, its wait is limited: it gives the locks back, which lets writers in between go on,
//! and asks again with twice the limit, since a slow writer is to be waited for. From the second try on, the first node is asked
//! before the others and without a limit, for nothing is held then: one of two sessions that lock a table waits there.
//!
//! If a wait is part of a deadlock while the lock may be given back, that is what breaks it: nobody gets an error. What comes back
//! time and again is a deadlock that has other reasons, and is broken like any other.

use std::pin::pin;
use std::time::{Duration, Instant};

use catalog::NodeId;
use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};
use pgproto::CancelKey;

use crate::backend::isolation::Isolation;
use crate::backend::own_calls::{self, OwnCall};
use crate::backend::settings::duration;
use crate::block::Mode;
use crate::session::Session;

/// Longest wait of the first try.
const PATIENCE: Duration = Duration::from_millis(50);
/// Tries before one that waits as long as it takes; the tries before it wait 25 s at most with a part of the lock.
const TRIES: u32 = 9;
/// Deadlocks that it gives way to.
const GIVES_WAY_MAX: u32 = 3;

/// How the lock is asked for.
enum Asking {
    /// LOCK TABLE, which wants rights on the whole table.
    Himself(String),
    /// For a user with rights on some columns only, which is enough to write the table. Takes a snapshot.
    ForHim(Vec<OwnCall>),
}

/// How asking for it ended.
enum Tried {
    Locked,
    /// Some nodes may have it.
    TookTooLong,
    /// It was part of a deadlock.
    GaveWay,
}

impl Session {
    /// Locks tables against other writers, to the end of the transaction.
    pub(crate) async fn keep_writers_off(&mut self, nodes: &[NodeId], tables: &[String]) -> Result<()> {
        let lock = format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", tables.join(", "));
        let done = self.lock_on_all(nodes, &Asking::Himself(lock)).await;
        let keeps_snapshot = self.isolation().is_some_and(Isolation::keeps_snapshot);
        match done {
            Err(error) if error.code() == SqlState::INSUFFICIENT_PRIVILEGE && !keeps_snapshot => {
                self.forget_savepoint(nodes).await?;
                let calls = tables.iter().map(|table| OwnCall::about("keep_writers_off", table, ", true"));
                self.lock_on_all(nodes, &Asking::ForHim(calls.collect())).await
            }
            done => done,
        }
    }

    /// The user's own LOCK TABLE.
    pub(crate) async fn lock_tables(&mut self, nodes: &[NodeId], sql: &str) -> Result<()> {
        self.lock_on_all(nodes, &Asking::Himself(sql.to_owned())).await
    }

    async fn lock_on_all(&mut self, nodes: &[NodeId], asking: &Asking) -> Result<()> {
        let began = Instant::now();
        let (mut tried, mut gave_way) = (0, 0);
        let mut longest = None;
        loop {
            let left = longest.map(|longest: Duration| longest.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(PgError::new(SqlState::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"));
            }
            // On one node nobody can come in between.
            let is_limited = nodes.len() > 1 && tried < TRIES;
            let patience = is_limited.then(|| PATIENCE * 2u32.pow(tried));
            let limit = patience.into_iter().chain(left).min();
            let gives_way = nodes.len() > 1 && gave_way < GIVES_WAY_MAX;
            let mut asked = usize::from(tried > 0);
            let mut done = self.try_lock(&nodes[..asked], asking, left, false).await?;
            if let Tried::Locked = done {
                done = self.try_lock(&nodes[asked..], asking, limit, gives_way).await?;
                asked = nodes.len();
            }
            match done {
                Tried::Locked => return self.links.broadcast(nodes, "RELEASE SAVEPOINT loxo_alone").await,
                Tried::TookTooLong => {}
                Tried::GaveWay => gave_way += 1,
            }
            self.links.cancel().interrupt().check()?;
            self.forget_savepoint(&nodes[..asked]).await?;
            if tried == 0 {
                longest = self.lock_timeout(nodes[0]).await?;
            }
            tried = (tried + 1).min(TRIES);
        }
    }

    /// Each wait on a node has this limit too, but all of them together are one to the user.
    async fn lock_timeout(&mut self, node: NodeId) -> Result<Option<Duration>> {
        let rows = self.rows_on(node, "SHOW lock_timeout").await?;
        let shown = rows.into_iter().flatten().flatten().next().unwrap_or_default();
        Ok(duration(&String::from_utf8_lossy(&shown)))
    }

    async fn forget_savepoint(&mut self, nodes: &[NodeId]) -> Result<()> {
        self.links.broadcast(nodes, "ROLLBACK TO SAVEPOINT loxo_alone; RELEASE SAVEPOINT loxo_alone").await
    }

    /// [`Session::keep_writers_off`] in a transaction that has no snapshot yet.
    pub(crate) async fn lock_before_snapshot(&mut self, nodes: &[NodeId], tables: &[String]) -> Result<()> {
        self.set_snapshotless(true);
        self.keep_writers_off(nodes, tables).await?;
        self.set_snapshotless(false);
        self.locked_before_snapshot();
        Ok(())
    }

    /// Asks for the lock on some nodes at once.
    async fn try_lock(
        &mut self,
        nodes: &[NodeId],
        asking: &Asking,
        limit: Option<Duration>,
        gives_way: bool,
    ) -> Result<Tried> {
        let seal = self.context.seal().await?;
        self.connect_to(nodes).await?;
        for node in nodes {
            self.acquire(*node, Mode::InBlock).await?;
            self.causality.touch(*node);
        }
        // Such a wait is not for the lock, and is not to be cancelled as one.
        if self.links.of(nodes).any(|(_, leased)| leased.waits_first()) {
            self.links.opened(nodes).await?;
        }
        for node in nodes {
            let leased = self.links.link(*node)?;
            leased.queue_query("SAVEPOINT loxo_alone");
            match asking {
                Asking::Himself(lock) => leased.link.connection.query(lock.as_bytes()),
                Asking::ForHim(calls) => calls.iter().for_each(|call| call.queue(&seal, &mut leased.link.connection)),
            }
        }
        // Nor is what comes before the lock, which goes with it: without its transaction and savepoint it cannot be asked for again.
        if let Err(error) = self.links.opened(nodes).await {
            self.links.cancel_on(nodes).await;
            join_all(self.links.of(nodes).map(|(_, leased)| leased.drain())).await;
            return Err(error);
        }
        let cancel = self.links.cancel().clone();
        let leased = self.links.of(nodes);
        let (keys, work): (Vec<CancelKey>, Vec<_>) = leased
            .map(|(_, leased)| {
                let key = leased.link.connection.cancel_key().clone();
                (key, async {
                    match asking {
                        Asking::Himself(_) => leased.finish().await.map(drop),
                        Asking::ForHim(calls) => own_calls::answers(leased, calls.len()).await.map(drop),
                    }
                })
            })
            .unzip();
        let mut answers = pin!(join_all(work));
        cancel.prefer_as_deadlock_victim(gives_way);
        let in_time = match limit {
            Some(limit) => tokio::time::timeout(limit, &mut answers).await.ok(),
            None => Some(answers.as_mut().await),
        };
        let took_too_long = in_time.is_none();
        let answers = match in_time {
            Some(answers) => answers,
            None => {
                join_all(keys.iter().map(CancelKey::cancel)).await;
                answers.await
            }
        };
        cancel.prefer_as_deadlock_victim(false);
        let mut errors: Vec<PgError> = answers.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() {
            return Ok(Tried::Locked);
        }
        let gave_way = gives_way && cancel.deadlock().await.is_some();
        let is_ours = |error: &PgError| (took_too_long || gave_way) && error.code() == SqlState::QUERY_CANCELED;
        match errors.iter().position(|error| !is_ours(error)) {
            Some(refused) => Err(errors.swap_remove(refused)),
            None if gave_way => Ok(Tried::GaveWay),
            None => Ok(Tried::TookTooLong),
        }
    }
}
