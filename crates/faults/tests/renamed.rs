//! ALTER DATABASE … RENAME TO, whose coordinator dies at each of its steps: all nodes have the one name or all have the other.

use std::time::{Duration, Instant};

use faults::{points, processes};
use testkit::Cluster;
use testkit::wire::Client;

const SETTLED_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

#[test]
fn whoever_dies_while_a_database_is_renamed_leaves_it_one_name() {
    points::check_binary().expect("a binary with control points");
    let cluster = Cluster::start(3, 1).expect("a cluster");
    let mut client = cluster.connect(0).expect("a client");
    client.run("CREATE DATABASE old").expect("a database");
    let mut there = connect(&cluster, "old").expect("a session");
    there.run("CREATE TABLE t (k int PRIMARY KEY) DISTRIBUTE BY HASH (k)").expect("a table");
    there.run("INSERT INTO t SELECT generate_series(1, 1000)").expect("rows");
    drop((there, client));
    for (point, name) in [
        ("rename-left=abort", "old"),
        ("rename-noted=abort", "old"),
        ("renamed-on-one=abort", "old"),
        ("renamed-on-one=abort@2", "old"),
        ("renamed-on-one=abort@3", "old"),
        ("rename-done=abort", "new"),
    ] {
        let coordinator = processes::find(&cluster, "coord1").expect("a coordinator");
        processes::kill(&cluster, &coordinator).expect("it dies");
        cluster.up_with(&[("LOXO_CONTROL_POINTS", point)]).expect("it comes with an order");
        let mut client = cluster.connect(0).expect("a client");
        client.run("ALTER DATABASE old RENAME TO new").expect_err("its coordinator dies");
        assert!(processes::find(&cluster, "coord1").is_err(), "{point}: it has not died");
        is_settled(&cluster, point, name);
        cluster.up().expect("another coordinator");
        let other = if name == "old" { "new" } else { "old" };
        assert_eq!(connect(&cluster, other).err().as_deref(), Some("3D000"), "{point}");
        let mut there = connect(&cluster, name).expect("a session");
        assert_eq!(there.scalar("SELECT count(*) FROM t").expect("a count"), "1000", "{point}");
        there.run("UPDATE t SET k = k + 1000; UPDATE t SET k = k - 1000").expect("all can be written");
    }
    let mut client = cluster.connect(0).expect("a client");
    client.run("CREATE DATABASE old").expect("the name is free");
    cluster.loxo(&["check", "--data"]).expect("no error");
}

fn connect(cluster: &Cluster, database: &str) -> Result<Client, String> {
    let parameters = [("user", "postgres"), ("database", database)];
    Client::connect_with(cluster.coordinators()[0], &parameters).map_err(|error| error.code().as_str().to_owned())
}

/// Without any coordinator.
fn is_settled(cluster: &Cluster, point: &str, name: &str) {
    let on = |datanode, sql: &str| cluster.connect_datanode(datanode).expect("a datanode").strings(sql).expect("rows");
    let deadline = Instant::now() + SETTLED_MAX;
    while on(0, "SELECT name, state FROM loxo.database") != [[name, "ready"]] {
        assert!(Instant::now() < deadline, "{point}: the journal is not as it should be");
        std::thread::sleep(POLL);
    }
    for datanode in 0..3 {
        let names = on(datanode, "SELECT datname FROM pg_database WHERE datname IN ('old', 'new')");
        assert_eq!(names, [[name]], "{point}: datanode {datanode}");
    }
}
