//! `loxo host`: what `loxo deploy` runs on each host.

use std::path::PathBuf;

use cluster::Progress;
use cluster::host::{Answer, Report, Step, Wanted};
use pgerror::{PgError, Result};

/// Make this host what "loxo deploy" wants it to be
#[derive(clap::Args)]
pub struct Arguments {
    /// What to do
    step: String,
    #[command(flatten)]
    datanode: Option<Datanode>,
}

/// What a unit of systemd runs: `loxo host start-datanode`
#[derive(clap::Args)]
struct Datanode {
    #[arg(long, required = false)]
    directory: PathBuf,
    #[arg(long, required = false)]
    name: String,
    #[arg(long, required = false)]
    pg_bin: PathBuf,
}

/// Runs the command. What fails is part of the answer.
pub async fn run(arguments: Arguments) -> Result<()> {
    if let ("start-datanode", Some(Datanode { directory, name, pg_bin })) =
        (arguments.step.as_str(), arguments.datanode)
    {
        return cluster::host::become_datanode(&directory, &name, &pg_bin).await;
    }
    let answer = Answer::of(perform(&arguments.step).await);
    let text = serde_json::to_string(&answer).map_err(|error| PgError::internal(error.to_string()))?;
    super::super::print(&format!("{text}\n"))
}

async fn perform(step: &str) -> Result<Report> {
    let step = Step::of_name(step).ok_or_else(|| PgError::protocol(format!("there is no step \"{step}\"")))?;
    let text = std::io::read_to_string(std::io::stdin())?;
    let wanted: Wanted = serde_json::from_str(&text)
        .map_err(|error| PgError::protocol(format!("the request is not understood, at column {}", error.column())))?;
    let loxo = std::env::current_exe()?;
    cluster::host::perform(step, &wanted, &loxo, &Progress::quiet()).await
}
