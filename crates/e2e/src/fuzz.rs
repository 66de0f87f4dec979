//! Random COPY input: tables, options, rows, at most one fault, cut into frames anywhere or in a file. A case is made from
//! its seed alone, so a failure can be run again.

use pgerror::Result;
use testkit::wire::{Answer, CopyInput};
use testkit::{Rng, TempDir};

use crate::differential::{Pair, diff, summary};

mod options;
mod types;
mod writer;

use options::Options;
use types::{ENCODINGS, KINDS, Kind, TYPES_SQL};
use writer::{FAULTS, Fault, Writer, damaged};

/// The one refusal that a COPY here may meet: input that only the home node can read, and a key whose text it cannot hash.
const UNSUPPORTED: &str = "a key value of this spelling next to a user-defined type";

/// How many COPYs the stock server took and refused: a fuzzer that only makes one sort tests little.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Tally {
    pub accepted: usize,
    pub refused: usize,
    /// What the cluster alone refused, as it says in its documentation.
    pub unsupported: usize,
}

/// One table and several COPYs into it.
#[derive(Debug)]
pub struct Case {
    /// What it was made from.
    pub seed: u64,
    /// Settings of the session.
    settings: Vec<String>,
    columns: Vec<(String, usize)>,
    /// The table's columns and constraints as SQL.
    elements: Vec<String>,
    /// An identity column: it counts on after an error, and how far is nobody's promise.
    identity: Option<String>,
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
    block: Block,
    seed: u64,
}

#[derive(Debug, Clone, Copy)]
enum Cut {
    Whole,
    EveryByte,
    UpTo(usize),
    /// Not from the client: in a file.
    File,
}

/// The transaction around a COPY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    None,
    /// Behind a savepoint that an error goes back to.
    Savepoint,
    /// Behind TRUNCATE, which allows FREEZE.
    Truncate,
}

/// Makes the types that cases use.
///
/// # Errors
/// When a connection breaks, or a server refuses one of them.
pub fn set_up(pair: &mut Pair) -> Result<()> {
    for sql in TYPES_SQL {
        pair.reference.run(sql)?;
        pair.cluster.run(sql)?;
    }
    Ok(())
}

impl Case {
    /// Makes a case.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let count = 1 + rng.below(5);
        let columns: Vec<_> = (0..count).map(|i| (format!("c{i}"), rng.below(KINDS.len()))).collect();
        let distribution = distribution(&columns, &mut rng);
        let unique = unique_column(&columns, &distribution, &mut rng);
        // Lines with a default key go by way of the home node, where a duplicate is found without its line.
        let mut elements = Vec::new();
        let mut identity = None;
        for (name, kind) in &columns {
            let name_and_type = format!("{name} {}", KINDS[*kind].name);
            let can_count = matches!(KINDS[*kind].name, "int2" | "int4" | "int8");
            elements.push(match rng.below(12) {
                0 => format!("{name_and_type} NOT NULL"),
                1 if unique.is_none() => format!("{name_and_type} DEFAULT {}", default(*kind)),
                2 if can_count && identity.is_none() && unique.is_none() => {
                    identity = Some(name.clone());
                    let when = if rng.one_in(2) { "ALWAYS" } else { "BY DEFAULT" };
                    format!("{name_and_type} GENERATED {when} AS IDENTITY")
                }
                _ => name_and_type,
            });
        }
        if rng.one_in(6) {
            elements.push("made bool GENERATED ALWAYS AS (c0 IS NULL) STORED".into());
        }
        match &unique {
            Some(name) => elements.push(format!("PRIMARY KEY ({name})")),
            None => elements.extend(constraints(&columns, &mut rng)),
        }
        let copies = (0..1 + rng.below(6)).map(|_| Copy::new(&columns, unique.is_none(), &mut rng)).collect();
        Self { seed, settings: settings(&mut rng), columns, elements, identity, distribution, copies }
    }

    /// Runs it on both sides; gives what differs. Files are written into `dir`.
    ///
    /// # Errors
    /// When a connection breaks.
    pub fn run(&self, pair: &mut Pair, dir: &TempDir, tally: &mut Tally) -> Result<Option<String>> {
        let create = format!("CREATE TABLE fuzz ({})", self.elements.join(", "));
        let distributed = format!("{create} DISTRIBUTE BY {}", self.distribution);
        for client in [&mut pair.reference, &mut pair.cluster] {
            for setting in &self.settings {
                client.run(setting)?;
            }
            client.simple("DROP TABLE IF EXISTS fuzz")?;
        }
        let made = pair.reference.simple(&create)?;
        if made.error.is_some() {
            // A type without a comparison cannot be a key, and so on.
            return Ok(None);
        }
        pair.cluster.run(if pair.distributed { &distributed } else { &create })?;
        for (number, copy) in self.copies.iter().enumerate() {
            if let Some(identity) = &self.identity {
                let restart = format!("ALTER TABLE fuzz ALTER {identity} RESTART WITH {}", 1 + number * 5000);
                pair.reference.run(&restart)?;
                pair.cluster.run(&restart)?;
            }
            if let Some(difference) = copy.run(pair, dir, &self.columns, tally)? {
                let Self { seed, settings, .. } = self;
                let Copy { fault, cut, fail, block, .. } = copy;
                return Ok(Some(format!(
                    "seed {seed}, COPY {number}\n  {settings:?}\n  {distributed}\n  fault {fault:?}, cut {cut:?}, \
                     CopyFail {fail}, block {block:?}, client encoding {:?}\n{difference}",
                    copy.client_encoding()
                )));
            }
        }
        Ok(None)
    }
}

impl Copy {
    fn new(columns: &[(String, usize)], may_be_wrong: bool, rng: &mut Rng) -> Self {
        let list: Option<Vec<usize>> = rng.one_in(3).then(|| shuffled(columns.len(), rng));
        let listed: Vec<usize> = list.clone().unwrap_or_else(|| (0..columns.len()).collect());
        let options = Options::new(columns, &listed, rng);
        let options = if may_be_wrong { options } else { options.with_safe_encoding() };
        // PostgreSQL may report either a duplicate key or a fault first.
        let fault = if may_be_wrong && rng.one_in(2) { FAULTS[rng.below(FAULTS.len())] } else { Fault::None };
        let rows = if rng.one_in(20) { 3000 } else { rng.below(30) };
        let binary = rng.one_in(6);
        let writer = Writer { options: &options, columns, listed: &listed, fault, nulls: may_be_wrong };
        let data = (!binary).then(|| writer.write(rows, rng));
        let cut = match rng.below(5) {
            0 => Cut::Whole,
            1 if rows < 100 && fault != Fault::Huge => Cut::EveryByte,
            2 => Cut::UpTo(20_000),
            3 => Cut::File,
            _ if fault == Fault::Huge => Cut::UpTo(5000),
            _ => Cut::UpTo(40),
        };
        let block = match rng.below(10) {
            _ if options.freeze && rng.one_in(2) => Block::Truncate,
            0 => Block::Savepoint,
            1 => Block::Truncate,
            _ => Block::None,
        };
        Self { options, list, data, fault, cut, fail: rng.one_in(40) && may_be_wrong, block, seed: rng.next_u64() }
    }

    fn run(
        &self,
        pair: &mut Pair,
        dir: &TempDir,
        columns: &[(String, usize)],
        tally: &mut Tally,
    ) -> Result<Option<String>> {
        let mut rng = Rng::new(self.seed);
        let list = match &self.list {
            Some(list) => format!(" ({})", list.iter().map(|i| columns[*i].0.as_str()).collect::<Vec<_>>().join(", ")),
            None => String::new(),
        };
        let (options, data) = match &self.data {
            Some(data) => (self.options.sql(columns), data.clone()),
            None => {
                let source = pair.reference.simple(&format!("COPY fuzz{list} TO STDOUT (FORMAT binary)"))?;
                ("(FORMAT binary)".into(), damaged(source.copied.unwrap_or_default(), self.fault, &mut rng))
            }
        };
        let (source, frames) = match self.cut {
            Cut::File => (format!("'{}'", dir.write("fuzz.data", &data)?.display()), Vec::new()),
            _ => ("STDIN".to_owned(), cut(&data, self.cut, &mut rng)),
        };
        let sql = format!("COPY fuzz{list} FROM {source} {options}");
        let input = CopyInput { frames: &frames, fail: self.fail };
        let shown = || format!("  {sql}\n  data: {}", data[..data.len().min(2000)].escape_ascii());
        for before in self.before() {
            pair.reference.run(&before)?;
            pair.cluster.run(&before)?;
        }
        let expected = pair.reference.simple_copy(&sql, input)?;
        let failed = expected.error.is_some();
        match failed {
            true => tally.refused += 1,
            false => tally.accepted += 1,
        }
        let actual = pair.cluster.simple_copy(&sql, input)?;
        if actual.error.as_ref().is_some_and(|error| error.message().starts_with(UNSUPPORTED)) {
            tally.unsupported += 1;
            pair.cluster.simple("ROLLBACK")?;
            pair.reference.simple("ROLLBACK")?;
            for client in [&mut pair.reference, &mut pair.cluster] {
                client.run("TRUNCATE fuzz")?;
                client.run("SET client_encoding = 'UTF8'")?;
            }
            return Ok(None);
        }
        let (expected, actual) = (told(&expected), told(&actual));
        if expected != actual {
            return Ok(Some(format!("{}\n{}", shown(), diff(&expected, &actual))));
        }
        for after in self.after(failed) {
            pair.reference.run(after)?;
            pair.cluster.run(after)?;
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

    /// If the COPY does not name one.
    fn client_encoding(&self) -> Option<&'static str> {
        self.options.encoding_of_session.then_some(ENCODINGS[self.options.encoding].0)
    }

    /// What is sent before the COPY.
    fn before(&self) -> Vec<String> {
        let mut all = Vec::new();
        all.extend(self.client_encoding().map(|name| format!("SET client_encoding = '{name}'")));
        match self.block {
            Block::None => {}
            Block::Savepoint => all.extend(["BEGIN".into(), "SAVEPOINT s".into()]),
            Block::Truncate => all.extend(["BEGIN".into(), "TRUNCATE fuzz".into()]),
        }
        all
    }

    fn after(&self, failed: bool) -> Vec<&'static str> {
        let mut all = match self.block {
            Block::None => vec![],
            Block::Savepoint if failed => vec!["ROLLBACK TO s", "COMMIT"],
            _ if failed => vec!["ROLLBACK"],
            _ => vec!["COMMIT"],
        };
        all.push("SET client_encoding = 'UTF8'");
        all
    }

    /// A row must be found by the value it has: COPY and the planner agree on its place.
    fn look_up(&self, pair: &mut Pair, columns: &[(String, usize)], rng: &mut Rng) -> Result<Option<String>> {
        let (name, kind) = &columns[rng.below(columns.len())];
        let kind = &KINDS[*kind];
        if !kind.is_key {
            return Ok(None);
        }
        // Values beyond ASCII first.
        let sample = format!(
            "SELECT {name}::text FROM fuzz WHERE {name} IS NOT NULL GROUP BY 1 \
             ORDER BY octet_length({name}::text) = length({name}::text), 1 LIMIT 3"
        );
        for row in pair.reference.strings(&sample)? {
            let value = row[0].replace('\\', "\\\\").replace('\'', "''");
            let query = format!("SELECT count(*) FROM fuzz WHERE {name} = E'{value}'::{}", kind.name);
            let (expected, actual) = (pair.reference.simple(&query)?, pair.cluster.simple(&query)?);
            let (expected, actual) = (summary(&expected, false), summary(&actual, false));
            if expected != actual {
                return Ok(Some(format!("  {query}\n{}", diff(&expected, &actual))));
            }
        }
        Ok(None)
    }
}

/// The answer to a COPY. Behind a first line that ends in a bare CR one server looks at a byte more before the line counts as read:
/// one that it cannot convert it tells of as of line 1.
fn told(answer: &Answer) -> String {
    let text = summary(answer, false);
    match answer.error.as_ref().is_some_and(|error| ["22P05", "22021"].contains(&error.code().as_str())) {
        true => text.replace("COPY fuzz, line 2", "COPY fuzz, line 1"),
        false => text,
    }
}

/// What changes how values are read and written; the time zone always, as the servers' own differ.
fn settings(rng: &mut Rng) -> Vec<String> {
    const ZONES: &[&str] = &["UTC", "UTC", "UTC", "'America/New_York'", "'Asia/Kolkata'", "'Europe/Berlin'"];
    const OTHERS: &[&str] = &[
        "DateStyle = 'SQL, DMY'",
        "DateStyle = German",
        "DateStyle = 'Postgres, YMD'",
        "IntervalStyle = sql_standard",
        "bytea_output = escape",
    ];
    let mut all = vec![format!("SET TimeZone = {}", rng.pick(ZONES))];
    if rng.one_in(3) {
        all.push(format!("SET {}", rng.pick(OTHERS)));
    }
    all
}

fn distribution(columns: &[(String, usize)], rng: &mut Rng) -> String {
    let keys: Vec<&str> =
        columns.iter().filter(|(_, kind)| KINDS[*kind].is_key).map(|(name, _)| name.as_str()).collect();
    match rng.below(4) {
        0 => "REPLICATION".into(),
        1 => "ROUNDROBIN".into(),
        _ if keys.is_empty() => "ROUNDROBIN".into(),
        2 if keys.len() > 1 => {
            let first = rng.below(keys.len());
            format!("HASH ({}, {})", keys[first], keys[(first + 1) % keys.len()])
        }
        _ => format!("HASH ({})", keys[rng.below(keys.len())]),
    }
}

/// A column that is unique, if the distribution can keep it so.
fn unique_column(columns: &[(String, usize)], distribution: &str, rng: &mut Rng) -> Option<String> {
    // Random text may be too long, and of that and a duplicate PostgreSQL may report either first.
    let may_be_too_long = |kind: &Kind| kind.good.is_empty() && !kind.bad.is_empty();
    if !rng.one_in(8) || columns.iter().any(|(_, kind)| may_be_too_long(&KINDS[*kind])) {
        return None;
    }
    let key = distribution.strip_prefix("HASH (")?.strip_suffix(')')?;
    columns.iter().find(|(name, _)| name == key).map(|(name, _)| name.clone())
}

fn default(kind: usize) -> String {
    let Kind { name, good, .. } = &KINDS[kind];
    format!("'{}'::{name}", good.first().unwrap_or(&"dflt").replace('\'', "''"))
}

/// Conditions that some rows break: a datanode finds that out, not the splitter of lines.
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

fn cut<'a>(data: &'a [u8], cut: Cut, rng: &mut Rng) -> Vec<&'a [u8]> {
    let mut frames = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let length = match cut {
            Cut::Whole | Cut::File => rest.len(),
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
