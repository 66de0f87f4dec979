//! `loxo bench load`: the load through the coordinators against the load of stock servers without any, in one run.
//!
//! Both sides get the same files, split the same way: part i goes to stock server i directly, and to a coordinator. Sides take
//! turns (A B A B …), so that a machine that grows slower is slower for both; medians are compared. The stock servers
//! have the datanodes' programs and settings, and every server checkpoints before a round. If all ways of loading are wanted,
//! [`ways`](crate::ways) takes its turn after these two.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pgerror::{PgError, Result, SqlState};
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::lineitem::{Blocks, Columns, Format};
use crate::report::{LoadReport, Measured, grouped};
use crate::tools::copy_in::copy_file;
use crate::tools::cpu;
use crate::tools::sql;
use crate::tools::stock::{Pattern, StockServer, WorkDir};
use crate::verify;
use crate::ways::Ways;

/// Not `lineitem`: a benchmark must not drop somebody's demonstration.
pub(crate) const TABLE: &str = "bench_lineitem";

/// What to measure.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// TPC-H scale factor.
    pub scale_factor: f64,
    /// What the rows are.
    pub columns: Columns,
    /// How the files are written.
    pub format: Format,
    /// Rounds a side; odd, for a real median.
    pub rounds: usize,
    /// Concurrent COPY streams on both sides; `None` is one a datanode.
    pub streams: Option<usize>,
    /// Sends the files over the connection instead of naming them in COPY.
    pub stdin: bool,
    /// Measure a logged table?
    pub logged: bool,
    /// Measure an unlogged table?
    pub unlogged: bool,
    /// Measure every way of loading, `load` of this program among them, and not only COPY into stock servers and coordinators.
    pub all_ways: Option<PathBuf>,
    /// Compare the loaded rows with one server's at the end.
    pub verify: bool,
}

impl LoadOptions {
    /// `--quick`: scale factor 1, seven columns, three rounds, logged and unlogged, server-side files.
    pub fn quick() -> Self {
        Self {
            scale_factor: 1.0,
            columns: Columns::Seven,
            format: Format::Csv,
            rounds: 3,
            streams: None,
            stdin: false,
            logged: true,
            unlogged: true,
            all_ways: None,
            verify: true,
        }
    }
}

/// A running cluster on this machine.
#[derive(Clone, Debug)]
pub struct Target {
    /// Connection URIs.
    pub coordinators: Vec<String>,
    /// Connection URIs.
    pub datanodes: Vec<String>,
    /// What the coordinators carry on their command line; the work directory is made beside it.
    pub dir: PathBuf,
    /// False for a plain PostgreSQL server in place of a cluster.
    pub distributed: bool,
}

/// Runs the benchmark on the cluster that `start` brings up (or finds running).
///
/// # Errors
/// A server's error, a machine on which the processes cannot be seen, or SQLSTATE 57014 after Ctrl-C; servers started
/// here are stopped in any case.
pub async fn run(options: &LoadOptions, start: impl AsyncFnOnce() -> Result<Target>) -> Result<LoadReport> {
    let target = start().await?;
    interruptible(measure(options, &target)).await
}

/// Ends with SQLSTATE 57014 on Ctrl-C.
pub(crate) async fn interruptible<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        result = work => result,
        _ = tokio::signal::ctrl_c() => Err(PgError::new(SqlState::QUERY_CANCELED, "the benchmark was interrupted")),
    }
}

/// Everything a round needs. Field order is drop order: servers stop before their directory goes.
pub(crate) struct Bench<'a> {
    pub(crate) options: &'a LoadOptions,
    pub(crate) target: &'a Target,
    pub(crate) stock: Vec<StockServer>,
    stock_clients: Vec<Client>,
    pub(crate) datanodes: Vec<Client>,
    pub(crate) datanode_pids: Vec<u32>,
    pub(crate) coordinator_pids: Vec<u32>,
    pub(crate) coordinators: Vec<Client>,
    version: String,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) rows: u64,
    bytes: u64,
    pub(crate) dir: WorkDir,
}

async fn measure(options: &LoadOptions, target: &Target) -> Result<LoadReport> {
    let bench = Bench::prepare(options, target).await?;
    let mut others = match &options.all_ways {
        Some(program) => Some(Ways::prepare(&bench, program).await?),
        None => None,
    };
    let (mut measured, mut ways) = (Vec::new(), Vec::new());
    for (kind, persistence, wanted) in [("logged", "", options.logged), ("unlogged", "UNLOGGED", options.unlogged)] {
        if !wanted {
            continue;
        }
        let (mut stock, mut cluster) = (Measured::default(), Measured::default());
        for round in 1..=options.rounds {
            bench.stock_round(persistence, &mut stock).await?;
            bench.cluster_round(persistence, &mut cluster).await?;
            let last = |m: &Measured| grouped((bench.rows as f64 / m.seconds.last().unwrap_or(&1.0)) as u64);
            eprintln!("{kind}, round {round}: stock {} rows/s, cluster {} rows/s", last(&stock), last(&cluster));
            if let Some(others) = &mut others {
                others.round(persistence).await?;
            }
        }
        if let Some(others) = &mut others {
            ways.push((kind, others.take(&stock, &cluster)));
        }
        measured.push((kind, stock, cluster));
    }
    let verified = if options.verify { Some(bench.verify().await?) } else { None };
    sql::run(&bench.coordinators[0], &format!("DROP TABLE {TABLE}")).await?;
    Ok(LoadReport {
        rows: bench.rows,
        bytes: bench.bytes,
        columns: options.columns,
        format: options.format,
        streams: bench.files.len(),
        input: if options.stdin { "stdin" } else { "server-side files" },
        server_version: bench.version.clone(),
        measured,
        ways,
        verified,
    })
}

impl<'a> Bench<'a> {
    async fn prepare(options: &'a LoadOptions, target: &'a Target) -> Result<Self> {
        if target.coordinators.is_empty() || target.datanodes.is_empty() {
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator and a datanode"));
        }
        let datanodes = connect_all(&target.datanodes).await?;
        let mut patterns = Vec::new();
        for datanode in &datanodes {
            patterns.push(Pattern::of(datanode).await?);
        }
        let pattern = patterns[0].clone();
        let work = format!("{}-bench-{}", target.dir.display(), std::process::id());
        let dir = pattern.make_dir(Path::new(&work))?;
        eprintln!("Starting {} stock servers with the datanodes' settings in {work}", datanodes.len());
        let names = (0..datanodes.len()).map(|i| format!("stock{}", i + 1));
        let stock = names.map(|name| StockServer::start(&pattern, dir.path(), &name)).collect::<Result<Vec<_>>>()?;
        let streams = options.streams.unwrap_or(datanodes.len()).max(1);
        eprintln!("Writing {streams} files of lineitem, scale factor {}", options.scale_factor);
        let (files, rows, bytes) = write_files(options, dir.path(), streams).await?;
        let uris: Vec<String> =
            (0..streams).map(|i| target.coordinators[i % target.coordinators.len()].clone()).collect();
        let stock_uris: Vec<String> = (0..streams).map(|i| stock[i % stock.len()].uri.clone()).collect();
        let mut coordinator_pids = cpu::find(&target.dir, &["coordinator", "gtm"])?;
        coordinator_pids.sort_unstable();
        if target.distributed && coordinator_pids.is_empty() {
            let message = format!("no coordinator process carries {} on its command line", target.dir.display());
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, message));
        }
        Ok(Self {
            options,
            target,
            stock_clients: connect_all(&stock_uris).await?,
            stock,
            datanodes,
            datanode_pids: patterns.iter().map(|pattern| pattern.postmaster).collect(),
            coordinator_pids,
            coordinators: connect_all(&uris).await?,
            version: pattern.version,
            files,
            rows,
            bytes,
            dir,
        })
    }

    async fn stock_round(&self, persistence: &str, measured: &mut Measured) -> Result<()> {
        // Several streams may share a server.
        for client in self.stock_clients.iter().take(self.stock.len()) {
            self.create_table(client, persistence).await?;
        }
        self.timed(&self.stock_pids(), &[], measured, self.copy(&self.stock_clients)).await
    }

    async fn cluster_round(&self, persistence: &str, measured: &mut Measured) -> Result<()> {
        self.create_distributed(persistence).await?;
        self.timed(&self.datanode_pids, &self.coordinator_pids, measured, self.copy(&self.coordinators)).await
    }

    /// Loads behind a checkpoint, and notes how long that took and whose processor time.
    pub(crate) async fn timed(
        &self,
        servers: &[u32],
        coordinators: &[u32],
        measured: &mut Measured,
        load: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        self.checkpoint().await?;
        let before = used(servers, coordinators)?;
        let started = Instant::now();
        load.await?;
        measured.seconds.push(started.elapsed().as_secs_f64());
        let after = used(servers, coordinators)?;
        let lists = [&mut measured.server_cpu, &mut measured.coordinator_cpu, &mut measured.loader_cpu];
        lists.into_iter().enumerate().for_each(|(of, list)| list.push(after[of] - before[of]));
        Ok(())
    }

    pub(crate) fn stock_pids(&self) -> Vec<u32> {
        self.stock.iter().map(|server| server.postmaster).collect()
    }

    pub(crate) async fn create_distributed(&self, persistence: &str) -> Result<()> {
        let clause = if self.target.distributed { "DISTRIBUTE BY HASH (l_orderkey)" } else { "" };
        self.create(&self.coordinators[0], persistence, clause).await
    }

    pub(crate) async fn create_table(&self, client: &Client, persistence: &str) -> Result<()> {
        self.create(client, persistence, "").await
    }

    async fn create(&self, client: &Client, persistence: &str, clause: &str) -> Result<()> {
        let columns = self.options.columns.definition();
        sql::run(client, &format!("DROP TABLE IF EXISTS {TABLE}")).await?;
        sql::run(client, &format!("CREATE {persistence} TABLE {TABLE} {columns} {clause}")).await
    }

    async fn checkpoint(&self) -> Result<()> {
        for server in self.datanodes.iter().chain(&self.stock_clients) {
            sql::run(server, "CHECKPOINT").await?;
        }
        Ok(())
    }

    /// All files at once, one a client, until the last one is committed.
    pub(crate) async fn copy(&self, clients: &[Client]) -> Result<()> {
        self.copy_files(clients, &self.files, self.options.format.options()).await
    }

    pub(crate) async fn copy_files(&self, clients: &[Client], files: &[PathBuf], options: &str) -> Result<()> {
        let copies = clients.iter().zip(files).map(|(client, file)| self.copy_one(client, file, options));
        let mut rows = 0;
        for result in join_all(copies).await {
            rows += result?;
        }
        self.must_be_all(rows)
    }

    pub(crate) fn must_be_all(&self, rows: u64) -> Result<()> {
        match rows == self.rows {
            true => Ok(()),
            false => Err(PgError::internal(format!("{rows} rows were loaded instead of {}", self.rows))),
        }
    }

    async fn copy_one(&self, client: &Client, file: &Path, options: &str) -> Result<u64> {
        if self.options.stdin {
            return copy_file(client, &format!("COPY {TABLE} FROM STDIN {options}"), file).await;
        }
        let copy = format!("COPY {TABLE} FROM '{}' {options}", file.display().to_string().replace('\'', "''"));
        client.execute(&copy, &[]).await.map_err(sql::error)
    }

    /// Loads everything into the first stock server and compares.
    async fn verify(&self) -> Result<String> {
        eprintln!("Verifying against one server");
        self.create_table(&self.stock_clients[0], "UNLOGGED").await?;
        for file in &self.files {
            self.copy_one(&self.stock_clients[0], file, self.options.format.options()).await?;
        }
        let datanodes = if self.target.distributed { &self.target.datanodes[..] } else { &[] };
        let found = verify::run(TABLE, &self.target.coordinators[0], datanodes, &self.stock[0].uri).await?;
        found.check()?;
        Ok(format!("verified: {found}"))
    }
}

/// CPU seconds until now: of servers, of coordinators, of children that have ended.
fn used(servers: &[u32], coordinators: &[u32]) -> Result<[f64; 3]> {
    Ok([cpu::tree_seconds(servers)?, cpu::tree_seconds(coordinators)?, cpu::children_seconds()?])
}

/// Polls all futures in this task: they wait for sockets, not for the processor.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in pending.iter_mut().filter(|(_, output)| output.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                *output = Some(value);
            }
        }
        match pending.iter().all(|(_, output)| output.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    pending.into_iter().filter_map(|(_, output)| output).collect()
}

pub(crate) async fn connect_all(uris: &[String]) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for uri in uris {
        clients.push(sql::connect(uri).await?);
    }
    Ok(clients)
}

/// One file a stream; gives the files, and the rows and bytes of all.
async fn write_files(options: &LoadOptions, dir: &Path, streams: usize) -> Result<(Vec<PathBuf>, u64, u64)> {
    let mut tasks = JoinSet::new();
    for part in 1..=streams {
        let path = dir.join(format!("lineitem{part}"));
        let blocks = Blocks::new(options.scale_factor, part, streams, options.columns, options.format);
        tasks.spawn_blocking(move || write_file(blocks, path));
    }
    let (mut files, mut rows, mut bytes) = (Vec::new(), 0, 0);
    while let Some(joined) = tasks.join_next().await {
        let written = joined.map_err(|e| PgError::internal(e.to_string()))?;
        let (file, file_rows, file_bytes) = written?;
        rows += file_rows;
        bytes += file_bytes;
        files.push(file);
    }
    files.sort();
    Ok((files, rows, bytes))
}

fn write_file(mut blocks: Blocks, path: PathBuf) -> Result<(PathBuf, u64, u64)> {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    let failed = |e: std::io::Error| PgError::new(SqlState::IO_ERROR, format!("cannot write {}: {e}", path.display()));
    let mut file = std::fs::File::create(&path).map_err(failed)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(failed)?;
    let (mut block, mut rows, mut bytes) = (Vec::new(), 0, 0);
    loop {
        block.clear();
        let count = blocks.fill(&mut block);
        if count == 0 {
            return Ok((path, rows, bytes));
        }
        file.write_all(&block).map_err(failed)?;
        rows += count;
        bytes += block.len() as u64;
    }
}
