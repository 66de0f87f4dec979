//! Is the cluster's answer that of one server?

use pgerror::{PgError, Result, SqlState};

use crate::beside::Timed;
use crate::suite::{Readings, Samples, WRONG};

/// Words of a sample.
const REFUSED: &str = "refused";
const FAILED: &str = "failed";
const GIVEN_UP: &str = "given_up";
const NOT_COMPARED: &str = "not_compared";
const RIGHT: &str = "right";

/// What one server says.
pub(super) enum Reference<'a> {
    /// Its rows.
    Rows(&'a [Vec<String>]),
    /// It has none either.
    None(&'a PgError),
}

/// On one answer of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Says what is to be known beside, if there is something.
    Right(String),
    /// How it differs.
    Wrong(String),
    /// SQLSTATE 0A000 where one server answers.
    Refused(String),
    /// Another error where one server answers.
    Failed(String),
    /// The time limit.
    GivenUp(String),
    /// One server does not answer: its error.
    NotCompared(String),
}

/// How many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) right: usize,
    pub(super) wrong: usize,
    pub(super) refused: usize,
    pub(super) failed: usize,
    pub(super) given_up: usize,
    pub(super) not_compared: usize,
}

impl<'a> Reference<'a> {
    /// A query that takes too long without workers may be answered with them.
    pub(super) fn of(plain: &'a Result<Timed>, workers: &'a Result<Timed>) -> Self {
        match (plain, workers) {
            (Ok(found), _) | (Err(_), Ok(found)) => Self::Rows(&found.rows),
            (Err(error), Err(_)) => Self::None(error),
        }
    }
}

impl Verdict {
    pub(super) fn of(reference: &Reference<'_>, cluster: &Result<Timed>) -> Self {
        let named = |error: &PgError| format!("{} ({})", error.message(), error.code());
        match (reference, cluster) {
            (_, Err(error)) if error.code() == SqlState::QUERY_CANCELED => Self::GivenUp(named(error)),
            (Reference::None(error), Err(same)) if error.code() == same.code() => {
                Self::Right(format!("the error of one server, {}", named(error)))
            }
            (Reference::None(error), _) => Self::NotCompared(named(error)),
            (Reference::Rows(expected), Ok(found)) => Self::of_rows(expected, &found.rows),
            (_, Err(error)) if error.code() == SqlState::FEATURE_NOT_SUPPORTED => Self::Refused(named(error)),
            (_, Err(error)) => Self::Failed(named(error)),
        }
    }

    fn of_rows(expected: &[Vec<String>], found: &[Vec<String>]) -> Self {
        if expected == found {
            return Self::Right(String::new());
        }
        let sorted = |rows: &[Vec<String>]| {
            let mut rows = rows.to_vec();
            rows.sort();
            rows
        };
        let (expected, found) = (sorted(expected), sorted(found));
        if expected == found {
            return Self::Right("in another order".to_owned());
        }
        let first = found.iter().find(|row| expected.binary_search(row).is_err());
        let first =
            first.map_or(String::new(), |row| format!("; the first that is not among them: {}", row.join(" | ")));
        Self::Wrong(format!("{} rows, not the {} of one server{first}", found.len(), expected.len()))
    }

    pub(super) fn noted_in(&self, readings: Readings) -> Readings {
        match self {
            Self::Right(note) if note.is_empty() => readings,
            Self::Right(note) => readings.word(RIGHT, note),
            Self::Wrong(text) => readings.word(WRONG, text),
            Self::Refused(text) => readings.word(REFUSED, text),
            Self::Failed(text) => readings.word(FAILED, text),
            Self::GivenUp(text) => readings.word(GIVEN_UP, text),
            Self::NotCompared(text) => readings.word(NOT_COMPARED, text),
        }
    }

    /// What it was called in all rounds of a point, the worst one first, with its text; `None` if it was not measured.
    pub(super) fn read(samples: &Samples, point: &str, tally: &mut Tally) -> Option<String> {
        samples.at(point).next()?;
        let word = |name: &str| samples.at(point).find_map(|sample| sample.readings.words.get(name));
        let all = [
            (WRONG, "WRONG", &mut tally.wrong),
            (FAILED, "error", &mut tally.failed),
            (REFUSED, "refused", &mut tally.refused),
            (GIVEN_UP, "given up", &mut tally.given_up),
            (NOT_COMPARED, "not compared: one server does not answer", &mut tally.not_compared),
            (RIGHT, "right", &mut tally.right),
        ];
        for (name, shown, count) in all {
            if let Some(text) = word(name) {
                *count += 1;
                return Some(format!("{shown}: {text}"));
            }
        }
        tally.right += 1;
        Some("right".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&str]) -> Result<Timed> {
        Ok(Timed { rows: rows.iter().map(|row| vec![(*row).to_owned()]).collect(), seconds: 1.0 })
    }

    fn error(code: SqlState) -> Result<Timed> {
        Err(PgError::new(code, "no"))
    }

    fn verdict(plain: &Result<Timed>, cluster: &Result<Timed>) -> Verdict {
        Verdict::of(&Reference::of(plain, &error(SqlState::QUERY_CANCELED)), cluster)
    }

    #[test]
    fn answers_are_told_apart() {
        let expected = rows(&["a", "b"]);
        assert_eq!(verdict(&expected, &rows(&["a", "b"])), Verdict::Right(String::new()));
        assert_eq!(verdict(&expected, &rows(&["b", "a"])), Verdict::Right("in another order".to_owned()));
        let Verdict::Wrong(how) = verdict(&expected, &rows(&["a", "c", "d"])) else { panic!() };
        assert_eq!(how, "3 rows, not the 2 of one server; the first that is not among them: c");
        assert!(matches!(verdict(&expected, &rows(&["a"])), Verdict::Wrong(_)));
        assert!(matches!(verdict(&expected, &rows(&["a", "a"])), Verdict::Wrong(_)));
        assert_eq!(
            verdict(&expected, &error(SqlState::FEATURE_NOT_SUPPORTED)),
            Verdict::Refused("no (0A000)".to_owned())
        );
        assert_eq!(verdict(&expected, &error(SqlState::QUERY_CANCELED)), Verdict::GivenUp("no (57014)".to_owned()));
        assert_eq!(verdict(&expected, &error(SqlState::INTERNAL_ERROR)), Verdict::Failed("no (XX000)".to_owned()));
        let none = error(SqlState::SYNTAX_ERROR);
        assert_eq!(verdict(&none, &rows(&["a"])), Verdict::NotCompared("no (42601)".to_owned()));
        assert!(matches!(verdict(&none, &error(SqlState::SYNTAX_ERROR)), Verdict::Right(_)));
        assert!(matches!(verdict(&none, &error(SqlState::INTERNAL_ERROR)), Verdict::NotCompared(_)));
        let slow = error(SqlState::QUERY_CANCELED);
        assert!(matches!(verdict(&slow, &error(SqlState::QUERY_CANCELED)), Verdict::GivenUp(_)));
        assert!(matches!(verdict(&slow, &rows(&["a"])), Verdict::NotCompared(_)));
    }

    #[test]
    fn with_workers_one_server_may_answer_in_time() {
        let (plain, workers) = (error(SqlState::QUERY_CANCELED), rows(&["a"]));
        assert_eq!(Verdict::of(&Reference::of(&plain, &workers), &rows(&["a"])), Verdict::Right(String::new()));
    }
}
