//! Runs an experiment: starts its clusters, takes every step on every build by turns, and leaves nothing running.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

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
/// A Ctrl-C that ends a program of ours is told to us so much later at most.
const SIGNAL_LATER_MAX: Duration = Duration::from_millis(50);
/// Word of a sample whose answer is wrong, and how: the run goes on, and ends with an error.
pub const WRONG: &str = "wrong";

/// What came of it: an outcome in any case, with what was measured until then, and why it ended if it did too early.
pub struct Run {
    /// All that was measured.
    pub outcome: Outcome,
    /// An error of a server or of a check, or SQLSTATE 57014 after Ctrl-C.
    pub ended: Result<()>,
    /// By Ctrl-C or SIGTERM: a server gives statements up with the same SQLSTATE.
    pub is_interrupted: bool,
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
    let mut signals = Signals::catch()?;
    let (began, begun, load_before) = (Instant::now(), utc(SystemTime::now()), Load::look().await?);
    let stages = experiment.stages();
    let steps = stages.iter().map(|stage| stage.steps.len()).sum::<usize>() * builds.len();
    let mut samples = journal.of(experiment.name());
    let count_taken = |samples: &[Sample]| samples.iter().filter(|sample| sample.point != CHECK).count();
    if !experiment.is_resumable() && count_taken(&samples) < steps {
        journal.forget(experiment.name(), |_| true)?;
        samples.clear();
    }
    let driver = Driver { experiment, clusters, builds };
    let left: Vec<Stage> = stages.iter().filter_map(|stage| driver.left(stage, &samples)).collect();
    let taken = count_taken(&samples);
    if taken > 0 {
        eprintln!("{}: {taken} of {steps} measurements are there already", experiment.name());
    }
    let expected = left.iter().map(|stage| driver.expected(stage)).sum();
    let mut taking = Taking {
        progress: Progress::new(experiment.name(), steps, taken, expected),
        signals: &mut signals,
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
    if let (Ok(()), Some(error)) = (&ended, wrong_answers(&samples)) {
        journal.forget(experiment.name(), |_| true)?;
        ended = Err(error);
    }
    let load_after = Load::look().await?;
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
        load_after,
        others_cores: others_cores(&samples),
        findings: Vec::new(),
        figures: experiment.figures(),
        tables: Vec::new(),
        charts: Vec::new(),
        samples,
    };
    describe(experiment, &mut outcome, ended.as_ref().err());
    // One that has come when all was measured ends what the caller has still to do.
    let ended = ended.and(signals.or(async { Ok(()) }).await);
    Ok(Run { outcome, ended, is_interrupted: signals.have_come })
}

/// All samples of an experiment on a cluster that runs.
///
/// # Errors
/// That of the first step that fails, or SQLSTATE 57014 after Ctrl-C.
pub async fn measure_once<E: Experiment>(experiment: &E, target: Target) -> Result<Samples> {
    let run = drive(experiment, "", &Given(target), &[THIS], &mut Journal::none()).await?;
    run.ended.map(|()| Samples::of(&run.outcome.samples, THIS))
}

/// An error that names every wrong answer.
fn wrong_answers(samples: &[Sample]) -> Option<PgError> {
    let wrong = |sample: &Sample| Some(format!("{}: {}", sample.point, sample.readings.words.get(WRONG)?));
    let all: BTreeSet<String> = samples.iter().filter_map(wrong).collect();
    let all: Vec<String> = all.into_iter().collect();
    (!all.is_empty()).then(|| PgError::internal(format!("wrong answers: {}", all.join("; "))))
}

/// Cores that other programs had in all steps; a check is none.
fn others_cores(samples: &[Sample]) -> Spread {
    let steps = samples.iter().filter(|sample| sample.point != CHECK);
    Spread::of(&steps.map(|sample| sample.others_cores).collect::<Vec<_>>())
}

/// What follows from the samples.
fn describe<E: Experiment>(experiment: &E, outcome: &mut Outcome, error: Option<&PgError>) {
    let of_this = Samples::of(&outcome.samples, THIS);
    let sheet = experiment.sheet(&of_this);
    (outcome.findings, outcome.tables, outcome.charts) = (sheet.findings, sheet.tables, sheet.charts);
    outcome.server_version =
        outcome.samples.iter().find_map(|s| s.readings.words.get(VERSION)).cloned().unwrap_or_default();
    for sample in of_this.at(CHECK) {
        let checked = sample.readings.words.get(CHECK).filter(|text| !outcome.findings.contains(text));
        outcome.findings.extend(checked.cloned());
    }
    if outcome.samples.iter().any(|sample| sample.build == AGAINST) {
        let table = builds_table(&outcome.figures, &outcome.samples);
        outcome.tables.insert(0, table);
    }
    if let Some(error) = error {
        outcome.findings.push("This run did not come to its end: what was measured until then is here.".to_owned());
        outcome.findings.push(format!("It ended with: {error}"));
    }
    let Spread { median, max, .. } = outcome.others_cores;
    if median > OTHERS_SHARE_MAX * cores() as f64 {
        let text = format!(
            "Other programs had {median:.1} of {} cores during a step (median; at most {max:.1}): times and rates are worse than \
             on a quiet machine, ratios less so.",
            cores()
        );
        outcome.findings.insert(0, text);
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
    signals: &'a mut Signals,
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

    /// Whatever happens, the clusters are stopped. A build that has taken all steps needs none.
    async fn stage(&self, stage: &Stage, taking: &mut Taking<'_>) -> Result<()> {
        let is_left = |build: &&str| stage.steps.iter().any(|step| !knows(&taking.samples, step, build));
        let builds: Vec<&str> = self.builds.iter().copied().filter(is_left).collect();
        let measured = self.on_clusters(stage, &builds, taking).await;
        let mut stopped = Ok(());
        for build in builds {
            taking.progress.doing("stopping the cluster");
            stopped = stopped.and(self.clusters.stop(build).await);
        }
        measured.and(stopped)
    }

    async fn on_clusters(&self, stage: &Stage, builds: &[&str], taking: &mut Taking<'_>) -> Result<()> {
        let mut sides = Vec::new();
        for build in builds.iter().copied() {
            taking.progress.doing(&format!("starting {}", stage.name));
            let starting = Instant::now();
            // It notices Ctrl-C itself, and takes back what it has started.
            let started = self.clusters.start(stage, build).await;
            let target = taking.signals.or(async { started }).await?;
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
            let checked = taking.signals.or(self.experiment.finish(side.bench)).await;
            if checked.is_err() {
                self.must_be_checked(stage, taking)?;
            }
            if let Some(text) = checked? {
                let words = BTreeMap::from([(CHECK.to_owned(), text), (VERSION.to_owned(), side.version)]);
                let readings = Readings { words, ..Readings::default() };
                let (point, build) = (CHECK.to_owned(), side.build.to_owned());
                let sample = Sample { point, build, round: 1, seconds: 0.0, others_cores: 0.0, readings };
                taking.keep(self.experiment.name(), sample)?;
            }
        }
        Ok(())
    }

    /// A repeated command must come to the check again: after an interruption with the last step, else with all of them.
    fn must_be_checked(&self, stage: &Stage, taking: &mut Taking<'_>) -> Result<()> {
        let is_last = |sample: &Sample| {
            stage.steps.last().is_some_and(|last| (&*sample.point, sample.round) == (&*last.point, last.round))
        };
        let is_interrupted = taking.signals.have_come;
        taking.journal.forget(self.experiment.name(), |sample| !is_interrupted || is_last(sample))
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
    /// Seconds until the cluster had started; the first sample has them.
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
    have_come: bool,
}

impl Signals {
    fn catch() -> Result<Self> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, have_come: false })
    }

    async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        self.have_come = true;
    }

    /// Does the work, or gives it up. A program that the same Ctrl-C has ended is no error of its own.
    async fn or<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let done = tokio::select! {
            biased;
            () = self.come() => None,
            result = work => Some(result),
        };
        match done {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) if tokio::time::timeout(SIGNAL_LATER_MAX, self.come()).await.is_err() => Err(error),
            _ => Err(PgError::new(SqlState::QUERY_CANCELED, "the benchmark was interrupted")),
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

    fn sample(point: &str, others_cores: f64, word: Option<&str>) -> Sample {
        let readings = word.into_iter().fold(Readings::default(), |readings, word| readings.word(WRONG, word));
        let (point, build) = (point.to_owned(), THIS.to_owned());
        Sample { point, build, round: 1, seconds: 1.0, others_cores, readings }
    }

    #[test]
    fn a_check_does_not_say_how_busy_the_machine_is() {
        let samples = [sample("p", 1.0, None), sample(CHECK, 0.0, None), sample(CHECK, 0.0, None)];
        assert_eq!(others_cores(&samples), Spread { median: 1.0, min: 1.0, max: 1.0 });
    }

    #[test]
    fn a_run_with_a_wrong_answer_fails() {
        assert!(wrong_answers(&[sample("Q1", 0.0, None)]).is_none());
        let samples = [sample("Q1", 0.0, None), sample("Q2", 0.0, Some("2 rows")), sample("Q2", 0.0, Some("2 rows"))];
        assert_eq!(wrong_answers(&samples).unwrap().message(), "wrong answers: Q2: 2 rows");
    }
}
