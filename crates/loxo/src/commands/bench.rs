//! `loxo bench`.

use std::path::PathBuf;

use bench::lineitem::Columns;
use bench::{LoadOptions, Target, TpcbOptions};
use cluster::Progress;
use cluster::local::{self, Kind, UpOptions};
use cluster::settings::Profile;
use pgerror::Result;

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
}

/// Loading through the coordinators against loading stock servers directly, in one run
///
/// Starts one stock PostgreSQL server a datanode, with the datanodes' settings, and loads the same TPC-H lineitem files
/// by turns into them and, through the coordinators, into the cluster. Prints rows per second of both, their ratio, and
/// processor seconds per million rows.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench load --quick                        scale factor 1, a cluster of its own, removed afterwards
  loxo bench load --columns 16 --rounds 5        all columns of lineitem
  loxo bench load --dir /data/two --json         the cluster in that directory")]
struct LoadArguments {
    /// Scale factor 1, 7 columns, 3 rounds (these are the defaults)
    #[arg(long)]
    quick: bool,
    /// Measure the cluster in this directory [default: a new one of 2 datanodes and 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Scale factor: 1 is 6 million rows
    #[arg(long, value_name = "SF", value_parser = super::demo::scale_factor, conflicts_with = "quick")]
    sf: Option<f64>,
    /// Columns of lineitem: 7 or 16
    #[arg(long, value_parser = columns, conflicts_with = "quick")]
    columns: Option<Columns>,
    /// Rounds a side; medians are compared
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99), conflicts_with = "quick")]
    rounds: Option<u16>,
    /// Concurrent COPY streams a side [default: one a datanode]
    #[arg(long, value_name = "N")]
    streams: Option<usize>,
    /// Send the files over the connection instead of naming them in COPY
    #[arg(long)]
    stdin: bool,
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

fn columns(text: &str) -> std::result::Result<Columns, String> {
    match text {
        "7" => Ok(Columns::Seven),
        "16" => Ok(Columns::Sixteen),
        _ => Err("7 or 16".to_owned()),
    }
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Load(arguments) => {
            let text =
                on_cluster(arguments.dir.clone(), arguments.profile, async |up| load(&arguments, up).await).await?;
            super::print(&text)
        }
        Command::Tpcb(arguments) => {
            let text =
                on_cluster(arguments.dir.clone(), Profile::Default, async |up| tpcb(&arguments, up).await).await?;
            super::print(&text)
        }
    }
}

/// Measures the cluster in `dir`, or one of its own that is removed afterwards.
async fn on_cluster(
    dir: Option<PathBuf>,
    profile: Profile,
    measure: impl AsyncFnOnce(UpOptions) -> Result<String>,
) -> Result<String> {
    if let Some(dir) = dir {
        return measure(UpOptions::new(dir, std::env::current_exe()?)).await;
    }
    let dir = std::env::temp_dir().join(format!("loxo-bench-{}", std::process::id()));
    let options = UpOptions {
        datanodes: Some(usize::from(DATANODES)),
        coordinators: Some(usize::from(COORDINATORS)),
        port: Some(local::free_port(COORDINATORS, DATANODES)?),
        profile: Some(profile),
        ..UpOptions::new(&dir, std::env::current_exe()?)
    };
    let outcome = measure(options).await;
    let removed = local::down(&dir, true, &Progress::stderr()).await;
    outcome.and_then(|text| removed.map(|_| text))
}

async fn load(arguments: &LoadArguments, up: UpOptions) -> Result<String> {
    let quick = LoadOptions::quick();
    let options = LoadOptions {
        scale_factor: arguments.sf.unwrap_or(quick.scale_factor),
        columns: arguments.columns.unwrap_or(quick.columns),
        rounds: arguments.rounds.map_or(quick.rounds, usize::from),
        streams: arguments.streams,
        stdin: arguments.stdin,
        logged: !arguments.unlogged_only,
        unlogged: !arguments.logged_only,
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

async fn start(up: UpOptions) -> Result<Target> {
    let layout = local::up(&up, &Progress::stderr()).await?;
    let datanodes = layout.parts().into_iter().filter(|part| part.kind == Kind::Datanode);
    Ok(Target {
        coordinators: layout.config().coordinator_uris()?,
        datanodes: datanodes.map(|part| layout.endpoint(&part).uri()).collect(),
        dir: layout.dir().to_owned(),
        distributed: true,
    })
}
