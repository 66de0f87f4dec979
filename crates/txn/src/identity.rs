//! Which servers are the datanodes of the cluster.
//!
//! A name, an address or a port may lead elsewhere than it did: lines of the configuration are swapped, an address has moved to a
//! standby or to a server of another cluster, an old copy was started in the place of the original. So every new connection of a
//! process asks the server who it is, together with the first thing that it wants of it, and is closed unless all of this holds:
//!
//! ```text
//!  loxo.identity        node id, cluster id      are those that the configuration and the other datanodes say; in databases but the
//!                                                first the id is the database's own
//!  loxo.identity        system identifier        is the server's own (initdb makes it): not a dump restored elsewhere
//!  pg_is_in_recovery()  false                    not a standby
//!  the WAL's timeline   has not gone back        not a primary from before a promotion that this process has seen
//!  loxo.generation      has not gone back        not a copy from before the last fence that this process was told of
//! ```
//!
//! A process takes the cluster's id from its configuration; without that, from the servers themselves: [`Roster::survey`]
//! asks all of them before anything else is done, and they must agree.
//!
//! No operator is used, since the connecting user's search path may have others; no right is needed but to read the two relations.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};
use pgproto::{ConnectOptions, Connection, Proof, Question, Rows};
use tokio::time::timeout;

use crate::datanodes::{Database, Datanodes};
use crate::gtm::GtmClient;

/// A node that does not answer within this time is not asked at the start.
const SURVEY_MAX: Duration = Duration::from_secs(2);

/// In the database of the cluster.
const WHO_SQL: &str = "SELECT i.node_id, i.cluster_id, i.system_identifier, c.system_identifier, g.last_value, \
     CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) END \
     FROM loxo.identity AS i, loxo.generation AS g, pg_catalog.pg_control_system() AS c";

/// In another one there is nothing of ours: only the server can be told.
const SYSTEM_SQL: &str = "SELECT c.system_identifier FROM pg_catalog.pg_control_system() AS c";

/// Digits of the timeline at the start of a WAL file's name.
const TIMELINE_DIGITS: usize = 8;

/// What a process knows of the datanodes. One for each process.
pub struct Roster {
    first: String,
    servers: Mutex<Servers>,
    /// Those of the cluster.
    databases: Mutex<HashMap<String, Known>>,
}

/// What is known of a database.
#[derive(Clone, Default)]
struct Known {
    /// Whose generation no datanode may be behind.
    gtm: Option<GtmClient>,
    /// What `loxo.identity` has for the cluster's id there; empty in the first one.
    id: String,
}

#[derive(Clone, Default)]
struct Servers {
    cluster: Option<String>,
    nodes: HashMap<u16, Server>,
}

/// A server that was found to be right.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Server {
    system: String,
    timeline: u32,
}

/// What a server says of itself.
#[derive(Debug)]
struct Found {
    node: u16,
    cluster: String,
    /// The system identifier that was noted when the node was made.
    noted: String,
    system: String,
    generation: u64,
    /// `None` of a standby.
    timeline: Option<u32>,
}

#[derive(Debug)]
struct Of {
    roster: Arc<Roster>,
    node: u16,
}

impl std::fmt::Debug for Roster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roster").finish_non_exhaustive()
    }
}

impl Roster {
    /// Identities in the cluster of this id, if that is known, whose first database this is.
    pub fn new(cluster: Option<String>, database: impl Into<String>) -> Arc<Self> {
        let servers = Servers { cluster, ..Servers::default() };
        let first = database.into();
        let databases = HashMap::from([(first.clone(), Known::default())]);
        Arc::new(Self { first, servers: Mutex::new(servers), databases: Mutex::new(databases) })
    }

    /// The cluster has this database too.
    pub fn enter(&self, database: &Database) {
        let known = Known { gtm: None, id: database.id.clone() };
        self.databases().insert(database.name.clone(), known);
    }

    /// It has it no longer, though it may have another one of this name.
    pub fn leave(&self, database: &Database) {
        let mut databases = self.databases();
        if databases.get(&database.name).is_some_and(|known| known.id == database.id) {
            databases.remove(&database.name);
        }
    }

    /// There is no node of this id, yet: an attempt to make it, with another server, may have come to nothing.
    pub fn forget(&self, node: u16) {
        self.lock().nodes.remove(&node);
    }

    /// Whose generation no datanode may be behind in a database of the cluster.
    pub fn follow(&self, database: &str, gtm: GtmClient) {
        self.databases().entry(database.to_owned()).or_default().gtm = Some(gtm);
    }

    /// These identities for servers that fences have gone on without.
    #[must_use]
    pub fn regardless_of_generation(&self) -> Arc<Self> {
        let mut databases = self.databases().clone();
        databases.values_mut().for_each(|database| database.gtm = None);
        let servers = Mutex::new(self.lock().clone());
        Arc::new(Self { first: self.first.clone(), servers, databases: Mutex::new(databases) })
    }

    /// For the connections to a datanode.
    pub fn proof(self: &Arc<Self>, node: u16) -> Arc<dyn Proof> {
        Arc::new(Of { roster: self.clone(), node })
    }

    /// Finds out the cluster's id, unless it is known: all datanodes that answer must have the same.
    pub async fn survey(&self, datanodes: &Datanodes) -> Result<()> {
        if self.lock().cluster.is_some() {
            return Ok(());
        }
        let found = join_all(datanodes.iter().map(|(_, node)| timeout(SURVEY_MAX, ask(node)))).await;
        let mut clusters: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for ((_, node), found) in datanodes.iter().zip(found) {
            if let Ok(Ok(found)) = found {
                clusters.entry(found.cluster).or_default().push(format!("{}:{}", node.host, node.port));
            }
        }
        if clusters.len() > 1 {
            let members = clusters.iter().fold(String::new(), |mut text, (id, servers)| {
                let _ = write!(text, "{}{id}: {}", if text.is_empty() { "" } else { "; " }, servers.join(", "));
                text
            });
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the datanodes belong to different clusters")
                .detail(members)
                .hint("Correct host and port of the servers in the configuration; \"loxo check\" says more."));
        }
        self.lock().cluster = clusters.into_keys().next();
        Ok(())
    }

    fn databases(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.databases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is it this node, as it was or later? Errors read on from "the server at …".
    fn judge(&self, database: &str, node: u16, generation: u64, found: &Found) -> Result<()> {
        let mut known = self.lock();
        let cluster = match database == self.first {
            true => known.cluster.get_or_insert_with(|| found.cluster.clone()).clone(),
            false => self.databases().get(database).map(|known| known.id.clone()).unwrap_or_default(),
        };
        if found.node != node || found.cluster != cluster {
            return Err(wrong("is not the datanode that was expected there").detail(format!(
                "Expected was node {node} of cluster {cluster}; found was node {} of cluster {}.",
                found.node, found.cluster
            )));
        }
        if found.noted != found.system {
            return Err(wrong("is a copy of a datanode")
                .detail(format!(
                    "Node {node} was made on the server with system identifier {}; this one has {}.",
                    found.noted, found.system
                ))
                .hint(
                    "Correct host and port. If the node was moved here on purpose, as by pg_upgrade, write the new \
                     identifier into loxo.identity on this server.",
                ));
        }
        let Some(timeline) = found.timeline else {
            return Err(
                wrong(format!("is a standby of node {node}")).detail("It shows an earlier state, and takes no writes.")
            );
        };
        if found.generation < generation {
            return Err(wrong(format!("is an old copy of node {node}")).detail(format!(
                "Its generation is {}, while that of the cluster was {generation} before.",
                found.generation
            )));
        }
        let server = Server { system: found.system.clone(), timeline };
        match known.nodes.get(&node) {
            Some(before) if before.system != server.system => Err(wrong(format!("is another node {node} than before"))
                .detail(format!("Expected was system identifier {}; found was {}.", before.system, server.system))),
            Some(before) if before.timeline > timeline => Err(wrong(format!("is an old copy of node {node}"))
                .detail(format!("It is on timeline {timeline}, while node {node} was on {} before.", before.timeline))),
            _ => {
                known.nodes.insert(node, server);
                Ok(())
            }
        }
    }

    /// In a database without anything of ours.
    fn judge_system(&self, node: u16, system: &str) -> Result<()> {
        match self.lock().nodes.get(&node) {
            Some(known) if known.system == system => Ok(()),
            Some(known) => Err(wrong("is not the datanode that was expected there")
                .detail(format!("Expected was system identifier {}; found was {system}.", known.system))),
            None => Err(wrong(format!("has not shown yet that it is node {node}"))),
        }
    }
}

impl Proof for Of {
    fn question(&self, database: &str) -> Question {
        let (roster, node) = (self.roster.clone(), self.node);
        let known = roster.databases().get(database).cloned();
        let Some(Known { gtm, .. }) = known else {
            let judge = move |answer: Result<Rows>| roster.judge_system(node, text(&answer?, 0)?);
            return Question { sql: SYSTEM_SQL.to_owned(), judge: Box::new(judge) };
        };
        // Before the server is asked: it may be raised at any time after that.
        let generation = gtm.as_ref().map_or(0, GtmClient::known_generation);
        let database = database.to_owned();
        let judge = move |answer: Result<Rows>| roster.judge(&database, node, generation, &found(answer)?);
        Question { sql: WHO_SQL.to_owned(), judge: Box::new(judge) }
    }
}

async fn ask(node: &ConnectOptions) -> Result<Found> {
    let options = ConnectOptions { proof: None, ..node.clone() };
    found(Connection::connect(&options).await?.query_rows(WHO_SQL).await)
}

fn found(answer: Result<Rows>) -> Result<Found> {
    let rows = answer.map_err(|error| match error.code() {
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => {
            PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "has no Loxodonta metadata")
                .detail(error.message())
                .hint("Prepare the cluster with `loxo up` or `loxo init --config FILE`.")
        }
        SqlState::UNDEFINED_COLUMN => {
            PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "has the metadata of another version of loxo")
                .detail(error.message())
                .hint("Use the loxo that made the cluster; to move on, dump with pg_dump through it and restore into a new cluster.")
        }
        _ => error,
    })?;
    let timeline = |name: &str| u32::from_str_radix(name.get(..TIMELINE_DIGITS)?, 16).ok();
    Ok(Found {
        node: number(text(&rows, 0)?)?,
        cluster: text(&rows, 1)?.to_owned(),
        noted: text(&rows, 2)?.to_owned(),
        system: text(&rows, 3)?.to_owned(),
        generation: number(text(&rows, 4)?)?,
        timeline: text(&rows, 5).ok().and_then(timeline),
    })
}

/// A column of the one row.
fn text(rows: &Rows, column: usize) -> Result<&str> {
    let value = rows.first().and_then(|row| row.get(column)?.as_deref());
    value.and_then(|value| std::str::from_utf8(value).ok()).ok_or_else(|| wrong("does not say which node it is"))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| wrong("does not say which node it is"))
}

fn wrong(message: impl Into<String>) -> PgError {
    PgError::new(SqlState::CONFIG_FILE_ERROR, message.into())
        .hint("Correct host and port in the configuration, or bring the right server back to that address; \"loxo check\" says more.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(change: impl FnOnce(&mut Found)) -> Found {
        let mut found = Found {
            node: 1,
            cluster: "c".to_owned(),
            noted: "7".to_owned(),
            system: "7".to_owned(),
            generation: 5,
            timeline: Some(2),
        };
        change(&mut found);
        found
    }

    #[test]
    fn only_the_same_node_as_it_was_or_later_is_taken() {
        let roster = Roster::new(Some("c".to_owned()), "postgres");
        assert!(roster.judge_system(1, "7").is_err(), "not known yet");
        roster.judge("postgres", 1, 5, &found(|_| {})).unwrap();
        roster.judge("postgres", 1, 5, &found(|f| f.generation = 6)).unwrap();
        roster.judge("postgres", 1, 5, &found(|f| f.timeline = Some(3))).unwrap();
        roster.judge_system(1, "7").unwrap();
        let refused = [
            ("another node", found(|f| f.node = 2)),
            ("another cluster", found(|f| f.cluster = "d".to_owned())),
            ("a restored dump", found(|f| f.system = "8".to_owned())),
            ("a standby", found(|f| f.timeline = None)),
            ("an old primary", found(|_| {})),
            ("an old copy", found(|f| (f.generation, f.timeline) = (4, Some(3)))),
        ];
        for (what, found) in refused {
            let error = roster.judge("postgres", 1, 5, &found).expect_err(what);
            assert_eq!(error.code(), SqlState::CONFIG_FILE_ERROR, "{what}");
        }
        assert!(roster.judge_system(1, "8").is_err());
    }
}
