//! `ALTER TABLE … DISTRIBUTE BY` and its kin on a table with rows: every row where it belongs, and nothing else changed.

use testkit::Cluster;
use testkit::wire::{Client, CopyInput};

const ROWS: usize = 500;

#[test]
fn rows_move_and_the_table_stays_the_same() {
    let cluster = Cluster::start(3, 2).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    let mut session = cluster.connect(0).expect("a session");
    let mut other = cluster.connect(1).expect("a session");
    for sql in [
        "CREATE TABLE t (id int, grp int NOT NULL, v text DEFAULT 'none', twice int GENERATED ALWAYS AS (id * 2) STORED, \
         i int GENERATED ALWAYS AS IDENTITY) DISTRIBUTE BY HASH (id)",
        "CREATE INDEX t_v ON t (v)",
        "CREATE VIEW w AS SELECT id, v FROM t WHERE grp = 1",
        "CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := NEW.v || ''*''; RETURN NEW; END'",
        "INSERT INTO t (id, grp, v) SELECT nullif(g, 17), g % 7, 'v' || g FROM generate_series(1, 500) g",
        "CREATE TRIGGER marks BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION mark()",
    ] {
        session.run(sql).expect(sql);
    }
    let before = contents(&mut other);
    assert_eq!(before.len(), ROWS);
    let mut nodes: Vec<Client> = (0..3).map(|node| cluster.connect_datanode(node).expect("a datanode")).collect();
    // What each node has: all rows, none, or its part.
    for (clause, on_nodes) in [
        ("DISTRIBUTE BY HASH (grp)", [1, 1, 1]),
        ("DISTRIBUTE BY REPLICATION", [2, 2, 2]),
        ("DISTRIBUTE BY MODULO (grp) TO NODE (dn1, dn3)", [1, 0, 1]),
        ("ADD NODE (dn2), DELETE NODE (dn3)", [1, 1, 0]),
        ("DISTRIBUTE BY ROUNDROBIN TO NODE (dn2)", [0, 2, 0]),
        ("TO NODE (dn1, dn2, dn3)", [1, 1, 1]),
        ("DISTRIBUTE BY HASH (id, grp)", [1, 1, 1]),
    ] {
        session.run(&format!("ALTER TABLE t {clause}")).expect(clause);
        assert_eq!(contents(&mut other), before, "{clause}");
        let counts: Vec<usize> = nodes.iter_mut().map(|node| count(node, "SELECT count(*) FROM t")).collect();
        for (have, wanted) in counts.iter().zip(on_nodes) {
            let right = [*have == 0, *have > 0 && *have < ROWS, *have == ROWS];
            assert!(right[wanted], "{clause}: rows on the nodes {counts:?}");
        }
        assert_eq!(other.scalar("SELECT count(*) FROM t WHERE id = 40 AND grp = 5").expect("a row"), "1", "{clause}");
        assert_eq!(other.scalar("SELECT count(*) FROM t WHERE grp = 3").expect("rows"), "72", "{clause}");
    }
    assert_eq!(other.scalar("SELECT count(*) FROM w").expect("the view"), "72");

    session.run("BEGIN").expect("BEGIN");
    session.run("ALTER TABLE t DISTRIBUTE BY REPLICATION").expect("a change");
    session.run("ROLLBACK").expect("ROLLBACK");
    assert_eq!(contents(&mut other), before);
    assert!(nodes.iter_mut().all(|node| count(node, "SELECT count(*) FROM t") < ROWS));

    let written = session.strings("INSERT INTO t (id, grp) VALUES (1000, 1) RETURNING v, twice, i").expect("a new row");
    assert_eq!(written, [["none*", "2000", "501"]], "trigger, generated column and identity are as before");
    assert_eq!(count(&mut session, "SELECT count(*) FROM pg_class WHERE relname LIKE 'loxo_copy%'"), 0);
    each_node_tells_what_it_did(&mut session);
    partitions_move_too(&mut session, &mut nodes);
    what_is_no_table(&mut session);
}

/// PostgreSQL says so, and skips it if it may be missing.
fn what_is_no_table(session: &mut Client) {
    for clause in ["DISTRIBUTE BY HASH (a)", "ADD NODE (dn1)"] {
        let skipped = session.simple(&format!("ALTER TABLE IF EXISTS missing {clause}")).expect("an answer");
        assert_eq!((skipped.error.is_none(), skipped.tag.as_deref()), (true, Some("ALTER TABLE")), "{clause}");
        let told: Vec<String> = skipped.notices.iter().map(|notice| notice.message().into_owned()).collect();
        assert_eq!(told, ["relation \"missing\" does not exist, skipping"], "{clause}");
        for (table, code) in [("missing", "42P01"), ("nowhere.t", "3F000"), ("pg_class", "42501")] {
            let refused = session.run(&format!("ALTER TABLE {table} {clause}")).expect_err(table);
            assert_eq!(refused.code().as_str(), code, "{table} {clause}: {refused}");
        }
    }
}

/// With VERBOSE each datanode tells of its own part.
fn each_node_tells_what_it_did(session: &mut Client) {
    for sql in
        ["VACUUM (VERBOSE) t", "ANALYZE VERBOSE t", "REINDEX (VERBOSE) TABLE t", "BEGIN; ANALYZE VERBOSE t; COMMIT"]
    {
        let told: Vec<String> = (session.simple_all(sql, CopyInput::default()).expect(sql).iter())
            .flat_map(|answer| answer.notices.iter().map(|notice| notice.message().into_owned()))
            .collect();
        for name in ["dn1: ", "dn2: ", "dn3: "] {
            assert!(told.iter().any(|text| text.starts_with(name)), "{sql}: nothing of {name}in {told:?}");
        }
    }
    assert!(session.simple("VACUUM t").expect("an answer").notices.is_empty());
}

fn partitions_move_too(session: &mut Client, nodes: &mut [Client]) {
    for sql in [
        "CREATE TABLE p (id int, day int, v text) PARTITION BY RANGE (day) DISTRIBUTE BY HASH (id)",
        "CREATE TABLE p_early PARTITION OF p FOR VALUES FROM (0) TO (5)",
        "CREATE TABLE p_late PARTITION OF p FOR VALUES FROM (5) TO (100) PARTITION BY LIST (v)",
        "CREATE TABLE p_late_a PARTITION OF p_late FOR VALUES IN ('v1', 'v2')",
        "CREATE TABLE p_late_rest PARTITION OF p_late DEFAULT",
        "INSERT INTO p SELECT g, g % 20, 'v' || g % 5 FROM generate_series(1, 500) g",
    ] {
        session.run(sql).expect(sql);
    }
    for clause in ["DISTRIBUTE BY HASH (day)", "DISTRIBUTE BY ROUNDROBIN", "DISTRIBUTE BY REPLICATION"] {
        session.run(&format!("ALTER TABLE p {clause}")).expect(clause);
        assert_eq!(count(session, "SELECT count(*) FROM p WHERE day = 7"), 25, "{clause}");
        assert_eq!(count(session, "SELECT count(*) FROM p_late_rest JOIN p USING (id)"), 225, "{clause}");
    }
    assert!(nodes.iter_mut().all(|node| count(node, "SELECT count(*) FROM p") == ROWS));
    // Only a node with all rows can keep these.
    for index in ["ON p_early (v) WHERE id < 0", "ON p_early ((v || id))"] {
        session.run(&format!("CREATE UNIQUE INDEX only_one {index}")).expect(index);
        let error = session.run("ALTER TABLE p DISTRIBUTE BY HASH (id)").expect_err(index);
        assert_eq!(error.code().as_str(), "0A000", "{error:?}");
        session.run("DROP INDEX only_one").expect("it is there");
    }
    session.run("ALTER TABLE p DISTRIBUTE BY HASH (id)").expect("nothing stands against it");
    assert_eq!(count(session, "SELECT count(*) FROM p"), ROWS);
}

fn contents(session: &mut Client) -> Vec<Vec<String>> {
    session.strings("SELECT coalesce(id, -1), grp, v, coalesce(twice, -1), i FROM t ORDER BY i").expect("the rows")
}

fn count(session: &mut Client, sql: &str) -> usize {
    session.scalar(sql).expect(sql).parse().expect("a number")
}
