//! Statements that the coordinator runs in steps.

#![allow(missing_docs)]

use catalog::Oid;

use super::{BeforeRows, DdlPlan, Each, Explain, Instead, PerRow, Rewritten, Triggered};
use crate::parse::Statement;

/// See [`Plan::Routine`](crate::Plan::Routine).
#[derive(Clone, Debug)]
pub enum Routine {
    /// DO: the source of the block.
    Block { source: String },
    /// CALL.
    Call(RoutineCall),
    /// The calls one after the other; their values are further parameters of the statement.
    Inside { calls: Vec<RoutineCall>, rest: Box<Statement> },
    /// A change of rows, and its triggers.
    TriggeredDml(Box<Triggered>),
    /// What rules make of a change.
    Rewritten(Box<Rewritten>),
    /// An INSERT that needs numbers of sequences first.
    Drawn(Drawn),
    /// Sub-selects that lock rows or have calls in them, and then the statement over their rows.
    Lifted(Lifted),
    /// Calls for each row.
    PerRow(PerRow),
    /// One statement for each row.
    Each(Each),
    /// A query, and what is done with its rows.
    Rows(OfRows),
    /// The statement, whose names need no search path, planned once more: as this role, under [`OWN_PATH`](crate::OWN_PATH).
    As { owner: String, sql: String },
    /// EXPLAIN ANALYZE of a statement that is run in steps: it is run, and told of.
    Explained(Box<Explained>),
    /// A change of a view with INSTEAD OF triggers.
    Instead(Box<Instead>),
    /// A change of a table with triggers BEFORE … FOR EACH ROW.
    Before(Box<BeforeRows>),
}

/// See [`Routine::Explained`].
#[derive(Clone, Debug)]
pub struct Explained {
    pub statement: Statement,
    pub explain: Explain,
}

/// A call.
#[derive(Clone, Debug)]
pub struct RoutineCall {
    pub function: Oid,
    pub name: String,
    pub is_volatile: bool,
    /// No schema is written before the name.
    pub is_bare: bool,
    pub arguments: Vec<Argument>,
    /// What the statement gets of it.
    pub wanted: Wanted,
}

/// An argument, as SQL.
#[derive(Clone, Debug)]
pub struct Argument {
    /// As in `name => value`.
    pub name: Option<String>,
    pub sql: String,
}

/// Which parameters a call's result becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// None.
    Nothing,
    /// Each column of the only row, one parameter each.
    Values(usize),
    /// Each column of all rows as an array.
    Arrays(usize),
}

/// Sub-selects that are run ahead of the statement: see [`rewrite::lifted`](crate::rewrite::lifted).
#[derive(Clone, Debug)]
pub struct Lifted {
    /// The sub-selects in the order they are run; each may read rows of those before it.
    pub parts: Vec<String>,
    /// The statement that reads the rows of all.
    pub rest: String,
    /// The user's parameters.
    pub parameters: usize,
    /// The parts are views, to be [read with their owners' rights](Statement::reading_as_owner).
    pub of_views: bool,
    /// PostgreSQL computes some of the parts only if a row wants them.
    pub may_be_unwanted: bool,
}

impl Lifted {
    /// What a text has in place of the rows of a part, counted from 0.
    pub fn marker(part: usize) -> String {
        format!("SELECT * FROM loxo_locked_{}", part + 1)
    }
}

/// A query that the coordinator runs, and what is done with its rows: see [`rewrite::of_rows`](crate::rewrite::of_rows).
#[derive(Clone, Debug)]
pub struct OfRows {
    /// What gives the rows.
    pub query: String,
    /// What is made before it is filled with them; `None`: the statement itself reads them.
    pub fills: Option<Box<DdlPlan>>,
    /// A function that is called is VOLATILE: after a change in the same transaction it would give something else.
    pub is_volatile: bool,
    /// One may change rows. It is called for all rows, whether they are read or not.
    pub may_write: bool,
}

/// An INSERT that gets numbers of sequences as parameters: see [`dml::drawn`](crate::dml).
#[derive(Clone, Debug)]
pub struct Drawn {
    /// For each sequence the expression that draws a number, and how often; in the order of the further parameters.
    pub draws: Vec<(String, usize)>,
    /// The INSERT with these parameters.
    pub rest: Box<Statement>,
}
