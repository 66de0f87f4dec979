//! What a server must bear: statements that are deep, wide or long, strangers that say nothing, signals.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgerror::field;
use testkit::wire::Client;
use testkit::{Cluster, free_ports};

/// The answer, or `None` if the statement is too deep. Any other error is one too many.
fn unless_too_deep(client: &mut Client, sql: &str) -> Option<String> {
    match client.scalar(sql) {
        Ok(value) => Some(value),
        Err(error) => {
            let said = (error.code().as_str().to_owned(), error.message().into_owned());
            assert_eq!(said, ("54001".to_owned(), "stack depth limit exceeded".to_owned()), "{error:?}");
            assert!(error.text(field::HINT).contains("max_stack_depth"), "{error:?}");
            None
        }
    }
}

/// A kind of statement, by its depth; its answer is that depth.
type Shape = fn(usize) -> String;

const SHAPES: [(&str, Shape); 6] = [
    ("operators", |levels| format!("SELECT {}", vec!["1"; levels].join(" + "))),
    ("operators over nodes", |levels| format!("SELECT min({}) FROM deep", vec!["k"; levels].join(" + "))),
    ("UNION", |levels| format!("SELECT count(*) FROM ({}) AS u", vec!["SELECT 1"; levels].join(" UNION ALL "))),
    ("UNION over nodes", |levels| {
        format!("SELECT count(*) / 4 FROM ({}) AS u", vec!["SELECT k FROM deep"; levels].join(" UNION ALL "))
    }),
    ("sub-selects", |levels| {
        (0..levels).fold("SELECT 0 AS a".to_owned(), |inner, _| format!("SELECT a + 1 AS a FROM ({inner}) AS t"))
    }),
    ("calls", |levels| format!("SELECT {}0{}", "int4inc(".repeat(levels), ")".repeat(levels))),
];

fn deep_statements(client: &mut Client) {
    client.run("CREATE TABLE deep (k int PRIMARY KEY, v text) DISTRIBUTE BY HASH (k)").expect("a table");
    client.run("INSERT INTO deep VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')").expect("rows");
    for (name, shape) in SHAPES {
        for levels in [25, 50, 95] {
            let answer = unless_too_deep(client, &shape(levels));
            assert_eq!(answer, Some(levels.to_string()), "{name}: {levels} levels");
        }
    }
    // PostgreSQL itself takes seconds for thousands of sub-selects.
    for (name, shape) in &SHAPES[..3] {
        let mut levels = 200;
        while let Some(answer) = unless_too_deep(client, &shape(levels)) {
            assert_eq!(answer, levels.to_string(), "{name}");
            levels *= 2;
        }
        assert!(levels > 200, "{name}");
    }
    assert_eq!(unless_too_deep(client, &format!("SELECT {}", vec!["1"; 200_000].join(" + "))), None);
    assert_eq!(client.scalar("SELECT 7").expect("it lives"), "7");
}

fn wide_statements(client: &mut Client) {
    // As many parameters as a message has room for.
    let list: Vec<String> = (1..=65_535).map(|number| format!("${number}::int")).collect();
    let sql = format!("s\0SELECT cardinality(ARRAY[{}])\0\0\0", list.join(","));
    let mut bind = b"\0s\0\0\0\xff\xff".to_vec();
    (0..65_535).for_each(|_| bind.extend_from_slice(b"\0\0\0\x017"));
    bind.extend_from_slice(b"\0\0");
    let messages: [(u8, &[u8]); 4] = [(b'P', sql.as_bytes()), (b'B', &bind), (b'E', b"\0\0\0\0\0"), (b'S', b"")];
    client.send_messages(&messages).expect("sent");
    let answers = client.wait().expect("answers");
    assert!(answers.iter().all(|answer| answer.error.is_none()), "{answers:?}");
    let rows: Vec<_> = answers.iter().flat_map(|answer| &answer.rows).flatten().flatten().collect();
    assert_eq!(rows, [&b"65535"[..]]);
}

/// While one session's long text is read, others are answered.
fn long_statements(cluster: &Cluster, client: &mut Client) {
    let rows: Vec<String> = (10..40_000).map(|row| format!("({row}, 'value of row {row}')")).collect();
    let wrong = format!("INSERT INTO deep VALUES {} FRM", rows.join(", "));
    let started = Instant::now();
    let error = client.run(&wrong).expect_err("a syntax error");
    assert_eq!(error.code().as_str(), "42601");
    assert_eq!(error.text(field::POSITION), (wrong.len() - 2).to_string());
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let mut others: Vec<Client> = (0..4).map(|_| cluster.connect(0).expect("a session")).collect();
    client.send_query(&format!("INSERT INTO deep VALUES {}", rows.join(", "))).expect("sent");
    let mut quickest = Duration::MAX;
    for other in &mut others {
        let started = Instant::now();
        other.run("SELECT 1").expect("an answer");
        quickest = quickest.min(started.elapsed());
    }
    assert!(quickest < Duration::from_secs(2), "{quickest:?}");
    assert!(client.wait().expect("answers").iter().all(|answer| answer.error.is_none()));
    assert_eq!(client.scalar("SELECT count(*) FROM deep").expect("a count"), "39994");
}

/// A text that is long to read and to plan ends like any other statement: by the clock, and when it is cancelled.
fn long_statements_end(cluster: &Cluster, client: &mut Client) {
    // No row like these is planned by its kind.
    let rows: Vec<String> = (100_000..160_000).map(|row| format!("({row}, E'value of row {row}')")).collect();
    let insert = format!("INSERT INTO deep VALUES {}", rows.join(", "));
    let started = Instant::now();
    client.run(&format!("BEGIN; {insert}; ROLLBACK")).expect("it may take its time");
    let whole = started.elapsed();
    client.run("SET statement_timeout = '50ms'").expect("a setting");
    let ended = |client: &mut Client, why: &str| {
        let mut quickest = Duration::MAX;
        for _ in 0..3 {
            let started = Instant::now();
            let error = client.run(&insert).expect_err("it is to end");
            quickest = quickest.min(started.elapsed());
            let said = (error.code().as_str().to_owned(), error.message().into_owned());
            assert_eq!(said, ("57014".to_owned(), format!("canceling statement due to {why}")));
        }
        assert!(quickest * 2 < whole, "{why}: {quickest:?} of {whole:?}");
    };
    ended(client, "statement timeout");
    // The timeout counts for this statement too, which a machine at work may not end in time.
    while let Err(error) = client.run("RESET statement_timeout") {
        assert_eq!(error.code().as_str(), "57014", "{}", error.message());
    }
    let (key, is_over) = (client.backend_key, AtomicBool::new(false));
    std::thread::scope(|scope| {
        // A request that comes before the statement hits nothing.
        scope.spawn(|| {
            let begun = Instant::now();
            while !is_over.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(60) {
                Client::cancel(cluster.coordinators()[0], key).expect("a request");
            }
        });
        ended(client, "user request");
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(client.scalar("SELECT count(*) FROM deep WHERE k >= 100000").expect("a count"), "0");
}

fn strangers(cluster: &Cluster) {
    let address = ("127.0.0.1", cluster.coordinators()[0]);
    let silent: Vec<TcpStream> = (0..700).map(|_| TcpStream::connect(address).expect("a connection")).collect();
    cluster.connect(0).expect("room for whoever says who he is").run("SELECT 1").expect("an answer");
    drop(silent);
    // A message of 1 GiB of somebody unknown is not waited for.
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(&0x3fff_ffff_u32.to_be_bytes()).expect("sent");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    assert!(answer.is_empty(), "whoever sends that is told nothing: {answer:?}");
}

/// Refused logins leave a line in the log.
fn refused_logins(cluster: &Cluster) {
    let parameters = [("user", "nobody knows"), ("database", "postgres")];
    let refused = Client::connect_with(cluster.coordinators()[0], &parameters).expect_err("no such role");
    assert_eq!(refused.code().as_str(), "28000");
    let log = std::fs::read_to_string(cluster.dir().join("log").join("coord1.log")).expect("a log");
    let line = log.lines().find(|line| line.contains("login refused")).expect("a line");
    assert!(line.contains("nobody knows") && line.contains("28000") && line.contains("127.0.0.1"), "{line}");
}

fn has_room_for(cluster: &Cluster, clients: usize) {
    cluster.loxo(&["down"]).expect("it ends");
    let path = cluster.dir().join("cluster.toml");
    let before = std::fs::read_to_string(&path).expect("the configuration");
    let after = before.replace("max_clients = 5000", &format!("max_clients = {clients}"));
    assert_ne!(after, before, "{before}");
    std::fs::write(&path, after).expect("written");
    cluster.up().expect("it starts");
}

/// The last places are for superusers.
fn full_house(cluster: &Cluster) {
    let connect = |user| Client::connect_with(cluster.coordinators()[0], &[("user", user), ("database", "postgres")]);
    let mut admin = cluster.connect(0).expect("a session");
    admin.run("CREATE ROLE guest LOGIN").expect("a role");
    let mut guests = Vec::new();
    let refused = loop {
        match connect("guest") {
            Ok(guest) => guests.push(guest),
            Err(error) => break error,
        }
        assert!(guests.len() < 1000);
    };
    assert_eq!(refused.code().as_str(), "53300", "{refused:?}");
    assert!(refused.message().contains("reserved"), "{refused:?}");
    connect("postgres").expect("room for a superuser").run("SELECT 1").expect("an answer");
    drop(guests);
    admin.run("DROP ROLE guest").expect("dropped");
}

fn signal(pids: &[u32], signal: &str) {
    let status = Command::new("kill").arg(signal).args(pids.iter().map(u32::to_string)).status();
    assert!(status.expect("kill runs").success());
}

/// A coordinator that is told another address listens there, and clients that it has stay.
fn moves(cluster: &Cluster) {
    let (file, log) = (cluster.dir().join("cluster.toml"), cluster.dir().join("log/coord1.log"));
    let before = std::fs::read_to_string(&file).expect("the configuration");
    let port = cluster.coordinators()[0];
    let other = TcpListener::bind("127.0.0.1:0").expect("another program");
    let (free, taken) = (free_ports(&[0]).expect("a port"), other.local_addr().expect("its port").port());
    let pids = cluster.pids("coordinator").expect("coordinators");
    let mut said = std::fs::read_to_string(&log).expect("a log").len();
    let mut told = |to: u16, words: &str| {
        let text = before.replace(&format!("127.0.0.1:{port}\""), &format!("127.0.0.1:{to}\""));
        std::fs::write(&file, text).expect("written");
        signal(&pids, "-HUP");
        let began = Instant::now();
        loop {
            let text = std::fs::read_to_string(&log).expect("a log");
            if text[said..].contains(words) && text[said..].contains("SIGHUP") {
                said = text.len();
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{words} is not in {}", &text[said..]);
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let mut client = Client::connect(port).expect("a session");
    told(free, &format!("clients come to 127.0.0.1:{free} from here on"));
    client.run("SELECT 1").expect("it is still served");
    Client::connect(free).expect("a session").run("SELECT 1").expect("a row");
    Client::connect(port).expect_err("nobody listens there any more");
    told(taken, &format!("could not listen on 127.0.0.1:{taken}"));
    Client::connect(free).expect("it goes on to listen where it did");
    told(port, &format!("clients come to 127.0.0.1:{port} from here on"));
    Client::connect(port).expect("a session").run("SELECT 1").expect("a row");
}

fn signals(cluster: &Cluster) {
    let mut client = cluster.connect(0).expect("a session");
    let pids = [cluster.pids("coordinator").expect("coordinators"), cluster.pids("gtm").expect("gtms")].concat();
    signal(&pids, "-HUP");
    let log = |name: &str| cluster.dir().join("log").join(name);
    let says = |name: &str, signal: &str| {
        let began = Instant::now();
        while !std::fs::read_to_string(log(name)).is_ok_and(|text| text.contains(signal)) {
            assert!(began.elapsed() < Duration::from_secs(10), "{name} says nothing of {signal}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // As a tool does that keeps logs short.
    for name in ["coord1", "gtm"] {
        let (now, old) = (format!("{name}.log"), format!("{name}.log.1"));
        says(&now, "SIGHUP");
        std::fs::rename(log(&now), log(&old)).expect("the log is moved away");
    }
    signal(&pids, "-USR1");
    for name in ["coord1", "gtm"] {
        says(&format!("{name}.log"), "SIGUSR1");
        let old = std::fs::read_to_string(log(&format!("{name}.log.1"))).expect("the old log");
        assert!(!old.contains("SIGUSR1"), "{old}");
    }
    client.run("SELECT 1").expect("it lives");
    client.run("SELECT count(*) FROM deep").expect("the gtm lives");
    // At a statement, or at a COPY whose client says nothing, a session is told just that, too.
    client.run("CREATE TABLE taken (k int) DISTRIBUTE BY HASH (k)").expect("a table");
    let (mut sleeper, mut silent) = (cluster.connect(0).expect("a session"), cluster.connect(0).expect("a session"));
    sleeper.send_query("SELECT pg_sleep(600)").expect("sent");
    silent.begin_copy("COPY taken FROM STDIN").expect("begun");
    silent.send_copy(b"100").expect("half a row");
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let began = Instant::now();
    while client.scalar(asleep).expect("a count") != "1" {
        assert!(began.elapsed() < Duration::from_secs(10), "nobody sleeps");
    }
    let coordinators = cluster.pids("coordinator").expect("coordinators");
    let began = Instant::now();
    signal(&coordinators, "-TERM");
    for client in [&mut client, &mut sleeper, &mut silent] {
        let last = client.last_words().expect("a reason");
        assert_eq!((last.code().as_str(), last.is_fatal()), ("57P01", true), "{last}");
    }
    while !cluster.pids("coordinator").expect("coordinators").is_empty() {
        assert!(began.elapsed() < Duration::from_secs(15), "it does not end in time");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Passwords set through a coordinator are stored alike everywhere.
fn passwords(cluster: &Cluster) {
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE ROLE keyed LOGIN PASSWORD 'first'").expect("a role");
    client.run("ALTER ROLE keyed PASSWORD 'second'").expect("another password");
    let stored = |node| {
        let sql = "SELECT rolpassword FROM pg_authid WHERE rolname = 'keyed'";
        cluster.connect_datanode(node).expect("a datanode").scalar(sql).expect("a verifier")
    };
    assert_eq!(stored(0), stored(1));
    assert!(stored(0).starts_with("SCRAM-SHA-256$4096:"));
    client.run("DROP ROLE keyed").expect("dropped");
}

#[test]
fn a_coordinator_bears_what_a_server_must_bear() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    has_room_for(&cluster, 200);
    let mut client = cluster.connect(0).expect("a session");
    deep_statements(&mut client);
    wide_statements(&mut client);
    long_statements(&cluster, &mut client);
    long_statements_end(&cluster, &mut client);
    passwords(&cluster);
    drop(client);
    strangers(&cluster);
    refused_logins(&cluster);
    full_house(&cluster);
    moves(&cluster);
    signals(&cluster);
}
