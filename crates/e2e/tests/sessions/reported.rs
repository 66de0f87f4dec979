//! What a client is told of its settings (ParameterStatus) beside what one PostgreSQL tells, whichever way a setting has changed; and
//! that a key goes by the encoding that the session has, not by the one that it had.

use pgerror::SqlState;
use testkit::wire::{Answer, Client, CopyInput};
use testkit::{Cluster, Server, ServerOptions};

/// Statements with their answers; between two of them the client has been told all.
const WAYS: &[&str] = &[
    "SET client_encoding = 'LATIN1'",
    "BEGIN; SET client_encoding = 'UTF8'",
    "SET LOCAL TimeZone = 'Asia/Tokyo'; SET DateStyle = 'German'",
    "ROLLBACK",
    "BEGIN; SET LOCAL client_encoding = 'UTF8'",
    "COMMIT",
    "BEGIN; SET IntervalStyle = 'iso_8601'",
    "SAVEPOINT s; SET LOCAL IntervalStyle = 'sql_standard'; SET TimeZone = 'Asia/Tokyo'",
    "ROLLBACK TO s",
    "SAVEPOINT s2; SET TimeZone = 'Asia/Tokyo'",
    "SELECT 1 / 0",
    "ROLLBACK TO s2",
    "SELECT 1 / 0",
    "COMMIT",
    "BEGIN; SET IntervalStyle = 'iso_8601'",
    "COMMIT",
    "RESET client_encoding",
    "SET DateStyle = 'German'",
    "SET DateStyle = 'YMD'",
    "SELECT '2020-03-04'::date, k FROM t ORDER BY k",
    "DISCARD ALL",
    "SET TimeZone = 'Asia/Tokyo'; SET default_transaction_read_only = on",
    "RESET ALL",
    "SELECT set_config('client_encoding', 'LATIN1', false)",
    "BEGIN; SELECT set_config('client_encoding', 'UTF8', true)",
    "COMMIT",
    "DO $$ BEGIN PERFORM set_config('client_encoding', 'UTF8', false); END $$",
    "DO $$ BEGIN PERFORM set_config('TimeZone', 'Asia/Tokyo', true); END $$",
    "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$ SELECT set_config('TimeZone', 'Asia/Tokyo', false) $$",
    "SELECT f()",
    "BEGIN; SELECT f(), k FROM t WHERE k = 3",
    "ROLLBACK",
    "CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('IntervalStyle', 'iso_8601', false); \
     INSERT INTO t VALUES (100); COMMIT; PERFORM set_config('DateStyle', 'German', false); ROLLBACK; END $$",
    "CALL p()",
    "CREATE ROLE clerk",
    "SET ROLE clerk",
    "RESET ROLE",
    "BEGIN; SET LOCAL ROLE clerk",
    "COMMIT",
    "SET SESSION AUTHORIZATION clerk",
    "BEGIN; RESET SESSION AUTHORIZATION",
    "ROLLBACK",
    "RESET SESSION AUTHORIZATION",
    "SET application_name = 'one'",
    "BEGIN; SET application_name = 'two'",
    "ROLLBACK",
    "SET TimeZone = 'Asia/Tokyo'; SET TimeZone = 'Europe/Rome'; SELECT 1 / 0",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "DISCARD ALL",
    "DROP ROLE clerk",
];

fn told(client: &Client) -> Vec<(&str, &str)> {
    // A session without a name of its own has that of the coordinator's links.
    let is_common =
        |(name, value): &(&String, &String)| *name != "application_name" || ["one", "two"].contains(&&***value);
    client.parameters.iter().filter(is_common).map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn clients_are_told_of_their_settings() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let options = ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("its locale");
    let reference = Server::start(&options).expect("a stock server");
    let (mut one, mut many) = (reference.connect().expect("a session"), cluster.connect(0).expect("a session"));
    for (client, clause) in [(&mut one, ""), (&mut many, " DISTRIBUTE BY HASH (k)")] {
        client.run(&format!("CREATE TABLE t (k int PRIMARY KEY){clause}")).expect("a table");
        client.run("INSERT INTO t SELECT generate_series(1, 9)").expect("rows");
    }
    for sql in WAYS {
        let [expected, actual] = [&mut one, &mut many].map(|client| client.run(sql).map_err(|error| error.code()));
        let rows = |answer: Result<Answer, SqlState>| answer.map(|answer| answer.rows);
        assert_eq!(rows(actual), rows(expected), "{sql}\n(left: the cluster, right: one server)");
        assert_eq!(told(&many), told(&one), "{sql}\n(left: the cluster, right: one server)");
    }
}

#[test]
fn keys_go_by_the_encoding_that_the_session_has() {
    let cluster = Cluster::start(3, 1).expect("a cluster");
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE k (id text PRIMARY KEY, v int) DISTRIBUTE BY HASH (id)").expect("a table");
    let foreign: [&[&str]; 4] = [
        &["SET client_encoding = 'LATIN1'", "BEGIN", "SET client_encoding = 'UTF8'", "ROLLBACK"],
        &["SET client_encoding = 'LATIN1'", "BEGIN; SET LOCAL client_encoding = 'UTF8'; COMMIT"],
        &["DO $$ BEGIN PERFORM set_config('client_encoding', 'LATIN1', false); END $$"],
        &["BEGIN; SET client_encoding = 'LATIN1'; SAVEPOINT s; RESET client_encoding", "ROLLBACK TO s", "COMMIT"],
    ];
    for statements in foreign {
        client.run("RESET client_encoding").expect("the first encoding");
        statements.iter().for_each(|sql| drop(client.run(sql).expect(sql)));
        let bound = client.extended("INSERT INTO k VALUES ($1, 1)", &[Some("ö")], CopyInput::default(), |_| false);
        let refused = bound.expect("an answer").error.expect("a key in LATIN1");
        assert_eq!(refused.code(), SqlState::FEATURE_NOT_SUPPORTED, "{statements:?}");
        let written = client.run("INSERT INTO k VALUES ('ö', 1)").expect_err("a text in LATIN1");
        assert_eq!(written.code(), SqlState::FEATURE_NOT_SUPPORTED, "{statements:?}");
    }
    for sql in [
        "RESET client_encoding",
        "BEGIN; SET LOCAL client_encoding = 'LATIN1'; COMMIT",
        "INSERT INTO k VALUES ('ö', 1)",
    ] {
        client.run(sql).expect(sql);
    }
    let again = client.run("INSERT INTO k VALUES ('ö', 2)").expect_err("a key that is there");
    assert_eq!(again.code(), SqlState::UNIQUE_VIOLATION);
}

#[test]
fn constants_are_read_in_one_way() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE k (id text PRIMARY KEY) DISTRIBUTE BY HASH (id)").expect("a table");
    client.run("CREATE ROLE clerk LOGIN").expect("a role");
    for sql in [
        "SET standard_conforming_strings = off",
        "SELECT set_config('standard_conforming_strings', 'off', false)",
        "SELECT set_config(lower('STANDARD_CONFORMING_STRINGS'), 'f', true)",
        "ALTER ROLE clerk SET standard_conforming_strings = off",
        "ALTER ROLE ALL SET standard_conforming_strings = 'false'",
        "ALTER DATABASE postgres SET standard_conforming_strings TO 0",
    ] {
        assert_eq!(client.run(sql).expect_err(sql).code(), SqlState::FEATURE_NOT_SUPPORTED, "{sql}");
    }
    // Refused, or noticed when it has been done: a WARNING then, and the setting is as it was.
    let _ = client.run("DO $$ BEGIN PERFORM set_config('standard_conforming_strings', 'off', false); END $$");
    assert_eq!(client.scalar("SHOW standard_conforming_strings").expect("a setting"), "on");
    client.run(r"INSERT INTO k VALUES ('a\\b')").expect("a row");
    assert_eq!(client.scalar("SELECT length(id) FROM k").expect("a row"), "4");
    let port = cluster.coordinators()[0];
    for (name, value) in [("standard_conforming_strings", "off"), ("options", "-c standard_conforming_strings=off")] {
        let parameters = [("user", "postgres"), ("database", "postgres"), (name, value)];
        let refused = Client::connect_with(port, &parameters).expect_err("a setting");
        assert_eq!(refused.code(), SqlState::FEATURE_NOT_SUPPORTED, "{name}");
    }
    // A datanode that has got it behind the coordinators' back.
    for node in 0..2 {
        let mut datanode = cluster.connect_datanode(node).expect("a datanode");
        datanode.run("ALTER ROLE clerk SET standard_conforming_strings = off").expect("a setting");
    }
    let parameters = [("user", "clerk"), ("database", "postgres")];
    let mut clerk = Client::connect_with(port, &parameters).expect("a session");
    assert_eq!(clerk.parameters.get("standard_conforming_strings").map(String::as_str), Some("on"));
    clerk.run("RESET ALL").expect("its first settings");
    assert_eq!(clerk.scalar(r"SELECT length('a\\b')").expect("a length"), "4");
}
