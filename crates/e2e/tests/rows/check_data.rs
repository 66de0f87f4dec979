//! `loxo check --data` finds what was done to rows behind the coordinator's back, and nothing where nothing was done.

use testkit::Cluster;
use testkit::wire::Client;

/// Tables of every kind, each with something that might be mistaken for a fault.
const TABLES: &str = r#"
    CREATE TABLE hashed (k int PRIMARY KEY, v text) DISTRIBUTE BY HASH (k);
    INSERT INTO hashed SELECT g, 'v' || g FROM generate_series(1, 100) g;
    CREATE TABLE "odd Name" ("the Key" numeric(6,2), n int, gone int) DISTRIBUTE BY HASH ("the Key");
    INSERT INTO "odd Name" SELECT g / 3.0, g FROM generate_series(1, 100) g;
    INSERT INTO "odd Name" VALUES (NULL, -1), ('NaN', -2);
    ALTER TABLE "odd Name" DROP COLUMN gone;
    CREATE DOMAIN short AS varchar(8);
    CREATE TABLE pairs (a short, b date, c int) DISTRIBUTE BY HASH (a, b);
    INSERT INTO pairs SELECT 'a' || g, date '2020-01-01' + g, g FROM generate_series(1, 50) g;
    INSERT INTO pairs VALUES (NULL, NULL, 0), ('a1', NULL, 0);
    CREATE TABLE modular (k bigint, v int) DISTRIBUTE BY MODULO (k);
    INSERT INTO modular SELECT g - 50, g FROM generate_series(1, 100) g;
    CREATE TABLE anywhere (k int) DISTRIBUTE BY ROUNDROBIN TO NODE (dn1, dn2);
    INSERT INTO anywhere SELECT g FROM generate_series(1, 20) g;
    CREATE TABLE copied (k int PRIMARY KEY, big text, doubled int GENERATED ALWAYS AS (k * 2) STORED) DISTRIBUTE BY REPLICATION;
    ALTER TABLE copied ALTER COLUMN big SET STORAGE EXTERNAL;
    INSERT INTO copied SELECT g, repeat('wide ' || g, 2000) FROM generate_series(1, 20) g;
    CREATE TABLE copied_on_two (k int, at timestamptz, f float8, m money) DISTRIBUTE BY REPLICATION TO NODE (dn1, dn3);
    INSERT INTO copied_on_two VALUES (1, now(), 0.1, 12.5), (1, now(), 0.1, 12.5), (2, 'infinity', 'NaN', NULL);
    CREATE TABLE ranged (k int, at date, v int) PARTITION BY RANGE (at) DISTRIBUTE BY HASH (k);
    CREATE TABLE ranged_old PARTITION OF ranged FOR VALUES FROM ('2000-01-01') TO ('2020-01-01');
    CREATE TABLE ranged_new (v int, at date, k int);
    ALTER TABLE ranged ATTACH PARTITION ranged_new FOR VALUES FROM ('2020-01-01') TO ('2030-01-01');
    INSERT INTO ranged SELECT g, date '2019-06-01' + g * 7, g FROM generate_series(1, 60) g;
    CREATE TABLE parent (k int, v int) DISTRIBUTE BY HASH (k);
    CREATE TABLE child (w int) INHERITS (parent);
    INSERT INTO child SELECT g, g, g FROM generate_series(1, 30) g;
    CREATE MATERIALIZED VIEW seen AS SELECT k, v FROM hashed WHERE k < 10;
    CREATE SCHEMA other;
    CREATE TABLE other.hashed (k text COLLATE "C", v int) DISTRIBUTE BY HASH (k);
    INSERT INTO other.hashed SELECT 'k' || g, g FROM generate_series(1, 30) g;
"#;

/// A cluster of three datanodes.
struct Planted {
    cluster: Cluster,
    nodes: Vec<Client>,
}

impl Planted {
    /// The row of `table` that meets `condition`, now on another node than the one that has it.
    fn copy_elsewhere(&mut self, table: &str, condition: &str) -> (usize, usize) {
        let count = format!("SELECT count(*) FROM ONLY {table} WHERE {condition}");
        let from = self.nodes.iter_mut().position(|node| node.scalar(&count).expect("a number") == "1");
        let from = from.expect("the row is on one node");
        let row = self.nodes[from].scalar(&format!("SELECT whole FROM ONLY {table} AS whole WHERE {condition}"));
        let to = (from + 1) % self.nodes.len();
        let quoted = row.expect("a row").replace('\'', "''");
        self.direct(to, &format!("INSERT INTO {table} SELECT ('{quoted}'::{table}).*"));
        (from, to)
    }

    fn direct(&mut self, node: usize, sql: &str) {
        self.nodes[node].run(sql).expect("the datanode does it");
    }

    /// The check must say all of this, and no error about anything else.
    fn says(&self, expected: &[String]) {
        let found = self.cluster.wrong_rows().expect("something is wrong");
        let errors = found.lines().filter(|line| line.starts_with("error: ")).count();
        assert!(expected.iter().all(|text| found.contains(text)), "{expected:?} is not all in:\n{found}");
        assert_eq!(errors, expected.len(), "{found}");
    }

    fn is_right(&self) {
        assert_eq!(self.cluster.wrong_rows(), None);
    }
}

fn planted() -> Option<Planted> {
    let cluster = Cluster::start(3, 1).expect("a cluster");
    if !cluster.is_distributed() {
        return None;
    }
    cluster.connect(0).and_then(|mut session| session.run(TABLES)).expect("tables");
    let nodes = (0..3).map(|node| cluster.connect_datanode(node).expect("a datanode")).collect();
    Some(Planted { cluster, nodes })
}

#[test]
fn rows_changed_behind_the_coordinator_are_found() {
    let Some(mut planted) = planted() else { return };
    planted.is_right();
    rows_elsewhere(&mut planted);
    rows_outside_the_group(&mut planted);
    copies_that_differ(&mut planted);
    a_broken_table(&mut planted);
}

fn misplaced(table: &str, node: usize) -> String {
    format!("error: {table}: 1 row does not belong on dn{}", node + 1)
}

fn rows_elsewhere(planted: &mut Planted) {
    let (from, to) = planted.copy_elsewhere("hashed", "k = 7");
    let twice = |index: &str, to: usize, from: usize| {
        format!("1 keys of unique index {index} are on dn{} and on dn{}", to + 1, from + 1)
    };
    planted.says(&[misplaced("public.hashed", to), twice("hashed_pkey", to, from)]);
    planted.direct(from, "DELETE FROM hashed WHERE k = 7");
    planted.says(&[misplaced("public.hashed", to)]);
    planted.direct(to, "DELETE FROM hashed WHERE k = 7");
    planted.is_right();
    let keyed = [
        ("public.\"odd Name\"", "\"odd Name\"", "n = 10"),
        ("public.\"odd Name\"", "\"odd Name\"", "n = -1"),
        ("public.\"odd Name\"", "\"odd Name\"", "n = -2"),
        ("public.pairs", "pairs", "c = 11"),
        ("public.pairs", "pairs", "a = 'a1' AND b IS NULL"),
        ("public.modular", "modular", "k = -3"),
        ("public.ranged_old", "ranged_old", "k = 3"),
        ("public.ranged_new", "ranged_new", "k = 50"),
        ("public.child", "child", "k = 5"),
        ("other.hashed", "other.hashed", "k = 'k5'"),
    ];
    for (shown, table, condition) in keyed {
        let (_, to) = planted.copy_elsewhere(table, condition);
        planted.says(&[misplaced(shown, to)]);
        planted.direct(to, &format!("DELETE FROM ONLY {table} WHERE {condition}"));
        planted.is_right();
    }
}

fn rows_outside_the_group(planted: &mut Planted) {
    planted.direct(2, "INSERT INTO anywhere VALUES (1), (2)");
    planted.direct(1, "INSERT INTO copied_on_two VALUES (1)");
    let two = "error: public.anywhere: 2 rows do not belong on dn3".to_owned();
    planted.says(&[two, misplaced("public.copied_on_two", 1)]);
    planted.direct(2, "DELETE FROM anywhere");
    planted.direct(1, "DELETE FROM copied_on_two");
    planted.is_right();
}

fn copies_that_differ(planted: &mut Planted) {
    // The rows of a copy in another order, and stored in another way, are no difference.
    planted.direct(0, "ALTER TABLE copied ALTER COLUMN big SET STORAGE EXTENDED");
    planted.direct(0, "UPDATE copied SET big = big || '' WHERE k % 2 = 0");
    planted.is_right();
    let change_and_back = [
        (1, "copied", "UPDATE copied SET big = overlay(big PLACING 'X' FROM 9000) WHERE k = 3", 20),
        (2, "copied", "INSERT INTO copied VALUES (1000, NULL)", 20),
        (0, "copied", "DELETE FROM copied WHERE k = 20", 20),
        (2, "copied_on_two", "UPDATE copied_on_two SET f = f + 1e-16 WHERE f < 1", 3),
        (0, "copied_on_two", "UPDATE copied_on_two SET m = '12.51' WHERE m IS NOT NULL", 3),
    ];
    for (node, table, sql, rows) in change_and_back {
        planted.direct(node, &format!("CREATE TEMP TABLE kept AS SELECT * FROM {table}"));
        planted.direct(node, sql);
        let found = planted.cluster.wrong_rows().expect("something is wrong");
        assert!(found.contains(&format!("error: public.{table}: the copies differ (")), "{sql}: {found}");
        assert!(found.contains(&format!("{rows} rows on dn")), "{sql}: {found}");
        let columns = if table == "copied" { "k, big" } else { "k, at, f, m" };
        let back = format!(
            "BEGIN; DELETE FROM {table}; INSERT INTO {table} ({columns}) SELECT {columns} FROM kept; DROP TABLE kept; COMMIT"
        );
        planted.direct(node, &back);
        planted.is_right();
    }
    let mut session = planted.cluster.connect(0).expect("a session");
    a_generated_column(planted, &mut session);
}

/// The column alone differs.
fn a_generated_column(planted: &mut Planted, session: &mut Client) {
    let generated = "CREATE OR REPLACE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql RETURN $1 * ";
    session.run(&format!("{generated} 2")).expect("a function");
    let table = "CREATE TABLE computed (k int, d int GENERATED ALWAYS AS (twice(k)) STORED) DISTRIBUTE BY REPLICATION";
    session.run(table).expect("a table");
    session.run("INSERT INTO computed VALUES (1), (2)").expect("rows");
    planted.is_right();
    planted.direct(1, &format!("{generated} 3"));
    planted.direct(1, "UPDATE computed SET k = k");
    planted
        .says(&["error: public.computed: the copies differ (2 rows on dn1, 2 rows on dn2, 2 rows on dn3)".to_owned()]);
    session.run("DROP TABLE computed").expect("no table");
    planted.is_right();
}

fn a_broken_table(planted: &mut Planted) {
    planted.direct(1, "ALTER TABLE modular RENAME TO lost");
    let found = planted.cluster.wrong_rows().expect("something is wrong");
    assert!(found.contains("error: public.modular: ") && found.contains("on dn2"), "{found}");
    planted.direct(1, "ALTER TABLE lost RENAME TO modular");
    planted.is_right();
}

/// A writer that holds its rows, and one whose commit is on its way, are no faults.
#[test]
fn changes_on_their_way_are_no_faults() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    let mut session = cluster.connect(0).expect("a session");
    session.run("CREATE TABLE moving (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").expect("a table");
    session.run("CREATE TABLE copies (k int) DISTRIBUTE BY REPLICATION").expect("a table");
    session.run("INSERT INTO moving SELECT g, g FROM generate_series(1, 1000) g").expect("rows");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut session = cluster.connect(0).expect("a session");
            for turn in 0..40 {
                session.run("BEGIN; UPDATE moving SET k = k + 1000 WHERE v <= 500; COMMIT").expect("rows move");
                session.run(&format!("INSERT INTO copies VALUES ({turn})")).expect("a row more in all copies");
            }
        });
        while !writer.is_finished() {
            assert_eq!(cluster.wrong_rows(), None);
        }
    });
    // Not committed.
    session.run("BEGIN; DELETE FROM moving WHERE k % 2 = 0; INSERT INTO copies VALUES (-1)").expect("a transaction");
    assert_eq!(cluster.wrong_rows(), None);
    session.run("ROLLBACK").expect("its end");
}
