//! Sessions beside a transaction block that exchange rows for it: their temp tables would keep the block's own sessions from
//! being PREPAREd.
//!
//! What they see is what the block sees but for its own changes. In READ COMMITTED they take their snapshots under a global snapshot of
//! their own. In REPEATABLE READ that is too late, unless they took them under the block's own global snapshot and waited since
//! ([`Session::snapshot_with_readers`], for statements alone that write). Tables they cannot read as the block does have *local copies*:
//! temp tables that the block's own sessions fill, each for the session beside it.
//!
//! ```text
//!  own session ── portals of changed tables ─┐ one barrier ┌── Execute ─► COPY into local copies, node by node
//!  reader      ── snapshot ──────────────────┘             └── exchanges, last step ─► client, or COPY into own sessions
//! ```
//!
//! Invariants: nothing a reader does is kept; while readers work, the block and its links are suspended ([`SuspendedTransaction`]) and are known to
//! the deadlock detector as the same session's.

use catalog::{NodeId, quote_identifier};
use pgerror::{PgError, Result};
use pgproto::backend::Field;
use planner::{ChangedTable, ExchangePlan, Exchanges, FinalSql, Input, Plan, Route};
use tokio::time::Instant;

use crate::backend::call::Call;
use crate::backend::isolation::Isolation;
use crate::backend::leased::LeasedConnection;
use crate::backend::portals::Portal;
use crate::backend::slot::{Slot, slots};
use crate::block::GlobalSnapshot;
use crate::block::Mode;
use crate::block::node_span::NodeSpan;
use crate::block::suspended::Read;
use crate::block::suspended::SuspendedTransaction;
use crate::block::table_locks::Locks;
use crate::engine::exchange::{locks_of, open_portal};
use crate::engine::fixed_text::{restore, travelling};
use crate::engine::gather::{Filled, fill_table, without_position};
use crate::engine::mover::{Delivery, Gives, Worker, move_rows};
use crate::engine::row_router::{RowRouter, nodes_of};
use crate::engine::temp::own_temp::TempAs;
use crate::session::Session;
use crate::snapshot::SNAPSHOT_WAIT_MAX;

/// Which tables a transaction has changed, and which of them nobody else may look at.
const CHANGED_SQL: &str = "SELECT n.nspname, c.relname, pg_catalog.bool_or(l.mode = 'AccessExclusiveLock') \
    FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' AND l.granted AND c.relkind IN ('r', 'p') \
    AND l.mode IN ('RowExclusiveLock', 'AccessExclusiveLock') AND n.nspname <> 'pg_catalog' GROUP BY 1, 2";

/// Sessions that are ready to run an [`ExchangePlan`].
pub(crate) struct Ready {
    pub(crate) read: Read,
    local_copies: Vec<(Portal, Filled)>,
}

impl Ready {
    fn suspended(&mut self) -> Result<&mut SuspendedTransaction> {
        match &mut self.read {
            Read::Own(Some(suspended)) => Ok(suspended),
            _ => Err(PgError::internal("no block rests while others read for it")),
        }
    }
}

impl Session {
    /// What the planner may know before it is known whether rows are to be exchanged.
    pub(crate) fn exchanges(&self) -> Exchanges<'static> {
        match &self.block {
            _ if self.gathers => Exchanges::No,
            None => Exchanges::Seeing,
            // A SERIALIZABLE transaction of one datanode does not get to others.
            Some(block) if matches!(block.node_span, NodeSpan::SingleNode(Some(_))) || block.hides_schema() => {
                Exchanges::No
            }
            Some(_) if self.readers_differ() => Exchanges::SeeingNot(&[]),
            Some(_) => Exchanges::Seeing,
        }
    }

    /// [`Session::exchanges`] with the tables that the block has changed.
    pub(crate) fn exchanges_but<'t>(&self, changed: &'t [ChangedTable]) -> Exchanges<'t> {
        match self.readers_differ() {
            true => Exchanges::SeeingNot(changed),
            false => Exchanges::SeeingBut(changed),
        }
    }

    /// Would readers see another state than the block?
    fn readers_differ(&self) -> bool {
        let keeps = self.isolation().is_some_and(Isolation::keeps_snapshot);
        keeps && self.readers.is_none()
    }

    /// Tables that the block has changed. Its locks tell, whatever changed them: a statement, a trigger, a function.
    pub(crate) async fn changed_tables(&mut self) -> Result<Vec<ChangedTable>> {
        let mut changed: Vec<ChangedTable> = Vec::new();
        let sql = planner::own_text(CHANGED_SQL)?;
        for node in self.links.begun() {
            for row in self.rows_on(node, &sql).await? {
                let text = |at: usize| {
                    row.get(at).cloned().flatten().map(|value| String::from_utf8_lossy(&value).into_owned())
                };
                let (Some(schema), Some(name)) = (text(0), text(1)) else { continue };
                changed.push(ChangedTable { schema, name, is_locked: text(2).as_deref() == Some("t") });
            }
        }
        Ok(changed)
    }

    /// Opens the transaction that an ExchangePlan runs in. [`Session::end_read`] must follow.
    pub(crate) async fn begin_exchange_plan(&mut self, exchange_plan: &ExchangePlan, call: &Call) -> Result<Ready> {
        let locks = locks_of(exchange_plan);
        if !self.in_block() {
            let read = self.begin_read_locked(&exchange_plan.nodes, &locks).await?;
            return Ok(Ready { read, local_copies: Vec::new() });
        }
        if self.readers_differ() && self.is_consistent() && exchange_plan.local_copies.is_empty() {
            return Err(PgError::internal("exchanges that would not see the transaction's snapshot"));
        }
        let local_copies = self.parse_local_copies(exchange_plan, call).await?;
        let Some(block) = self.block.take() else { return Err(PgError::internal("no transaction block is open")) };
        let keeps = block.isolation.keeps_snapshot();
        let settings = block.settings_made();
        let mut suspended = self.suspend(block);
        let opened = match self.readers.take() {
            Some(readers) => {
                self.resume(*readers);
                self.bind_local_copies(&mut suspended, &local_copies, call).await
            }
            None => {
                self.open_readers(exchange_plan, settings, &locks, keeps, &mut suspended, &local_copies, call).await
            }
        };
        let ready = Ready { read: Read::Own(Some(suspended)), local_copies };
        match opened {
            Ok(()) => Ok(ready),
            Err(error) => {
                self.end_read(ready.read).await;
                Err(error)
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    async fn open_readers(
        &mut self,
        exchange_plan: &ExchangePlan,
        settings: Vec<String>,
        locks: &Locks,
        keeps_snapshot: bool,
        suspended: &mut SuspendedTransaction,
        local_copies: &[(Portal, Filled)],
        call: &Call,
    ) -> Result<()> {
        self.begin_locked(&exchange_plan.nodes, settings, locks, true).await?;
        if let Some(block) = self.block.as_mut().filter(|_| keeps_snapshot) {
            // They read local copies only, or each node's own state is good enough (`loxo.snapshot = local`).
            block.global_snapshot = GlobalSnapshot::Unneeded;
        }
        match self.block.as_ref().map(|block| block.global_snapshot) {
            Some(GlobalSnapshot::Pending) => {
                self.snapshot_and_bind(&exchange_plan.nodes, suspended, local_copies, call).await
            }
            _ => self.bind_local_copies(suspended, local_copies, call).await,
        }
    }

    /// The readers' snapshots and the local copies' portals in one barrier.
    async fn snapshot_and_bind(
        &mut self,
        nodes: &[NodeId],
        suspended: &mut SuspendedTransaction,
        local_copies: &[(Portal, Filled)],
        call: &Call,
    ) -> Result<()> {
        let deadline = Instant::now() + SNAPSHOT_WAIT_MAX;
        let parameters = call.parameters.as_deref().cloned().unwrap_or_default();
        let portals: Vec<&Portal> = local_copies.iter().map(|(portal, _)| portal).collect();
        loop {
            self.open_on(nodes).await?;
            let snapshot = self.barrier(nodes, deadline).await?;
            let mut generations = self.links.generations(nodes).await?;
            generations.extend(suspended.links.links().bind_portals(&portals, &parameters).await?);
            if self.complete(snapshot, &generations) {
                if let Some(block) = &mut self.block {
                    block.global_snapshot = GlobalSnapshot::Taken;
                }
                return Ok(());
            }
            suspended.links.links().close_portals(&portals).await?;
            self.start_over(nodes).await?;
        }
    }

    async fn bind_local_copies(
        &mut self,
        suspended: &mut SuspendedTransaction,
        local_copies: &[(Portal, Filled)],
        call: &Call,
    ) -> Result<()> {
        let parameters = call.parameters.as_deref().cloned().unwrap_or_default();
        let portals: Vec<&Portal> = local_copies.iter().map(|(portal, _)| portal).collect();
        suspended.links.links().bind_portals(&portals, &parameters).await.map(|_| ())
    }

    /// Has the block's own sessions parse what fills the local copies.
    async fn parse_local_copies(&mut self, exchange_plan: &ExchangePlan, call: &Call) -> Result<Vec<(Portal, Filled)>> {
        let mut local_copies = Vec::with_capacity(exchange_plan.local_copies.len());
        for (number, local_copy) in exchange_plan.local_copies.iter().enumerate() {
            let filled = self.describe_input(self.home, local_copy, call).await.map_err(without_position)?;
            let formats = vec![i16::from(filled.binary)];
            let sql = travelling(&local_copy.sql, filled.binary);
            local_copies.push((Portal::new(number + 1, &local_copy.nodes, &sql, formats), filled));
        }
        let portals: Vec<&Portal> = local_copies.iter().map(|(portal, _)| portal).collect();
        self.parse_portals(&portals, call).await?;
        Ok(local_copies)
    }

    /// Runs an ExchangePlan up to its last step; gives the nodes of that and its text.
    pub(crate) async fn up_to_last(
        &mut self,
        exchange_plan: &ExchangePlan,
        ready: &mut Ready,
        call: &Call,
    ) -> Result<(Vec<Slot>, String)> {
        self.make_local_copies(exchange_plan, ready, true, call).await?;
        let mut filled = Vec::with_capacity(exchange_plan.exchanges.len());
        for exchange in &exchange_plan.exchanges {
            filled.push(self.exchange(exchange, exchange_plan, &filled, call).await.map_err(without_position)?.0);
        }
        match &self.last_of(exchange_plan, &filled).await? {
            Plan::Gather(gather) => {
                let sql = Box::pin(self.fill_all(&gather.inputs, &gather.final_sql, call)).await?;
                Ok((vec![self.sink], sql))
            }
            Plan::Scatter(scatter) => Ok((slots(&scatter.nodes), scatter.sql.clone())),
            Plan::Forward(forward) => {
                Ok((vec![forward.nodes.first().copied().unwrap_or(self.home).into()], forward.sql.clone()))
            }
            _ => Err(PgError::internal("a plan with exchanges that ends in no query")),
        }
    }

    /// The last step, with the type markers in its texts replaced.
    pub(crate) async fn last_of(&mut self, exchange_plan: &ExchangePlan, filled: &[Vec<Field>]) -> Result<Plan> {
        let mut last = exchange_plan.last.clone();
        let inputs: Vec<&[Field]> =
            exchange_plan.last_inputs.iter().map(|at| filled.get(*at).map(Vec::as_slice).unwrap_or_default()).collect();
        let texts: Vec<&mut String> = match &mut last {
            Plan::Gather(gather) => gather.inputs.iter_mut().map(|input| &mut input.sql).collect(),
            Plan::Scatter(scatter) => vec![&mut scatter.sql],
            Plan::Forward(forward) => vec![&mut forward.sql],
            _ => Vec::new(),
        };
        for text in texts {
            let marked = FinalSql { text: std::mem::take(text), types: exchange_plan.last_types.clone() };
            *text = self.resolve_types(&marked, &inputs).await?;
        }
        Ok(last)
    }

    /// Makes the local copies, with their rows or empty.
    pub(crate) async fn make_local_copies(
        &mut self,
        exchange_plan: &ExchangePlan,
        ready: &mut Ready,
        with_rows: bool,
        call: &Call,
    ) -> Result<()> {
        for node in &exchange_plan.nodes {
            self.acquire(*node, Mode::InBlock).await?;
            self.links.link(*node)?.temp = true;
        }
        for (local_copy, (portal, filled)) in
            exchange_plan.local_copies.iter().zip(std::mem::take(&mut ready.local_copies))
        {
            let made = TempAs {
                table: &local_copy.table,
                columns: Vec::new(),
                fields: &filled.columns,
                sql: &local_copy.sql,
                indexes: &local_copy.indexes,
                receives: true,
            };
            let started =
                self.start_temp_as(&exchange_plan.nodes, &made, None, call).await.map_err(without_position)?;
            self.links.finish_all(&started).await.map_err(without_position)?;
            if with_rows {
                let filled =
                    self.fill_local_copy(exchange_plan, local_copy, &portal, filled.binary, ready.suspended()?).await;
                filled.map_err(without_position)?;
            }
        }
        Ok(())
    }

    /// Each node's own session gives its rows of a table to the session beside it.
    async fn fill_local_copy(
        &mut self,
        exchange_plan: &ExchangePlan,
        local_copy: &Input,
        portal: &Portal,
        binary: bool,
        suspended: &mut SuspendedTransaction,
    ) -> Result<()> {
        let table = quote_identifier(&local_copy.table);
        let mut own = suspended.links.links().take(&local_copy.nodes)?;
        let mut readers = self.links.take(&local_copy.nodes)?;
        let work = own
            .iter_mut()
            .zip(readers.iter_mut())
            .map(|(own, reader)| copy_local_copy(own, reader, portal, &table, binary));
        let copied = futures_util::future::join_all(work).await;
        suspended.links.links().put_back(own);
        self.links.put_back(readers);
        copied.into_iter().collect::<Result<()>>()?;
        self.after_fill(&local_copy.table, &local_copy.indexes, exchange_plan).await
    }

    /// Rows of an ExchangePlan go to tables of the block's own sessions; gives their number.
    pub(crate) async fn pour(
        &mut self,
        exchange_plan: &ExchangePlan,
        route: &Route,
        at: Option<Slot>,
        copy_sql: &str,
        binary: bool,
        call: &Call,
    ) -> Result<u64> {
        let targets = at.map_or_else(|| slots(&nodes_of(route)), |at| vec![at]);
        let call = Call { one_off: true, ..call.with_formats(vec![i16::from(binary)]) };
        let copy = if binary { copy_sql.to_owned() } else { copy_sql.replace("(FORMAT binary)", "(FORMAT text)") };
        let poured = self.pour_into(exchange_plan, route, &targets, &copy, binary, &call).await;
        // Those that no row came to have still to answer BEGIN, also after an error: they would be taken for lost.
        let opened = self.links.opened(&targets).await;
        let rows = poured?;
        opened.map(|()| rows)
    }

    async fn pour_into(
        &mut self,
        exchange_plan: &ExchangePlan,
        route: &Route,
        targets: &[Slot],
        copy: &str,
        binary: bool,
        call: &Call,
    ) -> Result<u64> {
        for slot in targets {
            self.acquire(*slot, Mode::InBlock).await?;
            self.causality.touch(slot.node());
        }
        let mut ready = self.begin_exchange_plan(exchange_plan, call).await?;
        // The readers have temp tables of their own.
        let sink = std::mem::replace(&mut self.sink, self.home.into());
        let router = RowRouter::new(route, binary, self.links.number()).of_encoding(self.encoding_of_links());
        let poured = self.pour_rows(exchange_plan, &mut ready, router, targets, copy, call).await;
        self.end_read(ready.read).await;
        self.sink = sink;
        poured
    }

    async fn pour_rows(
        &mut self,
        exchange_plan: &ExchangePlan,
        ready: &mut Ready,
        router: RowRouter<'_>,
        targets: &[Slot],
        copy: &str,
        call: &Call,
    ) -> Result<u64> {
        let binary = router.is_binary();
        let (sources, sql) = self.up_to_last(exchange_plan, ready, call).await?;
        let sent = travelling(&sql, binary);
        for node in &sources {
            let leased = self.links.link(*node)?;
            open_portal(leased, &sent, &call.fragment_types(&sql), call, 0);
            leased.flush().await?;
        }
        let suspended = ready.suspended()?.links.links();
        let (mut giving, mut taking) = (self.links.take(&sources)?, suspended.take(targets)?);
        let moved = {
            let mut workers = Vec::with_capacity(sources.len() + targets.len());
            for (slot, leased) in &mut giving {
                workers.push(Worker { node: slot.node(), leased, gives: Gives::Portal(0), takes: false });
            }
            for (slot, leased) in &mut taking {
                workers.push(Worker { node: slot.node(), leased, gives: Gives::Nothing, takes: true });
            }
            move_rows(workers, router, &Delivery { copy, at_once: false, then: None }).await
        };
        suspended.put_back(taking);
        self.links.put_back(giving);
        let moved = moved?;
        self.count_moved(&moved);
        if !binary {
            self.links.broadcast(&sources, &restore()).await?;
        }
        Ok(moved.iter().map(|moved| moved.rows).sum())
    }

    /// Gives the block its global snapshot, and sessions beside it, which wait in [`Session::readers`], the same state.
    pub(crate) async fn snapshot_with_readers(&mut self, nodes: &[NodeId]) -> Result<()> {
        let Some(block) = self.block.take_if(|block| block.global_snapshot == GlobalSnapshot::Pending) else {
            return Ok(());
        };
        let all = self.context.nodes();
        let mut writers = self.suspend(block);
        self.begin_over(&all, &[], Vec::new(), true);
        let snapshot = self.snapshot_of_both(&mut writers, nodes, &all).await;
        if snapshot.is_err() {
            self.rollback().await;
            self.resume(*writers);
            return snapshot;
        }
        if let Some(readers) = self.block.take() {
            self.readers = Some(self.suspend(readers));
        }
        self.resume(*writers);
        Ok(())
    }

    async fn snapshot_of_both(
        &mut self,
        writers: &mut SuspendedTransaction,
        nodes: &[NodeId],
        all: &[NodeId],
    ) -> Result<()> {
        let deadline = Instant::now() + SNAPSHOT_WAIT_MAX;
        loop {
            self.open_on(all).await?;
            self.swap(writers);
            let opened = self.open_on(nodes).await;
            self.swap(writers);
            opened?;
            let snapshot = self.barrier(all, deadline).await?;
            let mut generations = self.links.generations(all).await?;
            self.swap(writers);
            let own = self.links.generations(nodes).await;
            self.swap(writers);
            generations.extend(own?);
            if self.complete(snapshot, &generations) {
                writers.block.global_snapshot = GlobalSnapshot::Taken;
                if let Some(block) = &mut self.block {
                    block.global_snapshot = GlobalSnapshot::Taken;
                }
                return Ok(());
            }
            self.start_over(all).await?;
            self.swap(writers);
            let again = self.start_over(nodes).await;
            self.swap(writers);
            again?;
        }
    }

    /// Readers that nobody has needed.
    pub(crate) async fn drop_readers(&mut self) {
        let Some(readers) = self.readers.take() else { return };
        let read = match self.block.take() {
            Some(block) => Read::Own(Some(self.suspend(block))),
            None => Read::Own(None),
        };
        self.resume(*readers);
        self.end_read(read).await;
    }
}

async fn copy_local_copy(
    own: &mut (Slot, LeasedConnection),
    reader: &mut (Slot, LeasedConnection),
    portal: &Portal,
    table: &str,
    binary: bool,
) -> Result<()> {
    own.1.execute_portal(&portal.name, false);
    own.1.flush().await?;
    fill_table(std::slice::from_mut(own), reader, table, binary).await?;
    if !binary {
        own.1.link.connection.execute(&restore()).await?;
    }
    Ok(())
}
