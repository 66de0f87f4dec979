//! `loxo bench`: each experiment with its arguments, all of them, and the comparison of two reports.

mod all;
mod arguments;
mod clusters;
mod experiments;
mod membership;
mod oltp;
mod reporter;

use std::path::{Path, PathBuf};

use bench::plan::{self, PlanOptions};
use bench::suite::{Experiment, FORMAT, Journal, Report, THIS, compare, drive};
use bench::{Bulk, BulkOptions, Question};
use cluster::settings::Profile;
use pgerror::{PgError, Result, SqlState};

use arguments::{
    AllArguments, BulkArguments, CompareArguments, ConcurrencyArguments, GrowArguments, InsertArguments, LoadArguments,
    NodesArguments, PlanArguments, PowerArguments, ScalingArguments, SmallArguments, SnapshotArguments,
    SustainedArguments, TicksArguments, TpcbArguments, TpcdsArguments,
};
use clusters::Local;
use oltp::{ChArguments, SysbenchArguments, TpccArguments};
use reporter::{Common, Reporter};

/// Measure this machine
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    All(AllArguments),
    Bulk(BulkArguments),
    Scaling(ScalingArguments),
    Load(LoadArguments),
    Tpcb(TpcbArguments),
    Sysbench(SysbenchArguments),
    Tpcc(TpccArguments),
    Ch(ChArguments),
    #[command(alias = "cut")]
    Snapshot(SnapshotArguments),
    Insert(InsertArguments),
    Power(PowerArguments),
    Tpcds(TpcdsArguments),
    Small(SmallArguments),
    Grow(GrowArguments),
    Nodes(NodesArguments),
    Concurrency(ConcurrencyArguments),
    Ticks(TicksArguments),
    Sustained(SustainedArguments),
    Plan(PlanArguments),
    Compare(CompareArguments),
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::All(arguments) => all::run(&arguments).await,
        Command::Bulk(arguments) => {
            one(&arguments.common, &experiments::bulk(&arguments)?, arguments.dir, Profile::Default).await
        }
        Command::Scaling(arguments) => {
            one(&arguments.common, &experiments::scaling(&arguments), None, Profile::Default).await
        }
        Command::Load(arguments) => {
            one(&arguments.common, &experiments::load(&arguments)?, arguments.dir, arguments.profile).await
        }
        Command::Tpcb(arguments) => {
            one(&arguments.common, &experiments::tpcb(&arguments)?, arguments.dir, Profile::Default).await
        }
        Command::Sysbench(arguments) => {
            one(&arguments.common, &oltp::sysbench(&arguments)?, arguments.dir, Profile::Default).await
        }
        Command::Tpcc(arguments) => {
            one(&arguments.common, &oltp::tpcc(&arguments)?, arguments.dir, Profile::Default).await
        }
        Command::Ch(arguments) => one(&arguments.common, &oltp::ch(&arguments)?, arguments.dir, Profile::Default).await,
        Command::Snapshot(arguments) => {
            one(&arguments.common, &experiments::snapshot(&arguments), arguments.dir, Profile::Default).await
        }
        Command::Insert(arguments) => {
            one(&arguments.common, &experiments::insert(&arguments)?, arguments.dir, Profile::Default).await
        }
        Command::Power(arguments) => {
            one(&arguments.common, &experiments::power(&arguments)?, arguments.dir, Profile::Default).await
        }
        Command::Tpcds(arguments) => {
            one(&arguments.common, &experiments::tpcds(&arguments)?, arguments.dir, Profile::Default).await
        }
        Command::Small(arguments) => {
            one(&arguments.common, &experiments::small(&arguments)?, arguments.dir, Profile::Default).await
        }
        Command::Grow(arguments) => {
            if arguments.common.against.is_some() {
                return Err(experiments::grow_has_one_build());
            }
            one(&arguments.common, &experiments::grow(&arguments)?, arguments.dir, Profile::Default).await
        }
        Command::Nodes(arguments) => {
            one(&arguments.common, &experiments::nodes(&arguments), None, Profile::Default).await
        }
        Command::Concurrency(arguments) => {
            one(&arguments.common, &experiments::concurrency(&arguments), None, Profile::Bulk).await
        }
        Command::Ticks(arguments) => {
            one(&arguments.common, &experiments::ticks(&arguments), None, Profile::Default).await
        }
        Command::Sustained(arguments) => {
            one(&arguments.common, &experiments::sustained(&arguments), None, Profile::Default).await
        }
        Command::Plan(arguments) => crate::commands::print(&project(&arguments).await?),
        Command::Compare(arguments) => {
            let found = compare(&read(&arguments.before)?, &read(&arguments.after)?);
            crate::commands::print(&found.to_string())
        }
    }
}

async fn one<E: Experiment>(common: &Common, experiment: &E, dir: Option<PathBuf>, profile: Profile) -> Result<()> {
    let plan = reporter::plan(experiment, dir.as_deref(), profile)?;
    let mut reporter = Reporter::begin(common, &[plan]).await?;
    let command: Vec<String> = std::env::args().skip(1).collect();
    reporter.run(experiment, &format!("loxo {}", command.join(" ")), dir, profile).await?;
    reporter.finish()
}

/// From the report that was named, or from what is measured now.
async fn project(arguments: &PlanArguments) -> Result<String> {
    let outcome = match &arguments.from {
        Some(path) => read(path)?.experiments.into_iter().find(|outcome| outcome.name == "bulk").ok_or_else(|| {
            let text = format!("{} has no experiment \"bulk\"", path.display());
            PgError::new(SqlState::CONFIG_FILE_ERROR, text)
        })?,
        None => {
            let bulk = Bulk { options: BulkOptions::bulk().quick(), question: Question::Rate };
            let local = Local { kept: None, profile: Profile::Default, against: None };
            let run = drive(&bulk, "loxo bench bulk --quick", &local, &[THIS], &mut Journal::none()).await?;
            run.ended?;
            run.outcome
        }
    };
    let (rows_per_second, cores) = (arguments.rate, arguments.cores);
    let options = PlanOptions { rows_per_second, cores, busy_share: f64::from(arguments.busy) / 100.0 };
    Ok(plan::plan(&options, &outcome)?.to_string())
}

fn read(path: &Path) -> Result<Report> {
    let failed = |why: String| PgError::new(SqlState::IO_ERROR, format!("cannot read {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let report: Report = serde_json::from_str(&text)
        .map_err(|error| failed(format!("{error}; it must be the JSON that --report writes beside its page")))?;
    match report.format {
        FORMAT => Ok(report),
        other => Err(failed(format!("it has format {other}, this loxo reads {FORMAT}"))),
    }
}
