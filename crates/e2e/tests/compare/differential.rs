//! Every file of `cases/` and its folders gives on a cluster what it gives on one PostgreSQL: rows, types, tags, notices, errors.
//!
//! A run takes every fourth layout of a file, one at least, and one of the two protocols for each: `LOXO_E2E_SEED`, which is
//! printed, says which; by default it is a fresh one. `LOXO_E2E_ALL=1` (`make cases`) takes every layout by both protocols.
//! `LOXO_E2E_EVERY=2` takes every second file only.
//!
//! `LOXO_E2E_CASES=join,types` runs only the files whose names contain one of the words, in every layout; `LOXO_E2E_VERBOSE=1`
//! prints a line a run and at the end the statements that took longest; `LOXO_E2E_BLESS=1` writes the `-- refused` lines of the
//! files anew (differences stay failures); `LOXO_E2E_DIR=/path` takes the files of another directory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use e2e::differential::{Pair, Protocol, Report, run};
use e2e::script::{self, Variant};
use testkit::{Cluster, Rng, Server, ServerOptions, seed};

/// Clusters at the same time: one session alone leaves half of two processors idle.
const CLUSTERS: usize = 2;
/// Every how many-th layout of a file is run each time.
const SHARE: usize = 4;
/// Statements listed at the end.
const SLOWEST: usize = 20;

/// A file, and how it is run this time.
struct Case {
    name: String,
    path: PathBuf,
    source: String,
    runs: Vec<(Variant, Protocol)>,
}

/// What came out of all runs.
#[derive(Default)]
struct Outcome {
    compared: usize,
    runs: usize,
    differ: Vec<String>,
    refused: Vec<String>,
    slowest: Vec<(Duration, String)>,
}

#[test]
fn every_case_answers_like_one_postgresql() {
    let cases = cases();
    assert!(!cases.is_empty(), "no case file matches LOXO_E2E_CASES");
    let (clusters, queue, outcome) = (CLUSTERS.min(cases.len()), Mutex::new(VecDeque::from(cases)), Mutex::default());
    std::thread::scope(|scope| {
        for _ in 0..clusters {
            scope.spawn(|| work(&queue, &outcome));
        }
    });
    let Outcome { compared, runs, differ, refused, mut slowest } =
        outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    for text in differ.iter().chain(&refused) {
        eprintln!("{text}");
    }
    if is_set("LOXO_E2E_VERBOSE") {
        slowest.sort_unstable_by_key(|(time, _)| std::cmp::Reverse(*time));
        slowest.iter().take(SLOWEST).for_each(|(time, text)| eprintln!("{:6} ms {text}", time.as_millis()));
    }
    assert!(compared > 0, "the case files hold no statements");
    let (differ, refused) = (differ.len(), refused.len());
    eprintln!("{compared} statements in {runs} runs compared, {differ} differ, {refused} refused without `-- refused`");
    assert!(differ == 0 && (is_set("LOXO_E2E_BLESS") || refused == 0));
}

/// Runs files on a cluster of its own until none is left.
fn work(queue: &Mutex<VecDeque<Case>>, outcome: &Mutex<Outcome>) {
    let cluster = Arc::new(Cluster::start(3, 2).expect("a cluster"));
    let options = ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("its locale");
    let reference = Server::start(&options).expect("a stock server");
    loop {
        let Some(case) = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else { return };
        let found = run_case(&case, &cluster, &reference);
        let mut all = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        all.compared += found.compared;
        all.runs += found.runs;
        all.differ.extend(found.differ);
        all.refused.extend(found.refused);
        all.slowest.extend(found.slowest);
    }
}

fn run_case(case: &Case, cluster: &Arc<Cluster>, reference: &Server) -> Outcome {
    let mut outcome = Outcome::default();
    let mut refusals: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for (variant, protocol) in &case.runs {
        // New sessions, on the coordinators in turn: what one of them changed the others must see.
        let mut pair = Pair {
            reference: reference.connect().expect("a session"),
            cluster: cluster.connect(outcome.runs % 2).expect("a session"),
            distributed: cluster.is_distributed(),
            audited: Some(cluster.clone()),
        };
        outcome.runs += 1;
        let file = &case.name;
        let label = format!("[{protocol:?}, {variant}]");
        let report = run(&mut pair, file, &case.source, variant, *protocol).unwrap_or_else(|error| Report {
            differences: vec![format!("{file}.sql: the run broke off: {error:?}")],
            ..Report::default()
        });
        if is_set("LOXO_E2E_VERBOSE") {
            let (differ, refused) = (report.differences.len(), report.refused.len());
            eprintln!("{file} {label}: {} compared, {differ} differ, {refused} refused", report.compared);
        }
        outcome.compared += report.compared;
        outcome.differ.extend(report.differences.into_iter().map(|text| format!("{label} {text}")));
        outcome.slowest.extend(report.times.into_iter().map(|(time, text)| (time, format!("{label} {text}"))));
        for refusal in report.refused {
            refusals.entry(refusal.line).or_default().insert(variant.tag());
            if !refusal.expected {
                outcome.refused.push(format!("{label} {}", refusal.text));
            }
        }
    }
    if is_set("LOXO_E2E_BLESS") && cluster.is_distributed() {
        let variants: Vec<Variant> = case.runs.iter().map(|(variant, _)| variant.clone()).collect();
        std::fs::write(&case.path, script::bless(&case.source, &variants, &refusals)).expect("a case file is written");
    }
    outcome
}

/// Layouts and protocols of a file in this run.
fn runs(source: &str, rng: &mut Rng) -> Vec<(Variant, Protocol)> {
    let variants = script::variants(&script::parse(source));
    let both = [Protocol::Simple, Protocol::Extended];
    if is_set("LOXO_E2E_ALL") || is_set("LOXO_E2E_BLESS") {
        return variants.into_iter().flat_map(|variant| both.map(|protocol| (variant.clone(), protocol))).collect();
    }
    let share = if is_set("LOXO_E2E_CASES") { 1 } else { SHARE.min(variants.len()) };
    let first = rng.below(share);
    variants.into_iter().skip(first).step_by(share).map(|variant| (variant, both[rng.below(2)])).collect()
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

fn cases() -> Vec<Case> {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut paths = script::files(&std::env::var_os("LOXO_E2E_DIR").map_or_else(own, PathBuf::from));
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    paths.sort_by_key(|path| name(path));
    let words = std::env::var("LOXO_E2E_CASES").unwrap_or_default();
    paths.retain(|path| words.is_empty() || words.split(',').any(|word| name(path).contains(word)));
    let mut rng = Rng::new(seed("LOXO_E2E_SEED"));
    if words.is_empty() {
        let every =
            std::env::var("LOXO_E2E_EVERY").map_or(1, |number| number.parse().expect("LOXO_E2E_EVERY is a number"));
        paths = paths.split_off(rng.below(every)).into_iter().step_by(every).collect();
    }
    let case = |path: PathBuf| {
        let source = std::fs::read_to_string(&path).expect("a readable case file");
        let runs = runs(&source, &mut rng);
        Case { name: name(&path), path, source, runs }
    };
    paths.into_iter().map(case).collect()
}
