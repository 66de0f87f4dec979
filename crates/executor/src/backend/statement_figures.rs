//! What statements have cost, added up over those that differ in their constants only: `loxo_stat_statements`.
//!
//! A statement is one that a client has sent; what it runs in bodies belongs to it. Each coordinator counts its own in memory; whoever
//! asks gets those of all, added up. Counting costs a scan of the text, a look into a table and a lock that is held for that look.
//!
//! Invariants: no more than [`ENTRIES_MAX`] entries, the least used of which make room for new ones; constants are kept of no statement,
//! and of commands, which may have passwords, their name alone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::activity::Activity;

const ENTRIES_MAX: usize = 1000;
/// So many make room when there is no more.
const ROOM: usize = ENTRIES_MAX / 20;
/// Texts that have no shape, and so are read by PostgreSQL's scanner: what they became.
const SPELLINGS_MAX: usize = 200;
/// A longer text without a shape counts by its beginning.
const SCANNED_BYTES_MAX: usize = 16 * 1024;

/// What some executions came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// How many there were that came to their end.
    pub calls: u64,
    /// … and that did not.
    pub errors: u64,
    /// Of those that did, from the message to the answer.
    pub took: Duration,
    /// That they gave or changed.
    pub rows: u64,
    /// That moved between datanodes for them.
    pub rows_moved: u64,
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

/// A session's part: buffers that are used again.
#[derive(Default)]
pub(crate) struct Note {
    key: Vec<u8>,
    shape: planner::Shape,
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
    spellings: HashMap<Box<str>, Box<str>>,
}

impl StatementFigures {
    /// Counts executions of a statement.
    pub(crate) fn count(&self, sql: &str, of: Of<'_>, cost: Cost, note: &mut Note) {
        let has_shape = note.shape.scan(sql);
        let mut entries = self.lock();
        note.key.clear();
        for part in [of.database, of.user, of.plan] {
            note.key.extend_from_slice(part.as_bytes());
            note.key.push(0);
        }
        match has_shape {
            true => note.key.extend_from_slice(note.shape.text()),
            false => note.key.extend_from_slice(entries.spelling(sql).as_bytes()),
        }
        if let Some(known) = entries.all.get_mut(note.key.as_slice()) {
            return known.add(&told(cost));
        }
        let query = match has_shape {
            true => numbered(note.shape.text()),
            false => entries.spelling(sql).to_owned(),
        };
        entries.make_room();
        let line = ToldStatement {
            usename: of.user.to_owned(),
            datname: of.database.to_owned(),
            query: String::from_utf8_lossy(Activity::beginning(query.as_bytes())).into_owned(),
            plan: of.plan.to_owned(),
            ..told(cost)
        };
        entries.all.insert(note.key.as_slice().into(), line);
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
    /// The text with `$n` in place of its constants, as PostgreSQL's scanner finds them.
    fn spelling(&mut self, sql: &str) -> &str {
        if !self.spellings.contains_key(sql) {
            if self.spellings.len() >= SPELLINGS_MAX {
                self.spellings.clear();
            }
            let spelled = Some(sql).filter(|sql| sql.len() <= SCANNED_BYTES_MAX).and_then(planner::without_constants);
            let spelled = spelled.unwrap_or_else(|| first_words(sql));
            self.spellings.insert(sql.into(), spelled.into());
        }
        self.spellings.get(sql).map_or("", |spelled| spelled)
    }

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
        ..ToldStatement::default()
    }
}

/// `$n` in place of the marks of a shape, behind the parameters that the text has itself.
fn numbered(shape: &[u8]) -> String {
    let parameters = shape.split(|byte| *byte == b'$').skip(1).filter_map(|behind| {
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&behind[..digits]).ok()?.parse::<usize>().ok()
    });
    let mut last = parameters.max().unwrap_or(0);
    let mut text = Vec::with_capacity(shape.len() + 16);
    for byte in shape {
        if *byte < b'\t' {
            last += 1;
            text.extend_from_slice(format!("${last}").as_bytes());
        } else {
            text.push(*byte);
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Of what is not read at all: up to its first constant.
fn first_words(sql: &str) -> String {
    let words = sql.split(|c: char| !(c.is_ascii_alphabetic() || c.is_ascii_whitespace())).next().unwrap_or_default();
    format!("{}…", words.trim().chars().take(100).collect::<String>())
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
        for sql in ["SELECT E'a\\n' /* why */", "SELECT E'secret' /* why */"] {
            figures.count(sql, OF, cost(30), &mut note);
        }
        let expected =
            ["SELECT $1 /* why */", "SELECT $2 FROM t WHERE a = $1 AND b = $3"].map(|sql| (sql.to_owned(), 2));
        assert_eq!(lines(&figures), expected);
        figures.reset();
        assert!(lines(&figures).is_empty());
    }

    #[test]
    fn times_are_added_up() {
        let (figures, mut note) = (StatementFigures::default(), Note::default());
        let failed = Cost { errors: 1, ..Cost::default() };
        for cost in [failed, cost(10), cost(40), Cost { rows_moved: 5, ..cost(25) }] {
            figures.count("SELECT a FROM t", OF, cost, &mut note);
        }
        let line = figures.told().pop().unwrap();
        assert_eq!((line.calls, line.errors, line.total, line.min, line.max), (3, 1, 75, 10, 40));
        assert_eq!((line.rows, line.rows_moved, line.plan.as_str()), (6, 5, "forward"));
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
        assert!(figures.told().iter().any(|line| line.query.ends_with('…')));
    }
}
