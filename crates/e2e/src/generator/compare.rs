//! When are two answers the same?

use pgerror::SqlState;
use testkit::wire::{Answer, Row, describe};

use crate::differential::diff;

/// What came out of one statement on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Both gave these rows.
    Same,
    /// Both gave this error.
    SameError(String),
    /// The cluster answered 0A000 with this message, one PostgreSQL did not.
    Refused(String),
    /// A timeout: nothing to compare.
    Skipped,
    /// Anything else.
    Differs(Difference),
}

/// A wrong answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// SQLSTATE of either side, empty without an error: shrinking must not run after another difference.
    pub codes: (String, String),
    /// What is on one side only.
    pub text: String,
}

/// Compares what one server and what the cluster said. Of errors only the SQLSTATE counts: which of several bad rows is
/// met first is open.
pub fn compare(expected: &Answer, actual: &Answer, ordered: bool) -> Comparison {
    let (left, right) = (code(expected), code(actual));
    if [&left, &right].contains(&&SqlState::QUERY_CANCELED.to_string()) {
        return Comparison::Skipped;
    }
    if right == SqlState::FEATURE_NOT_SUPPORTED.to_string() && left != right {
        return Comparison::Refused(actual.error.as_ref().map(|error| error.message()).unwrap_or_default().to_string());
    }
    // PostgreSQL's own mistake: a min() that it looks up by an ordered sub-select inherits WITH TIES, and finds several.
    if left == SqlState::CARDINALITY_VIOLATION.to_string() && right.is_empty() {
        return Comparison::Skipped;
    }
    // A change in a READ ONLY block may be wrong in another way too.
    if right == SqlState::READ_ONLY_SQL_TRANSACTION.to_string() && !left.is_empty() && expected.status == actual.status
    {
        return Comparison::SameError(right);
    }
    let (one, other) = (summary(expected, ordered), summary(actual, ordered));
    match (one == other, left.is_empty()) {
        (true, true) => Comparison::Same,
        (true, false) => Comparison::SameError(left),
        (false, _) => {
            let messages = [expected, actual].map(|answer| answer.error.as_ref().map(describe).unwrap_or_default());
            let text = format!("{}    {}\n", difference(&one, &other), messages.join("\n    "));
            Comparison::Differs(Difference { codes: (left, right), text })
        }
    }
}

fn difference(one: &str, other: &str) -> String {
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    if sorted(one) != sorted(other) {
        return diff(one, other);
    }
    let lines = one.lines().zip(other.lines()).find(|(one, other)| one != other).unwrap_or_default();
    format!("    another order, first:\n    one server:{}\n    the cluster:{}\n", lines.0, lines.1)
}

fn code(answer: &Answer) -> String {
    answer.error.as_ref().map(|error| error.code().to_string()).unwrap_or_default()
}

/// All that has to be the same, one fact a line.
fn summary(answer: &Answer, ordered: bool) -> String {
    const FIRST_USER_OID: u32 = 16384;
    const NUMERIC: u32 = 1700;
    let mut lines = vec![format!("  status {}", answer.status)];
    if let Some(error) = &answer.error {
        lines.push(format!("  error {}\n", error.code()));
        return lines.join("\n");
    }
    let columns = answer.columns.as_deref().unwrap_or_default();
    for column in columns {
        let oid = column.type_oid.min(FIRST_USER_OID);
        lines.push(format!("  column {:?} type {oid} modifier {}", column.name, column.type_modifier));
    }
    lines.extend(answer.tag.iter().map(|tag| format!("  tag {tag}")));
    let is_numeric: Vec<bool> = columns.iter().map(|column| column.type_oid == NUMERIC).collect();
    let mut rows: Vec<String> = answer.rows.iter().map(|values| row(values, &is_numeric)).collect();
    if let Some(copied) = &answer.copied {
        rows.extend(copied.split_inclusive(|byte| *byte == b'\n').map(|line| format!("  | {}", line.escape_ascii())));
    }
    if !ordered {
        rows.sort_unstable();
    }
    lines.extend(rows);
    lines.join("\n") + "\n"
}

fn row(values: &Row, is_numeric: &[bool]) -> String {
    let text = |(number, value): (usize, &Option<bytes::Bytes>)| match value {
        None => "NULL".to_owned(),
        Some(value) => {
            let text = value.escape_ascii().to_string();
            let numeric = is_numeric.get(number).copied().unwrap_or_default();
            format!("'{}'", if numeric { without_zeros(&text) } else { &text })
        }
    };
    format!("  ({})", values.iter().enumerate().map(text).collect::<Vec<_>>().join(", "))
}

/// 1.50 and 1.5 are equal, so which of them stands for a group is open.
fn without_zeros(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}
