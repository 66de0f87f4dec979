//! A cluster, and beside it one stock server with the datanodes' settings: the same tables on both, loaded by turns and timed phase by
//! phase, and queries whose rows are compared.

use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use futures_util::SinkExt;
use pgerror::{PgError, Result, SqlState};
use tokio::sync::mpsc;
use tokio_postgres::Client;

use crate::load::Target;
use crate::suite::{Cell, Figure, Readings, Samples, Table};
use crate::tools::stock::{Pattern, StockServer, WorkDir};
use crate::tools::{cpu, sql};

/// Rows as CSV, many lines a block.
pub(crate) type CsvBlocks = Box<dyn Iterator<Item = String> + Send>;

/// About the size of a block.
const BLOCK_BYTES: usize = 512 * 1024;
/// Blocks waiting between the generator and the socket.
const BLOCKS_WAITING_MAX: usize = 4;
/// What a load consists of.
const PHASES: [(&str, &str); 3] = [("copy", "COPY"), ("keys", "keys and indexes"), ("analyze", "ANALYZE")];
const SIDES: [&str; 2] = ["stock", "cluster"];
const MEGABYTES: &str = "load_mb";

/// A table as both sides make it.
pub(crate) struct TableText {
    pub(crate) name: String,
    /// CREATE TABLE without a semicolon.
    pub(crate) create: String,
    /// `DISTRIBUTE BY …`, which only a cluster understands.
    pub(crate) distribution: String,
    /// Made once the rows are there.
    pub(crate) keys: Vec<String>,
}

/// Both sides. Field order is drop order: the server stops before its directory goes.
pub(crate) struct Beside {
    pub(crate) cluster: Client,
    /// Without parallel workers.
    pub(crate) plain: Client,
    /// With two for a Gather.
    pub(crate) workers: Client,
    /// The coordinator's URI.
    pub(crate) uri: String,
    /// Schema of the cluster's tables.
    schema: &'static str,
    distributed: bool,
    /// Root processes of the cluster, for their processor time: the datanodes first.
    processes: Vec<u32>,
    datanodes: usize,
    pub(crate) stock: StockServer,
    _dir: WorkDir,
}

/// Rows of a query, without the column names, and how long they took.
pub(crate) struct Timed {
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) seconds: f64,
}

impl Beside {
    /// `schema` holds the cluster's tables, which must not be mistaken for somebody's.
    pub(crate) async fn start(target: &Target, schema: &'static str) -> Result<Self> {
        let (Some(coordinator), Some(_)) = (target.coordinators.first(), target.datanodes.first()) else {
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator and a datanode"));
        };
        let mut patterns = Vec::new();
        for uri in &target.datanodes {
            patterns.push(Pattern::of(&sql::connect(uri).await?).await?);
        }
        let pattern = &patterns[0];
        let dir = pattern.make_dir(Path::new(&format!("{}-{schema}-{}", target.dir.display(), std::process::id())))?;
        let stock = StockServer::start(pattern, dir.path(), "stock")?;
        let mut processes: Vec<u32> = patterns.iter().map(|pattern| pattern.postmaster).collect();
        processes.extend(cpu::find(&target.dir, &["coordinator", "gtm"])?);
        Ok(Self {
            cluster: sql::connect(coordinator).await?,
            plain: sql::connect(&stock.uri).await?,
            workers: sql::connect(&stock.uri).await?,
            uri: coordinator.clone(),
            schema,
            distributed: target.distributed,
            processes,
            datanodes: patterns.len(),
            stock,
            _dir: dir,
        })
    }

    /// What queries run with, on both sides.
    pub(crate) async fn set(&self, work_mem: &str, timeout_seconds: u32) -> Result<()> {
        let common = Self::settings(work_mem, timeout_seconds);
        sql::run(&self.cluster, &common).await?;
        for (client, workers) in [(&self.plain, 0), (&self.workers, 2)] {
            sql::run(client, &format!("{common}; SET max_parallel_workers_per_gather = {workers}")).await?;
        }
        Ok(())
    }

    /// As statements.
    pub(crate) fn settings(work_mem: &str, timeout_seconds: u32) -> String {
        format!("SET work_mem = '{work_mem}'; SET statement_timeout = '{timeout_seconds}s'")
    }

    /// Makes all tables and fills them, one side after the other table by table. `cluster_has_them`: only the stock server's.
    pub(crate) async fn load(
        &self,
        tables: &[TableText],
        cluster_has_them: bool,
        blocks: impl Fn(&str) -> Result<CsvBlocks>,
    ) -> Result<Readings> {
        if !cluster_has_them {
            self.drop_tables().await?;
            sql::run(&self.cluster, &format!("CREATE SCHEMA {}", self.schema)).await?;
        }
        sql::run(&self.cluster, &format!("SET search_path = {}", self.schema)).await?;
        let mut seconds = [[0.0; PHASES.len()]; SIDES.len()];
        let mut bytes = 0;
        for table in tables {
            bytes += load_table(&self.plain, table, "", blocks(&table.name)?, &mut seconds[0]).await?;
            if !cluster_has_them {
                let distribution = if self.distributed { table.distribution.as_str() } else { "" };
                load_table(&self.cluster, table, distribution, blocks(&table.name)?, &mut seconds[1]).await?;
            }
            eprintln!("loaded {}", table.name);
        }
        let mut readings = Readings::default().figure(MEGABYTES, bytes as f64 / 1e6);
        for (side, seconds) in SIDES.iter().zip(seconds).take(if cluster_has_them { 1 } else { 2 }) {
            for ((phase, _), seconds) in PHASES.iter().zip(seconds) {
                readings = readings.figure(&format!("{phase}_{side}"), seconds);
            }
        }
        Ok(readings)
    }

    pub(crate) async fn drop_tables(&self) -> Result<()> {
        sql::run(&self.cluster, &format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema)).await
    }

    /// The cluster's rows, or its error; and processor time of all its processes, and on the critical path.
    pub(crate) async fn on_cluster(&self, text: &str) -> Result<(Result<Timed>, Readings)> {
        let before = cpu::each_seconds(&self.processes)?;
        let found = timed(&self.cluster, text).await;
        let used: Vec<f64> = cpu::each_seconds(&self.processes)?.iter().zip(before).map(|(a, b)| a - b).collect();
        let (datanodes, others) = used.split_at(self.datanodes.min(used.len()));
        let readings = Readings::default()
            .figure("cluster_cpu", used.iter().sum())
            .figure("critical_cpu", datanodes.iter().copied().fold(0.0, f64::max) + others.iter().sum::<f64>());
        Ok((found, readings))
    }
}

/// Runs a query and reads all its rows.
pub(crate) async fn timed(client: &Client, text: &str) -> Result<Timed> {
    let started = Instant::now();
    let rows = sql::table(client, text).await?;
    Ok(Timed { rows: rows.into_iter().skip(1).collect(), seconds: started.elapsed().as_secs_f64() })
}

/// Adds up the seconds of each phase; gives the bytes of the rows.
async fn load_table(
    client: &Client,
    table: &TableText,
    distribution: &str,
    blocks: CsvBlocks,
    seconds: &mut [f64; PHASES.len()],
) -> Result<u64> {
    let [copying, keys, analyzing] = seconds;
    sql::run(client, &format!("{} {distribution}", table.create)).await?;
    let started = Instant::now();
    let bytes = copy_csv(client, &table.name, blocks).await?;
    *copying += started.elapsed().as_secs_f64();
    let started = Instant::now();
    for statement in &table.keys {
        sql::run(client, statement).await?;
    }
    *keys += started.elapsed().as_secs_f64();
    let started = Instant::now();
    sql::run(client, &format!("ANALYZE {}", table.name)).await?;
    *analyzing += started.elapsed().as_secs_f64();
    Ok(bytes)
}

/// One COPY of rows that are made on a thread of their own; gives their bytes.
pub(crate) async fn copy_csv(client: &Client, table: &str, blocks: CsvBlocks) -> Result<u64> {
    let (sender, mut receiver) = mpsc::channel(BLOCKS_WAITING_MAX);
    tokio::task::spawn_blocking(move || {
        for block in blocks {
            // Nobody receives: the COPY has failed.
            if sender.blocking_send(block).is_err() {
                return;
            }
        }
    });
    let copy = format!("COPY {table} FROM STDIN (FORMAT csv)");
    let mut sink = Box::pin(client.copy_in::<_, Bytes>(&copy).await.map_err(sql::error)?);
    let mut bytes = 0;
    while let Some(block) = receiver.recv().await {
        bytes += block.len() as u64;
        sink.send(Bytes::from(block)).await.map_err(sql::error)?;
    }
    sink.as_mut().finish().await.map_err(sql::error)?;
    Ok(bytes)
}

/// Lines in blocks of [`BLOCK_BYTES`], give or take a row.
pub(crate) fn in_blocks<R: std::fmt::Display>(mut rows: impl Iterator<Item = R>) -> impl Iterator<Item = String> {
    use std::fmt::Write;
    std::iter::from_fn(move || {
        let mut block = String::with_capacity(BLOCK_BYTES + 1024);
        while block.len() < BLOCK_BYTES {
            let Some(row) = rows.next() else { break };
            // Writing to a String cannot fail.
            let _ = writeln!(block, "{row}");
        }
        (!block.is_empty()).then_some(block)
    })
}

/// An error of a statement is an answer; one of the connection ends a run.
pub(crate) fn is_of_connection(error: &PgError) -> bool {
    error.code().as_str().starts_with("08") || error.code() == SqlState::ADMIN_SHUTDOWN
}

/// What [`Beside::load`] measures.
pub(crate) fn load_figures() -> Vec<Figure> {
    let of = |(phase, _): &(&str, &str)| {
        [Figure::cost(&format!("{phase}_cluster"), "s"), Figure::fact(&format!("{phase}_stock"), "s")]
    };
    PHASES.iter().flat_map(of).chain([Figure::fact(MEGABYTES, "MB")]).collect()
}

/// The phases of a load on both sides; no rows if it was not measured.
pub(crate) fn load_table_of(samples: &Samples, point: &str, title: &str) -> Table {
    let mut table = Table::new(title, &["phase", "stock, s", "cluster, s", "cluster / stock"]);
    for (phase, name) in PHASES {
        let [stock, cluster] = SIDES.map(|side| format!("{phase}_{side}"));
        table.push(vec![
            Cell::text(name),
            samples.cell(point, &stock, 2),
            samples.cell(point, &cluster, 2),
            Cell::ratio(samples.median(point, &cluster), samples.median(point, &stock)),
        ]);
    }
    let sum = |side: &str| {
        let seconds = PHASES.map(|(phase, _)| samples.median(point, &format!("{phase}_{side}")));
        seconds.into_iter().sum::<Option<f64>>()
    };
    let [stock, cluster] = SIDES.map(sum);
    let cell = |seconds: Option<f64>| seconds.map_or(Cell::of(&[], 2), |seconds| Cell::number(seconds, 2));
    table.push(vec![Cell::text("all"), cell(stock), cell(cluster), Cell::ratio(cluster, stock)]);
    table
}
