//! `/metrics` and `/health` of a coordinator and a gtm: each figure moves when what it counts happens.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::wire::{Client, CopyInput};
use testkit::{Cluster, free_ports};

const SOON: Duration = Duration::from_secs(20);
/// So few that they are soon in use.
const POOL_SIZE: usize = 8;

/// Status and body.
fn get(port: u16, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the port of figures");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).expect("a status").to_owned(), body.to_owned())
}

/// The figures, by name and labels.
fn figures(port: u16) -> BTreeMap<String, f64> {
    let (status, page) = get(port, "/metrics");
    assert_eq!(status, "200");
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let figure = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    lines.map(figure).collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_figure_moves() {
    let cluster = Cluster::start(3, 1).expect("a cluster");
    let base = free_ports(&[0, 1]).expect("ports");
    let (of_coordinator, of_gtm) = (base, base + 1);
    cluster.loxo(&["down"]).expect("it ends");
    let path = cluster.dir().join("cluster.toml");
    let file = std::fs::read_to_string(&path).expect("the configuration");
    let file =
        file.replace("[[coordinator]]\n", &format!("[[coordinator]]\nmetrics = \"127.0.0.1:{of_coordinator}\"\n"));
    let file = file
        .lines()
        .map(
            |line| {
                if line.starts_with("pool_size") { format!("pool_size = {POOL_SIZE}\n") } else { format!("{line}\n") }
            },
        )
        .collect::<String>();
    let file = file.replace("[[gtm]]\n", &format!("[[gtm]]\nmetrics = \"127.0.0.1:{of_gtm}\"\n"));
    std::fs::write(&path, file).expect("written");
    cluster.up().expect("it starts");
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").expect("a table");
    client.run("CREATE TABLE u (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").expect("a table");
    until("the gtm is heard of", || get(of_coordinator, "/health") == ("200".into(), "ok\n".into()));
    assert_eq!(get(of_gtm, "/health"), ("200".into(), "leads\n".into()));
    assert_eq!(get(of_gtm, "/").0, "404");

    let before = figures(of_coordinator);
    let rows: Vec<String> = (1..=3000).map(|k| format!("{k}\t{}\n", k % 7)).collect();
    let rows = rows.concat();
    client.simple_copy("COPY t FROM STDIN", CopyInput { frames: &[rows.as_bytes()], fail: false }).expect("rows");
    client.run("INSERT INTO u SELECT k, v FROM t").expect("rows");
    client.run("SET loxo.few_rows = 0").expect("a setting");
    client.run("SELECT count(*) FROM t JOIN u ON t.v = u.v + 1 AND t.k < 50 AND u.k < 50").expect("a join");
    for k in [1, 2] {
        client.run(&format!("SELECT v FROM t WHERE k = {k}")).expect("a row");
    }
    client.run("SELECT sum(v) FROM t").expect("a sum");
    client.run("BEGIN; UPDATE t SET v = 0 WHERE k = 1; COMMIT").expect("one node");
    client.run("BEGIN; UPDATE t SET v = 0; COMMIT").expect("all nodes");
    client.run("BEGIN; SELECT sum(v) FROM t; COMMIT").expect("a read");
    client.run("SELECT nothing FROM t").expect_err("no column");
    cluster.connect(0).expect("another session").run("SELECT 1").expect("a row");
    until("clients that are refused are counted", || {
        testkit::wire::Client::connect_with(
            cluster.coordinators()[0],
            &[("user", "nobody_of_that_name"), ("database", "postgres")],
        )
        .is_err()
    });
    until("those who have left are not counted", || figures(of_coordinator)["loxo_clients"] == 1.0);
    let after = figures(of_coordinator);
    let mut moved = vec![
        "loxo_logins_total".to_owned(),
        "loxo_errors_total{sqlstate=\"42703\"}".to_owned(),
        "loxo_texts_total{cache=\"miss\"}".to_owned(),
        "loxo_plans_total{source=\"shape\"}".to_owned(),
        "loxo_plans_total{source=\"planner\"}".to_owned(),
        "loxo_exchange_rows_total".to_owned(),
        "loxo_exchange_bytes_total".to_owned(),
        "loxo_gate_shut_seconds_count".to_owned(),
        "loxo_gate_shut_seconds_sum".to_owned(),
    ];
    moved.extend(["forward", "copy_from"].map(|plan| format!("loxo_statements_total{{plan=\"{plan}\"}}")));
    moved.extend(
        ["read_only", "one_node", "prepared", "decided", "finished"]
            .map(|phase| format!("loxo_commits_total{{phase=\"{phase}\"}}")),
    );
    moved.extend([1, 2, 3].map(|node| format!("loxo_copy_rows_total{{node=\"dn{node}\"}}")));
    for name in moved {
        let value = |page: &BTreeMap<String, f64>| page.get(&name).copied().unwrap_or_default();
        assert!(value(&after) > value(&before), "{name}: {} and then {}; {after:?}", value(&before), value(&after));
    }
    assert!(after.keys().any(|name| name.starts_with("loxo_logins_refused_total")), "{after:?}");
    let copied: f64 = [1, 2, 3].iter().map(|node| after[&format!("loxo_copy_rows_total{{node=\"dn{node}\"}}")]).sum();
    assert_eq!(copied, 3000.0);
    // The look for a rebalance may have the only one just now.
    let idle = "loxo_pool_connections{node=\"dn1\",state=\"idle\"}";
    until("an idle connection", || figures(of_coordinator)[idle] >= 1.0);
    client.run("BEGIN; UPDATE t SET v = 1 WHERE k = 1").expect("a change");
    let used = figures(of_coordinator);
    let used: f64 =
        [1, 2, 3].iter().map(|node| used[&format!("loxo_pool_connections{{node=\"dn{node}\",state=\"used\"}}")]).sum();
    assert!(used >= 1.0);
    client.run("ROLLBACK").expect("its end");

    // What a pass of recovery met in the middle of its commit counts until the next one.
    until("a leader, a coordinator, nothing in doubt", || {
        let gtm = figures(of_gtm);
        (gtm["loxo_gtm_leads"], gtm["loxo_gtm_coordinators"], gtm["loxo_in_doubt"]) == (1.0, 1.0, 0.0)
    });
    let gtm = figures(of_gtm);
    assert!(gtm["loxo_gtm_snapshots_total"] > 0.0, "{gtm:?}");
    all_of_the_dashboard_is_told(&[figures(of_coordinator), gtm]);
    every_kind_of_plan_is_counted(&mut client, of_coordinator);
    commits_that_wait_are_counted(&cluster, &mut client, of_coordinator);
    statements_in_line_are_counted(&cluster, of_coordinator);
    in_doubt_is_told(&cluster, of_gtm);
    drop(client);
    what_is_left_to_recovery_is_counted(&cluster, of_coordinator, of_gtm);
}

/// A statement of each kind of plan, and what it needs.
const PLANS: [(&str, &str, &str); 18] = [
    ("scatter", "", "UPDATE t SET v = v + 1"),
    (
        "replicate",
        "CREATE TABLE copied (k int PRIMARY KEY, v float8) DISTRIBUTE BY REPLICATION",
        "INSERT INTO copied VALUES (1, 1)",
    ),
    ("first_copy", "", "UPDATE copied SET v = random()"),
    ("gather", "", "SELECT sum(v) FROM t"),
    ("locked", "", "SELECT k FROM t ORDER BY v, k LIMIT 3 FOR UPDATE"),
    ("exchange", "SET loxo.few_rows = 0", "SELECT count(*) FROM t JOIN u ON t.v = u.v + 1 AND t.k < 50 AND u.k < 50"),
    ("insert_split", "", "INSERT INTO t VALUES (10001, 1), (10002, 2), (10003, 3), (10004, 4)"),
    ("insert_staged", "", "INSERT INTO t SELECT k + 20000, v FROM u WHERE k < 5"),
    ("staged_dml", "", "UPDATE t SET k = k + 30000 WHERE k > 20000"),
    (
        "sequenced_ctes",
        "",
        "WITH d AS (DELETE FROM t WHERE k > 50000 RETURNING k, v) INSERT INTO u SELECT v + 60000, k FROM d",
    ),
    ("copy_to", "", "COPY t TO STDOUT"),
    ("explain", "", "EXPLAIN SELECT sum(v) FROM t"),
    ("cursor", "BEGIN", "DECLARE c CURSOR FOR SELECT k FROM t; COMMIT"),
    ("ddl", "", "CREATE TABLE made (k int PRIMARY KEY)"),
    ("redistribute", "", "ALTER TABLE made DISTRIBUTE BY REPLICATION"),
    ("cluster_command", "", "CREATE NODE GROUP pair WITH (dn1, dn2)"),
    (
        "routine",
        "CREATE PROCEDURE p() LANGUAGE plpgsql AS 'BEGIN UPDATE t SET v = 1 WHERE k < 3; COMMIT; END'",
        "CALL p()",
    ),
    ("session", "", "SET work_mem = '5MB'"),
];

fn every_kind_of_plan_is_counted(client: &mut Client, of_coordinator: u16) {
    for (plan, needs, sql) in PLANS {
        client.run(needs).unwrap_or_else(|error| panic!("{needs}: {error}"));
        let name = format!("loxo_statements_total{{plan=\"{plan}\"}}");
        let counted = || figures(of_coordinator)[&name];
        let before = counted();
        client.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert!(counted() > before, "{sql} is no {plan}");
    }
    // A text that comes again is not parsed again.
    let hits = || figures(of_coordinator)["loxo_texts_total{cache=\"hit\"}"];
    let before = hits();
    for _ in 0..2 {
        let sum = "SELECT sum(v) FROM t WHERE k > $1";
        client.extended(sum, &[Some("7")], CopyInput::default(), |_| false).expect("a sum");
    }
    assert!(hits() > before);
}

/// Commits over several nodes wait while the gate is shut for somebody's snapshot.
fn commits_that_wait_are_counted(cluster: &Cluster, client: &mut Client, of_coordinator: u16) {
    let waits = || figures(of_coordinator)["loxo_gate_wait_seconds_count"];
    let before = waits();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&is_over);
        for _ in 0..2 {
            scope.spawn(|| {
                let mut reader = cluster.connect(0).expect("a session");
                while !is_over.load(Ordering::Relaxed) {
                    reader.run("SELECT sum(v) FROM t").expect("a sum");
                }
            });
        }
        until("a commit has waited", || {
            client.run("UPDATE t SET v = v + 1 WHERE k < 9").expect("a change");
            waits() > before
        });
    });
}

/// However the scope is left.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whoever gets no connection stands in line.
fn statements_in_line_are_counted(cluster: &Cluster, of_coordinator: u16) {
    let in_line = || figures(of_coordinator)["loxo_pool_waiting"];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        for _ in 0..=POOL_SIZE {
            scope.spawn(|| {
                let mut holder = cluster.connect(0).expect("a session");
                holder.run("BEGIN; SELECT sum(v) FROM t").expect("a sum");
                until("the others have come", || is_over.load(Ordering::Relaxed));
            });
        }
        until("somebody is in line", || in_line() >= 1.0);
        drop(ends);
    });
    until("nobody is in line", || in_line() == 0.0);
}

/// A datanode that dies after the decision keeps its part prepared, until it is there again.
fn what_is_left_to_recovery_is_counted(cluster: &Cluster, of_coordinator: u16, of_gtm: u16) {
    let go = cluster.scratch().join("go");
    cluster.loxo(&["down"]).expect("it ends");
    let order = [("LOXO_CONTROL_POINTS", "decided=hold@1"), ("LOXO_CONTROL_GO", go.to_str().expect("a path"))];
    cluster.up_with(&order).expect("it starts");
    let mut client = cluster.connect(0).expect("a session");
    client.send_query("BEGIN; UPDATE t SET v = v + 1; COMMIT").expect("sent");
    let log = cluster.dir().join("log/coord1.log");
    until("it has decided", || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("control point decided reached"))
    });
    let pid = std::fs::read_to_string(cluster.dir().join("dn3/postmaster.pid")).expect("it runs");
    let status = Command::new("kill").args(["-QUIT", pid.lines().next().expect("a pid")]).status();
    assert!(status.expect("kill").success());
    until("it is dead", || TcpStream::connect(("127.0.0.1", cluster.datanodes()[2])).is_err());
    std::fs::write(&go, "").expect("it may go on");
    client.wait().expect("an answer");
    let left = "loxo_commits_total{phase=\"unresolved\"}";
    until("a commit is left to recovery", || figures(of_coordinator)[left] == 1.0);
    cluster.up().expect("the datanode is there again");
    until("recovery has ended it", || figures(of_gtm)["loxo_gtm_resolved_total"] > 0.0);
}

/// Every figure of Grafana's dashboard is on a page.
fn all_of_the_dashboard_is_told(pages: &[BTreeMap<String, f64>]) {
    let board: Value = serde_json::from_str(include_str!("../../../packaging/grafana/loxo.json")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let expressions: Vec<&str> = targets.map(|target| target["expr"].as_str().expect("an expression")).collect();
    assert!(expressions.len() > 15, "{expressions:?}");
    let told = |name: &str| pages.iter().flat_map(BTreeMap::keys).any(|key| key.split('{').next() == Some(name));
    for expression in expressions {
        let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let names: Vec<&str> = words.filter(|word| word.starts_with("loxo_")).collect();
        assert!(!names.is_empty() && names.iter().all(|name| told(name)), "{expression}");
    }
}

/// A transaction whose commit point is away stays in doubt.
fn in_doubt_is_told(cluster: &Cluster, of_gtm: u16) {
    let mut datanode = cluster.connect_datanode(1).expect("a session");
    datanode
        .run("BEGIN; CREATE TABLE held (); PREPARE TRANSACTION 'loxo_1_77_700_00000000000000ff_1'")
        .expect("prepared");
    until("a transaction in doubt", || figures(of_gtm)["loxo_in_doubt"] == 1.0);
    until("it gets older", || figures(of_gtm)["loxo_in_doubt_age_seconds"] > 0.5);
    datanode.run("ROLLBACK PREPARED 'loxo_1_77_700_00000000000000ff_1'").expect("its end");
    until("no more of it", || figures(of_gtm)["loxo_in_doubt"] == 0.0);
}
