//! `loxo bench power`: the 22 TPC-H queries on a cluster and, in the same run, on one stock server with the datanodes'
//! settings, once without and once with parallel workers. Every answer is compared with the server's, at scale factor 1
//! also with the official one.
//!
//! ```text
//! tables::blocks ──one block──► cluster and stock server      (both load the same bytes)
//! queries::query ──► stock, stock with workers, cluster in turn ──► report: times, ratios, sums
//! ```
//!
//! Invariant: a time is only ever shown beside a comparison of the rows that took it.

mod queries;
mod report;
mod tables;

use std::path::Path;
use std::time::Instant;

use futures_util::SinkExt;
use pgerror::{PgError, Result, SqlState};
use tokio_postgres::Client;

use crate::load::Target;
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, WRONG, measure_once, settings};
use crate::tools::cpu;
use crate::tools::sql;
use crate::tools::stock::{Pattern, StockServer, WorkDir};

use queries::Query;
pub use report::{Answered, PowerReport, QueryTimes};
pub use tables::Layout;
use tables::TABLES;

/// What to measure.
#[derive(Clone, Debug)]
pub struct PowerOptions {
    /// TPC-H scale factor.
    pub scale_factor: f64,
    /// Where the tables lie.
    pub layout: Layout,
    /// Runs of each query on each side; the fastest counts.
    pub rounds: usize,
    /// Numbers of the queries to run, 1 to 22.
    pub queries: Vec<usize>,
    /// `work_mem` on both sides.
    pub work_mem: String,
    /// A query that takes longer is given up.
    pub timeout_seconds: u32,
    /// Use the tables that a run before has left in the cluster, and leave them there.
    pub keep_tables: bool,
}

impl PowerOptions {
    /// All queries, three times, scale factor 1.
    pub fn new(layout: Layout) -> Self {
        Self {
            scale_factor: 1.0,
            layout,
            rounds: 3,
            queries: (1..=queries::COUNT).collect(),
            work_mem: "256MB".to_owned(),
            timeout_seconds: 300,
            keep_tables: false,
        }
    }

    /// Less than three minutes.
    pub fn quick(layout: Layout) -> Self {
        Self { scale_factor: 0.1, rounds: 2, ..Self::new(layout) }
    }
}

const BLOCK_BYTES: usize = 512 * 1024;
/// Of the cluster's tables, which must not be mistaken for somebody's.
const SCHEMA: &str = "bench_power";
/// Word of a sample: an error in place of rows.
const FAILED: &str = "failed";

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

/// About how long a query takes on all sides at scale factor 1, and how long the tables take to load.
const QUERY_SECONDS: f64 = 3.0;
const LOAD_SECONDS: f64 = 40.0;

impl Experiment for Power {
    type Bench = Sides;

    fn name(&self) -> &'static str {
        "power"
    }

    fn title(&self) -> String {
        format!("The 22 TPC-H queries, scale factor {}", self.options.scale_factor)
    }

    fn about(&self) -> String {
        "The same rows in the cluster and in one stock PostgreSQL server with the datanodes' settings; every query by turns on the server \
         without and with parallel workers and on the cluster, and every answer compared. Of each side the fastest round counts. On one \
         machine all datanodes share its cores: what is gained is that both cores work on a query, where one server uses one or its \
         workers. The critical path is the processor time of the busiest datanode, coordinator and gtm: what is left if every datanode \
         has a machine of its own."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let PowerOptions { scale_factor, layout, rounds, queries, work_mem, timeout_seconds, .. } = &self.options;
        let nodes = self.nodes.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let queries = queries.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        settings(&[
            ("scale factor", scale_factor),
            ("layout", &report::layout_name(*layout)),
            ("datanodes", &nodes),
            ("queries", &queries),
            ("rounds", rounds),
            ("work_mem", work_mem),
            ("seconds before a query is given up", timeout_seconds),
        ])
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::cost("cluster", "s"),
            Figure::fact("stock", "s"),
            Figure::fact("stock_with_workers", "s"),
            Figure::cost("cluster_cpu", "CPU s"),
            Figure::cost("critical_cpu", "CPU s"),
        ]
    }

    fn stages(&self) -> Vec<Stage> {
        let (rounds, sf) = (self.options.rounds.max(1), self.options.scale_factor);
        let stage = |datanodes: &u16| {
            let one = |number: &usize| Step::by_turns(&[point(*datanodes, *number)], rounds, 0.1 + QUERY_SECONDS * sf);
            let mut steps: Vec<Step> = self.options.queries.iter().flat_map(one).collect();
            if let Some(first) = steps.first_mut() {
                first.seconds += LOAD_SECONDS * sf;
            }
            Stage { steps, ..Stage::of(*datanodes, 1) }
        };
        self.nodes.iter().map(stage).collect()
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Sides> {
        Sides::prepare(&self.options, target).await
    }

    async fn step(&self, sides: &mut Sides, step: &Step) -> Result<Readings> {
        let number = step.point.strip_prefix('Q').and_then(|rest| rest.split(',').next()?.parse().ok());
        let number = number.ok_or_else(|| PgError::internal(format!("no query {}", step.point)))?;
        let query = queries::query(number, self.options.scale_factor)?;
        sides.measure(&query).await
    }

    async fn finish(&self, sides: Sides) -> Result<Option<String>> {
        if !self.options.keep_tables {
            sides.drop_tables().await?;
        }
        // Answers are judged one by one.
        Ok(None)
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        let report = |datanodes: &u16| PowerReport::of(&self.options, *datanodes, samples);
        report::sheet(&self.nodes.iter().map(report).collect::<Vec<_>>())
    }
}

fn point(datanodes: u16, number: usize) -> String {
    format!("Q{number}, {datanodes} datanodes")
}

/// Field order is drop order: the server stops before its directory goes.
pub struct Sides {
    options: PowerOptions,
    cluster: Client,
    plain: Client,
    workers: Client,
    /// Root processes of the cluster, for their processor time: the datanodes first.
    processes: Vec<u32>,
    datanodes: usize,
    _stock: StockServer,
    _dir: WorkDir,
}

impl Sides {
    async fn prepare(options: &PowerOptions, target: &Target) -> Result<Self> {
        let (Some(coordinator), Some(_)) = (target.coordinators.first(), target.datanodes.first()) else {
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator and a datanode"));
        };
        let mut patterns = Vec::new();
        for uri in &target.datanodes {
            patterns.push(Pattern::of(&sql::connect(uri).await?).await?);
        }
        let pattern = &patterns[0];
        let dir = pattern.make_dir(Path::new(&format!("{}-power-{}", target.dir.display(), std::process::id())))?;
        let stock = StockServer::start(pattern, dir.path(), "stock")?;
        let mut processes: Vec<u32> = patterns.iter().map(|pattern| pattern.postmaster).collect();
        processes.extend(cpu::find(&target.dir, &["coordinator", "gtm"])?);
        let sides = Self {
            options: options.clone(),
            cluster: sql::connect(coordinator).await?,
            plain: sql::connect(&stock.uri).await?,
            workers: sql::connect(&stock.uri).await?,
            processes,
            datanodes: patterns.len(),
            _stock: stock,
            _dir: dir,
        };
        sides.load(target.distributed.then_some(options.layout)).await?;
        sides.settings().await?;
        Ok(sides)
    }

    async fn settings(&self) -> Result<()> {
        let timeout = self.options.timeout_seconds;
        let common = format!("SET work_mem = '{}'; SET statement_timeout = '{timeout}s'", self.options.work_mem);
        sql::run(&self.cluster, &common).await?;
        for (client, workers) in [(&self.plain, 0), (&self.workers, 2)] {
            sql::run(client, &format!("{common}; SET max_parallel_workers_per_gather = {workers}")).await?;
        }
        Ok(())
    }

    async fn load(&self, layout: Option<Layout>) -> Result<()> {
        let mut sides: Vec<(&Client, Option<Layout>)> = vec![(&self.plain, None)];
        if !(self.options.keep_tables && self.has_tables().await?) {
            self.drop_tables().await?;
            sql::run(&self.cluster, &format!("CREATE SCHEMA {SCHEMA}")).await?;
            sides.push((&self.cluster, layout));
        }
        sql::run(&self.cluster, &format!("SET search_path = {SCHEMA}")).await?;
        for table in &TABLES {
            for (client, layout) in &sides {
                sql::run(client, &table.create_sql(*layout)).await?;
            }
            let clients: Vec<&Client> = sides.iter().map(|(client, _)| *client).collect();
            copy_to_all(table.name, self.options.scale_factor, &clients).await?;
            for (client, _) in &sides {
                for statement in table.index_sql() {
                    sql::run(client, &statement).await?;
                }
                sql::run(client, &format!("ANALYZE {}", table.name)).await?;
            }
            eprintln!("loaded {}", table.name);
        }
        Ok(())
    }

    /// Whole ones: lineitem is the last one that is filled.
    async fn has_tables(&self) -> Result<bool> {
        let exists = format!("SELECT count(to_regclass('{SCHEMA}.lineitem'))");
        let any = format!("SELECT count(*) FROM (SELECT 1 FROM {SCHEMA}.lineitem LIMIT 1) AS first");
        Ok(sql::number(&self.cluster, &exists).await? == 1 && sql::number(&self.cluster, &any).await? == 1)
    }

    async fn drop_tables(&self) -> Result<()> {
        sql::run(&self.cluster, &format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")).await
    }

    /// A view that the query needs is there while it is measured.
    async fn measure(&self, query: &Query) -> Result<Readings> {
        let around = async |statement: &Option<String>| {
            for client in [&self.plain, &self.cluster] {
                if let Some(statement) = statement {
                    sql::run(client, statement).await?;
                }
            }
            Ok::<_, PgError>(())
        };
        around(&query.before).await?;
        let measured = self.measure_sides(query).await;
        around(&query.after).await?;
        measured
    }

    async fn measure_sides(&self, query: &Query) -> Result<Readings> {
        let (expected, stock, stock_with_workers) = match self.on_one_server(query).await {
            Ok(measured) => measured,
            Err(error) if error.code() == SqlState::QUERY_CANCELED => {
                return Ok(Readings::default().word(FAILED, format!("one server: {}", error.message())));
            }
            Err(error) => return Err(error),
        };
        let before = cpu::each_seconds(&self.processes)?;
        let found = timed(&self.cluster, query).await;
        let used: Vec<f64> = cpu::each_seconds(&self.processes)?.iter().zip(before).map(|(a, b)| a - b).collect();
        let (datanodes, others) = used.split_at(self.datanodes.min(used.len()));
        let readings = Readings::default()
            .figure("stock", stock)
            .figure("stock_with_workers", stock_with_workers)
            .figure("cluster_cpu", used.iter().sum())
            .figure("critical_cpu", datanodes.iter().copied().fold(0.0, f64::max) + others.iter().sum::<f64>());
        let (rows, seconds) = match found {
            Ok(found) => found,
            Err(error) => return Ok(readings.word(FAILED, format!("{} ({})", error.message(), error.code()))),
        };
        let readings = readings.figure("cluster", seconds);
        Ok(match self.judge(query.number, expected, rows) {
            Some(how) => readings.word(WRONG, how),
            None => readings,
        })
    }

    /// Rows, and seconds without and with workers.
    async fn on_one_server(&self, query: &Query) -> Result<(Vec<Vec<String>>, f64, f64)> {
        let (rows, seconds) = timed(&self.plain, query).await?;
        let (_, seconds_with_workers) = timed(&self.workers, query).await?;
        Ok((rows, seconds, seconds_with_workers))
    }

    /// How the rows differ from those that are right.
    fn judge(&self, number: usize, mut expected: Vec<Vec<String>>, mut found: Vec<Vec<String>>) -> Option<String> {
        let official = match self.options.scale_factor == 1.0 {
            true => queries::compare_with_official(number, &found),
            false => None,
        };
        // Rows that ORDER BY does not tell apart may come in any order.
        expected.sort();
        found.sort();
        if expected != found {
            return Some(format!("{} rows, not those of one server ({})", found.len(), expected.len()));
        }
        official.map(|difference| format!("not the official answer: {difference}"))
    }
}

/// Rows, and seconds.
async fn timed(client: &Client, query: &Query) -> Result<(Vec<Vec<String>>, f64)> {
    let started = Instant::now();
    let rows = sql::table(client, &query.sql).await?;
    Ok((rows.into_iter().skip(1).collect(), started.elapsed().as_secs_f64()))
}

async fn copy_to_all(table: &str, scale_factor: f64, clients: &[&Client]) -> Result<()> {
    let copy = format!("COPY {table} FROM STDIN (FORMAT csv)");
    let mut sinks = Vec::new();
    for client in clients {
        sinks.push(Box::pin(client.copy_in::<_, bytes::Bytes>(&copy).await.map_err(sql::error)?));
    }
    for block in tables::blocks(table, scale_factor, BLOCK_BYTES)? {
        let block = bytes::Bytes::from(block);
        for sink in &mut sinks {
            sink.send(block.clone()).await.map_err(sql::error)?;
        }
    }
    for sink in &mut sinks {
        sink.as_mut().finish().await.map_err(sql::error)?;
    }
    Ok(())
}
