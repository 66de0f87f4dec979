//! Datanodes come to a cluster of several databases, and go.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use pgerror::SqlState;
use testkit::wire::Client;

use super::compare::{assert_same_lines, dump};
use super::{Cluster, PREPARED, Preparation, entries, fails_saying, out, server, succeeded, wait_for, work};

const DATABASES: [&str; 3] = ["postgres", "other", "third"];

const TABLES: [&str; 9] = [
    "CREATE TABLE h (k int PRIMARY KEY, v text) DISTRIBUTE BY HASH (k)",
    "CREATE TABLE r (k int, v text) DISTRIBUTE BY REPLICATION",
    "CREATE TABLE n (k int, v text) DISTRIBUTE BY ROUNDROBIN",
    "INSERT INTO h SELECT i, md5(i::text) FROM generate_series(1, 2000) AS i",
    "INSERT INTO r SELECT i, current_database() FROM generate_series(1, 200) AS i",
    "INSERT INTO n SELECT i, md5(i::text) FROM generate_series(1, 200) AS i",
    "CREATE TABLE account (id int PRIMARY KEY, money int) DISTRIBUTE BY HASH (id)",
    "CREATE TABLE history (id serial, what text) DISTRIBUTE BY ROUNDROBIN",
    "CREATE TABLE copies (n int) DISTRIBUTE BY REPLICATION",
];

fn connect(port: u16, database: &str) -> Client {
    Client::connect_with(port, &[("user", "postgres"), ("database", database)]).unwrap()
}

/// Three datanodes, three databases with tables, and a role that was made in the second one.
fn cluster(name: &str) -> Cluster {
    let c = Cluster::of(name, 3);
    c.client().run("CREATE DATABASE other; ").unwrap();
    c.client().run("CREATE DATABASE third").unwrap();
    for database in DATABASES {
        let mut client = connect(c.port, database);
        for sql in TABLES {
            client.run(sql).unwrap();
        }
        client.run("INSERT INTO account SELECT i, 100 FROM generate_series(0, 999) AS i").unwrap();
    }
    let mut other = connect(c.port, "other");
    for sql in [
        "CREATE ROLE clerk LOGIN PASSWORD 'secret'",
        "GRANT SELECT ON h TO clerk",
        "ALTER ROLE clerk SET work_mem = '7MB'",
        "ALTER DATABASE other SET lock_timeout = '70s'",
        "GRANT CONNECT ON DATABASE third TO clerk",
    ] {
        other.run(sql).unwrap();
    }
    c
}

/// What nobody changes meanwhile.
fn contents(c: &Cluster) -> Vec<Vec<String>> {
    let sum =
        |table: &str| format!("SELECT md5(string_agg(t::text, ',' ORDER BY t::text)), count(*) FROM {table} AS t");
    let sums = ["h", "r", "n"].map(sum).join(" UNION ALL ");
    DATABASES.iter().flat_map(|database| connect(c.port, database).strings(&sums).unwrap()).collect()
}

fn datanodes(c: &Cluster) -> Vec<String> {
    let sql =
        "SELECT string_agg(node_name || ' ' || node_port, ', ' ORDER BY oid) FROM pgxc_node WHERE node_type = 'D'";
    DATABASES.iter().map(|database| connect(c.port, database).scalar(sql).unwrap()).collect()
}

/// Each database has so many.
#[track_caller]
fn assert_datanodes(c: &Cluster, count: usize) {
    let found = datanodes(c);
    assert!(found.iter().all(|names| *names == found[0]), "{found:?}");
    assert_eq!(found[0].split(", ").count(), count, "{found:?}");
    assert!(out(c.loxo(&["check"], &["--data"])).contains("every row is where it belongs"));
}

/// As [`work`] does in the first database.
fn work_in(c: &Cluster, database: &str, is_enough: &AtomicBool) -> u32 {
    let mut client = connect(c.port, database);
    let mut rounds = 0;
    while !is_enough.load(Ordering::Acquire) {
        let (from, to) = (rounds * 7 % 1000, rounds * 13 % 1000);
        let sql = format!(
            "BEGIN; UPDATE account SET money = money - 1 WHERE id = {from}; \
             UPDATE account SET money = money + 1 WHERE id = {to}; \
             INSERT INTO history (what) VALUES ('{from} to {to}'); INSERT INTO copies VALUES ({rounds}); COMMIT"
        );
        match client.run(&sql) {
            Ok(_) => rounds += 1,
            Err(error) => {
                assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE, "{error}");
                client.run("ROLLBACK").unwrap();
            }
        }
    }
    rounds
}

#[test]
fn all_databases_get_a_datanode_and_lose_it_while_they_serve() {
    let c = cluster("several");
    let before = contents(&c);
    let is_enough = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let workers = [scope.spawn(|| work(&c, &is_enough)), scope.spawn(|| work_in(&c, "other", &is_enough))];
        let grown = std::panic::catch_unwind(|| grow_and_shrink(&c));
        is_enough.store(true, Ordering::Release);
        let rounds = workers.map(|worker| worker.join().unwrap());
        grown.unwrap();
        rounds
    });
    assert_eq!(contents(&c), before);
    for (database, rounds) in DATABASES.iter().zip(rounds) {
        let sql =
            "SELECT (SELECT sum(money) FROM account), (SELECT count(*) FROM history), (SELECT count(*) FROM copies)";
        let found = connect(c.port, database).strings(sql).unwrap();
        assert_eq!(found, [["100000".to_owned(), rounds.to_string(), rounds.to_string()]], "{database}");
    }
    let mut client = c.client();
    client.run("CREATE DATABASE fourth").unwrap();
    connect(c.port, "fourth").run("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)").unwrap();
    // What a removed server has kept is no obstacle to what comes.
    for database in ["other", "fourth"] {
        wait_for("nobody is there", || client.run(&format!("DROP DATABASE {database}")).is_ok());
    }
    client.run("CREATE DATABASE other").unwrap();
    succeeded(c.loxo(&["up"], &["--datanodes", "4"]));
    assert_datanodes(&c, 4);
}

fn grow_and_shrink(c: &Cluster) {
    let before = contents(c);
    assert!(out(c.loxo(&["node", "add"], &["--rebalance"])).contains("database third: 1024 buckets"));
    assert_datanodes(c, 4);
    assert_eq!(contents(c), before);
    for database in DATABASES {
        let mut fourth = connect(c.port + 103, database);
        assert!(fourth.scalar("SELECT count(*) FROM h").unwrap().parse::<u32>().unwrap() > 300, "{database}");
        assert_eq!(fourth.scalar("SELECT min(v) FROM r").unwrap(), database);
    }
    assert_eq!(out(c.loxo(&["rebalance"], &["--plan"])).matches("nothing has to be moved").count(), 3);
    connect(c.port, "third").run("CREATE ROLE late IN ROLE clerk").unwrap();
    assert_same_lines(&dump(c.port + 100), &dump(c.port + 103));
    let mut fourth = connect(c.port + 103, "other");
    assert_eq!(fourth.scalar("SHOW lock_timeout").unwrap(), "70s");
    assert_eq!(fourth.scalar("SELECT has_table_privilege('late', 'h', 'SELECT')").unwrap(), "t");
    drop(fourth);

    succeeded(c.loxo(&["node", "remove", "dn4"], &[]));
    assert_datanodes(c, 3);
    assert_eq!(contents(c), before);
}

/// Runs a command until it comes to a control point, interrupts it there, and gives what it has said.
fn interrupted_at(c: &Cluster, point: &str, arguments: &[&str]) -> String {
    let said = std::env::temp_dir().join(format!("lx{}-{point}.said", std::process::id()));
    let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
    loxo.args(arguments).arg("--dir").arg(&c.dir).env("LOXO_CONTROL_POINTS", format!("{point}=pause"));
    let file = std::fs::File::create(&said).unwrap();
    let mut child = loxo.stdout(Stdio::null()).stderr(file).spawn().unwrap();
    let text = || std::fs::read_to_string(&said).unwrap();
    wait_for("the control point", || text().contains(" reached") || child.try_wait().unwrap().is_some());
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success(), "{}", text());
    assert_eq!(child.wait().unwrap().code(), Some(1), "{}", text());
    let text = text();
    std::fs::remove_file(said).unwrap();
    text
}

fn has_control_points() -> bool {
    let binary = std::fs::read(env!("CARGO_BIN_EXE_loxo")).unwrap();
    binary.windows(19).any(|bytes| bytes == b"LOXO_CONTROL_POINTS")
}

#[test]
fn a_command_that_was_interrupted_between_two_databases_is_taken_up() {
    if !has_control_points() {
        return;
    }
    let c = cluster("between");
    let before = contents(&c);
    let said = interrupted_at(&c, "node-joins-another-database", &["node", "add"]);
    assert!(said.contains("not yet of every database; it lacks: other, third"), "{said}");
    assert_eq!(c.nodes()[3]["lacking"], serde_json::json!(["other", "third"]));
    assert_eq!(entries(&c.dir, "dn4"), ["dn4", "dn4.log"]);

    let (mut first, mut other) = (c.client(), connect(c.port, "other"));
    for sql in [
        "CREATE ROLE no",
        "ALTER ROLE clerk NOLOGIN",
        "ALTER DATABASE other SET work_mem = '9MB'",
        "CREATE DATABASE no",
    ] {
        let error = other.run(sql).unwrap_err();
        assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{sql}: {error}");
    }
    other.run("CREATE TABLE meanwhile (k int) DISTRIBUTE BY HASH (k)").unwrap();
    other.run("INSERT INTO meanwhile SELECT generate_series(1, 100)").unwrap();
    first.run("CREATE ROLE yes").unwrap();
    first.run("ALTER DATABASE other SET work_mem = '9MB'").unwrap();
    first.run("CREATE DATABASE fourth").unwrap();
    let count = "SELECT count(*) FROM pgxc_node WHERE node_type = 'D'";
    assert_eq!(connect(c.port, "fourth").scalar(count).unwrap(), "4");
    assert_eq!(first.run("DROP NODE dn4").unwrap_err().code(), SqlState::OBJECT_IN_USE);
    let error = other.run("CREATE NODE dn4 WITH (TYPE = 'datanode', HOST = '127.0.0.1', PORT = 9)").unwrap_err();
    assert_eq!(error.code(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "{error}");
    assert!(out(c.loxo(&["check"], &["--data"])).contains("every row is where it belongs"));

    succeeded(c.loxo(&["up"], &["--datanodes", "4"]));
    assert_datanodes(&c, 4);
    assert_eq!(c.nodes()[3]["lacking"], serde_json::Value::Null);
    succeeded(c.loxo(&["rebalance"], &[]));
    assert_datanodes(&c, 4);
    assert_eq!(connect(c.port + 103, "other").scalar("SHOW work_mem").unwrap(), "9MB");
    connect(c.port, "other").run("DROP ROLE yes").unwrap();

    interrupted_at(&c, "node-leaves-the-next-database", &["node", "remove", "dn4"]);
    assert_eq!(c.nodes()[3]["lacking"], serde_json::json!(["fourth"]));
    succeeded(c.loxo(&["node", "remove", "dn4"], &[]));
    assert_datanodes(&c, 3);
    assert_eq!(connect(c.port, "other").scalar("SELECT count(*) FROM meanwhile").unwrap(), "100");
    assert_eq!(contents(&c), before);
}

#[test]
fn roles_that_another_database_changes_meanwhile_are_noticed() {
    let c = Cluster::up("noticed");
    let mut client = c.client();
    client.run("CREATE ROLE boss").unwrap();
    client.run("CREATE DATABASE other").unwrap();
    let mut other = connect(c.port, "other");
    other.run("CREATE ROLE clerk IN ROLE boss").unwrap();
    let new = server(&[PREPARED]);
    let preparation = Preparation::new(&c, new.port());
    let create = format!("CREATE NODE dn3 WITH (TYPE = 'datanode', HOST = '127.0.0.1', PORT = {})", new.port());
    for change in [
        "CREATE ROLE late",
        "REVOKE boss FROM clerk",
        "GRANT pg_monitor TO clerk",
        "REVOKE pg_monitor FROM clerk",
        "ALTER ROLE clerk VALID UNTIL '2100-01-01'",
        "ALTER ROLE clerk PASSWORD 'other'",
        "ALTER ROLE clerk SET work_mem = '7MB'",
        "ALTER ROLE clerk RESET work_mem",
    ] {
        preparation.once().unwrap();
        other.run(change).unwrap();
        let error = client.run(&create).unwrap_err();
        assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE, "{change}: {error}");
        assert!(error.message().contains("roles of the cluster have changed"), "{change}: {error}");
    }
    preparation.once().unwrap();
    // A change under way is waited for.
    other.run("BEGIN; CREATE ROLE later").unwrap();
    client.send_query(&create).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    other.run("COMMIT").unwrap();
    let error = client.wait().unwrap().pop().and_then(|answer| answer.error).expect("the roles are others");
    assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE, "{error}");
    // Nothing has come of it: another server can become that node.
    let new = server(&[PREPARED]);
    let preparation = Preparation::new(&c, new.port());
    let create = format!("CREATE NODE dn3 WITH (TYPE = 'datanode', HOST = '127.0.0.1', PORT = {})", new.port());
    preparation.once().unwrap();
    client.run(&create).unwrap();
    assert_eq!(other.run("CREATE ROLE no").unwrap_err().code(), SqlState::FEATURE_NOT_SUPPORTED);
    other.run(&create).unwrap();
    other.run("CREATE ROLE yes").unwrap();
    assert_same_lines(&dump(c.port + 100), &dump(new.port()));
}

#[test]
fn a_server_of_a_real_host_keeps_nothing_of_a_refused_call_and_may_come_again() {
    let c = Cluster::up("kept");
    let mut client = c.client();
    client.run("CREATE ROLE clerk").unwrap();
    client.run("CREATE DATABASE other").unwrap();
    client.run("CREATE DATABASE third").unwrap();
    let mut third = connect(c.port, "third");
    // The order of these columns is none that a dump makes.
    for sql in [
        "CREATE TABLE mother (k int) DISTRIBUTE BY HASH (k)",
        "CREATE TABLE child (own int) INHERITS (mother)",
        "ALTER TABLE mother ADD COLUMN late int",
    ] {
        third.run(sql).unwrap();
    }
    let new = server(&[PREPARED]);
    let (config, port) = (c.dir.join("cluster.toml"), new.port().to_string());
    let loxo = |arguments: &[&str]| {
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        loxo.args(arguments).arg("--config").arg(&config).output().unwrap()
    };
    let add = ["node", "add", "--name", "far", "--host", "127.0.0.1", "--port", &port];
    let databases = || {
        let sql = "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE NOT datistemplate";
        new.connect().unwrap().scalar(sql).unwrap()
    };
    fails_saying(loxo(&add), &["cannot be made like the primary datanode", "child"]);
    assert_eq!(databases(), "postgres");
    assert_eq!(new.connect().unwrap().scalar("SELECT count(*) FROM pg_roles WHERE rolname = 'clerk'").unwrap(), "0");
    third.run("DROP TABLE mother CASCADE").unwrap();

    assert!(out(loxo(&add)).contains("id = 2"));
    assert_eq!(databases(), "other postgres third");
    fails_saying(loxo(&add), &["far is a datanode already"]);
    third.run("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)").unwrap();
    third.run("INSERT INTO t SELECT generate_series(1, 1000)").unwrap();
    succeeded(loxo(&["rebalance"]));
    succeeded(loxo(&["node", "remove", "far"]));
    assert_eq!(third.scalar("SELECT count(*) FROM t").unwrap(), "1000");
    drop(third);
    // On the server they are still what they were.
    for sql in ["DROP DATABASE third", "DROP DATABASE other"] {
        wait_for("nobody is there", || client.run(sql).is_ok());
    }
    client.run("CREATE DATABASE third").unwrap();
    assert_eq!(databases(), "other postgres third");
    assert!(out(loxo(&add)).contains("id = 3"));
    assert_eq!(databases(), "postgres third");
    client.run("CREATE DATABASE other").unwrap();
    assert_eq!(databases(), "other postgres third");
}

/// The sequences of all databases go on where they were.
fn histories(c: &Cluster) -> Vec<String> {
    let next = "INSERT INTO history (what) VALUES ('next') RETURNING id";
    DATABASES.iter().map(|database| connect(c.port, database).scalar(next).unwrap()).collect()
}

#[test]
fn another_datanode_becomes_the_primary_one_of_all_databases() {
    let c = cluster("handed");
    for database in DATABASES {
        let mut client = connect(c.port, database);
        for sql in [
            "CREATE MATERIALIZED VIEW mv AS SELECT count(*) AS rows, current_database() AS made_in FROM h",
            "SELECT lo_from_bytea(4242, current_database()::text::bytea)",
            "INSERT INTO history (what) VALUES ('one')",
        ] {
            client.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
    let seen = || -> Vec<String> {
        let sql = "SELECT concat(rows, made_in, convert_from(lo_get(4242), 'UTF8')) FROM mv";
        DATABASES.iter().map(|database| connect(c.port, database).scalar(sql).unwrap()).collect()
    };
    let (before, seen_before) = (contents(&c), seen());
    let by_hand = |sql: &str| connect(c.port + 100, "third").run(sql).unwrap();
    by_hand("CREATE TABLE public.by_hand AS SELECT 1 AS k");
    fails_saying(c.loxo(&["node", "primary", "dn2"], &[]), &["public.by_hand", "third", "dn1"]);
    by_hand("DROP TABLE public.by_hand");
    succeeded(c.loxo(&["node", "primary", "dn2"], &[]));
    assert_eq!(contents(&c), before);
    assert_eq!(seen(), seen_before);
    assert_eq!(histories(&c), ["2", "2", "2"]);
    for database in DATABASES {
        let primary = "SELECT node_name FROM pgxc_node WHERE nodeis_primary";
        assert_eq!(connect(c.port, database).scalar(primary).unwrap(), "dn2", "{database}");
    }
    let mut client = c.client();
    client.run("CREATE DATABASE fourth").unwrap();
    wait_for("nobody is there", || client.run("DROP DATABASE fourth").is_ok());
    assert_datanodes(&c, 3);
    if has_control_points() {
        let (config, old) = (c.dir.join("cluster.toml"), c.dir.join("old.toml"));
        for (new, by, next) in [("dn3", "up", "3"), ("dn1", "--dir", "4"), ("dn2", "--config", "5")] {
            a_swap_that_is_interrupted_happens_in_all_databases(&c, new, by);
            assert_eq!(contents(&c), before);
            assert_eq!(seen(), seen_before);
            assert_eq!(histories(&c), [next; 3]);
            if new == "dn3" {
                std::fs::copy(&config, &old).unwrap();
            }
        }
    }
    succeeded(c.loxo(&["node", "remove", "dn1"], &[]));
    assert_datanodes(&c, 2);
    assert_eq!(contents(&c), before);
}

/// Ended by `loxo up`; by the same command; or by that with a file in which another datanode is the primary one.
fn a_swap_that_is_interrupted_happens_in_all_databases(c: &Cluster, new: &str, by: &str) {
    let primary = |more: &[&str]| {
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        loxo.args(["node", "primary", new]).args(more);
        loxo
    };
    let dir = c.dir.to_str().unwrap();
    let mut interrupted = primary(&["--dir", dir]);
    let ended = interrupted.env("LOXO_CONTROL_POINTS", "primary-swapped-on-one=abort").output().unwrap();
    assert_eq!(ended.status.code(), None, "{}", String::from_utf8_lossy(&ended.stderr));
    let prepared = || -> Vec<String> {
        let sql = "SELECT count(DISTINCT database) FROM pg_prepared_xacts WHERE gid LIKE 'loxo\\_primary%'";
        (0..3).map(|node| Client::connect(c.port + 100 + node).unwrap().scalar(sql).unwrap()).collect()
    };
    assert!(prepared().contains(&"2".to_owned()), "{:?}", prepared());
    match by {
        "up" => drop(succeeded(c.loxo(&["up"], &[]))),
        "--dir" => drop(succeeded(primary(&["--dir", dir]).output().unwrap())),
        _ => drop(succeeded(primary(&["--config", &format!("{dir}/old.toml")]).output().unwrap())),
    }
    assert_eq!(prepared(), ["0", "0", "0"]);
    succeeded(c.loxo(&["up"], &[]));
    assert_eq!(c.config().primary().name, new);
    assert_datanodes(c, 3);
}

fn stop_server(c: &Cluster, name: &str) {
    let pid = std::fs::read_to_string(c.dir.join(name).join("postmaster.pid")).unwrap();
    let pid = pid.lines().next().unwrap();
    assert!(Command::new("kill").args(["-QUIT", pid]).status().unwrap().success());
    wait_for("its end", || !c.dir.join(name).join("postmaster.pid").exists());
}

#[test]
fn a_lost_datanode_is_given_up_in_all_databases() {
    let c = cluster("lost");
    let held = |database: &str| -> u32 {
        let count = |node| connect(c.port + 100 + node, database).scalar("SELECT count(*) FROM h").unwrap();
        (0..2).map(|node| count(node).parse::<u32>().unwrap()).sum()
    };
    let left = DATABASES.map(held);
    for database in DATABASES {
        connect(c.port, database).run("ANALYZE").unwrap();
    }
    stop_server(&c, "dn3");
    let mut client = c.client();
    // Left by a dead session. Nobody can end it before the datanode has left.
    let half = "INSERT INTO loxo.database (name, state) VALUES ('half', 'creating')";
    Client::connect(c.port + 100).unwrap().run(half).unwrap();
    let error = client.run("DROP NODE dn3 LOST").unwrap_err();
    assert_eq!(
        (error.code(), error.message().contains("belongs to database")),
        (SqlState::OBJECT_IN_USE, true),
        "{error}"
    );
    let asked = c.loxo(&["node", "remove", "dn3", "--lost"], &[]);
    let told = String::from_utf8(asked.stdout.clone()).unwrap();
    fails_saying(asked, &["nothing was done", "--yes"]);
    for database in DATABASES {
        assert!(told.contains(&format!("database {database}:\n")), "{told}");
    }
    assert_eq!(told.matches("1365 of 4096 buckets of the map over all datanodes").count(), 3, "{told}");
    assert_eq!(told.matches("public.copies").count(), 0, "{told}");
    // Likewise; this one gets its name again, and has the datanode still when the first database has let it go.
    let renamed = "UPDATE loxo.database SET state = 'renaming', new_name = 'thirdly' WHERE name = 'third'; \
         INSERT INTO loxo.database (name, state) VALUES ('thirdly', 'reserved')";
    Client::connect(c.port + 100).unwrap().run(renamed).unwrap();
    if has_control_points() {
        interrupted_at(&c, "lost-leaves-the-next-database", &["node", "remove", "dn3", "--lost", "--yes"]);
    }
    succeeded(c.loxo(&["node", "remove", "dn3", "--lost", "--yes"], &[]));
    assert_datanodes(&c, 2);
    for (database, left) in DATABASES.iter().zip(left) {
        let mut client = connect(c.port, database);
        assert_eq!(client.scalar("SELECT count(*) FROM h").unwrap(), left.to_string(), "{database}");
        assert_eq!(client.scalar("SELECT count(*) FROM r").unwrap(), "200", "{database}");
        client.run("INSERT INTO h SELECT i FROM generate_series(1, 2000) AS i ON CONFLICT DO NOTHING").unwrap();
        assert_eq!(client.scalar("SELECT count(*) FROM h").unwrap(), "2000", "{database}");
    }
    let half = "SELECT count(*) FROM loxo.database WHERE name = 'half'";
    wait_for("the end of what was half made", || client.scalar(half).unwrap() == "0");
    client.run("CREATE DATABASE half").unwrap();
    connect(c.port, "half").run("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)").unwrap();
    succeeded(c.loxo(&["up"], &["--datanodes", "3"]));
    assert_datanodes(&c, 3);
}
