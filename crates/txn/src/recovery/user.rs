//! What recovery does for transactions that users prepared: it finishes those whose end is decided, and clears up after
//! them. [`crate::user_prepared`] tells the order of the steps and why.

use std::collections::HashSet;

use futures_util::future::join_all;
use pgerror::Result;
use tracing::warn;

use super::{CLEAR_ROWS_MAX, InDoubt, Node, Recovery};
use crate::gid::Gid;
use crate::user_prepared;

impl Recovery {
    /// Before a commit on any node: tells all nodes of the transaction that it is being finished.
    pub(super) async fn mark_finishing(&mut self, doubt: &InDoubt) -> Result<(), String> {
        let InDoubt { gid, database, .. } = doubt;
        let Some(registry) = self.nodes.get_mut(&gid.commit_point) else { return Ok(()) };
        let sql = format!("SELECT nodes FROM loxo.prepared_transaction WHERE gid = '{gid}'");
        let rows =
            registry.query(database, &sql).await.map_err(|error| format!("its registry: {}", error.message()))?;
        // No row: somebody else has finished it on all nodes meanwhile.
        let array = rows.into_iter().flatten().flatten().next().unwrap_or_default();
        let holders = user_prepared::numbers(&String::from_utf8_lossy(&array));
        let mark = user_prepared::mark_sql(gid);
        for holder in holders {
            let Some(node) = self.nodes.get_mut(&holder) else {
                return Err(format!("datanode {holder}, which it is prepared on, is not a node of this cluster"));
            };
            let marked = node.execute(database, &mark).await;
            marked.map_err(|error| format!("datanode {holder} cannot be told: {}", error.message()))?;
        }
        Ok(())
    }

    /// Gids whose end is decided, by registry.
    pub(super) async fn ended_by_users(&mut self) -> Vec<Vec<String>> {
        let lists = join_all(self.nodes.values_mut().map(Node::ended)).await;
        lists.into_iter().map(Result::unwrap_or_default).collect()
    }

    /// Deletes what [`Recovery::ended_by_users`] gave before all nodes' prepared transactions were listed, but for those
    /// that are `needed`; and all marks of transactions that are gone.
    pub(super) async fn forget_ended(&mut self, ended: Vec<Vec<String>>, needed: &HashSet<String>) {
        let deletions = self.nodes.values_mut().zip(ended).map(|(node, ended)| node.forget(ended, needed));
        for error in join_all(deletions).await.into_iter().filter_map(Result::err) {
            warn!("recovery could not clear up after prepared transactions: {}", error.message());
        }
    }
}

impl Node {
    async fn ended(&mut self) -> Result<Vec<String>> {
        let database = self.options.database.clone();
        let sql = format!("SELECT gid FROM loxo.prepared_transaction WHERE state <> 'prepared' LIMIT {CLEAR_ROWS_MAX}");
        let rows = self.query(&database, &sql).await?;
        Ok(rows.into_iter().flatten().flatten().filter_map(|gid| String::from_utf8(gid.to_vec()).ok()).collect())
    }

    async fn forget(&mut self, ended: Vec<String>, needed: &HashSet<String>) -> Result<()> {
        if !self.has_schema {
            return Ok(());
        }
        let database = self.options.database.clone();
        for gid in ended.iter().filter(|gid| !needed.contains(*gid)).filter_map(|gid| gid.parse::<Gid>().ok()) {
            self.execute(&database, &user_prepared::forget_sql(&gid)).await?;
        }
        // Only those of transactions that are prepared here are ever needed, and a mark comes after the prepare.
        let marks = "DELETE FROM loxo.finishing AS f \
             WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_prepared_xact() AS p WHERE p.gid = f.gid)";
        self.execute(&database, marks).await
    }
}
