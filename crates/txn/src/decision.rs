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
//! The rows are small (one insert in the same round trip that fetches the xid) and short-lived: recovery deletes them
//! once no node holds a prepared transaction of that gid ([`crate::recovery`]).

use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;

use crate::gid::{GID_VERSION, Gid, GidSource, Kind};
use crate::user_prepared;

/// Makes what this crate needs on a datanode, in the database of the tables; idempotent, to be run by a superuser.
/// Anyone may add a decision, as anyone may commit; nobody but a superuser may read, change or delete one.
pub const SCHEMA_SQL: &str = "CREATE SCHEMA IF NOT EXISTS loxo; \
    CREATE TABLE IF NOT EXISTS loxo.decision (\
        gid text NOT NULL, at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()); \
    REVOKE ALL ON loxo.decision FROM PUBLIC; \
    GRANT USAGE ON SCHEMA loxo TO PUBLIC; \
    GRANT INSERT (gid) ON loxo.decision TO PUBLIC";

/// Inserts the decision of a transaction on `node` and gives its gid; also, whether the session's `synchronous_commit`
/// was too weak for a decision that others rely on. It is then put right for this transaction.
pub(crate) async fn announce(connection: &mut Connection, node: u16, ids: &GidSource) -> Result<(Gid, bool)> {
    let (coordinator, counter) = (ids.coordinator(), ids.next_counter());
    let sql = format!(
        "INSERT INTO loxo.decision (gid) SELECT pg_catalog.concat('loxo_{GID_VERSION}_{node}_', \
         pg_catalog.pg_current_xact_id(), '_{coordinator:016x}_{counter}') \
         RETURNING pg_catalog.pg_current_xact_id(), \
         CASE WHEN pg_catalog.current_setting('synchronous_commit') IN ('off', 'local') \
         THEN pg_catalog.set_config('synchronous_commit', 'on', true) END"
    );
    let rows = connection.query_rows(&sql).await.map_err(|error| match error.code() {
        SqlState::UNDEFINED_TABLE => error.hint("This table is Loxodonta's own; `loxo up` or `loxo init` makes it."),
        _ => error,
    })?;
    let first = rows.first().map(Vec::as_slice);
    let Some([Some(xid), hardened]) = first else {
        return Err(PgError::internal("the commit point did not tell its transaction id"));
    };
    let xid = std::str::from_utf8(xid).ok().and_then(|text| text.parse().ok());
    let xid = xid.ok_or_else(|| PgError::internal("the commit point's transaction id is not a number"))?;
    Ok((Gid { kind: Kind::Commit, commit_point: node, xid, coordinator, counter }, hardened.is_some()))
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
