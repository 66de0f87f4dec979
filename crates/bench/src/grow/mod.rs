//! `loxo bench grow`: what clients see while a datanode joins and another leaves.
//!
//! ```text
//!  workload: writers, readers, one TPC-H session ──samples, errors──► seen ──► report: a line a phase, a chart
//!  phases:   alone ─► a datanode is added and filled ─► it is removed ─► (workload ends) ─► added and filled again
//! ```
//!
//! Every phase ends with the same question: are all rows there, once? MD5 of the ordered rows of lineitem, the sum of all balances,
//! and the sum of a counter that every UPDATE raises must be what they were, or what the writers have been told.

mod phases;
mod report;
mod seen;
mod workload;

use std::future::Future;

use pgerror::{PgError, Result, SqlState};

use crate::load::Target;
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, settings};

/// In the order in which they come.
const PHASES: [&str; 3] = ["alone", "add a datanode", "remove it"];
/// All phases are one measurement: each needs what the one before has left.
const POINT: &str = "all phases";
/// Seconds that loading, checking and moving take beside the phase without moves, and for each scale factor more.
const STEP_SECONDS: f64 = 60.0;
const STEP_SECONDS_A_SCALE_FACTOR: f64 = 240.0;

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
    /// Datanodes of a new cluster, before one is added.
    pub nodes: u16,
}

impl GrowOptions {
    /// Scale factor 1, 8 writers, 4 readers.
    pub fn full() -> Self {
        Self { scale_factor: 1.0, writers: 8, readers: 4, accounts: 10_000, seconds: 30, nodes: 3 }
    }

    /// The workload over fewer rows: less than three minutes.
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

/// The experiment.
pub struct Grow<F> {
    /// What to measure.
    pub options: GrowOptions,
    /// A cluster that is to be kept has its old datanodes at the end.
    pub keeps_cluster: bool,
    /// Adds and removes datanodes of a cluster.
    pub datanodes: F,
}

/// What is left when everything was measured.
pub struct Bench {
    target: Target,
    faults: Vec<String>,
}

impl<D: Datanodes, F: Fn(&Target) -> D> Experiment for Grow<F> {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "grow"
    }

    fn title(&self) -> String {
        "What clients see while a datanode is added, filled, emptied and removed".to_owned()
    }

    fn about(&self) -> String {
        "Writers move money between accounts, readers sum all of it, and one session asks TPC-H queries, first without moves, then while \
         a datanode is added and gets its share of the rows, and while it is removed. At last, with nothing else running, one is added \
         again. Errors of the sessions and wrong sums are counted."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let GrowOptions { scale_factor, writers, readers, accounts, seconds, nodes } = &self.options;
        settings(&[
            ("scale factor", scale_factor),
            ("datanodes", nodes),
            ("writers", writers),
            ("readers", readers),
            ("accounts", accounts),
            ("seconds without moves", seconds),
        ])
    }

    fn figures(&self) -> Vec<Figure> {
        let of_phase = |phase: &str| {
            let name = |figure: &str| format!("{phase}: {figure}");
            vec![
                Figure::rate(&name("writers_tps"), "transactions/s"),
                Figure::cost(&name("writers_p99_ms"), "ms"),
                Figure::rate(&name("readers_per_second"), "reads/s"),
                Figure::cost(&name("readers_p99_ms"), "ms"),
            ]
        };
        let rate = Figure::rate("alone_rows_per_second", "rows/s");
        std::iter::once(rate).chain(PHASES.iter().flat_map(|phase| of_phase(phase))).collect()
    }

    fn stages(&self) -> Vec<Stage> {
        let seconds =
            STEP_SECONDS + STEP_SECONDS_A_SCALE_FACTOR * self.options.scale_factor + f64::from(self.options.seconds);
        vec![Stage { steps: Step::by_turns(&[POINT.to_owned()], 1, seconds), ..Stage::of(self.options.nodes, 2) }]
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        match target.datanodes.len() {
            0 | 1 => Err(PgError::new(
                SqlState::CONFIG_FILE_ERROR,
                "the benchmark needs a cluster of two datanodes at least",
            )),
            _ => Ok(Bench { target: target.clone(), faults: Vec::new() }),
        }
    }

    async fn step(&self, bench: &mut Bench, _: &Step) -> Result<Readings> {
        let datanodes = (self.datanodes)(&bench.target);
        let report = phases::measure(&self.options, &bench.target, &datanodes, self.keeps_cluster).await?;
        bench.faults = report.faults();
        Ok(report.readings())
    }

    async fn finish(&self, bench: Bench) -> Result<Option<String>> {
        match bench.faults.as_slice() {
            [] => Ok(Some(
                "All rows are there, once: lineitem has the same MD5 before and after, and the accounts hold what the writers were told."
                    .to_owned(),
            )),
            faults => Err(PgError::internal(faults.join("; "))),
        }
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        report::sheet(samples)
    }
}
