//! The last step of breaking a deadlock, on a real server: only the very wait that was seen is cancelled.

mod common;

use common::{Nodes, PATIENCE, value};
use pgproto::Connection;
use txn::deadlock::{Backend, DeadlockVictim, cancel_if_waiting};

/// `connection` in a statement that waits for an advisory lock which someone else holds.
async fn send_waiting(connection: &mut Connection) {
    connection.query(b"SELECT pg_advisory_lock(1)");
    connection.flush().await.unwrap();
}

/// The wait of this process as the gtm would name it.
async fn wait_of(observer: &mut Connection, pid: i32) -> DeadlockVictim {
    let sql = format!(
        "SELECT (extract(epoch FROM waitstart) * 1000000)::int8 FROM pg_locks \
         WHERE pid = {pid} AND NOT granted AND waitstart IS NOT NULL"
    );
    let since = tokio::time::timeout(PATIENCE, async {
        loop {
            match observer.query_rows(&sql).await.unwrap().first() {
                Some(row) => return String::from_utf8(row[0].as_ref().unwrap().to_vec()).unwrap(),
                None => tokio::task::yield_now().await,
            }
        }
    });
    let since_us = since.await.expect("it waits").parse().unwrap();
    DeadlockVictim { session: 1, backend: Backend { node: 0, pid }, waiter: pid, since_us, detail: String::new() }
}

#[tokio::test]
async fn only_the_wait_that_was_seen_is_cancelled() {
    let nodes = Nodes::start(1).await;
    let server = &nodes.servers[0];
    let (mut holder, mut waiter, mut breaker) =
        (server.connect().await, server.connect().await, server.connect().await);
    let pid = waiter.cancel_key().process_id;

    // A wait that is over, then another one of the same process.
    holder.execute("SELECT pg_advisory_lock(1)").await.unwrap();
    send_waiting(&mut waiter).await;
    let past = wait_of(&mut breaker, pid).await;
    holder.execute("SELECT pg_advisory_unlock(1)").await.unwrap();
    waiter.read_rows().await.unwrap();
    assert!(!cancel_if_waiting(&mut breaker, &past).await.unwrap());
    waiter.execute("SELECT pg_advisory_unlock(1)").await.unwrap();
    holder.execute("SELECT pg_advisory_lock(1)").await.unwrap();
    send_waiting(&mut waiter).await;
    let present = wait_of(&mut breaker, pid).await;
    assert_ne!(past, present);
    assert!(!cancel_if_waiting(&mut breaker, &past).await.unwrap());
    let waits = format!("SELECT wait_event FROM pg_stat_activity WHERE pid = {pid}");
    assert_eq!(value(&mut breaker, &waits).await, "advisory");

    // The one that is on.
    assert!(cancel_if_waiting(&mut breaker, &present).await.unwrap());
    let error = waiter.read_rows().await.unwrap_err();
    assert_eq!(error.code().as_str(), "57014");
}
