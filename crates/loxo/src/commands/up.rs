//! `loxo up`.

use std::path::PathBuf;

use cluster::Progress;
use cluster::local::{self, Kind, UpOptions};
use cluster::settings::{Profile, parse_assignment};
use pgerror::Result;

use super::DirArgument;

/// Start a cluster on this machine, in the background
///
/// Makes the cluster if it does not exist, starts what does not run, leaves the rest alone, waits until everything
/// answers, and prints one connection URI a coordinator. Coordinators listen on 127.0.0.1 ports P, P+1, …; the gtm on
/// P+50, its standby on P+51; live pages of coordinators, for a browser, on P+60, P+61, …; datanodes on P+100, P+101, …. Started by root, the servers run as the OS user postgres, else as you.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo up                                                        the default cluster
  loxo up --datanodes 4 --coordinators 2 --profile bulk          for a big load
  loxo up --dir /data/two --port 6000                            a second cluster beside it
  loxo up --datanodes 6                                          two more for a cluster of four, see \"loxo node add --help\"
  loxo up --set shared_buffers=2GB --set work_mem=256MB          other settings (after \"loxo down\")
  psql $(loxo up)                                                start and connect")]
pub struct Arguments {
    #[command(flatten)]
    dir: DirArgument,
    /// Number of PostgreSQL servers that hold the data; a cluster that has fewer gets more [default: 2]
    #[arg(long, value_name = "N")]
    datanodes: Option<usize>,
    /// Number of coordinators, which clients connect to; a cluster that has fewer gets more [default: 1]
    #[arg(long, value_name = "M")]
    coordinators: Option<usize>,
    /// Also run a second gtm, which takes over within seconds when the first one dies; a running cluster gets one too
    #[arg(long)]
    gtm_standby: bool,
    /// First port [default: 5433]
    #[arg(long, value_name = "P")]
    port: Option<u16>,
    /// Directory of initdb and postgres [default: PATH, then /usr/lib/postgresql, then pg_config]
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,
    /// Settings profile of the datanodes: default, bulk or oltp; see docs/settings.md [default: default]
    #[arg(long)]
    profile: Option<Profile>,
    /// A line for each datanode's postgresql.conf; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_assignment)]
    set: Vec<(String, String)>,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let options = UpOptions {
        dir: arguments.dir.path(),
        datanodes: arguments.datanodes,
        coordinators: arguments.coordinators,
        gtm_standby: arguments.gtm_standby,
        port: arguments.port,
        pg_bin: arguments.pg_bin,
        profile: arguments.profile,
        set: arguments.set.into_iter().collect(),
        loxo: std::env::current_exe()?,
    };
    let progress = Progress::stderr();
    let layout = local::up(&options, &progress).await?;
    let parts = layout.parts();
    let number = |kind: Kind| super::count(parts.iter().filter(|p| p.kind == kind).count(), &kind.to_string());
    let (datanodes, coordinators) = (number(Kind::Datanode), number(Kind::Coordinator));
    let gtms = if layout.config().gtms.len() > 1 { "two gtms" } else { "a gtm" };
    progress.line(&format!("{datanodes}, {coordinators} and {gtms} run in {}", layout.dir().display()));
    super::print(&(layout.config().coordinator_uris()?.join("\n") + "\n"))
}
