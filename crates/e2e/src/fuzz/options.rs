//! Random options of one COPY, and their SQL in the new syntax and in the old one.

use testkit::Rng;

use super::types::{ENCODINGS, UNSAFE_ENCODINGS};

/// What `HEADER` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    None,
    Skip,
    Match,
}

#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) csv: bool,
    pub(super) delimiter: u8,
    pub(super) null: &'static str,
    pub(super) quote: u8,
    pub(super) escape: u8,
    pub(super) header: Header,
    /// Indexes into the table's columns.
    force_null: Vec<usize>,
    force_not_null: Vec<usize>,
    pub(super) encoding: usize,
    /// The encoding is the session's, not an option.
    pub(super) encoding_of_session: bool,
    pub(super) line_end: &'static str,
    condition: Option<String>,
    pub(super) freeze: bool,
    /// `COPY t FROM STDIN CSV HEADER …`
    old_syntax: bool,
    /// An option that is wrong, or that needs a newer server.
    odd: Option<&'static str>,
}

/// Options that PostgreSQL 15 refuses in one way or another, each alone and after others.
const ODD: &[&str] = &[
    "DELIMITER 'ab'",
    "DELIMITER E'\\n'",
    "DELIMITER 'a'",
    "DELIMITER '\"'",
    "DELIMITER '.'",
    "DELIMITER ''",
    "NULL E'\\n'",
    "NULL 'a\tb,c;d|e:f~g'",
    "NULL '\"'",
    "QUOTE 'ab'",
    "QUOTE ''",
    "QUOTE 'ä'",
    "ESCAPE 'ab'",
    "HEADER 7",
    "HEADER maybe",
    "HEADER 1",
    "HEADER off",
    "FREEZE maybe",
    "FORMAT nonsense",
    "FORMAT csv, FORMAT csv",
    "FORCE_NULL (missing)",
    "FORCE_NULL (made)",
    "FORCE_NULL (c0, c0)",
    "FORCE_NOT_NULL (missing)",
    "FORCE_NULL *",
    "FORCE_QUOTE (c0)",
    "FORCE_QUOTE *",
    "ENCODING 'nonsense'",
    "ENCODING ''",
    "ENCODING",
    "NULL",
    "DELIMITER",
    "OIDS",
    "nonsense 1",
];

impl Options {
    pub(super) fn new(columns: &[(String, usize)], listed: &[usize], rng: &mut Rng) -> Self {
        let csv = rng.one_in(2);
        let delimiters: &[u8] = if csv { b",;|\t: " } else { b"\t\t,|~" };
        let nulls: &[&'static str] = if csv { &["", "", "NULL", "nil", "\\N"] } else { &["\\N", "\\N", "", "NULL"] };
        let forced = |rng: &mut Rng| match csv && rng.one_in(5) {
            true => {
                let mut forced: Vec<usize> = (0..1 + rng.below(2)).map(|_| listed[rng.below(listed.len())]).collect();
                forced.dedup();
                forced
            }
            false => Vec::new(),
        };
        let quote = if rng.one_in(5) { b'\'' } else { b'"' };
        let encoding = if rng.one_in(3) { rng.below(ENCODINGS.len()) } else { 0 };
        Self {
            csv,
            delimiter: delimiters[rng.below(delimiters.len())],
            null: nulls[rng.below(nulls.len())],
            quote,
            escape: if rng.one_in(5) { b'\\' } else { quote },
            header: [Header::None, Header::None, Header::None, Header::Skip, Header::Match][rng.below(5)],
            force_null: forced(rng),
            force_not_null: forced(rng),
            encoding,
            encoding_of_session: rng.one_in(2),
            line_end: ["\n", "\n", "\n", "\r\n", "\r"][rng.below(5)],
            condition: rng.one_in(12).then(|| condition(columns, rng)),
            freeze: rng.one_in(25),
            old_syntax: rng.one_in(6),
            odd: rng.one_in(20).then(|| ODD[rng.below(ODD.len())]),
        }
        .with_one_error()
    }

    /// An encoding whose lines need not be read by the home node.
    pub(super) fn with_safe_encoding(mut self) -> Self {
        self.encoding %= UNSAFE_ENCODINGS;
        self
    }

    /// Which of several is reported is a matter of order within the server.
    fn with_one_error(mut self) -> Self {
        if self.odd.is_some() {
            self.condition = None;
        }
        self
    }

    /// What stands behind `FROM source`.
    pub(super) fn sql(&self, columns: &[(String, usize)]) -> String {
        let options = if self.old_syntax { self.old_sql(columns) } else { self.new_sql(columns) };
        match &self.condition {
            Some(condition) => format!("{options} WHERE {condition}"),
            None => options,
        }
    }

    /// The encoding as an option.
    fn encoding_option(&self) -> Option<&'static str> {
        (!self.encoding_of_session).then_some(ENCODINGS[self.encoding].0)
    }

    fn new_sql(&self, columns: &[(String, usize)]) -> String {
        let mut options = vec![format!("FORMAT {}", if self.csv { "csv" } else { "text" })];
        options.push(format!("DELIMITER {}", literal(self.delimiter)));
        options.push(format!("NULL '{}'", self.null));
        options.extend(self.encoding_option().map(|name| format!("ENCODING '{name}'")));
        if self.csv {
            options.push(format!("QUOTE {}, ESCAPE {}", literal(self.quote), literal(self.escape)));
        }
        match self.header {
            Header::None => {}
            Header::Skip => options.push("HEADER".into()),
            Header::Match => options.push("HEADER match".into()),
        }
        for (word, forced) in [("FORCE_NULL", &self.force_null), ("FORCE_NOT_NULL", &self.force_not_null)] {
            if !forced.is_empty() {
                options.push(format!("{word} ({})", names(forced, columns)));
            }
        }
        if self.freeze {
            options.push("FREEZE".into());
        }
        if let Some(odd) = self.odd {
            // Not a second time, or that is all the server says.
            let word = odd.split(' ').next().unwrap_or_default();
            options.retain(|option| option.split(' ').next() != Some(word) || word == "FORMAT");
            options.push(odd.into());
        }
        format!("({})", options.join(", "))
    }

    fn old_sql(&self, columns: &[(String, usize)]) -> String {
        let mut sql = format!("DELIMITER AS {} NULL AS '{}'", literal(self.delimiter), self.null);
        if let Some(name) = self.encoding_option() {
            sql.push_str(&format!(" ENCODING '{name}'"));
        }
        if self.csv {
            sql.push_str(&format!(" CSV QUOTE AS {} ESCAPE AS {}", literal(self.quote), literal(self.escape)));
        }
        if self.header != Header::None {
            sql.push_str(" HEADER");
        }
        for (word, forced) in [("FORCE NULL", &self.force_null), ("FORCE NOT NULL", &self.force_not_null)] {
            if !forced.is_empty() {
                sql.push_str(&format!(" {word} {}", names(forced, columns)));
            }
        }
        if self.freeze {
            sql.push_str(" FREEZE");
        }
        sql
    }
}

fn names(indexes: &[usize], columns: &[(String, usize)]) -> String {
    indexes.iter().map(|index| columns[*index].0.as_str()).collect::<Vec<_>>().join(", ")
}

fn literal(byte: u8) -> String {
    match byte {
        b'\'' => "''''".to_owned(),
        b'\t' => "E'\\t'".to_owned(),
        byte => format!("'{}'", char::from(byte)),
    }
}

fn condition(columns: &[(String, usize)], rng: &mut Rng) -> String {
    let name = &columns[rng.below(columns.len())].0;
    match rng.below(5) {
        0 => format!("{name} IS NOT NULL"),
        1 => format!("length({name}::text) > 3"),
        2 => format!("{name}::text < 'm' OR {name} IS NULL"),
        3 => format!("({name}, c0) IS NOT NULL"),
        _ => "missing > 0".into(),
    }
}
