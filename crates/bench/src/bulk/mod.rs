//! `loxo bench bulk` and `loxo bench scaling`: at what rate rows come into the cluster, and what sets the pace.
//!
//! Streams of COPY load lineitem through 1, 2, 3 coordinators, by turns, into logged and unlogged tables; then `count(*)` scans it.
//! `scaling` does so on one cluster after the other, of ever more datanodes. Beside every rate stand processor time by role and
//! what the datanodes' backends were seen to do, and from these the report names what sets the pace.

mod report;

use std::path::{Path, PathBuf};
use std::time::Instant;

use futures_util::future::try_join_all;
use pgerror::{PgError, Result, SqlState};
use tokio_postgres::Client;

use crate::lineitem::{Blocks, Columns, Format};
use crate::load::{Target, connect_all};
use crate::profile;
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, cores, settings};
use crate::tools::copy_in::{Cancel, copy_blocks, generate};
use crate::tools::files::write_files;
use crate::tools::progress::Progress;
use crate::tools::roles::{Load, Roles};
use crate::tools::sql;
use crate::tools::stock::{Pattern, WorkDir};
use crate::tools::waits::Watch;

const TABLE: &str = "bench_bulk";
/// A round takes about so many seconds a scale factor.
const STEP_SECONDS: f64 = 5.0;
/// Rows from which the width of a row on the wire is taken.
const ROWS_MEASURED: u64 = 10_000;

/// What to measure.
#[derive(Clone, Debug)]
pub struct BulkOptions {
    /// TPC-H scale factor of one load.
    pub scale_factor: f64,
    /// What the rows are.
    pub columns: Columns,
    /// Concurrent COPYs.
    pub streams: usize,
    /// Datanodes of clusters, one after the other.
    pub datanodes: Vec<u16>,
    /// How many coordinators take part, by turns.
    pub coordinators: Vec<u16>,
    /// Measure a logged table?
    pub logged: bool,
    /// Measure an unlogged table?
    pub unlogged: bool,
    /// Loads of each kind.
    pub rounds: usize,
    /// Make the rows while they are loaded, in this program, instead of files that coordinators read.
    pub on_the_fly: bool,
}

impl BulkOptions {
    /// 24 streams, 2 datanodes, 1 to 3 coordinators.
    pub fn bulk() -> Self {
        Self {
            scale_factor: 1.0,
            columns: Columns::Seven,
            streams: 24,
            datanodes: vec![2],
            coordinators: vec![1, 2, 3],
            logged: true,
            unlogged: true,
            rounds: 3,
            on_the_fly: false,
        }
    }

    /// Unlogged, 1 to 8 datanodes, 1 and 2 coordinators.
    pub fn scaling() -> Self {
        Self { datanodes: vec![1, 2, 4, 8], coordinators: vec![1, 2], logged: false, ..Self::bulk() }
    }

    /// This experiment, shortened to less than three minutes.
    pub fn quick(self) -> Self {
        let datanodes = self.datanodes.into_iter().filter(|datanodes| *datanodes <= 4).collect();
        Self { scale_factor: 0.2, streams: 8, datanodes, ..self }
    }
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// How fast is it, with how many coordinators?
    Rate,
    /// How does that grow with datanodes?
    Scaling,
}

/// The experiment.
pub struct Bulk {
    /// What to measure.
    pub options: BulkOptions,
    /// What for.
    pub question: Question,
}

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    datanodes: u16,
    coordinators: u16,
    is_logged: bool,
}

impl Case {
    fn kind(self) -> &'static str {
        if self.is_logged { "logged" } else { "unlogged" }
    }

    fn point(self) -> String {
        format!("{}, {} datanodes, {} coordinators", self.kind(), self.datanodes, self.coordinators)
    }
}

impl Bulk {
    fn kinds(&self) -> impl Iterator<Item = bool> {
        [(true, self.options.logged), (false, self.options.unlogged)]
            .into_iter()
            .filter_map(|(kind, on)| on.then_some(kind))
    }

    /// Those that are measured by turns.
    fn turns(&self, datanodes: u16, is_logged: bool) -> Vec<Case> {
        let case = |coordinators: &u16| Case { datanodes, coordinators: *coordinators, is_logged };
        self.options.coordinators.iter().map(case).collect()
    }

    fn cases(&self) -> Vec<Case> {
        let of_size = |datanodes: &u16| self.kinds().flat_map(|kind| self.turns(*datanodes, kind)).collect::<Vec<_>>();
        self.options.datanodes.iter().flat_map(of_size).collect()
    }
}

fn list(numbers: &[u16]) -> String {
    numbers.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

impl Experiment for Bulk {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        match self.question {
            Question::Rate => "bulk",
            Question::Scaling => "scaling",
        }
    }

    fn title(&self) -> String {
        match self.question {
            Question::Rate => "Bulk load rate".to_owned(),
            Question::Scaling => "Bulk load rate with more datanodes and coordinators".to_owned(),
        }
    }

    fn about(&self) -> String {
        "Streams of COPY load TPC-H's lineitem, DISTRIBUTE BY HASH (l_orderkey), through the coordinators, by turns through one, two or \
         three of them; then count(*) scans the table. Everything runs on this machine: datanodes, coordinators and, with --on-the-fly, \
         the program that makes the rows share its cores, so more of them cannot be faster than its processors; processor time by role \
         says what each would need on a machine of its own."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let BulkOptions { scale_factor, columns, streams, datanodes, coordinators, rounds, on_the_fly, .. } =
            &self.options;
        let input = if *on_the_fly { "made while it is loaded" } else { "server-side files, CSV" };
        settings(&[
            ("scale factor", scale_factor),
            ("columns", &columns.describe()),
            ("streams", streams),
            ("datanodes", &list(datanodes)),
            ("coordinators", &list(coordinators)),
            ("rounds", rounds),
            ("input", &input),
        ])
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::rate("rows_per_second", "rows/s"),
            Figure::rate("megabytes_per_second", "MB/s"),
            Figure::rate("terabytes_per_hour", "TB/h"),
            Figure::cost("seconds", "s"),
            Figure::cost("datanode_cpu_per_million", "CPU s"),
            Figure::cost("busiest_datanode_cpu_per_million", "CPU s"),
            Figure::cost("coordinator_cpu_per_million", "CPU s"),
            Figure::cost("loader_cpu_per_million", "CPU s"),
            Figure::rate("count_rows_per_second", "rows/s"),
            Figure::fact("rows", "rows"),
            Figure::fact("input_bytes_a_row", "bytes"),
            Figure::fact("wire_bytes_a_row", "bytes"),
            Figure::cost("wal_bytes_a_row", "bytes"),
        ]
    }

    fn stages(&self) -> Vec<Stage> {
        let BulkOptions { scale_factor, rounds, coordinators, .. } = &self.options;
        let most = coordinators.iter().copied().max().unwrap_or(1);
        let stage = |datanodes: &u16| {
            let of_kind = |kind: bool| {
                let points: Vec<String> = self.turns(*datanodes, kind).into_iter().map(Case::point).collect();
                Step::by_turns(&points, *rounds, 1.0 + STEP_SECONDS * scale_factor)
            };
            Stage { steps: self.kinds().flat_map(of_kind).collect(), ..Stage::of(*datanodes, most) }
        };
        self.options.datanodes.iter().map(stage).collect()
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        Bench::prepare(&self.options, target).await
    }

    async fn step(&self, bench: &mut Bench, step: &Step) -> Result<Readings> {
        let case = self.cases().into_iter().find(|case| case.point() == step.point);
        bench.round(case.ok_or_else(|| PgError::internal(format!("no case {}", step.point)))?).await
    }

    async fn finish(&self, bench: Bench) -> Result<Option<String>> {
        sql::run(&bench.client, &format!("DROP TABLE IF EXISTS {TABLE}")).await?;
        Ok(Some("Every load was counted: as many rows as were sent.".to_owned()))
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        report::sheet(self, samples)
    }
}

/// Where the rows come from.
enum Input {
    /// One a stream.
    Files {
        files: Vec<PathBuf>,
        rows: u64,
        bytes: u64,
    },
    OnTheFly,
}

/// What loads need.
pub struct Bench {
    options: BulkOptions,
    target: Target,
    roles: Roles,
    client: Client,
    datanodes: Vec<Client>,
    input: Input,
    _dir: WorkDir,
}

impl Bench {
    async fn prepare(options: &BulkOptions, target: &Target) -> Result<Self> {
        let most = usize::from(options.coordinators.iter().copied().max().unwrap_or(1));
        if target.coordinators.len() < most || target.datanodes.is_empty() {
            let text = format!("the benchmark needs {most} coordinators and a datanode");
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, text).hint("\"loxo up --coordinators N\" adds some."));
        }
        let datanodes = connect_all(&target.datanodes).await?;
        let mut patterns = Vec::new();
        for datanode in &datanodes {
            patterns.push(Pattern::of(datanode).await?);
        }
        let work = format!("{}-bench-{}", target.dir.display(), std::process::id());
        let dir = patterns[0].make_dir(Path::new(&work))?;
        let input = match options.on_the_fly {
            true => Input::OnTheFly,
            false => {
                let BulkOptions { scale_factor, columns, streams, .. } = *options;
                let (files, rows, bytes) = write_files(scale_factor, columns, Format::Csv, dir.path(), streams).await?;
                Input::Files { files, rows: rows.iter().sum(), bytes }
            }
        };
        Ok(Self {
            options: options.clone(),
            roles: Roles::of(&target.dir, patterns.iter().map(|pattern| pattern.postmaster).collect())?,
            client: sql::connect(&target.coordinators[0]).await?,
            target: target.clone(),
            datanodes,
            input,
            _dir: dir,
        })
    }

    async fn round(&self, case: Case) -> Result<Readings> {
        let (columns, persistence) = (self.options.columns.definition(), if case.is_logged { "" } else { "UNLOGGED" });
        let clause = if self.target.distributed { "DISTRIBUTE BY HASH (l_orderkey)" } else { "" };
        sql::run(&self.client, &format!("DROP TABLE IF EXISTS {TABLE}")).await?;
        sql::run(&self.client, &format!("CREATE {persistence} TABLE {TABLE} {columns} {clause}")).await?;
        for datanode in &self.datanodes {
            sql::run(datanode, "CHECKPOINT").await?;
        }
        let coordinators = &self.target.coordinators[..usize::from(case.coordinators)];
        let uris: Vec<String> = coordinators.iter().cycle().take(self.options.streams).cloned().collect();
        let clients = connect_all(&uris).await?;
        let wal_before = self.wal_bytes().await?;
        let watch = Watch::begin(&self.target.datanodes).await?;
        let (before, began) = (self.roles.used()?, Instant::now());
        let (rows, bytes) = self.load(&clients).await?;
        let seconds = began.elapsed().as_secs_f64();
        let (used, waits) = (self.roles.used()?.since(&before), watch.end().await?);
        let wal_bytes = self.wal_bytes().await? - wal_before;
        let counting = Instant::now();
        let counted = sql::number(&self.client, &format!("SELECT count(*) FROM {TABLE}")).await?;
        let count_seconds = counting.elapsed().as_secs_f64();
        if counted != rows {
            return Err(PgError::internal(format!("{rows} rows were sent and {counted} are there")));
        }
        let (per_million, rate) = (1e6 / rows.max(1) as f64, rows as f64 / seconds);
        let (streams, coordinators) = (self.options.streams, coordinators.len());
        let pace = used.bottleneck(Load { cores: cores(), streams, coordinators }, &waits);
        let readings = Readings::default()
            .figure("rows_per_second", rate)
            .figure("megabytes_per_second", bytes as f64 / 1e6 / seconds)
            .figure("terabytes_per_hour", bytes as f64 / 1e12 / seconds * 3600.0)
            .figure("seconds", seconds)
            .figure("rows", rows as f64)
            .figure("input_bytes_a_row", bytes as f64 / rows.max(1) as f64)
            .figure("wire_bytes_a_row", self.wire_bytes_a_row().await?)
            .figure("wal_bytes_a_row", wal_bytes / rows.max(1) as f64)
            .figure("datanode_cpu_per_million", used.all_datanodes() * per_million)
            .figure(
                "busiest_datanode_cpu_per_million",
                used.datanodes.iter().copied().fold(0.0, f64::max) * per_million,
            )
            .figure("coordinator_cpu_per_million", (used.all_coordinators() + used.gtm) * per_million)
            .figure("loader_cpu_per_million", used.loader * per_million)
            .figure("count_rows_per_second", rows as f64 / count_seconds)
            .word("pace", pace);
        Ok(profile::add(readings, &waits))
    }

    /// All streams at once; gives rows and bytes.
    async fn load(&self, clients: &[Client]) -> Result<(u64, u64)> {
        match &self.input {
            Input::Files { files, rows, bytes } => {
                let copy = async |client: &Client, file: &Path| {
                    let name = file.display().to_string().replace('\'', "''");
                    let copy = format!("COPY {TABLE} FROM '{name}' {}", Format::Csv.options());
                    client.execute(&copy, &[]).await.map_err(sql::error)
                };
                let copied = try_join_all(clients.iter().zip(files).map(|(client, file)| copy(client, file))).await?;
                match copied.iter().sum::<u64>() {
                    all if all == *rows => Ok((*rows, *bytes)),
                    all => Err(PgError::internal(format!("{all} rows were loaded instead of {rows}"))),
                }
            }
            Input::OnTheFly => {
                let (progress, cancel) = (Progress::new(), Cancel::default());
                let copy = format!("COPY {TABLE} FROM STDIN {}", Format::Csv.options());
                let BulkOptions { scale_factor, columns, streams, .. } = self.options;
                let streams = clients.iter().enumerate().map(|(number, client)| {
                    let blocks = generate(Blocks::new(scale_factor, number + 1, streams, columns, Format::Csv));
                    copy_blocks(client, &copy, blocks, &progress, &cancel)
                });
                let rows = try_join_all(streams).await?.iter().sum();
                Ok((rows, progress.bytes()))
            }
        }
    }

    /// Bytes of WAL that all datanodes have written since they were made.
    async fn wal_bytes(&self) -> Result<f64> {
        let position = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')";
        let positions = try_join_all(self.datanodes.iter().map(|datanode| sql::number(datanode, position)));
        Ok(positions.await?.iter().sum::<u64>() as f64)
    }

    /// Bytes of a row as datanodes get it, in COPY's binary format.
    async fn wire_bytes_a_row(&self) -> Result<f64> {
        use futures_util::StreamExt;
        let copy = format!("COPY (SELECT * FROM {TABLE} LIMIT {ROWS_MEASURED}) TO STDOUT (FORMAT binary)");
        let mut stream = std::pin::pin!(self.client.copy_out(&copy).await.map_err(sql::error)?);
        let (mut rows, mut bytes) = (0, 0);
        while let Some(block) = stream.next().await {
            bytes += block.map_err(sql::error)?.len();
            // A message a row; the last two are the trailer and the end.
            rows += 1;
        }
        Ok(bytes as f64 / (rows.max(2) - 1) as f64)
    }
}
