//! Gate, global snapshots and fence: a gtm, coordinators' clients and real servers.

mod common;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Nodes, PATIENCE, Paused, SEAL, all, committed, value, writers};
use pgerror::{PgError, SqlState};
use pgproto::{Connection, FrameReader, FrameWriter};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use txn::control::{Script, with_script};
use txn::gate::{DRAIN_MAX, HOLD, SNAPSHOT_MAX};
use txn::gtm::message::Message;
use txn::gtm::{leads, serve};
use txn::{
    CommitTools, GidSource, GlobalSnapshot, GtmClient, GtmOptions, Interrupt, Outcome, Participant, READ_BARRIER_SQL,
    SNAPSHOT_SQL, commit,
};

/// Long enough for what must not happen to happen.
const MOMENT: Duration = Duration::from_millis(150);

/// A gtm; it ends when it is stopped or dropped.
struct Gtm {
    address: String,
    server: JoinHandle<pgerror::Result<()>>,
}

impl Gtm {
    async fn start(nodes: &Nodes) -> Self {
        Self::start_with(nodes, Arc::new(|_| Box::pin(std::future::ready(())))).await
    }

    /// Runs under this script.
    async fn start_with(nodes: &Nodes, script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut options = GtmOptions::new(nodes.options());
        options.lease = Duration::from_millis(1000);
        Self { address, server: tokio::spawn(with_script(script, serve(listener, options))) }
    }

    async fn client(&self, name: &str) -> GtmClient {
        let client = GtmClient::connect(vec![self.address.clone()], name);
        within("a connection to the gtm", client.connected()).await;
        client
    }

    async fn stop(mut self) {
        self.server.abort();
        assert!((&mut self.server).await.unwrap_err().is_cancelled());
    }
}

impl Drop for Gtm {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} did not come"))
}

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    within(what, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Inserts `k` on the first `count` nodes and commits, in a task of its own.
async fn insert(nodes: &Nodes, gtm: &GtmClient, count: usize, k: i32) -> JoinHandle<pgerror::Result<Outcome>> {
    commit_of(nodes, gtm, inserted(nodes, count, k).await)
}

/// `k` in open transactions on the first `count` nodes.
async fn inserted(nodes: &Nodes, count: usize, k: i32) -> Vec<Connection> {
    let mut connections = nodes.connect().await;
    connections.truncate(count);
    all(&mut connections, &format!("BEGIN; INSERT INTO t VALUES ({k})")).await;
    connections
}

fn commit_of(nodes: &Nodes, gtm: &GtmClient, mut connections: Vec<Connection>) -> JoinHandle<pgerror::Result<Outcome>> {
    let (gtm, options) = (gtm.clone(), nodes.options());
    tokio::spawn(async move {
        let tools = CommitTools {
            ids: &GidSource::new(),
            nodes: &options,
            gtm: &gtm,
            seal: &SEAL,
            interrupt: &Interrupt::new(),
        };
        commit(&mut writers(&mut connections), 0, &tools).await
    })
}

async fn generations(nodes: &Nodes) -> Vec<i64> {
    let mut found = Vec::new();
    for connection in &mut nodes.connect().await {
        found.push(value(connection, SNAPSHOT_SQL).await.parse().unwrap());
    }
    found
}

/// Asks for global snapshots until one is without unresolved nodes.
async fn clean_cut(gtm: &GtmClient) -> GlobalSnapshot {
    within("a snapshot over all nodes", async {
        loop {
            let snapshot = gtm.global_snapshot().await.unwrap();
            if snapshot.unresolved().is_empty() {
                return snapshot;
            }
            drop(snapshot);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_snapshot_holds_up_commits_and_nothing_longer() {
    let nodes = Nodes::start(2).await;
    let gtm = Gtm::start(&nodes).await;
    let (x, y) = (gtm.client("x").await, gtm.client("y").await);
    drop(y.global_snapshot().await.unwrap()); // the gtm's own start is over

    // Where the machine stands still until the snapshot's time is over, all once more.
    for k in (1..60).step_by(3) {
        let blocks = [inserted(&nodes, 2, k).await, inserted(&nodes, 1, k + 1).await, inserted(&nodes, 1, k + 2).await];
        let snapshot = y.global_snapshot().await.unwrap();
        let mut committers = [&x, &x, &y].into_iter();
        let commits = blocks.map(|block| commit_of(&nodes, committers.next().unwrap(), block));
        tokio::time::sleep(MOMENT).await;
        let ended = commits.iter().any(JoinHandle::is_finished);
        let seen = (nodes.count(k).await, nodes.count(k + 1).await, nodes.count(k + 2).await);
        let (found, generation) = (generations(&nodes).await, snapshot.generation());
        // Two global snapshots at once are one barrier, but the second came too late for the first.
        let second = tokio::spawn({
            let y = y.clone();
            async move { y.global_snapshot().await.map(GlobalSnapshot::complete) }
        });
        let in_time = snapshot.complete();
        for commit in commits {
            assert_eq!(within("the commit", commit).await.unwrap().unwrap(), committed());
        }
        let second = second.await.unwrap().unwrap();
        assert_eq!((nodes.count(k).await, nodes.count(k + 1).await, nodes.count(k + 2).await), (2, 1, 1));
        if in_time && second {
            assert_eq!((ended, seen, found), (false, (0, 0, 0), vec![generation; 2]));
            return;
        }
    }
    panic!("its time is always over");
}

#[tokio::test]
async fn a_snapshot_waits_for_a_commit_that_is_becoming_visible() {
    let nodes = Nodes::start(2).await;
    let gtm = Gtm::start(&nodes).await;
    let (x, y) = (gtm.client("x").await, gtm.client("y").await);
    drop(y.global_snapshot().await.unwrap());

    // Where the machine stands still until the gate has lost patience, all once more.
    for k in 1..20 {
        let half_visible = Paused::with(&nodes, x.clone(), "decided", k).await;
        assert_eq!(nodes.count(k).await, 1);
        let asked = Instant::now();
        let mut snapshot = Box::pin(y.global_snapshot());
        let early = timeout(MOMENT / 3, &mut snapshot).await.ok();
        assert_eq!(half_visible.go_on().await.unwrap(), committed());
        let in_time = asked.elapsed() < DRAIN_MAX;
        let waited = early.is_none();
        let snapshot = match early {
            Some(snapshot) => snapshot,
            None => within("the snapshot", snapshot).await,
        }
        .unwrap();
        if in_time {
            assert!(waited);
            assert_eq!(snapshot.unresolved(), []);
        }
        assert_eq!(nodes.count(k).await, 2);
        if snapshot.complete() && in_time {
            return;
        }
    }
    panic!("its time is always over");
}

#[tokio::test]
async fn a_commit_that_takes_long_keeps_only_its_own_nodes_out() {
    let nodes = Nodes::start(3).await;
    let gtm = Gtm::start(&nodes).await;
    let (x, y) = (gtm.client("x").await, gtm.client("y").await);
    drop(y.global_snapshot().await.unwrap());
    let slow = Paused::on(&nodes, 2, x, "gate-entered", 1).await;
    for _ in 0..2 {
        let snapshot = y.global_snapshot().await.unwrap();
        assert_eq!(snapshot.unresolved(), [0, 1]);
        assert!(snapshot.complete());
    }
    assert_eq!(slow.go_on().await.unwrap(), committed());
    let snapshot = clean_cut(&y).await;
    assert_eq!(nodes.count(1).await, 2);
    drop(snapshot);
}

#[tokio::test]
async fn a_session_that_dies_in_the_middle_is_waited_for() {
    let nodes = Nodes::start(2).await;
    let gtm = Gtm::start(&nodes).await;
    let (x, y) = (gtm.client("x").await, gtm.client("y").await);
    for (k, point) in
        ["gate-entered", "decided", "before-commit-prepared", "after-commit-prepared"].into_iter().enumerate()
    {
        let k = k as i32;
        Paused::with(&nodes, x.clone(), point, k).await.kill().await;
        let snapshot = clean_cut(&y).await;
        let expected = if point == "gate-entered" { 0 } else { 2 };
        assert_eq!((nodes.count(k).await, nodes.prepared().await), (expected, 0), "{point}");
        drop(snapshot);
    }
}

#[tokio::test]
async fn a_report_is_ahead_of_the_barrier_that_waited_for_it() {
    let nodes = Nodes::start(2).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let x = GtmClient::connect(vec![listener.local_addr().unwrap().to_string()], "x");
    let (read, write) = listener.accept().await.unwrap().0.into_split();
    let (mut reader, mut writer) = (FrameReader::new(read), FrameWriter::new(write));
    let generation = generations(&nodes).await[0] as u64;
    for message in
        [Message::Welcome { lease_ms: 60_000, pending: vec![] }, Message::Generation(generation), Message::Close(7)]
    {
        if message == Message::Close(7) {
            let doomed = Paused::with(&nodes, x.clone(), "decided", 1).await;
            message.encode(writer.buffer());
            writer.flush().await.unwrap();
            tokio::time::sleep(MOMENT).await; // it drains
            doomed.kill().await;
        } else {
            message.encode(writer.buffer());
            writer.flush().await.unwrap();
        }
    }
    let mut said = Vec::new();
    while said.last() != Some(&Message::Closed(7)) {
        let frame = within("a message", reader.next()).await.unwrap().unwrap();
        match Message::decode(frame).unwrap() {
            Message::Hello { .. } | Message::Ping(_) => {}
            message => said.push(message),
        }
    }
    let [Message::Unresolved(exposed), Message::Closed(7)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(exposed.nodes, [1, 0]);
}

#[tokio::test]
async fn a_coordinator_killed_while_its_commit_becomes_visible_is_fenced_out_first() {
    let nodes = Nodes::start(2).await;
    let gtm = Gtm::start(&nodes).await;
    let y = gtm.client("y").await;
    let before = y.global_snapshot().await.unwrap().generation();

    // A process of its own would die like this: all its sockets at once, nothing said.
    let doomed = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let x = doomed.spawn({
        let address = gtm.address.clone();
        async move { GtmClient::connect(vec![address], "x") }
    });
    let x = x.await.unwrap();
    within("a connection to the gtm", x.connected()).await;
    let (reached, at_point) = tokio::sync::oneshot::channel();
    let (options, client) = (nodes.options(), x.clone());
    doomed.spawn(async move {
        let mut connections = Vec::new();
        for (_, node) in options.iter() {
            connections.push(pgproto::Connection::connect(node).await.unwrap());
        }
        all(&mut connections, "BEGIN; INSERT INTO t VALUES (1)").await;
        let reached = std::sync::Mutex::new(Some(reached));
        let script: Script = Arc::new(move |name| {
            let first = (name == "decided").then(|| reached.lock().unwrap().take()).flatten();
            Box::pin(async move {
                if let Some(reached) = first {
                    let _ = reached.send(());
                    std::future::pending::<()>().await;
                }
            })
        });
        let tools = CommitTools {
            ids: &GidSource::new(),
            nodes: &options,
            gtm: &client,
            seal: &SEAL,
            interrupt: &Interrupt::new(),
        };
        with_script(script, commit(&mut writers(&mut connections), 0, &tools)).await
    });
    within("the control point", at_point).await.unwrap();
    // Its tasks are gone before it is: else it would say goodbye.
    tokio::task::spawn_blocking(move || drop(doomed)).await.unwrap();
    drop(x);

    let snapshot = clean_cut(&y).await;
    assert_eq!((nodes.count(1).await, nodes.prepared().await), (2, 0));
    assert!(snapshot.generation() > before, "no fence");
    assert_eq!(generations(&nodes).await, [snapshot.generation(); 2]);
}

#[tokio::test]
async fn a_gtm_killed_in_a_barrier_stops_commits_for_a_second_at_most() {
    let nodes = Nodes::start(2).await;
    let gtm = Gtm::start(&nodes).await;
    let (x, y) = (gtm.client("x").await, gtm.client("y").await);
    drop(y.global_snapshot().await.unwrap());

    let block = inserted(&nodes, 2, 1).await;
    let asked = Instant::now();
    let snapshot = y.global_snapshot().await.unwrap();
    let mut commit = commit_of(&nodes, &x, block);
    gtm.stop().await;
    let done = match timeout(MOMENT, &mut commit).await {
        Ok(done) => {
            assert!(asked.elapsed() >= HOLD, "the snapshot may still be used");
            done
        }
        Err(_) => within("the commit", commit).await,
    };
    assert_eq!(done.unwrap().unwrap(), committed());
    let took = asked.elapsed();
    assert!((SNAPSHOT_MAX..PATIENCE).contains(&took), "{took:?}");
    assert_eq!(holds_for(&snapshot, &nodes).await, [false; 2], "a snapshot taken now would show the commit");
    assert!(!snapshot.complete(), "its time is over");
    // Commits go on without any gtm, on one node and on several.
    for count in [1, 2] {
        assert_eq!(insert(&nodes, &x, count, 1 + count as i32).await.await.unwrap().unwrap(), committed());
    }
}

/// Its clock may stand still: what the datanodes answer says that it is too late.
#[tokio::test]
async fn a_reader_that_is_late_learns_it_from_the_datanodes() {
    let nodes = Nodes::start(2).await;
    let gtm = Gtm::start(&nodes).await;
    let (x, y) = (gtm.client("x").await, gtm.client("y").await);
    drop(y.global_snapshot().await.unwrap());

    for count in [1, 2] {
        let asked = Instant::now();
        let snapshot = clean_cut(&y).await;
        let holds = holds_for(&snapshot, &nodes).await;
        assert!(holds == [true; 2] || asked.elapsed() >= HOLD, "{holds:?}");
        let commit = insert(&nodes, &x, count, count as i32).await;
        assert_eq!(within("the commit", commit).await.unwrap().unwrap(), committed());
        let written = &holds_for(&snapshot, &nodes).await[..count];
        assert!(written.iter().all(|holds| !holds), "{count} nodes");
        let next = clean_cut(&y).await;
        assert!(next.generation() > snapshot.generation(), "{count} nodes: no fence");
        assert!(next.complete());
    }
}

async fn holds_for(snapshot: &GlobalSnapshot, nodes: &Nodes) -> Vec<bool> {
    generations(nodes).await.into_iter().map(|value| snapshot.holds_for(value)).collect()
}

#[tokio::test]
async fn whoever_is_told_to_stop_does_not_wait_at_the_gate() {
    let nodes = Nodes::start(2).await;
    let gtm = Gtm::start(&nodes).await;
    let client = gtm.client("x").await;
    let (options, interrupt) = (nodes.options(), Interrupt::new());
    for (k, count) in [(1, 1), (2, 2), (3, 1), (4, 2)] {
        let mut connections = nodes.connect().await;
        connections.truncate(count);
        all(&mut connections, &format!("BEGIN; INSERT INTO t VALUES ({k})")).await;
        let asked = Instant::now();
        let snapshot = clean_cut(&client).await;
        let ids = GidSource::new();
        let tools = CommitTools { ids: &ids, nodes: &options, gtm: &client, seal: &SEAL, interrupt: &interrupt };
        {
            let mut participants = writers(&mut connections);
            let mut waiting = std::pin::pin!(commit(&mut participants, 0, &tools));
            if timeout(MOMENT, &mut waiting).await.is_ok() {
                // The machine stood still until the gate was open.
                assert!(asked.elapsed() >= HOLD, "the gate is shut");
                continue;
            }
            interrupt.raise(PgError::new(SqlState::QUERY_CANCELED, "enough"));
            assert_eq!(within("its end", waiting).await.unwrap_err().code(), SqlState::QUERY_CANCELED);
        }
        drop(snapshot);
        interrupt.clear();
        assert_eq!((nodes.count(k).await, nodes.prepared().await), (0, 0));
        // The connections are as good as before.
        all(&mut connections, &format!("BEGIN; INSERT INTO t VALUES ({})", 10 + k)).await;
        assert_eq!(commit(&mut writers(&mut connections), 0, &tools).await.unwrap(), committed());
    }
}

#[tokio::test]
async fn a_former_leader_s_snapshot_does_not_count() {
    let nodes = Nodes::start(2).await;
    let (first, second) = (Gtm::start(&nodes).await, Gtm::start(&nodes).await);
    until("a leader", async || leads(&first.address).await.unwrap() || leads(&second.address).await.unwrap()).await;
    let addresses = vec![first.address.clone(), second.address.clone()];
    let y = GtmClient::connect(addresses, "y");
    let old = y.global_snapshot().await.unwrap();
    assert_ne!(leads(&first.address).await.unwrap(), leads(&second.address).await.unwrap());

    // The primary datanode ends the leader's session: the lock is free.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'loxo.leader'::regclass AND granted";
    all(std::slice::from_mut(&mut nodes.servers[0].connect().await), end).await;
    until("another generation", async || generations(&nodes).await.iter().all(|g| *g != old.generation())).await;
    until("a generation of all nodes", async || {
        let new = clean_cut(&y).await;
        assert!(new.generation() > old.generation());
        generations(&nodes).await == [new.generation(); 2]
    })
    .await;
}

#[tokio::test]
async fn a_gtm_killed_at_any_point_is_replaced() {
    let nodes = Nodes::start(2).await;
    let points = ["fence-drawn", "fence-bumped", "fence-recovered", "snapshot-granted", "before-open"];
    for (k, point) in points.into_iter().enumerate() {
        let k = k as i32;
        let (reached, at_point) = tokio::sync::oneshot::channel();
        let reached = std::sync::Mutex::new(Some(reached));
        let script: Script = Arc::new(move |name| {
            let first = (name == point).then(|| reached.lock().unwrap().take()).flatten();
            Box::pin(async move {
                if let Some(reached) = first {
                    let _ = reached.send(());
                    std::future::pending::<()>().await;
                }
            })
        });
        let gtm = Gtm::start_with(&nodes, script).await;
        until("the leader", async || leads(&gtm.address).await.unwrap()).await;
        let standby = Gtm::start(&nodes).await;
        let addresses = vec![gtm.address.clone(), standby.address.clone()];
        let x = GtmClient::connect(addresses, "x");
        let asking = tokio::spawn({
            let x = x.clone();
            async move { drop(clean_cut(&x).await) }
        });
        within(point, at_point).await.unwrap();
        let killed = Instant::now();
        let insert = insert(&nodes, &x, 2, k).await;
        gtm.stop().await;
        // It may have waited for a barrier's end, or to be registered.
        assert_eq!(within("the commit", insert).await.unwrap().unwrap(), committed(), "{point}");
        within("the snapshot", asking).await.unwrap();
        until("a generation of all nodes", async || {
            let snapshot = clean_cut(&x).await;
            generations(&nodes).await == [snapshot.generation(); 2]
        })
        .await;
        assert!(killed.elapsed() < PATIENCE, "{point}: {:?}", killed.elapsed());
        assert_eq!(nodes.count(k).await, 2);
        drop(x);
        standby.stop().await;
    }
}

/// A refusal because no gtm has registered this coordinator, and nothing committed.
async fn refused(nodes: &Nodes, k: i32, result: pgerror::Result<Outcome>) {
    let error: PgError = result.unwrap_err();
    assert_eq!(error.code(), SqlState::CANNOT_CONNECT_NOW, "{error}");
    assert_eq!((nodes.count(k).await, nodes.prepared().await), (0, 0));
}

#[tokio::test]
async fn a_coordinator_that_the_gtm_does_not_know_cannot_commit() {
    let nodes = Nodes::start(2).await;
    // Registered by a gtm that is gone, and never registered.
    let (former, never) = (nodes.gtm.clone(), GtmClient::connect(vec!["127.0.0.1:1".into()], "never"));
    assert_eq!(insert(&nodes, &former, 2, 0).await.await.unwrap().unwrap(), committed());
    let gtm = Gtm::start(&nodes).await;
    drop(clean_cut(&gtm.client("y").await).await);
    let attempts = [(&former, 2, 1), (&former, 1, 2), (&never, 2, 3), (&never, 1, 4)];
    let mut commits = Vec::new();
    for (client, count, k) in attempts {
        commits.push((k, insert(&nodes, client, count, k).await));
    }
    // The others are prepared while they wait, so all are answered before any is looked at.
    let mut results = Vec::new();
    for (k, commit) in commits {
        results.push((k, within("an answer", commit).await.unwrap()));
    }
    for (k, result) in results {
        refused(&nodes, k, result).await;
    }
}

#[tokio::test]
async fn a_fence_waits_for_what_is_announced_but_not_for_ever() {
    let nodes = Nodes::start(2).await;
    let announced = Paused::at(&nodes, "prepared-all", 1).await;
    let before = generations(&nodes).await;
    let gtm = Gtm::start(&nodes).await;
    let y = gtm.client("y").await;
    assert!(timeout(Duration::from_secs(2), y.global_snapshot()).await.is_err());
    assert_eq!(generations(&nodes).await, before);
    assert_eq!(announced.go_on().await.unwrap(), committed());
    let snapshot = clean_cut(&y).await;
    assert_eq!(nodes.count(1).await, 2);
    drop(snapshot);
    gtm.stop().await;

    // A coordinator that stands still: its session is ended.
    let still = Paused::with(&nodes, y.clone(), "prepared-all", 2).await;
    let gtm = Gtm::start(&nodes).await;
    let y = gtm.client("y").await;
    drop(clean_cut(&y).await);
    assert_eq!(still.go_on().await.unwrap_err().code(), SqlState::CONNECTION_FAILURE);
    until("recovery", async || nodes.prepared().await == 0).await;
    assert_eq!(nodes.count(2).await, 0);
}

#[tokio::test]
async fn a_node_that_is_down_holds_up_a_fence_but_no_commits() {
    let mut nodes = Nodes::start(3).await;
    let gtm = Gtm::start(&nodes).await;
    let (x, y) = (gtm.client("x").await, gtm.client("y").await);
    drop(clean_cut(&y).await);
    let before = generations(&nodes).await;
    nodes.servers[2].crash();

    // Nobody was lost: global snapshots are granted; over which nodes is the statement's business.
    drop(clean_cut(&y).await);
    // Somebody is lost: global snapshots wait, commits do not.
    let lost = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let address = gtm.address.clone();
    let client = lost.spawn(async move { GtmClient::connect(vec![address], "lost") }).await.unwrap();
    within("a connection to the gtm", client.connected()).await;
    tokio::task::spawn_blocking(move || drop(lost)).await.unwrap();
    until("the loss", async || timeout(MOMENT * 2, y.global_snapshot()).await.is_err()).await;
    let (options, mut connections) = (nodes.options(), Vec::new());
    for server in &nodes.servers[..2] {
        connections.push(server.connect().await);
    }
    all(&mut connections, "BEGIN; INSERT INTO t VALUES (1)").await;
    let tools =
        CommitTools { ids: &GidSource::new(), nodes: &options, gtm: &x, seal: &SEAL, interrupt: &Interrupt::new() };
    let mut participants: Vec<Participant<'_>> = writers(&mut connections);
    assert_eq!(commit(&mut participants, 1, &tools).await.unwrap(), committed());

    nodes.servers[2].start();
    let snapshot = clean_cut(&y).await;
    assert!(snapshot.generation() > before[0]);
    assert_eq!(generations(&nodes).await, [snapshot.generation(); 3]);
}

#[tokio::test]
async fn a_read_barrier_waits_for_our_prepared_transactions_only() {
    let nodes = Nodes::start(2).await;
    let mut connections = nodes.connect().await;
    all(&mut connections, "CREATE ROLE plain; GRANT ALL ON t TO plain").await;
    all(&mut connections, "BEGIN; INSERT INTO t VALUES (7); PREPARE TRANSACTION 'mine'").await;
    all(&mut connections, "SET ROLE plain").await;
    assert!(within("an answer", connections[1].query_rows(READ_BARRIER_SQL)).await.unwrap().len() <= 1);

    let coordinator = Paused::at(&nodes, "decided", 1).await;
    let mut waiting = Box::pin(connections[1].query_rows(READ_BARRIER_SQL));
    assert!(timeout(MOMENT, &mut waiting).await.is_err());
    assert_eq!(coordinator.go_on().await.unwrap(), committed());
    within("the end of the barrier", waiting).await.unwrap();
    assert_eq!(value(&mut connections[1], "SELECT count(*) FROM t WHERE k = 1").await, "1");
}
