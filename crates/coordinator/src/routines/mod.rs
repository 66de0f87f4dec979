//! Functions, procedures and DO blocks whose bodies the coordinator runs, statement by statement (crate `routine`).
//!
//! Each statement of a body takes the way of any other statement of the session, in the same transaction: a block that is open,
//! or one of its own. Its rows are captured instead of being sent. A statement that calls such functions is run after them,
//! with their values as parameters. A change of rows comes before the [`triggers`] that it fires; one that has [`rules`] is run
//! as what they made of it.
//!
//! * [`runner`]: [`StatementRunner`], all that is known here of the session, and what the bodies under way share.
//! * [`run`]: from a plan to its answer; [`call`]: one body with its arguments ([`signature`], [`types`]); [`host`]: the session as
//!   the body sees it; [`captured`], [`parameters`], [`object_names`]: rows out of statements, and into them.
//! * [`triggers`], [`instead`], [`before`], [`rules`], [`lifted`], [`per_row`]: statements that are run in steps.
//!
//! Invariants: nothing here knows a socket or a protocol; every statement of a body is one of the session, in its transaction; where
//! rows went before a body they go after it, whatever became of it.

mod before;
mod call;
mod captured;
mod host;
mod instead;
mod lifted;
mod object_names;
mod parameters;
mod per_row;
mod rules;
mod run;
mod runner;
mod signature;
mod triggers;
mod types;

pub(crate) use runner::{Routines, Runner, StatementRunner, Wanted, Work};
