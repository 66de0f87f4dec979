//! What statements have cost, added up over those that differ in their constants only: `loxo_stat_statements`.
//!
//! A statement is one that a client has sent; what it runs in bodies belongs to it. Each coordinator counts its own in memory; a
//! session that asks gets those of all, added up. Counting costs a scan of the text, a look into a table and a lock that is held
//! for that look; a text that has no [shape](planner::Shape) is read by PostgreSQL's scanner, unless the session has just run the
//! same.
//!
//! Invariants: no more than [`ENTRIES_MAX`] entries, the least used of which make room for new ones; constants are kept of no statement,
//! and of commands, which may have passwords, their name alone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::activity::{Activity, whole_characters};

const ENTRIES_MAX: usize = 1000;
/// Entries that make room when there is no more.
const ROOM: usize = ENTRIES_MAX / 20;
/// A longer text without a shape counts by its beginning.
const SCANNED_BYTES_MAX: usize = 4096;

/// What some executions came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// How many there were that came to their end.
    pub calls: u64,
    /// How many there were that failed.
    pub errors: u64,
    /// Time that the successful ones took, from the message to the answer.
    pub took: Duration,
    /// Rows that they gave or changed.
    pub rows: u64,
    /// Rows that moved between datanodes for them.
    pub rows_moved: u64,
    /// At the gate: to commit, or until a global snapshot was granted.
    pub gate_wait: Duration,
    /// Until datanodes had passed read barriers.
    pub settle_wait: Duration,
}

/// A line of the view. Times are in µs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToldStatement {
    pub(crate) usename: String,
    pub(crate) datname: String,
    pub(crate) query: String,
    pub(crate) plan: String,
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    pub(crate) total: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) rows: u64,
    pub(crate) rows_moved: u64,
    pub(crate) gate_wait: u64,
    pub(crate) settle_wait: u64,
}

impl ToldStatement {
    /// Counts another coordinator's of the same statement.
    pub(crate) fn add(&mut self, other: &Self) {
        self.min = match (self.calls, other.calls) {
            (0, _) => other.min,
            (_, 0) => self.min,
            _ => self.min.min(other.min),
        };
        self.max = self.max.max(other.max);
        self.calls += other.calls;
        self.errors += other.errors;
        self.total += other.total;
        self.rows += other.rows;
        self.rows_moved += other.rows_moved;
        self.gate_wait += other.gate_wait;
        self.settle_wait += other.settle_wait;
    }

    /// What makes it another statement.
    pub(crate) fn key(&self) -> (&str, &str, &str, &str) {
        (&self.datname, &self.usename, &self.query, &self.plan)
    }
}

/// Whose statement it was, and how it was run.
#[derive(Clone, Copy)]
pub(crate) struct Of<'s> {
    pub(crate) user: &'s str,
    pub(crate) database: &'s str,
    pub(crate) plan: &'static str,
}

/// A session's part: buffers that are used again, and the last text that has no shape, with what it became.
#[derive(Default)]
pub(crate) struct Note {
    key: Vec<u8>,
    shape: planner::Shape,
    read: String,
    words: Vec<u8>,
}

impl Note {
    /// The text without its constants, with marks in their places.
    fn words(&mut self, sql: &str) -> &[u8] {
        if self.shape.scan(sql) {
            return self.shape.text();
        }
        if self.read != sql || self.words.is_empty() {
            self.words = match sql.len() <= SCANNED_BYTES_MAX {
                true => planner::without_constants(sql).unwrap_or_else(|| first_words(sql)),
                false => first_words(sql),
            };
            self.read.clear();
            self.read.push_str(if sql.len() <= SCANNED_BYTES_MAX { sql } else { "" });
        }
        &self.words
    }
}

/// What a statement of the client's has spent, with those of the bodies that it runs.
#[derive(Default)]
pub(crate) struct Spent {
    /// The kind of its plan, which is the first that is run.
    pub(crate) plan: Option<&'static str>,
    pub(crate) rows_moved: u64,
    pub(crate) settle_wait: Duration,
    pub(crate) note: Note,
}

impl Spent {
    pub(crate) fn forget(&mut self) {
        (self.plan, self.rows_moved, self.settle_wait) = (None, 0, Duration::ZERO);
    }
}

/// Those of a coordinator.
#[derive(Default)]
pub(crate) struct StatementFigures {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    /// By [`Of`] and the text without constants.
    all: HashMap<Box<[u8]>, ToldStatement>,
}

impl StatementFigures {
    /// Counts executions of a statement.
    pub(crate) fn count(&self, sql: &str, of: Of<'_>, cost: Cost, note: &mut Note) {
        let mut key = std::mem::take(&mut note.key);
        key.clear();
        for part in [of.database, of.user, of.plan] {
            key.extend_from_slice(part.as_bytes());
            key.push(0);
        }
        let words = note.words(sql);
        key.extend_from_slice(words);
        self.add(&key, words, of, cost);
        note.key = key;
    }

    fn add(&self, key: &[u8], words: &[u8], of: Of<'_>, cost: Cost) {
        let mut entries = self.lock();
        if let Some(known) = entries.all.get_mut(key) {
            return known.add(&told(cost));
        }
        entries.make_room();
        let line = ToldStatement {
            usename: of.user.to_owned(),
            datname: of.database.to_owned(),
            query: numbered(words),
            plan: of.plan.to_owned(),
            ..told(cost)
        };
        entries.all.insert(key.into(), line);
    }

    /// All lines.
    pub(crate) fn told(&self) -> Vec<ToldStatement> {
        self.lock().all.values().cloned().collect()
    }

    /// Begins anew.
    pub(crate) fn reset(&self) {
        *self.lock() = Entries::default();
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Drops the least used if there is no room for another.
    fn make_room(&mut self) {
        if self.all.len() < ENTRIES_MAX {
            return;
        }
        let mut uses: Vec<u64> = self.all.values().map(|line| line.calls + line.errors).collect();
        let (_, limit, _) = uses.select_nth_unstable(ROOM);
        let limit = *limit;
        let mut dropped = 0;
        self.all.retain(|_, line| {
            let goes = dropped < ROOM && line.calls + line.errors <= limit;
            dropped += usize::from(goes);
            !goes
        });
    }
}

fn told(cost: Cost) -> ToldStatement {
    let micros = |took: Duration| u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let each = micros(cost.took) / cost.calls.max(1);
    ToldStatement {
        calls: cost.calls,
        errors: cost.errors,
        total: micros(cost.took),
        min: each,
        max: each,
        rows: cost.rows,
        rows_moved: cost.rows_moved,
        gate_wait: micros(cost.gate_wait),
        settle_wait: micros(cost.settle_wait),
        ..ToldStatement::default()
    }
}

/// The beginning of a text with `$n` in place of its marks, behind the parameters that it has itself.
fn numbered(shape: &[u8]) -> String {
    let parameters = shape.split(|byte| *byte == b'$').skip(1).filter_map(|behind| {
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&behind[..digits]).ok()?.parse::<u16>().ok()
    });
    let mut last = parameters.max().map_or(0, u32::from);
    let mut text = Vec::with_capacity(shape.len() + 16);
    for byte in shape {
        if *byte < b'\t' {
            last += 1;
            text.extend_from_slice(format!("${last}").as_bytes());
        } else {
            text.push(*byte);
        }
    }
    whole_characters(Activity::beginning(&text))
}

/// The beginning of a text that is not read at all: up to its first constant.
fn first_words(sql: &str) -> Vec<u8> {
    let is_word = |c: char| c.is_ascii_alphabetic() || c == '_';
    let mut in_word = false;
    let goes_on = |c: &char| {
        in_word = is_word(*c) || in_word && c.is_ascii_digit();
        in_word || c.is_ascii_whitespace() || ".,()*\"".contains(*c)
    };
    let words: String = sql.chars().take(100).take_while(goes_on).collect();
    format!("{}…", words.trim_end()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: Of<'_> = Of { user: "ann", database: "d", plan: "forward" };

    fn cost(us: u64) -> Cost {
        Cost { calls: 1, took: Duration::from_micros(us), rows: 2, ..Cost::default() }
    }

    fn lines(figures: &StatementFigures) -> Vec<(String, u64)> {
        let mut lines: Vec<_> = figures.told().into_iter().map(|line| (line.query, line.calls)).collect();
        lines.sort();
        lines
    }

    #[test]
    fn constants_make_no_other_statement() {
        let (figures, mut note) = (StatementFigures::default(), Note::default());
        for sql in ["SELECT 1 FROM t WHERE a = $1 AND b = 'x'", "SELECT 27 FROM t WHERE a = $1 AND b = 'secret'"] {
            figures.count(sql, OF, cost(10), &mut note);
        }
        for sql in ["SELECT E'a\n' /* why */, 1e3", "SELECT /* secret */ E'secret', 2.5e4 -- secret"] {
            figures.count(sql, OF, cost(30), &mut note);
        }
        for number in ['1', '2'] {
            figures.count(&format!("EXECUTE login('bob', E'{number}')"), OF, cost(1), &mut note);
            figures.count(&format!("COPY t TO PROGRAM 'secret{number}' /* c */"), OF, cost(1), &mut note);
            figures.count(&format!("CREATE TABLE x AS SELECT $$secret{number}$$"), OF, cost(1), &mut note);
            figures.count(&format!("SELECT 1 AS \"$18446744073709551615\", {number}"), OF, cost(1), &mut note);
        }
        let expected = [
            "COPY t TO PROGRAM $1",
            "CREATE TABLE x AS SELECT $1",
            "EXECUTE login ( $1 , $2 )",
            "SELECT $1 , $2",
            "SELECT $1 AS \"$18446744073709551615\", $2",
            "SELECT $2 FROM t WHERE a = $1 AND b = $3",
        ];
        assert_eq!(lines(&figures), expected.map(|sql| (sql.to_owned(), 2)));
        figures.reset();
        assert!(lines(&figures).is_empty());
    }

    #[test]
    fn times_are_added_up() {
        let (figures, mut note) = (StatementFigures::default(), Note::default());
        let failed = Cost { errors: 1, ..Cost::default() };
        let (gate_wait, settle_wait) = (Duration::from_micros(3), Duration::from_micros(4));
        let waited = Cost { rows_moved: 5, gate_wait, settle_wait, ..cost(25) };
        for cost in [failed, cost(10), cost(40), waited] {
            figures.count("SELECT a FROM t", OF, cost, &mut note);
        }
        let line = figures.told().pop().unwrap();
        assert_eq!((line.calls, line.errors, line.total, line.min, line.max), (3, 1, 75, 10, 40));
        assert_eq!((line.rows, line.rows_moved, line.plan.as_str()), (6, 5, "forward"));
        assert_eq!((line.gate_wait, line.settle_wait), (3, 4));
    }

    #[test]
    fn the_least_used_make_room() {
        let (figures, mut note) = (StatementFigures::default(), Note::default());
        for number in 0..ENTRIES_MAX {
            for _ in 0..1 + usize::from(number % 2 == 0) {
                figures.count(&format!("SELECT c{number}"), OF, cost(1), &mut note);
            }
        }
        figures.count("SELECT another", OF, cost(1), &mut note);
        let lines = lines(&figures);
        assert_eq!(lines.len(), ENTRIES_MAX - ROOM + 1);
        assert_eq!(lines.iter().filter(|(_, calls)| *calls == 2).count(), ENTRIES_MAX / 2);
        figures.count(&format!("SELECT {} /*", "x".repeat(20_000)), OF, cost(1), &mut note);
        let long = format!("INSERT INTO t2 (a1, b) VALUES {} /*", "(1, 'secret'), ".repeat(1000));
        figures.count(&long, OF, cost(1), &mut note);
        let shown: Vec<String> =
            figures.told().into_iter().map(|line| line.query).filter(|sql| sql.ends_with('…')).collect();
        assert!(shown.contains(&"INSERT INTO t2 (a1, b) VALUES (…".to_owned()) && shown.len() == 2, "{shown:?}");
    }
}
