//! `loxo unload`.

use std::path::PathBuf;

use loader::{Compression, UnloadOptions};
use pgerror::{PgError, Result};

use super::DirArgument;
use super::load::{CopyArguments, coordinators};

/// Write a table or the rows of a query into a file of a directory
///
/// The file (TABLE.csv, or query.csv) appears when it is complete. One snapshot, also with --per-node.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo unload lineitem --to /backup --header                           /backup/lineitem.csv
  loxo unload lineitem --to /backup --compress zstd                    /backup/lineitem.csv.zst
  loxo unload 'SELECT * FROM t ORDER BY id' --to . --format text       ./query.txt")]
pub struct Arguments {
    /// The table as SQL names it, or a query
    what: String,
    /// The directory; made if it is missing
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// A coordinator's connection URI [default: the local cluster's first]
    #[arg(long, value_name = "URI")]
    from: Option<String>,
    #[command(flatten)]
    dir: DirArgument,
    #[command(flatten)]
    copy: CopyArguments,
    /// A file for each datanode (TABLE.dn1.csv), read from the datanodes themselves, all at once and in one snapshot
    #[arg(long)]
    per_node: bool,
    /// gzip or zstd; the file's name ends with .gz or .zst then
    #[arg(long, value_name = "HOW", value_parser = compression)]
    compress: Option<Compression>,
    /// Replace the file if it is there
    #[arg(long)]
    overwrite: bool,
}

fn compression(text: &str) -> Result<Compression, String> {
    match text {
        "gzip" => Ok(Compression::Gzip),
        "zstd" => Ok(Compression::Zstd),
        _ => Err("write gzip or zstd".to_owned()),
    }
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let from = coordinators(arguments.from.into_iter().collect(), &arguments.dir.path())?;
    let from = from.into_iter().next().ok_or_else(|| PgError::connection("the cluster has no coordinator"))?;
    let options = UnloadOptions {
        what: arguments.what,
        from,
        to: arguments.to,
        copy: arguments.copy.options(),
        per_node: arguments.per_node,
        compression: arguments.compress.unwrap_or_default(),
        overwrite: arguments.overwrite,
    };
    let done = loader::unload(&options).await?;
    let speed = done.bytes as f64 / 1e6 / done.seconds.max(1e-3);
    let files: Vec<String> = done.files.iter().map(|file| file.display().to_string()).collect();
    let (rows, seconds) = (done.rows, done.seconds);
    super::print(&format!("{rows} rows in {seconds:.1} s ({speed:.0} MB/s): {}\n", files.join(" ")))
}
