//! Many datanodes and far more clients than connections to them: everybody gets an answer, and no datanode has more connections than
//! its share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use testkit::Cluster;
use testkit::wire::Client;

const DATANODES: u16 = 16;
const CLIENTS: usize = 200;
const POOL: usize = 8;
/// The pool takes a tenth more, and one, for the moment.
const SHARE: usize = POOL + 1;
const ACCOUNTS: usize = 1600;
/// Of the gtm, of the coordinator's look at its members, and the test's own.
const OTHERS: usize = 8;

/// A coordinator with a small pool.
fn cluster() -> Cluster {
    let cluster = Cluster::start(DATANODES, 1).expect("a cluster");
    let file = cluster.dir().join("cluster.toml");
    let text = std::fs::read_to_string(&file).expect("the configuration");
    let line = text.lines().find(|line| line.starts_with("pool_size")).expect("a pool");
    std::fs::write(&file, text.replace(line, &format!("pool_size = {POOL}"))).expect("a smaller one");
    let coordinator = cluster.coordinator_pids().expect("a process table")[0].to_string();
    let killed = std::process::Command::new("kill").args(["-9", &coordinator]).status().expect("a kill");
    assert!(killed.success());
    cluster.up().expect("another coordinator");
    cluster
}

/// What one client does: each needs connections to all nodes, or to several one after the other, or to one.
fn work(number: usize, session: &mut Client) {
    let transfer = format!(
        "UPDATE account SET n = n - 1 WHERE k = {number}; UPDATE account SET n = n + 1 WHERE k = {}; \
         UPDATE account SET touched = touched + 1 WHERE k % {CLIENTS} = {number}",
        number + CLIENTS
    );
    match number % 4 {
        0 => {
            session.run(&format!("BEGIN; {transfer}; SELECT sum(n) FROM account; COMMIT")).expect("a transfer");
        }
        // A read in a block that has not written yet has a second connection to each node.
        1 => {
            session.run("BEGIN").expect("a block");
            assert_eq!(session.scalar("SELECT sum(n) FROM account").expect("a sum"), "0");
            session.run(&transfer).expect("a transfer");
            session.run("COMMIT").expect("the end");
        }
        2 => {
            let joined = "SELECT count(*) FROM account a JOIN account b ON a.k = b.v";
            assert_eq!(session.scalar(joined).expect("a count"), ACCOUNTS.to_string());
        }
        _ => {
            session.run("BEGIN ISOLATION LEVEL REPEATABLE READ").expect("a block");
            assert_eq!(session.scalar("SELECT sum(n) FROM account").expect("a sum"), "0");
            assert_eq!(session.scalar("SELECT sum(n) FROM account").expect("the same"), "0");
            session.run("COMMIT").expect("the end");
        }
    }
    let read = format!("SELECT v FROM account WHERE k = {number}");
    assert_eq!(session.scalar(&read).expect("a row"), (number + 1).to_string());
}

/// The most connections that any node has had until `ended`: the coordinator's, and all.
fn most_connections(cluster: &Cluster, ended: &AtomicBool) -> (usize, usize) {
    let mut nodes: Vec<Client> =
        (0..usize::from(DATANODES)).map(|node| cluster.connect_datanode(node).expect("a session")).collect();
    let seen = "SELECT count(*) FILTER (WHERE application_name <> 'loxo gtm' AND pid <> pg_backend_pid()), count(*) \
                FROM pg_stat_activity WHERE backend_type = 'client backend'";
    let (mut sessions, mut all) = (0, 0);
    while !ended.load(Ordering::Acquire) {
        for node in &mut nodes {
            let mut look = || -> (usize, usize) {
                let row = node.strings(seen).expect("a row").remove(0);
                (row[0].parse().expect("a number"), row[1].parse().expect("a number"))
            };
            let mut now = look();
            // A backend whose connection was closed for another's is there for a moment longer.
            for _ in 0..10 {
                if now.0 <= SHARE && now.1 <= SHARE + OTHERS {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
                let again = look();
                now = (now.0.min(again.0), now.1.min(again.1));
            }
            (sessions, all) = (sessions.max(now.0), all.max(now.1));
        }
        // A look now and then: the cores are for the clients.
        std::thread::sleep(Duration::from_millis(50));
    }
    (sessions, all)
}

#[test]
fn many_clients_of_many_nodes_get_answers_over_few_connections() {
    let cluster = cluster();
    let mut client = cluster.connect(0).expect("a session");
    client
        .run("CREATE TABLE account (k int PRIMARY KEY, n int, v int, touched int) DISTRIBUTE BY HASH (k)")
        .expect("a table");
    let rows = format!("SELECT g, 0, (g + 1) % {ACCOUNTS}, 0 FROM generate_series(0, {}) g", ACCOUNTS - 1);
    client.run(&format!("INSERT INTO account {rows}")).expect("rows");
    client.run("ANALYZE account").expect("statistics");

    let mut sessions: Vec<Client> = (0..CLIENTS).map(|_| cluster.connect(0).expect("a session")).collect();
    let (ended, begun) = (AtomicBool::new(false), Instant::now());
    let (most, all) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| most_connections(&cluster, &ended));
        std::thread::scope(|scope| {
            for (number, session) in sessions.iter_mut().enumerate() {
                scope.spawn(move || work(number, session));
            }
        });
        ended.store(true, Ordering::Release);
        watch.join().expect("a look at the nodes")
    });
    let took = begun.elapsed();
    eprintln!(
        "{CLIENTS} clients of {DATANODES} datanodes: {took:.1?}, at most {most} connections to a node, {all} with others"
    );
    assert!((2..=SHARE).contains(&most), "{most} connections of sessions");
    assert!(all <= SHARE + OTHERS, "{all} connections");
    assert!(took < Duration::from_secs(120), "{took:?}");
    assert_eq!(client.scalar("SELECT sum(n) FROM account").expect("a sum"), "0");
    let touched = client.scalar("SELECT sum(touched) FROM account").expect("a sum");
    assert_eq!(touched, (ACCOUNTS / 2).to_string());
}
