//! Changes whose rows the home node makes in a temp table before they go where they belong.

use std::fmt::Write as _;
use std::sync::Arc;

use catalog::{NodeId, Relation};

use super::tables::Clauses;
use super::{FinalSql, Input, Route, RowColumn, column_list, names_list};

/// Name of the temp table that new rows go through.
pub const STAGE: &str = "loxo_stage";

/// See [`Plan::InsertStaged`](crate::Plan::InsertStaged). Steps of the executor:
/// 1. make and fill `inputs` (as for [`Gather`](crate::Gather)) on `node`; 2. make the stage there; 3. run `fill` there;
/// 4. read `stage.read_sql` (binary) and route each row by `stage.route`; 5. write the rows on their nodes with
///    [`Stage::copy_sql`] if there is no tail, else with batches of [`InsertStaged::insert_sql`].
///
/// With [`Route::Replicated`] every row goes to all nodes; count and RETURNING rows are those of one of them.
///
/// Steps 1–4 need a session other than the writing ones: a transaction that touched temp tables cannot be PREPAREd.
#[derive(Clone, Debug)]
pub struct InsertStaged {
    /// The home node.
    pub node: NodeId,
    /// Sources of `fill`; empty for VALUES.
    pub inputs: Vec<Input>,
    /// The temp copy of the target and where its rows go.
    pub stage: Stage,
    /// `INSERT INTO loxo_stage (…) …`, run on `node`.
    pub fill: FinalSql,
    /// The target as it stands after INSERT INTO: qualified, with the user's alias if any.
    pub target_sql: String,
    /// `ON CONFLICT …` and `RETURNING …` in the user's words, empty if there are none.
    pub tail: String,
    /// Does the tail name nothing of the target but columns?
    pub names_columns_only: bool,
    /// What is in the tail.
    pub clauses: Clauses,
    /// Highest `$n` of the statement; the row values of `insert_sql` are numbered after it.
    pub parameters: usize,
    /// The rows of the only input may go straight to their nodes if they have the types of these columns and, in the key, their
    /// modifiers: else a value that is not yet as it will be stored would say where.
    pub direct: Option<Direct>,
    /// The statement's text.
    pub original: String,
    /// The user's own text, where his rights may be others than those that this takes: on a view, or on some columns. The home node
    /// says whether he may.
    pub rights_sql: Option<String>,
    /// The target is a view that has to check the rows.
    pub through: Option<Through>,
}

/// A view that rows of a stage go through.
#[derive(Clone, Debug)]
pub struct Through {
    /// What it calls the stage's columns.
    pub columns: Vec<String>,
}

/// Rows that need no stage.
#[derive(Clone, Debug)]
pub struct Direct {
    /// The columns of a row; all others have no default.
    pub columns: Vec<RowColumn>,
    /// Where a row goes (positions count in `columns`).
    pub route: Route,
    /// `COPY target (columns) FROM STDIN (FORMAT binary)`.
    pub copy_sql: String,
}

impl InsertStaged {
    /// Must the rows be written by INSERT? COPY does not write to a table whose policies hold for the user.
    pub fn needs_insert(&self) -> bool {
        !self.tail.is_empty() || self.through.is_some() || self.stage.target.is_barrier
    }

    /// A multi-row INSERT with a placeholder for each value of `rows` rows; the user's own parameters come first.
    pub fn insert_sql(&self, rows: usize) -> String {
        let columns = &self.stage.columns;
        let names = self.through.as_ref().map_or_else(|| column_list(columns), |through| names_list(&through.columns));
        let types: Vec<&str> = columns.iter().map(|column| column.type_name.as_str()).collect();
        let values = values_list(&types, rows, self.parameters);
        let space = if self.tail.is_empty() { "" } else { " " };
        format!("INSERT INTO {} ({names}) OVERRIDING SYSTEM VALUE {values}{space}{}", self.target_sql, self.tail)
    }
}

/// `VALUES ($1::tid, …), …` for so many rows of these types, numbered after the user's parameters.
pub(crate) fn values_list(types: &[&str], rows: usize, parameters: usize) -> String {
    let mut sql = "VALUES ".to_owned();
    let mut number = parameters;
    for row in 0..rows {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        for (at, of) in types.iter().enumerate() {
            number += 1;
            let written = write!(sql, "{}${number}::{of}", if at == 0 { "" } else { ", " });
            debug_assert!(written.is_ok(), "a String takes any text");
        }
        sql.push(')');
    }
    sql
}

/// See [`Plan::StagedDml`](crate::Plan::StagedDml). Steps of the executor:
/// 1. have `original` described, so that PostgreSQL's complaints are about the user's own text; 2. make and fill `inputs`
///    (as for [`Gather`](crate::Gather)) on `node`; 3. make the stage and run every one of `fills` there: each row of the stage is one row
///    to be changed, with the number of its action (`loxo_action`), its node and address (`loxo_node`, `loxo_table`, `loxo_ctid`,
///    NULL for new rows) and `columns`; 4. all DELETEs, then all UPDATEs, then all INSERTs.
///
/// Between 2 and 4 nobody else may change the target's rows unnoticed: REPEATABLE READ, or a lock.
#[derive(Clone, Debug)]
pub struct StagedDml {
    /// The home node.
    pub node: NodeId,
    /// The user's text.
    pub original: String,
    /// `UPDATE`, `DELETE` or `MERGE`.
    pub command: &'static str,
    /// What the fills read.
    pub inputs: Vec<Input>,
    /// The table itself.
    pub target: Arc<Relation>,
    /// What the user's expressions call it.
    pub alias: String,
    /// The stage's columns as CREATE TABLE has them.
    pub definitions: Vec<String>,
    /// `INSERT INTO loxo_stage …`, one for each action.
    pub fills: Vec<FinalSql>,
    /// By their number.
    pub actions: Vec<StagedAction>,
    /// The columns of the stage after the first four.
    pub columns: Vec<RowColumn>,
    /// Where a new or moved row goes (positions count in `columns`).
    pub route: Route,
    /// ` RETURNING …` over the target's columns and `returned` ones of `loxo_v`, or empty.
    pub returning: String,
    /// Columns of other tables that RETURNING gives, at the end of the stage; the home node says their types by `returned_sql`.
    pub returned: Vec<RowColumn>,
    /// A query over the inputs with these columns; empty if there are none.
    pub returned_sql: String,
    /// Highest `$n` of the statement; the values of rows are numbered after it.
    pub parameters: usize,
    /// Why no row may move to another node.
    pub rooted: Option<&'static str>,
    /// A text about a view in whose place this is done: the home node says whether the user may.
    pub rights_sql: Option<String>,
}

/// What happens to a row of the stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagedAction {
    /// It is deleted.
    Delete,
    /// It gets the values of these columns (0-based).
    Update {
        /// Positions in [`StagedDml::columns`].
        columns: Vec<usize>,
        /// One of them is of the key: the row may belong to another node then.
        moves: bool,
    },
    /// It is new.
    Insert,
}

/// A temp table on the home node with the target's columns and defaults, but none of its constraints: PostgreSQL
/// evaluates defaults, casts and sequences there, the real table on the real node checks the constraints.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Bare name of the temp table.
    pub table: String,
    /// Its columns as CREATE TABLE has them.
    pub definitions: Vec<String>,
    /// The real table.
    pub target: Arc<Relation>,
    /// Columns in table order, all but generated ones and such as stay NULL: what `read_sql` gives.
    pub columns: Vec<RowColumn>,
    /// Where a row of `read_sql` goes.
    pub route: Route,
}

impl Stage {
    /// Its rows in the order of insertion.
    pub fn read_sql(&self) -> String {
        format!("SELECT {} FROM {}", column_list(&self.columns), self.table)
    }

    /// `COPY target (columns) FROM STDIN (FORMAT binary)` for a datanode.
    pub fn copy_sql(&self) -> String {
        format!("COPY {} ({}) FROM STDIN (FORMAT binary)", self.target.qualified_name(), column_list(&self.columns))
    }
}
