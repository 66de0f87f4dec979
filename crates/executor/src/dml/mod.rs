//! Changes of rows that take more than a text sent to nodes.
//!
//! * [`staged`]: INSERT whose rows PostgreSQL has to make first, then routed; [`staged_dml`]: UPDATE, DELETE and MERGE that the
//!   home node works out; [`sequenced`]: data changes in WITH, part after part.
//! * [`insert_split`]: VALUES over several nodes; [`insert_pipeline`]: executions of one prepared INSERT sent together, as
//!   [`row_batch`]es of many rows; [`returning`]: their RETURNING, in order.
//! * [`writes`]: a write over several nodes as one statement, tried again when others come first; [`optimistic_insert`]: in as few
//!   waits as that takes; [`rows_in_place`]: long INSERTs that are planned anew while rows move.
//! * [`first_copy`]: replicated tables whose rows one copy makes for all.
//! * [`key_moves`]: rows that a foreign key gave another distribution key.
//! * [`trigger_events`]: what nodes tell of triggers that the coordinator runs; [`admitted_rows`]: rows that have passed theirs.
//!
//! Invariants: a row lies on the node that the stored value of its key says, and on that node only; all of a statement's changes are in
//! one transaction.

pub(crate) mod admitted_rows;
pub(crate) mod first_copy;
pub(crate) mod insert_pipeline;
pub(crate) mod insert_split;
pub(crate) mod key_moves;
pub(crate) mod optimistic_insert;
pub(crate) mod returning;
pub(crate) mod row_batch;
mod rows_in_place;
pub(crate) mod sequenced;
pub(crate) mod staged;
pub(crate) mod staged_dml;
pub(crate) mod trigger_events;
pub(crate) mod writes;
