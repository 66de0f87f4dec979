//! `loxo bench nodes`: what becomes of a cluster on this machine with ever more datanodes.
//!
//! ```text
//!  for each number of datanodes:
//!    start (timed) ─► COPY ─► reads, commits, DDL, one client ─► snapshots beside writers ─► many clients at once ─► removed
//! ```
//!
//! The same machine, the same rows: what grows with the number of datanodes is what each of them costs.

mod chart;
mod clients;
mod measure;
mod report;

use std::time::Instant;

use pgerror::{PgError, Result, SqlState};

use crate::load::{Target, interruptible};

pub use report::{NodesReport, Size};

/// What to measure.
#[derive(Clone, Debug, Default)]
pub struct NodesOptions {
    /// Rows that are loaded.
    pub rows: u64,
    /// Statements of each kind; the median of their times counts.
    pub rounds: usize,
    /// How many clients at once.
    pub clients: usize,
    /// For how many seconds.
    pub seconds: u32,
}

impl NodesOptions {
    /// A million rows.
    pub fn full() -> Self {
        Self { rows: 1_000_000, rounds: 40, clients: 200, seconds: 10 }
    }

    /// The same over fewer rows, for a shorter time.
    pub fn quick() -> Self {
        Self { rows: 100_000, rounds: 15, clients: 200, seconds: 3 }
    }
}

/// Measures the cluster that `start` brings up.
///
/// # Errors
/// A server's error, or SQLSTATE 57014 after Ctrl-C.
pub async fn run(options: &NodesOptions, start: impl AsyncFnOnce() -> Result<Target>) -> Result<Size> {
    let started = Instant::now();
    let target = start().await?;
    let up_seconds = started.elapsed().as_secs_f64();
    if target.coordinators.is_empty() || target.datanodes.is_empty() {
        return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator and a datanode"));
    }
    interruptible(measure::measure(options, &target, up_seconds)).await
}
