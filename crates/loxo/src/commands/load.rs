//! `loxo load`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cluster::local::{Kind, Layout};
use loader::{Batch, Copy, LoadOptions, Summary};
use pgerror::{PgError, Result, SqlState};

use super::DirArgument;

/// This share of all processor time counts as busy.
const BUSY: f64 = 0.85;

/// Load files into a table: CSV, text or binary, plain or compressed, over several COPYs at once
///
/// All rows of all files are loaded, or none. With --batch, each batch is committed with a note of it in the table
/// loxo_load_progress: the same command goes on where a killed one was, without a doubled or lost row.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo load lineitem 'part-*.csv.gz'                        every file, or none
  loxo load lineitem big.csv --header --streams 4           one file, four COPYs
  loxo load lineitem big.csv --batch 64MiB                  goes on where it was when repeated
  zcat x.gz | loxo load t - --format csv --to postgresql://me@host:5433/db --to postgresql://me@other:5433/db
  loxo load lineitem --finish loxo_load_1f2e3d4c5b6a7980    after a load died while it committed")]
pub struct Arguments {
    /// The table, as SQL names it
    table: String,
    /// Files, patterns, or - for stdin; gzip, zstd and lz4 are recognised
    #[arg(required_unless_present = "finish")]
    files: Vec<String>,
    /// A coordinator's connection URI; may be repeated, and streams take them by turns [default: the local cluster's]
    #[arg(long, value_name = "URI")]
    to: Vec<String>,
    #[command(flatten)]
    dir: DirArgument,
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
    /// The first line of each file names columns
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
    match Layout::load(dir)? {
        Some(layout) => layout.config().coordinator_uris(),
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
    let is_local = arguments.to.is_empty();
    let to = coordinators(arguments.to, &dir)?;
    if let Some(name) = arguments.finish {
        let committed = loader::finish(&arguments.table, &to, &name).await?;
        let outcome =
            if committed { "is loaded: all its rows are committed" } else { "is not loaded: it was rolled back" };
        return super::print(&format!("{name} {outcome}\n"));
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
    super::print(&text(&summary, &used))
}

/// CPU seconds of this program and, of a local cluster, of its processes.
struct Cpu {
    client: f64,
    /// Coordinators, datanodes.
    cluster: Option<(f64, f64)>,
}

impl Cpu {
    fn read(dir: &Path, is_local: bool) -> Result<Self> {
        let client = bench::cpu::tree_seconds(&[std::process::id()])?;
        let cluster = match Layout::load(dir)? {
            Some(layout) if is_local => {
                let of = |kind: Kind| {
                    let parts = layout.parts().into_iter().filter(|part| part.kind == kind);
                    let pids: Vec<u32> = parts.filter_map(|part| layout.pid(&part)?.try_into().ok()).collect();
                    bench::cpu::tree_seconds(&pids)
                };
                Some((of(Kind::Coordinator)?, of(Kind::Datanode)?))
            }
            _ => None,
        };
        Ok(Self { client, cluster })
    }

    fn since(&self, before: &Self) -> Self {
        let cluster = self.cluster.zip(before.cluster).map(|(now, then)| (now.0 - then.0, now.1 - then.1));
        Self { client: self.client - before.client, cluster }
    }
}

fn text(summary: &Summary, used: &Cpu) -> String {
    let seconds = summary.seconds.max(1e-3);
    let mut text = format!(
        "{} rows in {:.1} s: {:.0} rows/s, {:.0} MB/s, {} over {}\n",
        summary.rows,
        summary.seconds,
        summary.rows as f64 / seconds,
        summary.bytes as f64 / 1e6 / seconds,
        super::count(summary.files, "file"),
        super::count(summary.streams, "stream"),
    );
    // Writing to a String cannot fail.
    if summary.rejected > 0 {
        let _ = writeln!(text, "{} rows were refused and left out", summary.rejected);
    }
    if summary.rows_before > 0 {
        let _ = writeln!(text, "{} rows of these files were loaded before", summary.rows_before);
    }
    let _ = write!(text, "CPU seconds: this program {:.1}", used.client);
    match used.cluster {
        Some((coordinators, datanodes)) => {
            let _ = writeln!(text, ", coordinators {coordinators:.1}, datanodes {datanodes:.1}");
        }
        None => text.push('\n'),
    }
    let _ = writeln!(text, "bottleneck: {}", bottleneck(summary, used));
    text
}

/// As far as it can be told from here.
fn bottleneck(summary: &Summary, used: &Cpu) -> String {
    if summary.seconds < 0.5 {
        return "too short to tell".to_owned();
    }
    let (coordinators, datanodes) = used.cluster.unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let busy = (used.client + coordinators + datanodes) / (summary.seconds * cores);
    if busy > BUSY {
        let parts = [("this program", used.client), ("the coordinators", coordinators), ("the datanodes", datanodes)];
        let most = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("", |part| part.0);
        return format!("the processors of this machine, {:.0} % busy, most of it for {most}", busy.min(1.0) * 100.0);
    }
    if summary.starved > 0.5 {
        return format!("reading the files: the streams waited for them {:.0} % of the time", summary.starved * 100.0);
    }
    let more = "more --streams may help";
    match used.cluster {
        Some(_) => {
            format!("the servers' answers, with processors {:.0} % busy (WAL, disk, locks, or {more})", busy * 100.0)
        }
        None => format!("the servers or the network ({more})"),
    }
}
