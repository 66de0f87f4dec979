//! `loxo check`.

use std::path::PathBuf;

use cluster::{Config, Level};
use pgerror::{PgError, Result, SqlState};

/// Say what is wrong with a configuration or with the servers it names
///
/// Exits with 1 if there is an error; warnings alone exit with 0.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo check --config /etc/loxo.toml
  loxo check --config ~/.local/share/loxo/cluster.toml    a local cluster's file works as well")]
pub struct Arguments {
    /// Configuration file
    #[arg(long, value_name = "F")]
    config: PathBuf,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let config = Config::load(&arguments.config)?;
    let findings = cluster::check(&config).await?;
    for finding in &findings {
        let level = match finding.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        super::print(&format!("{level}: {}: {}\n  {}\n", finding.subject, finding.text, finding.hint))?;
    }
    let errors = findings.iter().filter(|f| f.level == Level::Error).count();
    if errors > 0 {
        let text = format!("{} in \"{}\" or in its servers", super::count(errors, "error"), arguments.config.display());
        return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, text));
    }
    let datanodes = super::count(config.datanodes.len(), "datanode");
    let coordinators = super::count(config.coordinators.len(), "coordinator");
    super::print(&format!("{datanodes} and {coordinators}: no errors\n"))
}
