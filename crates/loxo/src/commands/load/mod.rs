//! `loxo load`.

use std::path::{Path, PathBuf};

use cluster::Config;
use cluster::local::Layout;
use loader::{Batch, Copy, LoadOptions};
use pgerror::{PgError, Result, SqlState};

use self::direct::Direct;
use self::summary::Cpu;
use super::DirArgument;

mod direct;
mod summary;

/// Load files into a table: CSV, text, binary or Parquet, plain or compressed, over several COPYs at once
///
/// All rows of all files are loaded, or none. With --batch, each batch is committed with a note of it in the table
/// loxo_load_progress: the same command goes on where a killed one was, without a doubled or lost row.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo load lineitem 'part-*.csv.gz'                        every file, or none
  loxo load lineitem big.csv --header --streams 4           one file, four COPYs
  loxo load lineitem big.csv --batch 64MiB                  goes on where it was when repeated
  loxo load people p.csv --header --create                  makes the table first; Parquet files need no --header
  loxo load people p.csv --rejects bad.csv                  leaves bad rows out and tells of them
  loxo load lineitem big.csv --direct --drop-indexes        past the coordinators; indexes are made behind it
  zcat x.gz | loxo load t - --format csv --to postgresql://me@host:5433/db --to postgresql://me@other:5433/db
  loxo load lineitem --finish loxo_load_1f2e3d4c5b6a7980    after a load died while it committed")]
pub struct Arguments {
    /// The table, as SQL names it
    table: String,
    /// Files, patterns, or - for stdin; gzip, zstd and lz4 are recognised
    #[arg(required_unless_present_any = ["finish", "restore_indexes"])]
    files: Vec<String>,
    /// A coordinator's connection URI; may be repeated, and streams take them by turns [default: the local cluster's]
    #[arg(long, value_name = "URI")]
    to: Vec<String>,
    #[command(flatten)]
    dir: DirArgument,
    /// Be a coordinator for the time of the load: rows go from this program to the datanodes
    #[arg(long, conflicts_with = "to")]
    direct: bool,
    /// The cluster's configuration file, for --direct [default: the local cluster's]
    #[arg(long, value_name = "F", requires = "direct")]
    config: Option<PathBuf>,
    #[command(flatten)]
    copy: CopyArguments,
    /// Columns of the files, in their order [default: the table's]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    columns: Vec<String>,
    /// COPYs at once [default: one a coordinator, more on a large machine, one for small files]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    streams: Option<u16>,
    /// Commit after so many rows (100000) or bytes (16MB; at most 64MiB), in a way that can be repeated
    #[arg(long, value_name = "SIZE", value_parser = Batch::parse)]
    batch: Option<Batch>,
    /// Name under which the progress of batches is kept [default: the table's and the files']
    #[arg(long, requires = "batch")]
    name: Option<String>,
    /// End the prepared transactions of a load that died while it committed: all are committed, or all rolled back
    #[arg(long, value_name = "NAME", conflicts_with_all = ["batch", "files"])]
    finish: Option<String>,
    /// Make the table first: from the header and a sample of the first file (needs --header), or as a Parquet file says
    #[arg(long, conflicts_with = "finish")]
    create: bool,
    /// How the table made is distributed, for example 'HASH (id)' or REPLICATION [default: as without DISTRIBUTE BY]
    #[arg(long, value_name = "HOW", requires = "create")]
    distribute_by: Option<String>,
    /// Drop the table's indexes that check nothing, and make them again after the load
    #[arg(long)]
    drop_indexes: bool,
    /// Make the indexes again that a killed load with --drop-indexes left out
    #[arg(long, conflicts_with_all = ["files", "finish"])]
    restore_indexes: bool,
    /// Leave out rows that the server refuses, and write them here with file, line and reason, as CSV
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Give up when more rows than these are refused
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "rejects")]
    reject_limit: u64,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

/// What the files look like.
#[derive(clap::Args)]
pub struct CopyArguments {
    /// csv, text or binary [default: csv if the files' names say so, else text]
    #[arg(long)]
    format: Option<String>,
    /// The first line of each file is left out; columns are taken in the table's order, whatever names it gives (but for --create)
    #[arg(long)]
    header: bool,
    /// Between columns [default: a comma, in text a tab]
    #[arg(long, value_name = "C")]
    delimiter: Option<String>,
    /// What stands for NULL [default: nothing, in text \N]
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
    /// CSV's quote [default: "]
    #[arg(long, value_name = "C")]
    quote: Option<String>,
    /// What makes a quote in quotes a character [default: the quote]
    #[arg(long, value_name = "C")]
    escape: Option<String>,
    /// The files' encoding [default: UTF8]
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
}

impl CopyArguments {
    /// For the loader.
    pub fn options(self) -> Copy {
        Copy {
            format: self.format,
            header: self.header,
            delimiter: self.delimiter,
            null: self.null,
            quote: self.quote,
            escape: self.escape,
            encoding: self.encoding,
        }
    }
}

/// The coordinators given, or those of the local cluster.
pub fn coordinators(given: Vec<String>, dir: &Path) -> Result<Vec<String>> {
    if !given.is_empty() {
        return Ok(given);
    }
    configuration(None, dir)?.coordinator_uris()
}

/// [`configuration`] for a loader that connects to the datanodes itself.
async fn numbered_configuration(file: Option<&Path>, dir: &Path) -> Result<Config> {
    match file {
        Some(file) => Config::load_numbered(file).await,
        None => configuration(None, dir),
    }
}

/// Configuration of the cluster that the file describes, or of the local one.
fn configuration(file: Option<&Path>, dir: &Path) -> Result<Config> {
    if let Some(file) = file {
        return Config::load(file);
    }
    match Layout::load(dir)? {
        Some(layout) => Ok(layout.config().clone()),
        None => Err(PgError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("there is no cluster in \"{}\"", dir.display()),
        )
        .hint("Name a coordinator: --to postgresql://me@host:5433/postgres.")),
    }
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let dir = arguments.dir.path();
    let is_local = arguments.to.is_empty() && arguments.config.is_none();
    let direct = match arguments.direct {
        true => Some(Direct::start(&numbered_configuration(arguments.config.as_deref(), &dir).await?).await?),
        false => None,
    };
    let to = match &direct {
        Some(direct) => vec![direct.uri.clone()],
        None => coordinators(arguments.to, &dir)?,
    };
    if let Some(name) = arguments.finish {
        let committed = loader::finish(&arguments.table, &to, &name).await?;
        let outcome =
            if committed { "is loaded: all its rows are committed" } else { "is not loaded: it was rolled back" };
        return super::print(&format!("{name} {outcome}\n"));
    }
    if arguments.restore_indexes {
        let made = loader::restore_indexes(&arguments.table, &to).await?;
        return super::print(&format!("{} made again\n", super::indexes(made)));
    }
    let options = LoadOptions {
        table: arguments.table,
        columns: arguments.columns,
        files: arguments.files,
        to,
        copy: arguments.copy.options(),
        streams: arguments.streams.map(usize::from),
        batch: arguments.batch,
        name: arguments.name,
        drop_indexes: arguments.drop_indexes,
        rejects: arguments.rejects,
        reject_limit: arguments.reject_limit,
        progress: !arguments.quiet,
    };
    if arguments.create
        && let Some(sql) = loader::create(&options, arguments.distribute_by.as_deref()).await?
    {
        super::print(&format!("{sql};\n"))?;
    }
    let before = Cpu::read(&dir, is_local)?;
    let summary = loader::load(&options).await?;
    let used = Cpu::read(&dir, is_local)?.since(&before);
    super::print(&summary::text(&summary, &used))
}
