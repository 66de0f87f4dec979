//! What must be true after a fault: no transaction stays in doubt.

use std::time::{Duration, Instant};

use pgerror::Result;
use testkit::Cluster;
use testkit::wire::Client;

use crate::processes::failure;

/// Between two looks.
const POLL: Duration = Duration::from_millis(20);

/// Waits until no datanode holds a prepared transaction and gives how long that took.
///
/// # Errors
/// When one is left after `limit`: where, and its gid; or when a datanode cannot be reached by then.
pub fn until_nothing_is_prepared(cluster: &Cluster, limit: Duration) -> Result<Duration> {
    let begin = Instant::now();
    loop {
        let left = prepared(cluster);
        match left {
            Ok(left) if left.is_empty() => return Ok(begin.elapsed()),
            _ if begin.elapsed() < limit => std::thread::sleep(POLL),
            Ok(left) => return Err(failure(format!("still prepared after {limit:?}: {}", left.join(", ")))),
            Err(error) => return Err(error),
        }
    }
}

/// Each prepared transaction as `node: gid`.
fn prepared(cluster: &Cluster) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (number, port) in (1..).zip(cluster.datanodes()) {
        let rows = Client::connect(*port)?.strings("SELECT gid FROM pg_prepared_xacts ORDER BY prepared")?;
        found.extend(rows.into_iter().flatten().map(|gid| format!("dn{number}: {gid}")));
    }
    Ok(found)
}
