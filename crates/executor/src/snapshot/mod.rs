//! What a statement may see: isolation levels, global snapshots, and how a session never goes back in time.
//!
//! A transaction that wrote on several nodes becomes visible on one after the other. Two means keep a session from seeing
//! half of it:
//!
//! * A *global snapshot* (crate `txn`): no commit is in its visible phase while the nodes of a statement take their snapshots. Every
//!   statement that reads several nodes runs under one, in REPEATABLE READ transactions: those of the session's own block
//!   in REPEATABLE READ ([`Session::acquire`] takes the global snapshot at the first statement, over all nodes), else transactions made
//!   for this statement ([`Session::begin_read`]). [`bound_portals`](crate::engine::reads::bound_portals) has the third case.
//! * *Read barrier*: before a session that has seen something elsewhere reads a node, that node waits until what it holds
//!   prepared now is gone. So what was seen on one node is seen on the next. [`CausalityTracker`](crate::block::causality::CausalityTracker) knows which nodes that concerns; after
//!   a global snapshot it is none. A new connection passes one: its node may have been away.
//!   For a statement that looks at nothing but the row it brings it is early enough before COMMIT ([`Session::run_deferred_read_barriers`]):
//!   only others see the row, and not before.
//!
//! ```text
//!  autocommit, one node      barrier? statement
//!  autocommit, several       BEGIN … REPEATABLE READ ─ global snapshot ─ snapshots ─ statement ─ ROLLBACK
//!  READ COMMITTED block      as autocommit, beside the block, until it has written; then see `portals`
//!  REPEATABLE READ block     global snapshot over all nodes, once
//!  SERIALIZABLE block        one node as it is, or as REPEATABLE READ with all others kept off ([`serializable`](crate::transaction::serializable))
//! ```
//!
//! Weaker, in a READ COMMITTED block that has written: a query that gathers rows and whose last step also reads tables of the
//! home node, or that follows DDL or LOCK TABLE, and changes of rows on several nodes. Each node has its own snapshot then; all
//! pass a read barrier first, so nothing is missing that an earlier statement has seen.
//!
//! Invariants: a snapshot that was not taken inside a valid barrier is never used for a statement over several nodes (the
//! transactions are rolled back and begun anew); a statement of a session with `loxo.snapshot = local` neither waits for the
//! gtm nor for prepared transactions.

pub(crate) mod cursor_holder;
pub(crate) mod earlier_rows;
mod exported;

use std::sync::Arc;
use std::time::Duration;

use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use tokio::time::{Instant, sleep};

use crate::backend::cancel::CancelSet;
use crate::backend::isolation::{Isolation, SnapshotMode};
use crate::backend::slot::Slot;
use crate::block::Block;
use crate::block::GlobalSnapshot;
use crate::block::Mode;
use crate::block::Replay;
use crate::block::node_span::NodeSpan;
use crate::block::suspended::Read;
use crate::block::table_locks::Locks;
use crate::session::Session;
use crate::shared::catalog_load::{self, Loaded};
use crate::shared::context::Context;

/// Longest wait for a global snapshot that holds, and for nodes whose transactions are in doubt.
pub(crate) const SNAPSHOT_WAIT_MAX: Duration = Duration::from_secs(30);
/// Pause before a node in doubt is looked at again.
const DOUBT_PAUSE: Duration = Duration::from_millis(100);

impl Session {
    /// Does the present statement need snapshots that agree?
    pub(crate) fn is_consistent(&self) -> bool {
        self.settings().snapshot() == SnapshotMode::Consistent && self.context.has_several_nodes()
    }

    /// To be called when a statement, or a part of one that others follow on other nodes, has ended.
    pub(crate) fn statement_finished(&mut self) {
        for node in self.links.lost_read_barriers() {
            self.causality.not_passed(node);
        }
        self.spent.settle_wait += self.links.take_read_barrier_waits();
        match self.block.as_ref().map(|block| block.global_snapshot) {
            // All that this transaction reads is as of its global snapshot.
            Some(GlobalSnapshot::Taken) => self.causality.finished_in_snapshot(),
            _ => self.causality.finished(),
        }
    }

    /// Gives a read over `nodes` snapshots that agree, wherever the session is. It runs in the block that is open then;
    /// [`Session::end_read`] must follow.
    pub(crate) async fn begin_read<'t>(
        &mut self,
        nodes: &[NodeId],
        texts: impl IntoIterator<Item = &'t str>,
    ) -> Result<Read> {
        self.begin_read_locked(nodes, &self.locks_to_read(texts)).await
    }

    /// Those of the tables that these texts read, which may have come before.
    pub(crate) fn locks_to_read<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> Locks {
        Locks::reading(texts.into_iter().flat_map(|text| self.tables_read_by(text).to_vec()))
    }

    /// The tables that a text reads, as SQL.
    pub(crate) fn tables_read_by(&self, text: &str) -> Arc<[String]> {
        // A text says that by itself, whatever the catalog is.
        const ALWAYS: u64 = 0;
        let find = || planner::Tables::in_text(text).unwrap_or_default().read.into();
        self.context.tables_read.get_or(ALWAYS, text.as_bytes(), find)
    }

    /// [`Session::begin_read`] with these tables locked.
    pub(crate) async fn begin_read_locked(&mut self, nodes: &[NodeId], locks: &Locks) -> Result<Read> {
        let (suspended, settings) = match self.block.take() {
            None => (None, Vec::new()),
            Some(block) if self.can_read_beside(&block, nodes) => {
                let settings = block.settings_made();
                (Some(self.suspend(block)), settings)
            }
            Some(block) => {
                self.block = Some(block);
                return Ok(Read::InBlock);
            }
        };
        let read = Read::Own(suspended);
        let ready = match self.refuse_serializable(nodes) {
            Ok(()) => self.begin_under_snapshot(nodes, settings, locks).await,
            Err(error) => Err(error),
        };
        // A schema change that held the locks is over: better a new plan now than an error after the first row.
        let ready = match ready {
            Ok(()) => self.plan_holds().await,
            Err(error) => Err(error),
        };
        match ready {
            Ok(()) => {
                // One node takes its snapshot with its first query, which is still to come.
                if self.has_global_snapshot() {
                    self.validity = self.validity.take().map(|validity| validity.under_snapshot());
                }
                Ok(read)
            }
            Err(error) => {
                self.end_read(read).await;
                Err(error)
            }
        }
    }

    /// Opens the transaction of [`Session::begin_locked`] and takes its snapshots: at first with BEGIN and the locks on their way
    /// while the gates are being shut, then, if that does not go well, one after the other.
    async fn begin_under_snapshot(&mut self, nodes: &[NodeId], settings: Vec<String>, locks: &Locks) -> Result<()> {
        if nodes.len() > 1 && self.is_consistent() {
            self.begin_over(nodes, &settings, locks.commands(" NOWAIT"), true);
            if let Some(snapshot) = self.open_within_barrier(nodes).await? {
                let generations = self.links.generations(nodes).await?;
                if self.complete(snapshot, &generations) {
                    self.snapshot_taken();
                    return Ok(());
                }
            }
            self.rollback().await;
        }
        self.begin_locked(nodes, settings, locks, true).await?;
        self.snapshot_over(nodes).await
    }

    /// Opens a transaction of our own in REPEATABLE READ that has the tables locked before it takes its snapshot, as a statement
    /// of its own has in PostgreSQL: a table that is rewritten meanwhile would look empty.
    ///
    /// A schema change locks the home node's table first. A blocked reader locks in the same order, so it never waits for a schema
    /// change on one node while it blocks that change on another. SHARE ROW EXCLUSIVE is last: [`Session::lock_before_snapshot`].
    pub(crate) async fn begin_locked(
        &mut self,
        nodes: &[NodeId],
        settings: Vec<String>,
        locks: &Locks,
        reads: bool,
    ) -> Result<()> {
        self.begin_over(nodes, &settings, locks.commands(" NOWAIT"), reads);
        let error = match self.open_on(nodes).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        match error.code() {
            SqlState::LOCK_NOT_AVAILABLE => {
                self.rollback().await;
                self.begin_over(nodes, &settings, locks.shared_commands(), reads);
                self.open_on(&[self.home]).await?;
                self.open_on(nodes).await?;
                match locks.exclusive_tables() {
                    [] => Ok(()),
                    tables => self.lock_before_snapshot(nodes, tables).await,
                }
            }
            // Rights on some columns only, a materialized view: LOCK TABLE cannot, the statement may.
            SqlState::INSUFFICIENT_PRIVILEGE | SqlState::WRONG_OBJECT_TYPE | SqlState::UNDEFINED_TABLE => {
                self.rollback().await;
                self.begin_over(nodes, &settings, Vec::new(), reads);
                if let Some(block) = &mut self.block {
                    block.lacks_locks = true;
                }
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// A transaction of our own in REPEATABLE READ that would rather fail than wait for the locks of the tables it reads.
    pub(crate) fn begin_without_waiting(&mut self, nodes: &[NodeId], locks: &Locks) {
        self.begin_over(nodes, &[], locks.commands(" NOWAIT"), true);
    }

    /// May a statement of this block be run by other sessions, in a transaction of its own?
    fn can_read_beside(&self, block: &Block, nodes: &[NodeId]) -> bool {
        block.isolation.renews_snapshot()
            && !block.wrote
            && !block.schema_changed
            && !self.links.is_pinned(self.home)
            && self.is_consistent()
            && nodes.len() > 1
    }

    /// A transaction of our own in REPEATABLE READ; one node needs no global snapshot.
    pub(crate) fn begin_over(&mut self, nodes: &[NodeId], settings: &[String], locks: Vec<String>, reads: bool) {
        let replay = settings.iter().cloned().map(Replay::set).chain(locks.into_iter().map(Replay::lock)).collect();
        self.begin_own(Isolation::RepeatableRead, replay, reads);
        let needs_snapshot = nodes.len() > 1 && self.is_consistent();
        if let Some(block) = self.block.as_mut().filter(|_| !needs_snapshot) {
            block.global_snapshot = GlobalSnapshot::Unneeded;
        }
    }

    /// The snapshots of a transaction of our own.
    pub(crate) async fn snapshot_over(&mut self, nodes: &[NodeId]) -> Result<()> {
        if self.block.as_ref().is_some_and(|block| block.global_snapshot == GlobalSnapshot::Pending) {
            self.take_snapshot(nodes).await?;
            if let Some(block) = &mut self.block {
                block.global_snapshot = GlobalSnapshot::Taken;
            }
        }
        Ok(())
    }

    pub(crate) fn has_global_snapshot(&self) -> bool {
        self.block.as_ref().is_some_and(|block| block.global_snapshot == GlobalSnapshot::Taken)
    }

    /// LOCK TABLE was run in a transaction that has no snapshot yet.
    pub(crate) fn locked_before_snapshot(&mut self) {
        if let Some(block) = &mut self.block {
            block.locked |= block.global_snapshot == GlobalSnapshot::Pending;
        }
    }

    /// Under `default_transaction_isolation = serializable` a statement alone is a serializable transaction.
    pub(crate) fn refuse_serializable(&self, nodes: &[NodeId]) -> Result<()> {
        match nodes.len() > 1 && !self.in_block() && self.default_isolation() == Isolation::Serializable {
            true => Err(beyond_one_node()),
            false => Ok(()),
        }
    }

    /// What the block's isolation level asks for before it goes to `node`.
    pub(crate) async fn enter_node(&mut self, slot: Slot) -> Result<()> {
        if self.block.as_ref().is_none_or(|block| block.snapshotless) {
            return Ok(());
        }
        self.widen_to(slot.node())?;
        let Some(block) = self
            .block
            .as_ref()
            .filter(|block| block.is_under_snapshot() && block.global_snapshot == GlobalSnapshot::Pending)
        else {
            return Ok(());
        };
        let nodes = self.context.nodes();
        let snapshot = match (self.is_consistent(), block.node_span) {
            (true, _) => {
                let catalog = Box::pin(self.take_kept_snapshot(&nodes)).await?;
                if let Some(block) = &mut self.block {
                    block.first_catalog = Some(catalog);
                }
                GlobalSnapshot::Taken
            }
            (false, NodeSpan::MultiNode(..)) => {
                self.open_in_turn(&nodes).await?;
                GlobalSnapshot::Unneeded
            }
            (false, _) => return Ok(()),
        };
        if let Some(block) = &mut self.block {
            block.global_snapshot = snapshot;
        }
        Ok(())
    }

    /// What follows takes no snapshot in PostgreSQL and must not make the block take one here.
    pub(crate) fn set_snapshotless(&mut self, snapshotless: bool) {
        if let Some(block) = &mut self.block {
            block.snapshotless = snapshotless;
        }
    }

    /// The snapshot of a whole block, and the catalog that says where its rows are: the one whose version is in the snapshot. A
    /// schema change is committed outside of barriers, so that version is the same on all nodes.
    async fn take_kept_snapshot(&mut self, nodes: &[NodeId]) -> Result<Arc<Loaded>> {
        loop {
            let before = self.catalog().await?;
            self.take_snapshot(nodes).await?;
            let after = self.catalog().await?;
            if Arc::ptr_eq(&before.catalog, &after.catalog) {
                return Ok(before);
            }
            let version = self.version_in_block().await?;
            match [before, after].into_iter().find(|loaded| Some(loaded.catalog.version()) == version) {
                Some(loaded) => return Ok(loaded),
                None => self.start_over(nodes).await?,
            }
        }
    }

    /// Version of the catalog, as the block shows it.
    pub(crate) async fn version_in_block(&mut self) -> Result<Option<u64>> {
        self.acquire_as_is(self.home, Mode::InBlock).await?;
        let leased = self.links.link(self.home)?;
        leased.link.connection.query(b"SELECT version FROM loxo.catalog_version");
        leased.flush().await?;
        leased.skip_preamble().await?;
        let (rows, _) = leased.link.connection.read_rows().await?;
        rows.first().map(|row| catalog_load::number(row, 0)).transpose()
    }

    /// Has the block's transaction on each of `nodes` take its snapshot within one barrier.
    async fn take_snapshot(&mut self, nodes: &[NodeId]) -> Result<()> {
        let deadline = Instant::now() + SNAPSHOT_WAIT_MAX;
        loop {
            self.open_in_turn(nodes).await?;
            if self.try_snapshot(nodes, deadline).await? {
                return Ok(());
            }
            self.start_over(nodes).await?;
        }
    }

    /// See [`barrier`].
    pub(crate) async fn barrier(&self, nodes: &[NodeId], deadline: Instant) -> Result<txn::GlobalSnapshot> {
        barrier(&self.context, self.links.cancel(), nodes, deadline).await
    }

    /// Has all answered within the barrier, and under its gtm? Then whatever the session sees, all nodes show.
    pub(crate) fn complete(&mut self, snapshot: txn::GlobalSnapshot, generations: &[Option<i64>]) -> bool {
        let same = generations.iter().all(|read| read.is_some_and(|value| snapshot.holds_for(value)));
        let unresolved = snapshot.unresolved().to_vec();
        let complete = snapshot.complete() && same;
        if complete {
            self.causality.snapshot_taken(&unresolved);
        }
        complete
    }

    /// `BEGIN …` on all of them, answered.
    pub(crate) async fn open_on(&mut self, nodes: &[NodeId]) -> Result<()> {
        self.connect_to(nodes).await?;
        for node in nodes {
            self.acquire_as_is(*node, Mode::InBlock).await?;
        }
        self.links.opened(nodes).await
    }

    async fn try_snapshot(&mut self, nodes: &[NodeId], deadline: Instant) -> Result<bool> {
        let snapshot = self.barrier(nodes, deadline).await?;
        let generations = self.links.generations(nodes).await?;
        Ok(self.complete(snapshot, &generations))
    }

    /// Gives snapshots back that are of no use.
    pub(crate) async fn start_over(&mut self, nodes: &[impl Copy + Into<Slot>]) -> Result<()> {
        if self.block.as_ref().is_some_and(|block| block.locked) {
            return Err(PgError::new(
                SqlState::SERIALIZATION_FAILURE,
                "could not take one snapshot on all datanodes before the locks of this transaction would be lost",
            )
            .hint("Run the transaction again."));
        }
        self.links.broadcast(nodes, "ROLLBACK").await?;
        for node in nodes {
            self.links.link(*node)?.begun = false;
        }
        Ok(())
    }
}

/// A barrier in which none of `nodes` has transactions in doubt; 57P03 after `deadline`.
pub(crate) async fn barrier(
    context: &Context,
    cancel: &CancelSet,
    nodes: &[NodeId],
    deadline: Instant,
) -> Result<txn::GlobalSnapshot> {
    loop {
        let snapshot = cancel.interrupt().or_gate(context.gtm.global_snapshot()).await??;
        let in_doubt = snapshot.unresolved().iter().copied().find(|node| nodes.contains(&NodeId(*node)));
        let Some(node) = in_doubt else {
            return if Instant::now() < deadline { Ok(snapshot) } else { Err(no_snapshot(None)) };
        };
        // Nobody has to wait while we do.
        drop(snapshot);
        if Instant::now() >= deadline {
            return Err(no_snapshot(Some(context.node_name(NodeId(node)))));
        }
        cancel.interrupt().or(sleep(DOUBT_PAUSE)).await?;
    }
}

fn beyond_one_node() -> PgError {
    PgError::unsupported("this statement over several datanodes, as a SERIALIZABLE transaction of its own,")
        .hint("Run it in a block, or SET default_transaction_isolation = 'repeatable read'.")
}

/// 57P03 after [`SNAPSHOT_WAIT_MAX`].
fn no_snapshot(in_doubt: Option<String>) -> PgError {
    match in_doubt {
        Some(node) => PgError::new(
            SqlState::CANNOT_CONNECT_NOW,
            format!("{node} has transactions whose outcome has been in doubt for 30 s"),
        )
        .hint("`loxo check` tells who does not answer; SET loxo.snapshot = 'local' reads what each datanode shows."),
        None => PgError::new(
            SqlState::CANNOT_CONNECT_NOW,
            "no consistent snapshot of the datanodes could be taken for 30 s",
        )
        .hint("`loxo check` tells who does not answer; SET loxo.snapshot = 'local' reads what each datanode shows."),
    }
}
