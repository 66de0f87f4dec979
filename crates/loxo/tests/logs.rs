//! The log of a coordinator: JSON, how much of it, slow statements, and what is never in it.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::Cluster;
use testkit::wire::{Client, CopyInput};

const SOON: Duration = Duration::from_secs(20);

/// The first line with all of this in it.
fn line_with(log: &Path, words: &[&str]) -> String {
    let started = Instant::now();
    loop {
        let text = std::fs::read_to_string(log).expect("a log");
        if let Some(line) = text.lines().find(|line| words.iter().all(|word| line.contains(word))) {
            return line.to_owned();
        }
        assert!(started.elapsed() < SOON, "{words:?} is in no line of {text}");
    }
}

fn field(line: &str, name: &str) -> serde_json::Value {
    let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    line[name].clone()
}

/// ALTER ROLE … SET of what no datanode knows counts for the role's next sessions.
fn settings_of_a_role(cluster: &Cluster, dba: &mut Client) {
    let come = |more: &[(&str, &str)]| {
        let parameters = [&[("user", "ann"), ("database", "postgres")], more].concat();
        Client::connect_with(cluster.coordinators()[0], &parameters).expect("a session")
    };
    let given = [("log_min_duration", "1h"), ("log_parameters", "on"), ("few_rows", "7"), ("snapshot", "local")];
    let mut before = come(&[]);
    for (name, value) in given {
        let sql = format!("ALTER ROLE ann SET loxo.{name} = '{value}'");
        assert_eq!(before.run(&sql).expect_err("no superuser").code().as_str(), "42501", "{sql}");
        dba.run(&sql).expect("given");
    }
    dba.run("ALTER ROLE ann SET loxo.work_mem = 'much'").expect("what no node can judge");
    let mut ann = come(&[]);
    let holds = |ann: &mut Client, name: &str, value: &str| {
        assert_eq!(ann.scalar(&format!("SHOW loxo.{name}")).expect("a value"), value, "{name}");
    };
    for (name, value) in given {
        holds(&mut ann, name, value);
    }
    holds(&mut ann, "work_mem", "64MB");
    ann.run("SET loxo.few_rows = 9; SET loxo.snapshot = consistent; RESET loxo.few_rows; RESET loxo.snapshot")
        .expect("set");
    holds(&mut ann, "few_rows", "7");
    holds(&mut ann, "snapshot", "local");
    let mut ann = come(&[("options", "-c loxo.snapshot=consistent -c loxo.few_rows=8")]);
    holds(&mut ann, "few_rows", "8");
    holds(&mut ann, "snapshot", "consistent");
    dba.run("ALTER ROLE ann RESET ALL").expect("taken back");
}

#[test]
fn the_log_tells_what_is_asked_for() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    cluster.loxo(&["down"]).expect("it ends");
    let path = cluster.dir().join("cluster.toml");
    let before = std::fs::read_to_string(&path).expect("the configuration");
    let configured = |level: &str| {
        let quiet = before.replace("format = \"text\"", "format = \"json\"");
        quiet.replace("level = \"info\"", &format!("level = \"{level}\""))
    };
    assert_ne!(configured("info"), before, "{before}");
    std::fs::write(&path, configured("info")).expect("written");
    cluster.up().expect("it starts");
    let log = cluster.dir().join("log/coord1.log");
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").expect("a table");
    client.run("CREATE ROLE ann LOGIN").expect("a role");

    Client::connect_with(cluster.coordinators()[0], &[("user", "nobody_here"), ("database", "postgres")])
        .expect_err("no such role");
    let refused = line_with(&log, &["login refused", "nobody_here"]);
    assert_eq!((field(&refused, "level"), field(&refused, "code")), ("WARN".into(), "28000".into()));
    assert!(refused.contains("127.0.0.1"), "{refused}");

    assert_eq!(client.scalar("SHOW loxo.log_min_duration").expect("a value"), "-1");
    client.run("SET loxo.log_min_duration = 0").expect("a superuser");
    client.run("SELECT sum(v) FROM t WHERE v <> 4711").expect("a sum");
    let slow = line_with(&log, &["slow statement", "4711"]);
    assert_eq!(field(&slow, "text"), "SELECT sum(v) FROM t WHERE v <> 4711");
    assert!(field(&slow, "plan").as_str().is_some_and(|plan| plan.contains("Gather")), "{slow}");
    assert!(field(&slow, "duration_ms").as_f64().is_some_and(|ms| ms > 0.0), "{slow}");
    assert!(field(&slow, "query_id").as_str().is_some_and(|id| id.starts_with("coord1-")), "{slow}");
    // Parameters by the extended protocol, if they are asked for.
    for (sql, value) in [("4712", "815"), ("4713", "816")] {
        let sql = format!("SELECT count(*) FROM t WHERE v = $1 AND v <> {sql}");
        client.extended(&sql, &[Some(value)], CopyInput::default(), |_| false).expect("an answer");
        client.run("SET loxo.log_parameters = on").expect("a superuser");
    }
    assert!(field(&line_with(&log, &["slow statement", "4712"]), "parameters").is_null());
    let slow = line_with(&log, &["slow statement", "4713"]);
    assert_eq!(field(&slow, "parameters"), "$1 = '816'");
    client.run("ALTER ROLE ann PASSWORD 'open sesame'").expect("a password");
    client.run("RESET loxo.log_min_duration; SELECT 'said after the reset'").expect("no more of it");

    let mut ann = Client::connect_with(cluster.coordinators()[0], &[("user", "ann"), ("database", "postgres")])
        .expect("a session");
    for setting in ["loxo.log_min_duration = 0", "loxo.log_parameters = on"] {
        let denied = ann.run(&format!("SET {setting}")).expect_err("no superuser");
        assert_eq!(denied.code().as_str(), "42501");
    }
    assert_eq!(client.run("SET loxo.log_parameters = 'some'").expect_err("no truth").code().as_str(), "22023");
    assert_eq!(client.scalar("SHOW loxo.log_parameters").expect("a value"), "on");
    assert_eq!(client.run("SET loxo.log_min_duration = 'soon'").expect_err("no time").code().as_str(), "22023");

    settings_of_a_role(&cluster, &mut client);
    std::fs::write(&path, configured("info,coordinator=debug,executor=debug")).expect("written");
    for pid in cluster.coordinator_pids().expect("a coordinator") {
        let status = Command::new("kill").args(["-HUP", &pid.to_string()]).status();
        assert!(status.expect("kill").success());
    }
    line_with(&log, &["SIGHUP"]);
    let mut another = cluster.connect(0).expect("another session");
    another.run("INSERT INTO t VALUES (1, 1); INSERT INTO t VALUES (1, 1)").expect_err("the key is there");
    let at = field(&line_with(&log, &["error of a datanode", "23505"]), "datanode");
    assert!(["dn1", "dn2"].iter().any(|name| at == *name), "{at}");
    drop(another);
    let came = line_with(&log, &["a client has connected"]);
    assert_eq!(field(&came, "user"), "postgres");
    line_with(&log, &["a client has left"]);
    let failed = "SELECT 10 / $1::int FROM t WHERE k = $1::int - 1";
    client.run("INSERT INTO t VALUES (-1, 1)").expect("a row");
    client.extended(failed, &[Some("0")], CopyInput::default(), |_| false).expect("an answer");
    assert_eq!(field(&line_with(&log, &["parameters of a statement that failed"]), "parameters"), "$1 = '0'");
    let all = std::fs::read_to_string(&log).expect("a log");
    assert!(!all.contains("sesame") && !all.contains("said after the reset"), "{all}");
}
