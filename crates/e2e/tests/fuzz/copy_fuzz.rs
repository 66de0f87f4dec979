//! Random COPY input gives on a cluster what it gives on one PostgreSQL: rows, errors, CONTEXT lines.
//!
//! `LOXO_FUZZ_SEED` is the first case's seed (1 by default, fresh ones by `make fuzz`), each next case has the next number; `LOXO_FUZZ_CASES` says
//! how many (default 130); `LOXO_FUZZ_SECONDS` runs for that long instead. A failure prints the seed that runs it again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use e2e::differential::Pair;
use e2e::fuzz::{self, Case, Tally};
use testkit::{Cluster, Server, ServerOptions, TempDir, number};

/// The rows are looked at after so many cases.
const AUDITED_CASES: u64 = 5;
/// Cases of a run that does not say how many.
const CASES: u64 = 130;
/// More failures than this add nothing.
const FAILURES_MAX: usize = 10;

#[test]
fn copy_behaves_like_one_postgresql() {
    let cluster = Arc::new(Cluster::start(3, 2).expect("a cluster"));
    let options = ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("its locale");
    let reference = Server::start(&options).expect("a stock server");
    let dir = TempDir::new("fuzz").expect("a directory");
    let started = Instant::now();
    let limit = number("LOXO_FUZZ_SECONDS").map(Duration::from_secs);
    let cases = number("LOXO_FUZZ_CASES").unwrap_or(CASES);
    let first = number("LOXO_FUZZ_SEED").unwrap_or(1);
    let (mut done, mut failures, mut tally) = (0, Vec::new(), Tally::default());
    while limit.map_or(done < cases, |limit| started.elapsed() < limit) && failures.len() < FAILURES_MAX {
        let seed = first + done;
        // New sessions for every case: one that broke must not spoil the next.
        let mut pair = Pair {
            reference: reference.connect().expect("a session"),
            cluster: cluster.connect(done as usize % 2).expect("a session"),
            distributed: cluster.is_distributed(),
            audited: Some(cluster.clone()),
        };
        if done == 0 {
            fuzz::set_up(&mut pair).expect("the types of the cases");
        }
        match Case::new(seed).run(&mut pair, &dir, &mut tally) {
            Ok(None) => {}
            Ok(Some(difference)) => failures.push(difference),
            Err(error) => failures.push(format!("seed {seed}: the connection broke: {error:?}")),
        }
        if done.is_multiple_of(AUDITED_CASES) {
            failures.extend(pair.wrong_rows().map(|text| format!("seed {seed} or one before: {text}")));
        }
        done += 1;
    }
    for failure in &failures {
        eprintln!("{failure}\n  again with LOXO_FUZZ_CASES=1 LOXO_FUZZ_SEED=<seed>\n");
    }
    let seconds = started.elapsed().as_secs_f64();
    eprintln!("{done} cases from seed {first} in {seconds:.0} s: {tally:?}, {} differ", failures.len());
    assert!(done > 0 && failures.is_empty());
}
