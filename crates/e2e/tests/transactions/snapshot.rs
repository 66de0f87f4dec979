//! What concurrent transactions see of each other through two coordinators.
//!
//! Writers never change a total, keep counters in step, or acknowledge one write before they send the next; readers of every
//! kind look for a state that cannot have been. Each test that finds nothing in the ordinary mode is run again with
//! `loxo.snapshot = 'local'`, where it must find something: it could have seen the anomaly.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result, SqlState};
use testkit::wire::Client;
use testkit::{Cluster, Rng};

const ACCOUNTS: usize = 30;
const TOTAL: i64 = 30_000;
/// How long each scenario looks for an anomaly that must not be there.
const LOOK: Duration = Duration::from_secs(4);
/// How long one that must be there may hide.
const LOOK_MAX: Duration = Duration::from_secs(60);

#[test]
fn sessions_see_one_state() {
    let cluster = Cluster::start(3, 2).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    make_tables(&cluster);
    settings(&cluster);
    serializable_over_nodes(&cluster);
    read_your_writes(&cluster);
    own_changes_in_a_block(&cluster);

    let kinds =
        [Kind::Rows, Kind::Sum, Kind::Block, Kind::WrittenBlock, Kind::RepeatableRead, Kind::Copy, Kind::Cursor];
    assert_eq!(wrong_totals(&cluster, "consistent", &kinds, LOOK * 2), 0, "a total that never was");
    assert_ne!(wrong_totals(&cluster, "local", &[Kind::Rows, Kind::Sum], LOOK_MAX), 0, "the test cannot see anything");
    assert_eq!(steps_back(&cluster, "consistent", LOOK), 0, "a session went back in time");
    assert_ne!(steps_back(&cluster, "local", LOOK_MAX), 0, "the test cannot see a step back");
    assert_eq!(forks(&cluster, "consistent", LOOK), 0, "two orders of the same writes");
    a_table_is_rewritten(&cluster);
    locks_before_snapshots(&cluster);
    updates_of_all_rows(&cluster);
    copies_stay_alike(&cluster);
}

fn make_tables(cluster: &Cluster) {
    let mut session = cluster.connect(0).expect("a session");
    for sql in [
        "CREATE TABLE account (id int PRIMARY KEY, balance bigint) DISTRIBUTE BY HASH (id)",
        "CREATE TABLE note (id int PRIMARY KEY, n int) DISTRIBUTE BY HASH (id)",
        "CREATE TABLE pair (id int PRIMARY KEY, v int) DISTRIBUTE BY HASH (id)",
        "CREATE TABLE rate (id int PRIMARY KEY, v int) DISTRIBUTE BY REPLICATION",
        "CREATE TABLE source (id int PRIMARY KEY, v int) DISTRIBUTE BY REPLICATION",
        "INSERT INTO account SELECT g, 1000 FROM generate_series(1, 30) g",
        "INSERT INTO note SELECT g, 0 FROM generate_series(1, 30) g",
        "INSERT INTO pair SELECT g, 0 FROM generate_series(1, 30) g",
        "INSERT INTO rate SELECT g, 0 FROM generate_series(1, 10) g",
        "INSERT INTO source SELECT g, 0 FROM generate_series(1, 10) g",
    ] {
        session.run(sql).expect(sql);
    }
}

/// Ids of `pair` that live on different nodes.
fn apart(cluster: &Cluster) -> (String, String) {
    let first = |node| {
        let mut datanode = cluster.connect_datanode(node).expect("a datanode");
        datanode.scalar("SELECT min(id) FROM pair").expect("an id")
    };
    (first(0), first(1))
}

fn settings(cluster: &Cluster) {
    let mut session = cluster.connect(1).expect("a session");
    let show = |session: &mut Client| session.scalar("SHOW loxo.snapshot").expect("the setting");
    assert_eq!(show(&mut session), "consistent");
    session.run("SET loxo.snapshot = 'local'").unwrap();
    assert_eq!(show(&mut session), "local");
    session.run("BEGIN; SET LOCAL loxo.snapshot TO consistent").unwrap();
    assert_eq!(show(&mut session), "consistent");
    session.run("SAVEPOINT s; SET loxo.snapshot = local; ROLLBACK TO s").unwrap();
    assert_eq!(show(&mut session), "consistent");
    session.run("ROLLBACK").unwrap();
    assert_eq!(show(&mut session), "local");
    session.run("RESET loxo.snapshot").unwrap();
    assert_eq!(show(&mut session), "consistent");
    let error = session.run("SET loxo.snapshot = 'often'").expect_err("no such value");
    assert_eq!(error.code(), SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(session.scalar("SHOW loxo.work_mem").expect("the setting"), "64MB");
    let error = session.run("SET loxo.work_mem = 'much'").expect_err("no such value");
    assert_eq!(error.code(), SqlState::INVALID_PARAMETER_VALUE);
    let parameters = [("user", "postgres"), ("database", "postgres"), ("options", "-c loxo.snapshot=local")];
    let mut other = Client::connect_with(cluster.coordinators()[0], &parameters).unwrap();
    assert_eq!(show(&mut other), "local");
    other.run("SET loxo.snapshot = consistent").unwrap();
    // What the connection started with is its default.
    other.run("DISCARD ALL").unwrap();
    assert_eq!(show(&mut other), "local");
}

/// Who goes where beside whom; that the result is serializable is tested by crate `faults`.
fn serializable_over_nodes(cluster: &Cluster) {
    let (here, there) = apart(cluster);
    let (read_here, read_there) =
        (format!("SELECT v FROM pair WHERE id = {here}"), format!("SELECT v FROM pair WHERE id = {there}"));
    let [mut one, mut other] = [0, 1].map(|coordinator| cluster.connect(coordinator).expect("a session"));
    other.run("SET lock_timeout = '100ms'").unwrap();
    let begin = |session: &mut Client| session.run("BEGIN ISOLATION LEVEL SERIALIZABLE").map(drop).expect("a block");
    let refused = |result: Result<testkit::wire::Answer>, code: SqlState| {
        let error: PgError = result.map(drop).expect_err("it is refused");
        assert_eq!(error.code(), code, "{error:?}");
    };

    // On one datanode beside others there; not beside one over several.
    begin(&mut one);
    one.run(&read_here).unwrap();
    begin(&mut other);
    other.run(&read_here).unwrap();
    other.run("COMMIT").unwrap();
    begin(&mut other);
    refused(other.run("SELECT sum(v) FROM pair"), SqlState::LOCK_NOT_AVAILABLE);
    other.run("ROLLBACK").unwrap();
    // It has a snapshot here, and none of the same moment there; the second time it has.
    refused(one.run(&read_there), SqlState::SERIALIZATION_FAILURE);
    one.run("ROLLBACK").unwrap();
    for statement in [&read_there, "UPDATE pair SET v = v", "SELECT count(*) FROM pair a JOIN note b ON a.v = b.n"] {
        one.run("BEGIN; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SAVEPOINT s").unwrap();
        one.run(&read_here).unwrap();
        one.run(statement).expect(statement);
        assert_eq!(one.scalar("SHOW transaction_isolation").unwrap(), "serializable");
        one.run("ROLLBACK TO s").unwrap();
        begin(&mut other);
        refused(other.run(&read_here), SqlState::LOCK_NOT_AVAILABLE);
        other.run("ROLLBACK").unwrap();
        one.run("COMMIT").unwrap();
    }
    // One datanode was enough: the next ones stay on theirs.
    begin(&mut one);
    one.run(&read_here).unwrap();
    one.run("COMMIT").unwrap();
    begin(&mut one);
    one.run(&read_here).unwrap();
    begin(&mut other);
    other.run(&read_here).unwrap();
    other.run("COMMIT").unwrap();

    // Statements alone are transactions too, and COPY, cursors and EXPLAIN read like a SELECT.
    other.run("SET default_transaction_isolation = serializable").unwrap();
    other.run(&read_here).unwrap();
    let over_several = [
        "SELECT sum(v) FROM pair",
        "UPDATE pair SET v = 0",
        "INSERT INTO pair SELECT id + 1000, v FROM pair",
        "COPY pair TO STDOUT",
        "COPY (SELECT count(*) FROM pair) TO STDOUT",
        "EXPLAIN ANALYZE SELECT * FROM pair",
    ];
    for statement in over_several {
        refused(other.run(statement), SqlState::LOCK_NOT_AVAILABLE);
    }
    begin(&mut other);
    refused(other.run("DECLARE c CURSOR FOR SELECT * FROM pair"), SqlState::LOCK_NOT_AVAILABLE);
    other.run("ROLLBACK").unwrap();
    one.run("COMMIT").unwrap();
    other.run("RESET lock_timeout").unwrap();
    for statement in over_several {
        other.run(statement).expect(statement);
    }
    other.run("DELETE FROM pair WHERE id > 1000").unwrap();
    other.run("CREATE TABLE pairs AS SELECT * FROM pair; DROP TABLE pairs").unwrap();
}

/// What one coordinator has acknowledged the other shows at once, by every way of reading.
fn read_your_writes(cluster: &Cluster) {
    let (here, there) = apart(cluster);
    let (mut writer, mut reader) = (cluster.connect(0).expect("a session"), cluster.connect(1).expect("a session"));
    for round in 1..=40 {
        let write =
            format!("UPDATE pair SET v = {round} WHERE id = {here}; UPDATE pair SET v = {round} WHERE id = {there}");
        writer.run(&format!("BEGIN; {write}; COMMIT")).expect("a commit");
        for id in [&there, &here] {
            let seen = reader.scalar(&format!("SELECT v FROM pair WHERE id = {id}")).expect("a row");
            assert_eq!(seen, round.to_string());
        }
        let both = format!("SELECT count(*) FROM pair WHERE v = {round} AND id IN ({here}, {there})");
        assert_eq!(reader.scalar(&both).expect("a count"), "2");
    }
}

/// A block sees its own changes by every way of reading, and nobody else's in REPEATABLE READ.
fn own_changes_in_a_block(cluster: &Cluster) {
    let (here, there) = apart(cluster);
    let (mut session, mut other) = (cluster.connect(0).expect("a session"), cluster.connect(1).expect("a session"));
    let point = format!("UPDATE pair SET v = 777 WHERE id = {here}");
    for begin in ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"] {
        session.run(begin).unwrap();
        session.run(&point).unwrap();
        assert_eq!(session.scalar("SELECT count(*) FROM pair WHERE v = 777").unwrap(), "1", "{begin}");
        assert_eq!(session.strings("SELECT id FROM pair WHERE v = 777").unwrap(), [[here.clone()]], "{begin}");
        session.run("DECLARE c CURSOR FOR SELECT id FROM pair WHERE v = 777 ORDER BY id").unwrap();
        assert_eq!(session.strings("FETCH ALL FROM c").unwrap(), [[here.clone()]], "{begin}");
        let joined = "SELECT count(*) FROM pair JOIN rate ON rate.id = pair.v - 776";
        assert_eq!(session.scalar(joined).unwrap(), "1", "{begin}");
        other.run(&format!("UPDATE pair SET v = v + 1 WHERE id = {there}")).unwrap();
        session.run("ROLLBACK").unwrap();
    }
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").unwrap();
    let sum = session.scalar("SELECT sum(v) FROM pair").unwrap();
    let there_then = session.scalar(&format!("SELECT v FROM pair WHERE id = {there}")).unwrap();
    other.run(&format!("UPDATE pair SET v = v + 1 WHERE id = {there}")).unwrap();
    session.run("SAVEPOINT s").unwrap();
    assert_eq!(session.scalar("SELECT sum(v) FROM pair").unwrap(), sum);
    assert_eq!(session.scalar(&format!("SELECT v FROM pair WHERE id = {there}")).unwrap(), there_then);
    session.run("COMMIT").unwrap();
    assert_ne!(session.scalar("SELECT sum(v) FROM pair").unwrap(), sum);
}

/// Ends the writers, also when a reader has panicked.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ways of reading a total.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Rows,
    Sum,
    Block,
    WrittenBlock,
    RepeatableRead,
    Copy,
    Cursor,
}

/// Lets transfers run until `look` is over or a wrong total was seen; gives the number of wrong totals.
fn wrong_totals(cluster: &Cluster, mode: &str, kinds: &[Kind], look: Duration) -> usize {
    let (stop, wrong) = (AtomicBool::new(false), AtomicUsize::new(0));
    let end = Instant::now() + look;
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for writer in 0..4_usize {
            let stop = &stop;
            scope.spawn(move || transfers(cluster, writer, stop));
        }
        let mut readers = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            let wrong = &wrong;
            readers.push(scope.spawn(move || {
                let mut session = cluster.connect(number % 2).expect("a session");
                session.run(&format!("SET loxo.snapshot = '{mode}'")).unwrap();
                let mut reads = 0;
                // Once in any case: another reader may have found something already.
                while reads == 0 || Instant::now() < end && wrong.load(Ordering::Relaxed) == 0 {
                    for total in totals(&mut session, *kind, number) {
                        if total != TOTAL {
                            eprintln!("{mode} {kind:?}: {total}");
                            wrong.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    reads += 1;
                }
                eprintln!("{mode} {kind:?}: {reads} reads");
                reads
            }));
        }
        let reads: Vec<usize> = readers.into_iter().map(|reader| reader.join().expect("a reader")).collect();
        assert!(reads.iter().all(|reads| *reads > 0), "a reader did nothing: {reads:?}");
    });
    wrong.into_inner()
}

fn transfers(cluster: &Cluster, writer: usize, stop: &AtomicBool) {
    let mut session = cluster.connect(writer % 2).expect("a session");
    let mut rng = Rng::new(writer as u64 + 1);
    while !stop.load(Ordering::Relaxed) {
        let (a, b) = (rng.below(ACCOUNTS) + 1, rng.below(ACCOUNTS) + 1);
        let amount = rng.below(20) as i64 - 10;
        // In the order of ids, so that writers wait for each other instead of deadlocking.
        let ((low, minus), (high, plus)) =
            if a < b { ((a, -amount), (b, amount)) } else { ((b, amount), (a, -amount)) };
        if low == high {
            continue;
        }
        for sql in [
            "BEGIN".to_owned(),
            format!("UPDATE account SET balance = balance + {minus} WHERE id = {low}"),
            format!("UPDATE account SET balance = balance + {plus} WHERE id = {high}"),
            "COMMIT".to_owned(),
        ] {
            session.run(&sql).expect("a transfer");
        }
    }
}

fn totals(session: &mut Client, kind: Kind, number: usize) -> Vec<i64> {
    let note = format!("UPDATE note SET n = n + 1 WHERE id = {}", number + 1);
    match kind {
        Kind::Rows => vec![sum_of_rows(session)],
        Kind::Sum => vec![sum(session)],
        Kind::Block => in_block(session, "BEGIN", None),
        Kind::WrittenBlock => in_block(session, "BEGIN", Some(&note)),
        Kind::RepeatableRead => {
            session.run("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
            let first = session.strings("SELECT id, balance FROM account ORDER BY id").unwrap();
            let totals = vec![sum_of_rows(session), sum(session)];
            assert_eq!(session.strings("SELECT id, balance FROM account ORDER BY id").unwrap(), first);
            session.run("COMMIT").unwrap();
            totals
        }
        Kind::Copy => {
            let alone = copied(session);
            session.run("BEGIN").unwrap();
            session.run(&note).unwrap();
            let in_block = copied(session);
            session.run("COMMIT").unwrap();
            vec![alone, in_block]
        }
        Kind::Cursor => {
            session.run("BEGIN").unwrap();
            session.run(&note).unwrap();
            session.run("DECLARE c CURSOR FOR SELECT balance FROM account ORDER BY id").unwrap();
            let rows = session.strings("FETCH ALL FROM c").unwrap();
            session.run("COMMIT").unwrap();
            vec![add(&rows)]
        }
    }
}

fn in_block(session: &mut Client, begin: &str, write: Option<&str>) -> Vec<i64> {
    session.run(begin).unwrap();
    write.into_iter().for_each(|sql| drop(session.run(sql).expect(sql)));
    let totals = vec![sum_of_rows(session), sum(session), joined(session), sum_of_rows(session)];
    session.run("COMMIT").unwrap();
    totals
}

fn sum(session: &mut Client) -> i64 {
    session.scalar("SELECT sum(balance) FROM account").expect("a sum").parse().expect("a number")
}

fn sum_of_rows(session: &mut Client) -> i64 {
    add(&session.strings("SELECT balance FROM account").expect("rows"))
}

/// Gathers two tables.
fn joined(session: &mut Client) -> i64 {
    let sql = "SELECT sum(a.balance) FROM account a JOIN note n ON n.id = 31 - a.id";
    session.scalar(sql).expect("a sum").parse().expect("a number")
}

fn copied(session: &mut Client) -> i64 {
    let answer = session.run("COPY (SELECT balance FROM account) TO STDOUT").expect("a COPY");
    let text = String::from_utf8(answer.copied.unwrap_or_default()).expect("text");
    text.lines().map(|line| line.parse::<i64>().expect("a number")).sum()
}

fn add(rows: &[Vec<String>]) -> i64 {
    rows.iter().map(|row| row[0].parse::<i64>().expect("a number")).sum()
}

/// A writer keeps two counters on two nodes in step; a session that reads one and then the other must never see less.
fn steps_back(cluster: &Cluster, mode: &str, look: Duration) -> usize {
    let (here, there) = apart(cluster);
    let (stop, back) = (AtomicBool::new(false), AtomicUsize::new(0));
    let end = Instant::now() + look;
    cluster.connect(0).unwrap().run(&format!("UPDATE pair SET v = 0 WHERE id IN ({here}, {there})")).unwrap();
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            let mut session = cluster.connect(0).expect("a session");
            while !stop.load(Ordering::Relaxed) {
                session
                    .run(&format!("BEGIN; UPDATE pair SET v = v + 1 WHERE id IN ({here}, {there}); COMMIT"))
                    .unwrap();
            }
        });
        let readers: Vec<_> = (0..4)
            .map(|reader| {
                let (here, there, back) = (&here, &there, &back);
                scope.spawn(move || {
                    let mut session = cluster.connect(reader % 2).expect("a session");
                    session.run(&format!("SET loxo.snapshot = '{mode}'")).unwrap();
                    let mut last = 0;
                    while Instant::now() < end && back.load(Ordering::Relaxed) == 0 {
                        let in_block = reader >= 2;
                        in_block.then(|| session.run("BEGIN").unwrap());
                        for id in [here, there] {
                            let seen: i64 = session
                                .scalar(&format!("SELECT v FROM pair WHERE id = {id}"))
                                .expect("a row")
                                .parse()
                                .expect("a number");
                            if seen < last {
                                back.fetch_add(1, Ordering::Relaxed);
                            }
                            last = seen;
                        }
                        in_block.then(|| session.run("COMMIT").unwrap());
                    }
                })
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().expect("a reader"));
    });
    back.into_inner()
}

/// Two writers raise a counter each, on two nodes; all states that readers of both coordinators see must form one order.
fn forks(cluster: &Cluster, mode: &str, look: Duration) -> usize {
    let (here, there) = apart(cluster);
    let stop = AtomicBool::new(false);
    let end = Instant::now() + look;
    cluster.connect(0).unwrap().run(&format!("UPDATE pair SET v = 0 WHERE id IN ({here}, {there})")).unwrap();
    let mut seen: Vec<(i64, i64)> = std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for (coordinator, id) in [(0, &here), (1, &there)] {
            let stop = &stop;
            scope.spawn(move || {
                let mut session = cluster.connect(coordinator).expect("a session");
                while !stop.load(Ordering::Relaxed) {
                    session.run(&format!("UPDATE pair SET v = v + 1 WHERE id = {id}")).expect("an update");
                }
            });
        }
        let readers: Vec<_> = (0..4)
            .map(|reader| {
                let (here, there) = (&here, &there);
                scope.spawn(move || {
                    let mut session = cluster.connect(reader % 2).expect("a session");
                    session.run(&format!("SET loxo.snapshot = '{mode}'")).unwrap();
                    let mut states = Vec::new();
                    while Instant::now() < end {
                        let rows =
                            session.strings(&format!("SELECT id, v FROM pair WHERE id IN ({here}, {there})")).unwrap();
                        let value = |id: &String| -> i64 {
                            let row = rows.iter().find(|row| row[0] == *id).expect("a row");
                            row[1].parse().expect("a number")
                        };
                        states.push((value(here), value(there)));
                    }
                    states
                })
            })
            .collect();
        readers.into_iter().flat_map(|reader| reader.join().expect("a reader")).collect()
    });
    seen.sort_unstable();
    eprintln!("{mode}: {} states", seen.len());
    assert!(seen.len() > 10, "nothing was read");
    seen.windows(2).filter(|pair| pair[1].1 < pair[0].1).count()
}

/// A statement that has to wait for a schema change sees the rows where that has put them, and neither waits for the other for
/// ever.
fn a_table_is_rewritten(cluster: &Cluster) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let readers: Vec<_> = (0..3)
            .map(|number| {
                let stop = &stop;
                scope.spawn(move || {
                    let mut session = cluster.connect(number % 2).expect("a session");
                    while !stop.load(Ordering::Relaxed) {
                        match number {
                            0 => assert_eq!(sum_of_rows(&mut session), TOTAL),
                            1 => assert_eq!(sum(&mut session), TOTAL),
                            _ => {
                                let tag = session.run("UPDATE account SET balance = balance").expect("an update").tag;
                                assert_eq!(tag.as_deref(), Some("UPDATE 30"));
                            }
                        }
                    }
                })
            })
            .collect();
        let mut session = cluster.connect(1).expect("a session");
        for round in 0..6 {
            let of = if round % 2 == 0 { "numeric" } else { "bigint" };
            session.run(&format!("ALTER TABLE account ALTER COLUMN balance TYPE {of}")).expect("a schema change");
        }
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("a reader"));
    });
}

/// Schema changes of others while a block that has locked a table takes its snapshot: the locks are kept, and the snapshot counts.
fn locks_before_snapshots(cluster: &Cluster) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for number in 0..3 {
            let stop = &stop;
            scope.spawn(move || {
                let mut session = cluster.connect(0).expect("a session");
                while !stop.load(Ordering::Relaxed) {
                    session.run(&format!("CREATE TABLE passing_{number} (id int)")).expect("a schema change");
                    session.run(&format!("DROP TABLE passing_{number}")).expect("a schema change");
                }
            });
        }
        let mut session = cluster.connect(0).expect("a session");
        let end = Instant::now() + LOOK;
        while Instant::now() < end {
            session
                .run("BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE account IN ACCESS SHARE MODE")
                .expect("a lock");
            assert_eq!(sum(&mut session), TOTAL);
            session.run("COMMIT").expect("the end");
        }
    });
}

/// Statements that change all rows on all nodes never fail on each other, nor on writers of single rows.
fn updates_of_all_rows(cluster: &Cluster) {
    cluster.connect(0).unwrap().run("UPDATE pair SET v = 0").unwrap();
    const ROUNDS: usize = 15;
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let mut session = cluster.connect(number % 2).expect("a session");
                for round in 0..ROUNDS {
                    match number < 2 {
                        true => session.run("UPDATE pair SET v = v + 1").expect("an update of all rows"),
                        false => session
                            .run(&format!("UPDATE pair SET v = v + 100 WHERE id = {}", round % 30 + 1))
                            .expect("an update of one row"),
                    };
                }
            });
        }
    });
    let sum = cluster.connect(1).unwrap().scalar("SELECT sum(v) FROM pair").unwrap();
    assert_eq!(sum, (2 * ROUNDS * 30 + 2 * ROUNDS * 100).to_string());
}

/// Every copy of a replicated table does the same, whatever it depends on.
fn copies_stay_alike(cluster: &Cluster) {
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let mut session = cluster.connect(number % 2).expect("a session");
                let mut rng = Rng::new(number as u64 + 50);
                for round in 0..12 {
                    let id = rng.below(10) + 1;
                    let (new, limit) = (1000 + number * 100 + round, round + 1);
                    let (sql, in_block) = match rng.below(6) {
                        0 => (format!("UPDATE rate SET v = v + 1 WHERE v < {limit}"), false),
                        1 => (format!("UPDATE rate SET v = v + 1 WHERE v < {limit}"), true),
                        2 => (format!("INSERT INTO rate VALUES ({new}, {round})"), false),
                        3 => (format!("UPDATE source SET v = v + 1 WHERE id = {id}"), false),
                        4 => (format!("INSERT INTO rate SELECT {new}, sum(v) FROM source"), true),
                        _ => (format!("INSERT INTO rate SELECT {new}, sum(v) FROM source"), false),
                    };
                    in_block.then(|| session.run("BEGIN").unwrap());
                    session.run(&sql).expect(&sql);
                    in_block.then(|| session.run("COMMIT").unwrap());
                }
            });
        }
    });
    let copy = |node, table: &str| {
        let mut datanode = cluster.connect_datanode(node).expect("a datanode");
        datanode.strings(&format!("SELECT * FROM {table} ORDER BY 1")).expect("its rows")
    };
    for table in ["rate", "source"] {
        let first = copy(0, table);
        assert!(first.len() >= 10);
        for node in 1..cluster.datanodes().len() {
            assert_eq!(copy(node, table), first, "{table} on datanode {node}");
        }
    }
}
