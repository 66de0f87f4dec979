//! Datanodes that come and go, and the rows that follow.
//!
//! ```text
//!  CREATE NODE ──────────────▶ nodes     a prepared server becomes a member, with copies of what is replicated
//!  ALTER CLUSTER REBALANCE ──▶ journal   a row of loxo.rebalance says what is wanted
//!                                 │
//!            any coordinator ── job ──▶ step ─▶ step ─▶ …      each a distributed transaction of its own
//!  DROP NODE ────────────────▶ nodes     a datanode that holds nothing any more leaves
//! ```
//!
//! A step takes a few buckets (about [`step::ROWS_MAX`] rows at most) of all tables of one bucket map from one datanode to
//! another: it locks the tables on the old node against writers, reads and deletes the rows there, writes them on the new node,
//! compares count and hash sum of both, and changes the map on all datanodes. So each snapshot shows the rows on one node, and
//! readers wait for nothing. Writers wait for one step. A session that planned with the old map notices once its statement has its
//! locks or its snapshots ([`plan_validity`](crate::shared::plan_validity)), and gets a new plan, or 40001 inside a block.
//!
//! * [`nodes`]: CREATE, ALTER and DROP NODE; [`lost`]: DROP NODE of one that does not answer; [`rows`]: rows that go from one link to another as they are.
//!   [`other_databases`]: what they mean beside other databases.
//! * [`journal`]: what is wanted, and how far it is; [`job`]: carries it on; [`step`]: one move; [`slices`]: where a
//!   bucket's rows are found; [`sums`]: whether what has come is what has gone; [`quiet`]: triggers and rules that would act on it;
//!   [`users_code`]: functions that must not run then.
//! * [`scattered`]: rows that may be on any node of their table, and are to be on another one.
//! * [`repair`]: rows that came to a wrong place by whatever way; [`judged_rows`]: which of them are at the right one already.
//!
//! Invariants: a row is on exactly one datanode in every snapshot; between two steps nothing is half done, so the next coordinator
//! needs nothing but the metadata to go on; the buckets that move are the fewest that balance the map.

pub(crate) mod job;
pub(crate) mod journal;
pub(crate) mod judged_rows;
pub(crate) mod lost;
pub(crate) mod nodes;
mod other_databases;
mod quiet;
pub(crate) mod repair;
pub(crate) mod rows;
pub(crate) mod scattered;
pub(crate) mod slices;
pub(crate) mod step;
mod sums;
mod users_code;
