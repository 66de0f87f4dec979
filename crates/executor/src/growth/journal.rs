//! The journal of a rebalance: one row of `loxo.rebalance` on the primary datanode. What is wanted stands there, and how far it is;
//! `pgxc_rebalance` shows it.

use bytes::Bytes;
use catalog::{Node, NodeId};
use pgerror::{PgError, Result, SqlState};
use planner::parse::RebalanceControl;

use crate::growth::nodes::{no_node, refuse_last_copies};
use crate::growth::rows::Passed;
use crate::session::Session;
use crate::shared::catalog_load::{Row, flag, number, numbers, text};
use crate::shared::context::Context;

/// What a rebalance that is under way is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Datanodes that are to hold nothing at the end.
    pub(crate) without: Vec<NodeId>,
    /// Tables without a key are to have as many rows on each of their datanodes.
    pub(crate) level: bool,
    /// Most rows a second.
    pub(crate) rate: Option<u32>,
}

/// What a coordinator looks for from time to time.
pub(crate) struct Look {
    /// Which datanodes there are, without the rest of the catalog.
    pub(crate) datanodes: Vec<Node>,
    /// What stands in the journal, if a rebalance is to go on.
    pub(crate) wanted: Option<Wanted>,
}

/// One request: every coordinator asks for it once a second.
pub(crate) async fn look(context: &Context) -> Result<Look> {
    let sql = "SELECT id, name, host, port, is_primary, is_preferred, without, rate, level \
               FROM loxo.node LEFT JOIN loxo.rebalance ON state OPERATOR(pg_catalog.=) 'running' \
               WHERE type OPERATOR(pg_catalog.=) 'D' ORDER BY id";
    let rows = context.query_as_service(context.home(), sql).await?;
    let node = |row: &Row| {
        Ok(Node {
            id: NodeId(number(row, 0)?),
            name: text(row, 1)?.to_owned(),
            host: text(row, 2)?.to_owned(),
            port: number(row, 3)?,
            primary: flag(row, 4)?,
            preferred: flag(row, 5)?,
        })
    };
    let datanodes = rows.iter().map(node).collect::<Result<_>>()?;
    let wanted = rows.first().map(|row| wanted(&row[6..])).transpose()?.flatten();
    Ok(Look { datanodes, wanted })
}

/// What stands in the journal, if a rebalance is to go on.
pub(crate) async fn read(context: &Context) -> Result<Option<Wanted>> {
    let sql = "SELECT without, rate, level FROM loxo.rebalance WHERE state OPERATOR(pg_catalog.=) 'running'";
    let rows = context.query_as_service(context.home(), sql).await?;
    rows.first().map(|row| wanted(row)).transpose().map(Option::flatten)
}

/// Reads a row's last fields; without the first, nothing is wanted.
fn wanted(fields: &[Option<Bytes>]) -> Result<Option<Wanted>> {
    let text = |at: usize| fields.get(at)?.as_deref().map(|v| String::from_utf8_lossy(v).into_owned());
    let Some(without) = text(0) else { return Ok(None) };
    let without = numbers::<u16>(Some(&without))?.into_iter().map(NodeId).collect();
    let rate = text(1).and_then(|rate| rate.parse().ok());
    Ok(Some(Wanted { without, level: text(2).as_deref() == Some("t"), rate }))
}

/// How many buckets have still to move. Nothing is written, nor flushed, if that is what the journal says already.
pub(crate) async fn note_rest(context: &Context, buckets: usize) -> Result<()> {
    let total = format!("buckets_done OPERATOR(pg_catalog.+) {buckets}");
    let sql = format!(
        "UPDATE loxo.rebalance SET buckets_total = {total} WHERE buckets_total OPERATOR(pg_catalog.<>) ({total})"
    );
    context.query_as_service(context.home(), &sql).await.map(drop)
}

/// How many rows have still to be levelled.
pub(crate) async fn note_surplus(context: &Context, rows: u64) -> Result<()> {
    let sql = format!("UPDATE loxo.rebalance SET rows_to_level = rows_levelled OPERATOR(pg_catalog.+) {rows}");
    context.query_as_service(context.home(), &sql).await.map(drop)
}

/// What one that has ended could not tidy up.
pub(crate) async fn note_left(context: &Context, message: &str) -> Result<()> {
    let sql = format!(
        "UPDATE loxo.rebalance SET message = pg_catalog.concat_ws('; ', message, {})",
        catalog::quote_literal(&format!("its indexes are left, and go with the next one: {message}"))
    );
    context.query_as_service(context.home(), &sql).await.map(drop)
}

/// What a rebalance waits for.
pub(crate) async fn note_wait(context: &Context, message: &str) -> Result<()> {
    let sql = format!(
        "UPDATE loxo.rebalance SET message = {} WHERE state OPERATOR(pg_catalog.=) 'running'",
        catalog::quote_literal(message)
    );
    context.query_as_service(context.home(), &sql).await.map(drop)
}

impl Session {
    /// Part of a step: counts if that is committed.
    pub(crate) async fn note_progress(&mut self, buckets: usize, passed: Passed) -> Result<()> {
        let Passed { rows, bytes, .. } = passed;
        let sql = format!(
            "UPDATE loxo.rebalance SET buckets_done = buckets_done OPERATOR(pg_catalog.+) {buckets}, \
             rows_moved = rows_moved OPERATOR(pg_catalog.+) {rows}, bytes_moved = bytes_moved OPERATOR(pg_catalog.+) {bytes}, \
             changed = pg_catalog.clock_timestamp(), message = NULL"
        );
        self.run_on(self.home, &sql).await.map(drop)
    }

    /// Notes the progress of rows that have no bucket; counts if the step is committed.
    pub(crate) async fn note_scattered(&mut self, passed: Passed, are_levelled: bool) -> Result<()> {
        self.note_progress(0, passed).await?;
        if !are_levelled {
            return Ok(());
        }
        let sql =
            format!("UPDATE loxo.rebalance SET rows_levelled = rows_levelled OPERATOR(pg_catalog.+) {}", passed.rows);
        self.run_on(self.home, &sql).await.map(drop)
    }

    /// `ALTER CLUSTER REBALANCE`: it is only written down here.
    pub(crate) async fn want_rebalance(&mut self, without: &[String], level: bool, rate: Option<u32>) -> Result<()> {
        self.require_superuser("ALTER CLUSTER REBALANCE").await?;
        let loaded = self.catalog().await?;
        let mut ids = Vec::new();
        for name in without {
            let node = loaded.catalog.node_by_name(name).ok_or_else(|| no_node(name))?;
            ids.push(node.id);
        }
        if loaded.catalog.nodes().iter().all(|node| ids.contains(&node.id)) {
            return Err(PgError::new(SqlState::OBJECT_IN_USE, "a cluster cannot do without all of its datanodes"));
        }
        refuse_last_copies(&loaded.catalog, &ids)?;
        let ids: Vec<String> = ids.iter().map(|id| id.0.to_string()).collect();
        let rate = rate.map_or_else(|| "NULL".to_owned(), |rate| rate.to_string());
        let sql = format!(
            "INSERT INTO loxo.rebalance (without, level, state, rate) VALUES ('{{{ids}}}', {level}, 'running', {rate}) \
             ON CONFLICT (one) DO UPDATE SET without = excluded.without, level = excluded.level, state = 'running', \
             rate = excluded.rate, buckets_total = 0, buckets_done = 0, rows_moved = 0, bytes_moved = 0, rows_to_level = 0, \
             rows_levelled = 0, started = pg_catalog.clock_timestamp(), \
             changed = pg_catalog.clock_timestamp(), idle = '0', message = NULL",
            ids = ids.join(",")
        );
        self.change_journal(&sql).await.map(drop)
    }

    /// `ALTER CLUSTER REBALANCE PAUSE | RESUME | CANCEL`.
    pub(crate) async fn control_rebalance(&mut self, control: RebalanceControl) -> Result<()> {
        self.require_superuser("ALTER CLUSTER REBALANCE").await?;
        // Since `changed` nothing has moved while it is paused or has failed.
        const NOW: &str = "changed = pg_catalog.clock_timestamp()";
        const RESUMED: &str = "changed = pg_catalog.clock_timestamp(), \
            idle = idle OPERATOR(pg_catalog.+) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) changed)";
        let (from, to, times) = match control {
            RebalanceControl::Pause => ("'running'", "paused", NOW),
            RebalanceControl::Resume => ("'paused', 'failed'", "running", RESUMED),
            RebalanceControl::Cancel => ("'running', 'paused', 'failed'", "cancelled", "changed = changed"),
        };
        let sql = format!(
            "UPDATE loxo.rebalance SET state = '{to}', {times}, message = NULL \
             WHERE state OPERATOR(pg_catalog.=) ANY (ARRAY[{from}])"
        );
        match self.change_journal(&sql).await?.as_deref() {
            Some("UPDATE 1") => Ok(()),
            _ => Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "there is no rebalance to do that to")
                .hint("SELECT * FROM pgxc_rebalance shows the last one.")),
        }
    }

    /// All coordinators are told, since sessions take care while buckets move.
    async fn change_journal(&mut self, sql: &str) -> Result<Option<String>> {
        let home = self.home;
        self.atomically(async |this| {
            this.raise_version().await?;
            let tag = this.run_on(home, sql).await?;
            this.schema_changed();
            Ok(tag)
        })
        .await
    }

    /// The end of a rebalance.
    pub(crate) async fn note_end(&mut self, state: &str, message: Option<&str>) -> Result<()> {
        let message = message.map_or_else(|| "NULL".to_owned(), catalog::quote_literal);
        let sql = format!(
            "UPDATE loxo.rebalance SET state = '{state}', message = {message}, changed = pg_catalog.clock_timestamp() \
             WHERE state OPERATOR(pg_catalog.=) 'running'"
        );
        self.change_journal(&sql).await.map(drop)
    }
}
