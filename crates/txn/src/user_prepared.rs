//! Two-phase commit of users over several nodes: PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED.
//!
//! On each of its nodes the transaction is prepared under one gid of ours. What a user calls it, whose it is, where it
//! is prepared and how it is to end is one row of `loxo.prepared_transaction` on one node, the *registry* (the primary
//! datanode):
//!
//! ```text
//!                 registry (a transaction of its own)          nodes of the transaction
//! PREPARE         INSERT row, get xid ─ gid ─────────>         PREPARE TRANSACTION gid
//!                 COMMIT: from now on it is kept     <───      all prepared
//!
//! COMMIT          state = committing, COMMIT: decided ──>      INSERT gid INTO loxo.finishing
//! PREPARED                                           <───      all marked
//!                                                              COMMIT PREPARED gid
//!                 DELETE row                         <───      all committed
//! ```
//!
//! PREPARE TRANSACTION is thus a commit whose commit point is the registry: the gid names the registry's transaction, and the
//! argument of [`crate::recovery`] holds word for word, with "is kept" for "is committed". Likewise the row's state is the
//! decision how it ends, and any reader of it may carry it out.
//!
//! Why the marks? A session that has seen the transaction on one node must not be shown another one where it is still
//! prepared, so it waits there until it is gone ([`mod@crate::commit`]'s callers do). It must not wait for those that users
//! keep, and only the node itself can be asked without a further round trip: so each node is told, before the first one
//! commits, that this one is being finished.
//!
//! Invariants:
//! * No node commits or rolls back before the row's state says so, and the state never changes twice.
//! * No node commits before all nodes are marked.
//! * A row is deleted only when no node holds its gid any more.

use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;

use crate::commit::{self, Answer, CommitTools, FINISH_MAX, INQUIRY_MAX, Participant, RETRY_PAUSE};
use crate::control_point;
use crate::datanodes::Datanodes;
use crate::decision::{self, Fate, HARDEN};
use crate::gate::Pass;
use crate::gid::{GID_BYTES_MAX, Gid, GidSource, Kind};

/// Longest wait for another PREPARE under way that has registered the same name; in milliseconds.
const NAME_WAIT_MAX_MS: u32 = 50;

/// What a PREPARE TRANSACTION is registered as.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The user's name for it.
    pub name: String,
    /// The role that prepared it.
    pub owner: String,
    /// Database of the tables.
    pub database: String,
}

/// A transaction that is prepared under a user's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Under which it is prepared on its nodes.
    pub gid: Gid,
    /// Where it is prepared.
    pub nodes: Vec<u16>,
}

/// How it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum End {
    Commit,
    Rollback,
}

impl End {
    fn verb(self) -> &'static str {
        match self {
            End::Commit => "COMMIT",
            End::Rollback => "ROLLBACK",
        }
    }

    fn state(self) -> &'static str {
        match self {
            End::Commit => "committing",
            End::Rollback => "aborting",
        }
    }
}

/// Prepares the transaction on all participants or on none, and registers it at `registry`: a superuser's connection
/// outside a transaction, to node `registry_node`. Nothing becomes visible by it, so it needs no gate and no gtm.
///
/// Errors: 42710 if the name is in use; else as `commit`, with "prepared" for "committed". After any but 40003 the
/// transaction is rolled back.
pub async fn prepare<'c>(
    participants: &mut [Participant<'c>],
    registry: &'c mut Connection,
    registry_node: u16,
    registration: &Registration,
    tools: &CommitTools<'_>,
) -> Result<()> {
    if let Some(error) = participants.iter().find_map(commit::unfit) {
        commit::rollback(participants).await;
        return Err(error);
    }
    let at: Vec<u16> = participants.iter().map(|p| p.node).collect();
    let gid = match register(registry, registry_node, registration, &at, tools.ids).await {
        Ok(gid) => gid,
        Err(error) => {
            commit::roll_back_one(registry).await;
            commit::rollback(participants).await;
            return Err(error);
        }
    };
    control_point!("user-registered");
    let mut registry = Participant { node: registry_node, connection: registry, wrote: true, xid: None };
    let answers = join_all(participants.iter_mut().map(|p| prepare_one(p, &gid))).await;
    let is_prepared: Vec<bool> = answers.iter().map(|answer| matches!(answer, Answer::Done)).collect();
    if let Some(error) = commit::worst(at.into_iter().zip(answers)) {
        commit::abort(&mut registry, participants.iter_mut().zip(is_prepared), Some(&gid)).await;
        return Err(error);
    }
    control_point!("user-prepared-all");
    if let Err(error) = keep(&mut registry, &gid, tools.nodes).await {
        if error.code() != SqlState::STATEMENT_COMPLETION_UNKNOWN {
            commit::abort(&mut registry, participants.iter_mut().zip(is_prepared), Some(&gid)).await;
        }
        return Err(error);
    }
    control_point!("user-kept");
    Ok(())
}

/// Commits the row. 40003: nobody knows whether it is. Any other error: it is not.
async fn keep(registry: &mut Participant<'_>, gid: &Gid, nodes: &Datanodes) -> Result<()> {
    let node = registry.node;
    let error = match commit::command(registry.connection, "COMMIT", "COMMIT").await {
        Answer::Done => return Ok(()),
        Answer::Lost(error) => error,
        refused => return Err(refused.into_error(node)),
    };
    let unknown = || commit::unknown(node).hint("Look into pg_prepared_xacts before you repeat it.");
    let options = nodes.get(node).ok_or_else(unknown)?;
    match tokio::time::timeout(INQUIRY_MAX, commit::inquire(options, gid)).await {
        Ok(Fate::Kept | Fate::Committed) => Ok(()),
        Ok(Fate::Aborted) => Err(commit::lost(node, Some(error))),
        Ok(Fate::NoDecision | Fate::InProgress) | Err(_) => Err(unknown()),
    }
}

/// Inserts the row in a transaction that stays open.
async fn register(
    registry: &mut Connection,
    node: u16,
    registration: &Registration,
    at: &[u16],
    ids: &GidSource,
) -> Result<Gid> {
    let Registration { name, owner, database } = registration;
    if name.len() > GID_BYTES_MAX {
        let message = format!("transaction identifier \"{name}\" is too long");
        return Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let in_use = || {
        let message = format!("transaction identifier \"{name}\" is already in use");
        PgError::new(SqlState::DUPLICATE_OBJECT, message)
    };
    let (coordinator, counter) = (ids.coordinator(), ids.next_counter());
    let at: Vec<String> = at.iter().map(u16::to_string).collect();
    let (prefix, literal) = (Kind::User.prefix(), quote(name));
    let sql = format!(
        "INSERT INTO loxo.prepared_transaction (gid, name, owner, database, nodes) \
         SELECT pg_catalog.concat('{prefix}{node}_', pg_catalog.pg_current_xact_id(), '_{coordinator:016x}_{counter}'), \
         {literal}, {}, {}, '{{{}}}' \
         WHERE NOT EXISTS (SELECT FROM loxo.prepared_transaction WHERE name = {literal} AND state = 'prepared') RETURNING gid",
        quote(owner),
        quote(database),
        at.join(",")
    );
    begin(registry).await?;
    registry.execute(&format!("SET LOCAL lock_timeout = {NAME_WAIT_MAX_MS}")).await?;
    let rows = registry.query_rows(&sql).await.map_err(|error| match error.code() {
        SqlState::UNIQUE_VIOLATION | SqlState::LOCK_NOT_AVAILABLE => in_use(),
        SqlState::UNDEFINED_TABLE => error.hint("This table is Loxodonta's own; `loxo up` or `loxo init` makes it."),
        _ => error,
    })?;
    text(&rows, 0).ok_or_else(in_use)?.parse()
}

/// A transaction of our own on the registry, as durable as a decision must be.
async fn begin(registry: &mut Connection) -> Result<()> {
    registry.execute(&format!("BEGIN; {HARDEN}")).await.map(drop)
}

async fn prepare_one(participant: &mut Participant<'_>, gid: &Gid) -> Answer {
    let sql = format!("{HARDEN}; PREPARE TRANSACTION '{gid}'");
    let answer = commit::command(participant.connection, &sql, "PREPARE TRANSACTION").await;
    control_point!("user-prepared");
    answer
}

/// The transaction prepared under this name, if `role` may finish it.
///
/// Errors: 42704 if there is none, 42501 if it is somebody else's.
pub async fn find(registry: &mut Connection, name: &str, role: &str, is_superuser: bool) -> Result<Registered> {
    let sql = format!(
        "SELECT gid, owner, nodes FROM loxo.prepared_transaction WHERE name = {} AND state = 'prepared'",
        quote(name)
    );
    let rows = registry.query_rows(&sql).await?;
    let (Some(gid), Some(owner), Some(nodes)) = (text(&rows, 0), text(&rows, 1), text(&rows, 2)) else {
        return Err(missing(name));
    };
    if owner != role && !is_superuser {
        let error = PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied to finish prepared transaction");
        return Err(error.hint("Must be superuser or the user that prepared the transaction."));
    }
    Ok(Registered { gid: gid.parse()?, nodes: numbers(&nodes) })
}

/// An `int2[]` as text.
pub(crate) fn numbers(array: &str) -> Vec<u16> {
    array.trim_matches(['{', '}']).split(',').filter_map(|number| number.parse().ok()).collect()
}

fn missing(name: &str) -> PgError {
    let message = format!("prepared transaction with identifier \"{name}\" does not exist");
    PgError::new(SqlState::UNDEFINED_OBJECT, message)
}

/// Ends a prepared transaction on all its nodes. `participants` are superuser's connections to all of them, outside a
/// transaction, in the transaction's database. Gives the nodes that could not be told within 30 s; recovery does it.
///
/// A commit passes the gate from its decision on, since any reader of the decision may carry it out.
///
/// Errors: 42704 if somebody else was faster; 57P03 if this coordinator was fenced out (nothing is changed); 40003 if the
/// registry's answer was lost: recovery does what was decided.
pub async fn finish(
    transaction: &Registered,
    name: &str,
    end: End,
    registry: &mut Connection,
    participants: &mut [Participant<'_>],
    tools: &CommitTools<'_>,
) -> Result<Vec<u16>> {
    let gid = &transaction.gid;
    let pass = match decide(registry, transaction, name, end, tools).await {
        Ok(pass) => pass,
        Err(error) => {
            commit::roll_back_one(registry).await;
            return Err(error);
        }
    };
    control_point!("finish-decided");
    let (mark, finish) = (mark_sql(gid), format!("{} PREPARED '{gid}'", end.verb()));
    let mut unresolved = match end {
        End::Commit => on_all(participants, &mark, true).await,
        End::Rollback => Vec::new(),
    };
    control_point!("finish-marked");
    let is_marked = unresolved.is_empty();
    unresolved = match is_marked {
        true => on_all(participants, &finish, false).await,
        false => transaction.nodes.clone(),
    };
    if let Some(pass) = pass {
        pass.leave(&unresolved);
    }
    if !is_marked && !insist(&transaction.nodes, &mark, tools.nodes).await.is_empty() {
        return Ok(unresolved);
    }
    unresolved = insist(&unresolved, &finish, tools.nodes).await;
    control_point!("finish-done");
    if unresolved.is_empty() {
        // Should it fail, recovery does it.
        let _ = registry.execute(&forget_sql(gid)).await;
    }
    Ok(unresolved)
}

/// Writes into the row how it ends. A commit is then in the gate, and the coordinator one that no fence has shut out.
async fn decide(
    registry: &mut Connection,
    transaction: &Registered,
    name: &str,
    end: End,
    tools: &CommitTools<'_>,
) -> Result<Option<Pass>> {
    let gid = &transaction.gid;
    let sql = format!(
        "UPDATE loxo.prepared_transaction SET state = '{}' WHERE gid = '{gid}' AND state = 'prepared' RETURNING gid",
        end.state()
    );
    begin(registry).await?;
    if end == End::Commit {
        decision::may_commit(registry, tools).await?;
    }
    if registry.query_rows(&sql).await?.is_empty() {
        return Err(missing(name));
    }
    control_point!("finish-deciding");
    let pass = match end {
        End::Commit => {
            let pass = tools.interrupt.or_gate(tools.gtm.enter(&transaction.nodes, || tools.nodes)).await??;
            pass.expose(*gid, transaction.nodes.clone());
            Some(pass)
        }
        End::Rollback => None,
    };
    match commit::command(registry, "COMMIT", "COMMIT").await {
        Answer::Done => Ok(pass),
        Answer::Lost(_) => Err(commit::unknown(gid.commit_point)
            .hint("Look into pg_prepared_xacts: if the transaction is still there, repeat the command.")),
        refused => {
            if let Some(pass) = pass {
                pass.leave(&[]);
            }
            Err(refused.into_error(gid.commit_point))
        }
    }
}

/// Runs a command on all nodes at once; gives those where it could not be carried out.
async fn on_all(participants: &mut [Participant<'_>], sql: &str, is_mark: bool) -> Vec<u16> {
    let work = participants.iter_mut().map(|participant| async {
        if is_mark {
            control_point!("finish-mark");
        }
        if !is_mark {
            control_point!("finish-one");
        }
        let is_done = is_done(participant.connection.execute(sql).await);
        if !is_mark {
            control_point!("finished-one");
        }
        (!is_done).then_some(participant.node)
    });
    join_all(work).await.into_iter().flatten().collect()
}

/// Runs a command that must be carried out on new connections until it is, or the time is over; gives the nodes where it is not.
async fn insist(at: &[u16], sql: &str, nodes: &Datanodes) -> Vec<u16> {
    let work = at.iter().map(|node| async {
        let attempts = async {
            while let Some(options) = nodes.get(*node) {
                if let Ok(mut connection) = Connection::connect(options).await
                    && is_done(connection.execute(sql).await)
                {
                    return None;
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            Some(*node)
        };
        tokio::time::timeout(FINISH_MAX, attempts).await.unwrap_or(Some(*node))
    });
    join_all(work).await.into_iter().flatten().collect()
}

/// 42704: it is gone, so somebody has done it before us.
fn is_done<T>(result: Result<T>) -> bool {
    result.map_or_else(|error| error.code() == SqlState::UNDEFINED_OBJECT, |_| true)
}

/// Says on a node that this transaction is being committed.
pub(crate) fn mark_sql(gid: &Gid) -> String {
    format!("INSERT INTO loxo.finishing (gid) VALUES ('{gid}') ON CONFLICT DO NOTHING")
}

/// Deletes the row of a transaction that no node holds any more.
pub(crate) fn forget_sql(gid: &Gid) -> String {
    format!("DELETE FROM loxo.prepared_transaction WHERE gid = '{gid}' AND state <> 'prepared'")
}

/// What the registry says of a user's transaction; `None` if it has no row. A row that somebody is changing (its `xmax`
/// runs) is not decided yet.
pub(crate) async fn registered(registry: &mut Connection, gid: &Gid) -> Result<Option<Fate>> {
    let sql = format!(
        "SELECT state, CASE WHEN xmax <> '0'::xid THEN EXISTS (SELECT FROM pg_catalog.pg_locks AS l \
         WHERE l.locktype = 'transactionid' AND l.transactionid = t.xmax AND l.granted) ELSE false END \
         FROM loxo.prepared_transaction AS t WHERE gid = '{gid}'"
    );
    let rows = registry.query_rows(&sql).await?;
    let is_changing = text(&rows, 1).as_deref() == Some("t");
    Ok(text(&rows, 0).map(|state| match state.as_str() {
        "committing" => Fate::Committed,
        "aborting" => Fate::Aborted,
        _ if is_changing => Fate::InProgress,
        _ => Fate::Kept,
    }))
}

/// A value of the first row.
fn text(rows: &[Vec<Option<bytes::Bytes>>], column: usize) -> Option<String> {
    let value = rows.first()?.get(column)?.as_ref()?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// A string literal; right whatever `standard_conforming_strings` is.
fn quote(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    match doubled.contains('\\') {
        true => format!(" E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    }
}
