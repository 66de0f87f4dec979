//! Tables of the workloads: made anew on a cluster, or on a stock server that plays one.

use pgerror::Result;
use testkit::Cluster;

use crate::processes::failure;

/// Keys that are tried to find one on each datanode.
const KEYS_TRIED: i32 = 200;

/// Drops what an earlier run left and makes the table, spread by `key`.
pub(crate) fn create(cluster: &Cluster, name: &str, columns: &str, key: &str) -> Result<()> {
    make(cluster, name, columns, &format!("HASH ({key})"))
}

/// Drops what an earlier run left and makes the table with a copy of all rows on each datanode.
pub(crate) fn create_replicated(cluster: &Cluster, name: &str, columns: &str) -> Result<()> {
    make(cluster, name, columns, "REPLICATION")
}

fn make(cluster: &Cluster, name: &str, columns: &str, distribution: &str) -> Result<()> {
    let mut client = cluster.connect(0)?;
    client.run(&format!("DROP TABLE IF EXISTS {name}"))?;
    let clause = if cluster.is_distributed() { format!("DISTRIBUTE BY {distribution}") } else { String::new() };
    client.run(&format!("CREATE TABLE {name} ({columns}) {clause}")).map(drop)
}

/// Two keys of an integer column `key` whose rows lie on the first and on the last datanode. `insert` adds the rows of all
/// keys `k` from the rows `k` that follow it. The rows stay.
pub(crate) fn keys_apart(cluster: &Cluster, name: &str, insert: &str) -> Result<[i32; 2]> {
    cluster.connect(0)?.run(&format!("INSERT INTO {name} {insert} FROM generate_series(1, {KEYS_TRIED}) k"))?;
    let on = |node: usize, which: &str| -> Result<i32> {
        let key = cluster.connect_datanode(node)?.scalar(&format!("SELECT {which}(key) FROM {name}"))?;
        key.parse().map_err(|_| failure(format!("datanode {node} got none of {KEYS_TRIED} keys")))
    };
    // Different ones also if there is only one datanode.
    Ok([on(0, "min")?, on(cluster.datanodes().len() - 1, "max")?])
}
