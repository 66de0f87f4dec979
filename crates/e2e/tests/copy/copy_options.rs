//! COPY options that PostgreSQL 15 does not have, so no stock server of that version can be asked: `ON_ERROR` and its kin,
//! as PostgreSQL 17 and 18 document and word them. And keys in other client encodings, found again in UTF-8.

use e2e::differential::answers_text;
use testkit::Cluster;
use testkit::wire::{Client, CopyInput};

#[test]
fn rows_are_left_out_and_keys_are_found_again() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let mut client = cluster.connect(0).expect("a session");
    every_type_may_refuse(&mut client);
    limits_and_silence(&mut client);
    other_errors_are_hard(&mut client);
    only_the_home_node_could(&mut client);
    keys_in_other_encodings(&mut client);
}

/// The answer to a COPY of this data, as text.
fn copy(client: &mut Client, sql: &str, data: &[u8]) -> String {
    let answer = client.simple_copy(sql, CopyInput { frames: &[data], fail: false }).expect("an answer");
    answers_text(&[answer])
        .lines()
        .filter(|line| !line.contains("transaction status"))
        .map(|line| format!("{}\n", line.trim()))
        .collect()
}

/// What PostgreSQL says of these rows (line, column, value) under `LOG_VERBOSITY verbose`.
fn skipped(table: &str, rows: &[(u32, &str, &str)]) -> String {
    let text = "skipping row due to data type incompatibility at line";
    let line = |(line, column, value): &(u32, &str, &str)| {
        format!("NOTICE 00000: {text} {line} for column \"{column}\": {value} | CONTEXT: COPY {table}\n")
    };
    let all: String = rows.iter().map(line).collect();
    let count = match rows.len() {
        1 => "1 row was".to_owned(),
        count => format!("{count} rows were"),
    };
    format!("{all}NOTICE 00000: {count} skipped due to data type incompatibility\n")
}

fn every_type_may_refuse(client: &mut Client) {
    for sql in [
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN positive AS int NOT NULL CHECK (VALUE > 0)",
        "CREATE TABLE plain (k int, v varchar(3), d date) DISTRIBUTE BY HASH (k)",
        "CREATE TABLE odd (k int, m mood, a int[], j json, d positive, b bit(3)) DISTRIBUTE BY HASH (k)",
        "CREATE TABLE copies (k int, v varchar(3), d date) DISTRIBUTE BY REPLICATION",
    ] {
        client.run(sql).expect(sql);
    }
    let long = "x".repeat(150);
    let data =
        format!("1,abc,2020-01-01\n2,abcd,2020-01-01\n3,abc,31-Feb-2020\n{long},a,\n5,\"a\nb\",\nx,,\n6,abc  ,\n");
    let shown = format!("\"{}...\"", "x".repeat(100));
    for table in ["plain", "copies"] {
        let sql = format!("COPY {table} FROM STDIN (FORMAT csv, ON_ERROR ignore, LOG_VERBOSITY verbose)");
        let rows = [(2, "v", "\"abcd\""), (3, "d", "\"31-Feb-2020\""), (4, "k", &*shown), (7, "k", "\"x\"")];
        assert_eq!(copy(client, &sql, data.as_bytes()), format!("{}tag \"COPY 3\"\n", skipped(table, &rows)));
    }
    let data = b"1\tok\t{1}\t{}\t1\t101\n2\tglad\t{1}\t{}\t1\t101\n3\tok\t{y}\t{}\t1\t101\n4\tok\t{1}\t{\t1\t101\n\
        5\tok\t{1}\t{}\t-1\t101\n6\tok\t{1}\t{}\t\\N\t101\n7\tok\t{1}\t{}\t1\t10\n8\t\\N\t\\N\t\\N\t2\t\\N\n\\.\n";
    let rows = [
        (2, "m", "\"glad\""),
        (3, "a", "\"{y}\""),
        (4, "j", "\"{\""),
        (5, "d", "\"-1\""),
        (6, "d", "null input"),
        (7, "b", "\"10\""),
    ];
    let sql = "COPY odd FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY verbose)";
    assert_eq!(copy(client, sql, data), format!("{}tag \"COPY 2\"\n", skipped("odd", &rows)));
    assert_eq!(client.scalar("SELECT string_agg(k::text, ' ' ORDER BY k) FROM odd").expect("rows"), "1 8");
}

fn limits_and_silence(client: &mut Client) {
    let data = b"x\ta\t\\N\n1\ta\t\\N\ny\tb\t\\N\nz\tc\t\\N\n";
    for table in ["plain", "copies"] {
        let limited = |limit: u32| format!("COPY {table} FROM STDIN (ON_ERROR ignore, REJECT_LIMIT {limit})");
        let error = "skipped more than REJECT_LIMIT (2) rows due to data type incompatibility";
        let expected = format!("ERROR 22P02: {error} | CONTEXT: COPY {table}, line 4, column k: \"z\"\n");
        assert_eq!(copy(client, &limited(2), data), expected);
        let expected = "NOTICE 00000: 3 rows were skipped due to data type incompatibility\ntag \"COPY 1\"\n";
        assert_eq!(copy(client, &limited(3), data), expected);
    }
    let silent = "COPY plain FROM STDIN (ON_ERROR ignore, LOG_VERBOSITY silent)";
    assert_eq!(copy(client, silent, data), "tag \"COPY 1\"\n");
}

fn other_errors_are_hard(client: &mut Client) {
    let sql = "COPY plain FROM STDIN (ON_ERROR ignore)";
    let missing = "ERROR 22P04: missing data for column \"v\" | CONTEXT: COPY plain, line 2: \"1\"\n";
    assert_eq!(copy(client, sql, b"x\ta\t\\N\n1\n"), missing);
    let bytes = "ERROR 22021: invalid byte sequence for encoding \"UTF8\": 0xff | CONTEXT: COPY plain, line 1\n";
    assert_eq!(copy(client, sql, b"1\t\xff\t\\N\n"), bytes);
    client.run("ALTER TABLE plain ADD CHECK (k > 0)").expect("a constraint");
    assert!(copy(client, sql, b"-1\ta\t\\N\n").starts_with("ERROR 23514: new row for relation \"plain\""));
    let binary = "ERROR 42601: only ON_ERROR STOP is allowed in BINARY mode\n";
    assert_eq!(copy(client, "COPY plain FROM STDIN (FORMAT binary, ON_ERROR ignore)", b""), binary);
}

/// Lines that need a sequence are completed by a datanode, which before 17 cannot leave out any.
fn only_the_home_node_could(client: &mut Client) {
    client.run("CREATE TABLE counted (id serial, k int) DISTRIBUTE BY HASH (id)").expect("a table");
    let version: u32 = client.scalar("SHOW server_version_num").expect("a version").parse().expect("a number");
    let answer = copy(client, "COPY counted (k) FROM STDIN (ON_ERROR ignore)", b"1\nx\n");
    match version < 170_000 {
        true => assert!(answer.starts_with("ERROR 0A000: COPY with ON_ERROR of lines"), "{answer}"),
        false => assert!(answer.ends_with("tag \"COPY 1\"\n"), "{answer}"),
    }
}

/// The same words in a client encoding and in UTF-8.
type Words = &'static [(&'static [u8], &'static str)];

const LATIN1: Words = &[(b"\xe4", "ä"), (b"\xf6\xfc", "öü"), (b"\xe9\xe8", "éè"), (b"\xdf\xe4", "ßä")];
/// The second byte of the first ones is a backslash, a bar.
const SJIS: Words = &[(b"\x95\x5c", "表"), (b"\x83\x7c", "ポ"), (b"\x93\xfa\x96\x7b", "日本"), (b"\x82\xa0", "あ")];

fn keys_in_other_encodings(client: &mut Client) {
    for (encoding, words) in [("LATIN1", LATIN1), ("SJIS", SJIS)] {
        // By our own routing, and by way of the home node in binary or (with a type that only has an input function) in text.
        client.run(&format!("CREATE TABLE {encoding}_plain (k text) DISTRIBUTE BY HASH (k)")).expect("a table");
        client.run(&format!("CREATE TABLE {encoding}_mood (k text, m mood) DISTRIBUTE BY HASH (k)")).expect("a table");
        let lines = |more: &[u8]| words.iter().flat_map(|(word, _)| [word, more].concat()).collect::<Vec<u8>>();
        let four = "tag \"COPY 4\"\n";
        let with_option = format!("COPY {encoding}_plain FROM STDIN (ENCODING '{encoding}')");
        assert_eq!(copy(client, &with_option, &lines(b"\n")), four);
        client.run(&format!("SET client_encoding = '{encoding}'")).expect("an encoding");
        let sent = client.run(&format!("COPY {encoding}_plain TO STDOUT (FORMAT binary)")).expect("rows").copied;
        let binary = format!("COPY {encoding}_plain FROM STDIN (FORMAT binary)");
        assert_eq!(copy(client, &binary, &sent.expect("bytes")), four);
        assert_eq!(copy(client, &format!("COPY {encoding}_plain FROM STDIN"), &lines(b"\n")), four);
        assert_eq!(copy(client, &format!("COPY {encoding}_mood FROM STDIN"), &lines(b"\tok\n")), four);
        // A bound key would be hashed as it comes.
        let sql = format!("SELECT count(*) FROM {encoding}_plain WHERE k = $1");
        let bound = client.extended(&sql, &[Some("ä")], CopyInput::default(), |_| false).expect("an answer");
        assert_eq!(bound.error.expect("a refusal").code().as_str(), "0A000");
        client.run("SET client_encoding = 'UTF8'").expect("an encoding");
        for (_, word) in words {
            for (table, expected) in [("plain", "3"), ("mood", "1")] {
                let sql = format!("SELECT count(*) FROM {encoding}_{table} WHERE k = '{word}'");
                assert_eq!(client.scalar(&sql).expect("a count"), expected, "{sql}");
            }
        }
    }
}
