//! Two sessions of one coordinator: whatever state the first leaves in backends, by whatever way, it keeps, and the second sees
//! none of it. And a session starts with what ALTER ROLE and ALTER DATABASE say at that time, on every node.
//!
//! Each way is run on one PostgreSQL too, with two sessions; all that the sessions are told must be the same.

use pgerror::SqlState;
use testkit::wire::Client;
use testkit::{Cluster, Server, ServerOptions};

/// What there must be before.
const SETUP: &[&str] = &[
    "CREATE TABLE t (k int PRIMARY KEY, v text) /*dist: HASH (k)*/",
    "INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 30) g",
    "CREATE TABLE copies (k int PRIMARY KEY, v text) /*dist: REPLICATION*/",
    "INSERT INTO copies VALUES (1, 'one')",
    "CREATE TABLE numbered (id serial, v text) /*dist: HASH (id)*/",
    "CREATE TABLE identified (id int GENERATED ALWAYS AS IDENTITY, v text) /*dist: HASH (id)*/",
    "CREATE SEQUENCE s",
    "CREATE SEQUENCE s2",
    "CREATE SCHEMA other",
    "CREATE TABLE other.t (k int, v text) /*dist: HASH (k)*/",
    "CREATE ROLE plain LOGIN",
    "CREATE ROLE second LOGIN",
    "GRANT ALL ON ALL TABLES IN SCHEMA public, other TO plain, second",
    "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO plain, second",
    "GRANT USAGE ON SCHEMA other TO plain, second",
    "CREATE FUNCTION sets() RETURNS int LANGUAGE plpgsql AS \
     $$BEGIN PERFORM set_config('app.x', 'from sets', false); RETURN 1; END$$",
    "CREATE FUNCTION sets_local() RETURNS int LANGUAGE plpgsql AS \
     $$BEGIN PERFORM set_config('app.x', 'local', true); RETURN 1; END$$",
    "CREATE FUNCTION sets_in_sql() RETURNS text LANGUAGE sql AS $$SELECT set_config('app.x', 'from sql', false)$$",
    "CREATE FUNCTION sets_plainly() RETURNS int LANGUAGE plpgsql AS \
     $$BEGIN SET app.x = 'by SET'; SET vacuum_cost_limit = 700; RETURN 1; END$$",
    "CREATE FUNCTION sets_named(name text, value text) RETURNS void LANGUAGE plpgsql AS \
     $$BEGIN PERFORM set_config('app.' || name, value, false); END$$",
    "CREATE FUNCTION sets_memory() RETURNS int LANGUAGE plpgsql AS \
     $$BEGIN PERFORM set_config('vacuum_cost_limit', '900', false); RETURN 1; END$$",
    "CREATE FUNCTION sets_path() RETURNS int LANGUAGE sql AS $$SELECT length(set_config('search_path', 'other', false))$$",
    "CREATE FUNCTION sets_nested() RETURNS int LANGUAGE plpgsql AS $$BEGIN RETURN sets() + 1; END$$",
    "CREATE FUNCTION becomes_plain() RETURNS text LANGUAGE sql AS $$SELECT set_config('role', 'plain', false)$$",
    "CREATE FUNCTION fires_nothing() RETURNS text LANGUAGE sql AS \
     $$SELECT set_config('session_replication_role', 'replica', false)$$",
    "CREATE FUNCTION hides_no_rows() RETURNS text LANGUAGE sql AS $$SELECT set_config('row_security', 'off', false)$$",
    "CREATE FUNCTION counts() RETURNS bigint LANGUAGE plpgsql AS $$BEGIN RETURN nextval('s'); END$$",
    "CREATE FUNCTION locks() RETURNS int LANGUAGE plpgsql AS $$BEGIN PERFORM pg_advisory_lock(77); RETURN 1; END$$",
    "CREATE FUNCTION locks_for_now() RETURNS int LANGUAGE plpgsql AS \
     $$BEGIN PERFORM pg_advisory_xact_lock(77); RETURN 1; END$$",
    "CREATE PROCEDURE sets_by_call() LANGUAGE plpgsql AS \
     $$BEGIN PERFORM set_config('app.x', 'by CALL', false); END$$",
    "CREATE TABLE with_default (k int, v int DEFAULT sets()) /*dist: HASH (k)*/",
    "GRANT ALL ON with_default TO plain, second",
    "CREATE VIEW seen AS SELECT sets() AS x",
    "CREATE FUNCTION adds(int, int) RETURNS int LANGUAGE plpgsql AS \
     $$BEGIN PERFORM set_config('app.x', 'by an operator', false); RETURN $1 + $2; END$$",
    "CREATE OPERATOR |+| (LEFTARG = int, RIGHTARG = int, FUNCTION = adds)",
    "GRANT plain TO postgres",
];

/// What sessions are asked. The answers of the first are its own state, those of the second must be another's.
const LOOKS: &[&str] = &[
    // NULL where nobody has set it, an empty text where somebody has and it is reset.
    "SELECT current_setting('app.x', true)",
    "SELECT DISTINCT current_setting('app.x', true) FROM t",
    "SELECT count(*) FROM t WHERE current_setting('app.x', true) <> ''",
    "SELECT v FROM t WHERE k = 5 AND current_setting('app.x', true) IS NULL",
    "SELECT v FROM t WHERE k = 6 AND current_setting('app.x', true) = ''",
    "SELECT v FROM t WHERE k = 7 AND current_setting('app.x', true) IS NULL",
    "SELECT current_user, session_user",
    "SELECT DISTINCT current_user FROM public.t",
    "SHOW role",
    "SHOW vacuum_cost_limit",
    "SELECT DISTINCT current_setting('vacuum_cost_limit') FROM public.t",
    "SHOW search_path",
    "SELECT count(*) FROM t",
    "SHOW row_security",
    "SELECT DISTINCT current_setting('row_security') FROM public.t",
    "SELECT DISTINCT current_setting('session_replication_role') FROM public.t",
    "SELECT currval('public.s')",
    "SELECT currval('public.s2')",
    "SELECT lastval()",
    "SELECT * FROM made",
    "SELECT pg_temp.made()",
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77",
    "SELECT pg_try_advisory_xact_lock(77)",
    "SELECT name FROM pg_cursors WHERE is_holdable",
    "SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()",
];

/// How state is left. A way that the cluster refuses (0A000) is left out on the other side too.
const WAYS: &[&[&str]] = &[
    &["SET app.x = 'set'", "RESET app.x"],
    &["SET app.x = 'set'", "RESET ALL"],
    &["SET app.x = 'set'", "DISCARD ALL"],
    &["BEGIN", "SET app.x = 'set'", "SELECT count(*) FROM t", "ROLLBACK"],
    &["BEGIN", "SET LOCAL app.x = 'set'", "SELECT v FROM t WHERE k = 5", "COMMIT"],
    &["BEGIN", "SELECT v FROM t WHERE k = 5", "SAVEPOINT a", "SET LOCAL app.x = 'set'", "ROLLBACK TO a", "COMMIT"],
    &["SET LOCAL app.x = 'set'"],
    &["SET app.x = 1 / 0"],
    &["SELECT sets()"],
    &["SELECT sets() FROM t WHERE k = 5"],
    &["SELECT count(sets()) FROM t"],
    &["SELECT k FROM t WHERE sets() = 1 AND k < 3 ORDER BY k"],
    &["SELECT sets_local()"],
    &["BEGIN", "SELECT sets_local()", "COMMIT"],
    &["SELECT sets_in_sql()"],
    &["SELECT sets_plainly()"],
    &["SELECT sets_nested()"],
    &["SELECT sets_memory()"],
    &["SELECT sets_path()"],
    &["SELECT sets_named('x', 'named')"],
    &["SELECT * FROM sets_named('x', 'from')"],
    &["SELECT (SELECT sets()), 5"],
    &["SELECT set_config('app.x', 'beside', false), count(*) FROM t"],
    &["SELECT set_config('app.x', 'beside', false), now() IS NULL, current_user"],
    &["SELECT upper(set_config('app.x', 'inside', false))"],
    &["SELECT set_config('app.x', 'beside', true), current_user"],
    &["WITH a AS (SELECT set_config('app.x', 'in WITH', false) AS x) SELECT x FROM a"],
    &["DO $$BEGIN PERFORM set_config('app.x', 'by DO', false); END$$"],
    &["DO $$BEGIN EXECUTE 'SET app.x = ''by EXECUTE'''; END$$"],
    &["CALL sets_by_call()"],
    &["INSERT INTO with_default (k) VALUES (1)"],
    &["INSERT INTO with_default (k) SELECT g FROM generate_series(1, 9) g"],
    &["SELECT * FROM seen"],
    &["SELECT 1 |+| 2"],
    &["SELECT sets() / 0"],
    &["BEGIN", "SELECT sets()", "SELECT DISTINCT current_setting('app.x', true) FROM t", "COMMIT"],
    &[
        "BEGIN",
        "SELECT count(*) FROM t",
        "SELECT sets()",
        "SELECT count(*) FROM t WHERE current_setting('app.x', true) = 'from sets'",
        "COMMIT",
    ],
    &["BEGIN", "SELECT sets()", "ROLLBACK"],
    &[
        "BEGIN",
        "SAVEPOINT a",
        "SELECT sets()",
        "ROLLBACK TO a",
        "SELECT DISTINCT coalesce(current_setting('app.x', true), '') FROM t",
        "COMMIT",
    ],
    &["PREPARE p AS SELECT sets()", "EXECUTE p"],
    &["PREPARE p (int) AS SELECT $1", "EXECUTE p (sets())"],
    &["BEGIN", "DECLARE c CURSOR FOR SELECT sets() FROM t WHERE k = 5", "FETCH c", "COMMIT"],
    &["EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT sets()"],
    &["COPY (SELECT sets()) TO STDOUT"],
    &["CREATE TABLE made_as /*dist: REPLICATION*/ AS SELECT sets() AS x", "DROP TABLE made_as"],
    &["SELECT becomes_plain()"],
    &["DO $$BEGIN EXECUTE 'SET ROLE plain'; END$$"],
    &["SELECT fires_nothing()"],
    &["SELECT hides_no_rows()"],
    &["SET ROLE plain"],
    &["SET app.x = 'plainly'", "SET vacuum_cost_limit = 300"],
    &["SET SESSION AUTHORIZATION plain"],
    &["SELECT nextval('s')"],
    &["SELECT counts()"],
    &["SELECT setval('s2', 40)"],
    &["SELECT count(counts()) FROM t"],
    &["DO $$BEGIN PERFORM nextval('s'); END$$"],
    &["INSERT INTO numbered (v) VALUES ('x')"],
    &["INSERT INTO numbered (v) SELECT 'y' FROM generate_series(1, 5)"],
    &["INSERT INTO identified (v) VALUES ('x')"],
    &["SELECT pg_advisory_lock(77)"],
    &["SELECT locks()"],
    &["SELECT locks() FROM t WHERE k = 6"],
    &["DO $$BEGIN PERFORM pg_advisory_lock(77); END$$"],
    &["BEGIN", "SELECT locks()", "ROLLBACK"],
    &["SELECT locks_for_now()"],
    &["BEGIN", "SELECT locks_for_now()", "COMMIT"],
    &["SELECT 'advisory', 'nextval', 'set_config'"],
    &["CREATE TEMP TABLE made AS SELECT 5 AS x"],
    &["DO $$BEGIN CREATE TEMP TABLE made AS SELECT 6 AS x; END$$"],
    &["DO $$BEGIN EXECUTE 'CREATE TEMP TABLE made AS SELECT 7 AS x'; END$$"],
    &["CREATE FUNCTION pg_temp.made() RETURNS int LANGUAGE sql AS $$SELECT 8$$"],
    &["DO $$BEGIN EXECUTE 'PREPARE inside AS SELECT 1'; END$$"],
    &["DECLARE kept CURSOR WITH HOLD FOR SELECT k FROM t"],
    &["DO $$BEGIN EXECUTE 'LISTEN somewhere'; END$$"],
    &["SELECT setseed(0.5)", "SELECT random() = random()"],
];

struct Side {
    port: u16,
    is_cluster: bool,
}

impl Side {
    fn connect(&self, user: &str) -> Client {
        let parameters = [("user", user), ("database", "postgres")];
        Client::connect_with(self.port, &parameters).expect("a session")
    }

    fn set_up(&self, client: &mut Client, statements: &[&str]) {
        for sql in statements {
            client.run(&self.text(sql)).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }

    /// With the distribution clause for the cluster.
    fn text(&self, sql: &str) -> String {
        let Some((before, rest)) = sql.split_once("/*dist: ") else { return sql.to_owned() };
        let (clause, after) = rest.split_once("*/").expect("the clause's end");
        match self.is_cluster {
            true => format!("{before} DISTRIBUTE BY {clause}{after}"),
            false => format!("{before}{after}"),
        }
    }

    /// The way, and what the session itself and others see then.
    fn walk(&self, way: &[&str], user: &str) -> Walked {
        let mut first = self.connect(user);
        let outcome = way.iter().map(|sql| told(&mut first, &self.text(sql))).collect();
        let own = looks(&mut first);
        let same_user = looks(&mut self.connect(user));
        let other_user = looks(&mut self.connect("second"));
        let still_own = looks(&mut first);
        Walked {
            outcome,
            seen: [
                ("the session itself", own),
                ("another session", same_user),
                ("another user", other_user),
                ("the session later", still_own),
            ],
        }
    }
}

struct Walked {
    outcome: Vec<String>,
    seen: [(&'static str, Vec<String>); 4],
}

fn looks(client: &mut Client) -> Vec<String> {
    LOOKS.iter().map(|sql| format!("{sql}\n    {}", told(client, sql))).collect()
}

/// Rows, or the code of the error.
fn told(client: &mut Client, sql: &str) -> String {
    match client.strings(sql) {
        Ok(rows) if sql.starts_with("EXPLAIN") => format!("a plan: {}", !rows.is_empty()),
        Ok(rows) => rows.iter().map(|row| row.join("|")).collect::<Vec<_>>().join(", "),
        // Whether there ever was a temporary schema is nobody's business.
        Err(error) if error.code().as_str() == "3F000" => "error 42883".to_owned(),
        Err(error) => format!("error {}", error.code()),
    }
}

/// Sequences are not to run apart when a way is left out on one side.
fn put_back(side: &Side) {
    let mut client = side.connect("postgres");
    side.set_up(
        &mut client,
        &[
            "SELECT setval('s', 1, false), setval('s2', 1, false), setval('numbered_id_seq', 1, false), \
             setval('identified_id_seq', 1, false)",
            "DROP TABLE IF EXISTS made_as",
        ],
    );
}

#[test]
fn what_a_session_leaves_is_its_own() {
    let cluster = Cluster::start(3, 1).expect("a cluster");
    let options = ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("its locale");
    let reference = Server::start(&options).expect("a stock server");
    let here = Side { port: cluster.coordinators()[0], is_cluster: cluster.is_distributed() };
    let there = Side { port: reference.port(), is_cluster: false };
    for side in [&here, &there] {
        let mut client = side.connect("postgres");
        side.set_up(&mut client, SETUP);
    }
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    for (number, way) in WAYS.iter().enumerate() {
        // Links of a superuser and of others take turns, and so do those of one session and the next.
        let user = ["postgres", "plain"][number % 2];
        [&here, &there].into_iter().for_each(put_back);
        let actual = here.walk(way, user);
        let is_refused = actual.outcome.iter().any(|said| said.ends_with("0A000"));
        if is_refused {
            refused.push(format!("{user}: {way:?}"));
        }
        let expected = there.walk(if is_refused { &[] } else { way }, user);
        if !is_refused && actual.outcome != expected.outcome {
            wrong.push(format!("{user}: {way:?}: {:?}, not {:?}", actual.outcome, expected.outcome));
        }
        for ((who, seen), (_, wanted)) in actual.seen.iter().zip(&expected.seen) {
            for (one, other) in seen.iter().zip(wanted).filter(|(one, other)| one != other) {
                wrong.push(format!("{user}: {way:?}: {who}: {one}\n  not {other}"));
            }
        }
    }
    eprintln!("refused:\n{}", refused.join("\n"));
    assert!(wrong.is_empty(), "{} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// What sessions start with, and what those that have started keep.
#[test]
fn a_session_starts_with_what_its_role_has_then() {
    let cluster = Cluster::start(3, 2).expect("a cluster");
    if !cluster.is_distributed() {
        return;
    }
    let side = |at: usize| Side { port: cluster.coordinators()[at], is_cluster: true };
    let mut admin = side(0).connect("postgres");
    side(0).set_up(
        &mut admin,
        &[
            "CREATE SCHEMA a",
            "CREATE SCHEMA b",
            "CREATE TABLE a.t (k int) /*dist: HASH (k)*/",
            "CREATE TABLE b.t (k int) /*dist: REPLICATION*/",
            "INSERT INTO a.t SELECT generate_series(1, 10)",
            "INSERT INTO b.t SELECT generate_series(1, 3)",
            "CREATE ROLE u LOGIN",
            "GRANT ALL ON SCHEMA a, b TO u",
            "GRANT ALL ON ALL TABLES IN SCHEMA a, b TO u",
            "ALTER ROLE u SET search_path = a",
        ],
    );
    let state = "SELECT current_setting('search_path'), min(current_setting('TimeZone')), \
                 max(current_setting('TimeZone')), count(*) FROM t";
    let seen = |client: &mut Client| client.strings(state).expect("an answer").remove(0).join(" ");
    admin.run("ALTER ROLE u SET TimeZone = 'Asia/Tokyo'").expect("a setting");
    let mut early = side(0).connect("u");
    assert_eq!(seen(&mut early), "a Asia/Tokyo Asia/Tokyo 10");
    let mut waiting = side(1).connect("u");
    admin.run("ALTER ROLE u SET TimeZone = 'America/Lima'").expect("a setting");
    admin.run("ALTER ROLE u IN DATABASE postgres SET search_path = b").expect("a setting");
    admin.run("ALTER ROLE u SET work_mem = '5MB'").expect("a setting");
    for at in [0, 1] {
        assert_eq!(seen(&mut side(at).connect("u")), "b America/Lima America/Lima 3");
    }
    let memory = "SELECT DISTINCT current_setting('work_mem') FROM t";
    assert_eq!(side(0).connect("u").strings(memory).expect("an answer"), [["5MB"]]);
    for started in [&mut early, &mut waiting] {
        assert_eq!(seen(started), "a Asia/Tokyo Asia/Tokyo 10");
        assert_eq!(started.strings(memory).expect("an answer").len(), 1);
        assert_ne!(started.strings(memory).expect("an answer"), [["5MB"]]);
        started.run("INSERT INTO t VALUES (11)").expect("a row");
        started.run("DELETE FROM t WHERE k = 11").expect("no row");
    }
    // A row of a replicated table gets to all copies.
    let mut late = side(1).connect("u");
    late.run("UPDATE t SET k = k + 100").expect("rows");
    for node in 0..3 {
        let sum = cluster.connect_datanode(node).expect("a node").scalar("SELECT sum(k) FROM b.t").expect("a sum");
        assert_eq!(sum, "306");
    }
    admin.run("ALTER ROLE u RESET ALL").expect("a reset");
    admin.run("ALTER ROLE u IN DATABASE postgres RESET ALL").expect("a reset");
    admin.run("ALTER DATABASE postgres SET search_path = a, b").expect("a setting");
    assert!(seen(&mut side(0).connect("u")).starts_with("a, b "));
    who_may_connect(&mut admin, &side(1));
}

fn who_may_connect(admin: &mut Client, side: &Side) {
    let refused = |user: &str| {
        let parameters = [("user", user), ("database", "postgres")];
        Client::connect_with(side.port, &parameters).err().map(|error| error.code())
    };
    assert_eq!(refused("u"), None);
    admin.run("ALTER ROLE u NOLOGIN").expect("a change");
    assert_eq!(refused("u"), Some(SqlState::INVALID_AUTHORIZATION));
    admin.run("ALTER ROLE u LOGIN").expect("a change");
    assert_eq!(refused("u"), None);
    admin.run("REVOKE CONNECT ON DATABASE postgres FROM PUBLIC").expect("a change");
    assert_eq!(refused("u"), Some(SqlState::INSUFFICIENT_PRIVILEGE));
    admin.run("GRANT CONNECT ON DATABASE postgres TO PUBLIC").expect("a change");
    assert_eq!(refused("u"), None);
    admin.run("DROP OWNED BY u").expect("a change");
    admin.run("DROP ROLE u").expect("a change");
    assert_eq!(refused("u"), Some(SqlState::INVALID_AUTHORIZATION));
    admin.run("CREATE ROLE u LOGIN").expect("a role");
    let mut anew = side.connect("u");
    assert_eq!(anew.scalar("SELECT count(*) FROM pg_class WHERE relowner = 'u'::regrole").expect("a count"), "0");
    assert!(anew.run("SELECT * FROM a.t").is_err(), "the new role has no rights of the old one");
}

/// The sub-select takes a second connection to the primary datanode, beside the one that draws the value: later statements have the
/// one or the other.
#[test]
fn a_value_drawn_over_another_connection_is_told_at_once() {
    let cluster = Cluster::start(3, 1).expect("a cluster");
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE doc (id serial PRIMARY KEY, v text) DISTRIBUTE BY HASH (id)").expect("a table");
    let body = "DO $$ DECLARE n int; BEGIN INSERT INTO doc (v) VALUES ('z'); n := (SELECT count(*) FROM doc); END $$";
    // A wait for values that nobody tells would end after 30 s.
    client.run("SET statement_timeout = '15s'").expect("a setting");
    for (looks, expected) in [("SELECT lastval()", "1"), ("SELECT currval('doc_id_seq')", "2")] {
        client.run(body).expect("a row");
        assert_eq!(client.scalar(looks).expect("a value"), expected, "{looks}");
        client.run("DO $$ BEGIN EXECUTE 'SELECT 1'; END $$").expect("no wait");
    }
    let mut other = cluster.connect(0).expect("a session");
    assert_eq!(other.run("SELECT lastval()").expect_err("not its own").code().as_str(), "55000");
}

/// A backend that comes from another session is given the settings of the new one under the settings of the old one, which may say more
/// than the new one wants to hear.
#[test]
fn what_settings_say_while_they_change_is_no_news_of_a_statement() {
    let cluster = Cluster::start(3, 1).expect("a cluster");
    let mut talkative = cluster.connect(0).expect("a session");
    let mut quiet = cluster.connect(0).expect("a session");
    talkative.run("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)").expect("a table");
    for sql in ["SELECT count(*) FROM t", "SELECT k FROM t WHERE k = 3", "SELECT 1"] {
        talkative.run("SET client_min_messages = debug5").expect("a setting");
        let told = talkative.simple(sql).expect("an answer");
        assert!(!told.notices.is_empty(), "{sql}: debug5 has much to say");
        let told = quiet.simple(sql).expect("an answer");
        assert!(told.error.is_none() && told.notices.is_empty(), "{sql}: {:?} {:?}", told.error, told.notices);
        talkative.run("RESET client_min_messages").expect("a reset");
        let told = talkative.simple(sql).expect("an answer");
        assert!(told.error.is_none() && told.notices.is_empty(), "{sql}: {:?} {:?}", told.error, told.notices);
    }
}

/// Another role may get the old name: who has come in stays the role that it was, on connections that are made for it later too.
#[test]
fn sessions_go_on_when_their_role_gets_another_name() {
    const WHO: &str = "SELECT session_user, current_user, count(*) FROM t";
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let side = Side { port: cluster.coordinators()[0], is_cluster: true };
    let mut admin = side.connect("postgres");
    side.set_up(
        &mut admin,
        &[
            "CREATE TABLE t (k int) /*dist: HASH (k)*/",
            "INSERT INTO t SELECT generate_series(1, 20)",
            "CREATE ROLE early LOGIN",
            "GRANT SELECT ON t TO early",
        ],
    );
    let mut open = side.connect("early");
    assert_eq!(open.strings(WHO).expect("an answer"), [["early", "early", "20"]]);
    let refused = open.run("CLEAN CONNECTION TO ALL FOR DATABASE postgres").expect_err("not a superuser");
    assert_eq!(refused.code(), SqlState::INSUFFICIENT_PRIVILEGE);
    admin.run("ALTER ROLE early RENAME TO later").expect("another name");
    // No connection of the old name is left.
    admin.run("CLEAN CONNECTION TO ALL FOR DATABASE postgres").expect("no idle connections");
    assert_eq!(open.strings(WHO).expect("an answer"), [["later", "later", "20"]]);
    admin.run("CREATE ROLE early LOGIN").expect("another role");
    admin.run("CLEAN CONNECTION TO ALL FOR DATABASE postgres").expect("no idle connections");
    assert_eq!(open.strings(WHO).expect("an answer"), [["later", "later", "20"]]);
    let refused = side.connect("early").run("SELECT count(*) FROM t").expect_err("the new role has no rights");
    assert_eq!(refused.code(), SqlState::INSUFFICIENT_PRIVILEGE);
    admin.run("REVOKE ALL ON t FROM later").expect("no rights");
    admin.run("DROP ROLE later").expect("no role");
    admin.run("CLEAN CONNECTION TO ALL FOR DATABASE postgres").expect("no idle connections");
    let gone = open.run("SELECT 1").expect_err("its role is gone");
    assert_eq!(gone.code(), SqlState::INVALID_AUTHORIZATION);
}
