//! Functions that are called for each row: see [`rewrite::per_row`](crate::rewrite::per_row).

use crate::parse::Statement;

/// The calls, and what is around them.
#[derive(Clone, Debug)]
pub struct PerRow {
    /// A statement that gives the rows; its columns are the first slots.
    pub rows: String,
    /// Number of its columns.
    pub columns: usize,
    /// In the order in which they are made for each row.
    pub calls: Vec<RowCall>,
    /// The rest of the statement, over all rows.
    pub rest: String,
    /// The rows come of a change: its command tag is the whole's.
    pub changes_first: bool,
    /// The rest is run for each row before the next one's calls: these see what it has changed.
    pub one_by_one: bool,
    /// No more rows are of use once so many have passed.
    pub enough: Option<Enough>,
    /// The user's parameters; those of slots follow.
    pub parameters: usize,
    /// A function is VOLATILE.
    pub is_volatile: bool,
}

/// A call for each row.
#[derive(Clone, Debug)]
pub struct RowCall {
    /// A query that calls the function.
    pub sql: String,
    /// A query whose only value says whether the call is made.
    pub when: Option<String>,
    /// Slots that it fills.
    pub columns: usize,
    /// Their values are arrays, with an element for each row of its result.
    pub is_set: bool,
    /// What the first row that gets there has of it, all have.
    pub once: bool,
}

/// How many rows are enough.
#[derive(Clone, Debug)]
pub struct Enough {
    /// A query whose only value says whether a row counts.
    pub when: Option<String>,
    /// A query whose only value is their number, NULL for all.
    pub count: String,
}

impl PerRow {
    /// What a text has in place of the name of a slot's type, counted from 0.
    pub fn type_marker(slot: usize) -> String {
        format!("loxo_type_of_slot_{slot}_")
    }
}

/// Statements that are run one after the other. Together they are one, with the sum of their rows.
#[derive(Clone, Debug)]
pub struct Each {
    /// In their order.
    pub statements: Vec<Statement>,
}
