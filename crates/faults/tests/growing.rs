//! A cluster that grows and shrinks while it serves, its processes die, and so do the commands that have it grow and shrink.
//!
//! `LOXO_FAULTS_ROUNDS` is how often it does (1 by default, for `make suites`; `make faults` takes 30). `LOXO_FAULTS_SEED` repeats the
//! random numbers of a run, though not its timing.

use std::fs;
use std::time::{Duration, Instant};

use faults::moves::killed::{self, Still, Wish};
use faults::{aftermath, bank};
use testkit::{Cluster, Rng, number, seed};

/// As everywhere; and whoever waits for a lock of somebody who died must give up first.
const RESOLVED_MAX: Duration = Duration::from_secs(30);
const FAULTS: std::ops::RangeInclusive<usize> = 1..=3;

#[test]
fn datanodes_come_and_go_whoever_dies() {
    let cluster = Cluster::start_with(3, 2, &["--gtm-standby"]).expect("a cluster");
    let still = Still::create(&cluster).expect("tables");
    let (mut rng, mut killed) = (Rng::new(seed("LOXO_FAULTS_SEED")), 0);
    for round in 0..number("LOXO_FAULTS_ROUNDS").unwrap_or(1) {
        let begin = Instant::now();
        for wish in [Wish::Add("dn4"), Wish::Remove("dn4")] {
            killed += fulfil(&cluster, &still, wish, &mut rng);
        }
        // Whoever has removed a datanode may remove what it was.
        for entry in fs::read_dir(cluster.dir()).expect("a directory").flatten() {
            if entry.file_name().to_string_lossy().contains(".removed") {
                fs::remove_dir_all(entry.path()).expect("it goes");
            }
        }
        eprintln!("round {round} took {:?}", begin.elapsed());
    }
    // A command may have ended before the moment came.
    assert!(killed > 0, "nobody was killed");
}

fn fulfil(cluster: &Cluster, still: &Still, wish: Wish, rng: &mut Rng) -> usize {
    let mut options = bank::Options::new(Duration::ZERO, rng.next_u64());
    options.writers = 8;
    bank::create(cluster, &options).expect("tables");
    let faults = FAULTS.start() + rng.below(FAULTS.count());
    let (report, done) = bank::run(cluster, &options, |_| killed::fulfil(cluster, wish, faults, rng));
    let done = done.unwrap_or_else(|error| panic!("{wish:?}: {error}\n{report}"));
    aftermath::until_quiet(cluster, RESOLVED_MAX).expect("nothing is in doubt");
    still.check(cluster).expect("rows are the same wherever they lie");
    bank::audit(cluster, &options, &report).expect("what was acknowledged is there");
    report.check().expect("all sums are right");
    eprintln!("{wish:?}: {done}\n{report}");
    done.faults.values().sum()
}
