//! Rows that move to other datanodes are the same afterwards, and those who look meanwhile see each of them once.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgerror::SqlState;
use testkit::wire::{Client, CopyInput};
use testkit::{Cluster, pg_program};

const DONE_MAX: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(20);

fn rebalance(client: &mut Client, command: &str) {
    client.run(command).unwrap();
    let deadline = Instant::now() + DONE_MAX;
    loop {
        let found = client.strings("SELECT state, message FROM pgxc_rebalance").unwrap().remove(0);
        match found[0].as_str() {
            "done" => return,
            "running" if Instant::now() < deadline => std::thread::sleep(POLL),
            _ => panic!("{command}: {found:?}"),
        }
    }
}

/// Is set when this is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Of each table: how many rows there are, and what they are.
fn sums(client: &mut Client) -> Vec<Vec<String>> {
    let tables = client
        .strings(
            "SELECT c.oid::regclass FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
             WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'm') ORDER BY c.relname",
        )
        .unwrap();
    let sum = |table: &Vec<String>| {
        let table = &table[0];
        let sql = format!(
            "SELECT count(*), md5(string_agg(x::text, ',' ORDER BY x::text COLLATE \"C\")) FROM ONLY {table} AS x"
        );
        [vec![table.clone()], client.strings(&sql).unwrap().remove(0)].concat()
    };
    tables.iter().map(sum).collect()
}

/// Triggers, rules, indexes and some constraints as users see them.
fn schema(client: &mut Client) -> Vec<Vec<String>> {
    client
        .strings(
            "SELECT tgname, tgenabled::text FROM pg_trigger WHERE NOT tgisinternal \
             UNION ALL SELECT rulename, ev_enabled::text FROM pg_rewrite WHERE rulename LIKE 'r\\_%' \
             UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid), conislocal::text FROM pg_constraint \
             WHERE conname LIKE 'old\\_%' AND contype <> 'p' \
             UNION ALL SELECT indexrelid::regclass::text, indisvalid::text FROM pg_index WHERE indexrelid >= 16384 ORDER BY 1, 2",
        )
        .unwrap()
}

#[test]
fn rows_of_every_kind_of_table_are_the_same_wherever_they_lie() {
    let cluster = Cluster::start(3, 1).unwrap();
    let port = cluster.coordinators()[0];
    let mut psql = Command::new(pg_program("psql").unwrap());
    psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p"]);
    let made = psql.arg(port.to_string()).args(["-c", "SET client_min_messages = error", "-f"]);
    let made = made.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/growing/kinds.sql")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));

    let mut client = Client::connect(port).unwrap();
    let (rows, objects) = (sums(&mut client), schema(&mut client));
    assert!(rows.len() > 15, "{rows:?}");
    for command in ["ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)", "ALTER CLUSTER REBALANCE"] {
        rebalance(&mut client, command);
        assert_eq!(sums(&mut client), rows, "{command}");
        assert_eq!(schema(&mut client), objects, "{command}");
        let on_node = "EXECUTE DIRECT ON (dn2) 'SELECT count(*) FROM child'";
        assert_eq!(client.strings(on_node).unwrap() == [["0"]], command.contains("WITHOUT"), "{command}");
        assert_eq!(cluster.wrong_rows(), None, "{command}");
    }
}

#[test]
fn a_snapshot_that_is_kept_shows_rows_where_they_were() {
    let cluster = Cluster::start(2, 2).unwrap();
    let [one, other] = cluster.coordinators() else { panic!("two coordinators") };
    let (mut mover, mut reader) = (Client::connect(*one).unwrap(), Client::connect(*other).unwrap());
    mover.run("CREATE TABLE t (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").unwrap();
    mover.run("INSERT INTO t SELECT k, k FROM generate_series(1, 1000) AS k").unwrap();
    let by_key = "SELECT count(v) FROM t WHERE k = 1 UNION ALL SELECT count(v) FROM t WHERE k = 2";
    reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    assert_eq!(reader.strings("SELECT count(*), sum(v) FROM t").unwrap(), [["1000", "500500"]]);
    reader.run("DECLARE c CURSOR FOR SELECT * FROM t").unwrap();
    assert_eq!(reader.strings("FETCH 10 FROM c").unwrap().len(), 10);

    rebalance(&mut mover, "ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)");
    mover.run("UPDATE t SET v = 0").unwrap();
    assert_eq!(reader.strings("SELECT count(*), sum(v) FROM t").unwrap(), [["1000", "500500"]]);
    assert_eq!(
        reader.strings("SELECT v FROM t WHERE k IN (1, 2, 3, 4) ORDER BY k").unwrap().concat(),
        ["1", "2", "3", "4"]
    );
    assert_eq!(reader.strings(by_key).unwrap().concat(), ["1", "1"]);
    assert_eq!(reader.strings("FETCH ALL FROM c").unwrap().len(), 990);
    // What it would write might lie elsewhere by now.
    let refused = reader.run("INSERT INTO t SELECT k, k FROM generate_series(1001, 1100) AS k").unwrap_err();
    assert_eq!(refused.code(), SqlState::SERIALIZATION_FAILURE);
    reader.run("ROLLBACK").unwrap();
    assert_eq!(reader.strings("SELECT count(*), sum(v) FROM t").unwrap(), [["1000", "0"]]);
    assert_eq!(reader.strings("SELECT count(*) FROM pgxc_node WHERE node_type = 'D'").unwrap(), [["2"]]);
}

/// A table that begins empty has no index over buckets on its new node, until rows go elsewhere than to its end.
#[test]
fn rows_that_find_room_amid_others_are_compared_all_the_same() {
    let cluster = Cluster::start(2, 1).unwrap();
    let mut client = cluster.connect(0).unwrap();
    client.run("CREATE TABLE t (k int PRIMARY KEY, v text) DISTRIBUTE BY HASH (k)").unwrap();
    rebalance(&mut client, "ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)");
    client.run("INSERT INTO t SELECT k, repeat(k::text, 250) FROM generate_series(1000, 20999) AS k").unwrap();
    let mut target = cluster.connect_datanode(1).unwrap();
    let deadline = Instant::now() + DONE_MAX;
    let mut until = |sql: &str| {
        while target.scalar(sql).unwrap() != "t" {
            assert!(Instant::now() < deadline, "{sql}");
            std::thread::sleep(POLL);
        }
    };
    let indexed = "SELECT EXISTS (SELECT FROM pg_class WHERE relname ~ '^loxo_rebalance_')";
    client.run("ALTER CLUSTER REBALANCE RATE 2000").unwrap();
    until("SELECT pg_relation_size('public.t') > 600 * 8192");
    until(&indexed.replace("EXISTS", "NOT EXISTS"));
    client.run("DELETE FROM t WHERE k % 3 = 0").unwrap();
    client.run("VACUUM t").unwrap();
    until(indexed);
    rebalance(&mut client, "ALTER CLUSTER REBALANCE");
    until(&indexed.replace("EXISTS", "NOT EXISTS"));
    let sums = "SELECT count(*), sum(k), count(*) FILTER (WHERE v = repeat(k::text, 250)) FROM t";
    let expected = (1000..21000u64).filter(|k| k % 3 != 0);
    let (count, sum) = (expected.clone().count().to_string(), expected.sum::<u64>().to_string());
    assert_eq!(client.strings(sums).unwrap(), [[count.clone(), sum, count]]);
    assert_eq!(cluster.wrong_rows(), None);
}

/// One tenant's rows are on the node that takes the others', with room amid them; the one that gives has a page of them.
#[test]
fn a_table_that_is_large_only_where_rows_go_is_moved_too() {
    let cluster = Cluster::start(2, 1).unwrap();
    let mut client = cluster.connect(0).unwrap();
    client
        .run("CREATE TABLE t (tenant int, n int, v text, PRIMARY KEY (tenant, n)) DISTRIBUTE BY HASH (tenant)")
        .unwrap();
    client.run("INSERT INTO t SELECT g, 1, 'small' FROM generate_series(1, 300) AS g").unwrap();
    let mut target = cluster.connect_datanode(1).unwrap();
    let tenant = target.scalar("SELECT min(tenant) FROM public.t").unwrap();
    let many = format!("INSERT INTO t SELECT {tenant}, g, repeat('x', 250) FROM generate_series(2, 30000) AS g");
    client.run(&many).unwrap();
    client.run(&format!("DELETE FROM t WHERE tenant = {tenant} AND n % 3 = 0")).unwrap();
    client.run("VACUUM t").unwrap();
    rebalance(&mut client, "ALTER CLUSTER REBALANCE WITHOUT NODE (dn1)");
    assert_eq!(client.strings("SELECT count(*), count(DISTINCT tenant) FROM t").unwrap(), [["20299", "300"]]);
    assert_eq!(target.scalar("SELECT count(DISTINCT tenant) FROM public.t").unwrap(), "300");
    assert_eq!(cluster.wrong_rows(), None);
}

/// Who wants a table for himself stands in line for it behind a step, and before all who come later.
#[test]
fn whoever_waits_for_a_whole_table_holds_up_no_step() {
    let cluster = Cluster::start(2, 1).unwrap();
    let mut client = cluster.connect(0).unwrap();
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").unwrap();
    client.run("INSERT INTO t SELECT k, k FROM generate_series(1, 20000) AS k").unwrap();
    let on_node = || cluster.connect_datanode(1).unwrap();
    let (mut writer, mut whole, mut looker) = (on_node(), on_node(), on_node());
    let mut waits_for = |mode: &str| {
        let sql = format!(
            "SELECT count(*) FROM pg_locks WHERE relation = 'public.t'::regclass AND mode = '{mode}' AND NOT granted"
        );
        looker.scalar(&sql).unwrap() == "1"
    };
    let begun = Instant::now();
    // A step that has waited in vain lets this transaction end before it tries again: so another one takes its place.
    let mut next = on_node();
    writer.run("BEGIN; LOCK TABLE public.t IN ROW EXCLUSIVE MODE").unwrap();
    client.run("ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)").unwrap();
    let mut looked = Instant::now();
    while !waits_for("ExclusiveLock") {
        assert!(begun.elapsed() < DONE_MAX, "no step waits");
        if looked.elapsed() > Duration::from_secs(1) {
            next.run("BEGIN; LOCK TABLE public.t IN ROW EXCLUSIVE MODE").unwrap();
            writer.run("ROLLBACK").unwrap();
            std::mem::swap(&mut writer, &mut next);
            looked = Instant::now();
        }
    }
    whole.set_silence_max(DONE_MAX).unwrap();
    whole.send_query("BEGIN; LOCK TABLE public.t IN ACCESS EXCLUSIVE MODE; ROLLBACK").unwrap();
    while !waits_for("AccessExclusiveLock") {
        assert!(begun.elapsed() < DONE_MAX, "nobody waits for the table");
    }
    writer.run("ROLLBACK").unwrap();
    // It gets the table between two steps, and they go on.
    assert!(whole.wait().unwrap().iter().all(|answer| answer.error.is_none()));
    rebalance(&mut client, "ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)");
    assert_eq!(client.strings("SELECT count(*), sum(v) FROM t").unwrap(), [["20000", "200010000"]]);
    assert_eq!(cluster.wrong_rows(), None);
}

/// A step stands in line for its lock for a moment only, and all who write stand behind it; then it waits outside.
#[test]
fn a_long_transaction_keeps_nobody_else_from_writing() {
    let cluster = Cluster::start(2, 1).unwrap();
    let mut client = cluster.connect(0).unwrap();
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").unwrap();
    client.run("INSERT INTO t SELECT k, k FROM generate_series(1, 1000) AS k").unwrap();
    let (mut long, mut writer) = (cluster.connect(0).unwrap(), cluster.connect(0).unwrap());
    long.run("BEGIN; UPDATE t SET v = 0").unwrap();
    client.run("ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)").unwrap();
    let (begun, mut waited) = (Instant::now(), Duration::ZERO);
    for k in 2000.. {
        let one = Instant::now();
        writer.run(&format!("INSERT INTO t VALUES ({k}, 1)")).unwrap();
        waited += Some(one.elapsed()).filter(|took| *took > Duration::from_millis(80)).unwrap_or_default();
        if begun.elapsed() > Duration::from_secs(6) {
            break;
        }
    }
    assert!(waited < Duration::from_secs(2), "writers have waited for {waited:?} of six seconds");
    assert_eq!(client.strings("SELECT rows_moved FROM pgxc_rebalance").unwrap(), [["0"]]);
    long.run("COMMIT").unwrap();
    rebalance(&mut client, "ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)");
    assert_eq!(client.strings("SELECT count(*) FROM t WHERE v = 0").unwrap(), [["1000"]]);
    assert_eq!(cluster.wrong_rows(), None);
}

/// Steps come one after the other, each shorter than such a statement: planned anew, it locks its tables first.
#[test]
fn statements_that_take_longer_than_a_step_are_done_all_the_same() {
    let cluster = Cluster::start(2, 1).unwrap();
    let mut client = cluster.connect(0).unwrap();
    client.run("CREATE TABLE t (k int, v int) DISTRIBUTE BY HASH (k)").unwrap();
    client.run("CREATE TABLE u (k int, v int) DISTRIBUTE BY HASH (k)").unwrap();
    client.run("INSERT INTO u SELECT k, k FROM generate_series(1, 200000) AS k").unwrap();
    client.run("CREATE TABLE s (k int, v int) DISTRIBUTE BY ROUNDROBIN").unwrap();
    client.run("INSERT INTO s SELECT k, k FROM generate_series(1, 200) AS k").unwrap();
    client.run("CREATE MATERIALIZED VIEW m AS SELECT 1 AS one").unwrap();
    client.run("ALTER CLUSTER REBALANCE WITHOUT NODE (dn2) RATE 10000").unwrap();
    let begun = Instant::now();
    while client.scalar("SELECT buckets_done FROM pgxc_rebalance").unwrap() == "0" {
        assert!(begun.elapsed() < DONE_MAX, "no step");
    }
    client.run("INSERT INTO t SELECT k, 1 FROM generate_series(1, 1000) AS k, pg_sleep(1)").unwrap();
    client.run("INSERT INTO t SELECT u.k + 1, -u.v FROM u, pg_sleep(1) WHERE u.v <= 1000").unwrap();
    client.run("UPDATE t SET v = t.v + u.k FROM u, pg_sleep(0.5) WHERE u.v = t.v").unwrap();
    // LOCK TABLE does not know materialized views, so nothing is locked first here: such a statement may end with 40001.
    let unlocked = "WITH d AS (UPDATE s SET v = v + 1 RETURNING k) \
                    INSERT INTO t SELECT d.k, 0 FROM d, m, (SELECT pg_sleep(0.3) OFFSET 0) AS z";
    let done = client.run(unlocked).map_or_else(|error| error.code() == SqlState::SERIALIZATION_FAILURE, |_| true);
    assert!(done, "another error");
    assert_eq!(client.strings("SELECT state FROM pgxc_rebalance").unwrap(), [["running"]]);
    rebalance(&mut client, "ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)");
    assert_eq!(client.strings("SELECT count(*), sum(v) FROM t WHERE v <> 0").unwrap(), [["2000", "-498500"]]);
    assert_eq!(cluster.wrong_rows(), None);
}

/// The snapshot of such a block is younger than the plan of what came first, which takes none.
#[test]
fn rows_that_move_before_a_block_has_its_snapshot_are_seen_where_they_are() {
    let cluster = Cluster::start(2, 1).unwrap();
    let port = cluster.coordinators()[0];
    let (mut mover, mut reader) = (Client::connect(port).unwrap(), Client::connect(port).unwrap());
    mover.run("CREATE TABLE t (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").unwrap();
    mover.run("INSERT INTO t SELECT k, k FROM generate_series(1, 20) AS k").unwrap();
    let first = ["PREPARE p AS SELECT count(*) FROM t", "LOCK TABLE t IN ACCESS SHARE MODE", "SHOW DateStyle"];
    for first in first {
        for command in ["ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)", "ALTER CLUSTER REBALANCE"] {
            reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
            reader.run(first).unwrap();
            rebalance(&mut mover, command);
            for key in 1..=20 {
                let found = reader.strings(&format!("SELECT v FROM t WHERE k = {key}")).unwrap();
                assert_eq!(found, [[key.to_string()]], "{first}, {command}");
            }
            assert_eq!(reader.strings("SELECT count(*) FROM t").unwrap(), [["20"]], "{first}, {command}");
            reader.run("COMMIT").unwrap();
            if first.starts_with("PREPARE") {
                reader.run("DEALLOCATE p").unwrap();
            }
        }
    }
}

#[test]
fn what_a_rebalance_is_told_it_does() {
    let cluster = Cluster::start(2, 1).unwrap();
    let port = cluster.coordinators()[0];
    let mut client = Client::connect(port).unwrap();
    client.run("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)").unwrap();
    client.run("INSERT INTO t SELECT * FROM generate_series(1, 5000)").unwrap();
    for refused in [
        "ALTER CLUSTER REBALANCE PAUSE",
        "ALTER CLUSTER REBALANCE WITHOUT NODE (dn1, dn2)",
        "ALTER CLUSTER REBALANCE WITHOUT NODE nobody",
        "DROP NODE dn1",
        "DROP NODE dn2",
        "CREATE NODE dn2 WITH (TYPE = datanode, HOST = 'localhost', PORT = 1)",
        "CREATE NODE dn3 WITH (TYPE = datanode, HOST = 'localhost', PORT = 1)",
        "CREATE NODE c9 WITH (HOST = 'localhost', PORT = 1)",
        "CREATE NODE c9 WITH (TYPE = 'coordinator', PORT = -1)",
        "CREATE NODE c9 WITH (TYPE = 'coordinator', PREFERRED)",
        "ALTER NODE coord1 WITH (PREFERRED)",
    ] {
        client.run(refused).unwrap_err();
    }
    client.run("CREATE NODE c9 WITH (TYPE = 'coordinator')").unwrap();
    let told = client.strings("SELECT node_host, node_port, nodeis_preferred FROM pgxc_node WHERE node_name = 'c9'");
    assert_eq!(told.unwrap(), [["localhost", "5432", "f"]]);
    client.run("DROP NODE c9").unwrap();
    client.run("CREATE ROLE ordinary LOGIN").unwrap();
    let mut ordinary = Client::connect_with(port, &[("user", "ordinary"), ("database", "postgres")]).unwrap();
    for refused in ["ALTER CLUSTER REBALANCE", "DROP NODE dn2", "ALTER NODE dn2 WITH (PORT = 1)"] {
        assert_eq!(ordinary.run(refused).unwrap_err().code(), SqlState::INSUFFICIENT_PRIVILEGE, "{refused}");
    }
    // Slow enough to be met on its way.
    client.run("ALTER CLUSTER REBALANCE WITHOUT NODE (dn2) RATE 100").unwrap();
    let deadline = Instant::now() + DONE_MAX;
    let moved = "SELECT buckets_done > 0 FROM pgxc_rebalance";
    while client.strings(moved).unwrap() != [["t"]] {
        assert!(Instant::now() < deadline, "nothing moves");
        std::thread::sleep(POLL);
    }
    // It takes half a minute, for which nobody waits.
    client.run("SET statement_timeout = '15s'").unwrap();
    client.run("ANALYZE").unwrap();
    client.run("VACUUM").unwrap();
    client.run("RESET statement_timeout").unwrap();
    client.run("ALTER CLUSTER REBALANCE PAUSE").unwrap();
    assert_eq!(client.strings("SELECT state FROM pgxc_rebalance").unwrap(), [["paused"]]);
    assert_eq!(client.strings("SELECT count(*) FROM t").unwrap(), [["5000"]]);
    status_tells_of_a_paused_rebalance(&cluster, &mut client);
    client.run("ALTER CLUSTER REBALANCE CANCEL").unwrap();
    assert!(!cluster.loxo(&["status"]).unwrap().contains("rebalance"));
    rebalance(&mut client, "ALTER CLUSTER REBALANCE");
    assert_eq!(client.strings("SELECT count(DISTINCT k) FROM t").unwrap(), [["5000"]]);
}

fn status_tells_of_a_paused_rebalance(cluster: &Cluster, client: &mut Client) {
    let status = cluster.loxo(&["status"]).unwrap();
    let line = status.lines().find(|line| line.starts_with("rebalance ")).unwrap_or_else(|| panic!("{status}"));
    for words in ["rebalance paused: ", " buckets, ", " rows/s, ", " left"] {
        assert!(line.contains(words), "{line}");
    }
    let status: serde_json::Value = serde_json::from_str(&cluster.loxo(&["status", "--json"]).unwrap()).unwrap();
    let shown = &status["rebalance"];
    let number = |field: &str| shown[field].as_u64().unwrap_or_else(|| panic!("no {field} in {shown}"));
    assert_eq!(shown["state"], "paused");
    assert!(number("buckets_done") < number("buckets_total") && number("rows_moved") > 0, "{shown}");
    // 100 rows a second are allowed. The first steps, of which less than a second is counted, do not wait for theirs. On a busy
    // machine it may be less than one row.
    let (rate, left) = (number("rows_per_second"), number("seconds_left"));
    assert!(rate <= 2000 && left > 0, "{shown}");

    // The time that it was paused is not counted.
    client.run("ALTER CLUSTER REBALANCE RESUME").unwrap();
    assert_eq!(client.strings("SELECT idle > '0' FROM loxo.rebalance").unwrap(), [["t"]]);
    client.run("ALTER CLUSTER REBALANCE PAUSE").unwrap();
    let slower = format!("SELECT rows_per_second < {rate} / 4 FROM pgxc_rebalance");
    assert_eq!(client.strings(&slower).unwrap(), [["f"]]);
}

#[test]
fn whoever_listens_hears_of_all_datanodes_that_come_and_go() {
    let cluster = Cluster::start(3, 1).unwrap();
    let port = cluster.coordinators()[0];
    let mut listener = Client::connect(port).unwrap();
    listener.run("LISTEN news").unwrap();
    cluster.loxo(&["node", "remove", "dn3"]).unwrap();
    Client::connect(port).unwrap().run("NOTIFY news, 'after one has left'").unwrap();
    assert_eq!(listener.notification().unwrap().1, "after one has left");

    cluster.loxo(&["node", "add"]).unwrap();
    let mut client = Client::connect(port).unwrap();
    client.run("CREATE TABLE t (k int) DISTRIBUTE BY ROUNDROBIN TO NODE (dn3)").unwrap();
    client.run("CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_notify(''news'', new.k::text); RETURN new; END'").unwrap();
    client.run("CREATE TRIGGER tells AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION tell()").unwrap();
    client.run("INSERT INTO t VALUES (7)").unwrap();
    assert_eq!(listener.notification().unwrap().1, "7");
}

/// A COPY that stands alone is not refused, and triggers that the coordinator runs fire once for each row, also of a statement that was
/// planned again.
#[test]
fn copies_go_on_and_triggers_fire_once_while_rows_move() {
    const ROWS: i64 = 200;
    let cluster = Cluster::start(3, 2).unwrap();
    let [one, other] = cluster.coordinators() else { panic!("two coordinators") };
    let mut mover = Client::connect(*one).unwrap();
    mover.run("CREATE TABLE t (k int, v int) DISTRIBUTE BY HASH (k)").unwrap();
    mover.run("CREATE TABLE told (k int, v int) DISTRIBUTE BY HASH (v)").unwrap();
    mover.run("CREATE TABLE copied (k int) DISTRIBUTE BY HASH (k)").unwrap();
    mover.run("CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO told VALUES (new.k, new.v); RETURN new; END'").unwrap();
    mover.run("CREATE TRIGGER tells AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION tell()").unwrap();
    mover.run("CREATE TABLE read (k int, v int) DISTRIBUTE BY HASH (k)").unwrap();
    mover.run("INSERT INTO read SELECT g, g FROM generate_series(1, 3000) g").unwrap();
    let over = AtomicBool::new(false);
    let (copies, inserted) = std::thread::scope(|scope| {
        // The columns have been told: with what is placed anew they are the same.
        let told = scope.spawn(|| {
            let mut client = Client::connect(*other).unwrap();
            while !over.load(Ordering::Relaxed) {
                for sql in [
                    "SELECT v FROM read WHERE k = $1",
                    "SELECT a.v FROM read a JOIN read b ON a.v = b.k WHERE b.k = $1",
                    "UPDATE read SET v = v WHERE k = $1 RETURNING v",
                    "UPDATE read SET v = v WHERE v = $1 RETURNING v",
                ] {
                    let answer = client.extended(sql, &[Some("7")], CopyInput::default(), |_| false).unwrap();
                    assert!(answer.error.is_none(), "{sql}: {:?}", answer.error);
                    assert_eq!(answer.rows, [[Some("7".into())]], "{sql}");
                }
            }
        });
        let copies = scope.spawn(|| {
            let rows: String = (0..ROWS).map(|row| format!("{row}\n")).collect();
            let mut client = Client::connect(*other).unwrap();
            let mut copies = 0;
            while !over.load(Ordering::Relaxed) {
                let input = CopyInput { frames: &[rows.as_bytes()], fail: false };
                let answer = client.simple_copy("COPY copied FROM STDIN", input).unwrap();
                assert!(answer.error.is_none(), "{:?}", answer.error);
                copies += 1;
            }
            copies
        });
        let inserts = scope.spawn(|| {
            let mut client = Client::connect(*one).unwrap();
            let mut inserted = 0;
            while !over.load(Ordering::Relaxed) {
                client.run("BEGIN").unwrap();
                let done = (0..3).try_for_each(|row| {
                    client
                        .run(&format!("INSERT INTO t VALUES ({0}, {0}), ({1}, {1})", inserted + row, -inserted - row))
                        .map(drop)
                });
                match done.and_then(|()| client.run("COMMIT").map(drop)) {
                    Ok(()) => inserted += 3,
                    Err(error) => {
                        assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE, "{error}");
                        client.run("ROLLBACK").unwrap();
                    }
                }
            }
            inserted
        });
        // Also if a rebalance panics: who goes on until it is over would be waited for.
        let ends = Ends(&over);
        for _ in 0..2 {
            rebalance(&mut mover, "ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)");
            rebalance(&mut mover, "ALTER CLUSTER REBALANCE");
        }
        drop(ends);
        told.join().unwrap();
        (copies.join().unwrap(), inserts.join().unwrap())
    });
    assert!(copies > 3 && inserted > 3, "{copies} {inserted}");
    let count = |client: &mut Client, table: &str| {
        client.strings(&format!("SELECT count(*) FROM {table}")).unwrap().remove(0).remove(0).parse::<i64>().unwrap()
    };
    assert_eq!(count(&mut mover, "copied"), copies * ROWS);
    assert_eq!([count(&mut mover, "t"), count(&mut mover, "told")], [2 * inserted; 2]);
    assert_eq!(cluster.wrong_rows(), None);
}

/// What somebody has written runs with his rights, or not at all.
#[test]
fn functions_of_a_role_do_not_run_as_a_superuser() {
    let cluster = Cluster::start(2, 1).unwrap();
    let mut client = cluster.connect(0).unwrap();
    client.run("CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory").unwrap();
    let session = [("user", "mallory"), ("database", "postgres")];
    let mut mallory = Client::connect_with(cluster.coordinators()[0], &session).unwrap();
    mallory
        .run("CREATE FUNCTION f(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 > 0; END'")
        .unwrap();
    mallory.run("CREATE DOMAIN positive AS int CHECK (f(VALUE))").unwrap();
    mallory.run("CREATE TYPE pair AS (a int, b positive)").unwrap();
    mallory.run("CREATE OPERATOR !!! (FUNCTION = f, RIGHTARG = int)").unwrap();
    let calling = [
        "CREATE TABLE t (k int PRIMARY KEY CHECK (f(k)))",
        "CREATE TABLE t (k int PRIMARY KEY CHECK (!!! k))",
        "CREATE TABLE t (k int PRIMARY KEY, g bool GENERATED ALWAYS AS (f(k)) STORED)",
        "CREATE TABLE t (k int PRIMARY KEY); CREATE INDEX ON t (f(k))",
        "CREATE TABLE t (k int PRIMARY KEY); CREATE INDEX ON t (k) WHERE f(k)",
        "CREATE TABLE t (k int PRIMARY KEY, v positive)",
        "CREATE TABLE t (k int PRIMARY KEY, v positive[])",
        "CREATE TABLE t (k int PRIMARY KEY, v pair)",
    ];
    for sql in calling {
        for part in sql.split("; ") {
            mallory.run(part).unwrap_or_else(|error| panic!("{part}: {error}"));
        }
        let error = client.run("ALTER CLUSTER REPAIR t").expect_err(sql);
        assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{sql}");
        assert!(error.message().contains("f(integer) of role \"mallory\""), "{sql}: {error}");
        mallory.run("DROP TABLE t").unwrap();
    }
    // PostgreSQL's own that can be led to users' code, or ask who calls.
    for sql in [
        "CREATE TYPE mood AS ENUM ('a')",
        "CREATE FUNCTION js(mood) RETURNS json LANGUAGE plpgsql AS 'BEGIN RETURN ''{}''; END'",
        "CREATE CAST (mood AS json) WITH FUNCTION js(mood)",
    ] {
        mallory.run(sql).unwrap();
    }
    let led = [
        ("to_json", "CREATE TABLE t (k int PRIMARY KEY, m mood, CHECK (to_json(m) IS NOT NULL))"),
        ("random", "CREATE DOMAIN lucky AS int CHECK (random() >= 0); CREATE TABLE t (k int PRIMARY KEY, v lucky[])"),
    ];
    for (function, sql) in led {
        for part in sql.split("; ") {
            mallory.run(part).unwrap_or_else(|error| panic!("{part}: {error}"));
        }
        let error = client.run("ALTER CLUSTER REPAIR t").expect_err(sql);
        assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{sql}");
        assert!(error.message().contains(&format!("function {function}(")), "{sql}: {error}");
        mallory.run("DROP TABLE t").unwrap();
    }
    // Those that run a text or read the server never come to stand there.
    for sql in [
        "CREATE TABLE t (k int PRIMARY KEY CHECK (query_to_xml('SELECT f(1)', true, true, '') IS NOT NULL))",
        "CREATE TABLE t (k int PRIMARY KEY CHECK (schema_to_xml('public', true, true, '') IS NOT NULL))",
        "CREATE TABLE t (k int PRIMARY KEY CHECK (pg_read_file('f') IS NOT NULL))",
    ] {
        let error = mallory.run(sql).expect_err(sql);
        assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{sql}");
    }
    // What is not called when rows come is nobody's harm, nor what says by its types what it does.
    let harmless = "CREATE TABLE t (k int PRIMARY KEY, v bool DEFAULT f(1), \
         CHECK (k < 1000 AND now() IS NOT NULL AND length(k::text) BETWEEN 1 AND 9)) DISTRIBUTE BY HASH (k)";
    mallory.run(harmless).unwrap();
    mallory.run("INSERT INTO t SELECT generate_series(1, 100)").unwrap();
    // A superuser who distributes a table anew writes its rows, too.
    mallory.run("CREATE TABLE other (k int PRIMARY KEY); INSERT INTO other VALUES (1)").unwrap();
    mallory.run("CREATE INDEX ON other (f(k))").unwrap();
    for sql in [
        "ALTER TABLE other DISTRIBUTE BY REPLICATION",
        "CREATE TABLE child (k int PRIMARY KEY, o int REFERENCES other)",
    ] {
        assert_eq!(client.run(sql).expect_err(sql).code(), SqlState::FEATURE_NOT_SUPPORTED);
    }
    mallory.run("ALTER TABLE other DISTRIBUTE BY REPLICATION; DROP TABLE other").unwrap();
    mallory.run("CREATE VIEW v AS SELECT f(k) FROM t").unwrap();
    rebalance(&mut client, "ALTER CLUSTER REBALANCE WITHOUT NODE (dn2)");
    mallory.run("ALTER TABLE t ADD CHECK (f(k))").unwrap();
    client.run("ALTER CLUSTER REBALANCE").unwrap();
    let failed = "SELECT state, message FROM pgxc_rebalance";
    let deadline = Instant::now() + DONE_MAX;
    let found = loop {
        let found = client.strings(failed).unwrap().remove(0);
        if found[0] != "running" || Instant::now() > deadline {
            break found;
        }
        std::thread::sleep(POLL);
    };
    assert_eq!(found[0], "failed", "{found:?}");
    assert!(found[1].contains("ALTER FUNCTION public.f(integer) OWNER TO"), "{found:?}");
    client.run("ALTER FUNCTION f OWNER TO postgres").unwrap();
    rebalance(&mut client, "ALTER CLUSTER REBALANCE");
    assert_eq!(cluster.wrong_rows(), None);
}
