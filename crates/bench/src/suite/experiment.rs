//! What an experiment must say of itself, and where it gets its clusters from.

use std::future::Future;

use pgerror::Result;

use super::result::{Figure, Readings, Samples, Sheet};
use crate::load::Target;

/// Something that is measured.
pub trait Experiment {
    /// What the steps of a stage need: connections, servers, files. Dropping it stops and removes what it has started.
    type Bench;

    /// As the command line calls it.
    fn name(&self) -> &'static str;
    /// A heading.
    fn title(&self) -> String;
    /// What is done, and how to read it.
    fn about(&self) -> String;
    /// Name and value of everything that the figures depend on.
    fn settings(&self) -> Vec<(String, String)>;
    /// What the figures of the samples are.
    fn figures(&self) -> Vec<Figure>;
    /// Clusters, one after the other.
    fn stages(&self) -> Vec<Stage>;
    /// May the steps of a stage be measured on a cluster that has not seen the steps before?
    fn is_resumable(&self) -> bool {
        true
    }

    /// Makes ready what the steps of a stage need.
    fn prepare(&self, stage: &Stage, target: &Target) -> impl Future<Output = Result<Self::Bench>>;
    /// Measures once.
    fn step(&self, bench: &mut Self::Bench, step: &Step) -> impl Future<Output = Result<Readings>>;
    /// After all steps: are the rows right? Says how they were checked.
    fn finish(&self, bench: Self::Bench) -> impl Future<Output = Result<Option<String>>>;

    /// Tables, charts and words, of all samples or of those that were taken before an interruption.
    fn sheet(&self, samples: &Samples) -> Sheet;
}

/// A cluster and what is measured on it.
#[derive(Clone, Debug, Default)]
pub struct Stage {
    /// In progress messages.
    pub name: String,
    /// Datanodes of the cluster, if a new one is made.
    pub datanodes: u16,
    /// Coordinators of the cluster, if a new one is made.
    pub coordinators: u16,
    /// Settings of its datanodes beside those of its profile.
    pub set: Vec<(String, String)>,
    /// In the order in which they are measured.
    pub steps: Vec<Step>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is measured: the same name in every round.
    pub point: String,
    /// Beginning with 1.
    pub round: usize,
    /// About how long it takes.
    pub seconds: f64,
}

impl Step {
    /// All points in every round, by turns (A B A B …), so that a machine that grows slower is slower for all.
    pub fn by_turns(points: &[String], rounds: usize, seconds: f64) -> Vec<Self> {
        let round = |round| points.iter().map(move |point| Self { point: point.clone(), round, seconds });
        (1..=rounds).flat_map(round).collect()
    }
}

/// Where clusters come from.
pub trait Clusters {
    /// One that is as the stage wants it, with the program of that build.
    fn start(&self, stage: &Stage, build: &str) -> impl Future<Output = Result<Target>>;
    /// It is not needed any more. Called after every `start`, also after one that failed.
    fn stop(&self, build: &str) -> impl Future<Output = Result<()>>;
}

/// A cluster that runs already and goes on running.
pub struct Given(pub Target);

impl Clusters for Given {
    async fn start(&self, _: &Stage, _: &str) -> Result<Target> {
        Ok(self.0.clone())
    }

    async fn stop(&self, _: &str) -> Result<()> {
        Ok(())
    }
}

impl Stage {
    /// A cluster of so many datanodes and coordinators.
    pub fn of(datanodes: u16, coordinators: u16) -> Self {
        let name = format!("a cluster of {datanodes} datanodes and {coordinators} coordinators");
        Self { name, datanodes, coordinators, ..Self::default() }
    }
}

/// Settings as a report shows them.
pub fn settings(list: &[(&str, &dyn std::fmt::Display)]) -> Vec<(String, String)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect()
}
