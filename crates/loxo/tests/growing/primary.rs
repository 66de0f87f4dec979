//! The primary datanode's part goes to another datanode.

use testkit::wire::Client;

use super::{Cluster, fails_saying, statements, succeeded};

/// What a client sees of tables of all kinds, sequences and large objects.
fn contents(client: &mut Client) -> Vec<Vec<String>> {
    let tables = ["h", "m", "r", "rr", "gt", "one", "p", "mv"];
    let sums =
        tables.map(|t| format!("SELECT '{t}', count(*), md5(string_agg(x::text, ',' ORDER BY x::text)) FROM {t} AS x"));
    let large =
        "SELECT lo_get(4242), (SELECT concat(lomowner::regrole, lomacl) FROM pg_largeobject_metadata WHERE oid = 4242)";
    let asked = sums.iter().map(String::as_str).chain([large]);
    asked.flat_map(|sql| client.strings(sql).expect(sql)).collect()
}

#[test]
fn another_datanode_becomes_the_primary_one_and_the_old_one_leaves() {
    let c = Cluster::up("primary");
    succeeded(c.loxo(&["node", "add"], &[]));
    let mut client = c.client();
    for statement in statements(include_str!("primary.sql")) {
        client.run(&statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    succeeded(c.loxo(&["rebalance"], &[]));
    let before = contents(&mut client);
    fails_saying(c.loxo(&["node", "primary", "dn9"], &[]), &["dn9", "dn1, dn2, dn3"]);
    Client::connect(c.port + 100).unwrap().run("CREATE TABLE public.by_hand AS SELECT 1 AS k").unwrap();
    fails_saying(c.loxo(&["node", "primary", "dn2"], &[]), &["public.by_hand", "dn1"]);
    Client::connect(c.port + 100).unwrap().run("DROP TABLE public.by_hand").unwrap();

    succeeded(c.loxo(&["node", "primary", "dn2"], &[]));
    let mut client = c.client();
    assert_eq!(contents(&mut client), before);
    assert_eq!(c.config().primary().name, "dn2");
    assert_eq!(c.nodes()[0]["name"], "dn2");
    assert_eq!(client.scalar("SELECT node_name FROM pgxc_node WHERE nodeis_primary").unwrap(), "dn2");
    assert_eq!(
        client.scalar("SELECT concat(nextval('h_id_seq'), ' ', nextval('\"odd ''name\"'))").unwrap(),
        "1001 555"
    );
    assert_eq!(client.scalar("INSERT INTO r (v) VALUES ('new') RETURNING k").unwrap(), "51");
    client.run("CREATE TABLE later (a int PRIMARY KEY, b serial)").unwrap();
    client.run("INSERT INTO later (a) SELECT generate_series(1, 50)").unwrap();
    client.run("REFRESH MATERIALIZED VIEW mv").unwrap();

    // A call that was killed in its commit: what has happened on one datanode happens on all, what has on none does not.
    client.run("CREATE TABLE seen (k int) DISTRIBUTE BY REPLICATION").unwrap();
    for (new, row) in [("dn2", 1), ("dn3", 2)] {
        let sql = format!("BEGIN; INSERT INTO public.seen VALUES ({row}); PREPARE TRANSACTION 'loxo_primary_{new}'");
        Client::connect(c.port + 102).unwrap().run(&sql).unwrap();
    }
    succeeded(c.loxo(&["up"], &[]));
    let mut third = Client::connect(c.port + 102).unwrap();
    assert_eq!(third.strings("SELECT k FROM public.seen").unwrap(), [["1"]]);
    assert_eq!(third.scalar("SELECT count(*) FROM pg_prepared_xacts").unwrap(), "0");
    third.run("DELETE FROM public.seen").unwrap();

    let mut client = c.client();
    client.run("ALTER TABLE one TO NODE (dn3)").unwrap();
    succeeded(c.loxo(&["node", "remove", "dn1"], &[]));
    succeeded(c.loxo(&["check"], &["--data"]));
    assert_eq!(c.nodes().as_array().unwrap().len(), 2);
    assert_eq!(client.scalar("SELECT count(*) FROM h").unwrap(), "1000");
}
