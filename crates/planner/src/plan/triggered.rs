//! Changes of rows whose triggers the coordinator runs.

use std::sync::Arc;

use catalog::Relation;

use super::Plan;

/// A change of rows that fires triggers which the coordinator runs.
#[derive(Clone, Debug)]
pub struct Triggered {
    /// The change itself.
    pub plan: Plan,
    /// Triggers to be run once, before it.
    pub before: Vec<OfStatement>,
    /// Triggers to be run once, after it and after those of its rows.
    pub after: Vec<OfStatement>,
    /// Tables whose rows may have to move because of it.
    pub movable: Vec<Movable>,
}

/// A trigger FOR EACH STATEMENT.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct OfStatement {
    pub schema: String,
    pub table: String,
    pub trigger: String,
    pub operation: &'static str,
}

/// A table with such rows.
#[derive(Clone, Debug)]
pub struct Movable {
    /// The table.
    pub table: Arc<Relation>,
    /// The statement itself sets its key, so no trigger tells of that.
    pub is_target: bool,
    /// Why no row of it may move.
    pub rooted: Option<&'static str>,
}

/// Texts that make the rows, to be run in this order.
#[derive(Clone, Debug)]
pub struct MadeRows {
    /// The temp table.
    pub table: String,
    /// Its columns as CREATE TABLE has them.
    pub definitions: Vec<String>,
    /// Fills it.
    pub fill: String,
    /// Gives its rows, OLD and NEW.
    pub read: String,
    /// Drops it.
    pub drop: String,
}

/// A change of a view with INSTEAD OF triggers: see [`rewrite::instead`](crate::rewrite::instead).
#[derive(Clone, Debug)]
pub struct Instead {
    /// The view, and its schema.
    pub view: String,
    #[allow(missing_docs)]
    pub schema: String,
    /// `INSERT`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// The triggers, in the order in which they are run.
    pub triggers: Vec<String>,
    /// The rows.
    pub rows: MadeRows,
    /// RETURNING over an array of rows, which is the first parameter after those of the user.
    pub returning: Option<String>,
    /// The user's parameters.
    pub parameters: usize,
}

/// A change of a table with triggers BEFORE … FOR EACH ROW: see [`rewrite::before`](crate::rewrite::before).
#[derive(Clone, Debug)]
pub struct BeforeRows {
    /// The table.
    pub table: Arc<Relation>,
    /// `INSERT`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// The command: `operation`, or `COPY`.
    pub command: &'static str,
    /// The triggers, in the order in which they are run.
    pub triggers: Vec<String>,
    /// The rows.
    pub rows: MadeRows,
    /// Each row is stored before the triggers of the next are run.
    pub one_by_one: bool,
    /// The functions may change rows of the table: one that is to be changed must be as it was.
    pub checks_old: bool,
    /// RETURNING over an array of rows, which is the first parameter after those of the user.
    pub returning: Option<String>,
    /// The user's parameters.
    pub parameters: usize,
    /// Triggers to be run once, before all this.
    pub before: Vec<OfStatement>,
    /// And after it.
    pub after: Vec<OfStatement>,
    /// What becomes of a row that meets another, if rows are stored one by one or that fires such triggers too.
    pub conflict: Option<Box<Conflict>>,
    /// Columns that an UPDATE sets.
    pub set: Vec<String>,
    /// Columns by which rows are found again; without any it is their text.
    pub key: Vec<String>,
    /// Stores the rows of an INSERT, an array that is the first parameter after those of the user.
    pub(crate) insert: String,
    /// The table under the name that the statement gives it.
    pub(crate) target: String,
    pub(crate) alias: String,
    pub(crate) whole: String,
}

/// ON CONFLICT DO UPDATE: the INSERT is one that does nothing then.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// The UPDATE of the row that is there, FROM the one that was to be inserted: that is an array, the first parameter after those of the user.
    pub update: BeforeRows,
    /// Columns that are the same in both rows.
    pub columns: Vec<String>,
    /// The row that is there may not be one to be updated.
    pub is_conditional: bool,
}
