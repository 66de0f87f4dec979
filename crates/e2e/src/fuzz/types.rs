//! The types of columns and the encodings of inputs, with pieces that make good and bad data.

/// A type with spellings of its values; some are unusual on purpose.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Empty: any text.
    pub(super) good: &'static [&'static str],
    /// Refused, or read in a way that one would not think of.
    pub(super) bad: &'static [&'static str],
    /// May be a distribution key.
    pub(super) is_key: bool,
}

const fn key(name: &'static str, good: &'static [&'static str], bad: &'static [&'static str]) -> Kind {
    Kind { name, good, bad, is_key: true }
}

const fn plain(name: &'static str, good: &'static [&'static str], bad: &'static [&'static str]) -> Kind {
    Kind { name, good, bad, is_key: false }
}

/// Makes the types that are not built in; every case may use them.
pub(super) const TYPES_SQL: &[&str] = &[
    "CREATE TYPE fuzz_mood AS ENUM ('sad', 'ok', 'very happy')",
    "CREATE TYPE fuzz_pair AS (a int, b text)",
    "CREATE DOMAIN fuzz_positive AS int CHECK (VALUE > 0)",
    "CREATE DOMAIN fuzz_code AS varchar(5) NOT NULL DEFAULT 'x'",
];

pub(super) const KINDS: &[Kind] = &[
    key(
        "int4",
        &["0", "1", "-7", "2147483647", "-2147483648", "+5", " 12", "13 ", "007"],
        &["2147483648", "-2147483649", "1.0", "1e3", "0x10", "1_000", "--1", "", " ", "1 2"],
    ),
    key(
        "int8",
        &["0", "42", "-1", "9223372036854775807", "-9223372036854775808", " 99 ", "+1", "4294967296"],
        &["9223372036854775808", "-9223372036854775809", "12345678901234567890123", "1,000", "0b1"],
    ),
    key("int2", &["0", "-32768", "32767", "12"], &["32768", "-32769", "70000"]),
    key("oid", &["0", "4294967295", "17", " 3"], &["4294967296", "-4294967296", "x"]),
    key("bool", &["t", "f", "true", "no", "ON", "0", " yes ", "of", "tru"], &["o", "2", "truee", "wahr"]),
    key("\"char\"", &["a", "", "\\101"], &["ab", "\u{e4}"]),
    key("name", &["n", "a name", "0123456789012345678901234567890123456789012345678901234567890123456789"], &[]),
    key(
        "date",
        &["2024-02-29", "1999-12-31", "infinity", "0044-03-15 BC", "20200101", "Jan 5 2021", "99999-01-01"],
        &[
            "31-Feb",
            "31-Feb-2024",
            "2023-02-29",
            "2024-13-01",
            "0000-01-01",
            "10/20/30/40",
            "5874898-01-01",
            "2024-00-10",
        ],
    ),
    key(
        "timestamp",
        &["2024-02-29 12:34:56", "1970-01-01 00:00:00.000001", "-infinity", "2020-01-01T01:02:03"],
        &["2024-02-29 25:00:00", "2024-02-30 00:00", "294277-01-01", "2024-01-01 12:60", "2024-01-01 Nowhere/Zone"],
    ),
    key("timestamp(2)", &["2024-02-29 12:34:56.789", "1970-01-01", "epoch"], &["12:30"]),
    key(
        "timestamptz",
        &["2024-02-29 12:34:56+02", "epoch", "2020-06-01 00:00 America/New_York", "2020-01-01"],
        &["2024-02-29 12:34:56+99", "2020-06-01 00:00 Atlantis/City", "yesterdayish"],
    ),
    key("timestamptz(0)", &["2024-02-29 12:34:56.5+02", "2020-01-01 00:00:00.4"], &["2024-02-29 24:00:01"]),
    key("time", &["12:34:56.789", "24:00:00", "00:00", "03:00 PM"], &["3 PM", "24:00:01", "12:61", "12:00:61"]),
    key("time(1)", &["12:34:56.789", "23:59:59.99"], &["25:00"]),
    key("timetz", &["12:34:56.789+02", "00:00-05:30", "24:00:00 UTC"], &["12:00+20:00", "12:00 America/New_York"]),
    key(
        "interval",
        &["1 day", "1 year 2 mons", "PT36H", "-00:00:01.5", "3 weeks ago", "1-2"],
        &["1 fortnite", "9999999999 years", "P1", "1:2:3:4"],
    ),
    key("interval day to second(1)", &["1 12:34:56.789", "36:00"], &["5 lightyears"]),
    key(
        "numeric",
        &["0", "1.50", "-12345678901234567890.123", "NaN", "1e10", ".5", "00.100", "Infinity"],
        &["1.2.3", "1e400000", "--5", "1e", "0x1", "1 000"],
    ),
    key("numeric(8,2)", &["1.005", "-999999.99", "0", "12345.6", "NaN"], &["999999.995", "1234567", "Infinity"]),
    key("numeric(3,-2)", &["12345", "99949", "-50"], &["99950", "123456"]),
    key("numeric(2,4)", &["0.0012", "0.00994"], &["0.01", "1"]),
    key(
        "float8",
        &["0", "-0", "1.5", "1e300", "NaN", "-Infinity", "0.1", " 7 "],
        &["1e400", "1e-400", "1.5x", "", "0x"],
    ),
    key("float4", &["0.1", "3.4e38", "1e-45", "7"], &["3.5e38", "1e-50", "nano"]),
    key("money", &["1", "$2.50", "-3.999", "(4)"], &["1e5", "99999999999999999999", "2 eur"]),
    key(
        "uuid",
        &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "{A0EEBC999C0B4EF8BB6D6BB9BD380A12}"],
        &[
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1g",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a12",
        ],
    ),
    key("bytea", &["\\x00ff", "\\x", "abc", "\\\\000\\\\\\\\", "\\x 01 02"], &["\\x0", "\\x0g", "\\\\9", "\\\\400"]),
    key("text", &[], &[]),
    key("varchar(12)", &[], &["much longer than twelve"]),
    key("char(9)", &[], &["longer than nine"]),
    plain(
        "json",
        &["{\"a\": [1, 2, {\"b\": null}]}", " 1 ", "\"s\"", "[]", "{\"a\":1,\"a\":2}"],
        &["{a: 1}", "[1,", "", "nul", "{\"a\": \"\\u12\"}", "01", "{\"k\": 1} x"],
    ),
    plain(
        "jsonb",
        &["{\"a\": [1, 2, {\"b\": null}]}", "1", "\"s\"", "[]"],
        &["'x'", "{\"a\" 1}", "\"\\u0000\"", "[1}"],
    ),
    plain(
        "int4[]",
        &["{}", "{1,NULL,3}", "{{1,2},{3,4}}", "[0:1]={7,8}"],
        &["{1,a}", "{1", "{{1},{2,3}}", "1,2", "[1:3]={1}"],
    ),
    plain("text[]", &["{}", "{a,\"b,c\",NULL,\"NULL\"}", "{\"\"}"], &["{\"a}", "{a}}", "{,}"]),
    plain("varchar(3)[]", &["{abc,d}"], &["{abcd}"]),
    plain("numeric(4,1)[]", &["{1.25,NaN}"], &["{12345}"]),
    plain("fuzz_mood", &["sad", "ok", "very happy"], &["glad", "SAD", ""]),
    plain("fuzz_pair", &["(1,x)", "(,)", "(2,\"a,b\")"], &["(1)", "(1,2,3)", "(x,y)", "1,2", "(1,\"x)"]),
    plain("fuzz_positive", &["1", " 5"], &["0", "-3", "x", "99999999999"]),
    plain("fuzz_code", &["abc", "", "12345  "], &["123456"]),
    plain("int4range", &["[1,5)", "(,)", "empty", "[3,3]"], &["[5,1]", "[1,5", "[a,b]", "(1)"]),
    plain("numrange", &["[1.5,2.5]", "empty"], &["[2,1]"]),
    plain("daterange", &["[2020-01-01,2020-12-31]"], &["[2020-02-31,)"]),
    plain("int4multirange", &["{}", "{[1,3),[5,7)}"], &["{[1,3)", "[1,2)"]),
    plain("inet", &["10.0.0.1", "::1", "192.168.0.0/16"], &["10.0.0.256", "1.2.3.4/33", "zz::"]),
    plain("cidr", &["10.0.0.0/8", "2001:db8::/32"], &["10.0.0.1/8", "x"]),
    plain("macaddr", &["08:00:2b:01:02:03", "0800.2b01.0203"], &["08:00:2b:01:02", "g8:00:2b:01:02:03"]),
    plain("macaddr8", &["08:00:2b:01:02:03:04:05"], &["08:00"]),
    plain("point", &["(1,2)", "1.5, -3"], &["(1)", "(1,2", "x,y"]),
    plain("box", &["(1,2),(3,4)"], &["(1,2)", "1"]),
    plain("lseg", &["[(0,0),(1,1)]"], &["[(0,0)]"]),
    plain("line", &["{1,-1,0}"], &["{0,0,1}", "[(1,1),(1,1)]"]),
    plain("path", &["[(0,0),(1,1)]", "((0,0),(1,1))"], &["[(0,0)"]),
    plain("polygon", &["((0,0),(1,1),(1,0))"], &["((0,0),(1,1)"]),
    plain("circle", &["<(0,0),5>"], &["<(0,0),-5>", "<0>"]),
    plain("bit(5)", &["10101", "x1f"], &["1010", "101010", "10201"]),
    plain("bit varying(5)", &["", "101"], &["101010", "2"]),
    plain("tsvector", &["a:1 b:2A", "'it''s'"], &["a:x", "'open", "a:1Z"]),
    plain("tsquery", &["a & b", "!x"], &["a &", "& b", "(a"]),
    plain("xml", &["<a/>", "text <b>x</b>"], &["<a>", "<a></b>"]),
    plain("pg_lsn", &["0/16B3748"], &["0", "G/0"]),
];

/// Client encodings with text pieces; from [`UNSAFE_ENCODINGS`] on they have bytes that look like a backslash or a bar
/// inside a character.
pub(super) const ENCODINGS: &[(&str, &[&[u8]])] = &[
    ("UTF8", &[b"a", b"B7", b" ", b"", "ä".as_bytes(), "€".as_bytes(), "😀".as_bytes(), b"'", b"x\x01y"]),
    ("LATIN1", &[b"a", b"\xe4", b"\xdf", b"z "]),
    ("EUC_JP", &[b"a", b"\xa4\xa2", b"\xb4\xc1"]),
    ("WIN1252", &[b"a", b"\x80", b"\xfc", b"\x81"]),
    ("LATIN9", &[b"\xa4", b"b"]),
    ("KOI8R", &[b"\xc1", b"\xd0k"]),
    ("WIN1251", &[b"\xe0", b"\x98", b"q"]),
    ("EUC_KR", &[b"\xb0\xa1", b"k"]),
    ("SQL_ASCII", &[b"a", "ä".as_bytes(), b"7"]),
    ("SJIS", &[b"a", b"\x83\x5c", b"\x95\x5c", b"\x83\x7c"]),
    ("GBK", &[b"a", b"\x81\x5c", b"\xc4\xe3", b"\x81\x7c"]),
    ("BIG5", &[b"a", b"\xa4\x5c", b"\xa4\xa4"]),
    ("GB18030", &[b"a", b"\x81\x30\x81\x30", b"\xc4\xe3", b"\x81\x5c"]),
    ("UHC", &[b"a", b"\xb0\xa1", b"\x81\x41"]),
];

/// See [`ENCODINGS`].
pub(super) const UNSAFE_ENCODINGS: usize = 9;
