//! `loxo init`.

use std::path::PathBuf;

use cluster::Config;
use pgerror::{PgError, Result, SqlState};

/// Prepare empty PostgreSQL servers to be the datanodes of a new cluster
///
/// Writes the schema "loxo" on every server that the configuration names, on all or on none. Refuses servers that hold
/// anything. Local clusters do not need it: "loxo up" does the same, and upgrades what an earlier version has written.
#[derive(clap::Args)]
#[command(after_help = "Example:
  loxo check --config /etc/loxo.toml && loxo init --config /etc/loxo.toml
  loxo init --certificates --config /etc/loxo.toml for a coordinator that was added; expired ones are removed by hand before
  loxo init --upgrade --config /etc/loxo.toml      for a new version of loxo; stop gtms and coordinators first

docs/configuration.md describes the file.")]
pub struct Arguments {
    /// Configuration file
    #[arg(long, value_name = "F")]
    config: PathBuf,
    /// Bring the metadata of a cluster that exists up to this version
    #[arg(long)]
    upgrade: bool,
    /// Only make the certificates of gtms and coordinators that are missing in tls_directory
    #[arg(long, conflicts_with = "upgrade")]
    certificates: bool,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let config = Config::load_numbered(&arguments.config).await?;
    if arguments.upgrade {
        return super::print(&match cluster::upgrade(&config).await? {
            Some(layout) => format!("the metadata of layout {layout} were upgraded\n"),
            None => "the metadata are up to date\n".to_owned(),
        });
    }
    let made = cluster::certificates::make(&config)?;
    super::print(&made.iter().map(|path| format!("made {}\n", path.display())).collect::<String>())?;
    if arguments.certificates {
        return match (config.cluster.tls_directory, made.is_empty()) {
            (None, _) => Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the configuration names no tls_directory")
                .hint("Add tls_directory = \"tls\" to [cluster].")),
            (_, true) => super::print("all certificates are there\n"),
            (_, false) => Ok(()),
        };
    }
    let id = cluster::init(&config).await?;
    let datanodes = super::count(config.datanodes.len(), "datanode");
    super::print(&format!(
        "{datanodes} initialised; the cluster's id is {id}\n\
        Add id = \"{id}\" to [cluster] of {}: nothing then takes another cluster's servers for these.\n",
        arguments.config.display()
    ))
}
