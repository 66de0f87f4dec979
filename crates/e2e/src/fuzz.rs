//! Random COPY input: tables, options, rows, at most one fault, cut into frames anywhere. A case is made from its seed
//! alone, so a failure can be run again.

use pgerror::Result;
use testkit::Rng;
use testkit::wire::CopyInput;

use crate::differential::{Pair, diff, summary};

/// Types of columns, with spellings of valid values; some are unusual on purpose.
const TYPES: &[(&str, &[&str])] = &[
    ("int4", &["0", "1", "-7", "2147483647", "-2147483648", "+5", " 12", "13 ", "007"]),
    ("int8", &["0", "42", "-1", "9223372036854775807", "-9223372036854775808", " 99 ", "+1", "4294967296"]),
    ("int2", &["0", "-32768", "32767", "12"]),
    ("bool", &["t", "f", "true", "no", "ON", "0", " yes "]),
    ("date", &["2024-02-29", "1999-12-31", "infinity", "0044-03-15 BC", "20200101", "Jan 5 2021", "99999-01-01"]),
    ("timestamp", &["2024-02-29 12:34:56", "1970-01-01 00:00:00.000001", "-infinity", "2020-01-01T01:02:03"]),
    ("timestamptz", &["2024-02-29 12:34:56+02", "epoch", "2020-06-01 00:00 America/New_York", "2020-01-01"]),
    ("time", &["12:34:56.789", "24:00:00", "00:00", "3 PM"]),
    ("interval", &["1 day", "1 year 2 mons", "PT36H", "-00:00:01.5", "3 weeks ago"]),
    ("numeric", &["0", "1.50", "-12345678901234567890.123", "NaN", "1e10", ".5", "00.100", "Infinity"]),
    ("numeric(8,2)", &["1.005", "-999999.99", "0", "12345.6"]),
    ("float8", &["0", "-0", "1.5", "1e300", "NaN", "-Infinity", "0.1"]),
    ("float4", &["0.1", "3.4e38", "1e-45", "7"]),
    ("uuid", &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "{A0EEBC999C0B4EF8BB6D6BB9BD380A12}"]),
    ("bytea", &["\\x00ff", "\\x", "abc", "\\\\000\\\\\\\\"]),
    ("jsonb", &["{\"a\": [1, 2, {\"b\": null}]}", "1", "\"s\"", "[]"]),
    ("int4[]", &["{}", "{1,NULL,3}", "{{1,2},{3,4}}"]),
    ("text", &[]),
    ("varchar(12)", &[]),
    ("char(9)", &[]),
];

/// Client encodings with text pieces; the last ones have bytes that look like a backslash or a bar inside a character.
const ENCODINGS: &[(&str, &[&[u8]])] = &[
    ("UTF8", &[b"a", b"B7", b" ", b"", "ä".as_bytes(), "€".as_bytes(), "😀".as_bytes(), b"'", b"x\x01y"]),
    ("LATIN1", &[b"a", b"\xe4", b"\xdf", b"z "]),
    ("EUC_JP", &[b"a", b"\xa4\xa2", b"\xb4\xc1"]),
    ("SJIS", &[b"a", b"\x83\x5c", b"\x95\x5c", b"\x83\x7c"]),
    ("GBK", &[b"a", b"\x81\x5c", b"\xc4\xe3", b"\x81\x7c"]),
];

/// How many COPYs the stock server took and refused: a fuzzer that only makes one sort tests little.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Tally {
    pub accepted: usize,
    pub refused: usize,
}

/// One table and several COPYs into it.
#[derive(Debug)]
pub struct Case {
    /// What it was made from.
    pub seed: u64,
    columns: Vec<(String, usize)>,
    /// A column that is NOT NULL.
    required: Option<usize>,
    /// Of the table, after its columns.
    constraints: Vec<String>,
    distribution: String,
    copies: Vec<Copy>,
}

#[derive(Debug)]
struct Copy {
    options: Options,
    /// Indexes into the table's columns; `None` is no list.
    list: Option<Vec<usize>>,
    /// `None`: the table's own rows in binary, read back from the stock server, then damaged by `fault`.
    data: Option<Vec<u8>>,
    fault: Fault,
    cut: Cut,
    fail: bool,
    seed: u64,
}

#[derive(Debug, Clone)]
struct Options {
    csv: bool,
    delimiter: u8,
    null: &'static str,
    quote: u8,
    escape: u8,
    header: Option<&'static str>,
    force_null: Option<usize>,
    force_not_null: Option<usize>,
    encoding: usize,
    line_end: &'static str,
    condition: bool,
}

/// What is wrong with the data, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// A value that its type does not take.
    BadValue,
    MissingColumn,
    ExtraColumn,
    /// Another line end in mid-file.
    OtherLineEnd,
    /// A byte that is wrong in the encoding.
    BadByte,
    Nul,
    /// A quote, backslash or delimiter where none belongs.
    Stray,
    /// The end is cut off anywhere.
    Truncated,
    /// `\.` in mid-file, alone on its line or not.
    EndMarker,
    /// An empty line.
    EmptyLine,
    /// A random byte is changed.
    Flip,
}

const FAULTS: &[Fault] = &[
    Fault::BadValue,
    Fault::MissingColumn,
    Fault::ExtraColumn,
    Fault::OtherLineEnd,
    Fault::BadByte,
    Fault::Nul,
    Fault::Stray,
    Fault::Truncated,
    Fault::EndMarker,
    Fault::EmptyLine,
    Fault::Flip,
];

#[derive(Debug, Clone, Copy)]
enum Cut {
    Whole,
    EveryByte,
    UpTo(usize),
}

impl Case {
    /// Makes a case.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let count = 1 + rng.below(5);
        let columns: Vec<_> = (0..count).map(|i| (format!("c{i}"), rng.below(TYPES.len()))).collect();
        let key = format!("HASH ({})", columns[rng.below(count)].0);
        let hashable = |name: &str| !matches!(name, "jsonb" | "int4[]");
        let all_hashable = columns.iter().all(|(_, kind)| hashable(TYPES[*kind].0));
        let distribution = match rng.below(4) {
            0 => "REPLICATION".into(),
            1 => "ROUNDROBIN".into(),
            _ if all_hashable => key,
            _ => "ROUNDROBIN".into(),
        };
        let copies = (0..1 + rng.below(6)).map(|_| Copy::new(&columns, &mut rng)).collect();
        let constraints = constraints(&columns, &mut rng);
        let required = rng.one_in(6).then(|| rng.below(count));
        Self { seed, columns, required, constraints, distribution, copies }
    }

    /// Runs it on both sides; gives what differs.
    ///
    /// # Errors
    /// When a connection breaks.
    pub fn run(&self, pair: &mut Pair, tally: &mut Tally) -> Result<Option<String>> {
        let mut elements: Vec<String> =
            self.columns.iter().map(|(name, kind)| format!("{name} {}", TYPES[*kind].0)).collect();
        if let Some(required) = self.required {
            elements[required].push_str(" NOT NULL");
        }
        elements.extend(self.constraints.iter().cloned());
        let create = format!("CREATE TABLE fuzz ({})", elements.join(", "));
        let distributed = format!("{create} DISTRIBUTE BY {}", self.distribution);
        for client in [&mut pair.reference, &mut pair.cluster] {
            client.run("SET TimeZone = 'UTC'")?;
            client.simple("DROP TABLE IF EXISTS fuzz")?;
        }
        pair.reference.run(&create)?;
        pair.cluster.run(if pair.distributed { &distributed } else { &create })?;
        for (number, copy) in self.copies.iter().enumerate() {
            if let Some(difference) = copy.run(pair, &self.columns, tally)? {
                let seed = self.seed;
                return Ok(Some(format!("seed {seed}, COPY {number}\n  {distributed}\n  {copy:?}\n{difference}")));
            }
        }
        Ok(None)
    }
}

impl Copy {
    fn new(columns: &[(String, usize)], rng: &mut Rng) -> Self {
        let list: Option<Vec<usize>> = rng.one_in(3).then(|| shuffled(columns.len(), rng));
        let listed: Vec<usize> = list.clone().unwrap_or_else(|| (0..columns.len()).collect());
        let options = Options::new(&listed, rng);
        let fault = if rng.one_in(2) { FAULTS[rng.below(FAULTS.len())] } else { Fault::None };
        let rows = if rng.one_in(20) { 3000 } else { rng.below(30) };
        let binary = rng.one_in(6);
        let data = (!binary).then(|| Writer { options: &options, columns, listed: &listed, fault }.write(rows, rng));
        let cut = match rng.below(4) {
            0 => Cut::Whole,
            1 if rows < 100 => Cut::EveryByte,
            2 => Cut::UpTo(20_000),
            _ => Cut::UpTo(40),
        };
        Self { options, list, data, fault, cut, fail: rng.one_in(40), seed: rng.next_u64() }
    }

    fn run(&self, pair: &mut Pair, columns: &[(String, usize)], tally: &mut Tally) -> Result<Option<String>> {
        let mut rng = Rng::new(self.seed);
        let list = match &self.list {
            Some(list) => format!(" ({})", list.iter().map(|i| columns[*i].0.as_str()).collect::<Vec<_>>().join(", ")),
            None => String::new(),
        };
        let (sql, data) = match &self.data {
            Some(data) => (format!("COPY fuzz{list} FROM STDIN {}", self.options.sql(columns)), data.clone()),
            None => {
                let source = pair.reference.run(&format!("COPY fuzz{list} TO STDOUT (FORMAT binary)"))?;
                let data = damaged(source.copied.unwrap_or_default(), self.fault, &mut rng);
                (format!("COPY fuzz{list} FROM STDIN (FORMAT binary)"), data)
            }
        };
        let frames = cut(&data, self.cut, &mut rng);
        let input = CopyInput { frames: &frames, fail: self.fail };
        let expected = pair.reference.simple_copy(&sql, input)?;
        match expected.error {
            None => tally.accepted += 1,
            Some(_) => tally.refused += 1,
        }
        let expected = summary(&expected, false);
        let actual = summary(&pair.cluster.simple_copy(&sql, input)?, false);
        let shown = || format!("  {sql}\n  data: {}", data[..data.len().min(2000)].escape_ascii());
        if expected != actual {
            return Ok(Some(format!("{}\n{}", shown(), diff(&expected, &actual))));
        }
        for check in ["COPY fuzz TO STDOUT", "COPY fuzz TO STDOUT (FORMAT csv, HEADER)", "SELECT count(*) FROM fuzz"] {
            let (expected, actual) = (pair.reference.simple(check)?, pair.cluster.simple(check)?);
            let (expected, actual) = (summary(&expected, false), summary(&actual, false));
            if expected != actual {
                return Ok(Some(format!("{}\n  then {check}\n{}", shown(), diff(&expected, &actual))));
            }
        }
        self.look_up(pair, columns, &mut rng)
    }

    /// A row must be found by the value it has: COPY and the planner agree on its place.
    fn look_up(&self, pair: &mut Pair, columns: &[(String, usize)], rng: &mut Rng) -> Result<Option<String>> {
        let (name, kind) = &columns[rng.below(columns.len())];
        let type_name = TYPES[*kind].0;
        let sample = format!("SELECT DISTINCT {name}::text FROM fuzz WHERE {name} IS NOT NULL ORDER BY 1 LIMIT 3");
        for row in pair.reference.strings(&sample)? {
            let value = row[0].replace('\\', "\\\\").replace('\'', "''");
            let query = format!("SELECT count(*) FROM fuzz WHERE {name} = E'{value}'::{type_name}");
            let (expected, actual) = (pair.reference.simple(&query)?, pair.cluster.simple(&query)?);
            let (expected, actual) = (summary(&expected, false), summary(&actual, false));
            if expected != actual {
                return Ok(Some(format!("  {query}\n{}", diff(&expected, &actual))));
            }
        }
        Ok(None)
    }
}

impl Options {
    fn new(listed: &[usize], rng: &mut Rng) -> Self {
        let csv = rng.one_in(2);
        let delimiters: &[u8] = if csv { b",;|\t:" } else { b"\t\t,|~" };
        let nulls: &[&'static str] = if csv { &["", "", "NULL", "nil", "\\N"] } else { &["\\N", "\\N", "", "NULL"] };
        let column = |rng: &mut Rng| (csv && rng.one_in(6)).then(|| listed[rng.below(listed.len())]);
        let quote = if rng.one_in(5) { b'\'' } else { b'"' };
        Self {
            csv,
            delimiter: delimiters[rng.below(delimiters.len())],
            null: nulls[rng.below(nulls.len())],
            quote,
            escape: if rng.one_in(5) { b'\\' } else { quote },
            header: [None, None, None, Some("true"), Some("match")][rng.below(5)],
            force_null: column(rng),
            force_not_null: column(rng),
            encoding: if rng.one_in(3) { rng.below(ENCODINGS.len()) } else { 0 },
            line_end: ["\n", "\n", "\n", "\r\n", "\r"][rng.below(5)],
            condition: rng.one_in(15),
        }
    }

    fn sql(&self, columns: &[(String, usize)]) -> String {
        let literal = |byte: u8| match byte {
            b'\'' => "''''".to_owned(),
            b'\t' => "E'\\t'".to_owned(),
            byte => format!("'{}'", char::from(byte)),
        };
        let mut options = vec![format!("FORMAT {}", if self.csv { "csv" } else { "text" })];
        options.push(format!("DELIMITER {}", literal(self.delimiter)));
        options.push(format!("NULL '{}'", self.null));
        options.push(format!("ENCODING '{}'", ENCODINGS[self.encoding].0));
        if self.csv {
            options.push(format!("QUOTE {}, ESCAPE {}", literal(self.quote), literal(self.escape)));
        }
        if let Some(header) = self.header {
            options.push(format!("HEADER {header}"));
        }
        for (word, column) in [("FORCE_NULL", self.force_null), ("FORCE_NOT_NULL", self.force_not_null)] {
            if let Some(column) = column {
                options.push(format!("{word} ({})", columns[column].0));
            }
        }
        let condition = if self.condition { " WHERE c0 IS NOT NULL" } else { "" };
        format!("({}){condition}", options.join(", "))
    }
}

/// Writes rows in text or CSV format.
struct Writer<'a> {
    options: &'a Options,
    columns: &'a [(String, usize)],
    listed: &'a [usize],
    fault: Fault,
}

impl Writer<'_> {
    fn write(&self, rows: usize, rng: &mut Rng) -> Vec<u8> {
        let mut out = Vec::new();
        let line_end = self.options.line_end.as_bytes();
        let faulty_row = rng.below(rows.max(1));
        if self.options.header.is_some() {
            let names: Vec<&str> = self.listed.iter().map(|column| self.columns[*column].0.as_str()).collect();
            out.extend_from_slice(names.join(&char::from(self.options.delimiter).to_string()).as_bytes());
            out.extend_from_slice(line_end);
        }
        for row in 0..rows {
            let fault = if row == faulty_row { self.fault } else { Fault::None };
            self.write_row(fault, &mut out, rng);
            let other = ["\n", "\r", "\r\n"][rng.below(3)].as_bytes();
            let is_last = row + 1 == rows;
            match fault {
                Fault::OtherLineEnd => out.extend_from_slice(other),
                _ if is_last && rng.one_in(3) => {}
                _ => out.extend_from_slice(line_end),
            }
        }
        if self.fault == Fault::None && rng.one_in(10) && out.ends_with(line_end) {
            out.extend_from_slice(b"\\.");
            out.extend_from_slice(line_end);
        }
        match self.fault {
            Fault::Truncated | Fault::Flip => damaged(out, self.fault, rng),
            _ => out,
        }
    }

    fn write_row(&self, fault: Fault, out: &mut Vec<u8>, rng: &mut Rng) {
        let faulty_column = rng.below(self.listed.len());
        for (number, column) in self.listed.iter().enumerate() {
            let here = if number == faulty_column { fault } else { Fault::None };
            if number > 0 {
                if here == Fault::MissingColumn {
                    continue;
                }
                out.push(self.options.delimiter);
            }
            self.write_field(TYPES[self.columns[*column].1], here, out, rng);
        }
        match fault {
            Fault::ExtraColumn => out.extend_from_slice(&[self.options.delimiter, b'x']),
            Fault::EndMarker if rng.one_in(2) => out.extend_from_slice(b"\n\\."),
            Fault::EndMarker => out.extend_from_slice(b"\\."),
            Fault::EmptyLine => out.extend_from_slice(self.options.line_end.as_bytes()),
            _ => {}
        }
    }

    fn write_field(&self, (_, values): (&str, &[&str]), fault: Fault, out: &mut Vec<u8>, rng: &mut Rng) {
        if fault == Fault::None && rng.one_in(8) {
            out.extend_from_slice(self.options.null.as_bytes());
            return;
        }
        let mut value = match values {
            [] => self.random_text(rng),
            values => rng.pick(values).as_bytes().to_vec(),
        };
        match fault {
            Fault::BadValue => value.extend_from_slice(b"#bad"),
            Fault::BadByte => value.extend_from_slice(b"\xff\xfe"),
            Fault::Nul => value.push(0),
            _ => {}
        }
        match self.options.csv {
            true => self.write_csv(&value, out, rng),
            false => self.write_text(&value, out, rng),
        }
        if fault == Fault::Stray {
            out.push([self.options.quote, b'\\', self.options.delimiter, b'\n'][rng.below(4)]);
        }
    }

    fn random_text(&self, rng: &mut Rng) -> Vec<u8> {
        let pieces = ENCODINGS[self.options.encoding].1;
        let special: [&[u8]; 8] = [b"\n", b"\r", b"\t", b"\\", b"\"", b"'", b",", b"|"];
        let mut text = Vec::new();
        for _ in 0..rng.below(4) {
            let special_now = rng.one_in(5);
            text.extend_from_slice(if special_now { rng.pick(&special) } else { rng.pick(pieces) });
        }
        text
    }

    fn write_csv(&self, value: &[u8], out: &mut Vec<u8>, rng: &mut Rng) {
        let Options { quote, escape, delimiter, null, .. } = *self.options;
        let special = |byte: &u8| [quote, delimiter, b'\n', b'\r'].contains(byte);
        let must_quote = value.iter().any(special) || value == null.as_bytes() || value == b"\\.";
        if !must_quote && !rng.one_in(3) {
            out.extend_from_slice(value);
            return;
        }
        out.push(quote);
        for byte in value {
            if *byte == quote || *byte == escape {
                out.push(escape);
            }
            out.push(*byte);
        }
        out.push(quote);
    }

    fn write_text(&self, value: &[u8], out: &mut Vec<u8>, rng: &mut Rng) {
        // Bytes of a character of several bytes must stay together and unescaped.
        let is_single_byte = self.options.encoding < 3;
        for byte in value {
            match *byte {
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\\' if is_single_byte => out.extend_from_slice(b"\\\\"),
                byte if byte == self.options.delimiter && is_single_byte => out.extend_from_slice(&[b'\\', byte]),
                byte if byte.is_ascii_graphic() && rng.one_in(40) => {
                    out.extend_from_slice(format!("\\{byte:03o}").as_bytes())
                }
                byte if byte.is_ascii_graphic() && rng.one_in(40) => {
                    out.extend_from_slice(format!("\\x{byte:02x}").as_bytes())
                }
                byte => out.push(byte),
            }
        }
    }
}

/// Conditions that some rows break: a datanode finds that out, not the one who splits the lines.
fn constraints(columns: &[(String, usize)], rng: &mut Rng) -> Vec<String> {
    let mut made = Vec::new();
    let (name, _) = &columns[rng.below(columns.len())];
    if rng.one_in(4) {
        made.push(format!("CONSTRAINT present CHECK ({name} IS NOT NULL)"));
    }
    if rng.one_in(4) {
        made.push(format!("CONSTRAINT short CHECK (length({name}::text) < 12)"));
    }
    made
}

fn shuffled(count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut indexes: Vec<usize> = (0..count).collect();
    for i in (1..count).rev() {
        indexes.swap(i, rng.below(i + 1));
    }
    indexes.truncate(1 + rng.below(count));
    indexes
}

fn damaged(mut data: Vec<u8>, fault: Fault, rng: &mut Rng) -> Vec<u8> {
    if data.is_empty() {
        return data;
    }
    match fault {
        Fault::Truncated => data.truncate(rng.below(data.len())),
        Fault::Flip => {
            let at = rng.below(data.len());
            data[at] ^= 1 << rng.below(8);
        }
        _ => {}
    }
    data
}

fn cut<'a>(data: &'a [u8], cut: Cut, rng: &mut Rng) -> Vec<&'a [u8]> {
    let mut frames = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let length = match cut {
            Cut::Whole => rest.len(),
            Cut::EveryByte => 1,
            // 0 now and then: an empty CopyData is allowed.
            Cut::UpTo(most) => rng.below(most + 1).min(rest.len()),
        };
        let (frame, after) = rest.split_at(length);
        frames.push(frame);
        rest = after;
    }
    frames
}
