//! What each shape of statement asks of the datanodes: a budget of requests, which may be lowered and is never raised.
//!
//! ```text
//! test ─ statement ─► coordinator ─ TCP ─► relay, counts ─► datanode
//! ```
//!
//! A request is a message that the coordinator has to wait for: Query, Sync, Flush. Of each statement the sum over all datanodes is
//! counted, and the most that one datanode was asked, which is how often the client has to wait for the network. The first time
//! that a text comes it is analysed and planned; afterwards it is not.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::wire::{Client, CopyInput};
use testkit::{Cluster, Relay, loxo_binary, self_test};

const DATANODES: u16 = 3;
/// In what a coordinator asks the primary datanode once a second, whatever its clients do: is there a rebalance to carry on?
const LOOKS: &str = "loxo.rebalance";
/// What a coordinator asks on a new connection before its first use: the proof, its own statements, the settings it begins with.
const OPENING: u64 = 3;
/// A process starts, dies or falls silent within that time.
const SOON: Duration = Duration::from_secs(20);

/// Requests to all datanodes, and the most to one.
type Trips = (u64, u64);

/// A shape, its statements (run one after the other on one session), and what they may ask the first time and later.
struct Shape {
    name: &'static str,
    statements: &'static [&'static str],
    first: Trips,
    again: Trips,
}

const fn shape(name: &'static str, statements: &'static [&'static str], first: Trips, again: Trips) -> Shape {
    Shape { name, statements, first, again }
}

/// `t` and `u` are partitioned by `k`, `r` is replicated. Key 1 and key 2 lie on different datanodes.
const SHAPES: &[Shape] = &[
    shape("SELECT by key", &["SELECT v FROM t WHERE k = 1"], (5, 3), (1, 1)),
    shape("SELECT by another key", &["SELECT v FROM t WHERE k = 2"], (2, 2), (1, 1)),
    shape("SELECT of a replicated table", &["SELECT v FROM r WHERE k = 1"], (4, 2), (3, 2)),
    shape("SELECT over all", &["SELECT count(*), sum(n) FROM t"], (18, 10), (13, 5)),
    shape("ORDER BY over all", &["SELECT k, v FROM t ORDER BY v, k LIMIT 5"], (14, 6), (13, 5)),
    shape("GROUP BY over all", &["SELECT n, count(*) FROM t GROUP BY n"], (17, 9), (13, 5)),
    shape("join by the key", &["SELECT count(*) FROM t JOIN u USING (k)"], (17, 9), (13, 5)),
    shape("join with few rows", &["SELECT count(*) FROM t JOIN u ON t.n = u.k"], (23, 15), (13, 5)),
    shape("INSERT of one row", &["INSERT INTO t VALUES (1001, 1, 'v')"], (5, 5), (2, 2)),
    shape(
        "INSERT of many rows",
        &["INSERT INTO t SELECT g, 1, 'v' FROM generate_series(2001, 2020) g"],
        (27, 15),
        (26, 14),
    ),
    shape("UPDATE by key", &["UPDATE t SET v = 'w' WHERE k = 1"], (6, 3), (2, 2)),
    shape("UPDATE of all", &["UPDATE t SET v = 'x'"], (23, 11), (19, 7)),
    shape("UPDATE of a replicated table", &["UPDATE r SET v = 'x' WHERE k = 1"], (21, 9), (20, 8)),
    shape("DELETE", &["DELETE FROM t WHERE k > 1000"], (21, 9), (16, 6)),
    shape("block of one node", &["BEGIN", "UPDATE t SET n = 1 WHERE k = 1", "COMMIT"], (6, 3), (2, 2)),
    shape(
        "block of two nodes",
        &["BEGIN", "UPDATE t SET n = 1 WHERE k = 1", "UPDATE t SET n = 1 WHERE k = 2", "COMMIT"],
        (9, 5),
        (9, 5),
    ),
    shape(
        "block of two nodes with one time",
        &["BEGIN", "UPDATE t SET n = 1 WHERE k = 1", "UPDATE t SET v = CURRENT_TIMESTAMP WHERE k = 2", "COMMIT"],
        (16, 11),
        (10, 5),
    ),
    shape(
        "block that reads",
        &["BEGIN", "SELECT v FROM t WHERE k = 1", "SELECT count(*) FROM t", "COMMIT"],
        (27, 14),
        (21, 8),
    ),
    shape(
        "catalog",
        &["SELECT c.oid, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"],
        (5, 5),
        (2, 2),
    ),
    shape("COPY to the client", &["COPY t TO STDOUT"], (12, 4), (12, 4)),
    shape("COPY from the client", &["COPY t FROM STDIN"], (16, 6), (16, 6)),
    shape("CREATE and DROP TABLE", &["CREATE TABLE d (k int PRIMARY KEY)", "DROP TABLE d"], (88, 50), (114, 74)),
    shape("ALTER TABLE", &["ALTER TABLE u ALTER n SET DEFAULT 7"], (54, 36), (54, 36)),
];

/// Rows of the COPY, each time with other keys.
fn rows(turn: usize) -> String {
    (0..20).map(|row| format!("{}\t1\tv\n", 10_000 * turn + 5000 + row)).collect()
}

#[test]
fn statements_ask_no_more_than_they_may() {
    if self_test() {
        return;
    }
    let cluster = Cluster::start(DATANODES, 1).expect("a cluster");
    let (relays, _coordinator) = coordinator_behind_relays(&cluster);
    let mut client = cluster.connect(0).expect("a session");
    for sql in [
        "CREATE TABLE t (k int PRIMARY KEY, n int, v text) DISTRIBUTE BY HASH (k)",
        "CREATE TABLE u (k int PRIMARY KEY, n int, v text) DISTRIBUTE BY HASH (k)",
        "CREATE TABLE r (k int PRIMARY KEY, v text) DISTRIBUTE BY REPLICATION",
        "INSERT INTO t SELECT g, g % 7, 'v' FROM generate_series(1, 200) g",
        "INSERT INTO u SELECT g, g % 7, 'v' FROM generate_series(1, 200) g",
        "INSERT INTO r SELECT g, 'v' FROM generate_series(1, 20) g",
        "ANALYZE",
    ] {
        client.run(sql).expect(sql);
    }
    let mut over = Vec::new();
    let mut last = Instant::now();
    for shape in SHAPES {
        let mut trips = |turn: usize| {
            until_quiet(&cluster);
            let before: Vec<u64> = relays.iter().map(Relay::requests).collect();
            shape.statements.iter().for_each(|sql| run(&mut client, sql, turn));
            let took = std::mem::replace(&mut last, Instant::now()).elapsed();
            until_quiet(&cluster);
            let asked: Vec<u64> = relays.iter().zip(before).map(|(relay, before)| relay.requests() - before).collect();
            ((asked.iter().sum::<u64>(), asked.iter().copied().max().unwrap_or_default()), took)
        };
        let (first, took) = trips(0);
        // A coordinator that has stood still has lost its lease, and reads the catalog again for whoever comes next.
        let stood_still = took > Duration::from_secs(1);
        let again = (1..4).map(|turn| trips(turn).0).min().unwrap_or_default();
        eprintln!("{:30} first {first:?} of {:?}, again {again:?} of {:?}", shape.name, shape.first, shape.again);
        let within = |(all, most): Trips, budget: Trips| all <= budget.0 && most <= budget.1;
        if !within(first, shape.first) && !stood_still || !within(again, shape.again) {
            over.push(shape.name);
        }
    }
    assert!(over.is_empty(), "over their budget: {over:?}");
}

fn run(client: &mut Client, sql: &str, turn: usize) {
    // The row is new each time.
    let sql =
        sql.replace("1001", &(1001 + turn).to_string()).replace("2001, 2020", &format!("{0}01, {0}20", 20 + turn));
    let data = rows(turn);
    let frames = [data.as_bytes()];
    let answer = client.simple_copy(&sql, CopyInput { frames: &frames, fail: false }).expect("an answer");
    assert!(answer.error.is_none(), "{sql}: {:?}", answer.error);
}

/// Waits until no datanode does anything for the coordinator any more.
fn until_quiet(cluster: &Cluster) {
    const BUSY: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'loxo' AND state <> 'idle'";
    let since = Instant::now();
    let is_busy = |node| cluster.connect_datanode(node).and_then(|mut node| node.scalar(BUSY)).expect("a count") != "0";
    while (0..usize::from(DATANODES)).any(is_busy) {
        assert!(since.elapsed() < SOON, "the datanodes are busy");
    }
}

/// A coordinator that `loxo down` does not know, since it has a configuration of its own.
struct Coordinator(Child);

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the coordinator anew, with a relay in front of each datanode.
fn coordinator_behind_relays(cluster: &Cluster) -> (Vec<Relay>, Coordinator) {
    let dir = cluster.dir();
    let text = fs::read_to_string(dir.join("cluster.toml")).expect("the configuration");
    // A cluster of one machine is reached over sockets in its directories, past every relay.
    let mut config: String =
        text.lines().take_while(|line| *line != "[local]").map(|line| format!("{line}\n")).collect();
    let mut relays = Vec::new();
    for port in cluster.datanodes() {
        let relay = Relay::start(*port, LOOKS, OPENING).expect("a relay");
        config = config.replace(&format!("port = {port}\n"), &format!("port = {}\n", relay.port()));
        relays.push(relay);
    }
    let path = dir.join("relays.toml");
    fs::write(&path, config).expect("a configuration");
    let pids = cluster.coordinator_pids().expect("the coordinator");
    Command::new("kill").arg("-9").args(pids.iter().map(u32::to_string)).status().expect("kill runs");
    let since = Instant::now();
    while cluster.connect(0).is_ok() {
        assert!(since.elapsed() < SOON, "the coordinator does not die");
    }
    let log = File::create(dir.join("relays.log")).expect("a log");
    let mut command = Command::new(loxo_binary().expect("the binary"));
    command.args(["coordinator", "--name", "coord1", "--config"]).arg(path);
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
    let coordinator = Coordinator(command.spawn().expect("a coordinator"));
    while cluster.connect(0).is_err() {
        assert!(since.elapsed() < SOON, "the coordinator does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    (relays, coordinator)
}
