//! Does a cluster keep its promises while its processes die? Workloads that would notice, and the killing.
//!
//! ```text
//!                       ┌ bank       transfers and sums            ┐
//!  chaos ── kill -9 ──► │ pairs      rows that come in twos        │ ──► what was acknowledged, refused, unknown
//!  points ─ abort, hold │ counters   order of single observations  │ ──► what readers saw  ──► verdict
//!                       └ history    random transactions, recorded ┘ ──► checker
//! ```
//!
//! * [`bank`]: money moves between accounts on different datanodes; the sum, and each account's log, must be right in
//!   every snapshot and at the end.
//! * [`pairs`]: transactions that write one row on each of two datanodes; nobody may see half of one.
//! * [`copies`]: replicated tables do not part.
//! * [`counters`]: long forks and reads that go back in time.
//! * [`history`]: random transactions of both isolation levels; [`checker`] looks for an order of all commits and
//!   snapshots that explains what every statement saw.
//! * [`moves`]: rows go from datanode to datanode meanwhile; [`moves::killed`]: so do datanodes, by commands that are killed.
//! * [`links`] breaks links between living processes; [`chaos`] kills random processes with SIGKILL and starts them again; [`points`] kills at each control point of
//!   crate `txn`, a list read from its source.
//!
//! Invariants: nothing is judged by a message or a log, only by rows; an outcome is *unknown* only if the
//! connection broke, or 40003 came, after the commit was asked for; a workload that did nothing fails.

pub mod aftermath;
pub mod bank;
pub mod chaos;
pub mod checker;
pub mod copies;
pub mod counters;
pub mod history;
pub mod links;
pub mod moves;
pub mod pairs;
pub mod points;
pub mod processes;
mod session;
mod tables;
mod until;

pub use session::{Outcome, Session};
