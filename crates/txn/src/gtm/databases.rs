//! The databases of a cluster, each served by itself: with a leader, fences, leases and a hub of its own, since generations, catalogs
//! and snapshots are a database's.
//!
//! The first one, that of the configuration, is served from the start. Others are served by the gtm that leads there: each from the
//! first time that a coordinator asks for it until the datanodes say that it does not exist, or no coordinator has used it for
//! [`UNUSED_MAX`]. What was prepared in a database that nobody asks for is finished by the recovery of
//! any other: prepared transactions are listed for all of a server's databases.
//!
//! `loxo.database` in the first database, on the primary datanode, notes which others there are, and is the journal of sessions
//! that make, drop and rename one. They hold a ROW SHARE lock on it until they are done. A gtm that gets an EXCLUSIVE lock knows
//! that nobody is at work, so what is neither ready nor gone was left by the dead: it is dropped everywhere, or has its earlier
//! name again everywhere.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use pgerror::{PgError, Result, SqlState};
use pgproto::{ConnectOptions, Connection};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::event::Event;
use super::message::Message;
use super::server::{GtmOptions, Role, stand_by_and_lead};
use crate::datanodes::{Database, Datanodes};
use crate::members::Members;

/// A database is served for so long after the last coordinator has gone.
const UNUSED_MAX: Duration = Duration::from_secs(300);
/// Between two looks whether it is.
const UNUSED_LOOK: Duration = Duration::from_secs(1);
/// Between two looks for what was left by the dead.
const TIDY_INTERVAL: Duration = Duration::from_secs(2);
/// A look must be over within this time, a database dropped or renamed on a node within the second.
const LOOK_MAX: Duration = Duration::from_secs(5);
const STEP_MAX: Duration = Duration::from_secs(60);

/// At another isolation level the rows would be those from before the lock.
const LEFT_SQL: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; LOCK TABLE loxo.database IN EXCLUSIVE MODE NOWAIT; \
     UPDATE loxo.database SET state = 'ready' WHERE state OPERATOR(pg_catalog.=) 'leaving'; \
     SELECT name, new_name FROM loxo.database \
     WHERE state OPERATOR(pg_catalog.<>) 'ready' AND state OPERATOR(pg_catalog.<>) 'reserved'";

/// Waits for those that make or rename a database at the moment: what they do is not to be seen before.
const AWAIT_DATABASES_SQL: &str = "BEGIN; LOCK TABLE pg_catalog.pg_database IN SHARE MODE; COMMIT";

/// Two steps on one node as a superuser. The first lets the second drop what is or becomes a template too.
pub fn drop_database_sql(name: &str) -> [String; 2] {
    let is_it = format!("datname OPERATOR(pg_catalog.=) {}", literal(name));
    let first = format!(
        "{AWAIT_DATABASES_SQL}; UPDATE pg_catalog.pg_database SET datistemplate = false WHERE {is_it} AND datistemplate"
    );
    [first, format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", quoted(name))]
}

/// Likewise: a database has its earlier name again if it has the new one there.
pub fn take_name_back_sql(name: &str, new_name: &str) -> [String; 2] {
    let is_there = |name| {
        format!("EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) {})", literal(name))
    };
    let body = format!(
        "BEGIN IF {} AND NOT {} THEN ALTER DATABASE {} RENAME TO {}; END IF; END",
        is_there(new_name),
        is_there(name),
        quoted(new_name),
        quoted(name)
    );
    [AWAIT_DATABASES_SQL.to_owned(), format!("DO {}", literal(&body))]
}

/// Then the journal has it as before.
pub fn name_is_back_sql(name: &str) -> String {
    let name = literal(name);
    format!(
        "DELETE FROM loxo.database AS r USING loxo.database AS d WHERE d.name OPERATOR(pg_catalog.=) {name} \
           AND d.state OPERATOR(pg_catalog.=) 'renaming' AND r.name OPERATOR(pg_catalog.=) d.new_name \
           AND r.state OPERATOR(pg_catalog.=) 'reserved'; \
         UPDATE loxo.database SET state = 'ready', new_name = NULL \
         WHERE name OPERATOR(pg_catalog.=) {name} AND state OPERATOR(pg_catalog.=) 'renaming'"
    )
}

/// A database in the journal that nobody works on.
struct Left {
    name: String,
    /// What it was to be called, if it was being renamed.
    new_name: Option<String>,
}

/// See the module's page.
pub(super) struct Databases {
    /// The cluster's first one, which has no id.
    first: Database,
    served: Mutex<HashMap<Database, Served>>,
    wanted: mpsc::UnboundedSender<Wanted>,
}

#[derive(Clone)]
struct Served {
    role: watch::Receiver<Role>,
    /// One for each coordinator that is connected, and the one in here.
    clients: Arc<()>,
}

/// Where a coordinator's messages go, for as long as it is connected.
pub(super) struct Attended {
    pub events: mpsc::Sender<Event>,
    _client: Arc<()>,
}

/// A database to be served from now on.
pub(super) struct Wanted {
    database: Database,
    role: watch::Sender<Role>,
}

impl Databases {
    pub fn new(options: &GtmOptions) -> (Arc<Self>, mpsc::UnboundedReceiver<Wanted>) {
        let (wanted, taken) = mpsc::unbounded_channel();
        let first = options.datanodes.primary().map_or("", |primary| &primary.database);
        (Arc::new(Self { first: Database::new(first, ""), served: Mutex::default(), wanted }), taken)
    }

    /// Where the messages go of a coordinator whose first one this is; `None` while another gtm leads.
    pub fn attend(&self, hello: &Message) -> Option<Attended> {
        let database = match hello {
            Message::Hello { database, .. } if !database.name.is_empty() => database,
            _ => &self.first,
        };
        if *database != self.first && !self.leads_the_first() {
            return None;
        }
        let Served { role, clients } = self.served(database);
        let events = role.borrow().clone()?;
        Some(Attended { events, _client: clients })
    }

    fn leads_the_first(&self) -> bool {
        self.served(&self.first).role.borrow().is_some()
    }

    fn served(&self, database: &Database) -> Served {
        let mut all = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(served) = all.get(database) {
            return served.clone();
        }
        let (role, seen) = watch::channel(None);
        // Fails only if the gtm is ending.
        let _ = self.wanted.send(Wanted { database: database.clone(), role });
        let served = Served { role: seen, clients: Arc::default() };
        all.insert(database.clone(), served.clone());
        served
    }

    /// Comes back when a database is none of this gtm's business any more.
    async fn is_needless(&self, database: &Database) {
        let mut used = Instant::now();
        while self.leads_the_first() && used.elapsed() < UNUSED_MAX {
            sleep(UNUSED_LOOK).await;
            // Besides the one in the map and the one in hand.
            if Arc::strong_count(&self.served(database).clients) > 2 {
                used = Instant::now();
            }
        }
    }

    fn ends(&self, database: &Database) {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).remove(database);
    }

    /// For ever.
    pub async fn serve(&self, mut wanted: mpsc::UnboundedReceiver<Wanted>, options: &GtmOptions) -> Infallible {
        let mut works: FuturesUnordered<BoxFuture<'_, Option<Database>>> = FuturesUnordered::new();
        let members = Members::new(options.datanodes.clone(), options.roster.clone());
        works.push(Box::pin(tidy(members)));
        self.served(&self.first);
        loop {
            tokio::select! {
                // The sender is in `self`.
                Some(Wanted { database, role }) = wanted.recv() => {
                    let is_first = database == self.first;
                    let there = options.datanodes.in_database(&database.name);
                    let (primary, options) = (options.datanodes.primary(), GtmOptions { datanodes: there, ..options.clone() });
                    works.push(Box::pin(async move {
                        // A dropped database must not take the place of the one that has its name now.
                        if !is_first && !is_noted(primary, &database).await {
                            return Some(database);
                        }
                        options.roster.iter().filter(|_| !is_first).for_each(|roster| roster.enter(&database));
                        tokio::select! {
                            () = stand_by_and_lead(options, role, is_first) => {}
                            () = self.is_needless(&database), if !is_first => {}
                        }
                        Some(database)
                    }));
                }
                Some(ended) = works.next() => {
                    let Some(database) = ended else { continue };
                    info!(database = database.name, "the database is not served any more");
                    options.roster.iter().for_each(|roster| roster.leave(&database));
                    self.ends(&database);
                }
            }
        }
    }
}

/// Is there such a database, as far as the first one on the primary datanode knows?
async fn is_noted(primary: Option<&ConnectOptions>, database: &Database) -> bool {
    let Some(primary) = primary else { return false };
    let sql = format!(
        "SELECT FROM loxo.database AS d WHERE d.name OPERATOR(pg_catalog.=) {} AND d.id::pg_catalog.text OPERATOR(pg_catalog.=) {}",
        literal(&database.name),
        literal(&database.id)
    );
    let asked = async { Connection::connect(primary).await?.query_rows(&sql).await };
    matches!(timeout(LOOK_MAX, asked).await, Ok(Ok(rows)) if !rows.is_empty())
}

/// Sees to what was left by the dead, for ever; `None` at once without datanodes.
async fn tidy(members: Members) -> Option<Database> {
    let primary = members.primary()?.clone();
    let (mut kept, mut told) = (None, String::new());
    loop {
        let looked = timeout(LOOK_MAX, look(&primary, &mut kept)).await;
        let done = match looked {
            Ok(Ok(left)) if left.is_empty() => Ok(()),
            Ok(Ok(left)) => settle(&members, &mut kept, &left).await,
            // Somebody is at work, or the metadata are of a version that has no such table.
            Ok(Err(error)) if [SqlState::LOCK_NOT_AVAILABLE, SqlState::UNDEFINED_TABLE].contains(&error.code()) => {
                Ok(())
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(PgError::connection("the primary datanode does not answer")),
        };
        if let Err(error) = done {
            kept = None;
            if told != error.message() {
                warn!("databases could not be looked after: {}", error.message());
                told = error.message().into_owned();
            }
        }
        sleep(TIDY_INTERVAL).await;
    }
}

/// What was left; the lock is kept if there is something.
async fn look(primary: &ConnectOptions, kept: &mut Option<Connection>) -> Result<Vec<Left>> {
    let connection = match kept.as_mut().filter(|connection| connection.is_idle()) {
        Some(connection) => connection,
        None => kept.insert(Connection::connect(primary).await?),
    };
    let found = connection.query_rows(LEFT_SQL).await;
    if !matches!(&found, Ok(rows) if !rows.is_empty()) && connection.is_drained() {
        connection.execute("COMMIT").await?;
    }
    let mut names =
        found?.into_iter().flatten().map(|name| name.map(|name| String::from_utf8_lossy(&name).into_owned()));
    let mut left = Vec::new();
    while let (Some(Some(name)), Some(new_name)) = (names.next(), names.next()) {
        left.push(Left { name, new_name });
    }
    Ok(left)
}

/// Under the lock, which this gives up.
async fn settle(members: &Members, kept: &mut Option<Connection>, all: &[Left]) -> Result<()> {
    let Some(journal) = kept else { return Ok(()) };
    let datanodes = members.ask(journal).await?;
    let mut outcome = Ok(());
    for Left { name, new_name } in all {
        let (steps, note, told) = match new_name {
            None => (drop_database_sql(name), forget_sql(name), "what was left of a database has been dropped"),
            Some(new) => (
                take_name_back_sql(name, new),
                name_is_back_sql(name),
                "a database that was being renamed has its name again",
            ),
        };
        match everywhere(&datanodes, &steps).await {
            Ok(()) => {
                info!(database = name, "{told}");
                journal.query_rows(&note).await?;
            }
            Err(error) => outcome = Err(error),
        }
    }
    journal.execute("COMMIT").await?;
    outcome
}

/// On all of these; what is not there is no error.
async fn everywhere(datanodes: &Datanodes, steps: &[String; 2]) -> Result<()> {
    let run = async |(_, node): (u16, &ConnectOptions)| {
        let done = async {
            let mut session = Connection::connect(node).await?;
            for step in steps {
                session.query_rows(step).await?;
            }
            Ok(())
        };
        timeout(STEP_MAX, done).await.unwrap_or_else(|_| Err(PgError::connection("a datanode does not answer")))
    };
    join_all(datanodes.iter().map(run)).await.into_iter().collect()
}

fn forget_sql(name: &str) -> String {
    format!("DELETE FROM loxo.database WHERE name OPERATOR(pg_catalog.=) {}", literal(name))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
