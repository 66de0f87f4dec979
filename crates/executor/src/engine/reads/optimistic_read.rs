//! A SELECT over several nodes, outside a block, in as few waits as a global snapshot allows.
//!
//! ```text
//!  BEGIN, locks ─ all nodes ─┐
//!                            ├── generation, SELECT, ROLLBACK ─ all nodes ──> barrier valid? ── rows ──> client
//!  barrier ─ gtm ────────────┘
//! ```
//!
//! The transactions are opened while the gates are being shut. Then everything is sent at once: reading the generation takes the
//! snapshot, and its answer comes before any row, so the barrier ends as soon as all nodes have answered that; nothing
//! is passed on before. The end of the transactions, which keeps nothing, is not waited for by itself either.
//!
//! Only the case in which all goes well is here. A session that finds a lock taken, a node in doubt or a barrier run out
//! gives up, and the statement is run as [`snapshot`](crate::snapshot) says.

use catalog::NodeId;
use futures_util::future::try_join;
use pgerror::{PgError, Result, SqlState};
use planner::Tables;
use tokio::time::Instant;

use crate::backend::call::Call;
use crate::backend::leased::LeasedConnection;
use crate::backend::own_statements::Own;
use crate::block::GlobalSnapshot;
use crate::block::Mode;
use crate::block::table_locks::Locks;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;
use crate::snapshot::{SNAPSHOT_WAIT_MAX, barrier};

impl Session {
    /// Runs the same SELECT on several nodes under one global snapshot; `None` if it has to be done the long way. No row has gone to
    /// the client then.
    pub(crate) async fn read_optimistically(
        &mut self,
        parts: &[(NodeId, String)],
        tables: &Tables,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Option<Completion>> {
        debug_assert!(!self.in_block());
        let nodes: Vec<NodeId> = parts.iter().map(|(node, _)| *node).collect();
        self.refuse_serializable(&nodes)?;
        self.begin_without_waiting(&nodes, &Locks::of_tables(tables));
        let result = self.read_under_snapshot(&nodes, parts, call, output).await;
        // After the queued ROLLBACK there is nothing left to roll back.
        self.rollback().await;
        result
    }

    async fn read_under_snapshot(
        &mut self,
        nodes: &[NodeId],
        parts: &[(NodeId, String)],
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Option<Completion>> {
        let rollback = |leased: &mut LeasedConnection| leased.link.connection.query(b"ROLLBACK");
        let completion = self.run_within_barrier(nodes, parts, rollback, call, output).await?;
        if completion.is_some() {
            for node in nodes {
                // There is nothing to lose: a connection that is not idle after it is closed.
                let _ = self.links.link(*node)?.link.connection.read_rows().await;
            }
        }
        Ok(completion)
    }

    /// Opens the queued transactions and runs each part in its own, with `behind` queued after it; `None`, and no row given, if a
    /// lock is taken, a node in doubt or the barrier has run out.
    pub(crate) async fn run_within_barrier(
        &mut self,
        nodes: &[NodeId],
        parts: &[(NodeId, String)],
        behind: impl Fn(&mut LeasedConnection),
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Option<Completion>> {
        let Some(snapshot) = self.open_within_barrier(nodes).await? else { return Ok(None) };
        let version = self.schema_version;
        for (node, sql) in parts {
            self.causality.touch(*node);
            let leased = self.links.link(*node)?;
            Own::Generation.queue(&mut leased.link.connection);
            leased.link.connection.sync();
            leased.start(sql, call, version);
            behind(leased);
        }
        let generations = self.links.portal_answers(nodes).await?;
        if !self.complete(snapshot, &generations) {
            self.links.cancel_on(nodes).await;
            return Ok(None);
        }
        self.snapshot_taken();
        self.answers_of(parts, call, output).await.map(Some)
    }

    /// BEGIN with the locks, and the barrier, at the same time; connections are there before.
    pub(crate) async fn open_within_barrier(&mut self, nodes: &[NodeId]) -> Result<Option<txn::GlobalSnapshot>> {
        self.connect_to(nodes).await?;
        for node in nodes {
            self.acquire_as_is(*node, Mode::InBlock).await?;
        }
        let (context, cancel) = (self.context.clone(), self.links.cancel().clone());
        let deadline = Instant::now() + SNAPSHOT_WAIT_MAX;
        match try_join(self.links.opened(nodes), barrier(&context, &cancel, nodes, deadline)).await {
            Ok(((), snapshot)) => Ok(Some(snapshot)),
            Err(error) if must_wait_or_do_without(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn snapshot_taken(&mut self) {
        if let Some(block) = &mut self.block {
            block.global_snapshot = GlobalSnapshot::Taken;
        }
    }
}

/// A lock that someone has, or that LOCK TABLE cannot take: see [`Session::begin_locked`].
fn must_wait_or_do_without(error: &PgError) -> bool {
    [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::WRONG_OBJECT_TYPE,
        SqlState::UNDEFINED_TABLE,
    ]
    .contains(&error.code())
}
