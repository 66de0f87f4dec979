//! Commit and rollback of one transaction on all the datanodes it touched.
//!
//! ```text
//!              commit point                      other writers                     readers
//!              INSERT decision                   PREPARE TRANSACTION gid           COMMIT
//!  gate ──────────────────────────────────────────────────────────────────
//!              COMMIT  (the decision)       <─── all prepared
//!                                                COMMIT PREPARED gid
//!  ────────────────────────────────────────────────────────────────────────
//! ```
//!
//! Each row of the picture runs on all its nodes at once; the gid names the transaction at the commit point, whose id is known
//! before ([`Participant::xid`]). With one writer there is only its COMMIT, as on one PostgreSQL, in
//! the gate ([`crate::gate`]) too. A commit that loses a node leaves the gate, by way of a report to the gtm, before it tries further.
//! A PREPARE in a failed transaction, or outside of one, gives no error but the tag `ROLLBACK`, so tags are checked.

use std::time::Duration;

use futures_util::future::{join, join_all};
use pgerror::{PgError, Result, SqlState, field};
use pgproto::backend::{self, tag};
use pgproto::{ConnectOptions, Connection, TransactionStatus};

use crate::control_point;
use crate::datanodes::Datanodes;
use crate::decision::{self, Fate, HARDEN};
use crate::figures;
use crate::gate::Pass;
use crate::gid::{Gid, GidSource, Kind};
use crate::gtm::GtmClient;
use crate::interrupt::Interrupt;
use crate::seal::Seal;

/// How long a commit asks for the outcome when the commit point's answer is lost, before it gives up with 40003.
pub(crate) const INQUIRY_MAX: Duration = Duration::from_secs(10);
/// How long a commit tries to finish a participant whose connection broke, before it leaves it to recovery.
pub(crate) const FINISH_MAX: Duration = Duration::from_secs(30);
/// Between two tries of either.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A datanode that the transaction has touched.
pub struct Participant<'a> {
    /// Its node id.
    pub node: u16,
    /// The session's connection in the transaction, all answers read.
    pub connection: &'a mut Connection,
    /// Has the transaction written here, or taken locks that only a writer takes (row locks, advisory locks, LOCK TABLE)? If
    /// false, this node's transaction may end before the decision.
    pub wrote: bool,
    /// Its `pg_current_xact_id()`, if that has been asked for; a commit point is asked for it otherwise.
    pub xid: Option<u64>,
}

/// What a commit needs beside its participants.
#[derive(Clone, Copy)]
pub struct CommitTools<'a> {
    /// Ids of this coordinator's transactions.
    pub ids: &'a GidSource,
    /// The datanodes, in the transaction's database, for asking again on a new connection when one breaks.
    pub nodes: &'a Datanodes,
    /// Its gate.
    pub gtm: &'a GtmClient,
    /// Proves to datanodes that a coordinator commits.
    pub seal: &'a Seal,
    /// Ends the waits before the decision.
    pub interrupt: &'a Interrupt,
}

/// How a commit ended, when that is known.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// False if the transaction had failed before, so that COMMIT rolled it back (PostgreSQL's tag is then `ROLLBACK`).
    pub committed: bool,
    /// Nodes that could not be told within 30 s that the transaction is committed. Recovery does it when they are
    /// back; until then they do not show it. Worth a WARNING to the client.
    pub unresolved: Vec<u16>,
}

/// Commits on all participants or on none. `commit_point` is the index of the participant to decide if it wrote (else the
/// first writer is); it alone may have used temporary objects. Deferred constraints are better checked before, on all nodes:
/// here the check may wait for rows of a transaction that waits for this one, prepared somewhere or at the gate, which takes
/// [`crate::gate::HOLD`] or more to end.
///
/// Errors: the datanode's own error if it refused (everything is then rolled back); 08006 if a connection broke before
/// the decision (rolled back); that of an interrupt before the decision (rolled back); 57P03 if this coordinator was fenced out and no gtm has registered it since (rolled back); 40003
/// if the commit point's answer was lost and the outcome could not be found out (recovery completes it either way).
pub async fn commit(
    participants: &mut [Participant<'_>],
    commit_point: usize,
    tools: &CommitTools<'_>,
) -> Result<Outcome> {
    if participants.iter().any(|p| p.connection.status() == TransactionStatus::Failed) {
        rollback(participants).await;
        return Ok(Outcome { committed: false, unresolved: Vec::new() });
    }
    if let Some(error) = participants.iter().find_map(unfit) {
        rollback(participants).await;
        return Err(error);
    }
    let (decider, others, readers) = cast(participants, commit_point);
    let readers = join_all(readers.into_iter().map(end_snapshot));
    let Some(decider) = decider else {
        readers.await;
        figures::READ_ONLY.count();
        return Ok(Outcome { committed: true, unresolved: Vec::new() });
    };
    match others.is_empty() {
        true => join(commit_one(decider, tools), readers).await.0,
        false => join(commit_several(decider, others, tools), readers).await.0,
    }
}

/// Rolls back on all participants; connections that cannot be used any more are left broken (their server rolls back by
/// itself). A statement that still runs is waited for: cancel it first.
pub async fn rollback(participants: &mut [Participant<'_>]) {
    join_all(participants.iter_mut().map(|p| roll_back_one(p.connection))).await;
}

/// Why this writer cannot commit, known without asking it.
pub(crate) fn unfit(participant: &Participant<'_>) -> Option<PgError> {
    let Participant { node, connection, wrote, .. } = participant;
    if !wrote {
        return None;
    }
    if connection.is_broken() {
        return Some(lost(*node, None));
    }
    let open = connection.is_drained() && connection.status() == TransactionStatus::InTransaction;
    (!open).then(|| PgError::internal(format!("there is no transaction to commit on datanode {node}")))
}

type Cast<'p, 'c> = (Option<&'p mut Participant<'c>>, Vec<&'p mut Participant<'c>>, Vec<&'p mut Participant<'c>>);

/// The participant that decides, those that are prepared, those that only end a snapshot.
fn cast<'p, 'c>(participants: &'p mut [Participant<'c>], commit_point: usize) -> Cast<'p, 'c> {
    let decides = match participants.get(commit_point) {
        Some(p) if p.wrote => Some(commit_point),
        _ => participants.iter().position(|p| p.wrote),
    };
    let (mut decider, mut others, mut readers) = (None, Vec::new(), Vec::new());
    for (index, participant) in participants.iter_mut().enumerate() {
        match (participant.wrote, Some(index) == decides) {
            (_, true) => decider = Some(participant),
            (true, false) => others.push(participant),
            (false, false) => readers.push(participant),
        }
    }
    (decider, others, readers)
}

/// A reader's failure changes nothing: it has nothing to commit.
async fn end_snapshot(reader: &mut Participant<'_>) {
    let connection = &mut *reader.connection;
    if !connection.is_broken() && connection.is_drained() && connection.status() != TransactionStatus::Idle {
        let _ = command(connection, "COMMIT", "COMMIT").await;
    }
}

async fn commit_one(writer: &mut Participant<'_>, tools: &CommitTools<'_>) -> Result<Outcome> {
    let pass = match pass_for_one(writer, tools).await {
        Ok(pass) => pass,
        Err(error) => {
            roll_back_one(writer.connection).await;
            return Err(error);
        }
    };
    control_point!("gate-entered");
    if let Some(error) = writer.connection.last_words() {
        return Err(ended_before(error));
    }
    let answer = command(writer.connection, "COMMIT", "COMMIT").await;
    drop(pass);
    match answer {
        Answer::Done => {
            figures::ONE_NODE.count();
            Ok(Outcome { committed: true, unresolved: Vec::new() })
        }
        // It was said before COMMIT was read.
        Answer::Lost(error) if error.code() == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => {
            Err(ended_before(error))
        }
        Answer::Lost(_) => Err(unknown(writer.node)),
        refused => {
            roll_back_one(writer.connection).await;
            Err(refused.into_error(writer.node))
        }
    }
}

/// The error of a transaction whose session the server had ended when it was to be committed: it is rolled back.
fn ended_before(error: PgError) -> PgError {
    error
        .with(field::SEVERITY, &b"ERROR"[..])
        .with(field::SEVERITY_LOCALIZED, &b"ERROR"[..])
        .detail("The datanode had ended the session before the transaction was committed: it is rolled back.")
}

/// A pass while a gtm counts on this coordinator's gate, or else one that no fence has made worthless.
async fn pass_for_one(writer: &mut Participant<'_>, tools: &CommitTools<'_>) -> Result<Pass> {
    let gtm = tools.gtm;
    let mut is_checked = false;
    loop {
        if !is_checked && !gtm.has_lease() {
            decision::may_commit(writer.connection, tools).await?;
            is_checked = true;
        }
        let pass = tools.interrupt.or_gate(gtm.enter(&[writer.node], || tools.nodes)).await??;
        // The lease may have ended in the queue; the check must not be made inside, where it could wait for long.
        if is_checked || gtm.has_lease() {
            return Ok(pass);
        }
    }
}

async fn commit_several<'c>(
    decider: &mut Participant<'c>,
    mut others: Vec<&mut Participant<'c>>,
    tools: &CommitTools<'_>,
) -> Result<Outcome> {
    let gid = match name(decider, tools).await {
        Ok(gid) => gid,
        Err(error) => {
            abort(decider, others.into_iter().map(|p| (p, false)), None).await;
            return Err(error);
        }
    };
    control_point!("before-prepare");
    let nodes_of_others: Vec<u16> = others.iter().map(|p| p.node).collect();
    let announced = decision::announce(decider.connection, &gid, tools);
    let (announced, answers) = join(announced, join_all(others.iter_mut().map(|p| prepare(p, &gid)))).await;
    let is_prepared: Vec<bool> = answers.iter().map(|answer| matches!(answer, Answer::Done)).collect();
    if let Some(error) = announced.err().or_else(|| worst(nodes_of_others.iter().copied().zip(answers))) {
        abort(decider, others.into_iter().zip(is_prepared), Some(&gid)).await;
        return Err(error);
    }
    figures::PREPARED.count();
    control_point!("prepared-all");
    let writers: Vec<u16> = nodes_of_others.iter().copied().chain([decider.node]).collect();
    let pass =
        match tools.interrupt.or_gate(tools.gtm.enter(&writers, || tools.nodes)).await.and_then(|entered| entered) {
            Ok(pass) => pass,
            Err(error) => {
                abort(decider, others.into_iter().zip(is_prepared), Some(&gid)).await;
                return Err(error);
            }
        };
    pass.expose(gid, writers);
    control_point!("gate-entered");
    let pass = match decide(decider, &gid, tools.nodes, pass).await {
        Ok(pass) => pass,
        Err(error) => {
            if error.code() != SqlState::STATEMENT_COMPLETION_UNKNOWN {
                abort(decider, others.into_iter().zip(is_prepared), Some(&gid)).await;
            }
            return Err(error);
        }
    };
    figures::DECIDED.count();
    control_point!("decided");
    let finished = join_all(others.into_iter().map(|p| commit_prepared(p, &gid))).await;
    let mut unresolved: Vec<u16> = finished.into_iter().flatten().collect();
    if let Some(pass) = pass {
        pass.leave(&unresolved);
    }
    let retried = unresolved.iter().map(|node| commit_prepared_elsewhere(*node, tools.nodes, &gid));
    unresolved = join_all(retried).await.into_iter().flatten().collect();
    if unresolved.is_empty() {
        figures::FINISHED.count()
    } else {
        figures::UNRESOLVED.count()
    }
    control_point!("done");
    Ok(Outcome { committed: true, unresolved })
}

/// A name for the transaction that `decider` decides.
async fn name(decider: &mut Participant<'_>, tools: &CommitTools<'_>) -> Result<Gid> {
    let xid = match decider.xid {
        Some(xid) => xid,
        None => decision::xid(decider.connection).await?,
    };
    let (coordinator, counter) = (tools.ids.coordinator(), tools.ids.next_counter());
    Ok(Gid { kind: Kind::Commit, commit_point: decider.node, xid, coordinator, counter })
}

async fn prepare(participant: &mut Participant<'_>, gid: &Gid) -> Answer {
    let sql = format!("{HARDEN}; PREPARE TRANSACTION '{gid}'");
    let answer = command(participant.connection, &sql, "PREPARE TRANSACTION").await;
    control_point!("prepared");
    answer
}

/// The error to report for these answers, if not all of them are `Done`: a datanode's own words before a broken connection.
pub(crate) fn worst(answers: impl Iterator<Item = (u16, Answer)>) -> Option<PgError> {
    let failures = answers.filter(|(_, answer)| !matches!(answer, Answer::Done));
    let first = failures.min_by_key(|(_, answer)| !matches!(answer, Answer::Refused(_)))?;
    Some(first.1.into_error(first.0))
}

/// Commits at the commit point. Ok: it is committed, and still in the gate unless that took too long. 40003: nobody knows
/// yet. Any other error: it is aborted.
async fn decide(decider: &mut Participant<'_>, gid: &Gid, nodes: &Datanodes, pass: Pass) -> Result<Option<Pass>> {
    let error = match command(decider.connection, "COMMIT", "COMMIT").await {
        Answer::Done => return Ok(Some(pass)),
        Answer::Lost(error) => error,
        refused => {
            pass.leave(&[]);
            return Err(refused.into_error(decider.node));
        }
    };
    // With a report, since it may become visible at any moment.
    drop(pass);
    let unknown = || unknown(decider.node);
    let options = nodes.get(decider.node).ok_or_else(unknown)?;
    match tokio::time::timeout(INQUIRY_MAX, inquire(options, gid)).await {
        Ok(Fate::Committed) => Ok(None),
        Ok(Fate::Aborted) => Err(lost(decider.node, Some(error))),
        Ok(Fate::NoDecision | Fate::InProgress | Fate::Kept) | Err(_) => Err(unknown()),
    }
}

/// Asks until there is an answer; the caller bounds it.
pub(crate) async fn inquire(options: &ConnectOptions, gid: &Gid) -> Fate {
    loop {
        if let Ok(mut connection) = Connection::connect(options).await {
            while let Ok(fate) = decision::fate(&mut connection, gid).await {
                if fate != Fate::InProgress {
                    return fate;
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

/// Undoes an undecided transaction. A participant whose PREPARE got no answer is left to recovery: it may become prepared
/// after we have looked.
pub(crate) async fn abort<'p, 'c: 'p>(
    decider: &mut Participant<'c>,
    others: impl Iterator<Item = (&'p mut Participant<'c>, bool)>,
    gid: Option<&Gid>,
) {
    let undo = |participant: &'p mut Participant<'c>, is_prepared: bool| async move {
        if let (Some(gid), true) = (gid, is_prepared) {
            let _ = command(participant.connection, &format!("ROLLBACK PREPARED '{gid}'"), "ROLLBACK PREPARED").await;
        }
        roll_back_one(participant.connection).await;
    };
    join(roll_back_one(decider.connection), join_all(others.map(|(p, is_prepared)| undo(p, is_prepared)))).await;
}

/// After the decision: gives the node id if it could not be told.
async fn commit_prepared(participant: &mut Participant<'_>, gid: &Gid) -> Option<u16> {
    control_point!("before-commit-prepared");
    let sql = format!("COMMIT PREPARED '{gid}'");
    let done = is_resolved(command(participant.connection, &sql, "COMMIT PREPARED").await);
    control_point!("after-commit-prepared");
    (!done).then_some(participant.node)
}

/// On new connections, until it is done or the time is over; then it gives the node id.
async fn commit_prepared_elsewhere(node: u16, nodes: &Datanodes, gid: &Gid) -> Option<u16> {
    let options = nodes.get(node);
    let sql = format!("COMMIT PREPARED '{gid}'");
    let attempts = async {
        while let Some(options) = options {
            if let Ok(mut connection) = Connection::connect(options).await
                && is_resolved(command(&mut connection, &sql, "COMMIT PREPARED").await)
            {
                return None;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        Some(node)
    };
    tokio::time::timeout(FINISH_MAX, attempts).await.unwrap_or(Some(node))
}

/// Is the prepared transaction committed? 42704 says that it is gone: after the decision only a commit can have ended it.
fn is_resolved(answer: Answer) -> bool {
    match answer {
        Answer::Done => true,
        Answer::Refused(error) => error.code() == SqlState::UNDEFINED_OBJECT,
        Answer::Lost(_) | Answer::Other(_) => false,
    }
}

pub(crate) async fn roll_back_one(connection: &mut Connection) {
    if !connection.is_drained() && !connection.is_broken() {
        let _ = connection.drain().await;
    }
    if !connection.is_broken() && connection.status() != TransactionStatus::Idle {
        let _ = command(connection, "ROLLBACK", "ROLLBACK").await;
    }
}

/// What came back for a transaction command.
pub(crate) enum Answer {
    /// It was done: the expected tag came.
    Done,
    /// The server said no, and lives.
    Refused(PgError),
    /// Another command tag.
    Other(String),
    /// The connection broke, or the server ended it, before the tag came. It may or may not have been done.
    Lost(PgError),
}

impl Answer {
    pub(crate) fn into_error(self, node: u16) -> PgError {
        match self {
            Answer::Refused(error) => error,
            Answer::Lost(error) => lost(node, Some(error)),
            Answer::Other(tag) => PgError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                format!("the transaction had failed on datanode {node}"),
            )
            .detail(format!("The datanode answered {tag}; the transaction is rolled back on all nodes.")),
            Answer::Done => PgError::internal("a successful answer was taken for a failure"),
        }
    }
}

/// Runs one transaction command. Unlike [`Connection::execute`], a tag that came before the connection broke counts.
pub(crate) async fn command(connection: &mut Connection, sql: &str, expected: &str) -> Answer {
    connection.query(sql.as_bytes());
    if let Err(error) = connection.flush().await {
        return Answer::Lost(error);
    }
    let (mut last_tag, mut failure) = (String::new(), None);
    loop {
        match connection.recv().await {
            Ok(frame) if frame.tag == tag::COMMAND_COMPLETE => {
                last_tag = backend::decode_command_complete(frame.body).unwrap_or_default();
            }
            Ok(frame) if frame.tag == tag::ERROR => failure = Some(PgError::decode_body(frame.body)),
            Ok(frame) if frame.tag == tag::READY_FOR_QUERY => break,
            Ok(_) => {}
            Err(_) if last_tag == expected => return Answer::Done,
            Err(error) => return Answer::Lost(failure.unwrap_or(error)),
        }
    }
    match failure {
        Some(error) => Answer::Refused(error),
        None if last_tag == expected => Answer::Done,
        None => Answer::Other(last_tag),
    }
}

pub(crate) fn lost(node: u16, cause: Option<PgError>) -> PgError {
    let error =
        PgError::connection(format!("the connection to datanode {node} was lost before the transaction committed"));
    match cause {
        Some(cause) => error.detail(format!("The datanode's last word was: {}.", cause.message())),
        None => error,
    }
}

/// 40003 for a commit at this node.
pub fn unknown(node: u16) -> PgError {
    PgError::new(
        SqlState::STATEMENT_COMPLETION_UNKNOWN,
        format!("the connection to datanode {node} was lost while it committed, so the outcome is not known"),
    )
    .detail("The transaction is either committed on all nodes or on none.")
    .hint("Look at the data before you repeat it.")
}
