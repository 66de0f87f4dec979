//! Sessions of the whole cluster, as a DBA looks at them from any coordinator: `pg_stat_activity` and its kin, and who may end whom.

use std::time::{Duration, Instant};

use pgerror::{PgError, field};
use testkit::Cluster;
use testkit::wire::{Client, CopyInput};

const SOON: Duration = Duration::from_secs(20);

/// Asks until the answer is the expected one.
fn until(client: &mut Client, sql: &str, expected: &str) {
    let started = Instant::now();
    loop {
        let answer = client.scalar(sql);
        match &answer {
            Ok(answer) if answer == expected => return,
            Ok(_) => {}
            // Not all coordinators have answered in time: the statement is to be repeated.
            Err(error) if error.code().as_str() == "57P03" => {}
            Err(error) => panic!("{sql}: {error:?}"),
        }
        assert!(started.elapsed() < SOON, "{sql} says {answer:?}, not {expected}");
    }
}

fn session(cluster: &Cluster, coordinator: usize, parameters: &[(&str, &str)]) -> Client {
    let parameters = [&[("database", "postgres")], parameters].concat();
    Client::connect_with(cluster.coordinators()[coordinator], &parameters).expect("a session")
}

fn refused(client: &mut Client, sql: &str) -> PgError {
    client.run(sql).expect_err(sql)
}

#[test]
fn a_dba_sees_all_sessions_and_ends_them() {
    let cluster = Cluster::start(3, 2).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    let mut dba = cluster.connect(1).expect("a session");
    dba.run("CREATE TABLE t (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").expect("a table");
    dba.run("INSERT INTO t SELECT g, 0 FROM generate_series(1, 30) g").expect("rows");
    dba.run("CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; GRANT ALL ON t TO ann, bob").expect("roles");

    all_are_shown(&cluster, &mut dba);
    the_blocked_one_is_found_and_the_blocker_ended(&cluster, &mut dba);
    what_runs_is_cancelled(&cluster, &mut dba);
    who_catches_everything_is_ended_too(&cluster, &mut dba);
    who_works_or_waits_for_rows_is_ended(&cluster, &mut dba);
    texts_of_others_are_no_commands(&cluster, &mut dba);
    statements_are_added_up(&cluster, &mut dba);
    rights_are_postgresqls(&cluster, &mut dba);
    sizes_are_of_all_nodes(&cluster, &mut dba);
    statistics_are_of_all_nodes(&cluster, &mut dba);
    what_cannot_be_right_is_refused(&mut dba);
}

/// What all datanodes say, added up.
fn on_all(cluster: &Cluster, sql: &str) -> i64 {
    let one = |node| cluster.connect_datanode(node).expect("a session").scalar(sql).expect(sql);
    (0..3).map(|node| one(node).parse::<i64>().expect("a number")).sum()
}

fn sizes_are_of_all_nodes(cluster: &Cluster, dba: &mut Client) {
    dba.run("CREATE TABLE copied (k int PRIMARY KEY) DISTRIBUTE BY REPLICATION").expect("a table");
    dba.run(
        "INSERT INTO copied SELECT generate_series(1, 1000); INSERT INTO t SELECT g FROM generate_series(100, 9000) g",
    )
    .expect("rows");
    dba.run("ANALYZE").expect("statistics");
    // Autovacuum makes the maps of a table's pages when it comes to it, so between two looks, too.
    let agree = |dba: &mut Client, asked: &str, on_nodes: &str, copies: i64| {
        let started = Instant::now();
        loop {
            let (all, told) = (on_all(cluster, on_nodes) / copies, dba.scalar(asked).expect("a size"));
            if told == all.to_string() {
                break;
            }
            assert!(started.elapsed() < SOON, "{asked}: {told}, of all nodes {all}");
        }
    };
    for function in ["pg_table_size", "pg_indexes_size", "pg_total_relation_size", "pg_relation_size"] {
        let of = |table: &str| format!("SELECT {function}(oid) FROM pg_class WHERE relname = '{table}'");
        agree(dba, &of("t"), &of("t"), 1);
        agree(dba, &format!("SELECT {function}('t')"), &of("t"), 1);
        agree(dba, &of("copied"), &of("copied"), 3);
    }
    a_transaction_is_of_all_nodes(dba);
    let index = "SELECT pg_relation_size(oid) FROM pg_class WHERE relname = 't_pkey'";
    assert_eq!(dba.scalar(index).expect("a size"), on_all(cluster, index).to_string());
    let catalog = "SELECT pg_relation_size(oid) > 0 FROM pg_class WHERE relname = 'pg_class'";
    assert_eq!(dba.scalar(catalog).expect("a size"), "t");
    let database = "SELECT pg_database_size(current_database())";
    let sizes = [on_all(cluster, database) as f64, dba.scalar(database).expect("a size").parse().expect("a number")];
    assert!((sizes[0] - sizes[1]).abs() < sizes[0] / 20.0, "{sizes:?}");
    // Backends of the pool tell of their changes when they come to it.
    let rows = |table: &str| format!("SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = '{table}'");
    let started = Instant::now();
    while dba.scalar(&rows("t")).expect("a number") != on_all(cluster, &rows("t")).to_string() {
        assert!(started.elapsed() < SOON, "rows of t");
    }
    let mut primary = cluster.connect_datanode(0).expect("a session");
    while dba.scalar(&rows("copied")).expect("a number") != primary.scalar(&rows("copied")).expect("a number") {
        assert!(started.elapsed() < SOON, "rows of copied");
    }
    // Of copies that the primary datanode has none of.
    dba.run("CREATE NODE GROUP pair WITH (dn2, dn3)").expect("a group");
    dba.run("CREATE TABLE apart (k int PRIMARY KEY) DISTRIBUTE BY REPLICATION TO GROUP pair").expect("a table");
    dba.run("INSERT INTO apart SELECT generate_series(1, 5000); ANALYZE apart").expect("rows");
    let size = "SELECT pg_table_size(oid) FROM pg_class WHERE relname = 'apart'";
    let mut second = cluster.connect_datanode(1).expect("a session");
    while dba.scalar(size).expect("a size") != second.scalar(size).expect("a size") {
        assert!(started.elapsed() < SOON, "size of apart");
    }
    while dba.scalar(&rows("apart")).expect("a number") != "5000" {
        assert!(started.elapsed() < SOON, "rows of apart");
    }
    let counted = "SELECT reltuples FROM pg_class WHERE relname = 'apart'";
    assert_eq!(dba.scalar(counted).expect("a number"), "5000");
    // Statistics wait for nobody who has locked a table, themselves above all.
    dba.run("CREATE TABLE parted (k int) PARTITION BY LIST (k) DISTRIBUTE BY ROUNDROBIN").expect("a table");
    let all = "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_stat_user_tables";
    dba.run("BEGIN; TRUNCATE copied").expect("a lock");
    assert_eq!(dba.scalar(all).expect("names"), "apart copied parted t");
    assert_eq!(dba.scalar("SELECT pg_database_size(current_database()) > 0").expect("a size"), "t");
    dba.run("ROLLBACK").expect("its end");
    dba.run("BEGIN; CREATE TABLE fresh (k int PRIMARY KEY)").expect("a table");
    let own = "SELECT pg_table_size(oid) FROM pg_class WHERE relname = 'fresh'";
    assert_eq!(refused(dba, own).code().as_str(), "0A000", "others do not see it yet");
    dba.run("ROLLBACK").expect("its end");
    // Who may not connect to a database does not learn its size.
    dba.run("REVOKE CONNECT ON DATABASE template1 FROM PUBLIC").expect("a right");
    let mut ann = session(cluster, 0, &[("user", "ann")]);
    let sizes = "SELECT pg_database_size('postgres') > 0, \
         (current_setting('loxo.sessions')::jsonb -> 'databases') ? 'postgres', \
         (current_setting('loxo.sessions')::jsonb -> 'databases') ? 'template1'";
    assert_eq!(ann.strings(sizes).expect("a row"), [["t", "t", "f"]]);
    let of = "SELECT relid = 't'::regclass, last_analyze IS NOT NULL FROM pg_stat_all_tables WHERE relname = 't'";
    assert_eq!(dba.strings(of).expect("a row"), [["t", "t"]]);
    assert_eq!(
        dba.scalar("SELECT xact_commit > 0 FROM pg_stat_database WHERE datname = 'postgres'").expect("a row"),
        "t"
    );
}

/// What one transaction has done, and how its client is encrypted.
fn a_transaction_is_of_all_nodes(dba: &mut Client) {
    // What a transaction has done so far.
    dba.run("BEGIN; DELETE FROM t WHERE k > 8000").expect("rows");
    for view in ["pg_stat_xact_user_tables", "pg_stat_xact_all_tables"] {
        let deleted = format!("SELECT n_tup_del, relid = 't'::regclass FROM {view} WHERE relname = 't'");
        assert_eq!(dba.strings(&deleted).expect("a row"), [["1000", "t"]], "{view}");
    }
    dba.run("ROLLBACK").expect("its end");
    let gssapi =
        "SELECT gss_authenticated, encrypted, principal IS NULL FROM pg_stat_gssapi WHERE pid = pg_backend_pid()";
    assert_eq!(dba.strings(gssapi).expect("a row"), [["f", "f", "t"]]);
}

/// Views of PostgreSQL's that are added up or listed, and those of ours that tell the nodes apart.
fn statistics_are_of_all_nodes(cluster: &Cluster, dba: &mut Client) {
    dba.run("SET loxo.few_rows = 0").expect("a setting");
    dba.scalar("SELECT count(v) FROM t").expect("a scan of all nodes");
    let scans = |view: &str, column: &str| format!("SELECT {column} FROM {view} WHERE relname = 't'");
    for (view, column) in [
        ("pg_stat_user_indexes", "idx_scan"),
        ("pg_stat_all_indexes", "idx_tup_read"),
        ("pg_statio_user_tables", "heap_blks_hit"),
        ("pg_statio_all_indexes", "idx_blks_hit"),
        ("pg_stat_all_tables", "seq_tup_read"),
    ] {
        let (sql, started) = (scans(view, column), Instant::now());
        let each =
            format!("SELECT sum({column}), count(DISTINCT node), min(node) FROM loxo_node_{view} WHERE relname = 't'");
        // Backends of the pool tell of what they did when they come to it, so between two looks, too.
        loop {
            let all = on_all(cluster, &sql).to_string();
            let told = dba.scalar(&sql).expect("a number");
            if told == all && dba.strings(&each).expect("a row") == [[all.as_str(), "3", "dn1"]] {
                break;
            }
            assert!(started.elapsed() < SOON, "{sql}: {told}, of all nodes {all}");
        }
    }
    let own = "SELECT i.relid = 't'::regclass, i.indexrelid = 't_pkey'::regclass, n.relid = 't'::regclass \
         FROM pg_stat_user_indexes i, loxo_node_pg_stat_user_tables n WHERE indexrelname = 't_pkey' AND n.relname = 't' AND node = 'dn3'";
    assert_eq!(dba.strings(own).expect("a row"), [["t", "t", "t"]], "object ids are this node's");
    assert_eq!(
        dba.scalar("SELECT count(*) FROM pg_stat_user_indexes WHERE relname = 'copied'").expect("a number"),
        "1"
    );
    for (view, rows) in [("pg_stat_wal", 1), ("pg_stat_bgwriter", 1), ("pg_stat_archiver", 1)] {
        let count = format!("SELECT count(*), (SELECT count(*) FROM loxo_node_{view}) FROM {view}");
        assert_eq!(dba.strings(&count).expect("a row"), [[rows.to_string(), "3".to_owned()]], "{view}");
    }
    let wal = "SELECT wal_bytes >= (SELECT sum(wal_bytes) FROM loxo_node_pg_stat_wal) / 2 FROM pg_stat_wal";
    assert_eq!(dba.scalar(wal).expect("a row"), "t");
    // Even, and on one datanode alone.
    dba.run("CREATE TABLE leaning (k int, v int) DISTRIBUTE BY HASH (k)").expect("a table");
    dba.run("INSERT INTO leaning SELECT 1, g FROM generate_series(1, 300) g; ANALYZE leaning").expect("rows");
    let skew = "SELECT nodes, live_rows, fewest, most, skew FROM loxo_table_skew WHERE relname = 'leaning'";
    let started = Instant::now();
    while dba.strings(skew).expect("a row") != [["3", "300", "0", "300", "3.00"]] {
        assert!(started.elapsed() < SOON, "rows of leaning");
    }
    assert_eq!(dba.scalar("SELECT count(*) FROM loxo_table_skew WHERE relname = 'copied'").expect("a number"), "0");
    progress_has_the_sessions_number(cluster, dba);
    // Statistics are for who may not use the schemas, too.
    dba.run("CREATE SCHEMA closed; CREATE TABLE closed.x (k int PRIMARY KEY) DISTRIBUTE BY HASH (k)").expect("a table");
    let (mut ann, mut bob) = (session(cluster, 0, &[("user", "ann")]), session(cluster, 1, &[("user", "bob")]));
    dba.run("BEGIN; LOCK TABLE closed.x").expect("a lock");
    for view in
        ["pg_locks", "pg_stat_user_tables", "pg_stat_all_tables", "pg_stat_all_indexes", "pg_statio_user_indexes"]
    {
        assert_ne!(ann.scalar(&format!("SELECT count(*) FROM {view}")).expect(view), "0");
    }
    dba.run("ROLLBACK").expect("its end");
    for view in ["loxo_table_skew", "loxo_node_pg_stat_sys_tables", "loxo_node_pg_stat_user_tables"] {
        assert_ne!(bob.scalar(&format!("SELECT count(*) FROM {view}")).expect(view), "0");
    }
    dba.run("RESET loxo.few_rows").expect("a setting");
    names_come_in_any_encoding(dba);
}

/// Names that are not ASCII, in a session whose client wants another encoding than the database's.
fn names_come_in_any_encoding(dba: &mut Client) {
    dba.run("CREATE ROLE \"jürgen\"; CREATE TABLE \"größe\" (k int PRIMARY KEY) DISTRIBUTE BY HASH (k)")
        .expect("names");
    dba.run("SET client_encoding = 'LATIN1'").expect("a setting");
    let named = "SELECT count(*) FROM pg_stat_user_tables WHERE relname = U&'gr\\00F6\\00DFe'";
    assert_eq!(dba.scalar(named).expect("a number"), "1");
    // Nor does a type of that name change anything.
    dba.run("CREATE TEMP TABLE text (a int)").expect("a look-alike");
    assert_ne!(dba.scalar("SELECT count(*) FROM pg_stat_activity").expect("a number"), "0");
    assert_eq!(dba.scalar(named).expect("a number"), "1");
    dba.run("DROP TABLE text").expect("its end");
    dba.run("RESET client_encoding").expect("a setting");
    dba.run("DROP TABLE \"größe\"; DROP ROLE \"jürgen\"").expect("its end");
}

/// A COPY that waits for its client runs on all nodes.
fn progress_has_the_sessions_number(cluster: &Cluster, dba: &mut Client) {
    let mut copies = session(cluster, 0, &[("user", "postgres")]);
    let pid = copies.backend_key.0.to_string();
    copies.begin_copy("COPY t FROM STDIN").expect("a COPY");
    let rows: String = (20_000..120_000).map(|key| format!("{key}\t0\n")).collect();
    copies.send_copy(rows.as_bytes()).expect("rows");
    let listed = format!(
        "SELECT count(*) > 0, bool_and(relid = 't'::regclass AND datname = 'postgres') FROM pg_stat_progress_copy WHERE pid = {pid}"
    );
    let started = Instant::now();
    while dba.strings(&listed).expect("a row") != [["t", "t"]] {
        assert!(started.elapsed() < SOON, "the COPY of session {pid}");
    }
    copies.send_copy_done().expect("the end of the rows");
    copies.end_copy().expect("an answer");
}

fn all_are_shown(cluster: &Cluster, dba: &mut Client) {
    let mut ann = session(cluster, 0, &[("user", "ann"), ("application_name", "till 1")]);
    let pid = ann.backend_key.0;
    assert_eq!(ann.scalar("SELECT pg_backend_pid()").expect("a number"), pid.to_string());
    let own = dba.backend_key.0.to_string();
    assert_eq!(dba.scalar("SELECT pg_catalog.pg_backend_pid()").expect("a number"), own);
    assert_ne!(pid.to_string(), own, "of two coordinators");

    ann.run("BEGIN; /* é */ UPDATE t SET v = 1 WHERE k = 7").expect("a change");
    let row = dba
        .strings(&format!(
            "SELECT usename, usesysid = 'ann'::regrole, datname, datid <> 0, application_name, client_addr, client_port > 0, \
             state, query, backend_type, xact_start <= clock_timestamp(), wait_event FROM pg_stat_activity WHERE pid = {pid}"
        ))
        .expect("a row");
    let expected = [
        "ann",
        "t",
        "postgres",
        "t",
        "till 1",
        "127.0.0.1",
        "t",
        "idle in transaction",
        "BEGIN; /* é */ UPDATE t SET v = 1 WHERE k = 7",
        "client backend",
        "t",
        "ClientRead",
    ];
    assert_eq!(row, [expected]);
    ann.run("SET application_name = 'till 2'").expect("a setting");
    ann.run("ROLLBACK").expect("its end");
    let now = format!("SELECT application_name || state FROM pg_stat_activity WHERE pid = {pid}");
    // It goes back to what it was.
    assert_eq!(dba.scalar(&now).expect("a row"), "till 1idle");
    // With tables of the user's, in a block, prepared, in a view.
    let with_rows = "SELECT count(*) FROM t, pg_stat_activity a WHERE a.usename = 'ann'";
    assert_eq!(dba.scalar(with_rows).expect("a count"), "30");
    dba.run("BEGIN; CREATE VIEW who AS SELECT usename FROM pg_stat_activity WHERE state = 'active'").expect("a view");
    assert_eq!(dba.scalar("SELECT usename FROM who").expect("a name"), "postgres");
    dba.run("ROLLBACK").expect("its end");
    let prepared = "SELECT query FROM pg_stat_activity WHERE pid = $1";
    let answer = dba.extended(prepared, &[Some(&own)], CopyInput::default(), |_| false).expect("an answer");
    assert_eq!(answer.rows[0][0].as_deref(), Some(prepared.as_bytes()), "{answer:?}");
    drop(ann);
    until(dba, &format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}"), "0");
}

fn the_blocked_one_is_found_and_the_blocker_ended(cluster: &Cluster, dba: &mut Client) {
    let mut holder = session(cluster, 0, &[("user", "ann")]);
    let mut waiter = session(cluster, 1, &[("user", "bob")]);
    holder.run("BEGIN; UPDATE t SET v = 2").expect("a change of all rows");
    waiter.send_query("UPDATE t SET v = 3 WHERE k = 11").expect("sent");
    let (holds, waits) = (holder.backend_key.0, waiter.backend_key.0);
    let blocked = "SELECT coalesce(string_agg(concat_ws(' ', pid, usename, pg_blocking_pids(pid), wait_event_type, query), ';'), '') \
         FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0";
    until(dba, blocked, &format!("{waits} bob {{{holds}}} Lock UPDATE t SET v = 3 WHERE k = 11"));
    let wanted = format!("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND pid = {waits}");
    assert_eq!(dba.scalar(&wanted).expect("a lock"), "t");
    let held = format!("SELECT count(*) FROM pg_locks WHERE granted AND relation = 't'::regclass AND pid = {holds}");
    assert_eq!(dba.scalar(&held).expect("locks"), "3", "one on each node");
    assert_eq!(dba.scalar(&format!("SELECT pg_terminate_backend({holds})")).expect("an answer"), "t");
    let last = holder.last_words().expect("last words");
    assert_eq!(last.code().as_str(), "57P01");
    assert_eq!(waiter.wait().expect("an answer")[0].tag.as_deref(), Some("UPDATE 1"));
    assert_eq!(dba.scalar("SELECT sum(v) FROM t").expect("a sum"), "3", "the other's change is undone");
}

fn what_runs_is_cancelled(cluster: &Cluster, dba: &mut Client) {
    let mut sleeper = session(cluster, 0, &[("user", "ann")]);
    let pid = sleeper.backend_key.0;
    sleeper.send_query("SELECT pg_sleep(600)").expect("sent");
    until(dba, &format!("SELECT concat(state, wait_event) FROM pg_stat_activity WHERE pid = {pid}"), "activePgSleep");
    assert_eq!(dba.scalar(&format!("SELECT pg_cancel_backend({pid})")).expect("an answer"), "t");
    let answers = sleeper.wait().expect("an answer");
    assert_eq!(answers[0].error.as_ref().expect("an error").code().as_str(), "57014");
    assert_eq!(sleeper.scalar("SELECT 1").expect("it lives"), "1");
    dba.run(&format!("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid = {pid}")).expect("idle");
    // The request may come late, as PostgreSQL's signal may: it hits one statement at most.
    let lives = sleeper.scalar("SELECT 1").or_else(|_| sleeper.scalar("SELECT 1"));
    assert_eq!(lives.expect("it lives"), "1");
    let answer = dba.simple("SELECT pg_cancel_backend(2147483647)").expect("an answer");
    assert_eq!(answer.notices[0].message(), "PID 2147483647 is not a PostgreSQL backend process");
}

/// PostgreSQL's FATAL cannot be caught.
fn who_catches_everything_is_ended_too(cluster: &Cluster, dba: &mut Client) {
    let mut stubborn = session(cluster, 0, &[("user", "ann")]);
    let pid = stubborn.backend_key.0;
    let catches =
        "DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(1); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$";
    stubborn.send_query(catches).expect("sent");
    until(dba, &format!("SELECT concat(state, wait_event) FROM pg_stat_activity WHERE pid = {pid}"), "activePgSleep");
    assert_eq!(dba.scalar(&format!("SELECT pg_cancel_backend({pid})")).expect("an answer"), "t");
    until(dba, &format!("SELECT state FROM pg_stat_activity WHERE pid = {pid}"), "active");
    assert_eq!(dba.scalar(&format!("SELECT pg_terminate_backend({pid})")).expect("an answer"), "t");
    until(dba, &format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}"), "0");
}

/// In the middle of a statement it is the session that ends, and so it does when a COPY waits for its client.
fn who_works_or_waits_for_rows_is_ended(cluster: &Cluster, dba: &mut Client) {
    let mut sleeper = session(cluster, 0, &[("user", "ann")]);
    let pid = sleeper.backend_key.0;
    sleeper.send_query("SELECT pg_sleep(600)").expect("sent");
    until(dba, &format!("SELECT concat(state, wait_event) FROM pg_stat_activity WHERE pid = {pid}"), "activePgSleep");
    assert_eq!(dba.scalar(&format!("SELECT pg_terminate_backend({pid})")).expect("an answer"), "t");
    assert_eq!(sleeper.last_words().expect("last words").code().as_str(), "57P01");

    for sql in ["COPY t FROM STDIN", "COPY t (v, k) FROM STDIN (FORMAT csv)"] {
        let mut silent = session(cluster, 1, &[("user", "ann")]);
        let pid = silent.backend_key.0;
        silent.begin_copy(sql).expect("begun");
        silent.send_copy(b"100").expect("half a row");
        until(dba, &format!("SELECT state FROM pg_stat_activity WHERE pid = {pid}"), "active");
        assert_eq!(dba.scalar(&format!("SELECT pg_terminate_backend({pid})")).expect("an answer"), "t");
        assert_eq!(silent.last_words().expect("last words").code().as_str(), "57P01");
        dba.run("BEGIN; SET LOCAL lock_timeout = '5s'; LOCK TABLE t; ROLLBACK").expect("its locks are gone");
    }
}

/// What a client sends is in the list that is shown to others. Some encodings have characters whose last byte is a backslash.
fn texts_of_others_are_no_commands(cluster: &Cluster, dba: &mut Client) {
    let mut ann = session(cluster, 0, &[("user", "ann")]);
    let text = "SELECT 1 /* ぃ\\';ALTER ROLE ann SUPERUSER;-- */";
    ann.run(text).expect("a row");
    let query = format!("SELECT query FROM pg_stat_activity WHERE pid = {}", ann.backend_key.0);
    assert_eq!(dba.scalar(&query).expect("a text"), text);
    for encoding in ["SJIS", "BIG5", "GBK", "GB18030", "UHC", "JOHAB", "LATIN1"] {
        let mut other = session(cluster, 1, &[("user", "postgres")]);
        other.run(&format!("SET client_encoding = '{encoding}'")).expect("an encoding");
        let row = other.strings("SELECT count(*) > 1 FROM pg_stat_activity").expect("a row");
        assert_eq!(row, [["t"]], "{encoding}");
    }
    assert_eq!(dba.scalar("SELECT rolsuper FROM pg_roles WHERE rolname = 'ann'").expect("a role"), "f");
}

fn rights_are_postgresqls(cluster: &Cluster, dba: &mut Client) {
    let mut ann = session(cluster, 0, &[("user", "ann")]);
    let mut bob = session(cluster, 1, &[("user", "bob")]);
    bob.run("SELECT 'secret'").expect("a row");
    let (of_bob, of_dba) = (bob.backend_key.0, dba.backend_key.0);
    let hidden = ann.strings(&format!(
        "SELECT usename, query, state IS NULL, client_addr IS NULL FROM pg_stat_activity WHERE pid = {of_bob}"
    ));
    assert_eq!(hidden.expect("a row"), [["bob", "<insufficient privilege>", "t", "t"]]);
    let leaks = format!(
        "SELECT position('sec' || 'ret' IN current_setting('loxo.sessions')) > 0 FROM pg_stat_activity WHERE pid = {of_bob}"
    );
    assert_eq!(ann.scalar(&leaks).expect("a value"), "f");
    let denied = refused(&mut ann, &format!("SELECT pg_terminate_backend({of_bob})"));
    assert_eq!((denied.code().as_str(), &*denied.message()), ("42501", "permission denied to terminate process"));
    assert!(denied.text(field::DETAIL).contains("pg_signal_backend"), "{denied:?}");
    let denied = refused(&mut ann, &format!("SELECT pg_cancel_backend({of_dba})"));
    assert!(denied.text(field::DETAIL).contains("SUPERUSER"), "{denied:?}");
    // Who writes the note himself ends nobody.
    let note = format!(
        "DO $$ BEGIN PERFORM pg_blocking_pids(0); RAISE INFO USING ERRCODE = 'LX010', MESSAGE = '-{of_bob}'; END $$"
    );
    ann.run(&note).expect("a note");
    dba.run("GRANT pg_signal_backend TO ann").expect("a right");
    assert_eq!(ann.scalar(&format!("SELECT pg_terminate_backend({of_bob})")).expect("an answer"), "t");
    assert_eq!(bob.last_words().expect("last words").code().as_str(), "57P01");
    assert_eq!(dba.scalar("SELECT 1").expect("it lives"), "1");
}

/// Over both coordinators, without constants and comments, and hidden from other roles.
fn statements_are_added_up(cluster: &Cluster, dba: &mut Client) {
    dba.run("SELECT loxo_stat_statements_reset()").expect("a new beginning");
    let mut ann = session(cluster, 0, &[("user", "ann")]);
    let mut also_ann = session(cluster, 1, &[("user", "ann")]);
    for (number, client) in [&mut ann, &mut also_ann].into_iter().enumerate() {
        for k in 1..=3 {
            client.run(&format!("SELECT v FROM t WHERE k = {k}")).expect("a row");
            client.run(&format!("SELECT v /* {number} */ FROM t WHERE k = {k}")).expect("a row");
        }
        client.run("SELECT nothing FROM t").expect_err("no column");
        client.run("BEGIN; DO $$ BEGIN PERFORM count(*) FROM t; END $$; COMMIT").expect("a block");
    }
    dba.run("CREATE ROLE carl PASSWORD 'top secret'").expect("a role");
    dba.run("SET loxo.few_rows = 0; SELECT count(*) FROM t a JOIN t b ON a.v = b.k + 1; RESET loxo.few_rows")
        .expect("a join");

    let of_ann =
        "SELECT query, plan, calls, errors, rows FROM loxo_stat_statements WHERE usename = 'ann' ORDER BY 1, 2";
    let lines = dba.strings(of_ann).expect("lines");
    let expected = [
        ["BEGIN", "session", "2", "0", "0"],
        ["COMMIT", "session", "2", "0", "0"],
        ["DO", "routine", "2", "0", "0"],
        ["SELECT nothing FROM t", "session", "0", "2", "0"],
        ["SELECT v FROM t WHERE k = $1", "forward", "12", "0", "12"],
    ];
    assert_eq!(lines, expected);
    let whole = "SELECT count(*) FILTER (WHERE rows_moved > 0) > 0, bool_and(total_exec_time >= max_exec_time AND max_exec_time >= min_exec_time), \
                 bool_or(gate_wait_time > 0), bool_or(settle_wait_time > 0), \
                 count(*) FILTER (WHERE query LIKE '%top secret%') FROM loxo_stat_statements s JOIN pg_roles r ON r.oid = s.userid";
    assert_eq!(dba.strings(whole).expect("a line"), [["t", "t", "t", "t", "0"]]);

    let mut bob = session(cluster, 1, &[("user", "bob")]);
    let seen = "SELECT count(*) = 5, min(query), max(query) FROM loxo_stat_statements WHERE usename = 'ann'";
    assert_eq!(bob.strings(seen).expect("a line"), [["t", "<insufficient privilege>", "<insufficient privilege>"]]);
    assert_eq!(refused(&mut bob, "SELECT loxo_stat_statements_reset()").code().as_str(), "42501");
    bob.run("DO $$ BEGIN PERFORM pg_blocking_pids(0); RAISE INFO USING ERRCODE = 'LX010', MESSAGE = '0'; END $$")
        .expect("a note");
    assert_eq!(dba.strings(of_ann).expect("lines").len(), 5);
    dba.run("SELECT loxo_stat_statements_reset()").expect("a new beginning");
    assert!(dba.strings(of_ann).expect("lines").is_empty());
}

fn what_cannot_be_right_is_refused(dba: &mut Client) {
    let own =
        "EXECUTE DIRECT ON (dn1) 'SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = ''checkpointer'''";
    assert_eq!(dba.scalar(own).expect("a datanode's own view"), "t");
    // Such a body is run by the coordinator.
    let who = "SELECT count(*) FROM pg_stat_activity WHERE usename = ''postgres''";
    dba.run(&format!("CREATE FUNCTION who() RETURNS bigint LANGUAGE sql AS '{who}'")).expect("a function");
    for sql in ["SELECT who()", "SELECT who() FROM t WHERE k = 1"] {
        // Sessions that have gone are listed a moment longer.
        until(dba, sql, "1");
    }
    for sql in ["COPY (SELECT pid FROM pg_stat_activity) TO STDOUT", "SELECT pg_terminate_backend(1, 5)"] {
        assert_eq!(refused(dba, sql).code().as_str(), "0A000", "{sql}");
    }
}
