//! Changes that go by way of the home node, many at the same time: no row is lost, doubled, changed twice by one statement
//! or left on a node where its key does not belong.

use std::sync::atomic::{AtomicUsize, Ordering};

use pgerror::SqlState;
use testkit::Cluster;

const ROWS: usize = 60;
const SESSIONS: usize = 4;
const ROUNDS: usize = 10;

#[test]
fn moving_rows_meet_other_writers() {
    let cluster = Cluster::start(3, 2).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    let mut session = cluster.connect(0).expect("a session");
    for sql in [
        "CREATE TABLE item (k int, name int, n int) DISTRIBUTE BY HASH (k)",
        "CREATE TABLE chosen (name int, w int) DISTRIBUTE BY ROUNDROBIN",
        "INSERT INTO item SELECT g, g, 0 FROM generate_series(1, 60) g",
        "INSERT INTO chosen SELECT g, 1 FROM generate_series(1, 60, 2) g",
    ] {
        session.run(sql).expect(sql);
    }
    let added = AtomicUsize::new(0);
    let (cluster, counted) = (&cluster, &added);
    std::thread::scope(|scope| {
        for number in 0..SESSIONS {
            scope.spawn(move || work(cluster, number, counted));
        }
    });
    let counts = session.strings("SELECT count(*), count(DISTINCT name), sum(n) FROM item").expect("counts");
    let expected = [ROWS.to_string(), ROWS.to_string(), added.load(Ordering::SeqCst).to_string()];
    assert_eq!(counts[0], expected);
    assert!(added.load(Ordering::SeqCst) > 0, "no statement went through");
    for row in session.strings("SELECT k, name FROM item").expect("the rows") {
        let found = session.scalar(&format!("SELECT count(*) FROM item WHERE k = {} AND name = {}", row[0], row[1]));
        assert_eq!(found.expect("a count"), "1", "the row of key {} is not on its node", row[0]);
    }
}

/// Statements of all kinds; `added` gets what those that were committed have added to `n`.
fn work(cluster: &Cluster, number: usize, added: &AtomicUsize) {
    let mut session = cluster.connect(number % 2).expect("a session");
    for round in 0..ROUNDS {
        let (sql, adds) = match (number + round) % 4 {
            0 => ("UPDATE item SET k = k + 7, n = n + 1 WHERE name % 3 = 0".to_owned(), ROWS / 3),
            1 => ("UPDATE item SET n = n + w FROM chosen c WHERE c.name = item.name".to_owned(), ROWS / 2),
            2 => (format!("UPDATE item SET n = n + 1 WHERE name = {}", round + 1), 1),
            _ => (
                "MERGE INTO item i USING chosen c ON i.name = c.name WHEN MATCHED THEN UPDATE SET k = i.k + 1, n = i.n + c.w \
                 WHEN NOT MATCHED THEN INSERT VALUES (c.name, c.name, 0)"
                    .to_owned(),
                ROWS / 2,
            ),
        };
        let begin = match round % 3 {
            0 => None,
            1 => Some("BEGIN"),
            _ => Some("BEGIN ISOLATION LEVEL REPEATABLE READ"),
        };
        begin.into_iter().for_each(|begin| drop(session.run(begin).expect(begin)));
        let done = session
            .run(&sql)
            .and_then(|_| if begin.is_some() { session.run("COMMIT") } else { session.run("SELECT 1") });
        match done {
            Ok(_) => drop(added.fetch_add(adds, Ordering::SeqCst)),
            // What PostgreSQL answers to concurrent changes, too.
            Err(error) => {
                let expected = [SqlState::SERIALIZATION_FAILURE.as_str(), "40P01"].contains(&error.code().as_str());
                assert!(expected && begin.is_some(), "{sql}: {error:?}");
                session.run("ROLLBACK").expect("ROLLBACK");
            }
        }
    }
}
