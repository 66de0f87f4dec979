//! Exchanges are seen in EXPLAIN, and they stop on all nodes when nobody waits for them any more or there are enough rows.

use e2e::watch::until_at_work;
use testkit::Cluster;
use testkit::wire::Client;

const LINES: [&str; 8] = [
    "ExchangePlan over [0 1]",
    "  loxo_x1 from [0 1] to hash of column 1 Int4 over [0 1]",
    "Exchange loxo_x1 on dn1: (rows=",
    "Exchange loxo_x1 on dn2: (rows=",
    "Gather loxo_g1 on dn2: (rows=",
    "Last step on dn1:",
    "Bytes Moved: ",
    "Execution Time: ",
];
/// Its count is of both tables, so that rows travel one by one.
const QUERY: &str = "SELECT a.v, count(a.v + b.k) FROM a JOIN b ON a.k = b.v GROUP BY 1 ORDER BY 2, 1 LIMIT 3";
/// Hours of work, in a plan with an exchange.
const ENDLESS: &str = "SELECT count(*) FROM a JOIN b ON a.k = b.v, generate_series(1, 1000000000) g";
/// As many rows, of which three are wanted.
const LIMITED: &str = "SELECT a.v, generate_series(1, 1000000000) FROM a JOIN b ON a.k = b.v LIMIT 3";

#[test]
fn exchanges_are_explained_and_stop_when_the_client_is_gone() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    let mut session = cluster.connect(0).expect("a session");
    for sql in [
        "CREATE TABLE a (k int, v int) DISTRIBUTE BY HASH (k)",
        "CREATE TABLE b (k int, v int) DISTRIBUTE BY HASH (k)",
        "INSERT INTO a SELECT g, g % 10 FROM generate_series(1, 500) g",
        "INSERT INTO b SELECT g, g % 100 FROM generate_series(1, 300) g",
    ] {
        session.run(sql).expect(sql);
    }
    explained(&cluster);
    few_rows_that_cost_much(&cluster);
    for before in [&[][..], &["BEGIN"], &["BEGIN", "UPDATE b SET v = v + 0"]] {
        stops(&cluster, before);
        limited(&cluster, before);
    }
}

fn explained(cluster: &Cluster) {
    let mut session = connected(cluster);
    for before in ["SELECT 1", "BEGIN", "UPDATE b SET v = v + 0 WHERE k < 7"] {
        session.run(before).expect(before);
        let rows = session.strings(&format!("EXPLAIN (ANALYZE, TIMING OFF) {QUERY}")).expect("a plan");
        let lines: Vec<String> = rows.into_iter().map(|row| row.concat()).collect();
        for wanted in LINES {
            assert!(lines.iter().any(|line| line.starts_with(wanted)), "no {wanted:?} in {lines:#?}");
        }
        let moved = |line: &&String| line.starts_with("Exchange loxo_x1");
        let rows: u64 = lines.iter().filter(moved).filter_map(|line| number_after(line, "rows=")).sum();
        assert_eq!(rows, 300, "{lines:#?}");
    }
    session.run("ROLLBACK").expect("ROLLBACK");
    for options in ["FORMAT JSON", "ANALYZE, FORMAT JSON"] {
        let json = session.strings(&format!("EXPLAIN ({options}) {QUERY}")).expect("a plan").concat().concat();
        let steps = format!(
            "SELECT string_agg(s ->> 'Step', ', ') FROM json_array_elements($json${json}$json$::json -> 0 -> 'Steps') s"
        );
        assert_eq!(session.scalar(&steps).expect("JSON"), "Exchange loxo_x1, Gather loxo_g1, Last step");
    }
    // Where programs look for the number of rows that PostgreSQL expects.
    session.run("ANALYZE a").expect("ANALYZE");
    let json = session.strings("EXPLAIN (FORMAT JSON) SELECT * FROM a").expect("a plan").concat().concat();
    let expected = format!("SELECT ($json${json}$json$::json #>> '{{0,Plan,Plan Rows}}')::int BETWEEN 400 AND 600");
    assert_eq!(session.scalar(&expected).expect("JSON"), "t", "{json}");
}

/// Few rows are brought to one node, unless whole tables are read for them: then the other's rows may find theirs by an index.
fn few_rows_that_cost_much(cluster: &Cluster) {
    let mut session = cluster.connect(0).expect("a session");
    session.run("ANALYZE a, b").expect("ANALYZE");
    let mut exchanges = |few: u32| {
        let query = format!("EXPLAIN SELECT count(*) FROM a JOIN b ON a.k = b.v WHERE b.k = {few}");
        let rows = session.strings(&query).expect("a plan");
        session.run("SET seq_page_cost = 10000").expect("SET");
        rows.into_iter().any(|row| row.concat().starts_with("ExchangePlan"))
    };
    assert!(!exchanges(1));
    // What was expected of a text is remembered.
    assert!(exchanges(2));
}

fn number_after(line: &str, word: &str) -> Option<u64> {
    let (_, rest) = line.split_once(word)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// A session in which small tables are exchanged like large ones.
fn connected(cluster: &Cluster) -> Client {
    let mut session = cluster.connect(0).expect("a session");
    session.run("SET loxo.few_rows = 0").expect("SET");
    session
}

/// The client hangs up while all nodes are at work.
fn stops(cluster: &Cluster, before: &[&str]) {
    let mut client = connected(cluster);
    before.iter().for_each(|sql| drop(client.run(sql).expect(sql)));
    client.send_query(ENDLESS).expect("a query on its way");
    until_at_work(cluster, |at_work| at_work == 2);
    drop(client);
    until_at_work(cluster, |at_work| at_work == 0);
}

/// No node goes on once there are enough rows.
fn limited(cluster: &Cluster, before: &[&str]) {
    let mut client = connected(cluster);
    before.iter().for_each(|sql| drop(client.run(sql).expect(sql)));
    assert_eq!(client.strings(LIMITED).expect("rows").len(), 3);
    until_at_work(cluster, |at_work| at_work == 0);
}

/// A change whose parts depend on each other, the tag that ANALYZE tells, and the numbers of rows of `h` and `r` after it.
const CHANGES: [(&str, &str, &str); 5] = [
    ("INSERT INTO h VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)", "INSERT 0 5", "5 0"),
    ("INSERT INTO h SELECT v + 5, id FROM h ORDER BY 1 LIMIT 4 RETURNING id", "INSERT 0 4", "9 0"),
    ("INSERT INTO r SELECT id, random() FROM h", "INSERT 0 9", "9 9"),
    ("UPDATE h SET id = h.id + 100 FROM r WHERE r.id = h.v AND h.id < 4", "UPDATE 3", "9 9"),
    ("DELETE FROM r WHERE v < (SELECT count(*) FROM h) AND id > 2", "DELETE 7", "9 2"),
];

#[test]
fn changes_are_explained_and_made_once() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    let mut session = cluster.connect(0).expect("a session");
    session.run("CREATE TABLE h (id int PRIMARY KEY, v int) DISTRIBUTE BY HASH (id)").expect("a table");
    session.run("CREATE TABLE r (id int, v float8) DISTRIBUTE BY REPLICATION").expect("a table");
    for (sql, tag, rows) in CHANGES {
        let without = session.strings(&format!("EXPLAIN {sql}")).expect(sql).concat();
        let with = session.strings(&format!("EXPLAIN (ANALYZE, TIMING off) {sql}")).expect(sql).concat();
        assert_eq!(with[..without.len()], without, "{sql}");
        assert_eq!(with[without.len()], format!("Result: {tag}"), "{sql}");
        assert!(with[without.len() + 1].starts_with("Execution Time: "), "{with:?}");
        let counts = "SELECT (SELECT count(*) FROM h), (SELECT count(*) FROM r)";
        assert_eq!(session.strings(counts).expect(counts).concat().join(" "), rows, "{sql}");
    }
    let json = session.strings("EXPLAIN (ANALYZE, FORMAT json) UPDATE h SET id = id + 1000").expect("a plan").concat();
    assert!(json.concat().contains("\"Result\": \"UPDATE 9\",\n    \"Execution Time\": "), "{json:?}");
}
