//! `loxo bench nodes`.

use std::path::PathBuf;

use bench::{NodesOptions, NodesReport};
use cluster::local::UpOptions;
use cluster::settings::Profile;
use pgerror::Result;

use super::{on_cluster, start};

const SIZES: [u16; 6] = [1, 2, 4, 8, 16, 32];
const QUICK_SIZES: [u16; 4] = [1, 2, 4, 8];

/// One cluster after the other, of ever more datanodes on this machine
///
/// Measures of each how long it takes to come up, its memory, the load of a million rows, a read of one row and one over all
/// datanodes, a join that exchanges rows, commits over two and over all datanodes, CREATE and DROP TABLE, what a consistent snapshot
/// adds, and what 200 clients at once see: the most connections that a datanode has then, and the longest statement.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo bench nodes --quick                    1, 2, 4 and 8 datanodes, 100,000 rows: less than two minutes
  loxo bench nodes --sizes 16,40,64           a datanode takes about 100 MB of disk and 60 MB of memory
  loxo bench nodes --out nodes.svg            and a chart of the times; .csv: the figures")]
pub(super) struct Arguments {
    /// Fewer datanodes and rows, shorter runs
    #[arg(long)]
    quick: bool,
    /// Numbers of datanodes [default: 1,2,4,8,16,32; with --quick 1,2,4,8]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=100))]
    sizes: Vec<u16>,
    /// Rows that are loaded [default: 1000000; with --quick 100000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    rows: Option<u64>,
    /// Clients at once
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=900))]
    clients: u16,
    /// The loxo that runs as gtm and coordinator, to compare builds [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write the figures there: a chart if its name ends in .svg, else CSV
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(arguments: &Arguments) -> Result<()> {
    let defaults = if arguments.quick { NodesOptions::quick() } else { NodesOptions::full() };
    let options = NodesOptions {
        rows: arguments.rows.unwrap_or(defaults.rows),
        clients: usize::from(arguments.clients),
        ..defaults
    };
    let sizes = match (arguments.sizes.as_slice(), arguments.quick) {
        ([], true) => &QUICK_SIZES[..],
        ([], false) => &SIZES[..],
        (chosen, _) => chosen,
    };
    let mut report = NodesReport { options, sizes: Vec::new() };
    for datanodes in sizes {
        let measure = async |up: UpOptions| {
            let loxo = arguments.program.clone().unwrap_or_else(|| up.loxo.clone());
            bench::nodes::run(&report.options, || start(UpOptions { loxo, ..up })).await
        };
        let size = on_cluster(None, *datanodes, 1, Some(Profile::Default), measure).await?;
        report.sizes.push(size);
        eprintln!("measured: {datanodes} of datanodes {sizes:?}");
    }
    crate::commands::print(&if arguments.json { format!("{:#}\n", report.to_json()) } else { format!("{report}\n") })?;
    if let Some(out) = &arguments.out {
        let is_chart = out.extension().is_some_and(|extension| extension == "svg");
        std::fs::write(out, if is_chart { report.to_svg() } else { report.to_csv() })?;
    }
    Ok(())
}
