//! The checker itself: it must find what is wrong with made-up histories, let pass what PostgreSQL allows, and agree with an
//! independent checker (crate `adya`) where that one has a say.

use std::collections::BTreeMap;

use faults::Outcome;
use faults::checker::{
    Element, History, Key, Kind, Level, Span, Statement, Step, Transaction, check, check_serializable,
};

const ALWAYS: Span = Span { begin: 0, end: u64::MAX };

/// A transaction that overlaps all others, unless it gets a span.
fn transaction(level: Level, steps: Vec<Step>) -> Transaction {
    let statements = steps.into_iter().map(|step| Statement { span: ALWAYS, step }).collect();
    Transaction { session: None, level, statements, outcome: Outcome::Committed, commit: ALWAYS }
}

fn rc(steps: Vec<Step>) -> Transaction {
    transaction(Level::ReadCommitted, steps)
}

fn rr(steps: Vec<Step>) -> Transaction {
    transaction(Level::RepeatableRead, steps)
}

fn with(outcome: Outcome, transaction: Transaction) -> Transaction {
    Transaction { outcome, ..transaction }
}

/// All of it between `begin` and `end`.
fn during(begin: u64, end: u64, mut transaction: Transaction) -> Transaction {
    transaction.commit = Span { begin, end };
    transaction.statements.iter_mut().for_each(|statement| statement.span = Span { begin, end });
    transaction
}

fn read(rows: &[(Key, &[Element])]) -> Step {
    Step::Read(rows.iter().map(|(key, list)| (*key, list.to_vec())).collect())
}

fn append(keys: &[Key], element: Element) -> Step {
    Step::Append(keys.to_vec(), element)
}

#[track_caller]
fn expect(expected: &[Kind], transactions: Vec<Transaction>, finals: &[(Key, &[Element])]) {
    let finals: BTreeMap<_, _> = finals.iter().map(|(key, list)| (*key, list.to_vec())).collect();
    let homes = BTreeMap::new();
    expect_of(expected, &History { transactions, finals, homes });
}

#[track_caller]
fn expect_of(expected: &[Kind], history: &History) {
    let anomalies = check(history);
    let mut kinds: Vec<Kind> = anomalies.iter().map(|anomaly| anomaly.kind).collect();
    kinds.sort();
    kinds.dedup();
    assert_eq!(kinds, expected, "{anomalies:#?}");
}

#[test]
fn write_skew_is_no_row_of_transactions() {
    let skew = |level| {
        let one = transaction(level, vec![read(&[(1, &[]), (2, &[])]), append(&[1], 10)]);
        let other = transaction(level, vec![read(&[(1, &[]), (2, &[])]), append(&[2], 11)]);
        vec![one, other]
    };
    let finals = BTreeMap::from([(1, vec![10]), (2, vec![11])]);
    let history = |transactions| History { transactions, finals: finals.clone(), ..History::default() };
    let found = check_serializable(&history(skew(Level::Serializable)));
    assert_eq!(found.iter().map(|anomaly| anomaly.kind).collect::<Vec<_>>(), [Kind::WriteSkew], "{found:?}");
    assert_eq!(check(&history(skew(Level::Serializable))), []);
    // One that was refused was shown what it was shown.
    let mut refused = skew(Level::Serializable);
    refused[1] = with(Outcome::Refused, transaction(Level::Serializable, vec![read(&[(1, &[]), (2, &[])])]));
    assert_eq!(
        check_serializable(&History {
            transactions: refused,
            finals: BTreeMap::from([(1, vec![10])]),
            ..History::default()
        }),
        []
    );
}

#[test]
fn a_serial_history_is_right() {
    let first = during(1, 2, rr(vec![append(&[1, 2], 10), read(&[(1, &[10]), (2, &[10])])]));
    let second = during(3, 4, rc(vec![read(&[(1, &[10])]), append(&[1], 11), read(&[(1, &[10, 11]), (2, &[10])])]));
    expect(&[], vec![first, second], &[(1, &[10, 11]), (2, &[10])]);
}

#[test]
fn half_a_transaction_in_one_statement_is_a_torn_read() {
    for level in [rc, rr] {
        let reader = level(vec![read(&[(1, &[10]), (2, &[])])]);
        expect(&[Kind::TornRead], vec![rc(vec![append(&[1, 2], 10)]), reader], &[(1, &[10]), (2, &[10])]);
    }
}

#[test]
fn in_two_statements_read_committed_may_see_it_and_repeatable_read_may_not() {
    let steps = || vec![read(&[(2, &[])]), read(&[(1, &[10])])];
    let finals: &[(Key, &[Element])] = &[(1, &[10]), (2, &[10])];
    expect(&[], vec![rc(vec![append(&[1, 2], 10)]), rc(steps())], finals);
    expect(&[Kind::TornRead], vec![rc(vec![append(&[1, 2], 10)]), rr(steps())], finals);
}

#[test]
fn read_committed_may_not_go_back_in_time() {
    let reader = rc(vec![read(&[(1, &[10])]), read(&[(2, &[])])]);
    expect(&[Kind::TornRead], vec![rc(vec![append(&[1, 2], 10)]), reader], &[(1, &[10]), (2, &[10])]);
}

#[test]
fn a_long_fork_is_found_and_write_skew_is_not() {
    let writers = || vec![rc(vec![append(&[1], 10)]), rc(vec![append(&[2], 20)])];
    let finals: &[(Key, &[Element])] = &[(1, &[10]), (2, &[20])];
    let fork = [rr(vec![read(&[(1, &[10]), (2, &[])])]), rc(vec![read(&[(1, &[]), (2, &[20])])])];
    expect(&[Kind::LongFork], writers().into_iter().chain(fork).collect(), finals);
    let skew = [
        rr(vec![read(&[(1, &[]), (2, &[])]), append(&[1], 10)]),
        rr(vec![read(&[(1, &[]), (2, &[])]), append(&[2], 20)]),
    ];
    expect(&[], skew.into(), finals);
}

#[test]
fn a_lost_update_is_found_only_where_postgresql_prevents_it() {
    let both = |level: fn(Vec<Step>) -> Transaction| {
        vec![level(vec![read(&[(1, &[])]), append(&[1], 10)]), level(vec![read(&[(1, &[])]), append(&[1], 11)])]
    };
    expect(&[Kind::TornRead], both(rr), &[(1, &[10, 11])]);
    expect(&[], both(rc), &[(1, &[10, 11])]);
}

#[test]
fn cycles_of_writes_and_of_information_are_found() {
    let writers = vec![rc(vec![append(&[1], 10), append(&[2], 11)]), rc(vec![append(&[2], 20), append(&[1], 21)])];
    expect(&[Kind::WriteCycle], writers, &[(1, &[10, 21]), (2, &[20, 11])]);
    let informed =
        vec![rc(vec![append(&[1], 10), read(&[(2, &[20])])]), rc(vec![append(&[2], 20), read(&[(1, &[10])])])];
    expect(&[Kind::InformationCycle], informed, &[(1, &[10]), (2, &[20])]);
}

/// Whoever waited for a row goes on after the commit it waited for, and must see all of it.
#[test]
fn after_a_row_lock_the_whole_transaction_is_seen() {
    let waited = |level: fn(Vec<Step>) -> Transaction, steps| vec![rc(vec![append(&[1, 2], 10)]), level(steps)];
    let blind = || vec![append(&[1], 11), read(&[(2, &[])])];
    let finals: &[(Key, &[Element])] = &[(1, &[10, 11]), (2, &[10])];
    expect(&[Kind::TornRead], waited(rc, blind()), finals);
    expect(&[Kind::TornRead], waited(rr, blind()), finals);
    expect(&[], waited(rc, vec![read(&[(2, &[])]), append(&[1], 11), read(&[(2, &[10])])]), finals);
}

/// A transaction is shown by the datanode of row 2 already, where another came after it and was acknowledged, and not yet by that
/// of row 1.
#[test]
fn a_read_of_one_datanode_may_miss_what_is_becoming_visible() {
    let history = |reader: Transaction, between: Vec<Transaction>| {
        let several = during(0, 50, rc(vec![append(&[1, 2], 10)]));
        let next = Transaction { session: Some(7), ..during(5, 20, rc(vec![append(&[2], 11)])) };
        let transactions = [several, next, reader].into_iter().chain(between).collect();
        let finals = BTreeMap::from([(1, vec![10]), (2, vec![10, 11])]);
        History { transactions, finals, homes: BTreeMap::from([(1, 0), (2, 1), (3, 1)]) }
    };
    let late = || during(30, 40, rc(vec![read(&[(1, &[])])]));
    expect_of(&[], &history(late(), vec![]));
    // Not in the session that came after it, nor in a global snapshot, nor when it was acknowledged, nor when a global snapshot has shown it.
    expect_of(&[Kind::Stale], &history(Transaction { session: Some(7), ..late() }, vec![]));
    expect_of(&[Kind::Stale], &history(during(30, 40, rr(vec![read(&[(1, &[])])])), vec![]));
    expect_of(&[Kind::Stale], &history(during(30, 40, rc(vec![read(&[(1, &[]), (3, &[])])])), vec![]));
    expect_of(&[Kind::Stale], &history(during(60, 70, rc(vec![read(&[(1, &[])])])), vec![]));
    let snapshot = during(21, 25, rc(vec![read(&[(1, &[10]), (2, &[10, 11])])]));
    expect_of(&[Kind::Stale], &history(late(), vec![snapshot]));
}

#[test]
fn what_was_acknowledged_must_be_seen_afterwards() {
    let writer = || during(1, 2, rc(vec![append(&[1], 10)]));
    let reader = |begin| during(begin, 9, rc(vec![read(&[(1, &[])])]));
    expect(&[Kind::Stale], vec![writer(), reader(3)], &[(1, &[10])]);
    expect(&[], vec![writer(), reader(1)], &[(1, &[10])]);
    // The other way round: nobody sees what is asked for only later.
    let early = during(1, 2, rc(vec![read(&[(1, &[10])])]));
    expect(&[Kind::Stale], vec![during(3, 4, rc(vec![append(&[1], 10)])), early], &[(1, &[10])]);
    // Through a third one that overlaps neither for its client.
    let between = during(3, 4, rc(vec![append(&[2], 20)]));
    let late = during(5, 6, rr(vec![read(&[(1, &[]), (2, &[20])])]));
    expect(&[Kind::Stale], vec![writer(), between, late], &[(1, &[10]), (2, &[20])]);
}

#[test]
fn outcomes_are_held_against_what_is_there() {
    let writer = || rc(vec![append(&[1], 10), append(&[2], 11)]);
    expect(&[Kind::Lost], vec![writer()], &[(1, &[10])]);
    expect(&[Kind::Lost], vec![writer()], &[]);
    expect(&[Kind::Lost], vec![with(Outcome::Unknown, writer())], &[(2, &[11])]);
    expect(&[], vec![with(Outcome::Unknown, writer())], &[]);
    expect(&[], vec![with(Outcome::Unknown, writer())], &[(1, &[10]), (2, &[11])]);
    expect(&[Kind::AbortedRead], vec![with(Outcome::Refused, writer())], &[(1, &[10]), (2, &[11])]);
    expect(&[], vec![with(Outcome::Refused, writer())], &[]);
    let reader = rc(vec![read(&[(1, &[10])])]);
    expect(&[Kind::AbortedRead], vec![with(Outcome::Refused, writer()), reader], &[]);
}

#[test]
fn lists_that_do_not_fit_together_are_found() {
    let writers = || vec![rc(vec![append(&[1], 10)]), rc(vec![append(&[1], 20)])];
    let and = |more: Transaction| writers().into_iter().chain([more]).collect();
    expect(&[Kind::Garbled], and(rc(vec![read(&[(1, &[20])])])), &[(1, &[10, 20])]);
    expect(&[Kind::Garbled], writers(), &[(1, &[10, 20, 30])]);
    expect(&[Kind::Garbled], writers(), &[(1, &[10, 10, 20])]);
    let twice = rc(vec![append(&[1], 10), append(&[1], 11)]);
    expect(&[Kind::IntermediateRead], vec![twice, rc(vec![read(&[(1, &[10])])])], &[(1, &[10, 11])]);
    let blind = rc(vec![append(&[1], 10), read(&[(1, &[])])]);
    expect(&[Kind::NotOwnWrite], vec![blind], &[(1, &[10])]);
}

mod second_opinion {
    //! Random REPEATABLE READ histories of a made-up store with two datanodes, honest or with a flaw. (Of READ COMMITTED
    //! crate `adya` knows less than we need: it has no snapshots of single statements.)

    use super::*;
    use testkit::Rng;

    /// What is wrong with the store.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Flaw {
        None,
        /// Each datanode has its own snapshot, taken when it is first asked.
        SnapshotPerNode,
        /// Snapshots may be some commits old.
        OldSnapshots,
        /// Appends do not look whether the row has changed since the snapshot.
        NoConflicts,
    }

    const KEYS: usize = 4;
    const CLIENTS: usize = 5;

    /// A transaction that runs.
    struct Running {
        begin: u64,
        /// By datanode: how many commits it sees.
        snapshots: [Option<usize>; 2],
        steps: Vec<(Span, Step)>,
        own: Vec<(Key, Element)>,
    }

    struct Store {
        flaw: Flaw,
        rng: Rng,
        clock: u64,
        element: Element,
        /// The appends of each commit.
        log: Vec<Vec<(Key, Element)>>,
        history: History,
    }

    impl Store {
        fn now(&mut self) -> u64 {
            self.clock += 1;
            self.clock
        }

        fn list(&self, key: Key, commits: usize) -> Vec<Element> {
            self.log[..commits].iter().flatten().filter(|(k, _)| *k == key).map(|(_, element)| *element).collect()
        }

        fn snapshot(&mut self, running: &mut Running, key: Key) -> usize {
            let node = key as usize % 2;
            if running.snapshots[node].is_none() {
                let age = if self.flaw == Flaw::OldSnapshots { self.rng.below(3) } else { 0 };
                let taken = self.log.len().saturating_sub(age);
                match self.flaw {
                    Flaw::SnapshotPerNode => running.snapshots[node] = Some(taken),
                    _ => running.snapshots = [Some(taken); 2],
                }
            }
            running.snapshots[node].unwrap_or_default()
        }

        /// False if the transaction gets 40001.
        fn step(&mut self, running: &mut Running, locked: &[Key]) -> bool {
            let key = self.rng.below(KEYS) as Key;
            let begin = self.now();
            let commits = self.snapshot(running, key);
            let step = if self.rng.one_in(2) {
                let mut list = self.list(key, commits);
                list.extend(running.own.iter().filter(|(k, _)| *k == key).map(|(_, element)| *element));
                Step::Read(vec![(key, list)])
            } else {
                let changed = self.list(key, commits).len() != self.list(key, self.log.len()).len();
                if locked.contains(&key) || (changed && self.flaw != Flaw::NoConflicts) {
                    return false;
                }
                self.element += 1;
                running.own.push((key, self.element));
                Step::Append(vec![key], self.element)
            };
            let end = self.now();
            running.steps.push((Span { begin, end }, step));
            true
        }

        fn end(&mut self, running: Running, outcome: Outcome) {
            let begin = self.now();
            if outcome == Outcome::Committed {
                self.log.push(running.own);
            }
            let commit = Span { begin, end: self.now() };
            let statements = running.steps.into_iter().map(|(span, step)| Statement { span, step }).collect();
            let transaction = Transaction { session: None, level: Level::RepeatableRead, statements, outcome, commit };
            self.history.transactions.push(transaction);
        }
    }

    /// Transactions in the order of their ends, and when each began.
    fn simulate(flaw: Flaw, seed: u64, transactions: usize) -> History {
        let (rng, history) = (Rng::new(seed), History::default());
        let mut store = Store { flaw, rng, clock: 0, element: 0, log: Vec::new(), history };
        let mut clients: Vec<Option<Running>> = (0..CLIENTS).map(|_| None).collect();
        while store.history.transactions.len() < transactions {
            let client = store.rng.below(CLIENTS);
            let begin = store.now();
            let fresh = Running { begin, snapshots: [None; 2], steps: Vec::new(), own: Vec::new() };
            let mut running = clients[client].take().unwrap_or(fresh);
            let locked: Vec<Key> = clients.iter().flatten().flat_map(|r| r.own.iter().map(|(key, _)| *key)).collect();
            let goes_on = running.steps.len() < 2 || store.rng.below(3) > 0;
            match goes_on && running.begin > 0 {
                true if store.step(&mut running, &locked) => clients[client] = Some(running),
                true => store.end(running, Outcome::Refused),
                false => store.end(running, Outcome::Committed),
            }
        }
        store.history.finals = (0..KEYS as Key).map(|key| (key, store.list(key, store.log.len()))).collect();
        store.history
    }

    /// As `adya` sees it: it knows of a transaction only when it began and ended, and nothing of the reads of one that was refused.
    fn coarse(history: &History) -> History {
        let mut coarse = history.clone();
        for t in &mut coarse.transactions {
            let begin = t.statements.first().map_or(t.commit.begin, |statement| statement.span.begin);
            if t.outcome == Outcome::Refused {
                t.statements.retain(|statement| matches!(statement.step, Step::Append(..)));
            }
            *t = during(begin, t.commit.end, t.clone());
        }
        coarse
    }

    /// Jepsen's format, one operation a line; the final lists are the reads of a last transaction.
    fn adya_says_it_is_right(history: &History) -> bool {
        let last = u64::MAX - 1;
        let finals = history.finals.iter().map(|(key, list)| Step::Read(vec![(*key, list.clone())]));
        let finals = during(last, last + 1, rr(finals.collect()));
        let mut lines: Vec<(u64, String)> = Vec::new();
        for (process, t) in history.transactions.iter().chain([&finals]).enumerate() {
            let begin = t.statements.first().map_or(t.commit.begin, |statement| statement.span.begin);
            let kind = if t.outcome == Outcome::Committed { "ok" } else { "fail" };
            let steps = |known: bool| {
                let step = |s: &Statement| match &s.step {
                    Step::Append(keys, element) => format!(r#"["append",{},{element}]"#, keys[0]),
                    Step::Read(rows) if known => format!(r#"["r",{},{:?}]"#, rows[0].0, rows[0].1),
                    Step::Read(rows) => format!(r#"["r",{},null]"#, rows[0].0),
                };
                t.statements.iter().map(step).collect::<Vec<_>>().join(",")
            };
            let line =
                |kind: &str, known| format!(r#"{{"type":"{kind}","process":{process},"value":[{}]}}"#, steps(known));
            lines.push((begin, line("invoke", false)));
            lines.push((t.commit.end, line(kind, true)));
        }
        lines.sort();
        let text: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        let parsed = adya::History::from_json(&text.join("\n")).expect("a history");
        let options = adya::Opts { models: vec!["strong-snapshot-isolation".into()], ..adya::Opts::default() };
        adya::check(&parsed, adya::Workload::ListAppend, &options).valid == adya::Valid::True
    }

    #[test]
    fn both_checkers_judge_alike() {
        for flaw in [Flaw::None, Flaw::SnapshotPerNode, Flaw::OldSnapshots, Flaw::NoConflicts] {
            let mut wrong = 0;
            for seed in 0..200 {
                let fine = simulate(flaw, seed, 25);
                let history = coarse(&fine);
                let anomalies = check(&history);
                let theirs = adya_says_it_is_right(&history);
                assert_eq!(anomalies.is_empty(), theirs, "{flaw:?}, seed {seed}: {anomalies:#?}\n{history:#?}");
                assert!(theirs || !check(&fine).is_empty(), "{flaw:?}, seed {seed}: knowing more, it finds less");
                assert!(flaw != Flaw::None || check(&fine).is_empty(), "seed {seed}: {:#?}", check(&fine));
                wrong += usize::from(!theirs);
            }
            eprintln!("{flaw:?}: {wrong} of 200 histories are wrong");
            assert_eq!(wrong == 0, flaw == Flaw::None, "{flaw:?}: {wrong} of 200");
        }
    }
}
