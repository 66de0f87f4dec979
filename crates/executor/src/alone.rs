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

use crate::session::{Mode, Session};

/// Longest wait of the first try.
const PATIENCE: Duration = Duration::from_millis(50);
/// Tries before one that waits as long as it takes; the tries before it take 25 s at most.
const TRIES: u32 = 9;

impl Session {
    /// Locks tables against other writers, to the end of the transaction.
    pub(crate) async fn keep_writers_off(&mut self, nodes: &[NodeId], tables: &[String]) -> Result<()> {
        let lock = format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", tables.join(", "));
        if let [node] = nodes {
            return self.run_on(*node, &lock).await.map(drop);
        }
        let sql = format!("SAVEPOINT loxo_alone; {lock}");
        let limits = (0..TRIES).map(|tried| Some(PATIENCE * 2u32.pow(tried))).chain([None]);
        for limit in limits {
            if self.try_lock(nodes, &sql, limit).await? {
                return self.broadcast(nodes, "RELEASE SAVEPOINT loxo_alone").await;
            }
            self.cancel.interrupt().check()?;
            self.broadcast(nodes, "ROLLBACK TO SAVEPOINT loxo_alone; RELEASE SAVEPOINT loxo_alone").await?;
        }
        Err(PgError::internal("a lock was neither taken nor refused"))
    }

    /// The same in a transaction that has no snapshot yet.
    pub(crate) async fn lock_before_cut(&mut self, nodes: &[NodeId], tables: &[String]) -> Result<()> {
        self.set_snapshotless(true);
        self.keep_writers_off(nodes, tables).await?;
        self.set_snapshotless(false);
        self.locked_before_cut();
        Ok(())
    }

    /// `false` if the lock was not to be had on all nodes in this time.
    async fn try_lock(&mut self, nodes: &[NodeId], sql: &str, limit: Option<Duration>) -> Result<bool> {
        for node in nodes {
            self.hold(*node, Mode::InBlock).await?;
            self.sight.touch(self.place(*node));
            self.link(*node)?.link.connection.query(sql.as_bytes());
        }
        let held = self.held.iter_mut().filter(|(node, _)| nodes.contains(node));
        let (keys, work): (Vec<CancelKey>, Vec<_>) = held
            .map(|(_, held)| {
                let key = held.link.connection.cancel_key().clone();
                (key, async {
                    held.flush().await?;
                    held.finish().await
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
