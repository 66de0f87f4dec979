//! Runs the bodies of functions, procedures and DO blocks statement by statement, for those that no node can run since no
//! node has all rows.
//!
//! ```text
//! plpgsql::ast::Body ── run ──> Host: SELECT $1 + 1, INSERT …, SAVEPOINT, notices
//! ```
//!
//! Control flow, variables and error handling are worked out here. Every expression is a SELECT, every statement of SQL a
//! statement of the session's own, with the variables as parameters: they are carried out behind [`Host`].
//!
//! A name in a statement is a variable unless PostgreSQL takes it for a column. So the home node is asked to describe
//! the statement as it is written; a name that it does not know is a variable, and the rest are columns. Where all names of
//! the tables are known it need not be asked. The answers are kept for the run of the body.
//!
//! Invariants: no SQL is evaluated here, and no value looked into but those of conditions, loop bounds and record literals; what
//! is not built is refused by name; nothing is kept beyond the run.

mod run;
mod value;

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use pgerror::{PgError, Result};

pub use plpgsql::{BEFORE_COMPILED, ast, body, compile_only, place_in, sql_body};
pub use run::{Ended, Parameter, Routine, run};
pub use value::{Type, Typed, array_text, row_fields, row_text};

/// What a host does meanwhile.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Rows of a statement.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Answer {
    /// Name, type and modifier; `None` if the statement gives no rows.
    pub columns: Option<Vec<(String, u32, i32)>>,
    /// As text.
    pub rows: Vec<Vec<Option<Bytes>>>,
    /// The command tag.
    pub tag: String,
    /// Why no record may have its values: some are of a type that they are not described with.
    pub refused: Option<PgError>,
}

impl Answer {
    /// The number in the tag.
    pub(crate) fn count(&self) -> u64 {
        self.tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

/// A cursor to be made.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Opening {
    /// `None`: one that no other cursor has.
    pub name: Option<String>,
    pub scroll: Option<bool>,
    pub sql: String,
    pub parameters: Vec<Typed>,
}

/// The session that a body runs in. It is in a transaction all the time.
pub trait Host: Send {
    /// Runs a statement with `$1`, `$2`, …; functions that it calls are called from `context`.
    fn run<'a>(&'a mut self, sql: &'a str, parameters: Vec<Typed>, context: String) -> Pending<'a, Answer>;
    /// A value, which is text that no setting changes, as the session's settings print it.
    fn printed(&mut self, typed: Typed) -> Pending<'_, Option<Bytes>>;
    /// A text of this type as variables hold it: names of objects in it as the ids that they mean now.
    fn kept(&mut self, typed: Typed) -> Pending<'_, Option<Bytes>>;
    /// A variable's value as a statement may have it on any node, with names for those ids. Parameters of a type of PostgreSQL's
    /// own need not be asked about.
    fn sent(&mut self, typed: Typed) -> Pending<'_, Option<Bytes>>;
    /// An error if a value of this type may not be made anew of its text, where PostgreSQL would hand it on as it is.
    fn may_make(&mut self, oid: u32) -> Pending<'_, ()>;
    /// Rows of a text as it is on the home node.
    fn ask(&mut self, sql: String) -> Pending<'_, Vec<Vec<Option<Bytes>>>>;
    /// Has PostgreSQL analyse a statement, without effect on the transaction.
    fn analyse<'a>(&'a mut self, sql: &'a str, types: Vec<u32>) -> Pending<'a, ()>;
    /// All names that the statement's FROM may give a meaning; `None`: not known.
    fn names_in_from<'a>(&'a mut self, sql: &'a str) -> Pending<'a, Option<HashSet<String>>>;
    /// The type of an expression.
    fn type_of<'a>(&'a mut self, expression: &'a str) -> Pending<'a, Type>;
    /// The type with this id and modifier.
    fn type_with(&mut self, oid: u32, modifier: i32) -> Pending<'_, Type>;
    /// May a value of the one type be assigned to the other by a cast?
    fn has_cast(&mut self, from: u32, to: u32) -> Pending<'_, bool>;
    /// Lets others work; an error if the statement is to end.
    fn pause(&mut self) -> Pending<'_, ()>;
    /// Tells the client.
    fn notice(&mut self, notice: PgError);
    /// SAVEPOINT.
    fn savepoint<'a>(&'a mut self, name: &'a str) -> Pending<'a, ()>;
    /// A handler has taken the error of a cancel: the body goes on.
    fn cancel_caught<'a>(&'a mut self, error: &'a PgError) -> Pending<'a, ()>;
    /// Undoes what came after the savepoint, and forgets it.
    fn undo<'a>(&'a mut self, savepoint: &'a str) -> Pending<'a, ()>;
    /// RELEASE SAVEPOINT.
    fn release<'a>(&'a mut self, savepoint: &'a str) -> Pending<'a, ()>;
    /// Ends the transaction and begins the next.
    fn end_transaction(&mut self, commit: bool, chain: bool) -> Pending<'_, ()>;
    /// How many routines are under way in each other.
    fn depth(&self) -> usize;
    /// Names of the variables that stand for the columns which CALL gives; `None` for other arguments.
    fn call_targets<'a>(&'a mut self, call: &'a str) -> Pending<'a, Vec<Option<Vec<String>>>>;
    /// The next statement is a CALL; may its body end the transaction?
    fn calls(&mut self, may_end: bool);
    /// Has a cursor that is declared with its query the name of its variable? PostgreSQL 16 makes up another one.
    fn names_bound_cursors(&mut self) -> Pending<'_, bool>;
    /// Makes a cursor; gives its name.
    fn open(&mut self, opening: Opening) -> Pending<'_, String>;
    /// A loop has come to this row of those that its last FETCH from the cursor gave: it is the cursor's current one.
    fn stands_on(&mut self, cursor: &str, row: usize);
}
