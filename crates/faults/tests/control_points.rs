//! Kills at every control point.
//!
//! `LOXO_FAULTS_ROUNDS` is the number of rounds at each point (1 by default, for `make suites`; `make faults` takes 20).
//! `LOXO_FAULTS_POINTS` names points, with commas, if not all shall be tried. Most of a round is waiting, so two clusters share
//! the work (`LOXO_FAULTS_CLUSTERS`). `LOXO_FAULTS_SEED` repeats the random numbers of a run.

use std::collections::VecDeque;
use std::sync::Mutex;

use faults::points::{self, Fault, Point, Round, Runner};
use testkit::{Cluster, number, seed};

#[test]
fn a_kill_at_any_control_point_leaves_all_or_nothing() {
    points::check_binary().expect("a binary with control points");
    let mut all = points::from_source().expect("the source can be read");
    assert!(all.iter().any(|point| point.name == "decided"), "the source names {all:?}");
    if let Ok(chosen) = std::env::var("LOXO_FAULTS_POINTS") {
        all.retain(|point| chosen.split(',').any(|chosen| chosen == point.name));
    }
    // Rounds, and points of a round, take turns in what happens.
    let fault = |turn: usize| [Fault::Victim, Fault::Datanode, Fault::Freeze][turn % 3];
    let rounds = number("LOXO_FAULTS_ROUNDS").unwrap_or(1) as usize;
    let jobs = (0..rounds).flat_map(|round| all.iter().enumerate().map(move |(i, point)| (point, fault(round + i))));
    let (jobs, wrong) = (Mutex::new(jobs.collect::<VecDeque<_>>()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let first = seed("LOXO_FAULTS_SEED");
        for number in 0..number("LOXO_FAULTS_CLUSTERS").unwrap_or(2) {
            let (jobs, wrong) = (&jobs, &wrong);
            scope.spawn(move || work(first + number, jobs, wrong));
        }
    });
    let wrong = wrong.into_inner().expect("nobody panicked");
    assert!(wrong.is_empty(), "{} things are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn work(seed: u64, jobs: &Mutex<VecDeque<(&Point, Fault)>>, wrong: &Mutex<Vec<String>>) {
    let cluster = Cluster::start_with(2, 2, &["--gtm-standby"]).expect("a cluster");
    let mut runner = Runner::new(&cluster, seed).expect("a table");
    loop {
        let Some((point, fault)) = jobs.lock().expect("nobody panicked").pop_front() else { break };
        let found = match runner.round(point, fault) {
            Ok(round) => {
                eprintln!("{round}");
                judge(&round)
            }
            Err(error) => vec![format!("{} ({fault:?}): {error}", point.name)],
        };
        wrong.lock().expect("nobody panicked").extend(found);
    }
}

fn judge(round: &Round) -> Vec<String> {
    let Round { point, fault, halves, .. } = round;
    let mut wrong = Vec::new();
    if round.victim.is_none() {
        wrong.push(format!("nobody came to {point}"));
    }
    if let Some(half) = halves.first() {
        wrong.push(format!("{point}, {fault:?}: {} halves: {half}", halves.len()));
    }
    wrong
}
