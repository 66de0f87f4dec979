//! What ends a wait: `statement_timeout`, a cancel request and a client that goes away end those of the coordinator too; schema
//! changes, deferred constraints and roles with few rights do not wait for, or hold up, whom they need not; and a transaction
//! that has lost a part of itself is never committed.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use testkit::Cluster;
use testkit::wire::Client;

/// `statement_timeout` in these tests.
const LIMIT: &str = "SET statement_timeout = '300ms'";
/// What the waits would take otherwise: 30 s for a cut, a connection or settling; after 5 s for the gtm the error is another one.
const SOON: Duration = Duration::from_secs(20);

/// Connections of a coordinator to each datanode.
const POOL: usize = 60;
/// So many of them may be those of blocks: the rest is for statements on one datanode.
const IN_BLOCKS: usize = POOL - POOL / 8;

struct Test {
    cluster: Cluster,
}

impl Test {
    fn session(&self, coordinator: usize) -> Client {
        self.cluster.connect(coordinator).expect("a session")
    }

    /// Sends the gtm a signal.
    fn signal_gtm(&self, signal: &str) {
        let pids = self.cluster.pids("gtm").expect("the gtm");
        let status = Command::new("kill").arg(signal).args(pids.iter().map(u32::to_string)).status();
        assert!(status.expect("kill runs").success(), "{pids:?}");
    }

    /// Is anyone in a statement or a transaction on any datanode?
    fn is_busy(&self) -> bool {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'loxo' AND state <> 'idle'";
        let busy = |node| self.cluster.connect_datanode(node).expect("a datanode").scalar(sql).expect("a count") != "0";
        (0..2).any(busy)
    }
}

/// The error's code and message, within [`SOON`].
fn refused(client: &mut Client, sql: &str) -> (String, String) {
    let started = Instant::now();
    let error = client.run(sql).expect_err(sql);
    assert!(started.elapsed() < SOON, "{sql}: {:?}", started.elapsed());
    (error.code().as_str().to_owned(), error.message().into_owned())
}

fn canceled(reason: &str) -> (String, String) {
    ("57014".to_owned(), format!("canceling statement due to {reason}"))
}

fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < SOON, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn nobody_waits_longer_than_he_wants() {
    if testkit::self_test() {
        return;
    }
    let test = Test { cluster: Cluster::start(2, 2).expect("a cluster") };
    let mut setup = test.session(0);
    setup.run("CREATE TABLE t (k int PRIMARY KEY, v text) DISTRIBUTE BY HASH (k)").expect("a table");
    setup.run("CREATE TABLE r (k int PRIMARY KEY, v text) DISTRIBUTE BY REPLICATION").expect("a table");
    setup.run("INSERT INTO t SELECT g, 'v' FROM generate_series(1, 20) g").expect("rows");
    setup.run("INSERT INTO r SELECT g, 'v' FROM generate_series(1, 20) g").expect("rows");
    bodies_have_the_time_of_their_statement(&test);
    independent_rows_pass_read_barriers_before_their_commit(&test);
    what_waits_for_the_gtm_can_be_stopped(&test);
    what_waits_for_a_connection_can_be_stopped(&test);
    more_sessions_than_connections_go_on(&test);
    a_cancel_hits_nobody_else(&test);
    a_transaction_that_was_idle_too_long_is_known_to_be_rolled_back(&test);
    a_statement_that_may_be_committed_says_so(&test);
    nobody_waits_for_a_gtm_that_has_gone_on(&test);
    schema_changes_go_side_by_side(&test);
    deferred_checks_hold_nobody_up(&test);
    rights_on_columns_are_enough(&test);
    ordinary_roles_cannot_harm_others(&test);
    a_torn_transaction_is_not_committed(&test);
}

/// What a coordinator runs for a statement, however many statements that is, has the time of that one.
fn bodies_have_the_time_of_their_statement(test: &Test) {
    let mut client = test.session(0);
    let again = "UPDATE t SET v = v WHERE k = 1; PERFORM pg_sleep(0.02)";
    let slow = |returns| format!("$$ BEGIN PERFORM count(*) FROM t; PERFORM pg_sleep(0.05); RETURN {returns}; END $$");
    let setup = [
        format!("CREATE FUNCTION slow(i int) RETURNS int LANGUAGE plpgsql AS {}", slow("i")),
        format!("CREATE FUNCTION slow_row() RETURNS trigger LANGUAGE plpgsql AS {}", slow("NEW")),
        format!("CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN LOOP {again}; COMMIT; END LOOP; END $$"),
        "CREATE TABLE told (k int) DISTRIBUTE BY HASH (k); CREATE TABLE passed (k int) DISTRIBUTE BY HASH (k)"
            .to_owned(),
        "CREATE TRIGGER told AFTER INSERT ON told FOR EACH ROW EXECUTE FUNCTION slow_row()".to_owned(),
        "CREATE TRIGGER passed BEFORE INSERT ON passed FOR EACH ROW EXECUTE FUNCTION slow_row()".to_owned(),
    ];
    setup.iter().for_each(|sql| drop(client.run(sql).expect(sql)));
    client.run(LIMIT).expect("a setting");
    let body = |text: &str| format!("DO $$ BEGIN {text} END $$");
    let without_end = [
        body(&format!("LOOP {again}; END LOOP;")),
        body(&format!("SET LOCAL statement_timeout = 0; LOOP {again}; END LOOP;")),
        body(&format!("BEGIN LOOP {again}; END LOOP; EXCEPTION WHEN OTHERS THEN NULL; END;")),
        body(&format!("RAISE query_canceled; EXCEPTION WHEN query_canceled THEN LOOP {again}; END LOOP;")),
        body("FOR i IN 1..1000 LOOP PERFORM slow(i); END LOOP;"),
        "SELECT slow(k) FROM t".to_owned(),
        "CALL commits()".to_owned(),
        "INSERT INTO told SELECT generate_series(1, 1000)".to_owned(),
        "INSERT INTO passed SELECT generate_series(1, 1000)".to_owned(),
    ];
    for sql in &without_end {
        assert_eq!(refused(&mut client, sql), canceled("statement timeout"), "{sql}");
    }
    // Whoever catches the error goes on without a limit.
    let caught = format!(
        "BEGIN LOOP {again}; END LOOP; EXCEPTION WHEN query_canceled THEN NULL; END; FOR i IN 1..30 LOOP {again}; END LOOP;"
    );
    client.run(&body(&caught)).expect("the second loop ends");
    // Each of several statements has a time of its own.
    let third = body("UPDATE t SET v = v WHERE k = 1; PERFORM pg_sleep(0.15);");
    client.run(&format!("{third}; {third}; {third}")).expect("each is in time");
    client.run("SET statement_timeout = 0").expect("a setting");
    client.run(&body(&format!("FOR i IN 1..30 LOOP {again}; END LOOP;"))).expect("there is no limit");
    client.run("DROP TABLE told, passed").expect("the end");
}

fn what_waits_for_the_gtm_can_be_stopped(test: &Test) {
    let waits = ["SELECT count(*) FROM t", "CREATE TABLE waits (a int)", "UPDATE t SET v = 'waits'"];
    let (mut limited, mut patient) = (test.session(0), test.session(1));
    limited.run(LIMIT).expect("a setting");
    test.signal_gtm("-STOP");
    for sql in waits {
        assert_eq!(refused(&mut limited, sql), canceled("statement timeout"), "{sql}");
    }
    limited.run("BEGIN ISOLATION LEVEL REPEATABLE READ").expect("a block");
    assert_eq!(refused(&mut limited, "SELECT v FROM t WHERE k = 1"), canceled("statement timeout"));
    limited.run("ROLLBACK").expect("its end");
    limited.run("SET statement_timeout = '20s'").expect("a setting");
    limited.run("SELECT v FROM t WHERE k = 1").expect("one node needs no gtm");
    limited.run(LIMIT).expect("a setting");
    for sql in waits {
        patient.send_query(sql).expect("it goes out");
        until(sql, || test.is_busy());
        let (started, key) = (Instant::now(), patient.backend_key);
        // Others may have been busy: a request that comes before the statement hits nothing.
        let (port, is_over) = (test.cluster.coordinators()[1], AtomicBool::new(false));
        let answers = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) && started.elapsed() < SOON {
                    Client::cancel(port, key).expect("the request goes out");
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            let answers = patient.wait();
            is_over.store(true, Ordering::Relaxed);
            answers
        });
        let error = answers.expect("an answer").pop().and_then(|answer| answer.error).expect("an error");
        assert_eq!((error.code().as_str().to_owned(), error.message().into_owned()), canceled("user request"), "{sql}");
        assert!(started.elapsed() < SOON, "{sql}: {:?}", started.elapsed());
    }
    for sql in waits {
        let mut gone = test.session(1);
        gone.send_query(sql).expect("it goes out");
        until(sql, || test.is_busy());
        drop(gone);
        until(&format!("the end of {sql}"), || !test.is_busy());
    }
    settling_can_be_stopped(test);
    test.signal_gtm("-CONT");
    until("the gtm", || limited.run("SELECT count(*) FROM t").is_ok());
    limited.run("SET statement_timeout = 0").expect("a setting");
    until("recovery", || limited.run("SELECT v FROM t WHERE k IN (1, 2, 3, 4)").is_ok());
}

/// Each datanode holds a transaction that nobody finishes while the gtm stands still.
fn settling_can_be_stopped(test: &Test) {
    for node in 0..2 {
        let mut datanode = test.cluster.connect_datanode(node).expect("a datanode");
        let xid = datanode.scalar("SELECT txid_current()").expect("a number");
        prepare_undecided(&mut datanode, node, &xid);
    }
    let mut limited = test.session(0);
    limited.run(LIMIT).expect("a setting");
    // Whoever has seen one node has to pass a read barrier on the others: with these keys, on both.
    let found = (1..=20).filter(|k| {
        let answer = limited.run(&format!("SELECT v FROM t WHERE k = {k}"));
        answer.is_err_and(|error| error.code().as_str() == "57014")
    });
    assert!(found.count() > 0, "nobody waited");
}

/// Prepares a transaction of which the one with this number is to decide.
fn prepare_undecided(datanode: &mut Client, node: usize, xid: &str) {
    datanode.run("BEGIN; UPDATE r SET v = 'prepared' WHERE k = 1").expect("a row");
    let gid = format!("loxo_1_{node}_{xid}_00000000000000ff_{node}");
    datanode.run(&format!("PREPARE TRANSACTION '{gid}'")).expect("it is prepared");
}

/// Rows that look at no other wait for nothing, though they go to one node after the other, or to several nodes at once; their
/// COMMIT waits for what each node holds prepared.
fn independent_rows_pass_read_barriers_before_their_commit(test: &Test) {
    // Only a statement of a known shape is known to look at no other row.
    for coordinator in 0..2 {
        let mut teacher = test.session(coordinator);
        insert_each(&mut teacher, 51..=53);
        teacher.run(&insert_all(54..=63)).expect("rows");
        teacher.run("DELETE FROM t WHERE k > 50").expect("as before");
    }
    let mut blind = test.session(0);
    blind.run("BEGIN").expect("a block");
    insert_each(&mut blind, 101..=110);
    let mut bulk = test.session(1);
    bulk.run(&insert_all(121..=130)).expect("rows");
    let datanode = |node| test.cluster.connect_datanode(node).expect("a datanode");
    let mut deciders: Vec<Client> = (0..2).map(datanode).collect();
    for (node, decider) in deciders.iter_mut().enumerate() {
        decider.run("BEGIN").expect("a block");
        let xid = decider.scalar("SELECT txid_current()").expect("a number");
        prepare_undecided(&mut datanode(node), node, &xid);
    }
    insert_each(&mut blind, 111..=120);
    blind.send_query("COMMIT").expect("it goes out");
    bulk.send_query(&insert_all(131..=140)).expect("it goes out");
    // The question that is asked behind the rows.
    let waits = |node| {
        let sql = "SELECT count(*) FROM pg_stat_activity \
                   WHERE query LIKE '%if_assigned%loxo.read_barrier%' AND wait_event = 'PgSleep'";
        datanode(node).scalar(sql).expect("a count") == "2"
    };
    until("the wait of both sessions on both nodes", || (0..2).all(waits));
    let new_rows = |node| datanode(node).scalar("SELECT count(*) FROM t WHERE k > 130 OR k BETWEEN 101 AND 120");
    assert!((0..2).all(|node| new_rows(node).expect("a count") == "0"));
    for decider in &mut deciders {
        decider.run("ROLLBACK").expect("nothing is decided");
    }
    for session in [&mut blind, &mut bulk] {
        assert!(session.wait().expect("an answer").iter().all(|answer| answer.error.is_none()));
    }
    assert!((0..2).all(|node| new_rows(node).expect("a count") != "0"));
    blind.run("DELETE FROM t WHERE k > 100").expect("as before");
}

/// One statement a row, so that nodes change.
fn insert_each(client: &mut Client, keys: std::ops::RangeInclusive<u32>) {
    for k in keys {
        client.run(&format!("INSERT INTO t VALUES ({k}, 'blind')")).expect("a row");
    }
}

/// One statement for all rows.
fn insert_all(keys: std::ops::RangeInclusive<u32>) -> String {
    let rows: Vec<String> = keys.map(|k| format!("({k}, 'blind')")).collect();
    format!("INSERT INTO t VALUES {}", rows.join(", "))
}

fn what_waits_for_a_connection_can_be_stopped(test: &Test) {
    // A session needs one for a moment at its start, so all of them start first.
    let mut sessions: Vec<Client> = (0..IN_BLOCKS + 2).map(|_| test.session(0)).collect();
    let mut late = sessions.split_off(IN_BLOCKS);
    for session in &mut late {
        session.run("SET statement_timeout = '2s'").expect("a setting");
    }
    for session in &mut sessions {
        session.run("BEGIN; SELECT pg_backend_pid()").expect("a connection of its own");
    }
    for session in &mut late {
        assert_eq!(refused(session, "BEGIN; SELECT pg_backend_pid()"), canceled("statement timeout"));
        session.run("ROLLBACK").expect("the end of the block");
        session.run("SET statement_timeout = '20s'").expect("a setting");
        session
            .run("SELECT v FROM t WHERE k = 1")
            .expect("a statement on one datanode, which does not wait behind blocks");
        session.run("SET statement_timeout = '2s'").expect("a setting");
    }
    drop(sessions);
    until("a free connection", || late[0].run("ROLLBACK; BEGIN; SELECT pg_backend_pid(); COMMIT").is_ok());
}

/// Each holds a connection to one node while it waits for one to the other, half of them the other way round.
fn more_sessions_than_connections_go_on(test: &Test) {
    let end = Instant::now() + Duration::from_secs(3);
    let sum = || test.session(0).scalar("SELECT count(*) FROM t WHERE v = 'crowd'").expect("a count");
    let sessions: Vec<Client> = (0..2 * POOL + 10).map(|_| test.session(0)).collect();
    let committed: usize = std::thread::scope(|scope| {
        let spawn = |(number, mut client): (usize, Client)| {
            scope.spawn(move || {
                let (mut done, mut key) = (0, 10_000 + 1000 * number);
                while Instant::now() < end {
                    let started = Instant::now();
                    client.run("BEGIN").expect("a block");
                    for _ in 0..3 {
                        client.run(&format!("INSERT INTO t VALUES ({key}, 'crowd')")).expect("a row");
                        key += 1;
                    }
                    client.run("COMMIT").expect("the end");
                    assert!(started.elapsed() < 3 * SOON, "{:?}", started.elapsed());
                    done += 3;
                }
                done
            })
        };
        let threads: Vec<_> = sessions.into_iter().enumerate().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("no error")).sum()
    });
    assert_eq!(sum(), committed.to_string());
    test.session(0).run("DELETE FROM t WHERE v = 'crowd'").expect("no more of it");
}

/// Requests come at every moment of short statements, and long after them.
fn a_cancel_hits_nobody_else(test: &Test) {
    let end = Instant::now() + Duration::from_secs(3);
    let port = test.cluster.coordinators()[0];
    let mut victim = test.session(0);
    let key = victim.backend_key;
    let canceled = std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut bystander = test.session(0);
            scope.spawn(move || {
                while Instant::now() < end {
                    bystander.run("SELECT count(*) FROM t").expect("nobody has cancelled it");
                    bystander.run("SELECT v FROM t WHERE k = 3").expect("nor this");
                }
            });
        }
        scope.spawn(move || {
            while Instant::now() < end {
                Client::cancel(port, key).expect("the request goes out");
            }
        });
        let mut canceled = 0;
        while Instant::now() < end {
            if let Err(error) = victim.run("SELECT count(*) FROM t").and(victim.run("SELECT v FROM t WHERE k = 3")) {
                assert_eq!(error.code().as_str(), "57014", "{error}");
                canceled += 1;
            }
        }
        canceled
    });
    assert!(canceled > 0);
}

fn a_transaction_that_was_idle_too_long_is_known_to_be_rolled_back(test: &Test) {
    let mut admin = test.session(0);
    admin.run("CREATE ROLE sleepy LOGIN").expect("a role");
    admin.run("GRANT ALL ON t TO sleepy").expect("rights");
    for node in 0..2 {
        let mut datanode = test.cluster.connect_datanode(node).expect("a datanode");
        datanode.run("ALTER ROLE sleepy SET idle_in_transaction_session_timeout = '200ms'").expect("a setting");
    }
    let user = [("user", "sleepy"), ("database", "postgres")];
    let mut client = Client::connect_with(test.cluster.coordinators()[0], &user).expect("a session");
    client.run("BEGIN").expect("a block");
    client.run("INSERT INTO t VALUES (30001, 'sleepy')").expect("a row");
    std::thread::sleep(Duration::from_millis(600));
    let error = client.run("COMMIT").expect_err("the datanode has ended it");
    assert_eq!(error.code().as_str(), "25P03", "{error}");
    assert_eq!(admin.scalar("SELECT count(*) FROM t WHERE k = 30001").expect("a count"), "0");
    drop(client);
    admin.run("DROP OWNED BY sleepy").expect("no more of it");
    admin.run("DROP ROLE sleepy").expect("no more of it");
}

/// Its datanode has committed it, and waits for a standby that there is not; then the connection breaks.
fn a_statement_that_may_be_committed_says_so(test: &Test) {
    let mut client = test.session(0);
    client.run("SET synchronous_commit = on").expect("a setting");
    let key = |node: usize| {
        let sql = "SELECT min(k) FROM t WHERE k < 21";
        test.cluster.connect_datanode(node).expect("a datanode").scalar(sql).expect("a key")
    };
    let mut datanode = test.cluster.connect_datanode(1).expect("a datanode");
    let mut standby = |names: &str| {
        datanode.run(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'")).expect("a setting");
        datanode.run("SELECT pg_reload_conf()").expect("it is read");
    };
    for sql in ["UPDATE t SET v = 'maybe' WHERE k = $key", "UPDATE t SET v = v || '!' WHERE k = $key RETURNING v"] {
        standby("nobody");
        until_commits_wait(test);
        client.send_query(&sql.replace("$key", &key(1))).expect("it goes out");
        let mut other = test.cluster.connect_datanode(1).expect("a datanode");
        let terminate = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE wait_event = 'SyncRep' AND application_name = 'loxo' AND query LIKE 'UPDATE%'";
        until("the wait for a standby", || other.scalar(terminate).expect("a count") != "0");
        let error = client.wait().expect("an answer").pop().and_then(|answer| answer.error).expect("an error");
        assert_eq!(error.code().as_str(), "40003", "{error}");
        standby("");
    }
    assert_eq!(client.scalar(&format!("SELECT v FROM t WHERE k = {}", key(1))).expect("a value"), "maybe!");
}

/// The second datanode's checkpointer comes to the setting when it has time.
fn until_commits_wait(test: &Test) {
    let mut look = test.cluster.connect_datanode(1).expect("a datanode");
    let mut probes = Vec::new();
    until("a commit that waits", || {
        let mut probe = test.cluster.connect_datanode(1).expect("a datanode");
        let commits = "SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'probe', '')";
        probe.send_query(commits).expect("it goes out");
        probes.push(probe);
        let cancelled = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity \
             WHERE wait_event = 'SyncRep' AND query LIKE '%emit_message%' AND pid <> pg_backend_pid()";
        look.scalar(cancelled).expect("a count") != "0"
    });
}

/// What the gtm asks, and does not wait for any more, ends on the datanode too.
fn nobody_waits_for_a_gtm_that_has_gone_on(test: &Test) {
    let (mut holder, mut look) = (test.cluster.connect_datanode(0), test.cluster.connect_datanode(0));
    let (holder, look) = (holder.as_mut().expect("a datanode"), look.as_mut().expect("a datanode"));
    holder.run("BEGIN; LOCK TABLE loxo.node IN ACCESS EXCLUSIVE MODE").expect("a lock");
    let waiting = "SELECT coalesce(min(pid), 0) FROM pg_locks JOIN pg_stat_activity USING (pid) \
         WHERE application_name = 'loxo gtm' AND NOT granted";
    let mut pid = String::new();
    until("a question of the gtm", || {
        pid = look.scalar(waiting).expect("a number");
        pid != "0"
    });
    let is_there = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
    until("its end", || look.scalar(&is_there).expect("a count") == "0");
    holder.run("ROLLBACK").expect("the lock is given back");
    let mut session = test.session(0);
    session.run("SET statement_timeout = '60s'").expect("a setting");
    session.run("REINDEX DATABASE postgres").expect("nobody keeps a lock on the metadata");
}

fn schema_changes_go_side_by_side(test: &Test) {
    let (mut one, mut two) = (test.session(0), test.session(1));
    two.run("SET statement_timeout = '20s'").expect("a setting");
    one.run("BEGIN; CREATE TABLE side_a (a int PRIMARY KEY) DISTRIBUTE BY HASH (a)").expect("a table");
    two.run("CREATE TABLE side_b (a int PRIMARY KEY) DISTRIBUTE BY HASH (a)").expect("nobody has to wait");
    two.run("ALTER TABLE side_b ADD COLUMN b int").expect("nobody has to wait");
    two.run("INSERT INTO side_b SELECT g, g FROM generate_series(1, 9) g").expect("rows");
    one.run("INSERT INTO side_a SELECT a FROM side_b").expect("rows");
    one.run("ALTER TABLE side_a ADD COLUMN c int").expect("a column");
    assert_eq!(one.scalar("SELECT count(c) + count(*) FROM side_a JOIN side_b USING (a)").expect("a count"), "9");
    let error = two.run("SELECT * FROM side_a").expect_err("it is not there yet");
    assert_eq!(error.code().as_str(), "42P01");
    // Of the same object the second waits.
    two.run(LIMIT).expect("a setting");
    assert_eq!(refused(&mut two, "CREATE TABLE side_a (b int)"), canceled("statement timeout"));
    one.run("COMMIT").expect("it commits");
    two.run("SET statement_timeout = '20s'").expect("a setting");
    assert_eq!(two.scalar("SELECT count(c) + count(*) FROM side_a").expect("a count"), "9");
    let mut versions = (0..2).map(|node| {
        let mut datanode = test.cluster.connect_datanode(node).expect("a datanode");
        datanode.scalar("SELECT version FROM loxo.catalog_version").expect("a version")
    });
    assert_eq!(versions.next(), versions.next(), "all datanodes count alike");
    // A transaction that keeps its snapshot takes its turn at its first change.
    one.run("BEGIN ISOLATION LEVEL REPEATABLE READ; CREATE TABLE side_c (a int)").expect("a table");
    two.run(LIMIT).expect("a setting");
    assert_eq!(refused(&mut two, "CREATE TABLE side_d (a int)"), canceled("statement timeout"));
    one.run("COMMIT").expect("it commits");
    two.run("SET statement_timeout = 0; DROP TABLE side_a, side_b, side_c").expect("it goes on");
}

fn deferred_checks_hold_nobody_up(test: &Test) {
    let mut setup = test.session(0);
    setup.run("CREATE TABLE parent (k int PRIMARY KEY) DISTRIBUTE BY REPLICATION").expect("a table");
    let child = "CREATE TABLE child (k int REFERENCES parent DEFERRABLE INITIALLY DEFERRED) DISTRIBUTE BY HASH (k)";
    setup.run(child).expect("a table");
    setup.run("INSERT INTO parent VALUES (1)").expect("a row");
    let (mut holder, mut reader) = (test.session(0), test.session(1));
    let mut quickest = Duration::MAX;
    reader.scalar("SELECT count(*) FROM child").expect("the catalog is read");
    for writes in ["INSERT INTO child VALUES (1)", "BEGIN; INSERT INTO child VALUES (1); COMMIT"] {
        holder.run("BEGIN; DELETE FROM parent").expect("the row is locked");
        let mut writer = test.session(0);
        writer.send_query(writes).expect("it goes out");
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        let waits = |node| test.cluster.connect_datanode(node).expect("a datanode").scalar(waiting).expect("a count");
        until("the check", || (0..2).any(|node| waits(node) != "0"));
        // The first cut would be the slow one: later ones do not wait for what was slow before.
        for _ in 0..5 {
            let started = Instant::now();
            assert_eq!(reader.scalar("SELECT count(*) FROM child").expect("a count"), "0");
            quickest = quickest.min(started.elapsed());
        }
        holder.run("COMMIT").expect("the row is gone");
        let answers = writer.wait().expect("an answer");
        let error = answers.into_iter().find_map(|answer| answer.error).expect("an error");
        assert_eq!(error.code().as_str(), "23503", "{writes}");
        setup.run("INSERT INTO parent VALUES (1)").expect("a row");
    }
    assert!(quickest < Duration::from_millis(350), "a cut waited for a commit: {quickest:?}");
    setup.run("DROP TABLE child, parent").expect("no more of it");
}

fn rights_on_columns_are_enough(test: &Test) {
    let mut admin = test.session(0);
    admin.run("CREATE ROLE some_columns").expect("a role");
    for table in ["t", "r"] {
        admin
            .run(&format!("GRANT SELECT (k, v), INSERT (k, v), UPDATE (v) ON {table} TO some_columns"))
            .expect("a grant");
    }
    let mut client = test.session(1);
    client.run("SET ROLE some_columns").expect("a role");
    for sql in [
        "INSERT INTO t (k, v) SELECT k + 100, v FROM t WHERE k <= 20",
        "INSERT INTO r (k, v) SELECT k + 100, v FROM r WHERE k <= 20",
        "UPDATE t SET v = 'column'",
        "UPDATE r SET v = 'column'",
        "UPDATE r SET v = (SELECT s.v FROM r s WHERE s.k = r.k)",
    ] {
        client.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    client.run("BEGIN").expect("a block");
    for sql in ["UPDATE r SET v = 'block'", "UPDATE r SET v = (SELECT s.v FROM r s WHERE s.k = r.k)"] {
        client.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    client.run("COMMIT").expect("it commits");
    assert_eq!(client.scalar("SELECT count(v) FROM r WHERE v = 'block'").expect("a count"), "40");
    for sql in ["UPDATE r SET k = 1", "DELETE FROM r", "DELETE FROM t"] {
        client.run("BEGIN").expect("a block");
        assert_eq!(refused(&mut client, sql).0, "42501", "{sql}");
        client.run("ROLLBACK").expect("its end");
    }
    client.run("RESET ROLE; DROP OWNED BY some_columns; DROP ROLE some_columns").expect("no more of it");
}

fn ordinary_roles_cannot_harm_others(test: &Test) {
    let mut admin = test.session(0);
    admin.run("CREATE ROLE ordinary LOGIN; GRANT CREATE ON SCHEMA public TO ordinary").expect("a role");
    let who = [("user", "ordinary"), ("database", "postgres")];
    let mut client = Client::connect_with(test.cluster.coordinators()[0], &who).expect("a session");
    client.run("CREATE TABLE mine (a int, b jsonb) DISTRIBUTE BY HASH (a)").expect("a table of its own");
    for (sql, code) in [
        ("INSERT INTO loxo.decision (gid) VALUES ('loxo_1_0_700_00000000000000ff_1')", "42501"),
        ("SELECT * FROM loxo.decision", "42501"),
        ("DELETE FROM loxo.finishing", "42501"),
        ("UPDATE loxo.prepared_transaction SET state = 'aborting'", "42501"),
        ("UPDATE loxo.class SET locator = 'N'", "42501"),
        ("SELECT setval('loxo.generation', 1)", "42501"),
        ("LOCK TABLE loxo.fence IN EXCLUSIVE MODE", "42501"),
        ("EXECUTE DIRECT ON (dn1) 'SELECT 1'", "42501"),
        ("SELECT loxo.bucket_map_over('{7,99}')", "42501"),
        ("SELECT loxo.register_table('', 'mine', 'H', '{b}', 1, NULL, false)", "42501"),
        ("SELECT loxo.register_table('\\x00', 't', 'H', '{k}', 1, NULL, false)", "42501"),
        ("SELECT loxo.keep_writers_off('', 't', true)", "42501"),
    ] {
        client.run("BEGIN").expect("a block");
        let error = client.run(sql).expect_err(sql);
        assert!(error.code().as_str() == code || error.code().as_str() == "0A000", "{sql}: {error}");
        client.run("ROLLBACK").expect("its end");
    }
    drop(client);
    admin.run("DROP OWNED BY ordinary; DROP ROLE ordinary").expect("no more of it");
    assert_eq!(test.session(1).scalar("SELECT count(*) > 0 FROM t").expect("the cluster lives"), "t");
}

/// The loss of one node's part must not leave the other parts to be committed.
fn a_torn_transaction_is_not_committed(test: &Test) {
    let mut client = test.session(0);
    client.run("BEGIN; INSERT INTO t SELECT g, 'torn' FROM generate_series(1001, 1020) g; SAVEPOINT s").expect("rows");
    let mut datanode = test.cluster.connect_datanode(1).expect("a session");
    let backends = "SELECT count(pg_terminate_backend(pid, 10000)) > 0 FROM pg_stat_activity \
                    WHERE state = 'idle in transaction' AND application_name = 'loxo'";
    assert_eq!(datanode.scalar(backends).expect("an answer"), "t");
    client.run("SELECT count(*) FROM t").expect_err("a datanode is lost");
    assert_eq!(refused(&mut client, "ROLLBACK TO s").0, "25P02");
    assert_eq!(client.run("COMMIT").expect("an answer").tag.as_deref(), Some("ROLLBACK"));
    assert_eq!(client.scalar("SELECT count(*) FROM t WHERE v = 'torn'").expect("a count"), "0");
}
