//! `loxo bench power`: TPC-H's load, its 22 queries, its refresh functions and streams of its queries on a cluster and, in the same run, on
//! one stock server with the datanodes' settings; queries once without and once with parallel workers. Every answer is compared with the
//! server's, at scale factor 1 also with the official one.
//!
//! ```text
//! tables::blocks ──► stock server, then cluster, table by table             (timed by phase)
//! queries::query ──► stock, stock with workers, cluster in turn   ┐
//! streams ────────── several sessions at once, side after side    ├──► report: times, ratios, sums
//! refresh ────────── new orders come, old orders go, both sides   ┘
//! ```
//!
//! Invariant: a time is only ever shown beside a comparison of the rows that took it.

mod options;
mod parts;
mod queries;
mod refresh;
mod report;
mod sides;
mod streams;
mod tables;

use pgerror::{PgError, Result};

use crate::beside;
use crate::load::Target;
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, measure_once, settings};

use options::Part;
pub use options::PowerOptions;
pub use report::{Answered, PowerReport, QueryTimes};
pub use sides::Sides;
pub use tables::Layout;

/// Runs the benchmark on the cluster that `start` brings up (or finds running).
///
/// # Errors
/// A server's error while loading, a wrong answer, or SQLSTATE 57014 after Ctrl-C. A query that fails is no error but part of the
/// report.
pub async fn run(options: &PowerOptions, start: impl AsyncFnOnce() -> Result<Target>) -> Result<PowerReport> {
    let target = start().await?;
    let datanodes = target.datanodes.len() as u16;
    let experiment = Power { options: options.clone(), nodes: vec![datanodes] };
    let samples = measure_once(&experiment, target).await?;
    Ok(PowerReport::of(options, datanodes, &samples))
}

/// The experiment.
pub struct Power {
    /// What to measure.
    pub options: PowerOptions,
    /// Datanodes of clusters, one after the other.
    pub nodes: Vec<u16>,
}

/// About how long a query takes on all sides at scale factor 1, a refresh function, and how long the tables take to load.
const QUERY_SECONDS: f64 = 3.0;
const REFRESH_SECONDS: f64 = 15.0;
const LOAD_SECONDS: f64 = 70.0;

impl Experiment for Power {
    type Bench = Sides;

    fn name(&self) -> &'static str {
        "power"
    }

    fn title(&self) -> String {
        format!("TPC-H's load, queries, streams and refresh functions, scale factor {}", self.options.scale_factor)
    }

    fn about(&self) -> String {
        "The same rows in the cluster and in one stock PostgreSQL server with the datanodes' settings. The tables are loaded table by table, \
         one side after the other, one COPY each, then keys, indexes and ANALYZE. Every query runs by turns on the server without and with \
         parallel workers and on the cluster, and every answer is compared; of each side the fastest round counts. Streams run all queries \
         in several sessions at once, beginning at different ones. The refresh functions add a thousandth of the orders with their lines \
         (RF1), and take as many old ones away (RF2), each in one transaction; afterwards both tables are compared whole. On one machine all \
         datanodes share its cores: what is gained is that both cores work on a query, where one server uses one or its workers. The \
         critical path is the processor time of the busiest datanode, coordinator and gtm: what is left if every datanode has a machine of \
         its own. Derived from TPC-H: no figure here is comparable with published TPC-H results."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let PowerOptions { scale_factor, layout, rounds, queries, streams, work_mem, timeout_seconds, keep_tables } =
            &self.options;
        let nodes = self.nodes.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let queries = queries.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let refreshed = if *keep_tables { "no" } else { "yes" };
        settings(&[
            ("scale factor", scale_factor),
            ("layout", layout),
            ("datanodes", &nodes),
            ("queries", &queries),
            ("rounds", rounds),
            ("streams", streams),
            ("refresh functions", &refreshed),
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
        ];
        figures.extend(beside::load_figures());
        figures
    }

    fn stages(&self) -> Vec<Stage> {
        self.nodes.iter().map(|datanodes| Stage { steps: self.steps(*datanodes), ..Stage::of(*datanodes, 1) }).collect()
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Sides> {
        Sides::prepare(&self.options, target).await
    }

    async fn step(&self, sides: &mut Sides, step: &Step) -> Result<Readings> {
        let part = Part::of_point(&step.point).ok_or_else(|| PgError::internal(format!("no part {}", step.point)))?;
        let loaded = sides.load().await?;
        match part {
            Part::Load => loaded.ok_or_else(|| PgError::internal("the tables were loaded before")),
            Part::Query(number) => {
                let query = queries::query(number, self.options.scale_factor, 0)?;
                sides.measure(&query).await
            }
            Part::Streams => streams::measure(&sides.beside, &self.options).await,
            Part::Insert => refresh::insert(&sides.beside, self.options.scale_factor, step.round).await,
            Part::Delete => refresh::delete(&sides.beside, self.options.scale_factor, step.round).await,
        }
    }

    async fn finish(&self, sides: Sides) -> Result<Option<String>> {
        if !self.options.keep_tables {
            sides.beside.drop_tables().await?;
        }
        // Answers are judged one by one.
        Ok(None)
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        let report = |datanodes: &u16| PowerReport::of(&self.options, *datanodes, samples);
        report::sheet(&self.options, &self.nodes.iter().map(report).collect::<Vec<_>>(), samples)
    }
}

impl Power {
    /// Streams come before the tables are changed, so that their answers are those of the queries.
    fn steps(&self, datanodes: u16) -> Vec<Step> {
        let PowerOptions { scale_factor, rounds, queries, streams, keep_tables, .. } = &self.options;
        let (sf, rounds) = (*scale_factor, (*rounds).max(1));
        let steps = |parts: &[Part], rounds, seconds| {
            let points: Vec<String> = parts.iter().map(|part| part.point(datanodes)).collect();
            Step::by_turns(&points, rounds, seconds)
        };
        let mut all = steps(&[Part::Load], 1, 2.0 + LOAD_SECONDS * sf);
        for number in queries {
            all.extend(steps(&[Part::Query(*number)], rounds, 0.1 + QUERY_SECONDS * sf));
        }
        if *streams > 0 {
            let seconds = (0.1 + QUERY_SECONDS * sf) * (queries.len() * streams) as f64;
            all.extend(steps(&[Part::Streams], 1, seconds));
        }
        if !keep_tables {
            all.extend(steps(&[Part::Insert, Part::Delete], rounds, 0.2 + REFRESH_SECONDS * sf));
        }
        all
    }
}
