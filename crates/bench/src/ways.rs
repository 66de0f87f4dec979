//! The other ways of loading, for `loxo bench load --all-ways`: what bounds the two that are always measured, and `loxo load`.
//!
//! * One stock server takes all streams into one table: what people have before they have a cluster.
//! * Stock servers take rows that are binary and split already. Nobody has such files; these come from the datanodes that a
//!   round before has filled. It is what PostgreSQL itself can take, if all routing and parsing cost nothing.
//! * `loxo load`, as a program of its own, through the coordinators and past them (`--direct`).

use std::path::{Path, PathBuf};
use std::process::Stdio;

use pgerror::{PgError, Result, SqlState};
use tokio::process::Command;
use tokio_postgres::Client;

use crate::load::{Bench, TABLE, connect_all};
use crate::suite::Readings;
use crate::tools::sql;

const BINARY: &str = "(FORMAT binary)";

/// How rows get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Stock,
    Cluster,
    One,
    Split,
    Loader,
    Direct,
}

impl Way {
    /// In the order of a round: those behind the first two need what these have loaded.
    pub(crate) const ALL: [Way; 6] = [Way::Stock, Way::Cluster, Way::One, Way::Split, Way::Loader, Way::Direct];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Stock => "stock servers",
            Way::Cluster => "cluster",
            Way::One => "one stock server",
            Way::Split => "split binary files",
            Way::Loader => "loxo load",
            Way::Direct => "loxo load --direct",
        }
    }

    /// `format` is that of the files.
    pub(crate) fn describe(self, format: &str) -> String {
        match self {
            Way::Stock => format!("COPY of {format} into stock servers"),
            Way::One => format!("COPY of {format} into one stock server"),
            Way::Split => "COPY of split binary into stock servers".to_owned(),
            Way::Cluster => format!("COPY of {format} through the coordinators"),
            Way::Loader => "loxo load through the coordinators".to_owned(),
            Way::Direct => "loxo load --direct".to_owned(),
        }
    }
}

pub(crate) struct Ways {
    /// Its `load` is measured.
    program: PathBuf,
    /// To the first stock server, one a stream.
    one: Vec<Client>,
    /// One a stock server.
    each: Vec<Client>,
    /// One a datanode, once the datanodes have rows.
    split: Vec<PathBuf>,
}

impl Ways {
    pub(crate) async fn prepare(bench: &Bench, program: &Path) -> Result<Self> {
        if !bench.target.distributed {
            return Err(PgError::new(
                SqlState::CONFIG_FILE_ERROR,
                "all ways of loading can be measured of a cluster only",
            ));
        }
        let of_first = vec![bench.stock[0].uri.clone(); bench.files.len()];
        let of_each: Vec<String> = bench.stock.iter().map(|server| server.uri.clone()).collect();
        Ok(Self {
            program: program.to_owned(),
            one: connect_all(&of_first).await?,
            each: connect_all(&of_each).await?,
            split: Vec::new(),
        })
    }

    /// One of them once.
    pub(crate) async fn round(&mut self, bench: &Bench, way: Way, persistence: &str) -> Result<Readings> {
        let stock = bench.stock_pids();
        match way {
            Way::Stock | Way::Cluster => Err(PgError::internal("these two are no other ways")),
            Way::One => {
                bench.create_table(&self.one[0], persistence).await?;
                bench.timed(&stock, &[], bench.copy(&self.one)).await
            }
            Way::Split => {
                if self.split.is_empty() {
                    self.split = split_rows(bench).await?;
                }
                for client in &self.each {
                    bench.create_table(client, persistence).await?;
                }
                bench.timed(&stock, &[], bench.copy_files(&self.each, &self.split, BINARY)).await
            }
            Way::Loader => {
                let through: Vec<&str> = bench.target.coordinators.iter().flat_map(|uri| ["--to", uri]).collect();
                load(bench, &self.program, persistence, &through).await
            }
            Way::Direct => {
                let dir = bench.target.dir.display().to_string();
                load(bench, &self.program, persistence, &["--direct", "--dir", &dir]).await
            }
        }
    }
}

/// Each datanode's rows into a file.
async fn split_rows(bench: &Bench) -> Result<Vec<PathBuf>> {
    // In a run that goes on, this may be the first thing that is measured.
    bench.create_distributed("UNLOGGED").await?;
    bench.copy(&bench.coordinators).await?;
    let mut files = Vec::new();
    for (number, datanode) in bench.datanodes.iter().enumerate() {
        let file = bench.dir.path().join(format!("split{}", number + 1));
        let name = file.display().to_string().replace('\'', "''");
        sql::run(datanode, &format!("COPY {TABLE} TO '{name}' {BINARY}")).await?;
        files.push(file);
    }
    Ok(files)
}

/// `loxo load` of all files into an empty table of the cluster.
async fn load(bench: &Bench, program: &Path, persistence: &str, where_to: &[&str]) -> Result<Readings> {
    bench.create_distributed(persistence).await?;
    let run = run_loader(bench, program, where_to);
    let readings = bench.timed(&bench.datanode_pids, &bench.coordinator_pids, run).await?;
    let rows = sql::number(&bench.coordinators[0], &format!("SELECT count(*) FROM {TABLE}")).await?;
    bench.must_be_all(rows)?;
    Ok(readings)
}

/// A stream a file.
async fn run_loader(bench: &Bench, program: &Path, where_to: &[&str]) -> Result<()> {
    let format = bench.options.format.name().to_ascii_lowercase();
    let mut command = Command::new(program);
    command.args(["load", TABLE, "--quiet", "--format", &format, "--streams", &bench.files.len().to_string()]);
    command.args(where_to).args(&bench.files).stdin(Stdio::null()).kill_on_drop(true);
    let failed = |why: String| PgError::new(SqlState::IO_ERROR, "loxo load failed").detail(why);
    let output = command.output().await.map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
