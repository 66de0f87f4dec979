//! What must be true after a fault and the end of the workload: no transaction stays open or in doubt, no row lies where it
//! does not belong.

use std::time::{Duration, Instant};

use pgerror::Result;
use testkit::Cluster;
use testkit::wire::Client;

use crate::processes::failure;

/// Between two looks.
const POLL: Duration = Duration::from_millis(20);

/// The name under which the pair of this number is prepared by its writer.
pub fn user_gid(pair: u64) -> String {
    format!("pair {pair}")
}

/// Commits, through a coordinator, what writers have prepared under names of [`user_gid`] and lost sight of.
fn finish_users(cluster: &Cluster) -> Result<()> {
    let sql = "SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'pair %'";
    let left = cluster.connect(0)?.strings(sql)?;
    let commit = |name: String| cluster.connect(0)?.run(&format!("COMMIT PREPARED '{name}'")).map(drop);
    // Each is tried, whatever becomes of the others.
    left.into_iter().flatten().map(commit).fold(Ok(()), Result::and)
}

/// Waits until no datanode holds a prepared transaction, and gives how long that took. Those of users are committed meanwhile.
///
/// # Errors
/// When one is left after `limit`: where, and its gid; or when a datanode cannot be reached by then.
pub fn until_resolved(cluster: &Cluster, limit: Duration) -> Result<Duration> {
    wait(cluster, limit, PREPARED)
}

/// Waits until no datanode holds a prepared transaction and none runs any more. (A client that left in the middle of its commit may be forgotten, its transaction
/// may still run.) Then every row lies where it belongs.
///
/// # Errors
/// Those of [`until_resolved`]; what `loxo check --data` finds.
pub fn until_quiet(cluster: &Cluster, limit: Duration) -> Result<Duration> {
    let waited = wait(cluster, limit, &format!("{PREPARED} UNION ALL {RUNNING}"))?;
    match cluster.wrong_rows() {
        Some(found) => Err(failure(found)),
        None => Ok(waited),
    }
}

const PREPARED: &str = "SELECT gid FROM pg_prepared_xacts";
/// The transaction by which the leading gtm holds its lock never ends.
const RUNNING: &str = "SELECT concat_ws(' ', 'session', pid, application_name, state, query) FROM pg_stat_activity AS a \
    WHERE backend_type = 'client backend' AND xact_start IS NOT NULL AND pid <> pg_backend_pid() \
    AND NOT EXISTS (SELECT FROM pg_locks WHERE pg_locks.pid = a.pid AND relation = to_regclass('loxo.leader') AND granted)";

fn wait(cluster: &Cluster, limit: Duration, sql: &str) -> Result<Duration> {
    let begin = Instant::now();
    let mut finished = Ok(());
    loop {
        match unfinished(cluster, sql) {
            Ok(left) if left.is_empty() => return Ok(begin.elapsed()),
            _ if begin.elapsed() < limit => {
                finished = finish_users(cluster);
                std::thread::sleep(POLL);
            }
            Ok(left) => {
                let why = finished.err().map(|error| format!(" ({error})")).unwrap_or_default();
                return Err(failure(format!("not finished after {limit:?}: {}{why}", left.join(", "))));
            }
            Err(error) => return Err(error),
        }
    }
}

/// What `sql` finds, with its node.
fn unfinished(cluster: &Cluster, sql: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (name, port) in datanodes(cluster)? {
        let rows = Client::connect(port)?.strings(sql)?;
        found.extend(rows.into_iter().flatten().map(|what| format!("{name}: {what}")));
    }
    Ok(found)
}

/// Those that the cluster has now.
pub(crate) fn datanodes(cluster: &Cluster) -> Result<Vec<(String, u16)>> {
    if !cluster.is_distributed() {
        return Ok(vec![("the server".to_owned(), cluster.datanodes()[0])]);
    }
    let sql = "SELECT name, port FROM loxo.node WHERE type = 'D' ORDER BY id";
    let rows = cluster.connect_datanode(0)?.strings(sql)?.into_iter();
    Ok(rows.map(|row| (row[0].clone(), row[1].parse().unwrap_or(0))).collect())
}
