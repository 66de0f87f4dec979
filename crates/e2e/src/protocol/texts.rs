//! What the sequences say in SQL, and values for its parameters.
//!
//! Each statement has one right answer: rows are ordered, or sorted before they are compared.

use testkit::Rng;

/// The tables, by every distribution. The stock server ignores the clause, which is cut off.
pub const TABLES: [(&str, &str); 3] = [
    ("CREATE TABLE fh (k int PRIMARY KEY, v text)", "HASH (k)"),
    ("CREATE TABLE fr (k int PRIMARY KEY, v text)", "REPLICATION"),
    ("CREATE TABLE fb (k int, v text)", "ROUNDROBIN"),
];

/// Gives the tables the rows that each sequence begins with.
pub const FILL: &str = "TRUNCATE fh, fr, fb; \
    INSERT INTO fh SELECT g, 'h' || g FROM generate_series(1, 12) g; \
    INSERT INTO fr SELECT g, 'r' || g FROM generate_series(1, 6) g; \
    INSERT INTO fb SELECT g % 7, 'b' || g FROM generate_series(1, 10) g";

/// What is in them: one row each.
pub const CONTENTS: &str = "SELECT count(*), string_agg(k || '=' || coalesce(v, '-'), ' ' ORDER BY k, v) FROM fh; \
    SELECT count(*), string_agg(k || '=' || coalesce(v, '-'), ' ' ORDER BY k, v) FROM fr; \
    SELECT count(*), string_agg(coalesce(k::text, '-') || '=' || coalesce(v, '-'), ' ' ORDER BY k, v) FROM fb";

/// Type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Int,
    Text,
    Bytes,
    Date,
    Bool,
}

impl Kind {
    /// Its object id.
    pub fn oid(self) -> u32 {
        match self {
            Kind::Int => 23,
            Kind::Text => 25,
            Kind::Bytes => 17,
            Kind::Date => 1082,
            Kind::Bool => 16,
        }
    }

    /// A value in the text or the binary format.
    pub fn value(self, is_binary: bool, rng: &mut Rng) -> Vec<u8> {
        match (self, is_binary) {
            (Kind::Int, true) => int(rng).to_be_bytes().to_vec(),
            (Kind::Int, false) => int(rng).to_string().into_bytes(),
            (Kind::Text, _) => rng.pick(&["", "x", "h3", "\u{e4}\u{20ac}", "it's"]).as_bytes().to_vec(),
            (Kind::Bytes, true) => vec![0, 1, 255],
            (Kind::Bytes, false) => b"\\x0001ff".to_vec(),
            (Kind::Date, true) => (int(rng) * 100).to_be_bytes().to_vec(),
            (Kind::Date, false) => b"2024-02-29".to_vec(),
            (Kind::Bool, true) => vec![rng.below(2) as u8],
            (Kind::Bool, false) => rng.pick(&["t", "off"]).as_bytes().to_vec(),
        }
    }
}

fn int(rng: &mut Rng) -> i32 {
    match rng.below(8) {
        0 => -1,
        1 => 0,
        2 => 1000 + rng.below(1000) as i32,
        _ => 1 + rng.below(20) as i32,
    }
}

/// A statement with the types of its parameters.
pub type Text = (&'static str, &'static [Kind]);

/// Statements that drivers prepare.
const PREPARED: &[Text] = {
    use Kind::*;
    &[
        ("SELECT k, v FROM fh WHERE k = $1", &[Int]),
        ("SELECT k, v FROM fh WHERE k < $1 ORDER BY k", &[Int]),
        ("SELECT k FROM fh ORDER BY k", &[]),
        ("SELECT v FROM fb WHERE k = $1 ORDER BY v", &[Int]),
        ("SELECT k, v FROM fr ORDER BY k DESC", &[]),
        ("INSERT INTO fh VALUES ($1, $2)", &[Int, Text]),
        ("INSERT INTO fr VALUES ($1, $2)", &[Int, Text]),
        ("INSERT INTO fb VALUES ($1, $2)", &[Int, Text]),
        ("INSERT INTO fh VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING k, v", &[Int, Text]),
        ("UPDATE fh SET v = $2 WHERE k = $1", &[Int, Text]),
        ("UPDATE fb SET v = v || $1", &[Text]),
        ("UPDATE fr SET v = $1 WHERE k = 2 RETURNING v", &[Text]),
        ("DELETE FROM fh WHERE k = $1 RETURNING k", &[Int]),
        ("DELETE FROM fb WHERE k > $1", &[Int]),
        ("SELECT $1::int + $2::int", &[Int, Int]),
        ("SELECT $1::bytea, $2::date, $3::bool", &[Bytes, Date, Bool]),
        ("SELECT $1", &[Text]),
        ("SELECT 12 / $1::int", &[Int]),
        ("SELECT generate_series(1, $1)", &[Int]),
        ("SELECT count(*), sum(k) FROM fb WHERE v <> $1", &[Text]),
        ("SELECT a.k, b.v FROM fh a JOIN fb b USING (k) ORDER BY 1, 2", &[]),
        ("SELECT r.k, h.v FROM fr r JOIN fh h USING (k) WHERE r.k < $1 ORDER BY 1", &[Int]),
        ("VALUES (1, 'a'), (2, NULL), (3, 'c')", &[]),
        ("SELECT 1 WHERE false", &[]),
        ("SELECT", &[]),
    ]
};

/// Statements by either protocol, without parameters.
const OTHERS: &[&str] = &[
    "BEGIN",
    "BEGIN",
    "BEGIN",
    "START TRANSACTION READ ONLY",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "COMMIT",
    "COMMIT",
    "ROLLBACK",
    "ROLLBACK",
    "END",
    "ABORT",
    "COMMIT AND CHAIN",
    "SAVEPOINT a",
    "SAVEPOINT b",
    "ROLLBACK TO a",
    "RELEASE a",
    "SELECT 1/0",
    "SELECT 1/0",
    "SELEC 1",
    "SELECT * FROM nosuch",
    "SELECT nosuch FROM fh",
    "SELECT $1",
    "SELECT 'unterminated",
    "INSERT INTO fh VALUES (1, 'is there')",
    "INSERT INTO fh VALUES (NULL, 'is null')",
    "INSERT INTO fr SELECT 7, v FROM fr WHERE k = 1",
    "INSERT INTO fb SELECT k, 'more' FROM fh",
    "",
    ";",
    "-- nothing",
    "SET geqo_threshold = 15",
    "SET LOCAL geqo_threshold = 16",
    "SHOW geqo_threshold",
    "RESET geqo_threshold",
    "SET nosuch = 1",
    "SHOW nosuch",
    "SELECT set_config('geqo_threshold', '17', false)",
    "DECLARE c CURSOR FOR SELECT k FROM fh ORDER BY k",
    "DECLARE c SCROLL CURSOR FOR SELECT k, v FROM fb ORDER BY k, v",
    "DECLARE h CURSOR WITH HOLD FOR SELECT k FROM fr ORDER BY k",
    "FETCH 2 FROM c",
    "FETCH ALL FROM c",
    "FETCH h",
    "MOVE 1 FROM c",
    "CLOSE c",
    "CLOSE h",
    "CLOSE ALL",
    "CLOSE p1",
    "MOVE 1 FROM p1",
    "PREPARE q (int) AS SELECT k FROM fh WHERE k = $1",
    "PREPARE s1 AS SELECT k FROM fr ORDER BY k",
    "EXECUTE q (3)",
    "EXECUTE q (3, 4)",
    "EXECUTE s1",
    "DEALLOCATE q",
    "DEALLOCATE s1",
    "DEALLOCATE ALL",
    "DISCARD ALL",
    "DISCARD PLANS",
    "COPY fh TO STDOUT",
    "COPY (SELECT k, v FROM fb ORDER BY k, v) TO STDOUT (FORMAT csv)",
    "COPY nosuch FROM STDIN",
    "TRUNCATE fb",
    "LOCK TABLE fr",
    "EXPLAIN (COSTS OFF) SELECT 1",
    "DO $$ BEGIN NULL; END $$",
    "DO $$ BEGIN RAISE EXCEPTION 'no'; END $$",
    "SELECT pg_backend_pid() > 0",
    "DELETE FROM fh",
    "SELECT v FROM fh WHERE k = 3 FOR UPDATE",
];

/// COPYs from the client.
pub const COPIES: &[&str] = &[
    "COPY fh FROM STDIN",
    "COPY fr FROM STDIN",
    "COPY fb FROM STDIN",
    "COPY fb (k) FROM STDIN",
    "COPY fb FROM STDIN (FORMAT csv)",
    "COPY fb FROM STDIN (FORMAT binary)",
];

/// A statement, and the types of its parameters.
pub fn prepared(rng: &mut Rng) -> Text {
    match rng.below(4) {
        0 => (OTHERS[rng.below(OTHERS.len())], &[]),
        _ => PREPARED[rng.below(PREPARED.len())],
    }
}

/// The text of a Query message.
pub fn simple(rng: &mut Rng) -> String {
    let one = |rng: &mut Rng| match rng.below(3) {
        0 => filled_in(PREPARED[rng.below(PREPARED.len())], rng),
        _ => OTHERS[rng.below(OTHERS.len())].to_owned(),
    };
    match rng.below(5) {
        0 => (0..2 + rng.below(2)).map(|_| one(rng)).collect::<Vec<_>>().join("; "),
        _ => one(rng),
    }
}

/// A statement with constants in place of its parameters.
fn filled_in((sql, kinds): Text, rng: &mut Rng) -> String {
    let mut sql = sql.to_owned();
    for (index, kind) in kinds.iter().enumerate().rev() {
        let value = String::from_utf8_lossy(&kind.value(false, rng)).replace('\'', "''");
        sql = sql.replace(&format!("${}", index + 1), &format!("'{value}'"));
    }
    sql
}

/// A piece of the data of such a COPY. `wrong` is one in so many.
pub fn copy_data(sql: &str, wrong: usize, rng: &mut Rng) -> Vec<u8> {
    let key = 2000 + rng.below(100_000);
    match (rng.one_in(wrong), sql) {
        (true, _) => rng.pick(&["x\ty\n", "1\ta\n", "1\n", "\u{0}", "1\ta\tb\n", "\\.\n", ""]).as_bytes().to_vec(),
        (_, sql) if sql.contains("csv") => format!("{key},\"a\"\"b\"\n").into_bytes(),
        (_, sql) if sql.contains("(k)") => format!("{key}\n").into_bytes(),
        (_, sql) if sql.contains("binary") => binary_rows(key as i32),
        _ => format!("{key}\tcopied\n").into_bytes(),
    }
}

/// A whole COPY in the binary format.
fn binary_rows(key: i32) -> Vec<u8> {
    let row = [&b"\0\x02\0\0\0\x04"[..], &key.to_be_bytes(), b"\0\0\0\x01b"].concat();
    [b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", &row[..], b"\xff\xff"].concat()
}
