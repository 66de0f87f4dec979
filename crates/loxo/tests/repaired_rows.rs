//! Rows that were changed behind the coordinators' back are put right by `loxo check --data --repair`.

use std::io::Write;
use std::process::{Command, Stdio};

use pgerror::SqlState;
use testkit::wire::Client;
use testkit::{Cluster, Server, ServerOptions, pg_program};

const SCHEMA: &str = include_str!("growing/damaged.sql");

/// What COPY carries, without computed columns, of the tables that are compared with a stock server's.
const TABLES: [(&str, &str); 12] = [
    ("keyed", "k, id, p, f, at, money"),
    ("followers", "k, n"),
    ("late", "k, v"),
    ("plain", "k, v, big"),
    ("ranged_old", "k, at, v"),
    ("ranged_new", "k, at, v"),
    ("mother", "k, v"),
    ("\"the Child\"", "k, v, \"own $\""),
    ("anywhere", "v"),
    ("copies", "id, v"),
    ("copy_users", "n, id"),
    ("two_copies", "v"),
];

/// Session of one who writes to a datanode directly: what PostgreSQL would do beside is not what is tested.
const DIRECT: &str = "SET session_replication_role = replica; SET row_security = off; SET client_min_messages = error";

/// Rules are those of replicas on datanodes, since coordinators run them.
const QUIET_LATE: &str = "ALTER TABLE late DISABLE RULE r_tells";
const LOUD_LATE: &str = "ALTER TABLE late ENABLE REPLICA RULE r_tells";

struct Damaged {
    cluster: Cluster,
    nodes: Vec<Client>,
}

fn psql(port: u16, arguments: &[&str], input: &str) -> String {
    let mut psql = Command::new(pg_program("psql").unwrap());
    psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p"]);
    psql.arg(port.to_string()).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = psql.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Of each table: how many rows there are, and what they are.
fn sums(client: &mut Client) -> Vec<String> {
    client.run("SET TimeZone = 'UTC'; SET row_security = off").unwrap();
    let mut sum = |(table, _): &(&str, &str)| {
        let sql = format!(
            "SELECT '{}: ' || count(*) || ' ' || md5(string_agg(x::text, ',' ORDER BY x::text COLLATE \"C\")) FROM ONLY {table} AS x",
            table.replace('\'', "''")
        );
        client.scalar(&sql).unwrap()
    };
    TABLES.iter().map(&mut sum).collect()
}

impl Damaged {
    fn new() -> Self {
        let cluster = Cluster::start(3, 1).unwrap();
        psql(cluster.coordinators()[0], &["-f", "-"], SCHEMA);
        let direct = |port: &u16| {
            let mut client = Client::connect(*port).unwrap();
            client.run(DIRECT).unwrap();
            client
        };
        let nodes = cluster.datanodes().iter().map(direct).collect();
        Self { cluster, nodes }
    }

    fn client(&self) -> Client {
        Client::connect(self.cluster.coordinators()[0]).unwrap()
    }

    fn direct(&mut self, node: usize, sql: &str) {
        self.nodes[node].run(sql).unwrap();
    }

    /// Gives the rows of a node to another; gives how many there are.
    fn carry(&mut self, table: &str, condition: &str, (from, to): (usize, usize), keep: bool) -> usize {
        let (_, columns) = TABLES.iter().find(|(name, _)| *name == table).unwrap();
        let ports = self.cluster.datanodes().to_vec();
        let out = format!("COPY (SELECT {columns} FROM ONLY {table} WHERE {condition}) TO STDOUT");
        let rows = psql(ports[from], &["-c", DIRECT, "-c", &out], "");
        let (quiet, loud) = match table {
            "keyed" => ("ALTER TABLE keyed DISABLE TRIGGER fails", "ALTER TABLE keyed ENABLE ALWAYS TRIGGER fails"),
            "late" => (QUIET_LATE, LOUD_LATE),
            _ => ("SELECT", "SELECT"),
        };
        let into = format!("COPY {table} ({columns}) FROM STDIN");
        psql(ports[to], &["-c", DIRECT, "-c", quiet, "-c", &into, "-c", loud], &rows);
        if !keep {
            self.direct(from, &format!("{quiet}; DELETE FROM ONLY {table} WHERE {condition}; {loud}"));
        }
        let count = rows.lines().count();
        assert!(count > 0, "{table} has no such rows on node {from}");
        count
    }

    /// The check must say all of this.
    fn says(&self, expected: &[String]) {
        let found = self.cluster.wrong_rows().expect("something is wrong");
        assert!(expected.iter().all(|text| found.contains(text)), "{expected:?} is not all in:\n{found}");
    }

    /// Everything is right afterwards; gives what was done.
    fn repaired(&self) -> String {
        let said = self.cluster.loxo(&["check", "--data", "--repair"]).unwrap_or_else(|error| panic!("{error}"));
        assert!(said.contains("every row is where it belongs"), "{said}");
        assert_eq!(self.cluster.wrong_rows(), None);
        said
    }

    /// Nothing has fired, and what fires still does.
    fn is_quiet(&mut self, schema: &[Vec<Vec<String>>]) {
        assert_eq!(self.client().strings("SELECT * FROM told").unwrap(), Vec::<Vec<String>>::new());
        assert_eq!(self.schema(), schema);
    }

    fn schema(&mut self) -> Vec<Vec<Vec<String>>> {
        let sql = "SELECT tgrelid::regclass::text, tgname, tgenabled::text FROM pg_trigger WHERE NOT tgisinternal \
             UNION ALL SELECT ev_class::regclass::text, rulename, ev_enabled::text FROM pg_rewrite WHERE rulename LIKE 'r\\_%' \
             UNION ALL SELECT oid::regclass::text, relkind::text, '' FROM pg_class WHERE relname LIKE 'repair%' ORDER BY 1, 2";
        self.nodes.iter_mut().map(|node| node.strings(sql).unwrap()).collect()
    }
}

fn told(table: &str, rows: usize, node: usize) -> String {
    let rows = if rows == 1 { "1 row does".to_owned() } else { format!("{rows} rows do") };
    format!("error: public.{table}: {rows} not belong on dn{}", node + 1)
}

#[test]
fn damaged_rows_become_those_of_a_server_that_was_never_damaged() {
    let stock = Server::start(&ServerOptions::default()).unwrap();
    let plain: Vec<&str> = SCHEMA.lines().filter(|line| !line.trim_start().starts_with("DISTRIBUTE BY")).collect();
    psql(stock.port(), &["-f", "-"], &plain.join("\n"));
    let wanted = sums(&mut stock.connect().unwrap());
    let mut damaged = Damaged::new();
    assert_eq!(sums(&mut damaged.client()), wanted);
    assert_eq!(damaged.cluster.wrong_rows(), None);
    damaged.client().run("TRUNCATE told").unwrap();
    let schema = damaged.schema();

    moved_to_another_node(&mut damaged);
    assert_eq!(sums(&mut damaged.client()), wanted);
    damaged.is_quiet(&schema);
    there_twice(&mut damaged);
    assert_eq!(sums(&mut damaged.client()), wanted);
    damaged.is_quiet(&schema);
    outside_the_list(&mut damaged);
    copies_that_differ(&mut damaged);
    assert_eq!(sums(&mut damaged.client()), wanted);
    damaged.is_quiet(&schema);
    with_another_one_s_key(&mut damaged);
    assert_eq!(sums(&mut damaged.client()), wanted);
    damaged.is_quiet(&schema);
}

fn moved_to_another_node(damaged: &mut Damaged) {
    let mut expected = Vec::new();
    let kinds = [
        ("keyed", "id % 3 = 0"),
        ("followers", "n = 2"),
        ("late", "k % 2 = 0"),
        ("plain", "k % 3 = 0 OR k IS NULL"),
        ("ranged_old", "true"),
        ("ranged_new", "k % 2 = 0"),
        ("mother", "k % 2 = 0"),
        ("\"the Child\"", "true"),
    ];
    for (i, (table, condition)) in kinds.into_iter().enumerate() {
        let way = (i % 3, (i + 1 + i % 2) % 3);
        let rows = damaged.carry(table, condition, way, false);
        expected.push((table, rows, way));
    }
    let says: Vec<String> = expected.iter().map(|(table, rows, (_, to))| told(table, *rows, *to)).collect();
    damaged.says(&says);
    let said = damaged.repaired();
    for (table, rows, (from, to)) in expected {
        let (from, to) = (from + 1, to + 1);
        assert!(said.contains(&format!("repair: public.{table}: {rows} rows on dn{to} will be moved")), "{said}");
        assert!(
            said.contains(&format!("repaired: public.{table}: {rows} rows moved from dn{to} to dn{from}")),
            "{said}"
        );
    }
}

fn there_twice(damaged: &mut Damaged) {
    for (table, condition) in [("keyed", "id % 2 = 0"), ("late", "true"), ("plain", "k > 0"), ("ranged_new", "true")] {
        let rows = damaged.carry(table, condition, (0, 1), true);
        damaged.says(&[told(table, rows, 1)]);
        let said = damaged.repaired();
        assert!(said.contains(&format!("{table}: {rows} rows deleted on dn2: dn1 has the same")), "{said}");
    }
    // Of three equal rows two are there.
    let key = damaged.nodes[0].scalar("SELECT min(k) FROM plain").unwrap();
    damaged.carry("plain", &format!("k = {key}"), (0, 2), true);
    damaged.direct(2, &format!("INSERT INTO plain SELECT * FROM plain WHERE k = {key} LIMIT 1"));
    let said = damaged.repaired();
    assert!(said.contains("2 rows deleted on dn3: dn1 has the same"), "{said}");
    assert!(said.contains("1 row moved from dn3 to dn1"), "{said}");
    damaged.direct(0, &format!("DELETE FROM plain WHERE ctid = (SELECT max(ctid) FROM plain WHERE k = {key})"));
    // Two nodes have rows of a third.
    damaged.carry("keyed", "id % 2 = 0", (0, 1), true);
    damaged.carry("keyed", "id % 2 = 0", (0, 2), false);
    assert!(damaged.repaired().contains("deleted on dn3: dn1 has the same"));
}

fn outside_the_list(damaged: &mut Damaged) {
    let holds = |node: &mut Client| node.scalar("SELECT count(*) > 20 FROM anywhere").unwrap() == "t";
    let holder = damaged.nodes.iter_mut().position(holds).unwrap();
    damaged.carry("anywhere", "v < 20", (holder, 2), false);
    damaged.carry("two_copies", "v < 5", (1, 0), true);
    damaged.direct(0, "INSERT INTO two_copies VALUES (-1)");
    let refused = damaged.cluster.loxo(&["check", "--data", "--repair"]).unwrap_err().to_string();
    for words in [
        "4 rows deleted on dn1: dn2 has the same",
        "1 row stays on dn1, without its like in any copy",
        "moved from dn3 to dn1",
        "error: public.two_copies: 1 row does not belong on dn1",
        "1 error in the rows of",
    ] {
        assert!(refused.contains(words), "{words} is not in {refused}");
    }
    damaged.direct(0, "DELETE FROM two_copies");
    assert_eq!(damaged.cluster.wrong_rows(), None);
}

fn copies_that_differ(damaged: &mut Damaged) {
    damaged.direct(1, "UPDATE copies SET v = 'other' WHERE id = 7");
    damaged.direct(2, "INSERT INTO copies OVERRIDING SYSTEM VALUE VALUES (1000, 'more')");
    damaged.direct(2, "INSERT INTO two_copies VALUES (1)");
    damaged.says(&[
        "copies: the copies differ (100 rows on dn1, 100 rows on dn2, 101 rows on dn3)".to_owned(),
        "two_copies: the copies differ (20 rows on dn2, 21 rows on dn3)".to_owned(),
    ]);
    let said = damaged.repaired();
    for words in [
        "repair: public.copies: 100 rows on dn2 will be replaced by 100 of dn1",
        "repair: public.copies: 101 rows on dn3 will be replaced by 100 of dn1",
        "repaired: public.copies: 101 rows on dn3 replaced by 100 of dn1",
        "repaired: public.two_copies: 21 rows on dn3 replaced by 20 of dn2",
    ] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    // What the repair does not know how to mend stays as it is.
    let mut client = damaged.client();
    client.run("CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql RETURN $1 * 2").unwrap();
    client
        .run("CREATE TABLE computed (k int, d int GENERATED ALWAYS AS (twice(k)) STORED) DISTRIBUTE BY REPLICATION")
        .unwrap();
    client.run("INSERT INTO computed VALUES (1), (2)").unwrap();
    damaged.direct(1, "CREATE OR REPLACE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql RETURN $1 * 3");
    damaged.direct(1, "UPDATE computed SET k = k");
    let refused = damaged.cluster.loxo(&["check", "--data", "--repair"]).unwrap_err().to_string();
    assert!(refused.contains("not repaired: public.computed"), "{refused}");
    client.run("DROP TABLE computed").unwrap();
    assert_eq!(damaged.cluster.wrong_rows(), None);
}

fn with_another_one_s_key(damaged: &mut Damaged) {
    let key = damaged.nodes[0].scalar("SELECT min(k) FROM late").unwrap();
    let lot = damaged.nodes[0].scalar("SELECT string_agg(k::text, ',') FROM late WHERE k % 5 = 0").unwrap();
    let lot = format!("k = {key} OR k IN ({lot})");
    damaged.carry("late", &lot, (0, 1), true);
    damaged.direct(1, &format!("UPDATE late SET v = 'changed' WHERE k = {key}"));
    let refused = damaged.cluster.loxo(&["check", "--data", "--repair"]).unwrap_err().to_string();
    assert!(refused.contains("1 row stays on dn2: dn1 has other values under the same key"), "{refused}");
    assert!(refused.contains("deleted on dn2: dn1 has the same"), "{refused}");
    assert!(refused.contains("error: public.late: 1 row does not belong on dn2"), "{refused}");
    assert_eq!(damaged.nodes[1].scalar(&format!("SELECT v FROM late WHERE k = {key}")).unwrap(), "changed");
    assert_eq!(damaged.nodes[0].scalar(&format!("SELECT v FROM late WHERE k = {key}")).unwrap(), format!("v{key}"));
    damaged.direct(1, &format!("{QUIET_LATE}; DELETE FROM late WHERE k = {key}; {LOUD_LATE}"));
    assert_eq!(damaged.cluster.wrong_rows(), None);
}

#[test]
fn a_repair_is_refused_where_there_is_nothing_to_repair_and_to_others() {
    let damaged = Damaged::new();
    let mut client = damaged.client();
    client.run("CREATE ROLE ordinary LOGIN; CREATE VIEW seen AS SELECT 1 AS one").unwrap();
    client.run("ALTER CLUSTER REPAIR public.late").unwrap();
    for (refused, code) in [
        ("ALTER CLUSTER REPAIR nothing", SqlState::UNDEFINED_TABLE),
        ("ALTER CLUSTER REPAIR seen", SqlState::FEATURE_NOT_SUPPORTED),
        ("ALTER CLUSTER REPAIR ranged", SqlState::FEATURE_NOT_SUPPORTED),
    ] {
        assert_eq!(client.run(refused).unwrap_err().code(), code, "{refused}");
    }
    client.run("BEGIN").unwrap();
    assert_eq!(client.run("ALTER CLUSTER REPAIR late").unwrap_err().code(), SqlState::ACTIVE_SQL_TRANSACTION);
    client.run("ROLLBACK").unwrap();
    let port = damaged.cluster.coordinators()[0];
    let mut ordinary = Client::connect_with(port, &[("user", "ordinary"), ("database", "postgres")]).unwrap();
    assert_eq!(ordinary.run("ALTER CLUSTER REPAIR late").unwrap_err().code(), SqlState::INSUFFICIENT_PRIVILEGE);
}
