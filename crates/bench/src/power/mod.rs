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

use crate::load::{Target, interruptible};
use crate::tools::cpu;
use crate::tools::sql;
use crate::tools::stock::{Pattern, StockServer, WorkDir};

use queries::Query;
pub use report::{PowerReport, QueryTimes, Scaling, Verdict};
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
    /// Use the tables that the cluster has already, and leave them there.
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
}

const BLOCK_BYTES: usize = 512 * 1024;

/// Runs the benchmark on the cluster that `start` brings up (or finds running).
///
/// # Errors
/// A server's error while loading, or SQLSTATE 57014 after Ctrl-C. A query that fails is no error but part of the report.
pub async fn run(options: &PowerOptions, start: impl AsyncFnOnce() -> Result<Target>) -> Result<PowerReport> {
    let target = start().await?;
    interruptible(measure(options, &target)).await
}

/// Field order is drop order: the server stops before its directory goes.
struct Sides<'a> {
    options: &'a PowerOptions,
    cluster: Client,
    plain: Client,
    workers: Client,
    /// Root processes of the cluster, for their processor time: the datanodes first.
    processes: Vec<u32>,
    datanodes: usize,
    version: String,
    _stock: StockServer,
    _dir: WorkDir,
}

async fn measure(options: &PowerOptions, target: &Target) -> Result<PowerReport> {
    let sides = Sides::prepare(options, target).await?;
    let mut times = Vec::new();
    for number in &options.queries {
        let query = queries::query(*number, options.scale_factor)?;
        let measured = sides.measure(&query).await?;
        eprintln!("{measured}");
        times.push(measured);
    }
    if !options.keep_tables {
        sides.drop_tables().await?;
    }
    Ok(PowerReport {
        scale_factor: options.scale_factor,
        layout: options.layout,
        datanodes: target.datanodes.len(),
        server_version: sides.version.clone(),
        queries: times,
    })
}

impl<'a> Sides<'a> {
    async fn prepare(options: &'a PowerOptions, target: &Target) -> Result<Self> {
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
            options,
            cluster: sql::connect(coordinator).await?,
            plain: sql::connect(&stock.uri).await?,
            workers: sql::connect(&stock.uri).await?,
            processes,
            datanodes: patterns.len(),
            version: pattern.version.clone(),
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
        let cluster_too = match self.options.keep_tables {
            true => sql::run(&self.cluster, "SELECT FROM lineitem LIMIT 0").await.is_err(),
            false => true,
        };
        let sides: Vec<(&Client, Option<Layout>)> = match cluster_too {
            true => vec![(&self.plain, None), (&self.cluster, layout)],
            false => vec![(&self.plain, None)],
        };
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

    async fn drop_tables(&self) -> Result<()> {
        for table in TABLES.iter().rev() {
            sql::run(&self.cluster, &format!("DROP TABLE {}", table.name)).await?;
        }
        Ok(())
    }

    async fn measure(&self, query: &Query) -> Result<QueryTimes> {
        for client in [&self.plain, &self.cluster] {
            if let Some(before) = &query.before {
                sql::run(client, before).await?;
            }
        }
        let mut times = QueryTimes { number: query.number, ..QueryTimes::default() };
        for _ in 0..self.options.rounds.max(1) {
            let expected = timed(&self.plain, query, &mut times.stock).await?;
            timed(&self.workers, query, &mut times.stock_with_workers).await?;
            let before = cpu::each_seconds(&self.processes)?;
            let found = timed(&self.cluster, query, &mut times.cluster).await;
            let used: Vec<f64> = cpu::each_seconds(&self.processes)?.iter().zip(before).map(|(a, b)| a - b).collect();
            let (datanodes, others) = used.split_at(self.datanodes.min(used.len()));
            times.cluster_cpu = Some(used.iter().sum());
            times.critical_cpu = Some(datanodes.iter().copied().fold(0.0, f64::max) + others.iter().sum::<f64>());
            times.verdict = match found {
                Ok(rows) => self.judge(query.number, expected, rows),
                Err(error) => Verdict::Failed(format!("{} ({})", error.message(), error.code())),
            };
            if times.verdict != Verdict::Right {
                break;
            }
        }
        for client in [&self.plain, &self.cluster] {
            if let Some(after) = &query.after {
                sql::run(client, after).await?;
            }
        }
        Ok(times)
    }

    fn judge(&self, number: usize, mut expected: Vec<Vec<String>>, mut found: Vec<Vec<String>>) -> Verdict {
        let official = match self.options.scale_factor == 1.0 {
            true => queries::compare_with_official(number, &found),
            false => None,
        };
        // Rows that ORDER BY does not tell apart may come in any order.
        expected.sort();
        found.sort();
        if expected != found {
            return Verdict::Wrong(format!("{} rows, not those of one server ({})", found.len(), expected.len()));
        }
        match official {
            Some(difference) => Verdict::Wrong(format!("not the official answer: {difference}")),
            None => Verdict::Right,
        }
    }
}

/// Runs a query; keeps the shortest time.
async fn timed(client: &Client, query: &Query, best: &mut Option<f64>) -> Result<Vec<Vec<String>>> {
    let started = Instant::now();
    let rows = sql::table(client, &query.sql).await?;
    let seconds = started.elapsed().as_secs_f64();
    *best = Some(best.map_or(seconds, |best| best.min(seconds)));
    Ok(rows.into_iter().skip(1).collect())
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
