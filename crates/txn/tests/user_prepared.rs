//! PREPARE TRANSACTION and COMMIT PREPARED over several nodes, with deaths at every step.

mod common;

use std::future::Future;
use std::sync::{Arc, Mutex};

use common::{Nodes, SEAL, all, value, writers};
use pgerror::{Result, SqlState};
use pgproto::Connection;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use txn::control::{Script, with_script};
use txn::user_prepared::{self, End, Registration};
use txn::{CommitTools, Datanodes, GidSource, Interrupt, READ_BARRIER_SQL, resolve_all};

/// Where the rows of the tests are registered; not the first, to tell it from other defaults.
const REGISTRY: u16 = 1;

fn registration(name: &str) -> Registration {
    Registration { name: name.into(), owner: "postgres".into(), database: "postgres".into() }
}

async fn connect(options: &Datanodes) -> Result<Vec<Connection>> {
    let mut connections = Vec::new();
    for (_, options) in options.iter() {
        connections.push(Connection::connect(options).await?);
    }
    Ok(connections)
}

/// Inserts `k` on all nodes and prepares it.
fn prepare(nodes: &Nodes, name: String, k: i32) -> impl Future<Output = Result<()>> + Send + use<> {
    let (options, gtm) = (nodes.options(), nodes.gtm.clone());
    async move {
        let mut connections = connect(&options).await?;
        all(&mut connections, &format!("BEGIN; INSERT INTO t VALUES ({k})")).await;
        let mut registry = Connection::connect(options.get(REGISTRY).unwrap()).await?;
        let tools = CommitTools {
            ids: &GidSource::new(),
            nodes: &options,
            gtm: &gtm,
            seal: &SEAL,
            interrupt: &Interrupt::new(),
        };
        let mut participants = writers(&mut connections);
        user_prepared::prepare(&mut participants, &mut registry, REGISTRY, &registration(&name), &tools).await
    }
}

fn finish(nodes: &Nodes, name: String, end: End) -> impl Future<Output = Result<Vec<u16>>> + Send + use<> {
    let (options, gtm) = (nodes.options(), nodes.gtm.clone());
    async move {
        let mut registry = Connection::connect(options.get(REGISTRY).unwrap()).await?;
        let found = user_prepared::find(&mut registry, &name, "postgres", false).await?;
        let mut connections = connect(&options).await?;
        assert_eq!(found.nodes.len(), connections.len(), "it is on all nodes");
        let tools = CommitTools {
            ids: &GidSource::new(),
            nodes: &options,
            gtm: &gtm,
            seal: &SEAL,
            interrupt: &Interrupt::new(),
        };
        let mut participants = writers(&mut connections);
        user_prepared::finish(&found, &name, end, &mut registry, &mut participants, &tools).await
    }
}

/// Work that has come to a control point and waits there.
struct Stopped<T> {
    task: JoinHandle<T>,
    go: oneshot::Sender<()>,
}

impl<T: Send + 'static> Stopped<T> {
    async fn at(point: &'static str, work: impl Future<Output = T> + Send + 'static) -> Self {
        let (reached, at_point) = oneshot::channel();
        let (go, may_go) = oneshot::channel();
        let once = Mutex::new(Some((reached, may_go)));
        let script: Script = Arc::new(move |name| {
            let first = (name == point).then(|| once.lock().unwrap().take()).flatten();
            Box::pin(async move {
                if let Some((reached, may_go)) = first {
                    let _ = reached.send(());
                    let _: Result<(), _> = may_go.await;
                }
            })
        });
        let task = tokio::spawn(with_script(script, work));
        at_point.await.unwrap_or_else(|_| panic!("{point} was not reached"));
        Self { task, go }
    }

    async fn go_on(self) -> T {
        let _ = self.go.send(());
        self.task.await.unwrap()
    }

    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.err().expect("it was killed").is_cancelled());
    }
}

async fn names(nodes: &Nodes) -> Vec<String> {
    let mut registry = nodes.servers[usize::from(REGISTRY)].connect().await;
    let rows = registry.query_rows("SELECT gid FROM loxo.pg_prepared_xacts ORDER BY 1").await.unwrap();
    rows.into_iter().flatten().flatten().map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
}

/// Rows of the registry and marks on all nodes.
async fn leftovers(nodes: &Nodes) -> usize {
    let mut count = 0;
    for connection in &mut nodes.connect().await {
        let sql = "SELECT (SELECT count(*) FROM loxo.prepared_transaction) + (SELECT count(*) FROM loxo.finishing)";
        count += value(connection, sql).await.parse::<usize>().unwrap();
    }
    count
}

/// Passes of recovery until nothing is in doubt; backends of dead coordinators need a moment to notice.
async fn recover(nodes: &Nodes) {
    let deadline = std::time::Instant::now() + common::PATIENCE;
    loop {
        let report = resolve_all(&nodes.options()).await;
        if report.waiting.is_empty() && report.unreachable.is_empty() {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{report:?}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_prepared_transaction_is_kept_and_ends_on_all_nodes() {
    let nodes = Nodes::start(3).await;
    let options = nodes.options();
    for (k, end) in [(1, End::Commit), (2, End::Rollback)] {
        let name = format!("it's \\ {k}");
        prepare(&nodes, name.clone(), k).await.unwrap();
        assert_eq!((nodes.count(k).await, nodes.prepared().await, names(&nodes).await), (0, 3, vec![name.clone()]));
        let report = resolve_all(&options).await;
        assert_eq!((report.resolved, report.waiting.len()), (0, 0), "recovery must leave it alone: {report:?}");

        let error = prepare(&nodes, name.clone(), 9).await.unwrap_err();
        assert_eq!(error.code(), SqlState::DUPLICATE_OBJECT);
        assert_eq!((nodes.count(9).await, nodes.prepared().await), (0, 3));

        assert_eq!(finish(&nodes, name.clone(), end).await.unwrap(), Vec::<u16>::new());
        let expected = if end == End::Commit { 3 } else { 0 };
        assert_eq!((nodes.count(k).await, nodes.prepared().await, names(&nodes).await), (expected, 0, vec![]));
        assert_eq!(finish(&nodes, name, end).await.unwrap_err().code(), SqlState::UNDEFINED_OBJECT);
    }
}

#[tokio::test]
async fn what_one_node_refuses_is_rolled_back_on_all() {
    let nodes = Nodes::start(3).await;
    all(std::slice::from_mut(&mut nodes.servers[2].connect().await), "INSERT INTO t VALUES (1)").await;
    let error = prepare(&nodes, "x".into(), 1).await.unwrap_err();
    assert_eq!(error.code(), SqlState::UNIQUE_VIOLATION, "the deferred constraint of one node");
    assert_eq!((nodes.count(1).await, nodes.prepared().await, leftovers(&nodes).await), (1, 0, 0));
    let long = "x".repeat(200);
    let error = prepare(&nodes, long, 2).await.unwrap_err();
    assert_eq!(error.code(), SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!((nodes.prepared().await, leftovers(&nodes).await), (0, 0));
}

#[tokio::test]
async fn two_at_once_of_one_name_do_not_wait_for_each_other() {
    let nodes = Nodes::start(2).await;
    let first = prepare(&nodes, "x".into(), 1);
    let first = Stopped::at("user-prepared-all", first).await;
    let error = prepare(&nodes, "x".into(), 2).await.unwrap_err();
    assert_eq!(error.code(), SqlState::DUPLICATE_OBJECT);
    let error = finish(&nodes, "x".into(), End::Commit).await.unwrap_err();
    assert_eq!(error.code(), SqlState::UNDEFINED_OBJECT, "it is not prepared yet");
    first.go_on().await.unwrap();
    assert_eq!((nodes.prepared().await, names(&nodes).await), (2, vec!["x".to_owned()]));

    let commit = Stopped::at("finish-decided", finish(&nodes, "x".into(), End::Commit)).await;
    let error = finish(&nodes, "x".into(), End::Rollback).await.unwrap_err();
    assert_eq!(error.code(), SqlState::UNDEFINED_OBJECT, "somebody else finishes it");
    // Its name is free again, as it is in PostgreSQL.
    prepare(&nodes, "x".into(), 3).await.unwrap();
    assert_eq!(commit.go_on().await.unwrap(), Vec::<u16>::new());
    assert_eq!((nodes.count(1).await, nodes.count(3).await, nodes.prepared().await), (2, 0, 2));
}

#[tokio::test]
async fn only_its_owner_or_a_superuser_may_end_it() {
    let nodes = Nodes::start(2).await;
    prepare(&nodes, "x".into(), 1).await.unwrap();
    let mut registry = nodes.servers[usize::from(REGISTRY)].connect().await;
    let error = user_prepared::find(&mut registry, "x", "mallory", false).await.unwrap_err();
    assert_eq!(error.code(), SqlState::INSUFFICIENT_PRIVILEGE);
    let found = user_prepared::find(&mut registry, "x", "root", true).await.unwrap();
    assert_eq!((found.nodes, found.gid.commit_point), (vec![0, 1], REGISTRY));
}

/// Points before the row is committed and after it.
const PREPARE_POINTS: [(&str, bool); 4] =
    [("user-registered", false), ("user-prepared", false), ("user-prepared-all", false), ("user-kept", true)];

/// Recovery until nothing is left of what is not kept: a PREPARE on its way may arrive after the first pass.
async fn resolved(nodes: &Nodes, kept: bool) {
    let deadline = std::time::Instant::now() + common::PATIENCE;
    recover(nodes).await;
    while !kept && (nodes.in_transaction().await || nodes.prepared().await > 0) {
        assert!(std::time::Instant::now() < deadline);
        recover(nodes).await;
    }
}

#[tokio::test]
async fn a_coordinator_that_dies_while_it_prepares_leaves_all_or_nothing() {
    let nodes = Nodes::start(3).await;
    for (k, (point, kept)) in (1..).zip(PREPARE_POINTS) {
        let name = format!("at {point}");
        Stopped::at(point, prepare(&nodes, name.clone(), k)).await.kill().await;
        resolved(&nodes, kept).await;
        let (prepared, listed) = if kept { (3, vec![name.clone()]) } else { (0, vec![]) };
        assert_eq!((nodes.prepared().await, names(&nodes).await), (prepared, listed), "{point}");
        // The name is free exactly if nothing was kept, and what was kept can be committed.
        let again = prepare(&nodes, name.clone(), k + 100).await;
        assert_eq!(again.is_err(), kept, "{point}");
        finish(&nodes, name, End::Commit).await.unwrap();
        let committed = if kept { k } else { k + 100 };
        assert_eq!((nodes.count(committed).await, nodes.prepared().await), (3, 0), "{point}");
    }
}

/// Points before the decision and after it.
const FINISH_POINTS: [(&str, bool); 7] = [
    ("finish-deciding", false),
    ("finish-decided", true),
    ("finish-mark", true),
    ("finish-marked", true),
    ("finish-one", true),
    ("finished-one", true),
    ("finish-done", true),
];

#[tokio::test]
async fn a_coordinator_that_dies_while_it_finishes_is_replaced() {
    let nodes = Nodes::start(3).await;
    let mut k = 0;
    for end in [End::Commit, End::Rollback] {
        for (point, decided) in FINISH_POINTS {
            if (end, point) == (End::Rollback, "finish-mark") {
                continue;
            }
            k += 1;
            let name = format!("{k}");
            prepare(&nodes, name.clone(), k).await.unwrap();
            Stopped::at(point, finish(&nodes, name.clone(), end)).await.kill().await;
            recover(&nodes).await;
            if !decided {
                assert_eq!((nodes.prepared().await, nodes.count(k).await), (3, 0), "{point}: it must be kept");
                finish(&nodes, name, end).await.unwrap();
            }
            let expected = if end == End::Commit { 3 } else { 0 };
            assert_eq!((nodes.prepared().await, nodes.count(k).await), (0, expected), "{end:?} {point}");
            assert_eq!(names(&nodes).await, Vec::<String>::new(), "{end:?} {point}");
        }
    }
}

#[tokio::test]
async fn servers_may_crash_at_any_step() {
    let mut nodes = Nodes::start(3).await;
    let mut k = 0;
    for victim in [0, usize::from(REGISTRY)] {
        for (point, kept) in PREPARE_POINTS {
            k += 1;
            let name = format!("{k}");
            let work = prepare(&nodes, name.clone(), k);
            let stopped = Stopped::at(point, work).await;
            nodes.servers[victim].crash();
            nodes.servers[victim].start();
            drop(nodes.servers[victim].connect().await);
            let result = stopped.go_on().await;
            recover(&nodes).await;
            let is_kept = names(&nodes).await.contains(&name);
            assert!(!kept || is_kept, "{point} {victim}: what was kept outlives a crash");
            assert_eq!(result.is_ok(), is_kept, "{point} {victim}: {result:?}");
            assert_eq!(nodes.prepared().await, if is_kept { 3 } else { 0 }, "{point} {victim}");
            if is_kept {
                finish(&nodes, name, End::Rollback).await.unwrap();
            }
        }
    }
    for victim in [0, usize::from(REGISTRY)] {
        for (point, decided) in FINISH_POINTS {
            k += 1;
            let name = format!("{k}");
            prepare(&nodes, name.clone(), k).await.unwrap();
            let stopped = Stopped::at(point, finish(&nodes, name.clone(), End::Commit)).await;
            nodes.servers[victim].crash();
            nodes.servers[victim].start();
            drop(nodes.servers[victim].connect().await);
            let result = stopped.go_on().await;
            recover(&nodes).await;
            let is_kept = names(&nodes).await.contains(&name);
            assert!(!(decided && is_kept), "{point} {victim}: a decision outlives a crash");
            assert_eq!(result.is_err(), is_kept, "{point} {victim}: {result:?}");
            if is_kept {
                finish(&nodes, name, End::Commit).await.unwrap();
            }
            assert_eq!((nodes.prepared().await, nodes.count(k).await), (0, 3), "{point} {victim}");
        }
    }
}

#[tokio::test]
async fn no_node_commits_before_all_know_that_it_is_being_finished() {
    let mut nodes = Nodes::start(3).await;
    prepare(&nodes, "x".into(), 1).await.unwrap();
    Stopped::at("finish-decided", finish(&nodes, "x".into(), End::Commit)).await.kill().await;
    nodes.servers[2].crash();
    let report = resolve_all(&nodes.options()).await;
    assert_eq!((report.resolved, report.waiting.len(), report.unreachable.len()), (0, 2, 1), "{report:?}");
    for server in &nodes.servers[..2] {
        let mut connection = server.connect().await;
        assert_eq!(value(&mut connection, "SELECT count(*) FROM t WHERE k = 1").await, "0");
    }
    nodes.servers[2].start();
    drop(nodes.servers[2].connect().await);
    recover(&nodes).await;
    assert_eq!((nodes.prepared().await, nodes.count(1).await), (0, 3));
}

#[tokio::test]
async fn readers_wait_for_those_that_are_being_committed_and_for_no_others() {
    let nodes = Nodes::start(2).await;
    prepare(&nodes, "kept".into(), 1).await.unwrap();
    prepare(&nodes, "x".into(), 2).await.unwrap();
    let mut reader = nodes.servers[0].connect().await;
    reader.execute(READ_BARRIER_SQL).await.unwrap();
    let commit = Stopped::at("finish-one", finish(&nodes, "x".into(), End::Commit)).await;
    let waiting = tokio::spawn(async move {
        reader.execute(READ_BARRIER_SQL).await.unwrap();
        value(&mut reader, "SELECT count(*) FROM t WHERE k = 2").await
    });
    let mut watcher = nodes.servers[0].connect().await;
    let waits =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT loxo.read_barrier%' AND wait_event = 'PgSleep'";
    let deadline = std::time::Instant::now() + common::PATIENCE;
    while value(&mut watcher, waits).await == "0" {
        assert!(std::time::Instant::now() < deadline && !waiting.is_finished());
    }
    commit.go_on().await.unwrap();
    assert_eq!(waiting.await.unwrap(), "1");
    assert_eq!(names(&nodes).await, ["kept"]);
}

#[tokio::test]
async fn the_gtm_clears_up_after_them() {
    let nodes = Nodes::start(2).await;
    prepare(&nodes, "kept".into(), 1).await.unwrap();
    prepare(&nodes, "x".into(), 2).await.unwrap();
    Stopped::at("finish-marked", finish(&nodes, "x".into(), End::Commit)).await.kill().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = txn::GtmOptions::new(nodes.options());
    options.recovery_interval = std::time::Duration::from_millis(50);
    let gtm = tokio::spawn(txn::gtm::serve(listener, options));
    let deadline = std::time::Instant::now() + common::PATIENCE;
    // The row of the one that is kept is all that stays.
    while (leftovers(&nodes).await, nodes.prepared().await) != (1, 2) {
        assert!(std::time::Instant::now() < deadline && !gtm.is_finished());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!((nodes.count(2).await, names(&nodes).await), (2, vec!["kept".to_owned()]));
    gtm.abort();
}
