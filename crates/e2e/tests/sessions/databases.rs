//! Several databases: made and dropped through a coordinator as on one PostgreSQL, each with its own tables, on all datanodes or on none
//! whatever dies in between.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use pgerror::{PgError, field};
use testkit::wire::{Answer, Client};
use testkit::{Cluster, Server, ServerOptions, pg_program};

/// Longest wait for what a gtm does by itself.
const SOON: Duration = Duration::from_secs(30);

/// What a client sees of an answer.
fn seen(answer: &Answer) -> String {
    let rows: Vec<String> = answer.rows.iter().map(|row| format!("{row:?}")).collect();
    let notices: Vec<_> = answer.notices.iter().map(|notice| notice.message().into_owned()).collect();
    let error = answer
        .error
        .as_ref()
        .map(|error| (error.code().as_str().to_owned(), error.message().into_owned(), detail(error)));
    format!("{:?} {rows:?} {notices:?} {error:?}", answer.tag)
}

fn detail(error: &PgError) -> Option<String> {
    error.get(field::DETAIL).map(|detail| String::from_utf8_lossy(detail).into_owned())
}

fn connect(port: u16, user: &str, database: &str) -> Result<Client, String> {
    Client::connect_with(port, &[("user", user), ("database", database)])
        .map_err(|error| format!("{} {}", error.code().as_str(), error.message()))
}

/// Each line: who, where, and what.
const SCRIPT: &[(&str, &str, &str)] = &[
    ("postgres", "postgres", "CREATE ROLE maker LOGIN CREATEDB"),
    ("postgres", "postgres", "CREATE ROLE other LOGIN"),
    ("other", "postgres", "CREATE DATABASE no"),
    ("maker", "postgres", "CREATE DATABASE \"My db\""),
    ("maker", "postgres", "CREATE DATABASE \"My db\""),
    ("maker", "postgres", "CREATE DATABASE postgres"),
    ("maker", "postgres", "BEGIN; CREATE DATABASE no"),
    ("maker", "postgres", "SELECT 1; CREATE DATABASE no"),
    ("maker", "My db", "CREATE TABLE t (k int PRIMARY KEY, v text DEFAULT 'x')"),
    ("maker", "My db", "INSERT INTO t SELECT g FROM generate_series(1, 500) g"),
    ("maker", "My db", "SELECT count(*), sum(k), min(v), current_database() FROM t"),
    ("maker", "My db", "UPDATE t SET k = k + 1000 WHERE k % 3 = 0"),
    ("maker", "My db", "BEGIN; INSERT INTO t VALUES (1), (2); COMMIT"),
    ("maker", "My db", "SELECT count(*), sum(k) FROM t"),
    ("maker", "postgres", "SELECT * FROM t"),
    ("maker", "My db", "CREATE DATABASE second TEMPLATE template0"),
    ("maker", "second", "CREATE TABLE t (a text)"),
    ("maker", "second", "INSERT INTO t VALUES ('of the second')"),
    ("maker", "second", "TABLE t"),
    ("maker", "My db", "SELECT count(*) FROM t"),
    ("maker", "second", "DROP DATABASE second"),
    ("other", "postgres", "DROP DATABASE second"),
    ("maker", "postgres", "BEGIN; DROP DATABASE second"),
    ("maker", "postgres", "DROP DATABASE second"),
    ("maker", "second", "SELECT 1"),
    ("maker", "postgres", "DROP DATABASE second"),
    ("maker", "postgres", "DROP DATABASE IF EXISTS second"),
    ("maker", "postgres", "CREATE DATABASE second"),
    ("maker", "second", "TABLE t"),
    ("maker", "second", "CREATE TABLE t (b int)"),
    ("maker", "second", "INSERT INTO t VALUES (7)"),
    ("maker", "second", "TABLE t"),
    ("postgres", "second", "ALTER ROLE maker SET work_mem = '7MB'"),
    ("maker", "postgres", "SHOW work_mem"),
    ("postgres", "postgres", "ALTER ROLE maker SET work_mem = '9MB'"),
    ("maker", "second", "SHOW work_mem"),
    ("postgres", "postgres", "ALTER DATABASE second SET work_mem = '8MB'"),
    ("postgres", "second", "SHOW work_mem"),
    ("postgres", "postgres", "REVOKE CONNECT ON DATABASE second FROM PUBLIC"),
    ("other", "second", "SELECT 1"),
    ("other", "My db", "SELECT 1"),
    ("postgres", "postgres", "SELECT datname FROM pg_database ORDER BY 1"),
    ("postgres", "postgres", "COMMENT ON DATABASE second IS 'a comment'"),
    ("postgres", "postgres", "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = 'second'"),
    ("postgres", "postgres", "ALTER DATABASE second OWNER TO other"),
    ("maker", "postgres", "DROP DATABASE second"),
    ("other", "postgres", "DROP DATABASE second WITH (FORCE)"),
    ("maker", "My db", "CREATE TABLE r (k int PRIMARY KEY, s serial)"),
    ("maker", "My db", "INSERT INTO r SELECT g FROM generate_series(1, 9) g"),
    ("other", "postgres", "ALTER ROLE other RENAME TO another"),
    ("maker", "postgres", "CREATE DATABASE copied TEMPLATE \"My db\""),
    ("maker", "copied", "SELECT (SELECT count(*) FROM t), sum(k), max(s) FROM r"),
    ("maker", "copied", "INSERT INTO r SELECT g FROM generate_series(10, 18) g RETURNING k, s"),
    ("maker", "copied", "UPDATE t SET k = k + 1 WHERE k > 1000"),
    ("maker", "copied", "CREATE INDEX ON t (v); DROP TABLE r"),
    ("maker", "My db", "SELECT (SELECT sum(k) FROM t), max(k), max(s) FROM r"),
    ("maker", "copied", "SELECT sum(k) FROM t"),
    ("maker", "postgres", "CREATE DATABASE copied TEMPLATE \"My db\""),
    ("maker", "postgres", "CREATE DATABASE no TEMPLATE nowhere"),
    ("postgres", "postgres", "ALTER ROLE other CREATEDB"),
    ("other", "postgres", "CREATE DATABASE no TEMPLATE \"My db\""),
    ("postgres", "postgres", "ALTER DATABASE copied REFRESH COLLATION VERSION"),
    ("maker", "postgres", "DROP DATABASE copied"),
    ("maker", "postgres", "DROP DATABASE \"My db\""),
    ("postgres", "postgres", "SELECT datname FROM pg_database ORDER BY 1"),
];

#[test]
fn as_on_one_postgresql() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    let alone = Server::start(&ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("options"));
    let alone = alone.expect("a server");
    for (number, (user, database, sql)) in SCRIPT.iter().enumerate() {
        let run = |port| match connect(port, user, database) {
            Ok(mut client) => seen(&client.simple(sql).expect(sql)),
            Err(error) => error,
        };
        // Each coordinator in its turn.
        let there = run(cluster.coordinators()[number % 2]);
        assert_eq!(there, run(alone.port()), "{user}@{database}: {sql}");
    }
}

#[test]
fn who_is_there_is_counted_and_ended_on_all_coordinators() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    let mut here = cluster.connect(0).expect("a session");
    here.run("CREATE DATABASE d").expect("a database");
    let mut there = connect(cluster.coordinators()[1], "postgres", "d").expect("a session");
    there.run("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)").expect("a table");
    let mut also = connect(cluster.coordinators()[0], "postgres", "d").expect("a session");
    let refused = |sessions: &str, here: &mut Client| {
        let error = here.run("DROP DATABASE d").expect_err("somebody is there");
        assert_eq!((error.code().as_str(), detail(&error).as_deref()), ("55006", Some(sessions)));
    };
    refused("There are 2 other sessions using the database.", &mut here);
    also.run("SELECT 1").expect("a row");
    drop(also);
    await_that("a session is gone", || {
        let error = here.run("DROP DATABASE d").expect_err("somebody is there");
        detail(&error).is_some_and(|detail| detail.starts_with("There is 1 "))
    });
    there.run("INSERT INTO t VALUES (1), (2), (3)").expect("nothing is lost by a refusal");
    here.run("DROP DATABASE d WITH (FORCE)").expect("the database is dropped");
    let ended = there.run("SELECT count(*) FROM t").expect_err("the session is over");
    // What the coordinator said last is lost where its socket was closed before the client wrote.
    assert!(["57P01", "08006"].contains(&ended.code().as_str()), "{ended}");
    here.run("CREATE DATABASE d").expect("a database of that name again");
    for coordinator in cluster.coordinators() {
        let mut new = connect(*coordinator, "postgres", "d").expect("a session");
        assert_eq!(new.run("TABLE t").expect_err("another database").code().as_str(), "42P01");
    }
    here.run("DROP DATABASE d").expect("nobody is there");
}

/// PostgreSQL's tools ask `pg_database` where they can connect.
#[test]
fn tools_for_all_databases_find_theirs() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    cluster.connect(0).expect("a session").run("CREATE DATABASE second").expect("a database");
    let mut second = connect(cluster.coordinators()[0], "postgres", "second").expect("a session");
    second.run("CREATE TABLE t (k int PRIMARY KEY) DISTRIBUTE BY HASH (k)").expect("a table");
    second.run("INSERT INTO t SELECT generate_series(1, 50)").expect("rows");
    drop(second);
    let port = cluster.coordinators()[0].to_string();
    for (program, options) in [
        ("vacuumdb", ["--all", "--full"].as_slice()),
        ("reindexdb", &["--all"]),
        ("clusterdb", &["--all"]),
        ("pg_dumpall", &["--no-password"]),
    ] {
        let mut command = Command::new(pg_program(program).expect(program));
        let output = command.args(options).args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port]).output();
        let output = output.expect(program);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {said}");
        if program == "pg_dumpall" {
            let dump = String::from_utf8_lossy(&output.stdout);
            assert!(dump.contains("connect second") && !dump.contains("connect template1"), "{dump}");
            assert_eq!(dump.matches("CREATE TABLE public.t").count(), 1, "{dump}");
        }
    }
}

#[test]
fn who_is_in_a_template_keeps_others_from_copying_it() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    let mut here = cluster.connect(0).expect("a session");
    here.run("CREATE DATABASE d").expect("a database");
    let mut there = connect(cluster.coordinators()[1], "postgres", "d").expect("a session");
    there.run("CREATE TABLE t (k int PRIMARY KEY) DISTRIBUTE BY HASH (k)").expect("a table");
    let copy = "CREATE DATABASE c TEMPLATE d";
    let error = here.run(copy).expect_err("somebody is there");
    assert_eq!(error.message(), "source database \"d\" is being accessed by other users");
    assert_eq!(detail(&error).as_deref(), Some("There is 1 other session using the database."));
    there.run("INSERT INTO t VALUES (1), (2), (3)").expect("nothing is lost by a refusal");
    there.run("BEGIN; INSERT INTO t VALUES (4), (5), (6); PREPARE TRANSACTION 'mine'").expect("it is prepared");
    drop(there);
    await_that("it is about the prepared transaction", || {
        let error = here.run(copy).expect_err("somebody is there");
        detail(&error).is_some_and(|detail| detail.contains("prepared transaction"))
    });
    let mut there = connect(cluster.coordinators()[1], "postgres", "d").expect("a session");
    there.run("ROLLBACK PREPARED 'mine'").expect("it is gone");
    drop(there);
    await_that("a copy", || here.run(copy).is_ok());
    for coordinator in cluster.coordinators() {
        let mut copied = connect(*coordinator, "postgres", "c").expect("a session");
        assert_eq!(copied.scalar("SELECT count(*) FROM t").expect("a count"), "3");
        copied.run("BEGIN; UPDATE t SET k = k + 10 WHERE k < 3; ROLLBACK").expect("nothing changes");
        copied.run("INSERT INTO t VALUES (7), (8), (9); DELETE FROM t WHERE k > 3").expect("changes on all nodes");
    }
}

#[test]
fn the_first_database_has_the_datanodes_of_all() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let mut session = cluster.connect(0).expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    let refused = |sql: &str, code: &str, session: &mut Client| {
        let error = session.run(sql).expect_err(sql);
        assert_eq!(error.code().as_str(), code, "{sql}: {error}");
    };
    session.run("ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)").expect("a rebalance");
    await_that("dn2 is empty here", || session.scalar("SELECT state FROM pgxc_rebalance").expect("a state") == "done");
    refused("DROP NODE dn2", "55006", &mut session);
    refused("DROP NODE dn2 LOST", "55006", &mut session);
    let mut there = connect(cluster.coordinators()[0], "postgres", "d").expect("a session");
    refused("DROP NODE dn2", "55006", &mut there);
    let node = "CREATE NODE dn3 WITH (TYPE = 'datanode', HOST = '127.0.0.1', PORT = 9)";
    refused(node, "55000", &mut there);
    let address = "ALTER NODE dn2 WITH (PORT = 9)";
    refused(address, "55000", &mut there);
    drop(there);
    cluster.loxo(&["up", "--coordinators", "2"]).expect("a coordinator is no datanode");
    cluster.loxo(&["up", "--datanodes", "3"]).expect("a third datanode of both databases");
    cluster.loxo(&["rebalance"]).expect("a rebalance of both databases");
    let mut there = connect(cluster.coordinators()[0], "postgres", "d").expect("a session");
    there.run("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)").expect("a table");
    there.run("INSERT INTO t SELECT generate_series(1, 100)").expect("rows");
    assert_eq!(there.scalar("SELECT count(*) FROM t").expect("a count"), "100");
    let audit = || cluster.loxo(&["check", "--data"]);
    let said = audit().expect("no error");
    assert!(said.contains("database d:") && said.contains("1 table: every row is where it belongs"), "{said}");
    let mut first = connect(cluster.datanodes()[0], "postgres", "d").expect("a session");
    first.run("INSERT INTO t SELECT generate_series(1, 100)").expect("rows past the coordinator");
    audit().expect_err("rows on a wrong node");
}

#[test]
fn what_the_dead_have_left_is_dropped() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    // CREATE DATABASE waits for a session in the template, for five seconds: on the second node when it is done on the first.
    let _template = connect(cluster.datanodes()[1], "postgres", "template1").expect("a session");
    let mut first = cluster.connect_datanode(0).expect("the first datanode");
    let is_there = "SELECT count(*) FROM pg_database WHERE datname = 'half'";
    let before = cluster.coordinator_pids().expect("coordinators");
    let mut maker = cluster.connect(0).expect("a session");
    thread::scope(|scope| {
        let making = scope.spawn(move || maker.run("CREATE DATABASE half").map(drop));
        await_that("the first node has it", || first.scalar(is_there).expect("a count") == "1");
        for pid in &before {
            std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill");
        }
        making.join().expect("a thread").expect_err("the coordinator is dead");
    });
    await_that("it is gone again", || first.scalar(is_there).expect("a count") == "0");
    let note = "SELECT count(*) FROM loxo.database";
    await_that("the note is gone", || first.scalar(note).expect("a count") == "0");
    cluster.up().expect("coordinators");
    let refused = connect(cluster.coordinators()[0], "postgres", "half").expect_err("no such database");
    assert_eq!(refused, "3D000 database \"half\" does not exist");
}

#[test]
fn what_cannot_be_made_on_one_node_is_made_on_none() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let mut session = cluster.connect(0).expect("a session");
    let mut second = cluster.connect_datanode(1).expect("a datanode");
    second.run("CREATE DATABASE stray").expect("a database beside the cluster's");
    let refused = session.run("CREATE DATABASE stray").expect_err("a node has one of that name");
    assert_eq!(refused.code().as_str(), "42P04");
    assert_eq!(second.scalar("SELECT count(*) FROM pg_database WHERE datname = 'stray'").expect("a count"), "1");
    for name in ["template0", "template1"] {
        let parameters = [("user", "postgres"), ("database", name)];
        let refused = Client::connect_with(cluster.coordinators()[0], &parameters).expect_err("a template");
        let words = format!("database \"{name}\" is not currently accepting connections");
        assert_eq!((refused.code().as_str(), &*refused.message()), ("55000", words.as_str()));
    }
    let template = connect(cluster.datanodes()[1], "postgres", "template1").expect("a session");
    let refused = session.run("CREATE DATABASE d").expect_err("the template is in use on the second node");
    assert_eq!(refused.code().as_str(), "55006");
    drop(template);
    for (options, code) in
        [("TEMPLATE postgres", "0A000"), ("TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'", "0A000")]
    {
        let refused = session.run(&format!("CREATE DATABASE d {options}")).expect_err(options);
        assert_eq!(refused.code().as_str(), code, "{options}: {refused}");
    }
    let mut first = cluster.connect_datanode(0).expect("a datanode");
    assert_eq!(first.scalar("SELECT count(*) FROM pg_database WHERE datname = 'd'").expect("a count"), "0");
    await_that("the template is free", || session.run("CREATE DATABASE d").is_ok());
}

#[test]
fn what_is_prepared_is_not_dropped() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let mut session = cluster.connect(0).expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    let port = cluster.coordinators()[0];
    let mut there = connect(port, "postgres", "d").expect("a session");
    there.run("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)").expect("a table");
    there.run("BEGIN; INSERT INTO t SELECT generate_series(1, 9); PREPARE TRANSACTION 'p'").expect("a transaction");
    drop(there);
    await_that("nobody is there", || {
        let error = session.run("DROP DATABASE d").expect_err("a transaction is prepared");
        assert_eq!(error.code().as_str(), "55006");
        detail(&error).as_deref() == Some("There is 1 prepared transaction using the database.")
    });
    let mut there = connect(port, "postgres", "d").expect("the database is as it was");
    there.run("COMMIT PREPARED 'p'").expect("the transaction");
    assert_eq!(there.scalar("SELECT count(*) FROM t").expect("a count"), "9");
    drop(there);
    session.run("SET default_transaction_read_only = on").expect("a setting");
    assert_eq!(session.run("DROP DATABASE d").expect_err("a read-only session").code().as_str(), "25006");
    session.run("SET default_transaction_read_only = off").expect("a setting");
    await_that("nobody is there", || session.run("DROP DATABASE d").is_ok());
}

#[test]
fn settings_of_a_database_are_for_its_users() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let mut session = cluster.connect(0).expect("a session");
    for sql in [
        "CREATE ROLE other",
        "CREATE DATABASE d",
        "ALTER DATABASE d SET role = 'other'",
        "ALTER DATABASE d SET default_transaction_read_only = on",
        "ALTER DATABASE d SET statement_timeout = '1s'",
        "ALTER DATABASE d SET client_encoding = 'LATIN1'",
    ] {
        session.run(sql).expect(sql);
    }
    let own = "-c role=none -c default_transaction_read_only=off -c statement_timeout=0 \
               -c client_encoding=UTF8";
    let parameters = [("user", "postgres"), ("database", "d"), ("options", own)];
    let mut there = Client::connect_with(cluster.coordinators()[0], &parameters).expect("a session");
    for sql in [
        "CREATE TABLE \"é\" (k int) DISTRIBUTE BY HASH (k)",
        "INSERT INTO \"é\" SELECT generate_series(1, 9)",
        "BEGIN; UPDATE \"é\" SET k = k + 10; COMMIT",
    ] {
        there.run(sql).expect(sql);
    }
    assert_eq!(there.scalar("SELECT sum(k) FROM \"é\"").expect("a sum"), "135");
}

fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SOON, "not within {} s: {what}", SOON.as_secs());
        thread::sleep(Duration::from_millis(20));
    }
}
