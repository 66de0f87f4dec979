//! The workloads against a cluster, in peace and while its processes die.
//!
//! `LOXO_FAULTS_SECONDS` is how long each test's workload runs (3 by default, for `make suites`; `make faults` takes a minute).
//! `LOXO_FAULTS_SEED` repeats the random numbers of a run, though not its timing; by default they are fresh ones.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use faults::checker::{self, Level, Step};
use faults::links::Detours;
use faults::processes::Kind;
use faults::{Outcome, aftermath, bank, chaos, copies, counters, history, moves, points, processes};
use testkit::{Cluster, number};

/// In-doubt transactions are resolved so soon after everything runs again.
const RESOLVED_MAX: Duration = Duration::from_secs(20);
const EVERYONE: [Kind; 3] = [Kind::Coordinator, Kind::Gtm, Kind::Datanode];

/// One cluster for all tests of this file, one test at a time: they kill its processes.
fn cluster() -> MutexGuard<'static, Cluster> {
    static CLUSTER: LazyLock<Mutex<Cluster>> =
        LazyLock::new(|| Mutex::new(Cluster::start_with(3, 2, &["--gtm-standby"]).expect("a cluster")));
    let cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    // A test that failed may have left something dead.
    cluster.up().expect("everything runs");
    cluster
}

fn duration() -> Duration {
    Duration::from_secs(number("LOXO_FAULTS_SECONDS").unwrap_or(3))
}

/// What a reader must never see is what one PostgreSQL never shows: the suite itself would be wrong if it said so.
#[test]
fn one_stock_server_passes_all_of_it() {
    let server = Cluster::stock(2).expect("a stock server");
    let peaceful: [fn(&Cluster, Duration); 6] =
        [bank_in_peace, copies_in_peace, long_fork, monotonic_reads, history_in_peace, serializable];
    peaceful.iter().for_each(|test| test(&server, Duration::from_secs(1)));
}

fn seed() -> u64 {
    static SEED: LazyLock<u64> = LazyLock::new(|| testkit::seed("LOXO_FAULTS_SEED"));
    *SEED
}

#[test]
fn sums_are_right_at_any_moment() {
    bank_in_peace(&cluster(), duration());
}

/// Where nothing dies, nothing is waited for in vain, however slow the machine.
fn patient(options: bank::Options) -> bank::Options {
    bank::Options { setup: "SET lock_timeout = '30s'".into(), ..options }
}

fn bank_in_peace(cluster: &Cluster, duration: Duration) {
    let options = patient(bank::Options::new(duration, seed()));
    bank::create(cluster, &options).expect("tables");
    let (report, ()) = bank::run(cluster, &options, |_| ());
    eprintln!("{report}");
    aftermath::until_quiet(cluster, RESOLVED_MAX).expect("nothing is in doubt");
    bank::audit(cluster, &options, &report).expect("what was acknowledged is there");
    // REPEATABLE READ writers meet each other; nothing else may go wrong while nobody dies.
    let unexpected: Vec<_> = report.errors.keys().filter(|error| *error != "writer 40001").collect();
    assert!(unexpected.is_empty(), "{report}");
    report.check().expect("all sums are right");
}

#[test]
fn sums_are_right_while_processes_die() {
    let cluster = cluster();
    // Time to come back belongs to it.
    let options = bank::Options::new(duration() * 2, seed());
    bank::create(&cluster, &options).expect("tables");
    let (report, killed) = bank::run(&cluster, &options, |end| chaos::run(&cluster, seed(), end, &EVERYONE));
    let killed = killed.expect("the cluster comes back");
    eprintln!("{report}\n{killed}");
    assert!(!killed.faults.is_empty(), "nobody was killed");
    aftermath::until_quiet(&cluster, RESOLVED_MAX).expect("nothing is in doubt");
    bank::audit(&cluster, &options, &report).expect("what was acknowledged is there");
    report.check().expect("all sums are right");
}

/// A gtm that has lost its lock and goes on, a coordinator that only the datanodes know of, and the like.
#[test]
fn sums_are_right_while_links_break() {
    let cluster = cluster();
    let options = bank::Options::new(duration() * 2, seed());
    bank::create(&cluster, &options).expect("tables");
    let detours = Detours::start(&cluster).expect("processes behind relays");
    let (report, broken) = bank::run(&cluster, &options, |end| detours.run(seed(), end));
    eprintln!("{report}\n{broken:?}");
    assert!(!broken.faults.is_empty(), "no link was broken");
    aftermath::until_quiet(&cluster, RESOLVED_MAX).expect("nothing is in doubt");
    drop(detours);
    cluster.up().expect("everything runs");
    bank::audit(&cluster, &options, &report).expect("what was acknowledged is there");
    report.check().expect("all sums are right");
}

#[test]
fn sums_are_right_while_rows_move() {
    let cluster = cluster();
    let options = patient(bank::Options::new(duration() * 2, seed()));
    bank::create(&cluster, &options).expect("tables");
    let (report, moved) = bank::run(&cluster, &options, |end| moves::back_and_forth(&cluster, || Instant::now() < end));
    eprintln!("{report}\n{}", moved.expect("rows move"));
    aftermath::until_quiet(&cluster, RESOLVED_MAX).expect("nothing is in doubt");
    bank::audit(&cluster, &options, &report).expect("what was acknowledged is there");
    // Nobody is refused but transactions of several statements, which may begin anew.
    let unexpected: Vec<_> = report.errors.keys().filter(|error| !error.ends_with(" 40001")).collect();
    assert!(unexpected.is_empty(), "{report}");
    report.check().expect("all sums are right");
}

#[test]
fn sums_are_right_while_rows_move_and_processes_die() {
    let cluster = cluster();
    let options = bank::Options::new(duration() * 2, seed());
    bank::create(&cluster, &options).expect("tables");
    let (report, (moved, killed)) = bank::run(&cluster, &options, |end| {
        std::thread::scope(|scope| {
            let moved = scope.spawn(|| moves::back_and_forth(&cluster, || Instant::now() < end));
            let killed = chaos::run(&cluster, seed(), end, &EVERYONE).expect("the cluster comes back");
            (moved.join().expect("no panic"), killed)
        })
    });
    eprintln!("{report}\n{}\n{killed}", moved.expect("rows move to the end once everything runs"));
    aftermath::until_quiet(&cluster, RESOLVED_MAX).expect("nothing is in doubt");
    bank::audit(&cluster, &options, &report).expect("what was acknowledged is there");
    report.check().expect("all sums are right");
}

#[test]
fn it_explains_everything_also_while_rows_move() {
    let cluster = cluster();
    history::create(&cluster).expect("a table");
    let options = history::Options::new(duration() * 2, seed());
    let (recording, moved) =
        history::run(&cluster, &options, |end| moves::back_and_forth(&cluster, || Instant::now() < end));
    eprintln!("{}", moved.expect("rows move"));
    judge(&cluster, recording);
}

#[test]
fn it_explains_everything_also_while_links_break() {
    let cluster = cluster();
    history::create(&cluster).expect("a table");
    let options = history::Options::new(duration() * 2, seed());
    let detours = Detours::start(&cluster).expect("processes behind relays");
    let (recording, broken) = history::run(&cluster, &options, |end| detours.run(seed() + 1, end));
    eprintln!("{broken:?}");
    aftermath::until_quiet(&cluster, RESOLVED_MAX).expect("nothing is in doubt");
    drop(detours);
    cluster.up().expect("everything runs");
    judge(&cluster, recording);
}

#[test]
fn commits_have_one_order_for_everybody() {
    long_fork(&cluster(), duration());
}

fn long_fork(cluster: &Cluster, duration: Duration) {
    let counters = counters::Counters::create(cluster).expect("a table");
    let seen = counters.long_fork(cluster, duration, "").expect("nothing fails");
    eprintln!("long fork: {} looks, {} pairs, {} forks", seen.looks, seen.values, seen.wrong.len());
    assert!(seen.values >= counters::VALUES_MIN, "too little was seen: {seen:?}");
    assert!(seen.wrong.is_empty(), "{:?}", &seen.wrong[..seen.wrong.len().min(5)]);
}

#[test]
fn a_session_does_not_go_back_in_time() {
    monotonic_reads(&cluster(), duration());
}

fn monotonic_reads(cluster: &Cluster, duration: Duration) {
    let counters = counters::Counters::create(cluster).expect("a table");
    let seen = counters.monotonic_reads(cluster, duration, "").expect("nothing fails");
    eprintln!("monotonic reads: {} looks, {} changes, {} backwards", seen.looks, seen.values, seen.wrong.len());
    assert!(seen.values >= counters::VALUES_MIN, "too little was seen: {} changes", seen.values);
    assert!(seen.wrong.is_empty(), "{:?}", &seen.wrong[..seen.wrong.len().min(5)]);
}

#[test]
fn copies_do_not_part() {
    copies_in_peace(&cluster(), duration());
}

fn copies_in_peace(cluster: &Cluster, duration: Duration) {
    copies::create(cluster).expect("tables");
    let (report, ()) = copies::run(cluster, duration, seed(), |_| ());
    judge_copies(cluster, &report);
    // A lock that is waited for too long, or a row that changed: nothing else may go wrong while nobody dies.
    let unexpected: Vec<_> =
        report.errors.iter().filter(|(code, _)| !["40001", "40P01", "55P03"].contains(&code.as_str())).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
}

#[test]
fn copies_do_not_part_while_processes_die() {
    let cluster = cluster();
    copies::create(&cluster).expect("tables");
    let (report, killed) =
        copies::run(&cluster, duration() * 2, seed(), |end| chaos::run(&cluster, seed() + 2, end, &EVERYONE));
    eprintln!("{}", killed.expect("the cluster comes back"));
    judge_copies(&cluster, &report);
}

fn judge_copies(cluster: &Cluster, report: &copies::Report) {
    let copies::Report { committed, looks, wrong, errors } = report;
    eprintln!("copies: {committed} committed; {looks} looks, {} wrong; errors {errors:?}", wrong.len());
    aftermath::until_quiet(cluster, RESOLVED_MAX).expect("nothing is in doubt");
    copies::audit(cluster).expect("all copies are alike");
    assert!(report.is_enough(), "too little was done");
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn one_order_of_commits_and_snapshots_explains_everything() {
    history_in_peace(&cluster(), duration());
}

fn history_in_peace(cluster: &Cluster, duration: Duration) {
    history::create(cluster).expect("a table");
    let options = history::Options::new(duration, seed());
    let (recording, ()) = history::run(cluster, &options, |_| ());
    judge(cluster, recording);
}

#[test]
fn serializable_transactions_might_have_run_one_after_the_other() {
    serializable(&cluster(), duration() * 2);
}

fn serializable(cluster: &Cluster, duration: Duration) {
    let not_in_a_row = |level, duration| {
        history::create(cluster).expect("a table");
        let options = history::Options::new(duration, seed()).at(level);
        let (mut recording, ()) = history::run(cluster, &options, |_| ());
        aftermath::until_quiet(cluster, RESOLVED_MAX).expect("nothing is in doubt");
        recording.history.end(cluster).expect("the datanodes answer");
        let [committed, refused] = [Outcome::Committed, Outcome::Refused].map(|outcome| recording.count(outcome));
        let (skews, other) = (checker::check_serializable(&recording.history), checker::check(&recording.history));
        eprintln!(
            "{level:?}: {committed} committed, {refused} refused; errors {:?}; {} skews",
            recording.errors,
            skews.len()
        );
        assert!(other.is_empty(), "{} anomalies, first {}", other.len(), other[0]);
        assert!(committed > 50, "too little was done");
        skews
    };
    let skews = not_in_a_row(Level::Serializable, duration);
    assert!(skews.is_empty(), "{} anomalies, first {}", skews.len(), skews[0]);
    // It could have seen one.
    assert!(!not_in_a_row(Level::RepeatableRead, duration).is_empty(), "the test cannot see anything");
}

#[test]
fn it_does_also_while_processes_die() {
    let cluster = cluster();
    history::create(&cluster).expect("a table");
    // While the first datanode is dead nothing comes of any transaction.
    let options = history::Options::new(duration() * 4, seed());
    let (recording, killed) = history::run(&cluster, &options, |end| chaos::run(&cluster, seed() + 1, end, &EVERYONE));
    eprintln!("{}", killed.expect("the cluster comes back"));
    judge(&cluster, recording);
}

/// While transactions take long to become visible on their last datanodes, whoever has seen them on the first is about.
#[test]
fn it_does_also_while_commits_are_slow() {
    let cluster = cluster();
    points::check_binary().expect("a binary with control points");
    let coordinators_anew = |orders: &[(&str, &str)]| {
        let mut running = processes::running(&cluster).expect("processes");
        running.retain(|process| process.kind == Kind::Coordinator);
        running.iter().for_each(|process| processes::kill(&cluster, process).expect("a coordinator dies"));
        cluster.up_with(orders).expect("it starts again");
    };
    coordinators_anew(&[("LOXO_CONTROL_POINTS", "before-commit-prepared=slow")]);
    let judged = std::panic::catch_unwind(|| history_in_peace(&cluster, duration()));
    coordinators_anew(&[]);
    judged.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn judge(cluster: &Cluster, mut recording: history::Recording) {
    aftermath::until_quiet(cluster, RESOLVED_MAX).expect("nothing is in doubt");
    recording.history.end(cluster).expect("the datanodes answer");
    let begin = Instant::now();
    let anomalies = checker::check(&recording.history);
    let [committed, refused, unknown] =
        [Outcome::Committed, Outcome::Refused, Outcome::Unknown].map(|outcome| recording.count(outcome));
    eprintln!(
        "history: {committed} committed, {refused} refused, {unknown} unknown; errors {:?}; {} anomalies; checked in {:?}",
        recording.errors,
        anomalies.len(),
        begin.elapsed()
    );
    // A history in which nobody met anybody would prove nothing.
    let of = |level| recording.history.transactions.iter().filter(move |t| t.level == level && t.statements.len() > 1);
    let reads =
        |t: &&checker::Transaction| t.statements.iter().any(|s| matches!(&s.step, Step::Read(rows) if rows.len() > 1));
    for level in [Level::ReadCommitted, Level::RepeatableRead] {
        assert!(of(level).filter(reads).count() > 20, "too few transactions of {level:?}");
    }
    assert!(!recording.errors.contains_key("58030"), "rows were missing: {:?}", recording.errors);
    let shown = anomalies.iter().take(8).map(|anomaly| {
        let transactions: Vec<String> = anomaly.transactions.iter().map(|t| recording.history.tell(*t)).collect();
        format!("{anomaly}\n    {}", transactions.join("\n    "))
    });
    let shown: Vec<String> = shown.collect();
    assert!(anomalies.is_empty(), "{} anomalies:\n{}", anomalies.len(), shown.join("\n"));
}
