//! `loxo down`.

use cluster::{Progress, local};
use pgerror::Result;

use super::DirArgument;

/// Stop a cluster on this machine
///
/// Open transactions are rolled back. It is no error if nothing runs.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo down                           stop the default cluster; the data stays
  loxo down --dir /data/two --wipe    stop the other one and delete its directory with all data")]
pub struct Arguments {
    #[command(flatten)]
    dir: DirArgument,
    /// Also delete the cluster's directory with all its data
    #[arg(long)]
    wipe: bool,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let progress = Progress::stderr();
    let done = local::down(&arguments.dir.path(), arguments.wipe, &progress).await?;
    progress.line(&done);
    Ok(())
}
