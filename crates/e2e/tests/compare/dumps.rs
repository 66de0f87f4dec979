//! pg_dump and pg_restore: tables keep their places, several connections read one state of the data, and another session takes a
//! transaction's snapshot over.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use testkit::{Cluster, pg_program};

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn run(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(pg_program(program).expect("it comes with PostgreSQL"));
    let output = command.args(arguments).stdin(Stdio::null()).output().expect("the program runs");
    assert!(output.status.success(), "{command:?} failed:\n{}", text(&output));
    text(&output)
}

fn sql(uri: &str, script: &str) -> String {
    run("psql", &[uri, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", script])
}

const TABLES: &str = r#"
    CREATE SCHEMA shop;
    CREATE TABLE shop.customer (id int, "Area" text, name text, PRIMARY KEY (id, "Area")) DISTRIBUTE BY HASH ("Area", id);
    CREATE TABLE shop.word (id int PRIMARY KEY, word text) DISTRIBUTE BY REPLICATION;
    CREATE TABLE shop.log (at timestamptz, line text) DISTRIBUTE BY ROUNDROBIN;
    CREATE TABLE shop.counted (k bigint, v text) DISTRIBUTE BY MODULO (k);
    CREATE TABLE shop.few (k int, v text) DISTRIBUTE BY HASH (k) TO NODE (dn1, dn3);
    CREATE TABLE shop.two (k int, v text) DISTRIBUTE BY REPLICATION TO NODE (dn2, dn3);
    CREATE TABLE shop.sale (id int, day date, customer int) PARTITION BY RANGE (day) DISTRIBUTE BY HASH (customer);
    CREATE TABLE shop.sale_old PARTITION OF shop.sale FOR VALUES FROM ('2020-01-01') TO ('2024-01-01');
    CREATE TABLE shop.sale_new PARTITION OF shop.sale FOR VALUES FROM ('2024-01-01') TO ('2030-01-01');
    CREATE TABLE shop.base (a int, b int) DISTRIBUTE BY HASH (b);
    CREATE TABLE shop.derived (c int) INHERITS (shop.base);
    CREATE TABLE shop.plain (id int PRIMARY KEY, v text);
    CREATE INDEX ON shop.sale (day);
    INSERT INTO shop.customer SELECT g, 'area ' || g % 7, 'name ' || g FROM generate_series(1, 300) g;
    INSERT INTO shop.word SELECT g, 'word ' || g FROM generate_series(1, 40) g;
    INSERT INTO shop.log SELECT now(), 'line ' || g FROM generate_series(1, 60) g;
    INSERT INTO shop.counted SELECT g, 'some ' || g FROM generate_series(1, 70) g;
    INSERT INTO shop.few SELECT g, 'few ' || g FROM generate_series(1, 80) g;
    INSERT INTO shop.two SELECT g, 'two ' || g FROM generate_series(1, 5) g;
    INSERT INTO shop.sale SELECT g, date '2022-01-01' + g * 5, g % 50 FROM generate_series(1, 400) g;
    INSERT INTO shop.base SELECT g, g * 2 FROM generate_series(1, 30) g;
    INSERT INTO shop.derived SELECT g, g * 3, 1 FROM generate_series(1, 30) g;
    INSERT INTO shop.plain SELECT g, 'plain ' || g FROM generate_series(1, 90) g;
"#;

/// What tables are and where; object ids differ after a restore, and so may the bucket map's number.
const PLACES: &str = "SELECT c.relname, x.pclocatortype, x.nodeoids, \
       (SELECT string_agg(a.attname, ',' ORDER BY u.place) FROM unnest(k.key_columns) WITH ORDINALITY u (n, place) \
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.n), k.by_default \
     FROM pgxc_class x JOIN pg_class c ON c.oid = x.pcrelid JOIN loxo.class k ON k.relid = c.oid \
     WHERE c.relnamespace = 'shop'::regnamespace ORDER BY 1";

const ROWS: [&str; 9] = ["customer", "word", "log", "counted", "few", "two", "sale", "base", "plain"];

fn rows(uri: &str) -> String {
    let one = |table: &str| {
        format!("SELECT '{table}', count(*), md5(string_agg(t::text, ';' ORDER BY t::text)) FROM shop.{table} t")
    };
    sql(uri, &ROWS.map(one).join(" UNION ALL "))
}

/// The dump of any of these ways is read back by the same.
#[test]
fn tables_keep_their_places() {
    let cluster = Cluster::start(3, 2).expect("a cluster");
    let uris = cluster.coordinator_uris();
    let (uri, other) = (uris[0].as_str(), uris[1].as_str());
    sql(uri, TABLES);
    let before = (sql(uri, PLACES), rows(uri));
    let path = |name: &str| cluster.scratch().join(name).display().to_string();
    let drop = || sql(uri, "DROP SCHEMA shop CASCADE");
    let check = |how: &str| {
        assert_eq!((sql(other, PLACES), rows(other)), before, "{how}");
    };

    let file = path("plain.sql");
    run("pg_dump", &["-d", uri, "-n", "shop", "-f", &file]);
    let dumped = std::fs::read_to_string(&file).expect("the dump");
    for label in [
        "TABLE shop.customer IS 'DISTRIBUTE BY HASH (\"Area\", id)'",
        "TABLE shop.word IS 'DISTRIBUTE BY REPLICATION'",
        "TABLE shop.log IS 'DISTRIBUTE BY ROUNDROBIN'",
        "TABLE shop.counted IS 'DISTRIBUTE BY MODULO (k)'",
        "TABLE shop.few IS 'DISTRIBUTE BY HASH (k) TO NODE (dn1, dn3)'",
        "TABLE shop.two IS 'DISTRIBUTE BY REPLICATION TO NODE (dn2, dn3)'",
        "TABLE shop.sale_old IS 'DISTRIBUTE BY HASH (customer)'",
        "TABLE shop.base IS 'DISTRIBUTE BY HASH (b)'",
    ] {
        assert!(dumped.contains(&format!("SECURITY LABEL FOR loxo ON {label};")), "{label} is not in\n{dumped}");
    }
    assert!(!dumped.contains("ON TABLE shop.plain IS") && !dumped.contains("ON TABLE shop.derived IS"));
    drop();
    run("psql", &[other, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-1", "-f", &file]);
    check("plain text, in one transaction");

    let directory = path("directory");
    run("pg_dump", &["-d", uri, "-n", "shop", "-Fd", "-j", "3", "-f", &directory]);
    drop();
    run("pg_restore", &["-d", uri, "-e", "-j", "3", &directory]);
    check("directory, three connections");

    let archive = path("archive");
    run("pg_dump", &["-d", uri, "-n", "shop", "-Fc", "-f", &archive]);
    run("pg_restore", &["-d", other, "-e", "--clean", "--if-exists", &archive]);
    check("archive, over what is there");

    let unlabelled = run("pg_dump", &["-d", uri, "-n", "shop", "--no-security-labels"]);
    assert!(!unlabelled.contains("SECURITY LABEL"));

    // By hand it is what ALTER TABLE is, and nothing else.
    sql(uri, "SECURITY LABEL FOR loxo ON TABLE shop.plain IS 'DISTRIBUTE BY REPLICATION'");
    assert_eq!(sql(uri, "SELECT pclocatortype FROM pgxc_class WHERE pcrelid = 'shop.plain'::regclass"), "R\n");
    let mut client = cluster.connect(0).expect("a client");
    for (label, code) in [
        ("shop.plain IS 'DROP TABLE shop.word'", "22023"),
        ("shop.plain IS 'DISTRIBUTE BY HASH (id); DROP TABLE shop.word'", "0A000"),
        ("shop.plain IS 'DISTRIBUTE BY HASH (nosuch)'", "42703"),
        ("shop.nosuch IS 'DISTRIBUTE BY REPLICATION'", "42P01"),
        ("shop.plain IS NULL", "22023"),
    ] {
        let error = client.run(&format!("SECURITY LABEL FOR loxo ON TABLE {label}")).expect_err(label);
        assert_eq!(error.code().as_str(), code, "{label}: {error}");
    }
    assert_eq!(sql(uri, "SELECT count(*) FROM shop.word"), "40\n");
}

/// While money goes from one datanode to another, each connection of a parallel dump sees the same sums.
#[test]
fn several_connections_dump_one_state() {
    let cluster = Cluster::start(3, 2).expect("a cluster");
    let uris = cluster.coordinator_uris();
    for table in ["one", "two", "three"] {
        sql(
            &uris[0],
            &format!(
                "CREATE TABLE {table} (id int PRIMARY KEY, money int) DISTRIBUTE BY HASH (id); \
                 INSERT INTO {table} SELECT g, 100 FROM generate_series(1, 200) g"
            ),
        );
    }
    let (is_over, moved) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        for writer in 0..2 {
            let (cluster, is_over, moved) = (&cluster, &is_over, &moved);
            scope.spawn(move || {
                let mut client = cluster.connect(writer).expect("a writer");
                let mut turn = writer;
                while !is_over.load(Ordering::Relaxed) {
                    turn += 7;
                    let (from, to) = (["one", "two", "three"][turn % 3], ["two", "three", "one"][turn % 3]);
                    let (a, b) = (turn % 200 + 1, turn * 3 % 200 + 1);
                    let done = client.run(&format!(
                        "BEGIN; UPDATE {from} SET money = money - 1 WHERE id = {a}; \
                         UPDATE {to} SET money = money + 1 WHERE id = {b}; COMMIT"
                    ));
                    if let Err(error) = done {
                        assert_eq!(error.code().as_str(), "40P01", "{error}");
                        client.run("ROLLBACK").expect("a rollback");
                    } else {
                        moved.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for round in 0..3 {
            let directory = cluster.scratch().join(format!("dump{round}")).display().to_string();
            let before = moved.load(Ordering::Relaxed);
            run("pg_dump", &["-d", &uris[round % 2], "-Fd", "-j", "3", "-f", &directory]);
            assert!(moved.load(Ordering::Relaxed) > before, "nothing has moved in round {round}");
            let script = run("pg_restore", &["-a", "-f", "-", &directory]);
            let is_row = |line: &&str| line.split_once('\t').is_some_and(|(id, _)| id.parse::<u32>().is_ok());
            let money = script.lines().filter(is_row).filter_map(|line| line.split_once('\t')?.1.parse::<i64>().ok());
            let (rows, sum) = money.fold((0, 0), |(rows, sum), money| (rows + 1, sum + money));
            assert_eq!((rows, sum), (600, 60_000), "round {round}");
        }
        drop(over);
    });
}

/// Ends the writers, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A snapshot that is taken over shows what its transaction sees, by way of any coordinator, and nobody else's.
#[test]
fn a_snapshot_is_taken_over() {
    let cluster = Cluster::start(3, 2).expect("a cluster");
    let mut one = cluster.connect(0).expect("a client");
    let mut two = cluster.connect(1).expect("a client");
    one.run(
        "CREATE TABLE t (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k); INSERT INTO t SELECT g, 0 FROM generate_series(1, 50) g",
    )
    .expect("a table");
    one.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").expect("a block");
    let id = one.scalar("SELECT pg_export_snapshot()").expect("an id");
    two.run("UPDATE t SET v = 1").expect("an update");
    two.run("BEGIN ISOLATION LEVEL REPEATABLE READ").expect("a block");
    two.run(&format!("SET TRANSACTION SNAPSHOT '{id}'")).expect("the snapshot");
    for read in ["SELECT sum(v) FROM t", "SELECT sum(a.v) FROM t a JOIN t b ON a.k = b.v + a.k"] {
        assert_eq!(two.scalar(read).expect("rows"), "0", "{read}");
    }
    assert_eq!(two.scalar("SELECT v FROM t WHERE k = 7").expect("a row"), "0");
    let changed = two.run("UPDATE t SET v = 2 WHERE k = 3").expect_err("it has been changed since");
    assert_eq!(changed.code().as_str(), "40001", "{changed}");
    two.run("ROLLBACK").expect("a rollback");
    assert_eq!(two.scalar("SELECT sum(v) FROM t").expect("rows"), "50");

    let mut refused = |begin: &str, id: &str, code: &str| {
        two.run(begin).expect("a block");
        let error = two.run(&format!("SET TRANSACTION SNAPSHOT '{id}'")).expect_err("no snapshot");
        assert_eq!(error.code().as_str(), code, "{begin}, {id}: {error}");
        two.run("ROLLBACK").expect("a rollback");
    };
    let repeatable = "BEGIN ISOLATION LEVEL REPEATABLE READ";
    refused("BEGIN", &id, "0A000");
    refused(repeatable, "00000003-0000001B-1", "22023");
    refused(repeatable, "nonsense", "22023");
    refused(&format!("{repeatable}; SELECT count(*) FROM t"), &id, "25001");
    one.run("COMMIT").expect("the end of the first");
    refused(repeatable, &id, "22023");
    // Who exports it says so before a change of the schema counts.
    one.run(repeatable).expect("a block");
    let id = one.scalar("SELECT pg_catalog.pg_export_snapshot()").expect("an id");
    sql(&cluster.coordinator_uris()[1], "CREATE TABLE later (k int)");
    refused(repeatable, &id, "40001");
    one.run("SAVEPOINT s").expect("a savepoint");
    let within = one.run("SELECT pg_export_snapshot()").expect_err("it is in a subtransaction");
    assert_eq!(within.code().as_str(), "25001", "{within}");
}
