//! The wire protocol beyond single statements: several in one message, pipelines, suspended portals, cancel, notifications, COPY that the
//! client gives up, many sessions and both coordinators at once.

use std::time::{Duration, Instant};

use e2e::differential::{Pair, answers_text};
use testkit::wire::{Answer, Client, CopyInput};
use testkit::{Cluster, Server, ServerOptions};

mod malformed;
mod out_parameters;
mod portals;
mod type_ids;

struct Both {
    cluster: Cluster,
    reference: Server,
}

impl Both {
    fn start() -> Self {
        let cluster = Cluster::start(2, 2).expect("a cluster");
        let options = ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("its locale");
        Self { cluster, reference: Server::start(&options).expect("a stock server") }
    }

    fn pair(&self) -> Pair {
        let (reference, cluster) =
            (self.reference.connect().expect("a session"), self.cluster.connect(0).expect("a session"));
        Pair { reference, cluster, distributed: self.cluster.is_distributed(), audited: None }
    }
}

/// Runs the same on both sides and compares all that came back.
fn same(pair: &mut Pair, what: &str, act: impl Fn(&mut Client) -> pgerror::Result<Vec<Answer>>) {
    let expected = act(&mut pair.reference).expect("the stock server answers");
    let actual = act(&mut pair.cluster).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    assert_eq!(answers_text(&actual), answers_text(&expected), "{what}\n(left: the cluster, right: one server)");
}

fn create(pair: &mut Pair, name: &str) {
    let sql = format!("CREATE TABLE {name} (k int, v text)");
    pair.reference.run(&sql).expect("a table");
    let clause = if pair.distributed { " DISTRIBUTE BY HASH (k)" } else { "" };
    pair.cluster.run(&format!("{sql}{clause}")).expect("a table");
}

#[test]
fn messages_and_sessions_behave_like_one_postgresql() {
    let both = Both::start();
    several_statements_in_one_message(&mut both.pair());
    one_text_under_two_search_paths(&mut both.pair());
    pipelines(&mut both.pair());
    batches(&mut both.pair());
    batches_of_several_rows(&mut both.pair());
    long_inserts(&mut both.pair());
    long_inserts_of_incomplete_rows(&mut both.pair());
    rows_returned_in_order(&mut both.pair());
    portals::suspended_portals(&mut both.pair());
    portals::messages_out_of_order(&mut both.pair());
    portals::portals_named_in_sql(&mut both.pair());
    portals::portals_of_a_block(&mut both.pair());
    type_ids::values_name_types(&mut both.pair());
    out_parameters::calls(&mut both.pair());
    changed_result(&mut both.pair());
    rows_of_copy_in_messages(&mut both.pair());
    copy_given_up(&mut both.pair());
    large_values(&mut both.pair());
    malformed::messages(&both);
    malformed::packets(&both);
    startup(&both);
    cancel(&both);
    notifications(&both);
    last_answers(&both);
    both_coordinators_see_everything_at_once(&both.cluster);
    disconnecting_rolls_back(&both.cluster);
}

/// A statement that the datanode has prepared must not be taken for the same text under another search path.
fn one_text_under_two_search_paths(pair: &mut Pair) {
    for (schema, kind) in [("path_one", "int"), ("path_two", "text")] {
        for client in [&mut pair.reference, &mut pair.cluster] {
            client.run(&format!("CREATE SCHEMA {schema}")).expect("a schema");
            client.run(&format!("CREATE TABLE {schema}.found (k int PRIMARY KEY, v {kind})")).expect("a table");
            client.run(&format!("INSERT INTO {schema}.found VALUES (1, 7), (-2, 8)")).expect("two rows");
        }
    }
    for schema in ["path_one", "path_two"].repeat(3) {
        same(pair, schema, |client| {
            client.simple(&format!("SET search_path = {schema}"))?;
            let mut answers = Vec::new();
            for key in ["1", "-2", "3"] {
                for sql in [
                    format!("SELECT v, v || 'x' FROM found WHERE k = {key}"),
                    format!("SELECT v FROM  found WHERE k = 1 AND {key} / (k - 1) > nothing;"),
                    format!("  UPDATE found SET v = v WHERE k = 1 AND k = 1 / ({key} - 1)"),
                ] {
                    answers.push(client.simple(&sql)?);
                }
            }
            Ok(answers)
        });
    }
}

fn several_statements_in_one_message(pair: &mut Pair) {
    create(pair, "multi");
    for sql in [
        "",
        ";",
        " ; ; ",
        "-- only a comment",
        "SELECT 1; SELECT 2, 3",
        "SELECT 1; ; SELECT 2;",
        "INSERT INTO multi VALUES (1, 'a'); INSERT INTO multi VALUES (2, 'b'), (3, 'c'); SELECT count(*) FROM multi",
        "INSERT INTO multi VALUES (4, 'd'); SELECT 1/0; INSERT INTO multi VALUES (5, 'e')",
        "SELECT count(*) FROM multi",
        "INSERT INTO multi VALUES (4, 'd'); SELEC 1",
        "SELECT count(*) FROM multi",
        "BEGIN; INSERT INTO multi VALUES (6, 'f'); COMMIT; INSERT INTO multi VALUES (7, 'g'); SELECT 1/0",
        "SELECT k FROM multi ORDER BY k",
        "SELECT count(*) FROM multi; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1",
        "LOCK TABLE multi; SELECT 1",
        "DECLARE c CURSOR FOR SELECT k FROM multi ORDER BY k; FETCH 2 FROM c; SELECT 1",
        "FETCH 1 FROM c",
        "LOCK TABLE multi",
        "SELECT 1; SAVEPOINT s",
        "BEGIN; INSERT INTO multi VALUES (8, 'h')",
        "SELECT count(*) FROM multi; ROLLBACK; SELECT count(*) FROM multi",
        "COPY multi FROM STDIN; SELECT count(*) FROM multi",
        "SELECT 1; COPY (SELECT * FROM multi ORDER BY 1) TO STDOUT; SELECT 2",
        "SET work_mem = '9MB'; SHOW work_mem; RESET work_mem",
        "BEGIN; SAVEPOINT s; SELECT 1/0; ROLLBACK TO s; COMMIT",
        "INSERT INTO multi VALUES (20, 't'); COMMIT AND CHAIN; INSERT INTO multi VALUES (21, 'u')",
        "BEGIN; INSERT INTO multi VALUES (22, 'v'); COMMIT AND CHAIN; INSERT INTO multi VALUES (23, 'w'); COMMIT",
        "INSERT INTO multi VALUES (24, 'x'); ROLLBACK AND CHAIN",
        "ROLLBACK",
        "CREATE TABLE made_here (a int); INSERT INTO made_here VALUES (1); DROP TABLE made_here; SELECT 1",
        "SELECT 'unterminated",
        "SELECT $$unterminated",
        "SELECT \"unterminated",
        "SELECT /* unterminated",
    ] {
        let frames: [&[u8]; 2] = [b"10\tco", b"py\n11\tin\n"];
        same(pair, sql, |client| client.simple_all(sql, CopyInput { frames: &frames, fail: false }));
    }
    same(pair, "a NUL-free text of a megabyte", |client| {
        client.simple_all(&format!("SELECT {}1", " ".repeat(1 << 20)), CopyInput::default())
    });
}

/// Tag and body.
type Message = (u8, Vec<u8>);

/// Parse + Bind + Execute of one statement without parameters, as raw messages.
fn statement(sql: &str) -> Vec<Message> {
    let parse = [b"\0", sql.as_bytes(), b"\0\0\0"].concat();
    vec![(b'P', parse), (b'B', b"\0\0\0\0\0\0\0\0".to_vec()), (b'E', b"\0\0\0\0\0".to_vec())]
}

fn pipelines(pair: &mut Pair) {
    create(pair, "piped");
    let insert = |k: usize| statement(&format!("INSERT INTO piped VALUES ({k}, 'v{k}')"));
    let sync = || vec![(b'S', Vec::new())];
    let query = |sql: &str| vec![(b'Q', [sql.as_bytes(), b"\0"].concat())];
    // The function with the object id 1397, abs(integer), without arguments.
    let call = || vec![(b'F', [&1397_i32.to_be_bytes()[..], &[0; 6]].concat())];
    let pipelines: [Vec<Vec<Message>>; 6] = [
        vec![insert(1), insert(2), statement("SELECT count(*) FROM piped"), sync()],
        // An error undoes everything since the last Sync and skips all up to the next one.
        vec![insert(3), statement("SELECT 1/0"), insert(4), sync()],
        vec![statement("SELECT count(*) FROM piped"), sync()],
        vec![insert(5), statement("SELECT * FROM nosuch"), sync()],
        // Neither a simple Query nor a function call ends the skipping, and neither is answered.
        vec![statement("SELECT 1/0"), query("DELETE FROM piped"), call(), query("DROP TABLE piped"), insert(6), sync()],
        vec![statement("SELECT * FROM nosuch"), query("INSERT INTO piped VALUES (7, 'v7')"), sync()],
    ];
    for (number, pipeline) in pipelines.iter().enumerate() {
        let messages: Vec<(u8, &[u8])> = pipeline.iter().flatten().map(|(tag, body)| (*tag, body.as_slice())).collect();
        same(pair, &format!("pipeline {number}"), |client| {
            client.send_messages(&messages)?;
            client.wait()
        });
    }
    let rows = |client: &mut Client| Ok(vec![client.simple("SELECT k FROM piped ORDER BY k")?]);
    same(pair, "after the pipelines", rows);
}

/// Bind, perhaps Describe, and Execute of a prepared INSERT, as executemany sends them.
fn execution(name: &str, k: usize, describes: bool) -> Vec<Message> {
    execution_of(name, &[k.to_string(), format!("{k:>120}")], describes)
}

fn execution_of(name: &str, values: &[String; 2], describes: bool) -> Vec<Message> {
    let mut bind = [b"\0", name.as_bytes(), b"\0\0\0\0\x02"].concat();
    for value in values {
        bind.extend_from_slice(&(value.len() as u32).to_be_bytes());
        bind.extend_from_slice(value.as_bytes());
    }
    bind.extend_from_slice(b"\0\0");
    let describe = describes.then(|| (b'D', b"P\0".to_vec()));
    [(b'B', bind)].into_iter().chain(describe).chain([(b'E', b"\0\0\0\0\0".to_vec())]).collect()
}

/// Many executions of one INSERT without waiting; what is answered, and in which order, and what an error leaves.
fn batches(pair: &mut Pair) {
    create(pair, "batch");
    same(pair, "a key", |client| Ok(vec![client.simple("ALTER TABLE batch ADD PRIMARY KEY (k)")?]));
    let prepare = |name: &str, sql: &str| vec![(b'P', [name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\0"].concat())];
    let rows = |name: &str, rows: std::ops::Range<usize>, describes| -> Vec<Message> {
        rows.flat_map(|k| execution(name, k, describes)).collect()
    };
    let sync = || vec![(b'S', Vec::new())];
    let insert = || prepare("row", "INSERT INTO batch VALUES ($1, $2)");
    let other = || prepare("other", "INSERT INTO batch (v, k) VALUES ($2, $1)");
    let skip = || prepare("skip", "INSERT INTO batch VALUES ($1, $2) ON CONFLICT DO NOTHING");
    let batches: [Vec<Vec<Message>>; 13] = [
        vec![insert(), other(), skip(), sync()],
        vec![rows("row", 0..40, false), sync()],
        vec![rows("row", 40..60, true), statement("SELECT count(*) FROM batch"), rows("row", 60..70, false), sync()],
        // Two statements by turns, and one whose rows may be there.
        vec![rows("row", 100..102, false), rows("other", 102..105, true), rows("skip", 103..107, false), sync()],
        // A row that is there: nothing of the batch is kept, and what comes behind it is skipped.
        vec![rows("row", 200..220, false), rows("row", 39..42, false), rows("row", 220..230, false), sync()],
        vec![statement("BEGIN"), rows("row", 300..320, false), statement("COMMIT"), sync()],
        vec![statement("BEGIN"), rows("row", 320..330, false), rows("other", 0..1, false), sync()],
        vec![statement("ROLLBACK"), rows("row", 400..1100, false), sync()],
        // An error behind savepoints, one of which has the name of our own, and what the block is worth after it.
        vec![statement("BEGIN"), rows("row", 1200..1280, false), statement("SAVEPOINT loxo_train"), sync()],
        vec![rows("row", 1280..1320, false), statement("SAVEPOINT b"), rows("row", 1320..1400, true), sync()],
        vec![rows("row", 1400..1440, false), rows("row", 1230..1231, false), rows("row", 1440..1450, false), sync()],
        vec![statement("ROLLBACK TO b"), rows("row", 1500..1560, false), sync()],
        vec![statement("ROLLBACK TO loxo_train"), rows("row", 1600..1660, false), statement("COMMIT"), sync()],
    ];
    for (number, batch) in batches.iter().enumerate() {
        let messages: Vec<(u8, &[u8])> = batch.iter().flatten().map(|(tag, body)| (*tag, body.as_slice())).collect();
        same(pair, &format!("batch {number}"), |client| {
            client.send_messages(&messages)?;
            client.wait()
        });
    }
    let rows = |client: &mut Client| Ok(vec![client.simple("SELECT * FROM batch ORDER BY k")?]);
    same(pair, "after the batches", rows);
}

/// Executions of an INSERT of two rows: each of them has a key, and so perhaps a node, of its own.
fn batches_of_several_rows(pair: &mut Pair) {
    create(pair, "twos");
    let insert = [b"two\0".as_slice(), b"INSERT INTO twos VALUES ($1, 'a'), ($2, 'b')", b"\0\0\0"].concat();
    let rows = |keys: [usize; 2]| execution_of("two", &keys.map(|key| key.to_string()), false);
    let on_one_node = (1..5).flat_map(|key| rows([key, key]));
    let on_any = (10..30).flat_map(|key| rows([key, key + 100]));
    let batch: Vec<Message> = [(b'P', insert)]
        .into_iter()
        .chain(statement("BEGIN"))
        .chain(on_one_node)
        .chain(on_any)
        .chain(statement("COMMIT"))
        .chain([(b'S', Vec::new())])
        .collect();
    let messages: Vec<(u8, &[u8])> = batch.iter().map(|(tag, body)| (*tag, body.as_slice())).collect();
    same(pair, "a batch of two rows each", |client| {
        client.send_messages(&messages)?;
        client.wait()
    });
    for key in (1..5).chain(10..30).chain(110..130) {
        let sql = format!("SELECT * FROM twos WHERE k = {key} ORDER BY v");
        same(pair, &sql, |client| Ok(vec![client.simple(&sql)?]));
    }
}

/// INSERTs of so many rows that a coordinator reads no tree of them, if it is sure of each kind of row.
fn long_inserts(pair: &mut Pair) {
    create(pair, "long");
    let kind = |key: usize| match key % 5 {
        0 => format!("({key}, upper('v{key:0200}'))"),
        1 => format!("({key}, 'v' || {key} + 1)"),
        2 => format!("({key},DEFAULT)"),
        3 => format!("({key}, 'v, ({key:0200})')"),
        _ => format!("({key}, (array['x', 'y{key}'])[{}])", 1 + key % 2),
    };
    let insert = |keys: std::ops::Range<usize>, last: &str| {
        let rows: Vec<String> = keys.map(kind).chain([last.to_owned()]).collect();
        format!("INSERT INTO long VALUES {}", rows.join(", "))
    };
    for sql in [
        insert(0..1000, "(-1, upper('é'))"),
        insert(1000..2000, "(-2, upper('é')) RETURNING k, v"),
        insert(2000..3000, "(-3, 'v' || 'x' + 1)"),
        insert(2000..3000, "(-4, nope('v'))"),
        insert(2000..3000, "(-5, upper('v'), 3)"),
        insert(2000..3000, "(-6, generate_series(1, 2)::text)"),
        insert(2000..3000, "(-7, (SELECT max(v) FROM long))"),
        insert(3000..4000, "(-8, E'\\u00e4' /* , */)"),
    ] {
        same(pair, &sql[sql.len() - 20..], |client| client.simple_all(&sql, CopyInput::default()));
    }
    let rows = |client: &mut Client| Ok(vec![client.simple("SELECT * FROM long ORDER BY k")?]);
    same(pair, "after the long INSERTs", rows);
}

/// The same of rows that lack the time, which is one for all of them, and numbers of sequences.
fn long_inserts_of_incomplete_rows(pair: &mut Pair) {
    let table = "CREATE TABLE lacking (id serial, k int, v text, at timestamptz DEFAULT now(), \
                 no int GENERATED ALWAYS AS IDENTITY, UNIQUE (k, v))";
    pair.reference.run(table).expect("a table");
    let clause = if pair.distributed { " DISTRIBUTE BY HASH (k)" } else { "" };
    pair.cluster.run(&format!("{table}{clause}")).expect("a table");
    let rows = |keys: std::ops::Range<usize>, row: &dyn Fn(usize) -> String| {
        keys.map(row).collect::<Vec<String>>().join(",\n")
    };
    let long = "x".repeat(80);
    let of_value = |value: &'static str| move |key: usize| format!("({key}, 'v{}', {value})", "y".repeat(80));
    let mixed = |key: usize| match key % 4 {
        0 => format!("(DEFAULT, {key}, '{long}', now())"),
        1 => format!("({}, {key}, '{long}', CURRENT_TIMESTAMP - '{key} s'::interval + '{key} s')", 100_000 + key),
        2 => format!("(DEFAULT, {key}, upper('{long}'), DEFAULT)"),
        _ => format!("(DEFAULT,{key},'{long}' , statement_timestamp( ) )"),
    };
    let plain = |key: usize| format!("({key}, '{long}')");
    for sql in [
        format!("INSERT INTO lacking (k, v) VALUES {}", rows(0..1000, &plain)),
        format!("INSERT INTO lacking VALUES {}", rows(1000..2000, &mixed)),
        format!("INSERT INTO lacking (k, v, at) VALUES {}", rows(2000..3000, &of_value("now()"))),
        format!("INSERT INTO lacking AS l (k, v) VALUES {} RETURNING id, k, no", rows(3000..4000, &plain)),
        format!("INSERT INTO lacking (k, v) VALUES {} ON CONFLICT DO NOTHING", rows(3500..4500, &plain)),
        format!("INSERT INTO lacking (k, v, no) VALUES {}", rows(5000..6000, &of_value("DEFAULT"))),
        format!("INSERT INTO lacking (k, v, no) VALUES {}", rows(6000..7000, &of_value("1"))),
        format!("INSERT INTO lacking (k, v, no) OVERRIDING SYSTEM VALUE VALUES {}", rows(6000..7000, &of_value("1"))),
        format!("INSERT INTO lacking (k, v, no) OVERRIDING USER VALUE VALUES {}", rows(7000..8000, &of_value("1"))),
        format!("INSERT INTO lacking (k, v, at) VALUES {}", rows(8000..9000, &of_value("now() + 1"))),
        format!("INSERT INTO lacking (k, v, at) VALUES {}, (1, 'x', 'no time')", rows(8000..9000, &of_value("now()"))),
        format!("INSERT INTO lacking (k, v) VALUES {}, (1, '{long}')", rows(8000..9000, &plain)),
        format!(
            "BEGIN; INSERT INTO lacking (k, v) VALUES {}; SELECT count(*) FROM lacking WHERE at = now(); COMMIT",
            rows(9000..10_000, &plain)
        ),
        "SELECT currval('lacking_id_seq') - count(*) FROM lacking".to_owned(),
    ] {
        same(pair, &sql[..sql.len().min(90)], |client| client.simple_all(&sql, CopyInput::default()));
    }
    for sql in [
        "SELECT id, k, v, no, at IS NULL FROM lacking ORDER BY k, id",
        // Those that came together have one time.
        "SELECT k / 1000, count(DISTINCT at) FROM lacking GROUP BY 1 ORDER BY 1",
    ] {
        same(pair, sql, |client| Ok(vec![client.simple(sql)?]));
    }
}

/// Programs pair the keys that an INSERT returns with the rows they have sent.
fn rows_returned_in_order(pair: &mut Pair) {
    let table = "CREATE TABLE returned (k serial PRIMARY KEY, v text)";
    pair.reference.run(table).expect("a table");
    let clause = if pair.distributed { " DISTRIBUTE BY HASH (k)" } else { "" };
    pair.cluster.run(&format!("{table}{clause}")).expect("a table");
    let values = |rows: std::ops::Range<usize>| rows.map(|row| format!("('row {row}')")).collect::<Vec<_>>().join(", ");
    let keyed = |rows: std::ops::Range<usize>| rows.map(|row| format!("({row}, 'row')")).collect::<Vec<_>>().join(", ");
    for sql in [
        format!("INSERT INTO returned (v) VALUES {} RETURNING k, v", values(0..40)),
        format!("INSERT INTO returned VALUES {} RETURNING k", keyed(100..140)),
        format!("INSERT INTO returned VALUES {} RETURNING k", keyed(200..240)),
        format!("INSERT INTO returned VALUES {} ON CONFLICT (k) DO UPDATE SET v = 'x' RETURNING k, v", keyed(230..250)),
    ] {
        same(pair, &sql, |client| client.simple_all(&sql, CopyInput::default()));
    }
}

/// One row a message, the header of the binary format with the first one.
fn rows_of_copy_in_messages(pair: &mut Pair) {
    create(pair, "copied");
    let fill = "INSERT INTO copied SELECT g, repeat('v', g) FROM generate_series(1, 30) g";
    same(pair, fill, |client| Ok(vec![client.simple(fill)?]));
    for source in [
        "(SELECT * FROM copied ORDER BY k)",
        "(SELECT a.k, b.v FROM copied a JOIN copied b ON length(b.v) = a.k ORDER BY 1)",
        "(SELECT v FROM copied WHERE k = 7)",
        "(SELECT v FROM copied WHERE k > 100 ORDER BY v)",
        "(SELECT v FROM copied WHERE k > 100)",
    ] {
        for format in ["text", "binary", "csv, HEADER"] {
            let sql = format!("COPY {source} TO STDOUT (FORMAT {format})");
            let frames = |client: &mut Client| client.simple(&sql).expect("an answer").copied_frames;
            assert_eq!(frames(&mut pair.cluster), frames(&mut pair.reference), "{sql}");
        }
    }
}

/// A prepared statement whose result has other columns than the client was told.
fn changed_result(pair: &mut Pair) {
    create(pair, "changing");
    let parse = b"changing\0SELECT * FROM changing\0\0\0";
    let bind = b"\0changing\0\0\0\0\0\0\0";
    let execute: [(u8, &[u8]); 4] = [(b'B', bind), (b'D', b"P\0"), (b'E', b"\0\0\0\0\0"), (b'S', b"")];
    same(pair, "a statement is prepared", |client| {
        client.send_messages(&[(b'P', parse), (b'D', b"Schanging\0"), (b'S', b"")])?;
        client.wait()
    });
    for sql in [
        "CREATE INDEX ON changing (v)",
        "ALTER TABLE changing ALTER COLUMN v TYPE varchar(9)",
        "ALTER TABLE changing ADD COLUMN w int",
    ] {
        same(pair, sql, |client| Ok(vec![client.simple(sql)?]));
        same(pair, "the statement again", |client| {
            client.send_messages(&execute)?;
            client.wait()
        });
    }
}

fn copy_given_up(pair: &mut Pair) {
    create(pair, "given_up");
    let frames: [&[u8]; 1] = [b"1\ta\n2\tb\n"];
    for sql in [
        "COPY given_up FROM STDIN",
        "COPY given_up FROM STDIN (FORMAT csv)",
        "COPY given_up FROM STDIN (FORMAT binary)",
    ] {
        same(pair, sql, |client| client.simple_all(sql, CopyInput { frames: &frames, fail: true }));
        same(pair, sql, |client| {
            Ok(vec![client.extended(sql, &[], CopyInput { frames: &frames, fail: true }, |_| false)?])
        });
        same(pair, "the count", |client| client.simple_all("SELECT count(*) FROM given_up", CopyInput::default()));
    }
}

fn large_values(pair: &mut Pair) {
    create(pair, "large");
    for sql in [
        "INSERT INTO large SELECT g, repeat('x', 3000000) FROM generate_series(1, 3) g",
        "SELECT k, length(v), md5(v) FROM large ORDER BY k",
        "SELECT v FROM large WHERE k = 2",
        "COPY (SELECT * FROM large ORDER BY 1) TO STDOUT",
        "INSERT INTO large SELECT g, 'short' FROM generate_series(10, 20000) g",
        "SELECT k FROM large ORDER BY k",
        "SELECT count(*), sum(k) FROM large",
        "DROP TABLE large",
    ] {
        same(pair, sql, |client| client.simple_all(sql, CopyInput::default()));
    }
}

fn startup(both: &Both) {
    let parameters = [
        ("user", "postgres"),
        ("database", "postgres"),
        ("application_name", "the test"),
        ("options", "-c work_mem=7MB"),
    ];
    let reference = Client::connect_with(both.reference.port(), &parameters).expect("a session");
    let mut cluster = Client::connect_with(both.cluster.coordinators()[0], &parameters).expect("a session");
    // The zone comes from the configuration, which the two need not share.
    let reported = |client: &Client| {
        let mut reported = client.parameters.clone();
        reported.remove("TimeZone");
        reported
    };
    assert_eq!(reported(&cluster), reported(&reference));
    assert_eq!(cluster.scalar("SHOW work_mem").expect("a setting"), "7MB");
    assert_eq!(cluster.scalar("SHOW application_name").expect("a setting"), "the test");
    for wrong in [[("user", "postgres"), ("database", "nosuch")], [("user", "nosuch"), ("database", "postgres")]] {
        // A coordinator adds which database it serves.
        let refusal = |port: u16| {
            let refused = Client::connect_with(port, &wrong).map(|_| ());
            refused.map_err(|error| (error.code(), error.message().into_owned(), error.is_fatal()))
        };
        assert_eq!(refusal(both.cluster.coordinators()[0]), refusal(both.reference.port()));
    }
}

fn cancel(both: &Both) {
    for port in [both.reference.port(), both.cluster.coordinators()[0]] {
        let mut client = Client::connect(port).expect("a session");
        let started = Instant::now();
        client.send_query("SELECT pg_sleep(60)").expect("a query goes out");
        // A cancel that comes before the query has begun has no effect, so it is sent until one has.
        let key = client.backend_key;
        let canceller = std::thread::spawn(move || {
            for _ in 0..100 {
                std::thread::sleep(Duration::from_millis(50));
                if Client::cancel(port, key).is_err() {
                    return;
                }
            }
        });
        let answer = client.wait().expect("an answer").pop().expect("one answer");
        let error = answer.error.expect("an error");
        assert_eq!((error.code().as_str(), &*error.message()), ("57014", "canceling statement due to user request"));
        assert!(started.elapsed() < Duration::from_secs(30));
        canceller.join().expect("the thread ends");
        let mut other = Client::connect(port).expect("a session");
        assert_eq!(other.scalar("SELECT 1").expect("the server works on"), "1");
    }
}

/// What a session hears that listens, of itself and of one on the other coordinator.
fn heard(mut listener: Client, mut other: Client) -> Vec<(String, String)> {
    let mut heard = Vec::new();
    let run = |client: &mut Client, statements: &[&str]| {
        for sql in statements {
            client.simple(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    };
    run(&mut listener, &["LISTEN a", "LISTEN \"B c\""]);
    let on_all_nodes = "INSERT INTO noted SELECT g FROM generate_series(1, 20) g";
    // What is undone is not heard: the next is there before it.
    for (statements, count) in [
        (&["NOTIFY a, 'one'"][..], 1),
        (&["BEGIN", on_all_nodes, "NOTIFY a, 'two'", "NOTIFY a, 'two'", "DELETE FROM noted", "COMMIT"], 1),
        (&["BEGIN", "NOTIFY a, 'undone'", "ROLLBACK"], 0),
        (&["BEGIN", "SAVEPOINT s", "NOTIFY a, 'undone'", "ROLLBACK TO s", "NOTIFY \"B c\"", "COMMIT"], 1),
        (&["SELECT pg_notify('a', 'three')"], 1),
        (&["BEGIN", on_all_nodes, "SELECT pg_notify('a', 'four')", "COMMIT"], 1),
        (&["BEGIN", "SELECT pg_notify('a', 'undone')", on_all_nodes, "COMMIT"], 0),
        (&["NOTIFY unheard", "NOTIFY a, 'five'; NOTIFY a, 'six'"], 2),
    ] {
        run(&mut other, statements);
        (0..count).for_each(|_| heard.push(listener.notification().expect("a notification")));
    }
    // Not in the middle of a transaction.
    run(&mut listener, &["BEGIN"]);
    run(&mut other, &["NOTIFY a, 'seven'"]);
    run(&mut listener, &["SELECT 1"]);
    assert_eq!(listener.notifications, []);
    run(&mut listener, &["COMMIT"]);
    heard.push(listener.notification().expect("a notification"));
    // One's own comes with the answer.
    run(&mut listener, &["NOTIFY a, 'own'"]);
    heard.extend(listener.notifications.drain(..));
    run(&mut listener, &["BEGIN", "LISTEN d", "ROLLBACK", "BEGIN", "UNLISTEN *", "LISTEN e", "COMMIT"]);
    run(&mut other, &["NOTIFY a, 'over'", "NOTIFY d, 'never'", "NOTIFY e, 'last'"]);
    heard.push(listener.notification().expect("a notification"));
    run(&mut listener, &["UNLISTEN e"]);
    heard
}

fn notifications(both: &Both) {
    let mut pair = both.pair();
    create(&mut pair, "noted");
    for client in [&mut pair.reference, &mut pair.cluster] {
        client.run("CREATE UNIQUE INDEX ON noted (k)").expect("an index");
    }
    let reference = heard(both.reference.connect().expect("a session"), both.reference.connect().expect("a session"));
    let cluster = heard(both.cluster.connect(0).expect("a session"), both.cluster.connect(1).expect("a session"));
    assert_eq!(cluster, reference, "(right: one server)");
}

/// Who says goodbye at once still gets the answers to what went before it.
fn last_answers(both: &Both) {
    let ways: [&[(u8, &[u8])]; 3] = [
        &[(b'Q', b"SELECT 1; SELECT 2\0"), (b'X', b"")],
        &[(b'P', b"\0SELECT 3\0\0\0"), (b'D', b"S\0"), (b'S', b""), (b'X', b"")],
        &[(b'E', b"nothing\0\0\0\0\0"), (b'S', b""), (b'X', b"")],
    ];
    for (number, messages) in ways.into_iter().enumerate() {
        same(&mut both.pair(), &format!("goodbye {number}"), |client| {
            client.send_messages(messages)?;
            client.wait()
        });
    }
}

fn both_coordinators_see_everything_at_once(cluster: &Cluster) {
    let (mut one, mut two) = (cluster.connect(0).expect("a session"), cluster.connect(1).expect("a session"));
    let clause = if cluster.is_distributed() { "DISTRIBUTE BY HASH (k)" } else { "" };
    for round in 0..5 {
        one.run(&format!("CREATE TABLE seen (k int) {clause}")).expect("a table");
        two.run("INSERT INTO seen SELECT generate_series(1, 10)").expect("the other coordinator knows it");
        assert_eq!(one.scalar("SELECT count(*) FROM seen").expect("a count"), "10", "round {round}");
        one.run("ALTER TABLE seen ADD COLUMN v text DEFAULT 'new'").expect("a column");
        assert_eq!(
            two.scalar("SELECT min(v) FROM seen").expect("the other coordinator knows it"),
            "new",
            "round {round}"
        );
        two.run("DROP TABLE seen").expect("it goes");
        let error = one.run("SELECT * FROM seen").expect_err("it is gone");
        assert_eq!(error.code().as_str(), "42P01", "round {round}");
    }
}

fn disconnecting_rolls_back(cluster: &Cluster) {
    let mut watcher = cluster.connect(1).expect("a session");
    let clause = if cluster.is_distributed() { "DISTRIBUTE BY HASH (k)" } else { "" };
    watcher.run(&format!("CREATE TABLE left_open (k int) {clause}")).expect("a table");
    let mut client = cluster.connect(0).expect("a session");
    client.run("BEGIN; INSERT INTO left_open SELECT generate_series(1, 100)").expect("rows");
    drop(client);
    let mut client = cluster.connect(0).expect("a session");
    client.begin_copy("COPY left_open FROM STDIN").expect("COPY begins");
    client.send_copy(b"1\n2\n3\n").expect("data go out");
    drop(client);
    // The lock is free once both transactions are gone.
    watcher.run("SET lock_timeout = '30s'").expect("a setting");
    watcher.run("BEGIN; LOCK TABLE left_open IN ACCESS EXCLUSIVE MODE").expect("nobody holds a lock");
    assert_eq!(watcher.scalar("SELECT count(*) FROM left_open").expect("a count"), "0");
    watcher.run("COMMIT; DROP TABLE left_open").expect("it goes");
}
