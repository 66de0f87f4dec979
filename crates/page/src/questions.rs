//! What the page asks, in SQL that any role may send: it sees what PostgreSQL's views show to it.
//!
//! Each statement has a LIMIT, and runs under `search_path = pg_catalog, pg_temp`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Failure, Link};
use crate::plan;
use crate::sessions::{Session, Trouble};

/// A statement that fails after so long has waited for a datanode: the next one would, too.
const PROMPT: Duration = Duration::from_secs(3);
/// No further statement of a question is sent after this time, so that its answer comes before its connection is closed.
const QUESTION_MAX: Duration = Duration::from_secs(15);

/// The sessions of all coordinators, but the page's own; the one that has worked longest comes first.
const SESSIONS: &str = "
SELECT a.pid, a.datname, a.usename, a.application_name, a.client_addr, a.state, a.wait_event_type, a.wait_event,
    round(extract(epoch FROM clock_timestamp() - a.query_start), 1) AS seconds,
    round(extract(epoch FROM clock_timestamp() - a.xact_start), 1) AS block_seconds,
    pg_blocking_pids(a.pid)::text AS blocked_by, left(a.query, 2000) AS query
FROM pg_stat_activity AS a
WHERE a.pid <> pg_backend_pid()
ORDER BY a.state = 'idle', a.query_start
LIMIT 300";

/// Rows of COPY that are stored and not yet in the statistics of the database, beside those that are.
const NODES: &str = "
SELECT n.oid::int8 - 4000000000 AS id, n.node_name, n.node_type, n.node_host, n.node_port, n.nodeis_primary,
    s.backends, s.commits, s.written, c.rows AS copying
FROM pgxc_node AS n
LEFT JOIN (
    SELECT node, sum(numbackends) AS backends, sum(xact_commit) AS commits,
        sum(tup_inserted + tup_updated + tup_deleted) AS written
    FROM loxo_node_pg_stat_database GROUP BY node) AS s ON s.node = n.node_name
LEFT JOIN (
    SELECT node, sum(tuples_processed) AS rows
    FROM loxo_node_pg_stat_progress_copy WHERE command = 'COPY FROM' GROUP BY node) AS c ON c.node = n.node_name
ORDER BY n.node_type DESC, n.oid
LIMIT 1000";

/// The nodes while a datanode does not answer.
const NODES_KNOWN: &str = "
SELECT n.oid::int8 - 4000000000 AS id, n.node_name, n.node_type, n.node_host, n.node_port, n.nodeis_primary,
    NULL AS backends, NULL AS commits, NULL AS written, NULL AS copying
FROM pgxc_node AS n ORDER BY n.node_type DESC, n.oid LIMIT 1000";

/// COPYs that run, over all datanodes.
const COPIES: &str = "
SELECT pid, command, relid::regclass::text AS relation, count(*) AS nodes, sum(tuples_processed) AS rows,
    sum(bytes_processed) AS bytes, sum(bytes_total) AS bytes_total
FROM pg_stat_progress_copy
GROUP BY pid, command, relid ORDER BY pid LIMIT 100";

/// Other work that tells how far it is, over all datanodes.
const UPKEEP: &str = "
SELECT w.pid, w.command, w.relation, w.phase, w.done, w.total
FROM (
    SELECT pid, 'VACUUM' AS command, relid::regclass::text AS relation, min(phase) AS phase,
        sum(heap_blks_scanned) AS done, sum(heap_blks_total) AS total
    FROM pg_stat_progress_vacuum GROUP BY pid, relid
    UNION ALL SELECT pid, 'ANALYZE', relid::regclass::text, min(phase), sum(sample_blks_scanned), sum(sample_blks_total)
    FROM pg_stat_progress_analyze GROUP BY pid, relid
    UNION ALL SELECT pid, command, relid::regclass::text, min(phase), sum(blocks_done), sum(blocks_total)
    FROM pg_stat_progress_create_index GROUP BY pid, command, relid
    UNION ALL SELECT pid, command, relid::regclass::text, min(phase), sum(heap_blks_scanned), sum(heap_blks_total)
    FROM pg_stat_progress_cluster GROUP BY pid, command, relid) AS w
ORDER BY w.pid LIMIT 100";

/// Bucket maps, and how many tables use each.
const MAPS: &str = "
SELECT m.id, array_to_string(m.nodes, ',') AS nodes,
    (SELECT count(*) FROM loxo.class AS c WHERE c.map_id = m.id) AS tables
FROM loxo.bucket_map AS m ORDER BY m.id LIMIT 8";

/// Names of the numbers in a bucket map.
const NODE_IDS: &str = "SELECT id, name FROM loxo.node WHERE type = 'D' ORDER BY id LIMIT 1000";

/// The last move of buckets.
const REBALANCE: &str = "SELECT * FROM pgxc_rebalance LIMIT 1";

/// The most uneven tables.
const SKEW: &str = "SELECT * FROM loxo_table_skew ORDER BY skew DESC NULLS LAST LIMIT 20";

/// May the role see the statements of others? As `pg_stat_activity` has it.
const SEES_ALL: &str = "SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS one";

/// The roles whose statements it may see if not everybody's: those whose rights it has.
const SEES: &str = "
SELECT rolname, pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all
FROM pg_roles WHERE pg_has_role(oid, 'USAGE') LIMIT 10000";

/// What one request wants to know, or to have done.
pub(crate) enum Question {
    /// What changes each second.
    Now,
    /// What changes seldom.
    Map,
    /// The roles whose statements the role may see.
    Sees,
    /// Cancels a statement, or ends its session.
    Signal { pid: i32, ends: bool },
    /// EXPLAIN of a text.
    Plan(String),
}

impl Question {
    /// Has it answered. The session's connection is taken for each statement anew, so that a signal waits for one, not for all.
    pub(crate) async fn ask(self, session: &Session) -> Result<Value, Trouble> {
        match self {
            Question::Now => {
                // The sessions first: while a datanode hangs they tell which.
                let now = [("sessions", SESSIONS), ("nodes", NODES), ("copies", COPIES), ("upkeep", UPKEEP)];
                let mut parts = parts(session, &now).await?;
                if parts["nodes"]["rows"].is_null() {
                    parts["nodes"]["rows"] = part(session, NODES_KNOWN).await?.0["rows"].take();
                }
                Ok(parts)
            }
            Question::Map => {
                let map = [("ids", NODE_IDS), ("maps", MAPS), ("rebalance", REBALANCE), ("skew", SKEW)];
                parts(session, &map).await
            }
            Question::Sees => {
                let turn = session.turn().await?;
                let rows = turn.run(turn.link.rows(SEES)).await?;
                let is_all = |row: &serde_json::Map<String, Value>| row.get("sees_all").is_some_and(|all| all == "t");
                let roles = rows.iter().filter_map(|row| row.get("rolname")).collect::<Vec<_>>();
                Ok(json!({ "all": rows.iter().any(is_all), "roles": roles }))
            }
            Question::Signal { pid, ends } => {
                let function = if ends { "pg_terminate_backend" } else { "pg_cancel_backend" };
                let turn = session.turn().await?;
                let sql = format!("SELECT {function}({pid}) AS one");
                Ok(json!({ "done": turn.run(is_true(&turn.link, &sql)).await? }))
            }
            Question::Plan(text) => {
                let turn = session.turn().await?;
                Ok(json!({ "plan": turn.run(plan::explain(&turn.link.client, &text)).await? }))
            }
        }
    }
}

/// The answers to several, until one has waited in vain: its error is that of the others, too.
async fn parts(session: &Session, questions: &[(&str, &str)]) -> Result<Value, Trouble> {
    let begun = Instant::now();
    let mut parts = serde_json::Map::new();
    let mut stopped: Option<Failure> = None;
    for (name, sql) in questions {
        if stopped.is_none() && begun.elapsed() > QUESTION_MAX {
            stopped = Some(Failure::new("57014", "the statements of the page take too long"));
        }
        let part = match &stopped {
            Some(failure) => json!({ "error": failure }),
            None => {
                let (part, vain) = part(session, sql).await?;
                stopped = vain;
                part
            }
        };
        parts.insert((*name).to_owned(), part);
    }
    Ok(Value::Object(parts))
}

/// Rows and warnings, or why there are none: what fails at once, say for a node that is down, leaves the other parts as they are.
/// The error once more if it has waited in vain.
async fn part(session: &Session, sql: &str) -> Result<(Value, Option<Failure>), Trouble> {
    let turn = session.turn().await?;
    let begun = Instant::now();
    turn.link.take_notices();
    match turn.run(turn.link.rows(sql)).await {
        Ok(rows) => Ok((json!({ "rows": rows, "notices": turn.link.take_notices() }), None)),
        Err(Trouble::Failed(failure)) => {
            let part = json!({ "error": failure });
            let is_vain = failure.code == "57014" || begun.elapsed() > PROMPT;
            Ok((part, is_vain.then_some(failure)))
        }
        Err(Trouble::Over) => Err(Trouble::Over),
    }
}

/// May the role see the statements of others?
pub(crate) async fn sees_all(link: &Link) -> Result<bool, Failure> {
    is_true(link, SEES_ALL).await
}

async fn is_true(link: &Link, sql: &str) -> Result<bool, Failure> {
    Ok(link.rows(sql).await?.first().is_some_and(|row| row.get("one").and_then(Value::as_str) == Some("t")))
}
