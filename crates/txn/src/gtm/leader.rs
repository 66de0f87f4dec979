//! Which of several gtms leads: the one whose session on the primary datanode has `loxo.leader` locked, a view that only
//! superusers can lock. (Advisory locks are for everybody: any user could keep gtms from leading.) The lock is held by a transaction
//! that does nothing else and stays open; without an id and a snapshot of its own it holds up no VACUUM.
//!
//! New generations are drawn on another connection, as long as that session holds the lock. A draw that comes later than it should
//! does no harm: a gtm that draws has locked the fences of all nodes, so of two that do only one can raise anything.
//!
//! A leader that stands still loses the session too: the server ends it when nothing was said in it for a while.
//!
//! A leader that is cut off from the primary datanode may go on to believe in itself for a moment. Nothing is wrong by that:
//! * the next leader raises the generation everywhere before it grants anything, and a global snapshot with an old generation does not count;
//! * leases are extended, and schema changes let through, only after a look at the lock that began after they were asked for:
//!   [`Leadership::hold`] takes numbers and gives them back. So all leases of a former leader are over a lease after the
//!   next one has begun.

use std::time::Duration;

use pgerror::{PgError, Result, SqlState};
use pgproto::{ConnectOptions, Connection, TransactionStatus};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{info, warn};

use super::event::Event;
use crate::datanodes::Datanodes;
use crate::marks::GENERATION;
use crate::members::Members;

/// There is no such database any more; or the servers have another one of its name.
const GONE: [SqlState; 2] = [SqlState::INVALID_CATALOG_NAME, SqlState::CONFIG_FILE_ERROR];
/// Between two tries to become the leader.
const TRY_INTERVAL: Duration = Duration::from_millis(250);
/// The leader looks this often whether it still is.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(1000);
/// A primary datanode that does not answer within this time is lost.
const ANSWER_MAX: Duration = Duration::from_millis(2000);
/// Has the server notice within about 3 s that the leader's machine is gone, and within 4 s that the leader stands still (a stopped
/// process, whose kernel goes on answering for it): it says something every second. A process that dies it notices at once.
const SESSION_SETTINGS: [(&str, &str); 6] = [
    ("tcp_keepalives_idle", "1"),
    ("tcp_keepalives_interval", "1"),
    ("tcp_keepalives_count", "2"),
    ("tcp_user_timeout", "3000"),
    ("idle_session_timeout", "4000"),
    ("idle_in_transaction_session_timeout", "4000"),
];
/// The transaction lasts as long as the leadership. PostgreSQL 17 has a setting that would end it.
const LASTING_SQL: &str = "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
     WHERE name OPERATOR(pg_catalog.=) 'transaction_timeout'";
/// A gtm that stands by looks before it tries: a lock that cannot be had is an error, and the server logs each. (Two that find it free at
/// the same time both try; one has the error.) `missing`: there is no such table, for the cluster is not initialised.
const LOOK_SQL: &str = "SELECT CASE WHEN pg_catalog.to_regclass('loxo.leader') IS NULL THEN 'missing' \
     WHEN EXISTS (SELECT FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_database AS d ON d.oid = l.database \
       WHERE d.datname = pg_catalog.current_database() AND l.relation = pg_catalog.to_regclass('loxo.leader') \
       AND l.mode = 'ExclusiveLock' AND l.granted) THEN 'held' ELSE 'free' END";
/// At another isolation level it would keep the snapshot in which it reads `loxo.node`.
const LOCK_SQL: &str =
    "BEGIN ISOLATION LEVEL READ COMMITTED; LOCK TABLE loxo.leader IN EXCLUSIVE MODE NOWAIT; SAVEPOINT loxo_read";
/// Gives back the locks of what was read since: REINDEX DATABASE, say, would wait for them as long as the leader leads.
const FORGET_SQL: &str = "ROLLBACK TO SAVEPOINT loxo_read; RELEASE SAVEPOINT loxo_read";

/// Wants a generation above this one.
pub(super) struct Draw {
    pub above: u64,
    pub drawn: oneshot::Sender<Result<u64>>,
}

/// See the module's page. Without datanodes there is nothing to lead, and any gtm that asks leads.
pub(super) struct Leadership {
    session: Option<Connection>,
    options: Option<ConnectOptions>,
}

impl Leadership {
    /// Waits until this gtm is the leader; gives the datanodes that there are then. `None` if there is no such database, and it is not
    /// the cluster's first one, for which it waits.
    pub async fn acquire(members: &Members, is_first: bool) -> Option<(Self, Datanodes)> {
        let Some(primary) = members.primary() else {
            return Some((Self { session: None, options: None }, Datanodes::default()));
        };
        let mut options = primary.clone();
        options.parameters.extend(SESSION_SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let (mut session, mut told) = (None, String::new());
        loop {
            let state = match timeout(ANSWER_MAX, try_lock(&options, &mut session, members)).await {
                Ok(Ok(Some(datanodes))) => return Some((Self { session, options: Some(options) }, datanodes)),
                Ok(Ok(None)) => "another gtm leads; this one stands by".to_owned(),
                Ok(Err(error)) if !is_first && GONE.contains(&error.code()) => return None,
                Ok(Err(error)) => format!("no gtm can lead: {}", error.message()),
                Err(_) => "no gtm can lead: the primary datanode does not answer".to_owned(),
            };
            if state != told {
                info!("{state}");
                told = state;
            }
            session = session.filter(Connection::is_idle);
            sleep(TRY_INTERVAL).await;
        }
    }

    /// Keeps the leadership, draws generations, and looks at the lock when the number of `looks` grows; returns when it is lost.
    pub async fn hold(
        mut self,
        mut draws: mpsc::Receiver<Draw>,
        mut looks: watch::Receiver<u64>,
        events: mpsc::Sender<Event>,
    ) -> PgError {
        let mut heartbeat = interval(HEARTBEAT_INTERVAL);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let lost = tokio::select! {
                _ = heartbeat.tick() => self.ask("SELECT 1").await.map(drop),
                // The hub, which has the other end, ends only together with us.
                Ok(()) = looks.changed() => {
                    let look = *looks.borrow_and_update();
                    let result = self.ask("SELECT 1").await.map(drop);
                    if result.is_ok() {
                        let _ = events.send(Event::Leading { look }).await;
                    }
                    result
                }
                Some(Draw { above, drawn }) = draws.recv() => {
                    let result = self.draw(above).await;
                    if drawn.send(result).is_err() {
                        warn!("a generation was drawn in vain");
                    }
                    Ok(())
                }
            };
            match (lost, &self.session) {
                (Err(error), _) => return error,
                (Ok(()), Some(session)) if session.status() != TransactionStatus::InTransaction => {
                    return lost_session();
                }
                (Ok(()), _) => {}
            }
        }
    }

    /// `setval`, because `nextval` logs ahead, so that a crash would skip values. It gives the transaction an id, so it is not done in the
    /// one that holds the lock.
    async fn draw(&mut self, above: u64) -> Result<u64> {
        let (Some(session), Some(options)) = (&self.session, &self.options) else { return Ok(next_generation(above)) };
        let leader = session.cancel_key().process_id;
        let sql = format!(
            "SET synchronous_commit = on; SELECT pg_catalog.setval('loxo.generation', \
             loxo.generation_of(greatest(last_value, {above})) + {GENERATION}) FROM loxo.generation WHERE EXISTS (SELECT FROM pg_catalog.pg_locks AS l WHERE l.pid = {leader} AND l.granted \
             AND l.relation = 'loxo.leader'::pg_catalog.regclass AND l.mode = 'ExclusiveLock')"
        );
        let draw = async { Connection::connect(options).await?.query_rows(&sql).await };
        let rows = timeout(ANSWER_MAX, draw).await.unwrap_or_else(|_| Err(lost_session()))?;
        let value = rows.into_iter().flatten().flatten().next().ok_or_else(lost_session)?;
        let number = std::str::from_utf8(&value).ok().and_then(|value| value.parse().ok());
        number.ok_or_else(|| PgError::internal("a generation is not a number"))
    }

    /// One value; `None` without a session.
    async fn ask(&mut self, sql: &str) -> Result<Option<String>> {
        let Some(session) = &mut self.session else { return Ok(None) };
        let asked = timeout(ANSWER_MAX, session.query_rows(sql)).await;
        let rows = match asked {
            Ok(answer) => answer?,
            Err(_) => {
                session.mark_broken();
                return Err(lost_session());
            }
        };
        let value = rows.into_iter().flatten().flatten().next().ok_or_else(lost_session)?;
        Ok(Some(String::from_utf8_lossy(&value).into_owned()))
    }
}

fn next_generation(above: u64) -> u64 {
    above - above % GENERATION + GENERATION
}

fn lost_session() -> PgError {
    PgError::connection("the primary datanode does not answer")
}

/// `None`: another gtm has it.
async fn try_lock(
    options: &ConnectOptions,
    session: &mut Option<Connection>,
    members: &Members,
) -> Result<Option<Datanodes>> {
    let connection = match session {
        Some(connection) => connection,
        None => {
            let connection = session.insert(Connection::connect(options).await?);
            connection.query_rows(LASTING_SQL).await?;
            connection
        }
    };
    let looked = connection.query_rows(LOOK_SQL).await?;
    match looked.into_iter().flatten().flatten().next().as_deref() {
        Some(b"free") => {}
        Some(b"held") => return Ok(None),
        _ => return Err(no_metadata()),
    }
    let Err(error) = connection.execute(LOCK_SQL).await else {
        let datanodes = members.ask(connection).await?;
        return connection.execute(FORGET_SQL).await.map(|_| Some(datanodes));
    };
    if connection.is_drained() {
        connection.execute("ROLLBACK").await?;
    }
    match error.code() {
        SqlState::LOCK_NOT_AVAILABLE => Ok(None),
        SqlState::UNDEFINED_TABLE => Err(no_metadata()),
        _ => Err(error),
    }
}

fn no_metadata() -> PgError {
    PgError::new(SqlState::UNDEFINED_TABLE, "the primary datanode has no metadata of this version of loxo")
}
