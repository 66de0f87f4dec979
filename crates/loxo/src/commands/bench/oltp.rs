//! What the experiments take whose transactions another program sends.

use std::path::PathBuf;

use bench::oltp::sysbench::SCRIPTS;
use bench::{Ch, ChOptions, Sysbench, SysbenchOptions, Tpcc, TpccOptions};
use clap::builder::PossibleValuesParser;
use pgerror::Result;

use super::arguments::Pooler;
use super::experiments::chosen;
use super::reporter::Common;

/// sysbench's OLTP scripts through a coordinator against one stock server without any, in one run
///
/// Needs the program sysbench (Debian's package of that name). It makes tables on a stock PostgreSQL server with the datanodes'
/// settings, which are copied to the cluster, and runs by turns against the stock server, through
/// PgBouncer to it if that is installed, and against a coordinator. Prints
/// transactions per second of both, their ratio, times, and processor microseconds per transaction.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench sysbench                            point selects, reads and writes, updates; 1 to 256 clients
  loxo bench sysbench --script oltp_read_only --clients 1,16 --no-pgbouncer
  loxo bench sysbench --dir /data/two --json     the cluster in that directory")]
pub(super) struct SysbenchArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure the cluster in this directory [default: a new one of 2 datanodes and 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D", conflicts_with = "against")]
    pub(super) dir: Option<PathBuf>,
    /// Which script; may be repeated [default: oltp_point_select, oltp_read_write, oltp_update_index]
    #[arg(long = "script", value_name = "S", value_parser = PossibleValuesParser::new(SCRIPTS))]
    pub(super) scripts: Vec<String>,
    /// Tables [default: 4; with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) tables: Option<u32>,
    /// Rows of each table [default: 250000; with --quick 20000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(100..))]
    pub(super) rows: Option<u32>,
    /// Sessions; several numbers are measured one after the other [default: 1,8,64,256; with --quick 8,64]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) clients: Vec<u32>,
    /// Seconds of one run [default: 10; with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) seconds: Option<u32>,
    /// Rounds a side; medians are compared [default: 3; with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: Option<u16>,
    #[command(flatten)]
    pub(super) pooler: Pooler,
}

/// Where it is installed, but for what was said.
pub(super) fn through_pgbouncer(pooler: &Pooler) -> Result<bool> {
    if pooler.pgbouncer {
        // Before a cluster is started for nothing.
        bench::oltp::pgbouncer()?;
    }
    Ok(!pooler.no_pgbouncer && bench::oltp::pgbouncer().is_ok())
}

pub(super) fn sysbench(arguments: &SysbenchArguments) -> Result<Sysbench> {
    // Before a cluster is started for nothing.
    bench::oltp::sysbench::program()?;
    let defaults = if arguments.common.quick { SysbenchOptions::quick() } else { SysbenchOptions::full() };
    Ok(Sysbench(SysbenchOptions {
        scripts: chosen(&arguments.scripts, defaults.scripts),
        tables: arguments.tables.unwrap_or(defaults.tables),
        rows: arguments.rows.unwrap_or(defaults.rows),
        clients: chosen(&arguments.clients, defaults.clients),
        seconds: arguments.seconds.unwrap_or(defaults.seconds),
        rounds: arguments.rounds.map_or(defaults.rounds, usize::from),
        pgbouncer: through_pgbouncer(&arguments.pooler)?,
    }))
}

/// TPC-C through a coordinator against one stock server without any, in one run
///
/// Needs the program go-tpc. Makes TPC-C's tables on a stock PostgreSQL server with the datanodes' settings and copies them to the
/// cluster, distributed by the warehouse; go-tpc then runs by turns against the stock server and against a coordinator. Prints
/// new orders per minute (tpmC), times by transaction, and processor microseconds per transaction; go-tpc's check of consistency
/// ends the run on both sides.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench tpcc                                10 warehouses, 1 to 256 clients, a cluster of its own
  loxo bench tpcc --clients 1,4,16 --no-pgbouncer
  loxo bench tpcc --dir /data/two --json         the cluster in that directory")]
pub(super) struct TpccArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure the cluster in this directory [default: a new one of 2 datanodes and 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D", conflicts_with = "against")]
    pub(super) dir: Option<PathBuf>,
    /// Half a million rows each [default: 10; with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) warehouses: Option<u32>,
    /// Sessions; several numbers are measured one after the other [default: 1,8,64,256; with --quick 8,64]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) clients: Vec<u32>,
    /// Seconds of one run [default: 20; with --quick 4]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) seconds: Option<u32>,
    /// Rounds a side; medians are compared [default: 3; with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: Option<u16>,
    #[command(flatten)]
    pub(super) pooler: Pooler,
}

pub(super) fn tpcc(arguments: &TpccArguments) -> Result<Tpcc> {
    // Before a cluster is started for nothing.
    bench::oltp::tpcc::program()?;
    let defaults = if arguments.common.quick { TpccOptions::quick() } else { TpccOptions::full() };
    Ok(Tpcc(TpccOptions {
        warehouses: arguments.warehouses.unwrap_or(defaults.warehouses),
        clients: chosen(&arguments.clients, defaults.clients),
        seconds: arguments.seconds.unwrap_or(defaults.seconds),
        rounds: arguments.rounds.map_or(defaults.rounds, usize::from),
        pgbouncer: through_pgbouncer(&arguments.pooler)?,
    }))
}

/// CH-benCHmark, TPC-C and 22 analytical queries over the same tables, on a cluster and on one stock server, in one run
///
/// Needs the program go-tpc. Makes the tables as "tpcc" does, asks the queries alone, by turns of a stock PostgreSQL server and of a
/// coordinator, compares the answers, and asks them again beside TPC-C's transactions. Prints the time of each query, queries an
/// hour and new orders per minute.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench ch                                  10 warehouses, 8 clients, one session that asks queries, a cluster of its own
  loxo bench ch --clients 32 --analysts 4
  loxo bench ch --dir /data/two --json           the cluster in that directory")]
pub(super) struct ChArguments {
    #[command(flatten)]
    pub(super) common: Common,
    /// Measure the cluster in this directory [default: a new one of 2 datanodes and 2 coordinators, removed afterwards]
    #[arg(long, value_name = "D", conflicts_with = "against")]
    pub(super) dir: Option<PathBuf>,
    /// Half a million rows each [default: 10; with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) warehouses: Option<u32>,
    /// Sessions of TPC-C [default: 8; with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) clients: Option<u32>,
    /// Sessions that ask the queries, each all of them [default: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) analysts: Option<u32>,
    /// Rounds a side; medians are compared [default: 3; with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: Option<u16>,
}

pub(super) fn ch(arguments: &ChArguments) -> Result<Ch> {
    // Before a cluster is started for nothing.
    bench::oltp::tpcc::program()?;
    let defaults = if arguments.common.quick { ChOptions::quick() } else { ChOptions::full() };
    Ok(Ch(ChOptions {
        warehouses: arguments.warehouses.unwrap_or(defaults.warehouses),
        clients: arguments.clients.unwrap_or(defaults.clients),
        analysts: arguments.analysts.unwrap_or(defaults.analysts),
        rounds: arguments.rounds.map_or(defaults.rounds, usize::from),
    }))
}
