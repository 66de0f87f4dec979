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
use tokio_postgres::Client;

use crate::lineitem::{Columns, Format};
use crate::report::{LoadReport, Measured};
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, measure_once, settings};
use crate::tools::copy_in::copy_file;
use crate::tools::cpu;
use crate::tools::files::write_files;
use crate::tools::sql;
use crate::tools::stock::{Pattern, StockServer, WorkDir};
use crate::verify;
use crate::ways::{Way, Ways};

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
    /// Scale factor 1, seven columns, three rounds, logged and unlogged, server-side files.
    pub fn full() -> Self {
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

    /// A fifth of the rows: less than three minutes.
    pub fn quick() -> Self {
        Self { scale_factor: 0.2, ..Self::full() }
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
    let experiment = Load(options.clone());
    let samples = measure_once(&experiment, start().await?).await?;
    Ok(experiment.report(&samples))
}

/// The experiment.
pub struct Load(pub LoadOptions);

/// Table kinds: name, and the word of CREATE TABLE.
const KINDS: [(&str, &str); 2] = [("logged", ""), ("unlogged", "UNLOGGED")];
/// A round takes about so many seconds a scale factor on each side.
const STEP_SECONDS: f64 = 4.0;

/// Everything a round needs. Field order is drop order: servers stop before their directory goes.
pub struct Bench {
    pub(crate) options: LoadOptions,
    pub(crate) target: Target,
    ways: Option<Ways>,
    pub(crate) stock: Vec<StockServer>,
    stock_clients: Vec<Client>,
    pub(crate) datanodes: Vec<Client>,
    pub(crate) datanode_pids: Vec<u32>,
    pub(crate) coordinator_pids: Vec<u32>,
    pub(crate) coordinators: Vec<Client>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) rows: u64,
    bytes: u64,
    pub(crate) dir: WorkDir,
}

impl Load {
    fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        KINDS.into_iter().filter(|(kind, _)| if *kind == "logged" { self.0.logged } else { self.0.unlogged })
    }

    fn ways(&self) -> &'static [Way] {
        if self.0.all_ways.is_some() { &Way::ALL } else { &Way::ALL[..2] }
    }

    fn points(&self, kind: &str) -> Vec<String> {
        self.ways().iter().map(|way| format!("{kind}: {}", way.name())).collect()
    }

    /// The samples as the two sides, and all ways.
    pub fn report(&self, samples: &Samples) -> LoadReport {
        let measured = |kind: &str, way: Way| {
            let point = format!("{kind}: {}", way.name());
            let values = |figure| samples.values(&point, figure);
            Measured {
                seconds: values("seconds"),
                server_cpu: values("server_cpu"),
                coordinator_cpu: values("coordinator_cpu"),
                loader_cpu: values("loader_cpu"),
            }
        };
        let any = |figure| {
            let point =
                self.kinds().find_map(|(kind, _)| samples.median(&format!("{kind}: {}", Way::Stock.name()), figure));
            point.unwrap_or_default() as u64
        };
        let way = |kind: &str, way: Way| (way.describe(self.0.format.name()), measured(kind, way));
        let ways = |(kind, _): (&'static str, _)| (kind, Way::ALL.map(|each| way(kind, each)).to_vec());
        LoadReport {
            rows: any("rows"),
            bytes: any("bytes"),
            measured: self
                .kinds()
                .map(|(kind, _)| (kind, measured(kind, Way::Stock), measured(kind, Way::Cluster)))
                .collect(),
            ways: if self.0.all_ways.is_some() { self.kinds().map(ways).collect() } else { Vec::new() },
        }
    }
}

impl Experiment for Load {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "load"
    }

    fn title(&self) -> String {
        format!(
            "Loading lineitem ({}) through the coordinators and straight into stock servers",
            self.0.columns.describe()
        )
    }

    fn about(&self) -> String {
        "The same files go by turns into one stock PostgreSQL server a datanode, each with the datanodes' settings, and through the \
         coordinators into the cluster. On one machine both sides have the same cores, so the ratio says what routing costs and what \
         binary rows save the datanodes; processor time says it most reliably."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let LoadOptions { scale_factor, columns, format, rounds, streams, stdin, .. } = &self.0;
        let (kinds, ways) = (self.kinds().map(|(kind, _)| kind), self.ways().iter().map(|way| way.name()));
        let (kinds, ways) = (kinds.collect::<Vec<_>>().join(", "), ways.collect::<Vec<_>>().join(", "));
        let streams = streams.map_or("one a datanode".to_owned(), |streams| streams.to_string());
        let input = if *stdin { "stdin" } else { "server-side files" };
        settings(&[
            ("scale factor", scale_factor),
            ("columns", &columns.describe()),
            ("format", &format.name()),
            ("streams", &streams),
            ("input", &input),
            ("tables", &kinds),
            ("ways", &ways),
            ("rounds", rounds),
        ])
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::rate("rows_per_second", "rows/s"),
            Figure::rate("megabytes_per_second", "MB/s"),
            Figure::cost("seconds", "s"),
            Figure::cost("server_cpu", "CPU s"),
            Figure::cost("coordinator_cpu", "CPU s"),
            Figure::cost("loader_cpu", "CPU s"),
            Figure::fact("rows", "rows"),
            Figure::fact("bytes", "bytes"),
        ]
    }

    fn stages(&self) -> Vec<Stage> {
        let seconds = 1.0 + STEP_SECONDS * self.0.scale_factor;
        let steps = self.kinds().flat_map(|(kind, _)| Step::by_turns(&self.points(kind), self.0.rounds, seconds));
        vec![Stage { name: "a cluster and stock servers".to_owned(), steps: steps.collect(), ..Stage::of(2, 2) }]
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        Bench::prepare(&self.0, target).await
    }

    async fn step(&self, bench: &mut Bench, step: &Step) -> Result<Readings> {
        let found = KINDS.iter().flat_map(|kind| Way::ALL.map(|way| (kind, way)));
        let of_step = |((kind, _), way): &(&(&str, &str), Way)| step.point == format!("{kind}: {}", way.name());
        let ((_, persistence), way) = found
            .into_iter()
            .find(of_step)
            .ok_or_else(|| PgError::internal(format!("no way called {}", step.point)))?;
        match way {
            Way::Stock => bench.stock_round(persistence).await,
            Way::Cluster => bench.cluster_round(persistence).await,
            other => match bench.ways.take() {
                Some(mut ways) => {
                    let readings = ways.round(bench, other, persistence).await;
                    bench.ways = Some(ways);
                    readings
                }
                None => Err(PgError::internal("the other ways were not asked for")),
            },
        }
    }

    async fn finish(&self, bench: Bench) -> Result<Option<String>> {
        let verified = if self.0.verify { Some(bench.verify().await?) } else { None };
        sql::run(&bench.coordinators[0], &format!("DROP TABLE IF EXISTS {TABLE}")).await?;
        Ok(verified)
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        self.report(samples).sheet()
    }
}

impl Bench {
    async fn prepare(options: &LoadOptions, target: &Target) -> Result<Self> {
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
        let (files, rows, bytes) =
            write_files(options.scale_factor, options.columns, options.format, dir.path(), streams).await?;
        let uris: Vec<String> =
            (0..streams).map(|i| target.coordinators[i % target.coordinators.len()].clone()).collect();
        let stock_uris: Vec<String> = (0..streams).map(|i| stock[i % stock.len()].uri.clone()).collect();
        let mut coordinator_pids = cpu::find(&target.dir, &["coordinator", "gtm"])?;
        coordinator_pids.sort_unstable();
        if target.distributed && coordinator_pids.is_empty() {
            let message = format!("no coordinator process carries {} on its command line", target.dir.display());
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, message));
        }
        let mut bench = Self {
            options: options.clone(),
            target: target.clone(),
            ways: None,
            stock_clients: connect_all(&stock_uris).await?,
            stock,
            datanodes,
            datanode_pids: patterns.iter().map(|pattern| pattern.postmaster).collect(),
            coordinator_pids,
            coordinators: connect_all(&uris).await?,
            files,
            rows: rows.iter().sum(),
            bytes,
            dir,
        };
        if let Some(program) = &options.all_ways {
            bench.ways = Some(Ways::prepare(&bench, program).await?);
        }
        Ok(bench)
    }

    async fn stock_round(&self, persistence: &str) -> Result<Readings> {
        // Several streams may share a server.
        for client in self.stock_clients.iter().take(self.stock.len()) {
            self.create_table(client, persistence).await?;
        }
        self.timed(&self.stock_pids(), &[], self.copy(&self.stock_clients)).await
    }

    async fn cluster_round(&self, persistence: &str) -> Result<Readings> {
        self.create_distributed(persistence).await?;
        self.timed(&self.datanode_pids, &self.coordinator_pids, self.copy(&self.coordinators)).await
    }

    /// Loads behind a checkpoint, and notes how long that took and whose processor time.
    pub(crate) async fn timed(
        &self,
        servers: &[u32],
        coordinators: &[u32],
        load: impl Future<Output = Result<()>>,
    ) -> Result<Readings> {
        self.checkpoint().await?;
        let before = used(servers, coordinators)?;
        let started = Instant::now();
        load.await?;
        let seconds = started.elapsed().as_secs_f64();
        let after = used(servers, coordinators)?;
        Ok(Readings::default()
            .figure("rows_per_second", self.rows as f64 / seconds)
            .figure("megabytes_per_second", self.bytes as f64 / 1e6 / seconds)
            .figure("seconds", seconds)
            .figure("server_cpu", after[0] - before[0])
            .figure("coordinator_cpu", after[1] - before[1])
            .figure("loader_cpu", after[2] - before[2])
            .figure("rows", self.rows as f64)
            .figure("bytes", self.bytes as f64))
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
            return copy_file(client, &format!("COPY {TABLE} FROM STDIN {options}"), file, None).await;
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
