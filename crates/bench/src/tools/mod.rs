//! What the benchmarks are made with.
//!
//! * [`sql`]: the client side; [`copy_in`]: one COPY FROM STDIN, and [`progress`], how far it is.
//! * [`files`]: lineitem on disk; [`stats`]: medians, and tables as text.
//! * [`transfer`]: money that moves while it is summed; [`program`]: programs of others that send statements.
//! * [`roles`]: which role used the processors; [`waits`]: what backends wait for; [`network`]: what interfaces carry.
//! * [`random`]: numbers that look random.
//! * [`stock`]: stock servers to measure against; [`pgbouncer`]: PgBouncer in front of one; [`cpu`]: CPU time of processes.
//!
//! Invariant: nothing here knows a benchmark, so each measures with what the others do.

pub(crate) mod copy_in;
pub mod cpu;
pub(crate) mod files;
pub(crate) mod network;
pub(crate) mod pgbouncer;
pub(crate) mod program;
pub(crate) mod progress;
pub(crate) mod random;
pub(crate) mod roles;
pub(crate) mod sql;
pub(crate) mod stats;
pub(crate) mod stock;
pub(crate) mod transfer;
pub(crate) mod waits;
