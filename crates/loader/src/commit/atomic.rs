//! All rows or none, over several sessions.
//!
//! A COPY belongs to one session and a transaction too, so several streams are several transactions. All but the first are
//! prepared; the first then inserts the decision row into the journal and commits: from then on the load is done, and
//! the prepared ones are committed. A load that finds prepared transactions of one that died tries to insert a
//! decision row of the opposite meaning. Its key is the same, so exactly one of the two exists in the end, and it tells
//! what to do. Readers may see the parts appear one after the other, in the milliseconds between the commits.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use pgerror::{PgError, Result, SqlState, field};
use pgproto::Connection;
use tokio::task::JoinSet;

use crate::commit::journal::{Decision, Journal};
use crate::commit::rejects::{self, Rejects};
use crate::files::counters::Counters;
use crate::files::cut::Piece;
use crate::files::readers::{self, Queue};
use crate::options::literal;
use crate::server::session::{self, CopyIn, CopyTarget};

/// A stream that waits for a lock of another one waits for ever, since none commits before all are done, and no server can know
/// that. So nobody waits longer, unless the session says otherwise.
const LOCK_TIMEOUT: &str = "60s";

/// A stream that has sent all its rows and not committed.
struct Loaded {
    connection: Connection,
    rows: u64,
}

/// A name that no other load has.
pub(crate) fn new_name() -> String {
    format!("loxo_load_{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// What the streams share.
pub(crate) struct Streams {
    pub(crate) to: Vec<String>,
    pub(crate) target: CopyTarget,
    pub(crate) queue: Queue,
    pub(crate) counters: Arc<Counters>,
    pub(crate) rejects: Option<Arc<Rejects>>,
    pub(crate) count: usize,
}

/// Starts the streams and waits for the readers and them; gives the open transactions of those that had rows.
async fn send_all(streams: Streams, readers: readers::Readers) -> Result<Vec<Loaded>> {
    let count = streams.count;
    let streams = Arc::new(streams);
    let mut tasks = JoinSet::new();
    for index in 0..count {
        let streams = Arc::clone(&streams);
        tasks.spawn(async move { streams.stream(index).await.map_err(|error| streams.explain(error)) });
    }
    // Otherwise the readers would wait for room in a queue that nobody empties.
    drop(streams);
    Ok(readers.join(tasks).await?.into_iter().flatten().collect())
}

impl Streams {
    async fn stream(&self, index: usize) -> Result<Option<Loaded>> {
        let mut connection = session::connect(&self.to[index % self.to.len()]).await?;
        let Some(mut piece) = self.queue.next().await else { return Ok(None) };
        connection.execute("BEGIN").await?;
        if self.count > 1 && session::value(&mut connection, "SHOW lock_timeout").await? == "0" {
            connection.execute(&format!("SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")).await?;
        }
        if let Some(rejects) = &self.rejects {
            let rows = self.copy_good_rows(&mut connection, piece, rejects).await?;
            return Ok(Some(Loaded { connection, rows }));
        }
        let mut rows = 0;
        loop {
            let mut copy = CopyIn::begin(&mut connection, &self.target).await?;
            let next = loop {
                copy.send(&mut connection, &piece).await?;
                self.counters.sent(piece.rows, piece.end - piece.start);
                match self.queue.next().await {
                    Some(next) if copy.accepts(&next) => piece = next,
                    other => break other,
                }
            };
            rows += copy.finish(&mut connection).await?;
            match next {
                Some(next) => piece = next,
                None => return Ok(Some(Loaded { connection, rows })),
            }
        }
    }
}

impl Streams {
    fn explain(&self, error: PgError) -> PgError {
        match self.count > 1 && error.code() == SqlState::LOCK_NOT_AVAILABLE {
            true => error.hint(
                "Two streams may have rows with the same key, or another session holds a lock: \
                 with --streams 1 the load names the row, or waits.",
            ),
            false => error,
        }
    }

    async fn copy_good_rows(&self, connection: &mut Connection, first: Piece, rejects: &Rejects) -> Result<u64> {
        let (mut rows, mut next) = (0, Some(first));
        while let Some(piece) = next {
            let (taken, records) = rejects::copy(connection, &self.target, &piece, rejects).await?;
            rejects.write(&records)?;
            self.counters.sent(piece.rows, piece.end - piece.start);
            rows += taken;
            next = self.queue.next().await;
        }
        Ok(rows)
    }
}

/// Loads everything the readers give and commits it. The journal is needed for more than one stream. Gives the rows.
pub(crate) async fn run(streams: Streams, readers: readers::Readers, journal: Option<&Journal>) -> Result<u64> {
    let (to, counters) = (streams.to.clone(), Arc::clone(&streams.counters));
    let mut loaded = send_all(streams, readers).await?;
    let rows = loaded.iter().map(|stream| stream.rows).sum();
    counters.begin_commit();
    match (loaded.as_mut_slice(), journal) {
        ([], _) => {}
        ([one], _) => commit_one(&mut one.connection).await?,
        (_, None) => return Err(PgError::internal("several streams and no journal")),
        (_, Some(journal)) => commit(loaded, rows, journal, &to).await?,
    }
    Ok(rows)
}

async fn commit_one(connection: &mut Connection) -> Result<()> {
    let outcome = session::must(connection, "COMMIT", "COMMIT").await;
    outcome.map_err(|error| match connection.is_broken() {
        true => PgError::new(SqlState::STATEMENT_COMPLETION_UNKNOWN, error.message())
            .detail("The connection broke while the load was committed: all its rows are there, or none.")
            .hint("Look into the table. With --batch a load can be repeated in any case."),
        false => error,
    })
}

async fn commit(mut loaded: Vec<Loaded>, rows: u64, journal: &Journal, to: &[String]) -> Result<()> {
    if let Err(error) = decide(&mut loaded, rows, journal).await {
        // Open transactions end with their sessions; what the others came to is asked of the cluster.
        drop(loaded);
        return match decided_anywhere(to, journal).await {
            Ok(Decision::Commit) => Ok(()),
            Ok(Decision::GiveUp) => Err(error),
            Err(undecided) => Err(unfinished(&undecided, journal)),
        };
    }
    match finish_prepared(&mut loaded[0].connection, journal, Decision::Commit).await {
        Ok(()) => Ok(()),
        Err(_) => decided_anywhere(to, journal).await.map(drop).map_err(|error| unfinished(&error, journal)),
    }
}

fn unfinished(error: &PgError, journal: &Journal) -> PgError {
    PgError::new(SqlState::STATEMENT_COMPLETION_UNKNOWN, format!("the load is not finished: {}", error.message()))
        .detail("Transactions of it are prepared, or may be, and wait to be committed or rolled back.")
        .hint(format!("When the cluster answers again: loxo load TABLE --finish {}", journal.load()))
}

/// Prepares all transactions but the first, and commits that with the decision.
async fn decide(loaded: &mut [Loaded], rows: u64, journal: &Journal) -> Result<()> {
    let Some((first, others)) = loaded.split_first_mut() else { return Ok(()) };
    for (number, stream) in others.iter_mut().enumerate() {
        let sql = format!("PREPARE TRANSACTION {}", literal(&format!("{}_{number}", journal.load())));
        session::must(&mut stream.connection, &sql, "PREPARE TRANSACTION").await.map_err(|error| {
            let hint = "With --streams 1 a load needs no prepared transactions, with --batch neither.";
            if error.get(field::HINT).is_some() { error } else { error.hint(hint) }
        })?;
    }
    journal.decide(&mut first.connection, Decision::Commit, rows).await?;
    session::must(&mut first.connection, "COMMIT", "COMMIT").await
}

/// Through the first coordinator that answers.
async fn decided_anywhere(to: &[String], journal: &Journal) -> Result<Decision> {
    let mut last = PgError::connection("no coordinator is named");
    for uri in to {
        let found = match session::connect(uri).await {
            Ok(mut connection) => decided(&mut connection, journal).await,
            Err(error) => Err(error),
        };
        match found {
            Ok(decision) => return Ok(decision),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Gives the load up unless it is decided, and ends its prepared transactions accordingly. The row stays, so that the answer does too.
async fn decided(connection: &mut Connection, journal: &Journal) -> Result<Decision> {
    match journal.decide(connection, Decision::GiveUp, 0).await {
        Err(error) if error.code() != SqlState::UNIQUE_VIOLATION => return Err(error),
        _ => {}
    }
    let decision = journal.decision(connection).await?;
    let decision = decision.ok_or_else(|| PgError::protocol("the decision row of the load is gone"))?;
    finish_prepared(connection, journal, decision).await?;
    Ok(decision)
}

/// Names of the transactions of the load that are prepared.
async fn prepared(connection: &mut Connection, journal: &Journal) -> Result<Vec<String>> {
    let mark = format!("{}_", journal.load());
    let sql = format!(
        "SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE pg_catalog.left(gid, {}) OPERATOR(pg_catalog.=) {} \
         AND database OPERATOR(pg_catalog.=) pg_catalog.current_database()",
        mark.len(),
        literal(&mark)
    );
    let names = connection.query_rows(&sql).await?.into_iter().flatten().flatten();
    Ok(names.map(|name| String::from_utf8_lossy(&name).into_owned()).collect())
}

async fn finish_prepared(connection: &mut Connection, journal: &Journal, decision: Decision) -> Result<()> {
    let verb = match decision {
        Decision::Commit => "COMMIT",
        Decision::GiveUp => "ROLLBACK",
    };
    for name in prepared(connection, journal).await? {
        let sql = format!("{verb} PREPARED {}", literal(&name));
        match connection.execute(&sql).await {
            // Somebody else was faster.
            Err(error) if error.code() == SqlState::UNDEFINED_OBJECT => {}
            done => drop(done?),
        }
    }
    Ok(())
}

/// `loxo load TABLE --finish NAME`: what became of a load that died while it committed. `true` is committed.
///
/// # Errors
/// The server's; the load can be finished later then.
pub async fn finish(table: &str, to: &[String], name: &str) -> Result<bool> {
    let uri = to.first().ok_or_else(|| PgError::connection("no coordinator is named"))?;
    let mut connection = session::connect(uri).await?;
    let (schema, _) = crate::load::resolve(&mut connection, table).await?;
    // A name that is mistyped must not be noted as that of a load that was given up.
    let journal = Journal::named(&schema, name.to_owned());
    let is_decided = journal.exists(&mut connection).await? && journal.decision(&mut connection).await?.is_some();
    if !is_decided && prepared(&mut connection, &journal).await?.is_empty() {
        let message = format!("no load named \"{name}\" waits to be finished");
        return Err(PgError::new(SqlState::UNDEFINED_OBJECT, message)
            .hint("A load prints its name at its start. Nothing was changed."));
    }
    let journal = Journal::open(&mut connection, &schema, name.to_owned()).await?;
    Ok(decided(&mut connection, &journal).await? == Decision::Commit)
}
