//! Drives a COPY straight into PostgreSQL, or through a router into two tables that play the datanodes.

use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use copyfmt::{
    BINARY_HEADER, BINARY_TRAILER, CopyColumn, CopyOptions, KeyPart, KeyValue, OptionValue, Output, Router, RouterSpec,
    Routing, Source, Step,
};
use pgerror::{PgError, field};
use placement::{BucketMap, KeyType};
use postgres::Client;
use postgres::types::private::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// A table `t` in the schemas `direct<i>`, `node<i>_0`, `node<i>_1`.
pub struct Table {
    pub index: usize,
    pub columns: Vec<CopyColumn>,
    pub type_names: Vec<String>,
    /// Without modifiers.
    pub base_type_names: Vec<String>,
    pub server_version: u32,
}

/// What became of a COPY.
#[derive(PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The rows as text, sorted.
    Rows(Vec<String>),
    Error(Failure),
}

/// The parts of an error that a user sees.
#[derive(PartialEq, Eq, Debug)]
pub struct Failure {
    pub code: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    pub context: Option<String>,
}

impl Failure {
    /// `COPY t, line 7` of the context.
    pub fn line(&self) -> Option<&str> {
        let context = self.context.as_ref()?;
        context[context.find("COPY t, line")?..].split(", column").next()
    }
}

impl From<&PgError> for Failure {
    fn from(error: &PgError) -> Self {
        let text = |code| error.get(code).map(|_| error.text(code).into_owned());
        Failure {
            code: error.code().to_string(),
            message: error.message().into_owned(),
            detail: text(field::DETAIL),
            hint: text(field::HINT),
            context: text(field::WHERE),
        }
    }
}

impl From<&postgres::Error> for Failure {
    fn from(error: &postgres::Error) -> Self {
        let error = error.as_db_error().unwrap_or_else(|| panic!("not PostgreSQL's error: {error}"));
        let text = |text: Option<&str>| text.map(str::to_owned);
        Failure {
            code: error.code().code().to_owned(),
            message: error.message().to_owned(),
            detail: text(error.detail()),
            hint: text(error.hint()),
            context: text(error.where_()),
        }
    }
}

impl From<&Failure> for PgError {
    fn from(failure: &Failure) -> Self {
        let code = pgerror::SqlState::from_bytes(failure.code.as_bytes()).expect("a SQLSTATE");
        let mut error = PgError::new(code, failure.message.clone());
        let fields = [(field::DETAIL, &failure.detail), (field::HINT, &failure.hint), (field::WHERE, &failure.context)];
        for (code, text) in fields {
            if let Some(text) = text {
                error = error.with(code, text.clone());
            }
        }
        error
    }
}

impl Table {
    pub fn create(client: &mut Client, index: usize, columns: &[(&str, &str)]) -> Self {
        let list: Vec<String> = columns.iter().map(|(name, type_name)| format!("{name} {type_name}")).collect();
        for schema in [format!("direct{index}"), format!("node{index}_0"), format!("node{index}_1")] {
            let sql = format!("create schema {schema}; create table {schema}.t ({})", list.join(", "));
            client.batch_execute(&sql).expect("create a table");
        }
        let sql = "select attname, atttypid, atttypmod, format_type(atttypid, atttypmod), format_type(atttypid, null)
                   from pg_attribute
                   where attrelid = $1::text::regclass and attnum > 0 order by attnum";
        let rows = client.query(sql, &[&format!("direct{index}.t")]).expect("columns");
        let column =
            |row: &postgres::Row| CopyColumn { name: row.get(0), type_oid: row.get(1), type_modifier: row.get(2) };
        let version: String = client.query_one("show server_version_num", &[]).expect("version").get(0);
        Table {
            index,
            columns: rows.iter().map(column).collect(),
            type_names: rows.iter().map(|row| row.get(3)).collect(),
            base_type_names: rows.iter().map(|row| row.get(4)).collect(),
            server_version: version.parse().expect("a number"),
        }
    }

    fn key_type(&self) -> KeyType {
        KeyType::from_oid(self.columns[0].type_oid).expect("a key type")
    }
}

/// Options as SQL, as a user would write them.
pub fn sql_of(pairs: &[(String, OptionValue)]) -> String {
    let quote = |text: &str| format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    let value = |value: &OptionValue| match value {
        OptionValue::None => String::new(),
        OptionValue::Text(text) => quote(text),
        OptionValue::Integer(number) => number.to_string(),
        OptionValue::Boolean(value) => value.to_string(),
        OptionValue::Star => "*".to_owned(),
        OptionValue::List(names) => format!("({})", names.join(", ")),
    };
    let list: Vec<String> = pairs.iter().map(|(name, v)| format!("{name} {}", value(v))).collect();
    if list.is_empty() { String::new() } else { format!("({})", list.join(", ")) }
}

/// A few rows in binary format, as another table's COPY TO would give them; `None` if the values do not suit the types.
pub fn binary_data(client: &mut Client, table: &Table, random: &mut Random) -> Option<Vec<u8>> {
    let mut rows = Vec::new();
    for _ in 0..random.below(6) {
        let mut values = Vec::new();
        for (column, type_name) in table.columns.iter().zip(&table.base_type_names) {
            let text = String::from_utf8(value(random, column, usize::MAX)).expect("valid text");
            let literal = format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
            values.push(if random.chance(6) { "null".to_owned() } else { format!("{literal}::{type_name}") });
        }
        rows.push(format!("select {}", values.join(", ")));
    }
    if rows.is_empty() {
        return Some([&BINARY_HEADER[..], &BINARY_TRAILER].concat());
    }
    let mut reader = client.copy_out(&format!("copy ({}) to stdout (format binary)", rows.join(" union all "))).ok()?;
    let mut data = Vec::new();
    reader.read_to_end(&mut data).ok()?;
    Some(data)
}

/// PostgreSQL's error for options that are wrong; it must come before any data is asked for.
pub fn direct_refusal(client: &mut Client, table: &Table, options: &str) -> Outcome {
    match client.batch_execute(&format!("copy direct{}.t from stdin {options}", table.index)) {
        Ok(()) => Outcome::Rows(Vec::new()),
        Err(error) => Outcome::Error(Failure::from(&error)),
    }
}

/// Straight into PostgreSQL.
pub fn direct(client: &mut Client, table: &Table, options: &str, data: &[u8]) -> Outcome {
    let mut transaction = client.transaction().expect("begin");
    let sql = format!("copy direct{}.t from stdin {options}", table.index);
    let result = transaction.copy_in(&sql).and_then(|mut writer| {
        // A failing write means that the server has already said no; finish gives its error.
        let _ = writer.write_all(data);
        writer.finish()
    });
    match result {
        Ok(_) => {
            let sql = format!("select t::text from direct{}.t order by 1", table.index);
            let rows = transaction.query(&sql, &[]).expect("rows");
            Outcome::Rows(rows.iter().map(|row| row.get(0)).collect())
        }
        Err(error) => Outcome::Error(Failure::from(&error)),
    }
}

/// Through a router; also gives how many values PostgreSQL had to convert.
pub fn routed(
    client: &mut Client,
    table: &Table,
    options: CopyOptions,
    output: Output,
    data: &[u8],
    random: &mut Random,
) -> (Outcome, usize) {
    let header = options.clone();
    let spec = RouterSpec {
        relation: "t".to_owned(),
        columns: table.columns.clone(),
        options,
        client_encoding: "UTF8".to_owned(),
        server_version: table.server_version,
        timezone_is_utc: false,
        source: Source::Client,
        output,
        routing: Routing::Hash {
            key: vec![KeyPart { key_type: table.key_type(), value: KeyValue::Column(0) }],
            map: Arc::new(BucketMap::round_robin(&[7, 9])),
            nodes: vec![7, 9],
        },
        clockless: Vec::new(),
        frame_bytes: 1 + random.below(200),
    };
    let mut asked = 0;
    let mut router = match Router::new(spec) {
        Ok(router) => router,
        Err(error) => return (Outcome::Error(Failure::from(&error)), asked),
    };
    let mut streams = vec![Vec::new(); router.destinations()];
    let result = run(client, table, &mut router, data, random, &mut streams, &mut asked);
    // An error of a datanode is about an earlier line than the router's own, so it goes first.
    let loaded = load(client, table, &header, output, &router, streams);
    match (result, loaded) {
        (Err(error), Outcome::Rows(_)) => (Outcome::Error(Failure::from(&error)), asked),
        (_, loaded) => (loaded, asked),
    }
}

/// Collects the bytes for each destination.
fn run(
    client: &mut Client,
    table: &Table,
    router: &mut Router,
    data: &[u8],
    random: &mut Random,
    streams: &mut [Vec<u8>],
    asked: &mut usize,
) -> Result<(), PgError> {
    let mut outputs = vec![Vec::new(); router.destinations()];
    let result = drive(client, table, router, data, random, streams, &mut outputs, asked);
    for (stream, output) in streams.iter_mut().zip(&outputs) {
        stream.extend_from_slice(output);
    }
    result
}

#[allow(clippy::too_many_arguments)]
fn drive(
    client: &mut Client,
    table: &Table,
    router: &mut Router,
    data: &[u8],
    random: &mut Random,
    streams: &mut [Vec<u8>],
    outputs: &mut [Vec<u8>],
    asked: &mut usize,
) -> Result<(), PgError> {
    let chunk_bytes_max = random.pick(&[1, 2, 7, 60, 100_000]);
    let mut rest = data;
    loop {
        let step = match router.step(outputs) {
            Ok(step) => step,
            Err(error) => return Err(first_of_row(client, table, router, error)),
        };
        match step {
            Step::NeedInput if !rest.is_empty() => {
                let (chunk, behind) = rest.split_at(rest.len().min(1 + random.below(chunk_bytes_max)));
                push(router, Bytes::copy_from_slice(chunk), random);
                rest = behind;
            }
            Step::NeedInput => router.finish(),
            Step::Full { dest } => streams[dest].append(&mut outputs[dest]),
            Step::Convert(conversion) => {
                *asked += 1;
                let type_name = &table.type_names[conversion.column];
                let (sql, value): (String, Box<dyn ToSql + Sync>) = match conversion.is_binary {
                    true => (
                        format!("select $1::{}", table.base_type_names[conversion.column]),
                        Box::new(Raw(conversion.value.expect("a value"))),
                    ),
                    false => {
                        let text = String::from_utf8(conversion.value.expect("a value")).expect("valid text");
                        ("select $1::text".to_owned(), Box::new(text))
                    }
                };
                let sql = format!("{sql}::{type_name}");
                match client.query_one(&sql, &[&*value]) {
                    Ok(row) => router.supply(row.get::<_, Option<Raw>>(0).as_ref().map(|raw| &raw.0[..])),
                    Err(error) => {
                        let error = router.refuse((&Failure::from(&error)).into(), outputs);
                        return Err(first_of_row(client, table, router, error));
                    }
                }
            }
            Step::End => return Ok(()),
        }
    }
}

/// Gives the router a chunk, in half of the cases with work done ahead.
fn push(router: &mut Router, chunk: Bytes, random: &mut Random) {
    match router.spent().or_else(|| router.parallel_parse()).filter(|_| random.chance(2)) {
        Some(mut parsed) => {
            parsed.work(&[chunk]);
            router.push_parsed(parsed);
        }
        None => router.push(chunk),
    }
}

/// An earlier value of the refused row may be wrong too.
fn first_of_row(client: &mut Client, table: &Table, router: &Router, error: PgError) -> PgError {
    for conversion in router.unread() {
        let text = String::from_utf8(conversion.value.clone().expect("a value")).expect("valid text");
        let sql = format!("select $1::text::{}", table.type_names[conversion.column]);
        if let Err(earlier) = client.query_one(&sql, &[&text]) {
            return router.refuse_earlier((&Failure::from(&earlier)).into(), &conversion);
        }
    }
    error
}

/// Loads what the datanodes got, checks that each row is where its hash says.
fn load(
    client: &mut Client,
    table: &Table,
    options: &CopyOptions,
    output: Output,
    router: &Router,
    streams: Vec<Vec<u8>>,
) -> Outcome {
    let mut transaction = client.transaction().expect("begin");
    let node_options = if output == Output::Raw { options.to_sql() } else { "(format binary)".to_owned() };
    let mut first_error: Option<(u64, Failure)> = None;
    for (dest, stream) in streams.iter().enumerate() {
        let sql = format!("copy node{}_{dest}.t from stdin {node_options}", table.index);
        let mut savepoint = transaction.transaction().expect("savepoint");
        let result = savepoint.copy_in(&sql).and_then(|mut writer| {
            let is_binary = output == Output::Binary;
            let _ = is_binary.then(|| writer.write_all(&BINARY_HEADER));
            let _ = writer.write_all(stream);
            let _ = is_binary.then(|| writer.write_all(&BINARY_TRAILER));
            writer.finish()
        });
        match result {
            Ok(_) => savepoint.commit().expect("release"),
            Err(error) => {
                let mut failure = Failure::from(&error);
                let context = failure.context.clone().unwrap_or_default();
                let found = router.with_input_line(pgerror::PgError::internal("").context(context), dest);
                let line = router.line_of_error(&found).expect("a known line");
                let text = router.unquoted_line(&found).and_then(|line| router.recent_line(line));
                let found = match text {
                    Some(text) => router.quote_line(found, line, &text),
                    None => found,
                };
                failure.context = Some(found.text(pgerror::field::WHERE).into_owned());
                if first_error.as_ref().is_none_or(|(first, _)| line < *first) {
                    first_error = Some((line, failure));
                }
            }
        }
    }
    if let Some((_, failure)) = first_error {
        return Outcome::Error(failure);
    }
    let nodes = format!(
        "(select t::text row, k, 0 node from node{0}_0.t union all select t::text, k, 1 from node{0}_1.t) r",
        table.index
    );
    let hash = table.key_type().sql_hash("k", "0");
    let sql = format!("select row, node, k is null, ({hash} & 1)::int from {nodes} order by 1");
    let rows = transaction.query(&sql, &[]).expect("rows");
    assert_eq!(rows.len() as u64, router.rows(), "every row was counted");
    for row in &rows {
        let (node, is_null): (i32, bool) = (row.get(1), row.get(2));
        let expected = if is_null { 0 } else { row.get::<_, i32>(3) };
        assert_eq!(node, expected, "the datanode of {}", row.get::<_, String>(0));
    }
    Outcome::Rows(rows.iter().map(|row| row.get(0)).collect())
}

/// Any value's bytes.
#[derive(Debug)]
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(raw.to_vec()))
    }
    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }
    fn accepts(_: &Type) -> bool {
        true
    }
    to_sql_checked!();
}

/// A small generator that gives the same cases everywhere (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// True once in `n` times.
    pub fn chance(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// A value in text form: usual, unusual, and, as trouble, wrong.
pub fn value(random: &mut Random, column: &CopyColumn, trouble: usize) -> Vec<u8> {
    if random.chance(trouble) {
        return random
            .pick(&["", " ", "x", "-", "1.5e", "99999999999999999999", "2024-13-01", "\\", "nul\u{7f}l"])
            .into();
    }
    let integer = |random: &mut Random, max: usize| (random.below(max * 2) as i64 - max as i64).to_string();
    let text = match column.type_oid {
        20 => match random.below(6) {
            0 => random
                .pick(&[
                    "-9223372036854775808",
                    "9223372036854775807",
                    " 12 ",
                    "+5",
                    "0",
                    "-0",
                    "12345678",
                    "1234567890123456",
                    "12345678901234567",
                ])
                .to_owned(),
            1 => integer(random, 1 << 50),
            _ => integer(random, 100_000),
        },
        21 => integer(random, 30_000),
        23 => integer(random, 2_000_000_000),
        26 => random.below(4_000_000_000).to_string(),
        16 => random.pick(&["t", "f", "true", "FALSE", "on", "1", "of", " yes "]).to_owned(),
        700 | 701 => random
            .pick(&["0", "-0", "1.5", "-2.25e10", "NaN", "inf", "-Infinity", "1e30", "3.14159", ".5", "1e-40", " 7 "])
            .to_owned(),
        1082 => match random.below(6) {
            0 => random
                .pick(
                    &[
                        "infinity",
                        "Jan 5, 2020",
                        "20240229",
                        "0099-12-31",
                        "2000-01-01 BC",
                        "epoch",
                        "1999-02-28",
                        "2024-02-30x",
                    ][..7],
                )
                .to_owned(),
            _ => format!("{:04}-{:02}-{:02}", 1 + random.below(9999), 1 + random.below(12), 1 + random.below(28)),
        },
        1083 => random
            .pick(&["00:00", "23:59:59.999999", "12:34:56.7", "24:00:00", "1:02", "040506", "10:20:30 PM", "23:59:60"])
            .to_owned(),
        1114 | 1184 => {
            let day = format!("{:04}-{:02}-{:02}", 1 + random.below(9999), 1 + random.below(12), 1 + random.below(28));
            let clock = random.pick(&[
                "",
                " 00:00:00",
                "T23:59:59.5",
                " 12:34",
                " 01:02:03.123456",
                " 01:02:03.1234567",
                " 7:00",
            ]);
            let zone = random.pick(&["", "+00", "-08", "+05:30", "-0930", "Z", " PST"]);
            if random.chance(12) { "-infinity".to_owned() } else { format!("{day}{clock}{zone}") }
        }
        1700 => {
            let (whole, fraction) = (random.below(100_000), random.below(1000));
            random.pick(&[
                format!("{whole}"),
                format!("-{whole}.{fraction}"),
                format!("{fraction}.00"),
                ".5".into(),
                "5.".into(),
                "1e3".into(),
                "NaN".into(),
                "-0.00".into(),
                "000123.4".into(),
                " 8 ".into(),
                format!("{fraction}.125"),
                "10000".into(),
                "0.0001".into(),
            ])
        }
        2950 => random
            .pick(&[
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
                "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
                "00000000-0000-0000-0000-000000000000",
            ])
            .to_owned(),
        114 | 3802 => {
            let word = random.pick(&["a", "say \\\"hi\\\"", "grün", "x,y", "back\\\\slash", "\\u00e9"]);
            let entry = format!("{{\"name\": \"{word}\", \"n\": {}}}", random.below(100_000));
            let list = vec![entry; 1 + random.below(30)].join(if random.chance(3) { ",\n " } else { ", " });
            random.pick(&[
                format!("[{list}]"),
                format!(" {{\"{word}\":null}} "),
                "7".into(),
                "\"\"".into(),
                "true".into(),
            ])
        }
        17 => random.pick(&["", "plain", "\\x", "\\xDEADbeef", "a\\\\b", "\\001", "\\x0 1"]).to_owned(),
        18 => random.pick(&["", "a", "é", "\\", "ab"]).to_owned(),
        1042 | 1043 => random
            .pick(
                &["", "a", "äöü", "ab ", "abc    ", "   ", "日本", "ab,c", "x\ny", "toolong"]
                    [..if trouble > 1000 { 9 } else { 10 }],
            )
            .to_owned(),
        _ => {
            let piece = random.pick(&[
                "",
                "a",
                "grün",
                "日本語 text",
                "a,b",
                "tab\there",
                "line\nbreak",
                "cr\rhere",
                "say \"hi\"",
                "it's",
                "back\\slash",
                "\\.",
                "\\N",
                "NULL",
                "🐘",
                "0",
            ]);
            piece.repeat(1 + if random.chance(9) { random.below(30) } else { random.below(2) })
        }
    };
    text.into_bytes()
}
