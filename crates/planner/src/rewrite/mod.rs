//! Statements that become other statements before they are planned, or that the coordinator runs in steps.
//!
//! * [`owner_reads`], [`inline`], [`whole_rows`]: definitions and bodies in place of names.
//! * [`rules`], [`instead`], [`before`], [`made_rows`], [`triggers`]: what follows from a change of rows.
//! * [`routine`], [`per_row`], [`of_rows`], [`lifted`]: calls and sub-selects that are run ahead of the statement; [`returns`]: what
//!   a call gives.
//!
//! Invariant: what comes out means what went in, under the rights of the role that PostgreSQL would take.

pub(crate) mod before;
pub(crate) mod in_trigger;
pub(crate) mod inline;
pub(crate) mod instead;
pub(crate) mod lifted;
pub(crate) mod made_rows;
pub(crate) mod of_rows;
pub(crate) mod owner_reads;
pub(crate) mod per_row;
mod returns;
pub(crate) mod routine;
pub(crate) mod rules;
pub(crate) mod triggers;
pub(crate) mod whole_rows;
