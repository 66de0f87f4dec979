//! Carries a rebalance on: every coordinator looks for one that is wanted, and the one that has the lock works.
//!
//! ```text
//!  each second: wanted? ── lock of loxo.rebalance free? ── remaining moves of the maps ── step ── again, until none is left
//!                                                      ── tables without a key       ── step ── again, until none is left
//! ```
//!
//! The lock belongs to an idle transaction on the primary datanode, which ends with its coordinator; another one then goes on from
//! what the maps say. So a job needs nobody in particular, and nothing is to be cleaned up but indexes.
//!
//! Steps adapt: as many buckets as are thought to take [`STEP_TIME`], since writers wait for one.

use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, Distribution, MapId, NodeId, Oid};
use futures_util::{StreamExt, TryStreamExt, stream};
use pgerror::{PgError, Result, SqlState, field};
use pgproto::Connection;
use tokio::time::{Instant, sleep};

use crate::backend::settings::Settings;
use crate::growth::journal::{self, Wanted};
use crate::growth::scattered::{Batch, Level, Surplus, Tail, to_be_emptied};
use crate::growth::slices::{self, NODES_AT_ONCE, tables_of};
use crate::growth::step::{Holders, ROWS_MAX, Step, Taken};
use crate::session::Session;
use crate::shared::context::Context;

/// Between two looks for a job.
const LOOK: Duration = Duration::from_secs(1);
/// A step moves rows for about so long. Locks are held for up to twice as long, with what each step costs.
const STEP_TIME: Duration = Duration::from_millis(200);
/// And for so long if writers wait for it.
const STEP_TIME_BESIDE_WRITERS: Duration = Duration::from_millis(60);
/// Longest wait for a step's lock at first: every later writer waits behind it.
const PATIENCE: Duration = Duration::from_millis(100);
/// The wait doubles with each failed try, up to this, and shrinks again with each step. Between two tries the job waits, outside of
/// PostgreSQL's lock queue, for the transactions that were in the way.
const PATIENCE_BRIEF: Duration = Duration::from_millis(250);
/// The wait may grow up to this after so many failed tries in a row: where transactions always take longer, or the machine is busy,
/// the rebalance would never end.
const PATIENCE_MAX: Duration = Duration::from_secs(2);
const TRIES_BRIEF: u32 = 10;
/// Rows in the first step of a table without buckets: they may be large.
const ROWS_AT_FIRST: u64 = 100;
/// A step may have so many times the buckets, or rows, of the one before.
const GROWTH: usize = 4;
/// Their number says nothing of how long a step takes.
const ROWS_FEW: u64 = 500;
const BYTES_FEW: u64 = 1 << 20;
/// Before a step whose lock could not be had is tried again; after other errors its multiple.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Between two looks whether the transactions in the way have ended: twice as long each time, up to the second figure.
const HOLDERS_LOOK: Duration = Duration::from_millis(50);
const HOLDERS_LOOK_MAX: Duration = Duration::from_secs(1);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(3);
/// Errors of other kinds in a row, after which a job has failed.
const FAILURES_MAX: u32 = 20;

/// Works whenever there is a job and nobody else does; ends with its coordinator.
pub async fn rebalance_when_wanted(context: Arc<Context>) {
    loop {
        sleep(LOOK).await;
        match look(&context).await {
            Ok(()) => {}
            Err(error) => tracing::debug!(%error, "no look for a rebalance"),
        }
    }
}

async fn look(context: &Arc<Context>) -> Result<()> {
    // Also where nobody asks for anything it shall be known soon which datanodes there are: some sessions listen.
    let seen = journal::look(context).await?;
    context.members().follow(&seen.datanodes);
    if seen.wanted.is_none() {
        return Ok(());
    }
    let mut lock = context.service_link(context.home()).await?;
    let locked =
        lock.connection.execute("BEGIN; LOCK TABLE loxo.rebalancing IN SHARE UPDATE EXCLUSIVE MODE NOWAIT").await;
    match locked {
        Ok(_) => {
            let done = Job::new(context).run(&mut lock.connection).await;
            lock.connection.execute("ROLLBACK").await?;
            context.pool.give_back(lock);
            done
        }
        Err(error) if error.code() == SqlState::LOCK_NOT_AVAILABLE => {
            lock.connection.execute("ROLLBACK").await?;
            context.pool.give_back(lock);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

struct Job<'c> {
    context: &'c Arc<Context>,
    session: Session,
    /// How many buckets the next step takes.
    buckets: usize,
    /// How many rows the next one of this table without buckets takes.
    rows: (Option<Oid>, u64),
    /// By what the journal said last.
    level: (Option<Wanted>, Level),
    tail: Tail,
    /// Indexes that an earlier coordinator has left are gone.
    is_tidy: bool,
    failures: u32,
    patience: Duration,
    /// Tries in a row that did not get the lock of a step.
    in_vain: u32,
    in_the_way: Option<Holders>,
    look: Duration,
    /// Maps whose tables have their indexes, and the moves that these are for.
    indexed: Vec<(MapId, Vec<(NodeId, NodeId)>)>,
    /// Nodes that take rows have not found them without.
    index_everywhere: bool,
}

impl<'c> Job<'c> {
    fn new(context: &'c Arc<Context>) -> Self {
        let session = Session::new(context.clone(), context.service().clone(), Settings::default());
        Self {
            context,
            session,
            buckets: 1,
            rows: (None, ROWS_AT_FIRST),
            level: (None, Level::default()),
            tail: Tail::default(),
            is_tidy: false,
            failures: 0,
            patience: PATIENCE,
            in_vain: 0,
            in_the_way: None,
            look: HOLDERS_LOOK,
            indexed: Vec::new(),
            index_everywhere: false,
        }
    }

    /// For as long as the lock is held, which is lost with its connection.
    async fn run(mut self, lock: &mut Connection) -> Result<()> {
        tracing::info!("this coordinator rebalances");
        while let Some(wanted) = journal::read(self.context).await? {
            lock.execute("SELECT 1").await?;
            if let Some(holders) = &self.in_the_way
                && !holders.are_done(self.context).await
            {
                sleep(self.look).await;
                self.look = (self.look * 2).min(HOLDERS_LOOK_MAX);
                continue;
            }
            (self.in_the_way, self.look) = (None, HOLDERS_LOOK);
            let began = Instant::now();
            match self.advance(&wanted).await {
                Ok(Some(taken)) => {
                    (self.failures, self.in_vain) = (0, 0);
                    self.patience = (self.patience * 3 / 4).max(PATIENCE);
                    pace(&wanted, taken, began).await;
                }
                Ok(None) => return Ok(()),
                Err(error) => self.after(error).await?,
            }
        }
        // Paused, cancelled or failed.
        if let Err(error) = self.drop_indexes().await {
            journal::note_left(self.context, &error.message()).await?;
        }
        Ok(())
    }

    /// The next step; `None`: it was the end.
    async fn advance(&mut self, wanted: &Wanted) -> Result<Option<Taken>> {
        if !self.is_tidy {
            self.drop_indexes().await?;
            self.is_tidy = true;
        }
        let catalog = self.context.catalog().await?.catalog.clone();
        let rest = remaining(&catalog, wanted);
        journal::note_rest(self.context, rest.len()).await?;
        match self.next_work(&catalog, wanted, &rest).await? {
            Some(Work::Step(step)) => {
                self.make_indexes(&catalog, &step, &rest).await?;
                self.take(&catalog, &step, wanted).await.map(Some)
            }
            Some(Work::Batch(batch)) => self.take_batch(&catalog, &batch, wanted).await.map(Some),
            None => {
                self.drop_indexes().await?;
                self.analyze(&catalog, wanted).await;
                self.session.note_end("done", None).await.map(|()| None)
            }
        }
    }

    /// Buckets first, then rows that have none. Without: there is nothing to do any more.
    async fn next_work<'k>(
        &mut self,
        catalog: &'k Catalog,
        wanted: &Wanted,
        rest: &[(MapId, u16, NodeId, NodeId)],
    ) -> Result<Option<Work<'k>>> {
        if let Some(step) = self.next_step(rest) {
            return Ok(Some(Work::Step(step)));
        }
        if let Some((table, from, to)) = to_be_emptied(catalog, wanted) {
            let rows = self.rows_of(table.oid, wanted);
            let batch = Batch::of_leaving(self.context, catalog, table, (from, to), rows, &mut self.tail).await?;
            return Ok(Some(Work::Batch(batch)));
        }
        match self.next_surplus(catalog, wanted).await? {
            Some(surplus) => {
                let rows = self.rows_of(surplus.table, wanted);
                let batch = Batch::of_surplus(self.context, catalog, &surplus, rows, &mut self.tail).await?;
                Ok(Some(Work::Batch(batch)))
            }
            None => Ok(None),
        }
    }

    async fn next_surplus(&mut self, catalog: &Catalog, wanted: &Wanted) -> Result<Option<Surplus>> {
        if !wanted.level {
            return Ok(None);
        }
        if self.level.0.as_ref() != Some(wanted) {
            self.level = (Some(wanted.clone()), Level::default());
        }
        let surplus = self.level.1.next(self.context, catalog, wanted).await?;
        journal::note_surplus(self.context, self.level.1.rest()).await?;
        Ok(surplus)
    }

    fn rows_of(&mut self, table: Oid, wanted: &Wanted) -> u64 {
        if self.rows.0 != Some(table) {
            self.rows = (Some(table), ROWS_AT_FIRST);
        }
        self.rows.1.min(wanted.rate.map_or(ROWS_MAX, u64::from))
    }

    /// The first of the moves, with others between the same nodes.
    fn next_step(&self, rest: &[(MapId, u16, NodeId, NodeId)]) -> Option<Step> {
        let (map, _, from, to) = *rest.first()?;
        let alike = rest.iter().filter(|(of, _, a, b)| (*of, *a, *b) == (map, from, to));
        let buckets = alike.map(|(_, bucket, ..)| *bucket).take(self.buckets).collect();
        Some(Step { map, from, to, buckets })
    }

    /// For all moves of the step's map, before the first.
    async fn make_indexes(
        &mut self,
        catalog: &Catalog,
        step: &Step,
        rest: &[(MapId, u16, NodeId, NodeId)],
    ) -> Result<()> {
        let is_made = |(map, moves): &(MapId, Vec<_>)| *map == step.map && moves.contains(&(step.from, step.to));
        if self.indexed.iter().any(is_made) {
            return Ok(());
        }
        let mut moves: Vec<_> =
            rest.iter().filter(|(map, ..)| *map == step.map).map(|(_, _, from, to)| (*from, *to)).collect();
        moves.dedup();
        let tables = tables_of(catalog, step.map)?;
        slices::make_indexes(self.context, &tables, &moves, self.index_everywhere).await?;
        self.indexed.push((step.map, moves));
        Ok(())
    }

    async fn take(&mut self, catalog: &Catalog, step: &Step, wanted: &Wanted) -> Result<Taken> {
        let began = Instant::now();
        self.session.statement_begins().await;
        let taken = self.session.take_step(catalog, step, self.patience).await;
        let taken = self.session.judged(taken).await;
        self.session.statement_ends().await;
        if is_lock_missed(&taken) {
            let names = tables_of(catalog, step.map)?.into_iter().map(|moving| moving.name).collect();
            self.in_the_way = Holders::of(self.context, step.from, names).await.ok();
        }
        let taken = taken?;
        tracing::debug!(?step.from, ?step.to, buckets = step.buckets.len(), ?taken, took = ?began.elapsed(), "a step");
        self.adapt(step.buckets.len(), taken, wanted.rate);
        Ok(taken)
    }

    async fn take_batch(&mut self, catalog: &Catalog, batch: &Batch<'_>, wanted: &Wanted) -> Result<Taken> {
        let began = Instant::now();
        self.session.statement_begins().await;
        let taken = self.session.move_scattered(catalog, batch, self.patience).await;
        let taken = self.session.judged(taken).await;
        self.session.statement_ends().await;
        if is_lock_missed(&taken) {
            let names = batch.members().iter().map(|member| member.qualified_name()).collect();
            self.in_the_way = Holders::of(self.context, batch.from, names).await.ok();
        }
        let taken = taken?;
        tracing::debug!(?batch.from, ?batch.to, batch.rows, ?taken, took = ?began.elapsed(), "a step without buckets");
        if !batch.leaves {
            self.level.1.passed(taken.passed.rows);
        }
        self.adapt_rows(batch.rows, taken, wanted.rate);
        Ok(taken)
    }

    /// As [`adapt`](Self::adapt), of rows.
    fn adapt_rows(&mut self, rows: u64, taken: Taken, rate: Option<u32>) {
        let by_time = in_time(rows as f64, taken);
        // The last ones of a table may be few, and say little.
        if rows >= self.rows.1 {
            let rows_max = rate.map_or(ROWS_MAX, |rate| ROWS_MAX.min(rate.into()));
            self.rows.1 = (by_time as u64).clamp(1, rows * GROWTH as u64).min(rows_max);
        }
    }

    /// As many buckets as should take the time of a step next time, and no more rows than are wanted in a second.
    fn adapt(&mut self, buckets: usize, taken: Taken, rate: Option<u32>) {
        let by_time = in_time(buckets as f64, taken);
        let rows_max = rate.map_or(ROWS_MAX, |rate| ROWS_MAX.min(rate.into()));
        let by_rows = buckets as f64 * rows_max as f64 / taken.passed.rows.max(1) as f64;
        self.buckets = (by_time.min(by_rows) as usize).clamp(1, buckets * GROWTH);
    }

    /// Waits, or gives the job up, after a step that was taken back.
    async fn after(&mut self, error: PgError) -> Result<()> {
        self.failures += 1;
        let is_in_the_way = [
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::SERIALIZATION_FAILURE,
            SqlState::DEADLOCK_DETECTED,
            SqlState::CONNECTION_FAILURE,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::STATEMENT_COMPLETION_UNKNOWN,
        ]
        .contains(&error.code());
        tracing::info!(%error, "a step of the rebalance was taken back");
        // What is refused is so until somebody does something about it.
        let is_refused = error.code() == SqlState::FEATURE_NOT_SUPPORTED;
        if is_refused || !is_in_the_way && self.failures >= FAILURES_MAX {
            let message = [&*error.message(), &*error.text(field::HINT)].join(". ");
            return self.session.note_end("failed", Some(message.trim_end_matches(". "))).await;
        }
        journal::note_wait(self.context, &error.message()).await?;
        if error.code() == SqlState::LOCK_NOT_AVAILABLE {
            self.in_vain += 1;
            let most = if self.in_vain > TRIES_BRIEF { PATIENCE_MAX } else { PATIENCE_BRIEF.max(self.patience) };
            self.patience = (self.patience * 2).min(most);
            sleep(RETRY_PAUSE).await;
            return Ok(());
        }
        self.index_everywhere |= error.code() == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        self.indexed.clear();
        self.buckets = (self.buckets / 2).max(1);
        sleep((RETRY_PAUSE * self.failures).min(RETRY_PAUSE_MAX)).await;
        Ok(())
    }

    async fn drop_indexes(&self) -> Result<()> {
        let context = self.context;
        let on_nodes = context.nodes().into_iter().map(|node| slices::drop_indexes(context, node));
        stream::iter(on_nodes).buffer_unordered(NODES_AT_ONCE).try_collect().await
    }

    /// Tables have other rows than the planners of their nodes know; a failure is none of the rebalance's.
    async fn analyze(&self, catalog: &Catalog, wanted: &Wanted) {
        let scattered_too = wanted.level || !wanted.without.is_empty();
        let has_moved = |distribution: &Distribution| {
            distribution.is_partitioned() && (scattered_too || !distribution.key().is_empty())
        };
        let moved = catalog.relations().filter(|relation| has_moved(&relation.distribution));
        let names: Vec<String> = moved.map(|relation| relation.qualified_name()).collect();
        let on_node = async |node: NodeId| {
            for table in &names {
                if let Err(error) = self.context.query_as_service(node, &format!("ANALYZE {table}")).await {
                    tracing::warn!(%error, table, "no statistics after a rebalance");
                }
            }
        };
        stream::iter(self.context.nodes().into_iter().map(on_node)).buffer_unordered(NODES_AT_ONCE).collect().await
    }
}

fn is_lock_missed(taken: &Result<Taken>) -> bool {
    taken.as_ref().is_err_and(|error| error.code() == SqlState::LOCK_NOT_AVAILABLE)
}

/// How many buckets or rows should take the time of a step, if so many have taken the time that they have.
fn in_time(amount: f64, taken: Taken) -> f64 {
    let wanted = if taken.delays_writers { STEP_TIME_BESIDE_WRITERS } else { STEP_TIME };
    // With so few rows most of the time is what each step costs, which more make no longer: on a busy machine it may be more
    // than is wanted for all.
    let is_few = taken.passed.rows < ROWS_FEW && taken.passed.bytes < BYTES_FEW;
    match is_few {
        true => f64::INFINITY,
        false => amount * wanted.as_secs_f64() / taken.moving.as_secs_f64().max(0.001),
    }
}

/// What is to be done next.
enum Work<'c> {
    Step(Step),
    Batch(Batch<'c>),
}

/// What has still to move: map, bucket, from, to.
fn remaining(catalog: &Catalog, wanted: &Wanted) -> Vec<(MapId, u16, NodeId, NodeId)> {
    let mut maps: Vec<_> = catalog.maps().collect();
    maps.sort_by_key(|(id, _)| *id);
    let mut rest = Vec::new();
    for (id, map) in maps {
        let members: Vec<u16> = match id == MapId::OF_ALL {
            true => catalog.all_nodes().into_iter().map(|node| node.0).collect(),
            // Somebody chose these nodes; only one that goes away is left out.
            false => map.nodes().to_vec(),
        };
        let kept: Vec<u16> = members.into_iter().filter(|node| !wanted.without.contains(&NodeId(*node))).collect();
        let is_concerned = id == MapId::OF_ALL || kept.len() < map.nodes().len();
        if is_concerned && !kept.is_empty() {
            let moves = map.rebalanced(&kept).into_iter();
            rest.extend(moves.map(|(bucket, from, to)| (id, bucket, NodeId(from), NodeId(to))));
        }
    }
    rest.sort_by_key(|(id, _, from, to)| (*id, *from, *to));
    rest
}

/// Waits so that no more rows move in a second than is wanted, and that other writers of the tables have half of the time.
async fn pace(wanted: &Wanted, taken: Taken, began: Instant) {
    let took = began.elapsed();
    let by_rate = wanted.rate.map(|rate| Duration::from_secs_f64(taken.passed.rows as f64 / f64::from(rate)));
    let for_others = if taken.delays_writers { took } else { Duration::ZERO };
    sleep(by_rate.unwrap_or_default().saturating_sub(took).max(for_others)).await;
}
