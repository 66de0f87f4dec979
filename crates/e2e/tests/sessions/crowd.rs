//! More clients than connections to the datanodes: nobody is turned away, nobody waits for ever, and nobody gets what is another's.

use std::time::{Duration, Instant};

use testkit::Cluster;
use testkit::wire::Client;

/// Twice the default of `pool_size`.
const CLIENTS: usize = 120;
const ROUNDS: usize = 3;
/// Far below the half minute after which a client would be turned away.
const SLOW: Duration = Duration::from_secs(20);

fn sessions(cluster: &Cluster) -> Vec<Client> {
    (0..CLIENTS).map(|_| cluster.connect(0).expect("a session")).collect()
}

/// Each session in a thread of its own; gives how long the slowest took.
fn all_at_once(sessions: &mut [Client], work: impl Fn(usize, &mut Client) + Sync) -> Duration {
    let (begin, work) = (Instant::now(), &work);
    std::thread::scope(|scope| {
        for (number, session) in sessions.iter_mut().enumerate() {
            scope.spawn(move || work(number, session));
        }
    });
    begin.elapsed()
}

/// Sessions that have drawn from a sequence sit idle.
fn idle_sessions_hold_nothing(cluster: &Cluster) {
    let mut idle = sessions(cluster);
    let drawn: Vec<String> = idle
        .iter_mut()
        .enumerate()
        .map(|(number, session)| {
            let sql = match number % 2 {
                0 => format!("INSERT INTO log (a) VALUES ({number}) RETURNING id"),
                _ => "SELECT nextval('log_id_seq')".to_owned(),
            };
            session.scalar(&sql).expect("a number")
        })
        .collect();
    // Those that were first had to give way to the others.
    let mut known = 0;
    for (session, drawn) in idle.iter_mut().zip(&drawn).rev() {
        match session.scalar("SELECT currval('log_id_seq')") {
            Ok(number) => {
                assert_eq!(&number, drawn);
                assert_eq!(&session.scalar("SELECT lastval()").expect("the same"), drawn);
                known += 1;
            }
            Err(error) => assert_eq!(error.code().as_str(), "0A000", "{error}"),
        }
    }
    assert!(known >= 30, "only {known} sessions know their values");
    for session in &mut idle {
        session.run("BEGIN").expect("a block");
        let drawn = session.scalar("INSERT INTO log (a) VALUES (1) RETURNING id").expect("a number");
        assert_eq!(session.scalar("SELECT currval('log_id_seq')").expect("the same"), drawn);
        session.run("COMMIT").expect("the end");
        session.run("DISCARD ALL").expect("nothing is kept");
        assert_eq!(session.run("SELECT lastval()").expect_err("none was drawn").code().as_str(), "55000");
    }
}

/// Statements of one node, and some that find out later that they need several.
fn nobody_is_turned_away(cluster: &Cluster) {
    let mut all = sessions(cluster);
    let blocks = |number: usize, session: &mut Client| {
        for round in 0..ROUNDS {
            let (one, other) = (number * ROUNDS + round, number * ROUNDS + round + 1000);
            session
                .run(&format!(
                    "BEGIN; UPDATE account SET n = n - 1 WHERE k = {one}; INSERT INTO log (a) VALUES ({one}); \
                     UPDATE account SET n = n + 1 WHERE k = {other}; COMMIT"
                ))
                .expect("a transfer");
        }
    };
    let alone = |number: usize, session: &mut Client| {
        for round in 0..ROUNDS {
            let (one, other) = (number * ROUNDS + round, number * ROUNDS + round + 1000);
            session.run(&format!("UPDATE account SET n = n + 1 WHERE k IN ({one}, {other})")).expect("a change");
            session.run(&format!("INSERT INTO log (a) VALUES ({one})")).expect("a row");
            session.run(&format!("SELECT n FROM account WHERE k = {other}")).expect("a row");
            session.run("SELECT count(*) FROM account").expect("a count");
        }
    };
    for took in [all_at_once(&mut all, blocks), all_at_once(&mut all, alone)] {
        assert!(took < SLOW * ROUNDS as u32, "{took:?}");
    }
    let sum = all[0].scalar("SELECT sum(n) FROM account").expect("a sum");
    assert_eq!(sum, (2 * CLIENTS * ROUNDS).to_string());
}

#[test]
fn there_may_be_more_clients_than_connections() {
    let cluster = Cluster::start(3, 1).expect("a cluster");
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE log (id serial, a int) DISTRIBUTE BY HASH (a)").expect("a table");
    client.run("CREATE TABLE account (k int PRIMARY KEY, n int) DISTRIBUTE BY HASH (k)").expect("a table");
    client.run("INSERT INTO account SELECT g, 0 FROM generate_series(0, 1999) g").expect("rows");
    idle_sessions_hold_nothing(&cluster);
    nobody_is_turned_away(&cluster);
}
