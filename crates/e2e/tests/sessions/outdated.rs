//! A statement that waits for a schema change of another session must not act on the plan it had before.

use std::thread;
use std::time::{Duration, Instant};

use testkit::Cluster;
use testkit::wire::{Answer, Client, CopyInput};

const ROWS: usize = 20;
/// Longest wait for somebody to wait.
const SOON: Duration = Duration::from_secs(10);

/// One that comes back with an answer all the same, by a new plan.
const REPLANNED: [&str; 10] = [
    "INSERT INTO t VALUES (100, 3, 'new')",
    "INSERT INTO t VALUES (100, 3, 'new'), (101, 4, 'new'), (102, 5, 'new')",
    "INSERT INTO t SELECT id + 100, grp, 'new' FROM t",
    "UPDATE t SET v = 'other' WHERE id = 7 AND grp = 0",
    "UPDATE t SET v = 'other'",
    "DELETE FROM t WHERE id = 7 AND grp = 0",
    "SELECT v FROM t WHERE id = 7 AND grp = 0",
    "SELECT count(*) FROM t",
    "SELECT count(*) FROM w JOIN t USING (grp)",
    "ALTER TABLE t DELETE NODE (dn2)",
];

/// What B does while A waits, and how many rows it leaves.
const CHANGES: [(&str, usize); 3] = [
    ("ALTER TABLE t DISTRIBUTE BY HASH (grp)", ROWS),
    ("ALTER TABLE t DISTRIBUTE BY REPLICATION", ROWS),
    (
        "DROP TABLE t CASCADE; CREATE TABLE t (id int, grp int, v text) DISTRIBUTE BY HASH (grp); \
      CREATE VIEW w AS SELECT * FROM t; INSERT INTO t SELECT g, g % 7, 'fresh' FROM generate_series(1, 20) g",
        ROWS,
    ),
];

fn fill(session: &mut Client) {
    for sql in [
        "DROP TABLE IF EXISTS t CASCADE",
        "CREATE TABLE t (id int, grp int, v text) DISTRIBUTE BY HASH (id)",
        "CREATE VIEW w AS SELECT * FROM t",
        "INSERT INTO t SELECT g, g % 7, 'old' FROM generate_series(1, 20) g",
    ] {
        session.run(sql).expect(sql);
    }
}

/// Comes back when a backend waits for a lock.
fn somebody_waits(cluster: &Cluster, may_come: impl Fn() -> bool) {
    let nodes = 0..cluster.datanodes().len();
    let mut nodes: Vec<Client> = nodes.map(|node| cluster.connect_datanode(node).expect("a datanode")).collect();
    let started = Instant::now();
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    while !nodes.iter_mut().any(|node| node.scalar(waiting).expect("a count") != "0") {
        assert!(started.elapsed() < SOON && may_come(), "nobody waits");
        thread::yield_now();
    }
}

/// A statement through one coordinator that waits for the change made through another, which then commits.
fn overtaken(cluster: &Cluster, change: &str, before: &str, work: impl FnOnce(&mut Client) -> Answer + Send) -> Answer {
    overtaken_after(cluster, change, |session| drop(session.run(before).expect(before)), work)
}

fn overtaken_after(
    cluster: &Cluster,
    change: &str,
    before: impl FnOnce(&mut Client),
    work: impl FnOnce(&mut Client) -> Answer + Send,
) -> Answer {
    let mut changer = cluster.connect(1).expect("a session");
    fill(&mut changer);
    let mut session = cluster.connect(0).expect("a session");
    // The coordinator has the catalog, and a plan of this shape, from before.
    session.run("SELECT count(*) FROM t").expect("rows");
    before(&mut session);
    changer.run(&format!("BEGIN; {change}")).expect(change);
    thread::scope(|scope| {
        let worker = scope.spawn(move || work(&mut session));
        somebody_waits(cluster, || !worker.is_finished());
        changer.run("COMMIT").expect("the change");
        worker.join().expect("an answer")
    })
}

/// Every row is where one looks for it, through either coordinator.
fn rows_are_found(cluster: &Cluster, what: &str) -> usize {
    let mut sessions = [0, 1].map(|at| cluster.connect(at).expect("a session"));
    let rows = sessions[0].strings("SELECT id, grp FROM t").expect("the rows");
    for (at, session) in sessions.iter_mut().enumerate() {
        assert_eq!(session.scalar("SELECT count(*) FROM t").expect("a count"), rows.len().to_string(), "{what}");
        for row in rows.iter().filter(|row| row[0].len() % 2 == at) {
            let sql = format!("SELECT count(*) FROM t WHERE id = {} AND grp = {}", row[0], row[1]);
            assert_eq!(session.scalar(&sql).expect("a count"), "1", "{what}: {row:?}");
        }
    }
    let table = |node| cluster.connect_datanode(node).expect("a datanode").scalar("SELECT count(*) FROM t");
    let counts = [0, 1].map(|node| table(node).expect("a count").parse::<usize>().expect("a number"));
    assert!(counts == [rows.len(); 2] || counts[0] + counts[1] == rows.len(), "{what}: {counts:?}");
    rows.len()
}

/// Rows that a statement adds.
fn added(sql: &str, rows: usize) -> isize {
    match sql {
        _ if sql.starts_with("DELETE") => -1,
        _ if sql.starts_with("INSERT INTO t SELECT") => rows as isize,
        _ if sql.starts_with("INSERT") => sql.matches('(').count() as isize,
        _ => 0,
    }
}

fn is_outdated(answer: &Answer) -> bool {
    answer.error.as_ref().is_some_and(|error| {
        error.code().as_str() == "40001" && error.message().starts_with("the distribution of table")
    })
}

#[test]
fn a_statement_overtaken_by_a_schema_change_gets_a_new_plan_or_fails() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    for (number, (change, rows)) in CHANGES.into_iter().enumerate() {
        for (at, sql) in REPLANNED.into_iter().enumerate() {
            let what = format!("{sql} behind {change}");
            if (at + number) % 3 == 0 {
                fails_in_a_block(&cluster, change, sql, rows);
                continue;
            }
            let answer = overtaken(&cluster, change, "", |session| session.simple(sql).expect("an answer"));
            assert!(answer.error.is_none(), "{what}: {:?}", answer.error);
            assert_eq!(rows_are_found(&cluster, &what) as isize, rows as isize + added(sql, rows), "{what}");
            if sql == "SELECT count(*) FROM t" {
                assert_eq!(answer.rows[0][0].as_deref(), Some(rows.to_string().as_bytes()), "{what}");
            }
        }
        fails_in_a_block(&cluster, change, "DECLARE c CURSOR FOR SELECT * FROM t", rows);
        let prepare = "PREPARE p AS INSERT INTO t VALUES (100, 3, 'new')";
        let answer = overtaken(&cluster, change, prepare, |session| session.simple("EXECUTE p").expect("an answer"));
        assert!(answer.error.is_none(), "EXECUTE behind {change}: {:?}", answer.error);
        assert_eq!(rows_are_found(&cluster, "EXECUTE"), rows + 1);
        let copy = |session: &mut Client| {
            let input = CopyInput { frames: &[b"100\t3\tnew\n101\t4\tnew\n102\t5\tnew\n"], fail: false };
            session.simple_copy("COPY t FROM STDIN", input).expect("an answer")
        };
        let answer = overtaken(&cluster, change, "", copy);
        // It was planned anew before the client was asked for rows.
        assert!(answer.error.is_none(), "COPY behind {change}: {answer:?}");
        assert_eq!(rows_are_found(&cluster, "COPY"), rows + 3);
    }
}

fn fails_in_a_block(cluster: &Cluster, change: &str, sql: &str, rows: usize) {
    let what = format!("{sql} behind {change}, in a block");
    let answer = overtaken(cluster, change, "BEGIN", |session| {
        let answer = session.simple(sql).expect("an answer");
        assert_eq!(session.run("COMMIT").expect("the end").tag.as_deref(), Some("ROLLBACK"), "{what}");
        answer
    });
    assert!(is_outdated(&answer), "{what}: {answer:?}");
    assert_eq!(rows_are_found(cluster, &what), rows, "{what}");
}

/// A rule that is made, or goes, while a statement waits is one for it, too.
#[test]
fn a_statement_overtaken_by_a_rule_follows_it() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    const NOTHING: &str = "CREATE RULE r AS ON DELETE TO t DO INSTEAD NOTHING";
    const MORE: &str = "CREATE RULE r AS ON INSERT TO t WHERE new.id < 1000 DO INSERT INTO t VALUES (new.id, new.grp)";
    for sql in ["DELETE FROM t", "DELETE FROM t WHERE id = 7"] {
        let answer = overtaken(&cluster, NOTHING, "", |session| session.simple(sql).expect("an answer"));
        assert_eq!((answer.error.is_none(), answer.tag.as_deref()), (true, Some("DELETE 0")), "{sql}: {answer:?}");
        assert_eq!(rows_are_found(&cluster, sql), ROWS);
    }
    // It would be followed for ever.
    let insert = "INSERT INTO t VALUES (100, 3)";
    let answer = overtaken(&cluster, MORE, "", |session| session.simple(insert).expect("an answer"));
    assert_eq!(answer.error.map(|error| error.code().as_str().to_owned()).as_deref(), Some("42P17"));
    let disabled = format!("{NOTHING}; ALTER TABLE t DISABLE RULE r");
    let answer = overtaken(&cluster, &disabled, "", |session| session.simple("DELETE FROM t").expect("an answer"));
    assert_eq!(rows_are_found(&cluster, "DELETE"), 0, "{answer:?}");
    // In a block there is no second plan.
    let answer = overtaken(&cluster, NOTHING, "BEGIN", |session| {
        let answer = session.simple("DELETE FROM t").expect("an answer");
        session.run("COMMIT").expect("the end");
        answer
    });
    assert_eq!(answer.error.map(|error| error.code().as_str().to_owned()).as_deref(), Some("40001"));
    assert_eq!(rows_are_found(&cluster, "DELETE"), ROWS);
}

/// Triggers that the coordinator runs make a transaction of several statements of it, which is run again as a whole.
#[test]
fn a_statement_with_triggers_that_is_overtaken_fires_them_once() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    let mut session = cluster.connect(0).expect("a session");
    for sql in [
        "CREATE TABLE told (what text) DISTRIBUTE BY ROUNDROBIN",
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO told VALUES (tg_when); RETURN new; END'",
    ] {
        session.run(sql).expect(sql);
    }
    for (number, (change, _)) in CHANGES.into_iter().take(2).enumerate() {
        for (at, when) in ["BEFORE", "AFTER"].into_iter().enumerate() {
            let sql = ["UPDATE t SET v = 'other'", "UPDATE t SET v = 'other' WHERE id > 0"][(number + at) % 2];
            let what = format!("{sql} behind {change}, {when}");
            session.run("TRUNCATE told").expect("nothing told");
            let make = format!("CREATE TRIGGER tells {when} UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION tell()");
            let answer = overtaken(&cluster, change, &make, |session| session.simple(sql).expect("an answer"));
            assert!(answer.error.is_none(), "{what}: {:?}", answer.error);
            assert_eq!(answer.tag.as_deref(), Some("UPDATE 20"), "{what}");
            assert_eq!(session.strings("SELECT what FROM told").expect("what was told"), [[when]], "{what}");
            assert_eq!(session.scalar("SELECT count(*) FROM t WHERE v = 'other'").expect("a count"), "20", "{what}");
            assert_eq!(rows_are_found(&cluster, &what), ROWS, "{what}");
        }
    }
}

/// What another table's change does to a statement in a block: nothing.
#[test]
fn changes_of_other_tables_are_no_concern() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    let mut changer = cluster.connect(1 % cluster.coordinators().len()).expect("a session");
    changer.run("CREATE TABLE t (id int, v text)").expect("a table");
    changer.run("CREATE TABLE elsewhere (id int)").expect("a table");
    let (mut session, mut holder) = (cluster.connect(0).expect("a session"), cluster.connect(0).expect("a session"));
    holder.run("BEGIN; LOCK TABLE t IN SHARE MODE").expect("a lock");
    session.run("BEGIN").expect("BEGIN");
    session.send_query("INSERT INTO t SELECT g FROM generate_series(1, 50) g").expect("it goes out");
    somebody_waits(&cluster, || true);
    changer.run("DROP TABLE elsewhere").expect("no table");
    holder.run("COMMIT").expect("COMMIT");
    let answers = session.wait().expect("an answer");
    assert!(answers.iter().all(|answer| answer.error.is_none()), "{answers:?}");
    session.run("COMMIT").expect("COMMIT");
    assert_eq!(changer.scalar("SELECT count(*) FROM t").expect("a count"), "50");
}

/// A block's statement is kept prepared by its backends. What its fragments give may change while it waits; its own rows have the columns
/// that they had.
#[test]
fn a_kept_statement_overtaken_by_a_change_of_its_columns_gives_its_rows() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    let known = "PREPARE q (int) AS SELECT v, count(DISTINCT grp), max(id) FROM t WHERE id > $1 GROUP BY v; \
                 BEGIN; EXECUTE q (1); EXECUTE q (2); EXECUTE q (3); COMMIT";
    for change in
        ["DROP VIEW w; ALTER TABLE t ALTER COLUMN grp TYPE bigint", "ALTER TABLE t ADD COLUMN more int DEFAULT 3"]
    {
        let answer = overtaken(&cluster, change, known, |session| {
            session.run("BEGIN").expect("BEGIN");
            let answer = session.simple("EXECUTE q (10)").expect("an answer");
            assert_eq!(session.run("COMMIT").expect("the end").tag.as_deref(), Some("COMMIT"), "{change}: {answer:?}");
            answer
        });
        let text = |value: &Option<_>| value.as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        let values: Vec<String> = answer.rows.iter().flatten().map(text).collect();
        assert_eq!(values, ["old", "7", "20"], "{change}");
    }
}

/// A client was told of a statement's columns before the statement waited for a change of them: it gets rows of those columns, or is
/// told that there are others.
#[test]
fn rows_have_the_columns_that_the_client_was_told_of() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    let change = "ALTER TABLE t ADD COLUMN more int DEFAULT 3";
    for sql in [
        "SELECT * FROM t WHERE id = 3",
        "SELECT * FROM t WHERE id IN (1, 2, 3)",
        "SELECT * FROM t ORDER BY id LIMIT 5",
        "UPDATE t SET grp = 1 WHERE id = 3 RETURNING *",
    ] {
        for in_block in [false, true] {
            let what = format!("{sql} in a block: {in_block}");
            // Its description is known from then on.
            let before = |session: &mut Client| {
                for sql in ["BEGIN", sql, "ROLLBACK"] {
                    session.extended(sql, &[], CopyInput::default(), |_| false).expect("an answer");
                }
            };
            let answer = overtaken_after(&cluster, change, before, |session| {
                if in_block {
                    session.run("BEGIN").expect("BEGIN");
                }
                let answer = session.extended(sql, &[], CopyInput::default(), |_| false).expect("an answer");
                if in_block {
                    session.run("ROLLBACK").expect("ROLLBACK");
                }
                // What has failed has done nothing.
                let is_changed = sql.starts_with("UPDATE") && answer.error.is_none() && !in_block;
                let grp = if is_changed { "1" } else { "3" };
                for _ in 0..3 {
                    assert_eq!(session.scalar("SELECT count(*) FROM t").expect("a count"), "20", "{what}");
                    assert_eq!(session.scalar("SELECT grp FROM t WHERE id = 3").expect("a row"), grp, "{what}");
                }
                answer
            });
            match &answer.error {
                Some(error) => {
                    assert!(matches!(error.code().as_str(), "0A000" | "40001"), "{what}: {error:?}");
                    assert!(answer.rows.is_empty(), "{what}");
                }
                None => {
                    let told = answer.columns.as_deref().map(<[_]>::len);
                    assert!(!answer.rows.is_empty(), "{what}");
                    assert!(answer.rows.iter().all(|row| Some(row.len()) == told), "{what}: {answer:?}");
                }
            }
        }
    }
}
