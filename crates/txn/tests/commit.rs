//! Two-phase commit against real servers.

mod common;

use std::sync::{Arc, Mutex};

use common::{Nodes, PATIENCE, Paused, all, committed, value, writers};
use pgerror::{SqlState, field};
use pgproto::Connection;
use txn::control::{Script, with_script};
use txn::{GidSource, Outcome, commit, resolve_all, rollback};

/// Every control point of a commit over several writers.
const POINTS: [&str; 9] = [
    "before-prepare",
    "announced",
    "prepared",
    "prepared-all",
    "gate-entered",
    "decided",
    "before-commit-prepared",
    "after-commit-prepared",
    "done",
];

#[tokio::test]
async fn a_transaction_commits_on_all_nodes_or_on_none() {
    let nodes = Nodes::start(3).await;
    let (options, ids) = (nodes.options(), GidSource::new());
    let tools = nodes.tools(&ids, &options);
    let mut connections = nodes.connect().await;

    // Three writers.
    all(&mut connections, "BEGIN; INSERT INTO t VALUES (1)").await;
    assert_eq!(commit(&mut writers(&mut connections), 1, &tools).await.unwrap(), committed());
    assert_eq!((nodes.count(1).await, nodes.prepared().await), (3, 0));
    assert!(connections.iter().all(Connection::is_idle));

    // Two writers and a reader; the index of the commit point names the reader, so a writer takes its place.
    all(&mut connections, "BEGIN; SELECT FROM t").await;
    all(&mut connections[..2], "INSERT INTO t VALUES (2)").await;
    let mut participants = writers(&mut connections);
    participants[2].wrote = false;
    assert_eq!(commit(&mut participants, 2, &tools).await.unwrap(), committed());
    assert_eq!((nodes.count(2).await, nodes.prepared().await), (2, 0));
    assert!(connections.iter().all(Connection::is_idle));

    // One writer: its own plain COMMIT, no decision row.
    let decisions = "SELECT count(*) FROM loxo.decision";
    let before = value(&mut connections[1], decisions).await;
    all(&mut connections, "BEGIN; SELECT FROM t").await;
    all(&mut connections[1..2], "INSERT INTO t VALUES (3)").await;
    let mut participants = writers(&mut connections);
    participants[0].wrote = false;
    participants[2].wrote = false;
    assert_eq!(commit(&mut participants, 1, &tools).await.unwrap(), committed());
    assert_eq!(nodes.count(3).await, 1);
    assert_eq!(value(&mut connections[1], decisions).await, before);

    // Readers only, and nobody at all.
    all(&mut connections, "BEGIN; SELECT FROM t").await;
    let mut participants = writers(&mut connections);
    participants.iter_mut().for_each(|p| p.wrote = false);
    assert_eq!(commit(&mut participants, 0, &tools).await.unwrap(), committed());
    assert!(connections.iter().all(Connection::is_idle));
    assert_eq!(commit(&mut [], 0, &tools).await.unwrap(), committed());

    // Rollback.
    all(&mut connections, "BEGIN; INSERT INTO t VALUES (4)").await;
    rollback(&mut writers(&mut connections)).await;
    assert_eq!(nodes.count(4).await, 0);
    assert!(connections.iter().all(Connection::is_idle));
}

#[tokio::test]
async fn a_refusal_on_one_node_rolls_back_everywhere() {
    let nodes = Nodes::start(3).await;
    let (options, ids) = (nodes.options(), GidSource::new());
    let tools = nodes.tools(&ids, &options);
    let mut connections = nodes.connect().await;
    all(&mut connections, "INSERT INTO t VALUES (0)").await;

    // The deferred key is checked by PREPARE on a participant (commit point 0), by COMMIT on the commit point (2).
    for commit_point in [0, 2] {
        all(&mut connections, "BEGIN; INSERT INTO t VALUES (1)").await;
        all(&mut connections[2..], "INSERT INTO t VALUES (0)").await;
        let error = commit(&mut writers(&mut connections), commit_point, &tools).await.unwrap_err();
        assert_eq!(error.code(), SqlState::UNIQUE_VIOLATION);
        assert_eq!(error.text(field::CONSTRAINT), "t_key");
        assert_eq!((nodes.count(1).await, nodes.prepared().await), (0, 0));
        assert!(connections.iter().all(Connection::is_idle));
    }

    // One writer.
    all(&mut connections[..1], "BEGIN; INSERT INTO t VALUES (0)").await;
    let error = commit(&mut writers(&mut connections[..1]), 0, &tools).await.unwrap_err();
    assert_eq!(error.code(), SqlState::UNIQUE_VIOLATION);
    assert!(connections[0].is_idle());

    // What PREPARE refuses is allowed at the commit point only.
    all(&mut connections, "BEGIN; INSERT INTO t VALUES (1)").await;
    all(&mut connections[..1], "CREATE TEMP TABLE mine ON COMMIT DROP AS SELECT 1").await;
    let error = commit(&mut writers(&mut connections), 1, &tools).await.unwrap_err();
    assert_eq!(error.code(), SqlState::FEATURE_NOT_SUPPORTED);
    assert_eq!((nodes.count(1).await, nodes.prepared().await), (0, 0));
    all(&mut connections, "BEGIN; INSERT INTO t VALUES (1)").await;
    all(&mut connections[..1], "CREATE TEMP TABLE mine ON COMMIT DROP AS SELECT 1").await;
    assert_eq!(commit(&mut writers(&mut connections), 0, &tools).await.unwrap(), committed());
    assert_eq!((nodes.count(1).await, nodes.prepared().await), (3, 0));
}

#[tokio::test]
async fn a_failed_transaction_is_rolled_back_and_says_so() {
    let nodes = Nodes::start(2).await;
    let (options, ids) = (nodes.options(), GidSource::new());
    let tools = nodes.tools(&ids, &options);
    let mut connections = nodes.connect().await;
    for failed in 0..2 {
        all(&mut connections, "BEGIN; INSERT INTO t VALUES (1)").await;
        connections[failed].execute("SELECT 1/0").await.unwrap_err();
        let outcome = commit(&mut writers(&mut connections), 0, &tools).await.unwrap();
        assert_eq!(outcome, Outcome { committed: false, unresolved: vec![] });
        assert_eq!((nodes.count(1).await, nodes.prepared().await), (0, 0));
        assert!(connections.iter().all(Connection::is_idle));
    }
    // A writer without a transaction is our own mistake; nothing may be committed.
    all(&mut connections[..1], "BEGIN; INSERT INTO t VALUES (1)").await;
    let error = commit(&mut writers(&mut connections), 0, &tools).await.unwrap_err();
    assert_eq!(error.code(), SqlState::INTERNAL_ERROR);
    assert_eq!((nodes.count(1).await, nodes.prepared().await), (0, 0));
}

#[tokio::test]
async fn a_session_s_weak_durability_does_not_weaken_the_decision() {
    let nodes = Nodes::start(2).await;
    let (options, ids) = (nodes.options(), GidSource::new());
    let tools = nodes.tools(&ids, &options);
    let mut connections = nodes.connect().await;
    all(&mut connections, "CREATE EXTENSION pg_walinspect; SET synchronous_commit = off").await;
    all(&mut connections, "BEGIN; INSERT INTO t VALUES (1)").await;
    let mut before = Vec::new();
    for connection in &mut connections {
        before.push(value(connection, "SELECT pg_current_wal_insert_lsn()").await);
    }
    assert_eq!(commit(&mut writers(&mut connections), 0, &tools).await.unwrap(), committed());
    // The log shows what is flushed only; the commit is there although the session asked for less, and the session keeps
    // its setting.
    for (connection, before) in connections.iter_mut().zip(before) {
        let till_end =
            match value(connection, "SELECT current_setting('server_version_num')::int < 160000").await.as_str() {
                "t" => format!("pg_get_wal_records_info_till_end_of_wal('{before}')"),
                _ => format!("pg_get_wal_records_info('{before}', 'FFFFFFFF/FFFFFFFF')"),
            };
        let ended = format!("SELECT count(*) > 0 FROM {till_end} WHERE record_type LIKE 'COMMIT%'");
        assert_eq!(value(connection, &ended).await, "t");
        assert_eq!(value(connection, "SHOW synchronous_commit").await, "off");
    }
}

#[tokio::test]
async fn an_ordinary_role_can_commit_but_not_forge() {
    let nodes = Nodes::start(2).await;
    let (options, ids) = (nodes.options(), GidSource::new());
    let tools = nodes.tools(&ids, &options);
    let mut connections = nodes.connect().await;
    all(&mut connections, "CREATE ROLE plain; GRANT ALL ON t TO plain; SET ROLE plain").await;
    all(&mut connections, "BEGIN; SAVEPOINT s; INSERT INTO t VALUES (1)").await;
    assert_eq!(commit(&mut writers(&mut connections), 0, &tools).await.unwrap(), committed());
    assert_eq!((nodes.count(1).await, nodes.prepared().await), (2, 0));
    for forbidden in [
        "SELECT gid FROM loxo.decision",
        "DELETE FROM loxo.decision",
        "UPDATE loxo.decision SET gid = ''",
        "INSERT INTO loxo.decision (gid) VALUES ('loxo_1_0_700_00000000000000ff_1')",
        "DO $$ BEGIN LOCK TABLE loxo.fence IN EXCLUSIVE MODE; END $$",
        "SELECT setval('loxo.generation', 1)",
    ] {
        let error = connections[0].execute(forbidden).await.unwrap_err();
        assert_eq!(error.code(), SqlState::INSUFFICIENT_PRIVILEGE);
    }
    // Nor may it keep fences off, or say anything about its own transaction, without a coordinator's proof for this very call.
    let mut owner = nodes.servers[0].connect().await;
    let pids: Vec<i32> = connections.iter().map(|connection| connection.cancel_key().process_id).collect();
    let proven = proof(&mut owner, pids[0], "announce").await;
    let others = proof(&mut owner, pids[1], "announce").await;
    let wrong = proof(&mut owner, pids[0], "may_commit").await;
    for proof in ["''", "NULL", &others, &wrong] {
        let call = announcing(proof);
        let error = connections[0].execute(&call).await.unwrap_err();
        assert_eq!(error.code(), SqlState::INSUFFICIENT_PRIVILEGE, "{call}: {error}");
    }
    for call in ["loxo.may_commit('', 1)", "loxo.check_proof('announce', '')"] {
        let error = connections[0].execute(&format!("SELECT {call}")).await.unwrap_err();
        assert_eq!(error.code(), SqlState::INSUFFICIENT_PRIVILEGE, "{call}: {error}");
    }
    let announce = format!("BEGIN; {}", announcing(&proven));
    assert_eq!(value(&mut connections[0], &announce).await, "t");
    let own = "RESET ROLE; SELECT gid = format('loxo_1_0_%s_00000000000000ff_1', pg_current_xact_id()) FROM loxo.decision \
               WHERE xmin = pg_current_xact_id()::xid";
    assert_eq!(value(&mut connections[0], own).await, "t");
    all(&mut connections[..1], "ROLLBACK; SET ROLE plain").await;
}

/// What a coordinator would send as its proof to this backend, as a literal.
async fn proof(superuser: &mut Connection, pid: i32, function: &str) -> String {
    let sql = format!(
        "SELECT quote_literal(sha256(outer_key || sha256(inner_key || convert_to('{pid} {function}', 'UTF8')))::text) FROM loxo.seal"
    );
    value(superuser, &sql).await
}

fn announcing(proof: &str) -> String {
    format!(
        "SELECT loxo.announce({proof}, 0::int2, 255, 1, loxo.generation_of(last_value)) = pg_current_xact_id() \
         FROM loxo.generation"
    )
}

/// A script that ends the backends of these processes when `point` is first reached.
fn terminate_at(point: &'static str, options: pgproto::ConnectOptions, process_id: i32) -> Script {
    let fired = Arc::new(Mutex::new(false));
    Arc::new(move |name| {
        let (fired, options) = (fired.clone(), options.clone());
        Box::pin(async move {
            if name == point && !std::mem::replace(&mut *fired.lock().unwrap(), true) {
                let mut killer = Connection::connect(&options).await.unwrap();
                // With a timeout it waits until the backend is gone.
                let sql = format!("SELECT pg_terminate_backend({process_id}, 10000)");
                assert_eq!(value(&mut killer, &sql).await, "t");
            }
        })
    })
}

#[tokio::test]
async fn a_backend_killed_at_any_point_leaves_all_or_nothing() {
    let nodes = Nodes::start(3).await;
    let (options, ids) = (nodes.options(), GidSource::new());
    let tools = nodes.tools(&ids, &options);
    let mut k = 0;
    for point in POINTS {
        for (victim, node) in options.iter() {
            k += 1;
            let mut connections = nodes.connect().await;
            all(&mut connections, &format!("BEGIN; INSERT INTO t VALUES ({k})")).await;
            let script = terminate_at(point, node.clone(), connections[usize::from(victim)].cancel_key().process_id);
            let mut participants = writers(&mut connections);
            let result = with_script(script, commit(&mut participants, 0, &tools)).await;
            drop(connections);
            let report = resolve_all(&options).await;
            assert!(report.waiting.is_empty() && report.unreachable.is_empty(), "{point} {victim}: {report:?}");
            let expected = match &result {
                Ok(outcome) => {
                    assert_eq!(*outcome, committed(), "{point} {victim}");
                    3
                }
                Err(error) => {
                    assert_eq!(error.code(), SqlState::CONNECTION_FAILURE, "{point} {victim}: {error:?}");
                    0
                }
            };
            assert_eq!((nodes.count(k).await, nodes.prepared().await), (expected, 0), "{point} {victim} {result:?}");
            // After the decision nothing can undo it; before the prepare nothing can save it.
            match point {
                "before-prepare" => assert!(result.is_err(), "{victim}"),
                "prepared-all" | "gate-entered" => assert_eq!(result.is_err(), victim == 0, "{victim}"),
                "announced" | "prepared" => {}
                _ => assert!(result.is_ok(), "{point} {victim}: {result:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_coordinator_that_dies_at_any_point_leaves_all_or_nothing() {
    let nodes = Nodes::start(3).await;
    let options = nodes.options();
    for (k, point) in POINTS.into_iter().enumerate() {
        let k = k as i32;
        Paused::at(&nodes, point, k).await.kill().await;
        // The backend of the commit point notices the lost connection a moment later; until then it is in progress.
        let deadline = std::time::Instant::now() + PATIENCE;
        // In this order: what is in no transaction any more is prepared by then, or never.
        while nodes.in_transaction().await || nodes.prepared().await > 0 {
            let report = resolve_all(&options).await;
            assert!(std::time::Instant::now() < deadline, "{point}: {report:?}");
        }
        let is_decided = !["before-prepare", "announced", "prepared", "prepared-all", "gate-entered"].contains(&point);
        assert_eq!(nodes.count(k).await, if is_decided { 3 } else { 0 }, "{point}");
    }
}

#[tokio::test]
async fn a_lost_answer_to_the_deciding_commit_is_found_out() {
    let nodes = Nodes::start_with(2, "").await;
    let (options, ids) = (nodes.options(), GidSource::new());
    let tools = nodes.tools(&ids, &options);
    let mut connections = nodes.connect().await;
    all(&mut connections, "BEGIN; INSERT INTO t VALUES (1)").await;
    // A standby that never comes lets the COMMIT write its record, then wait: there it is caught.
    let mut killer = nodes.servers[0].connect().await;
    all(std::slice::from_mut(&mut killer), "ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await;
    all(std::slice::from_mut(&mut killer), "SELECT pg_reload_conf()").await;
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    // The server comes to its new settings in its own time: until a commit of somebody else waits.
    let mut waits = false;
    while !waits {
        let mut other = nodes.servers[0].connect().await;
        let commits =
            tokio::spawn(async move { other.execute("SELECT pg_logical_emit_message(true, 'a', 'b')").await.is_ok() });
        while !waits && !commits.is_finished() {
            waits = value(&mut killer, kill).await != "0";
        }
    }
    // It may be seen for a moment more, and is not the one that is to be killed.
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    while value(&mut killer, waiting).await != "0" {}
    let killing = tokio::spawn(async move {
        while value(&mut killer, kill).await == "0" {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    let outcome = commit(&mut writers(&mut connections), 0, &tools).await.unwrap();
    killing.await.unwrap();
    assert_eq!(outcome, committed());
    assert!(connections[0].is_broken());
    assert_eq!((nodes.count(1).await, nodes.prepared().await), (2, 0));
}
