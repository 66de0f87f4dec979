//! TPC-H lineitem through two coordinators: every row arrives, where its hash says; and nothing of a COPY arrives whose
//! coordinator is killed.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bench::lineitem::{Blocks, Columns, Format};
use bench::{DemoOptions, LoadOptions, Target};
use e2e::watch::{peak, reset_peak};
use testkit::{Cluster, Server, ServerOptions, TempDir};

const SCALE_FACTOR: f64 = 0.05;

/// One cluster for all tests of this file, one test at a time: they kill its coordinators and measure it.
fn cluster() -> MutexGuard<'static, Cluster> {
    static CLUSTER: LazyLock<Mutex<Cluster>> = LazyLock::new(|| Mutex::new(Cluster::start(2, 2).expect("a cluster")));
    // A test that failed has nothing in the cluster that the next one would trip over.
    CLUSTER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn demo_options(cluster: &Cluster, scale_factor: f64) -> DemoOptions {
    let names = (1..).map(|number| format!("dn{number}"));
    DemoOptions {
        coordinators: cluster.coordinator_uris(),
        datanodes: names.zip(cluster.datanode_uris()).collect(),
        scale_factor,
        streams: None,
        distributed: cluster.is_distributed(),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a tokio runtime")
}

/// A stock server with the same rows, loaded by plain COPY.
fn reference() -> Server {
    let server = Server::start(&ServerOptions::default()).expect("a stock server");
    let mut client = server.connect().expect("a session");
    client.run(&format!("CREATE TABLE lineitem {}", Columns::Seven.definition())).expect("a table");
    client.begin_copy("COPY lineitem FROM STDIN").expect("COPY begins");
    let mut blocks = Blocks::new(SCALE_FACTOR, 1, 1, Columns::Seven, Format::Text);
    let (mut block, mut rows) = (Vec::new(), 0);
    loop {
        block.clear();
        match blocks.fill(&mut block) {
            0 => break,
            count => rows += count,
        }
        client.send_copy(&block).expect("data go out");
    }
    let done = client.end_copy().expect("an answer");
    assert_eq!(done.tag.as_deref(), Some(&*format!("COPY {rows}")));
    server
}

#[test]
fn every_row_arrives_where_its_hash_says() {
    let cluster = cluster();
    let reference = reference();
    let options = demo_options(&cluster, SCALE_FACTOR);
    let audited = if cluster.is_distributed() { cluster.datanode_uris() } else { Vec::new() };
    let coordinator = &cluster.coordinator_uris()[1];
    // Twice: the second run replaces the table of the first.
    for _ in 0..2 {
        runtime().block_on(bench::demo::run(&options)).expect("the demo runs");
        let found = runtime().block_on(bench::verify::run("lineitem", coordinator, &audited, &reference.uri()));
        let found = found.expect("the tables can be read");
        found.check().expect("the cluster holds the same rows, each in its place");
        assert!(found.rows > 299_000, "{found}");
        if cluster.is_distributed() {
            assert!(found.rows_by_node.iter().all(|rows| *rows > found.rows / 3), "{found}");
        }
    }
}

/// Ctrl-C in the middle of the load: the command says what was kept, and that is what there is.
#[test]
fn an_interrupted_demo_keeps_only_whole_streams() {
    let cluster = cluster();
    let options = demo_options(&cluster, 1.0);
    let interrupter = std::thread::spawn({
        let port = cluster.datanodes()[0];
        move || {
            let mut datanode = testkit::wire::Client::connect(port).expect("a session on a datanode");
            wait_for_copied_rows(&mut datanode);
            let me = std::process::id().to_string();
            assert!(Command::new("kill").args(["-INT", &me]).status().expect("kill runs").success());
        }
    });
    let error = runtime().block_on(bench::demo::run(&options)).expect_err("it was interrupted");
    interrupter.join().expect("the thread ends");
    assert_eq!(error.code().as_str(), "57014", "{error}");
    let mut client = cluster.connect(1).expect("a session");
    let count: u64 = client.scalar("SELECT count(*) FROM lineitem").expect("a count").parse().expect("a number");
    assert!(count < bench::lineitem::estimated_rows(1.0) / 2, "{count} rows are left");
    if count == 0 {
        assert!(error.to_string().contains("0 of 4 streams were finished and are kept (0 rows"), "{error}");
    }
}

#[test]
fn the_load_benchmark_measures_both_sides_and_every_other_way() {
    let cluster = cluster();
    let all_ways = cluster.is_distributed().then(|| testkit::loxo_binary().expect("the program is built"));
    let options = LoadOptions { scale_factor: 0.01, rounds: 1, all_ways, ..LoadOptions::quick() };
    let target = Target {
        coordinators: cluster.coordinator_uris(),
        datanodes: cluster.datanode_uris(),
        dir: cluster.dir(),
        distributed: cluster.is_distributed(),
    };
    let report = runtime().block_on(bench::load::run(&options, || async { Ok(target) })).expect("a report");
    assert_eq!(report.measured.len(), 2);
    for (kind, stock, cluster) in &report.measured {
        assert!(report.ratio(stock, cluster) > 0.0, "{kind}: {report}");
        // Loading 60,000 rows takes a stock server some hundredths of a second of CPU, far from 20 s.
        assert!((0.01..20.0).contains(&stock.server_cpu[0]), "{kind}: {report}");
        assert!((0.01..20.0).contains(&cluster.server_cpu[0]), "{kind}: {report}");
    }
    assert_eq!(report.ways.len(), if cluster.is_distributed() { 2 } else { 0 });
    for (kind, ways) in &report.ways {
        assert_eq!(ways.len(), 6, "{report}");
        for (way, measured) in ways {
            let is_loader = way.starts_with("loxo load");
            assert!((0.01..20.0).contains(&measured.server_cpu[0]), "{kind}, {way}: {report}");
            assert_eq!(measured.loader_cpu[0] > 0.0, is_loader, "{kind}, {way}: {report}");
        }
    }
}

#[test]
fn a_coordinator_killed_in_mid_copy_leaves_nothing_behind() {
    if testkit::self_test() {
        eprintln!("SKIPPED: a stock server has no coordinator to kill");
        return;
    }
    let cluster = cluster();
    let mut client = cluster.connect(0).expect("a session");
    let columns = Columns::Seven.definition();
    client.run("DROP TABLE IF EXISTS lineitem").expect("no table");
    client.run(&format!("CREATE TABLE lineitem {columns} DISTRIBUTE BY HASH (l_orderkey)")).expect("a table");
    client.begin_copy("COPY lineitem FROM STDIN").expect("COPY begins");
    let mut blocks = Blocks::new(SCALE_FACTOR, 1, 1, Columns::Seven, Format::Text);
    let mut block = Vec::new();
    // Eight megabytes: more than all buffers on the way.
    for _ in 0..30 {
        block.clear();
        blocks.fill(&mut block);
        client.send_copy(&block).expect("data go out");
    }
    wait_for_copied_rows(&mut cluster.connect_datanode(0).expect("a session on a datanode"));
    kill_coordinators(&cluster);
    cluster.up().expect("the cluster comes back");
    for node in 0..2 {
        let mut datanode = cluster.connect_datanode(node).expect("a session on a datanode");
        wait_until_idle(&mut datanode);
        assert_eq!(datanode.scalar("SELECT count(*) FROM lineitem").expect("a count"), "0", "datanode {node}");
        assert_eq!(datanode.scalar("SELECT count(*) FROM pg_prepared_xacts").expect("a count"), "0", "datanode {node}");
    }
    let mut client = cluster.connect(0).expect("a session");
    assert_eq!(client.scalar("SELECT count(*) FROM lineitem").expect("a count"), "0");
    client.run("DROP TABLE lineitem").expect("no lock is left");
}

/// Wherever in the commit the kill falls: all rows or none, on all datanodes, and nothing in doubt.
#[test]
fn a_coordinator_killed_in_the_commit_leaves_all_or_nothing() {
    if testkit::self_test() {
        eprintln!("SKIPPED: a stock server has no coordinator to kill");
        return;
    }
    let cluster = cluster();
    let mut client = cluster.connect(0).expect("a session");
    client.run("DROP TABLE IF EXISTS t").expect("no table");
    client.run("CREATE TABLE t (k bigint) DISTRIBUTE BY HASH (k)").expect("a table");
    let rows: String = (0..1000).map(|k| format!("{k}\n")).collect();
    let mut expected = 0;
    for delay_ms in [0, 1, 2, 3, 5, 8, 12, 20] {
        client.begin_copy("COPY t FROM STDIN").expect("COPY begins");
        client.send_copy(rows.as_bytes()).expect("data go out");
        client.send_copy_done().expect("the end goes out");
        // Not waiting for anything: the point is to hit different moments.
        std::thread::sleep(Duration::from_millis(delay_ms));
        kill_coordinators(&cluster);
        cluster.up().expect("the cluster comes back");
        for node in 0..2 {
            let mut datanode = cluster.connect_datanode(node).expect("a session on a datanode");
            wait_until_idle(&mut datanode);
            wait_for(
                || datanode.scalar("SELECT count(*) FROM pg_prepared_xacts").expect("a count") == "0",
                "in-doubt transactions to be resolved",
            );
        }
        client = cluster.connect(1).expect("a session");
        let count: u64 = client.scalar("SELECT count(*) FROM t").expect("a count").parse().expect("a number");
        assert!(
            count == expected || count == expected + 1000,
            "killed after {delay_ms} ms: {count} rows, {expected} before"
        );
        expected = count;
        client = cluster.connect(0).expect("a session");
    }
}

/// Rows of any width, each in a message of its own: what a coordinator needs for a COPY stays below 96 MiB, and so below the 140 MB
/// of the rows.
#[test]
fn a_copy_needs_little_memory() {
    const GROWTH_MAX: u64 = 96 << 20;
    if testkit::self_test() {
        eprintln!("SKIPPED: a stock server has no coordinator to measure");
        return;
    }
    let cluster = cluster();
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE thin (k int, v text) DISTRIBUTE BY HASH (k)").expect("a table");
    client.run("CREATE TABLE fat (k int, j json) DISTRIBUTE BY HASH (k)").expect("a table");
    // Both have been used once, and what is kept for good is there.
    for sql in ["COPY thin FROM STDIN", "COPY fat FROM STDIN"] {
        copy_rows(&mut client, sql, std::iter::once(b"1\t1\n".to_vec()));
    }
    let pids = cluster.coordinator_pids().expect("/proc can be read");
    let before: Vec<u64> = pids.iter().map(|pid| reset_peak(*pid)).collect();
    let wide = format!("1\t{}\n", "w".repeat(1 << 20)).into_bytes();
    copy_rows(
        &mut client,
        "COPY thin FROM STDIN",
        std::iter::once(wide).chain((0..800_000).map(|k| format!("{k}\ta\n").into())),
    );
    let json = |k: u32| format!("{k}\t[{}1]\n", "12345, ".repeat(50_000)).into_bytes();
    copy_rows(&mut client, "COPY fat FROM STDIN", (0..400).map(json));
    for (pid, before) in pids.iter().zip(before) {
        let growth = peak(*pid).saturating_sub(before);
        eprintln!("a coordinator of {} MiB grew by {} MiB", before >> 20, growth >> 20);
        assert!(growth < GROWTH_MAX, "{} MiB more", growth >> 20);
    }
    client.run("DROP TABLE thin, fat").expect("no lock is left");
}

/// One COPY on several cores, of a server-side file and of a client's input: threads convert rows ahead of the router.
#[test]
fn helpers_of_a_copy_change_nothing_and_need_little_memory() {
    const GROWTH_MAX: u64 = 64 << 20;
    if testkit::self_test() {
        eprintln!("SKIPPED: a stock server has no helpers");
        return;
    }
    let cluster = cluster();
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE helped (k int, v text, d date) DISTRIBUTE BY HASH (k)").expect("a table");
    let row = |k: u32| match k % 1000 {
        1 => format!("{k},\"two\nlines\",2024-02-29\n"),
        2 => format!("{k},{},29 February 2024\n", "long".repeat(5000)),
        _ => format!("{k},a word or two about number {k},2024-02-29\n"),
    };
    let good: String = (0..100_000).map(row).collect();
    let dir = TempDir::new("copy-helpers").expect("a directory");
    let write = |name: &str, data: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, data).expect("a file");
        path.display().to_string()
    };
    let (file, bad) = (write("good.csv", &good), write("bad.csv", &format!("{good}x,y,\n1,,\n")));
    let pids = cluster.coordinator_pids().expect("/proc can be read");
    let (mut told, mut before) = (Vec::new(), Vec::new());
    for helpers in [0, 2] {
        before = pids.iter().map(|pid| reset_peak(*pid)).collect();
        client.run(&format!("SET loxo.copy_helpers = {helpers}")).expect("a setting");
        let copied = most_helpers(&pids, || {
            client.run(&format!("COPY helped FROM '{file}' (FORMAT csv)")).expect("rows");
        });
        assert_eq!(copied, helpers, "threads of a COPY from a file");
        let copied = most_helpers(&pids, || {
            client.begin_copy("COPY helped FROM STDIN (FORMAT csv)").expect("COPY begins");
            good.as_bytes().chunks(100_000).for_each(|chunk| client.send_copy(chunk).expect("data go out"));
            assert_eq!(client.end_copy().expect("an answer").tag.as_deref(), Some("COPY 100000"));
        });
        assert!(copied <= helpers, "{copied} threads of a client's COPY");
        let error = client.run(&format!("COPY helped FROM '{bad}' (FORMAT csv)")).expect_err("a bad row");
        let sums = "SELECT count(*), count(DISTINCT k), sum(hashtextextended(h::text, 0)::numeric) FROM helped h";
        told.push((error.text(pgerror::field::WHERE).into_owned(), client.strings(sums).expect("sums")));
        client.run("TRUNCATE helped").expect("an empty table");
    }
    assert_eq!(told[0], told[1]);
    assert!(told[0].0.contains("COPY helped, line 100101, column k"), "{}", told[0].0);
    assert_eq!(told[0].1[0][..2], ["200000", "100000"]);
    for (pid, before) in pids.iter().zip(before) {
        let growth = peak(*pid).saturating_sub(before);
        eprintln!("a coordinator of {} MiB grew by {} MiB", before >> 20, growth >> 20);
        assert!(growth < GROWTH_MAX, "{} MiB more", growth >> 20);
    }
    client.run("DROP TABLE helped").expect("no lock is left");
}

/// How many helpers these coordinators have had at a time while something was done.
fn most_helpers(pids: &[u32], work: impl FnOnce()) -> usize {
    let is_done = AtomicBool::new(false);
    let now = || pids.iter().map(|pid| threads_named(*pid, "copy helper")).sum::<usize>();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = now();
            while !is_done.load(Ordering::Relaxed) {
                most = most.max(now());
                std::thread::sleep(Duration::from_millis(2));
            }
            most
        });
        work();
        is_done.store(true, Ordering::Relaxed);
        watcher.join().expect("a number")
    })
}

fn threads_named(pid: u32, name: &str) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    // A thread may end while we look.
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|found| found.trim_end() == name).count()
}

fn copy_rows(client: &mut testkit::wire::Client, sql: &str, rows: impl Iterator<Item = Vec<u8>>) {
    const MESSAGES: usize = 5000;
    client.begin_copy(sql).expect("COPY begins");
    let (mut count, mut batch) = (0, Vec::new());
    let mut rows = rows.peekable();
    while rows.peek().is_some() {
        batch.extend(rows.by_ref().take(MESSAGES));
        let messages: Vec<(u8, &[u8])> = batch.iter().map(|row| (b'd', &row[..])).collect();
        client.send_messages(&messages).expect("data go out");
        count += batch.len();
        batch.clear();
    }
    let done = client.end_copy().expect("an answer");
    assert_eq!(done.tag.as_deref(), Some(&*format!("COPY {count}")), "{:?}", done.error);
}

fn kill_coordinators(cluster: &Cluster) {
    let pids = cluster.coordinator_pids().expect("/proc can be read");
    assert!(!pids.is_empty(), "no coordinator process found");
    for pid in pids {
        let status = Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill runs");
        assert!(status.success());
    }
}

/// A kill must come when datanodes hold rows that are not committed; pg_stat_progress_copy shows them.
fn wait_for_copied_rows(datanode: &mut testkit::wire::Client) {
    let query = "SELECT coalesce(sum(tuples_processed), 0) > 0 FROM pg_stat_progress_copy";
    wait_for(|| datanode.scalar(query).expect("an answer") == "t", "rows of the COPY on a datanode");
}

/// The backends of a dead coordinator notice it when they next read or write.
fn wait_until_idle(datanode: &mut testkit::wire::Client) {
    let query = "SELECT count(*) = 0 FROM pg_stat_progress_copy";
    wait_for(|| datanode.scalar(query).expect("an answer") == "t", "the end of the COPY on a datanode");
}

fn wait_for(mut condition: impl FnMut() -> bool, what: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited a minute for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
