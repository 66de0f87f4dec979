//! Keeps other writers off a table on several nodes.
//!
//! Rows of COPY, and of an INSERT of many, come to all nodes at once. On one node such a writer may come before him who locks the
//! table, on another one behind him; then each waits for the other, which on one PostgreSQL cannot be. Writers pay nothing for
//! that. Who locks the table asks for it on all nodes at the same time, so that whoever comes later comes later everywhere;
//! and does not wait for long while he has it on some nodes only: he gives it back, which lets those in between go on, and asks
//! again, with twice the patience, since a writer that just takes its time is to be waited for.

use std::pin::pin;
use std::time::Duration;

use catalog::NodeId;
use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};
use pgproto::CancelKey;

use crate::backend::isolation::Isolation;
use crate::backend::own_calls::{self, OwnCall};
use crate::block::Mode;
use crate::session::Session;

/// Longest wait of the first try.
const PATIENCE: Duration = Duration::from_millis(50);
/// Tries before one that waits as long as it takes; the tries before it take 25 s at most.
const TRIES: u32 = 9;

/// How the lock is asked for.
enum Asking {
    /// The user's LOCK TABLE, which wants rights on the whole table.
    Himself(String),
    /// For one who has rights on some columns only, which is enough to write the table. Takes a snapshot.
    ForHim(Vec<OwnCall>),
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

    async fn lock_on_all(&mut self, nodes: &[NodeId], asking: &Asking) -> Result<()> {
        let limits = (0..TRIES).map(|tried| Some(PATIENCE * 2u32.pow(tried))).chain([None]);
        for limit in limits {
            // On one node nobody can come in between.
            if self.try_lock(nodes, asking, limit.filter(|_| nodes.len() > 1)).await? {
                return self.links.broadcast(nodes, "RELEASE SAVEPOINT loxo_alone").await;
            }
            self.links.cancel().interrupt().check()?;
            self.forget_savepoint(nodes).await?;
        }
        Err(PgError::internal("a lock was neither taken nor refused"))
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

    /// `false` if the lock was not to be had on all nodes in this time.
    async fn try_lock(&mut self, nodes: &[NodeId], asking: &Asking, limit: Option<Duration>) -> Result<bool> {
        let seal = self.context.seal().await?;
        self.connect_to(nodes).await?;
        for node in nodes {
            self.acquire(*node, Mode::InBlock).await?;
            self.causality.touch(*node);
            let connection = &mut self.links.link(*node)?.link.connection;
            match asking {
                Asking::Himself(lock) => connection.query(format!("SAVEPOINT loxo_alone; {lock}").as_bytes()),
                Asking::ForHim(calls) => {
                    connection.query(b"SAVEPOINT loxo_alone");
                    calls.iter().for_each(|call| call.queue(&seal, connection));
                }
            }
        }
        let leased = self.links.of(nodes);
        let (keys, work): (Vec<CancelKey>, Vec<_>) = leased
            .map(|(_, leased)| {
                let key = leased.link.connection.cancel_key().clone();
                (key, async {
                    leased.flush().await?;
                    let done = leased.finish().await;
                    match asking {
                        Asking::Himself(_) => done.map(drop),
                        Asking::ForHim(calls) => own_calls::answers(leased, calls.len()).await.and(done.map(drop)),
                    }
                })
            })
            .unzip();
        let mut answers = pin!(join_all(work));
        let Some(limit) = limit else {
            return answers.await.into_iter().collect::<Result<Vec<_>>>().map(|_| true);
        };
        let (answers, gave_up) = match tokio::time::timeout(limit, &mut answers).await {
            Ok(answers) => (answers, false),
            Err(_) => {
                join_all(keys.iter().map(CancelKey::cancel)).await;
                (answers.await, true)
            }
        };
        let refused = |error: &PgError| !gave_up || error.code() != SqlState::QUERY_CANCELED;
        let mut errors: Vec<PgError> = answers.into_iter().filter_map(Result::err).collect();
        match errors.iter().position(refused) {
            Some(refused) => Err(errors.swap_remove(refused)),
            None => Ok(errors.is_empty()),
        }
    }
}
