//! `loxo deploy`.

use std::path::PathBuf;

use cluster::Progress;
use pgerror::Result;

pub mod host;

/// Make a cluster on several hosts over ssh, or make it what the inventory says now
///
/// Looks at all hosts first, and writes nothing anywhere if one of them is not fit. Then copies this program to them, makes and
/// starts datanodes, gtms and coordinators, and checks the cluster. What is as it should be is left alone, so the same command
/// starts what has died, adds what the inventory has more, and goes on where another one was killed. Passwords and keys are kept
/// beside the inventory, in hosts.d for hosts.toml.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo deploy --inventory hosts.toml --dry-run   what it would do
  loxo deploy --inventory hosts.toml
  loxo deploy --inventory hosts.toml --stop      stop all processes; the data stay

docs/operate/deploy.md describes the inventory.")]
pub struct Arguments {
    /// File that says which hosts there are, and what runs on each
    #[arg(long, value_name = "F")]
    inventory: PathBuf,
    /// Look at the hosts and say what would be done
    #[arg(long, conflicts_with = "stop")]
    dry_run: bool,
    /// Stop coordinators, gtms and datanodes, in this order
    #[arg(long)]
    stop: bool,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { inventory, dry_run, stop } = arguments;
    let options = deploy::Options { inventory, dry_run, loxo: std::env::current_exe()? };
    let progress = Progress::stderr();
    let outcome = match stop {
        true => deploy::stop(&options, &progress).await?,
        false => deploy::deploy(&options, &progress).await?,
    };
    super::print(&outcome.lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}
