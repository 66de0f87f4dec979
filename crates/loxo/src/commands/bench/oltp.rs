//! What the experiments take whose transactions another program sends.

use std::path::PathBuf;

use bench::{Tpcc, TpccOptions};
use pgerror::Result;

use super::experiments::chosen;
use super::reporter::Common;

/// TPC-C through a coordinator against one stock server without any, in one run
///
/// Needs the program go-tpc. Makes TPC-C's tables on a stock PostgreSQL server with the datanodes' settings and copies them to the
/// cluster, distributed by the warehouse; go-tpc then runs by turns against the stock server and against a coordinator. Prints
/// new orders per minute (tpmC), times by transaction, and processor microseconds per transaction; go-tpc's check of consistency
/// ends the run on both sides.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench tpcc                                10 warehouses, 1, 8 and 32 clients, a cluster of its own
  loxo bench tpcc --clients 1,4,16,64,256 --pgbouncer
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
    /// Sessions; several numbers are measured one after the other [default: 1,8,32; with --quick 1,8]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(super) clients: Vec<u32>,
    /// Seconds of one run [default: 20; with --quick 5]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) seconds: Option<u32>,
    /// Rounds a side; medians are compared [default: 3; with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=99))]
    pub(super) rounds: Option<u16>,
    /// Also through PgBouncer (Debian's package of that name) to the stock server
    #[arg(long)]
    pub(super) pgbouncer: bool,
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
        pgbouncer: arguments.pgbouncer,
    }))
}
