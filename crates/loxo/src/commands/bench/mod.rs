//! `loxo bench`.

mod nodes;

use std::path::{Path, PathBuf};

use bench::grow::Datanodes;
use bench::insert::{InsertOptions, InsertScaling, Shape};
use bench::lineitem::{Columns, Format};
use bench::power::{Layout, Scaling};
use bench::{GrowOptions, GrowReport, LoadOptions, PowerOptions, SmallOptions, SnapshotOptions, Target, TpcbOptions};
use cluster::local::{self, Kind, UpOptions};
use cluster::settings::Profile;
use cluster::{Config, Progress, membership};
use pgerror::{PgError, Result};

/// Shape of the cluster that is measured if none is named.
const DATANODES: u16 = 2;
const COORDINATORS: u16 = 2;

/// Measure this machine
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Load(LoadArguments),
    Tpcb(TpcbArguments),
    #[command(alias = "cut")]
    Snapshot(SnapshotArguments),
    Insert(InsertArguments),
    Power(PowerArguments),
    Small(SmallArguments),
    Grow(GrowArguments),
    Nodes(nodes::Arguments),
}

/// Loading through the coordinators against loading stock servers directly, in one run
///
/// Starts one stock PostgreSQL server a datanode, with the datanodes' settings, and loads the same TPC-H lineitem files
/// by turns into them and, through the coordinators, into the cluster. Prints rows per second of both, their ratio, and
/// processor seconds per million rows.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench load --quick                        scale factor 1, a cluster of its own, removed afterwards
  loxo bench load --all-ways                     and one stock server, split binary files, loxo load with and without --direct
  loxo bench load --columns 16 --rounds 5        all columns of lineitem
  loxo bench load --columns json --format text   wide rows, as COPY's text format
  loxo bench load --dir /data/two --json         the cluster in that directory")]
struct LoadArguments {
    /// Scale factor 1, 7 columns, 3 rounds (these are the defaults)
    #[arg(long)]
    quick: bool,
    /// Measure the cluster in this directory [default: a new one of 2 datanodes and 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Scale factor: 1 is 6 million rows
    #[arg(long, value_name = "SF", value_parser = crate::commands::demo::scale_factor, conflicts_with = "quick")]
    sf: Option<f64>,
    /// Columns of lineitem: 7, 16, json (a key and a wide jsonb document) or blob (7, the first row of 1 MB)
    #[arg(long, value_parser = columns, conflicts_with = "quick")]
    columns: Option<Columns>,
    /// Format of the files: csv or text
    #[arg(long, value_parser = format, default_value = "csv")]
    format: Format,
    /// Rounds a side; medians are compared
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99), conflicts_with = "quick")]
    rounds: Option<u16>,
    /// Concurrent COPY streams a side [default: one a datanode]
    #[arg(long, value_name = "N")]
    streams: Option<usize>,
    /// Send the files over the connection instead of naming them in COPY
    #[arg(long)]
    stdin: bool,
    /// Measure also: one stock server alone, stock servers with rows that are binary and split already, loxo load, and that
    /// with --direct; all by turns
    #[arg(long)]
    all_ways: bool,
    /// Measure logged tables only
    #[arg(long, conflicts_with = "unlogged_only")]
    logged_only: bool,
    /// Measure unlogged tables only
    #[arg(long)]
    unlogged_only: bool,
    /// Settings profile of a new cluster: default, bulk or oltp
    #[arg(long, default_value_t)]
    profile: Profile,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// pgbench's transactions through a coordinator against one stock server without any, in one run
///
/// Starts a stock PostgreSQL server with the datanodes' settings and runs pgbench (TPC-B-like, with the branch in every
/// statement) by turns against it and against a coordinator. Prints transactions per second of both, their ratio, and
/// processor microseconds per transaction.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench tpcb                                scale 10, 8 clients, all protocol modes, a cluster of its own
  loxo bench tpcb --select-only --mode prepared  reads of single accounts
  loxo bench tpcb --dir /data/two --json         the cluster in that directory")]
struct TpcbArguments {
    /// Measure the cluster in this directory [default: a new one of 2 datanodes and 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Branches; 100,000 accounts each
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    scale: u32,
    /// Connections of pgbench
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Seconds of one run
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Rounds a side; medians are compared
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// How pgbench sends statements: simple, extended or prepared; may be repeated [default: all three]
    #[arg(long = "mode", value_name = "M", value_parser = clap::builder::PossibleValuesParser::new(bench::tpcb::MODES))]
    modes: Vec<String>,
    /// Only read accounts
    #[arg(long)]
    select_only: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads over two datanodes with and without a consistent snapshot, while others write
///
/// Runs pgbench clients that move money between accounts on two datanodes, and beside them one client that reads eight
/// accounts, by turns with loxo.snapshot = local and consistent. Prints the medians of its times and what the snapshot adds.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench snapshot                               8 writers, 3 rounds, a cluster of its own
  loxo bench snapshot --writers 0                     on a cluster that is idle otherwise
  loxo bench snapshot --dir /data/two --json          the cluster in that directory")]
struct SnapshotArguments {
    /// Measure the cluster in this directory [default: a new one of 2 datanodes and 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Clients that write without a pause
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=1000))]
    writers: u32,
    /// Seconds of one run
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Rounds of each setting; medians are compared
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Rows written by INSERT through a coordinator against one stock server without any, in one run
///
/// Clients send transactions of 1,000 rows by turns to a stock server with the datanodes' settings and to a coordinator: one
/// INSERT of 1,000 rows, INSERTs one by one, a pipeline of a prepared one, INSERT … SELECT; all rows with one key, and each
/// with its own. Prints rows per second of both, their ratio, and processor microseconds per row.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench insert                              2 clients, all shapes, a cluster of its own
  loxo bench insert --shape values --clients 8   only INSERTs of 1,000 rows of constants
  loxo bench insert --nodes 1,2,4                one cluster after the other, and how work grows and shrinks
  loxo bench insert --dir /data/two --json       the cluster in that directory")]
struct InsertArguments {
    /// Measure the cluster in this directory [default: a new one of 2 datanodes and 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Sessions that write
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Seconds of one run
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Rounds a side; medians are compared
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// values, each, pipeline or select; may be repeated [default: all four]
    #[arg(long = "shape", value_name = "S", value_parser = shape)]
    shapes: Vec<Shape>,
    /// Datanodes of a new cluster; several numbers, e.g. 1,2,4: one cluster after the other, and how work grows and shrinks
    #[arg(long, value_delimiter = ',', default_values_t = [DATANODES], conflicts_with = "dir",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: Vec<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The 22 TPC-H queries on a cluster and on one stock server, in one run
///
/// Loads the same rows into the cluster and into one stock server with the datanodes' settings, runs every query on both
/// (the stock server without and with parallel workers), compares the rows with each other and at scale factor 1 with the
/// official answers, and prints the times.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench power                               scale factor 1, a cluster of its own, removed afterwards
  loxo bench power --sf 0.1 --layout hash        every table hash-distributed
  loxo bench power --dir /data/two --keep        the cluster in that directory; its tables stay for the next run")]
struct PowerArguments {
    /// Measure the cluster in this directory [default: a new one of 2 datanodes, removed afterwards]
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Scale factor
    #[arg(long, value_name = "SF", default_value = "1", value_parser = crate::commands::demo::scale_factor)]
    sf: f64,
    /// mixed: lineitem and orders by orderkey, part and partsupp by partkey, the rest replicated; hash: all by their key
    #[arg(long, default_value = "mixed", value_parser = layout)]
    layout: Layout,
    /// Runs of each query; the fastest counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// Only these queries, e.g. 1,6,14
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=22))]
    queries: Vec<u16>,
    /// Datanodes of a new cluster; several numbers, e.g. 1,2,4: one cluster after the other, and how work grows and shrinks
    #[arg(long, value_delimiter = ',', default_values_t = [DATANODES], conflicts_with = "dir",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: Vec<u16>,
    /// Give a query up after so many seconds
    #[arg(long, default_value_t = 300)]
    timeout: u32,
    /// Use tables that are there already, and leave them there
    #[arg(long)]
    keep: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Short queries over small tables, on a cluster and on one stock server, in one run
///
/// Nothing counts there but what a query costs before its first row. Prints the median time of each query on both sides.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench small                               a cluster of its own of 2 datanodes, removed afterwards
  loxo bench small --nodes 4 --rounds 50
  loxo bench small --dir /data/two --json        the cluster in that directory")]
struct SmallArguments {
    /// Measure the cluster in this directory [default: a new one, removed afterwards]
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Runs of each query; medians are compared
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=9999))]
    rounds: u16,
    /// Datanodes of a new cluster
    #[arg(long, default_value_t = DATANODES, conflicts_with = "dir", value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What clients see while a datanode is added, filled, emptied and removed
///
/// Writers move money between accounts, readers sum all of it, and one session asks TPC-H queries, first without moves, then
/// while a datanode is added and gets its share of the rows, and while it is removed. At last, with nothing else running, one
/// is added again. Prints throughput, percentiles and longest pauses of each phase, all errors, how many rows moved and how
/// fast, and whether every row is there, once. While it runs a line a second goes to stderr.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench grow --quick                          scale factor 0.05, a cluster of its own, removed afterwards
  loxo bench grow --out grow.svg                   scale factor 1, and a chart of every second; .csv: the figures
  loxo bench grow --dir /data/three --json         the cluster in that directory, which has its datanodes again at the end")]
struct GrowArguments {
    /// Scale factor 0.05 and 15 seconds without moves: less than three minutes
    #[arg(long)]
    quick: bool,
    /// Measure the cluster in this directory [default: a new one of 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Datanodes of a new cluster, before one is added
    #[arg(long, default_value_t = 3, conflicts_with = "dir", value_parser = clap::value_parser!(u16).range(2..=63))]
    nodes: u16,
    /// Scale factor of lineitem [default: 1]
    #[arg(long, value_name = "SF", visible_alias = "scale", value_parser = crate::commands::demo::scale_factor, conflicts_with = "quick")]
    sf: Option<f64>,
    /// Sessions that write
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=1000))]
    writers: u32,
    /// Sessions that read
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(0..=1000))]
    readers: u32,
    /// Seconds of the phase without moves [default: 30]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=3600), conflicts_with = "quick")]
    seconds: Option<u32>,
    /// Write every second there: a chart if its name ends in .svg, else CSV
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn shape(text: &str) -> std::result::Result<Shape, String> {
    let found = Shape::NAMED.iter().find(|(name, _)| *name == text);
    found.map(|(_, shape)| *shape).ok_or_else(|| "values, each, pipeline or select".to_owned())
}

fn layout(text: &str) -> std::result::Result<Layout, String> {
    match text {
        "mixed" => Ok(Layout::Mixed),
        "hash" => Ok(Layout::Hash),
        _ => Err("mixed or hash".to_owned()),
    }
}

fn columns(text: &str) -> std::result::Result<Columns, String> {
    match text {
        "7" => Ok(Columns::Seven),
        "16" => Ok(Columns::Sixteen),
        "json" => Ok(Columns::Json),
        "blob" => Ok(Columns::Blob),
        _ => Err("7, 16, json or blob".to_owned()),
    }
}

fn format(text: &str) -> std::result::Result<Format, String> {
    match text {
        "csv" => Ok(Format::Csv),
        "text" => Ok(Format::Text),
        _ => Err("csv or text".to_owned()),
    }
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Load(arguments) => {
            let (dir, profile) = (arguments.dir.clone(), Some(arguments.profile));
            let work = async |up| load(&arguments, up).await;
            crate::commands::print(&on_cluster(dir, DATANODES, COORDINATORS, profile, work).await?)
        }
        Command::Tpcb(arguments) => {
            let (dir, profile) = (arguments.dir.clone(), Some(Profile::Default));
            let work = async |up| tpcb(&arguments, up).await;
            crate::commands::print(&on_cluster(dir, DATANODES, COORDINATORS, profile, work).await?)
        }
        Command::Snapshot(arguments) => {
            let (dir, profile) = (arguments.dir.clone(), Some(Profile::Default));
            let work = async |up| snapshot(&arguments, up).await;
            crate::commands::print(&on_cluster(dir, DATANODES, COORDINATORS, profile, work).await?)
        }
        Command::Insert(arguments) => crate::commands::print(&insert(&arguments).await?),
        Command::Small(arguments) => {
            let (dir, profile) = (arguments.dir.clone(), Some(Profile::Default));
            let work = async |up| small(&arguments, up).await;
            crate::commands::print(&on_cluster(dir, arguments.nodes, 1, profile, work).await?)
        }
        Command::Power(arguments) => crate::commands::print(&power(&arguments).await?),
        Command::Grow(arguments) => grow(&arguments).await,
        Command::Nodes(arguments) => nodes::run(&arguments).await,
    }
}

/// Measures the cluster in `dir`, or one of its own that is removed afterwards.
async fn on_cluster<T>(
    dir: Option<PathBuf>,
    datanodes: u16,
    coordinators: u16,
    profile: Option<Profile>,
    measure: impl AsyncFnOnce(UpOptions) -> Result<T>,
) -> Result<T> {
    if let Some(dir) = dir {
        return measure(UpOptions::new(dir, std::env::current_exe()?)).await;
    }
    let dir = std::env::temp_dir().join(format!("loxo-bench-{}", std::process::id()));
    let options = UpOptions {
        datanodes: Some(usize::from(datanodes)),
        coordinators: Some(usize::from(coordinators)),
        port: Some(local::free_port(coordinators, datanodes)?),
        profile,
        ..UpOptions::new(&dir, std::env::current_exe()?)
    };
    let outcome = measure(options).await;
    let removed = local::down(&dir, true, &Progress::stderr()).await;
    outcome.and_then(|text| removed.map(|_| text))
}

async fn power(arguments: &PowerArguments) -> Result<String> {
    let defaults = PowerOptions::new(arguments.layout);
    let options = PowerOptions {
        scale_factor: arguments.sf,
        rounds: usize::from(arguments.rounds),
        queries: match arguments.queries.as_slice() {
            [] => defaults.queries.clone(),
            chosen => chosen.iter().map(|number| usize::from(*number)).collect(),
        },
        timeout_seconds: arguments.timeout,
        keep_tables: arguments.keep,
        ..defaults
    };
    let mut reports = Vec::new();
    for nodes in &arguments.nodes {
        let measure = async |up| bench::power::run(&options, || start(up)).await;
        reports.push(on_cluster(arguments.dir.clone(), *nodes, 1, None, measure).await?);
    }
    let scaling = Scaling(reports);
    Ok(match (arguments.json, scaling.0.as_slice()) {
        (true, [one]) => format!("{:#}\n", one.to_json()),
        (false, [one]) => format!("{one}\n"),
        (true, _) => format!("{:#}\n", scaling.to_json()),
        (false, _) => format!("{scaling}\n"),
    })
}

async fn load(arguments: &LoadArguments, up: UpOptions) -> Result<String> {
    let quick = LoadOptions::quick();
    let options = LoadOptions {
        scale_factor: arguments.sf.unwrap_or(quick.scale_factor),
        columns: arguments.columns.unwrap_or(quick.columns),
        format: arguments.format,
        rounds: arguments.rounds.map_or(quick.rounds, usize::from),
        streams: arguments.streams,
        stdin: arguments.stdin,
        logged: !arguments.unlogged_only,
        unlogged: !arguments.logged_only,
        all_ways: arguments.all_ways.then(std::env::current_exe).transpose()?,
        ..quick
    };
    let report = bench::load::run(&options, || start(up)).await?;
    Ok(if arguments.json { format!("{:#}\n", report.to_json()) } else { format!("{report}\n") })
}

async fn tpcb(arguments: &TpcbArguments, up: UpOptions) -> Result<String> {
    let modes = match arguments.modes.is_empty() {
        true => bench::tpcb::MODES.map(str::to_owned).to_vec(),
        false => arguments.modes.clone(),
    };
    let options = TpcbOptions {
        scale: arguments.scale,
        clients: arguments.clients,
        seconds: arguments.seconds,
        rounds: usize::from(arguments.rounds),
        modes,
        select_only: arguments.select_only,
    };
    let report = bench::tpcb::run(&options, || start(up)).await?;
    Ok(if arguments.json { format!("{:#}\n", report.to_json()) } else { format!("{report}\n") })
}

async fn snapshot(arguments: &SnapshotArguments, up: UpOptions) -> Result<String> {
    let SnapshotArguments { writers, seconds, rounds, .. } = arguments;
    let options = SnapshotOptions { writers: *writers, seconds: *seconds, rounds: usize::from(*rounds) };
    let report = bench::snapshot::run(&options, || start(up)).await?;
    Ok(if arguments.json { format!("{:#}\n", report.to_json()) } else { format!("{report}\n") })
}

async fn insert(arguments: &InsertArguments) -> Result<String> {
    let InsertArguments { clients, seconds, rounds, shapes, .. } = arguments;
    let shapes = match shapes.as_slice() {
        [] => Shape::NAMED.map(|(_, shape)| shape).to_vec(),
        chosen => chosen.to_vec(),
    };
    let options = InsertOptions { clients: *clients, seconds: *seconds, rounds: usize::from(*rounds), shapes };
    let mut reports = Vec::new();
    for nodes in &arguments.nodes {
        let measure = async |up| bench::insert::run(&options, || start(up)).await;
        let (dir, profile) = (arguments.dir.clone(), Some(Profile::Default));
        reports.push(on_cluster(dir, *nodes, COORDINATORS, profile, measure).await?);
    }
    let scaling = InsertScaling(reports);
    Ok(match (arguments.json, scaling.0.as_slice()) {
        (true, [one]) => format!("{:#}\n", one.to_json()),
        (false, [one]) => format!("{one}\n"),
        (true, _) => format!("{:#}\n", scaling.to_json()),
        (false, _) => format!("{scaling}\n"),
    })
}

async fn small(arguments: &SmallArguments, up: UpOptions) -> Result<String> {
    let options = SmallOptions { rounds: usize::from(arguments.rounds) };
    let report = bench::small::run(&options, || start(up)).await?;
    Ok(if arguments.json { format!("{:#}\n", report.to_json()) } else { format!("{report}\n") })
}

async fn grow(arguments: &GrowArguments) -> Result<()> {
    let defaults = if arguments.quick { GrowOptions::quick() } else { GrowOptions::full() };
    let options = GrowOptions {
        scale_factor: arguments.sf.unwrap_or(defaults.scale_factor),
        writers: arguments.writers,
        readers: arguments.readers,
        seconds: arguments.seconds.unwrap_or(defaults.seconds),
        ..defaults
    };
    let keeps_cluster = arguments.dir.is_some();
    let measure = async |up: UpOptions| {
        let datanodes = Here { dir: up.dir.clone() };
        bench::grow::run(&options, keeps_cluster, async || Ok((start(up).await?, datanodes))).await
    };
    let (dir, profile) = (arguments.dir.clone(), Some(Profile::Default));
    let report = on_cluster(dir, arguments.nodes, COORDINATORS, profile, measure).await?;
    crate::commands::print(&if arguments.json { format!("{:#}\n", report.to_json()) } else { format!("{report}\n") })?;
    if let Some(out) = &arguments.out {
        std::fs::write(out, file(&report, out))?;
    }
    match report.faults().as_slice() {
        [] => Ok(()),
        faults => Err(PgError::internal(faults.join("; "))),
    }
}

fn file(report: &GrowReport, out: &Path) -> String {
    match out.extension().is_some_and(|extension| extension == "svg") {
        true => report.to_svg(),
        false => report.to_csv(),
    }
}

/// Datanodes of a cluster on this machine.
struct Here {
    dir: PathBuf,
}

impl Datanodes for Here {
    async fn add(&self) -> Result<(String, String)> {
        let added = local::node::add(&self.dir, None, &Progress::stderr()).await?;
        let uri = self.config()?.endpoint(&added.host, added.port)?.uri();
        Ok((added.name, uri))
    }

    async fn fill(&self) -> Result<()> {
        membership::rebalance(&self.config()?, None, &Progress::quiet()).await.map(drop)
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let kept = local::node::remove(&self.dir, name, &Progress::quiet()).await?;
        // The benchmark has made the server, and its rows are elsewhere.
        kept.map_or(Ok(()), |kept| Ok(std::fs::remove_dir_all(kept)?))
    }
}

impl Here {
    fn config(&self) -> Result<Config> {
        Config::load(&self.dir.join("cluster.toml"))
    }
}

async fn start(up: UpOptions) -> Result<Target> {
    let layout = local::up(&up, &Progress::stderr()).await?;
    let datanodes = layout.parts().into_iter().filter(|part| part.kind == Kind::Datanode);
    Ok(Target {
        coordinators: layout.config().coordinator_uris()?,
        datanodes: datanodes.map(|part| Ok(layout.endpoint(&part)?.uri())).collect::<Result<_>>()?,
        dir: layout.dir().to_owned(),
        distributed: true,
    })
}
