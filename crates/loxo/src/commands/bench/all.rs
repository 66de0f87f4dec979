//! `loxo bench all`.

use std::path::PathBuf;

use bench::oltp::{sysbench, tpcc};
use bench::power::Layout;
use bench::suite::Experiment;
use bench::{
    Bulk, BulkOptions, Ch, ChOptions, Concurrency, ConcurrencyOptions, GrowOptions, Insert, InsertOptions, Load,
    LoadOptions, Nodes, NodesOptions, Power, PowerOptions, Question, Small, SmallOptions, Snapshot, SnapshotOptions,
    Sustained, SustainedOptions, Sysbench, SysbenchOptions, Ticks, TicksOptions, Tpcb, TpcbOptions, Tpcc, TpccOptions,
    Tpcds, TpcdsOptions,
};
use cluster::settings::Profile;
use pgerror::Result;

use super::arguments::AllArguments;
use super::experiments::{grow_has_one_build, growing};
use super::reporter::{Reporter, plan};

pub(super) async fn run(arguments: &AllArguments) -> Result<()> {
    if arguments.common.against.is_some() && arguments.only.iter().any(|name| name == "grow") {
        return Err(grow_has_one_build());
    }
    // An experiment that is named is wanted: that it cannot be run is said at once.
    for name in &arguments.only {
        match name.as_str() {
            "sysbench" => sysbench::program().map(drop)?,
            "tpcc" | "ch" => tpcc::program().map(drop)?,
            _ => {}
        }
    }
    let is_quick = arguments.common.quick;
    let bulk =
        |options: BulkOptions, question| Bulk { options: if is_quick { options.quick() } else { options }, question };
    let bulk_rate = bulk(BulkOptions::bulk(), Question::Rate);
    let scaling = bulk(BulkOptions::scaling(), Question::Scaling);
    let concurrency = Concurrency(if is_quick { ConcurrencyOptions::quick() } else { ConcurrencyOptions::full() });
    let ticks = Ticks(if is_quick { TicksOptions::quick() } else { TicksOptions::full() });
    let sustained = Sustained(if is_quick { SustainedOptions::quick() } else { SustainedOptions::full() });
    let load = Load(if is_quick { LoadOptions::quick() } else { LoadOptions::full() });
    let power = if is_quick { PowerOptions::quick(Layout::Mixed) } else { PowerOptions::new(Layout::Mixed) };
    let power = Power { options: power, nodes: vec![2] };
    let tpcds = Tpcds(if is_quick { TpcdsOptions::quick() } else { TpcdsOptions::full() });
    let tpcb = Tpcb(if is_quick { TpcbOptions::quick() } else { TpcbOptions::full() });
    let sysbench = Sysbench(if is_quick { SysbenchOptions::quick() } else { SysbenchOptions::full() });
    let tpcc = Tpcc(if is_quick { TpccOptions::quick() } else { TpccOptions::full() });
    let ch = Ch(if is_quick { ChOptions::quick() } else { ChOptions::full() });
    let insert = Insert(if is_quick { InsertOptions::quick() } else { InsertOptions::full() });
    let snapshot = Snapshot(if is_quick { SnapshotOptions::quick() } else { SnapshotOptions::full() });
    let small = Small(if is_quick { SmallOptions::quick() } else { SmallOptions::full() });
    let nodes = Nodes(if is_quick { NodesOptions::quick() } else { NodesOptions::full() });
    let grow = growing(if is_quick { GrowOptions::quick() } else { GrowOptions::full() }, false);
    let plans = [
        planned(&bulk_rate)?,
        planned(&scaling)?,
        planned(&concurrency)?,
        planned(&ticks)?,
        planned(&sustained)?,
        planned(&load)?,
        planned(&power)?,
        planned(&tpcds)?,
        planned(&tpcb)?,
        planned(&sysbench)?,
        planned(&tpcc)?,
        planned(&ch)?,
        planned(&insert)?,
        planned(&snapshot)?,
        planned(&small)?,
        planned(&nodes)?,
        planned(&grow)?,
    ];
    let mut all = All { arguments, reporter: Reporter::begin(&arguments.common, &plans).await? };
    all.run(&bulk_rate).await?;
    all.run(&scaling).await?;
    all.run(&concurrency).await?;
    all.run(&ticks).await?;
    all.run(&sustained).await?;
    all.run(&load).await?;
    all.run(&power).await?;
    all.run(&tpcds).await?;
    all.run(&tpcb).await?;
    all.run_with(sysbench::program(), &sysbench).await?;
    all.run_with(tpcc::program(), &tpcc).await?;
    all.run_with(tpcc::program(), &ch).await?;
    all.run(&insert).await?;
    all.run(&snapshot).await?;
    all.run(&small).await?;
    all.run(&nodes).await?;
    if arguments.common.against.is_none() {
        all.run(&grow).await?;
    }
    all.reporter.finish()
}

/// Profile of the clusters that an experiment gets.
fn profile(name: &str) -> Profile {
    if name == "concurrency" { Profile::Bulk } else { Profile::Default }
}

fn planned<E: Experiment>(experiment: &E) -> Result<String> {
    plan(experiment, None, profile(experiment.name()))
}

struct All<'a> {
    arguments: &'a AllArguments,
    reporter: Reporter,
}

impl All<'_> {
    fn wants(&self, name: &str) -> bool {
        let only = &self.arguments.only;
        only.is_empty() || only.iter().any(|wanted| wanted == name)
    }

    /// If the program that it needs is there.
    async fn run_with<E: Experiment>(&mut self, program: Result<PathBuf>, experiment: &E) -> Result<()> {
        match program {
            Err(missing) if self.wants(experiment.name()) => {
                eprintln!("{} is left out: {missing}", experiment.name());
                Ok(())
            }
            _ => self.run(experiment).await,
        }
    }

    /// If it is wanted.
    async fn run<E: Experiment>(&mut self, experiment: &E) -> Result<()> {
        let name = experiment.name();
        if !self.wants(name) {
            return Ok(());
        }
        let quick = if self.arguments.common.quick { " --quick" } else { "" };
        self.reporter.run(experiment, &format!("loxo bench {name}{quick}"), None, profile(name)).await
    }
}
