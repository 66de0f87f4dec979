//! What the model of moves (`crates/txn/tests/move_model`) says of rules that seldom matter, on real clusters: whoever moves rows is
//! stopped where a rule is needed, and those who would be wrong without it run then.

use std::fs;
use std::path::PathBuf;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use faults::processes::{self, Kind};
use faults::{points, settle};
use testkit::Cluster;
use testkit::wire::{Answer, Client, CopyInput};

/// Everything that is waited for comes so soon.
const SOON: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(2);
const RESOLVED_MAX: Duration = Duration::from_secs(10);
const MAP: &str = "SELECT unnest(nodes) FROM loxo.bucket_map WHERE id = 1";

#[track_caller]
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < end, "{what} did not come");
        thread::sleep(POLL);
    }
}

/// Coordinators with an order for their control points.
struct Ordered<'c> {
    cluster: &'c Cluster,
    point: &'static str,
    go: PathBuf,
}

impl<'c> Ordered<'c> {
    /// Starts all coordinators anew; the first of them that comes to the point does this there.
    fn start(cluster: &'c Cluster, point: &'static str, action: &str) -> Self {
        points::check_binary().expect("a binary with control points");
        let go = cluster.scratch().join("go");
        for coordinator in of_kind(cluster, Kind::Coordinator) {
            processes::kill(cluster, &coordinator).expect("it dies");
        }
        let (order, file) = (format!("{point}={action}"), go.to_string_lossy().into_owned());
        cluster.up_with(&[("LOXO_CONTROL_POINTS", &order), ("LOXO_CONTROL_GO", &file)]).expect("coordinators");
        Self { cluster, point, go }
    }

    /// Waits until a coordinator is at the point; gives its number.
    fn reached(&self) -> usize {
        let said = format!("control point {} reached", self.point);
        let logs: Vec<PathBuf> =
            (1..=2).map(|number| self.cluster.dir().join(format!("log/coord{number}.log"))).collect();
        let has_said = |log: &PathBuf| fs::read(log).is_ok_and(|log| String::from_utf8_lossy(&log).contains(&said));
        let mut number = None;
        wait_for(&said, || {
            number = logs.iter().position(has_said);
            number.is_some()
        });
        number.expect("one of them")
    }

    fn go(&self) {
        fs::write(&self.go, "").expect("a file");
    }
}

fn of_kind(cluster: &Cluster, kind: Kind) -> Vec<processes::Process> {
    let mut running = processes::running(cluster).expect("processes");
    running.retain(|process| process.kind == kind);
    running
}

fn is_done(client: &mut Client) -> bool {
    client.scalar("SELECT state FROM pgxc_rebalance").expect("a journal") == "done"
}

/// A statement in a thread and session of its own.
fn spawn<'s>(scope: &'s Scope<'s, '_>, port: u16, sql: String) -> ScopedJoinHandle<'s, Answer> {
    scope.spawn(move || Client::connect(port).expect("a session").simple(&sql).expect("an answer"))
}

/// Waits until so many backends of a datanode wait for such a lock.
#[track_caller]
fn wait_until_waiting(cluster: &Cluster, node: usize, lock: &str, number: usize) {
    let mut client = cluster.connect_datanode(node).expect("a datanode");
    let count = format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND {lock}");
    wait_for(lock, || client.scalar(&count).expect("a count").parse::<usize>().expect("a number") >= number);
}

fn tag(answer: Answer) -> String {
    assert!(answer.error.is_none(), "{:?}", answer.error);
    answer.tag.expect("a tag")
}

fn value(answer: &Answer) -> String {
    assert!(answer.error.is_none(), "{:?}", answer.error);
    let value = answer.rows.first().and_then(|row| row[0].clone()).expect("a value");
    String::from_utf8_lossy(&value).into_owned()
}

/// Rule SettleAfterLoad. The home node has the new map, another node has the rows prepared and not visible; whoever moved them is dead,
/// and the plan that says that they are there goes to a connection that was there before.
#[test]
fn a_connection_from_before_settles_behind_a_dead_mover() {
    let cluster = Cluster::start(3, 2).expect("a cluster");
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").expect("a table");
    client.run("INSERT INTO t SELECT k, 0 FROM generate_series(1, 20000) AS k").expect("rows");
    client.run("ALTER CLUSTER REBALANCE WITHOUT NODE (dn3)").expect("an order");
    wait_for("an empty node", || is_done(&mut client));

    // The first commit of that kind may be that of the order itself.
    let ordered = Ordered::start(&cluster, "decided", "hold@2");
    let mut clients: Vec<Client> = (0..2).map(|number| cluster.connect(number).expect("a session")).collect();
    let count_all = "SELECT count(*), (SELECT count(*) FROM pgxc_node) FROM t WHERE k > 0";
    // On all nodes: the empty one too, though the map does not name it.
    for client in &mut clients {
        client.run("CREATE TEMP TABLE own (k int)").expect("a table of its own");
        assert_eq!(client.strings(count_all).expect("rows")[0][0], "20000");
        client.run("EXECUTE DIRECT ON (dn3) 'SELECT 1'").expect("a connection to the empty node");
    }
    let keys = |node: usize| -> Vec<i32> {
        let rows = cluster.connect_datanode(node).expect("a datanode").strings("SELECT k FROM t ORDER BY k");
        rows.expect("keys").concat().iter().map(|key| key.parse().expect("a number")).collect()
    };
    let before = keys(0);
    clients[0].run("ALTER CLUSTER REBALANCE").expect("an order");
    let mover = ordered.reached();
    let mut moved = 0;
    wait_for("a row on its way from the first node", || {
        let visible = [keys(0), keys(1), keys(2)].concat();
        let gone = before.iter().find(|key| !visible.contains(key));
        moved = gone.copied().unwrap_or(0);
        gone.is_some()
    });

    let held = Held::start(&cluster, 2);
    let mover_process = processes::find(&cluster, &format!("coord{}", mover + 1)).expect("it runs");
    processes::kill(&cluster, &mover_process).expect("it dies");
    // The other coordinator goes on with the moves in its place.
    ordered.go();
    let port = cluster.coordinators()[1 - mover];
    thread::scope(|scope| {
        let read = spawn(scope, port, format!("SELECT v FROM t WHERE k = {moved}"));
        let written = spawn(scope, port, format!("UPDATE t SET v = v + 1 WHERE k = {moved}"));
        let all = spawn(scope, port, "SELECT count(*) FROM t".to_owned());
        // loxo.settle() looks again and again.
        let mut node = cluster.connect_datanode(2).expect("a datanode");
        let settling =
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%loxo.settle%' AND wait_event = 'PgSleep'";
        wait_for("two who settle", || {
            let is_over = |one: &ScopedJoinHandle<'_, Answer>| one.is_finished();
            assert!(![&read, &written].into_iter().any(is_over), "a statement did not wait for the rows");
            node.scalar(settling).expect("a count").parse::<usize>().expect("a number") >= 2
        });
        held.end();
        assert!(["0", "1"].contains(&value(&read.join().expect("no panic")).as_str()));
        assert_eq!(tag(written.join().expect("no panic")), "UPDATE 1");
        assert_eq!(value(&all.join().expect("no panic")), "20000");
    });
    cluster.up().expect("everything runs");
    wait_for("the end", || is_done(&mut cluster.connect(1 - mover).expect("a session")));
    assert_eq!(cluster.connect(0).expect("a session").scalar("SELECT sum(v) FROM t").expect("a sum"), "1");
    settle::until_quiet(&cluster, RESOLVED_MAX).expect("nothing is in doubt");
}

/// A datanode on which no commit ends.
struct Held<'c> {
    cluster: &'c Cluster,
    node: usize,
}

impl<'c> Held<'c> {
    fn start(cluster: &'c Cluster, node: usize) -> Self {
        let held = Self { cluster, node };
        held.set("'nobody'");
        // The server notices at some time; from then on this one waits too.
        let mut probes = Vec::new();
        let mut client = cluster.connect_datanode(node).expect("a datanode");
        wait_for("a commit that is held", || {
            let mut probe = cluster.connect_datanode(node).expect("a datanode");
            probe.send_query("BEGIN; SELECT pg_current_xact_id(); COMMIT").expect("it is sent");
            probes.push(probe);
            thread::sleep(POLL);
            client.scalar("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").expect("a count") != "0"
        });
        held
    }

    fn end(&self) {
        self.set("''");
    }

    fn set(&self, standbys: &str) {
        let mut client = self.cluster.connect_datanode(self.node).expect("a datanode");
        client.run(&format!("ALTER SYSTEM SET synchronous_standby_names = {standbys}")).expect("a setting");
        client.run("SELECT pg_reload_conf()").expect("it counts");
    }
}

/// Rule ThereAndBackIsMoved. Statements that were planned before a bucket went away look at its old node while it is elsewhere, and
/// ask whether their plan holds when it is there again.
#[test]
fn a_bucket_that_went_there_and_back_has_moved() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    let mut client = cluster.connect(0).expect("a session");
    // The first bucket of the last node is what the first step moves, and the key is the bucket's number.
    let map = cluster.connect_datanode(0).expect("a datanode").strings(MAP).expect("a map").concat();
    let key = map.iter().position(|node| node == "1").expect("a bucket of the last node");
    for sql in [
        "CREATE TABLE t (k int, v int) DISTRIBUTE BY MODULO (k)".to_owned(),
        format!("INSERT INTO t VALUES ({key}, 5)"),
        "CREATE TABLE r (k int) DISTRIBUTE BY REPLICATION".to_owned(),
        "INSERT INTO r VALUES (1)".to_owned(),
        "CREATE TABLE gate (k int) DISTRIBUTE BY REPLICATION".to_owned(),
        "CREATE FUNCTION is_open(int) RETURNS bool LANGUAGE plpgsql STABLE AS \
         $$ BEGIN RETURN NOT EXISTS (SELECT FROM gate WHERE k = $1); END $$"
            .to_owned(),
    ] {
        client.run(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let ordered = Ordered::start(&cluster, "step-map-changed", "hold");
    let mut clients: Vec<Client> = (0..2).map(|number| cluster.connect(number).expect("a session")).collect();
    let the_row = format!("k = {key} AND EXISTS (SELECT FROM r WHERE is_open(r.k))");
    let read = format!("SELECT v FROM t WHERE {the_row}");
    for client in &mut clients {
        assert_eq!(client.scalar(&read).expect("the row"), "5");
    }
    clients[0].run("ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)").expect("an order");
    let mover = ordered.reached();
    let is_at = |node: usize| {
        let count = cluster.connect_datanode(node).expect("a datanode").scalar("SELECT count(*) FROM t");
        count.expect("a count") == "1"
    };
    let mut gate = cluster.connect_datanode(1).expect("a datanode");
    gate.run("BEGIN; LOCK TABLE gate IN ACCESS EXCLUSIVE MODE").expect("a lock");
    let mut door = cluster.connect_datanode(1).expect("a datanode");
    door.run("BEGIN; LOCK TABLE r IN ACCESS EXCLUSIVE MODE").expect("a lock");
    let ports = [cluster.coordinators()[mover], cluster.coordinators()[1 - mover]];
    thread::scope(|scope| {
        // One of each through the coordinator that moves the rows, and through the other one.
        let reads = ports.map(|port| spawn(scope, port, read.clone()));
        let write = spawn(scope, ports[1], format!("UPDATE t SET v = v + 1 WHERE {the_row}"));
        wait_until_waiting(&cluster, 1, "relation IN ('r'::regclass, 't'::regclass)", 3);
        ordered.go();
        wait_for("the row on the other node", || is_at(0));
        door.run("ROLLBACK").expect("the way is free");
        // They have seen that the row is not there, and say so only when it is.
        wait_until_waiting(&cluster, 1, "relation = 'gate'::regclass", 3);
        clients[1 - mover].run("ALTER CLUSTER REBALANCE WITHOUT NODE (dn1)").expect("an order");
        wait_for("the row on its first node", || is_at(1) && !is_at(0));
        gate.run("ROLLBACK").expect("the way is free");
        for one in reads {
            assert!(["5", "6"].contains(&value(&one.join().expect("no panic")).as_str()));
        }
        assert_eq!(tag(write.join().expect("no panic")), "UPDATE 1");
    });
    wait_for("the end", || is_done(&mut clients[0]));
    assert_eq!(clients[0].scalar("SELECT v FROM t").expect("the row"), "6");
    settle::until_quiet(&cluster, RESOLVED_MAX).expect("nothing is in doubt");
}

/// In a block, which begins anew if rows have moved since it began.
fn in_block(client: &mut Client, sql: &str) -> Answer {
    loop {
        client.run("BEGIN").expect("a block");
        match client.simple(sql).expect("an answer") {
            Answer { error: Some(error), .. } if error.code().as_str() == "40001" => {
                client.run("ROLLBACK").expect("the end");
            }
            answer => {
                client.run("COMMIT").expect("a commit");
                return answer;
            }
        }
    }
}

/// Rule AskAfterLastNode, and that of locks against writers, for rows that may lie anywhere.
#[test]
fn rows_without_a_key_are_changed_once_wherever_they_go() {
    let cluster = Cluster::start(3, 2).expect("a cluster");
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE t (k int, v int) DISTRIBUTE BY ROUNDROBIN").expect("a table");
    let lines =
        |from: i32, to: i32| -> Vec<u8> { (from..=to).flat_map(|k| format!("{k}\t0\n").into_bytes()).collect() };
    let copy = |client: &mut Client, from, to| {
        let rows = lines(from, to);
        client.simple_copy("COPY t FROM STDIN", CopyInput { frames: &[&rows], fail: false }).expect("an answer")
    };
    assert_eq!(tag(copy(&mut client, 1, 300)), "COPY 300");
    let on = |node: usize, condition: &str| -> usize {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        cluster.connect_datanode(node).expect("a datanode").scalar(&sql).expect("a count").parse().expect("a number")
    };
    for condition in ["k <= 100", "k BETWEEN 101 AND 200"] {
        assert!((0..3).all(|node| on(node, condition) > 0), "{condition}: a node has no rows");
    }

    // Statements of blocks go from node to node. They wait at the second, having been at the first, and rows go from the third to the
    // first.
    let mut door = cluster.connect_datanode(1).expect("a datanode");
    door.run("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE").expect("a lock");
    let ports = cluster.coordinators();
    thread::scope(|scope| {
        let [changed, gone] =
            [(0, "UPDATE t SET v = v + 1 WHERE k <= 100"), (1, "DELETE FROM t WHERE k BETWEEN 101 AND 150")].map(
                |(coordinator, sql)| {
                    let cluster = &cluster;
                    scope.spawn(move || in_block(&mut cluster.connect(coordinator).expect("a session"), sql))
                },
            );
        wait_until_waiting(&cluster, 1, "relation = 't'::regclass", 2);
        client.run("ALTER CLUSTER REBALANCE WITHOUT NODE (dn3)").expect("an order");
        wait_for("rows that have gone", || on(2, "true") == 0);
        door.run("ROLLBACK").expect("the way is free");
        assert_eq!(tag(changed.join().expect("no panic")), "UPDATE 100");
        assert_eq!(tag(gone.join().expect("no panic")), "DELETE 50");
    });
    wait_for("the end", || is_done(&mut client));
    assert_eq!(client.strings("SELECT count(*), sum(v) FROM t").expect("rows"), [["250", "100"]]);

    // Whoever comes to a node while its rows are on their way finds out that they have gone, and leaves none there.
    client
        .run("DROP TABLE t; CREATE TABLE t (k int, v int) DISTRIBUTE BY ROUNDROBIN TO NODE (dn1, dn2, dn3)")
        .expect("a table");
    assert_eq!(tag(copy(&mut client, 1, 300)), "COPY 300");
    assert!(on(2, "k <= 100") > 0 && on(2, "k BETWEEN 151 AND 200") > 0);
    let ordered = Ordered::start(&cluster, "step-map-changed", "hold");
    let mut client = cluster.connect(0).expect("a session");
    // No bucket is left there: this is about rows without a key.
    client.run("ALTER CLUSTER REBALANCE WITHOUT NODE (dn3)").expect("an order");
    ordered.reached();
    thread::scope(|scope| {
        let copied = scope.spawn(|| copy(&mut cluster.connect(1).expect("a session"), 301, 330));
        let inserted = scope.spawn(|| {
            let mut client = cluster.connect(0).expect("a session");
            (0..6).for_each(|k| drop(client.run(&format!("INSERT INTO t VALUES ({}, 0)", 400 + k)).expect("a row")));
        });
        let changed = spawn(scope, ports[0], "UPDATE t SET v = v + 1 WHERE k <= 100".to_owned());
        let deleted = spawn(scope, ports[1], "DELETE FROM t WHERE k BETWEEN 151 AND 200".to_owned());
        wait_until_waiting(&cluster, 2, "relation = 't'::regclass", 3);
        ordered.go();
        assert_eq!(tag(copied.join().expect("no panic")), "COPY 30");
        inserted.join().expect("no panic");
        assert_eq!(tag(changed.join().expect("no panic")), "UPDATE 100");
        assert_eq!(tag(deleted.join().expect("no panic")), "DELETE 50");
    });
    wait_for("the end", || is_done(&mut client));
    assert_eq!(on(2, "true"), 0);
    let found = client.strings("SELECT count(*), count(DISTINCT k), sum(v) FROM t").expect("rows");
    assert_eq!(found, [["286", "286", "100"]]);
    settle::until_quiet(&cluster, RESOLVED_MAX).expect("nothing is in doubt");
}
