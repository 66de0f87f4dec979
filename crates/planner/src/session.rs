//! What the planner must know of the session.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use catalog::{Function, NodeId, Oid, Relation};
use pgerror::{PgError, Result, SqlState};

/// What one node may pay for few rows, in PostgreSQL's units: where more is to be done, temp tables are the least of it.
pub const CHEAP: f64 = 5_000.0;

/// What EXPLAIN says of a SELECT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// At least one.
    pub rows: f64,
    /// In PostgreSQL's units.
    pub cost: f64,
}

/// A type in `pg_temp`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TempType {
    pub name: String,
    /// A bare name means another one.
    pub is_hidden: bool,
}

/// Facts of one session at the time of one statement.
#[derive(Clone, Debug)]
pub struct SessionFacts<'a> {
    /// The session's home node.
    pub home: NodeId,
    /// The effective search path: `"$user"` replaced, missing schemas left out, without `pg_catalog` and `pg_temp`.
    pub search_path: &'a [String],
    /// Names of tables, views and sequences in the session's `pg_temp`: they hide others of the same name.
    pub temp_relations: &'a [String],
    /// The views among them.
    pub temp_views: &'a [Arc<Relation>],
    /// What changes of them call.
    pub temp_code: &'a [TempCode],
    /// Functions in `pg_temp`.
    pub temp_functions: &'a [Function],
    /// Types in `pg_temp`, rows of its tables among them.
    pub temp_types: &'a [TempType],
    /// `$1`, `$2`, …; may be shorter than the statement's parameters.
    pub parameters: &'a [Parameter<'a>],
    /// The statement's result columns as a datanode described them. Needed for CREATE TABLE AS without a clause; allows
    /// a few better plans elsewhere.
    pub describe: Option<&'a [OutputColumn]>,
    /// Inside a transaction block.
    pub in_transaction: bool,
    /// The node whose `now()` the transaction block uses; `None` as long as it has touched no node.
    pub clock: Option<NodeId>,
    /// That node's `now()`, to be written into what the home node evaluates in its place.
    pub now: Option<&'a Moment>,
    /// Which sessions may exchange rows for this one.
    pub exchanges: Exchanges<'a>,
    /// What the home node expects of some fragments, by their text; see [`ExchangePlan::estimates_wanted`](crate::ExchangePlan).
    pub estimates: Option<&'a HashMap<String, Expected>>,
    /// Number of rows up to which they are brought to one node rather than exchanged.
    pub few_rows: f64,
    /// Whether the plan is still wanted.
    pub stop: Stop,
    /// Gets what the plan of a query that changes nothing depends on besides: [`BY_VALUE`] of a parameter, [`BY_ESTIMATE`].
    pub depends: Option<&'a AtomicU8>,
}

/// See [`SessionFacts::depends`].
pub const BY_VALUE: u8 = 1;
/// See [`SessionFacts::depends`].
pub const BY_ESTIMATE: u8 = 2;

/// Raised from outside when the plan that is being made is not wanted any more.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A stop that any holder of the flag can raise.
    pub fn by(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// To be called in whatever takes longer for a longer text.
    ///
    /// # Errors
    /// 57014 if it has been raised.
    pub(crate) fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(PgError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")),
            false => Ok(()),
        }
    }
}

/// What a temporary table, or one that its changes lead to, calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TempCode {
    /// The name of the table or view in `pg_temp`.
    pub relation: String,
    /// For a row that is inserted, updated or deleted.
    pub on_change: Vec<Oid>,
    /// By triggers ON TRUNCATE.
    pub on_truncate: Vec<Oid>,
}

/// What the clock says, each as the text of a `timestamptz` with its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// `now()`, `CURRENT_TIMESTAMP`, `'today'`, ….
    pub transaction: String,
    /// `statement_timestamp()`.
    pub statement: String,
}

/// Whether sessions beside this one may exchange rows for it, and what they do not see (see [`ExchangePlan`](crate::ExchangePlan)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Exchanges<'a> {
    /// There are none.
    No,
    /// They see what this session sees.
    #[default]
    Seeing,
    /// They see what this session sees but for its own changes to these tables.
    SeeingBut(&'a [ChangedTable]),
    /// They see some other state of all tables; this session has changed these.
    SeeingNot(&'a [ChangedTable]),
}

/// A table that the transaction block has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ChangedTable {
    pub schema: String,
    pub name: String,
    /// So that nobody else may even look at it (TRUNCATE).
    pub is_locked: bool,
}

/// A result column as in RowDescription.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct OutputColumn {
    pub name: String,
    pub type_oid: Oid,
    pub type_modifier: i32,
}

/// A statement parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// 0 if not known.
    pub type_oid: Oid,
    /// Its value, if it is bound already.
    pub value: ParameterValue<'a>,
}

/// Value of a [`Parameter`] in the format the client sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ParameterValue<'a> {
    /// Not bound yet: the plan must be right for every value.
    Unknown,
    Null,
    Text(&'a [u8]),
    Binary(&'a [u8]),
}
