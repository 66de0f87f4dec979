//! `loxo bench tpcds`: TPC-DS's tables and queries over them on a cluster and, in the same run, on one stock server with the datanodes'
//! settings, once without and once with parallel workers. Of every query it is said whether the cluster's answer is right, wrong,
//! refused or an error.
//!
//! ```text
//! tables::blocks ──► stock server, then cluster, table by table      (timed by phase)
//! queries ──► stock, stock with workers, cluster in turn ──► verdict ──► report: answers, times, ratios
//! ```
//!
//! Invariant: a time is only ever shown beside a verdict on the rows that took it.

mod queries;
mod report;
mod tables;
mod verdict;

use pgerror::{PgError, Result};

use crate::beside::{self, Beside, Timed, is_of_connection, timed};
use crate::load::Target;
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, settings};
use verdict::{Reference, Verdict};

pub use queries::{Queries, Query};
pub use tables::Layout;

/// What to measure.
#[derive(Clone, Debug)]
pub struct TpcdsOptions {
    /// TPC-DS scale factor.
    pub scale_factor: f64,
    /// Where the fact tables lie.
    pub layout: Layout,
    /// Runs of each query on each side; the fastest counts.
    pub rounds: usize,
    /// What to run.
    pub queries: Queries,
    /// `work_mem` on both sides.
    pub work_mem: String,
    /// A query that takes longer is given up.
    pub timeout_seconds: u32,
    /// Datanodes of a new cluster.
    pub datanodes: u16,
}

impl TpcdsOptions {
    /// Our own queries, three times, scale factor 1.
    pub fn full() -> Self {
        Self {
            scale_factor: 1.0,
            layout: Layout::Order,
            rounds: 3,
            queries: Queries::own(),
            work_mem: "256MB".to_owned(),
            timeout_seconds: 300,
            datanodes: 2,
        }
    }

    /// Less than three minutes with our own queries.
    pub fn quick() -> Self {
        Self { scale_factor: 0.02, rounds: 1, timeout_seconds: 10, ..Self::full() }
    }
}

/// The experiment.
pub struct Tpcds(pub TpcdsOptions);

/// Schema of the cluster's tables.
const SCHEMA: &str = "bench_tpcds";
/// Point of the load.
const LOAD: &str = "load";
/// About how long the tables take that are the same at every scale factor, what a scale factor adds, and a query on all sides.
const LOAD_SECONDS: f64 = 30.0;
const LOAD_SECONDS_A_SCALE: f64 = 120.0;
const QUERY_SECONDS: f64 = 0.3;
const QUERY_SECONDS_A_SCALE: f64 = 8.0;

impl Experiment for Tpcds {
    type Bench = Sides;

    fn name(&self) -> &'static str {
        "tpcds"
    }

    fn title(&self) -> String {
        format!("Queries over TPC-DS's tables, scale factor {}", self.0.scale_factor)
    }

    fn about(&self) -> String {
        "The same rows in the cluster and in one stock PostgreSQL server with the datanodes' settings: facts by hash, dimensions on every \
         datanode. The tables are loaded table by table, one side after the other, one COPY each. Then every query by turns on the server \
         without and with parallel workers and on the cluster, and every answer compared: right, wrong, refused (SQLSTATE 0A000), an error, \
         or given up after the time limit. Of each side the fastest round counts. Rows that ORDER BY does not tell apart may come in any \
         order; where LIMIT cuts between such rows, the whole answers are compared. Derived from TPC-DS: no figure here is comparable with \
         published TPC-DS results."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let TpcdsOptions { scale_factor, layout, rounds, queries, work_mem, timeout_seconds, datanodes } = &self.0;
        settings(&[
            ("scale factor", scale_factor),
            ("layout", &layout.name()),
            ("datanodes", datanodes),
            ("queries", &queries.described()),
            ("rounds", rounds),
            ("work_mem", work_mem),
            ("seconds before a query is given up", timeout_seconds),
        ])
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![
            Figure::cost("cluster", "s"),
            Figure::fact("stock", "s"),
            Figure::fact("stock_with_workers", "s"),
            Figure::cost("cluster_cpu", "CPU s"),
            Figure::cost("critical_cpu", "CPU s"),
            Figure::fact("rows", "rows"),
        ];
        figures.extend(beside::load_figures());
        figures
    }

    fn stages(&self) -> Vec<Stage> {
        let TpcdsOptions { scale_factor, rounds, queries, datanodes, .. } = &self.0;
        let load_seconds = LOAD_SECONDS + LOAD_SECONDS_A_SCALE * scale_factor;
        let mut steps = Step::by_turns(&[LOAD.to_owned()], 1, load_seconds);
        for query in &queries.list {
            let seconds = QUERY_SECONDS + QUERY_SECONDS_A_SCALE * scale_factor;
            steps.extend(Step::by_turns(&[point(query)], (*rounds).max(1), seconds));
        }
        vec![Stage { steps, ..Stage::of(*datanodes, 1) }]
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Sides> {
        let beside = Beside::start(target, SCHEMA).await?;
        beside.set(&self.0.work_mem, self.0.timeout_seconds).await?;
        Ok(Sides { options: self.0.clone(), beside, is_loaded: false })
    }

    async fn step(&self, sides: &mut Sides, step: &Step) -> Result<Readings> {
        let loaded = sides.load().await?;
        if step.point == LOAD {
            return loaded.ok_or_else(|| PgError::internal("the tables were loaded before"));
        }
        let query = self.0.queries.list.iter().find(|query| point(query) == step.point);
        let query = query.ok_or_else(|| PgError::internal(format!("no query {}", step.point)))?;
        sides.measure(query).await
    }

    async fn finish(&self, sides: Sides) -> Result<Option<String>> {
        sides.beside.drop_tables().await?;
        // Answers are judged one by one.
        Ok(None)
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        report::sheet(&self.0.queries.list, samples)
    }
}

fn point(query: &Query) -> String {
    format!("query {}", query.name)
}

/// What the steps need.
pub struct Sides {
    options: TpcdsOptions,
    beside: Beside,
    /// A run that goes on has measured the load already, and still needs the tables.
    is_loaded: bool,
}

impl Sides {
    /// Once; gives what was measured then.
    async fn load(&mut self) -> Result<Option<Readings>> {
        if self.is_loaded {
            return Ok(None);
        }
        // Loading is not what the time limit is for.
        self.beside.set(&self.options.work_mem, 0).await?;
        let tables = tables::tables(self.options.layout)?;
        let blocks = |table: &str| tables::blocks(table, self.options.scale_factor);
        let readings = self.beside.load(&tables, false, blocks).await?;
        self.beside.set(&self.options.work_mem, self.options.timeout_seconds).await?;
        self.is_loaded = true;
        Ok(Some(readings))
    }

    async fn measure(&self, query: &Query) -> Result<Readings> {
        let plain = answer(timed(&self.beside.plain, &query.sql).await)?;
        let workers = answer(timed(&self.beside.workers, &query.sql).await)?;
        let (cluster, mut readings) = self.beside.on_cluster(&query.sql).await?;
        let cluster = answer(cluster)?;
        for (name, side) in [("stock", &plain), ("stock_with_workers", &workers), ("cluster", &cluster)] {
            if let Ok(found) = side {
                readings = readings.figure(name, found.seconds);
            }
        }
        if let Ok(found) = &cluster {
            readings = readings.figure("rows", found.rows.len() as f64);
        }
        let verdict = Verdict::of(&Reference::of(&plain, &workers), &cluster);
        let verdict = match (&verdict, query.without_limit()) {
            (Verdict::Wrong(_), Some(whole)) => self.of_whole_answers(verdict, &whole).await?,
            _ => verdict,
        };
        Ok(verdict.noted_in(readings))
    }

    /// LIMIT may have cut between rows that ORDER BY does not tell apart: then the answers without it are the same.
    async fn of_whole_answers(&self, cut: Verdict, whole: &str) -> Result<Verdict> {
        let expected = answer(timed(&self.beside.plain, whole).await)?;
        let found = answer(timed(&self.beside.cluster, whole).await)?;
        Ok(match Verdict::of(&Reference::of(&expected, &expected), &found) {
            Verdict::Right(_) => Verdict::Right("its LIMIT cuts between equal rows: compared without it".to_owned()),
            _ => cut,
        })
    }
}

/// An error of the statement is an answer; one of the connection ends the run.
fn answer(found: Result<Timed>) -> Result<Result<Timed>> {
    match found {
        Err(error) if is_of_connection(&error) => Err(error),
        found => Ok(found),
    }
}
