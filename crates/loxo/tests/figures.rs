//! `/metrics` and `/health` of a coordinator and a gtm: each figure that docs/operate/watch.md lists moves when what it counts happens,
//! and that page's statements run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::wire::{Client, CopyInput};
use testkit::{Cluster, free_ports};

const SOON: Duration = Duration::from_secs(20);
const PAGE: &str = include_str!("../../../docs/operate/watch.md");
const DATANODES: [&str; 3] = ["dn1", "dn2", "dn3"];
/// Connections to a datanode, one of which is nobody's who needs just one.
const POOL: usize = 6;

type Figures = BTreeMap<String, f64>;

/// Status and body.
fn get(port: u16, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the port of figures");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).expect("a status").to_owned(), body.to_owned())
}

/// The figures, by name and labels.
fn figures(port: u16) -> Figures {
    let (status, page) = get(port, "/metrics");
    assert_eq!(status, "200");
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let figure = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
    };
    lines.map(figure).collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SOON, "{what}");
    }
}

#[test]
fn every_figure_moves() {
    let cluster = Cluster::start_with(3, 1, &["--gtm-standby"]).expect("a cluster");
    let base = free_ports(&[0, 1, 2]).expect("ports");
    let (of_coordinator, of_gtm, of_standby) = (base, base + 1, base + 2);
    cluster.loxo(&["down"]).expect("it ends");
    let path = cluster.dir().join("cluster.toml");
    let file = std::fs::read_to_string(&path).expect("the configuration");
    let file =
        file.replace("[[coordinator]]\n", &format!("[[coordinator]]\nmetrics = \"127.0.0.1:{of_coordinator}\"\n"));
    let gtm = |port: u16| format!("[[gtm]] \nmetrics = \"127.0.0.1:{port}\"\n");
    let file = [of_gtm, of_standby].iter().fold(file, |file, port| file.replacen("[[gtm]]\n", &gtm(*port), 1));
    let lines = file.lines().map(|line| match line.starts_with("pool_size") {
        true => format!("pool_size = {POOL}\n"),
        false => format!("{line}\n"),
    });
    std::fs::write(&path, lines.collect::<String>()).expect("written");
    let go = cluster.scratch().join("go");
    // The first change of rows on several nodes after the two tables.
    let order = [("LOXO_CONTROL_POINTS", "decided=hold@3"), ("LOXO_CONTROL_GO", go.to_str().expect("a path"))];
    cluster.up_with(&order).expect("it starts");
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").expect("a table");
    client.run("CREATE TABLE u (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").expect("a table");
    until("the gtm is heard of", || get(of_coordinator, "/health") == ("200".into(), "ok\n".into()));
    assert_eq!(get(of_gtm, "/health"), ("200".into(), "leads\n".into()));
    assert_eq!(get(of_gtm, "/").0, "404");

    let (before, gtm_before) = (figures(of_coordinator), figures(of_gtm));
    left_to_recovery(&cluster, &go, of_coordinator);
    let rows: Vec<String> = (1..=3000).map(|k| format!("{k}\t{}\n", k % 7)).collect();
    let rows = rows.concat();
    client.simple_copy("COPY t FROM STDIN", CopyInput { frames: &[rows.as_bytes()], fail: false }).expect("rows");
    client.run("INSERT INTO u SELECT k, v FROM t").expect("rows");
    client.run("SET loxo.few_rows = 0").expect("a setting");
    client.run("SELECT count(*) FROM t JOIN u ON t.v = u.v + 1 AND t.k < 50 AND u.k < 50").expect("a join");
    for k in [1, 2] {
        client.run(&format!("SELECT v FROM t WHERE k = {k}")).expect("a row");
    }
    client.run("SELECT sum(v) FROM t").expect("a sum");
    client.run("BEGIN; UPDATE t SET v = 0 WHERE k = 1; COMMIT").expect("one node");
    client.run("BEGIN; UPDATE t SET v = 0; COMMIT").expect("all nodes");
    client.run("BEGIN; SELECT sum(v) FROM t; COMMIT").expect("a read");
    client.run("SELECT nothing FROM t").expect_err("no column");
    cluster.connect(0).expect("another session").run("SELECT 1").expect("a row");
    until("clients that are refused are counted", || {
        testkit::wire::Client::connect_with(
            cluster.coordinators()[0],
            &[("user", "nobody_of_that_name"), ("database", "postgres")],
        )
        .is_err()
    });
    until("those who have left are not counted", || figures(of_coordinator)["loxo_clients"] == 1.0);
    let after = figures(of_coordinator);
    let mut moved = vec![
        "loxo_logins_total".to_owned(),
        "loxo_errors_total{sqlstate=\"42703\"}".to_owned(),
        "loxo_texts_total{cache=\"miss\"}".to_owned(),
        "loxo_plans_total{source=\"shape\"}".to_owned(),
        "loxo_plans_total{source=\"planner\"}".to_owned(),
        "loxo_exchange_rows_total".to_owned(),
        "loxo_exchange_bytes_total".to_owned(),
        "loxo_gate_shut_seconds_count".to_owned(),
        "loxo_gate_shut_seconds_sum".to_owned(),
    ];
    moved.extend(["forward", "copy_from"].map(|plan| format!("loxo_statements_total{{plan=\"{plan}\"}}")));
    moved.extend(
        ["read_only", "one_node", "prepared", "decided", "finished"]
            .map(|phase| format!("loxo_commits_total{{phase=\"{phase}\"}}")),
    );
    moved.extend(DATANODES.map(|node| format!("loxo_copy_rows_total{{node=\"{node}\"}}")));
    for name in moved {
        let value = |page: &Figures| page.get(&name).copied().unwrap_or_default();
        assert!(value(&after) > value(&before), "{name}: {} and then {}; {after:?}", value(&before), value(&after));
    }
    assert!(after.keys().any(|name| name.starts_with("loxo_logins_refused_total")), "{after:?}");
    let copied: f64 = DATANODES.iter().map(|node| after[&format!("loxo_copy_rows_total{{node=\"{node}\"}}")]).sum();
    assert_eq!(copied, 3000.0);
    // The look for a rebalance may have the only one just now.
    let idle = "loxo_pool_connections{node=\"dn1\",state=\"idle\"}";
    until("an idle connection", || figures(of_coordinator)[idle] >= 1.0);
    client.run("BEGIN; UPDATE t SET v = 1 WHERE k = 1").expect("a change");
    let used = figures(of_coordinator);
    let used: f64 =
        DATANODES.iter().map(|node| used[&format!("loxo_pool_connections{{node=\"{node}\",state=\"used\"}}")]).sum();
    assert!(used >= 1.0);
    client.run("ROLLBACK").expect("its end");
    let in_line = somebody_waits_for_a_connection(&cluster, of_coordinator);
    commits_wait_at_the_gate(&cluster, of_coordinator);
    until("a text that was parsed before", || {
        client.run("SELECT count(*) FROM t").expect("a number");
        figures(of_coordinator)["loxo_texts_total{cache=\"hit\"}"] > before["loxo_texts_total{cache=\"hit\"}"]
    });

    // What a pass of recovery met in the middle of its commit counts until the next one.
    until("a leader, a coordinator, nothing in doubt", || {
        let gtm = figures(of_gtm);
        (gtm["loxo_gtm_leads"], gtm["loxo_gtm_coordinators"], gtm["loxo_in_doubt"]) == (1.0, 1.0, 0.0)
    });
    let gtm = figures(of_gtm);
    assert!(gtm["loxo_gtm_snapshots_total"] > 0.0, "{gtm:?}");
    client.run("CREATE DATABASE another").expect("a database");
    let mut there = Client::connect_with(cluster.coordinators()[0], &[("user", "postgres"), ("database", "another")]);
    there.as_mut().expect("a session").run("SELECT 1").expect("a row");
    until("its connection", || figures(of_gtm)["loxo_gtm_coordinators"] == 2.0);
    all_of_the_dashboard_is_told(&[figures(of_coordinator), gtm]);
    let mut pages = vec![gtm_before, figures(of_gtm)];
    pages.extend(in_doubt_is_told(&cluster, of_gtm));
    the_pages_statements_run(&mut cluster.connect(0).expect("a session"));
    pages.push(the_standby_leads(&cluster, of_gtm, of_standby));
    all_of_the_page_moves(&[before, in_line, figures(of_coordinator)], &pages);
}

/// Those that the page lists have had two values; before it is first counted, what has labels is on no page.
fn all_of_the_page_moves(coordinator: &[Figures], gtm: &[Figures]) {
    let part = PAGE.split("\n## ").find(|part| part.starts_with("Figures\n")).expect("a part about figures");
    let cells = part.lines().filter_map(|line| line.strip_prefix("| `loxo_")?.split(" |").next());
    let names: Vec<&str> = cells.flat_map(|cell| cell.split("`, `loxo_")).collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        let name = format!("loxo_{}", name.split(['{', '`']).next().expect("a name"));
        let is_gtms = name.starts_with("loxo_gtm_") || name.starts_with("loxo_in_doubt");
        let pages = if is_gtms { gtm } else { coordinator };
        let is_it = |key: &&String| {
            let of = key.split('{').next().unwrap_or_default();
            of == name || of.strip_suffix("_count") == Some(&name)
        };
        let keys: BTreeSet<&String> = pages.iter().flat_map(BTreeMap::keys).filter(is_it).collect();
        let value = |page: &Figures, key: &String| page.get(key).copied().unwrap_or_default();
        let has_moved = |key: &String| pages.iter().any(|page| value(page, key) != value(&pages[0], key));
        assert!(keys.into_iter().any(has_moved), "{name} has not moved");
    }
    // Each way that a commit may end.
    let (first, last) = (&coordinator[0], &coordinator[coordinator.len() - 1]);
    for (name, value) in last.iter().filter(|(name, _)| name.starts_with("loxo_commits_total")) {
        let has_moved = *value > first[name];
        assert!(has_moved || name.contains("unresolved") && !has_control_points(), "{name} has not moved");
    }
}

fn has_control_points() -> bool {
    let binary = std::fs::read(env!("CARGO_BIN_EXE_loxo")).expect("the program");
    binary.windows(19).any(|bytes| bytes == b"LOXO_CONTROL_POINTS")
}

/// A datanode dies between a commit's decision and its end there.
fn left_to_recovery(cluster: &Cluster, go: &std::path::Path, of_coordinator: u16) {
    let unresolved = "loxo_commits_total{phase=\"unresolved\"}";
    let (before, decided) = (figures(of_coordinator), "loxo_commits_total{phase=\"decided\"}");
    let mut client = cluster.connect(0).expect("a session");
    if has_control_points() {
        client.send_query("INSERT INTO u SELECT g, g FROM generate_series(100001, 100100) g").expect("it is sent");
        until("a decision", || figures(of_coordinator)[decided] > before[decided]);
        let pid = std::fs::read_to_string(cluster.dir().join("dn3/postmaster.pid")).expect("its file");
        kill("-QUIT", pid.lines().next().expect("a number"));
        until("its end", || !cluster.dir().join("dn3/postmaster.pid").exists());
        std::fs::write(go, "").expect("written");
        client.wait().expect("it is committed");
        assert!(figures(of_coordinator)[unresolved] > before[unresolved]);
        cluster.up().expect("the datanode comes back");
        until("it is there", || client.run("DELETE FROM u WHERE k > 100000").is_ok());
    }
}

fn kill(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().expect("kill").success());
}

/// The page at that moment.
fn somebody_waits_for_a_connection(cluster: &Cluster, of_coordinator: u16) -> Figures {
    let mut holders: Vec<Client> = (1..POOL).map(|_| cluster.connect(0).expect("a session")).collect();
    for holder in &mut holders {
        holder.run("BEGIN; SELECT v FROM t WHERE k = 1").expect("a row");
    }
    let mut late = cluster.connect(0).expect("a session");
    late.send_query("BEGIN; SELECT v FROM t WHERE k = 1").expect("it is sent");
    until("somebody in line", || figures(of_coordinator)["loxo_pool_waiting"] > 0.0);
    let page = figures(of_coordinator);
    drop(holders);
    late.wait().expect("a row");
    page
}

/// Reads over several nodes shut it, and commits come meanwhile.
fn commits_wait_at_the_gate(cluster: &Cluster, of_coordinator: u16) {
    let waited = || figures(of_coordinator)["loxo_gate_wait_seconds_count"];
    let before = waited();
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            let mut reader = cluster.connect(0).expect("a session");
            until("a commit waits", || {
                reader.run("SELECT sum(v) FROM t").expect("a sum");
                waited() > before
            });
        });
        let mut writer = cluster.connect(0).expect("a session");
        while !reads.is_finished() {
            writer.run("UPDATE t SET v = 3 WHERE k = 1").expect("a change");
        }
    });
}

/// Gives the page of the standby before it did.
fn the_standby_leads(cluster: &Cluster, of_gtm: u16, of_standby: u16) -> Figures {
    let leads = |port| figures(port)["loxo_gtm_leads"];
    assert_eq!((leads(of_gtm), leads(of_standby)), (1.0, 0.0));
    let standby = figures(of_standby);
    let is_first = |pid: &&u32| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split('\0').any(|word| word == "gtm") && !command.split('\0').any(|word| word == "gtm2")
    };
    let pids = cluster.pids("gtm").expect("gtms");
    kill("-TERM", &pids.iter().find(is_first).expect("the first gtm").to_string());
    until("the standby leads", || leads(of_standby) == 1.0);
    standby
}

/// As they stand there; but process ids are nobody's.
fn the_pages_statements_run(client: &mut Client) {
    let blocks = PAGE.split("```sql\n").skip(1).filter_map(|block| block.split("```").next());
    let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
    assert!(lines.len() >= 7, "{lines:?}");
    for line in lines {
        client.run(&line.replace("(17)", "(2000000000)")).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

/// Every figure of Grafana's dashboard is on a page.
fn all_of_the_dashboard_is_told(pages: &[Figures]) {
    let board: Value = serde_json::from_str(include_str!("../../../packaging/grafana/loxo.json")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let expressions: Vec<&str> = targets.map(|target| target["expr"].as_str().expect("an expression")).collect();
    assert!(expressions.len() > 15, "{expressions:?}");
    let told = |name: &str| pages.iter().flat_map(BTreeMap::keys).any(|key| key.split('{').next() == Some(name));
    for expression in expressions {
        let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let names: Vec<&str> = words.filter(|word| word.starts_with("loxo_")).collect();
        assert!(!names.is_empty() && names.iter().all(|name| told(name)), "{expression}");
    }
}

/// A transaction whose commit point is away stays in doubt. Gives the page of that moment, and that after one was finished whose
/// commit point has not decided it.
fn in_doubt_is_told(cluster: &Cluster, of_gtm: u16) -> [Figures; 2] {
    let mut datanode = cluster.connect_datanode(1).expect("a session");
    datanode
        .run("BEGIN; CREATE TABLE held (); PREPARE TRANSACTION 'loxo_1_77_700_00000000000000ff_1'")
        .expect("prepared");
    until("a transaction in doubt", || figures(of_gtm)["loxo_in_doubt"] == 1.0);
    until("it gets older", || figures(of_gtm)["loxo_in_doubt_age_seconds"] > 0.5);
    let in_doubt = figures(of_gtm);
    datanode.run("ROLLBACK PREPARED 'loxo_1_77_700_00000000000000ff_1'").expect("its end");
    until("no more of it", || figures(of_gtm)["loxo_in_doubt"] == 0.0);
    let resolved = || figures(of_gtm)["loxo_gtm_resolved_total"];
    let before = resolved();
    datanode
        .run("BEGIN; CREATE TABLE held (); PREPARE TRANSACTION 'loxo_1_0_700_00000000000000ff_1'")
        .expect("prepared");
    until("it is finished", || resolved() > before);
    [in_doubt, figures(of_gtm)]
}
