//! Runs an experiment: starts its clusters, takes every step on every build by turns, and leaves nothing running.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

use pgerror::{PgError, Result, SqlState};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::compare::builds_table;
use super::experiment::{Clusters, Experiment, Given, Stage, Step};
use super::journal::Journal;
use super::machine::{Load, cores, utc};
use super::progress::Progress;
use super::result::{AGAINST, Outcome, Readings, Sample, Samples, Spread, THIS};
use crate::load::Target;
use crate::tools::{cpu, sql};

/// Seconds that a cluster takes to come up and go, and each of its datanodes beside that.
const START_SECONDS: f64 = 4.0;
const START_SECONDS_A_DATANODE: f64 = 1.5;
/// A share of the cores that other programs may have before the report warns.
const OTHERS_SHARE_MAX: f64 = 0.1;
const VERSION: &str = "server_version";
const CHECK: &str = "check";
const START: &str = "cluster_start_s";

/// What came of it: an outcome in any case, with what was measured until then, and why it ended if it did too early.
pub struct Run {
    /// All that was measured.
    pub outcome: Outcome,
    /// An error of a server or of a check, or SQLSTATE 57014 after Ctrl-C.
    pub ended: Result<()>,
}

/// Takes all steps of an experiment that the journal does not know yet.
///
/// # Errors
/// Only if the machine's load cannot be read; all other errors are in [`Run::ended`].
pub async fn drive<E: Experiment>(
    experiment: &E,
    command: &str,
    clusters: &impl Clusters,
    builds: &[&str],
    journal: &mut Journal,
) -> Result<Run> {
    let (began, begun, load_before) = (Instant::now(), utc(SystemTime::now()), Load::look().await?);
    let stages = experiment.stages();
    let steps = stages.iter().map(|stage| stage.steps.len()).sum::<usize>() * builds.len();
    let mut samples = journal.of(experiment.name());
    if !experiment.is_resumable() && samples.len() < steps {
        journal.forget(experiment.name())?;
        samples.clear();
    }
    let driver = Driver { experiment, clusters, builds };
    let left: Vec<Stage> = stages.iter().filter_map(|stage| driver.left(stage, &samples)).collect();
    let taken = samples.iter().filter(|sample| sample.point != CHECK).count();
    if taken > 0 {
        eprintln!("{}: {taken} of {steps} measurements are there already", experiment.name());
    }
    let expected = left.iter().map(|stage| driver.expected(stage)).sum();
    let mut taking = Taking {
        progress: Progress::new(experiment.name(), steps, taken, expected),
        signals: Signals::catch()?,
        journal,
        samples,
    };
    let mut ended = Ok(());
    for stage in &left {
        ended = driver.stage(stage, &mut taking).await;
        if ended.is_err() {
            break;
        }
    }
    let samples = std::mem::take(&mut taking.samples);
    drop(taking);
    let mut outcome = Outcome {
        name: experiment.name().to_owned(),
        title: experiment.title(),
        about: experiment.about(),
        command: command.to_owned(),
        settings: experiment.settings(),
        server_version: String::new(),
        begun,
        seconds: began.elapsed().as_secs_f64(),
        complete: ended.is_ok(),
        load_before,
        load_after: Load::look().await?,
        others_cores: Spread::of(&samples.iter().map(|sample| sample.others_cores).collect::<Vec<_>>()),
        findings: Vec::new(),
        figures: experiment.figures(),
        tables: Vec::new(),
        charts: Vec::new(),
        samples,
    };
    describe(experiment, &mut outcome);
    Ok(Run { outcome, ended })
}

/// All samples of an experiment on a cluster that runs.
///
/// # Errors
/// That of the first step that fails, or SQLSTATE 57014 after Ctrl-C.
pub async fn measure_once<E: Experiment>(experiment: &E, target: Target) -> Result<Samples> {
    let run = drive(experiment, "", &Given(target), &[THIS], &mut Journal::none()).await?;
    run.ended.map(|()| Samples::of(&run.outcome.samples, THIS))
}

/// What follows from the samples.
fn describe<E: Experiment>(experiment: &E, outcome: &mut Outcome) {
    let of_this = Samples::of(&outcome.samples, THIS);
    let sheet = experiment.sheet(&of_this);
    (outcome.findings, outcome.tables, outcome.charts) = (sheet.findings, sheet.tables, sheet.charts);
    outcome.server_version =
        outcome.samples.iter().find_map(|s| s.readings.words.get(VERSION)).cloned().unwrap_or_default();
    outcome.findings.extend(of_this.at(CHECK).filter_map(|sample| sample.readings.words.get(CHECK)).cloned());
    if outcome.samples.iter().any(|sample| sample.build == AGAINST) {
        let table = builds_table(&outcome.figures, &outcome.samples);
        outcome.tables.insert(0, table);
    }
    let Spread { median, max, .. } = outcome.others_cores;
    if median > OTHERS_SHARE_MAX * cores() as f64 {
        outcome.findings.push(format!(
            "Other programs had {median:.1} of {} cores during a step (median; at most {max:.1}): times and rates are worse than \
             on a quiet machine, ratios less so.",
            cores()
        ));
    }
    if !outcome.complete {
        outcome.findings.push("This run did not come to its end: what was measured until then is here.".to_owned());
    }
}

struct Driver<'a, E, C> {
    experiment: &'a E,
    clusters: &'a C,
    builds: &'a [&'a str],
}

/// What a run changes as it goes on.
struct Taking<'a> {
    progress: Progress,
    signals: Signals,
    journal: &'a mut Journal,
    samples: Vec<Sample>,
}

impl Taking<'_> {
    fn keep(&mut self, experiment: &str, sample: Sample) -> Result<()> {
        self.samples.push(sample.clone());
        self.journal.add(experiment, sample)
    }
}

impl<E: Experiment, C: Clusters> Driver<'_, E, C> {
    /// The steps of a stage that some build has not taken; `None` if there are none.
    fn left(&self, stage: &Stage, samples: &[Sample]) -> Option<Stage> {
        let is_left = |step: &&Step| self.builds.iter().any(|build| !knows(samples, step, build));
        let steps: Vec<Step> = stage.steps.iter().filter(is_left).cloned().collect();
        (!steps.is_empty()).then(|| Stage { steps, ..stage.clone() })
    }

    fn start_seconds(&self, stage: &Stage) -> f64 {
        (START_SECONDS + START_SECONDS_A_DATANODE * f64::from(stage.datanodes)) * self.builds.len() as f64
    }

    fn expected(&self, stage: &Stage) -> f64 {
        self.start_seconds(stage) + stage.steps.iter().map(|step| step.seconds).sum::<f64>() * self.builds.len() as f64
    }

    /// Whatever happens, the clusters are stopped.
    async fn stage(&self, stage: &Stage, taking: &mut Taking<'_>) -> Result<()> {
        let measured = self.on_clusters(stage, taking).await;
        let mut stopped = Ok(());
        for build in self.builds.iter().copied() {
            taking.progress.doing("stopping the cluster");
            stopped = stopped.and(self.clusters.stop(build).await);
        }
        measured.and(stopped)
    }

    async fn on_clusters(&self, stage: &Stage, taking: &mut Taking<'_>) -> Result<()> {
        let mut sides = Vec::new();
        for build in self.builds.iter().copied() {
            taking.progress.doing(&format!("starting {}", stage.name));
            let starting = Instant::now();
            // It notices Ctrl-C itself, and takes back what it has started.
            let target = self.clusters.start(stage, build).await?;
            let start_seconds = Some(starting.elapsed().as_secs_f64());
            taking.progress.doing(&format!("preparing {}", stage.name));
            let bench = taking.signals.or(self.experiment.prepare(stage, &target)).await?;
            let datanode = sql::connect(&target.datanodes[0]).await?;
            let version = sql::scalar(&datanode, "SHOW server_version").await?;
            sides.push(Side { bench, build, target, version, start_seconds });
        }
        let mut start_seconds = self.start_seconds(stage);
        for step in &stage.steps {
            for side in &mut sides {
                if !knows(&taking.samples, step, side.build) {
                    self.take(step, side, taking, step.seconds + std::mem::take(&mut start_seconds)).await?;
                }
            }
        }
        for side in sides {
            taking.progress.doing("checking what was stored");
            if let Some(text) = taking.signals.or(self.experiment.finish(side.bench)).await? {
                let words = BTreeMap::from([(CHECK.to_owned(), text), (VERSION.to_owned(), side.version)]);
                let readings = Readings { words, ..Readings::default() };
                let (point, build) = (CHECK.to_owned(), side.build.to_owned());
                let sample = Sample { point, build, round: 1, seconds: 0.0, others_cores: 0.0, readings };
                taking.keep(self.experiment.name(), sample)?;
            }
        }
        Ok(())
    }

    async fn take(
        &self,
        step: &Step,
        side: &mut Side<'_, E::Bench>,
        taking: &mut Taking<'_>,
        expected: f64,
    ) -> Result<()> {
        let of_build = if self.builds.len() > 1 { format!(" ({} build)", side.build) } else { String::new() };
        let what = format!("{}, round {}{of_build}", step.point, step.round);
        taking.progress.doing(&what);
        let (before, began) = (busy(&side.target)?, Instant::now());
        let readings = taking.signals.or(self.experiment.step(&mut side.bench, step)).await?;
        let (after, seconds) = (busy(&side.target)?, began.elapsed().as_secs_f64());
        let mut sample = Sample {
            point: step.point.clone(),
            build: side.build.to_owned(),
            round: step.round,
            seconds,
            others_cores: ((after - before) / seconds.max(0.01)).max(0.0),
            readings,
        };
        taking.progress.done(&what, &in_short(&self.experiment.figures(), &sample), expected);
        if let Some(seconds) = side.start_seconds.take() {
            sample.readings.figures.insert(START.to_owned(), seconds);
        }
        sample.readings.words.insert(VERSION.to_owned(), side.version.clone());
        taking.keep(self.experiment.name(), sample)
    }
}

/// A cluster with what measures it. Field order is drop order.
struct Side<'a, B> {
    bench: B,
    build: &'a str,
    target: Target,
    version: String,
    /// Of the cluster; the first sample has it.
    start_seconds: Option<f64>,
}

fn knows(samples: &[Sample], step: &Step, build: &str) -> bool {
    let is_it = |sample: &Sample| (&*sample.point, sample.round, &*sample.build) == (&*step.point, step.round, build);
    samples.iter().any(is_it)
}

/// Processor seconds until now of everything on this machine but us and our servers.
fn busy(target: &Target) -> Result<f64> {
    let mut ours = cpu::find(&target.dir, &["coordinator", "gtm", "-D"])?;
    ours.push(std::process::id());
    Ok(cpu::machine_seconds()? - cpu::tree_seconds(&ours)?)
}

/// The first figure that says how good it is.
fn in_short(figures: &[super::result::Figure], sample: &Sample) -> String {
    let of = |figure: &super::result::Figure| {
        let value = sample.readings.figures.get(&figure.name)?;
        let decimals = if value.abs() < 100.0 { 2 } else { 0 };
        Some(format!("{} {}", super::result::Cell::number(*value, decimals).shown(), figure.unit))
    };
    figures.iter().find_map(of).unwrap_or_else(|| "done".to_owned())
}

/// Ctrl-C or SIGTERM since the run began.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn catch() -> Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Does the work, or gives it up. A program that the same Ctrl-C has ended is no error of its own.
    async fn or<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let interrupted = || PgError::new(SqlState::QUERY_CANCELED, "the benchmark was interrupted");
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => Err(interrupted()),
            _ = self.terminate.recv() => Err(interrupted()),
            result = work => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_one_build_is_not_that_of_the_other() {
        let step = Step { point: "p".to_owned(), round: 2, seconds: 1.0 };
        let readings = Readings::default();
        let (point, build) = ("p".to_owned(), THIS.to_owned());
        let samples = [Sample { point, build, round: 2, seconds: 0.0, others_cores: 0.0, readings }];
        assert!(knows(&samples, &step, THIS));
        assert!(!knows(&samples, &step, AGAINST));
        assert!(!knows(&samples, &Step { round: 1, ..step }, THIS));
    }
}
