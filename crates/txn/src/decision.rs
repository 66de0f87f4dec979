//! Where the outcome of a distributed transaction is kept.
//!
//! The commit point inserts one row, the gid, into `loxo.decision` in its own transaction, while the others are being prepared. The
//! row is visible exactly if that transaction committed: the decision is an entry of PostgreSQL's commit log, and
//! the row makes it findable.
//!
//! Why the row, when `pg_xact_status(xid)` reads the commit log itself? Because a transaction id may be given out
//! **twice**. PostgreSQL does not log the handing out of an id; after a crash it goes on behind the highest id in the WAL
//! that reached the disk (`PerformWalRecovery`, `AdvanceNextFullTransactionIdPastXid`). A commit point that crashes
//! after the others are prepared, but before any WAL of its own was flushed, loses its id to the next transaction, be
//! it autovacuum; that one commits, and `pg_xact_status` says `committed` of a transaction that never was. (A test
//! in `tests/recovery.rs` makes it happen.) So the id only tells whether the commit point is *still running*.
//!
//! A coordinator may announce a decision only under the generation that the node has (page [`crate::gtm`]), which is
//! checked in the same statement, under a lock on `loxo.fence` that keeps fences away until the transaction ends.
//!
//! Nobody writes the table but `loxo.announce()`, which coordinators alone can call (page [`crate::seal`]) and which writes no
//! gid but one with the id of the transaction that calls it. So a gid is no secret.
//!
//! It need not be there before the others are prepared: as long as the commit point's transaction runs nobody ends them, and it ends
//! with the row or without. (While it waits for a newer generation they wait with it, [`REGISTRATION_MAX`] at most.)
//!
//! The rows are small (one insert, while the others are prepared) and short-lived: recovery deletes them
//! once no node holds a prepared transaction of that gid ([`crate::recovery`]).

use std::time::Duration;

use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;
use tokio::time::Instant;

use crate::commit::CommitTools;
use crate::control_point;
use crate::gid::{Gid, Kind};
use crate::{seal, user_prepared};

/// Makes what this crate needs on a datanode, in the database of the tables. To be run by a superuser, once.
pub const SCHEMA_SQL: &str = include_str!("../sql/schema.sql");

/// How schema `loxo` is laid out on a datanode, in `loxo.identity`: a coordinator works with its own layout only.
pub const LAYOUT: i32 = 12;

/// How long a transaction waits for a gtm that registers its coordinator.
const REGISTRATION_MAX: Duration = Duration::from_secs(10);

/// Others rely on what is prepared or decided: a session's weaker setting is put right for this transaction. One that a failover
/// to a synchronous standby forgets would break the promise of the others.
pub(crate) const HARDEN: &str = "SELECT pg_catalog.set_config('synchronous_commit', 'on', true) \
     WHERE pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) ANY ('{off,local}'::pg_catalog.text[])";

/// The id of the transaction that is open on a commit point.
pub(crate) async fn xid(connection: &mut Connection) -> Result<u64> {
    let rows = connection.query_rows("SELECT pg_catalog.pg_current_xact_id()").await?;
    let xid = rows.first().and_then(|row| std::str::from_utf8(row.first()?.as_ref()?).ok()?.parse().ok());
    xid.ok_or_else(|| PgError::internal("the commit point did not tell its transaction id"))
}

/// Inserts the decision that is called `gid` at its commit point, as soon as this coordinator may decide.
pub(crate) async fn announce(connection: &mut Connection, gid: &Gid, tools: &CommitTools<'_>) -> Result<()> {
    let Gid { commit_point, xid, coordinator, counter, .. } = *gid;
    // PostgreSQL's bigint has a sign; the bits are the same.
    let bits = coordinator as i64;
    let announced = |generation| {
        format!(
            "SELECT xid OPERATOR(pg_catalog.=) '{xid}', ({HARDEN}) \
             FROM loxo.announce($1, {commit_point}::pg_catalog.int2, '{bits}'::pg_catalog.int8, {counter}, {generation}) AS xid \
             WHERE xid IS NOT NULL"
        )
    };
    let row = under_generation(connection, tools, "announce", announced).await?;
    control_point!("announced");
    match row.first() {
        Some(Some(is_ours)) if is_ours.as_ref() == b"t" => Ok(()),
        _ => Err(PgError::internal("the commit point is in another transaction than it said")),
    }
}

/// Returns when the transaction may commit although this coordinator has no lease: no fence can come before its end.
pub(crate) async fn may_commit(connection: &mut Connection, tools: &CommitTools<'_>) -> Result<()> {
    let sql = |generation: u64| format!("SELECT WHERE loxo.may_commit($1, {generation})");
    under_generation(connection, tools, "may_commit", sql).await.map(drop)
}

/// Runs a statement with a call of this function, which gives a row if the node has the generation which it names, until it does;
/// gives the row. Fences have to wait from then on until the transaction ends. While we wait for a newer generation they need not:
/// that is what the savepoint is for. Deferred constraints are checked before, since the commit's own check, in the gate, could wait for a row
/// whose owner waits at the gate.
async fn under_generation(
    connection: &mut Connection,
    tools: &CommitTools<'_>,
    function: &str,
    statement: impl Fn(u64) -> String,
) -> Result<Vec<Option<bytes::Bytes>>> {
    let deadline = Instant::now() + REGISTRATION_MAX;
    let newer = |known| tools.interrupt.or(tools.gtm.generation_above(known, deadline));
    let mut generation = newer(0).await??;
    loop {
        connection.query(b"SET CONSTRAINTS ALL IMMEDIATE; SAVEPOINT loxo_announcement");
        tools.seal.queue(connection, function, &statement(generation));
        connection.flush().await?;
        let checked = connection.read_rows().await;
        let answer = seal::answer(connection).await;
        checked?;
        let rows = answer.map_err(explain)?;
        if let Some(row) = rows.into_iter().next() {
            return Ok(row);
        }
        connection.execute("ROLLBACK TO SAVEPOINT loxo_announcement").await?;
        generation = newer(generation).await??;
    }
}

fn explain(error: PgError) -> PgError {
    match error.code() {
        SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_FUNCTION => {
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
    /// A user prepared it and has not yet said how it ends.
    Kept,
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
    let decided = match gid.kind {
        Kind::Commit => {
            let sql = format!("SELECT FROM loxo.decision WHERE gid = '{gid}' LIMIT 1");
            (!connection.query_rows(&sql).await?.is_empty()).then_some(Fate::Committed)
        }
        Kind::User => user_prepared::registered(connection, gid).await?,
    };
    Ok(decided.unwrap_or(match status.as_deref() {
        Some(b"committed") => Fate::NoDecision,
        _ => Fate::Aborted,
    }))
}
