//! More clients than connections to the datanodes: nobody is turned away, nobody waits for ever, and nobody gets what is another's.

use std::time::{Duration, Instant};

use testkit::Cluster;
use testkit::wire::{Client, CopyInput};

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

/// Sessions that have drawn from a sequence sit idle. Those that were first had to give way to the others, and know their values.
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
    for (session, drawn) in idle.iter_mut().zip(&drawn) {
        for asks in ASKS {
            assert_eq!(&session.scalar(asks).unwrap_or_else(|error| panic!("{asks}: {error}")), drawn, "{asks}");
        }
    }
    for (number, session) in idle.iter_mut().enumerate() {
        // A row of another table with a key of its own, which is drawn in the same statement.
        let of = session.scalar("INSERT INTO part (of) VALUES (currval('log_id_seq')) RETURNING of").expect("a row");
        assert_eq!(of, drawn[number]);
        assert_eq!(session.scalar("SELECT currval('log_id_seq')").expect("still there"), drawn[number]);
        let last = session.scalar("SELECT currval('part_id_seq')").expect("the later one");
        assert_eq!(session.scalar("SELECT lastval()").expect("the same"), last);
    }
    for session in &mut idle {
        session.run("BEGIN").expect("a block");
        let drawn = session.scalar("INSERT INTO log (a) VALUES (1) RETURNING id").expect("a number");
        assert_eq!(session.scalar("SELECT currval('log_id_seq')").expect("the same"), drawn);
        session.run("COMMIT").expect("the end");
        session.run("DISCARD ALL").expect("nothing is kept");
        assert_eq!(session.run("SELECT lastval()").expect_err("none was drawn").code().as_str(), "55000");
    }
}

/// How a session asks for what it has drawn from `log_id_seq`.
const ASKS: &[&str] = &[
    "SELECT currval('log_id_seq')",
    "SELECT lastval()",
    "SELECT currval(pg_get_serial_sequence('log', 'id'))",
    "SELECT currval(oid) FROM pg_class WHERE relname = 'log_id_seq'",
    "SELECT max(n) FROM (SELECT currval('log_id_seq') AS n FROM account WHERE k < 3) s",
    "SELECT currval('log_id_seq') + n * 0 FROM account WHERE k = 7",
    "WITH x AS (SELECT lastval() AS n) SELECT x.n FROM x, account WHERE k = 8",
    "SELECT * FROM lastval()",
];

/// What a session has drawn is told as PostgreSQL would, also when others have its backend.
fn values_are_those_of_the_session(cluster: &Cluster) {
    let mut first = cluster.connect(0).expect("a session");
    for sql in [
        "CREATE SEQUENCE gone",
        "CREATE SEQUENCE kept",
        "CREATE SEQUENCE never",
        "CREATE FUNCTION asks() RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN currval('kept'); END$$",
        "CREATE VIEW told AS SELECT currval('kept') AS n",
        "CREATE ROLE poor",
        "SELECT setval('kept', 41), nextval('kept'), nextval('gone')",
    ] {
        first.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    // Every other link gets values too, and then that of the first session.
    let mut others = sessions(cluster);
    for session in &mut others {
        session.run("SELECT nextval('log_id_seq')").expect("a number");
    }
    let code = |session: &mut Client, sql: &str| match session.scalar(sql) {
        Ok(value) => value,
        Err(error) => error.code().as_str().to_owned(),
    };
    assert_eq!(code(&mut first, "SELECT currval('kept')"), "42");
    assert_eq!(code(&mut first, "SELECT currval('never')"), "55000");
    assert_eq!(code(&mut first, "SELECT currval('nowhere')"), "42P01");
    assert_eq!(code(&mut first, "SELECT currval(NULL) IS NULL"), "t");
    assert_eq!(code(&mut first, "SELECT asks()"), "0A000");
    assert_eq!(code(&mut first, "SELECT n FROM told"), "0A000");
    first.run("SET ROLE poor").expect("a role");
    assert_eq!(code(&mut first, "SELECT currval('kept')"), "42501");
    first.run("RESET ROLE").expect("no role");
    let bound = first.extended("SELECT currval($1)", &[Some("kept")], CopyInput::default(), |_| false);
    assert_eq!(bound.expect("an answer").rows[0][0].as_deref(), Some(&b"42"[..]));
    assert_eq!(code(&mut first, "SELECT lastval()"), "1");
    first.run("DROP SEQUENCE gone").expect("it is there");
    assert_eq!(code(&mut first, "SELECT lastval()"), "55000");
    assert_eq!(code(&mut first, "SELECT nextval('kept') + currval('kept') * 1000 + lastval() * 1000000"), "43043043");
    first.run("DISCARD SEQUENCES").expect("nothing is kept");
    assert_eq!(code(&mut first, "SELECT currval('kept')"), "55000");
    for session in &mut others {
        assert_eq!(code(session, "SELECT currval('kept')"), "55000");
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
    client.run("CREATE TABLE part (id serial, of int) DISTRIBUTE BY HASH (of)").expect("a table");
    client.run("CREATE TABLE account (k int PRIMARY KEY, n int) DISTRIBUTE BY HASH (k)").expect("a table");
    client.run("INSERT INTO account SELECT g, 0 FROM generate_series(0, 1999) g").expect("rows");
    idle_sessions_hold_nothing(&cluster);
    values_are_those_of_the_session(&cluster);
    nobody_is_turned_away(&cluster);
}
