//! What a session may do besides single statements, as one PostgreSQL does it: settings, temp tables, advisory locks, prepared
//! statements, cursors, savepoints, timeouts, cancelling, prepared transactions; and that whoever goes away, however it
//! goes, leaves no lock behind on any node.

use std::time::{Duration, Instant};

use e2e::differential::{Pair, answers_text, without_places};
use pgerror::SqlState;
use testkit::wire::{Client, CopyInput};
use testkit::{Cluster, Server, ServerOptions};

/// What a session that is gone held must be free by then; what holds it else lasts 60 s or for ever.
const RELEASED_MAX: Duration = Duration::from_secs(20);

struct Both {
    cluster: Cluster,
    reference: Server,
}

impl Both {
    fn start() -> Self {
        let cluster = Cluster::start(2, 2).expect("a cluster");
        let options = ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("its locale");
        let reference = Server::start(&options).expect("a stock server");
        let both = Self { cluster, reference };
        let mut pair = both.pair();
        for name in ["t", "other"] {
            let sql = format!("CREATE TABLE {name} (k int PRIMARY KEY, v text)");
            pair.reference.run(&sql).expect("a table");
            let clause = if pair.distributed { " DISTRIBUTE BY HASH (k)" } else { "" };
            pair.cluster.run(&format!("{sql}{clause}")).expect("a table");
            same(&mut pair, &[&format!("INSERT INTO {name} SELECT g, 'v' || g FROM generate_series(1, 20) g")]);
        }
        both
    }

    fn pair(&self) -> Pair {
        let (reference, cluster) =
            (self.reference.connect().expect("a session"), self.cluster.connect(0).expect("a session"));
        Pair { reference, cluster, distributed: self.cluster.is_distributed(), audited: None }
    }
}

/// Runs statements one by one on both sides; all that comes back must be the same.
fn same(pair: &mut Pair, statements: &[&str]) {
    for sql in statements {
        let expected = pair.reference.simple_all(sql, CopyInput::default()).expect("the stock server answers");
        let actual = pair.cluster.simple_all(sql, CopyInput::default()).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        let (actual, expected) = (without_places(&answers_text(&actual)), without_places(&answers_text(&expected)));
        assert_eq!(actual, expected, "{sql}\n(left: the cluster, right: one server)");
    }
}

#[test]
fn sessions_behave_like_those_of_one_postgresql() {
    let both = Both::start();
    settings(&mut both.pair());
    settings_of_the_connection(&both);
    temp_tables(&mut both.pair());
    prepared_statements(&mut both.pair());
    cursors(&mut both.pair());
    savepoints(&mut both.pair());
    what_cannot_be_prepared(&mut both.pair());
    statement_and_lock_timeouts(&both);
    idle_timeouts(&both);
    advisory_locks(&both.cluster);
    prepared_transactions_belong_to_no_session(&both.cluster);
    if both.cluster.is_distributed() {
        a_client_that_vanishes_leaves_nothing(&both.cluster);
        a_coordinator_that_is_killed_leaves_nothing(&both.cluster);
    }
}

fn settings(pair: &mut Pair) {
    same(
        pair,
        &[
            "SET vacuum_cost_limit = '700'",
            "BEGIN",
            "SET LOCAL vacuum_cost_limit = '800'",
            "SAVEPOINT a",
            "SET vacuum_cost_limit = '900'",
            "SELECT count(*) FROM t WHERE current_setting('vacuum_cost_limit') = '900'",
            "SET LOCAL statement_timeout = '1h'",
            "ROLLBACK TO a",
            "SHOW vacuum_cost_limit",
            "SHOW statement_timeout",
            "SELECT count(*) FROM t WHERE current_setting('vacuum_cost_limit') = '800'",
            "RELEASE a",
            "SAVEPOINT b",
            "SET search_path = pg_catalog",
            "SELECT count(*) FROM t",
            "ROLLBACK TO b",
            "SELECT count(*) FROM t",
            "RESET vacuum_cost_limit",
            "SHOW vacuum_cost_limit",
            "ROLLBACK",
            "SHOW vacuum_cost_limit",
            "BEGIN",
            "SET vacuum_cost_limit = '1000'",
            "SET LOCAL vacuum_cost_limit = '1100'",
            "COMMIT",
            "SHOW vacuum_cost_limit",
            "SELECT count(*) FROM t WHERE current_setting('vacuum_cost_limit') = '1000'",
            "BEGIN",
            "SET vacuum_cost_limit = '1200'",
            "SELECT 1/0",
            "COMMIT",
            "SHOW vacuum_cost_limit",
            "SET vacuum_cost_limit = 'much'",
            "SET nosuch_setting = 1",
            "RESET ALL",
            // The timeouts that the coordinator obeys itself.
            "SHOW idle_session_timeout",
            "SET idle_session_timeout = 90000",
            "SHOW idle_session_timeout",
            "BEGIN",
            "SET LOCAL idle_session_timeout = '7min'",
            "SHOW idle_session_timeout",
            "SAVEPOINT a",
            "SET idle_session_timeout = '8min'",
            "SET idle_in_transaction_session_timeout TO '1h'",
            "SHOW idle_in_transaction_session_timeout",
            "ROLLBACK TO a",
            "SHOW idle_in_transaction_session_timeout",
            "SHOW idle_session_timeout",
            "COMMIT",
            "SHOW idle_session_timeout",
            "SET idle_session_timeout = 'long'",
            "SET idle_session_timeout = -1",
            "SET idle_session_timeout TO DEFAULT",
            "SHOW idle_session_timeout",
            "SET idle_session_timeout = '3h'",
            "BEGIN",
            "RESET ALL",
            "SHOW idle_session_timeout",
            "ROLLBACK",
            "SHOW idle_session_timeout",
            "DISCARD ALL",
            "SHOW idle_session_timeout",
        ],
    );
}

/// RESET goes back to what the connection asked for at its start.
fn settings_of_the_connection(both: &Both) {
    let options = "-c vacuum_cost_limit=500 -c idle_session_timeout=2h";
    let parameters = [("user", "postgres"), ("database", "postgres"), ("DateStyle", "SQL, DMY"), ("options", options)];
    let connect = |port| Client::connect_with(port, &parameters).expect("a session");
    let mut pair = both.pair();
    (pair.reference, pair.cluster) = (connect(both.reference.port()), connect(both.cluster.coordinators()[0]));
    let show = "SELECT current_setting('vacuum_cost_limit'), date '2020-12-31', count(*) FROM t";
    let set = "SET datestyle = 'German'; SET vacuum_cost_limit = 600; SET idle_session_timeout = '3h'";
    let resets = [
        "RESET datestyle; RESET vacuum_cost_limit; RESET idle_session_timeout",
        "SET datestyle TO DEFAULT; SET vacuum_cost_limit TO DEFAULT; SET idle_session_timeout TO DEFAULT",
        "RESET ALL",
        "BEGIN; RESET ALL; COMMIT",
    ];
    for reset in resets {
        same(&mut pair, &[set, show, reset, show, "SHOW idle_session_timeout", "SHOW datestyle"]);
    }
    same(&mut pair, &[set, "DISCARD ALL", show, "SHOW idle_session_timeout", set]);
    same(&mut pair, &["BEGIN", "SET LOCAL datestyle TO DEFAULT", show, "RESET ALL", show, "ROLLBACK", show]);
}

fn temp_tables(pair: &mut Pair) {
    same(
        pair,
        &[
            "CREATE TEMP TABLE mine (k int, n int)",
            "INSERT INTO mine SELECT g, g * g FROM generate_series(1, 5) g",
            "SELECT t.v, n FROM t JOIN mine USING (k) ORDER BY t.k",
            "BEGIN",
            "CREATE TEMP TABLE dropped (a int) ON COMMIT DROP",
            "CREATE TEMP TABLE emptied (a int) ON COMMIT DELETE ROWS",
            "INSERT INTO dropped VALUES (1)",
            "INSERT INTO emptied VALUES (1), (2)",
            "SELECT count(*) FROM emptied",
            "UPDATE t SET v = 'with temp' WHERE k IN (1, 2, 3, 4)",
            "COMMIT",
            "SELECT * FROM dropped",
            "SELECT count(*) FROM emptied",
            "SELECT count(*) FROM t WHERE v = 'with temp'",
            "BEGIN",
            "DELETE FROM mine",
            "SAVEPOINT s",
            "DROP TABLE mine",
            "SELECT * FROM mine",
            "ROLLBACK TO s",
            "SELECT count(*) FROM mine",
            "ROLLBACK",
            "SELECT count(*) FROM mine",
            "CREATE TEMP TABLE t (k int)",
            "SELECT * FROM t",
            "DROP TABLE t",
            "SELECT count(*) FROM t",
            "DISCARD TEMP",
            "SELECT * FROM mine",
        ],
    );
}

fn prepared_statements(pair: &mut Pair) {
    same(
        pair,
        &[
            "PREPARE one (int) AS SELECT k, v FROM t WHERE k = $1",
            "PREPARE many AS SELECT count(*) FROM t WHERE k > $1",
            "PREPARE put (int, text) AS INSERT INTO other VALUES ($1, $2)",
            "EXECUTE one (5)",
            "BEGIN",
            "EXECUTE put (100, 'a')",
            "EXECUTE put (101, 'b')",
            "EXECUTE put (100, 'again')",
            "EXECUTE one (5)",
            "ROLLBACK",
            "EXECUTE many (10)",
            "BEGIN",
            "PREPARE survives AS SELECT 1",
            "DEALLOCATE one",
            "ROLLBACK",
            "EXECUTE survives",
            "EXECUTE one (5)",
            "ALTER TABLE other ADD COLUMN more int",
            "EXECUTE put (102, 'c')",
            "SELECT * FROM other WHERE k = 102",
            "DELETE FROM other WHERE k = 102",
            "ALTER TABLE other DROP COLUMN more",
            "DISCARD ALL",
            "EXECUTE many (10)",
        ],
    );
    // A name made by Parse is the name of EXECUTE, and the other way round.
    let parse = b"both\0SELECT v FROM t WHERE k = $1\0\0\0";
    for client in [&mut pair.reference, &mut pair.cluster] {
        client.send_messages(&[(b'P', parse), (b'S', b"")]).expect("it goes out");
        client.wait().expect("an answer");
    }
    same(pair, &["EXECUTE both (7)", "PREPARE both AS SELECT 1", "DEALLOCATE both", "EXECUTE both (7)"]);
}

fn cursors(pair: &mut Pair) {
    same(
        pair,
        &[
            "DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k",
            "BEGIN",
            "DECLARE c SCROLL CURSOR FOR SELECT k FROM t ORDER BY k",
            "DECLARE c CURSOR FOR SELECT 1",
            "ROLLBACK",
            "BEGIN",
            "DECLARE c SCROLL CURSOR FOR SELECT k FROM t ORDER BY k",
            "FETCH 3 FROM c",
            "SAVEPOINT s",
            "FETCH BACKWARD 2 FROM c",
            "SELECT 1/0",
            "ROLLBACK TO s",
            "FETCH FORWARD 1 FROM c",
            "FETCH ABSOLUTE 18 FROM c",
            "MOVE RELATIVE 1 IN c",
            "FETCH ALL FROM c",
            "CLOSE c",
            "FETCH c",
            "ROLLBACK",
            "BEGIN",
            "DECLARE a CURSOR FOR SELECT k FROM t WHERE k = 3",
            "DECLARE b CURSOR FOR SELECT count(*) FROM t",
            "FETCH a",
            "FETCH b",
            "CLOSE ALL",
            "FETCH a",
            "COMMIT",
            "FETCH a",
        ],
    );
}

fn savepoints(pair: &mut Pair) {
    same(
        pair,
        &[
            "BEGIN",
            "INSERT INTO other VALUES (200, 'one node')",
            "SAVEPOINT a",
            "INSERT INTO other SELECT g, 'all nodes' FROM generate_series(201, 210) g",
            "SAVEPOINT b",
            "UPDATE other SET v = 'changed' WHERE k >= 200",
            "INSERT INTO other VALUES (205, 'twice')",
            "SELECT 1",
            "ROLLBACK TO b",
            "SELECT v, count(*) FROM other WHERE k >= 200 GROUP BY v ORDER BY v",
            "DELETE FROM other WHERE k >= 205",
            "RELEASE b",
            "ROLLBACK TO b",
            "ROLLBACK TO a",
            "SELECT k FROM other WHERE k >= 200 ORDER BY k",
            "INSERT INTO other SELECT g, 'second try' FROM generate_series(211, 215) g",
            "COMMIT",
            "SELECT k FROM other WHERE k >= 200 ORDER BY k",
            "DELETE FROM other WHERE k >= 200",
        ],
    );
}

fn what_cannot_be_prepared(pair: &mut Pair) {
    same(
        pair,
        &[
            "BEGIN",
            "CREATE TEMP TABLE mine (a int)",
            "PREPARE TRANSACTION 'temp'",
            "CREATE TEMP TABLE mine (a int)",
            "BEGIN",
            "SELECT * FROM mine",
            "PREPARE TRANSACTION 'temp'",
            "BEGIN",
            "UPDATE other SET v = 'gone'",
            "INSERT INTO mine VALUES (1)",
            "PREPARE TRANSACTION 'temp'",
            "SELECT count(*) FROM other WHERE v = 'gone'",
            "SELECT count(*) FROM mine",
            "DROP TABLE mine",
            "BEGIN",
            "SELECT pg_advisory_lock(77), pg_advisory_xact_lock(77)",
            "PREPARE TRANSACTION 'locks'",
            "SELECT pg_advisory_unlock_all()",
            "BEGIN",
            "DECLARE never CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k",
            "UPDATE other SET v = 'gone'",
            "PREPARE TRANSACTION 'held'",
            "FETCH never",
            "SELECT count(*) FROM other WHERE v = 'gone'",
            "SELECT gid FROM pg_prepared_xacts",
            "INSERT INTO other VALUES (300, 'implicit'), (301, 'block'); PREPARE TRANSACTION 'several'",
            "SELECT count(*) FROM other WHERE k >= 300",
            "COMMIT PREPARED 'several'; SELECT 1",
            "SELECT 1; COMMIT PREPARED 'several'",
            "COMMIT PREPARED 'several'",
            "SELECT count(*) FROM other WHERE k >= 300",
            "BEGIN; INSERT INTO other VALUES (302, 'a'), (303, 'b'); PREPARE TRANSACTION 'block'; SELECT gid FROM pg_prepared_xacts",
            "ROLLBACK PREPARED 'block'",
            "DELETE FROM other WHERE k >= 300",
        ],
    );
    if pair.distributed {
        let cluster = &mut pair.cluster;
        cluster.run("BEGIN; CREATE TABLE made (a int)").expect("a table");
        let refused = cluster.run("PREPARE TRANSACTION 'ddl'").expect_err("a schema change");
        assert_eq!(refused.code().as_str(), "0A000");
        assert_eq!(cluster.run("SELECT * FROM made").expect_err("it is rolled back").code().as_str(), "42P01");
    }
}

fn statement_and_lock_timeouts(both: &Both) {
    let mut pair = both.pair();
    let mut holder = both.pair();
    for client in [&mut holder.reference, &mut holder.cluster] {
        client.run("BEGIN; UPDATE t SET v = 'locked' WHERE k <= 4").expect("locks");
    }
    same(
        &mut pair,
        &[
            "SET statement_timeout = '100ms'",
            "SELECT pg_sleep(60)",
            "SET statement_timeout = '2s'", // The error says at which row it waited.
            "UPDATE t SET v = 'waits'",
            "BEGIN",
            "UPDATE t SET v = 'waits' WHERE k = 1",
            "SELECT 1",
            "ROLLBACK",
            "SET statement_timeout = 0",
            "SET lock_timeout = '100ms'",
            "UPDATE t SET v = 'waits'",
            "SELECT k FROM t WHERE k = 2 FOR UPDATE",
            "SELECT k FROM t WHERE k = 2 FOR UPDATE NOWAIT",
            "SELECT count(*) FROM (SELECT k FROM t WHERE k = 2 FOR UPDATE SKIP LOCKED) s",
            "BEGIN",
            "LOCK TABLE t IN ACCESS EXCLUSIVE MODE",
            "ROLLBACK",
            "SELECT count(*) FROM t WHERE v = 'waits'",
        ],
    );
    for client in [&mut holder.reference, &mut holder.cluster] {
        client.run("ROLLBACK").expect("the end");
    }
}

/// The FATAL that ends an idle session.
fn ended(client: &mut Client) -> (String, String, bool) {
    let error = client.last_words().expect("the session is ended");
    (error.code().as_str().to_owned(), error.message().into_owned(), error.is_fatal())
}

fn idle_timeouts(both: &Both) {
    for setup in [
        "SET idle_session_timeout = '300ms'",
        "SET idle_in_transaction_session_timeout = '300ms'; BEGIN; UPDATE t SET v = 'idle'",
        "SET idle_in_transaction_session_timeout = '300ms'; BEGIN; UPDATE t SET v = 'idle'; SELECT 1/0",
    ] {
        let mut pair = both.pair();
        let mut ends = Vec::new();
        for client in [&mut pair.reference, &mut pair.cluster] {
            let mut started = Instant::now(); // Before the last statement, behind which the server's clock begins.
            for statement in setup.splitn(2, "; ") {
                started = Instant::now();
                client.simple(statement).expect("an answer");
            }
            ends.push(ended(client));
            let took = started.elapsed();
            assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(30), "{setup}: {took:?}");
        }
        assert_eq!(ends[0], ends[1], "{setup}\n(left: one server)");
    }
    // Given at the start of the connection.
    let parameters = [("user", "postgres"), ("database", "postgres"), ("options", "-c idle_session_timeout=300ms")];
    let mut client = Client::connect_with(both.cluster.coordinators()[0], &parameters).expect("a session");
    assert_eq!(ended(&mut client).0, "57P05");
    // One who works on one node is not idle on the others.
    let mut client = both.cluster.connect(0).expect("a session");
    client.run("SET idle_in_transaction_session_timeout = '3s'").expect("a setting");
    client.run("BEGIN").expect("a block");
    client.run("UPDATE t SET v = 'busy'").expect("all nodes are in it");
    client.run("SELECT pg_sleep(4)").expect("longer than the timeout");
    client.run("UPDATE t SET v = 'still busy'").expect("no node has ended it");
    client.run("COMMIT").expect("it commits");
}

fn advisory_locks(cluster: &Cluster) {
    let (mut one, mut two) = (cluster.connect(0).expect("a session"), cluster.connect(1).expect("a session"));
    let try_lock = |client: &mut Client, sql: &str| client.scalar(sql).expect("an answer");
    one.run("SELECT pg_advisory_lock(1)").expect("a lock");
    one.run("BEGIN; SELECT pg_advisory_xact_lock(2); SELECT pg_advisory_lock_shared(3)").expect("locks");
    assert_eq!(try_lock(&mut two, "SELECT pg_try_advisory_lock(1)"), "f");
    assert_eq!(try_lock(&mut two, "SELECT pg_try_advisory_lock(2)"), "f");
    assert_eq!(try_lock(&mut two, "SELECT pg_try_advisory_lock(3)"), "f");
    assert_eq!(try_lock(&mut two, "SELECT pg_try_advisory_lock_shared(3)"), "t");
    one.run("ROLLBACK").expect("the end");
    assert_eq!(try_lock(&mut two, "SELECT pg_try_advisory_lock(2)"), "t", "it ended with the transaction");
    assert_eq!(try_lock(&mut two, "SELECT pg_try_advisory_lock(1)"), "f", "it lasts for the session");
    assert_eq!(try_lock(&mut one, "SELECT pg_advisory_unlock(1)"), "t");
    assert_eq!(try_lock(&mut two, "SELECT pg_try_advisory_lock(1)"), "t");
    drop(two);
    eventually("the locks of a session that has ended", || try_lock(&mut one, "SELECT pg_try_advisory_lock(1)") == "t");
    eventually("the other one", || try_lock(&mut one, "SELECT pg_try_advisory_lock(2)") == "t");
}

fn prepared_transactions_belong_to_no_session(cluster: &Cluster) {
    let mut one = cluster.connect(0).expect("a session");
    one.run("BEGIN").expect("a block");
    one.run("UPDATE t SET v = 'prepared' WHERE k <= 10").expect("rows on both nodes");
    one.run("PREPARE TRANSACTION 'elsewhere'").expect("it is prepared");
    drop(one);
    let mut two = cluster.connect(1).expect("a session");
    assert_eq!(two.scalar("SELECT gid FROM pg_prepared_xacts").expect("a name"), "elsewhere");
    assert_eq!(two.scalar("SELECT count(*) FROM t WHERE v = 'prepared'").expect("a count"), "0");
    let update = "BEGIN; SET LOCAL lock_timeout = '100ms'; UPDATE t SET v = 'waits' WHERE k = 1";
    let error = two.run(update).expect_err("its locks are kept");
    assert_eq!((error.code().as_str(), two.run("ROLLBACK").is_ok()), ("55P03", true));
    two.run("COMMIT PREPARED 'elsewhere'").expect("it is committed");
    assert_eq!(two.scalar("SELECT count(*) FROM t WHERE v = 'prepared'").expect("a count"), "10");
    assert_eq!(two.scalar("SELECT count(*) FROM pg_prepared_xacts").expect("a count"), "0");
}

fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    nothing_left(what, || if is_true() { String::new() } else { "not yet".into() });
}

/// Asks until nothing is left.
fn nothing_left(what: &str, mut left: impl FnMut() -> String) {
    let started = Instant::now();
    loop {
        let left = left();
        if left.is_empty() {
            return;
        }
        assert!(started.elapsed() < RELEASED_MAX, "{what} after {:?}: {left}", started.elapsed());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Nobody (the gtm's own locks have two keys) holds or waits for a lock on the tables of this test, and nobody is in a transaction, on any datanode.
fn nothing_is_held(cluster: &Cluster, what: &str) {
    for datanode in 0..cluster.datanodes().len() {
        let mut client = cluster.connect_datanode(datanode).expect("a datanode");
        let sql = "SELECT concat((SELECT string_agg(concat_ws(' ', pid, locktype, mode, granted), '; ') \
            FROM pg_locks WHERE relation = 't'::regclass OR locktype = 'advisory' AND classid = 0), \
            (SELECT string_agg(concat_ws(' ', pid, state, wait_event, query), '; ') \
            FROM pg_stat_activity WHERE application_name = 'loxo' AND state <> 'idle'))";
        nothing_left(&format!("{what}, datanode {datanode}"), || client.scalar(sql).expect("a text"));
    }
}

/// How a client can be in the middle of something, as what it has sent.
fn in_the_middle(client: &mut Client, what: &str) {
    match what {
        "a block" => {
            client.run("BEGIN; UPDATE t SET v = 'x'; SELECT pg_advisory_lock(9)").expect("locks");
        }
        "a statement" => client.send_query("SELECT pg_sleep(60), count(*) FROM t").expect("it goes out"),
        "a statement on all nodes" => {
            client.send_query("UPDATE t SET v = 'x' WHERE pg_sleep(60) IS NOT NULL").expect("it goes out");
        }
        "a fetch" => {
            client.run("BEGIN; DECLARE c CURSOR FOR SELECT pg_sleep(60) FROM t WHERE k = 1").expect("a cursor");
            client.send_query("FETCH c").expect("it goes out");
        }
        "a copy" => {
            client.begin_copy("COPY t FROM STDIN").expect("COPY begins");
            client.send_copy(b"1000\tx\n1001\ty\n").expect("data go out");
        }
        "a copy out" => client.send_query("COPY (SELECT pg_sleep(60), k FROM t) TO STDOUT").expect("it goes out"),
        _ => panic!("{what}"),
    }
}

const SITUATIONS: [&str; 6] = ["a block", "a statement", "a statement on all nodes", "a fetch", "a copy", "a copy out"];

fn a_client_that_vanishes_leaves_nothing(cluster: &Cluster) {
    nothing_is_held(cluster, "before");
    for what in SITUATIONS {
        let mut client = cluster.connect(0).expect("a session");
        in_the_middle(&mut client, what);
        is_held(cluster, what);
        drop(client);
        nothing_is_held(cluster, what);
    }
    // One that waits for a lock: nothing but the coordinator can tell the backend that nobody wants it any more.
    let mut holder = cluster.connect(1).expect("a session");
    for what in ["UPDATE t SET v = 'x'", "COPY t FROM STDIN", "COPY t TO STDOUT", "LOCK TABLE t"] {
        holder.run("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE").expect("a lock");
        let mut client = cluster.connect(0).expect("a session");
        client.run("BEGIN").expect("a block");
        client.send_query(what).expect("it goes out");
        let mut datanode = cluster.connect_datanode(0).expect("a datanode");
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        eventually(&format!("{what}: those who hold back"), || datanode.scalar(waiting).expect("a count") != "0");
        drop(client);
        eventually(&format!("{what}: queues"), || datanode.scalar(waiting).expect("a count") == "0");
        holder.run("ROLLBACK").expect("the end");
    }
}

/// Waits until the situation has arrived on a datanode.
fn is_held(cluster: &Cluster, what: &str) {
    let mut datanodes: Vec<Client> =
        (0..cluster.datanodes().len()).map(|n| cluster.connect_datanode(n).expect("a datanode")).collect();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'loxo' AND state <> 'idle'";
    eventually(&format!("{what}: those who do not begin"), || {
        datanodes.iter_mut().any(|datanode| datanode.scalar(sql).expect("a count") != "0")
    });
}

fn a_coordinator_that_is_killed_leaves_nothing(cluster: &Cluster) {
    for what in SITUATIONS {
        let mut client = cluster.connect(0).expect("a session");
        in_the_middle(&mut client, what);
        is_held(cluster, what);
        for pid in cluster.coordinator_pids().expect("the coordinators") {
            let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
            assert!(killed.expect("kill runs").success());
        }
        nothing_is_held(cluster, &format!("{what} of a coordinator that is dead"));
        cluster.up().expect("the coordinator is started again");
    }
}

#[test]
fn a_broken_table_is_alone() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    let mut session = cluster.connect(0).expect("a session");
    session.run("CREATE TABLE broken (id int, v int) DISTRIBUTE BY HASH (id)").expect("a table");
    session.run("CREATE TABLE whole (id int) DISTRIBUTE BY HASH (id)").expect("a table");
    let plan = session.strings("EXPLAIN CREATE TABLE copied AS SELECT * FROM whole").expect("a plan");
    assert!(plan.iter().any(|line| line[0].contains("then INSERT INTO public.copied")), "{plan:?}");
    for datanode in 0..2 {
        let mut node = cluster.connect_datanode(datanode).expect("a datanode's session");
        node.run("ALTER TABLE broken DROP COLUMN id").expect("a change behind the cluster's back");
    }
    session.run("CREATE TABLE later (id int)").expect("a schema change, after which the catalog is read anew");
    for sql in ["SELECT * FROM broken", "INSERT INTO broken VALUES (1)", "ALTER TABLE broken ADD COLUMN w int"] {
        let error = session.run(sql).expect_err(sql);
        assert_eq!(error.code(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "{sql}: {error:?}");
    }
    for sql in
        ["INSERT INTO whole VALUES (1)", "DROP TABLE broken", "CREATE TABLE broken (id int)", "SELECT * FROM broken"]
    {
        session.run(sql).expect(sql);
    }
    // Metadata that another version of ours has made are left alone.
    let mut node = cluster.connect_datanode(0).expect("a datanode's session");
    node.run("UPDATE loxo.identity SET layout = layout - 1").unwrap();
    session.run("CREATE TABLE last (id int)").expect("a schema change, after which the catalog is read anew");
    let error = session.run("SELECT * FROM whole").expect_err("metadata of another version");
    assert_eq!(error.code(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "{error:?}");
    assert!(error.message().contains("another version of loxo"), "{error:?}");
}
