//! `loxo bench grow`: what clients see while a datanode joins and another leaves.
//!
//! ```text
//!  workload: writers, readers, one TPC-H session ──samples, errors──► seen ──► report: a line a phase, a chart
//!  phases:   alone ─► a datanode is added and filled ─► it is removed ─► (workload ends) ─► added and filled again
//! ```
//!
//! Every phase ends with the same question: are all rows there, once? MD5 of the ordered rows of lineitem, the sum of all balances,
//! and the sum of a counter that every UPDATE raises must be what they were, or what the writers have been told.

mod chart;
mod phases;
mod report;
mod seen;
mod workload;

use std::future::Future;

use pgerror::{PgError, Result, SqlState};

use crate::load::{Target, interruptible};

pub use report::GrowReport;

/// What to measure.
#[derive(Clone, Debug, Default)]
pub struct GrowOptions {
    /// TPC-H scale factor of lineitem.
    pub scale_factor: f64,
    /// Sessions that move money between two accounts, without a pause.
    pub writers: u32,
    /// Sessions that sum all balances, without a pause.
    pub readers: u32,
    /// How many accounts.
    pub accounts: u32,
    /// Seconds of the phase without moves.
    pub seconds: u32,
}

impl GrowOptions {
    /// Scale factor 1, 8 writers, 4 readers.
    pub fn full() -> Self {
        Self { scale_factor: 1.0, writers: 8, readers: 4, accounts: 10_000, seconds: 30 }
    }

    /// The same workload over fewer rows: less than three minutes.
    pub fn quick() -> Self {
        Self { scale_factor: 0.05, seconds: 15, ..Self::full() }
    }
}

/// How datanodes come and go: the caller knows.
pub trait Datanodes {
    /// Adds a datanode without rows; gives its name and connection URI.
    fn add(&self) -> impl Future<Output = Result<(String, String)>>;
    /// Spreads the rows over all datanodes, and returns when they lie there.
    fn fill(&self) -> impl Future<Output = Result<()>>;
    /// Moves the rows off a datanode, takes it out of the cluster, and removes what is left of it.
    fn remove(&self, name: &str) -> impl Future<Output = Result<()>>;
}

/// Runs the benchmark on the cluster that `start` brings up (or finds running). A cluster that is to be kept has its old
/// datanodes at the end.
///
/// # Errors
/// A server's error outside the workload, or SQLSTATE 57014 after Ctrl-C. Errors of the workload are part of the report.
pub async fn run<D: Datanodes>(
    options: &GrowOptions,
    keeps_cluster: bool,
    start: impl AsyncFnOnce() -> Result<(Target, D)>,
) -> Result<GrowReport> {
    let (target, datanodes) = start().await?;
    if target.datanodes.len() < 2 {
        return Err(PgError::new(
            SqlState::CONFIG_FILE_ERROR,
            "the benchmark needs a cluster of two datanodes at least",
        ));
    }
    interruptible(phases::measure(options, &target, &datanodes, keeps_cluster)).await
}
