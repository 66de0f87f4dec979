//! Runs random statements on both sides, in and out of transactions, in both protocols; shrinks and prints what differs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pgerror::Result;
use testkit::Rng;
use testkit::wire::{Answer, Client, CopyInput};

use super::compare::{Comparison, Difference, compare};
use super::part::{Constants, Part, Rendered};
use super::query::Query;
use super::scope::Generator;
use super::shrink::shrink;
use super::world::{Table, World};
use crate::differential::Pair;

/// Statements or blocks of one world.
const STEPS: usize = 100;
/// More failures than this in one world add nothing.
const FAILURES_MAX: usize = 4;
/// Random joins can become large; such a statement proves nothing.
const TIMEOUT: &str = "SET statement_timeout = '10s'";

/// How blocks begin. Rows are gathered in another session if a block may not write.
const BLOCKS: &[&str] = &[
    "BEGIN",
    "BEGIN",
    "BEGIN",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "BEGIN READ ONLY",
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
];

/// What came out of all statements.
#[derive(Debug, Default)]
pub struct Tally {
    /// Both sides gave the same rows.
    pub same: usize,
    /// Both sides gave the same error, by SQLSTATE: a generator that mostly makes wrong statements tests little.
    pub errors: BTreeMap<String, Counted>,
    /// The cluster refused, by its message without names.
    pub refused: BTreeMap<String, Counted>,
    /// Timeouts.
    pub skipped: usize,
}

/// How often, and the shortest statement that did it.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Counted {
    pub count: usize,
    pub example: String,
}

impl Tally {
    /// Statements that were compared or refused.
    pub fn statements(&self) -> usize {
        self.same + sum(&self.errors) + self.refusals()
    }

    /// Statements that the cluster refused.
    pub fn refusals(&self) -> usize {
        sum(&self.refused)
    }

    /// What was refused and which errors came, the most frequent first.
    pub fn table(&self) -> String {
        let (errors, refusals) = (sum(&self.errors), self.refusals());
        let share = 100.0 * refusals as f64 / self.statements().max(1) as f64;
        format!(
            "{} gave the same rows, {errors} the same error, {refusals} were refused ({share:.2} %), {} timed out\n\
             errors on both sides:\n{}refused:\n{}",
            self.same,
            self.skipped,
            rows(&self.errors),
            rows(&self.refused)
        )
    }

    fn count(&mut self, comparison: &Comparison, sql: &str) {
        let (map, key) = match comparison {
            Comparison::Same => return self.same += 1,
            Comparison::Skipped => return self.skipped += 1,
            Comparison::Differs(_) => return,
            Comparison::SameError(code) => (&mut self.errors, code.clone()),
            Comparison::Refused(message) => (&mut self.refused, without_names(message)),
        };
        let entry = map.entry(key).or_default();
        entry.count += 1;
        if entry.count == 1 || sql.len() < entry.example.len() {
            entry.example = sql.to_owned();
        }
    }
}

fn sum(map: &BTreeMap<String, Counted>) -> usize {
    map.values().map(|counted| counted.count).sum()
}

fn rows(map: &BTreeMap<String, Counted>) -> String {
    let mut rows: Vec<_> = map.iter().collect();
    rows.sort_by_key(|(_, counted)| std::cmp::Reverse(counted.count));
    let line =
        |(key, counted): (&String, &Counted)| format!("{:6}  {key}\n        {}\n", counted.count, counted.example);
    rows.into_iter().map(line).collect()
}

/// A message with `"name"` as `"…"`, so that messages about different tables count as one.
fn without_names(message: &str) -> String {
    let mut quoted = false;
    let mut text = String::new();
    for character in message.chars() {
        if character == '"' {
            quoted = !quoted;
            text.push_str(if quoted { "\"…" } else { "\"" });
        } else if !quoted {
            text.push(character);
        }
    }
    text
}

/// Runs the statements of one world; gives what differs, each ready to be pasted into a case file.
///
/// # Errors
/// When a connection breaks.
pub fn run(pair: &mut Pair, seed: u64, tally: &mut Tally) -> Result<Vec<String>> {
    let world = World::new(seed);
    let mut session = Session { pair, world: &world, tally, in_block: false, log: Vec::new(), fresh_id: 10_000 };
    session.create()?;
    let mut rng = Rng::new(seed.wrapping_mul(0x1234_5678_9abc_def1));
    let mut failures = Vec::new();
    for step in 0..STEPS {
        let statement = rng.next_u64();
        let result = match rng.below(20) {
            0..=9 => session.query(statement)?,
            10..=12 => session.with_parameters(statement)?,
            13..=16 => session.change(statement)?,
            17 | 18 => session.block(statement)?,
            _ => session.prepared(statement)?,
        };
        if let Some(failure) = result {
            failures.push(format!("seed {seed}, step {step}\n{failure}"));
            if session.is_apart()? || failures.len() == FAILURES_MAX {
                break;
            }
        }
    }
    Ok(failures)
}

struct Session<'a> {
    pair: &'a mut Pair,
    world: &'a World,
    tally: &'a mut Tally,
    in_block: bool,
    /// Changes since the world was made.
    log: Vec<String>,
    fresh_id: usize,
}

impl Session<'_> {
    fn create(&mut self) -> Result<()> {
        let distributed = self.pair.distributed;
        for (client, distributed) in [(&mut self.pair.reference, false), (&mut self.pair.cluster, distributed)] {
            for statement in ["SET client_min_messages = error", "SET TimeZone = 'UTC'", TIMEOUT] {
                client.run(statement)?;
            }
            for statement in [
                "DROP SCHEMA IF EXISTS fuzz_queries CASCADE",
                "DROP TABLE IF EXISTS tmp",
                "CREATE SCHEMA fuzz_queries",
                "SET search_path = fuzz_queries",
            ] {
                client.run(statement)?;
            }
            for statement in self.world.statements(distributed) {
                client.run(&statement).map_err(|error| error.context(statement.clone()))?;
            }
        }
        Ok(())
    }

    /// Runs one text on both sides at once.
    fn both(&mut self, sql: &str) -> Result<(Answer, Answer)> {
        self.pair.cluster.send_query(sql)?;
        self.pair.reference.send_query(sql)?;
        let expected = telling(self.pair.reference.wait()?);
        let actual = telling(self.pair.cluster.wait()?);
        Ok((expected, actual))
    }

    /// Runs one text on both sides; neither may fail.
    fn command(&mut self, sql: &str) -> Result<()> {
        let (expected, actual) = self.both(sql)?;
        expected.error.map_or(Ok(()), Err)?;
        actual.error.map_or(Ok(()), |error| Err(error.context(sql.to_owned())))
    }

    fn begin_step(&mut self) -> Result<()> {
        if self.in_block { self.command("SAVEPOINT step") } else { Ok(()) }
    }

    /// Also undoes what a statement did on one side only.
    fn end_step(&mut self, keep: bool) -> Result<()> {
        match (self.in_block, keep) {
            (true, true) => self.command("RELEASE step"),
            (true, false) => self.command("ROLLBACK TO step"),
            (false, _) => Ok(()),
        }
    }

    fn compared(&mut self, sql: &str, ordered: bool) -> Result<Comparison> {
        self.begin_step()?;
        let (mut expected, mut actual) = self.both(sql)?;
        // Columns of a prepared statement one server describes before constants are folded, a datanode that is asked anew afterwards.
        if sql.starts_with("EXECUTE ") {
            let columns = [&mut expected, &mut actual].into_iter().flat_map(|answer| &mut answer.columns).flatten();
            columns.for_each(|column| column.type_modifier = -1);
        }
        let comparison = compare(&expected, &actual, ordered);
        self.end_step(comparison == Comparison::Same)?;
        Ok(comparison)
    }

    fn query(&mut self, seed: u64) -> Result<Option<String>> {
        let query = Generator::new(self.world, seed).query();
        let form = Form::of(seed / 4, self.in_block, &query);
        // Other constants in the same words: what is kept of the first must not stand for the second.
        let turns = if seed.is_multiple_of(4) { 0..3 } else { 0..1 };
        for turn in turns {
            let render = |part: &Part| form.wrap(part.render(Constants::Inline, turn));
            let found = self.asked(&query, render, |session, now, ordered| session.compared(&now.text, ordered))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn with_parameters(&mut self, seed: u64) -> Result<Option<String>> {
        let query = Generator::new(self.world, seed).query();
        for turn in 0..2 {
            let render = |part: &Part| part.render(Constants::Parameters, turn);
            let found = self.asked(&query, render, |session, now, ordered| session.extended(now, ordered))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Asks a query by `ask`, which is also told whether the order of rows counts. Gives the shrunk case of a wrong answer.
    fn asked(
        &mut self,
        query: &Query,
        render: impl Fn(&Part) -> Rendered,
        mut ask: impl FnMut(&mut Self, &Rendered, bool) -> Result<Comparison>,
    ) -> Result<Option<String>> {
        let whole = render(&query.part(false));
        let comparison = ask(self, &whole, query.ordered)?;
        self.tally.count(&comparison, &whole.text);
        let Comparison::Differs(difference) = comparison else { return Ok(None) };
        let about_order = query.ordered && ask(self, &whole, false)? == Comparison::Same;
        self.shrunk(query.part(about_order), difference, render, |session, now| ask(session, now, about_order))
    }

    fn extended(&mut self, rendered: &Rendered, ordered: bool) -> Result<Comparison> {
        let parameters: Vec<Option<&str>> = rendered.parameters.iter().map(|value| Some(value.as_str())).collect();
        let send = |client: &mut Client| client.extended(&rendered.text, &parameters, CopyInput::default(), |_| false);
        let actual = send(&mut self.pair.cluster)?;
        let expected = send(&mut self.pair.reference)?;
        Ok(compare(&expected, &actual, ordered))
    }

    /// `PREPARE`, a schema change, and `EXECUTE` before and after it.
    fn prepared(&mut self, seed: u64) -> Result<Option<String>> {
        let mut rng = Rng::new(seed);
        let query = Generator::new(self.world, seed).query();
        let (part, ordered) = (query.part(false), query.ordered);
        let rendered = part.render(Constants::Parameters, 0);
        let table = &self.world.tables[rng.below(self.world.tables.len() - 2)];
        let (name, column) = (&table.name, &table.columns[table.columns.len() - 1].0);
        let between = [
            format!("CREATE INDEX fuzz_index ON {name} (id)"),
            "DROP INDEX IF EXISTS fuzz_index".to_owned(),
            format!("ALTER TABLE {name} ADD COLUMN extra int DEFAULT 7"),
            format!("ALTER TABLE {name} DROP COLUMN extra"),
            format!("ALTER TABLE {name} ALTER COLUMN {column} DROP DEFAULT"),
            format!("ANALYZE {name}"),
        ];
        let prepare = match rendered.types.is_empty() {
            true => format!("PREPARE fuzz AS {}", rendered.text),
            false => format!("PREPARE fuzz ({}) AS {}", rendered.types.join(", "), rendered.text),
        };
        let execute = |turn: usize| {
            let values = part.render(Constants::Parameters, turn).parameters;
            let values: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
            match values.is_empty() {
                true => "EXECUTE fuzz".to_owned(),
                false => format!("EXECUTE fuzz ({})", values.join(", ")),
            }
        };
        let start = rng.below(2) * 2;
        let texts = [&prepare, &execute(0), &between[start], &execute(1), &between[start + 1], &execute(2)];
        let mut failure = None;
        for (number, sql) in texts.iter().enumerate() {
            let comparison = self.compared(sql, ordered)?;
            self.tally.count(&comparison, sql);
            match comparison {
                Comparison::Differs(difference) => {
                    let texts: Vec<&str> = texts[..=number].iter().map(|text| text.as_str()).collect();
                    failure = Some(self.case(&texts.join(";\n"), &difference)?);
                    break;
                }
                // A statement that is not prepared on both sides has nothing to execute.
                Comparison::SameError(_) | Comparison::Refused(_) | Comparison::Skipped if number == 0 => break,
                _ => {}
            }
        }
        for client in [&mut self.pair.reference, &mut self.pair.cluster] {
            client.simple("DEALLOCATE fuzz")?;
            client.simple("DROP INDEX IF EXISTS fuzz_index")?;
            client.simple(&format!("ALTER TABLE {name} DROP COLUMN IF EXISTS extra"))?;
        }
        Ok(failure)
    }

    fn block(&mut self, seed: u64) -> Result<Option<String>> {
        let mut rng = Rng::new(seed);
        let begin = BLOCKS[rng.below(BLOCKS.len())];
        self.command(begin)?;
        self.in_block = true;
        self.log.push(begin.to_owned());
        let mut failure = None;
        for _ in 0..2 + rng.below(5) {
            let statement = rng.next_u64();
            failure = if rng.one_in(2) { self.query(statement)? } else { self.change(statement)? };
            if failure.is_some() {
                break;
            }
        }
        let end = if rng.one_in(3) || failure.is_some() { "ROLLBACK" } else { "COMMIT" };
        self.in_block = false;
        self.log.push(end.to_owned());
        self.command(end)?;
        if failure.is_none() && self.is_apart()? {
            let difference = Difference { codes: Default::default(), text: "    after the block\n".to_owned() };
            failure = Some(self.case("", &difference)?);
        }
        Ok(failure)
    }

    fn change(&mut self, seed: u64) -> Result<Option<String>> {
        self.fresh_id += 500;
        let change = Generator::new(self.world, seed).change(self.fresh_id);
        let render = |part: &Part| part.render(Constants::Inline, 0);
        let sql = render(&change.part).text;
        let comparison = self.changed(&sql, &change.table, true)?;
        self.tally.count(&comparison, &sql);
        let Comparison::Differs(difference) = comparison else { return Ok(None) };
        if self.in_block {
            return self.shrunk(change.part, difference, render, |session, now| {
                session.changed(&now.text, &change.table, false)
            });
        }
        let after = self.case(&sql, &difference)?;
        // Outside a block the change has happened. It is tried again on new tables, in blocks that are rolled back.
        let log = std::mem::take(&mut self.log);
        self.create()?;
        self.command("BEGIN")?;
        self.in_block = true;
        let again = self.changed(&sql, &change.table, false)?;
        let shrunk = match again {
            Comparison::Differs(difference) => self.shrunk(change.part, difference, render, |session, now| {
                session.changed(&now.text, &change.table, false)
            })?,
            _ => None,
        };
        self.in_block = false;
        self.command("ROLLBACK")?;
        Ok(shrunk.or(Some(format!("{after}\n  only after these changes:\n{}", log.join(";\n")))))
    }

    /// The cluster goes first: what it refuses must not happen on the other side.
    fn changed(&mut self, sql: &str, table: &str, keep: bool) -> Result<Comparison> {
        self.begin_step()?;
        let actual = self.pair.cluster.simple(sql)?;
        let code = actual.error.as_ref().map(|error| error.code());
        if code == Some(pgerror::SqlState::FEATURE_NOT_SUPPORTED) {
            self.end_step(false)?;
            return Ok(Comparison::Refused(actual.error.map(|error| error.message().into_owned()).unwrap_or_default()));
        }
        let expected = self.pair.reference.simple(sql)?;
        let mut comparison = compare(&expected, &actual, false);
        if comparison == Comparison::Same {
            let (expected, actual) = self.both(&format!("SELECT * FROM {table}"))?;
            comparison = compare(&expected, &actual, false);
        }
        let same = comparison == Comparison::Same;
        self.end_step(same && keep)?;
        if same && keep {
            self.log.push(sql.to_owned());
        }
        Ok(comparison)
    }

    /// Have the two sides other rows?
    fn is_apart(&mut self) -> Result<bool> {
        for table in self.world.tables.iter().filter(|table| table.is_changed) {
            let (expected, actual) = self.both(&format!("SELECT * FROM {}", table.name))?;
            if compare(&expected, &actual, false) != Comparison::Same {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn shrunk(
        &mut self,
        part: Part,
        difference: Difference,
        rendered: impl Fn(&Part) -> Rendered,
        mut attempt: impl FnMut(&mut Self, &Rendered) -> Result<Comparison>,
    ) -> Result<Option<String>> {
        let mut last = difference.clone();
        let part = shrink(part, |part| {
            let comparison = attempt(self, &rendered(part))?;
            Ok(match comparison {
                Comparison::Differs(now) if now.codes == difference.codes => {
                    last = now;
                    true
                }
                _ => false,
            })
        })?;
        let Rendered { text, parameters, .. } = rendered(&part);
        let values = match parameters.is_empty() {
            true => String::new(),
            false => format!("-- params: {}\n", parameters.join(" | ")),
        };
        self.case(&format!("{values}{text}"), &last).map(Some)
    }

    /// Tables, rows and statement as a case file has them.
    fn case(&mut self, sql: &str, difference: &Difference) -> Result<String> {
        let mut text = String::new();
        let mut needed: Vec<&Table> = Vec::new();
        let words = |text: &str| -> Vec<String> {
            text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
        };
        let mut mentioned = words(sql);
        for table in self.world.tables.iter().rev().filter(|table| !table.is_changed) {
            if mentioned.contains(&table.name) {
                mentioned.extend(table.statements.iter().flat_map(|statement| words(statement)));
            }
        }
        needed.extend(self.world.tables.iter().filter(|table| mentioned.contains(&table.name)));
        for table in needed {
            for statement in table.statements.iter().filter(|statement| !statement.starts_with("INSERT")) {
                let _ = writeln!(text, "{statement};");
            }
            if table.is_changed {
                let values: Vec<String> =
                    table.columns.iter().map(|(name, _)| format!("quote_nullable({name}::text)")).collect();
                let query = format!("SELECT concat_ws(', ', {}) FROM {}", values.join(", "), table.name);
                // A failed block has nothing to say.
                let rows: Vec<String> = self.pair.reference.strings(&query).unwrap_or_default().concat();
                let rows: Vec<String> = rows.iter().map(|row| format!("({row})")).collect();
                if !rows.is_empty() {
                    let _ = writeln!(text, "INSERT INTO {} VALUES {};", table.name, rows.join(", "));
                }
            }
        }
        let place = if self.in_block { "in a block: " } else { "" };
        let _ = writeln!(text, "{sql};\n  {place}{}", difference.text.trim_start());
        Ok(text)
    }
}

/// Among several statements' answers the one with an error, or else with rows.
fn telling(answers: Vec<Answer>) -> Answer {
    let weight = |answer: &Answer| (answer.error.is_some(), answer.columns.is_some());
    answers.into_iter().max_by_key(weight).unwrap_or_default()
}

/// What else gives the rows of a query.
#[derive(Clone, Copy, Debug)]
enum Form {
    Query,
    Copy,
    Cursor,
}

impl Form {
    fn of(seed: u64, in_block: bool, query: &Query) -> Self {
        match seed % 8 {
            // COPY shows whether an equal number was 1.5 or 1.50, which is open.
            0 | 1 if !query.has_numeric => Self::Copy,
            2..=4 if in_block => Self::Cursor,
            _ => Self::Query,
        }
    }

    fn wrap(self, query: Rendered) -> Rendered {
        let text = match self {
            Self::Query => return query,
            Self::Copy => format!("COPY ({}) TO STDOUT", query.text),
            Self::Cursor => format!("DECLARE fuzz CURSOR FOR {}; FETCH ALL FROM fuzz; CLOSE fuzz", query.text),
        };
        Rendered { text, ..query }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_different_tables_are_one() {
        assert_eq!(without_names("cannot lock rows of \"t1\" here"), "cannot lock rows of \"…\" here");
    }
}
