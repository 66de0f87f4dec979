//! `loxo demo`.

use cluster::Progress;
use cluster::local::{self, Kind, Layout, UpOptions};
use pgerror::Result;

use super::DirArgument;

/// Shape of a cluster that the demonstration makes.
const DATANODES: usize = 4;
const COORDINATORS: usize = 2;

/// Start a cluster, load TPC-H lineitem into it and show what came of it
///
/// Takes the cluster in the directory, or makes one of 4 datanodes and 2 coordinators. The table lineitem is made anew
/// each time and stays, as does the cluster: go on with psql, end with "loxo down".
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo demo                                  6 million rows into the default cluster
  loxo demo --sf 10 --streams 8              60 million rows in 8 COPY streams
  loxo demo --dir /data/demo --port 6000     elsewhere")]
pub struct Arguments {
    #[command(flatten)]
    dir: DirArgument,
    /// First port of a new cluster [default: 5433]
    #[arg(long, value_name = "P")]
    port: Option<u16>,
    /// Scale factor: 1 is 6 million rows
    #[arg(long, value_name = "SF", default_value_t = 1.0, value_parser = scale_factor)]
    sf: f64,
    /// Concurrent COPY streams [default: two a coordinator]
    #[arg(long, value_name = "N")]
    streams: Option<usize>,
}

/// A scale factor that tpchgen can make.
pub fn scale_factor(text: &str) -> std::result::Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("\"{text}\" is not a number"))?;
    let fits = (0.001..=100_000.0).contains(&number);
    if fits { Ok(number) } else { Err("a scale factor is between 0.001 and 100000".to_owned()) }
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let dir = arguments.dir.path();
    let is_new = Layout::load(&dir)?.is_none();
    let options = UpOptions {
        datanodes: is_new.then_some(DATANODES),
        coordinators: is_new.then_some(COORDINATORS),
        port: arguments.port,
        ..UpOptions::new(dir, std::env::current_exe()?)
    };
    let layout = local::up(&options, &Progress::stderr()).await?;
    println!("The cluster runs in {}.", layout.dir().display());
    let datanodes = layout.parts().into_iter().filter(|part| part.kind == Kind::Datanode);
    bench::demo::run(&bench::DemoOptions {
        coordinators: layout.config().coordinator_uris()?,
        datanodes: datanodes
            .map(|part| Ok((part.name.clone(), layout.endpoint(&part)?.uri())))
            .collect::<Result<_>>()?,
        scale_factor: arguments.sf,
        streams: arguments.streams,
        distributed: true,
    })
    .await
}
