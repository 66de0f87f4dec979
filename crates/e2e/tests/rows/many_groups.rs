//! Many groups are finished on all nodes, if there are enough of both, with the answers of one PostgreSQL.

use std::sync::Arc;

use e2e::differential::{Pair, Protocol, run};
use e2e::script;
use testkit::{Cluster, Server, ServerOptions};

const SOURCE: &str = include_str!("../../large/many_groups.sql");

#[test]
fn four_nodes_finish_many_groups_like_one_postgresql() {
    let cluster = Arc::new(Cluster::start(4, 1).expect("a cluster"));
    let options = ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("its locale");
    let reference = Server::start(&options).expect("a stock server");
    let variants = script::variants(&script::parse(SOURCE));
    for (variant, protocol) in variants.iter().zip([Protocol::Simple, Protocol::Extended]) {
        let mut pair = Pair {
            reference: reference.connect().expect("a session"),
            cluster: cluster.connect(0).expect("a session"),
            distributed: cluster.is_distributed(),
            audited: Some(cluster.clone()),
        };
        let report = run(&mut pair, "many_groups", SOURCE, variant, protocol).expect("a run to its end");
        let unexpected: Vec<&String> = report.refused.iter().filter(|r| !r.expected).map(|r| &r.text).collect();
        assert!(report.differences.is_empty() && unexpected.is_empty(), "{:#?} {unexpected:#?}", report.differences);
        assert!(report.compared > 0);
    }
    if cluster.is_distributed() {
        spreads(&cluster);
    }
}

/// Rows go to nodes by what is grouped, and equal ones once.
fn spreads(cluster: &Cluster) {
    let mut session = cluster.connect(0).expect("a session");
    for sql in [
        "CREATE TABLE wide (id int, g int, few int) DISTRIBUTE BY HASH (id)",
        "INSERT INTO wide SELECT i, i % 80000, i % 10 FROM generate_series(1, 160000) i",
        "ANALYZE wide",
        "CREATE INDEX ON wide (g)",
    ] {
        session.run(sql).expect(sql);
    }
    let mut plan = |sql: &str| session.strings(&format!("EXPLAIN {sql}")).expect("a plan").concat().join("\n");
    let spread = plan("SELECT g, count(*) FROM wide GROUP BY g ORDER BY 2 DESC, 1 LIMIT 3");
    assert!(spread.contains("to hash of column 0 Int4"), "{spread}");
    let distinct = plan("SELECT count(DISTINCT few) FROM wide");
    assert!(distinct.contains("SELECT DISTINCT wide.few"), "{distinct}");
    let union = plan("SELECT g FROM wide UNION SELECT id FROM wide ORDER BY 1 LIMIT 3");
    assert_eq!(union.matches("to hash of column 0 Int4").count(), 2, "{union}");
    let except = plan("SELECT count(*) FROM (SELECT id, few FROM wide EXCEPT SELECT g, few FROM wide) x");
    assert_eq!(except.matches("to hash of column 0 Int4").count(), 2, "{except}");
    let few = plan("SELECT few, count(*) FROM wide GROUP BY few");
    assert!(few.starts_with("Gather"), "{few}");
}
