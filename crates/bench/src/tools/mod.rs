//! What the benchmarks are made with.
//!
//! * [`sql`]: the client side; [`copy_in`]: one COPY FROM STDIN, and [`progress`], how far it is.
//! * [`stock`]: stock servers to measure against; [`cpu`]: CPU time of processes.
//!
//! Invariant: nothing here knows a benchmark, so each measures with what the others do.

pub(crate) mod copy_in;
pub mod cpu;
pub(crate) mod progress;
pub(crate) mod sql;
pub(crate) mod stock;
