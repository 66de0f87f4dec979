//! The real binary against real PostgreSQL servers: datanodes come to a running cluster, and go.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cluster::join::{Join, Prepared};
use cluster::{Config, Datanode, Progress};
use pgerror::{Result, SqlState};
use testkit::wire::Client;
use testkit::{Server, ServerOptions};

#[path = "growing/compare.rs"]
mod compare;
#[path = "growing/databases.rs"]
mod databases;
#[path = "growing/primary.rs"]
mod primary;

use compare::{assert_same_lines, dump, metadata};

const PREPARED: (&str, &str) = ("max_prepared_transactions", "100");

/// A local cluster; removed when the test ends, however it ends.
struct Cluster {
    dir: PathBuf,
    port: u16,
}

impl Cluster {
    /// With two datanodes and one coordinator.
    fn up(name: &str) -> Self {
        Self::of(name, 2)
    }

    /// With so many datanodes and one coordinator.
    fn of(name: &str, datanodes: usize) -> Self {
        let dir = std::env::temp_dir().join(format!("lx{}-{name}", std::process::id()));
        let port = testkit::free_ports(&[0, 50, 60, 100, 101, 102, 103, 104, 105]).expect("free ports");
        let cluster = Self { dir, port };
        let shape = ["--port", &port.to_string(), "--datanodes", &datanodes.to_string(), "--set", "fsync=off"];
        succeeded(cluster.loxo(&["up"], &shape));
        cluster
    }

    fn loxo(&self, command: &[&str], more: &[&str]) -> Output {
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        loxo.args(command).arg("--dir").arg(&self.dir).args(more).output().unwrap()
    }

    fn client(&self) -> Client {
        Client::connect(self.port).unwrap()
    }

    fn config(&self) -> Config {
        Config::load(&self.dir.join("cluster.toml")).unwrap()
    }

    fn nodes(&self) -> serde_json::Value {
        serde_json::from_slice(&succeeded(self.loxo(&["node", "list"], &["--json"])).stdout).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.loxo(&["down"], &["--wipe"]);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[track_caller]
fn succeeded(output: Output) -> Output {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The command must fail and explain itself with all these words.
#[track_caller]
fn fails_saying(output: Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for word in words {
        assert!(text.contains(word), "\"{word}\" is not in: {text}");
    }
}

fn server(settings: &[(&str, &str)]) -> Server {
    let settings = settings.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    Server::start(&ServerOptions { settings, ..ServerOptions::default() }).unwrap()
}

fn datanode(name: &str, port: u16) -> Datanode {
    Datanode { name: name.to_owned(), id: None, host: "127.0.0.1".to_owned(), port, primary: false, preferred: false }
}

/// Prepares servers; the runtime must outlive the connections.
struct Preparation {
    runtime: tokio::runtime::Runtime,
    config: Config,
    new: Datanode,
}

impl Preparation {
    fn new(cluster: &Cluster, port: u16) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        Self { runtime, config: cluster.config(), new: datanode("dn3", port) }
    }

    fn once(&self) -> Result<Prepared> {
        self.runtime.block_on(async { Join::new(&self.config, &self.new, &Progress::quiet()).await?.prepare().await })
    }
}

#[test]
fn a_prepared_server_is_like_the_primary_datanode() {
    let c = Cluster::up("prepared");
    let mut client = c.client();
    for statement in statements(include_str!("growing/schema.sql")) {
        client.run(&statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    // Not for coordinators: made on each datanode.
    let on_nodes = "CREATE FUNCTION note_ddl() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
        CREATE EVENT TRIGGER note_ddl ON ddl_command_end EXECUTE FUNCTION note_ddl()";
    for port in [c.port + 100, c.port + 101] {
        Client::connect(port).unwrap().run(on_nodes).unwrap();
    }
    let new = server(&[PREPARED]);
    let preparation = Preparation::new(&c, new.port());
    let generation = |port: u16| -> i64 {
        let sql = "SELECT loxo.generation_of(last_value) FROM loxo.generation";
        Client::connect(port).unwrap().scalar(sql).unwrap().parse().unwrap()
    };
    let primary = c.port + 100;
    let before = generation(primary);
    let prepared = preparation.once().unwrap();
    assert_eq!(prepared.id, 2);
    let wanted = dump(primary);
    for word in [
        "CREATE TRIGGER \"loxo:log \\it\"",
        "loxo.tell_move.",
        "loxo.tell_row",
        "ENABLE REPLICA RULE keep",
        "ALTER DATABASE postgres SET bytea_output",
        "ALTER ROLE clerk IN DATABASE postgres SET",
        "GRANT CREATE ON DATABASE postgres TO boss WITH GRANT OPTION",
        "CREATE EVENT TRIGGER note_ddl",
        "PASSWORD 'SCRAM-SHA-256",
    ] {
        assert!(wanted.contains(word), "\"{word}\" is not in the dump, so nothing is compared:\n{wanted}");
    }
    assert_same_lines(&wanted, &dump(new.port()));
    assert_eq!(metadata(primary), metadata(new.port()));
    // Materialized views have their rows on the first datanode alone.
    let populated = "SELECT oid::regclass::text, relispopulated FROM pg_class WHERE relkind = 'm' ORDER BY 1";
    let second = Client::connect(c.port + 101).unwrap().strings(populated).unwrap();
    assert_eq!(second, new.connect().unwrap().strings(populated).unwrap());
    let mut server = new.connect().unwrap();
    let mut primary_client = Client::connect(primary).unwrap();
    assert_eq!(
        prepared.catalog_version.to_string(),
        primary_client.scalar("SELECT version FROM loxo.catalog_version").unwrap()
    );
    assert_eq!(server.scalar("SELECT node_id FROM loxo.identity").unwrap(), "2");
    let own = "SELECT i.system_identifier = c.system_identifier FROM loxo.identity AS i, pg_control_system() AS c";
    assert_eq!(server.scalar(own).unwrap(), "t");
    // Fences go on meanwhile, and pass it by.
    assert!((before..=generation(primary)).contains(&generation(new.port())));

    // Triggers that tell of moves are found again by their names, and what captures goes with what it captures for.
    let moves = "SELECT bool_and(tgname = 'loxo.tell_move.' || tgrelid::oid), count(*) FROM pg_trigger
        WHERE tgfoid = 'loxo.tell_move()'::regprocedure AND tgparentid = 0";
    assert_eq!(server.strings(moves).unwrap(), [["t", "2"]]);
    let captures = "SELECT count(*) FROM pg_trigger WHERE tgfoid = 'loxo.capture()'::regprocedure";
    let before: u32 = server.scalar(captures).unwrap().parse().unwrap();
    server.run("DROP TRIGGER \"log \\it\" ON sales.item").unwrap();
    assert_eq!(server.scalar(captures).unwrap(), (before - 1).to_string());
}

/// The statements of a file: each ends with a semicolon at a line's end, but in a body.
fn statements(text: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut statement = String::new();
    for line in text.lines().filter(|line| !line.starts_with("--")) {
        statement += line;
        statement.push('\n');
        if line.ends_with(';') && statement.matches("$$").count().is_multiple_of(2) {
            statements.push(std::mem::take(&mut statement));
        }
    }
    assert!(statement.trim().is_empty(), "{statement}");
    statements
}

#[test]
fn what_an_interrupted_call_left_is_replaced_and_rows_never_are() {
    let c = Cluster::up("again");
    let mut client = c.client();
    client.run("CREATE TABLE first (k int) DISTRIBUTE BY HASH (k)").unwrap();
    client.run("CREATE ROLE passing").unwrap();
    let new = server(&[PREPARED]);
    let preparation = Preparation::new(&c, new.port());
    {
        // Of one call, which begins again because the schema has changed: what has gone meanwhile goes here too.
        let (runtime, config) = (&preparation.runtime, &preparation.config);
        let join = runtime.block_on(Join::new(config, &preparation.new, &Progress::quiet())).unwrap();
        runtime.block_on(join.prepare()).unwrap();
        client.run("DROP ROLE passing").unwrap();
        client.run("CREATE TABLE second (k int) DISTRIBUTE BY MODULO (k)").unwrap();
        runtime.block_on(join.prepare()).unwrap();
        assert_same_lines(&dump(c.port + 100), &dump(new.port()));
    }
    client.run("DROP TABLE first").unwrap();
    preparation.once().unwrap();
    assert_same_lines(&dump(c.port + 100), &dump(new.port()));
    assert_eq!(metadata(c.port + 100), metadata(new.port()));

    // Killed between DROP DATABASE and CREATE DATABASE.
    let mut template = Client::connect_with(new.port(), &[("user", "postgres"), ("database", "template1")]).unwrap();
    template.run("DROP DATABASE postgres WITH (FORCE)").unwrap();
    drop(template);
    preparation.once().unwrap();
    assert_same_lines(&dump(c.port + 100), &dump(new.port()));

    new.connect().unwrap().run("INSERT INTO second VALUES (1)").unwrap();
    let error = preparation.once().unwrap_err();
    assert!(error.message().contains("table public.second has rows"), "{error}");
    assert_eq!(new.connect().unwrap().scalar("SELECT count(*) FROM second").unwrap(), "1");
}

#[test]
fn servers_that_do_not_fit_are_refused_and_left_alone() {
    let c = Cluster::up("unfit");
    let said = |server: &Server| Preparation::new(&c, server.port()).once().unwrap_err().to_string();
    let holds = server(&[PREPARED]);
    holds.connect().unwrap().run("CREATE TABLE precious (a int)").unwrap();
    assert!(said(&holds).contains("relation public.precious"));
    holds.connect().unwrap().run("TABLE precious").unwrap();

    let cannot_prepare = server(&[("max_prepared_transactions", "0")]);
    assert!(said(&cannot_prepare).contains("max_prepared_transactions = 0"));
    let latin = ServerOptions { encoding: "LATIN1".into(), locale: "C".into(), settings: Vec::new() };
    let latin = Server::start(&latin).unwrap();
    let error = said(&latin);
    assert!(error.contains("encoding differs") && error.contains("collation differs"), "{error}");
    for server in [&cannot_prepare, &latin] {
        let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'loxo'";
        assert_eq!(server.connect().unwrap().scalar(schemas).unwrap(), "0");
    }
    let far_away = server(&[PREPARED, ("timezone", "Asia/Tokyo")]);
    assert!(said(&far_away).contains("only on the new server: setting TimeZone Asia/Tokyo"));

    // A datanode of this cluster, another one's, and nothing at all.
    let member = Preparation::new(&c, c.port + 101).once().unwrap_err().to_string();
    assert!(member.contains("says that it is datanode dn2"), "{member}");
    let other = Cluster::up("unfit2");
    let foreign = Preparation::new(&c, other.port + 101).once().unwrap_err().to_string();
    assert!(foreign.contains("datanode of a loxo cluster already"), "{foreign}");
    let nobody = Preparation::new(&c, testkit::free_ports(&[0]).unwrap()).once().unwrap_err().to_string();
    assert!(nobody.contains("datanode dn3"), "{nobody}");

    // The order of columns that a dump cannot keep.
    let mut client = c.client();
    client.run("CREATE TABLE mother (k int) DISTRIBUTE BY HASH (k)").unwrap();
    client.run("CREATE TABLE child (own int) INHERITS (mother)").unwrap();
    client.run("ALTER TABLE mother ADD COLUMN late int").unwrap();
    let error = said(&server(&[PREPARED]));
    assert!(error.contains("child") && error.contains("own integer, late integer"), "{error}");
}

/// Has the schema change each time while pg_dump reads it: it waits for a lock on a table meanwhile.
fn prepare_beside(changes: usize, c: &Cluster, preparation: &Preparation) -> Result<Prepared> {
    let primary = || Client::connect(c.port + 100).unwrap();
    let (mut client, mut look, mut holder) = (c.client(), primary(), primary());
    const LOCK: &str = "BEGIN; LOCK TABLE gate IN ACCESS EXCLUSIVE MODE";
    holder.run(LOCK).unwrap();
    let waiting = |look: &mut Client, count: &str| {
        let sql = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'gate'::regclass";
        wait_for("sessions that wait for the gate", || look.scalar(sql).unwrap() == count);
    };
    std::thread::scope(|scope| {
        let outcome = scope.spawn(|| preparation.once());
        for i in 0..changes {
            waiting(&mut look, "1");
            client.run(&format!("CREATE TABLE change_{i} (k int) DISTRIBUTE BY HASH (k)")).unwrap();
            // Behind pg_dump, so that the next one waits again.
            let mut next = primary();
            next.send_query(LOCK).unwrap();
            waiting(&mut look, "2");
            holder.run("ROLLBACK").unwrap();
            next.wait().unwrap();
            holder = next;
        }
        if changes == 1 {
            waiting(&mut look, "1");
        }
        holder.run("ROLLBACK").unwrap();
        outcome.join().unwrap()
    })
}

#[track_caller]
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_schema_that_changes_meanwhile_is_read_again() {
    let c = Cluster::up("restless");
    c.client().run("CREATE TABLE gate (k int) DISTRIBUTE BY HASH (k)").unwrap();
    let new = server(&[PREPARED]);
    let preparation = Preparation::new(&c, new.port());
    prepare_beside(1, &c, &preparation).unwrap();
    assert_same_lines(&dump(c.port + 100), &dump(new.port()));
    assert_eq!(metadata(c.port + 100), metadata(new.port()));
    c.client().run("DROP TABLE change_0").unwrap();
    let error = prepare_beside(5, &c, &preparation).unwrap_err();
    assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE, "{error}");
}

#[test]
fn a_refused_datanode_leaves_nothing_behind() {
    let c = Cluster::up("refused");
    let before = std::fs::read_to_string(c.dir.join("cluster.toml")).unwrap();
    // The schema cannot be copied, so there is no CREATE NODE.
    let mut client = c.client();
    client.run("CREATE TABLE mother (k int) DISTRIBUTE BY HASH (k)").unwrap();
    client.run("CREATE TABLE child (own int) INHERITS (mother)").unwrap();
    client.run("ALTER TABLE mother ADD COLUMN late int").unwrap();
    fails_saying(c.loxo(&["node", "add"], &[]), &["cannot be made like the primary datanode", "child"]);
    assert_eq!(entries(&c.dir, "dn3"), Vec::<String>::new());
    assert_eq!(std::fs::read_to_string(c.dir.join("cluster.toml")).unwrap(), before);
    assert!(std::net::TcpListener::bind(("127.0.0.1", c.port + 102)).is_ok(), "the server runs on");

    // Of a real host the server stays, empty.
    let new = server(&[PREPARED]);
    client.run("CREATE ROLE somebody").unwrap();
    let (config, port) = (c.dir.join("cluster.toml"), new.port().to_string());
    let mut add = Command::new(env!("CARGO_BIN_EXE_loxo"));
    add.args(["node", "add", "--name", "dn3", "--host", "127.0.0.1", "--port", &port, "--config"]).arg(&config);
    fails_saying(add.output().unwrap(), &["cannot be made like the primary datanode"]);
    let mut server = new.connect().unwrap();
    assert_eq!(server.scalar("SELECT count(*) FROM pg_class WHERE oid >= 16384").unwrap(), "0");
    assert_eq!(server.scalar("SELECT count(*) FROM pg_roles WHERE rolname = 'somebody'").unwrap(), "0");

    // A directory that is not ours to remove.
    std::fs::create_dir(c.dir.join("dn3")).unwrap();
    fails_saying(c.loxo(&["node", "add"], &[]), &["is there already", "another name"]);
    assert!(c.dir.join("dn3").exists());

    fails_saying(c.loxo(&["node", "remove", "dn1"], &[]), &["primary datanode"]);
    fails_saying(c.loxo(&["node", "remove", "dn7"], &[]), &["there is no datanode \"dn7\"", "dn1, dn2"]);
    assert_eq!(c.nodes()[1]["name"], "dn2");
    assert_eq!(c.nodes()[1]["buckets"], 2048);
}

/// Names in a directory, and in its log directory, that begin with a word.
fn entries(dir: &Path, word: &str) -> Vec<String> {
    let names = |dir: PathBuf| std::fs::read_dir(dir).unwrap().flatten().map(|e| e.file_name().into_string().unwrap());
    names(dir.to_owned()).chain(names(dir.join("log"))).filter(|name| name.starts_with(word)).collect()
}

/// Moves money between accounts of all datanodes, and adds a row to the other tables each time.
fn work(c: &Cluster, is_enough: &AtomicBool) -> u32 {
    let mut client = c.client();
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
            // A block that has seen buckets where they are no more cannot go on.
            Err(error) => {
                assert_eq!(error.code(), SqlState::SERIALIZATION_FAILURE, "{error}");
                client.run("ROLLBACK").unwrap();
            }
        }
    }
    rounds
}

#[track_caller]
fn assert_whole(c: &Cluster, rounds: Option<u32>) {
    let mut client = c.client();
    assert_eq!(client.strings("SELECT sum(money), count(*) FROM account").unwrap(), [["100000", "1000"]]);
    let rows = client.strings("SELECT (SELECT count(*) FROM history), (SELECT count(*) FROM copies)").unwrap();
    if let Some(rounds) = rounds {
        assert_eq!(rows, [[rounds.to_string(), rounds.to_string()]]);
    }
}

fn buckets(c: &Cluster) -> Vec<(String, u64)> {
    let nodes = c.nodes();
    let of = |node: &serde_json::Value| (node["name"].as_str().unwrap().to_owned(), node["buckets"].as_u64().unwrap());
    nodes.as_array().unwrap().iter().map(of).collect()
}

fn named(buckets: &[(&str, u64)]) -> Vec<(String, u64)> {
    buckets.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// These are the datanodes, and each has its share.
#[track_caller]
fn assert_balanced(c: &Cluster, names: &[&str]) {
    let held = buckets(c);
    assert_eq!(held.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
    let share = 4096 / names.len() as u64;
    assert!(held.iter().all(|(_, count)| (share..=share + 1).contains(count)), "{held:?}");
}

fn out(output: Output) -> String {
    String::from_utf8(succeeded(output).stdout).unwrap()
}

#[test]
fn a_cluster_grows_and_shrinks_while_it_serves() {
    let c = Cluster::up("grows");
    let mut client = c.client();
    for sql in [
        "CREATE TABLE account (id int PRIMARY KEY, money int) DISTRIBUTE BY HASH (id)",
        "CREATE TABLE history (id serial, what text) DISTRIBUTE BY ROUNDROBIN",
        "CREATE TABLE copies (n int) DISTRIBUTE BY REPLICATION",
        "CREATE TABLE old_copies (n int) DISTRIBUTE BY REPLICATION",
        "INSERT INTO old_copies VALUES (99)",
        "ALTER TABLE old_copies ADD CHECK (n < 10) NOT VALID",
        "INSERT INTO account SELECT i, 100 FROM generate_series(0, 999) AS i",
        "ANALYZE",
    ] {
        client.run(sql).unwrap();
    }
    assert_eq!(out(c.loxo(&["rebalance"], &["--plan"])), "nothing has to be moved\n");
    let is_enough = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(&c, &is_enough));
        let grown = std::panic::catch_unwind(|| grow_and_shrink(&c));
        is_enough.store(true, Ordering::Release);
        let rounds = worker.join().unwrap();
        grown.unwrap();
        rounds
    });
    assert!(rounds > 0);
    assert_whole(&c, Some(rounds));
    assert!(out(c.loxo(&["check"], &["--data"])).contains("every row is where it belongs"));

    // Ids have a hole now, also after a restart of everything.
    succeeded(c.loxo(&["down"], &[]));
    succeeded(c.loxo(&["up"], &[]));
    assert_whole(&c, Some(rounds));
    succeeded(c.loxo(&["check"], &[]));
    let mut client = c.client();
    client.run("CREATE TABLE later (k int) DISTRIBUTE BY HASH (k)").unwrap();
    client.run("INSERT INTO later SELECT generate_series(1, 1000)").unwrap();
    assert_eq!(client.scalar("SELECT count(*) FROM later").unwrap(), "1000");
    assert!(out(c.loxo(&["check"], &["--data"])).contains("every row is where it belongs"));
}

fn grow_and_shrink(c: &Cluster) {
    assert!(out(c.loxo(&["node", "add"], &[])).contains("dn3 is a datanode now"));
    assert_eq!(buckets(c), named(&[("dn1", 2048), ("dn2", 2048), ("dn3", 0)]));
    assert_whole(c, None);
    let plan = out(c.loxo(&["rebalance"], &["--plan"]));
    let all: Vec<&str> = plan.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(all[..2], ["all", "1365"], "{plan}");
    assert!(out(c.loxo(&["rebalance"], &[])).contains("1365 buckets"));
    assert_balanced(c, &["dn1", "dn2", "dn3"]);
    assert_whole(c, None);
    assert_eq!(out(c.loxo(&["rebalance"], &[])), "nothing had to be moved\n");

    succeeded(c.loxo(&["up"], &["--datanodes", "4"]));
    assert!(out(c.loxo(&["node", "add"], &["big", "--rebalance"])).contains("buckets"));
    assert_balanced(c, &["dn1", "dn2", "dn3", "dn4", "big"]);
    fails_saying(c.loxo(&["node", "add"], &["big"]), &["big is a datanode already"]);

    assert!(out(c.loxo(&["node", "remove", "dn2"], &[])).contains("dn2.removed"));
    assert_balanced(c, &["dn1", "dn3", "dn4", "big"]);
    assert_whole(c, None);
    let ids: Vec<(u16, String)> = c.config().datanodes_by_id().map(|(id, node)| (id, node.name.clone())).collect();
    assert_eq!(ids, [(0, "dn1".to_owned()), (2, "dn3".to_owned()), (3, "dn4".to_owned()), (4, "big".to_owned())]);
    assert!(!c.dir.join("dn2").exists() && c.dir.join("dn2.removed").exists());
    fails_saying(c.loxo(&["node", "remove", "dn2"], &[]), &["there is no datanode \"dn2\""]);
}

#[test]
fn a_real_host_s_server_becomes_a_datanode_and_can_come_again() {
    let c = Cluster::up("hosts");
    let mut client = c.client();
    client.run("CREATE TABLE t (k int PRIMARY KEY) DISTRIBUTE BY HASH (k)").unwrap();
    client.run("INSERT INTO t SELECT generate_series(1, 1000)").unwrap();
    let new = server(&[PREPARED]);
    let config = c.dir.join("cluster.toml");
    let loxo = |arguments: &[&str]| {
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        loxo.args(arguments).arg("--config").arg(&config).output().unwrap()
    };
    let port = new.port().to_string();
    let add = ["node", "add", "--rebalance", "--name", "far", "--host", "127.0.0.1", "--port", &port];
    let rows = || new.connect().unwrap().scalar("SELECT count(*) FROM t").unwrap().parse::<u32>().unwrap();
    // Its former id is not given again.
    for id in [2, 3] {
        let said = out(loxo(&add));
        assert!(said.contains(&format!("name = \"far\"\nid = {id}\nhost = \"127.0.0.1\"\nport = {port}")), "{said}");
        assert!(rows() > 200, "{}", rows());
        assert_eq!(client.scalar("SELECT count(*) FROM t").unwrap(), "1000");
        assert!(out(loxo(&["node", "remove", "far"])).contains("Stop its server"));
        assert_eq!(rows(), 0);
        assert_eq!(client.scalar("SELECT count(*) FROM t").unwrap(), "1000");
    }
    fails_saying(loxo(&["node", "add", "--name", "far"]), &["--host is missing", "hint"]);
}

#[test]
fn a_killed_node_add_is_done_again_and_an_interrupted_one_leaves_nothing() {
    let c = Cluster::up("killed");
    let child = || {
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        loxo.args(["node", "add", "--dir"]).arg(&c.dir).spawn().unwrap()
    };
    for tries in 0.. {
        let mut killed = child();
        wait_for("the server", || c.dir.join("dn3/postmaster.pid").exists());
        let _ = killed.kill();
        killed.wait().unwrap();
        if c.dir.join("dn3.joining").exists() {
            break;
        }
        assert!(tries < 5, "it is always done before it is killed");
        succeeded(c.loxo(&["node", "remove", "dn3"], &[]));
        std::fs::remove_dir_all(c.dir.join("dn3.removed")).unwrap();
    }
    succeeded(c.loxo(&["down"], &[]));
    assert!(std::net::TcpListener::bind(("127.0.0.1", c.port + 102)).is_ok(), "its server runs on");
    succeeded(c.loxo(&["up"], &[]));

    let mut interrupted = child();
    wait_for("the new server", || {
        // Not that of the killed call any more.
        let is_asked =
            Client::connect(c.port + 102).and_then(|mut client| client.scalar("SELECT to_regclass('loxo.node')"));
        is_asked.is_ok_and(|name| name == "loxo.node")
    });
    let pid = interrupted.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    // It may have been done already.
    if interrupted.wait().unwrap().code() == Some(1) {
        assert_eq!(entries(&c.dir, "dn3"), Vec::<String>::new());
        assert_eq!(buckets(&c).len(), 2);
        succeeded(c.loxo(&["node", "add"], &[]));
    }
    assert_eq!(entries(&c.dir, "dn3"), ["dn3", "dn3.log"]);
    assert_eq!(buckets(&c).len(), 3);
}

#[test]
fn up_finishes_what_was_killed_before_it_wrote_the_configuration() {
    let c = Cluster::up("finish");
    let file = c.dir.join("cluster.toml");
    let names = || c.config().datanodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    let before = std::fs::read_to_string(&file).unwrap();
    succeeded(c.loxo(&["node", "add"], &[]));
    let after = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &before).unwrap();
    std::fs::write(c.dir.join("dn3.joining"), "").unwrap();
    succeeded(c.loxo(&["down"], &[]));
    succeeded(c.loxo(&["up"], &[]));
    assert_eq!(names(), ["dn1", "dn2", "dn3"]);
    assert!(!c.dir.join("dn3.joining").exists());
    assert_eq!(c.nodes()[2]["trouble"], serde_json::Value::Null);

    // Of a removal, up to the end of DROP NODE.
    let mut client = c.client();
    client.run("CREATE NODE GROUP club WITH (dn2, dn3)").unwrap();
    client.run("CREATE TABLE alone (k int) DISTRIBUTE BY HASH (k) TO NODE (dn3)").unwrap();
    fails_saying(c.loxo(&["node", "remove", "dn3"], &[]), &["cannot be emptied", "node group club"]);
    client.run("ALTER NODE GROUP club DELETE NODE (dn3)").unwrap();
    fails_saying(
        c.loxo(&["node", "remove", "dn3"], &[]),
        &["cannot be emptied", "table public.alone lies there alone"],
    );
    client.run("ALTER TABLE alone TO GROUP club; DROP NODE GROUP club").unwrap();
    succeeded(c.loxo(&["node", "remove", "dn3"], &[]));
    std::fs::rename(c.dir.join("dn3.removed"), c.dir.join("dn3")).unwrap();
    std::fs::write(&file, &after).unwrap();
    succeeded(c.loxo(&["up"], &[]));
    assert_eq!(names(), ["dn1", "dn2"]);
    assert_eq!(entries(&c.dir, "dn3"), ["dn3.removed", "dn3.log"]);
    // … and when that was written.
    std::fs::rename(c.dir.join("dn3.removed"), c.dir.join("dn3")).unwrap();
    succeeded(c.loxo(&["node", "remove", "dn3"], &[]));
    assert_eq!(entries(&c.dir, "dn3"), ["dn3.removed", "dn3.log"]);
    assert!(std::net::TcpListener::bind(("127.0.0.1", c.port + 102)).is_ok(), "the server runs on");
}
