//! Malformed COPYs: each is answered as one PostgreSQL answers it, with the same message, SQLSTATE, DETAIL, HINT, CONTEXT with
//! the line, and position, or with the same rows; in a transaction block and outside, by the simple and the extended protocol, from
//! the client and from a file, into tables distributed in every way.
//!
//! The inputs are plain data: `values` (what types refuse), `lines` (text and CSV), `binary`, `rows` (what tables refuse),
//! `statements`. `LOXO_MALFORMED=all` tries every case in every layout of its table, which takes some minutes; otherwise they
//! take turns. `LOXO_MALFORMED=word` tries the cases whose statement contains it, in every layout.

use e2e::differential::{diff, summary};
use pgerror::{Result, field};
use testkit::wire::{Answer, Client, CopyInput};
use testkit::{Cluster, Server, ServerOptions, TempDir};

mod binary;
mod lines;
mod rows;
mod statements;
mod values;

/// More than these add nothing.
const DIFFERENCES_MAX: usize = 40;

/// One COPY.
struct Case {
    /// The table it is about; its layouts are tried.
    table: String,
    sql: String,
    data: Vec<u8>,
    /// Bytes of a CopyData message.
    frame_bytes: usize,
    /// `SET` before it.
    settings: Vec<String>,
    /// Only a server's file shows it.
    from_file: bool,
}

impl Case {
    fn new(table: &str, sql: impl Into<String>, data: impl AsRef<[u8]>) -> Self {
        let data = data.as_ref().to_vec();
        Self {
            table: table.to_owned(),
            sql: sql.into(),
            data,
            frame_bytes: usize::MAX,
            settings: Vec::new(),
            from_file: false,
        }
    }
}

/// The lines that `line` makes of the numbers, one after the other.
fn repeat(range: std::ops::Range<usize>, line: impl Fn(usize) -> String) -> String {
    range.map(line).collect()
}

/// What a table's layout may be where nothing forbids one.
const ALL_LAYOUTS: &[&str] = &["HASH (k)", "HASH (v)", "REPLICATION", "ROUNDROBIN", "MODULO (k)"];

const TYPES: &[&str] = &[
    "CREATE TYPE public.mood AS ENUM ('sad', 'ok')",
    "CREATE TYPE public.pair AS (a int, b text)",
    "CREATE DOMAIN public.positive AS int NOT NULL CHECK (VALUE > 0)",
    "CREATE DOMAIN public.code AS varchar(3) CHECK (VALUE <> '')",
    "CREATE DOMAIN public.positives AS positive[]",
    "CREATE TABLE public.parent (id int PRIMARY KEY) /*replicated*/",
    "INSERT INTO parent VALUES (1), (20)",
    "CREATE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
     IF NEW.v = 'bad' THEN RAISE EXCEPTION 'a bad row: %', NEW.k USING HINT = 'Write another.'; END IF; \
     IF NEW.v = 'skip' THEN RETURN NULL; END IF; \
     IF NEW.v = 'say' THEN RAISE NOTICE 'a row: %', NEW.k; END IF; \
     IF NEW.v = 'fix' THEN NEW.n := 1; END IF; RETURN NEW; END $$",
];

/// What else there is.
const OBJECTS: &[&str] = &[
    "CREATE TABLE parted (k int, v text, PRIMARY KEY (k)) PARTITION BY RANGE (k)",
    "CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE parted_mid PARTITION OF parted (CHECK (v <> 'no')) FOR VALUES FROM (10) TO (30)",
    "CREATE VIEW vw AS SELECT k, v FROM t",
    "CREATE MATERIALIZED VIEW mv AS SELECT 1 AS k",
    "CREATE SEQUENCE sq",
    "CREATE TEMP TABLE temporary (k int PRIMARY KEY, v varchar(3) NOT NULL, n int)",
    statements::FILLED,
];

#[test]
fn malformed_input_is_answered_like_one_postgresql() {
    let mut sides = Sides::start().expect("two servers and their tables");
    let wanted = std::env::var("LOXO_MALFORMED").unwrap_or_default();
    let word = Some(wanted.as_str()).filter(|word| !word.is_empty() && *word != "all");
    let mut tally = Tally::default();
    for (turn, case) in all_cases().iter().enumerate() {
        if word.is_some_and(|word| !case.sql.contains(word)) {
            continue;
        }
        let layouts = sides.layouts_of(&case.table);
        let tried = if wanted.is_empty() { turn % layouts..turn % layouts + 1 } else { 0..layouts };
        for layout in tried {
            if let Err(error) = sides.try_case(case, layout, turn, &mut tally) {
                panic!("{}, case {turn} in layout {layout}: {error:?}", case.sql);
            }
        }
        if tally.differences.len() >= DIFFERENCES_MAX {
            break;
        }
    }
    tally.differences.iter().for_each(|difference| eprintln!("{difference}\n"));
    eprintln!("{} accepted, {} refused, {} differ", tally.accepted, tally.refused, tally.differences.len());
    assert!(tally.differences.is_empty());
    assert!(word.is_some() || (tally.accepted > 100 && tally.refused > 400), "most of the cases are gone");
}

fn all_cases() -> Vec<Case> {
    let all = [values::cases(), lines::cases(), binary::cases(), rows::cases(), statements::cases()];
    all.into_iter().flatten().collect()
}

#[derive(Default)]
struct Tally {
    accepted: usize,
    refused: usize,
    differences: Vec<String>,
}

/// The stock server, and a session of the cluster for each layout; layouts are schemas.
struct Sides {
    reference: Client,
    layouts: Vec<Client>,
    /// For the COPYs from a file.
    dir: TempDir,
    _cluster: Cluster,
    _server: Server,
}

impl Sides {
    fn start() -> Result<Self> {
        let cluster = Cluster::start(2, 1)?;
        let server = Server::start(&ServerOptions::like(&mut cluster.connect(0)?)?)?;
        let mut layouts = Vec::new();
        for number in 0..ALL_LAYOUTS.len() {
            let mut client = cluster.connect(0)?;
            set_up(&mut client, number, cluster.is_distributed())?;
            layouts.push(client);
        }
        let mut reference = server.connect()?;
        set_up(&mut reference, 0, false)?;
        Ok(Self { reference, layouts, dir: TempDir::new("malformed")?, _cluster: cluster, _server: server })
    }

    fn layouts_of(&self, table: &str) -> usize {
        match rows::TABLES.iter().find(|(name, ..)| *name == table) {
            Some((.., layouts)) => layouts.len(),
            None if table == "t" || table == "wide" => ALL_LAYOUTS.len(),
            None => 1,
        }
    }

    /// Compares one case in one layout.
    fn try_case(&mut self, case: &Case, layout: usize, turn: usize, tally: &mut Tally) -> Result<()> {
        let expected = run_case(&mut self.reference, case, turn, &self.dir)?;
        let actual = run_case(&mut self.layouts[layout], case, turn, &self.dir)?;
        match expected.iter().any(|answer| answer.error.is_some()) {
            true => tally.refused += 1,
            false => tally.accepted += 1,
        }
        let own_schema = format!("SCHEMA: m{layout}");
        let expected: String = expected.iter().map(text).collect();
        let actual = actual.iter().map(text).collect::<String>().replace(&own_schema, "SCHEMA: m0");
        if expected != actual {
            let data = case.data[..case.data.len().min(300)].escape_ascii();
            let Case { sql, settings, frame_bytes, .. } = case;
            tally.differences.push(format!(
                "{sql}\n  case {turn}, layout {layout}, {settings:?}, frames of {frame_bytes}, data: {data}\n{}",
                diff(&expected, &actual)
            ));
        }
        Ok(())
    }
}

/// The answer to a COPY, and to what shows the state of the session and of the table behind it.
fn run_case(client: &mut Client, case: &Case, turn: usize, dir: &TempDir) -> Result<Vec<Answer>> {
    let in_block = turn % 2 == 1;
    let mut answers = Vec::new();
    for setting in &case.settings {
        answers.push(client.simple(&format!("SET {setting}"))?);
    }
    if let Some((_, sequence)) = rows::SEQUENCES.iter().find(|(table, _)| *table == case.table) {
        client.run(&format!("SELECT setval('{sequence}', 1, false)"))?;
    }
    if in_block {
        client.run("BEGIN")?;
    }
    // Of a COPY from a file, what is wrong with the statement comes without its position.
    let takes_file = turn % 11 == 5 && !case.sql.contains("nope") && !case.sql.contains("nonsense");
    let in_file = (case.from_file || takes_file) && case.sql.contains("FROM STDIN") && !case.data.is_empty();
    let sql = match in_file {
        true => case.sql.replacen("STDIN", &format!("'{}'", dir.write("copy.data", &case.data)?.display()), 1),
        false => case.sql.clone(),
    };
    let frames: Vec<&[u8]> = case.data.chunks(case.frame_bytes).collect();
    let input = CopyInput { frames: &frames, fail: turn % 97 == 96 };
    answers.push(match turn % 7 == 3 {
        true => client.extended(&sql, &[], input, |_| false)?,
        false => client.simple_copy(&sql, input)?,
    });
    let table = match case.table.contains(' ') {
        true => format!("\"{}\"", case.table.replace('"', "\"\"")),
        false => case.table.clone(),
    };
    let columns = match case.table.as_str() {
        "rolled" => "k, v",
        _ => "*",
    };
    let rows = client.simple(&format!("COPY (SELECT {columns} FROM {table}) TO STDOUT"))?;
    let is_empty = rows.tag.as_deref() == Some("COPY 0");
    answers.push(rows);
    if in_block {
        client.run("ROLLBACK")?;
    } else if !is_empty {
        client.run(&format!("DELETE FROM {table}"))?;
    }
    for setting in &case.settings {
        client.run(&format!("RESET {}", setting.split(' ').next().unwrap_or_default()))?;
    }
    Ok(answers)
}

/// Everything that has to be the same.
fn text(answer: &Answer) -> String {
    let position = answer.error.as_ref().map(|error| error.text(field::POSITION).into_owned()).unwrap_or_default();
    let summary = summary(answer, false);
    // The number of a session's own schema is the server's choice.
    let summary = match summary.split_once("SCHEMA: pg_temp_") {
        Some((before, after)) => format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => summary,
    };
    format!("{summary}  position {position:?}\n")
}

/// The clause of a table that is replicated.
fn with_clause(sql: &str, distributed: bool) -> String {
    sql.replace("/*replicated*/", if distributed { "DISTRIBUTE BY REPLICATION" } else { "" })
}

/// The tables of one layout; what there is once comes with the first.
fn set_up(client: &mut Client, layout: usize, distributed: bool) -> Result<()> {
    for setting in ["TimeZone = 'UTC'", "DateStyle = 'ISO, MDY'", "lc_messages = 'C'", "lc_monetary = 'C'"] {
        client.run(&format!("SET {setting}"))?;
    }
    client.run(&format!("SET search_path = m{layout}, public"))?;
    client.run("BEGIN")?;
    client.run(&format!("CREATE SCHEMA m{layout}"))?;
    if layout == 0 {
        TYPES.iter().try_for_each(|sql| client.run(&with_clause(sql, distributed)).map(drop))?;
    }
    let mut create = |name: &str, columns: &str, clause: &str| {
        let clause = if distributed { format!("DISTRIBUTE BY {clause}") } else { String::new() };
        client.run(&format!("CREATE TABLE \"{}\" ({columns}) {clause}", name.replace('"', "\"\""))).map(drop)
    };
    create("t", "k int, v text, n numeric(6,2), d date", ALL_LAYOUTS[layout])?;
    create("wide", &values::wide_columns(), ALL_LAYOUTS[layout])?;
    for (name, columns, layouts) in rows::TABLES.iter().filter(|(.., layouts)| layout < layouts.len()) {
        create(name, columns, layouts[layout])?;
    }
    if layout == 0 {
        for (name, columns) in values::key_tables() {
            create(&name, &columns, "HASH (x)")?;
        }
        create("none", "", "ROUNDROBIN")?;
        create("filled", "k int, v text, w text", "HASH (k)")?;
        OBJECTS.iter().try_for_each(|sql| client.run(sql).map(drop))?;
    }
    for (table, when, _) in rows::TRIGGERS.iter().filter(|(.., layouts)| layout < *layouts) {
        client.run(&format!("CREATE TRIGGER watch {when} INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION watch()"))?;
    }
    client.run("COMMIT").map(drop)
}
