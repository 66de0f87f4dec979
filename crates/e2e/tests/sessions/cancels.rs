//! Cancel requests at every moment of statements of every kind: whoever is meant is cancelled, soon, and nobody else ever.
//!
//! `LOXO_CANCELS` says how many requests there are (default 300), `LOXO_CANCELS_SEED` when they come. Sessions that are cancelled and
//! sessions that never are use the same connections of a coordinator by turns. One request in four has a key that is nobody's: a wrong secret,
//! the secret of another session, a session that is gone.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pgerror::SqlState;
use testkit::wire::Client;
use testkit::{Cluster, Rng, number, seed};

const REQUESTS: u64 = 300;
const VICTIMS: usize = 6;
const BYSTANDERS: usize = 6;
const CANCELLERS: usize = 3;
/// A statement that would take minutes ends this long after a request at the latest.
const SOON: Duration = Duration::from_secs(20);
/// How long a session's end may take.
const END_MAX: Duration = Duration::from_secs(20);
const ROWS: &str = "30";

type Key = (u32, u32);

/// A session that is cancelled now and then.
struct Victim {
    key: Mutex<Key>,
    /// The keys it had before.
    gone: Mutex<Vec<Key>>,
    /// When it was first meant since its statement began.
    meant: Mutex<Option<Instant>>,
}

struct Test {
    cluster: Cluster,
    victims: Vec<Victim>,
    bystanders: Vec<Key>,
    seed: u64,
    /// Requests that are still to be sent.
    left: AtomicUsize,
    victims_at_work: AtomicUsize,
    over: AtomicBool,
}

#[test]
fn a_cancel_request_hits_whom_it_means() {
    let cluster = Cluster::start(3, 1).expect("a cluster");
    let mut setup = cluster.connect(0).expect("a session");
    let clause = |clause| if cluster.is_distributed() { clause } else { "" };
    for sql in [
        &format!("CREATE TABLE t (k int PRIMARY KEY, v int) {}", clause("DISTRIBUTE BY HASH (k)")),
        &format!("CREATE TABLE r (k int PRIMARY KEY, v int) {}", clause("DISTRIBUTE BY REPLICATION")),
        &format!(
            "CREATE TABLE n (victim int, k int, n int, PRIMARY KEY (victim, k)) {}",
            clause("DISTRIBUTE BY HASH (k)")
        ),
        &format!("INSERT INTO t SELECT g, g FROM generate_series(1, {ROWS}) g"),
        &format!("INSERT INTO r SELECT g, g FROM generate_series(1, {ROWS}) g"),
        &format!("INSERT INTO n SELECT v, g, 0 FROM generate_series(0, {VICTIMS} - 1) v, generate_series(1, 8) g"),
    ] {
        setup.run(sql).expect(sql);
    }
    let session = |_| cluster.connect(0).expect("a session");
    let mut victims: Vec<Client> = (0..VICTIMS).map(session).collect();
    let mut bystanders: Vec<Client> = (0..BYSTANDERS).map(session).collect();
    let victim = |client: &Client| Victim {
        key: Mutex::new(client.backend_key),
        gone: Mutex::default(),
        meant: Mutex::default(),
    };
    let test = Test {
        victims: victims.iter().map(victim).collect(),
        bystanders: bystanders.iter().map(|client| client.backend_key).collect(),
        cluster,
        seed: seed("LOXO_CANCELS_SEED"),
        left: AtomicUsize::new(number("LOXO_CANCELS").unwrap_or(REQUESTS) as usize),
        victims_at_work: AtomicUsize::new(VICTIMS),
        over: AtomicBool::new(false),
    };
    let begun = Instant::now();
    let (mut answered, mut cancelled, mut undisturbed) = (0, 0, 0);
    std::thread::scope(|scope| {
        let test = &test;
        (0..CANCELLERS).for_each(|number| drop(scope.spawn(move || cancel(test, number))));
        let mut of_victims = Vec::new();
        for (number, client) in victims.iter_mut().enumerate() {
            of_victims.push(scope.spawn(move || suffer(test, number, client)));
        }
        let mut of_bystanders = Vec::new();
        for (number, client) in bystanders.iter_mut().enumerate() {
            of_bystanders.push(scope.spawn(move || stand_by(test, number, client)));
        }
        for thread in of_victims {
            let (ok, err) = thread.join().expect("a victim has the right answers");
            (answered, cancelled) = (answered + ok, cancelled + err);
        }
        undisturbed = of_bystanders.into_iter().map(|thread| thread.join().expect("nobody has cancelled it")).sum();
    });
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("{cancelled} statements cancelled and {answered} not, of others {undisturbed}, in {seconds:.0} s");
    assert!(answered > 0 && cancelled > 0 && undisturbed > 0);
    nothing_is_left(&test);
}

/// A datanode has a transaction in doubt, so whoever has seen another datanode waits there before his statement. Cancelled in that wait
/// the statement has not happened, in whatever way it was sent.
#[test]
fn what_was_cancelled_before_it_began_has_not_happened() {
    const IN_DOUBT: &str = "'loxo_1_77_700_00000000000000ff_1'";
    let cluster = Cluster::start(2, 1).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE t (k int PRIMARY KEY, v int) DISTRIBUTE BY HASH (k)").unwrap();
    client.run("INSERT INTO t SELECT g, 0 FROM generate_series(1, 30) g").unwrap();
    let mut datanodes = [0, 1].map(|node| cluster.connect_datanode(node).expect("a datanode"));
    let [elsewhere, here] = datanodes.each_mut().map(|datanode| datanode.scalar("SELECT min(k) FROM t").unwrap());
    datanodes[1].run(&format!("BEGIN; CREATE TABLE held (); PREPARE TRANSACTION {IN_DOUBT}")).expect("prepared");
    // A block that keeps its snapshot waits for the gtm instead.
    for (begin, isolation) in [("", "read committed"), ("", "repeatable read"), ("BEGIN", "read committed")] {
        for extended in [false, true] {
            client.run(&format!("SET default_transaction_isolation = '{isolation}'")).unwrap();
            client.run(&format!("SELECT v FROM t WHERE k = {elsewhere}")).unwrap();
            if !begin.is_empty() {
                client.run(begin).unwrap();
            }
            let (port, key, waits) = (cluster.coordinators()[0], client.backend_key, &mut datanodes[1]);
            let sql = format!("UPDATE t SET v = v + 1 WHERE k = {here}");
            let error = std::thread::scope(|scope| {
                let statement = scope.spawn(|| match extended {
                    true => client.extended(&sql, &[], Default::default(), |_| false),
                    false => client.simple(&sql),
                });
                let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
                while waits.scalar(waiting).unwrap() == "0" && !statement.is_finished() {}
                Client::cancel(port, key).unwrap();
                statement.join().unwrap().expect("the session stays").error
            });
            assert!(is_cancelled(error), "{begin} {isolation} {extended}");
            if !begin.is_empty() {
                client.run("ROLLBACK").unwrap();
            }
            let found = datanodes[1].scalar(&format!("SELECT v FROM t WHERE k = {here}")).unwrap();
            assert_eq!(found, "0", "{begin} {isolation} {extended}");
        }
    }
    datanodes[1].run(&format!("ROLLBACK PREPARED {IN_DOUBT}")).expect("its end");
    who_gave_up_waiting_waits_again(&cluster, 1, &elsewhere, &here);
    who_gave_up_waiting_waits_again(&cluster, 0, &here, &elsewhere);
    client.run(&format!("UPDATE t SET v = v + 1 WHERE k = {here}")).unwrap();

    // What BEGIN without a Sync counts on, should a cancel hit BEGIN itself: the server drops the statement that follows.
    let [_, datanode] = &mut datanodes;
    let bind = b"\0missing\0\0\0\0\0\0\0".as_slice();
    let update = format!("UPDATE t SET v = 9 WHERE k = {here}\0");
    datanode.send_messages(&[(b'B', bind), (b'E', b"\0\0\0\0\0"), (b'Q', update.as_bytes()), (b'S', b"")]).unwrap();
    let answers = datanode.wait().unwrap();
    assert!(answers.len() == 1 && answers[0].error.is_some(), "{answers:?}");
    assert_eq!(datanode.scalar(&format!("SELECT v FROM t WHERE k = {here}")).unwrap(), "1");
}

/// A client goes while its cancel request is under way: what the two need together must not be left to a statement that nobody
/// carries on.
#[test]
fn who_cancels_and_hangs_up_is_gone() {
    const TRIES: u64 = 150;
    const SLOW: &str = "SELECT count(pg_sleep(20)) FROM t";
    let cluster = Cluster::start(3, 1).expect("a cluster");
    let mut session = cluster.connect(0).expect("a session");
    session.run("CREATE TABLE t AS SELECT g AS k FROM generate_series(1, 9) g").expect("a table");
    let port = cluster.coordinators()[0];
    for moment in 0..TRIES {
        let mut client = cluster.connect(0).expect("a client");
        let key = client.backend_key;
        client.send_query(SLOW).expect("a query on its way");
        std::thread::scope(|scope| {
            scope.spawn(|| Client::cancel(port, key).expect("the request goes out"));
            std::thread::sleep(Duration::from_micros(40 * moment));
            drop(client);
        });
    }
    let at_work = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = '{SLOW}' AND pid <> pg_backend_pid()"
    );
    let since = Instant::now();
    while session.scalar(&at_work).expect("a count") != "0" {
        assert!(since.elapsed() < END_MAX, "sessions are left");
    }
}

/// What a datanode has in doubt may be what was seen on another: a wait for it that was cut short does not count as one.
fn who_gave_up_waiting_waits_again(cluster: &Cluster, node: usize, elsewhere: &str, here: &str) {
    let in_doubt = format!("'loxo_1_77_701_00000000000000ff_{node}'");
    let row = |k: &str| format!("SELECT v FROM t WHERE k = {k}");
    let mut datanode = cluster.connect_datanode(node).expect("a datanode");
    for (in_block, has_joined) in [(false, false), (true, false), (true, true)] {
        let mut client = cluster.connect(0).expect("a session");
        client.run(&format!("SET statement_timeout = '300ms'; {}", if in_block { "BEGIN" } else { "" })).unwrap();
        if has_joined {
            client.run(&row(here)).unwrap();
        }
        datanode.run(&format!("BEGIN; CREATE TABLE held_too (); PREPARE TRANSACTION {in_doubt}")).expect("prepared");
        client.run(&row(elsewhere)).unwrap();
        for turn in 0..6 {
            if in_block {
                client.run("SAVEPOINT s").unwrap();
            }
            let answer = match turn % 3 {
                0 => client.simple(&row(here)),
                // The home node answers it.
                1 if node == 0 => client.simple("SHOW work_mem"),
                _ => client.extended(&row(here), &[], Default::default(), |_| false),
            };
            let error = answer.expect("the session stays").error;
            let is_timeout = error.is_some_and(|error| error.code() == SqlState::QUERY_CANCELED);
            assert!(is_timeout, "node {node}, in a block: {in_block}, joined before: {has_joined}, turn {turn}");
            if in_block {
                client.run("ROLLBACK TO s").unwrap();
            }
        }
        datanode.run(&format!("ROLLBACK PREPARED {in_doubt}")).expect("its end");
        client.run(&row(here)).unwrap();
    }
}

/// Sends requests until there have been enough, and then until the victims are done.
fn cancel(test: &Test, number: usize) {
    let mut rng = Rng::new(test.seed ^ (number as u64 + 1) << 40);
    let port = test.cluster.coordinators()[0];
    while test.victims_at_work.load(Ordering::Acquire) > 0 {
        let enough = test.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_err();
        if enough {
            test.over.store(true, Ordering::Release);
        }
        if !enough && rng.one_in(4) {
            Client::cancel(port, nobodys_key(test, &mut rng)).expect("the request goes out");
            continue;
        }
        let victim = &test.victims[rng.below(VICTIMS)];
        let key = *victim.key.lock().expect("a key");
        let sent = Instant::now();
        Client::cancel(port, key).expect("the request goes out");
        victim.meant.lock().expect("an instant").get_or_insert(sent);
    }
}

fn nobodys_key(test: &Test, rng: &mut Rng) -> Key {
    let (pid, secret) = test.bystanders[rng.below(BYSTANDERS)];
    let victim = &test.victims[rng.below(VICTIMS)];
    let (victim_pid, victim_secret) = *victim.key.lock().expect("a key");
    match rng.below(5) {
        0 => (pid, secret ^ 1 << rng.below(32)),
        1 if victim_secret != secret => (pid, victim_secret),
        2 if victim_secret != secret => (victim_pid, secret),
        3 => (0, 0),
        _ => victim.gone.lock().expect("keys").last().copied().unwrap_or((u32::MAX, secret)),
    }
}

/// Statements whose answer is known.
const ASKED: [(&str, &str); 6] = [
    ("SELECT v FROM t WHERE k = 3", "3"),
    ("SELECT count(*) FROM t", ROWS),
    ("SELECT count(*) FROM t a JOIN t b ON a.v = b.k JOIN r ON r.k = a.k", ROWS),
    ("SELECT v FROM r WHERE k = 5", "5"),
    ("SELECT 7 FROM (SELECT pg_sleep(0.01)) s", "7"),
    ("SELECT count(*) FROM t WHERE k < 4 AND pg_sleep(0.005) IS NOT NULL", "3"),
];

/// Runs statements that nobody is to cancel; gives how many.
fn stand_by(test: &Test, number: usize, client: &mut Client) -> usize {
    let mut rng = Rng::new(test.seed ^ (number as u64 + 1) << 48);
    let mut done = 0;
    while test.victims_at_work.load(Ordering::Acquire) > 0 {
        let (sql, answer) = ASKED[rng.below(ASKED.len())];
        match rng.below(6) {
            0 => {
                client.run("BEGIN").expect("a block");
                assert_eq!(client.scalar(sql).expect(sql), answer);
                client.run("UPDATE t SET v = v WHERE k > 25").expect("an update on several nodes");
                client.run("COMMIT").expect("the end");
                done += 3;
            }
            _ => assert_eq!(client.scalar(sql).expect(sql), answer),
        }
        done += 1;
    }
    done
}

/// Runs statements that are cancelled now and then; gives how many were not, and how many were.
fn suffer(test: &Test, number: usize, client: &mut Client) -> (usize, usize) {
    let mut rng = Rng::new(test.seed ^ (number as u64 + 1) << 56);
    let (victim, mut counted, mut done) = (&test.victims[number], [0usize; 8], [0, 0]);
    while !test.over.load(Ordering::Acquire) {
        *victim.meant.lock().expect("an instant") = None;
        let was_cancelled = match rng.below(10) {
            0 | 1 => is_cancelled_soon(victim, client, &mut rng),
            2..=4 => count_up(number, client, &mut counted, &mut rng),
            5 => reconnect(test, victim, client),
            _ => {
                let (sql, answer) = ASKED[rng.below(ASKED.len())];
                let given = client.scalar(sql);
                given.as_ref().is_ok_and(|given| given != answer).then(|| panic!("{sql}: {given:?}"));
                is_cancelled(given.err())
            }
        };
        done[usize::from(was_cancelled)] += 1;
    }
    test.victims_at_work.fetch_sub(1, Ordering::AcqRel);
    let sql = format!("SELECT n FROM n WHERE victim = {number} ORDER BY k");
    // The last requests may still be under way.
    let found = loop {
        match client.strings(&sql) {
            Ok(rows) => break rows,
            Err(error) => assert!(is_cancelled(Some(error))),
        }
    };
    let counted: Vec<_> = counted.iter().map(|count| vec![count.to_string()]).collect();
    assert_eq!(found, counted, "what was answered is there, and what was cancelled is not");
    (done[0], done[1])
}

/// No other error than that of a cancel is allowed.
fn is_cancelled(error: Option<pgerror::PgError>) -> bool {
    let said = error.map(|error| (error.code().to_string(), error.message().into_owned(), error));
    if let Some((code, message, error)) = &said {
        let expected = ("57014", "canceling statement due to user request");
        assert_eq!((code.as_str(), message.as_str()), expected, "{error:?}");
    }
    said.is_some()
}

fn is_cancelled_soon(victim: &Victim, client: &mut Client, rng: &mut Rng) -> bool {
    let sql = rng.pick(&[
        "SELECT pg_sleep(200)",
        "SELECT count(*) FROM t WHERE pg_sleep(20) IS NOT NULL",
        "UPDATE t SET v = v WHERE k IN (1, 2, 3, 4) AND pg_sleep(200) IS NOT NULL",
        "SELECT count(*) FROM t a JOIN t b ON a.v = b.k WHERE pg_sleep(20) IS NOT NULL",
    ]);
    let was_cancelled = is_cancelled(client.run(sql).err());
    assert!(was_cancelled, "it would take minutes: {sql}");
    let meant = victim.meant.lock().expect("an instant");
    assert!(
        meant.is_none_or(|meant| meant.elapsed() < SOON),
        "{sql} ends {:?} after the request",
        meant.map(|m| m.elapsed())
    );
    was_cancelled
}

/// Changes one row, or rows on several nodes, by itself or in a block.
fn count_up(number: usize, client: &mut Client, counted: &mut [usize; 8], rng: &mut Rng) -> bool {
    let rows = if rng.one_in(2) { 1 } else { counted.len() };
    let update = format!("UPDATE n SET n = n + 1 WHERE victim = {number} AND k <= {rows}");
    let in_block = rng.one_in(2);
    let result = match in_block {
        true => client.run("BEGIN").and_then(|_| client.run(&update)).and_then(|_| client.run("COMMIT")),
        false => client.run(&update),
    };
    match result {
        // COMMIT of a block that has failed.
        Ok(answer) if answer.tag.as_deref() == Some("ROLLBACK") => panic!("an error was not told of"),
        Ok(_) => {
            counted[..rows].iter_mut().for_each(|count| *count += 1);
            false
        }
        Err(error) => {
            is_cancelled(Some(error));
            while in_block && client.run("ROLLBACK").is_err() {}
            true
        }
    }
}

fn reconnect(test: &Test, victim: &Victim, client: &mut Client) -> bool {
    let before = client.backend_key;
    *client = test.cluster.connect(0).expect("a session");
    *victim.key.lock().expect("a key") = client.backend_key;
    victim.gone.lock().expect("keys").push(before);
    false
}

/// No transaction is open on a datanode, and nothing waits.
fn nothing_is_left(test: &Test) {
    let sql = "SELECT coalesce(string_agg(state || ': ' || query, '; '), '') FROM pg_stat_activity \
               WHERE application_name = 'loxo' AND state <> 'idle'";
    let begun = Instant::now();
    for node in 0..test.cluster.datanodes().len() {
        loop {
            let open = test.cluster.connect_datanode(node).expect("a session").scalar(sql).expect("a row");
            if open.is_empty() {
                break;
            }
            assert!(begun.elapsed() < END_MAX, "datanode {node}: {open}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
