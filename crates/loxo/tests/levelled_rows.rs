//! `loxo rebalance --level`: rows of ROUNDROBIN tables become as many on each of their datanodes, and stay what they are.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use pgerror::SqlState;
use testkit::Cluster;
use testkit::wire::Client;

const DONE_MAX: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(20);

/// Tables whose rows have something that a move might touch.
const TABLES: &[&str] = &[
    "CREATE TABLE told (what text) DISTRIBUTE BY REPLICATION",
    "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '% fires', TG_NAME; END $$",
    "CREATE TABLE target (k int PRIMARY KEY) DISTRIBUTE BY REPLICATION",
    "INSERT INTO target SELECT generate_series(1, 10)",
    "CREATE TABLE plain (k int, v text) DISTRIBUTE BY ROUNDROBIN",
    "INSERT INTO plain SELECT k, md5(k::text) FROM generate_series(1, 60000) AS k",
    "CREATE TABLE keeps (id int GENERATED ALWAYS AS IDENTITY, k int REFERENCES target, g int GENERATED ALWAYS AS (k * 2) STORED, \
        f float8 DEFAULT random(), t timestamptz DEFAULT clock_timestamp(), a int[], j jsonb, x xml) DISTRIBUTE BY ROUNDROBIN",
    "INSERT INTO keeps (k, a, j, x) SELECT 1 + k % 10, ARRAY[k, NULL], jsonb_build_object('k', k), '<a/>' FROM generate_series(1, 3000) AS k",
    "CREATE UNLOGGED TABLE large (k int, v text) DISTRIBUTE BY ROUNDROBIN",
    "INSERT INTO large SELECT k, (SELECT string_agg(md5((k * i)::text), '') FROM generate_series(1, 3000) AS i) FROM generate_series(1, 60) AS k",
    "CREATE TABLE hidden (k int, owner name) DISTRIBUTE BY ROUNDROBIN",
    "INSERT INTO hidden SELECT k, 'nobody' FROM generate_series(1, 500) AS k",
    "ALTER TABLE hidden ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE hidden FORCE ROW LEVEL SECURITY",
    "CREATE TABLE watched (k int) DISTRIBUTE BY ROUNDROBIN",
    "INSERT INTO watched SELECT generate_series(1, 700)",
    "CREATE TRIGGER always BEFORE INSERT OR UPDATE OR DELETE ON watched FOR EACH ROW EXECUTE FUNCTION tell()",
    "ALTER TABLE watched ENABLE ALWAYS TRIGGER always",
    "CREATE TRIGGER usual AFTER INSERT OR UPDATE OR DELETE ON watched FOR EACH ROW EXECUTE FUNCTION tell()",
    "CREATE TABLE parted (k int, v int) PARTITION BY LIST (k) DISTRIBUTE BY ROUNDROBIN",
    "CREATE TABLE parted_one PARTITION OF parted FOR VALUES IN (1)",
    "CREATE TABLE parted_rest PARTITION OF parted DEFAULT",
    "INSERT INTO parted SELECT 1 + v % 3, v FROM generate_series(1, 900) AS v",
    "CREATE TABLE elder (k int, v int) DISTRIBUTE BY ROUNDROBIN",
    "CREATE TABLE heir () INHERITS (elder)",
    "INSERT INTO elder SELECT v, v FROM generate_series(1, 300) AS v",
    "INSERT INTO heir SELECT v, v FROM generate_series(1, 300) AS v",
    "CREATE TABLE nothing () DISTRIBUTE BY ROUNDROBIN",
    "INSERT INTO nothing SELECT FROM generate_series(1, 99)",
    "CREATE TABLE \"Odd \"\"name\" (\"K y\" int, gone int, \"select\" text) DISTRIBUTE BY ROUNDROBIN",
    "INSERT INTO \"Odd \"\"name\" SELECT k, 1, 'v' FROM generate_series(1, 300) AS k",
    "ALTER TABLE \"Odd \"\"name\" DROP COLUMN gone",
    "CREATE TABLE few (k int) DISTRIBUTE BY ROUNDROBIN",
    "INSERT INTO few VALUES (1), (2), (3)",
    "CREATE TABLE keyed (k int PRIMARY KEY) DISTRIBUTE BY HASH (k)",
    "INSERT INTO keyed SELECT generate_series(1, 2000)",
];

const LEVELLED: [&str; 10] =
    ["plain", "keeps", "large", "hidden", "watched", "parted_one", "parted_rest", "nothing", "\"Odd \"\"name\"", "few"];

/// How many rows each datanode has.
fn spread(cluster: &Cluster, table: &str) -> Vec<u64> {
    let ports = cluster.connect(0).unwrap().strings("SELECT port FROM loxo.node WHERE type = 'D' ORDER BY id").unwrap();
    let count = |port: &String| {
        let mut node = Client::connect(port.parse().unwrap()).unwrap();
        node.scalar(&format!("SELECT count(*) FROM ONLY public.{table}")).unwrap().parse().unwrap()
    };
    ports.concat().iter().map(count).collect()
}

/// Within one in a hundred of the share, or one row.
fn is_level(counts: &[u64]) -> bool {
    let share = counts.iter().sum::<u64>() / counts.len() as u64;
    counts.iter().all(|count| count.abs_diff(share) <= 1 + share / 100)
}

fn sums(client: &mut Client) -> Vec<Vec<String>> {
    let sum = |table: &&str| {
        let sql = format!(
            "SELECT count(*), md5(string_agg(x::text, ',' ORDER BY x::text COLLATE \"C\")) FROM ONLY {table} AS x"
        );
        client.strings(&sql).unwrap().remove(0)
    };
    LEVELLED.iter().map(sum).collect()
}

fn until_done(client: &mut Client) {
    let deadline = Instant::now() + DONE_MAX;
    loop {
        let found = client.strings("SELECT state, message FROM pgxc_rebalance").unwrap().remove(0);
        match found[0].as_str() {
            "done" => return,
            "running" if Instant::now() < deadline => std::thread::sleep(POLL),
            _ => panic!("{found:?}"),
        }
    }
}

#[test]
fn rows_without_a_key_get_evenly_spread_and_stay_what_they_are() {
    let cluster = Cluster::start(2, 1).unwrap();
    let mut client = cluster.connect(0).unwrap();
    for sql in TABLES {
        client.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let triggers = "SELECT tgname, tgenabled::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1";
    let (rows, fire) = (sums(&mut client), client.strings(triggers).unwrap());
    // An INSERT puts all of its rows on one datanode.
    cluster.loxo(&["rebalance", "--level"]).unwrap();
    assert_eq!(spread(&cluster, "plain"), [30_000; 2]);
    assert_eq!(sums(&mut client), rows);
    assert_eq!(cluster.loxo(&["rebalance", "--level", "--plan"]).unwrap(), "nothing has to be moved\n");
    cluster.loxo(&["node", "add", "--rebalance"]).unwrap();
    // Buckets have moved, and nothing else.
    assert_eq!(spread(&cluster, "plain")[2], 0);
    assert_eq!(cluster.loxo(&["rebalance", "--plan"]).unwrap(), "nothing has to be moved\n");
    let plan = cluster.loxo(&["rebalance", "--level", "--plan"]).unwrap();
    let planned: Vec<Vec<&str>> = plan.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(planned.contains(&vec!["public.plain", "dn1", "dn3", "10000"]), "{plan}");
    assert!(planned.contains(&vec!["public.plain", "dn2", "dn3", "10000"]), "{plan}");

    let said = cluster.loxo(&["rebalance", "--level"]).unwrap();
    assert!(said.starts_with("0 buckets and "), "{said}");
    for table in LEVELLED {
        let counts = spread(&cluster, table);
        assert!(is_level(&counts), "{table}: {counts:?}");
    }
    assert_eq!(sums(&mut client), rows);
    assert_eq!(client.strings(triggers).unwrap(), fire);
    assert_eq!(cluster.wrong_rows(), None);
    let moved =
        client.strings("SELECT rows_levelled, rows_to_level, rows_moved FROM pgxc_rebalance").unwrap().remove(0);
    assert!(moved.iter().all(|rows| *rows == moved[0]) && moved[0].parse::<u64>().unwrap() > 21_000, "{moved:?}");
    assert_eq!(cluster.loxo(&["rebalance", "--level", "--plan"]).unwrap(), "nothing has to be moved\n");

    // A datanode that leaves gives its rows to others, which are levelled together with them.
    client.run("ALTER CLUSTER REBALANCE WITHOUT NODE (dn3) LEVEL").unwrap();
    until_done(&mut client);
    for table in LEVELLED {
        let counts = spread(&cluster, table);
        assert!(counts[2] == 0 && is_level(&counts[..2]), "{table}: {counts:?}");
    }
    assert_eq!(sums(&mut client), rows);
    assert_eq!(cluster.wrong_rows(), None);
    // Partitions have left it together with their parent, so it is read and written.
    assert_eq!(client.scalar("SELECT count(*) FROM parted").unwrap(), "900");
    assert_eq!(client.scalar("SELECT count(*) FROM elder").unwrap(), "600");
    assert_eq!(["elder", "heir"].map(|table| spread(&cluster, table)[2]), [0, 0]);
    for number in 0..6 {
        let mut other = cluster.connect(0).unwrap();
        other.run(&format!("INSERT INTO parted VALUES (1, {number}), (7, {number})")).unwrap();
    }
    let counts = [spread(&cluster, "parted_one"), spread(&cluster, "parted_rest")];
    assert!(counts.iter().all(|counts| counts[2] == 0), "{counts:?}");
    assert_eq!(client.scalar("SELECT count(*) FROM parted").unwrap(), "912");
    client.run("DROP NODE dn3").unwrap();
    assert_eq!(client.scalar("SELECT count(*) FROM parted").unwrap(), "912");
}

/// Readers see each row once, writers each that they mean, and nobody gets an error.
#[test]
fn others_read_and_write_while_rows_are_levelled() {
    const ROWS: i64 = 30_000;
    let cluster = Cluster::start(2, 2).unwrap();
    let [one, other] = cluster.coordinators() else { panic!("two coordinators") };
    let mut client = Client::connect(*one).unwrap();
    client.run("CREATE TABLE still (k int, v text) DISTRIBUTE BY ROUNDROBIN").unwrap();
    client.run(&format!("INSERT INTO still SELECT k, md5(k::text) FROM generate_series(1, {ROWS}) AS k")).unwrap();
    client.run("CREATE TABLE money (k int, v int) DISTRIBUTE BY ROUNDROBIN").unwrap();
    client.run(&format!("INSERT INTO money SELECT k, 0 FROM generate_series(1, {ROWS}) AS k")).unwrap();
    cluster.loxo(&["node", "add"]).unwrap();
    let (over, looks, changes, inserted) =
        (AtomicBool::new(false), AtomicI64::new(0), AtomicI64::new(0), AtomicI64::new(0));
    let levels = std::thread::scope(|scope| {
        for port in [*one, *other] {
            let (over, looks) = (&over, &looks);
            scope.spawn(move || {
                let mut client = Client::connect(port).unwrap();
                while !over.load(Ordering::Relaxed) {
                    let seen =
                        client.strings("SELECT count(*), sum(k), count(DISTINCT k) FROM still").unwrap().remove(0);
                    assert_eq!(seen, [ROWS.to_string(), (ROWS * (ROWS + 1) / 2).to_string(), ROWS.to_string()]);
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for (worker, port) in [*one, *other].into_iter().enumerate() {
            let (over, changes, inserted) = (&over, &changes, &inserted);
            scope.spawn(move || {
                let mut client = Client::connect(port).unwrap();
                while !over.load(Ordering::Relaxed) {
                    let rest = changes.load(Ordering::Relaxed) % 300;
                    let update =
                        format!("UPDATE money SET v = v + 1 WHERE k % 300 = {rest} AND k % 2 = {worker} RETURNING k");
                    let wanted = (1..=ROWS).filter(|k| k % 300 == rest && k % 2 == worker as i64).count();
                    assert_eq!(client.strings(&update).unwrap().len(), wanted);
                    changes.fetch_add(wanted as i64, Ordering::Relaxed);
                    client.run("INSERT INTO money VALUES (-1, 0)").unwrap();
                    inserted.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let ends = Ends(&over);
        client.run("ALTER CLUSTER REBALANCE LEVEL").unwrap();
        until_done(&mut client);
        let levels = ["still", "money"].map(|table| spread(&cluster, table));
        // New rows come there until the table has left it.
        client.run("ALTER CLUSTER REBALANCE WITHOUT NODE (dn3)").unwrap();
        until_done(&mut client);
        drop(ends);
        levels
    });
    let [looks, changes, inserted] = [&looks, &changes, &inserted].map(|count| count.load(Ordering::Relaxed));
    assert!(looks > 3 && inserted > 3, "{looks} {inserted}");
    let found = client.strings("SELECT count(*), sum(v) FROM money").unwrap().remove(0);
    assert_eq!(found, [(ROWS + inserted).to_string(), changes.to_string()]);
    let [still, money] = levels;
    assert!(is_level(&still), "{still:?}");
    assert!(money[2] * 100 > money.iter().sum::<u64>() * 32, "{money:?}");
    assert_eq!(["still", "money"].map(|table| spread(&cluster, table)[2]), [0, 0]);
    assert_eq!(cluster.wrong_rows(), None);
}

/// Is set when this is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn it_is_a_job_that_pauses_and_outlives_its_coordinator() {
    let cluster = Cluster::start(2, 2).unwrap();
    let mut client = cluster.connect(0).unwrap();
    client.run("CREATE TABLE t (k int) DISTRIBUTE BY ROUNDROBIN").unwrap();
    client.run("INSERT INTO t SELECT generate_series(1, 9000)").unwrap();
    cluster.loxo(&["node", "add"]).unwrap();
    for refused in ["ALTER CLUSTER REBALANCE LEVEL WITHOUT NODE (dn2)", "ALTER CLUSTER REBALANCE LEVEL LEVEL"] {
        assert_eq!(client.run(refused).unwrap_err().code(), SqlState::SYNTAX_ERROR, "{refused}");
    }
    // Slow enough to be met on its way.
    client.run("ALTER CLUSTER REBALANCE LEVEL RATE 200").unwrap();
    let levelled = |client: &mut Client, more_than: u64| {
        let deadline = Instant::now() + DONE_MAX;
        loop {
            let rows: u64 = client.scalar("SELECT rows_levelled FROM pgxc_rebalance").unwrap().parse().unwrap();
            if rows > more_than {
                return rows;
            }
            assert!(Instant::now() < deadline, "nothing moves");
            std::thread::sleep(POLL);
        }
    };
    levelled(&mut client, 0);
    client.run("ALTER CLUSTER REBALANCE PAUSE").unwrap();
    // A step that was on its way still counts; who works has the lock.
    let (mut primary, deadline) = (cluster.connect_datanode(0).unwrap(), Instant::now() + DONE_MAX);
    let works = "SELECT count(*) FROM pg_locks WHERE relation = 'loxo.rebalancing'::regclass";
    while primary.scalar(works).unwrap() != "0" {
        assert!(Instant::now() < deadline, "somebody works on");
        std::thread::sleep(POLL);
    }
    let rows = client.scalar("SELECT rows_levelled FROM pgxc_rebalance").unwrap();
    let status = cluster.loxo(&["status"]).unwrap();
    assert!(status.contains(" rows levelled, ") && status.contains(" left"), "{status}");
    assert_eq!(client.strings("SELECT count(*), sum(k) FROM t").unwrap(), [["9000", "40504500"]]);
    assert_eq!(client.scalar("SELECT rows_levelled FROM pgxc_rebalance").unwrap(), rows);
    client.run("ALTER CLUSTER REBALANCE RESUME").unwrap();
    let before = levelled(&mut client, rows.parse().unwrap());
    // Both die: whichever worked, others go on.
    for pid in cluster.coordinator_pids().unwrap() {
        assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
    }
    cluster.up().unwrap();
    let mut client = cluster.connect(1).unwrap();
    levelled(&mut client, before);
    client.run("ALTER CLUSTER REBALANCE CANCEL").unwrap();
    assert_eq!(client.strings("SELECT count(*), sum(k) FROM t").unwrap(), [["9000", "40504500"]]);
    assert!(!is_level(&spread(&cluster, "t")));
    client.run("ALTER CLUSTER REBALANCE LEVEL").unwrap();
    until_done(&mut client);
    assert_eq!(spread(&cluster, "t"), [3000; 3]);
    assert_eq!(client.strings("SELECT count(*), sum(k) FROM t").unwrap(), [["9000", "40504500"]]);
    assert_eq!(cluster.wrong_rows(), None);
}
