//! ALTER DATABASE: another name, closed to clients, a template. One script on a cluster and on one PostgreSQL; and who is in the way.

use pgerror::field;
use testkit::Cluster;
use testkit::wire::{Answer, Client};

/// No coordinator serves template1.
const ALL: &str = "SELECT datname, datallowconn, datistemplate, datconnlimit FROM pg_database WHERE datname <> 'template1' ORDER BY 1";

/// Each line: who, where, and what.
const SCRIPT: &[(&str, &str, &str)] = &[
    ("postgres", "postgres", "CREATE ROLE maker LOGIN CREATEDB"),
    ("postgres", "postgres", "CREATE ROLE other LOGIN"),
    ("maker", "postgres", "CREATE DATABASE a"),
    ("maker", "a", "CREATE TABLE t (k int PRIMARY KEY, v int)"),
    ("maker", "a", "INSERT INTO t SELECT g, g % 7 FROM generate_series(1, 300) g"),
    ("postgres", "postgres", "ALTER DATABASE a SET work_mem = '7MB'"),
    ("postgres", "postgres", "ALTER DATABASE a CONNECTION LIMIT 3"),
    // Another name.
    ("other", "postgres", "ALTER DATABASE a RENAME TO b"),
    ("maker", "postgres", "ALTER DATABASE nowhere RENAME TO b"),
    ("maker", "postgres", "ALTER DATABASE a RENAME TO postgres"),
    ("maker", "postgres", "ALTER DATABASE a RENAME TO a"),
    ("maker", "a", "ALTER DATABASE a RENAME TO b"),
    ("postgres", "postgres", "ALTER ROLE maker NOCREATEDB"),
    ("maker", "postgres", "ALTER DATABASE a RENAME TO b"),
    ("postgres", "postgres", "ALTER ROLE maker CREATEDB SET default_transaction_read_only = on"),
    ("postgres", "postgres", "ALTER ROLE maker SET default_transaction_read_only = on"),
    ("maker", "postgres", "ALTER DATABASE a RENAME TO b"),
    ("postgres", "postgres", "ALTER ROLE maker RESET default_transaction_read_only"),
    ("postgres", "postgres", "ALTER ROLE maker CREATEDB"),
    ("maker", "postgres", "ALTER DATABASE a RENAME TO \"It's \"\"B\"\"\""),
    ("maker", "a", "SELECT 1"),
    ("maker", "It's \"B\"", "SELECT count(*), sum(v), current_database(), current_setting('work_mem') FROM t"),
    ("maker", "It's \"B\"", "BEGIN; UPDATE t SET v = v + 1; INSERT INTO t VALUES (301, 1); COMMIT"),
    ("postgres", "postgres", ALL),
    ("maker", "postgres", "ALTER DATABASE a RENAME TO c"),
    ("maker", "postgres", "CREATE DATABASE a"),
    ("maker", "a", "CREATE TABLE u (k int)"),
    ("maker", "postgres", "ALTER DATABASE \"It's \"\"B\"\"\" RENAME TO a"),
    ("maker", "postgres", "ALTER DATABASE a RENAME TO c"),
    ("maker", "postgres", "ALTER DATABASE \"It's \"\"B\"\"\" RENAME TO a"),
    ("maker", "a", "SELECT count(*), sum(v), current_database() FROM t"),
    ("maker", "c", "SELECT count(*) FROM u"),
    ("maker", "postgres", "DROP DATABASE c"),
    ("maker", "c", "SELECT 1"),
    // A template.
    ("other", "postgres", "ALTER DATABASE a IS_TEMPLATE true"),
    ("maker", "postgres", "ALTER DATABASE a IS_TEMPLATE true"),
    ("postgres", "postgres", ALL),
    ("maker", "a", "SELECT count(*) FROM t"),
    ("other", "postgres", "CREATE DATABASE copied TEMPLATE a"),
    ("postgres", "postgres", "ALTER ROLE other CREATEDB"),
    ("other", "postgres", "CREATE DATABASE copied TEMPLATE a"),
    ("other", "copied", "SELECT relname FROM pg_class WHERE relname = 't'"),
    ("maker", "copied", "SELECT count(*), sum(v) FROM t"),
    ("postgres", "postgres", ALL),
    ("other", "postgres", "DROP DATABASE copied"),
    ("other", "postgres", "DROP DATABASE a"),
    ("maker", "a", "DROP DATABASE a"),
    ("maker", "postgres", "DROP DATABASE a"),
    ("maker", "postgres", "DROP DATABASE IF EXISTS a WITH (FORCE)"),
    ("maker", "postgres", "ALTER DATABASE a RENAME TO b"),
    ("maker", "postgres", "ALTER DATABASE b RENAME TO a"),
    ("maker", "postgres", "ALTER DATABASE a IS_TEMPLATE = off"),
    ("other", "postgres", "CREATE DATABASE copied TEMPLATE a"),
    ("maker", "postgres", "CREATE DATABASE model IS_TEMPLATE true"),
    ("postgres", "postgres", ALL),
    ("maker", "postgres", "DROP DATABASE model"),
    ("maker", "postgres", "ALTER DATABASE model IS_TEMPLATE false"),
    ("maker", "postgres", "DROP DATABASE model"),
    // Closed to clients.
    ("other", "postgres", "ALTER DATABASE a ALLOW_CONNECTIONS false"),
    ("maker", "a", "ALTER DATABASE a ALLOW_CONNECTIONS false"),
    ("maker", "postgres", "ALTER DATABASE nowhere ALLOW_CONNECTIONS false"),
    ("maker", "postgres", "ALTER DATABASE a ALLOW_CONNECTIONS perhaps"),
    ("maker", "postgres", "ALTER DATABASE a ALLOW_CONNECTIONS false ALLOW_CONNECTIONS true"),
    ("maker", "postgres", "ALTER DATABASE a CONNECTION LIMIT -2"),
    ("maker", "postgres", "BEGIN; ALTER DATABASE a ALLOW_CONNECTIONS false; ROLLBACK"),
    ("maker", "a", "SELECT count(*) FROM t"),
    ("maker", "postgres", "ALTER DATABASE a WITH ALLOW_CONNECTIONS false"),
    ("maker", "a", "SELECT 1"),
    ("postgres", "a", "SELECT 1"),
    ("nobody", "a", "SELECT 1"),
    ("postgres", "postgres", ALL),
    ("maker", "postgres", "ALTER DATABASE a CONNECTION LIMIT 5"),
    ("maker", "a", "SELECT 1"),
    ("postgres", "postgres", ALL),
    ("maker", "postgres", "ALTER DATABASE a CONNECTION LIMIT = DEFAULT IS_TEMPLATE true"),
    ("postgres", "postgres", ALL),
    ("maker", "postgres", "CREATE DATABASE copied TEMPLATE a"),
    ("maker", "copied", "SELECT count(*), sum(v) FROM t"),
    ("maker", "postgres", "ALTER DATABASE a IS_TEMPLATE false ALLOW_CONNECTIONS 'OFF'"),
    ("maker", "postgres", "ALTER DATABASE a RENAME TO b"),
    ("maker", "b", "SELECT 1"),
    ("maker", "postgres", "BEGIN; ALTER DATABASE b ALLOW_CONNECTIONS 1 CONNECTION LIMIT 0; ROLLBACK"),
    ("postgres", "b", "SELECT 1"),
    ("maker", "postgres", "ALTER DATABASE b ALLOW_CONNECTIONS = true"),
    ("postgres", "postgres", ALL),
    ("maker", "b", "SELECT count(*), sum(v), current_setting('work_mem') FROM t"),
    ("maker", "postgres", "CREATE DATABASE shut ALLOW_CONNECTIONS false CONNECTION LIMIT 4"),
    ("maker", "shut", "SELECT 1"),
    ("postgres", "postgres", ALL),
    ("maker", "postgres", "ALTER DATABASE shut ALLOW_CONNECTIONS DEFAULT"),
    ("maker", "shut", "CREATE TABLE t (k int); INSERT INTO t VALUES (1), (2)"),
    ("maker", "postgres", "ALTER DATABASE shut ALLOW_CONNECTIONS false"),
    ("maker", "copied", "SELECT count(*) FROM t"),
    ("maker", "postgres", "DROP DATABASE shut"),
    // The other forms.
    ("maker", "postgres", "ALTER DATABASE b OWNER TO other"),
    ("postgres", "postgres", "ALTER DATABASE b OWNER TO nobody"),
    ("postgres", "postgres", "ALTER DATABASE b OWNER TO other"),
    ("maker", "postgres", "ALTER DATABASE b CONNECTION LIMIT 1"),
    ("other", "postgres", "ALTER DATABASE b RENAME TO a"),
    ("other", "postgres", "ALTER DATABASE a REFRESH COLLATION VERSION"),
    ("other", "postgres", "ALTER DATABASE a SET search_path = pg_catalog"),
    ("other", "a", "SHOW search_path"),
    ("other", "postgres", "ALTER DATABASE a RESET ALL"),
    ("other", "a", "SHOW search_path"),
    ("maker", "postgres", "ALTER DATABASE a RESET ALL"),
    (
        "postgres",
        "postgres",
        "SELECT d.datname, r.rolname FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba ORDER BY 1",
    ),
    ("other", "postgres", "DROP DATABASE a"),
    ("postgres", "postgres", ALL),
];

/// What a client sees of an answer.
fn seen(answer: &Answer) -> String {
    let notices: Vec<_> = answer.notices.iter().map(|notice| notice.message().into_owned()).collect();
    let error = answer.error.as_ref().map(|error| {
        (error.code().as_str().to_owned(), error.message().into_owned(), error.text(field::DETAIL).to_string())
    });
    format!("{:?} {:?} {notices:?} {error:?}", answer.tag, answer.rows)
}

fn connect(port: u16, user: &str, database: &str) -> Result<Client, String> {
    Client::connect_with(port, &[("user", user), ("database", database)])
        .map_err(|error| format!("{} {}", error.code().as_str(), error.message()))
}

#[test]
fn as_on_one_postgresql() {
    let (cluster, alone) = (Cluster::start(2, 2).expect("a cluster"), Cluster::stock(1).expect("a server"));
    let mut differences = Vec::new();
    for (number, (user, database, sql)) in SCRIPT.iter().enumerate() {
        let run = |port| match connect(port, user, database) {
            Ok(mut client) => seen(&client.simple(sql).expect(sql)),
            Err(error) => error,
        };
        // Each coordinator in its turn.
        let (here, there) = (run(cluster.coordinators()[number % 2]), run(alone.coordinators()[0]));
        if here != there {
            differences.push(format!("{user}@{database}: {sql}\n  {here}\n  {there}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn who_is_there_keeps_others_from_renaming_it() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    let mut here = cluster.connect(0).expect("a session");
    here.run("CREATE DATABASE d").expect("a database");
    let mut there = connect(cluster.coordinators()[1], "postgres", "d").expect("a session");
    there.run("CREATE TABLE t (k int PRIMARY KEY) DISTRIBUTE BY HASH (k)").expect("a table");
    let rename = "ALTER DATABASE d RENAME TO e";
    let refused = |detail: &str, here: &mut Client| {
        let error = here.run(rename).expect_err("somebody is there");
        let words = "database \"d\" is being accessed by other users";
        assert_eq!((error.code().as_str(), &*error.message()), ("55006", words));
        assert_eq!(error.text(field::DETAIL), detail);
    };
    refused("There is 1 other session using the database.", &mut here);
    there.run("BEGIN; INSERT INTO t SELECT generate_series(1, 9); PREPARE TRANSACTION 'mine'").expect("it is prepared");
    drop(there);
    refused("There is 1 prepared transaction using the database.", &mut here);
    let mut there = connect(cluster.coordinators()[1], "postgres", "d").expect("the database is as it was");
    there.run("COMMIT PREPARED 'mine'").expect("the transaction");
    drop(there);
    // On one datanode only, past the coordinators: what was renamed already is taken back.
    let beside = connect(cluster.datanodes()[1], "postgres", "d").expect("a session");
    refused("There is 1 other session using the database.", &mut here);
    drop(beside);
    let error = here.run(&format!("BEGIN; {rename}")).expect_err("a block");
    assert_eq!(error.code().as_str(), "0A000");
    here.run("ROLLBACK").expect("the block ends");
    let mut second = cluster.connect_datanode(1).expect("a datanode");
    second.run("CREATE DATABASE stray").expect("a database beside the cluster's");
    let error = here.run("ALTER DATABASE d RENAME TO stray").expect_err("a node has one of that name");
    assert_eq!(error.code().as_str(), "42P04");
    for (sql, code) in
        [("ALTER DATABASE template1 RENAME TO e", "0A000"), ("ALTER DATABASE d SET TABLESPACE pg_default", "0A000")]
    {
        let error = here.run(sql).expect_err(sql);
        assert_eq!(error.code().as_str(), code, "{sql}: {error}");
    }
    here.run(rename).expect("nobody is there");
    for coordinator in cluster.coordinators() {
        assert_eq!(
            connect(*coordinator, "postgres", "d").err().as_deref(),
            Some("3D000 database \"d\" does not exist")
        );
        let mut there = connect(*coordinator, "postgres", "e").expect("the new name");
        assert_eq!(there.scalar("SELECT count(*) FROM t").expect("a count"), "9");
        let error = there.run("ALTER DATABASE postgres RENAME TO f").expect_err("the first database");
        assert_eq!(error.code().as_str(), "0A000");
    }
    let said = cluster.loxo(&["check", "--data"]).expect("no error");
    assert!(said.contains("database e:"), "{said}");
}

/// The cluster's own commands come in where clients do not.
#[test]
fn datanodes_join_what_is_closed_and_what_was_renamed() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let mut session = cluster.connect(0).expect("a session");
    session.run("CREATE DATABASE d").expect("a database");
    let mut there = connect(cluster.coordinators()[0], "postgres", "d").expect("a session");
    there.run("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)").expect("a table");
    there.run("INSERT INTO t SELECT generate_series(1, 100)").expect("rows");
    drop(there);
    session.run("ALTER DATABASE d RENAME TO e").expect("another name");
    session.run("ALTER DATABASE e ALLOW_CONNECTIONS false IS_TEMPLATE true CONNECTION LIMIT 7").expect("it is closed");
    cluster.loxo(&["up", "--datanodes", "3"]).expect("a third datanode of both databases");
    cluster.loxo(&["rebalance"]).expect("a rebalance of both databases");
    cluster.loxo(&["check", "--data"]).expect("no error");
    cluster.loxo(&["status"]).expect("a status");
    let facts = "SELECT datistemplate, datconnlimit FROM pg_database WHERE datname = 'e'";
    let mut first = cluster.connect_datanode(0).expect("a datanode");
    let port =
        first.scalar("SELECT port FROM loxo.node WHERE name = 'dn3'").expect("a port").parse().expect("a number");
    let mut third = connect(port, "postgres", "postgres").expect("the third datanode");
    assert_eq!(third.strings(facts).expect("a row"), first.strings(facts).expect("a row"));
    let refused = connect(cluster.coordinators()[0], "postgres", "e").expect_err("it is closed");
    assert_eq!(refused, "55000 database \"e\" is not currently accepting connections");
    session.run("ALTER DATABASE e ALLOW_CONNECTIONS true").expect("it is open");
    let mut there = connect(cluster.coordinators()[0], "postgres", "e").expect("a session");
    assert_eq!(there.scalar("SELECT count(*) FROM t").expect("a count"), "100");
    drop(there);
    session.run("ALTER DATABASE e RENAME TO f").expect("another name on all three");
    let mut third = connect(port, "postgres", "f").expect("the third datanode has it");
    assert_ne!(third.scalar("SELECT count(*) FROM t").expect("a count"), "0");
}
