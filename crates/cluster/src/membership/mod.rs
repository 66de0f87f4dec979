//! Which datanodes there are, what they hold, and the statements by which that changes.
//!
//! The truth is in `loxo.node` on the primary datanode, not in the configuration, which may be older. For the address of a
//! datanode that it names the configuration has the last word, as for coordinators.

use std::time::{Duration, Instant};

use pgerror::{PgError, Result, SqlState};
use serde::Serialize;

use crate::config::Config;
use crate::progress::Progress;
use crate::sql::{Session, identifier};

mod lost;
mod plan;
pub mod primary;
mod rebalance;

pub(crate) use lost::is_given_up;
pub use lost::{Loss, LostRows, give_up, loss};
pub use plan::{Levelling, Move, level_plan, plan};
pub(crate) use rebalance::unfinished;
pub use rebalance::{Extent, Rebalance, duration, rebalance};

/// Longest wait for databases that are being created or dropped, and between two looks.
const COME_AND_GO_MAX: Duration = Duration::from_secs(30);
const COME_AND_GO_LOOK: Duration = Duration::from_millis(100);
/// Databases that are being created, renamed or dropped.
const UNSETTLED: &str = "state <> 'ready'";

/// A datanode of the cluster, by the metadata.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Member {
    pub id: u16,
    pub name: String,
    pub host: String,
    pub port: u16,
    pub is_primary: bool,
}

const MEMBERS_SQL: &str = "SELECT id, name, host, port, is_primary FROM loxo.node WHERE type = 'D' ORDER BY id";

/// The datanodes, by their ids.
pub async fn members(config: &Config) -> Result<Vec<Member>> {
    read_members(config, &primary(config).await?).await
}

pub(crate) async fn read_members(config: &Config, primary: &Session) -> Result<Vec<Member>> {
    let member = |row: Vec<Option<String>>| {
        let mut row = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || row.next().unwrap_or_default();
        let (id, name, host, port, is_primary) = (next(), next(), next(), next(), next() == "t");
        let id = id.parse().map_err(|_| PgError::internal("a datanode without an id"))?;
        let configured = config.datanodes_by_id().find(|(of, node)| (*of, &node.name) == (id, &name));
        let (host, port) = match configured {
            Some((_, node)) => (node.host.clone(), node.port),
            None => (host, port.parse().map_err(|_| PgError::internal("a datanode without a port"))?),
        };
        Ok(Member { id, name, host, port, is_primary })
    };
    primary.rows(MEMBERS_SQL).await?.into_iter().map(member).collect()
}

/// Names of coordinators and gtms, by the metadata.
pub(crate) async fn others(config: &Config) -> Result<Vec<String>> {
    let rows = primary(config).await?.rows("SELECT name FROM loxo.node WHERE type <> 'D'").await?;
    Ok(rows.into_iter().flatten().flatten().collect())
}

pub(crate) async fn primary(config: &Config) -> Result<Session> {
    let node = config.primary();
    let session = Session::connect(&config.endpoint(&node.host, node.port)?).await;
    session.map_err(|error| crate::init::at(node, error))
}

/// The configuration, in each of the cluster's databases, the first one first.
pub async fn databases(config: &Config) -> Result<Vec<Config>> {
    let sql = "SELECT name FROM loxo.database WHERE state = 'ready' ORDER BY name";
    let others = primary(config).await?.rows(sql).await?.into_iter().flatten().flatten();
    let names = std::iter::once(config.cluster.database.clone()).chain(others);
    let of_name = |name| {
        let mut config = config.clone();
        config.cluster.database = name;
        config
    };
    Ok(names.map(of_name).collect())
}

/// [`databases`] without the first one; none on a cluster of a version that knew of no others.
pub(crate) async fn other_databases(config: &Config) -> Result<Vec<Config>> {
    match databases(config).await {
        Ok(all) => Ok(all.into_iter().skip(1).collect()),
        Err(error) if error.code() == SqlState::UNDEFINED_TABLE => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The configuration, in each of the databases, beside the first, that lack this datanode of the first one. Those that are just being
/// created or dropped are waited for.
pub(crate) async fn lacking(config: &Config, id: u16) -> Result<Vec<Config>> {
    wait_for_databases(config, UNSETTLED).await?;
    databases_where(config, id, false).await
}

/// Waits while there is a database of this kind; gives one that stays so.
async fn wait_for_databases(config: &Config, kind: &str) -> Result<Option<String>> {
    let session = primary(config).await?;
    let some = format!("SELECT name FROM loxo.database WHERE {kind} LIMIT 1");
    let patience = Instant::now() + COME_AND_GO_MAX;
    loop {
        let found = session.value(&some).await?;
        if found.is_none() || Instant::now() > patience {
            return Ok(found);
        }
        tokio::time::sleep(COME_AND_GO_LOOK).await;
    }
}

/// Those that have it, or have it not, beside the first.
async fn databases_where(config: &Config, id: u16, have: bool) -> Result<Vec<Config>> {
    let has = format!("SELECT true FROM loxo.node WHERE type = 'D' AND id = {id}");
    let mut found = Vec::new();
    for config in other_databases(config).await? {
        let has = match primary(&config).await {
            Ok(session) => session.value(&has).await?.is_some(),
            // It was dropped just now.
            Err(error) if error.code() == SqlState::INVALID_CATALOG_NAME => continue,
            Err(error) => return Err(error),
        };
        if has == have {
            found.push(config);
        }
    }
    Ok(found)
}

/// A session of the service user with any coordinator that answers.
pub(crate) async fn coordinator(config: &Config) -> Result<Session> {
    coordinator_for(config, "").await
}

/// [`coordinator`] with settings, as `-c name=value`.
async fn coordinator_for(config: &Config, settings: &str) -> Result<Session> {
    let mut refusal = PgError::connection("the configuration names no coordinator");
    for coordinator in &config.coordinators {
        match Session::connect_with(&config.coordinator_endpoint(coordinator)?, settings).await {
            Ok(session) => return Ok(session),
            Err(error) => refusal = error,
        }
    }
    Err(refusal.hint("A coordinator must run: start one, or the local cluster with \"loxo up\"."))
}

/// A datanode and what it holds.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct NodeStatus {
    pub name: String,
    pub id: u16,
    pub host: String,
    pub port: u16,
    pub primary: bool,
    /// Its buckets in the map of tables that are distributed over all datanodes, in the first database.
    pub buckets: usize,
    /// Rows of users' tables in all databases, as last estimated; `None` if the node does not answer.
    pub rows: Option<i64>,
    /// Bytes of all databases of the cluster.
    pub bytes: Option<i64>,
    /// Why it does not answer.
    pub trouble: Option<String>,
    /// Databases that it is not a datanode of, yet or any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<String>,
}

/// Rows and bytes that a database holds. Tables without statistics count for no rows.
const HOLDS_SQL: &str = "SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::int8, pg_database_size(current_database()) \
     FROM pg_class AS c JOIN loxo.class AS k ON k.relid = c.oid WHERE c.relkind IN ('r', 'm')";

/// All datanodes, reachable or not.
pub async fn list(config: &Config) -> Result<Vec<NodeStatus>> {
    let primary = primary(config).await?;
    let map = plan::read_map(&primary).await?;
    let databases = with_their_datanodes(config).await?;
    let mut list = Vec::new();
    for member in read_members(config, &primary).await? {
        let buckets = map.as_slice().iter().filter(|node| **node == member.id).count();
        let (having, lacking): (Vec<_>, Vec<_>) = databases.iter().partition(|(_, ids)| ids.contains(&member.id));
        let (rows, bytes, trouble) = match owned_in_all(having.into_iter().map(|(config, _)| config), &member).await {
            Ok((rows, bytes)) => (Some(rows), Some(bytes), None),
            Err(error) => (None, None, Some(error.to_string())),
        };
        let lacking = lacking.into_iter().map(|(config, _)| config.cluster.database.clone()).collect();
        let Member { id, name, host, port, is_primary } = member;
        list.push(NodeStatus { name, id, host, port, primary: is_primary, buckets, rows, bytes, trouble, lacking });
    }
    Ok(list)
}

/// Each database, and the ids of its datanodes.
async fn with_their_datanodes(config: &Config) -> Result<Vec<(Config, Vec<u16>)>> {
    let mut found = Vec::new();
    for config in databases(config).await? {
        let members = members(&config).await?;
        found.push((config, members.into_iter().map(|member| member.id).collect()));
    }
    Ok(found)
}

async fn owned_in_all(databases: impl Iterator<Item = &Config>, member: &Member) -> Result<(i64, i64)> {
    let mut sum = (0, 0);
    for config in databases {
        let (rows, bytes) = owned(config, member).await?;
        sum = (sum.0 + rows, sum.1 + bytes);
    }
    Ok(sum)
}

async fn owned(config: &Config, member: &Member) -> Result<(i64, i64)> {
    let session = Session::connect(&config.endpoint(&member.host, member.port)?).await?;
    let row = session.rows(HOLDS_SQL).await?.into_iter().next().unwrap_or_default();
    let mut values = row.into_iter().map(|value| value.and_then(|value| value.parse().ok()).unwrap_or(0));
    Ok((values.next().unwrap_or(0), values.next().unwrap_or(0)))
}

/// What nothing but a user can move away from datanode $1.
const KEEPS_SQL: &str = "
    SELECT what FROM (
        SELECT format('it is a member of node group %I', g.name) AS what FROM loxo.node_group AS g WHERE $1 = ANY (g.members)
        UNION ALL SELECT format('table %s lies there alone', k.relid::regclass)
        FROM loxo.class AS k JOIN pg_class AS c ON c.oid = k.relid LEFT JOIN loxo.bucket_map AS m ON m.id = k.map_id
        WHERE $1 = ALL (coalesce(k.nodes, m.nodes))) AS found
    ORDER BY what";

/// Empties a datanode and takes it out of the cluster. Its server runs on.
pub async fn remove(config: &Config, name: &str, progress: &Progress) -> Result<()> {
    empty(config, name, progress).await?;
    leave(config, name, progress).await
}

fn find<'m>(members: &'m [Member], name: &str) -> Result<&'m Member> {
    members.iter().find(|member| member.name == name).ok_or_else(|| {
        let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        PgError::new(SqlState::UNDEFINED_OBJECT, format!("there is no datanode \"{name}\""))
            .hint(format!("The datanodes are: {}.", names.join(", ")))
    })
}

/// Moves everything off a datanode, in all databases.
pub(crate) async fn empty(config: &Config, name: &str, progress: &Progress) -> Result<()> {
    let session = primary(config).await?;
    let members = read_members(config, &session).await?;
    let member = find(&members, name)?;
    if member.is_primary {
        return Err(PgError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("{name} is the primary datanode, which cannot be removed"),
        )
        .hint(
            "It holds the sequences and large objects: \"loxo node primary NAME\" gives them to another one first.",
        ));
    }
    if let Err(error) = lost::answers(config, member).await {
        return Err(PgError::connection(format!("{name} does not answer, so its rows cannot be moved"))
            .detail(error.message().into_owned())
            .hint("Start its server. If it is gone for good, --lost gives up what it alone held."));
    }
    let mut all = databases_where(config, member.id, true).await?;
    all.push(config.clone());
    for config in &all {
        can_be_emptied(config, member).await?;
    }
    for config in &all {
        let label = label_in(config, all.len() > 1);
        rebalance(config, Extent::Without(name), &label, progress).await?;
    }
    Ok(())
}

/// For lines about one of several databases.
fn label_in(config: &Config, there_are_several: bool) -> String {
    if there_are_several { format!("database {}: ", config.cluster.database) } else { String::new() }
}

async fn can_be_emptied(config: &Config, member: &Member) -> Result<()> {
    let keeps = KEEPS_SQL.replace("$1", &member.id.to_string());
    match primary(config).await?.value(&keeps).await? {
        None => Ok(()),
        Some(what) => {
            let text = format!("{} cannot be emptied: {what}", member.name);
            Err(PgError::new(SqlState::OBJECT_IN_USE, text).detail(format!("In database {}.", config.cluster.database)).hint(
                "Take it out by ALTER NODE GROUP … DELETE NODE (…), or move the table by ALTER TABLE … TO NODE (…), then run the same command again.",
            ))
        }
    }
}

/// Takes a datanode that is empty out of the cluster: out of the first database last, since that one has all datanodes.
pub(crate) async fn leave(config: &Config, name: &str, progress: &Progress) -> Result<()> {
    let members = members(config).await?;
    let mut all = databases_where(config, find(&members, name)?.id, true).await?;
    all.push(config.clone());
    for config in &all {
        let session = coordinator(config).await?;
        let drop = format!("DROP NODE {}", identifier(name));
        let label = format!("{}waiting for {drop}", label_in(config, all.len() > 1));
        progress.step(&label, session.run(&drop)).await?;
        txn::control_point!("node-leaves-the-next-database");
    }
    Ok(())
}
