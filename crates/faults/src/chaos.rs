//! Random processes die by SIGKILL and are started again, or stand still for a while, as long as a workload runs.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use pgerror::Result;
use testkit::{Cluster, Rng};

use crate::processes::{self, Kind, Process};

/// Between the end of a fault and the next one.
const CALM_MS: Range<usize> = 1000..3000;
/// Between a kill and the restart: from "at once" to longer than any lease.
const DEAD_MS: Range<usize> = 0..2500;
/// How long one stands still: shorter than what others wait for, and longer.
const FROZEN_MS: Range<usize> = 100..4000;
/// Once in so many times two die together.
const DOUBLE_ONE_IN: usize = 5;
/// Once in so many times one stands still instead.
const FREEZE_ONE_IN: usize = 3;

/// What was done to the cluster.
#[derive(Debug, Default)]
pub struct Report {
    /// Faults by what and whom: `kill dn1`.
    pub faults: BTreeMap<String, usize>,
    /// Restarts that failed and were tried again: what `loxo up` said.
    pub failed_restarts: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self.faults.iter().map(|(fault, count)| format!("{fault} {count}")).collect();
        write!(f, "faults: {}; failed restarts: {:?}", faults.join(", "), self.failed_restarts)
    }
}

/// Faults until `end`; everything runs again when it returns. `kinds` says whom they may meet.
///
/// # Errors
/// When the cluster does not come back.
pub fn run(cluster: &Cluster, seed: u64, end: Instant, kinds: &[Kind]) -> Result<Report> {
    let (mut rng, mut report) = (Rng::new(seed), Report::default());
    loop {
        let calm = between(&mut rng, CALM_MS);
        if Instant::now() + calm >= end && !report.faults.is_empty() {
            break;
        }
        std::thread::sleep(calm);
        let mut alive = processes::running(cluster)?;
        alive.retain(|process| kinds.contains(&process.kind));
        if rng.one_in(FREEZE_ONE_IN) {
            freeze(cluster, &mut rng, &mut alive, &mut report)?;
        } else {
            kill(cluster, &mut rng, &mut alive, &mut report)?;
        }
    }
    cluster.up()?;
    Ok(report)
}

fn freeze(cluster: &Cluster, rng: &mut Rng, alive: &mut Vec<Process>, report: &mut Report) -> Result<()> {
    let Some(victim) = draw(rng, alive) else { return Ok(()) };
    let frozen = processes::freeze(cluster, &victim)?;
    std::thread::sleep(between(rng, FROZEN_MS));
    processes::thaw(&frozen);
    *report.faults.entry(format!("freeze {}", victim.name)).or_default() += 1;
    Ok(())
}

fn kill(cluster: &Cluster, rng: &mut Rng, alive: &mut Vec<Process>, report: &mut Report) -> Result<()> {
    for _ in 0..if rng.one_in(DOUBLE_ONE_IN) { 2 } else { 1 } {
        let Some(victim) = draw(rng, alive) else { break };
        processes::kill(cluster, &victim)?;
        *report.faults.entry(format!("kill {}", victim.name)).or_default() += 1;
    }
    std::thread::sleep(between(rng, DEAD_MS));
    // The next round, or the end, tries again.
    if let Err(error) = cluster.up() {
        report.failed_restarts.push(error.to_string());
    }
    Ok(())
}

fn draw(rng: &mut Rng, alive: &mut Vec<Process>) -> Option<Process> {
    if alive.is_empty() { None } else { Some(alive.swap_remove(rng.below(alive.len()))) }
}

fn between(rng: &mut Rng, range: Range<usize>) -> Duration {
    Duration::from_millis((range.start + rng.below(range.len())) as u64)
}
