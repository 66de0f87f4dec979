//! Datanodes are added and removed while a gtm leads.

mod common;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Nodes, PATIENCE, Paused, value};
use pgproto::Connection;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use txn::control::{Script, with_script};
use txn::gtm::serve;
use txn::{Datanodes, GtmClient, GtmOptions, SNAPSHOT_SQL};

/// Long enough for what must not happen to happen.
const MOMENT: Duration = Duration::from_millis(500);
/// Passes of recovery, but for those that have a reason, are later than the end of a test.
const NEVER: Duration = Duration::from_secs(600);

/// A gtm; it ends when it is dropped.
struct Gtm {
    address: String,
    server: JoinHandle<pgerror::Result<()>>,
}

impl Gtm {
    /// Its configuration lists these of the nodes.
    async fn start(nodes: &Nodes, configured: &[u16], pass_interval: Duration) -> Self {
        Self::start_with(nodes, configured, pass_interval, Arc::new(|_| Box::pin(std::future::ready(())))).await
    }

    async fn start_with(nodes: &Nodes, configured: &[u16], pass_interval: Duration, script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let all = nodes.options();
        let listed: Datanodes = configured.iter().map(|id| (*id, all.get(*id).unwrap().clone())).collect();
        let options =
            GtmOptions { recovery_interval: pass_interval, lease: Duration::from_secs(1), ..GtmOptions::new(listed) };
        Self { address, server: tokio::spawn(with_script(script, serve(listener, options))) }
    }

    async fn client(&self, name: &str) -> GtmClient {
        let client = GtmClient::connect(vec![self.address.clone()], name);
        within("a connection to the gtm", client.connected()).await;
        client
    }

    /// Has the gtm lose a coordinator, which makes it fence.
    async fn lose_a_coordinator(&self) {
        let doomed = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let address = self.address.clone();
        let client = doomed.spawn(async move { GtmClient::connect(vec![address], "lost") }).await.unwrap();
        within("a connection to the gtm", client.connected()).await;
        // Its tasks are gone before it is: else it would say goodbye.
        tokio::task::spawn_blocking(move || drop(doomed)).await.unwrap();
        drop(client);
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

async fn generation(nodes: &Nodes, node: usize) -> i64 {
    value(&mut nodes.servers[node].connect().await, SNAPSHOT_SQL).await.parse().unwrap()
}

/// What CREATE NODE does before the row in `loxo.node`.
async fn give_generation(nodes: &Nodes, node: usize, generation: i64) {
    let sql = format!("SELECT setval('loxo.generation', {generation})");
    nodes.servers[node].connect().await.query_rows(&sql).await.unwrap();
}

/// The generation of a global snapshot, once one can be had that is newer than this.
async fn newer_snapshot(client: &GtmClient, than: i64) -> i64 {
    within("a global snapshot of a newer generation", async {
        loop {
            let snapshot = client.global_snapshot().await.unwrap();
            if snapshot.generation() > than {
                return snapshot.generation();
            }
            drop(snapshot);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_gtm_finds_the_datanodes_that_its_configuration_does_not_list() {
    let nodes = Nodes::start(3).await;
    let before = generation(&nodes, 0).await;
    nodes.set_members(&[0, 2]).await;
    let gtm = Gtm::start(&nodes, &[0], NEVER).await;
    let client = gtm.client("x").await;
    let now = newer_snapshot(&client, before).await;
    assert_eq!([generation(&nodes, 0).await, generation(&nodes, 2).await], [now; 2]);
    assert_eq!(generation(&nodes, 1).await, before, "it is not a datanode");
}

#[tokio::test]
async fn an_added_datanode_is_fenced_and_recovered() {
    let nodes = Nodes::start(3).await;
    nodes.set_members(&[0, 1]).await;
    let gtm = Gtm::start(&nodes, &[0, 1], Duration::from_millis(50)).await;
    let client = gtm.client("x").await;
    let before = newer_snapshot(&client, generation(&nodes, 2).await).await;
    give_generation(&nodes, 2, before).await;
    nodes.set_members(&[0, 1, 2]).await;
    let now = newer_snapshot(&client, before).await;
    for node in 0..3 {
        assert_eq!(generation(&nodes, node).await, now, "{node}");
    }
    Paused::with(&nodes, client, "decided", 1).await.kill().await;
    until("recovery", async || nodes.prepared().await == 0).await;
    assert_eq!(nodes.count(1).await, 3);
}

#[tokio::test]
async fn a_removed_datanode_is_left_alone_and_holds_up_nothing() {
    let mut nodes = Nodes::start(3).await;
    let first = generation(&nodes, 2).await;
    let gtm = Gtm::start(&nodes, &[0, 1, 2], Duration::from_millis(50)).await;
    let client = gtm.client("x").await;
    let before = newer_snapshot(&client, first).await;

    nodes.servers[2].crash();
    gtm.lose_a_coordinator().await;
    let snapshot = client.global_snapshot();
    tokio::pin!(snapshot);
    assert!(timeout(MOMENT, &mut snapshot).await.is_err(), "it is a datanode");
    nodes.set_members(&[0, 1]).await;
    let now = within("a global snapshot", snapshot).await.unwrap().generation();
    assert!(now > before);

    // It is back, and no datanode any more.
    nodes.servers[2].start();
    drop(nodes.servers[2].connect().await);
    gtm.lose_a_coordinator().await;
    let now = newer_snapshot(&client, now).await;
    assert_eq!([generation(&nodes, 0).await, generation(&nodes, 1).await], [now; 2]);
    assert_eq!(generation(&nodes, 2).await, before);
}

/// Otherwise a coordinator that the fence shuts out could decide there.
#[tokio::test]
async fn no_fence_passes_a_datanode_by_that_joins_meanwhile() {
    let nodes = Nodes::start(3).await;
    nodes.set_members(&[0, 1]).await;
    let bumped = Arc::new(Mutex::new(Vec::new()));
    let script: Script = Arc::new({
        let (bumped, options) = (bumped.clone(), nodes.options());
        move |name| {
            let (bumped, options) = (bumped.clone(), options.clone());
            Box::pin(async move {
                if name == "fence-bumped" {
                    let mut found = Vec::new();
                    for (_, node) in options.iter() {
                        found.push(value(&mut Connection::connect(node).await.unwrap(), SNAPSHOT_SQL).await);
                    }
                    bumped.lock().unwrap().push(found);
                }
            })
        }
    });
    let gtm = Gtm::start_with(&nodes, &[0, 1], NEVER, script).await;
    let client = gtm.client("x").await;
    let before = newer_snapshot(&client, generation(&nodes, 2).await).await;
    bumped.lock().unwrap().clear();

    // CREATE NODE on the primary datanode, and a fence in the middle of it.
    let mut primary = nodes.servers[0].connect().await;
    primary.execute("BEGIN; LOCK TABLE loxo.fence IN ROW SHARE MODE").await.unwrap();
    let present = value(&mut primary, SNAPSHOT_SQL).await.parse().unwrap();
    give_generation(&nodes, 2, present).await;
    let port = nodes.options().get(2).unwrap().port;
    primary.execute(&format!("INSERT INTO loxo.node VALUES (2, 'D', '127.0.0.1', {port}, false)")).await.unwrap();
    gtm.lose_a_coordinator().await;
    let mut observer = nodes.servers[0].connect().await;
    let waits = "SELECT count(*) FROM pg_locks WHERE relation = 'loxo.fence'::regclass AND NOT granted";
    until("a fence", async || value(&mut observer, waits).await == "1").await;
    bumped.lock().unwrap().clear();
    primary.execute("COMMIT").await.unwrap();

    let now = newer_snapshot(&client, before).await.to_string();
    // Another fence may follow, after a lease that the machine has slept through.
    let bumped = bumped.lock().unwrap();
    assert!(bumped.contains(&vec![now; 3]), "{bumped:?}");
    assert!(bumped.iter().all(|found| found.iter().all(|one| *one == found[0])), "{bumped:?}");
}

/// The gtm has no reason to look at it but this report, and does not know of the datanode.
#[tokio::test]
async fn what_is_left_unresolved_on_an_added_datanode_is_not_taken_for_finished() {
    let nodes = Nodes::start(3).await;
    nodes.set_members(&[0, 1]).await;
    let gtm = Gtm::start(&nodes, &[0, 1], NEVER).await;
    let (x, y) = (gtm.client("x").await, gtm.client("y").await);
    let before = newer_snapshot(&y, generation(&nodes, 2).await).await;
    give_generation(&nodes, 2, before).await;
    nodes.set_members(&[0, 1, 2]).await;
    Paused::with(&nodes, x, "decided", 1).await.kill().await;
    within("a global snapshot without it", async {
        loop {
            let snapshot = y.global_snapshot().await.unwrap();
            let (prepared, visible) = (nodes.prepared().await, nodes.count(1).await);
            if snapshot.unresolved().is_empty() && snapshot.complete() {
                assert_eq!((prepared, visible), (0, 3));
                break;
            }
        }
    })
    .await;
}

/// Without the decision its part would be rolled back.
#[tokio::test]
async fn a_decision_that_an_added_datanode_needs_is_kept() {
    let nodes = Nodes::start(3).await;
    nodes.set_members(&[0, 1]).await;
    // Another gtm leads: this one stands by.
    let mut leader = nodes.servers[0].connect().await;
    leader.execute("BEGIN; LOCK TABLE loxo.leader IN EXCLUSIVE MODE").await.unwrap();
    let (reached, at_point) = tokio::sync::oneshot::channel();
    let (go, may_go) = tokio::sync::oneshot::channel::<()>();
    let once = Mutex::new(Some((reached, may_go)));
    let script: Script = Arc::new(move |name| {
        let first = (name == "members-known").then(|| once.lock().unwrap().take()).flatten();
        Box::pin(async move {
            if let Some((reached, may_go)) = first {
                let _ = reached.send(());
                let _: Result<(), _> = may_go.await;
            }
        })
    });
    let _gtm = Gtm::start_with(&nodes, &[0, 1], Duration::from_millis(50), script).await;
    within("the standby", at_point).await.unwrap();
    nodes.set_members(&[0, 1, 2]).await;
    Paused::at(&nodes, "decided", 1).await.kill().await;
    let age = "UPDATE loxo.decision SET at = at - interval '1 hour'";
    nodes.servers[0].connect().await.execute(age).await.unwrap();
    go.send(()).unwrap();
    until("recovery", async || nodes.prepared().await == 0).await;
    assert_eq!(nodes.count(1).await, 3);
}
