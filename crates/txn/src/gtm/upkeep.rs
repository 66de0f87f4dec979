//! The leading gtm's work on the datanodes: passes of recovery, and fences.
//!
//! A fence makes sure that no coordinator the gtm does not know of decides a transaction any more:
//!
//! ```text
//!  all nodes at once:  BEGIN, the fence's lock (decisions that are announced end first)     all of them, or try again
//!  the leader's session:  draw generation g
//!  all nodes at once:  generation := g, COMMIT                ─> Bumped: registered coordinators may decide under g
//!  a pass of recovery over all nodes                          ─> Fenced: global snapshots may be granted
//! ```
//!
//! Invariants:
//! * `Bumped` only when every node has the new generation. Told earlier, a coordinator could decide on a raised node and publish on
//!   others, over which a former leader that knows nothing of it may still grant a global snapshot.
//! * Nothing is raised before every node has answered and given its lock: a node that is down holds up global snapshots, not commits.
//! * Which datanodes there are is read under the lock on the primary datanode; if there are others, nothing is raised ([`crate::members`]).
//! * No lock is waited for longer than [`LOCK_WAIT_MAX_MS`] at a time: announcements queue behind us.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use pgerror::{PgError, Result, SqlState};
use pgproto::{ConnectOptions, Connection};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::event::Event;
use super::global_snapshots::{Order, Seen};
use super::leader::Draw;
use crate::control_point;
use crate::datanodes::Datanodes;
use crate::gid::Gid;
use crate::members::Members;
use crate::recovery::{Pass, Passes, Report};

/// Before something that did not work is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// See the module's page; in milliseconds.
const LOCK_WAIT_MAX_MS: u32 = 500;
/// A gtm that stands still in the middle of a fence loses its locks after this time; in milliseconds.
const STANDSTILL_MAX_MS: u32 = 4000;
/// A backend that holds up a fence for longer is ended: a coordinator that stands still in the middle of a commit.
const PATIENCE: Duration = Duration::from_secs(5);
/// A node that does not answer within this time counts as down.
const NODE_MAX: Duration = Duration::from_secs(2);

/// How far the upkeep is. It outlives a change of the datanodes.
#[derive(Default)]
pub(super) struct Progress {
    /// Number of the last fence whose generation is everywhere.
    bumped: u64,
    /// … and that is complete.
    done: u64,
    /// The datanodes have changed since the last fence.
    is_unfenced: bool,
}

/// For as long as this gtm leads, or until there are other datanodes: these.
pub(super) async fn run(
    members: &Members,
    datanodes: &Datanodes,
    progress: &mut Progress,
    pass_interval: Duration,
    mut orders: watch::Receiver<Order>,
    draws: mpsc::Sender<Draw>,
    events: mpsc::Sender<Event>,
) -> Datanodes {
    let passes = Passes::new(members, datanodes);
    let mut upkeep = Upkeep { members, datanodes, draws, events, passes, progress, blocked: None };
    let mut trouble = String::new();
    loop {
        let order = *orders.borrow_and_update();
        if order.fences > upkeep.progress.bumped || upkeep.progress.is_unfenced {
            match upkeep.fence(order.fences).await {
                Ok(Scope::Current) => {}
                Ok(Scope::Outdated(now)) => return upkeep.end(now),
                Err(error) if trouble != error.message() => {
                    warn!("snapshots have to wait: {}", error.message());
                    trouble = error.message().into_owned();
                }
                Err(_) => {}
            }
        }
        if let Scope::Outdated(now) = upkeep.pass(order).await {
            return upkeep.end(now);
        }
        if order.fences == upkeep.progress.done {
            trouble.clear();
        }
        let is_behind = order.hurry || order.fences > upkeep.progress.done;
        tokio::select! {
            () = sleep(if is_behind { RETRY_PAUSE.min(pass_interval) } else { pass_interval }) => {}
            // The sender lives as long as this future.
            _ = orders.changed() => {}
        }
    }
}

/// Are the datanodes that this gtm works on those of the cluster?
enum Scope {
    Current,
    /// No, these are.
    Outdated(Datanodes),
}

struct Upkeep<'a> {
    members: &'a Members,
    datanodes: &'a Datanodes,
    draws: mpsc::Sender<Draw>,
    events: mpsc::Sender<Event>,
    passes: Passes<'a>,
    progress: &'a mut Progress,
    /// Since when a lock could not be had.
    blocked: Option<Instant>,
}

impl Upkeep<'_> {
    async fn fence(&mut self, fences: u64) -> Result<Scope> {
        let mut locked = join_all(self.datanodes.iter().map(async |(id, node)| (id, lock(node).await))).await;
        // With the lock there, since CREATE NODE waits for it.
        if let Some((id, Ok((primary, _)))) = locked.first_mut() {
            let now = self.members.ask(primary).await.map_err(|error| at(*id, &error))?;
            if !now.are(self.datanodes) {
                return Ok(Scope::Outdated(now));
            }
        }
        self.end_blockers(&locked).await;
        let (mut sessions, mut highest) = (Vec::new(), 0);
        for (id, result) in locked {
            let (session, generation) = result.map_err(|error| at(id, &error))?;
            sessions.push((id, session));
            highest = highest.max(generation);
        }
        let (drawn, answer) = oneshot::channel();
        let not_leading = |_| PgError::connection("this gtm does not lead any more");
        self.draws.send(Draw { above: highest, drawn }).await.map_err(|_| not_leading(()))?;
        let generation = answer.await.map_err(|_| not_leading(()))??;
        control_point!("fence-drawn");
        let raised = sessions
            .iter_mut()
            .map(async |(id, session)| raise(session, generation).await.map_err(|error| at(*id, &error)));
        try_join_all(raised).await?;
        control_point!("fence-bumped");
        info!(generation, "all datanodes have a new generation");
        (self.progress.bumped, self.progress.is_unfenced) = (fences, false);
        self.tell(Event::Bumped { generation }).await;
        Ok(Scope::Current)
    }

    fn end(&mut self, now: Datanodes) -> Datanodes {
        self.progress.is_unfenced = true;
        now
    }

    /// Ends backends that have been in the way for too long; see [`PATIENCE`].
    async fn end_blockers(&mut self, locked: &[(u16, Result<(Connection, u64)>)]) {
        let is_blocked = |result: &Result<_>| matches!(result, Err(e) if e.code() == SqlState::LOCK_NOT_AVAILABLE);
        let blocked: Vec<&ConnectOptions> = (locked.iter().filter(|(_, result)| is_blocked(result)))
            .filter_map(|(id, _)| self.datanodes.get(*id))
            .collect();
        if blocked.is_empty() {
            self.blocked = None;
        } else if self.blocked.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            warn!("ending sessions that hold up a fence");
            join_all(blocked.into_iter().map(|node| timeout(NODE_MAX, end_holders(node)))).await;
        }
    }

    async fn pass(&mut self, order: Order) -> Scope {
        let report = match self.passes.next().await {
            Pass::Whole(report) => report,
            Pass::Partial => return Scope::Current,
            Pass::Outdated(now) => return Scope::Outdated(now),
        };
        let is_complete = report.unreachable.is_empty();
        let dead: Vec<(Gid, u16)> =
            report.waiting.iter().filter(|doubt| !doubt.is_running()).map(|doubt| (doubt.gid, doubt.node)).collect();
        self.tell(Event::Seen(seen(order, &report))).await;
        if is_complete && self.progress.done < self.progress.bumped {
            control_point!("fence-recovered");
            self.progress.done = self.progress.bumped;
            self.tell(Event::Fenced { fences: self.progress.done, unresolved: dead }).await;
        }
        Scope::Current
    }

    async fn tell(&self, event: Event) {
        // The hub ends only together with us.
        let _ = self.events.send(event).await;
    }
}

fn seen(order: Order, report: &Report) -> Seen {
    let waiting: HashSet<Gid> = report.waiting.iter().map(|doubt| doubt.gid).collect();
    let unreachable = report.unreachable.iter().map(|(node, _)| *node).collect();
    Seen { reports: order.reports, waiting, unreachable }
}

fn at(node: u16, error: &PgError) -> PgError {
    PgError::new(error.code(), format!("datanode {node}: {}", error.message()))
}

/// Takes the fence's lock on a node, on a connection of its own; gives the node's generation too.
async fn lock(node: &ConnectOptions) -> Result<(Connection, u64)> {
    let sql = format!(
        "BEGIN; SET LOCAL lock_timeout = {LOCK_WAIT_MAX_MS}; SET LOCAL synchronous_commit = on; \
         SET LOCAL idle_in_transaction_session_timeout = {STANDSTILL_MAX_MS}; \
         LOCK TABLE loxo.fence IN EXCLUSIVE MODE; SELECT last_value FROM loxo.generation"
    );
    let attempt = async {
        let mut session = Connection::connect(node).await?;
        let rows = session.query_rows(&sql).await?;
        Ok((session, number(rows)?))
    };
    timeout(NODE_MAX, attempt).await.unwrap_or_else(|_| Err(silent()))
}

/// Under the lock. Never lowers: a later leader may have been here.
async fn raise(session: &mut Connection, generation: u64) -> Result<()> {
    let sql = format!(
        "SELECT pg_catalog.setval('loxo.generation', greatest(last_value, {generation})) FROM loxo.generation; COMMIT"
    );
    let rows = timeout(NODE_MAX, session.query_rows(&sql)).await.unwrap_or_else(|_| Err(silent()))?;
    match number(rows)? {
        reached if reached == generation => Ok(()),
        reached => Err(PgError::internal(format!("another gtm has raised the generation to {reached}"))),
    }
}

/// Ends the sessions whose announced decisions a fence waits for; they roll back, or had committed.
async fn end_holders(node: &ConnectOptions) -> Result<()> {
    let sql = "SELECT pg_catalog.pg_terminate_backend(l.pid) FROM pg_catalog.pg_locks l \
         JOIN pg_catalog.pg_database d ON d.oid = l.database AND d.datname = pg_catalog.current_database() \
         WHERE l.granted AND l.relation = 'loxo.fence'::pg_catalog.regclass AND l.mode = 'RowShareLock' \
         AND l.pid IS NOT NULL";
    Connection::connect(node).await?.query_rows(sql).await.map(drop)
}

/// The last value of the rows.
fn number(rows: Vec<Vec<Option<bytes::Bytes>>>) -> Result<u64> {
    let value = rows.into_iter().flatten().flatten().last();
    let number = value.and_then(|value| std::str::from_utf8(&value).ok()?.parse().ok());
    number.ok_or_else(|| PgError::internal("a datanode's generation is not a number"))
}

fn silent() -> PgError {
    PgError::connection(format!("it does not answer within {} s", NODE_MAX.as_secs()))
}
