//! Datanodes that are gone for good are taken out of the cluster; what the others hold is as it was.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use pgerror::SqlState;
use testkit::wire::Client;
use testkit::{Cluster, Server, ServerOptions, loxo_binary};

const RESOLVED_MAX: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

/// Makes a server a datanode, with its share of the rows.
fn far(cluster: &Cluster, name: &str) -> Server {
    let server = Server::start(&ServerOptions::default()).unwrap();
    let port = server.port().to_string();
    succeeded(loxo(cluster, &["node", "add", "--rebalance", "--name", name, "--host", "127.0.0.1", "--port", &port]));
    server
}

/// As on real hosts.
fn loxo(cluster: &Cluster, arguments: &[&str]) -> Output {
    let mut loxo = Command::new(loxo_binary().unwrap());
    loxo.args(arguments).arg("--config").arg(cluster.dir().join("cluster.toml")).output().unwrap()
}

#[track_caller]
fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The command must fail and explain itself with all these words; gives its result.
#[track_caller]
fn fails_saying(output: Output, words: &[&str]) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for word in words {
        assert!(text.contains(word), "\"{word}\" is not in: {text}");
    }
    String::from_utf8(output.stdout).unwrap()
}

fn names(client: &mut Client) -> Vec<String> {
    client.strings("SELECT node_name FROM pgxc_node WHERE node_type = 'D' ORDER BY node_name").unwrap().concat()
}

#[track_caller]
fn refused(client: &mut Client, sql: &str, code: SqlState) {
    assert_eq!(client.run(sql).unwrap_err().code(), code, "{sql}");
}

const TABLES: [&str; 10] = [
    "CREATE TABLE account (id int PRIMARY KEY, money int) DISTRIBUTE BY HASH (id)",
    "INSERT INTO account SELECT i, 100 FROM generate_series(1, 3000) AS i",
    "CREATE TABLE copies (n int PRIMARY KEY) DISTRIBUTE BY REPLICATION",
    "INSERT INTO copies SELECT generate_series(1, 10)",
    "CREATE TABLE history (n int) DISTRIBUTE BY ROUNDROBIN",
    "CREATE TABLE alone (n int) DISTRIBUTE BY HASH (n) TO NODE (far)",
    "INSERT INTO alone SELECT generate_series(1, 50)",
    "CREATE NODE GROUP pair WITH (dn2, far)",
    "CREATE NODE GROUP single WITH (far)",
    "CREATE TABLE grouped (n int) DISTRIBUTE BY HASH (n) TO GROUP pair",
];

#[test]
fn what_a_lost_datanode_held_is_gone_and_the_rest_is_as_it_was() {
    let cluster = Cluster::start(2, 2).unwrap();
    let server = far(&cluster, "far");
    let mut client = cluster.connect(0).unwrap();
    TABLES.iter().for_each(|sql| client.run(sql).map(drop).unwrap_or_else(|error| panic!("{sql}: {error}")));
    client.run("ANALYZE").unwrap();
    not_while_it_answers(&cluster, &mut client);
    client
        .run("BEGIN; INSERT INTO account SELECT i, 0 FROM generate_series(3001, 3300) AS i; PREPARE TRANSACTION 'kept'")
        .unwrap();
    let mut left: Vec<Client> = (0..2).map(|node| cluster.connect_datanode(node).unwrap()).collect();
    let count = |left: &mut [Client]| {
        left.iter_mut()
            .map(|node| node.scalar("SELECT count(*) FROM account").unwrap().parse::<i64>().unwrap())
            .sum::<i64>()
    };
    let rows_left = count(&mut left);
    // A row that belongs on the second datanode, written by a transaction that only the lost one could decide.
    let id = left[1].scalar("SELECT min(id) FROM account").unwrap();
    server.stop().unwrap();
    const GID: &str = "loxo_1_2_777_00000000000000aa_1";
    left[1]
        .run(&format!("BEGIN; UPDATE account SET money = 1000 WHERE id = {id}; PREPARE TRANSACTION '{GID}'"))
        .unwrap();

    fails_saying(loxo(&cluster, &["node", "remove", "far"]), &["far does not answer", "--lost"]);
    let told = fails_saying(loxo(&cluster, &["node", "remove", "far", "--lost"]), &["nothing was done", "--yes"]);
    for words in
        ["1365 of 4096 buckets of the map over all datanodes", "public.alone", "they lie nowhere else", GID, "dn2"]
    {
        assert!(told.contains(words), "{words} is not in: {told}");
    }
    assert!(!told.contains("public.copies"), "{told}");
    let account = told.lines().find(|line| line.starts_with("public.account")).unwrap_or_else(|| panic!("{told}"));
    let estimated: i64 = account.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!((estimated - (3000 - rows_left)).abs() < 150, "{account}");
    let said = succeeded(loxo(&cluster, &["node", "remove", "far", "--lost", "--yes"]));
    assert!(said.contains("far is no datanode any more"), "{said}");

    let money = format!("SELECT money FROM account WHERE id = {id}");
    let deadline = Instant::now() + RESOLVED_MAX;
    while left[1].scalar(&money).unwrap() != "1000" {
        assert!(Instant::now() < deadline, "it is still in doubt");
        std::thread::sleep(POLL);
    }
    for coordinator in 0..2 {
        let mut client = cluster.connect(coordinator).unwrap();
        assert_eq!(names(&mut client), ["dn1", "dn2"]);
        assert_eq!(client.scalar("SELECT count(*) FROM account").unwrap(), rows_left.to_string());
        assert_eq!(client.scalar(&money).unwrap(), "1000");
        assert_eq!(client.scalar("SELECT count(*) FROM copies").unwrap(), "10");
        assert_eq!(client.scalar("SELECT count(*) FROM alone").unwrap(), "0");
        assert_eq!(client.strings("SELECT group_name FROM pgxc_group").unwrap(), [["pair"]]);
    }
    let nodes: serde_json::Value = serde_json::from_str(&cluster.loxo(&["node", "list", "--json"]).unwrap()).unwrap();
    assert_eq!([&nodes[0]["buckets"], &nodes[1]["buckets"]], [2048, 2048]);
    // What was kept for a user comes to its end without the lost part.
    client.run("COMMIT PREPARED 'kept'").unwrap();
    let kept = count(&mut left) - rows_left;
    assert!(0 < kept && kept < 300, "{kept}");
    everything_can_be_written(&cluster);
    it_comes_back(&cluster, &server);
}

fn not_while_it_answers(cluster: &Cluster, client: &mut Client) {
    refused(client, "DROP NODE far LOST", SqlState::OBJECT_IN_USE);
    refused(client, "DROP NODE dn1 LOST", SqlState::FEATURE_NOT_SUPPORTED);
    refused(client, "DROP NODE nobody LOST", SqlState::UNDEFINED_OBJECT);
    refused(client, "DROP NODE far, dn2", SqlState::SYNTAX_ERROR);
    client.run("BEGIN").unwrap();
    refused(client, "DROP NODE far LOST", SqlState::ACTIVE_SQL_TRANSACTION);
    client.run("ROLLBACK; CREATE ROLE ordinary LOGIN").unwrap();
    let port = cluster.coordinators()[0];
    let mut ordinary = Client::connect_with(port, &[("user", "ordinary"), ("database", "postgres")]).unwrap();
    refused(&mut ordinary, "DROP NODE far LOST", SqlState::INSUFFICIENT_PRIVILEGE);
    fails_saying(loxo(cluster, &["node", "remove", "far", "--lost", "--yes"]), &["far answers, and is not lost"]);
    fails_saying(loxo(cluster, &["node", "remove", "dn1", "--lost", "--yes"]), &["primary datanode"]);
    fails_saying(loxo(cluster, &["node", "remove", "far", "dn2"]), &["one after the other"]);
    assert_eq!(names(client), ["dn1", "dn2", "far"]);
    assert_eq!(client.scalar("SELECT count(*) FROM loxo.lost_datanode").unwrap(), "0");
}

fn everything_can_be_written(cluster: &Cluster) {
    let mut client = cluster.connect(1).unwrap();
    client.run("INSERT INTO account SELECT i, 0 FROM generate_series(1, 3300) AS i ON CONFLICT DO NOTHING").unwrap();
    assert_eq!(client.scalar("SELECT count(*) FROM account").unwrap(), "3300");
    for table in ["alone", "grouped", "history"] {
        client.run(&format!("INSERT INTO {table} SELECT generate_series(1, 100)")).unwrap();
        assert_eq!(client.scalar(&format!("SELECT count(*) FROM {table}")).unwrap(), "100");
    }
    client.run("INSERT INTO copies VALUES (11); CREATE TABLE later (n int) DISTRIBUTE BY HASH (n)").unwrap();
    assert_eq!(cluster.wrong_rows(), None);
}

/// Nobody takes it for a datanode, and it does not become one while it holds rows.
fn it_comes_back(cluster: &Cluster, server: &Server) {
    server.start_again().unwrap();
    let port = server.port().to_string();
    let add = ["node", "add", "--name", "far", "--host", "127.0.0.1", "--port", &port];
    fails_saying(loxo(cluster, &add), &["has rows"]);
    let mut back = server.connect().unwrap();
    let rows = back.scalar("SELECT count(*) FROM account").unwrap();
    // Those that start now have nothing but what they read.
    for pid in [cluster.coordinator_pids().unwrap(), cluster.pids("gtm").unwrap()].concat() {
        assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    }
    cluster.up().unwrap();
    let mut client = cluster.connect(0).unwrap();
    client.run("UPDATE account SET money = 7").unwrap();
    assert_eq!(client.strings("SELECT count(*), sum(money) FROM account").unwrap(), [["3300", "23100"]]);
    assert_eq!(names(&mut client), ["dn1", "dn2"]);
    assert_eq!(back.scalar("SELECT count(*) FROM account WHERE money <> 7").unwrap(), rows);
    let connected = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'loxo%'";
    // Backends of commands that have just ended leave late.
    let deadline = Instant::now() + Duration::from_secs(30);
    while back.scalar(connected).unwrap() != "0" {
        assert!(Instant::now() < deadline, "somebody is connected");
    }

    // What was prepared there has locks.
    for gid in back.strings("SELECT gid FROM pg_prepared_xacts").unwrap().concat() {
        back.run(&format!("ROLLBACK PREPARED '{gid}'")).unwrap();
    }
    back.run("TRUNCATE account, copies, alone, grouped, history").unwrap();
    drop(back);
    let said = succeeded(loxo(cluster, &add));
    assert!(said.contains("id = 3"), "{said}");
    assert_eq!(names(&mut client), ["dn1", "dn2", "far"]);
    assert_eq!(client.scalar("SELECT count(*) FROM account").unwrap(), "3300");
    assert_eq!(cluster.wrong_rows(), None);
}

/// After a power cut, say: the gtm cannot make sure that nobody decides on the lost datanodes, so nobody may decide anything.
#[test]
fn several_are_given_up_while_no_gtm_can_do_its_work() {
    let cluster = Cluster::start(1, 1).unwrap();
    let servers = [far(&cluster, "far"), far(&cluster, "away")];
    let mut client = cluster.connect(0).unwrap();
    client.run("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)").unwrap();
    client.run("INSERT INTO t SELECT generate_series(1, 300)").unwrap();
    let rows = cluster.connect_datanode(0).unwrap().scalar("SELECT count(*) FROM t").unwrap();
    client.run("CREATE DATABASE other").unwrap();
    let other = || {
        let port = cluster.coordinators()[0];
        Client::connect_with(port, &[("user", "postgres"), ("database", "other")]).unwrap()
    };
    other().run("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)").unwrap();
    servers.iter().for_each(|server| server.stop().unwrap());
    for pid in [cluster.coordinator_pids().unwrap(), cluster.pids("gtm").unwrap()].concat() {
        assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    }
    cluster.up().unwrap();
    let said =
        fails_saying(loxo(&cluster, &["node", "remove", "far", "--lost", "--yes"]), &["away", "in the same command"]);
    assert_eq!(said, "");
    succeeded(loxo(&cluster, &["node", "remove", "far", "away", "--lost", "--yes"]));
    let mut client = cluster.connect(0).unwrap();
    assert_eq!(client.scalar("SELECT count(*) FROM t").unwrap(), rows);
    for mut client in [client, other()] {
        assert_eq!(names(&mut client), ["dn1"]);
        client.run("INSERT INTO t SELECT generate_series(1, 300)").unwrap();
    }
    assert_eq!(cluster.wrong_rows(), None);
}
