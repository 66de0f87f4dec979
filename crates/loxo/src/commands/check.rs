//! `loxo check`.

use std::path::{Path, PathBuf};

use cluster::{Config, Finding, Level, Progress, Repair};
use pgerror::{PgError, Result, SqlState};

use super::DirArgument;

/// Say what is wrong with a configuration, with the processes it names, or with the rows of the cluster
///
/// Datanodes are looked at closely; gtms and coordinators are asked for an answer once the datanodes are a cluster.
///
/// With --data it looks at every row of every database instead: rows on the wrong datanode, keys that are there twice, copies of replicated
/// tables that differ. A table that looks wrong is locked against writers while it is looked at again. It changes nothing,
/// unless --repair has rows moved to where they belong, and copies made like the primary datanode's. It says what it will do,
/// and what it has done. Rows that have another row's key are left alone. Exits with 1 if there is an error, or one is left;
/// warnings alone exit with 0.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo check --config /etc/loxo.toml
  loxo check                                  the local cluster in the default directory
  loxo check --data --config /etc/loxo.toml   its rows
  loxo check --data --repair                  put right what is wrong with them")]
pub struct Arguments {
    /// Configuration file, of real hosts or of a local cluster
    #[arg(long, value_name = "F", conflicts_with = "dir")]
    config: Option<PathBuf>,
    #[command(flatten)]
    dir: DirArgument,
    /// Look at all rows
    #[arg(long)]
    data: bool,
    /// Put right what is wrong with them; a coordinator must run
    #[arg(long, requires = "data")]
    repair: bool,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let path = arguments.config.unwrap_or_else(|| arguments.dir.path().join("cluster.toml"));
    let config = Config::load_numbered(&path).await?;
    match arguments.data {
        true => data(&config, arguments.repair).await,
        false => servers(&config, &path).await,
    }
}

/// One database after the other.
async fn data(config: &Config, repair: bool) -> Result<()> {
    let progress = Progress::stderr();
    let (mut tables, mut errors) = (0, 0);
    let databases = cluster::databases(config).await?;
    for config in &databases {
        if databases.len() > 1 {
            super::print(&format!("database {}:\n", config.cluster.database))?;
        }
        let mut audit = cluster::audit(config, &progress).await?;
        print(&audit.findings)?;
        if repair && !audit.repairs.is_empty() {
            repair_all(config, &audit.repairs, &progress).await?;
            audit = cluster::audit(config, &progress).await?;
            print(&audit.findings)?;
        }
        tables += audit.tables;
        errors += audit.findings.len();
    }
    let tables = super::count(tables, "table");
    match errors {
        0 => super::print(&format!("{tables}: every row is where it belongs\n")),
        errors => {
            let text = format!("{} in the rows of {tables}", super::count(errors, "error"));
            // data_corrupted
            Err(PgError::new(SqlState::from_bytes(b"XX001").unwrap_or(SqlState::INTERNAL_ERROR), text))
        }
    }
}

/// One table after the other; that one cannot be repaired is no reason to leave the others.
async fn repair_all(config: &Config, repairs: &[Repair], progress: &Progress) -> Result<()> {
    for repair in repairs {
        let table = &repair.table;
        for line in &repair.plan {
            super::print(&format!("repair: {table}: {line}\n"))?;
        }
        match progress.step(&format!("repairing {table}"), repair.run(config)).await {
            Ok(done) => done.iter().try_for_each(|line| super::print(&format!("repaired: {table}: {line}\n")))?,
            Err(error) => super::print(&format!("not repaired: {table}: {error}\n"))?,
        }
    }
    Ok(())
}

fn print(findings: &[Finding]) -> Result<()> {
    for finding in findings {
        let level = match finding.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        super::print(&format!("{level}: {}: {}\n  {}\n", finding.subject, finding.text, finding.hint))?;
    }
    Ok(())
}

async fn servers(config: &Config, path: &Path) -> Result<()> {
    let findings = cluster::check_all(config).await?;
    print(&findings)?;
    let errors = findings.iter().filter(|f| f.level == Level::Error).count();
    if errors > 0 {
        let text = format!("{} in \"{}\" or in its servers", super::count(errors, "error"), path.display());
        return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, text));
    }
    let datanodes = super::count(config.datanodes.len(), "datanode");
    let coordinators = super::count(config.coordinators.len(), "coordinator");
    super::print(&format!("{datanodes} and {coordinators}: no errors\n"))
}
