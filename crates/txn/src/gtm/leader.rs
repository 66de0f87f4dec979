//! Which of several gtms leads: the one whose session on the primary datanode holds an advisory lock. The session is the
//! leadership: what is executed in it is executed by the leader, so new generations are drawn there.
//!
//! A leader that stands still loses the session too: the server ends it when nothing was said in it for a while.
//!
//! A leader that is cut off from the primary datanode may go on to believe in itself for a moment. Nothing is wrong by that:
//! * the next leader raises the generation everywhere before it grants anything, and a cut with an old generation does not count;
//! * leases are extended, and schema changes let through, only after a look at the lock that began after they were asked for:
//!   [`Leadership::hold`] takes numbers and gives them back. So all leases of a former leader are over a lease after the
//!   next one has begun.

use std::time::Duration;

use pgerror::{PgError, Result};
use pgproto::{ConnectOptions, Connection};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{info, warn};

use super::server::Event;

/// Between two tries to become the leader.
const TRY_INTERVAL: Duration = Duration::from_millis(250);
/// The leader looks this often whether it still is.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(1000);
/// A primary datanode that does not answer within this time is lost.
const ANSWER_MAX: Duration = Duration::from_millis(2000);
/// Has the server notice within about 3 s that the leader's machine is gone, and within 4 s that the leader stands still (a stopped
/// process, whose kernel goes on answering for it): it says something every second. A process that dies it notices at once.
const SESSION_SETTINGS: [(&str, &str); 5] = [
    ("tcp_keepalives_idle", "1"),
    ("tcp_keepalives_interval", "1"),
    ("tcp_keepalives_count", "2"),
    ("tcp_user_timeout", "3000"),
    ("idle_session_timeout", "4000"),
];
/// "loxo" in ASCII, and a number of its own; see [`crate::decision`] for the fence's.
const LOCK_SQL: &str = "SELECT pg_catalog.pg_try_advisory_lock(1819244655, 2)";

/// Wants a generation above this one.
pub(super) struct Draw {
    pub above: u64,
    pub drawn: oneshot::Sender<Result<u64>>,
}

/// See the module's page. Without datanodes there is nothing to lead, and whoever asks leads.
pub(super) struct Leadership {
    session: Option<Connection>,
}

impl Leadership {
    /// Waits until this gtm is the leader.
    pub async fn acquire(primary: Option<&ConnectOptions>) -> Self {
        let Some(primary) = primary else { return Self { session: None } };
        let mut options = primary.clone();
        options.parameters.extend(SESSION_SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let (mut session, mut told) = (None, String::new());
        loop {
            let state = match timeout(ANSWER_MAX, try_lock(&options, &mut session)).await {
                Ok(Ok(true)) => return Self { session },
                Ok(Ok(false)) => "another gtm leads; this one stands by".to_owned(),
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
                (Ok(()), Some(session)) if !session.is_idle() => return lost_session(),
                (Ok(()), _) => {}
            }
        }
    }

    /// `setval`, because `nextval` logs ahead, so that a crash would skip values. It is executed by the holder of the lock or by nobody.
    async fn draw(&mut self, above: u64) -> Result<u64> {
        let sql = format!(
            "SET synchronous_commit = on; SELECT pg_catalog.setval('loxo.generation', greatest(last_value, {above}) + 1) \
             FROM loxo.generation"
        );
        match self.ask(&sql).await? {
            Some(value) => value.parse().map_err(|_| PgError::internal("a generation is not a number")),
            None => Ok(above + 1),
        }
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

fn lost_session() -> PgError {
    PgError::connection("the primary datanode does not answer")
}

async fn try_lock(options: &ConnectOptions, session: &mut Option<Connection>) -> Result<bool> {
    let connection = match session {
        Some(connection) => connection,
        None => session.insert(Connection::connect(options).await?),
    };
    let rows = connection.query_rows(LOCK_SQL).await?;
    Ok(rows.into_iter().flatten().flatten().next().as_deref() == Some(b"t"))
}
