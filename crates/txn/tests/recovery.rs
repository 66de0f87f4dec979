//! Recovery against real servers that crash.

mod common;

use std::time::{Duration, Instant};

use common::{Nodes, PATIENCE, Paused, all, committed, value};
use pgproto::Connection;
use tokio::net::TcpListener;
use txn::gtm::{GtmOptions, serve};
use txn::{Gid, GtmClient, resolve_all};

/// The only prepared transaction of a node.
async fn only_gid(connection: &mut Connection) -> Gid {
    value(connection, "SELECT gid FROM pg_prepared_xacts").await.parse().unwrap()
}

#[tokio::test]
async fn a_transaction_id_given_out_twice_does_not_deceive_recovery() {
    let mut nodes = Nodes::start(2).await;
    let coordinator = Paused::at(&nodes, "prepared-all", 1).await;
    nodes.servers[0].crash();
    nodes.servers[0].start();
    let gid = only_gid(&mut nodes.servers[1].connect().await).await;

    // The commit point has forgotten the id: it is handed out again, and its new owner commits.
    let mut connection = nodes.servers[0].connect().await;
    let status = format!("SELECT pg_xact_status('{}')", gid.xid);
    let mut given_out = 0;
    while given_out <= gid.xid {
        given_out = value(&mut connection, "SELECT pg_current_xact_id()").await.parse().unwrap();
    }
    assert_eq!(value(&mut connection, &status).await, "committed", "the premise of this test");

    let report = resolve_all(&nodes.options()).await;
    assert_eq!((report.resolved, report.waiting.len()), (1, 0));
    assert_eq!((nodes.count(1).await, nodes.prepared().await), (0, 0));
    coordinator.go_on().await.unwrap_err();
    assert_eq!(nodes.count(1).await, 0);
}

#[tokio::test]
async fn a_forgotten_transaction_id_means_rolled_back() {
    let mut nodes = Nodes::start(2).await;
    let coordinator = Paused::at(&nodes, "prepared-all", 1).await;
    // While it lives: a transaction that rolls back would have the server write down that there was one.
    nodes.servers[0].crash();
    coordinator.kill().await;
    nodes.servers[0].start();
    let gid = only_gid(&mut nodes.servers[1].connect().await).await;
    let mut connection = nodes.servers[0].connect().await;
    let error = connection.query_rows(&format!("SELECT pg_xact_status('{}')", gid.xid)).await.unwrap_err();
    assert!(error.message().contains("in the future"), "the premise of this test: {error}");

    assert_eq!(resolve_all(&nodes.options()).await.resolved, 1);
    assert_eq!((nodes.count(1).await, nodes.prepared().await), (0, 0));
}

#[tokio::test]
async fn a_decision_outlives_a_crash_of_every_node() {
    let mut nodes = Nodes::start(3).await;
    Paused::at(&nodes, "decided", 1).await.kill().await;
    nodes.servers.iter_mut().for_each(|server| server.crash());
    assert_eq!(resolve_all(&nodes.options()).await.unreachable.len(), 3);

    // Without the commit point's node nobody knows; it is left, and reported.
    nodes.servers[1].start();
    drop(nodes.servers[1].connect().await);
    let report = resolve_all(&nodes.options()).await;
    assert_eq!((report.resolved, report.waiting.len(), report.unreachable.len()), (0, 1, 2));
    let doubt = &report.waiting[0];
    assert_eq!((doubt.node, doubt.gid.commit_point, doubt.database.as_str()), (1, 0, "postgres"));
    assert!(doubt.reason.contains("datanode 0"), "{}", doubt.reason);

    nodes.servers[0].start();
    drop(nodes.servers[0].connect().await);
    assert_eq!(resolve_all(&nodes.options()).await.resolved, 1);
    nodes.servers[2].start();
    drop(nodes.servers[2].connect().await);
    assert_eq!(resolve_all(&nodes.options()).await.resolved, 1);
    assert_eq!((nodes.count(1).await, nodes.prepared().await), (3, 0));
}

#[tokio::test]
async fn what_is_not_in_doubt_is_left_alone() {
    let nodes = Nodes::start(2).await;
    // A commit under way, prepared but not decided, and a user's own prepared transactions.
    let coordinator = Paused::at(&nodes, "prepared-all", 1).await;
    let mut connections = nodes.connect().await;
    all(&mut connections, "BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION 'mine'").await;
    all(&mut connections, "BEGIN; INSERT INTO t VALUES (3); PREPARE TRANSACTION 'loxo_1_mine'").await;
    for _ in 0..3 {
        let report = resolve_all(&nodes.options()).await;
        assert_eq!((report.resolved, report.waiting.len()), (0, 1), "{report:?}");
    }
    assert_eq!(coordinator.go_on().await.unwrap(), committed());
    assert_eq!((nodes.count(1).await, nodes.prepared().await), (2, 4));
}

#[tokio::test]
async fn a_commit_point_that_is_not_one_of_ours_is_not_believed() {
    let nodes = Nodes::start(2).await;
    Paused::at(&nodes, "prepared-all", 1).await.kill().await;
    // The node was put up anew, say: without the table it cannot tell that a decision is missing.
    all(std::slice::from_mut(&mut nodes.servers[0].connect().await), "DROP SCHEMA loxo CASCADE").await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let report = resolve_all(&nodes.options()).await;
        assert_eq!((report.resolved, report.waiting.len()), (0, 1), "{report:?}");
        if report.waiting[0].reason.contains("loxo.decision") {
            break;
        }
        assert!(Instant::now() < deadline, "{report:?}");
    }
    // And one whose commit point no node of the list can be.
    let foreign = "BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION 'loxo_1_9_700_00000000000000ff_1'";
    all(std::slice::from_mut(&mut nodes.servers[1].connect().await), foreign).await;
    let report = resolve_all(&nodes.options()).await;
    assert_eq!((report.resolved, report.waiting.len()), (0, 2), "{report:?}");
    assert!(report.waiting.iter().any(|doubt| doubt.reason.contains("datanode 9, is not a node")), "{report:?}");
    assert_eq!(nodes.prepared().await, 2);
}

#[tokio::test]
async fn the_gtm_recovers_and_clears_up_unasked() {
    let mut nodes = Nodes::start(2).await;
    Paused::at(&nodes, "decided", 1).await.kill().await;
    let mut connection = nodes.servers[0].connect().await;
    let decisions = "SELECT count(*) FROM loxo.decision";
    assert_eq!(value(&mut connection, decisions).await, "1");
    // Old, but still needed: it must not be deleted before the participant is committed.
    let age = "UPDATE loxo.decision SET at = at - interval '1 hour'";
    all(std::slice::from_mut(&mut connection), age).await;
    all(std::slice::from_mut(&mut connection), "INSERT INTO loxo.decision VALUES ('loxo_1_0_9_0000000000000001_1')")
        .await;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut options = GtmOptions::new(nodes.options());
    options.recovery_interval = Duration::from_millis(50);
    let gtm = tokio::spawn(serve(listener, options));
    resolved_by_gtm(&nodes, 1).await;
    let deadline = Instant::now() + PATIENCE;
    while value(&mut connection, decisions).await != "1" {
        assert!(Instant::now() < deadline && !gtm.is_finished());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(nodes.count(1).await, 2);
    assert_eq!(value(&mut connection, "SELECT gid FROM loxo.decision").await, "loxo_1_0_9_0000000000000001_1");

    // Its connections are dead now, and so is the commit point for a while.
    drop(connection);
    nodes.gtm = GtmClient::connect(vec![address], "test");
    assert!(nodes.gtm.global_snapshot().await.unwrap().complete());
    Paused::at(&nodes, "decided", 2).await.kill().await;
    for server in &mut nodes.servers {
        server.crash();
        server.start();
    }
    resolved_by_gtm(&nodes, 2).await;
    gtm.abort();
}

/// Waits until nothing is prepared; then `k` must be on both nodes.
async fn resolved_by_gtm(nodes: &Nodes, k: i32) {
    let deadline = Instant::now() + PATIENCE;
    while nodes.prepared().await > 0 {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(nodes.count(k).await, 2);
}
