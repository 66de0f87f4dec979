//! The ways to commit what was sent, and what they leave for a load that goes on after another's death.
//!
//! * [`atomic`]: all rows of all files or none, over several sessions; [`batches`]: each batch with its row in the journal.
//! * [`journal`]: the table that both keep; [`rejects`]: rows that the server refuses, left out and written to a file.
//!
//! Invariant: a row is committed in the transaction that changes the journal about it, or with all others.

pub(crate) mod atomic;
pub(crate) mod batches;
pub(crate) mod journal;
pub(crate) mod rejects;
