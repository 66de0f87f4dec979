//! One move: the rows of some buckets go from one datanode to another, and the map follows, in one transaction.
//!
//! ```text
//!  home     the catalog's version is raised: no schema change comes in between
//!  old      LOCK the map's tables IN EXCLUSIVE MODE, for a moment at most: writers wait, readers do not
//!  old      COPY (DELETE … RETURNING …, hash) TO STDOUT ──▶ new  COPY … FROM STDIN      of each table
//!  new      count and sum of the hashes: the same?        (both in a few parts: the old node reads the next one ahead)
//!  all      UPDATE loxo.bucket_map
//!           COMMIT as a schema change: all coordinators drop their catalogs first
//! ```
//!
//! A step that does not get the lock in time, since somebody is in the middle of a long transaction, is taken back and tried
//! again later: writers behind it wait for no longer than for a step.

use std::time::{Duration, Instant};

use catalog::{Catalog, MapId, NodeId, Relation, quote_literal};
use pgerror::{PgError, Result, SqlState};
use placement::BucketMap;

use crate::growth::quiet::Noise;
use crate::growth::rows::{ENDS, Part, Passed, Travel};
use crate::growth::slices::{Moving, Place, tables_of};
use crate::growth::sums::{Sums, sums_sql};
use crate::session::Session;
use crate::shared::catalog_load::text;
use crate::shared::context::Context;

/// About as many rows of all tables together.
pub(crate) const ROWS_MAX: u64 = 50_000;
/// Longest wait for a lock that a vacuum holds which nobody has asked for.
const VACUUM_WAIT: Duration = Duration::from_millis(20);
/// How many parts a step's rows go in at most.
const PARTS: usize = 4;
/// A bucket's rows are to be found by the index over buckets if there is one, which has no statistics yet.
const BY_INDEX: &str = "SET LOCAL enable_seqscan = off";

/// What a move changes beside rows.
#[derive(Clone, Copy)]
pub(super) enum Changes {
    /// Where rows are, and nothing else that coordinators know.
    Maps,
    Schema,
}

/// Buckets that go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) map: MapId,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    pub(crate) buckets: Vec<u16>,
}

/// What a step came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) passed: Passed,
    /// Others have waited for its locks.
    pub(crate) delays_writers: bool,
    /// Reading, deleting, writing and comparing, without what each step costs.
    pub(crate) moving: Duration,
}

/// Transactions that had locks on a step's tables when it gave up waiting for them. An autovacuum gives way to a lock request behind
/// it, unless it prevents wraparound, so it is not waited for outside the queue.
pub(crate) struct Holders {
    node: NodeId,
    /// Their entries in pg_locks.
    condition: String,
}

impl Holders {
    /// Those that have now what a step would have to wait for.
    pub(crate) async fn of(context: &Context, node: NodeId, tables: Vec<String>) -> Result<Self> {
        let tables: Vec<String> =
            tables.iter().map(|table| format!("{}::pg_catalog.regclass", quote_literal(table))).collect();
        let on_tables = format!(
            "l.granted AND l.mode OPERATOR(pg_catalog.<>) 'AccessShareLock' AND NOT EXISTS ( \
             SELECT FROM pg_catalog.pg_stat_activity AS a WHERE a.pid OPERATOR(pg_catalog.=) l.pid \
             AND a.backend_type OPERATOR(pg_catalog.=) 'autovacuum worker' \
             AND a.query OPERATOR(pg_catalog.!~~) '%(to prevent wraparound)') \
             AND l.relation OPERATOR(pg_catalog.=) ANY (ARRAY[{}]::pg_catalog.oid[]) AND l.database OPERATOR(pg_catalog.=) \
             (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())",
            tables.join(", ")
        );
        let sql = format!("SELECT DISTINCT l.virtualtransaction FROM pg_catalog.pg_locks AS l WHERE {on_tables}");
        let rows = context.query_as_service(node, &sql).await?;
        let ids = rows.iter().map(|row| text(row, 0).map(quote_literal)).collect::<Result<Vec<_>>>()?;
        let condition = format!(
            "{on_tables} AND l.virtualtransaction OPERATOR(pg_catalog.=) ANY (ARRAY[{}]::pg_catalog.text[])",
            ids.join(", ")
        );
        Ok(Self { node, condition })
    }

    /// Has each of them ended? If that cannot be asked, because a table or the node is gone, the next step tells what is wrong.
    pub(crate) async fn are_done(&self, context: &Context) -> bool {
        let sql = format!("SELECT FROM pg_catalog.pg_locks AS l WHERE {} LIMIT 1", self.condition);
        context.query_as_service(self.node, &sql).await.map_or(true, |found| found.is_empty())
    }
}

/// How the rows of a step go.
struct Parts {
    parts: Vec<Part>,
    /// Where the new node has the rows of each table.
    places: Vec<Place>,
}

impl Session {
    /// Makes the move; `catalog` is what it was planned by. 40001 if that is not the present one any more, 55P03 if writers are in the
    /// way for longer than the patience. Either way nothing has happened.
    pub(crate) async fn take_step(&mut self, catalog: &Catalog, step: &Step, patience: Duration) -> Result<Taken> {
        let tables = tables_of(catalog, step.map)?;
        self.atomically(async |this| {
            this.begin_move(catalog, (step.from, step.to), Changes::Maps, patience).await?;
            let relations: Vec<&Relation> = tables.iter().map(|moving| moving.table).collect();
            let noise = this.noise(&relations, step.from, step.to).await?;
            let parts = this.parts(&tables, step).await?;
            this.lock(step.from, tables.iter().map(|moving| moving.name.as_str())).await?;
            this.refuse_users_code(&relations).await?;
            let begun = Instant::now();
            let passed = this.pass_tables(&tables, step, &parts, &noise).await?;
            let moving = begun.elapsed();
            txn::control_point!("step-rows-moved");
            this.note_step(catalog, step, passed).await?;
            let delays_writers = this.delays_writers(step.from).await?;
            this.schema_changed();
            txn::control_point!("step-map-changed");
            Ok(Taken { passed, delays_writers, moving })
        })
        .await
    }

    /// The rows of a step in a few parts: while the new node counts one, the old one reads the next.
    async fn parts(&mut self, tables: &[Moving<'_>], step: &Step) -> Result<Parts> {
        let hashes = self.row_hashes(tables.iter().map(|moving| moving.table)).await?;
        let places = self.places(tables, step.to).await?;
        let passages = |some: &[u16]| {
            let of = |(moving, hash): (&Moving<'_>, &&str)| {
                Travel::of(moving.table).passage(&moving.name, &moving.condition(some), hash)
            };
            tables.iter().zip(&hashes).map(of).collect()
        };
        let some = step.buckets.chunks(step.buckets.len().div_ceil(PARTS).max(1));
        let part = |some| Part { passages: passages(some), question: Some(sums_sql(tables, &hashes, &places, some)) };
        Ok(Parts { parts: some.map(part).collect(), places })
    }

    /// Both ends are ready, and no schema change comes in between from here on.
    pub(super) async fn begin_move(
        &mut self,
        catalog: &Catalog,
        (from, to): (NodeId, NodeId),
        changes: Changes,
        patience: Duration,
    ) -> Result<()> {
        // PostgreSQL has an autovacuum worker give way once it looks for deadlocks.
        let (most, look) = (patience.as_millis(), VACUUM_WAIT.as_millis());
        let wait = format!("SET LOCAL lock_timeout = '{most} ms'; SET LOCAL deadlock_timeout = '{look} ms'");
        self.run_on(self.home, &wait).await?;
        match changes {
            Changes::Maps => self.raise_version_for_maps().await?,
            Changes::Schema => self.raise_version().await?,
        }
        self.version_follows(catalog).await?;
        for node in [from, to] {
            self.run_on(node, &format!("{ENDS}; {wait}; {BY_INDEX}")).await?;
        }
        Ok(())
    }

    pub(super) async fn lock(&mut self, node: NodeId, tables: impl Iterator<Item = &str>) -> Result<()> {
        let only: Vec<String> = tables.map(|table| format!("ONLY {table}")).collect();
        match only.is_empty() {
            true => Ok(()),
            false => self.run_on(node, &format!("LOCK TABLE {} IN EXCLUSIVE MODE", only.join(", "))).await.map(drop),
        }
    }

    /// The rows of all tables.
    async fn pass_tables(
        &mut self,
        tables: &[Moving<'_>],
        step: &Step,
        Parts { parts, places }: &Parts,
        noise: &[Noise],
    ) -> Result<Passed> {
        if tables.is_empty() {
            return Ok(Passed::default());
        }
        let mut off = Vec::new();
        for moving in tables {
            self.quieten(moving.table, (step.from, &moving.condition(&step.buckets)), noise, &mut off).await?;
        }
        let arrived = self.pass_parts((step.from.into(), step.to.into()), parts).await?;
        for part in &arrived {
            Sums::of(&part.answer, tables.len())?.check(&part.passed, (tables, places))?;
        }
        self.let_sound(&off).await?;
        Ok(arrived.iter().flat_map(|part| &part.passed).copied().sum())
    }

    /// Does anybody wait on this node for this transaction? How long the locks were waited for does not tell: after a step all
    /// writers are about to begin anew, and hold none.
    pub(super) async fn delays_writers(&mut self, node: NodeId) -> Result<bool> {
        let sql = "SELECT FROM pg_catalog.pg_locks AS l WHERE NOT l.granted AND pg_catalog.pg_backend_pid() \
                   OPERATOR(pg_catalog.=) ANY (pg_catalog.pg_blocking_pids(l.pid)) LIMIT 1";
        Ok(!self.rows_on(node, sql).await?.is_empty())
    }

    /// Has nobody changed the schema since this catalog was read?
    pub(super) async fn version_follows(&mut self, catalog: &Catalog) -> Result<()> {
        match self.version_in_block().await? == Some(catalog.version() + 1) {
            true => Ok(()),
            false => {
                Err(PgError::new(SqlState::SERIALIZATION_FAILURE, "the schema has changed meanwhile")
                    .hint("Run it again."))
            }
        }
    }

    async fn note_step(&mut self, catalog: &Catalog, step: &Step, passed: Passed) -> Result<()> {
        let map = catalog.map(step.map).ok_or_else(|| PgError::internal("a bucket map is gone"))?;
        let changed = moved_map(map, step);
        let slots: Vec<String> = changed.as_slice().iter().map(u16::to_string).collect();
        let sql = format!(
            "UPDATE loxo.bucket_map SET nodes = '{{{}}}'::pg_catalog.int2[] WHERE id OPERATOR(pg_catalog.=) {}",
            slots.join(","),
            step.map.0
        );
        self.run_on_members(&sql).await?;
        self.note_progress(step.buckets.len(), passed).await
    }
}

fn moved_map(map: &BucketMap, step: &Step) -> BucketMap {
    let mut slots = map.as_slice().to_vec();
    for bucket in &step.buckets {
        slots[usize::from(*bucket)] = step.to.0;
    }
    BucketMap::from_slice(&slots).unwrap_or_else(|| map.clone())
}
