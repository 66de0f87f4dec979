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
use crate::report::Measured;
use crate::tools::sql;

const BINARY: &str = "(FORMAT binary)";

pub(crate) struct Ways<'a> {
    bench: &'a Bench<'a>,
    /// Its `load` is measured.
    program: &'a Path,
    /// To the first stock server, one a stream.
    one: Vec<Client>,
    /// One a stock server.
    each: Vec<Client>,
    /// One a datanode, once the datanodes have rows.
    split: Vec<PathBuf>,
    measured: Others,
}

#[derive(Default)]
struct Others {
    one: Measured,
    split: Measured,
    loader: Measured,
    direct: Measured,
}

impl<'a> Ways<'a> {
    pub(crate) async fn prepare(bench: &'a Bench<'a>, program: &'a Path) -> Result<Self> {
        if !bench.target.distributed {
            return Err(PgError::new(
                SqlState::CONFIG_FILE_ERROR,
                "all ways of loading can be measured of a cluster only",
            ));
        }
        let of_first = vec![bench.stock[0].uri.clone(); bench.files.len()];
        let of_each: Vec<String> = bench.stock.iter().map(|server| server.uri.clone()).collect();
        Ok(Self {
            bench,
            program,
            one: connect_all(&of_first).await?,
            each: connect_all(&of_each).await?,
            split: Vec::new(),
            measured: Others::default(),
        })
    }

    /// Every way once; the cluster's table has all rows before, and after.
    pub(crate) async fn round(&mut self, persistence: &str) -> Result<()> {
        if self.split.is_empty() {
            self.split = self.split_rows().await?;
        }
        let Self { bench, program, one, each, split, measured } = self;
        bench.create_table(&one[0], persistence).await?;
        bench.timed(&bench.stock_pids(), &[], &mut measured.one, bench.copy(one)).await?;
        for client in each.iter() {
            bench.create_table(client, persistence).await?;
        }
        bench.timed(&bench.stock_pids(), &[], &mut measured.split, bench.copy_files(each, split, BINARY)).await?;
        let through: Vec<&str> = bench.target.coordinators.iter().flat_map(|uri| ["--to", uri]).collect();
        load(bench, program, persistence, &through, &mut measured.loader).await?;
        let dir = bench.target.dir.display().to_string();
        load(bench, program, persistence, &["--direct", "--dir", &dir], &mut measured.direct).await
    }

    /// What was measured since the last call, beside what the two sides were, in an order from stock servers to the cluster.
    pub(crate) fn take(&mut self, stock: &Measured, cluster: &Measured) -> Vec<(String, Measured)> {
        let Others { one, split, loader, direct } = std::mem::take(&mut self.measured);
        let (format, servers) = (self.bench.options.format.name(), self.bench.stock.len());
        vec![
            (format!("COPY of {format} into {servers} stock servers"), stock.clone()),
            (format!("COPY of {format} into one stock server"), one),
            (format!("COPY of split binary into {servers} stock servers"), split),
            (format!("COPY of {format} through the coordinators"), cluster.clone()),
            ("loxo load through the coordinators".to_owned(), loader),
            ("loxo load --direct".to_owned(), direct),
        ]
    }

    /// Each datanode's rows into a file.
    async fn split_rows(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for (number, datanode) in self.bench.datanodes.iter().enumerate() {
            let file = self.bench.dir.path().join(format!("split{}", number + 1));
            let name = file.display().to_string().replace('\'', "''");
            sql::run(datanode, &format!("COPY {TABLE} TO '{name}' {BINARY}")).await?;
            files.push(file);
        }
        Ok(files)
    }
}

/// `loxo load` of all files into an empty table of the cluster.
async fn load(
    bench: &Bench<'_>,
    program: &Path,
    persistence: &str,
    where_to: &[&str],
    measured: &mut Measured,
) -> Result<()> {
    bench.create_distributed(persistence).await?;
    let run = run_loader(bench, program, where_to);
    bench.timed(&bench.datanode_pids, &bench.coordinator_pids, measured, run).await?;
    let rows = sql::number(&bench.coordinators[0], &format!("SELECT count(*) FROM {TABLE}")).await?;
    bench.must_be_all(rows)
}

/// A stream a file.
async fn run_loader(bench: &Bench<'_>, program: &Path, where_to: &[&str]) -> Result<()> {
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
