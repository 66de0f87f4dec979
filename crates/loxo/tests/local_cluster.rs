//! The real binary against real PostgreSQL servers: a local cluster's life from `up` to `down --wipe`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A cluster's directory and first port; the cluster is removed when the test ends, however it ends.
struct Cluster {
    dir: PathBuf,
    port: u16,
}

impl Cluster {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("lx{}-{name}", std::process::id()));
        Self { dir, port: free_ports() }
    }

    fn loxo(&self, command: &str, more: &[&str]) -> Output {
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        loxo.arg(command).arg("--dir").arg(&self.dir).args(more).output().unwrap()
    }

    /// `loxo up` with two datanodes and two coordinators.
    fn up(&self) -> Output {
        self.loxo("up", &["--port", &self.port.to_string(), "--datanodes", "2", "--coordinators", "2"])
    }

    fn status(&self) -> Value {
        let output = self.loxo("status", &["--json"]);
        serde_json::from_slice(&succeeded(output).stdout).unwrap()
    }

    fn part(&self, name: &str) -> Value {
        let status = self.status();
        let parts = status["processes"].as_array().unwrap();
        parts.iter().find(|p| p["name"] == name).unwrap_or_else(|| panic!("no {name} in {status}")).clone()
    }

    fn pid(&self, name: &str) -> i32 {
        self.part(name)["pid"].as_i64().unwrap_or_else(|| panic!("{name} does not run")) as i32
    }

    fn pids(&self) -> Vec<i32> {
        let status = self.status();
        status["processes"].as_array().unwrap().iter().map(|p| p["pid"].as_i64().unwrap() as i32).collect()
    }

    /// Processes that carry the directory on their command line or work in it.
    fn processes(&self) -> Vec<String> {
        let dir = self.dir.to_str().unwrap().to_owned();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        let found = pids.filter_map(|pid| {
            let line = String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).ok()?).into_owned();
            // A process that is about to end has no command line any more.
            if line.is_empty() {
                return None;
            }
            let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            (line.contains(&dir) || cwd.starts_with(&self.dir)).then(|| line.replace('\0', " "))
        });
        found.collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.loxo("down", &["--wipe"]);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A first port such that all ports a small cluster takes are free.
fn free_ports() -> u16 {
    testkit::free_ports(&[0, 1, 2, 50, 51, 60, 61, 62, 100, 101, 102]).expect("free ports")
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
    assert!(text.contains("hint:"), "no hint in: {text}");
}

fn kill(signal: &str, pid: i32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[track_caller]
fn wait_for(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_cluster_lives_from_up_to_wipe() {
    let c = Cluster::new("life");
    let uris = lines(&succeeded(c.up()));
    let expected = [c.port, c.port + 1].map(|port| format!("postgresql://postgres@127.0.0.1:{port}/postgres"));
    assert_eq!(uris, expected);

    let status = c.status();
    assert_eq!(status["state"], "running", "{status}");
    let names: Vec<&str> =
        status["processes"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["dn1", "dn2", "gtm", "coord1", "coord2"]);
    assert_eq!(c.part("gtm")["port"], c.port + 50);
    assert_eq!(c.part("dn2")["port"], c.port + 101);
    assert!(c.part("dn1")["version"].as_str().unwrap().starts_with("PostgreSQL 1"));
    for line in c.processes() {
        assert!(line.contains(c.dir.to_str().unwrap()), "does not carry the directory: {line:?}");
    }

    let pids = c.pids();
    assert_eq!(lines(&succeeded(c.loxo("up", &[]))), expected, "up again, without saying the shape");
    assert_eq!(c.pids(), pids, "nothing was restarted");

    succeeded(c.loxo("down", &[]));
    assert_eq!(c.status()["state"], "dead");
    assert_eq!(c.processes(), Vec::<String>::new());
    succeeded(c.loxo("down", &[]));

    succeeded(c.up());
    succeeded(c.loxo("down", &["--wipe"]));
    assert_eq!(c.processes(), Vec::<String>::new());
    assert!(!c.dir.exists());
    succeeded(c.loxo("down", &["--wipe"]));
}

#[test]
fn killed_parts_are_noticed_and_restarted() {
    let c = Cluster::new("kill");
    succeeded(c.up());
    let before: Vec<i32> = ["dn1", "gtm", "coord2"].iter().map(|name| c.pid(name)).collect();
    for name in ["dn2", "coord1"] {
        let pid = c.pid(name);
        kill("-9", pid);
        wait_for(name, || c.part(name)["state"] == "dead");
    }
    assert_eq!(c.status()["state"], "degraded");
    succeeded(c.up());
    assert_eq!(c.status()["state"], "running");
    let after: Vec<i32> = ["dn1", "gtm", "coord2"].iter().map(|name| c.pid(name)).collect();
    assert_eq!(before, after, "what ran was left alone");

    // A stale pid file that names a live process of someone else.
    let pid = c.pid("dn1");
    kill("-9", pid);
    wait_for("dn1", || c.part("dn1")["state"] == "dead");
    let pid_file = c.dir.join("dn1/postmaster.pid");
    let text = std::fs::read_to_string(&pid_file).unwrap();
    let stale = text.replacen(&pid.to_string(), &std::process::id().to_string(), 1);
    std::fs::write(&pid_file, stale).unwrap();
    assert_eq!(c.part("dn1")["state"], "dead", "this test is no datanode");
    succeeded(c.up());
    assert_eq!(c.part("dn1")["state"], "running");
}

#[test]
fn a_standby_gtm_takes_over() {
    let c = Cluster::new("standby");
    // It may come later, while those run who were not told of it when they started.
    succeeded(c.up());
    let coordinator = c.pid("coord1");
    let uri = format!("postgresql://postgres@127.0.0.1:{}/postgres", c.port);
    let psql = |sql: &str| succeeded(Command::new("psql").args(["-X", "-q", "-At", "-c", sql, &uri]).output().unwrap());
    psql("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k); INSERT INTO t SELECT generate_series(1, 100)");
    succeeded(c.loxo("up", &["--gtm-standby"]));
    let roles = || {
        let mut roles = [c.part("gtm")["role"].clone(), c.part("gtm2")["role"].clone()];
        roles.sort_by_key(|role| role.as_str().map(str::to_owned));
        roles
    };
    wait_for("a leader and a standby", || roles() == ["leader", "standby"]);
    assert_eq!(c.part("gtm2")["port"], c.port + 51);
    succeeded(c.loxo("up", &["--gtm-standby"]));

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let addresses = vec![format!("127.0.0.1:{}", c.port + 50), format!("127.0.0.1:{}", c.port + 51)];
    let client = runtime.block_on(async { txn::GtmClient::connect(addresses, "test") });
    for _ in 0..3 {
        let before = runtime.block_on(client.global_snapshot()).unwrap().generation();
        let leader = if c.part("gtm")["role"] == "leader" { "gtm" } else { "gtm2" };
        kill("-9", c.pid(leader));
        let killed = Instant::now();
        let snapshot = loop {
            let snapshot = runtime.block_on(client.global_snapshot()).unwrap();
            // The gtm that was killed may have granted one in its last moment.
            if snapshot.generation() > before {
                break snapshot;
            }
        };
        let took = killed.elapsed();
        eprintln!("takeover: {took:?}");
        assert!(took < Duration::from_secs(20), "{took:?}");
        drop(snapshot);
        assert_eq!(c.part(leader)["state"], "dead");
        assert_eq!(lines(&psql("UPDATE t SET k = k; SELECT count(*) FROM t")), ["100"], "by the one that is left");
        succeeded(c.loxo("up", &[]));
        wait_for("a leader and a standby", || roles() == ["leader", "standby"]);
    }
    // One that stands still is replaced like a dead one, and stands by when it goes on.
    let (leader, other) = if c.part("gtm")["role"] == "leader" { ("gtm", "gtm2") } else { ("gtm2", "gtm") };
    let frozen = c.pid(leader);
    kill("-STOP", frozen);
    wait_for("another leader", || c.part(other)["role"] == "leader");
    let update = || Command::new("psql").args(["-Xqc", "UPDATE t SET k = k", &uri]).output().unwrap().status.success();
    wait_for("a commit by the other one", update);
    kill("-CONT", frozen);
    wait_for("a leader and a standby", || roles() == ["leader", "standby"]);
    assert_eq!(c.part(other)["role"], "leader");
    assert_eq!(c.pid("coord1"), coordinator);

    // Standing by is no error that the primary datanode would have to log: it tries four times a second.
    let log = || std::fs::read_to_string(c.dir.join("log/dn1.log")).unwrap();
    let before = log().len();
    std::thread::sleep(Duration::from_secs(2));
    assert!(!log()[before..].contains("loxo.leader"), "{}", &log()[before..]);
}

#[test]
fn coordinators_come_to_a_running_cluster() {
    let c = Cluster::new("more");
    succeeded(c.up());
    let pids = c.pids();
    // Somebody has the port: the cluster is as it was.
    let listener = TcpListener::bind(("127.0.0.1", c.port + 2)).unwrap();
    fails_saying(c.loxo("up", &["--coordinators", "3"]), &["coord3", &format!("port {}", c.port + 2)]);
    drop(listener);
    assert_eq!(c.pids(), pids);
    let uris = lines(&succeeded(c.loxo("up", &["--coordinators", "3"])));
    assert_eq!(uris.len(), 3);
    let ask = |uri: &String| {
        let sql = "SELECT node_name FROM pgxc_node WHERE node_type = 'C' ORDER BY 1";
        lines(&succeeded(Command::new("psql").args(["-X", "-At", "-c", sql, uri]).output().unwrap()))
    };
    for uri in &uris {
        assert_eq!(ask(uri), ["coord1", "coord2", "coord3"], "{uri}");
    }
    assert_eq!(c.pids().len(), pids.len() + 1);
    assert!(pids.iter().all(|pid| c.pids().contains(pid)), "those that ran were left alone");
    fails_saying(c.loxo("up", &["--coordinators", "2"]), &["3", "not 2"]);
    fails_saying(c.loxo("up", &["--coordinators", "40"]), &["max_connections", "pool_size"]);
}

#[test]
fn a_port_in_use_is_named_with_its_user_and_nothing_is_left() {
    let c = Cluster::new("port");
    let listener = TcpListener::bind(("127.0.0.1", c.port + 101)).unwrap();
    let port = format!("port {}", c.port + 101);
    let me = format!("pid {}", std::process::id());
    fails_saying(c.up(), &[&port, "dn2", &me, "--port"]);
    assert!(!c.dir.exists());
    drop(listener);

    // Found out only when the part starts: a running cluster stays, what this call started goes.
    succeeded(c.up());
    kill("-9", c.pid("coord1"));
    kill("-9", c.pid("dn1"));
    wait_for("both", || c.part("coord1")["state"] == "dead" && c.part("dn1")["state"] == "dead");
    let listener = TcpListener::bind(("127.0.0.1", c.port)).unwrap();
    fails_saying(c.up(), &["coord1", &me]);
    assert_eq!(c.part("dn1")["state"], "dead");
    assert_eq!(c.part("dn2")["state"], "running");
    drop(listener);
    succeeded(c.up());
}

#[test]
fn two_clusters_live_side_by_side() {
    let (a, b) = (Cluster::new("side"), Cluster::new("side2"));
    succeeded(a.up());
    succeeded(b.up());
    fails_saying(b.loxo("up", &["--coordinators", "1"]), &["2", "not 1", "--dir"]);
    fails_saying(b.loxo("up", &["--datanodes", "1"]), &["2 datanodes", "loxo node remove"]);
    fails_saying(b.loxo("up", &["--set", "work_mem=1MB"]), &["other settings", "loxo down"]);
    let pids = b.pids();
    // The name of one directory begins with the name of the other.
    succeeded(a.loxo("down", &["--wipe"]));
    assert_eq!(b.pids(), pids);
    assert_eq!(b.status()["state"], "running");
}

#[test]
fn a_server_that_refuses_to_start_says_why_and_leaves_nothing() {
    let c = Cluster::new("bad");
    let port = c.port.to_string();
    let output = c.loxo("up", &["--port", &port, "--set", "no_such_setting=1"]);
    fails_saying(output, &["did not start", "unrecognized configuration parameter \"no_such_setting\""]);
    assert!(!c.dir.exists());
    assert_eq!(c.processes(), Vec::<String>::new());

    // A directory of the user's own stays, empty as it was.
    std::fs::create_dir(&c.dir).unwrap();
    fails_saying(c.loxo("up", &["--port", &port, "--set", "no_such_setting=1"]), &["did not start"]);
    assert_eq!(std::fs::read_dir(&c.dir).unwrap().count(), 0);
    std::fs::write(c.dir.join("thesis.tex"), "").unwrap();
    fails_saying(c.loxo("up", &["--port", &port]), &["something else"]);
    fails_saying(c.loxo("down", &["--wipe"]), &["not the directory of a loxo cluster"]);
    assert!(c.dir.join("thesis.tex").exists());
}

#[test]
fn an_interrupted_up_leaves_nothing() {
    let c = Cluster::new("interrupt");
    let mut child = Command::new(env!("CARGO_BIN_EXE_loxo"))
        .args(["up", "--port", &c.port.to_string(), "--datanodes", "2", "--dir"])
        .arg(&c.dir)
        .spawn()
        .unwrap();
    wait_for("the directory", || c.dir.join("dn1.new").exists() || c.dir.join("dn1").exists());
    kill("-INT", child.id() as i32);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(!c.dir.exists());
    wait_for("initdb's children", || c.processes().is_empty());
}

#[test]
fn up_continues_what_a_killed_up_began() {
    let c = Cluster::new("resume");
    let mut child = Command::new(env!("CARGO_BIN_EXE_loxo"))
        .args(["up", "--port", &c.port.to_string(), "--datanodes", "2", "--coordinators", "2", "--dir"])
        .arg(&c.dir)
        .spawn()
        .unwrap();
    wait_for("a data directory", || c.dir.join("dn1").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    succeeded(c.up());
    assert_eq!(c.status()["state"], "running");

    // Once it has been up, an empty datanode in place of a lost one would be a loss of data.
    succeeded(c.loxo("down", &[]));
    std::fs::remove_dir_all(c.dir.join("dn2")).unwrap();
    fails_saying(c.loxo("up", &[]), &["dn2", "is missing", "backup"]);
}

#[test]
fn missing_postgresql_and_bad_directories_are_explained() {
    let c = Cluster::new("missing");
    let port = c.port.to_string();
    fails_saying(c.loxo("up", &["--port", &port, "--pg-bin", "/proc"]), &["/proc", "apt install postgresql"]);
    fails_saying(c.loxo("status", &[]), &["there is no cluster", "loxo up"]);
    let nowhere = Cluster { dir: PathBuf::from("/proc/loxo"), port: c.port };
    fails_saying(nowhere.loxo("up", &["--port", &port]), &["/proc/loxo"]);
    assert!(!c.dir.exists());
}

#[test]
fn the_metadata_is_checked_and_prepared_transactions_are_listed() {
    let c = Cluster::new("meta");
    succeeded(c.up());
    let config = c.dir.join("cluster.toml");
    let check =
        |path: &Path| Command::new(env!("CARGO_BIN_EXE_loxo")).args(["check", "--config"]).arg(path).output().unwrap();
    succeeded(check(&config));

    // The same servers in another order: each is not who it is said to be.
    let text = std::fs::read_to_string(&config).unwrap();
    let (dn1, dn2) = ((c.port + 100).to_string(), (c.port + 101).to_string());
    let swapped = text.replace(&dn1, "DN2").replace(&dn2, &dn1).replace("DN2", &dn2);
    let other = std::env::temp_dir().join(format!("lx{}.toml", std::process::id()));
    std::fs::write(&other, swapped).unwrap();
    let output = check(&other);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let init = Command::new(env!("CARGO_BIN_EXE_loxo")).args(["init", "--config"]).arg(&other).output().unwrap();
    std::fs::remove_file(&other).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("is node 1 by its own metadata, but number 0"), "{said}");
    fails_saying(init, &["not empty", "schema loxo"]);

    let sql = "BEGIN; CREATE TABLE t (a int); PREPARE TRANSACTION 'loxo_test_1'";
    let psql = |sql: &str| {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-At", "-h", "127.0.0.1", "-U", "postgres", "-d", "postgres", "-p", &dn2, "-c", sql]);
        String::from_utf8_lossy(&succeeded(psql.output().unwrap()).stdout).trim().to_owned()
    };
    psql(sql);
    let in_doubt = c.status()["in_doubt"].clone();
    assert_eq!((&in_doubt[0]["node"], &in_doubt[0]["gid"]), (&"dn2".into(), &"loxo_test_1".into()));
    assert_eq!(psql("SELECT gid FROM loxo.prepared"), "loxo_test_1");
    psql("ROLLBACK PREPARED 'loxo_test_1'");

    // What an interrupted init left: committed if the cluster of that id was made, else rolled back.
    let init = || Command::new(env!("CARGO_BIN_EXE_loxo")).args(["init", "--config"]).arg(&config).output().unwrap();
    let id = psql("SELECT cluster_id FROM loxo.identity");
    psql("BEGIN; CREATE TABLE undecided (); PREPARE TRANSACTION 'loxo_init_of_nobody'");
    fails_saying(init(), &["not empty"]);
    psql(&format!("BEGIN; CREATE TABLE decided (); PREPARE TRANSACTION 'loxo_init_{id}'"));
    assert!(lines(&succeeded(init()))[0].contains(&id));
    assert_eq!(psql("SELECT to_regclass('undecided'), to_regclass('decided')"), "|decided");

    assert_eq!(psql("SELECT string_agg(node_name, ' ' ORDER BY oid) FROM pgxc_node"), "dn1 dn2 coord1 coord2");
    psql("CREATE TABLE t (a int); INSERT INTO loxo.class VALUES ('t'::regclass, 'H', '{1}', 1, NULL)");
    assert_eq!(psql("SELECT pcattnum, pchashbuckets, nodeoids FROM pgxc_class"), "1|4096|4000000000 4000000001");
    psql("CREATE ROLE reader; SET ROLE reader; TABLE pgxc_node; TABLE pgxc_class; TABLE pgxc_group");
}
