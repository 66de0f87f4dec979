//! The 22 TPC-H queries on a cluster answer like one PostgreSQL, wherever the tables lie.

use std::sync::{LazyLock, Mutex, PoisonError};

use bench::power::{Answered, Layout};
use bench::{PowerOptions, Target};
use testkit::Cluster;

const SCALE_FACTOR: f64 = 0.01;
/// The machine may be busy with other tests.
const TIMEOUT_SECONDS: u32 = 120;

/// One cluster for both layouts, one after the other.
static CLUSTER: LazyLock<Mutex<Cluster>> = LazyLock::new(|| Mutex::new(Cluster::start(2, 1).expect("a cluster")));

fn run(layout: Layout) {
    let cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Target {
        coordinators: cluster.coordinator_uris(),
        datanodes: cluster.datanode_uris(),
        dir: cluster.dir(),
        distributed: cluster.is_distributed(),
    };
    let options = PowerOptions {
        scale_factor: SCALE_FACTOR,
        rounds: 1,
        timeout_seconds: TIMEOUT_SECONDS,
        ..PowerOptions::new(layout)
    };
    let runtime = tokio::runtime::Runtime::new().expect("a tokio runtime");
    let report = runtime.block_on(bench::power::run(&options, async || Ok(target))).expect("a report");
    let failed: Vec<String> =
        report.queries.iter().filter(|q| q.answered != Answered::Right).map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(report.right(), 22);
    assert!(report.queries.iter().all(|query| query.cluster.is_some() && query.stock.is_some()), "{report}");
}

#[test]
fn large_tables_by_their_join_keys_small_ones_everywhere() {
    run(Layout::Mixed);
}

#[test]
fn every_table_by_its_own_key() {
    run(Layout::Hash);
}
