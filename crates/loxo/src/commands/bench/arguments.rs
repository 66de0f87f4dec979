//! What each experiment takes.

use std::path::PathBuf;

use bench::insert::Shape;
use bench::lineitem::{Columns, Format};
use bench::power::Layout;
use bench::tpcds;
use cluster::settings::Profile;

use super::reporter::Common;

/// In the order in which they run.
const EXPERIMENTS: [&str; 17] = [
    "bulk",
    "scaling",
    "concurrency",
    "ticks",
    "sustained",
    "load",
    "power",
    "tpcds",
    "tpcb",
    "sysbench",
    "tpcc",
    "ch",
    "insert",
    "snapshot",
    "small",
    "nodes",
    "grow",
];

/// Loading through the coordinators against loading stock servers directly, in one run
///
/// Starts one stock PostgreSQL server a datanode, with the datanodes' settings, and loads the same TPC-H lineitem files
/// by turns into them and, through the coordinators, into the cluster. Prints rows per second of both, their ratio, and
/// processor seconds per million rows.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench load                                scale factor 1, a cluster of its own, removed afterwards
  loxo bench load --all-ways                     and one stock server, split binary files, loxo load with and without --direct
  loxo bench load --columns 16 --rounds 5        all columns of lineitem
  loxo bench load --columns json --format text   wide rows, as COPY's text format
  loxo bench load --dir /data/two --json         the cluster in that directory")]
pub(super) struct LoadArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure the cluster in this directory [default: a new one of 2 datanodes and 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D", conflicts_with = "against")]
    pub(super) dir: Option<PathBuf>,
    /// Scale factor: 1 is 6 million rows [default: 1; with --quick 0.2]
    #[arg(long, value_name = "SF", value_parser = crate::commands::demo::scale_factor)]
    pub(super) sf: Option<f64>,
    /// Columns of lineitem: 7, 16, json (a key and a wide jsonb document) or blob (7, the first row of 1 MB)
    #[arg(long, value_parser = columns)]
    pub(super) columns: Option<Columns>,
    /// Format of the files: csv or text
    #[arg(long, value_parser = format, default_value = "csv")]
    pub(super) format: Format,
    /// Rounds a side; medians are compared
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: Option<u16>,
    /// Concurrent COPY streams a side [default: one a datanode]
    #[arg(long, value_name = "N")]
    pub(super) streams: Option<usize>,
    /// Send the files over the connection instead of naming them in COPY
    #[arg(long)]
    pub(super) stdin: bool,
    /// Measure also: one stock server alone, stock servers with rows that are binary and split already, loxo load, and that
    /// with --direct; all by turns
    // It is this build's "loxo load" that is measured.
    #[arg(long, conflicts_with = "against")]
    pub(super) all_ways: bool,
    /// Measure logged tables only
    #[arg(long, conflicts_with = "unlogged_only")]
    pub(super) logged_only: bool,
    /// Measure unlogged tables only
    #[arg(long)]
    pub(super) unlogged_only: bool,
    /// Settings profile of a new cluster: default, bulk or oltp
    #[arg(long, default_value_t)]
    pub(super) profile: Profile,
}

/// pgbench's transactions through a coordinator against one stock server without any, in one run
///
/// Starts a stock PostgreSQL server with the datanodes' settings and runs pgbench (TPC-B-like, with the branch in every
/// statement, and reads of single accounts) by turns against it, against PgBouncer before it if that is installed, and against a
/// coordinator. Prints transactions per second of all, their ratios, and processor microseconds per transaction.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench tpcb                                scale 10, 1 to 256 clients, all protocol modes, a cluster of its own
  loxo bench tpcb --select-only --mode prepared  reads of single accounts only
  loxo bench tpcb --clients 8 --no-pgbouncer     by 8 clients, not through PgBouncer
  loxo bench tpcb --dir /data/two --json         the cluster in that directory")]
pub(super) struct TpcbArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure the cluster in this directory [default: a new one of 2 datanodes and 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D", conflicts_with = "against")]
    pub(super) dir: Option<PathBuf>,
    /// Branches; 100,000 accounts each [default: 10; with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(super) scale: Option<u32>,
    /// Connections of pgbench; several numbers are measured one after the other [default: 1,8,64,256; with --quick 8,64]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) clients: Vec<u32>,
    /// Seconds of one run [default: 10; with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) seconds: Option<u32>,
    /// Rounds a side; medians are compared [default: 3; with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: Option<u16>,
    /// How pgbench sends statements: simple, extended or prepared; may be repeated [default: all three; with --quick simple
    /// and prepared]
    #[arg(long = "mode", value_name = "M", value_parser = clap::builder::PossibleValuesParser::new(bench::oltp::tpcb::MODES))]
    pub(super) modes: Vec<String>,
    /// Only read accounts
    #[arg(long, conflicts_with = "tpcb_only")]
    pub(super) select_only: bool,
    /// Only the TPC-B-like transactions
    #[arg(long)]
    pub(super) tpcb_only: bool,
    #[command(flatten)]
    pub(super) pooler: Pooler,
}

/// Is PgBouncer one of the sides?
#[derive(clap::Args)]
pub(super) struct Pooler {
    /// An error if PgBouncer is not installed [default: also through PgBouncer to the stock server where it is installed]
    #[arg(long, conflicts_with = "no_pgbouncer")]
    pub(super) pgbouncer: bool,
    /// Not through PgBouncer
    #[arg(long)]
    pub(super) no_pgbouncer: bool,
}

/// Reads over two datanodes with and without a consistent snapshot, while others write
///
/// Runs pgbench clients that move money between accounts on two datanodes, and beside them one client that reads eight
/// accounts, by turns with loxo.snapshot = local and consistent. Prints the medians of its times and what the snapshot adds.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench snapshot                               8 writers, 3 rounds, a cluster of its own
  loxo bench snapshot --writers 0                     on a cluster that is idle otherwise
  loxo bench snapshot --dir /data/two --json          the cluster in that directory")]
pub(super) struct SnapshotArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure the cluster in this directory [default: a new one of 2 datanodes and 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D", conflicts_with = "against")]
    pub(super) dir: Option<PathBuf>,
    /// Clients that write without a pause
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) writers: u32,
    /// Seconds of one run [default: 5; with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: Option<u32>,
    /// Rounds of each setting; medians are compared
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: u16,
}

/// Rows written by INSERT through a coordinator against one stock server without any, in one run
///
/// Clients send transactions of 1,000 rows by turns to a stock server with the datanodes' settings, to a bare TCP relay before it
/// and to a coordinator: one INSERT of 1,000 rows, INSERTs one by one, a pipeline of a prepared one, INSERT … SELECT; all rows with one key, and each
/// with its own. Prints rows per second of both, their ratio, and processor microseconds per row.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench insert                              2 clients, all shapes, a cluster of its own
  loxo bench insert --shape values --clients 8   only INSERTs of 1,000 rows of constants
  loxo bench insert --nodes 1,2,4                one cluster after the other, and how work grows and shrinks
  loxo bench insert --dir /data/two --json       the cluster in that directory")]
pub(super) struct InsertArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure the cluster in this directory [default: a new one of 2 datanodes and 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D", conflicts_with = "against")]
    pub(super) dir: Option<PathBuf>,
    /// Sessions that write
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) clients: u32,
    /// Seconds of one run [default: 4; with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: Option<u32>,
    /// Rounds a side; medians are compared [default: 3; with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: Option<u16>,
    /// values, each, pipeline or select; may be repeated [default: all four]
    #[arg(long = "shape", value_name = "S", value_parser = shape)]
    pub(super) shapes: Vec<Shape>,
    /// Datanodes of a new cluster; several numbers, e.g. 1,2,4: one cluster after the other, and how work grows and shrinks
    #[arg(long, value_delimiter = ',', default_values_t = [2_u16], conflicts_with = "dir",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) nodes: Vec<u16>,
}

/// TPC-H's load, queries, streams and refresh functions on a cluster and on one stock server, in one run
///
/// Loads the same rows into the cluster and into one stock server with the datanodes' settings, and times COPY, keys and ANALYZE. Runs
/// every query on both (the stock server without and with parallel workers), compares the rows with each other and at scale factor 1
/// with the official answers; then all queries in several sessions at once; then adds orders (RF1) and takes old ones away (RF2), and
/// compares both tables.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench power                               scale factor 1, a cluster of its own, removed afterwards
  loxo bench power --sf 0.1 --layout hash        every table hash-distributed
  loxo bench power --layout orders=o_custkey,customer=c_custkey --streams 4
  loxo bench power --dir /data/two --keep        the cluster in that directory; its tables stay for the next run")]
pub(super) struct PowerArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure the cluster in this directory [default: a new one of 2 datanodes, removed afterwards]
    #[arg(long, value_name = "D", conflicts_with = "against")]
    pub(super) dir: Option<PathBuf>,
    /// Scale factor [default: 1; with --quick 0.1]
    #[arg(long, value_name = "SF", value_parser = crate::commands::demo::scale_factor)]
    pub(super) sf: Option<f64>,
    /// mixed: lineitem and orders by orderkey, part and partsupp by partkey, the rest replicated; hash: all by their key;
    /// TABLE=COLUMN,… (or TABLE=replicated): those tables otherwise than mixed. A primary key without that column becomes an index
    #[arg(long, default_value = "mixed")]
    pub(super) layout: Layout,
    /// Runs of each query; the fastest counts [default: 3; with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: Option<u16>,
    /// Only these queries, e.g. 1,6,14
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=22))]
    pub(super) queries: Vec<u16>,
    /// Sessions that run all queries at the same time; 0: leave that out
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(0..=100))]
    pub(super) streams: u16,
    /// Datanodes of a new cluster; several numbers, e.g. 1,2,4: one cluster after the other, and how work grows and shrinks
    #[arg(long, value_delimiter = ',', default_values_t = [2_u16], conflicts_with = "dir",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) nodes: Vec<u16>,
    /// Give a query up after so many seconds
    #[arg(long, default_value_t = 300)]
    pub(super) timeout: u32,
    /// Use the tables that a run with --keep has left in the schema bench_power, and leave them there: without refresh functions
    #[arg(long)]
    pub(super) keep: bool,
}

/// Queries over TPC-DS's tables on a cluster and on one stock server, in one run
///
/// Loads the same rows into the cluster and into one stock server with the datanodes' settings, times COPY, keys and ANALYZE, runs every
/// query on both (the stock server without and with parallel workers), and says of every answer whether it is right, wrong, refused or
/// an error. The 99 queries of TPC-DS are the TPC's and may not be handed on with this program: --queries reads them from where you have
/// them. Without it, queries of this program's own are run over the same tables.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench tpcds --quick --report tpcds.html   scale factor 0.02, a cluster of its own, removed afterwards
  loxo bench tpcds --queries ~/tpcds/queries     each file *.sql there: one query, or a stream as dsqgen writes it, in PostgreSQL's dialect
  loxo bench tpcds --layout item --only 2,7      facts by item instead of ticket and order; two queries")]
pub(super) struct TpcdsArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure the cluster in this directory [default: a new one, removed afterwards]
    #[arg(long, value_name = "D", conflicts_with = "against")]
    pub(super) dir: Option<PathBuf>,
    /// Scale factor; 2 million rows of dimensions are the same at each [default: 1; with --quick 0.02]
    #[arg(long, value_name = "SF", value_parser = crate::commands::demo::scale_factor)]
    pub(super) sf: Option<f64>,
    /// order: facts by ticket and order number; item: all facts by item. Dimensions are replicated
    #[arg(long, default_value = "order", value_parser = layout_of_facts)]
    pub(super) layout: tpcds::Layout,
    /// Files *.sql with queries in PostgreSQL's dialect [default: this program's own]
    #[arg(long, value_name = "DIR")]
    pub(super) queries: Option<PathBuf>,
    /// Only these queries, by their names, e.g. 1,6,14
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// Runs of each query; the fastest counts [default: 3; with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: Option<u16>,
    /// Give a query up after so many seconds [default: 300; with --quick 10]
    #[arg(long)]
    pub(super) timeout: Option<u32>,
    /// Datanodes of a new cluster
    #[arg(long, default_value_t = 2, conflicts_with = "dir", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) nodes: u16,
}

/// Short queries over small tables, on a cluster and on one stock server, in one run
///
/// Nothing counts there but what a query costs before its first row. Prints the median time of each query on both sides.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench small                               a cluster of its own of 2 datanodes, removed afterwards
  loxo bench small --nodes 4 --rounds 50
  loxo bench small --dir /data/two --json        the cluster in that directory")]
pub(super) struct SmallArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure the cluster in this directory [default: a new one, removed afterwards]
    #[arg(long, value_name = "D", conflicts_with = "against")]
    pub(super) dir: Option<PathBuf>,
    /// Runs of each query; medians are compared [default: 20; with --quick 5]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=9999))]
    pub(super) rounds: Option<u16>,
    /// Datanodes of a new cluster
    #[arg(long, default_value_t = 2, conflicts_with = "dir", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) nodes: u16,
}

/// What clients see while a datanode is added, filled, emptied and removed
///
/// Writers move money between accounts, readers sum all of it, and one session asks TPC-H queries, first without moves, then
/// while a datanode is added and gets its share of the rows, and while it is removed. At last, with nothing else running, one
/// is added again. Prints throughput, percentiles and longest pauses of each phase, all errors, how many rows moved and how
/// fast, and whether every row is there, once. While it runs a line a second goes to stderr.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench grow --quick                          scale factor 0.05, a cluster of its own, removed afterwards
  loxo bench grow --report grow.html               scale factor 1, and charts of every second
  loxo bench grow --dir /data/three --json         the cluster in that directory, which has its datanodes again at the end")]
pub(super) struct GrowArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure the cluster in this directory [default: a new one of 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D", conflicts_with = "against")]
    pub(super) dir: Option<PathBuf>,
    /// Datanodes of a new cluster, before one is added
    #[arg(long, default_value_t = 3, conflicts_with = "dir", value_parser = clap::value_parser!(u16).range(2..=63))]
    pub(super) nodes: u16,
    /// Scale factor of lineitem [default: 1; with --quick 0.05]
    #[arg(long, value_name = "SF", visible_alias = "scale", value_parser = crate::commands::demo::scale_factor)]
    pub(super) sf: Option<f64>,
    /// Sessions that write
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) writers: u32,
    /// Sessions that read
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) readers: u32,
    /// Seconds of the phase without moves [default: 30; with --quick 15]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) seconds: Option<u32>,
}

fn shape(text: &str) -> std::result::Result<Shape, String> {
    let found = Shape::NAMED.iter().find(|(name, _)| *name == text);
    found.map(|(_, shape)| *shape).ok_or_else(|| "values, each, pipeline or select".to_owned())
}

fn layout_of_facts(text: &str) -> std::result::Result<tpcds::Layout, String> {
    let found = [tpcds::Layout::Order, tpcds::Layout::Item].into_iter().find(|layout| layout.name() == text);
    found.ok_or_else(|| "order or item".to_owned())
}

fn columns(text: &str) -> std::result::Result<Columns, String> {
    match text {
        "7" => Ok(Columns::Seven),
        "16" => Ok(Columns::Sixteen),
        "json" => Ok(Columns::Json),
        "blob" => Ok(Columns::Blob),
        _ => Err("7, 16, json or blob".to_owned()),
    }
}

fn format(text: &str) -> std::result::Result<Format, String> {
    match text {
        "csv" => Ok(Format::Csv),
        "text" => Ok(Format::Text),
        _ => Err("csv or text".to_owned()),
    }
}

/// One cluster after the other, of ever more datanodes on this machine
///
/// Measures of each how long it takes to come up, its memory, the load of a million rows, a read of one row and one over all
/// datanodes, a join that exchanges rows, commits over two and over all datanodes, CREATE and DROP TABLE, what a consistent snapshot
/// adds, and what 200 clients at once see: the most connections that a datanode has then, and the longest statement.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench nodes --quick                    1, 2, 4 and 8 datanodes, 100,000 rows: less than two minutes
  loxo bench nodes --sizes 16,40,64           a datanode takes about 100 MB of disk and 60 MB of memory
  loxo bench nodes --report nodes.html        and a chart of the times")]
pub(super) struct NodesArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Numbers of datanodes [default: 1,2,4,8,16,32; with --quick 1,2,4,8]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) sizes: Vec<u16>,
    /// Rows that are loaded [default: 1000000; with --quick 100000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    pub(super) rows: Option<u64>,
    /// Clients at once
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=900))]
    pub(super) clients: u16,
}

/// At what rate rows come into the cluster through one, two and three coordinators
///
/// Streams of COPY load TPC-H's lineitem (7 columns) into logged and unlogged tables, by turns through one coordinator and through
/// several; then count(*) scans the table. Prints rows per second, MB/s and TB/h, processor seconds per million rows by role, and
/// what sets the pace.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench bulk --quick --report bulk.html      scale factor 0.2, 8 streams, a cluster of its own
  loxo bench bulk --sf 10 --streams 24            60 million rows a load
  loxo bench bulk --on-the-fly                    rows are made while they are loaded: no files
  loxo bench bulk --dir /data/two                 the cluster in that directory")]
pub(super) struct BulkArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure the cluster in this directory [default: a new one of 2 datanodes, removed afterwards]
    #[arg(long, value_name = "D", conflicts_with_all = ["against", "datanodes"])]
    pub(super) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(super) load: BulkLoad,
}

/// The rate of loads on one cluster after the other, of ever more datanodes
///
/// As "loxo bench bulk", into unlogged tables, with the rate of each datanode and, in words, what sets the pace of each cluster. All
/// run on this machine, so its cores are shared by ever more datanodes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench scaling --quick --report scaling.html  1, 2 and 4 datanodes, 1 and 2 coordinators
  loxo bench scaling --datanodes 16,20,24 --coordinators 1,2,3 --sf 10")]
pub(super) struct ScalingArguments {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) load: BulkLoad,
}

/// What is loaded.
#[derive(clap::Args)]
pub(super) struct BulkLoad {
    /// Scale factor of one load: 1 is 6 million rows [default: 1; with --quick 0.2]
    #[arg(long, value_name = "SF", visible_alias = "scale", value_parser = crate::commands::demo::scale_factor)]
    pub(super) sf: Option<f64>,
    /// Concurrent COPYs [default: 24; with --quick 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) streams: Option<u16>,
    /// Datanodes of new clusters, one after the other
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) datanodes: Vec<u16>,
    /// Coordinators that take part, by turns [default: 1,2,3, for scaling 1,2; with --dir those of them that are there]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=50))]
    pub(super) coordinators: Vec<u16>,
    /// Columns of lineitem: 7 or 16
    #[arg(long, value_parser = columns, default_value = "7")]
    pub(super) columns: Columns,
    /// Loads of each kind; medians are compared [default: 3]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: Option<u16>,
    /// Make the rows while they are loaded, in this program, instead of files that coordinators read
    #[arg(long)]
    pub(super) on_the_fly: bool,
}

/// All experiments, one after the other, in one report
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench all --quick --report all.html        each in less than three minutes
  loxo bench all --quick --only bulk,tpcb --report some.html")]
pub(super) struct AllArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Only these
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(EXPERIMENTS))]
    pub(super) only: Vec<String>,
}

/// What became faster or slower from one report to another
///
/// Takes the JSON of two reports. A figure is called better or worse if the rounds of the two do not overlap and the medians differ
/// by 3 % at least; all other differences are within the noise.
#[derive(clap::Args)]
#[command(after_help = "Example:
  loxo bench compare before.json after.json")]
pub(super) struct CompareArguments {
    /// JSON of the report before
    pub(super) before: PathBuf,
    /// JSON of the report after
    pub(super) after: PathBuf,
}

/// More processes that load at the same time, on one stock server and on the cluster
///
/// 1 to 16 processes of COPY into one table, a table each, a table each without WAL, one table with an index; and of INSERT. Prints rows
/// per second beside the theory line, and what the backends were seen to do.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench concurrency --quick --report concurrency.html
  loxo bench concurrency --processes 1,2,4,8,16,32 --rows 1000000")]
pub(super) struct ConcurrencyArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Rows of a process, by COPY; by INSERT a tenth [default: 300000; with --quick 100000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    pub(super) rows: Option<u64>,
    /// Numbers of processes [default: 1,2,4,8,12,16; with --quick 1,2,4,8]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=500))]
    pub(super) processes: Vec<u16>,
    /// Measurements of each; medians are compared [default: 3; with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: Option<u16>,
    /// Datanodes of the cluster
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) nodes: u16,
}

/// Ever more datanodes and ever more loaders, into one table with an index
///
/// Loads ticks of an exchange, distributed by the symbol, which is the index, over 1, 2, 4 and 8 connections at once, by turns into a
/// stock PostgreSQL server and through the coordinators, on clusters of 1, 2, 4 and 6 datanodes. Prints rows per second, and
/// processor seconds per million rows.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench ticks --quick --report ticks.html
  loxo bench ticks --rows 90000000 --rounds 1
  loxo bench ticks --datanodes 40 --rows 100000 --rounds 1   that so many work; \"loxo bench nodes\" tells what each costs")]
pub(super) struct TicksArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Rows of one load [default: 3000000; with --quick 300000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    pub(super) rows: Option<u64>,
    /// Datanodes of the clusters, one after the other [default: 1,2,4,6]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) datanodes: Vec<u16>,
    /// Connections that load at once [default: 1,2,4,8]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) loaders: Vec<u16>,
    /// Measurements of each; medians are compared [default: 3; with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: Option<u16>,
}

/// The same load again and again without truncating, past the memory of the servers
///
/// Prints the rate of each load and draws it over time, with the datanodes' checkpoints.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench sustained --quick --report sustained.html
  systemd-run --scope -p MemoryMax=1G loxo bench sustained --report sustained.html")]
pub(super) struct SustainedArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Scale factor of one load: 1 is 6 million rows [default: 1; with --quick 0.2]
    #[arg(long, value_name = "SF", visible_alias = "scale", value_parser = crate::commands::demo::scale_factor)]
    pub(super) sf: Option<f64>,
    /// How often it is loaded [default: 50; with --quick 8]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) loads: Option<u16>,
    /// Concurrent COPYs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) streams: u16,
    /// Datanodes of the cluster
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) nodes: u16,
    /// shared_buffers of each datanode [default: 128MB; with --quick 32MB]
    #[arg(long, value_name = "SIZE")]
    pub(super) shared_buffers: Option<String>,
    /// max_wal_size of each datanode [default: 1GB; with --quick 128MB]
    #[arg(long, value_name = "SIZE")]
    pub(super) max_wal_size: Option<String>,
}

/// The cluster needed for a load rate, projected from what a row costs
///
/// Takes processor seconds by role and bytes of a row from the report of "loxo bench bulk", or measures them first, and computes cores,
/// machines and network for the rate. That is a projection, not a measurement.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench plan --rate 100M --from bulk.json
  loxo bench plan --rate 20M --cores 32           measures first, as bulk --quick does")]
pub(super) struct PlanArguments {
    /// Rows a second, e.g. 500k, 100M
    #[arg(long, value_name = "ROWS", value_parser = rate)]
    pub(super) rate: f64,
    /// JSON of a report of "loxo bench bulk" [default: measure now]
    #[arg(long, value_name = "FILE.json")]
    pub(super) from: Option<PathBuf>,
    /// Cores of a machine
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) cores: u32,
    /// How much of its cores a machine should use, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(super) busy: u8,
}

/// `100M` as 100,000,000.
fn rate(text: &str) -> std::result::Result<f64, String> {
    let (digits, times) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        Some((at, 'g' | 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let number: f64 = digits.parse().map_err(|_| format!("\"{text}\" is not a number of rows"))?;
    if number.is_finite() && number > 0.0 { Ok(number * times) } else { Err("more than 0".to_owned()) }
}
