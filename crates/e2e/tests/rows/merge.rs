//! Rows that the nodes have sorted, merged by the coordinator: seen in EXPLAIN, an error of one node in the middle, a client that hangs
//! up, and how much memory it takes.

use e2e::watch::{peak, reset_peak, until_at_work};
use testkit::Cluster;
use testkit::wire::Client;

const ROWS: u32 = 60_000;
/// What a coordinator may grow by while rows of many times as much pass through it.
const GROWTH_MAX: u64 = 40 << 20;

#[test]
fn sorted_rows_of_all_nodes_are_merged() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    let mut session = cluster.connect(0).expect("a session");
    for sql in [
        "CREATE TABLE a (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)",
        &format!("INSERT INTO a SELECT g, g % 10 FROM generate_series(1, {ROWS}) g"),
    ] {
        session.run(sql).expect(sql);
    }
    explained(&mut session);
    for before in [&[][..], &["BEGIN"], &["BEGIN", "UPDATE a SET v = v + 0 WHERE k < 9"]] {
        fails_in_the_middle(&cluster, before);
        stops(&cluster, before);
    }
    needs_little_memory(&cluster, &mut session);
}

fn explained(session: &mut Client) {
    const QUERY: &str = "SELECT v, k FROM a WHERE v > 3 ORDER BY v DESC, k LIMIT 3";
    for (explain, wanted) in [
        ("EXPLAIN", &["Merge from [0 1] by integer desc, integer limit 3", "Fragment on dn1:"][..]),
        ("EXPLAIN ANALYZE", &["Merge from [0 1]", "Fragment on dn1:", "Fragment on dn2:", "Execution Time:"]),
    ] {
        let rows = session.strings(&format!("{explain} {QUERY}")).expect("a plan");
        let lines: Vec<String> = rows.into_iter().map(|row| row.concat()).collect();
        for wanted in wanted {
            assert!(lines.iter().any(|line| line.starts_with(wanted)), "no {wanted:?} in {lines:#?}");
        }
    }
    // A cursor's rows are kept where it is.
    let cursor = session.strings(&format!("EXPLAIN DECLARE c CURSOR FOR {QUERY}")).expect("a plan").concat().concat();
    assert!(cursor.contains("Gather") && !cursor.contains("Merge"), "{cursor}");
}

/// Nodes read in the order of the key and so fail after many rows.
fn fails_in_the_middle(cluster: &Cluster, before: &[&str]) {
    let mut client = cluster.connect(0).expect("a session");
    for sql in ["SET enable_sort = off", "SET enable_seqscan = off"].iter().chain(before) {
        client.run(sql).expect(sql);
    }
    let late = ROWS - 10;
    let select = client.simple(&format!("SELECT k, 1 / (k - {late}) FROM a ORDER BY k")).expect("an answer");
    let given = select.rows.len() as u32;
    assert!(given > ROWS / 2 && given < late, "{given} rows");
    assert_eq!(select.error.expect("an error").code().as_str(), "22012");
    client.run("ROLLBACK").expect("ROLLBACK");
    let copy =
        client.simple(&format!("COPY (SELECT k, 1 / (k - {late}) FROM a ORDER BY k) TO STDOUT")).expect("an answer");
    assert!(copy.copied.expect("rows").len() > 100_000);
    assert_eq!(copy.error.expect("an error").code().as_str(), "22012");
    assert_eq!(client.scalar("SELECT k FROM a ORDER BY k OFFSET 7 LIMIT 1").expect("the session goes on"), "8");
}

/// The client hangs up in the middle of its rows.
fn stops(cluster: &Cluster, before: &[&str]) {
    let mut client = cluster.connect(0).expect("a session");
    before.iter().for_each(|sql| drop(client.run(sql).expect(sql)));
    client.send_query("SELECT k, generate_series(1, 1000000000) FROM a OFFSET 5").expect("a query on its way");
    until_at_work(cluster, |at_work| at_work == 2);
    drop(client);
    until_at_work(cluster, |at_work| at_work == 0);
}

fn needs_little_memory(cluster: &Cluster, session: &mut Client) {
    const QUERY: &str = "SELECT k, repeat('x', 1000) AS x FROM a ORDER BY v, k";
    // It has been done once, and what is kept for good is there.
    session.simple(&format!("{QUERY} LIMIT 1000")).expect("an answer");
    let pids = cluster.coordinator_pids().expect("/proc can be read");
    let before: Vec<u64> = pids.iter().map(|pid| reset_peak(*pid)).collect();
    assert_eq!(session.simple(QUERY).expect("an answer").rows.len() as u32, ROWS);
    let copied = session.simple(&format!("COPY ({QUERY}) TO STDOUT")).expect("an answer").copied.expect("rows");
    assert!(copied.len() as u32 > ROWS * 1000);
    for (pid, before) in pids.iter().zip(before) {
        let growth = peak(*pid).saturating_sub(before);
        assert!(growth < GROWTH_MAX, "{} MiB more", growth >> 20);
    }
}
