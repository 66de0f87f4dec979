//! Random COPY FROM data, options and chunkings: once straight into PostgreSQL, once through the router into two tables
//! that play the datanodes. The rows must be the same, or else the error: SQLSTATE, message, detail, hint and context.
//!
//! `LOXO_FUZZ_CASES` makes it longer. Each run tries new cases; `LOXO_FUZZ_SEED`, which is printed, repeats one.

#[path = "../../placement/tests/common/mod.rs"]
mod common;
mod drive;

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use copyfmt::{CopyColumn, CopyOptions, Format, Header, OptionValue, Output};
use drive::{Failure, Outcome, Random, Table};
use postgres::Client;

/// Tables whose first column is the distribution key.
const TABLES: &[&[(&str, &str)]] = &[
    &[("k", "int8"), ("a", "text"), ("d", "date")],
    &[("k", "int4"), ("v", "varchar(5)"), ("c", "char(4)"), ("b", "bool")],
    &[("k", "text"), ("n", "numeric(8,2)"), ("x", "numeric"), ("s", "int2")],
    &[("k", "date"), ("ts", "timestamp"), ("tz", "timestamptz"), ("w", "time"), ("p", "timestamp(2)")],
    &[("k", "numeric(6,1)"), ("f", "float8"), ("g", "float4"), ("u", "uuid"), ("y", "bytea")],
    &[("k", "varchar(3)"), ("o", "oid"), ("q", "\"char\""), ("m", "name")],
    &[("k", "text")],
    &[("k", "int8"), ("j", "jsonb"), ("d", "date"), ("i", "json"), ("s", "int2")],
];

fn number(variable: &str) -> Option<u64> {
    Some(std::env::var(variable).ok()?.parse().expect("a number"))
}

/// The first case's seed; a fresh one if none is given.
fn first_seed() -> u64 {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_nanos() as u64;
    let seed = number("LOXO_FUZZ_SEED").unwrap_or_else(|| clock() % 1_000_000_000);
    println!("LOXO_FUZZ_SEED={seed}");
    seed
}

#[test]
fn copy_equals_postgresql() {
    let (cases, first_seed) = (number("LOXO_FUZZ_CASES").unwrap_or(4000), first_seed());
    let server = common::Server::start("copyfmt-differential", &["timezone=Asia/Kathmandu"]);
    let mut client = server.connect();
    let tables: Vec<Table> =
        TABLES.iter().enumerate().map(|(i, columns)| Table::create(&mut client, i, columns)).collect();
    let (mut loaded, mut refused, mut conversions) = (0, 0, 0);
    for seed in first_seed..first_seed + cases {
        match run_case(&mut client, &tables, seed) {
            Ok((Outcome::Rows(rows), asked)) => {
                loaded += usize::from(!rows.is_empty());
                conversions += asked;
            }
            Ok((Outcome::Error(_), _)) => refused += 1,
            Err(difference) => panic!("LOXO_FUZZ_SEED={seed} LOXO_FUZZ_CASES=1\n{difference}"),
        }
    }
    println!("{loaded} cases loaded, {refused} refused, {conversions} values converted by PostgreSQL");
    assert!(cases < 1000 || (loaded > 100 && refused > 100 && conversions > 100), "the cases lack variety");
}

/// Binary data that PostgreSQL made of values without type modifiers, then cut, lengthened or overwritten.
#[test]
fn binary_copy_equals_postgresql() {
    let server = common::Server::start("copyfmt-binary", &[]);
    let mut client = server.connect();
    let tables: Vec<Table> =
        TABLES.iter().enumerate().map(|(i, columns)| Table::create(&mut client, i, columns)).collect();
    let options = CopyOptions::new(Format::Binary);
    let (mut loaded, mut refused, mut conversions) = (0, 0, 0);
    let (cases, first_seed) = (number("LOXO_FUZZ_CASES").unwrap_or(1500), first_seed());
    for seed in first_seed..first_seed + cases {
        let mut random = Random::new(seed);
        let table = &tables[random.below(tables.len())];
        let Some(mut data) = drive::binary_data(&mut client, table, &mut random) else { continue };
        for _ in 0..random.pick(&[0, 0, 1, 2]) {
            let at = random.below(data.len());
            match random.below(4) {
                0 => data.truncate(at),
                1 => data.insert(at, random.pick(&[0, 1, 0xFF])),
                2 => data[at] = random.pick(&[0, 1, 0x7F, 0xFF]),
                _ => data.extend_from_slice(b"\xff\xff"),
            }
            if data.is_empty() {
                break;
            }
        }
        let direct = drive::direct(&mut client, table, "(format binary)", &data);
        let (ours, asked) = drive::routed(&mut client, table, options.clone(), Output::Binary, &data, &mut random);
        // Damage may make two errors in one row; then a value's may come behind the router's, which is about lengths.
        let same_row = matches!((&direct, &ours), (Outcome::Error(a), Outcome::Error(b)) if a.line().is_some() && a.line() == b.line());
        assert!(
            same_row || direct == ours,
            "{direct:?}\n{ours:?}\nLOXO_FUZZ_SEED={seed} LOXO_FUZZ_CASES=1, columns {:?}, data {data:02x?}",
            table.columns
        );
        conversions += asked;
        match direct {
            Outcome::Rows(rows) => loaded += usize::from(!rows.is_empty()),
            Outcome::Error(_) => refused += 1,
        }
    }
    println!("{loaded} binary cases loaded, {refused} refused, {conversions} values converted by PostgreSQL");
    assert!(cases < 1000 || (loaded > 100 && refused > 100 && conversions > 10), "the cases lack variety");
}

/// What the crate's page says about errors that a datanode finds when it stores a row.
#[test]
fn contexts_of_row_errors() {
    let server = common::Server::start("copyfmt-contexts", &[]);
    let mut client = server.connect();
    client.batch_execute("create table t (k int4 unique, v int4 not null check (v < 5))").expect("create a table");
    let tuple = |k: i32, v: Option<i32>| {
        let value = v.map_or(vec![0xFF; 4], |v| [&[0, 0, 0, 4], &v.to_be_bytes()[..]].concat());
        [&[0, 2, 0, 0, 0, 4], &k.to_be_bytes()[..], &value].concat()
    };
    for (text, rows, quoted) in [
        ("1,1\n2,\n", [(1, Some(1)), (2, None)], ": \"2,\""),
        ("1,1\n2,9\n", [(1, Some(1)), (2, Some(9))], ": \"2,9\""),
        ("1,1\n1,2\n", [(1, Some(1)), (1, Some(2))], ""),
    ] {
        let tuples: Vec<u8> = rows.iter().flat_map(|(k, v)| tuple(*k, *v)).collect();
        let binary = [&copyfmt::BINARY_HEADER[..], &tuples, &copyfmt::BINARY_TRAILER].concat();
        let mut context = |options: &str, data: &[u8]| {
            let mut transaction = client.transaction().expect("begin");
            let mut writer = transaction.copy_in(&format!("copy t from stdin (format {options})")).expect("start");
            let _ = std::io::Write::write_all(&mut writer, data);
            Failure::from(&writer.finish().expect_err("a bad row")).context
        };
        assert_eq!(context("csv", text.as_bytes()), Some(format!("COPY t, line 2{quoted}")));
        assert_eq!(context("binary", &binary), Some("COPY t, line 2".to_owned()));
    }
}

fn run_case(client: &mut Client, tables: &[Table], seed: u64) -> Result<(Outcome, usize), String> {
    let mut random = Random::new(seed);
    let table = &tables[random.below(tables.len())];
    let pairs = options(&mut random, &table.columns);
    let options = match CopyOptions::from_pairs(&pairs, true, table.server_version) {
        Ok(options) => options,
        Err(error) => {
            let direct = drive::direct_refusal(client, table, &drive::sql_of(&pairs));
            let ours = Outcome::Error(Failure::from(&error));
            return if direct == ours {
                Ok((ours, 0))
            } else {
                Err(format!("options {pairs:?}\n{direct:?}\n{ours:?}"))
            };
        }
    };
    let data = data(&mut random, &options, &table.columns);
    let direct = drive::direct(client, table, &drive::sql_of(&pairs), &data);
    let output = if random.chance(3) { Output::Raw } else { Output::Binary };
    let (ours, asked) = drive::routed(client, table, options, output, &data, &mut random);
    if direct == ours {
        return Ok((direct, asked));
    }
    let mut report = format!("output {output:?}, options {pairs:?}, columns {:?}\n", table.columns);
    let _ = write!(report, "data {:?}\ndirect {direct:#?}\nrouted {ours:#?}", String::from_utf8_lossy(&data));
    Err(report)
}

fn options(random: &mut Random, columns: &[CopyColumn]) -> Vec<(String, OptionValue)> {
    let mut pairs = Vec::new();
    // Usually all values are right ones: those are the first of each list.
    let sound = !random.chance(6);
    let mut add = |name: &str, value: OptionValue| pairs.push((name.to_owned(), value));
    let text = |text: &str| OptionValue::Text(text.to_owned());
    let csv = random.chance(2);
    if csv {
        add("format", text("csv"));
    }
    let of = |random: &mut Random, right: usize, values: &[&str]| {
        text(values[random.below(if sound { right } else { values.len() })])
    };
    if random.chance(4) {
        let right = if csv { 9 } else { 6 };
        add(
            "delimiter",
            of(random, right, &["|", ";", "\t", ":", "-", " ", "0", "x", ",", "\\", "\n", "ab", "\"", "~"]),
        );
    }
    if random.chance(4) {
        add("null", of(random, 7, &["", "NULL", "0", "\\N", "a", "1", "2024-01-01", "x\"", "a,b", "-", "\r"]));
    }
    if random.chance(4) {
        let values = [OptionValue::Boolean(true), OptionValue::None, text("match"), text("off"), text("odd")];
        add("header", values[random.below(if sound { 4 } else { 5 })].clone());
    }
    if csv && random.chance(4) {
        add("quote", of(random, 5, &["'", "\"", "q", "\\", "~", "1", ",", "''"]));
    }
    if csv && random.chance(4) {
        add("escape", of(random, 6, &["\\", "\"", "e", "'", "~", ".", ""]));
    }
    for name in ["force_null", "force_not_null", "force_quote"] {
        if random.chance(if csv && name != "force_quote" { 8 } else { 300 }) {
            let names: Vec<String> = columns.iter().filter(|_| random.chance(2)).map(|c| c.name.clone()).collect();
            if !names.is_empty() {
                add(name, OptionValue::List(names));
            }
        }
    }
    if !sound && random.chance(10) {
        add("freeze", text("maybe"));
    }
    pairs
}

/// Lines that are mostly right.
fn data(random: &mut Random, options: &CopyOptions, columns: &[CopyColumn]) -> Vec<u8> {
    let mut data = Vec::new();
    let eol: &[u8] = random.pick(&[&b"\n"[..], b"\n", b"\n", b"\r\n", b"\r"]);
    // The rate of trouble differs between cases, so that some get through.
    let trouble = random.pick(&[1_000_000, 1_000_000, 300, 60, 12]);
    if options.header != Header::No {
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        let delimiter = char::from(options.delimiter).to_string();
        data.extend_from_slice(names.join(&delimiter).as_bytes());
        data.extend_from_slice(eol);
    }
    let lines = random.below(12);
    for line in 0..lines {
        let count = if random.chance(trouble) { random.below(columns.len() + 2) } else { columns.len() };
        for index in 0..count {
            if index > 0 {
                data.push(options.delimiter);
            }
            let column = &columns[index.min(columns.len() - 1)];
            field(random, options, column, trouble, &mut data);
        }
        if random.chance(trouble) {
            data.extend_from_slice(random.pick(&[
                &b"\\."[..],
                b"\\.\n",
                b"\\.\r\n",
                b"\r",
                b"\n",
                b"\xff",
                b"\0",
                b"\\",
                b"\"",
                b"\xe4\xb8",
            ]));
        }
        if line + 1 < lines || random.chance(2) {
            data.extend_from_slice(if random.chance(trouble) { b"\r\n" } else { eol });
        }
        if random.chance(trouble) {
            data.extend_from_slice(random.pick(&[&b"\\."[..], b"\\.\n", b"\\.\r\n", b"\\.x", b"\n", b"\\"]));
        }
    }
    data
}

fn field(random: &mut Random, options: &CopyOptions, column: &CopyColumn, trouble: usize, data: &mut Vec<u8>) {
    if random.chance(8) {
        data.extend_from_slice(options.null.as_bytes());
        return;
    }
    let value = drive::value(random, column, trouble);
    match options.format {
        Format::Csv => {
            let special = value.iter().any(|b| [options.delimiter, options.quote, b'\n', b'\r'].contains(b));
            if !special && !random.chance(3) || random.chance(trouble) {
                data.extend_from_slice(&value);
                return;
            }
            data.push(options.quote);
            for byte in value {
                if byte == options.quote || byte == options.escape {
                    data.push(options.escape);
                }
                data.push(byte);
            }
            if !random.chance(trouble * 4) {
                data.push(options.quote);
            }
        }
        _ => {
            for byte in value {
                if byte == options.delimiter
                    || matches!(byte, b'\n' | b'\r' | b'\\')
                    || (byte.is_ascii() && random.chance(60))
                {
                    if !random.chance(trouble) {
                        data.push(b'\\');
                    }
                    match byte {
                        b'\n' => data.push(b'n'),
                        b'\r' => data.push(b'r'),
                        byte if random.chance(4) => data.extend_from_slice(format!("{byte:03o}").as_bytes()),
                        byte if random.chance(4) => data.extend_from_slice(format!("x{byte:02x}").as_bytes()),
                        byte => data.push(byte),
                    }
                } else {
                    data.push(byte);
                }
            }
        }
    }
}
