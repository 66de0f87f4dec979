//! Kills at every control point.
//!
//! `LOXO_FAULTS_ROUNDS` is the number of rounds at each point (1 by default, for `make test`; `make faults` takes
//! 20). `LOXO_FAULTS_POINTS` names points, with commas, if not all shall be tried.

use faults::points::{self, Fault, Runner};
use testkit::Cluster;

#[test]
fn a_kill_at_any_control_point_leaves_all_or_nothing() {
    points::check_binary().expect("a binary with control points");
    let rounds: usize = std::env::var("LOXO_FAULTS_ROUNDS").map_or(1, |text| text.parse().expect("a number"));
    let mut names = points::from_source().expect("the source can be read");
    assert!(names.iter().any(|name| name == "decided"), "the source names {names:?}");
    if let Ok(chosen) = std::env::var("LOXO_FAULTS_POINTS") {
        names.retain(|name| chosen.split(',').any(|chosen| chosen == name));
    }
    let cluster = Cluster::start(2, 2).expect("a cluster");
    let mut runner = Runner::new(&cluster, 1).expect("a table");
    let mut wrong = Vec::new();
    for number in 0..rounds {
        for (position, name) in names.iter().enumerate() {
            // Rounds, and points of a round, take turns in what dies.
            let fault = if (number + position) % 2 == 0 { Fault::Victim } else { Fault::Datanode };
            match runner.round(name, fault) {
                Ok(round) => {
                    eprintln!("{number}: {round}");
                    wrong.extend(round.victim.is_none().then(|| format!("nobody came to {name}")));
                    wrong.extend(
                        round
                            .halves
                            .first()
                            .map(|half| format!("{name}, {fault:?}: {} halves: {half}", round.halves.len())),
                    );
                    wrong.extend((round.looks == 0).then(|| format!("{name}, {fault:?}: readers saw nothing")));
                }
                Err(error) => wrong.push(error.to_string()),
            }
        }
    }
    assert!(wrong.is_empty(), "{} things are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
