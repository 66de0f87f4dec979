//! Batch by batch: each is one transaction together with its row in the journal.
//!
//! A batch whose connection broke is sent again over another one. Its first transaction may still be about to commit, unseen:
//! then the journal's key makes the second one wait and fail, and the journal says that the batch is done.

use std::sync::Arc;
use std::time::Duration;

use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;
use tokio::task::JoinSet;

use crate::commit::journal::Journal;
use crate::commit::rejects::{self, Rejects};
use crate::files::counters::Counters;
use crate::files::cut::Piece;
use crate::files::readers::{Queue, Readers};
use crate::server::session::{self, CopyIn, CopyTarget};

/// Attempts after the first, over about half a minute.
const RETRIES_MAX: u32 = 10;
const RETRY_AFTER: Duration = Duration::from_millis(100);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);

/// What the streams share.
pub(crate) struct Streams {
    pub(crate) to: Vec<String>,
    pub(crate) target: CopyTarget,
    pub(crate) queue: Queue,
    pub(crate) journal: Journal,
    pub(crate) counters: Arc<Counters>,
    pub(crate) rejects: Option<Arc<Rejects>>,
}

/// Loads everything the readers give; the rows committed.
pub(crate) async fn run(streams: Streams, count: usize, readers: Readers) -> Result<u64> {
    let streams = Arc::new(streams);
    let mut tasks = JoinSet::new();
    for index in 0..count {
        let streams = Arc::clone(&streams);
        tasks.spawn(async move { streams.stream(index).await });
    }
    drop(streams);
    Ok(readers.join(tasks).await?.into_iter().sum())
}

impl Streams {
    async fn stream(&self, index: usize) -> Result<u64> {
        let mut session = Session { at: index, connection: None };
        let mut rows = 0;
        while let Some(piece) = self.queue.next().await {
            rows += self.load(&mut session, &piece).await?;
            self.counters.sent(piece.rows, piece.end - piece.start);
        }
        Ok(rows)
    }

    async fn load(&self, session: &mut Session, piece: &Piece) -> Result<u64> {
        let mut wait = RETRY_AFTER;
        for attempt in 0.. {
            match self.attempt(session, piece, attempt > 0).await {
                Err(error) if attempt < RETRIES_MAX && session.may_try_again(&error) => {
                    session.at += 1;
                    session.connection = None;
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RETRY_AFTER_MAX);
                }
                outcome => return outcome,
            }
        }
        Err(PgError::internal("attempts have no end"))
    }

    async fn attempt(&self, session: &mut Session, piece: &Piece, is_retry: bool) -> Result<u64> {
        let connection = session.open(&self.to).await?;
        let file = &self.target.sources[piece.file].key();
        if is_retry && let Some(rows) = self.journal.rows_of(connection, file, piece).await? {
            return Ok(rows);
        }
        connection.execute("BEGIN").await?;
        let rows = self.copy(connection, piece).await?;
        match self.journal.note(connection, file, piece, rows).await {
            Ok(()) => {}
            Err(error) if error.code() == SqlState::UNIQUE_VIOLATION => {
                connection.execute("ROLLBACK").await?;
                return self.journal.rows_of(connection, file, piece).await?.ok_or(error);
            }
            Err(error) => return Err(error),
        }
        session::must(connection, "COMMIT", "COMMIT").await?;
        Ok(rows)
    }
}

impl Streams {
    async fn copy(&self, connection: &mut Connection, piece: &Piece) -> Result<u64> {
        if let Some(rejects) = &self.rejects {
            let (rows, records) = rejects::copy(connection, &self.target, piece, rejects).await?;
            return rejects.write(&records).map(|()| rows);
        }
        let mut copy = CopyIn::begin(connection, &self.target).await?;
        copy.send(connection, piece).await?;
        copy.finish(connection).await
    }
}

/// A stream's connection, which moves to the next coordinator when it breaks.
struct Session {
    at: usize,
    connection: Option<Connection>,
}

impl Session {
    async fn open(&mut self, to: &[String]) -> Result<&mut Connection> {
        let open = match self.connection.take() {
            Some(open) => open,
            None => session::connect(&to[self.at % to.len()]).await?,
        };
        Ok(self.connection.insert(open))
    }

    /// Is the cause something that passes, and not the data?
    fn may_try_again(&self, error: &PgError) -> bool {
        let code = error.code();
        let passes = [
            SqlState::STATEMENT_COMPLETION_UNKNOWN,
            SqlState::SERIALIZATION_FAILURE,
            SqlState::DEADLOCK_DETECTED,
            SqlState::TOO_MANY_CONNECTIONS,
        ];
        let class = &code.as_bytes()[..3];
        let is_broken = self.connection.as_ref().is_none_or(Connection::is_broken);
        is_broken && class != b"280" && class != b"28P" || class == b"080" || class == b"57P" || passes.contains(&code)
    }
}
