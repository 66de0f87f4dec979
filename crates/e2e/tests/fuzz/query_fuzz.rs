//! Random statements over random tables give on a cluster what they give on one PostgreSQL.
//!
//! `LOXO_FUZZ_SEED` is the first world's seed (1 by default, a fresh one by `make fuzz`), each next world has the next number; `LOXO_FUZZ_WORLDS`
//! says how many (default 1); `LOXO_FUZZ_SECONDS` runs for that long instead. A failure is printed
//! as a case for `cases/query/fuzz_finds.sql`, made as small as is simple, and with the seed that runs it again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use e2e::differential::Pair;
use e2e::generator::run::{Tally, run};
use testkit::{Cluster, Server, ServerOptions, number};

/// Worlds of a run that does not say how many.
const WORLDS: u64 = 1;
/// More failures than this add nothing.
const FAILURES_MAX: usize = 10;

#[test]
fn statements_answer_like_one_postgresql() {
    let cluster = Arc::new(Cluster::start(3, 2).expect("a cluster"));
    let options = ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("its locale");
    let reference = Server::start(&options).expect("a stock server");
    let started = Instant::now();
    let limit = number("LOXO_FUZZ_SECONDS").map(Duration::from_secs);
    let worlds = number("LOXO_FUZZ_WORLDS").unwrap_or(WORLDS);
    let failures_max = number("LOXO_FUZZ_FAILURES").map_or(FAILURES_MAX, |most| most as usize);
    let first = number("LOXO_FUZZ_SEED").unwrap_or(1);
    let (mut done, mut failures, mut tally) = (0, 0, Tally::default());
    while limit.map_or(done < worlds, |limit| started.elapsed() < limit) && failures < failures_max {
        let seed = first + done;
        // New sessions for every world: one that broke must not spoil the next.
        let mut pair = Pair {
            reference: reference.connect().expect("a session"),
            cluster: cluster.connect(done as usize % 2).expect("a session"),
            distributed: cluster.is_distributed(),
            audited: Some(cluster.clone()),
        };
        let found = run(&mut pair, seed, &mut tally)
            .unwrap_or_else(|error| vec![format!("seed {seed}: the connection broke: {error:?}")]);
        let found: Vec<String> =
            found.into_iter().chain(pair.wrong_rows().map(|text| format!("seed {seed}: {text}"))).collect();
        for failure in &found {
            eprintln!("{failure}\n  again with LOXO_FUZZ_WORLDS=1 LOXO_FUZZ_SEED={seed}\n");
        }
        failures += found.len();
        done += 1;
    }
    let seconds = started.elapsed().as_secs_f64();
    eprintln!(
        "{} statements in {done} worlds from seed {first} in {seconds:.0} s, {failures} wrong: {}",
        tally.statements(),
        tally.table()
    );
    assert!(tally.same > 0 && failures == 0);
}
