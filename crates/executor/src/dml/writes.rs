//! Statements that change rows: on one node, on several, on every copy.
//!
//! * *One node, outside a block*: the statement runs by the extended protocol without Sync, so that it is done but not
//!   committed; only then the commit gate is entered (crate `txn`), and Sync commits. A statement that waits for row locks
//!   never holds the gate up.
//! * *Several nodes, outside a block*: REPEATABLE READ under one global snapshot, so that all nodes choose their rows in the same state;
//!   if another transaction changed one of them first (40001) the statement runs again under a new global snapshot. After
//!   [`TRIES_FREE`] it first keeps other writers off the table.
//!   INSERT … SELECT is first tried the short way: see [`optimistic_insert`](crate::dml::optimistic_insert).
//! * *Several nodes, in a READ COMMITTED block*: node after node, each past a read barrier: no node shows the statement less than
//!   those before it did.
//! * *Data changes in WITH*: see [`sequenced`](crate::dml::sequenced).
//! * *Rows of which the home node has to say what becomes of them*: see [`staged_dml`](crate::dml::staged_dml).
//! * *Copies of a replicated table*: the first copy decides. What depends on rows that are there locks the table on the first
//!   copy against other writers, and the other copies pass a read barrier, so that all copies do the same.

use std::sync::Arc;

use catalog::NodeId;
use pgerror::{Result, SqlState};
use planner::{DdlPlan, FirstCopy, Gather, InsertStaged, Plan, Replicate, Route, Scatter, SequencedCtes, StagedDml};

use crate::backend::call::Call;
use crate::backend::leased::Condition;
use crate::backend::leased::Gating;
use crate::backend::own_calls::OwnCall;
use crate::block::Mode;
use crate::block::table_locks::{LockedCopies, Locks};
use crate::dml::sequenced::changes_by_address;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;
use crate::shared::plan_validity::{PlanHolds, is_outdated};

/// Attempts in which other writers are not kept off.
const TRIES_FREE: usize = 3;
/// Attempts in all.
const TRIES_MAX: usize = 20;

/// What is written, and perhaps again.
pub(crate) enum Write<'a> {
    /// These texts, node after node unless they are INSERTs that do nothing else.
    InOrder(&'a [(NodeId, String)], bool),
    /// Rows that the home node makes first.
    Staged(&'a InsertStaged),
    /// This text, on every copy of a replicated table.
    Copies(&'a Replicate),
    /// Something on the home node, from gathered rows.
    Gathered(&'a Gather),
    /// What the home node works out for each row.
    StagedDml(&'a StagedDml),
    /// Part after part.
    SequencedCtes(&'a SequencedCtes),
    /// A new table with rows.
    Table(&'a DdlPlan),
    /// What the first copy of a table makes of it.
    FirstCopy(&'a FirstCopy),
}

impl Write<'_> {
    /// Are rows exchanged for it, or may they be?
    fn may_exchange(&self) -> bool {
        let exchanged = |inputs: &[planner::Input]| inputs.iter().any(|input| input.exchange_plan.is_some());
        match self {
            Write::Staged(insert) => exchanged(&insert.inputs),
            Write::Gathered(gather) => exchanged(&gather.inputs),
            Write::Table(ddl) => ddl.follow_up.is_some(),
            Write::FirstCopy(first) => match &first.plan {
                Plan::InsertStaged(insert) => exchanged(&insert.inputs),
                _ => false,
            },
            Write::InOrder(..) | Write::Copies(..) | Write::StagedDml(_) | Write::SequencedCtes(_) => false,
        }
    }

    /// What to lock before the snapshot. A schema change is ordered by the catalog's version, not by locks.
    fn locks(&self, written: Option<&str>) -> Locks {
        let inputs = |inputs: &[planner::Input]| inputs.iter().map(|input| input.sql.clone()).collect();
        let texts: Vec<String> = match self {
            Write::InOrder(parts, _) => parts.iter().take(1).map(|(_, sql)| sql.clone()).collect(),
            Write::Staged(insert) => inputs(&insert.inputs),
            Write::Copies(replicate) => vec![replicate.sql.clone()],
            Write::Gathered(gather) => inputs(&gather.inputs),
            Write::StagedDml(change) => inputs(&change.inputs),
            Write::SequencedCtes(ctes) => vec![ctes.original.clone()],
            Write::Table(_) => Vec::new(),
            Write::FirstCopy(first) => match &first.plan {
                Plan::Forward(forward) => vec![forward.sql.clone()],
                Plan::InsertStaged(insert) => inputs(&insert.inputs),
                Plan::StagedDml(change) => inputs(&change.inputs),
                Plan::SequencedCtes(ctes) => vec![ctes.original.clone()],
                _ => Vec::new(),
            },
        };
        let locks = Locks::of(written, texts.iter().map(String::as_str));
        match self {
            // It changes rows in an order of its own: others would deadlock with it.
            Write::StagedDml(_) => locks.exclusive(),
            Write::SequencedCtes(ctes) if changes_by_address(ctes) => locks.writing(&ctes.written).exclusive(),
            Write::SequencedCtes(ctes) => locks.writing(&ctes.written),
            Write::FirstCopy(first) => {
                let locks = locks.writing(&first.written);
                match &first.plan {
                    Plan::StagedDml(_) => locks.exclusive(),
                    Plan::SequencedCtes(ctes) if changes_by_address(ctes) => locks.exclusive(),
                    _ => locks,
                }
            }
            _ => locks,
        }
    }
}

impl Session {
    /// A statement that may change something, all on one node.
    pub(crate) async fn write_on_one_node(
        &mut self,
        part: Vec<(NodeId, String)>,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        if self.in_block() {
            return self.scatter(Mode::InBlock, part, call, output).await;
        }
        match self.context.gtm.has_lease() && !self.defers_constraints() {
            true => self.scatter_gated(part, call, output).await,
            // Nobody shuts our gate: the commit itself sees to it that no global snapshot is spoilt. Or something is to be checked
            // before the gate.
            false => self.atomically(async |this| this.scatter(Mode::InBlock, part, call, output).await).await,
        }
    }

    async fn scatter_gated(
        &mut self,
        parts: Vec<(NodeId, String)>,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let holds = |plan| PlanHolds { plan, context: self.context.clone() };
        let condition = self.validity.take().map(|plan| Arc::new(holds(plan)) as Arc<dyn Condition>);
        let gating = Gating { cancel: self.links.cancel().clone(), cluster: self.context.cluster().clone(), condition };
        self.connect_to(&parts.iter().map(|(node, _)| *node).collect::<Vec<_>>()).await?;
        for (node, sql) in &parts {
            self.acquire(*node, Mode::Autocommit).await?;
            self.causality.touch(*node);
            let version = self.schema_version;
            self.links.link(*node)?.start_gated(sql, call, version, gating.clone());
        }
        self.answers_of(&parts, call, output).await
    }

    /// A statement that may change something, as one text on several nodes.
    pub(crate) async fn write_on_several_nodes(
        &mut self,
        scatter: &Scatter,
        parts: Vec<(NodeId, String)>,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let tables = &scatter.tables;
        // A lock of rows is nothing once an own transaction has ended: such a SELECT is left as it is.
        let Some(target) = tables.written.as_deref().filter(|_| !self.in_block() && self.is_consistent()) else {
            self.refuse_serializable(&scatter.nodes)?;
            return self
                .atomically(async |this| this.write_in_order(parts, tables.only_inserts(), call, output).await)
                .await;
        };
        if tables.only_inserts()
            && let Some(completion) = self.insert_optimistically(&parts, tables, call, output).await?
        {
            return Ok(completion);
        }
        self.write_under_snapshot(&scatter.nodes, target, Write::InOrder(&parts, tables.only_inserts()), call, output)
            .await
    }

    /// Rows that the home node makes first.
    pub(crate) async fn write_staged(
        &mut self,
        insert: &InsertStaged,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let (nodes, replicated) = match &insert.stage.route {
            Route::Hash { nodes, .. } | Route::Modulo { nodes, .. } | Route::RoundRobin { nodes } => {
                (nodes.clone(), false)
            }
            Route::Replicated { nodes } => (nodes.clone(), true),
            Route::Single { node } => (vec![*node], false),
        };
        let mut all: Vec<NodeId> = insert.inputs.iter().flat_map(|input| input.nodes.clone()).collect();
        all.extend(&nodes);
        all.push(self.home);
        all.sort_unstable();
        all.dedup();
        let target = insert.stage.target.qualified_name();
        if !insert.inputs.is_empty() && !self.in_block() && self.is_consistent() {
            return self.write_under_snapshot(&all, &target, Write::Staged(insert), call, output).await;
        }
        self.refuse_serializable(&all)?;
        // All writers of copies come to the primary datanode's first, if it has one.
        let first = nodes.iter().find(|node| **node == self.home).or(nodes.first()).copied().filter(|_| replicated);
        self.atomically(async |this| {
            match first {
                Some(first) if insert.clauses.on_conflict => this.lock_copies(first, &target, &[]).await?,
                Some(first) => this.join_writers(first, &target).await?,
                None => {}
            }
            let plan = || Plan::InsertStaged(Box::new(insert.clone()));
            this.apart(plan, async |this| this.insert_staged(insert, call, output).await).await
        })
        .await
    }

    /// Comes to the first copy before the others, where rows then go at the same time: a session that keeps writers off takes the
    /// copies one after the other.
    pub(crate) async fn join_writers(&mut self, first: NodeId, target: &str) -> Result<()> {
        self.call_on(first, &[OwnCall::about("join_writers", target, "")]).await?;
        self.statement_finished();
        Ok(())
    }

    /// Something on the home node, from rows gathered there.
    pub(crate) async fn write_gathered(
        &mut self,
        nodes: &[NodeId],
        gather: &Gather,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        self.write_under_snapshot(nodes, "", Write::Gathered(gather), call, output).await
    }

    /// A write to every copy of a replicated table.
    pub(crate) async fn write_copies(
        &mut self,
        replicate: &Replicate,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let Replicate { nodes, sql, tables } = replicate;
        // What changes no table acts on the nodes' servers.
        let depends_on_rows = !tables.brings_rows() && tables.written.is_some();
        let target = tables.written.as_deref().unwrap_or_default();
        if depends_on_rows && !self.in_block() && self.is_consistent() {
            return self.write_under_snapshot(nodes, target, Write::Copies(replicate), call, output).await;
        }
        self.refuse_serializable(nodes)?;
        self.atomically(async |this| {
            if let (true, Some(first)) = (depends_on_rows, nodes.first()) {
                this.lock_copies(*first, target, &tables.read).await?;
            }
            this.replicate(nodes, sql, call, output).await
        })
        .await
    }

    /// Keeps other writers off the table, and off those that the statement reads, for the rest of the transaction: each of
    /// them has to come to the first copy.
    pub(crate) async fn lock_copies(&mut self, first: NodeId, target: &str, sources: &[String]) -> Result<()> {
        let keep_off = |table: &str, from_writing_too: bool| {
            OwnCall::about("keep_writers_off", table, if from_writing_too { ", true" } else { ", false" })
        };
        let target = (!target.is_empty()).then(|| keep_off(target, true));
        let sources = sources.iter().map(|source| keep_off(source, false));
        let calls: Vec<OwnCall> = target.into_iter().chain(sources).collect();
        self.call_on(first, &calls).await?;
        self.statement_finished();
        Ok(())
    }

    /// What locks rows of replicated tables in a block, and may change them later, keeps other writers off before that, as the change
    /// will: a session that came to the rows first and to the table last would deadlock with them. A block that has brought rows to
    /// a table does not ask for more: two of them would wait for each other.
    ///
    /// A user without the right to lock goes on without: a function of somebody else's may lock the rows for him, or nothing does.
    pub async fn lock_copies_first(&mut self) -> Result<()> {
        let LockedCopies { tables, after_changes } = std::mem::take(&mut self.copies_to_lock);
        for (first, table) in tables {
            let lock = OwnCall::about("keep_writers_off", &table, ", true");
            let lock = if after_changes { lock.unless_locked(&table) } else { lock };
            let answer = self.call_on(first, &[lock.clone().if_may_lock_rows(&table)]).await?;
            if answer.as_deref() == Some(b"f") {
                self.try_call(first, lock).await?;
            }
            self.statement_finished();
        }
        Ok(())
    }

    /// A call for a user whose rights it looks at itself, through views too; without them it is as if it had not been made.
    async fn try_call(&mut self, node: NodeId, call: OwnCall) -> Result<()> {
        self.links.broadcast(&[node], "SAVEPOINT loxo_alone").await?;
        match self.call_on(node, &[call]).await {
            Ok(_) => self.links.broadcast(&[node], "RELEASE SAVEPOINT loxo_alone").await,
            Err(error) if error.code() == SqlState::INSUFFICIENT_PRIVILEGE => {
                let back = "ROLLBACK TO SAVEPOINT loxo_alone; RELEASE SAVEPOINT loxo_alone";
                self.links.broadcast(&[node], back).await
            }
            Err(error) => Err(error),
        }
    }

    /// Runs a write in a transaction of its own in REPEATABLE READ, as often as other writers come first.
    pub(crate) async fn write_under_snapshot(
        &mut self,
        nodes: &[NodeId],
        target: &str,
        write: Write<'_>,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        self.refuse_serializable(nodes)?;
        let mut attempt = 1;
        let mut may_lock = !target.is_empty();
        let validity = self.validity.clone();
        loop {
            let rows_before = output.rows_sent();
            // Each attempt has a snapshot of its own, under which the plan has to hold.
            self.validity.clone_from(&validity);
            let keeps_writers_off = attempt > TRIES_FREE && may_lock;
            let error = match self.try_under_snapshot(nodes, target, keeps_writers_off, &write, call, output).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            // A user with rights on some columns only may write the table, not lock it.
            let is_lock_refused = keeps_writers_off && error.code() == SqlState::INSUFFICIENT_PRIVILEGE;
            may_lock &= !is_lock_refused;
            let is_overtaken =
                error.code() == SqlState::SERIALIZATION_FAILURE && !is_outdated(&error) || is_lock_refused;
            let may_retry = is_overtaken && output.rows_sent() == rows_before;
            if !may_retry || attempt == TRIES_MAX {
                return Err(error);
            }
            attempt += 1;
        }
    }

    async fn try_under_snapshot(
        &mut self,
        nodes: &[NodeId],
        target: &str,
        keeps_writers_off: bool,
        write: &Write<'_>,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        // The stronger lock is taken by itself: two that both held the weaker one would wait for each other.
        let written = (!keeps_writers_off).then_some(target);
        let opened = self.begin_locked(nodes, Vec::new(), &write.locks(written), false).await;
        let ready = match opened {
            Ok(()) => self.snapshot_for_write(nodes, keeps_writers_off.then_some(target), write.may_exchange()).await,
            Err(error) => Err(error),
        };
        let ready = match ready {
            Ok(()) => self.plan_holds_under_locks().await,
            Err(error) => Err(error),
        };
        let worked = match ready {
            Ok(()) => self.write_once(write, call, output).await,
            Err(error) => Err(error),
        };
        self.drop_readers().await;
        let worked = match worked {
            Ok(value) => self.plan_holds_to_the_end().await.map(|()| value),
            Err(error) => Err(error),
        };
        match worked {
            Ok(value) => self.commit().await.map(|_| value),
            Err(error) => {
                self.rollback().await;
                Err(error)
            }
        }
    }

    async fn write_once(&mut self, write: &Write<'_>, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        match write {
            Write::InOrder(parts, only_inserts) => {
                self.write_in_order(parts.to_vec(), *only_inserts, call, output).await
            }
            Write::Staged(insert) => self.insert_staged(insert, call, output).await,
            Write::Copies(copies) => self.replicate(&copies.nodes, &copies.sql, call, output).await,
            Write::Gathered(gather) => self.gather_in_block(gather, call, output).await,
            Write::StagedDml(change) => self.staged_dml_in_block(change, call, output).await,
            Write::SequencedCtes(ctes) => self.ctes_in_block(ctes, call, output).await,
            Write::Table(ddl) => Box::pin(self.ddl_in_block(ddl)).await,
            Write::FirstCopy(first) => self.first_copy_in_block(first, call, output).await,
        }
    }

    async fn snapshot_for_write(&mut self, nodes: &[NodeId], locked: Option<&str>, may_exchange: bool) -> Result<()> {
        if let Some(target) = locked {
            self.lock_before_snapshot(nodes, &[target.to_owned()]).await?;
        }
        match may_exchange {
            true => self.snapshot_with_readers(nodes).await,
            false => self.snapshot_over(nodes).await,
        }
    }
}
