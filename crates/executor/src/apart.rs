//! In which session the temp tables of a statement are.
//!
//! A transaction that has touched temp tables cannot be PREPAREd, by the user's PREPARE TRANSACTION or as one of several writers. A
//! transaction of our own, for one statement, makes the home node its commit point. But inside the user's block they belong to
//! a session beside it on the home node, whose transaction sees nothing of the block: rows come from the block's own sessions
//! as those of any other node do.
//!
//! ```text
//!  own sessions ── rows ──> BESIDE: inputs, stage, last step ── rows ──> client, or own sessions
//! ```
//!
//! What may not run there ([`planner::runs_apart`]) stays in the block's own session: it reads what only the home node has, calls
//! functions that may change something, draws from sequences, whose last values are the session's.

use pgerror::Result;
use planner::{Plan, SessionFacts};

use crate::session::Session;

impl Session {
    /// Does the work, which runs the plan, with its temp tables in the right session.
    pub(crate) async fn apart<T>(
        &mut self,
        plan: impl FnOnce() -> Plan,
        work: impl AsyncFnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if !self.stays_clean() || !self.goes_apart(&plan()).await? {
            return work(self).await;
        }
        self.beside_it(work).await
    }

    /// [`Session::apart`] of a plan that goes there.
    pub(crate) async fn beside_it<T>(&mut self, work: impl AsyncFnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.open_beside("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?;
        let result = work(self).await;
        self.close_beside().await;
        result
    }

    pub(crate) async fn goes_apart(&mut self, plan: &Plan) -> Result<bool> {
        if !self.stays_clean() {
            return Ok(false);
        }
        let loaded = self.catalog().await?;
        let search_path = self.search_path(&loaded.catalog).await?;
        let temporary = self.temp_relations().await?;
        let facts = SessionFacts {
            home: self.home,
            search_path: &search_path,
            temp_relations: &temporary.names,
            temp_views: &temporary.views,
            parameters: &[],
            describe: None,
            in_transaction: true,
            clock: None,
            now: None,
            exchanges: planner::Exchanges::No,
            estimates: None,
            few_rows: 0.0,
        };
        Ok(planner::runs_apart(plan, &loaded.catalog, &facts))
    }

    /// Is this a block of the user's that can still be PREPAREd, and hides no table from other sessions?
    pub(crate) fn stays_clean(&self) -> bool {
        let is_clean = self.held.get(&self.home).is_none_or(|held| !held.temp);
        let may_ask = self.block.as_ref().is_some_and(|block| !block.is_own && !block.hides_schema());
        is_clean && may_ask && self.sink == self.home
    }
}
