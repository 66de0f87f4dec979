//! Datanodes that stand still, or take nobody in: statements end, sessions go on.

use std::process::Command;
use std::time::{Duration, Instant};

use testkit::Cluster;
use testkit::wire::Client;

fn signal(pids: &[u32], signal: &str) {
    let status = Command::new("kill").arg(signal).args(pids.iter().map(u32::to_string)).status();
    assert!(status.expect("kill runs").success());
}

/// Stops all processes of a datanode; gives their ids.
fn freeze(cluster: &Cluster, node: usize) -> Vec<u32> {
    let mut client = cluster.connect_datanode(node).expect("a datanode");
    let file = client.scalar("SELECT pg_read_file('postmaster.pid')").expect("its file");
    let postmaster = file.lines().next().expect("a line").parse().expect("a number");
    // The postmaster first: it starts nobody any more, and a child that ends keeps its id until it takes notice.
    signal(&[postmaster], "-STOP");
    let children = Command::new("pgrep").args(["-P", &postmaster.to_string()]).output().expect("pgrep runs").stdout;
    let mut pids: Vec<u32> = String::from_utf8_lossy(&children).lines().filter_map(|pid| pid.parse().ok()).collect();
    signal(&pids, "-STOP");
    pids.push(postmaster);
    pids
}

/// Runs it while the second datanode stands still; gives the error's code.
fn while_frozen(cluster: &Cluster, client: &mut Client, sql: &str) -> String {
    let pids = freeze(cluster, 1);
    let started = Instant::now();
    let answer = client.run(sql);
    let elapsed = started.elapsed();
    signal(&pids, "-CONT");
    assert!(elapsed < Duration::from_secs(20), "{sql}: {elapsed:?}");
    answer.expect_err(sql).code().as_str().to_owned()
}

fn goes_on(client: &mut Client) {
    let started = Instant::now();
    while !client.scalar("SELECT count(*) FROM kept").is_ok_and(|count| count == "8") {
        assert!(started.elapsed() < Duration::from_secs(30), "the session goes on");
    }
}

fn a_statement_times_out(cluster: &Cluster) {
    let mut client = cluster.connect(0).expect("a session");
    client.run("SET statement_timeout = '1s'").expect("a setting");
    for sql in [
        "SELECT count(*) FROM kept",
        "SELECT a.k FROM kept a JOIN kept b ON a.v = b.k",
        "BEGIN; UPDATE kept SET v = v; SELECT count(*) FROM kept",
        "CREATE TABLE other (k int) DISTRIBUTE BY REPLICATION",
        "INSERT INTO kept SELECT k + 100, v FROM kept",
    ] {
        goes_on(&mut client);
        assert_eq!(while_frozen(cluster, &mut client, sql), "57014", "{sql}");
        client.run("ROLLBACK").expect("the end of a block");
    }
    goes_on(&mut client);
}

/// Whoever looks sees what is waited for.
fn a_statement_that_waits_is_seen(cluster: &Cluster) {
    let (mut client, mut dba) = (cluster.connect(0).expect("a session"), cluster.connect(0).expect("a session"));
    goes_on(&mut client);
    goes_on(&mut dba);
    let wait = format!(
        "SELECT wait_event_type || ' ' || wait_event FROM pg_stat_activity WHERE pid = {}",
        client.backend_key.0
    );
    let pids = freeze(cluster, 1);
    client.send_query("SELECT count(*) FROM kept").expect("sent");
    let started = Instant::now();
    let mut seen = String::new();
    while seen != "IPC DatanodeAnswer" && started.elapsed() < Duration::from_secs(20) {
        seen = dba.scalar(&wait).unwrap_or_else(|error| error.to_string());
    }
    signal(&pids, "-CONT");
    assert_eq!(seen, "IPC DatanodeAnswer");
    assert!(client.wait().expect("an answer")[0].error.is_none());
}

/// A server that has no place left says FATAL to the coordinator, not to the client.
fn a_datanode_is_full(cluster: &Cluster) {
    let mut client = cluster.connect(0).expect("a session");
    let mut admin = cluster.connect_datanode(1).expect("a datanode");
    admin.run("CREATE ROLE few LOGIN CONNECTION LIMIT 0").expect("a role");
    cluster.connect_datanode(0).expect("a datanode").run("CREATE ROLE few LOGIN").expect("a role");
    client.run("GRANT SELECT ON kept TO PUBLIC").expect("a right");
    let parameters = [("user", "few"), ("database", "postgres")];
    let mut few = Client::connect_with(cluster.coordinators()[0], &parameters).expect("a session");
    for _ in 0..3 {
        assert_eq!(few.run("SELECT count(*) FROM kept").expect_err("no place").code().as_str(), "53300");
    }
    admin.run("ALTER ROLE few CONNECTION LIMIT -1").expect("a place");
    assert_eq!(few.scalar("SELECT count(*) FROM kept").expect("rows"), "8");
}

#[test]
fn statements_end_and_sessions_go_on() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE kept (k int, v int) DISTRIBUTE BY HASH (k)").expect("a table");
    client.run("INSERT INTO kept SELECT g, 9 - g FROM generate_series(1, 8) g").expect("rows");
    a_datanode_is_full(&cluster);
    a_statement_times_out(&cluster);
    a_statement_that_waits_is_seen(&cluster);
}
