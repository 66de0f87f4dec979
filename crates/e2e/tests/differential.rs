//! Every file of `cases/` gives on a cluster what it gives on one PostgreSQL: rows, types, tags, notices, errors.
//!
//! Each file runs in every layout, by one protocol or the other in turn; `LOXO_E2E_ALL=1` (`make cases`) takes both each time.
//!
//! `LOXO_E2E_CASES=join,types` runs only the files whose names contain one of the words; `LOXO_E2E_VERBOSE=1` prints a
//! line a run; `LOXO_E2E_BLESS=1` writes the `-- refused` lines of the files anew (differences stay failures);
//! `LOXO_E2E_DIR=/path` takes the files of another directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use e2e::differential::{Pair, Protocol, Report, run};
use e2e::script;
use testkit::{Cluster, Server, ServerOptions};

/// Two clusters, at the same time: one session alone leaves half of two processors idle.
const PARTS: usize = 2;

#[test]
fn every_case_answers_like_one_postgresql() {
    cases_answer_like_one_postgresql(0);
}

#[test]
fn every_case_answers_like_one_postgresql_second_part() {
    cases_answer_like_one_postgresql(1);
}

fn cases_answer_like_one_postgresql(part: usize) {
    let all = cases();
    assert!(!all.is_empty(), "no case file matches LOXO_E2E_CASES");
    let cases: Vec<_> = all.into_iter().skip(part).step_by(PARTS).collect();
    if cases.is_empty() {
        return;
    }
    let cluster = Arc::new(Cluster::start(3, 2).expect("a cluster"));
    let options = ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("its locale");
    let reference = Server::start(&options).expect("a stock server");
    let bless = std::env::var_os("LOXO_E2E_BLESS").is_some() && cluster.is_distributed();
    let verbose = std::env::var_os("LOXO_E2E_VERBOSE").is_some();
    let takes_both = bless || std::env::var_os("LOXO_E2E_ALL").is_some();
    let (mut compared, mut runs, mut differ, mut refused) = (0, 0, Vec::new(), Vec::new());
    for (at, (file, source)) in cases.into_iter().enumerate() {
        let variants = script::variants(&script::parse(&source));
        let mut refusals: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for (turn, variant) in variants.iter().enumerate() {
            let both = [Protocol::Simple, Protocol::Extended];
            let protocols = if takes_both { both.as_slice() } else { &both[(at + turn) % 2..][..1] };
            for &protocol in protocols {
                runs += 1;
                // New sessions, on the coordinators in turn: what one of them changed the others must see.
                let mut pair = Pair {
                    reference: reference.connect().expect("a session"),
                    cluster: cluster.connect(runs % 2).expect("a session"),
                    distributed: cluster.is_distributed(),
                    audited: Some(cluster.clone()),
                };
                let label = format!("[{protocol:?}, {variant}]");
                let report = run(&mut pair, &file, &source, variant, protocol).unwrap_or_else(|error| Report {
                    differences: vec![format!("{file}.sql: the run broke off: {error:?}")],
                    ..Report::default()
                });
                if verbose {
                    let (differ, refused) = (report.differences.len(), report.refused.len());
                    eprintln!("{file} {label}: {} compared, {differ} differ, {refused} refused", report.compared);
                }
                compared += report.compared;
                differ.extend(report.differences.into_iter().map(|text| format!("{label} {text}")));
                for refusal in report.refused {
                    refusals.entry(refusal.line).or_default().insert(variant.tag());
                    if !refusal.expected {
                        refused.push(format!("{label} {}", refusal.text));
                    }
                }
            }
        }
        if bless {
            std::fs::write(case_path(&file), script::bless(&source, &variants, &refusals))
                .expect("a case file is written");
        }
    }
    for text in differ.iter().chain(&refused) {
        eprintln!("{text}");
    }
    assert!(compared > 0, "the case files hold no statements");
    let (differ, refused) = (differ.len(), refused.len());
    eprintln!("{compared} statements in {runs} runs compared, {differ} differ, {refused} refused without `-- refused`");
    assert!(differ == 0 && (bless || refused == 0));
}

fn case_dir() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    std::env::var_os("LOXO_E2E_DIR").map_or_else(own, PathBuf::from)
}

fn case_path(name: &str) -> PathBuf {
    case_dir().join(name).with_extension("sql")
}

fn cases() -> Vec<(String, String)> {
    let words = std::env::var("LOXO_E2E_CASES").unwrap_or_default();
    let wanted = |name: &str| words.is_empty() || words.split(',').any(|word| name.contains(word));
    let mut cases: Vec<(String, String)> = std::fs::read_dir(case_dir())
        .expect("the cases directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a readable case file"))
        })
        .filter(|(name, _)| wanted(name))
        .collect();
    cases.sort();
    cases
}
