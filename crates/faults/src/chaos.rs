//! Random processes die by SIGKILL and are started again, for as long as a workload runs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use pgerror::Result;
use testkit::{Cluster, Rng};

use crate::processes::{self, Kind, Process};

/// Between a restart and the next kill.
const CALM_MS: std::ops::Range<usize> = 1000..3500;
/// Between a kill and the restart: from "at once" to longer than any lease.
const DEAD_MS: std::ops::Range<usize> = 0..2500;
/// Once in so many times two die together.
const DOUBLE_ONE_IN: usize = 5;

/// What was done to the cluster.
#[derive(Debug, Default)]
pub struct Report {
    /// Kills by the process's name.
    pub kills: BTreeMap<String, usize>,
    /// Restarts that failed and were tried again: what `loxo up` said.
    pub failed_restarts: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kills: Vec<String> = self.kills.iter().map(|(name, count)| format!("{name} {count}")).collect();
        write!(f, "killed: {}; failed restarts: {}", kills.join(", "), self.failed_restarts.len())
    }
}

/// Kills and restarts until `end`; everything runs again when it returns. `kinds` says who may die.
///
/// # Errors
/// When the cluster does not come back.
pub fn run(cluster: &Cluster, seed: u64, end: Instant, kinds: &[Kind]) -> Result<Report> {
    let (mut rng, mut report) = (Rng::new(seed), Report::default());
    loop {
        let calm = between(&mut rng, CALM_MS);
        if Instant::now() + calm >= end {
            break;
        }
        std::thread::sleep(calm);
        let mut alive = processes::running(cluster)?;
        alive.retain(|process| kinds.contains(&process.kind));
        for _ in 0..if rng.one_in(DOUBLE_ONE_IN) { 2 } else { 1 } {
            if !alive.is_empty() {
                let Process { name, .. } = kill_one(cluster, &mut rng, &mut alive)?;
                *report.kills.entry(name).or_default() += 1;
            }
        }
        std::thread::sleep(between(&mut rng, DEAD_MS));
        // The next round, or the end, tries again.
        if let Err(error) = cluster.up() {
            report.failed_restarts.push(error.to_string());
        }
    }
    cluster.up()?;
    Ok(report)
}

fn kill_one(cluster: &Cluster, rng: &mut Rng, alive: &mut Vec<Process>) -> Result<Process> {
    let victim = alive.swap_remove(rng.below(alive.len()));
    processes::kill(cluster, &victim)?;
    Ok(victim)
}

fn between(rng: &mut Rng, range: std::ops::Range<usize>) -> Duration {
    Duration::from_millis((range.start + rng.below(range.len())) as u64)
}
