//! Plans, and what PostgreSQL said of statements, kept for those that come again.
//!
//! * [`by_shape`]: plans of statements that differ from earlier ones in their constants only.
//! * [`by_text`]: plans of queries over several nodes.
//! * [`completed_rows`]: what one node must say for all rows of an INSERT, written into it.
//! * [`analysis`]: statements as PostgreSQL has read them.
//!
//! Invariant: what is kept holds for one version of the catalog, one user and one search path.

pub(crate) mod analysis;
pub(crate) mod by_shape;
pub(crate) mod by_text;
mod completed_rows;
