//! The hash of every key type, bit for bit against a live server: from binary, from text, and through the SQL
//! expression that audits use.

mod common;

use placement::{KeyHasher, KeyType, hash_binary, hash_text, modulo_bucket, sql_bucket};
use postgres::Client;
use postgres::types::{FromSql, Type};

const SEEDS: [i64; 4] = [0, 1, -1, 0x7A5B_2236_7996_DCFD];

/// Any value's bytes as the server sent them.
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(raw.to_vec()))
    }
    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Type, values as SQL text literals, and a query of random values of that type.
const CASES: &[(&str, &[&str], &str)] = &[
    ("bool", &["t", "f", "true", "no", "ON", "0"], "select i % 2 = 0 from generate_series(1, 2) i"),
    ("\"char\"", &["", "a", "\u{e9}", " "], "select chr(i)::\"char\" from generate_series(1, 255) i"),
    ("name", &["", "x", "grün", "a name with blanks "], "select md5(i::text)::name from generate_series(1, 200) i"),
    (
        "bytea",
        &["\\x", "\\x00ff", "abc", "\\xDEADbeef"],
        "select decode(repeat(md5(i::text), i % 4), 'hex') from generate_series(1, 200) i",
    ),
    (
        "int2",
        &["0", "-1", "-32768", "32767", " 7 ", "+7"],
        "select (random() * 60000 - 30000)::int2 from generate_series(1, 300)",
    ),
    (
        "int4",
        &["0", "-1", "-2147483648", "2147483647", "\t7\n"],
        "select (random() * 4e9 - 2e9)::int4 from generate_series(1, 300)",
    ),
    (
        "int8",
        &["0", "-1", "-9223372036854775808", "9223372036854775807", "4294967296", "00012"],
        "select ((random() - 0.5) * 1.8e19)::int8 from generate_series(1, 300)",
    ),
    ("oid", &["0", "4294967295", "16384"], "select (random() * 4e9)::int8::oid from generate_series(1, 200)"),
    (
        "text",
        &["", " ", "grün", "日本語", "a\nb"],
        "select repeat('aä', i % 40) || substr(md5(i::text), 1, i % 13) from generate_series(1, 600) i",
    ),
    ("varchar", &["", "x  "], "select md5(i::text)::varchar from generate_series(1, 50) i"),
    (
        "bpchar",
        &["", "   ", "x", "x   ", "grün ", " x"],
        "select (md5(i::text) || repeat(' ', i % 9))::bpchar from generate_series(1, 100) i",
    ),
    (
        "char(25)",
        &["DELIVER IN PERSON"],
        "select substr(md5(i::text), 1, i % 25)::char(25) from generate_series(1, 100) i",
    ),
    (
        "float4",
        &["0", "-0", "NaN", "Infinity", "-Infinity", "1.1", "-1e-30", "3.4028235e38", "1e-40"],
        "select ((random() - 0.5) * 1e9)::float4 from generate_series(1, 200)",
    ),
    (
        "float8",
        &["0", "-0", "NaN", "Infinity", "-Infinity", "1.1", "2.5e-308", "1e-310", "1.7976931348623157e308"],
        "select (random() - 0.5) * 1e18 from generate_series(1, 200)",
    ),
    (
        "money",
        &["0", "-12.34", "92233720368547758.07"],
        "select ((random() - 0.5) * 1e9)::numeric::money from generate_series(1, 100)",
    ),
    (
        "date",
        &[
            "2000-01-01",
            "1999-12-31",
            "0001-01-01",
            "9999-12-31",
            "2024-02-29",
            "1900-02-28",
            "4713-01-01 BC",
            "infinity",
            "-infinity",
            "5874897-12-31",
            "1970-01-01",
        ],
        "select date '0001-01-01' + (random() * 3652000)::int from generate_series(1, 1000)",
    ),
    (
        "time",
        &["00:00:00", "23:59:59.999999", "12:34", "24:00:00", "01:02:03.5"],
        "select make_time((random() * 23)::int, (random() * 59)::int, random() * 59) from generate_series(1, 200)",
    ),
    (
        "timetz",
        &["00:00:00+00", "23:59:59.999999-08", "12:34:56+05:30"],
        "select make_time((random() * 23)::int, 5, random() * 59)::timetz from generate_series(1, 100)",
    ),
    (
        "timestamp",
        &[
            "2000-01-01 00:00:00",
            "1999-12-31T23:59:59.999999",
            "2024-02-29",
            "infinity",
            "-infinity",
            "0044-03-15 12:00:00 BC",
            "1969-07-20 20:17:40.5",
        ],
        "select timestamp '0001-01-01' + random() * interval '9000 years' from generate_series(1, 300)",
    ),
    (
        "timestamptz",
        &[
            "2000-01-01 00:00:00+00",
            "1999-12-31 23:59:59.999999-08",
            "2024-02-29 10:00:00+05:30",
            "2024-02-29 10:00:00-0930",
            "infinity",
            "2024-02-29 10:00:00",
        ],
        "select timestamptz '0001-01-01' + random() * interval '9000 years' from generate_series(1, 300)",
    ),
    (
        "interval",
        &[
            "0",
            "1 month",
            "30 days",
            "720:00:00",
            "-1 year 3 days -04:05:06.789",
            "178000000 years",
            "PT0S",
            "P1Y2M-3DT4H5M6.5S",
            "P-1Y-2M3DT-4H-5M-6.789012S",
            "PT-0.000001S",
            "PT2562047788H54.775807S",
            "P30D",
            "PT720H",
        ],
        "select make_interval(years => (random() * 100)::int, days => (random() * 1000 - 500)::int, secs => random() * 1e6) from generate_series(1, 200)",
    ),
    (
        "numeric",
        &[
            "0",
            "0.000",
            "-0",
            "1",
            "1.00",
            "1.",
            ".5",
            "-1",
            "10000",
            "100000000",
            "0.0001",
            "0.00001",
            "1e10",
            "NaN",
            "Infinity",
            "-Infinity",
            "123456789012345678901234567890.123456789",
            "00012.3400",
        ],
        "select ((random() - 0.5) * 10::numeric ^ (random() * 40 - 20)::int)::numeric from generate_series(1, 500)",
    ),
    (
        "uuid",
        &[
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "A0EEBC999C0B4EF8BB6D6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
        ],
        "select gen_random_uuid() from generate_series(1, 100)",
    ),
];

fn key_type(client: &mut Client, type_name: &str) -> KeyType {
    let row = client.query_one(&format!("select {}::regtype::oid", quote(type_name)), &[]).unwrap();
    KeyType::from_oid(row.get(0)).unwrap_or_else(|| panic!("{type_name} is a key type"))
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[test]
fn hashes_equal_the_server_s() {
    let server = common::Server::start("hash", &[]);
    let mut client = server.connect();
    let mut compared = 0;
    for (type_name, _, random) in CASES {
        compared += compare_random(&mut client, type_name, random);
    }
    assert!(compared > 4000, "only {compared} values compared");
    for (type_name, texts, _) in CASES {
        let known = compare_texts(&mut client, type_name, texts);
        let ours_never = matches!(*type_name, "money" | "timetz");
        assert!(known > 0 || ours_never, "no text of {type_name} was read without PostgreSQL");
    }
    compare_two_columns(&mut client);
    compare_nulls(&mut client);
    compare_modulo(&mut client);
    partitions_agree(&mut client);
}

/// Binary values, and their canonical text, of the random query: the hash with every seed.
fn compare_random(client: &mut Client, type_name: &str, random: &str) -> usize {
    let key = key_type(client, type_name);
    for seed in SEEDS {
        let hash = key.sql_hash("v", &format!("{seed}::bigint"));
        let rows = client.query(&format!("select v, v::text, {hash} from ({random}) r(v)"), &[]).unwrap();
        for row in &rows {
            let (Raw(bytes), text, expected): (Raw, String, i64) = (row.get(0), row.get(1), row.get(2));
            assert_eq!(hash_binary(key, &bytes, seed as u64), Ok(expected as u64), "{type_name} {text} seed {seed}");
            if let Some(ours) = hash_text(key, text.as_bytes(), seed as u64) {
                assert_eq!(ours, expected as u64, "text {type_name} {text} seed {seed}");
            }
        }
        if seed == SEEDS[SEEDS.len() - 1] {
            return rows.len();
        }
    }
    0
}

/// Hand-written spellings; returns how many of them needed no help.
fn compare_texts(client: &mut Client, type_name: &str, texts: &[&str]) -> usize {
    let key = key_type(client, type_name);
    let mut known = 0;
    for text in texts {
        let value = format!("{}::{type_name}", quote(text));
        let hash = key.sql_hash(&value, "42::bigint");
        let row = client.query_one(&format!("select {value}, {hash}"), &[]).unwrap_or_else(|e| panic!("{text}: {e}"));
        let (Raw(bytes), expected): (Raw, i64) = (row.get(0), row.get(1));
        assert_eq!(hash_binary(key, &bytes, 42), Ok(expected as u64), "{type_name} {text}");
        if let Some(ours) = hash_text(key, text.as_bytes(), 42) {
            assert_eq!(ours, expected as u64, "text {type_name} {text}");
            known += 1;
        }
    }
    known
}

fn compare_two_columns(client: &mut Client) {
    let sql = KeyType::Text.sql_hash("b", &KeyType::Int4.sql_hash("a", "0"));
    let rows = client.query(
        &format!("select a, b, {sql} from (select i, md5(i::text) from generate_series(-99, 99) i) r(a, b)"),
        &[],
    );
    for row in rows.unwrap() {
        let (a, b, expected): (i32, String, i64) = (row.get(0), row.get(1), row.get(2));
        let mut key = KeyHasher::new();
        key.binary(KeyType::Int4, Some(&a.to_be_bytes())).unwrap();
        key.text(KeyType::Text, Some(b.as_bytes())).unwrap();
        assert_eq!(key.hash(), expected as u64);
        assert_eq!(i64::from(key.bucket()), expected & 4095);
    }
}

/// Keys of three columns, any of which may be NULL.
fn compare_nulls(client: &mut Client) {
    let bucket = sql_bucket(&[(KeyType::Int4, "a"), (KeyType::Date, "d"), (KeyType::Text, "t")]);
    let values = "select case when i & 1 = 0 then i end, case when i & 2 = 0 then date '2000-01-01' + i end,
                  case when i & 4 = 0 then md5(i::text) end from generate_series(0, 63) i";
    let rows = client.query(&format!("select a, d, t, {bucket} from ({values}) r(a, d, t)"), &[]).unwrap();
    assert_eq!(rows.len(), 64);
    for row in rows {
        let mut key = KeyHasher::new();
        for (index, key_type) in [KeyType::Int4, KeyType::Date, KeyType::Text].into_iter().enumerate() {
            let value: Option<Raw> = row.get(index);
            key.binary(key_type, value.as_ref().map(|raw| &raw.0[..])).unwrap();
        }
        assert_eq!(i64::from(key.bucket()), row.get::<_, i64>(3));
    }
}

fn compare_modulo(client: &mut Client) {
    for (type_name, texts, random) in CASES {
        let key = key_type(client, type_name);
        let Some(sql) = key.sql_modulo_bucket("v") else { continue };
        let listed: Vec<String> = texts.iter().map(|t| format!("select {}::{type_name}", quote(t))).collect();
        let union = format!("{random} union all {}", listed.join(" union all "));
        for row in client.query(&format!("select v, ({sql})::int8 from ({union}) r(v)"), &[]).unwrap() {
            let (Raw(bytes), expected): (Raw, i64) = (row.get(0), row.get(1));
            let value = key.modulo_value(&bytes).expect("has a modulo").expect("valid binary");
            assert_eq!(i64::from(modulo_bucket(value)), expected, "{type_name} {value}");
        }
    }
}

/// Types of one class must meet in one bucket, and PostgreSQL's own partitioning must be built from the same hash.
fn partitions_agree(client: &mut Client) {
    for (left, right) in [("int2", "int8"), ("int4", "int8"), ("name", "text"), ("float4", "float8")] {
        let (a, b) = (key_type(client, left), key_type(client, right));
        assert_eq!(a.hash_class(), b.hash_class());
        let same =
            format!("{} = {}", a.sql_hash(&format!("'7'::{left}"), "5"), b.sql_hash(&format!("'7'::{right}"), "5"));
        assert!(client.query_one(&format!("select {same}"), &[]).unwrap().get::<_, bool>(0), "{left} {right}");
    }
    const HASH_PARTITION_SEED: u64 = 0x7A5B_2236_7996_DCFD;
    client.batch_execute("create table parent(k int8) partition by hash (k)").unwrap();
    for value in -50_i64..50 {
        let hash = hash_binary(KeyType::Int8, &value.to_be_bytes(), HASH_PARTITION_SEED).unwrap();
        // hash_combine64 of PostgreSQL's hashfn.h with a first operand of zero.
        let row_hash = hash.wrapping_add(0x49a0_f4dd_15e5_a8e3);
        let fits = "select satisfies_hash_partition('parent'::regclass, 4096, $1, $2::int8)";
        let remainder = (row_hash % 4096) as i32;
        assert!(client.query_one(fits, &[&remainder, &value]).unwrap().get::<_, bool>(0), "{value}");
    }
}
