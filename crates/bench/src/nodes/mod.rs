//! `loxo bench nodes`: what becomes of a cluster on this machine with ever more datanodes.
//!
//! ```text
//!  for each number of datanodes:
//!    start (timed) ─► COPY ─► reads, commits, DDL, one client ─► snapshots beside writers ─► many clients at once ─► removed
//! ```
//!
//! Machine and rows stay as they are: what grows with the number of datanodes is what each of them costs.

mod clients;
mod measure;
mod report;

use pgerror::{PgError, Result, SqlState};

use crate::load::Target;
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, settings};

/// What to measure.
#[derive(Clone, Debug, Default)]
pub struct NodesOptions {
    /// Datanodes of the clusters.
    pub sizes: Vec<u16>,
    /// Rows that are loaded.
    pub rows: u64,
    /// Statements of each kind; the median of their times counts.
    pub statements: usize,
    /// How many clients at once.
    pub clients: usize,
    /// For how many seconds.
    pub seconds: u32,
}

impl NodesOptions {
    /// A million rows.
    pub fn full() -> Self {
        Self { sizes: vec![1, 2, 4, 8, 16, 32], rows: 1_000_000, statements: 40, clients: 200, seconds: 10 }
    }

    /// Fewer rows and clients, for a shorter time.
    pub fn quick() -> Self {
        Self { sizes: vec![1, 2, 4, 8], rows: 100_000, statements: 15, clients: 200, seconds: 3 }
    }
}

/// The experiment.
pub struct Nodes(pub NodesOptions);

/// What all statements of one size take together.
const STEP_SECONDS: f64 = 8.0;

impl Experiment for Nodes {
    type Bench = Target;

    fn name(&self) -> &'static str {
        "nodes"
    }

    fn title(&self) -> String {
        "One cluster after the other, of ever more datanodes on this machine".to_owned()
    }

    fn about(&self) -> String {
        "The same machine, the same rows: what grows with the number of datanodes is what each of them costs. All datanodes share the \
         cores and the disk here; on machines of their own they do not. Of the times the medians; joins and DDL are run a fifth as often."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let NodesOptions { sizes, rows, statements, clients, seconds } = &self.0;
        let sizes = sizes.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        settings(&[
            ("datanodes", &sizes),
            ("rows", rows),
            ("statements of a kind", statements),
            ("clients", clients),
            ("for seconds", seconds),
        ])
    }

    fn figures(&self) -> Vec<Figure> {
        report::FIGURES.iter().map(report::Shown::figure).collect()
    }

    fn stages(&self) -> Vec<Stage> {
        let seconds = STEP_SECONDS + f64::from(self.0.seconds);
        let stage = |datanodes: &u16| Stage {
            steps: Step::by_turns(&[report::point(*datanodes)], 1, seconds + 0.3 * f64::from(*datanodes)),
            ..Stage::of(*datanodes, 1)
        };
        self.0.sizes.iter().map(stage).collect()
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Target> {
        match target.coordinators.is_empty() || target.datanodes.is_empty() {
            true => Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator and a datanode")),
            false => Ok(target.clone()),
        }
    }

    async fn step(&self, target: &mut Target, _: &Step) -> Result<Readings> {
        measure::measure(&self.0, target).await
    }

    async fn finish(&self, _: Target) -> Result<Option<String>> {
        Ok(Some("The accounts hold what all changes add up to, on every number of datanodes.".to_owned()))
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        report::sheet(&self.0.sizes, samples)
    }
}
