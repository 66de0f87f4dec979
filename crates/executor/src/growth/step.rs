//! One move: the rows of some buckets go from one datanode to another, and the map follows, in one transaction.
//!
//! ```text
//!  home     the catalog's version is raised: no schema change comes in between
//!  old      LOCK the map's tables IN EXCLUSIVE MODE, [`LOCK_WAIT_MAX`] at most: writers wait, readers do not
//!  each table:
//!    old    count and hash sum of the rows
//!    old    COPY (DELETE … RETURNING …) TO STDOUT ──▶ new  COPY … FROM STDIN
//!    new    count and hash sum: the same?
//!  all      UPDATE loxo.bucket_map
//!           COMMIT as a schema change: all coordinators drop their catalogs first
//! ```
//!
//! A step that does not get the lock in time, since somebody is in the middle of a long transaction, is taken back and tried
//! again later: writers behind it wait for no longer than for a step.

use std::time::{Duration, Instant};

use catalog::{Catalog, MapId, NodeId, Oid, Relation, Rule, RuleEvent, RuleState, quote_identifier, quote_literal};
use pgerror::{PgError, Result, SqlState};
use placement::BucketMap;

use crate::growth::rows::{ENDS, Passed, Travel};
use crate::growth::slices::{Moving, tables_of};
use crate::session::Session;
use crate::shared::catalog_load::number;

/// About as many rows of all tables together.
pub(crate) const ROWS_MAX: u64 = 50_000;
/// Longest wait for a lock.
const LOCK_WAIT_MAX: Duration = Duration::from_millis(150);
/// … and for that of a vacuum that nobody has asked for.
const VACUUM_WAIT: Duration = Duration::from_millis(20);

/// Hashes of a row as SQL. The second takes more than twice as long, and any type.
const RECORD_HASH: &str = "pg_catalog.hash_record_extended(loxo_row, 0)";
const TEXT_HASH: &str = "pg_catalog.hashtextextended(loxo_row::pg_catalog.text, 0)";

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
    pub(crate) held_up: bool,
    /// Reading, deleting, writing and comparing, without what each step costs.
    pub(crate) moving: Duration,
}

impl Session {
    /// Makes the move; `catalog` is what it was planned by. 40001 if that is not the present one any more, 55P03 if writers are in the
    /// way. Either way nothing has happened.
    pub(crate) async fn take_step(&mut self, catalog: &Catalog, step: &Step) -> Result<Taken> {
        self.atomically(async |this| {
            this.begin_step(catalog, step).await?;
            let (mut passed, begun) = (Passed::default(), Instant::now());
            let tables = tables_of(catalog, step.map)?;
            let hashable = this.with_hashes(&tables).await?;
            for moving in tables {
                let hash = if hashable.contains(&moving.table.oid) { RECORD_HASH } else { TEXT_HASH };
                let some = this.move_table(&moving, step, hash).await?;
                passed = Passed { rows: passed.rows + some.rows, bytes: passed.bytes + some.bytes };
            }
            let moving = begun.elapsed();
            txn::control_point!("step-rows-moved");
            this.note_step(catalog, step, passed).await?;
            let held_up = this.holds_up(step.from).await?;
            this.schema_changed();
            txn::control_point!("step-map-changed");
            Ok(Taken { passed, held_up, moving })
        })
        .await
    }

    async fn begin_step(&mut self, catalog: &Catalog, step: &Step) -> Result<()> {
        let tables: Vec<String> = tables_of(catalog, step.map)?.into_iter().map(|moving| moving.name).collect();
        self.begin_move(catalog, step.from, step.to, &tables).await
    }

    async fn begin_move(&mut self, catalog: &Catalog, from: NodeId, to: NodeId, tables: &[String]) -> Result<()> {
        // PostgreSQL has an autovacuum worker give way once it looks for deadlocks.
        let (most, look) = (LOCK_WAIT_MAX.as_millis(), VACUUM_WAIT.as_millis());
        let wait = format!("SET LOCAL lock_timeout = '{most} ms'; SET LOCAL deadlock_timeout = '{look} ms'");
        self.run_on(self.home, &wait).await?;
        self.raise_version().await?;
        self.version_follows(catalog).await?;
        for node in [from, to] {
            self.run_on(node, &format!("{ENDS}; {wait}")).await?;
        }
        let only: Vec<String> = tables.iter().map(|table| format!("ONLY {table}")).collect();
        if !only.is_empty() {
            self.run_on(from, &format!("LOCK TABLE {} IN EXCLUSIVE MODE", only.join(", "))).await?;
        }
        Ok(())
    }

    /// Does anybody wait on this node for this transaction? How long the locks were waited for does not tell: after a step all
    /// writers are about to begin anew, and hold none.
    async fn holds_up(&mut self, node: NodeId) -> Result<bool> {
        let sql = "SELECT FROM pg_catalog.pg_locks AS l WHERE NOT l.granted AND pg_catalog.pg_backend_pid() \
                   OPERATOR(pg_catalog.=) ANY (pg_catalog.pg_blocking_pids(l.pid)) LIMIT 1";
        Ok(!self.rows_on(node, sql).await?.is_empty())
    }

    /// Moves some rows of a table without a key, wherever they lie. With the last ones the old node ceases to be one of the table's.
    pub(crate) async fn move_scattered(
        &mut self,
        catalog: &Catalog,
        table: &Relation,
        (from, to): (NodeId, NodeId),
    ) -> Result<Taken> {
        let name = table.qualified_name();
        self.atomically(async |this| {
            this.begin_move(catalog, from, to, std::slice::from_ref(&name)).await?;
            let begun = Instant::now();
            let quiet = this.quieten(table, from, to).await?;
            let travel = Travel::of(table);
            let returning = if travel.columns.is_empty() { "NULL" } else { &travel.columns };
            let some = format!("ctid = ANY (ARRAY(SELECT ctid FROM ONLY {name} LIMIT {ROWS_MAX}))");
            let out = travel.copy_out(&format!("(DELETE FROM ONLY {name} WHERE {some} RETURNING {returning})"));
            let passed = this.pass_rows((from, &out), (to, &travel.copy_in(&name))).await?;
            for (node, sql) in quiet {
                this.run_on(node, &sql).await?;
            }
            let nodes = match this.rows_on(from, &format!("SELECT FROM ONLY {name} LIMIT 1")).await?.is_empty() {
                true => format!("pg_catalog.array_remove(nodes, {}::pg_catalog.int2)", from.0),
                // Plans notice by the row's writer that rows have moved.
                false => "nodes".to_owned(),
            };
            let sql = format!(
                "UPDATE loxo.class SET nodes = {nodes} WHERE relid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass",
                quote_literal(&name)
            );
            this.run_on_members(&sql).await?;
            this.note_progress(0, passed).await?;
            let held_up = this.holds_up(from).await?;
            this.schema_changed();
            Ok(Taken { passed, held_up, moving: begun.elapsed() })
        })
        .await
    }

    /// Has nobody changed the schema since this catalog was read?
    pub(super) async fn version_follows(&mut self, catalog: &Catalog) -> Result<()> {
        let rows = self.rows_on(self.home, "SELECT version FROM loxo.catalog_version").await?;
        let version = rows.first().and_then(|row| row.first()?.as_deref()).map(String::from_utf8_lossy);
        match version.and_then(|version| version.parse::<u64>().ok()) == Some(catalog.version() + 1) {
            true => Ok(()),
            false => {
                Err(PgError::new(SqlState::SERIALIZATION_FAILURE, "the schema has changed meanwhile")
                    .hint("Run it again."))
            }
        }
    }

    async fn move_table(&mut self, moving: &Moving<'_>, step: &Step, hash: &str) -> Result<Passed> {
        let (table, condition) = (&moving.name, moving.condition(&step.buckets));
        // An index over buckets, if there is one, has no statistics yet.
        self.run_on(step.from, "SET LOCAL enable_seqscan = off").await?;
        let before = self.sums_on(step.from, moving.table, hash, &condition).await?;
        if before.0 == "0" {
            return Ok(Passed::default());
        }
        let quiet = self.quieten(moving.table, step.from, step.to).await?;
        let travel = Travel::of(moving.table);
        let returning = if travel.columns.is_empty() { "NULL" } else { &travel.columns };
        let out = travel.copy_out(&format!("(DELETE FROM ONLY {table} WHERE {condition} RETURNING {returning})"));
        let passed = self.pass_rows((step.from, &out), (step.to, &travel.copy_in(table))).await?;
        let after = self.sums_on(step.to, moving.table, hash, &condition).await?;
        if before != after || before.0 != passed.rows.to_string() {
            return Err(PgError::internal(format!(
                "rows of {table} came out changed: {} with sum {} before, {} with {} after",
                before.0, before.1, after.0, after.1
            )));
        }
        for (node, sql) in quiet {
            self.run_on(node, &sql).await?;
        }
        Ok(passed)
    }

    /// Those of the tables all of whose columns are of types with a hash function of their own.
    async fn with_hashes(&mut self, tables: &[Moving<'_>]) -> Result<Vec<Oid>> {
        let oids: Vec<String> = tables.iter().map(|moving| moving.table.oid.to_string()).collect();
        let sql = format!(
            "SELECT c.oid FROM pg_class AS c WHERE c.oid = ANY ('{{{}}}'::oid[]) AND NOT EXISTS ( \
                 SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND NOT EXISTS ( \
                     SELECT FROM pg_opclass AS o JOIN pg_am AS m ON m.oid = o.opcmethod AND m.amname = 'hash' \
                     JOIN pg_amproc AS p ON p.amprocfamily = o.opcfamily AND p.amproclefttype = o.opcintype AND p.amprocnum = 2 \
                     WHERE o.opcdefault AND o.opcintype = CASE a.atttypid WHEN 'varchar'::regtype THEN 'text'::regtype ELSE a.atttypid END))",
            oids.join(",")
        );
        let rows = self.rows_on(self.home, &planner::own_text(&sql)?).await?;
        rows.iter().map(|row| number(row, 0)).collect()
    }

    /// How many rows there are, and the sum of their hashes.
    async fn sums_on(
        &mut self,
        node: NodeId,
        table: &Relation,
        hash: &str,
        condition: &str,
    ) -> Result<(String, String)> {
        let sql = format!(
            "SELECT pg_catalog.count(*), pg_catalog.sum({hash}::pg_catalog.numeric) FROM ONLY {} AS loxo_row WHERE {condition}",
            table.qualified_name()
        );
        let rows = self.rows_on(node, &sql).await?;
        let text = |value: Option<bytes::Bytes>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        let mut values = rows.into_iter().flatten().map(text);
        Ok((values.next().unwrap_or_default(), values.next().unwrap_or_default()))
    }

    /// Triggers and rules that would act on the rows although the session is a replica's are switched off; gives what
    /// switches them on again.
    pub(super) async fn quieten(
        &mut self,
        table: &Relation,
        from: NodeId,
        to: NodeId,
    ) -> Result<Vec<(NodeId, String)>> {
        let name = table.qualified_name();
        let mut undo = Vec::new();
        let fires = |rule: &&Rule| rule.event == RuleEvent::Delete && rule.state == RuleState::Enabled;
        for rule in table.rules.iter().filter(fires) {
            let rule = quote_identifier(&rule.name);
            self.run_on(from, &format!("ALTER TABLE {name} DISABLE RULE {rule}")).await?;
            undo.push((from, format!("ALTER TABLE {name} ENABLE REPLICA RULE {rule}")));
        }
        let find = format!(
            "SELECT pg_catalog.quote_ident(t.tgname), t.tgenabled FROM pg_catalog.pg_trigger AS t \
             WHERE t.tgrelid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass AND NOT t.tgisinternal \
             AND t.tgenabled OPERATOR(pg_catalog.=) ANY ('{{A,R}}'::\"char\"[]) \
             AND t.tgfoid OPERATOR(pg_catalog.<>) 'loxo.tell_move()'::pg_catalog.regprocedure",
            quote_literal(&name)
        );
        for node in [from, to] {
            for row in self.rows_on(node, &find).await? {
                let mut values = row.into_iter().map(|v| String::from_utf8_lossy(&v.unwrap_or_default()).into_owned());
                let (trigger, state) = (values.next().unwrap_or_default(), values.next().unwrap_or_default());
                let state = if state == "A" { "ALWAYS" } else { "REPLICA" };
                self.run_on(node, &format!("ALTER TABLE {name} DISABLE TRIGGER {trigger}")).await?;
                undo.push((node, format!("ALTER TABLE {name} ENABLE {state} TRIGGER {trigger}")));
            }
        }
        Ok(undo)
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
