//! Deadlocks over several datanodes: found, broken with 40P01 as PostgreSQL breaks its own, and nothing else is ever broken.
//!
//! Each scene lets two or three sessions, on both coordinators, come to wait for each other on different nodes. The one
//! whose transaction began last has to give way; the others must get what they waited for without the victim's client
//! saying anything.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pgerror::{PgError, field};
use testkit::Cluster;
use testkit::wire::{Client, CopyInput};

/// Longest time from the wait that closes the circle to the victim's error: a second on a quiet machine, and `lock_timeout` ends a wait
/// that nobody finds after 30.
const FOUND_MAX: Duration = Duration::from_secs(20);
const NODES: usize = 3;
/// Rows of each table: enough that every node has some.
const ROWS: usize = 60;
/// Sessions that lock one table at the same time, so many times.
const SESSIONS: usize = 24;
const LOCKS: usize = 20;

/// One cluster for all tests; they use tables of their own.
fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::start(NODES as u16, 2).expect("a cluster"))
}

fn session(coordinator: usize) -> Client {
    let mut client = cluster().connect(coordinator).expect("a session");
    // A scene that goes wrong ends all the same.
    client.run("SET lock_timeout = '30s'").expect("a setting");
    client
}

/// A table `name (k, v)`, and a key on each node.
fn table(name: &str) -> Vec<i32> {
    let clause = if cluster().is_distributed() { "DISTRIBUTE BY HASH (k)" } else { "" };
    let mut client = session(0);
    client.run(&format!("CREATE TABLE {name} (k int PRIMARY KEY, v int NOT NULL) {clause}")).expect("a table");
    client.run(&format!("INSERT INTO {name} SELECT g, 0 FROM generate_series(1, {ROWS}) g")).expect("rows");
    let key = |node: usize| {
        if !cluster().is_distributed() {
            return node as i32 + 1;
        }
        let mut datanode = cluster().connect_datanode(node).expect("a session");
        datanode.scalar(&format!("SELECT min(k) FROM {name}")).expect("a key").parse().expect("a number")
    };
    (0..NODES).map(key).collect()
}

fn update(table: &str, key: i32) -> String {
    format!("UPDATE {table} SET v = v + 1 WHERE k = {key}")
}

fn value(table: &str, key: i32) -> String {
    session(0).scalar(&format!("SELECT v FROM {table} WHERE k = {key}")).expect("a value")
}

/// The answer to a statement that was sent and must have ended in a deadlock error, soon.
fn gives_way(client: &mut Client, since: Instant) -> PgError {
    let answer = client.wait().expect("an answer").pop().expect("one answer");
    let took = since.elapsed();
    let error = answer.error.expect("an error");
    assert_eq!((error.code().as_str(), &*error.message()), ("40P01", "deadlock detected"), "{error}");
    assert!(took < FOUND_MAX, "found after {took:?}");
    println!("found after {took:?}: {}", error.text(field::DETAIL).replace('\n', " "));
    error
}

/// The answer to a statement that was sent and must have succeeded.
fn goes_on(client: &mut Client) {
    let answer = client.wait().expect("an answer").pop().expect("one answer");
    assert!(answer.error.is_none(), "{:?}", answer.error);
}

#[test]
fn two_sessions_over_two_nodes() {
    let keys = table("two");
    let (mut old, mut young) = (session(0), session(1));
    old.run(&format!("BEGIN; {}", update("two", keys[0]))).expect("the first row");
    young.run(&format!("BEGIN; {}", update("two", keys[1]))).expect("the second row");
    old.send_query(&update("two", keys[1])).expect("sent");
    young.send_query(&update("two", keys[0])).expect("sent");
    let error = gives_way(&mut young, Instant::now());
    // Two waits, and who is in whose way.
    let detail = error.text(field::DETAIL).into_owned();
    let lines: Vec<&str> = detail.lines().collect();
    assert_eq!(lines.len(), 2, "{detail}");
    assert!(
        lines.iter().all(|line| line.starts_with("Process ") && line.contains("; blocked by process ")),
        "{detail}"
    );
    if cluster().is_distributed() {
        let on =
            |node: usize| lines.iter().any(|line| line.contains(&format!("of datanode {node} waits for ShareLock")));
        assert!(on(0) && on(1), "{detail}");
    }
    goes_on(&mut old);
    let refused = young.run("SELECT 1").expect_err("the transaction has failed");
    assert_eq!(refused.code().as_str(), "25P02");
    assert_eq!(young.run("COMMIT").expect("the end").tag.as_deref(), Some("ROLLBACK"));
    old.run("COMMIT").expect("the end");
    assert_eq!([value("two", keys[0]), value("two", keys[1])], ["1", "1"]);
    // The victim's session is as good as new.
    young.run(&update("two", keys[0])).expect("an update");
    assert_eq!(value("two", keys[0]), "2");
}

#[test]
fn three_sessions_over_three_nodes() {
    let keys = table("three");
    let mut sessions = [session(0), session(1), session(0)];
    for (number, client) in sessions.iter_mut().enumerate() {
        client.run(&format!("BEGIN; {}", update("three", keys[number]))).expect("its row");
    }
    for (number, client) in sessions.iter_mut().enumerate() {
        client.send_query(&update("three", keys[(number + 1) % NODES])).expect("sent");
    }
    let [first, second, third] = &mut sessions;
    let error = gives_way(third, Instant::now());
    assert_eq!(error.text(field::DETAIL).lines().count(), 3);
    goes_on(second);
    second.run("COMMIT").expect("the end");
    goes_on(first);
    first.run("COMMIT").expect("the end");
    third.run("ROLLBACK").expect("the end");
    assert_eq!([value("three", keys[0]), value("three", keys[1]), value("three", keys[2])], ["1", "2", "1"]);
}

#[test]
fn a_row_of_a_replicated_table_and_one_of_a_distributed_table() {
    let keys = table("beside");
    let clause = if cluster().is_distributed() { "DISTRIBUTE BY REPLICATION" } else { "" };
    let (mut old, mut young) = (session(0), session(1));
    old.run(&format!("CREATE TABLE everywhere (k int PRIMARY KEY, v int NOT NULL) {clause}")).expect("a table");
    old.run("INSERT INTO everywhere SELECT g, 0 FROM generate_series(1, 3) g").expect("rows");
    old.run(&format!("BEGIN; {}", update("everywhere", 1))).expect("the copies of a row");
    young.run(&format!("BEGIN; {}", update("beside", keys[2]))).expect("a row");
    old.send_query(&update("beside", keys[2])).expect("sent");
    young.send_query(&update("everywhere", 1)).expect("sent");
    gives_way(&mut young, Instant::now());
    goes_on(&mut old);
    old.run("COMMIT").expect("the end");
    young.run("ROLLBACK").expect("the end");
    assert_eq!([value("everywhere", 1), value("beside", keys[2])], ["1", "1"]);
}

#[test]
fn a_locked_table_and_a_row() {
    let keys = table("locked_rows");
    table("locked_table");
    let (mut old, mut young) = (session(0), session(1));
    old.run("BEGIN; LOCK TABLE locked_table IN ACCESS EXCLUSIVE MODE").expect("the lock");
    young.run(&format!("BEGIN; {}", update("locked_rows", keys[2]))).expect("a row");
    old.send_query(&update("locked_rows", keys[2])).expect("sent");
    young.send_query("LOCK TABLE locked_table IN SHARE MODE").expect("sent");
    let error = gives_way(&mut young, Instant::now());
    assert!(error.text(field::DETAIL).contains("waits for ShareLock on relation "), "{error}");
    goes_on(&mut old);
    old.run("COMMIT").expect("the end");
    young.run("ROLLBACK").expect("the end");
}

#[test]
fn a_read_that_waits_for_a_locked_table() {
    let keys = table("read_rows");
    table("read_table");
    let (mut old, mut young) = (session(0), session(1));
    old.run("BEGIN; LOCK TABLE read_table IN ACCESS EXCLUSIVE MODE").expect("the lock");
    young.run(&format!("BEGIN; {}", update("read_rows", keys[1]))).expect("a row");
    old.send_query(&update("read_rows", keys[1])).expect("sent");
    // Waits while it is described already.
    young.send_query("SELECT count(*) FROM read_table").expect("sent");
    gives_way(&mut young, Instant::now());
    goes_on(&mut old);
    old.run("COMMIT").expect("the end");
    young.run("ROLLBACK").expect("the end");
}

#[test]
fn an_advisory_lock_of_a_session_and_a_row() {
    let keys = table("advised");
    let (mut holder, mut writer) = (session(0), session(1));
    // Not in a transaction: the lock is the session's.
    holder.run("SELECT pg_advisory_lock(4711)").expect("the lock");
    writer.run(&format!("BEGIN; {}", update("advised", keys[1]))).expect("a row");
    holder.send_query(&update("advised", keys[1])).expect("sent");
    let since = Instant::now();
    writer.send_query("SELECT pg_advisory_lock(4711)").expect("sent");
    // The statement in autocommit began last.
    gives_way(&mut holder, since);
    // PostgreSQL too keeps a session's advisory locks in spite of an error.
    holder.run("SELECT pg_advisory_unlock(4711)").expect("the lock is given back");
    goes_on(&mut writer);
    writer.run("COMMIT").expect("the end");
    assert_eq!(value("advised", keys[1]), "1");
}

#[test]
fn a_savepoint_outlives_the_deadlock() {
    let keys = table("saved");
    let (mut old, mut young) = (session(0), session(1));
    old.run(&format!("BEGIN; {}", update("saved", keys[0]))).expect("the first row");
    young
        .run(&format!("BEGIN; {}; SAVEPOINT s; {}", update("saved", keys[2]), update("saved", keys[1])))
        .expect("rows");
    old.send_query(&update("saved", keys[1])).expect("sent");
    young.send_query(&update("saved", keys[0])).expect("sent");
    gives_way(&mut young, Instant::now());
    // The row that the victim changed after its savepoint is free at once.
    goes_on(&mut old);
    old.run("COMMIT").expect("the end");
    young.run("ROLLBACK TO s").expect("the savepoint is there");
    young.run(&update("saved", keys[0])).expect("the row is free now");
    assert_eq!(young.run("COMMIT").expect("the end").tag.as_deref(), Some("COMMIT"));
    assert_eq!([value("saved", keys[0]), value("saved", keys[1]), value("saved", keys[2])], ["2", "1", "1"]);
}

/// A commit whose deferred constraints have to wait for another transaction, which then waits for a row of the first.
#[test]
fn a_commit_that_waits_for_deferred_constraints() {
    let keys = table("checked");
    let clause = if cluster().is_distributed() { "DISTRIBUTE BY HASH (k)" } else { "" };
    let (mut old, mut young) = (session(0), session(1));
    old.run(&format!("CREATE TABLE deferred (k int UNIQUE DEFERRABLE INITIALLY DEFERRED) {clause}")).expect("a table");
    // The first node decides: had the other been prepared before this check, nobody could tell whom `old` waits for.
    let insert = format!("INSERT INTO deferred VALUES ({})", keys[0]);
    old.run(&format!("BEGIN; {insert}")).expect("a row");
    young.run(&format!("BEGIN; {}; {insert}", update("checked", keys[2]))).expect("not checked yet");
    young.send_query("COMMIT").expect("sent");
    old.send_query(&update("checked", keys[2])).expect("sent");
    gives_way(&mut young, Instant::now());
    goes_on(&mut old);
    old.run("COMMIT").expect("the end");
    assert_eq!(young.scalar("SELECT count(*) FROM deferred").expect("a count"), "1");
    assert_eq!(value("checked", keys[2]), "1");
}

#[test]
fn writers_that_queue_up_are_left_alone() {
    let keys = table("queue");
    let (stop, commits) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (stop, commits, keys) = (&stop, &commits, &keys);
            scope.spawn(move || {
                let mut client = session(number % 2);
                while !stop.load(Ordering::Relaxed) {
                    // All in the same order; the pause makes the others wait long enough to be looked at.
                    for sql in ["BEGIN", &update("queue", keys[0]), "SELECT pg_sleep(0.05)", &update("queue", keys[1])]
                    {
                        client.run(sql).expect("no deadlock");
                    }
                    client.run(&update("queue", keys[2])).expect("no deadlock");
                    client.run("COMMIT").expect("no deadlock");
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(5));
        stop.store(true, Ordering::Relaxed);
    });
    let commits = commits.load(Ordering::Relaxed).to_string();
    assert_ne!(commits, "0");
    assert_eq!(keys.iter().map(|key| value("queue", *key)).collect::<Vec<_>>(), vec![commits; NODES]);
}

/// Transactions over the same few rows in any order: every one commits or gets 40P01, by PostgreSQL or by the gtm, and no
/// cancel ever hits another statement (which would say 57014).
#[test]
fn transactions_in_any_order_go_on() {
    let keys = table("any_order");
    let (commits, deadlocks) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let end = Instant::now() + Duration::from_secs(8);
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (commits, deadlocks, keys) = (&commits, &deadlocks, &keys);
            scope.spawn(move || {
                let mut rng = testkit::Rng::new(number as u64);
                let mut client = session(number % 2);
                while Instant::now() < end {
                    let first = rng.below(NODES);
                    let second = (first + 1 + rng.below(NODES - 1)) % NODES;
                    let updates = [update("any_order", keys[first]), update("any_order", keys[second])];
                    let commands = ["BEGIN", &updates[0], &updates[1], "COMMIT"];
                    match commands.iter().try_for_each(|sql| client.run(sql).map(drop)) {
                        Ok(()) => commits.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            assert_eq!(error.code().as_str(), "40P01", "{error}");
                            client.run("ROLLBACK").expect("the end");
                            deadlocks.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            });
        }
    });
    let (commits, deadlocks) = (commits.into_inner(), deadlocks.into_inner());
    println!("{commits} commits, {deadlocks} deadlocks");
    assert!(commits > 0 && deadlocks > 0, "{commits} commits, {deadlocks} deadlocks");
    let sum: usize = keys.iter().map(|key| value("any_order", *key).parse::<usize>().expect("a number")).sum();
    assert_eq!(sum, 2 * commits);
}

#[test]
fn a_plain_wait_is_left_alone() {
    let keys = table("patient");
    let (mut holder, mut waiter) = (session(0), session(1));
    holder.run(&format!("BEGIN; {}", update("patient", keys[0]))).expect("a row");
    waiter.run(&format!("BEGIN; {}", update("patient", keys[1]))).expect("another row");
    waiter.send_query(&update("patient", keys[0])).expect("sent");
    std::thread::sleep(Duration::from_secs(3));
    holder.run("COMMIT").expect("the end");
    goes_on(&mut waiter);
    waiter.run("COMMIT").expect("the end");
    assert_eq!([value("patient", keys[0]), value("patient", keys[1])], ["2", "1"]);
}

/// A statement has several sessions on a node, one of them behind somebody who waits for another of them.
#[test]
fn a_statement_does_not_wait_for_itself() {
    for (name, statement) in [
        (
            "own_insert",
            "INSERT INTO own_insert_too SELECT a.k + 1000, a.v FROM own_insert a JOIN own_insert b ON a.v = b.k - 1",
        ),
        (
            "own_table",
            "CREATE TABLE own_table_new AS SELECT a.k, b.v FROM own_table a JOIN own_table b ON a.v = b.k - 1",
        ),
        ("own_count", "SELECT count(*) FROM own_count a JOIN own_count b ON a.v = b.k - 1"),
    ] {
        table(name);
        table(&format!("{name}_too"));
        let (mut first, mut statements, mut third) = (session(0), session(1), session(0));
        first.run(&format!("BEGIN; LOCK TABLE {name}")).expect("the lock");
        statements.send_query(statement).expect("sent");
        until_waited_for(name);
        third.send_query(&format!("TRUNCATE {name}")).expect("sent");
        std::thread::sleep(Duration::from_millis(100));
        first.run("COMMIT").expect("the end");
        goes_on(&mut statements);
        goes_on(&mut third);
    }
}

/// The catalog is read while a table with a default, a generated column and a view over it is locked.
#[test]
fn a_locked_table_holds_up_no_load() {
    let (mut locks, mut changes) = (session(0), session(0));
    locks.run("CREATE SEQUENCE l_of").expect("a sequence");
    let columns = "k int PRIMARY KEY, d int DEFAULT 1, g int GENERATED ALWAYS AS (d + k) STORED";
    locks.run(&format!("CREATE TABLE l ({columns}) DISTRIBUTE BY HASH (k)")).expect("a table");
    locks.run("CREATE VIEW l_seen AS SELECT g FROM l").expect("a view");
    let started = Instant::now();
    locks.run("BEGIN; LOCK TABLE l IN ACCESS EXCLUSIVE MODE; INSERT INTO l (k) VALUES (1)").expect("a lock");
    changes.run("CREATE TABLE l_beside (k int)").expect("a table");
    assert_eq!(locks.scalar("SELECT g FROM l_seen").expect("a row"), "2");
    assert_eq!(changes.scalar("SELECT count(*) FROM l_beside").expect("a count"), "0");
    locks.run("COMMIT").expect("an end");
    assert!(started.elapsed() < FOUND_MAX / 4, "{:?}", started.elapsed());
    // One change is committed while the other waits for its turn.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                changes.run("DROP TABLE l_beside; CREATE TABLE l_beside (k int)").expect("changes");
            }
        });
        for default in ["nextval('l_of')", "2"].repeat(15) {
            let started = Instant::now();
            let changed = locks.run(&format!("ALTER TABLE ONLY l ALTER COLUMN d SET DEFAULT {default}"));
            stop.store(changed.is_err(), Ordering::Relaxed);
            changed.expect("a change");
            assert!(started.elapsed() < FOUND_MAX, "{:?}", started.elapsed());
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// On one PostgreSQL none of these can wait for each other in a circle.
#[test]
fn statements_that_stand_alone_never_give_way() {
    table("alone");
    let end = Instant::now() + Duration::from_secs(4);
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let mut client = session(number % 2);
                let mut from = 100 + 1_000_000 * number as i32;
                while Instant::now() < end {
                    from += 8;
                    let values: Vec<String> = (from..from + 8).map(|k| format!("({k}, {number})")).collect();
                    let sql = match number {
                        0 | 1 => format!("INSERT INTO alone VALUES {}", values.join(", ")),
                        2 => "TRUNCATE alone".to_owned(),
                        _ => "CREATE INDEX alone_v ON alone (v); DROP INDEX alone_v".to_owned(),
                    };
                    for statement in sql.split("; ") {
                        client.run(statement).expect("no deadlock");
                    }
                }
            });
        }
    });
}

/// A block that has read on one node, and goes on to the others, has the right of way.
#[test]
fn a_block_that_reads_on_lets_nobody_give_way() {
    let keys = table("read_on");
    let (mut reader, mut alone) = (session(0), session(1));
    for key in keys {
        reader.run("BEGIN").expect("a block");
        reader.run(&format!("SELECT v FROM read_on WHERE k = {key}")).expect("a row");
        alone.send_query("TRUNCATE read_on").expect("sent");
        until_waited_for("read_on");
        reader.run("SELECT count(*) FROM read_on").expect("all rows");
        reader.run("COMMIT").expect("the end");
        goes_on(&mut alone);
    }
}

fn copy(client: &mut Client, table: &str, lines: &str) {
    let input = CopyInput { frames: &[lines.as_bytes()], fail: false };
    let answer = client.simple_copy(&format!("COPY {table} FROM STDIN"), input).expect("an answer");
    assert!(answer.error.is_none(), "{:?}", answer.error);
}

/// Waits until somebody waits for a lock of this table.
fn until_waited_for(table: &str) {
    until_waited_for_since(table, "0 s");
}

/// The same, for so long.
fn until_waited_for_since(table: &str, interval: &str) {
    let waits = format!(
        "SELECT count(*) FROM pg_locks WHERE relation = '{table}'::regclass AND NOT granted \
         AND coalesce(clock_timestamp() - waitstart, '0 s') >= interval '{interval}'"
    );
    let nodes = if cluster().is_distributed() { NODES } else { 0 };
    let mut datanodes: Vec<Client> =
        (0..nodes).map(|node| cluster().connect_datanode(node).expect("a session")).collect();
    let end = Instant::now() + Duration::from_secs(20);
    while !datanodes.is_empty() && datanodes.iter_mut().all(|node| node.scalar(&waits).expect("a count") == "0") {
        assert!(Instant::now() < end, "nobody waits for {table}");
    }
}

/// An UPDATE that moves rows between nodes locks its table on all of them. A writer that has come to one node before it, and
/// comes to the others later, is to go on, as on one PostgreSQL.
#[test]
fn who_keeps_writers_off_lets_others_pass() {
    let keys = table("kept");
    let rows = |from: i32| (from..from + 100).map(|k| format!("({k}, 0)")).collect::<Vec<_>>().join(", ");
    let lines = |from: i32| (from..from + 100).map(|k| format!("{k}\t0\n")).collect::<String>();
    let (mut writer, mut mover) = (session(0), session(1));
    for (is_copy, from) in [(false, 1000), (true, 2000)] {
        writer.run(&format!("BEGIN; {}", update("kept", keys[2]))).expect("a row");
        mover.run("BEGIN").expect("a block");
        mover.send_query(&format!("UPDATE kept SET k = k + {from} + 500 WHERE k = {}", keys[1])).expect("sent");
        until_waited_for("kept");
        match is_copy {
            true => copy(&mut writer, "kept", &lines(from)),
            false => drop(writer.run(&format!("INSERT INTO kept VALUES {}", rows(from))).expect("no deadlock")),
        }
        writer.run("COMMIT").expect("the end");
        goes_on(&mut mover);
        mover.run("ROLLBACK").expect("the end");
    }
    assert_eq!(session(0).scalar("SELECT count(*) FROM kept").expect("a count"), (ROWS + 200).to_string());
}

/// LOCK TABLE that has waited for a while, and has the lock where the writer goes next, breaks the circle without an error.
#[test]
fn who_locks_a_table_gives_way() {
    let keys = table("locked_late");
    let (mut writer, mut locker) = (session(0), session(1));
    writer.run(&format!("BEGIN; {}", update("locked_late", keys[2]))).expect("a row");
    locker.run("BEGIN").expect("a block");
    locker.send_query("LOCK TABLE locked_late IN SHARE MODE").expect("sent");
    // In the try of 6.4 s, with more of it left than the finder takes.
    until_waited_for_since("locked_late", "3500 ms");
    for key in &keys[..2] {
        writer.run(&update("locked_late", *key)).expect("no deadlock");
    }
    writer.run("COMMIT").expect("the end");
    goes_on(&mut locker);
    assert_eq!(locker.scalar("SELECT sum(v) FROM locked_late").expect("a sum"), "3");
    locker.run("COMMIT").expect("the end");
}

/// On a busy machine a lock nobody has may take longer than the first try. What has come to an end then is the try, and not what the
/// transaction or the savepoint of the next one needs.
#[test]
fn who_locks_a_table_on_a_busy_machine_gets_it() {
    table("locked_often");
    std::thread::scope(|scope| {
        for number in 0..SESSIONS {
            scope.spawn(move || {
                let mut locker = session(number % 2);
                for _ in 0..LOCKS {
                    locker.run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").expect("a block");
                    locker.run("LOCK TABLE locked_often IN ACCESS SHARE MODE").expect("a lock");
                    locker.run("COMMIT").expect("the end");
                }
            });
        }
    });
}

/// A circle that is there without the lock of the table: giving it back does not help.
#[test]
fn who_locks_a_table_may_be_in_a_deadlock() {
    let keys = table("locked_in_vain");
    table("locked_beside");
    let (mut old, mut young) = (session(0), session(1));
    old.run(&format!("BEGIN; {}", update("locked_in_vain", keys[2]))).expect("a row");
    young.run(&format!("BEGIN; {}", update("locked_beside", keys[1]))).expect("a row");
    young.send_query("LOCK TABLE locked_in_vain IN SHARE MODE").expect("sent");
    old.send_query(&update("locked_beside", keys[1])).expect("sent");
    gives_way(&mut young, Instant::now());
    goes_on(&mut old);
    old.run("COMMIT").expect("the end");
    young.run("ROLLBACK").expect("the end");
}

/// The same without blocks, as fast as it goes.
#[test]
fn rows_for_all_nodes_and_who_keeps_writers_off() {
    table("crowded");
    let (inserts, moves) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let end = Instant::now() + Duration::from_secs(5);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (inserts, moves) = (&inserts, &moves);
            scope.spawn(move || {
                let mut client = session(number % 2);
                let mut from = 100 + 1_000_000 * number as i32;
                while Instant::now() < end {
                    from += 20;
                    let values: Vec<String> = (from..from + 20).map(|k| format!("({k}, {number})")).collect();
                    let lines: String = (from..from + 20).map(|k| format!("{k}\t{number}\n")).collect();
                    let insert = format!("INSERT INTO crowded VALUES {}", values.join(", "));
                    match number {
                        0 | 1 => drop(client.run(&insert).expect("no deadlock")),
                        2 => copy(&mut client, "crowded", &lines),
                        _ => drop(
                            client.run("UPDATE crowded SET k = -k WHERE v = 0 AND abs(k) < 50").expect("no deadlock"),
                        ),
                    }
                    if number < 3 { inserts } else { moves }.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (inserts, moves) = (inserts.into_inner(), moves.into_inner());
    println!("{inserts} statements with rows for all nodes, {moves} that kept writers off");
    assert!(inserts > 0 && moves > 0);
    let count = session(0).scalar("SELECT count(*) FROM crowded").expect("a count");
    assert_eq!(count, (ROWS + 20 * inserts).to_string());
}
