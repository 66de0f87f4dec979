//! The clients that people use: psql, pg_dump, pgbench, psycopg 3.

use std::process::{Command, Output};
use std::sync::LazyLock;

use testkit::{Cluster, pg_program};

/// One cluster for all tests of this file.
fn cluster() -> &'static Cluster {
    static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster::start(2, 1).expect("a cluster"));
    &CLUSTER
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?} failed:\n{}", text(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn psql_works() {
    let cluster = cluster();
    let psql = pg_program("psql").expect("psql comes with PostgreSQL");
    let uri = &cluster.coordinator_uris()[0];
    let base = |script: &str| {
        let mut command = Command::new(&psql);
        command.args([uri, "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", script]);
        command
    };
    let clause = if cluster.is_distributed() { "DISTRIBUTE BY HASH (a)" } else { "" };
    run(&mut base(&format!("CREATE TABLE t (a int PRIMARY KEY, b text) {clause}")));
    run(&mut base("INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 100) g"));
    assert_eq!(run(&mut base("SELECT count(*), sum(a), max(b) FROM t")), "100|5050|row 99\n");
    let file = cluster.scratch().join("in.csv");
    std::fs::write(&file, "101,from a file\n102,\"by psql, quoted\"\n").expect("a file");
    run(&mut base(&format!("\\copy t FROM '{}' CSV", file.display())));
    assert_eq!(
        run(&mut base("\\copy (SELECT * FROM t WHERE a > 100 ORDER BY a) TO STDOUT CSV")),
        "101,from a file\n102,\"by psql, quoted\"\n"
    );
    // Without -t, which leaves out the list of indexes.
    let described = run(Command::new(&psql).args([uri, "-X", "-A", "-c", "\\d t"]));
    assert!(described.contains("a|integer||not null|") && described.contains("\"t_pkey\" PRIMARY KEY"), "{described}");
    assert!(run(&mut base("\\dt")).contains("public|t|table|postgres"));
    assert!(run(&mut base("\\l")).contains("postgres"));
    let failed = base("SELECT * FROM nosuch").output().expect("psql runs");
    assert!(!failed.status.success());
    let expected =
        "ERROR:  relation \"nosuch\" does not exist\nLINE 1: SELECT * FROM nosuch\n                      ^\n";
    assert_eq!(String::from_utf8_lossy(&failed.stderr), expected);
    // The place of an error is that in the client's text, and all of PostgreSQL's words come.
    let errors = [
        ("INSERT INTO t VALUES (5, 'x'), ('y', 'z')", "invalid input syntax for type integer: \"y\"", 32, ""),
        ("SELECT 1, 123abc", "trailing junk after numeric literal at or near \"123abc\"", 10, ""),
        (
            "DROP OPERATOR === (int4)",
            "missing argument",
            23,
            "HINT:  Use NONE to denote the missing argument of a unary operator.\n",
        ),
    ];
    for (sql, message, place, more) in errors {
        let failed = base(sql).output().expect("psql runs");
        let expected = format!("ERROR:  {message}\nLINE 1: {sql}\n{}^\n{more}", " ".repeat(8 + place));
        assert_eq!(String::from_utf8_lossy(&failed.stderr), expected);
    }
    // Several statements in one message, the last of them in error: none has an effect.
    let failed = base("DELETE FROM t; SELECT 1/0").output().expect("psql runs");
    assert!(!failed.status.success() && text(&failed).contains("division by zero"));
    assert_eq!(run(&mut base("SELECT count(*) FROM t")), "102\n");
}

/// By the function call protocol, as libpq and the JDBC driver ask for large objects.
#[test]
fn large_objects_work() {
    let cluster = cluster();
    let psql = pg_program("psql").expect("psql comes with PostgreSQL");
    let (from, to) = (cluster.scratch().join("large.in"), cluster.scratch().join("large.out"));
    let content: Vec<u8> = (0..200_000_u32).map(|i| (i % 7919 % 251) as u8).collect();
    std::fs::write(&from, &content).expect("a file");
    let script = format!(
        "\\lo_import '{}' 'many bytes'\nSELECT length(lo_get(:LASTOID));\n\\lo_export :LASTOID '{}'\n\\lo_list\n\\lo_unlink :LASTOID\n\\lo_unlink :LASTOID\nSELECT 1;\n",
        from.display(),
        to.display()
    );
    let file = cluster.scratch().join("large.sql");
    std::fs::write(&file, script).expect("a script");
    let uri = &cluster.coordinator_uris()[0];
    let output = Command::new(&psql).args([uri, "-X", "-q", "-A", "-t", "-f"]).arg(&file).output().expect("psql runs");
    let said = text(&output);
    assert!(said.contains("200000\n") && said.contains("|postgres|many bytes\n"), "{said}");
    assert!(
        said.contains("does not exist") && said.lines().any(|line| line == "1"),
        "the second time it is gone: {said}"
    );
    assert_eq!(std::fs::read(&to).expect("what was exported"), content);
}

#[test]
fn pg_dump_works() {
    let cluster = cluster();
    let (psql, pg_dump) = (pg_program("psql").expect("psql"), pg_program("pg_dump").expect("pg_dump"));
    let uri = &cluster.coordinator_uris()[0];
    let base = |option: &str, script: &str| {
        run(Command::new(&psql).args([uri, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", option, script]))
    };
    let clause = if cluster.is_distributed() { "DISTRIBUTE BY HASH (id)" } else { "" };
    base("-c", &format!("CREATE TABLE dumped (id serial PRIMARY KEY, word text NOT NULL DEFAULT 'x') {clause}"));
    base("-c", "CREATE VIEW dumped_few AS SELECT id FROM dumped WHERE id < 10");
    base("-c", "INSERT INTO dumped (word) SELECT 'it''s ' || g FROM generate_series(1, 500) g");
    let file = cluster.scratch().join("dump.sql").display().to_string();
    run(Command::new(&pg_dump).args(["-d", uri, "-t", "dumped*", "-f", &file]));
    base("-c", "DROP TABLE dumped CASCADE");
    base("-f", &file);
    let restored = "SELECT count(*), sum(id), count(DISTINCT word), (SELECT max(id) FROM dumped_few) FROM dumped";
    assert_eq!(base("-c", restored), "500|125250|500|9\n");
    assert_eq!(base("-c", "INSERT INTO dumped DEFAULT VALUES RETURNING id, word"), "501|x\n");
    // A whole dump has nothing of our own.
    // Another test makes these meanwhile, and locks them in another order.
    let all = run(Command::new(&pg_dump).args(["-d", uri, "-T", "pgbench_*"]));
    let ours: Vec<&str> = all.lines().filter(|line| line.contains("loxo.") || line.contains("SCHEMA loxo")).collect();
    assert!(all.contains("COPY public.dumped") && ours.is_empty(), "{ours:?}");
}

#[test]
fn pgbench_works() {
    let cluster = cluster();
    let uri = &cluster.coordinator_uris()[0];
    let psql = pg_program("psql").expect("psql comes with PostgreSQL");
    let pgbench = pg_program("pgbench").expect("pgbench comes with Debian's PostgreSQL");
    run(Command::new(&pgbench).args([uri, "-i", "-s", "1", "-q", "--no-vacuum"]));
    let count = |table: &str| {
        run(Command::new(&psql).args([uri, "-X", "-A", "-t", "-c", &format!("SELECT count(*) FROM {table}")]))
    };
    assert_eq!(count("pgbench_accounts"), "100000\n");
    for mode in ["simple", "extended", "prepared"] {
        let before: u64 = count("pgbench_history").trim().parse().expect("a number");
        let out = run(Command::new(&pgbench).args([uri, "-n", "-c", "2", "-t", "20", "-M", mode]));
        assert!(out.contains("number of transactions actually processed: 40/40"), "{mode}: {out}");
        let after: u64 = count("pgbench_history").trim().parse().expect("a number");
        assert_eq!(after - before, 40, "{mode}");
    }
    // Money is neither made nor lost.
    let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), \
                (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(tbalance) FROM pgbench_tellers)";
    assert_eq!(run(Command::new(&psql).args([uri, "-X", "-A", "-t", "-c", sums])), "t|t\n");
}

const PSYCOPG: &str = r#"
import sys, psycopg
from datetime import date
from decimal import Decimal
with psycopg.connect(sys.argv[1]) as conn:
    with conn.cursor() as cur:
        cur.execute("CREATE TABLE p (k bigint, v text, n numeric, d date, a int[]) " + sys.argv[2])
        rows = [(i, f"v{i}", Decimal(i) / 4, date(2020, 1, 1 + i), [i, i + 1]) for i in range(20)]
        cur.executemany("INSERT INTO p VALUES (%s, %s, %s, %s, %s)", rows)
        cur.execute("SELECT * FROM p ORDER BY k")
        assert cur.fetchall() == rows
        cur.execute("SELECT * FROM p WHERE k = %b", (7,), binary=True)
        assert cur.fetchall() == [rows[7]]
        with cur.copy("COPY p (k, v) FROM STDIN") as copy:
            for i in range(100, 200):
                copy.write_row((i, "copied"))
        with cur.copy("COPY (SELECT k FROM p WHERE v = 'copied' ORDER BY k) TO STDOUT") as copy:
            assert [int(row[0]) for row in copy.rows()] == list(range(100, 200))
        try:
            with conn.transaction():
                cur.execute("DELETE FROM p")
                cur.execute("SELECT 1/0")
        except psycopg.errors.DivisionByZero:
            pass
        cur.execute("SELECT count(*) FROM p")
        assert cur.fetchone() == (120,)
        with conn.pipeline():
            cur.execute("SELECT sum(k) FROM p WHERE k < 20")
            cur.execute("SELECT max(k) FROM p")
        with conn.cursor(name="server_side") as named:
            named.execute("SELECT k FROM p ORDER BY k")
            assert len(named.fetchmany(5)) == 5
        for _ in range(8):
            cur.execute("SELECT v FROM p WHERE k = %s", (3,), prepare=True)
            assert cur.fetchone() == ("v3",)
"#;

#[test]
fn psycopg_works() {
    let found = Command::new("python3").args(["-c", "import psycopg"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: psycopg 3 is not installed (pip install 'psycopg[binary]')");
        return;
    }
    let cluster = cluster();
    let clause = if cluster.is_distributed() { "DISTRIBUTE BY HASH (k)" } else { "" };
    run(Command::new("python3").args(["-c", PSYCOPG, &cluster.coordinator_uris()[0], clause]));
}
