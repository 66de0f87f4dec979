//! Values that a type refuses, or takes though they look wrong. Each stands in a table of its type, as a plain column and,
//! where the type may be one, as the distribution key.

use crate::Case;

/// A type, a value that it takes, and odd ones.
pub(crate) type Odd = (&'static str, &'static str, &'static [&'static str]);

/// Types that may be distribution keys come first.
pub(crate) const TYPES: &[Odd] = &[
    ("int2", "7", &["32768", "-32769", "1.5", "", " ", "1 1", "0x7F", "\u{661}"]),
    (
        "int4",
        "7",
        &["2147483648", "-2147483649", "99999999999999999999", "1e3", "+ 1", "--1", "abc", "", "1_000", "７"],
    ),
    ("int8", "7", &["9223372036854775808", "-9223372036854775809", "1,5", "0b1", "nan", "\u{a0}1"]),
    ("oid", "7", &["4294967296", "-1", "-4294967297", "x", ""]),
    ("bool", "t", &["o", "maybe", "2", "", "tr ue", " TRUE ", "yess"]),
    ("\"char\"", "a", &["ab", "ä", "", "\\377"]),
    ("name", "n", &["0123456789012345678901234567890123456789012345678901234567890123ä", ""]),
    (
        "date",
        "2024-02-29",
        &[
            "31-Feb",
            "31-Feb-2024",
            "2023-02-29",
            "2024-13-01",
            "13/13/2024",
            "00/00/0000",
            "2024-1-1-1",
            "5874898-01-01",
            "4714-11-23 BC",
            "Feb",
            "",
            "infinit",
            "2024-02-30 00:00",
            "24-02-29",
            "now 2020",
        ],
    ),
    (
        "timestamp",
        "2024-02-29 01:02:03",
        &[
            "2024-02-29 25:00",
            "2024-02-29 23:60",
            "294277-01-01",
            "2024-02-30",
            "2024-02-29T",
            "x",
            "",
            "noon",
            "2024-02-29 1:2:61",
        ],
    ),
    (
        "timestamptz(1)",
        "2024-02-29 01:02:03+00",
        &[
            "2024-02-29 01:02+16:00",
            "2024-02-29 01:02 Mars/Base",
            "2024-02-29 01:02 XYZ",
            "31-Feb",
            "4714-11-23 BC",
            "2024-02-29 24:00:01",
        ],
    ),
    ("time", "01:02:03", &["24:00:01", "25:00", "1:2:3:4", "", "noonish", "12:60", "13:00 AM"]),
    ("timetz", "01:02:03+00", &["24:00:01+01", "12:00+16", "12:00 Europe/Berlin", "12:00 Nowhere"]),
    ("interval", "1 day", &["1 fortnite", "9999999999 years", "P", "", "1 day 1 day", "1:2:3:4", "2147483648 months"]),
    ("numeric", "1.5", &["1.2.3", "1e131073", "NaN ", "1e", "", ".", "0x1", "Inf inity", "1e-20000"]),
    ("numeric(5,2)", "1.5", &["1000", "999.995", "-1000", "Infinity", "NaN", "1e3", "x", "0.0001"]),
    ("float4", "1.5", &["1e39", "1e-50", "", "1.5f", "infin", "nano"]),
    ("float8", "1.5", &["1e309", "1e-400", "1.5.5", "", "-", "0x1p3", "1,5"]),
    ("money", "$1.00", &["92233720368547758.08", "1e3", "$", "two", "$1,2,3.456"]),
    (
        "uuid",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        &[
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
            "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111",
        ],
    ),
    ("bytea", "\\x00", &["\\x0", "\\xzz", "\\9", "\\400", "\\", "\\x 0 0", "\\x0 0"]),
    ("text", "t", &["", "\u{1}", "\u{feff}x", "\\.", "\\N", "a\\", "e\u{301}"]),
    ("varchar(4)", "abcd", &["abcde", "abcd ", "abcd  x", "ääääö", "ääää", ""]),
    ("char(4)", "abcd", &["abcde", "abcd   ", "abc  x", "äöüßx", ""]),
    ("json", "{}", &["{", "{a: 1}", "", "[1,]", "{\"a\":\"\\u12\"}", "01", "{\"a\": 1} x", "\"\u{1}\"", "{\"a\":1,,}"]),
    ("jsonb", "{}", &["'x'", "\"\\u0000\"", "\"\\ud800\"", "1e1000000", "[1}", "tru"]),
    (
        "int4[]",
        "{1}",
        &["{1,a}", "{1", "1", "{{1},{2,3}}", "[1:3]={1}", "{1}}", "{,}", "{99999999999}", "{{}", "[2:1]={}"],
    ),
    ("text[]", "{a}", &["{\"a}", "{a\"b}", "{a}x", "{\\}", "{null,\"null\"}"]),
    ("varchar(3)[]", "{abc}", &["{abcd}", "{abc,abcd}"]),
    ("mood", "ok", &["glad", "OK", "", " ok", "ok "]),
    ("pair", "(1,x)", &["(1)", "(1,2,3)", "(x,y)", "1,2", "(1,\"x)", "(1,x) y", ""]),
    ("positive", "1", &["0", "-1", "x", "", "99999999999"]),
    ("code", "ab", &["abcd", "", "ab "]),
    ("positives", "{1}", &["{0}", "{1,-1}", "{x}"]),
    ("int4range", "[1,2)", &["[2,1]", "[1,2", "[a,b]", "(1)", "", "[1,2]x", "[1,99999999999)"]),
    ("daterange", "[2020-01-01,)", &["[31-Feb-2020,)", "[2020-02-01,2020-01-01)"]),
    ("int4multirange", "{}", &["{[1,3)", "[1,2)", "{[3,1)}"]),
    ("inet", "10.0.0.1", &["10.0.0.256", "1.2.3.4/33", "::g", "1.2.3", ""]),
    ("cidr", "10.0.0.0/8", &["10.0.0.1/8", "10/33", "x"]),
    ("macaddr", "08:00:2b:01:02:03", &["08:00:2b:01:02", "zz:00:2b:01:02:03", "08:00:2b:01:02:033"]),
    ("bit(3)", "101", &["10", "1010", "102", "x", "xg"]),
    ("varbit(3)", "101", &["1010", "2", "xff"]),
    ("point", "(1,2)", &["(1)", "(1,2", "x", "(1,2)3", ""]),
    ("box", "(1,2),(3,4)", &["(1,2)", "((1,2),(3,4)"]),
    ("line", "{1,1,1}", &["{0,0,1}", "[(1,1),(1,1)]"]),
    ("polygon", "((0,0),(1,1))", &["((0,0)", "()"]),
    ("circle", "<(0,0),1>", &["<(0,0),-1>", "<0>"]),
    ("tsvector", "a:1", &["a:x", "'open", "a:0", "a:1Z"]),
    ("tsquery", "a & b", &["a &", "& b", "(a", "a b"]),
    ("xml", "<a/>", &["<a>", "<a></b>", "<a b=c/>", "&x;"]),
    ("regclass", "pg_class", &["nowhere", "a.b.c.d", "-"]),
    ("regtype", "int4", &["nothing", "int4("]),
    ("pg_lsn", "0/0", &["0", "G/0"]),
    ("xid", "7", &["x"]),
];

/// Types from here on are no distribution keys.
const KEYS_END: usize = 23;

/// The columns of the table of all types.
pub(crate) fn wide_columns() -> String {
    let columns: Vec<String> = TYPES.iter().enumerate().map(|(i, (name, ..))| format!("c{i} {name}")).collect();
    format!("k int, v text, {}", columns.join(", "))
}

/// Tables distributed by a column of each type that may be a key.
pub(crate) fn key_tables() -> Vec<(String, String)> {
    let table = |(i, (name, ..)): (usize, &Odd)| (format!("key{i}"), format!("x {name}, k int"));
    TYPES[..KEYS_END].iter().enumerate().map(table).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, (_, good, odd)) in TYPES.iter().enumerate() {
        for value in *odd {
            let turn = cases.len();
            cases.push(case("wide", &format!("(k, c{index})"), good, value, turn, true));
            if index < KEYS_END {
                cases.push(case(&format!("key{index}"), "(k, x)", good, value, turn, true));
                cases.push(case(&format!("key{index}"), "(x, k)", good, value, turn + 3, false));
            }
        }
    }
    cases
}

/// The odd value in a file of good ones, whose shape goes by turns.
fn case(table: &str, columns: &str, good: &str, odd: &str, turn: usize, key_first: bool) -> Case {
    let csv = turn % 2 == 1;
    let (rows_before, rows_after) = [(0, 0), (2, 3), (3, 0), (1, 1), (700, 500), (0, 2)][turn % 6];
    let end = if turn % 5 == 3 { "\r\n" } else { "\n" };
    let header = csv && turn.is_multiple_of(3);
    let mut data = String::new();
    if header {
        data.push_str("one,other");
        data.push_str(end);
    }
    let rows = rows_before + 1 + rows_after;
    for row in 0..rows {
        let value = if row == rows_before { odd } else { good };
        let value = if csv { quoted(value) } else { escaped(value) };
        let delimiter = if csv { ',' } else { '\t' };
        data.push_str(&match key_first {
            true => format!("{row}{delimiter}{value}"),
            false => format!("{value}{delimiter}{row}"),
        });
        let is_last = row + 1 == rows;
        data.push_str(if is_last && turn % 4 == 2 { "" } else { end });
    }
    let options = match (csv, header) {
        (true, true) => " (FORMAT csv, HEADER)",
        (true, false) => " CSV",
        _ => "",
    };
    let mut case = Case::new(table, format!("COPY {table} {columns} FROM STDIN{options}"), data);
    case.frame_bytes = [usize::MAX, 1, 7, 8192][turn % 4];
    case
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('"', "\"\""))
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}
