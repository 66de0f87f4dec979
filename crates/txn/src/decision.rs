//! Where the outcome of a distributed transaction is kept.
//!
//! The commit point inserts one row, the gid, into `loxo.decision` in its own transaction, before anyone is prepared. The
//! row is visible exactly if that transaction committed: the decision is an entry of PostgreSQL's commit log, and
//! the row makes it findable.
//!
//! Why the row, when `pg_xact_status(xid)` reads the commit log itself? Because a transaction id may be given out
//! **twice**. PostgreSQL does not log the handing out of an id; after a crash it goes on behind the highest id in the WAL
//! that reached the disk (`PerformWalRecovery`, `AdvanceNextFullTransactionIdPastXid`). A commit point that crashes
//! after the others are prepared, but before any WAL of its own was flushed, loses its id to whoever comes next, be
//! it autovacuum; that one commits, and `pg_xact_status` says `committed` of a transaction that never was. (A test
//! in `tests/recovery.rs` makes it happen.) So the id only tells whether the commit point is *still running*.
//!
//! A coordinator may announce a decision only under the generation that the node has (page [`crate::gtm`]), which is
//! checked in the same statement, under a lock that keeps fences away until the transaction ends.
//!
//! The rows are small (one insert in the same round trip that fetches the xid) and short-lived: recovery deletes them
//! once no node holds a prepared transaction of that gid ([`crate::recovery`]).

use std::time::Duration;

use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;
use tokio::time::Instant;

use crate::gid::{GID_VERSION, Gid, GidSource};
use crate::gtm::GtmClient;

/// Makes what this crate needs on a datanode, in the database of the tables; idempotent, to be run by a superuser.
pub const SCHEMA_SQL: &str = include_str!("../sql/schema.sql");

/// Key of the advisory lock between decisions (shared) and fences (exclusive): "loxo" in ASCII, and a number of its own.
pub(crate) const FENCE_LOCK: &str = "1819244655, 1";

/// How long a transaction waits for a gtm that registers its coordinator.
const REGISTRATION_MAX: Duration = Duration::from_secs(10);

/// What an announcement gives.
pub(crate) struct Announced {
    pub gid: Gid,
    /// Was the session's `synchronous_commit` too weak for a decision that others rely on? It is then put right for this
    /// transaction.
    pub hardened: bool,
}

/// Inserts the decision of a transaction on `node` and gives its gid, as soon as this coordinator may decide.
pub(crate) async fn announce(
    connection: &mut Connection,
    node: u16,
    ids: &GidSource,
    gtm: &GtmClient,
) -> Result<Announced> {
    let (coordinator, counter) = (ids.coordinator(), ids.next_counter());
    let insert = format!(
        "INSERT INTO loxo.decision (gid) SELECT pg_catalog.concat('loxo_{GID_VERSION}_{node}_', \
         pg_catalog.pg_current_xact_id(), '_{coordinator:016x}_{counter}') FROM loxo.generation WHERE last_value ="
    );
    let returning = "RETURNING pg_catalog.pg_current_xact_id(), \
         CASE WHEN pg_catalog.current_setting('synchronous_commit') IN ('off', 'local') \
         THEN pg_catalog.set_config('synchronous_commit', 'on', true) END";
    let rows = under_generation(connection, gtm, |generation| format!("{insert} {generation} {returning}")).await?;
    let [Some(xid), hardened] = rows.as_slice() else {
        return Err(PgError::internal("the commit point did not tell its transaction id"));
    };
    let xid = std::str::from_utf8(xid).ok().and_then(|text| text.parse().ok());
    let xid = xid.ok_or_else(|| PgError::internal("the commit point's transaction id is not a number"))?;
    Ok(Announced { gid: Gid { commit_point: node, xid, coordinator, counter }, hardened: hardened.is_some() })
}

/// Returns when the transaction may commit although this coordinator has no lease: no fence can come before its end.
pub(crate) async fn may_commit(connection: &mut Connection, gtm: &GtmClient) -> Result<()> {
    let sql = |generation| format!("SELECT last_value FROM loxo.generation WHERE last_value = {generation}");
    under_generation(connection, gtm, sql).await.map(drop)
}

/// Runs a statement that gives a row if the node has the generation which it names, until it does; gives the row. Fences
/// have to wait from then on until the transaction ends. While we wait for a newer generation they need not: that is what
/// the savepoint is for. Deferred constraints are checked before, since the commit's own check, in the gate, could wait for a row
/// whose owner waits at the gate.
async fn under_generation(
    connection: &mut Connection,
    gtm: &GtmClient,
    statement: impl Fn(u64) -> String,
) -> Result<Vec<Option<bytes::Bytes>>> {
    let deadline = Instant::now() + REGISTRATION_MAX;
    let mut generation = gtm.generation_above(0, deadline).await?;
    loop {
        let sql = format!(
            "SET CONSTRAINTS ALL IMMEDIATE; SAVEPOINT loxo_announcement; SELECT FROM pg_catalog.pg_advisory_xact_lock_shared({FENCE_LOCK}); {}",
            statement(generation)
        );
        let rows = connection.query_rows(&sql).await.map_err(explain)?;
        // The first row, without columns, is the lock's.
        if let Some(row) = rows.into_iter().nth(1) {
            return Ok(row);
        }
        connection.execute("ROLLBACK TO SAVEPOINT loxo_announcement").await?;
        generation = gtm.generation_above(generation, deadline).await?;
    }
}

fn explain(error: PgError) -> PgError {
    match error.code() {
        SqlState::UNDEFINED_TABLE => {
            error.hint("It is Loxodonta's own; `loxo init` makes it, and the gtm on datanodes of an earlier version.")
        }
        _ => error,
    }
}

/// What a commit point's node says about a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The decision is there.
    Committed,
    /// The transaction is over and there is no decision.
    Aborted,
    /// There is no decision, though the xid is that of a committed transaction. While anyone is still prepared under
    /// the gid this means aborted (the xid was given out again); otherwise the decision may have been cleaned up.
    NoDecision,
    /// Its transaction has not ended.
    InProgress,
}

/// Asks the commit point's node, in the database of the transaction. Two statements on purpose: the row is looked for with
/// a snapshot taken *after* the transaction was seen to be over, so a commit in between is not missed.
pub(crate) async fn fate(connection: &mut Connection, gid: &Gid) -> Result<Fate> {
    let status = match connection.query_rows(&format!("SELECT pg_catalog.pg_xact_status('{}')", gid.xid)).await {
        Ok(rows) => rows.into_iter().flatten().next().flatten(),
        // "transaction ID … is in the future": the node crashed and forgot that it ever gave it out. The transaction is over.
        Err(error) if error.code() == SqlState::INVALID_PARAMETER_VALUE => None,
        Err(error) => return Err(error),
    };
    if status.as_deref() == Some(b"in progress") {
        return Ok(Fate::InProgress);
    }
    // Errors, above all 42P01, go up: a node without the table is not the commit point's node as it was.
    let found = connection.query_rows(&format!("SELECT FROM loxo.decision WHERE gid = '{gid}' LIMIT 1")).await?;
    Ok(match (found.is_empty(), status.as_deref()) {
        (false, _) => Fate::Committed,
        (true, Some(b"committed")) => Fate::NoDecision,
        (true, _) => Fate::Aborted,
    })
}
